/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs looked at and changed: every transition from every state, with what the peer sees of
 * it octet by octet; depths; starting anew; the Terminate that ended a stream.
 * draft-hilland-rddp-verbs-00 6.2, RFC 5040 4.8.
 */
#include "tcp_host.h"
#include "verbs/conn.h"
#include "verbs/mr.h"
#include "verbs/post.h"
#include "verbs/qp.h"
#include "verbs_pair.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define BIG (8u << 20) /* more than sockets hold of a few Writes of it */

static enum iwarp_status modify(struct iwarp_qp *qp, enum iwarp_qp_state to)
{
    const struct iwarp_qp_changes changes = {
        .size = sizeof changes, .mask = IWARP_QP_CHANGE_STATE, .state = to};

    return iwarp_qp_modify(qp, &changes);
}

static enum iwarp_status set_depth(struct iwarp_qp *qp, unsigned mask, unsigned ird, unsigned ord)
{
    const struct iwarp_qp_changes changes = {
        .size = sizeof changes, .mask = mask, .ird = ird, .ord = ord};

    return iwarp_qp_modify(qp, &changes);
}

static struct iwarp_qp_info query(struct iwarp_qp *qp)
{
    struct iwarp_qp_info info = {.size = sizeof info};

    must(iwarp_qp_query(qp, &info));
    return info;
}

static void wait_state(struct iwarp_qp *qp, enum iwarp_qp_state state)
{
    for (int i = 0; i < PAIR_WAIT_MS && iwarp_qp_state(qp) != state; i++) {
        usleep(1000);
    }
    assert_int_equal(iwarp_qp_state(qp), state);
}

/* --- the table ------------------------------------------------------------------------------- */

static struct tcp_host *host;
static uint8_t *big;
static struct iwarp_mr *big_mr;

static int setup(void **state)
{
    (void)state;
    host = host_open(NULL, NULL);
    big = calloc(1, BIG);
    assert_non_null(big);
    must(iwarp_mr_register(host->pd, big, BIG, 0, &big_mr));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    must(iwarp_mr_deregister(big_mr));
    free(big);
    host_close(host);
    return 0;
}

/* So much is unsent to a peer which does not read that the Terminate has to wait. */
static void fill_socket(void)
{
    struct iwarp_sge sge = {big, BIG, iwarp_mr_stag(big_mr)};
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_WRITE, 1, &sge);
    wr.remote_stag = 0x11223344;

    for (int i = 0; i < 6; i++) {
        must(iwarp_post_send(host->qp, &wr, NULL));
    }
    /* The worker waits at two thirds of the socket's room: the poster fills the rest. */
    wr.num_sge = 0;
    for (int i = 0, blocked = 0; blocked < 5; i++) {
        iwarp_mutex_lock(&host->conn->lock);
        blocked = host->conn->tx_blocked ? blocked + 1 : 0;
        iwarp_conn_unlock(host->conn);
        if (!blocked) {
            assert_true(i < 100);
            must(iwarp_post_send(host->qp, &wr, NULL));
        }
        usleep(20000);
    }
}

static void bring_to(enum iwarp_qp_state state)
{
    if (state == IWARP_QP_IDLE) {
        host->fd = -1;
        host_qp(host, 2);
        return;
    }
    host_connect(host, HOST_INITIATOR, 2, 2);
    switch (state) {
    case IWARP_QP_CLOSING: /* the peer's FIN does not come */
        must(iwarp_disconnect(host->conn));
        break;
    case IWARP_QP_TERMINATE:
        fill_socket();
        must(modify(host->qp, IWARP_QP_TERMINATE));
        break;
    case IWARP_QP_ERROR:
        must(iwarp_abort(host->conn));
        break;
    case IWARP_QP_IDLE:
    case IWARP_QP_RTS:
        break;
    }
    assert_int_equal(iwarp_qp_state(host->qp), state);
}

static void let_go(void)
{
    struct iwarp_event event;

    if (host->conn) {
        must(iwarp_conn_destroy(host->conn));
    }
    must(iwarp_qp_destroy(host->qp));
    if (host->fd >= 0) {
        raw_close(host->fd);
    }
    host->conn = NULL;
    host->qp = NULL;
    host->fd = -1;
    while (iwarp_eq_get(host->eq, &event, 0) == IWARP_OK) {
    }
    struct iwarp_wc wc;
    while (iwarp_cq_poll(host->cq, &wc, 1) == 1) {
    }
}

/* [VERBS-6.2-01] */
static void modify__from_every_state_to_every_state__follows_the_table(void **state)
{
    static const bool allowed[5][5] = {
        [IWARP_QP_IDLE] = {[IWARP_QP_IDLE] = true, [IWARP_QP_ERROR] = true},
        [IWARP_QP_RTS] = {[IWARP_QP_RTS] = true,
                          [IWARP_QP_CLOSING] = true,
                          [IWARP_QP_TERMINATE] = true,
                          [IWARP_QP_ERROR] = true},
        [IWARP_QP_ERROR] = {[IWARP_QP_IDLE] = true},
    };
    (void)state;

    for (int from = IWARP_QP_IDLE; from <= IWARP_QP_ERROR; from++) {
        for (int to = IWARP_QP_IDLE; to <= IWARP_QP_ERROR; to++) {
            bring_to((enum iwarp_qp_state)from);
            if (!allowed[from][to]) {
                must_fail(modify(host->qp, (enum iwarp_qp_state)to), IWARP_MISUSE, "queue pair");
                assert_int_equal(iwarp_qp_state(host->qp), from);
            } else {
                must(modify(host->qp, (enum iwarp_qp_state)to));
                wait_state(host->qp,
                           to == IWARP_QP_TERMINATE ? IWARP_QP_ERROR : (enum iwarp_qp_state)to);
            }
            let_go();
        }
    }
}

static void modify__in_rts__shows_the_peer_what_it_should(void **state)
{
    (void)state;
    host_connect(host, HOST_INITIATOR, 2, 2);
    must(modify(host->qp, IWARP_QP_TERMINATE)); /* 0/0/00, no headers */
    raw_hear(host->fd, NULL, "00164147 00000000 00000002 00000001 00000000 00000000 f9a26f1d",
             "the Terminate");
    raw_expect_fin(host->fd, "after the Terminate");
    host_ended(host, IWARP_FAULT_LOCAL_TERMINATE, 2);
    struct iwarp_qp_info info = query(host->qp);
    assert_int_equal(info.terminate_len, 4);
    assert_false(info.terminate_received);
    assert_memory_equal(info.terminate, "\0\0\0\0", 4);
    let_go();

    host_connect(host, HOST_INITIATOR, 2, 2);
    must(modify(host->qp, IWARP_QP_CLOSING));
    raw_expect_fin(host->fd, "closing");
    assert_int_equal(iwarp_qp_state(host->qp), IWARP_QP_CLOSING);
    raw_fin(host->fd);
    wait_state(host->qp, IWARP_QP_ERROR);
    host_ended(host, IWARP_FAULT_NONE, 2);
    info = query(host->qp);
    assert_int_equal(info.fault, IWARP_FAULT_NONE);
    assert_int_equal(info.terminate_len, 0);
    let_go();

    host_connect(host, HOST_INITIATOR, 2, 2);
    must(modify(host->qp, IWARP_QP_ERROR)); /* no Terminate */
    assert_int_equal(raw_end(host->fd, "aborted"), RAW_RESET);
    host_ended(host, IWARP_FAULT_LOCAL_ABORT, 2);
    let_go();
}

/* Reads above a lowered ORD wait, as above the one that was settled. */
static void ord__lowered_in_rts__holds_reads_back(void **state)
{
    (void)state;
    host_connect(host, HOST_INITIATOR, 2, 2);
    unsigned ord = query(host->qp).ord;
    assert_true(ord > 1);
    must_fail(set_depth(host->qp, IWARP_QP_CHANGE_ORD, 0, ord + 1), IWARP_MISUSE, "1 to");
    must_fail(set_depth(host->qp, IWARP_QP_CHANGE_ORD, 0, 0), IWARP_MISUSE, "1 to");
    must_fail(set_depth(host->qp, IWARP_QP_CHANGE_IRD, 1, 0), IWARP_MISUSE, "IRD stays");
    assert_int_equal(query(host->qp).ord, ord);
    must(set_depth(host->qp, IWARP_QP_CHANGE_ORD, 0, 1));
    assert_int_equal(query(host->qp).ord, 1);
    host_post_read(host);
    host_post_read(host);
    uint8_t request[52]; /* 2 + 18 + 28 + 4 */
    raw_read(host->fd, request, sizeof request, "the first Read Request");
    raw_expect_silence(host->fd, 60, "the second one");
    struct iwarp_qp_info info = query(host->qp);
    assert_int_equal(info.reads_sent, 1);
    assert_int_equal(info.send_in_use, 2);
    let_go();
}

static enum iwarp_status set_access(struct iwarp_qp *qp, unsigned access)
{
    const struct iwarp_qp_changes changes = {
        .size = sizeof changes, .mask = IWARP_QP_CHANGE_ACCESS, .access = access};

    return iwarp_qp_modify(qp, &changes);
}

/* --- in pairs -------------------------------------------------------------------------------- */

/* What a queue pair allows: set in IDLE it counts for the connection, in RTS from then on. */
static void access__changed__holds_for_what_comes(void **state)
{
    const unsigned rd = IWARP_ACCESS_REMOTE_READ, wr = IWARP_ACCESS_REMOTE_WRITE;
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    assert_int_equal(o.qp.access, rd | wr | IWARP_ACCESS_REMOTE_ATOMIC | IWARP_ACCESS_MW_BIND);
    pair_prepare(&p, &o);
    must_fail(set_access(p.side[1].qp, IWARP_ACCESS_LOCAL_WRITE), IWARP_MISUSE, "0x1");
    must(set_access(p.side[1].qp, rd));
    assert_int_equal(query(p.side[1].qp).access, rd);
    assert_int_equal(query(p.side[1].qp).options.access,
                     rd | wr | IWARP_ACCESS_REMOTE_ATOMIC | IWARP_ACCESS_MW_BIND);
    pair_connect(&p);
    pair_read(&p.side[0], 1, 0, 64, &p.side[1], 0);
    pair_wc(p.side[0].send_cq, 1, IWARP_WC_SUCCESS);
    must(set_access(p.side[1].qp, wr));
    pair_write(&p.side[0], 2, 0, 64, &p.side[1], 0);
    pair_wc(p.side[0].send_cq, 2, IWARP_WC_SUCCESS);
    pair_read(&p.side[0], 3, 0, 64, &p.side[1], 0);
    pair_wc(p.side[0].send_cq, 3, IWARP_WC_REMOTE_ACCESS);
    must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
    assert_int_equal(iwarp_fault_code(iwarp_conn_fault(p.side[1].conn)),
                     IWARP_FAULT_RDMAP_QP_ACCESS);
    must_fail(set_access(p.side[1].qp, rd), IWARP_MISUSE, "ERROR");
    pair_close(&p);
}

static void depths__bounded_in_idle__bound_the_connection(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    for (int t = 0; t < PAIR_TRANSPORTS; t++) {
        pair_options_init(&o, (enum pair_transport)t);
        pair_prepare(&p, &o);
        must_fail(set_depth(p.side[0].qp, IWARP_QP_CHANGE_IRD, 16383, 0), IWARP_MISUSE, "at most");
        must(set_depth(p.side[0].qp, IWARP_QP_CHANGE_IRD | IWARP_QP_CHANGE_ORD, 5, 9));
        must(set_depth(p.side[1].qp, IWARP_QP_CHANGE_IRD, 4, 0));
        struct iwarp_qp_info a = query(p.side[0].qp);
        assert_int_equal(a.max_ird, 5);
        assert_int_equal(a.max_ord, 9);
        assert_int_equal(a.ird, 0);
        pair_connect(&p);
        a = query(p.side[0].qp);
        struct iwarp_qp_info b = query(p.side[1].qp);
        assert_int_equal(a.ird, 5);
        assert_int_equal(a.ord, 4); /* what the other can answer */
        assert_int_equal(b.ird, 4);
        assert_int_equal(b.ord, 5); /* likewise */
        pair_close(&p);
    }
}

static void query__tells_options_and_what_is_in_use(void **state)
{
    struct iwarp_qp_info bad = {.size = 3};
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    o.qp.max_send_wr = 17;
    pair_prepare(&p, &o);
    must_fail(iwarp_qp_query(p.side[0].qp, &bad), IWARP_MISUSE, "set size");
    pair_recv(&p.side[1], 1, 0, 8);
    pair_recv(&p.side[1], 2, 0, 8);
    struct iwarp_qp_info info = query(p.side[1].qp);
    assert_int_equal(info.state, IWARP_QP_IDLE);
    assert_int_equal(info.num, iwarp_qp_num(p.side[1].qp));
    assert_int_equal(info.options.max_send_wr, 17);
    assert_ptr_equal(info.options.send_cq, p.side[1].send_cq);
    assert_int_equal(info.recv_in_use, 2);
    assert_int_equal(info.send_in_use, 0);
    pair_connect(&p);
    pair_send(&p.side[0], 1, 0, 8);
    pair_wc(p.side[1].recv_cq, 1, IWARP_WC_SUCCESS);
    info = query(p.side[1].qp);
    assert_int_equal(info.state, IWARP_QP_RTS);
    assert_int_equal(info.recv_in_use, 1);
    assert_int_equal(info.reads_sent + info.reads_received, 0);
    pair_close(&p);
}

/* [VERBS-8.3.2-02] The sender of the Terminate and its receiver have the same octets. */
static void terminate__sent_and_received__can_be_queried(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    for (int t = 0; t < PAIR_TRANSPORTS; t++) {
        pair_options_init(&o, (enum pair_transport)t);
        pair_open(&p, &o);
        assert_int_equal(query(p.side[0].qp).terminate_len, 0);
        pair_write(&p.side[0], 1, 0, 8, &p.side[1], o.memory - 4);
        must(iwarp_conn_wait_end(p.side[0].conn, PAIR_WAIT_MS));
        must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
        struct iwarp_qp_info a = query(p.side[0].qp), b = query(p.side[1].qp);
        assert_true(a.terminate_received);
        assert_false(b.terminate_received);
        /* 1/1/01, M and D, 14 + 8 octets, the header of the Write. */
        assert_int_equal(a.terminate_len, 4 + 2 + 14);
        assert_memory_equal(a.terminate, "\x11\x01\xc0\x00\x00\x16\xc1\x40", 8);
        assert_int_equal(b.terminate_len, a.terminate_len);
        assert_memory_equal(b.terminate, a.terminate, a.terminate_len);
        assert_int_equal(a.fault, IWARP_FAULT_PEER_TERMINATE);
        assert_int_equal(b.fault, IWARP_FAULT_DDP_BOUNDS);
        pair_close(&p);
    }
}

/* [VERBS-6.2.4-01] */
static void error__without_a_connection__flushes_what_is_posted(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_prepare(&p, &o);
    const struct iwarp_send_wr silent = {.wr_id = 11};
    pair_recv(&p.side[0], 1, 0, 8);
    must(iwarp_post_send(p.side[0].qp, &silent, NULL));
    pair_write(&p.side[0], 12, 0, 8, &p.side[1], 0);
    must(modify(p.side[0].qp, IWARP_QP_ERROR));
    struct iwarp_wc wc = pair_wc(p.side[0].recv_cq, 1, IWARP_WC_FLUSHED);
    assert_int_equal(wc.qp_num, iwarp_qp_num(p.side[0].qp));
    wc = pair_wc(p.side[0].send_cq, 11, IWARP_WC_FLUSHED);
    assert_int_equal(wc.opcode, IWARP_WC_SEND);
    assert_ptr_equal(wc.qp, p.side[0].qp);
    assert_int_equal(wc.qp_num, iwarp_qp_num(p.side[0].qp));
    wc = pair_wc(p.side[0].send_cq, 12, IWARP_WC_FLUSHED);
    assert_int_equal(wc.opcode, IWARP_WC_WRITE);
    for (uint64_t id = 0; id < 300; id++) { /* more than the queue holds */
        pair_send(&p.side[0], id, 0, 8);
        pair_wc(p.side[0].send_cq, id, IWARP_WC_FLUSHED);
    }
    pair_recv(&p.side[0], 2, 0, 8);
    pair_recv(&p.side[0], 3, 0, 8);
    pair_wc(p.side[0].recv_cq, 2, IWARP_WC_FLUSHED);
    must_fail(iwarp_connect_pair(p.side[0].qp, p.side[1].qp, NULL, NULL, &p.side[0].conn,
                                 &p.side[1].conn),
              IWARP_MISUSE, "ERROR");
    p.side[0].conn = p.side[1].conn = NULL;
    pair_send(&p.side[0], 15, 0, 8);
    must(modify(p.side[0].qp, IWARP_QP_IDLE));
    pair_no_wc(p.side[0].recv_cq); /* what was not polled is discarded */
    pair_no_wc(p.side[0].send_cq);
    pair_send(&p.side[0], 13, 0, 8);
    pair_recv(&p.side[1], 14, 0, 8);
    pair_connect(&p);
    pair_wc(p.side[0].send_cq, 13, IWARP_WC_SUCCESS);
    pair_wc(p.side[1].recv_cq, 14, IWARP_WC_SUCCESS);
    pair_close(&p);
}

/* As if another thread were within iwarp_post_recv: the receive is there, and not flushed yet. */
/* [VERBS-6.2.4-02] */
static void idle__with_a_receive_just_posted__flushes_it_first(void **state)
{
    const struct iwarp_recv_wr wr = {.wr_id = 7};
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    pair_open(&p, &o);
    struct pair_side *s = &p.side[0];
    must(iwarp_abort(s->conn));
    must(iwarp_conn_wait_end(s->conn, PAIR_WAIT_MS));
    struct pollfd told = {.fd = iwarp_cq_fd(s->recv_cq), .events = POLLIN};
    must(iwarp_cq_arm(s->recv_cq, false));
    assert_int_equal(poll(&told, 1, 0), 0);
    iwarp_recv_fill(iwarp_rq_at(&s->qp->rq, iwarp_wq_head(&s->qp->rq)), &wr);
    iwarp_wq_push(&s->qp->rq);
    must(modify(s->qp, IWARP_QP_IDLE));
    assert_int_equal(poll(&told, 1, 0), 1); /* that of before, as nothing else came */
    assert_int_equal(query(s->qp).recv_in_use, 0);
    pair_no_wc(s->recv_cq); /* with the state, as all that was not polled */
    pair_close(&p);
}

/* As often as one likes; MSNs begin with 1 each time. */
/* [VERBS-6.2.1.2-01] */
static void idle__after_error__connects_again(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    for (int t = 0; t < PAIR_TRANSPORTS; t++) {
        for (int srq = 0; srq < 2; srq++) {
            pair_options_init(&o, (enum pair_transport)t);
            o.srq = srq ? 8 : 0;
            pair_prepare(&p, &o);
            for (uint64_t turn = 0; turn < 5; turn++) {
                if (srq) {
                    pair_srq_recv(&p.side[1], turn, 0, 64);
                } else {
                    pair_recv(&p.side[1], turn, 0, 64);
                    pair_recv(&p.side[1], turn, 0, 64); /* is flushed, and not polled */
                }
                pair_connect(&p);
                assert_int_equal(p.side[0].conn->stream.tx.send_msn, 1);
                assert_int_equal(p.side[1].conn->stream.ddp.msn[0], 1);
                pair_send(&p.side[0], turn, 0, 8);
                pair_wc(p.side[0].send_cq, turn, IWARP_WC_SUCCESS);
                pair_wc(p.side[1].recv_cq, turn, IWARP_WC_SUCCESS);
                if (turn % 2) {
                    must(iwarp_abort(p.side[0].conn));
                } else {
                    must(iwarp_disconnect(p.side[0].conn));
                }
                for (int i = 0; i < 2; i++) {
                    must(iwarp_conn_wait_end(p.side[i].conn, PAIR_WAIT_MS));
                    must(modify(p.side[i].qp, IWARP_QP_IDLE));
                    assert_null(iwarp_qp_fault(p.side[i].qp));
                    assert_null(iwarp_conn_qp(p.side[i].conn));
                    must(iwarp_conn_destroy(p.side[i].conn));
                    p.side[i].conn = NULL;
                    struct iwarp_qp_info info = query(p.side[i].qp);
                    assert_int_equal(info.state, IWARP_QP_IDLE);
                    assert_int_equal(info.recv_in_use + info.send_in_use, 0);
                    pair_no_wc(p.side[i].recv_cq);
                }
            }
            pair_close(&p);
        }
    }
}

struct starter {
    struct iwarp_qp *qp;
    _Atomic unsigned wanted, done;
    _Atomic bool stop;
};

/* Takes the queue pair from ERROR to IDLE, once for each time that it is wanted. */
static void *start_anew(void *arg)
{
    struct starter *s = arg;

    for (unsigned n = 0; !atomic_load(&s->stop);) {
        if (atomic_load(&s->wanted) != n) {
            n++;
            must(modify(s->qp, IWARP_QP_IDLE));
            atomic_store(&s->done, n);
        }
    }
    return NULL;
}

#define FILLED 8000u

/* A queue pair in ERROR. Both of its queues are new: the one for sends holds that many completions
 * of another queue pair, so that it takes a while to look through. */
static struct iwarp_qp *slow_qp(struct pair *p, struct iwarp_cq *cq[2], struct iwarp_qp **other)
{
    const struct iwarp_send_wr wr = {.opcode = IWARP_WR_SEND};
    struct iwarp_qp_options o;
    struct iwarp_qp *qp;

    iwarp_qp_options_init(&o);
    must(iwarp_cq_create(p->device, FILLED, NULL, &cq[0]));
    must(iwarp_cq_create(p->device, 8, NULL, &cq[1]));
    o.send_cq = cq[0];
    o.recv_cq = cq[1];
    must(iwarp_qp_create(p->side[0].pd, &o, other));
    must(iwarp_qp_create(p->side[0].pd, &o, &qp));
    must(modify(*other, IWARP_QP_ERROR));
    must(modify(qp, IWARP_QP_ERROR));
    for (unsigned i = 0; i < FILLED; i++) {
        must(iwarp_post_send(*other, &wr, NULL)); /* it is flushed at once */
    }
    return qp;
}

/* What a thread posts once it finds the queue pair in IDLE keeps its completion, although the call
 * that has taken it there still returns in another thread. */
static void idle__while_another_thread_posts__drops_old_completions_alone(void **state)
{
    const struct iwarp_recv_wr wr = {.wr_id = 5};
    struct iwarp_cq *cq[2];
    struct iwarp_qp *other;
    struct starter s = {.wanted = 0};
    struct pair_options o;
    struct pair p;
    pthread_t thread;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    pair_prepare(&p, &o);
    s.qp = slow_qp(&p, cq, &other);
    assert_int_equal(pthread_create(&thread, NULL, start_anew, &s), 0);
    for (unsigned i = 0; i < 50; i++) {
        struct iwarp_wc wc[2];
        atomic_fetch_add(&s.wanted, 1);
        while (iwarp_qp_state(s.qp) != IWARP_QP_IDLE) {
        }
        must(iwarp_post_recv(s.qp, &wr, NULL));
        must(modify(s.qp, IWARP_QP_ERROR));
        while (atomic_load(&s.done) != atomic_load(&s.wanted)) {
        }
        assert_int_equal(iwarp_cq_poll(cq[1], wc, 2), 1);
        assert_int_equal(wc[0].status, IWARP_WC_FLUSHED);
    }
    atomic_store(&s.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    must(iwarp_qp_destroy(s.qp));
    must(iwarp_qp_destroy(other));
    must(iwarp_cq_destroy(cq[0]));
    must(iwarp_cq_destroy(cq[1]));
    pair_close(&p);
}

static void terminate__asked_for__is_an_event_at_the_peer_only(void **state)
{
    struct iwarp_async_event event;
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    pair_open(&p, &o);
    must(modify(p.side[0].qp, IWARP_QP_TERMINATE));
    must(iwarp_conn_wait_end(p.side[0].conn, PAIR_WAIT_MS));
    must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
    event = pair_async(&p, IWARP_ASYNC_QP_TERMINATED);
    assert_ptr_equal(event.qp, p.side[1].qp);
    iwarp_async_ack(&event);
    must_fail(iwarp_async_get(p.device, &event, 0), IWARP_AGAIN, "no asynchronous event");
    pair_close(&p);
}

static void modify__of_what_there_is_not__is_misuse(void **state)
{
    struct iwarp_qp_changes c = {.size = 1};
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_prepare(&p, &o);
    must_fail(iwarp_qp_modify(p.side[0].qp, &c), IWARP_MISUSE, "set size");
    c.size = sizeof c;
    c.mask = 16;
    must_fail(iwarp_qp_modify(p.side[0].qp, &c), IWARP_MISUSE, "mask 0x10");
    c.mask = IWARP_QP_CHANGE_STATE;
    c.state = (enum iwarp_qp_state)5;
    must_fail(iwarp_qp_modify(p.side[0].qp, &c), IWARP_MISUSE, "state 5");
    must_fail(modify(p.side[0].qp, IWARP_QP_RTS), IWARP_MISUSE, "iwarp_connect");
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(modify__from_every_state_to_every_state__follows_the_table,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(modify__in_rts__shows_the_peer_what_it_should, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(ord__lowered_in_rts__holds_reads_back, setup, teardown),
        cmocka_unit_test(access__changed__holds_for_what_comes),
        cmocka_unit_test(depths__bounded_in_idle__bound_the_connection),
        cmocka_unit_test(query__tells_options_and_what_is_in_use),
        cmocka_unit_test(terminate__sent_and_received__can_be_queried),
        cmocka_unit_test(error__without_a_connection__flushes_what_is_posted),
        cmocka_unit_test(idle__with_a_receive_just_posted__flushes_it_first),
        cmocka_unit_test(idle__after_error__connects_again),
        cmocka_unit_test(idle__while_another_thread_posts__drops_old_completions_alone),
        cmocka_unit_test(terminate__asked_for__is_an_event_at_the_peer_only),
        cmocka_unit_test(modify__of_what_there_is_not__is_misuse),
    };

    return cmocka_run_group_tests_name("qp_modify", tests, NULL, NULL);
}
