#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 600
#
# Files that change while they are being copied, at the client (put) and at the server (get): the copy
# is what the file was, or there is none and the client says why.  Everybody lives, and goes on with
# the next file.
set -u
. tests/support/cp.bash

size=40000000
slow=(--depth 1 --block 4096 --checksum --quiet)
mkdir export away sources
perl -e 'print "old " x ($ARGV[0] / 4)' $size >original
perl -e 'print "NEW " x ($ARGV[0] / 4)' $size >changed

# What becomes of the file $1.
become_shorter() { truncate -s 1000 "$1"; }
become_empty() { : >"$1"; }
become_longer() { echo more >>"$1"; }
become_other() { cat changed >"$1"; }
become_other_in_a_piece() { printf NEW | dd of="$1" bs=1 seek=$((size - 100)) conv=notrunc status=none; }
become_shorter_and_long_again() { truncate -s 1000 "$1" && truncate -s $size "$1"; }
become_replaced() { cp changed new && mv new "$1"; }
become_deleted() { rm "$1"; }
become_a_directory() { rm "$1" && mkdir "$1"; }
become_unreadable() { chmod 0 "$1"; }

# begin ACTION: a tree of two files is being copied, the client stops in the middle of the first; on a
# busy machine a copy may be over before anybody has looked, and is begun again
begin()
{
    local try
    for ((try = 0; try < 10; try++)); do
        copy "$1"
        ! kill -STOP $client 2>/dev/null || return 0
        wait $client
    done
    return 1
}

# copy ACTION: begins to copy, until it is in the middle or over
copy()
{
    local i
    if [ "$1" = put ]; then
        source=sources/tree copy=export/copy
        set -- "$cp" put -r "${slow[@]}" $source "iwarp://$address/copy"
    else
        source=export/tree copy=away/copy
        set -- "$cp" get -r "${slow[@]}" "iwarp://$address/tree" $copy
    fi
    rm -rf $source $copy
    mkdir $source
    cp original $source/a
    echo second >$source/b
    "$@" >client.out 2>client.err &
    client=$!
    children+=("$client")
    for ((i = 0; i < patience * 100; i++)); do
        ! in_the_middle || break
        sleep 0.01
    done
}

in_the_middle()
{
    receives "$client" || receives "$server" || ! kill -0 "$client" 2>/dev/null
}

# goes_on STATUS: the client ends like this
goes_on()
{
    local status
    kill -CONT "$client"
    wait_for "$client"
    status=$?
    [ $status = "$1" ] || { echo "exit status $status, not $1"; return 1; }
}

says()
{
    grep -qE "/a: .*$1" client.err && [ "$(wc -l <client.err)" = 1 ]
}

serve export || exit 1
for action in put get; do
    for change in shorter empty longer other other_in_a_piece shorter_and_long_again; do
        case $change in
        shorter | empty) why="the file became shorter while" ;;
        # These cut the file off first: a request that was in flight may see that.
        other | shorter_and_long_again) why="the file (became shorter|changed) while" ;;
        *) why="the file changed while" ;;
        esac
        check "$action, $change: in the middle" begin $action
        become_$change $source/a
        check "$action, $change: the client ends with 1" goes_on 1
        check "$action, $change: and says why" says "$why"
        check "$action, $change: there is no copy" test ! -e $copy/a
        check "$action, $change: but of the other file" cmp $source/b $copy/b
    done
    for change in replaced deleted a_directory unreadable; do
        check "$action, $change: in the middle" begin $action
        become_$change $source/a
        check "$action, $change: the client ends with 0" goes_on 0
        check "$action, $change: the copy is what the file was" cmp original $copy/a
        check "$action, $change: and of the other file" cmp $source/b $copy/b
    done
done

# Files with another size than their content: 0 in /proc, 4096 in /sys.
no_copy()
{
    fails 1 "its content is not as long as its size says; " "$@" && [ ! -e proc ] && [ ! -e export/proc ]
}
check "put of a file that says it is empty" no_copy "$cp" put /proc/self/status "iwarp://$address/proc"
if [ -r /sys/kernel/mm/transparent_hugepage/enabled ]; then
    check "put of a file that says it is longer" \
        no_copy "$cp" put /sys/kernel/mm/transparent_hugepage/enabled "iwarp://$address/proc"
fi
check "nothing hidden is left" no_leftovers .
check "the server ends in order" stop
check "and said nothing" test ! -s server.err
serve --read-only /proc/sys || exit 1
check "get of a file that says it is empty" no_copy "$cp" get "iwarp://$address/kernel/ostype" proc
stop
finish
