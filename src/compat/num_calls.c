/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the calls of libibverbs mean for a queue pair that is connected by number: RTR names the
 * peer, RTS allows sends, ERR and RESET end the connection. No call waits for the peer.
 */
#include "base/log.h"
#include "base/process.h"
#include "compat/num.h"
#include "compat/ud.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define NAMING (IBV_QP_AV | IBV_QP_DEST_QPN)

/* In a forked child the number is the parent's. */
static struct num *lock_num(struct compat_qp *qp)
{
    if (!qp->num || qp->born != iwarp_compat_generation()) {
        return NULL;
    }
    pthread_mutex_lock(&num_lock);
    return qp->num;
}

static void unlock_num(void)
{
    pthread_mutex_unlock(&num_lock);
}

/* --- numbers --------------------------------------------------------------------------------- */

uint32_t iwarp_num_take(struct compat_qp *qp)
{
    IWARP_UNCANCELLED;

    (void)iwarp_compat_generation(); /* forks are watched from here on */
    if (iwarp_compat_tcp_is_foreign(iwarp_compat_device())) {
        iwarp_log(IWARP_LOG_INFO, "verbs",
                  "ibv_create_qp: IWARP_TRANSPORT names another TCP than the kernel's: this queue "
                  "pair can be connected by rdma_cm only, not by number");
        return 0;
    }
    pthread_mutex_lock(&num_lock);
    struct num *n = num_port_take();
    if (n) {
        n->qp = qp;
        qp->num = n;
    }
    unlock_num();
    if (!n) {
        iwarp_log(IWARP_LOG_INFO, "verbs",
                  "ibv_create_qp: no TCP port can be had (%s): this queue pair can be connected by "
                  "rdma_cm only, not by number",
                  strerror(errno));
    }
    return n ? n->number : 0;
}

void iwarp_num_leave(struct compat_qp *qp)
{
    struct num *n = lock_num(qp);

    if (n) {
        num_engine_remove(n);
        num_conn_end(n, true); /* also if the engine has not heard yet that it is established */
        num_self_end(n);
        n->state = NUM_UNNAMED;
        unlock_num();
    }
}

void iwarp_num_free(struct compat_qp *qp)
{
    struct num *n = lock_num(qp);

    if (n) {
        num_held_drop(n->number);
        num_port_give_back(n);
        qp->num = NULL;
        unlock_num();
    }
}

void iwarp_num_forget_all(void)
{
    num_engine_forget();
    num_port_forget();
    num_held_forget();
    ud_all_forget();
}

/* --- attributes ------------------------------------------------------------------------------ */

static void merge(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
#define TAKE(bit, member)                                                                          \
    if (mask & (bit)) {                                                                            \
        to->member = from->member;                                                                 \
    }
    TAKE(IBV_QP_PKEY_INDEX, pkey_index)
    TAKE(IBV_QP_PORT, port_num)
    TAKE(IBV_QP_QKEY, qkey)
    TAKE(IBV_QP_AV, ah_attr)
    TAKE(IBV_QP_PATH_MTU, path_mtu)
    TAKE(IBV_QP_TIMEOUT, timeout)
    TAKE(IBV_QP_RETRY_CNT, retry_cnt)
    TAKE(IBV_QP_RNR_RETRY, rnr_retry)
    TAKE(IBV_QP_RQ_PSN, rq_psn)
    TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic)
    TAKE(IBV_QP_ALT_PATH, alt_ah_attr)
    TAKE(IBV_QP_ALT_PATH, alt_pkey_index)
    TAKE(IBV_QP_ALT_PATH, alt_port_num)
    TAKE(IBV_QP_ALT_PATH, alt_timeout)
    TAKE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer)
    TAKE(IBV_QP_SQ_PSN, sq_psn)
    TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic)
    TAKE(IBV_QP_PATH_MIG_STATE, path_mig_state)
    TAKE(IBV_QP_DEST_QPN, dest_qp_num)
#undef TAKE
}

static void keep(struct num *n, const struct ibv_qp_attr *attr, int mask)
{
    merge(&n->set, attr, mask);
    n->mask |= mask & ~(IBV_QP_STATE | IBV_QP_CUR_STATE);
}

void iwarp_num_note(struct compat_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    struct num *n = lock_num(qp);

    if (n) {
        if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET) {
            memset(&n->set, 0, sizeof n->set);
            n->mask = 0;
        }
        keep(n, attr, mask);
        unlock_num();
    }
}

/* All but what ibv_query_qp knows better: states, rights, capacities. */
void iwarp_num_query(struct compat_qp *qp, struct ibv_qp_attr *attr)
{
    struct num *n = lock_num(qp);

    if (n) {
        merge(attr, &n->set, n->mask);
        unlock_num();
    }
}

/* --- states ---------------------------------------------------------------------------------- */

static uint64_t nonce(void)
{
    uint64_t value;

    /* Early in the boot there may be none: then two ends of equal numbers may begin again. */
    return getrandom(&value, sizeof value, GRND_NONBLOCK) == sizeof value ? value : 0;
}

static int seek_peer(struct num *n)
{
    struct iwarp_eq *eq = num_engine_eq();

    if (!eq) {
        return errno;
    }
    int error = num_port_listen(n->port, eq);
    if (!error) {
        n->state = NUM_SEEKING;
        n->due_ms = n->since_ms + NUM_RTS_SOON_MS;
        num_engine_add(n);
    }
    return error;
}

/* INIT to RTR. What it names is kept only if all goes well. */
static int to_rtr(struct num *n, const struct ibv_qp_attr *attr, int mask)
{
    const struct ibv_qp_attr before = n->set;

    if (n->state != NUM_UNNAMED || iwarp_qp_state(n->qp->native) != IWARP_QP_IDLE ||
        atomic_load(&n->qp->connecting)) {
        return iwarp_compat_refuse("verbs", EINVAL,
                                   "ibv_modify_qp: to RTR with a peer, from another state than "
                                   "INIT");
    }
    if ((mask & NAMING) != NAMING) {
        return iwarp_compat_refuse("verbs", EINVAL,
                                   "ibv_modify_qp: to RTR needs the peer's address and number "
                                   "(IBV_QP_AV and IBV_QP_DEST_QPN)");
    }
    merge(&n->set, attr, mask);
    n->since_ms = compat_now_ms();
    n->until_ms = 0;
    n->tries = n->pause_ms = 0;
    n->why[0] = '\0';
    n->not_reached = n->blamed = false;
    n->nonce = nonce();
    int error = num_path_find("ibv_modify_qp", n->qp->ibv.context, &n->set.ah_attr, &n->path);
    if (!error && n->path.here && n->set.dest_qp_num == n->number) {
        error = num_self_connect(n);
        n->state = error ? n->state : NUM_UP;
    } else if (!error) {
        error = seek_peer(n);
    }
    if (error) {
        n->set = before;
        return error;
    }
    keep(n, attr, mask);
    atomic_store(&n->qp->named, true);
    return 0;
}

static int to_rts(struct num *n, const struct ibv_qp_attr *attr, int mask)
{
    if (n->state == NUM_UNNAMED || n->state == NUM_OVER) {
        return iwarp_compat_refuse("verbs", EINVAL, "ibv_modify_qp: to RTS from %s",
                                   n->state == NUM_OVER ? "ERR" : "INIT");
    }
    keep(n, attr, mask | IBV_QP_SQ_PSN);
    if (n->state == NUM_SEEKING) {
        n->due_ms = n->tries == 0 ? compat_now_ms() : n->due_ms;
        num_engine_add(n);
    }
    atomic_store(&n->qp->connecting, n->state == NUM_UP ? COMPAT_SENDS : COMPAT_SENDS_NOTED);
    return 0;
}

static int to_err(struct num *n)
{
    num_engine_remove(n);
    num_conn_over(n);
    return 0;
}

static int to_reset(struct num *n)
{
    num_engine_remove(n);
    int error = num_conn_reset(n);
    if (!error) {
        n->state = NUM_UNNAMED;
        memset(&n->set, 0, sizeof n->set);
        n->mask = 0;
        atomic_store(&n->qp->named, false);
        atomic_store(&n->qp->connecting, COMPAT_SENDS_NOT);
    }
    return error;
}

static int change(struct num *n, const struct ibv_qp_attr *attr, int mask)
{
    if (!(mask & IBV_QP_STATE)) {
        keep(n, attr, mask);
        return 0;
    }
    switch (attr->qp_state) {
    case IBV_QPS_RTR:
        return to_rtr(n, attr, mask);
    case IBV_QPS_RTS:
        return to_rts(n, attr, mask);
    case IBV_QPS_ERR:
        return to_err(n);
    case IBV_QPS_RESET:
        return to_reset(n);
    case IBV_QPS_SQD:
        return iwarp_compat_refuse("verbs", EOPNOTSUPP,
                                   "ibv_modify_qp: SQD, a send queue that pauses, is not offered "
                                   "for queue pairs that are connected by number");
    case IBV_QPS_INIT:
    case IBV_QPS_SQE:
    case IBV_QPS_UNKNOWN:
        break;
    }
    return iwarp_compat_refuse("verbs", EINVAL, "ibv_modify_qp: no way to state %d from here",
                               (int)attr->qp_state);
}

int iwarp_num_modify(struct compat_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    IWARP_UNCANCELLED;
    struct num *n = lock_num(qp);

    if (!n) {
        return iwarp_compat_refuse("verbs", EINVAL,
                                   "ibv_modify_qp: this queue pair cannot be connected by number: "
                                   "%s",
                                   qp->num ? "it was made before a fork, by another process"
                                           : "rdma_create_qp made it, or no TCP port of the kernel "
                                             "could be had");
    }
    int error = change(n, attr, mask);
    if (!error && (mask & IBV_QP_ACCESS_FLAGS)) {
        qp->access = attr->qp_access_flags;
        num_conn_allow(n);
    }
    unlock_num();
    return error;
}

/* --- work ------------------------------------------------------------------------------------ */

/* After the request is in the queue, so that giving up flushes it. */
void iwarp_num_posted(struct compat_qp *qp)
{
    IWARP_UNCANCELLED;
    struct num *n = lock_num(qp);

    if (n) {
        if (atomic_load(&qp->connecting) == COMPAT_SENDS_NOTED) {
            atomic_store(&qp->connecting, COMPAT_SENDS);
            num_engine_hurry(n);
        }
        unlock_num();
    }
}

static bool is_loss(uint32_t code)
{
    return code == IWARP_FAULT_TCP_LOST || code == IWARP_FAULT_TCP_SLOW ||
           code == IWARP_FAULT_TCP_TIMEOUT || code == IWARP_FAULT_RDMAP_PEER_CLOSED;
}

bool iwarp_num_blame(uint32_t number, uint32_t fault_code)
{
    IWARP_UNCANCELLED;

    pthread_mutex_lock(&num_lock);
    struct num *n = num_port_find(number);
    bool first = n && !n->qp->ud && !n->blamed && (n->not_reached || is_loss(fault_code));
    if (first) {
        n->blamed = true;
    }
    unlock_num();
    return first;
}
