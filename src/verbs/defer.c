/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/defer.h"

#include "base/process.h"
#include "loop/clock.h"
#include "verbs/conn_drive.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs/mr.h"
#include "verbs/qp.h"

#define TICK_US    250
#define IDLE_TICKS 20 /* without a mark, until a connection leaves the list */
#define AT_ONCE    16 /* connections that are taken out of the lock together */

/* A longer chain goes out at once: its requests share a call already. So does a longer request of a
 * stream that has no large batches: what waited would need several calls. */
#define SMALL_OCTETS (16u * 1024u)

/* --- posting --------------------------------------------------------------------------------- */

/*
 * The requests at [first, end) of the ring, and their octets.  No clock is read for what has more
 * octets than may wait.  The queue pair is in RTS: before that, another thread may be giving the
 * connection its transport.
 */
static bool may_be_deferred(struct iwarp_qp *qp, uint32_t first, uint32_t end, uint64_t *octets)
{
    struct iwarp_wq *sq = &qp->sq;
    bool chain = end - first > 1, small = chain || !qp->conn->stream.config.large_batches;

    *octets = 0;
    if (chain && !qp->conn->tcp) {
        return false;
    }
    for (uint32_t at = first; at != end; at++) {
        const struct iwarp_swqe *w = iwarp_sq_at(sq, at);
        if ((w->opcode != IWARP_WR_WRITE && w->opcode != IWARP_WR_SEND) ||
            (w->flags & IWARP_WR_FENCE)) {
            return false;
        }
        *octets += w->len;
        if (small && *octets > SMALL_OCTETS) {
            return false;
        }
    }
    return true;
}

static unsigned count(_Atomic unsigned *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* Half of the ring is left for what follows, so that deferring makes no post fail. */
static bool has_room(struct iwarp_wq *sq, uint32_t end)
{
    uint32_t used = end - atomic_load_explicit(&sq->reaped, memory_order_relaxed);

    return used <= sq->limit / 2;
}

static void enlist(struct iwarp_conn *conn)
{
    struct iwarp_worker *w = conn->worker;

    pthread_mutex_lock(&w->defer_lock);
    if (!atomic_exchange(&conn->listed, true)) {
        iwarp_conn_get(conn);
        if (!w->list) {
            iwarp_alarm_start(&w->loop.alarm, TICK_US);
        }
        conn->list_next = w->list;
        conn->idle_ticks = 0;
        w->list = conn;
    }
    pthread_mutex_unlock(&w->defer_lock);
}

/* Raised first: a mark is never counted down before it is counted. */
static void mark(struct iwarp_conn *conn)
{
    if (atomic_load_explicit(&conn->deferred, memory_order_relaxed)) {
        return;
    }
    atomic_fetch_add_explicit(&conn->device->deferring, 1, memory_order_relaxed);
    (void)atomic_exchange(&conn->deferred, IWARP_DEFERRED_NEW);
    if (!atomic_load(&conn->listed)) {
        enlist(conn);
    }
}

enum iwarp_defer iwarp_defer_in_row(struct iwarp_qp *qp, uint32_t first, uint32_t end)
{
    struct iwarp_conn *conn = qp->conn;
    struct iwarp_device *device = qp->pd->device;
    struct iwarp_streak *streak = &qp->streak;
    uint64_t octets;

    iwarp_streak_learn(streak, count(&conn->late));
    if (iwarp_qp_state(qp) != IWARP_QP_RTS || !may_be_deferred(qp, first, end, &octets) ||
        iwarp_sleepers_any(&device->sleepers)) {
        return IWARP_DEFER_NO;
    }
    bool waiting = atomic_load_explicit(&conn->deferred, memory_order_relaxed) != 0;
    if (!iwarp_streak_waits(streak, iwarp_now_ns(), end - first, octets, waiting,
                            has_room(&qp->sq, end),
                            atomic_load_explicit(&conn->deferred_sent_ns, memory_order_relaxed))) {
        return IWARP_DEFER_TIMED;
    }
    mark(conn);
    return IWARP_DEFER_YES;
}

/* --- sending --------------------------------------------------------------------------------- */

/*
 * With a reference each, and without a lock: each is sent by this thread, or by the one that holds
 * its lock.
 */
static void send_all(struct iwarp_conn **conns, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        iwarp_conn_send_soon(conns[i]);
        iwarp_conn_put(conns[i]);
    }
}

/* `pass` keeps this thread from taking a connection twice whose lock another thread holds. */
static void flush_worker(struct iwarp_worker *w)
{
    struct iwarp_conn *conns[AT_ONCE];
    unsigned n, pass = 0;

    do {
        n = 0;
        pthread_mutex_lock(&w->defer_lock);
        pass = pass ? pass : ++w->passes;
        for (struct iwarp_conn *c = w->list; c && n < AT_ONCE; c = c->list_next) {
            if (c->list_pass != pass && atomic_load(&c->deferred)) {
                c->list_pass = pass;
                iwarp_conn_get(c);
                conns[n++] = c;
            }
        }
        pthread_mutex_unlock(&w->defer_lock);
        send_all(conns, n);
    } while (n == AT_ONCE);
}

bool iwarp_defer_flush(struct iwarp_device *device, uint64_t workers)
{
    if (atomic_load_explicit(&device->deferring, memory_order_relaxed) == 0) {
        return false;
    }
    IWARP_UNCANCELLED;
    for (unsigned i = 0; i < device->workers; i++) {
        if (workers >> i & 1) {
            flush_worker(&device->worker[i]);
        }
    }
    return true;
}

/* False: it leaves the list.  See invariant 1.  defer_lock held. */
static bool stays(struct iwarp_conn *conn)
{
    if (atomic_load(&conn->deferred)) {
        conn->idle_ticks = 0;
        return true;
    }
    if (++conn->idle_ticks < IDLE_TICKS) {
        return true;
    }
    (void)atomic_exchange(&conn->listed, false);
    if (atomic_load(&conn->deferred)) {
        (void)atomic_exchange(&conn->listed, true);
        return true;
    }
    return false;
}

/* Was it marked at the tick before, and has nothing been sent since?  Then it counts as late. */
static bool is_late(struct iwarp_conn *conn)
{
    uint8_t seen = IWARP_DEFERRED_NEW;

    if (atomic_compare_exchange_strong(&conn->deferred, &seen, IWARP_DEFERRED_SEEN)) {
        return false;
    }
    seen = IWARP_DEFERRED_SEEN;
    if (!atomic_compare_exchange_strong(&conn->deferred, &seen, IWARP_DEFERRED_NEW)) {
        return false;
    }
    atomic_fetch_add_explicit(&conn->late, 1, memory_order_relaxed);
    return true;
}

/*
 * What is late beyond AT_ONCE connections is left to the next tick, which then finds it late again.
 */
void iwarp_defer_tick(void *worker)
{
    struct iwarp_worker *w = worker;
    struct iwarp_conn *late[AT_ONCE], *gone[AT_ONCE];
    unsigned lates = 0, goners = 0;

    pthread_mutex_lock(&w->defer_lock);
    for (struct iwarp_conn **at = &w->list; *at;) {
        struct iwarp_conn *conn = *at;
        if (goners < AT_ONCE && !stays(conn)) {
            gone[goners++] = conn;
            *at = conn->list_next;
            continue;
        }
        if (lates < AT_ONCE && is_late(conn)) {
            iwarp_conn_get(conn);
            late[lates++] = conn;
        }
        at = &conn->list_next;
    }
    if (w->list) {
        iwarp_alarm_start(&w->loop.alarm, TICK_US);
    }
    pthread_mutex_unlock(&w->defer_lock);
    send_all(late, lates);
    while (goners > 0) {
        iwarp_conn_put(gone[--goners]);
    }
}

/* --- the end --------------------------------------------------------------------------------- */

/* defer_lock held.  False: it is not in the list. */
static bool unlist(struct iwarp_conn *conn)
{
    struct iwarp_conn **at = &conn->worker->list;

    while (*at && *at != conn) {
        at = &(*at)->list_next;
    }
    if (!*at) {
        return false;
    }
    *at = conn->list_next;
    (void)atomic_exchange(&conn->listed, false);
    return true;
}

void iwarp_defer_forget(struct iwarp_conn *conn)
{
    iwarp_defer_sent(conn);
    if (!atomic_load(&conn->listed)) {
        return;
    }
    pthread_mutex_lock(&conn->worker->defer_lock);
    bool was = unlist(conn);
    pthread_mutex_unlock(&conn->worker->defer_lock);
    if (was) {
        iwarp_conn_put(conn);
    }
}

void iwarp_defer_drop_all(struct iwarp_worker *w)
{
    struct iwarp_conn *conn;

    do {
        pthread_mutex_lock(&w->defer_lock);
        conn = w->list;
        if (conn) {
            (void)unlist(conn);
        }
        pthread_mutex_unlock(&w->defer_lock);
        if (conn) {
            iwarp_conn_put(conn);
        }
    } while (conn);
}
