/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/progress.h"

#include "base/process.h"
#include "loop/clock.h"
#include "loop/habit.h"
#include "loop/loop.h"
#include "verbs/device.h"
#include "verbs/worker.h"

#define DEVICES 4 /* that a thread has a habit at */

/* Polls in vain that are one unit; after so many, a thread looks after other threads' loops. */
#define ROUND  64
#define SAMPLE 8 /* polls with the lease from one unit to the next */

#define ROUND_NS 128000 /* of a quick round */
#define AWAY_NS  50000  /* from a wait to the next, if that is quick */
#define PAUSE_NS 200000 /* from a poll with the lease to the next, if that is slow */
#define FEW      4      /* polls in vain between waits that mean nothing */

/* What a thread does at one device. */
struct guest {
    uint64_t device; /* its serial number */
    struct iwarp_habit polling, waiting;
    uint64_t taken;    /* workers whose loops this thread visits as it polls, a bit each */
    unsigned polls;    /* in vain */
    int64_t round_ns;  /* when the last round was over */
    int64_t polled_ns; /* when the last poll was over, if it was a sample; else 0 */
    int64_t waited_ns; /* when the last wait was over */
    bool led;          /* the last wait ran the loop, and nobody has needed it since */
    unsigned idle;     /* polls in vain while a loop was out on lease and nobody in it */
    bool visits;       /* from now on each of those runs the loop */
};

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

static struct guest *guest_of(const struct iwarp_device *device)
{
    struct guest *g = guests.last;

    if (g && g->device == device->serial) {
        return g;
    }
    g = find(device);
    return g ? g : forget_oldest(device);
}

void iwarp_progress_recall(struct iwarp_device *device)
{
    for (unsigned i = 0; i < device->workers && !device->embedded; i++) {
        iwarp_lease_recall(&device->worker[i].loop);
    }
}

/* --- polled ---------------------------------------------------------------------------------- */

/* Nobody else has visited it since this was asked last, and its home has not noticed yet.  Two
 * threads that ask at the same time may both visit it. */
static void visit_if_deserted(struct iwarp_worker *w)
{
    const struct iwarp_lease *s = &w->loop.lease;
    unsigned seen = atomic_load_explicit(&w->visits_seen, memory_order_relaxed);

    if (iwarp_lease_is_out(s) && atomic_load_explicit(&s->visits, memory_order_relaxed) == seen) {
        iwarp_lease_help(&w->loop);
    }
    seen = atomic_load_explicit(&s->visits, memory_order_relaxed);
    atomic_store_explicit(&w->visits_seen, seen, memory_order_relaxed);
}

static void visit_all(struct iwarp_device *device, uint64_t workers)
{
    IWARP_UNCANCELLED;
    static _Thread_local unsigned polls;
    bool others = ++polls % ROUND == 0;

    for (unsigned i = 0; i < device->workers; i++) {
        struct iwarp_worker *w = &device->worker[i];
        if (workers >> i & 1) {
            (void)iwarp_lease_visit(&w->loop);
        } else if (others) {
            visit_if_deserted(w);
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

/* Take the loops, to visit them from the next poll on. */
static bool take_all(struct iwarp_device *device, uint64_t workers)
{
    IWARP_UNCANCELLED;

    if (!iwarp_loop_may_fault()) {
        return false;
    }
    for (unsigned i = 0; i < device->workers; i++) {
        struct iwarp_loop *l = &device->worker[i].loop;
        if (!(workers >> i & 1) || iwarp_lease_is_out(&l->lease)) {
            continue;
        }
        if (iwarp_loop_is_current(l) || !iwarp_lease_take(l, IWARP_PARK_MS)) {
            return false;
        }
        iwarp_lease_leave(l);
    }
    return true;
}

/* Rounds without a pause earn the lease. */
static bool earns(struct iwarp_device *device, struct guest *g, uint64_t workers)
{
    if (!device->options.look || atomic_load(&device->armed) > 0) {
        return false;
    }
    int64_t now = iwarp_now_ns();
    bool quick = now - g->round_ns < ROUND_NS;

    g->round_ns = now;
    if (!iwarp_habit_unit(&g->polling, quick)) {
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

static void give_back(struct iwarp_device *device, struct guest *g)
{
    IWARP_UNCANCELLED;

    iwarp_habit_pause(&g->polling);
    g->taken = 0;
    iwarp_progress_recall(device);
}

/* Others wait for a thread that comes back late. */
static bool is_slow(struct guest *g)
{
    bool sample = g->polled_ns != 0, earned = true;

    if (sample) {
        earned = iwarp_habit_unit(&g->polling, iwarp_now_ns() - g->polled_ns < PAUSE_NS);
    }
    g->polled_ns = 0;
    return !earned;
}

/* False: a lease is over, or the queue has got more workers. */
static bool visit_taken(struct iwarp_device *device, const struct guest *g, uint64_t workers)
{
    IWARP_UNCANCELLED;
    bool all = (workers & ~g->taken) == 0;

    for (unsigned i = 0; i < device->workers && all; i++) {
        all = !(workers >> i & 1) || iwarp_lease_visit(&device->worker[i].loop);
    }
    return all;
}

/* The loop is out on lease, and its guest may be away for long: this thread visits it, too. */
static bool visit_deserted(struct iwarp_device *device, struct guest *g)
{
    IWARP_UNCANCELLED;
    struct iwarp_loop *l = &device->worker[0].loop;

    if (device->workers > 1 || atomic_load(&l->lease.asleep)) {
        return false;
    }
    if (++g->idle == FEW) {
        g->visits = !iwarp_loop_is_current(l) && iwarp_loop_may_fault();
    }
    if (g->idle < FEW || !g->visits) {
        return false;
    }
    iwarp_lease_help(l);
    return true;
}

static bool poll_threaded(struct iwarp_device *device, uint64_t workers)
{
    struct guest *g = guest_of(device);

    bool round = ++g->polls % ROUND == 0;
    if (!g->taken && !(round && earns(device, g, workers))) {
        if (iwarp_lease_is_out(&device->worker[0].loop.lease)) {
            return visit_deserted(device, g);
        }
        g->idle = 0;
        return false;
    }
    if (is_slow(g) || !visit_taken(device, g, workers)) {
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

void iwarp_progress_pause(const struct iwarp_device *device)
{
    struct guest *g = find(device);

    if (g) {
        iwarp_habit_pause(&g->polling);
        g->taken = 0;
        g->idle = 0;
    }
}

/* --- threaded, waiting ----------------------------------------------------------------------- */

bool iwarp_progress_may_wait(struct iwarp_device *device, int timeout_ms)
{
    const struct iwarp_worker *w = &device->worker[0];

    if (device->workers > 1 || device->polled || iwarp_loop_is_current(&w->loop) ||
        (timeout_ms >= 0 && timeout_ms < 2 * IWARP_PARK_MS) || atomic_load(&device->armed) > 0) {
        return false;
    }
    struct guest *g = guest_of(device);
    bool had = g->waiting.earned, out = iwarp_lease_is_out(&w->loop.lease);
    bool quick = iwarp_now_ns() - g->waited_ns < AWAY_NS;
    if (g->led && !out) {
        iwarp_habit_lost(&g->waiting);
    } else if (had && !quick) {
        iwarp_habit_slip(&g->waiting);
    } else if (iwarp_habit_unit(&g->waiting, quick) && !had && !iwarp_loop_may_fault()) {
        iwarp_habit_lost(&g->waiting);
    }
    /* While others poll, a thread that sleeps in the loop would have them wait to be woken. */
    bool mine = !out || g->led;
    g->led = false;
    return g->waiting.earned && mine;
}

bool iwarp_progress_wait(struct iwarp_device *device, bool (*done)(void *arg), void *arg)
{
    struct iwarp_loop *l = &device->worker[0].loop;

    if (!iwarp_lease_take(l, iwarp_lease_is_out(&l->lease) ? 0 : IWARP_PARK_MS)) {
        return false;
    }
    bool in_time = iwarp_lease_stay(l, done, arg);
    struct guest *g = guest_of(device); /* not before: the application's callbacks poll, too */
    g->led = in_time;
    if (!in_time) {
        iwarp_habit_end(&g->waiting);
    }
    return in_time;
}

void iwarp_progress_waited(const struct iwarp_device *device)
{
    struct guest *g = find(device);

    if (g) {
        g->waited_ns = iwarp_now_ns();
    }
}
