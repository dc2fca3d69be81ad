#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 600
#
# iwarp-cp and disks that take long (tests/preload/slow_disk): an end that reads or flushes many files,
# or one for long, is not taken for one that is dead; nor is one whose data takes long on its way.
# With --sync what a power cut may not undo is flushed, new directories included.
set -u
slow_disk=$(realpath "${BUILD:?where the build is}/tests/preload/slow_disk.so") || exit 1
. tests/support/cp.bash
export LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$slow_disk

mkdir -p export tree/sub away
(cd tree && for i in {1..60}; do echo "$i" >"$i"; done)
echo deep >tree/sub/deep

# All flushes together take several times as long as either end waits.
SLOW_SYNC_MS=60 serve --idle 2 export || exit 1
url=iwarp://$address
check "put: the server flushes longer than --timeout" succeeds "$cp" put -r --sync --timeout 2 tree "$url/tree"
check "put: is the same tree" same_tree tree export/tree
check "get: the client flushes longer than --idle" env SLOW_SYNC_MS=60 \
    timeout "$patience" "$cp" get -r --sync "$url/tree" back
check "get: is the same tree" same_tree tree back
check "get: the same for what is left when all has come" env SLOW_SYNC_MS=60 \
    timeout "$patience" "$cp" get -r --sync --depth 64 "$url/tree" at-once
check "get: is the same tree again" same_tree tree at-once
stop

# A single flush takes longer than either end waits.
mkdir few
cp -p tree/1 tree/2 few
SLOW_SYNC_MS=5000 serve --idle 2 export || exit 1
url=iwarp://$address
check "put: each flush takes longer than --timeout" succeeds "$cp" put --sync --timeout 2 tree/1 "$url/one"
check "put: is the same file" cmp tree/1 export/one
stop
serve --idle 2 export || exit 1
url=iwarp://$address
cp -rp few export
check "get: each flush takes longer than --idle" env SLOW_SYNC_MS=5000 \
    timeout "$patience" "$cp" get -r --sync --depth 1 "$url/few" few-back
check "get: is the same tree" same_tree few few-back
stop

# The same without --sync, where the source is slow.
SLOW_READ_MS=60 serve --idle 2 export || exit 1
url=iwarp://$address
check "put: the client reads longer than --idle" env SLOW_READ_MS=60 \
    timeout "$patience" "$cp" put -r tree "$url/read"
check "put: is the same tree" same_tree tree export/read
check "get: the server reads longer than --timeout" succeeds "$cp" get -r --timeout 2 "$url/read" read-back
check "get: is the same tree" same_tree tree read-back
stop

# flushed DIR...: each was
flushed()
{
    local dir missing=0
    grep -v deleted log
    for dir; do
        grep -Fxq "$work/$dir" log || { echo "$dir was not flushed"; missing=1; }
    done
    return $missing
}
SLOW_SYNC_LOG=log serve export || exit 1
url=iwarp://$address
check "put into new directories" succeeds "$cp" put -r --sync tree "$url/new/dirs/tree"
check "all that have a new name in them were flushed" \
    flushed export export/new export/new/dirs export/new/dirs/tree export/new/dirs/tree/sub
: >log
check "put of a file into a new directory" succeeds "$cp" put --sync tree/1 "$url/other/"
check "both were flushed" flushed export export/other
: >log
check "put without --sync" succeeds "$cp" put -r tree "$url/quick/tree"
check "flushes nothing" test ! -s log
stop
serve export || exit 1
url=iwarp://$address
: >log
check "get into a new directory" succeeds env SLOW_SYNC_LOG=log "$cp" get --sync "$url/tree/sub/deep" away/new/
check "both were flushed here" flushed away away/new
: >log
check "get of a tree" succeeds env SLOW_SYNC_LOG=log "$cp" get -r --sync "$url/tree" away/tree
check "all of it was flushed here" flushed away away/tree away/tree/sub
stop

# A way of 1 MB a second, so that each slot takes longer than either end waits.
cat >way.py <<'END'
import socket, sys, threading, time
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
listener.bind(('127.0.0.1', 0))
listener.listen()
print(listener.getsockname()[1], flush=True)
def carry(source, sink):
    while data := source.recv(50000):
        sink.sendall(data)
        time.sleep(len(data) / 1e6)
    sink.shutdown(socket.SHUT_WR)
while True:
    near = listener.accept()[0]
    far = socket.socket()
    far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    far.connect(('127.0.0.1', int(sys.argv[1])))
    for ends in (near, far), (far, near):
        threading.Thread(target=carry, args=ends, daemon=True).start()
END
# far SERVE-OPTION...: a server at the end of that way
far()
{
    serve --block 8M "$@" export || exit 1
    : >way.port
    python3 way.py "${address##*:}" >way.port 2>/dev/null &
    children+=("$!")
    check "a slow way" eventually test -s way.port
    url=iwarp://127.0.0.1:$(cat way.port)
}
head -c 9000000 /dev/urandom >large
far --idle 2
check "put: a slot is longer on its way than --timeout and --idle" \
    succeeds "$cp" put --timeout 2 --block 8M large "$url/large"
check "put: is the same file" cmp large export/large
stop
# What is in buffers of the kernel moves no more for the server: it has time for that.
far --idle 20
cp large export/large
check "get: a slot is longer on its way than --timeout" \
    succeeds "$cp" get --timeout 2 --block 8M "$url/large" back-large
check "get: is the same file" cmp large back-large
stop
finish
