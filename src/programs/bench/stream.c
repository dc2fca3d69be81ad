/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One stream of RDMA Writes, RDMA Reads or Sends, as fast as it goes. Zero-length Sends are the
 * signals between the two sides: start, stop, and what became of the checks. The clock runs from
 * the answer to "start" to the answer to "stop", which comes behind all data. Then memory is
 * checked, filled anew, sent round once more without the clock, and checked again.
 */
#include "bench.h"

#include <string.h>

enum kind { KIND_WRITE, KIND_READ, KIND_SEND };

#define CHAIN_MAX 256u

struct flow {
    struct bench_side side;
    enum kind kind;
    size_t slots;       /* messages in the footprint */
    uint64_t posted;    /* messages */
    unsigned in_flight; /* messages without a completion */
    unsigned credit;    /* SEND: receives that the peer is known to have posted */
    unsigned grant;     /* SEND: how many receives one credit message stands for */
    unsigned signals;   /* zero-length messages that came, beside credits */
    struct iwarp_send_wr wr[CHAIN_MAX];
    struct iwarp_sge sge[CHAIN_MAX];
};

static enum kind kind_of(const struct bench_options *options)
{
    return strcmp(options->test, "read") == 0   ? KIND_READ
           : strcmp(options->test, "send") == 0 ? KIND_SEND
                                                : KIND_WRITE;
}

static void flow_open(struct flow *flow, const struct bench_options *options)
{
    memset(flow, 0, sizeof *flow);
    bench_side_open(&flow->side, options);
    flow->kind = kind_of(options);
    flow->slots = options->footprint / options->octets;
    flow->grant = options->depth >= 8 ? options->depth / 4 : 1;
    flow->credit = options->depth;
}

/* The same octets in each slot: which receive takes which Send is not the sender's choice. */
static void fill_slots(const struct flow *flow, uint64_t seed)
{
    size_t octets = flow->side.options->octets;

    for (size_t i = 0; i < flow->slots; i++) {
        bench_fill(flow->side.memory + i * octets, octets, seed);
    }
}

static void check_slots(const struct flow *flow, size_t slots, uint64_t seed)
{
    size_t octets = flow->side.options->octets;
    size_t where;

    for (size_t i = 0; i < slots && i < flow->slots; i++) {
        if (!bench_check(flow->side.memory + i * octets, octets, seed, &where)) {
            bench_fail("wrong memory: slot %zu of %zu, octet %zu", i, flow->slots, where);
        }
    }
}

static void post_signal(struct flow *flow)
{
    bench_post(&flow->side, &(struct iwarp_send_wr){.opcode = IWARP_WR_SEND});
}

/* --- client ---------------------------------------------------------------------------------- */

static void client_post_receive(struct flow *flow)
{
    bench_post_receive(&flow->side, flow->side.options->footprint + 64, 8);
}

/* Completions that are there, at least one. What completes is told by wr_id: that many messages. */
static void client_reap(struct flow *flow)
{
    struct iwarp_wc wc[32];
    int n = bench_take(&flow->side, wc, 32);

    if (n == 0) {
        bench_fail("the server has gone");
    }
    for (int i = 0; i < n; i++) {
        if (wc[i].opcode != IWARP_WC_RECV) {
            flow->in_flight -= (unsigned)wc[i].wr_id;
        } else {
            client_post_receive(flow);
            if (flow->kind == KIND_SEND && wc[i].byte_len == 8) {
                flow->credit += flow->grant;
            } else {
                flow->signals++;
            }
        }
    }
}

static void client_wait_signal(struct flow *flow)
{
    while (flow->signals == 0) {
        client_reap(flow);
    }
    flow->signals--;
}

static void prepare_chain(struct flow *flow)
{
    const struct bench_options *options = flow->side.options;
    static const enum iwarp_wr_opcode opcode[] = {IWARP_WR_WRITE, IWARP_WR_READ, IWARP_WR_SEND};

    for (unsigned i = 0; i < options->chain; i++) {
        flow->sge[i] = (struct iwarp_sge){NULL, (uint32_t)options->octets, flow->side.stag};
        flow->wr[i] =
            (struct iwarp_send_wr){.next = i + 1 < options->chain ? &flow->wr[i + 1] : NULL,
                                   .opcode = opcode[flow->kind],
                                   .sg_list = &flow->sge[i],
                                   .num_sge = 1,
                                   .remote_stag = flow->side.peer.stag};
    }
}

/* Post n messages (at most a chain of them), the last one signaled. */
static void client_post(struct flow *flow, unsigned n)
{
    const struct bench_options *options = flow->side.options;
    struct iwarp_send_wr *first = &flow->wr[options->chain - n];
    unsigned flags = options->inlined ? IWARP_WR_INLINE : 0;

    while (flow->in_flight + n > options->depth || (flow->kind == KIND_SEND && flow->credit < n)) {
        client_reap(flow);
    }
    for (unsigned i = 0; i < n; i++) {
        size_t at = (size_t)((flow->posted + i) % flow->slots) * options->octets;
        flow->sge[options->chain - n + i].addr = flow->side.memory + at;
        first[i].remote_to = flow->side.peer.to + at;
        first[i].flags = flags;
    }
    first[n - 1].flags |= IWARP_WR_SIGNALED;
    first[n - 1].wr_id = n;
    bench_post(&flow->side, first);
    flow->posted += n;
    flow->in_flight += n;
    flow->credit -= flow->kind == KIND_SEND ? n : 0;
}

static void client_drain(struct flow *flow)
{
    while (flow->in_flight > 0) {
        client_reap(flow);
    }
}

/* The server is told how many messages there were, so that it knows how much to check. */
static void client_stop(struct flow *flow)
{
    uint8_t *page = flow->side.memory + flow->side.options->footprint;
    struct iwarp_sge sge = {page, 8, flow->side.stag};

    client_drain(flow);
    memcpy(page, &flow->posted, 8);
    bench_post(&flow->side, &(struct iwarp_send_wr){.opcode = IWARP_WR_WRITE,
                                                    .sg_list = &sge,
                                                    .num_sge = 1,
                                                    .remote_stag = flow->side.peer.stag,
                                                    .remote_to = flow->side.peer.to +
                                                                 flow->side.options->footprint});
    post_signal(flow);
    client_wait_signal(flow);
}

/* Once more round, with other octets. */
static void client_verify(struct flow *flow, uint64_t timed)
{
    bool reading = flow->kind == KIND_READ;

    if (reading) {
        check_slots(flow, (size_t)timed, 1);
    }
    client_wait_signal(flow); /* the server has checked, or filled, its memory */
    if (!reading) {
        fill_slots(flow, 2);
    }
    flow->posted = 0;
    while (flow->posted < flow->slots) {
        uint64_t left = flow->slots - flow->posted;
        unsigned chain = flow->side.options->chain;
        client_post(flow, left < chain ? (unsigned)left : chain);
    }
    client_drain(flow);
    if (reading) {
        check_slots(flow, flow->slots, 2);
    }
    post_signal(flow);
    client_wait_signal(flow);
}

static double fpdus_sent(struct bench_side *side)
{
    struct iwarp_qp_stats stats = {.size = sizeof stats};

    bench_must(iwarp_qp_stats(side->qp, &stats), "ask for statistics");
    return (double)stats.sent.fpdus;
}

static void stream_result(struct flow *flow, uint64_t messages, double seconds, double cpu,
                          double fpdus, const struct bench_report *peer, bool heard)
{
    bench_result_begin(flow->side.options);
    bench_result_stream(flow->side.options, messages, seconds, cpu, heard ? peer->cpu : -1);
    bench_result_number("fpdus_sent", fpdus);
    bench_result_end();
}

void bench_stream_client(struct bench_link *link)
{
    static struct flow flow;
    const struct bench_options *options = link->options;
    struct bench_report peer;

    flow_open(&flow, options);
    if (flow.kind != KIND_READ) {
        fill_slots(&flow, 1);
    }
    for (unsigned i = 0; i < 32; i++) {
        client_post_receive(&flow);
    }
    bench_side_connect(&flow.side, link);
    prepare_chain(&flow);
    post_signal(&flow);
    client_wait_signal(&flow);
    double fpdus = fpdus_sent(&flow.side), cpu = bench_cpu(), begin = bench_now();
    while (bench_now() - begin < options->seconds) {
        client_post(&flow, options->chain);
    }
    uint64_t messages = flow.posted;
    client_stop(&flow);
    double seconds = bench_now() - begin;
    cpu = bench_cpu() - cpu;
    fpdus = fpdus_sent(&flow.side) - fpdus;
    client_verify(&flow, messages);
    bool heard = bench_hear(link, &peer, sizeof peer);
    bench_side_close(&flow.side);
    stream_result(&flow, messages, seconds, cpu, fpdus, &peer, heard);
}

/* --- server ---------------------------------------------------------------------------------- */

static void server_post_receive(struct flow *flow)
{
    const struct bench_options *options = flow->side.options;

    if (flow->kind == KIND_SEND) {
        bench_post_receive(&flow->side, (size_t)(flow->posted++ % flow->slots) * options->octets,
                           options->octets);
    } else {
        bench_post_receive(&flow->side, 0, 0);
    }
}

/* A message of 8 octets: so many more receives are posted. */
static void server_grant(struct flow *flow)
{
    struct iwarp_sge sge = {flow->side.memory + flow->side.options->footprint + 128, 8,
                            flow->side.stag};

    bench_post(&flow->side,
               &(struct iwarp_send_wr){.opcode = IWARP_WR_SEND, .sg_list = &sge, .num_sge = 1});
}

/* Serve until the next signal. */
static void server_until_signal(struct flow *flow)
{
    struct iwarp_wc wc[32];

    while (flow->signals == 0) {
        int n = bench_take(&flow->side, wc, 32);
        if (n == 0) {
            bench_fail("the client has gone");
        }
        for (int i = 0; i < n; i++) {
            if (wc[i].opcode != IWARP_WC_RECV) {
                continue;
            }
            server_post_receive(flow);
            if (wc[i].byte_len == 0) {
                flow->signals++;
            } else if (++flow->credit == flow->grant) {
                flow->credit = 0;
                server_grant(flow);
            }
        }
    }
    flow->signals--;
}

void bench_stream_server(struct bench_link *link)
{
    static struct flow flow;
    const struct bench_options *options = link->options;
    struct bench_report report = {0};
    uint64_t count;

    flow_open(&flow, options);
    flow.credit = 0;
    for (unsigned i = 0; i < options->depth + 8; i++) {
        server_post_receive(&flow);
    }
    if (flow.kind == KIND_READ) {
        fill_slots(&flow, 1);
    }
    bench_side_serve(&flow.side, link);
    server_until_signal(&flow);
    double cpu = bench_cpu();
    post_signal(&flow);
    server_until_signal(&flow);
    report.cpu = bench_cpu() - cpu;
    post_signal(&flow);
    memcpy(&count, flow.side.memory + options->footprint, 8);
    if (flow.kind == KIND_READ) {
        fill_slots(&flow, 2);
    } else {
        check_slots(&flow, (size_t)count, 1);
    }
    post_signal(&flow);
    server_until_signal(&flow);
    if (flow.kind != KIND_READ) {
        check_slots(&flow, flow.slots, 2);
    }
    post_signal(&flow);
    bench_tell(link, &report, sizeof report);
    bench_side_close(&flow.side);
}
