#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What bench/run makes of turns: pairs of the same round, the median of starts and its interval, the
# verdict, the bound; and one row played by each kind of contender that is there.
# timeout: 300
set -u
: "${BUILD:?where the build is}"
export BUILD PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=bench
n=0 failed=0

# check NAME: python on standard input ends with 0
check()
{
    local output
    n=$((n + 1))
    if output=$(timeout 120 python3 - 2>&1); then
        echo "ok $n - $1"
    else
        failed=1
        echo "not ok $n - $1"
        sed 's/^/# /' <<<"$output"
    fi
}

check 'verdict__the_interval_on_one_side_or_on_both__met_missed_or_undecided' <<'END'
from interval import verdict
assert [verdict(i, '>=', 1) for i in ((1, 1.2), (.9, 1.1), (.8, .99), (0, float('inf')))] == \
    ['met', 'undecided', 'missed', 'undecided']
assert [verdict(i, '<=', 1) for i in ((.8, 1), (.9, 1.1), (1.01, 1.2), (0, float('inf')))] == \
    ['met', 'undecided', 'missed', 'undecided']
END

check 'starts__of_turns_that_hang_together__each_start_counts_once' <<'END'
from interval import median_interval, of_starts
# Twelve starts, of which each keeps to one of two values: 120 turns are not 120 facts.
values = [1.0 if start < 6 else 2.0 for _ in range(10) for start in range(12)]
assert of_starts(values, 12) == [1.0] * 6 + [2.0] * 6
assert median_interval(of_starts(values, 12)) == (1.0, 2.0)
assert of_starts([1, None, 3, None], 2) == [2]
END

check 'judge__rounds_that_a_neighbour_disturbs__the_ratio_is_that_of_pairs' <<'END'
import random
import judge, rows
draw = random.Random(1)
rounds = []
for _ in range(36): # both are ten times slower in some rounds, and one is 1.2 times as fast as the other
    pace = draw.choice((1, 1, 3, 10))
    rounds.append({name: {'rate': rate / pace * draw.uniform(.98, 1.02)} for name, rate in
                   (('a', 120), ('b', 100), ('c', 50))})
row = rows.Row('x', '', '', '/s', {})
def judged(sense, wanted, base=('b', 'c'), **more):
    return judge.judge(rows.Target('', sense, wanted, 'a', base, **more), row, rounds, 12, {})
found = judged('>=', 1.1)
assert found['base'] == 'b' and 1.17 < found['median'] < 1.23 and found['verdict'] == 'met', found
assert found['low'] > 1.17 and found['high'] < 1.23, found
assert judged('>=', 1.3)['verdict'] == 'missed'
assert judged('>=', found['median'])['verdict'] == 'undecided'
assert judged('<=', 1.3, ('b',))['verdict'] == 'met'
assert judged('>=', 1, ('d',))['verdict'] == 'not measured'
assert judged('>=', 1, (), figure='rate', scale=.01)['base'] is None
behind = judged('>=', 3, (('b', 'c'),))
assert 3.5 < behind['median'] < 3.7 and behind['base'] == 'b + c', behind # 1/(1/100 + 1/50) is 33
END

check 'judge__a_figure_that_is_missing_or_zero_in_a_round__that_round_is_left_out' <<'END'
import judge, rows
rounds = [{'a': {'rate': 2}, 'b': {'rate': 1}}] * 10 + [{'a': {'rate': 0}, 'b': {'rate': 1}}, {'a': {'rate': 2}}]
target = rows.Target('', '>=', 1, 'a', ('b',))
found = judge.judge(target, rows.Row('x', '', '', '/s', {}), rounds, 6, {})
assert found['pairs'] == 10 and found['median'] == 2, found
END

check 'judge__a_bound_from_parts__0_95_of_it_is_enough' <<'END'
import dataclasses
import judge, rows
rounds = [{'a': {'rate': 97.0}, 'b': {'rate': 100.0}}] * 12
row = rows.Row('x', '', '', '/s', {}, most=('', lambda medians, parts: parts['crc']['rate']))
target = rows.Target('', '>=', 1.2, 'a', ('b',), near=True)
assert judge.judge(target, row, rounds, 12, {'crc': {'rate': 101}})['verdict'] == 'met'
assert judge.judge(target, row, rounds, 12, {'crc': {'rate': 110}})['verdict'] == 'missed'
assert judge.judge(target, row, rounds, 12, {})['verdict'] == 'missed' # no parts, no bound
assert judge.judge(dataclasses.replace(target, near=False), row, rounds, 12, {'crc': {'rate': 101}})['verdict'] == 'missed'
own = dataclasses.replace(target, most=('', lambda medians, parts: 101)) # before the row's
assert judge.judge(own, row, rounds, 12, {'crc': {'rate': 110}})['verdict'] == 'met'
END

check 'judge__a_bound_of_times__1_by_0_95_of_it_is_enough' <<'END'
import judge, rows
rounds = [{'a': {'p50': 108.0}, 'b': {'p50': 100.0}}] * 12
row = rows.Row('x', '', '', 'us', {}, most=('', lambda medians, parts: parts['least']))
target = rows.Target('', '<=', 1, 'a', ('b',), 'p50', near=True)
assert [judge.judge(target, row, rounds, 12, {'least': least})['verdict'] for least in (80, 102, 104, 120)] == \
    ['missed', 'missed', 'met', 'met']
END

check 'parts__a_neighbour_has_most_of_their_rounds__the_best_round_counts' <<'END'
import judge
assert judge.parts_of([{'crc': {'rate': 40}}, {'crc': {'rate': 88}, 'call': {'rate': 5}}, {'crc': None}, {'crc': {'rate': 41}}]) == \
    {'crc': {'rate': 88}, 'call': {'rate': 5}}
END

check 'bounds__of_messages_with_a_crc__are_the_times_of_the_passes_over_memory' <<'END'
import rows
parts = {'crc': {'rate': 100e9}, 'near-copies': {'rate': 50e9}}
tcp = {'plain TCP': {'cpu_client': 90e-6, 'cpu_server': 80e-6, 'p50': 20.0}}
assert round(1 / rows.passes(1000000)[1](tcp, parts) * 1e6) == 110 # 80 + 10 + 20, the receiver's
tcp['plain TCP']['cpu_server'] = 10e-6
assert round(1 / rows.passes(1000000)[1](tcp, parts) * 1e6) == 100 # 90 + 10, the sender's
tcp['plain TCP'] |= {'cpu_server': 80e-6, 'cpu': 170e-6}
assert round(rows.processor(1000000, 'cpu_server', 1)[1](tcp, parts) * 1e6) == 110 # 80 + 10 + 20
assert round(rows.processor(1000000, 'cpu', 2)[1](tcp, parts) * 1e6) == 210 # 170 + 2 * 10 + 20
crowd = {'one connection': {'rate': 10000}, 'many': {'cpu_client': 90e-6, 'cpu_server': 80e-6}}
assert round(rows.of_many(1000000, 'many')[1](crowd, parts)) == 9091 # 110 us
crowd['one connection']['rate'] = 8000
assert rows.of_many(1000000, 'many')[1](crowd, parts) == 8000
assert round(rows.passes_to_and_fro(32768)[1](tcp, parts), 2) == 21.31 # 20 + 0.33 + 0.33 + 0.66
assert round(rows.passes_to_and_fro(1 << 20)[1](tcp, parts), 2) == 32.45 # 20 + 10.49 + 0.66 + 1.31
END

check 'bounds__of_programs__are_what_plain_tcp_beside_them_gives_with_a_crc_and_a_copy' <<'END'
import judge, programs
parts = {'crc': {'rate': 100e9}, 'near-copies': {'rate': 50e9}}
rows = {row.name: row for row in programs.make(True, True)}
def bounds(name, **medians):
    medians = {key.replace('_', ' '): figures for key, figures in medians.items()} | {
        'plain TCP, calls of 256 KiB': medians.get('calls'), 'plain TCP, to and fro': {'p50': 20.0}}
    return [round(bound, 3) if (bound := judge.bound_of(target, target.base[0], rows[name], medians, parts)) else None
            for target in rows[name].targets]
base = {'TCP': {'rate': 40000}}
# 64 KiB: the receiver's 8 us, 0.655 and 1.311 are more than the sender's 9 and 0.655, so 100,341 a second.
calls = {'cpu_client': 9e-6, 'cpu_server': 8e-6}
assert bounds('ucx-bw-64k', calls=calls, **base) == [2.509]
calls['cpu_client'] = 19.345e-6 # with the CRC 20 us
assert bounds('ucx-bw-64k', calls=calls, **base) == [1.25]
assert bounds('fio-64k', calls=calls, **{'TCP, net': {'rate': 62500}}) == [0.8, 0.8]
# One octet: 0.15 ns and a CRC of 0.01, so 6.25 GB/s.
calls = {'cpu_client': 0.15e-9, 'cpu_server': 0.1e-9}
assert bounds('sockets-iperf3', calls=calls, TCP={'rate': 5e9}) == [1.25]
# To and fro 20 us, and of 64 KiB two CRCs and a copy, 2.621; of 1 MiB 10.486 and 1.966; of 8 octets nothing.
assert bounds('fi_pingpong-65536', **base) == [1.105]
assert bounds('fi_pingpong-1048576', **base) == [0.770]
assert bounds('ucx-lat', **base) == [1.25]
btl, fabric = ({'rate': 5, 'latency': 40000, 'medium': 2.5e9, 'large': large} for large in (6.25e9, 5e9))
assert bounds('mpi', calls=calls, **{'TCP, btl': btl, 'TCP, libfabric': fabric}) == \
    [None, None, 1.25, 1.25, 2.5, 2.5, 1, 1.25, None, 1.25, 2.5, 1]
assert {name for name, row in rows.items() if not any(target.near for target in row.targets)} == \
    {'parts', 'ucx-bw', 'cp-put-file', 'cp-get-file', 'cp-put-tree', 'cp-get-tree', 'sockets-start', 'sockets-redis-1',
     'sockets-redis-50', 'sockets-redis-200', 'sockets-redis-threads', 'sockets-redis-new', 'sockets-nginx-1k',
     'sockets-nginx-1m', 'qemu', 'iser-4k-1', 'iser-4k-32', 'iser-128k-8', 'ceph'}
END

check 'percentiles__of_steps_that_many_turns_counted__are_those_of_all_together' <<'END'
import report
result = {'contenders': ['a', 'b'], 'rounds': [{'a': {'steps': [[1.0, 500], [2.0, 5]], 'longest': 2.1}},
                                               {'a': {'steps': [[1.0, 490], [9.0, 5]], 'longest': 9.9}}]}
steps, longest = report.steps_of(result, 'a')
assert steps == [(1.0, 990), (2.0, 5), (9.0, 5)] and longest == 9.9
assert [report.percentile(steps, part) for part in (.5, .985, .99, .999)] == [1.0, 1.0, 2.0, 9.0]
assert '| a | 1.00 | 2.00 | 9.00 | 9.90 | 1,000 |' in report.percentile_table(result)
END

check 'perftest__its_tables__are_read_by_the_names_of_their_columns' <<'END'
from contenders import perftest_figures
latency = ''' #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 8       5000          2.58           30.14        3.17                3.21             0.74            4.29                    11.37
'''
assert perftest_figures(latency, 't_typical') == {'p50': 3.17, 'rate': 5e5 / 3.17, 'p99': 4.29}
rate = ''' #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 64         300000           25.91              22.86                0.374532
'''
assert perftest_figures(rate, 'msg_rate') == {'rate': 374532.0}
assert perftest_figures(latency.replace('3.17', ' inf'), 't_typical') is None
END

check 'contenders__each_kind_that_is_there__moves_something_in_its_turns' <<'END'
import os
import contenders, rows
kinds = [rows.turns(words, program) for program in ('turns', 'fabric-peer', 'ucx-peer')
         if os.path.exists(os.path.join(os.environ['BUILD'], 'bench', program))
         for words in ('write --polled --size 4096', 'read --polled', 'pingpong-send --polled', 'pingpong-send')]
kinds += [rows.turns(words) for words in ('send', 'send --chain 4 --polled', 'pingpong-write --polled --inline',
                                          'tcp-stream', 'tcp-pingpong --polled', 'memory --workers 2 --count 9')]
kinds += [rows.part(name) for name in ('copies', 'two-copies', 'near-copies', 'crc', 'call', 'wake')]
kinds += [start for beside, _ in (rows.stream_limit(65536), rows.to_and_fro_limit(65536)) for start in beside.values()]
for start in kinds:
    one = start()
    one.turn(5)
    for length in (20, 200, 2000): # beside other work nothing may move in a short one
        figures = one.turn(length)
        if figures['rate'] > 0:
            break
    assert figures['rate'] > 0 and (('steps' not in figures) or figures['p99'] >= figures['p50'] > 0), figures
    one.close()
END
check 'congestion_control__of_a_run__is_what_was_asked_for_and_in_the_report' <<'END'
import json, os, subprocess, tempfile
import contenders
if subprocess.run(contenders.own_network('true'), capture_output=True).returncode == 0:
    for more, wanted in ((), 'reno'), (('--congestion', 'system'), contenders.congestion()):
        with tempfile.TemporaryDirectory() as place:
            os.symlink(os.path.join(os.environ['BUILD'], 'bin'), os.path.join(place, 'bin'))
            os.makedirs(os.path.join(place, 'bench'))
            os.symlink(os.path.join(os.environ['BUILD'], 'bench', 'parts'), os.path.join(place, 'bench', 'parts'))
            subprocess.run(['bench/run', '--quick', '--rounds', '1', *more, 'parts'], capture_output=True, check=True,
                           env={**os.environ, 'BUILD': place})
            with open(os.path.join(place, 'bench', 'report.json')) as file:
                assert json.load(file)['machine']['congestion'] == wanted
            with open(os.path.join(place, 'bench', 'report.md')) as file:
                assert f'congestion control {wanted}' in file.read()
END
echo "1..$n"
exit $failed
