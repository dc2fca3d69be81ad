/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue pairs of this process that take datagrams. The engine moves datagrams; so does a thread
 * that polls in vain, since one that spins may keep the engine from its processor.
 */
#include "base/process.h"
#include "compat/ud.h"

static struct ud *first;
static _Atomic bool ready; /* something has come that nobody has looked at */

void ud_all_ready(void)
{
    atomic_store_explicit(&ready, true, memory_order_release);
}

bool iwarp_ud_help(void)
{
    IWARP_UNCANCELLED;

    if (!atomic_load_explicit(&ready, memory_order_acquire) ||
        pthread_mutex_trylock(&num_lock) != 0) {
        return false;
    }
    int64_t again = ud_all_work(compat_now_ms());
    pthread_mutex_unlock(&num_lock);
    if (again != 0) {
        ud_all_ready();
    }
    return true;
}

void ud_all_add(struct ud *ud)
{
    ud->next = first;
    ud->at = &first;
    if (first) {
        first->at = &ud->next;
    }
    first = ud;
}

void ud_all_remove(struct ud *ud)
{
    if (ud->at) {
        *ud->at = ud->next;
        if (ud->next) {
            ud->next->at = ud->at;
        }
        ud->at = NULL;
    }
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

int64_t ud_all_work(int64_t now)
{
    int64_t next = 0;

    atomic_store_explicit(&ready, false, memory_order_relaxed);
    for (struct ud *ud = first; ud; ud = ud->next) {
        next = sooner(next, ud_move(ud) ? now : 0);
        next = sooner(next, ud_ways_check(ud, now));
        next = sooner(next, ud_kept_check(ud));
    }
    return next;
}

void ud_all_forget(void)
{
    first = NULL;
    atomic_store(&ready, false);
}
