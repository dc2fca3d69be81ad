# SPDX-License-Identifier: BSD-2-Clause
"""The rows of the benchmark: what is compared, how it posts, and what is wanted of it."""
import dataclasses
import os
import subprocess
import tempfile

from contenders import (Iperf3, built, cipher, once, over_lwip, over_path, part, perftest, turns, whole)
from fpdus import count_writes

KIB, MIB = 1 << 10, 1 << 20
SMALL = '--size 64 --footprint 64K --inline --polled'


@dataclasses.dataclass
class Target:
    """`name`'s figure, divided by that of the best of `base` in the same round, or alone."""
    what: str
    sense: str # '>=' or '<='
    wanted: float
    name: str
    base: tuple = () # a tuple in it: what these do behind each other
    figure: str = 'rate' # 'a + b' is the sum
    base_figure: str = '' # if it is another one
    scale: float = 1
    near: bool = False # also met at 0.95 of what the machine could give at best
    most: tuple = () # as a Row's, where the figure is another one than the row's


@dataclasses.dataclass
class Row:
    name: str
    title: str
    how: str # of posting
    unit: str # 'B/s', '/s', 'us', or that of the figure
    contenders: dict
    targets: list = dataclasses.field(default_factory=list)
    size: int = 0 # octets of a message
    whole: bool = False # run anew for each turn
    length: float = 50 # milliseconds of a turn
    starts: int = 100 # at most so many of each contender
    rounds: int = 1000 # at most
    long: bool = False # left out of the short form, unless it is named
    figure: str = '' # what the table shows: rate, or p50 of times
    most: tuple = () # (text, function of medians and parts): what the machine could give at best

    def shown(self):
        return self.figure or ('p50' if self.unit == 'us' else 'rate')

    def value(self, figures):
        value = figures.get(self.shown())
        return value * self.size if self.unit == 'B/s' and value is not None else value


def key_file():
    """A pre-shared key for this run."""
    path = os.path.join(os.environ['BUILD'], 'bench', 'psk')
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), 'w', encoding='ascii') as file:
            file.write(f'bench:{os.urandom(32).hex()}\n')
    return path


# --- what the machine could give at best ---------------------------------------------------------

def passes(size, name='plain TCP'):
    """A side does the calls of plain TCP and one CRC, and the one that receives also copies what it has
    verified; the slower side decides."""
    def most(medians, parts):
        tcp = medians[name]
        crc, copy = (size / parts[name]['rate'] for name in ('crc', 'near-copies'))
        return 1 / max(tcp['cpu_client'] + crc, tcp['cpu_server'] + crc + copy)
    return ("plain TCP's calls, a CRC on each side and a copy where it is received, on the slower side", most)


def processor(size, figure, crcs):
    """Of TCP's calls, and of the passes over the payload that it does not have."""
    def least(medians, parts):
        crc, copy = (size / parts[name]['rate'] for name in ('crc', 'near-copies'))
        return medians['plain TCP'][figure] + crcs * crc + copy
    return ("plain TCP's processor time, the CRC of each side that is counted, and the copy where it is received", least)


def of_many(size, name):
    """Many connections have no more than plain TCP with as many, nor than one of ours, which sends several
    messages at a time."""
    def most(medians, parts):
        return min(medians['one connection']['rate'], passes(size, name)[1](medians, parts))
    return ("one connection, and plain TCP's calls on as many with a CRC on each side and a copy", most)


def octets_of_tcp(size):
    """What its octets cost in large calls: 20 of DDP, RDMAP and MPA with the payload (RFC 5040, 5044)."""
    def most(medians, parts):
        tcp = medians['plain TCP, 64 KiB'] # messages of 64 KiB
        octet = max(tcp['cpu_client'], tcp['cpu_server']) / 65536 + 1 / parts['crc']['rate']
        return 1 / ((size + 20) * octet)
    return ("the octets of its FPDUs in plain TCP's calls of 64 KiB, with their CRC", most)


def passes_to_and_fro(size, name='plain TCP'):
    """The receiver can begin while the rest is sent, but the last FPDU it verifies and copies alone."""
    def least(medians, parts):
        crc, copy = (parts[name]['rate'] for name in ('crc', 'near-copies'))
        last = min(size, 65536)
        return medians[name]['p50'] + 1e6 * (size / crc + last / crc + last / copy)
    return ("plain TCP's time, the sender's CRC, and CRC and copy of the last FPDU where it is received", least)


def polled_and_woken(medians, parts):
    """The program reads its own memory alone, so only the loop's own thread can place what comes."""
    return medians['libiwarp, polled']['p50'] + 5e5 / parts['wake']['rate']


def as_tcp(name):
    return ("plain TCP's calls alone", lambda medians, _: medians[name]['p50'])


# Of whole programs: what plain TCP itself gives, beside them in the same rounds, and from it the bound.

CALLS, TO_AND_FRO = 'plain TCP, calls of 256 KiB', 'plain TCP, to and fro'


def plain_tcp(words, figure, figures):
    tcp = once(words, figure, least=0.3)
    return whole(lambda seconds: figures(tcp().turn(seconds * 1e3)))


def stream_limit(size):
    """For messages of `size`.  The library may send and receive several at a time, so octets are taken at what they
    cost in long calls."""
    def figures(found):
        calls = size / found['octets']
        return {'rate': found['rate'] / calls, **{cpu: found[cpu] * calls for cpu in ('cpu_client', 'cpu_server')}}
    return {CALLS: plain_tcp('tcp-stream --size 256K', 'messages_per_s', figures)}, passes(size, CALLS)


def to_and_fro_limit(size):
    """For programs that tell a rate: how many ways one after the other in a second."""
    text, least = passes_to_and_fro(size, TO_AND_FRO)
    beside = plain_tcp(f'tcp-pingpong --polled --size {size}', 'us_one_way_median',
                       lambda found: {'rate': 1e6 / found['p50'], 'p50': found['p50']})
    return {TO_AND_FRO: beside}, (text, lambda medians, parts: 1e6 / least(medians, parts))


# --- streams -------------------------------------------------------------------------------------

def throughput_rows():
    tcp = ('plain TCP', 'iperf3')

    def large(test, more):
        return {'plain TCP': turns('tcp-stream'), 'iperf3': lambda: Iperf3(MIB), 'libiwarp': turns(test),
                'libiwarp, polled': turns(test + ' --polled'), **more,
                'libfabric tcp': turns(test + ' --polled', 'fabric-peer'),
                'UCX tcp': turns(test + ' --polled', 'ucx-peer')}

    def wanted(what, name='libiwarp'):
        return [Target(f'{what} 1 MiB, of the faster of plain TCP and iperf3', '>=', 1.25, name, tcp, near=True),
                Target(f"{what} 1 MiB, CPU of the side that receives, of a TCP receiver's", '<=', 1.4, name,
                       ('plain TCP',), 'cpu_server' if what == 'Write' else 'cpu_client', near=True,
                       most=processor(MIB, 'cpu_server', 1))]

    yield Row('write', 'RDMA Writes of 1 MiB', 'one a call, 16 in flight', 'B/s',
              large('write', {'libiwarp, early': turns('write --early'), 'libiwarp, no CRC': turns('write --no-crc')}),
              wanted('Write'), MIB, most=passes(MIB))
    reads = wanted('Read')
    reads[1] = dataclasses.replace(reads[1], base_figure='cpu_server')
    yield Row('read', 'RDMA Reads of 1 MiB', 'one a call, 16 in flight', 'B/s', large('read', {}), reads, MIB,
              most=passes(MIB))
    cold = ' --footprint 64M'
    yield Row('write-cold', 'RDMA Writes of 1 MiB, all over 64 MiB on each side', 'one a call, 16 in flight', 'B/s',
              {'plain TCP': turns('tcp-stream' + cold), 'libiwarp': turns('write' + cold),
               'libfabric tcp': turns('write --polled' + cold, 'fabric-peer')},
              [Target('Write 1 MiB, cold, of plain TCP', '>=', 1, 'libiwarp', ('plain TCP',), near=True)], MIB, starts=12,
              most=passes(MIB))
    yield Row('send', 'Sends of 64 KiB', 'one a call, 64 in flight', 'B/s',
              {'plain TCP': turns('tcp-stream --size 64K'), 'iperf3': lambda: Iperf3(65536),
               'libiwarp': turns('send'), 'libiwarp, polled': turns('send --polled')},
              [Target('Send 64 KiB, one a call, of plain TCP', '>=', 0.9, 'libiwarp', tcp, near=True),
               Target('Send 64 KiB, one a call, CPU of both sides', '<=', 1.2, 'libiwarp', ('plain TCP',), 'cpu',
                      near=True, most=processor(65536, 'cpu', 2))],
              65536, most=passes(65536))
    yield Row('send-chains', 'Sends of 64 KiB', 'chains of 4, 64 in flight', 'B/s',
              {'plain TCP': turns('tcp-stream --size 64K'), 'libiwarp': turns('send --chain 4'),
               'libiwarp, polled': turns('send --chain 4 --polled')},
              [Target('Send 64 KiB, in chains of 4, of plain TCP', '>=', 0.9, 'libiwarp', ('plain TCP',), near=True),
               Target('Send 64 KiB, in chains of 4, CPU of both sides', '<=', 1.2, 'libiwarp', ('plain TCP',), 'cpu',
                      near=True, most=processor(65536, 'cpu', 2))],
              65536, most=passes(65536))


def odd_rows():
    """Streams that are another program's, or in a place of their own, so they are run anew each time."""
    yield Row('write-tls', 'RDMA Writes of 1 MiB under TLS', 'one a call, 16 in flight', 'B/s',
              {'plain': once('write --no-crc', 'messages_per_s'), 'AES-128-GCM': cipher('aes-128-gcm', 16384),
               'TLS': once('write', 'messages_per_s', env={'IWARP_TLS': f'psk={key_file()}'})},
              [Target('Write 1 MiB under TLS, of 1/(1/plain + 1/cipher)', '>=', 0.8, 'TLS', (('plain', 'AES-128-GCM'),))],
              MIB, whole=True, length=300, long=True)
    yield Row('mtu-1500', 'RDMA Writes of 1 MiB over a loopback of MTU 1500', 'one a call, 16 in flight', 'B/s',
              {'plain TCP': once('tcp-stream', 'messages_per_s', mtu=1500),
               'libiwarp': once('write', 'messages_per_s', mtu=1500),
               'libiwarp, no CRC': once('write --no-crc', 'messages_per_s', mtu=1500)},
              [Target('FPDUs of 1448 octets, of plain TCP at the same MTU', '>=', 0.6, 'libiwarp', ('plain TCP',))],
              MIB, whole=True, length=200)


# --- to and fro ----------------------------------------------------------------------------------

def latency_rows(quick):
    polled = {'plain TCP': turns('tcp-pingpong --polled'),
              'libiwarp, Write': turns('pingpong-write --polled --inline'),
              'libiwarp': turns('pingpong-send --polled --inline'),
              'libfabric tcp': turns('pingpong-send --polled', 'fabric-peer'),
              'UCX tcp': turns('pingpong-send --polled', 'ucx-peer')}
    asleep = {'plain TCP, blocking': turns('tcp-pingpong'), 'libiwarp, threaded': turns('pingpong-send --inline'),
              'libiwarp, embedded': turns('pingpong-send --inline --embedded'),
              'libfabric tcp, sleeping': turns('pingpong-send', 'fabric-peer'),
              'UCX tcp, sleeping': turns('pingpong-send', 'ucx-peer')}

    yield Row('ping-pong-polled', '8 octets to and fro, polled', 'one a call', 'us', polled,
              [Target('8 octets polled, p50 of plain TCP', '<=', 1.05, 'libiwarp', ('plain TCP',), 'p50'),
               Target('8 octets polled, p99 of plain TCP', '<=', 1.2, 'libiwarp', ('plain TCP',), 'p99'),
               Target('8 octets polled, p50 of libfabric tcp', '<=', 1, 'libiwarp', ('libfabric tcp',), 'p50'),
               Target('8 octets polled, p50 of UCX tcp', '<=', 1, 'libiwarp', ('UCX tcp',), 'p50')], 8,
              most=as_tcp('plain TCP'))
    yield Row('ping-pong-sleeping', '8 octets to and fro, both sides sleep', 'one a call', 'us',
              {**asleep, 'libiwarp, not looking': turns('pingpong-send --inline', env={'IWARP_LOOK': 'off'})},
              [Target('8 octets threaded, p50 of blocking TCP', '<=', 1.2, 'libiwarp, threaded',
                      ('plain TCP, blocking',), 'p50'),
               Target('8 octets embedded, p50 of blocking TCP', '<=', 1.2, 'libiwarp, embedded',
                      ('plain TCP, blocking',), 'p50')], 8, most=as_tcp('plain TCP, blocking'))
    yield Row('ping-pong-spinning', '8 octets to and fro, programs poll a threaded device', 'one a call', 'us',
              {'libiwarp, polled': turns('pingpong-send --polled --inline'),
               'libiwarp, spinning': turns('pingpong-send --spin --inline')},
              [Target('8 octets spinning, p50 of polled', '<=', 1.3, 'libiwarp, spinning', ('libiwarp, polled',),
                      'p50')], 8)
    yield Row('perftest', 'unmodified programs of perftest, 8 octets to and fro', 'one a call', 'us',
              {'plain TCP, blocking': turns('tcp-pingpong'), 'libiwarp, polled': turns('pingpong-write --polled --inline'),
               'ib_send_lat': perftest('ib_send_lat -s 8 -n 5000', 't_typical'),
               'ib_send_lat -e': perftest('ib_send_lat -e -s 8 -n 3000', 't_typical'),
               'ib_write_lat': perftest('ib_write_lat -s 8 -n 5000', 't_typical')},
              [Target('sleeping in ibv_get_cq_event (ib_send_lat -e), of blocking TCP', '<=', 1.2, 'ib_send_lat -e',
                      ('plain TCP, blocking',), 'p50'),
               Target('spinning on memory (ib_write_lat), of polled', '<=', 1.3, 'ib_write_lat', ('libiwarp, polled',),
                      'p50', near=True)], 8, whole=True,
              most=("a hop of polled progress, and a wake-up of the thread that places what comes", polled_and_woken))
    if not quick: # a million round trips of each: seconds where they poll, a minute where they sleep
        yield Row('longest', 'a million times 8 octets to and fro', 'one a call', 'us',
                  {'plain TCP': polled['plain TCP'], 'libiwarp': polled['libiwarp'],
                   'plain TCP, blocking': asleep['plain TCP, blocking'],
                   'libiwarp, threaded': asleep['libiwarp, threaded']}, [], 8, length=1000, starts=1, rounds=60)


# --- small messages ------------------------------------------------------------------------------

def small_rows():
    """64 octets: by which the number of calls is what counts."""
    chains, single = SMALL + ' --depth 1024 --chain 128', SMALL + ' --depth 128'
    tcp = {'plain TCP, 64 KiB': turns('tcp-stream --size 64K')}
    yield Row('small-chains', 'RDMA Writes of 64 octets', 'chains of 128, 1,024 in flight', '/s',
              {**tcp, 'libiwarp': turns('write ' + chains),
               'libfabric tcp': turns('write ' + chains, 'fabric-peer')},
              [Target('64-octet Writes, chains of 128: millions a second', '>=', 20, 'libiwarp', scale=1e-6, near=True),
               Target('64-octet Writes, chains of 128, times libfabric tcp', '>=', 2, 'libiwarp', ('libfabric tcp',))],
              64, most=octets_of_tcp(64))
    yield Row('small', 'RDMA Writes of 64 octets', 'one a call, 128 in flight', '/s',
              {**tcp, 'libiwarp': turns('write ' + single), 'libfabric tcp': turns('write ' + single, 'fabric-peer'),
               'UCX tcp': turns('write ' + single, 'ucx-peer'),
               'plain TCP, one a call': turns('tcp-stream --size 64')},
              [Target('64-octet Writes, one a call: millions a second', '>=', 4, 'libiwarp', scale=1e-6, near=True),
               Target('64-octet Writes, one a call, times libfabric tcp', '>=', 2, 'libiwarp', ('libfabric tcp',))], 64,
              most=octets_of_tcp(64))
    yield Row('small-perftest', 'ib_write_bw, 64 octets, unmodified', 'one a call, 128 in flight', '/s',
              {'ib_write_bw': perftest('ib_write_bw -s 64 -n 300000 -t 128', 'msg_rate'),
               'ib_write_bw, chains of 128': perftest('ib_write_bw -s 64 -n 2000000 -t 1024 -l 128', 'msg_rate')},
              [Target('ib_write_bw of 64 octets, one a call: millions a second', '>=', 4, 'ib_write_bw', scale=1e-6)],
              64, whole=True)
    yield Row('small-capture', 'RDMA Writes of 64 octets: FPDUs in a capture for each request', 'chains of 128', '',
              {'libiwarp': captured_fpdus()},
              [Target('FPDUs in the capture for each 64-octet Write', '>=', 1, 'libiwarp')], 64, whole=True)


def captured_fpdus():
    """One short run that is recorded: as many FPDUs of RDMA Writes as requests, on the wire."""
    def play(_):
        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, 'IWARP_PCAP': os.path.join(folder, 'w.pcapng')}
            words = '--size 64 --chain 128 --depth 1024 --footprint 64K --inline --seconds 0.005'.split()
            out = subprocess.run([built('bin', 'iwarp-bench'), 'write', *words], env=env, capture_output=True,
                                 text=True, timeout=120, check=True).stdout
            seen = max(count_writes(os.path.join(folder, name), 64) for name in os.listdir(folder))
        messages = int(out.split('"messages": ')[1].split(',')[0])
        return {'rate': seen / (messages + 1024)} # and the lap of the check
    return whole(play)


# --- many of something ---------------------------------------------------------------------------

def crowd_rows(quick):
    many, crowd = (2000, 200) if quick else (10000, 1000)
    yield Row('idle', f'{many} idle connections, two processes', '', 'B',
              {'libiwarp': once(f'idle --count {many}', 'octets_both')},
              [Target('idle connections: KiB of each, at the server', '<=', 4, 'libiwarp', (), 'server_octets_each',
                      scale=1 / KIB),
               Target('idle connections: KiB of each, at the client', '<=', 4, 'libiwarp', (), 'client_octets_each',
                      scale=1 / KIB),
               Target('idle connections: milliseconds of processor time, both sides, in a second', '<=', 5, 'libiwarp',
                      (), 'cpu_client_s + cpu_server_s', scale=1e3)], whole=True, length=1000)
    yield Row('setup', 'connections set up, start-up included', '', '/s',
              {'libiwarp': once(f'setup --count {2000 if quick else 4000}', 'setups_per_s')},
              [Target('connections set up in a second', '>=', 5000, 'libiwarp')], whole=True)
    words = 'write --size 16K --depth 4 --count '
    yield Row('active', f'RDMA Writes of 16 KiB on {crowd} active connections', 'one a call, 4 in flight on each', 'B/s',
              {'one connection': turns(words + '1'), 'libiwarp': turns(words + str(crowd)),
               'plain TCP, as many': turns(f'tcp-active --count {crowd}')},
              [Target(f'{crowd} active connections, of one', '>=', 1, 'libiwarp', ('one connection',), near=True)], 16384,
              starts=12, most=of_many(16384, 'plain TCP, as many'))
    yield Row('active-tcp', f'messages of 16 KiB on {crowd} connections, shared alike', 'one a call', 'B/s',
              {'libiwarp': once(f'active --count {crowd} --depth 4', 'octets_per_s'),
               'plain TCP': once(f'tcp-active --count {crowd}', 'octets_per_s')},
              [Target(f'{crowd} active connections, most to least', '<=', 2, 'libiwarp', (), 'most_to_least')], 1,
              whole=True, length=300, long=True)


def memory_rows(quick):
    def rate(words):
        return turns('memory ' + words)

    def two_of_host(name):
        return ('two workers of the rate of one, as far as two cores copy twice what one copies',
                lambda medians, _: medians[name]['rate'] * min(2, medians['copies on two cores']['rate'] /
                                                               medians['copies on one core']['rate']))
    host = {'copies on one core': part('copies'), 'copies on two cores': part('two-copies')}
    beside = [Target('copies of memory on two cores, of one (the host)', '>=', 1.7, 'copies on two cores',
                     ('copies on one core',))]
    yield Row('workers', 'small Writes in memory, polled', 'chains of 64', '/s',
              {'one worker': rate('--polled --workers 1'), 'two workers': rate('--polled --workers 2'), **host},
              [Target('two workers, polled, of one', '>=', 1.7, 'two workers', ('one worker',), near=True), *beside], 64,
              most=two_of_host('one worker'))
    yield Row('workers-threaded', 'small Writes in memory, threaded', 'chains of 64', '/s',
              {'one worker': rate('--workers 1'), 'two workers': rate('--workers 2'), **host},
              [Target('two workers, threaded, of one', '>=', 1.7, 'two workers', ('one worker',), near=True)], 64,
              most=two_of_host('one worker'))
    regions = 100000 if quick else 1000000
    yield Row('lookup', f'small Writes in memory to one region, and to {regions} at random', 'chains of 64', '/s',
              {'one region': rate('--polled --count 1'), 'many regions': rate(f'--polled --count {regions}')},
              [Target(f'{regions} regions at random, of one', '>=', 1 / 1.5, 'many regions', ('one region',))], 64,
              starts=6)
    yield Row('register', 'registration of 4 KiB to 64 GiB, the slowest size', '', 'us',
              {'libiwarp': once('register', 'register_us_worst', env={})},
              [Target('microseconds for a registration', '<=', 2, 'libiwarp', (), 'rate')], whole=True, figure='rate')


# --- every size ----------------------------------------------------------------------------------

def size_text(size):
    return f'{size // MIB} MiB' if size >= MIB else f'{size // KIB} KiB' if size >= KIB else f'{size} octets'


def depth_of(size):
    return 512 if size <= 512 else 128 if size <= 32768 else 16


def sweep_rows(quick):
    sizes = [8, 64, 512, 4096, 32768, 262144, MIB, 8 * MIB] if quick else [1 << power for power in range(3, 24)]
    for size in sizes:
        single = f'--polled --size {size} --depth {depth_of(size)}' + (' --inline' if size <= 512 else '')
        text, least = size_text(size), 2 if size < 4096 else 1.1
        yield Row(f'stream-{size}', f'RDMA Writes of {text}, polled', f'one a call, {depth_of(size)} in flight', 'B/s',
                  {'plain TCP': turns(f'tcp-stream --size {size}'), 'libiwarp': turns('write ' + single),
                   'libfabric tcp': turns('write ' + single, 'fabric-peer'),
                   'UCX tcp': turns('write ' + single, 'ucx-peer')},
                  [Target(f'Writes of {text}, one a call, times libfabric tcp', '>=', least, 'libiwarp',
                          ('libfabric tcp',), near=size >= 32768),
                   Target(f'Writes of {text}, one a call, times UCX tcp', '>=', 1, 'libiwarp', ('UCX tcp',))], size,
                  most=passes(size) if size >= 32768 else ())
    for size in sizes:
        if size > 4096:
            continue
        chain = 64 if size <= 512 else 8
        words = f'--polled --size {size} --depth {depth_of(size)} --chain {chain}' + (' --inline' if size <= 512 else '')
        text = size_text(size)
        yield Row(f'chains-{size}', f'RDMA Writes of {text}, polled', f'chains of {chain}, {depth_of(size)} in flight',
                  'B/s', {'libiwarp': turns('write ' + words), 'libfabric tcp': turns('write ' + words, 'fabric-peer')},
                  [Target(f'Writes of {text}, in chains, times libfabric tcp', '>=', 1.1, 'libiwarp',
                          ('libfabric tcp',))], size)
    for size in sizes:
        words = f'pingpong-send --polled --size {size}'
        text = size_text(size)
        yield Row(f'latency-{size}', f'{text} to and fro, polled', 'one a call', 'us',
                  {'plain TCP': turns(f'tcp-pingpong --polled --size {size}'), 'libiwarp': turns(words),
                   'libfabric tcp': turns(words, 'fabric-peer'), 'UCX tcp': turns(words, 'ucx-peer')},
                  [Target(f'{text} to and fro, time of {peer}', '<=', 1, 'libiwarp', (peer,), 'p50', near=True)
                   for peer in ('libfabric tcp', 'UCX tcp')], size, most=passes_to_and_fro(size))


# --- other ways to the peer ----------------------------------------------------------------------

BENCH, OWN = ('bin', 'iwarp-bench'), ('own-lwip', 'bin', 'iwarp-bench')


def lwip_rows():
    """TCP in the process: of the distribution, and with our options; beside the kernel's on loopback."""
    def contenders(words, figure):
        found = {'kernel TCP, loopback': once(words, figure)}
        for name, program in (('lwIP', BENCH), ('lwIP, our options', OWN)):
            found[name + ', rings'] = over_lwip(program, words, figure, 'shm')
            found[name + ', switch'] = over_lwip(program, words, figure, 'unix')
        return found

    yield Row('lwip-ping-pong', '8 octets to and fro, polled, two processes', 'one a call', 'us',
              contenders('pingpong-send --size 8 --polled', 'us_one_way_median'),
              [Target('8 octets polled, lwIP with our options over rings, of kernel TCP', '<=', 0.5,
                      'lwIP, our options, rings', ('kernel TCP, loopback',), 'p50')], 8, whole=True, length=300, long=True)
    yield Row('lwip-write', 'RDMA Writes of 64 KiB, sleeping, two processes', 'one a call, 16 in flight', 'B/s',
              contenders('write --size 64K', 'messages_per_s'), [], 65536, whole=True, length=300, long=True)


def ethernet_rows():
    """TCP in the process over a tap and AF_XDP, beside the kernel's at both ends of two taps with a
    relay, and of a veth pair, which takes no system call for a frame."""
    kernel, tuned = 'kernel TCP, taps', 'lwIP, our options'

    def contenders(words, figure):
        return {kernel: over_path(BENCH, words, figure, 'taps'),
                'kernel TCP, veth': over_path(BENCH, words, figure, 'veth'),
                'lwIP, tap': over_path(BENCH, words, figure, 'tap-out'),
                f'{tuned}, tap': over_path(OWN, words, figure, 'tap-out'),
                f'{tuned}, tap, receiving': over_path(OWN, words, figure, 'tap-in'),
                'lwIP, AF_XDP': over_path(BENCH, words, figure, 'xdp'),
                f'{tuned}, AF_XDP': over_path(OWN, words, figure, 'xdp')}

    yield Row('ethernet-ping-pong', '8 octets to and fro over an Ethernet without offloads, polled', 'one a call', 'us',
              contenders('pingpong-send --size 8 --polled', 'us_one_way_median'), [], 8, whole=True, length=300, long=True)
    yield Row('ethernet-write', 'RDMA Writes of 64 KiB over an Ethernet without offloads, MTU 1500',
              'one a call, 16 in flight', 'B/s', contenders('write --size 64K', 'messages_per_s'),
              [Target(f'{tuned}, over a tap, of kernel TCP', '>=', 0.5, f'{tuned}, tap', (kernel,)),
               Target(f'{tuned}, receiving from a tap, of kernel TCP', '>=', 0.5, f'{tuned}, tap, receiving', (kernel,))],
              65536, whole=True, length=300, long=True)


def parts_row():
    return Row('parts', 'what figures are made of', '', '/s',
               {name: part(name) for name in ('copies', 'two-copies', 'near-copies', 'crc', 'call', 'wake')}, [], 1,
               starts=6, rounds=12)


def make(quick):
    return [parts_row(), *throughput_rows(), *latency_rows(quick), *small_rows(), *crowd_rows(quick),
            *memory_rows(quick), *odd_rows(), *sweep_rows(quick), *lwip_rows(), *ethernet_rows()]
