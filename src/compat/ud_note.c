/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Notes about datagrams on their way to the program: who sent them, and their Immediate Data. The
 * Send from the inner queue pair to the outer one has the index of a note as its own Immediate
 * Data, so whichever thread polls the completion finds the right one. A note is free again then.
 * There are as many as receives can be posted, and some more; without one the datagram is dropped.
 */
#include "base/process.h"
#include "compat/ud.h"

#include <arpa/inet.h>

static _Atomic bool any; /* a queue pair has notes, or had: others need not look */

void ud_notes_clear(struct ud *ud)
{
    atomic_store_explicit(&any, true, memory_order_relaxed);
    for (uint32_t i = 0; i < ud->note_count; i++) {
        ud->notes[i].next = i + 1;
    }
    ud->note_free = 0;
}

struct ud_note *ud_note_take(struct ud *ud, uint32_t *index)
{
    if (ud->note_free >= ud->note_count) {
        return NULL;
    }
    *index = ud->note_free;
    ud->note_free = ud->notes[*index].next;
    return &ud->notes[*index];
}

void ud_note_give_back(struct ud *ud, uint32_t index)
{
    ud->notes[index].next = ud->note_free;
    ud->note_free = index;
}

/* The thread that destroys a queue pair may have polled its completion just before. */
void iwarp_ud_complete(uint32_t number, uint64_t index, struct ibv_wc *wc)
{
    IWARP_UNCANCELLED;

    if (!atomic_load_explicit(&any, memory_order_relaxed)) {
        return;
    }
    pthread_mutex_lock(&num_lock);
    struct num *n = num_port_find(number);
    struct ud *ud = n ? n->qp->ud : NULL;
    if (ud && index < ud->note_count) {
        const struct ud_note *note = &ud->notes[index];
        wc->src_qp = note->from;
        wc->sl = note->packet_type;
        wc->imm_data = htonl(note->imm);
        wc->wc_flags = IBV_WC_GRH | (note->has_imm ? IBV_WC_WITH_IMM : 0u);
        ud_note_give_back(ud, (uint32_t)index);
    }
    pthread_mutex_unlock(&num_lock);
}
