# SPDX-License-Identifier: BSD-2-Clause
"""Plots as SVG.  Each curve has its name at its end, in its colour."""
import io

import matplotlib
matplotlib.use('svg')
import matplotlib.pyplot as plt  # noqa: E402 (the line before has to come first)

from judge import medians_of  # noqa: E402

COLOURS = {'libiwarp': '#1f5fbf', 'libiwarp, polled': '#1f5fbf', 'libiwarp, threaded': '#1f5fbf',
           'libiwarp, Write': '#12387a', 'libiwarp, in chains': '#6f9fe0', 'libiwarp, not looking': '#6f9fe0', 'libiwarp, embedded': '#7a3fb0',
           'plain TCP': '#555555', 'plain TCP, blocking': '#555555', 'libfabric tcp': '#c46a1a',
           'libfabric tcp, sleeping': '#c46a1a', 'UCX tcp': '#2f8f4e', 'UCX tcp, sleeping': '#2f8f4e'}
APART = 0.045 # of the height: how far names are at least from each other
VERDICTS = {'met': '#2f8f4e', 'missed': '#b3261e'}


def begin(width, height, title, panels=1, pad=8, **options):
    plt.rcParams.update({'svg.fonttype': 'none', 'svg.hashsalt': 'libiwarp', 'font.family': 'sans-serif',
                         'font.size': 10})
    figure, axes = plt.subplots(1, panels, figsize=(width, height), squeeze=False, **options)
    for one in axes[0]:
        one.grid(True, which='major', color='#dddddd', linewidth=0.7)
        one.set_axisbelow(True)
        for side in ('top', 'right'):
            one.spines[side].set_visible(False)
    axes[0][0].set_title(title, loc='left', fontsize=12, pad=pad)
    return figure, axes[0]


def save(figure, path):
    text = io.StringIO()
    figure.savefig(text, format='svg', bbox_inches='tight', metadata={'Date': None})
    plt.close(figure)
    with open(path, 'w', encoding='utf-8') as file: # without the blanks that lines end with
        file.writelines(line.rstrip() + '\n' for line in text.getvalue().splitlines())


def spread(wanted):
    """Heights of names, in the order of wanted ones, far enough from each other."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    places = [wanted[i] for i in order]
    for _ in range(200):
        for i in range(1, len(places)):
            short = APART - (places[i] - places[i - 1])
            if short > 0:
                places[i - 1] -= short / 2
                places[i] += short / 2
    return [places[order.index(i)] for i in range(len(wanted))]


def name_ends(axes, found):
    ends = [axes.transAxes.inverted().transform(axes.transData.transform(line[-1]))[1] for line in found.values()]
    for (name, line), height in zip(found.items(), spread(ends)):
        axes.annotate(name, xy=line[-1], xytext=(1.02, height), textcoords='axes fraction', va='center',
                      color=COLOURS.get(name, '#888888'), annotation_clip=False,
                      arrowprops={'arrowstyle': '-', 'color': COLOURS.get(name, '#888888'), 'linewidth': 0.6, 'alpha': 0.6})


# --- every size ----------------------------------------------------------------------------------

def size_text(size):
    return f'{size >> 20} MiB' if size >= 1 << 20 else f'{size >> 10} KiB' if size >= 1024 else f'{size:g}'


def curves(results, prefix, scale):
    found = {}
    for result in results:
        if result['name'].startswith(prefix):
            for name, figures in medians_of(result['rounds']).items():
                value = figures.get(result['figure'], 0) * (result['size'] if result['unit'] == 'B/s' else 1)
                if value > 0:
                    found.setdefault(name, []).append((result['size'], value * scale))
    return {name: sorted(line) for name, line in sorted(found.items())}


def sizes(results, prefix, title, unit, scale, path):
    """Both axes are logarithmic. Nothing is drawn of fewer than two sizes."""
    found = curves(results, prefix, scale)
    if prefix == 'stream-' and found:
        found.update({'libiwarp, in chains': line for name, line in curves(results, 'chains-', scale).items()
                      if name == 'libiwarp'})
    if not found or max(len(line) for line in found.values()) < 2:
        return
    figure, (axes,) = begin(8.5, 4.8, title)
    axes.set_xscale('log', base=2)
    axes.set_yscale('log')
    for name, line in found.items():
        axes.plot(*zip(*line), color=COLOURS.get(name, '#888888'), linewidth=1.8, marker='o', markersize=3)
    every = sorted({size for line in found.values() for size, _ in line})
    axes.set_xticks(every[::4] if len(every) > 8 else every)
    axes.xaxis.set_major_formatter(lambda value, _: size_text(int(value)))
    axes.yaxis.set_major_formatter(lambda value, _: f'{value:g}')
    axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.set_xlabel('octets of a message')
    axes.set_ylabel(unit)
    name_ends(axes, found)
    save(figure, path)


# --- how long round trips take -------------------------------------------------------------------

def densities(steps):
    """Of each twelfth of an octave the share of round trips that took so long."""
    import math
    total, found = sum(count for _, count in steps), {}
    for step, count in steps:
        place = math.floor(12 * math.log2(max(step, .1)))
        found[place] = found.get(place, 0) + count
    least, most = min(found), max(found)
    return [(2 ** ((place + .5) / 12), found.get(place, 0) / total) for place in range(least - 1, most + 2)]


def longer(steps):
    """The share of round trips that took at least so long."""
    total, left, line = sum(count for _, count in steps), sum(count for _, count in steps), []
    for step, count in steps:
        line.append((step, left / total))
        left -= count
    return line


def tails(steps, title, path):
    """On the left where most are, on the right how few take how long."""
    steps = {name: found for name, found in steps.items() if found}
    if not steps:
        return
    figure, (shape, tail) = begin(11, 4.4, title, 2, gridspec_kw={'width_ratios': (1, 1.25), 'wspace': .18})
    for name, found in steps.items():
        colour = COLOURS.get(name, '#888888')
        shape.plot(*zip(*densities(found)), color=colour, linewidth=1.6)
        shape.fill_between(*zip(*densities(found)), color=colour, alpha=.12, linewidth=0)
        tail.step(*zip(*longer(found)), color=colour, linewidth=1.6, where='post')
    for axes in (shape, tail):
        axes.set_xscale('log')
        axes.xaxis.set_major_formatter(lambda value, _: f'{value:g}')
        axes.set_xlabel('us one way')
    first = min(found[0][0] for found in steps.values())
    middles = [next(step for step, share in longer(found)[::-1] if share >= .5) for found in steps.values()]
    shape.set_xlim(first * .9, max(max(middles) * 2.5, first * 2))
    shape.xaxis.set_minor_formatter(lambda value, _: f'{value:g}' if f'{value:e}'[0] in '235' else '')
    shape.set_ylim(0)
    shape.set_yticks([])
    shape.set_ylabel('how many')
    tail.set_yscale('log')
    tail.set_yticks([1, .1, .01, .001, 1e-4, 1e-5])
    tail.set_yticklabels(['all', '10 %', '1 %', '0.1 %', '0.01 %', '0.001 %'])
    tail.minorticks_off()
    tail.set_ylim(min(1 / sum(count for _, count in found) for found in steps.values()) * .8, 1.2)
    tail.set_title('take at least so long', loc='left', fontsize=10)
    name_ends(tail, {name: longer(found) for name, found in steps.items()})
    save(figure, path)


# --- programs ------------------------------------------------------------------------------------

def ratios(results, path):
    """A dot and its interval for each judgement, against the line of 1."""
    every = [(j, result) for result in results for j in result['judgements'] if 'median' in j]
    if not every:
        return
    figure, (axes,) = begin(8.5, 1 + .3 * len(every), 'Speed on libiwarp, of the same program on TCP', pad=24)
    for place, (j, _) in enumerate(reversed(every)):
        colour = VERDICTS.get(j['verdict'], '#8a8a8a')
        low, high = max(j['low'], .05), j['high'] or 20
        axes.plot([low, high], [place, place], color=colour, linewidth=3, alpha=.4, solid_capstyle='round')
        axes.plot([j['median']], [place], 'o', color=colour, markersize=6)
        axes.annotate(f'{j["median"]:.2f}', (1.01, place), xycoords=('axes fraction', 'data'), va='center', color=colour)
    axes.axvline(1, color='#333333', linewidth=1)
    axes.set_xscale('log')
    medians = [j['median'] for j, _ in every]
    axes.set_xlim(min(.5, min(medians) * .8), max(2, max(medians) * 1.25))
    axes.xaxis.set_major_formatter(lambda value, _: f'{value:g}')
    axes.xaxis.set_minor_formatter(lambda value, _: f'{value:g}' if f'{value:e}'[0] in '25' else '')
    axes.set_yticks(range(len(every)))
    axes.set_yticklabels([j['what'] for j, _ in reversed(every)])
    axes.set_ylim(-.7, len(every) - .3)
    axes.grid(False, axis='y')
    axes.annotate('TCP is faster', (.01, 1.01), xycoords='axes fraction', ha='left', color='#b3261e', fontsize=9)
    axes.annotate('libiwarp is faster', (.99, 1.01), xycoords='axes fraction', ha='right', color='#2f8f4e', fontsize=9)
    save(figure, path)
