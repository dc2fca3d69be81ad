# SPDX-License-Identifier: BSD-2-Clause
"""The report of a run: report.md, report.json and plots as SVG."""
import json
import os

from interval import quantile
from judge import medians_of, parts_of


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
        return '?'
    return f'{value:,.0f}' if abs(value) >= 1000 else f'{value:.3g}' if abs(value) >= 10 or abs(value) < .1 else f'{value:.2f}'


def judgement_text(j):
    """As 1.12, 1.08 to 1.16."""
    if 'median' not in j:
        return 'not measured'
    return f'{number(j["median"])}, {number(j["low"])} to {number(j["high"])}'


def shown(result, figures):
    value = figures.get(result['figure'])
    return value * result['size'] if value is not None and result['unit'] == 'B/s' else value


def spread(values, form):
    """Median and quartiles."""
    low, middle, high = (form(quantile(values, part)) for part in (.25, .5, .75))
    return f'{middle} ({low} to {high})'


def host_text(host):
    copies, wakes = zip(*host)
    return (f'copies {spread([c / 1e9 for c in copies], "{:.1f}".format)} GB/s, pipes '
            f'{spread([5e5 / w if w else 0 for w in wakes], "{:.1f}".format)} us')


def short(result):
    """What a run says of a row when it is through."""
    lines = []
    for name in result['contenders']:
        values = [shown(result, turns[name]) for turns in result['rounds'] if turns.get(name)]
        values = [value for value in values if value is not None]
        if values:
            lines.append(f'{name}: {spread(values, lambda v: human(v, result["unit"]))}')
        if name in result['failed']:
            lines.append(f'{name}: {"failed in between" if values else "not measured"}: {result["failed"][name]}')
    lines += [f'{j["verdict"]}: {j["what"]}: {j["sense"]} {j["wanted"]:g}: {judgement_text(j)}'
              for j in result['judgements']]
    return [*lines, 'host: ' + host_text(result['host'])]


# --- percentiles ---------------------------------------------------------------------------------

def steps_of(result, name):
    """Microseconds one way and how many round trips took that, of all turns."""
    sums, longest = {}, 0
    for turns in result['rounds']:
        for step, count in (turns.get(name) or {}).get('steps', []):
            sums[step] = sums.get(step, 0) + count
        longest = max(longest, (turns.get(name) or {}).get('longest', 0))
    return sorted(sums.items()), longest


def percentile(steps, part):
    left = part * sum(count for _, count in steps)
    for step, count in steps:
        left -= count
        if left < 0:
            return step
    return steps[-1][0]


def percentile_table(result):
    lines = ['| us one way | p50 | p99 | p99.9 | longest | round trips |', '|---|--:|--:|--:|--:|--:|']
    for name in result['contenders']:
        steps, longest = steps_of(result, name)
        if steps:
            figures = [number(percentile(steps, part)) for part in (.5, .99, .999)]
            lines.append(f'| {name} | {" | ".join(figures)} | {number(longest)} | {sum(c for _, c in steps):,} |')
    return [*lines, ''] if len(lines) > 2 else []


# --- report.md -----------------------------------------------------------------------------------

def row_table(result, programs):
    medians = medians_of(result['rounds'])
    base = shown(result, medians.get('plain TCP', {}))
    lines = [f'## `{result["name"]}`: {result["title"]}{", " if result["how"] else ""}{result["how"]}', '',
             '| | median (quartiles) | of plain TCP | CPU of client, server, us a message | s a GiB |', '|---|---|--:|--:|--:|']
    for name in result['contenders']:
        if name not in medians:
            lines.append(f'| {name} | not measured: {result["failed"].get(name, "")} | | | |')
            continue
        m, unit = medians[name], result['unit']
        values = [v for v in (shown(result, t[name]) for t in result['rounds'] if t.get(name)) if v is not None]
        cpu = [m.get('cpu_client'), m.get('cpu_server')]
        cpu_text = ', '.join(number(c * 1e6) for c in cpu) if None not in cpu and unit != 'us' else ''
        gib = ', '.join(f'{c / result["size"] * (1 << 30):.3f}' for c in cpu) if cpu_text and unit == 'B/s' else ''
        relation = f'{m[result["figure"]] * (result["size"] if unit == "B/s" else 1) / base:.2f}' if base else ''
        lines.append(f'| {name} | {spread(values, lambda v: human(v, unit))} | {relation} | {cpu_text} | {gib} |')
        if name in result['failed']:
            lines.append(f'| | failed in between: {result["failed"][name]} | | | |')
        others = {k: v for k, v in m.items() if not k.startswith('cpu') and k not in ('rate', result['figure'])}
        if programs and others:
            lines.append(f'| | {", ".join(f"{k} {number(v)}" for k, v in others.items())} | | | |')
    lines += ['', f'{len(result["rounds"])} rounds, {result["starts"]} starts. Host: {host_text(result["host"])}.', '']
    if result.get('most'):
        size = result['size'] if result['unit'] == 'B/s' else 1
        lines += [f'At best {human(result["most"]["value"] * size, result["unit"])}: {result["most"]["text"]}.', '']
    return lines + percentile_table(result)


def siw_table(siw):
    lines = ['## siw, in a guest', '', siw.get('note', ''), '', '| what | contender | value |',
             '|---|---|---|']
    for entry in siw.get('rows', []):
        lines.append(f'| {entry["row"]} | {entry["contender"]} | '
                     f'{human(entry["value"], entry.get("unit", ""))} |')
    return lines + ['']


def parts_text(everything):
    for result in everything['rows']:
        if result['name'] == 'parts':
            m = {name: figures['rate'] for name, figures in parts_of(result['rounds']).items()}
            return [f'* Parts, at best: copies {m["copies"] / 1e9:.1f} GB/s, on both cores {m["two-copies"] / 1e9:.1f}, in L2 '
                    f'{m["near-copies"] / 1e9:.1f}; CRC32c in L2 {m["crc"] / 1e9:.1f} GB/s; send and recv of 8 octets '
                    f'{1e6 / m["call"]:.2f} us; a wake-up through a pipe {5e5 / m["wake"]:.1f} us.']
    return []


def target_table(everything):
    verdicts = [j['verdict'] for result in everything['rows'] for j in result['judgements']]
    lines = [', '.join(f'{verdicts.count(v)} {v}' for v in ('met', 'undecided', 'missed', 'not measured')
                       if v in verdicts) + '.', '',
             '| Row | What | posted | wanted | median, 95 % interval | at best | |', '|---|---|---|--:|---|--:|---|']
    for result in everything['rows']:
        for j in result['judgements']:
            word = f'**{j["verdict"]}**' if j['verdict'] == 'missed' else j['verdict']
            bound = number(j['bound']) if j.get('bound') else ''
            lines.append(f'| `{result["name"]}` | {j["what"]} | {result["how"]} | {j["sense"]} {j["wanted"]:.3g} | '
                         f'{judgement_text(j)} | {bound} | {word} |')
    return lines + ['']


def markdown(everything):
    m = everything['machine']
    loads = [f'{everything[k][0]:.1f}' for k in ('load_begin', 'load_end')]
    host = [pair for result in everything['rows'] for pair in result['host']]
    programs = everything['programs']
    lines = ['# Programs, on libiwarp and on TCP' if programs else '# Benchmark', '',
             f'{everything["begun"]}, commit {m["commit"]}, seed {everything["seed"]}'
             f'{", short form" if everything["quick"] else ""}. '
             + ('Each pair is a run on us and one on TCP.' if programs else
                'Turns of 50 ms; each pair is two turns of the same round.'), '',
             f'* Machine: {m["processor"]}, {m["cores"]} cores, {m["caches"]}, {m["memory_mib"]} MiB, '
             f'hypervisor: {m["virtual"]}',
             f'* {m["kernel"]}, congestion control {m.get("congestion", "of the system")}; {m["compiler"]}; {", ".join(m["packages"])}',
             f'* Load average before and after: {loads[0]}, {loads[1]}; the benchmark alone is about 2 at its end.',
             f'* The host between rounds: {host_text(host)}. Wide quartiles: others used these cores.',
             *parts_text(everything), '']
    if not programs:
        lines += ['Server on core 0, client on core 1, over loopback. CRC32c on and placement `verified` unless said '
                  'otherwise; the peers have no CRC.', '']
    lines += target_table(everything)
    lines += [f'![{name}]({name}.svg)\n' for name in (['programs'] if programs else
                                                       ['throughput', 'latency', 'polled', 'sleeping'])]
    for result in everything['rows']:
        if result['name'] != 'parts':
            lines += row_table(result, programs)
    if 'siw' in everything:
        lines += siw_table(everything['siw'])
    return '\n'.join(lines)


def write(folder, everything):
    with open(os.path.join(folder, 'report.json'), 'w', encoding='utf-8') as file:
        json.dump(everything, file)
    with open(os.path.join(folder, 'report.md'), 'w', encoding='utf-8') as file:
        file.write(markdown(everything) + '\n')


def plots(folder, everything):
    try:
        import plot
    except ImportError:
        print('no plots: python3-matplotlib is not installed')
        return
    if everything['programs']:
        plot.ratios(everything['rows'], os.path.join(folder, 'programs.svg'))
        return
    plot.sizes(everything['rows'], 'stream-', 'RDMA Writes, one a call; CRC32c on, the peers have none', 'GB/s', 1e-9,
               os.path.join(folder, 'throughput.svg'))
    plot.sizes(everything['rows'], 'latency-', 'To and fro, polled: median of one way', 'us', 1,
               os.path.join(folder, 'latency.svg'))
    by_name = {result['name']: result for result in everything['rows']}
    for name, row, title in (('polled', 'ping-pong-polled', '8 octets to and fro, polled'),
                             ('sleeping', 'ping-pong-sleeping', '8 octets to and fro, both sides sleep')):
        if row in by_name:
            plot.tails({c: steps_of(by_name[row], c)[0] for c in by_name[row]['contenders']}, title,
                       os.path.join(folder, name + '.svg'))
