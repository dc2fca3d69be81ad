/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The conductor of one iWARP stream in Full Operation: the only code that knows in which order MPA,
 * DDP and RDMAP act. No I/O, no clock, no threads: a driver moves octets and calls in.
 *
 *   receive   want -> (read) -> placed, feed       stream_rx.c, and what it means: stream_msg.c
 *             take: octets that are lent           stream_lent.c
 *   send      gather -> (write) -> sent, released  stream_tx.c, and what comes next: stream_next.c
 *             fpdus: what stays in use until then  stream_refer.c
 *   local     requests that send nothing           stream_local.c
 *   atomic    operations in memory, and results    stream_atomic.c
 *   wait      messages without a receive           stream_wait.c, stream_hold.c
 *   life      eof, close, interest                 stream_life.c
 *
 * Calls between the files go one way, from those that know the order of things (rx, tx, wait, life)
 * to those that know one thing (next, msg, local, atomic, frame, block, hold); tools/check-includes
 * sees to it.
 *
 * Work comes in through two rings (wq.h) and leaves through their `done` counters; why the stream
 * ended is in `fault`. A stream has no lock: its driver makes one call at a time (verbs holds
 * conn.lock). RFC 5040, 5041, 5044.
 *
 *             close()                 everything sent, peer's FIN
 *   RUNNING ----------> CLOSING ------------------------------------> ENDED
 *      |                   |  \                                         ^  ^
 *      | fault that owes   |   \ detach() when everything is sent       |  |
 *      v a Terminate       v    v                                       |  |
 *   TERMINATING -------(sent)--> DRAINING -------(peer's FIN)-----------+  |
 *      any fault that owes none, a received Terminate, a lost connection --+
 *
 *   TERMINATING: this end sends a Terminate. A received one ends the stream at once.
 *   DRAINING: nothing more is sent, what arrives is dropped, the work queues are not touched.
 *
 * Invariants (iwarp_stream_check):
 *  - rx.carry is allocated exactly in state RX_CARRY, and rx.carry_len < rx.fpdu_len there
 *  - fault.code is set in TERMINATING, and once set never changes
 *  - no region is lent to rx between placed/feed and the next want: ddp.lends is NULL
 *  - sq.done <= sq.next <= sq.head, tx.released <= tx.sent <= tx.framed
 *  - segments are held in RUNNING and CLOSING only; the oldest is the first of its message
 */
#ifndef IWARP_STREAM_H
#define IWARP_STREAM_H

#include "base/budget.h"
#include "base/fault.h"
#include "ddp/ddp.h"
#include "rdmap/rdmap_read.h"
#include "rdmap/rdmap_term.h"
#include "stream/stream_count.h"
#include "stream/wq.h"

#include <iwarp/verbs.h>

enum iwarp_stream_life {
    STREAM_RUNNING,
    STREAM_CLOSING,
    STREAM_TERMINATING,
    STREAM_DRAINING,
    STREAM_ENDED
};

enum iwarp_stream_rx_state {
    RX_HEAD,    /* collecting the first octets of an FPDU: its length and DDP header */
    RX_CARRY,   /* collecting an FPDU that arrived in pieces, until it is whole */
    RX_PAYLOAD, /* direct placement: payload goes straight to its destination */
    RX_TRAILER  /* direct placement: padding and CRC */
};

/* The first FPDU of an initiator in peer-to-peer mode, RFC 6581 9.2. */
enum iwarp_stream_rtr { STREAM_RTR_NONE, STREAM_RTR_SEND, STREAM_RTR_WRITE, STREAM_RTR_READ };

/* Everything a stream needs, fixed for its life but for hold_tx, rtr, ord and mulpdu. */
struct iwarp_stream_config {
    struct iwarp_region_table *regions;
    const void *pd;
    uint32_t qp;     /* serial of the queue pair: windows of type 2, QP_ONLY */
    unsigned denied; /* enum iwarp_access that the queue pair withholds from its peer */
    const _Atomic unsigned *pd_qps; /* how many queue pairs the PD has; NULL: this one */
    struct iwarp_wq *sq, *rq;
    struct iwarp_budget *budget;
    struct iwarp_spare *spare; /* for send blocks */
    struct iwarp_stream_counts *counts;
    bool crc;
    bool markers_rx; /* the peer inserts markers: no direct placement, each FPDU is collected */
    bool markers_tx; /* the peer wants markers */
    bool hold_tx;    /* responder: send nothing before the first valid FPDU has arrived */
    bool responder;
    bool strict;               /* accept no deviation of known peers (peers/peers.h) */
    bool rfc7306;              /* Immediate Data and Atomics are known */
    bool send_imm;             /* both ends have agreed on Sends with Immediate Data */
    bool refers;               /* the transport refers to payload until it is acknowledged */
    bool copies;               /* payload of requests may change until they complete */
    bool large_batches;        /* its calls are dear, and it takes much at once */
    bool early;                /* place before the CRC is checked */
    bool plain;                /* no runs (stream_run.h): tests compare with and without */
    size_t hold;               /* octets of messages that may wait for a receive; 0: none waits */
    enum iwarp_stream_rtr rtr; /* to be sent before anything else; READ needs ord >= 1 */
    uint32_t mulpdu;           /* of what is framed from now on */
    uint32_t ird, ord;
};

struct iwarp_stream_rx {
    enum iwarp_stream_rx_state state;
    uint8_t head[32]; /* RX_HEAD: octets so far; RX_TRAILER likewise */
    uint32_t head_len;
    uint8_t *carry; /* RX_CARRY */
    uint32_t carry_len;
    uint32_t fpdu_len;     /* RX_CARRY */
    uint32_t payload_len;  /* RX_PAYLOAD, RX_TRAILER */
    uint32_t payload_done; /* octets of it that are in place */
    uint32_t crc;          /* running, over what is in place */
    bool verified;         /* the CRC of the FPDU that is fed was found right (stream_lent.c) */
    size_t held;           /* lent octets of an unfinished FPDU; they count in the budget */
    struct iwarp_ddp_header header;
    uint64_t pos;      /* stream octets received */
    uint64_t fpdu_pos; /* where the current FPDU began */
    uint64_t fpdus;    /* received whole */
    uint64_t direct;   /* payload octets that were never copied */
    uint32_t written;  /* octets so far of the RDMA Write that the latest segment belongs to */
    bool write_ended;  /* that segment was its last; both are 0 after any other segment */
    bool open;         /* the latest segment was not the last of its message, whatever that is */
};

/*
 * Segments of messages that came before their receives (stream_hold.h). `room` is where reading
 * stops; one read may go beyond it.
 */
struct iwarp_hold {
    struct iwarp_held *first, *last; /* oldest first; first NULL: none */
    const struct iwarp_held *again;  /* the one that is being delivered; NULL: none */
    size_t octets, room;             /* what they cost, config.hold */
    bool blocked;                    /* messages of queue 0 may not have a receive now */
    bool closed;                     /* the application has closed and waits for none of them */
};

struct iwarp_tx_block;
struct iwarp_refs;

/* An FPDU carries a send request, the response to a Read or Atomic, or one of the two messages that
 * the stream itself sends: the ready-to-receive message and the Terminate. */
enum iwarp_tx_kind { TX_NONE, TX_REQUEST, TX_RESPONSE, TX_RTR, TX_TERMINATE };

struct iwarp_stream_tx {
    struct iwarp_tx_block *block; /* headers, trailers, iovec: only while something is unsent */
    enum iwarp_tx_kind kind;      /* REQUEST or RESPONSE: its message has begun and is not whole */
    uint32_t off;                 /* octets of the next request, or of its Reads, framed so far */
    uint8_t sge;                  /* the SGE that its next RDMA Read Request is for, or before it */
    bool response_turn;           /* requests and responses alternate */
    bool terminate_framed;
    bool extended;                   /* a message of RFC 7306 was framed */
    bool send_imm;                   /* a Send with Immediate Data was framed */
    bool behind_write;               /* the latest request was an RDMA Write, not a WRITE_IMM */
    uint32_t send_msn, read_msn;     /* next, queues 0 and 1 */
    uint32_t atomic_msn;             /* next, queue 3 */
    uint64_t framed, sent, released; /* stream positions */
    uint64_t heard;                  /* rx.pos at the last batch that was not short */
    uint64_t fpdus;
    uint32_t cut;            /* octets that are unsent of the FPDU that a burst has cut */
    struct iwarp_refs *refs; /* regions that the transport refers to; NULL: none ever */
};

struct iwarp_stream {
    struct iwarp_stream_config config;
    enum iwarp_stream_life life;
    bool eof;        /* the peer has sent FIN */
    bool shut;       /* the driver was told to half-close: nothing can be sent any more */
    bool abort;      /* ENDED, and TCP should be reset rather than closed */
    uint32_t sq_end; /* CLOSING: requests posted from this position on are flushed, not sent */
    struct iwarp_fault fault;
    struct iwarp_term_cause cause;
    bool terminate_received; /* true: `terminate` came from the peer; false: this end framed it */
    uint8_t terminate_len;   /* octets of it that are kept; 0: there was no Terminate */
    uint8_t terminate[IWARP_TERM_MAX_LEN];
    struct iwarp_ddp_rx ddp;
    struct iwarp_rdmap_reads reads;
    struct iwarp_stream_rx rx;
    struct iwarp_stream_tx tx;
    struct iwarp_hold hold;
};

void iwarp_stream_init(struct iwarp_stream *s, const struct iwarp_stream_config *config);
void iwarp_stream_fini(struct iwarp_stream *s);

/* --- receive --------------------------------------------------------------------------------- */

/*
 * Where do the next octets of the stream belong? Fills iov with at most max (at least 1) entries
 * and returns their number: 0 if the next octets are headers. *staging is a hint: so many octets
 * the driver should read, in the same vectored read, into a buffer of its own behind these entries.
 * The driver calls placed once after each want, with 0 if nothing was read. Until then the regions
 * in iov are lent, and *lends, which need not be initialised, belongs to the stream.
 */
unsigned iwarp_stream_want(struct iwarp_stream *s, struct iwarp_lends *lends, struct iovec *iov,
                           unsigned max, size_t *staging);

/* The driver has read n octets into the entries of the last want. Ends its lends. */
void iwarp_stream_placed(struct iwarp_stream *s, size_t n);

/* The next n octets of the stream. All are consumed: what belongs to an unfinished FPDU is copied,
 * and after the end of the stream the octets are dropped. */
void iwarp_stream_feed(struct iwarp_stream *s, const void *data, size_t n);

/*
 * Instead of all three: octets that the transport lends, in n pieces from the first that was not
 * given back. Returns how many can be given back. *held: as many behind them are the beginning of
 * an FPDU, to be lent again once more has come; the driver knows of others that it has to come back
 * for. last: no more can be lent behind these; so what is unfinished is copied, and nothing held.
 */
size_t iwarp_stream_take(struct iwarp_stream *s, const struct iovec *iov, unsigned n, bool last,
                         size_t *held);

/* --- send ------------------------------------------------------------------------------------ */

/*
 * The octets to write next: *iov (valid until sent) and its number of entries; 0 if there is
 * nothing to send now. The user memory in it is lent until the driver calls sent, which it must do.
 */
unsigned iwarp_stream_gather(struct iwarp_stream *s, const struct iovec **iov);

/* The transport has taken n octets (0 is allowed). */
void iwarp_stream_sent(struct iwarp_stream *s, size_t n);

/* The transport no longer refers to the next n octets: requests that end in them complete. */
void iwarp_stream_released(struct iwarp_stream *s, size_t n);

/*
 * For transports that refer to memory: the lengths of the FPDUs in what gather gave, as many as
 * there is room for. The first may have begun before (tx.cut > 0). Returns how many. Payload that
 * is not in *passing, a range of addresses, stays in use until it is released, and its regions say
 * so (region.referred). cut: before `sent`, n octets of them were taken.
 */
unsigned iwarp_stream_fpdus(struct iwarp_stream *s, const struct iovec *iov, uint32_t *fpdus,
                            unsigned room, struct iovec *passing);
void iwarp_stream_cut(struct iwarp_stream *s, const uint32_t *fpdus, unsigned count, size_t n);

/* Does the transport refer to memory of this region? Nothing, once it is closed: forget. */
bool iwarp_stream_refers(const struct iwarp_stream *s, const struct iwarp_region *region);
void iwarp_stream_forget(struct iwarp_stream *s);

/*
 * If this initiator has sent something and received no octet yet, queue a zero-length RDMA Write as
 * the next message: the peer may have overlooked the first FPDU (iwarp_peers_remind_ms). False: not
 * in that state, and nothing is queued.
 */
bool iwarp_stream_remind(struct iwarp_stream *s);

/* --- messages without a receive --------------------------------------------------------------- */

/* Does a message wait for its receive? *msn: the oldest such. Then the driver measures the time,
 * and sees to it that a posted receive makes it call resume. */
bool iwarp_stream_waits(const struct iwarp_stream *s, uint32_t *msn);

/* As much waits as may: the driver reads no more, until resume has made room. Not after the peer's
 * FIN: nothing more comes. */
static inline bool iwarp_stream_full(const struct iwarp_stream *s)
{
    return s->hold.first && s->hold.octets >= s->hold.room && !s->eof;
}

/* Deliver what waits, as far as there are receives. */
void iwarp_stream_resume(struct iwarp_stream *s);

/* The oldest message has waited for ms in vain: end the stream by a Terminate. */
void iwarp_stream_wait_over(struct iwarp_stream *s, uint64_t ms);

/* The peer has closed, or is gone, behind octets that were not read since the stream is full: as
 * much again may be held, so that a Terminate among them is found. */
void iwarp_stream_hold_rest(struct iwarp_stream *s);

/* --- life ------------------------------------------------------------------------------------ */

/* The peer's FIN (error 0), or an errno value that ended the connection. */
void iwarp_stream_eof(struct iwarp_stream *s, int error);

/* Send the requests posted so far, then half-close. Messages that wait for a receive are dropped.
 */
void iwarp_stream_close(struct iwarp_stream *s);

/*
 * The work queues go away. A stream that waits for nothing but the peer's FIN drains on its own;
 * any other ends now with LOCAL_ABORT.
 */
void iwarp_stream_detach(struct iwarp_stream *s);

/* End now, without a Terminate, by a reset. The fault is recorded unless there is one already. */
void iwarp_stream_kill(struct iwarp_stream *s, enum iwarp_fault_code code,
                       enum iwarp_fault_side side, uint64_t detail);

enum iwarp_stream_interest {
    IWARP_STREAM_WRITE = 1,   /* gather has something */
    IWARP_STREAM_SHUTDOWN = 2 /* nothing more will be sent: half-close */
};
/* What the driver should do next. Also takes the steps of `life` that are due once all is sent. */
unsigned iwarp_stream_interest(struct iwarp_stream *s);

/*
 * stream_next.c: the kind of FPDU to frame next, or TX_NONE. The rule alone: asking changes
 * nothing. A message that was begun goes on until it is whole; at message borders requests and
 * responses alternate (tx.response_turn).
 */
enum iwarp_tx_kind iwarp_stream_next(const struct iwarp_stream *s);

static inline bool iwarp_stream_tx_waits(const struct iwarp_stream *s)
{
    return iwarp_stream_next(s) != TX_NONE;
}

/* Everything that was framed is sent. */
static inline bool iwarp_stream_drained(const struct iwarp_stream *s)
{
    return s->tx.sent == s->tx.framed;
}

/* Is any send request or inbound RDMA Read unfinished? */
bool iwarp_stream_busy(struct iwarp_stream *s);

/* Assert the invariants; for tests, after every step. */
void iwarp_stream_check(struct iwarp_stream *s);

/* --- between the files of this folder -------------------------------------------------------- */

/* stream_rx.c: the whole FPDUs at the front of n octets, at an FPDU's border. Returns their octets.
 */
size_t iwarp_stream_feed_whole(struct iwarp_stream *s, const void *data, size_t n);

/* stream_refer.c: what was referred to up to this position is released. */
void iwarp_stream_unrefer(struct iwarp_stream *s, uint64_t released);

/* Nothing that is lent is held any more. */
static inline void iwarp_stream_unhold(struct iwarp_stream *s)
{
    iwarp_budget_return(s->config.budget, s->rx.held);
    s->rx.held = 0;
}

/*
 * End the stream because of s->fault, with a Terminate if the fault's row demands one. If a segment
 * caused the fault, s->cause holds its headers. A Terminate of the peer is such a fault, too, and
 * its row demands none.
 */
void iwarp_stream_fail(struct iwarp_stream *s);

/* One behind the last request that is to be carried out. */
static inline uint32_t iwarp_stream_sq_end(const struct iwarp_stream *s)
{
    return s->life == STREAM_CLOSING ? s->sq_end : iwarp_wq_head(s->config.sq);
}

/*
 * stream_atomic.c. Checks a peer's Atomic and returns its target, whose region is then lent. NULL:
 * s->fault.
 */
void *iwarp_stream_atomic_target(struct iwarp_stream *s, struct iwarp_lends *lends,
                                 const struct iwarp_rdmap_atomic_request *op);

/* Carry it out, and put the Atomic Response at `wire`. False: fault, and memory is unchanged. */
bool iwarp_stream_atomic_do(struct iwarp_stream *s, const struct iwarp_read_in *in, uint8_t *wire);

/* The Atomic Response to the oldest request of this end lies at p. False: fault. */
bool iwarp_stream_atomic_done(struct iwarp_stream *s, const struct iwarp_read_out *out,
                              const uint8_t *p);

/* stream_local.c: for changes of STags on behalf of this stream. */
struct iwarp_binder iwarp_stream_binder(const struct iwarp_stream *s);

/* Carry out the next request, a local one: false if it cannot be, with w->status and the fault. */
bool iwarp_stream_local_do(struct iwarp_stream *s, struct iwarp_swqe *w);

/* The response of a Read with Invalidate has come. False: fault. */
bool iwarp_stream_invalidate_sink(struct iwarp_stream *s, struct iwarp_swqe *w);

/* stream_block.c: give the send block back. */
void iwarp_stream_tx_fini(struct iwarp_stream *s);

#endif
