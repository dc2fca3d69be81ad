/* SPDX-License-Identifier: BSD-2-Clause */
/* See frames.h. */
#include "frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define QUEUE_OCTETS (4u << 20)
#define LATE_NS      3000000 /* a frame that is reordered comes so much later */

uint64_t link_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* splitmix64; a probability of 0 takes no number, so that the others stay the same. */
static bool happens(struct link_cable *c, double probability)
{
    if (probability <= 0) {
        return false;
    }
    uint64_t z = c->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53 < probability;
}

/* Behind all frames that are due at the same time or before. */
static void enqueue(struct link_queue *q, struct link_frame *f)
{
    struct link_frame **at = &q->first;

    if (q->last && q->last->due_ns <= f->due_ns) {
        at = &q->last->next;
    }
    while (*at && (*at)->due_ns <= f->due_ns) {
        at = &(*at)->next;
    }
    f->next = *at;
    *at = f;
    if (!f->next) {
        q->last = f;
    }
    q->octets += f->octets;
}

/* 0: sent; 1: no room; -1: the port is gone. */
static int put(struct link_queue *q, const uint8_t *data, size_t octets)
{
    ssize_t n;

    do {
        n = send(q->fd, data, octets, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n >= 0) {
        return 0;
    }
    return errno == EAGAIN || errno == ENOBUFS ? 1 : -1;
}

/* A queue that is full drops what comes, as a switch does. */
static void keep(struct link_cable *c, struct link_queue *q, uint64_t due_ns, const uint8_t *data,
                 size_t octets)
{
    struct link_frame *f = q->octets + octets <= QUEUE_OCTETS ? malloc(sizeof *f + octets) : NULL;

    if (!f) {
        c->dropped++;
        return;
    }
    f->due_ns = due_ns;
    f->octets = octets;
    f->next = NULL;
    memcpy(f->data, data, octets);
    enqueue(q, f);
}

static void send_one(struct link_cable *c, struct link_queue *q, const uint8_t *data, size_t octets)
{
    bool timed = c->delay_ns > 0 || c->rate > 0 || c->reorder > 0;

    if (!timed && !q->first && put(q, data, octets) <= 0) {
        return; /* a port that is gone is found out by reading */
    }
    uint64_t due = timed ? link_now_ns() : 0;
    if (c->rate > 0) {
        q->free_ns = q->free_ns > due ? q->free_ns : due;
        q->free_ns += octets * 8 * 1000000000u / c->rate;
        due = q->free_ns;
    }
    due += c->delay_ns;
    if (happens(c, c->reorder)) {
        c->reordered++;
        due += LATE_NS;
    }
    keep(c, q, due, data, octets);
}

void link_send(struct link_cable *c, struct link_queue *q, const uint8_t *data, size_t octets)
{
    c->frames++;
    if (happens(c, c->loss)) {
        c->lost++;
        return;
    }
    send_one(c, q, data, octets);
    if (happens(c, c->duplicate)) {
        c->duplicated++;
        send_one(c, q, data, octets);
    }
}

bool link_flush(struct link_queue *q)
{
    uint64_t now = q->first ? link_now_ns() : 0;
    int rc = 0;

    while (rc == 0 && q->first && q->first->due_ns <= now) {
        struct link_frame *f = q->first;
        rc = put(q, f->data, f->octets);
        if (rc == 0) {
            q->first = f->next;
            q->last = q->first ? q->last : NULL;
            q->octets -= f->octets;
            free(f);
        }
    }
    q->full = rc == 1;
    return rc >= 0;
}

uint64_t link_due(const struct link_queue *q)
{
    return q->first && !q->full ? q->first->due_ns : UINT64_MAX;
}

void link_empty(struct link_queue *q)
{
    while (q->first) {
        struct link_frame *f = q->first;
        q->first = f->next;
        free(f);
    }
    q->last = NULL;
    q->octets = 0;
}
