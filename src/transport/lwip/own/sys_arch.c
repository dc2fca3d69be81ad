/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What lwIP's sources ask of the system (lwip/sys.h): a lock, a thread, the box of messages from
 * which that thread lives, memory, a clock and random numbers.
 */
#include "base/guard.h"
#include "base/log.h"

#include <errno.h>
#include <lwip/sys.h>
#include <lwip/timeouts.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

struct iwarp_lw_box {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned first, count, room;
    void *message[];
};

_Noreturn void iwarp_lw_broken(const char *what, const char *file, int line)
{
    iwarp_log(IWARP_LOG_ERROR, "lwip", "%s:%d: %s: lwIP cannot go on", file, line, what);
    abort();
}

/* --- memory ---------------------------------------------------------------------------------- */

/*
 * lwIP cannot go on without memory for the next run of a timer, so when there is none these are
 * left. Each has its place in the list of timers, of which there are fewer than that.
 */
#define SPARES 32
static struct sys_timeo spare[SPARES];
static atomic_bool spare_taken[SPARES];

void *iwarp_lw_malloc(size_t n)
{
    void *p = malloc(n);

    for (unsigned i = 0; i < SPARES && !p && n == sizeof *spare; i++) {
        if (!atomic_exchange(&spare_taken[i], true)) {
            p = &spare[i];
        }
    }
    return p;
}

void iwarp_lw_free(void *p)
{
    uintptr_t at = (uintptr_t)p - (uintptr_t)spare;

    if (at < sizeof spare) {
        atomic_store(&spare_taken[at / sizeof *spare], false);
    } else {
        free(p);
    }
}

/* --- time and chance ------------------------------------------------------------------------- */

u32_t sys_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (u32_t)((uint64_t)ts.tv_sec * 1000u + (uint64_t)ts.tv_nsec / 1000000u);
}

/* Without random numbers the clock has to do: what lwIP asks for is no secret. */
uint32_t iwarp_lw_random(void)
{
    uint32_t number;

    return getrandom(&number, sizeof number, GRND_NONBLOCK) == sizeof number ? number : sys_now();
}

/* --- the core lock --------------------------------------------------------------------------- */

void sys_init(void)
{
}

err_t sys_mutex_new(sys_mutex_t *mutex)
{
    return pthread_mutex_init(mutex, NULL) == 0 ? ERR_OK : ERR_MEM;
}

void sys_mutex_free(sys_mutex_t *mutex)
{
    pthread_mutex_destroy(mutex);
}

void sys_mutex_lock(sys_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
}

void sys_mutex_unlock(sys_mutex_t *mutex)
{
    pthread_mutex_unlock(mutex);
}

/* --- the thread and its messages ------------------------------------------------------------- */

struct start {
    lwip_thread_fn run;
    void *arg;
};

static void *begin(void *arg)
{
    struct start start = *(struct start *)arg;

    free(arg);
    start.run(start.arg);
    return NULL;
}

/* lwIP starts one, when it is initialised, and cannot do without. */
sys_thread_t sys_thread_new(const char *name, lwip_thread_fn run, void *arg, int stack, int prio)
{
    struct start *start = malloc(sizeof *start);
    pthread_t thread;

    (void)stack;
    (void)prio;
    if (start) {
        *start = (struct start){run, arg};
    }
    if (!start || iwarp_guard_thread(&thread, begin, start) != 0) {
        iwarp_lw_broken("no thread", __FILE__, __LINE__);
    }
    pthread_setname_np(thread, name);
    pthread_detach(thread);
    return thread;
}

err_t sys_mbox_new(sys_mbox_t *mbox, int size)
{
    struct iwarp_lw_box *b = calloc(1, sizeof *b + (size_t)size * sizeof *b->message);

    if (!b) {
        return ERR_MEM;
    }
    b->room = (unsigned)size;
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    *mbox = b;
    return ERR_OK;
}

void sys_mbox_free(sys_mbox_t *mbox)
{
    pthread_cond_destroy(&(*mbox)->changed);
    pthread_mutex_destroy(&(*mbox)->lock);
    free(*mbox);
}

/* The box's lock is held. */
static void put(struct iwarp_lw_box *b, void *message)
{
    b->message[(b->first + b->count++) % b->room] = message;
    pthread_cond_broadcast(&b->changed);
}

err_t sys_mbox_trypost(sys_mbox_t *mbox, void *message)
{
    struct iwarp_lw_box *b = *mbox;

    pthread_mutex_lock(&b->lock);
    bool full = b->count == b->room;
    if (!full) {
        put(b, message);
    }
    pthread_mutex_unlock(&b->lock);
    return full ? ERR_MEM : ERR_OK;
}

err_t sys_mbox_trypost_fromisr(sys_mbox_t *mbox, void *message)
{
    return sys_mbox_trypost(mbox, message);
}

/* Not under the core lock, which the thread needs to empty the box. */
void sys_mbox_post(sys_mbox_t *mbox, void *message)
{
    struct iwarp_lw_box *b = *mbox;

    pthread_mutex_lock(&b->lock);
    while (b->count == b->room) {
        pthread_cond_wait(&b->changed, &b->lock);
    }
    put(b, message);
    pthread_mutex_unlock(&b->lock);
}

static struct timespec after(u32_t ms)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    ts.tv_sec += ms / 1000;
    ts.tv_nsec += (long)(ms % 1000) * 1000000;
    if (ts.tv_nsec >= 1000000000) {
        ts.tv_sec++;
        ts.tv_nsec -= 1000000000;
    }
    return ts;
}

/* timeout 0: none.  What is returned otherwise is not looked at. */
u32_t sys_arch_mbox_fetch(sys_mbox_t *mbox, void **message, u32_t timeout)
{
    struct iwarp_lw_box *b = *mbox;
    const struct timespec end = after(timeout);
    int rc = 0;

    pthread_mutex_lock(&b->lock);
    while (b->count == 0 && rc != ETIMEDOUT) {
        rc = timeout == 0 ? pthread_cond_wait(&b->changed, &b->lock)
                          : pthread_cond_clockwait(&b->changed, &b->lock, CLOCK_MONOTONIC, &end);
    }
    bool found = b->count > 0;
    if (found) {
        *message = b->message[b->first];
        b->first = (b->first + 1) % b->room;
        b->count--;
        pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
    return found ? 0 : SYS_ARCH_TIMEOUT;
}

u32_t sys_arch_mbox_tryfetch(sys_mbox_t *mbox, void **message)
{
    struct iwarp_lw_box *b = *mbox;

    pthread_mutex_lock(&b->lock);
    bool empty = b->count == 0;
    pthread_mutex_unlock(&b->lock);
    return empty ? SYS_MBOX_EMPTY : sys_arch_mbox_fetch(mbox, message, 0);
}
