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
 *
 * And what it insists on, though a peer can have it otherwise: it ends the process when
 *
 *   a segment out of order ends beyond the window, and what was missing comes
 *   all is acknowledged while it asks whether the window is open: a question carries an octet,
 *   which may have been the last one
 */
#include "transport/lwip/core.h"

#include <lwip/priv/tcp_priv.h>
#include <string.h>

/* Does it end behind the window?  lwIP cuts only what comes behind all that waits. */
static bool is_beyond(const struct tcp_pcb *pcb, const struct tcp_seg *seg)
{
    return TCP_SEQ_GT(seg->tcphdr->seqno + TCP_TCPLEN(seg), pcb->rcv_nxt + pcb->rcv_wnd);
}

/*
 * The first segment too many, or beyond the window, is forgotten with all behind it; the peer sends
 * them again. With our options lwIP counts them itself (own/lwipopts.h).
 */
static void trim_out_of_order(struct tcp_pcb *pcb)
{
    struct tcp_seg **at = &pcb->ooseq;

    for (unsigned n = 0; *at && n < IWARP_LW_OUT_OF_ORDER && !is_beyond(pcb, *at); n++) {
        at = &(*at)->next;
    }
    if (*at) {
        tcp_segs_free(*at);
        *at = NULL;
#if LWIP_TCP_SACK_OUT
        memset(pcb->rcv_sacks, 0, sizeof pcb->rcv_sacks); /* they may name what was forgotten */
#endif
    }
}

void iwarp_lw_trim(struct tcp_pcb *pcb)
{
    trim_out_of_order(pcb);
    if (!pcb->unsent) {
        pcb->persist_backoff = 0;
    }
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
