/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows through the verbs: allocation, binding by iwarp_mw_bind and by work requests,
 * keys, what a window says about itself, and that its region stays while it is bound (verbs
 * draft 7.9, 7.10). What each check of a bind refuses: test_ddp_bind.c.
 */
#include "verbs_pair.h"

#define BIND (IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_MW_BIND)

struct scene {
    struct pair p;
    struct pair_side *s; /* whose windows are bound */
    struct iwarp_mr *mr; /* 64 octets, for windows */
};

static void scene_open(struct scene *x)
{
    struct pair_options o;

    pair_options_init(&o, PAIR_MEMORY);
    pair_open(&x->p, &o);
    x->s = &x->p.side[0];
    must(iwarp_mr_register(x->s->pd, x->s->p, 64, BIND, &x->mr));
}

static void scene_close(struct scene *x)
{
    if (x->mr) {
        must(iwarp_mr_deregister(x->mr));
    }
    pair_close(&x->p);
}

static struct iwarp_bind part(const struct scene *x, size_t off, size_t len)
{
    return (struct iwarp_bind){
        .mr = x->mr, .addr = x->s->p + off, .len = len, .access = IWARP_ACCESS_REMOTE_READ};
}

static void expect_info(struct iwarp_mw *mw, const struct iwarp_stag_info *want)
{
    struct iwarp_stag_info info = {.size = sizeof info};

    must(iwarp_mw_query(mw, &info));
    assert_int_equal(info.stag, want->stag);
    assert_int_equal(info.valid, want->valid);
    if (info.valid) {
        assert_int_equal(info.access, want->access);
        assert_int_equal(info.qp_num, want->qp_num);
        assert_ptr_equal(info.addr, want->addr);
        assert_int_equal(info.len, want->len);
        assert_int_equal(info.to_base, want->to_base);
    }
}

static unsigned windows_of(struct iwarp_mr *mr)
{
    struct iwarp_stag_info info = {.size = sizeof info};

    must(iwarp_mr_query(mr, &info));
    assert_true(info.valid);
    return info.windows;
}

static void alloc__wrong_arguments__are_misuse(void **state)
{
    struct iwarp_stag_info info = {.size = sizeof info};
    struct iwarp_mw *mw;
    struct scene x;

    (void)state;
    scene_open(&x);
    struct iwarp_bind b = part(&x, 0, 8);
    must_fail(iwarp_mw_alloc(x.s->pd, (enum iwarp_mw_type)3, &mw), IWARP_MISUSE,
              "type of window 3");
    must_fail(iwarp_mw_alloc(NULL, IWARP_MW_TYPE_1, &mw), IWARP_MISUSE, "NULL");
    must_fail(iwarp_mw_alloc(x.s->pd, IWARP_MW_TYPE_1, NULL), IWARP_MISUSE, "NULL");
    must_fail(iwarp_mw_free(NULL), IWARP_MISUSE, "NULL");
    must(iwarp_mw_alloc(x.s->pd, IWARP_MW_TYPE_2, &mw));
    must_fail(iwarp_mw_query(NULL, &info), IWARP_MISUSE, "NULL");
    must_fail(iwarp_mw_query(mw, NULL), IWARP_MISUSE, "NULL");
    must_fail(iwarp_mw_bind(NULL, mw, &b, 0, 0), IWARP_MISUSE, "NULL");
    must_fail(iwarp_mw_bind(x.s->qp, NULL, &b, 0, 0), IWARP_MISUSE, "NULL");
    must_fail(iwarp_mw_bind(x.s->qp, mw, NULL, 0, 0), IWARP_MISUSE, "NULL");
    must_fail(iwarp_mw_bind(x.s->qp, mw, &b, 0, 0), IWARP_MISUSE, "type 1");
    must(iwarp_mw_free(mw));
    scene_close(&x);
}

static void type_1__bound_again_and_unbound__changes_its_key_each_time(void **state)
{
    struct iwarp_mw *mw;
    struct scene x;

    (void)state;
    scene_open(&x);
    must(iwarp_mw_alloc(x.s->pd, IWARP_MW_TYPE_1, &mw));
    expect_info(mw, &(struct iwarp_stag_info){.stag = iwarp_mw_stag(mw)});
    for (uint32_t i = 0; i < 600; i++) { /* the key wraps twice */
        struct iwarp_bind b = part(&x, i % 32, 16);
        uint32_t before = iwarp_mw_stag(mw);
        must(iwarp_mw_bind(x.s->qp, mw, &b, i, IWARP_WR_SIGNALED));
        assert_int_equal(iwarp_mw_stag(mw), (before & ~0xffu) | ((before + 1) & 0xff));
        assert_int_equal(pair_wc(x.s->send_cq, i, IWARP_WC_SUCCESS).opcode, IWARP_WC_BIND_MW);
        expect_info(mw, &(struct iwarp_stag_info){.stag = iwarp_mw_stag(mw),
                                                  .valid = true,
                                                  .access = IWARP_ACCESS_REMOTE_READ,
                                                  .addr = x.s->p + i % 32,
                                                  .len = 16,
                                                  .to_base = (uint64_t)(uintptr_t)x.s->p + i % 32});
    }
    assert_int_equal(windows_of(x.mr), 1);
    const struct iwarp_bind nothing = {.mr = NULL};
    must(iwarp_mw_bind(x.s->qp, mw, &nothing, 5, IWARP_WR_SIGNALED));
    pair_wc(x.s->send_cq, 5, IWARP_WC_SUCCESS);
    expect_info(mw, &(struct iwarp_stag_info){.stag = iwarp_mw_stag(mw)});
    assert_int_equal(windows_of(x.mr), 0);
    must(iwarp_mw_free(mw));
    scene_close(&x);
}

/* Also a window over a region with a TO base of its own: TOs are those of the region. */
static void type_2__bound_and_invalidated__is_told(void **state)
{
    struct iwarp_mr_options o;
    struct iwarp_mw *mw;
    struct scene x;

    (void)state;
    scene_open(&x);
    must(iwarp_mr_deregister(x.mr));
    iwarp_mr_options_init(&o, x.s->p, 64, BIND);
    o.to_base = 0x5000;
    must(iwarp_mr_create(x.s->pd, &o, &x.mr));
    must(iwarp_mw_alloc(x.s->pd, IWARP_MW_TYPE_2, &mw));
    for (unsigned i = 0; i < 300; i++) {
        struct iwarp_bind b = part(&x, 3, 7);
        b.mw = mw;
        b.key = (uint8_t)(i * 7);
        b.access |= i & 1 ? IWARP_ACCESS_ZERO_BASED : 0u;
        const uint32_t stag = iwarp_stag_with_key(iwarp_mw_stag(mw), b.key);
        const struct iwarp_send_wr inv = {.wr_id = 2,
                                          .opcode = IWARP_WR_LOCAL_INV,
                                          .flags = IWARP_WR_SIGNALED,
                                          .invalidate_stag = stag};
        const struct iwarp_send_wr bind = {
            .wr_id = 1, .opcode = IWARP_WR_BIND_MW, .flags = IWARP_WR_SIGNALED, .bind = &b};
        must(iwarp_post_send(x.s->qp, &bind, NULL));
        assert_int_equal(iwarp_mw_stag(mw), stag);
        pair_wc(x.s->send_cq, 1, IWARP_WC_SUCCESS);
        expect_info(mw, &(struct iwarp_stag_info){.stag = stag,
                                                  .valid = true,
                                                  .access = b.access,
                                                  .qp_num = iwarp_qp_num(x.s->qp),
                                                  .addr = x.s->p + 3,
                                                  .len = 7,
                                                  .to_base = i & 1 ? 0 : 0x5003});
        must(iwarp_post_send(x.s->qp, &inv, NULL));
        assert_int_equal(pair_wc(x.s->send_cq, 2, IWARP_WC_SUCCESS).opcode, IWARP_WC_LOCAL_INV);
        expect_info(mw, &(struct iwarp_stag_info){.stag = stag});
    }
    must(iwarp_mw_free(mw));
    scene_close(&x);
}

/* VERBS-7.9-01 */
/* [VERBS-7.9-01] */
static void region__with_bound_windows__stays_until_they_are_gone(void **state)
{
    struct iwarp_mr_options o;
    struct iwarp_mw *mw[2];
    struct scene x;

    (void)state;
    scene_open(&x);
    iwarp_mr_options_init(&o, x.s->p, 8, 0);
    for (unsigned i = 0; i < 2; i++) {
        struct iwarp_bind b = part(&x, 8 * i, 8);
        must(iwarp_mw_alloc(x.s->pd, IWARP_MW_TYPE_1, &mw[i]));
        must(iwarp_mw_bind(x.s->qp, mw[i], &b, i, IWARP_WR_SIGNALED));
        pair_wc(x.s->send_cq, i, IWARP_WC_SUCCESS);
    }
    uint32_t stag = iwarp_mr_stag(x.mr);
    for (unsigned left = 2; left > 0; left--) {
        char says[16] = "0 windows";
        says[0] = (char)('0' + left);
        must_fail(iwarp_mr_deregister(x.mr), IWARP_MISUSE, says);
        must_fail(iwarp_mr_reregister(x.mr, NULL, &o), IWARP_MISUSE, says);
        assert_int_equal(windows_of(x.mr), left);
        must(iwarp_mw_free(mw[left - 1]));
    }
    assert_int_equal(iwarp_mr_stag(x.mr), stag);
    assert_int_equal(iwarp_mr_len(x.mr), 64);
    must(iwarp_mr_reregister(x.mr, NULL, &o));
    scene_close(&x);
}

/* A Read of the other side through the window. */
static void read_by_peer(struct scene *x, struct iwarp_mw *mw, enum iwarp_wc_status status)
{
    struct pair_side *peer = &x->p.side[1];
    struct iwarp_sge sge = pair_sge(peer, 0, 8);
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_READ, 50, &sge);

    wr.remote_stag = iwarp_mw_stag(mw);
    wr.remote_to = (uint64_t)(uintptr_t)x->s->p;
    pair_recv(peer, 51, 8, 8);
    pair_send(x->s, 52, 0, 8); /* whatever was posted before it is done when it is there */
    pair_wc(peer->recv_cq, 51, IWARP_WC_SUCCESS);
    must(iwarp_post_send(peer->qp, &wr, NULL));
    pair_wc(peer->send_cq, 50, status);
}

static void make_idle(struct scene *x)
{
    const struct iwarp_qp_changes idle = {
        .size = sizeof idle, .mask = IWARP_QP_CHANGE_STATE, .state = IWARP_QP_IDLE};

    must(iwarp_disconnect(x->s->conn));
    for (int i = 0; i < 2; i++) {
        struct pair_side *s = &x->p.side[i];
        must(iwarp_conn_wait_end(s->conn, PAIR_WAIT_MS));
        must(iwarp_qp_modify(s->qp, &idle));
        must(iwarp_conn_destroy(s->conn));
        s->conn = NULL;
    }
}

/*
 * Verbs draft 6.2.4: a window is its queue pair's, not its connection's, until it is invalidated or
 * freed. A LOCAL_INV posted in IDLE comes before anything of the new peer.
 */
static void type_2__its_queue_pair_connected_anew__stays_open_until_invalidated(void **state)
{
    (void)state;
    for (int t = 0; t < PAIR_TRANSPORTS; t++) {
        struct iwarp_mw *mw[2];
        struct pair_options o;
        struct scene x;
        pair_options_init(&o, (enum pair_transport)t);
        pair_open(&x.p, &o);
        x.s = &x.p.side[0];
        must(iwarp_mr_register(x.s->pd, x.s->p, 64, BIND, &x.mr));
        for (unsigned i = 0; i < 2; i++) {
            must(iwarp_mw_alloc(x.s->pd, IWARP_MW_TYPE_2, &mw[i]));
            struct iwarp_bind b = part(&x, 0, 8);
            b.mw = mw[i];
            const struct iwarp_send_wr bind = {
                .wr_id = 1, .opcode = IWARP_WR_BIND_MW, .flags = IWARP_WR_SIGNALED, .bind = &b};
            must(iwarp_post_send(x.s->qp, &bind, NULL));
            pair_wc(x.s->send_cq, 1, IWARP_WC_SUCCESS);
        }
        read_by_peer(&x, mw[0], IWARP_WC_SUCCESS);
        make_idle(&x);
        assert_int_equal(windows_of(x.mr), 2);
        pair_connect(&x.p);
        read_by_peer(&x, mw[0], IWARP_WC_SUCCESS);
        make_idle(&x);
        const struct iwarp_send_wr inv = {
            .wr_id = 2, .opcode = IWARP_WR_LOCAL_INV, .invalidate_stag = iwarp_mw_stag(mw[0])};
        must(iwarp_post_send(x.s->qp, &inv, NULL));
        assert_int_equal(windows_of(x.mr), 2); /* not yet */
        must(iwarp_mw_free(mw[1]));            /* at once */
        assert_int_equal(windows_of(x.mr), 1);
        pair_connect(&x.p);
        read_by_peer(&x, mw[0], IWARP_WC_REMOTE_ACCESS);
        assert_int_equal(windows_of(x.mr), 0);
        must(iwarp_mw_free(mw[0]));
        scene_close(&x);
    }
}

/* A window of a queue pair that was destroyed: nobody can use it, it can be freed. */
static void type_2__its_queue_pair_destroyed__can_be_freed(void **state)
{
    struct iwarp_mw *mw;
    struct scene x;

    (void)state;
    scene_open(&x);
    must(iwarp_mw_alloc(x.s->pd, IWARP_MW_TYPE_2, &mw));
    struct iwarp_bind b = part(&x, 0, 8);
    b.mw = mw;
    const struct iwarp_send_wr bind = {
        .wr_id = 1, .opcode = IWARP_WR_BIND_MW, .flags = IWARP_WR_SIGNALED, .bind = &b};
    must(iwarp_post_send(x.s->qp, &bind, NULL));
    pair_wc(x.s->send_cq, 1, IWARP_WC_SUCCESS);
    must(iwarp_qp_destroy(x.s->qp));
    x.s->qp = NULL;
    must_fail(iwarp_mr_deregister(x.mr), IWARP_MISUSE, "1 windows");
    must(iwarp_mw_free(mw));
    scene_close(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alloc__wrong_arguments__are_misuse),
        cmocka_unit_test(type_1__bound_again_and_unbound__changes_its_key_each_time),
        cmocka_unit_test(type_2__bound_and_invalidated__is_told),
        cmocka_unit_test(region__with_bound_windows__stays_until_they_are_gone),
        cmocka_unit_test(type_2__its_queue_pair_connected_anew__stays_open_until_invalidated),
        cmocka_unit_test(type_2__its_queue_pair_destroyed__can_be_freed),
    };

    return cmocka_run_group_tests_name("mw", tests, NULL, NULL);
}
