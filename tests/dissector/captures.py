#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
#
# captures.py FOLDER: writes FOLDER/*.pcap and, of each, FOLDER/*.json: the FPDUs that a dissector
# has to find in it, in order and per sender, and fields that certain frames have to show.
import json
import struct
import sys

import captures_carriers
import captures_fields
import captures_places
from cases import CASES, case, sends, text
from encode import *


@case
def opcodes(c):
    """Rows 4, 7, 21, 22, 23, 31: each opcode, its links and times."""
    x = Connection(c).start()
    a, b = x.way
    for ulpdu in (send(1, b'hello'), send(2), send(3, b'se', opcode=5),
                  send(4, b'inv', opcode=4, inval=0x12345678),
                  send(5, b'x', opcode=6, inval=0xabcdef01), write(0x10203, 0x1000, text(20)),
                  immediate(6, b'\1\2\3\4\5\6\7\x08'), immediate(7, b'\1\2\3\4\5\6\7\x09', True)):
        a.fpdu(ulpdu)
    f = x.flush(0, 1448)
    c.expect(f, 'iwarp.rdmap.imm', '0x0102030405060708')
    c.expect(f, 'iwarp.rdmap.inval_stag', '0x12345678')
    c.expect(f, 'iwarp.stream', 0)
    c.expect(f, 'iwarp.conn.initiator', 'True')
    a.fpdu(read_request(1, 0x11223344, 0x2000, 8, 0x10203, 0x1000))
    a.fpdu(atomic_request(2, 0, 1, 0x10203, 0x1008, 5))
    a.fpdu(atomic_request(3, 2, 2, 0x10203, 0x1010, 0x1122334455667788))
    ask = x.flush(0)
    b.fpdu(read_response(0x11223344, 0x2000, text(5), last=False))
    b.fpdu(read_response(0x11223344, 0x2005, text(3, 9)))
    b.fpdu(atomic_response(1, 1, 0x2a))
    b.fpdu(atomic_response(2, 2, 0))
    answer = x.flush(1)
    c.expect(ask, 'iwarp.rdmap.outstanding', 1)
    c.expect(ask, 'iwarp.rdmap.outstanding', 3, 2)
    c.expect(ask, 'iwarp.rdmap.atomic.op', 2, 1)
    c.expect(ask, 'iwarp.rdmap.read.sink_stag', '0x11223344')
    for i in range(4):
        c.expect(answer, 'iwarp.rdmap.request_in', ask, i)
    for i in range(3):
        c.expect(answer, 'iwarp.rdmap.time', '0.001000000', i)
    c.expect(answer, 'iwarp.rdmap.atomic.value', '0x000000000000002a')
    c.count('iwarp.rdmap.response.unsolicited', 0)
    x.true(0).true(1)


@case
def send_with_immediate(c):
    """libiwarp's own messages, and the agreement on them behind the private data."""
    mark = b'SendImm\x01'
    x = Connection(c).start(request(0x50, 2, enhanced(8, 8) + b'data' + mark),
                            reply(0x50, 2, enhanced(8, 8) + mark))
    a, b = x.way
    a.fpdu(send(1, text(20), opcode=14, inval=0x01020304, last=False))
    a.fpdu(send(1, text(5, 9), mo=20, opcode=14, inval=0x01020304))
    a.fpdu(send(2, b'', opcode=15, inval=0xfffefdfc))
    a.fpdu(send(3, b'plain'))
    f = x.flush(0)
    bad = send(1, b'x', opcode=15, inval=0x99887766)
    b.fpdu(terminate('0206c000', len(bad), bad[:18]))
    g = x.flush(1)
    for frame in (3, 4):
        c.expect(frame, 'iwarp.mpa.send_imm', mark.hex(':'))
    c.expect(3, 'iwarp.mpa.private_data', b'data'.hex(':'))
    for i, imm in enumerate(('0x01020304', '0x01020304', '0xfffefdfc')):
        c.expect(f, 'iwarp.rdmap.send_imm', imm, i)
    c.expect(f, 'iwarp.msg.segments', 2)
    c.expect(g, 'iwarp.rdmap.send_imm', '0x99887766')
    for name in ('rdmap.opcode.reserved', 'ddp.msn.gap', 'ddp.msn.repeat'):
        c.count('iwarp.' + name, 0)
    x.true(0).true(1)


@case
def wrong_headers(c):
    """Row 23: what breaks a rule is told, and shown all the same."""
    x = Connection(c).start()
    for ulpdu in (untagged(13, 0, 1, 0, text(12)), tagged(0, 1, 2, text(4), control=2),
                  tagged(0, 1, 6, text(4), rv=0x80), untagged(3, 1, 1, 0, text(4)),
                  tagged(3, 5, 0, text(9)), send(1, text(9))):
        x.way[0].fpdu(ulpdu)
    x.flush(0)
    for name in ('rdmap.opcode.reserved', 'ddp.dv.bad', 'rdmap.rv.bad', 'ddp.qn.bad', 'ddp.t.bad'):
        c.count('iwarp.' + name, 1)
    for f in x.way[0].fpdus:
        if f['opcode'] == 3 and 'stag' in f:
            f['payload'] = text(9).hex()
    x.true(0)


def without(c, frames):
    x = Connection(c).shake_hands()
    x.way[0].plain(request())
    x.way[1].plain(reply())
    for side in range(2):
        if frames[side]:
            x.flush(side)
        x.sent[side] = len(x.way[side].octets)
    sends(x.way[0], 8, 100)
    sends(x.way[1], 8, 333)
    x.way[1].fpdu(write(7, 0, text(3000)))
    x.flush(0, 260)
    x.flush(1, 1448)
    x.true(0).true(1)


@case
def no_request(c):
    """Row 2."""
    without(c, (False, True))


@case
def no_reply(c):
    """Row 2."""
    without(c, (True, False))


@case
def midstream(c):
    """Row 2: neither frame, and a stream that begins inside an FPDU."""
    without(c, (False, False))


@case
def midstream_cut(c):
    x = Connection(c, ports=(50001, 50002))
    sends(x.way[0], 10, 300)
    x.sent[0] = 101
    x.flush(0, 1000)
    x.true(0, lost=[(0, 101)])


@case
def midstream_markers(c):
    x = Connection(c, ports=(50001, 50002), markers=True)
    sends(x.way[0], 12, 700)
    x.sent[0] = 4 * 77
    x.flush(0, 1448)
    x.true(0, lost=[(0, 4 * 77)])


@case
def midstream_crc_off(c):
    x = Connection(c, ports=(50001, 50002), crc='absent')
    sends(x.way[0], 6, 300)
    x.flush(0, 1448)
    x.true(0)


def on_port(c, port):
    x = Connection(c, ports=(40000, port)).start()
    sends(x.way[0], 5, 100)
    sends(x.way[1], 5, 200)
    x.flush(0, 333)
    x.flush(1, 517)
    x.true(0).true(1)


for number in (4420, 5445, 445, 3260, 20049, 8009, 111):
    def ports(c, number=number):
        """Row 3."""
        on_port(c, number)
    ports.__name__ = 'port_%d' % number
    CASES.append(ports)


@case
def cut_tails(c):
    """Rows 4 and 5: segments that end 1 to 7 octets into an FPDU."""
    for tail in range(1, 8):
        x = Connection(c, ports=(40000 + tail, 7174)).start()
        sends(x.way[0], 5, 150)
        first, second = x.way[0].fpdus[1]['end'] + tail, x.way[0].fpdus[3]['end'] + tail
        for end in (first, second, len(x.way[0].octets)):
            x.piece(0, x.sent[0], end)
        x.true(0)


@case
def cut_requests(c):
    """Row 6."""
    for n in range(4, 20):
        x = Connection(c, ports=(40000 + n, 7174)).shake_hands()
        x.way[0].plain(request(private=b'abcd'))
        x.piece(0, 0, n)
        x.flush(0)
        x.way[1].plain(reply())
        x.piece(1, 0, n)
        x.flush(1)
        sends(x.way[0], 3, 50)
        x.flush(0)
        x.true(0)
    c.count('iwarp.mpa.req', 16)
    c.count('iwarp.mpa.rep', 16)


def marked(c, size, wanted=(True, True)):
    c.truth['aligned'] = size is None
    x = Connection(c).start(request(0x40 | 0x80 * wanted[0]), reply(0x40 | 0x80 * wanted[1]))
    x.way[0].markers, x.way[1].markers = wanted[1], wanted[0]
    for way in x.way:
        for i in range(12):
            way.fpdu(send(i + 1, text(10 + 150 * i, i)))
        way.fpdu(write(9, 100, text(4000)))
    for side in range(2):
        if size:
            x.flush(side, size)
        else:
            for f in x.way[side].fpdus:
                x.piece(side, f['first'], f['end'])
        x.true(side)
    c.count('iwarp.mpa.marker.bad', 0)
    c.count('iwarp.mpa.skipped', 0)


@case
def markers_aligned(c):
    """Row 9."""
    marked(c, None)


@case
def markers_unaligned(c):
    """Row 10."""
    marked(c, 777)


@case
def markers_of_responder(c):
    """Row 11."""
    marked(c, 1000, (True, False))


@case
def markers_of_initiator(c):
    """Row 11."""
    marked(c, 1000, (False, True))


@case
def markers_wrong(c):
    """Row 12: a pointer that is wrong, one with its octets swapped, low bits that do not count."""
    x = Connection(c).start(request(0xc0), reply(0xc0))
    x.way[0].markers = True
    for pointer in (lambda p: struct.pack('>HH', 0, p), lambda p: struct.pack('>HH', 0, p + 8),
                    lambda p: struct.pack('<HH', 0, p), lambda p: struct.pack('>HH', 0, p | 3)):
        x.way[0].fpdu(send(len(x.way[0].fpdus) + 1, text(500)), pointer=pointer)
    x.flush(0, 700)
    x.true(0)
    c.count('iwarp.mpa.marker.bad', 2)


@case
def lost_segment(c):
    """Row 13: an unaligned stream, a segment of which was not captured."""
    x = Connection(c).start()
    sends(x.way[0], 40, 400)
    lost = (5 * 1448 + 20, 6 * 1448 + 20)
    while x.sent[0] < len(x.way[0].octets):
        first = x.sent[0]
        end = min(first + 1448, len(x.way[0].octets))
        if first == lost[0]:
            x.sent[0] = end
        else:
            x.piece(0, first, end)
    x.true(0, lost=[lost])
    c.count('iwarp.mpa.crc.bad', 0)
    c.count('iwarp.ddp.msn.gap', 0)
    c.count('iwarp.rdmap.response.unsolicited', 0)


@case
def reordered(c):
    """Row 14: with the profile's setting, segments in any order, one twice."""
    c.option('tcp.no_subdissector_on_error:FALSE')
    x = Connection(c).start()
    sends(x.way[0], 10, 100)
    f = x.way[0].fpdus
    order = [0, 2, 1, 3, 5, 4, 6, 7, 9, 8]
    for i in order:
        x.piece(0, f[i]['first'], f[i]['end'])
    x.way[0].fpdus = [f[i] for i in order]
    x.true(0)
    c.count('iwarp.ddp.msn.repeat', 0)


@case
def wrong_crc(c):
    """Row 15."""
    x = Connection(c).start()
    for i in range(6):
        x.way[0].fpdu(send(i + 1, text(90)), crc='bad' if i in (2, 5) else 'good')
    x.flush(0)
    x.true(0)
    c.count('iwarp.mpa.crc.bad', 2)


@case
def crc_off(c):
    """Row 15: whatever the field holds."""
    x = Connection(c, crc='absent').start(request(0), reply(0))
    sends(x.way[0], 6, 200)
    x.way[0].fpdu(send(7, text(3)), crc='bad')
    x.flush(0, 500)
    x.true(0, crc='absent')
    c.count('iwarp.mpa.crc.bad', 0)


@case
def snap_length(c):
    """Row 16."""
    x = Connection(c).start()
    for i in range(5):
        x.way[0].fpdu(send(i + 1, text(1000)))
        x.flush(0, snap=54 + 24)
    for f in x.way[0].fpdus:
        f['payload'] = f['payload'][:8]
    x.true(0, crc='unverified')
    c.count('iwarp.cut', 5)


@case
def revision_2(c):
    """Row 17: negotiation, its result, the RTR that was agreed on."""
    x = Connection(c).start(request(0x50, 2, enhanced(16, 8, True, 'wr') + b'ulp data'),
                            reply(0x50, 2, enhanced(4, 32, True, 'r')))
    c.expect(3, 'iwarp.mpa.ird', 16)
    c.expect(3, 'iwarp.mpa.ord', 8)
    c.expect(3, 'iwarp.mpa.p2p', 'True')
    c.expect(3, 'iwarp.mpa.rtr.write', 'True')
    c.expect(3, 'iwarp.mpa.rtr.send', 'False')
    c.expect(3, 'iwarp.mpa.pd_len', 12)
    c.expect(3, 'iwarp.mpa.private_data', b'ulp data'.hex(':'))
    c.expect(4, 'iwarp.conn.ord', 16)
    c.expect(4, 'iwarp.conn.peer_ord', 4)
    c.expect(4, 'iwarp.conn.rtr', '0x04')
    x.way[0].fpdu(read_request(1, 1, 0, 0, 1, 0))
    f = x.flush(0)
    c.expect(f, 'iwarp.rdmap.rtr', 'True')
    x.way[1].fpdu(read_response(1, 0))
    x.flush(1)
    x.true(0).true(1)
    y = Connection(c, ports=(40001, 7174)).start(
        request(0x50, 2, enhanced(1, 1, True, 'w')), reply(0x50, 2, enhanced(1, 1, True, 'w')))
    y.way[0].fpdu(send(1, text(60)))
    y.flush(0)
    y.true(0)
    c.count('iwarp.rdmap.rtr.missing', 1)
    c.count('iwarp.rdmap.ird.exceeded', 0)


@case
def depth_exceeded(c):
    """Row 26."""
    x = Connection(c).start(request(0x50, 2, enhanced(2, 2)), reply(0x50, 2, enhanced(2, 2)))
    for i in range(4):
        x.way[0].fpdu(read_request(i + 1, 7, 0x100 * i, 16, 8, 0))
    x.flush(0)
    x.true(0)
    c.count('iwarp.rdmap.ird.exceeded', 2)


@case
def private_formats(c):
    """Row 18."""
    c.option('iwarp.ulp:auto')
    Connection(c).start(request(private=bytes.fromhex('f6ab0e1801010307')))
    c.expect(3, 'iwarp.mpa.rpcrdma.send_size', 4096)
    c.expect(3, 'iwarp.mpa.rpcrdma.recv_size', 8192)
    Connection(c, ports=(40001, 4420)).start(
        request(private=struct.pack('<HHHHH22x', 0, 5, 128, 127, 1)))
    c.expect(7, 'iwarp.mpa.nvme.qid', 5)
    c.expect(7, 'iwarp.mpa.nvme.hsqsize', 127)
    Connection(c, ports=(40002, 4420)).start(
        request(0x50, 2, enhanced(1, 1) + struct.pack('<HHHHH22x', 0, 0, 32, 31, 0)),
        reply(0x70, 2, enhanced(1, 1) + struct.pack('<HH28x', 0, 6)))
    c.expect(12, 'iwarp.mpa.nvme.status', 6)
    Connection(c, ports=(40003, 4420)).start(
        request(private=struct.pack('<HHHHH22x', 0, 1, 32, 31, 0)),
        reply(private=struct.pack('<HH28x', 0, 32)))
    c.expect(15, 'iwarp.mpa.nvme.qid', 1)
    c.expect(16, 'iwarp.mpa.nvme.crqsize', 32)
    Connection(c, ports=(40004, 3260)).start(request(0x50, 2, enhanced(1, 1) + b'\xc0\0\0\0'),
                                             reply(0x50, 2, enhanced(1, 1) + b'\x40\0\0\0'))
    c.expect(19, 'iwarp.mpa.iser.no_zbva', 'True')
    c.expect(20, 'iwarp.mpa.iser.no_zbva', 'False')
    c.expect(20, 'iwarp.mpa.iser.no_send_inv', 'True')
    Connection(c, ports=(40005, 5445)).start(request(private=struct.pack('<II', 16, 1)),
                                             reply(private=struct.pack('>II', 32, 7)))
    c.expect(23, 'iwarp.mpa.smb.ird', 16)
    c.expect(23, 'iwarp.mpa.smb.ord', 1)
    c.expect(24, 'iwarp.mpa.smb.ird', 32)
    c.expect(24, 'iwarp.mpa.smb.ord', 7)
    # Of another size or meaning: octets, and no more.
    Connection(c, ports=(40006, 5445)).start(request(private=bytes(8)),
                                             reply(private=b'\xff' * 8))
    Connection(c, ports=(40007, 3260)).start(request(private=b'abcdefgh'), reply(private=b'x'))
    c.count('iwarp.mpa.private_data', 14)
    c.count('iwarp.mpa.private_data.ulp', 10)


@case
def revisions(c):
    """Rows 19 and 20: 0 with markers, 129, one that nobody knows, too much private data."""
    x = Connection(c, markers=True).start(request(0xc0, 0), reply(0xc0, 0))
    for i in range(4):
        x.way[0].fpdu(tagged(0, 5, 300 * i, text(300), control=0, rv=0))
    x.flush(0, 500)
    x.true(0)
    y = Connection(c, ports=(40001, 7174), crc='absent').start(
        request(0, 129, b'abc', extra=bytes.fromhex('0102030400000005')),
        reply(0, 129, extra=bytes.fromhex('0a0b0c0d00000000')))
    sends(y.way[0], 3, 40)
    y.flush(0)
    y.true(0)
    c.count('iwarp.mpa.cookie', 2)
    z = Connection(c, ports=(40002, 7174)).start(request(0x40, 7), reply(0x40, 7))
    sends(z.way[0], 2, 40)
    z.flush(0)
    z.true(0)
    c.count('iwarp.mpa.rev.unknown', 2)
    w = Connection(c, ports=(40003, 7174)).start(request(private=text(600)))
    sends(w.way[0], 2, 40)
    w.flush(0)
    w.true(0)
    c.count('iwarp.mpa.private_data.long', 1)


@case
def rejected(c):
    x = Connection(c).start(rep=reply(0x60, 1, b'no'))
    x.way[0].plain(request(0xc0))
    x.flush(0)
    x.way[1].plain(reply(0x40))
    x.flush(1)
    x.way[1].markers = True
    sends(x.way[1], 4, 300)
    x.flush(1)
    x.true(1)
    c.count('iwarp.mpa.rejected', 1)


@case
def terminates(c):
    """Rows 24 and 25: all layers, enclosed headers, siw's order, the frame that caused it."""
    causes = [
        ('1100c000', write(0x10203, 0x1000, text(4)), 'Invalid STag', 0),
        ('11000300', write(0x10204, 0x1000, text(4)), 'Invalid STag', 1),
        ('0102e000', read_request(1, 0x11223344, 0x2000, 8, 0x10203, 0x1000),
         'Access rights violation', 0),
        ('1203c000', send(9, text(4)), 'Invalid MSN, out of range', 0),
        ('21030300', send(9, text(4)), 'Invalid MSN, out of range', 1),
    ]
    for i, (word, ulpdu, name, siw) in enumerate(causes):
        x = Connection(c, ports=(40000 + i, 7174)).start()
        x.way[0].fpdu(ulpdu)
        cause = x.flush(0)
        size = 14 if ulpdu[0] & 0x80 else 18
        x.way[1].fpdu(terminate(word, len(ulpdu), ulpdu[:size],
                                ulpdu[18:] if ulpdu[1] & 15 == 1 else b''))
        f = x.flush(1)
        if siw:
            c.expect(f, 'iwarp.rdmap.term.siw_order', 'True')
        c.expect(f, 'iwarp.rdmap.term.error', name)
        c.expect(f, 'iwarp_rdma.term_layer', '0x%02x' % (int(word[0], 16)))
        c.expect(f, 'iwarp_rdma.term_hdrct_m', 'True' if int(word[4], 16) & 8 else 'False')
        c.expect(f, 'iwarp_rdma.term_ddp_seg_len', '%04x' % len(ulpdu))
        c.expect(f, 'iwarp_rdma.term_ddp_h', ulpdu[:size].hex())
        c.expect(f, 'iwarp.rdmap.term.cause_in', cause)
        c.expect(f, 'iwarp.rdmap.term.ddp_len', len(ulpdu))
        c.expect(cause, 'iwarp.rdmap.terminated_in', f)
        if ulpdu[1] & 15 == 1:
            c.expect(f, 'iwarp.rdmap.read.src_stag', '0x00010203')
        x.true(0).true(1)
    c.count('iwarp.rdmap.term.siw', 3)
    for i, (word, name) in enumerate((('20020000', 'MPA CRC error'), ('02020000', 'MPA CRC error'),
                                      ('20060000', 'Insufficient IRD resources'),
                                      ('20070000', 'No matching RTR option'),
                                      ('00000000', 'Local catastrophic error'))):
        x = Connection(c, ports=(41000 + i, 7174)).start()
        x.way[1].fpdu(terminate(word))
        x.way[1].fpdu(send(1, text(3)))
        f = x.flush(1)
        c.expect(f, 'iwarp.rdmap.term.error', name)
        x.true(1)
    c.count('iwarp.rdmap.terminate', 10)
    c.count('iwarp.rdmap.after_terminate', 5)


@case
def violations(c):
    """Row 26."""
    x = Connection(c).start()
    a, b = x.way
    for msn in (1, 3, 3, 4):
        a.fpdu(send(msn, text(30)))
    a.fpdu(send(5, text(30), last=False))
    a.fpdu(send(5, text(30), mo=40))
    a.fpdu(send(6, text(30), last=False))
    a.fpdu(send(6, text(30), mo=20))
    a.fpdu(read_request(1, 7, 0, 10, 8, 0))
    x.flush(0)
    b.fpdu(read_response(9, 0, text(4)))
    b.fpdu(read_response(7, 0, text(14)))
    x.flush(1)
    a.fpdu(send(7, b'bye', opcode=4, inval=8))
    a.fpdu(write(8, 0, text(4)))
    x.flush(0)
    x.true(0).true(1)
    c.count('iwarp.ddp.msn.gap', 1)
    c.count('iwarp.ddp.msn.repeat', 1)
    c.count('iwarp.ddp.mo.gap', 1)
    c.count('iwarp.ddp.mo.overlap', 1)
    c.count('iwarp.rdmap.response.unsolicited', 1)
    c.count('iwarp.rdmap.response.beyond', 1)
    c.count('iwarp.stag.used_after_invalidate', 1)


@case
def messages(c):
    """Rows 8, 27, 28: long messages, two at once, several in a segment."""
    x = Connection(c).start()
    a = x.way[0]
    whole = text(3000, 3)
    for at in range(0, 3000, 1000):
        a.fpdu(send(1, whole[at:at + 1000], mo=at, last=at == 2000))
    for at in range(0, 3000, 1000):
        a.fpdu(write(5, 0x100 + at, whole[at:at + 1000], last=at == 2000))
    a.fpdu(send(2, b'one')).fpdu(send(3, b'two')).fpdu(send(4, b'three'))
    f = x.flush(0)
    c.expect(f, 'iwarp.msg.reassembled.data', whole.hex(':'))
    c.expect(f, 'iwarp.msg.reassembled.length', 3000, 1)
    c.expect(f, 'iwarp.msg.segments', 3)
    x.true(0)


@case
def messages_out_of_order(c):
    """Row 27: placed by MO."""
    c.option('tcp.no_subdissector_on_error:FALSE')
    x = Connection(c).start()
    a = x.way[0]
    whole = text(3000, 3)
    for at in range(0, 3000, 1000):
        a.fpdu(send(1, whole[at:at + 1000], mo=at, last=at == 2000))
    f = a.fpdus
    for i in (0, 2, 1):
        last = x.piece(0, f[i]['first'], f[i]['end'])
    a.fpdus = [f[0], f[2], f[1]]
    c.expect(last, 'iwarp.msg.reassembled.data', whole.hex(':'))
    x.true(0)


@case
def equal_ports(c):
    """Row 37."""
    x = Connection(c, ports=(7174, 7174)).start(request(0xc0), reply(0x40))
    x.way[1].markers = True
    sends(x.way[0], 4, 600)
    sends(x.way[1], 4, 600)
    x.flush(0)
    x.flush(1)
    x.true(0).true(1)


@case
def carriers(c):
    """IPv6, VLAN, sequence numbers that wrap, keep-alive, two connections, a port used again."""
    for i, more in enumerate(({'v6': True}, {'vlan': True}, {'seq': (2**32 - 700, 2**32 - 100)})):
        x = Connection(c, ports=(40000 + i, 7174), **more).start()
        sends(x.way[0], 6, 300)
        x.flush(0, 500)
        x.segment(0, b'', 0x10, x.seq[0] + x.sent[0] - 1)
        sends(x.way[0], 6, 300, 7)
        x.flush(0, 500)
        x.true(0)
    for seq in (1000, 900000):
        x = Connection(c, ports=(45000, 7174), seq=(seq, seq + 77)).start()
        sends(x.way[1], 4, 300)
        x.flush(1)
        x.segment(0, b'', 0x11, x.seq[0] + x.sent[0])
        x.segment(1, b'', 0x11, x.seq[1] + x.sent[1])
        x.true(1)


@case
def largest_fpdu(c):
    x = Connection(c).start()
    x.way[0].fpdu(write(1, 0, text(64768 - 14)))
    x.way[0].fpdu(send(1, b'end'))
    x.flush(0, 1448)
    x.true(0)


def rpc_call(xid, procedure):
    """RPC-over-RDMA version 1, no chunks; an NFS call (RFC 8166 4, RFC 5531 9)."""
    return struct.pack('>7I', xid, 1, 32, 0, 0, 0, 0) + struct.pack(
        '>10I', xid, 0, 2, 100003, 3, procedure, 0, 0, 0, 0)


def rpc_reply(xid):
    return struct.pack('>7I', xid, 1, 32, 0, 0, 0, 0) + struct.pack('>6I', xid, 1, 0, 0, 0, 0)


@case
def upper_nfs(c):
    """Rows 8, 29, 30, 33: also in two segments, and behind the empty Send of an RTR."""
    x = Connection(c, ports=(40000, 20049)).start()
    a, b = x.way
    a.fpdu(send(1)).fpdu(send(2, rpc_call(7, 0)))
    long = rpc_call(8, 0)
    a.fpdu(send(3, long[:32], last=False)).fpdu(send(3, long[32:], mo=32))
    x.flush(0)
    b.fpdu(send(1, rpc_reply(7))).fpdu(send(2, rpc_reply(8)))
    x.flush(1)
    x.true(0).true(1)


@case
def upper_smb(c):
    """Rows 3 and 33: negotiation of SMB Direct (MS-SMBD 2.2)."""
    x = Connection(c, ports=(40000, 5445)).start()
    x.way[0].fpdu(send(1, struct.pack('<HHHHIII', 256, 256, 0, 10, 1364, 8192, 1048576)))
    x.flush(0)
    x.way[1].fpdu(send(1, struct.pack('<HHHHHHIIIII', 256, 256, 256, 0, 10, 10, 0, 8388608, 1364,
                                      8192, 1048576)))
    x.flush(1)
    x.true(0).true(1)


@case
def upper_iser(c):
    """Rows 3 and 33: an iSCSI login (RFC 7145 9.2, RFC 7143 11.12)."""
    x = Connection(c, ports=(40000, 3260)).start()
    login = bytes([0x43, 0x87, 0, 0, 0, 0, 0, 0]) + bytes(8) + struct.pack('>IHHII', 5, 1, 0, 1, 0)
    x.way[0].fpdu(send(1, bytes([0x10]) + bytes(27) + login + bytes(48 - len(login))))
    x.flush(0)
    # The Hello messages, and the header without base offsets (RFC 5046 9.2 to 9.4).
    y = Connection(c, ports=(40001, 3260)).start()
    y.way[0].fpdu(send(1, bytes([0x20, 0x11, 0, 8]) + bytes(8)))
    y.flush(0)
    y.way[1].fpdu(send(1, bytes([0x31, 0x11, 0, 4]) + bytes(24)))
    y.flush(1)
    command = bytes([0x01, 0xc1]) + bytes(14) + struct.pack('>II', 9, 512) + bytes(8)
    y.way[0].fpdu(send(2, bytes([0x14, 0, 0, 0]) + struct.pack('>II', 0, 0x7788) + command +
                       bytes([0x28]) + bytes(15)))
    y.flush(0)
    y.true(0).true(1)
    x.true(0).true(1)


@case
def upper_nvme(c):
    """Rows 3, 18 and 33: Connect of an I/O queue, a read by RDMA Write, a write by RDMA Read."""
    x = Connection(c, ports=(40000, 4420)).start(
        request(private=struct.pack('<HHHHH22x', 0, 1, 128, 127, 0)))
    a, b = x.way

    def command(opcode, ident, key, size, fabrics=0):
        sgl = struct.pack('<Q3sIB', 0x1000, struct.pack('<I', size)[:3], key, 0x40)
        return struct.pack('<BBHB19x', opcode, 0x40, ident, fabrics) + sgl + bytes(24)

    def completion(ident):
        return struct.pack('<QHHHH', 0, 1, 1, ident, 0)

    connect = command(0x7f, 0, 0, 1024, 1)[:40] + struct.pack('<HHH18x', 0, 1, 127)
    a.fpdu(send(1, connect + bytes(1024)))
    x.flush(0)
    b.fpdu(send(1, completion(0)))
    x.flush(1)
    a.fpdu(send(2, command(2, 1, 0x77, 2048)))
    x.flush(0)
    b.fpdu(write(0x77, 0x1000, text(1000), last=False)).fpdu(write(0x77, 0x13e8, text(1048)))
    b.fpdu(send(2, completion(1)))
    x.flush(1)
    a.fpdu(send(3, command(1, 2, 0x78, 512)))
    x.flush(0)
    b.fpdu(read_request(1, 0x99, 0, 512, 0x78, 0x1000))
    x.flush(1)
    a.fpdu(read_response(0x99, 0, text(512)))
    x.flush(0)
    b.fpdu(send(3, completion(2)))
    x.flush(1)
    x.true(0).true(1)


@case
def other_protocols(c):
    """None of it is iWARP."""
    import random
    chance = random.Random(5)
    x = Connection(c, ports=(40000, 80)).shake_hands()
    x.segment(0, b'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    x.segment(1, b'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc')
    x = Connection(c, ports=(40001, 443)).shake_hands()
    x.segment(0, b'\x16\x03\x01\0\x05\1\0\0\1\0')
    for port in (445, 4420, 9999, 3260):
        x = Connection(c, ports=(40002, port)).shake_hands()
        for i in range(8):
            octets = bytes(chance.randrange(256) for _ in range(1000))
            x.way[i % 2].plain(octets)
            x.flush(i % 2)
    c.count('iwarp.stream', 0)


def foreign_streams():
    """Port, and what each side says in turn, by the protocols' own documents."""
    import random
    chance = random.Random(11)
    noise = bytes(chance.randrange(256) for _ in range(40000))
    http2 = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + bytes.fromhex('000012040000000000') + bytes(18)
    dns = bytes.fromhex('001d0001010000010000000000000161076578616d706c6503636f6d00000100') + b'\1'
    tls = bytes.fromhex('160301004a0100004603030000000000000000') + noise[:56]
    smb2 = struct.pack('>I', 102) + b'\xfeSMB' + struct.pack('<HHIHHIIQIIQ16x', 64, 0, 0, 0, 1, 0, 0,
                                                             0, 0, 0, 0) + struct.pack(
        '<HHHHI16xQH', 36, 1, 1, 0, 0, 0, 0x0202)
    icreq = struct.pack('<BBBBIHBBI', 0, 0, 128, 0, 128, 0, 0, 0, 0) + bytes(112)
    capsule = struct.pack('<BBBBI', 4, 0, 72, 0, 72) + bytes([0x7f, 0, 1, 0, 4]) + bytes(59)
    login = bytes([0x43, 0x87]) + bytes(46)
    rpc = struct.pack('>I', 0x80000028) + struct.pack('>10I', 7, 0, 2, 100003, 3, 0, 0, 0, 0, 0)
    ajp = bytes.fromhex('1234000e') + b'\n' + noise[:13]
    bgp = b'\xff' * 16 + bytes.fromhex('001d0104fde800b40a00000100')
    ssh = b'SSH-2.0-OpenSSH_9.2\r\n' + struct.pack('>IBB', 1020, 6, 20) + noise[:1018]
    # What looks like FPDUs most: lengths, zeroes, the octets of DDP's control fields again and again.
    tempting = b''.join(struct.pack('>HBB', n, 0x41, 0x43) + bytes(n) for n in (20, 36, 60, 18) * 9)
    counters = b''.join(struct.pack('>I', i) for i in range(3000))
    return ((22, (ssh, ssh[:21])), (443, (tls, tls)), (80, (http2, http2[24:])), (53, (dns, dns)),
            (445, (smb2, smb2)), (4420, (icreq, icreq, capsule, capsule)), (3260, (login, login)),
            (2049, (rpc, rpc)), (20049, (rpc, rpc)), (111, (rpc, rpc)), (8009, (ajp, ajp)), (179, (bgp, bgp)), (5445, (b'AMQP\0\1\0\0',)),
            (5432, (struct.pack('>II', 8, 80877103), b'N')), (3306, (b'\x0a\0\0\0' + b'8.0.1\0', noise)),
            (6379, (b'*1\r\n$4\r\nPING\r\n', b'+PONG\r\n')), (1883, (b'\x10\x0c\0\4MQTT\4\2\0<\0\0',)),
            (9000, (bytes(9000), bytes(70000))), (9001, (b'\xff' * 9000,)), (9002, (noise, noise)),
            (9003, (counters, counters)), (9004, (b'MPA ID Request', b'MPA')), (9005, (tempting,)),
            (860, (noise[:5000], noise[5000:9000])), (9006, (b'\0\x12\x41\x43',) * 9))


@case
def foreign(c):
    """More of what is not iWARP, whole and from the middle."""
    for i, (port, turns) in enumerate(foreign_streams()):
        for started in (True, False):
            x = Connection(c, ports=(41000 + 2 * i + started, port))
            if started:
                x.shake_hands()
            for turn, octets in enumerate(turns * 2):
                x.way[turn % 2].plain(octets)
                x.flush(turn % 2, 1448)
    c.count('iwarp.stream', 0)
    c.count('iwarp.mpa.skipped', 0)


def main(folder):
    for function in CASES:
        c = Capture(function.__name__)
        function(c)
        c.save(folder)
        with open('%s/%s.json' % (folder, c.name), 'w') as f:
            json.dump(c.truth, f)


main(sys.argv[1])
