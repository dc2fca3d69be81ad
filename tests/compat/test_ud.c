/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs of datagrams (UD): what arrives and with what in front, what is dropped and nobody
 * hears of, and that neither ends the queue pair.
 */
#include "late.h"
#include "numbered.h"

#include <arpa/inet.h>
#include <errno.h>

#define QKEY 0x1234567u

enum { HEAD = 40, AT = 1024, SLOT = 2048 };

static const struct loop_options datagrams = {.unconnected = true, .datagrams = true};
static const struct loop_options extended = {
    .unconnected = true, .datagrams = true, .extended = true};
static const struct loop_options shared = {.unconnected = true, .datagrams = true, .srq = true};

static void ud_init(struct ibv_qp *qp)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

    assert_int_equal(
        ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
}

static void ud_rts(struct ibv_qp *qp)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS, .sq_psn = 1};

    to_state(qp, IBV_QPS_RTR);
    assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
    assert_int_equal(qp->state, IBV_QPS_RTS);
}

static void open_both(struct loop *l, const struct loop_options *o)
{
    loop_open(l, o);
    for (int i = 0; i < 2; i++) {
        ud_init(l->qp[i]);
        ud_rts(l->qp[i]);
    }
}

static struct ibv_ah *handle(struct loop *l)
{
    struct ibv_ah_attr a = {.port_num = 1, .is_global = 1, .grh = {.hop_limit = 9}};

    assert_int_equal(ibv_query_gid(l->context, 1, 0, &a.grh.dgid), 0);
    struct ibv_ah *ah = ibv_create_ah(l->pd, &a);
    assert_non_null(ah);
    return ah;
}

static struct ibv_send_wr request(struct ibv_ah *ah, uint32_t number, uint32_t qkey)
{
    return (struct ibv_send_wr){.wr_id = 1,
                                .opcode = IBV_WR_SEND,
                                .send_flags = IBV_SEND_SIGNALED,
                                .wr.ud = {.ah = ah, .remote_qpn = number, .remote_qkey = qkey}};
}

static int send_it(struct loop *l, int side, struct ibv_send_wr *wr, uint32_t length)
{
    struct ibv_sge sge = loop_sge(l, side, AT, length);
    struct ibv_send_wr *bad = NULL;

    wr->sg_list = &sge;
    wr->num_sge = 1;
    int error = ibv_post_send(l->qp[side], wr, &bad);
    assert_true(error == 0 || bad == wr);
    return error;
}

static void send_to(struct loop *l, int side, struct ibv_ah *ah, uint32_t number, uint32_t length)
{
    struct ibv_send_wr wr = request(ah, number, QKEY);

    fill_octets(l->memory[side] + AT, length, length);
    assert_int_equal(send_it(l, side, &wr, length), 0);
    loop_expect(l, side, 1, IBV_WC_SEND);
}

static struct ibv_wc expect_from(struct loop *l, int side, uint32_t number, uint32_t length)
{
    struct ibv_wc wc = loop_expect(l, side, 2, IBV_WC_RECV);

    assert_int_equal(wc.byte_len, HEAD + length);
    assert_int_equal(wc.src_qp, number);
    assert_int_equal(wc.wc_flags & IBV_WC_GRH, IBV_WC_GRH);
    return wc;
}

/* --- what arrives ---------------------------------------------------------------------------- */

/* The answer goes to whom the completion and the octets in front say. */
static void datagram__each_way__arrives_behind_its_grh(void **state)
{
    struct loop l;
    struct ibv_ah_attr a;

    (void)state;
    open_both(&l, &datagrams);
    struct ibv_ah *ah = handle(&l);
    for (uint32_t length = 0; length <= SLOT; length = length * 3 + 1) {
        memset(l.memory[1], 0, HEAD + length);
        loop_recv(&l, 1, 2, 0, HEAD + SLOT);
        send_to(&l, 0, ah, l.qp[1]->qp_num, length);
        struct ibv_wc wc = expect_from(&l, 1, l.qp[0]->qp_num, length);
        assert_memory_equal(l.memory[1] + HEAD, l.memory[0] + AT, length);

        struct ibv_grh *grh = (void *)l.memory[1];
        assert_int_equal(ibv_init_ah_from_wc(l.context, 1, &wc, grh, &a), 0);
        assert_int_equal(a.is_global, 1);
        struct ibv_ah *back = ibv_create_ah_from_wc(l.pd, &wc, grh, 1);
        assert_non_null(back);
        loop_recv(&l, 0, 2, 4096, HEAD + SLOT);
        send_to(&l, 1, back, wc.src_qp, length);
        expect_from(&l, 0, l.qp[1]->qp_num, length);
        assert_memory_equal(l.memory[0] + 4096 + HEAD, l.memory[1] + AT, length);
        assert_int_equal(ibv_destroy_ah(back), 0);
    }
    assert_int_equal(ibv_destroy_ah(ah), 0);
    loop_close(&l);
}

/* The header of IPv4 in the last 20 octets has a right checksum, and both addresses. */
static void grh__of_an_ipv4_address__is_what_adapters_leave(void **state)
{
    struct loop l;
    union ibv_gid gid;
    uint32_t sum = 0;

    (void)state;
    open_both(&l, &datagrams);
    assert_int_equal(ibv_query_gid(l.context, 1, 0, &gid), 0);
    if (gid.raw[10] != 0xff) { /* the machine has IPv6 alone */
        loop_close(&l);
        return;
    }
    struct ibv_ah *ah = handle(&l);
    loop_recv(&l, 0, 2, 0, HEAD + 8);
    send_to(&l, 0, ah, l.qp[0]->qp_num, 8); /* to itself */
    struct ibv_wc wc = expect_from(&l, 0, l.qp[0]->qp_num, 8);
    assert_int_equal(wc.sl, 0xa);
    const uint8_t *ip = l.memory[0] + 20;
    assert_int_equal(ip[0], 0x45);
    assert_int_equal(ip[8], 9); /* the hop limit of the address handle */
    assert_memory_equal(ip + 16, gid.raw + 12, 4);
    for (int i = 0; i < 20; i += 2) {
        sum += (uint32_t)ip[i] << 8 | ip[i + 1];
    }
    assert_int_equal((sum & 0xffff) + (sum >> 16), 0xffff);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    loop_close(&l);
}

static void datagram__with_immediate_data_and_inline__arrives(void **state)
{
    struct loop l;

    (void)state;
    open_both(&l, &datagrams);
    struct ibv_ah *ah = handle(&l);
    struct ibv_send_wr wr = request(ah, l.qp[1]->qp_num, QKEY);
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.imm_data = htonl(0xfedcba98);
    wr.send_flags |= IBV_SEND_INLINE;
    loop_recv(&l, 1, 2, 0, HEAD + SLOT);
    fill_octets(l.memory[0] + AT, 60, 1);
    assert_int_equal(send_it(&l, 0, &wr, 60), 0);
    memset(l.memory[0] + AT, 0, 60); /* inline data was copied */
    loop_expect(&l, 0, 1, IBV_WC_SEND);
    struct ibv_wc wc = expect_from(&l, 1, l.qp[0]->qp_num, 60);
    assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
    assert_int_equal(ntohl(wc.imm_data), 0xfedcba98);
    fill_octets(l.memory[0] + AT, 60, 1);
    assert_memory_equal(l.memory[1] + HEAD, l.memory[0] + AT, 60);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    loop_close(&l);
}

static void datagram__by_the_extended_calls__arrives(void **state)
{
    struct loop l;

    (void)state;
    open_both(&l, &extended);
    struct ibv_ah *ah = handle(&l);
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(l.qp[0]);
    loop_recv(&l, 1, 2, 0, HEAD + SLOT);
    loop_recv(&l, 1, 2, SLOT * 2, HEAD + SLOT);
    fill_octets(l.memory[0] + AT, 500, 4);
    ibv_wr_start(ex);
    for (uint64_t i = 0; i < 2; i++) {
        ex->wr_id = i + 10;
        ex->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_send(ex);
        ibv_wr_set_ud_addr(ex, ah, l.qp[1]->qp_num, QKEY);
        ibv_wr_set_sge(ex, l.mr[0]->lkey, (uintptr_t)(l.memory[0] + AT), 500);
    }
    assert_int_equal(ibv_wr_complete(ex), 0);
    for (uint64_t i = 0; i < 2; i++) {
        loop_expect(&l, 0, i + 10, IBV_WC_SEND);
        expect_from(&l, 1, l.qp[0]->qp_num, 500);
        assert_memory_equal(l.memory[1] + i * SLOT * 2 + HEAD, l.memory[0] + AT, 500);
    }
    assert_int_equal(ibv_destroy_ah(ah), 0);
    loop_close(&l);
}

static void datagram__to_a_shared_receive_queue__arrives(void **state)
{
    struct loop l;

    (void)state;
    open_both(&l, &shared);
    struct ibv_ah *ah = handle(&l);
    for (int i = 0; i < 30; i++) {
        loop_recv(&l, 1, 2, 0, HEAD + 100);
        send_to(&l, 0, ah, l.qp[1]->qp_num, 100);
        expect_from(&l, 1, l.qp[0]->qp_num, 100);
    }
    assert_int_equal(ibv_destroy_ah(ah), 0);
    loop_close(&l);
}

/* --- what is dropped ------------------------------------------------------------------------- */

/* A wrong Q_Key, no such queue pair, one of type RC: the next datagram arrives all the same. */
static void datagram__that_nobody_takes__is_dropped(void **state)
{
    struct loop l, other;

    (void)state;
    open_both(&l, &datagrams);
    loop_open(&other, &(struct loop_options){.unconnected = true});
    to_rtr(other.qp[0], other.qp[1]->qp_num, &usual);
    struct ibv_ah *ah = handle(&l);
    const uint32_t none = (l.qp[1]->qp_num & 0xffff00) + 0xfe;
    struct ibv_send_wr wrong[] = {request(ah, l.qp[1]->qp_num, QKEY + 1), request(ah, none, QKEY),
                                  request(ah, other.qp[0]->qp_num, QKEY)};
    loop_recv(&l, 1, 2, 0, HEAD + 100);
    for (int i = 0; i < 9; i++) {
        assert_int_equal(send_it(&l, 0, &wrong[i % 3], 10), 0);
        loop_expect(&l, 0, 1, IBV_WC_SEND);
    }
    nap_ms(300);
    quiet(&l, 1);
    struct ibv_send_wr own = request(ah, l.qp[1]->qp_num, 0x80000000u); /* this end's Q_Key */
    assert_int_equal(send_it(&l, 0, &own, 77), 0);
    loop_expect(&l, 0, 1, IBV_WC_SEND);
    expect_from(&l, 1, l.qp[0]->qp_num, 77);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    loop_close(&other);
    loop_close(&l);
}

/* Many more than there are buffers for: sends complete, memory is bounded, and once receives are
 * posted datagrams arrive again. */
static void datagrams__without_receives__are_dropped_and_end_nothing(void **state)
{
    struct loop l;

    (void)state;
    open_both(&l, &datagrams);
    struct ibv_ah *ah = handle(&l);
    for (int i = 0; i < 2000; i++) {
        send_to(&l, 0, ah, l.qp[1]->qp_num, 1000);
    }
    struct ibv_wc wc;
    int got = 0;
    for (int quiet_for = 0; quiet_for < 5; quiet_for++) {
        loop_recv(&l, 1, 2, 0, HEAD + SLOT);
        for (int ms = 0; ms < 200 && ibv_poll_cq(l.cq[1], 1, &wc) == 0; ms += 10) {
            nap_ms(10);
            wc.status = IBV_WC_GENERAL_ERR;
        }
        if (wc.status == IBV_WC_SUCCESS) {
            got++;
            quiet_for = -1;
            assert_true(got < 2000);
        }
    }
    assert_true(got > 0);
    send_to(&l, 0, ah, l.qp[1]->qp_num, 33);
    expect_from(&l, 1, l.qp[0]->qp_num, 33);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    loop_close(&l);
}

/* --- what is refused ------------------------------------------------------------------------- */

static void post__of_what_is_no_datagram__is_refused(void **state)
{
    static uint8_t large[4097];
    struct loop l;

    (void)state;
    loop_open(&l, &datagrams);
    struct ibv_qp_init_attr more = {.send_cq = l.cq[0],
                                    .recv_cq = l.cq[0],
                                    .cap = {.max_send_wr = 1, .max_send_sge = 32},
                                    .qp_type = IBV_QPT_UD};
    assert_null(ibv_create_qp(l.pd, &more));
    assert_int_equal(errno, EINVAL);
    struct ibv_ah *ah = handle(&l);
    struct ibv_send_wr wr = request(ah, l.qp[1]->qp_num, QKEY);
    assert_int_equal(send_it(&l, 0, &wr, 8), EINVAL); /* not in RTS */
    ud_init(l.qp[0]);
    ud_rts(l.qp[0]);
    wr.wr.ud.ah = NULL;
    assert_int_equal(send_it(&l, 0, &wr, 8), EINVAL);
    wr.wr.ud.ah = ah;
    wr.opcode = IBV_WR_RDMA_WRITE;
    assert_int_equal(send_it(&l, 0, &wr, 8), EINVAL);
    wr.opcode = IBV_WR_SEND;
    struct ibv_mr *mr = ibv_reg_mr(l.pd, large, sizeof large, 0);
    struct ibv_sge sge = {.addr = (uintptr_t)large, .length = sizeof large, .lkey = mr->lkey};
    struct ibv_send_wr *bad = NULL;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    assert_int_equal(ibv_post_send(l.qp[0], &wr, &bad), EINVAL);
    sge.length = 4096;
    assert_int_equal(ibv_post_send(l.qp[0], &wr, &bad), 0);
    loop_expect(&l, 0, 1, IBV_WC_SEND);
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD};
    assert_int_equal(ibv_modify_qp(l.qp[0], &a, IBV_QP_STATE), EINVAL);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    loop_close(&l);
}

/* --- states ---------------------------------------------------------------------------------- */

static void qp__from_err_over_reset__flushes_and_takes_datagrams_again(void **state)
{
    struct ibv_qp_attr a;
    struct ibv_qp_init_attr init;
    struct loop l;

    (void)state;
    open_both(&l, &datagrams);
    struct ibv_ah *ah = handle(&l);
    for (int round = 0; round < 3; round++) {
        loop_recv(&l, 1, 2, 0, HEAD + 100);
        send_to(&l, 0, ah, l.qp[1]->qp_num, 50);
        expect_from(&l, 1, l.qp[0]->qp_num, 50);
        loop_recv(&l, 1, 9, 0, HEAD + 100);
        to_state(l.qp[1], IBV_QPS_ERR);
        struct ibv_wc wc = loop_wc(&l, 1);
        assert_int_equal(wc.wr_id, 9);
        assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(ibv_query_qp(l.qp[1], &a, IBV_QP_STATE, &init), 0);
        assert_int_equal(a.qp_state, IBV_QPS_ERR);
        assert_int_equal(init.qp_type, IBV_QPT_UD);
        to_state(l.qp[1], IBV_QPS_RESET);
        ud_init(l.qp[1]);
        ud_rts(l.qp[1]);
        assert_int_equal(ibv_query_qp(l.qp[1], &a, IBV_QP_QKEY, &init), 0);
        assert_int_equal(a.qkey, QKEY);
        nap_ms(300); /* what the other end sends on the old way is lost */
    }
    assert_int_equal(ibv_destroy_ah(ah), 0);
    loop_close(&l);
}

static void post__in_err__is_flushed(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l, &datagrams);
    struct ibv_ah *ah = handle(&l);
    struct ibv_send_wr wr = request(ah, l.qp[1]->qp_num, QKEY);
    for (int round = 0; round < 20; round++) {
        ud_init(l.qp[0]);
        if (round % 2) {
            ud_rts(l.qp[0]);
        }
        to_state(l.qp[0], IBV_QPS_ERR);
        assert_int_equal(send_it(&l, 0, &wr, 8), 0);
        assert_int_equal(loop_wc(&l, 0).status, IBV_WC_WR_FLUSH_ERR);
        to_state(l.qp[0], IBV_QPS_RESET);
        assert_int_equal(send_it(&l, 0, &wr, 8), EINVAL);
    }
    assert_int_equal(ibv_destroy_ah(ah), 0);
    loop_close(&l);
}

struct poster {
    struct loop *l;
    struct ibv_send_wr wr;
    int error;
};

static void *post_late(void *arg)
{
    struct poster *p = arg;

    inner_returns_late = true;
    p->error = send_it(p->l, 0, &p->wr, 8);
    return NULL;
}

static _Atomic bool destroyed;

static void *destroy_first(void *arg)
{
    struct loop *l = arg;

    assert_int_equal(ibv_destroy_qp(l->qp[0]), 0);
    atomic_store(&destroyed, true);
    return NULL;
}

/* The thread that posts holds a lock of the queue pair when the completion is there. In ERR: else
 * the call that destroys would wait for the datagram, too. */
static void destroy__under_a_post_that_returns_late__waits_for_it(void **state)
{
    pthread_t posts, destroys;
    struct loop l;

    (void)state;
    open_both(&l, &datagrams);
    struct ibv_ah *ah = handle(&l);
    struct poster p = {.l = &l, .wr = request(ah, l.qp[1]->qp_num, QKEY)};
    to_state(l.qp[0], IBV_QPS_ERR);
    assert_int_equal(pthread_create(&posts, NULL, post_late, &p), 0);
    await_late();
    assert_int_equal(loop_wc(&l, 0).status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(pthread_create(&destroys, NULL, destroy_first, &l), 0);
    nap_ms(100);
    assert_false(atomic_load(&destroyed));
    let_return();
    assert_int_equal(pthread_join(posts, NULL), 0);
    assert_int_equal(pthread_join(destroys, NULL), 0);
    assert_int_equal(p.error, 0);
    l.qp[0] = loop_qp(&l, 0, &datagrams);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    loop_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(datagram__each_way__arrives_behind_its_grh),
        cmocka_unit_test(grh__of_an_ipv4_address__is_what_adapters_leave),
        cmocka_unit_test(datagram__with_immediate_data_and_inline__arrives),
        cmocka_unit_test(datagram__by_the_extended_calls__arrives),
        cmocka_unit_test(datagram__to_a_shared_receive_queue__arrives),
        cmocka_unit_test(datagram__that_nobody_takes__is_dropped),
        cmocka_unit_test(datagrams__without_receives__are_dropped_and_end_nothing),
        cmocka_unit_test(post__of_what_is_no_datagram__is_refused),
        cmocka_unit_test(qp__from_err_over_reset__flushes_and_takes_datagrams_again),
        cmocka_unit_test(post__in_err__is_flushed),
        cmocka_unit_test(destroy__under_a_post_that_returns_late__waits_for_it),
    };

    return cmocka_run_group_tests_name("ud", tests, NULL, NULL);
}
