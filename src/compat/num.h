/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs that are connected by number, without rdma_cm: docs/by-number.md has the design, the
 * table of states and the layout of the private data.
 *
 * One lock, num_lock, guards all that is declared here. It comes before all native locks: its
 * holder may make native calls, and no notifier of the native library takes it. The program's
 * thread and the engine's thread (num_engine.c) take it, nobody sleeps with it.
 *
 * Life: a struct num lives as long as the number of its queue pair. Native events name it by its
 * number and the attempt, never by a pointer, so one that comes late finds nothing.
 */
#ifndef IWARP_COMPAT_NUM_H
#define IWARP_COMPAT_NUM_H

#include "compat/compat.h"

#include <netinet/in.h>
#include <stdbool.h>

enum num_state {
    NUM_UNNAMED,  /* RESET, INIT: it knows no peer; Requests for it are held */
    NUM_SEEKING,  /* it knows its peer, and has no connection */
    NUM_DIALING,  /* it has begun to connect */
    NUM_ANSWERED, /* it has accepted the peer's Request */
    NUM_UP,       /* connected */
    NUM_GONE,     /* the peer has gone after messages had passed */
    NUM_OVER      /* ERR: by the program, by a fault, or because the peer was not reached */
};

/* Where the peer is, by what RTR said. */
struct num_path {
    struct sockaddr_storage peer, source; /* source: the end that RTR named as its own */
    bool here;                            /* the peer's host is this one */
};

/* What the private data of a Request or a Reply says. Numbers of 24 bits. */
struct num_hello {
    uint32_t from, to;
    uint32_t sq_psn, rq_psn;
    bool sq_known;    /* sq_psn is set: not before RTS */
    bool retry_known; /* rnr_retry is set: not before RTS */
    uint8_t rnr_retry;
    uint64_t nonce;
    bool datagrams; /* between queue pairs of type UD (ud.h); only the numbers count */
};

/* Why a Request is refused; its text goes to both logs. */
enum num_refusal {
    NUM_WELCOME,
    NUM_NOBODY,     /* no queue pair has that number */
    NUM_OTHER_PEER, /* it names another queue pair as its peer */
    NUM_OTHER_HOST, /* the Request comes from another address than RTR named */
    NUM_OTHER_PSN,  /* the packet sequence numbers do not fit */
    NUM_BUSY,       /* too many Requests are held, or it has a connection */
    NUM_OTHER_TYPE, /* one is RC, the other UD */
    NUM_REFUSALS
};

enum {
    /* A connection that begins at RTR cannot say, or compare, what RTS sets; and RTS most often
     * follows at once. So for so long neither end begins. */
    NUM_RTS_SOON_MS = 50,
    NUM_PER_PORT = 255, /* indices 0 to 254, so that no number is 0xffffff, which is multicast */
    NUM_WIRE_OCTETS = 32
};

struct num_port {
    int fd; /* bound and not listening; -1: the listener has it */
    uint16_t port;
    unsigned used, latest; /* numbers in use; the index given last */
    struct iwarp_listener *listener;
    struct num *num[NUM_PER_PORT];
    struct num_port *next;
};

struct num {
    struct compat_qp *qp;
    struct num_port *port;
    uint32_t number;
    enum num_state state;
    struct ibv_qp_attr set; /* what the program has set since RESET, and which members: */
    int mask;
    struct num_path path;
    uint32_t attempt; /* which connection, for events */
    uint64_t nonce;
    struct iwarp_conn *conn;
    struct iwarp_conn *loop[2]; /* connected to itself (num_self.c) */

    /* SEEKING and DIALING, until_ms GONE too. Times are of compat_now_ms, 0: none. */
    int64_t due_ms;   /* connect */
    int64_t until_ms; /* give up: work is posted */
    int64_t since_ms; /* of RTR */
    unsigned pause_ms, tries;
    char why[300];          /* the last try ended */
    bool not_reached;       /* the first send of those that are flushed says RETRY_EXC_ERR */
    bool blamed;            /* it has */
    struct num *next, **at; /* in the engine's list; at NULL: not in it */
};

extern pthread_mutex_t num_lock;

/* --- on the wire (num_wire.c); pure ---------------------------------------------------------- */

void num_wire_put(const struct num_hello *hello, uint8_t octets[NUM_WIRE_OCTETS]);
bool num_wire_get(const void *octets, size_t len, struct num_hello *hello);

/* A Reply that says no. */
void num_wire_put_refusal(enum num_refusal why, uint8_t octets[NUM_WIRE_OCTETS]);
enum num_refusal num_wire_refusal(const void *octets, size_t len);
const char *num_refusal_text(enum num_refusal why);

/* What this end says; and whether the other end's hello fits, as far as both know their PSNs. */
void num_hello_of(const struct num *n, struct num_hello *hello);
enum num_refusal num_hello_fits(const struct num *n, const struct num_hello *hello);

/* --- the way to the peer (num_path.c) -------------------------------------------------------- */

/* From an address vector. 0, or an error with a sentence that begins with the call. */
int num_path_find(const char *call, struct ibv_context *context, const struct ibv_ah_attr *ah,
                  struct num_path *path);

/* Is this address of a TCP connection the peer's? */
bool num_path_is_peer(const struct num_path *path, const struct sockaddr_storage *addr);

/* "queue pair 0x... at ADDRESS" */
void num_path_text(const struct num *n, char *text, size_t size);

/* --- numbers and ports (num_port.c); num_lock held ------------------------------------------- */

struct num *num_port_take(void); /* NULL: no port, or no memory */
void num_port_give_back(struct num *n);
struct num *num_port_find(uint32_t number);
int num_port_listen(struct num_port *p, struct iwarp_eq *eq);
void num_port_forget(void); /* in a forked child */

/* --- one queue pair connected to itself (num_self.c); num_lock held -------------------------- */

int num_self_connect(struct num *n);
void num_self_abort(struct num *n); /* to ERR */
void num_self_end(struct num *n);   /* nothing of it remains */

/* --- connections (num_conn.c); num_lock held ------------------------------------------------- */

/* Begin to connect, or to accept. False: nothing has begun, and n->why says why. */
bool num_conn_dial(struct num *n, struct iwarp_eq *eq);
bool num_conn_accept(struct num *n, struct iwarp_conn *conn, const struct num_hello *hello);

/* It is established: a Reply said how often the peer tries. */
void num_conn_heard(const struct num *n);

/* Tell the peer why not, and let go of the connection. */
void num_conn_refuse(struct iwarp_conn *conn, enum num_refusal why);

/* End the connection at once, or in order if it is up. */
void num_conn_end(struct num *n, bool in_order);

/* Are sends posted that no connection has carried out? */
bool num_conn_has_sends(const struct num *n);

/* The queue pair goes to ERR, and what is posted is flushed; or on to RESET, and it vanishes. */
void num_conn_over(struct num *n);
int num_conn_reset(struct num *n);

/* Rights of the peer, by qp_access_flags: at once, or when it is connected. */
void num_conn_allow(const struct num *n);

/* --- Requests that wait for RTR (num_held.c); num_lock held ---------------------------------- */

/* Keep it, or refuse it. */
void num_held_add(struct iwarp_conn *conn, const struct num_hello *hello);

/* The oldest for this number, which the caller owns; NULL: there is none. */
struct iwarp_conn *num_held_take(uint32_t number, struct num_hello *hello);

/* Let go of those that have ended, and of all for a number. True: some are left. */
bool num_held_sweep(void);
void num_held_drop(uint32_t number);
void num_held_forget(void);

/* --- the engine (num_engine.c); num_lock held ------------------------------------------------ */

/* Its queue of events and its thread, made by the first call. NULL: errno. */
struct iwarp_eq *num_engine_eq(void);

/* It looks around at once. For notifiers, with any locks held. */
void num_engine_wake(void *unused);

/* Work is posted: unless it is connected in time, the engine gives up. */
void num_engine_hurry(struct num *n);

/* The engine looks at n, now; and no longer. */
void num_engine_add(struct num *n);
void num_engine_remove(struct num *n);
void num_engine_forget(void);

#endif
