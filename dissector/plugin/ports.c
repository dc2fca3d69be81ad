/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * TCP ports that another protocol owns, which iWARP is used on too. A handle of ours takes the
 * place of the owner's, looks whether the stream is iWARP, and calls the owner if not. It belongs
 * to no protocol, so that it neither shows as a layer nor can be disabled apart from ours.
 *
 * NVMe/TCP, shown the middle of something else, would wait for a length that is none, and keep what
 * comes behind from us. So a connection whose beginning is not captured is kept from it until a
 * header of its PDUs is seen.
 */
#include "state.h"

#include "../wire.h"

#include <epan/dissectors/packet-tcp.h>

static dissector_handle_t chain, own;
static dissector_table_t ports;
static range_t *taken;
static wmem_map_t *owners; /* by port */

/* Where each connection was first seen to be the owner's, by conversation. */
static wmem_map_t *settled;

/* A whole header, of an FPDU or of a start-up frame, is worth to wait for the rest. */
static bool is_worth_waiting(tvbuff_t *tvb)
{
    const unsigned n = MIN(tvb_captured_length(tvb), DISSECT_LENGTH_SIZE + DISSECT_UNTAGGED_SIZE);
    const uint8_t *p = tvb_get_ptr(tvb, 0, (int)n);
    struct dissect_header h;

    if (dissect_setup_kind(p, n) != DISSECT_NO_SETUP) {
        return true;
    }
    return iwarp_options.midstream && n > DISSECT_LENGTH_SIZE &&
           dissect_header_decode(&h, p + DISSECT_LENGTH_SIZE, n - DISSECT_LENGTH_SIZE, wire_u16(p),
                                 false) &&
           dissect_header_plausible(&h);
}

static bool is_ours(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, void *data)
{
    return proto_is_protocol_enabled(find_protocol_by_id(proto_iwarp)) &&
           iwarp_try(tvb, pinfo, tree, data, is_worth_waiting(tvb));
}

/* NVMe/TCP transport specification, 3.6.1: type, flags, and a header length that the type fixes. */
static bool is_nvme_pdu(tvbuff_t *tvb)
{
    static const uint8_t header_lengths[] = {128, 128, 24, 24, 72, 24, 24, 24, 0, 24};
    uint8_t type;

    if (tvb_captured_length(tvb) < 3) {
        return false;
    }
    type = tvb_get_uint8(tvb, 0);
    return type < sizeof header_lengths && header_lengths[type] != 0 &&
           tvb_get_uint8(tvb, 2) == header_lengths[type];
}

static bool is_for_owner(tvbuff_t *tvb, packet_info *pinfo, dissector_handle_t owner)
{
    const char *name = proto_get_protocol_filter_name(dissector_handle_get_protocol_index(owner));
    conversation_t *conversation = find_conversation_pinfo(pinfo, 0);
    uint32_t since;

    if (!conversation || !name || strcmp(name, "nvme-tcp") != 0 ||
        !proto_is_protocol_enabled(find_protocol_by_id(proto_iwarp)) || !iwarp_options.midstream) {
        return true;
    }
    since = GPOINTER_TO_UINT(wmem_map_lookup(settled, conversation));
    if (since != 0 && since <= pinfo->num) {
        return true;
    }
    /* The server's port is known if a SYN was captured. */
    if (get_tcp_conversation_data(conversation, pinfo)->server_port != 0 || is_nvme_pdu(tvb)) {
        wmem_map_insert(settled, conversation, GUINT_TO_POINTER(pinfo->num));
        return true;
    }
    return false;
}

/* Each level of calls takes one from can_desegment; this one is not meant to count. */
static int dissect_shared(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, void *data)
{
    const uint16_t level = pinfo->can_desegment;
    const uint32_t port = pinfo->match_uint;
    dissector_handle_t owner = (dissector_handle_t)wmem_map_lookup(owners, GUINT_TO_POINTER(port));
    int n = 0;

    pinfo->can_desegment = pinfo->saved_can_desegment;
    if (is_ours(tvb, pinfo, tree, data)) {
        n = (int)tvb_captured_length(tvb);
    } else if (owner && is_for_owner(tvb, pinfo, owner)) {
        n = call_dissector_only(owner, tvb, pinfo, tree, data);
    }
    pinfo->can_desegment = level;
    return n;
}

static void give_back(uint32_t port, void *unused)
{
    dissector_handle_t owner = (dissector_handle_t)wmem_map_lookup(owners, GUINT_TO_POINTER(port));

    (void)unused;
    if (owner && dissector_get_uint_handle(ports, port) == chain) {
        dissector_delete_uint("tcp.port", port, chain);
        dissector_add_uint("tcp.port", port, owner);
    }
}

/* Ports without an owner need nothing: the heuristic sees them. */
static void take(uint32_t port, void *unused)
{
    dissector_handle_t owner = dissector_get_uint_handle(ports, port);

    (void)unused;
    if (owner && owner != chain && owner != own) {
        wmem_map_insert(owners, GUINT_TO_POINTER(port), owner);
        dissector_add_uint("tcp.port", port, chain);
    }
}

void iwarp_ports_apply(void)
{
    if (!owners) {
        return; /* preferences are read once before the handoff */
    }
    if (taken) {
        range_foreach(taken, give_back, NULL);
        wmem_free(wmem_epan_scope(), taken);
    }
    taken = range_copy(wmem_epan_scope(), iwarp_options.shared_ports);
    range_foreach(taken, take, NULL);
}

void iwarp_ports_start(dissector_handle_t ours)
{
    own = ours;
    ports = find_dissector_table("tcp.port");
    owners = wmem_map_new(wmem_epan_scope(), g_direct_hash, g_direct_equal);
    settled =
        wmem_map_new_autoreset(wmem_epan_scope(), wmem_file_scope(), g_direct_hash, g_direct_equal);
    chain = create_dissector_handle_with_name_and_description(
        dissect_shared, -1, "iwarp_port_chain", "iWARP or the owner of the port");
    iwarp_ports_apply();
}
