# SPDX-License-Identifier: BSD-2-Clause
"""From the turns of a row to its judgements.  What was measured is a list of rounds; a round has the
figures of each contender, None where it could not be measured.  Round r was played by start
r % starts of each."""
import statistics

from interval import median_interval, of_starts, quantile, verdict

NEAR = 0.95 # so much of what the machine could give at most is enough


def figure_of(figures, text):
    """None if it is not there, or nothing was moved."""
    if not figures:
        return None
    values = [figures.get(name) for name in text.split(' + ')]
    return None if None in values or sum(values) <= 0 else sum(values)


def base_of(turns, name, text):
    """The figure of a contender, or of some that work behind each other."""
    if isinstance(name, str):
        return figure_of(turns.get(name), text)
    values = [figure_of(turns.get(one), text) for one in name]
    return None if None in values else 1 / sum(1 / value for value in values)


def median_of(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def medians_of(rounds):
    """Of each contender the median of each figure that is a number."""
    found = {}
    for name in {name for turns in rounds for name in turns}:
        figures = [turns[name] for turns in rounds if turns.get(name)]
        keys = {key for one in figures for key, value in one.items() if isinstance(value, (int, float))}
        if figures:
            found[name] = {key: median_of([one.get(key) for one in figures]) for key in sorted(keys)}
    return found


def parts_of(rounds):
    """Of each part the best rate of its rounds: what the machine can give when nobody else has it."""
    best = {}
    for name, figures in ((name, turns[name]) for turns in rounds for name in turns if turns[name]):
        best[name] = {'rate': max(figures['rate'], best.get(name, figures)['rate'])}
    return best


def best_base(target, rounds):
    """That of them which is best in the median: the largest rate, or the shortest time."""
    text = target.base_figure or target.figure
    medians = {name: median_of([base_of(turns, name, text) for turns in rounds]) for name in target.base}
    medians = {name: value for name, value in medians.items() if value is not None}
    if not medians:
        return None
    return (max if target.sense == '>=' else min)(medians, key=medians.get)


def values_of(target, rounds):
    """One for each round, and what it was compared with."""
    if not target.base:
        own = [figure_of(turns.get(target.name), target.figure) for turns in rounds]
        return [None if value is None else value * target.scale for value in own], None
    base, text = best_base(target, rounds), target.base_figure or target.figure
    values = []
    for turns in rounds:
        own = figure_of(turns.get(target.name), target.figure)
        other = base_of(turns, base, text) if base else None
        values.append(None if own is None or other is None else own / other)
    return values, base


def bound_of(target, base, row, medians, parts):
    """The best that the target's value could be on this machine, by the parts measured; None if unknown."""
    bound = target.most or row.most
    if not (target.near and bound):
        return None
    try:
        most = bound[1](medians, parts)
        return most * target.scale if base is None else most / medians[base][target.base_figure or target.figure]
    except (KeyError, TypeError, ZeroDivisionError):
        return None


def judge(target, row, rounds, starts, parts):
    values, base = values_of(target, rounds)
    there = [value for value in values if value is not None]
    found = {'what': target.what, 'sense': target.sense, 'wanted': target.wanted, 'verdict': 'not measured',
             'bound': bound_of(target, base, row, medians_of(rounds), parts)}
    if not there:
        return found
    medians = of_starts(values, starts)
    low, high = median_interval(medians)
    wanted = target.wanted
    if found['bound'] is not None: # then so much is enough
        near = NEAR * found['bound'] if target.sense == '>=' else found['bound'] / NEAR
        wanted = (min if target.sense == '>=' else max)(wanted, near)
    found.update(base=base if isinstance(base, str) or base is None else ' + '.join(base), pairs=len(there),
                 median=quantile(medians, .5), low=low, high=None if high == float('inf') else high,
                 quartiles=[quantile(there, .25), quantile(there, .75)],
                 verdict=verdict((low, high), target.sense, wanted))
    return found
