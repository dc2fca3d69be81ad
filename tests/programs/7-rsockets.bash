# SPDX-License-Identifier: BSD-2-Clause
#
# Programs of rdma-core that use rsockets: rstream, riostream, rcopy.

# stream_test PROGRAM OCTETS OPTION...: each end sends that many octets in all, as it says
stream_test()
{
    local program=$1 octets=$2
    shift 2
    RUN='--pcap=x.%p.pcapng' start server "$program" -p "$port" "$@"
    ready server "$port" && r "$program" -s 127.0.0.1 -p "$port" "$@" >client.out 2>&1 &&
        finishes "$pid" server && says Gb/sec client.out && carried c "$octets" x.*.pcapng &&
        carried s "$octets" x.*.pcapng
}

# With -T f it uses sockets, which are to become rsockets: the parent listens, a child serves.
stream_fork()
{
    RUN=--sockets start server rstream -p "$port" -T f -S 4096 -C 500
    ready server "$port" && RUN='--sockets --pcap=x.%p.pcapng' r rstream -s 127.0.0.1 -p "$port" -T f -S 4096 -C 500 \
        >client.out 2>&1 && says Gb/sec client.out && carried c 2000000 x.*.pcapng
}

copy_file()
{
    head -c 5000000 /dev/urandom >source
    chmod 644 source
    start server rcopy -p "$port"
    ready server "$port" && RUN='--pcap=x.%p.pcapng' r rcopy source 127.0.0.1:"$PWD/copy" -p "$port" >client.out 2>&1 &&
        cmp source copy && carried c 5000000 x.*.pcapng
}

for size in 1 64 4096 65536 1048576; do
    count=$((size < 65536 ? 1000 : 20))
    try "rstream -S $size, data checked" stream_test rstream $((size * count)) -S $size -C $count -T v
done
for mode in a b n r; do
    try "rstream -T $mode" stream_test rstream 4000000 -S 4096 -C 1000 -T $mode -T v
done
try "rstream -T f" stream_fork
try "rstream, one octet of inline data, 20 connections' worth of turns" \
    stream_test rstream 200000 -S 100 -C 100 -I 20 -i 1 -T v
try "rstream -B 8192" stream_test rstream 4000000 -S 40000 -C 100 -B 8192 -T v
for mode in a b n; do
    try "riostream -T $mode, data checked" stream_test riostream 4000000 -S 4096 -C 1000 -T $mode -T v
done
try "rcopy, 5 MB" copy_file
