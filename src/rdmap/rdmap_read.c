/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rings of RDMA Reads and Atomics in flight come when they are needed and grow up to IRD and
 * ORD: most connections use few slots at a time, and one that is idle should not hold memory for
 * all of them. RFC 5040 6.1 bounds the depths.
 */
#include "rdmap/rdmap_read.h"
#include "base/memory.h"

#include <string.h>

/* Slots that a ring has once the first one is asked for. */
#define FIRST_SLOTS 1 /* most connections see no more than the ready-to-receive message */

/* [RDMAP-8.1.2-07] [SEC-6.4.3.3-01] */
void iwarp_rdmap_reads_init(struct iwarp_rdmap_reads *r, uint32_t ird, uint32_t ord)
{
    *r = (struct iwarp_rdmap_reads){.ird = ird, .ord = ord};
}

void iwarp_rdmap_reads_fini(struct iwarp_rdmap_reads *r)
{
    free(r->in);
    free(r->out);
    r->in = NULL;
    r->out = NULL;
}

/* A full ring from `head` on, copied into a larger one from 0 on. NULL: no memory. */
static void *larger(const void *ring, uint32_t head, uint32_t slots, uint32_t more, size_t size)
{
    uint8_t *to = iwarp_calloc(more, size);
    const uint8_t *from = ring;

    if (to && slots) {
        memcpy(to, from + head * size, (slots - head) * size);
        memcpy(to + (slots - head) * size, from, head * size);
    }
    return to;
}

static uint32_t next_size(uint32_t slots, uint32_t depth)
{
    uint32_t more = slots ? 2 * slots : FIRST_SLOTS;

    return more > depth ? depth : more;
}

bool iwarp_rdmap_in_grow(struct iwarp_rdmap_reads *r)
{
    uint32_t more = next_size(r->in_slots, r->ird);
    struct iwarp_read_in *in = larger(r->in, r->in_head, r->in_slots, more, sizeof *in);

    if (in) {
        free(r->in);
        r->in = in;
        r->in_head = 0;
        r->in_slots = more;
    }
    return in != NULL;
}

bool iwarp_rdmap_out_grow(struct iwarp_rdmap_reads *r)
{
    uint32_t more = next_size(r->out_slots, r->ord);
    struct iwarp_read_out *out = larger(r->out, r->out_head, r->out_slots, more, sizeof *out);

    if (out) {
        free(r->out);
        r->out = out;
        r->out_head = 0;
        r->out_slots = more;
    }
    return out != NULL;
}
