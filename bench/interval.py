# SPDX-License-Identifier: BSD-2-Clause
"""The median of paired ratios, how sure it is, and what follows."""
import math


def median_interval(values, confidence=0.95):
    """Order statistics between which the median lies with at least this confidence, whatever the
    distribution is: each value falls on either side of it with probability 1/2.  (0, inf) if there
    are too few values (fewer than 6 for 0.95)."""
    values, n = sorted(values), len(values)
    outside, below = 0.0, 0 # so many values may be cut off on either side
    while below < n // 2:
        outside += 2 * math.comb(n, below) / 2 ** n
        if outside > 1 - confidence:
            break
        below += 1
    return (values[below - 1], values[n - below]) if below else (0.0, math.inf)


def quantile(values, part):
    values = sorted(values)
    at = part * (len(values) - 1)
    low = math.floor(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def of_starts(values, starts):
    """Turns of one start are not independent: of each start the median counts.  `values` are those
    of the turns, None where one failed; start k had the turns k, k + starts, ..."""
    found = []
    for start in range(starts):
        its = [value for value in values[start::starts] if value is not None]
        if its:
            found.append(quantile(its, .5))
    return found


def judge(interval, limit):
    """Of speeds, new by old: `worse` and `better` only if the whole interval lies beyond the limit,
    `same` only if all of it lies between the limits."""
    low, high = interval
    if high < limit:
        return 'worse'
    if low > 1 / limit:
        return 'better'
    return 'same' if low >= limit and high <= 1 / limit else 'undecided'


def verdict(interval, sense, wanted):
    """`met` or `missed` only if the whole interval lies on one side of what is wanted."""
    low, high = interval
    if sense == '<=':
        low, high, wanted = -high, -low, -wanted
    return 'met' if low >= wanted else 'missed' if high < wanted else 'undecided'
