/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Start-up frames in the protocol tree, what they agree on, and private data by its format:
 * RFC 5044 7.1, RFC 6581 9, RFC 8797; NVMe over RDMA, iSER, SMB Direct.
 */
#include "state.h"

#include "../wire.h"

static void paint_agreement(tvbuff_t *tvb, proto_tree *tree, const struct iwarp_conn *c,
                            unsigned side)
{
    struct dissect_agreement a;
    const unsigned role = iwarp_is_initiator(c, side) ? 0 : 1;

    dissect_conn_agreement(&c->walk, &a);
    if (a.markers_known[role]) {
        iwarp_say_bool(tree, HF_CONN_MARKERS, tvb, a.markers[role]);
    }
    if (a.crc_known) {
        iwarp_say_bool(tree, HF_CONN_CRC, tvb, a.crc);
    }
    if (c->walk.has_reply) {
        iwarp_say_uint(tree, HF_CONN_REV, tvb, c->walk.reply.revision);
    }
    if (a.depths_known) {
        iwarp_say_uint(tree, HF_CONN_ORD, tvb, role == 0 ? a.initiator_ord : a.responder_ord);
        iwarp_say_uint(tree, HF_CONN_PEER_ORD, tvb, role == 0 ? a.responder_ord : a.initiator_ord);
        iwarp_say_uint(tree, HF_CONN_RTR, tvb, a.rtr);
    }
}

/* The connection, in every frame of it, so that filters reach all of it. */
void iwarp_paint_conn(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree,
                      const struct iwarp_record *r)
{
    const struct iwarp_conn *c = r->conn;
    proto_tree *t;

    (void)pinfo;
    iwarp_say_uint(tree, HF_CONN_ID, tvb, c->id);
    if (!proto_field_is_referenced(tree, proto_iwarp)) {
        return;
    }
    t = proto_tree_add_subtree(tree, tvb, 0, 0, iwarp_ett[ETT_CONN], NULL, "Connection");
    if (c->walk.has_initiator) {
        iwarp_say_bool(t, HF_CONN_INITIATOR, tvb, iwarp_is_initiator(c, r->side));
        paint_agreement(tvb, t, c, r->side);
    }
    if (c->has_ulp && c->ulp != ULP_ANY) {
        iwarp_say_text(t, HF_CONN_ULP, tvb, iwarp_ulp_name(c->ulp));
    }
    for (unsigned i = 0; i < 2; i++) {
        if (c->start_frame[i] != 0) {
            iwarp_say_uint(t, i == 0 ? HF_CONN_REQUEST_IN : HF_CONN_REPLY_IN, tvb,
                           c->start_frame[i]);
        }
    }
}

static void paint_enhanced(tvbuff_t *tvb, proto_tree *tree, unsigned at)
{
    iwarp_put(tree, HF_P2P, tvb, at, 2, ENC_BIG_ENDIAN);
    iwarp_put(tree, HF_RTR_SEND, tvb, at, 2, ENC_BIG_ENDIAN);
    iwarp_put(tree, HF_IRD, tvb, at, 2, ENC_BIG_ENDIAN);
    iwarp_put(tree, HF_RTR_WRITE, tvb, at + 2, 2, ENC_BIG_ENDIAN);
    iwarp_put(tree, HF_RTR_READ, tvb, at + 2, 2, ENC_BIG_ENDIAN);
    iwarp_put(tree, HF_ORD, tvb, at + 2, 2, ENC_BIG_ENDIAN);
}

/* RFC 8797 4: a format identifier, then version, flags and two sizes in KiB less one. */
static void paint_rpc(tvbuff_t *tvb, proto_tree *tree, unsigned at)
{
    iwarp_say_text(tree, HF_PRIVATE_ULP, tvb, "RPC-over-RDMA");
    iwarp_put(tree, HF_RPC_MAGIC, tvb, at, 4, ENC_BIG_ENDIAN);
    iwarp_put(tree, HF_RPC_VERSION, tvb, at + 4, 1, ENC_NA);
    iwarp_put(tree, HF_RPC_FLAGS, tvb, at + 5, 1, ENC_NA);
    proto_tree_add_uint(tree, iwarp_hf[HF_RPC_SEND_SIZE], tvb, (int)at + 6, 1,
                        (tvb_get_uint8(tvb, (int)at + 6) + 1u) * 1024);
    proto_tree_add_uint(tree, iwarp_hf[HF_RPC_RECV_SIZE], tvb, (int)at + 7, 1,
                        (tvb_get_uint8(tvb, (int)at + 7) + 1u) * 1024);
}

/* NVMe over RDMA: a Request names queue and sizes, a Reply its size, a reject the reason. */
static void paint_nvme(tvbuff_t *tvb, proto_tree *tree, unsigned at, const struct dissect_setup *s)
{
    iwarp_say_text(tree, HF_PRIVATE_ULP, tvb, "NVMe over RDMA");
    iwarp_put(tree, HF_NVME_RECFMT, tvb, at, 2, ENC_LITTLE_ENDIAN);
    if (s->kind == DISSECT_REPLY) {
        iwarp_put(tree, s->rejected ? HF_NVME_STATUS : HF_NVME_CRQSIZE, tvb, at + 2, 2,
                  ENC_LITTLE_ENDIAN);
        return;
    }
    iwarp_put(tree, HF_NVME_QID, tvb, at + 2, 2, ENC_LITTLE_ENDIAN);
    iwarp_put(tree, HF_NVME_HRQSIZE, tvb, at + 4, 2, ENC_LITTLE_ENDIAN);
    iwarp_put(tree, HF_NVME_HSQSIZE, tvb, at + 6, 2, ENC_LITTLE_ENDIAN);
}

static void paint_iser(tvbuff_t *tvb, proto_tree *tree, unsigned at)
{
    iwarp_say_text(tree, HF_PRIVATE_ULP, tvb, "iSER");
    iwarp_put(tree, HF_ISER_NO_ZBVA, tvb, at, 1, ENC_NA);
    iwarp_put(tree, HF_ISER_NO_SEND_INV, tvb, at, 1, ENC_NA);
}

/*
 * Read depths as two words of 32 bits: what SMB Direct and others sent before there was RFC 6581,
 * in either order of octets.
 */
static void paint_old_depths(tvbuff_t *tvb, proto_tree *tree, unsigned at)
{
    const uint32_t ird = tvb_get_ntohl(tvb, (int)at), ord = tvb_get_ntohl(tvb, (int)at + 4);
    const bool little = ird > DISSECT_NO_DEPTH || ord > DISSECT_NO_DEPTH;
    const unsigned order = little ? ENC_LITTLE_ENDIAN : ENC_BIG_ENDIAN;

    if (ird + ord == 0 || (little && (GUINT32_SWAP_LE_BE(ird) > DISSECT_NO_DEPTH ||
                                      GUINT32_SWAP_LE_BE(ord) > DISSECT_NO_DEPTH))) {
        return;
    }
    iwarp_say_text(tree, HF_PRIVATE_ULP, tvb, "SMB Direct");
    iwarp_put(tree, HF_OLD_IRD, tvb, at, 4, order);
    iwarp_put(tree, HF_OLD_ORD, tvb, at + 4, 4, order);
}

/* What libiwarp puts behind the private data of a program to agree on Sends with Immediate Data. */
static const char mark[] = "SendImm\x01";

enum { MARK_SIZE = sizeof mark - 1 };

/* Octets of private data without it, of n that begin at `at` and are all there. */
static unsigned paint_mark(tvbuff_t *tvb, proto_tree *tree, unsigned at, unsigned n)
{
    if (n < MARK_SIZE ||
        tvb_memeql(tvb, (int)(at + n - MARK_SIZE), (const uint8_t *)mark, MARK_SIZE) != 0) {
        return n;
    }
    iwarp_put(tree, HF_MARK, tvb, at + n - MARK_SIZE, MARK_SIZE, ENC_NA);
    return n - MARK_SIZE;
}

static void paint_private(tvbuff_t *tvb, proto_tree *tree, unsigned at, unsigned n,
                          struct iwarp_conn *c, const struct dissect_setup *s)
{
    const enum iwarp_ulp ulp = iwarp_ulp_of(c);

    n = n <= tvb_captured_length(tvb) - at ? paint_mark(tvb, tree, at, n) : n;
    const unsigned there = MIN(n, tvb_captured_length(tvb) - at);
    if (there == 0) {
        return;
    }
    iwarp_put(tree, HF_PRIVATE, tvb, at, there, ENC_NA);
    if (there >= 8 && tvb_get_ntohl(tvb, (int)at) == 0xf6ab0e18) {
        paint_rpc(tvb, tree, at);
    } else if (there >= 4 && tvb_get_letohs(tvb, (int)at) <= 1 &&
               (n == 32 || (n == 4 && s->kind == DISSECT_REPLY)) && ulp == ULP_NVME) {
        paint_nvme(tvb, tree, at, s);
    } else if (there == 4 && n == 4 && ulp == ULP_ISER) {
        paint_iser(tvb, tree, at);
    } else if (there == 8 && n == 8 && (ulp == ULP_SMB || ulp == ULP_ANY)) {
        paint_old_depths(tvb, tree, at);
    }
}

static void paint_flags(tvbuff_t *tvb, proto_tree *tree, unsigned at, uint8_t revision)
{
    proto_item *flags = iwarp_put(tree, HF_FLAGS, tvb, at, 1, ENC_NA);
    proto_tree *t = proto_item_add_subtree(flags, iwarp_ett[ETT_FLAGS]);

    iwarp_put(t, HF_FLAG_M, tvb, at, 1, ENC_NA);
    iwarp_put(t, HF_FLAG_C, tvb, at, 1, ENC_NA);
    iwarp_put(t, HF_FLAG_R, tvb, at, 1, ENC_NA);
    if (revision >= 2) {
        iwarp_put(t, HF_FLAG_S, tvb, at, 1, ENC_NA);
    }
    iwarp_put(t, HF_FLAG_RES, tvb, at, 1, ENC_NA);
}

static void paint_columns(packet_info *pinfo, const struct dissect_setup *s)
{
    col_set_str(pinfo->cinfo, COL_PROTOCOL, "iWARP");
    col_append_sep_fstr(pinfo->cinfo, COL_INFO, "; ", "MPA %s rev %u%s%s%s",
                        s->kind == DISSECT_REPLY ? "Reply" : "Request", s->revision,
                        s->markers ? " M" : "", s->crc ? " C" : "", s->rejected ? " rejected" : "");
    if (s->enhanced) {
        col_append_fstr(pinfo->cinfo, COL_INFO, " IRD %u ORD %u%s", s->ird, s->ord,
                        s->peer_to_peer ? " P2P" : "");
    }
}

void iwarp_paint_start(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree,
                       const struct iwarp_record *r, const struct iwarp_piece *piece)
{
    const struct dissect_setup *s = &piece->start->setup;
    const unsigned at = (unsigned)piece->item->at;
    const unsigned there = (unsigned)MIN(piece->item->size, tvb_captured_length(tvb) - at);
    const bool reply = s->kind == DISSECT_REPLY;
    unsigned private_at = at + s->size, private_size = s->private_length;
    proto_item *top =
        proto_tree_add_protocol_format(tree, proto_iwarp, tvb, (int)at, (int)there, "iWARP, MPA %s",
                                       s->kind == DISSECT_NO_SETUP ? "start-up frame"
                                       : reply                     ? "Reply"
                                                                   : "Request");
    proto_tree *t = proto_item_add_subtree(top, iwarp_ett[ETT_IWARP]);

    if (s->kind == DISSECT_NO_SETUP) {
        iwarp_tell(pinfo, top, piece->start->experts);
        return;
    }
    paint_columns(pinfo, s);
    iwarp_paint_conn(tvb, pinfo, t, r);
    t = proto_tree_add_subtree(t, tvb, (int)at, (int)there, iwarp_ett[ETT_MPA], NULL, "MPA");
    iwarp_put(t, reply ? HF_REP : HF_REQ, tvb, at, DISSECT_KEY_SIZE, ENC_ASCII);
    paint_flags(tvb, t, at + 16, s->revision);
    iwarp_put(t, HF_REV, tvb, at + 17, 1, ENC_NA);
    iwarp_put(t, HF_PD_LEN, tvb, at + 18, 2, ENC_BIG_ENDIAN);
    if (s->size == DISSECT_SETUP_SIZE_129) {
        iwarp_put(t, HF_COOKIE, tvb, at + 20, 4, ENC_BIG_ENDIAN);
        iwarp_put(t, HF_CONGESTION, tvb, at + 24, 4, ENC_BIG_ENDIAN);
    }
    if (s->enhanced) {
        paint_enhanced(tvb, t, private_at);
        private_at += 4;
        private_size -= 4;
    }
    if (private_at < tvb_captured_length(tvb)) {
        paint_private(tvb, t, private_at,
                      MIN(private_size, at + there - MIN(private_at, at + there)), r->conn, s);
    }
    iwarp_tell(pinfo, top, piece->start->experts);
    if (tree) {
        /* Within our own item, or the hierarchy of protocols would be full of them. */
        iwarp_builtin_start(tvb, t, piece->item, s);
    }
}
