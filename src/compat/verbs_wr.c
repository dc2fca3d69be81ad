/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The extended way to post: between ibv_wr_start and ibv_wr_complete a program calls one function
 * for each request and one or more for its data. The requests are collected as a list of
 * ibv_send_wr and posted at the end: all of them, or none if one was wrong or the queue has no
 * room. Inline data is copied by the call that names it.
 */
#include "compat/compat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The lists move when they grow, so a request keeps indexes of its pieces until all are known. */
struct request {
    struct ibv_send_wr wr;
    size_t sge, octets; /* where its pieces and its inline data begin */
    size_t octets_len;
};

struct compat_wr_list {
    pthread_mutex_t lock; /* from ibv_wr_start to ibv_wr_complete or ibv_wr_abort */
    int error;            /* the first error; nothing is posted then */
    struct request *request;
    size_t requests, request_room;
    struct iwarp_send_wr *native; /* what becomes of them */
    struct iwarp_bind *bind;
    size_t native_room, bind_room;
    struct ibv_sge *sge;
    size_t sges, sge_room;
    uint8_t *octet;
    size_t octets, octet_room;
};

/* Room for `more` of `size` octets each behind `used`; NULL: no memory. */
static void *grow(void *list, size_t used, size_t more, size_t *room, size_t size)
{
    if (list && *room - used >= more) {
        return list;
    }
    size_t wanted = 2 * (used + more) + 16;
    void *larger = realloc(list, wanted * size);
    if (larger) {
        *room = wanted;
    }
    return larger;
}

static struct compat_qp *qp_of(struct ibv_qp_ex *ex)
{
    return compat_of(ex, struct compat_qp, ex);
}

static void fail(struct compat_wr_list *l, int error)
{
    l->error = l->error ? l->error : error;
}

static struct ibv_send_wr *add(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
    static struct ibv_send_wr nowhere; /* written to after a failure, and never posted */
    struct compat_wr_list *l = qp_of(ex)->list;
    struct request *r = grow(l->request, l->requests, 1, &l->request_room, sizeof *r);

    if (!r) {
        fail(l, ENOMEM);
        return &nowhere;
    }
    l->request = r;
    r += l->requests++;
    *r = (struct request){.wr = {.wr_id = ex->wr_id, .opcode = opcode, .send_flags = ex->wr_flags},
                          .sge = l->sges,
                          .octets = l->octets};
    r->wr.send_flags &= ~(unsigned)IBV_SEND_INLINE; /* the data says that */
    return &r->wr;
}

/* The request that data belongs to. */
static struct request *latest(struct compat_wr_list *l)
{
    if (l->requests == 0 || l->error) {
        fail(l, EINVAL);
        return NULL;
    }
    return &l->request[l->requests - 1];
}

/* --- requests -------------------------------------------------------------------------------- */

static void wr_send(struct ibv_qp_ex *ex)
{
    (void)add(ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm_data)
{
    add(ex, IBV_WR_SEND_WITH_IMM)->imm_data = imm_data;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
    add(ex, IBV_WR_SEND_WITH_INV)->invalidate_rkey = rkey;
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
    add(ex, IBV_WR_LOCAL_INV)->invalidate_rkey = rkey;
}

static struct ibv_send_wr *add_remote(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode,
                                      uint32_t rkey, uint64_t remote_addr)
{
    struct ibv_send_wr *wr = add(ex, opcode);

    wr->wr.rdma.remote_addr = remote_addr;
    wr->wr.rdma.rkey = rkey;
    return wr;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
    (void)add_remote(ex, IBV_WR_RDMA_READ, rkey, remote_addr);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
    (void)add_remote(ex, IBV_WR_RDMA_WRITE, rkey, remote_addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
                              __be32 imm_data)
{
    add_remote(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr)->imm_data = imm_data;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
                              uint64_t compare, uint64_t swap)
{
    struct ibv_send_wr *wr = add(ex, IBV_WR_ATOMIC_CMP_AND_SWP);

    wr->wr.atomic.remote_addr = remote_addr;
    wr->wr.atomic.rkey = rkey;
    wr->wr.atomic.compare_add = compare;
    wr->wr.atomic.swap = swap;
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
                                uint64_t value)
{
    struct ibv_send_wr *wr = add(ex, IBV_WR_ATOMIC_FETCH_AND_ADD);

    wr->wr.atomic.remote_addr = remote_addr;
    wr->wr.atomic.rkey = rkey;
    wr->wr.atomic.compare_add = value;
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
                       const struct ibv_mw_bind_info *info)
{
    struct ibv_send_wr *wr = add(ex, IBV_WR_BIND_MW);

    wr->bind_mw.mw = mw;
    wr->bind_mw.rkey = rkey;
    wr->bind_mw.bind_info = *info;
}

/* None of these operations exists on reliable connections. */
static void wr_send_tso(struct ibv_qp_ex *ex, void *header, uint16_t size, uint16_t mss)
{
    (void)header;
    (void)size;
    (void)mss;
    fail(qp_of(ex)->list, EOPNOTSUPP);
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
    struct compat_wr_list *l = qp_of(ex)->list;
    struct request *r = latest(l);

    if (!qp_of(ex)->ud) {
        fail(l, EOPNOTSUPP);
    } else if (r) {
        r->wr.wr.ud.ah = ah;
        r->wr.wr.ud.remote_qpn = qpn;
        r->wr.wr.ud.remote_qkey = qkey;
    }
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
    (void)srqn;
    fail(qp_of(ex)->list, EOPNOTSUPP);
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, const void *value)
{
    (void)rkey;
    (void)addr;
    (void)value;
    fail(qp_of(ex)->list, EOPNOTSUPP);
}

/* --- data ------------------------------------------------------------------------------------ */

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
    struct compat_wr_list *l = qp_of(ex)->list;
    struct request *r = latest(l);
    struct ibv_sge *sge = r ? grow(l->sge, l->sges, n, &l->sge_room, sizeof *sge) : NULL;

    if (!sge) {
        fail(l, ENOMEM);
        return;
    }
    l->sge = sge;
    if (n > 0) { /* else list may be NULL */
        memcpy(sge + l->sges, list, n * sizeof *list);
    }
    l->sges += n;
    r->wr.num_sge += (int)n;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
    const struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

    wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
    struct compat_wr_list *l = qp_of(ex)->list;
    struct request *r = latest(l);

    if (!r) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (list[i].length > qp_of(ex)->cap.max_inline_data - r->octets_len) {
            fail(l, EINVAL);
            return;
        }
        uint8_t *octet = grow(l->octet, l->octets, list[i].length, &l->octet_room, 1);
        if (!octet) {
            fail(l, ENOMEM);
            return;
        }
        l->octet = octet;
        if (list[i].length > 0) { /* else addr may be NULL */
            memcpy(octet + l->octets, list[i].addr, list[i].length);
        }
        l->octets += list[i].length;
        r->octets_len += list[i].length;
    }
    r->wr.send_flags |= IBV_SEND_INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
    const struct ibv_data_buf buf = {.addr = addr, .length = length};

    wr_set_inline_data_list(ex, 1, &buf);
}

/* --- begin and end --------------------------------------------------------------------------- */

/* In a forked child the list may be locked, by a thread of the parent between start and complete.
 */
static bool is_foreign(const struct compat_qp *qp)
{
    return qp->born != iwarp_compat_generation();
}

static void wr_start(struct ibv_qp_ex *ex)
{
    struct compat_wr_list *l = qp_of(ex)->list;

    if (is_foreign(qp_of(ex))) {
        l->error = EINVAL;
        return;
    }
    pthread_mutex_lock(&l->lock);
    l->error = 0;
    l->requests = l->sges = l->octets = 0;
}

/* Room for one more piece per request (its inline data), and for the native requests. */
static bool room_to_post(struct compat_wr_list *l)
{
    void *sge = grow(l->sge, l->sges, l->requests, &l->sge_room, sizeof *l->sge);
    l->sge = sge ? sge : l->sge;
    void *native = grow(l->native, 0, 2 * l->requests, &l->native_room, sizeof *l->native);
    l->native = native ? native : l->native;
    void *bind = grow(l->bind, 0, l->requests, &l->bind_room, sizeof *l->bind);
    l->bind = bind ? bind : l->bind;
    return sge && native && bind;
}

/* Indexes become addresses; inline data becomes one piece, in memory of the list. */
static int post(struct compat_qp *qp)
{
    struct compat_wr_list *l = qp->list;
    size_t inline_sge = l->sges;

    if (l->requests == 0) {
        return 0;
    }
    if (!room_to_post(l)) {
        return ENOMEM;
    }
    struct ibv_sge *sge = l->sge;
    for (size_t i = 0; i < l->requests; i++) {
        struct request *r = &l->request[i];
        r->wr.next = i + 1 < l->requests ? &l->request[i + 1].wr : NULL;
        r->wr.sg_list = &sge[r->sge];
        if (r->wr.send_flags & IBV_SEND_INLINE) {
            sge[inline_sge] = (struct ibv_sge){.addr = (uintptr_t)(l->octet + r->octets),
                                               .length = (uint32_t)r->octets_len};
            r->wr.sg_list = &sge[inline_sge++];
            r->wr.num_sge = r->octets_len > 0 ? 1 : 0;
        }
    }
    if (qp->ud) {
        struct ibv_send_wr *bad;
        return iwarp_ud_post(qp, &l->request[0].wr, &bad, true);
    }
    return iwarp_compat_post_together(qp, &l->request[0].wr, l->native, l->bind);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
    struct compat_qp *qp = qp_of(ex);
    struct compat_wr_list *l = qp->list;

    if (is_foreign(qp)) {
        return EINVAL;
    }
    compat_qp_keep(qp);
    int error = l->error ? l->error : post(qp);

    pthread_mutex_unlock(&l->lock);
    compat_qp_release(qp);
    return error;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
    if (!is_foreign(qp_of(ex))) {
        pthread_mutex_unlock(&qp_of(ex)->list->lock);
    }
}

int iwarp_compat_wr_init(struct compat_qp *qp)
{
    struct ibv_qp_ex *ex = &qp->ex;

    qp->list = calloc(1, sizeof *qp->list);
    if (!qp->list) {
        return ENOMEM;
    }
    pthread_mutex_init(&qp->list->lock, NULL);
    ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
    ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
    ex->wr_bind_mw = wr_bind_mw;
    ex->wr_local_inv = wr_local_inv;
    ex->wr_rdma_read = wr_rdma_read;
    ex->wr_rdma_write = wr_rdma_write;
    ex->wr_rdma_write_imm = wr_rdma_write_imm;
    ex->wr_send = wr_send;
    ex->wr_send_imm = wr_send_imm;
    ex->wr_send_inv = wr_send_inv;
    ex->wr_send_tso = wr_send_tso;
    ex->wr_set_ud_addr = wr_set_ud_addr;
    ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
    ex->wr_set_inline_data = wr_set_inline_data;
    ex->wr_set_inline_data_list = wr_set_inline_data_list;
    ex->wr_set_sge = wr_set_sge;
    ex->wr_set_sge_list = wr_set_sge_list;
    ex->wr_start = wr_start;
    ex->wr_complete = wr_complete;
    ex->wr_abort = wr_abort;
    ex->wr_atomic_write = wr_atomic_write;
    return 0;
}

void iwarp_compat_wr_fini(struct compat_qp *qp)
{
    if (qp->list) {
        pthread_mutex_destroy(&qp->list->lock);
        free(qp->list->request);
        free(qp->list->native);
        free(qp->list->bind);
        free(qp->list->sge);
        free(qp->list->octet);
        free(qp->list);
    }
}
