/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TLS of a connection: choosing the context, the handshake as a state of the connection, and what
 * the application may know of it. src/tls knows nothing of connections.
 *
 * The handshake and the start-up of MPA share startup_timeout_ms, and a connection is a start-up
 * for its crowd (crowd.h) during both.
 */
#include "verbs/conn_tls.h"
#include "base/log.h"
#include "stream/stream.h"
#include "tls/tls.h"
#include "verbs/conn.h"
#include "verbs/conn_drive.h"
#include "verbs/conn_setup.h"
#include "verbs/conn_timer.h"
#include "verbs/device.h"
#include "verbs/worker.h"

#include <errno.h>

/* --- choosing -------------------------------------------------------------------------------- */

/* Two queue pairs of one device have nothing between them that could be listened to. */
enum iwarp_status iwarp_conn_choose_tls(struct iwarp_device *device,
                                        const struct iwarp_conn_options *options,
                                        enum iwarp_startup_origin origin,
                                        struct iwarp_tls_context **context)
{
    *context = NULL;
    if (origin == STARTUP_PAIRED) {
        return IWARP_OK;
    }
    if (!options->tls) {
        *context = device->tls;
        return IWARP_OK;
    }
    return iwarp_tls_store_find(&device->tls_store, options->tls, context);
}

enum iwarp_status iwarp_listener_choose_tls(struct iwarp_device *device,
                                            struct iwarp_conn_options *options)
{
    struct iwarp_tls_context *context;
    enum iwarp_status status = iwarp_conn_choose_tls(device, options, STARTUP_ARRIVED, &context);

    options->tls = iwarp_tls_text(context);
    return status;
}

void iwarp_conn_tls_options(struct iwarp_conn *conn)
{
    conn->options.tls = NULL; /* the caller's */
    if (conn->startup && conn->startup->tls && !iwarp_tls_leaves_crc(conn->startup->tls)) {
        conn->options.crc = false;
    }
}

/* --- the handshake --------------------------------------------------------------------------- */

/* Of the endpoint below. On the worker, without a lock; only the worker changes conn->tls. */
static void ready_below(void *user, bool readable, bool writable)
{
    const struct iwarp_conn *conn = user;

    iwarp_tls_ready(conn->tls, readable, writable);
}

static void wake(void *user)
{
    iwarp_worker_kick(user);
}

/* From here on the endpoint on top is the connection's. False: no memory. */
static bool put_on_top(struct iwarp_conn *conn)
{
    const struct iwarp_tls_below below = {.ep = conn->ep,
                                          .ops = conn->tcp,
                                          .peer = &conn->peer.any,
                                          .budget = &conn->device->budget,
                                          .responder = conn->responder,
                                          .wake = wake};

    iwarp_tls_free(conn->tls); /* of a first try, with revision 2 */
    conn->tls = iwarp_tls_new(conn->startup->tls, &below);
    if (!conn->tls) {
        return false;
    }
    conn->ep->ready = ready_below;
    conn->ep = iwarp_tls_endpoint(conn->tls);
    conn->tcp = conn->tcp ? &iwarp_tls_stack_ops : NULL;
    return true;
}

bool iwarp_conn_tls_begin(struct iwarp_conn *conn)
{
    unsigned ms = conn->options.startup_timeout_ms;

    if (!conn->startup->tls || conn->state == CONN_SECURING) {
        return false;
    }
    conn->state = CONN_SECURING;
    iwarp_conn_start_phase(conn, conn->responder ? ms - ms / 2 : ms, &conn->startup->startup_ms);
    if (put_on_top(conn)) {
        iwarp_conn_tls_step(conn);
    } else {
        iwarp_conn_fail(conn, IWARP_FAULT_MPA_LOCAL, IWARP_SIDE_LOCAL, 0, 0);
    }
    return true;
}

static void done(struct iwarp_conn *conn)
{
    struct iwarp_tls_info info;

    iwarp_tls_describe(conn->tls, &info);
    iwarp_log(IWARP_LOG_INFO, "tls", "%s: the peer is \"%s\" (%s), this end is \"%s\", %s%s%s%s",
              conn->responder ? "accepted" : "connected", info.peer,
              info.kind == IWARP_TLS_PSK ? "pre-shared key" : "certificate", info.own, info.cipher,
              info.alpn ? "" : ", without ALPN", info.kernel_sends ? ", the kernel sends" : "",
              info.kernel_receives ? ", the kernel receives" : "");
    iwarp_conn_end_phase(conn, &conn->startup->startup_ms);
    iwarp_conn_begin_startup(conn);
}

/* A peer that is told why should be able to read it: a reset would destroy the alert. */
static void failed(struct iwarp_conn *conn)
{
    const struct iwarp_fault *f = iwarp_tls_fault(conn->tls);

    if (f->side == IWARP_SIDE_LOCAL) {
        iwarp_conn_linger(conn);
    }
    iwarp_conn_fail(conn, f->code, f->side, f->detail[0], f->detail[1]);
}

void iwarp_conn_tls_step(struct iwarp_conn *conn)
{
    switch (iwarp_tls_handshake(conn->tls)) {
    case IWARP_TLS_READ:
        conn->ep->ops->watch(conn->ep, true, false);
        break;
    case IWARP_TLS_WRITE:
        conn->ep->ops->watch(conn->ep, false, true);
        break;
    case IWARP_TLS_DONE:
        done(conn);
        break;
    case IWARP_TLS_FAILED:
        failed(conn);
        break;
    }
}

/*
 * The first fault wins: a stream that has one already keeps it. After a reset that a write has been
 * told of, the kernel shows no more than an end.
 */
void iwarp_conn_tls_broke(struct iwarp_conn *conn)
{
    const struct iwarp_fault *f = iwarp_tls_fault(conn->tls);

    if (f->code == IWARP_FAULT_TLS_TRUNCATED && conn->tx_error) {
        iwarp_stream_eof(&conn->stream, conn->tx_error);
        return;
    }
    iwarp_fault_set(&conn->stream.fault, f->code, f->side, f->detail[0], f->detail[1], 0);
    iwarp_stream_kill(&conn->stream, f->code, f->side, f->detail[0]);
}

/* --- for the application --------------------------------------------------------------------- */

enum iwarp_status iwarp_conn_tls(const struct iwarp_conn *conn, struct iwarp_tls_info *info)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(conn) || !IWARP_GIVEN(info)) {
        return IWARP_MISUSE;
    }
    if (info->size != sizeof *info) {
        return iwarp_fail(IWARP_MISUSE, "TLS info: set size to sizeof(struct iwarp_tls_info)");
    }
    IWARP_ON_LOOP(conn->device);
    struct iwarp_conn *c = (struct iwarp_conn *)(uintptr_t)conn; /* only its lock changes */
    iwarp_mutex_lock(&c->lock);
    bool over = c->state > CONN_SECURING && !(c->tls && iwarp_tls_fault(c->tls) && c->startup);
    if (over && c->tls) {
        iwarp_tls_describe(c->tls, info);
    } else if (over) {
        *info = (struct iwarp_tls_info){.size = sizeof *info, .cipher = "", .own = "", .peer = ""};
    }
    iwarp_conn_unlock(c);
    return over ? IWARP_OK
                : iwarp_fail(IWARP_MISUSE, "the TLS handshake is not over, or has failed");
}
