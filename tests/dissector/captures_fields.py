# SPDX-License-Identifier: BSD-2-Clause
#
# Captures in which every field of the dissector has a value that is known: dissector.sh looks
# whether any was forgotten. See captures.py.
import struct

from cases import case, text
from encode import *


class Talk(Connection):
    """Each FPDU in a frame of its own, and what that frame has to show."""

    def say(self, side, ulpdu, **more):
        self.way[side].fpdu(ulpdu, **more)
        return self.flush(side)

    def expect(self, frame, **fields):
        """Names with one underscore for each dot, two for an underscore."""
        for name, value in fields.items():
            name = name.replace('__', '-').replace('_', '.').replace('-', '_')
            self.capture.expect(frame, 'iwarp.' + name, value)

    def crc(self, side):
        """Of the last FPDU: what it carries, what it should."""
        f = self.way[side].fpdus[-1]
        octets = bytes(self.way[side].octets[f['first']:f['end']])
        return struct.unpack('<I', octets[-4:])[0], crc32c(octets[:-4])


@case
def fields_start(c):
    """Start-up frames, and what they agree on, in every frame."""
    c.truth['aligned'] = True
    x = Talk(c).start(request(0xd3, 2, enhanced(5, 6, True, 'sr') + b'\1\2\3'),
                      reply(0x50, 2, enhanced(6, 5, True, 's')))
    x.expect(3, stream=0, mpa_req='MPA ID Req Frame', mpa_flags='0xd3', mpa_flags_m=True,
             mpa_flags_c=True, mpa_flags_r=False, mpa_flags_s=True, mpa_flags_reserved='0x03',
             mpa_rev=2, mpa_pd__len=7, mpa_private__data='01:02:03', mpa_ird=5, mpa_ord=6,
             mpa_p2p=True, mpa_rtr_send=True, mpa_rtr_write=False, mpa_rtr_read=True)
    x.expect(4, mpa_rep='MPA ID Rep Frame', mpa_flags_m=False, mpa_rtr_read=False, mpa_pd__len=4,
             conn_markers=True, conn_initiator=False)
    x.way[1].markers = True
    f = x.say(0, send(1))
    x.expect(f, conn_markers=False, conn_crc=True, conn_rev=2, conn_initiator=True,
             conn_request__in=3, conn_reply__in=4, conn_ord=6, conn_peer__ord=5, conn_rtr='0x01',
             rdmap_rtr=True)
    f = x.say(1, send(1, text(700)))
    x.expect(f, mpa_marker='00:00:00:00', mpa_marker_fpduptr=0, conn_initiator=False)
    c.expect(f, 'iwarp.mpa.marker', '00:00:01:fc', 1)
    c.expect(f, 'iwarp.mpa.marker.fpduptr', 508, 1)
    x.true(0).true(1)
    Talk(c, ports=(40001, 7174)).start(request(0x50, 2, b'ab'), reply(0x60))
    y = Talk(c, ports=(40002, 7174), crc='absent').start(
        request(0, 129, extra=bytes.fromhex('0102030400000005')),
        reply(0, 129, extra=bytes.fromhex('0a0b0c0d00000007')))
    frame = len(c.packets)
    y.expect(frame, mpa_cookie='0x0a0b0c0d', mpa_congestion='0x00000007', mpa_rev=129)
    y.expect(y.say(0, send(1, b'a')), conn_crc=False, mpa_crc_status=3, conn_rev=129)
    y.true(0)
    for name, n in (('reserved.set', 1), ('enhanced.short', 1), ('rejected', 1)):
        c.count('iwarp.mpa.' + name, n)


@case
def fields_fpdu(c):
    """MPA's and DDP's fields of FPDUs, and messages."""
    c.truth['aligned'] = True
    x = Talk(c).start()
    f = x.say(0, untagged(3, 0, 1, 0, b'abcdefg', inval=0xcafe0102))
    crc = '0x%08x' % x.crc(0)[0]
    x.expect(f, mpa_ulpdu__len=25, mpa_fpdu__len=32, mpa_pad='00', mpa_crc=crc, mpa_crc_status=1,
             mpa_crc_expected=crc, ddp_t=False, ddp_l=True, ddp_dv=1, ddp_rsvdulp='0xcafe0102',
             ddp_qn=0, ddp_msn=1, ddp_mo=0, ddp_payload__len=7, rdmap_rv=1, rdmap_opcode=3)
    first = x.say(0, send(2, text(30), last=False))
    last = x.say(0, send(2, text(11), mo=30))
    x.expect(first, msg_id=2, msg_segment=1, msg_segments=2, msg_first__in=first,
             msg_reassembled__in=last, ddp_l=False)
    x.expect(last, msg_id=2, msg_segment=2, msg_first__in=first, ddp_mo=30, ddp_msn=2,
             msg_reassembled_length=41, msg_reassembled_data=(text(30) + text(11)).hex(':'))
    f = x.say(0, write(0xdeadbeef, 0x1122334455667788, text(7)))
    x.expect(f, ddp_t=True, ddp_stag='0xdeadbeef', ddp_to='0x1122334455667788', mpa_pad='00',
             stag_first__in=f, rdmap_opcode=0)
    gone = x.say(0, send(3, b'x', opcode=4, inval=0xdeadbeef))
    x.expect(gone, rdmap_inval__stag='0xdeadbeef', stag_first__in=f, rdmap_opcode=4)
    x.expect(x.say(0, write(0xdeadbeef, 0, b'y')), stag_first__in=f, stag_invalidated__in=gone)
    f = x.say(0, untagged(3, 0, 4, 0, b'z', control=0x29, rv=0x60))
    x.expect(f, ddp_rsvd='0x0a', rdmap_rsvd='0x02')
    f = x.say(0, send(5, text(8)), crc='bad')
    wrong, right = x.crc(0)
    x.expect(f, mpa_crc='0x%08x' % wrong, mpa_crc_expected='0x%08x' % right, mpa_crc_status=0)
    f = x.say(0, send(6, text(200)))
    c.packets[f - 1] = c.packets[f - 1][:1] + (c.packets[f - 1][1][:100],) + c.packets[f - 1][2:]
    x.expect(f, mpa_crc_status=2)
    x.way[0].fpdus[-1].update(crc='unverified', payload=text(200)[:100 - 54 - 20].hex())
    x.true(0)
    c.count('iwarp.ddp.rsvd.set', 1)


@case
def fields_skipped(c):
    """Octets of which nothing can be made: the rest of a lost FPDU, and a length that is wrong."""
    x = Talk(c).start()
    for i in range(4):
        x.way[0].fpdu(send(i + 1, text(300)))
    lost = x.lose(0, x.way[0].fpdus[1]['first'], 100)
    f = x.flush(0)
    x.expect(f, mpa_skipped=x.way[0].fpdus[1]['end'] - lost[1])
    x.true(0, lost=[lost])
    y = Talk(c, ports=(40001, 7174)).start()
    for i in range(4):
        y.way[0].fpdu(send(i + 1, text(60)))
    wrong = y.way[0].fpdus[1]
    y.way[0].octets[wrong['first']:wrong['first'] + 2] = struct.pack('>H', wrong['length'] + 16)
    f = y.flush(0)
    y.expect(f, mpa_skipped=wrong['end'] - wrong['first'])
    y.true(0, lost=[(wrong['first'], wrong['end'])])
    c.truth['malformed'] = True  # that length is
    c.count('iwarp.mpa.resync', 1)
    c.count('iwarp.mpa.length.bad', 1)


@case
def fields_requests(c):
    """RDMAP's own headers, and what is wrong with some."""
    c.truth['aligned'] = True
    x = Talk(c).start()
    ask = x.say(0, read_request(1, 0x11223344, 0x5566778899aabbcc, 9, 0x99887766,
                                0x0102030405060708))
    swap = x.say(0, atomic_request(2, 2, 0x01020304, 0x0a0b0c0d, 0x1112131415161718,
                                   0x2122232425262728, 0x3132333435363738, 0x4142434445464748,
                                   0x5152535455565758))
    answer = x.say(1, read_response(0x11223344, 0x5566778899aabbcc, text(9)))
    value = x.say(1, atomic_response(1, 0x01020304, 0x6162636465666768))
    x.expect(ask, rdmap_read_sink__stag='0x11223344', rdmap_read_sink__to='0x5566778899aabbcc',
             rdmap_read_len=9, rdmap_read_src__stag='0x99887766', ddp_qn=1, rdmap_opcode=1,
             rdmap_read_src__to='0x0102030405060708', rdmap_response__in=answer,
             rdmap_outstanding=1)
    x.expect(swap, rdmap_atomic_op=2, rdmap_atomic_id='0x01020304', rdmap_opcode=10,
             rdmap_atomic_stag='0x0a0b0c0d', rdmap_atomic_to='0x1112131415161718',
             rdmap_atomic_data='0x2122232425262728', rdmap_atomic_mask='0x3132333435363738',
             rdmap_atomic_compare='0x4142434445464748', rdmap_response__in=value,
             rdmap_atomic_compare__mask='0x5152535455565758', rdmap_outstanding=2)
    x.expect(answer, rdmap_request__in=ask, rdmap_time='0.002000000', rdmap_opcode=2)
    x.expect(value, rdmap_request__in=swap, rdmap_atomic_id='0x01020304', rdmap_opcode=11,
             rdmap_atomic_value='0x6162636465666768', ddp_qn=3)
    x.expect(x.say(0, immediate(1, bytes(range(8)), True)), rdmap_imm='0x0001020304050607',
             rdmap_opcode=9)
    bad = read_request(3, 1, 2, 3, 4, 5)
    x.say(0, untagged(1, 1, 3, 0, bad[18:38]))
    x.say(0, untagged(1, 1, 3, 0, bad[18:], last=False))
    x.say(0, untagged(1, 1, 3, 4, bad[18:]))
    f = x.say(1, terminate('1203e000', len(bad), bad[:18], bad[18:]))
    x.expect(f, rdmap_term_layer=1, rdmap_term_etype='0x02',
             rdmap_term_code='0x03', rdmap_term_error='Invalid MSN, out of range',
             rdmap_term_hdrct_m=True, rdmap_term_hdrct_d=True, rdmap_term_hdrct_r=True,
             rdmap_term_ddp__len=len(bad), rdmap_term_ddp=bad[:18].hex(':'),
             rdmap_term_rdma=bad[18:].hex(':'), ddp_qn=2, rdmap_opcode=7)
    y = Talk(c, ports=(40001, 7174)).start()
    f = y.say(1, terminate('20028000', 77))
    y.expect(f, rdmap_term_layer=2, rdmap_term_etype='0x00', rdmap_term_code='0x02',
             rdmap_term_hdrct_m=True, rdmap_term_hdrct_d=False, rdmap_term_hdrct_r=False,
             rdmap_term_ddp__len=77)
    x.true(0).true(1)
    y.true(1)
    for name in ('length.bad', 'l.missing', 'mo.not_0'):
        c.count('iwarp.ddp.' + name, 1)


@case
def fields_upper(c):
    """What is shown of upper layers by the plugin itself; payload is theirs here."""
    c.option('iwarp.ulp:auto')
    c.truth['payloads'] = False
    x = Talk(c, ports=(40000, 3260)).start()
    f = x.say(0, send(1, bytes([0x20, 0x21, 0, 8]) + bytes(8)))
    x.expect(f, conn_ulp='iSER', iser_opcode=2, iser_max__version=2, iser_min__version=1,
             iser_ird=8)
    f = x.say(1, send(1, bytes([0x31, 0x21, 0, 4]) + bytes(24)))
    x.expect(f, iser_opcode=3, iser_rej=True, iser_max__version=2, iser_cur__version=1, iser_ord=4)
    command = bytes([0x01, 0xc1]) + bytes(14) + struct.pack('>II', 9, 512) + bytes(8)
    f = x.say(0, send(2, bytes([0x1c, 0, 0, 0]) + struct.pack('>II', 0x5566, 0x7788) + command +
                      bytes([0x28]) + bytes(15)))
    x.expect(f, iser_opcode=1, iser_wsv=True, iser_rsv=True, iser_write__stag='0x00005566',
             iser_read__stag='0x00007788')
    x.true(0).true(1)
    y = Talk(c, ports=(40001, 20049)).start(request(private=bytes.fromhex('f6ab0e1801010307')))
    y.expect(len(c.packets) - 1, mpa_rpcrdma_magic='0xf6ab0e18', mpa_rpcrdma_version=1,
             mpa_rpcrdma_flags='0x01', mpa_private__data_ulp='RPC-over-RDMA',
             conn_ulp='RPC-over-RDMA')
    # A list of chunks that begins, and ends before it is whole: the octets are shown all the same.
    y.say(0, send(1, struct.pack('>8I', 7, 1, 32, 0, 0, 1, 5, 6)))
    y.true(0)
    c.count('iwarp.ulp.failed', 1)
    c.count('data.data', 1)
    z = Talk(c, ports=(40002, 4420)).start(
        request(private=struct.pack('<HHHHH22x', 0, 5, 128, 127, 1)))
    z.expect(len(c.packets) - 1, mpa_nvme_recfmt=0, mpa_nvme_hrqsize=128, conn_ulp='NVMe')
