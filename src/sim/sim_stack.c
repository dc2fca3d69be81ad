/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A node of a simulation as the stack of its device (transport/stack.h): listening and accepting,
 * and what the library asks about ends (sim_link.c).
 */
#include "sim/sim.h"
#include "verbs/device.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static struct sim_node *node_of(struct iwarp_stack *stack)
{
    return (struct sim_node *)(void *)stack;
}

static struct sim_acceptor *acceptor_of(struct iwarp_acceptor *a)
{
    return (struct sim_acceptor *)(void *)a;
}

/* --- the application ------------------------------------------------------------------------- */

/* A device that is being closed has no queues any more. */
static bool is_watched(const struct sim_node *node)
{
    return node->watch && node->device && !node->device->closing;
}

static void run_watch(void *arg)
{
    struct sim_node *node = arg;

    node->told = false;
    if (is_watched(node)) {
        node->watch(node->watch_arg);
    }
}

void iwarp_sim_tell(struct sim_node *node)
{
    if (!node->told && is_watched(node)) {
        node->told = true;
        iwarp_sim_at(node->sim, iwarp_sim_reaction(node->sim), node, NULL, run_watch, node);
    }
}

/* --- seats ----------------------------------------------------------------------------------- */

/* The device is gone; the memory stays until the simulation ends. */
static void close_stack(struct iwarp_stack *stack)
{
    struct sim_node *node = node_of(stack);

    node->device = NULL;
    node->loop = NULL;
    node->watch = NULL;
    iwarp_sim_cancel(node->sim, node);
}

static int join(struct iwarp_stack *stack, struct iwarp_seat **seat)
{
    *seat = calloc(1, sizeof **seat);
    if (!*seat) {
        return -ENOMEM;
    }
    (*seat)->stack = stack;
    return 0;
}

static void sit(struct iwarp_seat *seat, uv_loop_t *loop)
{
    seat->loop = loop;
}

static void leave(struct iwarp_seat *seat, void (*left)(void *arg), void *arg)
{
    free(seat);
    left(arg);
}

static void copy_addr(const struct sim_addr *from, struct sockaddr_storage *addr, socklen_t *len)
{
    memcpy(addr, &from->any, from->len);
    *len = from->len;
}

static int source(struct iwarp_stack *stack, const struct sockaddr *addr, socklen_t addr_len,
                  struct sockaddr_storage *from, socklen_t *from_len)
{
    const struct sim_addr *own = &node_of(stack)->addr;

    (void)addr_len;
    if (addr->sa_family != own->any.ss_family) {
        return -ENETUNREACH;
    }
    copy_addr(own, from, from_len);
    return 0;
}

/* --- listening ------------------------------------------------------------------------------- */

static in_port_t *port_of(struct sim_addr *a)
{
    return a->any.ss_family == AF_INET ? &((struct sockaddr_in *)&a->any)->sin_port
                                       : &((struct sockaddr_in6 *)&a->any)->sin6_port;
}

static bool is_same(const struct sim_addr *a, const struct sim_addr *b)
{
    return a->len == b->len && memcmp(&a->any, &b->any, a->len) == 0;
}

static struct sim_acceptor *find(struct iwarp_sim *sim, const struct sim_addr *addr)
{
    struct sim_acceptor *a = sim->acceptors;

    while (a && !is_same(&a->addr, addr)) {
        a = a->next;
    }
    return a;
}

struct sim_acceptor *iwarp_sim_acceptor_at(struct iwarp_sim *sim, const struct sim_addr *addr)
{
    struct sim_acceptor *a = find(sim, addr);

    return a && a->queued < a->backlog ? a : NULL;
}

/* A listener at any address has that of its node. */
static int take_address(struct sim_node *node, const struct sockaddr *addr, struct sim_addr *own)
{
    struct sim_addr asked = {.len = node->addr.len};

    *own = node->addr;
    if (addr->sa_family != own->any.ss_family) {
        return -EADDRNOTAVAIL;
    }
    memcpy(&asked.any, addr, own->len);
    in_port_t port = *port_of(&asked);
    *port_of(&asked) = 0;
    struct sim_addr any = {.any.ss_family = own->any.ss_family, .len = own->len};
    if (!is_same(&asked, own) && !is_same(&asked, &any)) {
        return -EADDRNOTAVAIL;
    }
    *port_of(own) = port;
    for (unsigned next = 1024; port == 0 && next < UINT16_MAX; next++) {
        *port_of(own) = htons((uint16_t)next);
        port = find(node->sim, own) ? 0 : *port_of(own);
    }
    return find(node->sim, own) ? -EADDRINUSE : 0;
}

static int listen_at(struct iwarp_stack *stack, const struct sockaddr *addr, socklen_t addr_len,
                     int backlog, struct iwarp_acceptor **acceptor)
{
    struct sim_node *node = node_of(stack);
    struct sim_addr own;

    if (addr_len < node->addr.len) {
        return -EADDRNOTAVAIL;
    }
    int rc = take_address(node, addr, &own);
    struct sim_acceptor *a = rc == 0 ? calloc(1, sizeof *a) : NULL;
    if (!a) {
        return rc == 0 ? -ENOMEM : rc;
    }
    a->base.stack = stack;
    a->node = node;
    a->addr = own;
    a->backlog = (unsigned)backlog;
    a->next = node->sim->acceptors;
    node->sim->acceptors = a;
    *acceptor = &a->base;
    return 0;
}

static void locate(struct iwarp_acceptor *a, struct sockaddr_storage *addr, socklen_t *len)
{
    copy_addr(&acceptor_of(a)->addr, addr, len);
}

static void ready(void *acceptor);

static void look_soon(struct sim_acceptor *a)
{
    if (a->first && a->open && !a->paused) {
        iwarp_sim_cancel(a->node->sim, a);
        iwarp_sim_at(a->node->sim, iwarp_sim_reaction(a->node->sim), a, a->node, ready, a);
    }
}

/* Level-triggered. */
static void ready(void *acceptor)
{
    struct sim_acceptor *a = acceptor;

    if (a->first && !a->paused) {
        look_soon(a);
        a->base.ready(a->base.user);
    }
}

static int open_acceptor(struct iwarp_acceptor *acceptor, struct iwarp_seat *seat)
{
    (void)seat;
    acceptor_of(acceptor)->open = true;
    look_soon(acceptor_of(acceptor));
    return 0;
}

static void pause_acceptor(struct iwarp_acceptor *acceptor, bool paused)
{
    acceptor_of(acceptor)->paused = paused;
    look_soon(acceptor_of(acceptor));
}

void iwarp_sim_acceptor_add(struct sim_acceptor *a, struct sim_end *end)
{
    struct sim_end **last = &a->first;

    while (*last) {
        last = &(*last)->next;
    }
    *last = end;
    a->queued++;
    look_soon(a);
}

static int accept_one(struct iwarp_acceptor *acceptor, union iwarp_arrival *arrival,
                      struct sockaddr_storage *peer, socklen_t *peer_len)
{
    struct sim_acceptor *a = acceptor_of(acceptor);
    struct sim_end *end = a->first;

    if (!end) {
        return -EAGAIN;
    }
    a->first = end->next;
    a->queued--;
    arrival->ep = &end->ep;
    copy_addr(&end->link->end[0].addr, peer, peer_len);
    return 0;
}

static void forget(void *user)
{
    (void)user;
}

static void refuse(struct iwarp_stack *stack, union iwarp_arrival arrival, bool reset)
{
    (void)stack;
    arrival.ep->closed = forget;
    arrival.ep->ops->close(arrival.ep, reset);
}

static int attach(struct iwarp_seat *seat, union iwarp_arrival arrival, struct iwarp_endpoint **ep)
{
    (void)seat;
    *ep = arrival.ep;
    return 0;
}

static void unlisten(struct iwarp_acceptor *acceptor)
{
    struct sim_acceptor *a = acceptor_of(acceptor), **at = &a->node->sim->acceptors;
    void (*closed)(void *user) = a->open ? a->base.closed : forget;
    void *user = a->base.user;

    while (a->first) {
        struct sim_end *end = a->first;
        a->first = end->next;
        refuse(a->base.stack, (union iwarp_arrival){.ep = &end->ep}, true);
    }
    while (*at != a) {
        at = &(*at)->next;
    }
    *at = a->next;
    iwarp_sim_cancel(a->node->sim, a);
    free(a);
    closed(user);
}

/* --- about ends ------------------------------------------------------------------------------ */

static int error_of(struct iwarp_endpoint *ep)
{
    return sim_end_of(ep)->error;
}

static void local_addr(struct iwarp_endpoint *ep, struct sockaddr_storage *addr, socklen_t *len)
{
    copy_addr(&sim_end_of(ep)->addr, addr, len);
}

static void peer_addr(struct iwarp_endpoint *ep, struct sockaddr_storage *addr, socklen_t *len)
{
    const struct sim_end *e = sim_end_of(ep);

    copy_addr(&e->link->end[e == &e->link->end[0]].addr, addr, len);
}

/* A loss is noticed when the simulation says so. */
static void patience(struct iwarp_endpoint *ep, unsigned user_timeout_ms, unsigned keepalive_s)
{
    (void)ep;
    (void)user_timeout_ms;
    (void)keepalive_s;
}

/* Nor has a peer in a simulation a pace. */
static bool taken(struct iwarp_endpoint *ep, uint64_t *octets)
{
    (void)ep;
    (void)octets;
    return false;
}

static void watch_end(struct iwarp_endpoint *ep)
{
    ep->ops->watch(ep, false, false);
    sim_end_of(ep)->mode = SIM_CROWDED;
    ep->ops->poll(ep);
}

static bool unread(struct iwarp_endpoint *ep, int *octets)
{
    size_t n;
    bool over = iwarp_sim_end_is_over(sim_end_of(ep), &n);

    *octets = (int)n;
    return !over && n > IWARP_UNREAD_MAX;
}

static void await_end(struct iwarp_endpoint *ep, bool write)
{
    ep->ops->watch(ep, false, write);
    sim_end_of(ep)->mode = SIM_ENDING;
    ep->ops->poll(ep);
}

static bool ending(struct iwarp_endpoint *ep, int *error)
{
    size_t n;

    *error = sim_end_of(ep)->error;
    return iwarp_sim_end_is_over(sim_end_of(ep), &n);
}

/* There is nothing to be gained by reading past the loop. */
static void stay(struct iwarp_endpoint *ep)
{
    (void)ep;
}

static bool is_away(const struct iwarp_endpoint *ep)
{
    (void)ep;
    return false;
}

const struct iwarp_stack_ops iwarp_sim_stack_ops = {
    .name = "sim",
    .close = close_stack,
    .join = join,
    .sit = sit,
    .leave = leave,
    .source = source,
    .connect = iwarp_sim_connect,
    .listen = listen_at,
    .locate = locate,
    .open = open_acceptor,
    .pause = pause_acceptor,
    .accept = accept_one,
    .refuse = refuse,
    .attach = attach,
    .unlisten = unlisten,
    .error = error_of,
    .local_addr = local_addr,
    .peer_addr = peer_addr,
    .patience = patience,
    .taken = taken,
    .watch_end = watch_end,
    .unread = unread,
    .await_end = await_end,
    .ending = ending,
    .go_away = stay,
    .come_back = stay,
    .is_away = is_away,
};
