#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# iwarp-bench does each of its tests, with every octet checked, and prints what it says it prints.
# How fast it is does not matter here.
# timeout: 600
set -u
: "${BUILD:?where the build is}"
bench=$BUILD/bin/iwarp-bench
n=0 failed=0

# run NAME FIELD ARGUMENT...: the line of JSON has the field, with a number above 0.
run()
{
    local name=$1 field=$2 output
    shift 2
    n=$((n + 1))
    output=$(timeout 150 "$bench" "$@" 2>&1)
    if [[ $output =~ \"$field\":\ ([0-9.e+-]+) ]] && [[ ${BASH_REMATCH[1]} != 0 ]]; then
        echo "ok $n - $name"
    else
        failed=1
        echo "not ok $n - $name"
        sed 's/^/# /' <<<"$output"
    fi
}

# refuse NAME WORDS ARGUMENT...: exit status 2 and a sentence.
refuse()
{
    local name=$1 words=$2 output status
    shift 2
    n=$((n + 1))
    output=$(timeout 60 "$bench" "$@" 2>&1)
    status=$?
    if [ $status = 2 ] && [[ $output == *"$words"* ]]; then
        echo "ok $n - $name"
    else
        failed=1
        echo "not ok $n - $name: status $status: $output"
    fi
}

short='--seconds 0.2'
# shellcheck disable=SC2086 # options are words
{
    run 'plain TCP, stream' octets_per_s tcp-stream $short --footprint 4M
    run 'plain TCP, ping-pong' us_one_way tcp-pingpong $short
    run 'Write' octets_per_s write $short --footprint 4M
    run 'Write, early' octets_per_s write $short --early
    run 'Write without CRC, FPDUs of 1448 octets' octets_per_s write $short --no-crc --ulpdu 1442
    run 'Read' octets_per_s read $short --footprint 4M
    run 'Send' octets_per_s send $short --footprint 1M
    run 'Send of 8 octets, which are no credits' octets_per_s send $short --size 8
    run 'small Writes in chains' messages_per_s write $short --size 64 --chain 64 --depth 512 \
        --footprint 64K --inline
    run 'Write, polled' octets_per_s write $short --polled
    run 'ping-pong of Sends, sleeping' us_one_way pingpong-send $short
    run 'ping-pong of Sends, polled' us_one_way pingpong-send $short --polled
    run 'ping-pong of Writes' us_one_way pingpong-write $short --polled
    run 'ping-pong, spinning' us_one_way pingpong-send $short --spin
    run 'ping-pong, in a loop of the program' us_one_way pingpong-send $short --embedded
    run 'stream of Writes, in a loop of the program' octets_per_s write $short --embedded
    run 'stream of Writes, spinning' octets_per_s write $short --spin
    run 'connections are set up' setups_per_s setup --count 100
    run 'idle connections' octets_both idle --count 200 $short
    run 'busy connections' least active --count 20 $short
    run 'plain TCP, busy connections' octets_per_s tcp-active --count 20 $short
    run 'plain TCP, busy connections, polled' octets_per_s tcp-active --count 20 $short --polled
    run 'registration' register_us_67108864K register --count 20
    run 'Writes through memory, two workers' messages_per_s memory --workers 2 $short
    run 'Writes through memory, polled, many regions' messages_per_s memory --polled --count 5000 \
        $short
    refuse 'many connections on two machines' 'one machine' idle --listen 127.0.0.1
    refuse 'no test of that name' 'no such test' tickle
    refuse 'a size that is none' 'will not do' write --size x
    refuse 'too large a size' 'will not do' write --size 99999999999G
    refuse 'a loop of the program that polls' 'not with --polled' write --embedded --polled
    refuse 'too small a footprint' 'smaller than a message' write --footprint 4
}

port=$((20000 + RANDOM % 10000))
timeout 150 "$bench" send --seconds 0.2 --listen 127.0.0.1 --port $port &
server=$!
until output=$(timeout 100 "$bench" send --seconds 0.2 --connect 127.0.0.1 --port $port 2>&1) ||
    ! kill -0 $server 2>/dev/null; do
    sleep 0.2
done
n=$((n + 1))
if [[ $output == *octets_per_s* ]] && wait $server; then
    echo "ok $n - server and client called apart"
else
    failed=1
    echo "not ok $n - server and client called apart: $output"
fi
echo "1..$n"
exit $failed
