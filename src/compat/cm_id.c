/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Communication ids: create, set options, move between channels, destroy. Also their devices: all
 * ids with an address of one device share its context and its default protection domain.
 */
#include "compat/cm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct cm_id *all;   /* ids of this process; this and what follows under cm_lock */
static bool named;          /* the thread of native events runs: its event may name an ended id */
static struct cm_id *ended; /* waiting for cm_ids_free_ended, linked by `next` */

/* One for each device in use, in no order. They are never freed: programs leave regions in them. */
static struct ibv_pd *default_pds[COMPAT_MAX_DEVICES];

bool cm_id_usable(struct rdma_cm_id *id, const char *what)
{
    if (!id) {
        (void)cm_refuse(EINVAL, "%s: id is NULL", what);
        return false;
    }
    if (cm_id_of(id)->generation != iwarp_compat_generation()) {
        (void)cm_refuse(EINVAL, "%s: the id was made by another process, before a fork", what);
        return false;
    }
    return true;
}

/* RDMA_PS_UDP would be datagrams, which rdma_cm has not here. Programs bind such an id to an
 * address only to find its device, and so much is possible. */
bool cm_connects(enum rdma_port_space ps, const char *what)
{
    if (ps != RDMA_PS_TCP) {
        (void)cm_refuse(EOPNOTSUPP,
                        "%s: port space 0x%x; iWARP runs over TCP: RDMA_PS_TCP only, no UD "
                        "(datagrams), XRC or multicast: look for the program's option for RC",
                        what, (unsigned)ps);
    }
    return ps == RDMA_PS_TCP;
}

struct cm_id *cm_id_new(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps)
{
    struct cm_id *i = calloc(1, sizeof *i);

    if (!i) {
        errno = ENOMEM;
        return NULL;
    }
    i->id.channel = channel;
    i->id.context = context;
    i->id.ps = ps;
    i->id.qp_type = ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
    i->generation = iwarp_compat_generation();
    i->fd = -1;
    i->tos = -1;
    i->next = all;
    i->at = &all;
    if (all) {
        all->at = &i->next;
    }
    all = i;
    return i;
}

/* In a forked child: close the sockets that bound ids of the parent hold, or the ports would stay
 * in use as long as the child lives. The ids themselves are not freed: the program may point to
 * them. */
static void forget_all(void)
{
    for (struct cm_id *i = all; i; i = i->next) {
        if (i->fd >= 0) {
            close(i->fd);
            i->fd = -1;
        }
    }
    cm_over_forget_all();
    all = ended = NULL;
    named = false;
    memset(default_pds, 0, sizeof default_pds);
}

static struct ibv_pd *default_pd_of(struct ibv_context *context)
{
    unsigned i = 0;

    while (default_pds[i] && default_pds[i]->context != context) {
        i++;
    }
    if (!default_pds[i]) {
        default_pds[i] = ibv_alloc_pd(context);
    }
    return default_pds[i];
}

int cm_id_attach(struct cm_id *i)
{
    if (i->attached) {
        return 0;
    }
    struct ibv_context *context = iwarp_compat_shared_context(&i->id.route.addr.src_addr);
    if (!context) {
        return -1;
    }
    struct ibv_pd *pd = default_pd_of(context);
    if (!pd) {
        return cm_refuse(errno ? errno : ENOMEM, "no protection domain for an id");
    }
    i->attached = true;
    i->id.verbs = context;
    i->id.port_num = 1;
    if (!i->id.pd) {
        i->id.pd = pd;
    }
    return 0;
}

/* --- the end of ids -------------------------------------------------------------------------- */

void cm_ids_expect_events(void)
{
    named = true;
}

void cm_ids_free_ended(void)
{
    cm_hold();
    struct cm_id *i = ended;
    ended = NULL;
    cm_release();
    while (i) {
        struct cm_id *next = i->next;
        free(i);
        i = next;
    }
}

/* The thread of native events may hold an event that names it: see the head of cm_engine.c. */
static void free_later(struct cm_id *i)
{
    if (!named) {
        free(i);
        return;
    }
    i->next = ended;
    ended = i;
}

/*
 * The id reports nothing from here on. Orderly close only of an established connection; destroying
 * any other one aborts it, or rejects the request.
 */
static void stop(struct cm_id *i)
{
    cm_over_forget(i);
    if (i->listener) {
        (void)iwarp_listener_close(i->listener);
        i->listener = NULL;
    }
    if (i->conn) {
        if (i->state == CM_CONNECTED) {
            (void)iwarp_disconnect(i->conn); /* finished in the background */
        }
        (void)iwarp_conn_destroy(i->conn);
        i->conn = NULL;
    }
    if (i->fd >= 0) {
        close(i->fd);
        i->fd = -1;
    }
    i->state = CM_OVER;
}

void cm_id_end(struct cm_id *i)
{
    stop(i);
    *i->at = i->next;
    if (i->next) {
        i->next->at = i->at;
    }
    while (i->reserve) {
        struct cm_event *next = i->reserve->next;
        free(i->reserve);
        i->reserve = next;
    }
    free(i->qp_attr);
    free(i->connect_data);
    free_later(i);
}

/* A request that waits owns its id: see on_request in cm_engine.c. */
void cm_events_discard(struct cm_event *event)
{
    while (event) {
        struct cm_event *next = event->next;
        if (event->ev.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
            event->owner->waiting_requests--;
            cm_id_end(cm_id_of(event->ev.id));
        }
        free(event);
        event = next;
    }
}

/* A forked child may free the parent's channel; the events in it name ids of the parent and are
 * left alone. */
void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    if (!channel) {
        return;
    }
    struct cm_channel *c = cm_channel_of(channel);

    cm_hold();
    if (c->generation == iwarp_compat_generation()) {
        cm_events_discard(c->first);
        c->first = NULL;
    }
    cm_channel_close(c);
    cm_release();
}

/* --- calls of the program -------------------------------------------------------------------- */

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                   enum rdma_port_space ps)
{
    struct rdma_event_channel *own = NULL;

    cm_process_watch(forget_all);
    if (!id) {
        return cm_refuse(EINVAL, "rdma_create_id: id is NULL");
    }
    if (ps != RDMA_PS_UDP && !cm_connects(ps, "rdma_create_id")) {
        return -1;
    }
    if (channel && !cm_channel_usable(channel, "rdma_create_id")) {
        return -1;
    }
    if (!channel) {
        own = rdma_create_event_channel();
        if (!own) {
            return -1;
        }
    }
    cm_hold();
    struct cm_id *i = cm_id_new(channel ? channel : own, context, ps);
    if (i) {
        i->sync = own != NULL;
        *id = &i->id;
    }
    cm_release();
    if (!i && own) {
        rdma_destroy_event_channel(own);
    }
    return i ? 0 : -1;
}

/* An id that the parent made. Its memory is not freed, since channels and events may point to it.
 */
static int destroy_foreign(struct rdma_cm_id *id)
{
    id->qp = NULL;
    return 0;
}

/* As in rdma-core, no event of the id is reported any more, and the call waits until the program
 * has acknowledged each one that it took. */
int rdma_destroy_id(struct rdma_cm_id *id)
{
    if (!id) {
        return cm_refuse(EINVAL, "rdma_destroy_id: id is NULL");
    }
    struct cm_id *i = cm_id_of(id);
    if (i->generation != iwarp_compat_generation()) {
        return destroy_foreign(id);
    }
    struct rdma_event_channel *own = i->sync ? id->channel : NULL;
    if (i->sync) {
        cm_ack_held(id);
    }
    cm_hold();
    stop(i);
    cm_events_discard(cm_events_take(i));
    cm_events_wait_acknowledged(i);
    cm_id_end(i);
    cm_release();
    if (own) {
        rdma_destroy_event_channel(own);
    }
    return 0;
}

/* Waits for acknowledgements like rdma_destroy_id. Waiting events move to the new channel. */
int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
    struct rdma_event_channel *own = NULL, *old;

    if (!cm_id_usable(id, "rdma_migrate_id") ||
        (channel && !cm_channel_usable(channel, "rdma_migrate_id"))) {
        return -1;
    }
    struct cm_id *i = cm_id_of(id);
    if (!channel) {
        if (i->sync) {
            return cm_refuse(EINVAL, "rdma_migrate_id: the id has no event channel already");
        }
        own = rdma_create_event_channel();
        if (!own) {
            return -1;
        }
    }
    if (i->sync) {
        cm_ack_held(id);
    }
    cm_hold();
    old = i->sync ? id->channel : NULL;
    cm_over_now(i);
    cm_events_wait_acknowledged(i);
    cm_events_move(i, cm_channel_of(channel ? channel : own));
    id->channel = channel ? channel : own;
    i->sync = own != NULL;
    cm_release();
    if (old) {
        rdma_destroy_event_channel(old);
    }
    return 0;
}

/* --- options --------------------------------------------------------------------------------- */

static int set_flag(struct cm_id *i, int name, const int *value, size_t len)
{
    if (len != sizeof *value) {
        return cm_refuse(EINVAL, "rdma_set_option: %zu octets, an int has %zu", len, sizeof *value);
    }
    if (i->state != CM_IDLE) {
        return cm_refuse(EINVAL, "rdma_set_option: too late, the id has an address already");
    }
    if (name == RDMA_OPTION_ID_REUSEADDR) {
        i->reuse_addr = *value != 0;
    } else {
        i->v6_only = *value != 0;
        i->v6_only_set = true;
    }
    return 0;
}

void cm_id_set_tos(const struct cm_id *i, int fd)
{
    if (i->tos >= 0 && fd >= 0) {
        (void)setsockopt(fd, IPPROTO_IP, IP_TOS, &i->tos, sizeof i->tos);
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &i->tos, sizeof i->tos);
    }
}

static int set_octet(struct cm_id *i, int name, const uint8_t *value, size_t len)
{
    if (len != sizeof *value) {
        return cm_refuse(EINVAL, "rdma_set_option: %zu octets, expected 1", len);
    }
    if (name == RDMA_OPTION_ID_TOS) {
        i->tos = *value;
        cm_id_set_tos(i, i->fd);
        return 0;
    }
    if (*value > 31) {
        return cm_refuse(EINVAL, "rdma_set_option: acknowledgement time-out %u, at most 31",
                         *value);
    }
    /* TCP has time-outs of its own; the value is kept only for ibv_query_qp to return. */
    i->ack_timeout = *value;
    i->ack_timeout_set = true;
    if (i->id.qp) {
        atomic_store(&compat_qp(i->id.qp)->ack_timeout, *value);
    }
    return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen)
{
    int result;

    if (!cm_id_usable(id, "rdma_set_option")) {
        return -1;
    }
    if (!optval) {
        return cm_refuse(EINVAL, "rdma_set_option: optval is NULL");
    }
    if (level != RDMA_OPTION_ID || optname < RDMA_OPTION_ID_TOS ||
        optname > RDMA_OPTION_ID_ACK_TIMEOUT) {
        return cm_refuse(EOPNOTSUPP,
                         "rdma_set_option: option %d of level %d; iWARP has those of "
                         "RDMA_OPTION_ID only: TOS, REUSEADDR, AFONLY, ACK_TIMEOUT",
                         optname, level);
    }
    cm_hold();
    if (optname == RDMA_OPTION_ID_REUSEADDR || optname == RDMA_OPTION_ID_AFONLY) {
        result = set_flag(cm_id_of(id), optname, optval, optlen);
    } else {
        result = set_octet(cm_id_of(id), optname, optval, optlen);
    }
    cm_release();
    return result;
}

/* --- devices --------------------------------------------------------------------------------- */

struct ibv_context **rdma_get_devices(int *num_devices)
{
    cm_process_watch(forget_all);
    int n = 0;
    struct ibv_context **list = iwarp_compat_shared_contexts(&n);

    if (num_devices) {
        *num_devices = list ? n : 0;
    }
    return list;
}

void rdma_free_devices(struct ibv_context **list)
{
    free(list);
}
