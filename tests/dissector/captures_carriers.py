# SPDX-License-Identifier: BSD-2-Clause
#
# Captures of the same conversations over other link layers, headers and sizes of segments, and of
# what TCP does beside carrying octets: wrapping, probing, closed windows. See captures.py.
import struct
from itertools import permutations

from cases import CASES, case, text
from encode import *

LINKS = {'ether': 1, 'null': 0, 'raw': 101, 'sll': 113, 'sll2': 276}


class Carried(Connection):
    """A connection whose frames have these headers."""

    def __init__(self, capture, link='ether', tags=(), extensions=(), ip_options=b'',
                 tcp_options=b'', offloaded=False, **more):
        super().__init__(capture, **more)
        capture.link = LINKS[link]
        self.link, self.tags, self.extensions = link, tags, extensions
        self.ip_options, self.tcp_options, self.offloaded = ip_options, tcp_options, offloaded
        self.window = [8192, 8192]

    def tcp(self, side, payload, flags, seq):
        peer = 1 - side
        return struct.pack('>HHIIBBHHH', self.ports[side], self.ports[peer], seq & 0xffffffff,
                           (self.seq[peer] + self.sent[peer]) & 0xffffffff,
                           (5 + len(self.tcp_options) // 4) << 4, flags, self.window[side], 0,
                           0) + self.tcp_options + payload

    def ip(self, side, tcp):
        ends = (self.addresses[side], self.addresses[1 - side])
        if not self.v6:
            size = 20 + len(self.ip_options)
            return struct.pack('>BBHHHBBH', 0x40 | size // 4, 0,
                               0 if self.offloaded else size + len(tcp), 1, 0x4000, 64, 6, 0) + \
                b''.join(bytes([10, 0, 0, a]) for a in ends) + self.ip_options + tcp
        chain, following = b'', 6
        for kind in reversed(self.extensions):
            if kind == 44:  # a fragment that is all of it
                chain = struct.pack('>BBHI', following, 0, 0, 77) + chain
            else:  # eight octets of options or sixteen, that are padding
                more = 8 * (kind == 60)
                chain = struct.pack('>BBBB', following, more // 8, 1, 4 + more) + \
                    bytes(4 + more) + chain
            following = kind
        return struct.pack('>IHBB', 0x60000000, len(chain) + len(tcp), following, 64) + \
            b''.join(bytes([0xfd] + [0] * 14 + [a]) for a in ends) + chain + tcp

    def frame_of(self, side, ip):
        kind = struct.pack('>H', 0x86dd if self.v6 else 0x0800)
        station = [b'\2\0\0\0\0' + bytes([a]) for a in self.addresses]
        if self.link == 'raw':
            return ip
        if self.link == 'null':
            return struct.pack('<I', 30 if self.v6 else 2) + ip
        if self.link == 'sll':
            return struct.pack('>HHH', 4 * (side == 0), 1, 6) + station[side] + b'\0\0' + kind + ip
        if self.link == 'sll2':
            return kind + struct.pack('>HIHBB', 0, 3, 1, 4 * (side == 0), 6) + station[side] + \
                b'\0\0' + ip
        tags = b''.join(struct.pack('>HH', *t) for t in self.tags)
        return station[1 - side] + station[side] + tags + kind + ip

    def segment(self, side, payload, flags=0x18, seq=None, snap=None):
        tcp = self.tcp(side, payload, flags, self.seq[side] if seq is None else seq)
        return self.capture.frame(self.frame_of(side, self.ip(side, tcp)), snap)

    def acknowledge(self, side, seq=None, payload=b''):
        return self.segment(side, payload, 0x10,
                            self.seq[side] + self.sent[side] if seq is None else seq)

    def talk(self, size, n=6):
        """Both ways, segments that end anywhere, two of which change places."""
        self.start()
        for side in range(2):
            for i in range(n):
                self.way[side].fpdu(send(i + 1, text(90 + 130 * i, i)))
            self.way[side].fpdu(write(7, 0x100, text(900)))
            self.swapped(side, size)
            self.acknowledge(1 - side)
            self.true(side)
        return self

    def swapped(self, side, size):
        cuts = list(range(self.sent[side], len(self.way[side].octets), size))
        pieces = [(a, min(a + size, len(self.way[side].octets))) for a in cuts]
        if len(pieces) > 4:
            pieces[2:4] = pieces[3:1:-1]
        for first, end in pieces:
            self.piece(side, first, end)


def clean(c):
    for name in ('mpa.crc.bad', 'ddp.mo.gap', 'ddp.msn.repeat', 'ddp.msn.gap', 'cut'):
        c.count('iwarp.' + name, 0)


for link_name in LINKS:
    def links(c, link=link_name):
        """IPv4 and IPv6 over that link layer."""
        for i, v6 in enumerate((False, True)):
            Carried(c, link, ports=(40000 + i, 7174), v6=v6).talk(517)
        clean(c)
    links.__name__ = 'link_' + link_name
    CASES.append(links)


@case
def carriers_headers(c):
    """Tags, extension headers and options, and a length left to the network card."""
    for i, more in enumerate((
            {'tags': [(0x8100, 7)]}, {'tags': [(0x88a8, 5), (0x8100, 7)]},
            {'tags': [(0x8100, 5), (0x8100, 7)], 'v6': True},
            {'v6': True, 'extensions': [0]}, {'v6': True, 'extensions': [0, 60]},
            {'v6': True, 'extensions': [60, 44]}, {'ip_options': b'\x94\4\0\0'},
            {'tcp_options': b'\1\1\x08\x0a' + bytes(8)}, {'offloaded': True})):
        Carried(c, ports=(40000 + i, 7174), **more).talk(480)
    clean(c)


@case
def carriers_sizes(c):
    """Segments of odd sizes; none of them a multiple of four, so FPDUs end anywhere."""
    for i, size in enumerate((67, 333, 535, 1219, 1447, 1499, 8947)):
        x = Carried(c, ports=(40000 + i, 7174))
        x.talk(size)
    clean(c)


@case
def carriers_crowded(c):
    """More FPDUs in a segment than Wireshark allows layers in a frame: network cards join segments."""
    x = Connection(c).start()
    for msn in range(1, 1201):
        x.way[0].fpdu(send(msn, text(8, msn)))
    x.flush(0)
    c.truth['crowded'] = True
    x.true(0)


@case
def carriers_orders(c):
    """Four segments in each order they can have, of FPDUs larger and smaller than they are."""
    c.truth['any_order'] = True
    for k, order in enumerate(permutations(range(4))):
        x = Carried(c, ports=(40000 + k, 7174)).start()
        for i, n in enumerate((90, 700, 60, 80, 1500, 300)):
            x.way[0].fpdu(send(i + 1, text(n, i)))
        x.piece(0, x.sent[0], x.sent[0] + 311)
        begin = x.sent[0]
        for i in order:
            x.piece(0, begin + 517 * i, begin + 517 * (i + 1))
        x.flush(0, 517)
        x.true(0)
    c.count('iwarp.mpa.crc.bad', 0)


@case
def carriers_wrap(c):
    """Sequence numbers that wrap at each kind of place, also with markers and a lost segment."""
    for i, back in enumerate((1, 19, 20, 21, 22, 40, 500, 1000)):
        Carried(c, ports=(40000 + i, 7174), seq=(2**32 - back, 2**32 - back - 7)).talk(211)
    x = Carried(c, ports=(41000, 7174), seq=(2**32 - 900, 5)).start(request(), reply(0xc0))
    x.way[0].markers = True
    for i in range(5):
        x.way[0].fpdu(send(i + 1, text(600, i)))
    x.flush(0, 477)
    x.true(0)
    clean(c)


@case
def carriers_wrap_lost(c):
    x = Carried(c, seq=(2**32 - 2000, 5)).start()
    for i in range(30):
        x.way[0].fpdu(send(i + 1, text(200, i)))
    lost = x.lose(0, x.sent[0] + 1600, 400)
    x.flush(0, 400)
    x.true(0, lost=[lost])
    c.count('iwarp.mpa.resync', 1)


@case
def carriers_reused(c):
    """The same ports again, with other octets, markers the second time, and midstream the third."""
    for seq, flags in ((1000, 0x40), (70000, 0xc0)):
        x = Carried(c, seq=(seq, seq + 77)).start(request(), reply(flags))
        x.way[0].markers = flags == 0xc0
        for i in range(6):
            x.way[0].fpdu(send(i + 1, text(400, i)))
        x.flush(0, 701)
        x.acknowledge(1)
        x.segment(0, b'', 0x11, x.seq[0] + x.sent[0])
        x.segment(1, b'', 0x11, x.seq[1] + x.sent[1])
        x.acknowledge(0)
        x.true(0)
    y = Carried(c, seq=(990000, 880000)).shake_hands()
    for i in range(6):
        y.way[0].fpdu(send(i + 1, text(300, i)))
    y.flush(0, 501)
    y.true(0)
    clean(c)
    c.count('iwarp.mpa.skipped', 0)


@case
def carriers_idle(c):
    """Keep-alives without and with an octet, answers, a closed window, and its update."""
    x = Carried(c).start()
    for turn in range(3):
        x.way[0].fpdu(send(2 * turn + 1, text(700, turn)))
        x.way[0].fpdu(send(2 * turn + 2, text(30)))
        x.flush(0, 333)
        x.acknowledge(1)
        end = x.seq[0] + x.sent[0]
        x.acknowledge(0, end - 1, b'\0' * (turn % 2))
        x.acknowledge(1)
        x.window[1] = 0
        x.acknowledge(1)
        x.acknowledge(0, end - 1)
        x.acknowledge(1)
        x.window[1] = 8192
        x.acknowledge(1)
    x.true(0)
    c.count('iwarp.mpa.skipped', 0)
    c.count('iwarp.mpa.crc.bad', 0)


@case
def carriers_probe(c):
    """A window that is closed is probed with the next octet, which is sent again with the rest."""
    x = Carried(c).start()
    for i in range(4):
        x.way[0].fpdu(send(i + 1, text(400, i)))
    f = x.way[0].fpdus
    x.piece(0, f[0]['first'], f[1]['end'])
    x.window[1] = 0
    x.acknowledge(1)
    x.segment(0, bytes(x.way[0].octets[f[2]['first']:f[2]['first'] + 1]), 0x10,
              x.seq[0] + f[2]['first'])
    x.acknowledge(1)
    x.window[1] = 8192
    x.acknowledge(1)
    x.piece(0, f[2]['first'], f[3]['end'])
    x.true(0)
    c.count('iwarp.mpa.crc.bad', 0)
    c.count('iwarp.ddp.msn.repeat', 0)


@case
def carriers_two(c):
    """Two connections whose segments alternate, between the same two machines and others."""
    all_of = [Carried(c, ports=(40000, 7174)), Carried(c, ports=(40001, 7175)),
              Carried(c, ports=(40000, 7174), addresses=(3, 4))]
    for k, x in enumerate(all_of):
        x.start()
        for i in range(8):
            x.way[0].fpdu(send(i + 1, text(150 + 50 * k, i)))
            x.way[1].fpdu(write(k + 1, 300 * i, text(211, i)))
    for step in range(40):
        for k, x in enumerate(all_of):
            side = (step + k) % 2
            first = x.sent[side]
            end = min(first + 97 + 10 * k, len(x.way[side].octets))
            if first < end:
                x.piece(side, first, end)
    for x in all_of:
        for side in range(2):
            x.flush(side)
            x.true(side)
    clean(c)
    c.count('iwarp.mpa.skipped', 0)


def snapped(c, snap, v6, over):
    c.truth['aligned'] = True
    x = Carried(c, v6=v6).start()
    for i in range(5):
        x.way[0].fpdu(send(i + 1, text(1000, i)))
        x.flush(0, snap=over + snap)
    for f in x.way[0].fpdus:
        f['payload'] = f['payload'][:2 * (snap - 20)]
    x.true(0, crc='unverified')
    c.count('iwarp.cut', 5)


for octets in (20, 21, 42, 74, 300):
    def snaps(c, octets=octets):
        """So many octets of each FPDU of 1024 are there."""
        snapped(c, octets, octets % 2 == 1, 74 if octets % 2 == 1 else 54)
    snaps.__name__ = 'snap_%d' % octets
    CASES.append(snaps)
