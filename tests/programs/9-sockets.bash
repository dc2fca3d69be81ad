# SPDX-License-Identifier: BSD-2-Clause
#
# The last item, since it leaves a thousand ports in TIME_WAIT, and dtest has a fixed one among them.
#
# Programs that use sockets and know nothing of RDMA, by iwarp-run --sockets. What they carried over RDMA is in
# their captures: plain TCP would look like success.

# Of each process that has a connection.
record='--sockets --pcap=x.%p.pcapng'

nc_file()
{
    head -c 20000000 /dev/urandom >source
    RUN=--sockets start server nc -l 127.0.0.1 "$port"
    ready server "$port" || return 1
    # shellcheck disable=SC2086 # options
    "${user[@]}" timeout "$patience" "$run" $record nc -N 127.0.0.1 "$port" <source >client.out 2>&1 &&
        finishes "$pid" server && cmp source server.out && carried c 20000000 x.*.pcapng
}

iperf()
{
    RUN="$record" start server iperf3 -s -1 -p "$port"
    ready server "$port" && RUN=--sockets r iperf3 -c 127.0.0.1 -p "$port" -n 40M "$@" >client.out 2>&1 &&
        finishes "$pid" server && says 'receiver' client.out && carried "${side-c}" 40000000 x.*.pcapng
}

iperf_both()
{
    iperf -P 4 && rm -f x.*.pcapng && free_port && side=s iperf -R
}

# Its server reads from the first connection before it accepts the second one.
iperf_of_old()
{
    RUN="$record" start server iperf -s -p "$port"
    ready server "$port" && RUN='--sockets --log=info' r iperf -c 127.0.0.1 -p "$port" -P 4 -n 10M >client.out 2>&1 &&
        ! grep "plain TCP\|failed" client.out && carried c 40000000 x.*.pcapng
}

# Its client tells the server of the second connection when that is made.
qperf_of_sockets()
{
    RUN="$record" start server qperf -lp "$port"
    ready server "$port" && RUN='--sockets --log=info' r qperf -lp "$port" -t 1 127.0.0.1 tcp_lat >client.out 2>&1 &&
        says "latency  *=" client.out && ! grep "plain TCP" client.out && carried c 5000 x.*.pcapng
}

http()
{
    head -c 10000000 /dev/urandom >big
    chmod 644 big
    RUN="$record" start server /usr/bin/python3 -m http.server "$port" --bind 127.0.0.1
    ready server "$port" && RUN=--sockets r curl -sS -o got "http://127.0.0.1:$port/big" && cmp big got &&
        carried s 10000000 x.*.pcapng
}

# A plain client of such a server, and such a client of a plain server.
http_plain()
{
    head -c 3000000 /dev/urandom >big
    chmod 644 big
    RUN=--sockets start server /usr/bin/python3 -m http.server "$port" --bind 127.0.0.1
    ready server "$port" && curl -sS -o got "http://127.0.0.1:$port/big" && cmp big got || return 1
    free_port
    "${user[@]}" /usr/bin/python3 -m http.server "$port" --bind 127.0.0.1 >plain.out 2>&1 &
    children+=($!)
    eventually listens "$port" && RUN='--sockets --log=info' r curl -sS -o again "http://127.0.0.1:$port/big" \
        2>client.out && cmp big again && says 'plain TCP' client.out
}

rsync_tree()
{
    mkdir -m 777 tree to back
    cp -r "$top/src" tree/
    printf 'use chroot = no\npid file = %s\n[m]\npath = %s\nread only = no\n' "$PWD/pid" "$PWD/to" >conf
    RUN="$record" start server rsync --daemon --no-detach --address 127.0.0.1 --port "$port" --config conf
    ready server "$port" && RUN=--sockets r rsync -r tree/ "rsync://127.0.0.1:$port/m/" && diff -r tree to &&
        RUN=--sockets r rsync -r "rsync://127.0.0.1:$port/m/" back/ && diff -r tree back &&
        carried c 1000000 x.*.pcapng && carried s 1000000 x.*.pcapng
}

redis()
{
    RUN="$record" start server redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no
    ready server "$port" || return 1
    RUN=--sockets r redis-cli -p "$port" set key "a value" && RUN=--sockets r redis-cli -p "$port" get key >got &&
        says "a value" got && redis-cli -p "$port" get key >plain && says "a value" plain &&
        RUN=--sockets r redis-benchmark -p "$port" -n 5000 -c 20 -d 100 -t set,get -q >client.out 2>&1 &&
        RUN=--sockets r redis-cli -p "$port" shutdown nosave && finishes "$pid" server &&
        carried c 500000 x.*.pcapng && carried s 500000 x.*.pcapng
}

postgres()
{
    local bin
    bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
    "${user[@]}" "$bin/initdb" -D data -A trust -U me >init.out 2>&1 || { cat init.out; return 1; }
    RUN="--sockets --pcap=$PWD/x.%p.pcapng" start server "$bin/postgres" -D data -p "$port" -c listen_addresses=127.0.0.1 \
        -c unix_socket_directories="$PWD" -c fsync=off
    ready server "$port" || return 1
    local to=(-h 127.0.0.1 -p "$port" -U me)
    RUN=--sockets r "$bin/psql" "${to[@]}" -qc 'create table t as select i, md5(i::text) m from generate_series(1, 50000) i' postgres &&
        RUN=--sockets r "$bin/psql" "${to[@]}" -Atc 'select * from t order by i' postgres >got &&
        "${user[@]}" "$bin/psql" "${to[@]}" -Atc 'select * from t order by i' postgres >plain &&
        [ "$(wc -l <got)" = 50000 ] && cmp got plain &&
        RUN=--sockets r "$bin/pgbench" "${to[@]}" -i -q postgres >client.out 2>&1 &&
        RUN=--sockets r "$bin/pgbench" "${to[@]}" -c 4 -t 100 postgres >client.out 2>&1 &&
        says 'number of transactions actually processed: 400/400' client.out &&
        carried s 1500000 x.*.pcapng
}

# libuv closes its sockets by syscall(2).
node()
{
    bring tests/programs/sockets_node.js || return 1
    RUN="$record" start server /usr/bin/node sockets_node.js server "$port"
    ready server "$port" && RUN=--sockets r /usr/bin/node sockets_node.js client "$port" >client.out &&
        says '^well' client.out && ! grep . server.out && carried s 20000000 x.*.pcapng
}

# misuse CONNECTIONS CASE [N]: so many ends are established, and none falls back.
misuse()
{
    local ends=$(($1 * 2))
    shift
    bring tests/programs/sockets_misuse.py || return 1
    RUN='--sockets --log=info' r /usr/bin/python3 sockets_misuse.py "$port" "$@" >out 2>&1 &&
        says '^well' out && ! grep 'plain TCP' out && [ "$(grep -c 'established over tcp' out)" = $ends ]
}

# Each connection has several descriptors: what finds none comes again, plain, and no octet is lost.
few_descriptors()
{
    bring tests/programs/sockets_misuse.py || return 1
    (ulimit -n 300 && RUN='--sockets --log=info' r /usr/bin/python3 sockets_misuse.py "$port" many 100 >out 2>&1)
    says '^well' out && says 'established over tcp' out && says 'plain TCP\|cannot be RDMA' out
}

silent()
{
    bring tests/programs/sockets_misuse.py &&
        RUN=--sockets r /usr/bin/python3 sockets_misuse.py "$port" connecting >out 2>&1 && says '^well' out
}

reset_of_once()
{
    bring tests/programs/sockets_misuse.py &&
        RUN=--sockets r /usr/bin/python3 sockets_misuse.py "$port" refused >out 2>&1 && says '^well' out
}

reset_early()
{
    bring tests/programs/sockets_misuse.py &&
        RUN='--sockets --log=warn' r /usr/bin/python3 sockets_misuse.py "$port" gone 20 >out 2>&1 &&
        says '^well' out && ! grep warn out
}

plain_lines()
{
    bring tests/programs/sockets_misuse.py &&
        RUN='--sockets --sockets-quiet=0 --sockets-reply=60000 --log=info' r /usr/bin/python3 sockets_misuse.py "$port" lines >out 2>&1
    says '^well' out && says 'plain TCP' out
}

try "nc, 20 MB" nc_file
try "iperf3, four streams, and the other way" iperf_both
try "curl and python3 -m http.server" http
try "the same beside plain TCP, either way" http_plain
try "rsync --daemon, a tree there and back" rsync_tree
try "redis-server, redis-cli, redis-benchmark" redis
try "PostgreSQL: psql, pgbench" postgres
try "node.js, connections that end in turn" node
try "a thousand sockets in an edge-triggered set" misuse 1000 many 1000
try "descriptors run out" few_descriptors
try "the server is killed" misuse 1 killed
try "20 MB to a slow reader, then half closed" misuse 1 slow 20000000
try "one thread reads, another closes" misuse 5 closed 5
try "a program ends without a close" misuse 2 left 1000000
try "a connection handed to another program, as inetd does" misuse 1 ran 50000
try "the peer is silent while it connects" silent
try "clients that reset after their Request" reset_early
try "a Request that comes late, to a server with epoll" misuse 2 delayed
try "a Request that comes late, to a server that reads once" misuse 3 late_request 0
try "a Request that comes late, in pieces" misuse 3 late_request 30
try "what was written before a close, over a slow link" misuse 1 slowly 500000
try "a Request, and then a reset" reset_of_once
try "when a silent peer is probed" misuse 1 patient 70
try "a set watches a socket that connects later" misuse 3 watched
try "an error that another program inherits" misuse 0 inherited
try "the peer is a plain one that reads lines" plain_lines
try "a server reads before it accepts the next one" misuse 5 late 5
try "iperf of version 2, several streams" iperf_of_old
try "qperf, which connects before its server knows" qperf_of_sockets
try "a connection that always has octets, and a pipe" misuse 1 fair
try "the table of descriptors grows before there are threads" misuse 1 early
try "numbers of the program, and those of the library" misuse 4 numbers 3
try "octets are counted" misuse 1 counted 400000
try "a lock on descriptor 0 outlives the beginning" misuse 0 locked
try "a child has the time-outs of the connection" misuse 1 limited
try "the parent of a child is stopped" misuse 1 stopped
try "a parent waits, and its child uses the connection" misuse 5 shared 0
try "a parent leads, and its child uses the connection" misuse 5 shared 300
try "a parent has half of what it waits for" misuse 1 half
try "two children use what the parent has closed" misuse 2 children
try "a parent and its child close, and the child lives" misuse 1 closing
try "a parent is killed, and a later child lives" misuse 1 orphaned
try "the flags change while a child begins" misuse 20 flags 20
