/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tap that statistics listen to, and the tree of counts (-z iwarp,tree).
 */
#include "tables.h"

#include <epan/stats_tree.h>
#include <epan/tap.h>

static int tap_id;
static int node_opcodes, node_crc, node_sizes, node_experts, node_markers;

void iwarp_tap(packet_info *pinfo, const struct iwarp_tap *tap)
{
    tap_queue_packet(tap_id, pinfo, tap);
    iwarp_content_tap(pinfo, tap);
}

static void tree_init(stats_tree *st)
{
    node_opcodes = stats_tree_create_node(st, "FPDUs by opcode", 0, STAT_DT_INT, TRUE);
    node_crc = stats_tree_create_node(st, "CRC status", 0, STAT_DT_INT, TRUE);
    node_markers = stats_tree_create_node(st, "Markers", 0, STAT_DT_INT, TRUE);
    node_sizes = stats_tree_create_range_node(st, "Payload octets", 0, "0-0", "1-64", "65-512",
                                              "513-1448", "1449-8942", "8943-", NULL);
    node_experts = stats_tree_create_node(st, "What is wrong", 0, STAT_DT_INT, TRUE);
}

static tap_packet_status tree_packet(stats_tree *st, packet_info *pinfo, epan_dissect_t *edt,
                                     const void *data, tap_flags_t flags)
{
    static const char *const status[] = {"Bad", "Good", "Unverified", "Not present"};
    const struct iwarp_tap *t = (const struct iwarp_tap *)data;

    (void)pinfo;
    (void)edt;
    (void)flags;
    tick_stat_node(st, "FPDUs by opcode", 0, FALSE);
    tick_stat_node(st, dissect_opcode_name(t->header.opcode), node_opcodes, FALSE);
    tick_stat_node(st, "CRC status", 0, FALSE);
    tick_stat_node(st, status[t->fpdu->item.crc_status], node_crc, FALSE);
    if (t->fpdu->item.frame.markers > 0) {
        increase_stat_node(st, "Markers", 0, FALSE, (int)t->fpdu->item.frame.markers);
    }
    tick_stat_node(st, "Payload octets", 0, FALSE);
    stats_tree_tick_range(st, "Payload octets", 0, (int)t->header.payload);
    for (unsigned i = 0; i < EI_COUNT; i++) {
        if (t->fpdu->experts & EI_BIT(i)) {
            const char *abbrev = proto_registrar_get_abbrev(iwarp_ei[i].hf);
            tick_stat_node(st, "What is wrong", 0, FALSE);
            tick_stat_node(st, abbrev ? abbrev : "unknown", node_experts, FALSE);
        }
    }
    return TAP_PACKET_REDRAW;
}

void iwarp_taps_register(void)
{
    tap_id = register_tap("iwarp");
    iwarp_tables_register();
    iwarp_content_register();
}

void iwarp_taps_handoff(void)
{
    stats_tree_register_plugin("iwarp", "iwarp", "iWARP/FPDUs", 0, tree_packet, tree_init, NULL);
}
