#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Programs of sockets under iwarp-run --sockets: waiting for several of them in every way, against a model that
# the kernel's own TCP has to fit as well; how connections start and end; handlers of signals; and that the octets
# went by RDMA. Others are in tests/programs.
set -u
: "${BUILD:?where the build is}" "${TMPDIR:?a scratch directory}"
[ -e "$BUILD/lib/compat/librspreload.so" ] || { echo "the headers of libibverbs are not installed"; exit 77; }

. tests/support/check.bash
run=$BUILD/bin/iwarp-run
seed=${SEED:-$((RANDOM + 1))}
export IWARP_CONFIG=
unset LD_PRELOAD LD_LIBRARY_PATH
wait=$TMPDIR/wait

waits()
{
    local i
    for i in 1 2 3; do
        timeout 120 "$@" "$wait" "${SECONDS_TO_RUN:-1}" $((seed + i)) || { echo "seed $((seed + i)): status $?"; return 1; }
    done
}

by_rdma()
{
    timeout 120 "$run" --sockets --pcap="$TMPDIR/x.%p.pcapng" "$wait" 0.3 "$seed" || return 1
    cat "$TMPDIR"/x.*.pcapng | grep -aqF 'MPA ID Req Frame'
}

both()
{
    timeout 60 "$@" && timeout 60 "$run" --sockets "$@"
}

# iwarp-run would have librdmacm.so.1 ahead of the library that comes in between.
late()
{
    local lib
    lib=$(realpath "$BUILD/lib/compat")
    LD_LIBRARY_PATH=$lib LD_PRELOAD=$lib/librspreload.so:$(realpath "$BUILD/tests/preload/late_read.so") \
        timeout 60 "$TMPDIR/ends" "$1"
}

programs()
{
    local name
    for name in wait sets starts calls early ends full passed signals confined own; do
        "${CC:-cc}" -O2 -o "$TMPDIR/$name" "tests/programs/sockets_$name.c" -lpthread -ldl || return 1
    done
}

check 'programs for it' programs
check 'waits by the kernel, as the model says' waits
check 'waits over RDMA, as the model says' waits "$run" --sockets
check 'they go by RDMA' by_rdma
check 'by the kernel and over RDMA: a program that has functions of these names' both "$TMPDIR/own"
for program in sets starts calls early ends full passed signals confined; do
    for case in $("$TMPDIR/$program"); do
        check "by the kernel and over RDMA: ${case//_/ }" both "$TMPDIR/$program" "$case"
    done
done
check 'over RDMA: close under a reader that comes late' late close_under_a_reader
echo "# seed $seed"
echo "1..$number"
exit "$failed"
