/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Setting up connections over TCP: private data both ways, rejection, what the two ends agree on,
 * and every way in which it does not come to a connection. RFC 5044 7.1, RFC 6581 9.
 */
#include "octets.h"
#include "progress.h"
#include "raw_peer.h"
#include "seconds.h"
#include "verbs_pair.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

static void prepare(struct pair *p)
{
    struct pair_options o;

    pair_options_init(&o, PAIR_TCP4);
    o.memory = 64;
    pair_prepare(p, &o);
}

/* Connect side 0; returns the request as side 1 sees it. */
static struct iwarp_conn *request(struct pair *p, const struct iwarp_conn_options *o,
                                  const void *data, size_t len)
{
    struct sockaddr_storage addr;
    socklen_t addr_len;

    must(iwarp_listener_addr(p->listener, &addr, &addr_len));
    must(iwarp_connect(p->side[0].qp, (struct sockaddr *)&addr, addr_len, o, data, len, p->eq[0], p,
                       &p->side[0].conn));
    struct iwarp_event event = pair_event(p->eq[1], IWARP_EVENT_REQUEST);
    assert_ptr_equal(event.listener, p->listener);
    assert_int_equal(event.status, IWARP_OK);
    assert_null(event.fault);
    p->side[1].conn = event.conn;
    return event.conn;
}

static void expect_data(const struct iwarp_conn *conn, const void *data, size_t len)
{
    size_t got;
    const void *p = iwarp_conn_private_data(conn, &got);

    octets_expect("private data", p, got, data, len);
}

/* [MPA-7.1.2-23] */
static void private_data__of_any_length__arrives_both_ways(void **state)
{
    static const size_t lengths[] = {0, 1, 3, 4, 255, 508, 512};
    uint8_t data[2][512];

    (void)state;
    pair_fill(data[0], 512, 1);
    pair_fill(data[1], 512, 2);
    for (unsigned i = 0; i < 2 * 7; i++) {
        struct iwarp_conn_options o;
        size_t n = lengths[i % 7], back = lengths[6 - i % 7], max = i / 7 ? 512 : 508;
        struct pair p;
        iwarp_conn_options_init(&o);
        o.mpa_rev = i / 7 ? 1 : 2;
        n = n < max ? n : max;
        back = back < max ? back : max;
        prepare(&p);
        struct iwarp_conn *conn = request(&p, &o, data[0], n);
        expect_data(conn, data[0], n);
        must(iwarp_accept(conn, p.side[1].qp, NULL, data[1], back, &p));
        must(iwarp_conn_wait(p.side[0].conn, PAIR_WAIT_MS));
        expect_data(p.side[0].conn, data[1], back);
        assert_ptr_equal(pair_event(p.eq[0], IWARP_EVENT_ESTABLISHED).user, &p);
        assert_ptr_equal(pair_event(p.eq[1], IWARP_EVENT_ESTABLISHED).user, &p);
        pair_close(&p);
    }
}

static void private_data__that_is_too_long__is_refused(void **state)
{
    uint8_t data[600] = {0};
    struct iwarp_conn_options o;
    struct pair p;

    (void)state;
    prepare(&p);
    iwarp_conn_options_init(&o);
    for (unsigned rev = 1; rev <= 2; rev++) {
        struct sockaddr_storage addr;
        struct iwarp_conn *conn = NULL;
        socklen_t len;
        o.mpa_rev = rev;
        must(iwarp_listener_addr(p.listener, &addr, &len));
        must_fail(iwarp_connect(p.side[0].qp, (struct sockaddr *)&addr, len, &o, data,
                                rev == 1 ? 513 : 509, NULL, NULL, &conn),
                  IWARP_MISUSE, rev == 1 ? "513 octets" : "509 octets");
        assert_non_null(strstr(iwarp_last_error(), rev == 1 ? "carries 512" : "carries 508"));
    }
    struct iwarp_conn *conn = request(&p, &o, data, 508);
    must_fail(iwarp_accept(conn, p.side[1].qp, NULL, data, 509, NULL), IWARP_MISUSE, "carries 508");
    must_fail(iwarp_reject(conn, data, 600), IWARP_MISUSE, "600 octets");
    must(iwarp_accept(conn, p.side[1].qp, NULL, data, 508, NULL)); /* still possible */
    must(iwarp_conn_wait(p.side[0].conn, PAIR_WAIT_MS));
    pair_close(&p);
}

#define REQUEST "4d504120494420526571204672616d65"
#define REPLY   "4d504120494420526570204672616d65"

/*
 * 512 octets on the wire, the enhanced words among them (RFC 6581 9): what is sent, to the octet.
 * [MPA-7.1.1-21] [MPA2-9-02]
 */
static void private_data__of_512_octets__is_that_on_the_wire(void **state)
{
    static const struct {
        unsigned rev;
        const char *request, *reply;
    } row[] = {{1, REQUEST "40010200", REPLY "40010200"},
               {2, REQUEST "50020200 80204020", REPLY "50020200 80204020"}};
    uint8_t data[2][512];

    (void)state;
    pair_fill(data[0], 512, 1);
    pair_fill(data[1], 512, 2);
    for (int i = 0; i < 4; i++) {
        bool responder = i / 2;
        size_t n = row[i % 2].rev == 1 ? 512 : 508;
        struct octets out = {0}, in = {0};
        struct iwarp_conn_options o;
        struct sockaddr_in at;
        struct pair p;
        int fd, listener = raw_listen(&at);
        prepare(&p);
        iwarp_conn_options_init(&o);
        o.remind = false; /* by the clock: it would come between literal octets */
        o.mpa_rev = row[i % 2].rev;
        octets_hex(&out, responder ? row[i % 2].reply : row[i % 2].request);
        octets_add(&out, data[0], n);
        octets_hex(&in, responder ? row[i % 2].request : row[i % 2].reply);
        octets_add(&in, data[1], n);
        assert_int_equal(out.n, 532);
        assert_int_equal(in.n, 532);
        if (responder) {
            struct sockaddr_storage addr;
            socklen_t len;
            must(iwarp_listener_addr(p.listener, &addr, &len));
            memcpy(&at, &addr, sizeof at);
            fd = raw_connect(&at);
            raw_send(fd, in.p, in.n);
            p.side[1].conn = pair_event(p.eq[1], IWARP_EVENT_REQUEST).conn;
            expect_data(p.side[1].conn, data[1], n);
            must(iwarp_accept(p.side[1].conn, p.side[1].qp, NULL, data[0], n, NULL));
            raw_expect(fd, out.p, out.n, "the Reply");
        } else {
            must(iwarp_connect(p.side[0].qp, (struct sockaddr *)&at, sizeof at, &o, data[0], n,
                               p.eq[0], NULL, &p.side[0].conn));
            fd = raw_accept(listener);
            raw_expect(fd, out.p, out.n, "the Request");
            raw_send(fd, in.p, in.n);
            pair_event(p.eq[0], IWARP_EVENT_ESTABLISHED);
            expect_data(p.side[0].conn, data[1], n);
        }
        raw_close(fd);
        raw_close(listener);
        octets_free(&out);
        octets_free(&in);
        pair_close(&p);
    }
}

static void reject__with_private_data__tells_the_initiator(void **state)
{
    uint8_t data[508];

    (void)state;
    pair_fill(data, sizeof data, 3);
    for (unsigned i = 0; i < 4; i++) {
        struct iwarp_conn_options o;
        size_t n = i / 2 ? 508 : 0;
        struct pair p;
        iwarp_conn_options_init(&o);
        o.mpa_rev = 1 + i % 2;
        prepare(&p);
        struct iwarp_conn *conn = request(&p, &o, NULL, 0);
        must(iwarp_reject(conn, data, n));
        struct iwarp_event event = pair_event(p.eq[0], IWARP_EVENT_REJECTED);
        assert_ptr_equal(event.conn, p.side[0].conn);
        assert_int_equal(event.status, IWARP_PEER);
        assert_int_equal(iwarp_fault_code(event.fault), IWARP_FAULT_MPA_REJECTED);
        expect_data(event.conn, data, n);
        must_fail(iwarp_conn_wait(event.conn, 0), IWARP_PEER, "rejected");
        must(iwarp_conn_wait_end(event.conn, 0));
        assert_int_equal(iwarp_qp_state(p.side[0].qp), IWARP_QP_ERROR);
        assert_int_equal(iwarp_qp_state(p.side[1].qp), IWARP_QP_IDLE); /* it was never bound */
        must_fail(iwarp_accept(conn, p.side[1].qp, NULL, NULL, 0, NULL), IWARP_CLOSED, "gone");
        must_fail(iwarp_reject(conn, NULL, 0), IWARP_CLOSED, "gone");
        pair_close(&p);
    }
}

/* --- what is agreed on ----------------------------------------------------------------------- */

struct depths {
    unsigned rev, ird[2], ord[2]; /* wishes */
    unsigned agreed_ird[2], agreed_ord[2];
};

/* What the peer announced, as it reaches the application. */
static void expect_announced(const struct iwarp_conn *conn, unsigned rev, unsigned ird,
                             unsigned ord)
{
    struct iwarp_conn_info info = {.size = sizeof info};

    must(iwarp_conn_info(conn, &info));
    assert_int_equal(info.mpa_rev, rev);
    assert_int_equal(info.peer_ird, rev == 1 ? 0 : ird);
    assert_int_equal(info.peer_ord, rev == 1 ? 0 : ord);
}

/* RFC 6581 9.1: nobody has more Reads outstanding than the other end answers. */
/* [MPA2-9.1-01] [MPA2-9.1-10] */
static void connect__with_read_depths__agrees_on_what_both_can(void **state)
{
    static const struct depths cases[] = {
        {2, {32, 32}, {32, 32}, {32, 32}, {32, 32}},
        {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        {2, {4, 16}, {8, 2}, {4, 8}, {8, 2}},
        {2, {1, 32}, {32, 32}, {1, 32}, {32, 1}},
        {2, {1024, 7}, {9, 1024}, {1024, 7}, {7, 1024}},
        {2, {0, 0}, {0, 0}, {0, 0}, {0, 0}},
        {1, {4, 16}, {8, 2}, {4, 16}, {8, 2}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct depths *d = &cases[i];
        struct iwarp_conn_options o[2];
        struct pair p;
        for (int k = 0; k < 2; k++) {
            iwarp_conn_options_init(&o[k]);
            o[k].mpa_rev = d->rev;
            o[k].ird = d->ird[k];
            o[k].ord = d->ord[k];
            o[k].peer_to_peer = false; /* it would ask for room for its RDMA Read */
        }
        prepare(&p);
        struct iwarp_conn *conn = request(&p, &o[0], NULL, 0);
        expect_announced(conn, d->rev, d->ird[0], d->ord[0]); /* in time for the answer */
        must(iwarp_accept(conn, p.side[1].qp, &o[1], NULL, 0, NULL));
        for (int k = 0; k < 2; k++) {
            struct iwarp_conn_info info = {.size = sizeof info};
            must(iwarp_conn_wait(p.side[k].conn, PAIR_WAIT_MS));
            must(iwarp_conn_info(p.side[k].conn, &info));
            if (info.ird != d->agreed_ird[k] || info.ord != d->agreed_ord[k]) {
                fail_msg("case %zu side %d: IRD %u, ORD %u", i, k, info.ird, info.ord);
            }
        }
        expect_announced(p.side[1].conn, d->rev, d->ird[0], d->ord[0]);
        expect_announced(p.side[0].conn, d->rev, d->agreed_ird[1], d->agreed_ord[1]);
        pair_close(&p);
    }
}

static void read__with_ord_0__fails_locally(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    o.conn[0].ord = 0;
    o.conn[0].peer_to_peer = false;
    pair_open(&p, &o);
    pair_read(&p.side[0], 1, 0, 8, &p.side[1], 0);
    struct iwarp_wc wc = pair_wc(p.side[0].send_cq, 1, IWARP_WC_LOCAL_OPERATION);
    assert_int_equal(iwarp_fault_code(wc.fault), IWARP_FAULT_LOCAL_READ_ORD);
    pair_close(&p);
}

/* More Reads than may be outstanding wait their turn; ORD 1, 2 and 32 give the same data. */
static void read__of_more_than_ord__arrives_in_order(void **state)
{
    static const unsigned depths[] = {1, 2, 32};

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        struct pair_options o;
        struct pair p;
        pair_options_init(&o, i % 2 ? PAIR_TCP4 : PAIR_MEMORY);
        o.conn[0].ird = o.conn[0].ord = o.conn[1].ird = o.conn[1].ord = depths[i / 2];
        o.memory = 100 * 3000;
        pair_open(&p, &o);
        pair_fill(p.side[1].p, o.memory, i);
        for (uint64_t k = 0; k < 100; k++) {
            pair_read(&p.side[0], k, (size_t)k * 3000, 3000, &p.side[1], (size_t)k * 3000);
        }
        for (uint64_t k = 0; k < 100; k++) {
            pair_wc(p.side[0].send_cq, k, IWARP_WC_SUCCESS);
        }
        assert_memory_equal(p.side[0].p, p.side[1].p, o.memory);
        pair_close(&p);
    }
}

static void connect__established__knows_the_addresses(void **state)
{
    (void)state;
    for (int v6 = 0; v6 < 2; v6++) {
        struct sockaddr_storage listening, a[2], b[2];
        socklen_t listening_len, a_len[2], b_len[2];
        struct pair_options o;
        struct pair p;
        pair_options_init(&o, v6 ? PAIR_TCP6 : PAIR_TCP4);
        pair_open(&p, &o);
        must(iwarp_listener_addr(p.listener, &listening, &listening_len));
        must(iwarp_conn_local_addr(p.side[0].conn, &a[0], &a_len[0]));
        must(iwarp_conn_peer_addr(p.side[0].conn, &a[1], &a_len[1]));
        must(iwarp_conn_local_addr(p.side[1].conn, &b[0], &b_len[0]));
        must(iwarp_conn_peer_addr(p.side[1].conn, &b[1], &b_len[1]));
        octets_expect("peer", &a[1], a_len[1], &listening, listening_len);
        octets_expect("peer and local", &a[1], a_len[1], &b[0], b_len[0]);
        octets_expect("local and peer", &a[0], a_len[0], &b[1], b_len[1]);
        pair_close(&p);
    }
}

/* --- no connection --------------------------------------------------------------------------- */

static struct iwarp_event connect_to(struct pair *p, const struct sockaddr_in *to,
                                     const struct iwarp_conn_options *o)
{
    must(iwarp_connect(p->side[0].qp, (const struct sockaddr *)to, sizeof *to, o, NULL, 0, p->eq[0],
                       NULL, &p->side[0].conn));
    struct iwarp_event event = pair_event(p->eq[0], IWARP_EVENT_FAILED);
    assert_ptr_equal(event.conn, p->side[0].conn);
    assert_int_equal(event.status, iwarp_fault_status(event.fault));
    must(iwarp_conn_wait_end(event.conn, 0));
    assert_int_equal(iwarp_qp_state(p->side[0].qp), IWARP_QP_ERROR);
    return event;
}

static void expect_text(const struct iwarp_fault *fault, const char *part)
{
    char text[400];

    iwarp_fault_text(fault, text, sizeof text);
    if (!strstr(text, part)) {
        fail_msg("\"%s\" does not say \"%s\"", text, part);
    }
}

static struct sockaddr_in closed_port(void)
{
    struct sockaddr_in at;

    close(raw_listen(&at));
    return at;
}

static void connect__to_a_closed_port__names_the_reason(void **state)
{
    struct sockaddr_in to = closed_port();
    struct pair p;

    (void)state;
    prepare(&p);
    struct iwarp_event event = connect_to(&p, &to, NULL);
    assert_int_equal(event.status, IWARP_TRANSPORT);
    assert_int_equal(iwarp_fault_code(event.fault), IWARP_FAULT_TCP_CONNECT);
    expect_text(event.fault, "refused");
    must_fail(iwarp_conn_wait(event.conn, 0), IWARP_TRANSPORT, "refused");
    pair_recv(&p.side[0], 1, 0, 8); /* the queue pair is of no use any more */
    pair_wc(p.side[0].recv_cq, 1, IWARP_WC_FLUSHED);
    pair_close(&p);
}

static void connect__before_the_listener__waits_for_it(void **state)
{
    static const unsigned after_us[] = {0, 5000, 30000, 60000};

    (void)state;
    for (size_t i = 0; i < sizeof after_us / sizeof *after_us; i++) {
        struct sockaddr_in at = closed_port();
        struct iwarp_listener *late;
        struct iwarp_conn_options o;
        struct pair p;
        prepare(&p);
        iwarp_conn_options_init(&o);
        o.refused_ms = PAIR_WAIT_MS;
        o.connect_timeout_ms = 2 * PAIR_WAIT_MS;
        must(iwarp_connect(p.side[0].qp, (struct sockaddr *)&at, sizeof at, &o, "early", 5, p.eq[0],
                           NULL, &p.side[0].conn));
        progress_sleep(after_us[i]);
        must(iwarp_listen(p.device, (struct sockaddr *)&at, sizeof at, NULL, 1, p.eq[1], NULL,
                          &late));
        p.side[1].conn = pair_event(p.eq[1], IWARP_EVENT_REQUEST).conn;
        expect_data(p.side[1].conn, "early", 5);
        must(iwarp_accept(p.side[1].conn, p.side[1].qp, NULL, NULL, 0, NULL));
        must(iwarp_conn_wait(p.side[0].conn, PAIR_WAIT_MS));
        must(iwarp_listener_close(late));
        pair_close(&p);
    }
}

/* The time for TCP's set-up has the last word. */
static void connect__refused_for_long__names_the_reason_then(void **state)
{
    static const unsigned refused_ms[] = {60, UINT_MAX}, timeout_ms[] = {10000, 60};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct sockaddr_in at = closed_port();
        struct iwarp_conn_options o;
        struct pair p;
        prepare(&p);
        iwarp_conn_options_init(&o);
        o.refused_ms = refused_ms[i];
        o.connect_timeout_ms = timeout_ms[i];
        int64_t began = milliseconds_now();
        struct iwarp_event event = connect_to(&p, &at, &o);
        assert_true(milliseconds_now() - began >= 40);
        assert_int_equal(iwarp_fault_code(event.fault), IWARP_FAULT_TCP_CONNECT);
        expect_text(event.fault, "refused");
        pair_close(&p);
    }
}

/* It has no endpoint then, just a timer, most of the time. */
static void abort__while_it_is_refused__ends_the_connection(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct iwarp_conn_options o;
        struct pair p;
        prepare(&p);
        struct sockaddr_in at = closed_port();
        iwarp_conn_options_init(&o);
        o.refused_ms = o.connect_timeout_ms = UINT_MAX;
        must(iwarp_connect(p.side[0].qp, (struct sockaddr *)&at, sizeof at, &o, NULL, 0, p.eq[0],
                           NULL, &p.side[0].conn));
        progress_sleep(i * 7000);
        must(i % 2 ? iwarp_abort(p.side[0].conn) : iwarp_disconnect(p.side[0].conn));
        must(iwarp_conn_wait_end(p.side[0].conn, PAIR_WAIT_MS));
        assert_int_equal(iwarp_qp_state(p.side[0].qp), IWARP_QP_ERROR);
        pair_close(&p);
    }
}

/* A listener whose backlog is full does not answer SYNs: what an unreachable host looks like. */
static void connect__without_an_answer__times_out(void **state)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    socklen_t len = sizeof to;
    struct iwarp_conn_options o;
    int filler[8];
    struct pair p;

    (void)state;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&to, len), 0);
    assert_int_equal(listen(fd, 0), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&to, &len), 0);
    for (int i = 0; i < 8; i++) {
        filler[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(filler[i], (struct sockaddr *)&to, len);
    }
    progress_sleep(50000);
    prepare(&p);
    iwarp_conn_options_init(&o);
    o.connect_timeout_ms = 150;
    struct iwarp_event event = connect_to(&p, &to, &o);
    assert_int_equal(event.status, IWARP_TRANSPORT);
    assert_int_equal(iwarp_fault_code(event.fault), IWARP_FAULT_TCP_TIMEOUT);
    expect_text(event.fault, "150 ms");
    for (int i = 0; i < 8; i++) {
        close(filler[i]);
    }
    close(fd);
    pair_close(&p);
}

/* TCP is there, MPA is not. */
static void connect__to_a_silent_peer__times_out(void **state)
{
    struct iwarp_conn_options o;
    struct sockaddr_in to;
    struct pair p;

    (void)state;
    int fd = raw_listen(&to);
    prepare(&p);
    iwarp_conn_options_init(&o);
    o.startup_timeout_ms = 120;
    struct iwarp_event event = connect_to(&p, &to, &o);
    assert_int_equal(iwarp_fault_code(event.fault), IWARP_FAULT_MPA_TIMEOUT);
    expect_text(event.fault, "120 ms");
    pair_close(&p);
    close(fd);
}

static void connect__to_something_else__says_so(void **state)
{
    static const struct {
        const char *answer;
        enum iwarp_fault_code code;
    } cases[] = {{"HTTP/1.1 400 Bad Request\r\n\r\n", IWARP_FAULT_MPA_KEY},
                 {"MPA ID Req Frame\x40\x01\x00", IWARP_FAULT_MPA_BOTH_INITIATORS},
                 {"", IWARP_FAULT_MPA_CLOSED},
                 {"MPA ID Rep", IWARP_FAULT_MPA_CLOSED}};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct sockaddr_in to;
        uint8_t frame[24];
        struct pair p;
        int listener = raw_listen(&to);
        prepare(&p);
        must(iwarp_connect(p.side[0].qp, (struct sockaddr *)&to, sizeof to, NULL, NULL, 0, p.eq[0],
                           NULL, &p.side[0].conn));
        int fd = raw_accept(listener);
        raw_read(fd, frame, sizeof frame, "Request");
        raw_send(fd, cases[i].answer, strlen(cases[i].answer) + (i == 1));
        if (i >= 2) {
            close(fd);
        }
        if (i == 2) { /* hung up on revision 2: it tries 1 */
            fd = raw_accept(listener);
            raw_hear(fd, NULL, "4d504120494420526571204672616d65 40010000", "Request");
            close(fd);
        }
        struct iwarp_event event = pair_event(p.eq[0], IWARP_EVENT_FAILED);
        assert_int_equal(iwarp_fault_code(event.fault), cases[i].code);
        if (i < 2) {
            close(fd);
        }
        close(listener);
        pair_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(private_data__of_any_length__arrives_both_ways),
        cmocka_unit_test(private_data__that_is_too_long__is_refused),
        cmocka_unit_test(private_data__of_512_octets__is_that_on_the_wire),
        cmocka_unit_test(reject__with_private_data__tells_the_initiator),
        cmocka_unit_test(connect__with_read_depths__agrees_on_what_both_can),
        cmocka_unit_test(read__with_ord_0__fails_locally),
        cmocka_unit_test(read__of_more_than_ord__arrives_in_order),
        cmocka_unit_test(connect__established__knows_the_addresses),
        cmocka_unit_test(connect__to_a_closed_port__names_the_reason),
        cmocka_unit_test(connect__before_the_listener__waits_for_it),
        cmocka_unit_test(connect__refused_for_long__names_the_reason_then),
        cmocka_unit_test(abort__while_it_is_refused__ends_the_connection),
        cmocka_unit_test(connect__without_an_answer__times_out),
        cmocka_unit_test(connect__to_a_silent_peer__times_out),
        cmocka_unit_test(connect__to_something_else__says_so),
    };

    return cmocka_run_group_tests_name("tcp_connect", tests, NULL, NULL);
}
