#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 100
#
# A program with more rights than its caller (set-user-ID) takes no setting from the environment and none from
# the caller's own file: no file is written, nothing is logged, no fault happens. The same program without
# the bit shows that each of them would have done something.
set -u
: "${BUILD:?where the build is}" "${TMPDIR:?a scratch directory}"
. tests/support/check.bash
if [ "$(id -u)" != 0 ] || ! command -v setpriv >/dev/null; then
    echo "needs root, to make a program that is set-user-ID, and setpriv"
    exit 77
fi

# Not below TMPDIR, which others may not be able to reach.
place=$(mktemp -d /tmp/iwarp-privileged.XXXXXX)
trap 'rm -rf "$place"' EXIT
chmod 755 "$place"
install -d -o 65534 -g 65534 "$place/home" "$place/home/.config" "$place/out"
install -m 755 "$BUILD/bin/iwarp-bench" "$place/plain"
install -m 4755 "$BUILD/bin/iwarp-bench" "$place/privileged"
if ! setpriv --reuid=65534 --regid=65534 --clear-groups "$place/plain" --version >/dev/null 2>&1; then
    echo "user 65534 cannot run a program of this build"
    exit 77
fi
if [ "$(findmnt -no OPTIONS -T "$place" 2>/dev/null | grep -c nosuid)" != 0 ]; then
    echo "/tmp is mounted with nosuid"
    exit 77
fi

# as_nobody PROGRAM NAME=VALUE...
as_nobody()
{
    local program=$1
    shift
    (cd "$place/out" && setpriv --reuid=65534 --regid=65534 --clear-groups \
        env -i PATH="$PATH" HOME="$place/home" "$@" "$place/$program" write --seconds 0.1 2>&1)
}

# has PROGRAM WORDS NAME=VALUE...: the output has the words
has() { local program=$1 words=$2; shift 2; as_nobody "$program" "$@" | grep -q -e "$words"; }
has_not() { ! has "$@"; }
records() { rm -f "$place/out/x.pcapng"; as_nobody "$1" IWARP_PCAP="$place/out/x.pcapng" >/dev/null; [ -e "$place/out/x.pcapng" ]; }
records_not() { ! records "$1"; }
works() { as_nobody "$@" | grep -q '"messages"'; }

log="IWARP_LOG=trace" fault="IWARP_FAULTS=register=1"
check "a plain program logs" has plain 'trace' $log
check "a privileged one does not" has_not privileged 'trace' $log
check "a plain program records" records plain
check "a privileged one does not" records_not privileged
check "a plain program has faults on request" has_not plain '"messages"' $fault
check "a privileged one does not" works privileged $fault

echo 'IWARP_FAULTS = register=1' | tee "$place/home/.config/iwarp.conf" >"$place/home/own.conf"
check "a plain program reads its user's file" has_not plain '"messages"'
check "a privileged one does not" works privileged
check "nor the file that the environment names" works privileged IWARP_CONFIG="$place/home/own.conf"
check "a key log is not written" test ! -e "$(as_nobody privileged IWARP_TLS_KEYLOG="$place/out/keys" >/dev/null; echo "$place/out/keys")"
check "statistics are not served" has_not privileged 'metrics' IWARP_METRICS="unix:$place/out/m" IWARP_LOG=info
echo "1..$number"
exit $failed
