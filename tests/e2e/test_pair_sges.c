/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scatter/gather lists: receives that reach beyond their region. What arrives, and how many
 * completions say so.
 */
#include "verbs_pair.h"

/* --- receives -------------------------------------------------------------------------------- */

static void post_receive(struct pair_side *s, uint64_t wr_id, const struct iwarp_sge *sgl,
                         unsigned n)
{
    const struct iwarp_recv_wr wr = {.wr_id = wr_id, .sg_list = sgl, .num_sge = n};

    must(s->srq ? iwarp_srq_post_recv(s->srq, &wr, NULL) : iwarp_post_recv(s->qp, &wr, NULL));
}

/*
 * A region of one octet, a receive of four in it and more in memory that is nobody's: a message
 * fits as long as it ends in the region. One octet more, and the receive has a local protection
 * error, the other receives are flushed, and the sender learns that the peer failed.
 */
static void receive__beyond_its_region__takes_what_fits(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * PAIR_TRANSPORTS; i++) {
        struct pair_options o;
        struct iwarp_mr *tiny;
        struct pair p;
        pair_options_init(&o, (enum pair_transport)(i / 2));
        o.srq = i % 2 ? 8 : 0;
        pair_open(&p, &o);
        struct pair_side *a = &p.side[0], *b = &p.side[1];
        must(iwarp_mr_register(b->pd, b->p, 1, IWARP_ACCESS_LOCAL_WRITE, &tiny));
        const struct iwarp_sge sgl[] = {
            {NULL, 0, 0}, {b->p, 4, iwarp_mr_stag(tiny)}, {(void *)8, 100, 0xdead}};
        memset(b->p, 0xee, 8);
        pair_fill(a->p, 8, 5);
        for (uint64_t id = 0; id < 4; id++) {
            post_receive(b, id, sgl, 3);
        }
        for (unsigned len = 0; len < 2; len++) {
            pair_send(a, len, 0, len);
            assert_int_equal(pair_wc(b->recv_cq, len, IWARP_WC_SUCCESS).byte_len, len);
            pair_wc(a->send_cq, len, IWARP_WC_SUCCESS);
        }
        assert_int_equal(b->p[0], a->p[0]);
        pair_send(a, 2, 0, 2);
        struct iwarp_wc wc = pair_wc(b->recv_cq, 2, IWARP_WC_LOCAL_PROTECTION);
        assert_int_equal(iwarp_fault_code(wc.fault), IWARP_FAULT_LOCAL_SGE);
        must(iwarp_conn_wait_end(b->conn, PAIR_WAIT_MS));
        must(iwarp_conn_wait_end(a->conn, PAIR_WAIT_MS));
        if (!b->srq) {
            pair_wc(b->recv_cq, 3, IWARP_WC_FLUSHED);
        }
        pair_no_wc(b->recv_cq);
        assert_int_equal(iwarp_fault_code(iwarp_conn_fault(a->conn)), IWARP_FAULT_PEER_TERMINATE);
        assert_int_equal(b->p[1], 0xee);
        must(iwarp_mr_deregister(tiny));
        pair_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(receive__beyond_its_region__takes_what_fits),
    };

    return cmocka_run_group_tests_name("pair_sges", tests, NULL, NULL);
}
