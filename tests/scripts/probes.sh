#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 200
#
# Static probes: the libraries have those that docs/probes.md lists, with as many operands; and bpftrace sees
# them fire, in a program of ours and in one that knows nothing of libiwarp.
set -u
: "${BUILD:?where the build is}" "${TMPDIR:?a scratch directory}"
. tests/support/check.bash
if ! readelf -SW "$BUILD/lib/libiwarp.so" | grep -q stapsdt; then
    echo "built without systemtap-sdt-dev"
    exit 77
fi
client=''
trap '[ -z "$client" ] || kill "$client" 2>/dev/null' EXIT

# probes FILE: name and number of operands of each
probes()
{
    readelf -n "$1" | sed -n 's/^ *Provider: iwarp$/P/p; s/^ *Name: \([a-z_]*\)$/N \1/p; s/^ *Arguments: \(.*\)$/A \1/p' |
        awk '$1 == "P" {ours = 1} $1 == "N" {name = $2} $1 == "A" && ours {print name, NF - 1; ours = 0}' | sort -u
}

# What the table says: names before the first bar, operands with commas between; "the same" is as above.
listed()
{
    sed -n 's/^| `\([a-z_]*\)` | [^|]* | \(.*\) |$/\1:\2/p' docs/probes.md |
        awk -F: '{n = $2 == "the same" ? n : gsub(/,/, ",", $2) + 1; if ($2 ~ /its three details/) n += 2; print $1, n}' | sort
}

same_as_listed() { diff <(listed) <(probes "$1"); }

# seen PATTERN COMMAND...: while the command runs, which is for long, bpftrace prints what the pattern looks for.
# It says when it has attached, which takes as long as the machine is busy; then the command has a second and is ended.
seen()
{
    local pattern=$1 out=$TMPDIR/trace tracer i
    shift
    "$@" >"$TMPDIR/client.log" 2>&1 &
    client=$!
    sleep 0.5
    { cat share/iwarp-latency.bt && echo 'BEGIN { printf("attached\n"); }'; } >"$TMPDIR/latency.bt"
    : >"$out"
    # tracefs is where libbcc looks for it only in this mount namespace, if it was not there anyway.
    unshare -m sh -c 'mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
        exec timeout 60 bpftrace -p "$1" "$2"' sh "$client" "$TMPDIR/latency.bt" >"$out" 2>&1 &
    tracer=$!
    for ((i = 0; i < 500; i++)); do
        ! grep -q '^attached' "$out" && kill -0 "$tracer" 2>/dev/null || break
        sleep 0.1
    done
    sleep 1
    kill "$client"
    wait "$tracer" "$client"
    client=''
    grep -q "$pattern" "$out" || { tail -n 20 "$out"; cat "$TMPDIR/client.log"; return 1; }
}

rping_pair()
{
    LD_LIBRARY_PATH=$BUILD/lib/compat rping -s -a 127.0.0.1 -p 7199 >/dev/null 2>&1 &
    sleep 0.3
    exec env LD_LIBRARY_PATH="$BUILD/lib/compat" rping -c -a 127.0.0.1 -p 7199
}

check "libiwarp has the probes of docs/probes.md" same_as_listed "$BUILD/lib/libiwarp.so"
[ ! -e "$BUILD/lib/compat/libibverbs.so.1" ] ||
    check "so has the drop-in libibverbs" same_as_listed "$BUILD/lib/compat/libibverbs.so.1"

may=$(unshare -m sh -c 'mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
    timeout 20 bpftrace -e "uprobe:/bin/sh:main { } BEGIN { printf(\"may\"); exit(); }"' 2>/dev/null | grep -c may)
if [ "$may" = 0 ]; then
    echo "ok $((number += 1)) - bpftrace sees them # SKIP needs bpftrace, root and a kernel with uprobes"
else
    check "bpftrace sees them in a program of ours" seen '@us_write' "$BUILD/bin/iwarp-bench" write --size 4K --seconds 60
    check "and in rping" seen '@us_send' rping_pair
fi
echo "1..$number"
exit $failed
