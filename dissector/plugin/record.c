/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A record lists the frames and FPDUs in one piece of the stream. It is made once, on the first
 * pass, by walking over the octets and tracking their meaning, and painted on every pass. The
 * octets come from stream.c, or from late.c.
 */
#include "state.h"

enum { LAYERS = 100 };

static uint32_t fpdus;

void iwarp_record_reset(void)
{
    fpdus = 0;
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

/*
 * Wireshark ends the dissection of a frame with more layers than the tree may be deep (500). The
 * payload of each FPDU is a layer, and a segment of 64 KiB holds 2000 FPDUs: those behind the
 * first hundred layers are shown, but not listed as layers.
 */
static void bound_layers(packet_info *pinfo, unsigned before)
{
    while (before > LAYERS && wmem_list_count(pinfo->layers) > before) {
        wmem_list_remove_frame(pinfo->layers, wmem_list_tail(pinfo->layers));
    }
}

void iwarp_paint(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, const struct iwarp_record *r)
{
    if (r->count > 0) {
        col_clear(pinfo->cinfo, COL_INFO);
    }
    for (unsigned i = 0; i < r->count; i++) {
        const unsigned layers = wmem_list_count(pinfo->layers);
        paint_piece(tvb, pinfo, tree, r, &r->pieces[i]);
        bound_layers(pinfo, layers);
        col_set_fence(pinfo->cinfo, COL_INFO);
    }
}
