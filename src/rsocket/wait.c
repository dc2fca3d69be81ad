/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting. A thread that will sleep counts the wake-ups, arms the completion queue and looks once
 * more; what happens after that look wakes it up.
 */
#include "rsocket/rs.h"

#include "base/process.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

void rs_wake(struct rs *s)
{
    pthread_mutex_lock(&s->wake_lock);
    s->turn++;
    pthread_cond_broadcast(&s->wake);
    for (struct rs_watcher *w = s->watchers; w; w = w->next) {
        (void)!write(w->poller->fd, &(uint64_t){1}, sizeof(uint64_t));
    }
    pthread_mutex_unlock(&s->wake_lock);
}

static unsigned turn_of(struct rs *s)
{
    unsigned turn;

    pthread_mutex_lock(&s->wake_lock);
    turn = s->turn;
    pthread_mutex_unlock(&s->wake_lock);
    return turn;
}

/* False: it is `until` (milliseconds; UINT64_MAX: never). */
static bool sleep_on(struct rs *s, unsigned turn, uint64_t until)
{
    struct timespec at = {(time_t)(until / 1000), (long)(until % 1000) * 1000000};
    int error = 0;

    pthread_mutex_lock(&s->wake_lock);
    while (s->turn == turn && error != ETIMEDOUT) {
        error = until == UINT64_MAX
                    ? pthread_cond_wait(&s->wake, &s->wake_lock)
                    : pthread_cond_clockwait(&s->wake, &s->wake_lock, CLOCK_MONOTONIC, &at);
    }
    pthread_mutex_unlock(&s->wake_lock);
    return error != ETIMEDOUT;
}

int rs_wait(struct rs *s, bool (*ready)(struct rs *s), bool nonblocking, int timeout_ms)
{
    IWARP_UNCANCELLED;
    uint64_t until = timeout_ms < 0 ? UINT64_MAX : rs_now_ms() + (unsigned)timeout_ms;
    bool slept = true;

    for (;;) {
        unsigned turn = turn_of(s);
        rs_progress(s);
        if (!s->closed && !ready(s) && !nonblocking && slept && s->cq) {
            iwarp_cq_arm(s->cq, false);
            rs_progress(s);
        }
        if (s->closed) {
            errno = EBADF;
            return -1;
        }
        if (ready(s)) {
            return 0;
        }
        if (nonblocking || !slept) {
            errno = EAGAIN;
            return -1;
        }
        pthread_mutex_unlock(&s->lock);
        slept = sleep_on(s, turn, until);
        pthread_mutex_lock(&s->lock);
    }
}
