/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two streams that talk through memory, moved by a random schedule: all kinds of requests both
 * ways, and one kind of trouble per conversation. Data, order, memory, and how both ends end are
 * checked after every step. Nothing here waits; a conversation is its seed.
 *
 * SEED=n begins with conversation n, SECONDS_TO_RUN=n goes on for that long (make sim).
 *
 * RFC 5040 5.5 and 6.2, RFC 5041 5.3 and 6.2, RFC 5044 6 and 8.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "deliveries.h"
#include "seconds.h"

#define ARENA         (160u * 1024)
#define FILL          0xee
#define REQUESTS      60
#define TOKENS        6
#define WORDS         4
#define CONVERSATIONS 400

enum trouble { CLEAN, FLIP, TRUNCATE, RESET, DEREGISTER, CLOSE, KILL, TROUBLES };

/* Memory that the other end fills, and what it is to hold. Slots are used once. */
struct arena {
    struct area *area;
    uint8_t image[ARENA];
    size_t used;
};

struct request {
    size_t at, len; /* Send: in the peer's landing; Read, Atomic: in the own sink */
    size_t writes;  /* Send: octets of the peer's target that were written before */
    uint32_t stag;  /* Send: to be invalidated, or 0 */
    bool solicited;
    bool has_imm;
    bool of_send;   /* and it came with a Send */
    uint64_t imm;   /* and the octets of the target as for a Send */
    size_t written; /* by the same request; SIZE_MAX: it is Immediate Data alone */
};

struct side {
    struct endpoint e;
    struct side *peer;
    struct area *source;
    struct arena target, landing, sink;
    struct area *token[TOKENS];
    struct area *words;    /* what the peer's Atomics change */
    uint64_t model[WORDS]; /* what they hold once all that are posted are done */
    unsigned tokens_used;
    struct request read[REQUESTS], receive[REQUESTS + 1];
    uint32_t sq_seen, rq_seen;
    uint32_t receives;  /* made, of which rq.head are posted: the others come late */
    struct octets wire; /* octets on their way to this side */
    size_t wire_at;
    bool fin_coming;   /* behind them */
    bool reset_coming; /* before them */
    bool cut;          /* what comes later is lost */
    bool fin_sent, told_eof, closed;
};

struct pair {
    struct side side[2];
    struct chance chance;
    enum trouble trouble;
    unsigned victim;   /* the side it happens to */
    size_t trouble_at; /* octet of its input, or step */
    bool troubled;     /* it has happened */
    bool timed_out;
    bool late; /* messages may wait for their receives, which are posted at some time */
    unsigned posts, steps;
};

static uint64_t running; /* the seed of this conversation */

/* --- setting up --------------------------------------------------------------------------------
 */

static void arena_init(struct side *s, struct arena *a, uint32_t stag, unsigned access)
{
    a->area = endpoint_area(&s->e, stag, 0x100000, ARENA, access, FILL);
    memset(a->image, FILL, ARENA);
    a->used = 0;
}

static void side_init(struct pair *p, unsigned i, const struct endpoint_options *options)
{
    struct side *s = &p->side[i];

    endpoint_init(&s->e, options);
    s->peer = &p->side[1 - i];
    s->source = endpoint_area(&s->e, 0x00010100, 0x100000, ARENA, READABLE, 0);
    for (size_t k = 0; k < ARENA; k++) {
        uint8_t octet = (uint8_t)chance_next(&p->chance);
        s->source->p[k] = octet == FILL ? 0 : octet;
    }
    arena_init(s, &s->target, 0x00010200, WRITABLE);
    arena_init(s, &s->landing, 0x00010300, LOCAL);
    arena_init(s, &s->sink, 0x00010400, LOCAL);
    s->words = endpoint_area(&s->e, 0x00010500, 0x1000, sizeof s->model,
                             IWARP_ACCESS_REMOTE_ATOMIC | LOCAL, 0);
    for (uint32_t k = 0; k < TOKENS; k++) {
        s->token[k] = endpoint_area(&s->e, 0x00020000 + (k << 8), 0, 8, READABLE, 0);
    }
}

/* In half of the conversations the initiator begins with a ready-to-receive message. */
static enum iwarp_stream_rtr choose_rtr(struct chance *c, uint32_t ord)
{
    enum iwarp_stream_rtr rtr = (enum iwarp_stream_rtr)chance_below(c, 6);

    return rtr > STREAM_RTR_READ || (rtr == STREAM_RTR_READ && ord == 0) ? STREAM_RTR_NONE : rtr;
}

static void pair_init(struct pair *p, uint64_t seed)
{
    static const uint32_t mulpdus[] = {128, 1442, 1501, 64768};
    struct chance *c = &p->chance;
    struct endpoint_options options[2];

    memset(p, 0, sizeof *p);
    c->state = seed;
    p->trouble = (enum trouble)chance_below(c, TROUBLES);
    p->victim = (unsigned)chance_below(c, 2);
    p->posts = 1 + (unsigned)chance_below(c, 2 * REQUESTS - 1);
    p->trouble_at =
        p->trouble == FLIP || p->trouble == TRUNCATE ? chance_size(c, 100000) : chance_size(c, 400);
    p->late = chance_one_in(c, 2);
    bool no_crc = chance_one_in(c, 4), markers[2];
    markers[0] = chance_one_in(c, 3);
    markers[1] = chance_one_in(c, 3);
    for (unsigned i = 0; i < 2; i++) {
        options[i] = (struct endpoint_options){.rfc7306 = true,
                                               .send_imm = true,
                                               .no_crc = no_crc,
                                               .markers_rx = markers[i],
                                               .markers_tx = markers[1 - i],
                                               .early = chance_one_in(c, 3),
                                               .hold = p->late ? 1 + chance_size(c, 300000) : 0,
                                               .mulpdu = mulpdus[chance_below(c, 4)],
                                               .ird = (uint32_t)chance_below(c, 6)};
    }
    for (unsigned i = 0; i < 2; i++) {
        options[i].ord = (uint32_t)chance_below(c, options[1 - i].ird + 1);
        options[i].rtr = i == 0 ? choose_rtr(c, options[0].ord) : STREAM_RTR_NONE;
        side_init(p, i, &options[i]);
    }
    p->side[1].e.s.config.hold_tx = chance_one_in(c, 2);
    if (options[0].rtr == STREAM_RTR_SEND) { /* it takes the first receive, and a place in look() */
        endpoint_recv(&p->side[1].e, NULL, 0);
        p->side[1].receives++;
    }
    for (unsigned qn = 0; qn < 2; qn++) { /* MSNs wrap */
        for (unsigned i = 0; i < 2; i++) {
            uint32_t msn = chance_one_in(c, 2) ? 1 : 0u - (uint32_t)chance_below(c, 12);
            p->side[i].e.s.ddp.msn[qn] = msn;
            *(qn ? &p->side[1 - i].e.s.tx.read_msn : &p->side[1 - i].e.s.tx.send_msn) = msn;
        }
    }
}

static void pair_fini(struct pair *p)
{
    for (unsigned i = 0; i < 2; i++) {
        octets_free(&p->side[i].wire);
        endpoint_fini(&p->side[i].e);
    }
}

/* --- posting -----------------------------------------------------------------------------------
 */

/* Cut [off, off + len) of an area into pieces. */
static unsigned cut(struct chance *c, const struct area *a, size_t off, size_t len,
                    struct iwarp_sge *sgl)
{
    unsigned n = 0, max = chance_one_in(c, 2) ? 1 : IWARP_MAX_SGE;

    while (n < max - 1 && len > 0) {
        size_t k = chance_below(c, len + 1);
        sgl[n++] = area_sge(a, off, k);
        off += k;
        len -= k;
    }
    sgl[n++] = area_sge(a, off, len);
    return n;
}

/* A fresh slot that is to receive data; SIZE_MAX if there is no room. */
static size_t take_slot(struct arena *a, const uint8_t *data, size_t len, size_t more)
{
    size_t at = a->used;

    if (at + len + more > ARENA) {
        return SIZE_MAX;
    }
    memcpy(a->image + at, data, len);
    a->used += len + more;
    return at;
}

/* Make the next receive; it is posted now, or by post_late. */
static void make_receive(struct pair *p, struct side *s, const struct request *r,
                         const struct iwarp_sge *sgl, unsigned n)
{
    uint32_t posted = iwarp_wq_head(&s->e.rq);

    s->receive[s->receives] = *r;
    atomic_store(&s->e.rq.head, s->receives);
    endpoint_recv(&s->e, sgl, n);
    s->receives++;
    if (p->late && (posted + 1 != s->receives || !chance_one_in(&p->chance, 4))) {
        atomic_store(&s->e.rq.head, posted);
    }
}

/* Post n of the receives that are late, or all; the stream may be told later. True: there was one,
 * or a message that waited has found one that was posted before: now the stream may read again. */
static bool post_late(struct side *s, uint32_t n, bool tell)
{
    uint32_t left = s->receives - iwarp_wq_head(&s->e.rq);
    size_t held = s->e.s.hold.octets;

    atomic_fetch_add(&s->e.rq.head, n < left ? n : left);
    if (tell) {
        iwarp_stream_resume(&s->e.s);
    }
    iwarp_stream_check(&s->e.s);
    return (n > 0 && left > 0) || s->e.s.hold.octets != held;
}

static bool post_send(struct pair *p, struct side *s, struct iwarp_send_wr *wr, const uint8_t *data,
                      size_t len)
{
    struct side *to = s->peer;
    struct chance *c = &p->chance;
    struct request r = {.len = len, .writes = to->target.used};
    struct iwarp_sge sgl[IWARP_MAX_SGE];
    size_t more = chance_one_in(c, 2) ? 0 : chance_below(c, 40);

    r.at = take_slot(&to->landing, data, len, more);
    if (r.at == SIZE_MAX) {
        return false;
    }
    if (chance_one_in(c, 3) && to->tokens_used < TOKENS) {
        wr->opcode = IWARP_WR_SEND_INV;
        r.stag = wr->invalidate_stag = 0x00020000 + (to->tokens_used++ << 8);
    } else if (chance_one_in(c, 3)) {
        wr->opcode = IWARP_WR_SEND_IMM;
        r.has_imm = r.of_send = true;
        r.imm = wr->imm = (uint32_t)chance_next(c);
    }
    r.solicited = chance_one_in(c, 2);
    wr->flags |= r.solicited ? IWARP_WR_SOLICITED : 0;
    unsigned n = cut(c, to->landing.area, r.at, len + more, sgl);
    if (chance_one_in(c, 4)) { /* only what is placed has to lie in the region */
        sgl[n - 1].len += ARENA;
    }
    make_receive(p, to, &r, sgl, n);
    return true;
}

/* Immediate Data, behind a Write in half of the cases. */
static bool post_immediate(struct pair *p, struct side *s, struct iwarp_send_wr *wr,
                           const uint8_t *data, size_t len)
{
    struct side *to = s->peer;
    struct chance *c = &p->chance;

    wr->opcode = chance_one_in(c, 2) ? IWARP_WR_IMM : IWARP_WR_WRITE_IMM;
    if (wr->opcode == IWARP_WR_IMM) {
        wr->num_sge = 0;
        wr->flags &= ~(unsigned)IWARP_WR_INLINE;
    } else {
        size_t at = take_slot(&to->target, data, len, 0);
        if (at == SIZE_MAX) {
            return false;
        }
        wr->remote_stag = 0x00010200;
        wr->remote_to = 0x100000 + at;
    }
    struct request r = {.has_imm = true, .imm = chance_next(c), .writes = to->target.used};
    r.written = wr->opcode == IWARP_WR_WRITE_IMM ? len : SIZE_MAX;
    r.solicited = chance_one_in(c, 2);
    wr->flags |= r.solicited ? IWARP_WR_SOLICITED : 0;
    wr->imm = r.imm;
    make_receive(p, to, &r, NULL, 0);
    return true;
}

static bool post_read(struct side *s, struct chance *c, struct iwarp_send_wr *wr,
                      struct iwarp_sge *sgl, size_t len)
{
    size_t from = chance_below(c, ARENA - len + 1);
    size_t at = SIZE_MAX;

    if (s->e.options.ord > 0) {
        at = take_slot(&s->sink, s->peer->source->p + from, len, 0);
    }
    if (at == SIZE_MAX) {
        return false;
    }
    s->read[iwarp_wq_head(&s->e.sq)] = (struct request){.at = at, .len = len};
    wr->opcode = IWARP_WR_READ;
    wr->num_sge = cut(c, s->sink.area, at, len, sgl);
    wr->flags = chance_one_in(c, 4) ? IWARP_WR_FENCE : 0;
    wr->remote_stag = 0x00010100;
    wr->remote_to = 0x100000 + from;
    return true;
}

/* FetchAdd or CmpSwap on a word of the peer's; what it held is known, as they are done in order. */
static void post_atomic(struct side *s, struct chance *c)
{
    size_t k = chance_below(c, WORDS);
    uint64_t *word = &s->peer->model[k];
    struct iwarp_sge sge;
    struct iwarp_send_wr wr = {.opcode = IWARP_WR_ATOMIC_FETCH_ADD,
                               .sg_list = &sge,
                               .num_sge = 1,
                               .remote_stag = 0x00010500,
                               .remote_to = 0x1000 + 8 * k,
                               .operand = chance_next(c)};
    uint8_t before[sizeof *word];
    memcpy(before, word, sizeof before);
    size_t at = s->e.options.ord > 0 ? take_slot(&s->sink, before, sizeof before, 0) : SIZE_MAX;
    if (at == SIZE_MAX) {
        return;
    }
    if (chance_one_in(c, 2)) {
        wr.opcode = IWARP_WR_ATOMIC_CMP_SWAP;
        wr.mask = wr.compare_mask = UINT64_MAX;
        wr.compare = chance_one_in(c, 3) ? chance_next(c) : *word;
        *word = wr.compare == *word ? wr.operand : *word;
    } else {
        *word += wr.operand;
    }
    sge = area_sge(s->sink.area, at, sizeof before);
    s->read[iwarp_wq_head(&s->e.sq)] = (struct request){.at = at, .len = sizeof before};
    endpoint_post(&s->e, &wr);
}

/* One random request of this side, with a receive for it there if it needs one. */
static void post_something(struct pair *p, struct side *s)
{
    struct chance *c = &p->chance;
    struct iwarp_sge sgl[IWARP_MAX_SGE];
    size_t len = chance_size(c, chance_one_in(c, 8) ? 70000 : 3000);
    size_t off = chance_below(c, ARENA - len + 1);
    struct iwarp_send_wr wr = {.sg_list = sgl};
    const uint8_t *data = s->source->p + off;
    bool good;

    if (iwarp_wq_head(&s->e.sq) == REQUESTS) {
        return;
    }
    if (chance_one_in(c, 3) && len <= IWARP_MAX_INLINE) {
        wr.flags |= IWARP_WR_INLINE;
        sgl[0] = (struct iwarp_sge){s->source->p + off, (uint32_t)len, 0};
        wr.num_sge = 1;
    } else {
        wr.num_sge = cut(c, s->source, off, len, sgl);
    }
    wr.flags |= chance_one_in(c, 6) ? IWARP_WR_FENCE : 0;
    size_t kind = chance_below(c, 5);
    if (kind == 4) {
        post_atomic(s, c);
        return;
    }
    if (kind == 0) {
        good = post_send(p, s, &wr, data, len);
    } else if (kind == 1) {
        size_t at = take_slot(&s->peer->target, data, len, 0);
        wr.opcode = IWARP_WR_WRITE;
        wr.remote_stag = 0x00010200;
        wr.remote_to = 0x100000 + at;
        good = at != SIZE_MAX;
    } else if (kind == 2) {
        good = post_immediate(p, s, &wr, data, len);
    } else {
        good = post_read(s, c, &wr, sgl, len);
    }
    if (good) {
        endpoint_post(&s->e, &wr);
    }
}

/* --- moving ------------------------------------------------------------------------------------
 */

static void end_of_wire(struct side *s)
{
    s->told_eof = true;
    iwarp_stream_eof(&s->e.s, 0);
    iwarp_stream_check(&s->e.s);
}

/* Octets leave this side. True if anything happened. */
static bool transmit(struct pair *p, struct side *s, bool all)
{
    struct chance *c = &p->chance;
    unsigned interest = iwarp_stream_interest(&s->e.s);

    if (s->closed || !(interest & IWARP_STREAM_WRITE)) {
        return false;
    }
    assert_false(s->fin_sent);
    endpoint_forget_sent(&s->e);
    size_t n = endpoint_send(&s->e, all ? SIZE_MAX : chance_size(c, 60000));
    octets_add(&s->peer->wire, s->e.sent.p, s->peer->cut ? 0 : n);
    return n > 0;
}

static bool release(struct side *s, struct chance *c, bool all)
{
    size_t lag = (size_t)(s->e.s.tx.sent - s->e.s.tx.released);
    size_t n = all ? lag : chance_below(c, lag + 1);

    iwarp_stream_released(&s->e.s, n);
    return n > 0;
}

/* Is the trouble of this conversation in the next n octets of this side's input? */
static bool spoils(struct pair *p, const struct side *s, size_t n)
{
    return s == &p->side[p->victim] && !p->troubled && p->trouble_at >= s->wire_at &&
           p->trouble_at < s->wire_at + n;
}

static bool receive(struct pair *p, struct side *s, bool all)
{
    struct chance *c = &p->chance;
    size_t n = s->wire.n - s->wire_at;

    if (s->closed || s->told_eof || iwarp_stream_full(&s->e.s)) {
        return false;
    }
    if (n == 0) {
        if (s->fin_coming) {
            end_of_wire(s);
        }
        return s->told_eof;
    }
    n = all ? n : chance_size(c, n);
    if (p->trouble == TRUNCATE && spoils(p, s, n)) {
        n = p->trouble_at - s->wire_at;
        p->troubled = true;
        s->wire.n = s->wire_at + n;
        s->fin_coming = s->cut = true;
    } else if (p->trouble == FLIP && spoils(p, s, n)) {
        s->wire.p[p->trouble_at] ^= (uint8_t)(1u << chance_below(c, 8));
        p->troubled = true;
    }
    static const enum delivery ways[] = {DELIVER_MIXED, DELIVER_SPLIT, DELIVER_LENT};
    deliver(&s->e, ways[chance_below(c, 3)], s->wire.p + s->wire_at, n, c);
    s->wire_at += n;
    return n > 0;
}

/* What the driver does with the connection. */
static bool follow(struct side *s)
{
    unsigned interest = iwarp_stream_interest(&s->e.s);

    if (s->closed) {
        return false;
    }
    if (s->reset_coming && !s->told_eof) {
        s->told_eof = true;
        iwarp_stream_eof(&s->e.s, ECONNRESET);
        iwarp_stream_check(&s->e.s);
        return true;
    }
    if (s->e.s.life == STREAM_ENDED) {
        s->closed = true;
        s->peer->reset_coming = s->peer->reset_coming || s->e.s.abort;
        s->peer->fin_coming = true;
        return true;
    }
    if ((interest & IWARP_STREAM_SHUTDOWN) && !s->fin_sent) {
        s->fin_sent = s->peer->fin_coming = true;
        return true;
    }
    return false;
}

/* --- looking -----------------------------------------------------------------------------------
 */

static void expect_same(const char *what, const struct arena *a, size_t at, size_t len)
{
    octets_expect(what, a->area->p + at, len, a->image + at, len);
}

/* A wrong octet that nothing can notice. */
static bool untrusted(const struct pair *p)
{
    return p->trouble == FLIP && p->troubled && p->side[0].e.options.no_crc;
}

/* Completions since the last look: in order, and with the right data. */
static void look(struct pair *p, struct side *s)
{
    struct endpoint *e = &s->e;

    if (untrusted(p)) {
        s->sq_seen = e->sq.done;
        s->rq_seen = e->rq.done;
    }
    for (; s->sq_seen != e->sq.done; s->sq_seen++) {
        const struct iwarp_swqe *w = endpoint_swqe(e, s->sq_seen);
        assert_int_equal(w->status, IWARP_WC_SUCCESS);
        if (iwarp_swqe_has_response(w)) {
            const struct request *r = &s->read[s->sq_seen];
            expect_same("data of a Read or Atomic", &s->sink, r->at, r->len);
        }
    }
    for (; s->rq_seen != e->rq.done; s->rq_seen++) {
        const struct iwarp_rwqe *w = endpoint_rwqe(e, s->rq_seen);
        const struct request *r = &s->receive[s->rq_seen];
        assert_int_equal(w->status, IWARP_WC_SUCCESS);
        if (r->written != SIZE_MAX) { /* else alone: a Write of the request before may count */
            assert_int_equal(w->byte_len, r->has_imm && !r->of_send ? r->written : r->len);
        }
        assert_int_equal(w->wc_flags, (r->solicited ? IWARP_WC_SOLICITED : 0) |
                                          (r->stag ? IWARP_WC_WITH_INVALIDATE : 0) |
                                          (r->has_imm ? IWARP_WC_WITH_IMM : 0) |
                                          (r->of_send ? IWARP_WC_IMM_OF_SEND : 0));
        assert_true(w->imm == r->imm);
        expect_same("data of a Send", &s->landing, r->at, r->len);
        expect_same("Writes before a Send", &s->target, 0, r->writes);
        if (r->stag) {
            assert_int_equal(w->invalidated_stag, r->stag);
            assert_null(iwarp_region_lend(e->regions, r->stag));
        }
    }
    assert_true(e->s.fault.code == IWARP_FAULT_NONE || e->s.life >= STREAM_TERMINATING);
}

/* Memory holds what it held or what was meant for it. */
static void expect_no_stray_octet(const struct pair *p, const struct side *s, const struct arena *a)
{
    if (p->trouble == FLIP && p->troubled && (s->e.options.early || s->e.options.no_crc)) {
        return;
    }
    for (size_t i = 0; i < ARENA; i++) {
        uint8_t octet = a->area->p[i];
        if (octet != FILL && (i >= a->used || octet != a->image[i])) {
            fail_msg("octet %zu of region %x is %02x", i, a->area->region.index, octet);
        }
    }
}

/* Both ends tell the same story. */
static void expect_agreement(const struct side *s)
{
    const struct iwarp_fault *own = &s->e.s.fault, *other = &s->peer->e.s.fault;
    const struct iwarp_fault_row *row = iwarp_fault_row(other->code);

    assert_int_equal(s->e.s.life, STREAM_ENDED);
    if (own->code == IWARP_FAULT_PEER_TERMINATE) {
        assert_int_equal(own->detail[0], row->layer);
        assert_int_equal(own->detail[1], row->etype);
        assert_int_equal(own->detail[2], row->code);
    }
}

static void expect_all_done(const struct side *s)
{
    assert_string_equal(iwarp_fault_name(s->e.s.fault.code), "NONE");
    assert_int_equal(s->sq_seen, atomic_load(&s->e.sq.head));
    assert_int_equal(s->rq_seen, s->receives);
    expect_same("target", &s->target, 0, ARENA);
    expect_same("landing", &s->landing, 0, ARENA);
    expect_same("sink", &s->sink, 0, ARENA);
    octets_expect("words", s->words->p, s->words->n, s->model, sizeof s->model);
    assert_false(s->e.s.abort);
}

static void expect_end(const struct pair *p)
{
    for (unsigned i = 0; i < 2; i++) {
        const struct side *s = &p->side[i];
        if (!untrusted(p)) {
            expect_agreement(s);
        }
        expect_no_stray_octet(p, s, &s->target);
        expect_no_stray_octet(p, s, &s->landing);
        expect_no_stray_octet(p, s, &s->sink);
        if (p->trouble == CLEAN ||
            ((p->trouble == FLIP || p->trouble == TRUNCATE) && !p->troubled)) {
            assert_false(p->timed_out);
            expect_all_done(s);
        }
    }
    if (p->trouble == FLIP && p->troubled && !untrusted(p)) {
        assert_int_not_equal(p->side[p->victim].e.s.fault.code, IWARP_FAULT_NONE);
    }
}

/* --- conversations -----------------------------------------------------------------------------
 */

static void make_trouble(struct pair *p)
{
    struct side *s = &p->side[p->victim];

    if (p->troubled || p->steps < p->trouble_at) {
        return;
    }
    p->troubled = p->trouble >= RESET;
    if (p->trouble == RESET) {
        s->reset_coming = s->peer->reset_coming = true;
    } else if (p->trouble == DEREGISTER) {
        struct area *a[] = {s->source, s->target.area, s->landing.area, s->sink.area};
        endpoint_deregister(&s->e, a[chance_below(&p->chance, 4)]);
    } else if (p->trouble == CLOSE) {
        iwarp_stream_close(&s->e.s);
    } else if (p->trouble == KILL) {
        iwarp_stream_kill(&s->e.s, IWARP_FAULT_LOCAL_ABORT, IWARP_SIDE_LOCAL, 0);
    }
}

/* One random step. True if anything happened. */
static bool step(struct pair *p)
{
    struct chance *c = &p->chance;
    struct side *s = &p->side[chance_below(c, 2)];
    bool moved = false;

    p->steps++;
    make_trouble(p);
    switch (chance_below(c, 6)) {
    case 0:
        if (p->posts > 0 && s->e.s.life == STREAM_RUNNING) {
            p->posts--;
            post_something(p, s);
            moved = true;
        }
        break;
    case 1:
        moved = transmit(p, s, false);
        break;
    case 2:
        moved = release(s, c, false);
        break;
    case 3:
        moved = receive(p, s, false);
        break;
    case 4:
        moved = post_late(s, (uint32_t)chance_below(c, 3), chance_one_in(c, 2));
        break;
    default:
        moved = follow(s);
        break;
    }
    iwarp_stream_check(&s->e.s);
    look(p, s);
    return moved;
}

/* Everything that can happen without a decision. */
static bool sweep(struct pair *p)
{
    bool moved = false;

    for (unsigned i = 0; i < 2; i++) {
        struct side *s = &p->side[i];
        moved = transmit(p, s, true) || moved;
        moved = release(s, &p->chance, true) || moved;
        moved = receive(p, s, true) || moved;
        moved = post_late(s, 1, true) || moved;
        moved = follow(s) || moved;
        look(p, s);
        endpoint_check(&s->e);
    }
    return moved;
}

static void run_to_rest(struct pair *p)
{
    for (unsigned idle = 0; idle < 60;) {
        idle = step(p) ? 0 : idle + 1;
        assert_true(p->steps < 2000000);
    }
    while (sweep(p)) {
    }
}

static void converse(uint64_t seed)
{
    static struct pair pair;
    struct pair *p = &pair;

    running = seed;
    pair_init(p, seed);
    while (p->posts > 0 && p->side[0].e.s.life == STREAM_RUNNING &&
           p->side[1].e.s.life == STREAM_RUNNING) {
        step(p);
    }
    p->posts = 0;
    run_to_rest(p);
    if (p->side[1].e.s.config.hold_tx && p->side[0].e.s.life == STREAM_RUNNING) {
        /* Nothing came from the initiator yet: its ready-to-receive message. */
        endpoint_post(&p->side[0].e, &(struct iwarp_send_wr){.opcode = IWARP_WR_WRITE});
        run_to_rest(p);
    }
    unsigned first = (unsigned)chance_below(&p->chance, 2);
    iwarp_stream_close(&p->side[first].e.s);
    if (chance_one_in(&p->chance, 2)) {
        iwarp_stream_close(&p->side[1 - first].e.s);
    }
    run_to_rest(p);
    for (unsigned i = 0; i < 2; i++) {
        if (p->side[i].e.s.life != STREAM_ENDED) { /* somebody waits for what will never come */
            p->timed_out = true;
            iwarp_stream_kill(&p->side[i].e.s, IWARP_FAULT_TCP_CLOSE_TIMEOUT, IWARP_SIDE_TRANSPORT,
                              0);
            run_to_rest(p);
        }
    }
    expect_end(p);
    pair_fini(p);
}

/* [DDP-5.3-06] [DDP-5.3-07] [RDMAP-5.3-05] [RDMAP-5.5-03] [VERBS-8.2.2-03] [RDMAP-5.5-10] */
/* [VERBS-8.2.2-04] */
static void converse__random_schedules_and_troubles__end_rightly(void **state)
{
    const char *seconds = getenv("SECONDS_TO_RUN");
    time_t end = seconds ? seconds_now() + strtol(seconds, NULL, 10) : 0;
    uint64_t seed = chance_seed();
    unsigned n = 0;

    (void)state;
    while (seconds ? seconds_now() < end : n < CONVERSATIONS) {
        converse(seed + n++);
    }
    printf("# %u conversations\n", n);
}

static int say_seed(void **state)
{
    (void)state;
    printf("# ended with SEED=%" PRIu64 "\n", running);
    fflush(stdout);
    return 0;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
void __sanitizer_set_death_callback(void (*callback)(void));
#define ON_DEATH(fn) __sanitizer_set_death_callback(fn)
#else
#define ON_DEATH(fn) ((void)(fn))
#endif

static void say_seed_of_death(void)
{
    fprintf(stderr, "# died with SEED=%" PRIu64 "\n", running);
}

static void on_abort(int signo) /* of an assertion; the process ends all the same */
{
    (void)signo;
    say_seed_of_death();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(converse__random_schedules_and_troubles__end_rightly, say_seed),
    };

    ON_DEATH(say_seed_of_death);
    signal(SIGABRT, on_abort);
    return cmocka_run_group_tests_name("stream_pair", tests, NULL, NULL);
}
