/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs connected by number (docs/by-number.md): how peers are named, who comes first, work
 * that is posted early, a queue pair and itself, RESET, ERR, a peer that goes or never comes, many
 * at once, and forks.
 */
#include "numbered.h"

#include "../support/child.h"

#include <pthread.h>
#include <stdio.h>

static const struct loop_options unconnected = {.unconnected = true};
static const struct loop_options shared = {.unconnected = true, .srq = true};

/* --- naming ---------------------------------------------------------------------------------- */

static void connect__however_the_peer_is_named__carries_data(void **state)
{
    struct naming ways[] = {usual, usual, usual, usual, usual, usual};
    struct ibv_port_attr port;
    struct loop l;

    (void)state;
    ways[1].gid_index = 1;
    ways[2].gid_index = 3;
    ways[3].by_lid = true; /* 0: a program that does not look at the link */
    ways[4].by_lid = true;
    ways[5].rq_psn = ways[5].sq_psn = 0xffffff;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        loop_open(&l, i % 2 ? &shared : &unconnected);
        assert_int_equal(ibv_query_port(l.context, 1, &port), 0);
        ways[4].lid = port.lid;
        name_each_other(&l, &ways[i]);
        exchange(&l, 0);
        exchange(&l, 1);
        loop_close(&l);
    }
}

/* Each GID of the device leads to this machine: IPv6, link-local ones, and all copies. */
static void connect__by_each_gid_of_the_table(void **state)
{
    struct ibv_port_attr port;
    struct naming by = usual;
    struct loop l;

    (void)state;
    loop_open(&l, &unconnected);
    assert_int_equal(ibv_query_port(l.context, 1, &port), 0);
    for (by.gid_index = 0; by.gid_index < port.gid_tbl_len; by.gid_index++) {
        name_each_other(&l, &by);
        exchange(&l, by.gid_index % 2);
        for (int i = 0; i < 2; i++) {
            to_state(l.qp[i], IBV_QPS_RESET);
        }
    }
    loop_close(&l);
}

static void query__gives_what_was_set(void **state)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr a;
    struct loop l;

    (void)state;
    loop_open(&l, &unconnected);
    name_each_other(&l, &usual);
    exchange(&l, 0);
    memset(&a, 0xee, sizeof a);
    assert_int_equal(ibv_query_qp(l.qp[0], &a, 0, &init), 0);
    assert_int_equal(a.qp_state, IBV_QPS_RTS);
    assert_int_equal(a.dest_qp_num, l.qp[1]->qp_num);
    assert_int_equal(a.rq_psn, 17);
    assert_int_equal(a.sq_psn, 17);
    assert_int_equal(a.timeout, 14);
    assert_int_equal(a.retry_cnt, 7);
    assert_int_equal(a.rnr_retry, 7);
    assert_int_equal(a.min_rnr_timer, 12);
    assert_int_equal(a.max_rd_atomic, 3);
    assert_int_equal(a.max_dest_rd_atomic, 4);
    assert_int_equal(a.path_mtu, IBV_MTU_1024);
    assert_int_equal(a.ah_attr.is_global, 1);
    assert_int_equal(a.port_num, 1);
    assert_int_equal(a.qp_access_flags,
                     IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    to_state(l.qp[0], IBV_QPS_RESET);
    assert_int_equal(ibv_query_qp(l.qp[0], &a, 0, &init), 0);
    assert_int_equal(a.dest_qp_num, 0);
    loop_close(&l);
}

static void rtr__with_half_a_name__is_refused(void **state)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR, .ah_attr = {.port_num = 1}};
    struct ibv_qp_attr b = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    struct loop l;

    (void)state;
    loop_open(&l, &unconnected);
    to_init(l.qp[0]);
    assert_int_equal(ibv_modify_qp(l.qp[0], &a, IBV_QP_STATE | IBV_QP_AV), EINVAL);
    assert_int_equal(ibv_modify_qp(l.qp[0], &a, IBV_QP_STATE | IBV_QP_DEST_QPN), EINVAL);
    assert_int_equal(l.qp[0]->state, IBV_QPS_INIT);
    to_rtr(l.qp[0], l.qp[1]->qp_num, &usual);
    assert_int_equal(try_rtr(l.qp[0], l.qp[1]->qp_num, &usual), EINVAL); /* twice */
    assert_int_equal(ibv_modify_qp(l.qp[0], &b, IBV_QP_STATE | IBV_QP_PORT), EINVAL);
    a.qp_state = IBV_QPS_SQD;
    assert_int_equal(ibv_modify_qp(l.qp[0], &a, IBV_QP_STATE), EOPNOTSUPP);
    a.qp_state = IBV_QPS_SQE;
    assert_int_equal(ibv_modify_qp(l.qp[0], &a, IBV_QP_STATE), EINVAL);
    assert_int_equal(l.qp[0]->state, IBV_QPS_RTR);
    loop_close(&l);
}

/* --- who comes first ------------------------------------------------------------------------- */

/* Either side may be in RTS long before the other knows its number; what it has posted waits. */
static void order__whoever_is_first__its_work_waits(void **state)
{
    static const unsigned delays[] = {0, 1, 30, 700};

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        int first = (int)(i & 1);
        struct loop l;
        loop_open(&l, &unconnected);
        fill_octets(l.memory[first], 500, i);
        to_rtr(l.qp[first], l.qp[!first]->qp_num, &usual);
        to_rts(l.qp[first], &usual);
        post(&l, first, 1, IBV_WR_SEND, 0, 500);
        post(&l, first, 2, IBV_WR_RDMA_WRITE, 600, 8);
        loop_recv(&l, !first, 3, 0, 500);
        nap_ms(delays[i / 2]);
        quiet(&l, 0);
        to_rtr(l.qp[!first], l.qp[first]->qp_num, &usual);
        to_rts(l.qp[!first], &usual);
        loop_expect(&l, first, 1, IBV_WC_SEND);
        loop_expect(&l, first, 2, IBV_WC_RDMA_WRITE);
        loop_expect(&l, !first, 3, IBV_WC_RECV);
        assert_memory_equal(l.memory[0], l.memory[1], 500);
        exchange(&l, !first);
        loop_close(&l);
    }
}

/* A side that only receives may stay in RTR: its peer's sends arrive, and an event says so. */
static void rtr__without_rts__receives(void **state)
{
    struct ibv_async_event event;

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct loop l;
        loop_open(&l, &unconnected);
        loop_recv(&l, side, 3, 0, 500);
        fill_octets(l.memory[!side], 500, 4);
        to_rtr(l.qp[side], l.qp[!side]->qp_num, &usual);
        to_rtr(l.qp[!side], l.qp[side]->qp_num, &usual);
        to_rts(l.qp[!side], &usual);
        post(&l, !side, 1, IBV_WR_SEND, 0, 500);
        loop_expect(&l, side, 3, IBV_WC_RECV);
        loop_expect(&l, !side, 1, IBV_WC_SEND);
        assert_memory_equal(l.memory[0], l.memory[1], 500);
        assert_int_equal(l.qp[side]->state, IBV_QPS_RTR);
        assert_int_equal(ibv_get_async_event(l.context, &event), 0);
        assert_int_equal(event.event_type, IBV_EVENT_COMM_EST);
        assert_ptr_equal(event.element.qp, l.qp[side]);
        ibv_ack_async_event(&event);
        to_rts(l.qp[side], &usual);
        exchange(&l, side);
        loop_close(&l);
    }
}

static void *connect_one(void *arg)
{
    void **args = arg;
    struct ibv_qp *qp = args[0], *peer = args[1];

    to_rtr(qp, peer->qp_num, &usual);
    to_rts(qp, &usual);
    return NULL;
}

static void order__both_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        struct loop l;
        pthread_t thread;
        loop_open(&l, &unconnected);
        void *args[2] = {l.qp[0], l.qp[1]}, *mine[2] = {l.qp[1], l.qp[0]};
        assert_int_equal(pthread_create(&thread, NULL, connect_one, args), 0);
        connect_one(mine);
        assert_int_equal(pthread_join(thread, NULL), 0);
        exchange(&l, i % 2);
        loop_close(&l);
    }
}

/* --- a queue pair and itself ----------------------------------------------------------------- */

static void open_self(struct loop *l, bool srq)
{
    loop_open(l, srq ? &shared : &unconnected);
    struct naming by = usual;
    by.by_lid = true; /* as such programs do: LID 0, not global */
    to_rtr(l->qp[1], l->qp[1]->qp_num, &by);
    to_rts(l->qp[1], &by);
}

static void self__connected_to_itself__carries_data(void **state)
{
    (void)state;
    for (int srq = 0; srq < 2; srq++) {
        struct loop l;
        open_self(&l, srq);
        for (int round = 0; round < 3; round++) {
            fill_octets(l.memory[1], 1000, 5);
            memset(l.memory[1] + 1000, 0, 3000);
            loop_recv(&l, 1, 1, 1000, 1000);
            post(&l, 1, 2, IBV_WR_SEND, 0, 1000);
            struct ibv_wc a = loop_wc(&l, 1), b = loop_wc(&l, 1); /* in either order */
            assert_int_equal(a.status + b.status, IBV_WC_SUCCESS);
            assert_int_equal(a.wr_id + b.wr_id, 3);
            assert_int_equal(a.qp_num, l.qp[1]->qp_num);
            assert_int_equal(b.qp_num, l.qp[1]->qp_num);
            assert_memory_equal(l.memory[1], l.memory[1] + 1000, 1000);
            post(&l, 1, 3, IBV_WR_RDMA_READ, 4000, 8); /* of side 0's memory, same domain */
            loop_expect(&l, 1, 3, IBV_WC_RDMA_READ);
            if (round == 1) {
                struct naming by = usual;
                to_state(l.qp[1], IBV_QPS_RESET);
                to_rtr(l.qp[1], l.qp[1]->qp_num, &by);
                to_rts(l.qp[1], &by);
            }
        }
        loop_close(&l);
    }
}

static void self__to_err__flushes_both_queues(void **state)
{
    struct loop l;

    (void)state;
    open_self(&l, false);
    loop_recv(&l, 1, 1, 0, 100);
    loop_recv(&l, 1, 2, 0, 100);
    to_state(l.qp[1], IBV_QPS_ERR);
    post(&l, 1, 3, IBV_WR_SEND, 0, 10);
    for (int i = 0; i < 3; i++) {
        struct ibv_wc wc = loop_wc(&l, 1);
        assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
        assert_in_range(wc.wr_id, 1, 3);
    }
    loop_close(&l);
}

/* --- Writes ---------------------------------------------------------------------------------- */

/* A signaled Write that has completed is in the peer's memory: programs tell the peer otherwise
 * that it may look. Whatever the queue pair signals, and as many as it holds. */
static void write__completed__is_in_the_peers_memory(void **state)
{
    enum { MANY = 16 };

    (void)state;
    for (int all = 0; all < 2; all++) {
        struct loop l;
        loop_open(&l, &unconnected);
        if (all) {
            struct ibv_qp_init_attr a = {.send_cq = l.cq[0],
                                         .recv_cq = l.cq[0],
                                         .cap = {.max_send_wr = MANY, .max_send_sge = 1},
                                         .qp_type = IBV_QPT_RC,
                                         .sq_sig_all = 1};
            assert_int_equal(ibv_destroy_qp(l.qp[0]), 0);
            l.qp[0] = ibv_create_qp(l.pd, &a);
            assert_non_null(l.qp[0]);
        }
        name_each_other(&l, &usual);
        for (unsigned round = 0; round < 200; round++) {
            memset(l.memory[0], (int)round + 1, LOOP_OCTETS);
            post(&l, 0, round, IBV_WR_RDMA_WRITE, 0, LOOP_OCTETS);
            loop_expect(&l, 0, round, IBV_WC_RDMA_WRITE);
            assert_memory_equal(l.memory[0], l.memory[1], LOOP_OCTETS);
        }
        for (unsigned i = 0; i < MANY; i++) { /* the queue is as long as the program thinks */
            post(&l, 0, i, IBV_WR_RDMA_WRITE, 8 * i, 8);
        }
        for (unsigned i = 0; i < MANY; i++) {
            loop_expect(&l, 0, i, IBV_WC_RDMA_WRITE);
        }
        quiet(&l, 0);
        loop_close(&l);
    }
}

/* The completion of the Write that the peer refuses says so. */
static void write__refused_by_the_peer__says_so(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l, &unconnected);
    name_each_other(&l, &usual);
    post(&l, 0, 1, IBV_WR_RDMA_WRITE, 0, 8);
    loop_expect(&l, 0, 1, IBV_WC_RDMA_WRITE);
    post(&l, 0, 2, IBV_WR_RDMA_WRITE, LOOP_OCTETS, 8); /* its own memory is beyond, too */
    assert_int_equal(loop_wc(&l, 0).status, IBV_WC_LOC_PROT_ERR);
    loop_close(&l);
    for (unsigned i = 0; i < 2; i++) {
        loop_open(&l, &unconnected);
        name_each_other(&l, &usual);
        loop_recv(&l, 1, 1, 0, 8);
        l.mr[1]->rkey ^= 0x100;
        post(&l, 0, 2, i == 0 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM, 0, 8);
        post(&l, 0, 3, IBV_WR_RDMA_WRITE, 0, 8);
        l.mr[1]->rkey ^= 0x100;
        struct ibv_wc wc = loop_wc(&l, 0);
        assert_int_equal(wc.wr_id, 2);
        assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
        assert_int_equal(loop_wc(&l, 0).status, IBV_WC_WR_FLUSH_ERR);
        loop_close(&l);
    }
}

/* --- ends and new beginnings ----------------------------------------------------------------- */

static void reset__of_both_in_any_order__connects_anew(void **state)
{
    struct naming by = usual;
    struct loop l;

    (void)state;
    loop_open(&l, &unconnected);
    for (unsigned i = 0; i < 12; i++) {
        int first = (int)(i & 1);
        by.rq_psn = by.sq_psn = i / 4;
        name_each_other(&l, &by);
        exchange(&l, first);
        loop_recv(&l, 0, 77, 0, 10); /* vanishes without a completion */
        to_state(l.qp[first], IBV_QPS_RESET);
        if (i & 2) { /* one end is back before the other has gone */
            to_rtr(l.qp[first], l.qp[!first]->qp_num, &by);
            to_rts(l.qp[first], &by);
            nap_ms(i & 4 ? 20 : 0);
            to_state(l.qp[!first], IBV_QPS_RESET);
            to_rtr(l.qp[!first], l.qp[first]->qp_num, &by);
            to_rts(l.qp[!first], &by);
            exchange(&l, !first);
            to_state(l.qp[first], IBV_QPS_RESET);
        }
        to_state(l.qp[!first], IBV_QPS_RESET);
        quiet(&l, 0);
        quiet(&l, 1);
    }
    loop_close(&l);
}

/* One end begins again before anything was sent: the other need not, since it cannot know. */
static void reset__of_one_before_any_message__connects_anew(void **state)
{
    (void)state;
    for (int side = 0; side < 2; side++) {
        struct loop l;
        loop_open(&l, &unconnected);
        name_each_other(&l, &usual);
        for (unsigned i = 0; i < 4; i++) {
            nap_ms(i % 2 ? 0 : 50); /* connected, or still on the way */
            to_state(l.qp[side], IBV_QPS_RESET);
            to_rtr(l.qp[side], l.qp[!side]->qp_num, &usual);
            to_rts(l.qp[side], &usual);
        }
        exchange(&l, side);
        exchange(&l, !side);
        loop_close(&l);
    }
}

static void err__flushes_this_end_and_leaves_the_receives_of_the_other(void **state)
{
    (void)state;
    for (int side = 0; side < 2; side++) {
        struct loop l;
        loop_open(&l, &unconnected);
        name_each_other(&l, &usual);
        exchange(&l, 0);
        loop_recv(&l, side, 1, 0, 10);
        loop_recv(&l, !side, 2, 0, 10);
        to_state(l.qp[side], IBV_QPS_ERR);
        assert_int_equal(loop_wc(&l, side).status, IBV_WC_WR_FLUSH_ERR);
        nap_ms(50);
        quiet(&l, !side);
        struct ibv_qp_init_attr init;
        struct ibv_qp_attr a;
        assert_int_equal(ibv_query_qp(l.qp[!side], &a, 0, &init), 0);
        assert_int_equal(a.qp_state, IBV_QPS_RTS);
        loop_close(&l);
    }
}

/* As on InfiniBand: a peer that has gone is noticed by an end that sends to it, after its tries. */
static void gone__sends_say_so_and_receives_wait_until_then(void **state)
{
    struct timespec begun, now;

    (void)state;
    for (int side = 0; side < 2; side++) {
        struct loop l;
        loop_open(&l, &unconnected);
        name_each_other(&l, &usual);
        exchange(&l, side);
        loop_recv(&l, side, 1, 0, 10);
        assert_int_equal(ibv_destroy_qp(l.qp[!side]), 0);
        l.qp[!side] = loop_qp(&l, !side, &unconnected);
        nap_ms(50);
        quiet(&l, side);
        clock_gettime(CLOCK_MONOTONIC, &begun);
        post(&l, side, 2, IBV_WR_SEND, 0, 10);
        struct ibv_wc wc = loop_wc(&l, side);
        clock_gettime(CLOCK_MONOTONIC, &now);
        assert_true((now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000 >=
                    8 * 67); /* 8 tries of 4.096 us << 14 */
        assert_int_equal(wc.wr_id, 2);
        assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
        wc = loop_wc(&l, side);
        assert_int_equal(wc.wr_id, 1);
        assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
        struct ibv_qp_init_attr init;
        struct ibv_qp_attr a;
        assert_int_equal(ibv_query_qp(l.qp[side], &a, 0, &init), 0);
        assert_int_equal(a.qp_state, IBV_QPS_ERR);
        post(&l, side, 3, IBV_WR_SEND, 0, 10);
        assert_int_equal(loop_wc(&l, side).status, IBV_WC_WR_FLUSH_ERR);
        loop_close(&l);
    }
}

/* A remote access error is told as ever: both ends are in ERR. */
static void fault__of_access__is_told_to_both(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l, &unconnected);
    name_each_other(&l, &usual);
    exchange(&l, 0);
    loop_recv(&l, 1, 9, 0, 10);
    l.mr[1]->rkey ^= 0x100;
    post(&l, 0, 5, IBV_WR_RDMA_READ, 0, 8);
    l.mr[1]->rkey ^= 0x100;
    assert_int_equal(loop_wc(&l, 0).status, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(loop_wc(&l, 1).status, IBV_WC_WR_FLUSH_ERR);
    for (int i = 0; i < 2; i++) {
        struct ibv_async_event event;
        assert_int_equal(ibv_get_async_event(l.context, &event), 0);
        ibv_ack_async_event(&event);
    }
    loop_close(&l);
}

/* Nobody there, another peer, another PSN: each is given up, not before the time, and all receives
 * are flushed with it. One that has posted nothing waits on. */
static void unreachable__work_completes_with_retry_exceeded(void **state)
{
    enum { CASES = 4 };
    struct naming by = usual, other = usual;
    struct loop l[CASES];
    struct timespec begun, now;

    (void)state;
    by.timeout = 8;
    other.rq_psn = other.sq_psn = 18; /* seen by either, whichever has got how far */
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (int i = 0; i < CASES; i++) {
        loop_open(&l[i], &unconnected);
        uint32_t peer = i == 1 ? 0x000007 : i == 2 ? 0xfffe01 : l[i].qp[1]->qp_num;
        if (i == 3) {
            to_rtr(l[i].qp[1], l[i].qp[0]->qp_num, &other);
            to_rts(l[i].qp[1], &other);
        }
        to_rtr(l[i].qp[0], peer, &by);
        to_rts(l[i].qp[0], &by);
        loop_recv(&l[i], 0, 1, 0, 10);
        post(&l[i], 0, 2, IBV_WR_SEND, 0, 10);
        post(&l[i], 0, 3, IBV_WR_RDMA_READ, 0, 10);
    }
    for (int i = 0; i < CASES; i++) {
        struct ibv_wc wc = loop_wc(&l[i], 0);
        assert_int_equal(wc.wr_id, 2);
        assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
        assert_int_equal(wc.qp_num, l[i].qp[0]->qp_num);
        for (uint64_t id = 3; id != 2; id -= 2) {
            wc = loop_wc(&l[i], 0);
            assert_int_equal(wc.wr_id, id);
            assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
            if (id == 1) {
                break;
            }
        }
        quiet(&l[i], 1);
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    assert_true(now.tv_sec - begun.tv_sec >= 4);
    for (int i = 0; i < CASES; i++) { /* after a reset they connect all the same */
        to_state(l[i].qp[0], IBV_QPS_RESET);
        to_state(l[i].qp[1], IBV_QPS_RESET);
        name_each_other(&l[i], &by);
        exchange(&l[i], i % 2);
        loop_close(&l[i]);
    }
}

/* --- many ------------------------------------------------------------------------------------ */

static int listening_sockets(void)
{
    static const char *const files[] = {"/proc/self/net/tcp", "/proc/self/net/tcp6"};
    char line[300];
    int n = 0;

    for (int i = 0; i < 2; i++) {
        FILE *f = fopen(files[i], "r");
        while (f && fgets(line, sizeof line, f)) {
            unsigned long inode;
            char target[64], path[64], want[64];
            unsigned state;
            if (sscanf(line, "%*d: %*s %*s %x %*s %*s %*s %*s %*s %lu", &state, &inode) != 2 ||
                state != 0x0a) {
                continue;
            }
            snprintf(want, sizeof want, "socket:[%lu]", inode);
            for (int fd = 3; fd < 1024; fd++) { /* is it of this process? */
                snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
                ssize_t len = readlink(path, target, sizeof target - 1);
                target[len > 0 ? len : 0] = '\0';
                n += strcmp(target, want) == 0;
            }
        }
        if (f) {
            fclose(f);
        }
    }
    return n;
}

/* The port of a number is only reserved until a queue pair of it names a peer. */
static int listens_late(void *arg)
{
    struct loop l;

    (void)arg;
    loop_open(&l, &unconnected);
    assert_int_equal(listening_sockets(), 0);
    loop_connect(&l); /* otherwise than by number */
    assert_int_equal(listening_sockets(), 0);
    loop_close(&l);
    memset(&l.conn, 0, sizeof l.conn);
    loop_open(&l, &unconnected);
    to_init(l.qp[0]);
    assert_int_equal(listening_sockets(), 0);
    to_rtr(l.qp[0], l.qp[1]->qp_num, &usual);
    assert_int_equal(listening_sockets(), 1);
    loop_close(&l);
    return 0;
}

static void port__listens_from_the_first_name_on(void **state)
{
    (void)state;
    run_in_child(listens_late, NULL);
}

static void number__that_is_destroyed__is_not_given_again_soon(void **state)
{
    enum { TIMES = 100 };
    uint32_t seen[TIMES];
    struct loop l;

    (void)state;
    loop_open(&l, &unconnected);
    for (int i = 0; i < TIMES; i++) {
        struct ibv_qp *qp = loop_qp(&l, 0, &unconnected);
        seen[i] = qp->qp_num;
        assert_in_range(seen[i], 1024 << 8, 0xfffffe);
        for (int k = 0; k < i; k++) {
            assert_int_not_equal(seen[i], seen[k]);
        }
        assert_int_equal(ibv_destroy_qp(qp), 0);
    }
    loop_close(&l);
}

/* More than one port has numbers for; all of them at the same time. */
static void many__at_once(void **state)
{
    enum { PAIRS = 400 };
    static struct ibv_qp *qp[2][PAIRS];
    struct loop l;

    (void)state;
    loop_open(&l, &unconnected);
    for (int i = 0; i < PAIRS; i++) {
        for (int side = 0; side < 2; side++) {
            qp[side][i] = loop_qp(&l, side, &unconnected);
            assert_non_null(qp[side][i]);
        }
    }
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < PAIRS; i++) {
            to_rtr(qp[side][i], qp[!side][i]->qp_num, &usual);
            to_rts(qp[side][i], &usual);
        }
    }
    struct ibv_qp *own[2] = {l.qp[0], l.qp[1]};
    for (int i = 0; i < PAIRS; i++) {
        l.qp[0] = qp[0][i];
        l.qp[1] = qp[1][i];
        exchange(&l, i % 2);
    }
    for (int i = 0; i < PAIRS; i++) {
        assert_int_equal(ibv_destroy_qp(qp[i % 2][i]), 0);
        assert_int_equal(ibv_destroy_qp(qp[!(i % 2)][i]), 0);
    }
    l.qp[0] = own[0];
    l.qp[1] = own[1];
    loop_close(&l);
}

/* --- ends that leave at once ------------------------------------------------------------------ */

/* More octets than the peer's first window of TCP takes, in more messages than a send queue has. */
enum { LAST_SENDS = 40, LAST_AT_ONCE = 10 };

static void send_last(struct loop *l, int side)
{
    for (uint64_t i = 0; i < LAST_SENDS + LAST_AT_ONCE; i++) {
        if (i >= LAST_AT_ONCE) {
            loop_expect(l, side, i - LAST_AT_ONCE, IBV_WC_SEND);
        }
        if (i < LAST_SENDS) {
            post(l, side, i, IBV_WR_SEND, 0, LOOP_OCTETS);
        }
    }
}

/* As many programs do, one after the other: the messages wait. */
static void receive_last(struct loop *l, int side)
{
    for (uint64_t i = 0; i < LAST_SENDS; i++) {
        loop_recv(l, side, i, 0, LOOP_OCTETS);
        assert_int_equal(loop_expect(l, side, i, IBV_WC_RECV).byte_len, LOOP_OCTETS);
    }
}

/* The engine may not have heard of the connection yet over which the Sends went. */
static void destroy__right_after_the_last_send__loses_nothing(void **state)
{
    enum { ROUNDS = 200 };
    struct loop l;

    (void)state;
    loop_open(&l, &unconnected);
    for (int round = 0; round < ROUNDS; round++) {
        name_each_other(&l, &usual);
        send_last(&l, 0);
        assert_int_equal(ibv_destroy_qp(l.qp[0]), 0);
        receive_last(&l, 1);
        to_state(l.qp[1], IBV_QPS_RESET);
        l.qp[0] = loop_qp(&l, 0, &unconnected);
        assert_non_null(l.qp[0]);
    }
    loop_close(&l);
}

/* --- processes ------------------------------------------------------------------------------- */

/* What a child inherits is out of bounds; its own queue pairs have ports of their own. */
static int in_child(void *arg)
{
    struct loop *parents = arg, l;
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};

    assert_int_not_equal(ibv_modify_qp(parents->qp[0], &a, IBV_QP_STATE), 0);
    loop_open(&l, &unconnected);
    assert_int_not_equal(l.qp[0]->qp_num >> 8, parents->qp[0]->qp_num >> 8);
    name_each_other(&l, &usual);
    exchange(&l, 0);
    loop_close(&l);
    return 0;
}

static void fork__a_child_has_numbers_of_its_own(void **state)
{
    struct loop l;

    (void)state;
    if (CHILD_SANITIZED == 2) {
        return; /* it does not know children that start threads */
    }
    loop_open(&l, &unconnected);
    name_each_other(&l, &usual);
    exchange(&l, 0);
    run_in_child(in_child, &l);
    exchange(&l, 1);
    loop_close(&l);
}

/* The kernel resets the connection of a process that ends without having read all that came. */
static _Noreturn void send_and_vanish(int socket)
{
    uint32_t number;
    struct loop l;

    loop_open(&l, &unconnected);
    assert_int_equal(write(socket, &l.qp[0]->qp_num, sizeof number), sizeof number);
    assert_int_equal(read(socket, &number, sizeof number), sizeof number);
    to_rtr(l.qp[0], number, &usual);
    to_rts(l.qp[0], &usual);
    send_last(&l, 0);
    _exit(0);
}

static void exit__right_after_the_last_send__loses_nothing(void **state)
{
    enum { ROUNDS = 20 };

    (void)state;
    if (CHILD_SANITIZED == 2) {
        return; /* it does not know children that start threads */
    }
    for (int round = 0; round < ROUNDS; round++) {
        int pair[2], status = -1;
        uint32_t number;
        struct loop l;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)signal(SIGABRT, SIG_DFL); /* cmocka has a handler of its own */
            setenv("CMOCKA_TEST_ABORT", "1", 1);
            send_and_vanish(pair[1]);
        }
        loop_open(&l, &unconnected);
        assert_int_equal(read(pair[0], &number, sizeof number), sizeof number);
        assert_int_equal(write(pair[0], &l.qp[1]->qp_num, sizeof number), sizeof number);
        to_rtr(l.qp[1], number, &usual);
        to_rts(l.qp[1], &usual);
        receive_last(&l, 1);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        loop_close(&l);
        close(pair[0]);
        close(pair[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(port__listens_from_the_first_name_on),
        cmocka_unit_test(connect__however_the_peer_is_named__carries_data),
        cmocka_unit_test(connect__by_each_gid_of_the_table),
        cmocka_unit_test(query__gives_what_was_set),
        cmocka_unit_test(rtr__with_half_a_name__is_refused),
        cmocka_unit_test(order__whoever_is_first__its_work_waits),
        cmocka_unit_test(rtr__without_rts__receives),
        cmocka_unit_test(order__both_at_once),
        cmocka_unit_test(self__connected_to_itself__carries_data),
        cmocka_unit_test(self__to_err__flushes_both_queues),
        cmocka_unit_test(write__completed__is_in_the_peers_memory),
        cmocka_unit_test(write__refused_by_the_peer__says_so),
        cmocka_unit_test(reset__of_both_in_any_order__connects_anew),
        cmocka_unit_test(reset__of_one_before_any_message__connects_anew),
        cmocka_unit_test(err__flushes_this_end_and_leaves_the_receives_of_the_other),
        cmocka_unit_test(gone__sends_say_so_and_receives_wait_until_then),
        cmocka_unit_test(fault__of_access__is_told_to_both),
        cmocka_unit_test(unreachable__work_completes_with_retry_exceeded),
        cmocka_unit_test(number__that_is_destroyed__is_not_given_again_soon),
        cmocka_unit_test(many__at_once),
        cmocka_unit_test(destroy__right_after_the_last_send__loses_nothing),
        cmocka_unit_test(exit__right_after_the_last_send__loses_nothing),
        cmocka_unit_test(fork__a_child_has_numbers_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
