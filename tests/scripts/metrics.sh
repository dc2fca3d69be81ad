#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 200
#
# IWARP_METRICS: what Prometheus and iwarp-stat get of a program that knows nothing of it; who may ask;
# what is left when it ends; what nobody is kept from by one who asks and goes away.
set -u
: "${BUILD:?where the build is}" "${TMPDIR:?a scratch directory}"
. tests/support/check.bash
if ! command -v python3 >/dev/null; then
    echo "python3 is not installed"
    exit 77
fi
bench=$BUILD/bin/iwarp-bench stat=$BUILD/bin/iwarp-stat
children=()
trap 'kill "${children[@]}" 2>/dev/null' EXIT

# get PATH: the answer of the client's process
get()
{
    python3 - "$socket" "$1" <<'END'
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(5)
s.connect(sys.argv[1])
s.sendall(f'GET {sys.argv[2]} HTTP/1.0\r\n\r\n'.encode())
while data := s.recv(65536):
    sys.stdout.write(data.decode())
END
}

IWARP_METRICS=unix:$TMPDIR/m.%p timeout 100 "$bench" active --count 3 --size 64K --seconds 30 >/dev/null 2>"$TMPDIR/err" &
children+=($!)
socket='' pid=''
for ((i = 0; i < 100; i++)); do
    for socket in "$TMPDIR"/m.*; do
        [ ! -S "$socket" ] || ! get /connections 2>/dev/null | grep -q ' state=established .* fpdus_out=[1-9][0-9][0-9]' ||
            { pid=${socket##*.}; break; }
    done
    [ -z "$pid" ] || break
    sleep 0.1
done

# In the format of Prometheus: each name with its type, all its values behind it, numbers that grow.
format()
{
    get /metrics >"$TMPDIR/one" && sleep 0.3 && get /metrics >"$TMPDIR/two" && python3 - "$TMPDIR/one" "$TMPDIR/two" <<'END'
import re, sys
def read(path):
    head, body = open(path, newline='').read().split('\r\n\r\n', 1)
    assert head.startswith('HTTP/1.0 200 OK') and f'Content-Length: {len(body.encode())}' in head, head
    values, types, last = {}, {}, None
    for line in body.splitlines():
        if line.startswith('# TYPE '):
            _, _, name, kind = line.split()
            assert name not in types, f'{name} twice'
            types[name], last = kind, name
        elif not line.startswith('# HELP '):
            name, labels, value = re.fullmatch(r'(\w+)\{((?:\w+="[^"]*",?)+)\} (\d+)', line).groups()
            assert name == last, f'{name} in the group of {last}'
            assert (name, labels) not in values
            values[name, labels] = int(value)
            assert name.endswith('_total') == (types[name] == 'counter'), name
    return values
one, two = read(sys.argv[1]), read(sys.argv[2])
assert one.keys() == two.keys() and len(one) > 50
for key in one:
    assert not key[0].endswith('_total') or two[key] >= one[key], key
sent = 'iwarp_payload_bytes_total', 'device="0",direction="sent"'
assert two[sent] > one[sent], 'nothing is sent'
assert two['iwarp_connections', 'device="0"'] == 3
END
}

shows()
{
    "$stat" -n 2 -i 0.3 "$pid" >"$TMPDIR/stat" && [ "$(grep -c '127.0.0.1:.* established ' "$TMPDIR/stat")" = 6 ] &&
        tail -n 1 "$TMPDIR/stat" | awk '{ exit !($7 ~ /[MG]$/) }' && return
    cat "$TMPDIR/stat"
    return 1
}

# One who connects and says nothing, one who goes in the middle, and one who says an octet now and then
patient()
{
    python3 - "$socket" <<'END'
import socket, sys, threading, time
silent = socket.socket(socket.AF_UNIX); silent.connect(sys.argv[1])
short = socket.socket(socket.AF_UNIX); short.connect(sys.argv[1]); short.sendall(b'GET /met'); short.close()
long = socket.socket(socket.AF_UNIX); long.connect(sys.argv[1])
try:
    long.sendall(b'x' * 100000)
except OSError:
    pass
slow = socket.socket(socket.AF_UNIX); slow.connect(sys.argv[1])
def trickle():
    try:
        while True:
            slow.sendall(b'x'); time.sleep(0.3)
    except OSError:
        pass
threading.Thread(target=trickle, daemon=True).start()
began = time.monotonic()
s = socket.socket(socket.AF_UNIX); s.settimeout(10); s.connect(sys.argv[1])
s.sendall(b'GET /metrics HTTP/1.0\r\n\r\n')
assert s.recv(12) == b'HTTP/1.0 200' and time.monotonic() - began < 5
END
}

# The server's process, whose child the client is, ends both.
ends()
{
    local i
    kill -TERM "$pid"
    for ((i = 0; i < 100; i++)); do
        kill -0 "$pid" 2>/dev/null || return 0
        sleep 0.1
    done
    return 1
}

# A path that a killed process has left is used again; one at which somebody answers is not.
stale()
{
    local socket=$TMPDIR/fixed
    for _ in 1 2; do
        IWARP_METRICS=unix:$socket timeout 20 "$bench" send --seconds 20 >/dev/null 2>&1 &
        children+=($!)
        for ((i = 0; i < 50; i++)); do get /metrics 2>/dev/null | grep -q '^iwarp_qps' && break; sleep 0.1; done
        get /metrics | grep -q '^iwarp_qps{device="0"} [1-9]' || return 1
        IWARP_LOG=warn IWARP_METRICS=unix:$socket "$bench" send --seconds 0.2 2>&1 | grep -q 'no statistics there: Address already in use' || return 1
        pkill -KILL -P $! 2>/dev/null
        kill -KILL $! 2>/dev/null
        wait $! 2>/dev/null
        [ -S "$socket" ] || return 1
    done
}

refused()
{
    IWARP_LOG=warn IWARP_METRICS=$1 "$bench" send --seconds 0.1 2>&1 | grep -q "IWARP_METRICS=$1: no statistics there"
}

check "a program that knows nothing of it" test -n "$pid"
check "the format of Prometheus" format
check "iwarp-stat shows connections and rates" shows
check "nobody is kept from asking for long" patient
check "a socket is its owner's alone" test "$(stat -c %a "$socket")" = 600
check "it ends like without" ends
check "a socket that was left behind" stale
other_file()
{
    echo precious >"$TMPDIR/file"
    refused "unix:$TMPDIR/file" && [ "$(cat "$TMPDIR/file")" = precious ]
}
check "a file that is none of ours stays" other_file
check "not beyond this machine" refused 0.0.0.0:9999
check "nonsense" refused nonsense
check "no directory" refused unix:/nowhere/at/all
check "iwarp-stat: no such place" sh -c "! '$stat' unix:/nowhere 2>&1 | grep -v 'iwarp-stat: unix:/nowhere: No such file'"
echo "1..$number"
exit $failed
