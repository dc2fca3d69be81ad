/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for several: each socket is given its face before anything waits for it, so the kernel
 * can do all waiting. A thread that has earned it leads instead (rspreload/lead.c).
 */
#include "preload/wait.h"

#include "preload/sets.h"

#include <errno.h>

/* --- times ----------------------------------------------------------------------------------- */

int64_t wait_end_of(int64_t timeout_ns)
{
    const int64_t now = sock_now_ns();

    return timeout_ns < 0 || timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
}

int64_t wait_ns_of(const struct timespec *t)
{
    const int64_t seconds = t ? t->tv_sec : INT64_MAX;

    return seconds > INT64_MAX / 1000000000 - 1 ? -1 : seconds * 1000000000 + t->tv_nsec;
}

struct timespec wait_left_of(int64_t end)
{
    const int64_t left = end - sock_now_ns();

    return left > 0 ? (struct timespec){(time_t)(left / 1000000000), (long)(left % 1000000000)}
                    : (struct timespec){0};
}

bool wait_is_time(const struct timespec *t)
{
    return !t || (t->tv_sec >= 0 && t->tv_nsec >= 0 && t->tv_nsec < 1000000000);
}

bool wait_is_at_once(const struct timespec *t)
{
    return t && t->tv_sec == 0 && t->tv_nsec == 0;
}

/* --- turns ----------------------------------------------------------------------------------- */

/* Odd, since programs wait in turn for two sets. A program may work for long at what it finds, so
 * time counts, too. */
#define LOOKS   7
#define TURN_NS 1000000

bool wait_is_turn(struct wait_turns *t)
{
    const int64_t now = sock_now_ns();

    if (++t->looks % LOOKS != 0 && now - t->at_ns < TURN_NS) {
        return false;
    }
    t->at_ns = now;
    return true;
}

/* --- faces ----------------------------------------------------------------------------------- */

/* A socket that fails here is shown as it is: the call that comes next says what is wrong. */
bool wait_prepare(int number, bool *changes)
{
    const int error = errno;
    struct sock *s = sock_get(number);

    if (!s && set_kind(number) != SET_NONE && !iwarp_rs_is_inside()) {
        sock_set_shared(number);
        errno = error;
        return set_kind(number) == SET_HAS_RSOCKETS;
    }
    if (!s) {
        return false;
    }
    const bool is_rsocket = start_use(&s, number, USE_WAIT, false) == USE_RSOCKET;
    const bool may_change = s && (sock_is_unsettled(s) || s->state == SOCK_ARRIVED);
    sock_put(s);
    *changes = *changes || may_change;
    errno = error;
    return is_rsocket || may_change;
}

int wait_stand_in(int number)
{
    struct sock *s = sock_get(number);
    const int face = s && sock_is_unsettled(s) ? sock_face(s) : -1;

    sock_put(s);
    return face;
}

bool wait_is_early(int number, short revents)
{
    struct sock *s = sock_get(number);
    const bool is_early = s && s->state == SOCK_EARLY && !(revents & POLLIN);

    sock_put(s);
    return is_early;
}

struct sock *wait_rsocket(int number)
{
    struct sock *s = sock_get(number);

    if (s && (s->state != SOCK_RDMA || !s->watched)) {
        sock_put(s);
        s = NULL;
    }
    return s;
}

void wait_follow(int number)
{
    struct sock *s = wait_rsocket(number);

    if (s) {
        iwarp_rs_follow(s->rs);
        sock_put(s);
    }
}

/* --- waiting in the kernel ------------------------------------------------------------------- */

bool wait_is_ended(unsigned handlers, bool at_once)
{
    return !at_once && signals_count() != handlers;
}

int wait_result(int result, bool is_ended)
{
    if (result == 0 && is_ended) {
        errno = EINTR;
        return -1;
    }
    return result;
}

static void end_sleep(void *unused)
{
    const int error = errno;

    (void)unused;
    signals_hold();
    iwarp_rs_end_sleep();
    sock_stop_at_end();
    signals_release();
    errno = error;
}

int wait_in_kernel(int (*call)(void *arg), void *arg)
{
    int result;

    signals_hold();
    iwarp_rs_begin_sleep();
    signals_release();
    pthread_cleanup_push(end_sleep, NULL);
    result = call(arg);
    pthread_cleanup_pop(1);
    return result;
}
