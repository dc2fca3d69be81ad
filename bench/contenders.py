# SPDX-License-Identifier: BSD-2-Clause
"""What is compared: a contender is a function that takes seconds, runs once, and returns a dict with
`value` and, where it can be had, processor seconds per GiB of both sides."""
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

SERVER_CORE, CLIENT_CORE = '0', '1'
CORES = f'{SERVER_CORE},{CLIENT_CORE}'
PATIENCE = 180


class Missing(Exception):
    """The contender is not there, or did not do what it should."""


def need(program):
    if not shutil.which(program):
        raise Missing(f'there is no {program}')


def run(command, env=None):
    try:
        out = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE,
                             env={**os.environ, **(env or {})}, check=False)
    except subprocess.TimeoutExpired:
        raise Missing(f'not done after {PATIENCE} s: {" ".join(command)}') from None
    except OSError as error:
        raise Missing(str(error)) from None
    if out.returncode != 0:
        lines = (out.stderr + out.stdout).strip().splitlines()
        raise Missing(f'{command[0].rsplit("/", 1)[-1]}: {lines[-1] if lines else out.returncode}')
    return out.stdout


def fields_of(result, value):
    found = {'value': result[value]}
    sides = [result.get(f'cpu_{side}_s_per_gib') for side in ('client', 'server')]
    if None not in sides:
        found['cpu_client'], found['cpu_server'] = sides
        found['cpu_both'] = sum(sides)
    for key in ('fpdus_sent', 'messages', 'client_octets_each', 'server_octets_each', 'octets_both',
                'cpu_client_s', 'cpu_server_s', 'most_to_least', 'us_one_way', 'us_one_way_p99'):
        if key in result and key != value:
            found[key] = result[key]
    return found


def ours(program, words, value, mtu=None, env=None):
    """iwarp-bench, or the program on libfabric, which takes the same options."""
    def contender(seconds):
        command = [program, *words.split(), '--seconds', str(seconds), '--cores', CORES]
        if mtu:
            need('unshare')
            command = ['unshare', '-n' if os.getuid() == 0 else '-rn', 'sh', '-c',
                       f'ip link set lo mtu {mtu} up && exec "$@"', 'sh', *command]
        if not os.path.exists(program):
            raise Missing(f'{os.path.basename(program)} was not built')
        return fields_of(json.loads(run(command, env)), value)
    return contender


def cipher(name, octets):
    """openssl speed of a cipher, on one core."""
    def contender(seconds):
        need('openssl')
        out = run(['taskset', '-c', CLIENT_CORE, 'openssl', 'speed', '-elapsed', '-mr', '-seconds',
                   str(max(1, round(seconds))), '-bytes', str(octets), '-aead', '-evp', name])
        found = re.search(r'^\+F:\d+:[^:]*:([0-9.]+)$', out, re.MULTILINE)
        if not found:
            raise Missing('openssl speed said nothing')
        return {'value': float(found.group(1))}
    return contender


class Server:
    """Another program's server on its core, ended by us if it does not end itself."""

    def __init__(self, command, env=None):
        self.process = subprocess.Popen(['taskset', '-c', SERVER_CORE, *command],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env={**os.environ, **(env or {})})
        time.sleep(0.5)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.process.wait(1)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


def client(command, env=None):
    return run(['taskset', '-c', CLIENT_CORE, *command], env)


def over_lwip(program, words, value, link):
    """iwarp-bench between two processes on lwIP: over rings (shm) or a switch (unix)."""
    def contender(seconds):
        if not os.path.exists(program):
            raise Missing(f'{program} was not built (make LWIP_SRC=DIR)')
        command = [program, *words.split(), '--seconds', str(seconds)]
        with tempfile.TemporaryDirectory() as place:
            net = os.path.join(place, 'net')
            text = f'lwip:{link}={net},addr=10.9.0.'
            with contextlib.ExitStack() as stack:
                if link == 'unix':
                    switch = os.path.join(os.path.dirname(program), 'iwarp-link')
                    stack.enter_context(Server([switch, net]))
                stack.enter_context(Server([*command, '--listen', '10.9.0.1'],
                                           {'IWARP_TRANSPORT': text + '1/24'}))
                said = client([*command, '--connect', '10.9.0.1'],
                              {'IWARP_TRANSPORT': text + '2/24'})
        return fields_of(json.loads(said), value)
    return contender


def over_path(program, words, value, kind):
    """Between two processes over an Ethernet of MTU 1500 without offloads: see bench/path."""
    def contender(seconds):
        need('ethtool')
        if not os.path.exists(program):
            raise Missing(f'{program} was not built (make LWIP_SRC=DIR)')
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'path')
        return fields_of(json.loads(run([path, kind, program, *words.split(), '--seconds',
                                         str(seconds)])), value)
    return contender


def any_port():
    return str(random.randrange(20000, 32000))


def iperf3(size):
    def contender(seconds):
        need('iperf3')
        port = any_port()
        with Server(['iperf3', '-s', '-1', '-p', port]):
            out = client(['iperf3', '-c', '127.0.0.1', '-p', port, '-l', str(size), '-J', '-t',
                          str(max(1, round(seconds)))])
        return {'value': json.loads(out)['end']['sum_received']['bits_per_second'] / 8}
    return contender


def sockperf(size, busy):
    def contender(seconds):
        need('sockperf')
        port = any_port()
        words = ['--tcp', '-i', '127.0.0.1', '-p', port] + (['--nonblocked'] if busy else [])
        with Server(['sockperf', 'server', *words]):
            out = client(['sockperf', 'ping-pong', *words, '-m', str(max(14, size)), '-t',
                          str(max(1, round(seconds)))])
        median = re.search(r'percentile 50\.000 =\s*([0-9.]+)', out)
        if not median:
            raise Missing('sockperf printed no median')
        return {'value': float(median.group(1))}
    return contender


def ucx(test, size, latency=False):
    """ucx_perftest over tcp; its rates are of all iterations, its latency is the median."""
    def contender(seconds):
        need('ucx_perftest')
        port, env = any_port(), {'UCX_TLS': 'tcp', 'UCX_NET_DEVICES': 'lo'}
        rate = min(10000 if latency else 200000, 8e8 / size)
        words = ['-p', port, '-t', test, '-s', str(size), '-n', str(max(20, int(rate * seconds))),
                 '-w', str(max(5, int(rate * seconds / 20))), '-f']
        with Server(['ucx_perftest', *words], env):
            out = client(['ucx_perftest', '127.0.0.1', *words], env)
        numbers = out.strip().splitlines()[-1].split()
        if len(numbers) < 8:
            raise Missing('ucx_perftest printed no numbers')
        return {'value': float(numbers[1]) if latency else float(numbers[-1]) * size,
                'rate': float(numbers[-1])}
    return contender


def ucx_rate(size):
    inner = ucx('ucp_put_bw', size)

    def contender(seconds):
        return {'value': inner(seconds)['rate']}
    return contender


def fi_pingpong(size):
    """Half of its round trip, a mean, since it tells no median."""
    def contender(seconds):
        need('fi_pingpong')
        port = any_port()
        words = ['fi_pingpong', '-p', 'tcp', '-e', 'msg', '-d', 'lo', '-I', str(int(8000 * seconds)),
                 '-S', str(size)]
        with Server([*words, '-B', port]):
            out = client([*words, '-P', port, '127.0.0.1'])
        lines = [line.split() for line in out.splitlines() if re.match(r'^\d', line)]
        if not lines:
            raise Missing('fi_pingpong printed no numbers')
        return {'value': float(lines[-1][-2])}
    return contender
