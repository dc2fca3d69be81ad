/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tables over a whole file: response times (-z iwarp,srt), STags (-z iwarp,stag), conversations and
 * endpoints (-z conv,iwarp and -z endpoints,iwarp), which count payload, not octets on the wire.
 */
#include "tables.h"

#include <epan/conversation_table.h>
#include <epan/srt_table.h>
#include <epan/stat_tap_ui.h>
#include <epan/tap.h>

/* --- response times --- */

static void srt_init(struct register_srt *srt, GArray *tables)
{
    srt_stat_table *t =
        init_srt_table("iWARP", NULL, tables, 2, "Request", "iwarp.rdmap.opcode", NULL);

    (void)srt;
    init_srt_table_row(t, 0, "RDMA Read");
    init_srt_table_row(t, 1, "Atomic");
}

static tap_packet_status srt_packet(void *data, packet_info *pinfo, epan_dissect_t *edt,
                                    const void *tapped, tap_flags_t flags)
{
    const struct iwarp_tap *t = (const struct iwarp_tap *)tapped;
    srt_data_t *srt = (srt_data_t *)data;
    const struct iwarp_exchange *e = t->fpdu->exchange;

    (void)edt;
    (void)flags;
    if (!e || !t->fpdu->ends_exchange) {
        return TAP_PACKET_DONT_REDRAW;
    }
    add_srt_table_data(g_array_index(srt->srt_array, srt_stat_table *, 0), e->atomic ? 1 : 0,
                       &e->request_time, pinfo);
    return TAP_PACKET_REDRAW;
}

/* --- STags --- */

enum { COL_STAG, COL_STREAM, COL_FIRST, COL_WRITES, COL_READS, COL_OCTETS, COL_INVALID, STAG_COLS };

static stat_tap_table_item stag_columns[STAG_COLS] = {
    {TABLE_ITEM_STRING, TAP_ALIGN_LEFT, "STag", "%-12s"},
    {TABLE_ITEM_UINT, TAP_ALIGN_RIGHT, "Stream", "%6d"},
    {TABLE_ITEM_UINT, TAP_ALIGN_RIGHT, "First in", "%8d"},
    {TABLE_ITEM_UINT, TAP_ALIGN_RIGHT, "Written to", "%10d"},
    {TABLE_ITEM_UINT, TAP_ALIGN_RIGHT, "Read from", "%10d"},
    {TABLE_ITEM_UINT, TAP_ALIGN_RIGHT, "Octets", "%10d"},
    {TABLE_ITEM_UINT, TAP_ALIGN_RIGHT, "Invalidated in", "%8d"},
};

/* Of each table the rows, counted from 1, by stream and STag: programs use many STags. */
static GHashTable *indexes;

static void stag_init(stat_tap_table_ui *ui)
{
    stat_tap_table *table = stat_tap_init_table("STags", STAG_COLS, 0, NULL);

    if (!indexes) {
        indexes = g_hash_table_new_full(g_direct_hash, g_direct_equal, NULL,
                                        (GDestroyNotify)g_hash_table_destroy);
    }
    g_hash_table_replace(indexes, table,
                         g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL));
    stat_tap_add_table(ui, table);
}

static unsigned stag_row(stat_tap_table *table, uint32_t stream, uint32_t stag, uint32_t frame)
{
    const gint64 key = (gint64)stream << 32 | stag;
    GHashTable *index = (GHashTable *)g_hash_table_lookup(indexes, table);
    unsigned known = GPOINTER_TO_UINT(g_hash_table_lookup(index, &key));
    stat_tap_table_item_type row[STAG_COLS];
    gint64 *kept;

    if (known > 0) {
        return known - 1;
    }
    memset(row, 0, sizeof row);
    for (unsigned i = 0; i < STAG_COLS; i++) {
        row[i].type = TABLE_ITEM_UINT;
    }
    row[COL_STAG].type = TABLE_ITEM_STRING;
    row[COL_STAG].value.string_value = g_strdup_printf("0x%08x", stag);
    row[COL_STREAM].value.uint_value = stream;
    row[COL_FIRST].value.uint_value = frame;
    stat_tap_init_table_row(table, table->num_elements, STAG_COLS, row);
    kept = g_new(gint64, 1);
    *kept = key;
    g_hash_table_insert(index, kept, GUINT_TO_POINTER(table->num_elements));
    return table->num_elements - 1;
}

static void stag_add(stat_tap_table *table, unsigned row, unsigned column, uint32_t n)
{
    stat_tap_table_item_type *item = stat_tap_get_field_data(table, row, column);

    item->value.uint_value += n;
    stat_tap_set_field_data(table, row, column, item);
}

static tap_packet_status stag_packet(void *data, packet_info *pinfo, epan_dissect_t *edt,
                                     const void *tapped, tap_flags_t flags)
{
    const struct iwarp_tap *t = (const struct iwarp_tap *)tapped;
    const stat_data_t *stat = (const stat_data_t *)data;
    stat_tap_table *table = g_array_index(stat->stat_tap_data->tables, stat_tap_table *, 0);
    const struct dissect_header *h = &t->header;
    unsigned row;

    (void)edt;
    (void)flags;
    if (h->tagged && h->payload > 0) {
        row = stag_row(table, t->conn->id, h->stag, pinfo->num);
        stag_add(table, row, COL_WRITES, 1);
        stag_add(table, row, COL_OCTETS, h->payload);
    } else if (t->has_read && t->read.length > 0) {
        row = stag_row(table, t->conn->id, t->read.source_stag, pinfo->num);
        stag_add(table, row, COL_READS, 1);
        stag_add(table, row, COL_OCTETS, t->read.length);
    } else if (dissect_opcode_invalidates(h->opcode) && h->last) {
        row = stag_row(table, t->conn->id, h->stag, pinfo->num);
        stat_tap_get_field_data(table, row, COL_INVALID)->value.uint_value = pinfo->num;
    } else {
        return TAP_PACKET_DONT_REDRAW;
    }
    return TAP_PACKET_REDRAW;
}

static void stag_reset(stat_tap_table *table)
{
    for (unsigned row = 0; row < table->num_elements; row++) {
        for (unsigned column = COL_WRITES; column <= COL_OCTETS; column++) {
            stat_tap_get_field_data(table, row, column)->value.uint_value = 0;
        }
    }
}

static void stag_free(stat_tap_table *table, guint row, guint column,
                      stat_tap_table_item_type *item)
{
    (void)table;
    (void)row;
    if (column == COL_STAG) {
        g_free((char *)(uintptr_t)item->value.string_value);
    }
}

static stat_tap_table_ui stag_table = {
    .group = REGISTER_PACKET_STAT_GROUP_UNSORTED,
    .title = "iWARP STags",
    .tap_name = "iwarp",
    .cli_string = "iwarp,stag",
    .stat_tap_init_cb = stag_init,
    .packet_func = stag_packet,
    .stat_tap_reset_table_cb = stag_reset,
    .stat_tap_free_table_item_cb = stag_free,
    .nfields = STAG_COLS,
    .fields = stag_columns,
};

/* --- conversations and endpoints --- */

/* Of the address family that the row has. */
static const char *filter_of(bool v6, conv_filter_type_e type)
{
    switch (type) {
    case CONV_FT_SRC_PORT:
        return "tcp.srcport";
    case CONV_FT_DST_PORT:
        return "tcp.dstport";
    case CONV_FT_ANY_PORT:
        return "tcp.port";
    case CONV_FT_SRC_ADDRESS:
        return v6 ? "ipv6.src" : "ip.src";
    case CONV_FT_DST_ADDRESS:
        return v6 ? "ipv6.dst" : "ip.dst";
    case CONV_FT_ANY_ADDRESS:
        return v6 ? "ipv6.addr" : "ip.addr";
    default:
        return CONV_FILTER_INVALID;
    }
}

static const char *conversation_filter(struct _conversation_item_t *item, conv_filter_type_e type)
{
    return filter_of(item->src_address.type == AT_IPv6, type);
}

static const char *endpoint_filter(struct _endpoint_item_t *item, conv_filter_type_e type)
{
    return filter_of(item->myaddress.type == AT_IPv6, type);
}

static ct_dissector_info_t conversation_info = {conversation_filter};
static et_dissector_info_t endpoint_info = {endpoint_filter};

static tap_packet_status conversation_packet(void *data, packet_info *pinfo, epan_dissect_t *edt,
                                             const void *tapped, tap_flags_t flags)
{
    const struct iwarp_tap *t = (const struct iwarp_tap *)tapped;
    conv_hash_t *hash = (conv_hash_t *)data;

    (void)edt;
    hash->flags = flags;
    add_conversation_table_data(hash, &pinfo->src, &pinfo->dst, pinfo->srcport, pinfo->destport, 1,
                                (int)t->header.payload, &pinfo->rel_ts, &pinfo->abs_ts,
                                &conversation_info, CONVERSATION_TCP);
    return TAP_PACKET_REDRAW;
}

static tap_packet_status endpoint_packet(void *data, packet_info *pinfo, epan_dissect_t *edt,
                                         const void *tapped, tap_flags_t flags)
{
    const struct iwarp_tap *t = (const struct iwarp_tap *)tapped;
    conv_hash_t *hash = (conv_hash_t *)data;
    const int n = (int)t->header.payload;

    (void)edt;
    hash->flags = flags;
    add_endpoint_table_data(hash, &pinfo->src, pinfo->srcport, TRUE, 1, n, &endpoint_info,
                            ENDPOINT_TCP);
    add_endpoint_table_data(hash, &pinfo->dst, pinfo->destport, FALSE, 1, n, &endpoint_info,
                            ENDPOINT_TCP);
    return TAP_PACKET_REDRAW;
}

void iwarp_tables_register(void)
{
    register_srt_table(proto_iwarp, NULL, 1, srt_packet, srt_init, NULL);
    register_stat_tap_table_ui(&stag_table);
    register_conversation_table(proto_iwarp, FALSE, conversation_packet, endpoint_packet);
}
