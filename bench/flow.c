/* SPDX-License-Identifier: BSD-2-Clause */
#include "flow.h"

#include <stdlib.h>
#include <string.h>

#define RECEIVES 16u

struct iwarp_qp *flow_create_qp(const struct flow *flow)
{
    const struct bench_options *options = flow->options;
    struct iwarp_qp_options qp_options;
    struct iwarp_qp *qp;

    iwarp_qp_options_init(&qp_options);
    qp_options.send_cq = qp_options.recv_cq = flow->side.cq;
    qp_options.max_send_wr = options->depth + RECEIVES;
    qp_options.max_recv_wr = flow->receives > 0 ? flow->receives : RECEIVES;
    qp_options.max_send_sge = qp_options.max_recv_sge = 1;
    qp_options.max_inline = options->inlined ? (unsigned)options->octets : 0;
    bench_must(iwarp_qp_create(flow->side.pd, &qp_options, &qp), "create a queue pair");
    return qp;
}

void flow_post_receive(const struct flow *flow, struct iwarp_qp *qp)
{
    struct iwarp_sge sge = {flow->side.memory, (uint32_t)flow->options->octets, flow->side.stag};
    struct iwarp_recv_wr wr = {.sg_list = &sge, .num_sge = 1};

    bench_must(iwarp_post_recv(qp, &wr, NULL), "post a receive");
}

void flow_open(struct flow *flow, const struct bench_options *options)
{
    unsigned count = options->count > 0 ? options->count : 1;
    bool sends = strcmp(options->test, "send") == 0;

    flow->options = options;
    flow->count = count;
    flow->qp = calloc(count, sizeof(struct iwarp_qp *));
    flow->conn = calloc(count, sizeof(struct iwarp_conn *));
    if (!flow->qp || !flow->conn) {
        bench_fail("no memory for %u connections", count);
    }
    flow->receives = RECEIVES + (sends ? options->depth : 0);
    flow->grant = options->depth >= 8 ? options->depth / 4 : 1;
    bench_raise_limit(count);
    bench_side_open_shared(&flow->side, options, count * (options->depth + flow->receives) + 256);
    for (unsigned i = 0; i < count; i++) {
        flow->qp[i] = flow_create_qp(flow);
        for (unsigned k = 0; k < flow->receives; k++) {
            flow_post_receive(flow, flow->qp[i]);
        }
    }
}

struct bench_advert flow_advert(const struct flow *flow)
{
    return (struct bench_advert){(uint64_t)(uintptr_t)flow->side.memory, flow->side.len,
                                 flow->side.stag, (uint32_t)flow->options->octets};
}

void flow_accept(struct flow *flow, struct bench_link *link)
{
    struct bench_advert advert = flow_advert(flow);
    struct bench_side *side = &flow->side;
    struct iwarp_event event;
    unsigned arrived = 0, established = 0;

    bench_must(iwarp_eq_create(side->device, &side->eq), "create an event queue");
    bench_listen(link, side->device, side->eq, 4096, &side->listener);
    while (established < flow->count) {
        bench_must(iwarp_eq_get(side->eq, &event, BENCH_PATIENCE_MS), "wait for connections");
        if (event.type == IWARP_EVENT_ESTABLISHED) {
            established++;
            continue;
        }
        if (event.type != IWARP_EVENT_REQUEST || arrived == flow->count) {
            bench_fail("a connection failed at the server");
        }
        size_t len;
        const void *data = iwarp_conn_private_data(event.conn, &len);
        if (len != sizeof side->peer) {
            bench_fail("the peer is not a benchmark of this kind");
        }
        memcpy(&side->peer, data, len);
        bench_must(
            iwarp_accept(event.conn, flow->qp[arrived++], NULL, &advert, sizeof advert, NULL),
            "accept");
    }
    bench_tell(link, "r", 1);
}

void flow_connect(struct flow *flow, struct bench_link *link)
{
    struct bench_advert advert = flow_advert(flow);
    struct iwarp_conn_options conn_options;
    struct sockaddr_storage addr;
    socklen_t addr_len;
    size_t len;
    char ready;

    bench_address(link, &addr, &addr_len);
    bench_conn_options(flow->options, &conn_options);
    for (unsigned i = 0; i < flow->count; i++) {
        bench_must(iwarp_connect(flow->qp[i], (struct sockaddr *)&addr, addr_len, &conn_options,
                                 &advert, sizeof advert, NULL, NULL, &flow->conn[i]),
                   "connect");
        bench_must(iwarp_conn_wait(flow->conn[i], BENCH_PATIENCE_MS), "connect");
    }
    const void *data = iwarp_conn_private_data(flow->conn[0], &len);
    if (len != sizeof flow->side.peer) {
        bench_fail("the peer is not a benchmark of this kind");
    }
    memcpy(&flow->side.peer, data, len);
    bench_hear(link, &ready, 1);
}
