#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 600
#
# The recorded traffic of tests/captures, FPDU by FPDU, as the library's decoders see it and as
# tshark does: frame, direction, opcode, L, STag and TO or QN, MSN and MO, the fields of RDMA Read
# Requests, length, padding, CRC and its status, and the SHA-256 of the payload.  One test each.
set -u
: "${BUILD:?where the build is}" "${TMPDIR:?a scratch directory}"
if ! command -v tshark >/dev/null; then
    echo "there is no tshark (package tshark)"
    exit 77
fi
# Nobody's own preferences.
export HOME=$TMPDIR XDG_CONFIG_HOME=$TMPDIR
ours=$BUILD/tests/e2e/test_captures

# The details of a file as PDML, so that several FPDUs of a frame stay apart.  NVMe/TCP would claim
# its port, and the protocols above RDMAP hide payloads: without them each payload is plain data.
details()
{
    tshark -n -r "$1" --disable-protocol nvme-tcp --disable-protocol rpcordma \
        --disable-protocol smb_direct -o tcp.desegment_tcp_streams:TRUE \
        -o iwarp_ddp_rdmap.reassemble_iwarp_rdma_send:FALSE \
        -T pdml -J "frame tcp iwarp_mpa iwarp_ddp_rdmap data"
}

# PDML to lines like those of `test_captures --print`, but with the payload itself.
lines()
{
    awk '
    function attribute(name,    at, text) {
        at = index($0, " " name "=\"")
        if (!at) { return "" }
        text = substr($0, at + length(name) + 3)
        return substr(text, 1, index(text, "\"") - 1)
    }
    function flush() {
        if (!inside) { return }
        printf "frame=%s stream=%s from=%s op=%d L=%s dv=%s rv=%s ", frame, stream, port,
            f["iwarp_rdma.opcode"], f["iwarp_ddp.last_flag"], f["iwarp_ddp.dv"],
            f["iwarp_rdma.version"]
        if (f["iwarp_ddp.tagged_flag"] == "1") {
            printf "stag=%s to=%s", f["iwarp_ddp.stag"], f["iwarp_ddp.tagged_offset"]
        } else {
            printf "rsvd=%s%s qn=%s msn=%s mo=%s", f["iwarp_rdma.reserved"],
                f["iwarp_rdma.inval_stag"], f["iwarp_ddp.qn"], f["iwarp_ddp.msn"], f["iwarp_ddp.mo"]
        }
        printf " ulpdu=%s pad=%d crc=%s", f["iwarp_mpa.ulpdulength"],
            length(f["iwarp_mpa.pad"]) / 2, crc
        if (f["iwarp_rdma.opcode"] == "1") {
            printf " sink=%s,%s size=%s source=%s,%s\n", f["iwarp_rdma.sinkstag"],
                f["iwarp_rdma.sinkto"], f["iwarp_rdma.rdmardsz"], f["iwarp_rdma.srcstag"],
                f["iwarp_rdma.srcto"]
        } else {
            printf " octets=%d data=%s\n", length(data) / 2, data
        }
        inside = 0
    }
    /<\/packet>/ { flush(); next }
    !/<field name="/ { next }
    {
        name = attribute("name")
        if (name == "iwarp_mpa.fpdu") {
            flush()
            split("", f)
            crc = "none"
            data = ""
            inside = 1
        }
    }
    name == "frame.number" { frame = attribute("show") }
    name == "tcp.stream" { stream = attribute("show") }
    name == "tcp.srcport" { port = attribute("show") }
    !inside { next }
    # Flags, versions and lengths as numbers, the rest as the octets that they are on the wire.
    name ~ /^iwarp_(ddp\.(last_flag|tagged_flag|dv)|rdma\.version|mpa\.ulpdulength)$/ {
        # A flag is 1 or 0 to Wireshark 4.0, True or False to later ones.
        f[name] = attribute("show")
        f[name] = f[name] == "True" ? "1" : f[name] == "False" ? "0" : f[name]
        next
    }
    name == "iwarp_mpa.crc_check" {
        crc = (attribute("showname") ~ /Good CRC32/ ? "good," : "bad,") attribute("value")
    }
    name == "iwarp_mpa.crc" { crc = "off," attribute("value") }
    name == "data.data" { data = data attribute("value") }
    { f[name] = attribute("value") }' |
        "$ours" --hash
}

number=0
failed=0
files=(tests/captures/*.pcap)
echo "1..${#files[@]}"
for file in "${files[@]}"; do
    number=$((number + 1))
    name=$(basename "$file" .pcap)
    result='not ok'
    if ! "$ours" --print "$file" >"$TMPDIR/ours" 2>&1; then
        tail -n 3 "$TMPDIR/ours"
    elif ! details "$file" >"$TMPDIR/pdml" 2>"$TMPDIR/errors"; then
        cat "$TMPDIR/errors"
    elif ! lines <"$TMPDIR/pdml" >"$TMPDIR/theirs"; then
        echo "tshark's output could not be read"
    elif ! [ -s "$TMPDIR/ours" ]; then
        echo "no FPDUs"
    elif diff "$TMPDIR/ours" "$TMPDIR/theirs" >"$TMPDIR/difference"; then
        result=ok
    else
        echo "< this library, > tshark:"
        head -n 20 "$TMPDIR/difference"
    fi
    [ "$result" = ok ] || failed=1
    echo "$result $number - $name ($(wc -l <"$TMPDIR/ours") FPDUs)"
done
exit $failed
