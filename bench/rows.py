# SPDX-License-Identifier: BSD-2-Clause
"""The rows of the benchmark: what is compared, and the targets.  A judgement is (what, target,
measured, met); measured is None if something that it needs could not be measured."""
import os
import subprocess
import tempfile

from contenders import cipher, fi_pingpong, iperf3, ours, over_lwip, over_path, sockperf, ucx, ucx_rate
from fpdus import count_writes

MIB = 1 << 20
IDLE_SECONDS = 2
SWEEP = (3, 0.5)
SMALL = '--size 64 --chain 128 --depth 1024 --footprint 64K --inline'


class Row:
    def __init__(self, name, title, unit, contenders, targets=(), at_most=None):
        self.name, self.title, self.unit = name, title, unit
        self.contenders, self.targets = contenders, targets
        self.at_most = at_most # (rounds, seconds) of a row with many sisters

    def judge(self, medians):
        found = []
        for what, limit, compare, measure in self.targets:
            try:
                value = measure(medians)
            except (KeyError, ValueError, ZeroDivisionError):
                value = None
            met = None
            if value is not None:
                met = value >= limit if compare == '>=' else value <= limit
            found.append({'what': what, 'target': f'{compare} {limit:g}', 'measured': value,
                          'met': met})
        return found


def key_file():
    """A pre-shared key for this run."""
    path = os.path.join(os.environ['BUILD'], 'bench', 'psk')
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), 'w', encoding='ascii') as file:
            file.write(f'bench:{os.urandom(32).hex()}\n')
    return path


def best(medians, names):
    """The fastest plain TCP is the baseline."""
    return max(medians[name]['value'] for name in names if name in medians)


def ratio(name, *base):
    return lambda m: m[name]['value'] / best(m, base)


def cpu_ratio(name, base):
    return lambda m: m[name]['cpu_both'] / m[base]['cpu_both']


def least(medians, names):
    return min(medians[name]['value'] for name in names if name in medians)


def slower(name, *base):
    """For times: how many times the shortest of base."""
    return lambda m: m[name]['value'] / least(m, base)


def throughput_rows(bench, fabric):
    def iwarp(words):
        return ours(bench, words, 'octets_per_s')

    def through_fabric(words):
        return ours(fabric, words, 'octets_per_s')

    tcp = ('plain TCP', 'iperf3')
    yield Row('write', 'RDMA Write, 1 MiB messages, one stream', 'B/s', {
        'plain TCP': iwarp('tcp-stream'), 'iperf3': iperf3(MIB), 'libiwarp': iwarp('write'),
        'libiwarp, early': iwarp('write --early'), 'libiwarp, no CRC': iwarp('write --no-crc'),
        'libfabric tcp': through_fabric('write'), 'UCX tcp': ucx('ucp_put_bw', MIB)},
        [('Write 1 MiB, verified, of plain TCP (aim 0.85)', 0.75, '>=', ratio('libiwarp', *tcp)),
         ('Write 1 MiB, early, of plain TCP', 0.95, '>=', ratio('libiwarp, early', *tcp)),
         ('Write 1 MiB, no CRC, of plain TCP', 0.95, '>=', ratio('libiwarp, no CRC', *tcp)),
         ('Write 1 MiB, CPU of both sides, of plain TCP', 1.25, '<=',
          cpu_ratio('libiwarp', 'plain TCP'))])
    def secret(words):
        return ours(bench, words, 'octets_per_s', env={'IWARP_TLS': f'psk={key_file()}'})

    def behind_each_other(m):
        return m['TLS']['value'] * (1 / m['plain']['value'] + 1 / m['AES-128-GCM']['value'])

    yield Row('write-tls', 'RDMA Write under TLS, 1 MiB messages, one stream', 'B/s', {
        'plain': iwarp('write --no-crc'), 'AES-128-GCM': cipher('aes-128-gcm', 16384),
        'TLS': secret('write')},
        [('Write 1 MiB, TLS, of 1/(1/plain + 1/cipher)', 0.8, '>=', behind_each_other)])
    cold = '--footprint 128M'
    yield Row('write-cold', 'RDMA Write, 1 MiB messages, 128 MiB on each side', 'B/s', {
        'plain TCP': iwarp('tcp-stream ' + cold), 'libiwarp': iwarp('write ' + cold),
        'libiwarp, early': iwarp('write --early ' + cold),
        'libfabric tcp': through_fabric('write ' + cold)},
        [('Write 1 MiB, cold, of plain TCP', 0.75, '>=', ratio('libiwarp', 'plain TCP')),
         ('Write 1 MiB, cold, CPU of both sides, of plain TCP', 1.25, '<=',
          cpu_ratio('libiwarp', 'plain TCP'))])
    yield Row('read', 'RDMA Read, 1 MiB messages, one stream', 'B/s', {
        'plain TCP': iwarp('tcp-stream'), 'iperf3': iperf3(MIB), 'libiwarp': iwarp('read'),
        'libfabric tcp': through_fabric('read'), 'UCX tcp': ucx('ucp_get', MIB)},
        [('Read 1 MiB of plain TCP', 0.80, '>=', ratio('libiwarp', *tcp)),
         ('Read 1 MiB, CPU of both sides, of plain TCP', 1.25, '<=',
          cpu_ratio('libiwarp', 'plain TCP'))])
    yield Row('send', 'Send, 64 KiB messages, one stream', 'B/s', {
        'plain TCP': iwarp('tcp-stream --size 64K'), 'iperf3': iperf3(65536),
        'libiwarp, one at a time': iwarp('send'),
        'libiwarp, four at a time': iwarp('send --depth 64 --chain 4'),
        'UCX tcp': ucx('tag_bw', 65536)},
        [('Send 64 KiB, posted one at a time, of plain TCP', 0.80, '>=',
          ratio('libiwarp, one at a time', *tcp)),
         ('Send 64 KiB, posted four at a time, of plain TCP', 0.80, '>=',
          ratio('libiwarp, four at a time', *tcp)),
         ('Send 64 KiB, posted four at a time, CPU of both sides, of plain TCP', 1.25, '<=',
          cpu_ratio('libiwarp, four at a time', 'plain TCP'))])
    yield Row('mtu-1500', 'RDMA Write, 1 MiB messages, over a loopback of MTU 1500', 'B/s', {
        'plain TCP': ours(bench, 'tcp-stream', 'octets_per_s', mtu=1500),
        'libiwarp': ours(bench, 'write', 'octets_per_s', mtu=1500),
        'libiwarp, no CRC': ours(bench, 'write --no-crc', 'octets_per_s', mtu=1500)},
        [('FPDUs of 1448 octets, of plain TCP at the same MTU', 0.6, '>=',
          ratio('libiwarp', 'plain TCP'))])


def latency_rows(bench, fabric):
    def iwarp(words):
        return ours(bench, words, 'us_one_way_median')

    yield Row('ping-pong-polled', '8 octets to and fro, polled, median one way', 'us', {
        'plain TCP': iwarp('tcp-pingpong --polled'), 'sockperf': sockperf(8, True),
        'libiwarp, Write': iwarp('pingpong-write --polled --inline'),
        'libiwarp, Send': iwarp('pingpong-send --polled --inline'),
        'libfabric tcp': ours(fabric, 'pingpong-send --polled', 'us_one_way_median'),
        'fi_pingpong (mean)': fi_pingpong(8), 'UCX tcp': ucx('tag_lat', 8, True)},
        [('ping-pong 8 octets, polled, times plain TCP', 1.15, '<=',
          lambda m: min(m['libiwarp, Write']['value'], m['libiwarp, Send']['value']) /
          least(m, ('plain TCP', 'sockperf'))),
         ('ping-pong 8 octets, polled, times libfabric tcp', 1, '<=',
          slower('libiwarp, Send', 'libfabric tcp', 'fi_pingpong (mean)')),
         ('ping-pong 8 octets, polled, times UCX tcp', 1, '<=', slower('libiwarp, Send', 'UCX tcp'))])
    yield Row('ping-pong-spinning', '8 octets to and fro, a program polls a threaded device', 'us', {
        'polled': iwarp('pingpong-send --polled --inline'),
        'spinning': iwarp('pingpong-send --spin --inline'),
        'spinning, not looking': ours(bench, 'pingpong-send --spin --inline', 'us_one_way_median',
                                      env={'IWARP_LOOK': 'off'})})
    yield Row('ping-pong-sleeping', '8 octets to and fro, sleeping, median one way', 'us', {
        'plain TCP': iwarp('tcp-pingpong'), 'sockperf': sockperf(8, False),
        'libiwarp, Send': iwarp('pingpong-send --inline'),
        'libfabric tcp': ours(fabric, 'pingpong-send', 'us_one_way_median')},
        [('ping-pong 8 octets, threaded, times blocking TCP', 1.3, '<=',
          slower('libiwarp, Send', 'plain TCP', 'sockperf'))])


def captured_fpdus(bench):
    """One short run that is recorded: as many FPDUs of RDMA Writes as requests, on the wire."""
    def contender(_):
        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, 'IWARP_PCAP': os.path.join(folder, 'w.pcapng')}
            out = subprocess.run([bench, 'write', *SMALL.split(), '--seconds', '0.02'], env=env,
                                 capture_output=True, text=True, timeout=120, check=True).stdout
            seen = max(count_writes(os.path.join(folder, name), 64) for name in os.listdir(folder))
        messages = int(out.split('"messages": ')[1].split(',')[0])
        return {'value': seen / (messages + 1024), 'messages': messages} # and the lap of the check
    return contender


def small_rows(bench, fabric):
    def rate(program, words):
        return ours(program, words, 'messages_per_s')

    yield Row('small', '64-octet Writes, pipelined, one connection', '/s', {
        'libiwarp': rate(bench, 'write ' + SMALL),
        'libiwarp, polled': rate(bench, 'write --polled ' + SMALL),
        'libfabric tcp': rate(fabric, 'write --polled ' + SMALL), 'UCX tcp': ucx_rate(64)},
        [('64-octet Writes per second, one connection', 6e6, '>=',
          lambda m: best(m, ('libiwarp', 'libiwarp, polled'))),
         ('64-octet Writes, times libfabric tcp', 4, '>=',
          lambda m: best(m, ('libiwarp', 'libiwarp, polled')) / m['libfabric tcp']['value']),
         ('64-octet Writes, times UCX tcp', 10, '>=',
          lambda m: best(m, ('libiwarp', 'libiwarp, polled')) / m['UCX tcp']['value'])])
    yield Row('small-capture', '64-octet Writes: FPDUs in a capture for each request', '', {
        'libiwarp': captured_fpdus(bench)},
        [('FPDUs in the capture for each 64-octet Write', 1, '>=',
          lambda m: m['libiwarp']['value'])])


def crowd_rows(bench, quick):
    many = 2000 if quick else 10000
    yield Row('idle', f'{many} idle connections, two processes', 'B', {
        # What the set-up leaves behind is over soon, and not what is asked for.
        'libiwarp': lambda _: ours(bench, f'idle --count {many}', 'octets_both')(IDLE_SECONDS)},
        [('10,000 idle connections: KiB each in the library, larger side', 4, '<=',
          lambda m: max(m['libiwarp']['client_octets_each'],
                        m['libiwarp']['server_octets_each']) / 1024),
         ('10,000 idle connections: MiB in all, both processes', 64, '<=',
          lambda m: (m['libiwarp']['value'] + (10000 - many) * (
              m['libiwarp']['client_octets_each'] + m['libiwarp']['server_octets_each'])) / MIB),
         ('10,000 idle connections: milliseconds of processor time per second', 5, '<=',
          lambda m: (m['libiwarp']['cpu_client_s'] + m['libiwarp']['cpu_server_s']) /
          IDLE_SECONDS * 1e3)])
    yield Row('setup', 'connection set-up, start-up included', '/s', {
        'libiwarp': ours(bench, 'setup --count 4000', 'setups_per_s')},
        [('connections set up per second', 5000, '>=', lambda m: m['libiwarp']['value'])])
    crowd = 200 if quick else 1000
    yield Row('active', f'{crowd} active connections, Writes of 16 KiB', 'B/s', {
        'one connection': ours(bench, 'active --count 1 --depth 4', 'octets_per_s'),
        'libiwarp': ours(bench, f'active --count {crowd} --depth 4', 'octets_per_s'),
        'plain TCP, one connection': ours(bench, 'tcp-active --count 1', 'octets_per_s'),
        'plain TCP': ours(bench, f'tcp-active --count {crowd}', 'octets_per_s')},
        [('1,000 active connections, of one connection', 0.8, '>=',
          ratio('libiwarp', 'one connection')),
         ('1,000 active connections, most to least', 2, '<=',
          lambda m: m['libiwarp']['most_to_least'])])


def memory_rows(bench, quick):
    def rate(words):
        return ours(bench, 'memory ' + words, 'messages_per_s')

    yield Row('workers', 'small Writes over the in-memory transport, workers', '/s', {
        'one worker': rate('--workers 1'), 'two workers': rate('--workers 2'),
        'one worker, polled': rate('--polled --workers 1'),
        'two workers, polled': rate('--polled --workers 2')},
        [('two workers, times one, threaded', 1.6, '>=', ratio('two workers', 'one worker')),
         ('two workers, times one, polled', 1.6, '>=',
          ratio('two workers, polled', 'one worker, polled'))])
    regions = 100000 if quick else 1000000
    yield Row('lookup', f'small Writes to one region, and to {regions} at random', '/s', {
        'one region': rate('--polled --count 1'),
        'many regions': rate(f'--polled --count {regions}')},
        [('time with 1,000,000 regions, times one region', 1.5, '<=',
          lambda m: m['one region']['value'] / m['many regions']['value'])])
    yield Row('register', 'registration, 4 KiB to 64 GiB, the slowest size', 'us', {
        'libiwarp': ours(bench, 'register', 'register_us_worst')},
        [('microseconds for a registration, 4 KiB to 64 GiB', 2, '<=',
          lambda m: m['libiwarp']['value'])])


def sweep_rows(bench, fabric, quick):
    """All sizes, for the plots and for `ahead at every size`."""
    judged = [8, 64, 512, 4096, 32768, 262144, MIB, 8 * MIB] # the others are for the plots
    sizes = [8, 4096, MIB] if quick else [1 << power for power in range(3, 24)]
    for size in sizes:
        chain = 64 if size <= 512 else 8 if size <= 4096 else 1
        depth = 512 if size <= 512 else 128 if size <= 32768 else 16
        words = f'--size {size} --chain {chain} --depth {depth}' + (' --inline' if size <= 512 else '')
        single = f'--size {size} --depth {depth}'
        how = f'in chains of {chain}' if chain > 1 else 'one a call'
        yield Row(f'stream-{size}', f'Writes of {size} octets, one stream, {how}', 'B/s', {
            # The peers poll, so what they are compared with does.
            'libiwarp': ours(bench, 'write --polled ' + words, 'octets_per_s'),
            'libiwarp, threaded': ours(bench, 'write ' + words, 'octets_per_s'),
            **({'libiwarp, one a call': ours(bench, 'write --polled ' + single, 'octets_per_s')}
               if chain > 1 else {}),
            'plain TCP': ours(bench, f'tcp-stream --size {size}', 'octets_per_s'),
            'libfabric tcp': ours(fabric, 'write --polled ' + words, 'octets_per_s'),
            'UCX tcp': ucx('ucp_put_bw', size)},
            [(f'Writes of {size} octets, times libfabric tcp', 1, '>=',
              ratio('libiwarp', 'libfabric tcp')),
             (f'Writes of {size} octets, times UCX tcp', 1, '>=', ratio('libiwarp', 'UCX tcp'))] if size in judged else [], SWEEP)
    for size in sizes:
        words = f'pingpong-send --polled --size {size}'
        yield Row(f'latency-{size}', f'{size} octets to and fro, polled, median one way', 'us', {
            'libiwarp': ours(bench, words, 'us_one_way_median'),
            'plain TCP': ours(bench, f'tcp-pingpong --polled --size {size}', 'us_one_way_median'),
            'libfabric tcp': ours(fabric, words, 'us_one_way_median'),
            'UCX tcp': ucx('tag_lat', size, True)},
            [(f'{size} octets, time of libfabric tcp', 1, '<=', slower('libiwarp', 'libfabric tcp')),
             (f'{size} octets, time of UCX tcp', 1, '<=', slower('libiwarp', 'UCX tcp'))] if size in judged else [], SWEEP)


def lwip_rows(bench, own):
    """TCP in the process: of the distribution, and with our options; beside the kernel's on loopback."""
    def contenders(words, value):
        found = {'kernel TCP, loopback': ours(bench, words, value)}
        for name, program in (('lwIP', bench), ('lwIP, our options', own)):
            found[name + ', rings'] = over_lwip(program, words, value, 'shm')
            found[name + ', switch'] = over_lwip(program, words, value, 'unix')
        return found

    yield Row('lwip-ping-pong', '8 octets to and fro, polled, median one way, two processes', 'us',
              contenders('pingpong-send --size 8 --polled', 'us_one_way_median'),
              [('8 octets polled, lwIP with our options over rings, of kernel TCP', 0.5, '<=',
                slower('lwIP, our options, rings', 'kernel TCP, loopback'))])
    yield Row('lwip-write', 'RDMA Writes of 64 KiB, sleeping, two processes', 'B/s',
              contenders('write --size 64K', 'octets_per_s'))


def ethernet_rows(bench, own):
    """TCP in the process over a tap and AF_XDP, beside the kernel's at both ends of two taps with a
    relay, and of a veth pair, which takes no system call for a frame."""
    kernel, tuned = 'kernel TCP, taps', 'lwIP, our options'

    def contenders(words, value):
        return {kernel: over_path(bench, words, value, 'taps'),
                'kernel TCP, veth': over_path(bench, words, value, 'veth'),
                'lwIP, tap': over_path(bench, words, value, 'tap-out'),
                f'{tuned}, tap': over_path(own, words, value, 'tap-out'),
                f'{tuned}, tap, receiving': over_path(own, words, value, 'tap-in'),
                'lwIP, AF_XDP': over_path(bench, words, value, 'xdp'),
                f'{tuned}, AF_XDP': over_path(own, words, value, 'xdp')}

    yield Row('ethernet-ping-pong', '8 octets to and fro over an Ethernet without offloads, polled, '
              'median one way', 'us',
              contenders('pingpong-send --size 8 --polled', 'us_one_way_median'))
    yield Row('ethernet-write', 'RDMA Writes of 64 KiB over an Ethernet without offloads, MTU 1500',
              'B/s', contenders('write --size 64K', 'octets_per_s'),
              [(f'{tuned}, over a tap, of kernel TCP', 0.5, '>=', ratio(f'{tuned}, tap', kernel)),
               (f'{tuned}, receiving from a tap, of kernel TCP', 0.5, '>=',
                ratio(f'{tuned}, tap, receiving', kernel))])


def make(build, quick):
    own = os.path.join(build, 'own-lwip', 'bin', 'iwarp-bench')
    bench = os.path.join(build, 'bin', 'iwarp-bench')
    fabric = os.path.join(build, 'bench', 'fabric-peer')
    return [*throughput_rows(bench, fabric), *latency_rows(bench, fabric),
            *small_rows(bench, fabric), *crowd_rows(bench, quick), *memory_rows(bench, quick),
            *lwip_rows(bench, own), *ethernet_rows(bench, own),
            *sweep_rows(bench, fabric, quick)]
