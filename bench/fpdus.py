# SPDX-License-Identifier: BSD-2-Clause
"""Counts RDMA Write FPDUs in a recording of one connection (pcapng, without markers), by its own walk
over the octets: RFC 5044 4.1 and 7.1, RFC 5041 4.1, RFC 5040 4.1."""
import struct


def tcp_payloads(path):
    """(source port, payload) of each packet; IPv4 without options that the recording does not use."""
    with open(path, 'rb') as file:
        data = file.read()
    at, link = 0, 1
    while at + 12 <= len(data):
        kind, length = struct.unpack_from('<II', data, at)
        if kind == 1:
            link = struct.unpack_from('<H', data, at + 8)[0]
        if kind == 6:
            captured = struct.unpack_from('<I', data, at + 20)[0]
            packet = data[at + 28:at + 28 + captured]
            ip = packet[14:] if link == 1 else packet
            if len(ip) >= 40 and ip[0] >> 4 == 4 and ip[9] == 6:
                tcp = ip[(ip[0] & 15) * 4:struct.unpack_from('>H', ip, 2)[0]]
                yield struct.unpack_from('>H', tcp, 0)[0], tcp[(tcp[12] >> 4) * 4:]
        at += length


def count_writes(path, payload):
    """FPDUs that are a whole RDMA Write of so many octets, in the direction that has most."""
    streams = {}
    for port, octets in tcp_payloads(path):
        streams.setdefault(port, bytearray()).extend(octets)
    most = 0
    for stream in streams.values():
        if stream[:4] != b'MPA ':
            continue
        at, count = 20 + struct.unpack_from('>H', stream, 18)[0], 0
        while at + 4 <= len(stream):
            length = struct.unpack_from('>H', stream, at)[0]
            # Tagged and last (0xC0), RDMAP's opcode 0, and the header of 14 octets.
            if length == payload + 14 and stream[at + 2] & 0xc0 == 0xc0 and stream[at + 3] & 15 == 0:
                count += 1
            at += (2 + length + 3) // 4 * 4 + 4
        most = max(most, count)
    return most
