# SPDX-License-Identifier: BSD-2-Clause
"""The report of a run: report.md, report.json and plots as SVG."""
import json
import math
import os

COLOURS = {'libiwarp': '#1f5fbf', 'plain TCP': '#555555', 'libfabric tcp': '#c46a1a',
           'UCX tcp': '#2f8f4e'}


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


def plot(rows, prefix, title, y_label, path):
    """Lines over size, both axes logarithmic."""
    series = {}
    for row in rows:
        if row['name'].startswith(prefix):
            size = int(row['name'][len(prefix):])
            for name, median in row['medians'].items():
                series.setdefault(name, []).append((size, median['value']))
    points = [p for line in series.values() for p in line if p[1] > 0]
    if not points:
        return
    x_low, x_high = (math.log2(f(p[0] for p in points)) for f in (min, max))
    y_low, y_high = (f(math.log10(p[1]) for p in points) for f in (min, max))
    y_low, y_high = math.floor(y_low), math.ceil(y_high + 1e-9)
    wide, high, left, top = 640, 360, 80, 40

    def place(size, value):
        x = left + (math.log2(size) - x_low) / max(x_high - x_low, 1) * (wide - left - 150)
        y = high - 50 - (math.log10(value) - y_low) / max(y_high - y_low, 1) * (high - 50 - top)
        return x, y

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" '
           'font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{left}" y="20" font-size="14">{title}</text>',
           f'<text x="10" y="{high - 10}">{y_label}, over octets of a message</text>']
    for power in range(y_low, y_high + 1):
        y = place(2 ** x_low, 10 ** power)[1]
        out.append(f'<line x1="{left}" x2="{wide - 150}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
                   f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{10 ** power:g}</text>')
    for size in sorted({p[0] for p in points}):
        x = place(size, 10 ** y_low)[0]
        label = f'{size >> 20}M' if size >= 1 << 20 else f'{size >> 10}K' if size >= 1024 else size
        out.append(f'<text x="{x:.1f}" y="{high - 32}" text-anchor="middle">{label}</text>')
    for i, (name, line) in enumerate(series.items()):
        colour = COLOURS.get(name, '#888888')
        path_points = ' '.join('{:.1f},{:.1f}'.format(*place(*p)) for p in sorted(line))
        out.append(f'<polyline points="{path_points}" fill="none" stroke="{colour}" '
                   'stroke-width="2"/>')
        out.append(f'<text x="{wide - 140}" y="{top + 20 * i}" fill="{colour}">{name}</text>')
    out.append('</svg>')
    with open(path, 'w', encoding='utf-8') as file:
        file.write('\n'.join(out) + '\n')


def write(folder, everything):
    with open(os.path.join(folder, 'report.json'), 'w', encoding='utf-8') as file:
        json.dump(everything, file, indent=1)
    with open(os.path.join(folder, 'report.md'), 'w', encoding='utf-8') as file:
        file.write(markdown(everything) + '\n')
    plot(everything['rows'], 'stream-', 'Writes, one stream', 'octets per second',
         os.path.join(folder, 'throughput.svg'))
    plot(everything['rows'], 'latency-', 'Ping-pong, polled', 'microseconds one way, median',
         os.path.join(folder, 'latency.svg'))
