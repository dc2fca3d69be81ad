#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 1200
#
# iwarp-cp from end to end, where everything goes well: trees, names of all kinds, every way to say
# where to, every option of the connection.
set -u
. tests/support/cp.bash

mkdir export tree tree/sub tree/sub/empty 'tree/with space'
printf hello >tree/hello
: >tree/nothing
head -c 3000000 /dev/urandom >tree/sub/large
echo x >'tree/with space/ leading and trailing '
echo x >$'tree/new\nline'
echo x >$'tree/\xc3\xa9t\xc3\xa9'
echo x >$'tree/not-utf8-\xff\xfe'
echo x >'tree/-r'
echo x >'tree/*?"\'
echo x >"tree/$(printf 'n%.0s' {1..255})"
chmod 755 tree/hello
chmod 400 tree/nothing
touch -d '2001-02-03 04:05:06.789' tree/sub/large tree/sub/empty
chmod 500 tree/sub/empty
mkdir tree/anybody tree/group
chmod 1777 tree/anybody
chmod 2750 tree/group

# 3000 files of 100 to 8000 octets
mkdir many
head -c 8000 /dev/urandom >pattern
perl -e '
    open my $f, "<:raw", "pattern" or die; read $f, my $pattern, 8000;
    for my $i (0 .. 2999) {
        my $dir = "many/" . int($i / 100);
        -d $dir or mkdir $dir or die;
        open my $out, ">:raw", "$dir/$i" or die;
        print $out substr $pattern, 0, 100 + $i * 37 % 7900;
    }'
check "there are 3000 small files" test "$(find many -type f | wc -l)" = 3000

serve export || exit 1
url=iwarp://$address

check "put of a tree" succeeds "$cp" put -r tree "$url/tree"
check "is the same tree" same_tree tree export/tree
check "get of a tree" succeeds "$cp" get -r "$url/tree" back
check "is the same tree again" same_tree tree back
check "put over what is there" succeeds "$cp" put -r tree "$url/tree"
check "is still the same tree" same_tree tree export/tree
check "get over what is there" succeeds "$cp" get -r "$url/tree" back
check "is the same tree after that" same_tree tree back
check "nothing else is left" no_leftovers export
check "with checksums" succeeds "$cp" put -r --checksum tree "$url/sums"
check "put with checksums is the same" same_tree tree export/sums
check "get with checksums" succeeds "$cp" get -r -c "$url/sums" sums
check "get with checksums is the same" same_tree tree sums
check "on stable storage" succeeds "$cp" put --sync tree/sub/large "$url/synced"
check "get on stable storage" succeeds "$cp" get --sync "$url/synced" synced
check "is the same file" cmp tree/sub/large synced

check "3000 small files" succeeds "$cp" put -r many "$url/many"
check "are the same" same_tree many export/many
check "3000 small files back" succeeds "$cp" get -r "$url/many" many-back
check "are the same again" same_tree many many-back
mkdir void
check "an empty tree" succeeds "$cp" put -r void "$url/void"
check "arrives empty" same_tree void export/void
check "an empty tree back" succeeds "$cp" get -r "$url/void" void-back
check "arrives empty again" same_tree void void-back

# what a directory has there stays: without it anybody may remove the files of others
mkdir -p export/shared/anybody plain-tree/anybody plain-tree/new
chmod 1777 export/shared/anybody
chmod 2755 export/shared
chmod 777 plain-tree/anybody
chmod 4755 plain-tree
echo program >plain-tree/program
chmod 6755 plain-tree/program
check "a tree over directories with special bits" succeeds "$cp" put -r plain-tree/. "$url/shared"
has_mode()
{
    stat -c '%a %n' "$2" && [ "$(stat -c %a "$2")" = "$1" ]
}
check "a sticky bit stays" has_mode 1777 export/shared/anybody
check "set-group-ID stays" has_mode 2755 export/shared
check "and is inherited" has_mode 2755 export/shared/new
check "a file has neither set-user-ID nor set-group-ID" has_mode 755 export/shared/program
rm -r export/shared

# a link that has the name of a file
echo before >target
cp target export/target
ln -s target link
ln -s target export/link
ln -s nowhere export/dangling
mkdir export/place
ln -s place export/to-place
check "put onto a link" succeeds "$cp" put tree/hello "$url/link"
check "replaces the link" bash -c 'test ! -L export/link && cmp tree/hello export/link'
check "not what it leads to" test "$(cat export/target)" = before
check "get onto a link" succeeds "$cp" get "$url/tree/hello" link
check "replaces the link here" bash -c 'test ! -L link && cmp tree/hello link'
check "not what that leads to" test "$(cat target)" = before
check "put onto a link to nothing" succeeds "$cp" put tree/hello "$url/dangling"
check "replaces it" bash -c 'test ! -L export/dangling && cmp tree/hello export/dangling && test ! -e export/nowhere'
check "put onto a link to a directory" succeeds "$cp" put tree/hello "$url/to-place"
check "goes into the directory" bash -c 'test -L export/to-place && cmp tree/hello export/place/hello'
check "get of a link" succeeds "$cp" get "$url/to-place/hello" through
check "is what it leads to" cmp tree/hello through
check "a tree onto a link to a directory" fails 1 "not a directory" "$cp" put -r void "$url/to-place"
check "leaves the link" test -L export/to-place
rm export/to-place

# where to
check "into a directory by a slash" succeeds "$cp" put tree/hello "$url/by/slash/"
check "is in it" cmp tree/hello export/by/slash/hello
check "a new name in new directories" succeeds "$cp" put tree/hello "$url/new/dirs/name"
check "has it" cmp tree/hello export/new/dirs/name
check "a file into a directory that is there" succeeds "$cp" put tree/hello "$url/by"
check "is there too" cmp tree/hello export/by/hello
check "several files" succeeds "$cp" put tree/hello tree/nothing "$url/several"
check "first of several" cmp tree/hello export/several/hello
check "second of several" cmp tree/nothing export/several/nothing
check "a tree into the root" succeeds "$cp" put -r void "$url/"
check "a tree called ." bash -c 'cd tree/sub && "$1" put -r . "$2/dot/"' - "$cp" "$url"
check "has the name of the directory" cmp tree/sub/large export/dot/sub/large
check "get into a directory by a slash" succeeds "$cp" get "$url/tree/hello" into/
check "came into it" cmp tree/hello into/hello
check "get into a directory that is there" succeeds "$cp" get "$url/tree/nothing" into
check "came into that" cmp tree/nothing into/nothing
mkdir here
check "get into ." bash -c 'cd here && "$1" get "$2/tree/hello" .' - "$cp" "$url"
check "came here" cmp tree/hello here/hello
check "get of everything" succeeds "$cp" get -r "$url/" everything
check "is everything" same_tree export everything
if [ "$(id -u)" = 0 ]; then
    mkdir -m 500 closed
    check "get of everything into a directory" succeeds "$cp" get -r "$url/" closed/
    check "leaves its mode alone" has_mode 500 closed
    rm -r closed
else
    skip "a directory that one may not write to" "only root writes there"
fi
check "an escaped way up is refused" fails 1 "leads out" "$cp" get "$url/tree/%2e%2e%2fx" x
check "a name with a space escaped" succeeds "$cp" get \
    "$url/tree/with%20space/%20leading%20and%20trailing%20" spaced
check "a name with octets escaped" succeeds "$cp" get "$url/tree/not-utf8-%ff%FE" octets
check "a name with a leading dash" succeeds "$cp" put -- ./tree/-r "$url/-x"
check "is there with its dash" cmp ./tree/-r export/-x

# ls
"$cp" ls "$url/tree/sub" >ls.out
check "ls of a directory" grep -Eq '^-rw.* 3000000 2001-02-03 04:05 large$' ls.out
check "ls tells of directories" grep -Eq '^dr-x------ .* empty$' ls.out
"$cp" ls "$url/tree" >ls.out
check "ls tells of a sticky bit" grep -Eq '^drwxrwxrwt .* anybody$' ls.out
check "ls tells of set-group-ID" grep -Eq '^drwxr-s--- .* group$' ls.out
mkdir export/queue
echo old >export/queue/before
mkfifo export/queue/fifo
"$cp" ls "$url/queue" >ls.out
rm -r export/queue
check "ls tells no time of a FIFO" grep -Eq '^[?]--------- +0 +fifo$' ls.out
check "ls -r has paths" bash -c '"$1" ls -r "$2/tree" | grep -Eq " sub/large$"' - "$cp" "$url"
check "ls of a file" bash -c '"$1" ls "$2/tree/hello" | grep -Eq "^-rwxr-xr-x +5 .* hello$"' - \
    "$cp" "$url"
check "ls of many" bash -c '[ $("$1" ls -r "$2/many" | wc -l) = 3030 ]' - "$cp" "$url"
"$cp" ls --json "$url/tree" >ls.json
check "ls in JSON" grep -Fq '{"type":"file","name":"not-utf8-\udcff\udcfe","bytes":2,' ls.json

# JSON of a transfer
"$cp" put --json -r tree "$url/json" >put.json
check "JSON has every file" grep -Fxq \
    '{"type":"file","name":"tree/sub/large","bytes":3000000,"ok":true}' put.json
check "JSON escapes names" grep -Fq '"name":"tree/new\nline"' put.json
check "JSON ends with a summary" bash -c \
    'tail -n 1 put.json | grep -Eq "^\{\"type\":\"summary\",\"ok\":true,.*\"files\":10,.*\"rdma_writes\":[1-9]"'
check "JSON has one object per line" bash -c '! grep -Ev "^\{.*\}$" put.json'

# options of the connection
for options in --no-crc --early "--mpa-rev 1" "--ulpdu 128" "--ulpdu 1400" "--ulpdu 64768" \
    "--depth 1" "--depth 64 --block 64K" "--block 4096" "--block 16M --depth 4"; do
    rm -rf export/o back-o
    # shellcheck disable=SC2086 # several words
    check "put $options" succeeds "$cp" put -r $options tree "$url/o"
    check "put $options is the same" same_tree tree export/o
    # shellcheck disable=SC2086
    check "get $options" succeeds "$cp" get -r $options "$url/o" back-o
    check "get $options is the same" same_tree tree back-o
done

# Slots: a get asks for all of its slots at once, so its Sends are one more than these. A server that
# is near is given 8, and some more if this machine made the start-up long.
sends_of_get()
{
    "$cp" get --json "$@" "$url/tree/hello" back-slots |
        sed -n 's/.*"type":"summary".*"sends":\([0-9]*\).*/\1/p'
}
few_slots()
{
    local sends
    for _ in {1..50}; do
        sends=$(sends_of_get "$@")
        [ "$sends" -ge 9 ] && [ "$sends" -lt 17 ] && return 0
    done
    echo "$sends Sends"
    return 1
}
check "a near server: few slots" few_slots
check "--depth 64: all slots" test "$(sends_of_get --depth 64)" = 65
check "--depth 3: three slots" test "$(sends_of_get --depth 3)" = 4
check "--block 16M: what the server's blocks allow" few_slots --block 16M

# Names of 200 octets: more answers than the server has slots for.
mkdir export/names
(cd export/names && seq -f "%0200.0f" 3000 | xargs touch)
check "ls of many answers" bash -c '[ "$("$1" ls "$2/names" | sort -u | wc -l)" = 3000 ]' - "$cp" "$url"

# at the same time
pids=()
for i in 1 2 3 4 5 6; do
    { "$cp" put -r tree "$url/c$i" && "$cp" get -r "$url/c$i" "c$i"; } 2>>client.err &
    pids+=($!)
done
concurrent() { local p; for p in "${pids[@]}"; do wait "$p" || return 1; done; }
check "six clients at the same time" concurrent
for i in 1 2 3 4 5 6; do
    check "client $i has its tree" same_tree tree "c$i"
done
same_file_at_once()
{
    local p pids=()
    for _ in 1 2 3 4 5 6; do
        "$cp" put tree/sub/large "$url/one" &
        pids+=($!)
    done
    for p in "${pids[@]}"; do wait "$p" || return 1; done
    cmp tree/sub/large export/one && no_leftovers export
}
check "six clients with one name" same_file_at_once

if getent ahostsv4 localhost >/dev/null; then
    check "a host name" succeeds "$cp" ls "iwarp://localhost:${address##*:}/tree"
else
    skip "a host name" "this machine cannot resolve localhost"
fi
check "the server ends in order" stop
check "and said nothing" test ! -s server.err

# IPv6, options of the server
if [ -e /proc/net/if_inet6 ] && grep -q ' lo$' /proc/net/if_inet6; then
    listen='[::1]:0' serve export
    check "IPv6: put" succeeds "$cp" put -r tree "iwarp://$address/six"
    check "IPv6: is the same" same_tree tree export/six
    check "IPv6: the address is printed in brackets" test "${address%%]*}" = '[::1'
    stop
else
    skip "IPv6" "this machine has no IPv6 loopback"
fi
serve --no-crc --early --ulpdu 8000 --depth 3 --block 64K export
check "server options: put" succeeds "$cp" put --no-crc -r tree "iwarp://$address/server-options"
check "server options: is the same" same_tree tree export/server-options
check "server options: get" succeeds "$cp" get -r "iwarp://$address/server-options" server-options
check "server options: get is the same" same_tree tree server-options
stop
serve --block 16M export
url=iwarp://$address
check "blocks of 16M at both ends: four of them" test "$(sends_of_get --block 16M --depth 4)" = 5
check "and no more than 64M" test "$(sends_of_get --block 16M)" = 5
check "the server's blocks alone: get" succeeds "$cp" get -r "$url/server-options" large-blocks
check "the server's blocks alone: get is the same" same_tree tree large-blocks
stop
serve --allow 127.0.0.0/8 export
check "--allow lets in whom it names" succeeds "$cp" ls "iwarp://$address/tree"
stop
listen=0.0.0.0:0 serve --insecure export
check "--insecure listens beyond loopback" succeeds "$cp" ls "iwarp://127.0.0.1:${address##*:}/"
stop
finish
