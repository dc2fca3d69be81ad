/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scatter/gather lists: RDMA Reads into many pieces of several regions, and receives that reach
 * beyond their region. What arrives, and how many completions say so.
 */
#include "progress.h"
#include "verbs_pair.h"

#define PIECES 32u
#define SIZE   3000u /* of a piece; the first half of the memory is read, the second written */
#define HALF   ((size_t)PIECES * SIZE)

static void open_pair(struct pair *p, enum pair_transport transport, unsigned depth, unsigned sends)
{
    struct pair_options o;

    pair_options_init(&o, transport);
    o.memory = 2 * HALF;
    o.qp.max_send_sge = o.qp.max_recv_sge = PIECES;
    o.qp.max_send_wr = sends;
    for (int i = 0; i < 2; i++) {
        o.conn[i].ird = o.conn[i].ord = depth;
    }
    pair_open(p, &o);
    for (int i = 0; i < 2; i++) {
        pair_fill(p->side[i].p, HALF, (uint64_t)i);
        memset(p->side[i].p + HALF, 0xee, HALF);
    }
}

/* A Read of the peer's first half into n pieces, which lie in reverse order, all empty but one in
 * `every`, alternately in the side's own region and in `other`. */
static uint32_t post_scattered(const struct pair *p, int side, const struct iwarp_mr *other,
                               unsigned n, unsigned every, struct iwarp_send_wr wr)
{
    const struct pair_side *s = &p->side[side], *peer = &p->side[1 - side];
    struct iwarp_sge sgl[PIECES];
    uint32_t len = 0;

    for (unsigned i = 0; i < n; i++) {
        sgl[i] = pair_sge(s, HALF + (size_t)(n - 1 - i) * SIZE, i % every ? 0 : SIZE - i);
        sgl[i].lkey = iwarp_mr_stag(i % 2 ? other : s->mr);
        len += sgl[i].len;
    }
    wr.opcode = IWARP_WR_READ;
    wr.sg_list = sgl;
    wr.num_sge = n;
    wr.remote_stag = iwarp_mr_stag(peer->mr);
    wr.remote_to = (uint64_t)(uintptr_t)peer->p;
    must(iwarp_post_send(s->qp, &wr, NULL));
    return len;
}

static void expect_scattered(const struct pair *p, int side, unsigned n, unsigned every)
{
    const uint8_t *from = p->side[1 - side].p, *half = p->side[side].p + HALF;

    for (unsigned i = 0; i < n; i++) {
        const uint8_t *piece = half + (size_t)(n - 1 - i) * SIZE;
        uint32_t len = i % every ? 0 : SIZE - i;
        assert_memory_equal(piece, from, len);
        for (uint32_t k = len; k < SIZE; k++) {
            assert_int_equal(piece[k], 0xee);
        }
        from += len;
    }
}

/* Each takes one place of the send queue, which has one, and gives one completion. */
static void read__into_many_pieces__is_one_request(void **state)
{
    static const unsigned depths[] = {1, 3, 32};

    (void)state;
    for (unsigned i = 0; i < 3 * PAIR_TRANSPORTS; i++) {
        struct iwarp_mr *other;
        struct pair p;
        open_pair(&p, (enum pair_transport)(i / 3), depths[i % 3], 1);
        struct pair_side *a = &p.side[0];
        must(iwarp_mr_register(a->pd, a->p, 2 * HALF, IWARP_ACCESS_LOCAL_WRITE, &other));
        for (unsigned n = 1, id = 0; n <= PIECES; n += 5) {
            for (unsigned every = 1; every < 4; every++, id++) {
                struct iwarp_send_wr wr = pair_wr(IWARP_WR_READ, id, NULL);
                memset(a->p + HALF, 0xee, HALF);
                uint32_t len = post_scattered(&p, 0, other, n, every, wr);
                struct iwarp_wc wc = pair_wc(a->send_cq, id, IWARP_WC_SUCCESS);
                assert_int_equal(wc.opcode, IWARP_WC_READ);
                assert_int_equal(wc.byte_len, len);
                expect_scattered(&p, 0, n, every);
            }
        }
        pair_no_wc(a->send_cq);
        must(iwarp_mr_deregister(other));
        pair_close(&p);
    }
}

/* Both ends read from each other, with one Read Request at a time, and what is silent stays so. */
static void reads__of_both_ends_with_one_request_at_a_time__all_end(void **state)
{
    enum { ROUNDS = 10 };
    struct pair p;

    (void)state;
    open_pair(&p, PAIR_TCP4, 1, 3 * ROUNDS);
    for (unsigned i = 0; i < 3 * ROUNDS; i++) {
        for (int side = 0; side < 2; side++) {
            struct pair_side *s = &p.side[side];
            struct iwarp_send_wr wr = pair_wr(IWARP_WR_SEND, i, NULL);
            if (i % 3 == 0) {
                pair_recv(s, 100 + i, 0, 0);
            }
            wr.flags = i % 3 == 1 ? 0 : i % 2 ? IWARP_WR_SIGNALED | IWARP_WR_FENCE : wr.flags;
            if (i % 3) {
                post_scattered(&p, side, s->mr, PIECES, 1, wr);
            } else if (i > 0) {
                must(iwarp_post_send(s->qp, &wr, NULL));
            }
        }
    }
    for (int side = 0; side < 2; side++) {
        for (unsigned i = 1; i < 3 * ROUNDS; i++) {
            if (i % 3 != 1) {
                pair_wc(p.side[side].send_cq, i, IWARP_WC_SUCCESS);
            }
        }
        for (unsigned i = 0; i < ROUNDS - 1; i++) {
            pair_wc(p.side[side].recv_cq, 100 + 3 * i, IWARP_WC_SUCCESS);
        }
        pair_no_wc(p.side[side].send_cq);
        expect_scattered(&p, side, PIECES, 1);
    }
    pair_close(&p);
}

/* READ_INV has one sink, so one response says when its lkey is to go. */
static void read_inv__with_two_pieces__is_refused(void **state)
{
    struct pair p;

    (void)state;
    open_pair(&p, PAIR_MEMORY, 4, 4);
    struct iwarp_sge sgl[2] = {pair_sge(&p.side[0], 0, 8), pair_sge(&p.side[0], 8, 8)};
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_READ_INV, 1, sgl);
    wr.num_sge = 2;
    must_fail(iwarp_post_send(p.side[0].qp, &wr, NULL), IWARP_MISUSE, "READ_INV needs one SGE");
    pair_close(&p);
}

/* The third piece fails: this end's SGE is wrong, or the peer's region ends there. The Read
 * completes once, with the reason; what is behind it is flushed, once. */
static void read__one_of_its_pieces_fails__completes_once(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * PAIR_TRANSPORTS; i++) {
        bool remote = i % 2;
        struct iwarp_mr *half;
        struct pair p;
        open_pair(&p, (enum pair_transport)(i / 2), 1 + i % 3, 8);
        struct pair_side *a = &p.side[0], *b = &p.side[1];
        must(iwarp_mr_register(b->pd, b->p, 25, IWARP_ACCESS_REMOTE_READ, &half));
        struct iwarp_sge sgl[4];
        for (unsigned k = 0; k < 4; k++) {
            sgl[k] = pair_sge(a, HALF + (size_t)10 * k, 10);
        }
        sgl[2].lkey ^= !remote;
        struct iwarp_send_wr wr = pair_wr(IWARP_WR_READ, 2, sgl);
        wr.num_sge = 4;
        wr.flags = 0; /* told all the same */
        wr.remote_stag = iwarp_mr_stag(remote ? half : b->mr);
        wr.remote_to = (uint64_t)(uintptr_t)b->p;
        must(iwarp_post_send(a->qp, &wr, NULL));
        pair_send(a, 3, 0, 8);
        struct iwarp_wc wc =
            pair_wc(a->send_cq, 2, remote ? IWARP_WC_REMOTE_ACCESS : IWARP_WC_LOCAL_PROTECTION);
        assert_int_equal(iwarp_fault_code(wc.fault),
                         remote ? IWARP_FAULT_PEER_TERMINATE : IWARP_FAULT_LOCAL_SGE);
        pair_wc(a->send_cq, 3, IWARP_WC_FLUSHED);
        must(iwarp_conn_wait_end(a->conn, PAIR_WAIT_MS));
        pair_send(a, 4, 0, 8); /* the Read was begun, and this was not */
        pair_wc(a->send_cq, 4, IWARP_WC_FLUSHED);
        pair_no_wc(a->send_cq);
        must(iwarp_mr_deregister(half));
        pair_close(&p);
    }
}

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
        assert_int_equal(iwarp_fault_code(wc.fault), IWARP_FAULT_LOCAL_SGE_BOUNDS);
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
        cmocka_unit_test(read__into_many_pieces__is_one_request),
        cmocka_unit_test(reads__of_both_ends_with_one_request_at_a_time__all_end),
        cmocka_unit_test(read_inv__with_two_pieces__is_refused),
        cmocka_unit_test(read__one_of_its_pieces_fails__completes_once),
        cmocka_unit_test(receive__beyond_its_region__takes_what_fits),
    };

    return cmocka_run_group_tests_name("pair_sges", tests, NULL, NULL);
}
