/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What FPDUs mean to each other: message numbers, requests and responses, STags, Terminate and its
 * cause. Runs on the first pass only, and leaves what it found in the FPDUs.
 */
#include "state.h"

#include "../terminate.h"

/* Requests of a side; RFC 6581 allows 16382, programs use tens. */
enum { MOST_OUTSTANDING = 4096 };

static const enum dissect_header_fault header_faults[] = {
    DISSECT_FAULT_DV,   DISSECT_FAULT_RV,     DISSECT_FAULT_OPCODE,
    DISSECT_FAULT_TAG,  DISSECT_FAULT_QUEUE,  DISSECT_FAULT_LENGTH,
    DISSECT_FAULT_LAST, DISSECT_FAULT_OFFSET, DISSECT_FAULT_RESERVED};
static const enum iwarp_expert header_experts[] = {EI_DV_BAD,   EI_RV_BAD,   EI_OPCODE_BAD,
                                                   EI_TAG_BAD,  EI_QN_BAD,   EI_SIZE_BAD,
                                                   EI_LAST_BAD, EI_MO_NOT_0, EI_RSVD_SET};

static void flag(struct iwarp_track *t, enum iwarp_expert e)
{
    t->fpdu->experts |= EI_BIT(e);
}

static struct iwarp_side *mine(struct iwarp_track *t)
{
    return &t->conn->side[t->fpdu->side];
}

static struct iwarp_side *peers(struct iwarp_track *t)
{
    return &t->conn->side[1 - t->fpdu->side];
}

/* MSN: each message of a queue has the next one. A message's later segments repeat it. */
static void check_msn(struct iwarp_track *t)
{
    const struct dissect_header *h = &t->header;
    struct iwarp_side *s = mine(t);
    const uint32_t qn = h->qn;

    if (qn > 3 || h->have < DISSECT_UNTAGGED_SIZE || t->fpdu->item.late) {
        return;
    }
    if (s->has_msn[qn]) {
        const int32_t ahead = (int32_t)(h->msn - s->msn[qn]);
        if (ahead > 0) {
            flag(t, EI_MSN_GAP);
        } else if (ahead < 0) {
            flag(t, EI_MSN_REPEAT);
            return;
        }
    }
    s->has_msn[qn] = true;
    s->msn[qn] = h->last ? h->msn + 1 : h->msn;
}

static struct iwarp_stag *find_stag(struct iwarp_track *t, unsigned owner, uint32_t stag)
{
    const int64_t key = (int64_t)owner << 32 | stag;
    struct iwarp_stag *s = (struct iwarp_stag *)wmem_map_lookup(t->conn->stags, &key);

    if (!s) {
        int64_t *k = (int64_t *)iwarp_keep(sizeof *k);
        *k = key;
        s = (struct iwarp_stag *)iwarp_keep(sizeof *s);
        s->first_frame = t->fpdu->frame;
        wmem_map_insert(t->conn->stags, k, s);
    }
    return s;
}

static void use_stag(struct iwarp_track *t, unsigned owner, uint32_t stag)
{
    struct iwarp_stag *s;

    if (!iwarp_options.track_stags) {
        return;
    }
    s = find_stag(t, owner, stag);
    t->fpdu->stag_first = s->first_frame;
    if (s->invalid_frame != 0) {
        t->fpdu->stag_invalid = s->invalid_frame;
        flag(t, EI_INVALID_STAG);
    }
}

static void track_stags(struct iwarp_track *t, const struct dissect_read_request *r)
{
    const struct dissect_header *h = &t->header;
    const unsigned peer = 1 - t->fpdu->side;

    if (h->tagged && h->have >= DISSECT_TAGGED_SIZE && h->payload > 0) {
        use_stag(t, peer, h->stag);
    } else if (r && r->length > 0) {
        use_stag(t, peer, r->source_stag);
    } else if (dissect_opcode_invalidates(h->opcode) && h->last && h->have >= 6 &&
               iwarp_options.track_stags) {
        struct iwarp_stag *s = find_stag(t, peer, h->stag);
        t->fpdu->stag_first = s->first_frame;
        s->invalid_frame = t->fpdu->frame;
    }
}

/* Not answered, and not to be searched for ever: the responses are what the capture misses. */
static void forget_oldest(struct iwarp_side *s)
{
    if (s->outstanding > MOST_OUTSTANDING) {
        s->first = s->first->next;
        s->outstanding--;
    }
}

static void add_request(struct iwarp_track *t, struct iwarp_exchange *e)
{
    struct iwarp_side *s = mine(t);
    struct dissect_agreement a;
    uint16_t depth;

    e->request_frame = t->fpdu->frame;
    e->request_time = t->pinfo->abs_ts;
    e->number = t->fpdu->number;
    *s->last = e;
    s->last = &e->next;
    t->fpdu->exchange = e;
    s->outstanding++;
    forget_oldest(s);
    t->fpdu->outstanding = s->outstanding;
    dissect_conn_agreement(&t->conn->walk, &a);
    depth = iwarp_is_initiator(t->conn, t->fpdu->side) ? a.initiator_ord : a.responder_ord;
    if (a.depths_known && depth != DISSECT_NO_DEPTH && depth > 0 && s->outstanding > depth) {
        flag(t, EI_IRD_EXCEEDED);
    }
}

/* Responses come in the order of their requests; those skipped will not come any more. */
static void end_exchange(struct iwarp_track *t, struct iwarp_exchange *e)
{
    struct iwarp_side *s = peers(t);

    e->response_frame = t->fpdu->frame;
    e->response_time = t->pinfo->abs_ts;
    t->fpdu->ends_exchange = true;
    while (s->first) {
        struct iwarp_exchange *gone = s->first;
        s->first = gone->next;
        s->outstanding--;
        if (gone == e) {
            break;
        }
    }
    if (!s->first) {
        s->last = &s->first;
    }
}

/* Its request may be what the capture misses. */
static void flag_unsolicited(struct iwarp_track *t)
{
    if (t->conn->walk.has_initiator && !peers(t)->lossy) {
        flag(t, EI_UNSOLICITED);
    }
}

static void track_read_response(struct iwarp_track *t)
{
    const struct dissect_header *h = &t->header;
    struct iwarp_exchange *e = peers(t)->first;

    /* The oldest whose sink this is; RFC 5040 5.2 leaves no other, but captures have holes. */
    while (e && (e->atomic || e->stag != h->stag || h->to - e->to > e->length)) {
        e = e->next;
    }
    if (!e) {
        flag_unsolicited(t);
        return;
    }
    t->fpdu->exchange = e;
    if (h->to - e->to + h->payload > e->length) {
        flag(t, EI_BEYOND);
    }
    if (h->to - e->to > e->received) {
        flag(t, EI_MO_GAP);
    } else if (h->to - e->to < e->received) {
        flag(t, EI_MO_OVERLAP);
    }
    e->received = (uint32_t)(h->to - e->to) + h->payload;
    if (h->last) {
        end_exchange(t, e);
    }
}

static void track_atomic_response(struct iwarp_track *t)
{
    struct dissect_atomic_response r;
    struct iwarp_exchange *e = peers(t)->first;

    if (!dissect_atomic_response_decode(&r, t->ulpdu + t->header.size, t->have - t->header.size)) {
        return;
    }
    while (e && (!e->atomic || e->id != r.id)) {
        e = e->next;
    }
    if (!e) {
        flag_unsolicited(t);
        return;
    }
    t->fpdu->exchange = e;
    end_exchange(t, e);
}

static void track_request(struct iwarp_track *t)
{
    const size_t left = t->have > t->header.size ? t->have - t->header.size : 0;
    struct iwarp_exchange *e = (struct iwarp_exchange *)iwarp_keep(sizeof *e);

    if (t->header.opcode == DISSECT_READ_REQUEST) {
        struct dissect_read_request r;
        if (!dissect_read_request_decode(&r, t->ulpdu + t->header.size, left)) {
            return;
        }
        e->stag = r.sink_stag;
        e->to = r.sink_to;
        e->length = r.length;
        track_stags(t, &r);
    } else {
        struct dissect_atomic_request r;
        if (!dissect_atomic_request_decode(&r, t->ulpdu + t->header.size, left)) {
            return;
        }
        e->atomic = true;
        e->id = r.id;
    }
    add_request(t, e);
}

static void remember(struct iwarp_track *t)
{
    struct iwarp_side *s = mine(t);
    unsigned i = s->n_recent++ % RECENT_HEADERS;

    if (t->have >= t->header.size) {
        memset(s->recent[i].octets, 0, DISSECT_UNTAGGED_SIZE);
        memcpy(s->recent[i].octets, t->ulpdu, t->header.size);
        s->recent[i].fpdu = t->fpdu;
    }
    if (t->fpdu->item.crc_status == DISSECT_CRC_BAD) {
        s->bad_crc = t->fpdu;
    }
}

/* The newest segment of the peer with the enclosed header; of a CRC error, the newest bad one. */
static struct iwarp_fpdu *find_cause(struct iwarp_track *t)
{
    const uint8_t *p = t->ulpdu + t->header.size;
    const struct iwarp_side *s = peers(t);
    struct dissect_terminate term;

    if (!dissect_terminate_decode(&term, p, t->have - t->header.size)) {
        return NULL;
    }
    if (term.ddp_at == 0 || term.ddp_size < DISSECT_TAGGED_SIZE) {
        return term.layer == 2 && term.code == 2 ? s->bad_crc : NULL;
    }
    for (unsigned back = 1; back <= RECENT_HEADERS && back <= s->n_recent; back++) {
        const unsigned i = (s->n_recent - back) % RECENT_HEADERS;
        if (s->recent[i].fpdu && memcmp(s->recent[i].octets, p + term.ddp_at, term.ddp_size) == 0) {
            return s->recent[i].fpdu;
        }
    }
    return NULL;
}

static void track_terminate(struct iwarp_track *t)
{
    struct dissect_terminate term;
    struct iwarp_fpdu *cause = t->have > t->header.size ? find_cause(t) : NULL;

    flag(t, EI_TERMINATE);
    if (t->have > t->header.size &&
        dissect_terminate_decode(&term, t->ulpdu + t->header.size, t->have - t->header.size) &&
        term.order == DISSECT_ORDER_SIW) {
        flag(t, EI_SIW_ORDER);
    }
    if (cause) {
        t->fpdu->related = cause->frame;
        cause->related = t->fpdu->frame;
    }
    mine(t)->terminate_frame = t->fpdu->frame;
}

/* RFC 6581 9.2: the initiator's first FPDU, empty, of a kind that both frames allow. */
static void check_rtr(struct iwarp_track *t)
{
    struct dissect_agreement a;
    const struct dissect_header *h = &t->header;
    struct dissect_read_request r;
    uint8_t kind = 0;

    dissect_conn_agreement(&t->conn->walk, &a);
    if (!a.complete || a.rtr == 0 || !iwarp_is_initiator(t->conn, t->fpdu->side)) {
        return;
    }
    if (h->opcode == DISSECT_SEND && h->payload == 0) {
        kind = DISSECT_RTR_SEND;
    } else if (h->opcode == DISSECT_WRITE && h->payload == 0) {
        kind = DISSECT_RTR_WRITE;
    } else if (h->opcode == DISSECT_READ_REQUEST && t->have >= h->size &&
               dissect_read_request_decode(&r, t->ulpdu + h->size, t->have - h->size) &&
               r.length == 0) {
        kind = DISSECT_RTR_READ;
    }
    t->fpdu->rtr = kind & a.rtr;
    if (!t->fpdu->rtr) {
        flag(t, EI_RTR_MISSING);
    }
}

static void by_opcode(struct iwarp_track *t)
{
    switch (t->header.opcode) {
    case DISSECT_READ_REQUEST:
    case DISSECT_ATOMIC_REQUEST:
        track_request(t);
        break;
    case DISSECT_READ_RESPONSE:
        if (t->have >= t->header.size) {
            track_read_response(t);
        }
        break;
    case DISSECT_ATOMIC_RESPONSE:
        if (t->have > t->header.size) {
            track_atomic_response(t);
        }
        break;
    case DISSECT_TERMINATE:
        track_terminate(t);
        break;
    default:
        break;
    }
}

static void forget_numbers(struct iwarp_side *s)
{
    for (unsigned i = 0; i < 4; i++) {
        s->has_msn[i] = false;
    }
}

void iwarp_track_fpdu(struct iwarp_track *t)
{
    const struct dissect_item *item = &t->fpdu->item;
    struct iwarp_side *s = mine(t);

    for (size_t i = 0; i < sizeof header_faults / sizeof *header_faults; i++) {
        if (t->header.faults & header_faults[i]) {
            flag(t, header_experts[i]);
        }
    }
    /* What was seen before changes nothing; what has a wrong CRC cannot be believed. */
    if ((item->late && item->resynced) || item->crc_status == DISSECT_CRC_BAD) {
        s->bad_crc = item->crc_status == DISSECT_CRC_BAD ? t->fpdu : s->bad_crc;
        s->has_first = s->lossy = true;
        forget_numbers(s);
        return;
    }
    if (item->resynced) {
        s->lossy = true;
        forget_numbers(s);
    }
    if (!t->header.tagged) {
        check_msn(t);
    }
    if (s->terminate_frame != 0) {
        flag(t, EI_AFTER_TERM);
    }
    if (!s->has_first) {
        s->has_first = true;
        if (!item->resynced) {
            check_rtr(t);
        }
    }
    track_stags(t, NULL);
    by_opcode(t);
    remember(t);
    iwarp_message_add(t);
}
