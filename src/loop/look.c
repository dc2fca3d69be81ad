/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Spinning before sleeping: a thread that runs the loop may look for a while whether something
 * comes, before it sleeps.
 *
 * To be woken up costs both ends time, on a virtual machine much.  But a thread that spins finds
 * less at a time than one that sleeps, so each octet costs more calls.  Which of the two moves more
 * octets depends on machine, peer and messages; a trial now and then measures both in turn.  While
 * the thread spins it yields.  If a yield takes long, another thread computes on this processor and
 * the spinning thread comes back late: then spinning stops, and is tried again after longer times.
 */
#include "loop/clock.h"
#include "loop/loop.h"

#include <poll.h>
#include <sched.h>
#include <time.h>

#define SHORT_NS    100000 /* of a short wait, and of a spin */
#define SHORT_WAITS 8      /* short waits in a row before a spin; a long one halves the count */
#define YIELD_EVERY 4      /* looks of a spin */
#define LOST_NS     500000 /* of a yield, if another thread computes here */
#define MAX_DOUBLED 5      /* times that HOLD_NS doubles after that */

#define IDLE_NS  1000000   /* from one wait to the next, if it says nothing about either way */
#define SLICE_NS 3000000   /* of a trial, in which the two ways take turns */
#define SLICES   8         /* of a trial */
#define HOLD_NS  300000000 /* from a trial to the next; idle time counts in none of the three */
#define TO_BEGIN 1.05      /* octets by spinning, of those by sleeping, for spinning to begin */
#define TO_GO_ON 0.95      /* and to go on */

/*
 * Is spinning the way of this slice?  In a trial the slices take turns, even ones sleep and odd
 * ones spin; between trials the result of the last one counts.
 */
static bool looks(const struct iwarp_look *l)
{
    return l->slice < SLICES ? l->slice % 2 == 1 : l->pays;
}

bool iwarp_look_due(const struct iwarp_look *l)
{
    return l->shorts == SHORT_WAITS && looks(l);
}

/*
 * After the last slice compare octets per time, multiplied out so that no time of 0 is divided by.
 * TO_BEGIN and TO_GO_ON differ, so that noise does not flip the result at each trial.
 */
static void end_slice(struct iwarp_look *l)
{
    l->spent_ns = 0;
    if (++l->slice == SLICES) {
        double wanted = l->pays ? TO_GO_ON : TO_BEGIN;
        l->pays = (double)l->octets[1] * (double)l->ns[0] >
                  wanted * (double)l->octets[0] * (double)l->ns[1];
        l->hindered = 0;
    }
}

/*
 * Earlier trials keep three quarters of their weight, so their influence fades.  One trial is not
 * enough where messages come at random.
 */
static void begin_trial(struct iwarp_look *l)
{
    l->spent_ns = 0;
    l->slice = 0;
    for (int i = 0; i < 2; i++) {
        l->ns[i] -= l->ns[i] / 4;
        l->octets[i] -= l->octets[i] / 4;
    }
}

/*
 * Idle time is left out: it says how much the application asked for, and not which way is better.
 */
void iwarp_look_waited(struct iwarp_look *l, int64_t took_ns, int64_t passed_ns, uint64_t octets)
{
    l->shorts = took_ns < SHORT_NS ? l->shorts + (l->shorts < SHORT_WAITS) : l->shorts / 2;
    if (passed_ns > IDLE_NS) {
        return;
    }
    l->spent_ns += passed_ns;
    if (l->slice == SLICES) {
        if (l->spent_ns >= (int64_t)HOLD_NS << l->hindered) {
            begin_trial(l);
        }
        return;
    }
    l->ns[looks(l)] += passed_ns;
    l->octets[looks(l)] += octets;
    if (l->spent_ns >= SLICE_NS) {
        end_slice(l);
    }
}

/*
 * The trial in progress, if any, is cut off; the next one begins after HOLD_NS doubled once for
 * each time in a row.
 */
void iwarp_look_hindered(struct iwarp_look *l)
{
    l->hindered += l->hindered < MAX_DOUBLED;
    l->pays = false;
    l->slice = SLICES;
    l->spent_ns = 0;
}

/*
 * Offer the processor to other threads.  False: another thread has used it for longer than LOST_NS,
 * so this one would come back late for its messages, too.
 */
static bool yield(int64_t now)
{
    sched_yield();
    return iwarp_now_ns() - now < LOST_NS;
}

/*
 * Spin until the loop has found something ready, over(arg), or `end`.  The clock is read at each
 * round: it costs less than the system call in uv_run.  False: the loop has no handles any more.
 */
static bool look(struct iwarp_loop *l, struct iwarp_beside *beside, bool (*over)(void *arg),
                 void *arg, int64_t end)
{
    uint64_t before = l->found;

    for (unsigned i = 1; uv_run(l->uv, UV_RUN_NOWAIT) != 0; i++) {
        int64_t now = iwarp_now_ns();
        if (l->found != before || over(arg) || now >= end) {
            return true;
        }
        if (i % YIELD_EVERY > 0) {
            continue;
        }
        if (beside) {
            beside->ready = poll(beside->fds, beside->count, 0);
        }
        if (!yield(now)) {
            iwarp_look_hindered(&l->look);
            return true;
        }
    }
    return false;
}

/*
 * Octets in both directions.  `sent` is written by any thread, and only about right (conn_drive.c).
 */
static uint64_t moved(const struct iwarp_loop *l)
{
    return l->received + atomic_load_explicit(&l->sent, memory_order_relaxed);
}

/*
 * Sleep until the loop has something to run, or what is beside it.  The loop's own descriptor is
 * good for that once libuv has told the kernel what it watches; its time-out is 0 before.
 */
static bool sleep_beside(struct iwarp_loop *l, struct iwarp_beside *beside)
{
    uv_update_time(l->uv);
    int ms = l->soon ? 0 : uv_backend_timeout(l->uv);

    if (ms != 0) {
        int64_t ns = ms < 0 ? INT64_MAX : ms * INT64_C(1000000);
        int64_t left =
            beside->until_ns == INT64_MAX ? INT64_MAX : beside->until_ns - iwarp_now_ns();
        ns = left < ns ? left : ns;
        ns = ns > 0 ? ns : 0;
        struct pollfd *loop = &beside->fds[beside->count];
        struct timespec wait = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
        *loop = (struct pollfd){.fd = uv_backend_fd(l->uv), .events = POLLIN};
        int ready = ppoll(beside->fds, beside->count + 1, ns == INT64_MAX ? NULL : &wait, NULL);
        beside->ready = ready > 0 ? ready - (loop->revents != 0) : 0;
    }
    return uv_run(l->uv, UV_RUN_NOWAIT) != 0;
}

/*
 * The hot source ends first: a thread that sleeps in the loop is woken up by watched sources only.
 */
bool iwarp_loop_await(struct iwarp_loop *l, struct iwarp_beside *beside, bool (*over)(void *arg),
                      void *arg)
{
    int64_t begin = iwarp_now_ns();
    uint64_t before = l->found;
    bool alive = true;

    iwarp_hot_end(l);
    if (l->options.look && iwarp_look_due(&l->look)) {
        alive = look(l, beside, over, arg, begin + SHORT_NS);
    }
    if (alive && l->found == before && !over(arg)) {
        alive = beside ? sleep_beside(l, beside) : uv_run(l->uv, UV_RUN_ONCE) != 0;
    }
    int64_t now = iwarp_now_ns();
    uint64_t octets = moved(l), since = l->awaited_octets;
    /* `sent` may go back: a thread that was preempted between its load and its store undoes what
     * others have added.  Then this wait counts as 0 octets. */
    iwarp_look_waited(&l->look, now - begin, now - l->awaited_ns,
                      octets > since ? octets - since : 0);
    l->awaited_ns = now;
    l->awaited_octets = octets;
    return alive;
}
