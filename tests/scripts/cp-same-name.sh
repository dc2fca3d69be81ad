#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 600
#
# Many copies to one name at the same time: whatever the others do, the name has one whole copy or
# none, and a client that was told "done" has put one there.  A watcher looks at the size of the file
# under that name all the time.
set -u
. tests/support/cp.bash

size=20000000
mkdir export away
for i in 1 2 3 4 5 6 7 8; do
    perl -e 'print chr(64 + $ARGV[0]) x $ARGV[1]' $i $size >source$i
done

# watch FILE: every size that it has, once, to sizes, until the file `watched` is gone
watch()
{
    : >watched
    perl -e '
        my ($file, %seen) = @ARGV;
        while (-e "watched") {
            my @st = stat $file;
            $seen{$st[7]} = 1 if @st;
        }
        print "$_\n" for sort keys %seen;' "$1" >sizes &
    watcher_of_sizes=$!
    children+=("$watcher_of_sizes")
}

# only_whole: the watcher saw the size of a whole copy, and no other one
only_whole()
{
    rm -f watched
    wait_for "$watcher_of_sizes"
    cat sizes
    [ "$(cat sizes)" = $size ]
}

# one_of_them FILE: it is one of the sources
one_of_them()
{
    local i
    for i in 1 2 3 4 5 6 7 8; do
        ! cmp -s "source$i" "$1" || return 0
    done
    ls -l "$1"
    return 1
}

# at_once COMMAND...: once for each source, at the same time, with {} for its number; all say "done"
at_once()
{
    local i pids=() bad=0
    for i in 1 2 3 4 5 6 7 8; do
        "${@//'{}'/$i}" >"client$i.out" 2>"client$i.err" &
        pids+=($!)
        children+=($!)
    done
    for i in "${pids[@]}"; do wait "$i" || bad=1; done
    cat client*.err
    return $bad
}

put_at_once()
{
    at_once "$cp" put --quiet 'source{}' "iwarp://$address/one"
}

get_at_once()
{
    at_once "$cp" get --quiet "iwarp://$address/from{}" away/one
}

serve export || exit 1
watch export/one
for round in 1 2 3; do
    check "put, round $round: all are done" put_at_once
    check "put, round $round: the file is one of them" one_of_them export/one
done
check "put: never anything else under the name" only_whole
check "put: nothing hidden is left" no_leftovers export

for i in 1 2 3 4 5 6 7 8; do cp "source$i" "export/from$i"; done
watch away/one
for round in 1 2 3; do
    check "get, round $round: all are done" get_at_once
    check "get, round $round: the file is one of them" one_of_them away/one
done
check "get: never anything else under the name" only_whole
check "get: nothing hidden is left" no_leftovers away
stop

# The same with the maker of a hidden file held up right after it was made: two copies are enough.
if [ "${CP_DISK-}" = no-tmpfile ]; then
    NO_TMPFILE_DELAY_MS=300 serve export
    rm export/one
    watch export/one
    "$cp" put --quiet source1 "iwarp://$address/one" >client1.out 2>client1.err &
    first=$!
    children+=("$first")
    sleep 0.1
    "$cp" put --quiet source2 "iwarp://$address/one" >client2.out 2>client2.err &
    second=$!
    children+=("$second")
    check "held up: the first is done" wait_for $first
    check "held up: the second is done" wait_for $second
    check "held up: never anything else under the name" only_whole
    check "held up: the file is one of them" one_of_them export/one
    check "held up: nothing hidden is left" no_leftovers export
    stop
fi
finish
