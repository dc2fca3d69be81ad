/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Strangers at the port of queue pairs that are connected by number: Requests with private data of
 * any kind, numbers and PSNs that do not fit, and floods. Each is refused with its reason, and the
 * peer that fits gets through all the same. The stranger is the native library, with another
 * device.
 */
#include "numbered.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>

static const struct loop_options unconnected = {.unconnected = true};

enum { HELLO = 32, NOBODY = 1, OTHER_PEER = 2, OTHER_PSN = 4 };
#define STRANGER                                                                                   \
    0xfffefdu /* larger than any number here: its port is none of the ephemeral ones               \
               */

struct stranger {
    struct iwarp_device *device;
    struct iwarp_pd *pd;
    struct iwarp_cq *cq;
    struct iwarp_eq *eq;
};

static void open_stranger(struct stranger *s)
{
    assert_int_equal(iwarp_device_open(NULL, &s->device), IWARP_OK);
    assert_int_equal(iwarp_pd_create(s->device, &s->pd), IWARP_OK);
    assert_int_equal(iwarp_cq_create(s->device, 64, NULL, &s->cq), IWARP_OK);
    assert_int_equal(iwarp_eq_create(s->device, &s->eq), IWARP_OK);
}

static void close_stranger(struct stranger *s)
{
    assert_int_equal(iwarp_eq_destroy(s->eq), IWARP_OK);
    assert_int_equal(iwarp_cq_destroy(s->cq), IWARP_OK);
    assert_int_equal(iwarp_pd_destroy(s->pd), IWARP_OK);
    assert_int_equal(iwarp_device_close(s->device), IWARP_OK);
}

/* docs/by-number.md, "Private data", by hand. */
static void hello(uint8_t o[HELLO], uint32_t from, uint32_t to, uint32_t sq_psn, uint32_t rq_psn)
{
    const uint32_t words[] = {0x69775150, 0x01000001, from, to, 1u << 24 | sq_psn, rq_psn};

    memset(o, 0, HELLO);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        uint32_t word = htonl(words[i]);
        memcpy(o + 4 * i, &word, sizeof word);
    }
}

struct
try {
    struct iwarp_qp *qp;
    struct iwarp_conn *conn;
};

static struct sockaddr_in port_of(const struct ibv_qp *qp)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)(qp->qp_num >> 8)),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static struct try begin(struct stranger *s, const struct ibv_qp *at, const void *data, size_t len)
{
    const struct sockaddr_in to = port_of(at);
    struct iwarp_conn_options co;
    struct iwarp_qp_options qo;
    struct try t;

    iwarp_conn_options_init(&co);
    co.mpa_fallback = false;
    iwarp_qp_options_init(&qo);
    qo.send_cq = qo.recv_cq = s->cq;
    qo.max_send_wr = qo.max_recv_wr = 1;
    assert_int_equal(iwarp_qp_create(s->pd, &qo, &t.qp), IWARP_OK);
    assert_int_equal(iwarp_connect(t.qp, (const struct sockaddr *)&to, sizeof to, &co, data, len,
                                   s->eq, NULL, &t.conn),
                     IWARP_OK);
    return t;
}

static void end(struct try *t)
{
    assert_int_equal(iwarp_conn_destroy(t->conn), IWARP_OK);
    assert_int_equal(iwarp_qp_destroy(t->qp), IWARP_OK);
}

/* It is refused; the reason, by the Reply's private data. */
static int refused(struct stranger *s, const struct ibv_qp *at, const void *data, size_t len)
{
    struct try t = begin(s, at, data, len);
    struct iwarp_event e;
    size_t n;

    assert_int_equal(iwarp_eq_get(s->eq, &e, LOOP_WAIT_MS), IWARP_OK);
    assert_int_equal(e.type, IWARP_EVENT_REJECTED);
    const uint8_t *octets = iwarp_conn_private_data(e.conn, &n);
    assert_int_equal(n, HELLO);
    assert_memory_equal(octets, "iwQP\2", 5);
    int reason = octets[5];
    end(&t);
    return reason;
}

static void request__of_any_octets__is_refused(void **state)
{
    uint8_t o[512];
    struct stranger s;
    struct loop l;

    (void)state;
    open_stranger(&s);
    loop_open(&l, &unconnected);
    struct ibv_qp *victim = l.qp[0];
    to_rtr(victim, STRANGER, &usual);
    assert_int_equal(refused(&s, victim, NULL, 0), NOBODY);
    memset(o, 0xff, sizeof o);
    assert_int_equal(refused(&s, victim, o, 500), NOBODY);
    assert_int_equal(refused(&s, victim, o, HELLO), NOBODY);
    for (size_t bit = 0; bit < 8 * 16u; bit++) { /* magic, kind, version, both numbers */
        hello(o, STRANGER, victim->qp_num, 17, 17);
        o[bit / 8] ^= (uint8_t)(1u << bit % 8);
        uint32_t other = htonl(l.qp[1]->qp_num); /* one that would hold it until its RTR */
        bool means_nothing = bit / 8 == 5 || bit / 8 == 6;
        if (!means_nothing && memcmp(o + 12, &other, 4) != 0) {
            int reason = refused(&s, victim, o, HELLO);
            assert_true(reason == NOBODY || (bit >= 64 && reason == OTHER_PEER));
        }
    }
    hello(o, STRANGER, victim->qp_num, 17, 17);
    assert_int_equal(refused(&s, victim, o, HELLO - 1), NOBODY);
    assert_int_equal(refused(&s, victim, o, HELLO + 1), NOBODY);
    hello(o, STRANGER, victim->qp_num, 18, 17);
    assert_int_equal(refused(&s, victim, o, HELLO), OTHER_PSN);
    to_rts(victim, &usual);
    hello(o, STRANGER, victim->qp_num, 17, 18);
    assert_int_equal(refused(&s, victim, o, HELLO), OTHER_PSN);
    to_state(victim, IBV_QPS_RESET);
    name_each_other(&l, &usual);
    exchange(&l, 0);
    loop_close(&l);
    close_stranger(&s);
}

/* Who knows numbers and PSN gets in: nothing is authenticated. */
static void request__that_fits__is_accepted(void **state)
{
    struct iwarp_event e;
    uint8_t o[HELLO];
    struct stranger s;
    struct loop l;

    (void)state;
    open_stranger(&s);
    loop_open(&l, &unconnected);
    to_rtr(l.qp[0], STRANGER, &usual);
    hello(o, STRANGER, l.qp[0]->qp_num, 17, 17);
    struct try t = begin(&s, l.qp[0], o, HELLO);
    assert_int_equal(iwarp_eq_get(s.eq, &e, LOOP_WAIT_MS), IWARP_OK);
    assert_int_equal(e.type, IWARP_EVENT_ESTABLISHED);
    end(&t);
    loop_close(&l);
    close_stranger(&s);
}

/* Requests for a queue pair that knows no peer yet are held; they do not keep its peer away, and go
 * with the queue pair. */
static void flood__of_held_requests__keeps_nobody_away(void **state)
{
    enum { MANY = 200 };
    struct try t[MANY];
    struct iwarp_event e;
    uint8_t o[HELLO];
    struct stranger s;
    struct loop l;

    (void)state;
    open_stranger(&s);
    loop_open(&l, &unconnected);
    struct ibv_qp *opener = loop_qp(&l, 0, &unconnected), *idle = loop_qp(&l, 0, &unconnected);
    to_rtr(opener, STRANGER, &usual); /* the port listens */
    for (int i = 0; i < MANY; i++) {
        hello(o, STRANGER - (uint32_t)i, i % 2 ? l.qp[0]->qp_num : idle->qp_num, 17, 17);
        t[i] = begin(&s, opener, o, HELLO);
    }
    nap_ms(100);
    name_each_other(&l, &usual);
    exchange(&l, 0);
    assert_int_equal(ibv_destroy_qp(idle), 0);
    to_state(l.qp[0], IBV_QPS_RESET); /* those that it holds are refused by its next RTR */
    to_state(l.qp[1], IBV_QPS_RESET);
    name_each_other(&l, &usual);
    exchange(&l, 1);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(iwarp_eq_get(s.eq, &e, LOOP_WAIT_MS), IWARP_OK);
        assert_int_equal(e.type, IWARP_EVENT_REJECTED);
    }
    for (int i = 0; i < MANY; i++) {
        end(&t[i]);
    }
    assert_int_equal(ibv_destroy_qp(opener), 0);
    loop_close(&l);
    close_stranger(&s);
}

/* Connections that say nothing, or nothing of MPA, at the port. */
static void flood__of_silent_connections__keeps_nobody_away(void **state)
{
    enum { MANY = 100 };
    int fd[MANY];
    struct loop l;

    (void)state;
    loop_open(&l, &unconnected);
    struct ibv_qp *opener = loop_qp(&l, 0, &unconnected);
    to_rtr(opener, STRANGER, &usual);
    const struct sockaddr_in to = port_of(opener);
    for (int i = 0; i < MANY; i++) {
        fd[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(fd[i], (const struct sockaddr *)&to, sizeof to), 0);
        if (i % 2) {
            (void)!write(fd[i], "GET / HTTP/1.0\r\n\r\n", 18);
        }
    }
    name_each_other(&l, &usual);
    exchange(&l, 0);
    for (int i = 0; i < MANY; i++) {
        close(fd[i]);
    }
    assert_int_equal(ibv_destroy_qp(opener), 0);
    loop_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request__of_any_octets__is_refused),
        cmocka_unit_test(request__that_fits__is_accepted),
        cmocka_unit_test(flood__of_held_requests__keeps_nobody_away),
        cmocka_unit_test(flood__of_silent_connections__keeps_nobody_away),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
