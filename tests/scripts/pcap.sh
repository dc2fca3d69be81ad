#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 600
#
# What a program records of itself (IWARP_PCAP), seen by others.  A put and a get of iwarp-cp are
# recorded by the server, by the client, and, where the machine allows it, on loopback from outside:
# the TCP stream of each direction must be the same in all of them.  tshark must find handshake,
# sequence numbers and checksums in order and decode Sends, Writes and Reads with its own dissector.
set -u
. tests/support/cp.bash

for tool in tshark capinfos perl; do
    if ! command -v $tool >/dev/null; then
        echo "$tool is not installed"
        exit 77
    fi
done

# For tshark and capinfos: nothing but the file, and no dissectors on top of iWARP, which take any
# payload for theirs.
dissect()
{
    tshark -n -r "$1" --disable-protocol rpcordma --disable-protocol smb_direct --disable-protocol nvme-tcp \
        -o tcp.check_checksum:TRUE -o ip.check_checksum:TRUE "${@:2}" 2>tshark.err
}

# streams FILE: a line for each direction of each connection that carried something: its ends, its
# length, and a digest of its octets.  Packets that come again or out of order do no harm.
streams()
{
    dissect "$1" -Y 'tcp.len > 0' -T fields -e tcp.stream -e ip.src -e tcp.srcport -e ip.dst -e tcp.dstport \
        -e tcp.seq -e tcp.payload | perl -MDigest::SHA=sha1_hex -lane '
            my $key = join " ", @F[0 .. 4];
            substr($s{$key} .= "\0" x ($F[5] - 1 + length($F[6]) / 2 - length $s{$key}), $F[5] - 1,
                length($F[6]) / 2) = pack "H*", $F[6];
            END { print join " ", (split " ", $_)[1 .. 4], length $s{$_}, sha1_hex $s{$_} for keys %s }' | sort
}

mkdir export tree
head -c 300000 /dev/urandom >tree/large
for ((i = 0; i < 20; i++)); do head -c $((i * 131)) /dev/urandom >tree/f$i; done

IWARP_PCAP=$work/server.%p.pcapng serve export || exit 1
port=${address##*:}

# Is there somebody outside who may look?
outside=
watch()
{
    local pid
    command -v dumpcap >/dev/null || return 1
    dumpcap -q -i lo -f "tcp port $port" -B 64 -s 262144 -w outside.pcapng >dumpcap.log 2>&1 &
    pid=$!
    children+=("$pid")
    for ((i = 0; i < patience * 10; i++)); do
        kill -0 $pid 2>/dev/null || return 1
        ! grep -q '^File: ' dumpcap.log || { outside=$pid; return 0; }
        sleep 0.1
    done
    return 1
}
watch

check "put" env IWARP_PCAP="$work/put.pcapng" "$cp" put -r tree "iwarp://$address/tree"
check "get" env IWARP_PCAP="$work/get.pcapng" "$cp" get -r "iwarp://$address/tree" back
check "the files arrived" same_tree tree back
check "a third, into a file that is there" env IWARP_PCAP="$work/put.pcapng" "$cp" get \
    "iwarp://$address/tree/large" again
check "the server ends" stop

# What is left in the kernel's buffer gets some time.
at_rest()
{
    local size
    size=$(stat -c %s outside.pcapng)
    sleep 1
    [ "$size" -gt 900000 ] && [ "$(stat -c %s outside.pcapng)" = "$size" ]
}
if [ -n "$outside" ]; then
    eventually at_rest
    kill -INT "$outside"
    wait_for "$outside" >/dev/null
fi

made_another()
{
    set -- put.*.pcapng
    [ $# = 1 ] && [ -s "$1" ]
}
check "the third has a file of its own" made_another
streams server.*.pcapng >server.streams
for file in put.pcapng get.pcapng put.*.pcapng; do streams "$file"; done | sort >client.streams

recorded()
{
    local n
    n=$(awk '{ sum += $5 } END { print sum }' client.streams)
    echo "$n octets, $(wc -l <client.streams) directions"
    [ "$n" -gt 900000 ] && [ "$(wc -l <client.streams)" -ge 6 ]
}
check "all octets are there" recorded
check "client and server recorded the same streams" diff client.streams server.streams
dropped=$(sed -n 's,^Packets received/dropped.*: [0-9]*/\([0-9]*\) .*,\1,p' dumpcap.log)
name="both are what was captured outside"
if [ -z "$outside" ]; then
    skip "$name" "capturing on loopback needs dumpcap, and root or CAP_NET_RAW"
elif [ "$dropped" != 0 ]; then
    skip "$name" "a loaded machine drops what is captured: $dropped packets"
else
    streams outside.pcapng >outside.streams
    check "$name" diff outside.streams server.streams
fi

# found FILE FILTER: how many packets
found()
{
    dissect "$1" -Y "$2" | wc -l
}

# The checks that a packet fails are listed.
in_order()
{
    dissect "$1" -Y '_ws.malformed || tcp.analysis.flags || tcp.checksum.status != "Good" ||
        (ip && ip.checksum.status != "Good")' | head
    [ "$(found "$1" '_ws.malformed || tcp.analysis.flags || tcp.checksum.status != "Good" ||
        (ip && ip.checksum.status != "Good")')" = 0 ] && [ "$(found "$1" tcp)" -gt 10 ] &&
        ! grep -v 'Running as user' tshark.err
}

# Every connection has both SYNs, the third packet of the handshake, and an end.
whole()
{
    local n
    n=$(dissect "$1" -T fields -e tcp.stream | sort -u | wc -l)
    [ "$n" -ge 1 ] && [ "$(found "$1" 'tcp.flags.syn == 1 && tcp.flags.ack == 0')" = "$n" ] &&
        [ "$(found "$1" 'tcp.flags.syn == 1 && tcp.flags.ack == 1')" = "$n" ] &&
        [ "$(found "$1" 'tcp.flags.fin == 1 || tcp.flags.reset == 1')" -ge "$n" ]
}

# The opcodes of a file: at least one of each that is named
opcodes()
{
    local opcode
    for opcode in "${@:2}"; do
        [ "$(found "$1" "iwarp_rdma.opcode == $opcode")" -gt 0 ] || { echo "no opcode $opcode"; return 1; }
    done
    [ "$(found "$1" 'iwarp_mpa.req')" -gt 0 ] && [ "$(found "$1" 'iwarp_mpa.rep')" -gt 0 ]
}

# Made up, and said so
marked()
{
    capinfos "$1" | grep -q 'Capture comment:.*Made up are' && dissect "$1" -Y 'frame.comment contains "QP "' | grep -q .
}

for file in put.pcapng get.pcapng server.*.pcapng; do
    name=${file%%.*}
    check "$name: tshark finds nothing wrong" in_order "$file"
    check "$name: every connection begins and ends" whole "$file"
    check "$name: made up where it says so, and queue pairs have names" marked "$file"
done
check "put: Writes and Sends" opcodes put.pcapng 0 3
check "get: Reads and Sends" opcodes get.pcapng 1 2 3
finish
