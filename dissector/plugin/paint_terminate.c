/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Terminate messages in the protocol tree, with the headers that they enclose. RFC 5040 4.8.
 */
#include "state.h"

#include "../terminate.h"

static void paint_enclosed(tvbuff_t *body, unsigned at, proto_tree *tree,
                           const struct dissect_terminate *term)
{
    const struct dissect_header *h = &term->ddp;
    proto_item *item =
        iwarp_put(tree, HF_TERM_DDP, body, at + term->ddp_at, term->ddp_size, ENC_NA);
    proto_tree *t = proto_item_add_subtree(item, iwarp_ett[ETT_TERM]);

    proto_item_append_text(item, " (%s)", dissect_opcode_name(h->opcode));
    at += term->ddp_at;
    iwarp_put(t, HF_DDP_T, body, at, 1, ENC_NA);
    iwarp_put(t, HF_DDP_L, body, at, 1, ENC_NA);
    iwarp_put(t, HF_DDP_DV, body, at, 1, ENC_NA);
    iwarp_put(t, HF_OPCODE, body, at + 1, 1, ENC_NA);
    if (h->tagged) {
        iwarp_put(t, HF_STAG, body, at + 2, 4, ENC_BIG_ENDIAN);
        iwarp_put(t, HF_TO, body, at + 6, 8, ENC_BIG_ENDIAN);
        return;
    }
    if (dissect_opcode_invalidates(h->opcode)) {
        iwarp_put(t, HF_INVAL_STAG, body, at + 2, 4, ENC_BIG_ENDIAN);
    } else if (dissect_opcode_is_send_imm(h->opcode)) {
        iwarp_put(t, HF_SEND_IMM, body, at + 2, 4, ENC_BIG_ENDIAN);
    }
    iwarp_put(t, HF_QN, body, at + 6, 4, ENC_BIG_ENDIAN);
    iwarp_put(t, HF_MSN, body, at + 10, 4, ENC_BIG_ENDIAN);
    iwarp_put(t, HF_MO, body, at + 14, 4, ENC_BIG_ENDIAN);
}

static void paint_rdma(tvbuff_t *body, unsigned at, proto_tree *tree,
                       const struct dissect_terminate *term)
{
    proto_item *item =
        iwarp_put(tree, HF_TERM_RDMA, body, at + term->rdma_at, term->rdma_size, ENC_NA);
    proto_tree *t = proto_item_add_subtree(item, iwarp_ett[ETT_TERM]);

    at += term->rdma_at;
    if (term->rdma_size < DISSECT_READ_REQUEST_SIZE) {
        return;
    }
    iwarp_put(t, HF_READ_SINK_STAG, body, at, 4, ENC_BIG_ENDIAN);
    iwarp_put(t, HF_READ_SINK_TO, body, at + 4, 8, ENC_BIG_ENDIAN);
    iwarp_put(t, HF_READ_LEN, body, at + 12, 4, ENC_BIG_ENDIAN);
    iwarp_put(t, HF_READ_SRC_STAG, body, at + 16, 4, ENC_BIG_ENDIAN);
    iwarp_put(t, HF_READ_SRC_TO, body, at + 20, 8, ENC_BIG_ENDIAN);
}

void iwarp_paint_terminate(tvbuff_t *body, unsigned at, unsigned n, packet_info *pinfo,
                           proto_tree *tree, const struct iwarp_fpdu *f)
{
    const unsigned captured = tvb_captured_length(body);
    const unsigned there = at < captured ? MIN(n, captured - at) : 0;
    struct dissect_terminate term;
    const char *name;

    if (there < 4 ||
        !dissect_terminate_decode(&term, tvb_get_ptr(body, (int)at, (int)there), there)) {
        return;
    }
    name = dissect_terminate_code(term.layer, term.etype, term.code);
    col_append_fstr(
        pinfo->cinfo, COL_INFO, " %s/%s: %s (%u/%u/0x%02x)", dissect_terminate_layer(term.layer),
        dissect_terminate_type(term.layer, term.etype), name, term.layer, term.etype, term.code);
    col_set_fence(pinfo->cinfo, COL_INFO);
    if (term.order == DISSECT_ORDER_SIW) {
        iwarp_say_bool(tree, HF_TERM_ORDER, body, true);
    }
    proto_tree_add_uint(tree, iwarp_hf[HF_TERM_LAYER], body, (int)at, 1, term.layer);
    proto_tree_add_uint_format_value(tree, iwarp_hf[HF_TERM_ETYPE], body, (int)at, 1, term.etype,
                                     "%s (%u)", dissect_terminate_type(term.layer, term.etype),
                                     term.etype);
    proto_tree_add_uint_format_value(tree, iwarp_hf[HF_TERM_CODE], body, (int)at + 1, 1, term.code,
                                     "%s (0x%02x)", name, term.code);
    iwarp_say_text(tree, HF_TERM_NAME, body, name);
    proto_tree_add_boolean(tree, iwarp_hf[HF_TERM_HDRCT_M], body, (int)at + 2, 1, term.m);
    proto_tree_add_boolean(tree, iwarp_hf[HF_TERM_HDRCT_D], body, (int)at + 2, 1, term.d);
    proto_tree_add_boolean(tree, iwarp_hf[HF_TERM_HDRCT_R], body, (int)at + 2, 1, term.r);
    if (term.length_at != 0) {
        iwarp_put(tree, HF_TERM_DDP_LEN, body, at + term.length_at, 2, ENC_BIG_ENDIAN);
    }
    if (term.ddp_at != 0) {
        paint_enclosed(body, at, tree, &term);
    }
    if (term.rdma_at != 0) {
        paint_rdma(body, at, tree, &term);
    }
    if (f->related != 0) {
        iwarp_say_uint(tree, HF_TERM_CAUSE, body, f->related);
    }
}
