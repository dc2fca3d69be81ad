/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection in memory: two bounded pipes. Behaves as TCP does towards its users: partial reads
 * and writes, FIN, reset, back-pressure. No descriptors, no system calls.
 *
 * The two ends may belong to two workers. pair.lock guards the pipes and the flags that both ends
 * see; it is a leaf, but for `wake`, which is called with it held: so the peer cannot be freed
 * meanwhile. `want_read` and `want_write` belong to the worker of that end alone. There is no
 * descriptor to watch, so readiness is asked for (mem_poll) after each wake-up.
 *
 * With loans (iwarp/transport.h) an end lends its pipe in pieces by chance; and it refers to what
 * is sent until the other end reads, copies it into the pipe then, and says so late. So tests see
 * what becomes of octets that are lent and referred to, from a seed.
 */
#include "base/guard.h"
#include "transport/transport.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PIPE_BYTES (256u * 1024u) /* a power of two */

/* Octets of the pipe that are still where the writer had them. */
struct ref {
    const uint8_t *p;
    size_t n;
    uint64_t at;
};

#define REFS 32

struct pipe {
    uint64_t written, taken; /* octets since the beginning; their difference is what it holds */
    uint64_t arrived;        /* of a slow pair: those up to here can be read */
    bool fin;                /* nothing more will be written */
    bool gone;               /* memory that it referred to was not there */
    unsigned refs;
    struct ref ref[REFS]; /* in order */
    uint8_t data[PIPE_BYTES];
};

/* Shared by both ends; freed by the second that closes. */
struct pair {
    pthread_mutex_t lock;
    int ends; /* not yet closed */
    bool reset, slow;
    iwarp_wake_fn wake;
    struct mem *end[2];  /* NULL: closed */
    struct pipe pipe[2]; /* pipe[i] is written by end i */
};

struct mem {
    struct iwarp_endpoint ep;
    struct pair *pair;
    void *wake_user;
    int side;
    bool want_read, want_write;
    struct iwarp_mem_loans loans; /* .most 0: none; .seed: the generator's state */
    size_t held;                  /* octets that wait for more */
    uint64_t reported;            /* octets of which the owner knows that they are released */
};

static struct mem *mem_of(struct iwarp_endpoint *ep)
{
    return (struct mem *)(void *)ep;
}

static struct pipe *out_pipe(struct mem *m)
{
    return &m->pair->pipe[m->side];
}

static struct pipe *in_pipe(struct mem *m)
{
    return &m->pair->pipe[1 - m->side];
}

/* pair.lock held: `end` is cleared under it, so the peer and its wake_user exist. */
static void wake_peer(struct mem *m)
{
    struct mem *peer = m->pair->end[1 - m->side];

    if (peer && !m->pair->slow) {
        m->pair->wake(peer->wake_user);
    }
}

/* Up to where the octets that come in can be read. */
static uint64_t in_end(struct mem *m)
{
    return m->pair->slow ? in_pipe(m)->arrived : in_pipe(m)->written;
}

/* Behind them nothing comes. */
static bool in_fin(struct mem *m)
{
    return in_pipe(m)->fin && in_end(m) == in_pipe(m)->written;
}

/* Both copies are guarded and return false for application memory that is gone, as the kernel's
 * read and write return EFAULT. */
static bool pipe_take(struct pipe *p, uint8_t *to, size_t n)
{
    size_t at = p->taken % PIPE_BYTES;
    size_t first = PIPE_BYTES - at < n ? PIPE_BYTES - at : n;

    if (iwarp_guard_copy_to(to, p->data + at, first) != 0 ||
        iwarp_guard_copy_to(to + first, p->data, n - first) != 0) {
        return false;
    }
    p->taken += n;
    return true;
}

/* Copy octets to where they belong in the pipe, behind those that are readable or among them. */
static bool pipe_copy(struct pipe *p, uint64_t pos, const uint8_t *from, size_t n)
{
    size_t at = pos % PIPE_BYTES;
    size_t first = PIPE_BYTES - at < n ? PIPE_BYTES - at : n;

    return iwarp_guard_copy_from(p->data + at, from, first) == 0 &&
           iwarp_guard_copy_from(p->data, from + first, n - first) == 0;
}

/*
 * What is referred to up to `end` becomes the pipe's own: the octets are about to be read. False:
 * it is gone, and the pipe ends before it.
 */
static bool pipe_own(struct pipe *p, uint64_t end)
{
    unsigned n = 0;

    for (; n < p->refs && p->ref[n].at < end && !p->gone; n++) {
        p->gone = !pipe_copy(p, p->ref[n].at, p->ref[n].p, p->ref[n].n);
    }
    if (p->gone && n > 0) {
        p->written = p->ref[n - 1].at;
        p->arrived = p->arrived < p->written ? p->arrived : p->written;
        n = p->refs;
    }
    p->refs -= n;
    memmove(p->ref, p->ref + n, p->refs * sizeof p->ref[0]);
    return !p->gone;
}

static bool pipe_put(struct pipe *p, const uint8_t *from, size_t n)
{
    if (!pipe_copy(p, p->written, from, n)) {
        return false;
    }
    p->written += n;
    return true;
}

/* The octets are read now: those that are referred to are copied, or the connection is lost. */
static void will_read(struct mem *m)
{
    if (in_pipe(m)->refs > 0) {
        m->pair->reset = !pipe_own(in_pipe(m), in_end(m)) || m->pair->reset;
        wake_peer(m); /* something is released */
    }
}

/*
 * Octets that were written before a reset or a FIN are read first, as with TCP. Each read wakes the
 * peer up: it may wait for room.
 */
static ssize_t mem_readv(struct iwarp_endpoint *ep, const struct iovec *iov, int n)
{
    struct mem *m = mem_of(ep);
    ssize_t total = 0;

    pthread_mutex_lock(&m->pair->lock);
    struct pipe *p = in_pipe(m);
    will_read(m);
    for (int i = 0; i < n && in_end(m) != p->taken; i++) {
        size_t there = (size_t)(in_end(m) - p->taken);
        size_t take = iov[i].iov_len < there ? iov[i].iov_len : there;
        if (!pipe_take(p, iov[i].iov_base, take)) {
            total = total > 0 ? total : -EFAULT;
            break;
        }
        total += (ssize_t)take;
    }
    if (total > 0) {
        wake_peer(m);
    } else if (total == 0 && m->pair->reset) {
        total = -ECONNRESET;
    } else if (total == 0 && !in_fin(m)) {
        total = -EAGAIN;
    }
    pthread_mutex_unlock(&m->pair->lock);
    return total;
}

/* To a peer that has closed: EPIPE, or ECONNRESET after a reset by either end. */
static ssize_t mem_writev(struct iwarp_endpoint *ep, const struct iovec *iov, int n)
{
    struct mem *m = mem_of(ep);
    ssize_t total = 0;

    pthread_mutex_lock(&m->pair->lock);
    struct pipe *p = out_pipe(m);
    if (m->pair->reset || !m->pair->end[1 - m->side]) {
        total = m->pair->reset ? -ECONNRESET : -EPIPE;
    }
    for (int i = 0; i < n && total >= 0; i++) {
        size_t room = PIPE_BYTES - (size_t)(p->written - p->taken);
        size_t put = iov[i].iov_len < room ? iov[i].iov_len : room;
        if (!pipe_put(p, iov[i].iov_base, put)) {
            total = total > 0 ? total : -EFAULT;
            break;
        }
        total += (ssize_t)put;
        m->reported += put; /* loans begin behind it */
        if (put < iov[i].iov_len) {
            break;
        }
    }
    if (total > 0) {
        wake_peer(m);
    } else if (total == 0) {
        total = -EAGAIN;
    }
    pthread_mutex_unlock(&m->pair->lock);
    return total;
}

/* Up to where nothing is referred to. */
static uint64_t released_to(const struct pipe *p)
{
    return p->refs > 0 ? p->ref[0].at : p->written;
}

/* Is the end readable or writable, of what it watches, or is something released? A broken
 * connection is both: the next call returns the error. */
static bool is_ready(struct mem *m, bool *readable, bool *writable)
{
    pthread_mutex_lock(&m->pair->lock);
    struct pipe *in = in_pipe(m), *out = out_pipe(m);
    bool broken = m->pair->reset || !m->pair->end[1 - m->side];
    *readable =
        m->want_read && (in->written - in->taken > m->held || in->fin || broken || out->gone);
    *writable = m->want_write && (out->written - out->taken < PIPE_BYTES || broken);
    bool due = m->loans.most > 0 && released_to(out) > m->reported;
    pthread_mutex_unlock(&m->pair->lock);
    return *readable || *writable || due;
}

static void mem_poll(struct iwarp_endpoint *ep)
{
    bool readable, writable;

    if (is_ready(mem_of(ep), &readable, &writable)) {
        ep->ready(ep->user, readable, writable);
    }
}

static void mem_watch(struct iwarp_endpoint *ep, bool read, bool write)
{
    struct mem *m = mem_of(ep);
    bool readable, writable;

    m->want_read = read;
    m->want_write = write;
    if (is_ready(m, &readable, &writable)) {
        m->pair->wake(m->wake_user); /* level-triggered: it was ready before it was watched */
    }
}

static void mem_shutdown_write(struct iwarp_endpoint *ep)
{
    struct mem *m = mem_of(ep);

    pthread_mutex_lock(&m->pair->lock);
    out_pipe(m)->fin = true;
    wake_peer(m);
    pthread_mutex_unlock(&m->pair->lock);
}

/* `closed` is called at once: with no descriptor there is no handle of the loop to wait for. */
static void mem_close(struct iwarp_endpoint *ep, bool reset)
{
    struct mem *m = mem_of(ep);
    struct pair *pair = m->pair;

    pthread_mutex_lock(&pair->lock);
    pair->reset = pair->reset || reset || !pipe_own(out_pipe(m), UINT64_MAX);
    out_pipe(m)->fin = true;
    wake_peer(m);
    pair->end[m->side] = NULL;
    int left = --pair->ends;
    pthread_mutex_unlock(&pair->lock);
    if (left == 0) {
        pthread_mutex_destroy(&pair->lock);
        free(pair);
    }
    ep->closed(ep->user);
    free(m);
}

static uint32_t mem_emss(struct iwarp_endpoint *ep)
{
    (void)ep;
    return 65483; /* as loopback with a 64 KiB MTU */
}

static const struct iwarp_transport mem_transport = {
    "mem", mem_readv, mem_writev, mem_watch, mem_shutdown_write, mem_close, mem_emss, mem_poll};

/* --- loans ----------------------------------------------------------------------------------- */

/* A number below n, which is not 0. Splitmix64. pair.lock held. */
static size_t draw(struct mem *m, size_t n)
{
    uint64_t z = m->loans.seed += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (size_t)((z ^ z >> 31) % n);
}

/* At least one octet behind those that are held, if there are any. Returns how many octets. */
static size_t cut(struct mem *m, size_t there, struct iovec *iov, unsigned *n)
{
    struct pipe *p = in_pipe(m);
    size_t total = 0, most = there;
    unsigned k = 0;

    if (there > m->held && draw(m, 4) == 0) {
        most = m->held + 1 + draw(m, there - m->held);
    }
    for (; total < most && k < *n; k++) {
        size_t at = (size_t)((p->taken + total) % PIPE_BYTES);
        size_t piece = 1 + draw(m, m->loans.most), left = most - total;
        piece = piece < left ? piece : left;
        piece = piece < PIPE_BYTES - at ? piece : PIPE_BYTES - at;
        iov[k] = (struct iovec){p->data + at, piece};
        total += piece;
    }
    *n = k;
    return total;
}

static ssize_t mem_borrow(struct iwarp_endpoint *ep, struct iovec *iov, unsigned *n)
{
    struct mem *m = mem_of(ep);
    ssize_t got;

    pthread_mutex_lock(&m->pair->lock);
    will_read(m);
    const struct pipe *p = in_pipe(m);
    size_t total = cut(m, (size_t)(in_end(m) - p->taken), iov, n);
    if (out_pipe(m)->gone) {
        got = -EFAULT;
    } else if (total > m->held) {
        got = (ssize_t)(total - m->held);
    } else if (in_end(m) - p->taken > total) {
        got = 1; /* in more pieces than there is room for */
    } else if (m->pair->reset) {
        got = -ECONNRESET;
    } else {
        got = in_fin(m) ? 0 : -EAGAIN;
    }
    pthread_mutex_unlock(&m->pair->lock);
    return got;
}

static void mem_give_back(struct iwarp_endpoint *ep, size_t octets, size_t held)
{
    struct mem *m = mem_of(ep);

    pthread_mutex_lock(&m->pair->lock);
    in_pipe(m)->taken += octets;
    m->held = held;
    if (octets > 0) {
        wake_peer(m);
    }
    pthread_mutex_unlock(&m->pair->lock);
}

static bool passes(const struct iwarp_burst *b, const struct iovec *v)
{
    return (uintptr_t)v->iov_base - (uintptr_t)b->passing.iov_base < b->passing.iov_len;
}

/* One piece, as far as there is room. -EFAULT: memory that is not there. */
static ssize_t take_piece(struct pipe *p, const struct iwarp_burst *b, const struct iovec *v)
{
    size_t room = PIPE_BYTES - (size_t)(p->written - p->taken);
    size_t n = v->iov_len < room ? v->iov_len : room;

    if (p->gone || (p->refs == REFS && !pipe_own(p, UINT64_MAX))) {
        return -EFAULT; /* the pipe has ended before this piece */
    }
    if (passes(b, v)) {
        return pipe_put(p, v->iov_base, n) ? (ssize_t)n : -EFAULT;
    }
    if (n > 0) {
        p->ref[p->refs++] = (struct ref){v->iov_base, n, p->written};
        p->written += n;
    }
    return (ssize_t)n;
}

static ssize_t mem_refer(struct iwarp_endpoint *ep, const struct iwarp_burst *b)
{
    struct mem *m = mem_of(ep);
    struct pipe *p = out_pipe(m);
    ssize_t total = 0, n = 0;

    pthread_mutex_lock(&m->pair->lock);
    if (m->pair->reset || !m->pair->end[1 - m->side]) {
        n = m->pair->reset ? -ECONNRESET : -EPIPE;
    }
    for (unsigned i = 0; i < b->n && n >= 0; i++) {
        n = take_piece(p, b, &b->iov[i]);
        total += n > 0 ? n : 0;
        if (n < (ssize_t)b->iov[i].iov_len) {
            break;
        }
    }
    if (total > 0) {
        wake_peer(m);
    }
    pthread_mutex_unlock(&m->pair->lock);
    return total > 0 ? total : n < 0 ? n : -EAGAIN;
}

/* A part of it, by chance; the rest another time, for which this end wakes itself up. */
static size_t mem_released(struct iwarp_endpoint *ep)
{
    struct mem *m = mem_of(ep);

    pthread_mutex_lock(&m->pair->lock);
    size_t due = (size_t)(released_to(out_pipe(m)) - m->reported);
    size_t n = draw(m, 2) ? due : draw(m, due + 1);
    m->reported += n;
    if (n < due && !m->pair->slow) {
        m->pair->wake(m->wake_user);
    }
    pthread_mutex_unlock(&m->pair->lock);
    return n;
}

/* What was not read is lost, and the connection with it. */
static void mem_forsake(struct iwarp_endpoint *ep)
{
    struct mem *m = mem_of(ep);

    pthread_mutex_lock(&m->pair->lock);
    if (out_pipe(m)->refs > 0) {
        struct pipe *p = out_pipe(m);
        p->written = p->ref[0].at;
        p->arrived = p->arrived < p->written ? p->arrived : p->written;
        p->refs = 0;
        m->pair->reset = true;
        wake_peer(m);
    }
    pthread_mutex_unlock(&m->pair->lock);
}

static const struct iwarp_loans mem_loans = {sizeof mem_loans, mem_borrow,   mem_give_back,
                                             mem_refer,        mem_released, mem_forsake};

/* --- slow pairs ------------------------------------------------------------------------------ */

void iwarp_mem_slow(struct iwarp_endpoint *ep)
{
    mem_of(ep)->pair->slow = true;
}

size_t iwarp_mem_coming(struct iwarp_endpoint *ep)
{
    const struct pipe *p = in_pipe(mem_of(ep));

    return (size_t)(p->written - p->arrived);
}

void iwarp_mem_arrive(struct iwarp_endpoint *ep, size_t n)
{
    in_pipe(mem_of(ep))->arrived += n;
}

void iwarp_mem_look(struct iwarp_endpoint *ep, struct iwarp_mem_look *look)
{
    struct mem *m = mem_of(ep);

    pthread_mutex_lock(&m->pair->lock);
    const struct pipe *in = in_pipe(m), *out = out_pipe(m);
    look->unread = (size_t)(in_end(m) - in->taken) - m->held;
    look->room = PIPE_BYTES - (size_t)(out->written - out->taken);
    look->fin = in_fin(m);
    look->broken = m->pair->reset || out->gone;
    look->released = m->loans.most > 0 && released_to(out) > m->reported;
    pthread_mutex_unlock(&m->pair->lock);
}

/* --- making one ------------------------------------------------------------------------------ */

int iwarp_mem_pair(iwarp_wake_fn wake, void *user_a, void *user_b,
                   const struct iwarp_mem_loans *loans, struct iwarp_endpoint **a,
                   struct iwarp_endpoint **b)
{
    struct pair *pair = calloc(1, sizeof *pair);
    struct mem *m[2] = {calloc(1, sizeof **m), calloc(1, sizeof **m)};

    if (!pair || !m[0] || !m[1]) {
        free(pair);
        free(m[0]);
        free(m[1]);
        return -ENOMEM;
    }
    pthread_mutex_init(&pair->lock, NULL);
    pair->ends = 2;
    pair->wake = wake;
    for (int i = 0; i < 2; i++) {
        m[i]->ep.ops = &mem_transport;
        m[i]->pair = pair;
        m[i]->side = i;
        m[i]->wake_user = i == 0 ? user_a : user_b;
        if (loans) {
            m[i]->loans = *loans;
            m[i]->loans.seed += (uint64_t)i;
            m[i]->ep.loans = &mem_loans;
        }
        pair->end[i] = m[i];
    }
    *a = &m[0]->ep;
    *b = &m[1]->ep;
    return 0;
}
