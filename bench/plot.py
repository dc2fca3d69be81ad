# SPDX-License-Identifier: BSD-2-Clause
"""Plots of the sweeps over all sizes: one curve for each contender, named at its end."""
import io

import matplotlib
matplotlib.use('svg')
import matplotlib.pyplot as plt  # noqa: E402 (the line before has to come first)

COLOURS = {'libiwarp': '#1f5fbf', 'libiwarp, threaded': '#6f9fe0', 'libiwarp, one a call': '#12387a',
           'plain TCP': '#555555', 'libfabric tcp': '#c46a1a', 'UCX tcp': '#2f8f4e'}
APART = 0.045 # of the height: how far names are at least from each other


def size_text(size):
    return f'{size >> 20} MiB' if size >= 1 << 20 else f'{size >> 10} KiB' if size >= 1024 else f'{size:g}'


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


def curves(rows, prefix, scale):
    found = {}
    for row in rows:
        if row['name'].startswith(prefix):
            for name, median in row['medians'].items():
                if median['value'] > 0:
                    found.setdefault(name, []).append((int(row['name'][len(prefix):]), median['value'] * scale))
    return {name: sorted(line) for name, line in found.items()}


def plot(rows, prefix, title, unit, scale, path):
    """Both axes are logarithmic. Nothing is drawn of fewer than two sizes."""
    found = curves(rows, prefix, scale)
    if not found or max(len(line) for line in found.values()) < 2:
        return False
    plt.rcParams.update({'svg.fonttype': 'none', 'svg.hashsalt': 'libiwarp', 'font.family': 'sans-serif',
                         'font.size': 10})
    figure, axes = plt.subplots(figsize=(8.5, 4.8))
    axes.set_xscale('log', base=2)
    axes.set_yscale('log')
    for name, line in found.items():
        axes.plot(*zip(*line), color=COLOURS.get(name, '#888888'), linewidth=1.8, marker='o', markersize=3)
    sizes = sorted({size for line in found.values() for size, _ in line})
    axes.set_xticks(sizes[::3] if len(sizes) > 8 else sizes)
    axes.xaxis.set_major_formatter(lambda value, _: size_text(int(value)))
    axes.yaxis.set_major_formatter(lambda value, _: f'{value:g}')
    axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.grid(True, which='major', color='#dddddd', linewidth=0.7)
    for side in ('top', 'right'):
        axes.spines[side].set_visible(False)
    axes.set_title(title, loc='left', fontsize=12)
    axes.set_xlabel('octets of a message')
    axes.set_ylabel(unit)
    ends = [axes.transAxes.inverted().transform(axes.transData.transform(line[-1]))[1] for line in found.values()]
    for (name, line), height in zip(found.items(), spread(ends)):
        axes.annotate(name, xy=line[-1], xytext=(1.02, height), textcoords='axes fraction', va='center',
                      color=COLOURS.get(name, '#888888'), annotation_clip=False)
    text = io.StringIO()
    figure.savefig(text, format='svg', bbox_inches='tight', metadata={'Date': None})
    plt.close(figure)
    with open(path, 'w', encoding='utf-8') as file: # without the blanks that lines end with
        file.writelines(line.rstrip() + '\n' for line in text.getvalue().splitlines())
    return True
