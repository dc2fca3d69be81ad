/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a connection needs for its start-up only: some 800 octets, which a connection in Full
 * Operation does not pay for.
 *
 * Life: created with the connection, and freed when the connection is established.  A connection
 * that is never established keeps it until it is freed itself, as the application may still ask for
 * its private data, and take back its socket.  So conn->startup == NULL says that the connection
 * was in Full Operation (iwarp_conn_was_established).
 *
 * Lock: conn.lock, but for `member`, most of which belongs to its crowd (crowd.h).
 */
#ifndef IWARP_VERBS_STARTUP_H
#define IWARP_VERBS_STARTUP_H

#include "mpa/mpa_setup.h"
#include "transport/stack.h"
#include "verbs/addr.h"
#include "verbs/crowd.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct iwarp_tls_context;

/* How the connection began. */
enum iwarp_startup_origin {
    STARTUP_OVER,     /* initiator, over an endpoint or socket that was connected already */
    STARTUP_CONNECTS, /* initiator, over TCP of its own: it may connect a second time */
    STARTUP_ARRIVED,  /* responder of a listener: nobody knows it before its REQUEST event */
    STARTUP_GIVEN,    /* responder, over an endpoint or socket: the application has its handle */
    STARTUP_PAIRED    /* responder in memory: it accepts whatever the Request asks for */
};

struct iwarp_startup {
    enum iwarp_startup_origin origin;
    bool retried;  /* the initiator has connected again, with revision 1 */
    bool qp_gone;  /* the connection had a queue pair, and it was destroyed */
    bool reported; /* an event has told the application of the connection */
    bool marked;   /* the peer's private data had the mark: see send_imm.h */
    bool lingers;  /* its last words are sent; it waits for the peer's FIN */
    bool arrived;  /* `arrival` waits for the worker to take it over */
    union iwarp_arrival arrival;
    unsigned connecting_ms;          /* how much of connect_timeout_ms both tries have used up */
    unsigned startup_ms;             /* the same of startup_timeout_ms */
    int64_t phase_began;             /* when the part of the start-up began that has a limit */
    uint32_t flow_number;            /* for made-up addresses in the capture; 0: none yet */
    struct iwarp_addr source;        /* to connect from */
    struct iwarp_tls_context *tls;   /* of the device; NULL: a plain connection */
    struct iwarp_listener *listener; /* until the Request is answered; NULL: of no listener */
    struct iwarp_member member;      /* of a crowd; without `conn` if it is of no listener */
    int spare_fd;                    /* the application's socket, for it to take back; -1: none */
    uint8_t *spare;                  /* octets that were read from that socket */
    size_t spare_len;
    struct iwarp_mpa_setup setup;
    size_t request_len;
    uint8_t request[]; /* initiator: the frame to send, in IWARP_MPA_FRAME_MAX octets */
};

/* NULL: no memory. */
struct iwarp_startup *iwarp_startup_new(enum iwarp_startup_origin origin);

/* Close and free what it still has.  NULL does nothing. */
void iwarp_startup_free(struct iwarp_startup *s);

#endif
