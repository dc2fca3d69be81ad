/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Messages out of segments: Sends by MSN, placed by MO, so that their order does not matter;
 * tagged ones by STag and TO, in order. Whole ones of one segment need no copy. Each is bounded by
 * a preference. RFC 5041 5.2.
 */
#include "state.h"

/* Octets of all messages that are not complete have a bound: so many of the longest. */
enum { LONGEST_HELD = 16 };

static uint32_t messages;
static size_t held; /* room of those in the list that are not complete */
static struct iwarp_message *oldest, **newest = &oldest;

void iwarp_message_reset(void)
{
    messages = 0;
    held = 0;
    oldest = NULL;
    newest = &oldest;
}

static struct iwarp_message *new_message(const struct iwarp_track *t)
{
    struct iwarp_message *m = (struct iwarp_message *)iwarp_keep(sizeof *m);

    m->id = ++messages;
    m->first_frame = t->fpdu->frame;
    m->opcode = t->header.opcode;
    m->stag = t->header.stag;
    m->msn = t->header.msn;
    m->start = t->header.to;
    return m;
}

static bool is_complete(const struct iwarp_message *m)
{
    return m->last_frame != 0;
}

static void drop_data(struct iwarp_message *m)
{
    if (m->data) {
        held -= is_complete(m) ? 0 : m->room;
        wmem_free(wmem_file_scope(), m->data);
        m->data = NULL;
        m->room = 0;
    }
}

static void complete(struct iwarp_message *m, uint32_t frame)
{
    held -= m->room;
    m->last_frame = frame;
    m->broken = m->broken || m->covered != m->total;
}

/* A segment of one octet may claim to be the end of the longest message. */
static void give_up_oldest(const struct iwarp_message *but)
{
    while (held > (size_t)iwarp_options.max_reassembly * 1024 * LONGEST_HELD && oldest != but) {
        struct iwarp_message *m = oldest;
        oldest = m->next;
        if (!is_complete(m)) {
            m->broken = true;
            drop_data(m);
        }
    }
}

static void grow(struct iwarp_message *m, uint64_t end)
{
    size_t room = m->room ? m->room : 2048;

    while (room < end) {
        room *= 2;
    }
    if (!m->data) {
        *newest = m;
        newest = &m->next;
    }
    held += room - m->room;
    m->data = (uint8_t *)wmem_realloc(wmem_file_scope(), m->data, room);
    m->room = room;
    give_up_oldest(m);
}

static void copy(struct iwarp_message *m, uint64_t at, const uint8_t *p, size_t n)
{
    const uint64_t end = at + n;

    if (m->broken || end > (uint64_t)iwarp_options.max_reassembly * 1024) {
        m->broken = true;
        return;
    }
    if (end > m->room) {
        grow(m, end);
    }
    if (n > 0) {
        memcpy(m->data + at, p, n);
    }
}

static void add_segment(struct iwarp_track *t, struct iwarp_message *m, uint64_t at, bool keep)
{
    const struct dissect_header *h = &t->header;
    const size_t n = t->have > h->size ? t->have - h->size : 0;
    const bool alone = h->last && at == 0;

    t->fpdu->message = m;
    t->fpdu->segment = ++m->segments;
    if (h->last) {
        m->has_total = true;
        m->total = at + h->payload;
    }
    m->covered += h->payload;
    m->broken = m->broken || n < h->payload; /* not all of it was captured */
    if (keep && !alone) {
        copy(m, at, t->ulpdu + h->size, n);
    }
    if (m->has_total && m->covered >= m->total) {
        complete(m, t->fpdu->frame);
        t->fpdu->ends_message = true;
    }
    if (m->broken || !keep) {
        drop_data(m);
    }
}

static void add_send(struct iwarp_track *t)
{
    wmem_map_t *open = t->conn->side[t->fpdu->side].sends;
    const void *key = GUINT_TO_POINTER(t->header.msn);
    struct iwarp_message *m = (struct iwarp_message *)wmem_map_lookup(open, key);

    if (!m) {
        m = new_message(t);
        if (!t->header.last || t->header.mo != 0) {
            wmem_map_insert(open, key, m);
        }
    } else if (!t->fpdu->item.late && t->header.mo != m->covered) {
        t->fpdu->experts |= EI_BIT(t->header.mo > m->covered ? EI_MO_GAP : EI_MO_OVERLAP);
    }
    add_segment(t, m, t->header.mo, iwarp_options.reassemble);
    if (t->fpdu->ends_message) {
        wmem_map_remove(open, key);
    }
}

/* The tagged message that is being sent; a gap in its offsets ends it without being whole. */
static void add_tagged(struct iwarp_track *t, struct iwarp_message **open)
{
    struct iwarp_message *m = *open;

    if (t->fpdu->item.late) {
        return;
    }
    if (m && (t->header.stag != m->stag || t->header.to != m->start + m->covered)) {
        if (t->header.opcode == DISSECT_WRITE && t->header.stag == m->stag &&
            !t->fpdu->item.resynced) {
            t->fpdu->experts |=
                EI_BIT(t->header.to > m->start + m->covered ? EI_MO_GAP : EI_MO_OVERLAP);
        }
        drop_data(m);
        m = NULL;
    }
    if (!m) {
        m = new_message(t);
        /* What begins behind a hole in the capture may not be the beginning. */
        m->broken = t->fpdu->item.resynced;
    }
    add_segment(t, m, t->header.to - m->start, iwarp_options.reassemble_tagged);
    *open = t->header.last ? NULL : m;
}

void iwarp_message_add(struct iwarp_track *t)
{
    struct iwarp_side *s = &t->conn->side[t->fpdu->side];

    if (t->have < t->header.size || t->header.faults & (DISSECT_FAULT_TAG | DISSECT_FAULT_QUEUE)) {
        return;
    }
    if (t->header.opcode == DISSECT_WRITE) {
        add_tagged(t, &s->write);
    } else if (t->header.opcode == DISSECT_READ_RESPONSE) {
        add_tagged(t, &s->response);
    } else if (dissect_opcode_is_send(t->header.opcode)) {
        add_send(t);
    }
}
