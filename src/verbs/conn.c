/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections as the application sees them: accept, reject, disconnect, waiting, information; and
 * how a connection object is made, counted and freed. The protocol's work is done on the
 * connection's worker (conn_setup.c, conn_drive.c).
 *
 * A public call that may close the endpoint, or that answers a Request, is carried to the worker by
 * iwarp_loop_call and waits for it there. So it holds no lock when it calls, and each function
 * *_on_worker takes conn.lock itself. A call that only reads takes conn.lock on its own thread.
 */
#include "verbs/conn.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "loop/clock.h"
#include "loop/loop.h"
#include "mpa/mpa_setup.h"
#include "stream/stream.h"
#include "tls/tls.h"
#include "transport/transport.h"
#include "verbs/conn_admit.h"
#include "verbs/conn_drive.h"
#include "verbs/conn_options.h"
#include "verbs/conn_setup.h"
#include "verbs/conn_tls.h"
#include "verbs/conn_wait.h"
#include "verbs/defer.h"
#include "verbs/device.h"
#include "verbs/eq.h"
#include "verbs/inject.h"
#include "verbs/progress.h"
#include "verbs/qp.h"
#include "verbs/send_imm.h"
#include "verbs/stats.h"
#include "verbs/worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- life of the object ---------------------------------------------------------------------- */

/* The object is on no list any more, and nobody has a reference. */
static void conn_free(struct iwarp_conn *conn)
{
    iwarp_mutex_fini(&conn->lock);
    iwarp_startup_free(conn->startup);
    iwarp_tls_free(conn->tls);
    free(conn->private_data);
    free(conn->inject);
    free(conn->adopted);
    free(conn);
}

/*
 * The object, its start-up block, and its faults on request. No other thread can see it yet. NULL:
 * see *status, and nothing is left.
 */
static struct iwarp_conn *conn_alloc(struct iwarp_device *device, enum iwarp_startup_origin origin,
                                     enum iwarp_status *status)
{
    struct iwarp_conn *conn = iwarp_calloc(1, sizeof *conn);
    struct iwarp_startup *startup = conn ? iwarp_startup_new(origin) : NULL;

    if (!startup) {
        *status = iwarp_fail(IWARP_NO_MEMORY, "no memory for a connection");
    } else if (device->injector) {
        *status = iwarp_inject_open(device->injector, &conn->inject);
    }
    if (*status != IWARP_OK) {
        iwarp_startup_free(startup);
        free(conn);
        return NULL;
    }
    conn->startup = startup;
    iwarp_mutex_init(&conn->lock, device->embedded);
    return conn;
}

/*
 * From the moment it is in the device's list, other threads can find the connection (device.c,
 * listen.c): so it is filled in before, and device.lock covers the check of max_connections
 * together with the entry. The one reference is the caller's, and becomes that of the application's
 * handle or of the listener's event.
 */
struct iwarp_conn *iwarp_conn_new(struct iwarp_device *device,
                                  const struct iwarp_conn_options *options,
                                  enum iwarp_startup_origin origin, enum iwarp_status *status)
{
    struct iwarp_worker *worker = iwarp_device_pick_worker(device, options->worker);
    struct iwarp_tls_context *tls = NULL;

    *status = worker ? iwarp_conn_choose_tls(device, options, origin, &tls) : IWARP_MISUSE;
    struct iwarp_conn *conn = *status == IWARP_OK ? conn_alloc(device, origin, status) : NULL;
    if (!conn) {
        return NULL;
    }
    conn->worker = worker;
    conn->device = device;
    conn->options = *options;
    conn->startup->tls = tls;
    iwarp_conn_tls_options(conn);
    iwarp_send_imm_default(&conn->options, device->options.send_imm);
    conn->await.conn = conn;
    conn->await.wake = iwarp_worker_kick;
    conn->responder = origin != STARTUP_OVER && origin != STARTUP_CONNECTS;
    atomic_store(&conn->refs, 1);
    conn->kick = (struct iwarp_task){.run = iwarp_conn_kicked, .arg = conn, .refs = &conn->refs};
    iwarp_mutex_lock(&device->lock);
    /* Connections that are being turned away do not count: their worker ends them soon. */
    if (device->conn_count >=
        (uint64_t)device->options.max_connections + atomic_load(&device->leaving)) {
        *status = iwarp_fail(IWARP_LIMIT, "device has max_connections (%u) connections already",
                             device->options.max_connections);
    } else {
        device->conn_count++;
        conn->next = device->conns;
        if (conn->next) {
            conn->next->prev = conn;
        }
        device->conns = conn;
    }
    iwarp_mutex_unlock(&device->lock);
    if (*status != IWARP_OK) {
        conn_free(conn);
        return NULL;
    }
    iwarp_guard_refresh(); /* no handlers before the first connection */
    return conn;
}

void iwarp_conn_get(struct iwarp_conn *conn)
{
    atomic_fetch_add(&conn->refs, 1);
}

bool iwarp_conn_get_living(struct iwarp_conn *conn)
{
    unsigned refs = atomic_load(&conn->refs);

    while (refs > 0 && !atomic_compare_exchange_weak(&conn->refs, &refs, refs + 1)) {
    }
    return refs > 0;
}

/*
 * The last reference takes the connection off the device's list under device.lock, so no conn.lock
 * may be held (docs/locks.md). close_lingering (device.c) may find the connection in the list with
 * a count of 0 until then, and leaves it alone. The stream is finished first, as it uses regions
 * and the buffer budget of the device: an embedded device may be freed once its list is empty.
 */
void iwarp_conn_put(struct iwarp_conn *conn)
{
    struct iwarp_device *d = conn->device;

    if (atomic_fetch_sub(&conn->refs, 1) != 1) {
        return;
    }
    if (conn->has_stream) {
        iwarp_stream_fini(&conn->stream);
    }
    iwarp_mutex_lock(&d->lock);
    if (conn->next) {
        conn->next->prev = conn->prev;
    }
    *(conn->prev ? &conn->prev->next : &d->conns) = conn->next;
    d->conn_count--;
    iwarp_stats_conn_gone(conn);
    iwarp_mutex_unlock(&d->lock);
    if (d->embedded) {
        iwarp_device_maybe_free(d);
    }
    conn_free(conn);
}

/*
 * `changes` is a generation number. A waiting thread reads it before it looks at the state, so a
 * change between its look and its sleep makes it look again (wait_for).
 */
void iwarp_conn_changed(struct iwarp_conn *conn)
{
    pthread_mutex_lock(&conn->worker->wait_lock);
    conn->changes++;
    pthread_cond_broadcast(&conn->worker->changed);
    pthread_mutex_unlock(&conn->worker->wait_lock);
}

/*
 * The event lies in the connection, so a report cannot fail for lack of memory. There are two
 * nodes, as two events may wait at the same time: how the connection began, and that it ended.
 */
void iwarp_conn_report(struct iwarp_conn *conn, enum iwarp_event_type type)
{
    bool end = type == IWARP_EVENT_DISCONNECTED;
    struct iwarp_event_node *node = end ? &conn->end_event : &conn->open_event;

    iwarp_conn_changed(conn);
    if (!conn->eq || conn->user_gone) {
        return;
    }
    if (conn->startup) {
        conn->startup->reported = true;
    }
    (void)iwarp_eq_remove(conn->eq, node); /* a REQUEST not yet taken is superseded */
    node->event = (struct iwarp_event){.type = type,
                                       .status = iwarp_fault_status(&conn->fault),
                                       .conn = conn,
                                       .listener = conn->startup ? conn->startup->listener : NULL,
                                       .user = conn->user,
                                       .fault = conn->fault.code ? &conn->fault : NULL};
    iwarp_eq_push(conn->eq, node);
}

/*
 * Before the connection is bound or attached: from then on an event may be reported at any time.
 * The queue cannot be destroyed while it is counted as a user.
 */
void iwarp_conn_use_eq(struct iwarp_conn *conn, struct iwarp_eq *eq)
{
    conn->eq = eq;
    if (eq) {
        iwarp_eq_use(eq, conn->worker);
    }
}

/*
 * For a connection that never had an endpoint. Another thread may have ended it through its queue
 * pair meanwhile, and that reports an event; so both nodes leave the queue before the reference is
 * dropped.
 */
void iwarp_conn_drop(struct iwarp_conn *conn)
{
    struct iwarp_eq *eq = conn->eq;

    if (eq) {
        (void)iwarp_eq_remove(eq, &conn->open_event);
        (void)iwarp_eq_remove(eq, &conn->end_event);
        atomic_fetch_sub(&eq->users, 1);
    }
    iwarp_conn_put(conn);
}

/* --- passive side ---------------------------------------------------------------------------- */

/*
 * One call of iwarp_accept or iwarp_reject, carried to the connection's worker and back. It lies on
 * the caller's stack, as the caller waits.
 */
struct answer {
    struct iwarp_conn *conn;
    struct iwarp_qp *qp; /* NULL: reject */
    const struct iwarp_conn_options *options;
    const void *pd;
    size_t pd_len;
    void *user;
    enum iwarp_status status;
    char error[400]; /* the last error is one of the calling thread */
};

/*
 * On the worker, conn.lock held. Binding comes last: nothing may fail after it. A Reply of RFC 6581
 * has 4 octets less for private data, as the depths of RDMA Reads lie in front of it.
 */
static enum iwarp_status check_answer(const struct answer *a)
{
    size_t room = IWARP_MPA_PRIVATE_DATA_MAX;

    if (a->conn->state != CONN_REQUEST) {
        return a->conn->state == CONN_ENDED
                   ? iwarp_fail(IWARP_CLOSED, "the connection request has gone already")
                   : iwarp_fail(IWARP_MISUSE, "the connection does not wait for an answer");
    }
    if (a->conn->startup->setup.settled.enhanced) {
        room -= IWARP_MPA_ENHANCED_LEN;
    }
    if (a->qp && iwarp_send_imm_answers(a->conn, a->options)) {
        room -= IWARP_SEND_IMM_MARK_LEN;
    }
    if (a->pd_len > 0 && !a->pd) {
        return iwarp_fail(IWARP_MISUSE, "%zu octets of private data, but private_data is NULL",
                          a->pd_len);
    }
    if (a->pd_len > room) {
        return iwarp_fail(IWARP_MISUSE, "%zu octets of private data, this Reply carries %zu",
                          a->pd_len, room);
    }
    return a->qp ? iwarp_qp_bind(a->qp, a->conn) : IWARP_OK;
}

static void set_patience(struct iwarp_conn *conn)
{
    if (conn->tcp) {
        conn->tcp->patience(conn->ep, conn->options.user_timeout_ms, conn->options.keepalive_s);
    }
}

/*
 * The Request may have ended since the application took its event, so its state is checked here,
 * under conn.lock. The connection leaves the listener's crowd before it is answered: from then on
 * it counts as accepted, and no flood of Requests can displace it. The Reply uses the options of
 * this call, bounded by what the queue pair allows.
 */
static void answer_on_worker(void *arg)
{
    struct answer *a = arg;
    struct iwarp_conn *conn = a->conn;

    iwarp_mutex_lock(&conn->lock);
    a->status = check_answer(a);
    if (a->status == IWARP_OK) {
        iwarp_conn_leave_listener(conn);
        if (a->qp) {
            conn->user = a->user;
        }
        if (a->options) {
            enum iwarp_send_imm of_listener = conn->options.send_imm;
            conn->options = *a->options;
            iwarp_conn_tls_options(conn);
            iwarp_send_imm_default(&conn->options, of_listener);
            set_patience(conn);
        }
        if (a->qp) {
            iwarp_qp_bound(a->qp, &conn->options);
        }
        iwarp_conn_reply(conn, a->qp == NULL, a->pd, a->pd_len);
    } else {
        snprintf(a->error, sizeof a->error, "%s", iwarp_last_error());
    }
    iwarp_conn_unlock(conn);
}

/* The worker's error text becomes the last error of this thread. */
static enum iwarp_status answer(struct answer *a)
{
    iwarp_loop_call(&a->conn->worker->loop, answer_on_worker, a);
    return a->status == IWARP_OK ? IWARP_OK : iwarp_fail(a->status, "%s", a->error);
}

enum iwarp_status iwarp_accept(struct iwarp_conn *conn, struct iwarp_qp *qp,
                               const struct iwarp_conn_options *options, const void *private_data,
                               size_t pd_len, void *user)
{
    IWARP_UNCANCELLED;
    struct iwarp_conn_options o;
    enum iwarp_status status = iwarp_conn_options_check(options, &o);

    if (status != IWARP_OK) {
        return status;
    }
    if (!conn || !qp) {
        return iwarp_fail(IWARP_MISUSE, "accepting: the %s is NULL",
                          conn ? "queue pair" : "connection");
    }
    IWARP_ON_LOOP(conn->device);
    struct answer a = {.conn = conn,
                       .qp = qp,
                       .options = options ? &o : NULL,
                       .pd = private_data,
                       .pd_len = pd_len,
                       .user = user};
    return answer(&a);
}

enum iwarp_status iwarp_reject(struct iwarp_conn *conn, const void *private_data, size_t pd_len)
{
    IWARP_UNCANCELLED;
    struct answer a = {.conn = conn, .pd = private_data, .pd_len = pd_len};

    if (!conn) {
        return iwarp_fail(IWARP_MISUSE, "rejecting: the connection is NULL");
    }
    IWARP_ON_LOOP(conn->device);
    return answer(&a);
}

/* --- both sides ------------------------------------------------------------------------------ */

/*
 * States only go up, but for the second try of an initiator, which goes from STARTUP back to
 * CONNECTING. Callers ask for ESTABLISHED or ENDED, so a comparison is enough.
 */
static bool has_reached(struct iwarp_conn *conn, enum iwarp_conn_state state)
{
    iwarp_mutex_lock(&conn->lock);
    bool reached = conn->state >= state;
    iwarp_conn_unlock(conn);
    return reached;
}

struct awaited {
    struct iwarp_conn *conn;
    enum iwarp_conn_state state;
};

/* For a wait that runs an embedded loop. */
static bool has_come(void *arg)
{
    const struct awaited *a = arg;

    return has_reached(a->conn, a->state);
}

/* A cleanup handler: a thread that is cancelled in its sleep wakes up with the lock held. */
static void unlock_wait(void *lock)
{
    pthread_mutex_unlock(lock);
}

/*
 * Sleep until the state of a connection of this worker has changed since `seen` was read, or until
 * the time *until on the monotonic clock (NULL: for ever). False: it is that time. One condition
 * serves all connections of a worker, so the thread may wake up spuriously and looks at `changes`.
 * wait_lock is innermost, and no other lock is held. cancel_state is that of the caller before
 * IWARP_UNCANCELLED: the sleep is the only place where a waiting call may be cancelled.
 */
static bool sleep_until_changed(struct iwarp_conn *conn, unsigned seen,
                                const struct timespec *until, int cancel_state)
{
    volatile int late = 0; /* cleanup handlers are made with setjmp */

    pthread_mutex_lock(&conn->worker->wait_lock);
    pthread_cleanup_push(unlock_wait, &conn->worker->wait_lock);
    pthread_setcancelstate(cancel_state, NULL);
    while (conn->changes == seen && late == 0) {
        late = until ? pthread_cond_clockwait(&conn->worker->changed, &conn->worker->wait_lock,
                                              CLOCK_MONOTONIC, until)
                     : pthread_cond_wait(&conn->worker->changed, &conn->worker->wait_lock);
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cleanup_pop(1);
    return late != ETIMEDOUT;
}

/*
 * Wait for a state of at least `state`. False: time is up. First the homes of the device's loops
 * are asked to run them, since this thread does not visit any while it sleeps.
 *
 * The thread sleeps with wait_lock only, and never with conn.lock. A thread that posts while
 * conn.lock is taken only leaves a note and relies on the lock's holder to send soon
 * (iwarp_qp_claim); a holder that slept would leave the request lying.
 */
static bool wait_for(struct iwarp_conn *conn, enum iwarp_conn_state state, int timeout_ms,
                     int cancel_state)
{
    int64_t end = iwarp_now_ms() + timeout_ms;
    const struct timespec until = {(time_t)(end / 1000), (long)(end % 1000) * 1000000};
    struct awaited awaited = {conn, state};

    if (conn->device->embedded) {
        return iwarp_loop_run_until(&conn->device->worker[0].loop, has_come, &awaited, timeout_ms);
    }
    iwarp_defer_flush_all(conn->device);
    iwarp_progress_recall(conn->device);
    for (bool more = true; more;) {
        pthread_mutex_lock(&conn->worker->wait_lock);
        unsigned seen = conn->changes;
        pthread_mutex_unlock(&conn->worker->wait_lock);
        if (has_reached(conn, state)) {
            return true;
        }
        more = sleep_until_changed(conn, seen, timeout_ms < 0 ? NULL : &until, cancel_state);
    }
    return has_reached(conn, state);
}

/*
 * An ENDED connection is told from an established one under conn.lock, since the fault is written
 * with the state. The fault's text goes into the last error.
 */
enum iwarp_status iwarp_conn_wait(struct iwarp_conn *conn, int timeout_ms)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(conn)) {
        return IWARP_MISUSE;
    }
    enum iwarp_status status = IWARP_OK;

    IWARP_ON_LOOP(conn->device);
    if (!wait_for(conn, CONN_ESTABLISHED, timeout_ms, iwarp_cancel_before)) {
        return iwarp_fail(IWARP_AGAIN, "not established within %d ms", timeout_ms);
    }
    iwarp_mutex_lock(&conn->lock);
    if (conn->state == CONN_ENDED) {
        status = conn->fault.code ? iwarp_fail_fault(&conn->fault)
                                  : iwarp_fail(IWARP_CLOSED, "the connection was closed in order");
    }
    iwarp_conn_unlock(conn);
    return status;
}

/*
 * ENDED says that all work requests are completed or flushed; the endpoint may still wait for the
 * peer's FIN, which is the worker's business alone.
 */
enum iwarp_status iwarp_conn_wait_end(struct iwarp_conn *conn, int timeout_ms)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(conn)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(conn->device);
    return wait_for(conn, CONN_ENDED, timeout_ms, iwarp_cancel_before)
               ? IWARP_OK
               : iwarp_fail(IWARP_AGAIN, "not ended within %d ms", timeout_ms);
}

/*
 * On the worker, as are abort and destroy: each may close the endpoint. An established stream sends
 * what was posted before it half-closes (RFC 5040 6.2, verbs 6.2). A Request that waits for an
 * answer is declined, since a closed connection would look like a refusal of revision 2 to the peer
 * (RFC 6581 10). Any earlier start-up is ended by a reset.
 */
static void disconnect_on_worker(void *arg)
{
    struct iwarp_conn *conn = arg;

    iwarp_mutex_lock(&conn->lock);
    if (conn->state == CONN_ESTABLISHED) {
        iwarp_stream_close(&conn->stream);
        iwarp_conn_turn(conn, 0);
    } else if (conn->state == CONN_REQUEST && !conn->qp) {
        iwarp_conn_decline(conn, IWARP_FAULT_LOCAL_ABORT, 0);
    } else if (conn->state != CONN_ENDED) {
        iwarp_conn_fail(conn, IWARP_FAULT_LOCAL_ABORT, IWARP_SIDE_LOCAL, 0, 0);
    }
    iwarp_conn_unlock(conn);
}

/*
 * A reset: what was posted is flushed, and what is in flight may be lost. The turn carries the
 * stream's end over to the queue pair and closes the endpoint.
 */
void iwarp_conn_end_now(struct iwarp_conn *conn)
{
    if (conn->state == CONN_ESTABLISHED) {
        iwarp_stream_kill(&conn->stream, IWARP_FAULT_LOCAL_ABORT, IWARP_SIDE_LOCAL, 0);
        iwarp_conn_turn(conn, 0);
    } else if (conn->state != CONN_ENDED) {
        iwarp_conn_fail(conn, IWARP_FAULT_LOCAL_ABORT, IWARP_SIDE_LOCAL, 0, 0);
    }
}

static void abort_on_worker(void *arg)
{
    struct iwarp_conn *conn = arg;

    iwarp_mutex_lock(&conn->lock);
    iwarp_conn_end_now(conn);
    iwarp_conn_unlock(conn);
}

/*
 * The application destroys its handle: no event is reported from here on (`user_gone`). A stream
 * that is closing in order already is allowed to finish, on the worker's reference alone. A running
 * stream is reset, and an unanswered Request is declined.
 */
static void destroy_on_worker(void *arg)
{
    struct iwarp_conn *conn = arg;

    iwarp_mutex_lock(&conn->lock);
    conn->user_gone = true;
    if (conn->state == CONN_REQUEST && !conn->qp) {
        iwarp_conn_decline(conn, IWARP_FAULT_LOCAL_ABORT, 0);
    } else if (conn->state != CONN_ESTABLISHED || conn->stream.life == STREAM_RUNNING) {
        iwarp_conn_end_now(conn);
    }
    iwarp_conn_unlock(conn);
}

/* Waits until the worker has begun to close, not until the connection has ended. */
enum iwarp_status iwarp_disconnect(struct iwarp_conn *conn)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(conn)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(conn->device);
    iwarp_loop_call(&conn->worker->loop, disconnect_on_worker, conn);
    return IWARP_OK;
}

enum iwarp_status iwarp_abort(struct iwarp_conn *conn)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(conn)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(conn->device);
    iwarp_loop_call(&conn->worker->loop, abort_on_worker, conn);
    return IWARP_OK;
}

/* Of a connection that has ended there is nothing to close, so no worker is needed. */
static bool destroyed_after_end(struct iwarp_conn *conn)
{
    iwarp_mutex_lock(&conn->lock);
    bool ended = conn->state == CONN_ENDED;
    conn->user_gone = conn->user_gone || ended;
    iwarp_conn_unlock(conn);
    return ended;
}

/*
 * Events are removed once user_gone is set: from then on no new one is queued. The event queue
 * loses its user after that, so it cannot be destroyed with a node of this connection in its list.
 * The reference dropped is the handle's; the worker may still have one.
 */
enum iwarp_status iwarp_conn_destroy(struct iwarp_conn *conn)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(conn)) {
        return IWARP_MISUSE;
    }
    struct iwarp_eq *eq = conn->eq;

    IWARP_ON_LOOP(conn->device);
    if (!destroyed_after_end(conn)) {
        iwarp_loop_call(&conn->worker->loop, destroy_on_worker, conn);
    }
    if (eq) {
        (void)iwarp_eq_remove(eq, &conn->open_event);
        (void)iwarp_eq_remove(eq, &conn->end_event);
        atomic_fetch_sub(&eq->users, 1);
    }
    iwarp_conn_put(conn);
    return IWARP_OK;
}

/*
 * Take conn.lock for a call that only reads. The public calls take a const connection, as they
 * change nothing that the application can see; the lock is not const, hence the cast. NULL: the
 * connection is NULL or may not be used by this thread; the last error says why, and nothing is
 * locked.
 */
static struct iwarp_conn *lock_to_read(const struct iwarp_conn *conn)
{
    struct iwarp_conn *c = (struct iwarp_conn *)(uintptr_t)conn;

    if (!IWARP_GIVEN(conn) || !iwarp_device_usable(conn->device)) {
        return NULL;
    }
    iwarp_mutex_lock(&c->lock);
    return c;
}

/* The octets do not change once they are there, so the pointer stays valid without the lock. */
const void *iwarp_conn_private_data(const struct iwarp_conn *conn, size_t *pd_len)
{
    IWARP_UNCANCELLED;
    struct iwarp_conn *c = lock_to_read(conn);

    if (pd_len) {
        *pd_len = c ? c->private_data_len : 0;
    }
    if (!c) {
        return "";
    }
    const void *data = c->private_data ? c->private_data : (const void *)"";

    iwarp_conn_unlock(c);
    return data;
}

/* The addresses are written by the worker as the start-up goes on. len 0: not known yet. */
static enum iwarp_status copy_addr(const struct iwarp_conn *conn, bool peer,
                                   struct sockaddr_storage *addr, socklen_t *addr_len)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(addr) || !IWARP_GIVEN(addr_len)) {
        return IWARP_MISUSE;
    }
    struct iwarp_conn *c = lock_to_read(conn);
    if (!c) {
        return IWARP_MISUSE;
    }
    const struct iwarp_addr *from = peer ? &c->peer : &c->local;
    socklen_t len = from->len;
    if (len > 0) {
        iwarp_addr_copy(from, addr);
        *addr_len = len;
    }
    iwarp_conn_unlock(c);
    return len > 0 ? IWARP_OK
                   : iwarp_fail(IWARP_MISUSE, "the connection has no such address (yet)");
}

enum iwarp_status iwarp_conn_peer_addr(const struct iwarp_conn *conn, struct sockaddr_storage *addr,
                                       socklen_t *addr_len)
{
    return copy_addr(conn, true, addr, addr_len);
}

enum iwarp_status iwarp_conn_local_addr(const struct iwarp_conn *conn,
                                        struct sockaddr_storage *addr, socklen_t *addr_len)
{
    return copy_addr(conn, false, addr, addr_len);
}

/* A connection without a queue pair: not accepted yet, or the queue pair was destroyed. */
struct iwarp_qp *iwarp_conn_qp(const struct iwarp_conn *conn)
{
    IWARP_UNCANCELLED;
    struct iwarp_conn *c = lock_to_read(conn);

    if (!c) {
        return NULL;
    }
    struct iwarp_qp *qp = c->qp;

    iwarp_conn_unlock(c);
    return qp;
}

void *iwarp_conn_user(const struct iwarp_conn *conn)
{
    return IWARP_GIVEN(conn) ? conn->user : NULL;
}

/* The fault does not change once it is there, so it may be read through the pointer later. */
const struct iwarp_fault *iwarp_conn_fault(const struct iwarp_conn *conn)
{
    IWARP_UNCANCELLED;
    struct iwarp_conn *c = lock_to_read(conn);

    if (!c) {
        return NULL;
    }
    const struct iwarp_fault *fault = c->fault.code ? &c->fault : NULL;

    iwarp_conn_unlock(c);
    return fault;
}

/*
 * Two steps, as there are two moments: what the peer's frame said is known when the frame has come;
 * what both ends agreed on, when the connection is established. Before that the latter stays 0.
 */
/* [MPA2-9.1-01] [MPA2-9.1-10] */
enum iwarp_status iwarp_conn_info(const struct iwarp_conn *conn, struct iwarp_conn_info *info)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(info)) {
        return IWARP_MISUSE;
    }
    if (info->size != sizeof *info) {
        return iwarp_fail(IWARP_MISUSE,
                          "connection info: set size to sizeof(struct iwarp_conn_info)");
    }
    struct iwarp_conn *c = lock_to_read(conn);
    if (!c) {
        return IWARP_MISUSE;
    }
    bool came = c->settled.rev != 0;
    if (came) {
        *info = (struct iwarp_conn_info){.size = sizeof *info,
                                         .mpa_rev = c->settled.rev,
                                         .peer_ird = c->settled.peer_ird,
                                         .peer_ord = c->settled.peer_ord};
    }
    if (iwarp_conn_was_established(c)) {
        info->crc = c->settled.crc;
        info->ird = c->stream.config.ird;
        info->ord = c->stream.config.ord;
        info->mulpdu = c->stream.config.mulpdu;
        info->markers_sent = c->settled.markers_tx;
        info->markers_wanted = c->settled.markers_rx;
        info->rtr = c->settled.rtr;
        info->send_imm = c->stream.config.send_imm;
        info->used = iwarp_stats_used(c);
    }
    iwarp_conn_unlock(c);
    return came ? IWARP_OK
                : iwarp_fail(IWARP_MISUSE, "no valid start-up frame of the peer has come");
}

enum iwarp_status iwarp_conn_set_rnr_timeout(struct iwarp_conn *conn, unsigned ms)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(conn)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(conn->device);
    iwarp_mutex_lock(&conn->lock);
    bool waits = conn->has_stream && conn->stream.config.hold > 0;
    if (waits) {
        conn->options.rnr_timeout_ms = ms;
        iwarp_conn_change_wait(conn);
    }
    iwarp_conn_unlock(conn);
    if (waits) {
        iwarp_worker_kick(conn);
    }
    return waits ? IWARP_OK
                 : iwarp_fail(IWARP_MISUSE, "rnr_timeout_ms: the connection is not established, or "
                                            "has begun with the option at 0");
}
