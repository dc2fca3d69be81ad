#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 600
#
# What iwarp-cp puts on the wire, seen by others: a put and a get are captured on loopback and decoded
# by tshark's own dissector.  At least 99 % of the file octets must have gone as payload of RDMA
# Writes (put) and RDMA Read Responses (get), every CRC must be right, and that payload, put together
# again, must be the files.
#
# tshark loses the stream where a TCP segment ends within 1 to 7 octets of an FPDU, so the capture is
# cut anew first, one FPDU to a segment (fpdu-split.pl).
set -u
support=$PWD/tests/support
. tests/support/cp.bash

for tool in dumpcap tshark perl; do
    if ! command -v $tool >/dev/null; then
        echo "$tool is not installed"
        exit 77
    fi
done
if ! dumpcap -q -i lo -a duration:1 -c 1 -w probe.pcapng >probe.log 2>&1 &&
    grep -qi permission probe.log; then
    echo "no permission to capture on loopback: needs root or CAP_NET_RAW"
    exit 77
fi

mkdir export tree tree/sub
head -c 20000000 /dev/urandom >tree/a-large
for ((i = 100; i < 400; i++)); do head -c $((i * 31 % 5000)) /dev/urandom >tree/f$i; done
head -c 700000 /dev/urandom >tree/sub/z
(cd tree && cat a-large f??? sub/z) >contents
octets=$(stat -c %s contents)
serve export || exit 1
port=${address##*:}

# record FILE COMMAND...: runs it while the port is being captured
record()
{
    local file=$1 pid status i
    shift
    dumpcap -q -i lo -f "tcp port $port" -B 256 -s 262144 -w "$file" >dumpcap.log 2>&1 &
    pid=$!
    children+=("$pid")
    eventually grep -q '^File: ' dumpcap.log
    "$@"
    status=$?
    for ((i = 0; i < 20; i++)); do # what has not come until then was dropped
        ! complete "$file" || break
    done
    kill -INT $pid
    wait_for $pid
    return $status
}

# complete FILE: it has stopped growing
complete()
{
    local size
    size=$(stat -c %s "$1")
    sleep 1
    [ "$size" -gt "$octets" ] && [ "$(stat -c %s "$1")" = "$size" ]
}

# captured CAPTURE COMMAND...: records and decodes it.  A machine under load may drop what is
# captured, though not what is sent: then once more.
captured()
{
    local file=$1 i
    for i in 1 2 3 4 5; do
        record "$@" || return 1
        ! decode "$file" || return 0
        echo "capture $i: $(tail -n 2 dumpcap.log)"
    done
    return 1
}

# decode CAPTURE: opcodes and sizes of all FPDUs, as tshark sees them, to fpdus: number, opcode,
# payload octets, whether its CRC is wrong
decode()
{
    tshark -r "$1" -Y 'tcp.len > 0' -T fields -e tcp.srcport -e tcp.seq_raw -e tcp.payload 2>/dev/null |
        perl "$support/fpdu-split.pl" "$port" split.pcap list || return 1
    # Tagged headers have 14 octets, untagged ones 18: RFC 5041 4.
    tshark -r split.pcap --disable-protocol nvme-tcp -Y iwarp_ddp -T fields -e frame.number \
        -e iwarp_rdma.opcode -e iwarp_ddp.tagged_flag -e iwarp_mpa.ulpdulength 2>/dev/null |
        perl -lane 'print join " ", $F[0], oct $F[1], $F[3] - ($F[2] =~ /^(1|True)$/ ? 14 : 18)' >fpdus
}

# payload OPCODE: its octets together
payload()
{
    awk -v want="$1" '$2 == want { sum += $3 } END { printf "%d\n", sum }' fpdus
}

# carried OPCODE: the payload itself, in order
carried()
{
    awk -v want="$1" 'NR == FNR { size[$1] = $3; op[$1] = $2; next }
        $1 in op && op[$1] == want { print $3 + 2 + 14, size[$1] }' fpdus list |
        perl -e 'open my $f, "<:raw", "split.pcap" or die;
            while (<STDIN>) { my ($at, $len) = split; seek $f, $at, 0; read $f, my $p, $len; print $p }'
}

all_decoded()
{
    local fpdus=$(($(wc -l <list) - 2))
    [ "$(wc -l <fpdus)" = $fpdus ] || { echo "$(wc -l <fpdus) of $fpdus FPDUs decoded"; return 1; }
}

crcs_right()
{
    tshark -r split.pcap --disable-protocol nvme-tcp -Y iwarp_mpa.fpdu -O iwarp_mpa 2>/dev/null >verbose
    [ "$(grep -c 'Good CRC32' verbose)" = $(($(wc -l <list) - 2)) ] && ! grep -q 'Bad CRC32' verbose
}

# share OPCODE: at least 99 % of the file octets
share()
{
    local sum
    sum=$(payload "$1")
    echo "$sum of $octets octets"
    [ $((sum * 100)) -ge $((octets * 99)) ] && [ "$sum" -le "$octets" ]
}

same_contents()
{
    carried "$1" | cmp - contents
}

check "put is captured" captured put.pcapng "$cp" put -r tree "iwarp://$address/tree"
check "put arrived" same_tree tree export/tree
check "put: tshark decodes every FPDU" all_decoded
check "put: tshark finds every CRC right" crcs_right
check "put: 99 % of the file octets are payload of RDMA Writes" share 0
check "put: that payload is the files" same_contents 0
# Peer-to-peer mode begins with the Request of one, 28 octets, for nothing (RFC 6581 9.2).
check "put: no RDMA Read" test "$(payload 1) $(payload 2)" = "28 0"
echo "# put: $(payload 0) octets by RDMA Write, $(payload 3) by Send"

check "get is captured" captured get.pcapng "$cp" get -r "iwarp://$address/tree" back
check "get arrived" same_tree tree back
check "get: tshark decodes every FPDU" all_decoded
check "get: tshark finds every CRC right" crcs_right
check "get: 99 % of the file octets are payload of RDMA Read Responses" share 2
check "get: that payload is the files" same_contents 2
check "get: no RDMA Write" test "$(payload 0)" = 0
echo "# get: $(payload 2) octets by RDMA Read Response, $(payload 3) by Send"
stop
finish
