/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two stacks that reach each other, of every kind that this build has, with connections between
 * them.  For tests of what a transport must do (docs/transport.md); memory, which has no stack, has
 * connections alone.  One thread, one loop for both sides.
 */
#ifndef TESTS_WIRES_H
#define TESTS_WIRES_H

#include "transport/stack.h"
#include "transport/transport.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

enum wire_kind {
    WIRE_MEMORY,
    WIRE_TCP4,
    WIRE_TCP6,
#ifdef IWARP_HAVE_LWIP
    WIRE_LWIP_FD,  /* a socketpair */
    WIRE_LWIP_SHM, /* rings */
    WIRE_LWIP_SHM6,
    WIRE_LWIP_UNIX,  /* a switch */
    WIRE_LWIP_LARGE, /* rings, with packets as large as they may be */
#endif
    WIRE_KINDS
};
extern const char *const wire_names[WIRE_KINDS];

/* One end of a connection. */
struct wire_end {
    struct iwarp_endpoint *ep;
    unsigned ready, closed; /* upcalls */
    bool readable, writable;
    bool woken; /* memory: somebody asked for `poll` */
};

struct wire {
    enum wire_kind kind;
    uv_loop_t loop;
    struct iwarp_stack *stack[2]; /* NULL: memory */
    struct iwarp_seat *seat[2];
    unsigned left; /* seats that have left */
    struct iwarp_acceptor *acceptor;
    unsigned arrivals, unlistened; /* upcalls of the acceptor */
    int switch_pid;
    struct wire_end *end[2]; /* memory: of the connection; and what it lends, or NULL */
    const struct iwarp_mem_loans *loans;
    int pair[2]; /* descriptors handed in; -1: none */
    char place[64];
};

#define WIRE_WAIT_MS 60000

void wire_open(struct wire *w, enum wire_kind kind);
void wire_close(struct wire *w); /* all ends are closed */

/* Run the loop until *flag, or done(arg); a failed test after WIRE_WAIT_MS. */
void wire_until(struct wire *w, bool (*done)(void *arg), void *arg);

/* Run the loop for a while: nothing else may come of it. */
void wire_settle(struct wire *w, unsigned ms);

/* Side 1 listens (port 0), and stops; its address. */
void wire_listen(struct wire *w, int backlog);
void wire_unlisten(struct wire *w);
struct sockaddr_storage wire_addr(struct wire *w, socklen_t *len);

/* Address of a side, without a port. */
socklen_t wire_host(const struct wire *w, int side, struct sockaddr_storage *addr);

/* Begin to connect from side 0; 0 or -errno. */
int wire_dial(struct wire *w, const struct sockaddr_storage *to, socklen_t len,
              struct wire_end *end);

/* A connection: a is side 0, which has connected. */
void wire_connect(struct wire *w, struct wire_end *a, struct wire_end *b);

void wire_end_close(struct wire *w, struct wire_end *end, bool reset);

/* The operations of a stack with this end, NULL for memory. */
const struct iwarp_stack_ops *wire_ops(const struct wire *w);

ssize_t wire_put(struct wire_end *end, const void *p, size_t n);
ssize_t wire_get(struct wire_end *end, void *p, size_t n);

#endif
