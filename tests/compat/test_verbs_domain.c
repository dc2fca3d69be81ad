/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Thread domains and parent domains: everything can be made in them, and nothing goes that is in
 * use.
 */
#include "loop.h"

struct domains {
    struct loop l;
    struct ibv_pd *base;
    struct ibv_td *td;
};

/* The loop's protection domain is a parent domain. */
static void domains_open(struct domains *d)
{
    struct ibv_td_init_attr nothing = {0};
    struct ibv_cq_init_attr_ex cq = {.cqe = 16,
                                     .comp_mask =
                                         IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD,
                                     .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED};
    const unsigned all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = 16, .max_sge = 2}};

    memset(d, 0, sizeof *d);
    d->l.context = loop_context();
    d->l.channel = ibv_create_comp_channel(d->l.context);
    d->base = ibv_alloc_pd(d->l.context);
    d->td = ibv_alloc_td(d->l.context, &nothing);
    assert_true(d->l.channel && d->base && d->td);
    d->l.pd = ibv_alloc_parent_domain(
        d->l.context, &(struct ibv_parent_domain_init_attr){.pd = d->base, .td = d->td});
    assert_non_null(d->l.pd);
    cq.channel = d->l.channel;
    cq.parent_domain = d->l.pd;
    d->l.srq = ibv_create_srq(d->l.pd, &srq);
    for (int i = 0; i < 2; i++) {
        d->l.cq[i] = ibv_cq_ex_to_cq(ibv_create_cq_ex(d->l.context, &cq));
        assert_non_null(d->l.cq[i]);
        d->l.qp[i] = loop_qp(&d->l, i, &(struct loop_options){0});
        assert_non_null(d->l.qp[i]);
        /* A region of the protection domain is one of its parent domain, too. */
        d->l.mr[i] = ibv_reg_mr(i ? d->base : d->l.pd, d->l.memory[i], LOOP_OCTETS, all);
        assert_non_null(d->l.mr[i]);
    }
}

static void domains_close(struct domains *d)
{
    struct loop *l = &d->l;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(ibv_dealloc_pd(l->pd), EBUSY);
        assert_int_equal(ibv_destroy_qp(l->qp[i]), 0);
        assert_int_equal(iwarp_conn_destroy(l->conn[i]), IWARP_OK);
        assert_int_equal(ibv_destroy_cq(l->cq[i]), 0);
        assert_int_equal(ibv_dereg_mr(l->mr[i]), 0);
    }
    assert_int_equal(ibv_dealloc_pd(l->pd), EBUSY);
    assert_int_equal(ibv_destroy_srq(l->srq), 0);
    assert_int_equal(ibv_dealloc_pd(l->pd), 0);
    assert_int_equal(ibv_dealloc_td(d->td), 0);
    assert_int_equal(ibv_dealloc_pd(d->base), 0);
    assert_int_equal(ibv_destroy_comp_channel(l->channel), 0);
    assert_int_equal(ibv_close_device(l->context), 0);
}

static void parent_domain__queue_pairs_in_it__send(void **state)
{
    struct domains d;

    (void)state;
    domains_open(&d);
    loop_connect(&d.l);
    memset(d.l.memory[0], 0x5c, 100);
    loop_recv(&d.l, 1, 7, 0, 100);
    struct ibv_sge sge = loop_sge(&d.l, 0, 0, 100);
    struct ibv_send_wr wr = {.wr_id = 9,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad = NULL;
    assert_int_equal(ibv_post_send(d.l.qp[0], &wr, &bad), 0);
    assert_int_equal(loop_expect(&d.l, 1, 7, IBV_WC_RECV).byte_len, 100);
    loop_expect(&d.l, 0, 9, IBV_WC_SEND);
    assert_memory_equal(d.l.memory[0], d.l.memory[1], 100);
    assert_int_equal(ibv_dealloc_pd(d.base), EBUSY);
    assert_int_equal(ibv_dealloc_td(d.td), EBUSY);
    domains_close(&d);
}

static void parent_domain__wrong__is_refused(void **state)
{
    struct ibv_context *context = loop_context();
    struct ibv_pd *base = ibv_alloc_pd(context);
    struct ibv_parent_domain_init_attr attr = {.pd = base};
    struct ibv_pd *parent = ibv_alloc_parent_domain(context, &attr);

    (void)state;
    assert_non_null(parent); /* a thread domain is not needed */
    attr.pd = parent;
    errno = 0;
    assert_null(ibv_alloc_parent_domain(context, &attr));
    assert_int_equal(errno, EINVAL);
    attr.pd = NULL;
    assert_null(ibv_alloc_parent_domain(context, &attr));
    attr.pd = base;
    attr.comp_mask = 1u << 7;
    errno = 0;
    assert_null(ibv_alloc_parent_domain(context, &attr));
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_alloc_td(context, &(struct ibv_td_init_attr){.comp_mask = 1}));
    assert_int_equal(ibv_dealloc_pd(base), EBUSY);
    assert_int_equal(ibv_dealloc_pd(parent), 0);
    assert_int_equal(ibv_dealloc_pd(base), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parent_domain__queue_pairs_in_it__send),
        cmocka_unit_test(parent_domain__wrong__is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
