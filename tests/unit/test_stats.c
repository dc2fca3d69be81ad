/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statistics: every message, octet and end is counted once, on the side where it happened; numbers
 * of connections that are gone stay; recalls are counted of loops on lease alone; reading goes on
 * while work does. The sizes expected here are those of RFC 5040 4, RFC 5041 4 and RFC 5044 4,
 * added up by hand.
 */
#include "verbs_pair.h"

#include "loop/lease.h"
#include "verbs/conn.h"
#include "verbs/device.h"

#include <pthread.h>
#include <stdlib.h>

static struct iwarp_device_stats device_stats(struct pair *p)
{
    struct iwarp_device_stats s = {.size = sizeof s};

    must(iwarp_device_stats(p->device, &s));
    return s;
}

static struct iwarp_qp_stats qp_stats(const struct pair_side *side)
{
    struct iwarp_qp_stats s = {.size = sizeof s};

    must(iwarp_qp_stats(side->qp, &s));
    return s;
}

static void options(struct pair_options *o, int transport)
{
    pair_options_init(o, (enum pair_transport)transport);
    o->conn[0].peer_to_peer = o->conn[1].peer_to_peer = false; /* no ready-to-receive message */
}

static uint64_t all_messages(const struct iwarp_traffic *t)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < 16; i++) {
        n += t->messages[i];
    }
    return n;
}

static void expect_traffic(const struct iwarp_traffic *t, uint64_t messages, uint64_t payload,
                           uint64_t fpdus, uint64_t octets)
{
    assert_int_equal(all_messages(t), messages);
    assert_int_equal(t->payload, payload);
    assert_int_equal(t->fpdus, fpdus);
    assert_int_equal(t->octets, octets);
}

/*
 * From the initiator: a Send of 5 (2+18+5+3+4 = 32), an SE of 1 (2+18+1+3+4 = 28), a Write of 64
 * (2+14+64+0+4 = 84), a Read Request (2+18+28+0+4 = 52); back: 8 octets (2+14+8+0+4 = 28).
 */
static void one_of_each(struct pair *p)
{
    pair_recv(&p->side[1], 1, 0, 64);
    pair_recv(&p->side[1], 2, 64, 64);
    pair_send(&p->side[0], 1, 0, 5);
    struct iwarp_sge sge = pair_sge(&p->side[0], 0, 1);
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_SEND, 2, &sge);
    wr.flags |= IWARP_WR_SOLICITED;
    must(iwarp_post_send(p->side[0].qp, &wr, NULL));
    pair_write(&p->side[0], 3, 0, 64, &p->side[1], 1024);
    pair_read(&p->side[0], 4, 0, 8, &p->side[1], 1024);
    for (uint64_t i = 1; i <= 4; i++) {
        pair_wc(p->side[0].send_cq, i, IWARP_WC_SUCCESS);
    }
}

static void expect_one_of_each(const struct iwarp_traffic *out, const struct iwarp_traffic *back)
{
    expect_traffic(out, 4, 5 + 1 + 64, 4, 32 + 28 + 84 + 52);
    expect_traffic(back, 1, 8, 1, 28);
    assert_int_equal(out->messages[IWARP_OP_SEND], 1);
    assert_int_equal(out->messages[IWARP_OP_SEND_SE], 1);
    assert_int_equal(out->messages[IWARP_OP_WRITE], 1);
    assert_int_equal(out->messages[IWARP_OP_READ_REQUEST], 1);
    assert_int_equal(back->messages[IWARP_OP_READ_RESPONSE], 1);
}

static void traffic__one_message_of_each_kind__is_counted_to_the_octet(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    for (int t = 0; t < PAIR_TRANSPORTS; t++) {
        options(&o, t);
        pair_prepare(&p, &o);
        struct iwarp_qp_stats none = qp_stats(&p.side[0]);
        expect_traffic(&none.sent, 0, 0, 0, 0);
        pair_connect(&p);
        one_of_each(&p);
        struct iwarp_qp_stats a = qp_stats(&p.side[0]), b = qp_stats(&p.side[1]);
        expect_one_of_each(&a.sent, &a.received);
        expect_one_of_each(&b.received, &b.sent);
        struct iwarp_device_stats d = device_stats(&p);
        expect_traffic(&d.sent, 5, 78, 5, 224); /* both ends are of this device */
        expect_traffic(&d.received, 5, 78, 5, 224);
        assert_int_equal(d.connects, 1);
        assert_int_equal(d.arrivals, 1);
        assert_int_equal(d.established, 2);
        assert_int_equal(d.failed + d.rejected_here + d.rejected_by_peer, 0);
        assert_int_equal(d.pds, 2);
        assert_int_equal(d.regions, 2);
        assert_int_equal(d.cqs, 4);
        assert_int_equal(d.qps, 2);
        assert_int_equal(d.srqs, 0);
        assert_int_equal(d.event_queues, 2);
        assert_int_equal(d.connections, 2);
        assert_int_equal(d.half_open, 0);
        assert_int_equal(d.listeners, t != PAIR_MEMORY);
        for (int i = 0; i < 2; i++) {
            must(iwarp_conn_destroy(p.side[i].conn));
            must(iwarp_qp_destroy(p.side[i].qp));
            p.side[i].conn = NULL;
            p.side[i].qp = NULL;
        }
        d = device_stats(&p); /* what was, stays */
        expect_traffic(&d.sent, 5, 78, 5, 224);
        assert_int_equal(d.qps, 0);
        pair_close(&p);
    }
}

/* A Write of 100000 octets: as many FPDUs as it needs, one message, with markers and without. */
static void traffic__of_a_message_of_many_segments__is_one_message(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    for (int markers = 0; markers < 2; markers++) {
        options(&o, PAIR_TCP4);
        o.memory = 100000;
        for (int i = 0; i < 2; i++) {
            o.conn[i].ulpdu_max = 1014; /* 1000 octets of payload, 2+14+1000+0+4 = 1020 */
            o.conn[i].markers = markers != 0;
        }
        pair_open(&p, &o);
        pair_write(&p.side[0], 1, 0, 100000, &p.side[1], 0);
        pair_wc(p.side[0].send_cq, 1, IWARP_WC_SUCCESS);
        pair_read(&p.side[0], 2, 0, 0, &p.side[1], 0); /* behind it: the Write has arrived */
        pair_wc(p.side[0].send_cq, 2, IWARP_WC_SUCCESS);
        struct iwarp_qp_stats a = qp_stats(&p.side[0]), b = qp_stats(&p.side[1]);
        uint64_t octets = 100 * 1020 + 52, marked = octets;
        if (markers) { /* one in front of every 508 octets, RFC 5044 4.3 */
            marked += 4 * ((octets + 507) / 508);
        }
        expect_traffic(&a.sent, 2, 100000, 101, marked);
        expect_traffic(&b.received, 2, 100000, 101, marked);
        pair_close(&p);
    }
}

static void expect_terminate(struct iwarp_terminate_stats t, unsigned layer, unsigned etype,
                             unsigned code)
{
    assert_int_equal(t.count, 1);
    assert_int_equal(t.layer, layer);
    assert_int_equal(t.etype, etype);
    assert_int_equal(t.code, code);
}

/* The ends of a queue pair's stream that were not looked at one by one. */
static void expect_ends(const struct iwarp_qp_stats *s, unsigned crc_errors, unsigned empty,
                        unsigned lost, unsigned sent, unsigned received)
{
    assert_int_equal(s->crc_errors, crc_errors);
    assert_int_equal(s->receive_queue_empty, empty);
    assert_int_equal(s->streams_lost, lost);
    assert_int_equal(s->terminate_sent.count, sent);
    assert_int_equal(s->terminate_received.count, received);
}

static void ends__of_every_kind__are_counted_by_code(void **state)
{
    struct iwarp_device_stats d;
    struct pair_options o;
    struct pair p;

    (void)state;
    options(&o, PAIR_TCP4);
    struct iwarp_qp_stats a, b;
    pair_open(&p, &o); /* no receive is posted: Terminate 1/2/02 */
    a = qp_stats(&p.side[0]), b = qp_stats(&p.side[1]);
    expect_ends(&a, 0, 0, 0, 0, 0);
    expect_ends(&b, 0, 0, 0, 0, 0);
    pair_send(&p.side[0], 1, 0, 8);
    must(iwarp_conn_wait_end(p.side[0].conn, PAIR_WAIT_MS));
    must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
    d = device_stats(&p);
    assert_int_equal(d.receive_queue_empty, 1);
    assert_int_equal(d.terminates_sent[1][2][2], 1);
    assert_int_equal(d.terminates_received[1][2][2], 1);
    assert_int_equal(d.sent.messages[IWARP_OP_TERMINATE], 1);
    assert_int_equal(d.received.messages[IWARP_OP_TERMINATE], 1);
    a = qp_stats(&p.side[0]), b = qp_stats(&p.side[1]);
    expect_ends(&a, 0, 0, 0, 0, 1);
    expect_terminate(a.terminate_received, 1, 2, 2);
    expect_ends(&b, 0, 1, 0, 1, 0);
    expect_terminate(b.terminate_sent, 1, 2, 2);
    assert_int_equal(d.received.payload, 0); /* neither that of the Send nor the Terminate's */
    pair_close(&p);
    pair_open(&p, &o); /* past the end: 1/1/01 */
    pair_write(&p.side[0], 1, 0, 8, &p.side[1], o.memory - 1);
    must(iwarp_conn_wait_end(p.side[0].conn, PAIR_WAIT_MS));
    must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
    d = device_stats(&p);
    assert_int_equal(d.receive_queue_empty, 0);
    assert_int_equal(d.terminates_sent[1][1][1], 1);
    assert_int_equal(d.terminates_received[1][1][1], 1);
    assert_int_equal(d.crc_errors, 0);
    pair_close(&p);
    pair_open(&p, &o); /* a reset */
    must(iwarp_abort(p.side[0].conn));
    must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
    d = device_stats(&p);
    assert_int_equal(d.streams_lost, 1);
    b = qp_stats(&p.side[1]);
    expect_ends(&b, 0, 0, 1, 0, 0);
    assert_int_equal(d.sent.messages[IWARP_OP_TERMINATE], 0);
    pair_close(&p);
}

static void connections__rejected_and_failed__are_counted(void **state)
{
    struct iwarp_device_stats d;
    struct sockaddr_storage addr;
    struct pair_options o;
    socklen_t len;
    struct pair p;

    (void)state;
    options(&o, PAIR_TCP4);
    pair_prepare(&p, &o);
    must(iwarp_listener_addr(p.listener, &addr, &len));
    must(iwarp_connect(p.side[0].qp, (struct sockaddr *)&addr, len, &o.conn[0], NULL, 0, p.eq[0],
                       NULL, &p.side[0].conn));
    struct iwarp_event event = pair_event(p.eq[1], IWARP_EVENT_REQUEST);
    must(iwarp_reject(event.conn, NULL, 0));
    pair_event(p.eq[0], IWARP_EVENT_REJECTED);
    must(iwarp_conn_destroy(event.conn));
    d = device_stats(&p);
    assert_int_equal(d.rejected_here, 1);
    assert_int_equal(d.rejected_by_peer, 1);
    assert_int_equal(d.failed + d.established, 0);
    must(iwarp_listener_close(p.listener)); /* nobody listens any more */
    p.listener = NULL;
    struct iwarp_conn *conn;
    must(iwarp_connect(p.side[1].qp, (struct sockaddr *)&addr, len, &o.conn[0], NULL, 0, p.eq[0],
                       NULL, &conn));
    pair_event(p.eq[0], IWARP_EVENT_FAILED);
    d = device_stats(&p);
    assert_int_equal(d.failed, 1);
    assert_int_equal(d.connects, 2);
    assert_int_equal(d.arrivals, 1);
    assert_int_equal(d.listeners, 0);
    must(iwarp_conn_destroy(conn));
    pair_close(&p);
}

/* --- recalls --------------------------------------------------------------------------------- */

#define WORKERS 2u

/* Have this thread run all loops of the device.  Until it leaves, no home can take one back. */
static void take_loops(struct iwarp_device *device)
{
    for (unsigned i = 0; i < WORKERS; i++) {
        for (int tries = 0; !iwarp_lease_take(&device->worker[i].loop, IWARP_PARK_MS); tries++) {
            assert_true(tries < PAIR_WAIT_MS);
        }
    }
}

static void leave_loops(struct iwarp_device *device)
{
    for (unsigned i = WORKERS; i-- > 0;) { /* the last one that was entered is left first */
        iwarp_lease_leave(&device->worker[i].loop);
    }
}

static void expect_recalls(struct iwarp_device *device, uint64_t recalls)
{
    struct iwarp_device_stats s = {.size = sizeof s};

    must(iwarp_device_stats(device, &s));
    assert_int_equal(s.recalls, recalls);
}

/* One for each loop that is out on lease, and none for a loop that its home runs. */
static void recalls__of_loops_on_lease__are_counted_and_of_others_are_not(void **state)
{
    static const enum iwarp_progress kinds[] = {IWARP_PROGRESS_THREADED, IWARP_PROGRESS_POLLED};

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct iwarp_device_options o;
        struct iwarp_device *device;
        struct iwarp_cq *cq;
        iwarp_device_options_init(&o);
        o.progress = kinds[i];
        o.workers = WORKERS;
        must(iwarp_device_open(&o, &device));
        must(iwarp_cq_create(device, 8, NULL, &cq));
        pair_await_homes(device); /* until then the loops count as out on lease */
        expect_recalls(device, 0);
        take_loops(device);
        expect_recalls(device, 0);
        must(iwarp_cq_arm(cq, false));
        expect_recalls(device, WORKERS);
        must(iwarp_cq_arm(cq, false)); /* the homes have been asked, and are asked again */
        expect_recalls(device, 2 * WORKERS);
        leave_loops(device);
        pair_await_homes(device);
        must(iwarp_cq_arm(cq, false));
        expect_recalls(device, 2 * WORKERS);
        must(iwarp_cq_destroy(cq));
        must(iwarp_device_close(device));
    }
}

/* --- while work goes on ---------------------------------------------------------------------- */

struct watcher {
    struct pair *p;
    _Atomic bool stop;
    unsigned reads;
};

static void *watch(void *arg)
{
    struct watcher *w = arg;
    uint64_t last = 0, last_qp = 0;

    while (!atomic_load(&w->stop) || w->reads == 0) {
        struct iwarp_device_stats d = {.size = sizeof d};
        struct iwarp_qp_stats q = {.size = sizeof q};
        if (iwarp_device_stats(w->p->device, &d) != IWARP_OK ||
            iwarp_qp_stats(w->p->side[0].qp, &q) != IWARP_OK || d.sent.fpdus < last ||
            q.sent.fpdus < last_qp) {
            abort(); /* numbers never fall */
        }
        last = d.sent.fpdus;
        last_qp = q.sent.fpdus;
        w->reads++;
    }
    return NULL;
}

static void read__while_writes_go_on__never_falls(void **state)
{
    struct watcher w = {.stop = false};
    struct pair_options o;
    pthread_t thread;
    struct pair p;

    (void)state;
    options(&o, PAIR_TCP4);
    pair_prepare(&p, &o);
    w.p = &p;
    assert_int_equal(pthread_create(&thread, NULL, watch, &w), 0);
    pair_connect(&p);
    for (uint64_t i = 0; i < 3000; i++) {
        pair_write(&p.side[0], i, 0, 64, &p.side[1], 0);
        if (i % 64 == 63 || i == 2999) {
            for (uint64_t k = i - i % 64; k <= i; k++) {
                pair_wc(p.side[0].send_cq, k, IWARP_WC_SUCCESS);
            }
        }
    }
    atomic_store(&w.stop, true);
    pthread_join(thread, NULL);
    struct iwarp_qp_stats a = qp_stats(&p.side[0]);
    expect_traffic(&a.sent, 3000, 3000 * 64, 3000, 3000 * 84);
    pair_close(&p);
}

static void text__of_some_numbers__tells_those_and_no_others(void **state)
{
    struct iwarp_device_stats s = {.size = sizeof s, .crc_errors = 3, .recalls = 4, .qps = 2};
    const char *expected =
        "sent.write 7\nreceived.octets 18446744073709551615\ncrc-errors 3\n"
        "terminates-received.0/1/0f 6\nterminates-sent.1/2/02 5\nrecalls 4\nqps 2\n";
    char buf[400], small[10];

    (void)state;
    s.sent.messages[IWARP_OP_WRITE] = 7;
    s.received.octets = UINT64_MAX;
    s.terminates_sent[1][2][2] = 5;
    s.terminates_received[0][1][15] = 6;
    assert_int_equal(iwarp_device_stats_text(&s, buf, sizeof buf), strlen(expected));
    assert_string_equal(buf, expected);
    assert_int_equal(iwarp_device_stats_text(&s, small, sizeof small), strlen(expected));
    assert_memory_equal(small, "sent.writ", 10);
    assert_int_equal(iwarp_device_stats_text(&s, NULL, 0), strlen(expected));
    memset(&s, 0, sizeof s);
    assert_int_equal(iwarp_device_stats_text(&s, buf, sizeof buf), 0);
    assert_string_equal(buf, "");
}

static void read__without_a_size__is_misuse(void **state)
{
    struct iwarp_device_stats d = {.size = 8};
    struct iwarp_qp_stats q = {.size = 8};
    struct pair_options o;
    struct pair p;

    (void)state;
    options(&o, PAIR_MEMORY);
    pair_prepare(&p, &o);
    must_fail(iwarp_device_stats(p.device, &d), IWARP_MISUSE, "set size");
    must_fail(iwarp_qp_stats(p.side[0].qp, &q), IWARP_MISUSE, "set size");
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traffic__one_message_of_each_kind__is_counted_to_the_octet),
        cmocka_unit_test(traffic__of_a_message_of_many_segments__is_one_message),
        cmocka_unit_test(ends__of_every_kind__are_counted_by_code),
        cmocka_unit_test(connections__rejected_and_failed__are_counted),
        cmocka_unit_test(recalls__of_loops_on_lease__are_counted_and_of_others_are_not),
        cmocka_unit_test(read__while_writes_go_on__never_falls),
        cmocka_unit_test(text__of_some_numbers__tells_those_and_no_others),
        cmocka_unit_test(read__without_a_size__is_misuse),
    };

    return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
