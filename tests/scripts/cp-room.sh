#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 600
#
# What clients may take of a server's disk: room for the data that has come, not for a size that is
# only announced, and never the last of it (--keep-free).  On a small file system of its own.
set -u
if [ -z "${own_mounts-}" ] && unshare -m true 2>/dev/null; then
    own_mounts=1 exec unshare -m "$0"
fi
. tests/support/cp.bash

mkdir disk
if [ -z "${own_mounts-}" ] || ! mount -t tmpfs -o size=100m,nr_inodes=2000 none disk 2>/dev/null; then
    echo "only root may mount a small file system"
    exit 77
fi

# free: MiB that are left
free()
{
    df --output=avail -B 1M disk | tail -n 1 | tr -d ' '
}

free_inodes()
{
    df --output=iavail disk | tail -n 1 | tr -d ' '
}

has_free()
{
    free
    [ "$(free)" -ge "$1" ]
}

# few_taken: a client is served, and for the little that it sent it has little room
few_taken()
{
    has_free 50
}

slow=(--depth 1 --block 4096 --checksum)
truncate -s 80M large
truncate -s 30M third
head -c 1500000 /dev/urandom >small

# a size that is only announced
serve disk || exit 1
"$cp" put "${slow[@]}" large "iwarp://$address/large" >client.out 2>client.err &
client=$!
children+=("$client")
check "a client that announced 80 of 100 MiB" eventually receives "$server"
kill -STOP $client
check "has taken next to nothing" few_taken
check "and keeps nobody from copying" succeeds "$cp" put third "iwarp://$address/third"
kill -KILL $client
wait_for $client
empty()
{
    [ "$(entries disk)" = third ] && has_free 69
}
check "after it everything is free again" eventually empty
check "a file that fits" succeeds "$cp" put third "iwarp://$address/other"
check "a file that does not fit: at once" fails 1 "at the server, the disk is full" \
    "$cp" put "${slow[@]}" large "iwarp://$address/large"
stop
rm -rf disk/*

# what is kept: 5 of 100 MiB unless something else is said
fill()
{
    local i
    for ((i = 0; i < 200; i++)); do
        timeout "$patience" "$cp" put --quiet small "iwarp://$address/$i" >client.out 2>client.err || return 0
    done
    return 1
}
refused()
{
    cat client.err
    grep -q 'at the server, the server keeps the rest of its disk free; .*--keep-free$' client.err
}
serve disk
check "small files until no more are taken" fill
check "because the rest is kept free" refused
check "it is free" has_free 5
head -c "$(($(df --output=avail -B 1 disk | tail -n 1) - 5200000))" /dev/zero >disk/others
check "then nothing is made any more" fails 1 "keeps the rest" "$cp" put small "iwarp://$address/new/dir/"
check "no directory either" test ! -e disk/new
check "what is there can be read" succeeds "$cp" get "iwarp://$address/0" back
stop
rm -rf disk/*

serve --keep-free 45M disk
check "--keep-free: what fits" succeeds "$cp" put third "iwarp://$address/third"
check "--keep-free: what does not" fails 1 "keeps the rest" "$cp" put third "iwarp://$address/other"
mkdir -p tree/sub
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do cp small tree/$i; done
check "--keep-free: a tree, one line" fails 1 "keeps the rest" "$cp" put -r tree "iwarp://$address/tree"
check "--keep-free: it is free" has_free 45
stop
rm -rf disk/*

# many at a time, none of which would be too much alone
serve --keep-free 45M disk
all_at_once()
{
    local i pids=() done=0
    truncate -s 20M twenty
    for i in 1 2 3 4 5 6 7 8; do
        "$cp" put twenty "iwarp://$address/$i" 2>"err$i" &
        pids+=($!)
        children+=($!)
    done
    for i in "${pids[@]}"; do ! wait_for "$i" || done=$((done + 1)); done
    echo "$done done"
    [ $done -ge 1 ] && [ $done -le 3 ]
}
check "many at a time: some of them" all_at_once
check "many at a time: it is free" has_free 45
stop
rm -rf disk/*

# inodes: a twentieth of 2000
mkdir many
(cd many && seq 2500 | xargs touch)
serve disk
check "empty files without end" fails 1 "keeps the rest" "$cp" put -r many "iwarp://$address/many"
check "some inodes are left" test "$(free_inodes)" -ge 90
stop
rm -rf disk/*

serve --keep-free 0 disk
check "--keep-free 0: to the last" fails 1 "the disk is full" \
    "$cp" put -r --json many "iwarp://$address/many"
check "--keep-free 0: nothing is left" test "$(free_inodes)" -le 5
stop
umount -l disk
finish
