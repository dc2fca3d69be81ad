/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * side.h on libibverbs and librdmacm: the guest's end, with the kernel's siw below.
 */
#include "side.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct side_link {
    struct rdma_cm_id *id;
    struct ibv_pd *pd;
    struct ibv_comp_channel *notes;
    struct ibv_cq *cq;
    struct ibv_mr *mr[2];
    unsigned regions;
    unsigned char pd_octets[256];
    size_t pd_len;
    bool ended;
    char how[80];
};

static const struct settings *settings;
static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener;
static struct rdma_cm_event *requests[64]; /* that came while something else was waited for */
static unsigned requests_come, requests_taken;

static void must(bool good, const char *what)
{
    if (!good) {
        printf("outcome bad: %s: %s\n", what, strerror(errno));
        exit(2);
    }
}

static struct sockaddr_in address(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)settings->port)};

    must(inet_pton(AF_INET, settings->address, &in.sin_addr) == 1, settings->address);
    return in;
}

void side_open(const struct settings *s)
{
    settings = s;
    channel = rdma_create_event_channel();
    must(channel != NULL, "create an event channel");
}

void side_close(void)
{
    if (listener) {
        rdma_destroy_id(listener);
    }
    rdma_destroy_event_channel(channel);
}

void side_listen(void)
{
    struct sockaddr_in in = address();

    must(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "create a listener");
    must(!rdma_bind_addr(listener, (struct sockaddr *)&in), "bind");
    must(!rdma_listen(listener, 64), "listen");
    puts("listening");
}

/* The next event within ms, or NULL. */
static struct rdma_cm_event *event_get(int ms)
{
    struct pollfd p = {.fd = channel->fd, .events = POLLIN};
    struct rdma_cm_event *event;

    if (poll(&p, 1, ms) != 1) {
        return NULL;
    }
    must(!rdma_get_cm_event(channel, &event), "get an event");
    return event;
}

static void private_data_keep(struct side_link *link, const struct rdma_cm_event *event)
{
    link->pd_len = event->param.conn.private_data_len;
    if (link->pd_len) {
        memcpy(link->pd_octets, event->param.conn.private_data, link->pd_len);
    }
}

/* What has been told of a link meanwhile, by whichever link's wait. */
static void event_note(struct rdma_cm_event *event)
{
    struct side_link *link = event->id->context;

    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
        must(requests_come - requests_taken < 64, "keep a request");
        requests[requests_come++ % 64] = event;
        return;
    }
    if (link && event->event == RDMA_CM_EVENT_DISCONNECTED) {
        link->ended = true;
        snprintf(link->how, sizeof link->how, "disconnected");
    }
    rdma_ack_cm_event(event);
}

/* Until the event that is waited for comes, to that link; else its name and status are put down. */
static bool event_wait(struct side_link *link, enum rdma_cm_event_type wanted)
{
    for (;;) {
        struct rdma_cm_event *event = event_get((int)settings->time * 1000);
        bool right;

        if (!event) {
            snprintf(link->how, sizeof link->how, "silence");
            return false;
        }
        if (event->id != link->id || event->event == RDMA_CM_EVENT_DISCONNECTED) {
            event_note(event);
            if (link->ended) {
                return false;
            }
            continue;
        }
        right = event->event == wanted;
        if (event->event == RDMA_CM_EVENT_ESTABLISHED || event->event == RDMA_CM_EVENT_REJECTED) {
            if (!settings->server) {
                private_data_keep(link, event);
            }
        }
        if (!right) {
            link->ended = true;
            snprintf(link->how, sizeof link->how, "%s:%d", rdma_event_str(event->event) + 14,
                     event->status);
        }
        rdma_ack_cm_event(event);
        return right;
    }
}

static void link_fill(struct side_link *link)
{
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
                                    .sq_sig_all = 1,
                                    .cap = {.max_send_wr = SIDE_DEPTH,
                                            .max_recv_wr = SIDE_DEPTH,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1}};

    link->id->context = link;
    link->pd = ibv_alloc_pd(link->id->verbs);
    must(link->pd != NULL, "create a protection domain");
    link->notes = ibv_create_comp_channel(link->id->verbs);
    must(link->notes != NULL, "create a completion channel");
    link->cq = ibv_create_cq(link->id->verbs, 2 * SIDE_DEPTH, NULL, link->notes, 0);
    must(link->cq != NULL, "create a completion queue");
    attr.send_cq = attr.recv_cq = link->cq;
    must(!rdma_create_qp(link->id, link->pd, &attr), "create a queue pair");
}

static struct side_link *link_make(void)
{
    struct side_link *link = calloc(1, sizeof *link);

    must(link != NULL, "calloc");
    return link;
}

struct side_link *side_dial(char *why, size_t size)
{
    struct sockaddr_in in = address();
    struct side_link *link = link_make();

    must(!rdma_create_id(channel, &link->id, link, RDMA_PS_TCP), "create an id");
    must(!rdma_resolve_addr(link->id, NULL, (struct sockaddr *)&in, 5000), "resolve");
    if (!event_wait(link, RDMA_CM_EVENT_ADDR_RESOLVED)) {
        snprintf(why, size, "no address: %s", link->how);
        return NULL;
    }
    must(!rdma_resolve_route(link->id, 5000), "resolve the route");
    if (!event_wait(link, RDMA_CM_EVENT_ROUTE_RESOLVED)) {
        snprintf(why, size, "no route: %s", link->how);
        return NULL;
    }
    link_fill(link);
    return link;
}

struct side_link *side_request(char *why, size_t size)
{
    struct side_link *link = link_make();

    while (requests_come == requests_taken) {
        struct rdma_cm_event *event = event_get((int)settings->time * 1000);

        if (!event) {
            snprintf(why, size, "no request came");
            return NULL;
        }
        event_note(event);
    }
    struct rdma_cm_event *request = requests[requests_taken++ % 64];

    link->id = request->id;
    private_data_keep(link, request);
    rdma_ack_cm_event(request);
    link_fill(link);
    return link;
}

void side_destroy(struct side_link *link)
{
    rdma_destroy_qp(link->id);
    for (unsigned i = 0; i < link->regions; i++) {
        ibv_dereg_mr(link->mr[i]);
    }
    ibv_destroy_cq(link->cq);
    ibv_destroy_comp_channel(link->notes);
    ibv_dealloc_pd(link->pd);
    rdma_destroy_id(link->id);
    free(link);
}

uint32_t side_register(struct side_link *link, void *addr, size_t len, bool remote_read,
                       bool remote_write)
{
    struct ibv_mr **mr = &link->mr[link->regions++];
    unsigned access = IBV_ACCESS_LOCAL_WRITE;

    access |= remote_read ? (unsigned)IBV_ACCESS_REMOTE_READ : 0u;
    access |= remote_write ? (unsigned)IBV_ACCESS_REMOTE_WRITE : 0u;
    *mr = ibv_reg_mr(link->pd, addr, len, access);
    must(*mr != NULL, "register");
    return (*mr)->rkey;
}

static struct ibv_sge sge_of(const struct side_link *link, void *addr, uint32_t len)
{
    const char *start = link->mr[0]->addr;
    bool first = (char *)addr >= start && (char *)addr < start + link->mr[0]->length;

    return (struct ibv_sge){(uint64_t)(uintptr_t)addr, len, link->mr[first ? 0 : 1]->lkey};
}

void side_receive(struct side_link *link, uint64_t id, void *addr, uint32_t len)
{
    struct ibv_sge sge = sge_of(link, addr, len);
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

    must(!ibv_post_recv(link->id->qp, &wr, &bad), "post a receive");
}

const char *side_establish(struct side_link *link, const void *pd, size_t len)
{
    struct rdma_conn_param param = {.private_data = pd,
                                    .private_data_len = (uint8_t)len,
                                    .responder_resources = (uint8_t)settings->ird,
                                    .initiator_depth = (uint8_t)settings->ord};

    if (settings->server) {
        must(!rdma_accept(link->id, &param), "accept");
    } else {
        must(!rdma_connect(link->id, &param), "connect");
    }
    if (event_wait(link, RDMA_CM_EVENT_ESTABLISHED)) {
        return "ok";
    }
    return strncmp(link->how, "REJECTED", 8) ? "failed" : "rejected";
}

void side_reject(struct side_link *link, const void *pd, size_t len)
{
    must(!rdma_reject(link->id, pd, (uint8_t)len), "reject");
}

const unsigned char *side_private_data(const struct side_link *link, size_t *len)
{
    *len = link->pd_len;
    return link->pd_octets;
}

void side_post(struct side_link *link, const struct side_request *r)
{
    static const enum ibv_wr_opcode opcodes[] = {
        [OP_SEND] = IBV_WR_SEND,
        [OP_SEND_SE] = IBV_WR_SEND,
        [OP_SEND_INV] = IBV_WR_SEND_WITH_INV,
        [OP_SEND_SE_INV] = IBV_WR_SEND_WITH_INV,
        [OP_WRITE] = IBV_WR_RDMA_WRITE,
        [OP_READ] = IBV_WR_RDMA_READ,
    };
    struct ibv_sge sge = sge_of(link, r->addr, r->len);
    struct ibv_send_wr wr = {.wr_id = r->id, .sg_list = &sge, .num_sge = 1}, *bad;
    int error;

    wr.opcode = opcodes[r->op];
    if (wr.opcode == IBV_WR_SEND_WITH_INV) {
        wr.invalidate_rkey = r->remote_stag;
    } else {
        wr.wr.rdma.rkey = r->remote_stag;
        wr.wr.rdma.remote_addr = r->remote_to;
    }
    if (r->op == OP_SEND_SE || r->op == OP_SEND_SE_INV) {
        wr.send_flags = IBV_SEND_SOLICITED;
    }
    /* siw's driver hands on the -1 of a system call, which has set errno. */
    error = ibv_post_send(link->id->qp, &wr, &bad);
    errno = error == -1 ? errno : error;
    /* An ended queue pair takes nothing more; its end is what counts. */
    must(!errno || errno == ENOTCONN || errno == EINVAL, "post");
}

bool side_poll(struct side_link *link, struct side_done *done)
{
    static char status[60];
    struct ibv_wc wc;

    if (ibv_poll_cq(link->cq, 1, &wc) != 1) {
        return false;
    }
    snprintf(status, sizeof status, "%s",
             wc.status == IBV_WC_SUCCESS ? "ok" : ibv_wc_status_str(wc.status));
    for (char *c = status; *c; c++) {
        *c = *c == ' ' ? '-' : *c;
    }
    *done = (struct side_done){.id = wc.wr_id, .status = status, .receive = false};
    if (wc.status == IBV_WC_SUCCESS) {
        done->len = wc.byte_len;
        done->receive = (wc.opcode & IBV_WC_RECV) != 0;
        done->invalidated = (wc.wc_flags & IBV_WC_WITH_INV) != 0;
        done->stag = wc.invalidated_rkey;
    }
    return true;
}

void side_arm(struct side_link *link)
{
    must(!ibv_req_notify_cq(link->cq, 0), "arm");
}

void side_sleep(struct side_link *link, int ms)
{
    struct pollfd p = {.fd = link->notes->fd, .events = POLLIN};
    struct ibv_cq *cq;
    void *context;

    if (poll(&p, 1, ms) == 1 && !ibv_get_cq_event(link->notes, &cq, &context)) {
        ibv_ack_cq_events(cq, 1);
    }
}

/* The user-space driver of siw takes no notice of it. */
bool side_tells_invalidation(void)
{
    return false;
}

/* siw looks for the flag in the wrong place when a receive completes (siw_rqe_complete). */
bool side_tells_solicited(void)
{
    return false;
}

void side_watch_solicited(struct side_link *link)
{
    must(!ibv_req_notify_cq(link->cq, 1), "arm");
}

bool side_solicited(struct side_link *link)
{
    struct pollfd p = {.fd = link->notes->fd, .events = POLLIN};
    struct ibv_cq *cq;
    void *context;

    if (poll(&p, 1, 300) != 1 || ibv_get_cq_event(link->notes, &cq, &context)) {
        return false;
    }
    ibv_ack_cq_events(cq, 1);
    return true;
}

void side_disconnect(struct side_link *link)
{
    rdma_disconnect(link->id);
}

/* The verbs have no such call: a program that is gone is what there is. */
void side_abort(struct side_link *link)
{
    (void)link;
    printf("outcome gone\n");
    fflush(stdout);
    _exit(0);
}

bool side_ended(struct side_link *link)
{
    struct rdma_cm_event *event;

    while (!link->ended && (event = event_get(0)) != NULL) {
        event_note(event);
    }
    return link->ended;
}

void side_why(struct side_link *link, char *text, size_t size)
{
    snprintf(text, size, "end=%s", link->how[0] ? link->how : "none");
    for (char *c = text; *c; c++) {
        *c = *c == ' ' ? '-' : *c;
    }
}

void side_info(struct side_link *link, char *text, size_t size)
{
    (void)link;
    snprintf(text, size, "siw");
}
