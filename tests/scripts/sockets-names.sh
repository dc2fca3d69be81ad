#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Under iwarp-run --sockets: the C library's other names for the calls of a program, and its times and offsets of
# 32 and 64 bits (tests/programs/sockets_names.c). The kernel's own TCP has to pass as well. On 64-bit machines both
# programs are the same; tools/emulated runs this for 32 bits, with another CC and TEST_WRAPPER.
set -u
: "${BUILD:?where the build is}" "${TMPDIR:?a scratch directory}"
[ -e "$BUILD/lib/compat/librspreload.so" ] || { echo "the headers of libibverbs are not installed"; exit 77; }

. tests/support/check.bash
export IWARP_CONFIG=
unset LD_PRELOAD LD_LIBRARY_PATH
read -ra compiler <<<"${CC:-cc}"
read -ra wrapper <<<"${TEST_WRAPPER-}"

compile()
{
    "${compiler[@]}" -O2 -o "$TMPDIR/$1" "${@:2}" tests/programs/sockets_names.c
}

by_kernel()
{
    timeout 120 "${wrapper[@]}" "$TMPDIR/$1"
}

by_rdma()
{
    timeout 120 "$BUILD/bin/iwarp-run" --sockets --pcap="$TMPDIR/$1.%p.pcapng" "${wrapper[@]}" "$TMPDIR/$1" || return 1
    cat "$TMPDIR/$1".*.pcapng | grep -aqF 'MPA ID Req Frame'
}

check 'a program with the times and offsets of this machine' compile own
check 'one with 64 bits for both' compile long -D_TIME_BITS=64 -D_FILE_OFFSET_BITS=64
for program in own long; do
    check "$program: by the kernel" by_kernel $program
    check "$program: over RDMA" by_rdma $program
done
echo "1..$number"
exit "$failed"
