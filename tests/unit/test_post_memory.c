/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting REG_MR, BIND_MW, LOCAL_INV and READ_INV: what is misuse at once, what completes as an
 * error, signaled and unsignaled completions, and whole chains as a storage program posts them.
 */
#include "verbs_pair.h"

struct scene {
    struct pair p;
    struct pair_side *s;
    struct iwarp_mr *mr; /* allocated, without memory */
    struct iwarp_mw *mw; /* of type 2 */
};

static void scene_open(struct scene *x, unsigned max_send_sge)
{
    struct pair_options o;

    pair_options_init(&o, PAIR_MEMORY);
    o.qp.max_send_sge = max_send_sge;
    o.qp.max_inline = 0;
    pair_open(&x->p, &o);
    x->s = &x->p.side[0];
    must(iwarp_mr_alloc(x->s->pd, &x->mr));
    must(iwarp_mw_alloc(x->s->pd, IWARP_MW_TYPE_2, &x->mw));
}

static void scene_close(struct scene *x)
{
    must(iwarp_mw_free(x->mw));
    must(iwarp_mr_deregister(x->mr));
    pair_close(&x->p);
}

static struct iwarp_bind whole(const struct scene *x, unsigned access, uint8_t key)
{
    return (struct iwarp_bind){.mr = x->mr,
                               .addr = x->s->p,
                               .len = 4096,
                               .to_base = (uint64_t)(uintptr_t)x->s->p,
                               .access = access,
                               .key = key};
}

static enum iwarp_status post(struct scene *x, enum iwarp_wr_opcode opcode,
                              const struct iwarp_bind *b)
{
    const struct iwarp_send_wr wr = {
        .wr_id = 1, .opcode = opcode, .flags = IWARP_WR_SIGNALED, .bind = b};

    return iwarp_post_send(x->s->qp, &wr, NULL);
}

static void post__what_can_never_work__is_misuse_and_changes_nothing(void **state)
{
    struct iwarp_device *other;
    struct iwarp_pd *other_pd;
    struct iwarp_mr *other_mr;
    struct iwarp_mw *other_mw;
    struct scene x;

    (void)state;
    scene_open(&x, 4);
    must(iwarp_device_open(NULL, &other));
    must(iwarp_pd_create(other, &other_pd));
    must(iwarp_mr_alloc(other_pd, &other_mr));
    must(iwarp_mw_alloc(other_pd, IWARP_MW_TYPE_2, &other_mw));
    const uint32_t mr_stag = iwarp_mr_stag(x.mr), mw_stag = iwarp_mw_stag(x.mw);
    const struct iwarp_bind good = whole(&x, 0, 1);
    struct iwarp_bind b = good;
    must_fail(post(&x, IWARP_WR_REG_MR, NULL), IWARP_MISUSE, "bind");
    must_fail(post(&x, IWARP_WR_BIND_MW, NULL), IWARP_MISUSE, "bind");
    must_fail(post(&x, IWARP_WR_BIND_MW, &b), IWARP_MISUSE, "window"); /* mw is NULL */
    b.mr = NULL;
    must_fail(post(&x, IWARP_WR_REG_MR, &b), IWARP_MISUSE, "region");
    b.mw = x.mw;
    must_fail(post(&x, IWARP_WR_BIND_MW, &b), IWARP_MISUSE, "region");
    b.mr = other_mr;
    must_fail(post(&x, IWARP_WR_REG_MR, &b), IWARP_MISUSE, "device");
    must_fail(post(&x, IWARP_WR_BIND_MW, &b), IWARP_MISUSE, "device");
    b = good;
    b.mw = other_mw;
    must_fail(post(&x, IWARP_WR_BIND_MW, &b), IWARP_MISUSE, "device");
    b.mw = x.mw;
    b.access = IWARP_ACCESS_LOCAL_WRITE;
    must_fail(post(&x, IWARP_WR_BIND_MW, &b), IWARP_MISUSE, "0x1");
    b.access = IWARP_ACCESS_REMOTE_READ | IWARP_ACCESS_MW_BIND;
    must_fail(post(&x, IWARP_WR_BIND_MW, &b), IWARP_MISUSE, "0x10");
    b = good;
    b.access = IWARP_ACCESS_REMOTE_WRITE;
    must_fail(post(&x, IWARP_WR_REG_MR, &b), IWARP_MISUSE, "LOCAL_WRITE");
    b.access = 1u << 20;
    must_fail(post(&x, IWARP_WR_REG_MR, &b), IWARP_MISUSE, "0x100000");
    b = good;
    b.to_base = UINT64_MAX - 4094;
    must_fail(post(&x, IWARP_WR_REG_MR, &b), IWARP_MISUSE, "2^64");
    b.to_base = 0;
    b.addr = (void *)(UINTPTR_MAX - 4094);
    must_fail(post(&x, IWARP_WR_REG_MR, &b), IWARP_MISUSE, "address space");
    struct iwarp_sge sge = pair_sge(x.s, 0, 8);
    struct iwarp_send_wr wr = {.opcode = IWARP_WR_LOCAL_INV, .sg_list = &sge, .num_sge = 1};
    must_fail(iwarp_post_send(x.s->qp, &wr, NULL), IWARP_MISUSE, "no SGEs");
    wr = (struct iwarp_send_wr){.opcode = IWARP_WR_LOCAL_INV, .flags = IWARP_WR_INLINE};
    must_fail(iwarp_post_send(x.s->qp, &wr, NULL), IWARP_MISUSE, "INLINE");
    wr = (struct iwarp_send_wr){.opcode = IWARP_WR_READ_INV};
    must_fail(iwarp_post_send(x.s->qp, &wr, NULL), IWARP_MISUSE, "SGE");
    wr = (struct iwarp_send_wr){.opcode = (enum iwarp_wr_opcode)99};
    must_fail(iwarp_post_send(x.s->qp, &wr, NULL), IWARP_MISUSE, "99");
    assert_int_equal(iwarp_mr_stag(x.mr), mr_stag);
    assert_int_equal(iwarp_mw_stag(x.mw), mw_stag);
    pair_no_wc(x.s->send_cq);
    assert_int_equal(iwarp_qp_state(x.s->qp), IWARP_QP_RTS);
    must(iwarp_mw_free(other_mw));
    must(iwarp_mr_deregister(other_mr));
    must(iwarp_pd_destroy(other_pd));
    must(iwarp_device_close(other));
    scene_close(&x);
}

/* [VERBS-7.10.6.1-01] Queue pairs may be kept from binding; that can be changed. */
/* The STags are those of before, too, and the first request of the chain may be posted alone. */
static void together__last_one_is_misuse__changes_no_stag(void **state)
{
    struct scene x;

    (void)state;
    scene_open(&x, 4);
    const uint32_t mr_stag = iwarp_mr_stag(x.mr), mw_stag = iwarp_mw_stag(x.mw);
    const struct iwarp_bind reg = whole(&x, IWARP_ACCESS_MW_BIND, (uint8_t)(mr_stag + 1));
    const struct iwarp_bind again = whole(&x, 0, (uint8_t)(mr_stag + 2));
    struct iwarp_bind window = whole(&x, IWARP_ACCESS_REMOTE_READ, (uint8_t)(mw_stag + 1));
    window.mw = x.mw;
    const struct iwarp_send_wr bad = {.wr_id = 4, .num_sge = 99};
    const struct iwarp_send_wr third = {
        .next = &bad, .wr_id = 3, .opcode = IWARP_WR_REG_MR, .bind = &again};
    const struct iwarp_send_wr second = {
        .next = &third, .wr_id = 2, .opcode = IWARP_WR_BIND_MW, .bind = &window};
    const struct iwarp_send_wr first = {
        .next = &second, .wr_id = 1, .opcode = IWARP_WR_REG_MR, .bind = &reg};
    const struct iwarp_send_wr *at = NULL;
    must_fail(iwarp_post_send_together(x.s->qp, &first, &at), IWARP_MISUSE, "99 SGEs");
    assert_ptr_equal(at, &bad);
    assert_int_equal(iwarp_mr_stag(x.mr), mr_stag);
    assert_int_equal(iwarp_mw_stag(x.mw), mw_stag);
    must(post(&x, IWARP_WR_REG_MR, &reg));
    pair_wc(x.s->send_cq, 1, IWARP_WC_SUCCESS);
    assert_int_equal(iwarp_mr_stag(x.mr), (mr_stag & ~0xffu) | reg.key);
    scene_close(&x);
}

static void bind__queue_pair_without_mw_bind__is_misuse(void **state)
{
    struct iwarp_qp_changes to = {
        .size = sizeof to, .mask = IWARP_QP_CHANGE_ACCESS, .access = IWARP_ACCESS_REMOTE_READ};
    struct scene x;

    (void)state;
    scene_open(&x, 4);
    struct iwarp_bind b = {.mw = x.mw}; /* length 0: possible otherwise */
    must(post(&x, IWARP_WR_BIND_MW, &b));
    pair_wc(x.s->send_cq, 1, IWARP_WC_SUCCESS);
    must(iwarp_qp_modify(x.s->qp, &to));
    must_fail(post(&x, IWARP_WR_BIND_MW, &b), IWARP_MISUSE, "MW_BIND");
    to.access |= IWARP_ACCESS_MW_BIND;
    must(iwarp_qp_modify(x.s->qp, &to));
    must(post(&x, IWARP_WR_BIND_MW, &b));
    pair_wc(x.s->send_cq, 1, IWARP_WC_SUCCESS);
    scene_close(&x);
}

static void register__each_way_of_addressing__is_what_the_region_has(void **state)
{
    struct scene x;

    (void)state;
    scene_open(&x, 4);
    for (uint8_t zero = 0; zero < 2; zero++) {
        struct iwarp_stag_info info = {.size = sizeof info};
        struct iwarp_bind b =
            whole(&x, IWARP_ACCESS_REMOTE_READ | (zero ? IWARP_ACCESS_ZERO_BASED : 0u), zero);
        must(post(&x, IWARP_WR_REG_MR, &b));
        pair_wc(x.s->send_cq, 1, IWARP_WC_SUCCESS);
        must(iwarp_mr_query(x.mr, &info));
        assert_true(info.valid);
        assert_ptr_equal(info.addr, b.addr);
        assert_int_equal(info.len, b.len);
        assert_int_equal(info.to_base, zero ? 0 : b.to_base);
        const struct iwarp_send_wr end = {.wr_id = 2,
                                          .opcode = IWARP_WR_LOCAL_INV,
                                          .flags = IWARP_WR_SIGNALED,
                                          .invalidate_stag = info.stag};
        must(iwarp_post_send(x.s->qp, &end, NULL));
        pair_wc(x.s->send_cq, 2, IWARP_WC_SUCCESS);
    }
    scene_close(&x);
}

/* One SGE and no inline data: the entry of the queue still has room for a binding. */
static void post__with_the_smallest_queue_entries__works(void **state)
{
    struct scene x;

    (void)state;
    scene_open(&x, 1);
    for (unsigned i = 0; i < 500; i++) { /* several times around the ring */
        const struct iwarp_bind b = whole(&x, IWARP_ACCESS_REMOTE_READ, (uint8_t)i);
        const struct iwarp_send_wr inv = {.wr_id = 2,
                                          .opcode = IWARP_WR_LOCAL_INV,
                                          .flags = IWARP_WR_SIGNALED,
                                          .invalidate_stag =
                                              iwarp_stag_with_key(iwarp_mr_stag(x.mr), (uint8_t)i)};
        const struct iwarp_send_wr reg = {
            .next = &inv, .wr_id = 1, .opcode = IWARP_WR_REG_MR, .bind = &b};
        must(iwarp_post_send(x.s->qp, &reg, NULL)); /* unsignaled: only the second is told */
        assert_int_equal(pair_wc(x.s->send_cq, 2, IWARP_WC_SUCCESS).opcode, IWARP_WC_LOCAL_INV);
        assert_ptr_equal(iwarp_mr_addr(x.mr), x.s->p);
    }
    pair_no_wc(x.s->send_cq);
    scene_close(&x);
}

/*
 * As a storage program does it: register, tell the peer, the peer writes and invalidates; then the
 * same again. VERBS-8.2.2.1-03, VERBS-8.2.2.1-01.
 */
static void chain__register_and_send__then_the_peer_writes_and_invalidates(void **state)
{
    struct scene x;

    (void)state;
    scene_open(&x, 4);
    struct pair_side *peer = &x.p.side[1];
    for (unsigned i = 0; i < 100; i++) {
        struct iwarp_bind b =
            whole(&x, IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE, (uint8_t)(i + 1));
        b.to_base = 1000 * i;
        uint32_t stag = iwarp_stag_with_key(iwarp_mr_stag(x.mr), b.key);
        struct iwarp_sge note = pair_sge(x.s, 5000, 4);
        memcpy(x.s->p + 5000, &stag, sizeof stag);
        struct iwarp_send_wr send = pair_wr(IWARP_WR_SEND, 2, &note);
        const struct iwarp_send_wr reg = {
            .next = &send, .wr_id = 1, .opcode = IWARP_WR_REG_MR, .bind = &b};
        pair_recv(peer, 10, 0, 4);
        pair_recv(x.s, 11, 6000, 4);
        must(iwarp_post_send(x.s->qp, &reg, NULL));
        pair_wc(peer->recv_cq, 10, IWARP_WC_SUCCESS);
        struct iwarp_sge data = pair_sge(peer, 100, 64), empty = pair_sge(peer, 0, 0);
        pair_fill(peer->p + 100, 64, i);
        struct iwarp_send_wr inv = pair_wr(IWARP_WR_SEND_INV, 13, &empty);
        memcpy(&inv.invalidate_stag, peer->p, sizeof stag);
        struct iwarp_send_wr write = pair_wr(IWARP_WR_WRITE, 12, &data);
        write.flags = 0;
        write.next = &inv;
        write.remote_stag = inv.invalidate_stag;
        write.remote_to = 1000 * i + 8;
        must(iwarp_post_send(peer->qp, &write, NULL));
        struct iwarp_wc wc = pair_wc(x.s->recv_cq, 11, IWARP_WC_SUCCESS);
        assert_int_equal(wc.flags, IWARP_WC_WITH_INVALIDATE);
        assert_int_equal(wc.invalidated_stag, stag);
        assert_memory_equal(x.s->p + 8, peer->p + 100, 64);
        pair_wc(x.s->send_cq, 2, IWARP_WC_SUCCESS);
        pair_wc(peer->send_cq, 13, IWARP_WC_SUCCESS);
    }
    scene_close(&x);
}

/* An invalid one completes as an error, whatever it was signaled as; what follows is flushed. */
static void complete__not_possible__is_told_and_flushes_the_rest(void **state)
{
    struct iwarp_stag_info info = {.size = sizeof info};
    char text[400];
    struct scene x;

    (void)state;
    scene_open(&x, 4);
    const struct iwarp_bind reg = whole(&x, 0, 1), again = whole(&x, 0, 2);
    struct iwarp_send_wr send = {.wr_id = 3, .opcode = IWARP_WR_SEND};
    struct iwarp_send_wr second = {
        .next = &send, .wr_id = 2, .opcode = IWARP_WR_REG_MR, .bind = &again};
    struct iwarp_send_wr first = {
        .next = &second, .wr_id = 1, .opcode = IWARP_WR_REG_MR, .bind = &reg};
    must(iwarp_post_send(x.s->qp, &first, NULL));
    struct iwarp_wc wc = pair_wc(x.s->send_cq, 2, IWARP_WC_LOCAL_BIND);
    assert_int_equal(iwarp_fault_code(wc.fault), IWARP_FAULT_LOCAL_REGISTER_VALID);
    iwarp_fault_text(wc.fault, text, sizeof text);
    assert_non_null(strstr(text, "invalidate it first"));
    pair_wc(x.s->send_cq, 3, IWARP_WC_FLUSHED);
    must(iwarp_conn_wait_end(x.s->conn, PAIR_WAIT_MS));
    must(iwarp_mr_query(x.mr, &info));
    assert_int_equal(info.stag & 0xff, 1); /* the first one was carried out */
    assert_true(info.valid);
    scene_close(&x);
}

/* VERBS-8.2.2.1-02: when the Read completes its sink is closed. */
static void read_inv__completed__has_invalidated_its_sink(void **state)
{
    struct iwarp_stag_info info = {.size = sizeof info};
    struct scene x;

    (void)state;
    scene_open(&x, 4);
    struct pair_side *peer = &x.p.side[1];
    const struct iwarp_bind b = whole(&x, IWARP_ACCESS_LOCAL_WRITE, 9);
    const struct iwarp_send_wr reg = {.wr_id = 1, .opcode = IWARP_WR_REG_MR, .bind = &b};
    must(iwarp_post_send(x.s->qp, &reg, NULL));
    pair_fill(peer->p, 3000, 4);
    struct iwarp_sge sge = {x.s->p, 3000, iwarp_mr_stag(x.mr)};
    struct iwarp_send_wr read = pair_wr(IWARP_WR_READ_INV, 2, &sge);
    read.remote_stag = iwarp_mr_stag(peer->mr);
    read.remote_to = (uint64_t)(uintptr_t)peer->p;
    must(iwarp_post_send(x.s->qp, &read, NULL));
    struct iwarp_wc wc = pair_wc(x.s->send_cq, 2, IWARP_WC_SUCCESS);
    assert_int_equal(wc.opcode, IWARP_WC_READ);
    assert_int_equal(wc.byte_len, 3000);
    assert_memory_equal(x.s->p, peer->p, 3000);
    must(iwarp_mr_query(x.mr, &info));
    assert_false(info.valid);
    assert_int_equal(info.stag, sge.lkey);
    scene_close(&x);
}

/* A region for one queue pair is not usable by another of the same protection domain. */
static void region__of_another_queue_pair__is_refused_locally(void **state)
{
    struct iwarp_mr_options o;
    struct iwarp_qp_options q;
    struct iwarp_qp *stranger;
    struct iwarp_mr *mr;
    struct scene x;

    (void)state;
    scene_open(&x, 4);
    iwarp_qp_options_init(&q);
    q.send_cq = x.s->send_cq;
    q.recv_cq = x.s->recv_cq;
    must(iwarp_qp_create(x.s->pd, &q, &stranger));
    iwarp_mr_options_init(&o, x.s->p, 8, 0);
    o.qp = stranger;
    must(iwarp_mr_create(x.s->pd, &o, &mr));
    struct iwarp_sge sge = {x.s->p, 8, iwarp_mr_stag(mr)};
    struct iwarp_send_wr send = pair_wr(IWARP_WR_SEND, 1, &sge);
    must(iwarp_post_send(x.s->qp, &send, NULL));
    pair_wc(x.s->send_cq, 1, IWARP_WC_LOCAL_PROTECTION);
    must(iwarp_conn_wait_end(x.s->conn, PAIR_WAIT_MS));
    must(iwarp_qp_destroy(stranger));
    must(iwarp_mr_deregister(mr));
    scene_close(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(post__what_can_never_work__is_misuse_and_changes_nothing),
        cmocka_unit_test(together__last_one_is_misuse__changes_no_stag),
        cmocka_unit_test(bind__queue_pair_without_mw_bind__is_misuse),
        cmocka_unit_test(register__each_way_of_addressing__is_what_the_region_has),
        cmocka_unit_test(post__with_the_smallest_queue_entries__works),
        cmocka_unit_test(chain__register_and_send__then_the_peer_writes_and_invalidates),
        cmocka_unit_test(complete__not_possible__is_told_and_flushes_the_rest),
        cmocka_unit_test(read_inv__completed__has_invalidated_its_sink),
        cmocka_unit_test(region__of_another_queue_pair__is_refused_locally),
    };

    return cmocka_run_group_tests_name("post_memory", tests, NULL, NULL);
}
