/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What lwIP keeps for peers and has no bound for, since its memory is malloc's:
 *
 *   segments out of order    a peer may send each second octet of a window, and each is a packet
 *                            buffer of some 140 octets, in a list that is walked for the next one
 *   connections in TIME_WAIT for two minutes each, though nobody has accepted them
 *   orphans                  connections that this end has closed, while the peer does not
 *                            acknowledge its last octets, or sends no FIN
 *
 * There is no other limit to the last two, since the device's connections are gone by then.
 */
#include "transport/lwip/core.h"

#include <lwip/priv/tcp_priv.h>

/* With our options lwIP does it itself, and its SACKs know of it (own/lwipopts.h). */
void iwarp_lw_trim(struct tcp_pcb *pcb)
{
#if TCP_QUEUE_OOSEQ && !LWIP_TCP_SACK_OUT
    struct tcp_seg *seg = pcb->ooseq;

    for (unsigned n = 1; seg && n < IWARP_LW_OUT_OF_ORDER; n++) {
        seg = seg->next;
    }
    if (seg && seg->next) { /* the peer sends them again */
        tcp_segs_free(seg->next);
        seg->next = NULL;
    }
#else
    (void)pcb;
#endif
}

static bool is_orphan(const struct tcp_pcb *pcb)
{
    return pcb->state >= FIN_WAIT_1 && !pcb->callback_arg;
}

/* The last one of a list: lwIP puts new ones, and those that it has heard of, in front. */
static void shorten(struct tcp_pcb *list)
{
    struct tcp_pcb *last = NULL;
    unsigned count = 0;

    for (struct tcp_pcb *pcb = list; pcb; pcb = pcb->next) {
        if (is_orphan(pcb)) {
            last = pcb;
            count++;
        }
    }
    if (count >= IWARP_LW_LEFT_OVER) {
        tcp_abort(last); /* in TIME_WAIT without a word, else by a reset */
    }
}

void iwarp_lw_forget_oldest(void)
{
    shorten(tcp_tw_pcbs);
    shorten(tcp_active_pcbs);
}
