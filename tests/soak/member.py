# SPDX-License-Identifier: BSD-2-Clause
"""A process of the soak: started, looked at, killed and started again."""
import os
import re
import signal
import subprocess
import time

from board import PAUSE, QUIET, READY, STOP, Board, of_system
from judge import OBJECTS


class Member:
    """log and board outlive the process. dies: it is killed from time to time."""

    def __init__(self, name, program, arguments, environment, folder, dies=False):
        self.name, self.dies = name, dies
        self.board = Board(name, names_of(program))
        self.command = [program, arguments[0], '--board', self.board.path, *arguments[1:]]
        own = {name: value for name, value in os.environ.items() if not name.startswith('IWARP_') or name == 'IWARP_LOG'}
        self.environment = {**own, **environment}
        self.log = f'{folder}/{name}.log'
        self.process, self.deaths, self.before = None, 0, {}
        self.log_at, self.log_lines, self.words = 0, 0, [] # read so far; what says that something is wrong
        self.beats = {} # lane: (beats, when they last changed)
        open(self.log, 'w').close()

    def start(self, pause=0):
        self.keep()
        self.board.clear()
        self.board.set(PAUSE, pause)
        self.beats = {}
        with open(self.log, 'a') as log:
            self.process = subprocess.Popen(self.command, env=self.environment, stderr=log, stdin=subprocess.DEVNULL,
                                            pass_fds=[self.board.fd])

    def keep(self):
        """Counters go on from those of the process before; objects do not."""
        self.before = {name: value for name, value in self.totals().items() if name not in ('heap', *OBJECTS)}

    def totals(self):
        return {name: value + self.before.get(name, 0) for name, value in self.board.numbers().items()}

    def wait_ready(self, seconds):
        end = time.monotonic() + seconds
        while not self.board.word(READY):
            if self.process.poll() is not None or time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.deaths += 1

    def ended(self):
        """How it ended by itself; None while it lives."""
        code = self.process.poll()
        return None if code is None else signal.Signals(-code).name if code < 0 else f'status {code}'

    def stop(self, seconds):
        """True: in order and in time."""
        self.board.set(STOP, 1)
        try:
            return self.process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            return False

    def quiet(self, pause):
        return self.board.word(QUIET) == pause

    def sample(self):
        found = of_system(self.process.pid)
        return found and {**found, **self.totals()}

    def stuck(self, limit):
        """The first lane that has not moved for so many seconds: what it does."""
        now = time.monotonic()
        for i, (beats, resting, doing) in enumerate(self.board.lanes()):
            last, since = self.beats.get(i, (None, now))
            if beats != last or resting:
                self.beats[i] = (beats, now)
            elif now - since > limit:
                return f'lane {i}: {doing}'
        return None

    def read_log(self):
        """What is new in it; of a line that is being written nothing yet."""
        with open(self.log, 'rb') as f:
            f.seek(self.log_at)
            whole = f.read().rpartition(b'\n')[0].splitlines(keepends=True)
        self.log_at += sum(map(len, whole)) + (len(whole) > 0)
        self.log_lines += len(whole)
        for line in whole:
            text = line.decode(errors='replace').rstrip()
            if text.startswith('soak: ') or 'Sanitizer' in text or 'runtime error' in text:
                self.words.append(text)

    def last_words(self):
        self.read_log()
        return self.words

    def failed_at(self):
        """When the first of them was said, as time.monotonic() has it; later than all: it does not say."""
        found = re.search(r', at ([0-9.]+)$', self.words[0]) if self.words else None
        return float(found[1]) if found else float('inf')


def names_of(program, cache={}):
    if program not in cache:
        cache[program] = subprocess.run([program, 'names'], capture_output=True, text=True, check=True).stdout.split()
    return cache[program]
