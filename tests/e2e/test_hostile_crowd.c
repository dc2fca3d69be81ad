/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many peers that have stopped reading at a time: together they hold less than the memory that the
 * device may use for what is unsent, so nobody's stream ends for want of it, and when they read on
 * everything arrives. Those that do not read on are ended in time, and so are those that read an
 * octet now and then to be left alone. RFC 5042 6.4.
 */
#include "progress.h"
#include "raw_peer.h"
#include "stream/stream.h"
#include "verbs/conn.h"
#include "verbs/device.h"
#include "verbs/eq.h"
#include "verbs/listen.h"
#include "verbs_pair.h"

#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

#define PEERS  40u
#define LIMIT  ((size_t)1 << 20) /* of 40 whole blocks 4 would fit */
#define OCTETS ((size_t)1 << 20)
#define WRITES 2u /* of OCTETS to each */
#define MULPDU 1442u
#define EMSS   536
#define SMALL  8192 /* receive buffer */
#define LEAST  1024 /* the window opens by a segment or two */
#define SEND   32768

static const char request[] = "4d504120494420526571204672616d65 40010000"; /* revision 1, CRC */
static const char reply[] = "4d504120494420526570204672616d65 40010000";
static const char first[] = "000ec140 00000001 0000000000000000 ebd34c5f"; /* an empty Write */

struct crowd {
    struct pair_options o;
    struct iwarp_device *device;
    struct iwarp_eq *eq;
    struct iwarp_listener *listener;
    struct pair_side side[PEERS];
    int fd[PEERS];
    unsigned peers;
    int send_buffer; /* of this end's sockets; 0: SEND */
};

/* A window of a few segments, so that the kernel takes little for each; likewise at this end. */
static int connect_small(const struct sockaddr_in *to, int buffer)
{
    const int emss = EMSS;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer), 0);
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &emss, sizeof emss), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)to, sizeof *to), 0);
    return fd;
}

static void open_crowd(struct crowd *c, unsigned peers, unsigned user_timeout_ms, int buffer)
{
    const int send = c->send_buffer ? c->send_buffer : SEND;
    struct sockaddr_storage at;
    socklen_t len;

    pair_options_init(&c->o, PAIR_TCP4);
    c->o.device.max_buffer_bytes = LIMIT;
    c->o.memory = OCTETS;
    c->o.conn[1].ulpdu_max = MULPDU;
    c->o.conn[1].user_timeout_ms = user_timeout_ms;
    c->peers = peers;
    must(progress_open(&c->o.device, &c->device));
    must(iwarp_eq_create(c->device, &c->eq));
    c->listener = pair_listen(c->device, PAIR_TCP4, &c->o.conn[1], c->eq);
    assert_int_equal(setsockopt(iwarp_tcp_acceptor_fd(c->listener->acceptor), SOL_SOCKET, SO_SNDBUF,
                                &send, sizeof send),
                     0);
    must(iwarp_listener_addr(c->listener, &at, &len));
    for (unsigned i = 0; i < peers; i++) {
        struct pair_side *s = &c->side[i];
        pair_side_open(s, c->device, &c->o);
        pair_fill(s->p, OCTETS, i);
        c->fd[i] = connect_small((const struct sockaddr_in *)(const void *)&at, buffer);
        raw_say(c->fd[i], NULL, request);
        s->conn = pair_event(c->eq, IWARP_EVENT_REQUEST).conn;
        must(iwarp_accept(s->conn, s->qp, NULL, NULL, 0, s));
        pair_event(c->eq, IWARP_EVENT_ESTABLISHED);
        raw_hear(c->fd[i], NULL, reply, "Reply");
        raw_say(c->fd[i], NULL, first);
    }
}

static void close_crowd(struct crowd *c)
{
    for (unsigned i = 0; i < c->peers; i++) {
        pair_side_close(&c->side[i]);
        raw_close(c->fd[i]);
    }
    must(iwarp_listener_close(c->listener));
    must(iwarp_eq_destroy(c->eq));
    must(progress_close(c->device));
    free(c);
}

static void post(struct pair_side *s)
{
    struct iwarp_sge sge = pair_sge(s, 0, OCTETS);
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_WRITE, 1, &sge);

    wr.remote_stag = 0x11223344;
    wr.remote_to = 0x1000;
    for (unsigned i = 0; i < WRITES; i++) {
        wr.wr_id = i;
        must(iwarp_post_send(s->qp, &wr, NULL));
    }
}

/* All FPDUs of the Write, their headers and their payload, with a pause before each of the first;
 * CRCs are other tests' matter. */
static void read_slowly(int fd, const uint8_t *expected, unsigned pauses, unsigned us)
{
    static uint8_t fpdu[2 + MULPDU + 2 + 4];
    size_t off = 0;

    while (off < OCTETS) {
        if (pauses > 0) {
            pauses--;
            progress_sleep(us);
        }
        size_t n = OCTETS - off < MULPDU - 14 ? OCTETS - off : MULPDU - 14;
        size_t whole = (2 + 14 + n + 3) / 4 * 4 + 4;
        struct octets head = {0};
        raw_read(fd, fpdu, whole, "an FPDU");
        octets_be(&head, 14 + n, 2);
        octets_be(&head, off + n == OCTETS ? 0xc140 : 0x8140, 2);
        octets_be(&head, 0x11223344, 4);
        octets_be(&head, 0x1000 + off, 8);
        octets_expect("header", fpdu, head.n, head.p, head.n);
        assert_memory_equal(fpdu + head.n, expected + off, n);
        octets_free(&head);
        off += n;
    }
}

static void read_all(int fd, const uint8_t *expected)
{
    read_slowly(fd, expected, 0, 0);
}

static void no_reading__of_many__leaves_room_for_all(void **state)
{
    struct crowd *c = calloc(1, sizeof *c);
    size_t used = 0;

    (void)state;
    assert_non_null(c);
    open_crowd(c, PEERS, 60000, SMALL);
    for (unsigned i = 0; i < PEERS; i++) {
        post(&c->side[i]);
    }
    for (unsigned i = 0; i < 20; i++) {
        size_t now = atomic_load(&c->device->budget.used);
        used = now > used ? now : used;
        progress_sleep(10000);
    }
    print_message("%u senders hold %zu octets\n", PEERS, used);
    assert_in_range(used, PEERS * 1000, LIMIT / 2); /* they do hold something */
    for (unsigned i = 0; i < PEERS; i++) {
        assert_int_equal(iwarp_qp_state(c->side[i].qp), IWARP_QP_RTS);
        struct iwarp_conn *conn = c->side[i].conn;
        iwarp_mutex_lock(&conn->lock);
        assert_true(iwarp_stream_busy(&conn->stream));
        iwarp_mutex_unlock(&conn->lock);
    }
    for (unsigned i = 0; i < PEERS; i++) {
        for (unsigned k = 0; k < WRITES; k++) {
            read_all(c->fd[i], c->side[i].p);
            pair_wc(c->side[i].send_cq, k, IWARP_WC_SUCCESS);
        }
    }
    assert_int_equal(atomic_load(&c->device->budget.used), 0);
    close_crowd(c);
}

/* It lives, and its kernel acknowledges each probe, but there is never room for an octet. */
static void no_reading__for_user_timeout__ends_the_stream(void **state)
{
    struct crowd *c = calloc(1, sizeof *c);

    (void)state;
    assert_non_null(c);
    open_crowd(c, 2, 1000, SMALL);
    struct pair_side *stuck = &c->side[0], *other = &c->side[1];
    post(stuck);
    struct iwarp_wc wc = pair_wc(stuck->send_cq, 0, IWARP_WC_FLUSHED);
    assert_int_equal(iwarp_fault_code(wc.fault), IWARP_FAULT_TCP_LOST);
    pair_wc(stuck->send_cq, 1, IWARP_WC_FLUSHED);
    assert_int_equal(iwarp_qp_state(other->qp), IWARP_QP_RTS); /* it costs nobody else */
    post(other);
    for (unsigned k = 0; k < WRITES; k++) {
        read_all(c->fd[1], other->p);
        pair_wc(other->send_cq, k, IWARP_WC_SUCCESS);
    }
    assert_int_equal(atomic_load(&c->device->budget.used), 0);
    close_crowd(c);
}

/* Its kernel has room for another segment well within user_timeout_ms, again and again. */
static void reading__a_little_now_and_then__ends_the_stream(void **state)
{
    struct crowd *c = calloc(1, sizeof *c);
    uint8_t little[EMSS];

    (void)state;
    assert_non_null(c);
    /*
     * 766 octets a second. The receiver's kernel frees whole segments and opens the window when
     * it is half empty: so it takes something in each stretch of 4 s, if not after each read.
     */
    open_crowd(c, 2, 4000, LEAST);
    struct pair_side *stuck = &c->side[0], *other = &c->side[1];
    /* Without it Linux may end the stream first (iwarp_tcp_patience says when). */
    stuck->conn->tcp->patience(stuck->conn->ep, 0, 0);
    /* First it takes all. For what comes right behind the time is counted anew. */
    post(stuck);
    for (unsigned k = 0; k < WRITES; k++) {
        read_all(c->fd[0], stuck->p);
        pair_wc(stuck->send_cq, k, IWARP_WC_SUCCESS);
    }
    post(stuck);
    for (unsigned i = 0; i < 20 && iwarp_qp_state(stuck->qp) == IWARP_QP_RTS; i++) {
        raw_read(c->fd[0], little, sizeof little, "a little");
        progress_sleep(700000);
    }
    struct iwarp_wc wc = pair_wc(stuck->send_cq, 0, IWARP_WC_FLUSHED);
    assert_int_equal(iwarp_fault_code(wc.fault), IWARP_FAULT_TCP_SLOW);
    pair_wc(stuck->send_cq, 1, IWARP_WC_FLUSHED);
    assert_int_equal(iwarp_qp_state(other->qp), IWARP_QP_RTS);
    assert_int_equal(atomic_load(&c->device->budget.used), 0);
    close_crowd(c);
}

/* 20 octets a millisecond, over four times user_timeout_ms. */
static void reading__slowly_without_rest__is_served(void **state)
{
    struct crowd *c = calloc(1, sizeof *c);

    (void)state;
    assert_non_null(c);
    open_crowd(c, 1, 1000, LEAST);
    post(&c->side[0]);
    for (unsigned k = 0; k < WRITES; k++) {
        read_slowly(c->fd[0], c->side[0].p, k == 0 ? 30 : 0, 70000);
        pair_wc(c->side[0].send_cq, k, IWARP_WC_SUCCESS);
    }
    close_crowd(c);
}

/* What is there now; returns how many octets. */
static size_t read_what_is_there(int fd)
{
    static uint8_t octets[65536];
    size_t sum = 0;
    ssize_t n;

    while ((n = recv(fd, octets, sizeof octets, MSG_DONTWAIT)) > 0) {
        sum += (size_t)n;
    }
    return sum;
}

/*
 * The worker waits for a lock, as it would in a debugger, for longer than a stretch; the peer takes
 * all that had left by then, which is less than an octet a millisecond.
 */
static void standing_still__of_this_end__is_not_the_peers_fault(void **state)
{
    const unsigned stretch_ms = 10000;
    struct crowd *c = calloc(1, sizeof *c);
    size_t taken = 0;

    (void)state;
    assert_non_null(c);
    c->send_buffer = 1; /* the system's least */
    open_crowd(c, 1, stretch_ms, LEAST);
    struct pair_side *s = &c->side[0];
    post(s);
    progress_sleep(100000);
    iwarp_mutex_lock(&s->conn->lock);
    assert_true(s->conn->pace_quarters > 0);
    for (unsigned i = 0; i < 110; i++) {
        taken += read_what_is_there(c->fd[0]);
        nanosleep(&(struct timespec){0, stretch_ms * 10000}, NULL);
    }
    iwarp_mutex_unlock(&s->conn->lock);
    assert_in_range(taken, 1, stretch_ms - 1); /* else this would show nothing */
    for (unsigned i = 0; i < 20; i++) {
        progress_sleep(10000);
        read_what_is_there(c->fd[0]);
    }
    assert_int_equal(iwarp_qp_state(s->qp), IWARP_QP_RTS);
    close_crowd(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_reading__of_many__leaves_room_for_all),
        cmocka_unit_test(no_reading__for_user_timeout__ends_the_stream),
        cmocka_unit_test(reading__a_little_now_and_then__ends_the_stream),
        cmocka_unit_test(reading__slowly_without_rest__is_served),
        cmocka_unit_test(standing_still__of_this_end__is_not_the_peers_fault),
    };

    return cmocka_run_group_tests_name("hostile_crowd", tests, NULL, NULL);
}
