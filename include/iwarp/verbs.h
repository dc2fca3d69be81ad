/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verbs: devices, protection domains, memory regions, completion queues, queue pairs, work
 * requests. The semantics are those of the RDMA verbs (draft-hilland-rddp-verbs-00 and libibverbs),
 * for iWARP.
 *
 * Threads. In the threaded progress mode every function may be called from any thread, and posting
 * and polling are safe from any thread; the one rule is that an object is not used while or after
 * another thread destroys it. Destroying an object that others refer to returns IWARP_MISUSE.
 *
 * Signals. An access to memory that is not mapped raises SIGSEGV or SIGBUS. The library turns the
 * signals that its own accesses raise into a fault of the stream. It installs handlers for both at
 * the first connection. They pass every other signal to the handler that the application had, with
 * the flags of that handler, or to the default action. An application that installs handlers of its
 * own should do so before it connects or accepts, or pass unknown signals to the handler that it
 * replaced. A thread that posts may also send, and a thread that polls may also receive (see
 * iwarp_progress): such threads must not block SIGSEGV and SIGBUS. The library raises no SIGPIPE.
 *
 * Processes. The parent may fork at any time. In the child, a call for an object of the parent does
 * nothing and returns MISUSE (NULL or nothing if the function returns no status). The child's
 * copies of the library's sockets are closed, and the peers receive nothing. The child may open a
 * device of its own. A process may exit at any time, from any thread, without closing any object.
 * Threads may be cancelled (deferred): iwarp_cq_wait, iwarp_eq_get, iwarp_async_get,
 * iwarp_conn_wait and iwarp_conn_wait_end are cancellation points while they sleep; all other
 * functions are none.
 *
 * Misuse. A NULL handle makes a call return IWARP_MISUSE and set iwarp_last_error. A function that
 * returns no status returns 0 or NULL (iwarp_qp_state: ERROR) and sets iwarp_last_error. The
 * library cannot detect the use of a handle that was destroyed.
 *
 * Memory. The application owns registered memory and must keep it until iwarp_mr_deregister
 * returns. It lends the buffers of a posted work request to the library until it has polled the
 * completion of that request.
 *
 * Spinning on memory. The target of an RDMA Write calls no function to receive it, so a program may
 * spin on memory (with acquire loads) until the Write arrives. With CRC and IWARP_PLACE_VERIFIED
 * (the default) the last octet of each segment becomes visible after all octets before it; an
 * aligned word of 2, 4 or 8 octets at the end of a segment becomes visible as a whole; segments
 * become visible in order. With direct placement (IWARP_PLACE_EARLY, or CRC negotiated off) the
 * octets of a segment with 512 or more octets of payload become visible in any order, and with
 * PLACE_EARLY they may be wrong until their CRC was checked. In these modes spin on a flag that a
 * separate Write of at most 511 octets sets. The flag becomes visible after all Writes that were
 * posted before it, and only after their CRCs were found right.
 */
#ifndef IWARP_VERBS_H
#define IWARP_VERBS_H

#include <iwarp/api.h>
#include <iwarp/memory.h>
#include <iwarp/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

IWARP_BEGIN_DECLS

struct iwarp_device;
struct iwarp_pd;
struct iwarp_cq;
struct iwarp_qp;
struct iwarp_srq; /* srq.h */

/* --- device ---------------------------------------------------------------------------------- */

/*
 * Progress modes: which thread moves octets between the transport and memory.
 *
 * - THREADED: the library starts `workers` threads. Transfers continue while the application
 *   computes. Any thread may call any function.
 *     An application thread may take over a worker's loop and move the octets itself. This saves
 *   one thread switch for each message. There are two ways to take over:
 *     - With one worker: the thread waits in iwarp_cq_wait repeatedly, each wait ends within 50 us,
 *       and no other thread waits for completions.
 *     - With any number of workers: the thread polls without a pause, and 1024 polls in a row have
 *       found nothing. The loop then runs as in POLLED for as long as the thread polls.
 *   After a short takeover the same thread needs more waits or polls for the next one. The number
 *   doubles with each short takeover, and long ones halve it. No thread takes over while a
 *   completion queue is armed. The worker takes its loop back at once when another
 *   thread arms a queue, waits or needs the loop for a call, after some pauses of 200 us between
 *   polls, and in all other cases within about 4 ms.
 *     A thread that runs a loop sleeps when there is nothing to do. While its sleeps are short, it
 *   may spin for up to 100 us first (option `look`).
 *
 * - POLLED: as THREADED, but a thread that polls (iwarp_cq_poll, or iwarp_eq_get with time-out 0)
 *   moves the octets itself and pays no thread switch. The workers sleep meanwhile. They take over
 *   at once when a thread arms a queue or waits for one, otherwise within about 4 ms of the last
 *   poll. Polling a queue runs the workers whose connections and listeners use the queue or have
 *   used it (`worker` in conn.h chooses the worker); before the first connection or listener it
 *   runs all workers. If the queues of a worker are no longer polled, every 64th poll of other
 *   queues runs that worker until it takes over. Any thread may call any function.
 *
 * - EMBEDDED: the device runs in the application's libuv loop. The library starts no thread and
 *   takes no lock. The thread that opened the device runs the loop and calls all functions; calls
 *   from other threads return MISUSE, except iwarp_device_call. Functions that wait run the loop
 *   meanwhile, so callbacks of the loop must not call them: a callback uses time-out 0 and the
 *   descriptors of the queues. The device keeps the loop alive until it is closed. After
 *   iwarp_device_close run the loop once more, then call uv_loop_close.
 */
enum iwarp_progress {
    IWARP_PROGRESS_DEFAULT =
        0, /* IWARP_PROGRESS in the environment: threaded or polled; threaded */
    IWARP_PROGRESS_THREADED,
    IWARP_PROGRESS_POLLED,
    IWARP_PROGRESS_EMBEDDED
};

/*
 * The RDMA extensions of RFC 7306: Immediate Data and Atomic operations. There is no negotiation:
 * a peer that does not know them ends the stream at the first one (Terminate 0/2/06), so the two
 * applications have to agree beforehand (RFC 7306 1.1). OFF: this end does not accept them either,
 * and posting them is MISUSE. iwarp_device_query (device.h) returns the setting in use.
 */
enum iwarp_rfc7306 {
    IWARP_RFC7306_DEFAULT = 0, /* IWARP_RFC7306 in the environment: on or off; on */
    IWARP_RFC7306_ON,
    IWARP_RFC7306_OFF
};

struct uv_loop_s;

/* Limits and resources of a device. Initialise with iwarp_device_options_init, then change. */
struct iwarp_device_options {
    size_t size;              /* sizeof(struct iwarp_device_options), set by init */
    unsigned workers;         /* threads that drive streams; default 1, at most 64 */
    unsigned max_connections; /* default 65536; more are refused with LIMIT */
    unsigned max_half_open;   /* inbound start-ups at a time, including rejected peers that have not
                               * closed yet; default 1024, and never more than half of
                               * max_connections or of the process's descriptors. At the limit
                               * the oldest start-up of the address with the most start-ups is ended
                               * for the next one, once it is 200 ms old */
    unsigned max_regions;     /* default 1048576, at most 4194304 */
    size_t max_buffer_bytes;  /* library memory for partly received or unsent FPDUs; default 1 GiB,
                               * at least 1 */
    enum iwarp_progress progress;
    struct uv_loop_s
        *loop; /* EMBEDDED: the application's uv_loop_t, else NULL; workers must be 1 */
    enum iwarp_rfc7306 rfc7306;
    const char *pcap;        /* record what connections carry, see below; NULL: into the file that
                              * IWARP_PCAP in the environment names, if any; "": not */
    uint64_t pcap_max_bytes; /* of that file; 0: IWARP_PCAP_MAX in the environment; 1 GiB. At least
                              * 4096 */
    bool look; /* THREADED: spin for up to 100 us before a sleep, while sleeps are shorter than
                * that and a trial now and then shows that spinning moves more octets; and let a
                * thread that polls without a pause run the loop. Spinning stops where other
                * threads need the processor. Default: IWARP_LOOK in the environment (on or off),
                * else on */
};

/*
 * A recording is a pcapng file for Wireshark, needs no root, and holds what this device's
 * connections send and receive, over any transport, from the MPA Request on (RFC 5044 7.1): the TCP
 * payload of each direction, exactly. The library invents headers, handshake, sequence numbers
 * and segmentation (the section header of the file says so): one packet for each call to the
 * transport, cut at 65000 octets. With the kernel's TCP the addresses are real. Comments name queue
 * pairs, and regions and windows of this device where they are used. If both ends of a connection
 * record into one file, each octet is there once, as sent.
 *
 * In the name %p is the process id, and %% is %. The library never overwrites a file that exists:
 * it inserts the process id, and then a number, before the suffix, and logs the name (IWARP_LOG).
 * Devices of one process that give the same name share the file, with the first one's bound; a
 * forked child makes its own. At the bound the packet that does not fit is recorded without
 * payload, with a comment, and nothing after it. If the file cannot be created or written (disk
 * full), the library logs that and ends the recording; no call fails, and no connection is
 * affected. The file has mode 0600, since it contains the application's data; programs that run
 * with more rights than their user do not look at the environment. The thread that sends or
 * receives waits for write(2).
 */

IWARP_API void iwarp_device_options_init(struct iwarp_device_options *options);

/* Start a device: its workers run until iwarp_device_close. options may be NULL for the defaults.
 */
IWARP_API enum iwarp_status iwarp_device_open(const struct iwarp_device_options *options,
                                              struct iwarp_device **device);

/* Stop the workers. MISUSE while a PD, CQ, event queue, listener or connection still exists. */
IWARP_API enum iwarp_status iwarp_device_close(struct iwarp_device *device);

/*
 * Run fn(arg) soon on the thread that runs the loop. EMBEDDED only, where this is the one function
 * that any thread may call. The functions run in the order of the calls; iwarp_device_close first
 * runs those that have not run yet. MISUSE: another progress mode. NO_MEMORY: nothing is queued.
 */
IWARP_API enum iwarp_status iwarp_device_call(struct iwarp_device *device, void (*fn)(void *arg),
                                              void *arg);

/* --- protection domains ---------------------------------------------------------------------- */

IWARP_API enum iwarp_status iwarp_pd_create(struct iwarp_device *device, struct iwarp_pd **pd);

/* MISUSE while a region, queue pair or SRQ of this PD exists. */
IWARP_API enum iwarp_status iwarp_pd_destroy(struct iwarp_pd *pd);

/* --- completion queues ----------------------------------------------------------------------- */

enum iwarp_wc_status {
    IWARP_WC_SUCCESS = 0,
    IWARP_WC_FLUSHED,          /* not carried out: the stream had ended; see fault */
    IWARP_WC_LOCAL_PROTECTION, /* a local SGE is not inside a region that allows it */
    IWARP_WC_LOCAL_OPERATION,  /* it cannot be carried out: RDMA Read with ORD 0, remote STag 0 */
    IWARP_WC_LOCAL_BIND,       /* REG_MR, LOCAL_INV, BIND_MW: not possible with this STag */
    IWARP_WC_REMOTE_ACCESS,    /* the peer refused the STag, bounds or rights (Terminate) */
    IWARP_WC_REMOTE_INVALID,   /* the peer could not take the message (Terminate) */
    IWARP_WC_REMOTE_OPERATION  /* the peer failed otherwise (Terminate) */
};

enum iwarp_wc_opcode {
    IWARP_WC_SEND = 0,
    IWARP_WC_WRITE,
    IWARP_WC_READ,
    IWARP_WC_IMM,
    IWARP_WC_FETCH_ADD,
    IWARP_WC_CMP_SWAP,
    IWARP_WC_REG_MR = 16,
    IWARP_WC_LOCAL_INV,
    IWARP_WC_BIND_MW,
    IWARP_WC_RECV = 128
};

enum iwarp_wc_flags {
    IWARP_WC_WITH_INVALIDATE = 1 << 0, /* the peer invalidated `invalidated_stag` */
    IWARP_WC_SOLICITED = 1 << 1,       /* the message asked for an event */
    IWARP_WC_WITH_IMM = 1 << 2         /* the peer sent Immediate Data: `imm` */
};

/* One completion. Only wr_id, status, fault, qp and qp_num are valid unless status is SUCCESS. */
struct iwarp_wc {
    uint64_t wr_id;
    enum iwarp_wc_status status;
    enum iwarp_wc_opcode opcode;
    uint32_t byte_len; /* received octets (RECV), or of the RDMA Write before (WITH_IMM); read
                          octets (READ) */
    uint32_t flags;    /* enum iwarp_wc_flags */
    uint32_t invalidated_stag;
    uint32_t qp_num; /* of qp, valid even if another thread destroys qp meanwhile */
    struct iwarp_qp *qp;
    const struct iwarp_fault
        *fault;   /* the first fault of the stream; until qp is gone or IDLE again */
    uint64_t imm; /* WITH_IMM: the 8 octets, see IWARP_WR_IMM */
    uint64_t reserved[1];
};

/* A word for a completion status ("flushed"); never NULL. */
IWARP_API const char *iwarp_wc_status_text(enum iwarp_wc_status status);

/* A queue for at least `entries` completions (1 to 4194304). */
IWARP_API enum iwarp_status iwarp_cq_create(struct iwarp_device *device, unsigned entries,
                                            void *user, struct iwarp_cq **cq);

/* MISUSE while a queue pair uses it, AGAIN while an event of it is not acknowledged (async.h). */
IWARP_API enum iwarp_status iwarp_cq_destroy(struct iwarp_cq *cq);

/*
 * Give the queue another size, at any time; no completion and no notification is lost. MISUSE: more
 * completions wait than it would hold. An overflow that has happened is not undone.
 */
IWARP_API enum iwarp_status iwarp_cq_resize(struct iwarp_cq *cq, unsigned entries);
IWARP_API unsigned iwarp_cq_entries(const struct iwarp_cq *cq);
IWARP_API void *iwarp_cq_user(const struct iwarp_cq *cq);

/*
 * Take up to n completions. Returns how many (0 to n), or a negative status: LIMIT after the queue
 * overflowed, which has also ended the queue pairs whose completions were lost, and was reported
 * once as IWARP_ASYNC_CQ_OVERFLOW.
 */
IWARP_API int iwarp_cq_poll(struct iwarp_cq *cq, struct iwarp_wc *wc, int n);

/*
 * Ask for one notification at the next completion (solicited_only: at the next solicited receive or
 * failed completion). Completions that are there already do not trigger it: poll, arm, poll again.
 * Asking for any and for solicited ones together asks for any, in whatever order.
 */
IWARP_API enum iwarp_status iwarp_cq_arm(struct iwarp_cq *cq, bool solicited_only);

/*
 * Return a descriptor (eventfd) that becomes readable at each notification, or -1 if the system
 * gives none (iwarp_last_error says so). The queue owns the descriptor: use it for poll/epoll only,
 * and call iwarp_cq_drain instead of read(2) to make it unreadable again.
 */
IWARP_API int iwarp_cq_fd(struct iwarp_cq *cq);
IWARP_API void iwarp_cq_drain(struct iwarp_cq *cq);

/*
 * Have notify(arg) called at each notification, instead of making a descriptor readable. Any thread
 * that produces completions of the queue calls it, possibly two threads at the same time, with
 * locks of the library held. Therefore notify must return soon and must not call the library.
 * iwarp_cq_destroy waits until notify has returned. Set it once, before the queue is used, and do
 * not call iwarp_cq_wait for such a queue. MISUSE: the queue has a descriptor or a function
 * already, or notify is NULL.
 */
IWARP_API enum iwarp_status iwarp_cq_notify_by(struct iwarp_cq *cq, void (*notify)(void *arg),
                                               void *arg);

/*
 * Take up to n completions (n is at least 1), and wait for at most timeout_ms (< 0: for ever) while
 * the queue is empty. The thread sleeps on the descriptor, or runs a worker's loop meanwhile (see
 * iwarp_progress). Returns as iwarp_cq_poll does, and 0 after the time-out. Only one thread at a
 * time may wait for a queue.
 */
IWARP_API int iwarp_cq_wait(struct iwarp_cq *cq, struct iwarp_wc *wc, int n, int timeout_ms);

/* --- queue pairs ----------------------------------------------------------------------------- */

/* States of draft-hilland-rddp-verbs 6.2. */
enum iwarp_qp_state {
    IWARP_QP_IDLE = 0,  /* not connected yet; what is posted waits */
    IWARP_QP_RTS,       /* connected */
    IWARP_QP_CLOSING,   /* graceful close in progress */
    IWARP_QP_TERMINATE, /* Terminate being sent or just received */
    IWARP_QP_ERROR      /* ended; everything posted is flushed */
};

struct iwarp_qp_options {
    size_t size;              /* set by init */
    struct iwarp_cq *send_cq; /* required */
    struct iwarp_cq *recv_cq; /* required; may be the same */
    struct iwarp_srq *srq;    /* receives come from there; max_recv_* then mean nothing */
    unsigned max_send_wr;     /* 1 to 65536; default 128 */
    unsigned max_recv_wr;     /* 0 to 65536; default 128 */
    unsigned max_send_sge;    /* 1 to 32; default 4 */
    unsigned max_recv_sge;    /* 1 to 32; default 4 */
    unsigned max_inline;      /* octets of inline data per request, 0 to 1024; default 64 */
    uint32_t num;             /* qp_num of its completions, in logs; 0 (default): the next free */
    bool confirms;   /* CONFIRM takes no other request's room: from the first one on, the send queue
                      * has room for twice max_send_wr; default false */
    bool signal_all; /* every send request completes visibly; default false */
    /* Rights that the queue pair grants; an access needs them in addition to the rights of the
     * STag. REMOTE_WRITE, REMOTE_READ and REMOTE_ATOMIC: its peer; MW_BIND: BIND_MW requests.
     * Default: all. */
    unsigned access;
    void *user;
    /* Require REMOTE_WRITE for the sink of an RDMA Read when the Read is posted. RNICs have this
     * rule, since they treat the RDMA Read Response as any tagged message. Default false:
     * LOCAL_WRITE is enough. */
    bool remote_sinks;
};

IWARP_API void iwarp_qp_options_init(struct iwarp_qp_options *options);
IWARP_API enum iwarp_status iwarp_qp_create(struct iwarp_pd *pd,
                                            const struct iwarp_qp_options *options,
                                            struct iwarp_qp **qp);

/*
 * Destroy a queue pair. If it is connected, the connection is aborted first (RST); destroy the
 * connection object separately, before or after. Completions that were not polled are discarded.
 * Pending requests are released without completions. AGAIN while an event of it was taken and not
 * acknowledged (async.h).
 */
IWARP_API enum iwarp_status iwarp_qp_destroy(struct iwarp_qp *qp);
IWARP_API void *iwarp_qp_user(const struct iwarp_qp *qp);
IWARP_API uint32_t iwarp_qp_num(const struct iwarp_qp *qp);
IWARP_API enum iwarp_qp_state iwarp_qp_state(struct iwarp_qp *qp);

/* Why the stream ended; NULL while it has not, or when both sides closed in order. */
IWARP_API const struct iwarp_fault *iwarp_qp_fault(struct iwarp_qp *qp);

/* --- work requests --------------------------------------------------------------------------- */

/* A piece of registered memory. lkey is the region's STag; ignored for len 0 and inline data. */
struct iwarp_sge {
    void *addr;
    uint32_t len;
    uint32_t lkey;
};

/*
 * IMM and WRITE_IMM are of RFC 7306 6 (see enum iwarp_rfc7306). IMM sends the 8 octets of `imm`,
 * which take a posted receive of the peer (or its SRQ) as a Send does, and show in its completion:
 * flag WITH_IMM, its buffers untouched. WRITE_IMM is an RDMA Write and, behind it, Immediate Data:
 * one request, one completion (of the opcode WRITE) here, one receive at the peer, which completes
 * when the Write is in place, and whose byte_len is the octets of that. On the wire WRITE_IMM
 * is the same as a WRITE followed by an IMM; byte_len is 0 if no RDMA Write came immediately before
 * the Immediate Data. A WRITE_IMM without octets sends the Immediate Data alone; if it follows a
 * WRITE, it sends a Write of no octets first, so that byte_len is 0. SOLICITED may be set for both.
 *
 * On the wire `imm` is big-endian, most significant octet first: imm 0x0102030405060708 is the
 * octets 01 02 03 04 05 06 07 08. A value of 32 bits is in the low half, the last four octets
 * (00 00 00 00 and then the value, big-endian), so that `imm = value` is all it takes.
 *
 * ATOMIC_FETCH_ADD and ATOMIC_CMP_SWAP are of RFC 7306 5. They change the 8 octets at remote_stag,
 * remote_to, which must be aligned there and allow REMOTE_ATOMIC, atomically, exactly once, and
 * store the former value in their one SGE of 8 octets (LOCAL_WRITE). All numbers are in the byte
 * order of the host that holds them. Atomics share ORD with RDMA Reads. As for RDMA Reads, the
 * completion says that the operation is done, and FENCE waits for it.
 *   FETCH_ADD  adds `operand`. A bit set in `mask` is the top bit of a field: carries do not leave
 *              it; 0: one field of 64 bits.
 *   CMP_SWAP   if the word equals `compare` in the bits set in `compare_mask`, puts `operand`
 * there, in the bits set in `mask`. An ordinary one has all bits set in both masks. A device of
 * this library uses the processor's atomic instructions: the word may be shared with all
 * connections of all devices, and with atomics of the programs that map the memory.
 */
enum iwarp_wr_opcode {
    IWARP_WR_SEND = 0,
    IWARP_WR_SEND_INV,  /* Send with Invalidate: invalidate_stag at the peer */
    IWARP_WR_WRITE,     /* to remote_stag/remote_to */
    IWARP_WR_READ,      /* from remote_stag/remote_to into one SGE with LOCAL_WRITE */
    IWARP_WR_IMM,       /* Immediate Data; no SGE */
    IWARP_WR_WRITE_IMM, /* RDMA Write followed by Immediate Data */
    IWARP_WR_ATOMIC_FETCH_ADD,
    IWARP_WR_ATOMIC_CMP_SWAP,
    IWARP_WR_READ_INV = 16, /* the same; then the lkey of that SGE is invalid */
    IWARP_WR_REG_MR,        /* these three send nothing: see memory.h */
    IWARP_WR_LOCAL_INV,
    IWARP_WR_BIND_MW
};

enum iwarp_wr_flags {
    IWARP_WR_SIGNALED = 1 << 0,  /* complete visibly even without signal_all */
    IWARP_WR_SOLICITED = 1 << 1, /* Sends, Immediate Data: with Solicited Event */
    IWARP_WR_INLINE = 1 << 2,    /* data is copied while posting; at most max_inline octets, which
                                  * need not be registered; MISUSE if they cannot be read */
    IWARP_WR_FENCE = 1 << 3, /* wait for all earlier RDMA Reads and Atomics of this queue pair */
    /*
     * READ without octets only. An RDMA Write completes when it is sent, and its octets may not be
     * in the peer's memory yet (RFC 5040 5.5). The peer answers a Read behind it only once they
     * are, so such a Read confirms all Writes before it. It completes as a Write does
     * (IWARP_WC_WRITE).
     */
    IWARP_WR_CONFIRM = 1 << 4
};

struct iwarp_send_wr {
    const struct iwarp_send_wr *next; /* chain; NULL ends it */
    uint64_t wr_id;
    enum iwarp_wr_opcode opcode;
    unsigned flags; /* enum iwarp_wr_flags */
    const struct iwarp_sge *sg_list;
    unsigned num_sge;
    uint32_t invalidate_stag;
    uint64_t remote_to;
    uint32_t remote_stag; /* 0 is nobody's: LOCAL_OPERATION, if there are any octets */
    uint32_t reserved;
    const struct iwarp_bind *bind;  /* REG_MR, BIND_MW: copied while posting */
    uint64_t imm;                   /* IMM, WRITE_IMM */
    uint64_t operand, mask;         /* ATOMIC_* */
    uint64_t compare, compare_mask; /* ATOMIC_CMP_SWAP */
};

struct iwarp_recv_wr {
    const struct iwarp_recv_wr *next;
    uint64_t wr_id;
    const struct iwarp_sge *sg_list;
    unsigned num_sge;
    unsigned reserved;
};

/*
 * Post a chain of requests. They are carried out in order. The call stops at the first request that
 * cannot be posted, returns its status and sets *bad to it (bad may be NULL); the requests before
 * it are posted. AGAIN: the send queue is full. MISUSE: qp is NULL, a request has too many SGEs or
 * is too long, or sg_list is NULL and num_sge is not 0. The call never returns CLOSED, PROTOCOL,
 * PEER or TRANSPORT: requests posted to a queue pair that has ended complete as FLUSHED. Requests
 * posted before ESTABLISHED, in IDLE too, wait until then (draft-hilland-rddp-verbs-00 6.2.1).
 */
IWARP_API enum iwarp_status iwarp_post_send(struct iwarp_qp *qp, const struct iwarp_send_wr *wr,
                                            const struct iwarp_send_wr **bad);

/* Post a whole chain or nothing: as iwarp_post_send, but after a failure no request is posted. */
IWARP_API enum iwarp_status iwarp_post_send_together(struct iwarp_qp *qp,
                                                     const struct iwarp_send_wr *wr,
                                                     const struct iwarp_send_wr **bad);

/*
 * The same for receives; allowed in every state, best before connecting. AGAIN: the queue is full.
 * MISUSE: the queue pair has an SRQ.
 */
IWARP_API enum iwarp_status iwarp_post_recv(struct iwarp_qp *qp, const struct iwarp_recv_wr *wr,
                                            const struct iwarp_recv_wr **bad);

IWARP_END_DECLS

#endif
