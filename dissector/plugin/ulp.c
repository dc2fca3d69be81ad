/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which upper layer a connection carries, and payload handed to its dissector: whole Sends, never
 * short or empty ones, and what RPC-over-RDMA wants besides. An error of theirs ends nothing here.
 */
#include "state.h"

#include <epan/dissectors/packet-iwarp-ddp-rdmap.h>
#include <epan/exceptions.h>
#include <epan/show_exception.h>

static heur_dissector_list_t heuristics;
static int rpc_over_rdma;

/*
 * RPC-over-RDMA keeps one of each of these for a frame (its identifier, what was put together, and
 * a size), as if there were one message in it. So each FPDU has its own, which are there only while
 * it is handed over.
 */
enum { RPC_KEYS = 3 };

/* Shorter Sends belong to no message of these: RPC-over-RDMA has 16 octets, SMB Direct 20. */
enum { SHORTEST_RPC = 16, SHORTEST_SMB = 20 };

void iwarp_ulp_register(void)
{
    heuristics = find_heur_dissector_list("iwarp_ddp_rdmap");
    rpc_over_rdma = proto_get_id_by_filter_name("rpcordma");
    iwarp_iser_register();
}

const char *iwarp_ulp_name(enum iwarp_ulp ulp)
{
    static const char *const names[] = {"auto", "none", "RPC-over-RDMA", "SMB Direct", "iSER",
                                        "NVMe", "any"};
    return names[ulp];
}

/* NVMe over RDMA, by its record of 32 octets: format 0, all but 10 octets reserved. */
static bool is_nvme_private(const uint8_t *p, unsigned n)
{
    if (n != 32 || p[0] != 0 || p[1] != 0) {
        return false;
    }
    for (unsigned i = 10; i < n; i++) {
        if (p[i] != 0) {
            return false;
        }
    }
    return p[4] != 0 || p[5] != 0;
}

static void choose(struct iwarp_conn *c)
{
    const unsigned initiator = 1 - iwarp_responder(c);
    const uint32_t port = c->port[iwarp_responder(c)];
    const uint8_t *p = c->private_data[initiator];

    c->has_ulp = true;
    if (iwarp_options.ulp != ULP_AUTO) {
        c->ulp = (enum iwarp_ulp)iwarp_options.ulp;
    } else if (is_nvme_private(p, c->private_size[initiator]) ||
               iwarp_options_has_port(ULP_NVME, port)) {
        c->ulp = ULP_NVME;
    } else if (c->private_size[initiator] >= 8 && memcmp(p, "\xf6\xab\x0e\x18", 4) == 0) {
        c->ulp = ULP_RPC;
    } else if (iwarp_options_has_port(ULP_RPC, port)) {
        c->ulp = ULP_RPC;
    } else if (iwarp_options_has_port(ULP_SMB, port)) {
        c->ulp = ULP_SMB;
    } else if (iwarp_options_has_port(ULP_ISER, port)) {
        c->ulp = ULP_ISER;
    } else {
        c->ulp = ULP_ANY;
    }
}

enum iwarp_ulp iwarp_ulp_of(struct iwarp_conn *c)
{
    if (!c->has_ulp) {
        choose(c);
    }
    return c->ulp;
}

static void fill_info(rdmap_info_t *info, const struct iwarp_offer *o, rdmap_request_t *request)
{
    const struct dissect_header *h = o->header;

    memset(info, 0, sizeof *info);
    info->opcode = h->opcode;
    info->is_tagged = h->tagged;
    info->last_flag = h->last;
    if (h->tagged) {
        info->steering_tag = h->stag;
        info->tagged_offset = h->to;
        return;
    }
    info->queue_number = h->qn;
    info->message_seq_num = h->msn;
    if (o->read) {
        request->sink_stag = o->read->sink_stag;
        request->sink_toffset = o->read->sink_to;
        request->source_stag = o->read->source_stag;
        request->source_toffset = o->read->source_to;
        request->message_size = o->read->length;
        info->read_request = request;
    } else {
        info->last_flag = TRUE; /* a whole message */
    }
}

struct handing {
    const struct iwarp_offer *offer;
    packet_info *pinfo;
    proto_tree *top;
    enum iwarp_ulp ulp;
    rdmap_info_t info;
};

static bool is_send(const struct iwarp_offer *o)
{
    return dissect_opcode_is_send(o->header->opcode) && !o->header->tagged;
}

/* RPC-over-RDMA learns memory from Read Requests, Writes and Read Responses too. */
static bool hand_rpc_or_any(struct handing *h)
{
    const struct iwarp_offer *o = h->offer;
    heur_dtbl_entry_t *entry = NULL;
    tvbuff_t *tvb = o->payload;

    if (is_send(o)) {
        tvb = o->message;
        if (!tvb || tvb_reported_length(tvb) < SHORTEST_RPC) {
            return false;
        }
    } else if (o->read) {
        tvb = tvb_new_subset_length_caplen(o->payload, (int)tvb_captured_length(o->payload), 0, 0);
    } else if (!o->header->tagged || tvb_captured_length(tvb) == 0 ||
               tvb_captured_length(tvb) < tvb_reported_length(tvb)) {
        return false;
    }
    return dissector_try_heuristic(heuristics, tvb, h->pinfo, h->top, &entry, &h->info);
}

static bool hand_smb(struct handing *h)
{
    tvbuff_t *tvb = h->offer->message;
    heur_dtbl_entry_t *entry = NULL;

    if (!is_send(h->offer) || !tvb) {
        return false;
    }
    return tvb_reported_length(tvb) >= SHORTEST_SMB &&
           dissector_try_heuristic(heuristics, tvb, h->pinfo, h->top, &entry, &h->info);
}

static bool hand(struct handing *h)
{
    switch (h->ulp) {
    case ULP_RPC:
    case ULP_ANY:
        return hand_rpc_or_any(h);
    case ULP_SMB:
        return hand_smb(h);
    case ULP_ISER:
        return is_send(h->offer) && h->offer->message &&
               iwarp_iser_offer(h->offer, h->pinfo, h->top);
    case ULP_NVME:
        return iwarp_nvme_offer(h->offer, h->pinfo, h->top);
    case ULP_AUTO:
    case ULP_NONE:
        break;
    }
    return false;
}

/* In a function of its own: what is caught comes back by a jump that spoils local variables. */
static bool hand_safely(struct handing *h)
{
    volatile bool taken = false;

    TRY
    {
        taken = hand(h);
    }
    CATCH_NONFATAL_ERRORS
    {
        /* Whatever it has shown: the octets are to be seen. */
        expert_add_info(h->pinfo, h->offer->item, &iwarp_ei[EI_ULP_FAILED]);
        taken = false;
    }
    ENDTRY;
    return taken;
}

static void put_rpc(packet_info *pinfo, const struct iwarp_fpdu *f)
{
    for (uint32_t key = 0; f->rpc && key < RPC_KEYS; key++) {
        if (f->rpc[key]) {
            p_add_proto_data(wmem_file_scope(), pinfo, rpc_over_rdma, key, f->rpc[key]);
        }
    }
}

static void take_rpc(packet_info *pinfo, struct iwarp_fpdu *f)
{
    for (uint32_t key = 0; key < RPC_KEYS; key++) {
        void *p = p_get_proto_data(wmem_file_scope(), pinfo, rpc_over_rdma, key);
        if (!p) {
            continue;
        }
        if (!f->rpc) {
            f->rpc = (void **)iwarp_keep(RPC_KEYS * sizeof *f->rpc);
        }
        f->rpc[key] = p;
        p_remove_proto_data(wmem_file_scope(), pinfo, rpc_over_rdma, key);
    }
}

bool iwarp_ulp_offer(const struct iwarp_offer *o, packet_info *pinfo, proto_tree *top)
{
    struct handing h = {.offer = o, .pinfo = pinfo, .top = top};
    rdmap_request_t request = {0};
    const port_type ptype = pinfo->ptype;
    bool taken;

    h.ulp = iwarp_ulp_of(o->record->conn);
    /* What is wrong or cut is shown, not interpreted. */
    if (h.ulp == ULP_NONE || o->fpdu->item.crc_status == DISSECT_CRC_BAD || o->fpdu->item.cut ||
        o->header->faults & (DISSECT_FAULT_OPCODE | DISSECT_FAULT_TAG | DISSECT_FAULT_QUEUE) ||
        (o->fpdu->item.late && o->fpdu->item.resynced)) {
        return false;
    }
    fill_info(&h.info, o, &request);
    pinfo->ptype = PT_IWARP_MPA;
    put_rpc(pinfo, o->fpdu);
    taken = hand_safely(&h);
    take_rpc(pinfo, o->fpdu);
    pinfo->ptype = ptype;
    return taken;
}
