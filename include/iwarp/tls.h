/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TLS 1.3 below MPA: what connections carry is encrypted, and both ends know who the other one is.
 * docs/tls.md has the picture.
 *
 * A text says what credentials an end has and what it asks of its peers: the option `tls` of a
 * device or connection, or IWARP_TLS in the environment or a file of settings for programs that say
 * nothing. It is a list of words with commas between; file names have no commas.
 *
 *   psk=FILE      pre-shared keys: lines IDENTITY:KEY, the key of 16 to 64 octets in hexadecimal.
 *                 # begins a comment
 *   identity=ID   with psk: which of them an initiator uses; the first one if nothing is said
 *   cert=FILE     certificate of this end in PEM, and behind it what leads to its CA
 *   key=FILE      its private key; if it is not given, the key is in the file of the certificate
 *   ca=FILE       with cert: the CAs that peers' certificates must come from
 *   name=NAME     with cert: the DNS name or address that an initiator expects in the certificate
 *                 of the responder (RFC 9525); if it is not given, the address that it connects to
 *   allow=ID      the peer must have this identity; may be given several times for several peers
 *   crc=on        the option `crc` of connections counts, as it does without TLS. Otherwise this
 *                 end does not ask for the CRC of MPA, since TLS protects more than it does: it is
 *                 off unless the peer asks for it
 *   rekey=N       change the key for sending after N records, 1 to 4194304, which is the default
 *   off           alone: no TLS. So does the empty text
 *
 * There must be psk, or cert and ca. Both ends are authenticated, always. With pre-shared keys both
 * ends have the identity of the key. The identity of a certificate is its first DNS name, URI, mail
 * address or IP address in subjectAltName, or else its subject as RFC 4514 writes it.
 *
 * Files that have changed are read again, at most once a second, before the next handshake; a file
 * that is wrong then is left aside, with a warning in the log.
 *
 * A responder with TLS takes no plain connections and a plain one no TLS. Each says in its log what
 * the peer began with.
 */
#ifndef IWARP_TLS_H
#define IWARP_TLS_H

#include <iwarp/api.h>
#include <iwarp/status.h>
#include <stdbool.h>
#include <stddef.h>

IWARP_BEGIN_DECLS

struct iwarp_conn;

enum iwarp_tls_kind {
    IWARP_TLS_NONE = 0, /* a plain connection */
    IWARP_TLS_PSK,
    IWARP_TLS_X509
};

/* The strings stay until the connection is destroyed. */
struct iwarp_tls_info {
    size_t size; /* sizeof(struct iwarp_tls_info), set by the application */
    enum iwarp_tls_kind kind;
    bool kernel_sends, kernel_receives; /* records of this direction are the kernel's work */
    bool alpn;          /* the peer has agreed on "iwarp"; false: it knows no ALPN */
    const char *cipher; /* "TLS_AES_128_GCM_SHA256" */
    const char *own;    /* the identity of this end */
    const char *peer;   /* and that of the peer; both as above */
};

/*
 * Fill *info: how conn is protected, and who is at its other end. Known from the handshake on: a
 * REQUEST and all later events come after it. A plain connection has kind NONE and empty strings.
 * MISUSE: info->size is wrong, or the handshake is not over.
 */
IWARP_API enum iwarp_status iwarp_conn_tls(const struct iwarp_conn *conn,
                                           struct iwarp_tls_info *info);

IWARP_END_DECLS

#endif
