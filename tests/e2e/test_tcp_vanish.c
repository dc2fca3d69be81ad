/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that vanishes without a word: its host has lost power, or a cable was pulled. A raw peer
 * plays that with a socket filter that drops every segment before its TCP sees it: no
 * acknowledgement, no answer to a probe, no reset. All work is flushed within user_timeout_ms, or
 * that and keepalive_s if nothing was under way.
 *
 * RFC 5044 8 (code 1), RFC 9293 3.8.3, RFC 5482.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/filter.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "place.h"
#include "tcp_host.h"

#define USER_MS 700

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

static void vanish(int fd)
{
    struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
    const struct sock_fprog all = {1, &drop};

    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &all, sizeof all), 0);
}

static void patience(unsigned user_timeout_ms, unsigned keepalive_s)
{
    host_options(host);
    host->options.user_timeout_ms = user_timeout_ms;
    host->options.keepalive_s = keepalive_s;
}

static void lost(int64_t begun, int64_t least, unsigned left)
{
    host_ended(host, IWARP_FAULT_TCP_LOST, left);
    assert_in_range(now_ms() - begun, least, 60000);
    host_finish(host);
    host_check_quiet(host);
}

/* Sent octets that nobody acknowledges: a Send, and an RDMA Read without its Response. */
static void vanish__with_work_under_way__flushes_it(void **state)
{
    (void)state;
    for (int role = 0; role < 2; role++) {
        patience(USER_MS, 0);
        host_connect(host, role ? HOST_INITIATOR : HOST_RESPONDER, 2, HOST_RECEIVES);
        host_begin_read(host);
        vanish(host->fd);
        int64_t begun = now_ms();
        host_post(host, IWARP_WR_SEND, 300, 64);
        assert_int_equal(host_completion(host).wr_id, 200); /* the Read, in order */
        host_ended(host, IWARP_FAULT_TCP_LOST, HOST_RECEIVES + 1);
        assert_in_range(now_ms() - begun, USER_MS - 100, 60000);
        host_finish(host);
        host_check_quiet(host);
    }
}

/* Nothing under way: the probes find out. */
static void vanish__of_an_idle_peer__flushes_the_receives(void **state)
{
    (void)state;
    patience(USER_MS, 1);
    host_connect(host, HOST_INITIATOR, 2, HOST_RECEIVES);
    vanish(host->fd);
    lost(now_ms(), 900, HOST_RECEIVES);
}

/* Without a user time-out a few probes in vain are enough. */
static void vanish__noticed_by_keepalive_alone__flushes_the_receives(void **state)
{
    (void)state;
    patience(0, 1);
    host_connect(host, HOST_RESPONDER, 1, HOST_RECEIVES);
    vanish(host->fd);
    lost(now_ms(), 1900, HOST_RECEIVES);
}

/* An idle peer that answers is left alone. */
static void silence__of_a_living_peer__is_no_end(void **state)
{
    (void)state;
    patience(700, 1);
    host_connect(host, HOST_RESPONDER, 2, HOST_RECEIVES);
    host_no_event(host, 2600);
    raw_fin(host->fd);
    raw_expect_fin(host->fd, "a close in order");
    host_ended(host, IWARP_FAULT_NONE, HOST_RECEIVES);
    host_finish(host);
}

/* The close that is under way has its own limit. */
static void vanish__before_a_disconnect__ends_within_close_timeout(void **state)
{
    (void)state;
    patience(60000, 30);
    host->options.close_timeout_ms = 400;
    host_connect(host, HOST_INITIATOR, 2, 0);
    vanish(host->fd);
    int64_t begun = now_ms();
    assert_int_equal(iwarp_disconnect(host->conn), IWARP_OK);
    host_event(host, IWARP_EVENT_DISCONNECTED);
    assert_in_range(now_ms() - begun, 390, 60000);
    assert_int_equal(iwarp_fault_code(iwarp_conn_fault(host->conn)), IWARP_FAULT_TCP_CLOSE_TIMEOUT);
    host_finish(host);
}

/* While the Request waits for an answer, too. */
static void vanish__before_the_answer__ends_the_request(void **state)
{
    const struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = place_of_device()};
    struct iwarp_listener *listener;
    struct sockaddr_storage at;
    struct sockaddr_in to;
    socklen_t len;

    (void)state;
    patience(USER_MS, 1);
    assert_int_equal(iwarp_listen(host->device, (const struct sockaddr *)&any, sizeof any,
                                  &host->options, 8, host->eq, NULL, &listener),
                     IWARP_OK);
    assert_int_equal(iwarp_listener_addr(listener, &at, &len), IWARP_OK);
    memcpy(&to, &at, sizeof to);
    int fd = raw_connect(&to);
    raw_say(fd, NULL, "4d504120494420526571204672616d65 40010000");
    struct iwarp_conn *conn = host_event(host, IWARP_EVENT_REQUEST).conn;
    vanish(fd);
    assert_int_equal(iwarp_conn_wait_end(conn, RAW_PATIENCE_MS), IWARP_OK);
    host_check_fault(iwarp_conn_fault(conn), IWARP_FAULT_TCP_LOST);
    assert_int_equal(iwarp_reject(conn, NULL, 0), IWARP_CLOSED);
    assert_int_equal(iwarp_conn_destroy(conn), IWARP_OK);
    assert_int_equal(iwarp_listener_close(listener), IWARP_OK);
    raw_close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vanish__with_work_under_way__flushes_it),
        cmocka_unit_test(vanish__of_an_idle_peer__flushes_the_receives),
        cmocka_unit_test(vanish__noticed_by_keepalive_alone__flushes_the_receives),
        cmocka_unit_test(silence__of_a_living_peer__is_no_end),
        cmocka_unit_test(vanish__before_a_disconnect__ends_within_close_timeout),
        cmocka_unit_test(vanish__before_the_answer__ends_the_request),
    };
    return cmocka_run_group_tests_name("tcp_vanish", tests, setup, teardown);
}
