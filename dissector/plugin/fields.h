/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fields, subtrees and expert information of the plugin, by number.
 */
#ifndef PLUGIN_FIELDS_H
#define PLUGIN_FIELDS_H

#include "version.h"

#define FIELD(id, filter, label, type, base, strings, mask, text) HF_##id,
enum iwarp_field {
#include "fields.def"
    HF_COUNT
};
#undef FIELD

#define EXPERT(id, filter, group, severity, text) EI_##id,
enum iwarp_expert {
#include "experts.def"
    EI_COUNT
};
#undef EXPERT

/* One bit of each, for what is found on the first pass and told on all. */
#define EI_BIT(id) (UINT64_C(1) << (id))

enum iwarp_subtree {
    ETT_IWARP,
    ETT_MPA,
    ETT_FLAGS,
    ETT_DDP,
    ETT_RDMAP,
    ETT_MARKER,
    ETT_TERM,
    ETT_MSG,
    ETT_CONN,
    ETT_ULP,
    ETT_COUNT
};

/* The protocol; -1 until it is registered. */
extern int proto_iwarp;
extern int iwarp_hf[HF_COUNT];
extern int iwarp_ett[ETT_COUNT];
extern expert_field iwarp_ei[EI_COUNT];

void iwarp_fields_register(int proto);

/* An item for octets that were captured; nothing, and no exception, for others. */
proto_item *iwarp_put(proto_tree *tree, enum iwarp_field field, tvbuff_t *tvb, unsigned at,
                      unsigned n, unsigned encoding);

/* Values that are in no octet of the packet. */
proto_item *iwarp_say_uint(proto_tree *tree, enum iwarp_field field, tvbuff_t *tvb, uint32_t value);
proto_item *iwarp_say_bool(proto_tree *tree, enum iwarp_field field, tvbuff_t *tvb, bool value);
proto_item *iwarp_say_text(proto_tree *tree, enum iwarp_field field, tvbuff_t *tvb,
                           const char *text);

/* The expert information of every bit that is set. */
void iwarp_tell(packet_info *pinfo, proto_item *item, uint64_t bits);

#endif
