/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * side.h on libiwarp: the host's end, by the public interface alone.
 */
#include "side.h"

#include <arpa/inet.h>
#include <iwarp/iwarp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PIECES 32

struct side_link {
    struct iwarp_pd *pd;
    struct iwarp_cq *cq;
    struct iwarp_qp *qp;
    struct iwarp_conn *conn;
    struct iwarp_mr *mr[2];
    unsigned regions;
};

static const struct settings *settings;
static struct iwarp_device *device;
static struct iwarp_eq *eq;
static struct iwarp_listener *listener;
static struct iwarp_conn_options options;

static void must(enum iwarp_status status, const char *what)
{
    if (status != IWARP_OK) {
        printf("outcome bad: %s: %s\n", what, iwarp_last_error());
        exit(2);
    }
}

static struct sockaddr_in address(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)settings->port)};

    if (inet_pton(AF_INET, settings->address, &in.sin_addr) != 1) {
        printf("outcome bad: %s is no address\n", settings->address);
        exit(2);
    }
    return in;
}

void side_open(const struct settings *s)
{
    settings = s;
    iwarp_conn_options_init(&options);
    options.mpa_rev = s->rev;
    options.crc = s->crc;
    options.peer_to_peer = s->p2p;
    options.rtr = s->rtr;
    options.ulpdu_max = s->ulpdu;
    options.placement = s->early ? IWARP_PLACE_EARLY : IWARP_PLACE_VERIFIED;
    options.remind = s->remind; /* off by default here: an emulated peer may be late, and messages
                                 * are counted */
    options.strict = s->strict;
    options.rnr_timeout_ms = s->rnr;
    options.ird = s->ird;
    options.ord = s->ord;
    options.startup_timeout_ms = s->time * 1000;
    must(iwarp_device_open(NULL, &device), "open a device");
    must(iwarp_eq_create(device, &eq), "create an event queue");
}

void side_close(void)
{
    if (listener) {
        must(iwarp_listener_close(listener), "close the listener");
    }
    must(iwarp_eq_destroy(eq), "destroy the event queue");
    must(iwarp_device_close(device), "close the device");
}

void side_listen(void)
{
    struct sockaddr_in in = address();

    must(iwarp_listen(device, (struct sockaddr *)&in, sizeof in, &options, 64, eq, NULL, &listener),
         "listen");
    puts("listening");
}

static struct side_link *link_make(void)
{
    struct side_link *link = calloc(1, sizeof *link);
    struct iwarp_qp_options q;

    if (!link) {
        perror("calloc");
        exit(2);
    }
    must(iwarp_pd_create(device, &link->pd), "create a protection domain");
    must(iwarp_cq_create(device, 2 * SIDE_DEPTH, NULL, &link->cq), "create a completion queue");
    iwarp_qp_options_init(&q);
    q.send_cq = q.recv_cq = link->cq;
    q.max_send_wr = q.max_recv_wr = SIDE_DEPTH;
    q.signal_all = true;
    q.max_send_sge = settings->pieces;
    must(iwarp_qp_create(link->pd, &q, &link->qp), "create a queue pair");
    return link;
}

struct side_link *side_dial(char *why, size_t size)
{
    (void)why;
    (void)size;
    return link_make();
}

struct side_link *side_request(char *why, size_t size)
{
    struct iwarp_event event;
    struct side_link *link;

    do {
        if (iwarp_eq_get(eq, &event, (int)settings->time * 1000) != IWARP_OK) {
            snprintf(why, size, "no request came");
            return NULL;
        }
    } while (event.type != IWARP_EVENT_REQUEST);
    link = link_make();
    link->conn = event.conn;
    return link;
}

void side_destroy(struct side_link *link)
{
    if (link->conn) {
        must(iwarp_conn_destroy(link->conn), "destroy the connection");
    }
    must(iwarp_qp_destroy(link->qp), "destroy the queue pair");
    for (unsigned i = 0; i < link->regions; i++) {
        must(iwarp_mr_deregister(link->mr[i]), "deregister");
    }
    must(iwarp_cq_destroy(link->cq), "destroy the completion queue");
    must(iwarp_pd_destroy(link->pd), "destroy the protection domain");
    free(link);
}

uint32_t side_register(struct side_link *link, void *addr, size_t len, bool remote_read,
                       bool remote_write)
{
    struct iwarp_mr **mr = &link->mr[link->regions++];
    unsigned access = (remote_read ? IWARP_ACCESS_REMOTE_READ : 0u) |
                      (remote_write ? IWARP_ACCESS_REMOTE_WRITE : 0u);

    must(iwarp_mr_register(link->pd, addr, len, IWARP_ACCESS_LOCAL_WRITE | access, mr), "register");
    return iwarp_mr_stag(*mr);
}

/* The STag of local memory is that of the region which it lies in. */
static uint32_t stag_of(const struct side_link *link, const void *addr)
{
    const char *start = iwarp_mr_addr(link->mr[0]);

    if ((const char *)addr >= start && (const char *)addr < start + iwarp_mr_len(link->mr[0])) {
        return iwarp_mr_stag(link->mr[0]);
    }
    return iwarp_mr_stag(link->mr[1]);
}

void side_receive(struct side_link *link, uint64_t id, void *addr, uint32_t len)
{
    struct iwarp_sge sge = {addr, len, stag_of(link, addr)};
    struct iwarp_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};

    must(iwarp_post_recv(link->qp, &wr, NULL), "post a receive");
}

const char *side_establish(struct side_link *link, const void *pd, size_t len)
{
    enum iwarp_status status;

    if (settings->server) {
        must(iwarp_accept(link->conn, link->qp, NULL, pd, len, NULL), "accept");
    } else {
        struct sockaddr_in in = address();

        must(iwarp_connect(link->qp, (struct sockaddr *)&in, sizeof in, &options, pd, len, NULL,
                           NULL, &link->conn),
             "connect");
    }
    status = iwarp_conn_wait(link->conn, (int)settings->time * 1000);
    if (iwarp_fault_code(iwarp_conn_fault(link->conn)) == IWARP_FAULT_MPA_REJECTED) {
        return "rejected";
    }
    return status == IWARP_OK ? "ok" : "failed";
}

void side_reject(struct side_link *link, const void *pd, size_t len)
{
    must(iwarp_reject(link->conn, pd, len), "reject");
    iwarp_conn_wait_end(link->conn, (int)settings->time * 1000);
}

const unsigned char *side_private_data(const struct side_link *link, size_t *len)
{
    return iwarp_conn_private_data(link->conn, len);
}

/* The SGEs of a request: a Read's octets are shared out among `pieces`. */
static unsigned cut(const struct side_link *link, const struct side_request *r,
                    struct iwarp_sge *sgl)
{
    unsigned n = r->op == OP_READ ? settings->pieces : 1;
    uint32_t at = 0;

    for (unsigned i = 0; i < n; i++) {
        uint32_t end = (uint32_t)((uint64_t)r->len * (i + 1) / n);
        sgl[i] = (struct iwarp_sge){(char *)r->addr + at, end - at, stag_of(link, r->addr)};
        at = end;
    }
    return n;
}

void side_post(struct side_link *link, const struct side_request *r)
{
    static const enum iwarp_wr_opcode opcodes[] = {
        [OP_SEND] = IWARP_WR_SEND,         [OP_SEND_SE] = IWARP_WR_SEND,
        [OP_SEND_INV] = IWARP_WR_SEND_INV, [OP_SEND_SE_INV] = IWARP_WR_SEND_INV,
        [OP_WRITE] = IWARP_WR_WRITE,       [OP_READ] = IWARP_WR_READ};
    struct iwarp_sge sgl[MAX_PIECES];
    struct iwarp_send_wr wr = {.wr_id = r->id,
                               .opcode = opcodes[r->op],
                               .sg_list = sgl,
                               .num_sge = cut(link, r, sgl),
                               .invalidate_stag = r->remote_stag,
                               .remote_stag = r->remote_stag,
                               .remote_to = r->remote_to};

    if (r->op == OP_SEND_SE || r->op == OP_SEND_SE_INV) {
        wr.flags = IWARP_WR_SOLICITED;
    }
    must(iwarp_post_send(link->qp, &wr, NULL), "post");
}

bool side_poll(struct side_link *link, struct side_done *done)
{
    static char status[40];
    struct iwarp_wc wc;

    if (iwarp_cq_poll(link->cq, &wc, 1) != 1) {
        return false;
    }
    snprintf(status, sizeof status, "%s",
             wc.status == IWARP_WC_SUCCESS ? "ok" : iwarp_wc_status_text(wc.status));
    for (char *c = status; *c; c++) {
        *c = *c == ' ' ? '-' : *c;
    }
    *done = (struct side_done){.id = wc.wr_id, .status = status, .receive = false};
    if (wc.status == IWARP_WC_SUCCESS) {
        done->len = wc.byte_len;
        done->receive = wc.opcode == IWARP_WC_RECV;
        done->invalidated = (wc.flags & IWARP_WC_WITH_INVALIDATE) != 0;
        done->stag = wc.invalidated_stag;
    }
    return true;
}

void side_arm(struct side_link *link)
{
    must(iwarp_cq_arm(link->cq, false), "arm");
}

void side_sleep(struct side_link *link, int ms)
{
    struct pollfd p = {.fd = iwarp_cq_fd(link->cq), .events = POLLIN};

    poll(&p, 1, ms);
    iwarp_cq_drain(link->cq);
}

bool side_tells_invalidation(void)
{
    return true;
}

bool side_tells_solicited(void)
{
    return true;
}

void side_watch_solicited(struct side_link *link)
{
    must(iwarp_cq_arm(link->cq, true), "arm");
}

bool side_solicited(struct side_link *link)
{
    struct pollfd p = {.fd = iwarp_cq_fd(link->cq), .events = POLLIN};

    return poll(&p, 1, 100) == 1;
}

void side_disconnect(struct side_link *link)
{
    must(iwarp_disconnect(link->conn), "disconnect");
}

void side_abort(struct side_link *link)
{
    must(iwarp_abort(link->conn), "abort");
}

bool side_ended(struct side_link *link)
{
    return iwarp_conn_wait_end(link->conn, 0) == IWARP_OK;
}

void side_why(struct side_link *link, char *text, size_t size)
{
    const struct iwarp_fault *fault = iwarp_conn_fault(link->conn);
    struct iwarp_qp_info info = {.size = sizeof info};
    char sentence[300];
    unsigned layer, type, code;
    const char *at;

    if (!fault) {
        snprintf(text, size, "end=%s", side_ended(link) ? "orderly" : "none");
        return;
    }
    iwarp_fault_text(fault, sentence, sizeof sentence);
    at = strstr(sentence, "a Terminate: layer ");
    if (at &&
        sscanf(at, "a Terminate: layer %u, error type %u, code %x", &layer, &type, &code) == 3) {
        snprintf(text, size, "end=%s heard=%u/%u/%02x", iwarp_fault_name(iwarp_fault_code(fault)),
                 layer, type, code);
        return;
    }
    must(iwarp_qp_query(link->qp, &info), "query");
    snprintf(text, size, "end=%s", iwarp_fault_name(iwarp_fault_code(fault)));
    if (info.terminate_len >= 2 && !info.terminate_received) {
        size_t len = strlen(text);

        snprintf(text + len, size - len, " said=%u/%u/%02x", info.terminate[0] >> 4,
                 info.terminate[0] & 15u, info.terminate[1]);
    }
}

void side_info(struct side_link *link, char *text, size_t size)
{
    struct iwarp_conn_info info = {.size = sizeof info};

    if (iwarp_conn_info(link->conn, &info) != IWARP_OK) {
        snprintf(text, size, "no-info");
        return;
    }
    snprintf(text, size, "rev=%u crc=%d ird=%u ord=%u rtr=%u mulpdu=%u", info.mpa_rev, info.crc,
             info.ird, info.ord, info.rtr, info.mulpdu);
}
