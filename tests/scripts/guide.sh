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

# The tree may be built elsewhere.
runs()
{
    sed "s|\$PWD/build/|$BUILD/|g; s|\([^/A-Za-z]\|^\)build/|\1$BUILD/|g" "$1" >"$1.here"
    setsid timeout --foreground 60 bash -e "$1.here" >"$1.out" 2>&1 &
    local session=$! status=0
    wait $session || status=$?
    kill -- -$session 2>/dev/null # what a listing that failed has left running
    [ $status = 0 ] && [ -s "$1.out" ] && return
    cat "$1.out"
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
    check "$(basename "$page") leaves nothing behind" test -z "$(ls -d /tmp/guide.* 2>/dev/null)"
done
echo "1..$number"
exit $failed
