/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices: options and their bounds, refusing to close while something lives, failing to open
 * without leaving anything, and what an idle one costs.
 */
#include "alloc_fault.h"
#include "child.h"
#include "verbs/conn.h"
#include "verbs/device.h"
#include "verbs_pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static void open__with_impossible_options__is_misuse(void **state)
{
    struct iwarp_device_options o;
    struct iwarp_device *device = NULL;

    (void)state;
    iwarp_device_options_init(&o);
    o.size = 4;
    must_fail(iwarp_device_open(&o, &device), IWARP_MISUSE, "size is 4");
    iwarp_device_options_init(&o);
    o.workers = 0;
    must_fail(iwarp_device_open(&o, &device), IWARP_MISUSE, "workers is 0");
    o.workers = 65;
    must_fail(iwarp_device_open(&o, &device), IWARP_MISUSE, "workers is 65");
    iwarp_device_options_init(&o);
    o.max_connections = 0;
    must_fail(iwarp_device_open(&o, &device), IWARP_MISUSE, "max_connections 0");
    iwarp_device_options_init(&o);
    o.max_half_open = 0;
    must_fail(iwarp_device_open(&o, &device), IWARP_MISUSE, "max_half_open 0");
    iwarp_device_options_init(&o);
    o.max_buffer_bytes = 0;
    must_fail(iwarp_device_open(&o, &device), IWARP_MISUSE, "max_buffer_bytes is 0, expected");
    iwarp_device_options_init(&o);
    o.rnr_bytes = 0;
    must_fail(iwarp_device_open(&o, &device), IWARP_MISUSE, "rnr_bytes is 0, expected");
    iwarp_device_options_init(&o);
    o.max_regions = 0;
    must_fail(iwarp_device_open(&o, &device), IWARP_MISUSE, "max_regions is 0");
    o.max_regions = 4194305;
    must_fail(iwarp_device_open(&o, &device), IWARP_MISUSE, "max_regions is 4194305");
    iwarp_device_options_init(&o);
    o.rfc7306 = (enum iwarp_rfc7306)3;
    must_fail(iwarp_device_open(&o, &device), IWARP_MISUSE, "rfc7306 is 3, allowed are 0 to 2");
    assert_null(device);
}

static void close__while_something_lives__is_misuse(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    pair_open(&p, &o);
    must_fail(iwarp_device_close(p.device), IWARP_MISUSE,
              "2 PDs, 4 CQs, 2 event queues, 1 listeners, 2 connections");
    must_fail(iwarp_eq_destroy(p.eq[1]), IWARP_MISUSE, "2 listeners and connections");
    must(iwarp_conn_destroy(p.side[1].conn));
    p.side[1].conn = NULL;
    must_fail(iwarp_device_close(p.device), IWARP_MISUSE, "1 connections");
    must_fail(iwarp_eq_destroy(p.eq[1]), IWARP_MISUSE, "1 listeners and connections");
    pair_close(&p);
}

/* Every allocation of opening fails in turn; no thread or descriptor stays behind. */
static void open__without_memory__leaves_nothing(void **state)
{
    struct iwarp_device_options o;
    struct iwarp_device *device;

    (void)state;
    iwarp_device_options_init(&o);
    o.workers = 3;
    must(iwarp_device_open(&o, &device)); /* what is kept for good is there now */
    must(iwarp_device_close(device));
    unsigned fds = pair_fd_count(), threads = pair_thread_count();
    for (unsigned i = 1;; i++) {
        alloc_fault_at(i);
        enum iwarp_status status = iwarp_device_open(&o, &device);
        unsigned tried = alloc_fault_count();
        alloc_fault_at(0);
        if (tried < i) {
            must(status);
            break;
        }
        assert_int_equal(status, IWARP_NO_MEMORY);
        assert_int_equal(pair_fd_count(), fds);
        assert_int_equal(pair_thread_count(), threads);
    }
    assert_int_equal(pair_thread_count(), threads + 3);
    must(iwarp_device_close(device));
    assert_int_equal(pair_fd_count(), fds);
    assert_int_equal(pair_thread_count(), threads);
}

/* The second of a pair may be one too many as well; the queue pairs can be used afterwards. */
static void try_max_connections(unsigned max)
{
    char text[32];
    struct iwarp_conn *conn[2] = {NULL, NULL};
    struct pair_side more[2];
    struct pair_options o;
    struct pair p;

    snprintf(text, sizeof text, "max_connections (%u)", max);
    pair_options_init(&o, PAIR_MEMORY);
    o.device.max_connections = max;
    pair_open(&p, &o);
    pair_side_open(&more[0], p.device, &o);
    pair_side_open(&more[1], p.device, &o);
    must_fail(iwarp_connect_pair(more[0].qp, more[1].qp, NULL, NULL, &conn[0], &conn[1]),
              IWARP_LIMIT, text);
    must_fail(iwarp_device_close(p.device), IWARP_MISUSE, "2 connections");
    for (int i = 0; i < 2; i++) {
        must(iwarp_conn_destroy(p.side[i].conn));
        must(iwarp_qp_destroy(p.side[i].qp));
        p.side[i].conn = NULL;
        p.side[i].qp = NULL;
    }
    for (unsigned left = 1, i = 0; left && i < PAIR_WAIT_MS; i++) { /* until the workers let go */
        iwarp_mutex_lock(&p.device->lock);
        left = p.device->conn_count;
        iwarp_mutex_unlock(&p.device->lock);
        usleep(left ? 1000 : 0);
    }
    must(iwarp_connect_pair(more[0].qp, more[1].qp, NULL, NULL, &more[0].conn, &more[1].conn));
    must(iwarp_conn_wait(more[0].conn, PAIR_WAIT_MS));
    pair_side_close(&more[0]);
    pair_side_close(&more[1]);
    pair_close(&p);
}

static void connect__beyond_max_connections__is_limit(void **state)
{
    (void)state;
    try_max_connections(2);
    try_max_connections(3);
}

/* --- idle ------------------------------------------------------------------------------------ */

#define IDLE 500u /* pairs */

static double cpu_seconds(void)
{
    struct rusage u;

    assert_int_equal(getrusage(RUSAGE_SELF, &u), 0);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* Without some of the standard descriptors: none of them becomes the library's. */
static int use_without(void *arg)
{
    const unsigned *closed = arg;
    struct pair_options o;
    struct pair p;

    for (int fd = 0; fd < 3; fd++) {
        if (*closed >> fd & 1) {
            close(fd);
        }
    }
    pair_options_init(&o, PAIR_TCP4);
    pair_open(&p, &o);
    for (int fd = 0; fd < 3; fd++) {
        if (*closed >> fd & 1) {
            assert_int_equal(write(fd, "a line", 6), -1);
        }
    }
    pair_recv(&p.side[1], 1, 0, 8);
    pair_send(&p.side[0], 2, 0, 8);
    pair_wc(p.side[1].recv_cq, 1, IWARP_WC_SUCCESS);
    pair_close(&p); /* libuv ends a process that would close one of its own with such a number */
    return 0;
}

static void open__without_standard_descriptors__leaves_them_to_nobody(void **state)
{
    (void)state;
    for (unsigned closed = 1; closed < 8; closed++) {
        if (child_run(use_without, &closed) != 0) {
            fail_msg("descriptors closed, as bits: %u", closed);
        }
    }
}

/* 1000 ends, half of them over TCP, that all have carried a message: no CPU, no blocks held. */
static void connections__that_are_idle__cost_no_time(void **state)
{
    struct pair_side *side = calloc(2 * IDLE, sizeof *side);
    struct rlimit files;
    struct pair_options o;
    struct pair p;

    (void)state;
    assert_non_null(side);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max < 4096 ? files.rlim_max : 4096;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    pair_options_init(&o, PAIR_TCP4);
    o.memory = 64;
    o.cq_entries = 4;
    o.qp.max_send_wr = o.qp.max_recv_wr = 4;
    o.no_events = true;
    pair_prepare(&p, &o);
    for (unsigned i = 0; i < IDLE; i++) {
        struct pair q = p;
        q.options.transport = i % 2 ? PAIR_TCP4 : PAIR_MEMORY;
        pair_side_open(&q.side[0], q.device, &o);
        pair_side_open(&q.side[1], q.device, &o);
        pair_connect(&q);
        pair_recv(&q.side[1], 1, 0, 8);
        pair_send(&q.side[0], 2, 0, 8);
        pair_wc(q.side[1].recv_cq, 1, IWARP_WC_SUCCESS);
        side[2 * i] = q.side[0];
        side[2 * i + 1] = q.side[1];
    }
    double used = 1;
    for (int i = 0; i < 20 && used > 0.02; i++) { /* what was said before may still be at work */
        usleep(100000);
        double begin = cpu_seconds();
        usleep(1000000);
        used = cpu_seconds() - begin;
    }
    if (used > 0.02) {
        fail_msg("%.3f s of CPU in one idle second", used);
    }
    for (unsigned i = 0; i < 2 * IDLE; i++) {
        pair_side_close(&side[i]);
    }
    pair_close(&p);
    free(side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open__with_impossible_options__is_misuse),
        cmocka_unit_test(close__while_something_lives__is_misuse),
        cmocka_unit_test(open__without_memory__leaves_nothing),
        cmocka_unit_test(open__without_standard_descriptors__leaves_them_to_nobody),
        cmocka_unit_test(connect__beyond_max_connections__is_limit),
        cmocka_unit_test(connections__that_are_idle__cost_no_time),
    };

    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
