/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP in this process by lwIP, the one of the distribution: its raw interface under its core lock.
 * docs/transport.md says what that build of it can and cannot do.
 *
 *   options.c    what a text says: which link, which addresses
 *   link.h       a way for Ethernet frames: a socket or tap (link_packet.c), rings (link_ring.c)
 *   netif.c      an interface of lwIP on a link; several devices of the process may share one
 *   conflict.c   another station with the same address
 *   syn.c        segments that lwIP would not treat as they should be
 *   bounds.c     how much it keeps for peers
 *   seat.c       a worker's place at it: reads the link, tells endpoints what has come
 *   endpoint.c   one connection; address.c its addresses; loans.c octets without copies;
 *                ready.c what is told of them; recover.c what was lost
 *   acceptor.c   one listener
 *   stack.c      the table of operations (transport/stack.h)
 *
 * Lock: lwIP's core lock guards all of lwIP and all that is declared here, but for what a comment
 * says.  Timers of lwIP run on a thread of its own, and call back under that lock; so do frames
 * that a worker hands in.  A callback only notes what has happened (iwarp_lw_note): the worker of
 * the endpoint tells the endpoint's owner later, without the lock.
 */
#ifndef IWARP_LWIP_CORE_H
#define IWARP_LWIP_CORE_H

#include "transport/lwip/link.h"
#include "transport/lwip/options.h"
#include "transport/stack.h"

#include <lwip/netif.h>
#include <lwip/tcp.h>
#include <lwip/tcpip.h>
#include <stdbool.h>

#define IWARP_LW_UNSENT (256u * 1024)

/* Some end of a connection or a listener that its worker is to look at. */
struct iwarp_lw_note {
    void (*run)(struct iwarp_lw_note *note); /* on the seat's worker, without the core lock */
    struct iwarp_lw_seat *seat;              /* NULL: no worker has it yet */
    struct iwarp_lw_note *next, **at;        /* at NULL: it is not in the seat's list */
};

/*
 * Called with the first octet of a packet, or of a part of one, that could not be read: memory of
 * the application that a connection refers to is gone.  NULL: there was no connection yet.
 */
extern void (*iwarp_lw_on_missing)(const void *octet);

/* Called when lwIP has had a frame.  NULL: as above. */
extern void (*iwarp_lw_on_frame)(void);

/* --- interfaces (netif.c) -------------------------------------------------------------------- */

struct iwarp_lw_netif {
    struct netif netif;
    struct iwarp_lw_options options;
    struct iwarp_link *link;
    struct iwarp_lw_seat *seats;
    struct iwarp_lw_netif *next; /* as `users`, under the lock of the table */
    unsigned users;              /* devices */
    bool down;                   /* the link has ended: whatever uses it gets ENETDOWN */
    bool full;                   /* the link took a frame less than was offered */
    bool conflict;               /* another station has its address, and that was said */
    unsigned batches;            /* somebody will flush the link at the end */
    uint8_t frame[];             /* IWARP_LW_FRAME(mtu) octets */
};

/* The core lock is not held. */
enum iwarp_status iwarp_lw_netif_get(const char *text, struct iwarp_lw_netif **n);
void iwarp_lw_netif_put(struct iwarp_lw_netif *n);

/* Take frames from the link, so many at most.  Core lock held.  False: there may be more. */
bool iwarp_lw_netif_input(struct iwarp_lw_netif *n);

/* Between the two, frames may wait: they go with one doorbell.  Core lock held. */
static inline void iwarp_lw_batch_begin(struct iwarp_lw_netif *n)
{
    n->batches++;
}

static inline void iwarp_lw_batch_end(struct iwarp_lw_netif *n)
{
    if (--n->batches == 0 && n->link->ops->flush) {
        n->link->ops->flush(n->link);
    }
}

/* The link has room again: send what waits for it.  Core lock held. */
void iwarp_lw_netif_resume(struct iwarp_lw_netif *n);

/* An ARP packet of its whole length: does it come from a station with this one's address? */
void iwarp_lw_see_arp(struct iwarp_lw_netif *n, const uint8_t *arp);

/* The frame that has just come: false, if lwIP is not to have it. syn.c */
bool iwarp_lw_admit(const struct iwarp_lw_netif *n, size_t octets);

/* --- bounds (bounds.c); core lock held ------------------------------------------------------- */

/* Segments of a connection that wait for octets before them. */
#if TCP_OOSEQ_MAX_PBUFS
#define IWARP_LW_OUT_OF_ORDER TCP_OOSEQ_MAX_PBUFS
#else
#define IWARP_LW_OUT_OF_ORDER 512
#endif

/* Connections of the process in TIME_WAIT, and as many orphans. Each SYN walks them all. */
#define IWARP_LW_LEFT_OVER 1024

/* A segment has come. */
void iwarp_lw_trim(struct tcp_pcb *pcb);

/* One more connection begins. */
void iwarp_lw_forget_oldest(void);

/* --- seats (seat.c) -------------------------------------------------------------------------- */

struct iwarp_lw_seat {
    struct iwarp_seat base;
    struct iwarp_lw_netif *netif;
    struct iwarp_lw_seat *next; /* of the interface */
    uv_poll_t poll;             /* the link's descriptor */
    uv_prepare_t prepare;       /* before the loop sleeps */
    uv_async_t wake;
    struct iwarp_lw_note *notes, **last;
    bool first;     /* of its device: it reads even if it has no endpoint */
    bool reading;   /* its worker looks at the notes before anything else */
    bool reads;     /* the link, whenever it is readable */
    bool signalled; /* `wake` is on its way */
    bool polled;    /* `poll` exists */
    bool sleepless; /* `prepare` runs; as `events`, the worker's alone */
    int events;
    unsigned users;   /* endpoints and acceptors; the worker's alone */
    unsigned handles; /* that are open */
    void (*left)(void *arg);
    void *left_arg;
};

int iwarp_lw_seat_join(struct iwarp_stack *stack, struct iwarp_seat **seat);
void iwarp_lw_seat_sit(struct iwarp_seat *seat, uv_loop_t *loop);
void iwarp_lw_seat_leave(struct iwarp_seat *seat, void (*left)(void *arg), void *arg);

/* One more or less that reads; on the worker, without the core lock. */
void iwarp_lw_seat_use(struct iwarp_lw_seat *seat, int change);

/* Core lock held: have the note run; or not any more. */
void iwarp_lw_note(struct iwarp_lw_note *note);
void iwarp_lw_unnote(struct iwarp_lw_note *note);

/* Core lock held, on the worker: read the link for somebody who finds nothing to read. */
void iwarp_lw_seat_look(struct iwarp_lw_seat *seat, struct iwarp_lw_note *who);

/* --- connections (endpoint.c) ---------------------------------------------------------------- */

struct iwarp_lw_endpoint {
    struct iwarp_endpoint ep;
    struct iwarp_lw_note note;
    struct iwarp_lw_netif *netif;
    struct tcp_pcb *pcb; /* NULL: lwIP has none any more */
    int error;           /* errno value with which it was lost */
    bool connected, fin; /* fin: the peer's, behind what is queued */
    bool want_read, want_write;
    bool away;         /* reads are wanted, and its owner comes for them without being told */
    size_t end_octets; /* the end is wanted, or so many octets; 0: it is not */
    struct pbuf *first, *last; /* received; each of them stands alone */
    size_t spare;              /* octets that the last has room for */
    size_t taken;              /* octets of the first that were read */
    size_t octets;             /* that can be read */
    size_t held;               /* of these, what waits for more: no news */
    uint64_t written;          /* octets that lwIP has taken, since it is connected; */
    uint64_t sent_acked;       /* that the peer has acknowledged; */
    uint64_t reported;         /* that the owner knows to be released */
    uint64_t ref_from, ref_to; /* some of these are referred to, until all are acknowledged */
    bool gone;                 /* memory that it refers to is not there */
    uint32_t acked;            /* what the peer had acknowledged when its silence began */
    unsigned silent_ms, user_timeout_ms;
    struct {
        bool recovering;    /* from a loss: what was in flight then ends at `end` */
        bool asked;         /* in the silence after the acknowledgement asked_at */
        uint8_t duplicates; /* as of the last frame, as `acked` */
        uint32_t end, acked, asked_at;
    } loss;
};

struct iwarp_lw_stack {
    struct iwarp_stack base;
    struct iwarp_lw_netif *netif;
    bool seated; /* some worker has joined */
};

/* From a connection that lwIP has accepted or is to connect.  Core lock held.  NULL: no memory. */
struct iwarp_lw_endpoint *iwarp_lw_endpoint_new(struct iwarp_lw_netif *n, struct tcp_pcb *pcb);

/* The worker of the seat has it from now on. */
void iwarp_lw_endpoint_seat(struct iwarp_lw_endpoint *e, struct iwarp_lw_seat *seat);

/* It is nobody's: close it.  Core lock held. */
void iwarp_lw_endpoint_drop(struct iwarp_lw_endpoint *e, bool reset);

int iwarp_lw_error(struct iwarp_endpoint *ep);
void iwarp_lw_patience(struct iwarp_endpoint *ep, unsigned user_timeout_ms, unsigned keepalive_s);
bool iwarp_lw_taken(struct iwarp_endpoint *ep, uint64_t *octets);
void iwarp_lw_watch_end(struct iwarp_endpoint *ep);
bool iwarp_lw_unread(struct iwarp_endpoint *ep, int *octets);
void iwarp_lw_await_end(struct iwarp_endpoint *ep, bool write);
bool iwarp_lw_ending(struct iwarp_endpoint *ep, int *error);
void iwarp_lw_go_away(struct iwarp_endpoint *ep);
void iwarp_lw_come_back(struct iwarp_endpoint *ep);
bool iwarp_lw_is_away(const struct iwarp_endpoint *ep);
void iwarp_lw_local_addr(struct iwarp_endpoint *ep, struct sockaddr_storage *addr,
                         socklen_t *addr_len);
void iwarp_lw_peer_addr(struct iwarp_endpoint *ep, struct sockaddr_storage *addr,
                        socklen_t *addr_len);

int iwarp_lw_connect(struct iwarp_seat *seat, const struct iwarp_way *way,
                     struct iwarp_endpoint **ep);

/* --- losses (recover.c); core lock held ------------------------------------------------------- */

/* lwIP has had a frame, perhaps of this connection. */
void iwarp_lw_recover(struct iwarp_lw_endpoint *e);

/* The peer has acknowledged nothing for so long, though something is in flight. */
void iwarp_lw_ask(struct iwarp_lw_endpoint *e, unsigned silent_ms);

/* --- readiness (ready.c); core lock held ------------------------------------------------------ */

static inline bool iwarp_lw_is_referring(const struct iwarp_lw_endpoint *e)
{
    return e->ref_to > e->sent_acked;
}

/* Is it worth to write?  tcp_write walks the queue of unsent segments, so that is kept short. */
static inline bool iwarp_lw_has_room(const struct tcp_pcb *pcb)
{
    return pcb->snd_lbb - pcb->snd_nxt < IWARP_LW_UNSENT && pcb->snd_buf > 0;
}

/* due: something was released, and the owner has not asked for it. */
uint64_t iwarp_lw_released_to(const struct iwarp_lw_endpoint *e);
bool iwarp_lw_release_due(const struct iwarp_lw_endpoint *e);
bool iwarp_lw_has_end(const struct iwarp_lw_endpoint *e);
bool iwarp_lw_is_readable(const struct iwarp_lw_endpoint *e);
bool iwarp_lw_is_writable(const struct iwarp_lw_endpoint *e);
void iwarp_lw_note_if_ready(struct iwarp_lw_endpoint *e);

/* consume: within the first packet buffer; recved: the window opens by as much. */
void iwarp_lw_consume(struct iwarp_lw_endpoint *e, size_t octets);
void iwarp_lw_recved(struct iwarp_lw_endpoint *e, size_t octets);

/* --- lent and referred to (loans.c) ---------------------------------------------------------- */

extern const struct iwarp_loans iwarp_lw_loans;

/* Core lock held, all that follow.  Octets that a segment may carry. */
uint32_t iwarp_lw_emss(const struct tcp_pcb *pcb);

/* For one call of tcp_write, which takes all or nothing: far less than the queue has room for. */
size_t iwarp_lw_write_most(const struct tcp_pcb *pcb);

/* Copy what is referred to: nobody waits any more.  False: it cannot be sent. */
bool iwarp_lw_own(struct iwarp_lw_endpoint *e);

/* --- listeners (acceptor.c) ------------------------------------------------------------------ */

/* The argument of a listener's callbacks. */
struct iwarp_lw_queue {
    unsigned count, most; /* connections that wait to be taken */
};

int iwarp_lw_listen(struct iwarp_stack *stack, const struct sockaddr *addr, socklen_t addr_len,
                    int backlog, struct iwarp_acceptor **acceptor);
void iwarp_lw_locate(struct iwarp_acceptor *acceptor, struct sockaddr_storage *addr,
                     socklen_t *addr_len);
int iwarp_lw_acceptor_open(struct iwarp_acceptor *acceptor, struct iwarp_seat *seat);
void iwarp_lw_pause(struct iwarp_acceptor *acceptor, bool paused);
int iwarp_lw_accept(struct iwarp_acceptor *acceptor, union iwarp_arrival *arrival,
                    struct sockaddr_storage *peer, socklen_t *peer_len);
void iwarp_lw_refuse(struct iwarp_stack *stack, union iwarp_arrival arrival, bool reset);
int iwarp_lw_attach(struct iwarp_seat *seat, union iwarp_arrival arrival,
                    struct iwarp_endpoint **ep);
void iwarp_lw_unlisten(struct iwarp_acceptor *acceptor);

/* --- addresses (address.c) ------------------------------------------------------------------- */

/* False: of no family that lwIP has. */
bool iwarp_lw_from_sockaddr(const struct iwarp_lw_netif *n, const struct sockaddr *from,
                            socklen_t len, ip_addr_t *ip, u16_t *port);
void iwarp_lw_to_sockaddr(const ip_addr_t *ip, u16_t port, struct sockaddr_storage *to,
                          socklen_t *len);

/* The interface's own address from which `to` would be reached.  False: there is none. */
bool iwarp_lw_source(const struct iwarp_lw_netif *n, const ip_addr_t *to, ip_addr_t *from);

/* lwIP's error as an errno value. */
int iwarp_lw_errno(err_t err);

#endif
