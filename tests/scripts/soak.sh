#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 300
#
# A few seconds of `make soak` and of `make soak-kills`, and what is planted is found: a wrong octet,
# a descriptor and memory that nobody gives back, an end that hangs.
set -u
: "${BUILD:?where the build is}" "${TMPDIR:?a scratch directory}"
. tests/support/check.bash
if ! command -v python3 >/dev/null; then
    echo "python3 is not installed"
    exit 77
fi

soak()
{
    local name=$1
    shift
    timeout 120 tests/soak/run --out "$TMPDIR/$name" "$@" >"$TMPDIR/$name.out" 2>&1
}

# found WHAT FROM SENTENCE: it fails, and for this reason
found()
{
    soak "$1" --seed 1 --lanes 1 --hours 0.0009 --rest 0.4 --plant "$1=$2" "${@:4}"
    local status=$?
    cat "$TMPDIR/$1.out"
    [ $status = 1 ] && grep -qE "$3" "$TMPDIR/$1.out" && grep -q 'fill="#c02020"' "$TMPDIR/$1/soak.svg"
}

well()
{
    soak "$@" --patience 60
    local status=$?
    cat "$TMPDIR/$1.out"
    [ $status = 0 ] && grep -q 'all is well' "$TMPDIR/$1/soak.svg"
}

# What is planted side by side, since most of its time is waiting.
planted()
{
    local names=(octet descriptor memory hang) pids=() i
    found octet 5 ': soak: session .*wrong octet: ' --patience 60 >"$TMPDIR/1" 2>&1 & pids+=($!)
    found descriptor 1 'client: descriptors grow: ' --patience 60 >"$TMPDIR/2" 2>&1 & pids+=($!)
    found memory 1 'client: heap grow: ' --patience 60 >"$TMPDIR/3" 2>&1 & pids+=($!)
    found hang 5 'client hangs: lane 0: a planted hang in session ' --patience 5 >"$TMPDIR/4" 2>&1 & pids+=($!)
    for i in 0 1 2 3; do
        wait "${pids[i]}"
        check "found: ${names[i]}" sh -c "cat '$TMPDIR/$((i + 1))'; exit $?"
    done
}

check "some seconds of everything" well time --hours 0.001 --rest 0.5
check "20 kills" well kills --kills 20
planted
echo "1..$number"
exit $failed
