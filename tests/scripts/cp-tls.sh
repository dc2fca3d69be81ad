#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# timeout: 600
#
# iwarp-cp with TLS: certificates that it makes itself, pre-shared keys, who is let in, and new
# certificates without a restart.  What is refused is one line at the client, and one in the
# server's log.
set -u
. tests/support/cp.bash
export IWARP_LOG=info

cp_keygen() { "$cp" keygen "$@"; }
said() { eventually grep -q -- "$1" server.err; }
# client VERB...: without the log of the library in its error lines
client() { IWARP_LOG=error "$cp" "$@"; }
# served: what the client has put is there
served() { cmp tree/a "export/$1"; }
modes() { [ "$(stat -c %a keys/ca.key keys/server/key.pem keys/client/key.pem | sort -u)" = 600 ]; }

mkdir export tree
head -c 3000000 /dev/urandom >tree/a

check "keygen makes a CA, a server and a client" cp_keygen keys
check "no one else may read their keys" modes
check "openssl verifies them" openssl verify -x509_strict -CAfile keys/ca.pem keys/server/cert.pem keys/client/cert.pem
check "keygen does not overwrite" fails 1 'File exists' "$cp" keygen keys
check "nor does it go on after that" fails 1 'File exists' "$cp" keygen keys server2=a,b server
check "keygen makes more of the same CA" cp_keygen keys bob second=second.example,192.0.2.1,2001:db8::1
check "and they are of it" openssl verify -CAfile keys/ca.pem keys/bob/cert.pem keys/second/cert.pem
check "with these names" openssl x509 -in keys/second/cert.pem -noout -checkhost second.example -checkip 2001:db8::1
# Nothing can be written here; the output goes into a pipe.
full_disk()
{
    (ulimit -f 0 && exec "$cp" keygen "$@" 2>&1) | grep -q 'it cannot be written'
}
check "keygen on a full disk" full_disk keys carol
check "leaves nothing" test ! -e keys/carol
check "and can be repeated" cp_keygen keys carol
check "keygen of a CA on a full disk" full_disk new
check "can be repeated, too" cp_keygen new
check "a name with a slash is none" fails 1 'not NAME' "$cp" keygen keys ../x
check "nor is an empty list" fails 1 'not NAME' "$cp" keygen keys x=
check "another CA is another CA" cp_keygen others

serve --tls keys/server --allow-id client --allow-id bob export
url=iwarp://127.0.0.1:${address##*:}
check "put" client put -c --tls keys/client tree/a "$url/one"
check "what was put is there" served one
check "get" client get -c --tls keys/bob "$url/one" got
check "what was got is the same" cmp tree/a got
check "the server's log says who it was" said 'the peer is "client" (certificate)'
check "a name in the URL is looked for in the certificate" client ls --tls keys/client "iwarp://localhost:${address##*:}/"
export IWARP_LOG=error
check "another name is not there" fails 3 TLS_CERT_NAME "$cp" ls --tls cert=keys/client/cert.pem,key=keys/client/key.pem,ca=keys/ca.pem,name=x "$url/"
check "an identity that is not allowed" fails 3 'TLS_ALERT.*allow-id' "$cp" ls --tls keys/second "$url/"
check "the server's log names it" said '"second.example" is not allowed'
check "a client of another CA" fails 3 TLS_CERT_CA "$cp" ls --tls others/client "$url/"
sleep 1.1 # such lines come once a second
check "a client without TLS" fails 3 'MPA_TLS.*--tls' "$cp" ls "$url/"
check "the server's log says so" said TLS_PLAIN
stop

echo "alice:$(openssl rand -hex 32)" >psk && chmod 600 psk
echo "alice:$(openssl rand -hex 32)" >wrong && chmod 600 wrong
serve --tls psk=psk export
url=iwarp://127.0.0.1:${address##*:}
check "put with a pre-shared key" client put -c --tls psk=psk tree/a "$url/two"
check "what was put is there, too" served two
# The server's OpenSSL chooses alert 47 (3.0) or 51 (newer ones).
check "a folder that is not there" fails 3 'missing/cert.pem cannot be used.*check --tls' "$cp" ls --tls missing "$url/"
check "a wrong key" fails 3 '(keys differ|pre-shared key of this end is wrong).*TLS_ALERT' "$cp" ls --tls psk=wrong "$url/"
stop

# New certificates, of another CA, put in place one file after the other.
mkdir live && cp -r keys/server/. live/
serve --tls live export
url=iwarp://127.0.0.1:${address##*:}
check "before" client ls --tls keys/client "$url/"
sleep 1.1
cp others/server/key.pem live/key.pem && cp others/server/cert.pem live/cert.pem && cp others/ca.pem live/ca.pem
check "files that have changed are used without a restart" client ls --tls others/client "$url/"
check "and only they" fails 3 TLS_CERT_CA "$cp" ls --tls keys/client "$url/"
stop

# A log of keys that cannot be written, here a FIFO that nobody reads, holds nobody up.
mkfifo keylog
IWARP_TLS_KEYLOG=$PWD/keylog IWARP_LOG=warn serve --tls keys/server export
check "a log of keys that nobody reads" client ls -t 20 --tls keys/client "iwarp://127.0.0.1:${address##*:}/"
check "is told of" said 'IWARP_TLS_KEYLOG: cannot write to .*keylog'
stop

check "a server of files that are not there" fails 1 'missing/cert.pem cannot be used.*check --tls' \
    "$cp" serve --tls missing --listen 127.0.0.1:0 export

# Whoever asks for no log is told whom the server has turned away all the same.
unset IWARP_LOG
serve export
check "a client with TLS" fails 3 'TLS_CLOSED.*--tls' "$cp" ls --tls keys/client "iwarp://127.0.0.1:${address##*:}/"
check "a server without a word about the log says so" said MPA_TLS
stop
export IWARP_LOG=error

listen=0.0.0.0:0
check "beyond loopback serve asks for --tls" fails 2 '--tls' "$cp" serve --listen 0.0.0.0:0 export
serve --tls keys/server export
check "with it, it serves" client ls --tls keys/client "iwarp://127.0.0.1:${address##*:}/"
stop
finish
