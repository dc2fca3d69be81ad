/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting: ibv_send_wr and ibv_recv_wr become native work requests, CHUNK at a time, so that a
 * chain is posted together and may be sent in one batch. A send before there is a connection is
 * refused, as RNICs do, although the native queue pair would keep it until there is one.
 */
#include "compat/compat.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>

/* Scatter/gather lists are passed on without a copy: both structures have one layout on 64 bits. */
#if UINTPTR_MAX != UINT64_MAX
#error "struct ibv_sge and struct iwarp_sge differ on this machine"
#endif
_Static_assert(sizeof(struct ibv_sge) == sizeof(struct iwarp_sge) &&
                   offsetof(struct ibv_sge, addr) == offsetof(struct iwarp_sge, addr) &&
                   offsetof(struct ibv_sge, length) == offsetof(struct iwarp_sge, len) &&
                   offsetof(struct ibv_sge, lkey) == offsetof(struct iwarp_sge, lkey),
               "pieces of memory");
_Static_assert((int)IBV_SEND_SIGNALED == 2 && (int)IBV_SEND_FENCE == 1, "flags");

enum {
    CHUNK = 16,   /* native requests: a Write may take two */
    WR_FLUSH = 14 /* IBV_WR_FLUSH, which rdma-core 44 does not know */
};

static const struct iwarp_sge *pieces(const struct ibv_sge *list)
{
    return (const struct iwarp_sge *)(const void *)list;
}

/* Not in IDLE, unless a connection has begun. After the end sends are accepted and flushed. */
bool iwarp_compat_may_send(struct compat_qp *qp)
{
    return atomic_load_explicit(&qp->connecting, memory_order_relaxed) ||
           iwarp_qp_state(qp->native) != IWARP_QP_IDLE;
}

const char *iwarp_compat_bind_fill(struct iwarp_bind *bind, struct ibv_mw *mw,
                                   const struct ibv_mw_bind_info *info, uint8_t key)
{
    const struct compat_mr *mr = info->mr ? compat_mr(info->mr) : NULL;

    if (!mw || (!mr && info->length > 0)) {
        return "a window or its region is missing";
    }
    /* A window gives rights to peers alone; programs name LOCAL_WRITE all the same. */
    *bind = (struct iwarp_bind){.mr = mr ? mr->native : NULL,
                                .mw = compat_mw(mw)->native,
                                .len = info->length,
                                .access = iwarp_compat_access(info->mw_access_flags) &
                                          ~(unsigned)IWARP_ACCESS_LOCAL_WRITE,
                                .key = key};
    if (mr) { /* the window's address is one of the region's, by which peers call it */
        bind->addr = (char *)mr->ibv.addr + (info->addr - mr->iova);
    }
    return NULL;
}

/* NULL, or why it cannot be posted. */
static const char *translate(struct iwarp_send_wr *to, struct iwarp_bind *bind,
                             const struct ibv_send_wr *from)
{
    *to = (struct iwarp_send_wr){.wr_id = from->wr_id,
                                 .flags = iwarp_compat_send_flags(from->send_flags),
                                 .sg_list = pieces(from->sg_list),
                                 .num_sge = (unsigned)from->num_sge};
    to->remote_to = from->wr.rdma.remote_addr;
    to->remote_stag = from->wr.rdma.rkey;
    switch ((int)from->opcode) { /* a number: newer releases have more operations than this enum */
    case IBV_WR_SEND:
        to->opcode = IWARP_WR_SEND;
        return NULL;
    case IBV_WR_SEND_WITH_INV:
        to->opcode = IWARP_WR_SEND_INV;
        to->invalidate_stag = from->invalidate_rkey;
        return NULL;
    case IBV_WR_RDMA_WRITE:
        to->opcode = IWARP_WR_WRITE;
        return NULL;
    case IBV_WR_SEND_WITH_IMM: /* refused below if the peer has not agreed */
        to->opcode = IWARP_WR_SEND_IMM;
        to->imm = ntohl(from->imm_data);
        return NULL;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        to->opcode = IWARP_WR_WRITE_IMM;
        to->imm = ntohl(from->imm_data);
        return NULL;
    case IBV_WR_RDMA_READ:
        to->opcode = IWARP_WR_READ;
        return NULL;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        to->opcode = IWARP_WR_ATOMIC_CMP_SWAP;
        to->operand = from->wr.atomic.swap;
        to->compare = from->wr.atomic.compare_add;
        to->mask = to->compare_mask = UINT64_MAX;
        break;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        to->opcode = IWARP_WR_ATOMIC_FETCH_ADD;
        to->operand = from->wr.atomic.compare_add;
        break;
    case IBV_WR_LOCAL_INV:
        to->opcode = IWARP_WR_LOCAL_INV;
        to->invalidate_stag = from->invalidate_rkey;
        to->num_sge = 0;
        return NULL;
    case IBV_WR_BIND_MW:
        to->opcode = IWARP_WR_BIND_MW;
        to->bind = bind;
        to->num_sge = 0;
        return iwarp_compat_bind_fill(bind, from->bind_mw.mw, &from->bind_mw.bind_info,
                                      (uint8_t)from->bind_mw.rkey);
    case IBV_WR_TSO:
    case IBV_WR_DRIVER1:
    case WR_FLUSH:
    case IBV_WR_ATOMIC_WRITE:
        return "iWARP has no such operation";
    }
    if (from->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || from->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        to->remote_to = from->wr.atomic.remote_addr;
        to->remote_stag = from->wr.atomic.rkey;
        return NULL;
    }
    return "unknown operation";
}

/* After posting, as the post lock orders this look against the engine's at the send queue: one of
 * the two sees the other (num_engine.c, on_disconnected). */
static void note_posted(struct compat_qp *qp)
{
    if (atomic_load_explicit(&qp->connecting, memory_order_relaxed) == COMPAT_SENDS_NOTED) {
        iwarp_num_posted(qp);
    }
}

/*
 * On InfiniBand an RDMA Write completes when the peer's adapter has it, so programs tell the peer
 * over some other way that it may look. Here it would complete when it is sent; by number, where no
 * program expects that, a Read behind it completes in its place. With rdma_cm, where programs for
 * iWARP know it, the user has to ask for this.
 */
static bool wants_confirmation(const struct compat_qp *qp, const struct ibv_send_wr *wr)
{
    return (qp->confirms || atomic_load_explicit(&qp->named, memory_order_relaxed)) &&
           (wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) &&
           (qp->sig_all || (wr->send_flags & IBV_SEND_SIGNALED));
}

/* One request of the program as one or two native ones, linked. *n counts up. NULL, or why not. */
static const char *add(const struct compat_qp *qp, struct iwarp_send_wr *native, unsigned *n,
                       struct iwarp_bind *bind, const struct ibv_send_wr *wr)
{
    struct iwarp_send_wr *to = &native[*n];
    const char *why = translate(to, bind, wr);

    if (why) {
        return why;
    }
    to->flags |= qp->sig_all ? IWARP_WR_SIGNALED : 0u;
    if (*n > 0) {
        native[*n - 1].next = to;
    }
    to->next = NULL;
    ++*n;
    if (wants_confirmation(qp, wr)) {
        to->flags &= ~(unsigned)IWARP_WR_SIGNALED;
        to->next = &to[1];
        to[1] = (struct iwarp_send_wr){.wr_id = wr->wr_id,
                                       .opcode = IWARP_WR_READ,
                                       .flags = IWARP_WR_SIGNALED | IWARP_WR_CONFIRM};
        ++*n;
    }
    return NULL;
}

/* The rkey that a bound window has from now on, where programs look for it: its last octet is the
 * program's. */
static void renew_rkeys(const struct ibv_send_wr *wr, const struct ibv_send_wr *end)
{
    for (; wr != end; wr = wr->next) {
        if (wr->opcode == IBV_WR_BIND_MW) {
            struct ibv_mw *mw = wr->bind_mw.mw;
            mw->rkey = (mw->rkey & ~0xffu) | (wr->bind_mw.rkey & 0xffu);
        }
    }
}

static int refuse_send(const char *why)
{
    return iwarp_compat_refuse("verbs", EINVAL, "ibv_post_send: %s", why);
}

static int error_of_post(enum iwarp_status status, const char *call)
{
    if (status == IWARP_AGAIN) { /* a full queue is ordinary: no line in the log */
        errno = ENOMEM;
        return ENOMEM;
    }
    return iwarp_compat_failed("verbs", status, call);
}

int iwarp_compat_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct compat_qp *qp = compat_qp(ibv);
    struct iwarp_send_wr native[CHUNK];
    struct iwarp_bind bind[CHUNK];
    const char *why = NULL;

    if (qp->ud) {
        return iwarp_ud_post(qp, wr, bad, false);
    }
    if (!iwarp_compat_may_send(qp)) {
        *bad = wr;
        return refuse_send("the queue pair is not connected");
    }
    while (wr && !why) {
        const struct iwarp_send_wr *stopped = NULL;
        struct ibv_send_wr *of[CHUNK], *first = wr;
        unsigned n = 0;
        for (; wr && n + 1 < CHUNK; wr = wr->next) {
            unsigned at = n;
            why = add(qp, native, &n, &bind[at], wr);
            if (why) {
                break;
            }
            of[at] = of[n - 1] = wr;
        }
        const bool named = atomic_load_explicit(&qp->named, memory_order_relaxed);
        if (named) {
            compat_qp_keep(qp);
        }
        enum iwarp_status status = n ? iwarp_post_send(qp->sender, native, &stopped) : IWARP_OK;
        if (named) {
            note_posted(qp);
            compat_qp_release(qp);
        }
        if (status != IWARP_OK) {
            *bad = of[stopped - native];
            renew_rkeys(first, *bad);
            return error_of_post(status, "ibv_post_send");
        }
        renew_rkeys(first, wr);
    }
    if (why) {
        *bad = wr;
        return refuse_send(why);
    }
    return 0;
}

int iwarp_compat_post_together(struct compat_qp *qp, const struct ibv_send_wr *wr,
                               struct iwarp_send_wr *native, struct iwarp_bind *bind)
{
    const struct ibv_send_wr *first = wr;
    const char *why = NULL;

    if (!iwarp_compat_may_send(qp)) {
        return refuse_send("the queue pair is not connected");
    }
    for (unsigned n = 0; wr && !why; wr = wr->next) {
        why = add(qp, native, &n, bind++, wr);
    }
    if (why) {
        return refuse_send(why);
    }
    enum iwarp_status status = iwarp_post_send_together(qp->sender, native, NULL);
    note_posted(qp);
    if (status != IWARP_OK) {
        return error_of_post(status, "ibv_wr_complete");
    }
    renew_rkeys(first, NULL);
    return 0;
}

/* Receives of a queue pair, or of a shared queue: one of the two is NULL. */
static int post_receives(struct iwarp_qp *qp, struct iwarp_srq *srq, struct ibv_recv_wr *wr,
                         struct ibv_recv_wr **bad)
{
    struct iwarp_recv_wr native[CHUNK];

    while (wr) {
        const struct iwarp_recv_wr *stopped = NULL;
        struct ibv_recv_wr *first = wr;
        unsigned n = 0;
        for (; wr && n < CHUNK; n++, wr = wr->next) {
            native[n] = (struct iwarp_recv_wr){.wr_id = wr->wr_id,
                                               .sg_list = pieces(wr->sg_list),
                                               .num_sge = (unsigned)wr->num_sge};
            if (n > 0) {
                native[n - 1].next = &native[n];
            }
        }
        enum iwarp_status status =
            qp ? iwarp_post_recv(qp, native, &stopped) : iwarp_srq_post_recv(srq, native, &stopped);
        if (status != IWARP_OK) {
            for (; stopped > native; stopped--) {
                first = first->next;
            }
            *bad = first;
            return error_of_post(status, qp ? "ibv_post_recv" : "ibv_post_srq_recv");
        }
    }
    return 0;
}

int iwarp_compat_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    return post_receives(compat_qp(qp)->native, NULL, wr, bad);
}

int iwarp_compat_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
                               struct ibv_recv_wr **bad)
{
    return post_receives(NULL, compat_srq(srq)->native, wr, bad);
}
