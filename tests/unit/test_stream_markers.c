/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Streams with markers: RFC 5044 figures 5 and 6, whole streams that were computed apart from this
 * library (K1 to K7, by their SHA-256) both ways, wrong and odd markers, positions that pass 2^32,
 * sends cut at every octet, memory that is not there.
 *
 * RFC 5044 4.2 to 4.5 with erratum 1427, and 8.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <openssl/evp.h>
#include <string.h>
#include <sys/mman.h>

#include "alloc_fault.h"
#include "deliveries.h"
#include "mpa/mpa_frame.h"
#include "vectors.h"

#define KEY     0x00aabb00u
#define STAG    0x00010203u
#define TO      0x1000u
#define EDGE_32 ((uint64_t)1 << 32)

static void expect_fault(const struct endpoint *e, enum iwarp_fault_code code)
{
    assert_string_equal(iwarp_fault_name(e->s.fault.code), iwarp_fault_name(code));
}

/* Both directions are at this position already. */
static void begin_at(struct endpoint *e, uint64_t pos)
{
    e->s.rx.pos = e->s.rx.fpdu_pos = pos;
    e->s.tx.framed = e->s.tx.sent = e->s.tx.released = pos;
}

/* --- K1 to K7 ----------------------------------------------------------------------------------
 */

struct vector {
    uint32_t segment[4]; /* payload of each: a Send, or one Write of several segments */
    size_t octets;
    const char *sha256;
    bool write, zero; /* payload all 00, not 00 01 02 .. in each segment */
};

static const struct vector vectors[] = {
    {{464, 24}, 544, "1074d3dd6e39733e0f6ba7db32c9f139126bd293297849fe1a469b7d0bb29c7b", 0, 1},
    {{484, 8}, 548, "38f1c59c958f587259b53880a66dcc54cf600eca8c6fd98f44e45e3ffb7be9e1", 0, 0},
    {{488, 8}, 552, "2c9a6c68c5f68f75c1b9b0895b1371c86cc2d92725db06e03130bec52818bedb", 0, 0},
    {{485, 8}, 552, "4c2939bd431fcd05120a25448d3126bb0f0baddbb1c5c5982bfd58b2acf05ea6", 0, 0},
    {{480, 8}, 544, "70dfc77a4172a8d509f71053341b6cb80dd22ebfef243cde832a6581dfc5c494", 0, 0},
    {{1428}, 1460, "d03735a6bad76d6b431869f3a36700ef640598cf45f5a746694200a1cbe0fb1a", 1, 0},
    {{1428, 1428, 1428, 100},
     4500,
     "34fa1d64c78e917bbf0c832a74d8fb86b45c94636488fcaf34a4af1cb0cc679f",
     1,
     0},
};
#define VECTORS (sizeof vectors / sizeof *vectors)

static size_t payload_of(const struct vector *v)
{
    return (size_t)v->segment[0] + v->segment[1] + v->segment[2] + v->segment[3];
}

static void fill_payload(const struct vector *v, uint8_t *p)
{
    for (unsigned i = 0; i < 4; i++) {
        for (uint32_t k = 0; k < v->segment[i]; k++) {
            *p++ = v->zero ? 0 : (uint8_t)k;
        }
    }
}

static void expect_sha256(const struct octets *o, const char *expected)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    struct octets want = {0};
    unsigned n = 0;

    assert_int_equal(EVP_Digest(o->p, o->n, digest, &n, EVP_sha256(), NULL), 1);
    octets_hex(&want, expected);
    octets_expect("SHA-256 of the stream", digest, n, want.p, want.n);
    octets_free(&want);
}

/* The stream of a vector by the reference of octets.c; its digest shows that this is right. */
static void vector_stream(const struct vector *v, struct octets *o)
{
    uint8_t payload[5000];
    uint32_t done = 0;

    fill_payload(v, payload);
    for (unsigned i = 0; i < 4 && v->segment[i]; i++) {
        struct octets u = {0};
        if (v->write) {
            octets_hex(&u, i == 3 || !v->segment[i + 1] ? "c140" : "8140");
            octets_be(&u, STAG, 4);
            octets_be(&u, TO + done, 8);
        } else {
            octets_hex(&u, i ? "4143 00000000 00000000 00000002 00000000"
                             : "4143 00000000 00000000 00000001 00000000");
        }
        octets_add(&u, payload + done, v->segment[i]);
        fpdu_add_marked(o, o->n, u.p, u.n, 0);
        done += v->segment[i];
        octets_free(&u);
    }
    assert_int_equal(o->n, v->octets);
    expect_sha256(o, v->sha256);
}

/* n octets of an area from `at` on, in `pieces` of uneven size. */
static unsigned cut(const struct area *a, size_t at, size_t n, unsigned pieces, struct chance *c,
                    struct iwarp_sge *sgl)
{
    for (unsigned i = 0; i < pieces; i++) {
        size_t k = i == pieces - 1 ? n : chance_below(c, n / 4 + 1);
        sgl[i] = area_sge(a, at, k);
        at += k;
        n -= k;
    }
    return pieces;
}

static void post_vector(struct endpoint *e, const struct vector *v, unsigned pieces,
                        struct chance *c)
{
    struct iwarp_sge sgl[IWARP_MAX_SGE];
    struct area *a = endpoint_area(e, KEY, 0x7000, payload_of(v), 0, 0);

    fill_payload(v, a->p);
    if (v->write) {
        endpoint_post(e, &(struct iwarp_send_wr){.opcode = IWARP_WR_WRITE,
                                                 .sg_list = sgl,
                                                 .num_sge = cut(a, 0, a->n, pieces, c, sgl),
                                                 .remote_stag = STAG,
                                                 .remote_to = TO});
        return;
    }
    size_t first = v->segment[0];
    endpoint_post(
        e, &(struct iwarp_send_wr){.sg_list = sgl, .num_sge = cut(a, 0, first, pieces, c, sgl)});
    endpoint_post(e, &(struct iwarp_send_wr){
                         .sg_list = sgl, .num_sge = cut(a, first, v->segment[1], pieces, c, sgl)});
}

static void send__vectors__have_their_digests(void **state)
{
    struct chance c = {chance_seed()};

    (void)state;
    for (unsigned i = 0; i < VECTORS * 4 * 20; i++) {
        const struct vector *v = &vectors[i % VECTORS];
        unsigned pieces = i / VECTORS % 4 == 0 ? 1 : 8u << (i / VECTORS % 3);
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.markers_tx = true});
        post_vector(&e, v, pieces, &c);
        if (i % 2) {
            endpoint_drain(&e);
        } else {
            endpoint_drain_randomly(&e, &c);
        }
        expect_sha256(&e.sent, v->sha256);
        assert_int_equal(e.sq.done, v->write ? 1 : 2);
        assert_int_equal(e.s.tx.fpdus, 1 + (v->segment[1] > 0) + 2 * (v->segment[3] > 0));
        endpoint_fini(&e);
    }
}

/* The transport takes k octets, then the rest; k is each number. Completion follows the octets. */
static void send__vectors_cut_at_each_octet__have_their_digests(void **state)
{
    struct chance c = {chance_seed()};

    (void)state;
    for (unsigned i = 0; i < VECTORS; i++) {
        const struct vector *v = &vectors[i];
        for (size_t k = 0; k <= v->octets; k++) {
            struct endpoint e;
            endpoint_init(&e, &(struct endpoint_options){.markers_tx = true});
            post_vector(&e, v, k % 2 ? 1 : IWARP_MAX_SGE, &c);
            assert_int_equal(endpoint_send(&e, k), k);
            iwarp_stream_released(&e.s, k);
            assert_int_equal(e.sq.done == e.sq.next, k == v->octets);
            endpoint_drain(&e);
            expect_sha256(&e.sent, v->sha256);
            assert_int_equal(e.sq.done, v->write ? 1 : 2);
            endpoint_fini(&e);
        }
    }
}

/* No CRC is made; the markers are the same. */
static void send__vectors_without_crc__differ_in_the_crc_only(void **state)
{
    struct chance c = {chance_seed()};

    (void)state;
    for (unsigned i = 0; i < VECTORS; i++) {
        struct octets like = {0}, plain = {0}, sent = {0};
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.no_crc = true, .markers_tx = true});
        post_vector(&e, &vectors[i], 5, &c);
        endpoint_drain(&e);
        vector_stream(&vectors[i], &like);
        fpdu_unmark(&plain, 0, like.p, like.n, true);
        fpdu_unmark(&sent, 0, e.sent.p, e.sent.n, false);
        octets_expect("stream", sent.p, sent.n, plain.p, plain.n);
        endpoint_fini(&e);
        octets_free(&like);
        octets_free(&plain);
        octets_free(&sent);
    }
}

static void vector_setup(struct endpoint *e, void *arg)
{
    const struct vector *v = arg;

    if (v->write) {
        endpoint_area(e, STAG, TO, payload_of(v), WRITABLE, 0xee);
        return;
    }
    for (uint32_t i = 0; i < 2; i++) {
        endpoint_recv_area(
            e, endpoint_area(e, KEY + (i << 8), 0x9000, v->segment[i] + 3, LOCAL, 0xee));
    }
}

static void vector_check(struct endpoint *e, void *arg)
{
    const struct vector *v = arg;
    uint8_t payload[5000];

    fill_payload(v, payload);
    expect_fault(e, IWARP_FAULT_NONE);
    assert_int_equal(e->s.rx.direct, 0);
    assert_int_equal(e->s.rx.pos, v->octets);
    if (v->write) {
        assert_memory_equal(e->area[0].p, payload, payload_of(v));
        return;
    }
    assert_int_equal(e->rq.done, 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(endpoint_rwqe(e, i)->byte_len, v->segment[i]);
        assert_memory_equal(e->area[i].p, payload + (i ? v->segment[0] : 0), v->segment[i]);
        assert_int_equal(e->area[i].p[v->segment[i]], 0xee);
    }
}

static void receive__vectors__are_taken(void **state)
{
    (void)state;
    for (unsigned i = 0; i < VECTORS; i++) {
        struct vector v = vectors[i];
        struct octets o = {0};
        vector_stream(&v, &o);
        const struct scene scene = {.options = {.markers_rx = true},
                                    .setup = vector_setup,
                                    .check = vector_check,
                                    .arg = &v,
                                    .octets = o.p,
                                    .n = o.n};
        receive_every_way(&scene);
        octets_free(&o);
    }
}

/* --- the figures, and a capture ----------------------------------------------------------------
 */

static const struct {
    uint64_t pos;
    uint32_t msn;
    const char *payload, *wire;
} figures[] = {
    {0, 1, "000000000000000000000000 000000000000000000000000", /* figure 5 */
     "00000000 002a4143 00000000 00000000 00000001 00000000"
     "000000000000000000000000 000000000000000000000000 52239983"},
    {0x1ec, 2, "000000000000000000000000 000000000000000000000000", /* figure 6 */
     "002a4143 00000000 00000000 00000002 00000000 00000014"
     "000000000000000000000000 000000000000000000000000 84925898"},
    {0, 1, "00040000 01000000 00b00508 00000000", /* the capture of vectors.h with a marker */
     "00000000 00224143 00000000 00000000 00000001 00000000 00040000 01000000 00b00508 00000000"
     "5e8789d7"},
};

static void figures__both_ways__match(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3 * 3; i++) {
        struct octets payload = {0}, wire = {0};
        /* The position counts modulo 512 only. */
        uint64_t pos = figures[i / 3].pos + (i % 3 == 0 ? 0 : i % 3 == 1 ? 512 * 77 : EDGE_32);
        struct endpoint a, b;
        octets_hex(&payload, figures[i / 3].payload);
        octets_hex(&wire, figures[i / 3].wire);
        endpoint_init(&a, &(struct endpoint_options){.markers_tx = true});
        endpoint_init(&b, &(struct endpoint_options){.markers_rx = true});
        begin_at(&a, pos);
        begin_at(&b, pos);
        a.s.tx.send_msn = b.s.ddp.msn[0] = figures[i / 3].msn;
        struct area *from = endpoint_area(&a, KEY, 0x7000, payload.n, 0, 0);
        memcpy(from->p, payload.p, payload.n);
        const struct iwarp_sge sge = area_sge(from, 0, payload.n);
        endpoint_post(&a, &(struct iwarp_send_wr){.sg_list = &sge, .num_sge = 1});
        endpoint_drain(&a);
        octets_expect("figure", a.sent.p, a.sent.n, wire.p, wire.n);
        struct area *to = endpoint_area(&b, KEY, 0x7000, payload.n, LOCAL, 0xee);
        endpoint_recv_area(&b, to);
        iwarp_stream_feed(&b.s, wire.p, wire.n);
        assert_int_equal(b.rq.done, 1);
        assert_memory_equal(to->p, payload.p, payload.n);
        endpoint_fini(&a);
        endpoint_fini(&b);
        octets_free(&payload);
        octets_free(&wire);
    }
}

/* --- wrong and odd markers ---------------------------------------------------------------------
 */

struct odd {
    uint64_t pos;        /* of the second FPDU */
    size_t payload;      /* of it */
    uint32_t xor_ptr;    /* of its last marker */
    uint64_t at, is, be; /* the fault, or nothing if `at` is 0 */
    struct octets wire;
};

/* A zero-length Write before each, so that the CRC and the start are beyond doubt. */
static void odd_stream(struct odd *odd)
{
    struct octets u = {0};
    uint64_t first = odd->pos - 20;

    assert_int_equal(odd->pos % 4, 0);
    assert_true(odd->pos % 512 == 0 || odd->pos % 512 > 20 + 4);
    octets_hex(&u, "c140 00000001 00000000 00000000");
    fpdu_add_marked(&odd->wire, first, u.p, u.n, 0);
    assert_int_equal(odd->wire.n, 20);
    u.n = 0;
    octets_hex(&u, "4143 00000000 00000000 00000001 00000000");
    for (size_t i = 0; i < odd->payload; i++) {
        octets_fill(&u, (uint8_t)(i * 3), 1);
    }
    fpdu_add_marked(&odd->wire, odd->pos, u.p, u.n, odd->xor_ptr);
    octets_free(&u);
}

static void odd_setup(struct endpoint *e, void *arg)
{
    const struct odd *odd = arg;

    begin_at(e, odd->pos - 20);
    endpoint_recv_area(e, endpoint_area(e, KEY, 0x9000, 3000, LOCAL, 0xee));
}

static void odd_check(struct endpoint *e, void *arg)
{
    const struct odd *odd = arg;

    if (odd->at == 0) {
        expect_fault(e, IWARP_FAULT_NONE);
        assert_int_equal(e->rq.done, 1);
        for (size_t i = 0; i < odd->payload; i++) {
            assert_int_equal(e->area[0].p[i], (uint8_t)(i * 3));
        }
        return;
    }
    expect_fault(e, IWARP_FAULT_MPA_MARKER);
    assert_true(e->s.fault.detail[0] == odd->at);
    assert_int_equal(e->s.fault.detail[1], odd->is);
    assert_int_equal(e->s.fault.detail[2], odd->be);
    assert_int_equal(e->rq.done, 0);
    for (size_t i = 0; i < 3000; i++) {
        assert_int_equal(e->area[0].p[i], 0xee); /* nothing of it was placed */
    }
    endpoint_expect_terminate(e, "20030000");
}

static void marker__wrong_or_odd__is_a_fault_or_taken(void **state)
{
    static const struct odd cases[] = {
        {512, 10, 4, 512, 4, 0, {0}},           /* between, should be 0 */
        {512, 10, 0x8000, 512, 0x8000, 0, {0}}, /* the highest bit */
        {512, 600, 4, 1024, 504, 508, {0}},     /* the second one */
        {500, 10, 4, 512, 8, 12, {0}},          /* inside */
        {500, 10, 12, 512, 0, 12, {0}},         /* says "between" and is not */
        {32, 460, 8, 512, 488, 480, {0}},       /* before the CRC field: 2 + 18 + 460 = 480 */
        {4096 + 28, 2000, 0x1000, 6144, 6116, 2020, {0}}, /* the last of four */
        {EDGE_32 - 12, 10, 4, EDGE_32, 8, 12, {0}},
        {EDGE_32, 10, 4, EDGE_32, 4, 0, {0}},
        /* erratum 1427: the low two bits count as 0, but are in the CRC */
        {512, 10, 1, 0, 0, 0, {0}},
        {512, 10, 2, 0, 0, 0, {0}},
        {500, 10, 3, 0, 0, 0, {0}},
        {32, 457, 3, 0, 0, 0, {0}},
        /* reserved, ignored */
        {512, 10, 0xffff0000, 0, 0, 0, {0}},
        {500, 10, 0x00010000, 0, 0, 0, {0}},
        {32, 2000, 0xa5a50003, 0, 0, 0, {0}},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (unsigned tx = 0; tx < 2; tx++) { /* the Terminate has markers or not */
            struct odd odd = cases[i];
            odd_stream(&odd);
            const struct scene scene = {.options = {.markers_rx = true, .markers_tx = tx != 0},
                                        .setup = odd_setup,
                                        .check = odd_check,
                                        .arg = &odd,
                                        .octets = odd.wire.p,
                                        .n = odd.wire.n,
                                        .without = tx ? DUMP_NO_POSITIONS : 0};
            receive_every_way(&scene);
            octets_free(&odd.wire);
        }
    }
}

/* A responder's first FPDU is not valid with a wrong marker: not even a Terminate may be sent. */
static void marker__wrong_in_the_first_fpdu__ends_a_responder_without_an_octet(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct octets o = {0}, u = {0};
        struct endpoint e;
        octets_hex(&u, "c140 00000001 00000000 00000000");
        fpdu_add_marked(&o, 0, u.p, u.n, 4);
        endpoint_init(&e, &(struct endpoint_options){
                              .hold_tx = i < 2, .markers_rx = true, .no_crc = i % 2 != 0});
        iwarp_stream_feed(&e.s, o.p, o.n);
        expect_fault(&e, IWARP_FAULT_MPA_MARKER);
        endpoint_drain(&e);
        if (i < 2) {
            assert_int_equal(e.s.life, STREAM_ENDED);
            assert_true(e.s.abort);
            assert_int_equal(e.sent.n, 0);
        } else {
            endpoint_expect_terminate(&e, "20030000");
        }
        endpoint_fini(&e);
        octets_free(&o);
        octets_free(&u);
    }
}

/* Each bit of each marker of K7, CRC not made right. */
static void marker__damaged__is_a_crc_error(void **state)
{
    struct octets o = {0};

    (void)state;
    vector_stream(&vectors[6], &o);
    for (size_t at = 0; at < o.n; at += 512) {
        for (unsigned bit = 0; bit < 32; bit++) {
            struct vector v = vectors[6];
            struct endpoint e;
            endpoint_init(&e, &(struct endpoint_options){.markers_rx = true, .no_crc = false});
            vector_setup(&e, &v);
            o.p[at + bit / 8] ^= (uint8_t)(1 << bit % 8);
            iwarp_stream_feed(&e.s, o.p, o.n);
            expect_fault(&e, IWARP_FAULT_MPA_CRC);
            assert_int_equal(e.s.rx.fpdus, at / 512 / 3);
            endpoint_drain(&e);
            endpoint_expect_terminate(&e, "20020000");
            endpoint_fini(&e);
            /* Without CRC: reserved octets and the low two bits mean nothing. */
            bool matters = bit >= 16 && !(bit >= 24 && bit < 26);
            endpoint_init(&e, &(struct endpoint_options){.markers_rx = true, .no_crc = true});
            vector_setup(&e, &v);
            iwarp_stream_feed(&e.s, o.p, o.n);
            expect_fault(&e, matters ? IWARP_FAULT_MPA_MARKER : IWARP_FAULT_NONE);
            endpoint_fini(&e);
            o.p[at + bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
    octets_free(&o);
}

/* Any octet damaged: never a wrong octet delivered; what is before it is. */
static void stream__damaged_at_each_octet__delivers_nothing_wrong(void **state)
{
    (void)state;
    for (unsigned i = 0; i < VECTORS; i++) {
        struct octets o = {0};
        vector_stream(&vectors[i], &o);
        for (size_t at = 0; at < o.n; at++) {
            struct vector v = vectors[i];
            struct endpoint e;
            o.p[at] ^= (uint8_t)(1 << at % 8);
            endpoint_init(&e, &(struct endpoint_options){.markers_rx = true, .early = at % 2});
            vector_setup(&e, &v);
            iwarp_stream_feed(&e.s, o.p, o.n);
            assert_true(e.s.fault.code == IWARP_FAULT_MPA_CRC ||
                        e.s.fault.code == IWARP_FAULT_MPA_ULPDU_LEN || e.s.rx.state == RX_CARRY);
            assert_true(e.s.rx.fpdus < 1u + (v.segment[1] > 0) + 2u * (v.segment[3] > 0));
            endpoint_fini(&e);
            o.p[at] ^= (uint8_t)(1 << at % 8);
        }
        octets_free(&o);
    }
}

/* --- lengths -----------------------------------------------------------------------------------
 */

/* ULPDUs that cannot be, with the leading marker and without. */
static void length__impossible__is_a_fault(void **state)
{
    static const struct {
        const char *ulpdu;
        size_t payload;
        enum iwarp_fault_code fault;
        const char *terminate;
    } cases[] = {
        {"", 0, IWARP_FAULT_DDP_SEGMENT_SHORT, "1000"},
        {"c1", 0, IWARP_FAULT_DDP_SEGMENT_SHORT, "1000"},
        {"c140 00000001 00000000 000000", 0, IWARP_FAULT_DDP_SEGMENT_SHORT, "1000"},
        {"4143 00000000 00000000 00000001 000000", 0, IWARP_FAULT_DDP_SEGMENT_SHORT, "1000"},
        {"", 64769, IWARP_FAULT_MPA_ULPDU_LEN, "20030000"},
        {"", 65535, IWARP_FAULT_MPA_ULPDU_LEN, "20030000"},
    };

    (void)state;
    for (unsigned i = 0; i < 6 * 3; i++) {
        static const uint64_t places[] = {0, 500, 508};
        uint64_t pos = places[i / 6];
        struct octets o = {0};
        struct endpoint e;
        fpdu_hex_marked(&o, pos, cases[i % 6].ulpdu, cases[i % 6].payload);
        endpoint_init(&e, &(struct endpoint_options){.markers_rx = true});
        begin_at(&e, pos);
        e.s.tx.framed = e.s.tx.sent = e.s.tx.released = 0;
        for (size_t at = 0; at < o.n; at++) { /* as soon as it is known */
            iwarp_stream_feed(&e.s, o.p + at, 1);
            iwarp_stream_check(&e.s);
            if (cases[i % 6].payload) {
                size_t known = pos % 512 == 0 ? 6 : 2;
                assert_int_equal(e.s.fault.code != IWARP_FAULT_NONE, at + 1 >= known);
            }
        }
        expect_fault(&e, cases[i % 6].fault);
        endpoint_drain(&e);
        struct octets head = {0};
        octets_hex(&head, cases[i % 6].terminate);
        assert_memory_equal(e.sent.p + 20, head.p, head.n);
        octets_free(&head);
        endpoint_fini(&e);
        octets_free(&o);
    }
}

/* MULPDU for markers, RFC 5044 4.5: a full segment fits the EMSS wherever its FPDU begins. */
static void mulpdu__of_each_emss__fits_the_segment(void **state)
{
    static const uint32_t emss[][2] = {{536, 522},   {1388, 1370}, {1448, 1430},  {1460, 1442},
                                       {4096, 4058}, {8948, 8870}, {65483, 64768}};
    struct chance c = {chance_seed()};

    (void)state;
    for (unsigned i = 0; i < 7; i++) {
        assert_int_equal(iwarp_mpa_mulpdu(emss[i][0], true), emss[i][1]);
        for (uint64_t pos = 0; pos < 512; pos += i == 6 ? 52 : 4) {
            struct endpoint a, b;
            /* Many large ones at last: as many pieces as one call takes, and more. */
            uint32_t full = i == 6 ? 6 : 3, n = full * (emss[i][1] - 14) + 5;
            endpoint_init(&a, &(struct endpoint_options){.markers_tx = true, .mulpdu = emss[i][1]});
            endpoint_init(&b, &(struct endpoint_options){.markers_rx = true});
            begin_at(&a, EDGE_32 - 1024 + pos);
            begin_at(&b, EDGE_32 - 1024 + pos);
            struct area *from = endpoint_area(&a, KEY, 0x7000, n, 0, 0);
            struct area *to = endpoint_area(&b, STAG, TO, n, WRITABLE, 0xee);
            for (uint32_t k = 0; k < n; k++) {
                from->p[k] = (uint8_t)chance_next(&c);
            }
            struct iwarp_sge sgl[IWARP_MAX_SGE];
            endpoint_post(&a, &(struct iwarp_send_wr){.opcode = IWARP_WR_WRITE,
                                                      .sg_list = sgl,
                                                      .num_sge = cut(from, 0, n, 32, &c, sgl),
                                                      .remote_stag = STAG,
                                                      .remote_to = TO});
            endpoint_drain(&a);
            assert_int_equal(a.s.tx.fpdus, full + 1);
            deliver(&b, DELIVER_MIXED, a.sent.p, a.sent.n, &c);
            assert_memory_equal(to->p, from->p, n);
            assert_int_equal(b.s.rx.fpdus, full + 1);
            uint64_t whole = a.sent.n - 4; /* its tail: header, 5 octets, padding, CRC, a marker */
            assert_true(whole <= full * (uint64_t)(emss[i][0]) + 2 + 14 + 5 + 3 + 4);
            endpoint_fini(&a);
            endpoint_fini(&b);
        }
    }
}

/* --- messages at every position ----------------------------------------------------------------
 */

/* A Send of n octets whose stream begins at pos; the sender is judged by octets.c. */
static void one_send(uint64_t pos, size_t n, unsigned pieces, bool no_crc, struct chance *c)
{
    struct iwarp_sge sgl[IWARP_MAX_SGE];
    struct octets u = {0}, wire = {0}, plain = {0}, like = {0};
    struct endpoint a, b;

    endpoint_init(&a, &(struct endpoint_options){.markers_tx = true, .no_crc = no_crc});
    endpoint_init(&b, &(struct endpoint_options){.markers_rx = true, .no_crc = no_crc});
    begin_at(&a, pos);
    begin_at(&b, pos);
    struct area *from = endpoint_area(&a, KEY, 0x7000, n, 0, 0);
    struct area *to = endpoint_area(&b, KEY, 0x7000, n, LOCAL, 0xee);
    for (size_t k = 0; k < n; k++) {
        from->p[k] = (uint8_t)chance_next(c);
    }
    endpoint_post(
        &a, &(struct iwarp_send_wr){.sg_list = sgl, .num_sge = cut(from, 0, n, pieces, c, sgl)});
    endpoint_drain_randomly(&a, c);
    octets_hex(&u, "4143 00000000 00000000 00000001 00000000");
    octets_add(&u, from->p, n);
    fpdu_add_marked(&wire, pos, u.p, u.n, 0);
    if (no_crc) {
        fpdu_unmark(&plain, pos, a.sent.p, a.sent.n, false);
        fpdu_unmark(&like, pos, wire.p, wire.n, true);
        octets_expect("FPDU", plain.p, plain.n, like.p, like.n);
    } else {
        octets_expect("FPDU", a.sent.p, a.sent.n, wire.p, wire.n);
    }
    endpoint_recv_area(&b, to);
    deliver(&b, DELIVER_MIXED, wire.p, wire.n, c);
    assert_int_equal(b.rq.done, 1);
    assert_memory_equal(to->p, from->p, n);
    assert_true(b.s.rx.pos == pos + wire.n);
    endpoint_fini(&a);
    endpoint_fini(&b);
    octets_free(&u);
    octets_free(&wire);
    octets_free(&plain);
    octets_free(&like);
}

/* [MPA-4.3-01] */
static void send__at_each_position__is_framed_and_taken(void **state)
{
    static const size_t sizes[] = {0,   1,   2,   3,   4,   450, 483, 484,  485,
                                   486, 487, 488, 489, 512, 513, 996, 1000, 1424};
    struct chance c = {chance_seed()};

    (void)state;
    for (uint64_t pos = 0; pos < 512; pos += 4) {
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            one_send(EDGE_32 - 512 + pos, sizes[i], i % 3 ? 1 + (unsigned)chance_below(&c, 32) : 32,
                     chance_one_in(&c, 3), &c);
        }
    }
}

/* --- ends --------------------------------------------------------------------------------------
 */

static void eof__at_each_octet__tells_what_is_unfinished(void **state)
{
    struct octets o = {0};
    struct vector v = vectors[2];

    (void)state;
    vector_stream(&v, &o);
    for (size_t k = 0; k <= o.n; k++) {
        struct chance c = {k};
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.markers_rx = true});
        vector_setup(&e, &v);
        deliver(&e, k % 2 ? DELIVER_SINGLY : DELIVER_MIXED, o.p, k, &c);
        iwarp_stream_eof(&e.s, 0);
        bool border = k == 0 || k == 0x208 || k == 0x228;
        expect_fault(&e, border ? IWARP_FAULT_NONE : IWARP_FAULT_RDMAP_PEER_CLOSED);
        if (!border) {
            assert_int_equal(e.s.fault.detail[2], k < 0x208 ? k : k - 0x208);
            endpoint_drain(&e);
            endpoint_expect_terminate(&e, "02070000");
        }
        assert_int_equal(e.s.life, STREAM_ENDED);
        assert_int_equal(e.rq.done, k < 0x208 ? 0 : k < 0x228 ? 1 : 2);
        endpoint_fini(&e);
    }
    octets_free(&o);
}

/* A source that is not mapped: what went before it stays whole, the Terminate has its markers. */
static void source__unmapped__is_a_terminate_with_markers(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        size_t n = i % 2 ? 5000 : 100;
        const struct endpoint_options o = {.markers_tx = true, .refers = true, .no_crc = i > 1};
        uint8_t *page = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct octets plain = {0};
        struct fpdu f;
        struct endpoint e;
        assert_true(page != MAP_FAILED);
        endpoint_init(&e, &o);
        struct area *good = endpoint_area(&e, KEY, 0x7000, 470, 0, 7);
        struct area *bad = endpoint_foreign(&e, STAG, TO, page, n, READABLE);
        const struct iwarp_sge sge[] = {area_sge(good, 0, 470), area_sge(bad, 0, n)};
        endpoint_post(&e, &(struct iwarp_send_wr){.sg_list = sge, .num_sge = 1});
        endpoint_post(&e, &(struct iwarp_send_wr){.sg_list = sge, .num_sge = 2});
        if (o.no_crc && n + 470 > 1024) { /* nobody looked: the write call will see it */
            endpoint_send(&e, 400);
            expect_fault(&e, IWARP_FAULT_NONE);
        } else {
            endpoint_drain(&e);
            expect_fault(&e, IWARP_FAULT_LOCAL_MEMORY);
            fpdu_unmark(&plain, 0, e.sent.p, e.sent.n, !o.no_crc);
            assert_true(fpdu_decode(plain.p, plain.n, true, &f));
            assert_int_equal(f.payload_len, 470);
            assert_true(fpdu_decode(plain.p + f.len, plain.n - f.len, true, &f));
            assert_int_equal(f.opcode, IWARP_OP_TERMINATE);
            assert_memory_equal(f.payload, "\0\0\0\0", 4);
            assert_int_equal(endpoint_swqe(&e, 1)->status, IWARP_WC_LOCAL_PROTECTION);
        }
        endpoint_fini(&e);
        octets_free(&plain);
        munmap(page, 65536);
    }
}

/* A whole FPDU is collected, within the budget. */
static void receive__beyond_the_budget__is_a_fault(void **state)
{
    struct octets o = {0};
    struct endpoint e;

    (void)state;
    vector_stream(&vectors[6], &o);
    endpoint_init(&e, &(struct endpoint_options){.markers_rx = true, .budget = 1459, .hold_tx = 1});
    endpoint_area(&e, STAG, TO, 5000, WRITABLE, 0);
    iwarp_stream_feed(&e.s, o.p, o.n);
    expect_fault(&e, IWARP_FAULT_LOCAL_BUFFER_LIMIT);
    endpoint_fini(&e);
    endpoint_init(&e, &(struct endpoint_options){.markers_rx = true, .budget = 1460});
    endpoint_area(&e, STAG, TO, 5000, WRITABLE, 0);
    iwarp_stream_feed(&e.s, o.p, o.n);
    expect_fault(&e, IWARP_FAULT_NONE);
    assert_int_equal(e.s.rx.fpdus, 4);
    endpoint_fini(&e);
    octets_free(&o);
}

static void receive__no_memory_for_an_fpdu__is_a_fault(void **state)
{
    struct octets o = {0};

    (void)state;
    vector_stream(&vectors[6], &o);
    for (unsigned n = 1; n <= 4; n++) {
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.markers_rx = true});
        endpoint_area(&e, STAG, TO, 5000, WRITABLE, 0);
        alloc_fault_at(n);
        iwarp_stream_feed(&e.s, o.p, o.n);
        alloc_fault_at(0);
        expect_fault(&e, IWARP_FAULT_LOCAL_NO_MEMORY);
        assert_int_equal(e.s.rx.fpdus, n - 1);
        endpoint_fini(&e);
    }
    octets_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(send__vectors__have_their_digests),
        cmocka_unit_test(send__vectors_cut_at_each_octet__have_their_digests),
        cmocka_unit_test(send__vectors_without_crc__differ_in_the_crc_only),
        cmocka_unit_test(receive__vectors__are_taken),
        cmocka_unit_test(figures__both_ways__match),
        cmocka_unit_test(marker__wrong_or_odd__is_a_fault_or_taken),
        cmocka_unit_test(marker__wrong_in_the_first_fpdu__ends_a_responder_without_an_octet),
        cmocka_unit_test(marker__damaged__is_a_crc_error),
        cmocka_unit_test(stream__damaged_at_each_octet__delivers_nothing_wrong),
        cmocka_unit_test(length__impossible__is_a_fault),
        cmocka_unit_test(mulpdu__of_each_emss__fits_the_segment),
        cmocka_unit_test(send__at_each_position__is_framed_and_taken),
        cmocka_unit_test(eof__at_each_octet__tells_what_is_unfinished),
        cmocka_unit_test(source__unmapped__is_a_terminate_with_markers),
        cmocka_unit_test(receive__beyond_the_budget__is_a_fault),
        cmocka_unit_test(receive__no_memory_for_an_fpdu__is_a_fault),
    };

    return cmocka_run_group_tests_name("stream_markers", tests, NULL, NULL);
}
