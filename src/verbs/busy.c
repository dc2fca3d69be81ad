/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threaded progress: a thread that polls without end, and in vain, waits for the worker's thread,
 * which may wait for the processor that this one has. So who has polled in vain for a while without
 * a pause drives the workers of its queue itself, as with polled progress, until it pauses: then it
 * has to earn that anew, each time for longer. To arm a queue and to wait are pauses, too, and
 * nobody drives while a completion queue is armed: who sleeps for it is not to wait for this
 * thread's return. A thread with SIGSEGV or SIGBUS blocked never drives (guard.h).
 */
#include "verbs/clock.h"
#include "verbs/verbs.h"

#include <string.h>

#define ROUND      64     /* polls in vain from one look at the clock to the next */
#define QUICK_NS   128000 /* of a round without a pause */
#define ROUNDS     16     /* quick ones in a row, then it drives: about what the change costs */
#define MAX_ROUNDS 65536
#define FORGIVEN   16384 /* rounds that it drives in a row until half as many are enough again */

/* How this thread has polled of late. */
static _Thread_local struct {
    const struct iwarp_device *device;
    uint64_t workers; /* that it drives; 0: none */
    unsigned polls;   /* in vain */
    unsigned rounds;  /* quick ones, or those that it has driven for */
    unsigned wanted;  /* quick ones until it drives */
    int64_t round_ns; /* when the last one was over */
} habit;

static void meet(const struct iwarp_device *device)
{
    memset(&habit, 0, sizeof habit);
    habit.device = device;
    habit.wanted = ROUNDS;
}

void iwarp_busy_pause(void)
{
    if (habit.workers) {
        habit.wanted = habit.wanted < MAX_ROUNDS ? habit.wanted * 2 : MAX_ROUNDS;
    }
    habit.workers = 0;
    habit.rounds = 0;
}

static void forgive(void)
{
    if (++habit.rounds % FORGIVEN == 0) {
        habit.wanted = habit.wanted > ROUNDS ? habit.wanted / 2 : ROUNDS;
    }
}

/* Were there enough of them? */
static bool is_busy(void)
{
    int64_t now = iwarp_now_ns();
    bool quick = now - habit.round_ns < QUICK_NS;

    habit.round_ns = now;
    habit.rounds = quick ? habit.rounds + 1 : 0;
    return habit.rounds >= habit.wanted;
}

static bool may_drive(const struct iwarp_device *device)
{
    if (!device->options.look || atomic_load(&device->armed) > 0) {
        return false;
    }
    if (!iwarp_lead_may_fault()) { /* a system call: not to be asked often */
        habit.wanted = MAX_ROUNDS;
        iwarp_busy_pause();
        return false;
    }
    return true;
}

/* The worker's thread leaves the loop to those who poll. */
static bool take(const struct iwarp_device *device, struct iwarp_worker *w, uint64_t bit)
{
    if (atomic_load(&w->polled)) {
        return true;
    }
    if (habit.workers & bit) { /* it has waited for this thread in vain */
        iwarp_busy_pause();
        return false;
    }
    if (atomic_load(&w->led) || iwarp_worker_is_current(w) || !may_drive(device)) {
        return false;
    }
    atomic_store(&w->polled, true);
    return true;
}

static bool take_all(struct iwarp_device *device, uint64_t workers)
{
    for (unsigned i = 0; i < device->workers; i++) {
        uint64_t bit = (uint64_t)1 << i;
        if ((workers & bit) && !take(device, &device->worker[i], bit)) {
            return false;
        }
    }
    habit.workers |= workers;
    return true;
}

bool iwarp_busy(struct iwarp_device *device, uint64_t workers)
{
    if (habit.device != device) {
        meet(device);
    }
    bool round = ++habit.polls % ROUND == 0;
    if (!habit.workers) {
        return round && is_busy() && take_all(device, workers);
    }
    if (round) {
        forgive();
    }
    return take_all(device, workers);
}
