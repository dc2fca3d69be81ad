/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * iWARP within TLS, where Wireshark can decrypt it (tls.keylog_file, or secrets in the capture): by
 * the ALPN "iwarp", or, for a peer without ALPN, by its start-up frames.
 *
 * TLS of Wireshark 4.0 tells no position, so octets are counted: on the first pass, what it hands
 * over begins where the last time something was waited for, or all was taken. Later passes find the
 * record by the octets.
 */
#include "state.h"

#include "../crc.h"

static struct iwarp_record *first_pass(tvbuff_t *tvb, packet_info *pinfo, bool patient)
{
    conversation_t *conversation = find_or_create_conversation(pinfo);
    struct iwarp_conn *c =
        (struct iwarp_conn *)conversation_get_proto_data(conversation, proto_iwarp);
    const bool is_new = !c;
    struct dissect_octets o = {.p = tvb_get_ptr(tvb, 0, (int)tvb_captured_length(tvb)),
                               .captured = tvb_captured_length(tvb),
                               .reported = tvb_reported_length(tvb),
                               .may_wait = pinfo->can_desegment > 0};
    struct iwarp_record *r;
    unsigned side;

    if (is_new && !patient && dissect_setup_kind(o.p, o.captured) == DISSECT_NO_SETUP) {
        return NULL;
    }
    if (is_new) {
        c = iwarp_new_conn(pinfo);
        c->within_tls = true;
        iwarp_count_conn(c);
        conversation_add_proto_data(conversation, proto_iwarp, c);
    }
    if (!c->within_tls) {
        return NULL;
    }
    side = iwarp_side_of(c, pinfo);
    o.seq = c->next[side];
    o.opening = o.seq == 0;
    r = iwarp_walk_over(pinfo, c, side, &o);
    c->next[side] += r && r->waits ? r->wait_at : (uint32_t)o.reported;
    return r;
}

static bool dissect(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, bool patient)
{
    const size_t n = tvb_captured_length(tvb);
    struct iwarp_record *r;
    uint32_t key;

    if (n == 0) {
        return false;
    }
    key = dissect_crc32c(0, tvb_get_ptr(tvb, 0, (int)n), n);
    r = (struct iwarp_record *)p_get_proto_data(wmem_file_scope(), pinfo, proto_iwarp, key);
    if (!r && !PINFO_FD_VISITED(pinfo)) {
        r = first_pass(tvb, pinfo, patient);
        if (r) {
            p_add_proto_data(wmem_file_scope(), pinfo, proto_iwarp, key, r);
        }
    }
    if (!r) {
        return false;
    }
    iwarp_paint(tvb, pinfo, tree, r);
    if (r->waits) {
        pinfo->desegment_offset = (int)r->wait_at;
        pinfo->desegment_len = r->wait_for;
    }
    return true;
}

static int dissect_by_name(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, void *data)
{
    (void)data;
    return dissect(tvb, pinfo, tree, true) ? (int)tvb_captured_length(tvb) : 0;
}

static ws_bool dissect_by_look(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, void *data)
{
    (void)data;
    return dissect(tvb, pinfo, tree, false);
}

void iwarp_tls_register(void)
{
    dissector_add_string("tls.alpn", "iwarp",
                         create_dissector_handle_with_name_and_description(
                             dissect_by_name, proto_iwarp, "iwarp_tls", "iWARP within TLS"));
    heur_dissector_add("tls", dissect_by_look, "iWARP within TLS", "iwarp_within_tls", proto_iwarp,
                       HEURISTIC_ENABLE);
}
