/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs of unreliable datagrams (UD): docs/datagrams.md has the design and the layouts.
 *
 *   program --Send--> outer ==in memory== inner --> buffer --> way ====TCP====> way of the peer
 *   program <--Send-- outer ==in memory== inner <-- buffer <-- way <===TCP===== way of the peer
 *
 * The native queue pair of the program, the outer one, is connected in memory with an inner one of
 * the library. What comes out there is sent on a way, a connection to one queue pair; what comes in
 * on a way is sent to the program from there. Buffers are the only memory, and a datagram that
 * finds none, or no way, or no receive, waits a moment or is dropped.
 *
 * num_lock guards all that is declared here but the heads of sends, which have a lock of their own.
 */
#ifndef IWARP_COMPAT_UD_H
#define IWARP_COMPAT_UD_H

#include "compat/num.h"

enum {
    UD_HEAD = 40,     /* octets in front of each datagram, in each of its layouts */
    UD_MOST = 4096,   /* octets of a datagram */
    UD_BUFFERS = 128, /* of each direction, and one more for each inward way */
    UD_WAYS = 1024,   /* of each direction */
    UD_BUFFERS_MOST = 2 * UD_BUFFERS + UD_WAYS,
    UD_STUCK_MS = 1000, /* if ways hold all buffers, those that sent none for so long are ended */
    UD_PAUSE_MS = 100,  /* after a way has ended: datagrams for it are dropped */
    UD_ADDRESS_OCTETS = 16
};

/*
 * The head of a datagram between the program's thread and the engine: where it goes. In the byte
 * order of the host, as it does not leave the process.
 */
struct ud_to {
    uint8_t addr[UD_ADDRESS_OCTETS]; /* as a GID */
    uint32_t scope;                  /* interface of a link-local address, else 0 */
    uint32_t number, qkey, imm;
    uint8_t traffic_class, hop_limit;
    bool has_imm, solicited;
    uint32_t reserved;
};
_Static_assert(sizeof(struct ud_to) == UD_HEAD, "takes the room that the GRH will take");

/* What the head says on the wire. */
struct ud_wire {
    uint32_t qkey, imm;
    uint8_t traffic_class, hop_limit;
    bool has_imm, solicited;
};

struct ud_way;

struct ud_buffer {
    struct ud_way *way; /* whose send queue it is in; NULL: none */
    uint8_t octets[UD_HEAD + UD_MOST];
    bool inward;
};

struct ud_way {
    struct compat_owner owner; /* nobody */
    struct ud *ud;
    bool inward;
    uint32_t number; /* of the peer */
    struct sockaddr_storage peer, own;
    struct iwarp_qp *qp; /* NULL: it has ended, and datagrams are dropped until pause_ms */
    struct iwarp_conn *conn;
    unsigned queued;  /* buffers in its send queue */
    int64_t moved_ms; /* when one left it last, or the first one came; inward: when one came last */
    int64_t pause_ms;
    bool ending;
    struct ud_way *next;
};

/* A datagram that waits until the inner queue pair sends fewer. */
struct ud_kept {
    struct ud_buffer *buffer;
    const struct ud_way *way;
    uint32_t len;
};

/* What the completion of a receive says beyond the datagram. */
struct ud_note {
    uint32_t from, imm;
    uint8_t packet_type; /* of RoCE: UD_OF_IPV4 or UD_OF_IPV6 */
    bool has_imm;
    uint32_t next; /* free: the next free one */
};

struct ud {
    struct compat_qp *qp;
    uint32_t number;
    struct iwarp_eq *eq; /* of connections; set with `inner` */
    struct iwarp_pd *pd;
    struct iwarp_cq *cq;
    struct iwarp_mr *mr; /* buffers */
    struct iwarp_srq *srq;
    struct ud_buffer *buffer; /* UD_BUFFERS outward ones, then inward ones */
    uint16_t spare[UD_WAYS];  /* inward ones that no way has brought, by index */
    unsigned spares;
    struct compat_owner owner; /* nobody: of the inner one */
    struct iwarp_qp *inner;    /* NULL: not between RTR and its end */
    struct iwarp_conn *pair[2];
    struct ud_way *ways;
    unsigned outward, inward; /* how many */
    unsigned queued;          /* outward buffers in the send queues of ways */
    unsigned delivering;      /* inward ones in the send queue of `inner` */
    int64_t delivered_ms;     /* when one left it last, or the first one came */
    struct ud_kept kept[UD_BUFFERS + UD_WAYS];
    unsigned kept_count;
    uint64_t taken; /* out of the inner queue pair */
    uint64_t dropped;
    struct ud_note *notes;
    uint32_t note_count, note_free; /* note_free == note_count: none is free */
    struct ud *next, **at;          /* those between RTR and their ends */

    pthread_mutex_t post; /* before native locks; num_lock is not taken with it held */
    struct ud_to *heads;  /* a ring: a request has used its head when its place is free again */
    uint32_t head_count, head_next;
    struct iwarp_mr *head_mr;
    _Atomic uint64_t posted;
};

struct compat_ah {
    struct ibv_ah ibv;
    struct num_path path;
    uint8_t traffic_class, hop_limit;
};

/* --- layouts (ud_wire.c); pure --------------------------------------------------------------- */

void ud_wire_put(const struct ud_wire *wire, uint8_t octets[UD_HEAD]);
bool ud_wire_get(const uint8_t octets[UD_HEAD], struct ud_wire *wire);

/*
 * As an adapter of RoCE v2 leaves it in front of a datagram of len octets: 20 octets of zeros and a
 * header of IPv4, or one of IPv6. Returns which: adapters put it into the service level of the
 * completion, and UCX looks there.
 */
enum { UD_OF_IPV6 = 0x9, UD_OF_IPV4 = 0xa }; /* 8: over UDP */
uint8_t ud_grh_put(const struct sockaddr_storage *from, const struct sockaddr_storage *to,
                   const struct ud_wire *wire, uint32_t len, uint8_t octets[UD_HEAD]);

/* --- notes (ud_note.c) ----------------------------------------------------------------------- */

void ud_notes_clear(struct ud *ud);
struct ud_note *ud_note_take(struct ud *ud, uint32_t *index); /* NULL: none is free */
void ud_note_give_back(struct ud *ud, uint32_t index);

/* --- buffers (ud_buffer.c) ------------------------------------------------------------------- */

/*
 * Have all of them wait for datagrams; or one that has done its duty; or one more, as an inward way
 * has come. A peer that sends half a datagram holds one buffer of the shared queue, so each way
 * brings one along: however many peers do that, there are as many as ever for the others.
 */
void ud_buffers_lend(struct ud *ud);
void ud_buffer_lend(struct ud *ud, struct ud_buffer *b);
void ud_buffer_bring(struct ud *ud);
struct iwarp_sge ud_buffer_piece(const struct ud *ud, struct ud_buffer *b, uint32_t len);

/* --- ways (ud_way.c) ------------------------------------------------------------------------- */

/* The way to the queue pair that `to` names, which may be connecting; NULL: drop the datagram. */
struct ud_way *ud_way_to(struct ud *ud, const struct ud_to *to);

/* A Request of the peer. */
void ud_way_accept(struct ud *ud, struct iwarp_conn *conn, const struct num_hello *hello);

/* The one with this connection; NULL: it has gone. Its connection is over: an inward way goes. */
struct ud_way *ud_way_of(const struct ud *ud, const struct iwarp_conn *conn);
void ud_way_over(struct ud_way *w);

/* End those that are stuck. When to look again; 0: not by time. */
int64_t ud_ways_check(struct ud *ud, int64_t now);
void ud_ways_end(struct ud *ud);

/* --- moving datagrams (ud_move.c) ------------------------------------------------------------ */

/* All that have come, and arm the queue. True: there may be more. */
bool ud_move(struct ud *ud);

/* An event of a connection. */
void ud_event(struct ud *ud, const struct iwarp_event *e);

/* Try again to deliver what is kept. When to do so next; 0: not by time. */
int64_t ud_kept_check(struct ud *ud);

/* --- all of a process (ud_all.c) ------------------------------------------------------------- */

void ud_all_add(struct ud *ud);
void ud_all_remove(struct ud *ud);

/* Something has come. For notifiers. */
void ud_all_ready(void);

/* Move what has come, for all. When to look again; 0: when something comes. */
int64_t ud_all_work(int64_t now);
void ud_all_forget(void);

#endif
