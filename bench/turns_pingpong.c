/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ping-pong in turns: a Send to and fro, or an RDMA Write into memory that the other side spins on.
 * Each message carries a mark, which has to come back.
 */
#include "flow.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static bool writing(const struct bench_options *options)
{
    return strcmp(options->test, "pingpong-write") == 0;
}

static _Atomic uint8_t *spot(const struct flow *flow)
{
    return (_Atomic uint8_t *)(flow->side.memory + flow->options->octets - 1);
}

static void send_mark(struct flow *flow, uint8_t mark)
{
    const struct bench_options *options = flow->options;
    uint8_t *out = flow->side.memory + options->footprint;
    struct iwarp_sge sge = {out, (uint32_t)options->octets, flow->side.stag};
    struct iwarp_send_wr wr = {.opcode = writing(options) ? IWARP_WR_WRITE : IWARP_WR_SEND,
                               .flags = options->inlined ? IWARP_WR_INLINE : 0,
                               .sg_list = &sge,
                               .num_sge = 1,
                               .remote_stag = flow->side.peer.stag,
                               .remote_to = flow->side.peer.to};

    out[options->octets - 1] = mark;
    bench_must(iwarp_post_send(flow->qp[0], &wr, NULL), "post a request");
}

/* --- client ---------------------------------------------------------------------------------- */

static void take_mark(struct flow *flow, uint8_t mark)
{
    struct iwarp_wc wc;

    if (writing(flow->options)) { /* polling moves the octets, memory tells that they have come */
        while (atomic_load_explicit(spot(flow), memory_order_acquire) != mark) {
            if (iwarp_cq_poll(flow->side.cq, &wc, 1) != 0) {
                bench_fail("the server has gone");
            }
        }
        return;
    }
    if (bench_take(&flow->side, &wc, 1) == 0) {
        bench_fail("the server has gone");
    }
    if (atomic_load_explicit(spot(flow), memory_order_acquire) != mark) {
        bench_fail("a wrong octet came");
    }
    flow_post_receive(flow, flow->qp[0]);
}

static void play(void *arg, struct turn *turn)
{
    static uint8_t mark;
    struct flow *flow = (struct flow *)arg;

    do {
        send_mark(flow, ++mark);
        take_mark(flow, mark);
    } while (turn_round_trip(turn));
}

void turns_pingpong_client(struct bench_link *link)
{
    static struct flow flow;

    flow_open(&flow, link->options);
    flow_connect(&flow, link);
    turn_play(link, play, &flow);
}

/* --- server ---------------------------------------------------------------------------------- */

/* The next mark that has come. */
static uint8_t await_mark(struct flow *flow, struct bench_link *link, uint8_t before)
{
    const struct bench_options *options = flow->options;
    bool polls = options->polled || options->spin;
    struct iwarp_wc wc;

    for (;;) {
        int n = 0;
        while (n == 0 && (!polls || turn_on())) {
            n = polls ? iwarp_cq_poll(flow->side.cq, &wc, 1)
                      : iwarp_cq_wait(flow->side.cq, &wc, 1, -1);
            uint8_t mark = atomic_load_explicit(spot(flow), memory_order_acquire);
            if (n == 0 && writing(options) && mark != before) {
                return mark;
            }
        }
        if (n == 0) {
            turn_await(link);
        } else if (n < 0 || wc.status != IWARP_WC_SUCCESS) {
            _exit(n < 0); /* the client has ended */
        } else {
            flow_post_receive(flow, flow->qp[0]);
            return atomic_load_explicit(spot(flow), memory_order_acquire);
        }
    }
}

void turns_pingpong_server(struct bench_link *link)
{
    static struct flow flow;
    uint8_t mark = 0;

    if (writing(link->options) && !link->options->polled) {
        bench_fail("pingpong-write spins on memory: it takes --polled");
    }
    flow_open(&flow, link->options);
    turn_serve();
    flow_accept(&flow, link);
    for (;;) {
        mark = await_mark(&flow, link, mark);
        send_mark(&flow, mark);
    }
}
