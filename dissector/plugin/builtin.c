/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fields of the dissectors that come with Wireshark, filled by this one too, so that filters,
 * scripts and colour rules made for them go on working. Hidden; only those that this version has,
 * with the type that is expected.
 */
#include "state.h"

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
    ATOMIC_ANSWER
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
    {"iwarp_mpa.res", FT_UINT8, START, 16, 1, -1},
    {"iwarp_mpa.rev", FT_UINT8, START, 17, 1, -1},
    {"iwarp_mpa.pdlength", FT_UINT16, START, 18, 2, -1},
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
    {"iwarp_rdma.atomic.opcode", FT_UINT32, ATOMIC, 20, 4, -1},
    {"iwarp_rdma.atomic.request_identifier", FT_UINT32, ATOMIC, 24, 4, -1},
    {"iwarp_rdma.atomic.remote_stag", FT_UINT32, ATOMIC, 28, 4, -1},
    {"iwarp_rdma.atomic.remote_tagged_offset", FT_UINT64, ATOMIC, 32, 8, -1},
    {"iwarp_rdma.atomic.compare_data", FT_UINT64, ATOMIC, 56, 8, -1},
    {"iwarp_rdma.atomic.compare_mask", FT_UINT64, ATOMIC, 64, 8, -1},
    {"iwarp_rdma.atomic.original_request_identifier", FT_UINT32, ATOMIC_ANSWER, 20, 4, -1},
    {"iwarp_rdma.atomic.original_remote_data_value", FT_UINT64, ATOMIC_ANSWER, 24, 8, -1},
};

static int mpa, ddp, crc, crc_check, pad, private_data;

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
    mpa = proto_get_id_by_filter_name("iwarp_mpa");
    ddp = proto_get_id_by_filter_name("iwarp_ddp_rdmap");
    crc = find("iwarp_mpa.crc", FT_UINT32);
    crc_check = find("iwarp_mpa.crc_check", FT_UINT32);
    pad = find("iwarp_mpa.pad", FT_BYTES);
    private_data = find("iwarp_mpa.privatedata", FT_BYTES);
}

static void put(proto_tree *tree, int id, tvbuff_t *tvb, unsigned at, unsigned n, unsigned encoding)
{
    if (id > 0 && tvb_bytes_exist(tvb, (int)at, (int)n)) {
        proto_item_set_hidden(proto_tree_add_item(tree, id, tvb, (int)at, (int)n, encoding));
    }
}

static void put_all(proto_tree *tree, tvbuff_t *tvb, unsigned at, unsigned set)
{
    for (size_t i = 0; i < G_N_ELEMENTS(builtins); i++) {
        const struct builtin *b = &builtins[i];
        if (set >> b->when & 1) {
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
    put(tree, mpa, tvb, (unsigned)item->at, DISSECT_SETUP_SIZE, ENC_NA);
    put_all(tree, tvb, (unsigned)item->at,
            1u << START | 1u << (s->kind == DISSECT_REPLY ? REPLY : REQUEST));
    if (s->private_length > 0) {
        put(tree, private_data, tvb, (unsigned)item->at + DISSECT_SETUP_SIZE, s->private_length,
            ENC_NA);
    }
}

static unsigned set_of(const struct dissect_header *h)
{
    unsigned set = 1u << FPDU | 1u << (h->tagged ? TAGGED : UNTAGGED);

    if (h->tagged) {
        return set;
    }
    set |= 1u << (dissect_opcode_invalidates(h->opcode) ? INVALIDATING : PLAIN);
    set |= h->opcode == DISSECT_READ_REQUEST ? 1u << READ : 0;
    set |= h->opcode == DISSECT_ATOMIC_REQUEST ? 1u << ATOMIC : 0;
    set |= h->opcode == DISSECT_ATOMIC_RESPONSE ? 1u << ATOMIC_ANSWER : 0;
    return set;
}

void iwarp_builtin_fpdu(tvbuff_t *body, proto_tree *tree, const struct iwarp_fpdu *f,
                        const struct dissect_header *h)
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
    put_all(tree, body, 0, set_of(h));
    if (frame->pad > 0) {
        put(tree, pad, body, end, frame->pad, ENC_NA);
    }
    put(tree, checked ? crc_check : crc, body, end + frame->pad, 4, ENC_BIG_ENDIAN);
}
