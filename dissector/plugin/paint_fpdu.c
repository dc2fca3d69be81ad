/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One FPDU in the protocol tree and in the columns, and its payload handed on. Everything that
 * depends on other frames was found before, see track.c.
 */
#include "state.h"

#include "../wire.h"

struct painting {
    tvbuff_t *wire; /* what TCP gave */
    tvbuff_t *body; /* length, ULPDU, padding and CRC, without markers */
    packet_info *pinfo;
    proto_tree *tree;
    proto_item *top;
    const struct iwarp_record *record;
    struct iwarp_fpdu *fpdu;
    struct dissect_header header;
};

/* The ULPDU begins behind the length field. */
#define IN_BODY(offset) (DISSECT_LENGTH_SIZE + (unsigned)(offset))

static tvbuff_t *body_of(tvbuff_t *tvb, packet_info *pinfo, const struct dissect_item *item)
{
    const struct dissect_frame *f = &item->frame;
    const unsigned there = (unsigned)MIN(item->size, tvb_captured_length(tvb) - item->at);
    const unsigned reported = (unsigned)(f->whole - (size_t)f->markers * DISSECT_MARKER_SIZE);
    uint8_t *plain;
    tvbuff_t *body;
    size_t n;

    if (f->markers == 0) {
        return tvb_new_subset_length_caplen(tvb, (int)item->at, (int)MIN(there, reported),
                                            (int)reported);
    }
    plain = (uint8_t *)wmem_alloc(pinfo->pool, there + 1);
    n = dissect_frame_unmark(f, tvb_get_ptr(tvb, (int)item->at, (int)there), there, plain, there);
    body = tvb_new_child_real_data(tvb, plain, (unsigned)n, (int)reported);
    add_new_data_source(pinfo, body, "FPDU without markers");
    return body;
}

static void paint_markers(struct painting *p, proto_tree *tree)
{
    const struct dissect_item *item = &p->fpdu->item;

    for (unsigned i = 0; i < item->frame.markers; i++) {
        const unsigned at = (unsigned)(item->at + dissect_frame_marker(&item->frame, i));
        proto_item *marker = iwarp_put(tree, HF_MARKER, p->wire, at, DISSECT_MARKER_SIZE, ENC_NA);
        proto_tree *t;
        enum dissect_pointer check;
        if (!marker) {
            return;
        }
        t = proto_item_add_subtree(marker, iwarp_ett[ETT_MARKER]);
        iwarp_put(t, HF_MARKER_PTR, p->wire, at + 2, 2, ENC_BIG_ENDIAN);
        check = dissect_frame_check(&item->frame, i,
                                    tvb_get_ptr(p->wire, (int)at, DISSECT_MARKER_SIZE));
        if (iwarp_options.check_markers && check != DISSECT_POINTER_RIGHT) {
            expert_add_info_format(p->pinfo, marker, &iwarp_ei[EI_MARKER_BAD],
                                   check == DISSECT_POINTER_LITTLE
                                       ? "Marker has its octets the wrong way round"
                                       : "Marker does not point to the start of this FPDU, %u "
                                         "octets before (RFC 5044 4.3)",
                                   dissect_frame_pointer(&item->frame, i));
        }
    }
}

static void paint_crc(struct painting *p, proto_tree *tree, unsigned at)
{
    const struct dissect_item *item = &p->fpdu->item;
    const enum dissect_crc_status status =
        iwarp_options.check_crc ? item->crc_status : DISSECT_CRC_UNVERIFIED;
    proto_item *crc = iwarp_put(tree, HF_CRC, p->body, at, 4, ENC_LITTLE_ENDIAN);
    proto_item *i;

    i = iwarp_say_uint(tree, HF_CRC_STATUS, p->body, (uint32_t)status);
    if (status == DISSECT_CRC_BAD) {
        proto_item_append_text(crc, " [wrong]");
        iwarp_tell(p->pinfo, i, EI_BIT(EI_CRC_BAD));
    }
    if (!item->cut && (status == DISSECT_CRC_BAD || status == DISSECT_CRC_GOOD)) {
        i = proto_tree_add_uint(tree, iwarp_hf[HF_CRC_EXPECTED], p->body, (int)at, 4,
                                item->crc_expected);
        proto_item_set_generated(i);
    }
}

static void paint_mpa(struct painting *p)
{
    const struct dissect_frame *f = &p->fpdu->item.frame;
    const unsigned end = IN_BODY(f->ulpdu_length);
    proto_item *top;
    proto_tree *t =
        proto_tree_add_subtree(p->tree, p->body, 0, -1, iwarp_ett[ETT_MPA], &top, "MPA");

    paint_markers(p, t);
    iwarp_put(t, HF_ULPDU_LEN, p->body, 0, DISSECT_LENGTH_SIZE, ENC_BIG_ENDIAN);
    iwarp_say_uint(t, HF_FPDU_LEN, p->body, (uint32_t)f->whole);
    if (f->pad > 0) {
        iwarp_put(t, HF_PAD, p->body, end, f->pad, ENC_NA);
    }
    paint_crc(p, t, end + f->pad);
    if (p->fpdu->item.resynced) {
        proto_item_append_text(top, " (its start was searched)");
    }
}

static void paint_ddp(struct painting *p)
{
    const struct dissect_header *h = &p->header;
    const unsigned at = IN_BODY(0);
    proto_tree *t = proto_tree_add_subtree(p->tree, p->body, (int)at, (int)MIN(h->size, h->have),
                                           iwarp_ett[ETT_DDP], NULL,
                                           h->tagged ? "DDP, tagged" : "DDP, untagged");
    proto_item *i;

    iwarp_put(t, HF_DDP_T, p->body, at, 1, ENC_NA);
    iwarp_put(t, HF_DDP_L, p->body, at, 1, ENC_NA);
    if (h->ddp_reserved != 0) {
        iwarp_put(t, HF_DDP_RSVD, p->body, at, 1, ENC_NA);
    }
    iwarp_put(t, HF_DDP_DV, p->body, at, 1, ENC_NA);
    if (h->tagged) {
        iwarp_put(t, HF_STAG, p->body, at + 2, 4, ENC_BIG_ENDIAN);
        iwarp_put(t, HF_TO, p->body, at + 6, 8, ENC_BIG_ENDIAN);
    } else {
        if (!dissect_opcode_invalidates(h->opcode) && !dissect_opcode_is_send_imm(h->opcode)) {
            iwarp_put(t, HF_DDP_RSVDULP, p->body, at + 2, 4, ENC_BIG_ENDIAN);
        }
        iwarp_put(t, HF_QN, p->body, at + 6, 4, ENC_BIG_ENDIAN);
        iwarp_put(t, HF_MSN, p->body, at + 10, 4, ENC_BIG_ENDIAN);
        iwarp_put(t, HF_MO, p->body, at + 14, 4, ENC_BIG_ENDIAN);
    }
    iwarp_say_uint(t, HF_PAYLOAD_LEN, p->body, h->payload);
    if (p->fpdu->stag_first != 0) {
        iwarp_say_uint(t, HF_STAG_FIRST, p->body, p->fpdu->stag_first);
    }
    if (p->fpdu->stag_invalid != 0) {
        i = iwarp_say_uint(t, HF_STAG_INVALID_IN, p->body, p->fpdu->stag_invalid);
        iwarp_tell(p->pinfo, i, EI_BIT(EI_INVALID_STAG));
    }
}

static void paint_read_request(proto_tree *t, tvbuff_t *body, unsigned at)
{
    iwarp_put(t, HF_READ_SINK_STAG, body, at, 4, ENC_BIG_ENDIAN);
    iwarp_put(t, HF_READ_SINK_TO, body, at + 4, 8, ENC_BIG_ENDIAN);
    iwarp_put(t, HF_READ_LEN, body, at + 12, 4, ENC_BIG_ENDIAN);
    iwarp_put(t, HF_READ_SRC_STAG, body, at + 16, 4, ENC_BIG_ENDIAN);
    iwarp_put(t, HF_READ_SRC_TO, body, at + 20, 8, ENC_BIG_ENDIAN);
}

static void paint_atomic_request(proto_tree *t, tvbuff_t *body, unsigned at)
{
    iwarp_put(t, HF_ATOMIC_OP, body, at + 3, 1, ENC_NA);
    iwarp_put(t, HF_ATOMIC_ID, body, at + 4, 4, ENC_BIG_ENDIAN);
    iwarp_put(t, HF_ATOMIC_STAG, body, at + 8, 4, ENC_BIG_ENDIAN);
    iwarp_put(t, HF_ATOMIC_TO, body, at + 12, 8, ENC_BIG_ENDIAN);
    iwarp_put(t, HF_ATOMIC_DATA, body, at + 20, 8, ENC_BIG_ENDIAN);
    iwarp_put(t, HF_ATOMIC_MASK, body, at + 28, 8, ENC_BIG_ENDIAN);
    iwarp_put(t, HF_ATOMIC_CMP, body, at + 36, 8, ENC_BIG_ENDIAN);
    iwarp_put(t, HF_ATOMIC_CMP_MASK, body, at + 44, 8, ENC_BIG_ENDIAN);
}

static void paint_exchange(struct painting *p, proto_tree *t)
{
    const struct iwarp_fpdu *f = p->fpdu;
    const struct iwarp_exchange *e = f->exchange;
    nstime_t time;
    proto_item *i;

    if (e && f->number == e->number) {
        iwarp_say_uint(t, HF_OUTSTANDING, p->body, f->outstanding);
        if (e->response_frame != 0) {
            iwarp_say_uint(t, HF_RESPONSE_IN, p->body, e->response_frame);
        }
    } else if (e) {
        iwarp_say_uint(t, HF_REQUEST_IN, p->body, e->request_frame);
        if (f->ends_exchange) {
            nstime_delta(&time, &e->response_time, &e->request_time);
            i = proto_tree_add_time(t, iwarp_hf[HF_TIME], p->body, 0, 0, &time);
            proto_item_set_generated(i);
        }
    }
    if (f->opcode != DISSECT_TERMINATE && f->related != 0) {
        iwarp_say_uint(t, HF_TERM_BY, p->body, f->related);
    }
    if (f->rtr) {
        iwarp_say_bool(t, HF_RTR, p->body, true);
    }
}

static void paint_rdmap(struct painting *p)
{
    const struct dissect_header *h = &p->header;
    const unsigned at = IN_BODY(h->size);
    proto_tree *t =
        proto_tree_add_subtree_format(p->tree, p->body, (int)IN_BODY(1), 1, iwarp_ett[ETT_RDMAP],
                                      NULL, "RDMAP, %s", dissect_opcode_name(h->opcode));

    iwarp_put(t, HF_RV, p->body, IN_BODY(1), 1, ENC_NA);
    if (h->rdmap_reserved != 0) {
        iwarp_put(t, HF_RDMAP_RSVD, p->body, IN_BODY(1), 1, ENC_NA);
    }
    iwarp_put(t, HF_OPCODE, p->body, IN_BODY(1), 1, ENC_NA);
    if (!h->tagged && dissect_opcode_invalidates(h->opcode)) {
        iwarp_put(t, HF_INVAL_STAG, p->body, IN_BODY(2), 4, ENC_BIG_ENDIAN);
    }
    if (!h->tagged && dissect_opcode_is_send_imm(h->opcode)) {
        iwarp_put(t, HF_SEND_IMM, p->body, IN_BODY(2), 4, ENC_BIG_ENDIAN);
    }
    switch (h->tagged ? DISSECT_OPCODES : h->opcode) {
    case DISSECT_READ_REQUEST:
        paint_read_request(t, p->body, at);
        break;
    case DISSECT_ATOMIC_REQUEST:
        paint_atomic_request(t, p->body, at);
        break;
    case DISSECT_ATOMIC_RESPONSE:
        iwarp_put(t, HF_ATOMIC_ID, p->body, at, 4, ENC_BIG_ENDIAN);
        iwarp_put(t, HF_ATOMIC_VALUE, p->body, at + 4, 8, ENC_BIG_ENDIAN);
        break;
    case DISSECT_IMMEDIATE:
    case DISSECT_IMMEDIATE_SE:
        iwarp_put(t, HF_IMM, p->body, at, 8, ENC_BIG_ENDIAN);
        break;
    case DISSECT_TERMINATE:
        iwarp_paint_terminate(p->body, at, h->payload, p->pinfo, t, p->fpdu);
        break;
    default:
        break;
    }
    paint_exchange(p, t);
}

/* The message, and the whole of it where it ends. */
static tvbuff_t *paint_message(struct painting *p, tvbuff_t *payload)
{
    const struct iwarp_message *m = p->fpdu->message;
    tvbuff_t *whole = NULL;
    proto_tree *t;

    if (!m) {
        return NULL;
    }
    if (p->fpdu->ends_message && !m->broken && m->last_frame != 0) {
        if (m->segments == 1) {
            whole = payload;
        } else if (m->data) {
            whole = tvb_new_child_real_data(p->wire, m->data, (unsigned)m->total, (int)m->total);
            add_new_data_source(p->pinfo, whole, "Reassembled message");
        }
    }
    if (m->segments == 1 && m->last_frame != 0) {
        return whole;
    }
    t = proto_tree_add_subtree_format(p->tree, p->body, 0, 0, iwarp_ett[ETT_MSG], NULL,
                                      "Message %u, segment %u", m->id, p->fpdu->segment);
    iwarp_say_uint(t, HF_MSG_ID, p->body, m->id);
    iwarp_say_uint(t, HF_MSG_SEGMENT, p->body, p->fpdu->segment);
    iwarp_say_uint(t, HF_MSG_FIRST, p->body, m->first_frame);
    if (m->last_frame != 0 && !m->broken) {
        iwarp_say_uint(t, HF_MSG_SEGMENTS, p->body, m->segments);
        iwarp_say_uint(t, HF_MSG_IN, p->body, m->last_frame);
        iwarp_builtin_message(whole, p->body, t, m);
    }
    if (whole) {
        iwarp_say_uint(t, HF_MSG_LENGTH, p->body, (uint32_t)m->total);
        proto_tree_add_item(t, iwarp_hf[HF_MSG_DATA], whole, 0, -1, ENC_NA);
    }
    return whole;
}

static void describe(struct painting *p, wmem_strbuf_t *s)
{
    const struct dissect_header *h = &p->header;

    wmem_strbuf_append(s, dissect_opcode_name(h->opcode));
    if (h->tagged) {
        wmem_strbuf_append_printf(s, " STag=0x%08x TO=0x%" PRIx64, h->stag, h->to);
    } else {
        wmem_strbuf_append_printf(s, " MSN=%u", h->msn);
        if (h->mo != 0) {
            wmem_strbuf_append_printf(s, " MO=%u", h->mo);
        }
        if (dissect_opcode_invalidates(h->opcode)) {
            wmem_strbuf_append_printf(s, " Invalidate=0x%08x", h->stag);
        } else if (dissect_opcode_is_send_imm(h->opcode)) {
            wmem_strbuf_append_printf(s, " Imm=0x%08x", h->stag);
        }
    }
    if (dissect_opcode_header_size(h->opcode) == 0 && h->opcode != DISSECT_TERMINATE) {
        wmem_strbuf_append_printf(s, " Len=%u%s", h->payload, h->last ? "" : " more");
    }
    if (p->fpdu->item.crc_status == DISSECT_CRC_BAD) {
        wmem_strbuf_append(s, " [CRC wrong]");
    }
}

/* What is in RDMAP's own headers is told; the rest belongs to an upper layer. */
static bool has_own_header(const struct dissect_header *h)
{
    return !h->tagged && (h->opcode == DISSECT_TERMINATE || h->opcode == DISSECT_READ_REQUEST ||
                          (h->opcode >= DISSECT_IMMEDIATE && h->opcode <= DISSECT_ATOMIC_RESPONSE));
}

static void hand_on(struct painting *p, proto_tree *top)
{
    const struct dissect_header *h = &p->header;
    const unsigned there = (unsigned)(h->have > h->size ? h->have - h->size : 0);
    tvbuff_t *payload = tvb_new_subset_length_caplen(p->body, (int)IN_BODY(MIN(h->size, h->have)),
                                                     (int)there, (int)h->payload);
    struct dissect_read_request read;
    struct iwarp_offer offer = {
        .record = p->record, .fpdu = p->fpdu, .header = h, .item = p->top, .payload = payload};
    struct iwarp_tap *tap = wmem_new0(p->pinfo->pool, struct iwarp_tap);

    if (!has_own_header(h)) {
        offer.message = paint_message(p, payload);
    } else if (h->opcode == DISSECT_READ_REQUEST && there >= DISSECT_READ_REQUEST_SIZE) {
        dissect_read_request_decode(&read, tvb_get_ptr(payload, 0, DISSECT_READ_REQUEST_SIZE),
                                    there);
        offer.read = &read;
    }
    tap->conn = p->record->conn;
    tap->fpdu = p->fpdu;
    tap->header = *h;
    tap->initiator = iwarp_is_initiator(tap->conn, p->fpdu->side);
    tap->payload = has_own_header(h) ? NULL : payload;
    tap->message = offer.message;
    tap->has_read = offer.read != NULL;
    if (offer.read) {
        tap->read = read;
    }
    iwarp_tap(p->pinfo, tap);
    if ((offer.message || offer.read) && p->record->conn->ulp != ULP_NONE) {
        /* Between our text and that of the upper layer. */
        col_append_str(p->pinfo->cinfo, COL_INFO, " ");
        col_set_fence(p->pinfo->cinfo, COL_INFO);
    }
    if (!iwarp_ulp_offer(&offer, p->pinfo, top) && there > 0 && !has_own_header(h)) {
        call_data_dissector(payload, p->pinfo, p->tree);
    }
}

/* A wrong CRC and an invalid STag are told beside their fields, if there is a tree for these. */
static uint64_t told_apart(const struct painting *p)
{
    const uint64_t beside = EI_BIT(EI_CRC_BAD) | EI_BIT(EI_INVALID_STAG);

    return p->tree ? p->fpdu->experts & ~beside : p->fpdu->experts;
}

void iwarp_paint_fpdu(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, proto_tree *top,
                      const struct iwarp_record *r, const struct iwarp_piece *piece)
{
    struct painting p = {.wire = tvb, .pinfo = pinfo, .record = r, .fpdu = piece->fpdu};
    const struct dissect_item *item = piece->item;
    const unsigned there = (unsigned)MIN(item->size, tvb_captured_length(tvb) - item->at);
    wmem_strbuf_t *text = wmem_strbuf_new(pinfo->pool, "");
    unsigned have;

    p.body = body_of(tvb, pinfo, item);
    have = tvb_captured_length(p.body);
    have = have > DISSECT_LENGTH_SIZE ? have - DISSECT_LENGTH_SIZE : 0;
    have = MIN(have, item->frame.ulpdu_length);
    p.top =
        proto_tree_add_protocol_format(tree, proto_iwarp, tvb, (int)item->at, (int)there, "iWARP");
    p.tree = proto_item_add_subtree(p.top, iwarp_ett[ETT_IWARP]);
    col_set_str(pinfo->cinfo, COL_PROTOCOL, "iWARP");
    if (tree) {
        iwarp_paint_conn(tvb, pinfo, p.tree, r);
        paint_mpa(&p);
    }
    if (have < 2 ||
        !dissect_header_decode(&p.header, tvb_get_ptr(p.body, DISSECT_LENGTH_SIZE, (int)have), have,
                               item->frame.ulpdu_length, r->conn->walk.way[r->side].revision_0)) {
        iwarp_tell(pinfo, p.top, piece->fpdu->experts);
        return;
    }
    describe(&p, text);
    col_append_sep_str(pinfo->cinfo, COL_INFO, "; ", wmem_strbuf_get_str(text));
    if (iwarp_options.summary_in_tree) {
        proto_item_append_text(p.top, ", %s", wmem_strbuf_get_str(text));
    }
    col_set_fence(pinfo->cinfo, COL_INFO);
    if (tree) {
        paint_ddp(&p);
    }
    paint_rdmap(&p);
    iwarp_tell(pinfo, p.top, told_apart(&p));
    if (tree && iwarp_options.builtin_fields) {
        iwarp_builtin_fpdu(tvb, p.body, p.tree, piece->fpdu, &p.header);
    }
    hand_on(&p, top);
}
