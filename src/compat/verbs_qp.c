/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs: create, find by number, modify, query. A new one reports INIT, as an RNIC's does;
 * with the persona of an adapter, and after a transition to RESET, it reports RESET. Until a
 * transition to RTR names a peer by its number, transitions are accepted and do nothing, since the
 * connection manager connects. From then on until RESET, num_calls.c decides.
 */
#include "base/pause.h"
#include "base/process.h"
#include "base/settings.h"
#include "compat/compat.h"
#include "compat/identity.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct compat_qp *table[BUCKETS]; /* under lock */

/* --- by number ------------------------------------------------------------------------------- */

/* The lock covers the table only: the caller of find sees to it that the queue pair stays. */
static void enter(struct compat_qp *qp)
{
    struct compat_qp **bucket = &table[qp->ibv.qp_num % BUCKETS];

    pthread_mutex_lock(&lock);
    qp->next = *bucket;
    *bucket = qp;
    pthread_mutex_unlock(&lock);
}

static void leave(struct compat_qp *qp)
{
    pthread_mutex_lock(&lock);
    for (struct compat_qp **at = &table[qp->ibv.qp_num % BUCKETS]; *at; at = &(*at)->next) {
        if (*at == qp) {
            *at = qp->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
}

/* Under lock. */
static struct compat_qp *find(uint32_t num)
{
    struct compat_qp *qp = table[num % BUCKETS];

    while (qp && qp->ibv.qp_num != num) {
        qp = qp->next;
    }
    return qp;
}

struct compat_qp *iwarp_compat_qp_find(uint32_t num)
{
    pthread_mutex_lock(&lock);
    struct compat_qp *qp = find(num);
    pthread_mutex_unlock(&lock);
    return qp;
}

struct compat_qp *iwarp_compat_qp_hold(uint32_t num)
{
    pthread_mutex_lock(&lock);
    struct compat_qp *qp = find(num);
    if (qp) {
        atomic_fetch_add(&qp->holders, 1);
    }
    pthread_mutex_unlock(&lock);
    return qp;
}

/* In a forked child, where numbers begin anew. A thread of the parent may have held the lock. */
void iwarp_compat_qp_forget_all(void)
{
    pthread_mutex_init(&lock, NULL);
    memset(table, 0, sizeof table);
}

/* --- creating -------------------------------------------------------------------------------- */

static const char *why_not(enum ibv_qp_type type)
{
    switch ((int)type) {
    case IBV_QPT_UC:
        return "UC drops what comes late or is lost, and TCP, below iWARP, never does";
    case IBV_QPT_UD:
        return "UD is there for queue pairs of ibv_create_qp alone, and rdma_cm has no part in it";
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
        return "XRC names the peer's receive queue in each message, and messages of iWARP have no "
               "place for that";
    case IBV_QPT_RAW_PACKET:
        return "raw packets are of an Ethernet adapter, and there is none below";
    default:
        return "this type is of one vendor's adapters, or not known";
    }
}

static int check(const struct ibv_qp_init_attr_ex *a, bool by_number)
{
    const uint64_t known = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                           IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                           IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                           IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV |
                           IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV;

    if (a->qp_type != IBV_QPT_RC && (a->qp_type != IBV_QPT_UD || !by_number)) {
        return iwarp_compat_refuse("verbs", EOPNOTSUPP,
                                   "ibv_create_qp: type %d: iWARP has reliable connections (RC): "
                                   "%s; look for the program's option for RC",
                                   (int)a->qp_type, why_not(a->qp_type));
    }
    if ((a->comp_mask & ~(unsigned)(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
                                    IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)) ||
        ((a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && a->create_flags)) {
        return iwarp_compat_refuse("verbs", EOPNOTSUPP,
                                   "ibv_create_qp_ex: mask 0x%x, create flags 0x%x: not offered",
                                   a->comp_mask, a->create_flags);
    }
    if ((a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) && (a->send_ops_flags & ~known)) {
        return iwarp_compat_refuse("verbs", EOPNOTSUPP,
                                   "ibv_create_qp_ex: operations 0x%llx: iWARP has none like these",
                                   (unsigned long long)(a->send_ops_flags & ~known));
    }
    if (!(a->comp_mask & IBV_QP_INIT_ATTR_PD) || !a->pd || !a->send_cq || !a->recv_cq) {
        return iwarp_compat_refuse("verbs", EINVAL,
                                   "ibv_create_qp: protection domain, send or receive completion "
                                   "queue is missing");
    }
    return 0;
}

static unsigned at_least_one(unsigned n)
{
    return n > 0 ? n : 1;
}

static int create_native(struct compat_qp *qp, struct ibv_qp_init_attr_ex *a, bool by_number)
{
    static const char *const sinks[] = {"local", "remote", NULL};
    struct iwarp_qp_options o;

    iwarp_qp_options_init(&o);
    o.send_cq = compat_cq(a->send_cq)->native;
    o.recv_cq = compat_cq(a->recv_cq)->native;
    o.srq = a->srq ? compat_srq(a->srq)->native : NULL;
    o.max_send_wr = at_least_one(a->cap.max_send_wr);
    o.max_recv_wr = a->srq ? 0 : a->cap.max_recv_wr;
    o.max_send_sge = at_least_one(a->cap.max_send_sge);
    o.max_recv_sge = a->srq ? 1 : at_least_one(a->cap.max_recv_sge);
    /* Never below the native default: some programs post inline data without asking for room. */
    if (o.max_inline < a->cap.max_inline_data) {
        o.max_inline = a->cap.max_inline_data;
    }
    const struct iwarp_qp_options asked = o;
    if (a->qp_type == IBV_QPT_UD && iwarp_ud_ask(&o)) {
        return errno;
    }
    o.remote_sinks = iwarp_setting_word("IWARP_READ_SINK", sinks, 0) == 1;
    qp->owner.qp = qp;
    o.user = &qp->owner;
    o.num = by_number ? iwarp_num_take(qp) : 0;
    qp->confirms = iwarp_setting_on("IWARP_CONFIRM_WRITES", false);
    o.confirms = o.num != 0 || qp->confirms; /* RDMA Writes: verbs_post.c */
    if (a->qp_type == IBV_QPT_UD && o.num == 0) {
        return iwarp_compat_refuse("verbs", EOPNOTSUPP,
                                   "ibv_create_qp: datagrams (UD) need a TCP port of the kernel, "
                                   "and none can be had");
    }
    enum iwarp_status status = iwarp_qp_create(compat_pd(a->pd)->native, &o, &qp->native);
    if (status != IWARP_OK) {
        int error = iwarp_compat_failed("verbs", status, "ibv_create_qp");
        iwarp_num_free(qp);
        errno = error;
        return error;
    }
    qp->sender = qp->native;
    a->cap.max_send_wr = asked.max_send_wr;
    a->cap.max_recv_wr = asked.max_recv_wr;
    a->cap.max_send_sge = asked.max_send_sge;
    a->cap.max_recv_sge = a->srq ? 0 : asked.max_recv_sge;
    a->cap.max_inline_data = asked.max_inline;
    qp->cap = a->cap;
    qp->sig_all = a->sq_sig_all != 0;
    return 0;
}

static void fill(struct compat_qp *qp, struct ibv_context *context,
                 const struct ibv_qp_init_attr_ex *a)
{
    struct iwarp_device_info info = {.size = sizeof info};

    qp->ibv.context = context;
    qp->ibv.qp_context = a->qp_context;
    qp->ibv.pd = a->pd;
    qp->ibv.send_cq = a->send_cq;
    qp->ibv.recv_cq = a->recv_cq;
    qp->ibv.srq = a->srq;
    qp->ibv.qp_type = a->qp_type;
    qp->ibv.qp_num = qp->ibv.handle = iwarp_qp_num(qp->native);
    qp->ibv.state = IBV_QPS_RESET;
    qp->shows_reset = qp->num && iwarp_compat_poses_as_roce();
    qp->access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                 IBV_ACCESS_MW_BIND;
    qp->rfc7306 = iwarp_device_query(iwarp_compat_device(), &info) == IWARP_OK &&
                  (info.features & IWARP_FEATURE_IMMEDIATE);
    pthread_mutex_init(&qp->ibv.mutex, NULL);
    pthread_cond_init(&qp->ibv.cond, NULL);
}

/* What it has beyond the native queue pair: 0 or an error. */
static int create_parts(struct compat_qp *qp)
{
    int error = qp->ibv.qp_type == IBV_QPT_UD ? iwarp_ud_create(qp) : 0;

    if (!error && qp->extended) {
        error = iwarp_compat_wr_init(qp);
    }
    if (error) {
        (void)iwarp_qp_destroy(qp->native);
        iwarp_ud_free(qp);
        iwarp_num_free(qp);
    }
    return error;
}

/* So that what it uses is not destroyed before it. */
static void count_uses(struct compat_qp *qp, unsigned change)
{
    atomic_fetch_add(&compat_pd(qp->ibv.pd)->users, change);
    atomic_fetch_add(&compat_cq(qp->ibv.send_cq)->users, change);
    atomic_fetch_add(&compat_cq(qp->ibv.recv_cq)->users, change);
    if (qp->ibv.srq) {
        atomic_fetch_add(&compat_srq(qp->ibv.srq)->users, change);
    }
}

static struct ibv_qp *create(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
                             bool by_number)
{
    if (check(attr, by_number)) {
        return NULL;
    }
    struct compat_qp *qp = calloc(1, sizeof *qp);
    if (qp) {
        qp->born = iwarp_compat_generation();
    }
    if (!qp || create_native(qp, attr, by_number)) {
        errno = qp ? errno : ENOMEM;
        free(qp);
        return NULL;
    }
    qp->extended = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    fill(qp, context, attr);
    int error = create_parts(qp);
    if (error) {
        free(qp);
        errno = error;
        return NULL;
    }
    atomic_fetch_add(&compat_context(context)->users, 1);
    count_uses(qp, 1);
    enter(qp);
    return &qp->ibv;
}

struct ibv_qp *iwarp_compat_create_qp_ex(struct ibv_context *context,
                                         struct ibv_qp_init_attr_ex *attr)
{
    return create(context, attr, true);
}

struct ibv_qp *iwarp_compat_create_qp_of_id(struct ibv_context *context,
                                            struct ibv_qp_init_attr_ex *attr)
{
    return create(context, attr, false);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_init_attr_ex ex = {.qp_context = attr->qp_context,
                                     .send_cq = attr->send_cq,
                                     .recv_cq = attr->recv_cq,
                                     .srq = attr->srq,
                                     .cap = attr->cap,
                                     .qp_type = attr->qp_type,
                                     .sq_sig_all = attr->sq_sig_all,
                                     .comp_mask = IBV_QP_INIT_ATTR_PD,
                                     .pd = pd};
    struct ibv_qp *qp = iwarp_compat_create_qp_ex(pd->context, &ex);

    if (qp) {
        attr->cap = ex.cap;
    }
    return qp;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
    return compat_qp(qp)->extended ? &compat_qp(qp)->ex : NULL;
}

/* The program may use it until it has acknowledged its events. Then it leaves the table, so that no
 * event thread finds a queue pair whose native half is gone, and waits for those that have found
 * it. */
int ibv_destroy_qp(struct ibv_qp *ibv)
{
    IWARP_UNCANCELLED; /* a thread cancelled in pthread_cond_wait would keep the mutex locked */
    struct compat_qp *qp = compat_qp(ibv);
    struct compat_context *context = compat_context(ibv->context);

    if (qp->born == iwarp_compat_generation()) {
        iwarp_compat_async_leave(context, qp->async, COMPAT_QP_EVENTS, &ibv->mutex, &ibv->cond,
                                 &ibv->events_completed);
        leave(qp);
        for (unsigned i = 0; atomic_load(&qp->holders) > 0; i++) {
            iwarp_pause(i);
        }
        iwarp_ud_leave(qp);
        iwarp_num_leave(qp);
        enum iwarp_status status = iwarp_qp_destroy(qp->native);
        if (status != IWARP_OK) {
            enter(qp);
            return iwarp_compat_failed("verbs", status, "ibv_destroy_qp");
        }
        iwarp_ud_free(qp);
        iwarp_num_free(qp);
        count_uses(qp, -1u);
    }
    iwarp_compat_wr_fini(qp);
    atomic_fetch_sub(&context->users, 1);
    free(qp);
    return 0;
}

/* --- asking ---------------------------------------------------------------------------------- */

/* A thread that takes events of the connection manager changes it beside the program's others. */
static enum ibv_qp_state state_of(const struct ibv_qp *qp)
{
    return __atomic_load_n(&qp->state, __ATOMIC_RELAXED);
}

static void set_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
    __atomic_store_n(&qp->state, state, __ATOMIC_RELAXED);
}

/* By number the program makes each transition but the one to ERR; that a peer has not come yet, or
 * has gone, is no state. */
static void refresh_by_number(struct compat_qp *qp, enum iwarp_qp_state native)
{
    if (native == IWARP_QP_ERROR || native == IWARP_QP_TERMINATE) {
        set_state(&qp->ibv, IBV_QPS_ERR);
    }
}

/* Unless it is in RESET or RTR, also if another thread takes it there now. */
static void refresh_to_init(struct ibv_qp *qp)
{
    enum ibv_qp_state before = state_of(qp);

    while (before != IBV_QPS_RESET && before != IBV_QPS_RTR &&
           !__atomic_compare_exchange_n(&qp->state, &before, IBV_QPS_INIT, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
}

void iwarp_compat_qp_refresh(struct compat_qp *qp)
{
    if (atomic_load(&qp->named)) {
        refresh_by_number(qp, iwarp_qp_state(qp->native));
        return;
    }
    switch (iwarp_qp_state(qp->native)) {
    case IWARP_QP_IDLE:
        refresh_to_init(&qp->ibv);
        break;
    case IWARP_QP_RTS:
        set_state(&qp->ibv, IBV_QPS_RTS);
        break;
    case IWARP_QP_CLOSING:
        set_state(&qp->ibv, IBV_QPS_SQD);
        break;
    case IWARP_QP_TERMINATE:
    case IWARP_QP_ERROR:
        set_state(&qp->ibv, IBV_QPS_ERR);
        break;
    }
}

int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask,
                 struct ibv_qp_init_attr *init)
{
    struct compat_qp *qp = compat_qp(ibv);
    struct iwarp_qp_info info = {.size = sizeof info};
    enum iwarp_status status = iwarp_qp_query(qp->native, &info);

    (void)mask; /* asks for at least these */
    if (status != IWARP_OK) {
        return iwarp_compat_failed("verbs", status, "ibv_query_qp");
    }
    iwarp_compat_qp_refresh(qp);
    if (state_of(ibv) == IBV_QPS_RESET && !qp->shows_reset) {
        set_state(ibv, IBV_QPS_INIT); /* an RNIC's queue pair takes receives from the beginning */
    }
    memset(attr, 0, sizeof *attr);
    attr->qp_state = attr->cur_qp_state = state_of(ibv);
    attr->path_mtu = IBV_MTU_1024;
    attr->qp_access_flags = qp->access;
    attr->cap = qp->cap;
    attr->port_num = 1;
    attr->max_rd_atomic = (uint8_t)(info.ord > UINT8_MAX ? UINT8_MAX : info.ord);
    attr->max_dest_rd_atomic = (uint8_t)(info.ird > UINT8_MAX ? UINT8_MAX : info.ird);
    if (info.ord == 0 && info.ird == 0) {
        attr->max_rd_atomic = qp->ord;
        attr->max_dest_rd_atomic = qp->ird;
    }
    attr->timeout = atomic_load(&qp->ack_timeout);
    iwarp_num_query(qp, attr);
    *init = (struct ibv_qp_init_attr){.qp_context = ibv->qp_context,
                                      .send_cq = ibv->send_cq,
                                      .recv_cq = ibv->recv_cq,
                                      .srq = ibv->srq,
                                      .cap = qp->cap,
                                      .qp_type = ibv->qp_type,
                                      .sq_sig_all = qp->sig_all};
    return 0;
}

int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
    (void)qp;
    (void)op;
    (void)flags;
    return 0; /* the last octet of a segment is last; the rest has no order: iwarp/verbs.h */
}

/* --- changing -------------------------------------------------------------------------------- */

static int to_state(struct compat_qp *qp, enum iwarp_qp_state state)
{
    const struct iwarp_qp_changes changes = {
        .size = sizeof changes, .mask = IWARP_QP_CHANGE_STATE, .state = state};
    enum iwarp_status status = iwarp_qp_modify(qp->native, &changes);

    return status == IWARP_OK ? 0 : iwarp_compat_failed("verbs", status, "ibv_modify_qp");
}

/* To RESET or INIT: a queue pair in ERROR becomes IDLE and can be connected again. */
static int start_anew(struct compat_qp *qp, enum iwarp_qp_state now)
{
    if (now == IWARP_QP_ERROR) {
        int error = to_state(qp, IWARP_QP_IDLE);
        if (error) {
            return error;
        }
        atomic_store(&qp->connecting, COMPAT_SENDS_NOT);
        return 0;
    }
    return now == IWARP_QP_IDLE ? 0
                                : iwarp_compat_refuse("verbs", EINVAL,
                                                      "ibv_modify_qp: to RESET or INIT while "
                                                      "connected or closing; first to ERR");
}

/* RTR needs no connection, since programs go there before they connect. RTS needs one, or one that
 * has begun. */
static int to_rtr_or_rts(struct compat_qp *qp, enum ibv_qp_state to, enum iwarp_qp_state now)
{
    if (now == IWARP_QP_RTS || (now == IWARP_QP_IDLE && atomic_load(&qp->connecting)) ||
        (now == IWARP_QP_IDLE && to == IBV_QPS_RTR)) {
        return 0;
    }
    return iwarp_compat_refuse("verbs", EINVAL,
                               "ibv_modify_qp: to RTS without a connection; rdma_connect and "
                               "rdma_accept bring a queue pair there, or RTR with the peer's "
                               "address and number");
}

static int change_state(struct compat_qp *qp, enum ibv_qp_state to)
{
    enum iwarp_qp_state now = iwarp_qp_state(qp->native);

    switch (to) {
    case IBV_QPS_INIT:
        /* Programs with a queue pair of their own do this between rdma_connect and RTS. */
        return now == IWARP_QP_RTS ? 0 : start_anew(qp, now);
    case IBV_QPS_RESET:
        if (now == IWARP_QP_IDLE && !atomic_load(&qp->connecting)) {
            int error = to_state(qp, IWARP_QP_ERROR); /* what is posted is dropped */
            return error ? error : start_anew(qp, IWARP_QP_ERROR);
        }
        return start_anew(qp, now);
    case IBV_QPS_RTR:
    case IBV_QPS_RTS:
        return to_rtr_or_rts(qp, to, now);
    case IBV_QPS_SQD:
        return now == IWARP_QP_CLOSING ? 0 : to_state(qp, IWARP_QP_CLOSING);
    case IBV_QPS_ERR:
        /* A queue pair that is closing, or sends a Terminate, goes to ERROR by itself. */
        return now == IWARP_QP_IDLE || now == IWARP_QP_RTS ? to_state(qp, IWARP_QP_ERROR) : 0;
    case IBV_QPS_SQE:
    case IBV_QPS_UNKNOWN:
        break;
    }
    return iwarp_compat_refuse("verbs", EINVAL, "ibv_modify_qp: no state %d on iWARP", (int)to);
}

/* Rights take effect at once; depths only until the connection is made. */
static int change_attributes(struct compat_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    enum iwarp_qp_state now = iwarp_qp_state(qp->native);
    struct iwarp_qp_changes changes = {.size = sizeof changes};

    if (mask & IBV_QP_ACCESS_FLAGS) {
        qp->access = attr->qp_access_flags;
        changes.mask |= IWARP_QP_CHANGE_ACCESS;
        changes.access = (iwarp_compat_access(qp->access) & ~(unsigned)IWARP_ACCESS_LOCAL_WRITE &
                          ~(unsigned)IWARP_ACCESS_ZERO_BASED) |
                         IWARP_ACCESS_MW_BIND;
    }
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) {
        qp->ird = attr->max_dest_rd_atomic;
        changes.mask |= now == IWARP_QP_IDLE ? IWARP_QP_CHANGE_IRD : 0;
        changes.ird = qp->ird;
    }
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC) {
        qp->ord = attr->max_rd_atomic;
        changes.mask |= now == IWARP_QP_IDLE ? IWARP_QP_CHANGE_ORD : 0;
        changes.ord = qp->ord;
    }
    /* A queue pair that is connecting accepts no change, and one that has ended needs none. */
    bool takes = now == IWARP_QP_RTS || (now == IWARP_QP_IDLE && !atomic_load(&qp->connecting));
    if (changes.mask == 0 || !takes) {
        return 0;
    }
    enum iwarp_status status = iwarp_qp_modify(qp->native, &changes);
    return status == IWARP_OK ? 0 : iwarp_compat_failed("verbs", status, "ibv_modify_qp");
}

/* Or by nobody yet: what is set before RTR counts for a connection by number, too. */
static int change_by_manager(struct compat_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    int error = mask & IBV_QP_STATE ? change_state(qp, attr->qp_state) : 0;

    if (!error) {
        error = change_attributes(qp, attr, mask);
    }
    if (!error) {
        iwarp_num_note(qp, attr, mask);
    }
    return error;
}

static int modify(struct compat_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    if (qp->ud) {
        return iwarp_ud_modify(qp, attr, mask);
    }
    if ((mask & (IBV_QP_AV | IBV_QP_DEST_QPN)) || atomic_load(&qp->named)) {
        return iwarp_num_modify(qp, attr, mask);
    }
    return change_by_manager(qp, attr, mask);
}

/* The native queue pair goes to RESET by way of ERROR, which it reports; adapters do not. */
int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
    struct compat_qp *qp = compat_qp(ibv);
    struct compat_async *last = &qp->async[COMPAT_QP_LAST_WQE];
    bool resets = (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET &&
                  qp->born == iwarp_compat_generation();

    if ((mask & IBV_QP_PORT) && attr->port_num != 1) {
        return iwarp_compat_refuse("verbs", EINVAL, "ibv_modify_qp: port %u: there is port 1 alone",
                                   attr->port_num);
    }
    if (resets) {
        iwarp_compat_async_quiet(compat_context(ibv->context), last, true);
    }
    int error = modify(qp, attr, mask);
    if (resets) {
        iwarp_compat_async_quiet(compat_context(ibv->context), last, false);
    }
    if (!error && (mask & IBV_QP_STATE)) {
        if (attr->qp_state == IBV_QPS_RESET) {
            qp->shows_reset = true; /* before another thread can find it in RESET */
        }
        set_state(ibv, attr->qp_state);
        iwarp_compat_qp_refresh(qp);
    }
    return error;
}
