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
 * the first connection, or at a post of inline data before it. They pass every other signal to the
 * handler that the application had, with the flags of that handler, or to the default action. An
 * application should install its own handlers before it connects or accepts, or pass unknown
 * signals to the handler that it replaced. A thread that posts may also send, and a thread that
 * polls may also receive (see iwarp_progress): such threads must not block SIGSEGV and SIGBUS. The
 * library raises no SIGPIPE.
 *
 * Processes. The parent may fork at any time. In the child, a call for an object of the parent does
 * nothing and returns MISUSE (NULL or nothing if the function returns no status). The child's
 * copies of the library's sockets are closed, and the peers receive nothing. The child may open a
 * device of its own. A process may exit at any time, from any thread, without closing any object.
 * Threads may be cancelled (deferred): iwarp_cq_wait, iwarp_eq_get, iwarp_async_get,
 * iwarp_conn_wait and iwarp_conn_wait_end are cancellation points while they sleep; all other
 * functions are none.
 *
 * Return values. OK is 0, every other status is negative. Each function lists the statuses that are
 * its own, and what has happened when it returns them; after a failure nothing has changed unless
 * it says otherwise, and iwarp_last_error has a sentence for the calling thread (status.h). Any
 * function may return MISUSE: for a NULL handle or place for a result, in a forked child, and with
 * embedded progress on another thread than the loop's. A function that returns no status then
 * returns 0 or NULL (iwarp_qp_state: ERROR; a descriptor: -1). Functions that only return what an
 * object stores (iwarp_qp_num, iwarp_qp_state, iwarp_mr_stag, iwarp_eq_fd, iwarp_listener_addr and
 * the like) refuse a NULL alone. The library cannot detect the use of a handle that was
 * destroyed.
 *
 * Structs that the application fills in begin with their size, which an init function or the
 * application sets. A call with another size returns MISUSE: the program was built with another
 * version of the header. `user` of any object is a pointer for the application, which the library
 * stores and returns.
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
 *   A thread that spins on memory takes over as well: iwarp_post_send.
 *   After a short takeover the same thread needs more waits or polls for the next one. The number
 *   doubles with each short takeover, and long ones halve it. No thread takes over while a
 *   completion queue is armed, but for a thread that polls, 25 ms after one was armed last, and
 *   longer once such a thread has stayed away. From then on the polls tell of completions in armed
 *   queues, or the worker does, 4 ms after the last poll. So a thread that polls for long before it
 *   sleeps arms its queue anew. The worker takes its loop back at once when another thread arms a
 *   queue, waits or needs the loop for a call, after some pauses of 200 us between polls, and in
 *   all other cases within 4 to 16 ms.
 *     A thread that runs a loop sleeps when there is nothing to do. While its sleeps are short, it
 *   may spin for up to 100 us first (option `look`).
 *
 * - POLLED: as THREADED, but a thread that polls (iwarp_cq_poll, or iwarp_eq_get with time-out 0)
 *   moves the octets itself and pays no thread switch. The workers sleep meanwhile. They take over
 *   at once when a thread arms a queue or waits for one, otherwise within about 4 ms of the last
 *   poll, or 0.4 ms while a queue is armed. Polling a queue runs the workers whose connections and
 *   listeners use the queue or have used it (`worker` in conn.h chooses the worker); before the
 *   first connection or listener it runs all workers. If the queues of a worker are no longer
 *   polled, every 64th poll of other queues runs that worker until it takes over. Any thread may
 *   call any function.
 *
 * - EMBEDDED: the device runs in the application's libuv loop. The library starts no thread and
 *   takes no lock. The thread that opened the device runs the loop and calls all functions; calls
 *   from other threads return MISUSE, except iwarp_device_call. iwarp_cq_wait, iwarp_eq_get,
 *   iwarp_async_get and iwarp_conn_wait run the loop until what they wait for has come, or time is
 *   up, so callbacks of the loop must not call them with another time-out than 0: a callback uses
 *   the descriptors of the queues. Callbacks may call all other functions; where one waits for the
 *   connection's worker, that is this thread, and it does not wait. The device keeps the loop alive
 *   until it is closed. iwarp_device_close leaves handles and memory to the loop, which needs
 *   several turns to release them. So call uv_run(loop, UV_RUN_DEFAULT) after it, which returns
 *   when no handle is left; or go on with turns of UV_RUN_NOWAIT until uv_loop_close no longer
 *   returns UV_EBUSY.
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

/*
 * Sends with Immediate Data, IWARP_WR_SEND_IMM. They are of no RFC: InfiniBand has them, and
 * programs for libibverbs use them. A device sends and takes them only on a connection whose two
 * ends have agreed; on any other it refuses to post them (MISUSE), and one that arrives ends the
 * stream as an unknown opcode does (Terminate 0/2/06). iwarp_conn_info tells what came of it.
 */
enum iwarp_send_imm {
    IWARP_SEND_IMM_DEFAULT = 0, /* a connection: as its device; a device: IWARP_SEND_IMM in the
                                 * environment, on (ASK) or off; OFF */
    IWARP_SEND_IMM_OFF,
    /* The start-up tells: the initiator puts 8 octets (IWARP_SEND_IMM_MARK) behind the private data
     * of its Request. A responder with ASK puts them behind that of its Reply, if the Request has
     * them. Both take them away before their applications see the private data. To a peer without
     * ASK they are 8 more octets of private data: of the Request alone. */
    IWARP_SEND_IMM_ASK,
    IWARP_SEND_IMM_AGREED /* the two applications have agreed, by whatever means */
};

struct uv_loop_s;

/* Limits and resources of a device. Initialise with iwarp_device_options_init, then change. */
struct iwarp_device_options {
    size_t size;              /* sizeof(struct iwarp_device_options), set by init */
    unsigned workers;         /* threads that drive streams; default 1, at most 64 */
    unsigned max_connections; /* default 65536; more are refused with LIMIT. A connection counts
                               * until it has ended, its object is destroyed, and its queue pair is
                               * destroyed, or IDLE again; and for a moment longer */
    unsigned max_half_open;   /* inbound start-ups at a time, including rejected peers that have not
                               * closed yet; default 1024, and never more than half of
                               * max_connections or of the process's descriptors. At the limit
                               * the oldest start-up of the address with the most start-ups is ended
                               * for the next one, once it is 200 ms old */
    unsigned max_regions;     /* default 1048576, at most 4194304 */
    size_t max_buffer_bytes;  /* library memory for partly received or unsent FPDUs and records of
                               * TLS; default 1 GiB, at least 1 */
    enum iwarp_progress progress;
    struct uv_loop_s
        *loop; /* EMBEDDED: the application's uv_loop_t, else NULL; workers must be 1 */
    enum iwarp_rfc7306 rfc7306;
    const char *pcap;        /* record what connections carry, see below; NULL: into the file that
                              * IWARP_PCAP in the environment names, if any; "": not */
    uint64_t pcap_max_bytes; /* of that file; 0: IWARP_PCAP_MAX in the environment; 1 GiB. At least
                              * 4096 */
    const char *transport;   /* "tcp", the kernel's, or "lwip:...", see docs/transport.md; NULL:
                              * IWARP_TRANSPORT in the environment, else the kernel's */
    bool look; /* THREADED: spin for up to 100 us before a sleep, while sleeps are shorter than
                * that and a trial now and then shows that spinning moves more octets; and let a
                * thread that polls without a pause run the loop. Spinning stops where other
                * threads need the processor. Default: IWARP_LOOK in the environment (on or off),
                * else on */
    /* How long, and with how many octets for each connection, messages wait for a receive that is
     * not posted yet: conn.h. Defaults: IWARP_RNR_TIMEOUT and IWARP_RNR_BYTES in the environment,
     * else 0 (a message that finds no receive ends the stream) and 262144, at least 1. */
    unsigned rnr_timeout_ms, rnr_bytes;
    enum iwarp_send_imm send_imm; /* of connections whose option is DEFAULT; not AGREED */
    const char *tls; /* of connections whose option is NULL: iwarp/tls.h; NULL: IWARP_TLS
                      * in the environment, else none */
};

/*
 * A recording is a pcapng file for Wireshark, needs no root, and holds what this device's
 * connections send and receive, over any transport, from the MPA Request on (RFC 5044 7.1): the TCP
 * payload of each direction, exactly. The library invents headers, handshake, sequence numbers,
 * acknowledgements and segmentation (the section header of the file says so): one packet for each
 * call to the transport, cut at 65000 octets, and one without payload where 32 go one way. With the
 * kernel's TCP the addresses are real. Comments name queue pairs, and regions and windows of this
 * device where they are used. If both ends of a connection record into one file, each octet is
 * there once, as sent.
 *
 * In the name %p is the process id, and %% is %. The library never overwrites a file that exists:
 * it inserts the process id, and then a number, before the suffix, and logs the name (IWARP_LOG).
 * Devices of one process that give the same name share the file, with the first one's bound; a
 * forked child makes its own. At the bound the packet that does not fit is recorded without
 * payload, with a comment, and nothing after it. If the file cannot be created or written (disk
 * full), the library logs that and ends the recording; no call fails, and no connection is
 * affected. A process that is killed while it writes can leave a part of its last packet; Wireshark
 * says so, and shows all before it. The file has mode 0600, since it contains the application's
 * data; programs that run with more rights than their user do not look at the environment. The
 * thread that sends or receives waits for write(2).
 */

/*
 * Set *options to the defaults. workers and look come from IWARP_WORKERS and IWARP_LOOK, in the
 * environment or in a file of settings (iwarp_env(7)), if these are set.
 */
IWARP_API void iwarp_device_options_init(struct iwarp_device_options *options);

/*
 * Open a device and start its workers, which run until iwarp_device_close. options are copied;
 * NULL: the defaults. A process may open several devices. *device belongs to the application.
 *
 * MISUSE: an option is out of its bounds, or IWARP_PROGRESS, IWARP_RFC7306, IWARP_TRANSPORT or
 * IWARP_FAULTS has a value that is not known, or `tls` or IWARP_TLS or a file that it names is
 * wrong. LIMIT: the system gives no thread, descriptor or
 * event loop, or CRC32c cannot be computed as IWARP_CRC32C demands. NO_MEMORY.
 */
IWARP_API enum iwarp_status iwarp_device_open(const struct iwarp_device_options *options,
                                              struct iwarp_device **device);

/*
 * Stop the workers and release the device. Connections that only wait for the peer's FIN, after
 * iwarp_conn_destroy, are reset. The call waits until the workers have ended, so it must not be
 * made out of a function that the library calls. With embedded progress the loop has to run on
 * afterwards (enum iwarp_progress). MISUSE: a protection domain, completion queue, event queue,
 * listener or connection still exists; iwarp_last_error counts them.
 */
IWARP_API enum iwarp_status iwarp_device_close(struct iwarp_device *device);

/*
 * Run fn(arg) soon on the thread that runs the loop. EMBEDDED only, where this is the one function
 * that any thread may call. The functions run in the order of the calls; iwarp_device_close first
 * runs those that have not run yet. MISUSE: another progress mode. NO_MEMORY: nothing is queued.
 */
IWARP_API enum iwarp_status iwarp_device_call(struct iwarp_device *device, void (*fn)(void *arg),
                                              void *arg);

/* --- protection domains ---------------------------------------------------------------------- */

/*
 * Create a protection domain: queue pairs reach only regions and windows of their own domain (RFC
 * 5042 2.2.4). NO_MEMORY.
 */
IWARP_API enum iwarp_status iwarp_pd_create(struct iwarp_device *device, struct iwarp_pd **pd);

/* Destroy a protection domain. MISUSE: a region, window, queue pair or SRQ of it exists. */
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
    IWARP_WC_REMOTE_OPERATION, /* the peer failed otherwise (Terminate) */
    IWARP_WC_LOCAL_LENGTH      /* the message is longer than this receive (RFC 5041 7.1) */
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
    IWARP_WC_WITH_IMM = 1 << 2,        /* the peer sent Immediate Data: `imm` */
    IWARP_WC_IMM_OF_SEND = 1 << 3      /* and it came with a Send, whose octets byte_len counts */
};

/* One completion. Only wr_id, status, fault, fault_code, qp and qp_num are valid unless status is
 * SUCCESS. */
struct iwarp_wc {
    uint64_t wr_id;
    enum iwarp_wc_status status;
    enum iwarp_wc_opcode opcode;
    uint32_t byte_len; /* received octets (RECV), or of the RDMA Write before (WITH_IMM without
                          IMM_OF_SEND); read octets (READ) */
    uint32_t flags;    /* enum iwarp_wc_flags */
    uint32_t invalidated_stag;
    uint32_t qp_num; /* of qp, valid even if another thread destroys qp meanwhile */
    struct iwarp_qp *qp;
    const struct iwarp_fault
        *fault; /* the first fault of the stream; until qp is gone or IDLE again */
    uint64_t
        imm; /* WITH_IMM: the 8 octets, see IWARP_WR_IMM; with IMM_OF_SEND the 4, as a number */
    uint32_t fault_code; /* enum iwarp_fault_code of fault, valid even if qp is gone meanwhile */
    uint32_t reserved[1];
};

/* Return a word for a completion status ("flushed"), in static storage; never NULL. */
IWARP_API const char *iwarp_wc_status_text(enum iwarp_wc_status status);

/*
 * Create a completion queue with room for `entries` completions, 1 to 4194304. One more completion
 * is lost, ends the stream that produced it, and is reported as IWARP_ASYNC_CQ_OVERFLOW; so let the
 * work requests that may complete into the queue be no more than its entries. MISUSE: another
 * number. NO_MEMORY.
 */
IWARP_API enum iwarp_status iwarp_cq_create(struct iwarp_device *device, unsigned entries,
                                            void *user, struct iwarp_cq **cq);

/*
 * Destroy a completion queue; completions that were not polled are discarded. The call waits for a
 * notification that is being made. MISUSE: a queue pair uses the queue. AGAIN: an event of it was
 * taken and is not acknowledged (async.h).
 */
IWARP_API enum iwarp_status iwarp_cq_destroy(struct iwarp_cq *cq);

/*
 * Give the queue room for `entries` completions, 1 to 4194304, at any time; no completion and no
 * notification is lost. An overflow that has happened is not undone. MISUSE: more completions wait
 * than the queue would hold, or another number. NO_MEMORY.
 */
IWARP_API enum iwarp_status iwarp_cq_resize(struct iwarp_cq *cq, unsigned entries);

/* Return the number of entries, and the pointer, that the queue was created with or resized to. */
IWARP_API unsigned iwarp_cq_entries(const struct iwarp_cq *cq);
IWARP_API void *iwarp_cq_user(const struct iwarp_cq *cq);

/*
 * Take up to n completions, oldest first, and copy them to wc. Any number of threads may poll one
 * queue; each completion goes to one of them. Never sleeps. A poll of an empty queue may run a
 * worker's loop (see iwarp_progress). When a completion of a request has been taken, the request's
 * buffers, and those of unsignaled requests before it in the same queue, belong to the application
 * again.
 *
 * Returns how many completions were taken, 0 to n, or a negative status. LIMIT: the queue is empty
 * and has lost completions, which has ended their queue pairs; it stays so. MISUSE: wc is NULL and
 * n > 0.
 */
IWARP_API int iwarp_cq_poll(struct iwarp_cq *cq, struct iwarp_wc *wc, int n);

/*
 * Ask for one notification at the next completion; with solicited_only, at the next solicited
 * receive or failed completion (verbs draft 8.2.5). Completions that are there already do not
 * trigger it: poll, arm, poll again. A request for any completion stands when one for solicited
 * ones follows, and replaces one that came before. The device's workers take over their loops,
 * since the thread is about to sleep.
 */
IWARP_API enum iwarp_status iwarp_cq_arm(struct iwarp_cq *cq, bool solicited_only);

/*
 * Return a descriptor (eventfd) that becomes readable at each notification; -1 if the system gives
 * none, or the queue has a function (iwarp_cq_notify_by). The queue owns the descriptor and makes
 * it at the first call: use it for poll/epoll only, and call iwarp_cq_drain instead of read(2) to
 * make it unreadable again.
 */
IWARP_API int iwarp_cq_fd(struct iwarp_cq *cq);

/* Make the descriptor unreadable, however many notifications it holds. Never sleeps. */
IWARP_API void iwarp_cq_drain(struct iwarp_cq *cq);

/*
 * Have notify(arg) called at each notification, instead of making a descriptor readable. Any thread
 * that produces completions of the queue calls it, possibly two threads at the same time, with
 * locks of the library held. Therefore notify must return soon and must not call the library.
 * iwarp_cq_destroy waits until notify has returned. Set it once, before the queue is used. There
 * is no iwarp_cq_fd nor iwarp_cq_wait for such a queue then. MISUSE: the queue has a descriptor or
 * a function already, or notify is NULL.
 */
IWARP_API enum iwarp_status iwarp_cq_notify_by(struct iwarp_cq *cq, void (*notify)(void *arg),
                                               void *arg);

/*
 * Take up to n completions, n at least 1, and wait while the queue is empty, for timeout_ms
 * milliseconds at most (< 0: for ever; 0: not at all). The thread sleeps on the descriptor, or runs
 * a worker's loop meanwhile (see iwarp_progress). Only one thread at a time may wait for a queue;
 * others may poll it. A cancellation point while it sleeps.
 *
 * Returns as iwarp_cq_poll does, and 0 when time is up. MISUSE: n is less than 1, or the
 * queue is empty and has a function (iwarp_cq_notify_by). LIMIT: also if the system gives no
 * descriptor.
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

/* Set *options to the defaults; send_cq and recv_cq are still to be set. */
IWARP_API void iwarp_qp_options_init(struct iwarp_qp_options *options);

/*
 * Create a queue pair in IDLE (verbs draft 6.2). options are copied; the completion queues and the
 * SRQ must outlive the queue pair. No other queue pair of the device has its number, unless
 * options.num gave it to both. MISUSE: an option is out of its bounds, or names an object of
 * another device. NO_MEMORY.
 */
IWARP_API enum iwarp_status iwarp_qp_create(struct iwarp_pd *pd,
                                            const struct iwarp_qp_options *options,
                                            struct iwarp_qp **qp);

/*
 * Destroy a queue pair. If it is connected, the connection is aborted (RST); destroy the connection
 * object separately, before or after. Pending requests are released without completions,
 * completions that were not polled are discarded, and no completion is produced afterwards. The
 * call waits for threads that are about to return from posting. No other thread may use qp. AGAIN:
 * an event of it was taken and is not acknowledged (async.h).
 */
IWARP_API enum iwarp_status iwarp_qp_destroy(struct iwarp_qp *qp);

/* Return the pointer of the options, the number, and the state at this moment. */
IWARP_API void *iwarp_qp_user(const struct iwarp_qp *qp);
IWARP_API uint32_t iwarp_qp_num(const struct iwarp_qp *qp);
IWARP_API enum iwarp_qp_state iwarp_qp_state(struct iwarp_qp *qp);

/*
 * Return why the stream ended; NULL while it has not, or when both sides closed in order. The fault
 * stays until the queue pair is destroyed or goes to IDLE (qp.h).
 */
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
 * SEND_IMM is a Send with 4 octets of Immediate Data in its header, for peers that have agreed (see
 * enum iwarp_send_imm). imm is their value, at most 2^32-1; the first octet on the wire is the most
 * significant. The receive completes with IMM_OF_SEND. Posted before the connection is established,
 * it waits; if the peer then turns out not to have agreed, it ends the stream (LOCAL_OPERATION).
 *
 * A READ is one RDMA Read Request on the wire for each SGE that has octets, one behind the other in
 * the remote memory, since a Request names one sink. It is one request of the send queue, with one
 * completion when all responses are in place; each Request counts for ORD, and FENCE waits once.
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
    IWARP_WR_READ,      /* from remote_stag/remote_to into SGEs with LOCAL_WRITE */
    IWARP_WR_IMM,       /* Immediate Data; no SGE */
    IWARP_WR_WRITE_IMM, /* RDMA Write followed by Immediate Data */
    IWARP_WR_ATOMIC_FETCH_ADD,
    IWARP_WR_ATOMIC_CMP_SWAP,
    IWARP_WR_SEND_IMM,      /* of no RFC: Send with Immediate Data */
    IWARP_WR_READ_INV = 16, /* the same into one SGE; then its lkey is invalid */
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
     * (IWARP_WC_WRITE). If it is linked behind a Write that is not signaled and has the same
     * wr_id, the two are one request: posted together or not at all, and flushed once.
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
    uint64_t imm;                   /* IMM, WRITE_IMM; SEND_IMM: 32 bits */
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
 * Post a chain of requests. They begin in order (RFC 5040 5.5). The call copies them, and their
 * inline data; the memory that other SGEs name stays lent until the completion is polled. The
 * thread may also send them. Any thread may post, and waits for the peer in one case alone
 * (spinning on memory, below). Requests posted before ESTABLISHED, in IDLE too, wait until then
 * (verbs draft 6.2.1).
 *
 * Writes and Sends that are posted right behind others (within 1 us, and 20 ns more for each
 * request of the call) may wait for the next call, so that they go out together: until 64 calls, or
 * 1 MiB, have gathered, a completion queue is found empty or armed, the thread waits for anything,
 * or 0.5 ms have passed. What is posted after a pause goes out at once. So does the first call
 * after an empty poll, unless many rows of calls have begun that way within 50 us; a request of
 * more than 512 KiB, or of more than 16 KiB over TLS or over another transport than kernel TCP; a
 * chain of more than 16 KiB; a call with any other request in it; and a chain over another
 * transport than TCP. Not with EMBEDDED progress.
 *
 * A thread that posts and then spins on memory until its peer's Write is there would have to be
 * interrupted for each Write. Once it has posted 16 times in a row within 10 us of such a Write,
 * with THREADED progress and one worker, its posts of one request run the worker's loop until the
 * next Write is placed, for 100 us at most; the first of them may wait for the loop for 2 ms. Not
 * with the option `look` off, nor while a completion queue is armed. If the thread does something
 * else later, what comes is placed within 1 ms.
 *
 * The call stops at the first request that cannot be posted, returns its status and sets *bad to it
 * (bad may be NULL); the requests before it are posted. AGAIN: the send queue is full; poll
 * completions first. MISUSE: a request has too many SGEs or flags that are not known, is too long,
 * has inline data that cannot be read, or sg_list is NULL and num_sge is not 0. What the STags of a
 * request allow is checked when it is carried out, and shows in its completion. The call never
 * returns CLOSED, PROTOCOL, PEER or TRANSPORT: requests posted to a queue pair that has ended
 * complete as FLUSHED.
 */
IWARP_API enum iwarp_status iwarp_post_send(struct iwarp_qp *qp, const struct iwarp_send_wr *wr,
                                            const struct iwarp_send_wr **bad);

/*
 * Post a whole chain or nothing: as iwarp_post_send, but after a failure no request is posted, and
 * *bad is the request that could not be.
 */
IWARP_API enum iwarp_status iwarp_post_send_together(struct iwarp_qp *qp,
                                                     const struct iwarp_send_wr *wr,
                                                     const struct iwarp_send_wr **bad);

/*
 * Post a chain of receives, which messages take in order: a message that finds none ends the stream
 * (RFC 5041 7.2), so post before connecting. Allowed in every state. Copying, *bad and threads: as
 * for iwarp_post_send. AGAIN: the receive queue is full. MISUSE: a receive has too many SGEs, or
 * the queue pair takes its receives from an SRQ.
 */
IWARP_API enum iwarp_status iwarp_post_recv(struct iwarp_qp *qp, const struct iwarp_recv_wr *wr,
                                            const struct iwarp_recv_wr **bad);

IWARP_END_DECLS

#endif
