# SPDX-License-Identifier: BSD-2-Clause
"""The report of a run: report.md, report.json and plots as SVG."""
import json
import os


def human(value, unit):
    if unit == 'B/s':
        return f'{value / 1e9:.3f} GB/s' if value >= 1e8 else f'{value / 1e6:.2f} MB/s'
    if unit == '/s':
        return f'{value / 1e6:.2f} M/s' if value >= 1e6 else f'{value:,.0f}/s'
    if unit == 'B':
        return f'{value / (1 << 20):.1f} MiB'
    return f'{value:,.0f} {unit}'.strip() if value >= 1000 else f'{value:.3g} {unit}'.strip()


def number(value):
    if value is None:
        return 'not measured'
    return f'{value:,.0f}' if abs(value) >= 1000 else f'{value:.3g}'


def spread(row, name):
    values = sorted(r['value'] for r in row['runs'][name])
    return f'{human(values[0], row["unit"])} to {human(values[-1], row["unit"])}'


def row_table(row):
    base = row['medians'].get('plain TCP', {}).get('value')
    lines = [f'## {row["title"]}', '',
             '| | median | least to most | to plain TCP | CPU s/GiB client, server | '
             'GiB per CPU second of the busier side |',
             '|---|---|---|---|---|---|']
    for name, median in row['medians'].items():
        relation = f'{median["value"] / base:.2f}' if base else ''
        cpu = (f'{median["cpu_client"]:.3f}, {median["cpu_server"]:.3f}'
               if 'cpu_client' in median else '')
        # What the stream would reach if nobody else used the two cores, however busy they were.
        alone = (f'{1 / max(median["cpu_client"], median["cpu_server"]):.2f}'
                 if 'cpu_client' in median else '')
        lines.append(f'| {name} | {human(median["value"], row["unit"])} | {spread(row, name)} | '
                     f'{relation} | {cpu} | {alone} |')
    for name, why in row['failed'].items():
        what = f'{len(why)} of its runs failed' if name in row['medians'] else 'not measured'
        lines.append(f'| {name} | {what}: {why[-1]} | | | | |')
    return lines + ['']


def siw_table(siw):
    lines = ['## siw, in a guest', '', siw.get('note', ''), '', '| what | contender | value |',
             '|---|---|---|']
    for entry in siw.get('rows', []):
        lines.append(f'| {entry["row"]} | {entry["contender"]} | '
                     f'{human(entry["value"], entry.get("unit", ""))} |')
    return lines + ['']


def markdown(everything):
    m = everything['machine']
    loads = [f'{everything[k][0]:.1f}' for k in ('load_begin', 'load_end')]
    lines = ['# Benchmark', '',
             f'{everything["begun"]}, commit {m["commit"]}: medians of {everything["rounds"]} '
             f'alternating runs of {everything["seconds"]} s each'
             f'{" (short form)" if everything["quick"] else ""}.', '',
             f'* Machine: {m["processor"]}, {m["cores"]} cores, {m["caches"]}, {m["memory_mib"]} MiB, '
             f'hypervisor: {m["virtual"]}',
             f'* {m["kernel"]}; {m["compiler"]}; {", ".join(m["packages"])}',
             f'* Load average before and after: {loads[0]}, {loads[1]}. The benchmark alone is about 2 '
             'at its end; more means that others used these cores, and times and rates say little.',
             '* Server on core 0, client on core 1, over loopback. CRC32c on and placement `verified` '
             'unless said otherwise.', '',
             '| Target | wanted | measured | met |', '|---|---|---|---|']
    for row in everything['rows']:
        for j in row['judgements']:
            met = {True: 'yes', False: '**no**', None: ''}[j['met']]
            lines.append(f'| {j["what"]} | {j["target"]} | {number(j["measured"])} | {met} |')
    lines += ['', '![throughput](throughput.svg)', '', '![latency](latency.svg)', '']
    for row in everything['rows']:
        lines += row_table(row)
    if 'siw' in everything:
        lines += siw_table(everything['siw'])
    return '\n'.join(lines)


def write(folder, everything):
    with open(os.path.join(folder, 'report.json'), 'w', encoding='utf-8') as file:
        json.dump(everything, file, indent=1)
    with open(os.path.join(folder, 'report.md'), 'w', encoding='utf-8') as file:
        file.write(markdown(everything) + '\n')
    try:
        from plot import plot
    except ImportError:
        print('no plots: python3-matplotlib is not installed')
        return
    plot(everything['rows'], 'stream-', 'RDMA Writes, one stream, CRC32c on; peers have none', 'GB/s', 1e-9,
         os.path.join(folder, 'throughput.svg'))
    plot(everything['rows'], 'latency-', 'To and fro, polled: median of one way', 'us', 1,
         os.path.join(folder, 'latency.svg'))
