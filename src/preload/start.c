/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/start.h"
#include "compat/compat.h"
#include "preload/fork.h"
#include "preload/peers.h"
#include "preload/request.h"
#include "rspreload/adopt.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <rdma/rsocket.h>
#include <string.h>

unsigned start_quiet_s(void)
{
    return iwarp_compat_number("IWARP_SOCKETS_QUIET", 0, 60, 1);
}

unsigned start_reply_ms(void)
{
    return iwarp_compat_number("IWARP_SOCKETS_REPLY", 0, 60000, 3000);
}

#define CONNECTION 5 /* descriptors of one, about */

int start_adopt(struct sock *s, int tcp, bool server, unsigned timeout_ms)
{
    SIGNALS_HELD; /* the library makes descriptors: own.h */

    if (!sock_has_numbers(tcp, CONNECTION)) {
        errno = EMFILE;
        return -1;
    }
    const int rs = sock_high(tcp);
    if (rs < 0) {
        return -1;
    }
    s->local_len = sizeof s->local;
    s->peer_len = sizeof s->peer;
    /* dup3 changes nothing here, but sock_swap needs it, and a filter (seccomp) may forbid it. */
    if (real()->dup3(tcp, rs, O_CLOEXEC) < 0 ||
        real()->getsockname(tcp, (struct sockaddr *)&s->local, &s->local_len) != 0 ||
        real()->getpeername(tcp, (struct sockaddr *)&s->peer, &s->peer_len) != 0 ||
        iwarp_rs_adopt(rs, server ? IWARP_RS_SERVER : IWARP_RS_CLIENT, NULL, 0, timeout_ms) != 0) {
        const int error = errno;
        real()->close(rs);
        errno = error;
        return -1;
    }
    return rs;
}

int start_watching(struct sock *s)
{
    if (s->watched) {
        return 0;
    }
    SIGNALS_HELD; /* the library makes descriptors: own.h */
    const int face = iwarp_rs_watch(s->rs);
    if (face < 0 || sock_swap(s, face) != 0) {
        return -1;
    }
    sock_becomes(s, s->state, true);
    return 0;
}

int start_show(struct sock *s, bool waits)
{
    return (waits || sock_is_in_sets(s)) && start_watching(s) == 0 ? 0 : sock_swap(s, s->rs);
}

/* --- a connection that was accepted ---------------------------------------------------------- */

/* *whole: all of a Request is there. */
static enum first_octets look(int number, bool *whole)
{
    uint8_t octets[REQUEST_OCTETS];
    const ssize_t n = real()->recv(number, octets, sizeof octets, MSG_PEEK | MSG_DONTWAIT);

    *whole = n > 0 && request_is_whole(octets, (size_t)n);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return FIRST_NOTHING;
    }
    /* The end of the stream and errors are the kernel's to tell. */
    return n > 0 ? first_octets(octets, (size_t)n) : FIRST_OTHER;
}

bool start_given_up(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    bool whole;

    return look(fd, &whole) == FIRST_REQUEST && real()->poll(&p, 1, 0) > 0;
}

void start_arrived(int fd)
{
    bool whole;

    if (start_quiet_s() == 0 || look(fd, &whole) == FIRST_OTHER) {
        return;
    }
    SIGNALS_HELD;
    (void)sock_new(fd, SOCK_ARRIVED);
}

/*
 * The whole key has come. Where descriptors or memory have run out the connection ends: the Request
 * is nothing that the program could read, and a client of ours comes again, plain. `start` is held.
 */
static void become_server(struct sock *s, int number, bool whole)
{
    s->starts_alone = whole;
    s->rs = start_adopt(s, number, true, 0);
    if (s->rs < 0) {
        if (errno != ENOTCONN) { /* else the peer has reset it meanwhile */
            (void)iwarp_compat_refuse("sockets", errno,
                                      "an MPA Request came, and descriptor %d cannot be RDMA: %s",
                                      number, strerror(errno));
        }
        (void)real()->shutdown(number, SHUT_RDWR);
        s->state = SOCK_GONE;
        return;
    }
    s->elsewhere = false;
    s->state = SOCK_RDMA;
    peers_note_answer((const struct sockaddr *)&s->peer, s->peer_len);
    (void)start_show(s, false);
}

/* Part of the key may become the whole, for as long as a listener waits for a first octet. */
static bool part_is_over(struct sock *s)
{
    const int64_t now = sock_now_ms();

    s->part_ms = s->part_ms ? s->part_ms : now;
    return now - s->part_ms >= (int64_t)start_quiet_s() * 1000;
}

/*
 * Octets of a program's own, or nothing in time: plain. The kernel has waited for the first octet
 * before it showed the connection (TCP_DEFER_ACCEPT), so a server that speaks first is not kept.
 * But one that reads first takes a late Request, too. True: decided.
 */
static bool decide(struct sock *s, int number, enum use use)
{
    bool whole;

    switch (look(number, &whole)) {
    case FIRST_REQUEST:
        become_server(s, number, whole);
        return true;
    case FIRST_NOTHING:
        if (use != USE_WRITE) {
            return false;
        }
        break;
    case FIRST_PART:
        if (!part_is_over(s)) {
            return false;
        }
        break;
    case FIRST_OTHER:
        break;
    }
    sock_plain(s);
    return true;
}

int start_limit_ms(int fd, enum use use)
{
    struct timeval limit = {0};
    socklen_t len = sizeof limit;

    const int name = use == USE_READ ? SO_RCVTIMEO : SO_SNDTIMEO;
    if (!iwarp_rs_is(fd)) {
        (void)real()->getsockopt(fd, SOL_SOCKET, name, &limit, &len);
    } else {
        (void)rgetsockopt(fd, SOL_SOCKET, name, &limit, &len);
    }
    const long long ms = limit.tv_sec * 1000LL + limit.tv_usec / 1000;
    return ms > INT_MAX ? INT_MAX : ms > 0 ? (int)ms : -1;
}

/* Until there is something to decide about, as the call itself would wait. -1: errno. */
static int wait_for_octets(struct sock **s, int number)
{
    char octet;
    bool whole;

    sock_put(*s);
    *s = NULL;
    if (real()->recv(number, &octet, sizeof octet, MSG_PEEK) < 0) {
        return -1;
    }
    /* Part of the key: there is nothing to sleep on, and it is rare and bounded. */
    if (look(number, &whole) == FIRST_PART) {
        sock_rest();
    }
    *s = sock_get(number);
    return 0;
}

/* --- first use ------------------------------------------------------------------------------- */

static bool is_decided(struct sock *s, int number, enum use use)
{
    UNCANCELLED;

    pthread_mutex_lock(&s->start);
    const bool is = s->state != SOCK_ARRIVED || decide(s, number, use);
    pthread_mutex_unlock(&s->start);
    return is;
}

static enum use_result use_arrived(struct sock **at, int number, enum use use, bool wait)
{
    while (*at) {
        if (is_decided(*at, number, use) || use == USE_WAIT) {
            break;
        }
        if (!wait) {
            errno = EAGAIN;
            return USE_FAILED;
        }
        if (wait_for_octets(at, number) != 0) {
            return USE_FAILED;
        }
    }
    return USE_KERNEL; /* look again at the state */
}

bool start_hides(int number, bool *part)
{
    struct sock *s = sock_get(number);
    bool hides = false, whole;

    *part = false;
    if (s && s->state == SOCK_ARRIVED) {
        UNCANCELLED;
        *part = !is_decided(s, number, USE_WAIT) && look(number, &whole) == FIRST_PART;
        hides = *part || s->state == SOCK_RDMA;
    }
    sock_put(s);
    return hides;
}

void start_await_settled(struct sock *s)
{
    if (sock_is_unsettled(s)) {
        pthread_mutex_lock(&s->start);
        pthread_mutex_unlock(&s->start);
    }
}

/*
 * What is written is kept as long as there is room: the face is writable then. After shutdown the
 * call fails at once. The socket may just have been settled: then start_use looks at its state
 * again, as it does for a wait.
 */
static enum use_result use_unsettled(struct sock *s, enum use use, bool wait)
{
    pthread_mutex_lock(&s->start);
    const bool settled = !sock_is_unsettled(s);
    const bool may_keep = s->state == SOCK_EARLY && (!s->early.full || s->early.writes_over);
    if (!settled && use == USE_WAIT) {
        s->early.polled = true;
    }
    pthread_mutex_unlock(&s->start);
    if (settled || use == USE_WAIT) {
        return USE_KERNEL;
    }
    if (use == USE_WRITE && may_keep) {
        return USE_EARLY;
    }
    errno = EAGAIN;
    return wait ? USE_UNSETTLED : USE_FAILED;
}

#define START_MS 100 /* for threads of this process */

/*
 * A program that has just accepted a connection may write without waiting: the buffer of a new one
 * is empty. The peer is not waited for, as all of its Request is there.
 */
static void await_start(struct sock *s)
{
    if (atomic_load(&s->starts_alone)) {
        signals_hold_firmly(); /* a signal that waits would end each wait at once */
        (void)iwarp_rs_start_up(s->rs, START_MS);
        signals_release_firmly();
        atomic_store(&s->starts_alone, false);
    }
}

/* A descriptor that a call waits for is shown by its face. */
static enum use_result use_rsocket(struct sock *s, enum use use, bool wait)
{
    int result = 0;

    if (use == USE_WRITE && !wait) {
        await_start(s);
    }

    if (use == USE_WAIT && !s->watched) {
        UNCANCELLED;
        pthread_mutex_lock(&s->start);
        result = s->state == SOCK_RDMA ? start_watching(s) : 0;
        pthread_mutex_unlock(&s->start);
    }
    return result == 0 ? USE_RSOCKET : USE_FAILED;
}

enum use_result start_use(struct sock **s, int number, enum use use, bool wait)
{
    enum use_result result = USE_KERNEL;
    enum sock_state before = SOCK_PLAIN;

    while (result == USE_KERNEL && *s) {
        const enum sock_state state = (*s)->state;
        if (state == before) {
            return USE_KERNEL; /* not decided, and nothing waits */
        }
        before = state;
        switch (state) {
        case SOCK_ARRIVED:
            result = use_arrived(s, number, use, wait);
            break;
        case SOCK_CONNECTING:
        case SOCK_EARLY:
            result = use_unsettled(*s, use, wait);
            break;
        case SOCK_PARENTS:
            fork_ask(*s);
            break;
        case SOCK_RDMA:
            return use_rsocket(*s, use, wait);
        case SOCK_GONE:
            errno = ECONNRESET;
            return USE_FAILED;
        case SOCK_TCP:
        case SOCK_LISTENER:
        case SOCK_PIPE:
        case SOCK_PLAIN:
            return USE_KERNEL;
        }
    }
    return result;
}

/* While the state changes, `start` is held. */
bool start_is_carried(struct sock *s)
{
    const int error = errno;

    pthread_mutex_lock(&s->start);
    pthread_mutex_unlock(&s->start);
    errno = error;
    return s->state == SOCK_PIPE;
}

bool start_has_changed(struct sock *s, enum use_result use, ssize_t result)
{
    return result < 0 && ((use == USE_RSOCKET && errno == EBADF && start_is_carried(s)) ||
                          (use == USE_EARLY && errno == EALREADY));
}

/* --- the end --------------------------------------------------------------------------------- */

bool start_drop_number(struct sock *s, int number)
{
    sock_closing(s);
    fork_closing(s, number);
    return sock_remove(number);
}

void start_dropped(struct sock *s, bool last)
{
    if (last) {
        start_end(s);
    } else {
        sock_tell_watches(s);
    }
}

void start_end(struct sock *s)
{
    UNCANCELLED;

    s->closed = true;
    pthread_mutex_lock(&s->start);
    const int rs = s->rs;
    if (s->state == SOCK_CONNECTING) {
        (void)real()->shutdown(rs, SHUT_RDWR); /* its thread does the rest */
    } else if (s->state == SOCK_EARLY) {       /* as well; what was written goes out first */
    } else if (s->state == SOCK_RDMA && !fork_keep(s)) {
        sock_end_rsocket(s);
    } else if (s->state == SOCK_PIPE && s->pair >= 0 && !fork_keep(s)) {
        sock_close_pair(s);
    } else if (s->elsewhere && rs >= 0) {
        s->rs = -1;
        if (rclose(rs) != 0) { /* the parent's face goes, too, in this process */
            real()->close(rs);
        }
    }
    pthread_mutex_unlock(&s->start);
}
