# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# What tests/interop/run --tls does: kernel TLS, which needs a kernel that has it, and siw behind
# stunnel.  The end-to-end test of TLS and copies of iwarp-cp run within the guest, on libraries of the
# host, with each value of IWARP_KTLS; the kernel counts the directions that it does.

# tls_row NAME COMMAND...: one line, and what was said if it failed
tls_row()
{
    local name=$1
    shift
    # Not in a shell of its own: guest_does counts its commands.
    if "$@" >"$work/tls.log" 2>&1; then
        passed=$((passed + 1))
        row "ok   $name"
    else
        failed=$((failed + 1))
        row "FAIL $name"
        tail -n 30 "$work/tls.log" | cut -c 1-200
    fi
}

# tls_programs: takes programs of the host to the guest
tls_programs()
{
    local file
    mkdir -p "$ctl/host"
    cp "$BUILD/tests/e2e/test_tls" "$BUILD/bin/iwarp-cp" "$ctl/host/"
    ldd "$ctl/host/test_tls" "$ctl/host/iwarp-cp" | grep -o '/[^ ]*\.so[^ ]*' | sort -u | while read -r file; do
        cp "$file" "$ctl/host/"
        case $file in *ld-linux*) cp "$file" "$ctl/host/ld.so" ;; esac
    done
    guest_does 60 'cp -r /ctl/host /tmp/ && modprobe tls && dd if=/dev/urandom of=/tmp/data bs=1M count=8'
}

# The lines of a guest's shell: on NAME ARGUMENT... runs a program of the host; did SENDS RECEIVES: the
# kernel has done something of each direction since they began, 1, or nothing, 0.
tls_on='/tmp/host/ld.so --library-path /tmp/host /tmp/host'
tls_lines='cd /tmp; on() { p=$1; shift; /tmp/host/ld.so --library-path /tmp/host /tmp/host/$p "$@"; }
count() { awk -v n=$1 "\$1 == n { print \$2 }" /proc/net/tls_stat; }
tx=$(count TlsTxSw) rx=$(count TlsRxSw)
did() { cat /proc/net/tls_stat
    [ $(($(count TlsTxSw) > tx)) = $1 ] && [ $(($(count TlsRxSw) > rx)) = $2 ]; }
'

# tls_tests VALUE SENDS RECEIVES
tls_tests()
{
    guest_does 400 "$tls_lines export IWARP_KTLS=$1 TMPDIR=/tmp CMOCKA_MESSAGE_OUTPUT=TAP
        on test_tls || exit; did $2 $3"
}

# tls_copies SERVER CLIENT SENDS RECEIVES: these are values of IWARP_KTLS
tls_copies()
{
    guest_does 120 "$tls_lines
        rm -rf keys export back; mkdir export; on iwarp-cp keygen keys server=localhost,127.0.0.1 client >/dev/null || exit
        IWARP_KTLS=$1 IWARP_LOG=tls=debug $tls_on/iwarp-cp serve --tls keys/server --listen 127.0.0.1:7475 export & server=\$!
        i=0; until IWARP_KTLS=$2 on iwarp-cp ls --tls keys/client iwarp://127.0.0.1/ 2>/dev/null; do
            i=\$((i + 1)); [ \$i -lt 100 ] || exit 1; sleep 0.2; done
        IWARP_KTLS=$2 on iwarp-cp put -c --tls keys/client data iwarp://127.0.0.1/x &&
            IWARP_KTLS=$2 on iwarp-cp get -c --tls keys/client iwarp://127.0.0.1/x back &&
            cmp data back && did $3 $4; status=\$?
        kill \$server; wait \$server || status=1; exit \$status"
}

# --- siw behind stunnel ---

stunnel_pid=

# tls_tunnel WORD...: stunnel4 with these words, a line each
tls_tunnel()
{
    local i
    printf '%s\n' 'foreground = yes' 'pid =' '[siw]' "CAfile = $work/keys/ca.pem" 'verifyChain = yes' "$@" >"$work/stunnel.conf"
    stunnel4 "$work/stunnel.conf" >"$work/stunnel.log" 2>&1 &
    stunnel_pid=$!
    for ((i = 0; i < 100; i++)); do
        ! grep -q 'Configuration successful' "$work/stunnel.log" || return 0
        sleep 0.1
    done
    return 1
}

tls_tunnel_end()
{
    kill "$stunnel_pid"
    wait "$stunnel_pid"
}

tls_rping()
{
    env IWARP_LOG=info IWARP_TLS="cert=$work/keys/$1/cert.pem,key=$work/keys/$1/key.pem,ca=$work/keys/ca.pem" \
        timeout 60 "$BUILD/bin/iwarp-run" rping -V -C 10 -S 2000 "${@:2}"
}

# We connect, by TLS, to stunnel; it connects to rping on siw.
tls_to_siw()
{
    local status
    tls_tunnel "accept = $host_address:7301" "connect = $guest_address:7300" 'requireCert = yes' \
        "cert = $work/keys/host/cert.pem" "key = $work/keys/host/key.pem" || return
    guest_begin 90 "rping -s -a $guest_address -p 7300 -V -C 10 -S 2000"
    sleep 3
    tls_rping client -c -a $host_address -p 7301
    status=$?
    guest_end || status=1
    cat "$guest_log"
    tls_tunnel_end
    return $status
}

# siw connects to stunnel, which connects to us by TLS.
tls_from_siw()
{
    local status ours
    tls_tunnel 'client = yes' "accept = $host_address:7303" 'connect = 127.0.0.1:7302' 'checkIP = 127.0.0.1' \
        "cert = $work/keys/client/cert.pem" "key = $work/keys/client/key.pem" || return
    tls_rping server -s -a 127.0.0.1 -p 7302 &
    ours=$!
    sleep 1
    guest_does 90 "rping -c -a $host_address -p 7303 -V -C 10 -S 2000"
    status=$?
    wait $ours || status=1
    tls_tunnel_end
    return $status
}

tls_all()
{
    rm -rf "$work/keys"
    "$BUILD/bin/iwarp-cp" keygen "$work/keys" >/dev/null &&
        "$BUILD/bin/iwarp-cp" keygen "$work/keys" host=$host_address >/dev/null && tls_programs || return
    tls_row "test_tls, kernel TLS in both directions" tls_tests 1 1 1
    tls_row "test_tls, for sending only" tls_tests send 1 0
    tls_row "test_tls, for receiving only" tls_tests receive 0 1
    tls_row "test_tls, IWARP_KTLS=0" tls_tests 0 0 0
    tls_row "copies, kernel TLS at both ends" tls_copies 1 1 1 1
    tls_row "copies, kernel TLS at the server" tls_copies 1 0 1 1
    tls_row "copies, kernel TLS at the client" tls_copies 0 1 1 1
    tls_row "copies, each end sends by the kernel" tls_copies send send 1 0
    tls_row "rping, by TLS to stunnel, and from there to siw" tls_to_siw
    tls_row "rping, from siw to stunnel, and by TLS from there" tls_from_siw
}
