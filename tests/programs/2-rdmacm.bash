# SPDX-License-Identifier: BSD-2-Clause
#
# The programs of rdmacm-utils.

# rping_client OPTION...: what it says counts.  Its status is also 0 when it was disconnected halfway; and at
# its end a thread may still ask for events after another has closed their channel.
rping_client()
{
    local status
    r rping -c -p "$port" "$@" >client.out 2>&1
    status=$?
    [ $status = 0 ] || says 'rdma_get_cm_event: Bad file descriptor' client.out ||
        { echo "status $status"; return 1; }
    ! grep -i 'wait\|mismatch\|error\|fail' client.out
}

rping_validated()
{
    start server rping -s -a "$1" -p "$port" -C 1000 -V -S 60000
    ready server "$port" && rping_client -a "$1" -C 1000 -V -S 60000 &&
        finishes "$pid" server
}

# With the text that it prints: each line one letter further than the one before.
rping_shows()
{
    start server rping -s -a 127.0.0.1 -p "$port" -C 10 -v -V
    ready server "$port" && rping_client -a 127.0.0.1 -C 10 -v -V &&
        finishes "$pid" server && says 'ping data: rdma-ping-0: ABCDEFGHIJ' client.out &&
        says 'ping data: rdma-ping-9: JKLMNOPQRS' client.out &&
        diff <(grep -o 'rdma-ping-.*' client.out) <(grep -o 'rdma-ping-.*' server.out)
}

has_pinged()
{
    grep -q 'ping data' "$1" || ended "$pid"
}

# more_than COUNT FILE: lines
more_than()
{
    [ "$(wc -l <"$2")" -gt "$1" ]
}

connections()
{
    awk -v port=":$(printf %04X "$port")\$" '$4 == "01" && $2 ~ port' /proc/net/tcp | wc -l
}

# 20 connections at the same time. They are made one after the other, since rdma-core 44's server keeps
# one request at a time and forgets it when the next one comes first, whatever it runs on. A client
# that is connected is stopped until all are.
rping_together()
{
    local i server lines
    local -a clients=() at=()
    start server rping -s -P -a 127.0.0.1 -p "$port" -S 100
    ready server "$port" || return 1
    server=$pid
    for ((i = 0; i < 20; i++)); do
        start "client$i" stdbuf -oL rping -c -v -V -S 100 -a 127.0.0.1 -p "$port"
        eventually has_pinged "client$i.out" && says 'ping data' "client$i.out" || return 1
        kill -STOP -- "-$pid" || return 1
        clients+=("$pid")
    done
    echo "connections: $(connections)"
    [ "$(connections)" = 20 ] || return 1
    for ((i = 0; i < 20; i++)); do
        at+=("$(wc -l <"client$i.out")")
        kill -CONT -- "-${clients[i]}" || return 1
    done
    for ((i = 0; i < 20; i++)); do
        eventually more_than $((at[i] + 20)) "client$i.out" || return 1
        ! ended "${clients[i]}" || { echo "client $i ended"; return 1; }
    done
    ! ended "$server" && ! grep -i 'wait\|mismatch\|error\|fail' client*.out
}

# 20 clients, one after the other
rping_persistent()
{
    local i
    start server rping -s -P -a 127.0.0.1 -p "$port" -S 20000
    ready server "$port" || return 1
    for ((i = 0; i < 20; i++)); do
        rping_client -a 127.0.0.1 -C 50 -v -V -S 20000 || return 1
        [ "$(grep -c 'ping data' client.out)" = 50 ] || return 1
    done
    ! ended "$pid"
}

# rping_disturbed FAULTS SENTENCE: the client's, on request; both ends see that it is over, the log
# of the client alone says that it was asked for.
rping_disturbed()
{
    start server rping -s -a 127.0.0.1 -p "$port" -C 1000 -V
    ready server "$port" || return 1
    RUN="--faults=$1" r rping -c -a 127.0.0.1 -p "$port" -C 1000 -V >client.out 2>&1
    eventually ended "$pid" && says "$2, as IWARP_FAULTS asks" client.out &&
        says 'client DISCONNECT EVENT' client.out && says 'server DISCONNECT EVENT' server.out &&
        ! grep 'IWARP_FAULTS' server.out
}

rping_in_pieces()
{
    RUN=--faults=split=33 start server rping -s -a 127.0.0.1 -p "$port" -C 100 -V
    ready server "$port" &&
        RUN=--faults=split=1-100,seed=4 r rping -c -a 127.0.0.1 -p "$port" -C 100 -V &&
        finishes "$pid" server
}

rping_without_memory()
{
    start server rping -s -P -a 127.0.0.1 -p "$port"
    ready server "$port" || return 1
    ! RUN=--faults=register=2 r rping -c -a 127.0.0.1 -p "$port" -C 10 >client.out 2>&1 || return 1
    says 'registration 2 fails, as IWARP_FAULTS asks' client.out && says 'failed: 12' client.out &&
        ! ended "$pid" && r rping -c -a 127.0.0.1 -p "$port" -C 10 -V
}

rping_with_nonsense()
{
    ! RUN=--faults=crc r rping -c -a 127.0.0.1 -p "$port" -C 10 >client.out 2>&1 || return 1
    says 'IWARP_FAULTS: "crc", expected crc=N' client.out
}

# ucmatose OPTION...: 10 messages of 100 octets on each connection by default
ucmatose_both()
{
    start server ucmatose -b 127.0.0.1 -p "$port" "$@"
    ready server "$port" && r ucmatose -s 127.0.0.1 -p "$port" "$@" >client.out &&
        says 'return status 0' client.out && finishes "$pid" server && says 'return status 0' server.out
}

rdma_client_server()
{
    start server rdma_server -p "$port"
    ready server "$port" && r rdma_client -s 127.0.0.1 -p "$port" >client.out &&
        says 'rdma_client: end 0' client.out && finishes "$pid" server
}

rdma_xclient_xserver()
{
    start server rdma_xserver -p "$port" -c r
    ready server "$port" && r rdma_xclient -s 127.0.0.1 -p "$port" -c r >client.out &&
        says 'rdma_xclient: end 0' client.out && finishes "$pid" server
}

# That of rdma-core 65 has peers, of which the first to come is the controller of all; listeners have ports
# of their own.  With three it does not measure without queue pairs.
cmtime_peers()
{
    local -a options=(-b 127.0.0.1 -C 127.0.0.1 -p "$port" -P 3 -c 50)
    local listener other
    start listener cmtime -L "${options[@]}"
    listener=$pid
    ready listener "$port" || return 1
    start other cmtime "${options[@]}"
    other=$pid
    r cmtime "${options[@]}" >client.out 2>&1 && finishes "$listener" listener && finishes "$other" other &&
        says '^qp_conn  *100$' listener.out && says '^qp_conn  *50$' client.out &&
        says '^qp_conn  *50$' other.out && says '^disconnect ' client.out
}

# Of rdma-core 44 the server takes connections until it is ended.  A later one ends by itself; it has a
# TCP socket for control, at the port of its RDMA listener, which on iWARP is taken.  But that socket
# is always an IPv4 one: with a name that has addresses of both families RDMA takes the other.  Then it
# measures once more without queue pairs, which is no connection of iWARP: there it ends.
cmtime_100()
{
    local host=127.0.0.1 later=
    if cmtime -h 2>&1 | grep -q 'controller_address'; then
        cmtime_peers
        return
    fi
    if cmtime -h 2>&1 | grep -q 'num_threads'; then
        later=1 host=localhost
        if ! getent ahostsv4 localhost | grep -q '^127' || ! getent hosts localhost | grep -q '^::1 '; then
            echo "localhost is not both 127.0.0.1 and ::1"
            return 77
        fi
    fi
    start server cmtime -b $host -p "$port" -c 100
    ready server "$port" || return 1
    if [ -n "$later" ]; then
        ! r cmtime -s $host -p "$port" -c 100 >client.out 2>&1 &&
            says '^full connect ' client.out && says '^disconnect ' client.out &&
            says '^Connect (100) test - no QPs' client.out && says 'the id has no queue pair' client.out
    else
        r cmtime -s $host -p "$port" -c 100 >client.out && says '^connect ' client.out &&
            says '^disconnect ' client.out && ! ended "$pid" && ! grep -i 'fail' server.out client.out
    fi
}

# A server that ends may do as that thread does.
export AGAIN='rping asks for events where it has closed the channel'
try "rping -C 1000 -V -S 60000" rping_validated 127.0.0.1
try "rping -v -C 10" rping_shows
if [ -e /proc/net/if_inet6 ] && grep -q ' lo$' /proc/net/if_inet6; then
    try "rping -C 1000 -V -S 60000, IPv6" rping_validated ::1
fi
try "rping -P with 20 clients, one after the other" rping_persistent
try "rping -P with 20 clients, at the same time" rping_together
try "rping, its connection lost on request" rping_disturbed lose-fpdu=50 'in FPDU 50'
try "rping, a wrong CRC on request" rping_disturbed crc=50 'FPDU 50 was sent with a wrong CRC'
try "rping, in small pieces on request" rping_in_pieces
try "rping, no memory on request" rping_without_memory
try "rping, a request that is none" rping_with_nonsense
unset AGAIN
try "ucmatose" ucmatose_both
try "ucmatose -c 8" ucmatose_both -c 8
try "ucmatose -c 100" ucmatose_both -c 100
try "ucmatose -c 8 -m" ucmatose_both -c 8 -m
try "ucmatose -C 100 -S 65536" ucmatose_both -C 100 -S 65536
try "rdma_server and rdma_client" rdma_client_server
try "rdma_xserver and rdma_xclient -c r" rdma_xclient_xserver
try "cmtime -c 100" cmtime_100
