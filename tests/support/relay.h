/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Somebody on the path: a thread between two TCP sockets of loopback that passes on what either end
 * sends, keeps a copy of it, and can do harm. Direction 0 is from the one who connected.
 */
#ifndef TESTS_RELAY_H
#define TESTS_RELAY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RELAY_KEPT (1u << 20) /* octets of each direction that are kept */

enum relay_harm {
    RELAY_NONE,
    RELAY_FLIP,   /* one bit of the next octets */
    RELAY_REPEAT, /* the next octets are passed on twice */
    RELAY_DROP,   /* the next octets are not passed on */
    RELAY_CUT     /* a FIN to either side, in place of the next octets */
};

struct relay {
    int fd[2];
    pthread_t thread;
    int stop[2];         /* a pipe */
    _Atomic int harm[2]; /* enum relay_harm, done once */
    uint8_t *kept[2];
    _Atomic size_t len[2];
};

/* *a and *b: two connected sockets, the ends of a connection with the relay between them. */
void relay_open(struct relay *r, int *a, int *b);

/* Closes its two sockets; the copies are there until relay_free. */
void relay_close(struct relay *r);
void relay_free(struct relay *r);

/* Do these octets occur in a direction? */
bool relay_saw(const struct relay *r, int direction, const void *what, size_t len);

#endif
