#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The drop-in libraries export what tests/abi/libibverbs.txt and librdmacm.txt say, under these
# nodes and no other; what refuses a call returns what the headers say; they are called what programs
# look for; find each other; and carry nothing that runs when they are loaded.
set -u
dir=$BUILD/lib/compat
[ -e "$dir/libibverbs.so.1" ] || { echo "the headers of libibverbs are not installed"; exit 77; }

. tests/support/check.bash

exports()
{
    diff -u <(sed '/^#/d; s/ .*//' "tests/abi/$1.txt") \
        <(nm -D --with-symbol-versions --defined-only "$dir/$1.so.1" |
            awk '$2 != "A" { print $3 }' | grep -v IWARP_PRIVATE_1 | LC_ALL=C sort)
}

# A generated function returns a pointer, NULL, where this machine's headers declare one, and no other.
refusals()
{
    local bad
    printf '#include <%s>\n' infiniband/verbs.h rdma/rdma_cma.h rdma/rsocket.h >"$TMPDIR/all.c"
    gcc -D_GNU_SOURCE -w -fsyntax-only -aux-info "$TMPDIR/prototypes" "$TMPDIR/all.c" || return 1
    bad=$(awk '
        FILENAME == ARGV[1] { generated[$3]; next }
        FILENAME == ARGV[2] {
            if (match($0, /[a-z_0-9]+ \(/)) {
                pointer[substr($0, RSTART, RLENGTH - 2)] = substr($0, 1, RSTART - 1) ~ /\*$/
            }
            next
        }
        /^#/ { next }
        {
            split($1, part, "@")
            if (part[1] in generated && part[1] in pointer) {
                n++
                if (pointer[part[1]] != ($3 == "null")) { print part[1] }
            }
        }
        END { if (n < 5) { print "only " n + 0 " of them are declared" } }' \
        <(nm "$BUILD/obj/compat/$1.stub.o") "$TMPDIR/prototypes" "tests/abi/$1.txt")
    [ -z "$bad" ] || { echo "$bad"; return 1; }
}

nodes()
{
    local node
    for node in "${@:2}"; do
        readelf -VW "$dir/$1.so.1" | grep -q "Name: $node\$" || { echo "no node $node"; return 1; }
    done
}

soname()
{
    readelf -dW "$dir/$1.so.1" | grep -qF "soname: [$1.so.1]" && [ "$(readlink "$dir/$1.so")" = "$1.so.1" ]
}

finds_its_pair()
{
    readelf -dW "$dir/librdmacm.so.1" | grep -qF 'runpath: [$ORIGIN]' &&
        readelf -dW "$dir/librdmacm.so.1" | grep -qF '[libibverbs.so.1]'
}

# Loading is quiet and starts nothing, even with every line of the log wanted.
quiet()
{
    local out
    out=$(IWARP_LOG=trace LD_LIBRARY_PATH=$dir LD_PRELOAD="$dir/libibverbs.so.1 $dir/librdmacm.so.1" \
        sed -n 's/^Threads:\t//p' /proc/self/status 2>&1) && [ "$out" = 1 ] || { echo "$out"; return 1; }
}

private_data_is_data()
{
    [ "$(nm -D --with-symbol-versions "$dir/libibverbs.so.1" |
        grep -c '[BD] verbs_allow_disassociate_destroy@')" = 5 ]
}

cases=11
case $BUILD in */san-*) cases=10 ;; esac # a sanitizer's run-time cannot be preloaded like this
echo "1..$cases"
check libibverbs__exports exports libibverbs
check librdmacm__exports exports librdmacm
check libibverbs__refusals refusals libibverbs
check librdmacm__refusals refusals librdmacm
check libibverbs__nodes nodes libibverbs IBVERBS_1.0 IBVERBS_1.18 IBVERBS_PRIVATE_34 \
    IBVERBS_PRIVATE_57 IBVERBS_PRIVATE_59 IBVERBS_PRIVATE_64 IBVERBS_PRIVATE_65 IWARP_PRIVATE_1
check librdmacm__nodes nodes librdmacm RDMACM_1.0 RDMACM_1.3 RDMACM_1.4 RDMACM_1.5 IWARP_PRIVATE_1
check libibverbs__soname soname libibverbs
check librdmacm__soname soname librdmacm
check librdmacm__finds_its_pair finds_its_pair
check private_nodes__data private_data_is_data
[ $cases = 10 ] || check loading__quiet quiet
exit $failed
