# SPDX-License-Identifier: BSD-2-Clause
"""Live migration of a running guest of QEMU, by rdma: and by tcp:.  Its memory is filled beforehand, so
that there is something to move: pages of zeros are told and not sent."""
import contextlib
import json
import os
import socket
import subprocess
import tempfile
import time

from contenders import Missing, any_port, built, listens, need, run, whole

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 1 << 20
PATIENCE = 120


class Qemu:
    """One process with a socket of its machine protocol."""

    def __init__(self, folder, name, command):
        self.path = os.path.join(folder, name)
        with open(self.path + '.log', 'wb') as log:
            self.process = subprocess.Popen([*command, '-qmp', f'unix:{self.path},server=on,wait=off'],
                                            stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.stream = None

    def ask(self, command, **arguments):
        if not self.stream:
            self.connect()
            self.ask('qmp_capabilities')
        self.stream.write(json.dumps({'execute': command, 'arguments': arguments}) + '\n')
        self.stream.flush()
        while True:
            line = self.stream.readline()
            if not line:
                raise Missing(f'QEMU has ended: {self.last_words()}')
            answer = json.loads(line)
            if 'error' in answer:
                raise Missing(f'{command}: {answer["error"]["desc"]}')
            if 'return' in answer:
                return answer['return']

    def connect(self):
        until = time.monotonic() + PATIENCE
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE)
        while True:
            try:
                connection.connect(self.path)
                break
            except OSError:
                if time.monotonic() > until or self.process.poll() is not None:
                    raise Missing(f'QEMU does not start: {self.last_words()}') from None
                time.sleep(0.02)
        self.stream = connection.makefile('rw')
        self.stream.readline()

    def last_words(self):
        with open(self.path + '.log', encoding='utf-8', errors='replace') as log:
            return (log.read().strip().splitlines() or ['no word'])[-1]

    def close(self):
        self.process.kill()
        self.process.wait()


def boot_sector(folder):
    """The guest of tests/programs: it counts, and writes 64 KiB each time."""
    image, source = os.path.join(folder, 'guest.img'), os.path.join(HERE, '..', 'tests', 'programs', 'guest.S')
    run(['as', '--32', '-o', os.path.join(folder, 'guest.o'), source])
    run(['ld', '-m', 'elf_i386', '-Ttext', '0x7c00', '--oformat', 'binary', '-o', image, os.path.join(folder, 'guest.o')])
    os.truncate(image, 1474560)
    return image


def wait_for(done, what):
    until = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > until:
            raise Missing(f'waited in vain for {what}')
        time.sleep(0.05)


def qemu(scheme, mebibytes):
    def play(_):
        need('qemu-system-x86_64')
        wrap = [built('bin', 'iwarp-run')] if scheme == 'rdma' else []
        with tempfile.TemporaryDirectory(dir='/dev/shm') as folder, contextlib.ExitStack() as stack:
            image, port = boot_sector(folder), any_port()
            with open(os.path.join(folder, 'memory'), 'wb') as memory:
                for _ in range(mebibytes):
                    memory.write(os.urandom(MIB))
            common = (f'-accel tcg -nodefaults -display none -m {mebibytes} '
                      f'-drive if=floppy,format=raw,readonly=on,file={image}').split()

            def start(name, machine, *more):
                one = Qemu(folder, name, [*wrap, 'qemu-system-x86_64', '-M', machine, *common, *more])
                stack.callback(one.close)
                return one
            to = start('to', 'pc', '-object', f'memory-backend-ram,id=m,size={mebibytes}M', '-machine',
                       'memory-backend=m', '-serial', f'file:{folder}/to.serial', '-incoming',
                       f'{scheme}:127.0.0.1:{port}')
            source = start('from', 'pc', '-object',
                           f'memory-backend-file,id=m,size={mebibytes}M,mem-path={folder}/memory,share=off', '-machine',
                           'memory-backend=m', '-serial', f'file:{folder}/from.serial')
            wait_for(lambda: listens(port) or to.process.poll() is not None, 'the guest that is to come')
            wait_for(lambda: os.path.exists(f'{folder}/from.serial') and os.path.getsize(f'{folder}/from.serial') > 200,
                     'the guest to count')
            if scheme == 'rdma': # all of it is registered, as it is for ever with us
                for one in (source, to):
                    one.ask('migrate-set-capabilities', capabilities=[{'capability': 'rdma-pin-all', 'state': True}])
            source.ask('migrate-set-parameters', **{'max-bandwidth': 100 << 30})
            source.ask('migrate', uri=f'{scheme}:127.0.0.1:{port}')
            wait_for(lambda: source.ask('query-migrate').get('status') in ('completed', 'failed'), 'the migration')
            told = source.ask('query-migrate')
            if told['status'] != 'completed':
                raise Missing('the migration failed')
            wait_for(lambda: os.path.getsize(f'{folder}/to.serial') > 200, 'the guest to go on')
        return {'total': told['total-time'], 'still': told['downtime'], # milliseconds
                'rate': 1 / max(1, told['total-time']), 'downtime': 1 / max(1, told['downtime'])}
    return whole(play)


def rows(row, quick):
    mebibytes = 256 if quick else 512
    yield row('qemu', f'QEMU, migration of a guest of {mebibytes} MiB that has no page of zeros: rdma, and tcp', '',
              ({'': qemu('rdma', mebibytes)}, {'': qemu('tcp', mebibytes)}), 'QEMU migration, whole', 'total', 'ms',
              more=(('QEMU migration, downtime', 'downtime'),))
