/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RFC 7306: headers against literal FPDUs, FetchAdd against the RFC's own bit by bit procedure, and
 * the operation in memory: between threads, against the processor's atomics, and on memory that is
 * not there or must not be written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/guard.h"
#include "emulated.h"
#include "rdmap/rdmap_atomic.h"
#include "support/octets.h"

#define ALL UINT64_MAX

/* --- headers --------------------------------------------------------------------------------- */

#define V19                                                                                        \
    "0046414a 00000000 00000001 00000001 00000000 00000000 00000001 00010203"                      \
    "00000000 00001008 00000000 00000005 00000000 00000000 00000000 00000000"                      \
    "ffffffff ffffffff 120703b1"
#define V20                                                                                        \
    "0046414a 00000000 00000001 00000002 00000000 00000002 00000002 00010203"                      \
    "00000000 00001010 11223344 55667788 ffffffff ffffffff 00000000 00000000"                      \
    "ffffffff ffffffff 82d7fed0"
#define V21                                                                                        \
    "001e414b 00000000 00000003 00000001 00000000 00000001 00000000 0000002a"                      \
    "1f00a1c8"
#define V22 "001a4148 00000000 00000000 00000006 00000000 01020304 05060708 3d6b1697"
#define V23 "001a4149 00000000 00000000 00000007 00000000 01020304 05060708 c598f089"

/* Decode an FPDU; what stands behind its DDP header has n octets. */
static void fpdu_open(const char *hex, unsigned opcode, uint32_t qn, size_t n, struct octets *o,
                      struct fpdu *f)
{
    *o = (struct octets){0};
    octets_hex(o, hex);
    assert_true(fpdu_decode(o->p, o->n, true, f));
    assert_int_equal(f->opcode, opcode);
    assert_int_equal(f->qn, qn);
    assert_int_equal(f->payload_len, n);
}

static void expect_request(const struct iwarp_rdmap_atomic_request *a,
                           const struct iwarp_rdmap_atomic_request *b)
{
    assert_int_equal(a->aop, b->aop);
    assert_int_equal(a->id, b->id);
    assert_int_equal(a->stag, b->stag);
    assert_true(a->to == b->to);
    assert_true(a->operand == b->operand);
    assert_true(a->mask == b->mask);
    assert_true(a->compare == b->compare);
    assert_true(a->compare_mask == b->compare_mask);
}

/* Put writes the header and no octet more. */
static void expect_request_octets(const struct iwarp_rdmap_atomic_request *r, const uint8_t *octets)
{
    uint8_t out[IWARP_RDMAP_ATOMIC_REQ_LEN + 1];

    memset(out, 0x5a, sizeof out);
    assert_int_equal(iwarp_rdmap_atomic_request_put(out, r), 52);
    octets_expect("request", out, 52, octets, 52);
    assert_int_equal(out[52], 0x5a);
}

static void request__fetch_add__is_v19_both_ways(void **state)
{
    const struct iwarp_rdmap_atomic_request want = {
        IWARP_AOP_FETCH_ADD, 1, 0x00010203, 0x1008, 5, 0, 0, ALL};
    struct iwarp_rdmap_atomic_request got;
    struct octets o;
    struct fpdu f;

    (void)state;
    fpdu_open(V19, IWARP_OP_ATOMIC_REQUEST, IWARP_DDP_QN_READ_REQUEST, 52, &o, &f);
    iwarp_rdmap_atomic_request_get(f.payload, &got);
    expect_request(&got, &want);
    expect_request_octets(&want, f.payload);
    octets_free(&o);
}

static void request__cmp_swap__is_v20_both_ways(void **state)
{
    const struct iwarp_rdmap_atomic_request want = {IWARP_AOP_CMP_SWAP, 2,   0x00010203, 0x1010,
                                                    0x1122334455667788, ALL, 0,          ALL};
    struct iwarp_rdmap_atomic_request got;
    struct octets o;
    struct fpdu f;

    (void)state;
    fpdu_open(V20, IWARP_OP_ATOMIC_REQUEST, IWARP_DDP_QN_READ_REQUEST, 52, &o, &f);
    iwarp_rdmap_atomic_request_get(f.payload, &got);
    expect_request(&got, &want);
    expect_request_octets(&want, f.payload);
    octets_free(&o);
}

/* Another value in every octet; the operation code has four bits. [RDMAX-5.2.1-01] */
static void request__every_octet_different__is_where_it_belongs(void **state)
{
    const struct iwarp_rdmap_atomic_request want = {
        IWARP_AOP_CMP_SWAP, 0x04050607,         0x08090a0b,         0x0c0d0e0f10111213,
        0x1415161718191a1b, 0x1c1d1e1f20212223, 0x2425262728292a2b, 0x2c2d2e2f30313233};
    struct iwarp_rdmap_atomic_request got;
    uint8_t octets[52];

    (void)state;
    for (unsigned i = 0; i < sizeof octets; i++) {
        octets[i] = (uint8_t)i;
    }
    for (unsigned aop = 0; aop < 16; aop++) {
        octets[0] = octets[1] = octets[2] = 0xff;
        octets[3] = (uint8_t)(0xf0 | aop);
        iwarp_rdmap_atomic_request_get(octets, &got);
        assert_int_equal(got.aop, aop);
    }
    octets[3] = 0xf2;
    iwarp_rdmap_atomic_request_get(octets, &got);
    expect_request(&got, &want);
    memcpy(octets, "\0\0\0\2", 4);
    expect_request_octets(&want, octets);
}

/* [RDMAX-5.2.1-06] */
static void request_put__fetch_add_with_compare_fields__sends_them_as_unused(void **state)
{
    struct iwarp_rdmap_atomic_request r = {
        IWARP_AOP_FETCH_ADD, 1, 0x00010203, 0x1008, 5, 0, 0x1111111111111111, 0x2222222222222222};
    struct octets o;
    struct fpdu f;

    (void)state;
    fpdu_open(V19, IWARP_OP_ATOMIC_REQUEST, IWARP_DDP_QN_READ_REQUEST, 52, &o, &f);
    expect_request_octets(&r, f.payload);
    octets_free(&o);
}

static void response__is_v21_both_ways(void **state)
{
    struct iwarp_rdmap_atomic_response r;
    uint8_t out[13];
    struct octets o;
    struct fpdu f;

    (void)state;
    fpdu_open(V21, IWARP_OP_ATOMIC_RESPONSE, IWARP_DDP_QN_ATOMIC_RESP, 12, &o, &f);
    iwarp_rdmap_atomic_response_get(f.payload, &r);
    assert_int_equal(r.id, 1);
    assert_true(r.original == 0x2a);
    out[12] = 0x5a;
    assert_int_equal(iwarp_rdmap_atomic_response_put(out, &r), 12);
    octets_expect("response", out, 12, f.payload, 12);

    r = (struct iwarp_rdmap_atomic_response){0x01020304, 0x05060708090a0b0c};
    assert_int_equal(iwarp_rdmap_atomic_response_put(out, &r), 12);
    for (unsigned i = 0; i < 12; i++) {
        assert_int_equal(out[i], i + 1);
    }
    assert_int_equal(out[12], 0x5a);
    octets_free(&o);
}

static void immediate__is_v22_and_v23_both_ways(void **state)
{
    static const char *const hex[] = {V22, V23};
    static const enum iwarp_opcode opcode[] = {IWARP_OP_IMMEDIATE, IWARP_OP_IMMEDIATE_SE};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        uint8_t out[9] = {[8] = 0x5a};
        struct octets o;
        struct fpdu f;
        fpdu_open(hex[i], opcode[i], IWARP_DDP_QN_SEND, 8, &o, &f);
        assert_true(iwarp_rdmap_immediate_get(f.payload) == 0x0102030405060708);
        assert_int_equal(iwarp_rdmap_immediate_put(out, 0x0102030405060708), 8);
        octets_expect("immediate data", out, 8, f.payload, 8);
        assert_int_equal(out[8], 0x5a);
        octets_free(&o);
    }
}

/* --- arithmetic ------------------------------------------------------------------------------ */

struct sum {
    uint64_t original, add, mask, result;
};

static const struct sum sums[] = {
    {0x2a, 5, 0, 0x2f},
    {0xffffffff, 1, 0, 0x100000000},
    {0xffffffff, 1, 0x80000000, 0},
    {ALL, 1, 0, 0},
    {0x00ff00ff00ff00ff, 0x0001000100010001, 0x8000800080008000, 0x0100010001000100},
    {ALL, 0x0001000100010001, 0x8000800080008000, 0},
    {0x7fff, 1, 0x8000, 0x8000},
    {0xffff, 1, 0x8000, 0},
    {5, ALL, 0, 4},
    {0xff, 0x0f, ALL, 0xf0}, /* 64 fields of one bit: no carry at all */
};

struct swap {
    uint64_t original, swap, swap_mask, compare, compare_mask, result;
};

static const struct swap swaps[] = {
    {0, 0x1122334455667788, ALL, 0, ALL, 0x1122334455667788},
    {1, 0x1122334455667788, ALL, 0, ALL, 1},
    {0xaabbccdd00000007, 0xff, 0xff, 7, 0xff, 0xaabbccdd000000ff},
    {0xaabbccdd00000007, 0x1234, 0xff00, 0x99, 0, 0xaabbccdd00001207},
    {0x10, 0xf0f0, 0xf000, 0x10, 0xf0, 0xf010},
    {0x10, 0xf0f0, 0xf000, 0x20, 0xf0, 0x10},
    {0x10, 0xf0f0, 0, 0x10, ALL, 0x10}, /* equal, but nothing is to be swapped */
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* [RDMAX-5.1.1-05] [RDMAX-5.1.2-01] */
static void arithmetic__known_operands__gives_known_results(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(sums); i++) {
        const struct sum *s = &sums[i];
        assert_true(iwarp_rdmap_fetch_add(s->original, s->add, s->mask) == s->result);
    }
    for (size_t i = 0; i < COUNT(swaps); i++) {
        const struct swap *s = &swaps[i];
        assert_true(iwarp_rdmap_cmp_swap(s->original, s->swap, s->swap_mask, s->compare,
                                         s->compare_mask) == s->result);
    }
}

/* RFC 7306 5.1.1, one bit after the other. */
static uint64_t add_bitwise(uint64_t original, uint64_t add, uint64_t mask)
{
    uint64_t result = 0, carry = 0;

    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t sum = carry + (original >> bit & 1) + (add >> bit & 1);
        result |= (sum & 1) << bit;
        carry = (mask >> bit & 1) ? 0 : sum >> 1;
    }
    return result;
}

static uint64_t random_word(struct chance *c)
{
    uint64_t w = chance_next(c);

    switch (chance_below(c, 6)) {
    case 0: /* long carries */
        return w | chance_next(c) | chance_next(c);
    case 1: /* few bits */
        return w & chance_next(c) & chance_next(c);
    case 2:
        return UINT64_C(1) << (w % 64);
    case 3:
        return w & 1 ? 0 : ALL;
    default:
        return w;
    }
}

static void fetch_add__random_operands__does_what_the_rfc_spells_out(void **state)
{
    struct chance c = {chance_seed()};

    (void)state;
    for (unsigned i = 0; i < 200000; i++) {
        uint64_t original = random_word(&c), add = random_word(&c), mask = random_word(&c);
        assert_true(iwarp_rdmap_fetch_add(original, add, mask) == add_bitwise(original, add, mask));
        assert_true(iwarp_rdmap_fetch_add(original, add, 0) == original + add);
    }
}

static void cmp_swap__random_operands__decides_bit_by_bit(void **state)
{
    struct chance c = {chance_seed()};
    unsigned swapped = 0;

    (void)state;
    for (unsigned i = 0; i < 200000; i++) {
        uint64_t original = random_word(&c), compare_mask = random_word(&c);
        uint64_t swap = random_word(&c), swap_mask = random_word(&c);
        uint64_t compare =
            chance_one_in(&c, 2) ? random_word(&c) : original ^ (random_word(&c) & ~compare_mask);
        uint64_t want = 0;
        bool equal = true;
        for (unsigned bit = 0; bit < 64; bit++) {
            equal = equal && ((compare_mask >> bit & 1) == 0 ||
                              (compare >> bit & 1) == (original >> bit & 1));
        }
        for (unsigned bit = 0; bit < 64; bit++) {
            bool from_swap = equal && (swap_mask >> bit & 1);
            want |= ((from_swap ? swap : original) >> bit & 1) << bit;
        }
        swapped += equal;
        assert_true(iwarp_rdmap_cmp_swap(original, swap, swap_mask, compare, compare_mask) == want);
    }
    assert_in_range(swapped, 50000, 195000);
}

/* --- in memory ------------------------------------------------------------------------------- */

/* [RDMAX-5-03] [RDMAX-5.2.1-02] */
static void execute__known_operands__changes_the_word_and_no_neighbour(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(sums) + COUNT(swaps); i++) {
        struct iwarp_rdmap_atomic_request r = {.compare = 0x77, .compare_mask = 0x77};
        uint64_t memory[3] = {0x5a5a5a5a5a5a5a5a, 0, 0xa5a5a5a5a5a5a5a5}, before, after;
        uint64_t original = 0x1234;
        if (i < COUNT(sums)) {
            r.aop = IWARP_AOP_FETCH_ADD;
            r.operand = sums[i].add;
            r.mask = sums[i].mask;
            before = sums[i].original;
            after = sums[i].result;
        } else {
            const struct swap *s = &swaps[i - COUNT(sums)];
            r = (struct iwarp_rdmap_atomic_request){.aop = IWARP_AOP_CMP_SWAP,
                                                    .operand = s->swap,
                                                    .mask = s->swap_mask,
                                                    .compare = s->compare,
                                                    .compare_mask = s->compare_mask};
            before = s->original;
            after = s->result;
        }
        memory[1] = before;
        assert_true(iwarp_rdmap_atomic_execute(&memory[1], &r, &original));
        assert_true(original == before);
        assert_true(memory[1] == after);
        assert_true(memory[0] == 0x5a5a5a5a5a5a5a5a && memory[2] == 0xa5a5a5a5a5a5a5a5);
    }
}

/* From the wire to memory: 256 added to an integer of this host. */
static void execute__operand_from_the_wire__is_in_host_order(void **state)
{
    uint8_t wire[52] = {[26] = 1}; /* Add Data 00 .. 01 00 */
    struct iwarp_rdmap_atomic_request r;
    uint64_t counter = 1, original;

    (void)state;
    iwarp_rdmap_atomic_request_get(wire, &r);
    assert_true(iwarp_rdmap_atomic_execute(&counter, &r, &original));
    assert_true(counter == 257);
    assert_true(original == 1);
}

/* [RDMAX-5.2.1-11] */
static void execute__unknown_operation__touches_nothing(void **state)
{
    (void)state;
    for (unsigned aop = 0; aop < 256; aop++) {
        const struct iwarp_rdmap_atomic_request r = {
            .aop = (uint8_t)aop, .operand = 1, .mask = ALL};
        uint64_t word = 7, original = 9;
        bool known = aop == 0 || aop == 2;
        assert_int_equal(iwarp_rdmap_atomic_known((uint8_t)aop), known);
        if (!known) {
            assert_false(iwarp_rdmap_atomic_execute(&word, &r, &original));
            assert_false(iwarp_rdmap_atomic_execute(NULL, &r, &original));
            assert_true(word == 7 && original == 9);
        }
    }
}

/* [RDMAX-5.1.1-01] [RDMAX-5.1.2-02] [RDMAX-5.2.1-05] */
static void aligned__every_offset__is_true_for_multiples_of_8(void **state)
{
    static _Alignas(8) uint8_t memory[32];

    (void)state;
    for (unsigned i = 0; i < 24; i++) {
        assert_int_equal(iwarp_rdmap_atomic_aligned(memory + i), i % 8 == 0);
    }
}

struct pass {
    void *target;
    struct iwarp_rdmap_atomic_request request;
    uint64_t original;
    bool done;
};

static void pass(void *arg)
{
    struct pass *p = arg;
    p->done = iwarp_rdmap_atomic_execute(p->target, &p->request, &p->original);
}

static int guarded(void *target, enum iwarp_rdmap_aop aop, uint64_t *original)
{
    /* A comparison that fails: even that needs memory that can be written. */
    struct pass p = {.target = target,
                     .request = {.aop = (uint8_t)aop, .operand = 3, .compare_mask = ALL},
                     .original = *original};

    int result = iwarp_guard_run(target, 8, pass, &p);
    assert_int_equal(p.done, result == 0);
    *original = p.original;
    return result;
}

static void execute__memory_not_there_or_read_only__is_left_unchanged(void **state)
{
    static const enum iwarp_rdmap_aop aops[] = {IWARP_AOP_FETCH_ADD, IWARP_AOP_CMP_SWAP};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    (void)state;
    assert_int_equal(iwarp_guard_install(), 0);
    for (unsigned i = 0; i < 2; i++) {
        uint64_t original = 0x99;
        uint64_t *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(p, MAP_FAILED);
        p[5] = 40;
        assert_int_equal(mprotect(p, page, PROT_READ), 0);
        assert_int_equal(guarded(p + 5, aops[i], &original), -1);
        assert_true(original == 0x99 && p[5] == 40);
        assert_int_equal(mprotect(p, page, PROT_NONE), 0);
        assert_int_equal(guarded(p + 5, aops[i], &original), -1);
        assert_int_equal(mprotect(p, page, PROT_READ | PROT_WRITE), 0);
        assert_true(original == 0x99 && p[5] == 40);
        assert_int_equal(guarded(p + 5, aops[i], &original), 0);
        assert_true(original == 40 && p[5] == (i == 0 ? 43 : 40));
        assert_int_equal(munmap(p, page), 0);
        original = 0x99;
        assert_int_equal(guarded(p + 5, aops[i], &original), -1);
        assert_true(original == 0x99);
    }
}

/* An address that no processor of this kind has. */
static void execute__absurd_address__is_an_error(void **state)
{
    uint64_t original = 0x99;

    (void)state;
#if !defined(__aarch64__) /* where the top octet is no part of it */
    not_emulated();
#endif
    assert_int_equal(iwarp_guard_install(), 0);
    assert_int_equal(guarded((void *)(uintptr_t)0x8000000000001000, IWARP_AOP_FETCH_ADD, &original),
                     -1);
    assert_true(original == 0x99);
}

/* --- between threads ------------------------------------------------------------------------- */

#define ROUNDS 100000

struct player {
    pthread_t thread;
    uint64_t *word;
    unsigned field; /* masked: which 16 bits are this player's */
    bool failed;
    pthread_barrier_t *start;
};

static uint64_t request(struct player *p, const struct iwarp_rdmap_atomic_request *r)
{
    uint64_t original = 0;

    p->failed = !iwarp_rdmap_atomic_execute(p->word, r, &original) || p->failed;
    return original;
}

static void *player_adds(void *arg)
{
    struct player *p = arg;
    const struct iwarp_rdmap_atomic_request r = {.aop = IWARP_AOP_FETCH_ADD, .operand = 1};
    uint32_t last = 0;

    pthread_barrier_wait(p->start);
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint32_t seen = (uint32_t)request(p, &r);
        p->failed = p->failed || (i > 0 && seen <= last);
        last = seen;
    }
    return NULL;
}

/* One CmpSwap after the other until it takes, as a lock-free increment does. */
static void *player_swaps(void *arg)
{
    struct player *p = arg;
    uint64_t seen = 0;

    pthread_barrier_wait(p->start);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct iwarp_rdmap_atomic_request r;
        do {
            r = (struct iwarp_rdmap_atomic_request){.aop = IWARP_AOP_CMP_SWAP,
                                                    .operand = seen + 1,
                                                    .mask = ALL,
                                                    .compare = seen,
                                                    .compare_mask = ALL};
            seen = request(p, &r);
        } while (seen != r.compare);
        seen++;
    }
    return NULL;
}

/* The host, by its own instruction; its sum is in the upper half. */
static void *player_host(void *arg)
{
    struct player *p = arg;

    pthread_barrier_wait(p->start);
    for (unsigned i = 0; i < ROUNDS; i++) {
        __atomic_fetch_add(p->word, UINT64_C(1) << 32, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

/* A field of 16 bits that overflows at every second step; nobody else changes it. */
static void *player_field(void *arg)
{
    struct player *p = arg;
    unsigned shift = 16 * p->field;
    const struct iwarp_rdmap_atomic_request r = {.aop = IWARP_AOP_FETCH_ADD,
                                                 .operand = UINT64_C(0x8001) << shift,
                                                 .mask = 0x8000800080008000};

    pthread_barrier_wait(p->start);
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint16_t seen = (uint16_t)(request(p, &r) >> shift);
        p->failed = p->failed || seen != (uint16_t)(i * 0x8001);
    }
    return NULL;
}

/* The top octet of the word is a lock, taken and given by masks; it guards the next word's sum. */
static void *player_locks(void *arg)
{
    struct player *p = arg;
    const struct iwarp_rdmap_atomic_request take = {.aop = IWARP_AOP_CMP_SWAP,
                                                    .operand = UINT64_C(0xff) << 56,
                                                    .mask = UINT64_C(0xff) << 56,
                                                    .compare = 0,
                                                    .compare_mask = UINT64_C(0xff) << 56};
    struct iwarp_rdmap_atomic_request give = take;

    give.operand = 0;
    give.compare = UINT64_C(0xff) << 56;
    pthread_barrier_wait(p->start);
    for (unsigned i = 0; i < ROUNDS / 10; i++) {
        while (request(p, &take) >> 56 != 0) {
            sched_yield();
        }
        uint64_t sum = __atomic_load_n(p->word + 1, __ATOMIC_RELAXED);
        __atomic_store_n(p->word + 1, sum + 1, __ATOMIC_RELAXED);
        p->failed = request(p, &give) >> 56 != 0xff || p->failed;
    }
    return NULL;
}

static void play(uint64_t *word, void *(*const *role)(void *), unsigned n)
{
    struct player player[4];
    pthread_barrier_t start;

    assert_int_equal(pthread_barrier_init(&start, NULL, n), 0);
    for (unsigned i = 0; i < n; i++) {
        player[i] = (struct player){.word = word, .field = i, .start = &start};
        assert_int_equal(pthread_create(&player[i].thread, NULL, role[i], &player[i]), 0);
    }
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(pthread_join(player[i].thread, NULL), 0);
        assert_false(player[i].failed);
    }
    pthread_barrier_destroy(&start);
}

/* [RDMAX-5-01] [RDMAX-5.3-01] [RDMAX-5.4-02] */
static void execute__several_threads_and_the_host_add__no_addition_is_lost(void **state)
{
    static void *(*const role[])(void *) = {player_adds, player_adds, player_host};
    uint64_t word = 0;

    (void)state;
    play(&word, role, 3);
    assert_true(word == ((uint64_t)ROUNDS << 32) + 2 * ROUNDS);
}

static void execute__swaps_adds_and_the_host__no_addition_is_lost(void **state)
{
    static void *(*const role[])(void *) = {player_swaps, player_adds, player_host};
    uint64_t word = 0;

    (void)state;
    play(&word, role, 3);
    assert_true(word == ((uint64_t)ROUNDS << 32) + 2 * ROUNDS);
}

static void execute__fields_of_one_word__do_not_disturb_each_other(void **state)
{
    static void *(*const role[])(void *) = {player_field, player_field, player_field, player_field};
    uint64_t word = 0;

    (void)state;
    play(&word, role, 4);
    assert_true(word == (uint16_t)(ROUNDS * 0x8001u) * UINT64_C(0x0001000100010001));
}

static void execute__masked_swap_as_a_lock__excludes(void **state)
{
    static void *(*const role[])(void *) = {player_locks, player_locks, player_host};
    uint64_t word[2] = {0, 0};

    (void)state;
    play(word, role, 3);
    assert_true(word[0] == (uint64_t)ROUNDS << 32);
    assert_true(word[1] == 2 * (ROUNDS / 10));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request__fetch_add__is_v19_both_ways),
        cmocka_unit_test(request__cmp_swap__is_v20_both_ways),
        cmocka_unit_test(request__every_octet_different__is_where_it_belongs),
        cmocka_unit_test(request_put__fetch_add_with_compare_fields__sends_them_as_unused),
        cmocka_unit_test(response__is_v21_both_ways),
        cmocka_unit_test(immediate__is_v22_and_v23_both_ways),
        cmocka_unit_test(arithmetic__known_operands__gives_known_results),
        cmocka_unit_test(fetch_add__random_operands__does_what_the_rfc_spells_out),
        cmocka_unit_test(cmp_swap__random_operands__decides_bit_by_bit),
        cmocka_unit_test(execute__known_operands__changes_the_word_and_no_neighbour),
        cmocka_unit_test(execute__operand_from_the_wire__is_in_host_order),
        cmocka_unit_test(execute__unknown_operation__touches_nothing),
        cmocka_unit_test(aligned__every_offset__is_true_for_multiples_of_8),
        cmocka_unit_test(execute__memory_not_there_or_read_only__is_left_unchanged),
        cmocka_unit_test(execute__absurd_address__is_an_error),
        cmocka_unit_test(execute__several_threads_and_the_host_add__no_addition_is_lost),
        cmocka_unit_test(execute__swaps_adds_and_the_host__no_addition_is_lost),
        cmocka_unit_test(execute__fields_of_one_word__do_not_disturb_each_other),
        cmocka_unit_test(execute__masked_swap_as_a_lock__excludes),
    };
    return cmocka_run_group_tests_name("rdmap_atomic", tests, NULL, NULL);
}
