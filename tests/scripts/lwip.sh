#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 1800
#
# lwIP between two processes: over the switch, a good one and a bad one, and over rings; rping, which
# knows nothing of it, in a network namespace with no interface up, so that the kernel has no part in
# it; a tap, with kernel TCP behind it; what is said when there is no link, and when it ends.
set -u
: "${BUILD:?where the build is}" "${TMPDIR:?a scratch directory}"
. tests/support/check.bash
. tests/support/rping.bash

if IWARP_TRANSPORT=lwip:x "$BUILD/bin/iwarp-bench" write --connect 10.9.0.1 2>&1 | grep -q 'built without lwIP'; then
    echo "built without lwIP"
    exit 77
fi
net=$TMPDIR/net rings=$TMPDIR/rings
unset IWARP_TRANSPORT
children=()
trap 'kill "${children[@]}" 2>/dev/null' EXIT

# awaits FILE TEXT: until the text is in the file
awaits()
{
    for _ in $(seq 600); do
        ! grep -qs "$2" "$1" || return 0
        sleep 0.1
    done
    echo "nothing of \"$2\" in $1"
    cat "$1"
    return 1
}

# link OPTION...: the switch, in $switch
link()
{
    "$BUILD/bin/iwarp-link" "$net" "$@" >"$TMPDIR/switch" 2>&1 &
    switch=$!
    children+=("$switch")
    awaits "$TMPDIR/switch" "^iwarp-link: $net\$"
}

unlink_it()
{
    kill "$switch" && wait "$switch" && grep -q '^seed [0-9]*: [0-9]* frames' "$TMPDIR/switch"
}

# bench LINK TEST...: between 10.9.0.1 and 10.9.0.2, every octet checked
bench()
{
    local server over=$1 status
    shift
    IWARP_TRANSPORT=lwip:$over,addr=10.9.0.1/24 "$BUILD/bin/iwarp-bench" "$@" --listen 10.9.0.1 \
        >"$TMPDIR/server" 2>&1 &
    server=$!
    children+=("$server")
    sleep 1
    IWARP_TRANSPORT=lwip:$over,addr=10.9.0.2/24 timeout 120 "$BUILD/bin/iwarp-bench" "$@" \
        --connect 10.9.0.1 >"$TMPDIR/client" 2>&1
    status=$?
    [ "$status" = 0 ] || { cat "$TMPDIR/client" "$TMPDIR/server"; return 1; }
    grep -o '"messages": [0-9]*' "$TMPDIR/client"
    wait "$server" || { cat "$TMPDIR/server"; return 1; }
}

switched()
{
    link && bench unix="$net" write --size 64K && bench unix="$net" send --size 100 --depth 64 &&
        bench unix="$net" read --size 100K && bench unix="$net" send --size 20K --polled && unlink_it
}

ringed()
{
    bench shm="$rings" write --size 64K && bench shm="$rings" send --size 100 --depth 64 --polled &&
        bench shm="$rings" read --size 100K && [ ! -e "$rings" ] && [ ! -e "$rings.0" ]
}

# Frames of other sizes than Ethernet's: the rings' slots follow, which both ends have to agree on.
sized()
{
    local out status
    bench shm="$rings",mtu=65000 send --size 300 --depth 256 --seconds 0.5 &&
        bench shm="$rings",mtu=9000 write --size 64K --seconds 0.5 &&
        bench shm="$rings",mtu=600 write --size 10K --seconds 0.5 && link &&
        bench unix="$net",mtu=9000 write --size 64K --seconds 0.5 && unlink_it || return 1
    IWARP_TRANSPORT=lwip:shm=$rings,mtu=9000,addr=10.9.0.1/24 "$BUILD/bin/iwarp-bench" write --listen 10.9.0.1 \
        >"$TMPDIR/server" 2>&1 &
    local server=$!
    children+=("$server")
    for _ in $(seq 100); do [ ! -e "$rings.1" ] || break; sleep 0.1; done
    says "the other end has another mtu" "lwip:shm=$rings,addr=10.9.0.2/24"
    status=$?
    kill "$server"
    wait "$server"
    return $status
}

# A retransmission that is lost, too, waits for lwIP's timer of half a second, so few octets take long.
damaged()
{
    link --loss 1% --reorder 1% --duplicate 1% --delay 100 --seed 3 &&
        bench unix="$net" send --size 1000 --depth 256 --seconds 5 &&
        bench unix="$net" write --size 64K --seconds 5 && unlink_it && cat "$TMPDIR/switch" &&
        ! grep -q ' 0 lost\| 0 reordered\| 0 duplicated' "$TMPDIR/switch"
}

# Every message is checked by its CRC and its MSN, and memory at the end.
million()
{
    local sum=0 round
    link --loss 1% --reorder 1% --seed 5 || return 1
    for round in $(seq 20); do
        bench unix="$net" send --size 100 --depth 256 --seconds 60 >"$TMPDIR/messages" || return 1
        sum=$((sum + $(grep -o '[0-9]*$' "$TMPDIR/messages")))
        [ $sum -lt 1000000 ] || break
    done
    echo "$sum messages"
    unlink_it && cat "$TMPDIR/switch" && [ $sum -ge 1000000 ]
}

slow()
{
    link --rate 100M --delay 1000 && bench unix="$net" write --size 64K --seconds 2 && unlink_it &&
        awk -F '[:,}]' '{ for (i = 1; i < NF; i++) if ($i ~ /"octets_per_s"/) exit !($(i + 1) < 12500000) }' \
            "$TMPDIR/client"
}

# rping_over LINK: in a namespace of its own each, where the kernel has no TCP to anywhere
rping_over()
{
    local server
    local -a apart=(unshare -rn)
    IWARP_TRANSPORT=lwip:$1,addr=10.9.0.1/24 "${apart[@]}" timeout 100 "$BUILD/bin/iwarp-run" \
        rping -s -a 10.9.0.1 -C 2000 -v >"$TMPDIR/server" 2>&1 &
    server=$!
    children+=("$server")
    sleep 2
    IWARP_TRANSPORT=lwip:$1,addr=10.9.0.2/24 "${apart[@]}" timeout 100 "$BUILD/bin/iwarp-run" \
        rping -c -a 10.9.0.1 -C 2000 -v >"$TMPDIR/client" 2>"$TMPDIR/why"
    ended_well $? "$TMPDIR/why" || { cat "$TMPDIR/server"; return 1; }
    wait "$server"
    ended_well $? "$TMPDIR/server" || return 1
    grep -c '^ping data: rdma-ping' "$TMPDIR/client" | grep -x 2000
}

# While it listens, no socket of the kernel's TCP is there.
no_sockets()
{
    local server pid
    link || return 1
    IWARP_TRANSPORT=lwip:unix=$net,addr=10.9.0.1/24 unshare -rn sh -c \
        'echo $$ >"$1"; exec "$2" rping -s -a 10.9.0.1' sh "$TMPDIR/pid" "$BUILD/bin/iwarp-run" \
        >"$TMPDIR/server" 2>&1 &
    server=$!
    children+=("$server")
    awaits "$TMPDIR/pid" .
    sleep 2
    pid=$(cat "$TMPDIR/pid")
    kill -0 "$pid" || { cat "$TMPDIR/server"; return 1; }
    cat "/proc/$pid/net/tcp" "/proc/$pid/net/tcp6"
    [ "$(cat "/proc/$pid/net/tcp" "/proc/$pid/net/tcp6" | grep -vc local_address)" = 0 ]
    local status=$?
    kill "$pid"
    wait "$server"
    unlink_it && return $status
}

rping_switched()
{
    link && rping_over unix="$net" && unlink_it
}

# ends SERVER CLIENT ADDRESS: one bench between two transports
ends()
{
    local server
    IWARP_TRANSPORT=$1 timeout 60 "$BUILD/bin/iwarp-bench" write --size 64K --listen "$3" &
    server=$!
    sleep 1
    IWARP_TRANSPORT=$2 timeout 60 "$BUILD/bin/iwarp-bench" write --size 64K --connect "$3" &&
        wait "$server"
}

# In a namespace of its own: lwIP at a tap, the kernel's TCP at its other side, both as the client,
# with IPv4 and IPv6.
on_a_tap()
{
    local own=lwip:tap=iw0,addr=10.9.0.2/24,addr=fd00::2/64
    ip tuntap add dev iw0 mode tap && ip addr add 10.9.0.1/24 dev iw0 &&
        ip -6 addr add fd00::1/64 dev iw0 nodad && ip link set iw0 up &&
        ends tcp "$own" 10.9.0.1 && ends "$own" tcp 10.9.0.2 &&
        ends tcp "$own" fd00::1 && ends "$own" tcp fd00::2
}
if [ "${1-}" = on-a-tap ]; then
    on_a_tap
    exit
fi

# says TEXT TRANSPORT: opening a device with it fails, and why
says()
{
    local out
    out=$(IWARP_TRANSPORT=$2 "$BUILD/bin/iwarp-bench" write --connect 10.9.0.1 2>&1) && return 1
    [[ $out == *"$1"* ]] || { echo "not \"$1\": $out"; return 1; }
}

# Two stations with one address: both say so.
same_address()
{
    local first second
    link || return 1
    IWARP_LOG=warn IWARP_TRANSPORT=lwip:unix=$net,addr=10.9.0.1/24 timeout 20 "$BUILD/bin/iwarp-bench" write \
        --listen 10.9.0.1 >"$TMPDIR/server" 2>&1 &
    first=$!
    children+=("$first")
    sleep 1
    IWARP_LOG=warn IWARP_TRANSPORT=lwip:unix=$net,addr=10.9.0.1/24 timeout 20 "$BUILD/bin/iwarp-bench" write \
        --listen 10.9.0.1 >"$TMPDIR/second" 2>&1 &
    second=$!
    children+=("$second")
    awaits "$TMPDIR/server" "has the address 10.9.0.1, too" && awaits "$TMPDIR/second" "has the address 10.9.0.1, too"
    local status=$?
    kill "$first" "$second"
    unlink_it && return $status
}

# The switch goes away under a connection: both ends say so, and end.
link_ends()
{
    local server
    link || return 1
    IWARP_TRANSPORT=lwip:unix=$net,addr=10.9.0.1/24 "$BUILD/bin/iwarp-bench" write --size 64K \
        --seconds 60 --listen 10.9.0.1 >"$TMPDIR/server" 2>&1 &
    server=$!
    children+=("$server")
    sleep 1
    IWARP_TRANSPORT=lwip:unix=$net,addr=10.9.0.2/24 timeout 50 "$BUILD/bin/iwarp-bench" write \
        --size 64K --seconds 60 --connect 10.9.0.1 >"$TMPDIR/client" 2>&1 &
    local client=$!
    children+=("$client")
    sleep 2
    unlink_it || return 1
    wait "$client"
    [ $? = 1 ] && ! wait "$server" && cat "$TMPDIR/client" && grep -q 'etwork is down' "$TMPDIR/client"
}

check switch switched
check rings ringed
check packets-of-other-sizes sized
check switch-with-loss-reordering-duplicates damaged
check switch-with-rate-and-delay slow
if [ "${SLOW-}" = 1 ]; then
    check a-million-messages million
else
    number=$((number + 1))
    echo "ok $number - a-million-messages # SKIP takes some minutes; run it with SLOW=1"
fi
check link-that-ends link_ends
check address-that-another-has same_address
check no-host says "no address of a host" "lwip:shm=$TMPDIR/none,addr=10.9.0.255/24"
check no-frames says "borders of frames" "lwip:fd=0,addr=10.9.0.1/24"
check no-switch says "no switch at $TMPDIR/none" "lwip:unix=$TMPDIR/none,addr=10.9.0.2/24"
check no-address says "no addr" "lwip:shm=$TMPDIR/none"
check no-network says "Network is unreachable" "lwip:shm=$TMPDIR/none,addr=10.8.0.2/24"
check long-name says "too long" "lwip:tap=interface-of-16-,addr=10.9.0.2/24"
check odd-mtu says "mtu is none of 576 to 65000" "lwip:shm=$TMPDIR/none,addr=10.9.0.2/24,mtu=70000"
check odd-mtu-of-IPv6 says "IPv6 asks for an mtu of 1280" "lwip:shm=$TMPDIR/none,addr=fd00::2/64,mtu=600"
check odd-text says "expected lwip: and unix=PATH" "lwip:smoke=x,addr=10.9.0.2/24"
# A program that was built without a sanitizer cannot load libraries with one.
if [[ ${BUILD##*/} != san-* ]] && unshare -rn true 2>/dev/null && command -v rping >/dev/null; then
    check rping-over-the-switch rping_switched
    check rping-over-rings rping_over shm="$rings"
    check rping-without-kernel-tcp no_sockets
    if unshare -rn ip tuntap add dev iw0 mode tap 2>/dev/null; then
        check tap-and-kernel-tcp unshare -rn "$0" on-a-tap
    else
        number=$((number + 1))
        echo "ok $number - tap # SKIP there is no /dev/net/tun, or no ip"
    fi
else
    number=$((number + 1))
    echo "ok $number - rping # SKIP there is no network namespace, no rping, or a sanitizer in the libraries"
fi
echo "1..$number"
exit $failed
