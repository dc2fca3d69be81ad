/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whole connections whose counters all stand just below their ends: MSNs, positions in work and
 * completion queues, and the position in the stream, with and without markers. RFC 5041 4.3.
 */
#include "octets.h"
#include "stream/stream.h"
#include "verbs/conn.h"
#include "verbs/cq.h"
#include "verbs/qp.h"
#include "verbs_pair.h"

#define ROUNDS 60u
#define BELOW  20u /* steps in front of the end, where it has one */

static void set_wq(struct iwarp_wq *q)
{
    q->next = q->done = UINT32_MAX - BELOW;
    atomic_store(&q->head, UINT32_MAX - BELOW);
    atomic_store(&q->reaped, UINT32_MAX - BELOW);
}

static void set_cq(struct iwarp_cq *cq)
{
    atomic_store(&cq->head, UINT32_MAX - BELOW);
    atomic_store(&cq->tail, UINT32_MAX - BELOW);
}

/* From one end to the other, as if 2^32 - BELOW messages and nearly 4 GiB had gone that way. */
static void set_direction(struct iwarp_stream *from, struct iwarp_stream *to)
{
    uint64_t skipped = ((uint64_t)1 << 32) - 32768; /* markers stay where they are */

    from->tx.send_msn = from->tx.read_msn = UINT32_MAX - BELOW;
    to->ddp.msn[IWARP_DDP_QN_SEND] = to->ddp.msn[IWARP_DDP_QN_READ_REQUEST] = UINT32_MAX - BELOW;
    from->tx.framed += skipped;
    from->tx.sent += skipped;
    from->tx.released += skipped;
    to->rx.pos += skipped;
    to->rx.fpdu_pos += skipped;
}

/* Nothing is under way; the workers are kept out all the same. */
static void set_streams(struct pair *p)
{
    struct iwarp_conn *a = p->side[0].conn, *b = p->side[1].conn;

    iwarp_mutex_lock(&a->lock);
    iwarp_mutex_lock(&b->lock);
    set_direction(&a->stream, &b->stream);
    set_direction(&b->stream, &a->stream);
    iwarp_mutex_unlock(&b->lock);
    iwarp_mutex_unlock(&a->lock);
}

/* One of each kind in either direction; the responder's first waits for nothing. */
static void exchange(struct pair *p, uint64_t id, size_t n)
{
    for (int i = 0; i < 2; i++) {
        struct pair_side *a = &p->side[i], *b = &p->side[1 - i];
        pair_fill(a->p, n, id * 2 + (uint64_t)i);
        pair_recv(b, id, 32768, 8192);
        pair_write(a, id, 0, n, b, 16384);
        pair_send(a, id, 0, n);
        pair_wc(a->send_cq, id, IWARP_WC_SUCCESS);
        pair_wc(a->send_cq, id, IWARP_WC_SUCCESS);
        assert_int_equal(pair_wc(b->recv_cq, id, IWARP_WC_SUCCESS).byte_len, n);
        assert_memory_equal(b->p + 32768, a->p, n);
        assert_memory_equal(b->p + 16384, a->p, n);
        memset(a->p + 49152, 0, n);
        pair_read(a, id, 49152, n, b, 16384);
        pair_wc(a->send_cq, id, IWARP_WC_SUCCESS);
        assert_memory_equal(a->p + 49152, b->p + 16384, n);
    }
}

static void try_wraps(enum pair_transport transport, bool markers, bool crc)
{
    struct chance chance = {chance_seed()};
    struct pair_options o;
    struct pair p;

    pair_options_init(&o, transport);
    o.cq_entries = 8;
    o.qp.max_send_wr = o.qp.max_recv_wr = 4;
    for (int i = 0; i < 2; i++) {
        o.conn[i].markers = markers;
        o.conn[i].crc = crc;
        o.conn[i].ulpdu_max = 1442;
    }
    pair_prepare(&p, &o);
    for (int i = 0; i < 2; i++) {
        set_wq(&p.side[i].qp->sq);
        set_wq(&p.side[i].qp->rq);
        set_cq(p.side[i].send_cq);
        set_cq(p.side[i].recv_cq);
    }
    pair_connect(&p);
    exchange(&p, 100, 1); /* the responder may send from the first FPDU on */
    set_streams(&p);
    for (uint64_t id = 0; id < ROUNDS; id++) {
        exchange(&p, id, 1 + chance_below(&chance, 4000));
    }
    for (int i = 0; i < 2; i++) {
        const struct iwarp_stream *s = &p.side[i].conn->stream;
        iwarp_mutex_lock(&p.side[i].conn->lock);
        assert_true(s->tx.sent >> 32 == 1 && s->rx.pos >> 32 == 1);
        assert_true(s->tx.send_msn < ROUNDS && s->tx.read_msn < ROUNDS);
        assert_true(p.side[i].qp->sq.done < 4 * ROUNDS && p.side[i].qp->rq.done < ROUNDS);
        iwarp_mutex_unlock(&p.side[i].conn->lock);
        assert_true(atomic_load(&p.side[i].send_cq->tail) < 4 * ROUNDS);
    }
    must(iwarp_disconnect(p.side[0].conn));
    must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
    assert_null(iwarp_conn_fault(p.side[1].conn));
    pair_close(&p);
}

static void counters__at_their_ends__go_on(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        try_wraps(i % 2 ? PAIR_MEMORY : PAIR_TCP4, i / 2 % 2, i / 4 % 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters__at_their_ends__go_on),
    };

    return cmocka_run_group_tests_name("pair_wraps", tests, NULL, NULL);
}
