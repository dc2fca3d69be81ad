/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/spin.h"

#include "loop/clock.h"
#include "loop/loop.h"
#include "rdmap/rdmap_wire.h"
#include "verbs/conn.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs/qp.h"
#include "verbs/worker.h"

#define REACT_NS 10000  /* from what came to the post that answers it, if that is quick */
#define STAY_NS  100000 /* for which a post runs the loop */

/* What came of a stay. */
enum { STAYED_NOT, STAYED_ANSWERED, STAYED_UNANSWERED, STAYED_REFUSED };

/* Those of the peer that are placed whole. */
static uint64_t writes_of(const struct iwarp_conn *conn)
{
    return atomic_load_explicit(&conn->counts.rx.messages[IWARP_OP_WRITE], memory_order_relaxed);
}

static unsigned switches_of(const struct iwarp_worker *w)
{
    return atomic_load_explicit(&w->switches, memory_order_relaxed);
}

static void note_time(struct iwarp_conn *conn)
{
    if (atomic_load_explicit(&conn->spin.asked, memory_order_relaxed)) {
        atomic_store_explicit(&conn->spin.came_ns, iwarp_now_ns(), memory_order_relaxed);
    }
}

/*
 * The time is noted twice: a program on another processor may react before the turn is over, and
 * one on the same processor only once it is.
 */
void iwarp_spin_receives(struct iwarp_conn *conn)
{
    struct iwarp_worker *w = conn->worker;

    if (w->served != conn) {
        w->served = conn;
        atomic_store_explicit(&w->switches, switches_of(w) + 1, memory_order_relaxed);
    }
    note_time(conn);
}

void iwarp_spin_received(struct iwarp_conn *conn)
{
    note_time(conn);
}

/* --- posting --------------------------------------------------------------------------------- */

static bool may_stay(const struct iwarp_conn *conn)
{
    const struct iwarp_device *device = conn->device;

    return device->options.look && device->workers == 1 && !device->polled && !device->simulated &&
           !iwarp_sleepers_any(&device->sleepers) && !iwarp_loop_is_current(&conn->worker->loop) &&
           iwarp_loop_may_fault();
}

/* A program that polls an empty queue while it waits can run the loop by that. */
static bool was_empty_at_last_poll(const struct iwarp_cq *cq)
{
    return atomic_load_explicit(&cq->empties, memory_order_relaxed) !=
           atomic_load_explicit(&cq->empties_then, memory_order_relaxed);
}

/* Count what came of the last stay. False: no unit is counted beside it. */
static bool went_well(struct iwarp_spin *s, uint64_t writes)
{
    unsigned how = atomic_exchange(&s->stayed, STAYED_NOT);

    if (how == STAYED_UNANSWERED) {
        iwarp_habit_slip(&s->habit);
        return false;
    }
    if (how == STAYED_REFUSED || (how == STAYED_ANSWERED && writes != atomic_load(&s->seen))) {
        iwarp_habit_lost(&s->habit);
        return false;
    }
    return true;
}

/*
 * Most programs are nothing of the kind: they pay for one comparison, and the clock is not read for
 * them.
 */
bool iwarp_spin_counts(struct iwarp_qp *qp, uint64_t *writes)
{
    struct iwarp_conn *conn = qp->conn;
    struct iwarp_spin *s = &conn->spin;
    unsigned others = switches_of(conn->worker);
    unsigned pauses = atomic_load_explicit(&conn->device->pauses, memory_order_relaxed);

    *writes = writes_of(conn);
    if (*writes == s->writes && s->habit.streak == 0) {
        return false;
    }
    bool answers = *writes == s->writes + 1 && others == s->others && pauses == s->pauses &&
                   !was_empty_at_last_poll(qp->options.send_cq) &&
                   !was_empty_at_last_poll(qp->options.recv_cq);
    s->writes = *writes;
    s->others = others;
    s->pauses = pauses;
    if (!atomic_load_explicit(&s->asked, memory_order_relaxed)) {
        atomic_store_explicit(&s->asked, true, memory_order_relaxed);
        return false;
    }
    if (!went_well(s, *writes)) {
        return false;
    }
    int64_t came_ns = atomic_load_explicit(&s->came_ns, memory_order_relaxed);
    bool quick = answers && iwarp_now_ns() - came_ns < REACT_NS;
    s->leads = iwarp_habit_unit(&s->habit, quick) && may_stay(conn);
    return s->leads;
}

/* A lease whose guest is not away briefly is another guest's. */
static void give_back(struct iwarp_loop *l)
{
    if (atomic_load_explicit(&l->lease.away, memory_order_relaxed) == IWARP_AWAY_BRIEFLY) {
        iwarp_lease_recall(l);
    }
}

void iwarp_spin_end(struct iwarp_conn *conn)
{
    struct iwarp_spin *s = &conn->spin;

    s->leads = false;
    if (s->habit.earned) {
        iwarp_habit_slip(&s->habit);
    }
    give_back(&conn->worker->loop);
}

/* --- staying --------------------------------------------------------------------------------- */

/*
 * The home is asked for the loop if it has it: at the first stay, or since somebody has recalled
 * the lease. `away` is set first, as the home parks as soon as it has left the loop.
 */
static bool take(struct iwarp_loop *l)
{
    if (iwarp_lease_is_out(&l->lease)) {
        return true;
    }
    atomic_store_explicit(&l->lease.away, IWARP_AWAY_BRIEFLY, memory_order_relaxed);
    if (!iwarp_lease_take(l, IWARP_PARK_MS)) {
        return false;
    }
    iwarp_lease_leave(l);
    return true;
}

void iwarp_spin_stay(struct iwarp_conn *conn, uint64_t writes)
{
    struct iwarp_loop *l = &conn->worker->loop;
    unsigned others = switches_of(conn->worker);
    unsigned how = take(l) ? STAYED_NOT : STAYED_REFUSED;
    int64_t now = iwarp_now_ns(), end = now + STAY_NS;

    while (how == STAYED_NOT) {
        if (writes_of(conn) != writes) {
            how = STAYED_ANSWERED;
        } else if (now >= end || switches_of(conn->worker) != others) {
            how = STAYED_UNANSWERED;
        } else if (!iwarp_lease_visit(l)) {
            how = STAYED_REFUSED;
        }
        now = iwarp_now_ns();
    }
    atomic_store_explicit(&conn->spin.came_ns, now, memory_order_relaxed);
    atomic_store(&conn->spin.seen, writes_of(conn));
    atomic_store(&conn->spin.stayed, how);
    if (how != STAYED_ANSWERED) {
        give_back(l);
    }
}
