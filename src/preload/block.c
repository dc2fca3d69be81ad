/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/block.h"
#include "preload/wait.h"

#include <errno.h>

/* As poll does, which follows the faces. 0: look again. -1: EAGAIN, or EINTR after a handler
 * without SA_RESTART, or with a time-out after each. */
static int wait_for(int number, short events, int ms)
{
    struct pollfd p = {.fd = number, .events = events};
    struct wait_poll c = {
        .fds = &p, .n = 1, .end = wait_end_of(ms * INT64_C(1000000)), .handlers = signals_count()};

    signals_count_anew();
    const int ready = wait_poll(&c, true);
    if (ready == 0) {
        errno = EAGAIN;
    }
    return ready > 0 || (ready < 0 && errno == EINTR && ms < 0 && signals_restart()) ? 0 : -1;
}

static void unref(void *s)
{
    sock_unref(s);
}

/* With a reference alone, since a call that waits is not inside, and may be cancelled. *s is what
 * has the number then. */
static int wait_for_change(struct sock **s, int number, enum use use, int ms)
{
    struct sock *before = *s;
    int result;

    sock_ref(before);
    sock_put(before);
    *s = NULL;
    pthread_cleanup_push(unref, before);
    result = wait_for(number, use == USE_WRITE ? POLLOUT : POLLIN, ms);
    *s = result == 0 ? sock_get(number) : NULL;
    if (before->closed || (*s && *s != before) ||
        (result == 0 && !*s && before->state != SOCK_PLAIN)) { /* the number is another's by now */
        sock_put(*s);
        *s = NULL;
        errno = EBADF;
        result = -1;
    }
    pthread_cleanup_pop(1);
    return result;
}

enum use_result block_use(struct sock **s, int number, enum use use, bool wait)
{
    enum use_result result = start_use(s, number, use, wait);

    while (result == USE_UNSETTLED) {
        pthread_mutex_lock(&(*s)->start); /* the thread that settles it changes rs */
        const int ms = start_limit_ms((*s)->rs, use);
        pthread_mutex_unlock(&(*s)->start);
        if (wait_for_change(s, number, use, ms) != 0) {
            return USE_FAILED;
        }
        result = *s ? start_use(s, number, use, wait) : USE_KERNEL;
    }
    return result;
}
