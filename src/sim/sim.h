/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A simulation: events in virtual time, and what a seed draws (sim.c); its nodes, one for each
 * device, with acceptors (sim_stack.c); its links, one for each connection (sim_link.c). One thread
 * has all of it, so nothing is locked.
 */
#ifndef IWARP_SIM_INTERNAL_H
#define IWARP_SIM_INTERNAL_H

#include "base/virtual.h"
#include "transport/stack.h"

#include <iwarp/sim.h>

/* The address of a node, or with a port of an acceptor or end. */
struct sim_addr {
    struct sockaddr_storage any;
    socklen_t len;
};

/* One machine of the network: what the device sees as its stack. */
struct sim_node {
    struct iwarp_stack base;
    struct iwarp_sim *sim;
    struct sim_node *next;
    struct sim_addr addr;
    struct iwarp_device *device; /* NULL: it was closed; the node stays until the simulation ends */
    const void *loop;            /* of the device */
    uint16_t last_port;
    void (*watch)(void *arg); /* the application's */
    void *watch_arg;
    bool told; /* it is to be called */
};

struct sim_acceptor {
    struct iwarp_acceptor base;
    struct sim_node *node;
    struct sim_acceptor *next;
    struct sim_addr addr;
    struct sim_end *first; /* arrived, and not accepted yet */
    unsigned queued, backlog;
    bool open, paused;
};

enum sim_mode { SIM_OCTETS, SIM_CROWDED, SIM_ENDING }; /* watch, watch_end, await_end */

struct sim_end {
    struct iwarp_endpoint ep;
    struct iwarp_endpoint *inner; /* of the pair in memory (transport/mem.c) that has the octets */
    struct sim_link *link;
    struct sim_node *node;
    struct sim_addr addr;
    struct sim_end *next; /* in an acceptor */
    enum sim_mode mode;
    bool want_read, want_write;
    bool open;         /* connected, or failed: then `lost` */
    bool closed;       /* by its owner, or it never had one */
    bool shut;         /* it has sent its FIN */
    bool fin;          /* the peer's has arrived */
    bool lost;         /* it knows that the connection is lost, by `error` */
    bool polls, comes; /* an event is due: to poll it; for octets on their way to it */
    int error;
};

struct sim_link {
    struct iwarp_sim *sim;
    struct sim_link *next;
    struct sim_end end[2]; /* the one that connects, and the other */
    unsigned number;
    uint32_t emss;
    bool lost;     /* nothing arrives any more */
    bool swallows; /* what an end sends that does not know it yet is taken all the same */
};

struct sim_event {
    int64_t due;
    uint64_t order; /* of those that are due at once */
    const void *key;
    struct sim_node *node; /* whose application may have something to do then; may be NULL */
    void (*fn)(void *arg);
    void *arg;
};

struct sim_memory;

struct iwarp_sim {
    struct iwarp_virtual v;
    struct iwarp_sim_options options;
    uv_loop_t uv; /* nothing runs in it: it closes libuv's handles */
    uint64_t chance, order;
    struct sim_event *heap;
    size_t events, room;
    struct sim_node *nodes;
    struct sim_link *links;
    struct sim_acceptor *acceptors;
    unsigned link_count;
    struct sim_memory *memory;
    uintptr_t next_memory;
};

/* --- events and chance (sim.c) --- */

/* fn(arg) in ns from now. If there is no memory for it the process ends: nothing could be repeated
 * without it. */
void iwarp_sim_at(struct iwarp_sim *sim, int64_t ns, const void *key, struct sim_node *node,
                  void (*fn)(void *arg), void *arg);
void iwarp_sim_cancel(struct iwarp_sim *sim, const void *key);

uint64_t iwarp_sim_draw(struct iwarp_sim *sim, uint64_t n); /* below n, which is not 0 */
bool iwarp_sim_one_in(struct iwarp_sim *sim, uint32_t n);
uint64_t iwarp_sim_between(struct iwarp_sim *sim, uint64_t least, uint64_t most); /* by magnitude */
int64_t iwarp_sim_delay(struct iwarp_sim *sim);
int64_t iwarp_sim_reaction(struct iwarp_sim *sim);

/* For the trace, if there is one. */
void iwarp_sim_say(struct iwarp_sim *sim, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* --- nodes (sim_stack.c) --- */

extern const struct iwarp_stack_ops iwarp_sim_stack_ops;

/* The application of this node has something to do. */
void iwarp_sim_tell(struct sim_node *node);

/* An acceptor that gets a connection to this address; NULL: nobody listens there, or it is full. */
struct sim_acceptor *iwarp_sim_acceptor_at(struct iwarp_sim *sim, const struct sim_addr *addr);
void iwarp_sim_acceptor_add(struct sim_acceptor *a, struct sim_end *end);

/* --- links (sim_link.c) --- */

int iwarp_sim_connect(struct iwarp_seat *seat, const struct iwarp_way *way,
                      struct iwarp_endpoint **ep);
void iwarp_sim_link_lose(struct sim_link *link);
void iwarp_sim_end_poll_soon(struct sim_end *end);

/* Has the connection ended, for what this end knows? And the octets that it may read. */
bool iwarp_sim_end_is_over(struct sim_end *end, size_t *unread);

static inline struct sim_end *sim_end_of(const struct iwarp_endpoint *ep)
{
    return (struct sim_end *)(uintptr_t)ep;
}

#endif
