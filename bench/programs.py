# SPDX-License-Identifier: BSD-2-Clause
"""The rows of `make bench-programs`: the same program, unmodified, on libiwarp (under iwarp-run) and on
TCP, in turn in one run, or the nearest pair of programs where there is no such one.  A run is a turn:
its figure is a rate, so that more is better, and the ratio is that of a run on us to the one on TCP
of the same round.  All go over 127.0.0.1, or over the address of this machine's own interface where
libfabric asks for one."""
import contextlib
import json
import os
import re
import subprocess
import tempfile
import time

import guests
import sockets
import storage
from contenders import CLIENT_CORE, Missing, Server, any_port, built, client, need, run, whole
from rows import MIB, Row, Target, parts_row, stream_limit, to_and_fro_limit

LEAST = 1.0 # of TCP


def ours(command):
    return [built('bin', 'iwarp-run'), *command]


def plain(command):
    return list(command)


def row(name, title, how, contenders, what, shown='rate', unit='/s', size=0, more=(), limit=({}, ())):
    """One row with a judgement for the speed on us, of that on TCP, and for each other figure in `more`.  `limit` is
    what runs beside them for the bound, and the bound."""
    figures = ((what, 'rate'), *more)
    return Row(name, title, how, unit, {f'libiwarp{key}': value for key, value in contenders[0].items()} |
               {f'TCP{key}': value for key, value in contenders[1].items()} | limit[0],
               [Target(text + key, '>=', LEAST, f'libiwarp{key}', tuple(f'TCP{k}' for k in contenders[1]), one,
                       near=bool(limit[1]))
                for text, one in figures for key in contenders[0]], size, whole=True, figure=shown, most=limit[1])


# --- fio -----------------------------------------------------------------------------------------

def fio(wrap, receiver, sender, size):
    """For a second and a half, after one that does not count: the rdma engine sleeps for half a second when it connects."""
    def play(_):
        need('fio')
        port = any_port()
        # A job that is a thread stays in the scheduling group of this run.
        block = ['--thread', f'--bs={size}', '--size=1t', f'--port={port}']
        with Server(wrap(['fio', '--name=receiver', '--rw=read', *receiver, *block]), port):
            # The net engine of fio 3.33 may free memory twice at its end, when all is told: the status says little.
            command = wrap(['fio', '--name=sender', '--rw=write', *sender, *block, '--time_based', '--ramp_time=1000ms',
                            '--runtime=1500ms', '--output-format=json'])
            out = subprocess.run(['taskset', '-c', CLIENT_CORE, *command], capture_output=True, text=True, timeout=60,
                                 check=False).stdout
        if '{' not in out:
            raise Missing('fio told nothing')
        job = json.loads(out[out.index('{'):])['jobs'][0]
        if job['error'] or job['write']['runtime'] < 1500:
            raise Missing(f'fio: error {job["error"]}, {job["write"]["runtime"]} ms')
        return {'rate': job['write']['iops']}
    return whole(play)


def fio_rows():
    rdma = '--ioengine=rdma'
    net = ['--ioengine=net', '--protocol=tcp']
    # Longer blocks, which the socket takes in parts, the net engine of fio 3.33 does not survive.
    for name, size in (('4k', 4096), ('64k', 65536)):
        yield row(f'fio-{name}', f'fio, blocks of {size // 1024} KiB',
                  '16 in flight; net has one at a time',
                  ({f', verb={verb}': fio(ours, [rdma, '--iodepth=32'],
                                          [rdma, '--hostname=127.0.0.1', f'--verb={verb}', '--iodepth=16'], size)
                    for verb in ('write', 'send')},
                   {', net': fio(plain, [*net, '--listen'], [*net, '--hostname=127.0.0.1'], size)}),
                  f'fio {name}', unit='B/s', size=size, limit=stream_limit(size))


# --- MPI and libfabric ---------------------------------------------------------------------------

def outer_address():
    """libfabric's verbs provider looks at every address but those of loopback."""
    out = run(['ip', '-4', '-o', 'addr', 'show', 'up', 'scope', 'global']).split()
    addresses = [word for word in out if re.match(r'\d+\.\d+\.\d+\.\d+/', word)]
    if not addresses:
        raise Missing('no address but those of loopback, which libfabric leaves aside')
    return addresses[0].split('/')[0]


def mpi(wrap, options, env):
    def play(_):
        need('mpicc.openmpi')
        program = os.path.join(os.environ['BUILD'], 'bench', 'mpi')
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'mpi.c')
        if not os.path.exists(program) or os.path.getmtime(program) < os.path.getmtime(source):
            run(['mpicc.openmpi', '-O2', '-o', program, source, '-lm'])
        common = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1', 'OMPI_MCA_plm': 'isolated',
                  'OMPI_MCA_rmaps_base_oversubscribe': '1',
                  'PRTE_MCA_rmaps_default_mapping_policy': ':oversubscribe'}
        said = json.loads(run(wrap(['mpirun.openmpi', '-np', '2', '--bind-to', 'core', *options, program, '0.2', '256']),
                              {**common, **env}))
        return {'rate': 1 / said['cg_seconds'], 'latency': 1e6 / said['latency_us'], 'medium': said['octets_64k'],
                'large': said['octets_1m']}
    return whole(play)


def mpi_row():
    """Open MPI's own TCP, btl tcp, is what is to be reached; by libfabric's tcp it goes the same way through Open MPI and libfabric."""
    def by_fabric(wrap, provider):
        return mpi(wrap, ['--mca', 'pml', 'cm', '--mca', 'mtl', 'ofi'],
                   {'OMPI_MCA_mtl_ofi_provider_include': f'{provider};ofi_rxm'})
    by_ucx = mpi(as_roce, ['--mca', 'pml', 'ucx', '--mca', 'osc', 'ucx', '--mca', 'pml_ucx_devices', 'any', '--mca',
                           'pml_ucx_tls', 'any'], ROCE)
    others = {', btl': mpi(plain, ['--mca', 'pml', 'ob1', '--mca', 'btl', 'tcp,self', '--mca', 'btl_tcp_if_include', 'lo'],
                               {}),
              ', libfabric': by_fabric(plain, 'tcp')}
    (stream, octets), (to_and_fro, short) = stream_limit(1), to_and_fro_limit(8) # windows tell octets a second
    figures = (('conjugate gradients', 'rate', ()), ('8 octets to and fro', 'latency', short),
               ('windows of 64 KiB', 'medium', octets), ('windows of 1 MiB', 'large', octets))
    one = row('mpi', 'Open MPI, two ranks: libfabric verbs and UCX rc_verbs, btl tcp and libfabric tcp', '',
              ({'': by_fabric(ours, 'verbs'), ', UCX': by_ucx}, others), 'MPI', limit=(stream | to_and_fro, ()))
    one.targets = [Target(f'{on}, {text}, of {key[2:]} tcp', '>=', LEAST, name, (f'TCP{key}',), figure, near=bool(most),
                          most=most)
                   for on, name, keys in (('MPI', 'libiwarp', others), ('MPI on UCX', 'libiwarp, UCX', [', btl']))
                   for text, figure, most in figures for key in keys]
    return one


ROCE = {'UCX_TLS': 'rc_verbs,ud_verbs', 'UCX_WARN_UNUSED_ENV_VARS': 'n'}


def as_roce(command):
    """UCX leaves devices of type iWARP aside."""
    return [built('bin', 'iwarp-run'), '--persona=roce', *command]


def ucx_perftest(wrap, env, words):
    def play(_):
        need('ucx_perftest')
        port = any_port()
        command = ['ucx_perftest', *words.split(), '-p', port]
        with Server(wrap([*command, '-c', '0']), port, env):
            out = client(wrap([*command, '-c', '1', outer_address()]), env)
        final = [line.split() for line in out.splitlines() if line.startswith('Final:')]
        if not final:
            raise Missing('ucx_perftest told nothing')
        return {'rate': float(final[-1][-1])}
    return whole(play)


def ucx_rows():
    for name, text, words, limit in (
            ('lat', '8 octets to and fro', '-t tag_lat -s 8 -n 100000 -w 20000', to_and_fro_limit(8)),
            ('bw', 'messages of 8 octets', '-t tag_bw -s 8 -n 1000000 -w 100000', ({}, ())),
            ('bw-64k', 'messages of 64 KiB', '-t tag_bw -s 65536 -n 30000 -w 10000', stream_limit(65536))):
        yield row(f'ucx-{name}', f'ucx_perftest, {text}: rc_verbs, and tcp', '',
                  ({'': ucx_perftest(as_roce, ROCE, words)}, {'': ucx_perftest(plain, {**ROCE, 'UCX_TLS': 'tcp'}, words)}),
                  f'UCX, {text}', limit=limit)


def fi_pingpong(wrap, provider, size, count):
    def play(_):
        need('fi_pingpong')
        port = any_port()
        words = ['fi_pingpong', '-p', provider, '-e', 'msg', '-I', str(count), '-S', str(size)]
        with Server(wrap([*words, '-B', port]), port):
            out = client(wrap([*words, '-P', port, outer_address()]))
        lines = [line.split() for line in out.splitlines() if re.match(r'^\d', line)]
        if not lines:
            raise Missing('fi_pingpong printed no numbers')
        return {'rate': 1e6 / float(lines[-1][-2])}
    return whole(play)


def fabric_rows():
    for name, size, count in (('64 octets', 64, 10000), ('64 KiB', 65536, 3000), ('1 MiB', MIB, 300)):
        yield row(f'fi_pingpong-{size}', f'fi_pingpong -e msg of {name}: provider verbs, and provider tcp', '',
                  ({'': fi_pingpong(ours, 'verbs', size, count)}, {'': fi_pingpong(plain, 'tcp', size, count)}),
                  f'fi_pingpong, {name}', limit=to_and_fro_limit(size))


# --- copying files -------------------------------------------------------------------------------

@contextlib.contextmanager
def place():
    """In memory, so that no disk is measured."""
    with tempfile.TemporaryDirectory(dir='/dev/shm' if os.path.isdir('/dev/shm') else None) as folder:
        yield folder


def make_file(folder, octets):
    path = os.path.join(folder, 'file')
    with open(path, 'wb') as file:
        for _ in range(octets // MIB):
            file.write(os.urandom(MIB))
    return path


def make_tree(folder, files):
    """Files as /usr/share has them: most are small, few are long."""
    tree = os.path.join(folder, 'tree')
    for number in range(files):
        path = os.path.join(tree, f'd{number % 40}', f'f{number}')
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'wb') as file:
            file.write(os.urandom(500 + number * 7919 % 16000 + (1 << 20 if number % 100 == 0 else 0)))
    return tree


def speed(command, amount, start=client):
    """Octets or files a second."""
    begun = time.monotonic()
    start(command)
    return {'rate': amount / (time.monotonic() - begun)}


def same(one, other):
    if subprocess.run(['diff', '-r', '-q', one, other], stdout=subprocess.DEVNULL, check=False).returncode != 0:
        raise Missing(f'{other} is not what {one} is')


def by_cp(way, make, amount):
    """put and get: iwarp-cp at both ends; plain: the same program's file copy over one TCP connection."""
    def play(_):
        cp = built('bin', 'iwarp-cp')
        with place() as folder:
            source, export = make(folder, amount), os.path.join(folder, 'export')
            name, back = os.path.basename(source), os.path.join(folder, 'back')
            os.mkdir(export)
            if way == 'plain':
                found = speed([cp, 'plain-tcp', '-r', source, back], amount, run) # both ends, each free to have a core
                same(source, os.path.join(back, 'tree'))
                return found
            port = any_port()
            with Server([cp, 'serve', '--listen', f'127.0.0.1:{port}', export], port):
                found = speed([cp, 'put', '-r', source, f'iwarp://127.0.0.1:{port}/{name}'], amount)
                if way == 'get':
                    found = speed([cp, 'get', '-r', f'iwarp://127.0.0.1:{port}/{name}', back], amount)
            same(source, back if way == 'get' else os.path.join(export, name))
        return found
    return whole(play)


def by_rsync(make, amount):
    """Its daemon, whole files, without its own compression; it writes what is there as it is."""
    def play(_):
        need('rsync')
        with place() as folder:
            source, export, port = make(folder, amount), os.path.join(folder, 'export'), any_port()
            os.mkdir(export)
            config = os.path.join(folder, 'rsyncd.conf')
            with open(config, 'w', encoding='ascii') as file:
                file.write(f'uid = {os.getuid()}\ngid = {os.getgid()}\nuse chroot = no\n'
                           f'[all]\npath = {export}\nread only = no\n')
            with Server(['rsync', '--daemon', '--no-detach', f'--config={config}', f'--port={port}',
                         '--address=127.0.0.1'], port):
                found = speed(['rsync', '-r', '--whole-file', source, f'rsync://127.0.0.1:{port}/all/'], amount)
            same(source, os.path.join(export, os.path.basename(source)))
        return found
    return whole(play)


def by_nc(make, amount):
    def play(_):
        need('nc')
        with place() as folder:
            source, target, port = make(folder, amount), os.path.join(folder, 'target'), any_port()
            with Server(['sh', '-c', f'exec nc -l 127.0.0.1 {port} >"$1"', 'sh', target], port) as server:
                found = speed(['sh', '-c', f'exec nc -N 127.0.0.1 {port} <"$1"', 'sh', source], amount)
                server.process.wait(20)
            same(source, target)
        return found
    return whole(play)


def copy_rows(quick):
    octets, files = (256 if quick else 512) * MIB, 1500 if quick else 4000
    for name, make, amount, text in (('file', make_file, octets, f'one file of {octets // MIB} MiB'),
                                     ('tree', make_tree, files, f'{files} files, most of them small')):
        others = {', one connection': by_cp('plain', make, amount), ', rsync': by_rsync(make, amount)}
        if name == 'file':
            others[', nc'] = by_nc(make, amount)
        for way in ('put', 'get'):
            one = row(f'cp-{way}-{name}', f'iwarp-cp {way}, {text}', '', ({'': by_cp(way, make, amount)}, others),
                      f'iwarp-cp {way}, {name}', **({'unit': 'B/s', 'size': 1} if name == 'file' else {}))
            one.targets = [Target(f'iwarp-cp {way}, {name}, of {key[2:]}', '>=', LEAST, 'libiwarp', (f'TCP{key}',))
                           for key in others]
            yield one


# --- all -----------------------------------------------------------------------------------------

def prepare():
    """What has to be fetched, before the run has a network of its own.  What cannot be had misses in its row."""
    with contextlib.suppress(Missing):
        storage.unpack_tgt()


def make(quick, ceph):
    return [parts_row(), *fio_rows(), mpi_row(), *fabric_rows(), *ucx_rows(), *copy_rows(quick), *sockets.rows(row, quick),
            *guests.rows(row, quick),
            *storage.rows(row, ceph)]
