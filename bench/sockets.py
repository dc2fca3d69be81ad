# SPDX-License-Identifier: BSD-2-Clause
"""Programs that use sockets and know nothing of RDMA: both ends under `iwarp-run --sockets`, and both ends plain."""
import contextlib
import json
import os
import re
import tempfile
import time

from contenders import Missing, Server, any_port, built, client, need, whole
from rows import stream_limit

MIB = 1 << 20


def ours(command):
    return [built('bin', 'iwarp-run'), '--sockets', *command]


def plain(command):
    return list(command)


def iperf3(wrap, seconds):
    def play(_):
        need('iperf3')
        port = any_port()
        with Server(wrap(['iperf3', '-s', '-1', '-p', port]), port):
            out = client(wrap(['iperf3', '-c', '127.0.0.1', '-p', port, '-t', str(seconds), '-J']))
        return {'rate': json.loads(out)['end']['sum_received']['bits_per_second'] / 8}
    return whole(play)


@contextlib.contextmanager
def http_server(wrap, octets):
    """Gives the address of a file of so many octets."""
    port = any_port()
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, 'file'), 'wb') as file:
            file.write(os.urandom(min(octets, MIB)) * max(1, octets // MIB))
        server = ['/usr/bin/python3', '-m', 'http.server', port, '--bind', '127.0.0.1', '--directory', folder]
        with Server(wrap(server), port):
            yield f'http://127.0.0.1:{port}/file'


def curl(wrap, address, octets):
    """Octets a second, from the begin of its connection on."""
    size, speed = client(wrap(['curl', '-sS', '-o', '/dev/null', '-w', '%{size_download} %{speed_download}',
                               address])).split()
    if int(size) != octets:
        raise Missing(f'curl: {size} of {octets} octets')
    return float(speed)


def http(wrap, octets):
    def play(_):
        need('curl')
        with http_server(wrap, octets) as address:
            return {'rate': curl(wrap, address, octets)}
    return whole(play)


def starts(wrap, runs):
    """Programs that move little: from the start of each to its end."""
    def play(_):
        need('curl')
        with http_server(wrap, 1024) as address:
            curl(wrap, address, 1024)
            begin = time.monotonic()
            for _ in range(runs):
                curl(wrap, address, 1024)
            return {'rate': runs / (time.monotonic() - begin)}
    return whole(play)


def figure(pattern, text, program):
    found = re.search(pattern, text)
    if not found:
        raise Missing(f'{program} told nothing')
    return float(found[1])


def nginx(wrap, octets, seconds):
    """Requests a second of ten connections that stay, one worker."""
    def play(_):
        need('nginx')
        need('wrk')
        port = any_port()
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, 'file'), 'wb') as file:
                file.write(os.urandom(octets))
            conf = os.path.join(folder, 'conf')
            with open(conf, 'w', encoding='ascii') as file:
                temporary = ''.join(f'{kind}_temp_path {folder}/{kind}; '
                                    for kind in ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'))
                file.write(f'daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors; events {{ }}\n'
                           f'http {{ {temporary} access_log off; sendfile on; keepalive_requests 1000000000;\n'
                           f'server {{ listen 127.0.0.1:{port}; root {folder}; }} }}\n')
            with Server(wrap(['nginx', '-c', conf, '-e', os.path.join(folder, 'errors')]), port):
                out = client(wrap(['wrk', '-t', '1', '-c', '10', '-d', str(seconds), f'http://127.0.0.1:{port}/file']))
        if 'Socket errors' in out or 'Non-2xx' in out:
            raise Missing('wrk: errors')
        return {'rate': figure(r'Requests/sec: *([0-9.]+)', out, 'wrk')}
    return whole(play)


def redis(wrap, clients, requests, threads=1, stays=True):
    def play(_):
        need('redis-server')
        port = any_port()
        with Server(wrap(['redis-server', '--port', port, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']),
                    port):
            out = client(wrap(['redis-benchmark', '-p', port, '-t', 'get', '-c', str(clients), '-n', str(requests),
                               '--csv', *(['--threads', str(threads)] if threads > 1 else []),
                               *([] if stays else ['-k', '0'])]))
        fields = out.strip().splitlines()[-1].replace('"', '').split(',')
        if fields[0] != 'GET':
            raise Missing('redis-benchmark told nothing')
        return {'rate': float(fields[1])}
    return whole(play)


def rows(row, quick):
    def pair(name, title, what, play, **more):
        return row(name, title, '', ({'': play(ours)}, {'': play(plain)}), what, **more)
    octets = (64 if quick else 256) * MIB
    yield pair('sockets-iperf3', 'iperf3, one stream', 'iperf3 over sockets', lambda wrap: iperf3(wrap, 1),
               unit='B/s', size=1, limit=stream_limit(1))
    yield pair('sockets-http', f'curl of {octets // MIB} MiB from python3 -m http.server', 'curl',
               lambda wrap: http(wrap, octets), unit='B/s', size=1, limit=stream_limit(1))
    yield pair('sockets-start', 'curl of 1 KiB, one run after the other, each from its start to its end',
               'starts of curl', lambda wrap: starts(wrap, 20))
    for clients, requests in ((1, 10000), (50, 40000), (200, 40000)):
        yield pair(f'sockets-redis-{clients}', f'redis-benchmark -t get, {clients} at once', f'redis, {clients} at once',
                   lambda wrap, c=clients, n=requests: redis(wrap, c, n if quick else 5 * n))
    yield pair('sockets-redis-threads', 'redis-benchmark -t get, 50 at once in two threads',
               'redis, 50 at once in two threads', lambda wrap: redis(wrap, 50, 40000 if quick else 200000, 2))
    yield pair('sockets-redis-new', 'redis-benchmark -t get -k 0, 10 at once, each request over a new connection',
               'redis, new connections', lambda wrap: redis(wrap, 10, 2000 if quick else 8000, stays=False))
    for name, size in (('1k', 1024), ('1m', MIB)):
        yield pair(f'sockets-nginx-{name}', f'wrk and nginx, {size} octets, 10 at once', f'nginx, {size} octets',
                   lambda wrap, n=size: nginx(wrap, n, 1 if quick else 3))
