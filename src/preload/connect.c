/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The client's side: TCP first, then an MPA Request over it, then plain TCP anew if the peer does
 * not answer that. A socket that does not block has a thread for it, which sleeps and ends with it;
 * until then its face is neither readable nor writable, as that of a socket that connects.
 */
#include "compat/compat.h"
#include "preload/own.h"
#include "preload/plain_peers.h"
#include "preload/start.h"
#include "rspreload/adopt.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* --- Request and Reply ----------------------------------------------------------------------- */

/* The program chose where to come from: the same for the second connection. */
static void bind_again(const struct sock *s, int tcp)
{
    const int on = 1;

    if (s->bound_len > 0) {
        (void)real()->setsockopt(tcp, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        (void)real()->bind(tcp, (const struct sockaddr *)&s->bound, s->bound_len);
    }
}

/*
 * The peer of the connected socket `tcp` is asked, and has `ms` to answer. True: s->rs is an
 * rsocket. False: the connection is to be plain; *again: it is gone, and s->rs is a fresh TCP
 * socket with the same options. `start` is held.
 */
static bool ask(struct sock *s, int tcp, unsigned ms, bool *again)
{
    *again = false;
    s->rs = start_adopt(s, tcp, false, ms);
    if (s->rs < 0) {
        iwarp_compat_tell("sockets", "the connection cannot be RDMA (%s): plain TCP",
                          strerror(errno));
        return false;
    }
    int error = iwarp_rs_start_up(s->rs, (int)ms + 1000);
    if (error == 0) {
        s->elsewhere = false;
        return true;
    }
    iwarp_compat_tell("sockets", "the peer does not answer an MPA Request (%s): plain TCP",
                      strerror(error == EINPROGRESS ? ETIMEDOUT : error));
    /* What the program's own limit cut short, or its close, says little of it. */
    if (ms == start_reply_ms() && !s->closed) {
        plain_peers_add((const struct sockaddr *)&s->peer, s->peer_len, sock_now_ms());
    }
    *again = true;
    (void)iwarp_rs_forget(s->rs);
    bind_again(s, s->rs);
    return false;
}

/* --- blocking -------------------------------------------------------------------------------- */

/* TCP has connected `number`. *again: it is to be connected anew, plain. */
static int ask_at_once(struct sock *s, int number, bool *again)
{
    const int limit = start_limit_ms(number, USE_WRITE);
    unsigned ms = start_reply_ms();
    int result = 0;

    ms = limit >= 0 && (unsigned)limit < ms ? (unsigned)limit : ms;
    signals_hold_firmly();
    pthread_mutex_lock(&s->start);
    if (ask(s, number, ms, again)) {
        s->state = SOCK_RDMA;
        result = sock_swap(s, s->rs);
    } else {
        if (*again) {
            result = sock_swap(s, s->rs);
            real()->close(s->rs);
            s->rs = -1;
        }
        sock_plain(s);
    }
    pthread_mutex_unlock(&s->start);
    signals_release_firmly();
    return result;
}

/* --- not blocking ---------------------------------------------------------------------------- */

struct attempt {
    struct sock *s;
    struct sockaddr_storage to;
    socklen_t len;
};

/* Its socket buffer is full: not writable. */
static int make_face(struct sock *s)
{
    static const char fill[2048];
    const int least = 1;
    int pair[2];

    if (real()->socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
        return -1;
    }
    (void)real()->setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof least);
    while (real()->send(pair[0], fill, sizeof fill, MSG_DONTWAIT) > 0) {
    }
    s->pair = own_move(pair[1]);
    const int result = sock_swap(s, pair[0]);
    real()->close(pair[0]);
    return result;
}

/* Threads that wait for the old face find it readable and writable, and look at the new one.
 * `start` is held. */
static void settle(struct sock *s, enum sock_state state)
{
    char octets[4096];
    const int pair = s->pair;

    s->pair = -1;
    if (state == SOCK_PLAIN) {
        sock_plain(s);
    } else {
        sock_becomes(s, state, s->watched);
    }
    while (real()->recv(pair, octets, sizeof octets, MSG_DONTWAIT) > 0) {
    }
    (void)real()->send(pair, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    /* It is left open for them: closed, it would show a hang-up. The next attempt, or the end of
     * the process, closes it. */
    static _Atomic int left[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    static _Atomic unsigned turn;
    const int old = atomic_exchange(&left[atomic_fetch_add(&turn, 1) % 8], pair);
    if (old >= 0) {
        real()->close(old);
    }
    pthread_cond_broadcast(&s->settled);
}

static bool has_connected(int tcp)
{
    struct pollfd p = {.fd = tcp, .events = POLLOUT};

    while (real()->poll(&p, 1, -1) < 0 && errno == EINTR) {
    }
    return !(p.revents & (POLLERR | POLLHUP));
}

/* The face is TCP again; TCP itself tells how its connect went. */
static void show_tcp(struct sock *s, int tcp, enum sock_state state)
{
    (void)sock_swap(s, tcp);
    s->rs = -1;
    settle(s, state);
    real()->close(tcp);
}

static void *attempt_thread(void *arg)
{
    struct attempt *a = arg;
    struct sock *s = a->s;
    const int tcp = s->rs;
    bool again;

    const bool connected = has_connected(tcp);
    pthread_mutex_lock(&s->start);
    if (!connected) {
        show_tcp(s, tcp, SOCK_TCP);
    } else if (ask(s, tcp, start_reply_ms(), &again)) {
        (void)start_watching(s);
        settle(s, SOCK_RDMA);
        real()->close(tcp);
    } else if (again) {
        const int anew = s->rs;
        if (!s->closed && /* else nobody would use what the server takes for one more client */
            real()->connect(anew, (struct sockaddr *)&a->to, a->len) != 0 && errno == EINPROGRESS) {
            (void)has_connected(anew);
        }
        show_tcp(s, anew, SOCK_PLAIN);
        real()->close(tcp);
    } else {
        show_tcp(s, tcp, SOCK_PLAIN);
    }
    pthread_mutex_unlock(&s->start);
    if (s->closed) {
        start_end(s);
    }
    sock_unref(s);
    free(a);
    return NULL;
}

static int start_thread(struct attempt *a)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t every, before;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    const int error = pthread_create(&thread, &attributes, attempt_thread, a);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

/* TCP connects. Whatever is missing here makes it a plain connection. */
static void ask_later(struct sock *s, int number, const struct sockaddr *to, socklen_t len)
{
    struct attempt *a = calloc(1, sizeof *a);

    pthread_mutex_lock(&s->start);
    const int tcp = a ? sock_high(number) : -1;
    if (tcp < 0 || make_face(s) != 0) {
        if (tcp >= 0) {
            (void)sock_swap(s, tcp);
            real()->close(tcp);
        }
        free(a);
        sock_plain(s);
        pthread_mutex_unlock(&s->start);
        return;
    }
    s->rs = tcp;
    s->state = SOCK_CONNECTING;
    memcpy(&a->to, to, len < sizeof a->to ? len : sizeof a->to);
    a->len = len;
    a->s = s;
    sock_ref(s);
    if (start_thread(a) != 0) {
        sock_unref(s);
        free(a);
        show_tcp(s, tcp, SOCK_PLAIN);
    }
    pthread_mutex_unlock(&s->start);
}

/* --- connect --------------------------------------------------------------------------------- */

bool start_may_connect(struct sock *s, int number)
{
    start_await_settled(s, number);
    switch ((enum sock_state)s->state) {
    case SOCK_CONNECTING:
        errno = EALREADY;
        return false;
    case SOCK_RDMA:
        errno = EISCONN;
        return false;
    case SOCK_TCP:
    case SOCK_LISTENER:
    case SOCK_ARRIVED:
    case SOCK_PIPE:
    case SOCK_PARENTS:
    case SOCK_GONE:
    case SOCK_PLAIN:
        break;
    }
    return true;
}

int start_connected(struct sock *s, int number, const struct sockaddr *to, socklen_t len,
                    int result, bool *again)
{
    *again = false;
    if (s->state != SOCK_TCP || (result != 0 && errno != EINPROGRESS)) {
        return result;
    }
    if (start_reply_ms() == 0 || len > sizeof s->peer ||
        (to->sa_family != AF_INET && to->sa_family != AF_INET6) ||
        plain_peers_has(to, len, sock_now_ms())) {
        const int error = errno;
        pthread_mutex_lock(&s->start);
        sock_plain(s);
        pthread_mutex_unlock(&s->start);
        errno = error;
        return result;
    }
    if (!s->nonblock) {
        return result == 0 ? ask_at_once(s, number, again) : result;
    }
    ask_later(s, number, to, len);
    errno = EINPROGRESS;
    return -1;
}
