#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# The loadable provider under the openssl command: values, octet order, files of several reads,
# and that it does not stand in the way of OpenSSL's own digests.
# BUILD is the build directory; exits 77 with a reason when there is no openssl command.
#
# shellcheck disable=SC2317 # functions are called through expect
set -u

modules=${BUILD:-build}/lib/ossl-modules
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

if ! command -v openssl >/dev/null; then
    echo "SKIP: no openssl command"
    exit 77
fi
if [ ! -f "$modules/iwarp.so" ]; then
    echo "FAIL: $modules/iwarp.so is not built"
    exit 1
fi

# expect NAME WANTED COMMAND...: the last word that COMMAND prints is WANTED
expect() {
    name=$1
    wanted=$2
    shift 2
    if got=$("$@" 2>&1) && [ "${got##* }" = "$wanted" ]; then
        echo "ok: $name"
    else
        printf 'FAIL: %s: wanted %s, got: %s\n' "$name" "$wanted" "$got"
        failed=1
    fi
}

crc32c() {
    openssl dgst -provider-path "$modules" -provider iwarp -CRC32C "$@"
}

crc32c_binary() {
    crc32c -binary "$1" | od -An -tx1 | tr -d ' \n'
}

crc32c_stdin() {
    crc32c <"$1"
}

crc32c_by_fetch() {
    openssl dgst -provider-path "$modules" -provider default -provider iwarp -CRC32C "$1"
}

sha256_beside() {
    openssl dgst -provider-path "$modules" -provider default -provider iwarp -sha256 "$1"
}

without_provider_fails() {
    if openssl dgst -CRC32C "$1" >"$dir/out" 2>&1; then
        cat "$dir/out"
        return 1
    fi
    echo refused
}

listed() {
    openssl list -digest-algorithms -provider-path "$modules" -provider iwarp | grep -c 'CRC32C @ iwarp'
}

exported() {
    nm -D --defined-only "$modules/iwarp.so" | grep ' [A-Z] ' | sed 's/.* //' | tr '\n' ,
}

printf 123456789 >"$dir/digits"
: >"$dir/empty"
head -c 32 /dev/zero >"$dir/zeros"
head -c 32 /dev/zero | tr '\0' '\377' >"$dir/ones"
# 100,003 octets: many reads of openssl, and a rest. The four octets that follow are the CRC of the
# others in wire order, so the value of the whole file is the residue.
i=0
while [ $i -lt 11112 ]; do
    printf 123456789
    i=$((i + 1))
done | head -c 100003 >"$dir/long"
crc=$(crc32c "$dir/long")
crc=${crc##* }
cp "$dir/long" "$dir/residue"
for at in 7-8 5-6 3-4 1-2; do
    # %b takes the octet in octal
    printf '%b' "$(printf '\\0%o' "0x$(echo "$crc" | cut -c $at)")" >>"$dir/residue"
done

expect "check value" e3069283 crc32c "$dir/digits"
expect "standard input" e3069283 crc32c_stdin "$dir/digits"
expect "octets, most significant first" e3069283 crc32c_binary "$dir/digits"
expect "empty file" 00000000 crc32c "$dir/empty"
expect "32 octets of zero" 8a9136aa crc32c "$dir/zeros"
expect "32 octets of 0xff" 62a8ab43 crc32c "$dir/ones"
expect "residue of a long file" 48674bc7 crc32c "$dir/residue"
expect "beside the default provider" e3069283 crc32c_by_fetch "$dir/digits"
expect "SHA-256 beside it" 15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225 \
    sha256_beside "$dir/digits"
expect "OpenSSL alone does not know it" refused without_provider_fails "$dir/digits"
expect "listed once" 1 listed
if command -v nm >/dev/null; then
    expect "one exported symbol" OSSL_provider_init, exported
fi
exit $failed
