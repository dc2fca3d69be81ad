#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
#
# damage.py make IN.pcap KIND OUT.pcap     a capture with a part of IN's packets, or of their octets
# damage.py judge IN.pcap OUT.pcap PDML    FPDUs that are whole in OUT against those of a dissector
#
# KIND: all; drop, one packet in twenty; later, the second half; third, without the first third;
# one-way, what the server sends; no-start, without start-up frames; twice, one in five again; swap,
# one in seven behind its follower; behind, one in nine three packets later; snap, 96 octets of each; join, as few segments as a network
# card makes of them. The judge knows the FPDUs by a parser of its own over IN (Ethernet, IPv4, no markers): at least 99 in
# 100 of those whose octets are all in OUT have to be found, and none that is not in IN.
import collections
import random
import struct
import sys
import xml.etree.ElementTree as tree


def read(path):
    octets = open(path, 'rb').read()
    packets, at = [], 24
    while at < len(octets):
        size = struct.unpack('<I', octets[at + 8:at + 12])[0]
        packets.append((octets[at:at + 16], octets[at + 16:at + 16 + size]))
        at += 16 + size
    return octets[:24], packets


def segment(packet):
    """Ports, sequence number, SYN, octets; None of what is no TCP."""
    if packet[12:14] != b'\x08\0' or packet[23] != 6:
        return None
    at = 14 + (packet[14] & 15) * 4
    end = 14 + struct.unpack('>H', packet[16:18])[0]
    source, target, seq = struct.unpack('>HHI', packet[at:at + 8])
    return ((source, target), seq, packet[at + 13] & 2,
            packet[at + (packet[at + 12] >> 4) * 4:end])


def ways(packets):
    """By direction: the number of the first octet, and octets by number."""
    found = {}
    for _, packet in packets:
        s = segment(packet)
        if s and s[2]:
            found[s[0]] = (s[1] + 1, {})
        elif s and s[3] and s[0] in found:
            found[s[0]][1][s[1]] = s[3]
    return found


def fpdus(packets):
    for ports, (first, pieces) in ways(packets).items():
        stream = bytearray()
        for seq in sorted(pieces):
            at = seq - first
            if at <= len(stream):
                stream[at:at + len(pieces[seq])] = pieces[seq]
        if stream[:8] != b'MPA ID R':
            continue
        at = 20 + struct.unpack('>H', stream[18:20])[0]
        while at + 22 <= len(stream):
            length = struct.unpack('>H', stream[at:at + 2])[0]
            whole = (2 + length + 3) // 4 * 4 + 4
            u = stream[at + 2:at + 2 + length]
            place = struct.unpack('>IQ' if u[0] & 0x80 else '>III', u[2:14] if u[0] & 0x80
                                  else u[6:18])
            yield ports, first + at, whole, ports + (u[1] & 15, length) + place
            at += whole


def joined(packets):
    """Segments that go on where the one before ends are one; acknowledgements are left out."""
    out, before = [], None
    for head, packet in packets:
        ports, seq, _, octets = segment(packet)
        if not octets and before:
            continue
        if before == (ports, seq) and len(out[-1][1]) + len(octets) < 60000:
            packet = bytearray(out.pop()[1] + octets)
            packet[16:18] = struct.pack('>H', len(packet) - 14)
        out.append((head[:8] + struct.pack('<II', len(packet), len(packet)), bytes(packet)))
        before = (ports, (seq + len(octets)) & 0xffffffff) if octets else None
    return out


def make(source, kind, target):
    chance = random.Random(3)
    head, packets = read(source)
    server = next(s[0][1] for s in map(lambda p: segment(p[1]), packets) if s and s[2])
    if kind == 'drop':
        packets = [p for p in packets if chance.random() > 0.05]
    elif kind == 'later':
        packets = packets[len(packets) // 2:]
    elif kind == 'third':
        packets = packets[len(packets) // 3:]
    elif kind in ('swap', 'behind'):
        every, by = (7, 1) if kind == 'swap' else (9, 3)
        for i in range(5, len(packets) - by, every):
            packets.insert(i + by, packets.pop(i))
    elif kind == 'one-way':
        packets = [p for p in packets if segment(p[1])[0][0] == server]
    elif kind == 'no-start':
        packets = [p for p in packets if b'MPA ID R' not in p[1]]
    elif kind == 'twice':
        packets = [q for i, p in enumerate(packets) for q in [p] * (2 if i % 5 == 0 else 1)]
    elif kind == 'join':
        packets = joined(packets)
    elif kind == 'snap':
        packets = [(h[:8] + struct.pack('<II', min(96, len(p)), len(p)), p[:96])
                   for h, p in packets]
    with open(target, 'wb') as f:
        f.write(head + b''.join(h + p for h, p in packets))


def value(element, name):
    for field in element.iter('field'):
        if field.get('name') == name:
            return field.get('show')
    return None


def dissected(path):
    """What each FPDU is known by; and how many packets are called malformed."""
    for _, packet in tree.iterparse(path):
        if packet.tag != 'packet':
            continue
        ports = (int(value(packet, 'tcp.srcport') or 0), int(value(packet, 'tcp.dstport') or 0))
        for proto in packet.iter('proto'):
            if proto.get('name') == '_ws.malformed':
                yield 'malformed'
            if proto.get('name') == 'iwarp' and value(proto, 'iwarp.rdmap.opcode') is not None:
                names = ('stag', 'to') if value(proto, 'iwarp.ddp.t') in ('1', 'True') else (
                    'qn', 'msn', 'mo')
                place = [value(proto, 'iwarp.ddp.' + name) for name in names]
                yield ports + (int(value(proto, 'iwarp.rdmap.opcode')),
                               int(value(proto, 'iwarp.mpa.ulpdu_len'))) + tuple(
                                   int(p, 0) for p in place if p is not None)
        packet.clear()


def judge(source, damaged, pdml):
    kept, wanted, known = collections.defaultdict(list), collections.Counter(), set()
    for _, packet in read(damaged)[1]:
        s = segment(packet)
        if s and s[3]:
            kept[s[0]].append((s[1], s[1] + len(s[3])))
    for ports, at, whole, name in fpdus(read(source)[1]):
        known.add(name)
        need = at
        for first, end in sorted(kept[ports]):
            if first <= need:
                need = max(need, end)
        wanted[name] += need >= at + whole
    found = collections.Counter(dissected(pdml))
    missed = sum(max(0, n - found[name]) for name, n in wanted.items())
    wrong = [name for name in found if name not in known]
    print('%d whole, %d missed, wrong: %s' % (sum(wanted.values()), missed, wrong[:4]))
    return missed * 100 <= sum(wanted.values()) and not wrong


if sys.argv[1] == 'make':
    make(*sys.argv[2:])
elif not judge(*sys.argv[2:]):
    sys.exit(1)
