/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private nodes of libibverbs.so.1, IBVERBS_PRIVATE_<n>: what providers (libmlx5, libefa, ...)
 * are linked against. These load because programs are linked with them, and find no device of
 * theirs. Two symbols are called by programs, ibv_query_gid_type and ibv_wr_opcode_str; one is
 * data; the rest is generated.
 */
#include "compat/compat.h"
#include "compat/identity.h"

/* The same definition under the nodes of other releases. */
#define UNDER_NODE(name, symbol, node)                                                             \
    __asm__(".symver " #name ", " #symbol "@IBVERBS_PRIVATE_" #node)

extern bool verbs_allow_disassociate_destroy;
extern bool disassociate_57, disassociate_59, disassociate_64, disassociate_65;
bool verbs_allow_disassociate_destroy;
bool disassociate_57, disassociate_59, disassociate_64, disassociate_65;
UNDER_NODE(disassociate_57, verbs_allow_disassociate_destroy, 57);
UNDER_NODE(disassociate_59, verbs_allow_disassociate_destroy, 59);
UNDER_NODE(disassociate_64, verbs_allow_disassociate_destroy, 64);
UNDER_NODE(disassociate_65, verbs_allow_disassociate_destroy, 65);

/* The enumeration ibv_gid_type_sysfs is in no public header: 0 is "IB or RoCE v1", 1 is "RoCE
 * v2". */
#define GID_TYPE_FUNCTION(name)                                                                    \
    int name(struct ibv_context *context, uint8_t port, unsigned index, int *type);                \
    int name(struct ibv_context *context, uint8_t port, unsigned index, int *type)                 \
    {                                                                                              \
        union ibv_gid gid;                                                                         \
                                                                                                   \
        *type = 1;                                                                                 \
        return ibv_query_gid(context, port, (int)index, &gid);                                     \
    }

GID_TYPE_FUNCTION(ibv_query_gid_type)
GID_TYPE_FUNCTION(gid_type_57)
GID_TYPE_FUNCTION(gid_type_59)
GID_TYPE_FUNCTION(gid_type_64)
GID_TYPE_FUNCTION(gid_type_65)
UNDER_NODE(gid_type_57, ibv_query_gid_type, 57);
UNDER_NODE(gid_type_59, ibv_query_gid_type, 59);
UNDER_NODE(gid_type_64, ibv_query_gid_type, 64);
UNDER_NODE(gid_type_65, ibv_query_gid_type, 65);

/* Declared by verbs.h since rdma-core 49, and private all the same. */
const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode);
const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode)
{
    switch ((int)opcode) { /* as a number: older headers know less of them */
    case IBV_WR_RDMA_WRITE:
        return "RDMA Write";
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return "RDMA Write with Immediate Data";
    case IBV_WR_SEND:
        return "Send";
    case IBV_WR_SEND_WITH_IMM:
        return "Send with Immediate Data";
    case IBV_WR_RDMA_READ:
        return "RDMA Read";
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return "Atomic Compare and Swap";
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return "Atomic Fetch and Add";
    case IBV_WR_LOCAL_INV:
        return "Local Invalidate";
    case IBV_WR_BIND_MW:
        return "Bind Memory Window";
    case IBV_WR_SEND_WITH_INV:
        return "Send with Invalidate";
    case IBV_WR_TSO:
        return "TSO";
    case IBV_WR_DRIVER1:
        return "Driver 1";
    case 14:
        return "Flush";
    case IBV_WR_ATOMIC_WRITE:
        return "Atomic Write";
    }
    return "unknown";
}

#define OPCODE_STR_FUNCTION(name)                                                                  \
    const char *name(enum ibv_wr_opcode opcode);                                                   \
    const char *name(enum ibv_wr_opcode opcode)                                                    \
    {                                                                                              \
        return ibv_wr_opcode_str(opcode);                                                          \
    }

OPCODE_STR_FUNCTION(opcode_str_57)
OPCODE_STR_FUNCTION(opcode_str_59)
OPCODE_STR_FUNCTION(opcode_str_64)
OPCODE_STR_FUNCTION(opcode_str_65)
UNDER_NODE(opcode_str_57, ibv_wr_opcode_str, 57);
UNDER_NODE(opcode_str_59, ibv_wr_opcode_str, 59);
UNDER_NODE(opcode_str_64, ibv_wr_opcode_str, 64);
UNDER_NODE(opcode_str_65, ibv_wr_opcode_str, 65);
