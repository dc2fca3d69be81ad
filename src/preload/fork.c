/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/fork.h"
#include "compat/compat.h"
#include "preload/cancel.h"
#include "preload/early.h"
#include "preload/later.h"
#include "preload/own.h"
#include "preload/peers.h"
#include "preload/start.h"
#include "preload/threads.h"

#include <errno.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_S 10 /* for a parent to give a child what it asks for; it may be stopped */

/*
 * A fork while there are rsockets begins a family: children ask at its one end, as long as they
 * neither end nor run another program, and a thread of this process answers at the other. It knows
 * by the end of the stream that no child is left.
 */
struct family {
    uint64_t id;
    int answers, asks;
    uint64_t *asked; /* serial numbers of what it has asked for; its thread's alone */
    size_t asked_count;
};

/* Only the handlers of fork change these: one fork at a time. */
static uint64_t last_family;
static struct family *begun;

/* What a child sends, with a descriptor for the answer. Addresses are the same in both. */
struct question {
    struct sock *s;
    uint64_t serial;
};

/* --- one descriptor with a message ----------------------------------------------------------- */

union carrier {
    struct cmsghdr header;
    char octets[CMSG_SPACE(sizeof(int))];
};

static int send_with(int to, const void *octets, size_t n, int fd)
{
    union {
        const void *given;
        void *wanted;
    } same = {.given = octets};
    union carrier carrier = {0};
    struct iovec part = {.iov_base = same.wanted, .iov_len = n};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};

    if (fd >= 0) {
        m.msg_control = &carrier;
        m.msg_controllen = sizeof carrier;
        carrier.header.cmsg_level = SOL_SOCKET;
        carrier.header.cmsg_type = SCM_RIGHTS;
        carrier.header.cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(&carrier.header), &fd, sizeof fd);
    }
    return real()->sendmsg(to, &m, MSG_NOSIGNAL) == (ssize_t)n ? 0 : -1;
}

/* How many octets; *fd: what came with them, or -1. */
static ssize_t receive_with(int from, void *octets, size_t n, int *fd)
{
    union carrier carrier = {0};
    struct iovec part = {.iov_base = octets, .iov_len = n};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = &carrier,
                       .msg_controllen = sizeof carrier};
    ssize_t got;

    do {
        got = real()->recvmsg(from, &m, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    const struct cmsghdr *header = got > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    *fd = -1;
    if (header && header->cmsg_type == SCM_RIGHTS) {
        memcpy(fd, CMSG_DATA(header), sizeof *fd);
    }
    return got;
}

/* --- the parent answers ---------------------------------------------------------------------- */

struct search {
    struct question q;
    struct sock *found;
};

static void match(struct sock *s, void *arg)
{
    struct search *search = arg;

    if (s == search->q.s && s->serial == search->q.serial) {
        s->refs++;
        search->found = s;
    }
}

/* This process has no number for it any more, and more children may ask. `start` is held. */
static void keep_face(struct sock *s, int face)
{
    if (face >= 0 && sock_numbers(s) == 0) {
        s->pair = sock_high(face);
    }
}

/* Has the child ended, or waited long enough? */
static bool has_given_up(int to)
{
    struct pollfd p = {.fd = to, .events = 0};

    return real()->poll(&p, 1, 0) > 0;
}

/* A descriptor that is what the socket's face is from now on, or -1; the caller closes it. */
static int answer(struct sock *s)
{
    int fd = -1;

    early_await(s);
    if (s->state == SOCK_RDMA) {
        fd = relay_start(s);
        keep_face(s, fd);
    } else if (s->state == SOCK_PIPE) {
        fd = s->pair >= 0 ? real()->fcntl(s->pair, F_DUPFD_CLOEXEC, 3) : sock_face(s);
    }
    pthread_mutex_unlock(&s->start);
    return fd;
}

static bool has_asked(const struct family *f, uint64_t serial)
{
    size_t i = 0;

    while (i < f->asked_count && f->asked[i] != serial) {
        i++;
    }
    return i < f->asked_count;
}

static void leave(struct sock *s, void *arg)
{
    const struct family *f = arg;

    if (s->holders > 0 && s->since <= f->id && !has_asked(f, s->serial)) {
        s->holders--;
    }
}

static void leave_one(struct sock *s, void *arg)
{
    if (s == arg && s->holders > 0) {
        s->holders--;
    }
}

/* The family has it now: for this family alone nothing more is kept. Without memory for the list
 * it is kept until the family's end. */
static void note_asked(struct family *f, struct sock *s)
{
    uint64_t *more =
        has_asked(f, s->serial) ? NULL : realloc(f->asked, (f->asked_count + 1) * sizeof *more);

    if (more) {
        f->asked = more;
        f->asked[f->asked_count++] = s->serial;
        sock_each(leave_one, s);
    }
}

static void find_unheld(struct sock *s, void *arg)
{
    struct sock **found = arg;

    if (!*found && s->kept && s->holders == 0) {
        s->kept = false; /* its reference is the caller's */
        *found = s;
    }
}

/* Close what was kept for children, and no family may ask for any more. */
static void close_unheld(void)
{
    struct sock *s;

    do {
        s = NULL;
        sock_each(find_unheld, &s);
        if (s) {
            pthread_mutex_lock(&s->start);
            if (s->state == SOCK_RDMA) {
                sock_end_rsocket(s);
            } else {
                sock_close_pair(s);
            }
            pthread_mutex_unlock(&s->start);
            sock_unref(s);
        }
    } while (s);
}

/* No child of this family is left. */
static void end_family(struct family *f)
{
    sock_each(leave, f);
    close_unheld();
    real()->close(f->answers);
    free(f->asked);
    free(f);
}

static void *answer_children(void *arg)
{
    struct family *f = arg;
    struct search search = {0};
    int to;

    while (receive_with(f->answers, &search.q, sizeof search.q, &to) > 0) {
        search.found = NULL;
        sock_each(match, &search);
        const int fd = search.found && !has_given_up(to) ? answer(search.found) : -1;
        if (fd >= 0) {
            note_asked(f, search.found);
            close_unheld();
        }
        (void)send_with(to, "", 1, fd);
        if (fd >= 0) {
            real()->close(fd);
        }
        real()->close(to);
        if (search.found) {
            sock_unref(search.found);
        }
    }
    end_family(f);
    return NULL;
}

/* --- a child asks ---------------------------------------------------------------------------- */

void fork_ask(struct sock *s)
{
    const struct question q = {.s = s, .serial = s->serial};
    const struct timeval patience = {ANSWER_S, 0};
    int pair[2], fd = -1;
    char octet;

    UNCANCELLED;
    pthread_mutex_lock(&s->start);
    if (s->state == SOCK_PARENTS && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0) {
        (void)real()->setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        const int sent = send_with(s->owner, &q, sizeof q, pair[1]);
        real()->close(pair[1]);
        if (sent == 0) {
            (void)receive_with(pair[0], &octet, 1, &fd);
        }
        real()->close(pair[0]);
        if (fd >= 0 && sock_swap(s, fd) == 0) {
            s->state = SOCK_PIPE;
        }
        if (fd >= 0) {
            real()->close(fd);
        }
    }
    if (s->state == SOCK_PARENTS) {
        s->state = SOCK_GONE;
        (void)iwarp_compat_refuse("sockets", ECONNRESET,
                                  "a connection of the parent process cannot be had");
    }
    pthread_mutex_unlock(&s->start);
}

/* --- a connection that only children may have ------------------------------------------------ */

struct keeping {
    struct sock *s;
    bool kept;
};

static void keep_if_held(struct sock *s, void *arg)
{
    struct keeping *k = arg;

    if (s == k->s && s->holders > 0) {
        s->kept = k->kept = true;
        s->refs++;
    }
}

void fork_closing(struct sock *s, int number)
{
    if (s->state != SOCK_PIPE || s->elsewhere || sock_numbers(s) > 1) {
        return;
    }
    pthread_mutex_lock(&s->start);
    if (s->pair < 0) {
        s->pair = sock_high(number);
    }
    pthread_mutex_unlock(&s->start);
}

bool fork_keep(struct sock *s)
{
    struct keeping k = {.s = s};

    sock_each(keep_if_held, &k);
    return k.kept;
}

/* --- the handlers ---------------------------------------------------------------------------- */

static void look_for_rsockets(struct sock *s, void *arg)
{
    bool *any = arg;

    *any = *any || s->state == SOCK_RDMA || sock_is_unsettled(s);
}

static struct family *new_family(void)
{
    struct family *f = calloc(1, sizeof *f);
    int pair[2];

    if (!f || real()->socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        free(f);
        return NULL;
    }
    f->id = ++last_family;
    f->answers = own_move(pair[0]);
    f->asks = own_move(pair[1]);
    return f;
}

/* The lock of the table is held from here to the other handlers: sockets stay as they are. */
static void before_fork(void)
{
    bool any = false;

    sock_each(look_for_rsockets, &any);
    begun = any ? new_family() : NULL;
    relay_hold();
    peers_hold();
    sock_hold();
}

static void join(struct sock *s, void *arg)
{
    const struct family *f = arg;

    if (s->state == SOCK_RDMA || sock_is_unsettled(s)) {
        s->since = s->holders > 0 ? s->since : f->id;
        s->holders++;
    }
}

static void in_parent(void)
{
    struct family *f = begun;

    sock_release();
    peers_release();
    relay_release();
    if (!f) {
        return;
    }
    real()->close(f->asks);
    sock_each(join, f);
    if (iwarp_compat_thread(NULL, answer_children, f) != 0) {
        end_family(f); /* children find their connections gone */
    }
}

/*
 * The parent's rsockets are descriptors here, too; nobody uses them, and close closes them. Its
 * epoll sets are shared with it: what they watch is its matter.
 */
static void orphan(struct sock *s, void *arg)
{
    const int asks = *(int *)arg;

    pthread_mutex_init(&s->start, NULL);
    pthread_cond_init(&s->settled, NULL);
    pthread_mutex_init(&s->sets, NULL);
    if (s->state == SOCK_RDMA || sock_is_unsettled(s)) {
        s->state = SOCK_PARENTS;
        s->owner = asks;
        s->watched = false;
        early_forget(s);
    }
    sock_close_pair(s); /* its parent's matter */
    s->elsewhere = true;
    s->kept = false;
    s->holders = 0;
    sock_forget_watches(s);
}

static void in_child(void)
{
    struct family *f = begun;
    int asks = f ? f->asks : -1;

    sock_begin_process();
    sock_release();
    peers_release();
    relay_begin_child();
    early_begin_child();
    threads_begin_child();
    cancel_begin_child();
    later_begin_child();
    relay_release();
    sock_each(orphan, &asks);
    if (f) {
        real()->close(f->answers);
        free(f);
    }
}

void fork_watch(void)
{
    (void)pthread_atfork(before_fork, in_parent, in_child);
}
