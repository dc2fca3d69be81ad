/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What needs one process only: registration by size, and small RDMA Writes through memory between
 * queue pairs of one device, by number of workers and of target regions. Memory takes the place of
 * the wire, the whole protocol runs (iwarp_connect_pair).
 */
#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* --- registration ---------------------------------------------------------------------------- */

#define ROUNDS 7

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Microseconds for one registration and one deregistration, medians of rounds. */
static void time_registration(struct iwarp_pd *pd, void *memory, size_t len, unsigned count,
                              double *in, double *out)
{
    struct iwarp_mr **mr = calloc(count, sizeof(struct iwarp_mr *));
    double there[ROUNDS], back[ROUNDS];

    for (unsigned round = 0; mr && round < ROUNDS; round++) {
        double begin = bench_now();
        for (unsigned i = 0; i < count; i++) {
            bench_must(iwarp_mr_register(pd, memory, len,
                                         IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE,
                                         &mr[i]),
                       "register");
        }
        double middle = bench_now();
        for (unsigned i = 0; i < count; i++) {
            bench_must(iwarp_mr_deregister(mr[i]), "deregister");
        }
        there[round] = (middle - begin) / count * 1e6;
        back[round] = (bench_now() - middle) / count * 1e6;
    }
    free(mr);
    qsort(there, ROUNDS, sizeof *there, by_value);
    qsort(back, ROUNDS, sizeof *back, by_value);
    *in = there[ROUNDS / 2];
    *out = back[ROUNDS / 2];
}

int bench_register(const struct bench_options *options)
{
    size_t most = (size_t)64 << 30;
    struct iwarp_device *device;
    struct iwarp_pd *pd;
    double in, out, worst = 0;
    char name[64];

    bench_pin(options->cores[1]);
    void *memory = mmap(NULL, most, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        bench_fail("64 GiB of addresses cannot be reserved");
    }
    bench_device_open(options, &device);
    bench_must(iwarp_pd_create(device, &pd), "create a protection domain");
    time_registration(pd, memory, 4096, options->count, &in, &out); /* warm */
    bench_result_begin(options);
    for (size_t len = 4096; len <= most; len *= 16) {
        time_registration(pd, memory, len, options->count, &in, &out);
        worst = in > worst ? in : worst;
        snprintf(name, sizeof name, "register_us_%zuK", len >> 10);
        bench_result_number(name, in);
        snprintf(name, sizeof name, "deregister_us_%zuK", len >> 10);
        bench_result_number(name, out);
    }
    bench_result_number("register_us_worst", worst);
    bench_result_end();
    bench_must(iwarp_pd_destroy(pd), "destroy the protection domain");
    bench_must(iwarp_device_close(device), "close the device");
    return 0;
}

/* --- Writes through memory ------------------------------------------------------------------- */

#define CHAIN_MAX 256u
#define ORDER     (1u << 20)

/* One thread with both ends of a connection, and memory of its own that the Writes go to. */
struct pair {
    const struct bench_options *options;
    struct bench_side side; /* the initiator's end */
    struct iwarp_qp *other;
    struct iwarp_conn *other_conn;
    uint8_t *memory;
    struct iwarp_mr **mr;
    uint32_t *stag; /* of the target regions, in the order of use */
    uint64_t done;
    double begin, end;
    pthread_barrier_t *start;
    unsigned worker; /* of both ends */
    int core;
};

static void connect_pair(struct pair *pair, struct iwarp_device *device, struct iwarp_pd *pd)
{
    struct iwarp_conn_options conn_options;
    struct iwarp_qp_options options;
    struct bench_side *side = &pair->side;

    side->options = pair->options;
    bench_must(iwarp_cq_create(device, 4096, NULL, &side->cq), "create a completion queue");
    iwarp_qp_options_init(&options);
    options.send_cq = options.recv_cq = side->cq;
    options.max_send_wr = pair->options->depth;
    options.max_recv_wr = 4;
    options.max_send_sge = options.max_recv_sge = 1;
    options.max_inline = (unsigned)pair->options->octets;
    bench_must(iwarp_qp_create(pd, &options, &side->qp), "create a queue pair");
    bench_must(iwarp_qp_create(pd, &options, &pair->other), "create a queue pair");
    bench_conn_options(pair->options, &conn_options);
    conn_options.worker = pair->worker;
    bench_must(iwarp_connect_pair(side->qp, pair->other, &conn_options, NULL, &side->conn,
                                  &pair->other_conn),
               "connect");
    bench_must(iwarp_conn_wait(side->conn, BENCH_PATIENCE_MS), "connect");
    bench_must(iwarp_conn_wait(pair->other_conn, BENCH_PATIENCE_MS), "connect");
}

static void write_until(struct pair *pair, double seconds)
{
    const struct bench_options *options = pair->options;
    uint8_t payload[1024];
    struct iwarp_sge sge = {payload, (uint32_t)options->octets, 0};
    struct iwarp_send_wr wr[CHAIN_MAX];
    struct iwarp_wc wc[16];
    unsigned in_flight = 0;
    uint64_t posted = 0;

    bench_fill(payload, options->octets, 1);
    for (unsigned i = 0; i < options->chain; i++) {
        wr[i] = (struct iwarp_send_wr){.next = i + 1 < options->chain ? &wr[i + 1] : NULL,
                                       .opcode = IWARP_WR_WRITE,
                                       .flags = IWARP_WR_INLINE,
                                       .sg_list = &sge,
                                       .num_sge = 1};
    }
    wr[options->chain - 1].flags |= IWARP_WR_SIGNALED;
    pair->begin = bench_now();
    for (bool more = true; more || in_flight > 0;) {
        more = more && bench_now() - pair->begin < seconds;
        if (more) {
            for (unsigned i = 0; i < options->chain; i++) {
                wr[i].remote_stag = pair->stag[(posted + i) % ORDER];
                wr[i].remote_to = 0;
            }
            bench_post(&pair->side, wr);
            posted += options->chain;
            in_flight += options->chain;
        }
        while (in_flight > 0 && (!more || in_flight + options->chain > options->depth)) {
            in_flight -= (unsigned)bench_take(&pair->side, wc, 16) * options->chain;
        }
    }
    pair->end = bench_now();
    pair->done = posted;
}

static void *run_thread(void *arg)
{
    struct pair *pair = (struct pair *)arg;

    bench_pin(pair->core);
    pthread_barrier_wait(pair->start);
    write_until(pair, pair->options->seconds);
    return NULL;
}

/*
 * Regions of the same octets, addressed from 0, and an order of them without a pattern that a
 * processor could foresee. The order is as long for one region as for many, so that reading it
 * costs the same.
 */
static void register_targets(struct pair *pair, struct iwarp_pd *pd)
{
    const struct bench_options *options = pair->options;
    uint64_t random = 1;

    pair->memory = aligned_alloc(4096, 4096);
    pair->mr = calloc(options->count, sizeof(struct iwarp_mr *));
    pair->stag = calloc(ORDER, sizeof *pair->stag);
    if (!pair->memory || !pair->mr || !pair->stag) {
        bench_fail("no memory");
    }
    for (unsigned i = 0; i < options->count; i++) {
        bench_must(iwarp_mr_register(pd, pair->memory, options->octets,
                                     IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE |
                                         IWARP_ACCESS_ZERO_BASED,
                                     &pair->mr[i]),
                   "register");
    }
    for (unsigned i = 0; i < ORDER; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        pair->stag[i] = iwarp_mr_stag(pair->mr[(random >> 33) % options->count]);
    }
}

static void check_targets(struct pair *pair)
{
    size_t where;

    if (!bench_check(pair->memory, pair->options->octets, 1, &where)) {
        bench_fail("wrong memory at octet %zu", where);
    }
    for (unsigned i = 0; i < pair->options->count; i++) {
        iwarp_mr_deregister(pair->mr[i]);
    }
    free(pair->stag);
    free(pair->mr);
    free(pair->memory);
}

static void close_pair(struct pair *pair)
{
    iwarp_disconnect(pair->side.conn);
    iwarp_conn_wait_end(pair->side.conn, BENCH_PATIENCE_MS);
    iwarp_conn_destroy(pair->side.conn);
    iwarp_conn_destroy(pair->other_conn);
    iwarp_qp_destroy(pair->side.qp);
    iwarp_qp_destroy(pair->other);
    iwarp_cq_destroy(pair->side.cq);
}

static void memory_result(const struct bench_options *options, const struct pair *pair)
{
    double rate = 0;

    for (unsigned i = 0; i < options->workers; i++) {
        rate += (double)pair[i].done / (pair[i].end - pair[i].begin);
    }
    bench_result_begin(options);
    bench_result_number("workers", options->workers);
    bench_result_number("regions", options->count);
    bench_result_number("messages_per_s", rate);
    bench_result_end();
}

int bench_memory(const struct bench_options *options)
{
    static struct pair pair[64];
    struct iwarp_device *device;
    struct iwarp_pd *pd;
    pthread_barrier_t start;
    pthread_t thread[64];

    if (options->workers == 1) {
        bench_pin(options->cores[1]);
    }
    bench_device_open(options, &device);
    bench_must(iwarp_pd_create(device, &pd), "create a protection domain");
    pthread_barrier_init(&start, NULL, options->workers);
    for (unsigned i = 0; i < options->workers; i++) {
        pair[i] = (struct pair){.options = options, .start = &start, .worker = i + 1};
        pair[i].core = options->cores[1 - i % 2];
        register_targets(&pair[i], pd);
        connect_pair(&pair[i], device, pd);
    }
    for (unsigned i = 0; i < options->workers; i++) {
        if (pthread_create(&thread[i], NULL, run_thread, &pair[i]) != 0) {
            bench_fail("no thread");
        }
    }
    for (unsigned i = 0; i < options->workers; i++) {
        pthread_join(thread[i], NULL);
        close_pair(&pair[i]);
        check_targets(&pair[i]);
    }
    memory_result(options, pair);
    bench_must(iwarp_pd_destroy(pd), "destroy the protection domain");
    bench_must(iwarp_device_close(device), "close the device");
    return 0;
}
