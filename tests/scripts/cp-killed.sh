#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 1800
#
# Servers and clients of iwarp-cp that are killed in the middle: the other side notices within bounded
# time, no half file has its final name, nothing else is left, and the same transfer works again.
# Without O_TMPFILE one hidden file is left, and gone after the next transfer into that directory.
set -u
. tests/support/cp.bash

# Slow enough to be in the middle of it: small slots, one at a time.
slow=(--depth 1 --block 4096 --checksum)
mkdir export away
perl -e 'for (0 .. 29) { seek STDOUT, $_ * 1000000, 0; print "mark $_" } print "end"' >small
# Little of it is ever written, but room for all of it is reserved.
octets=1000000000
[ "$(df --output=avail . | tail -n 1)" -gt 3000000 ] || octets=300000000
truncate -s $octets large export/there

# begin COMMAND...: starts a client in the background and waits until it is in the middle
begin()
{
    # What a shell starts in the background ignores SIGINT otherwise.
    env --default-signal=INT "$@" >client.out 2>client.err &
    client=$!
    children+=("$client")
    eventually begun && kill -0 $client 2>/dev/null
}

begun()
{
    receives "$client" || receives "$server" || ! kill -0 "$client" 2>/dev/null
}

ended_with()
{
    wait_for "$client"
    local status=$?
    [ $status = "$1" ] || { echo "exit status $status, not $1"; return 1; }
}

lost_in_a_sentence()
{
    grep -Eq '^iwarp-cp: .*: the (connection is lost|server closed).*; .*repeat$' client.err &&
        [ "$(wc -l <client.err)" = 1 ]
}

# left_by_kill DIR: a process was killed that had an unfinished copy in DIR
left_by_kill()
{
    [ -n "${CP_DISK-}" ] || no_leftovers "$1" || return 1
    [ "$(find "$1" -name '.iwarp-cp*' | wc -l)" -le 1 ]
}

for action in put get; do
    for signal in KILL TERM; do
        serve export
        url=iwarp://$address
        if [ $action = put ]; then
            command=("$cp" put large "$url/copy") target=export/copy
        else
            command=("$cp" get "$url/there" away/copy) target=away/copy
        fi
        check "$action: in the middle when the server gets SIG$signal" begin "${command[@]}" "${slow[@]}"
        kill -$signal "$server"
        start=$EPOCHREALTIME
        check "$action, SIG$signal: the client ends with 4" ended_with 4
        check "$action, SIG$signal: at once, not after a timeout" \
            test $((${EPOCHREALTIME/./} - ${start/./})) -lt 60000000
        if [ $signal = KILL ]; then
            check "$action, SIGKILL: it says so in a sentence" lost_in_a_sentence
            wait_for "$server"
        else
            check "$action, SIGTERM: it was told why" grep -q 'being shut down; repeat' client.err
            check "$action, SIGTERM: the server ends in order" wait_for "$server"
        fi
        check "$action, SIG$signal: no half file" test ! -e $target
        if [ $signal = KILL ]; then
            check "$action, SIGKILL: nothing is left" left_by_kill .
        else
            check "$action, SIG$signal: nothing is left" no_leftovers .
        fi
        check "$action, SIG$signal: the export is as before" test "$(entries export)" = there
        serve export
        url=iwarp://$address
        if [ $action = put ]; then
            check "put again" succeeds "$cp" put small "$url/copy"
        else
            cp small export/small
            check "get again" succeeds "$cp" get "$url/small" away/copy
            rm export/small
        fi
        check "$action again: is the same" cmp small $target
        check "$action again: nothing is left" no_leftovers .
        rm -f $target
        stop
    done
done

# over a file that is there: it stays as it was
serve export
echo before >export/old
check "over an old file: in the middle" begin "$cp" put large "iwarp://$address/old" "${slow[@]}"
kill -KILL "$server"
check "over an old file: the client ends with 4" ended_with 4
check "over an old file: it is as before" test "$(cat export/old)" = before
check "over an old file: nothing is left" left_by_kill export
wait_for "$server"
rm export/old

# clients
lets_go()
{
    ! receives "$server"
}
serve export
url=iwarp://$address
for signal in KILL TERM INT; do
    check "put client: in the middle" begin "$cp" put large "$url/copy" "${slow[@]}"
    kill -$signal $client
    wait_for $client
    check "put client, SIG$signal: no half file" test ! -e export/copy
    check "put client, SIG$signal: the server lets go" eventually lets_go
    check "put client, SIG$signal: nothing is left" test "$(entries export)" = there
    check "put client, SIG$signal: nor hidden" no_leftovers export
    check "get client: in the middle" begin "$cp" get "$url/there" away/copy "${slow[@]}"
    kill -$signal $client
    wait_for $client
    check "get client, SIG$signal: nothing is left" test -z "$(entries away)"
    check "get client, SIG$signal: nor hidden" left_by_kill away
    check "the server goes on" succeeds "$cp" ls "$url/"
done
check "put at last" succeeds "$cp" put small "$url/copy"
check "is the same" cmp small export/copy
check "nothing is left there" no_leftovers export
check "get at last" succeeds "$cp" get "$url/copy" away/copy
check "nothing is left here" no_leftovers away
rm away/copy
check "the server holds no unfinished file" eventually lets_go
check "the server ends in order" stop
check "and said nothing" test ! -s server.err
finish
