#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Servers and clients of iwarp-cp that are killed in the middle: the other side notices within bounded
# time, no half file has its final name, nothing else is left, and the same transfer works again.
set -u
. tests/support/cp.bash

# Slow enough to be in the middle of it: small slots, one at a time.
slow=(--depth 1 --block 4096)
mkdir export away
head -c 150000000 /dev/zero | tr '\0' 'x' >large
cp large export/there

unfinished()
{
    find "/proc/$server/fd" "/proc/$client/fd" -lname '*(deleted)' 2>/dev/null | grep -q . ||
        ! kill -0 "$client" 2>/dev/null
}

# begin COMMAND...: starts a client in the background and lets it get into the middle: there is an
# unfinished file, without a name
begin()
{
    "$@" >client.out 2>client.err &
    client=$!
    children+=("$client")
    eventually unfinished
    sleep 0.1
    kill -0 "$client" 2>/dev/null
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
        check "$action, SIG$signal: within bounded time" \
            test $((${EPOCHREALTIME/./} - ${start/./})) -lt 60000000
        if [ $signal = KILL ]; then
            check "$action, SIGKILL: it says so in a sentence" lost_in_a_sentence
            wait_for "$server"
        else
            check "$action, SIGTERM: it was told why" grep -q 'being shut down; repeat' client.err
            check "$action, SIGTERM: the server ends in order" wait_for "$server"
        fi
        check "$action, SIG$signal: no half file" test ! -e $target
        check "$action, SIG$signal: nothing is left" no_leftovers .
        check "$action, SIG$signal: the export is as before" test "$(ls -A export)" = there
        serve export
        url=iwarp://$address
        if [ $action = put ]; then
            check "put again" succeeds "$cp" put large "$url/copy"
        else
            check "get again" succeeds "$cp" get "$url/there" away/copy
        fi
        check "$action again: is the same" cmp large $target
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
check "over an old file: nothing is left" no_leftovers export
wait_for "$server"
rm export/old

# clients
serve export
url=iwarp://$address
for signal in KILL TERM; do
    check "put client: in the middle" begin "$cp" put large "$url/copy" "${slow[@]}"
    kill -$signal $client
    wait_for $client
    check "put client, SIG$signal: no half file" test ! -e export/copy
    check "put client, SIG$signal: nothing is left" eventually test "$(ls -A export)" = there
    check "get client: in the middle" begin "$cp" get "$url/there" away/copy "${slow[@]}"
    kill -$signal $client
    wait_for $client
    check "get client, SIG$signal: nothing is left" test -z "$(ls -A away)"
    check "the server goes on" succeeds "$cp" ls "$url/"
done
check "put at last" succeeds "$cp" put large "$url/copy"
check "is the same" cmp large export/copy
deleted()
{
    local i
    for ((i = 0; i < 900; i++)); do
        [ -z "$(find "/proc/$server/fd" -lname '*(deleted)' 2>/dev/null)" ] && return 0
        sleep 0.1
    done
    ls -l "/proc/$server/fd"
    return 1
}
check "the server holds no unfinished file" deleted
check "the server ends in order" stop
check "and said nothing" test ! -s server.err

# a source that becomes shorter while it is being copied
serve export
url=iwarp://$address
check "source cut: in the middle" begin "$cp" put large "$url/cut" "${slow[@]}"
truncate -s 1000 large
check "source cut: the client ends with 1" ended_with 1
check "source cut: sentence" grep -q 'became shorter' client.err
check "source cut: no half file" test ! -e export/cut
check "source cut at the server: in the middle" begin "$cp" get "$url/there" away/cut "${slow[@]}"
truncate -s 1000 export/there
check "source cut at the server: the client ends with 1" ended_with 1
check "source cut at the server: sentence" grep -q 'at the server, the file became shorter' client.err
check "source cut at the server: no half file" test -z "$(ls -A away)"
check "source cut: the server goes on" succeeds "$cp" get "$url/copy" away/whole
stop
finish
