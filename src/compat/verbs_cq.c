/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues and completion channels. A channel's descriptor is an eventfd in semaphore mode
 * with one count for each waiting event. So ibv_get_cq_event blocks in a plain read, which holds no
 * lock and can be interrupted. The native queue calls notify() after the completion is in the
 * queue, so a program that takes the event finds the completion.
 */
#include "compat/compat.h"

#include "base/lead.h"
#include "base/pause.h"
#include "base/process.h"
#include "base/unpolled.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* --- channels -------------------------------------------------------------------------------- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    IWARP_UNCANCELLED;
    struct compat_channel *c = calloc(1, sizeof *c);

    if (!c) {
        errno = ENOMEM;
        return NULL;
    }
    c->ibv.context = context;
    c->ibv.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    if (c->ibv.fd < 0) {
        int error = errno;
        free(c);
        (void)iwarp_compat_refuse("verbs", error, "ibv_create_comp_channel: no eventfd: %s",
                                  strerror(error));
        return NULL;
    }
    pthread_mutex_init(&c->lock, NULL);
    c->born = iwarp_compat_generation();
    return &c->ibv;
}

/* The parent goes on to use its end of the descriptor, and its locks are not to be waited for. */
static bool is_foreign(const struct compat_channel *c)
{
    return c->born != iwarp_compat_generation();
}

static bool is_busy(struct ibv_comp_channel *ibv)
{
    pthread_mutex_lock(&ibv->context->mutex);
    bool busy = ibv->refcnt > 0;
    pthread_mutex_unlock(&ibv->context->mutex);
    return busy;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
    IWARP_UNCANCELLED;
    struct compat_channel *c = compat_channel(ibv);

    if (!is_foreign(c) && is_busy(ibv)) {
        return iwarp_compat_refuse("verbs", EBUSY,
                                   "ibv_destroy_comp_channel: completion queues use it");
    }
    close(ibv->fd);
    pthread_mutex_destroy(&c->lock);
    free(c);
    return 0;
}

static void count_reference(struct ibv_comp_channel *channel, int change)
{
    pthread_mutex_lock(&channel->context->mutex);
    channel->refcnt += change;
    pthread_mutex_unlock(&channel->context->mutex);
}

/* By any thread that has pushed, two of them at a time too. */
/* Called by the native queue with native locks held: takes only channel.lock, and never blocks. */
static void notify(void *arg)
{
    struct compat_cq *cq = arg;
    struct compat_channel *c = cq->channel;
    const uint64_t one = 1;

    if (!c) {
        return;
    }
    pthread_mutex_lock(&c->lock);
    if (cq->leaving) {
        pthread_mutex_unlock(&c->lock);
        return;
    }
    if (cq->pending++ == 0) {
        cq->next = NULL;
        *(c->last ? &c->last->next : &c->first) = cq;
        c->last = cq;
    }
    bool led = atomic_load(&c->leaders) > 0;
    atomic_fetch_add(&c->writing, 1);
    pthread_mutex_unlock(&c->lock);
    (void)!write(c->ibv.fd, &one, sizeof one); /* the thread that wakes up finds the lock free */
    atomic_fetch_sub(&c->writing, 1);
    if (led) {
        iwarp_cq_wake_leader(iwarp_cq_device(cq->native));
    }
}

/* c->lock held. */
static void unlink_cq(struct compat_channel *c, struct compat_cq *cq)
{
    struct compat_cq **at = &c->first, *before = NULL;

    while (*at && *at != cq) {
        before = *at;
        at = &(*at)->next;
    }
    if (*at) {
        *at = cq->next;
        c->last = c->last == cq ? before : c->last;
    }
}

/* --- waiting: base/lead.h ---------------------------------------------------------------- */

static bool has_event(void *channel)
{
    struct compat_channel *c = channel;

    pthread_mutex_lock(&c->lock);
    bool has = c->first != NULL;
    pthread_mutex_unlock(&c->lock);
    return has;
}

/* A program that waits elsewhere, and asks only when there is something, never waits here. */
static bool would_wait(struct compat_channel *c)
{
    return !has_event(c) && (fcntl(c->ibv.fd, F_GETFL) & O_NONBLOCK) == 0;
}

/* All queues that are armed count as such. True: some did not before. c->lock held. */
static bool count_all(struct compat_channel *c)
{
    bool any = false;

    for (struct compat_cq *cq = c->all; cq; cq = cq->sibling) {
        any = iwarp_cq_arm_to_sleep(cq->native) || any;
    }
    c->led_for = false;
    return any;
}

/* The program has come: its queues may be armed to lead again. True: the lease is to be recalled.
 */
static bool expect_no_more(struct compat_channel *c, bool sleeps)
{
    pthread_mutex_lock(&c->lock);
    for (struct compat_cq *cq = c->all; cq; cq = cq->sibling) {
        cq->expected = false;
    }
    bool any = sleeps && count_all(c);
    pthread_mutex_unlock(&c->lock);
    return any;
}

/* A reader raises `readers` before it has all queues count, with the lock held: it is seen here, or
 * counts them again. */
static void lead_for_all(struct compat_channel *c, const struct iwarp_device *device)
{
    if (!iwarp_cq_is_kept(device)) {
        return;
    }
    pthread_mutex_lock(&c->lock);
    bool alone = atomic_load(&c->readers) == 0;
    c->led_for = c->led_for || alone;
    for (struct compat_cq *cq = c->all; cq && alone; cq = cq->sibling) {
        iwarp_cq_lead_for(cq->native);
    }
    pthread_mutex_unlock(&c->lock);
}

/* NULL: the channel has no queue. */
static struct iwarp_device *device_of(struct compat_channel *c)
{
    pthread_mutex_lock(&c->lock);
    struct iwarp_device *device = c->all ? iwarp_cq_device(c->all->native) : NULL;
    pthread_mutex_unlock(&c->lock);
    return device;
}

/*
 * Wait by running the loop, if this thread has earned it.  0: there is an event.  EAGAIN: there may
 * be none.  EINTR: a handler has run.
 */
static int lead(struct compat_channel *c, struct iwarp_device *device)
{
    lead_for_all(c, device);
    atomic_fetch_add(&c->leaders, 1);
    int error = iwarp_compat_lead(device, has_event, c, true);
    atomic_fetch_sub(&c->leaders, 1);
    return error;
}

/* Also when the thread is cancelled while it reads. */
static void read_no_more(void *channel)
{
    struct compat_channel *c = channel;

    atomic_fetch_sub(&c->readers, 1);
}

/* The thread reads the descriptor next: true if there is an event.  Beside another reader it may
 * sleep all the same, as the other one may take that event. */
static bool begin_to_read(struct compat_channel *c, struct iwarp_device *device)
{
    bool alone = atomic_fetch_add(&c->readers, 1) == 0, has = has_event(c);

    if (expect_no_more(c, !has || !alone) && device) {
        iwarp_cq_recall(device);
    }
    return has;
}

static int take_event(struct compat_channel *c, struct ibv_cq **ibv, void **cq_context)
{
    struct compat_cq *cq;
    int error;

    do {
        pthread_cleanup_push(read_no_more, c);
        error = iwarp_compat_semaphore_wait(c->ibv.fd);
        pthread_cleanup_pop(0);
        if (error) {
            return -1;
        }
        pthread_mutex_lock(&c->lock);
        cq = c->first;
        if (cq) {
            *ibv = &cq->ibv;
            *cq_context = cq->ibv.cq_context;
            atomic_fetch_add(&cq->delivered, 1);
            if (--cq->pending == 0) {
                unlink_cq(c, cq);
            }
        }
        pthread_mutex_unlock(&c->lock);
    } while (!cq); /* the queue of the count was destroyed between read and lock */
    return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **ibv, void **cq_context)
{
    struct compat_channel *c = compat_channel(channel);
    int result = -1, error = EAGAIN;

    if (is_foreign(c)) {
        (void)iwarp_compat_refuse("verbs", EINVAL,
                                  "ibv_get_cq_event: the channel was made by "
                                  "another process, before a fork");
        return -1;
    }
    struct iwarp_device *device = device_of(c);
    bool waits = device && would_wait(c);
    if (waits) {
        error = lead(c, device);
    }
    if (!begin_to_read(c, device) && error == EINTR) {
        errno = EINTR;
    } else {
        result = take_event(c, ibv, cq_context);
    }
    read_no_more(c);
    if (waits) {
        iwarp_cq_waited(device);
    }
    return result;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
    if (n == 0 || compat_cq(cq)->born != iwarp_compat_generation()) {
        return;
    }
    pthread_mutex_lock(&cq->mutex);
    cq->comp_events_completed += n;
    pthread_cond_broadcast(&cq->cond);
    pthread_mutex_unlock(&cq->mutex);
}

/* --- queues ---------------------------------------------------------------------------------- */

static void join_channel(struct compat_cq *cq)
{
    pthread_mutex_lock(&cq->channel->lock);
    cq->sibling = cq->channel->all;
    cq->channel->all = cq;
    pthread_mutex_unlock(&cq->channel->lock);
}

/* Waiting threads use the queues of the list. */
static void part_from_channel(struct compat_cq *cq)
{
    struct compat_cq **at = &cq->channel->all;

    pthread_mutex_lock(&cq->channel->lock);
    while (*at && *at != cq) {
        at = &(*at)->sibling;
    }
    if (*at) {
        *at = cq->sibling;
    }
    cq->leaving = true;
    pthread_mutex_unlock(&cq->channel->lock);
}

static struct compat_cq *create(struct ibv_context *context, int cqe, void *cq_context,
                                struct ibv_comp_channel *channel, int comp_vector)
{
    struct iwarp_device *native = iwarp_compat_device();

    if (!native) {
        return NULL;
    }
    if (cqe < 1 || comp_vector < 0 || comp_vector >= context->num_comp_vectors) {
        (void)iwarp_compat_refuse("verbs", EINVAL, "ibv_create_cq: %d entries, vector %d of %d",
                                  cqe, comp_vector, context->num_comp_vectors);
        return NULL;
    }
    if (channel && is_foreign(compat_channel(channel))) {
        (void)iwarp_compat_refuse("verbs", EINVAL,
                                  "ibv_create_cq: the channel was made by "
                                  "another process, before a fork");
        return NULL;
    }
    struct compat_cq *cq = calloc(1, sizeof *cq);
    if (!cq) {
        errno = ENOMEM;
        return NULL;
    }
    enum iwarp_status status = iwarp_cq_create(native, (unsigned)cqe, cq, &cq->native);
    if (status != IWARP_OK) {
        free(cq);
        (void)iwarp_compat_failed("verbs", status, "ibv_create_cq");
        return NULL;
    }
    cq->ibv.context = context;
    cq->ibv.cq_context = cq_context;
    cq->ibv.cqe = cqe;
    cq->ibv.channel = channel;
    cq->channel = channel ? compat_channel(channel) : NULL;
    cq->born = iwarp_compat_generation();
    pthread_mutex_init(&cq->ibv.mutex, NULL);
    pthread_cond_init(&cq->ibv.cond, NULL);
    pthread_mutex_init(&cq->polling, NULL);
    (void)iwarp_cq_notify_by(cq->native, notify, cq);
    if (channel) {
        count_reference(channel, 1);
        join_channel(cq);
    }
    atomic_fetch_add(&compat_context(context)->users, 1);
    return cq;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                             struct ibv_comp_channel *channel, int comp_vector)
{
    struct compat_cq *cq = create(context, cqe, cq_context, channel, comp_vector);

    return cq ? &cq->ibv : NULL;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
    if (cqe < 1) {
        return iwarp_compat_refuse("verbs", EINVAL, "ibv_resize_cq: %d entries", cqe);
    }
    enum iwarp_status status = iwarp_cq_resize(compat_cq(cq)->native, (unsigned)cqe);
    if (status != IWARP_OK) {
        return iwarp_compat_failed("verbs", status, "ibv_resize_cq");
    }
    cq->cqe = cqe;
    return 0;
}

/* Drop the waiting events with their counts, and wait until the program has acknowledged those that
 * it took. Until then it may use the queue. */
static void leave_channel(struct compat_cq *cq)
{
    struct compat_channel *c = cq->channel;

    part_from_channel(cq);
    for (unsigned i = 0; atomic_load(&c->writing) > 0; i++) {
        iwarp_pause(i); /* a short call: then the descriptor counts this queue's events */
    }
    pthread_mutex_lock(&c->lock);
    if (cq->pending > 0) {
        unlink_cq(c, cq);
    }
    for (; cq->pending > 0; cq->pending--) {
        iwarp_compat_semaphore_take(c->ibv.fd);
    }
    pthread_mutex_unlock(&c->lock);
    pthread_mutex_lock(&cq->ibv.mutex);
    while (cq->ibv.comp_events_completed != atomic_load(&cq->delivered)) {
        pthread_cond_wait(&cq->ibv.cond, &cq->ibv.mutex);
    }
    pthread_mutex_unlock(&cq->ibv.mutex);
}

int ibv_destroy_cq(struct ibv_cq *ibv)
{
    IWARP_UNCANCELLED; /* a thread cancelled in pthread_cond_wait would keep the mutex locked */
    struct compat_cq *cq = compat_cq(ibv);
    struct compat_context *context = compat_context(ibv->context);

    if (cq->born == iwarp_compat_generation()) {
        if (atomic_load(&cq->users) > 0) {
            return iwarp_compat_refuse("verbs", EBUSY, "ibv_destroy_cq: queue pairs use it");
        }
        if (cq->channel) {
            leave_channel(cq);
        }
        iwarp_compat_async_leave(context, &cq->async, 1, &ibv->mutex, &ibv->cond,
                                 &ibv->async_events_completed);
        (void)iwarp_cq_destroy(cq->native); /* waits for a notify that has begun */
        if (cq->channel) {
            count_reference(&cq->channel->ibv, -1);
        }
    }
    atomic_fetch_sub(&context->users, 1);
    pthread_mutex_destroy(&cq->polling);
    free(cq);
    return 0;
}

/*
 * Only if the program has come to wait for the channel since the last time: one that waits
 * elsewhere would be served late.  Then all queues of the channel count again.
 */
static bool arm_to_lead(struct compat_cq *cq, bool solicited_only)
{
    struct compat_channel *c = cq->channel;

    pthread_mutex_lock(&c->lock);
    bool came = !cq->expected;
    pthread_mutex_unlock(&c->lock);
    bool leads = came && iwarp_cq_arm_to_lead(cq->native, solicited_only);
    pthread_mutex_lock(&c->lock);
    cq->expected = cq->expected || leads;
    if (!leads && c->led_for) {
        (void)count_all(c); /* the arming that follows recalls the lease */
    }
    pthread_mutex_unlock(&c->lock);
    return leads;
}

int iwarp_compat_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    struct compat_cq *c = compat_cq(cq);

    if (c->channel && !is_foreign(c->channel) && arm_to_lead(c, solicited_only != 0)) {
        return 0;
    }
    enum iwarp_status status = iwarp_cq_arm(c->native, solicited_only != 0);
    return status == IWARP_OK ? 0 : iwarp_compat_failed("verbs", status, "ibv_req_notify_cq");
}

/* --- completions ----------------------------------------------------------------------------- */

static enum ibv_wc_status status_of(enum iwarp_wc_status status)
{
    switch (status) {
    case IWARP_WC_SUCCESS:
        return IBV_WC_SUCCESS;
    case IWARP_WC_FLUSHED:
        return IBV_WC_WR_FLUSH_ERR;
    case IWARP_WC_LOCAL_PROTECTION:
        return IBV_WC_LOC_PROT_ERR;
    case IWARP_WC_LOCAL_OPERATION:
        return IBV_WC_LOC_QP_OP_ERR;
    case IWARP_WC_LOCAL_BIND:
        return IBV_WC_MW_BIND_ERR;
    case IWARP_WC_REMOTE_ACCESS:
        return IBV_WC_REM_ACCESS_ERR;
    case IWARP_WC_REMOTE_INVALID:
        return IBV_WC_REM_INV_REQ_ERR;
    case IWARP_WC_REMOTE_OPERATION:
        return IBV_WC_REM_OP_ERR;
    case IWARP_WC_LOCAL_LENGTH:
        return IBV_WC_LOC_LEN_ERR;
    }
    return IBV_WC_GENERAL_ERR;
}

static enum ibv_wc_opcode opcode_of(const struct iwarp_wc *wc)
{
    switch (wc->opcode) {
    case IWARP_WC_SEND:
    case IWARP_WC_IMM:
        return IBV_WC_SEND;
    case IWARP_WC_WRITE:
        return IBV_WC_RDMA_WRITE;
    case IWARP_WC_READ:
        return IBV_WC_RDMA_READ;
    case IWARP_WC_FETCH_ADD:
        return IBV_WC_FETCH_ADD;
    case IWARP_WC_CMP_SWAP:
        return IBV_WC_COMP_SWAP;
    case IWARP_WC_LOCAL_INV:
        return IBV_WC_LOCAL_INV;
    case IWARP_WC_REG_MR:
    case IWARP_WC_BIND_MW:
        return IBV_WC_BIND_MW;
    case IWARP_WC_RECV: /* Immediate Data of its own came behind an RDMA Write */
        return (wc->flags & (IWARP_WC_WITH_IMM | IWARP_WC_IMM_OF_SEND)) == IWARP_WC_WITH_IMM
                   ? IBV_WC_RECV_RDMA_WITH_IMM
                   : IBV_WC_RECV;
    }
    return IBV_WC_SEND;
}

static void translate(struct ibv_wc *to, const struct iwarp_wc *from)
{
    *to = (struct ibv_wc){.wr_id = from->wr_id,
                          .status = status_of(from->status),
                          .opcode = opcode_of(from),
                          .byte_len = from->byte_len,
                          .qp_num = from->qp_num};
    if (from->status == IWARP_WC_FLUSHED && from->opcode != IWARP_WC_RECV &&
        iwarp_num_blame(from->qp_num, from->fault_code)) {
        to->status = IBV_WC_RETRY_EXC_ERR;
    }
    if (from->status != IWARP_WC_SUCCESS) {
        to->vendor_err = from->fault_code; /* of `fault` the connection may have gone */
    } else if (from->flags & IWARP_WC_WITH_IMM) {
        to->imm_data = htonl((uint32_t)from->imm);
        to->wc_flags = IBV_WC_WITH_IMM;
        if (from->flags & IWARP_WC_IMM_OF_SEND) {
            iwarp_ud_complete(from->qp_num, from->imm, to);
        }
    } else if (from->flags & IWARP_WC_WITH_INVALIDATE) {
        to->invalidated_rkey = from->invalidated_stag;
        to->wc_flags = IBV_WC_WITH_INV;
    }
}

/* That the queue has overflowed is said once, as a program that polls on would fill the log. */
static int poll_failed(struct compat_cq *cq, enum iwarp_status status)
{
    errno = ENOMEM;
    if (status != IWARP_LIMIT || !atomic_exchange(&cq->has_said, true)) {
        (void)iwarp_compat_failed("verbs", status, "ibv_poll_cq");
    }
    return -1;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
    enum { BATCH = 16 };
    struct iwarp_wc native[BATCH];
    int taken = 0;

    while (taken < n) {
        int want = n - taken < BATCH ? n - taken : BATCH;
        int got = iwarp_cq_poll(compat_cq(cq)->native, native, want);
        if (got < 0 && taken == 0) {
            return poll_failed(compat_cq(cq), (enum iwarp_status)got);
        }
        for (int i = 0; i < got; i++) {
            translate(&wc[taken++], &native[i]);
        }
        if (got < want) {
            break;
        }
    }
    return taken;
}

int iwarp_compat_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
    int taken = poll_cq(cq, n, wc);

    return taken == 0 && n > 0 && iwarp_ud_help() ? poll_cq(cq, n, wc) : taken;
}

bool iwarp_compat_unpolled(struct iwarp_conn *conn)
{
    return iwarp_conn_unpolled(conn);
}

/* --- one at a time: ibv_start_poll ----------------------------------------------------------- */

/* From ibv_start_poll, if that gives one, to ibv_end_poll the queue is the thread's. */
static void begin_turn(struct compat_cq *cq)
{
    if (!cq->unlocked) {
        pthread_mutex_lock(&cq->polling);
    }
}

static void end_turn(struct compat_cq *cq)
{
    if (!cq->unlocked) {
        pthread_mutex_unlock(&cq->polling);
    }
}

static int next_poll(struct ibv_cq_ex *ex)
{
    struct compat_cq *cq = compat_of(ex, struct compat_cq, ex);
    int got = iwarp_compat_poll_cq(&cq->ibv, 1, &cq->wc);

    if (got == 1) {
        ex->wr_id = cq->wc.wr_id;
        ex->status = cq->wc.status;
        return 0;
    }
    return got == 0 ? ENOENT : errno;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
    struct compat_cq *cq = compat_of(ex, struct compat_cq, ex);

    if (attr && attr->comp_mask) {
        return EINVAL;
    }
    begin_turn(cq);
    int error = next_poll(ex);
    if (error) {
        end_turn(cq);
    }
    return error;
}

static void end_poll(struct ibv_cq_ex *ex)
{
    end_turn(compat_of(ex, struct compat_cq, ex));
}

static const struct ibv_wc *current(struct ibv_cq_ex *ex)
{
    return &compat_of(ex, struct compat_cq, ex)->wc;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
    return current(ex)->opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
    return current(ex)->vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
    return current(ex)->byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
    return current(ex)->imm_data; /* a union with invalidated_rkey */
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
    return current(ex)->qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
    return current(ex)->src_qp;
}

static unsigned read_wc_flags(struct ibv_cq_ex *ex)
{
    return current(ex)->wc_flags;
}

/* Fields that only InfiniBand has are 0. */
static uint32_t read_zero(struct ibv_cq_ex *ex)
{
    (void)ex;
    return 0;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
    return current(ex)->sl;
}

static uint8_t read_zero_octet(struct ibv_cq_ex *ex)
{
    (void)ex;
    return 0;
}

struct ibv_cq_ex *iwarp_compat_create_cq_ex(struct ibv_context *context,
                                            struct ibv_cq_init_attr_ex *attr)
{
    const uint64_t known = IBV_WC_STANDARD_FLAGS;

    if ((attr->comp_mask & ~(unsigned)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)) ||
        (attr->wc_flags & ~known) ||
        ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
         (attr->flags & ~(unsigned)IBV_CREATE_CQ_ATTR_SINGLE_THREADED))) {
        (void)iwarp_compat_refuse("verbs", EOPNOTSUPP,
                                  "ibv_create_cq_ex: mask 0x%x, completion fields 0x%llx: time "
                                  "stamps, VLANs, tags and overruns are not offered",
                                  attr->comp_mask, (unsigned long long)attr->wc_flags);
        return NULL;
    }
    struct compat_cq *cq =
        create(context, attr->cqe > INT32_MAX ? -1 : (int)attr->cqe, attr->cq_context,
               attr->channel, attr->comp_vector > INT32_MAX ? -1 : (int)attr->comp_vector);
    if (!cq) {
        return NULL;
    }
    cq->unlocked = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
                   (attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
    cq->ex.start_poll = start_poll;
    cq->ex.next_poll = next_poll;
    cq->ex.end_poll = end_poll;
    cq->ex.read_opcode = read_opcode;
    cq->ex.read_vendor_err = read_vendor_err;
    cq->ex.read_byte_len = read_byte_len;
    cq->ex.read_imm_data = read_imm_data;
    cq->ex.read_qp_num = read_qp_num;
    cq->ex.read_src_qp = read_src_qp;
    cq->ex.read_wc_flags = read_wc_flags;
    cq->ex.read_slid = read_zero;
    cq->ex.read_sl = read_sl;
    cq->ex.read_dlid_path_bits = read_zero_octet;
    return &cq->ex;
}
