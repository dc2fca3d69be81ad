/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The extended calls: a queue pair of ibv_create_qp_ex used by ibv_wr_* alone, completions taken by
 * ibv_start_poll; which queue pairs have them, and what they refuse.
 */
#include "loop.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>

static const struct loop_options extended = {.extended = true, .max_inline = 32};

static void wait_for_some(struct loop *l, struct ibv_cq_ex *cq)
{
    struct ibv_poll_cq_attr attr = {.comp_mask = 0};
    const struct timespec nap = {.tv_nsec = 200000};

    (void)l;
    for (int i = 0; i < LOOP_WAIT_MS * 5; i++) {
        int error = ibv_start_poll(cq, &attr);
        if (error == 0) {
            return;
        }
        assert_int_equal(error, ENOENT);
        nanosleep(&nap, NULL);
    }
    fail_msg("no completion");
}

static void qp_ex__only_where_it_was_asked_for(void **state)
{
    const struct loop_options plain = {.unconnected = true};
    const struct loop_options ex = {.unconnected = true, .extended = true};
    struct loop l;

    (void)state;
    loop_open(&l, &plain);
    assert_null(ibv_qp_to_qp_ex(l.qp[0]));
    loop_close(&l);
    loop_open(&l, &ex);
    assert_ptr_equal(ibv_qp_to_qp_ex(l.qp[0]), l.qp[0]);
    struct loop_options more = ex;
    more.more_operations = IBV_QP_EX_WITH_TSO;
    errno = 0;
    assert_null(loop_qp(&l, 0, &more));
    assert_int_equal(errno, EOPNOTSUPP);
    struct ibv_qp_init_attr_ex other = {.send_cq = l.cq[0],
                                        .recv_cq = l.cq[0],
                                        .pd = l.pd,
                                        .qp_type = IBV_QPT_RC,
                                        .comp_mask =
                                            IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER};
    errno = 0;
    assert_null(ibv_create_qp_ex(l.context, &other));
    assert_int_equal(errno, EOPNOTSUPP);
    loop_close(&l);
}

static void wr__one_of_each__in_one_batch(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l, &extended);
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(l.qp[0]);
    uint64_t at = (uintptr_t)l.memory[1], *word = (void *)(l.memory[1] + 512);
    uint32_t rkey = l.mr[1]->rkey;
    char text[] = "said inline";
    struct ibv_sge two[2] = {loop_sge(&l, 0, 0, 4), loop_sge(&l, 0, 8, 4)};
    struct ibv_sge sinks[2] = {loop_sge(&l, 0, 260, 3), loop_sge(&l, 0, 256, 4)};

    *word = 40;
    memcpy(l.memory[0], "two pieces##", 12);
    memcpy(l.memory[0] + 64, "written", 7);
    loop_recv(&l, 1, 100, 1024, 64);
    loop_recv(&l, 1, 101, 1100, 64);
    loop_recv(&l, 1, 102, 0, 0);
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    qp->wr_id = 1;
    ibv_wr_rdma_write(qp, rkey, at);
    ibv_wr_set_sge(qp, l.mr[0]->lkey, (uintptr_t)l.memory[0] + 64, 7);
    qp->wr_id = 2;
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, text, 11);
    memset(text, 0, sizeof text); /* it has been copied */
    qp->wr_id = 3;
    ibv_wr_send(qp);
    ibv_wr_set_sge_list(qp, 2, two);
    qp->wr_id = 4;
    ibv_wr_atomic_fetch_add(qp, rkey, (uintptr_t)word, 2);
    ibv_wr_set_sge(qp, l.mr[0]->lkey, (uintptr_t)l.memory[0] + 128, 8);
    qp->wr_id = 5;
    ibv_wr_atomic_cmp_swp(qp, rkey, (uintptr_t)word, 42, 43);
    ibv_wr_set_sge(qp, l.mr[0]->lkey, (uintptr_t)l.memory[0] + 136, 8);
    qp->wr_id = 6;
    ibv_wr_rdma_read(qp, rkey, at);
    ibv_wr_set_sge_list(qp, 2, sinks);
    qp->wr_id = 7;
    qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
    ibv_wr_rdma_write_imm(qp, rkey, at + 300, htonl(0xdeadbeef));
    ibv_wr_set_inline_data(qp, (char[]){"imm"}, 3);
    assert_int_equal(ibv_wr_complete(qp), 0);

    const enum ibv_wc_opcode opcodes[] = {IBV_WC_RDMA_WRITE, IBV_WC_SEND,      IBV_WC_SEND,
                                          IBV_WC_FETCH_ADD,  IBV_WC_COMP_SWAP, IBV_WC_RDMA_READ,
                                          IBV_WC_RDMA_WRITE};
    for (unsigned i = 0; i < 7; i++) {
        (void)loop_expect(&l, 0, i + 1, opcodes[i]);
    }
    assert_int_equal(loop_expect(&l, 1, 100, IBV_WC_RECV).byte_len, 11);
    assert_int_equal(loop_expect(&l, 1, 101, IBV_WC_RECV).byte_len, 8);
    struct ibv_wc wc = loop_expect(&l, 1, 102, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(ntohl(wc.imm_data), 0xdeadbeef);
    assert_int_equal(wc.byte_len, 3);
    assert_memory_equal(l.memory[1], "written", 7);
    assert_memory_equal(l.memory[1] + 300, "imm", 3);
    assert_memory_equal(l.memory[1] + 1024, "said inline", 11);
    assert_memory_equal(l.memory[1] + 1100, "two es##", 8);
    assert_memory_equal(l.memory[0] + 256, "ttenwri", 7);
    assert_int_equal(*word, 43);
    assert_int_equal(*(uint64_t *)(void *)(l.memory[0] + 128), 40);
    assert_int_equal(*(uint64_t *)(void *)(l.memory[0] + 136), 42);
    loop_close(&l);
}

/* Bound, written through by the peer, invalidated by the peer, bound again, invalidated here. */
static void wr__of_a_window__binds_and_invalidates(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l, &extended);
    struct ibv_qp_ex *peer = ibv_qp_to_qp_ex(l.qp[0]), *qp = ibv_qp_to_qp_ex(l.qp[1]);
    struct ibv_mw *mw = ibv_alloc_mw(l.pd, IBV_MW_TYPE_2);
    assert_non_null(mw);
    const struct ibv_mw_bind_info info = {.mr = l.mr[1],
                                          .addr = (uintptr_t)l.memory[1] + 8,
                                          .length = 16,
                                          .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    uint32_t rkey = ibv_inc_rkey(mw->rkey);
    qp->wr_flags = peer->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_start(qp);
    qp->wr_id = 1;
    ibv_wr_bind_mw(qp, mw, rkey, &info);
    assert_int_equal(ibv_wr_complete(qp), 0);
    (void)loop_expect(&l, 1, 1, IBV_WC_BIND_MW);
    assert_int_equal(mw->rkey, rkey);

    loop_recv(&l, 1, 2, 0, 0);
    ibv_wr_start(peer);
    peer->wr_id = 3;
    ibv_wr_rdma_write(peer, rkey, info.addr);
    ibv_wr_set_inline_data(peer, (char[]){"through a window"}, 16);
    peer->wr_id = 4;
    ibv_wr_send_inv(peer, rkey);
    ibv_wr_set_sge_list(peer, 0, NULL);
    ibv_wr_set_inline_data(peer, NULL, 0);
    assert_int_equal(ibv_wr_complete(peer), 0);
    (void)loop_expect(&l, 0, 3, IBV_WC_RDMA_WRITE);
    (void)loop_expect(&l, 0, 4, IBV_WC_SEND);
    assert_int_equal(loop_expect(&l, 1, 2, IBV_WC_RECV).invalidated_rkey, rkey);
    assert_memory_equal(l.memory[1] + 8, "through a window", 16);

    ibv_wr_start(qp);
    qp->wr_id = 5;
    ibv_wr_bind_mw(qp, mw, ibv_inc_rkey(rkey), &info);
    qp->wr_id = 6;
    ibv_wr_local_inv(qp, ibv_inc_rkey(rkey));
    assert_int_equal(ibv_wr_complete(qp), 0);
    (void)loop_expect(&l, 1, 5, IBV_WC_BIND_MW);
    (void)loop_expect(&l, 1, 6, IBV_WC_LOCAL_INV);
    assert_int_equal(mw->rkey, ibv_inc_rkey(rkey));
    ibv_wr_start(peer);
    peer->wr_id = 7;
    ibv_wr_rdma_write(peer, mw->rkey, info.addr); /* not any more */
    ibv_wr_set_inline_data(peer, (char[]){"closed"}, 6);
    assert_int_equal(ibv_wr_complete(peer), 0);
    loop_recv(&l, 1, 8, 0, 0);
    assert_int_equal(loop_wc(&l, 1).status, IBV_WC_WR_FLUSH_ERR);
    assert_memory_equal(l.memory[1] + 8, "through a window", 16);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    loop_close(&l);
}

static void wr__aborted_or_wrong__posts_nothing(void **state)
{
    struct loop l;
    char text[200] = "too long for this queue pair";

    (void)state;
    loop_open(&l, &extended);
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(l.qp[0]);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_start(qp);
    qp->wr_id = 1;
    ibv_wr_send(qp);
    ibv_wr_abort(qp);
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, text, sizeof text);
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    ibv_wr_start(qp);
    ibv_wr_set_sge(qp, 0, 0, 0); /* of no request */
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    ibv_wr_start(qp);
    assert_int_equal(ibv_wr_complete(qp), 0); /* nothing is something that can be posted */

    loop_recv(&l, 1, 9, 0, 8);
    ibv_wr_start(qp);
    qp->wr_id = 2;
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, l.mr[0]->lkey, (uintptr_t)l.memory[0], 8);
    assert_int_equal(ibv_wr_complete(qp), 0);
    (void)loop_expect(&l, 1, 9, IBV_WC_RECV);
    (void)loop_expect(&l, 0, 2, IBV_WC_SEND);
    loop_close(&l);
}

/* A Send of 8 octets, or of 500 pieces, with this number. */
static void say_send(struct loop *l, struct ibv_qp_ex *qp, uint64_t wr_id, bool wrong)
{
    struct ibv_sge many[500] = {{0}};

    qp->wr_id = wr_id;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    if (wrong) {
        ibv_wr_set_sge_list(qp, 500, many);
    } else {
        ibv_wr_set_sge(qp, l->mr[0]->lkey, (uintptr_t)l->memory[0], 8);
    }
}

/* Wrong in the last place, or with too little room: as if nothing of it had been said. */
static void wr__that_cannot_be_posted_whole__posts_nothing(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l, &extended);
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(l.qp[0]);
    ibv_wr_start(qp);
    for (uint64_t i = 0; i < 10; i++) {
        say_send(&l, qp, i, i == 9);
    }
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    ibv_wr_start(qp);
    say_send(&l, qp, 30, false);
    qp->wr_id = 31;
    ibv_wr_send_imm(qp, 1); /* no iWARP message */
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    ibv_wr_start(qp);
    for (uint64_t i = 0; i < 4096; i++) {
        say_send(&l, qp, 100 + i, false);
    }
    assert_int_equal(ibv_wr_complete(qp), ENOMEM);

    for (uint64_t i = 0; i < 2; i++) {
        loop_recv(&l, 1, i, 0, 8);
    }
    ibv_wr_start(qp);
    say_send(&l, qp, 1, false);
    say_send(&l, qp, 2, false);
    assert_int_equal(ibv_wr_complete(qp), 0);
    for (uint64_t i = 0; i < 2; i++) {
        (void)loop_expect(&l, 1, i, IBV_WC_RECV);
        (void)loop_expect(&l, 0, 1 + i, IBV_WC_SEND);
    }
    loop_close(&l);
}

static void start_poll__gives_fields_one_completion_at_a_time(void **state)
{
    struct ibv_cq_init_attr_ex attr = {
        .cqe = 16, .cq_context = &attr, .wc_flags = IBV_WC_STANDARD_FLAGS};
    struct ibv_poll_cq_attr none = {.comp_mask = 0};
    const struct loop_options later = {.extended = true, .unconnected = true};
    struct loop l;

    (void)state;
    loop_open(&l, &later);
    struct ibv_cq_ex *cq = ibv_create_cq_ex(l.context, &attr);
    assert_non_null(cq);
    assert_ptr_equal(ibv_cq_ex_to_cq(cq)->cq_context, &attr);
    assert_int_equal(ibv_start_poll(cq, &none), ENOENT);
    struct ibv_cq *old = l.cq[1];
    assert_int_equal(ibv_destroy_qp(l.qp[1]), 0);
    l.cq[1] = ibv_cq_ex_to_cq(cq);
    l.qp[1] = loop_qp(&l, 1, &later);
    assert_non_null(l.qp[1]);
    loop_connect(&l);
    loop_recv(&l, 1, 1, 0, 64);
    loop_recv(&l, 1, 2, 64, 64);
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(l.qp[0]);
    ibv_wr_start(qp);
    for (uint32_t i = 1; i <= 2; i++) {
        ibv_wr_send(qp);
        ibv_wr_set_sge(qp, l.mr[0]->lkey, (uintptr_t)l.memory[0], 10 * i);
    }
    assert_int_equal(ibv_wr_complete(qp), 0);
    for (uint32_t i = 1; i <= 2; i++) {
        wait_for_some(&l, cq);
        assert_int_equal(cq->wr_id, i);
        assert_int_equal(cq->status, IBV_WC_SUCCESS);
        assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_RECV);
        assert_int_equal(ibv_wc_read_byte_len(cq), 10 * i);
        assert_int_equal(ibv_wc_read_qp_num(cq), l.qp[1]->qp_num);
        assert_int_equal(ibv_wc_read_wc_flags(cq), 0);
        assert_int_equal(ibv_wc_read_vendor_err(cq), 0);
        assert_int_equal(ibv_wc_read_slid(cq), 0);
        if (i == 2) {
            assert_int_equal(ibv_next_poll(cq), ENOENT);
        }
        ibv_end_poll(cq);
    }
    assert_int_equal(ibv_destroy_cq(old), 0);
    loop_close(&l);
}

#define SHARED 20000

struct sharer {
    struct ibv_cq_ex *cq;
    _Atomic unsigned *taken, *seen; /* by wr_id; of both threads */
};

/* Each completion is read twice, with some time between: it has to stay the thread's. */
static void *take_turns(void *arg)
{
    struct sharer *s = arg;
    struct ibv_poll_cq_attr none = {.comp_mask = 0};
    uint64_t wrong = 0;

    while (atomic_load(s->taken) < SHARED) {
        if (ibv_start_poll(s->cq, &none) != 0) {
            sched_yield();
            continue;
        }
        unsigned n = 0;
        do {
            uint64_t id = s->cq->wr_id;
            sched_yield();
            wrong += id != s->cq->wr_id || s->cq->status != IBV_WC_SUCCESS || id >= SHARED;
            atomic_fetch_add(&s->seen[id % SHARED], 1);
            atomic_fetch_add(s->taken, 1);
        } while (++n < 8 && ibv_next_poll(s->cq) == 0);
        ibv_end_poll(s->cq);
    }
    return (void *)(uintptr_t)wrong;
}

static void start_poll__of_two_threads__gives_each_completion_once(void **state)
{
    struct ibv_cq_init_attr_ex attr = {.cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS};
    const struct loop_options later = {.extended = true, .unconnected = true};
    static _Atomic unsigned seen[SHARED];
    _Atomic unsigned taken = 0;
    struct loop l;
    void *wrong[2];

    (void)state;
    loop_open(&l, &later);
    struct ibv_cq_ex *cq = ibv_create_cq_ex(l.context, &attr);
    assert_non_null(cq);
    struct ibv_cq *old = l.cq[0];
    assert_int_equal(ibv_destroy_qp(l.qp[0]), 0);
    l.cq[0] = ibv_cq_ex_to_cq(cq);
    l.qp[0] = loop_qp(&l, 0, &later);
    assert_non_null(l.qp[0]);
    loop_connect(&l);
    struct sharer sharer = {cq, &taken, seen};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, &sharer), 0);
    }
    struct ibv_sge sge = loop_sge(&l, 0, 0, 8);
    for (uint64_t id = 0; id < SHARED; id++) {
        struct ibv_send_wr *bad, wr = {.wr_id = id,
                                       .sg_list = &sge,
                                       .num_sge = 1,
                                       .opcode = IBV_WR_RDMA_WRITE,
                                       .send_flags = IBV_SEND_SIGNALED};
        wr.wr.rdma.remote_addr = (uintptr_t)l.memory[1];
        wr.wr.rdma.rkey = l.mr[1]->rkey;
        while (id >= atomic_load(&taken) + 8) { /* no more than the queue holds */
            sched_yield();
        }
        assert_int_equal(ibv_post_send(l.qp[0], &wr, &bad), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], &wrong[i]);
    }
    assert_null(wrong[0]);
    assert_null(wrong[1]);
    for (unsigned i = 0; i < SHARED; i++) {
        assert_int_equal(seen[i], 1);
    }
    assert_int_equal(ibv_destroy_cq(old), 0);
    loop_close(&l);
}

static void create_cq_ex__with_what_there_is_not__is_not_supported(void **state)
{
    struct ibv_context *context = loop_context();
    struct ibv_cq_init_attr_ex attr = {.cqe = 4, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};

    (void)state;
    errno = 0;
    assert_null(ibv_create_cq_ex(context, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    attr.wc_flags = 0;
    attr.comp_vector = 1;
    assert_null(ibv_create_cq_ex(context, &attr));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_close_device(context), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qp_ex__only_where_it_was_asked_for),
        cmocka_unit_test(wr__one_of_each__in_one_batch),
        cmocka_unit_test(wr__of_a_window__binds_and_invalidates),
        cmocka_unit_test(wr__aborted_or_wrong__posts_nothing),
        cmocka_unit_test(wr__that_cannot_be_posted_whole__posts_nothing),
        cmocka_unit_test(start_poll__gives_fields_one_completion_at_a_time),
        cmocka_unit_test(start_poll__of_two_threads__gives_each_completion_once),
        cmocka_unit_test(create_cq_ex__with_what_there_is_not__is_not_supported),
    };

    return cmocka_run_group_tests_name("verbs_wr", tests, NULL, NULL);
}
