/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that do not read, do not close, or ask for more than they take. What this end holds for
 * them is bounded, and so is the time after which it is rid of them.
 *
 * RFC 5042 6.4, RFC 5041 6.2, RFC 5040 6.1.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "progress.h"
#include "tcp_host.h"
#include "verbs/device.h"
#include "verbs/mr.h"

#define V24      "000ec140 00000001 00000000 00000000 ebd34c5f"
#define BIG      (8u << 20) /* octets of the large region */
#define WRITES   40         /* of it */
#define CLOSE_MS 400
#define SLACK_MS 60000 /* of a busy machine */

static struct tcp_host *host;
static uint8_t *big;
static struct iwarp_mr *big_mr;

static int setup(void **state)
{
    (void)state;
    host = host_open(NULL, NULL);
    big = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(big != MAP_FAILED);
    memset(big, 0x3c, BIG);
    assert_int_equal(iwarp_mr_register(host->pd, big, BIG, IWARP_ACCESS_REMOTE_READ, &big_mr),
                     IWARP_OK);
    raw_name(&host->names, 'B', iwarp_mr_stag(big_mr), 4);
    raw_name(&host->names, 'A', (uint64_t)(uintptr_t)big, 8);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(iwarp_mr_deregister(big_mr), IWARP_OK);
    munmap(big, BIG);
    host_close(host);
    return 0;
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Memory of this process that is in use. */
static size_t resident(void)
{
    unsigned long total, pages;
    FILE *f = fopen("/proc/self/statm", "r");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu %lu", &total, &pages), 2);
    fclose(f);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void connect_raw(enum host_role role)
{
    host_options(host);
    host->options.close_timeout_ms = CLOSE_MS;
    host_connect(host, role, 1, HOST_RECEIVES);
    raw_say(host->fd, NULL, V24);
}

static void over(void)
{
    host_finish(host);
    host_check_memory(host);
    host_check_quiet(host);
}

/* Post WRITES RDMA Writes of BIG octets; the peer reads none of them. */
static void post_too_much(void)
{
    struct iwarp_sge sge = {big, BIG, iwarp_mr_stag(big_mr)};
    struct iwarp_send_wr wr = {.opcode = IWARP_WR_WRITE,
                               .flags = IWARP_WR_SIGNALED,
                               .sg_list = &sge,
                               .num_sge = 1,
                               .remote_stag = 0x11223344,
                               .remote_to = 0x3000};
    size_t before = resident();

    for (unsigned i = 0; i < WRITES; i++) {
        wr.wr_id = 300 + i;
        assert_int_equal(iwarp_post_send(host->qp, &wr, NULL), IWARP_OK);
    }
    host_check_quiet(host);
    progress_sleep(100000);
    size_t after = resident();
    assert_true(atomic_load(&host->device->budget.used) <= 512 * 1024);
    assert_true(after < before + BIG); /* of WRITES * BIG */
}

static unsigned completions(enum iwarp_fault_code code)
{
    unsigned flushed = 0;
    struct iwarp_wc wc;

    while (iwarp_cq_poll(host->cq, &wc, 1) == 1) {
        if (wc.status != IWARP_WC_SUCCESS) {
            host_check_fault(wc.fault, code);
            flushed++;
        }
    }
    return flushed;
}

static void ended(enum iwarp_fault_code code)
{
    struct iwarp_event e = host_event(host, IWARP_EVENT_DISCONNECTED);

    host_check_fault(e.fault, code);
    assert_in_range(completions(code), WRITES - 2 + HOST_RECEIVES, WRITES + HOST_RECEIVES);
}

/* --- a peer that does not read --------------------------------------------------------------- */

static void no_reading__disconnect__ends_when_the_time_is_up(void **state)
{
    (void)state;
    connect_raw(HOST_INITIATOR);
    post_too_much();
    int64_t begun = now_ms();
    assert_int_equal(iwarp_disconnect(host->conn), IWARP_OK);
    ended(IWARP_FAULT_TCP_CLOSE_TIMEOUT);
    assert_in_range(now_ms() - begun, CLOSE_MS - 5, CLOSE_MS + SLACK_MS);
    over();
}

static void no_reading__disconnect__does_not_wait_itself(void **state)
{
    (void)state;
    host_options(host);
    host->options.close_timeout_ms = 10 * SLACK_MS;
    host_connect(host, HOST_RESPONDER, 1, HOST_RECEIVES);
    raw_say(host->fd, NULL, V24);
    post_too_much();
    int64_t begun = now_ms();
    assert_int_equal(iwarp_disconnect(host->conn), IWARP_OK);
    assert_true(now_ms() - begun < SLACK_MS);
    assert_int_equal(iwarp_abort(host->conn), IWARP_OK); /* nor does this wait for the close */
    ended(IWARP_FAULT_LOCAL_ABORT);
    assert_true(now_ms() - begun < SLACK_MS);
    over();
}

static void no_reading__abort__ends_at_once(void **state)
{
    (void)state;
    connect_raw(HOST_RESPONDER);
    post_too_much();
    int64_t begun = now_ms();
    assert_int_equal(iwarp_abort(host->conn), IWARP_OK);
    ended(IWARP_FAULT_LOCAL_ABORT);
    assert_true(now_ms() - begun < SLACK_MS);
    over();
}

static void no_reading__destroy_everything__is_bounded(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        connect_raw(HOST_INITIATOR);
        post_too_much();
        int64_t begun = now_ms();
        if (first) {
            assert_int_equal(iwarp_qp_destroy(host->qp), IWARP_OK);
            host->qp = NULL;
        }
        assert_int_equal(iwarp_conn_destroy(host->conn), IWARP_OK);
        host->conn = NULL;
        if (host->qp) {
            assert_int_equal(iwarp_qp_destroy(host->qp), IWARP_OK);
            host->qp = NULL;
        }
        assert_true(now_ms() - begun < SLACK_MS);
        host_no_event(host, 0);
        over();
    }
}

/* The Terminate does not get through either. */
static void no_reading__a_fault__ends_when_the_time_is_up(void **state)
{
    (void)state;
    connect_raw(HOST_INITIATOR);
    post_too_much();
    raw_say(host->fd, NULL, "0012c140 00010203 00000000 00001000 deadbeef 17369156"); /* V06 */
    ended(IWARP_FAULT_DDP_STAG_INVALID);
    over();
}

static void no_reading__a_reset__ends_at_once(void **state)
{
    (void)state;
    connect_raw(HOST_RESPONDER);
    post_too_much();
    raw_reset(host->fd);
    host->fd = -1;
    ended(IWARP_FAULT_TCP_LOST);
    over();
}

/* It does read in the end: nothing was lost meanwhile. */
static void late_reading__everything_arrives_and_completes(void **state)
{
    struct iwarp_conn_info info = {.size = sizeof info};
    size_t expected = 0;

    (void)state;
    host_options(host);
    host->options.ulpdu_max = 16000; /* or it might grow with the window */
    host_connect(host, HOST_INITIATOR, 1, HOST_RECEIVES);
    raw_say(host->fd, NULL, V24);
    assert_int_equal(iwarp_conn_info(host->conn, &info), IWARP_OK);
    post_too_much();
    for (size_t left = BIG, n; left > 0; left -= n) {
        n = left < info.mulpdu - 14 ? left : info.mulpdu - 14;
        expected += (2 + 14 + n + 3) / 4 * 4 + 4;
    }
    uint8_t head[16];
    struct octets first = {0};
    raw_read(host->fd, head, sizeof head, "the first header");
    octets_be(&first, info.mulpdu, 2);
    raw_text(&first, NULL, "8140 11223344 00000000 00003000");
    octets_expect("the first header", head, sizeof head, first.p, first.n);
    octets_free(&first);
    uint8_t *sink = malloc(1 << 20);
    for (size_t left = expected * WRITES - sizeof head, n; left > 0; left -= n) {
        n = left < 1 << 20 ? left : 1 << 20;
        raw_read(host->fd, sink, n, "the Writes");
    }
    free(sink);
    for (unsigned i = 0; i < WRITES; i++) {
        struct iwarp_wc wc = host_completion(host);
        assert_int_equal(wc.status, IWARP_WC_SUCCESS);
        assert_int_equal(wc.wr_id, 300 + i);
    }
    raw_fin(host->fd);
    raw_expect_fin(host->fd, "behind all Writes");
    host_ended(host, IWARP_FAULT_NONE, HOST_RECEIVES);
    over();
}

/* --- a peer that asks for more than it takes ------------------------------------------------- */

static void reads__more_than_granted_and_none_taken__is_1_2_03(void **state)
{
    struct octets tail = {0}, got = {0}, o = {0};
    uint8_t piece[65536];
    ssize_t n = -1;

    (void)state;
    for (int i = 1; i <= 32 + 2; i++) {
        char text[160];
        snprintf(text, sizeof text,
                 "| 002e4141 00000000 00000001 %08x 00000000 11223344 00000000 00002000"
                 "00800000 B A C",
                 (unsigned)i);
        raw_text(&o, &host->names, text);
    }
    connect_raw(HOST_RESPONDER);
    raw_send(host->fd, o.p, o.n);
    octets_free(&o);
    struct iwarp_event e = host_event(host, IWARP_EVENT_DISCONNECTED); /* or after the time-out */
    host_check_fault(e.fault, IWARP_FAULT_DDP_IRD_EXCEEDED);
    assert_true(atomic_load(&host->device->budget.used) <= 512 * 1024);
    (void)completions(IWARP_FAULT_DDP_IRD_EXCEEDED);
    over();

    /* The same, and it reads what is on the way: the Terminate is the last of it. */
    raw_text(
        &o, &host->names,
        "002e4141 00000000 00000001 00000001 00000000 11223344 00000000 00002000 00800000 B A C"
        "| 002e4141 00000000 00000001 00000002 00000000 11223344 00000000 00002000 00800000 B"
        "A C");
    host_options(host);
    host->options.ird = 1;
    host_connect(host, HOST_INITIATOR, 1, 0);
    raw_send(host->fd, o.p, o.n);
    octets_free(&o);
    struct pollfd p = {.fd = host->fd, .events = POLLIN};
    while (progress_poll(&p, 1, RAW_PATIENCE_MS) == 1 &&
           (n = recv(host->fd, piece, sizeof piece, 0)) > 0) {
        octets_add(&got, piece, (size_t)n);
    }
    assert_int_equal(n, 0);
    raw_text(&tail, &host->names,
             "002a4147 00000000 00000002 00000001 00000000 1203c000 002e4141 00000000 00000001"
             "00000002 00000000 C");
    assert_true(got.n >= tail.n && got.n < 2 * (size_t)BIG);
    octets_expect("the Terminate at the end", got.p + got.n - tail.n, tail.n, tail.p, tail.n);
    host_ended(host, IWARP_FAULT_DDP_IRD_EXCEEDED, 0);
    octets_free(&tail);
    octets_free(&got);
    over();
}

/* --- a peer that does not close -------------------------------------------------------------- */

static void no_fin__disconnect__ends_when_the_time_is_up(void **state)
{
    (void)state;
    for (int role = 0; role < 2; role++) {
        connect_raw((enum host_role)role);
        int64_t begun = now_ms();
        assert_int_equal(iwarp_disconnect(host->conn), IWARP_OK);
        raw_expect_fin(host->fd, "our close");
        host_ended(host, IWARP_FAULT_TCP_CLOSE_TIMEOUT, HOST_RECEIVES);
        assert_in_range(now_ms() - begun, CLOSE_MS - 5, CLOSE_MS + SLACK_MS);
        over();
    }
}

/* Nor after a Terminate: what it goes on sending is dropped for a while, then the socket is gone.
 */
/* [DDP-3-11] [RDMAP-7-03] */
static void no_fin__after_a_terminate__is_reset_when_the_time_is_up(void **state)
{
    uint8_t octets[1000] = {0};

    (void)state;
    connect_raw(HOST_RESPONDER);
    int64_t begun = now_ms();
    raw_say(host->fd, NULL, "0012c140 00010203 00000000 00001000 deadbeef 17369156"); /* V06 */
    raw_hear(host->fd, NULL,                                                          /* V14 */
             "00264147 00000000 00000002 00000001 00000000 1100c000 0012c140 00010203"
             "00000000 00001000 116f8760",
             "the Terminate");
    raw_expect_fin(host->fd, "behind the Terminate");
    host_ended(host, IWARP_FAULT_DDP_STAG_INVALID, HOST_RECEIVES); /* this end does not wait */
    while (send(host->fd, octets, sizeof octets, MSG_NOSIGNAL) > 0) {
        assert_true(now_ms() - begun < CLOSE_MS + SLACK_MS);
        progress_sleep(5000);
    }
    assert_true(errno == ECONNRESET || errno == EPIPE);
    assert_true(now_ms() - begun >= CLOSE_MS - 5);
    over();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_reading__disconnect__ends_when_the_time_is_up),
        cmocka_unit_test(no_reading__disconnect__does_not_wait_itself),
        cmocka_unit_test(no_reading__abort__ends_at_once),
        cmocka_unit_test(no_reading__destroy_everything__is_bounded),
        cmocka_unit_test(no_reading__a_fault__ends_when_the_time_is_up),
        cmocka_unit_test(no_reading__a_reset__ends_at_once),
        cmocka_unit_test(late_reading__everything_arrives_and_completes),
        cmocka_unit_test(reads__more_than_granted_and_none_taken__is_1_2_03),
        cmocka_unit_test(no_fin__disconnect__ends_when_the_time_is_up),
        cmocka_unit_test(no_fin__after_a_terminate__is_reset_when_the_time_is_up),
    };
    return cmocka_run_group_tests_name("hostile_stall", tests, setup, teardown);
}
