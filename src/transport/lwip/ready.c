/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is to be reported of a connection of lwIP, and what was received and is read or given back.
 * Core lock held.
 */
#include "transport/lwip/core.h"

#include <lwip/priv/tcp_priv.h>

#define WRITE_LEAST (2 * TCP_MSS) /* room from which on writing is worth a wake-up */

/* Up to where nothing is referred to: all that is acknowledged, and what was copied before it. */
uint64_t iwarp_lw_released_to(const struct iwarp_lw_endpoint *e)
{
    if (!iwarp_lw_is_referring(e)) {
        return e->written;
    }
    return e->sent_acked > e->ref_from ? e->sent_acked : e->ref_from;
}

bool iwarp_lw_release_due(const struct iwarp_lw_endpoint *e)
{
    return iwarp_lw_released_to(e) > e->reported;
}

bool iwarp_lw_has_end(const struct iwarp_lw_endpoint *e)
{
    return e->fin || e->error || e->gone || !e->pcb;
}

bool iwarp_lw_is_readable(const struct iwarp_lw_endpoint *e)
{
    bool end = iwarp_lw_has_end(e);

    return (e->want_read && (e->octets > e->held || end)) ||
           (e->end_octets > 0 && (e->octets >= e->end_octets || end));
}

/* A broken connection is writable, as is a broken socket: the next call returns the error. */
bool iwarp_lw_is_writable(const struct iwarp_lw_endpoint *e)
{
    return e->want_write &&
           (!e->pcb || (e->connected && e->pcb->snd_buf >= WRITE_LEAST &&
                        tcp_sndqueuelen(e->pcb) < TCP_SNDQUEUELOWAT && iwarp_lw_has_room(e->pcb)));
}

void iwarp_lw_note_if_ready(struct iwarp_lw_endpoint *e)
{
    if (!e->away &&
        (iwarp_lw_is_readable(e) || iwarp_lw_is_writable(e) || iwarp_lw_release_due(e))) {
        iwarp_lw_note(&e->note);
    }
}

/* What was read opens the window again.  The count is of 16 bits. */
void iwarp_lw_recved(struct iwarp_lw_endpoint *e, size_t octets)
{
    while (e->pcb && octets > 0) {
        u16_t n = octets < UINT16_MAX ? (u16_t)octets : UINT16_MAX;
        tcp_recved(e->pcb, n);
        octets -= n;
    }
}

void iwarp_lw_consume(struct iwarp_lw_endpoint *e, size_t octets)
{
    struct pbuf *p = e->first;

    e->taken += octets;
    e->octets -= octets;
    if (e->taken == p->len) {
        e->first = p->next;
        e->last = e->first ? e->last : NULL;
        e->spare = e->first ? e->spare : 0;
        e->taken = 0;
        p->next = NULL;
        pbuf_free(p);
    }
}
