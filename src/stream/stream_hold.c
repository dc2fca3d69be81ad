/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The list of held segments, see stream_hold.h. Each is an allocation of its own, charged to the
 * device's budget with its bookkeeping, so that a peer that sends many empty messages is bounded,
 * too.
 */
#include "stream/stream_hold.h"

#include <string.h>

static size_t cost(uint32_t len)
{
    return sizeof(struct iwarp_held) + len;
}

bool iwarp_hold_push(struct iwarp_stream *s, const uint8_t *p, uint32_t len, uint32_t behind)
{
    struct iwarp_hold *hold = &s->hold;
    struct iwarp_budget *budget = s->config.budget;
    bool over = false;

    if (atomic_load_explicit(&budget->used, memory_order_relaxed) > budget->limit / 2) {
        return false;
    }
    struct iwarp_held *held = iwarp_budget_alloc(budget, cost(len), &over);
    if (!held) {
        return false;
    }
    held->next = NULL;
    held->len = len;
    held->behind = behind;
    memcpy(held->segment, p, len);
    *(hold->first ? &hold->last->next : &hold->first) = held;
    hold->last = held;
    hold->octets += cost(len);
    hold->blocked = true;
    return true;
}

struct iwarp_held *iwarp_hold_pop(struct iwarp_stream *s)
{
    struct iwarp_held *held = s->hold.first;

    s->hold.first = held->next;
    s->hold.octets -= cost(held->len);
    return held;
}

void iwarp_hold_free(struct iwarp_stream *s, struct iwarp_held *held)
{
    iwarp_budget_free(s->config.budget, held, cost(held->len));
}

void iwarp_hold_clear(struct iwarp_stream *s)
{
    while (s->hold.first) {
        iwarp_hold_free(s, iwarp_hold_pop(s));
    }
}
