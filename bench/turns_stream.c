/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Streams of RDMA Writes, RDMA Reads or Sends in turns. All queue pairs are full from the beginning
 * of a turn, and empty at its end. For Sends the server says by messages of 8 octets how many
 * receives it has posted anew. What arrives is for iwarp-bench and the tests to check.
 */
#include "flow.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool sending(const struct bench_options *options)
{
    return strcmp(options->test, "send") == 0;
}

void flow_prepare_chain(struct flow *flow)
{
    const struct bench_options *options = flow->options;
    enum iwarp_wr_opcode opcode = sending(options)                     ? IWARP_WR_SEND
                                  : strcmp(options->test, "read") == 0 ? IWARP_WR_READ
                                                                       : IWARP_WR_WRITE;

    for (unsigned i = 0; i < options->chain; i++) {
        flow->sge[i] = (struct iwarp_sge){NULL, (uint32_t)options->octets, flow->side.stag};
        flow->wr[i] =
            (struct iwarp_send_wr){.next = i + 1 < options->chain ? &flow->wr[i + 1] : NULL,
                                   .opcode = opcode,
                                   .flags = options->inlined ? IWARP_WR_INLINE : 0,
                                   .sg_list = &flow->sge[i],
                                   .num_sge = 1,
                                   .remote_stag = flow->side.peer.stag};
    }
    flow->wr[options->chain - 1].flags |= IWARP_WR_SIGNALED;
    flow->credit = options->depth;
}

/* The last request of a chain is signaled; its wr_id says which queue pair may have the next. */
static void post_chain(struct flow *flow, uint64_t which)
{
    const struct bench_options *options = flow->options;

    for (unsigned i = 0; i < options->chain; i++) {
        flow->sge[i].addr = flow->side.memory + flow->at;
        flow->wr[i].remote_to = flow->side.peer.to + flow->at;
        flow->at += options->octets;
        flow->at = flow->at < options->footprint ? flow->at : 0;
    }
    flow->wr[options->chain - 1].wr_id = which;
    bench_must(iwarp_post_send(flow->qp[which], flow->wr, NULL), "post a request");
}

/* How many chains can go: those whose place is free, and for which the peer has receives. */
static unsigned may_go(struct flow *flow, unsigned idle)
{
    unsigned chain = flow->options->chain, n = flow->credit / chain;

    if (!sending(flow->options)) {
        return idle;
    }
    n = n < idle ? n : idle;
    flow->credit -= n * chain;
    return n;
}

/* Completions, at least one: of chains, whose queue pairs are told, and credit messages. */
static unsigned reap(struct flow *flow, uint64_t which[FLOW_TAKE])
{
    struct iwarp_wc wc[FLOW_TAKE];
    int n = bench_take(&flow->side, wc, FLOW_TAKE);
    unsigned chains = 0;

    if (n == 0) {
        bench_fail("the server has gone");
    }
    for (int i = 0; i < n; i++) {
        if (wc[i].opcode == IWARP_WC_RECV) {
            flow_post_receive(flow, flow->qp[0]);
            flow->credit += flow->grant;
        } else {
            which[chains++] = wc[i].wr_id;
        }
    }
    return chains;
}

void flow_stream(void *arg, struct turn *turn)
{
    struct flow *flow = (struct flow *)arg;
    const struct bench_options *options = flow->options;
    unsigned places = flow->count * (options->depth / options->chain);
    unsigned in_flight = 0, ended = 0;
    uint64_t which[FLOW_TAKE];
    bool more = true;

    for (unsigned n = may_go(flow, places); in_flight < n; in_flight++) {
        post_chain(flow, in_flight % flow->count);
    }
    while (more) {
        ended = reap(flow, which);
        more = turn_goes_on(turn, (uint64_t)ended * options->chain);
        in_flight -= ended;
        if (!more) {
            break;
        }
        /* With one queue pair places are alike; with more, each chain has its successor. */
        unsigned n = may_go(flow, flow->count > 1 ? ended : places - in_flight);
        for (unsigned i = 0; i < n; i++) {
            post_chain(flow, flow->count > 1 ? which[i] : 0);
        }
        in_flight += n;
    }
    while (in_flight > 0) {
        in_flight -= reap(flow, which);
    }
}

/* --- the two processes ----------------------------------------------------------------------- */

/* A message of 8 octets: so many more receives are posted. */
static void grant(struct flow *flow)
{
    struct iwarp_sge sge = {flow->side.memory + flow->options->footprint + 128, 8, flow->side.stag};

    flow->credit = 0;
    bench_must(iwarp_post_send(
                   flow->qp[0],
                   &(struct iwarp_send_wr){.opcode = IWARP_WR_SEND, .sg_list = &sge, .num_sge = 1},
                   NULL),
               "post a credit");
}

/* Completions; with polled progress it polls while a turn is on, and sleeps in between. */
static int take_some(struct flow *flow, struct bench_link *link, struct iwarp_wc *wc)
{
    if (!flow->options->polled && !flow->options->spin) {
        return iwarp_cq_wait(flow->side.cq, wc, FLOW_TAKE, -1);
    }
    for (;;) {
        while (turn_on()) {
            int n = iwarp_cq_poll(flow->side.cq, wc, FLOW_TAKE);
            if (n != 0) {
                return n;
            }
        }
        turn_await(link);
    }
}

void turns_stream_server(struct bench_link *link)
{
    static struct flow flow;
    struct iwarp_wc wc[FLOW_TAKE];

    flow_open(&flow, link->options);
    turn_serve();
    flow_accept(&flow, link);
    for (;;) {
        int n = take_some(&flow, link, wc);
        if (n < 0) {
            bench_fail("no completion: %s", iwarp_last_error());
        }
        for (int i = 0; i < n; i++) {
            if (wc[i].status != IWARP_WC_SUCCESS) {
                _exit(0); /* the client has ended */
            }
            flow_post_receive(&flow, flow.qp[0]);
            if (++flow.credit == flow.grant) {
                grant(&flow);
            }
        }
    }
}

void turns_stream_client(struct bench_link *link)
{
    static struct flow flow;

    flow_open(&flow, link->options);
    flow_connect(&flow, link);
    flow_prepare_chain(&flow);
    turn_play(link, flow_stream, &flow);
}
