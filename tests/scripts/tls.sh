#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 900
# shellcheck disable=SC2317 # called by check
#
# TLS as others see it: programs that know nothing of it; openssl's s_client and s_server; stunnel in
# front of a plain end, in either role; and somebody who captures loopback and finds nothing in the
# clear.
set -u
. tests/support/rping.bash
. tests/support/cp.bash
patience=${PATIENCE-90}
export IWARP_LOG=info
run=$(realpath "$BUILD/bin/iwarp-run")

free_port() { port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'); }
said() { eventually grep -q -- "$1" server.err; }
listens() { grep -q "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$1") [0-9A-F:]* 0A" /proc/net/tcp /proc/net/tcp6 2>/dev/null; }
ended() { ! kill -0 "$1" 2>/dev/null; }

for tool in openssl stunnel4 rping ibv_rc_pingpong; do
    command -v $tool >/dev/null || { echo "$tool is not installed"; exit 77; }
done

# background NAME COMMAND...: output in NAME.out, input by descriptor 7; sets pid
background()
{
    local name=$1
    shift
    rm -f "$name.in"
    : >"$name.out"
    mkfifo "$name.in"
    exec 7<>"$name.in"
    "$@" <"$name.in" >"$name.out" 2>&1 7>&- &
    pid=$!
    children+=("$pid")
}

quit()
{
    exec 7>&-
    kill -KILL "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    return 0
}

# shows NAME TEXT: its output has that, sooner or later
shows()
{
    eventually grep -aq -- "$2" "$1.out" && return
    echo "no \"$2\":"
    tail -n 20 "$1.out"
    return 1
}

# client TEXT OPTION...: openssl s_client connects to the server and prints that
client()
{
    local text=$1 status
    shift
    background client openssl s_client -connect "$address" -msg "$@"
    shows client "$text"
    status=$?
    quit
    return $status
}

# server OPTION...: openssl s_server listens; sets url
server()
{
    background s_server openssl s_server -accept 127.0.0.1:0 -msg -cert keys/server/cert.pem \
        -key keys/server/key.pem -CAfile keys/ca.pem "$@"
    shows s_server '^ACCEPT ' && url=iwarp://$(sed -n 's/^ACCEPT //p' s_server.out | head -n 1)/
}

# tunnel WORDS: stunnel with this service, a word a line, from a free port; sets port
tunnel()
{
    free_port
    printf '%s\n' 'foreground = yes' 'pid =' 'debug = 5' '[iwarp]' "accept = 127.0.0.1:$port" "$@" >stunnel.conf
    background stunnel stunnel4 stunnel.conf
    eventually listens "$port"
}

as_client=(-cert keys/client/cert.pem -key keys/client/key.pem -CAfile keys/ca.pem -verify_return_error)
key=$(openssl rand -hex 32)
echo "alice:$key" >psk && chmod 600 psk
"$cp" keygen keys >/dev/null
mkdir export tree
for ((i = 0; i < 4000; i++)); do echo "the treasure lies under the third palm from the left: $i"; done >tree/a

# --- openssl s_client ---
serve --tls keys/server export
check "s_client: certificates and ALPN" client 'ALPN protocol: iwarp' -alpn iwarp "${as_client[@]}"
check "its peer is right" grep -q 'Verify return code: 0' client.out
check "it is TLS 1.3" grep -q 'New, TLSv1.3, Cipher is TLS_AES_128_GCM_SHA256' client.out
check "s_client: no ALPN" client 'No ALPN negotiated' "${as_client[@]}"
check "the log says so" said 'the peer is "client" (certificate).*without ALPN'
check "s_client: h2 and iwarp" client 'ALPN protocol: iwarp' -alpn h2,iwarp "${as_client[@]}"
sleep 1.1 # lines of the log about failures come once a second
check "s_client: h2 only" client 'alert number 120' -alpn h2 "${as_client[@]}"
check "the log says so" said TLS_ALPN
sleep 1.1
check "s_client: no certificate" client 'fatal certificate_required' -alpn iwarp -CAfile keys/ca.pem
sleep 1.1
check "s_client: TLS 1.2" client 'fatal protocol_version' -tls1_2 "${as_client[@]}"
check "the log says so" said TLS_VERSION

key_update()
{
    local status
    background client openssl s_client -connect "$address" -msg -alpn iwarp "${as_client[@]}"
    shows client 'Verify return code: 0' && echo K >&7 && shows client '>>>.*KeyUpdate' &&
        printf 'MPA ID Req Frame\0\1\0\0' >&7 && shows client '<<<.*KeyUpdate' && shows client 'MPA ID Rep Frame'
    status=$?
    quit
    return $status
}
check "s_client: asks for a KeyUpdate, which comes before the Reply" key_update
no_tickets() { ! grep NewSessionTicket client.out; }
check "no session tickets" no_tickets
# Each cipher, of whose records the Reply and what is behind it are made.
cipher()
{
    background client openssl s_client -connect "$address" "${as_client[@]}" -alpn iwarp -ciphersuites "$1"
    shows client "Cipher is $1" && printf 'MPA ID Req Frame\0\1\0\0' >&7 && shows client 'MPA ID Rep Frame'
    local status=$?
    quit
    return $status
}
for name in TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256; do
    check "s_client: $name" cipher $name
done
stop

serve --tls psk=psk export
check "s_client: pre-shared key" client 'Reused, TLSv1.3' -psk_identity alice -psk "$key" -alpn iwarp
check "the log names the key" said 'the peer is "alice" (pre-shared key)'
# OpenSSL 3.0 says the first, newer ones the second.
check "s_client: another key" client 'fatal \(illegal_parameter\|decrypt_error\)' -psk_identity alice -psk "00$key" -alpn iwarp
stop

# --- openssl s_server ---
export IWARP_LOG=error
server -Verify 1 -verify_return_error -alpn iwarp
"$cp" ls --tls keys/client "$url" >ls.out 2>&1 &
children+=("$!")
check "s_server: gets the MPA Request" shows s_server 'MPA ID Req Frame'
key_update_below()
{
    echo K >&7 && shows s_server '>>>.*KeyUpdate' && printf 'MPA ID Rep Frame\0\1\0\0' >&7 &&
        eventually grep -q MPA_ENHANCED_MISSING ls.out && return
    tail -n 12 s_server.out ls.out
    return 1
}
check "s_server: a KeyUpdate comes before the Reply" key_update_below
quit
server -Verify 1 -verify_return_error
"$cp" ls --tls keys/client "$url" >ls.out 2>&1 &
children+=("$!")
check "s_server: no ALPN" shows s_server 'MPA ID Req Frame'
quit
server -alpn h2
check "s_server: another protocol" fails 3 'TLS_ALERT.*' "$cp" ls --tls keys/client "$url"
quit
server -tls1_2
check "s_server: TLS 1.2" fails 3 'alert 70.*TLS_ALERT' "$cp" ls --tls keys/client "$url"
quit
server -nocert -psk "$key" -psk_identity alice -alpn iwarp
"$cp" ls --tls psk=psk "$url" >ls.out 2>&1 &
children+=("$!")
check "s_server: pre-shared key" shows s_server 'MPA ID Req Frame'
quit

# --- stunnel ---
copies()
{
    rm -rf export/a back
    "$cp" put -c "$@" tree/a "$url/a" && cmp tree/a export/a && "$cp" get -c "$@" "$url/a" back && cmp tree/a back
}

serve export
tunnel "connect = $address" 'cert = keys/server/cert.pem' 'key = keys/server/key.pem' 'CAfile = keys/ca.pem' \
    'verifyChain = yes' 'requireCert = yes' 'sslVersionMin = TLSv1.3'
url=iwarp://127.0.0.1:$port
check "a plain server behind stunnel" copies --tls keys/client
quit
tunnel "connect = $address" 'PSKsecrets = psk' 'ciphersuites = TLS_AES_128_GCM_SHA256'
url=iwarp://127.0.0.1:$port
check "the same with a pre-shared key" copies --tls psk=psk
quit
stop

serve --tls keys/server export
tunnel 'client = yes' "connect = $address" 'cert = keys/client/cert.pem' 'key = keys/client/key.pem' \
    'CAfile = keys/ca.pem' 'verifyChain = yes' 'checkIP = 127.0.0.1'
url=iwarp://127.0.0.1:$port
check "a plain client behind stunnel" copies
quit
stop

# --- somebody who captures ---
# captured NAME COMMAND...: with what goes to and from $address meanwhile in NAME.pcapng
captured()
{
    local name=$1 status
    shift
    background dumpcap dumpcap -q -i lo -f "tcp port ${address##*:}" -B 64 -w "$name.pcapng"
    shows dumpcap '^File: ' || return
    "$@"
    status=$?
    sleep 1
    kill -INT "$pid"
    wait_for "$pid"
    exec 7>&-
    return $status
}
clear() { grep -aqE 'the treasure|MPA ID Re[qp] Frame' "$1.pcapng"; }
hidden() { [ -s "$1.pcapng" ] && ! clear "$1"; }
# decrypts FILE: tshark finds what was carried, by the keys
decrypts()
{
    tshark -n -r secret.pcapng -o "tls.keylog_file:$1" -z follow,tls,ascii,0 2>/dev/null |
        grep -q 'the treasure lies under the third palm'
}
locked() { ! decrypts /dev/null; }
names=("a plain copy is captured" "all of it in the clear" "one with TLS is captured" "nothing of it in the clear"
    "tshark decrypts it by IWARP_TLS_KEYLOG" "and by nothing else")
if command -v dumpcap >/dev/null && timeout 5 dumpcap -q -i lo -c 1 -a duration:1 -w probe.pcapng 2>/dev/null; then
    serve export
    check "${names[0]}" captured plain "$cp" put tree/a "iwarp://$address/b"
    check "${names[1]}" clear plain
    stop
    serve --tls keys/server export
    check "${names[2]}" captured secret env IWARP_TLS_KEYLOG="$work/keylog" "$cp" put --tls keys/client tree/a \
        "iwarp://$address/c"
    check "what was put is there" cmp tree/a export/c
    check "${names[3]}" hidden secret
    check "${names[4]}" decrypts "$work/keylog"
    check "${names[5]}" locked
    stop
else
    for name in "${names[@]}"; do
        skip "$name" "capturing on loopback needs dumpcap, and root or CAP_NET_RAW"
    done
fi

# --- programs that know nothing of TLS ---
# explained: rping fails by another key, and without a setting of the log says why. The server's
# OpenSSL chooses alert 47 (3.0) or 51 (newer ones).
explained()
{
    local failed=0
    echo "alice:00${key:2}" >other && chmod 600 other
    IWARP_TLS=psk=psk background program "$run" rping -s -a 127.0.0.1 -p "$port"
    if eventually listens "$port"; then
        IWARP_TLS=psk=other timeout "$patience" "$run" rping -c -a 127.0.0.1 -C 1 -p "$port" >other.out 2>&1 7>&- || failed=1
    fi
    quit
    [ $failed = 1 ] && grep -q 'connecting failed: .*alert \(47\|51\):.*TLS_ALERT' other.out || { cat other.out; return 1; }
}
unset IWARP_LOG
free_port
check "rping with another key says why it fails" explained

# pair TEXT SERVER... -- CLIENT...: both end well, and the log of the client has the text
pair()
{
    local text=$1
    local -a server=()
    shift
    while [ "$1" != -- ]; do
        server+=("$1")
        shift
    done
    shift
    background program "$run" "${server[@]}"
    eventually listens "$port" || return
    timeout "$patience" "$run" "$@" >other.out 2>&1 7>&-
    ended_well $? other.out && eventually ended "$pid" || return
    wait "$pid"
    ended_well $? program.out && exec 7>&- && grep -q -- "$text" other.out
}

# pings SERVER... -- CLIENT...: both are rping with ten pings, and all have come
pings() { pair 'the peer is "' "$@" && grep -q '^ping data: rdma-ping-9: ' other.out && grep -q 'ping data: rdma-ping-9: ' program.out; }

export IWARP_LOG=info
as_server="cert=keys/server/cert.pem,key=keys/server/key.pem,ca=keys/ca.pem,name=localhost"
for name in rping ibv_rc_pingpong; do
    args=(-a 127.0.0.1 -C 10 -v)
    [ $name = rping ] || args=(-g 0)
    for tls in psk=psk "$as_server"; do
        export IWARP_TLS=$tls
        free_port
        if [ $name = rping ]; then
            check "rping, ${tls%%=*}" pings rping -s "${args[@]}" -p "$port" -- rping -c "${args[@]}" -p "$port"
        else
            check "ibv_rc_pingpong, by number, ${tls%%=*}" pair 'the peer is "' ibv_rc_pingpong "${args[@]}" -p "$port" \
                -- ibv_rc_pingpong "${args[@]}" -p "$port" 127.0.0.1
        fi
    done
done
finish
