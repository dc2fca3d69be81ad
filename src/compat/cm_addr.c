/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses of ids: binding, and resolving an address and a route, which for TCP means asking the
 * kernel which source address it would take. Nothing is sent for it.
 *
 * A bound id holds a TCP socket, so that its port is its own from then on (RDMA_PS_TCP is the
 * host's TCP port space) and known at once. The native listener gets that socket; connecting gives
 * it up for the native connection's, which is bound to the same address. One of RDMA_PS_UDP, which
 * never connects, holds a UDP socket.
 */
#include "compat/cm.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

socklen_t cm_addr_len(const struct sockaddr *addr)
{
    return addr->sa_family == AF_INET    ? sizeof(struct sockaddr_in)
           : addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                         : 0;
}

static struct sockaddr_in *in4(struct sockaddr_storage *addr)
{
    return (struct sockaddr_in *)(void *)addr;
}

static struct sockaddr_in6 *in6(struct sockaddr_storage *addr)
{
    return (struct sockaddr_in6 *)(void *)addr;
}

static in_port_t *port_of(struct sockaddr_storage *addr)
{
    return addr->ss_family == AF_INET6 ? &in6(addr)->sin6_port : &in4(addr)->sin_port;
}

static bool is_any(struct sockaddr_storage *addr)
{
    return addr->ss_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&in6(addr)->sin6_addr)
                                       : in4(addr)->sin_addr.s_addr == htonl(INADDR_ANY);
}

static bool is_multicast(struct sockaddr_storage *addr)
{
    return addr->ss_family == AF_INET6 ? IN6_IS_ADDR_MULTICAST(&in6(addr)->sin6_addr)
                                       : IN_MULTICAST(ntohl(in4(addr)->sin_addr.s_addr));
}

void cm_addr_plain(struct sockaddr_storage *addr)
{
    struct sockaddr_in plain = {.sin_family = AF_INET};

    if (addr->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&in6(addr)->sin6_addr)) {
        plain.sin_port = in6(addr)->sin6_port;
        memcpy(&plain.sin_addr, &in6(addr)->sin6_addr.s6_addr[12], sizeof plain.sin_addr);
        memset(addr, 0, sizeof *addr);
        memcpy(addr, &plain, sizeof plain);
    }
}

void cm_addr_take_port(struct cm_id *i, struct sockaddr_storage *addr)
{
    *port_of(&i->id.route.addr.src_storage) = *port_of(addr);
}

/* The program may read it meanwhile, in another thread: what is there already is not written again,
 * and a port that was not known is one store. */
static void become(struct sockaddr_storage *addr, struct sockaddr_storage *real)
{
    const in_port_t port = *port_of(real);

    cm_addr_plain(real);
    *port_of(real) = *port_of(addr);
    if (memcmp(addr, real, cm_addr_len((struct sockaddr *)real)) != 0) {
        *addr = *real;
    }
    if (*port_of(addr) != port) {
        __atomic_store_n(port_of(addr), port, __ATOMIC_RELAXED);
    }
}

void cm_addr_from_conn(struct cm_id *i)
{
    struct rdma_addr *a = &i->id.route.addr;
    struct sockaddr_storage addr;
    socklen_t len;

    memset(&addr, 0, sizeof addr);
    if (iwarp_conn_local_addr(i->conn, &addr, &len) == IWARP_OK) {
        become(&a->src_storage, &addr);
    }
    memset(&addr, 0, sizeof addr);
    if (iwarp_conn_peer_addr(i->conn, &addr, &len) == IWARP_OK) {
        become(&a->dst_storage, &addr);
    }
}

/* --- binding --------------------------------------------------------------------------------- */

static void set_int(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof value);
}

/*
 * In rdma_cm a port is free once its listener is gone, while TCP keeps it as long as connections of
 * it linger; so what the option REUSEADDR does not allow is tried with SO_REUSEADDR a second time.
 * A port that another id is bound to, or listens on, is refused then, too.
 */
static int bind_socket(const struct cm_id *i, int fd, const struct sockaddr *addr)
{
    socklen_t len = cm_addr_len(addr);

    if (addr->sa_family == AF_INET6 && i->v6_only_set) {
        set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, i->v6_only);
    }
    cm_id_set_tos(i, fd);
    set_int(fd, SOL_SOCKET, SO_REUSEADDR, i->reuse_addr);
    if (bind(fd, addr, len) == 0) {
        return 0;
    }
    if (errno != EADDRINUSE || i->reuse_addr) {
        return -1;
    }
    set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (bind(fd, addr, len) != 0) {
        return -1;
    }
    set_int(fd, SOL_SOCKET, SO_REUSEADDR, 0);
    return 0;
}

/*
 * Some programs tell their peer the port between rdma_bind_addr and rdma_listen. A peer that
 * comes that early is not refused but waits for the listener.
 */
static void listen_early(int fd)
{
    set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1); /* for the next one, while connections linger */
    (void)listen(fd, CM_BACKLOG);
}

/* What is bound to any address gets the one that is wished for, if there is one. */
static const struct sockaddr *narrowed(const struct sockaddr *addr, struct sockaddr_storage *wished)
{
    struct sockaddr_storage asked;

    memset(&asked, 0, sizeof asked);
    memcpy(&asked, addr, cm_addr_len(addr));
    if (!is_any(&asked) || !iwarp_compat_wished_addr(addr->sa_family, wished)) {
        return addr;
    }
    *port_of(wished) = *port_of(&asked);
    return (const struct sockaddr *)wished;
}

/*
 * Another TCP has no sockets to hold an address by: it is looked at now, and taken by rdma_listen
 * or rdma_connect, which may find the port in use. A port 0 is chosen by rdma_listen.
 */
static int bind_foreign(struct cm_id *i, const struct sockaddr *addr)
{
    struct sockaddr_storage *src = &i->id.route.addr.src_storage, own;
    socklen_t len = cm_addr_len(addr);

    memset(src, 0, sizeof *src);
    memcpy(src, addr, len);
    if (!is_any(src)) {
        bool there = iwarp_device_source(iwarp_compat_device(), addr, len, &own, &len) == IWARP_OK;
        *port_of(&own) = *port_of(src);
        if (!there || memcmp(&own, addr, len) != 0) {
            memset(src, 0, sizeof *src);
            return cm_refuse(EADDRNOTAVAIL, "an address cannot be bound: it is not the device's");
        }
        if (cm_id_attach(i) != 0) {
            memset(src, 0, sizeof *src);
            return -1;
        }
    }
    i->bound = true;
    i->state = CM_BOUND;
    return 0;
}

int cm_bind(struct cm_id *i, const struct sockaddr *addr)
{
    struct sockaddr_storage *src = &i->id.route.addr.src_storage, wished;

    if (cm_addr_len(addr) == 0) {
        return cm_refuse(EAFNOSUPPORT, "address family %d; iWARP has AF_INET and AF_INET6",
                         addr->sa_family);
    }
    addr = narrowed(addr, &wished);
    struct iwarp_device *device = iwarp_compat_device();
    if (!device) {
        return -1;
    }
    if (iwarp_compat_tcp_is_foreign(device)) {
        return bind_foreign(i, addr);
    }
    const bool connects = i->id.ps == RDMA_PS_TCP;
    int fd = socket(addr->sa_family, (connects ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return cm_refuse(errno, "no socket to bind: %s", strerror(errno));
    }
    socklen_t len = sizeof *src;
    if (bind_socket(i, fd, addr) != 0) {
        int error = errno;
        close(fd);
        return cm_refuse(error, "an address cannot be bound: %s", strerror(error));
    }
    memset(src, 0, sizeof *src);
    (void)getsockname(fd, (struct sockaddr *)src, &len);
    if (!is_any(src) && cm_id_attach(i) != 0) {
        int error = errno;
        close(fd);
        memset(src, 0, sizeof *src);
        errno = error;
        return -1;
    }
    if (connects && !i->reuse_addr) {
        listen_early(fd);
    }
    i->fd = fd;
    i->bound = true;
    i->state = CM_BOUND;
    return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
    int result;

    if (!cm_id_usable(id, "rdma_bind_addr")) {
        return -1;
    }
    if (!addr) {
        return cm_refuse(EINVAL, "rdma_bind_addr: addr is NULL");
    }
    cm_hold();
    if (cm_id_of(id)->state != CM_IDLE) {
        result = cm_refuse(EINVAL, "rdma_bind_addr: the id has an address already");
    } else {
        result = cm_bind(cm_id_of(id), addr);
    }
    cm_release();
    return result;
}

/* --- resolving ------------------------------------------------------------------------------- */

/* Which address the device would take towards dst; a given port stays. */
static int choose_source(struct sockaddr_storage *src, const struct sockaddr *dst)
{
    struct iwarp_device *device = iwarp_compat_device();
    struct sockaddr_storage chosen;
    in_port_t port = *port_of(src);
    socklen_t len;

    if (!device) {
        return -1;
    }
    errno = 0; /* the stack's, if it asks the kernel */
    if (iwarp_device_source(device, dst, cm_addr_len(dst), &chosen, &len) != IWARP_OK) {
        return cm_refuse(errno ? errno : ENETUNREACH, "rdma_resolve_addr: no way there: %s",
                         iwarp_last_error());
    }
    *src = chosen;
    *port_of(src) = port;
    return 0;
}

/* A source that was asked for is held from here on, as by rdma_bind_addr. */
static int bind_source(struct cm_id *i, const struct sockaddr *src, const struct sockaddr *dst)
{
    if (i->state == CM_BOUND) {
        return 0;
    }
    if (i->state != CM_IDLE) {
        return cm_refuse(EINVAL, "rdma_resolve_addr: the id has been resolved already");
    }
    struct sockaddr_storage wished;
    if (!src || cm_addr_len(src) == 0) {
        if (iwarp_compat_wished_addr(dst->sa_family, &wished)) {
            return cm_bind(i, (struct sockaddr *)&wished);
        }
        i->id.route.addr.src_addr.sa_family = dst->sa_family;
        return 0;
    }
    return cm_bind(i, src);
}

static int resolve(struct cm_id *i, const struct sockaddr *src, const struct sockaddr *dst)
{
    struct rdma_addr *a = &i->id.route.addr;

    if (cm_addr_len(dst) == 0) {
        return cm_refuse(EAFNOSUPPORT,
                         "rdma_resolve_addr: address family %d; iWARP has AF_INET "
                         "and AF_INET6",
                         dst->sa_family);
    }
    if (bind_source(i, src, dst) != 0) {
        return -1;
    }
    if (a->src_addr.sa_family != dst->sa_family) {
        return cm_refuse(EINVAL, "rdma_resolve_addr: source and destination are of different "
                                 "address families");
    }
    memset(&a->dst_storage, 0, sizeof a->dst_storage);
    memcpy(&a->dst_storage, dst, cm_addr_len(dst));
    if (is_multicast(&a->dst_storage)) {
        return cm_refuse(EINVAL, "rdma_resolve_addr: a multicast address; iWARP has connections "
                                 "only");
    }
    if ((is_any(&a->src_storage) && choose_source(&a->src_storage, dst) != 0) ||
        cm_id_attach(i) != 0) {
        return -1;
    }
    if (cm_event_tell(i, RDMA_CM_EVENT_ADDR_RESOLVED, 0) != 0) {
        return -1;
    }
    i->state = CM_ADDR_RESOLVED;
    return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr,
                      int timeout_ms)
{
    (void)timeout_ms; /* it takes none */
    if (!cm_id_usable(id, "rdma_resolve_addr")) {
        return -1;
    }
    if (!dst_addr) {
        return cm_refuse(EINVAL, "rdma_resolve_addr: dst_addr is NULL");
    }
    cm_hold();
    int result = resolve(cm_id_of(id), src_addr, dst_addr);
    return cm_finish(id, result);
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
    int result = 0;

    (void)timeout_ms;
    if (!cm_id_usable(id, "rdma_resolve_route") || !cm_connects(id->ps, "rdma_resolve_route")) {
        return -1;
    }
    struct cm_id *i = cm_id_of(id);
    cm_hold();
    if (i->state == CM_ADDR_RESOLVED) {
        result = cm_event_tell(i, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
        if (result == 0) {
            i->state = CM_ROUTE_RESOLVED; /* TCP finds its way */
        }
    } else {
        result = cm_refuse(EINVAL, "rdma_resolve_route: the address is not resolved, or the route "
                                   "is already");
    }
    return cm_finish(id, result);
}

static in_port_t read_port(struct sockaddr_storage *addr)
{
    return cm_addr_len((struct sockaddr *)addr) ? __atomic_load_n(port_of(addr), __ATOMIC_RELAXED)
                                                : 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
    return id ? read_port(&id->route.addr.src_storage) : 0;
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
    return id ? read_port(&id->route.addr.dst_storage) : 0;
}
