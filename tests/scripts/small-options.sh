#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 100
#
# The command lines of iwarp-stat and iwarp-link: what is wrong is named in one line, with status 2, and
# nothing is done; help and version go to standard output, and it is an error if that cannot be written.
set -u
: "${BUILD:?where the build is}" "${TMPDIR:?a scratch directory}"
. tests/support/check.bash
stat=$BUILD/bin/iwarp-stat link=$BUILD/bin/iwarp-link net=$TMPDIR/net

# says STATUS LINE COMMAND...: ends with that, says just that on standard error, and nothing elsewhere
says()
{
    local want=$1 line=$2 status
    shift 2
    timeout 20 "$@" >"$TMPDIR/out" 2>"$TMPDIR/err"
    status=$?
    cat "$TMPDIR/err"
    [ $status = "$want" ] || { echo "status $status, not $want"; return 1; }
    [ "$(cat "$TMPDIR/err")" = "$line" ] && [ ! -s "$TMPDIR/out" ]
}

# refuses PROGRAM WHAT WHY ARGUMENT...
refuses()
{
    local name=${1##*/}
    says 2 "$name: $2: $3; see $name --help" "$1" "${@:4}"
}

# tells REGEX COMMAND...: on standard output only, with status 0
tells()
{
    local text=$1
    shift
    timeout 20 "$@" >"$TMPDIR/out" 2>"$TMPDIR/err" && [ ! -s "$TMPDIR/err" ] && grep -Eq -- "$text" "$TMPDIR/out"
}

for program in "$stat" "$link"; do
    name=${program##*/}
    for option in -h --help; do
        check "$name $option" tells "$name .*(OPTION|PATH)" "$program" $option
    done
    for option in -V --version; do
        check "$name $option" tells "^$name [0-9]+\.[0-9]+" "$program" $option
    done
    check "$name --help to a full disk" says 1 "$name: standard output: it cannot be written" \
        sh -c '"$1" --help >/dev/full' - "$program"
    check "$name --version to a full disk" says 1 "$name: standard output: it cannot be written" \
        sh -c '"$1" --version >/dev/full' - "$program"
    check "$name: unknown long option" refuses "$program" --fast "no such option" --fast
    check "$name: unknown short option" refuses "$program" -x "no such option" -x "$net"
    check "$name: value of an option without one" refuses "$program" --help=x "it takes no value" --help=x
done

check "iwarp-stat: nobody" refuses "$stat" "whose connections" "a process or a place is missing"
check "iwarp-stat: two" refuses "$stat" 2 "one process or place at a time" 1 2
check "iwarp-stat: -i without value" refuses "$stat" -i "it needs a value" -i
check "iwarp-stat: --count without value" refuses "$stat" --count "it needs a value" --count
for value in 0.01 3601 1x x '' nan -1; do
    check "iwarp-stat: interval '$value'" refuses "$stat" "$value" "not a number of seconds from 0.05 to 3600" \
        "--interval=$value" 1
done
for value in -1 3x x '' 1.5 99999999999999999999; do
    check "iwarp-stat: count '$value'" refuses "$stat" "$value" "not a number from 0 to 999999999" "--count=$value" 1
done
for value in 127.0.0.1 127.0.0.1: 127.0.0.1:0 127.0.0.1:80x 127.0.0.1:65536 127.0.0.1:-1 localhost:80 12x ''; do
    check "iwarp-stat: place '$value'" refuses "$stat" "$value" "not a process, unix:PATH or 127.0.0.1:PORT" "$value"
done
check "iwarp-stat: no path" refuses "$stat" unix: "the path is missing" unix:
long=unix:/$(printf 'a%.0s' {1..200})
check "iwarp-stat: too long a path" refuses "$stat" "$long" "the path is too long" "$long"
check "iwarp-stat: no such process" says 1 "iwarp-stat: 999999999: no such process" "$stat" 999999999
check "iwarp-stat: nothing there" says 1 "iwarp-stat: unix:/nowhere: No such file or directory" "$stat" -- unix:/nowhere
check "iwarp-stat: a process without it" says 1 \
    "iwarp-stat: $$: it was started without IWARP_METRICS, see iwarp_env(7)" "$stat" $$

# Somebody who answers twice as iwarp-bench with so many connections would, the octets grow by 1000 each.
answers()
{
    python3 - "$TMPDIR/many" 9000 <<'END' &
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(1)
for look in 1, 2:
    peer, _ = listener.accept()
    peer.recv(4096)
    peer.sendall(b'HTTP/1.0 200 OK\r\n\r\n' + b''.join(
        b'device=0 qp=%u peer=192.0.2.1 port=%u state=established tls=no sent=%u received=7 fpdus_out=1 '
        b'fpdus_in=1 sq=0 waited=0 fault=NONE\n' % (i, i, 1000 * look) for i in range(int(sys.argv[2]))))
    peer.close()
END
    for _ in {1..100}; do [ -S "$TMPDIR/many" ] && break; sleep 0.1; done
    timeout 60 "$stat" -n 2 -i 0.05 "unix:$TMPDIR/many" >"$TMPDIR/out" 2>"$TMPDIR/err" && [ ! -s "$TMPDIR/err" ] &&
        [ "$(grep -c ' established ' "$TMPDIR/out")" = 18000 ] && tail -n 1 "$TMPDIR/out" | awk '{ exit !($7 > 0) }'
}
check "iwarp-stat: many connections, with their rates" answers
# A process that is watched may be anybody's: what it says must not reach the terminal as it is.
obeys()
{
    env -i IWARP_METRICS=$'unix:/nowhere\e[2J' sleep 30 &
    for _ in {1..100}; do grep -qa '^IWARP_METRICS=unix:/nowhere' "/proc/$!/environ" && break; sleep 0.1; done
    timeout 20 "$stat" $! 2>"$TMPDIR/err"
    kill $!
    grep -Fx 'iwarp-stat: unix:/nowhere?[2J: No such file or directory' "$TMPDIR/err"
}
check "iwarp-stat: an escape sequence" obeys
check "iwarp-link: no path" refuses "$link" PATH "it is missing" --loss 1%
check "iwarp-link: two paths" refuses "$link" b "there is one PATH only" "$net" b
check "iwarp-link: --loss without value" refuses "$link" --loss "it needs a value" --loss
for option in loss reorder duplicate; do
    for value in 2 101% -0.1 1x x '' nan; do
        check "iwarp-link: $option '$value'" refuses "$link" "$value" "not a probability, as 0.01 or 1%" \
            "$net" "--$option=$value"
    done
done
for value in -1 5ms 10000001 '' x; do
    check "iwarp-link: delay '$value'" refuses "$link" "$value" "not a number of microseconds up to 10000000" \
        "$net" "--delay=$value"
done
for value in 0 1K 10Mb -1 1001G 99999999999999999999 ''; do
    check "iwarp-link: rate '$value'" refuses "$link" "$value" \
        "not bits a second, as 1000000, 100M or 1G, up to 1000G" "$net" "--rate=$value"
done
check "iwarp-link: seed" refuses "$link" 7x "not a number" "$net" --seed 7x
check "iwarp-link made nothing" test ! -e "$net"
echo precious >"$TMPDIR/file"
check "iwarp-link: a file is there" says 1 "iwarp-link: $TMPDIR/file: Address already in use" "$link" "$TMPDIR/file"
check "iwarp-link: the file stays" test "$(cat "$TMPDIR/file")" = precious
starts()
{
    local pid i
    "$link" --loss 1% --rate 1G -- "$net" >"$TMPDIR/out" 2>"$TMPDIR/err" &
    pid=$!
    for ((i = 0; i < 100; i++)); do
        [ ! -s "$TMPDIR/out" ] || break
        sleep 0.1
    done
    kill -TERM $pid && wait $pid && [ "$(cat "$TMPDIR/out")" = "iwarp-link: $net" ] && [ ! -e "$net" ]
}
check "iwarp-link runs until a signal" starts
echo "1..$number"
exit $failed
