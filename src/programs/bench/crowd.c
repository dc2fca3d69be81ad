/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many connections between two processes of one machine: how fast they are set up (RFC 5044 7.1,
 * RFC 6581), what they cost while nothing happens, and how they share the way when all are busy
 * with RDMA Writes. The processes tell each other by the pipes between them when a phase is over.
 */
#include "bench.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct crowd {
    const struct bench_options *options;
    struct bench_side side; /* device, region, queue; no queue pair of its own */
    struct iwarp_qp **qp;
    struct iwarp_conn **conn;
    uint64_t *done; /* requests completed, by connection */
    unsigned count, arrived, established;
};

static void crowd_open(struct crowd *crowd, const struct bench_options *options)
{
    memset(crowd, 0, sizeof *crowd);
    crowd->options = options;
    crowd->count = options->count;
    bench_raise_limit(crowd->count);
    crowd->qp = calloc(crowd->count, sizeof(struct iwarp_qp *));
    crowd->conn = calloc(crowd->count, sizeof(struct iwarp_conn *));
    crowd->done = calloc(crowd->count, sizeof *crowd->done);
    if (!crowd->qp || !crowd->conn || !crowd->done) {
        bench_fail("no memory for %u connections", crowd->count);
    }
    bench_side_open_shared(&crowd->side, options,
                           crowd->count * (options->depth + 1 < 6 ? options->depth + 1 : 6) + 256);
    bench_must(iwarp_eq_create(crowd->side.device, &crowd->side.eq), "create an event queue");
}

static struct iwarp_qp *create_qp(struct crowd *crowd, unsigned i)
{
    struct iwarp_qp_options options;
    struct iwarp_qp *qp;

    iwarp_qp_options_init(&options);
    options.send_cq = options.recv_cq = crowd->side.cq;
    options.max_send_wr = options.max_recv_wr = 4;
    options.max_send_sge = options.max_recv_sge = 1;
    options.max_inline = 0;
    options.user = &crowd->done[i];
    bench_must(iwarp_qp_create(crowd->side.pd, &options, &qp), "create a queue pair");
    return qp;
}

static void crowd_close(struct crowd *crowd)
{
    for (unsigned i = 0; i < crowd->count; i++) {
        iwarp_abort(crowd->conn[i]);
        iwarp_conn_destroy(crowd->conn[i]);
        iwarp_qp_destroy(crowd->qp[i]);
    }
    if (crowd->side.listener) {
        iwarp_listener_close(crowd->side.listener);
    }
    iwarp_eq_destroy(crowd->side.eq);
    iwarp_mr_deregister(crowd->side.mr);
    iwarp_cq_destroy(crowd->side.cq);
    iwarp_pd_destroy(crowd->side.pd);
    bench_must(iwarp_device_close(crowd->side.device), "close the device");
}

/* --- server ---------------------------------------------------------------------------------- */

static void serve_event(struct crowd *crowd, const struct iwarp_event *event)
{
    struct bench_advert advert = {(uint64_t)(uintptr_t)crowd->side.memory, crowd->side.len,
                                  crowd->side.stag, (uint32_t)crowd->options->octets};

    if (event->type == IWARP_EVENT_ESTABLISHED) {
        crowd->established++;
        return;
    }
    if (event->type != IWARP_EVENT_REQUEST || crowd->arrived == crowd->count) {
        bench_fail("a connection of the crowd failed at the server");
    }
    crowd->conn[crowd->arrived] = event->conn;
    crowd->qp[crowd->arrived] = create_qp(crowd, crowd->arrived);
    bench_must(
        iwarp_accept(event->conn, crowd->qp[crowd->arrived], NULL, &advert, sizeof advert, NULL),
        "accept");
    crowd->arrived++;
}

void bench_crowd_server(struct bench_link *link)
{
    static struct crowd crowd;
    struct iwarp_event event;
    struct bench_report report = {0};
    size_t where;
    char phase;

    crowd_open(&crowd, link->options);
    size_t resident = bench_resident();
    bench_listen(link, crowd.side.device, crowd.side.eq, 4096, &crowd.side.listener);
    while (crowd.established < crowd.count) {
        bench_must(iwarp_eq_get(crowd.side.eq, &event, BENCH_PATIENCE_MS), "wait for connections");
        serve_event(&crowd, &event);
    }
    bench_tell(link, "r", 1);
    bench_hear(link, &phase, 1); /* all are there */
    report.value[0] = (double)bench_resident() - (double)resident;
    double cpu = bench_cpu();
    bench_hear(link, &phase, 1); /* the time is over */
    report.cpu = bench_cpu() - cpu;
    report.value[1] = (double)bench_resident();
    if (strcmp(link->options->test, "active") == 0 &&
        !bench_check(crowd.side.memory, link->options->octets, 1, &where)) {
        bench_fail("wrong memory at octet %zu", where);
    }
    bench_tell(link, &report, sizeof report);
    bench_hear(link, &phase, 1);
    crowd_close(&crowd);
}

/* --- client ---------------------------------------------------------------------------------- */

static double connect_all(struct crowd *crowd, struct bench_link *link)
{
    struct iwarp_conn_options conn_options;
    struct sockaddr_storage addr;
    struct iwarp_event event;
    socklen_t addr_len;
    unsigned begun = 0;

    bench_conn_options(crowd->options, &conn_options);
    bench_address(link, &addr, &addr_len);
    double begin = bench_now();
    while (crowd->established < crowd->count) {
        while (begun < crowd->count && begun - crowd->established < 64) {
            bench_must(iwarp_connect(crowd->qp[begun], (struct sockaddr *)&addr, addr_len,
                                     &conn_options, NULL, 0, crowd->side.eq, NULL,
                                     &crowd->conn[begun]),
                       "connect");
            begun++;
        }
        bench_must(iwarp_eq_get(crowd->side.eq, &event, BENCH_PATIENCE_MS), "wait for connections");
        if (event.type != IWARP_EVENT_ESTABLISHED) {
            bench_fail("a connection of the crowd failed at the client");
        }
        crowd->established++;
    }
    return bench_now() - begin;
}

static void post_write(struct crowd *crowd, struct iwarp_qp *qp, size_t i)
{
    const struct bench_options *options = crowd->options;
    size_t at = i % (options->footprint / options->octets) * options->octets;
    struct iwarp_sge sge = {crowd->side.memory + at, (uint32_t)options->octets, crowd->side.stag};
    struct iwarp_send_wr wr = {.opcode = IWARP_WR_WRITE,
                               .flags = IWARP_WR_SIGNALED,
                               .sg_list = &sge,
                               .num_sge = 1,
                               .remote_stag = crowd->side.peer.stag,
                               .remote_to = crowd->side.peer.to + at};

    bench_must(iwarp_post_send(qp, &wr, NULL), "post a request");
}

static double active_all(struct crowd *crowd)
{
    const struct bench_options *options = crowd->options;
    unsigned depth = options->depth < 4 ? options->depth : 4;
    struct iwarp_wc wc[64];
    size_t len;

    memcpy(&crowd->side.peer, iwarp_conn_private_data(crowd->conn[0], &len),
           sizeof crowd->side.peer);
    bench_fill(crowd->side.memory, options->octets, 1);
    double begin = bench_now(), now = begin;
    for (unsigned i = 0; i < crowd->count * depth; i++) {
        post_write(crowd, crowd->qp[i % crowd->count], i % crowd->count);
    }
    for (unsigned left = crowd->count * depth; left > 0;) {
        int n = bench_take(&crowd->side, wc, 64);
        if (n == 0) {
            bench_fail("the server has gone");
        }
        now = bench_now();
        for (int i = 0; i < n; i++) {
            uint64_t *done = (uint64_t *)iwarp_qp_user(wc[i].qp);
            if (now - begin < options->seconds) {
                ++*done;
                post_write(crowd, wc[i].qp, (size_t)(done - crowd->done));
            } else {
                left--;
            }
        }
    }
    return options->seconds;
}

static void active_result(const struct crowd *crowd, double seconds)
{
    uint64_t sum = 0, least = UINT64_MAX, most = 0;

    for (unsigned i = 0; i < crowd->count; i++) {
        sum += crowd->done[i];
        least = crowd->done[i] < least ? crowd->done[i] : least;
        most = crowd->done[i] > most ? crowd->done[i] : most;
    }
    bench_result_number("octets_per_s", (double)sum * (double)crowd->options->octets / seconds);
    bench_result_number("least", (double)least);
    bench_result_number("most", (double)most);
    bench_result_number("most_to_least", (double)most / (least > 0 ? (double)least : 0.5));
}

void bench_crowd_client(struct bench_link *link)
{
    static struct crowd crowd;
    struct bench_report peer;
    bool active = strcmp(link->options->test, "active") == 0;
    double seconds = 0;
    char phase;

    crowd_open(&crowd, link->options);
    size_t resident = bench_resident();
    for (unsigned i = 0; i < crowd.count; i++) {
        crowd.qp[i] = create_qp(&crowd, i);
    }
    double setup = connect_all(&crowd, link);
    bench_hear(link, &phase, 1);
    bench_tell(link, "b", 1);
    double own = (double)bench_resident() - (double)resident;
    double cpu = bench_cpu();
    if (active) {
        seconds = active_all(&crowd);
    } else if (strcmp(link->options->test, "idle") == 0) {
        usleep((useconds_t)(link->options->seconds * 1e6));
    }
    cpu = bench_cpu() - cpu;
    double whole = (double)bench_resident();
    bench_tell(link, "e", 1);
    bench_hear(link, &peer, sizeof peer);
    bench_tell(link, "q", 1);
    crowd_close(&crowd);
    bench_result_begin(link->options);
    bench_result_number("connections", crowd.count);
    bench_result_number("setups_per_s", crowd.count / setup);
    bench_result_number("cpu_client_s", cpu);
    bench_result_number("cpu_server_s", peer.cpu);
    bench_result_number("client_octets_each", own / crowd.count);
    bench_result_number("server_octets_each", peer.value[0] / crowd.count);
    bench_result_number("octets_both", whole + peer.value[1]);
    if (active) {
        active_result(&crowd, seconds);
    }
    bench_result_end();
}
