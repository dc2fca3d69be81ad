/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting: what is refused and how it is explained, full queues, chains, inline data, silent
 * requests, scatter and gather, invalidation, and what failing requests complete with.
 */
#include "octets.h"
#include "verbs_pair.h"

#include <sys/mman.h>
#include <unistd.h>

static void open_pair(struct pair *p, struct pair_options *o)
{
    o->memory = 65536;
    pair_open(p, o);
}

static void open_default(struct pair *p, enum pair_transport transport)
{
    struct pair_options o;

    pair_options_init(&o, transport);
    open_pair(p, &o);
}

struct misuse {
    struct iwarp_send_wr wr;
    const char *part;
};

/* The rule of RNICs, if it is wished; by default LOCAL_WRITE is enough. */
static void read__into_a_sink_without_remote_write__is_refused_on_request(void **state)
{
    (void)state;
    for (int wished = 0; wished < 2; wished++) {
        struct iwarp_mr_options mo;
        struct pair_options o;
        struct iwarp_mr *mr;
        struct pair p;
        uint8_t sink[8] = {0};
        pair_options_init(&o, PAIR_MEMORY);
        o.qp.remote_sinks = wished;
        open_pair(&p, &o);
        iwarp_mr_options_init(&mo, sink, sizeof sink, IWARP_ACCESS_LOCAL_WRITE);
        must(iwarp_mr_create(p.side[0].pd, &mo, &mr));
        struct iwarp_sge sge = {sink, sizeof sink, iwarp_mr_stag(mr)}, none = {NULL, 0, 1};
        struct iwarp_send_wr wr = pair_wr(IWARP_WR_READ, 1, &sge);
        pair_fill(p.side[1].p, sizeof sink, 3);
        wr.remote_stag = iwarp_mr_stag(p.side[1].mr);
        wr.remote_to = (uint64_t)(uintptr_t)p.side[1].p;
        if (wished) {
            must_fail(iwarp_post_send(p.side[0].qp, &wr, NULL), IWARP_MISUSE,
                      "whose region does not allow REMOTE_WRITE");
            wr.sg_list = &none; /* nothing to be written, so no right to it */
            must(iwarp_post_send(p.side[0].qp, &wr, NULL));
            pair_wc(p.side[0].send_cq, 1, IWARP_WC_SUCCESS);
            iwarp_mr_options_init(&mo, sink, sizeof sink,
                                  IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE);
            must(iwarp_mr_reregister(mr, NULL, &mo));
        }
        struct iwarp_sge good = {sink, sizeof sink, iwarp_mr_stag(mr)};
        wr.sg_list = &good;
        must(iwarp_post_send(p.side[0].qp, &wr, NULL));
        pair_wc(p.side[0].send_cq, 1, IWARP_WC_SUCCESS);
        assert_memory_equal(sink, p.side[1].p, sizeof sink);
        must(iwarp_mr_deregister(mr));
        pair_close(&p);
    }
}

/* [VERBS-8.2.1-01] [VERBS-8.3.1-01] */
static void post_send__against_the_rules__is_misuse(void **state)
{
    static const struct iwarp_sge huge[] = {{NULL, UINT32_MAX, 1}, {NULL, 1, 1}};
    static const struct iwarp_sge five[5] = {{0}};
    static const struct iwarp_sge big = {NULL, 65, 1};
    const struct misuse cases[] = {
        {{.opcode = (enum iwarp_wr_opcode)9}, "opcode 9"},
        {{.opcode = IWARP_WR_ATOMIC_FETCH_ADD}, "one SGE of 8 octets"},
        {{.opcode = IWARP_WR_ATOMIC_CMP_SWAP, .sg_list = &big, .num_sge = 1}, "one SGE of 8"},
        {{.opcode = (enum iwarp_wr_opcode) - 1}, "opcode 4294967295"},
        {{.opcode = IWARP_WR_WRITE, .flags = 1 << 5}, "flags 0x20, known are 0x1f"},
        {{.opcode = IWARP_WR_LOCAL_INV, .flags = 1 << 8}, "flags 0x100, known are 0x1f"},
        {{.sg_list = five, .num_sge = 5}, "5 SGEs"},
        {{.sg_list = huge, .num_sge = 2}, "4294967296 octets"},
        {{.num_sge = 1}, "1 SGEs, but sg_list is NULL"},
        {{.opcode = IWARP_WR_WRITE, .flags = IWARP_WR_CONFIRM}, "for an RDMA Read without SGEs"},
        {{.opcode = IWARP_WR_READ, .sg_list = five, .num_sge = 5}, "5 SGEs"},
        {{.opcode = IWARP_WR_READ, .sg_list = huge, .num_sge = 2}, "4294967296 octets"},
        {{.opcode = IWARP_WR_READ_INV, .sg_list = five, .num_sge = 2}, "one SGE"},
        {{.opcode = IWARP_WR_READ_INV}, "one SGE"},
        {{.opcode = IWARP_WR_READ, .flags = IWARP_WR_INLINE}, "inline"},
        {{.opcode = IWARP_WR_IMM, .sg_list = five, .num_sge = 1}, "1 SGEs, expected 0"},
        {{.opcode = IWARP_WR_WRITE_IMM, .sg_list = five, .num_sge = 5}, "5 SGEs"},
        {{.flags = IWARP_WR_INLINE, .sg_list = &big, .num_sge = 1}, "65 octets inline"},
    };
    struct pair p;

    (void)state;
    open_default(&p, PAIR_MEMORY);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct iwarp_send_wr good = pair_wr(IWARP_WR_WRITE, i, NULL);
        const struct iwarp_send_wr *bad = NULL;
        struct iwarp_send_wr behind = good, wrong = cases[i].wr;
        behind.wr_id = 99;
        good.next = &wrong;
        wrong.next = &behind;
        good.remote_stag = iwarp_mr_stag(p.side[1].mr);
        good.remote_to = (uint64_t)(uintptr_t)p.side[1].p;
        must_fail(iwarp_post_send(p.side[0].qp, &good, &bad), IWARP_MISUSE, cases[i].part);
        assert_ptr_equal(bad, &wrong);
        pair_wc(p.side[0].send_cq, i, IWARP_WC_SUCCESS); /* what was in front is carried out */
        must_fail(iwarp_post_send(p.side[0].qp, &wrong, NULL), IWARP_MISUSE, cases[i].part);
    }
    usleep(10000);
    pair_no_wc(p.side[0].send_cq); /* what was behind is not */
    const struct iwarp_recv_wr recv = {.sg_list = five, .num_sge = 5};
    const struct iwarp_recv_wr *bad = NULL;
    must_fail(iwarp_post_recv(p.side[0].qp, &recv, &bad), IWARP_MISUSE, "created for 4");
    assert_ptr_equal(bad, &recv);
    const struct iwarp_recv_wr none = {.num_sge = 4}, first = {.next = &none};
    must_fail(iwarp_post_recv(p.side[0].qp, &first, &bad), IWARP_MISUSE,
              "4 SGEs, but sg_list is NULL");
    assert_ptr_equal(bad, &none);
    const struct iwarp_send_wr send = {.wr_id = 1};
    must_fail(iwarp_post_send(NULL, &send, NULL), IWARP_MISUSE, "queue pair is NULL");
    must_fail(iwarp_post_recv(NULL, &first, NULL), IWARP_MISUSE, "queue pair is NULL");
    pair_close(&p);
}

/* Together: wrong in any place, or one too many, and none is posted; a right chain is. */
static void post_send_together__that_cannot_be__posts_nothing(void **state)
{
    enum { LIMIT = 64 };
    struct iwarp_send_wr wr[LIMIT + 1];
    const struct iwarp_send_wr *bad;
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    o.qp.max_send_wr = LIMIT;
    open_pair(&p, &o);
    for (unsigned wrong = 0; wrong <= LIMIT; wrong++) {
        for (unsigned i = 0; i <= LIMIT; i++) {
            wr[i] = pair_wr(IWARP_WR_WRITE, i, NULL);
            wr[i].next = i < LIMIT ? &wr[i + 1] : NULL;
            wr[i].num_sge = i == wrong && i < LIMIT ? 5 : 0;
        }
        must_fail(iwarp_post_send_together(p.side[0].qp, wr, &bad),
                  wrong < LIMIT ? IWARP_MISUSE : IWARP_AGAIN, wrong < LIMIT ? "5 SGEs" : "full");
        assert_ptr_equal(bad, &wr[wrong]);
    }
    usleep(10000);
    pair_no_wc(p.side[0].send_cq);
    wr[LIMIT - 1].next = NULL;
    must(iwarp_post_send_together(p.side[0].qp, wr, &bad));
    for (unsigned i = 0; i < LIMIT; i++) {
        pair_wc(p.side[0].send_cq, i, IWARP_WC_SUCCESS);
    }
    must_fail(iwarp_post_send_together(NULL, wr, NULL), IWARP_MISUSE, "queue pair is NULL");
    pair_close(&p);
}

/* Posted on both sides, of every kind: nothing happens, until they are connected. */
/* [VERBS-6.2.1-01] */
static void post__in_idle__waits_until_connected(void **state)
{
    struct pair_options o;
    struct iwarp_mr *mr;
    struct pair p;

    (void)state;
    for (int t = 0; t < PAIR_TRANSPORTS; t++) {
        pair_options_init(&o, (enum pair_transport)t);
        pair_prepare(&p, &o);
        struct pair_side *a = &p.side[0], *b = &p.side[1];
        pair_fill(a->p, 64, 1);
        memset(b->p, 0, 64);
        must(iwarp_mr_alloc(a->pd, &mr));
        const struct iwarp_bind bind = {.mr = mr, .addr = a->p, .len = 8, .key = 1};
        const struct iwarp_send_wr reg = {
            .wr_id = 1, .opcode = IWARP_WR_REG_MR, .flags = IWARP_WR_SIGNALED, .bind = &bind};
        must(iwarp_post_send(a->qp, &reg, NULL));
        pair_write(a, 2, 0, 64, b, 0);
        pair_send(a, 3, 0, 8);
        pair_recv(b, 4, 64, 8);
        pair_send(b, 5, 0, 8);
        pair_recv(a, 6, 64, 8);
        struct iwarp_stag_info info = {.size = sizeof info};
        must(iwarp_mr_query(mr, &info));
        assert_false(info.valid);
        pair_no_wc(a->send_cq);
        pair_no_wc(b->send_cq);
        assert_int_equal(iwarp_qp_state(a->qp), IWARP_QP_IDLE);
        pair_connect(&p);
        for (uint64_t id = 1; id <= 3; id++) {
            pair_wc(a->send_cq, id, IWARP_WC_SUCCESS);
        }
        pair_wc(b->recv_cq, 4, IWARP_WC_SUCCESS);
        pair_wc(b->send_cq, 5, IWARP_WC_SUCCESS);
        pair_wc(a->recv_cq, 6, IWARP_WC_SUCCESS);
        assert_memory_equal(b->p, a->p, 64);
        must(iwarp_mr_query(mr, &info));
        assert_true(info.valid);
        must(iwarp_mr_deregister(mr));
        pair_close(&p);
    }
}

/* No connection comes of it: flushed; nor is any tried: gone with the queue pair. */
static void post__in_idle_without_a_connection__is_flushed_or_gone(void **state)
{
    struct sockaddr_storage addr;
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    pair_prepare(&p, &o);
    socklen_t len = sizeof addr;
    must(iwarp_listener_addr(p.listener, &addr, &len));
    must(iwarp_listener_close(p.listener)); /* from now on nobody is there */
    p.listener = NULL;
    pair_send(&p.side[0], 1, 0, 8);
    pair_send(&p.side[1], 1, 0, 8);
    must(iwarp_connect(p.side[0].qp, (const struct sockaddr *)&addr, len, NULL, NULL, 0, p.eq[0],
                       NULL, &p.side[0].conn));
    assert_int_equal(iwarp_conn_wait(p.side[0].conn, PAIR_WAIT_MS), IWARP_TRANSPORT);
    struct iwarp_wc wc = pair_wc(p.side[0].send_cq, 1, IWARP_WC_FLUSHED);
    assert_int_equal(iwarp_fault_code(wc.fault), IWARP_FAULT_TCP_CONNECT);
    pair_no_wc(p.side[1].send_cq);
    pair_close(&p);
}

/* A responder must wait for the first FPDU (RFC 5044 7.1.2 rule 4), so its queue fills up. */
static void post__to_a_full_queue__is_again(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    o.qp.max_send_wr = 3;
    o.qp.max_recv_wr = 2;
    o.conn[0].peer_to_peer = false; /* the responder has to wait */
    open_pair(&p, &o);
    struct pair_side *a = &p.side[0], *b = &p.side[1];
    struct iwarp_sge sge = pair_sge(b, 0, 8);
    const struct iwarp_send_wr send = pair_wr(IWARP_WR_SEND, 9, &sge);
    const struct iwarp_recv_wr recv = {.wr_id = 9};
    for (uint64_t i = 0; i < 3; i++) {
        pair_write(b, i, 0, 8, a, 8);
    }
    must_fail(iwarp_post_send(b->qp, &send, NULL), IWARP_AGAIN, "3 requests");
    usleep(20000);
    pair_no_wc(b->send_cq);
    pair_recv(b, 0, 0, 8);
    pair_recv(b, 1, 0, 8);
    must_fail(iwarp_post_recv(b->qp, &recv, NULL), IWARP_AGAIN, "2 receives");
    pair_send(a, 0, 0, 8);
    pair_wc(b->recv_cq, 0, IWARP_WC_SUCCESS); /* now it may send, and room comes */
    for (uint64_t i = 0; i < 3; i++) {
        pair_wc(b->send_cq, i, IWARP_WC_SUCCESS);
    }
    pair_write(b, 3, 0, 8, a, 8);
    pair_recv(b, 3, 0, 8);
    pair_close(&p);

    o.qp.max_recv_wr = 0;
    pair_prepare(&p, &o);
    must_fail(iwarp_post_recv(p.side[0].qp, &recv, NULL), IWARP_AGAIN, "0 receives");
    pair_close(&p);
}

#define LINKS 7u

/* Writes of 8 octets, each to a place of its own, every other one inline. */
static void make_chain(struct pair *p, struct iwarp_send_wr *wr, struct iwarp_sge *sge)
{
    struct pair_side *a = &p->side[0], *b = &p->side[1];

    for (unsigned i = 0; i < LINKS; i++) {
        sge[i] = pair_sge(a, 64 * i, 8);
        wr[i] = pair_wr(IWARP_WR_WRITE, i, &sge[i]);
        wr[i].next = i + 1 < LINKS ? &wr[i + 1] : NULL;
        wr[i].flags |= i % 2 ? IWARP_WR_INLINE : 0u;
        wr[i].remote_stag = iwarp_mr_stag(b->mr);
        wr[i].remote_to = (uint64_t)(uintptr_t)b->p + (uint64_t)64 * i;
        memset(a->p + (size_t)64 * i, (int)(i + 1), 8);
        memset(b->p + (size_t)64 * i, 0, 8);
    }
}

static void spoil_link(struct iwarp_send_wr *wr, struct iwarp_sge *sge, unsigned how)
{
    switch (how) {
    case 0:
        wr->flags |= 1u << 7;
        break;
    case 1:
        wr->opcode = (enum iwarp_wr_opcode)99;
        break;
    case 2:
        wr->sg_list = NULL;
        break;
    case 3:
        wr->num_sge = 33;
        break;
    case 4:
        wr->flags |= IWARP_WR_INLINE;
        sge->len = 60000;
        break;
    default:
        wr->flags |= IWARP_WR_INLINE;
        sge->addr = (void *)(uintptr_t)64; /* no memory there */
        break;
    }
}

/* [VERBS-8.1.1-01] */
static void post_send__chain_with_a_wrong_link__posts_what_stands_before_it(void **state)
{
    struct iwarp_send_wr wr[LINKS];
    struct iwarp_sge sge[LINKS];
    struct pair p;

    (void)state;
    open_default(&p, PAIR_MEMORY);
    for (unsigned k = 0; k < 6 * LINKS; k++) {
        const struct iwarp_send_wr *bad = NULL;
        unsigned wrong = k % LINKS;
        make_chain(&p, wr, sge);
        spoil_link(&wr[wrong], &sge[wrong], k / LINKS);
        assert_int_equal(iwarp_post_send(p.side[0].qp, wr, &bad), IWARP_MISUSE);
        assert_ptr_equal(bad, &wr[wrong]);
        for (unsigned i = 0; i < wrong; i++) {
            pair_wc(p.side[0].send_cq, i, IWARP_WC_SUCCESS);
        }
        pair_recv(&p.side[1], k, 4096, 8);
        pair_send(&p.side[0], k, 4096, 8); /* what was posted before it is in place with it */
        pair_wc(p.side[1].recv_cq, k, IWARP_WC_SUCCESS);
        pair_wc(p.side[0].send_cq, k, IWARP_WC_SUCCESS);
        for (unsigned i = 0; i < LINKS; i++) {
            assert_int_equal(p.side[1].p[64 * i], i < wrong ? i + 1 : 0);
        }
    }
    pair_close(&p);
}

static void post_send__chain_that_is_longer_than_the_queue__is_posted_in_part(void **state)
{
    const struct iwarp_send_wr *bad = NULL;
    struct iwarp_send_wr wr[LINKS];
    struct iwarp_sge sge[LINKS];
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    o.memory = 65536;
    o.qp.max_send_wr = 4;
    pair_prepare(&p, &o); /* in IDLE nothing leaves the queue */
    make_chain(&p, wr, sge);
    must_fail(iwarp_post_send(p.side[0].qp, wr, &bad), IWARP_AGAIN, "4 requests");
    assert_ptr_equal(bad, &wr[4]);
    pair_connect(&p);
    for (unsigned i = 0; i < 4; i++) {
        pair_wc(p.side[0].send_cq, i, IWARP_WC_SUCCESS);
    }
    must(iwarp_post_send(p.side[0].qp, bad, NULL));
    for (unsigned i = 4; i < LINKS; i++) {
        pair_wc(p.side[0].send_cq, i, IWARP_WC_SUCCESS);
    }
    pair_close(&p);
}

/* --- how work is reported -------------------------------------------------------------------- */

/* [VERBS-8.1.1-01] [VERBS-8.1.3.1-01] [VERBS-8.2.4-01] */
static void post_send__chained_and_silent__completes_the_signaled_only(void **state)
{
    (void)state;
    for (int all = 0; all < 2; all++) {
        struct iwarp_send_wr wr[9];
        struct pair_options o;
        struct pair p;
        pair_options_init(&o, all ? PAIR_MEMORY : PAIR_TCP4);
        o.qp.signal_all = all;
        open_pair(&p, &o);
        for (uint64_t i = 0; i < 9; i++) {
            wr[i] = (struct iwarp_send_wr){.next = i < 8 ? &wr[i + 1] : NULL, .wr_id = i};
            wr[i].flags = i % 3 == 2 ? IWARP_WR_SIGNALED : 0;
            pair_recv(&p.side[1], i, 0, 0);
        }
        must(iwarp_post_send(p.side[0].qp, wr, NULL));
        for (uint64_t i = 0; i < 9; i++) {
            if (all || i % 3 == 2) {
                struct iwarp_wc wc = pair_wc(p.side[0].send_cq, i, IWARP_WC_SUCCESS);
                assert_int_equal(wc.opcode, IWARP_WC_SEND);
                assert_ptr_equal(wc.qp, p.side[0].qp);
                assert_int_equal(wc.qp_num, iwarp_qp_num(p.side[0].qp));
                assert_null(wc.fault);
            }
            assert_int_equal(pair_wc(p.side[1].recv_cq, i, IWARP_WC_SUCCESS).byte_len, 0);
        }
        pair_no_wc(p.side[0].send_cq);
        pair_close(&p);
    }
}

/* Silent requests leave room behind them without anybody polling. */
static void post_send__silent_for_ever__never_fills_the_queue(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    o.qp.max_send_wr = 4;
    o.cq_entries = 1;
    open_pair(&p, &o);
    for (unsigned i = 0; i < 1000; i++) {
        struct iwarp_sge sge = pair_sge(&p.side[0], 0, 100);
        struct iwarp_send_wr wr = pair_wr(IWARP_WR_WRITE, i, &sge);
        wr.flags = 0;
        wr.remote_stag = iwarp_mr_stag(p.side[1].mr);
        wr.remote_to = (uint64_t)(uintptr_t)p.side[1].p;
        enum iwarp_status status = IWARP_AGAIN;
        for (int try = 0; try < 90000 && status == IWARP_AGAIN; try++) {
            status = iwarp_post_send(p.side[0].qp, &wr, NULL);
            if (status == IWARP_AGAIN) {
                usleep(1000);
            }
        }
        must(status);
    }
    pair_no_wc(p.side[0].send_cq);
    pair_close(&p);
}

/* [VERBS-8.1.2.1-02] */
static void post_send__inline__copies_at_once(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    o.qp.max_inline = 1024;
    open_pair(&p, &o);
    for (uint64_t i = 0; i < 2; i++) { /* the responder's waits in the queue meanwhile */
        uint8_t text[1024], kept[1024];
        struct iwarp_sge sge[3] = {{text, 1000, 77}, {NULL, 0, 5}, {text + 1000, 24, 78}};
        struct iwarp_send_wr wr = pair_wr(i ? IWARP_WR_SEND : IWARP_WR_WRITE, i, sge);
        struct pair_side *from = &p.side[1 - i], *to = &p.side[i];
        pair_fill(text, sizeof text, i);
        memcpy(kept, text, sizeof kept);
        wr.num_sge = 3;
        wr.flags |= IWARP_WR_INLINE;
        wr.remote_stag = iwarp_mr_stag(to->mr);
        wr.remote_to = (uint64_t)(uintptr_t)to->p;
        pair_recv(&p.side[1], i, 0, 1024);
        must(iwarp_post_send(from->qp, &wr, NULL));
        memset(text, 0, sizeof text);
        if (!i) {
            pair_send(&p.side[0], 7, 0, 1);
            pair_wc(p.side[0].send_cq, 7, IWARP_WC_SUCCESS);
            pair_wc(p.side[1].recv_cq, 0, IWARP_WC_SUCCESS);
        }
        pair_wc(from->send_cq, i, IWARP_WC_SUCCESS);
        if (i) {
            assert_int_equal(pair_wc(to->recv_cq, 1, IWARP_WC_SUCCESS).byte_len, 1024);
        } else {
            pair_read(to, 8, 32768, 1, from,
                      0); /* the Write is in place in front of its Response */
            pair_wc(to->send_cq, 8, IWARP_WC_SUCCESS);
        }
        assert_memory_equal(to->p, kept, 1024);
    }
    pair_close(&p);
}

/* Inline data need not be registered, so nothing but the copy can tell that it is not there. */
/* [VERBS-8.3.1-01] */
static void post_send__inline_of_missing_memory__is_misuse(void **state)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const struct iwarp_send_wr *bad = NULL;
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    open_pair(&p, &o);
    uint8_t *gone = mmap(NULL, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(gone, MAP_FAILED);
    assert_int_equal(mprotect(gone + page, page, PROT_NONE), 0);
    struct iwarp_sge there = {gone + page - 16, 16, 0}, half = {gone + page - 16, 17, 0};
    struct iwarp_send_wr second = pair_wr(IWARP_WR_SEND, 2, &half);
    struct iwarp_send_wr first = pair_wr(IWARP_WR_SEND, 1, &there);
    second.flags |= IWARP_WR_INLINE;
    first.flags |= IWARP_WR_INLINE;
    first.next = &second;
    for (uint64_t i = 0; i < 3; i++) {
        pair_recv(&p.side[1], i, 0, 64);
    }
    must_fail(iwarp_post_send(p.side[0].qp, &first, &bad), IWARP_MISUSE, "17 octets at");
    assert_ptr_equal(bad, &second);
    pair_wc(p.side[0].send_cq, 1, IWARP_WC_SUCCESS);
    pair_wc(p.side[1].recv_cq, 0, IWARP_WC_SUCCESS);
    pair_send(&p.side[0], 3, 0, 8); /* the stream is none the worse for it */
    pair_wc(p.side[0].send_cq, 3, IWARP_WC_SUCCESS);
    pair_wc(p.side[1].recv_cq, 1, IWARP_WC_SUCCESS);
    pair_close(&p);
    munmap(gone, 2 * page);
}

/* The first test of the program: as long as no connection was there, nothing else catches faults.
 */
static void post_send__inline_of_missing_memory_before_any_connection__is_misuse(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    pair_prepare(&p, &o);
    uint8_t *gone = mmap(NULL, 64, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(gone, MAP_FAILED);
    struct iwarp_sge sge[2] = {{gone, 8, 0}, {gone, 8, 0}};
    for (unsigned pieces = 2; pieces > 0; pieces--) { /* one SGE is copied elsewhere */
        struct iwarp_send_wr wr = pair_wr(IWARP_WR_SEND, 1, sge);
        wr.num_sge = pieces;
        wr.flags |= IWARP_WR_INLINE;
        must_fail(iwarp_post_send(p.side[0].qp, &wr, NULL), IWARP_MISUSE, "8 octets at");
    }
    pair_close(&p);
    munmap(gone, 64);
}

/* [VERBS-8.1.3.2-03] */
static void post__with_32_pieces__gathers_and_scatters(void **state)
{
    struct chance chance = {chance_seed()};

    (void)state;
    for (unsigned i = 0; i < 60; i++) {
        struct iwarp_sge from[32], to[32];
        size_t total = 0, room = 0, at = 0;
        struct pair_options o;
        struct pair p;
        pair_options_init(&o, i % 2 ? PAIR_TCP4 : PAIR_MEMORY);
        o.qp.max_send_sge = o.qp.max_recv_sge = 32;
        o.conn[0].ulpdu_max = o.conn[1].ulpdu_max = i % 4 ? 0 : 500;
        o.conn[0].crc = o.conn[1].crc = i % 3 != 0;
        o.conn[0].placement = o.conn[1].placement = (enum iwarp_placement)(i % 5 == 0);
        open_pair(&p, &o);
        pair_fill(p.side[0].p, 65536, i);
        for (unsigned k = 0; k < 32; k++) {
            from[k] = pair_sge(&p.side[0], 2000u * k, chance_size(&chance, 2000));
            total += from[k].len;
        }
        for (unsigned k = 0; k < 32; k++) {
            size_t len = k < 31 ? chance_size(&chance, 2000) : 65536 - 2000 * 31;
            to[k] = pair_sge(&p.side[1], 2000u * k, len);
            room += len;
        }
        struct iwarp_send_wr send = pair_wr(IWARP_WR_SEND, 1, from);
        const struct iwarp_recv_wr recv = {.wr_id = 2, .sg_list = to, .num_sge = 32};
        send.num_sge = 32;
        must(iwarp_post_recv(p.side[1].qp, &recv, NULL));
        must(iwarp_post_send(p.side[0].qp, &send, NULL));
        if (total > room) {
            pair_wc(p.side[1].recv_cq, 2, IWARP_WC_LOCAL_LENGTH);
            assert_int_equal(iwarp_fault_code(iwarp_qp_fault(p.side[1].qp)),
                             IWARP_FAULT_DDP_TOO_LONG);
        } else {
            unsigned f = 0, t = 0;
            size_t f_at = 0, t_at = 0;
            assert_int_equal(pair_wc(p.side[1].recv_cq, 2, IWARP_WC_SUCCESS).byte_len, total);
            for (; at < total; at++, f_at++, t_at++) {
                for (; f_at == from[f].len; f++, f_at = 0) {
                }
                for (; t_at == to[t].len; t++, t_at = 0) {
                }
                assert_int_equal(((uint8_t *)from[f].addr)[f_at], ((uint8_t *)to[t].addr)[t_at]);
            }
        }
        pair_close(&p);
    }
}

/* [VERBS-9.3.2.1-01] */
static void send__of_each_kind__carries_its_flags(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct iwarp_mr *mr;
        struct pair p;
        open_default(&p, i % 2 ? PAIR_TCP4 : PAIR_MEMORY);
        must(iwarp_mr_register(p.side[1].pd, p.side[1].p, 64, PAIR_ALL, &mr));
        struct iwarp_send_wr wr = pair_wr(i & 2 ? IWARP_WR_SEND_INV : IWARP_WR_SEND, i, NULL);
        wr.flags |= i & 1 ? IWARP_WR_SOLICITED : 0;
        wr.invalidate_stag = iwarp_mr_stag(mr);
        pair_recv(&p.side[1], 5, 0, 8);
        must(iwarp_post_send(p.side[0].qp, &wr, NULL));
        struct iwarp_wc wc = pair_wc(p.side[1].recv_cq, 5, IWARP_WC_SUCCESS);
        assert_int_equal(wc.flags,
                         (i & 2 ? IWARP_WC_WITH_INVALIDATE : 0) | (i & 1 ? IWARP_WC_SOLICITED : 0));
        assert_int_equal(wc.invalidated_stag, i & 2 ? iwarp_mr_stag(mr) : 0);
        struct iwarp_sge sge = pair_sge(&p.side[0], 0, 8);
        struct iwarp_send_wr write = pair_wr(IWARP_WR_READ, 6, &sge);
        write.remote_stag = iwarp_mr_stag(mr);
        write.remote_to = (uint64_t)(uintptr_t)p.side[1].p;
        must(iwarp_post_send(p.side[0].qp, &write, NULL));
        pair_wc(p.side[0].send_cq, i, IWARP_WC_SUCCESS);
        pair_wc(p.side[0].send_cq, 6, i & 2 ? IWARP_WC_REMOTE_ACCESS : IWARP_WC_SUCCESS);
        must(iwarp_mr_deregister(mr));
        pair_close(&p);
    }
}

/* --- failures -------------------------------------------------------------------------------- */

enum wrong { WRONG_LKEY, WRONG_PD, WRONG_BOUNDS, WRONG_SINK_RIGHT, WRONGS };

/* Good, bad, good: in this order success, the reason, flushed; the fault is with those two. */
/* [VERBS-6.2.4-01] */
static void request__with_a_wrong_sge__is_a_local_protection_error(void **state)
{
    static const enum iwarp_fault_code faults[WRONGS] = {
        [WRONG_LKEY] = IWARP_FAULT_LOCAL_SGE,
        [WRONG_PD] = IWARP_FAULT_LOCAL_SGE,
        [WRONG_BOUNDS] = IWARP_FAULT_LOCAL_SGE_BOUNDS,
        [WRONG_SINK_RIGHT] = IWARP_FAULT_LOCAL_SGE_ACCESS};

    (void)state;
    for (unsigned i = 0; i < 2 * WRONGS; i++) {
        struct iwarp_mr *mr;
        struct pair p;
        open_default(&p, i / WRONGS ? PAIR_TCP4 : PAIR_MEMORY);
        enum wrong wrong = (enum wrong)(i % WRONGS);
        struct pair_side *a = &p.side[0], *b = &p.side[1];
        must(iwarp_mr_register(wrong == WRONG_PD ? b->pd : a->pd, a->p, 1000,
                               wrong == WRONG_SINK_RIGHT ? IWARP_ACCESS_REMOTE_READ : PAIR_ALL,
                               &mr));
        struct iwarp_sge sge = {a->p, wrong == WRONG_BOUNDS ? 1001 : 1000, iwarp_mr_stag(mr)};
        sge.lkey ^= wrong == WRONG_LKEY;
        struct iwarp_send_wr bad =
            pair_wr(wrong == WRONG_SINK_RIGHT ? IWARP_WR_READ : IWARP_WR_SEND, 2, &sge);
        bad.flags = 0; /* told all the same */
        bad.remote_stag = iwarp_mr_stag(b->mr);
        bad.remote_to = (uint64_t)(uintptr_t)b->p;
        pair_recv(b, 10, 0, 2000);
        pair_recv(b, 11, 0, 2000);
        pair_write(a, 1, 0, 100, b, 0);
        must(iwarp_post_send(a->qp, &bad, NULL));
        pair_send(a, 3, 0, 8);
        pair_wc(a->send_cq, 1, IWARP_WC_SUCCESS);
        struct iwarp_wc wc = pair_wc(a->send_cq, 2, IWARP_WC_LOCAL_PROTECTION);
        assert_int_equal(iwarp_fault_code(wc.fault), faults[wrong]);
        assert_ptr_equal(pair_wc(a->send_cq, 3, IWARP_WC_FLUSHED).fault, wc.fault);
        wc = pair_wc(b->recv_cq, 10, IWARP_WC_FLUSHED);
        assert_int_equal(iwarp_fault_code(wc.fault), IWARP_FAULT_PEER_TERMINATE);
        pair_wc(b->recv_cq, 11, IWARP_WC_FLUSHED);
        must(iwarp_mr_deregister(mr));
        pair_close(&p);
    }
}

/* Write, Read and Atomic to STag 0: a completion error; the peer learns that something was wrong.
 */
/* [VERBS-8.1.3.2.1-01] */
static void request__to_stag_0__is_a_local_operation_error(void **state)
{
    static const enum iwarp_wr_opcode opcodes[] = {IWARP_WR_WRITE, IWARP_WR_READ,
                                                   IWARP_WR_ATOMIC_FETCH_ADD};

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        struct pair p;
        open_default(&p, i / 3 ? PAIR_TCP4 : PAIR_MEMORY);
        struct pair_side *a = &p.side[0], *b = &p.side[1];
        struct iwarp_sge sge = pair_sge(a, 0, 8);
        struct iwarp_send_wr bad = pair_wr(opcodes[i % 3], 2, &sge);
        bad.remote_to = (uint64_t)(uintptr_t)b->p;
        pair_recv(b, 10, 0, 8);
        pair_write(a, 1, 0, 8, b, 0);
        must(iwarp_post_send(a->qp, &bad, NULL));
        pair_send(a, 3, 0, 8);
        pair_wc(a->send_cq, 1, IWARP_WC_SUCCESS);
        struct iwarp_wc wc = pair_wc(a->send_cq, 2, IWARP_WC_LOCAL_OPERATION);
        assert_int_equal(iwarp_fault_code(wc.fault), IWARP_FAULT_LOCAL_STAG_ZERO);
        pair_wc(a->send_cq, 3, IWARP_WC_FLUSHED);
        wc = pair_wc(b->recv_cq, 10, IWARP_WC_FLUSHED);
        assert_int_equal(iwarp_fault_code(wc.fault), IWARP_FAULT_PEER_TERMINATE);
        pair_close(&p);
    }
}

/* The Read that was refused is told apart from those in front and behind. */
/* [VERBS-8.1.2.2-02] [VERBS-6.2.4-01] */
static void read__that_is_refused__is_a_remote_access_error(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        static const enum iwarp_fault_code codes[] = {
            IWARP_FAULT_RDMAP_STAG_INVALID, IWARP_FAULT_RDMAP_BOUNDS, IWARP_FAULT_RDMAP_ACCESS};
        struct iwarp_mr *mr;
        struct pair p;
        open_default(&p, i % 2 ? PAIR_TCP4 : PAIR_MEMORY);
        struct pair_side *a = &p.side[0], *b = &p.side[1];
        must(iwarp_mr_register(b->pd, b->p, i / 2 == 1 ? 99 : 100,
                               i / 2 == 2 ? IWARP_ACCESS_LOCAL_WRITE : PAIR_ALL, &mr));
        struct iwarp_sge sge = pair_sge(a, 1000, 100);
        struct iwarp_send_wr bad = pair_wr(IWARP_WR_READ, 2, &sge);
        bad.remote_stag = iwarp_mr_stag(mr) ^ (i / 2 == 0);
        bad.remote_to = (uint64_t)(uintptr_t)b->p;
        pair_read(a, 1, 0, 100, b, 0);
        must(iwarp_post_send(a->qp, &bad, NULL));
        pair_read(a, 3, 0, 100, b, 0);
        pair_wc(a->send_cq, 1, IWARP_WC_SUCCESS); /* requests are answered in order */
        struct iwarp_wc wc = pair_wc(a->send_cq, 2, IWARP_WC_REMOTE_ACCESS);
        assert_int_equal(iwarp_fault_code(wc.fault), IWARP_FAULT_PEER_TERMINATE);
        assert_int_equal(iwarp_fault_side(wc.fault), IWARP_SIDE_PEER);
        pair_wc(a->send_cq, 3, IWARP_WC_FLUSHED);
        must(iwarp_conn_wait_end(b->conn, PAIR_WAIT_MS));
        assert_int_equal(iwarp_fault_code(iwarp_qp_fault(b->qp)), codes[i / 2]);
        must(iwarp_mr_deregister(mr));
        pair_close(&p);
    }
}

/* A fenced Write leaves when the Read in front is done, so that this sees the old data. */
static void fence__behind_reads__waits_for_them(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        struct pair_options o;
        struct pair p;
        pair_options_init(&o, i % 2 ? PAIR_TCP4 : PAIR_MEMORY);
        open_pair(&p, &o);
        struct pair_side *a = &p.side[0], *b = &p.side[1];
        memset(b->p, 1, 32768);
        memset(a->p + 32768, 2, 32768);
        pair_read(a, 1, 0, 32768, b, 0);
        struct iwarp_sge sge = pair_sge(a, 32768, 32768);
        struct iwarp_send_wr wr = pair_wr(IWARP_WR_WRITE, 2, &sge);
        wr.flags |= IWARP_WR_FENCE;
        wr.remote_stag = iwarp_mr_stag(b->mr);
        wr.remote_to = (uint64_t)(uintptr_t)b->p;
        must(iwarp_post_send(a->qp, &wr, NULL));
        pair_wc(a->send_cq, 1, IWARP_WC_SUCCESS);
        pair_wc(a->send_cq, 2, IWARP_WC_SUCCESS);
        for (size_t k = 0; k < 32768; k++) {
            assert_int_equal(a->p[k], 1);
        }
        pair_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(post_send__inline_of_missing_memory_before_any_connection__is_misuse),
        cmocka_unit_test(post_send__against_the_rules__is_misuse),
        cmocka_unit_test(post_send_together__that_cannot_be__posts_nothing),
        cmocka_unit_test(read__into_a_sink_without_remote_write__is_refused_on_request),
        cmocka_unit_test(post__in_idle__waits_until_connected),
        cmocka_unit_test(post__in_idle_without_a_connection__is_flushed_or_gone),
        cmocka_unit_test(post__to_a_full_queue__is_again),
        cmocka_unit_test(post_send__chain_with_a_wrong_link__posts_what_stands_before_it),
        cmocka_unit_test(post_send__chain_that_is_longer_than_the_queue__is_posted_in_part),
        cmocka_unit_test(post_send__chained_and_silent__completes_the_signaled_only),
        cmocka_unit_test(post_send__silent_for_ever__never_fills_the_queue),
        cmocka_unit_test(post_send__inline__copies_at_once),
        cmocka_unit_test(post_send__inline_of_missing_memory__is_misuse),
        cmocka_unit_test(post__with_32_pieces__gathers_and_scatters),
        cmocka_unit_test(send__of_each_kind__carries_its_flags),
        cmocka_unit_test(request__with_a_wrong_sge__is_a_local_protection_error),
        cmocka_unit_test(request__to_stag_0__is_a_local_operation_error),
        cmocka_unit_test(read__that_is_refused__is_a_remote_access_error),
        cmocka_unit_test(fence__behind_reads__waits_for_them),
    };

    return cmocka_run_group_tests_name("post", tests, NULL, NULL);
}
