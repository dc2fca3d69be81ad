/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Octets between the endpoint on top and the one below.
 *
 * Sending: what is offered is encrypted into whole records of a block (tls_seal.c), so that headers
 * of 18 octets get none of their own, and written below at once. What the endpoint below does not
 * take stays in an allocation of its own size. The handshake is written by OpenSSL through the BIO.
 *
 * Whoever sends must learn then that the transport is full, and watch for room. So the last octet
 * counts as not taken: the call returns one less, the caller comes again with that octet in front,
 * and it is passed over. Invariant: something left over in `out` by a write is `owed`. The octet is
 * the last one that was offered, so it is never the first one of an FPDU, which a stream may still
 * replace.
 *
 * Receiving: OpenSSL reads ahead, up to TLS_READ_AHEAD octets, and decrypts where they lie; one
 * copy brings them to where they belong. That may be memory of the application, which may be gone:
 * the copy is guarded, and nothing else is. Invariant: a read that returns less than there was room
 * for has left nothing behind; else `more` says so.
 */
#include "base/budget.h"
#include "base/guard.h"
#include "tls/tls_inner.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>

/* --- the BIO --------------------------------------------------------------------------------- */

static int bio_write(BIO *bio, const char *data, size_t n, size_t *written)
{
    struct iwarp_tls *t = BIO_get_data(bio);

    *written = n;
    if (t->kernel.sends || t->seal.on) { /* of OpenSSL, which does not know what has been sent */
        return 1;
    }
    unsigned char *to = iwarp_tls_out_room(t, n);
    if (!to) {
        return 0;
    }
    memcpy(to, data, n);
    t->out.len += n;
    return 1;
}

static void note_first(struct iwarp_tls *t, const char *data, size_t n)
{
    for (size_t i = 0; i < n && t->firsts < sizeof t->first; i++) {
        t->first[t->firsts++] = (unsigned char)data[i];
    }
}

/*
 * OpenSSL reads on until payload comes. A peer that sends key changes or tickets instead, faster
 * than they can be taken, would have this thread for as long as it likes.
 */
static bool is_flooded(const struct iwarp_tls *t)
{
    if (t->done && t->messages > TLS_MESSAGES) {
        ERR_raise(ERR_LIB_SSL, SSL_R_TOO_MANY_KEY_UPDATES);
        return true;
    }
    return false;
}

/* A read that came back short has emptied what there was: the next one would be for nothing. */
static int bio_read(BIO *bio, char *data, size_t n, size_t *got)
{
    struct iwarp_tls *t = BIO_get_data(bio);
    struct iovec iov = {data, n};

    BIO_clear_retry_flags(bio);
    if (is_flooded(t)) {
        return 0;
    }
    ssize_t r = t->dry ? -EAGAIN : t->below.ep->ops->readv(t->below.ep, &iov, 1);

    t->dry = r < (ssize_t)n;
    if (r > 0) {
        note_first(t, data, (size_t)r);
        *got = (size_t)r;
        return 1;
    }
    if (r == -EAGAIN) {
        BIO_set_retry_read(bio);
    } else {
        t->cut = r == 0;
        t->error = (int)-r;
    }
    return 0;
}

static long bio_ctrl(BIO *bio, int cmd, long number, void *arg)
{
    (void)number;
    (void)arg;
    return cmd == BIO_CTRL_FLUSH ||
           (cmd == BIO_CTRL_EOF && ((struct iwarp_tls *)BIO_get_data(bio))->cut);
}

static BIO_METHOD *method;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "iwarp");
    if (method) {
        BIO_meth_set_write_ex(method, bio_write);
        BIO_meth_set_read_ex(method, bio_read);
        BIO_meth_set_ctrl(method, bio_ctrl);
    }
}

bool iwarp_tls_io_open(struct iwarp_tls *t)
{
    pthread_once(&once, make_method);
    BIO *bio = method ? BIO_new(method) : NULL;

    if (bio) {
        BIO_set_data(bio, t);
        BIO_set_init(bio, 1);
        SSL_set_bio(t->ssl, bio, bio);
    }
    return bio != NULL;
}

/* --- sending --------------------------------------------------------------------------------- */

enum { OFFER_MAX = TLS_BLOCK_RECORDS * TLS_RECORD };

/* Returns the octets that are encrypted now, or -errno if none are. */
static ssize_t encrypt_all(struct iwarp_tls *t, struct tls_offer *o)
{
    size_t taken = 0;

    while (o->n > 0 && taken + TLS_RECORD <= OFFER_MAX) {
        bool worn = t->seal.number >= t->context->text.rekey || t->seal.asked;
        ssize_t n = worn && !iwarp_tls_seal_update(t) ? -ENOMEM : iwarp_tls_seal(t, TLS_PAYLOAD, o);
        if (n <= 0) {
            return taken > 0 ? (ssize_t)taken : n;
        }
        taken += (size_t)n;
    }
    return (ssize_t)taken;
}

/* What has failed below counts as taken here: the next call returns the error. */
ssize_t iwarp_tls_io_writev(struct iwarp_endpoint *ep, const struct iovec *iov, int n)
{
    struct iwarp_tls *t = tls_of(ep);
    struct tls_offer o = {iov, n, 0};
    size_t before = t->owed ? 1 : 0;

    if (t->kernel.sends) {
        return t->fault.code ? -EPROTO : iwarp_tls_kernel_writev(t, iov, n);
    }
    int rc = t->fault.code ? -EPROTO : iwarp_tls_out_flush(t);

    if (rc < 0) {
        return rc;
    }
    t->owed = false;
    iwarp_tls_skip(&o, before);
    if (o.n == 0) {
        return iwarp_tls_out_count(t) ? (ssize_t)before : -EPROTO;
    }
    ssize_t taken = iwarp_tls_out_block(t) ? encrypt_all(t, &o) : -ENOMEM;
    rc = iwarp_tls_out_flush(t);
    if (taken < 0) {
        return before > 0 ? (ssize_t)before : taken;
    }
    if (rc < 0 && rc != -EAGAIN) {
        return rc;
    }
    if (!iwarp_tls_out_count(t)) {
        return -EPROTO;
    }
    t->owed = rc == -EAGAIN;
    size_t told = before + (size_t)taken - (t->owed ? 1 : 0);
    return told > 0 ? (ssize_t)told : -EAGAIN;
}

/* --- receiving ------------------------------------------------------------------------------- */

struct copy {
    SSL *ssl;
    void *to;
    size_t n, got;
    int rc;
};

/* Under the guard: the octets are decrypted already, so this only copies them. */
static void copy_text(void *arg)
{
    struct copy *c = arg;

    c->rc = SSL_read_ex(c->ssl, c->to, c->n, &c->got);
}

/* The next record, decrypted. 1: there are octets; 0: the peer's end; -errno. */
static int next_record(struct iwarp_tls *t)
{
    unsigned char octet;
    size_t n;

    if (t->ended || SSL_pending(t->ssl) > 0) {
        return !t->ended;
    }
    ERR_clear_error();
    t->messages = 0;
    if (SSL_peek_ex(t->ssl, &octet, 1, &n) == 1) {
        return 1;
    }
    switch (SSL_get_error(t->ssl, 0)) {
    case SSL_ERROR_WANT_READ:
        return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
        t->ended = true;
        return 0;
    default:
        iwarp_tls_fail(t);
        return -EPROTO;
    }
}

static ssize_t take(struct iwarp_tls *t, void *to, size_t n)
{
    int rc = next_record(t);

    if (rc <= 0) {
        return rc;
    }
    size_t there = (size_t)SSL_pending(t->ssl);
    struct copy c = {t->ssl, to, n < there ? n : there, 0, 0};
    if (iwarp_guard_run(to, c.n, copy_text, &c) != 0) {
        return -EFAULT;
    }
    return c.rc == 1 ? (ssize_t)c.got : -EPROTO;
}

/* After a failure what still comes is of no use; whoever waits for the peer's FIN reads it. */
static ssize_t after_failure(struct iwarp_tls *t, const struct iovec *iov, int n)
{
    if (!t->told) {
        t->told = true;
        return -EPROTO;
    }
    return t->cut ? 0 : t->below.ep->ops->readv(t->below.ep, iov, n);
}

/* A peer may ask for a KeyUpdate of this end in what was read; nobody waits for it. */
ssize_t iwarp_tls_io_readv(struct iwarp_endpoint *ep, const struct iovec *iov, int n)
{
    struct iwarp_tls *t = tls_of(ep);
    ssize_t total = 0, got = 0;

    if (t->fault.code) {
        return after_failure(t, iov, n);
    }
    if (t->kernel.receives) {
        got = iwarp_tls_kernel_readv(t, iov, n);
        t->told = got == -EPROTO;
        return got;
    }
    t->dry = false;
    for (struct tls_offer o = {iov, n, 0}; o.n > 0; iwarp_tls_skip(&o, (size_t)got)) {
        got = take(t, (char *)o.iov->iov_base + o.at, o.iov->iov_len - o.at);
        if (got <= 0) {
            break;
        }
        total += got;
    }
    t->more = got > 0 || (total > 0 && got != -EAGAIN);
    if (t->more && got <= 0) {
        t->below.wake(t->ep.user); /* an end that the octets come before */
    }
    if (t->kernel.sends && t->seal.asked) {
        iwarp_fault_set(&t->fault, IWARP_FAULT_TLS_KEY_UPDATE, IWARP_SIDE_LOCAL, 0, 0, 0);
        got = -EPROTO;
    }
    if (!iwarp_tls_out_count(t)) {
        got = -EPROTO;
    }
    if (got == -EPROTO && total == 0) {
        t->told = true;
    }
    return total > 0 ? total : got;
}
