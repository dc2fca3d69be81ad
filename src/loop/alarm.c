/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/alarm.h"

#include <errno.h>
#include <stdint.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* Two threads may find it readable: the one whose read fails calls ring all the same, since what is
 * to be done may have been left by the other one before it came. */
void iwarp_alarm_ready(struct iwarp_alarm *a)
{
    uint64_t count;

    (void)!read(a->fd, &count, sizeof count);
    a->ring(a->arg);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    iwarp_alarm_ready(poll->data);
}

int iwarp_alarm_open(struct iwarp_alarm *a, uv_loop_t *uv, void (*ring)(void *arg), void *arg)
{
    a->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (a->fd < 0) {
        return -errno;
    }
    int rc = uv_poll_init(uv, &a->poll, a->fd);
    if (rc < 0) {
        iwarp_alarm_fini(a);
        return rc;
    }
    a->ring = ring;
    a->arg = arg;
    a->poll.data = a;
    (void)uv_poll_start(&a->poll, UV_READABLE, on_readable);
    return 0;
}

void iwarp_alarm_leave(struct iwarp_alarm *a)
{
    if (a->fd >= 0) {
        uv_close((uv_handle_t *)&a->poll, NULL);
    }
}

void iwarp_alarm_fini(struct iwarp_alarm *a)
{
    if (a->fd >= 0) {
        close(a->fd);
    }
    a->fd = -1;
}

void iwarp_alarm_start(struct iwarp_alarm *a, unsigned us)
{
    const struct itimerspec when = {.it_value = {.tv_nsec = (long)us * 1000}};

    (void)timerfd_settime(a->fd, 0, &when, NULL); /* cannot fail: us is below a second */
}
