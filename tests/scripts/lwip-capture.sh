#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 300
#
# lwIP at a tap, kernel TCP at its other side, each as the client, with IPv4 and IPv6: what dumpcap sees
# on the tap is, reassembled, what either end recorded of itself (IWARP_PCAP), octet by octet and FPDU by
# FPDU in each direction; and each segment of lwIP's begins with an FPDU (RFC 5044 4.5).  Then through a
# gateway: the one of the option gw=, and for IPv6 one that says of itself that it is a router.
set -u
: "${BUILD:?where the build is}" "${TMPDIR:?a scratch directory}"
. tests/support/check.bash

for tool in tshark dumpcap perl ip; do
    command -v $tool >/dev/null || { echo "$tool is not installed"; exit 77; }
done
if [ "${1-}" != inside ]; then
    if ! unshare -rn ip tuntap add dev iw0 mode tap 2>/dev/null; then
        echo "there is no network namespace, or no /dev/net/tun"
        exit 77
    fi
    if IWARP_TRANSPORT=lwip:x "$BUILD/bin/iwarp-bench" write --connect 10.9.0.1 2>&1 | grep -q 'without lwIP'; then
        echo "built without lwIP"
        exit 77
    fi
    exec unshare -rn "$0" inside
fi
cd "$TMPDIR" || exit 1
children=()
trap 'kill "${children[@]}" 2>/dev/null' EXIT
ip link set lo up && ip tuntap add dev iw0 mode tap && ip addr add 10.9.0.1/24 dev iw0 &&
    ip -6 addr add fd00::1/64 dev iw0 nodad && ip link set iw0 up && ip tuntap add dev far mode tap &&
    ip addr add 10.8.0.1/24 dev far && ip -6 addr add fd08::1/64 dev far nodad && ip link set far up &&
    echo 0 >/proc/sys/net/ipv4/neigh/iw0/locktime && echo 1 >/proc/sys/net/ipv6/conf/all/forwarding || exit 1
own=lwip:tap=iw0,addr=10.9.0.2/24,addr=fd00::2/64,gw=10.9.0.1

# watch FILE: what crosses the tap, from now on; its end in $watcher
watch()
{
    dumpcap -q -i iw0 -f tcp -B 64 -s 262144 -w "$1" >dumpcap.log 2>&1 &
    watcher=$!
    children+=("$watcher")
    for ((i = 0; i < 300; i++)); do
        ! grep -q '^File: ' dumpcap.log || return 0
        sleep 0.1
    done
    cat dumpcap.log
    return 1
}

# ends NAME SERVER CLIENT ADDRESS: one conversation, of whole messages of several sizes
ends()
{
    local server
    IWARP_PCAP=$1.server.pcapng IWARP_TRANSPORT=$2 timeout 60 "$BUILD/bin/iwarp-bench" "$test" --size "$size" \
        --depth 4 --seconds 0.1 --listen "$4" >server 2>&1 &
    server=$!
    children+=("$server")
    sleep 1
    IWARP_PCAP=$1.client.pcapng IWARP_TRANSPORT=$3 timeout 60 "$BUILD/bin/iwarp-bench" "$test" --size "$size" \
        --depth 4 --seconds 0.1 --connect "$4" >client 2>&1 || { cat client server; return 1; }
    wait "$server" || { cat server; return 1; }
}

# read_streams FILE: of each direction of each connection its ends, octets, a digest of them, FPDUs and a
# digest of their lengths; and how many segments of lwIP begin or end within an FPDU
read_streams()
{
    tshark -n -r "$1" -Y 'tcp.len > 0' -T fields -E separator=, -e tcp.stream -e ip.src -e ipv6.src \
        -e tcp.srcport -e ip.dst -e ipv6.dst -e tcp.dstport -e tcp.seq -e tcp.payload 2>tshark.err | perl -MDigest::SHA=sha1_hex -F, -lane '
            my $key = join " ", $F[1] . $F[2], $F[3], $F[4] . $F[5], $F[6];
            my ($at, $n) = ($F[7] - 1, length($F[8]) / 2);
            substr($s{$key} .= "\0" x ($at + $n - length $s{$key}), $at, $n) = pack "H*", $F[8] if length($s{$key} // "") < $at + $n;
            push @{$seg{$key}}, [$at, $n];
            END {
                for (keys %s) {
                    my ($at, @len, %border) = (20 + unpack("n", substr $s{$_}, 18, 2));
                    $border{0} = $border{length $s{$_}} = 1;
                    while ($at < length $s{$_}) {
                        $border{$at} = 1;
                        push @len, unpack "n", substr $s{$_}, $at, 2;
                        $at += int((2 + $len[-1] + 3) / 4) * 4 + 4;
                    }
                    my $cut = grep { !$border{$_->[0]} || !$border{$_->[0] + $_->[1]} } @{$seg{$_}};
                    print join " ", $_, length $s{$_}, sha1_hex($s{$_}), scalar(@len), sha1_hex("@len"),
                        /^(10\.9\.0\.2|fd00::2) / && $ENV{SEGMENTS} ? "cut=$cut" : "";
                }
            }' | sort
}

# seen NAME SERVER CLIENT ADDRESS
seen()
{
    watch "$1.pcapng" && ends "$@" || return 1
    sleep 1
    kill -INT "$watcher" && wait "$watcher"
    read_streams "$1.pcapng" >outside
    read_streams "$1.server.pcapng" >of-server
    read_streams "$1.client.pcapng" >of-client
    cat outside of-server of-client dumpcap.log
    [ "$(wc -l <outside)" = 2 ] && [ "$(awk '{ n += $5 } END { print n }' outside)" -gt 100000 ] &&
        diff outside of-server && diff outside of-client &&
        [ "$(SEGMENTS=1 read_streams "$1.pcapng" | grep -o 'cut=.*')" = cut=0 ]
}

# A router that tells of itself, as those of IPv6 do (RFC 4861 4.2).
advertise()
{
    perl -MSocket=:all -e '
        socket my $s, AF_INET6, SOCK_RAW, 58 or die $!;
        setsockopt $s, 41, 18, pack "i", 255 or die $!;
        setsockopt $s, 41, 17, pack "i", $ARGV[0] or die $!;
        for (1 .. 20) {
            send $s, pack("CCnCCnNN", 134, 0, 0, 64, 0, 1800, 0, 0), 0,
                pack_sockaddr_in6(0, inet_pton(AF_INET6, "ff02::1"), $ARGV[0]) or die $!;
            select undef, undef, undef, 0.5;
        }' "$(cat /sys/class/net/iw0/ifindex)"
}

routed6()
{
    local teller status
    advertise 2>advertise.err &
    teller=$!
    children+=("$teller")
    ends routed6 tcp "$own" fd08::1
    status=$?
    kill $teller 2>/dev/null
    cat advertise.err
    return $status
}

test=send size=5000
check "kernel TCP listens" seen a tcp "$own" 10.9.0.1
check "lwIP listens" seen b "$own" tcp 10.9.0.2
test=read size=30000
check "RDMA Reads over IPv6, kernel TCP listens" seen c tcp "$own" fd00::1
test=write size=100
check "small RDMA Writes over IPv6, lwIP listens" seen d "$own" tcp fd00::2
test=write size=20000
check "through the gateway" ends routed4 tcp "$own" 10.8.0.1
check "IPv6 through a router that tells of itself" routed6
echo "1..$number"
exit $failed
