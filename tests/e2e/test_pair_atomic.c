/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomics between queue pairs: both kinds over every transport, in order with Reads and Writes,
 * what is refused, and atomicity: connections on several workers, and threads of this process, all
 * add to one word. RFC 7306 5.
 */
#include "verbs_pair.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define ATOMIC (IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_ATOMIC)

/* Aligned words at side 1, registered for Atomics beside the pair's own memory. */
static struct {
    _Alignas(64) uint64_t word[8];
} shared;

static struct iwarp_mr *share(struct pair_side *s, unsigned access)
{
    struct iwarp_mr *mr = NULL;

    memset(&shared, 0, sizeof shared);
    must(iwarp_mr_register(s->pd, &shared, sizeof shared, access, &mr));
    return mr;
}

static struct iwarp_send_wr atomic_wr(enum iwarp_wr_opcode opcode, uint64_t id,
                                      struct iwarp_sge *sge, const struct iwarp_mr *mr, unsigned k)
{
    struct iwarp_send_wr wr = pair_wr(opcode, id, sge);

    wr.remote_stag = iwarp_mr_stag(mr);
    wr.remote_to = (uint64_t)(uintptr_t)&shared.word[k];
    return wr;
}

static uint64_t word_at(const struct pair_side *s, size_t off)
{
    uint64_t w;

    memcpy(&w, s->p + off, sizeof w);
    return w;
}

static void atomic__both_kinds__change_the_word_and_tell_the_old(void **state)
{
    (void)state;
    for (unsigned t = 0; t < PAIR_TRANSPORTS; t++) {
        struct pair_options o;
        struct pair p;
        pair_options_init(&o, (enum pair_transport)t);
        pair_open(&p, &o);
        struct pair_side *a = &p.side[0];
        struct iwarp_mr *mr = share(&p.side[1], ATOMIC);
        struct iwarp_sge sge[4];
        for (unsigned i = 0; i < 4; i++) {
            sge[i] = pair_sge(a, 8 * i, 8);
        }
        shared.word[1] = 0xff00000000000001;
        struct iwarp_send_wr wr[4] = {
            atomic_wr(IWARP_WR_ATOMIC_FETCH_ADD, 1, &sge[0], mr, 1),
            atomic_wr(IWARP_WR_ATOMIC_FETCH_ADD, 2, &sge[1], mr, 1),
            atomic_wr(IWARP_WR_ATOMIC_CMP_SWAP, 3, &sge[2], mr, 1),
            atomic_wr(IWARP_WR_ATOMIC_CMP_SWAP, 4, &sge[3], mr, 1),
        };
        wr[0].operand = 0x0100000000000001; /* the top octet wraps around */
        wr[1].operand = 0x00000000000000ff; /* two fields of 4 bits, then the rest */
        wr[1].mask = 0x88;
        wr[2].operand = 0x1122334455667788;
        wr[2].mask = wr[2].compare_mask = UINT64_MAX;
        wr[2].compare = 0x11;
        wr[3] = wr[2];
        wr[3].wr_id = 4;
        wr[3].sg_list = &sge[3];
        for (unsigned i = 0; i < 3; i++) {
            wr[i].next = &wr[i + 1];
        }
        must(iwarp_post_send(a->qp, wr, NULL));
        for (unsigned i = 0; i < 4; i++) {
            struct iwarp_wc wc = pair_wc(a->send_cq, i + 1, IWARP_WC_SUCCESS);
            assert_int_equal(wc.opcode, i < 2 ? IWARP_WC_FETCH_ADD : IWARP_WC_CMP_SWAP);
            assert_int_equal(wc.byte_len, 8);
        }
        assert_true(word_at(a, 0) == 0xff00000000000001);
        assert_true(word_at(a, 8) == 0x0000000000000002);
        assert_true(word_at(a, 16) == 0x00000000000000f1); /* 0x02 plus 0xff, by fields */
        assert_true(word_at(a, 24) == 0x00000000000000f1); /* did not match */
        assert_true(shared.word[1] == 0xf1);
        assert_true(shared.word[0] == 0 && shared.word[2] == 0);
        pair_no_wc(p.side[1].recv_cq); /* the target sees nothing */
        must(iwarp_mr_deregister(mr));
        pair_close(&p);
    }
}

/* A peer's refusal completes the request with the reason. */
static void expect_refused(unsigned access, unsigned misplaced, bool deny,
                           enum iwarp_wc_status status, const char *part)
{
    char text[512];

    for (unsigned t = 0; t < PAIR_TCP6; t++) {
        struct pair_options o;
        struct pair p;
        pair_options_init(&o, (enum pair_transport)t);
        o.qp.access &= deny ? ~(unsigned)IWARP_ACCESS_REMOTE_ATOMIC : UINT32_MAX;
        pair_open(&p, &o);
        struct iwarp_mr *mr = share(&p.side[1], access);
        struct iwarp_sge sge = pair_sge(&p.side[0], 0, 8);
        struct iwarp_send_wr wr = atomic_wr(IWARP_WR_ATOMIC_FETCH_ADD, 7, &sge, mr, 0);
        wr.remote_to += misplaced;
        wr.operand = 1;
        must(iwarp_post_send(p.side[0].qp, &wr, NULL));
        struct iwarp_wc wc = pair_wc(p.side[0].send_cq, 7, status);
        iwarp_fault_text(wc.fault, text, sizeof text);
        if (!strstr(text, part)) {
            fail_msg("no \"%s\" in: %s", part, text);
        }
        for (unsigned i = 0; i < 8; i++) {
            assert_true(shared.word[i] == 0);
        }
        must(iwarp_mr_deregister(mr));
        pair_close(&p);
    }
}

static void atomic__that_is_refused__completes_with_the_reason(void **state)
{
    (void)state;
    expect_refused(PAIR_ALL, 0, false, IWARP_WC_REMOTE_ACCESS, "does not allow this remote access");
    expect_refused(ATOMIC, 64, false, IWARP_WC_REMOTE_ACCESS, "went beyond its region");
    expect_refused(ATOMIC, 4, false, IWARP_WC_REMOTE_OPERATION, "cannot go on");
    expect_refused(ATOMIC, 0, true, IWARP_WC_REMOTE_ACCESS, "does not allow this remote access");
}

static void register__for_atomics__needs_local_write(void **state)
{
    struct pair_options o;
    struct iwarp_mr *mr = NULL;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_prepare(&p, &o);
    must_fail(
        iwarp_mr_register(p.side[0].pd, &shared, sizeof shared, IWARP_ACCESS_REMOTE_ATOMIC, &mr),
        IWARP_MISUSE, "REMOTE_ATOMIC needs LOCAL_WRITE");
    pair_close(&p);
}

/* A window may have the right alone. */
static void atomic__through_a_window__obeys_its_rights(void **state)
{
    struct pair_options o;
    struct iwarp_mw *mw = NULL;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    pair_open(&p, &o);
    struct pair_side *a = &p.side[0], *b = &p.side[1];
    struct iwarp_mr *mr = share(b, IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_MW_BIND);
    must(iwarp_mw_alloc(b->pd, IWARP_MW_TYPE_1, &mw));
    const struct iwarp_bind bind = {.mr = mr,
                                    .mw = mw,
                                    .addr = &shared.word[2],
                                    .len = 8,
                                    .access = IWARP_ACCESS_REMOTE_ATOMIC};
    must(iwarp_mw_bind(b->qp, mw, &bind, 5, IWARP_WR_SIGNALED));
    pair_wc(b->send_cq, 5, IWARP_WC_SUCCESS);
    struct iwarp_sge sge = pair_sge(a, 0, 8);
    struct iwarp_send_wr wr = atomic_wr(IWARP_WR_ATOMIC_FETCH_ADD, 1, &sge, mr, 2);
    wr.remote_stag = iwarp_mw_stag(mw);
    wr.operand = 3;
    must(iwarp_post_send(a->qp, &wr, NULL));
    pair_wc(a->send_cq, 1, IWARP_WC_SUCCESS);
    assert_true(shared.word[2] == 3);
    wr.remote_to += 8; /* inside the region, outside the window */
    must(iwarp_post_send(a->qp, &wr, NULL));
    pair_wc(a->send_cq, 1, IWARP_WC_REMOTE_ACCESS);
    assert_true(shared.word[3] == 0);
    must(iwarp_mw_free(mw));
    must(iwarp_mr_deregister(mr));
    pair_close(&p);
}

static void post__where_rfc_7306_is_off__is_misuse(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    o.device.rfc7306 = IWARP_RFC7306_OFF;
    pair_open(&p, &o);
    struct iwarp_sge sge = pair_sge(&p.side[0], 0, 8);
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_ATOMIC_FETCH_ADD, 1, &sge);
    must_fail(iwarp_post_send(p.side[0].qp, &wr, NULL), IWARP_MISUSE, "Atomics are switched off");
    wr.opcode = IWARP_WR_ATOMIC_CMP_SWAP;
    must_fail(iwarp_post_send(p.side[0].qp, &wr, NULL), IWARP_MISUSE, "Atomics are switched off");
    pair_close(&p);
}

/* --- atomicity ------------------------------------------------------------------------------- */

#define PAIRS   3
#define THREADS 2
#define ROUNDS  2000u
#define DEPTH   8u

#define BURST 20000u

static _Atomic bool adding;

/* In bursts, until all others are done: the remote ones need the processor, too. */
static void *add_here(void *arg)
{
    uint64_t *added = arg;

    while (atomic_load(&adding)) {
        for (unsigned i = 0; i < BURST; i++) {
            __atomic_fetch_add(&shared.word[0], 1, __ATOMIC_RELAXED);
        }
        *added += BURST;
        usleep(50);
    }
    return NULL;
}

/* Post up to DEPTH, take what is done; each old value of a connection is above the one before. */
static void add_there(struct pair *p, const struct iwarp_mr *mr, unsigned *posted, unsigned *done,
                      uint64_t *last)
{
    struct pair_side *a = &p->side[0];
    struct iwarp_wc wc;

    while (*posted < ROUNDS && *posted - *done < DEPTH) {
        struct iwarp_sge sge = pair_sge(a, (size_t)8 * (*posted % DEPTH), 8);
        struct iwarp_send_wr wr = atomic_wr(IWARP_WR_ATOMIC_FETCH_ADD, *posted, &sge, mr, 0);
        wr.operand = 1;
        must(iwarp_post_send(a->qp, &wr, NULL));
        ++*posted;
    }
    if (*done < *posted && iwarp_cq_wait(a->send_cq, &wc, 1, PAIR_WAIT_MS) == 1) {
        assert_int_equal(wc.status, IWARP_WC_SUCCESS);
        assert_int_equal(wc.wr_id, *done);
        uint64_t old = word_at(a, (size_t)8 * (*done % DEPTH));
        assert_true(*done == 0 || old > *last);
        *last = old;
        ++*done;
    }
}

/* [RDMAX-5-01] [RDMAX-5.3-01] [RDMAX-5.4-02] */
static void atomic__connections_workers_and_threads__lose_nothing(void **state)
{
    static struct pair pair[PAIRS];
    struct iwarp_mr *mr[PAIRS];
    unsigned posted[PAIRS] = {0}, done[PAIRS] = {0};
    uint64_t last[PAIRS] = {0}, added[THREADS] = {0}, here = 0;
    pthread_t thread[THREADS];
    bool left = true;

    (void)state;
    for (unsigned i = 0; i < PAIRS; i++) {
        struct pair_options o;
        pair_options_init(&o, i == 0 ? PAIR_MEMORY : PAIR_TCP4);
        o.device.workers = 2;
        pair_open(&pair[i], &o);
        mr[i] = share(&pair[i].side[1], ATOMIC);
    }
    atomic_store(&adding, true);
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, add_here, &added[i]), 0);
    }
    while (left) {
        left = false;
        for (unsigned i = 0; i < PAIRS; i++) {
            add_there(&pair[i], mr[i], &posted[i], &done[i], &last[i]);
            left = left || done[i] < ROUNDS;
        }
    }
    atomic_store(&adding, false);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        here += added[i];
    }
    assert_true(shared.word[0] == PAIRS * ROUNDS + here);
    for (unsigned i = 0; i < PAIRS; i++) {
        must(iwarp_mr_deregister(mr[i]));
        pair_close(&pair[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(atomic__both_kinds__change_the_word_and_tell_the_old),
        cmocka_unit_test(atomic__that_is_refused__completes_with_the_reason),
        cmocka_unit_test(register__for_atomics__needs_local_write),
        cmocka_unit_test(atomic__through_a_window__obeys_its_rights),
        cmocka_unit_test(post__where_rfc_7306_is_off__is_misuse),
        cmocka_unit_test(atomic__connections_workers_and_threads__lose_nothing),
    };

    return cmocka_run_group_tests_name("pair_atomic", tests, NULL, NULL);
}
