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
 * Locks: the process lock (iwarp_compat_hold) guards the native device and the list of contexts;
 * native locks and leaves may be taken with it held. Leaves are the lock of the queue pair table,
 * compat_channel.lock, compat_context.lock and the mutex in each object of rdma-core: with one of
 * them held no other is taken, but for cq.lock below compat_channel.lock. Native notifiers run with
 * native locks held and take leaves only.
 *
 * Forks: `born` of an object is the generation (iwarp_compat_generation) of the process that made
 * it. In a forked child the native half of an object of the parent does not exist: its memory may
 * be freed, and every other use is refused.
 */
#ifndef IWARP_COMPAT_H
#define IWARP_COMPAT_H

#include <infiniband/verbs.h>
#include <iwarp/iwarp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

/* The whole object, from a pointer to its public part. */
#define compat_of(pointer, type, member)                                                           \
    ((type *)(void *)((char *)(pointer) - offsetof(type, member)))

/* --- asynchronous events --------------------------------------------------------------------- */

/* Part of each object that can have asynchronous events: at most one event of a kind waits, so that
 * reporting needs no memory. Under context.lock. */
struct compat_async {
    struct compat_async *next; /* in its context's list, while waiting */
    struct ibv_async_event event;
    bool waiting;
    bool quiet;                 /* nothing is reported: the object is being destroyed, or reset */
    _Atomic uint32_t delivered; /* taken by ibv_get_async_event */
};

/* --- objects --------------------------------------------------------------------------------- */

/* Members are guarded by what the comment says; without one they do not change. */
struct compat_context {
    struct verbs_context v; /* v.context is the program's */
    pthread_mutex_t lock;   /* of the list of events */
    struct compat_async *first, *last;
    struct compat_context *next, **at; /* in the list of all (verbs_open.c) */
    _Atomic unsigned users;            /* objects that its events may name */
};

struct compat_pd {
    struct ibv_pd ibv;
    struct iwarp_pd *native;
    unsigned born;
    _Atomic unsigned parents; /* parent domains that are of it */
    /* Of a parent domain: */
    struct compat_pd *of;   /* NULL: it is none */
    struct ibv_td *td;      /* or NULL */
    _Atomic unsigned users; /* queue pairs, shared receive queues */
};

struct compat_mr {
    struct ibv_mr ibv;
    struct iwarp_mr *native;
    unsigned born;
    uint64_t iova;
};

struct compat_mw {
    struct ibv_mw ibv;
    struct iwarp_mw *native;
    unsigned born;
};

struct compat_cq;

struct compat_channel {
    struct ibv_comp_channel ibv; /* fd: a semaphore eventfd; it counts the waiting events */
    pthread_mutex_t lock;
    struct compat_cq *first, *last; /* lock: queues with events that no program has taken */
    struct compat_cq *all;          /* lock: all of its queues */
    _Atomic unsigned leaders;       /* threads that run the loop until it has an event */
    _Atomic unsigned readers;       /* threads that read the descriptor, and may sleep there */
    _Atomic unsigned writing;       /* events in the list that the descriptor does not count yet */
    bool led_for;                   /* lock: queues that are armed may not count as such */
    unsigned born;
};

struct compat_cq {
    union {
        struct ibv_cq ibv;
        struct ibv_cq_ex ex;
    };
    struct iwarp_cq *native;
    struct compat_channel *channel; /* NULL: none */
    struct compat_cq *next;         /* channel.lock: in its list */
    struct compat_cq *sibling;      /* channel.lock: in the list of all */
    bool expected;                  /* channel.lock: armed to lead, and no thread has come since */
    unsigned pending;               /* channel.lock: events that wait in the channel */
    bool leaving;                   /* channel.lock: it is being destroyed, and tells nothing */
    _Atomic unsigned users;         /* queue pairs */
    _Atomic uint32_t delivered;     /* events taken by ibv_get_cq_event */
    unsigned born;                  /* iwarp_compat_generation of its creation, as in the others */
    struct compat_async async;
    /* ibv_start_poll: the current completion. The thread that reads it holds `polling`. */
    struct ibv_wc wc;
    pthread_mutex_t polling;
    bool unlocked;         /* IBV_CREATE_CQ_ATTR_SINGLE_THREADED */
    _Atomic bool has_said; /* that completions were lost */
};

struct compat_srq {
    struct ibv_srq ibv;
    struct iwarp_srq *native;
    unsigned born;
    _Atomic unsigned users; /* queue pairs */
    struct compat_async async;
};

enum { COMPAT_QP_END, COMPAT_QP_LAST_WQE, COMPAT_QP_ESTABLISHED, COMPAT_QP_EVENTS };

/* May sends be posted although the native queue pair is IDLE? */
enum compat_sends {
    COMPAT_SENDS_NOT,
    COMPAT_SENDS,      /* a connection is on its way */
    COMPAT_SENDS_NOTED /* by number: whoever posts the first one says so, iwarp_num_posted */
};

struct num; /* of a queue pair that can be connected by number (num.h) */
struct ud;  /* of a queue pair of datagrams (ud.h) */

struct compat_wr_list; /* of ibv_wr_start */

/* What `user` of each native queue pair points to. */
struct compat_owner {
    struct compat_qp *qp; /* NULL: none, the library has made it for itself (ud.h) */
};

struct compat_qp {
    union {
        struct ibv_qp ibv;
        struct ibv_qp_ex ex;
    };
    struct compat_owner owner; /* itself */
    struct iwarp_qp *native;
    struct iwarp_qp *sender; /* what sends are posted to: native, unless connected to itself */
    struct num *num;         /* NULL: its number is no address */
    struct ud *ud;           /* NULL: its type is RC */
    _Atomic bool named;      /* RTR has named its peer by number */
    bool confirms;           /* its RDMA Writes are confirmed, however it is connected */
    struct ibv_qp_cap cap;
    bool sig_all, extended;
    _Atomic bool shows_reset;    /* ibv_query_qp reports RESET as RESET, not as INIT */
    _Atomic unsigned access;     /* IBV_ACCESS_*, as modified last */
    bool rfc7306;                /* of the device, asked once */
    _Atomic uint8_t ird, ord;    /* max_dest_rd_atomic, max_rd_atomic as modified last */
    _Atomic uint8_t connecting;  /* enum compat_sends: rdma_connect or rdma_accept was called */
    _Atomic uint8_t ack_timeout; /* of RDMA_OPTION_ID_ACK_TIMEOUT, for ibv_query_qp */
    unsigned born;
    struct compat_async async[COMPAT_QP_EVENTS];
    struct compat_wr_list *list; /* extended: what ibv_wr_start began */
    struct compat_qp *next;      /* table of numbers */
    _Atomic unsigned holders; /* ibv_destroy_qp waits for them: iwarp_compat_qp_hold, and posts */
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

/* Limits that the device reports. A request for more is refused. */
enum {
    COMPAT_MAX_DEVICES = 64,  /* one per interface, if IWARP_DEVICES asks for that */
    COMPAT_MAX_RD_ATOM = 128, /* callers of librdmacm truncate it to 8 bits: at most 255 */
    COMPAT_MAX_PRIVATE_DATA = 255
};

/*
 * The native device of this process, opened by the first call (with its worker threads); anew in a
 * forked child. NULL: errno is set and the log says why.
 */
struct iwarp_device *iwarp_compat_device(void);

/*
 * A detached thread of the library's own: 0, or the error of pthread_create. It blocks all signals,
 * as those of the process belong to threads of the program, but not those of faults: a thread that
 * blocks these cannot run the loop for what it asks of it (loop.c). name: of 15 octets at most;
 * NULL: the program's, which saves three system calls.
 */
int iwarp_compat_thread(const char *name, void *(*run)(void *arg), void *arg);

/* Is the TCP of this device another one than the kernel's? */
static inline bool iwarp_compat_tcp_is_foreign(struct iwarp_device *device)
{
    struct iwarp_device_info info = {.size = sizeof info};

    return iwarp_device_query(device, &info) == IWARP_OK &&
           strcmp(info.options.transport, "tcp") != 0;
}

/*
 * The context that all ids share whose local address belongs to the same device, opened by the
 * first call and never closed; and all of them, up to a NULL, to be freed. NULL: errno.
 */
struct ibv_context *iwarp_compat_shared_context(const struct sockaddr *local);
struct ibv_context **iwarp_compat_shared_contexts(int *n);

/* The address of this family to use where the program names none (IWARP_ADDR); its port is 0.
 * False: IWARP_ADDR has none. */
bool iwarp_compat_wished_addr(int family, struct sockaddr_storage *addr);

/*
 * The number of forks between the first use of the library and this process: 0, 1, ... The first
 * call registers the library's fork handlers. Prepare handlers that the caller registers after it
 * run before the library's, so its locks are taken first.
 */
unsigned iwarp_compat_generation(void);

/* Milliseconds of CLOCK_MONOTONIC. */
static inline int64_t compat_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* --- queue pairs ----------------------------------------------------------------------------- */

/* By number, among all of this process; NULL: none. Not while another thread destroys it. */
struct compat_qp *iwarp_compat_qp_find(uint32_t num);

/* The same, but it stays until it is released. */
struct compat_qp *iwarp_compat_qp_hold(uint32_t num);
static inline void compat_qp_release(struct compat_qp *qp)
{
    atomic_fetch_sub(&qp->holders, 1); /* it may be gone from here on */
}

/* For the thread that posts to it, from before the post until it does not touch the queue pair any
 * more: by then another thread may have the completion, and destroy the queue pair. */
static inline void compat_qp_keep(struct compat_qp *qp)
{
    atomic_fetch_add_explicit(&qp->holders, 1, memory_order_relaxed);
}

/* As ibv_create_qp_ex, for an id: its number is no address, and reserves no TCP port. */
struct ibv_qp *iwarp_compat_create_qp_of_id(struct ibv_context *context,
                                            struct ibv_qp_init_attr_ex *attr);

/* ibv.state becomes what the native queue pair says. */
void iwarp_compat_qp_refresh(struct compat_qp *qp);

/* --- event descriptors ----------------------------------------------------------------------- */

/* Take one count of a semaphore eventfd; blocks unless its flags say O_NONBLOCK. Called with no
 * lock held. 0, or -1 with errno. A thread that is cancelled in it has taken no count. */
int iwarp_compat_semaphore_wait(int fd);

/* --- waiting for a native queue (verbs_lead.c): see base/lead.h ------------------------------ */

struct iwarp_task;
bool iwarp_compat_arm(struct iwarp_cq *cq); /* true: to lead */
void iwarp_compat_arm_to_sleep(struct iwarp_cq *cq);
/* 0, EAGAIN: not done, or EINTR. restarts: handlers with SA_RESTART do not end the call. */
int iwarp_compat_lead(struct iwarp_device *device, bool (*done)(void *arg), void *arg,
                      bool restarts);
/* The same for a thread from which the handlers of signals are held back: 0 or EAGAIN. */
struct iwarp_beside;
int iwarp_compat_lead_held(struct iwarp_device *device, struct iwarp_beside *beside,
                           bool (*done)(void *arg), void *arg);
bool iwarp_compat_leads(const struct iwarp_device *device);
bool iwarp_compat_runs_loop(struct iwarp_device *device);
void iwarp_compat_arm_aside(struct iwarp_cq *cq);
void iwarp_compat_begin_sleep(struct iwarp_device *device);
void iwarp_compat_end_sleep(struct iwarp_device *device);
void iwarp_compat_wake_leader(struct iwarp_device *device);
void iwarp_compat_recall(struct iwarp_device *device);
void iwarp_compat_waited(struct iwarp_device *device);
void iwarp_compat_post_task(struct iwarp_device *device, struct iwarp_task *task);
struct iwarp_eq;
struct iwarp_event;
void iwarp_compat_eq_notify_by(struct iwarp_eq *eq, void (*notify)(void *arg), void *arg);
void *iwarp_compat_eq_first_user(struct iwarp_eq *eq);
bool iwarp_compat_eq_take_of(struct iwarp_eq *eq, const void *user, struct iwarp_event *event);

/* As iwarp_conn_unpolled (base/unpolled.h). */
struct iwarp_conn;
bool iwarp_compat_unpolled(struct iwarp_conn *conn);

/* As iwarp_conn_getsockopt, iwarp_conn_setsockopt (base/sockopt.h). */
int iwarp_compat_getsockopt(struct iwarp_conn *conn, int level, int name, void *value,
                            socklen_t *len);
int iwarp_compat_setsockopt(struct iwarp_conn *conn, int level, int name, const void *value,
                            socklen_t len);

/* --- inside libibverbs.so.1 ------------------------------------------------------------------ */

/* verbs_context.c: the operations that the inline functions of verbs.h call. */
void iwarp_compat_fill_operations(struct compat_context *context);

/* verbs_process.c: the lock of the native device and of all contexts, which a fork waits for. */
void iwarp_compat_hold(void);
void iwarp_compat_release(void);
/* Register the one function that a forked child calls. The lock is held now and during that call.
 */
void iwarp_compat_renew_in_child(void (*renew)(void));

/* verbs_device.c: our devices by number, up to a NULL; the number of one, -1: it is none of ours;
 * and its identity. */
struct compat_identity;
struct ibv_device *iwarp_compat_device_at(unsigned i);
int iwarp_compat_device_index(const struct ibv_device *device);
const struct compat_identity *iwarp_compat_identity(struct ibv_device *device);

/* verbs_async.c */
void iwarp_compat_async_deliver(const struct iwarp_async_event *event, void *unused);
/* While it is quiet, events of this kind are not reported, and those that come then never are. */
void iwarp_compat_async_quiet(struct compat_context *context, struct compat_async *async,
                              bool quiet);
/* The object is about to be destroyed: nothing more is reported of it. Drop its waiting events, and
 * wait until the program has acknowledged those that it took. */
void iwarp_compat_async_leave(struct compat_context *context, struct compat_async *async, int n,
                              pthread_mutex_t *mutex, pthread_cond_t *cond,
                              const uint32_t *completed);
/* Take one count from a semaphore eventfd, if there is one, without blocking. */
void iwarp_compat_semaphore_take(int fd);

/* verbs_qp.c: entered in and taken from the table of numbers. */
void iwarp_compat_qp_forget_all(void);

/* IBV_ACCESS_* as IWARP_ACCESS_*: those six have the same values in both, others are ignored. */
_Static_assert((int)IBV_ACCESS_LOCAL_WRITE == (int)IWARP_ACCESS_LOCAL_WRITE &&
                   (int)IBV_ACCESS_REMOTE_WRITE == (int)IWARP_ACCESS_REMOTE_WRITE &&
                   (int)IBV_ACCESS_REMOTE_READ == (int)IWARP_ACCESS_REMOTE_READ &&
                   (int)IBV_ACCESS_REMOTE_ATOMIC == (int)IWARP_ACCESS_REMOTE_ATOMIC &&
                   (int)IBV_ACCESS_MW_BIND == (int)IWARP_ACCESS_MW_BIND &&
                   (int)IBV_ACCESS_ZERO_BASED == (int)IWARP_ACCESS_ZERO_BASED,
               "access flags");
#define COMPAT_KNOWN_ACCESS 0x3fu

static inline unsigned iwarp_compat_access(unsigned ibv_access)
{
    return ibv_access & COMPAT_KNOWN_ACCESS;
}

/* verbs_cq.c, verbs_domain.c, verbs_srq.c, verbs_post.c, verbs_wr.c, verbs_query.c: operations. */
int iwarp_compat_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int iwarp_compat_req_notify_cq(struct ibv_cq *cq, int solicited_only);
struct ibv_cq_ex *iwarp_compat_create_cq_ex(struct ibv_context *context,
                                            struct ibv_cq_init_attr_ex *attr);
struct ibv_td *iwarp_compat_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int iwarp_compat_dealloc_td(struct ibv_td *td);
struct ibv_pd *iwarp_compat_alloc_parent_domain(struct ibv_context *context,
                                                struct ibv_parent_domain_init_attr *attr);
void iwarp_compat_free_parent_domain(struct compat_pd *pd);
int iwarp_compat_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
                               struct ibv_recv_wr **bad);
struct ibv_srq *iwarp_compat_create_srq_ex(struct ibv_context *context,
                                           struct ibv_srq_init_attr_ex *attr);
int iwarp_compat_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int iwarp_compat_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
struct ibv_qp *iwarp_compat_create_qp_ex(struct ibv_context *context,
                                         struct ibv_qp_init_attr_ex *attr);
struct ibv_mw *iwarp_compat_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int iwarp_compat_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int iwarp_compat_dealloc_mw(struct ibv_mw *mw);
int iwarp_compat_query_device_ex(struct ibv_context *context,
                                 const struct ibv_query_device_ex_input *input,
                                 struct ibv_device_attr_ex *attr, size_t size);
int iwarp_compat_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                            size_t size);

/* verbs_post.c: NULL if the window can be bound like this, else why not. */
const char *iwarp_compat_bind_fill(struct iwarp_bind *bind, struct ibv_mw *mw,
                                   const struct ibv_mw_bind_info *info, uint8_t key);

/* Post all, or nothing if one is wrong or there is no room; 0 or an error. `native` has room for
 * twice as many, `bind` for so many. */
int iwarp_compat_post_together(struct compat_qp *qp, const struct ibv_send_wr *wr,
                               struct iwarp_send_wr *native, struct iwarp_bind *bind);
bool iwarp_compat_may_send(struct compat_qp *qp);

/* Of enum ibv_send_flags; others are nothing. */
static inline unsigned iwarp_compat_send_flags(unsigned flags)
{
    return (flags & IBV_SEND_SIGNALED ? IWARP_WR_SIGNALED : 0u) |
           (flags & IBV_SEND_SOLICITED ? IWARP_WR_SOLICITED : 0u) |
           (flags & IBV_SEND_INLINE ? IWARP_WR_INLINE : 0u) |
           (flags & IBV_SEND_FENCE ? IWARP_WR_FENCE : 0u);
}

/*
 * num_calls.c, for queue pairs that are connected by number; the others have no `num`, and nothing
 * happens. take: a number that is an address, 0: none can be had. leave is called before the native
 * queue pair is destroyed, free after it. note: the program sets attributes before it names a peer.
 * modify: it names one, or has. query: what it has set. blame: does the flushed send of this number
 * say that the peer was not reached? The first one does.
 */
struct iwarp_fault;
uint32_t iwarp_num_take(struct compat_qp *qp);
void iwarp_num_leave(struct compat_qp *qp);
void iwarp_num_free(struct compat_qp *qp);
void iwarp_num_note(struct compat_qp *qp, const struct ibv_qp_attr *attr, int mask);
int iwarp_num_modify(struct compat_qp *qp, const struct ibv_qp_attr *attr, int mask);
void iwarp_num_query(struct compat_qp *qp, struct ibv_qp_attr *attr);
void iwarp_num_posted(struct compat_qp *qp);
bool iwarp_num_blame(uint32_t number, uint32_t fault_code);
void iwarp_num_forget_all(void);

/*
 * Queue pairs of datagrams (ud.h; ud_calls.c, ud_post.c, ud_note.c). ask: the options of the outer
 * native queue pair, from what the program asks for; 0 or an error. create: 0 or an error, after
 * the native one. leave and free: as for numbers. post: all or nothing if `together`. complete: a
 * receive of the queue pair with this number has this index as Immediate Data. help: of a thread
 * that polls in vain; true: it may poll again.
 */
int iwarp_ud_ask(struct iwarp_qp_options *options);
int iwarp_ud_create(struct compat_qp *qp);
void iwarp_ud_leave(struct compat_qp *qp);
void iwarp_ud_free(struct compat_qp *qp);
int iwarp_ud_modify(struct compat_qp *qp, const struct ibv_qp_attr *attr, int mask);
int iwarp_ud_post(struct compat_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad,
                  bool together);
bool iwarp_ud_help(void);
void iwarp_ud_complete(uint32_t number, uint64_t index, struct ibv_wc *wc);

/* verbs_async.c: the connection of a queue pair in RTR is there. */
void iwarp_compat_async_established(struct compat_qp *qp);

/* verbs_wr.c */
int iwarp_compat_wr_init(struct compat_qp *qp);
void iwarp_compat_wr_fini(struct compat_qp *qp);

/* --- refusing -------------------------------------------------------------------------------- */

/* Writes the sentence to the log (warn, module "verbs" or "cm"), sets errno, returns error. */
int iwarp_compat_refuse(const char *module, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for what peers can provoke as often as they like: at most a line a second. */
int iwarp_compat_refuse_peer(const char *module, int error, const char *sentence);

/* A sentence for those who ask for the log at "info": at most a line a second. */
void iwarp_compat_tell(const char *module, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* For librspreload.so: see iwarp_log_write_by. */
void iwarp_compat_log_by(void (*put)(const char *line, size_t octets));

/* A setting that is a number, for librspreload.so: see iwarp_setting_number. */
unsigned iwarp_compat_number(const char *name, unsigned least, unsigned most, unsigned none);

/* The same for a native call that failed: what it was, and iwarp_last_error. */
int iwarp_compat_failed(const char *module, enum iwarp_status status, const char *what);

/* For generated functions of what is not offered: EOPNOTSUPP, and a sentence once each. */
void iwarp_compat_missing(const char *name, _Atomic bool *told);

#endif
