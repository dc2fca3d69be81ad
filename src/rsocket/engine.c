/* SPDX-License-Identifier: BSD-2-Clause */
/* One thread of the process: it frees sockets that were closed. It sleeps while there is none. */
#include "rsocket/rs.h"

#include "base/pages.h"
#include "base/process.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The thread looks at closed sockets every TICK_MS, and at once when AT_ONCE of them have come,
 * since each has 100 KiB or more, or when one has a connection that is still to be ended. */
#define TICK_MS    20
#define AT_ONCE    8
#define SHARES     32    /* of the send buffer: what counts as taken by the peer */
#define EXIT_MS    5000  /* at exit: so long nothing that was written may go out, */
#define EXIT_MAX   60000 /* so long in all, however many peers take something, */
#define GIVE_UP_MS 200   /* and then so long for aborts */

static pthread_mutex_t engine_lock = PTHREAD_MUTEX_INITIALIZER;
static bool runs;                   /* the thread; in this process */
static int bell = -1;               /* eventfd: there is something in the list */
static struct rs *dead, *dying;     /* dying: of the thread alone */
static _Atomic unsigned dead_count; /* in both */
static bool hurries;                /* one of the list cannot wait */
static _Atomic unsigned went;       /* how often something of a closed socket went out */
static _Atomic bool gives_up;       /* the process exits, and waits no longer */
static _Atomic unsigned passes;     /* of free_dead */

uint64_t rs_engine_until(const struct rs *s)
{
    const bool few = atomic_load(&dead_count) <= RS_KEPT_MOST;

    return rs_now_ms() + (s->kept > 0 && few ? RS_KEPT_MS : RS_LINGER_MS);
}

static void destroy(struct rs *s)
{
    rs_forget_due(s);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->wake_lock);
    free(s);
}

void rs_engine_bury(struct rs *s, uint64_t until_ms, bool at_once)
{
    IWARP_UNCANCELLED;

    pthread_mutex_lock(&engine_lock);
    if (!runs && !s->cq && !rs_is_used(s)) { /* it was never connected, and there is no thread */
        pthread_mutex_unlock(&engine_lock);
        destroy(s);
        return;
    }
    s->dead_until_ms = until_ms;
    s->next_dead = dead;
    dead = s;
    dead_count++;
    hurries = hurries || at_once || dead_count % AT_ONCE == 0;
    if (hurries || dead_count == 1) { /* else the thread comes within TICK_MS */
        (void)!write(bell, &(uint64_t){1}, sizeof(uint64_t));
    }
    pthread_mutex_unlock(&engine_lock);
}

/* --- buffers --------------------------------------------------------------------------------- */

/* Buffers of the sockets that were freed now. They go back to the kernel together, neighbours by
 * one call, since each interrupts the processors that run other threads of the process. */
struct range {
    uint8_t *at;
    size_t len;
};
static struct range ranges[4 * AT_ONCE];
static size_t range_count;

static int by_address(const void *a, const void *b)
{
    const struct range *x = a, *y = b;

    return x->at < y->at ? -1 : x->at > y->at;
}

static void unmap_ranges(void)
{
    struct range run = {NULL, 0};

    qsort(ranges, range_count, sizeof ranges[0], by_address);
    for (size_t i = 0; i < range_count; i++) {
        if (!IWARP_PAGES_BY_CALLOC && run.at && ranges[i].at == run.at + run.len) {
            run.len += ranges[i].len;
        } else {
            iwarp_pages_unmap(run.at, run.len);
            run = ranges[i];
        }
    }
    iwarp_pages_unmap(run.at, run.len);
    range_count = 0;
}

static void unmap_later(struct rs *s)
{
    if (range_count == sizeof ranges / sizeof ranges[0]) {
        unmap_ranges();
    }
    if (s->buffers) {
        ranges[range_count++] = (struct range){s->buffers, s->buffers_len};
        s->buffers = NULL;
    }
}

/* --- sockets that were closed ---------------------------------------------------------------- */

static void free_socket(struct rs *s)
{
    rs_over(s, ECONNRESET); /* if its time was up */
    unmap_later(s);
    rs_unprepare(s);
    rs_events_forget(s);
    destroy(s);
}

static bool is_sent(const struct rs *s)
{
    return s->state == RS_OVER ||
           (s->controls == 0 && s->send_free == s->send_len && s->sends_free == s->sq_size);
}

/* What was written goes out first, as long as the peer takes it: a share at a time, so that it
 * cannot hold the socket, or the end of this process, for as long as it likes. */
static void finish(struct rs *s)
{
    if (is_sent(s)) {
        (void)(s->to_reset ? iwarp_abort(s->conn) : iwarp_disconnect(s->conn));
        s->to_reset = s->to_end = false;
    } else if (atomic_load(&gives_up) && rs_keeps(s)) {
        iwarp_abort(s->conn); /* the peer is to see that something is missing */
        rs_over(s, ECONNRESET);
        return;
    } else if (s->send_free < s->free_then + s->send_len / SHARES) {
        return;
    }
    s->free_then = s->send_free;
    s->dead_until_ms = rs_engine_until(s);
    atomic_fetch_add(&went, 1);
}

/* Its connection has ended, or has had its time, and no call uses it. */
static bool can_go(struct rs *s)
{
    bool can;

    if (rs_is_used(s)) {
        return false;
    }
    pthread_mutex_lock(&s->lock);
    rs_progress(s);
    if (s->conn && (s->to_reset || s->to_end)) {
        finish(s);
    }
    can = !s->conn || s->ended || rs_now_ms() >= s->dead_until_ms;
    s->gone = can;
    rs_unlock(s);
    return can;
}

/* True if some are left. */
static bool free_dead(void)
{
    struct rs **at = &dying;
    unsigned freed = 0;

    pthread_mutex_lock(&engine_lock);
    while (*at) {
        at = &(*at)->next_dead;
    }
    *at = dead;
    dead = NULL;
    hurries = false;
    pthread_mutex_unlock(&engine_lock);
    for (at = &dying; *at;) {
        struct rs *s = *at;
        rs_events_hold();
        if (can_go(s)) {
            *at = s->next_dead;
            free_socket(s);
            freed++;
        } else {
            at = &s->next_dead;
        }
        rs_events_release();
    }
    unmap_ranges();
    atomic_fetch_add(&passes, 1);
    pthread_mutex_lock(&engine_lock);
    dead_count -= freed;
    bool some = dead_count > 0;
    pthread_mutex_unlock(&engine_lock);
    return some;
}

/* --- the thread ------------------------------------------------------------------------------ */

static void await_bell(int timeout_ms)
{
    struct pollfd fd = {bell, POLLIN, 0};
    uint64_t rings;

    poll(&fd, 1, timeout_ms);
    (void)!read(bell, &rings, sizeof rings);
}

static bool may_gather(void)
{
    pthread_mutex_lock(&engine_lock);
    const bool may = !hurries;
    pthread_mutex_unlock(&engine_lock);
    return may;
}

/* The first one that is closed wakes the thread up, and it waits for more. */
static void *run(void *arg)
{
    bool some = false;

    (void)arg;
    for (;;) {
        await_bell(some ? TICK_MS : -1);
        if (!some && may_gather()) {
            await_bell(TICK_MS);
        }
        some = free_dead();
    }
    return NULL;
}

/* engine_lock held. */
static int start(void)
{
    static bool at_exit;
    int error;

    /* 1: sockets that were closed before there was a connection may be in the list already. */
    bell = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bell < 0) {
        return RS_REFUSE(errno, "no descriptor for sockets that are closed");
    }
    error = iwarp_compat_thread("iwarp-rsocket", run, NULL);
    if (error) {
        close(bell);
        bell = -1;
        return RS_REFUSE(error, "no thread for sockets that are closed");
    }
    if (!at_exit && !rs_is_preloaded()) {
        at_exit = true;
        atexit(rs_engine_end);
    }
    runs = true;
    return 0;
}

/* The lock may be held by a thread that the child has not; the list is the parent's. */
void rs_engine_in_child(void)
{
    pthread_mutex_init(&engine_lock, NULL);
    dead = dying = NULL;
    dead_count = 0;
    range_count = 0;
    hurries = runs = false;
    bell = -1;
    rs_events_in_child();
}

struct iwarp_eq *rs_engine_eq(void)
{
    IWARP_UNCANCELLED;

    pthread_mutex_lock(&engine_lock);
    struct iwarp_eq *eq = rs_events_make();
    if (eq && !runs && start() != 0) {
        eq = NULL;
    }
    pthread_mutex_unlock(&engine_lock);
    return eq;
}

/* A peer shows less often that it takes what is kept. */
static uint64_t exit_until(void)
{
    return rs_now_ms() + (rs_some_keep() ? 2 * EXIT_MS : EXIT_MS);
}

/* Two passes more: one may be under way. */
static void give_up(bool some)
{
    const unsigned seen = atomic_load(&passes);
    const uint64_t until = rs_now_ms() + GIVE_UP_MS;

    atomic_store(&gives_up, true);
    while (some && atomic_load(&passes) - seen < 2 && rs_now_ms() < until) {
        (void)!write(bell, &(uint64_t){1}, sizeof(uint64_t));
        usleep(1000);
    }
}

void rs_engine_end(void)
{
    const uint64_t last = rs_now_ms() + EXIT_MAX;
    uint64_t until;
    unsigned seen = atomic_load(&went);
    bool some = runs;

    if (rs_is_inside()) { /* a handler of a signal has called exit, and its thread holds locks */
        return;
    }
    rs_close_all();
    until = exit_until();
    while (some && rs_now_ms() < until && rs_now_ms() < last) {
        if (atomic_load(&went) != seen) {
            seen = atomic_load(&went);
            until = exit_until();
        }
        pthread_mutex_lock(&engine_lock);
        some = dead_count > 0;
        pthread_mutex_unlock(&engine_lock);
        if (some) {
            (void)!write(bell, &(uint64_t){1}, sizeof(uint64_t));
            usleep(1000);
        }
    }
    give_up(some);
}
