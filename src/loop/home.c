/* SPDX-License-Identifier: BSD-2-Clause */
/* The lease of a loop, for the loop's own thread: see the table in lease.h. */
#include "base/guard.h"
#include "loop/clock.h"
#include "loop/loop.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

/*
 * Has a guest asked for the loop, or visited it, since the home took it?  `seen` needs no atomic
 * access: only the home uses it.
 */
static bool is_asked(void *lease)
{
    const struct iwarp_lease *s = lease;

    return atomic_load(&s->visits) != s->seen;
}

/*
 * Run the loop until a guest asks for it.  `run` is held all the time, also in epoll_wait, so a
 * guest gets the loop only when the home leaves it.  False: the loop has no handles any more.
 */
static bool live(struct iwarp_loop *l)
{
    struct iwarp_lease *s = &l->lease;
    bool alive;

    pthread_mutex_lock(&s->run);
    s->seen = atomic_load(&s->visits);
    /*
     * In this order: a thread that recalls and reads HOME, and then that the home is not `asleep`,
     * knows that a guest has asked. Its recall counts already; those before are fulfilled.
     */
    atomic_store(&s->asleep, true);
    atomic_store(&s->wanted, 0);
    atomic_store(&s->owner, IWARP_LEASE_HOME);
    atomic_store_explicit(&s->away, IWARP_AWAY_USUALLY, memory_order_relaxed);
    (void)iwarp_loop_enter(l);
    uv_timer_stop(&l->limit);
    iwarp_hot_end(l);
    alive = uv_run(l->uv, UV_RUN_NOWAIT) != 0; /* one turn at least, however many guests ask */
    iwarp_loop_end_turn(l);
    while (alive && !is_asked(s)) {
        /* Again: a guest that asked for an earlier lease may have cleared it.  is_asked follows. */
        atomic_store(&s->asleep, true);
        alive = iwarp_loop_await(l, NULL, is_asked, s);
        iwarp_loop_end_turn(l);
    }
    atomic_store(&s->asleep, false);
    (void)iwarp_loop_enter(NULL);
    if (alive) {
        atomic_store(&s->owner, IWARP_LEASE_GUEST);
    }
    pthread_mutex_unlock(&s->run);
    return alive;
}

/*
 * An open lease is not ended by sleepers: there, pollers visit as they like, and a thread that goes
 * to sleep recalls the lease itself.
 */
static bool is_recalled(const struct iwarp_lease *s)
{
    return atomic_load(&s->wanted) > 0 || (!s->open && iwarp_sleepers_any(s->sleepers));
}

/*
 * A guest that visits without a pause is disturbed by each check: a timer interrupts a processor,
 * and the home wakes up on one that the guest may be using.  After BUSY_CHECKS checks in a row that
 * found BUSY_VISITS visits each, the kernel may wake the home up to BUSY_SLACK_NS late: mostly
 * with a tick of its own, which comes anyway.  A check that finds fewer visits ends that.
 * While a queue is armed, passed over or not, the home wakes up in time.
 */
#define BUSY_VISITS   500
#define BUSY_CHECKS   4
#define BUSY_SLACK_NS 4000000 /* a tick where the kernel has 250 a second; fewer are rare */

static bool is_busy(const struct iwarp_lease *s, unsigned checks)
{
    return checks >= BUSY_CHECKS && atomic_load(&s->away) == IWARP_AWAY_USUALLY &&
           !iwarp_sleepers_armed(s->sleepers);
}

/* As above, an armed queue has the home back in time. */
static bool is_long(const struct iwarp_lease *s)
{
    return atomic_load(&s->away) == IWARP_AWAY_LONG && !iwarp_sleepers_armed(s->sleepers);
}

static int64_t park_ns(const struct iwarp_lease *s, bool busy)
{
    return iwarp_sleepers_any(s->sleepers)               ? IWARP_PARK_ARMED_NS
           : atomic_load(&s->away) == IWARP_AWAY_BRIEFLY ? IWARP_PARK_BRIEF_NS
           : is_long(s)                                  ? IWARP_PARK_LONG_MS * INT64_C(1000000)
           : busy ? IWARP_PARK_BUSY_MS * INT64_C(1000000) - BUSY_SLACK_NS
                  : IWARP_PARK_MS * INT64_C(1000000);
}

/* For the sleeps of this thread; 0: the system's default.  `set` saves a call. */
static void set_slack(unsigned long ns, unsigned long *set)
{
    if (*set != ns) {
        *set = ns;
        (void)prctl(PR_SET_TIMERSLACK, ns, 0, 0, 0);
    }
}

/* Sleep for so long, or until a nudge; the alarm is served here, too. */
static void doze(struct iwarp_loop *l, int64_t ns)
{
    struct pollfd p[2] = {{.fd = l->lease.nudge, .events = POLLIN},
                          {.fd = l->alarm.fd, .events = POLLIN}};
    struct timespec wait = {.tv_nsec = (long)ns};
    uint64_t count;

    if (ppoll(p, 2, &wait, NULL) <= 0) {
        return;
    }
    if (p[0].revents) {
        (void)!read(l->lease.nudge, &count, sizeof count);
    }
    if (p[1].revents) {
        iwarp_alarm_ready(&l->alarm);
    }
}

/*
 * Stay out of the loop while guests visit it.  After each park time the home compares `visits`: if
 * nobody came and no guest sleeps in the loop, the guest has stopped and the home runs the loop
 * again (invariant 3).  Until then nobody serves the loop, so the park time is short while a
 * sleeper waits for a completion.
 */
static void park(struct iwarp_loop *l)
{
    struct iwarp_lease *s = &l->lease;
    unsigned before = atomic_load(&s->visits);
    unsigned checks = 0; /* in a row that found many visits */
    unsigned long slack = 0;
    int64_t begin = iwarp_now_ns(), now = begin;

    while (!is_recalled(s)) { /* after GUEST was written: a sleeper sees that, or is seen here */
        bool busy = is_busy(s, checks);
        int64_t left = begin + park_ns(s, busy) - now;
        if (left > 0) {
            set_slack(busy ? BUSY_SLACK_NS : 0, &slack);
            doze(l, left);
        } else if (atomic_load(&s->visits) == before && !atomic_load(&s->asleep)) {
            iwarp_sleepers_missed(s->sleepers);
            break;
        } else {
            /* A guest that visits rarely must not pass over the loop's other sources (hot.h). */
            atomic_store_explicit(&l->due, true, memory_order_release);
            checks = atomic_load(&s->visits) - before >= BUSY_VISITS ? checks + 1 : 0;
            before = atomic_load(&s->visits);
            begin = now;
        }
        now = iwarp_now_ns();
    }
    set_slack(0, &slack);
}

static void *home_main(void *arg)
{
    struct iwarp_loop *l = arg;

    while (live(l)) {
        park(l);
    }
    return NULL;
}

/*
 * The owner is GUEST at first: until the home holds `run`, a guest may take the loop without
 * asking, and the home then waits for `run` in live().
 */
int iwarp_home_launch(struct iwarp_loop *l)
{
    struct iwarp_lease *s = &l->lease;

    pthread_mutex_init(&s->run, NULL);
    atomic_init(&s->owner, IWARP_LEASE_GUEST); /* until the home has `run` for the first time */
    s->nudge = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    int rc = s->nudge < 0 ? -errno : -iwarp_guard_thread(&l->thread, home_main, l);
    if (rc != 0) {
        if (s->nudge >= 0) {
            close(s->nudge);
        }
        pthread_mutex_destroy(&s->run);
    }
    return rc;
}

/*
 * The recall makes a parked home run the loop, which sees `stop` and ends.  It is harmless if the
 * home runs the loop already.
 */
void iwarp_home_join(struct iwarp_loop *l)
{
    iwarp_lease_recall(l);
    pthread_join(l->thread, NULL);
    close(l->lease.nudge);
    pthread_mutex_destroy(&l->lease.run);
}

/* An eventfd keeps its count, so a nudge that comes before the home parks is not lost. */
void iwarp_lease_nudge(struct iwarp_loop *l)
{
    const uint64_t one = 1;

    (void)!write(l->lease.nudge, &one, sizeof one); /* cannot fail: the counter never fills up */
}

void iwarp_lease_recall(struct iwarp_loop *l)
{
    struct iwarp_lease *s = &l->lease;

    /*
     * The caller has made known before what it waits for: invariant 2.  So if the home stays in the
     * loop, nothing is to be done; HOME and not `asleep` is a home that leaves, since a guest has
     * asked.  HOME is read twice: between the first look and `asleep` the home may have left, and a
     * guest have set `asleep`.
     */
    if (atomic_load(&s->owner) == IWARP_LEASE_HOME && atomic_load(&s->asleep) &&
        atomic_load(&s->owner) == IWARP_LEASE_HOME) {
        return;
    }
    atomic_fetch_add_explicit(&s->recalls, 1, memory_order_relaxed); /* orders nothing */
    /*
     * A guest that sleeps in the loop handles all events, and wakes up the home when it leaves.
     * Only the first of several recalls writes the eventfd.
     */
    if (atomic_fetch_add(&s->wanted, 1) == 0 && !atomic_load(&s->asleep)) {
        iwarp_lease_nudge(l);
    }
}
