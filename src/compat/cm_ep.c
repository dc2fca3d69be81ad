/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The short way to connect: rdma_getaddrinfo, and endpoints (rdma_create_ep, rdma_get_request),
 * which are ids whose calls wait for their events. Names are resolved by getaddrinfo(3) alone;
 * ibacm, InfiniBand's service, is not asked.
 */
#include "compat/cm.h"

#include "base/process.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#define RESOLVE_MS 2000

/* --- addresses ------------------------------------------------------------------------------- */

static int copy_addr(struct sockaddr **to, socklen_t *to_len, const struct sockaddr *from,
                     socklen_t len)
{
    if (!from || len == 0) {
        return 0;
    }
    *to = calloc(1, sizeof(struct sockaddr_storage) > len ? sizeof(struct sockaddr_storage) : len);
    if (!*to) {
        return EAI_MEMORY;
    }
    memcpy(*to, from, len);
    *to_len = len;
    return 0;
}

static int copy_name(char **to, const char *from)
{
    if (from) {
        *to = strdup(from);
    }
    return from && !*to ? EAI_MEMORY : 0;
}

/* Host names and ports become an address: the source of the passive side, else the destination. */
static int look_up(const char *node, const char *service, struct rdma_addrinfo *rai)
{
    const bool passive = (rai->ai_flags & RAI_PASSIVE) != 0;
    struct addrinfo hints = {.ai_family = rai->ai_family, .ai_socktype = SOCK_STREAM}, *found;

    hints.ai_flags =
        (passive ? AI_PASSIVE : 0) | (rai->ai_flags & RAI_NUMERICHOST ? AI_NUMERICHOST : 0);
    int error = getaddrinfo(node, service, &hints, &found);
    if (error) {
        return error;
    }
    rai->ai_family = found->ai_family;
    if (passive) {
        error = copy_addr(&rai->ai_src_addr, &rai->ai_src_len, found->ai_addr, found->ai_addrlen);
        error = error ? error : copy_name(&rai->ai_src_canonname, found->ai_canonname);
    } else {
        error = copy_addr(&rai->ai_dst_addr, &rai->ai_dst_len, found->ai_addr, found->ai_addrlen);
        error = error ? error : copy_name(&rai->ai_dst_canonname, found->ai_canonname);
    }
    freeaddrinfo(found);
    return error;
}

/* Take from the hints what look_up has not set. `all`: no name was given, so the destination, too.
 */
static int from_hints(const struct rdma_addrinfo *hints, bool all, struct rdma_addrinfo *rai)
{
    int error = 0;

    if (hints->ai_src_len && !rai->ai_src_addr) {
        error =
            copy_addr(&rai->ai_src_addr, &rai->ai_src_len, hints->ai_src_addr, hints->ai_src_len);
    }
    if (error == 0 && all) {
        error =
            copy_addr(&rai->ai_dst_addr, &rai->ai_dst_len, hints->ai_dst_addr, hints->ai_dst_len);
        const struct sockaddr *known = rai->ai_src_addr ? rai->ai_src_addr : rai->ai_dst_addr;
        if (known && rai->ai_family == AF_UNSPEC) {
            rai->ai_family = known->sa_family;
        }
    }
    if (error == 0 && hints->ai_connect && hints->ai_connect_len) {
        rai->ai_connect = malloc(hints->ai_connect_len);
        if (!rai->ai_connect) {
            return EAI_MEMORY;
        }
        memcpy(rai->ai_connect, hints->ai_connect, hints->ai_connect_len);
        rai->ai_connect_len = hints->ai_connect_len;
    }
    return error;
}

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
                     struct rdma_addrinfo **res)
{
    IWARP_UNCANCELLED; /* getaddrinfo holds locks and sockets; it returns at its own time-out */
    const bool named = node || service;

    if (!res || (!named && !hints)) {
        return cm_refuse(EINVAL, "rdma_getaddrinfo: %s is NULL",
                         res ? "each of node, service and hints" : "res");
    }
    struct rdma_addrinfo *rai = calloc(1, sizeof *rai);
    if (!rai) {
        return EAI_MEMORY;
    }
    if (hints) {
        rai->ai_flags = hints->ai_flags;
        rai->ai_family = hints->ai_family;
        rai->ai_qp_type = hints->ai_qp_type;
        rai->ai_port_space = hints->ai_port_space;
    }
    if (!rai->ai_port_space) {
        rai->ai_port_space = rai->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
    }
    if (!rai->ai_qp_type) {
        rai->ai_qp_type = rai->ai_port_space == RDMA_PS_UDP || rai->ai_port_space == RDMA_PS_IPOIB
                              ? IBV_QPT_UD
                              : IBV_QPT_RC;
    }
    int error = named ? look_up(node, service, rai) : 0;
    if (error == 0 && hints) {
        error = from_hints(hints, !named, rai);
    }
    if (error) {
        rdma_freeaddrinfo(rai);
        return error;
    }
    *res = rai;
    return 0;
}

void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
    while (res) {
        struct rdma_addrinfo *next = res->ai_next;
        free(res->ai_src_addr);
        free(res->ai_dst_addr);
        free(res->ai_src_canonname);
        free(res->ai_dst_canonname);
        free(res->ai_connect);
        free(res);
        res = next;
    }
}

/* --- endpoints ------------------------------------------------------------------------------- */

/* A listening endpoint. rdma_get_request makes a queue pair with these attributes per request. */
static int create_passive(struct rdma_cm_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
                          const struct ibv_qp_init_attr *attr)
{
    struct cm_id *i = cm_id_of(id);

    if (!res->ai_src_addr || rdma_bind_addr(id, res->ai_src_addr) != 0) {
        return res->ai_src_addr ? -1 : cm_refuse(EINVAL, "rdma_create_ep: no address to listen on");
    }
    if (attr) {
        i->qp_attr = malloc(sizeof *attr);
        if (!i->qp_attr) {
            errno = ENOMEM;
            return -1;
        }
        *i->qp_attr = *attr;
        i->qp_attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
    }
    if (pd) {
        id->pd = pd; /* for all of them */
    }
    return 0;
}

/* A connecting endpoint: address and route are resolved here, so that rdma_connect can follow. */
static int create_active(struct rdma_cm_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
                         struct ibv_qp_init_attr *attr)
{
    struct cm_id *i = cm_id_of(id);

    if (rdma_resolve_addr(id, res->ai_src_addr, res->ai_dst_addr, RESOLVE_MS) != 0 ||
        rdma_resolve_route(id, RESOLVE_MS) != 0) {
        return -1;
    }
    if (res->ai_connect_len > 0) {
        if (res->ai_connect_len > COMPAT_MAX_PRIVATE_DATA) {
            return cm_refuse(EINVAL, "rdma_create_ep: %zu octets of private data, at most %d",
                             res->ai_connect_len, COMPAT_MAX_PRIVATE_DATA);
        }
        i->connect_data = malloc(res->ai_connect_len);
        if (!i->connect_data) {
            errno = ENOMEM;
            return -1;
        }
        memcpy(i->connect_data, res->ai_connect, res->ai_connect_len);
        i->connect_len = (uint8_t)res->ai_connect_len;
    }
    if (!attr) {
        return 0;
    }
    attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
    return rdma_create_qp(id, pd, attr);
}

int rdma_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd,
                   struct ibv_qp_init_attr *attr)
{
    IWARP_UNCANCELLED; /* does not block: resolving queues its event before it waits for it */
    struct rdma_cm_id *id;

    if (!out || !res) {
        return cm_refuse(EINVAL, "rdma_create_ep: %s is NULL", out ? "res" : "id");
    }
    if (rdma_create_id(NULL, &id, NULL, (enum rdma_port_space)res->ai_port_space) != 0) {
        return -1;
    }
    id->qp_type = (enum ibv_qp_type)res->ai_qp_type;
    int result = res->ai_flags & RAI_PASSIVE ? create_passive(id, res, pd, attr)
                                             : create_active(id, res, pd, attr);
    if (result != 0) {
        int error = errno;
        rdma_destroy_ep(id);
        errno = error;
        return -1;
    }
    *out = id;
    return 0;
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
    if (!id) {
        return;
    }
    if (id->qp) {
        rdma_destroy_qp(id);
    }
    if (id->srq) {
        rdma_destroy_srq(id);
    }
    (void)rdma_destroy_id(id);
}

/* The next request, in id->event of the listener; anything else is an error. */
static int next_request(struct rdma_cm_id *listen, struct rdma_cm_event **event)
{
    if (!cm_id_of(listen)->sync) {
        return cm_refuse(EINVAL, "rdma_get_request: the listening id has an event channel; this is "
                                 "for ids without");
    }
    cm_ack_held(listen);
    if (rdma_get_cm_event(listen->channel, event) != 0) {
        return -1;
    }
    if ((*event)->status != 0 || (*event)->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
        int error = (*event)->status < 0 ? -(*event)->status : EINVAL;
        (void)rdma_ack_cm_event(*event);
        return cm_refuse(error, "rdma_get_request: another event than a request");
    }
    return 0;
}

int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **out)
{
    struct rdma_cm_event *event;

    if (!cm_id_usable(listen, "rdma_get_request")) {
        return -1;
    }
    if (!out) {
        return cm_refuse(EINVAL, "rdma_get_request: id is NULL");
    }
    if (next_request(listen, &event) != 0) {
        return -1;
    }
    struct rdma_cm_id *id = event->id;
    struct ibv_qp_init_attr *attr = cm_id_of(listen)->qp_attr, copy;
    int result = 0;

    if (attr) {
        copy = *attr;
        result = rdma_create_qp(id, listen->pd, &copy);
    }
    if (result != 0) {
        int error = errno;
        (void)rdma_ack_cm_event(event);
        rdma_destroy_ep(id);
        errno = error;
        return -1;
    }
    id->event = event;
    *out = id;
    return 0;
}
