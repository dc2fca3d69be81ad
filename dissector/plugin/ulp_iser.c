/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * iSER: its dissector in Wireshark knows the header of 28 octets of RFC 7145 with an iSCSI PDU
 * behind it. The Hello messages, and the header of 12 octets of RFC 5046, are done here.
 */
#include "state.h"

#include "../wire.h"

/* RFC 5046 and RFC 7145 9: the upper half of the first octet. */
enum { CONTROL = 1, HELLO = 2, HELLO_REPLY = 3 };

enum { SHORT_HEADER = 12, LONG_HEADER = 28, BASIC_SEGMENT = 48 };

static dissector_handle_t iser, iscsi;

void iwarp_iser_register(void)
{
    iscsi = find_dissector("iscsi");
    iser = find_dissector("iser");
    if (!iser) {
        /* Older versions have no name for it, but a row in a table. */
        iser = dissector_table_get_dissector_handle(find_dissector_table("infiniband"), "iSER");
    }
}

/* Do the lengths of an iSCSI header at this place (RFC 7143 11.2) lead to the end? */
static bool is_iscsi_at(const uint8_t *p, unsigned n, unsigned at)
{
    unsigned size;

    if (n < at + BASIC_SEGMENT) {
        return false;
    }
    size = BASIC_SEGMENT + 4u * p[at + 4] + ((wire_u32(p + at + 4) & 0xffffff) + 3) / 4 * 4;
    return at + size == n;
}

static proto_tree *paint_head(const struct iwarp_offer *o, packet_info *pinfo, proto_tree *top,
                              unsigned size)
{
    proto_tree *t =
        proto_tree_add_subtree(top, o->message, 0, (int)size, iwarp_ett[ETT_ULP], NULL, "iSER");

    col_set_str(pinfo->cinfo, COL_PROTOCOL, "iSER");
    iwarp_put(t, HF_ISER_OPCODE, o->message, 0, 1, ENC_NA);
    return t;
}

static bool paint_hello(const struct iwarp_offer *o, packet_info *pinfo, proto_tree *top,
                        uint8_t opcode, unsigned size)
{
    proto_tree *t = paint_head(o, pinfo, top, size);
    const bool reply = opcode == HELLO_REPLY;

    if (reply) {
        iwarp_put(t, HF_ISER_REJECTED, o->message, 0, 1, ENC_NA);
    }
    iwarp_put(t, HF_ISER_MAX_VERSION, o->message, 1, 1, ENC_NA);
    iwarp_put(t, reply ? HF_ISER_CUR_VERSION : HF_ISER_MIN_VERSION, o->message, 1, 1, ENC_NA);
    iwarp_put(t, reply ? HF_ISER_ORD : HF_ISER_IRD, o->message, 2, 2, ENC_BIG_ENDIAN);
    col_append_fstr(pinfo->cinfo, COL_INFO, "iSER %s, %s %u", reply ? "HelloReply" : "Hello",
                    reply ? "ORD" : "IRD", tvb_get_ntohs(o->message, 2));
    return true;
}

static bool hand_iscsi(const struct iwarp_offer *o, packet_info *pinfo, proto_tree *top)
{
    proto_tree *t = paint_head(o, pinfo, top, SHORT_HEADER);

    iwarp_put(t, HF_ISER_WSV, o->message, 0, 1, ENC_NA);
    iwarp_put(t, HF_ISER_RSV, o->message, 0, 1, ENC_NA);
    iwarp_put(t, HF_ISER_WRITE_STAG, o->message, 4, 4, ENC_BIG_ENDIAN);
    iwarp_put(t, HF_ISER_READ_STAG, o->message, 8, 4, ENC_BIG_ENDIAN);
    call_dissector(iscsi, tvb_new_subset_remaining(o->message, SHORT_HEADER), pinfo, top);
    return true;
}

bool iwarp_iser_offer(const struct iwarp_offer *o, packet_info *pinfo, proto_tree *top)
{
    const unsigned n = tvb_captured_length(o->message);
    const uint8_t *p = n > 0 ? tvb_get_ptr(o->message, 0, (int)n) : NULL;
    const uint8_t opcode = n > 0 ? p[0] >> 4 : 0;

    if (n < tvb_reported_length(o->message)) {
        return false;
    }
    if ((opcode == HELLO || opcode == HELLO_REPLY) && (n == SHORT_HEADER || n == LONG_HEADER)) {
        return paint_hello(o, pinfo, top, opcode, n);
    }
    if (opcode == CONTROL && iscsi && is_iscsi_at(p, n, SHORT_HEADER) &&
        !is_iscsi_at(p, n, LONG_HEADER)) {
        return hand_iscsi(o, pinfo, top);
    }
    return iser && n >= LONG_HEADER && call_dissector_only(iser, o->message, pinfo, top, NULL) > 0;
}
