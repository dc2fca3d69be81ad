/* SPDX-License-Identifier: BSD-2-Clause */
/* The shared receive queue of a process. Each of its buffers is posted, or in a completion. */
#ifndef TESTS_SOAK_POOL_H
#define TESTS_SOAK_POOL_H

#include <iwarp/iwarp.h>

#define POOL_BUFFERS 448 /* more than all lanes can take at a time: 32 times 13 */

struct pool {
    struct iwarp_pd *pd;
    struct iwarp_srq *srq;
    struct iwarp_mr *mr;
    uint8_t *octets;
};

/* What cannot be made ends the process. */
void pool_open(struct pool *p, struct iwarp_device *device);
void pool_close(struct pool *p);

uint8_t *pool_buffer(const struct pool *p, unsigned i);
void pool_post(struct pool *p, unsigned i);

/* Ends the process if status is not OK. */
void pool_must(enum iwarp_status status, const char *what);

#endif
