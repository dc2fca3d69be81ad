/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A message that came before its receive waits for it, if config.hold allows. Its segments are
 * held, and so are all later ones of queue 0, so messages complete in the order in which they were
 * sent. What else arrives is carried on with: a program may post its receive only when its RDMA
 * Read, whose response comes behind the message, is done. RDMA Writes that came before the message
 * are in place when it is delivered (RFC 5040 5.5, RFC 5041 5.3).
 *
 * The stream knows no time: the driver measures how long the oldest message waits, and calls
 * iwarp_stream_wait_over.
 */
#include "stream/stream_hold.h"
#include "stream/stream_msg.h"

bool iwarp_stream_waits(const struct iwarp_stream *s, uint32_t *msn)
{
    struct iwarp_ddp_header h;

    if (!s->hold.first) {
        return false;
    }
    iwarp_ddp_header_get(s->hold.first->segment, &h);
    *msn = h.msn;
    return true;
}

/* [DDP-5.3-07] [RDMAP-5.3-05] */
void iwarp_stream_resume(struct iwarp_stream *s)
{
    struct iwarp_lends lends;
    bool good = true;

    if (!s->hold.first) {
        return;
    }
    lends.n = 0;
    s->ddp.lends = &lends;
    s->hold.blocked = false; /* the one that is looked at is the oldest */
    while (good && s->hold.first && iwarp_rq_current(s->config.rq)) {
        struct iwarp_held *held = iwarp_hold_pop(s);
        good = iwarp_stream_take_held(s, held);
        iwarp_hold_free(s, held);
    }
    s->hold.blocked = s->hold.first != NULL;
    if (!good) {
        iwarp_stream_fail(s);
    }
    iwarp_lends_settle(s->ddp.lends);
    s->ddp.lends = NULL;
}

/* [DDP-7.1-04] [RDMAP-7.1-03] */
void iwarp_stream_wait_over(struct iwarp_stream *s, uint64_t ms)
{
    const struct iwarp_held *held = s->hold.first;
    uint32_t msn;

    if (iwarp_stream_waits(s, &msn)) {
        iwarp_fault_set(&s->fault, IWARP_FAULT_DDP_WAITED, IWARP_SIDE_LOCAL, IWARP_DDP_QN_SEND, msn,
                        ms);
        iwarp_stream_remember_cause(s, held->segment, held->len);
        iwarp_stream_fail(s);
    }
}

void iwarp_stream_hold_rest(struct iwarp_stream *s)
{
    s->hold.room = 2 * s->config.hold;
}
