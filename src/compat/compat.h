/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The contract between our libibverbs.so.1 (verbs_*.c) and librdmacm.so.1 (cm_*.c).
 *
 * Each object of a program begins with the public ibv_* structure, whose layout is rdma-core's, and
 * has the native object behind it. All contexts of a process share one native device, so any queue
 * pair may be connected by any id. What is declared here is exported from libibverbs.so.1 by the
 * node IWARP_PRIVATE_1, together with the native API (iwarp/...h); librdmacm.so.1 has no copy of
 * either.
 *
 * Lock order: queue pair table -> nothing; channel and context locks are leaves. Native notifiers
 * run with native locks held and take leaves only.
 */
#ifndef IWARP_COMPAT_H
#define IWARP_COMPAT_H

#include <infiniband/verbs.h>
#include <iwarp/iwarp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define COMPAT_CM_TIMEOUT_NONE 0xff

/* Of what follows the public part of an object, given a pointer to that part. */
#define compat_of(pointer, type, member)                                                           \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* --- asynchronous events --------------------------------------------------------------------- */

struct compat_async {
    struct compat_async *next; /* in its context's list, while waiting */
    struct ibv_async_event event;
    bool waiting;
};

/* --- objects --------------------------------------------------------------------------------- */

/* Members are guarded by what the comment says; without one they do not change. */
struct compat_context {
    struct verbs_context v; /* v.context is the program's */
    pthread_mutex_t lock;   /* of the list of events */
    struct compat_async *first, *last;
    _Atomic unsigned users; /* PDs, CQs and channels of it */
    bool shared;            /* the one of rdma_get_devices and of all ids */
};

struct compat_pd {
    struct ibv_pd ibv;
    struct iwarp_pd *native;
};

struct compat_mr {
    struct ibv_mr ibv;
    struct iwarp_mr *native;
    unsigned access; /* native */
};

struct compat_mw {
    struct ibv_mw ibv;
    struct iwarp_mw *native;
};

struct compat_cq;

struct compat_channel {
    struct ibv_comp_channel ibv; /* fd: eventfd, semaphore; one for each event that waits */
    pthread_mutex_t lock;
    struct compat_cq *first, *last; /* queues with events that nobody has taken */
};

#define COMPAT_POLL_BATCH 16

struct compat_cq {
    union {
        struct ibv_cq ibv;
        struct ibv_cq_ex ex;
    };
    struct iwarp_cq *native;
    struct compat_channel *channel; /* NULL: none */
    struct compat_cq *next;         /* channel.lock: in its list */
    unsigned pending;               /* channel.lock: events that wait in the channel */
    uint32_t delivered;             /* ibv.mutex: events taken by ibv_get_cq_event */
    uint32_t async_delivered;       /* ibv.mutex */
    struct compat_async async;
    _Atomic unsigned users; /* queue pairs */
    unsigned at, have;      /* ibv_start_poll: of wc */
    struct iwarp_wc wc[COMPAT_POLL_BATCH];
};

struct compat_srq {
    struct ibv_srq ibv;
    struct iwarp_srq *native;
    uint32_t async_delivered; /* ibv.mutex */
    struct compat_async async;
};

enum { COMPAT_QP_END, COMPAT_QP_LAST_WQE, COMPAT_QP_EVENTS };

struct compat_wr_list; /* of ibv_wr_start */

struct compat_qp {
    union {
        struct ibv_qp ibv;
        struct ibv_qp_ex ex;
    };
    struct iwarp_qp *native;
    struct ibv_qp_cap cap;
    bool sig_all, extended;
    unsigned access;             /* IBV_ACCESS_*, as modified last */
    uint8_t ird, ord;            /* max_dest_rd_atomic, max_rd_atomic as modified last */
    _Atomic bool connecting;     /* the id has begun: posting sends is allowed from here on */
    _Atomic uint8_t ack_timeout; /* of RDMA_OPTION_ID_ACK_TIMEOUT, for ibv_query_qp */
    uint32_t async_delivered;    /* ibv.mutex */
    struct compat_async async[COMPAT_QP_EVENTS];
    struct compat_wr_list *list; /* extended */
    struct compat_qp *next;      /* table of numbers */
};

static inline struct compat_context *compat_context(struct ibv_context *context)
{
    return compat_of(context, struct compat_context, v.context);
}

static inline struct compat_pd *compat_pd(struct ibv_pd *pd)
{
    return compat_of(pd, struct compat_pd, ibv);
}

static inline struct compat_mr *compat_mr(struct ibv_mr *mr)
{
    return compat_of(mr, struct compat_mr, ibv);
}

static inline struct compat_mw *compat_mw(struct ibv_mw *mw)
{
    return compat_of(mw, struct compat_mw, ibv);
}

static inline struct compat_channel *compat_channel(struct ibv_comp_channel *channel)
{
    return compat_of(channel, struct compat_channel, ibv);
}

static inline struct compat_cq *compat_cq(struct ibv_cq *cq)
{
    return compat_of(cq, struct compat_cq, ibv);
}

static inline struct compat_srq *compat_srq(struct ibv_srq *srq)
{
    return compat_of(srq, struct compat_srq, ibv);
}

static inline struct compat_qp *compat_qp(struct ibv_qp *qp)
{
    return compat_of(qp, struct compat_qp, ibv);
}

/* --- device ---------------------------------------------------------------------------------- */

/* Limits that the device states; what programs ask for beyond them is refused. */
enum {
    COMPAT_MAX_RD_ATOM = 128, /* librdmacm's callers truncate to 8 bits: 255 and less only */
    COMPAT_MAX_PRIVATE_DATA = 255
};

/*
 * The native device of this process, opened by the first call (with its worker threads); anew in a
 * forked child. NULL: errno is set and the log says why.
 */
struct iwarp_device *iwarp_compat_device(void);

/* The context that all ids share, opened by the first call and never closed. NULL: errno. */
struct ibv_context *iwarp_compat_shared_context(void);

/* Forks between the first use of the library and this process: 0, 1, ... */
unsigned iwarp_compat_generation(void);

/* --- queue pairs ----------------------------------------------------------------------------- */

/* By number, among all of this process; NULL: none. Not while another thread destroys it. */
struct compat_qp *iwarp_compat_qp_find(uint32_t num);

/* ibv.state becomes what the native queue pair says. */
void iwarp_compat_qp_refresh(struct compat_qp *qp);

/* --- refusing -------------------------------------------------------------------------------- */

/* Writes the sentence to the log (warn, module "verbs" or "cm"), sets errno, returns error. */
int iwarp_compat_refuse(const char *module, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a native call that failed: what it was, and iwarp_last_error. */
int iwarp_compat_failed(const char *module, enum iwarp_status status, const char *what);

/* For generated functions of what is not offered: EOPNOTSUPP, and a sentence once each. */
void iwarp_compat_missing(const char *name, _Atomic bool *told);

#endif
