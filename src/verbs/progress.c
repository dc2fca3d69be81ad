/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/progress.h"

#include "base/process.h"
#include "loop/clock.h"
#include "loop/habit.h"
#include "loop/loop.h"
#include "verbs/device.h"
#include "verbs/worker.h"

#define DEVICES 4 /* for which a thread keeps a habit; the oldest entry is replaced */

/* Empty polls that are one unit; after so many, a polled thread visits the other loops once. */
#define ROUND  64
#define SAMPLE 8 /* polls with the lease from one unit to the next */

#define ROUND_NS 128000 /* of a quick round */
#define AWAY_NS  50000  /* from a wait to the next, if that is quick */
/* The same, if the thread waits for many things at once: a park time. */
#define BESIDE_NS (IWARP_PARK_LONG_MS * INT64_C(1000000))
#define PARK_NS   (IWARP_PARK_MS * INT64_C(1000000))
#define PAUSE_NS  200000   /* from a poll with the lease to the next, if that is slow */
#define ARMED_NS  25000000 /* a queue that is armed for longer is passed over, at first */
#define DOUBLED   9        /* times at most */
#define FEW       4        /* empty polls between two waits that do not count as polling */
#define MANY      20       /* the same of a thread whose last wait ran the loop */

/* What one thread does at one device.  Thread-local, so no lock and no atomics. */
struct guest {
    uint64_t device; /* its serial number */
    struct iwarp_habit polling, waiting;
    uint64_t taken;    /* workers whose loops this thread visits as it polls, a bit each */
    unsigned polls;    /* empty ones */
    int64_t round_ns;  /* when the last round was over */
    unsigned arms;     /* sleepers.arms then */
    int64_t armed_ns;  /* since when it is that */
    int64_t polled_ns; /* when the last poll was over, if it was a sample; else 0 */
    int64_t waited_ns; /* when the last wait was over */
    bool led;          /* the last wait ran the loop, and nobody has needed it since */
    uint64_t recalls;  /* of the lease, when it began */
    unsigned idle;     /* empty polls while a loop was out on lease and no thread ran it */
    bool helps;        /* from now on each of those polls runs the loop */
};

/*
 * A device is recognized by its serial number, so an entry of a closed device does no harm: it is
 * never found again, and replaced in the end.
 */
static _Thread_local struct {
    struct guest *last; /* of `at`, or NULL */
    struct guest at[DEVICES];
    unsigned oldest;
} guests;

static struct guest *find(const struct iwarp_device *device)
{
    for (unsigned i = 0; i < DEVICES; i++) {
        if (guests.at[i].device == device->serial) {
            return guests.last = &guests.at[i];
        }
    }
    return NULL;
}

static struct guest *forget_oldest(const struct iwarp_device *device)
{
    struct guest *g = &guests.at[guests.oldest++ % DEVICES];

    *g = (struct guest){.device = device->serial};
    return guests.last = g;
}

/*
 * The common case, the same device as last time, is one comparison: it is on the way of each poll.
 */
static struct guest *guest_of(const struct iwarp_device *device)
{
    struct guest *g = guests.last;

    if (g && g->device == device->serial) {
        return g;
    }
    g = find(device);
    return g ? g : forget_oldest(device);
}

/*
 * The caller has already published what it is going to wait for (loop/lease.h, invariant 2).  An
 * embedded loop has no home that could run it.
 */
void iwarp_progress_recall(struct iwarp_device *device)
{
    for (unsigned i = 0; i < device->workers && !device->embedded; i++) {
        iwarp_lease_recall(&device->worker[i].loop);
    }
}

/* --- polled ---------------------------------------------------------------------------------- */

/*
 * Run a loop once that no thread has visited since the last such check, and whose home is still
 * parked: its guest has stopped polling.  That is no visit, so the home comes back.  Two threads
 * that check at the same time may both run it.
 */
static void help_if_deserted(struct iwarp_worker *w)
{
    const struct iwarp_lease *s = &w->loop.lease;
    unsigned seen = atomic_load_explicit(&w->visits_seen, memory_order_relaxed);

    if (iwarp_lease_is_out(s) && atomic_load_explicit(&s->visits, memory_order_relaxed) == seen) {
        iwarp_lease_help(&w->loop);
    }
    seen = atomic_load_explicit(&s->visits, memory_order_relaxed);
    atomic_store_explicit(&w->visits_seen, seen, memory_order_relaxed);
}

/*
 * Has this thread polled in vain since it last armed a queue or waited?  A thread that arms a queue
 * polls it once more before it sleeps.  That poll must not take the loop from the home, which has
 * just been recalled: nobody would serve the loop until the home is back.
 */
static _Thread_local bool polls_on;

/*
 * Every empty poll visits the loops of the queue that is polled; only every ROUND-th checks the
 * others, since with a worker per thread they are other threads' business.
 */
static void visit_all(struct iwarp_device *device, uint64_t workers)
{
    IWARP_UNCANCELLED;
    static _Thread_local unsigned polls;
    bool others = ++polls % ROUND == 0, ask = polls_on;

    polls_on = true;
    for (unsigned i = 0; i < device->workers; i++) {
        struct iwarp_worker *w = &device->worker[i];
        if (workers >> i & 1) {
            if (!iwarp_lease_visit(&w->loop) && ask) {
                iwarp_lease_ask(&w->loop);
            }
        } else if (others) {
            help_if_deserted(w);
        }
    }
}

void iwarp_progress_look(struct iwarp_device *device, uint64_t workers)
{
    if (device->polled) {
        visit_all(device, workers);
    }
}

/* --- threaded, polling ----------------------------------------------------------------------- */

/*
 * Ask the homes for these loops, so that they are out on lease and the next polls visit them.  The
 * waiting for a home happens here, once.  False: not all could be had; the leases that were taken
 * end by themselves.
 */
static bool take_all(struct iwarp_device *device, uint64_t workers)
{
    IWARP_UNCANCELLED;

    if (!iwarp_loop_may_fault()) {
        return false;
    }
    for (unsigned i = 0; i < device->workers; i++) {
        struct iwarp_loop *l = &device->worker[i].loop;
        if (!(workers >> i & 1)) {
            continue;
        }
        if (iwarp_lease_is_out(&l->lease)) {
            atomic_store_explicit(&l->lease.away, IWARP_AWAY_USUALLY, memory_order_relaxed);
            continue;
        }
        if (iwarp_loop_is_current(l) || !iwarp_lease_take(l, IWARP_PARK_MS)) {
            return false;
        }
        atomic_store_explicit(&l->lease.away, IWARP_AWAY_USUALLY, memory_order_relaxed);
        iwarp_lease_leave(l);
    }
    return true;
}

/* Has nobody armed a queue for long?  At each round, so that the time of the last one is known. */
static bool none_armed_lately(struct guest *g, const struct iwarp_sleepers *s, unsigned arms,
                              int64_t now)
{
    unsigned missed = atomic_load_explicit(&s->missed, memory_order_relaxed);

    if (g->arms != arms) {
        g->arms = arms;
        g->armed_ns = now;
    }
    return now - g->armed_ns > (int64_t)ARMED_NS << (missed < DOUBLED ? missed : DOUBLED);
}

/*
 * A round of empty polls is over: rounds without a pause earn the lease.  Not while a thread sleeps
 * for a queue, or may be about to (invariant 4), and never with the option `look` off.
 */
static bool earns(struct iwarp_device *device, struct guest *g, uint64_t workers)
{
    struct iwarp_sleepers *s = &device->sleepers;

    if (!device->options.look) {
        return false;
    }
    unsigned arms = atomic_load(&s->arms);
    int64_t now = iwarp_now_ns();
    bool quick = now - g->round_ns < ROUND_NS, quiet = none_armed_lately(g, s, arms, now);

    g->round_ns = now;
    if ((iwarp_sleepers_any(s) && !quiet) || !iwarp_habit_unit(&g->polling, quick)) {
        return false;
    }
    if (iwarp_sleepers_any(s) && !iwarp_sleepers_pass_over(s, arms)) {
        return false;
    }
    if (!take_all(device, workers)) {
        iwarp_habit_lost(&g->polling); /* asking took a system call, or a wait: not again soon */
        return false;
    }
    g->taken = workers;
    g->polled_ns = 0;
    return true;
}

/* The recall wakes up the homes now, instead of after a park time. */
static void give_back(struct iwarp_device *device, struct guest *g)
{
    IWARP_UNCANCELLED;

    iwarp_habit_pause(&g->polling);
    g->taken = 0;
    iwarp_progress_recall(device);
}

/*
 * Has this thread lost the lease because it polls too rarely, or has blocked the signals of faults?
 * While it has the lease, nobody else serves the loop between its polls.  Only samples are checked:
 * reading the clock and the signals at each poll would cost as much as the poll.
 */
static bool is_unfit(struct guest *g)
{
    bool sample = g->polled_ns != 0, earned = true;

    if (sample) {
        earned = iwarp_habit_unit(&g->polling, iwarp_now_ns() - g->polled_ns < PAUSE_NS) &&
                 iwarp_loop_may_fault();
    }
    g->polled_ns = 0;
    return !earned;
}

/*
 * Visit the loops that this thread has taken.  False: a lease is over, or the queue is served by a
 * worker whose loop was not taken.
 */
static bool visit_taken(struct iwarp_device *device, const struct guest *g, uint64_t workers)
{
    IWARP_UNCANCELLED;
    bool all = (workers & ~g->taken) == 0;

    for (unsigned i = 0; i < device->workers && all; i++) {
        all = !(workers >> i & 1) || iwarp_lease_visit(&device->worker[i].loop);
    }
    return all;
}

/*
 * The loop is out on lease to another thread, which may not come back for long: after FEW empty
 * polls this thread runs it, too, which is no visit and does not prolong the lease.  A thread that
 * ran the loop in its last wait mostly runs it soon by its next one, so it does this after MANY
 * polls, or once a park time is over.  With several workers it is left to the homes, which come
 * back soon.  A guest that sleeps in the loop serves it, so there is nothing to do.  What makes
 * help impossible is checked anew at every SAMPLE-th poll.
 */
static bool help_guest(struct iwarp_device *device, struct guest *g)
{
    IWARP_UNCANCELLED;
    struct iwarp_loop *l = &device->worker[0].loop;

    if (device->workers > 1 || atomic_load(&l->lease.asleep)) {
        return false;
    }
    bool waits_soon = g->led && iwarp_now_ns() - g->waited_ns < PARK_NS;
    if (g->led && !waits_soon && g->idle < FEW) {
        g->idle = FEW - 1;
    }
    if (++g->idle < (waits_soon ? MANY : FEW)) {
        return false;
    }
    if (g->idle % SAMPLE == FEW) {
        g->helps = !iwarp_loop_is_current(l) && iwarp_loop_may_fault();
    }
    if (!g->helps) {
        return false;
    }
    iwarp_lease_help(l);
    return true;
}

/*
 * One empty poll of this thread.  Without a lease almost nothing is done, but for every ROUND-th
 * poll.
 */
static bool poll_threaded(struct iwarp_device *device, uint64_t workers)
{
    struct guest *g = guest_of(device);

    bool round = ++g->polls % ROUND == 0;
    if (!g->taken && !(round && earns(device, g, workers))) {
        if (iwarp_lease_is_out(&device->worker[0].loop.lease)) {
            return help_guest(device, g);
        }
        g->idle = 0;
        return false;
    }
    if (is_unfit(g) || !visit_taken(device, g, workers)) {
        give_back(device, g);
        return false;
    }
    if (g->polls % SAMPLE == 0) {
        g->polled_ns = iwarp_now_ns();
    }
    return true;
}

bool iwarp_progress_poll(struct iwarp_device *device, uint64_t workers)
{
    if (!device->polled) {
        return poll_threaded(device, workers);
    }
    visit_all(device, workers);
    return true;
}

/* Entries are looked up and not created: a thread that never polled has nothing to end. */
void iwarp_progress_pause(struct iwarp_device *device)
{
    struct guest *g = find(device);

    atomic_fetch_add_explicit(&device->pauses, 1, memory_order_relaxed);
    polls_on = false;
    if (g) {
        iwarp_habit_pause(&g->polling);
        g->taken = 0;
        g->idle = 0;
    }
}

/* --- threaded, waiting ----------------------------------------------------------------------- */

static bool is_mine(const struct guest *g, bool out)
{
    return !out || (g && g->led);
}

/*
 * Count one unit for this thread: quick, if its last wait ended less than AWAY_NS ago.  A thread
 * that waits for many things at once (`beside`) finds many ready, and comes back later. It may be
 * late some times in a row, and that the home has had the loop meanwhile is no loss, unless another
 * thread called for it.
 * With several workers no thread runs a loop while it waits, as it would serve one and sleep
 * through the others; with less than two park times to wait, the lease could come too late.
 */
bool iwarp_progress_may_wait(struct iwarp_device *device, int timeout_ms, bool beside)
{
    const struct iwarp_worker *w = &device->worker[0];

    if (device->workers > 1 || device->polled || iwarp_loop_is_current(&w->loop) ||
        (timeout_ms >= 0 && timeout_ms < 2 * IWARP_PARK_MS)) {
        return false;
    }
    struct guest *g = guest_of(device);
    bool had = g->waiting.earned, out = iwarp_lease_is_out(&w->loop.lease);
    bool quick = iwarp_now_ns() - g->waited_ns < (beside ? BESIDE_NS : AWAY_NS);
    if (g->led && !out &&
        (!beside ||
         g->recalls != atomic_load_explicit(&w->loop.lease.recalls, memory_order_relaxed))) {
        iwarp_habit_lost(&g->waiting);
    } else if (had && !quick && !beside) {
        iwarp_habit_slip(&g->waiting);
    } else {
        (void)iwarp_habit_unit(&g->waiting, quick);
    }
    /* Another guest polls: a thread that slept in the loop would hold `run` against its visits. */
    bool mine = is_mine(g, out);
    g->led = false;
    return g->waiting.earned && mine && !iwarp_sleepers_any(&device->sleepers);
}

/* An entry is looked up and not created: a thread that never waited has earned nothing. */
bool iwarp_progress_earned(const struct iwarp_device *device)
{
    const struct guest *g = find(device);

    return g && g->waiting.earned && device->workers == 1 && !device->polled;
}

void iwarp_progress_lost(struct iwarp_device *device)
{
    iwarp_habit_lost(&guest_of(device)->waiting);
}

bool iwarp_progress_is_mine(const struct iwarp_device *device)
{
    const struct guest *g = find(device);

    return is_mine(g, iwarp_lease_is_out(&device->worker[0].loop.lease));
}

bool iwarp_progress_leads(const struct iwarp_device *device)
{
    return iwarp_progress_earned(device) && !iwarp_sleepers_any(&device->sleepers);
}

/*
 * If the loop is out on lease already, its `run` is tried without waiting: it is free, or in use by
 * another guest, which may keep it for long.
 */
bool iwarp_progress_wait(struct iwarp_device *device, struct iwarp_beside *beside,
                         bool (*done)(void *arg), void *arg)
{
    struct iwarp_loop *l = &device->worker[0].loop;

    if (!iwarp_lease_take(l, iwarp_lease_is_out(&l->lease) ? 0 : IWARP_PARK_MS)) {
        return false;
    }
    uint64_t recalls = atomic_load_explicit(&l->lease.recalls, memory_order_relaxed);
    bool in_time = iwarp_lease_stay(l, beside, done, arg);
    struct guest *g = guest_of(device); /* after stay: callbacks may poll and replace entries */
    g->recalls = recalls;
    g->led = in_time;
    if (!in_time) {
        iwarp_habit_end(&g->waiting);
    }
    return in_time;
}

void iwarp_progress_waited(const struct iwarp_device *device)
{
    struct guest *g = find(device);

    polls_on = false;
    if (g) {
        g->idle = 0;
        g->waited_ns = iwarp_now_ns();
    }
}
