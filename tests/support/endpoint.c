/* SPDX-License-Identifier: BSD-2-Clause */
/* See endpoint.h. */
#include "endpoint.h"

#include "base/guard.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#endif
#if defined(UNDER_ASAN)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)
#define ASAN_UNPOISON_MEMORY_REGION(p, n)
#endif

#define CANARY      64
#define CANARY_BYTE 0xc5
#define QUEUE       256
#define PLENTY      (64u << 20)
#define TABLES      8

/* An address is all that a PD is here. */
static const int pd_own, pd_other;

/* A table is a large mapping: made once, used again. */
static struct iwarp_region_table tables[TABLES];
static bool table_taken[TABLES];

static struct iwarp_region_table *take_table(void)
{
    unsigned i = 0;

    while (i < TABLES - 1 && table_taken[i]) {
        i++;
    }
    assert_false(table_taken[i]);
    if (!tables[i].slot) {
        assert_true(iwarp_region_table_init(&tables[i]));
    }
    table_taken[i] = true;
    return &tables[i];
}

void endpoint_init(struct endpoint *e, const struct endpoint_options *options)
{
    static const struct endpoint_options defaults = {.ird = 4, .ord = 4};

    iwarp_guard_refresh(); /* cmocka takes the signals anew for each test */
    *e = (struct endpoint){.options = options ? *options : defaults};
    e->regions = take_table();
    e->budget.limit = e->options.budget ? e->options.budget : PLENTY;
    assert_true(iwarp_wq_init(&e->sq, QUEUE, sizeof(struct iwarp_swqe) + IWARP_MAX_INLINE));
    assert_true(iwarp_wq_init(
        &e->rq, QUEUE, sizeof(struct iwarp_rwqe) + IWARP_MAX_SGE * sizeof(struct iwarp_sge)));
    const struct iwarp_stream_config config = {
        .regions = e->regions,
        .pd = &pd_own,
        .sq = &e->sq,
        .rq = &e->rq,
        .budget = &e->budget,
        .spare = &e->spare,
        .counts = &e->counts,
        .crc = !e->options.no_crc,
        .hold_tx = e->options.hold_tx,
        .responder = e->options.hold_tx,
        .strict = e->options.strict,
        .hold = e->options.hold,
        .refers = e->options.refers,
        .large_batches = e->options.large_batches,
        .early = e->options.early,
        .plain = e->options.plain,
        .markers_rx = e->options.markers_rx,
        .markers_tx = e->options.markers_tx,
        .rfc7306 = e->options.rfc7306,
        .send_imm = e->options.send_imm,
        .rtr = e->options.rtr,
        .mulpdu = e->options.mulpdu ? e->options.mulpdu : 1442,
        .ird = e->options.ird,
        .ord = e->options.ord,
    };
    iwarp_stream_init(&e->s, &config);
}

void endpoint_fini(struct endpoint *e)
{
    endpoint_check(e);
    iwarp_stream_fini(&e->s);
    assert_int_equal(atomic_load(&e->budget.used), 0);
    iwarp_spare_fini(&e->spare);
    for (unsigned i = 0; i < e->areas; i++) {
        struct area *a = &e->area[i];
        endpoint_deregister(e, a);
        ASAN_UNPOISON_MEMORY_REGION(a->block, a->n + 2 * CANARY);
        free(a->block);
    }
    for (unsigned i = 0; i < TABLES; i++) {
        table_taken[i] = table_taken[i] && e->regions != &tables[i];
    }
    iwarp_wq_fini(&e->sq);
    iwarp_wq_fini(&e->rq);
    octets_free(&e->sent);
}

/* --- memory ------------------------------------------------------------------------------------
 */

static struct area *enter(struct endpoint *e, uint32_t stag, uint64_t to_base, uint8_t *p, size_t n,
                          unsigned access, const void *pd)
{
    assert_true(e->areas < ENDPOINT_REGIONS);
    struct area *a = &e->area[e->areas++];
    *a = (struct area){.p = p, .n = n};
    a->region.access = access;
    a->region.pd = pd;
    a->region.addr = p;
    a->region.len = n;
    a->region.to_base = to_base;
    if (stag >> 8 != 0) {
        assert_true(iwarp_region_insert(e->regions, &a->region, stag));
    } else { /* real peers have such STags, this library gives none out */
        atomic_store(&a->region.stag, stag);
        atomic_store(&e->regions->slot[0], &a->region);
    }
    return a;
}

static struct area *fresh(struct endpoint *e, uint32_t stag, uint64_t to_base, size_t n,
                          unsigned access, uint8_t fill, const void *pd)
{
    uint8_t *block = malloc(n + (size_t)2 * CANARY);

    assert_non_null(block);
    memset(block, CANARY_BYTE, n + (size_t)2 * CANARY);
    memset(block + CANARY, fill, n);
    struct area *a = enter(e, stag, to_base, block + CANARY, n, access, pd);
    a->block = block;
    ASAN_POISON_MEMORY_REGION(block, CANARY - 8);
    ASAN_POISON_MEMORY_REGION(block + ((CANARY + n + 7) & ~(size_t)7), CANARY - 8);
    return a;
}

struct area *endpoint_area(struct endpoint *e, uint32_t stag, uint64_t to_base, size_t n,
                           unsigned access, uint8_t fill)
{
    return fresh(e, stag, to_base, n, access, fill, &pd_own);
}

struct area *endpoint_stranger(struct endpoint *e, uint32_t stag, uint64_t to_base, size_t n,
                               unsigned access)
{
    return fresh(e, stag, to_base, n, access, 0, &pd_other);
}

struct area *endpoint_foreign(struct endpoint *e, uint32_t stag, uint64_t to_base, void *p,
                              size_t n, unsigned access)
{
    struct area *a = enter(e, stag, to_base, p, n, access, &pd_own);
    a->foreign = true;
    return a;
}

void endpoint_deregister(struct endpoint *e, struct area *a)
{
    uint32_t at = a->region.index & iwarp_region_mask(e->regions);

    if (atomic_load(&e->regions->slot[at]) == &a->region) {
        iwarp_region_revoke(e->regions, &a->region);
    }
    assert_false(iwarp_region_lent(&a->region));
}

struct iwarp_sge area_sge(const struct area *a, size_t off, size_t len)
{
    return (struct iwarp_sge){(void *)(uintptr_t)(a->region.to_base + off), (uint32_t)len,
                              atomic_load(&a->region.stag)};
}

/* --- posting -----------------------------------------------------------------------------------
 */

void endpoint_recv(struct endpoint *e, const struct iwarp_sge *sgl, unsigned n)
{
    uint32_t head = iwarp_wq_head(&e->rq);
    struct iwarp_rwqe *w = iwarp_rq_at(&e->rq, head);

    assert_true(iwarp_wq_room(&e->rq));
    *w = (struct iwarp_rwqe){.wr_id = head, .num_sge = (uint8_t)n};
    for (unsigned i = 0; i < n; i++) {
        w->sgl[i] = sgl[i];
        w->capacity += sgl[i].len;
    }
    iwarp_wq_push(&e->rq);
}

void endpoint_recv_area(struct endpoint *e, const struct area *a)
{
    const struct iwarp_sge sge = area_sge(a, 0, a->n);
    endpoint_recv(e, &sge, 1);
}

void endpoint_post(struct endpoint *e, const struct iwarp_send_wr *wr)
{
    uint32_t head = iwarp_wq_head(&e->sq);
    struct iwarp_swqe *w = iwarp_sq_at(&e->sq, head);
    uint8_t *inline_to = iwarp_swqe_inline(w);

    assert_true(iwarp_wq_room(&e->sq));
    *w = (struct iwarp_swqe){.wr_id = wr->wr_id,
                             .remote_to = wr->remote_to,
                             .imm = wr->imm,
                             .remote_stag = wr->remote_stag,
                             .invalidate_stag = wr->invalidate_stag,
                             .opcode = (uint8_t)wr->opcode,
                             .flags = (uint8_t)wr->flags,
                             .num_sge = (uint8_t)wr->num_sge};
    for (unsigned i = 0; i < wr->num_sge; i++) {
        const struct iwarp_sge *sge = &wr->sg_list[i];
        if (wr->flags & IWARP_WR_INLINE) {
            assert_true(w->len + sge->len <= IWARP_MAX_INLINE);
            memcpy(inline_to + w->len, sge->addr, sge->len);
            w->inline_len += sge->len;
        } else {
            w->sgl[i] = *sge;
        }
        w->len += sge->len;
    }
    if (iwarp_swqe_is_atomic(w)) {
        *iwarp_swqe_operands(w) =
            (struct iwarp_operands){wr->operand, wr->mask, wr->compare, wr->compare_mask};
    }
    iwarp_wq_push(&e->sq);
}

const struct iwarp_rwqe *endpoint_rwqe(const struct endpoint *e, unsigned i)
{
    return iwarp_rq_at(&e->rq, i);
}

const struct iwarp_swqe *endpoint_swqe(const struct endpoint *e, unsigned i)
{
    return iwarp_sq_at(&e->sq, i);
}

/* --- sending -----------------------------------------------------------------------------------
 */

void endpoint_feed_hex(struct endpoint *e, const char *hex)
{
    struct octets o = {0};

    octets_hex(&o, hex);
    iwarp_stream_feed(&e->s, o.p, o.n);
    octets_free(&o);
    endpoint_check(e);
}

void endpoint_feed_read(struct endpoint *e, uint32_t msn, uint32_t octets)
{
    struct octets o = {0}, u = {0};

    octets_hex(&u, "4141 00000000 00000001");
    octets_be(&u, msn, 4);
    octets_hex(&u, "00000000 11223344 00000000 00002000");
    octets_be(&u, octets, 4);
    octets_hex(&u, "00aabb00 00000000 00007000");
    fpdu_add(&o, u.p, u.n, 0);
    iwarp_stream_feed(&e->s, o.p, o.n);
    octets_free(&o);
    octets_free(&u);
    endpoint_check(e);
}

size_t endpoint_send(struct endpoint *e, size_t n)
{
    const struct iovec *iov = NULL;
    bool wants = (iwarp_stream_interest(&e->s) & IWARP_STREAM_WRITE) != 0;
    unsigned count = iwarp_stream_gather(&e->s, &iov);
    size_t taken = 0;

    assert_true(wants || count == 0);
    assert_true(count <= 1024);
    if (count == 0) {
        return 0;
    }
    for (unsigned i = 0; i < count && taken < n; i++) {
        size_t k = iov[i].iov_len < n - taken ? iov[i].iov_len : n - taken;
        assert_true(iov[i].iov_len > 0);
        octets_add(&e->sent, iov[i].iov_base, k);
        taken += k;
    }
    iwarp_stream_sent(&e->s, taken);
    iwarp_stream_check(&e->s);
    return taken;
}

void endpoint_drain(struct endpoint *e)
{
    size_t n;

    while ((n = endpoint_send(e, SIZE_MAX)) > 0) {
        iwarp_stream_released(&e->s, n);
        iwarp_stream_check(&e->s);
    }
    assert_false(iwarp_stream_interest(&e->s) & IWARP_STREAM_WRITE);
}

void endpoint_drain_randomly(struct endpoint *e, struct chance *c)
{
    while (iwarp_stream_interest(&e->s) & IWARP_STREAM_WRITE) {
        endpoint_send(e, chance_size(c, 100000));
        size_t lag = (size_t)(e->s.tx.sent - e->s.tx.released);
        if (chance_one_in(c, 3)) {
            iwarp_stream_released(&e->s, chance_one_in(c, 2) ? lag : chance_below(c, lag + 1));
            iwarp_stream_check(&e->s);
        }
    }
    iwarp_stream_released(&e->s, (size_t)(e->s.tx.sent - e->s.tx.released));
    endpoint_check(e);
}

/* Replace what was sent by the same without markers. */
static void unmark_sent(struct endpoint *e)
{
    struct octets plain = {0};

    if (!e->options.markers_tx) {
        return;
    }
    fpdu_unmark(&plain, e->s.tx.sent - e->sent.n, e->sent.p, e->sent.n, !e->options.no_crc);
    octets_free(&e->sent);
    e->sent = plain;
    for (size_t at = 0; e->options.no_crc && at < e->sent.n;) {
        struct fpdu f;
        assert_true(fpdu_decode(e->sent.p + at, e->sent.n - at, false, &f));
        at += f.len;
        memset(e->sent.p + at - 4, 0, 4);
    }
}

void endpoint_expect_sent(struct endpoint *e, const char *hex)
{
    struct octets expected = {0};

    unmark_sent(e);
    octets_hex(&expected, hex);
    for (size_t at = 0; e->options.no_crc && at < expected.n && at < e->sent.n;) {
        struct fpdu f;
        assert_true(fpdu_decode(expected.p + at, expected.n - at, false, &f));
        at += f.len;
        memset(expected.p + at - 4, 0, 4); /* not generated: zeros */
    }
    octets_expect("what was sent", e->sent.p, e->sent.n, expected.p, expected.n);
    octets_free(&expected);
    endpoint_forget_sent(e);
}

void endpoint_expect_terminate(struct endpoint *e, const char *hex)
{
    struct octets expected = {0}, ulpdu = {0};

    unmark_sent(e);
    octets_hex(&ulpdu, "4147 00000000 00000002 00000001 00000000");
    octets_hex(&ulpdu, hex);
    fpdu_add(&expected, ulpdu.p, ulpdu.n, 0);
    if (e->options.no_crc) {
        memset(expected.p + expected.n - 4, 0, 4);
    }
    octets_expect("Terminate", e->sent.p, e->sent.n, expected.p, expected.n);
    octets_free(&expected);
    octets_free(&ulpdu);
}

void endpoint_forget_sent(struct endpoint *e)
{
    e->sent.n = 0;
}

/* --- looking -----------------------------------------------------------------------------------
 */

static void check_canary(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] != CANARY_BYTE) {
            fail_msg("memory beside a region was written");
        }
    }
}

void endpoint_check(struct endpoint *e)
{
    iwarp_stream_check(&e->s);
    for (unsigned i = 0; i < e->areas; i++) {
        struct area *a = &e->area[i];
        if (a->foreign) {
            continue;
        }
        size_t end = (CANARY + a->n + 7) & ~(size_t)7;
        ASAN_UNPOISON_MEMORY_REGION(a->block, a->n + 2 * CANARY);
        check_canary(a->block, CANARY);
        check_canary(a->p + a->n, CANARY);
        ASAN_POISON_MEMORY_REGION(a->block, CANARY - 8);
        ASAN_POISON_MEMORY_REGION(a->block + end, CANARY - 8);
        (void)end;
    }
}

void endpoint_dump(const struct endpoint *e, unsigned without, FILE *to)
{
    const struct iwarp_stream *s = &e->s;

    fprintf(to, "life %d abort %d eof %d hold %d\n", s->life, s->abort, s->eof, s->config.hold_tx);
    fprintf(to, "fault %s side %d", iwarp_fault_name(s->fault.code), s->fault.side);
    if (!(without & DUMP_NO_POSITIONS)) {
        fprintf(to, " at %" PRIu64 ": %" PRIx64 " %" PRIx64 " %" PRIx64, s->fault.rx_pos,
                s->fault.detail[0], s->fault.detail[1], s->fault.detail[2]);
    }
    fprintf(to, "\nreceived %" PRIu64 " octets, %" PRIu64 " fpdus, state %d\n", s->rx.pos,
            s->rx.fpdus, s->rx.state);
    for (unsigned qn = 0; qn < 4; qn++) {
        fprintf(to, "qn %u msn %u mo %u\n", qn, s->ddp.msn[qn], s->ddp.mo[qn]);
    }
    fprintf(to, "reads in %u out %u\n", s->reads.in_count, s->reads.out_count);
    for (uint32_t i = 0; i != e->rq.done; i++) {
        const struct iwarp_rwqe *w = endpoint_rwqe(e, i);
        fprintf(to, "recv %u: status %u flags %u len %u inv %x imm %" PRIx64 "\n", i, w->status,
                w->wc_flags, w->byte_len, w->invalidated_stag, w->imm);
    }
    for (uint32_t i = 0; i != e->sq.done; i++) {
        fprintf(to, "send %u: status %u\n", i, endpoint_swqe(e, i)->status);
    }
    for (unsigned i = 0; i < e->areas && !(without & DUMP_NO_MEMORY); i++) {
        const struct area *a = &e->area[i];
        fprintf(to, "area %u: stag %x crc %08x\n", i, atomic_load(&a->region.stag),
                a->foreign ? 0 : octets_crc(0, a->p, a->n));
    }
    fprintf(to, "sent %zu octets: %08x\n", e->sent.n, octets_crc(0, e->sent.p, e->sent.n));
}
