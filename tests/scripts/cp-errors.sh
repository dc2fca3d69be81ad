#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 1800
#
# iwarp-cp where things go wrong: each is one sentence that says what to do, an exit status, and
# within bounded time.  What is not an iWARP server is played by perl, which every Debian has.
set -u
# With mounts of its own, where that is allowed: none of them can be left behind.
if [ -z "${own_mounts-}" ] && unshare -m true 2>/dev/null; then
    own_mounts=1 exec unshare -m "$0"
fi
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
    : >port.out
    perl -MIO::Socket::INET -e '
        $| = 1;
        my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 5) or die;
        print $l->sockport, "\n";
        while (my $c = $l->accept) { '"$1"' }' >port.out 2>/dev/null &
    children+=("$!")
    eventually test -s port.out
    port=$(cat port.out)
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
check "options are named as typed" fails 2 "^iwarp-cp: --allow 10.0.0.1/8: not a" \
    "$cp" serve --allow 10.0.0.1/8 .
check "--help" bash -c '"$1" --help | grep -q "iwarp-cp serve"' - "$cp"
check "--version" bash -c '"$1" --version | grep -Eq "^iwarp-cp [0-9]+\.[0-9]+"' - "$cp"
check "serve --version" bash -c '"$1" serve --version | grep -Eq "^iwarp-cp [0-9]+\.[0-9]+"' - "$cp"
check "-V of a command" bash -c '"$1" ls -V | grep -Eq "^iwarp-cp [0-9]+\.[0-9]+"' - "$cp"

# output that cannot be written: status 1 and a line
no_output()
{
    timeout "$patience" "$@" >/dev/full 2>client.err
    [ $? = 1 ] && grep -q '^iwarp-cp: standard output: it cannot be written; ' client.err &&
        [ "$(wc -l <client.err)" = 1 ]
}
closed_output()
{
    timeout "$patience" "$@" >&- 2>client.err
    [ $? = 1 ] && grep -q '^iwarp-cp: standard output: it cannot be written; ' client.err
}
check "--help to a full disk" no_output "$cp" --help
check "--version to a full disk" no_output "$cp" --version
check "help of a command to a full disk" no_output "$cp" put --help
check "serve with its address to a full disk" no_output "$cp" serve --listen 127.0.0.1:0 export
check "--version to nowhere" closed_output "$cp" --version

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
listen_as 'read $c, $_, 44; print $c "MPA ID Rep Frame", pack("CCn", 0x50, 2, 4), pack("nn", 0x8001, 0x4001);
    push @keep, $c;'
check "an iWARP server that is another program" within 60 fails 3 "not as iwarp-cp does" \
    "$cp" ls "iwarp://127.0.0.1:$port/"

# the server's own start
check "not a directory" fails 1 "No such file" "$cp" serve nothing
check "IWARP_ALLOW is no network" fails 1 "correct IWARP_ALLOW" env IWARP_ALLOW=here "$cp" serve --listen 127.0.0.1:0 export
check "all addresses need a choice" fails 2 "nothing is encrypted" "$cp" serve --listen 0.0.0.0:0 export
check "IPv6 too" fails 2 "nothing is encrypted" "$cp" serve --listen '[::]:0' export
serve export
check "address in use" fails 1 "in use" "$cp" serve --listen "$address" export
mkfifo fifo export/fifo
check "get onto a FIFO" fails 1 "neither a file nor a directory" "$cp" get "iwarp://$address/file" fifo
check "put onto a FIFO" fails 1 "neither a file nor a directory" "$cp" put hello "iwarp://$address/fifo"
check "both are FIFOs still" test -p fifo -a -p export/fifo
ln -s fifo to-fifo
ln -s fifo export/to-fifo
ln -s /proc/self/fd/1 to-output
check "get onto a link to a FIFO" fails 1 "it is a FIFO" "$cp" get "iwarp://$address/file" to-fifo
check "put onto a link to a FIFO" fails 1 "it is a FIFO" "$cp" put hello "iwarp://$address/to-fifo"
check "get onto a link of /proc" fails 1 "it is a symbolic link" "$cp" get "iwarp://$address/file" to-output
check "they are links still" test -L to-fifo -a -L export/to-fifo -a -L to-output
rm fifo export/fifo to-fifo export/to-fifo to-output
stop
serve --allow 192.0.2.0/24 export
check "client that is not allowed" fails 3 "its --allow covers" "$cp" ls "iwarp://$address/"
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
check "an empty name here" fails 1 "^iwarp-cp: '': no such file" "$cp" put '' "$url/x"
check "no such file there" fails 1 "at the server, no such file" "$cp" get "$url/nothing" x
check "a name with a line feed and an escape" fails 1 'a\\012b\\033c' "$cp" get "$url/a%0ab%1bc" x
check "ls of nothing" fails 1 "no such file" "$cp" ls "$url/nothing"
check "directory without -r" fails 1 "add -r" "$cp" get "$url/dir" x
check "put of a directory without -r" fails 1 "add -r" "$cp" put tree "$url/x"
mkdir plain
echo a >plain/a
check "a tree over a file" fails 1 "not a directory" "$cp" put -r plain "$url/file"
mkdir export/dir/hello
check "a file over a directory" fails 1 "at the server, a directory has that name" "$cp" put hello "$url/dir"
rmdir export/dir/hello
mkdir -p has/file
check "a file over a directory here" fails 1 "^iwarp-cp: has/file: a directory has that name" "$cp" get "$url/file" has
check "a way up, even one that stays inside" fails 1 "leads out" "$cp" put hello "$url/dir/../dir/x"
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

# output again
check "ls to a full disk" no_output "$cp" ls "$url/"
mkdir export/many
(cd export/many && seq -f 'a-name-that-fills-the-buffer-of-standard-output-%g' 200 | xargs touch)
check "a long ls to a full disk" no_output "$cp" ls "$url/many"
check "ls in JSON to a full disk" no_output "$cp" ls --json "$url/"
check "put in JSON to a full disk" no_output "$cp" put --json hello "$url/full"
check "but the copy was made" cmp hello export/full
check "get in JSON to a full disk" no_output "$cp" get --json "$url/file" full
# What is closed must not become the file that is being written.
check "get in JSON to nowhere" closed_output "$cp" get --json "$url/file" nowhere
check "is the file and nothing else" cmp export/file nowhere
check "get with nothing open" bash -c '"$1" get "$2/file" closed <&- >&- 2>&-' - "$cp" "$url"
check "is the file, too" cmp export/file closed
rm -r export/many

# hints: what is at the server is nothing to do with what is missing here
check "missing here: its own hint" fails 1 "nothing: no such file or directory; check the name$" \
    "$cp" put nothing "$url/x"
check "missing here, of several" bash -c '! "$1" put hello nothing "$2/some/" 2>&1 | grep -q "iwarp-cp ls"' - \
    "$cp" "$url"
check "no place here: its own hint" fails 1 "no such file or directory; check the name$" \
    "$cp" get "$url/file" no/such/dir/x
check "missing there: the hint to look" fails 1 "iwarp-cp ls shows" "$cp" get "$url/nothing" x

# special files that were asked for
mkfifo pipe
perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => "socket", Listen => 1) or die'
check "put of a FIFO" fails 1 "^iwarp-cp: pipe: it is a FIFO" "$cp" put pipe "$url/special/x"
check "put of a socket" fails 1 "^iwarp-cp: socket: it is a socket" "$cp" put socket "$url/special/x"
check "put -r of a FIFO" fails 1 "^iwarp-cp: pipe: it is a FIFO" "$cp" put -r pipe "$url/special/"
check "nothing was made for them" test ! -e export/special
check "put of a FIFO, of several" fails 1 "^iwarp-cp: pipe: it is a FIFO" "$cp" put hello pipe "$url/special/"
check "the others are there" test "$(ls export/special)" = hello
mkfifo export/pipe
check "get of a FIFO" fails 1 "pipe: at the server, it is a FIFO" "$cp" get "$url/pipe" x
rm export/pipe
cp socket tree/ 2>/dev/null || mv socket tree/
"$cp" put -r --json tree "$url/special" >client.out 2>client.err
check "in a tree they are no failure" test $? = 0
check "but a note" test "$(cat client.err)" = "iwarp-cp: 3 symbolic links or special files left out"
check "and in JSON" grep -Fxq \
    '{"type":"skipped","name":"tree/pipe","reason":"it is a FIFO, neither a file nor a directory"}' client.out
check "and counted" grep -q '"summary","ok":true,.*"skipped":3,' client.out
rm tree/socket

# two sources of one name
mkdir -p one/same two
echo 1 >one/x
echo 2 >two/x
check "two of one name" fails 2 "two/x: its copy would replace that of one/x" "$cp" put one/x two/x "$url/dup/"
check "two of one name, one between" fails 2 "two/x: its copy" "$cp" put one/x hello two/x "$url/dup/"
check "the same twice" fails 2 "one/x: its copy would" "$cp" put one/x one/x "$url/dup/"
check "a tree and its name by ." bash -c \
    'cd one/same && "$1" put -r . ../same/ "$2/dup/" 2>&1 | grep -q "its copy would replace"' - "$cp" "$url"
check "nothing was sent" test ! -e export/dup

# names kept for unfinished copies
echo mine >.iwarp-cp.mine
mkdir -p reserved/.iwarp-cp.dir
echo 1 >reserved/a
echo 2 >reserved/.iwarp-cp.b
check "put of a reserved name" fails 1 "\.iwarp-cp\.mine: names that begin with" "$cp" put .iwarp-cp.mine "$url/r/"
check "put of a reserved name to another one" fails 1 "names that begin with" "$cp" put .iwarp-cp.mine "$url/r/x"
check "put to a reserved name" fails 1 "at the server, names that begin" "$cp" put hello "$url/.iwarp-cp.x"
check "put into a reserved directory" fails 1 "at the server, names that begin" "$cp" put hello "$url/.iwarp-cp.d/"
check "put below a reserved directory" fails 1 "at the server, names that" "$cp" put hello "$url/.iwarp-cp.d/x"
check "nothing was made" test -z "$(find export -name '.iwarp-cp*' -o -name r)"
check "get to a reserved name" fails 1 "^iwarp-cp: \./\.iwarp-cp\.y: names that" "$cp" get "$url/file" ./.iwarp-cp.y
check "get of a reserved name" fails 1 "at the server, names that" "$cp" get "$url/.iwarp-cp.y" y
check "nothing came" test ! -e .iwarp-cp.y -a ! -e y
"$cp" put -r --json reserved "$url/reserved" >client.out 2>client.err
check "in a tree they are no failure either" test $? = 0
check "but a note of their own" \
    test "$(cat client.err)" = "iwarp-cp: 2 names that begin with .iwarp-cp. left out"
check "in JSON, too" grep -Fq '{"type":"skipped","name":"reserved/.iwarp-cp.dir","reason":"names that' client.out
check "and are counted" grep -q '"summary","ok":true,.*"files":1,.*"skipped":2,' client.out
check "the rest is there" test "$(ls -A export/reserved)" = a
cp reserved/.iwarp-cp.b export/reserved
"$cp" get -r --json "$url/reserved" reserved-back >client.out 2>client.err
check "get of a tree: status" test $? = 0
check "get of a tree: a note" test "$(cat client.err)" = "iwarp-cp: 1 name that begins with .iwarp-cp. left out"
check "get of a tree: counted" grep -q '"summary","ok":true,.*"skipped":1,' client.out
check "get of a tree: the rest" test "$(ls -A reserved-back)" = a
mkdir export/reserved/sub
cp reserved/.iwarp-cp.b export/reserved/sub
check "ls of a tree: where it is" bash -c \
    '"$1" ls -r --json "$2/reserved" 2>/dev/null | grep -Fq "\"name\":\"sub/.iwarp-cp.b\",\"reason\":"' - "$cp" "$url"
rm -r export/reserved .iwarp-cp.mine

# one of several
"$cp" put hello nothing tree/a "$url/some" >client.out 2>client.err
check "one of several: status" test $? = 1
check "one of several: one line" test "$(wc -l <client.err)" = 1
check "one of several: the others" cmp tree/a export/some/a
check "JSON of a failure" bash -c \
    '"$1" get --json "$2/nothing" x 2>/dev/null | grep -q "\"ok\":false,\"error\":\"no such file"' - "$cp" "$url"
stop

# what clients call things does not get to the terminal of the server
serve --verbose export
"$cp" get "iwarp://$address/a%0ab%1b%5b31mc%9b%c2%9bd%c3%a9" x >/dev/null 2>&1
logged()
{
    grep -Fq '/a\012b\033[31mc\233\302\233d'$'\xc3\xa9'': ' server.err
}
check "the log of the server is escaped" eventually logged
check "and has one line" test "$(wc -l <server.err)" = 1
check "errors of the client are escaped" fails 1 '^iwarp-cp: a\\012b\\033\[31mc\\233\\302\\233d'$'\xc3\xa9'':' \
    "$cp" get "iwarp://$address/a%0ab%1b%5b31mc%9b%c2%9bd%c3%a9" x
check "errors about files here, too" fails 1 '^iwarp-cp: no\\033file:' "$cp" put $'no\033file' "iwarp://$address/x"
stop

# limits.  Slow enough to be in the middle of it; little of it is ever written.
slow=(--depth 1 --block 4096 --checksum)
truncate -s 300000000 slow
held()
{
    "$cp" put "${slow[@]}" slow "iwarp://$address/held" "$@" >client.out 2>client.err &
    client=$!
    children+=("$client")
    eventually receives "$server"
}
serve --max-connections 1 export
check "a client is being served" held
kill -STOP $client
check "one client too many" fails 3 "as many connections" "$cp" ls "iwarp://$address/"
kill -KILL $client
check "its place becomes free" eventually "$cp" ls "iwarp://$address/"
stop

serve --max-connections 1 --idle 1 export
check "a client is being served that stalls" held
kill -STOP $client
check "it is let go" eventually "$cp" ls "iwarp://$address/"
check "and leaves nothing half done" test ! -e export/held
check "nor hidden" no_leftovers export
kill -CONT $client
wait_for $client
check "it is told" test $? = 4
stop

serve export
check "a server that stalls: in the middle" held --timeout 2
kill -STOP "$server"
wait_for $client
check "a server that stalls: status" test $? = 4
check "a server that stalls: sentence" grep -q "nothing came from the server for 2 s" client.err
kill -CONT "$server"
check "the server goes on after that" succeeds "$cp" ls "iwarp://$address/"

# without descriptors: at once and in a sentence, whichever is the one that is missing
few_descriptors()
{
    local n refused=0 status
    for n in 5 6 7 8 9 10 11 12 13 14 15 16 20 24; do
        (ulimit -n $n && exec timeout "$patience" "$cp" get "iwarp://$address/file" few) >client.out 2>client.err
        status=$?
        if [ $status != 0 ]; then
            refused=$((refused + 1))
            [ $status = 1 ] || [ $status = 3 ] || { echo "$n: status $status"; return 1; }
            grep -Eq '^iwarp-cp: .+: .+; .' client.err && [ "$(wc -l <client.err)" = 1 ] ||
                { echo "$n: $(cat client.err)"; return 1; }
        fi
    done
    # The first cannot be enough, the last is.
    [ $refused != 0 ] && [ $status = 0 ] || { echo "$refused refused, at last $status"; return 1; }
}
check "a client without descriptors" few_descriptors
stop
few_at_the_server()
{
    local n served=0
    for n in 8 9 10 11 12 13 14 15 16 17 18 19 20 22 24; do
        : >few.out # what the last one said is not to be taken for what this one says
        (ulimit -n $n && exec "$cp" serve --listen 127.0.0.1:0 export) >few.out 2>few.err &
        few=$!
        children+=("$few")
        while ! grep -q 'listening on' few.out && kill -0 $few 2>/dev/null; do sleep 0.05; done
        if ! kill -0 $few 2>/dev/null; then
            grep -Eq '^iwarp-cp: .+: .+; .' few.err || { echo "$n: $(cat few.err)"; return 1; }
            continue
        fi
        port=$(sed -n 's/^listening on .*://p' few.out)
        if timeout "$patience" "$cp" get --timeout 2 "iwarp://127.0.0.1:$port/file" few >client.out 2>client.err; then
            served=$((served + 1))
        elif [ "$(grep -Ec '^iwarp-cp: .+: .+; .' client.err)" != 1 ]; then
            echo "$n: $(cat client.err)"
            return 1
        fi
        kill -TERM $few
        wait_for $few || { echo "$n: does not end"; return 1; }
    done
    [ $served != 0 ]
}
check "a server without descriptors" few_at_the_server

# full disk: a file system of 4 MiB where there may be one, else a limit on the size of files
truncate -s 20M large
head -c 1000 /dev/urandom >small
mkdir small-disk
if [ -n "${own_mounts-}" ] && mount -t tmpfs -o size=4m none small-disk 2>/dev/null; then
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
