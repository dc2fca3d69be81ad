# SPDX-License-Identifier: BSD-2-Clause
#
# Programs that cannot run on iWARP: each fails, and a line of the library says why and what to do instead.

only_rc='iWARP has reliable connections (RC): UC drops'
only_tcp='RDMA_PS_TCP only, no UD (datagrams), XRC or multicast'

# fails WHY PROGRAM...
fails()
{
    local why=$1
    shift
    if limit=30 r "$@" >out.out 2>&1; then
        echo "it succeeded"
        return 1
    fi
    says "$why" out.out
}

# pair_fails WHY SERVER... -- CLIENT...: the two tell each other their queue pairs over TCP; one of them gets
# as far as connecting them, and the other may wait for ever.
pair_fails()
{
    local why=$1 server
    local -a words=()
    shift
    set -- "${@/PORT/$port}"
    while [ "$1" != -- ]; do
        words+=("$1")
        shift
    done
    shift
    start server "${words[@]}"
    server=$pid
    ready server "$port" || return 1
    start client "$@"
    eventually either_says "$why" || return 1
    eventually either_ended "$server" "$pid" && ! wait "$ended_one"
}

either_says()
{
    grep -q -- "$1" server.out client.out
}

either_ended()
{
    for ended_one; do
        ! ended "$ended_one" || return 0
    done
    return 1
}

try "ibv_uc_pingpong" fails "$only_rc" ibv_uc_pingpong
try "ibv_xsrq_pingpong" fails 'iWARP has no XRC' ibv_xsrq_pingpong
try "udaddy" fails "$only_tcp" udaddy -b 127.0.0.1
try "mckey" fails 'a multicast address; iWARP has connections only' mckey -m 224.0.0.1 -b 127.0.0.1
try "rdma_xserver -c x" fails "$only_tcp" rdma_xserver -c x
try "ib_send_bw -R -c UD" pair_fails "$only_tcp" ib_send_bw -R -F -c UD -p PORT -- ib_send_bw -R -F -c UD -p PORT 127.0.0.1
try "udpong" fails 'datagram sockets need UD' udpong -b 127.0.0.1
