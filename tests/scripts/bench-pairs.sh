#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# bench/pairs measures each of its rows, and its judgement is right where that is sure: of numbers
# that are given, of this build against itself with a wide limit, and of one that is slowed down.
# timeout: 600
set -u
: "${BUILD:?where the build is}"
n=0 failed=0
output=

# result NAME: of the command before
result()
{
    local status=$?
    n=$((n + 1))
    if [ $status = 0 ]; then
        echo "ok $n - $1"
    else
        failed=1
        echo "not ok $n - $1"
        sed 's/^/# /' <<<"$output"
    fi
}

# pairs STATUS ARGUMENT...
pairs()
{
    local want=$1
    shift
    output=$(timeout 150 bench/pairs "$@" 2>&1)
    [ $? = "$want" ]
}

output=$(PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=bench python3 - 2>&1 <<'END'
import math
import random
from interval import judge, median_interval, quantile

assert median_interval([1, 2, 3, 4, 5]) == (0, math.inf)
assert median_interval(range(6)) == (0, 5)
# From tables of the sign test: of 20 the 6th and the 15th, of 100 the 40th and the 61st.
assert median_interval(range(1, 21)) == (6, 15)
assert median_interval(range(1, 101)) == (40, 61)
assert [quantile([4, 1, 3, 2], part) for part in (0, .5, 1)] == [1, 2.5, 4]
assert [judge(i, .9) for i in ((.8, .89), (.8, .91), (.9, 1.1), (.95, 1.2), (1.12, 1.2))] == \
    ['worse', 'undecided', 'same', 'undecided', 'better']
draw = random.Random(1)
hits = 0
for _ in range(2000):
    low, high = median_interval([draw.expovariate(1) for _ in range(20)])
    hits += low <= math.log(2) <= high
assert 0.94 < hits / 2000 < 0.98, hits
END
)
result 'the interval and the judgement'

for row in pingpong pingpong-threaded small small-single write write-threaded workers active; do
    pairs 0 "$BUILD" "$BUILD" --pairs 4 --starts 2 --slice 5 $row &&
        grep -q "^$row: .*: undecided$" <<<"$output" &&
        grep -qE '^    new +[1-9][0-9.e+]* \(' <<<"$output"
    result "$row is measured; so few starts decide nothing"
done

if command -v ib_send_lat >/dev/null && [ -e "$BUILD/lib/compat/libibverbs.so.1" ]; then
    pairs 0 "$BUILD" "$BUILD" --pairs 8 ib_send_lat &&
        grep -q '^ib_send_lat: .*: undecided$' <<<"$output"
    result 'ib_send_lat is measured'
else
    n=$((n + 1))
    echo "ok $n - ib_send_lat # SKIP there is no ib_send_lat, or no drop-in library"
fi

pairs 0 "$BUILD" "$BUILD" --pairs 48 --starts 12 --slice 10 --limit 0.01 small &&
    grep -q '^small: .*: same$' <<<"$output"
result 'a build against itself is the same'
pairs 1 "$BUILD" "$BUILD" --pairs 48 --starts 12 --slice 10 --new-env IWARP_FAULTS=split=16 small &&
    grep -q '^small: .*: worse$' <<<"$output"
result 'one that moves 16 octets a call is worse, and the status says so'
pairs 0 "$BUILD" "$BUILD" --pairs 48 --starts 12 --slice 10 --old-env IWARP_FAULTS=split=16 small &&
    grep -q '^small: .*: better$' <<<"$output"
result 'the other way round it is better'
pairs 2 "$BUILD" "$BUILD" --new-env IWARP_FAULTS=tickle small &&
    grep -q 'small: not measured: ' <<<"$output"
result 'a side that cannot open its device is not measured'
pairs 1 / "$BUILD" && grep -q 'no build with lib/libiwarp.so' <<<"$output"
result 'a folder without a build is refused'
pairs 2 "$BUILD" "$BUILD" tickle && grep -q 'no such row: tickle' <<<"$output"
result 'a row that is none is refused'
echo "1..$n"
exit $failed
