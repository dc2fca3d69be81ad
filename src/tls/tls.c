/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The endpoint on top: handshake, readiness, and the end. Octets: tls_io.c.
 *
 * Two things of readiness are this layer's own. What was read ahead is reported by nobody below, so
 * a read that leaves something wakes the worker when it is watched for (`more`). And a FIN waits
 * until the peer's close_notify, and what is in front of it, has gone out (`closing`).
 */
#include "tls/tls.h"
#include "tls/tls_inner.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>

/* --- life ------------------------------------------------------------------------------------ */

enum { CLOSE_NOTIFY = 0 };

static const struct iwarp_transport tls_transport;

static bool prepare(struct iwarp_tls *t)
{
    const char *name = t->context->text.name;

    t->ssl = SSL_new(t->creds->ssl);
    if (!t->ssl || !iwarp_tls_io_open(t)) {
        return false;
    }
    SSL_set_app_data(t->ssl, t);
    iwarp_tls_kernel_init(t);
    if (t->below.responder) {
        SSL_set_accept_state(t->ssl);
        return true;
    }
    SSL_set_connect_state(t->ssl);
    if (t->creds->psk) {
        memcpy(t->peer, t->creds->own, sizeof t->peer);
        return true;
    }
    if (!iwarp_tls_expect_name(t->ssl, name, t->below.peer)) {
        iwarp_fault_set(&t->fault, IWARP_FAULT_TLS_NO_NAME, IWARP_SIDE_LOCAL, 0, 0, 0);
    }
    return true;
}

struct iwarp_tls *iwarp_tls_new(struct iwarp_tls_context *context,
                                const struct iwarp_tls_below *below)
{
    struct iwarp_tls *t = calloc(1, sizeof *t);

    if (!t) {
        return NULL;
    }
    t->context = context;
    t->creds = iwarp_tls_context_creds(context);
    t->below = *below;
    t->ep = (struct iwarp_endpoint){.ops = &tls_transport,
                                    .user = below->ep->user,
                                    .ready = below->ep->ready,
                                    .closed = below->ep->closed};
    bool ready = prepare(t);
    t->below.peer = NULL; /* the caller's */
    ERR_clear_error();
    if (!ready) {
        iwarp_tls_free(t);
        return NULL;
    }
    return t;
}

void iwarp_tls_free(struct iwarp_tls *t)
{
    if (t) {
        SSL_free(t->ssl);
        iwarp_tls_out_fini(t);
        iwarp_tls_seal_fini(t);
        OPENSSL_cleanse(t->secret, sizeof t->secret);
        iwarp_tls_creds_put(t->creds);
        free(t);
    }
}

struct iwarp_endpoint *iwarp_tls_endpoint(struct iwarp_tls *t)
{
    return &t->ep;
}

/* --- the handshake --------------------------------------------------------------------------- */

/*
 * An initiator with pre-shared keys that has verified no certificate and used no key has
 * authenticated nobody. OpenSSL does not let that happen, as no certificate is trusted then; this
 * makes sure of it.
 */
static bool is_authenticated(const struct iwarp_tls *t)
{
    return t->creds->psk ? SSL_session_reused(t->ssl) == 1 && t->peer[0]
                         : SSL_get0_peer_certificate(t->ssl) &&
                               SSL_get_verify_result(t->ssl) == X509_V_OK && t->peer[0];
}

/*
 * OpenSSL answers nothing to what is no TLS. A plain initiator of this library recognises an alert
 * (MPA_TLS), and does not take the end for a refusal of revision 2.
 */
static enum iwarp_tls_step failed(struct iwarp_tls *t)
{
    static const unsigned char unexpected_message[] = {21, 3, 3, 0, 2, 2, 10};

    if (t->fault.code == IWARP_FAULT_TLS_PLAIN) {
        (void)BIO_write(SSL_get_wbio(t->ssl), unexpected_message, sizeof unexpected_message);
    }
    (void)iwarp_tls_out_flush(t);
    t->told = true;
    return IWARP_TLS_FAILED;
}

/* The last flight must be out before the first frame is written. */
static enum iwarp_tls_step flushed(struct iwarp_tls *t, enum iwarp_tls_step step)
{
    int rc = iwarp_tls_out_flush(t);

    if (rc < 0 && rc != -EAGAIN) {
        t->error = -rc;
        iwarp_fault_set(&t->fault, IWARP_FAULT_TCP_LOST, IWARP_SIDE_TRANSPORT, (uint64_t)-rc, 0, 0);
        return failed(t);
    }
    return rc == 0 ? step : IWARP_TLS_WRITE;
}

static void note_agreed(struct iwarp_tls *t)
{
    const unsigned char *protocol;
    unsigned len;

    SSL_get0_alpn_selected(t->ssl, &protocol, &len);
    t->alpn = len > 0;
    t->cipher = SSL_get_cipher_name(t->ssl);
    t->more = SSL_has_pending(t->ssl) == 1;
    t->done = true;
}

static bool is_allowed_here(struct iwarp_tls *t)
{
    if (!is_authenticated(t)) {
        iwarp_fault_set(&t->fault, IWARP_FAULT_TLS_NO_CERT, IWARP_SIDE_LOCAL, 0, 0, 0);
    } else if (!iwarp_tls_admit(t, t->peer)) {
        iwarp_fault_set(&t->fault, IWARP_FAULT_TLS_FORBIDDEN, IWARP_SIDE_LOCAL, 0, 0, 0);
    }
    return !t->fault.code;
}

/* The secrets are known: from here on SSL sends nothing. */
static enum iwarp_tls_step begin_records(struct iwarp_tls *t)
{
    iwarp_tls_kernel_begin(t);
    bool good = t->kernel.sends || iwarp_tls_seal_begin(t);

    OPENSSL_cleanse(t->secret, sizeof t->secret);
    if (!good) {
        iwarp_tls_fail(t);
        return failed(t);
    }
    return IWARP_TLS_DONE;
}

enum iwarp_tls_step iwarp_tls_handshake(struct iwarp_tls *t)
{
    if (t->fault.code) {
        return failed(t);
    }
    ERR_clear_error();
    t->dry = false;
    int rc = t->done ? 1 : SSL_do_handshake(t->ssl);
    if (rc == 1) {
        note_agreed(t);
        enum iwarp_tls_step step = is_allowed_here(t) ? flushed(t, IWARP_TLS_DONE) : failed(t);
        return step == IWARP_TLS_DONE ? begin_records(t) : step;
    }
    if (SSL_get_error(t->ssl, rc) == SSL_ERROR_WANT_READ && !iwarp_tls_is_strange(t)) {
        return flushed(t, IWARP_TLS_READ);
    }
    iwarp_tls_fail(t);
    return failed(t);
}

/* --- readiness ------------------------------------------------------------------------------- */

static void tls_watch(struct iwarp_endpoint *ep, bool read, bool write)
{
    struct iwarp_tls *t = tls_of(ep);

    t->want_read = read;
    t->below.ep->ops->watch(t->below.ep, read, write || t->closing);
    if (read && t->more) {
        t->below.wake(t->ep.user);
    }
}

/* The connection may be closed in either call, so only one is made. */
static void tls_poll(struct iwarp_endpoint *ep)
{
    struct iwarp_tls *t = tls_of(ep);

    if (t->want_read && t->more) {
        t->ep.ready(t->ep.user, true, false);
    } else if (t->below.ep->ops->poll) {
        t->below.ep->ops->poll(t->below.ep);
    }
}

/* Nobody writes any more once the FIN is due, so this needs no lock. */
static void finish_closing(struct iwarp_tls *t)
{
    if (iwarp_tls_out_flush(t) != -EAGAIN) {
        t->closing = false;
        t->below.ep->ops->shutdown_write(t->below.ep);
    }
}

void iwarp_tls_ready(struct iwarp_tls *t, bool readable, bool writable)
{
    if (t->closing && writable) {
        finish_closing(t);
        t->below.ep->ops->watch(t->below.ep, t->want_read, t->closing);
    }
    t->ep.ready(t->ep.user, readable, writable);
}

/* --- the end --------------------------------------------------------------------------------- */

/* RFC 8446 6.1. Not after a fatal alert. */
static void say_goodbye(struct iwarp_tls *t)
{
    if (t->done && !t->fault.code && !(SSL_get_shutdown(t->ssl) & SSL_SENT_SHUTDOWN)) {
        ERR_clear_error();
        t->kernel.goodbye = t->kernel.sends;
        if (t->seal.on) {
            iwarp_tls_seal_alert(t, 1, CLOSE_NOTIFY);
        }
        (void)SSL_shutdown(t->ssl);
        ERR_clear_error();
    }
}

static void tls_shutdown_write(struct iwarp_endpoint *ep)
{
    struct iwarp_tls *t = tls_of(ep);

    say_goodbye(t);
    t->closing = true;
    finish_closing(t);
    if (t->closing) {
        t->below.ep->ops->watch(t->below.ep, t->want_read, true);
    }
}

/* What is left over by then is lost, as with a close of TCP after shutdown of neither side. */
static void tls_close(struct iwarp_endpoint *ep, bool reset)
{
    struct iwarp_tls *t = tls_of(ep);

    if (!reset) {
        say_goodbye(t);
        (void)iwarp_tls_out_flush(t);
    }
    SSL_free(t->ssl);
    t->ssl = NULL;
    iwarp_tls_out_fini(t);
    t->below.ep->ops->close(t->below.ep, reset);
}

/*
 * Records do not follow segments, so nothing is gained by FPDUs of a segment's size: they have at
 * least that of a record.
 */
static uint32_t tls_emss(struct iwarp_endpoint *ep)
{
    struct iwarp_tls *t = tls_of(ep);
    uint32_t below = t->below.ep->ops->emss(t->below.ep);

    return below < TLS_RECORD ? TLS_RECORD : below;
}

static const struct iwarp_transport tls_transport = {"tls",
                                                     iwarp_tls_io_readv,
                                                     iwarp_tls_io_writev,
                                                     tls_watch,
                                                     tls_shutdown_write,
                                                     tls_close,
                                                     tls_emss,
                                                     tls_poll};

/* --- what is known --------------------------------------------------------------------------- */

const struct iwarp_fault *iwarp_tls_fault(const struct iwarp_tls *t)
{
    return t && t->fault.code ? &t->fault : NULL;
}

void iwarp_tls_describe(const struct iwarp_tls *t, struct iwarp_tls_info *info)
{
    *info = (struct iwarp_tls_info){.size = sizeof *info,
                                    .kind = t->creds->psk ? IWARP_TLS_PSK : IWARP_TLS_X509,
                                    .alpn = t->alpn,
                                    .cipher = t->cipher,
                                    .kernel_sends = t->kernel.sends,
                                    .kernel_receives = t->kernel.receives,
                                    .own = t->creds->own,
                                    .peer = t->peer};
    if (t->creds->psk && t->below.responder) {
        info->own = t->peer; /* the key that was chosen */
    }
}

/* --- the stack below ------------------------------------------------------------------------- */

static int stack_error(struct iwarp_endpoint *ep)
{
    struct iwarp_tls *t = tls_of(ep);

    return t->below.ops->error(t->below.ep);
}

static void stack_local_addr(struct iwarp_endpoint *ep, struct sockaddr_storage *addr,
                             socklen_t *len)
{
    struct iwarp_tls *t = tls_of(ep);

    t->below.ops->local_addr(t->below.ep, addr, len);
}

static void stack_peer_addr(struct iwarp_endpoint *ep, struct sockaddr_storage *addr,
                            socklen_t *len)
{
    struct iwarp_tls *t = tls_of(ep);

    t->below.ops->peer_addr(t->below.ep, addr, len);
}

static void stack_patience(struct iwarp_endpoint *ep, unsigned user_timeout_ms,
                           unsigned keepalive_s)
{
    struct iwarp_tls *t = tls_of(ep);

    t->below.ops->patience(t->below.ep, user_timeout_ms, keepalive_s);
}

static bool stack_taken(struct iwarp_endpoint *ep, uint64_t *octets)
{
    struct iwarp_tls *t = tls_of(ep);

    return t->below.ops->taken(t->below.ep, octets);
}

static void stack_watch_end(struct iwarp_endpoint *ep)
{
    struct iwarp_tls *t = tls_of(ep);

    t->want_read = false;
    t->below.ops->watch_end(t->below.ep);
}

static bool stack_unread(struct iwarp_endpoint *ep, int *octets)
{
    struct iwarp_tls *t = tls_of(ep);

    return t->below.ops->unread(t->below.ep, octets);
}

static void stack_await_end(struct iwarp_endpoint *ep, bool write)
{
    struct iwarp_tls *t = tls_of(ep);

    t->want_read = false;
    t->below.ops->await_end(t->below.ep, write || t->closing);
}

static bool stack_ending(struct iwarp_endpoint *ep, int *error)
{
    struct iwarp_tls *t = tls_of(ep);

    return t->below.ops->ending(t->below.ep, error);
}

static void stack_go_away(struct iwarp_endpoint *ep)
{
    struct iwarp_tls *t = tls_of(ep);

    t->below.ops->go_away(t->below.ep);
}

static void stack_come_back(struct iwarp_endpoint *ep)
{
    struct iwarp_tls *t = tls_of(ep);

    t->below.ops->come_back(t->below.ep);
}

static bool stack_is_away(const struct iwarp_endpoint *ep)
{
    const struct iwarp_tls *t = (const struct iwarp_tls *)(const void *)ep;

    return t->below.ops->is_away(t->below.ep);
}

const struct iwarp_stack_ops iwarp_tls_stack_ops = {
    .name = "tls",
    .error = stack_error,
    .local_addr = stack_local_addr,
    .peer_addr = stack_peer_addr,
    .patience = stack_patience,
    .taken = stack_taken,
    .watch_end = stack_watch_end,
    .unread = stack_unread,
    .await_end = stack_await_end,
    .ending = stack_ending,
    .go_away = stack_go_away,
    .come_back = stack_come_back,
    .is_away = stack_is_away,
};
