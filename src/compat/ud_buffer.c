/* SPDX-License-Identifier: BSD-2-Clause */
/* Buffers wait for datagrams: outward ones at the inner queue pair, inward ones at the ways. */
#include "compat/ud.h"

struct iwarp_sge ud_buffer_piece(const struct ud *ud, struct ud_buffer *b, uint32_t len)
{
    return (struct iwarp_sge){.addr = b->octets, .len = len, .lkey = iwarp_mr_stag(ud->mr)};
}

/* So many inward ones are in use, and the ways that brought them have gone. */
static bool are_too_many(const struct ud *ud)
{
    return UD_WAYS - ud->spares > ud->inward;
}

void ud_buffer_lend(struct ud *ud, struct ud_buffer *b)
{
    if (b->inward && are_too_many(ud)) {
        ud->spare[ud->spares++] = (uint16_t)(b - ud->buffer);
        return;
    }
    const struct iwarp_sge sge = ud_buffer_piece(ud, b, sizeof b->octets);
    const struct iwarp_recv_wr wr = {
        .wr_id = (uint64_t)(uintptr_t)b, .sg_list = &sge, .num_sge = 1};

    b->way = NULL;
    (void)(b->inward ? iwarp_srq_post_recv(ud->srq, &wr, NULL)
                     : iwarp_post_recv(ud->inner, &wr, NULL));
}

void ud_buffer_bring(struct ud *ud)
{
    if (ud->spares > 0) { /* else those of ways that have gone are not back yet */
        struct ud_buffer *b = &ud->buffer[ud->spare[--ud->spares]];
        b->inward = true;
        ud_buffer_lend(ud, b);
    }
}

void ud_buffers_lend(struct ud *ud)
{
    for (ud->spares = 0; ud->spares < UD_WAYS; ud->spares++) {
        ud->spare[ud->spares] = (uint16_t)(UD_BUFFERS_MOST - 1 - ud->spares);
    }
    for (unsigned i = 0; i < 2 * UD_BUFFERS; i++) {
        ud->buffer[i].inward = i >= UD_BUFFERS;
        ud_buffer_lend(ud, &ud->buffer[i]);
    }
}
