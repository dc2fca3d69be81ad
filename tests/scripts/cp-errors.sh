#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# iwarp-cp where things go wrong: each is one sentence that says what to do, an exit status, and
# within bounded time.  What is not an iWARP server is played by perl, which every Debian has.
set -u
. tests/support/cp.bash

mkdir -p export/dir outside tree
echo inside >export/file
echo secret >outside/secret
ln -s ../outside export/out
ln -s ../outside/secret export/leak
ln -s dir export/inside
echo hello >hello
echo a >tree/a
ln -s a tree/link
mkfifo tree/pipe

# listen_as CODE: perl listens, runs CODE for each connection in $c; sets port
listen_as()
{
    local i
    : >port.out
    perl -MIO::Socket::INET -e '
        $| = 1;
        my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 5) or die;
        print $l->sockport, "\n";
        while (my $c = $l->accept) { '"$1"' }' >port.out 2>/dev/null &
    children+=("$!")
    for ((i = 0; i < 900; i++)); do
        port=$(cat port.out)
        [ -z "$port" ] || return 0
        sleep 0.1
    done
    return 1
}

# within SECONDS COMMAND...
within()
{
    local start=$EPOCHREALTIME limit_us=$(($1 * 1000000))
    shift
    "$@" || return 1
    [ $((${EPOCHREALTIME/./} - ${start/./})) -lt $limit_us ] || { echo "took too long"; return 1; }
}

# usage
check "no command" fails 2 "there are serve" "$cp"
check "unknown command" fails 2 "no such command" "$cp" copy
check "unknown option" fails 2 "no such option" "$cp" put --fast a iwarp://h/x
check "option of another command" fails 2 "for another command" "$cp" put --read-only a iwarp://h/x
check "option without value" fails 2 "needs a value" "$cp" serve . --listen
check "bad number" fails 2 "not a number from" "$cp" put --depth 0 a iwarp://h/x
check "bad network" fails 2 "not a network" "$cp" serve --allow 10.0.0.1/8 .
check "too few arguments" fails 2 "needs files" "$cp" put iwarp://h/x
check "bad URL" fails 2 "not a number from 0 to 65535" "$cp" ls iwarp://h:99999/x
check "too much memory" fails 2 "more than 64M" "$cp" ls --depth 64 --block 16M iwarp://h/
check "--help" bash -c '"$1" --help | grep -q "iwarp-cp serve"' - "$cp"
check "--version" bash -c '"$1" --version | grep -Eq "^iwarp-cp [0-9]+\.[0-9]+"' - "$cp"

# no connection
check "refused" within 60 fails 3 "Connection refused.*" "$cp" ls iwarp://127.0.0.1:1/
check "unknown host" within 60 fails 3 "" "$cp" ls iwarp://no-such-host.invalid/
listen_as 'print $c "HTTP/1.1 400 Bad Request\r\n\r\n"; close $c;'
check "a web server" within 60 fails 3 "not speaking MPA.*" "$cp" ls "iwarp://127.0.0.1:$port/"
listen_as 'close $c;'
check "a server that hangs up" within 60 fails 3 "" "$cp" ls "iwarp://127.0.0.1:$port/"
listen_as 'push @keep, $c;'
check "a silent server" within 60 fails 3 "MPA start-up.*" \
    "$cp" put --timeout 3 hello "iwarp://127.0.0.1:$port/x"
listen_as 'read $c, $_, 44; print $c "MPA ID Rep Frame", pack("CCn", 0x50, 2, 4), pack("nn", 1, 1);
    push @keep, $c;'
check "an iWARP server that is another program" within 60 fails 3 "not as iwarp-cp does" \
    "$cp" ls "iwarp://127.0.0.1:$port/"

# the server's own start
check "not a directory" fails 1 "No such file" "$cp" serve nothing
check "all addresses need a choice" fails 2 "nothing is encrypted" "$cp" serve --listen 0.0.0.0:0 export
check "IPv6 too" fails 2 "nothing is encrypted" "$cp" serve --listen '[::]:0' export
serve export
check "address in use" fails 1 "in use" "$cp" serve --listen "$address" export
mkfifo fifo export/fifo
check "get onto a FIFO" fails 1 "neither a file nor a directory" "$cp" get "iwarp://$address/file" fifo
check "put onto a FIFO" fails 1 "neither a file nor a directory" "$cp" put hello "iwarp://$address/fifo"
check "both are FIFOs still" test -p fifo -a -p export/fifo
rm fifo export/fifo
stop
serve --allow 192.0.2.0/24 export
check "client that is not allowed" fails 3 "does not allow" "$cp" ls "iwarp://$address/"
stop
serve --read-only export
check "read-only: put" fails 1 "read-only" "$cp" put hello "iwarp://$address/x"
check "read-only: nothing was made" test ! -e export/x
check "read-only: get" succeeds "$cp" get "iwarp://$address/file" got
stop

# names
serve export
url=iwarp://$address
check "no such file here" fails 1 "no such file" "$cp" put nothing "$url/x"
check "no such file there" fails 1 "at the server, no such file" "$cp" get "$url/nothing" x
check "a name with a line feed and an escape" fails 1 'a\\012b\\033c' "$cp" get "$url/a%0ab%1bc" x
check "ls of nothing" fails 1 "no such file" "$cp" ls "$url/nothing"
check "directory without -r" fails 1 "add -r" "$cp" get "$url/dir" x
check "put of a directory without -r" fails 1 "add -r" "$cp" put tree "$url/x"
mkdir plain
echo a >plain/a
check "a tree over a file" fails 1 "not a directory" "$cp" put -r plain "$url/file"
check "a file over a directory" fails 1 "directory" "$cp" put -r hello "$url/dir/../dir"
for name in ../hello dir/../../hello out/secret leak out; do
    check "get of $name" fails 1 "" "$cp" get "$url/$name" escaped
    check "put to $name" bash -c '! "$1" put hello "$2" 2>/dev/null || [ -L export/leak ]' - \
        "$cp" "$url/$name/x"
    check "ls of $name" fails 1 "" "$cp" ls "$url/$name"
done
check "nothing escaped" test ! -e escaped
check "nothing got out" test "$(find outside -type f)" = outside/secret -a "$(cat outside/secret)" = secret
check "a link that stays inside" succeeds "$cp" put hello "$url/inside/x"
check "leads to its target" cmp hello export/dir/x
"$cp" put -r tree "$url/links" >client.out 2>client.err
check "links and pipes are left out" grep -q "2 symbolic links or special files left out" client.err
check "and the rest is there" test "$(ls export/links)" = a
check "get to a place that is not there" fails 1 "no such file" "$cp" get "$url/file" no/such/dir/x

# one of several
"$cp" put hello nothing tree/a "$url/some" >client.out 2>client.err
check "one of several: status" test $? = 1
check "one of several: one line" test "$(wc -l <client.err)" = 1
check "one of several: the others" cmp tree/a export/some/a
check "JSON of a failure" bash -c \
    '"$1" get --json "$2/nothing" x 2>/dev/null | grep -q "\"ok\":false,\"error\":\"no such file"' - "$cp" "$url"
stop

# limits
serve --max-connections 1 --idle 2 export
"$cp" put -r --depth 1 --block 4096 /usr/include "iwarp://$address/held" >/dev/null 2>&1 &
held=$!
children+=("$held")
eventually test -e export/held
check "the server is still busy" kill -STOP $held
check "one client too many" fails 3 "as many connections" "$cp" ls "iwarp://$address/"
check "a client that stalls is let go" eventually succeeds "$cp" ls "iwarp://$address/"
check "and leaves nothing half done" no_leftovers export
kill -CONT $held
wait $held
check "it is told" test $? = 4
stop

serve export
"$cp" put -r --timeout 2 --depth 1 --block 4096 /usr/include "iwarp://$address/stalled" >client.out 2>client.err &
client=$!
children+=("$client")
eventually test -e export/stalled
kill -STOP "$server"
wait_for $client
check "a server that stalls: status" test $? = 4
check "a server that stalls: sentence" grep -q "nothing came from the server for 2 s" client.err
kill -CONT "$server"
check "the server goes on after that" succeeds "$cp" ls "iwarp://$address/"
stop

# full disk: a file system of 4 MiB where there may be one, else a limit on the size of files
truncate -s 20M large
head -c 1000 /dev/urandom >small
mkdir small-disk
if mount -t tmpfs -o size=4m none small-disk 2>/dev/null; then
    serve small-disk
    check "full disk at the server" fails 1 "at the server, the disk is full" \
        "$cp" put large "iwarp://$address/large"
    check "leaves nothing" test -z "$(ls -A small-disk)"
    check "and takes what fits" succeeds "$cp" put small "iwarp://$address/small"
    mkdir pieces
    for i in 1 2 3 4 5 6 7 8; do head -c 900000 /dev/urandom >pieces/$i; done
    check "full disk in a tree: one line" fails 1 "at the server, the disk is full" \
        "$cp" put -r pieces "iwarp://$address/pieces"
    stop
    rm -rf small-disk/*
    serve .
    check "full disk here" fails 1 "large: the disk is full" "$cp" get "iwarp://$address/large" small-disk/large
    check "leaves nothing either" test -z "$(ls -A small-disk)"
    stop
    umount small-disk
else
    skip "full disk" "only root may mount a small file system"
fi
ulimit -S -f 1024
serve export
ulimit -S -f unlimited
check "a file beyond a limit" fails 1 "too large" "$cp" put large "iwarp://$address/large"
check "is not there" test ! -e export/large
check "and the server goes on" succeeds "$cp" put small "iwarp://$address/small"
check "the server ends in order" stop
finish
