/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the examples over TCP share: one side of a connection with its device, queues and buffer, a
 * listener on a free port of 127.0.0.1, and a wait for completions. Errors end the program.
 */
#ifndef EXAMPLES_SIDE_H
#define EXAMPLES_SIDE_H

#include <arpa/inet.h>
#include <iwarp/iwarp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct side {
    struct iwarp_device *device;
    struct iwarp_pd *pd;
    struct iwarp_cq *cq;
    struct iwarp_qp *qp;
    struct iwarp_mr *mr; /* of buffer */
    struct iwarp_conn *conn;
    struct iwarp_eq *eq; /* listening side */
    struct iwarp_listener *listener;
    struct sockaddr_storage addr;
    socklen_t addr_len;
    char buffer[1024];
};

/* Where a peer may reach memory of this side; sent as private data. Both ends are this program, so
 * host byte order will do here. */
struct advert {
    uint64_t to;
    uint32_t stag;
    uint32_t len;
};

static inline void must(enum iwarp_status status, const char *what)
{
    if (status != IWARP_OK) {
        fprintf(stderr, "%s: %s\n", what, iwarp_last_error());
        exit(1);
    }
}

/* device may be NULL for the default options. */
static inline void side_open_with(struct side *s, unsigned access,
                                  const struct iwarp_device_options *device)
{
    struct iwarp_qp_options options;

    memset(s, 0, sizeof *s);
    must(iwarp_device_open(device, &s->device), "open a device");
    must(iwarp_pd_create(s->device, &s->pd), "create a protection domain");
    must(iwarp_cq_create(s->device, 16, NULL, &s->cq), "create a completion queue");
    must(iwarp_mr_register(s->pd, s->buffer, sizeof s->buffer, access, &s->mr),
         "register the buffer");
    iwarp_qp_options_init(&options);
    options.send_cq = options.recv_cq = s->cq;
    options.signal_all = true;
    must(iwarp_qp_create(s->pd, &options, &s->qp), "create a queue pair");
}

static inline void side_open(struct side *s, unsigned access)
{
    side_open_with(s, access, NULL);
}

static inline void side_listen(struct side *s)
{
    struct sockaddr_in any_port;

    memset(&any_port, 0, sizeof any_port);
    any_port.sin_family = AF_INET;
    any_port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    must(iwarp_eq_create(s->device, &s->eq), "create an event queue");
    must(iwarp_listen(s->device, (struct sockaddr *)&any_port, sizeof any_port, NULL, 16, s->eq,
                      NULL, &s->listener),
         "listen");
    must(iwarp_listener_addr(s->listener, &s->addr, &s->addr_len), "ask for the port");
}

/* Wait for one connection request and accept it. */
static inline void side_accept(struct side *s, const void *private_data, size_t pd_len)
{
    struct iwarp_event event;

    must(iwarp_eq_get(s->eq, &event, 10000), "wait for a connection request");
    s->conn = event.conn;
    must(iwarp_accept(s->conn, s->qp, NULL, private_data, pd_len, NULL), "accept");
}

static inline void side_connect(struct side *s, const struct side *server)
{
    must(iwarp_connect(s->qp, (const struct sockaddr *)&server->addr, server->addr_len, NULL, NULL,
                       0, NULL, NULL, &s->conn),
         "connect");
    must(iwarp_conn_wait(s->conn, 10000), "connect");
}

static inline void side_close(struct side *s)
{
    must(iwarp_disconnect(s->conn), "disconnect");
    must(iwarp_conn_wait_end(s->conn, 10000), "wait for the end");
    iwarp_conn_destroy(s->conn);
    iwarp_qp_destroy(s->qp);
    iwarp_mr_deregister(s->mr);
    iwarp_cq_destroy(s->cq);
    iwarp_pd_destroy(s->pd);
    if (s->listener) {
        iwarp_listener_close(s->listener);
    }
    if (s->eq) {
        iwarp_eq_destroy(s->eq);
    }
    must(iwarp_device_close(s->device), "close the device");
}

static inline struct iwarp_sge side_sge(struct side *s, size_t offset, size_t len)
{
    struct iwarp_sge sge = {s->buffer + offset, (uint32_t)len, iwarp_mr_stag(s->mr)};
    return sge;
}

/* A message that arrives without a receive ends the connection: post before it can come. */
static inline void side_post_receive(struct side *s, size_t offset, size_t len)
{
    struct iwarp_sge sge = side_sge(s, offset, len);
    struct iwarp_recv_wr wr = {NULL, 0, &sge, 1, 0};

    must(iwarp_post_recv(s->qp, &wr, NULL), "post a receive");
}

static inline void side_send(struct side *s, size_t offset, size_t len)
{
    struct iwarp_sge sge = side_sge(s, offset, len);
    struct iwarp_send_wr wr = {.opcode = IWARP_WR_SEND, .sg_list = &sge, .num_sge = 1};

    must(iwarp_post_send(s->qp, &wr, NULL), "post a send");
}

/* Wait for the next completion of that kind. False: the connection has ended. */
static inline bool side_wait(struct side *s, enum iwarp_wc_opcode opcode, struct iwarp_wc *wc)
{
    char why[512];

    do {
        int n = iwarp_cq_wait(s->cq, wc, 1, 10000);
        if (n != 1) {
            fprintf(stderr, "no completion: %s\n", n < 0 ? iwarp_last_error() : "timed out");
            exit(1);
        }
        if (wc->status == IWARP_WC_FLUSHED) {
            return false;
        }
        if (wc->status != IWARP_WC_SUCCESS) {
            iwarp_fault_text(wc->fault, why, sizeof why);
            fprintf(stderr, "%s: %s\n", iwarp_wc_status_text(wc->status), why);
            exit(1);
        }
    } while (wc->opcode != opcode);
    return true;
}

/* The same for a program that cannot go on without it. */
static inline void side_need(struct side *s, enum iwarp_wc_opcode opcode, struct iwarp_wc *wc)
{
    if (!side_wait(s, opcode, wc)) {
        fprintf(stderr, "the connection has ended\n");
        exit(1);
    }
}

#endif
