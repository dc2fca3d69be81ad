/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The contender of bench/pairs: a benchmark that stays connected and works in turns. A line
 * "WARM LENGTH" (milliseconds) on standard input starts a turn; what was moved in LENGTH, after
 * WARM, is the answer, a rate per second. Between two turns nothing is in flight and nobody polls,
 * so that another contender has both cores.
 *
 * The calls are those of the public interface and nothing is checked but status and marks: it runs
 * with the libiwarp.so of either build, and what arrives is for iwarp-bench and the tests to check.
 * Usage: turns pingpong-send|write|memory|host [option of iwarp-bench...]
 */
#include "programs/bench/bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHAIN_MAX 256u
#define RECEIVES  16u
#define TAKE      64
#define COPIES    ((size_t)8 << 20) /* octets of a copy of `host`; more than L2 holds */

struct turn {
    double warm, length; /* seconds */
};

/* One end of one or more connections that share a completion queue. */
struct flow {
    const struct bench_options *options;
    struct bench_side side; /* without a queue pair of its own */
    struct iwarp_qp **qp;
    struct iwarp_conn **conn;
    unsigned count;   /* queue pairs */
    size_t at;        /* where in the footprint the next message is */
    pthread_t thread; /* of a pair in memory, as what follows */
    unsigned number;
    double rate;
    struct iwarp_send_wr wr[CHAIN_MAX];
    struct iwarp_sge sge[CHAIN_MAX];
};

/* A server with polled progress polls while this is set: both its processes see it. */
static atomic_bool *playing;

static bool next_turn(struct turn *turn)
{
    char line[80];

    if (!fgets(line, sizeof line, stdin) ||
        sscanf(line, "%lf %lf", &turn->warm, &turn->length) != 2) {
        return false;
    }
    turn->warm /= 1e3;
    turn->length /= 1e3;
    return true;
}

static void say_ready(void)
{
    printf("ready %s\n", iwarp_version());
    fflush(stdout);
}

static void answer(double rate, double other)
{
    printf("%.9g %.9g\n", rate, other);
    fflush(stdout);
}

/* --- queue pairs ----------------------------------------------------------------------------- */

static struct iwarp_qp *create_qp(const struct flow *flow)
{
    const struct bench_options *options = flow->options;
    struct iwarp_qp_options qp_options;
    struct iwarp_qp *qp;

    iwarp_qp_options_init(&qp_options);
    qp_options.send_cq = qp_options.recv_cq = flow->side.cq;
    qp_options.max_send_wr = options->depth + RECEIVES;
    qp_options.max_recv_wr = RECEIVES;
    qp_options.max_send_sge = qp_options.max_recv_sge = 1;
    qp_options.max_inline = options->inlined ? (unsigned)options->octets : 0;
    bench_must(iwarp_qp_create(flow->side.pd, &qp_options, &qp), "create a queue pair");
    return qp;
}

static void post_receive(const struct flow *flow, struct iwarp_qp *qp)
{
    struct iwarp_sge sge = {flow->side.memory, (uint32_t)flow->options->octets, flow->side.stag};
    struct iwarp_recv_wr wr = {.sg_list = &sge, .num_sge = 1};

    bench_must(iwarp_post_recv(qp, &wr, NULL), "post a receive");
}

static void flow_open(struct flow *flow, const struct bench_options *options)
{
    unsigned count = options->count > 0 ? options->count : 1;

    flow->options = options;
    flow->count = count;
    flow->qp = calloc(count, sizeof(struct iwarp_qp *));
    flow->conn = calloc(count, sizeof(struct iwarp_conn *));
    if (!flow->qp || !flow->conn) {
        bench_fail("no memory for %u connections", count);
    }
    bench_raise_limit(count);
    bench_side_open_shared(&flow->side, options, count * (options->depth + RECEIVES) + 256);
    for (unsigned i = 0; i < count; i++) {
        flow->qp[i] = create_qp(flow);
        for (unsigned k = 0; k < RECEIVES; k++) {
            post_receive(flow, flow->qp[i]);
        }
    }
}

static struct bench_advert own_advert(const struct flow *flow)
{
    return (struct bench_advert){(uint64_t)(uintptr_t)flow->side.memory, flow->side.len,
                                 flow->side.stag, (uint32_t)flow->options->octets};
}

static void accept_all(struct flow *flow, struct bench_link *link)
{
    struct bench_advert advert = own_advert(flow);
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
        bench_must(
            iwarp_accept(event.conn, flow->qp[arrived++], NULL, &advert, sizeof advert, NULL),
            "accept");
    }
    bench_tell(link, "r", 1);
}

static void connect_all(struct flow *flow, struct bench_link *link)
{
    struct iwarp_conn_options conn_options;
    struct sockaddr_storage addr;
    socklen_t addr_len;
    size_t len;
    char ready;

    bench_address(link, &addr, &addr_len);
    bench_conn_options(flow->options, &conn_options);
    for (unsigned i = 0; i < flow->count; i++) {
        bench_must(iwarp_connect(flow->qp[i], (struct sockaddr *)&addr, addr_len, &conn_options,
                                 NULL, 0, NULL, NULL, &flow->conn[i]),
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

/* --- RDMA Writes ----------------------------------------------------------------------------- */

static void prepare_chain(struct flow *flow)
{
    const struct bench_options *options = flow->options;

    for (unsigned i = 0; i < options->chain; i++) {
        flow->sge[i] = (struct iwarp_sge){NULL, (uint32_t)options->octets, flow->side.stag};
        flow->wr[i] =
            (struct iwarp_send_wr){.next = i + 1 < options->chain ? &flow->wr[i + 1] : NULL,
                                   .opcode = IWARP_WR_WRITE,
                                   .flags = options->inlined ? IWARP_WR_INLINE : 0,
                                   .sg_list = &flow->sge[i],
                                   .num_sge = 1,
                                   .remote_stag = flow->side.peer.stag};
    }
    flow->wr[options->chain - 1].flags |= IWARP_WR_SIGNALED;
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

/* Messages a second. All queue pairs are full from the beginning, and empty when it returns. */
static double write_turn(struct flow *flow, const struct turn *turn)
{
    const struct bench_options *options = flow->options;
    unsigned in_flight = flow->count * (options->depth / options->chain);
    double start = bench_now(), begin = 0, now;
    struct iwarp_wc wc[TAKE];
    uint64_t chains = 0;

    for (unsigned i = 0; i < in_flight; i++) {
        post_chain(flow, i % flow->count);
    }
    for (;;) {
        int n = bench_take(&flow->side, wc, TAKE);
        now = bench_now();
        if (n == 0) {
            bench_fail("the server has gone");
        }
        if (begin > 0) {
            chains += (unsigned)n;
        } else if (now - start >= turn->warm) {
            begin = now;
        }
        if (begin > 0 && now - begin >= turn->length) {
            in_flight -= (unsigned)n;
            break;
        }
        for (int i = 0; i < n; i++) {
            post_chain(flow, wc[i].wr_id);
        }
    }
    while (in_flight > 0) {
        in_flight -= (unsigned)bench_take(&flow->side, wc, TAKE);
    }
    return (double)chains * options->chain / (now - begin);
}

/* --- to and fro ------------------------------------------------------------------------------ */

static void send_mark(struct flow *flow, uint8_t mark)
{
    size_t octets = flow->options->octets;
    uint8_t *out = flow->side.memory + flow->options->footprint;
    struct iwarp_sge sge = {out, (uint32_t)octets, flow->side.stag};
    struct iwarp_send_wr wr = {.opcode = IWARP_WR_SEND,
                               .flags = flow->options->inlined ? IWARP_WR_INLINE : 0,
                               .sg_list = &sge,
                               .num_sge = 1};

    out[octets - 1] = mark;
    bench_must(iwarp_post_send(flow->qp[0], &wr, NULL), "post a request");
}

/* Round trips a second. */
static double pingpong_turn(struct flow *flow, const struct turn *turn)
{
    static uint8_t mark;
    double start = bench_now(), begin = 0, now;
    struct iwarp_wc wc;
    uint64_t round_trips = 0;

    do {
        send_mark(flow, ++mark);
        if (bench_take(&flow->side, &wc, 1) == 0) {
            bench_fail("the server has gone");
        }
        now = bench_now();
        if (flow->side.memory[flow->options->octets - 1] != mark) {
            bench_fail("a wrong octet came");
        }
        post_receive(flow, flow->qp[0]);
        if (begin > 0) {
            round_trips++;
        } else if (now - start >= turn->warm) {
            begin = now;
        }
    } while (begin == 0 || now - begin < turn->length);
    return (double)round_trips / (now - begin);
}

/* --- the two processes ----------------------------------------------------------------------- */

/* One completion; with polled progress it polls while a turn is on, and sleeps in between. */
static void serve_one(struct flow *flow, struct bench_link *link, struct iwarp_wc *wc)
{
    char go;

    if (!flow->options->polled) {
        if (iwarp_cq_wait(flow->side.cq, wc, 1, -1) != 1) {
            bench_fail("wait: %s", iwarp_last_error());
        }
        return;
    }
    for (;;) {
        while (atomic_load_explicit(playing, memory_order_relaxed)) {
            int n = iwarp_cq_poll(flow->side.cq, wc, 1);
            if (n == 1) {
                return;
            }
            if (n < 0) {
                bench_fail("poll: %s", iwarp_last_error());
            }
        }
        bench_hear(link, &go, 1);
        if (go == 'q') {
            _exit(0);
        }
    }
}

static void turns_server(struct bench_link *link)
{
    static struct flow flow;
    struct iwarp_wc wc;

    flow_open(&flow, link->options);
    accept_all(&flow, link);
    for (;;) {
        serve_one(&flow, link, &wc);
        if (wc.status != IWARP_WC_SUCCESS) {
            _exit(0); /* the client has ended */
        }
        post_receive(&flow, flow.qp[0]);
        send_mark(&flow, flow.side.memory[link->options->octets - 1]);
    }
}

static void turns_client(struct bench_link *link)
{
    static struct flow flow;
    bool writes = strcmp(link->options->test, "write") == 0;
    bool wakes = link->options->polled;
    struct turn turn;

    flow_open(&flow, link->options);
    connect_all(&flow, link);
    prepare_chain(&flow);
    say_ready();
    while (next_turn(&turn)) {
        atomic_store(playing, true);
        if (wakes) {
            bench_tell(link, "g", 1);
        }
        double rate = writes ? write_turn(&flow, &turn) : pingpong_turn(&flow, &turn);
        atomic_store(playing, false);
        answer(rate, 0);
    }
    if (wakes) {
        bench_tell(link, "q", 1);
    }
    exit(0); /* which ends the server's process, too, wherever it is */
}

/* --- in memory, a thread for each worker ----------------------------------------------------- */

static pthread_barrier_t begin_turn, end_turn;
static struct turn memory_turn;

static void memory_open(struct flow *flow, const struct bench_options *options,
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
    bench_must(iwarp_mr_register(side->pd, side->memory, options->footprint,
                                 IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE, &side->mr),
               "register memory");
    side->stag = iwarp_mr_stag(side->mr);
    side->peer = own_advert(flow);
    flow->qp[0] = create_qp(flow);
    flow->qp[1] = create_qp(flow);
    bench_conn_options(options, &conn_options);
    conn_options.worker = number + 1;
    bench_must(
        iwarp_connect_pair(flow->qp[0], flow->qp[1], &conn_options, NULL, &flow->conn[0], &other),
        "connect");
    bench_must(iwarp_conn_wait(flow->conn[0], BENCH_PATIENCE_MS), "connect");
    bench_must(iwarp_conn_wait(other, BENCH_PATIENCE_MS), "connect");
    prepare_chain(flow);
}

static void *memory_thread(void *arg)
{
    struct flow *flow = (struct flow *)arg;

    bench_pin(flow->options->cores[1 - flow->number % 2]);
    for (;;) {
        pthread_barrier_wait(&begin_turn);
        flow->rate = write_turn(flow, &memory_turn);
        pthread_barrier_wait(&end_turn);
    }
    return NULL;
}

static void memory_run(const struct bench_options *options)
{
    static struct flow flow[64];
    struct iwarp_device *device;

    bench_device_open(options, &device);
    pthread_barrier_init(&begin_turn, NULL, options->workers + 1);
    pthread_barrier_init(&end_turn, NULL, options->workers + 1);
    for (unsigned i = 0; i < options->workers; i++) {
        memory_open(&flow[i], options, device, i);
        if (pthread_create(&flow[i].thread, NULL, memory_thread, &flow[i]) != 0) {
            bench_fail("no thread");
        }
    }
    say_ready();
    while (next_turn(&memory_turn)) {
        double rate = 0;
        pthread_barrier_wait(&begin_turn);
        pthread_barrier_wait(&end_turn);
        for (unsigned i = 0; i < options->workers; i++) {
            rate += flow[i].rate;
        }
        answer(rate, 0);
    }
    exit(0);
}

/* --- the host -------------------------------------------------------------------------------- */

static void host_server(struct bench_link *link)
{
    char c;

    for (bench_hear(link, &c, 1); c != 'q'; bench_hear(link, &c, 1)) {
        bench_tell(link, &c, 1);
    }
}

/* Octets copied a second, and round trips a second through two pipes, half of the time each. */
static void host_client(struct bench_link *link)
{
    uint8_t *memory = malloc(2 * COPIES);
    struct turn turn;
    char c = 'p';

    if (!memory) {
        bench_fail("no memory");
    }
    memset(memory, 1, 2 * COPIES);
    say_ready();
    while (next_turn(&turn)) {
        double begin = bench_now(), now = begin, copies = 0, round_trips = 0;
        for (; now - begin < turn.length / 2; now = bench_now(), copies++) {
            memcpy(memory, memory + COPIES, COPIES);
            memory[2 * COPIES - 1] ^= memory[0];
        }
        double middle = now;
        for (; now - middle < turn.length / 2; now = bench_now(), round_trips++) {
            bench_tell(link, &c, 1);
            bench_hear(link, &c, 1);
        }
        answer(copies * (double)COPIES / (middle - begin), round_trips / (now - middle));
    }
    bench_tell(link, "q", 1);
}

int main(int argc, char **argv)
{
    static struct bench_options options;
    bool host = argc > 1 && strcmp(argv[1], "host") == 0;

    if (host) {
        static char any[] = "register"; /* a test that takes all that `host` has: --cores */
        argv[1] = any;
    }
    if (!bench_options_parse(argc, argv, &options)) {
        return 2;
    }
    setenv("IWARP_LOG", "error", 0);
    if (host) {
        return bench_both(&options, host_server, host_client);
    }
    if (strcmp(options.test, "memory") == 0) {
        memory_run(&options);
    }
    if (strcmp(options.test, "write") != 0 && strcmp(options.test, "pingpong-send") != 0) {
        fprintf(stderr, "turns: not a test that works in turns: %s\n", options.test);
        return 2;
    }
    playing =
        mmap(NULL, sizeof *playing, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (playing == MAP_FAILED) {
        bench_fail("no memory");
    }
    return bench_both(&options, turns_server, turns_client);
}
