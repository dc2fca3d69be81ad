/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues: a bounded ring that can be resized, one-shot notification through an eventfd.
 * Verbs 6.1, 8.2.5.
 */
#include "verbs/cq.h"
#include "base/fault.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/mutex.h"
#include "base/pause.h"
#include "base/probe.h"
#include "base/process.h"
#include "loop/clock.h"
#include "loop/loop.h"
#include "verbs/async.h"
#include "verbs/defer.h"
#include "verbs/device.h"
#include "verbs/progress.h"
#include "verbs/qp.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/*
 * A ring with room for at least that many entries. Its size is a power of two, so positions, which
 * count up and wrap at 2^32, are taken modulo it by a mask.
 */
static struct iwarp_wc *new_ring(unsigned entries, uint32_t *mask)
{
    uint32_t size = 1;

    while (size < entries) {
        size *= 2;
    }
    *mask = size - 1;
    return iwarp_malloc_array(size, sizeof(struct iwarp_wc));
}

/* The number is checked, never rounded to what happens to be possible. */
static enum iwarp_status check_entries(unsigned entries)
{
    if (entries < 1 || entries > IWARP_MAX_CQE) {
        return iwarp_fail(IWARP_MISUSE, "completion queue: %u entries, allowed are 1 to %d",
                          entries, IWARP_MAX_CQE);
    }
    return IWARP_OK;
}

/*
 * The ring may be larger than asked for, but `size` bounds it to the number asked for, so an
 * overflow comes at the same number everywhere.
 */
enum iwarp_status iwarp_cq_create(struct iwarp_device *device, unsigned entries, void *user,
                                  struct iwarp_cq **cq)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(cq)) {
        return IWARP_MISUSE;
    }
    enum iwarp_status status = check_entries(entries);
    uint32_t mask;

    if (!device) {
        return iwarp_fail(IWARP_MISUSE, "a completion queue needs a device; it is NULL");
    }
    IWARP_ON_LOOP(device);
    if (status != IWARP_OK) {
        return status;
    }
    struct iwarp_cq *q = iwarp_calloc(1, sizeof *q);
    struct iwarp_wc *ring = new_ring(entries, &mask);
    if (!q || !ring) {
        free(q);
        free(ring);
        return iwarp_fail(IWARP_NO_MEMORY, "no memory for a completion queue of %u", entries);
    }
    q->device = device;
    q->user = user;
    q->ring = ring;
    q->size = entries;
    q->mask = mask;
    q->fd = -1;
    q->async.device = device;
    iwarp_mutex_init(&q->lock, device->embedded);
    atomic_fetch_add(&device->cqs, 1);
    *cq = q;
    return IWARP_OK;
}

void iwarp_cq_set_armed(struct iwarp_cq *cq, enum iwarp_cq_armed armed, bool count)
{
    bool counts = count && armed != CQ_QUIET;

    if (counts) {
        iwarp_sleepers_begin(&cq->device->sleepers, cq->counted);
    } else if (cq->counted) {
        iwarp_sleepers_end(&cq->device->sleepers);
    }
    cq->armed = armed;
    cq->counted = counts;
}

/* What the application has armed is left alone. A thread that waits counts by itself. cq.lock held.
 */
static void set_wakes(struct iwarp_cq *cq, bool wakes)
{
    if (wakes) {
        iwarp_sleepers_begin(&cq->device->sleepers, cq->wakes);
    } else if (cq->wakes) {
        iwarp_sleepers_end(&cq->device->sleepers);
    }
    cq->wakes = wakes;
}

/* Without users nothing can be pushed any more, and so nothing new can be told. */
enum iwarp_status iwarp_cq_destroy(struct iwarp_cq *cq)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(cq)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(cq->device);
    if (atomic_load(&cq->users)) {
        return iwarp_fail(IWARP_MISUSE, "completion queue is still used by a queue pair");
    }
    /* Another thread is inside iwarp_cq_tell: a short call, not worth a condition variable. */
    for (unsigned i = 0; atomic_load(&cq->telling) > 0; i++) {
        iwarp_pause(i);
    }
    enum iwarp_status status = iwarp_async_leave(&cq->async);
    if (status != IWARP_OK) {
        return status;
    }
    if (cq->fd >= 0) {
        close(cq->fd);
    }
    iwarp_cq_set_armed(cq, CQ_QUIET, false);
    set_wakes(cq, false); /* a thread was cancelled */
    atomic_fetch_sub(&cq->device->cqs, 1);
    iwarp_mutex_fini(&cq->lock);
    free(cq->ring);
    free(cq);
    return IWARP_OK;
}

/*
 * `head` and `tail` keep their values, so a poller that reads them without the lock sees no
 * difference. Both rings exist for a moment; the unused one is freed without the lock.
 */
enum iwarp_status iwarp_cq_resize(struct iwarp_cq *cq, unsigned entries)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(cq)) {
        return IWARP_MISUSE;
    }
    enum iwarp_status status = check_entries(entries);
    uint32_t mask;

    IWARP_ON_LOOP(cq->device);
    if (status != IWARP_OK) {
        return status;
    }
    struct iwarp_wc *ring = new_ring(entries, &mask);
    if (!ring) {
        return iwarp_fail(IWARP_NO_MEMORY, "no memory for a completion queue of %u", entries);
    }
    iwarp_mutex_lock(&cq->lock);
    struct iwarp_wc *unused = ring;
    uint32_t head = cq->head, waiting = cq->tail - head;
    if (waiting <= entries) {
        for (uint32_t pos = head; pos != head + waiting; pos++) {
            ring[pos & mask] = cq->ring[pos & cq->mask];
        }
        unused = cq->ring;
        cq->ring = ring;
        cq->mask = mask;
        cq->size = entries;
    }
    iwarp_mutex_unlock(&cq->lock);
    free(unused);
    if (waiting > entries) {
        return iwarp_fail(IWARP_MISUSE,
                          "%u completions wait in a queue that should have %u entries", waiting,
                          entries);
    }
    return IWARP_OK;
}

unsigned iwarp_cq_entries(const struct iwarp_cq *cq)
{
    return IWARP_GIVEN(cq) ? cq->size : 0;
}

void *iwarp_cq_user(const struct iwarp_cq *cq)
{
    return IWARP_GIVEN(cq) ? cq->user : NULL;
}

/* No default case: the compiler names a status without a text. */
const char *iwarp_wc_status_text(enum iwarp_wc_status status)
{
    switch (status) {
    case IWARP_WC_SUCCESS:
        return "success";
    case IWARP_WC_FLUSHED:
        return "flushed";
    case IWARP_WC_LOCAL_PROTECTION:
        return "local protection error";
    case IWARP_WC_LOCAL_OPERATION:
        return "local operation error";
    case IWARP_WC_LOCAL_BIND:
        return "local bind error";
    case IWARP_WC_REMOTE_ACCESS:
        return "remote access error";
    case IWARP_WC_REMOTE_INVALID:
        return "remote invalid request";
    case IWARP_WC_REMOTE_OPERATION:
        return "remote operation error";
    case IWARP_WC_LOCAL_LENGTH:
        return "local length error";
    }
    return "unknown completion status";
}

/*
 * A completion has come: disarm the queue if it is of the armed kind (notification is one-shot),
 * and note which threads are to be told. A leader that runs the loop itself checks for completions
 * after each turn and needs no wake-up. cq.lock held.
 */
/* [VERBS-8.2.5-01] [VERBS-8.2.5-02] */
static void tell_if_armed(struct iwarp_cq *cq, const struct iwarp_wc *wc)
{
    bool solicited = (wc->flags & IWARP_WC_SOLICITED) || wc->status != IWARP_WC_SUCCESS;
    unsigned due = 0;

    if (cq->armed == CQ_ANY || (cq->armed == CQ_SOLICITED && solicited)) {
        iwarp_cq_set_armed(cq, CQ_QUIET, false);
        due |= CQ_DUE_ARMED;
    }
    if (cq->wakes) {
        set_wakes(cq, false);
        due |= CQ_DUE_ARMED;
    }
    if (cq->leaders > 0 && !iwarp_loop_is_current(&cq->device->worker[0].loop)) {
        due |= CQ_DUE_LEADER;
    }
    /* Another producer may take the note first; it then tells of this completion, too. */
    if (due) {
        atomic_fetch_or_explicit(&cq->due, due, memory_order_release);
    }
}

/*
 * cq.lock is not held. conn.lock or qp.post_lock may be (iwarp_qp_tell), so the application's
 * function must not call the library.
 */
static void tell(struct iwarp_cq *cq, unsigned what)
{
    void (*notify)(void *arg) = atomic_load(&cq->notify);
    int fd = atomic_load(&cq->fd);
    const uint64_t one = 1;

    if (what & CQ_DUE_LEADER) {
        iwarp_loop_wake(&cq->device->worker[0].loop);
    }
    if (!(what & CQ_DUE_ARMED)) {
        return;
    }
    if (notify) {
        notify(cq->notify_arg);
        return;
    }
    if (fd < 0) {
        iwarp_mutex_lock(&cq->lock); /* somebody may ask for a descriptor at this moment */
        fd = cq->fd;
        cq->notified = fd < 0;
        iwarp_mutex_unlock(&cq->lock);
    }
    if (fd >= 0) {
        (void)!write(fd, &one, sizeof one); /* cannot fail: the counter never fills up */
    }
}

/*
 * The load saves the exchange in the common case that nobody waits. `telling` goes up while the
 * caller still holds what keeps the queue alive, its connection's lock or qp.post_lock.
 */
struct iwarp_cq_due iwarp_cq_due(struct iwarp_cq *cq)
{
    unsigned what = atomic_load_explicit(&cq->due, memory_order_relaxed);

    what = what ? atomic_exchange(&cq->due, 0) : 0;
    if (what) {
        atomic_fetch_add(&cq->telling, 1);
    }
    return (struct iwarp_cq_due){what ? cq : NULL, what};
}

/* `telling` goes down last: iwarp_cq_destroy waits for it. */
void iwarp_cq_tell(struct iwarp_cq_due due)
{
    if (due.cq) {
        tell(due.cq, due.what);
        atomic_fetch_sub(&due.cq->telling, 1); /* it may be gone from here on */
    }
}

/* [RDMAP-8.1.1-11] [SEC-6.4.6-01] [VERBS-8.2.5-02] */
bool iwarp_cq_push(struct iwarp_cq *cq, const struct iwarp_wc *wc)
{
    IWARP_PROBE5(completion, wc->qp_num, wc->wr_id, wc->opcode, wc->status, wc->byte_len);
    iwarp_mutex_lock(&cq->lock);
    uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
    bool room = tail - atomic_load_explicit(&cq->head, memory_order_relaxed) < cq->size;
    if (room) {
        cq->ring[tail & cq->mask] = *wc;
        atomic_store_explicit(&cq->tail, tail + 1, memory_order_release);
    }
    bool tell = !room && !cq->overflowed;
    cq->overflowed = cq->overflowed || !room;
    tell_if_armed(cq, wc);
    iwarp_mutex_unlock(&cq->lock);
    if (tell) {
        const struct iwarp_async_event event = {.type = IWARP_ASYNC_CQ_OVERFLOW,
                                                .fault = IWARP_FAULT_LOCAL_CQ_OVERFLOW,
                                                .cq = cq,
                                                .user = cq->user};
        iwarp_async_report(&cq->async, 0, &event);
    }
    return room;
}

/* What stays moves towards `head`, so the room of the removed completions is free at once. */
void iwarp_cq_purge(struct iwarp_cq *cq, const struct iwarp_qp *qp)
{
    iwarp_mutex_lock(&cq->lock);
    uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
    uint32_t to = head;
    for (uint32_t from = head; from != tail; from++) {
        if (cq->ring[from & cq->mask].qp != qp) {
            cq->ring[to++ & cq->mask] = cq->ring[from & cq->mask];
        }
    }
    atomic_store_explicit(&cq->tail, to, memory_order_release);
    iwarp_mutex_unlock(&cq->lock);
}

bool iwarp_cq_has_of(struct iwarp_cq *cq, const struct iwarp_qp *qp)
{
    bool has = false;

    iwarp_mutex_lock(&cq->lock);
    uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
    for (uint32_t at = atomic_load_explicit(&cq->head, memory_order_relaxed); at != tail && !has;
         at++) {
        const struct iwarp_wc *wc = &cq->ring[at & cq->mask];
        has = wc->qp == qp && wc->status == IWARP_WC_SUCCESS;
    }
    iwarp_mutex_unlock(&cq->lock);
    return has;
}

/*
 * Without the lock, since a thread that polls in a loop mostly finds nothing. `tail` is read with
 * acquire and written with release, so a completion that is seen here is in the ring. A queue that
 * overflowed does not count as empty: its error has to be returned.
 */
static bool is_empty(struct iwarp_cq *cq)
{
    return atomic_load_explicit(&cq->tail, memory_order_acquire) ==
               atomic_load_explicit(&cq->head, memory_order_relaxed) &&
           !atomic_load_explicit(&cq->overflowed, memory_order_relaxed);
}

/*
 * The queue is empty: the program has caught up, so what it has posted goes out (defer.h), and its
 * poll may be a visit of the loop.  True: now there is something.
 */
static bool look_further(struct iwarp_cq *cq)
{
    unsigned empties = atomic_load_explicit(&cq->empties, memory_order_relaxed);
    uint64_t workers = iwarp_workers_of(&cq->workers);

    atomic_store_explicit(&cq->empties, empties + 1, memory_order_relaxed);
    if (cq->device->embedded) {
        return false;
    }
    if (atomic_load_explicit(&cq->device->deferring, memory_order_relaxed) > 0 &&
        iwarp_defer_flush(cq->device, workers) && !is_empty(cq)) {
        return true;
    }
    return iwarp_progress_poll(cq->device, workers) && !is_empty(cq);
}

static void note_taken(struct iwarp_cq *cq)
{
    unsigned empties = atomic_load_explicit(&cq->empties, memory_order_relaxed);

    atomic_store_explicit(&cq->empties_then, empties, memory_order_relaxed);
}

/*
 * Not a cancellation point. An empty poll may be a visit of the loop (verbs/progress.h), after
 * which the queue is looked at once more.
 */
int iwarp_cq_poll(struct iwarp_cq *cq, struct iwarp_wc *wc, int n)
{
    if (!IWARP_GIVEN(cq) || (n > 0 && !IWARP_GIVEN(wc))) {
        return IWARP_MISUSE;
    }
    int taken = 0;

    IWARP_ON_LOOP(cq->device);
    if (is_empty(cq) && !look_further(cq)) {
        return 0;
    }
    iwarp_mutex_lock(&cq->lock);
    uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
    while (taken < n && head != tail) {
        wc[taken++] = cq->ring[head++ & cq->mask];
    }
    atomic_store_explicit(&cq->head, head, memory_order_relaxed);
    if (taken > 0) {
        note_taken(cq);
    }
    bool overflowed = cq->overflowed && taken == 0 && n > 0;
    iwarp_mutex_unlock(&cq->lock);
    if (overflowed) {
        return iwarp_fail(IWARP_LIMIT, "completion queue of %u entries overflowed",
                          iwarp_cq_entries(cq));
    }
    return taken;
}

/*
 * [VERBS-8.2.5-03] Every completion after this call is told. A completion that came before is not:
 * the application polls once more after arming. The homes take their loops back, since this thread
 * is about to sleep in a place of its own.
 */
enum iwarp_status iwarp_cq_arm(struct iwarp_cq *cq, bool solicited_only)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(cq)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(cq->device);
    iwarp_mutex_lock(&cq->lock);
    /* the wider request stands */
    iwarp_cq_set_armed(cq, solicited_only && cq->armed != CQ_ANY ? CQ_SOLICITED : CQ_ANY, true);
    iwarp_mutex_unlock(&cq->lock);
    iwarp_progress_pause(cq->device);
    iwarp_defer_flush_all(cq->device);
    iwarp_progress_recall(cq->device);
    return IWARP_OK;
}

/* The eventfd is created on demand: programs that only poll need no descriptor. */
int iwarp_cq_fd(struct iwarp_cq *cq)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(cq) || !iwarp_device_usable(cq->device)) {
        return -1;
    }
    iwarp_mutex_lock(&cq->lock);
    if (cq->notify) {
        iwarp_fail(IWARP_MISUSE, "the completion queue has a function for notifications "
                                 "(iwarp_cq_notify_by), and no descriptor");
    } else if (cq->fd < 0) {
        cq->fd = eventfd(cq->notified ? 1 : 0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (cq->fd < 0) {
            iwarp_fail(IWARP_LIMIT, "no eventfd for a completion queue: %s", strerror(errno));
        }
    }
    int fd = cq->fd;
    iwarp_mutex_unlock(&cq->lock);
    return fd;
}

/*
 * One read sets the counter to 0, however many notifications it holds; the descriptor does not
 * block.
 */
void iwarp_cq_drain(struct iwarp_cq *cq)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(cq) || !iwarp_device_usable(cq->device)) {
        return;
    }
    uint64_t count;

    int fd = atomic_load(&cq->fd);

    if (fd >= 0) {
        (void)!read(fd, &count, sizeof count);
    }
}

/* Only once, and only without a descriptor: tell() reads `notify` without the lock. */
enum iwarp_status iwarp_cq_notify_by(struct iwarp_cq *cq, void (*notify)(void *arg), void *arg)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(cq) || !IWARP_GIVEN(notify)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(cq->device);
    iwarp_mutex_lock(&cq->lock);
    bool possible = !cq->notify && cq->fd < 0;
    if (possible) {
        cq->notify_arg = arg;
        cq->notify = notify; /* last: it is read without the lock */
    }
    iwarp_mutex_unlock(&cq->lock);
    return possible
               ? IWARP_OK
               : iwarp_fail(IWARP_MISUSE, "completion queue: it has a descriptor or a function "
                                          "for notifications already");
}

/* For the loop: has the wait come to its end? */
static bool has_some(void *cq)
{
    return !is_empty(cq);
}

/*
 * Threaded progress: wait by running the loop, if this thread has earned it. `leaders` is raised
 * before, so a producer on another thread wakes up the loop. False: the caller waits by sleeping.
 */
static bool lead(struct iwarp_cq *cq, int timeout_ms)
{
    if (!iwarp_progress_may_wait(cq->device, timeout_ms, false)) {
        return false;
    }
    if (!iwarp_loop_may_fault()) {
        iwarp_progress_lost(cq->device);
        return false;
    }
    iwarp_mutex_lock(&cq->lock);
    cq->leaders++;
    iwarp_mutex_unlock(&cq->lock);
    bool led = iwarp_progress_wait(cq->device, NULL, has_some, cq);
    iwarp_mutex_lock(&cq->lock);
    cq->leaders--;
    iwarp_mutex_unlock(&cq->lock);
    return led;
}

/*
 * A thread is about to sleep until any completion comes. What the application has armed, perhaps
 * for solicited completions only, stays as it is. The recall comes after `wakes`: see invariant 2
 * in loop/lease.h.
 */
static void begin_wait(struct iwarp_cq *cq)
{
    iwarp_mutex_lock(&cq->lock);
    atomic_fetch_add(&cq->waits, 1);
    set_wakes(cq, true);
    iwarp_mutex_unlock(&cq->lock);
    iwarp_defer_flush_all(cq->device);
    iwarp_progress_recall(cq->device);
}

static void end_wait(struct iwarp_cq *cq)
{
    iwarp_mutex_lock(&cq->lock);
    if (atomic_fetch_sub(&cq->waits, 1) == 1) {
        set_wakes(cq, false);
    }
    iwarp_mutex_unlock(&cq->lock);
}

/*
 * The thread was cancelled while it slept. `wakes` stays until the next completion: this handler
 * takes no lock.
 */
static void abandon_wait(void *cq)
{
    atomic_fetch_sub(&((struct iwarp_cq *)cq)->waits, 1);
}

/*
 * Sleep until a completion is told, or until `end`. The queue is polled between arming and
 * sleeping, as completions from before arming are not told; that happens at least once if any time
 * was given. Spurious wake-ups, as when another thread has taken the completion, lead to another
 * round. cancel_state: the application's, restored during the sleep only.
 */
static int wait_until_told(struct iwarp_cq *cq, struct iwarp_wc *wc, int n, int timeout_ms,
                           int64_t end, int cancel_state)
{
    struct pollfd p = {.fd = iwarp_cq_fd(cq), .events = POLLIN};
    int64_t left = timeout_ms <= 0 ? timeout_ms : end - iwarp_now_ms();
    int got = p.fd >= 0 ? 0 : cq->notify ? IWARP_MISUSE : IWARP_LIMIT;

    left = timeout_ms > 0 && left < 1 ? 1 : left;
    while (got == 0 && (timeout_ms < 0 || left > 0)) {
        begin_wait(cq);
        got = iwarp_cq_poll(cq, wc, n); /* what came before arming triggers nothing */
        if (got == 0) {
            pthread_cleanup_push(abandon_wait, cq);
            if (iwarp_process_poll(&p, (int)left, cancel_state) > 0) {
                iwarp_cq_drain(cq);
            }
            pthread_cleanup_pop(0);
            got = iwarp_cq_poll(cq, wc, n);
        }
        end_wait(cq);
        left = timeout_ms < 0 ? -1 : end - iwarp_now_ms();
    }
    return got;
}

/*
 * Poll, then run the loop if this thread has earned it (or owns it, embedded), then sleep. Each
 * step is tried only if the one before found nothing.
 */
int iwarp_cq_wait(struct iwarp_cq *cq, struct iwarp_wc *wc, int n, int timeout_ms)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(cq) || !iwarp_device_usable(cq->device)) {
        return IWARP_MISUSE;
    }
    if (n < 1) { /* it could not tell what came from the end of the time */
        return iwarp_fail(IWARP_MISUSE, "waiting for %d completions, expected at least 1", n);
    }
    int got = iwarp_cq_poll(cq, wc, n);
    if (got != 0) {
        return got;
    }
    if (cq->device->embedded) {
        return iwarp_loop_run_until(&cq->device->worker[0].loop, has_some, cq, timeout_ms)
                   ? iwarp_cq_poll(cq, wc, n)
                   : 0;
    }
    IWARP_CANCELLATION_POINT;
    iwarp_progress_pause(cq->device);
    int64_t end = timeout_ms > 0 ? iwarp_now_ms() + timeout_ms : 0;
    if (lead(cq, timeout_ms)) {
        got = iwarp_cq_poll(cq, wc, n);
    }
    if (got == 0) {
        got = wait_until_told(cq, wc, n, timeout_ms, end, iwarp_cancel_before);
    }
    iwarp_progress_waited(cq->device);
    return got;
}
