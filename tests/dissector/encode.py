# SPDX-License-Identifier: BSD-2-Clause
#
# An encoder of its own for iWARP over TCP in capture files: MPA start-up frames, FPDUs with and
# without markers, TCP segments cut where the caller wants, and the list of what was put in, which
# is the truth that a dissector is judged by. Shares nothing with the library or the dissector.
# RFC 5040 4, RFC 5041 4, RFC 5044 4 and 7, RFC 6581 9, RFC 7306 5 and 6.
import struct

TABLE = []
for byte in range(256):
    value = byte
    for _ in range(8):
        value = value >> 1 ^ (0x82f63b78 if value & 1 else 0)
    TABLE.append(value)


def crc32c(octets):
    crc = 0xffffffff
    for octet in octets:
        crc = crc >> 8 ^ TABLE[(crc ^ octet) & 255]
    return crc ^ 0xffffffff


def tagged(opcode, stag, to, payload=b'', last=True, control=0x01, rv=0x40):
    return struct.pack('>BBIQ', 0x80 | 0x40 * last | control, rv | opcode, stag, to) + payload


def untagged(opcode, qn, msn, mo=0, payload=b'', last=True, inval=0, control=0x01, rv=0x40):
    return struct.pack('>BBIIII', 0x40 * last | control, rv | opcode, inval, qn, msn, mo) + payload


def write(stag, to, payload=b'', last=True):
    return tagged(0, stag, to, payload, last)


def read_response(stag, to, payload=b'', last=True):
    return tagged(2, stag, to, payload, last)


def send(msn, payload=b'', mo=0, last=True, opcode=3, inval=0):
    return untagged(opcode, 0, msn, mo, payload, last, inval)


def read_request(msn, sink, sink_to, size, source, source_to):
    return untagged(1, 1, msn, 0, struct.pack('>IQIIQ', sink, sink_to, size, source, source_to))


def atomic_request(msn, op, ident, stag, to, data, mask=0, compare=0, compare_mask=2**64 - 1):
    return untagged(10, 1, msn, 0, struct.pack('>IIIQQQQQ', op, ident, stag, to, data, mask,
                                               compare, compare_mask))


def atomic_response(msn, ident, value):
    return untagged(11, 3, msn, 0, struct.pack('>IQ', ident, value))


def immediate(msn, octets, solicited=False):
    return untagged(9 if solicited else 8, 0, msn, 0, octets)


def terminate(word, length=None, ddp=b'', rdma=b''):
    body = bytes.fromhex(word)
    if length is not None:
        body += struct.pack('>H', length)
    return untagged(7, 2, 1, 0, body + ddp + rdma)


def setup(kind, flags, revision, private=b'', length=None, extra=b''):
    return (b'MPA ID Re%s Frame' % kind + bytes([flags, revision]) +
            struct.pack('>H', len(private) if length is None else length) + extra + private)


def request(flags=0x40, revision=1, private=b'', **more):
    return setup(b'q', flags, revision, private, **more)


def reply(flags=0x40, revision=1, private=b'', **more):
    return setup(b'p', flags, revision, private, **more)


def enhanced(ird, ord_, p2p=False, rtr=''):
    return struct.pack('>HH', ird | 0x8000 * p2p | 0x4000 * ('s' in rtr),
                       ord_ | 0x8000 * ('w' in rtr) | 0x4000 * ('r' in rtr))


class Way:
    """What one side sends: octets, and the FPDUs in them."""

    def __init__(self, markers=False, crc='good'):
        self.octets = bytearray()
        self.begin = None  # of Full Operation
        self.markers = markers
        self.crc = crc
        self.fpdus = []

    def plain(self, octets):
        self.octets += octets
        self.begin = len(self.octets)

    def fpdu(self, ulpdu, crc=None, pointer=lambda p: struct.pack('>HH', 0, p)):
        if self.begin is None:
            self.begin = len(self.octets)
        crc = crc or self.crc
        body = struct.pack('>H', len(ulpdu)) + ulpdu
        body += bytes(-len(body) % 4)
        out = bytearray()

        def position():
            return len(self.octets) + len(out) - self.begin

        if self.markers and position() % 512 == 0:
            out += bytes(4)
        start = position()
        for at in range(0, len(body), 4):
            if self.markers and at and position() % 512 == 0:
                out += pointer(position() - start)
            out += body[at:at + 4]
        if self.markers and position() % 512 == 0:
            out += pointer(position() - start)
        value = crc32c(out)
        field = {'good': value, 'absent': 0}.get(crc, value ^ 0x5a5a0001)
        first = len(self.octets)
        self.octets += out + struct.pack('<I', field)
        self.fpdus.append(truth(ulpdu, crc, first, len(self.octets)))
        return self


def truth(ulpdu, crc, first, end):
    """As the dissector's fields have it, see judge.py."""
    is_tagged = ulpdu[0] & 0x80
    t = {'opcode': ulpdu[1] & 15, 'last': bool(ulpdu[0] & 0x40), 'crc': crc, 'first': first,
         'end': end, 'length': len(ulpdu)}
    if is_tagged:
        t['stag'], t['to'] = struct.unpack('>IQ', ulpdu[2:14])
        t['payload'] = ulpdu[14:].hex()
    else:
        t['qn'], t['msn'], t['mo'] = struct.unpack('>III', ulpdu[6:18])
        t['payload'] = ulpdu[18:].hex() if t['opcode'] in (3, 4, 5, 6) or t['opcode'] > 11 else ''
    return t


class Capture:
    """A file: packets in the order they are added, and what is true about them."""

    def __init__(self, name):
        self.name = name
        self.packets = []
        self.link = 1  # Ethernet
        self.clock = 1700000000 * 1000000
        self.truth = {'name': name, 'fpdus': [], 'fields': [], 'counts': {}, 'options': []}

    def frame(self, octets, snap=None, after=1000):
        self.clock += after
        self.packets.append((self.clock, octets[:snap] if snap else octets, len(octets)))
        return len(self.packets)

    def expect(self, frame, name, value, which=0):
        """A field of that frame: its value as PDML shows it."""
        self.truth['fields'].append([frame, name, str(value), which])

    def count(self, name, n):
        """How often a field or expert information is in the whole file."""
        self.truth['counts'][name] = n

    def option(self, *options):
        self.truth['options'] += [word for o in options for word in ('-o', o)]

    def write(self, f):
        f.write(struct.pack('<IHHiIII', 0xa1b2c3d4, 2, 4, 0, 0, 262144, self.link))
        for clock, octets, length in self.packets:
            f.write(struct.pack('<IIII', clock // 1000000, clock % 1000000, len(octets), length) +
                    octets)

    def save(self, folder):
        with open('%s/%s.pcap' % (folder, self.name), 'wb') as f:
            self.write(f)


class Connection:
    """Two sides, each with a Way, and the segments that carry it."""

    def __init__(self, capture, ports=(40000, 7174), v6=False, vlan=False, seq=(1000, 5000),
                 addresses=(1, 2), **ways):
        self.capture = capture
        self.ports = ports
        self.v6 = v6
        self.vlan = vlan
        self.addresses = addresses
        self.seq = seq
        self.way = (Way(**ways), Way(**ways))
        self.sent = [0, 0]

    def shake_hands(self):
        self.segment(0, b'', 0x02, self.seq[0] - 1)
        self.segment(1, b'', 0x12, self.seq[1] - 1)
        return self

    def start(self, req=None, rep=None):
        """TCP's and MPA's start; None of a frame: request() or reply()."""
        self.shake_hands()
        self.way[0].plain(request() if req is None else req)
        self.flush(0)
        self.way[1].plain(reply() if rep is None else rep)
        self.flush(1)
        return self

    def segment(self, side, payload, flags=0x18, seq=None, snap=None):
        peer = 1 - side
        tcp = struct.pack('>HHIIBBHHH', self.ports[side], self.ports[peer],
                          (self.seq[side] if seq is None else seq) & 0xffffffff,
                          (self.seq[peer] + self.sent[peer]) & 0xffffffff, 0x50, flags, 8192, 0, 0)
        tcp += payload
        if self.v6:
            address = [bytes([0xfd] + [0] * 14 + [a]) for a in self.addresses]
            ip = struct.pack('>IHBB', 0x60000000, len(tcp), 6, 64) + address[side] + address[peer]
        else:
            address = [bytes([10, 0, 0, a]) for a in self.addresses]
            ip = struct.pack('>BBHHHBBH', 0x45, 0, 20 + len(tcp), 1, 0x4000, 64, 6, 0)
            ip += address[side] + address[peer]
        kind = struct.pack('>H', 0x86dd if self.v6 else 0x0800)
        if self.vlan:
            kind = struct.pack('>HH', 0x8100, 7) + kind
        ether = b'\2\0\0\0\0' + bytes([self.addresses[peer]]) + b'\2\0\0\0\0'
        ether += bytes([self.addresses[side]]) + kind
        return self.capture.frame(ether + ip + tcp, snap)

    def piece(self, side, first, end, snap=None):
        """Octets of that side's way as one segment."""
        self.sent[side] = max(self.sent[side], end)
        return self.segment(side, bytes(self.way[side].octets[first:end]),
                            seq=self.seq[side] + first, snap=snap)

    def flush(self, side, size=None, snap=None):
        """All that was not sent yet, in segments of that size; the number of the last frame."""
        frame = None
        while self.sent[side] < len(self.way[side].octets):
            first = self.sent[side]
            end = min(first + (size or 65000), len(self.way[side].octets))
            frame = self.piece(side, first, end, snap)
        return frame

    def lose(self, side, first, n):
        """All up to there is sent, and n octets are lost behind it: where from, where to."""
        self.piece(side, self.sent[side], first)
        self.sent[side] = first + n
        return first, first + n

    def true(self, side, lost=(), only=None, crc=None):
        """All FPDUs of that side are to be found, but those that touch a lost range."""
        for f in self.way[side].fpdus:
            hit = any(f['first'] < end and first < f['end'] for first, end in lost)
            if not hit and (only is None or only(f)):
                f = dict(f, port=self.ports[side], address=self.addresses[side])
                if crc:
                    f['crc'] = crc
                self.capture.truth['fpdus'].append(f)
        return self
