/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection in memory: two bounded pipes. Behaves as TCP does towards its users: partial reads
 * and writes, FIN, reset, back-pressure. No descriptors, no system calls.
 *
 * The two ends may belong to two workers. pair.lock guards the pipes and the flags that both ends
 * see; it is a leaf, but for `wake`, which is called with it held: so the peer cannot be freed
 * meanwhile. `want_read` and `want_write` belong to the worker of that end alone. There is no
 * descriptor to watch, so readiness is asked for (mem_poll) after each wake-up.
 */
#include "base/guard.h"
#include "transport/transport.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PIPE_BYTES (256u * 1024u) /* a power of two */

struct pipe {
    uint64_t written, taken; /* octets since the beginning; their difference is what it holds */
    bool fin;                /* nothing more will be written */
    uint8_t data[PIPE_BYTES];
};

/* Shared by both ends; freed by the second that closes. */
struct pair {
    pthread_mutex_t lock;
    int ends; /* not yet closed */
    bool reset;
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

    if (peer) {
        m->pair->wake(peer->wake_user);
    }
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

static bool pipe_put(struct pipe *p, const uint8_t *from, size_t n)
{
    size_t at = p->written % PIPE_BYTES;
    size_t first = PIPE_BYTES - at < n ? PIPE_BYTES - at : n;

    if (iwarp_guard_copy_from(p->data + at, from, first) != 0 ||
        iwarp_guard_copy_from(p->data, from + first, n - first) != 0) {
        return false;
    }
    p->written += n;
    return true;
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
    for (int i = 0; i < n && p->written != p->taken; i++) {
        size_t there = (size_t)(p->written - p->taken);
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
    } else if (total == 0 && !p->fin) {
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

/* Is the end readable or writable, of what it watches? A broken connection is both: the next call
 * returns the error. */
static bool is_ready(struct mem *m, bool *readable, bool *writable)
{
    pthread_mutex_lock(&m->pair->lock);
    struct pipe *in = in_pipe(m), *out = out_pipe(m);
    bool broken = m->pair->reset || !m->pair->end[1 - m->side];
    *readable = m->want_read && (in->written != in->taken || in->fin || broken);
    *writable = m->want_write && (out->written - out->taken < PIPE_BYTES || broken);
    pthread_mutex_unlock(&m->pair->lock);
    return *readable || *writable;
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
    pair->reset = pair->reset || reset;
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

int iwarp_mem_pair(iwarp_wake_fn wake, void *user_a, void *user_b, struct iwarp_endpoint **a,
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
        pair->end[i] = m[i];
    }
    *a = &m[0]->ep;
    *b = &m[1]->ep;
    return 0;
}
