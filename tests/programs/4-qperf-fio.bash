# SPDX-License-Identifier: BSD-2-Clause
#
# qperf with -cm 1, and fio's engine rdma.

# qperf_test TEST OPTION...: the server is asked to end afterwards
qperf_test()
{
    local test=$1
    shift
    start server qperf -lp "$port"
    ready server "$port" || return 1
    r qperf 127.0.0.1 -lp "$port" -cm1 "$@" "$test" >client.out 2>&1 && cat client.out &&
        says "^$test:" client.out && says ' = ' client.out
}

# qperf_counted TEST "OPTION..." LINE...: lines of both ends' captures
qperf_counted()
{
    # shellcheck disable=SC2086 # options
    RUN="--pcap=x.%p.pcapng --pcap-max=4294967296 ${SETTINGS-}" qperf_test "$1" $2 || return 1
    set -- x.*.pcapng "${@:3}"
    local -a files=()
    while [[ $1 == x.*.pcapng ]]; do
        # The server's first process and those that only exchanged parameters have none.
        files+=("$1")
        shift
    done
    # Both ends have recorded all of it, each in a file.
    [ ${#files[@]} = 2 ] || { echo "captures: ${files[*]}"; return 1; }
    counted "$@" -- "${files[0]}" && counted "$@" -- "${files[1]}"
}

# fio_job VERB OPTION...: 64 messages of 64 KiB.  The receiver comes first, and posts `depth` receives at a
# time: with verb=send fio has no flow control, and what comes before its receive waits.
fio_job()
{
    local verb=$1
    shift
    start receiver fio --name=receiver --ioengine=rdma --port="$port" --rw=read --bs=64k --size=4m \
        --iodepth="${depth-64}" "$@"
    ready receiver "$port" &&
        r fio --name=sender --ioengine=rdma --hostname=127.0.0.1 --port="$port" --verb="$verb" \
            --rw=write --bs=64k --size=4m --iodepth=16 \
            "$@" >sender.out 2>&1 && says 'err= 0' sender.out &&
        says 'io=4096KiB' sender.out && finishes "$pid" receiver
}

fio_counted()
{
    local verb=$1
    shift
    RUN='--pcap=x.%p.pcapng' fio_job "$verb" || return 1
    local -a files=(x.*.pcapng)
    [ ${#files[@]} = 2 ] || { echo "captures: ${files[*]}"; return 1; }
    counted "$@" -- "${files[0]}" && counted "$@" -- "${files[1]}"
}

# With verb=write and verify=crc32c the sender makes blocks that carry their CRC, which the receiver does not look
# at: they are in the captures.  With do_verify the sender would read them back, which the engine cannot.
fio_write_verified()
{
    local file
    RUN='--pcap=x.%p.pcapng' fio_job write --verify=crc32c --do_verify=0 || return 1
    for file in x.*.pcapng; do
        "$work/count" -f "$file" >blocks.txt && says '^blocks 64$' blocks.txt || { cat blocks.txt; return 1; }
    done
}

# By number, or for a second, when any number will do.
some='[1-9][0-9]*'
try "qperf -cm1 rc_bw, counted" qperf_counted rc_bw '-n 20 -m 8192' 'c Send 8192 20'
try "qperf -cm1 rc_lat, counted" qperf_counted rc_lat '-t 1 -m 100' "c Send 100 $some" "s Send 100 $some"
try "qperf -cm1 rc_rdma_read_lat, counted" qperf_counted rc_rdma_read_lat '-t 1 -m 100' \
    "s Read Response 100 $some"
# All the octets of a second go into two files: FPDUs are small, so that there are fewer of them.
SETTINGS=--ulpdu-max=512 try "qperf -cm1 rc_rdma_read_bw, counted" qperf_counted rc_rdma_read_bw '-t 1' \
    "s Read Response 65536 $some"
try "qperf -cm1 rc_rdma_write_lat, counted" qperf_counted rc_rdma_write_lat '-t 1 -m 100' \
    "c Write 100 $some" "c Immediate Data 0 $some" "s Write 100 $some" "s Immediate Data 0 $some"
# The ends of a second are not the same at both: the client can outrun the receives, see rc_bi_bw below.
SETTINGS=--ulpdu-max=512 AGAIN='a Send found no receive' try "qperf -cm1 rc_rdma_write_bw, counted" \
    qperf_counted rc_rdma_write_bw '-t 1' "c Write 65536 $some" "c Immediate Data 0 $some"
try "qperf -cm1 rc_rdma_write_poll_lat, counted" qperf_counted rc_rdma_write_poll_lat '-t 1 -m 100' \
    "c Write 100 $some" "s Write 100 $some"
for test in rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add; do
    try "qperf -cm1 $test, counted" qperf_counted $test '-t 1' \
        "c Atomic Request 0 $some" "s Atomic Response 0 $some"
done
# It has no flow control, and relies on InfiniBand's retries: messages wait for receives.
try "qperf -cm1 rc_bi_bw -m 4m" qperf_test rc_bi_bw -t 1 -m 4m
try "qperf -cm1 rc_bi_bw -m 1k" qperf_test rc_bi_bw -t 1 -m 1k
try "fio verb=write, counted" fio_counted write 'c Write 65536 64'
try "fio verb=read, counted" fio_counted read 's Read Response 65536 64'
try "fio verb=send, counted" fio_counted send 'c Send 65536 64'
try "fio verb=send verify=crc32c, data checked" fio_job send --verify=crc32c
depth=4 try "fio verb=send, 4 receives at a time, data checked" fio_job send --verify=crc32c
try "fio verb=write verify=crc32c, data checked in the captures" fio_write_verified
