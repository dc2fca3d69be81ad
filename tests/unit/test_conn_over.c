/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections over an endpoint of the application: a scripted one, whose octets are literals. What
 * goes down to it, what comes up from it, and that it is closed exactly once.
 */
#include "loop/loop.h"
#include "recording.h"
#include "scratch.h"
#include "verbs/conn.h"
#include "verbs/conn_connect.h"
#include "verbs/conn_setup.h"
#include "verbs/worker.h"
#include "verbs_pair.h"

#include <errno.h>
#include <iwarp/transport.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define REQUEST "4d504120494420526571204672616d65"
#define REPLY   "4d504120494420526570204672616d65"

struct script {
    struct iwarp_endpoint ep;
    pthread_mutex_t lock; /* of everything below */
    struct octets in, out;
    size_t taken;
    bool fin, shut, reset, want_read, want_write;
    unsigned closed, writes; /* calls of each */
};

static struct script *script_of(struct iwarp_endpoint *ep)
{
    return (struct script *)(void *)ep;
}

static ssize_t script_readv(struct iwarp_endpoint *ep, const struct iovec *iov, int n)
{
    struct script *s = script_of(ep);
    ssize_t total = 0;

    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < n; i++) {
        size_t left = s->in.n - s->taken;
        size_t take = iov[i].iov_len < left ? iov[i].iov_len : left;
        if (take > 0) {
            memcpy(iov[i].iov_base, s->in.p + s->taken, take);
        }
        s->taken += take;
        total += (ssize_t)take;
    }
    if (total == 0 && !s->fin) {
        total = -EAGAIN;
    }
    pthread_mutex_unlock(&s->lock);
    return total;
}

static ssize_t script_writev(struct iwarp_endpoint *ep, const struct iovec *iov, int n)
{
    struct script *s = script_of(ep);
    ssize_t total = 0;

    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < n; i++) {
        octets_add(&s->out, iov[i].iov_base, iov[i].iov_len);
        total += (ssize_t)iov[i].iov_len;
    }
    s->writes++;
    pthread_mutex_unlock(&s->lock);
    return total;
}

static void script_watch(struct iwarp_endpoint *ep, bool read, bool write)
{
    struct script *s = script_of(ep);

    pthread_mutex_lock(&s->lock);
    s->want_read = read;
    s->want_write = write;
    bool now = write || (read && (s->taken < s->in.n || s->fin));
    pthread_mutex_unlock(&s->lock);
    if (now) {
        iwarp_endpoint_wake(ep);
    }
}

static void script_shutdown(struct iwarp_endpoint *ep)
{
    struct script *s = script_of(ep);

    pthread_mutex_lock(&s->lock);
    s->shut = true;
    pthread_mutex_unlock(&s->lock);
}

static void script_close(struct iwarp_endpoint *ep, bool reset)
{
    struct script *s = script_of(ep);

    pthread_mutex_lock(&s->lock);
    s->reset = reset;
    s->closed++;
    pthread_mutex_unlock(&s->lock);
    ep->closed(ep->user);
}

static uint32_t script_emss(struct iwarp_endpoint *ep)
{
    (void)ep;
    return 1460;
}

static void script_poll(struct iwarp_endpoint *ep)
{
    struct script *s = script_of(ep);

    pthread_mutex_lock(&s->lock);
    bool readable = s->want_read && (s->taken < s->in.n || s->fin), writable = s->want_write;
    pthread_mutex_unlock(&s->lock);
    if (readable || writable) {
        ep->ready(ep->user, readable, writable);
    }
}

static const struct iwarp_transport transport = {"script",     script_readv,    script_writev,
                                                 script_watch, script_shutdown, script_close,
                                                 script_emss,  script_poll};

static void script_open(struct script *s)
{
    memset(s, 0, sizeof *s);
    s->ep.ops = &transport;
    pthread_mutex_init(&s->lock, NULL);
}

static void script_free(struct script *s)
{
    octets_free(&s->in);
    octets_free(&s->out);
    pthread_mutex_destroy(&s->lock);
}

/* These octets come from the peer; hex, blanks allowed. */
static void comes(struct script *s, const char *hex, bool fin)
{
    pthread_mutex_lock(&s->lock);
    octets_hex(&s->in, hex);
    s->fin = fin;
    pthread_mutex_unlock(&s->lock);
    iwarp_endpoint_wake(&s->ep);
}

static bool patient(struct script *s, bool (*done)(const struct script *, const void *),
                    const void *arg)
{
    for (int i = 0; i < PAIR_WAIT_MS; i++) {
        pthread_mutex_lock(&s->lock);
        bool yes = done(s, arg);
        pthread_mutex_unlock(&s->lock);
        if (yes) {
            return true;
        }
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    return false;
}

static bool has_sent(const struct script *s, const void *n)
{
    return s->out.n >= *(const size_t *)n;
}

/* Exactly these octets went to the peer since the last time. */
static void goes(struct script *s, const char *hex)
{
    struct octets expected = {0};

    octets_hex(&expected, hex);
    assert_true(patient(s, has_sent, &expected.n));
    pthread_mutex_lock(&s->lock);
    octets_expect("what went to the peer", s->out.p, s->out.n, expected.p, expected.n);
    s->out.n = 0;
    pthread_mutex_unlock(&s->lock);
    octets_free(&expected);
}

static bool is_closed(const struct script *s, const void *unused)
{
    (void)unused;
    return s->closed > 0;
}

static struct pair pair; /* for its device, sides and event queues */

static void open_recorded(const char *path)
{
    struct pair_options o;

    pair_options_init(&o, PAIR_MEMORY);
    o.device.pcap = path;
    pair_prepare(&pair, &o);
    pair_recv(&pair.side[0], 100, 0, 64);
}

static void open_device(void)
{
    open_recorded(NULL);
}

static void options_rev1(struct iwarp_conn_options *o)
{
    iwarp_conn_options_init(o);
    o->mpa_rev = 1;
}

/* --- initiator ------------------------------------------------------------------------------- */

static void connect_over__speaks_through_the_endpoint(void **state)
{
    struct iwarp_conn_options o;
    struct script s;

    (void)state;
    open_device();
    options_rev1(&o);
    script_open(&s);
    iwarp_endpoint_wake(&s.ep); /* too early: nobody is there to be woken */
    must(iwarp_connect_over(pair.side[0].qp, &s.ep, &o, "hi", 2, pair.eq[0], NULL,
                            &pair.side[0].conn));
    goes(&s, REQUEST "40010002 6869");
    assert_int_equal(s.writes, 1); /* for peers that want a frame in one segment */
    comes(&s, REPLY "40010000", false);
    pair_event(pair.eq[0], IWARP_EVENT_ESTABLISHED);
    memcpy(pair.side[0].p, "hello", 5);
    pair_send(&pair.side[0], 1, 0, 5);
    goes(&s, "00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 b990b10c");
    pair_wc(pair.side[0].send_cq, 1, IWARP_WC_SUCCESS);
    comes(&s, "00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 b990b10c", true);
    pair_wc(pair.side[0].recv_cq, 100, IWARP_WC_SUCCESS);
    assert_int_equal(pair_event(pair.eq[0], IWARP_EVENT_DISCONNECTED).status, IWARP_OK);
    assert_true(patient(&s, is_closed, NULL));
    assert_false(s.reset);
    struct sockaddr_storage addr;
    socklen_t len;
    must_fail(iwarp_conn_peer_addr(pair.side[0].conn, &addr, &len), IWARP_MISUSE,
              "no such address");
    pair_close(&pair);
    assert_int_equal(s.closed, 1);
    script_free(&s);
}

static void connect_over__aborted__resets_the_endpoint(void **state)
{
    struct iwarp_conn_options o;
    struct script s;

    (void)state;
    open_device();
    options_rev1(&o);
    script_open(&s);
    must(iwarp_connect_over(pair.side[0].qp, &s.ep, &o, NULL, 0, NULL, NULL, &pair.side[0].conn));
    goes(&s, REQUEST "40010000");
    pair_close(&pair);
    assert_int_equal(s.closed, 1);
    assert_true(s.reset);
    script_free(&s);
}

struct late {
    struct iwarp_conn *conn;
    struct iwarp_endpoint *ep;
    bool attached;
};

static void attach_late(void *arg)
{
    struct late *late = arg;

    iwarp_mutex_lock(&late->conn->lock);
    late->attached = iwarp_conn_attach(late->conn, late->ep);
    iwarp_conn_unlock(late->conn);
}

/* Between the calls that iwarp_connect_over is made of, another thread gives the queue pair up. */
static void connect_over__queue_pair_in_error_meanwhile__closes_the_endpoint(void **state)
{
    const struct iwarp_qp_changes give_up = {
        .size = sizeof give_up, .mask = IWARP_QP_CHANGE_STATE, .state = IWARP_QP_ERROR};
    enum iwarp_status status;
    struct iwarp_conn_options o;
    struct late late;
    struct script s;

    (void)state;
    open_device();
    options_rev1(&o);
    script_open(&s);
    late = (struct late){.ep = &s.ep, .attached = true};
    late.conn =
        iwarp_conn_new_initiator(pair.side[0].qp, NULL, &o, NULL, 0, pair.eq[0], NULL, &status);
    must(status);
    must(iwarp_qp_modify(pair.side[0].qp, &give_up));
    struct iwarp_event event = pair_event(pair.eq[0], IWARP_EVENT_FAILED);
    assert_ptr_equal(event.conn, late.conn);
    iwarp_loop_call(&late.conn->worker->loop, attach_late, &late);
    assert_false(late.attached);
    must_fail(iwarp_conn_wait(late.conn, 0), IWARP_CLOSED, "aborted");
    pair.side[0].conn = late.conn;
    pair_close(&pair);
    assert_int_equal(s.closed, 1);
    assert_true(s.reset);
    script_free(&s);
}

/* The largest frame too: 512 octets of private data on the wire, the enhanced words among them. */
static void connect_over__largest_frame__is_one_write(void **state)
{
    uint8_t pd[508];
    struct octets expected = {0};
    struct script s;

    (void)state;
    open_device();
    script_open(&s);
    pair_fill(pd, sizeof pd, 5);
    octets_hex(&expected, REQUEST "50020200 80204020");
    octets_add(&expected, pd, sizeof pd);
    must(iwarp_connect_over(pair.side[0].qp, &s.ep, NULL, pd, sizeof pd, NULL, NULL,
                            &pair.side[0].conn));
    assert_true(patient(&s, has_sent, &expected.n));
    octets_expect("the Request", s.out.p, s.out.n, expected.p, expected.n);
    assert_int_equal(s.out.n, 532);
    assert_int_equal(s.writes, 1);
    pair_close(&pair);
    octets_free(&expected);
    script_free(&s);
}

/* --- responder ------------------------------------------------------------------------------- */

static void accept_over__speaks_through_the_endpoint(void **state)
{
    struct iwarp_conn *conn;
    struct script s;
    size_t len;

    (void)state;
    open_device();
    script_open(&s);
    comes(&s, REQUEST "40010002 6869", false); /* before anybody reads */
    must(iwarp_accept_over(pair.device, &s.ep, NULL, pair.eq[0], &s, &conn));
    struct iwarp_event e = pair_event(pair.eq[0], IWARP_EVENT_REQUEST);
    assert_ptr_equal(e.conn, conn);
    assert_ptr_equal(e.user, &s);
    assert_null(e.listener);
    assert_memory_equal(iwarp_conn_private_data(conn, &len), "hi", 2);
    pair.side[0].conn = conn;
    must(iwarp_accept(conn, pair.side[0].qp, NULL, "yo", 2, NULL));
    goes(&s, REPLY "40010002 796f");
    assert_int_equal(s.writes, 1); /* for peers that want a frame in one segment */
    pair_event(pair.eq[0], IWARP_EVENT_ESTABLISHED);
    comes(&s, "00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 b990b10c", true);
    pair_wc(pair.side[0].recv_cq, 100, IWARP_WC_SUCCESS);
    assert_int_equal(pair_event(pair.eq[0], IWARP_EVENT_DISCONNECTED).status, IWARP_OK);
    pair_close(&pair);
    assert_int_equal(s.closed, 1);
    script_free(&s);
}

/* Who has the handle hears of the failure, unlike with a listener's strangers. */
static void accept_over__something_else_comes__is_reported(void **state)
{
    static const struct {
        const char *hex;
        bool fin;
        enum iwarp_fault_code fault;
    } cases[] = {{"47455420 2f20", false, IWARP_FAULT_MPA_KEY},
                 {"4d504120", true, IWARP_FAULT_MPA_CLOSED},
                 {REPLY "40010000", false, IWARP_FAULT_MPA_BOTH_RESPONDERS}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct iwarp_conn *conn;
        struct script s;
        open_device();
        script_open(&s);
        must(iwarp_accept_over(pair.device, &s.ep, NULL, pair.eq[0], NULL, &conn));
        comes(&s, cases[i].hex, cases[i].fin);
        struct iwarp_event e = pair_event(pair.eq[0], IWARP_EVENT_FAILED);
        assert_ptr_equal(e.conn, conn);
        assert_string_equal(iwarp_fault_name(iwarp_fault_code(e.fault)),
                            iwarp_fault_name(cases[i].fault));
        must(iwarp_conn_destroy(conn));
        pair_close(&pair);
        assert_int_equal(s.closed, 1);
        script_free(&s);
    }
}

static void accept_over__given_up_at_once__closes_the_endpoint(void **state)
{
    struct iwarp_conn *conn;
    struct script s;

    (void)state;
    open_device();
    script_open(&s);
    must(iwarp_accept_over(pair.device, &s.ep, NULL, pair.eq[0], NULL, &conn));
    must(iwarp_conn_destroy(conn));
    pair_close(&pair);
    assert_int_equal(s.closed, 1);
    script_free(&s);
}

static void endpoints__that_are_none__are_misuse(void **state)
{
    struct iwarp_transport gap = transport;
    struct iwarp_conn *conn;
    struct script s;

    (void)state;
    open_device();
    script_open(&s);
    must_fail(iwarp_connect_over(pair.side[0].qp, NULL, NULL, NULL, 0, NULL, NULL, &conn),
              IWARP_MISUSE, "NULL");
    must_fail(iwarp_connect_over(NULL, &s.ep, NULL, NULL, 0, NULL, NULL, &conn), IWARP_MISUSE,
              "queue pair");
    must_fail(iwarp_connect_over(pair.side[0].qp, &s.ep, NULL, NULL, 3, NULL, NULL, &conn),
              IWARP_MISUSE, "private_data");
    must_fail(iwarp_accept_over(pair.device, &s.ep, NULL, NULL, NULL, &conn), IWARP_MISUSE,
              "event queue");
    gap.emss = NULL;
    s.ep.ops = &gap;
    must_fail(iwarp_accept_over(pair.device, &s.ep, NULL, pair.eq[0], NULL, &conn), IWARP_MISUSE,
              "operation");
    pair_close(&pair);
    assert_int_equal(s.closed, 0); /* still the application's */
    script_free(&s);
}

/* --- recording ------------------------------------------------------------------------------- */

/* Made-up addresses, and the octets that went down to the endpoint and came up from it. */
static void connect_over__recorded__is_what_crossed_the_border(void **state)
{
    struct iwarp_conn_options o;
    struct recording r;
    struct script s;
    char path[4096];

    (void)state;
    snprintf(path, sizeof path, "%s/over.pcapng", scratch_path);
    open_recorded(path);
    options_rev1(&o);
    script_open(&s);
    must(iwarp_connect_over(pair.side[0].qp, &s.ep, &o, "hi", 2, pair.eq[0], NULL,
                            &pair.side[0].conn));
    goes(&s, REQUEST "40010002 6869");
    comes(&s, REPLY "40010000", false);
    pair_event(pair.eq[0], IWARP_EVENT_ESTABLISHED);
    comes(&s, "00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 b990b10c", true);
    pair_wc(pair.side[0].recv_cq, 100, IWARP_WC_SUCCESS);
    pair_event(pair.eq[0], IWARP_EVENT_DISCONNECTED);
    assert_true(patient(&s, is_closed, NULL));
    pair_close(&pair);
    recording_load(&r, path);
    assert_int_equal(r.connections, 1);
    assert_memory_equal(r.connection[0].ip[0], "\xc0\0\x02\x01", 4);
    recording_expect(&r, 0, 0, REQUEST "40010002 6869");
    recording_expect(&r, 0, 1,
                     REPLY "40010000 00174143 00000000 00000000 00000001 00000000 68656c6c "
                           "6f000000 b990b10c");
    assert_true(r.connection[0].fin[0] && r.connection[0].fin[1]);
    recording_free(&r);
    script_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connect_over__speaks_through_the_endpoint),
        cmocka_unit_test(connect_over__aborted__resets_the_endpoint),
        cmocka_unit_test(connect_over__queue_pair_in_error_meanwhile__closes_the_endpoint),
        cmocka_unit_test(connect_over__largest_frame__is_one_write),
        cmocka_unit_test(accept_over__speaks_through_the_endpoint),
        cmocka_unit_test(accept_over__something_else_comes__is_reported),
        cmocka_unit_test(accept_over__given_up_at_once__closes_the_endpoint),
        cmocka_unit_test(endpoints__that_are_none__are_misuse),
        cmocka_unit_test(connect_over__recorded__is_what_crossed_the_border),
    };

    return cmocka_run_group_tests_name("conn_over", tests, scratch_setup, scratch_teardown);
}
