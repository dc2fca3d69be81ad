/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of a connection from every state, by every cause: disconnect, abort, destroy, the peer's
 * FIN, its reset, the queue pair's end. One table; a raw peer at the other end. Also: both ends
 * close at the same time, and a peer that closes behind each octet of a short conversation.
 *
 * Whatever happens: the connection ends within bounded time, each request completes exactly once,
 * nothing is left, and the other connection of the device does not notice.
 *
 * RFC 5040 5.4 and 6.2, RFC 5041 6.2, RFC 5044 7.1.2 and 8, verbs 6.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "tcp_host.h"

#define REQUEST "4d504120494420526571204672616d65"
#define REPLY   "4d504120494420526570204672616d65"
#define V24     "000ec140 00000001 00000000 00000000 ebd34c5f"
#define HELLO   "00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 b990b10c"

/* A Send with MSN 9, and what it is answered with: 1/2/03 and its header. */
#define WRONG "00174143 00000000 00000000 00000009 00000000 68656c6c 6f000000 C"
#define TERMINATE                                                                                  \
    "002a4147 00000000 00000002 00000001 00000000 1203c000 00174143 00000000 00000000 00000009"    \
    "00000000 C"

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

/* --- states ---------------------------------------------------------------------------------- */

enum where {
    WAIT_REPLY,   /* initiator: the Request is out */
    HALF_REPLY,   /* 10 octets of the Reply came */
    HALF_REQUEST, /* responder, known to nobody: 10 octets of the Request came */
    REQUESTED,    /* waits for iwarp_accept */
    HOLDING,      /* responder: established, nothing came yet, a Send waits */
    IDLE,         /* initiator: established, nothing under way */
    READING,      /* an RDMA Read is outstanding */
    HALF_FPDU,    /* half an FPDU came */
    CLOSING,      /* disconnect was called, the peer has not closed yet */
    CLOSING_BUSY, /* the same, with an RDMA Read outstanding */
    DRAINING,     /* our Terminate is out */
    STATES
};

static const char *const where_names[] = {"WAIT_REPLY", "HALF_REPLY",   "HALF_REQUEST", "REQUESTED",
                                          "HOLDING",    "IDLE",         "READING",      "HALF_FPDU",
                                          "CLOSING",    "CLOSING_BUSY", "DRAINING"};

enum cause { DISCONNECT, ABORT, DESTROY, DESTROY_QP, PEER_FIN, PEER_RESET, CAUSES };

static const char *const cause_names[] = {"disconnect", "abort", "destroy",
                                          "qp destroy", "FIN",   "reset"};

static void call_peer(void)
{
    struct sockaddr_in at;
    int listener = raw_listen(&at);

    host_qp(host, HOST_RECEIVES);
    assert_int_equal(iwarp_connect(host->qp, (const struct sockaddr *)&at, sizeof at,
                                   &host->options, NULL, 0, host->eq, NULL, &host->conn),
                     IWARP_OK);
    host->fd = raw_accept(listener);
    raw_close(listener);
    raw_hear(host->fd, NULL, REQUEST "50020004 00200020", "the Request");
}

/* How many requests are posted then; receives included. */
static unsigned reach(enum where w)
{
    host_options(host);
    host->options.close_timeout_ms = 300;
    host->conn = NULL;
    switch (w) {
    case WAIT_REPLY:
    case HALF_REPLY:
        call_peer();
        raw_say(host->fd, NULL, w == HALF_REPLY ? "4d504120494420526570" : "");
        return HOST_RECEIVES;
    case HALF_REQUEST:
    case REQUESTED:
        host->fd = raw_connect(&host->addr);
        raw_say(host->fd, NULL, w == REQUESTED ? REQUEST "40010000" : "4d504120494420526571");
        if (w == REQUESTED) {
            host->conn = host_request(host);
        }
        return 0;
    case HOLDING:
        host_connect(host, HOST_RESPONDER, 2, HOST_RECEIVES);
        host_post(host, IWARP_WR_SEND, 300, 5);
        return HOST_RECEIVES + 1;
    case IDLE:
    case HALF_FPDU:
    case CLOSING:
        host_connect(host, HOST_INITIATOR, 2, HOST_RECEIVES);
        if (w == HALF_FPDU) {
            raw_say(host->fd, NULL, "00174143 00000000 0000");
        } else if (w == CLOSING) {
            assert_int_equal(iwarp_disconnect(host->conn), IWARP_OK);
        }
        return HOST_RECEIVES;
    case READING:
    case CLOSING_BUSY:
        host_connect(host, HOST_INITIATOR, 2, HOST_RECEIVES);
        host_begin_read(host);
        if (w == CLOSING_BUSY) {
            assert_int_equal(iwarp_disconnect(host->conn), IWARP_OK);
        }
        return HOST_RECEIVES + 1;
    case DRAINING:
        host_connect(host, HOST_INITIATOR, 2, HOST_RECEIVES);
        raw_say(host->fd, NULL, WRONG);
        raw_hear(host->fd, NULL, TERMINATE, "the Terminate");
        return HOST_RECEIVES;
    case STATES:
        break;
    }
    return 0;
}

static void strike(enum cause c)
{
    switch (c) {
    case DISCONNECT:
        assert_int_equal(iwarp_disconnect(host->conn), IWARP_OK);
        break;
    case ABORT:
        assert_int_equal(iwarp_abort(host->conn), IWARP_OK);
        break;
    case DESTROY:
        assert_int_equal(iwarp_conn_destroy(host->conn), IWARP_OK);
        host->conn = NULL;
        break;
    case DESTROY_QP:
        assert_int_equal(iwarp_qp_destroy(host->qp), IWARP_OK);
        host->qp = NULL;
        break;
    case PEER_FIN:
        raw_fin(host->fd);
        break;
    case PEER_RESET:
        raw_reset(host->fd);
        host->fd = -1;
        break;
    case CAUSES:
        break;
    }
}

/* The application has no handle that it could use, or no queue pair yet. */
static bool impossible(enum where w, enum cause c)
{
    return (w == HALF_REQUEST && c <= DESTROY_QP) || (w == REQUESTED && c == DESTROY_QP);
}

/* --- ends ------------------------------------------------------------------------------------ */

/* Which end is the right one: the fault that the connection tells of. */
static bool is_right(enum where w, enum cause c, enum iwarp_fault_code code)
{
    bool young = w <= REQUESTED, closing = w == CLOSING || w == CLOSING_BUSY;

    if (w == DRAINING) { /* the first fault stays */
        return code == IWARP_FAULT_DDP_MSN;
    }
    switch (c) {
    case DISCONNECT: /* work that cannot be finished is given up in time */
        return young ? code == IWARP_FAULT_LOCAL_ABORT
               : w == IDLE || w == CLOSING || w == HALF_FPDU
                   ? code == IWARP_FAULT_NONE || code == IWARP_FAULT_TCP_CLOSE_TIMEOUT ||
                         code == IWARP_FAULT_RDMAP_PEER_CLOSED
                   : code == IWARP_FAULT_TCP_CLOSE_TIMEOUT;
    case ABORT:
        return code == IWARP_FAULT_LOCAL_ABORT;
    case DESTROY:
        return true; /* nobody can ask */
    case DESTROY_QP:
        return code == IWARP_FAULT_LOCAL_ABORT || (w == CLOSING && code == IWARP_FAULT_NONE);
    case PEER_FIN:
        return young ? code == (w == REQUESTED ? IWARP_FAULT_MPA_GONE : IWARP_FAULT_MPA_CLOSED)
               : w == IDLE || w == CLOSING ? code == IWARP_FAULT_NONE
               : closing                   ? code == IWARP_FAULT_RDMAP_PEER_CLOSED
                                           : code == IWARP_FAULT_RDMAP_PEER_CLOSED;
    case PEER_RESET:
        return code == IWARP_FAULT_TCP_LOST;
    case CAUSES:
        break;
    }
    return false;
}

/* Everything that was posted completes, once, and not well. */
static void flushed(unsigned posted)
{
    struct iwarp_wc wc;

    for (unsigned i = 0; i < posted; i++) {
        wc = host_completion(host);
        assert_int_not_equal(wc.status, IWARP_WC_SUCCESS);
    }
    assert_int_equal(iwarp_cq_poll(host->cq, &wc, 1), 0);
}

/* Exactly one event of an end, if there is a handle and it was not asked to wait for an answer. */
static void drain_events(enum where w, enum cause c)
{
    struct iwarp_event e;
    unsigned ends = 0;

    while (iwarp_eq_get(host->eq, &e, 20) == IWARP_OK) {
        assert_true(e.type == IWARP_EVENT_FAILED || e.type == IWARP_EVENT_DISCONNECTED);
        assert_ptr_equal(e.conn, host->conn);
        assert_int_equal(e.type == IWARP_EVENT_FAILED, w <= REQUESTED);
        ends++;
    }
    assert_int_equal(ends, w != HALF_REQUEST && w != REQUESTED && c != DESTROY);
}

static void end_of(enum where w, enum cause c)
{
    unsigned posted = reach(w);

    strike(c);
    if (host->conn) {
        assert_int_equal(iwarp_conn_wait_end(host->conn, RAW_PATIENCE_MS), IWARP_OK);
        enum iwarp_fault_code code = iwarp_fault_code(iwarp_conn_fault(host->conn));
        if (!is_right(w, c, code)) {
            fail_msg("ended with %s", iwarp_fault_name(code));
        }
    }
    drain_events(w, c);
    if (host->fd >= 0) {
        (void)raw_drain(host->fd); /* it has an end */
    }
    if (host->qp) {
        flushed(posted);
        assert_int_equal(iwarp_qp_state(host->qp), IWARP_QP_ERROR);
    }
    host_finish(host);
}

static void end__in_every_state_by_every_cause__is_one_end(void **state)
{
    (void)state;
    for (unsigned w = 0; w < STATES; w++) {
        for (unsigned c = 0; c < CAUSES; c++) {
            if (!impossible((enum where)w, (enum cause)c)) {
                printf("# %s: %s\n", where_names[w], cause_names[c]);
                fflush(stdout);
                end_of((enum where)w, (enum cause)c);
            }
        }
        host_check_quiet(host);
    }
    host_reset_memory(host);
}

/* The device goes with connections whose handles were destroyed in every state. */
static void device_close__with_connections_in_every_state__leaves_nothing(void **state)
{
    (void)state;
    for (unsigned w = 0; w < STATES; w++) {
        struct tcp_host *other = host, *mine = host_open(NULL, NULL);
        host = mine;
        (void)reach((enum where)w);
        int fd = host->fd;
        host->fd = -1;
        if (host->conn) { /* without handles the device may go, whatever still lingers */
            assert_int_equal(iwarp_conn_destroy(host->conn), IWARP_OK);
            host->conn = NULL;
        }
        if (host->qp) {
            assert_int_equal(iwarp_qp_destroy(host->qp), IWARP_OK);
            host->qp = NULL;
        }
        host_close(mine);
        host = other;
        (void)raw_drain(fd);
        raw_close(fd);
    }
}

/* --- at the same time ------------------------------------------------------------------------ */

/* Both FINs cross; then both ends have closed in order. */
static void close__at_the_same_time__is_in_order(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) {
        host_options(host);
        host_connect(host, i & 1 ? HOST_INITIATOR : HOST_RESPONDER, 1 + (i >> 1 & 1),
                     HOST_RECEIVES);
        if (i % 3 == 0) {
            raw_fin(host->fd);
        }
        assert_int_equal(iwarp_disconnect(host->conn), IWARP_OK);
        if (i % 3 == 1) {
            raw_fin(host->fd);
        }
        raw_expect_fin(host->fd, "a close in order");
        if (i % 3 == 2) {
            raw_fin(host->fd);
        }
        host_ended(host, IWARP_FAULT_NONE, HOST_RECEIVES);
        host_finish(host);
    }
    host_check_quiet(host);
}

/* A Terminate crosses the peer's FIN, and still arrives. */
static void terminate__behind_the_peers_fin__arrives(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        host_options(host);
        host_connect(host, HOST_INITIATOR, 2, HOST_RECEIVES);
        raw_say(host->fd, NULL, WRONG);
        raw_fin(host->fd);
        raw_hear(host->fd, NULL, TERMINATE, "the Terminate");
        raw_expect_fin(host->fd, "behind the Terminate");
        host_ended(host, IWARP_FAULT_DDP_MSN, HOST_RECEIVES);
        host_finish(host);
    }
    host_check_quiet(host);
}

/* --- behind each octet ----------------------------------------------------------------------- */

/* Five octets to the first receive, a Write of 4, a Read of 16 octets, an empty Send. */
#define TALK                                                                                       \
    HELLO                                                                                          \
    "| 0012c140 W T cafebabe C"                                                                    \
    "| 002e4141 00000000 00000001 00000001 00000000 11223344 00000000 00002000 00000010 R U C"     \
    "| 00124143 00000000 00000000 00000002 00000000 C"

enum {
    HELLO_END = 32,
    WRITE_END = HELLO_END + 24,
    READ_END = WRITE_END + 52,
    TALK_LEN = READ_END + 24
};

enum ending { END_FIN, END_RESET, END_HERE, ENDINGS };

/* Send n octets of the talk and end; what must have arrived has, and nothing else. */
static void cut_talk(size_t n, enum ending ending)
{
    struct octets o = {0};
    struct iwarp_wc wc;

    raw_text(&o, &host->names, TALK);
    assert_int_equal(o.n, TALK_LEN);
    if (n > 0) {
        raw_send(host->fd, o.p, n);
    }
    octets_free(&o);
    if (ending == END_HERE) {
        assert_int_equal(iwarp_disconnect(host->conn), IWARP_OK);
    } else if (ending == END_FIN) {
        raw_fin(host->fd);
    } else {
        raw_reset(host->fd);
        host->fd = -1;
    }
    if (host->fd >= 0) {
        (void)raw_drain(host->fd);
        raw_close(host->fd);
        host->fd = -1;
    }
    assert_int_equal(iwarp_conn_wait_end(host->conn, RAW_PATIENCE_MS), IWARP_OK);
    enum iwarp_fault_code code = iwarp_fault_code(iwarp_conn_fault(host->conn));
    bool border = n == 0 || n == HELLO_END || n == WRITE_END || n == READ_END || n == TALK_LEN;
    if (ending == END_FIN) { /* a Read may be unanswered when the FIN is seen */
        assert_true(code == (border ? IWARP_FAULT_NONE : IWARP_FAULT_RDMAP_PEER_CLOSED) ||
                    (n >= READ_END && code == IWARP_FAULT_RDMAP_PEER_CLOSED));
    }
    host_event(host, IWARP_EVENT_DISCONNECTED);
    for (unsigned i = 0; i < HOST_RECEIVES; i++) {
        size_t end = i == 0 ? HELLO_END : TALK_LEN;
        wc = host_completion(host);
        assert_int_equal(wc.wr_id, 100 + i);
        assert_true(n >= end || wc.status == IWARP_WC_FLUSHED);
        assert_true(ending != END_FIN || n < end || wc.status == IWARP_WC_SUCCESS);
    }
    assert_int_equal(iwarp_cq_poll(host->cq, &wc, 1), 0);
    bool placed = memcmp(host->w.p, "\xca\xfe\xba\xbe", 4) == 0;
    assert_true(n >= WRITE_END || !placed);
    assert_true(ending != END_FIN || n < WRITE_END || placed);
    host_finish(host);
    host_reset_memory(host);
}

static void end__behind_each_octet_of_a_talk__is_clean(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * ENDINGS; i++) {
        for (size_t n = 0; n <= TALK_LEN; n++) {
            host_options(host);
            host->options.close_timeout_ms = 200;
            host_connect(host, i & 1 ? HOST_INITIATOR : HOST_RESPONDER, 2, HOST_RECEIVES);
            cut_talk(n, (enum ending)(i / 2));
        }
        host_check_quiet(host);
    }
}

/* A Request that is cut is known to nobody, and its connection gone. */
static void end__behind_each_octet_of_a_request__leaves_nothing(void **state)
{
    struct octets o = {0};
    struct iwarp_event e;

    (void)state;
    raw_text(&o, NULL, REQUEST "50020006 80204020 6869");
    for (size_t n = 0; n < 2 * o.n; n++) {
        int fd = raw_connect(&host->addr);
        if (n / 2 > 0) {
            raw_send(fd, o.p, n / 2);
        }
        if (n % 2) {
            raw_reset(fd);
        } else {
            raw_fin(fd);
            raw_end(fd, "half a Request");
            raw_close(fd);
        }
    }
    octets_free(&o);
    assert_int_equal(iwarp_eq_get(host->eq, &e, 50), IWARP_AGAIN);
    host_check_quiet(host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(end__in_every_state_by_every_cause__is_one_end),
        cmocka_unit_test(device_close__with_connections_in_every_state__leaves_nothing),
        cmocka_unit_test(close__at_the_same_time__is_in_order),
        cmocka_unit_test(terminate__behind_the_peers_fin__arrives),
        cmocka_unit_test(end__behind_each_octet_of_a_talk__is_clean),
        cmocka_unit_test(end__behind_each_octet_of_a_request__leaves_nothing),
    };
    return cmocka_run_group_tests_name("teardown", tests, setup, teardown);
}
