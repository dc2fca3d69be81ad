# SPDX-License-Identifier: BSD-2-Clause
"""What is compared.  A contender is an object that is connected when it is there: `turn(length)`
works for so many milliseconds and returns its figures, `close()` ends it.  Figures are a dict: `rate`
(messages a second), where they can be had `cpu_client`, `cpu_server` and `cpu` (seconds of processor
time for a message), and of round trips `p50`, `p99`, `longest` and `steps` (microseconds one way).
Those that have to be run anew for each turn are `Whole`."""
import contextlib
import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SERVER_CORE, CLIENT_CORE = '0', '1'
CORES = f'{SERVER_CORE},{CLIENT_CORE}'
PATIENCE = 180
WARM = 5 # milliseconds of each turn that do not count
CONGESTION = 'BENCH_CONGESTION' # names the congestion control of the namespaces that are made


class Missing(Exception):
    """The contender is not there, or did not do what it should."""


def need(program):
    if not shutil.which(program):
        raise Missing(f'there is no {program}')


def built(*name):
    path = os.path.join(os.environ['BUILD'], *name)
    if not os.path.exists(path):
        raise Missing(f'{name[-1]} was not built')
    return path


def congestion():
    with open('/proc/sys/net/ipv4/tcp_congestion_control', encoding='ascii') as file:
        return file.read().strip()


def own_network(script, *words, mtu=65536):
    """The command that runs a shell's script, with words, behind a loopback of its own.  A new namespace has
    the congestion control of the first one, whatever that of its parent is.  libfabric leaves addresses of
    loopback aside, so there is another one, whose octets go over loopback all the same."""
    return ['unshare', '-n' if os.getuid() == 0 else '-rn', 'sh', '-c',
            f'ip link set lo mtu {mtu} up && ip link add out type veth peer name far && '
            'ip addr add 10.9.8.1/24 dev out && ip link set out up && ip link set far up && '
            f'echo ${{{CONGESTION}:-{congestion()}}} >'
            f'/proc/sys/net/ipv4/tcp_congestion_control && {script}', 'sh', *words]


def enter_network(name):
    """Runs this script anew in a network namespace with congestion control `name`, unless that is `system` or it
    is there already.  Reno is in each kernel, and anybody may choose it."""
    if name == 'system' or os.environ.get(CONGESTION):
        return
    os.environ[CONGESTION] = name
    try:
        need('unshare')
        subprocess.run(own_network('true'), capture_output=True, check=True)
    except (Missing, subprocess.CalledProcessError):
        del os.environ[CONGESTION]
        print(f'no network namespace with congestion control {name}: it stays {congestion()}', file=sys.stderr)
        return
    sys.stdout.flush()
    os.execvp('unshare', own_network('exec "$@"', sys.executable, *sys.argv))


def run(command, env=None, patience=PATIENCE):
    try:
        out = subprocess.run(command, capture_output=True, text=True, timeout=patience,
                             env={**os.environ, **(env or {})}, check=False)
    except subprocess.TimeoutExpired:
        raise Missing(f'not done after {patience} s: {" ".join(command)}') from None
    except OSError as error:
        raise Missing(str(error)) from None
    if out.returncode != 0:
        lines = (out.stderr + out.stdout).strip().splitlines()
        raise Missing(f'{command[0].rsplit("/", 1)[-1]}: {lines[-1] if lines else out.returncode}')
    return out.stdout


def any_port():
    """One that nobody listens on."""
    while True:
        port = random.randrange(20000, 32000)
        if not listens(port):
            return str(port)


def listens(port):
    for name in ('tcp', 'tcp6'):
        with contextlib.suppress(OSError), open(f'/proc/net/{name}', encoding='ascii') as file:
            for line in file.readlines()[1:]:
                if line.split()[1].endswith(f':{int(port):04X}') and line.split()[3] == '0A':
                    return True
    return False


# --- connected all the time ----------------------------------------------------------------------

class Turns:
    """A program that works in turns, see turn.h."""

    def __init__(self, command, env=None):
        try:
            self.process = subprocess.Popen(command, env={**os.environ, **(env or {})}, text=True,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE)
        except OSError as error:
            raise Missing(f'{command[0]}: {error.strerror}') from None
        if not self.line().startswith('ready'):
            why = self.process.stderr.read().strip().splitlines()
            self.close()
            raise Missing(why[-1] if why else 'no connection')

    def line(self):
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        if not ready:
            self.kill()
            raise Missing(f'no answer within {PATIENCE} s')
        return self.process.stdout.readline()

    def turn(self, length):
        try:
            self.process.stdin.write(f'{min(WARM, length / 5)} {length}\n')
            self.process.stdin.flush()
            figures = json.loads(self.line())
        except (BrokenPipeError, ValueError):
            raise Missing('it ended in the middle') from None
        cpu = figures.pop('cpu')
        if figures['rate'] > 0:
            client, server = (seconds / figures['seconds'] / figures['rate'] for seconds in cpu)
            figures.update(cpu_client=client, cpu_server=server, cpu=client + server)
        return figures

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(PATIENCE)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.kill()

    def kill(self):
        """The other side, its child, may be what stands still."""
        with contextlib.suppress(OSError), open(f'/proc/{self.process.pid}/task/{self.process.pid}/children',
                                                encoding='ascii') as file:
            for child in file.read().split():
                os.kill(int(child), signal.SIGKILL)
        self.process.kill()
        self.process.wait()


def turns(words, program='turns', env=None):
    """Starts one: `turns`, `fabric-peer` or `ucx-peer` with options of iwarp-bench."""
    def start():
        library = {'LD_LIBRARY_PATH': os.path.join(os.environ['BUILD'], 'lib')} if program == 'turns' else {}
        return Turns([built('bench', program), *words.split(), '--cores', CORES], {**library, **(env or {})})
    return start


def part(name):
    return lambda: Turns([built('bench', 'parts'), name])


def clock_of(pid):
    """The kernel's clock of the processor time of another process, as clock_getcpuclockid makes it."""
    return time.clock_gettime(~pid << 3 | 2)


class Iperf3:
    """It cannot be asked to pause, so it is stopped, and what it has read is what the kernel counts."""

    def __init__(self, size):
        need('iperf3')
        self.size, port = size, any_port()
        quiet = {'stdout': subprocess.DEVNULL, 'stderr': subprocess.DEVNULL}
        self.sides = [subprocess.Popen(['taskset', '-c', SERVER_CORE, 'iperf3', '-s', '-1', '-p', port], **quiet)]
        until = time.monotonic() + 5
        while not listens(port) and time.monotonic() < until:
            time.sleep(0.01)
        self.sides.insert(0, subprocess.Popen(
            ['taskset', '-c', CLIENT_CORE, 'iperf3', '-c', '127.0.0.1', '-p', port, '-l', str(size), '-t', '86400',
             '-i', '0'], **quiet))
        while self.taken() < 1 << 22 and time.monotonic() < until:
            time.sleep(0.01)
        if self.taken() < 1 << 22:
            self.close()
            raise Missing('iperf3 moves nothing')
        self.signal(signal.SIGSTOP)

    def signal(self, number):
        for side in self.sides:
            side.send_signal(number)

    def taken(self):
        try:
            with open(f'/proc/{self.sides[-1].pid}/io', encoding='ascii') as file:
                return int(file.readline().split()[1])
        except (OSError, IndexError):
            return 0

    def look(self):
        return [time.monotonic(), self.taken(), *(clock_of(side.pid) for side in self.sides)]

    def turn(self, length):
        self.signal(signal.SIGCONT)
        time.sleep(WARM / 1e3)
        before = self.look()
        time.sleep(length / 1e3)
        seconds, octets, client, server = (b - a for a, b in zip(before, self.look()))
        self.signal(signal.SIGSTOP)
        messages = octets / self.size
        if self.sides[0].poll() is not None:
            raise Missing('iperf3 has ended')
        if messages == 0:
            return {'rate': 0}
        return {'rate': messages / seconds, 'cpu_client': client / messages, 'cpu_server': server / messages,
                'cpu': (client + server) / messages}

    def close(self):
        for side in self.sides:
            side.kill()
            side.wait()


# --- run anew for each turn ----------------------------------------------------------------------

class Whole:
    """A function that takes seconds and returns figures."""

    def __init__(self, function):
        self.function = function

    def turn(self, length):
        return self.function(length / 1e3)

    def close(self):
        pass


def whole(function):
    return lambda: Whole(function)


def once(words, figure, program=('bin', 'iwarp-bench'), mtu=None, env=None, least=0):
    """iwarp-bench runs once, for `least` seconds; `figure` of its line of JSON is the rate, or p50 if that is in
    microseconds."""
    def play(seconds):
        command = [built(*program), *words.split(), '--seconds', str(max(seconds, least)), '--cores', CORES]
        if mtu:
            need('unshare')
            command = own_network('exec "$@"', *command, mtu=mtu)
        return figures_of(run(command, env), figure)
    return whole(play)


def figures_of(line, figure):
    said = json.loads(line)
    found = {**said, 'p50' if figure.startswith('us') else 'rate': said[figure]}
    if said.get('cpu_server_s_per_gib'):
        for side in ('client', 'server'):
            found[f'cpu_{side}'] = said[f'cpu_{side}_s_per_gib'] * said['octets'] / (1 << 30)
        found['cpu'] = found['cpu_client'] + found['cpu_server']
    return found


class Server:
    """Another program's server on its core, ended by us if it does not end itself."""

    def __init__(self, command, port=None, env=None):
        self.process = subprocess.Popen(['taskset', '-c', SERVER_CORE, *command],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env={**os.environ, **(env or {})})
        until = time.monotonic() + (0.5 if port is None else 20)
        while time.monotonic() < until and self.process.poll() is None and not (port and listens(port)):
            time.sleep(0.01)

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


def cipher(name, octets):
    """openssl speed of a cipher, on one core: messages of a MiB a second."""
    def play(seconds):
        need('openssl')
        out = run(['taskset', '-c', CLIENT_CORE, 'openssl', 'speed', '-elapsed', '-mr', '-seconds',
                   str(max(1, round(seconds))), '-bytes', str(octets), '-aead', '-evp', name])
        found = re.search(r'^\+F:\d+:[^:]*:([0-9.]+)$', out, re.MULTILINE)
        if not found:
            raise Missing('openssl speed said nothing')
        return {'rate': float(found.group(1)) / (1 << 20)}
    return whole(play)


def over_lwip(program, words, figure, link):
    """iwarp-bench between two processes on lwIP: over rings (shm) or a switch (unix)."""
    def play(seconds):
        bench = built(*program)
        command = [bench, *words.split(), '--seconds', str(seconds)]
        with tempfile.TemporaryDirectory() as place:
            net = os.path.join(place, 'net')
            text = f'lwip:{link}={net},addr=10.9.0.'
            with contextlib.ExitStack() as stack:
                if link == 'unix':
                    switch = os.path.join(os.path.dirname(bench), 'iwarp-link')
                    stack.enter_context(Server([switch, net]))
                stack.enter_context(Server([*command, '--listen', '10.9.0.1'],
                                           env={'IWARP_TRANSPORT': text + '1/24'}))
                said = client([*command, '--connect', '10.9.0.1'], {'IWARP_TRANSPORT': text + '2/24'})
        return figures_of(said, figure)
    return whole(play)


def over_path(program, words, figure, kind):
    """Between two processes over an Ethernet of MTU 1500 without offloads: see bench/path."""
    def play(seconds):
        need('ethtool')
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'path')
        return figures_of(run([path, kind, built(*program), *words.split(), '--seconds', str(seconds)]), figure)
    return whole(play)


def perftest(words, figure, build=None, env=None):
    """perftest under iwarp-run, of this build or another one; figure: `t_typical`, `t_avg` or `msg_rate`.
    Beside other work it does not always find the processor's frequency, hence -F and five tries."""
    def play(_):
        name, *rest = words.split()
        need(name)
        folder = build or os.environ['BUILD']
        if not os.path.exists(os.path.join(folder, 'lib', 'compat', 'libibverbs.so.1')):
            raise Missing(f'{folder} has no drop-in libraries')
        for _ in range(5):
            port = any_port()
            command = [os.path.join(folder, 'bin', 'iwarp-run'), name, '-R', '-F', *rest, '-p', port]
            with Server(command, port, env):
                out = client([*command, '127.0.0.1'], env)
            found = perftest_figures(out, figure)
            if found:
                return found
        raise Missing(f'{name} told nothing in five runs')
    return whole(play)


def perftest_figures(out, figure):
    """Columns of its table by name; time is one way, in microseconds."""
    lines = out.splitlines()
    for head, line in zip(lines, lines[1:]):
        if head.strip().startswith('#bytes'):
            names = re.findall(r'[^\s\[]+(?:\[[^\]]*\])?', re.sub(r'([\w%]) (average|peak|percentile)', r'\1_\2', head))
            row = dict(zip((re.sub(r'\[.*', '', name) for name in names), line.split()))
            if figure == 'msg_rate':
                rate = float(row['MsgRate']) * 1e6
                return {'rate': rate} if rate > 0 else None
            value = row.get(figure, 'inf')
            if value == 'inf' or float(value) <= 0:
                return None
            found = {'p50': float(value), 'rate': 5e5 / float(value)}
            if '99%_percentile' in row:
                found['p99'] = float(row['99%_percentile'])
            return found
    return None
