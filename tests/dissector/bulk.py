#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
#
# bulk.py FILE SEGMENTS ACKS: writes a capture of that many segments of RDMA Writes, one FPDU in
# each, as the dissectors that come with Wireshark need it; with ACKS, every second of them is
# acknowledged. The same 64 FPDUs again and again: their CRCs take longer than all the rest.
import struct
import sys

from encode import *

PAYLOAD = 1428  # with headers, padding and CRC: a segment of an Ethernet


def main(path, segments, acks):
    c = Capture('bulk')
    x = Connection(c).start()
    for i in range(64):
        x.way[0].fpdu(write(0x1234, i * PAYLOAD, bytes((i + k) & 255 for k in range(PAYLOAD))))
    fpdus = [bytes(x.way[0].octets[f['first']:f['end']]) for f in x.way[0].fpdus]
    for i in range(segments):
        octets = fpdus[i % 64]
        x.segment(0, octets, seq=x.seq[0] + x.sent[0])
        x.sent[0] += len(octets)
        if acks and i % 2 == 1:
            x.segment(1, b'', 0x10, x.seq[1] + x.sent[1])
    with open(path, 'wb') as f:
        c.write(f)


main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == 'acks')
