/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Between TCP and the walk: connections, both passes, what is waited for. The first pass walks,
 * tracks and keeps a record; every pass paints from the record.
 */
#include "state.h"

#include <epan/dissectors/packet-tcp.h>

static uint32_t connections, fpdus;

static void reset(void)
{
    connections = fpdus = 0;
    iwarp_keep_reset();
    iwarp_message_reset();
}

void iwarp_stream_register(void)
{
    register_init_routine(reset);
}

bool iwarp_is_initiator(const struct iwarp_conn *c, unsigned side)
{
    return c->walk.has_initiator && c->walk.initiator == side;
}

unsigned iwarp_responder(const struct iwarp_conn *c)
{
    if (c->walk.has_initiator) {
        return 1 - c->walk.initiator;
    }
    return c->port[0] < c->port[1] ? 0 : 1;
}

static struct iwarp_conn *new_conn(packet_info *pinfo)
{
    struct iwarp_conn *c = wmem_new0(wmem_file_scope(), struct iwarp_conn);

    copy_address_wmem(wmem_file_scope(), &c->addr[0], &pinfo->src);
    copy_address_wmem(wmem_file_scope(), &c->addr[1], &pinfo->dst);
    c->port[0] = pinfo->srcport;
    c->port[1] = pinfo->destport;
    c->setup_frame = pinfo->num;
    c->late_records = wmem_map_new(wmem_file_scope(), g_direct_hash, g_direct_equal);
    c->stags = wmem_map_new(wmem_file_scope(), g_int64_hash, g_int64_equal);
    for (unsigned i = 0; i < 2; i++) {
        c->side[i].last = &c->side[i].first;
        c->side[i].sends = wmem_map_new(wmem_file_scope(), g_direct_hash, g_direct_equal);
    }
    return c;
}

/* By address and port, so that equal ports on both ends do no harm. */
unsigned iwarp_side_of(const struct iwarp_conn *c, packet_info *pinfo)
{
    return c->port[0] == pinfo->srcport && addresses_equal(&c->addr[0], &pinfo->src) ? 0 : 1;
}

static void note_start(struct iwarp_conn *c, packet_info *pinfo, struct iwarp_piece *piece,
                       const uint8_t *p, size_t n, unsigned side)
{
    struct iwarp_start *start = (struct iwarp_start *)iwarp_keep(sizeof *start);
    struct dissect_setup *s = &start->setup;

    piece->start = start;
    if (!dissect_setup_decode(s, p, n)) {
        start->experts = EI_BIT(EI_CUT);
        return;
    }
    c->start_frame[s->kind == DISSECT_REPLY] = pinfo->num;
    start->experts |= s->revision > 2 && s->revision != 129 ? EI_BIT(EI_REV_BAD) : 0;
    /* siw's own hint is known not to be harmful, and not worth a note. */
    start->experts |= (s->reserved & ~8) != 0 ? EI_BIT(EI_RESERVED_SET) : 0;
    start->experts |= s->private_length > DISSECT_LARGEST_PRIVATE ? EI_BIT(EI_PRIVATE_LONG) : 0;
    start->experts |= s->enhanced_flag && s->private_length < 4 ? EI_BIT(EI_ENHANCED_SHORT) : 0;
    start->experts |= s->kind == DISSECT_REPLY && s->rejected ? EI_BIT(EI_REJECTED) : 0;
    start->experts |= piece->item->cut ? EI_BIT(EI_CUT) : 0;
    if (n > s->size) {
        size_t from = s->size + (s->enhanced ? 4u : 0u), left;
        left = n > from ? n - from : 0;
        left = left < piece->item->size - from ? left : piece->item->size - from;
        left = left < sizeof c->private_data[side] ? left : sizeof c->private_data[side];
        memcpy(c->private_data[side], p + from, left);
        c->private_size[side] = (unsigned)left;
    }
}

static void note_fpdu(struct iwarp_conn *c, packet_info *pinfo, struct iwarp_piece *piece,
                      const uint8_t *p, size_t n, unsigned side)
{
    struct iwarp_fpdu *f = (struct iwarp_fpdu *)iwarp_keep(sizeof *f);
    struct iwarp_track t = {.pinfo = pinfo, .conn = c, .fpdu = f};
    uint8_t *plain = NULL;

    piece->fpdu = f;
    f->item = *piece->item;
    piece->item = &f->item;
    f->number = ++fpdus;
    f->frame = pinfo->num;
    f->side = side;
    n = n < f->item.size ? n : f->item.size;
    if (f->item.frame.markers > 0) {
        plain = (uint8_t *)wmem_alloc(pinfo->pool, n + 1);
        n = dissect_frame_unmark(&f->item.frame, p, n, plain, n);
        p = plain;
    }
    if (n > DISSECT_LENGTH_SIZE) {
        t.ulpdu = p + DISSECT_LENGTH_SIZE;
        t.have = n - DISSECT_LENGTH_SIZE;
        t.have = t.have < f->item.frame.ulpdu_length ? t.have : f->item.frame.ulpdu_length;
    }
    f->experts |= f->item.crc_status == DISSECT_CRC_BAD ? EI_BIT(EI_CRC_BAD) : 0;
    f->experts |= f->item.cut ? EI_BIT(EI_CUT) : 0;
    if (dissect_header_decode(&t.header, t.ulpdu, t.have, f->item.frame.ulpdu_length,
                              c->walk.way[side].revision_0)) {
        f->opcode = t.header.opcode;
        iwarp_track_fpdu(&t);
    }
}

/* To be kept, if there is anything in it. */
static struct iwarp_record *finish(struct iwarp_record *r, wmem_array_t *pieces)
{
    const size_t n = wmem_array_get_count(pieces);
    struct iwarp_record *kept;

    if (n == 0 && !r->waits) {
        return NULL;
    }
    r->count = (unsigned)n;
    if (n > 0) {
        r->pieces = (struct iwarp_piece *)iwarp_keep(n * sizeof *r->pieces);
        memcpy(r->pieces, wmem_array_get_raw(pieces), n * sizeof *r->pieces);
    }
    kept = (struct iwarp_record *)iwarp_keep(sizeof *kept);
    *kept = *r;
    return kept;
}

struct iwarp_record *iwarp_walk_over(packet_info *pinfo, struct iwarp_conn *c, unsigned side,
                                     const struct dissect_octets *o)
{
    struct iwarp_record r = {.conn = c, .side = side};
    wmem_array_t *pieces = wmem_array_new(pinfo->pool, sizeof(struct iwarp_piece));
    struct dissect_item item;

    c->walk.no_midstream = !iwarp_options.midstream;
    c->walk.strict = iwarp_options.strict;
    for (size_t at = 0; at < o->reported && dissect_walk(&c->walk, side, o, at, &item);
         at += item.size) {
        struct iwarp_piece piece = {.item = &item};
        if (item.kind == DISSECT_ITEM_WAIT) {
            r.waits = true;
            r.wait_at = (uint32_t)at;
            r.wait_for = item.missing > 0 ? (uint32_t)item.missing : DESEGMENT_ONE_MORE_SEGMENT;
            break;
        }
        if (item.kind == DISSECT_ITEM_SETUP) {
            note_start(c, pinfo, &piece, o->p + at, o->captured - at, side);
        } else if (item.kind == DISSECT_ITEM_FPDU) {
            note_fpdu(c, pinfo, &piece, o->p + at, o->captured - at, side);
        }
        if (!piece.fpdu) {
            piece.item = (struct dissect_item *)iwarp_keep(sizeof item);
            *piece.item = item;
        }
        wmem_array_append(pieces, &piece, 1);
    }
    return finish(&r, pieces);
}

/* So few octets begin a Request only as the first that a client sends: its SYN was captured. */
static bool is_opening(tvbuff_t *tvb, packet_info *pinfo, uint32_t seq)
{
    conversation_t *conversation;
    const struct tcp_analysis *tcp;

    if (tvb_reported_length(tvb) >= DISSECT_SHORTEST_KEY) {
        return false;
    }
    conversation = find_or_create_conversation(pinfo);
    tcp = get_tcp_conversation_data(conversation, pinfo);
    return tcp && tcp->server_port == pinfo->destport &&
           seq + iwarp_late_origin(conversation, pinfo) == tcp->fwd->base_seq + 1;
}

static struct dissect_octets octets_of(tvbuff_t *tvb, packet_info *pinfo, uint32_t seq)
{
    return (struct dissect_octets){.p = tvb_get_ptr(tvb, 0, (int)tvb_captured_length(tvb)),
                                   .captured = tvb_captured_length(tvb),
                                   .reported = tvb_reported_length(tvb),
                                   .seq = seq,
                                   .may_wait = pinfo->can_desegment > 0,
                                   .opening = is_opening(tvb, pinfo, seq)};
}

static struct iwarp_record *make_record(tvbuff_t *tvb, packet_info *pinfo, struct iwarp_conn *c,
                                        uint32_t seq)
{
    const struct dissect_octets o = octets_of(tvb, pinfo, seq);
    const unsigned side = iwarp_side_of(c, pinfo);
    struct iwarp_record *r = iwarp_walk_over(pinfo, c, side, &o);

    if (r) {
        iwarp_late_handed(c, side, &o, r);
    }
    return r;
}

/* Could a connection begin here? Most of what is asked about is something else: costs no memory. */
static bool could_be_iwarp(tvbuff_t *tvb, packet_info *pinfo, uint32_t seq)
{
    const struct dissect_octets o = octets_of(tvb, pinfo, seq);
    struct dissect_conn probe = {.no_midstream = !iwarp_options.midstream,
                                 .strict = iwarp_options.strict};
    struct dissect_item item;

    return dissect_walk(&probe, 0, &o, 0, &item);
}

static void paint_skipped(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree,
                          const struct dissect_item *item)
{
    const int n = (int)MIN(item->size, tvb_captured_length(tvb) - item->at);
    const char *what = item->kind == DISSECT_ITEM_REST ? "rest of an FPDU" : "skipped to resync";
    proto_item *top =
        proto_tree_add_protocol_format(tree, proto_iwarp, tvb, (int)item->at, n,
                                       "iWARP, %u octets: %s", (unsigned)item->size, what);

    col_set_str(pinfo->cinfo, COL_PROTOCOL, "iWARP");
    col_append_sep_fstr(pinfo->cinfo, COL_INFO, "; ", "[%u octets: %s]", (unsigned)item->size,
                        what);
    if (item->kind == DISSECT_ITEM_SKIPPED) {
        proto_tree *t = proto_item_add_subtree(top, iwarp_ett[ETT_IWARP]);
        proto_item *i = proto_tree_add_uint(t, iwarp_hf[HF_SKIPPED], tvb, (int)item->at, n,
                                            (uint32_t)item->size);
        iwarp_tell(pinfo, i, item->bad_length ? EI_BIT(EI_LENGTH_BAD) : EI_BIT(EI_RESYNC));
    }
}

static void paint_piece(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree,
                        const struct iwarp_record *r, const struct iwarp_piece *piece)
{
    if (piece->item->at >= tvb_captured_length(tvb)) {
        return;
    }
    if (piece->start) {
        iwarp_paint_start(tvb, pinfo, tree, r, piece);
    } else if (piece->fpdu) {
        iwarp_paint_fpdu(tvb, pinfo, tree, tree, r, piece);
    } else if (piece->item->kind != DISSECT_ITEM_UNSEEN) {
        paint_skipped(tvb, pinfo, tree, piece->item);
    }
}

void iwarp_paint(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, const struct iwarp_record *r)
{
    if (r->count > 0) {
        col_clear(pinfo->cinfo, COL_INFO);
    }
    for (unsigned i = 0; i < r->count; i++) {
        paint_piece(tvb, pinfo, tree, r, &r->pieces[i]);
        col_set_fence(pinfo->cinfo, COL_INFO);
    }
}

static void paint_handed(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree,
                         struct iwarp_record *r)
{
    iwarp_paint(tvb, pinfo, tree, r);
    iwarp_late_shown(pinfo, tvb, r);
    if (r->waits) {
        pinfo->desegment_offset = (int)r->wait_at;
        pinfo->desegment_len = r->wait_for;
    }
}

/*
 * True if this is iWARP. A connection is remembered once something of it is certain; `patient`
 * allows to wait for octets that will make it so.
 */
bool iwarp_try(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, void *data, bool patient)
{
    const struct tcpinfo *tcp = (const struct tcpinfo *)data;
    conversation_t *conversation;
    struct iwarp_conn *c;
    struct iwarp_record *r;

    if (!tcp || tvb_captured_length(tvb) == 0) {
        return false;
    }
    r = (struct iwarp_record *)p_get_proto_data(wmem_file_scope(), pinfo, proto_iwarp, tcp->seq);
    if (r) {
        paint_handed(tvb, pinfo, tree, r);
        return true;
    }
    if (PINFO_FD_VISITED(pinfo)) {
        return false;
    }
    conversation = find_or_create_conversation(pinfo);
    c = (struct iwarp_conn *)conversation_get_proto_data(conversation, proto_iwarp);
    if (!c) {
        if (!could_be_iwarp(tvb, pinfo, tcp->seq)) {
            return false;
        }
        c = new_conn(pinfo);
        r = make_record(tvb, pinfo, c, tcp->seq);
        if (!r || (r->count == 0 && !patient)) {
            return false;
        }
        if (r->count > 0) {
            c->id = connections++;
            conversation_add_proto_data(conversation, proto_iwarp, c);
            conversation_set_dissector(conversation, find_dissector("iwarp"));
        }
    } else {
        r = make_record(tvb, pinfo, c, tcp->seq);
    }
    if (!r) {
        return false;
    }
    p_add_proto_data(wmem_file_scope(), pinfo, proto_iwarp, tcp->seq, r);
    paint_handed(tvb, pinfo, tree, r);
    return true;
}

int iwarp_dissect(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, void *data)
{
    return iwarp_try(tvb, pinfo, tree, data, true) ? (int)tvb_captured_length(tvb) : 0;
}
