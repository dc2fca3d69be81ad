/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * NVMe over RDMA: its dissector knows InfiniBand only, so the connection is presented as one: a
 * queue pair of the same addresses and ports, whose packets carry whole messages. The two
 * directions are conversations of their own, made after the one of both, or they would be found in
 * its place.
 */
#include "state.h"

#include <epan/dissectors/packet-infiniband.h>

/* Service identifiers of TCP ports, and where a CM request has the queue's number. */
#define TCP_SERVICE UINT64_C(0x0000000001060000)
#define QID_AT      178

/* Commands of NVMe over Fabrics, and the operations by which a queue is told. */
enum { COMMAND_SIZE = 64, CONNECT_QID = 42, CONNECT = 1 };
enum { FLUSH = 0, WRITE = 1, READ = 2, COMPARE = 5, FABRICS = 0x7f };

static heur_dtbl_entry_t *dissector(void)
{
    return find_heur_dissector_by_unique_short_name("nvme_rdma");
}

static void add_way(const struct iwarp_conn *c, unsigned to, uint64_t service, const uint8_t *qid)
{
    const int infiniband = proto_get_id_by_filter_name("infiniband");
    conversation_infiniband_data *d = wmem_new0(wmem_file_scope(), conversation_infiniband_data);
    conversation_t *way =
        conversation_new(c->setup_frame, &c->addr[to], &c->addr[to], CONVERSATION_IBQP, c->port[to],
                         c->port[to], NO_ADDR2 | NO_PORT2);

    d->service_id = service;
    d->client_to_server = to == iwarp_responder(c);
    d->src_qp = c->port[1 - to]; /* by which the other way, and its queue, is found */
    memcpy(d->mad_private_data + QID_AT, qid, 2);
    conversation_add_proto_data(way, infiniband, d);
}

/*
 * Without private data (the capture begins later) the first command tells: a Connect names its
 * queue, and some operations are no administrator's over fabrics. Little-endian, as it is there.
 */
static bool guess_queue(const struct iwarp_offer *o, uint8_t qid[2])
{
    uint8_t command[COMMAND_SIZE];
    uint32_t space;

    if (!o->message || !dissect_opcode_is_send(o->header->opcode) ||
        tvb_captured_length(o->message) < COMMAND_SIZE) {
        return false;
    }
    tvb_memcpy(o->message, command, 0, COMMAND_SIZE);
    memcpy(&space, command + 4, 4);
    if (command[0] == FABRICS) {
        memcpy(qid, command + CONNECT_QID, command[4] == CONNECT ? 2 : 0);
    } else if (command[0] == FLUSH || command[0] == WRITE || command[0] == COMPARE ||
               (command[0] == READ && space != 0 && space != UINT32_MAX)) {
        qid[0] = 1;
    }
    return true;
}

/* False as long as it is not known which queue this is. */
static bool make_conversations(struct iwarp_conn *c, const struct iwarp_offer *o)
{
    const unsigned responder = iwarp_responder(c);
    const uint64_t service = TCP_SERVICE + c->port[responder];
    uint8_t qid[2] = {0, 0};

    if (c->private_size[1 - responder] >= 4) {
        memcpy(qid, c->private_data[1 - responder] + 2, sizeof qid);
    } else if (!guess_queue(o, qid)) {
        return false;
    }
    c->nvme_from = o->fpdu->number;

    c->nvme = conversation_new(c->setup_frame, &c->addr[0], &c->addr[1], CONVERSATION_IBQP,
                               c->port[0], c->port[1], 0);
    add_way(c, 0, service, qid);
    add_way(c, 1, service, qid);
    return true;
}

/* Whole messages only; numbers stand for the packet sequence numbers that link Reads. */
static tvbuff_t *present(struct infinibandinfo *ib, const struct iwarp_offer *o)
{
    const struct dissect_header *h = o->header;

    ib->packet_seq_num = o->fpdu->number & 0xffffff;
    if (o->read) {
        ib->opCode = RC_RDMA_READ_REQUEST;
        ib->reth_remote_key = o->read->source_stag;
        ib->reth_remote_address = o->read->source_to;
        ib->reth_dma_length = o->read->length;
        return tvb_new_subset_length_caplen(o->payload, (int)tvb_captured_length(o->payload), 0, 0);
    }
    if (!o->message || tvb_reported_length(o->message) == 0) {
        return NULL;
    }
    if (h->opcode == DISSECT_WRITE) {
        ib->opCode = RC_RDMA_WRITE_ONLY;
        ib->reth_remote_key = h->stag;
        ib->reth_remote_address = o->fpdu->message ? o->fpdu->message->start : h->to;
        ib->reth_dma_length = tvb_reported_length(o->message);
    } else if (h->opcode == DISSECT_READ_RESPONSE && o->fpdu->exchange) {
        ib->opCode = RC_RDMA_READ_RESPONSE_ONLY;
        ib->packet_seq_num = o->fpdu->exchange->number & 0xffffff;
    } else if (dissect_opcode_is_send(h->opcode)) {
        ib->opCode = RC_SEND_ONLY;
    } else {
        return NULL;
    }
    return o->message;
}

bool iwarp_nvme_offer(const struct iwarp_offer *o, packet_info *pinfo, proto_tree *top)
{
    heur_dtbl_entry_t *entry = dissector();
    struct infinibandinfo ib = {.payload_tree = top};
    tvbuff_t *tvb;

    if (!entry || !entry->enabled || !proto_is_protocol_enabled(entry->protocol)) {
        return false;
    }
    tvb = present(&ib, o);
    if (!tvb) {
        return false;
    }
    if (o->record->conn->nvme ? o->fpdu->number < o->record->conn->nvme_from
                              : !make_conversations(o->record->conn, o)) {
        return false;
    }
    return entry->dissector(tvb, pinfo, top, &ib);
}
