/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Driving a connection: a peer that never says goodbye, memory for what is unsent that runs out,
 * one connection that has much to do beside one that has little, and how much it sends in one turn.
 */
#include "base/log.h"
#include "loop/clock.h"
#include "loop/loop.h"
#include "mpa/mpa_frame.h"
#include "raw_peer.h"
#include "stream/stream.h"
#include "verbs/conn.h"
#include "verbs/conn_drive.h"
#include "verbs/worker.h"
#include "verbs_pair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Side 1 accepts a peer that is a socket; revision 1, no CRC asked for by that. */
static int open_with_socket(struct pair *p, unsigned close_ms)
{
    struct sockaddr_storage addr;
    struct pair_options o;
    struct sockaddr_in in;
    uint8_t reply[20];
    socklen_t len;

    pair_options_init(&o, PAIR_TCP4);
    o.conn[1].close_timeout_ms = close_ms;
    pair_prepare(p, &o);
    must(iwarp_listener_addr(p->listener, &addr, &len));
    memcpy(&in, &addr, sizeof in);
    int fd = raw_connect(&in);
    raw_send(fd, "MPA ID Req Frame\x40\x01\x00\x00", 20);
    p->side[1].conn = pair_event(p->eq[1], IWARP_EVENT_REQUEST).conn;
    must(iwarp_accept(p->side[1].conn, p->side[1].qp, NULL, NULL, 0, NULL));
    pair_event(p->eq[1], IWARP_EVENT_ESTABLISHED);
    raw_read(fd, reply, sizeof reply, "Reply");
    return fd;
}

static unsigned count_in(const char *text, const char *what)
{
    unsigned n = 0;

    while ((text = strstr(text, what)) != NULL) {
        n++;
        text += strlen(what);
    }
    return n;
}

/* The log has this line once a second at most, for all connections together. */
static void let_a_second_pass(void)
{
    nanosleep(&(const struct timespec){1, 50 * 1000000}, NULL);
}

struct heard {
    FILE *log;
    int stderr_fd;
};

/* What is logged from here on comes into a file. */
static void listen_to_log(struct heard *h)
{
    h->log = tmpfile();
    assert_non_null(h->log);
    fflush(stderr);
    h->stderr_fd = dup(STDERR_FILENO);
    dup2(fileno(h->log), STDERR_FILENO);
    iwarp_log_set("warn");
}

/* No more; and what it was. */
static void take_log(struct heard *h, char *text, size_t size)
{
    fflush(stderr);
    dup2(h->stderr_fd, STDERR_FILENO);
    close(h->stderr_fd);
    iwarp_log_set(NULL);
    rewind(h->log);
    text[fread(text, 1, size - 1, h->log)] = '\0';
    fclose(h->log);
}

/* What a responder has to say before the initiator's first word is held, and the log says why. */
static void responder__with_early_work__explains_the_wait_once(void **state)
{
    static const char *const why[] = {"was of revision 1", "did not ask for peer-to-peer mode", ""};

    (void)state;
    let_a_second_pass();
    for (int i = 0; i < 3; i++) {
        struct pair_options o;
        struct pair p;
        char text[20000];
        pair_options_init(&o, PAIR_TCP4);
        o.conn[0].mpa_rev = i == 0 ? 1 : 2;
        o.conn[0].peer_to_peer = i == 2;
        struct heard heard;
        listen_to_log(&heard);
        pair_open(&p, &o);
        pair_recv(&p.side[0], 1, 0, 8);
        pair_recv(&p.side[0], 2, 8, 8);
        pair_send(&p.side[1], 3, 0, 8);
        pair_send(&p.side[1], 4, 0, 8);
        if (i < 2) {
            pair_write(&p.side[0], 5, 0, 0, &p.side[1], 0);
            pair_wc(p.side[0].send_cq, 5, IWARP_WC_SUCCESS);
        }
        pair_wc(p.side[0].recv_cq, 1, IWARP_WC_SUCCESS);
        pair_wc(p.side[0].recv_cq, 2, IWARP_WC_SUCCESS);
        pair_close(&p);
        take_log(&heard, text, sizeof text);
        assert_int_equal(count_in(text, "RFC 5044 7.1.2 rule 4"), i < 2);
        assert_non_null(strstr(text, why[i]));
    }
}

/* A peer that opens such connections one after the other does not fill the log with them. */
static void responder__with_early_work_on_many_connections__explains_it_once_a_second(void **state)
{
    struct heard heard;
    struct pair p;
    char text[20000];

    (void)state;
    listen_to_log(&heard);
    int64_t begin = iwarp_now_ms();
    for (unsigned i = 0; i < 20; i++) {
        if (i == 19) {
            let_a_second_pass();
        }
        int fd = open_with_socket(&p, 10000);
        pair_send(&p.side[1], 1, 0, 8);
        pair_close(&p);
        close(fd);
    }
    int64_t seconds = (iwarp_now_ms() - begin) / 1000 + 1;
    take_log(&heard, text, sizeof text);
    assert_in_range(count_in(text, "was of revision 1"), 1, seconds + 1);
    assert_in_range(count_in(text, "more in the last while"), 1, seconds + 1);
}

static void disconnect__from_a_peer_that_never_closes__ends_after_close_timeout(void **state)
{
    struct pair p;
    char octet;

    (void)state;
    int fd = open_with_socket(&p, 150);
    pair_recv(&p.side[1], 1, 0, 8);
    int64_t begin = iwarp_now_ms();
    must(iwarp_disconnect(p.side[1].conn));
    assert_int_equal(recv(fd, &octet, 1, 0), 0); /* FIN comes at once */
    struct iwarp_event event = pair_event(p.eq[1], IWARP_EVENT_DISCONNECTED);
    assert_true(iwarp_now_ms() - begin >= 145);
    assert_int_equal(event.status, IWARP_TRANSPORT);
    assert_int_equal(iwarp_fault_code(event.fault), IWARP_FAULT_TCP_CLOSE_TIMEOUT);
    struct iwarp_wc wc = pair_wc(p.side[1].recv_cq, 1, IWARP_WC_FLUSHED);
    assert_int_equal(iwarp_fault_code(wc.fault), IWARP_FAULT_TCP_CLOSE_TIMEOUT);
    pair_close(&p);
    close(fd);
}

/* Work that can never be sent (no FPDU ever came) does not hold up a disconnect for longer. */
static void disconnect__with_work_that_cannot_be_sent__is_bounded(void **state)
{
    struct pair p;

    (void)state;
    int fd = open_with_socket(&p, 150);
    pair_send(&p.side[1], 1, 0, 8);
    must(iwarp_disconnect(p.side[1].conn));
    assert_int_equal(iwarp_qp_state(p.side[1].qp), IWARP_QP_CLOSING);
    must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
    struct iwarp_wc wc = pair_wc(p.side[1].send_cq, 1, IWARP_WC_FLUSHED);
    assert_int_equal(iwarp_fault_code(wc.fault), IWARP_FAULT_TCP_CLOSE_TIMEOUT);
    pair_close(&p);
    close(fd);
}

static void send__beyond_max_buffer_bytes__ends_that_stream_with_limit(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    for (int tcp = 0; tcp < 2; tcp++) {
        pair_options_init(&o, tcp ? PAIR_TCP4 : PAIR_MEMORY);
        o.device.max_buffer_bytes = 1000;
        o.conn[0].peer_to_peer = false;
        pair_open(&p, &o);
        pair_send(&p.side[0], 1, 0, 8);
        must(iwarp_conn_wait_end(p.side[0].conn, PAIR_WAIT_MS));
        const struct iwarp_fault *fault = iwarp_conn_fault(p.side[0].conn);
        assert_int_equal(iwarp_fault_code(fault), IWARP_FAULT_LOCAL_BUFFER_LIMIT);
        assert_int_equal(iwarp_fault_status(fault), IWARP_LIMIT);
        struct iwarp_wc wc;
        assert_int_equal(iwarp_cq_wait(p.side[0].send_cq, &wc, 1, PAIR_WAIT_MS), 1);
        assert_int_not_equal(wc.status, IWARP_WC_SUCCESS);
        pair_close(&p);
    }
}

/* One worker, 512 MiB of Writes in its hands: small messages on another connection get through. */
static void small_messages__beside_a_bulk_transfer__are_not_starved(void **state)
{
    const size_t bulk = (size_t)4 << 20;
    struct pair_options o;
    struct pair_side s[2];
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    o.memory = bulk;
    pair_open(&p, &o);
    o.memory = 64;
    for (int i = 0; i < 2; i++) {
        pair_side_open(&s[i], p.device, &o);
    }
    must(iwarp_connect_pair(s[0].qp, s[1].qp, NULL, NULL, &s[0].conn, &s[1].conn));
    must(iwarp_conn_wait(s[0].conn, PAIR_WAIT_MS));
    for (uint64_t i = 0; i < 128; i++) {
        pair_write(&p.side[0], i, 0, bulk, &p.side[1], 0);
    }
    unsigned during = 0;
    struct iwarp_wc wc;
    for (uint64_t done = 0, i = 0; done < 128; i++) {
        pair_recv(&s[1], i, 0, 8);
        pair_send(&s[0], i, 8, 8);
        pair_wc(s[1].recv_cq, i, IWARP_WC_SUCCESS);
        pair_wc(s[0].send_cq, i, IWARP_WC_SUCCESS);
        while (iwarp_cq_poll(p.side[0].send_cq, &wc, 1) == 1) {
            assert_int_equal(wc.wr_id, done);
            assert_int_equal(wc.status, IWARP_WC_SUCCESS);
            done++;
        }
        during++;
    }
    if (during < 32) {
        fail_msg("%u small messages beside 512 MiB", during);
    }
    pair_side_close(&s[0]);
    pair_side_close(&s[1]);
    pair_close(&p);
}

/* --- turns ----------------------------------------------------------------------------------- */

#define TURNS 12
/* Octets that one connection may send while others wait; batches are larger over TCP. */
#define TURN_MAX(transport) ((transport) == PAIR_TCP4 ? 1600 << 10 : 400 << 10)

/* A transport that takes nothing or all it is given, and counts. */
static struct {
    const struct iwarp_transport *real;
    struct iwarp_transport ops;
    bool takes;
    size_t octets, octets_after[TURNS];
    bool wanted, wanted_after[TURNS];
    uint32_t mulpdu_after[TURNS];
} greedy;

static ssize_t greedy_writev(struct iwarp_endpoint *ep, const struct iovec *iov, int n)
{
    size_t total = 0;

    (void)ep;
    for (int i = 0; i < n && greedy.takes; i++) {
        total += iov[i].iov_len;
    }
    greedy.octets += total;
    return greedy.takes ? (ssize_t)total : -EAGAIN;
}

static void greedy_watch(struct iwarp_endpoint *ep, bool read, bool write)
{
    greedy.wanted = write;
    greedy.real->watch(ep, read, false);
}

static uint32_t greedy_emss(struct iwarp_endpoint *ep)
{
    (void)ep;
    return 9000;
}

static void block_on_worker(void *arg)
{
    struct iwarp_conn *conn = arg;

    iwarp_mutex_lock(&conn->lock);
    greedy.real = conn->ep->ops;
    greedy.ops = *greedy.real;
    greedy.ops.writev = greedy_writev;
    greedy.ops.watch = greedy_watch;
    greedy.ops.emss = greedy_emss;
    greedy.takes = false;
    conn->ep->ops = &greedy.ops;
    iwarp_conn_unlock(conn);
}

static void settle_on_worker(void *arg)
{
    struct iwarp_conn *conn = arg;

    iwarp_mutex_lock(&conn->lock);
    greedy.takes = true;
    greedy.octets = 0;
    conn->tx_blocked = false;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        greedy.wanted = false;
        iwarp_conn_turn(conn, 0);
        greedy.octets_after[turn] = greedy.octets;
        greedy.wanted_after[turn] = greedy.wanted;
        greedy.mulpdu_after[turn] = conn->stream.config.mulpdu;
    }
    conn->ep->ops =
        greedy.real; /* what was taken never comes there: an abort is all that is left */
    iwarp_stream_kill(&conn->stream, IWARP_FAULT_LOCAL_ABORT, IWARP_SIDE_LOCAL, 0);
    iwarp_conn_turn(conn, 0);
    iwarp_conn_unlock(conn);
}

/*
 * Some turns of a connection that has so many Writes of 1 MiB to send, over a transport that takes
 * everything. HEARD: since its last batch the peer has sent something.
 */
static void take_turns(enum pair_transport transport, unsigned writes, bool heard)
{
    struct pair_options o;
    struct pair p;

    pair_options_init(&o, transport);
    o.memory = 1 << 20;
    pair_open(&p, &o);
    struct iwarp_conn *conn = p.side[0].conn;
    iwarp_loop_call(&conn->worker->loop, block_on_worker, conn);
    if (heard) {
        iwarp_mutex_lock(&conn->lock);
        conn->stream.tx.heard = conn->stream.rx.pos + 1;
        iwarp_conn_unlock(conn);
    }
    for (uint64_t i = 0; i < writes; i++) {
        pair_write(&p.side[0], i, 0, 1 << 20, &p.side[1], 0);
    }
    iwarp_loop_call(&conn->worker->loop, settle_on_worker, conn);
    must(iwarp_conn_wait_end(conn, PAIR_WAIT_MS));
    must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
    pair_close(&p);
}

/* However much waits and the transport takes: others have their turn after each few batches. */
static void settle__with_much_to_send__sends_so_much_a_turn(void **state)
{
    (void)state;
    for (enum pair_transport t = PAIR_MEMORY; t <= PAIR_TCP4; t++) {
        size_t before = 0;
        take_turns(t, 24, false);
        for (unsigned turn = 0; turn < TURNS; turn++) {
            assert_in_range(greedy.octets_after[turn] - before, 1, TURN_MAX(t));
            assert_true(greedy.wanted_after[turn]);
            before = greedy.octets_after[turn];
        }
    }
}

/* A small batch and a large one. */
static void settle__with_an_awaited_message__sends_it_in_one_turn(void **state)
{
    (void)state;
    take_turns(PAIR_TCP4, 1, true);
    assert_true(greedy.octets_after[0] > 1 << 20);
    assert_false(greedy.wanted_after[0]);
}

/* A transport that is never full is asked as well: its segments may grow and shrink all the same.
 */
/* [DDP-3-01] */
static void settle__after_a_mebibyte__asks_for_the_emss_again(void **state)
{
    (void)state;
    for (enum pair_transport t = PAIR_MEMORY; t <= PAIR_TCP4; t++) {
        unsigned turn = 0;
        take_turns(t, 24, false);
        for (; turn < TURNS && greedy.octets_after[turn] < 1 << 20; turn++) {
            assert_int_not_equal(greedy.mulpdu_after[turn], iwarp_mpa_mulpdu(9000, 0));
        }
        assert_in_range(turn, t == PAIR_TCP4 ? 0 : 1, TURNS - 1);
        assert_int_equal(greedy.mulpdu_after[turn], iwarp_mpa_mulpdu(9000, 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(disconnect__from_a_peer_that_never_closes__ends_after_close_timeout),
        cmocka_unit_test(disconnect__with_work_that_cannot_be_sent__is_bounded),
        cmocka_unit_test(responder__with_early_work__explains_the_wait_once),
        cmocka_unit_test(responder__with_early_work_on_many_connections__explains_it_once_a_second),
        cmocka_unit_test(send__beyond_max_buffer_bytes__ends_that_stream_with_limit),
        cmocka_unit_test(settle__with_much_to_send__sends_so_much_a_turn),
        cmocka_unit_test(settle__with_an_awaited_message__sends_it_in_one_turn),
        cmocka_unit_test(settle__after_a_mebibyte__asks_for_the_emss_again),
        cmocka_unit_test(small_messages__beside_a_bulk_transfer__are_not_starved),
    };

    return cmocka_run_group_tests_name("conn_drive", tests, NULL, NULL);
}
