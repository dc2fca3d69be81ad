#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 300
#
# lwIP on AF_XDP: both ends of a veth pair, and kernel TCP at the other end of one, either as the client.
set -u
: "${BUILD:?where the build is}" "${TMPDIR:?a scratch directory}"
. tests/support/check.bash

if IWARP_TRANSPORT=lwip:xdp=none,addr=10.9.0.1/24 "$BUILD/bin/iwarp-bench" write --connect 10.9.0.1 2>&1 |
    grep 'built without'; then
    exit 77
fi
if [ "${1-}" != inside ]; then
    if ! unshare -n ip link add v0 type veth peer name v1 2>/dev/null || ! command -v ethtool >/dev/null; then
        echo "no network namespace of root's with a veth pair, or no ethtool"
        exit 77
    fi
    exec unshare -nm "$0" inside
fi
children=()
trap 'kill "${children[@]}" 2>/dev/null' EXIT
ip link set lo up && ip link add v0 type veth peer name v1 && ip link set v0 up && ip link set v1 up || exit 1
# The kernel's packets have their checksums from here on: to AF_XDP they come as they are.
for dev in v0 v1; do ethtool -K $dev tx off tso off gso off gro off >/dev/null 2>&1 || exit 1; done
said=$(IWARP_TRANSPORT=lwip:xdp=v0,addr=10.9.0.1/24 timeout 20 "$BUILD/bin/iwarp-bench" write --connect 10.9.0.9 2>&1)
case $said in
*'no AF_XDP socket'*)
    echo "$said"
    exit 77
    ;;
esac

# bench SERVER CLIENT TEST...: every octet checked
bench()
{
    local server status from=$1 to=$2
    shift 2
    IWARP_TRANSPORT=$from timeout 60 "$BUILD/bin/iwarp-bench" "$@" --listen 10.9.0.1 >"$TMPDIR/server" 2>&1 &
    server=$!
    children+=("$server")
    sleep 2
    IWARP_TRANSPORT=$to timeout 60 "$BUILD/bin/iwarp-bench" "$@" --connect 10.9.0.1 >"$TMPDIR/client" 2>&1
    status=$?
    cat "$TMPDIR/client" "$TMPDIR/server"
    wait "$server" && [ $status = 0 ]
}

one=lwip:xdp=v0,addr=10.9.0.1/24 two=lwip:xdp=v1,addr=10.9.0.2/24
check "both ends: RDMA Writes" bench $one $two write --size 64K
check "both ends: Sends, polled" bench $one $two send --size 100 --depth 64 --polled
check "both ends: a small message to and fro" bench $one $two pingpong-send --size 8
check "no such interface" bash -c '! IWARP_TRANSPORT=lwip:xdp=none,addr=10.9.0.1/24 "$BUILD/bin/iwarp-bench" \
    write --connect 10.9.0.1 2>&1 | grep "no AF_XDP socket on queue 0 of none: "; [ ${PIPESTATUS[1]} = 0 ]'
ip addr add 10.9.0.2/24 dev v1
check "kernel TCP connects" bench $one tcp write --size 64K
ip addr del 10.9.0.2/24 dev v1
ip addr add 10.9.0.1/24 dev v0
check "kernel TCP listens" bench tcp $two read --size 64K
echo "1..$number"
exit $failed
