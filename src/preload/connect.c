/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The client's side: TCP first, then an MPA Request over it, then plain TCP anew if the peer does
 * not answer that. Until that is settled the face is that of a socket that connects, and then of
 * one that has (early.h).
 *
 *   the socket                       | settled by
 *   ---------------------------------+-------------------------------------------------------------
 *   blocks                           | its thread, which waits; after 10 ms perhaps another thread
 *   does not, and TCP has connected  | the thread that runs the loop, when the Reply comes within
 *   at once                          | 10 ms; else another thread
 *   does not                         | another thread, which waits for TCP and for the Reply
 */
#include "compat/compat.h"
#include "preload/early.h"
#include "preload/later.h"
#include "preload/own.h"
#include "preload/peers.h"
#include "preload/start.h"
#include "preload/threads.h"
#include "rspreload/adopt.h"

#include <errno.h>
#include <netinet/in.h>
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

/* The peer of the connected socket `tcp` is asked, and has `ms` to answer. False: the connection is
 * to be plain, and s->rs is as before. `start` is held. */
static bool ask(struct sock *s, int tcp, unsigned ms)
{
    const int rs = start_adopt(s, tcp, false, ms);

    if (rs < 0) {
        iwarp_compat_tell("sockets", "the connection cannot be RDMA (%s): plain TCP",
                          strerror(errno));
        return false;
    }
    s->rs = rs;
    return true;
}

/* The answer came too late, or was none, or no. The connection is gone: s->rs is a fresh TCP socket
 * with the same options. `start` is held. */
static void give_up(struct sock *s, int error, unsigned ms)
{
    iwarp_compat_tell("sockets", "the peer does not answer an MPA Request (%s): plain TCP",
                      strerror(error == EINPROGRESS ? ETIMEDOUT : error));
    /* What the program's own limit cut short, or its close, says little of it. */
    if (ms == start_reply_ms() && !s->closed) {
        peers_note_plain((const struct sockaddr *)&s->peer, s->peer_len, sock_now_ms());
    }
    (void)iwarp_rs_forget(s->rs);
    bind_again(s, s->rs);
}

/* A little longer than the start-up itself, which knows why it failed. */
static int answer_to(const struct sock *s, unsigned ms)
{
    const int error = iwarp_rs_start_up(s->rs, (int)ms + 1000);

    if (error == 0) {
        peers_note_answer((const struct sockaddr *)&s->peer, s->peer_len);
    }
    return error;
}

/* Another port of that address has answered, or has sent a Request; or this process listens there,
 * and may be about to accept. */
static bool is_likely(const struct sock *s)
{
    return peers_has_answered((const struct sockaddr *)&s->peer, s->peer_len) ||
           peers_is_own((const struct sockaddr *)&s->local, (const struct sockaddr *)&s->peer,
                        s->peer_len);
}

/*
 * The same, but EINPROGRESS where the program may go on without the answer, since that is likely to
 * come. A plain server might take the connection, and no other, because of what the program does
 * next. first_ms: what is left of the time in which the program does not go on.
 */
static int early_answer_to(const struct sock *s, unsigned ms, int first_ms)
{
    const int64_t until = sock_now_ms() + ms;
    int error = iwarp_rs_start_up(s->rs, first_ms);

    while (error == EINPROGRESS && sock_now_ms() < until && !is_likely(s)) {
        error = iwarp_rs_start_up(s->rs, EARLY_AFTER_MS);
    }
    return error == EINPROGRESS && sock_now_ms() < until ? error : answer_to(s, ms);
}

/* --- the face of a socket that is not settled ------------------------------------------------ */

/* Neither readable nor, if it is full, writable. */
static int make_face(struct sock *s, bool full)
{
    int pair[2];

    if (real()->socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (s->nonblock ? SOCK_NONBLOCK : 0),
                           0, pair) != 0) {
        return -1;
    }
    if (full) {
        early_fill(pair[0]);
    }
    s->front = own_move(pair[0]);
    s->pair = own_move(pair[1]);
    return sock_swap(s, s->front);
}

/* Threads that wait for the old face find it readable and writable, and look at the new one.
 * `start` is held. */
static void settle(struct sock *s, enum sock_state state)
{
    const int pair = s->pair;

    s->pair = -1;
    early_forget(s);
    if (state == SOCK_PLAIN) {
        sock_plain(s);
    } else {
        sock_becomes(s, state, s->watched);
    }
    early_empty(pair);
    (void)real()->send(pair, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    sock_close_pair(s);
    /* The other end is left open for them: closed, it would show a hang-up. The next attempt, or
     * the end of the process, closes it. */
    static _Atomic int left[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    static _Atomic unsigned turn;
    const int old = atomic_exchange(&left[atomic_fetch_add(&turn, 1) % 8], pair);
    if (old >= 0) {
        real()->close(old);
    }
    pthread_cond_broadcast(&s->settled);
}

/* The face is TCP again; TCP itself tells how its connect went. */
static void show_tcp(struct sock *s, int tcp, enum sock_state state)
{
    (void)sock_swap(s, tcp);
    s->rs = -1;
    settle(s, state);
    real()->close(tcp);
}

/* --- an attempt ------------------------------------------------------------------------------ */

struct attempt {
    struct sock *s;
    struct sockaddr_storage to;
    socklen_t len;
    unsigned ms;      /* for the answer */
    bool is_asked;    /* s->rs is the rsocket; else TCP connects; with `start` */
    bool waited;      /* for the answer, LATER_MS */
    bool had_some;    /* something was kept */
    atomic_uint refs; /* one of the job for later, or the thread that settles the socket; one of
                       * the rsocket until it has called `started` */
    struct later later;
};

_Static_assert(LATER_MS >= EARLY_AFTER_MS, "the job for later has waited as long as others do");

static void attempt(void *arg);

static struct attempt *new_attempt(struct sock *s, const struct sockaddr *to, socklen_t len,
                                   unsigned ms)
{
    struct attempt *a = calloc(1, sizeof *a);

    if (a) {
        a->s = s;
        a->len = len;
        a->ms = ms;
        memcpy(&a->to, to, len);
        atomic_store(&a->refs, 1);
        a->later = (struct later){.run = attempt, .arg = a};
        sock_ref(s);
    }
    return a;
}

static void end_attempt(struct attempt *a)
{
    if (a && atomic_fetch_sub(&a->refs, 1) == 1) {
        sock_unref(a->s);
        free(a);
    }
}

/* The face becomes the rsocket's, which shows at once what it can. `start` is held. */
static bool settle_behind_face(struct sock *s)
{
    SIGNALS_HELD; /* the library may make descriptors: own.h */
    const bool writable = s->state == SOCK_EARLY && !s->early.full;

    if (iwarp_rs_watch_by(s->rs, s->front, s->pair, writable) != 0) {
        return false;
    }
    s->front = s->pair = -1;
    early_forget(s);
    sock_becomes(s, SOCK_RDMA, true);
    pthread_cond_broadcast(&s->settled);
    return true;
}

/* `start` is held. */
static void become_rdma(struct attempt *a)
{
    struct sock *s = a->s;

    s->elsewhere = false;
    early_pass_on(s, true);
    a->had_some = early_has_some(s);
    const bool waits = s->early.polled || sock_is_in_sets(s);
    if (!waits || !settle_behind_face(s)) {
        (void)start_show(s, waits);
        settle(s, SOCK_RDMA);
    }
}

/* It is settled. */
static void finish(struct attempt *a)
{
    if (a->s->closed) {
        start_end(a->s);
    }
    if (a->had_some) {
        early_passed();
    }
    end_attempt(a);
}

/* --- the thread ------------------------------------------------------------------------------ */

static bool is_connected(int tcp, int timeout_ms)
{
    struct pollfd p = {.fd = tcp, .events = POLLOUT};
    int n;

    do {
        n = real()->poll(&p, 1, timeout_ms);
    } while (n < 0 && errno == EINTR);
    return n > 0 && !(p.revents & (POLLERR | POLLHUP));
}

static bool was_asked(struct attempt *a)
{
    pthread_mutex_lock(&a->s->start);
    const bool was = a->is_asked;
    pthread_mutex_unlock(&a->s->start);
    return was;
}

/* False: it is settled. */
static bool has_asked(struct attempt *a)
{
    struct sock *s = a->s;

    if (was_asked(a)) {
        return true;
    }
    const int tcp = s->rs;
    const bool connected = is_connected(tcp, -1);
    pthread_mutex_lock(&s->start);
    a->is_asked = connected && ask(s, tcp, a->ms);
    if (a->is_asked) {
        real()->close(tcp);
    } else {
        show_tcp(s, tcp, connected ? SOCK_PLAIN : SOCK_TCP);
    }
    pthread_mutex_unlock(&s->start);
    return a->is_asked;
}

static int await_answer(struct attempt *a)
{
    struct sock *s = a->s;

    if (s->state == SOCK_CONNECTING) {
        const int error = early_answer_to(s, a->ms, a->waited ? 0 : EARLY_AFTER_MS);
        if (error != EINPROGRESS) {
            return error;
        }
        pthread_mutex_lock(&s->start);
        early_begin(s);
        pthread_mutex_unlock(&s->start);
    }
    return answer_to(s, a->ms);
}

/* `start` is held, but not while TCP connects. An error stays with the socket for the program. */
static void become_plain(struct attempt *a, int error)
{
    struct sock *s = a->s;

    give_up(s, error, a->ms);
    const int tcp = s->rs;
    /* Nobody would use what the server takes for one more client. */
    if (!s->closed || early_has_some(s)) {
        const int flags = real()->fcntl(tcp, F_GETFL);
        pthread_mutex_unlock(&s->start);
        (void)real()->fcntl(tcp, F_SETFL, flags | O_NONBLOCK);
        const bool connected = real()->connect(tcp, (struct sockaddr *)&a->to, a->len) == 0 ||
                               (errno == EINPROGRESS && is_connected(tcp, -1));
        pthread_mutex_lock(&s->start);
        (void)real()->fcntl(tcp, F_SETFL, s->nonblock ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
        if (connected) {
            early_pass_on(s, false);
        }
    }
    a->had_some = early_has_some(s);
    show_tcp(s, tcp, SOCK_PLAIN);
}

static void attempt(void *arg)
{
    struct attempt *a = arg;
    struct sock *s = a->s;

    if (has_asked(a)) {
        const int error = await_answer(a);
        pthread_mutex_lock(&s->start);
        if (error == 0) {
            become_rdma(a);
        } else {
            become_plain(a, error);
        }
        pthread_mutex_unlock(&s->start);
    }
    finish(a);
}

/* Gives the socket a face until it is settled. early: it shows writable. `start` is held. */
static bool hide(struct sock *s, bool early)
{
    s->state = early ? s->state : SOCK_CONNECTING;
    if (make_face(s, !early) != 0) {
        return false;
    }
    if (early) {
        early_begin(s);
    }
    return true;
}

/* --- blocking -------------------------------------------------------------------------------- */

/* The program goes on, and a thread does the rest. `start` is held. */
static bool hand_over(struct sock *s, const struct sockaddr *to, socklen_t len, unsigned ms)
{
    struct attempt *a = new_attempt(s, to, len, ms);

    if (a && hide(s, true)) {
        a->is_asked = true;
        if (threads_run(attempt, a) == 0) {
            return true;
        }
    }
    end_attempt(a);
    return false;
}

/* The peer has been asked. *again: it is to be connected anew, plain. `start` is held. */
static int finish_at_once(struct sock *s, const struct sockaddr *to, socklen_t len, unsigned ms,
                          bool *again)
{
    int error = early_answer_to(s, ms, EARLY_AFTER_MS);

    if (error == EINPROGRESS && hand_over(s, to, len, ms)) {
        return 0;
    }
    error = error == EINPROGRESS ? answer_to(s, ms) : error;
    sock_close_pair(s); /* of what could not be handed over */
    early_forget(s);
    *again = error != 0;
    if (*again) {
        give_up(s, error, ms);
    } else {
        s->elsewhere = false;
        s->state = SOCK_RDMA;
    }
    const int result = *again ? sock_swap(s, s->rs) : start_show(s, false);
    if (*again) {
        real()->close(s->rs);
        s->rs = -1;
        sock_plain(s);
    }
    return result;
}

/* TCP has connected `number`. */
static int ask_at_once(struct sock *s, int number, const struct sockaddr *to, socklen_t len,
                       bool *again)
{
    const int limit = start_limit_ms(number, USE_WRITE);
    const unsigned most = start_reply_ms();
    const unsigned ms = limit >= 0 && (unsigned)limit < most ? (unsigned)limit : most;
    int result = 0;

    signals_hold_firmly();
    pthread_mutex_lock(&s->start);
    if (ask(s, number, ms)) {
        result = finish_at_once(s, to, len, ms, again);
    } else {
        sock_plain(s);
    }
    pthread_mutex_unlock(&s->start);
    signals_release_firmly();
    return result;
}

/* --- not blocking ---------------------------------------------------------------------------- */

/*
 * This thread runs the loop, and a thread that holds `start` may wait for the loop. So this one
 * takes `start` only if it is free. A socket that the program has closed meanwhile is ended by
 * start_end, which waits for `start`: that is another thread's work, too.
 */
static bool settles_at_once(struct attempt *a)
{
    struct sock *s = a->s;

    if (pthread_mutex_trylock(&s->start) != 0) {
        return false;
    }
    const bool established = !s->closed && answer_to(s, 0) == 0;
    if (established) {
        become_rdma(a);
    }
    pthread_mutex_unlock(&s->start);
    return established;
}

/* Another thread goes on at once, or that of later.c in 10 ms, which is there for a while yet. */
static void go_on_elsewhere(struct attempt *a)
{
    if (threads_run(attempt, a) != 0) {
        (void)later_run(&a->later);
    }
}

/*
 * The rsocket calls it once, on the thread that runs the loop, when its start-up is over, with the
 * rsocket's reference. If the job is taken back, its reference is this thread's as well; else
 * another thread settles the socket, or has. What is plain has to wait for TCP, so another thread
 * does that.
 */
static void started(void *arg)
{
    struct attempt *a = arg;

    if (later_take_back(&a->later)) {
        if (settles_at_once(a)) {
            end_attempt(a);
        } else {
            go_on_elsewhere(a);
        }
    }
    end_attempt(a);
}

/* TCP has connected. `start` is held, so the job for later, if it runs by now, waits in
 * was_asked. */
static void ask_now(struct attempt *a)
{
    struct sock *s = a->s;
    const int tcp = s->rs;

    a->is_asked = ask(s, tcp, a->ms);
    a->waited = true;
    if (a->is_asked) {
        real()->close(tcp);
        atomic_fetch_add(&a->refs, 1);
        if (iwarp_rs_start_by(s->rs, started, a)) {
            return;
        }
        atomic_fetch_sub(&a->refs, 1);
    }
    if (later_take_back(&a->later)) {
        go_on_elsewhere(a);
    }
}

/* TCP connects. Whatever is missing here makes it a plain connection. */
static void ask_later(struct sock *s, int number, const struct sockaddr *to, socklen_t len)
{
    pthread_mutex_lock(&s->start);
    s->early.polled = true; /* or will be */
    const int tcp = sock_high(number);
    s->rs = tcp;
    struct attempt *a = tcp >= 0 ? new_attempt(s, to, len, start_reply_ms()) : NULL;
    bool goes_on = a && hide(s, false);
    if (goes_on && is_connected(tcp, 0) && later_run(&a->later)) {
        ask_now(a);
    } else {
        goes_on = goes_on && threads_run(attempt, a) == 0;
    }
    if (!goes_on) {
        end_attempt(a);
    }
    if (tcp < 0) {
        sock_plain(s);
    } else if (!goes_on) {
        show_tcp(s, tcp, SOCK_PLAIN);
    }
    pthread_mutex_unlock(&s->start);
}

/* --- connect --------------------------------------------------------------------------------- */

bool start_may_connect(struct sock *s)
{
    start_await_settled(s);
    switch ((enum sock_state)s->state) {
    case SOCK_CONNECTING:
        errno = EALREADY;
        return false;
    case SOCK_EARLY:
    case SOCK_RDMA:
    case SOCK_PIPE:
    case SOCK_PARENTS:
    case SOCK_GONE:
        errno = EISCONN;
        return false;
    case SOCK_TCP:
    case SOCK_LISTENER:
    case SOCK_ARRIVED:
    case SOCK_PLAIN:
        break;
    }
    return true;
}

int start_connected(struct sock *s, int number, const struct sockaddr *to, socklen_t len,
                    int result, bool *again)
{
    UNCANCELLED;
    const int error = errno;

    *again = false;
    if (s->state != SOCK_TCP || (result != 0 && error != EINPROGRESS)) {
        return result;
    }
    if (start_reply_ms() == 0 || len > sizeof s->peer ||
        (to->sa_family != AF_INET && to->sa_family != AF_INET6) ||
        peers_is_plain(to, len, sock_now_ms())) {
        pthread_mutex_lock(&s->start);
        sock_plain(s);
        pthread_mutex_unlock(&s->start);
        errno = error;
        return result;
    }
    if (!s->nonblock) {
        return result == 0 ? ask_at_once(s, number, to, len, again) : result;
    }
    ask_later(s, number, to, len);
    errno = EINPROGRESS;
    return -1;
}
