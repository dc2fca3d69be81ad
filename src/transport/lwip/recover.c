/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Segments that were lost, sent again before a time-out.  lwIP sends one segment again when three
 * acknowledgements say the same (TF_INFR), and takes the next new acknowledgement for the end of
 * that; all else waits for its timer, which is coarse.  Added to it here:
 *
 *   what is seen                                      what is done
 *   ------------------------------------------------  ------------------------------------------
 *   a new acknowledgement, behind which there is      the segment there is lost, too: send it now
 *   still something of before the loss was found      (RFC 6582 3.2)
 *   the same acknowledgement once or twice, and       send a new segment each time, so that a
 *   there is more to send                             third one can come (RFC 3042)
 *   the same, fewer than four segments in flight,     as if it had come three times (RFC 5827)
 *   and nothing more to send
 *   nothing, for two ticks and two round trips        the first segment once more, as a question
 *                                                     (like RFC 8985 7, but for the first one)
 *
 * After a time-out of lwIP's (TF_RTO), which sends everything again, nothing is done.
 */
#include "transport/lwip/core.h"

#include <lwip/priv/tcp_priv.h>

#define DUPLICATES                                                                                 \
    3 /* that make lwIP send again; with fewer segments in flight they cannot come                 \
       */

/* So many, or DUPLICATES + 1. */
static unsigned in_flight(const struct tcp_pcb *pcb)
{
    unsigned n = 0;

    for (const struct tcp_seg *seg = pcb->unacked; seg && n <= DUPLICATES; seg = seg->next) {
        n++;
    }
    return n;
}

/* The congestion window counts what was acknowledged twice as arrived, and is not raised by it. */
static void send_beyond_window(struct tcp_pcb *pcb)
{
    tcpwnd_size_t cwnd = pcb->cwnd;

    pcb->cwnd = (tcpwnd_size_t)(cwnd + pcb->dupacks * pcb->mss);
    if (pcb->cwnd > cwnd) {
        tcp_output(pcb);
    }
    pcb->cwnd = cwnd;
}

static void on_duplicate(struct tcp_pcb *pcb)
{
    unsigned n = in_flight(pcb);

    if (pcb->unsent) {
        send_beyond_window(pcb);
    } else if (n > 1 && n <= DUPLICATES && pcb->dupacks + 1u >= n) {
        tcp_rexmit_fast(pcb);
        tcp_output(pcb);
    }
}

/* More of what was in flight when the loss was found has not arrived. */
static void on_partial(struct tcp_pcb *pcb)
{
    if (tcp_rexmit(pcb) == ERR_OK) {
        tcp_set_flags(pcb, TF_INFR);
        pcb->dupacks = DUPLICATES;
        tcp_output(pcb);
    }
}

void iwarp_lw_recover(struct iwarp_lw_endpoint *e)
{
    struct tcp_pcb *pcb = e->pcb;

    if (pcb->state < ESTABLISHED) {
        return;
    }
    bool news = pcb->lastack != e->loss.acked;
    e->loss.acked = pcb->lastack;
    if (pcb->flags & TF_RTO) {
        e->loss.recovering = false;
    } else if (news && e->loss.recovering) {
        e->loss.recovering = pcb->unacked && TCP_SEQ_LT(pcb->lastack, e->loss.end);
        if (e->loss.recovering) {
            on_partial(pcb);
        }
    } else if (!news && pcb->dupacks != e->loss.duplicates && pcb->dupacks > 0 &&
               !(pcb->flags & TF_INFR)) {
        on_duplicate(pcb);
    }
    e->loss.duplicates = pcb->dupacks;
    if (!e->loss.recovering && (pcb->flags & TF_INFR)) {
        e->loss.recovering = true;
        e->loss.end = pcb->snd_nxt;
    }
}

/* tcp_output follows.  The window is halved only if acknowledgements said that something is lost.
 */
void iwarp_lw_ask(struct iwarp_lw_endpoint *e, unsigned silent_ms)
{
    struct tcp_pcb *pcb = e->pcb;
    unsigned round_trip_ms = (unsigned)(pcb->sa > 0 ? pcb->sa >> 3 : 0) * TCP_SLOW_INTERVAL;
    bool asked = e->loss.asked && e->loss.asked_at == pcb->lastack;

    if (!pcb->unacked || asked || (pcb->flags & TF_RTO) || pcb->state < ESTABLISHED ||
        silent_ms < 2 * round_trip_ms) {
        return;
    }
    e->loss.asked = true;
    e->loss.asked_at = pcb->lastack;
    if (pcb->dupacks > 0 && !(pcb->flags & TF_INFR)) {
        tcp_rexmit_fast(pcb);
        e->loss.recovering = true;
        e->loss.end = pcb->snd_nxt;
    } else {
        tcp_rexmit(pcb);
    }
}
