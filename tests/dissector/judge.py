#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
#
# judge.py truth TRUTH.json PDML      what a dissector found in a capture against what is in it
# judge.py same PDML PDML             two passes have found what one has
# judge.py known NAMES TRUTH.json...   each of these fields has a known value in one of these
# judge.py filtered PDML TEXT NAME...  frames with iWARP of the one are the lines of the other:
#                                     frame and fields, as columns
# judge.py good PDML N                N FPDUs, all with CRCs good or absent, nothing skipped
#
# Prints what differs, and says so by its exit status.
import json
import sys
import xml.etree.ElementTree as tree

CRC = {'0': 'bad', '1': 'good', '2': 'unverified', '3': 'absent'}
# Links to later frames are not known on a first pass.
LATER = {'iwarp.rdmap.response_in', 'iwarp.rdmap.terminated_in', 'iwarp.msg.reassembled_in',
         'iwarp.msg.segments', 'iwarp.conn.reply_in', 'iwarp.conn.ulp', 'iwarp.conn.rtr',
         'iwarp.conn.ord', 'iwarp.conn.peer_ord', 'iwarp.conn.markers', 'iwarp.conn.crc',
         'iwarp.conn.rev', 'iwarp.conn.initiator', 'iwarp.msg.id', 'iwarp.msg.segment',
         'iwarp.msg.first_in', 'iwarp.conn.request_in', 'iwarp_rdma.send.reassembled_in'}


def shown(element, name):
    return [f.get('show') for f in element.iter('field') if f.get('name') == name]


def value(element, name):
    found = shown(element, name)
    return found[0] if found else None


def fpdu(proto, packet):
    found = {'opcode': int(value(proto, 'iwarp.rdmap.opcode')),
             'last': value(proto, 'iwarp.ddp.l') in ('1', 'True'),
             'crc': CRC[value(proto, 'iwarp.mpa.crc.status')],
             'length': int(value(proto, 'iwarp.mpa.ulpdu_len')),
             'port': int(value(packet, 'tcp.srcport')),
             'address': int((value(packet, 'ip.src') or value(packet, 'ipv6.src'))
                            .replace(':', '.').split('.')[-1]),
             'payload': ''.join(f.get('show') for f in proto.iter('field')
                                if f.get('name') == 'data.data').replace(':', '')}
    # The first of each; those of a header that a Terminate encloses come behind.
    tagged = value(proto, 'iwarp.ddp.t') in ('1', 'True')
    for key in ('stag', 'to') if tagged else ('qn', 'msn', 'mo'):
        text = value(proto, 'iwarp.ddp.' + key)
        if text is not None:
            found[key] = int(text, 0)
    return found


def packets(path):
    for _, element in tree.iterparse(path):
        if element.tag == 'packet':
            yield element
            element.clear()


def is_fpdu(proto):
    return proto.get('name') == 'iwarp' and value(proto, 'iwarp.rdmap.opcode') is not None


def expected(truth):
    keys = ('opcode', 'last', 'crc', 'length', 'port', 'address', 'payload', 'stag', 'to', 'qn',
            'msn', 'mo')
    return [{k: f[k] for k in keys if k in f} for f in truth['fpdus']]


def without_payload(fpdus):
    return [{k: f[k] for k in f if k != 'payload'} for f in fpdus]


def by_sender(fpdus):
    senders = {}
    for f in fpdus:
        senders.setdefault((f['address'], f['port']), []).append(f)
    return senders


def compare_fpdus(found, truth):
    problems = []
    wanted = expected(truth)
    if not truth.get('payloads', True):  # upper layers have it
        found, wanted = without_payload(found), without_payload(wanted)
    found, wanted = by_sender(found), by_sender(wanted)
    if truth.get('any_order'):
        for fpdus in [*found.values(), *wanted.values()]:
            fpdus.sort(key=lambda f: f['msn'])
    for sender in sorted(set(found) | set(wanted)):
        mine, theirs = found.get(sender, []), wanted.get(sender, [])
        if len(mine) != len(theirs):
            problems.append('%s: %d FPDUs, of %d' % (sender, len(mine), len(theirs)))
        for i, (a, b) in enumerate(zip(mine, theirs)):
            if a != b:
                differ = ['%s %.60s instead of %.60s' % (k, a.get(k), b.get(k))
                          for k in sorted(set(a) | set(b)) if a.get(k) != b.get(k)]
                problems.append('%s FPDU %d: %s' % (sender, i + 1, ', '.join(differ)))
    return problems


def same_text(a, b):
    booleans = {'True': '1', 'False': '0'}
    a, b = booleans.get(a, a), booleans.get(b, b)
    return a == b or a.replace(':', '') == b.replace(':', '')


def judge_truth(truth_path, path):
    truth = json.load(open(truth_path))
    found, problems, counts = [], [], {name: 0 for name in truth['counts']}
    fields = {}
    for frame, name, text, which in truth['fields']:
        fields.setdefault(frame, []).append((name, text, which))
    number = 0
    for packet in packets(path):
        number += 1
        found += [fpdu(p, packet) for p in packet.iter('proto') if is_fpdu(p)]
        names = [p.get('name') for p in packet.iter('proto')]
        if 'iwarp' in names and '_ws.malformed' in names and not truth.get('malformed'):
            problems.append('frame %d is called malformed' % number)
        for f in packet.iter('field'):
            if f.get('name') in counts:
                counts[f.get('name')] += 1
        for name, text, which in fields.pop(number, []):
            there = shown(packet, name)
            if which >= len(there) or not same_text(there[which], text):
                problems.append('frame %d: %s is %.80s, not %.80s' % (number, name, there, text))
    problems += compare_fpdus(found, truth)
    problems += ['frame %d was not there' % f for f in fields]
    problems += ['%s: %d times, not %d' % (n, counts[n], truth['counts'][n])
                 for n in counts if counts[n] != truth['counts'][n]]
    return problems


def flat(path):
    for packet in packets(path):
        yield [(f.get('name'), f.get('show')) for f in packet.iter('field')
               if (f.get('name') or '').startswith(('iwarp', 'data.data')) and
               f.get('name') not in LATER]


def judge_same(first, second):
    problems = []
    for number, (a, b) in enumerate(zip(flat(first), flat(second)), 1):
        if a != b:
            differ = [x for x in a if x not in b] + [x for x in b if x not in a]
            problems.append('frame %d: %.200s' % (number, differ or 'order'))
    return problems


def judge_good(path, wanted):
    n, problems = 0, []
    for number, packet in enumerate(packets(path), 1):
        for p in packet.iter('proto'):
            if is_fpdu(p):
                n += 1
                if value(p, 'iwarp.mpa.crc.status') not in ('1', '3'):
                    problems.append('frame %d: CRC status' % number)
        if shown(packet, 'iwarp.mpa.skipped') or any(
                p.get('name') == '_ws.malformed' for p in packet.iter('proto')):
            problems.append('frame %d: skipped or malformed' % number)
    if n != int(wanted):
        problems.append('%d FPDUs, of %s' % (n, wanted))
    return problems


def judge_known(names, *truths):
    there = set()
    for path in truths:
        truth = json.load(open(path))
        there |= {name for _, name, _, _ in truth['fields']}
        there |= {name for name, n in truth['counts'].items() if n > 0}
    return ['%s: in no capture' % name for name in open(names).read().split()
            if name not in there]


def judge_filtered(path, text, *names):
    wanted = ['\t'.join([str(number)] + [','.join(shown(packet, name)) for name in names])
              for number, packet in enumerate(packets(path), 1)
              if any(p.get('name') == 'iwarp' for p in packet.iter('proto'))]
    status = {'"Bad"': '0', '"Good"': '1', '"Unverified"': '2', '"Not present"': '3'}
    text = open(text).read()
    for name, value in status.items():  # columns have the words
        text = text.replace(name, value)
    lines = [line.strip(' ') for line in text.splitlines()]
    problems = ['%d lines, of %d' % (len(lines), len(wanted))] * (len(lines) != len(wanted))
    return problems + ['line %d: %s, not %s' % (i, a, b)
                       for i, (a, b) in enumerate(zip(lines, wanted), 1) if a != b]


JUDGES = {'filtered': judge_filtered, 'known': judge_known, 'truth': judge_truth, 'same': judge_same, 'good': judge_good}
found_problems = JUDGES[sys.argv[1]](*sys.argv[2:])
print('\n'.join(found_problems[:12]))
sys.exit(1 if found_problems else 0)
