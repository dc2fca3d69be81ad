#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 300
#
# The guide is true: each listing in C stands word for word in the example that it names, which the tests
# compile and run; each listing of commands runs and says something; a page leaves nothing behind.
set -u
: "${BUILD:?where the build is}" "${TMPDIR:?a scratch directory}"
. tests/support/check.bash
[ -e "$BUILD/lib/compat/libibverbs.so.1" ] || { echo "the headers of libibverbs are not installed"; exit 77; }
for tool in rping ibv_devinfo tshark cc; do
    command -v $tool >/dev/null || { echo "$tool is not installed"; exit 77; }
done

# Lines of a listing follow each other in the file.
stands_in()
{
    python3 - "$1" "$2" <<'END'
import sys
listing, source = (open(path, encoding='utf-8').read() for path in sys.argv[1:])
assert len(listing.split('\n')) > 1 and listing in source, f'not in {sys.argv[2]}'
END
}

# Where a listing gives what it has started a second, a busy machine may need more: until the port listens and the
# socket exists that the listing names.
# shellcheck disable=SC2016 # expanded by the shell of the listing
patient='sleep()
{
    local i
    command sleep "$1"
    for ((i = 0; i < 300; i++)); do
        { [ -z "$port" ] || grep -q ":$(printf %04X "$port") 0*:0000 0A" /proc/net/tcp; } &&
            { [ -z "$socket_of" ] || compgen -G "$socket_of" >/dev/null; } && return
        command sleep 0.1
    done
    echo "there is no listener at port $port, or no socket $socket_of"
    return 1
}'

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# The tree may be built elsewhere, and others may run the same listings: so their port and their files are this test's.
runs()
{
    local status=0 port='' socket_of='' session=''
    ! grep -q '\b17[0-9][0-9][0-9]\b' "$1" || port=$(free_port)
    case $(<"$1") in
    *guide.hang/%p*) socket_of=$TMPDIR/guide.hang/[0-9]* ;;
    *guide.%p*) socket_of=$TMPDIR/guide.[0-9]* ;;
    *guide.switch*) socket_of=$TMPDIR/guide.switch ;;
    esac
    {
        printf 'port=%s socket_of=%q\n%s\n' "$port" "$socket_of" "$patient"
        sed "s|\b17[0-9][0-9][0-9]\b|$port|g; s|/tmp/|$TMPDIR/|g
            s|\$PWD/build/|$BUILD/|g; s|\([^/A-Za-z]\|^\)build/|\1$BUILD/|g" "$1"
    } >"$1.here"
    trap 'kill -- "-$session" 2>/dev/null' EXIT # also what a listing that failed has left running
    trap 'exit 1' INT TERM
    setsid timeout --foreground 60 bash -e "$1.here" >"$1.out" 2>&1 &
    session=$!
    wait $session || status=$?
    [ $status = 0 ] && [ -s "$1.out" ] && return
    cat "$1.out"
    echo "status $status"
    return 1
}

for page in docs/guide/*.md; do
    count=0
    while IFS= read -r fence; do
        count=$((count + 1))
        file=$TMPDIR/$(basename "$page").$count
        awk -v n=$count '/^```/ { if (on) { exit } if (++i % 2 == 1 && (i + 1) / 2 == n) { on = 1; next } } on' "$page" >"$file"
        case $fence in
        '```c '*) check "$(basename "$page"): listing $count is of ${fence#* }" stands_in "$file" "${fence#* }" ;;
        '```sh') check "$(basename "$page"): listing $count runs" runs "$file" ;;
        *) check "$(basename "$page"): listing $count has a kind" false ;;
        esac
    done < <(grep '^```.' "$page")
    check "$(basename "$page") leaves nothing behind" test -z "$(compgen -G "$TMPDIR/guide.*")"
done
echo "1..$number"
exit $failed
