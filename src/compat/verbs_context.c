/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables through which the inline functions of verbs.h reach us: fast-path operations, which
 * they call unchecked, and the extended ones in front of the context, where NULL means EOPNOTSUPP.
 * Also the check that the layout is the one of rdma-core, x86-64 and alike.
 */
#include "compat/compat.h"

#include <errno.h>
#include <stdint.h>

#define AT(type, member, offset)                                                                   \
    _Static_assert(offsetof(struct type, member) == (offset), #type "." #member)
#define OCTETS(type, size) _Static_assert(sizeof(struct type) == (size), #type)
/* Later releases of rdma-core append to these. What this source does not know stays 0, since the
 * objects are cleared when they are made and a query clears all that its caller has room for. */
#define AT_LEAST(type, size) _Static_assert(sizeof(struct type) >= (size), #type)
#define BEFORE_CONTEXT(member, distance)                                                           \
    _Static_assert(offsetof(struct verbs_context, context) -                                       \
                           offsetof(struct verbs_context, member) ==                               \
                       (distance),                                                                 \
                   "verbs_context." #member)

#if UINTPTR_MAX == UINT64_MAX
OCTETS(ibv_device, 664);
AT(ibv_device, node_type, 16);
AT(ibv_device, transport_type, 20);
AT(ibv_device, name, 24);
AT(ibv_device, ibdev_path, 408);
OCTETS(ibv_context, 328);
AT(ibv_context, ops.poll_cq, 96);
AT(ibv_context, ops.req_notify_cq, 104);
AT(ibv_context, ops.post_srq_recv, 168);
AT(ibv_context, ops.post_send, 208);
AT(ibv_context, ops.post_recv, 216);
AT(ibv_context, cmd_fd, 264);
AT(ibv_context, async_fd, 268);
AT(ibv_context, mutex, 280);
AT(ibv_context, abi_compat, 320);
BEFORE_CONTEXT(sz, 8);
BEFORE_CONTEXT(create_srq_ex, 40);
BEFORE_CONTEXT(create_qp_ex, 56);
BEFORE_CONTEXT(query_device_ex, 104);
BEFORE_CONTEXT(create_cq_ex, 120);
BEFORE_CONTEXT(alloc_td, 192);
BEFORE_CONTEXT(dealloc_td, 200);
BEFORE_CONTEXT(alloc_parent_domain, 208);
BEFORE_CONTEXT(query_port, 320);
OCTETS(ibv_pd, 16);
OCTETS(ibv_mr, 48);
AT(ibv_mr, lkey, 36);
OCTETS(ibv_comp_channel, 16);
OCTETS(ibv_cq, 128);
AT(ibv_cq, cqe, 28);
AT(ibv_cq, comp_events_completed, 120);
OCTETS(ibv_cq_ex, 288);
OCTETS(ibv_srq, 128);
OCTETS(ibv_qp, 160);
AT(ibv_qp, qp_num, 52);
AT(ibv_qp, state, 56);
AT_LEAST(ibv_qp_ex, 352);
AT(ibv_qp_ex, wr_atomic_write, 344);
AT(ibv_qp_ex, wr_id, 168);
AT(ibv_qp_ex, wr_flags, 176);
OCTETS(ibv_wc, 48);
OCTETS(ibv_send_wr, 128);
OCTETS(ibv_recv_wr, 32);
OCTETS(ibv_qp_attr, 144);
OCTETS(ibv_device_attr, 232);
OCTETS(ibv_device_attr_ex, 400);
AT_LEAST(ibv_port_attr, 52);
AT(ibv_port_attr, port_cap_flags2, 48);
#endif

static int old_query_port(struct ibv_context *context, uint8_t port,
                          struct _compat_ibv_port_attr *attr)
{
    return (ibv_query_port)(context, port, attr);
}

static struct ibv_xrcd *open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
    (void)context;
    (void)attr;
    (void)iwarp_compat_refuse(
        "verbs", EOPNOTSUPP,
        "ibv_open_xrcd: iWARP has no XRC, only reliable connections (RC), whose "
        "receives may come from a shared queue all the same");
    return NULL;
}

static int close_xrcd(struct ibv_xrcd *xrcd)
{
    (void)xrcd;
    return iwarp_compat_refuse("verbs", EOPNOTSUPP, "ibv_close_xrcd: iWARP has no XRC");
}

void iwarp_compat_fill_operations(struct compat_context *context)
{
    struct verbs_context *v = &context->v;

    v->sz = sizeof *v;
    v->query_port = iwarp_compat_query_port;
    v->query_device_ex = iwarp_compat_query_device_ex;
    v->create_cq_ex = iwarp_compat_create_cq_ex;
    v->create_qp_ex = iwarp_compat_create_qp_ex;
    v->create_srq_ex = iwarp_compat_create_srq_ex;
    v->alloc_td = iwarp_compat_alloc_td;
    v->dealloc_td = iwarp_compat_dealloc_td;
    v->alloc_parent_domain = iwarp_compat_alloc_parent_domain;
    v->open_xrcd = open_xrcd;
    v->close_xrcd = close_xrcd;
    v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    v->context.ops = (struct ibv_context_ops){
        ._compat_query_device = ibv_query_device,
        ._compat_query_port = old_query_port,
        .alloc_mw = iwarp_compat_alloc_mw,
        .bind_mw = iwarp_compat_bind_mw,
        .dealloc_mw = iwarp_compat_dealloc_mw,
        .poll_cq = iwarp_compat_poll_cq,
        .req_notify_cq = iwarp_compat_req_notify_cq,
        .post_srq_recv = iwarp_compat_post_srq_recv,
        .post_send = iwarp_compat_post_send,
        .post_recv = iwarp_compat_post_recv,
    };
}
