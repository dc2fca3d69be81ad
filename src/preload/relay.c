/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An rsocket that several processes use: two threads carry its octets to and from a socket pair.
 * They sleep in the rsocket or in the pair, and end when that direction does.
 */
#include "compat/compat.h"
#include "preload/fork.h"
#include "preload/own.h"
#include "preload/pair_name.h"
#include "preload/start.h"
#include "rspreload/adopt.h"

#include <errno.h>
#include <linux/sockios.h>
#include <rdma/rsocket.h>
#include <stdlib.h>

#define OCTETS   (128 * 1024)
#define DRAIN_MS 10000

static atomic_uint relays;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct relay {
    struct relay *next, **at; /* of all, with the lock */
    int rs, pair, bell;       /* bell: of the threads that wait for the old face, or -1 */
    atomic_uint directions;   /* that are not over */
};

/* The pair may have become readable or writable, or be at its end. */
static void ring(const struct relay *r)
{
    if (r->bell >= 0) {
        (void)real()->shutdown(r->bell, SHUT_RDWR);
    }
}

static struct relay *all;

/* A new one, with its end of a pair; *face: the other end. NULL: errno. A fork that comes between
 * finds it in the list, so that the child closes what it has of it. */
static struct relay *new_relay(int *face)
{
    struct relay *r = calloc(1, sizeof *r);
    int pair[2];

    pthread_mutex_lock(&lock);
    if (r && real()->socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0) {
        *r = (struct relay){.next = all, .at = &all, .rs = -1, .bell = -1, .directions = 2};
        r->pair = own_move(pair[1]);
        *face = pair[0];
        if (all) {
            all->at = &r->next;
        }
        all = r;
    } else {
        free(r);
        r = NULL;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

static void set(struct relay *r, int rs, int bell)
{
    pthread_mutex_lock(&lock);
    r->rs = rs;
    r->bell = bell;
    pthread_mutex_unlock(&lock);
}

static void take_out(struct relay *r)
{
    pthread_mutex_lock(&lock);
    *r->at = r->next;
    if (r->next) {
        r->next->at = r->at;
    }
    pthread_mutex_unlock(&lock);
}

static void close_ends(const struct relay *r)
{
    real()->close(r->pair);
    if (r->bell >= 0) {
        real()->close(r->bell);
    }
}

static void leave(struct relay *r)
{
    ring(r);
    if (atomic_fetch_sub(&r->directions, 1) == 1) {
        take_out(r);
        (void)rclose(r->rs);
        close_ends(r);
        free(r);
        atomic_fetch_sub(&relays, 1);
    }
}

/* The bell rings also if the pair is full: a thread that is to read it may wait for the bell. -1:
 * the end. */
static ssize_t send_some(const struct relay *r, const char *octets, size_t n)
{
    struct pollfd room = {.fd = r->pair, .events = POLLOUT};
    ssize_t sent = real()->send(r->pair, octets, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    const bool full = sent < 0 && errno == EAGAIN;

    ring(r);
    if (full) {
        (void)real()->poll(&room, 1, -1);
        sent = 0;
    }
    return sent;
}

static void *carry_in(void *arg)
{
    struct relay *r = arg;
    char *octets = malloc(OCTETS);
    ssize_t n = octets ? 1 : 0;

    iwarp_rs_carrier();
    while (n > 0) {
        n = rrecv(r->rs, octets, OCTETS, 0);
        if (n < 0 && errno == EAGAIN) {
            n = 1; /* a child has set a time-out before it used the connection */
            continue;
        }
        for (ssize_t at = 0, done; n > 0 && at < n; at += done) {
            done = send_some(r, octets + at, (size_t)(n - at));
            if (done < 0) {
                n = 0;
            }
        }
    }
    free(octets);
    (void)real()->shutdown(r->pair, SHUT_WR);
    leave(r);
    return NULL;
}

static void *carry_out(void *arg)
{
    struct relay *r = arg;
    char *octets = malloc(OCTETS);
    ssize_t n = octets ? 1 : 0;

    while (n > 0) {
        n = real()->recv(r->pair, octets, OCTETS, 0);
        ring(r);
        for (ssize_t at = 0, done; n > 0 && at < n; at += done) {
            done = rsend(r->rs, octets + at, (size_t)(n - at), MSG_NOSIGNAL);
            if (done < 0 && errno == EAGAIN) {
                done = 0; /* as above */
            } else if (done < 0) {
                n = 0;
            }
        }
    }
    free(octets);
    (void)real()->shutdown(r->pair, SHUT_RD);
    /* If nobody has the other end, then nobody reads what the peer still sends. */
    struct pollfd p = {.fd = r->pair, .events = 0};
    const bool nobody = real()->poll(&p, 1, 0) > 0 && (p.revents & POLLHUP);
    (void)rshutdown(r->rs, nobody ? SHUT_RDWR : SHUT_WR);
    leave(r);
    return NULL;
}

static int run(void *(*carry)(void *), struct relay *r)
{
    const int error = iwarp_compat_thread(NULL, carry, r);

    if (error != 0) {
        (void)rshutdown(r->rs, SHUT_RDWR);
        leave(r);
    }
    return error;
}

/* The time-outs are those of the calls on the face, and not of the threads here. */
static void move_limit(int rs, int face, int option)
{
    struct timeval limit = {0};
    const struct timeval none = {0};
    socklen_t len = sizeof limit;

    (void)rgetsockopt(rs, SOL_SOCKET, option, &limit, &len);
    (void)rsetsockopt(rs, SOL_SOCKET, option, &none, sizeof none);
    (void)real()->setsockopt(face, SOL_SOCKET, option, &limit, sizeof limit);
}

/*
 * This process keeps no end of the pair but its numbers, so that their end, here and in children,
 * is seen. A second child gets a duplicate of one of them.
 */
int relay_start(struct sock *s)
{
    const int flags = rfcntl(s->rs, F_GETFL, 0);
    int face;
    struct relay *r = new_relay(&face);

    if (!r) {
        return -1;
    }
    pair_name_give(r->pair, s);
    (void)rfcntl(s->rs, F_SETFL, flags & ~O_NONBLOCK);
    (void)real()->fcntl(face, F_SETFL, flags & O_NONBLOCK);
    move_limit(s->rs, face, SO_RCVTIMEO);
    move_limit(s->rs, face, SO_SNDTIMEO);
    atomic_fetch_add(&relays, 1);
    pthread_mutex_lock(&s->sets); /* epoll_ctl finds the rsocket and its face, or the pair */
    set(r, s->rs, iwarp_rs_carry(s->rs));
    (void)sock_swap(s, face); /* before the state: a thread that finds PIPE uses the face */
    s->state = SOCK_PIPE;
    s->rs = -1;
    pthread_mutex_unlock(&s->sets);
    ring(r);
    (void)run(carry_in, r);
    (void)run(carry_out, r);
    return face;
}

/* --- the end of the process ------------------------------------------------------------------ */

void relay_end(struct sock *s)
{
    const int face = sock_face(s);
    int unread = 0;

    for (int64_t until = sock_now_ms() + DRAIN_MS; face >= 0 && sock_now_ms() < until &&
                                                   real()->ioctl(face, SIOCOUTQ, &unread) == 0 &&
                                                   unread > 0;) {
        sock_rest();
    }
    if (face >= 0) {
        (void)real()->shutdown(face, SHUT_RDWR);
        real()->close(face);
    }
}

void relay_wait(void)
{
    sock_await_none(&relays, DRAIN_MS);
}

void relay_hold(void)
{
    pthread_mutex_lock(&lock);
}

void relay_release(void)
{
    pthread_mutex_unlock(&lock);
}

/* All are its parent's. The memory stays: a thread of the parent may have been changing it. */
void relay_begin_child(void)
{
    for (const struct relay *r = all; r; r = r->next) {
        if (r->rs >= 0) {
            real()->close(r->rs); /* rsockets are locked until all handlers have run */
        }
        close_ends(r);
    }
    all = NULL;
    atomic_store(&relays, 0);
}
