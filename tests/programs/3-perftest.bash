# SPDX-License-Identifier: BSD-2-Clause
#
# perftest with -R.  It looks at no data, so for the plain ones the server's capture says how many
# messages of which size there were.

# perf PROGRAM OPTION...: both ends with the same options; the server ends by itself
perf()
{
    local program=$1 limit=300
    shift
    start server "$program" -R -F -p "$port" "$@"
    ready server "$port" && r "$program" -R -F -p "$port" "$@" 127.0.0.1 >client.out &&
        finishes "$pid" server && says '^ [0-9]' client.out
}

# perf_counted PROGRAM LINE... -- OPTION...
perf_counted()
{
    local program=$1
    local -a lines=()
    shift
    while [ "$1" != -- ]; do
        lines+=("$1")
        shift
    done
    shift
    RUN='--pcap=x.%p.pcapng' perf "$program" "$@" || return 1
    set -- x.*.pcapng
    [ $# = 2 ] || { echo "captures: $*"; return 1; }
    # Each end has recorded the whole conversation.
    counted "${lines[@]}" -- "$1" && counted "${lines[@]}" -- "$2"
}

try "ib_write_bw -R -n 20, counted" perf_counted ib_write_bw 'c Write 65536 20' -- -n 20
try "ib_write_lat -R -n 50, counted" perf_counted ib_write_lat 'c Write 2000 50' 's Write 2000 50' -- -n 50 -s 2000
try "ib_read_bw -R -n 20, counted" perf_counted ib_read_bw 's Read Response 65536 20' -- -n 20
try "ib_read_lat -R -n 50, counted" perf_counted ib_read_lat 's Read Response 2000 50' -- -n 50 -s 2000
try "ib_send_bw -R -n 20, counted" perf_counted ib_send_bw 'c Send 65536 20' -- -n 20
try "ib_send_lat -R -n 50, counted" perf_counted ib_send_lat 'c Send 2000 50' 's Send 2000 50' -- -n 50 -s 2000
for kind in write read send; do
    try "ib_${kind}_bw -R -a" perf ib_${kind}_bw -a -n 5
    try "ib_${kind}_lat -R -a" perf ib_${kind}_lat -a -n 5
    try "ib_${kind}_bw -R -b" perf ib_${kind}_bw -b -n 200
    [ $kind != write ] || try "ib_${kind}_bw -R -b -a" perf ib_${kind}_bw -b -a -n 5
    try "ib_${kind}_bw -R -q 16" perf ib_${kind}_bw -q 16 -n 100
    try "ib_${kind}_bw -R -D 2" perf ib_${kind}_bw -D 2
done
try "ib_read_bw -R -e" perf ib_read_bw -e -n 500
# More receives than messages: with -e the client may else sleep until a Send completes while it may send no
# more before credits come, which are RDMA Writes that wake nobody.  perftest has at most as many receives as
# messages, made even, so the number of these is odd.
try "ib_send_bw -R -e" perf ib_send_bw -e -n 499
try "ib_send_lat -R -e" perf ib_send_lat -e -n 200
try "ib_send_bw -R --use-srq" perf ib_send_bw --use-srq -r 100 -n 500
try "ib_send_bw -R -e --use-srq" perf ib_send_bw -e --use-srq -r 512 -n 499
# Not with -q: its credits are those of one queue pair, and both ends may come to wait for the other.
try "ib_atomic_bw -R, counted" perf_counted ib_atomic_bw 'c Atomic Request 0 20' 's Atomic Response 0 20' -- -n 20
try "ib_atomic_bw -R -A CMP_AND_SWAP" perf ib_atomic_bw -A CMP_AND_SWAP -n 500
try "ib_atomic_lat -R, counted" perf_counted ib_atomic_lat 'c Atomic Request 0 50' 's Atomic Response 0 50' -- -n 50

# perftest takes the older calls on devices that it does not know.
extended()
{
    gcc -O2 -o extended "$top/tests/programs/extended.c" -lrdmacm -libverbs || return 1
    RUN='--pcap=x.%p.pcapng' start server ./extended s "$port"
    ready server "$port" && r ./extended c "$port" && finishes "$pid" server &&
        counted 'c Write 1048576 1' 's Read Response 1048576 1' 'c Send 1000 1' 'c Send 64 1' \
            'c Send 4000 1' 'c Write 10 1' 'c Immediate Data 0 1' 'c Atomic Request 0 11' -- x.*.pcapng
}

try "ibv_wr_* and ibv_start_poll, data checked" extended
