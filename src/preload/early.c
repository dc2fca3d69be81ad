/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/early.h"

#include <errno.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OCTETS   262144 /* of one connection at most; what is not touched takes no memory */
#define LOOK_MS  100    /* between two looks at a socket that the program has closed meanwhile */
#define CLOSE_MS 5000   /* for a peer to make room after that, as rclose has */
#define EXIT_MS  10000

static atomic_uint unsent; /* connections that have something of the program's */

static void count(struct sock *s)
{
    if (!s->early.counted) {
        s->early.counted = true;
        atomic_fetch_add(&unsent, 1);
    }
}

/* --- the face -------------------------------------------------------------------------------- */

void early_fill(int face)
{
    static const char some[16384]; /* more than there is room for */
    const int least = 1;

    (void)real()->setsockopt(face, SOL_SOCKET, SO_SNDBUF, &least, sizeof least);
    while (real()->send(face, some, sizeof some, MSG_DONTWAIT) == sizeof some) {
    }
}

void early_empty(int pair)
{
    char some[4096];

    while (real()->recv(pair, some, sizeof some, MSG_DONTWAIT) == sizeof some) {
    }
}

static void close_for_more(struct sock *s)
{
    s->early.full = true;
    early_fill(s->front);
}

/* --- the program's side ---------------------------------------------------------------------- */

void early_begin(struct sock *s)
{
    s->state = SOCK_EARLY;
    early_empty(s->pair);
}

static void append(struct early *e, const struct msghdr *message, size_t n)
{
    for (size_t i = 0; n > 0; i++) {
        const struct iovec *part = &message->msg_iov[i];
        const size_t some = part->iov_len < n ? part->iov_len : n;
        memcpy(e->octets + e->len, part->iov_base, some);
        e->len += some;
        n -= some;
    }
}

/* `start` is held, and it is EARLY. */
static ssize_t keep(struct sock *s, const struct msghdr *message)
{
    const size_t wanted = message_octets(message);
    struct early *e = &s->early;

    if (e->writes_over) {
        errno = EPIPE;
        return -1;
    }
    if (wanted == 0) {
        return 0;
    }
    if (!e->octets) {
        e->octets = malloc(OCTETS);
    }
    const size_t room = e->full || !e->octets ? 0 : OCTETS - e->len;
    const size_t n = wanted < room ? wanted : room;
    if (n == room && !e->full) {
        close_for_more(s);
    }
    if (n == 0) {
        errno = EAGAIN;
        return -1;
    }
    append(e, message, n);
    count(s);
    return (ssize_t)n;
}

ssize_t early_keep(struct sock *s, const struct msghdr *message)
{
    UNCANCELLED;
    ssize_t n = -1;

    pthread_mutex_lock(&s->start);
    if (s->state == SOCK_EARLY) {
        n = keep(s, message);
    } else {
        errno = EALREADY;
    }
    pthread_mutex_unlock(&s->start);
    return n;
}

bool early_shutdown(struct sock *s, int how)
{
    if (s->state != SOCK_EARLY || how < SHUT_RD || how > SHUT_RDWR) {
        return false;
    }
    pthread_mutex_lock(&s->start);
    const bool is_early = s->state == SOCK_EARLY;
    if (is_early) {
        s->early.reads_over = s->early.reads_over || how != SHUT_WR;
        s->early.writes_over = s->early.writes_over || how != SHUT_RD;
        count(s);
    }
    pthread_mutex_unlock(&s->start);
    return is_early;
}

int early_octets(struct sock *s)
{
    pthread_mutex_lock(&s->start);
    const size_t n = s->state == SOCK_EARLY ? s->early.len - s->early.passed : 0;
    pthread_mutex_unlock(&s->start);
    return (int)n;
}

/* --- the thread that settles it -------------------------------------------------------------- */

bool early_has_some(const struct sock *s)
{
    return s->early.counted;
}

static ssize_t pass(struct sock *s, bool is_rsocket)
{
    const uint8_t *from = s->early.octets + s->early.passed;
    const size_t n = s->early.len - s->early.passed;
    const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;

    return is_rsocket ? rsend(s->rs, from, n, flags) : real()->send(s->rs, from, n, flags);
}

static void await_room(struct sock *s, bool is_rsocket)
{
    struct pollfd p = {.fd = s->rs, .events = POLLOUT};

    pthread_mutex_unlock(&s->start);
    (void)(is_rsocket ? rpoll(&p, 1, LOOK_MS) : real()->poll(&p, 1, LOOK_MS));
    pthread_mutex_lock(&s->start);
}

void early_pass_on(struct sock *s, bool is_rsocket)
{
    struct early *e = &s->early;
    unsigned waits = 0;
    ssize_t n = 0;

    e->is_rdma = is_rsocket;
    pthread_cond_broadcast(&s->settled);
    while (n >= 0 && e->passed < e->len) {
        n = pass(s, is_rsocket);
        if (n > 0) {
            e->passed += (size_t)n;
        } else if (errno == EAGAIN && (!s->closed || ++waits < CLOSE_MS / LOOK_MS)) {
            await_room(s, is_rsocket);
            n = 0;
        }
    }
    if (e->reads_over || e->writes_over) {
        const int how = !e->writes_over ? SHUT_RD : e->reads_over ? SHUT_RDWR : SHUT_WR;
        (void)(is_rsocket ? rshutdown(s->rs, how) : real()->shutdown(s->rs, how));
    }
}

void early_forget(struct sock *s)
{
    free(s->early.octets);
    s->early = (struct early){0};
}

void early_passed(void)
{
    atomic_fetch_sub(&unsent, 1);
}

/* --- the process ----------------------------------------------------------------------------- */

void early_await(struct sock *s)
{
    pthread_mutex_lock(&s->start);
    while (sock_is_unsettled(s)) {
        pthread_cond_wait(&s->settled, &s->start);
    }
}

struct search {
    uint64_t before; /* serial numbers: each of them once, and none that comes meanwhile */
    struct sock *found;
};

/* The newest of those; sock_each has the newest first. */
static void find_early(struct sock *s, void *arg)
{
    struct search *search = arg;

    if (!search->found && s->serial < search->before && s->state == SOCK_EARLY && s->numbers > 0) {
        s->refs++;
        search->found = s;
    }
}

static struct timespec in_ms(unsigned ms)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += (time_t)((ms + 999) / 1000);
    return t;
}

void early_await_all(unsigned ms)
{
    UNCANCELLED;
    struct search search = {.before = UINT64_MAX};
    const struct timespec until = in_ms(ms);
    int error = 0;

    do {
        search.found = NULL;
        sock_each(find_early, &search);
        struct sock *s = search.found;
        if (s) {
            search.before = s->serial;
            pthread_mutex_lock(&s->start);
            while (sock_is_unsettled(s) && !s->early.is_rdma && !error) {
                error = pthread_cond_clockwait(&s->settled, &s->start, CLOCK_MONOTONIC, &until);
            }
            pthread_mutex_unlock(&s->start);
            sock_unref(s);
        }
    } while (search.found && !error);
}

void early_wait(void)
{
    sock_await_none(&unsent, EXIT_MS);
}

void early_begin_child(void)
{
    atomic_store(&unsent, 0);
}
