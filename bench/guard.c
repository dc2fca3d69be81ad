/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One operation of the library, many times over, for counting instructions (bench/guard): both ends
 * of a connection in one thread, embedded progress, memory for a wire. So the count is the same
 * each time, whatever else the machine does. What callgrind counts is guard_measured and what it
 * calls. Usage: guard OPERATION TIMES
 */
#include "programs/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define REGIONS 100000u
#define CHAIN   64u

struct guard {
    uv_loop_t loop;
    struct bench_options options;
    struct iwarp_device *device;
    struct iwarp_pd *pd;
    struct iwarp_cq *cq;
    struct iwarp_qp *qp, *other;
    struct iwarp_conn *conn, *other_conn;
    struct iwarp_mr *mr;
    struct iwarp_mr *target[REGIONS];
    unsigned targets;
    uint8_t memory[2 << 20];
};

static struct guard guard;

static void wait_for(unsigned completions)
{
    struct iwarp_wc wc[16];

    while (completions > 0) {
        int n = iwarp_cq_wait(guard.cq, wc, completions < 16 ? (int)completions : 16,
                              BENCH_PATIENCE_MS);
        if (n <= 0) {
            bench_fail("no completion: %s", n < 0 ? iwarp_last_error() : "timed out");
        }
        for (int i = 0; i < n; i++) {
            if (wc[i].status != IWARP_WC_SUCCESS) {
                bench_fail("%s", iwarp_wc_status_text(wc[i].status));
            }
        }
        completions -= (unsigned)n;
    }
}

static uint64_t draw(void)
{
    static uint64_t random = 1;

    random = random * 6364136223846793005u + 1442695040888963407u;
    return random >> 33;
}

/* A chain of requests, the last one signaled, spread over the target regions. */
static void post_chain(enum iwarp_wr_opcode opcode, unsigned n, uint32_t octets, unsigned flags)
{
    struct iwarp_sge sge = {guard.memory, octets, iwarp_mr_stag(guard.mr)};
    struct iwarp_send_wr wr[CHAIN];

    for (unsigned i = 0; i < n; i++) {
        struct iwarp_mr *target = guard.target[draw() % guard.targets];
        wr[i] = (struct iwarp_send_wr){.next = i + 1 < n ? &wr[i + 1] : NULL,
                                       .opcode = opcode,
                                       .flags = flags | (i + 1 < n ? 0 : IWARP_WR_SIGNALED),
                                       .sg_list = &sge,
                                       .num_sge = 1,
                                       .remote_stag = iwarp_mr_stag(target),
                                       .remote_to = (uint64_t)(uintptr_t)guard.memory + (1 << 20)};
    }
    bench_must(iwarp_post_send(guard.qp, wr, NULL), "post");
}

static void write_chain(void)
{
    post_chain(IWARP_WR_WRITE, CHAIN, 64, IWARP_WR_INLINE);
    wait_for(1);
}

/* The same, each from a region of its own to one. */
static void write_chain_from_many(void)
{
    struct iwarp_sge sge[CHAIN];
    struct iwarp_send_wr wr[CHAIN];

    for (unsigned i = 0; i < CHAIN; i++) {
        sge[i] = (struct iwarp_sge){guard.memory, 64,
                                    iwarp_mr_stag(guard.target[draw() % guard.targets])};
        wr[i] = (struct iwarp_send_wr){.next = i + 1 < CHAIN ? &wr[i + 1] : NULL,
                                       .opcode = IWARP_WR_WRITE,
                                       .flags = i + 1 < CHAIN ? 0 : IWARP_WR_SIGNALED,
                                       .sg_list = &sge[i],
                                       .num_sge = 1,
                                       .remote_stag = iwarp_mr_stag(guard.mr),
                                       .remote_to = (uint64_t)(uintptr_t)guard.memory + (1 << 20)};
    }
    bench_must(iwarp_post_send(guard.qp, wr, NULL), "post");
    wait_for(1);
}

static void write_one(void)
{
    post_chain(IWARP_WR_WRITE, 1, 8, IWARP_WR_INLINE);
    wait_for(1);
}

static void write_long(void)
{
    post_chain(IWARP_WR_WRITE, 1, 65536, 0);
    wait_for(1);
}

static void read_one(void)
{
    post_chain(IWARP_WR_READ, 1, 8, 0);
    wait_for(1);
}

static void send_one(void)
{
    struct iwarp_sge sge = {guard.memory + 4096, 64, iwarp_mr_stag(guard.mr)};
    struct iwarp_recv_wr receive = {.sg_list = &sge, .num_sge = 1};

    bench_must(iwarp_post_recv(guard.other, &receive, NULL), "post a receive");
    post_chain(IWARP_WR_SEND, 1, 64, 0);
    wait_for(2);
}

static void register_one(void)
{
    struct iwarp_mr *mr;

    bench_must(iwarp_mr_register(guard.pd, guard.memory, sizeof guard.memory,
                                 IWARP_ACCESS_LOCAL_WRITE, &mr),
               "register");
    bench_must(iwarp_mr_deregister(mr), "deregister");
}

/* Post and poll nothing: what an empty look at a completion queue costs. */
static void poll_one(void)
{
    struct iwarp_wc wc;

    if (iwarp_cq_poll(guard.cq, &wc, 1) != 0) {
        bench_fail("a completion out of nothing");
    }
}

static const struct operation {
    const char *name;
    void (*run)(void);
    unsigned regions;
} operations[] = {
    {"write-64-chain-of-64", write_chain, 1},
    {"write-64-chain-of-64-100000-regions", write_chain, REGIONS},
    {"write-64-chain-of-64-100000-sources", write_chain_from_many, REGIONS},
    {"write-8", write_one, 1},
    {"write-65536", write_long, 1},
    {"read-8", read_one, 1},
    {"send-64", send_one, 1},
    {"register", register_one, 1},
    {"poll-empty", poll_one, 1},
};

static void open_guard(unsigned regions)
{
    struct iwarp_device_options device;
    struct iwarp_qp_options qp;

    uv_loop_init(&guard.loop);
    iwarp_device_options_init(&device);
    device.progress = IWARP_PROGRESS_EMBEDDED;
    device.loop = &guard.loop;
    bench_must(iwarp_device_open(&device, &guard.device), "open a device");
    bench_must(iwarp_pd_create(guard.device, &guard.pd), "create a protection domain");
    bench_must(iwarp_cq_create(guard.device, 512, NULL, &guard.cq), "create a completion queue");
    unsigned access =
        IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE | IWARP_ACCESS_REMOTE_READ;
    bench_must(iwarp_mr_register(guard.pd, guard.memory, sizeof guard.memory, access, &guard.mr),
               "register");
    guard.targets = regions;
    for (unsigned i = 0; i < regions; i++) {
        bench_must(iwarp_mr_register(guard.pd, guard.memory, sizeof guard.memory, access,
                                     &guard.target[i]),
                   "register");
    }
    iwarp_qp_options_init(&qp);
    qp.send_cq = qp.recv_cq = guard.cq;
    bench_must(iwarp_qp_create(guard.pd, &qp, &guard.qp), "create a queue pair");
    bench_must(iwarp_qp_create(guard.pd, &qp, &guard.other), "create a queue pair");
    bench_must(
        iwarp_connect_pair(guard.qp, guard.other, NULL, NULL, &guard.conn, &guard.other_conn),
        "connect");
    bench_must(iwarp_conn_wait(guard.conn, BENCH_PATIENCE_MS), "connect");
    bench_must(iwarp_conn_wait(guard.other_conn, BENCH_PATIENCE_MS), "connect");
}

/* Not static and never inlined: callgrind is told its name. */
void guard_measured(const struct operation *operation, unsigned times);
__attribute__((noinline)) void guard_measured(const struct operation *operation, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        operation->run();
    }
}

int main(int argc, char **argv)
{
    const struct operation *operation = NULL;
    unsigned times = argc == 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;

    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        if (argc == 2 && strcmp(argv[1], "list") == 0) {
            puts(operations[i].name);
        } else if (times > 0 && strcmp(argv[1], operations[i].name) == 0) {
            operation = &operations[i];
        }
    }
    if (!operation) {
        return argc == 2 ? 0 : 2;
    }
    open_guard(operation->regions);
    for (unsigned i = 0; i < 100; i++) { /* warm: what is allocated once is there */
        operation->run();
    }
    guard_measured(operation, times);
    return 0;
}
