#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 300
#
# The program iwarp-nvmf as a service: its configuration file, read again while it serves, figures by
# HTTP, `status`, what it says to systemd, a socket that systemd gives it, and `bench` as its host.
# What a host sees is the matter of tests/unit/test_nvmf_*.c and of make interop CELLS=nvmf.
set -u
: "${BUILD:?where the build is}" "${TMPDIR:?a scratch directory}"
. tests/support/check.bash
nvmf=$(realpath "$BUILD/bin/iwarp-nvmf")
slow_disk=$(realpath "$BUILD/tests/preload/slow_disk.so") || exit 1
cd "$TMPDIR" || exit 1
nqn=nqn.2014-08.org.example
pid=
trap '[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null' EXIT

# eventually COMMAND...: within 60 s
eventually()
{
    local i
    for ((i = 0; i < 600; i++)); do
        ! "$@" || return 0
        sleep 0.1
    done
    echo "not within 60 s: $*"
    return 1
}

fails()
{
    local status=$1 text=$2
    shift 2
    "$@" >out 2>&1 </dev/null
    [ $? = "$status" ] && grep -q -- "$text" out || { cat out; return 1; }
}

says() { grep -q -- "$1" log; }
port_of() { sed -n 's/.*listens on .* port \([0-9]*\),.*/\1/p' log | tail -n 1; }
counted() { [ "$(grep -c -- "$2" log)" -ge "$1" ]; }

start()
{
    : >log
    "$nvmf" "$@" >/dev/null 2>log &
    pid=$!
    check "starts" eventually says 'listens on'
}

stop()
{
    kill "$pid"
    wait "$pid"
    check "stops" test $? = 0
    pid=
}

free_port()
{
    perl -MIO::Socket::INET -e \
        'print IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 1)->sockport'
}

# get PATH: by a client of HTTP that shares nothing with the program
get()
{
    perl -MIO::Socket::INET -e '
        my $s = IO::Socket::INET->new(PeerAddr => $ARGV[0]) or die "no connection\n";
        print $s "$ARGV[2] $ARGV[1] HTTP/1.0\r\n\r\n";
        print while <$s>' "$figures" "$1" "${2-GET}"
}

bench() { "$nvmf" bench -a "127.0.0.1:$(port_of)" -q "$nqn:one" -t 1 "$@"; }

truncate -s 8M a.img
truncate -s 4M b.img
truncate -s 4M c.img
figures=127.0.0.1:$(free_port)

# config SUBSYSTEM...
config()
{
    local IFS=,
    printf '{"listen": "127.0.0.1:0", "memory": "16M", "metrics": "%s",\n "subsystems": [%s]}\n' \
        "$figures" "$*" >nvmf.json
}
one='{"nqn": "'$nqn':one", "namespaces": [{"disk": "a.img", "nsid": 1}, {"disk": "ram:1M", "nsid": 7, "block": 512}]}'
two='{"nqn": "'$nqn':two", "hosts": ["'$nqn':host"], "namespaces": [{"disk": "c.img", "read_only": true}]}'

# What is wrong in the file is said, with its line.
wrong()
{
    printf '%b' "$1" >wrong.json
    fails 2 "wrong.json:$2" "$nvmf" --config wrong.json
}
check "no such file" fails 2 "cannot be read" "$nvmf" --config missing.json
check "no JSON" wrong '{"subsystems": [}' '1: did not find'
check "a text that does not end" wrong '{"subsystems": [\n"a\n' '3: found unexpected end'
check "a name that there is not" wrong '{"subsystems": [],\n"lisen": "::1"}' '2: lisen: there is no'
check "another type" wrong '{"subsystems": [], "memory": [5]}' '1: memory: a text is'
check "a value out of range" wrong '{"subsystems": [{"nqn": "nqn.x",\n"namespaces":[{"disk":"a","nsid":0}]}]}' '2: nsid: see above'
check "what has to be there" wrong '{"listen": "::1"}' '1: subsystems: is missing'
check "brackets alone" wrong "$(printf '[%.0s' {1..99})" '[0-9]: did not find'
check "something behind" wrong '{"subsystems": []} x' '1: did not find'

config "$one"
start --config nvmf.json
check "a number of its own" says 'namespace 7 is ram:1M, 2048 blocks of 512'
check "bench reads" bench -d 8
check "no second target on its file" fails 1 'a.img: it is in use' timeout 100 "$nvmf" -l 127.0.0.1:0 -q $nqn:x -n a.img
check "bench writes" bench -w -d 4 -s 65536
# A file of secrets: this host of ours has none to show.
secret=DHHC-1:01:AgkQFx4lLDM6QUhPVl1ka3J5gIeOlZyjqrG4v8bN1Nuz7TWq:
(umask 077 && echo "$nqn:other $secret" >secrets)
check "secrets that all may read" bash -c 'cp secrets open && chmod 644 open &&
    ! "$1" -l 127.0.0.1:0 --secrets open -q nqn.2014-08.org.example:x -n ram:1M 2>said && grep -q "open: others than" said' - "$nvmf"
check "secrets that are none" bash -c '(umask 077 && echo nobody nothing >none)
    ! "$1" -l 127.0.0.1:0 --secrets none -q nqn.2014-08.org.example:x -n ram:1M 2>said && grep -q "none:1: not a secret" said' - "$nvmf"

figure() { get /metrics | tr -d '\r' | grep -F -- "$1" | awk '{ exit !('"$2"') }'; }
check "commands are counted" figure 'commands_total{opcode="read"}' '$2 > 100'
check "so are octets" figure 'octets_total{opcode="write"}' '$2 > 65536 && $2 % 65536 == 0'
check "the histogram is whole" bash -c '
    [ "$(grep "latency_seconds_bucket{opcode=\"read\",le=\"+Inf\"}" <<<"$1" | cut -d" " -f2)" = \
        "$(grep "latency_seconds_count{opcode=\"read\"}" <<<"$1" | cut -d" " -f2)" ]' - "$(get /metrics)"
check "each line is a comment or a figure" bash -c '! tr -d "\r" <<<"$1" | sed "1,/^$/d" |
    grep -vE "^(# (HELP|TYPE) [a-z_]+ .+|(iwarp_nvmf|process)_[a-z_]+(\{([a-z]+=\"[^\"]*\",?)+\})? [0-9.e+-]+)$"' \
    - "$(get /metrics)"
check "processor time" figure 'process_cpu_seconds_total' '$2 > 0 || $1 == "#"'
check "sizes of namespaces" figure 'nsid="1",disk="a.img"}' '$2 == 8388608'
check "another page" bash -c '[[ $1 == "HTTP/1.1 404"* ]]' - "$(get /other)"
check "no other method" bash -c '[[ $1 == "HTTP/1.1 405"* ]]' - "$(get /metrics POST)"
status() { "$nvmf" status "$figures" | grep -q -- "$1"; }
check "status has the disks" status 'namespace 7: ram:1M, 1024 KiB, blocks of 512'
check "status has the commands" status '  read .* commands, 0 errors'
check "status of nobody" fails 1 'refused' "$nvmf" status 127.0.0.1:1

# Fifty that connect and say nothing delay the others at most until they are sent away.
silent()
{
    perl -MIO::Socket::INET -e 'my @s = map { IO::Socket::INET->new(PeerAddr => $ARGV[0]) } 1 .. 50;
        $| = 1; print "there\n"; sleep 60' "$figures" >silent.log 2>&1 &
    local crowd=$!
    eventually grep -q there silent.log && status 'iwarp-nvmf'
    local status=$?
    kill $crowd
    return $status
}
check "silent clients of HTTP" eventually silent

# The file changes while it serves.
config "${one/a.img/b.img}" "$two"
again() { kill -HUP "$pid"; eventually says "$1"; }
check "another disk in its place" again 'one: namespace 1 is b.img'
check "the first one is gone" says 'namespace 1 (a.img) removed'
check "what was there stays" counted 1 'namespace 7'
check "another subsystem" says "$nqn:two: namespace 1 is c.img, 1024 blocks of 4096 octets, read-only"
check "it is not for everybody" fails 1 'has no subsystem' \
    "$nvmf" bench -a "127.0.0.1:$(port_of)" -q $nqn:two -t 1
check "bench reads the new one" bench
echo '{' >nvmf.json
check "a wrong file changes nothing" again 'everything stays'
check "bench goes on" bench
config "$one"
check "a subsystem is removed" again "$nqn:two: removed"
check "a size is looked at" bash -c 'truncate -s 16M a.img && kill -HUP '"$pid"
check "and reported" eventually says 'namespace 1 (a.img) has 4096 blocks now'
# Another file under the same name: hosts see the first one go, then the other one come.
another()
{
    truncate -s "$1" new.img
    $2
    mv new.img a.img
    again 'namespace 1 (a.img) removed: '"$3" && eventually says "namespace 1 is a.img, $4 blocks"
}
check "a disk that is replaced, one SIGHUP" another 4M : 'the file was removed' 1024
check "bench reads the new one" bench -d 4
check "a disk that is moved away, another in its place" another 6M 'mv a.img old.img' 'its name is' 1536
stop

# A file that another namespace is to have, while the first one's operations are with the disk.
renumbered()
{
    bench -t 30 -w -d 64 -s 65536 >bench.log 2>&1 &
    local run=$!
    sleep 0.5
    config "${one/\"nsid\": 1/\"nsid\": 5}"
    again 'namespace 5 is a.img'
    local status=$?
    kill $run
    wait $run
    return $status
}
truncate -s 64M a.img
config "$one"
start --config nvmf.json
check "another number for a disk at work" renumbered
config "$one"
stop

# The same where an operation takes longer than until the first of the further looks.
begin_slowly()
{
    config "$one"
    : >reads
    LD_PRELOAD=$slow_disk SLOW_READV_MS=5000 SLOW_READV_LOG=$PWD/reads start --config nvmf.json --no-uring
    bench -t 30 -d 2 >bench.log 2>&1 &
    bench=$!
    check "a disk reads" eventually test -s reads
}
begin_slowly
config "${one/\"nsid\": 1/\"nsid\": 5}"
check "another number for a disk that is slow" again 'namespace 5 is a.img'
check "it was tried in between" counted 1 'a.img: it is in use'
kill $bench
wait $bench
stop

# A target that stops reads no configuration any more, and ends when the disk is done.
begin_slowly
config "$one" "$two"
kill "$pid"
check "SIGHUP after SIGTERM" eventually says stops
kill -HUP "$pid"
sleep 3 # connections have ended; the disk has not
kill -HUP "$pid"
wait "$pid"
check "it stops all the same" test $? = 0
pid=
check "it looks at nothing" bash -c "! grep '$nqn:two' log"
wait $bench

# bench does not take a run for a good one whose target has ended meanwhile.
interrupted()
{
    bench -t 60 >bench.log 2>&1 &
    local run=$! status
    sleep 0.5
    kill "-$1" "$pid"
    wait "$run"
    status=$?
    wait "$pid" 2>>bench.log
    pid=
    [ $status = 1 ] && grep -q 'queue 1 has ended' bench.log || { cat bench.log; return 1; }
}
for signal in KILL TERM; do
    start -l 127.0.0.1:0 -q $nqn:one -n ram:1M
    check "bench: the target ends, SIG$signal" interrupted $signal
done

# A daemon without standard descriptors: none of them becomes a loop's, a disk's or a socket's.
"$nvmf" -l 127.0.0.1:0 -q $nqn:one -n ram:1M --metrics "$figures" <&- 2>&- >log &
pid=$!
check "starts without standard descriptors" eventually status 'iwarp-nvmf'
stop

# TLS: by a key; hosts without it, and with another one, are turned away.
echo "disks:$(openssl rand -hex 32)" >psk && chmod 600 psk
echo "disks:$(openssl rand -hex 32)" >wrong && chmod 600 wrong
check "TLS: no such file" fails 1 'TLS: .*missing' "$nvmf" -l 127.0.0.1:0 -q $nqn:one -n ram:1M --tls psk=missing
start -l 127.0.0.1:0 -q $nqn:one -n ram:1M --tls psk=psk
check "TLS: bench reads" bench -T psk=psk
check "TLS: a host without it" fails 1 . "$nvmf" bench -a "127.0.0.1:$(port_of)" -q $nqn:one -t 1
check "TLS: the log says so" eventually says TLS_PLAIN
sleep 1.1 # such lines come once a second
check "TLS: a host with another key" fails 1 . "$nvmf" bench -a "127.0.0.1:$(port_of)" -q $nqn:one -t 1 -T psk=wrong
check "TLS: the log says so, too" eventually says TLS_PSK_KEY
stop
printf '{"listen": "127.0.0.1:0", "tls": "psk=psk",\n "subsystems": [%s]}\n' "$one" >nvmf.json
start --config nvmf.json
check "TLS: by the file" bench -T psk=psk
stop

# systemd: a socket that is there, READY, the watchdog.
systemd()
{
    perl -MIO::Socket::INET -MIO::Socket::UNIX -MSocket -MPOSIX -e '
        my ($program, $nqn) = @ARGV;
        my $note = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => "notify") or die;
        my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 5) or die;
        my $port = $l->sockport;
        my $pid = fork;
        if (!$pid) {
            POSIX::dup2(fileno $l, 3) if fileno $l != 3;
            $^F = 3;
            fcntl(STDIN, 0, 0);
            $ENV{LISTEN_PID} = $$; $ENV{LISTEN_FDS} = 1;
            $ENV{NOTIFY_SOCKET} = "notify"; $ENV{WATCHDOG_USEC} = 200000; $ENV{WATCHDOG_PID} = $$;
            open my $three, "<&=", 3;
            fcntl($three, 2, 0);
            exec $program, "--nqn", "$nqn:one", "--ns", "ram:1M";
        }
        my (%seen, $text);
        $SIG{ALRM} = sub { kill 9, $pid; die "no more is heard\n" };
        alarm 60;
        while (($seen{"WATCHDOG=1"} // 0) < 3) { recv $note, $text, 999, 0; $seen{$_}++ for split /\n/, $text }
        die "not ready" unless $seen{"READY=1"};
        system($program, "bench", "-a", "127.0.0.1:$port", "-q", "$nqn:one", "-t", "1") == 0 or die;
        kill 1, $pid;
        do { recv $note, $text, 999, 0 } until $text =~ /STATUS=looks/;
        kill 15, $pid;
        do { recv $note, $text, 999, 0 } until $text =~ /STOPPING=1/;
        waitpid $pid, 0;
        exit $? >> 8' "$nvmf" $nqn
}
check "systemd: two sockets" fails 1 'systemd gives 2 sockets' bash -c \
    'LISTEN_PID=$$ LISTEN_FDS=2 exec "$1" -l 127.0.0.1:0 -q "$2" -n ram:1M' - "$nvmf" $nqn:one
check "systemd: its socket, READY=1, WATCHDOG=1, STOPPING=1" systemd

echo "1..$number"
exit $failed
