/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Destroying, aborting and disconnecting in every state of a connection's youth: connecting,
 * waiting for the Reply, waiting for an answer, in between. Nothing crashes, hangs or is left.
 */
#include "octets.h"
#include "raw_peer.h"
#include "verbs_pair.h"

#include <sched.h>
#include <unistd.h>

enum phase { CONNECTING, WAITING_FOR_REPLY, REQUESTED, PHASES };
enum blow { DESTROY, ABORT, DISCONNECT, DESTROY_QP, BLOWS };

struct young {
    struct pair p;
    int listener, filler[8], peer;
};

/* A listener of which the backlog is full, or that lets in and stays silent. */
static void open_listener(struct young *y, bool full, struct sockaddr_in *at)
{
    socklen_t len = sizeof *at;

    *at = (struct sockaddr_in){.sin_family = AF_INET};
    at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    y->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(y->listener, (struct sockaddr *)at, len), 0);
    assert_int_equal(listen(y->listener, full ? 0 : 16), 0);
    assert_int_equal(getsockname(y->listener, (struct sockaddr *)at, &len), 0);
    for (int i = 0; i < 8; i++) {
        y->filler[i] = full ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;
        if (full) {
            (void)connect(y->filler[i], (struct sockaddr *)at, len);
        }
    }
}

static void young_open(struct young *y, enum phase phase)
{
    struct sockaddr_in to;
    struct pair_options o;

    pair_options_init(&o, PAIR_TCP4);
    o.memory = 64;
    pair_prepare(&y->p, &o);
    y->peer = y->listener = -1;
    if (phase == REQUESTED) {
        struct sockaddr_storage addr;
        socklen_t len;
        must(iwarp_listener_addr(y->p.listener, &addr, &len));
        memcpy(&to, &addr, sizeof to);
    } else {
        open_listener(y, phase == CONNECTING, &to);
    }
    o.conn[0].mpa_fallback = false; /* nobody would answer the second Request either */
    must(iwarp_connect(y->p.side[0].qp, (struct sockaddr *)&to, sizeof to, &o.conn[0], NULL, 0,
                       y->p.eq[0], NULL, &y->p.side[0].conn));
    if (phase == WAITING_FOR_REPLY) {
        uint8_t frame[24];
        y->peer = raw_accept(y->listener);
        raw_read(y->peer, frame, sizeof frame, "Request");
    } else if (phase == REQUESTED) {
        y->p.side[1].conn = pair_event(y->p.eq[1], IWARP_EVENT_REQUEST).conn;
    }
}

static void young_close(struct young *y, enum phase phase)
{
    pair_close(&y->p);
    if (phase == REQUESTED) {
        return;
    }
    for (int i = 0; phase == CONNECTING && i < 8; i++) {
        close(y->filler[i]);
    }
    if (y->peer >= 0) {
        close(y->peer);
    }
    close(y->listener);
}

static void strike(struct young *y, enum blow blow)
{
    struct pair_side *s = &y->p.side[0];
    struct iwarp_event event;

    switch (blow) {
    case DESTROY:
        must(iwarp_conn_destroy(s->conn));
        s->conn = NULL;
        assert_int_equal(iwarp_eq_get(y->p.eq[0], &event, 0),
                         IWARP_AGAIN); /* no handle, no event */
        break;
    case ABORT:
    case DISCONNECT:
        must(blow == ABORT ? iwarp_abort(s->conn) : iwarp_disconnect(s->conn));
        break;
    case DESTROY_QP:
        must(iwarp_qp_destroy(s->qp));
        s->qp = NULL;
        break;
    case BLOWS:
        break;
    }
    if (blow != DESTROY) {
        must(iwarp_conn_wait_end(s->conn, PAIR_WAIT_MS));
        assert_int_equal(iwarp_fault_code(iwarp_conn_fault(s->conn)), IWARP_FAULT_LOCAL_ABORT);
        event = pair_event(y->p.eq[0], IWARP_EVENT_FAILED);
        assert_int_equal(event.status, IWARP_CLOSED);
        must_fail(iwarp_conn_wait(s->conn, 0), IWARP_CLOSED, "aborted");
    }
}

static void end__in_every_phase__is_immediate(void **state)
{
    unsigned fds = 0;

    (void)state;
    for (unsigned i = 0; i < (unsigned)PHASES * BLOWS; i++) {
        fds = i == 1 ? pair_fd_count() : fds; /* libuv keeps a pipe from the first loop on */
        enum phase phase = (enum phase)(i / BLOWS);
        struct young y;
        young_open(&y, phase);
        if (phase != CONNECTING) { /* receives are flushed in the end */
            pair_recv(&y.p.side[0], 5, 0, 8);
        }
        assert_int_equal(iwarp_qp_state(y.p.side[0].qp), IWARP_QP_IDLE);
        strike(&y, (enum blow)(i % BLOWS));
        if (y.p.side[0].qp && phase != CONNECTING) {
            struct iwarp_wc wc = pair_wc(y.p.side[0].recv_cq, 5, IWARP_WC_FLUSHED);
            assert_non_null(wc.fault);
        }
        if (y.peer >= 0) { /* the other end hears of it */
            char octet;
            assert_true(recv(y.peer, &octet, 1, 0) <= 0);
        }
        young_close(&y, phase);
    }
    assert_int_equal(pair_fd_count(), fds);
}

/* The same at the end that should have answered. */
static void end__of_an_unanswered_request__tells_the_initiator(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct young y;
        young_open(&y, REQUESTED);
        struct iwarp_conn *conn = y.p.side[1].conn;
        if (i == DESTROY) {
            must(iwarp_conn_destroy(conn));
            y.p.side[1].conn = NULL;
        } else {
            must(i == ABORT ? iwarp_abort(conn) : iwarp_disconnect(conn));
            must_fail(iwarp_accept(conn, y.p.side[1].qp, NULL, NULL, 0, NULL), IWARP_CLOSED,
                      "gone");
        }
        struct iwarp_event event =
            pair_event(y.p.eq[0], i == ABORT ? IWARP_EVENT_FAILED : IWARP_EVENT_REJECTED);
        assert_int_equal(event.status, i == ABORT ? IWARP_TRANSPORT : IWARP_PEER);
        assert_int_equal(iwarp_qp_state(y.p.side[1].qp), IWARP_QP_IDLE);
        young_close(&y, REQUESTED);
    }
}

/* The initiator has gone when the answer comes: accepting works, and ends as any connection. */
static void accept__after_the_initiator_has_gone__ends(void **state)
{
    (void)state;
    struct young y;
    young_open(&y, REQUESTED);
    must(iwarp_conn_destroy(y.p.side[0].conn));
    y.p.side[0].conn = NULL;
    (void)iwarp_accept(y.p.side[1].conn, y.p.side[1].qp, NULL, NULL, 0, NULL);
    must(iwarp_conn_wait_end(y.p.side[1].conn, PAIR_WAIT_MS));
    assert_non_null(iwarp_conn_fault(y.p.side[1].conn));
    young_close(&y, REQUESTED);
}

/* In memory both ends start by themselves; here one is struck while they are at it. */
static void end__of_a_pair_that_is_starting__is_safe(void **state)
{
    struct chance chance = {chance_seed()};
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    o.device.workers = 2;
    o.memory = 64;
    pair_prepare(&p, &o);
    for (unsigned i = 0; i < 300; i++) {
        struct pair_side side[2];
        pair_side_open(&side[0], p.device, &o);
        pair_side_open(&side[1], p.device, &o);
        must(iwarp_connect_pair(side[0].qp, side[1].qp, NULL, p.eq[0], &side[0].conn,
                                &side[1].conn));
        for (size_t n = chance_below(&chance, 4); n > 0; n--) {
            sched_yield();
        }
        struct pair_side *s = &side[i / 4 % 2];
        if (i % 4 == DESTROY_QP) {
            must(iwarp_qp_destroy(s->qp));
            s->qp = NULL;
            must(iwarp_conn_wait_end(side[0].conn, PAIR_WAIT_MS));
            must(iwarp_conn_wait_end(side[1].conn, PAIR_WAIT_MS));
        } else if (i % 4 == DESTROY) {
            must(iwarp_conn_destroy(s->conn));
            s->conn = NULL;
        } else {
            must(i % 4 == ABORT ? iwarp_abort(s->conn) : iwarp_disconnect(s->conn));
            must(iwarp_conn_wait_end(side[0].conn, PAIR_WAIT_MS));
            must(iwarp_conn_wait_end(side[1].conn, PAIR_WAIT_MS));
        }
        pair_side_close(&side[i % 2]);
        pair_side_close(&side[1 - i % 2]);
    }
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(end__in_every_phase__is_immediate),
        cmocka_unit_test(end__of_an_unanswered_request__tells_the_initiator),
        cmocka_unit_test(accept__after_the_initiator_has_gone__ends),
        cmocka_unit_test(end__of_a_pair_that_is_starting__is_safe),
    };

    return cmocka_run_group_tests_name("conn_setup", tests, NULL, NULL);
}
