# SPDX-License-Identifier: BSD-2-Clause
"""Disks and objects by RDMA and by TCP: tgtd with libiscsi (iser and iscsi), Ceph (async+rdma and
async+posix).  tgtd is only unpacked, since installing would start it."""
import glob
import os
import re
import subprocess
import tempfile
import time

from contenders import CLIENT_CORE, Missing, Server, any_port, built, need, run, whole

HERE = os.path.dirname(os.path.abspath(__file__))
NAME, INITIATOR = 'iqn.2026-01.example:disk', 'iqn.2026-01.example:initiator'


def unpack_tgt():
    folder = os.path.join(os.environ['BUILD'], 'bench', 'tgt')
    program = os.path.join(folder, 'usr', 'sbin', 'tgtd')
    if not os.path.exists(program):
        os.makedirs(folder, exist_ok=True)
        run(['sh', '-c', f'cd "{folder}" && apt-get -q download tgt && dpkg-deb -x tgt_*.deb .'])
    return program


def iscsi_perf(scheme, blocks, flight, seconds=2):
    """iscsi-perf reads for so long; its last line tells what it read a second in the mean."""
    def play(_):
        need('iscsi-perf')
        tgtd = unpack_tgt()
        wrap = [built('bin', 'iwarp-run')] if scheme == 'iser' else []
        with tempfile.TemporaryDirectory(dir='/dev/shm') as folder:
            port, disk = any_port(), os.path.join(folder, 'disk')
            with open(disk, 'wb') as file:
                for _ in range(128):
                    file.write(os.urandom(1 << 20))
            other = str(int(port) + 2000)
            env = {'TGT_IPC_SOCKET': os.path.join(folder, 'control')}
            way = ['--iscsi', f'portal=127.0.0.1:{other if scheme == "iser" else port}']
            way += ['--iser', f'port={port}'] if scheme == 'iser' else []
            with Server([*wrap, tgtd, '-f', '-C', '0', *way], port, env):
                admin(tgtd, env, scheme, '--mode', 'target', '--op', 'new', '--tid', '1', '--targetname', NAME)
                admin(tgtd, env, scheme, '--mode', 'logicalunit', '--op', 'new', '--tid', '1', '--lun', '1',
                      '--backing-store', disk)
                admin(tgtd, env, scheme, '--mode', 'target', '--op', 'bind', '--tid', '1', '--initiator-address', 'ALL')
                admin(tgtd, env, scheme, '--mode', 'target', '--op', 'bind', '--tid', '1', '--initiator-name', INITIATOR)
                command = ['taskset', '-c', CLIENT_CORE, *wrap, 'iscsi-perf', '-i', INITIATOR, '-b', str(blocks), '-m',
                           str(flight), '-t', str(seconds), f'{scheme}://127.0.0.1:{port}/{NAME}/1']
                out = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
        found = re.findall(r'iops average (\d+)', out)
        if not found or int(found[-1]) == 0:
            raise Missing(f'iscsi-perf: {(out.strip().splitlines() or ["no word"])[-1][:100]}')
        return {'rate': float(found[-1])}
    return whole(play)


def admin(tgtd, env, scheme, *words):
    program = os.path.join(os.path.dirname(tgtd), 'tgtadm')
    until = time.monotonic() + 20
    while True:
        try:
            return run([program, '--lld', scheme, *words], env)
        except Missing:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def ceph(kind):
    """A whole cluster, a few rounds of rados bench in it: tests/ceph/run with BENCH=1."""
    def play(_):
        need('ceph-mon')
        out = subprocess.run(['tests/ceph/run'], cwd=os.path.join(HERE, '..'), capture_output=True, text=True, timeout=900,
                             check=False, env={**os.environ, 'CEPH_BENCH': '1', 'CEPH_TCP': '1' if kind == 'tcp' else ''})
        found = {}
        for path in glob.glob(os.path.join(os.environ['BUILD'], 'program-logs', 'rados_bench*')):
            size = '4k' if '4_KiB' in path else '4m'
            with open(path, encoding='utf-8', errors='replace') as file:
                figures = re.findall(r'Average IOPS:\s*(\d+)', file.read())
            if len(figures) == 2:
                found[f'write_{size}'], found[f'read_{size}'] = map(float, figures)
        if len(found) != 4:
            raise Missing(f'tests/ceph/run: {(out.stdout.strip().splitlines() or ["no word"])[-1]}')
        return {'rate': found['write_4k'], **found}
    return whole(play)


def rows(row, with_ceph):
    for name, blocks, flight in (('4 KiB, one at a time', 8, 1), ('4 KiB, 32 in flight', 8, 32),
                                 ('128 KiB, 8 in flight', 256, 8)):
        yield row(f'iser-{blocks // 2}k-{flight}', f'tgtd and iscsi-perf, reads of {name}: iser, and iscsi', '',
                  ({'': iscsi_perf('iser', blocks, flight)}, {'': iscsi_perf('iscsi', blocks, flight)}),
                  f'tgtd, reads of {name}')
    if with_ceph:
        yield row('ceph', 'Ceph, a monitor and two OSDs, rados bench: async+rdma, and async+posix', '16 in flight',
                  ({'': ceph('rdma')}, {'': ceph('tcp')}), 'Ceph, writes of 4 KiB',
                  more=(('Ceph, reads of 4 KiB', 'read_4k'), ('Ceph, writes of 4 MiB', 'write_4m'),
                        ('Ceph, reads of 4 MiB', 'read_4m')))
