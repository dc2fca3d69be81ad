/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fields of the dissectors that come with Wireshark, filled by this one too, so that filters,
 * scripts and colour rules made for them go on working. Hidden; only those that this version has,
 * with the type that is expected.
 */
#include "state.h"

#include "../terminate.h"

enum when {
    START, /* offsets from the start-up frame */
    REQUEST,
    REPLY,
    FPDU, /* offsets from the length field */
    TAGGED,
    UNTAGGED,
    INVALIDATING,
    PLAIN, /* untagged, invalidates nothing */
    READ,
    ATOMIC,
    ATOMIC_ADD,
    ATOMIC_SWAP,
    ATOMIC_ANSWER,
    TERMINATE,
    TERM_RDMA, /* by the layer that found the error */
    TERM_DDP,
    TERM_LLP,
    TERM_OTHER,
    CODE_RDMA, /* and by type */
    CODE_DDP_TAGGED,
    CODE_DDP_UNTAGGED,
    CODE_LLP,
    CODE_OTHER,
    ENHANCED, /* IRD and ORD in front of the private data */
    MARKER,   /* offsets from a marker */
    WHENS
};

static struct builtin {
    const char *name;
    enum ftenum type;
    enum when when;
    uint8_t at, size;
    int id; /* -1: absent */
} builtins[] = {
    {"iwarp_mpa.req", FT_NONE, REQUEST, 0, 20, -1},
    {"iwarp_mpa.rep", FT_NONE, REPLY, 0, 20, -1},
    {"iwarp_mpa.key.req", FT_BYTES, REQUEST, 0, 16, -1},
    {"iwarp_mpa.key.rep", FT_BYTES, REPLY, 0, 16, -1},
    {"iwarp_mpa.marker_flag", FT_BOOLEAN, START, 16, 1, -1},
    {"iwarp_mpa.crc_flag", FT_BOOLEAN, START, 16, 1, -1},
    {"iwarp_mpa.rej_flag", FT_BOOLEAN, START, 16, 1, -1},
    {"iwarp_mpa.enhanced_flag", FT_BOOLEAN, START, 16, 1, -1}, /* this and six more since 4.6 */
    {"iwarp_mpa.res", FT_UINT8, START, 16, 1, -1},
    {"iwarp_mpa.rev", FT_UINT8, START, 17, 1, -1},
    {"iwarp_mpa.enhanced", FT_NONE, ENHANCED, 20, 4, -1},
    {"iwarp_mpa.enhanced.a", FT_BOOLEAN, ENHANCED, 20, 2, -1},
    {"iwarp_mpa.enhanced.b", FT_BOOLEAN, ENHANCED, 20, 2, -1},
    {"iwarp_mpa.enhanced.ird", FT_UINT16, ENHANCED, 20, 2, -1},
    {"iwarp_mpa.enhanced.c", FT_BOOLEAN, ENHANCED, 22, 2, -1},
    {"iwarp_mpa.enhanced.D", FT_BOOLEAN, ENHANCED, 22, 2, -1},
    {"iwarp_mpa.enhanced.ord", FT_UINT16, ENHANCED, 22, 2, -1},
    {"iwarp_mpa.fpdu", FT_NONE, FPDU, 0, 2, -1},
    {"iwarp_mpa.ulpdulength", FT_UINT16, FPDU, 0, 2, -1},
    {"iwarp_ddp", FT_NONE, FPDU, 2, 1, -1},
    {"iwarp_ddp.control_field", FT_NONE, FPDU, 2, 1, -1},
    {"iwarp_ddp.tagged_flag", FT_BOOLEAN, FPDU, 2, 1, -1},
    {"iwarp_ddp.last_flag", FT_BOOLEAN, FPDU, 2, 1, -1},
    {"iwarp_ddp.rsvd", FT_UINT8, FPDU, 2, 1, -1},
    {"iwarp_ddp.dv", FT_UINT8, FPDU, 2, 1, -1},
    {"iwarp_ddp.tagged", FT_NONE, TAGGED, 2, 14, -1},
    {"iwarp_ddp.stag", FT_UINT32, TAGGED, 4, 4, -1},
    {"iwarp_ddp.tagged_offset", FT_UINT64, TAGGED, 8, 8, -1},
    {"iwarp_ddp.untagged", FT_NONE, UNTAGGED, 2, 18, -1},
    {"iwarp_ddp.rsvdulp", FT_BYTES, UNTAGGED, 3, 5, -1},
    {"iwarp_ddp.qn", FT_UINT32, UNTAGGED, 8, 4, -1},
    {"iwarp_ddp.msn", FT_UINT32, UNTAGGED, 12, 4, -1},
    {"iwarp_ddp.mo", FT_UINT32, UNTAGGED, 16, 4, -1},
    {"iwarp_rdma", FT_NONE, FPDU, 3, 1, -1},
    {"iwarp_rdma.control_field", FT_NONE, FPDU, 3, 1, -1},
    {"iwarp_rdma.version", FT_UINT8, FPDU, 3, 1, -1},
    {"iwarp_rdma.rsv", FT_UINT8, FPDU, 3, 1, -1},
    {"iwarp_rdma.opcode", FT_UINT8, FPDU, 3, 1, -1},
    {"iwarp_rdma.reserved", FT_BYTES, PLAIN, 4, 4, -1},
    {"iwarp_rdma.inval_stag", FT_UINT32, INVALIDATING, 4, 4, -1},
    {"iwarp_rdma.rr", FT_NONE, READ, 20, 28, -1},
    {"iwarp_rdma.sinkstag", FT_UINT32, READ, 20, 4, -1},
    {"iwarp_rdma.sinkto", FT_UINT64, READ, 24, 8, -1},
    {"iwarp_rdma.rdmardsz", FT_UINT32, READ, 32, 4, -1},
    {"iwarp_rdma.srcstag", FT_UINT32, READ, 36, 4, -1},
    {"iwarp_rdma.srcto", FT_UINT64, READ, 40, 8, -1},
    {"iwarp_rdma.atomic.reserved", FT_UINT32, ATOMIC, 20, 4, -1},
    {"iwarp_rdma.atomic.opcode", FT_UINT32, ATOMIC, 20, 4, -1},
    {"iwarp_rdma.atomic.request_identifier", FT_UINT32, ATOMIC, 24, 4, -1},
    {"iwarp_rdma.atomic.remote_stag", FT_UINT32, ATOMIC, 28, 4, -1},
    {"iwarp_rdma.atomic.remote_tagged_offset", FT_UINT64, ATOMIC, 32, 8, -1},
    {"iwarp_rdma.atomic.add_data", FT_UINT64, ATOMIC_ADD, 40, 8, -1},
    {"iwarp_rdma.atomic.add_mask", FT_UINT64, ATOMIC_ADD, 48, 8, -1},
    {"iwarp_rdma.atomic.swap_data", FT_UINT64, ATOMIC_SWAP, 40, 8, -1},
    {"iwarp_rdma.atomic.swap_mask", FT_UINT64, ATOMIC_SWAP, 48, 8, -1},
    {"iwarp_rdma.atomic.compare_data", FT_UINT64, ATOMIC, 56, 8, -1},
    {"iwarp_rdma.atomic.compare_mask", FT_UINT64, ATOMIC, 64, 8, -1},
    {"iwarp_rdma.atomic.original_request_identifier", FT_UINT32, ATOMIC_ANSWER, 20, 4, -1},
    {"iwarp_rdma.atomic.original_remote_data_value", FT_UINT64, ATOMIC_ANSWER, 24, 8, -1},
    {"iwarp_rdma.terminate", FT_NONE, TERMINATE, 20, 4, -1},
    {"iwarp_rdma.term_ctrl", FT_NONE, TERMINATE, 20, 3, -1},
    {"iwarp_rdma.term_layer", FT_UINT8, TERMINATE, 20, 1, -1},
    {"iwarp_rdma.term_etype_rdma", FT_UINT8, TERM_RDMA, 20, 1, -1},
    {"iwarp_rdma.term_errcode_rdma", FT_UINT8, CODE_RDMA, 21, 1, -1},
    {"iwarp_rdma.term_etype_ddp", FT_UINT8, TERM_DDP, 20, 1, -1},
    {"iwarp_rdma.term_errcode_ddp_tagged", FT_UINT8, CODE_DDP_TAGGED, 21, 1, -1},
    {"iwarp_rdma.term_errcode_ddp_untagged", FT_UINT8, CODE_DDP_UNTAGGED, 21, 1, -1},
    {"iwarp_rdma.term_etype_llp", FT_UINT8, TERM_LLP, 20, 1, -1},
    {"iwarp_rdma.term_errcode_llp", FT_UINT8, CODE_LLP, 21, 1, -1},
    {"iwarp_rdma.term_etype", FT_UINT8, TERM_OTHER, 20, 1, -1},
    {"iwarp_rdma.term_errcode", FT_UINT8, CODE_OTHER, 21, 1, -1},
    {"iwarp_rdma.term_hdrct", FT_NONE, TERMINATE, 22, 1, -1},
    {"iwarp_rdma.term_hdrct_m", FT_BOOLEAN, TERMINATE, 22, 1, -1},
    {"iwarp_rdma.hdrct_d", FT_BOOLEAN, TERMINATE, 22, 1, -1},
    {"iwarp_rdma.hdrct_r", FT_BOOLEAN, TERMINATE, 22, 1, -1},
    {"iwarp_rdma.term_rsvd", FT_UINT16, TERMINATE, 22, 2, -1},
    {"iwarp_mpa.marker_res", FT_UINT16, MARKER, 0, 2, -1},
    {"iwarp_mpa.marker_fpduptr", FT_UINT16, MARKER, 2, 2, -1},
};

_Static_assert(WHENS <= 32, "a set of them is 32 bits");

/* Those whose place or length is not always the same. */
static int mpa, ddp, crc, crc_check, pad, private_data, markers;
static int private_length;
static bool knows_enhanced; /* private data begins behind IRD and ORD */
static int term_length, term_ddp, term_rdma;
static int send_in, send_length, send_count, send_data;

static int find(const char *name, enum ftenum type)
{
    const header_field_info *field = proto_registrar_get_byname(name);

    return field && field->type == type ? field->id : -1;
}

void iwarp_builtin_register(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(builtins); i++) {
        builtins[i].id = find(builtins[i].name, builtins[i].type);
    }
    private_length = find("iwarp_mpa.pdlength", FT_UINT16);
    knows_enhanced = find("iwarp_mpa.enhanced", FT_NONE) > 0;
    mpa = proto_get_id_by_filter_name("iwarp_mpa");
    ddp = proto_get_id_by_filter_name("iwarp_ddp_rdmap");
    crc = find("iwarp_mpa.crc", FT_UINT32);
    crc_check = find("iwarp_mpa.crc_check", FT_UINT32);
    pad = find("iwarp_mpa.pad", FT_BYTES);
    private_data = find("iwarp_mpa.privatedata", FT_BYTES);
    markers = find("iwarp_mpa.markers", FT_NONE);
    term_length = find("iwarp_rdma.term_ddp_seg_len", FT_BYTES);
    term_ddp = find("iwarp_rdma.term_ddp_h", FT_BYTES);
    term_rdma = find("iwarp_rdma.term_rdma_h", FT_BYTES);
    send_in = find("iwarp_rdma.send.reassembled_in", FT_FRAMENUM);
    send_length = find("iwarp_rdma.send.reassembled.length", FT_UINT32);
    send_count = find("iwarp_rdma.send.fragment.count", FT_UINT32);
    send_data = find("iwarp_rdma.send.reassembled.data", FT_BYTES);
}

static void put(proto_tree *tree, int id, tvbuff_t *tvb, unsigned at, unsigned n, unsigned encoding)
{
    if (id > 0 && tvb_bytes_exist(tvb, (int)at, (int)n)) {
        proto_item_set_hidden(proto_tree_add_item(tree, id, tvb, (int)at, (int)n, encoding));
    }
}

#define SET(when) (UINT32_C(1) << (when))

static void put_all(proto_tree *tree, tvbuff_t *tvb, unsigned at, uint32_t set)
{
    for (size_t i = 0; i < G_N_ELEMENTS(builtins); i++) {
        const struct builtin *b = &builtins[i];
        if (set & SET(b->when)) {
            put(tree, b->id, tvb, at + b->at, b->size,
                b->type == FT_NONE || b->type == FT_BYTES ? ENC_NA : ENC_BIG_ENDIAN);
        }
    }
}

void iwarp_builtin_start(tvbuff_t *tvb, proto_tree *tree, const struct dissect_item *item,
                         const struct dissect_setup *s)
{
    if (!tree || !iwarp_options.builtin_fields) {
        return;
    }
    const unsigned before = knows_enhanced && s->enhanced ? 4 : 0;

    put(tree, mpa, tvb, (unsigned)item->at, DISSECT_SETUP_SIZE, ENC_NA);
    put_all(tree, tvb, (unsigned)item->at,
            SET(START) | SET(s->kind == DISSECT_REPLY ? REPLY : REQUEST) |
                (s->enhanced ? SET(ENHANCED) : 0));
    if (private_length > 0) {
        proto_item_set_hidden(proto_tree_add_uint(tree, private_length, tvb, (int)item->at + 18, 2,
                                                  s->private_length - before));
    }
    if (s->private_length > before) {
        put(tree, private_data, tvb, (unsigned)item->at + DISSECT_SETUP_SIZE + before,
            s->private_length - before, ENC_NA);
    }
}

static uint32_t atomic_set(tvbuff_t *body)
{
    const unsigned at = DISSECT_LENGTH_SIZE + DISSECT_UNTAGGED_SIZE;
    uint32_t operation;

    if (!tvb_bytes_exist(body, (int)at, 4)) {
        return SET(ATOMIC);
    }
    operation = tvb_get_ntohl(body, (int)at) & 15;
    return SET(ATOMIC) | (operation == 0 ? SET(ATOMIC_ADD) : operation == 2 ? SET(ATOMIC_SWAP) : 0);
}

/* By the octets as RFC 5040 orders them, as the built-in dissector does. */
static uint32_t terminate_set(tvbuff_t *body)
{
    const unsigned at = DISSECT_LENGTH_SIZE + DISSECT_UNTAGGED_SIZE;
    unsigned layer, type;
    uint32_t set;

    if (!tvb_bytes_exist(body, (int)at, 4)) {
        return 0;
    }
    layer = tvb_get_uint8(body, (int)at) >> 4;
    type = tvb_get_uint8(body, (int)at) & 15;
    set = SET(TERMINATE) | SET(layer < 3 ? TERM_RDMA + layer : TERM_OTHER);
    if (layer == 0 && (type == 1 || type == 2)) {
        return set | SET(CODE_RDMA);
    }
    if (layer == 1 && (type == 1 || type == 2)) {
        return set | SET(type == 1 ? CODE_DDP_TAGGED : CODE_DDP_UNTAGGED);
    }
    return set | SET(layer == 2 && type == 0 ? CODE_LLP : CODE_OTHER);
}

static uint32_t set_of(const struct dissect_header *h, tvbuff_t *body)
{
    uint32_t set = SET(FPDU) | SET(h->tagged ? TAGGED : UNTAGGED);

    if (h->tagged) {
        return set;
    }
    set |= SET(dissect_opcode_invalidates(h->opcode) ? INVALIDATING : UNTAGGED);
    set |=
        h->opcode <= DISSECT_TERMINATE && !dissect_opcode_invalidates(h->opcode) ? SET(PLAIN) : 0;
    set |= h->opcode == DISSECT_READ_REQUEST ? SET(READ) : 0;
    set |= h->opcode == DISSECT_ATOMIC_REQUEST ? atomic_set(body) : 0;
    set |= h->opcode == DISSECT_ATOMIC_RESPONSE ? SET(ATOMIC_ANSWER) : 0;
    set |= h->opcode == DISSECT_TERMINATE ? terminate_set(body) : 0;
    return set;
}

static void put_enclosed(proto_tree *tree, tvbuff_t *body)
{
    const unsigned at = DISSECT_LENGTH_SIZE + DISSECT_UNTAGGED_SIZE;
    const unsigned there = tvb_captured_length(body);
    const unsigned n = there > at + 4 ? there - at - 4 : 0; /* the CRC is none of it */
    struct dissect_terminate term;

    if (!dissect_terminate_decode(&term, tvb_get_ptr(body, (int)at, (int)n), n)) {
        return;
    }
    if (term.length_at != 0) {
        put(tree, term_length, body, at + term.length_at, 2, ENC_NA);
    }
    if (term.ddp_at != 0) {
        put(tree, term_ddp, body, at + term.ddp_at, term.ddp_size, ENC_NA);
    }
    if (term.rdma_at != 0) {
        put(tree, term_rdma, body, at + term.rdma_at, term.rdma_size, ENC_NA);
    }
}

static void put_markers(proto_tree *tree, tvbuff_t *wire, const struct iwarp_fpdu *f)
{
    for (unsigned i = 0; i < f->item.frame.markers; i++) {
        const unsigned at = (unsigned)(f->item.at + dissect_frame_marker(&f->item.frame, i));
        put(tree, markers, wire, at, DISSECT_MARKER_SIZE, ENC_NA);
        put_all(tree, wire, at, SET(MARKER));
    }
}

static void say(proto_tree *tree, int id, tvbuff_t *tvb, uint32_t value)
{
    if (id > 0) {
        proto_item_set_hidden(proto_tree_add_uint(tree, id, tvb, 0, 0, value));
    }
}

/* Messages of several segments. */
void iwarp_builtin_message(tvbuff_t *whole, tvbuff_t *body, proto_tree *tree,
                           const struct iwarp_message *m)
{
    if (!tree || !iwarp_options.builtin_fields || !dissect_opcode_is_send(m->opcode)) {
        return;
    }
    if (!whole) {
        say(tree, send_in, body, m->last_frame);
        return;
    }
    say(tree, send_count, whole, m->segments);
    say(tree, send_length, whole, (uint32_t)m->total);
    put(tree, send_data, whole, 0, tvb_captured_length(whole), ENC_NA);
}

void iwarp_builtin_fpdu(tvbuff_t *wire, tvbuff_t *body, proto_tree *tree,
                        const struct iwarp_fpdu *f, const struct dissect_header *h)
{
    const struct dissect_frame *frame = &f->item.frame;
    const unsigned end = DISSECT_LENGTH_SIZE + frame->ulpdu_length;
    const bool checked =
        f->item.crc_status == DISSECT_CRC_GOOD || f->item.crc_status == DISSECT_CRC_BAD;

    if (!tree) {
        return;
    }
    put(tree, mpa, body, 0, DISSECT_LENGTH_SIZE, ENC_NA);
    put(tree, ddp, body, DISSECT_LENGTH_SIZE, MIN(h->size, (unsigned)h->have), ENC_NA);
    put_all(tree, body, 0, set_of(h, body));
    put_markers(tree, wire, f);
    if (h->opcode == DISSECT_TERMINATE && !h->tagged) {
        put_enclosed(tree, body);
    }
    if (frame->pad > 0) {
        put(tree, pad, body, end, frame->pad, ENC_NA);
    }
    put(tree, checked ? crc_check : crc, body, end + frame->pad, 4, ENC_BIG_ENDIAN);
}
