# SPDX-License-Identifier: BSD-2-Clause
#
# Programs that connect queue pairs by number, without librdmacm: ibv_rc_pingpong, ibv_srq_pingpong,
# perftest without -R, qperf without -cm1; and, for programs that Debian has not, by_number.c, which
# makes their calls in their order.

# both PROGRAM OPTION...: both ends with the same options; both end by themselves
both()
{
    local program=$1
    shift
    start server "$program" -p "$port" "$@"
    ready server "$port" && r "$program" -p "$port" "$@" 127.0.0.1 >client.out 2>&1 &&
        finishes "$pid" server && return
    tail -n 5 client.out
    return 1
}

pingpong()
{
    both "$@" && says 'iters in' client.out
}

# counted_either_way LINE... -- CAPTURE: the end with the larger number connects, which may be the server
counted_either_way()
{
    local -a swapped=()
    local word
    for word; do
        case $word in
        'c '*) swapped+=("s ${word#c }") ;;
        's '*) swapped+=("c ${word#s }") ;;
        *) swapped+=("$word") ;;
        esac
    done
    counted "$@" >first.out || counted "${swapped[@]}" || { cat first.out; return 1; }
}

# perf_by_number PROGRAM LINE... -- OPTION...: with lines of both captures, if there are any
perf_by_number()
{
    local program=$1
    local -a lines=()
    shift
    while [ "$1" != -- ]; do
        lines+=("$1")
        shift
    done
    shift
    RUN='--pcap=x.%p.pcapng' both "$program" -F "$@" && says '^ [0-9]' client.out || return 1
    [ ${#lines[@]} -gt 0 ] || return 0
    set -- x.*.pcapng
    [ $# = 2 ] || { echo "captures: $*"; return 1; }
    counted_either_way "${lines[@]}" -- "$1" && counted_either_way "${lines[@]}" -- "$2"
}

# With a device of type iWARP ib_send_bw keeps credits in a region, which Debian's releases forget to
# deregister before they deallocate the protection domain: the result is there, and the status is 1.
send_bw()
{
    start server ib_send_bw -F -p "$port" "$@"
    ready server "$port" || return 1
    r ib_send_bw -F -p "$port" "$@" 127.0.0.1 >client.out 2>&1
    local status=$?
    eventually ended "$pid" && says '^ [0-9]' client.out || return 1
    [ $status = 0 ] || says 'Failed to deallocate PD' client.out
}

# qperf_by_number TEST...: the server goes on
qperf_by_number()
{
    start server qperf -lp "$port"
    ready server "$port" && r qperf 127.0.0.1 -lp "$port" -t 1 "$@" >client.out 2>&1 || return 1
    [ "$(grep -c ' = ' client.out)" = $# ] || { cat client.out; return 1; }
}

# ours WAY: tests/programs/by_number.c, a server and a client
ours()
{
    gcc -O2 -pthread -o by_number "$top/tests/programs/by_number.c" -libverbs || return 1
    chmod 755 by_number
    if [ "$1" = self ]; then
        r ./by_number self
        return
    fi
    start server ./by_number "$1" "$port"
    ready server "$port" && r ./by_number "$1" "$port" 127.0.0.1 && finishes "$pid" server
}

# Two hosts: network namespaces with a cable between them.  The server is on the other one.
cat >"$work/hosts" <<'END'
set -u
unshare -n sleep 300 &
other=$!
trap 'kill $other' EXIT
on_other() { nsenter -t $other -n "$@"; }
for ((i = 0; i < 100; i++)); do
    [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ] && break
    sleep 0.1
done
# The kernel gives even ports to listeners and odd ones to who connects: so both ends have the same number.
if [ "$WAY" = same ]; then
    echo 40000 40001 >/proc/sys/net/ipv4/ip_local_port_range &&
        on_other sh -c 'echo 40000 40001 >/proc/sys/net/ipv4/ip_local_port_range' || exit 77
fi
ip link set lo up && on_other ip link set lo up &&
    ip link add here type veth peer name there netns $other &&
    ip addr add 10.77.1.1/24 dev here && ip -6 addr add fd77::1/64 dev here nodad &&
    on_other ip addr add 10.77.1.2/24 dev there && on_other ip -6 addr add fd77::2/64 dev there nodad &&
    ip link set here up && on_other ip link set there up || exit 77
settled() { "$@" ip -6 addr show scope link | grep -q fe80 && ! "$@" ip -6 addr show | grep -q tentative; }
for ((i = 0; i < 200; i++)); do
    ! settled env || ! settled on_other || break
    sleep 0.1
done
on_other "$@" >server.out 2>&1 &
server=$!
for ((i = 0; i < 200; i++)); do
    on_other ss -tln | grep -q ":$PORT " && break
    sleep 0.1
done
"$@" 10.77.1.2 >client.out 2>&1 || { echo "the client failed"; tail client.out server.out; exit 1; }
[ "$WAY" != same ] || grep -q 'both have the same number' client.out || { echo "two numbers"; exit 1; }
wait $server || { echo "the server failed"; tail client.out server.out; exit 1; }
END
chmod 644 "$work/hosts"

# two_hosts PROGRAM OPTION...: both ends with the same options
two_hosts()
{
    if ! command -v ip >/dev/null || ! "${user[@]}" unshare -rn true 2>/dev/null; then
        echo "no namespaces here, or no iproute2"
        return 77
    fi
    set -- "${@/PORT/$port}"
    WAY=${WAY-} PORT=$port "${user[@]}" timeout -k 5 $patience unshare -rn bash "$work/hosts" "$run" "$@"
}

ours_on_two_hosts()
{
    gcc -O2 -pthread -o by_number "$top/tests/programs/by_number.c" -libverbs || return 1
    chmod 755 by_number
    two_hosts ./by_number "$@"
}

for options in '' '-g 0' '-g 1' '-g 3' '-e' '-g 0 -e -c' '-c -N' '-m 4096 -s 65536' '-r 5 -n 200' '-l 3 -i 1'; do
    # shellcheck disable=SC2086 # options
    try "ibv_rc_pingpong $options" pingpong ibv_rc_pingpong $options
done
for options in '' '-g 0' '-e' '-q 4 -e -n 2000'; do
    # shellcheck disable=SC2086 # options
    try "ibv_srq_pingpong $options" pingpong ibv_srq_pingpong $options
done
try "ib_write_bw, counted" perf_by_number ib_write_bw 'c Write 65536 20' -- -n 20
try "ib_write_lat, counted" perf_by_number ib_write_lat 'c Write 2000 50' 's Write 2000 50' -- -n 50 -s 2000
try "ib_read_bw, counted" perf_by_number ib_read_bw 's Read Response 65536 20' -- -n 20
try "ib_read_lat, counted" perf_by_number ib_read_lat 's Read Response 2000 50' -- -n 50 -s 2000
try "ib_send_lat, counted" perf_by_number ib_send_lat 'c Send 2000 50' 's Send 2000 50' -- -n 50 -s 2000
try "ib_atomic_bw, counted" perf_by_number ib_atomic_bw 'c Atomic Request 0 20' 's Atomic Response 0 20' -- -n 20
try "ib_atomic_lat" perf_by_number ib_atomic_lat -- -n 50
try "ib_send_bw" send_bw -n 500
try "ib_send_bw -q 8 -x 3" send_bw -n 500 -q 8 -x 3
for kind in write read; do
    try "ib_${kind}_bw -a" perf_by_number ib_${kind}_bw -- -a -n 5
    try "ib_${kind}_bw -b -q 16 -x 1" perf_by_number ib_${kind}_bw -- -b -q 16 -x 1 -n 100
done
try "qperf, latency" qperf_by_number rc_lat rc_rdma_read_lat rc_rdma_write_lat
try "qperf, bandwidth" qperf_by_number rc_bw rc_rdma_read_bw rc_rdma_write_bw
try "qperf, atomics" qperf_by_number rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add
try "as infinity: connected to itself, by LID" ours self
try "as infinity: by LID, no barrier" ours lid
try "as NCCL and Gloo: by GID and index, many" ours gid
for way in lid gid; do
    try "on two hosts: by_number $way" ours_on_two_hosts $way PORT
done
# Of the GIDs there are 0 to 3: IPv4, 4: IPv6, 5: link-local.
for options in '' '-g 0' '-g 4' '-g 5'; do
    # shellcheck disable=SC2086 # options
    try "on two hosts: ibv_rc_pingpong $options" two_hosts ibv_rc_pingpong -p PORT $options
done
try "on two hosts: ib_write_bw -q 8" two_hosts ib_write_bw -F -n 200 -q 8 -p PORT
try "on two hosts: by_number one, again and again" ours_on_two_hosts one PORT
WAY=same try "on two hosts of the same number: by_number one" ours_on_two_hosts one PORT
WAY=same try "on two hosts of the same number: by_number lid" ours_on_two_hosts lid PORT
