/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends with Immediate Data between two queue pairs, over every transport, with receives of their
 * own and of an SRQ; and the agreement on them: who asks, who answers, what the applications see of
 * their private data, and what is refused where there is no agreement.
 */
#include "progress.h"
#include "verbs_pair.h"

#include <stdlib.h>

#define LEN 100000u

static struct iwarp_send_wr send_imm(uint64_t id, struct iwarp_sge *sge, uint32_t imm)
{
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_SEND_IMM, id, sge);

    wr.imm = imm;
    return wr;
}

static void receive(struct pair_side *s, uint64_t id, size_t off, size_t len, bool srq)
{
    if (srq) {
        pair_srq_recv(s, id, off, len);
    } else {
        pair_recv(s, id, off, len);
    }
}

static void expect(struct pair_side *s, uint64_t id, uint32_t imm, unsigned flags, size_t len)
{
    struct iwarp_wc wc = pair_wc(s->recv_cq, id, IWARP_WC_SUCCESS);

    assert_int_equal(wc.opcode, IWARP_WC_RECV);
    assert_int_equal(wc.flags, IWARP_WC_WITH_IMM | IWARP_WC_IMM_OF_SEND | flags);
    assert_true(wc.imm == imm);
    assert_int_equal(wc.byte_len, len);
}

/* One of LEN octets, one inline and solicited, one of nothing. */
static void exchange(struct pair_side *a, struct pair_side *b, bool srq, uint64_t seed)
{
    struct iwarp_sge sge = pair_sge(a, 0, LEN), small = pair_sge(a, 7, 5);
    struct iwarp_send_wr wr = send_imm(1, &sge, 0xaabbccdd);

    pair_fill(a->p, LEN, seed);
    memset(b->p + LEN, 0xee, LEN);
    receive(b, 11, LEN, LEN, srq);
    must(iwarp_post_send(a->qp, &wr, NULL));
    expect(b, 11, 0xaabbccdd, 0, LEN);
    assert_memory_equal(b->p + LEN, a->p, LEN);
    assert_int_equal(pair_wc(a->send_cq, 1, IWARP_WC_SUCCESS).opcode, IWARP_WC_SEND);
    receive(b, 12, LEN, 16, srq);
    receive(b, 13, 0, 0, srq);
    wr = send_imm(2, &small, UINT32_MAX);
    wr.flags |= IWARP_WR_INLINE | IWARP_WR_SOLICITED;
    must(iwarp_post_send(a->qp, &wr, NULL));
    wr = send_imm(3, NULL, 0);
    must(iwarp_post_send(a->qp, &wr, NULL));
    expect(b, 12, UINT32_MAX, IWARP_WC_SOLICITED, 5);
    expect(b, 13, 0, 0, 0);
    assert_memory_equal(b->p + LEN, a->p + 7, 5);
    pair_wc(a->send_cq, 2, IWARP_WC_SUCCESS);
    pair_wc(a->send_cq, 3, IWARP_WC_SUCCESS);
    pair_no_wc(a->send_cq);
    pair_no_wc(b->recv_cq);
}

static bool agreed(const struct pair_side *s)
{
    struct iwarp_conn_info info = {.size = sizeof info};

    must(iwarp_conn_info(s->conn, &info));
    return info.send_imm;
}

static void send__between_ends_that_agree__arrives(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4 * PAIR_TRANSPORTS; i++) {
        bool srq = i / PAIR_TRANSPORTS % 2, asks = i / PAIR_TRANSPORTS / 2;
        struct pair_options o;
        struct pair p;
        pair_options_init(&o, (enum pair_transport)(i % PAIR_TRANSPORTS));
        o.memory = (size_t)2 * LEN;
        o.srq = srq ? 8 : 0;
        for (unsigned k = 0; k < 2; k++) {
            o.conn[k].send_imm = asks ? IWARP_SEND_IMM_ASK : IWARP_SEND_IMM_AGREED;
        }
        pair_open(&p, &o);
        assert_true(agreed(&p.side[0]) && agreed(&p.side[1]));
        exchange(&p.side[0], &p.side[1], srq, i);
        exchange(&p.side[1], &p.side[0], srq, i + 100);
        pair_close(&p);
    }
}

/* --- the agreement --------------------------------------------------------------------------- */

/* Two ends over TCP, with private data in both directions; an empty answer takes the listener's
 * options. */
struct talk {
    struct iwarp_device *device;
    struct iwarp_eq *eq[2];
    struct iwarp_listener *listener;
    struct pair_side side[2];
    uint8_t data[2][IWARP_MPA_PRIVATE_DATA_MAX];
    size_t len[2];
};

static void talk_open(struct talk *t, const struct iwarp_device_options *device,
                      enum iwarp_send_imm listener)
{
    struct pair_options o;
    struct iwarp_conn_options c;

    memset(t, 0, sizeof *t);
    pair_options_init(&o, PAIR_TCP4);
    must(iwarp_device_open(device, &t->device));
    for (unsigned i = 0; i < 2; i++) {
        must(iwarp_eq_create(t->device, &t->eq[i]));
        pair_side_open(&t->side[i], t->device, &o);
    }
    iwarp_conn_options_init(&c);
    c.send_imm = listener;
    t->listener = pair_listen(t->device, PAIR_TCP4, &c, t->eq[1]);
}

static void expect_data(struct iwarp_conn *conn, const void *data, size_t len)
{
    size_t got;
    const void *p = iwarp_conn_private_data(conn, &got);

    assert_int_equal(got, len);
    assert_memory_equal(p, data, len);
}

/* The octets that the application of an end that does not ask finds behind the data. */
static void expect_marked(struct iwarp_conn *conn, const void *data, size_t len)
{
    uint8_t all[IWARP_MPA_PRIVATE_DATA_MAX];

    memcpy(all, data, len);
    memcpy(all + len, IWARP_SEND_IMM_MARK, 8);
    expect_data(conn, all, len + 8);
}

static struct iwarp_conn *talk_connect(struct talk *t, unsigned rev, enum iwarp_send_imm initiator,
                                       size_t len)
{
    struct sockaddr_storage addr;
    socklen_t addr_len = sizeof addr;
    struct iwarp_conn_options c;

    pair_fill(t->data[0], len, 1);
    t->len[0] = len;
    iwarp_conn_options_init(&c);
    c.mpa_rev = rev;
    c.send_imm = initiator;
    must(iwarp_listener_addr(t->listener, &addr, &addr_len));
    must(iwarp_connect(t->side[0].qp, (struct sockaddr *)&addr, addr_len, &c, t->data[0], len,
                       t->eq[0], NULL, &t->side[0].conn));
    t->side[1].conn = pair_event(t->eq[1], IWARP_EVENT_REQUEST).conn;
    return t->side[1].conn;
}

static void talk_accept(struct talk *t, size_t len)
{
    pair_fill(t->data[1], len, 2);
    must(iwarp_accept(t->side[1].conn, t->side[1].qp, NULL, t->data[1], len, NULL));
    pair_event(t->eq[0], IWARP_EVENT_ESTABLISHED);
    pair_event(t->eq[1], IWARP_EVENT_ESTABLISHED);
}

static void talk_close(struct talk *t)
{
    must(iwarp_listener_close(t->listener));
    for (unsigned i = 0; i < 2; i++) {
        pair_side_close(&t->side[i]);
    }
    for (unsigned i = 0; i < 2; i++) {
        must(iwarp_eq_destroy(t->eq[i]));
    }
    must(iwarp_device_close(t->device));
}

/* Every pair of options, in both revisions: who agrees, and who sees which octets. */
static void agreement__of_every_pair_of_options__is_as_told(void **state)
{
    enum { OFF = IWARP_SEND_IMM_OFF, ASK = IWARP_SEND_IMM_ASK, AGREED = IWARP_SEND_IMM_AGREED };

    (void)state;
    for (unsigned i = 0; i < 18; i++) {
        int a = OFF + (int)(i % 3), b = OFF + (int)(i / 3 % 3);
        bool both = a == ASK && b == ASK;
        struct talk t;
        talk_open(&t, NULL, (enum iwarp_send_imm)b);
        struct iwarp_conn *conn =
            talk_connect(&t, 1 + i / 9, (enum iwarp_send_imm)a, (size_t)3 * (i % 2));
        if (a == ASK && b != ASK) {
            expect_marked(conn, t.data[0], t.len[0]);
        } else {
            expect_data(conn, t.data[0], t.len[0]);
        }
        talk_accept(&t, 5);
        expect_data(t.side[0].conn, t.data[1], 5); /* the Reply only answers */
        assert_int_equal(agreed(&t.side[0]), a == AGREED || both);
        assert_int_equal(agreed(&t.side[1]), b == AGREED || both);
        talk_close(&t);
    }
}

/* 8 octets less on each side that asks, or answers; a rejection has no mark. */
static void private_data__of_most_octets__has_room_for_the_mark(void **state)
{
    uint8_t none[IWARP_MPA_PRIVATE_DATA_MAX] = {0};
    struct sockaddr_storage addr;
    socklen_t addr_len = sizeof addr;
    struct iwarp_conn_options c;

    (void)state;
    for (unsigned rev = 1; rev <= 2; rev++) {
        size_t room = rev == 1 ? 512 : 508;
        struct talk t;
        talk_open(&t, NULL, IWARP_SEND_IMM_ASK);
        iwarp_conn_options_init(&c);
        c.mpa_rev = rev;
        c.send_imm = IWARP_SEND_IMM_ASK;
        must(iwarp_listener_addr(t.listener, &addr, &addr_len));
        must_fail(iwarp_connect(t.side[0].qp, (struct sockaddr *)&addr, addr_len, &c, none,
                                room - 7, t.eq[0], NULL, &t.side[0].conn),
                  IWARP_MISUSE, rev == 1 ? "carries 504 (8 are for" : "carries 500 (8 are for");
        struct iwarp_conn *conn = talk_connect(&t, rev, IWARP_SEND_IMM_ASK, room - 8);
        expect_data(conn, t.data[0], room - 8);
        must_fail(iwarp_accept(conn, t.side[1].qp, NULL, none, room - 7, NULL), IWARP_MISUSE,
                  rev == 1 ? "carries 504" : "carries 500");
        talk_accept(&t, room - 8);
        expect_data(t.side[0].conn, t.data[1], room - 8);
        assert_true(agreed(&t.side[0]) && agreed(&t.side[1]));
        talk_close(&t);

        talk_open(&t, NULL, IWARP_SEND_IMM_ASK);
        conn = talk_connect(&t, rev, IWARP_SEND_IMM_ASK, 1);
        must(iwarp_reject(conn, none, room));
        pair_event(t.eq[0], IWARP_EVENT_REJECTED);
        expect_data(t.side[0].conn, none, room);
        talk_close(&t);
    }
}

/* The answer may say otherwise than the listener: then the Reply has no mark. */
static void accept__with_an_option__has_the_last_word(void **state)
{
    struct iwarp_conn_options c;
    struct talk t;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        talk_open(&t, NULL, IWARP_SEND_IMM_ASK);
        struct iwarp_conn *conn = talk_connect(&t, 2, IWARP_SEND_IMM_ASK, 4);
        iwarp_conn_options_init(&c);
        c.send_imm = i ? IWARP_SEND_IMM_OFF : IWARP_SEND_IMM_DEFAULT;
        must(iwarp_accept(conn, t.side[1].qp, &c, NULL, 0, NULL));
        pair_event(t.eq[0], IWARP_EVENT_ESTABLISHED);
        expect_data(t.side[0].conn, "", 0);
        assert_int_equal(agreed(&t.side[0]), !i);
        assert_int_equal(agreed(&t.side[1]), !i);
        talk_close(&t);
    }
}

/* --- without it ------------------------------------------------------------------------------ */

static void post__without_agreement__is_misuse(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct iwarp_send_wr wr = send_imm(1, NULL, 7);
        struct pair_options o;
        struct pair p;
        pair_options_init(&o, PAIR_TCP4);
        o.conn[i].send_imm = IWARP_SEND_IMM_ASK;
        pair_open(&p, &o);
        for (unsigned k = 0; k < 2; k++) {
            must_fail(iwarp_post_send(p.side[k].qp, &wr, NULL), IWARP_MISUSE,
                      "is no iWARP message; an RDMA Write with Immediate Data is (RFC 7306)");
        }
        pair_recv(&p.side[1], 2, 0, 8); /* and nothing has changed */
        pair_send(&p.side[0], 3, 0, 8);
        pair_wc(p.side[1].recv_cq, 2, IWARP_WC_SUCCESS);
        pair_close(&p);
    }
}

static void post__of_more_than_32_bits__is_misuse(void **state)
{
    struct iwarp_send_wr wr = send_imm(1, NULL, 7);
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    o.conn[0].send_imm = IWARP_SEND_IMM_AGREED;
    pair_open(&p, &o);
    wr.imm = (uint64_t)UINT32_MAX + 1;
    must_fail(iwarp_post_send(p.side[0].qp, &wr, NULL), IWARP_MISUSE, "0x100000000 is more than");
    pair_close(&p);
}

/* Posted before anybody could know: it ends the stream, and the peer sees no such opcode. */
static void post__before_the_connection__waits_for_the_agreement(void **state)
{
    (void)state;
    for (unsigned yes = 0; yes < 2; yes++) {
        struct iwarp_send_wr wr = send_imm(1, NULL, 7);
        struct talk t;
        talk_open(&t, NULL, yes ? IWARP_SEND_IMM_ASK : IWARP_SEND_IMM_OFF);
        pair_recv(&t.side[1], 2, 0, 8);
        must(iwarp_post_send(t.side[0].qp, &wr, NULL));
        (void)talk_connect(&t, 2, IWARP_SEND_IMM_ASK, 0);
        talk_accept(&t, 0);
        if (yes) {
            expect(&t.side[1], 2, 7, 0, 0);
            pair_wc(t.side[0].send_cq, 1, IWARP_WC_SUCCESS);
        } else {
            struct iwarp_wc wc = pair_wc(t.side[0].send_cq, 1, IWARP_WC_LOCAL_OPERATION);
            assert_string_equal(iwarp_fault_name(iwarp_fault_code(wc.fault)), "LOCAL_SEND_IMM");
            pair_event(t.eq[1], IWARP_EVENT_DISCONNECTED);
            assert_string_equal(
                iwarp_fault_name(iwarp_fault_code(iwarp_conn_fault(t.side[1].conn))),
                "PEER_TERMINATE");
            pair_wc(t.side[1].recv_cq, 2, IWARP_WC_FLUSHED);
        }
        talk_close(&t);
    }
}

/* What the last connection refused, the next one may take. */
static void post__in_idle_after_a_refusal__waits_again(void **state)
{
    const struct iwarp_qp_changes to_error = {
        .size = sizeof to_error, .mask = IWARP_QP_CHANGE_STATE, .state = IWARP_QP_ERROR};
    const struct iwarp_qp_changes to_idle = {
        .size = sizeof to_idle, .mask = IWARP_QP_CHANGE_STATE, .state = IWARP_QP_IDLE};
    struct iwarp_send_wr wr = send_imm(1, NULL, 7);
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_open(&p, &o);
    must_fail(iwarp_post_send(p.side[0].qp, &wr, NULL), IWARP_MISUSE, "no iWARP message");
    must(iwarp_qp_modify(p.side[0].qp, &to_error)); /* ends the other side, too */
    for (unsigned i = 0; i < 2; i++) {
        must(iwarp_conn_wait_end(p.side[i].conn, PAIR_WAIT_MS));
        must(iwarp_qp_modify(p.side[i].qp, &to_idle));
        must(iwarp_conn_destroy(p.side[i].conn));
        p.side[i].conn = NULL;
    }
    must(iwarp_post_send(p.side[0].qp, &wr, NULL));
    pair_recv(&p.side[1], 2, 0, 8);
    o.conn[0].send_imm = IWARP_SEND_IMM_AGREED;
    must(iwarp_connect_pair(p.side[0].qp, p.side[1].qp, &o.conn[0], NULL, &p.side[0].conn,
                            &p.side[1].conn));
    expect(&p.side[1], 2, 7, 0, 0);
    pair_close(&p);
}

/* An application that says AGREED of a peer that has not is told so by both ends. */
static void send__to_one_that_has_not_agreed__is_told(void **state)
{
    struct iwarp_send_wr wr = send_imm(1, NULL, 7);
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    o.conn[0].send_imm = IWARP_SEND_IMM_AGREED;
    pair_open(&p, &o);
    pair_recv(&p.side[1], 2, 0, 8);
    must(iwarp_post_send(p.side[0].qp, &wr, NULL));
    for (unsigned i = 0; i < 2; i++) {
        must(iwarp_conn_wait_end(p.side[i].conn, PAIR_WAIT_MS));
        assert_string_equal(iwarp_fault_name(iwarp_fault_code(iwarp_conn_fault(p.side[i].conn))),
                            i ? "RDMAP_OPCODE" : "PEER_NO_SEND_IMM");
    }
    pair_wc(p.side[1].recv_cq, 2, IWARP_WC_FLUSHED);
    pair_close(&p);
}

/* --- the environment ------------------------------------------------------------------------- */

static void open__with_the_environment__asks(void **state)
{
    static const struct {
        const char *value;
        enum iwarp_send_imm option, expected;
    } cases[] = {{NULL, 0, IWARP_SEND_IMM_OFF},
                 {"on", 0, IWARP_SEND_IMM_ASK},
                 {"1", 0, IWARP_SEND_IMM_ASK},
                 {"off", 0, IWARP_SEND_IMM_OFF},
                 {"0", 0, IWARP_SEND_IMM_OFF},
                 {"yes", 0, IWARP_SEND_IMM_OFF},
                 {"on", IWARP_SEND_IMM_OFF, IWARP_SEND_IMM_OFF},
                 {"off", IWARP_SEND_IMM_ASK, IWARP_SEND_IMM_ASK}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct iwarp_device_info info = {.size = sizeof info};
        struct iwarp_device_options d;
        struct talk t;
        unsetenv("IWARP_SEND_IMM");
        if (cases[i].value) {
            setenv("IWARP_SEND_IMM", cases[i].value, 1);
        }
        iwarp_device_options_init(&d);
        d.send_imm = cases[i].option;
        talk_open(&t, &d, IWARP_SEND_IMM_DEFAULT);
        must(iwarp_device_query(t.device, &info));
        assert_int_equal(info.options.send_imm, cases[i].expected);
        (void)talk_connect(&t, 2, IWARP_SEND_IMM_DEFAULT, 9);
        talk_accept(&t, 9);
        assert_int_equal(agreed(&t.side[0]), cases[i].expected == IWARP_SEND_IMM_ASK);
        talk_close(&t);
    }
    unsetenv("IWARP_SEND_IMM");
}

static void open__with_nonsense__is_misuse(void **state)
{
    struct iwarp_device *device = NULL;
    struct iwarp_device_options d;
    struct pair_options o;
    struct pair p;

    (void)state;
    iwarp_device_options_init(&d);
    d.send_imm = IWARP_SEND_IMM_AGREED;
    must_fail(iwarp_device_open(&d, &device), IWARP_MISUSE, "send_imm is 3, allowed are 0 to 2");
    pair_options_init(&o, PAIR_MEMORY);
    pair_prepare(&p, &o);
    o.conn[0].send_imm = (enum iwarp_send_imm)4;
    must_fail(iwarp_connect_pair(p.side[0].qp, p.side[1].qp, &o.conn[0], NULL, &p.side[0].conn,
                                 &p.side[1].conn),
              IWARP_MISUSE, "send_imm is 4, allowed are 0 to 3");
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(send__between_ends_that_agree__arrives),
        cmocka_unit_test(agreement__of_every_pair_of_options__is_as_told),
        cmocka_unit_test(private_data__of_most_octets__has_room_for_the_mark),
        cmocka_unit_test(accept__with_an_option__has_the_last_word),
        cmocka_unit_test(post__without_agreement__is_misuse),
        cmocka_unit_test(post__of_more_than_32_bits__is_misuse),
        cmocka_unit_test(post__before_the_connection__waits_for_the_agreement),
        cmocka_unit_test(post__in_idle_after_a_refusal__waits_again),
        cmocka_unit_test(send__to_one_that_has_not_agreed__is_told),
        cmocka_unit_test(open__with_the_environment__asks),
        cmocka_unit_test(open__with_nonsense__is_misuse),
    };

    return cmocka_run_group_tests_name("pair_send_imm", tests, NULL, NULL);
}
