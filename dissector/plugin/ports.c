/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * TCP ports that another protocol owns, which iWARP is used on too. A handle of ours takes the
 * place of the owner's, looks whether the stream is iWARP, and calls the owner if not. It belongs
 * to no protocol, so that it neither shows as a layer nor can be disabled apart from ours.
 */
#include "state.h"

static dissector_handle_t chain, own;
static dissector_table_t ports;
static range_t *taken;
static wmem_map_t *owners; /* by port */

static bool is_ours(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, void *data)
{
    return proto_is_protocol_enabled(find_protocol_by_id(proto_iwarp)) &&
           iwarp_try(tvb, pinfo, tree, data,
                     tvb_captured_length(tvb) >= 4 &&
                         dissect_setup_kind(tvb_get_ptr(tvb, 0, 4), 4) != DISSECT_NO_SETUP);
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
    } else if (owner) {
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
    chain = create_dissector_handle_with_name_and_description(
        dissect_shared, -1, "iwarp_port_chain", "iWARP or the owner of the port");
    iwarp_ports_apply();
}
