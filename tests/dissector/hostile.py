#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
#
# hostile.py FILE KIND: writes a small capture that is meant to cost a dissector much.
import sys

from encode import *


def opcodes(x):
    """Messages whose T bit is that of others."""
    a, b = x.way
    a.fpdu(write(5, 0, bytes(100)))
    x.flush(0)
    for ulpdu in (tagged(3, 5, 0x1000, b'abcd'), untagged(0, 0, 1, 0, bytes(20)),
                  untagged(2, 0, 1, 0, bytes(20))):
        for side in range(2):
            x.way[side].fpdu(ulpdu)
            x.flush(side)


def offsets(x):
    """Segments of one octet, each far behind the start of a message; then a message that is right."""
    for msn in range(1, 3000):
        x.way[0].fpdu(send(msn, b'x', mo=4190000, last=False))
    x.flush(0, 8000)
    x.way[0].fpdu(send(3000, b'who', last=False)).fpdu(send(3000, b'le', mo=3))
    x.flush(0)


def responses(x):
    """Requests, and as many responses that answer none of them."""
    for msn in range(1, 50001):
        x.way[0].fpdu(read_request(msn, 0x55, 0, 8, 0x66, 0))
        x.way[1].fpdu(read_response(0x77, 0, bytes(8)))
    x.flush(0, 8000)
    x.flush(1, 8000)


def stags(x):
    """Many STags."""
    for i in range(70000):
        x.way[0].fpdu(write(0x1000 + i, 0, bytes(8)))
    x.flush(0, 8000)


capture = Capture('hostile')
connection = Connection(capture, crc='absent').start(request(0), reply(0))
globals()[sys.argv[2]](connection)
with open(sys.argv[1], 'wb') as f:
    capture.write(f)
