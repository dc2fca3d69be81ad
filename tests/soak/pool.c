/* SPDX-License-Identifier: BSD-2-Clause */
#include "pool.h"
#include "script.h"
#include "side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define POOL_OCTETS ((size_t)POOL_BUFFERS * SCRIPT_SLOT)

void pool_must(enum iwarp_status status, const char *what)
{
    if (status != IWARP_OK) {
        fprintf(stderr, "soak: %s: %s\n", what, iwarp_last_error());
        exit(2);
    }
}

uint8_t *pool_buffer(const struct pool *p, unsigned i)
{
    return p->octets + (size_t)i * SCRIPT_SLOT;
}

void pool_post(struct pool *p, unsigned i)
{
    const struct iwarp_sge sge = {pool_buffer(p, i), SCRIPT_SLOT, iwarp_mr_stag(p->mr)};
    const struct iwarp_recv_wr wr = {.wr_id = REQUEST_RECEIVE | i, .sg_list = &sge, .num_sge = 1};

    pool_must(iwarp_srq_post_recv(p->srq, &wr, NULL), "post to the shared receive queue");
}

void pool_open(struct pool *p, struct iwarp_device *device)
{
    struct iwarp_srq_options o;

    iwarp_srq_options_init(&o);
    o.max_wr = POOL_BUFFERS;
    p->octets = mmap(NULL, POOL_OCTETS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p->octets == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
    memset(p->octets, 1, POOL_OCTETS); /* so that memory in use does not grow with its use */
    pool_must(iwarp_pd_create(device, &p->pd), "protection domain");
    pool_must(iwarp_mr_register(p->pd, p->octets, POOL_OCTETS, IWARP_ACCESS_LOCAL_WRITE, &p->mr),
              "register");
    pool_must(iwarp_srq_create(p->pd, &o, &p->srq), "shared receive queue");
    for (unsigned i = 0; i < POOL_BUFFERS; i++) {
        pool_post(p, i);
    }
}

void pool_close(struct pool *p)
{
    struct iwarp_srq_info info = {.size = sizeof info};

    pool_must(iwarp_srq_query(p->srq, &info), "query the shared receive queue");
    if (info.posted != POOL_BUFFERS || info.in_use != POOL_BUFFERS) {
        fprintf(stderr, "soak: %u of %u shared receives are left\n", info.posted, POOL_BUFFERS);
        exit(3);
    }
    pool_must(iwarp_srq_destroy(p->srq), "destroy the shared receive queue");
    pool_must(iwarp_mr_deregister(p->mr), "deregister");
    pool_must(iwarp_pd_destroy(p->pd), "destroy a protection domain");
    munmap(p->octets, POOL_OCTETS);
}
