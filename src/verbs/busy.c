/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threaded progress: a thread that polls without end, and in vain, waits for the worker's thread,
 * which may wait for the processor that this one has. So who has polled in vain for a while without
 * a pause drives the workers of its queue itself, as with polled progress, until it pauses: then it
 * has to earn that anew, and for longer if it was short. To arm a queue and to wait are pauses,
 * too, and nobody drives while a completion queue is armed: who sleeps for it is not to wait for
 * this thread's return. A thread with SIGSEGV or SIGBUS blocked never drives (guard.h).
 */
#include "verbs/busy.h"

#include "verbs/clock.h"
#include "verbs/verbs.h"

#include <string.h>

#define ROUND      64     /* polls in vain from one look at the clock to the next */
#define QUICK_NS   128000 /* of a round without a pause */
#define ROUNDS     16     /* quick ones, then it drives: about what the change costs */
#define MAX_ROUNDS 65536
#define WORTH      1024 /* rounds of driving that were worth the change */

#define SAMPLE      8      /* driven polls from one pause that is measured to the next */
#define SLOW_NS     200000 /* of one; to post much takes half of that */
#define SLOW_PAUSES 4      /* in a row */

/* How this thread has polled of late. */
static _Thread_local struct {
    const struct iwarp_device *device;
    uint64_t workers; /* that it drives; 0: none */
    unsigned polls;   /* in vain */
    unsigned rounds;  /* quick ones, or those that it has driven for */
    unsigned wanted;  /* quick ones until it drives */
    int64_t round_ns; /* when the last one was over */
    int64_t left_ns;  /* when it went off after a poll that is a sample; 0: after another */
    unsigned slow;    /* pauses in a row */
} habit;

static void meet(const struct iwarp_device *device)
{
    memset(&habit, 0, sizeof habit);
    habit.device = device;
    habit.wanted = ROUNDS;
}

static void distrust(void)
{
    habit.wanted = habit.wanted < MAX_ROUNDS ? habit.wanted * 2 : MAX_ROUNDS;
}

void iwarp_busy_pause(void)
{
    if (habit.workers && habit.rounds < WORTH) {
        distrust();
    } else if (habit.workers) {
        habit.wanted = ROUNDS;
    }
    habit.workers = 0;
    habit.rounds = 0;
    habit.slow = 0;
}

/* Were there enough of them? Where others want the processor, one or the other takes long. */
static bool is_busy(void)
{
    int64_t now = iwarp_now_ns();
    bool quick = now - habit.round_ns < QUICK_NS;

    habit.round_ns = now;
    habit.rounds = quick ? habit.rounds + 1 : habit.rounds / 2;
    return habit.rounds >= habit.wanted;
}

static bool is_slow(void)
{
    if (habit.left_ns != 0) {
        habit.slow = iwarp_now_ns() - habit.left_ns > SLOW_NS ? habit.slow + 1 : 0;
        habit.left_ns = 0;
    }
    return habit.slow >= SLOW_PAUSES;
}

/* Does this thread drive it, from now on or still? */
static bool drives(struct iwarp_worker *w, uint64_t bit)
{
    if (habit.workers & bit) {
        return atomic_load(&w->polled); /* else it has waited for this thread in vain */
    }
    if (iwarp_worker_is_current(w) || atomic_load(&w->led)) {
        return false;
    }
    if (!iwarp_lead_may_fault() || !iwarp_worker_leave(w)) {
        distrust(); /* a system call, or a wait: not to be asked often */
        return false;
    }
    habit.workers |= bit;
    habit.slow = 0;
    return true;
}

static bool drives_all(struct iwarp_device *device, uint64_t workers)
{
    if (!device->options.look || atomic_load(&device->armed) > 0 || is_slow()) {
        return false;
    }
    for (unsigned i = 0; i < device->workers; i++) {
        uint64_t bit = (uint64_t)1 << i;
        if ((workers & bit) && !drives(&device->worker[i], bit)) {
            return false;
        }
    }
    return true;
}

bool iwarp_busy(struct iwarp_device *device, uint64_t workers)
{
    if (habit.device != device) {
        meet(device);
    }
    bool round = ++habit.polls % ROUND == 0, drove = habit.workers != 0;
    if (!drove && (!round || !is_busy())) {
        return false;
    }
    habit.rounds += drove && round;
    if (drives_all(device, workers)) {
        habit.rounds = drove ? habit.rounds : 0;
        return true;
    }
    if (habit.workers) {
        iwarp_device_hand_over(device);
    }
    iwarp_busy_pause();
    return false;
}

void iwarp_busy_drove(void)
{
    if (habit.polls % SAMPLE == 0) {
        habit.left_ns = iwarp_now_ns();
    }
}
