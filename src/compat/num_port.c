/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers of queue pairs: a TCP port of this process, and an index. So a number says where its
 * owner listens. The port is bound when it is first needed, and listens once a queue pair of it
 * names a peer; a process whose queue pairs are connected by rdma_cm never listens here.
 *
 * The socket takes IPv4 and IPv6 on all addresses, or on the one of IWARP_ADDR. An index that was
 * given back is given again only after all others.
 */
#include "base/process.h"
#include "compat/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BACKLOG 1024 /* peers may come in bursts of many queue pairs */

pthread_mutex_t num_lock = PTHREAD_MUTEX_INITIALIZER;
static struct num_port *ports;
static struct num_port *inherited; /* in a forked child: its parent's, which no call looks at */

/* --- sockets --------------------------------------------------------------------------------- */

static int bound_to(const struct sockaddr_storage *addr, socklen_t len)
{
    const int off = 0;
    int fd = iwarp_process_socket(addr->ss_family);

    if (fd >= 0 && addr->ss_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    if (fd >= 0 && bind(fd, (const struct sockaddr *)addr, len) != 0) {
        iwarp_process_close(fd);
        return -1;
    }
    return fd;
}

/* A kernel without IPv6 has the other family. */
static int bind_any(void)
{
    struct sockaddr_storage wished, any = {.ss_family = AF_INET6};

    if (iwarp_compat_wished_addr(AF_INET, &wished)) {
        return bound_to(&wished, sizeof(struct sockaddr_in));
    }
    if (iwarp_compat_wished_addr(AF_INET6, &wished)) {
        return bound_to(&wished, sizeof(struct sockaddr_in6));
    }
    int fd = bound_to(&any, sizeof(struct sockaddr_in6));
    if (fd < 0) {
        any.ss_family = AF_INET;
        fd = bound_to(&any, sizeof(struct sockaddr_in));
    }
    return fd;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof addr;
    struct sockaddr_in in;

    if (getsockname(fd, (struct sockaddr *)&addr, &len) != 0) {
        return 0;
    }
    memcpy(&in, &addr, sizeof in); /* the port is in one place in both families */
    return ntohs(in.sin_port);
}

static struct num_port *open_port(void)
{
    struct num_port *p = calloc(1, sizeof *p);

    if (!p) {
        errno = ENOMEM;
        return NULL;
    }
    p->fd = bind_any();
    p->port = p->fd < 0 ? 0 : port_of(p->fd);
    if (p->port == 0) {
        if (p->fd >= 0) {
            iwarp_process_close(p->fd);
        }
        free(p);
        return NULL;
    }
    p->latest = NUM_PER_PORT - 1;
    p->next = ports;
    ports = p;
    return p;
}

static void close_port(struct num_port *p)
{
    struct num_port **at = &ports;

    while (*at != p) {
        at = &(*at)->next;
    }
    *at = p->next;
    if (p->listener) {
        (void)iwarp_listener_close(p->listener);
    } else if (p->fd >= 0) {
        iwarp_process_close(p->fd);
    }
    free(p);
}

/* The library takes no socket that is registered as its own already, so there is a moment when a
 * forked child would keep this one. */
int num_port_listen(struct num_port *p, struct iwarp_eq *eq)
{
    if (p->listener) {
        return 0;
    }
    iwarp_process_remove_fd(p->fd);
    enum iwarp_status status =
        iwarp_listen_socket(iwarp_compat_device(), p->fd, NULL, BACKLOG, eq, NULL, &p->listener);
    if (status != IWARP_OK) {
        iwarp_process_add_fd(p->fd);
        return iwarp_compat_failed("verbs", status, "ibv_modify_qp: listening for the peer");
    }
    p->fd = -1;
    return 0;
}

/* --- numbers --------------------------------------------------------------------------------- */

static struct num_port *port_with_room(void)
{
    struct num_port *p = ports;

    while (p && p->used == NUM_PER_PORT) {
        p = p->next;
    }
    return p ? p : open_port();
}

struct num *num_port_take(void)
{
    struct num_port *p = port_with_room();
    struct num *n = p ? calloc(1, sizeof *n) : NULL;

    if (!n) {
        errno = p ? ENOMEM : errno;
        return NULL;
    }
    do {
        p->latest = (p->latest + 1) % NUM_PER_PORT;
    } while (p->num[p->latest]);
    p->num[p->latest] = n;
    p->used++;
    n->port = p;
    n->number = (uint32_t)p->port << 8 | p->latest;
    return n;
}

/* Its port stays until its last number has gone, and one port stays: a program that makes and
 * destroys one queue pair after the other shall not meet its own old numbers. */
void num_port_give_back(struct num *n)
{
    struct num_port *p = n->port;

    p->num[n->number & 0xff] = NULL;
    if (--p->used == 0 && (ports != p || p->next)) {
        close_port(p);
    }
    free(n);
}

struct num *num_port_find(uint32_t number)
{
    for (struct num_port *p = ports; p; p = p->next) {
        if (p->port == number >> 8) {
            return (number & 0xff) < NUM_PER_PORT ? p->num[number & 0xff] : NULL;
        }
    }
    return NULL;
}

/* What the parent has of it stays the parent's; its sockets are closed by base/process.c. The
 * memory is kept, since queue pairs of the parent point to it. */
void num_port_forget(void)
{
    while (ports) {
        struct num_port *p = ports;
        ports = p->next;
        p->next = inherited;
        inherited = p;
    }
}
