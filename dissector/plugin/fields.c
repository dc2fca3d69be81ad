/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registration of fields and expert information. See fields.h.
 */
#include "fields.h"

int proto_iwarp = -1;
int iwarp_hf[HF_COUNT];
int iwarp_ett[ETT_COUNT];
expert_field iwarp_ei[EI_COUNT];

static const value_string iwarp_rtr_names[] = {
    {0, "none"}, {1, "Send"},         {2, "Write"},         {3, "Send or Write"},
    {4, "Read"}, {5, "Send or Read"}, {6, "Write or Read"}, {7, "Send, Write or Read"},
    {0, NULL}};

static const value_string iwarp_crc_names[] = {
    {0, "Bad"}, {1, "Good"}, {2, "Unverified"}, {3, "Not present"}, {0, NULL}};

static const value_string iwarp_queue_names[] = {{0, "Sends"},
                                                 {1, "Read and Atomic Requests"},
                                                 {2, "Terminate"},
                                                 {3, "Atomic Responses"},
                                                 {0, NULL}};

static const value_string iwarp_opcode_names[] = {
    {0, "RDMA Write"},
    {1, "RDMA Read Request"},
    {2, "RDMA Read Response"},
    {3, "Send"},
    {4, "Send with Invalidate"},
    {5, "Send with Solicited Event"},
    {6, "Send with Solicited Event and Invalidate"},
    {7, "Terminate"},
    {8, "Immediate Data"},
    {9, "Immediate Data with Solicited Event"},
    {10, "Atomic Request"},
    {11, "Atomic Response"},
    {14, "Send with Immediate Data"},
    {15, "Send with Solicited Event and Immediate Data"},
    {0, NULL}};

static const value_string iwarp_atomic_names[] = {{0, "FetchAdd"}, {2, "CmpSwap"}, {0, NULL}};

static const value_string iwarp_iser_names[] = {
    {1, "iSCSI Control-type PDU"}, {2, "Hello"}, {3, "HelloReply"}, {0, NULL}};

/* Of NVMe over Fabrics 1.1, 7.3.6.8. */
static const value_string iwarp_nvme_status_names[] = {{1, "Invalid private data length"},
                                                       {2, "Invalid record format"},
                                                       {3, "Invalid queue"},
                                                       {4, "Invalid host receive queue size"},
                                                       {5, "Invalid host send queue size"},
                                                       {6, "No resources"},
                                                       {7, "Invalid IRD"},
                                                       {8, "Invalid ORD"},
                                                       {0, NULL}};

static const value_string iwarp_layer_names[] = {{0, "RDMAP"}, {1, "DDP"}, {2, "MPA"}, {0, NULL}};

void iwarp_fields_register(int proto)
{
#define FIELD(id, filter, label, type, base, strings, mask, text)                                  \
    {&iwarp_hf[HF_##id], {label, filter, type, base, strings, mask, text, HFILL}},
    static hf_register_info fields[] = {
#include "fields.def"
    };
#undef FIELD
#define EXPERT(id, filter, group, severity, text)                                                  \
    {&iwarp_ei[EI_##id], {filter, group, severity, text, EXPFILL}},
    static ei_register_info experts[] = {
#include "experts.def"
    };
#undef EXPERT
    static int *subtrees[ETT_COUNT];
    static const expert_field fresh = EI_INIT;

    for (unsigned i = 0; i < HF_COUNT; i++) {
        iwarp_hf[i] = -1;
    }
    for (unsigned i = 0; i < EI_COUNT; i++) {
        iwarp_ei[i] = fresh;
    }
    for (unsigned i = 0; i < ETT_COUNT; i++) {
        iwarp_ett[i] = -1;
        subtrees[i] = &iwarp_ett[i];
    }
    proto_register_field_array(proto, fields, HF_COUNT);
    proto_register_subtree_array(subtrees, ETT_COUNT);
    expert_register_field_array(expert_register_protocol(proto), experts, EI_COUNT);
}

proto_item *iwarp_put(proto_tree *tree, enum iwarp_field field, tvbuff_t *tvb, unsigned at,
                      unsigned n, unsigned encoding)
{
    if (!tree || !tvb_bytes_exist(tvb, (int)at, (int)n)) {
        return NULL;
    }
    return proto_tree_add_item(tree, iwarp_hf[field], tvb, (int)at, (int)n, encoding);
}

proto_item *iwarp_say_uint(proto_tree *tree, enum iwarp_field field, tvbuff_t *tvb, uint32_t value)
{
    proto_item *item = proto_tree_add_uint(tree, iwarp_hf[field], tvb, 0, 0, value);

    proto_item_set_generated(item);
    return item;
}

proto_item *iwarp_say_bool(proto_tree *tree, enum iwarp_field field, tvbuff_t *tvb, bool value)
{
    proto_item *item = proto_tree_add_boolean(tree, iwarp_hf[field], tvb, 0, 0, value);

    proto_item_set_generated(item);
    return item;
}

proto_item *iwarp_say_text(proto_tree *tree, enum iwarp_field field, tvbuff_t *tvb,
                           const char *text)
{
    proto_item *item = proto_tree_add_string(tree, iwarp_hf[field], tvb, 0, 0, text);

    proto_item_set_generated(item);
    return item;
}

void iwarp_tell(packet_info *pinfo, proto_item *item, uint64_t bits)
{
    for (unsigned i = 0; i < EI_COUNT; i++) {
        if (bits & EI_BIT(i)) {
            expert_add_info(pinfo, item, &iwarp_ei[i]);
        }
    }
}
