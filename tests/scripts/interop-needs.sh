#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# make interop does not skip what it cannot do: without /dev/net/tun, without an emulator, without
# packages and for a suite that it has no guest of it fails, and says what is missing.
set -u
: "${BUILD:?where the build is}"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
n=0 failed=0

# refuses NAME WORDS COMMAND...: a status that is not 0, and a line with these words
refuses()
{
    local name=$1 words=$2 output status
    shift 2
    n=$((n + 1))
    output=$(BUILD=$work/build timeout 120 "$@" 2>&1)
    status=$?
    if [ $status != 0 ] && [ $status != 124 ] && [[ $output == *"$words"* ]]; then
        echo "ok $n - $name"
    else
        failed=1
        echo "not ok $n - $name: status $status: $output"
    fi
}

# Everything but the emulator.
mkdir "$work/bin"
ln -s /usr/sbin/* /usr/bin/* "$work/bin/" 2>/dev/null
rm -f "$work/bin/qemu-system-x86_64"
refuses "no emulator" "there is no qemu-system-x86_64" env PATH="$work/bin" tests/interop/run --short

refuses "a suite without a guest" 'no guest of the suite "woody"' env SUITE=woody tests/interop/run --short
if ! grep -q '^VERSION_CODENAME=trixie' /etc/os-release; then
    refuses "measuring in the guest of another suite" "measured is in the guest of this machine's suite only" \
        env SUITE=trixie tests/interop/run --measure
fi

# A private /dev/net, without the device and with one that is none.
for flags in -m -Urm; do
    ! unshare $flags true 2>/dev/null || break
done
without="mount -t tmpfs none /dev/net && exec tests/interop/run --short"
with="mount -t tmpfs none /dev/net && touch /dev/net/tun && exec tests/interop/run --short"
mkdir -p "$work/fake"
for one in tshark editcap qemu-system-x86_64; do
    printf '#!/bin/sh\n' >"$work/fake/$one"
    chmod 755 "$work/fake/$one"
done
if [ -d /dev/net ] && unshare $flags true 2>/dev/null; then
    refuses "no tap device" "/dev/net/tun cannot be opened" \
        env PATH="$work/fake:$PATH" unshare $flags bash -c "$without"
    refuses "a tap device that is none" "/dev/net/tun cannot be opened" \
        env PATH="$work/fake:$PATH" unshare $flags bash -c "$with"
fi
echo "1..$n"
exit $failed
