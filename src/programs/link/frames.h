/* SPDX-License-Identifier: BSD-2-Clause */
/* What a cable does to frames on their way to a port: time, and damage by chance from a seed. */
#ifndef IWARP_LINK_FRAMES_H
#define IWARP_LINK_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINK_FRAME_MAX 65536

struct link_cable {
    double loss, reorder, duplicate; /* probabilities */
    uint64_t delay_ns;
    uint64_t rate; /* bits in a second; 0: no limit */
    uint64_t random;
    /* What has happened. */
    uint64_t frames, lost, reordered, duplicated, dropped;
};

struct link_frame {
    uint64_t due_ns;
    size_t octets;
    struct link_frame *next;
    uint8_t data[];
};

/* Frames on their way to a port, by the time at which they are due. */
struct link_queue {
    int fd;
    struct link_frame *first, *last;
    size_t octets;
    uint64_t free_ns; /* with a rate: when what was sent before is through */
    bool full;        /* the port's socket took no more */
};

uint64_t link_now_ns(void);

/* Have a frame go there. */
void link_send(struct link_cable *c, struct link_queue *q, const uint8_t *data, size_t octets);

/* Send what is due.  False: the port is gone. */
bool link_flush(struct link_queue *q);

/* When something is due next; UINT64_MAX: nothing, or the socket has to have room first. */
uint64_t link_due(const struct link_queue *q);

void link_empty(struct link_queue *q);

#endif
