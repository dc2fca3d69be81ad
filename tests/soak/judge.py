# SPDX-License-Identifier: BSD-2-Clause
"""
What a soak proves, from samples that were taken while all processes rested. Whatever a session made
is gone then, so numbers must not grow from one pause to the next.
"""
import re

OBJECTS = ('pds', 'regions', 'cqs', 'srqs', 'qps', 'event_queues', 'listeners', 'connections', 'half_open', 'buffer_bytes')
# What may be more at the end than in the beginning. The heap: what the library keeps for the next
# connection depends on how many there were at a time. rss: pages of the heap that are not given back.
ALLOWED = {'heap': 96 << 10, 'rss': 6 << 20, 'descriptors': 0, 'threads': 0, **{name: 0 for name in OBJECTS}}


def growth(values):
    """
    The least of the last third of the values less the most of the first third: what is there to
    stay. The first value is left out: it is from before caches are filled. None: too few values.
    """
    values = values[1:]
    third = len(values) // 3
    return min(values[-third:]) - max(values[:third]) if third else None


def judge(name, quiet, without):
    """Sentences about one process; quiet: its samples."""
    found = []
    for what, allowed in ALLOWED.items():
        if what in without:
            continue
        more = growth([sample[what] for sample in quiet])
        if more is None:
            return [f'{name} has rested {len(quiet)} times, too few to judge']
        if more > allowed:
            found.append(f'{name}: {what} grow: ' + ' '.join(str(sample[what]) for sample in quiet))
    return found


def judge_log(name, path, seconds):
    """No errors, and no flood: what a peer can provoke is limited to a line a second and place."""
    with open(path, errors='replace') as f:
        lines = f.readlines()
    errors = [line for line in lines if re.match(r'iwarp [0-9.]+ (\[\d+\] )?error ', line)]
    found = [f'{name} logs {len(errors)} errors: {errors[0].strip()}'] if errors else []
    return found + ([f'{name} logs {len(lines)} lines in {seconds:.0f} s'] if len(lines) > 100 + 20 * seconds else [])
