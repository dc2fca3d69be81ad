/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains, memory regions and windows over the native ones. lkey and rkey are the STag.
 * Optional access flags are ignored, as verbs.h demands; registering pins nothing.
 */
#include "compat/compat.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Was the object made by the process that forked this one? Then it has no native half here. */
static bool is_foreign(unsigned born)
{
    return born != iwarp_compat_generation();
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct iwarp_device *native = iwarp_compat_device();
    struct compat_pd *pd = native ? calloc(1, sizeof *pd) : NULL;

    if (!pd) {
        errno = native ? ENOMEM : errno;
        return NULL;
    }
    enum iwarp_status status = iwarp_pd_create(native, &pd->native);
    if (status != IWARP_OK) {
        free(pd);
        (void)iwarp_compat_failed("verbs", status, "ibv_alloc_pd");
        return NULL;
    }
    pd->ibv.context = context;
    pd->born = iwarp_compat_generation();
    return &pd->ibv;
}

int ibv_dealloc_pd(struct ibv_pd *ibv)
{
    struct compat_pd *pd = compat_pd(ibv);

    if (pd->of && !is_foreign(pd->born) && pd->users > 0) {
        return iwarp_compat_refuse("verbs", EBUSY,
                                   "ibv_dealloc_pd: %u queue pairs and shared receive queues are "
                                   "in this parent domain",
                                   pd->users);
    }
    if (pd->of) {
        iwarp_compat_free_parent_domain(pd);
        return 0;
    }
    if (pd->parents > 0) {
        return iwarp_compat_refuse("verbs", EBUSY, "ibv_dealloc_pd: %u parent domains are of it",
                                   pd->parents);
    }
    if (!is_foreign(pd->born) && iwarp_pd_destroy(pd->native) != IWARP_OK) {
        return iwarp_compat_refuse("verbs", EBUSY, "ibv_dealloc_pd: %s", iwarp_last_error());
    }
    free(pd);
    return 0;
}

/* 0, or the error. */
static int check_access(const char *call, unsigned access)
{
    unsigned known = COMPAT_KNOWN_ACCESS | IBV_ACCESS_HUGETLB | (unsigned)IBV_ACCESS_OPTIONAL_RANGE;

    if (access & IBV_ACCESS_ON_DEMAND) {
        return iwarp_compat_refuse("verbs", EOPNOTSUPP,
                                   "%s: ON_DEMAND is not needed, nothing is ever pinned", call);
    }
    if (access & ~known) {
        return iwarp_compat_refuse("verbs", EINVAL, "%s: unknown access flags 0x%x", call,
                                   access & ~known);
    }
    return 0;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                unsigned access)
{
    if (check_access("ibv_reg_mr", access)) {
        return NULL;
    }
    struct compat_mr *mr = calloc(1, sizeof *mr);
    if (!mr) {
        errno = ENOMEM;
        return NULL;
    }
    struct iwarp_mr_options o;
    iwarp_mr_options_init(&o, addr, length, iwarp_compat_access(access));
    o.to_base = access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
    enum iwarp_status status = iwarp_mr_create(compat_pd(pd)->native, &o, &mr->native);
    if (status != IWARP_OK) {
        free(mr);
        (void)iwarp_compat_failed("verbs", status, "ibv_reg_mr");
        return NULL;
    }
    mr->ibv = (struct ibv_mr){.context = pd->context,
                              .pd = pd,
                              .addr = addr,
                              .length = length,
                              .lkey = iwarp_mr_stag(mr->native),
                              .rkey = iwarp_mr_stag(mr->native)};
    mr->ibv.handle = mr->ibv.lkey;
    mr->iova = o.to_base;
    mr->born = iwarp_compat_generation();
    return &mr->ibv;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

#undef ibv_reg_mr_iova
struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                               int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

int ibv_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr, size_t length,
                 int access)
{
    struct compat_mr *mr = compat_mr(ibv);
    struct iwarp_mr_options o;

    if (flags == 0 || (flags & ~(int)IBV_REREG_MR_FLAGS_SUPPORTED) ||
        ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!addr || length == 0)) ||
        ((flags & IBV_REREG_MR_CHANGE_PD) && !pd)) {
        (void)iwarp_compat_refuse("verbs", EINVAL, "ibv_rereg_mr: flags 0x%x", (unsigned)flags);
        return IBV_REREG_MR_ERR_INPUT;
    }
    if ((flags & IBV_REREG_MR_CHANGE_ACCESS) && check_access("ibv_rereg_mr", (unsigned)access)) {
        return IBV_REREG_MR_ERR_INPUT;
    }
    bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
    iwarp_mr_options_init(&o, moves ? addr : ibv->addr, moves ? length : ibv->length,
                          flags & IBV_REREG_MR_CHANGE_ACCESS ? iwarp_compat_access((unsigned)access)
                                                             : iwarp_mr_access(mr->native));
    o.to_base = o.access & IWARP_ACCESS_ZERO_BASED ? 0 : moves ? (uintptr_t)addr : mr->iova;
    enum iwarp_status status = iwarp_mr_reregister(
        mr->native, flags & IBV_REREG_MR_CHANGE_PD ? compat_pd(pd)->native : NULL, &o);
    if (status != IWARP_OK) {
        (void)iwarp_compat_failed("verbs", status, "ibv_rereg_mr");
        return IBV_REREG_MR_ERR_INPUT; /* nothing has changed */
    }
    ibv->addr = o.addr;
    ibv->length = o.len;
    ibv->pd = flags & IBV_REREG_MR_CHANGE_PD ? pd : ibv->pd;
    ibv->lkey = ibv->rkey = ibv->handle = iwarp_mr_stag(mr->native);
    mr->iova = o.to_base;
    return 0;
}

int ibv_dereg_mr(struct ibv_mr *ibv)
{
    struct compat_mr *mr = compat_mr(ibv);

    if (!is_foreign(mr->born) && iwarp_mr_deregister(mr->native) != IWARP_OK) {
        return iwarp_compat_refuse("verbs", EBUSY, "ibv_dereg_mr: %s", iwarp_last_error());
    }
    free(mr);
    return 0;
}

/*
 * Buffers for registration, in rdma-core since release 64 (the last one since 65); older headers do
 * not declare them. Ordinary memory, at the beginning of a page.
 */
struct ibv_buf {
    struct ibv_pd *pd;
    char *addr;
    size_t size;
};
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **result);
void ibv_free_buf(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
                              int access);
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);

void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **result)
{
    struct ibv_buf *buf = malloc(sizeof *buf);
    void *addr = NULL;

    if (!buf || posix_memalign(&addr, (size_t)sysconf(_SC_PAGESIZE), size ? size : 1) != 0) {
        free(buf);
        errno = ENOMEM;
        return NULL;
    }
    *buf = (struct ibv_buf){.pd = pd, .addr = addr, .size = size};
    *result = buf;
    return addr;
}

void ibv_free_buf(struct ibv_buf *buf)
{
    free(buf->addr);
    free(buf);
}

struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
                              int access)
{
    const uintptr_t at = (uintptr_t)addr, start = (uintptr_t)buf->addr;

    if (pd != buf->pd) {
        (void)iwarp_compat_refuse("verbs", EINVAL,
                                  "ibv_reg_buf_mr: the buffer is of another protection domain");
        return NULL;
    }
    if (at < start || at - start > buf->size || length > buf->size - (at - start)) {
        (void)iwarp_compat_refuse("verbs", EINVAL,
                                  "ibv_reg_buf_mr: %zu octets go beyond the buffer of %zu", length,
                                  buf->size);
        return NULL;
    }
    return ibv_reg_mr_iova2(pd, addr, length, at, (unsigned)access);
}

/* No buffer is one of the kernel's DMA buffers. */
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf)
{
    (void)buf;
    errno = ENODATA;
    return -1;
}

struct ibv_mw *iwarp_compat_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
    struct compat_mw *mw = calloc(1, sizeof *mw);

    if (!mw || (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)) {
        free(mw);
        errno = mw ? EINVAL : ENOMEM;
        return NULL;
    }
    enum iwarp_status status =
        iwarp_mw_alloc(compat_pd(pd)->native,
                       type == IBV_MW_TYPE_1 ? IWARP_MW_TYPE_1 : IWARP_MW_TYPE_2, &mw->native);
    if (status != IWARP_OK) {
        free(mw);
        (void)iwarp_compat_failed("verbs", status, "ibv_alloc_mw");
        return NULL;
    }
    mw->ibv = (struct ibv_mw){
        .context = pd->context, .pd = pd, .rkey = iwarp_mw_stag(mw->native), .type = type};
    mw->born = iwarp_compat_generation();
    return &mw->ibv;
}

int iwarp_compat_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *b)
{
    struct iwarp_bind bind;
    const char *why = iwarp_compat_bind_fill(&bind, mw, &b->bind_info, 0);

    if (!why && !iwarp_compat_may_send(compat_qp(qp))) {
        why = "the queue pair is not connected";
    }
    if (why) {
        return iwarp_compat_refuse("verbs", EINVAL, "ibv_bind_mw: %s", why);
    }
    unsigned flags = b->send_flags | (compat_qp(qp)->sig_all ? IBV_SEND_SIGNALED : 0u);
    enum iwarp_status status = iwarp_mw_bind(compat_qp(qp)->sender, compat_mw(mw)->native, &bind,
                                             b->wr_id, iwarp_compat_send_flags(flags));
    if (status != IWARP_OK) {
        return status == IWARP_AGAIN ? ENOMEM : iwarp_compat_failed("verbs", status, "ibv_bind_mw");
    }
    mw->rkey = iwarp_mw_stag(compat_mw(mw)->native);
    return 0;
}

int iwarp_compat_dealloc_mw(struct ibv_mw *ibv)
{
    struct compat_mw *mw = compat_mw(ibv);

    if (!is_foreign(mw->born)) {
        (void)iwarp_mw_free(mw->native);
    }
    free(mw);
    return 0;
}

/* Nothing is pinned: there is nothing to be done for a child. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dontfork_range(void *base, size_t size)
{
    (void)base;
    (void)size;
    return 0;
}

int ibv_dofork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size)
{
    (void)base;
    (void)size;
    return 0;
}
