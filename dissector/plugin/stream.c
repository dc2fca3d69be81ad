/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Between TCP and the walk: connections, both passes, what is waited for. The first pass makes a
 * record of what TCP hands over (record.c); every pass paints from it.
 */
#include "state.h"

#include <epan/dissectors/packet-tcp.h>

static uint32_t connections;

static void reset(void)
{
    connections = 0;
    iwarp_record_reset();
    iwarp_keep_reset();
    iwarp_message_reset();
}

void iwarp_stream_register(void)
{
    register_init_routine(reset);
}

struct iwarp_conn *iwarp_new_conn(packet_info *pinfo)
{
    struct iwarp_conn *c = wmem_new0(wmem_file_scope(), struct iwarp_conn);

    copy_address_wmem(wmem_file_scope(), &c->addr[0], &pinfo->src);
    copy_address_wmem(wmem_file_scope(), &c->addr[1], &pinfo->dst);
    c->port[0] = pinfo->srcport;
    c->port[1] = pinfo->destport;
    c->setup_frame = pinfo->num;
    c->late_records = wmem_map_new(wmem_file_scope(), g_direct_hash, g_direct_equal);
    c->stags = wmem_map_new(wmem_file_scope(), g_int64_hash, g_int64_equal);
    for (unsigned i = 0; i < 2; i++) {
        c->side[i].last = &c->side[i].first;
        c->side[i].sends = wmem_map_new(wmem_file_scope(), g_direct_hash, g_direct_equal);
    }
    return c;
}

/* It is one: a number for it. */
void iwarp_count_conn(struct iwarp_conn *c)
{
    c->id = connections++;
}

/* So few octets begin a Request only as the first that a client sends: its SYN was captured. */
static bool is_opening(tvbuff_t *tvb, packet_info *pinfo, uint32_t seq)
{
    conversation_t *conversation;
    const struct tcp_analysis *tcp;

    if (tvb_reported_length(tvb) >= DISSECT_SHORTEST_KEY) {
        return false;
    }
    conversation = find_or_create_conversation(pinfo);
    tcp = get_tcp_conversation_data(conversation, pinfo);
    return tcp && tcp->server_port == pinfo->destport &&
           seq + iwarp_late_origin(conversation, pinfo) == tcp->fwd->base_seq + 1;
}

static struct dissect_octets octets_of(tvbuff_t *tvb, packet_info *pinfo, uint32_t seq)
{
    return (struct dissect_octets){.p = tvb_get_ptr(tvb, 0, (int)tvb_captured_length(tvb)),
                                   .captured = tvb_captured_length(tvb),
                                   .reported = tvb_reported_length(tvb),
                                   .seq = seq,
                                   .may_wait = pinfo->can_desegment > 0,
                                   .opening = is_opening(tvb, pinfo, seq)};
}

static struct iwarp_record *make_record(tvbuff_t *tvb, packet_info *pinfo, struct iwarp_conn *c,
                                        uint32_t seq)
{
    const struct dissect_octets o = octets_of(tvb, pinfo, seq);
    const unsigned side = iwarp_side_of(c, pinfo);
    struct iwarp_record *r = iwarp_walk_over(pinfo, c, side, &o);

    if (r) {
        iwarp_late_handed(c, side, &o, r);
    }
    return r;
}

/* Could a connection begin here? Most of what is asked about is something else: costs no memory. */
static bool could_be_iwarp(tvbuff_t *tvb, packet_info *pinfo, uint32_t seq)
{
    const struct dissect_octets o = octets_of(tvb, pinfo, seq);
    struct dissect_conn probe = {.no_midstream = !iwarp_options.midstream,
                                 .strict = iwarp_options.strict};
    struct dissect_item item;

    return dissect_walk(&probe, 0, &o, 0, &item);
}

static void paint_handed(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree,
                         struct iwarp_record *r)
{
    iwarp_paint(tvb, pinfo, tree, r);
    iwarp_late_shown(pinfo, tvb, r);
    if (r->waits) {
        pinfo->desegment_offset = (int)r->wait_at;
        pinfo->desegment_len = r->wait_for;
    }
}

/*
 * True if this is iWARP. A connection is remembered once something of it is certain; `patient`
 * allows to wait for octets that will make it so.
 */
bool iwarp_try(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, void *data, bool patient)
{
    const struct tcpinfo *tcp = (const struct tcpinfo *)data;
    conversation_t *conversation;
    struct iwarp_conn *c;
    struct iwarp_record *r;

    if (!tcp || tvb_captured_length(tvb) == 0) {
        return false;
    }
    r = (struct iwarp_record *)p_get_proto_data(wmem_file_scope(), pinfo, proto_iwarp, tcp->seq);
    if (r) {
        paint_handed(tvb, pinfo, tree, r);
        return true;
    }
    conversation = find_or_create_conversation(pinfo);
    c = (struct iwarp_conn *)conversation_get_proto_data(conversation, proto_iwarp);
    if (PINFO_FD_VISITED(pinfo)) {
        return c && iwarp_late_has(c, pinfo);
    }
    if (!c) {
        if (!could_be_iwarp(tvb, pinfo, tcp->seq)) {
            return false;
        }
        c = iwarp_new_conn(pinfo);
        r = make_record(tvb, pinfo, c, tcp->seq);
        if (!r || (r->count == 0 && !patient)) {
            return false;
        }
        if (r->count > 0) {
            iwarp_count_conn(c);
            conversation_add_proto_data(conversation, proto_iwarp, c);
            conversation_set_dissector(conversation, find_dissector("iwarp"));
        }
    } else if (!c->within_tls) {
        r = make_record(tvb, pinfo, c, tcp->seq);
    }
    if (!r) {
        return false;
    }
    p_add_proto_data(wmem_file_scope(), pinfo, proto_iwarp, tcp->seq, r);
    paint_handed(tvb, pinfo, tree, r);
    return true;
}

int iwarp_dissect(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, void *data)
{
    return iwarp_try(tvb, pinfo, tree, data, true) ? (int)tvb_captured_length(tvb) : 0;
}
