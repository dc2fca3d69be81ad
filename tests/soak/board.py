# SPDX-License-Identifier: BSD-2-Clause
"""The conductor's side of board.h, and what the system says about a process."""
import mmap
import os
import struct

LANES = 32
LANE = 256
HEAD = 8
NUMBERS = 64
SIZE = (HEAD + NUMBERS) * 8 + LANES * LANE
PAUSE, STOP, QUIET, READY, COUNT = range(5)


class Board:
    """In memory of its own: who writes to pages of a file waits for the disk."""

    def __init__(self, name, names):
        self.fd = os.memfd_create(name)
        os.ftruncate(self.fd, SIZE)
        self.map = mmap.mmap(self.fd, SIZE)
        self.path, self.names = f'/proc/self/fd/{self.fd}', names

    def word(self, which):
        return struct.unpack_from('<Q', self.map, 8 * which)[0]

    def set(self, which, value):
        struct.pack_into('<Q', self.map, 8 * which, value)

    def numbers(self):
        values = struct.unpack_from(f'<{NUMBERS}q', self.map, 8 * HEAD)
        return dict(zip(self.names, values))

    def lanes(self):
        """(beats, resting, doing) of each."""
        found = []
        for i in range(self.word(COUNT)):
            at = (HEAD + NUMBERS) * 8 + i * LANE
            beats, resting = struct.unpack_from('<QQ', self.map, at)
            found.append((beats, resting, self.map[at + 16:at + LANE].split(b'\0')[0].decode()))
        return found

    def clear(self):
        """Of what a process has left behind; its numbers are lost."""
        self.map[:] = bytes(SIZE)


def of_system(pid):
    """Resident memory in octets, descriptors, threads; None if it has gone meanwhile."""
    try:
        status = dict(line.split(':', 1) for line in open(f'/proc/{pid}/status') if ':' in line)
        return {'rss': (int(status['RssAnon'].split()[0])) * 1024, 'threads': int(status['Threads']),
                'descriptors': len(os.listdir(f'/proc/{pid}/fd'))}
    except (OSError, KeyError, ValueError):
        return None
