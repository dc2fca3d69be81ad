/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that send messages for which there is no receive, while such messages may wait: what this
 * end holds for them is bounded, the end of such a peer is noticed although nothing more is read,
 * it costs no processor time meanwhile, and other connections notice nothing.
 *
 * RFC 5041 7.1, RFC 5042 6.4.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "progress.h"
#include "tcp_host.h"
#include "verbs/device.h"

#define V17      "00164147 00000000 00000002 00000001 00000000 00000000 f9a26f1d"
#define LONG_MS  600000u /* nothing here waits so long */
#define CLOSE_MS 400
#define SLACK_MS 60000 /* of a busy machine */
#define BYTES    262144u
#define READ     262144u /* what one read may bring: a worker's staging area */

static struct tcp_host *host;

static int setup(void **state)
{
    (void)state;
    host = host_open(NULL, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    host_close(host);
    return 0;
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Of this process, in ms. */
static int64_t processor_ms(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 +
           (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
}

static void connect_raw(enum host_role role)
{
    host_options(host);
    host->options.close_timeout_ms = CLOSE_MS;
    host->options.rnr_timeout_ms = LONG_MS;
    host_connect(host, role, 1, 0);
}

/* n Sends of `len` octets (1000 or 0), MSNs from 1 on. */
static void add_sends(struct octets *o, unsigned n, unsigned len)
{
    char text[120];

    for (unsigned msn = 1; msn <= n; msn++) {
        snprintf(text, sizeof text,
                 len ? "| 03fa4143 00000000 00000000 %08x 00000000 N5a*1000 C"
                     : "| 00124143 00000000 00000000 %08x 00000000 C",
                 msn);
        raw_text(o, NULL, text);
    }
}

/* As much of it as the kernel takes; false: all of it. */
static bool push(const struct octets *o)
{
    size_t at = 0;

    for (unsigned idle = 0; at < o->n && idle < 50;) {
        ssize_t n = send(host->fd, o->p + at, o->n - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0) {
            assert_int_equal(errno, EAGAIN);
            progress_sleep(10000);
            idle++;
        } else {
            at += (size_t)n;
            idle = 0;
        }
    }
    return at < o->n;
}

/* Until the stream reads no more: what it has read does not grow for a while. */
static void await_rest(void)
{
    struct iwarp_qp_stats stats = {.size = sizeof stats};
    uint64_t before = UINT64_MAX;

    while (stats.received.octets != before || before == 0) {
        before = stats.received.octets;
        progress_sleep(100000);
        assert_int_equal(iwarp_qp_stats(host->qp, &stats), IWARP_OK);
    }
}

static void over(enum iwarp_fault_code code)
{
    host_ended(host, code, 0);
    assert_int_equal(atomic_load(&host->device->budget.used), 0);
    host_finish(host);
    host_check_memory(host);
    host_check_quiet(host);
}

/* More than the kernel and this end together take. Empty messages cost their bookkeeping. */
static void flood__of_each_size__is_bounded_and_costs_nothing(void **state)
{
    (void)state;
    for (unsigned len = 0; len <= 1000; len += 1000) {
        struct octets o = {0};
        add_sends(&o, len ? 30000 : 1000000, len);
        connect_raw(len ? HOST_RESPONDER : HOST_INITIATOR);
        assert_true(push(&o));
        await_rest();
        assert_in_range(atomic_load(&host->device->budget.used), BYTES, BYTES + 3 * READ);
        host_check_quiet(host);
        int64_t used = processor_ms(), begun = now_ms();
        progress_sleep(500000);
        assert_true(processor_ms() - used < (now_ms() - begun) / 3);
        raw_reset(host->fd);
        host->fd = -1;
        over(IWARP_FAULT_TCP_LOST);
        octets_free(&o);
    }
}

/* 300 of them are more than may be held, and few enough for the kernel and a window of 65,535. */
static void push_more_than_held(const char *behind)
{
    struct octets o = {0};

    add_sends(&o, 300, 1000);
    if (behind) {
        octets_hex(&o, behind);
    }
    assert_false(push(&o));
    await_rest();
    octets_free(&o);
}

static void fin__behind_more_than_may_be_held__is_noticed(void **state)
{
    (void)state;
    connect_raw(HOST_RESPONDER);
    push_more_than_held(NULL);
    int64_t begun = now_ms();
    raw_fin(host->fd);
    over(IWARP_FAULT_DDP_WAITED);
    assert_in_range(now_ms() - begun, CLOSE_MS - 5, CLOSE_MS + SLACK_MS);
}

static void terminate__behind_more_than_may_be_held__is_heard(void **state)
{
    (void)state;
    connect_raw(HOST_RESPONDER);
    push_more_than_held(V17);
    raw_fin(host->fd);
    over(IWARP_FAULT_PEER_TERMINATE);
}

static void disconnect__of_this_end__does_not_wait(void **state)
{
    (void)state;
    connect_raw(HOST_RESPONDER);
    push_more_than_held(NULL);
    assert_int_equal(iwarp_disconnect(host->conn), IWARP_OK);
    raw_expect_fin(host->fd, "after disconnect");
    raw_fin(host->fd);
    over(IWARP_FAULT_NONE);
}

/* The time is over: the Terminate, and nothing else was sent. */
static void time_over__with_more_than_may_be_held__terminates(void **state)
{
    (void)state;
    host_options(host);
    host->options.rnr_timeout_ms = 300;
    host_connect(host, HOST_RESPONDER, 1, 0);
    int64_t begun = now_ms();
    push_more_than_held(NULL);
    raw_hear(host->fd, NULL,
             "002a4147 00000000 00000002 00000001 00000000 1202c000 03fa4143 00000000 00000000 "
             "00000001 00000000 C",
             "the Terminate");
    assert_true(now_ms() - begun >= 299);
    over(IWARP_FAULT_DDP_WAITED);
}

/* Everything goes away while it waits. */
static void destroy__while_messages_wait__frees_them(void **state)
{
    (void)state;
    for (unsigned first = 0; first < 2; first++) {
        connect_raw(HOST_RESPONDER);
        push_more_than_held(NULL);
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
        host_finish(host);
        host_check_quiet(host);
        assert_int_equal(atomic_load(&host->device->budget.used), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flood__of_each_size__is_bounded_and_costs_nothing),
        cmocka_unit_test(fin__behind_more_than_may_be_held__is_noticed),
        cmocka_unit_test(terminate__behind_more_than_may_be_held__is_heard),
        cmocka_unit_test(disconnect__of_this_end__does_not_wait),
        cmocka_unit_test(time_over__with_more_than_may_be_held__terminates),
        cmocka_unit_test(destroy__while_messages_wait__frees_them),
    };

    return cmocka_run_group_tests_name("hostile_wait", tests, setup, teardown);
}
