/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listeners.  What lwIP has accepted waits in a queue of `backlog` connections, and receives there;
 * lwIP's own backlog is not part of the distribution's build.  SYNs that come when the queue is
 * full are dropped (syn.c), so that the peer tries again.
 */
#include "transport/lwip/core.h"

#include <errno.h>
#include <stdlib.h>

struct waiting {
    struct iwarp_lw_endpoint *e;
    struct sockaddr_storage peer;
    socklen_t peer_len;
    struct waiting *next;
};

struct acceptor {
    struct iwarp_acceptor base;
    struct iwarp_lw_note note;
    struct iwarp_lw_netif *netif;
    struct tcp_pcb *pcb;
    struct waiting *first, **last;
    struct iwarp_lw_queue queue;
    bool paused;
};

static struct acceptor *acceptor_of(struct iwarp_acceptor *a)
{
    return (struct acceptor *)(void *)a;
}

static void run(struct iwarp_lw_note *note)
{
    struct acceptor *a =
        (struct acceptor *)(void *)((char *)note - offsetof(struct acceptor, note));

    if (!a->paused) {
        a->base.ready(a->base.user);
    }
}

static void note_if_ready(struct acceptor *a)
{
    if (a->first && !a->paused) {
        iwarp_lw_note(&a->note);
    }
}

/* ABRT tells lwIP that the connection is gone. */
static err_t on_accept(void *arg, struct tcp_pcb *pcb, err_t err)
{
    struct acceptor *a =
        (struct acceptor *)(void *)((char *)arg - offsetof(struct acceptor, queue));
    struct waiting *w = NULL;

    if (err != ERR_OK || !pcb) {
        return ERR_VAL;
    }
    if (a->queue.count < a->queue.most) {
        w = calloc(1, sizeof *w);
    }
    if (w) {
        w->e = iwarp_lw_endpoint_new(a->netif, pcb);
    }
    if (!w || !w->e) {
        free(w);
        tcp_abort(pcb);
        return ERR_ABRT;
    }
    iwarp_lw_to_sockaddr(&pcb->remote_ip, pcb->remote_port, &w->peer, &w->peer_len);
    *a->last = w;
    a->last = &w->next;
    a->queue.count++;
    note_if_ready(a);
    return ERR_OK;
}

/* --- listening ------------------------------------------------------------------------------- */

/*
 * Any address of IPv4 is the interface's, so that others may have the same port; any address of
 * IPv6 is IPv4, too, as for a socket.
 */
static int local_address(const struct iwarp_lw_netif *n, ip_addr_t *ip)
{
    if (IP_IS_V6(ip) && ip_addr_isany(ip) && n->options.has6) {
        *ip = *IP_ANY_TYPE;
        return 0;
    }
    if (ip_addr_isany(ip) && n->options.has4) {
        ip_addr_copy_from_ip4(*ip, *netif_ip4_addr(&n->netif));
        return 0;
    }
    bool own =
        IP_IS_V4(ip)
            ? n->options.has4 && ip4_addr_cmp(ip_2_ip4(ip), netif_ip4_addr(&n->netif))
            : netif_get_ip6_addr_match((struct netif *)(uintptr_t)&n->netif, ip_2_ip6(ip)) >= 0;
    return own ? 0 : -EADDRNOTAVAIL;
}

/* Core lock held.  Returns NULL, and -errno in *rc. */
static struct tcp_pcb *listen_locked(struct iwarp_lw_netif *n, const ip_addr_t *ip, u16_t port,
                                     int *rc)
{
    struct tcp_pcb *pcb = n->down ? NULL : tcp_new_ip_type(IP_GET_TYPE(ip)), *listening = NULL;
    err_t err = ERR_MEM;

    if (!pcb) {
        *rc = n->down ? -ENETDOWN : -ENOMEM;
        return NULL;
    }
    ip_set_option(pcb, SOF_REUSEADDR);
    tcp_bind_netif(pcb, &n->netif);
    err = tcp_bind(pcb, ip, port);
    if (err == ERR_OK) {
        listening = tcp_listen_with_backlog_and_err(pcb, UINT8_MAX, &err);
    }
    if (!listening) {
        tcp_abort(pcb);
        *rc = -iwarp_lw_errno(err);
        return NULL;
    }
    tcp_bind_netif(listening, &n->netif);
    return listening;
}

int iwarp_lw_listen(struct iwarp_stack *base, const struct sockaddr *addr, socklen_t addr_len,
                    int backlog, struct iwarp_acceptor **acceptor)
{
    struct iwarp_lw_netif *n = ((struct iwarp_lw_stack *)(void *)base)->netif;
    struct acceptor *a = calloc(1, sizeof *a);
    ip_addr_t ip;
    u16_t port;
    int rc = -EAFNOSUPPORT;

    if (!a) {
        return -ENOMEM;
    }
    a->base.stack = base;
    a->note.run = run;
    a->netif = n;
    a->last = &a->first;
    a->queue.most = (unsigned)backlog;
    LOCK_TCPIP_CORE();
    if (iwarp_lw_from_sockaddr(n, addr, addr_len, &ip, &port)) {
        rc = local_address(n, &ip);
    }
    if (rc == 0) {
        a->pcb = listen_locked(n, &ip, port, &rc);
    }
    if (a->pcb) {
        tcp_arg(a->pcb, &a->queue);
        tcp_accept(a->pcb, on_accept);
        *acceptor = &a->base;
    } else {
        free(a);
    }
    UNLOCK_TCPIP_CORE();
    return rc;
}

void iwarp_lw_locate(struct iwarp_acceptor *a, struct sockaddr_storage *addr, socklen_t *addr_len)
{
    const struct tcp_pcb *pcb = acceptor_of(a)->pcb;

    LOCK_TCPIP_CORE();
    iwarp_lw_to_sockaddr(&pcb->local_ip, pcb->local_port, addr, addr_len);
    UNLOCK_TCPIP_CORE();
}

int iwarp_lw_acceptor_open(struct iwarp_acceptor *base, struct iwarp_seat *seat)
{
    struct acceptor *a = acceptor_of(base);

    LOCK_TCPIP_CORE();
    a->note.seat = (struct iwarp_lw_seat *)(void *)seat;
    note_if_ready(a);
    UNLOCK_TCPIP_CORE();
    iwarp_lw_seat_use(a->note.seat, 1);
    return 0;
}

void iwarp_lw_pause(struct iwarp_acceptor *base, bool paused)
{
    struct acceptor *a = acceptor_of(base);

    LOCK_TCPIP_CORE();
    a->paused = paused;
    note_if_ready(a);
    UNLOCK_TCPIP_CORE();
}

/* Core lock held. */
static struct waiting *next_waiting(struct acceptor *a)
{
    struct waiting *w = a->first;

    if (w) {
        a->first = w->next;
        a->last = a->first ? a->last : &a->first;
        a->queue.count--;
    }
    return w;
}

int iwarp_lw_accept(struct iwarp_acceptor *base, union iwarp_arrival *arrival,
                    struct sockaddr_storage *peer, socklen_t *peer_len)
{
    struct acceptor *a = acceptor_of(base);

    LOCK_TCPIP_CORE();
    struct waiting *w = next_waiting(a);
    note_if_ready(a); /* level-triggered */
    UNLOCK_TCPIP_CORE();
    if (!w) {
        return -EAGAIN;
    }
    arrival->ep = &w->e->ep;
    *peer = w->peer;
    *peer_len = w->peer_len;
    free(w);
    return 0;
}

static struct iwarp_lw_endpoint *arrived(union iwarp_arrival arrival)
{
    return (struct iwarp_lw_endpoint *)(void *)arrival.ep;
}

void iwarp_lw_refuse(struct iwarp_stack *stack, union iwarp_arrival arrival, bool reset)
{
    (void)stack;
    LOCK_TCPIP_CORE();
    iwarp_lw_endpoint_drop(arrived(arrival), reset);
    UNLOCK_TCPIP_CORE();
}

int iwarp_lw_attach(struct iwarp_seat *seat, union iwarp_arrival arrival,
                    struct iwarp_endpoint **ep)
{
    iwarp_lw_endpoint_seat(arrived(arrival), (struct iwarp_lw_seat *)(void *)seat);
    *ep = arrival.ep;
    return 0;
}

/* Connections that nobody has taken see a reset, as those of a socket's queue. */
void iwarp_lw_unlisten(struct iwarp_acceptor *base)
{
    struct acceptor *a = acceptor_of(base);
    struct iwarp_lw_seat *seat = a->note.seat;
    struct waiting *w;

    LOCK_TCPIP_CORE();
    iwarp_lw_unnote(&a->note);
    tcp_close(a->pcb);
    while ((w = next_waiting(a)) != NULL) {
        iwarp_lw_endpoint_drop(w->e, true);
        free(w);
    }
    UNLOCK_TCPIP_CORE();
    void (*closed)(void *user) = base->closed;
    void *user = base->user;
    free(a);
    if (seat) {
        iwarp_lw_seat_use(seat, -1);
        closed(user);
    }
}
