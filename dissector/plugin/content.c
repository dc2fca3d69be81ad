/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Payload taken out of the file: as the stream of a connection (-z follow,iwarp,hex,0), and each
 * whole message as a file (--export-objects iwarp,FOLDER).
 */
#include "tables.h"

#include <epan/export_object.h>
#include <epan/follow.h>
#include <epan/tap.h>

static int follow_tap, export_tap;

static char *by_index(unsigned stream, unsigned sub_stream)
{
    (void)sub_stream;
    return g_strdup_printf("iwarp.stream eq %u", stream);
}

#if WSVER < 404
static char *by_packet(epan_dissect_t *edt, packet_info *pinfo, guint *stream, guint *sub_stream)
#else
static char *by_packet(epan_dissect_t *edt, packet_info *pinfo, unsigned *stream,
                       unsigned *sub_stream)
#endif
{
    conversation_t *conversation = find_conversation_pinfo(pinfo, 0);
    const struct iwarp_conn *c;

    (void)edt;
    c = conversation
            ? (const struct iwarp_conn *)conversation_get_proto_data(conversation, proto_iwarp)
            : NULL;
    if (!c) {
        return NULL;
    }
    *stream = c->id;
    *sub_stream = 0;
    return by_index(c->id, 0);
}

static char *by_address(address *src, address *dst, int src_port, int dst_port)
{
    (void)src;
    (void)dst;
    return g_strdup_printf("tcp.port eq %d and tcp.port eq %d", src_port, dst_port);
}

static char *port_name(wmem_allocator_t *scope, unsigned port)
{
    return wmem_strdup_printf(scope, "%u", port);
}

static tap_packet_status export_packet(void *data, packet_info *pinfo, epan_dissect_t *edt,
                                       const void *tapped, tap_flags_t flags)
{
    export_object_list_t *list = (export_object_list_t *)data;
    const struct iwarp_tap *t = (const struct iwarp_tap *)tapped;
    export_object_entry_t *entry = g_new0(export_object_entry_t, 1);
    const unsigned n = tvb_captured_length(t->message);

    (void)edt;
    (void)flags;
    entry->pkt_num = pinfo->num;
    entry->hostname =
        g_strdup_printf("stream %u, %s", t->conn->id, t->initiator ? "initiator" : "responder");
    entry->content_type = g_strdup(dissect_opcode_name(t->header.opcode));
    if (t->header.tagged) {
        entry->filename = g_strdup_printf("stream%u-frame%u-stag%08x-to%" PRIx64, t->conn->id,
                                          pinfo->num, t->header.stag, t->fpdu->message->start);
    } else {
        entry->filename = g_strdup_printf("stream%u-%s-msn%u", t->conn->id,
                                          t->fpdu->side == 0 ? "a" : "b", t->header.msn);
    }
    entry->payload_len = n;
    entry->payload_data = (uint8_t *)tvb_memdup(NULL, t->message, 0, n);
    list->add_entry(list->gui_data, entry);
    return TAP_PACKET_REDRAW;
}

void iwarp_content_register(void)
{
    follow_tap = register_tap("iwarp_follow");
    export_tap = register_export_object(proto_iwarp, export_packet, NULL);
#if WSVER < 404
    register_follow_stream(proto_iwarp, "iwarp_follow", by_packet, by_index, by_address, port_name,
                           follow_tvb_tap_listener);
#else
    register_follow_stream(proto_iwarp, "iwarp_follow", by_packet, by_index, by_address, port_name,
                           follow_tvb_tap_listener, NULL, NULL);
#endif
}

void iwarp_content_tap(packet_info *pinfo, const struct iwarp_tap *tap)
{
    if (tap->payload && tvb_captured_length(tap->payload) > 0 && have_tap_listener(follow_tap)) {
        tap_queue_packet(follow_tap, pinfo, tap->payload);
    }
    if (tap->message && tvb_captured_length(tap->message) > 0 && have_tap_listener(export_tap)) {
        tap_queue_packet(export_tap, pinfo, tap);
    }
}
