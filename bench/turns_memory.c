/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Small RDMA Writes through memory in turns, a thread for each worker of one device, between two
 * queue pairs of the thread. They go to one region, or to --count regions in an order without a
 * pattern that a processor could foresee, which is as long for one region as for many.
 */
#include "flow.h"

#include <stdlib.h>
#include <string.h>

#define ORDER (1u << 20)

static pthread_barrier_t begin_turn, end_turn;
static uint32_t *stags[64]; /* of each thread, of the target regions, in the order of use */

static void register_targets(struct flow *flow)
{
    const struct bench_options *options = flow->options;
    uint32_t *stag = calloc(options->count, sizeof *stag);
    uint64_t random = 1;
    struct iwarp_mr *mr;

    stags[flow->number] = calloc(ORDER, sizeof(uint32_t));
    if (!stag || !stags[flow->number]) {
        bench_fail("no memory");
    }
    for (unsigned i = 0; i < options->count; i++) {
        bench_must(iwarp_mr_register(flow->side.pd, flow->side.memory, options->octets,
                                     IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE |
                                         IWARP_ACCESS_ZERO_BASED,
                                     &mr),
                   "register memory");
        stag[i] = iwarp_mr_stag(mr);
    }
    for (unsigned i = 0; i < ORDER; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        stags[flow->number][i] = stag[(random >> 33) % options->count];
    }
    free(stag);
}

static void open_pair(struct flow *flow, const struct bench_options *options,
                      struct iwarp_device *device, unsigned number)
{
    struct iwarp_conn_options conn_options;
    struct iwarp_conn *other;
    struct bench_side *side = &flow->side;

    flow->options = side->options = options;
    flow->count = 1;
    flow->number = number;
    flow->qp = calloc(2, sizeof(struct iwarp_qp *));
    flow->conn = calloc(1, sizeof(struct iwarp_conn *));
    side->device = device;
    side->memory = aligned_alloc(4096, (options->footprint + 8191) / 4096 * 4096);
    if (!flow->qp || !flow->conn || !side->memory) {
        bench_fail("no memory");
    }
    bench_must(iwarp_pd_create(device, &side->pd), "create a protection domain");
    bench_must(iwarp_cq_create(device, 4096, NULL, &side->cq), "create a completion queue");
    register_targets(flow);
    side->peer = (struct bench_advert){.stag = stags[number][0]};
    flow->qp[0] = flow_create_qp(flow);
    flow->qp[1] = flow_create_qp(flow);
    bench_conn_options(options, &conn_options);
    conn_options.worker = number + 1;
    bench_must(
        iwarp_connect_pair(flow->qp[0], flow->qp[1], &conn_options, NULL, &flow->conn[0], &other),
        "connect");
    bench_must(iwarp_conn_wait(flow->conn[0], BENCH_PATIENCE_MS), "connect");
    bench_must(iwarp_conn_wait(other, BENCH_PATIENCE_MS), "connect");
    flow_prepare_chain(flow);
}

static void post_chain(struct flow *flow)
{
    const uint32_t *stag = stags[flow->number];

    for (unsigned i = 0; i < flow->options->chain; i++) {
        flow->sge[i].addr = flow->side.memory;
        flow->wr[i].flags |= IWARP_WR_INLINE;
        flow->wr[i].remote_stag = stag[flow->at++ % ORDER];
    }
    bench_must(iwarp_post_send(flow->qp[0], flow->wr, NULL), "post a request");
}

static void play(struct flow *flow)
{
    struct iwarp_wc wc[FLOW_TAKE];
    unsigned chain = flow->options->chain, in_flight = flow->options->depth / chain;
    int n = 0;

    for (unsigned i = 0; i < in_flight; i++) {
        post_chain(flow);
    }
    do {
        for (int i = 0; i < n; i++) {
            post_chain(flow);
        }
        n = bench_take(&flow->side, wc, FLOW_TAKE);
    } while (turn_goes_on(&flow->turn, (uint64_t)n * chain));
    for (in_flight -= (unsigned)n; in_flight > 0;) {
        in_flight -= (unsigned)bench_take(&flow->side, wc, FLOW_TAKE);
    }
}

static void *run_thread(void *arg)
{
    struct flow *flow = (struct flow *)arg;

    bench_pin(flow->options->cores[1 - flow->number % 2]);
    for (;;) {
        pthread_barrier_wait(&begin_turn);
        play(flow);
        pthread_barrier_wait(&end_turn);
    }
    return NULL;
}

int turns_memory(const struct bench_options *given)
{
    static struct flow flow[64];
    static struct bench_options options;
    struct iwarp_device *device;
    struct turn turn;

    options = *given;
    options.inlined = true;
    bench_device_open(&options, &device);
    pthread_barrier_init(&begin_turn, NULL, options.workers + 1);
    pthread_barrier_init(&end_turn, NULL, options.workers + 1);
    for (unsigned i = 0; i < options.workers; i++) {
        open_pair(&flow[i], &options, device, i);
        if (pthread_create(&flow[i].thread, NULL, run_thread, &flow[i]) != 0) {
            bench_fail("no thread");
        }
    }
    turn_ready();
    while (turn_next(&turn)) {
        double rate = 0;
        for (unsigned i = 0; i < options.workers; i++) {
            flow[i].turn = turn;
        }
        pthread_barrier_wait(&begin_turn);
        pthread_barrier_wait(&end_turn);
        for (unsigned i = 0; i < options.workers; i++) {
            rate += (double)flow[i].turn.messages / (flow[i].turn.now - flow[i].turn.begin);
        }
        turn = flow[0].turn;
        turn_answer(&turn, rate);
    }
    exit(0);
}
