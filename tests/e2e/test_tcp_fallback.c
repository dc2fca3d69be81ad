/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an initiator says when it is not told otherwise, and its second try with MPA revision 1 when
 * the peer hangs up on that. RFC 6581 9 and 10. The peer is a raw socket, all octets are literal.
 */
#include "progress.h"
#include "raw_peer.h"
#include "verbs/conn.h"
#include "verbs_pair.h"

#include <time.h>
#include <unistd.h>

#define REQUEST "4d504120494420526571204672616d65"
#define REPLY   "4d504120494420526570204672616d65"

/* Revision 2, CRC; peer-to-peer with an RDMA Read as first message, IRD and ORD 32. */
#define DEFAULT REQUEST "50020004 80204020"

static struct pair pair;
static int listener, fd;
static struct sockaddr_in at;

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void begin(const struct iwarp_conn_options *o, const void *pd, size_t pd_len)
{
    struct pair_options p;

    pair_options_init(&p, PAIR_TCP4);
    pair_prepare(&pair, &p);
    pair_recv(&pair.side[0], 1, 0, 8);
    listener = raw_listen(&at);
    must(iwarp_connect(pair.side[0].qp, (const struct sockaddr *)&at, sizeof at, o, pd, pd_len,
                       pair.eq[0], NULL, &pair.side[0].conn));
    fd = raw_accept(listener);
}

static void end(void)
{
    raw_close(listener);
    pair_close(&pair);
}

static void failed(enum iwarp_fault_code code, const char *says)
{
    struct iwarp_event e = pair_event(pair.eq[0], IWARP_EVENT_FAILED);
    char text[400];

    iwarp_fault_text(e.fault, text, sizeof text);
    assert_string_equal(iwarp_fault_name(iwarp_fault_code(e.fault)), iwarp_fault_name(code));
    assert_non_null(strstr(text, says));
    pair_wc(pair.side[0].recv_cq, 1, IWARP_WC_FLUSHED);
}

/* Nobody else comes. */
static void no_other_try(void)
{
    struct pollfd p = {.fd = listener, .events = POLLIN};

    assert_int_equal(progress_poll(&p, 1, 100), 0);
}

static void connect__without_options__offers_peer_to_peer_by_a_read(void **state)
{
    struct iwarp_conn_info info = {.size = sizeof info};

    (void)state;
    begin(NULL, NULL, 0);
    raw_hear(fd, NULL, DEFAULT, "the Request");
    raw_say(fd, NULL, REPLY "50020004 80204020");
    pair_event(pair.eq[0], IWARP_EVENT_ESTABLISHED);
    raw_hear(fd, NULL,
             "002e4141 00000000 00000001 00000001 00000000 00000001 00000000 00000000"
             "00000000 00000001 00000000 00000000 C",
             "the first message");
    must(iwarp_conn_info(pair.side[0].conn, &info));
    assert_int_equal(info.mpa_rev, 2);
    assert_true(info.crc);
    assert_int_equal(info.rtr, IWARP_RTR_READ);
    assert_int_equal(info.ird, 32);
    assert_int_equal(info.ord, 32);
    raw_close(fd);
    end();
}

/* It hangs up by FIN or reset; the second Request has the same private data. What was asked of the
 * first, that the responder may send before this end does, holds for the second, too. */
static void connect__hung_up_on__comes_again_with_revision_1(void **state)
{
    struct iwarp_conn_info info = {.size = sizeof info};
    struct iwarp_conn_options o;

    (void)state;
    iwarp_conn_options_init(&o);
    for (int i = 0; i < 4; i++) {
        o.peer_to_peer = i / 2;
        begin(&o, "hi", i / 2 ? 2 : 0);
        raw_hear(fd, NULL, i / 2 ? REQUEST "50020006 80204020 6869" : REQUEST "50020004 00200020",
                 "the Request");
        if (i % 2) {
            raw_reset(fd);
        } else {
            raw_close(fd);
        }
        fd = raw_accept(listener);
        raw_hear(fd, NULL, i / 2 ? REQUEST "40010002 6869" : REQUEST "40010000",
                 "the second Request");
        raw_say(fd, NULL, REPLY "40010000");
        pair_event(pair.eq[0], IWARP_EVENT_ESTABLISHED);
        must(iwarp_conn_info(pair.side[0].conn, &info));
        assert_int_equal(info.mpa_rev, 1);
        assert_int_equal(info.rtr, 0);
        if (i / 2) { /* a responder that sends first has something to wait for */
            raw_hear(fd, NULL, "000ec140 00000001 00000000 00000000 C", "a Write of no octets");
        }
        memcpy(pair.side[0].p, "hello", 5);
        pair_send(&pair.side[0], 7, 0, 5);
        raw_hear(fd, NULL,
                 "00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 b990b10c",
                 "a Send");
        pair_wc(pair.side[0].send_cq, 7, IWARP_WC_SUCCESS);
        raw_fin(fd);
        raw_expect_fin(fd, "a close in order");
        assert_int_equal(pair_event(pair.eq[0], IWARP_EVENT_DISCONNECTED).status, IWARP_OK);
        raw_close(fd);
        no_other_try();
        end();
    }
}

static void connect__hung_up_on_twice__fails(void **state)
{
    (void)state;
    begin(NULL, NULL, 0);
    raw_hear(fd, NULL, DEFAULT, "the Request");
    raw_close(fd);
    fd = raw_accept(listener);
    raw_hear(fd, NULL, REQUEST "40010000", "the second Request");
    raw_close(fd);
    failed(IWARP_FAULT_MPA_CLOSED, "(revision 1) after 0 octets");
    no_other_try();
    end();
}

/* What has begun to answer knows MPA; and who does not want a second try gets none. */
static void connect__answered_or_told_not_to__does_not_come_again(void **state)
{
    struct iwarp_conn_options o;

    (void)state;
    begin(NULL, NULL, 0);
    raw_hear(fd, NULL, DEFAULT, "the Request");
    raw_say(fd, NULL, "4d");
    raw_close(fd);
    failed(IWARP_FAULT_MPA_CLOSED, "(revision 2) after 1 octets");
    no_other_try();
    end();

    iwarp_conn_options_init(&o);
    o.remind = false;
    o.mpa_fallback = false;
    begin(&o, NULL, 0);
    raw_hear(fd, NULL, DEFAULT, "the Request");
    raw_close(fd);
    failed(IWARP_FAULT_MPA_CLOSED, "(revision 2) after 0 octets");
    no_other_try();
    end();
}

/* A rejection is an answer. */
static void connect__rejected__does_not_come_again(void **state)
{
    (void)state;
    begin(NULL, NULL, 0);
    raw_hear(fd, NULL, DEFAULT, "the Request");
    raw_say(fd, NULL, REPLY "70020004 80204020");
    raw_close(fd);
    pair_event(pair.eq[0], IWARP_EVENT_REJECTED);
    no_other_try();
    end();
}

static void connect__nobody_there_the_second_time__fails(void **state)
{
    (void)state;
    begin(NULL, NULL, 0);
    raw_close(listener);
    raw_hear(fd, NULL, DEFAULT, "the Request");
    raw_close(fd);
    failed(IWARP_FAULT_MPA_RETRY_FAILED, "refused");
    listener = -1;
    pair_close(&pair);
}

/* A second connection that is reset, or stays silent: bounded by the time for both. */
static void connect__second_try_goes_wrong__says_what_came_before(void **state)
{
    struct iwarp_conn_options o;

    (void)state;
    iwarp_conn_options_init(&o);
    o.remind = false;
    o.startup_timeout_ms = 3000;
    for (int i = 0; i < 2; i++) {
        begin(&o, NULL, 0);
        int64_t begun = now_ms();
        raw_hear(fd, NULL, DEFAULT, "the Request");
        progress_sleep(300000);
        raw_close(fd);
        fd = raw_accept(listener);
        raw_hear(fd, NULL, REQUEST "40010000", "the second Request");
        if (i == 0) {
            raw_reset(fd);
            failed(IWARP_FAULT_MPA_RETRY_FAILED, "reset");
        } else {
            assert_in_range(pair.side[0].conn->startup->startup_ms, 290, 2999); /* they count */
            assert_true(pair.side[0].conn->limit.due <= (uint64_t)now_ms() + 3000 - 290);
            failed(IWARP_FAULT_MPA_RETRY_TIMEOUT, "3000 ms for both");
            assert_in_range(now_ms() - begun, 2950, 90000);
            raw_close(fd);
        }
        no_other_try();
        end();
    }
}

/* Whatever ends it between the two tries, nothing is left. */
static void connect__ended_during_the_second_try__leaves_nothing(void **state)
{
    unsigned fds = pair_fd_count();

    (void)state;
    for (int i = 0; i < 6; i++) {
        begin(NULL, NULL, 0);
        raw_hear(fd, NULL, DEFAULT, "the Request");
        raw_close(fd);
        if (i >= 3) { /* in the middle of the second, not only about then */
            fd = raw_accept(listener);
            raw_hear(fd, NULL, REQUEST "40010000", "the second Request");
        }
        if (i % 3 == 0) {
            must(iwarp_abort(pair.side[0].conn));
        } else if (i % 3 == 1) {
            must(iwarp_qp_destroy(pair.side[0].qp));
            pair.side[0].qp = NULL;
        }
        if (i >= 3) {
            raw_close(fd);
        }
        end();
    }
    assert_true(pair_fd_count() <= fds + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connect__without_options__offers_peer_to_peer_by_a_read),
        cmocka_unit_test(connect__hung_up_on__comes_again_with_revision_1),
        cmocka_unit_test(connect__hung_up_on_twice__fails),
        cmocka_unit_test(connect__answered_or_told_not_to__does_not_come_again),
        cmocka_unit_test(connect__rejected__does_not_come_again),
        cmocka_unit_test(connect__nobody_there_the_second_time__fails),
        cmocka_unit_test(connect__second_try_goes_wrong__says_what_came_before),
        cmocka_unit_test(connect__ended_during_the_second_try__leaves_nothing),
    };

    return cmocka_run_group_tests_name("tcp_fallback", tests, NULL, NULL);
}
