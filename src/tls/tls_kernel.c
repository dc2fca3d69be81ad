/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kernel TLS: the kernel makes records, or opens them, each direction for itself.
 *
 * It gets the key of a direction when the handshake is over, with sequence number 0. Invariant: by
 * then no record has passed under that key. For sending, since no tickets are sent; for receiving,
 * since a handshake without read-ahead takes no octet behind its last record. From then on OpenSSL
 * has nothing to do with that direction. Keys do not change any more: no kernel up to 6.13 can, and
 * a later one is not asked.
 *
 * A read of the socket returns payload, or EIO in front of a record of another type, which is then
 * taken together with its type.
 *
 * The kernel counts octets as sent while it still has a part of their record itself, and a FIN
 * would overtake that part. A further record pushes it on, as far as there is room. So close_notify
 * is repeated until there is room behind it, and then comes the FIN. Peers ignore what follows the
 * first one (RFC 8446 6.1).
 */
#include "base/log.h"
#include "base/settings.h"
#include "tls/tls_inner.h"

#include <errno.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <poll.h>
#include <string.h>

#ifndef SOL_TLS
#define SOL_TLS 282
#endif

enum {
    CLOSE_NOTIFY = 0,
    NEW_SESSION_TICKET = 4,
    KEY_UPDATE = 24,
    WORN = 1 << 24 /* records under one key: RFC 8446 5.5 allows 2^24.5 */
};

/* The kernel has none: nobody asks twice. */
static _Atomic bool absent;

static const char *const words[] = {"0", "send", "receive", "1", NULL};

void iwarp_tls_kernel_init(struct iwarp_tls *t)
{
    unsigned which = iwarp_setting_word("IWARP_KTLS", words, 3);

    t->kernel.fd = absent || which == 0 ? -1 : iwarp_tcp_socket(t->below.ep);
    t->kernel.may_send = which != 2 && t->context->text.rekey == TLS_REKEY;
    t->kernel.may_receive = which != 1;
    if (t->kernel.fd >= 0) {
        SSL_set_read_ahead(t->ssl, 0);
    }
}

/* --- keys ------------------------------------------------------------------------------------ */

union crypto_info {
    struct tls_crypto_info info;
    struct tls12_crypto_info_aes_gcm_128 aes_128;
    struct tls12_crypto_info_aes_gcm_256 aes_256;
    struct tls12_crypto_info_chacha20_poly1305 chacha;
};

enum { SALT = 4 };

/* The nonce of AES-GCM is in two parts there. Returns the length, or 0. */
static socklen_t fill_aes_128(union crypto_info *c, OSSL_LIB_CTX *library,
                              const struct tls_secret *secret)
{
    unsigned char iv[TLS_IV];
    bool good = iwarp_tls_expand(library, secret, "key", c->aes_128.key, sizeof c->aes_128.key) &&
                iwarp_tls_expand(library, secret, "iv", iv, sizeof iv);

    c->info.cipher_type = TLS_CIPHER_AES_GCM_128;
    memcpy(c->aes_128.salt, iv, SALT);
    memcpy(c->aes_128.iv, iv + SALT, TLS_IV - SALT);
    return good ? sizeof c->aes_128 : 0;
}

static socklen_t fill_aes_256(union crypto_info *c, OSSL_LIB_CTX *library,
                              const struct tls_secret *secret)
{
    unsigned char iv[TLS_IV];
    bool good = iwarp_tls_expand(library, secret, "key", c->aes_256.key, sizeof c->aes_256.key) &&
                iwarp_tls_expand(library, secret, "iv", iv, sizeof iv);

    c->info.cipher_type = TLS_CIPHER_AES_GCM_256;
    memcpy(c->aes_256.salt, iv, SALT);
    memcpy(c->aes_256.iv, iv + SALT, TLS_IV - SALT);
    return good ? sizeof c->aes_256 : 0;
}

static socklen_t fill_chacha(union crypto_info *c, OSSL_LIB_CTX *library,
                             const struct tls_secret *secret)
{
    c->info.cipher_type = TLS_CIPHER_CHACHA20_POLY1305;
    return iwarp_tls_expand(library, secret, "key", c->chacha.key, sizeof c->chacha.key) &&
                   iwarp_tls_expand(library, secret, "iv", c->chacha.iv, sizeof c->chacha.iv)
               ? sizeof c->chacha
               : 0;
}

static socklen_t fill(union crypto_info *c, const struct iwarp_tls *t,
                      const struct tls_secret *secret)
{
    memset(c, 0, sizeof *c); /* and with it the sequence number */
    c->info.version = TLS_1_3_VERSION;
    if (secret->len == 0) {
        return 0;
    }
    switch (SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(t->ssl))) {
    case 0x1301:
        return fill_aes_128(c, t->creds->library, secret);
    case 0x1302:
        return fill_aes_256(c, t->creds->library, secret);
    case 0x1303:
        return fill_chacha(c, t->creds->library, secret);
    default:
        return 0;
    }
}

static bool give_key(struct iwarp_tls *t, int direction, const struct tls_secret *secret)
{
    union crypto_info c;
    socklen_t len = fill(&c, t, secret);
    bool given = len > 0 && setsockopt(t->kernel.fd, SOL_TLS, direction, &c, len) == 0;

    if (!given) {
        iwarp_log(IWARP_LOG_DEBUG, "tls", "the kernel does not %s: %s",
                  direction == TLS_TX ? "send" : "receive",
                  len > 0 ? strerror(errno) : "the key is not known");
    }
    OPENSSL_cleanse(&c, sizeof c);
    return given;
}

/* --- beginning ------------------------------------------------------------------------------- */

/* Without the module it is ENOENT, which stays so; a socket that has it already cannot be. */
static bool attach(struct iwarp_tls *t)
{
    static const char name[] = "tls";

    if (setsockopt(t->kernel.fd, IPPROTO_TCP, TCP_ULP, name, sizeof name) == 0) {
        return true;
    }
    if (errno == ENOENT && !atomic_exchange(&absent, true)) {
        iwarp_log(IWARP_LOG_DEBUG, "tls", "the kernel has no TLS (module tls)");
    } else {
        iwarp_log(IWARP_LOG_DEBUG, "tls", "no TLS by the kernel: %s", strerror(errno));
    }
    return false;
}

void iwarp_tls_kernel_begin(struct iwarp_tls *t)
{
    struct tls_kernel *k = &t->kernel;
    const struct tls_secret *own = &t->secret[t->below.responder ? TLS_OF_SERVER : TLS_OF_CLIENT];
    const struct tls_secret *peer = &t->secret[t->below.responder ? TLS_OF_CLIENT : TLS_OF_SERVER];

    if (k->fd >= 0 && (k->may_send || k->may_receive) && attach(t)) {
        k->receives = k->may_receive && !SSL_has_pending(t->ssl) && give_key(t, TLS_RX, peer);
        k->sends = k->may_send && give_key(t, TLS_TX, own);
    }
    if (k->receives) {
        t->more = false;
    } else {
        SSL_set_read_ahead(t->ssl, 1);
    }
}

/* --- sending --------------------------------------------------------------------------------- */

ssize_t iwarp_tls_kernel_writev(struct iwarp_tls *t, const struct iovec *iov, int n)
{
    static struct iwarp_log_limit told;
    ssize_t sent = t->below.ep->ops->writev(t->below.ep, iov, n);

    if (sent > 0) {
        unsigned before = t->records;
        t->records += (unsigned)(sent + TLS_RECORD - 1) / TLS_RECORD;
        if (before < WORN && t->records >= WORN) {
            iwarp_log_rarely(
                &told, IWARP_LOG_WARN, "tls",
                "a key has been used for 2^24 records, and the kernel keeps it: connect "
                "anew, or set IWARP_KTLS=0");
        }
    }
    return sent;
}

int iwarp_tls_kernel_alert(struct iwarp_tls *t, unsigned char level, unsigned char number)
{
    union {
        char space[CMSG_SPACE(1)];
        struct cmsghdr align;
    } control = {.space = {0}};
    unsigned char alert[2] = {level, number};
    struct iovec iov = {alert, sizeof alert};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof control.space};
    struct cmsghdr *type = CMSG_FIRSTHDR(&msg);

    type->cmsg_level = SOL_TLS;
    type->cmsg_type = TLS_SET_RECORD_TYPE;
    type->cmsg_len = CMSG_LEN(1);
    *CMSG_DATA(type) = TLS_ALERT;
    return sendmsg(t->kernel.fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

int iwarp_tls_kernel_goodbye(struct iwarp_tls *t)
{
    struct pollfd room = {.fd = t->kernel.fd, .events = POLLOUT};
    int rc = iwarp_tls_kernel_alert(t, 1, CLOSE_NOTIFY);

    if (rc == 0 && poll(&room, 1, 0) == 0) {
        return -EAGAIN;
    }
    t->kernel.goodbye = rc == -EAGAIN;
    return rc;
}

/* --- receiving ------------------------------------------------------------------------------- */

static ssize_t give_up(struct iwarp_tls *t, enum iwarp_fault_code code, enum iwarp_fault_side side,
                       uint64_t detail, unsigned char alert)
{
    iwarp_fault_set(&t->fault, code, side, detail, 0, 0);
    if (alert && t->kernel.sends) {
        (void)iwarp_tls_kernel_alert(t, 2, alert);
    }
    return -EPROTO;
}

static ssize_t unexpected(struct iwarp_tls *t)
{
    return give_up(t, IWARP_FAULT_TLS_FAILED, IWARP_SIDE_LOCAL,
                   ERR_PACK(ERR_LIB_SSL, 0, SSL_R_UNEXPECTED_MESSAGE), SSL_AD_UNEXPECTED_MESSAGE);
}

/* A ticket is of no use here. 1: go on. */
static ssize_t take_handshake(struct iwarp_tls *t, const unsigned char *p, size_t n)
{
    while (n >= 4) {
        size_t len = (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
        if (p[0] == KEY_UPDATE) {
            return give_up(t, IWARP_FAULT_TLS_KEY_UPDATE, IWARP_SIDE_LOCAL, 0,
                           SSL_AD_INTERNAL_ERROR);
        }
        if (p[0] != NEW_SESSION_TICKET || len > n - 4) {
            break;
        }
        p += len + 4;
        n -= len + 4;
    }
    return n == 0 ? 1 : unexpected(t);
}

/* The kernel says EBADMSG for what it cannot decrypt, the others for a header that is none. */
static ssize_t broken(struct iwarp_tls *t, int error)
{
    return error == EBADMSG || error == EMSGSIZE || error == EINVAL
               ? give_up(t, IWARP_FAULT_TLS_RECORD, IWARP_SIDE_LOCAL,
                         ERR_PACK(ERR_LIB_SSL, 0, SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC),
                         SSL_AD_BAD_RECORD_MAC)
               : -error;
}

/* A record that is no payload. 1: go on; 0: close_notify. */
static ssize_t take_other(struct iwarp_tls *t)
{
    union {
        char space[CMSG_SPACE(1)];
        struct cmsghdr align;
    } control = {.space = {0}};
    unsigned char text[TLS_RECORD];
    struct iovec iov = {text, sizeof text};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof control.space};
    ssize_t n = recvmsg(t->kernel.fd, &msg, MSG_DONTWAIT);
    const struct cmsghdr *type = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;

    if (n < 0) {
        return errno == EAGAIN ? -EAGAIN : broken(t, errno);
    }
    if (type && *CMSG_DATA(type) == TLS_HANDSHAKE) {
        return take_handshake(t, text, (size_t)n);
    }
    if (type && *CMSG_DATA(type) == TLS_ALERT && n == 2) {
        t->ended = text[1] == CLOSE_NOTIFY;
        return t->ended ? 0 : give_up(t, IWARP_FAULT_TLS_ALERT, IWARP_SIDE_PEER, text[1], 0);
    }
    return unexpected(t);
}

ssize_t iwarp_tls_kernel_readv(struct iwarp_tls *t, const struct iovec *iov, int n)
{
    for (unsigned messages = 0; !t->ended; messages++) {
        ssize_t got = t->below.ep->ops->readv(t->below.ep, iov, n);
        if (got > 0 || got == -EAGAIN || got == -EFAULT) {
            return got;
        }
        if (got == 0) {
            t->cut = true;
            return give_up(t, IWARP_FAULT_TLS_TRUNCATED, IWARP_SIDE_TRANSPORT, 0, 0);
        }
        if (got != -EIO) {
            return broken(t, (int)-got);
        }
        got = take_other(t);
        if (got <= 0) {
            return got;
        }
        if (messages == TLS_MESSAGES) { /* a peer that goes on like this would have the thread */
            return unexpected(t);
        }
    }
    return 0;
}
