/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA Markers against a reference that goes octet by octet, against RFC 5044 figures 5 and 6, and
 * against whole streams that were computed apart from this library (K1 to K7, by their SHA-256).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "mpa/crc32c.h"
#include "mpa/mpa_frame.h"
#include "mpa/mpa_marker.h"
#include "support/octets.h"

#define DATA_MAX 64776 /* the longest FPDU without markers */
#define WIRE_MAX (DATA_MAX + 4 * IWARP_MPA_MARKERS_MAX)
#define PIECES   9

/* A sanitizer looks at a part of the lengths, another one at each alignment: time. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STEP 7
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define STEP 7
#endif
#endif
#if !defined(STEP)
#define STEP 1
#endif

/* --- the reference --------------------------------------------------------------------------- */

struct wire {
    uint8_t p[WIRE_MAX + 64];
    uint32_t n;
};

static void wire_octet(struct wire *w, uint64_t *pos, uint8_t octet)
{
    w->p[w->n++] = octet;
    ++*pos;
}

static void wire_marker(struct wire *w, uint64_t *pos, uint64_t start)
{
    uint64_t ptr = *pos - start;

    assert_true(ptr <= 65535);
    wire_octet(w, pos, 0);
    wire_octet(w, pos, 0);
    wire_octet(w, pos, (uint8_t)(ptr >> 8));
    wire_octet(w, pos, (uint8_t)ptr);
}

/* An FPDU of n octets, its CRC field (not looked at) included, at *pos, which is moved on. */
static void wire_fpdu(struct wire *w, uint64_t *pos, const uint8_t *data, uint32_t n)
{
    w->n = 0;
    if (*pos % 512 == 0) {
        wire_marker(w, pos, *pos);
    }
    uint64_t start = *pos;
    for (uint32_t i = 0; i < n - 4; i++) {
        if (*pos % 512 == 0) {
            wire_marker(w, pos, start);
        }
        wire_octet(w, pos, data[i]);
    }
    if (*pos % 512 == 0) {
        wire_marker(w, pos, start);
    }
    uint32_t crc = octets_crc(0, w->p, w->n);
    for (unsigned i = 0; i < 4; i++) {
        wire_octet(w, pos, (uint8_t)(crc >> 8 * i));
    }
}

/* The FPDU of a ULPDU of n octets, all different from their neighbours; CRC field 0. */
static uint32_t data_fill(uint8_t *data, uint32_t ulpdu)
{
    uint32_t n = iwarp_mpa_fpdu_len(ulpdu);

    memset(data, 0, n);
    iwarp_put_be16(data, (uint16_t)ulpdu);
    for (uint32_t i = 0; i < ulpdu; i++) {
        data[2 + i] = (uint8_t)(1 + i * 7 + (i >> 8) * 13);
    }
    return n;
}

/* --- both ways through the library ----------------------------------------------------------- */

/* Cut p[0..n-1] into pieces; the last has the padding and the CRC, some are empty. */
static unsigned cut(struct chance *c, uint8_t *p, uint32_t n, uint32_t trailer, struct iovec *in)
{
    unsigned pieces = 1 + (unsigned)chance_below(c, PIECES - 1);
    uint32_t left = n - trailer;

    for (unsigned i = 0; i < pieces; i++) {
        uint32_t take = i == pieces - 1 ? left : (uint32_t)chance_below(c, left + 1);
        in[i] = (struct iovec){p, take};
        p += take;
        left -= take;
    }
    in[pieces] = (struct iovec){p, trailer};
    return pieces + 1;
}

/* What a sender does: weave, CRC over what is woven, the octets to `to`. Returns how many. */
static uint32_t send_pieces(uint64_t pos, const struct iovec *in, unsigned n, uint32_t len,
                            uint8_t *to)
{
    static struct iovec out[PIECES + 1 + 2 * IWARP_MPA_MARKERS_MAX];
    static uint8_t markers[4 * IWARP_MPA_MARKERS_MAX + 1];
    const uint8_t *next_data = in[0].iov_base, *next_marker = markers;
    unsigned count = iwarp_mpa_marker_count(pos, len);
    uint32_t crc = 0, done = 0;

    assert_true(count <= IWARP_MPA_MARKERS_MAX);
    markers[4 * count] = 0x5a;
    unsigned used = iwarp_mpa_marker_weave(pos, in, n, markers, out);
    assert_int_equal(markers[4 * count], 0x5a);
    assert_in_range(used, 1, n + 2 * count);
    uint8_t *field = (uint8_t *)out[used - 1].iov_base + out[used - 1].iov_len - 4;
    for (unsigned i = 0; i < used; i++) {
        const uint8_t *p = out[i].iov_base;
        size_t take = out[i].iov_len;
        assert_true(take > 0 && take <= 508);
        if (p == next_marker) { /* each in its place of the buffer, data where it lay */
            assert_int_equal(take, 4);
            next_marker += 4;
        } else {
            assert_ptr_equal(p, next_data);
            next_data += take;
        }
        crc = iwarp_crc32c(crc, p, i == used - 1 ? take - 4 : take);
    }
    assert_ptr_equal(next_marker, markers + 4 * count);
    assert_ptr_equal(next_data, (const uint8_t *)in[0].iov_base + len);
    iwarp_put_le32(field, crc);
    for (unsigned i = 0; i < used; i++) {
        memcpy(to + done, out[i].iov_base, out[i].iov_len);
        done += (uint32_t)out[i].iov_len;
    }
    return done;
}

/* What a receiver does with an FPDU at p: lengths, CRC, strip. Returns the octets of the stream. */
static uint32_t receive(const uint8_t *p, uint64_t pos, const uint8_t *data, uint32_t len)
{
    static uint8_t in_place[WIRE_MAX], elsewhere[WIRE_MAX + 1];
    struct iwarp_fault fault = {.code = IWARP_FAULT_NONE};

    uint32_t head = iwarp_mpa_marked_len(pos, IWARP_MPA_LEN_FIELD);
    uint32_t ulpdu = iwarp_get_be16(p + head - IWARP_MPA_LEN_FIELD);
    assert_int_equal(iwarp_mpa_fpdu_len(ulpdu), len);
    uint32_t whole = iwarp_mpa_marked_len(pos, len);
    assert_int_equal(iwarp_get_le32(p + whole - 4), iwarp_crc32c(0, p, whole - 4));

    memcpy(in_place, p, whole);
    assert_true(iwarp_mpa_marker_strip(in_place, in_place, pos, len, &fault));
    octets_expect("stripped in place", in_place, len, data, len);
    elsewhere[len] = 0x5a;
    assert_true(iwarp_mpa_marker_strip(elsewhere, p, pos, len, &fault));
    octets_expect("stripped to another place", elsewhere, len, data, len);
    assert_int_equal(elsewhere[len], 0x5a);
    assert_int_equal(fault.code, IWARP_FAULT_NONE);
    return whole;
}

static void both_ways(struct chance *c, uint64_t pos, uint32_t ulpdu)
{
    static uint8_t data[DATA_MAX], sent[WIRE_MAX];
    static struct wire wire;
    struct iovec in[PIECES + 1];
    uint64_t end = pos;

    uint32_t len = data_fill(data, ulpdu);
    wire_fpdu(&wire, &end, data, len);
    assert_int_equal(iwarp_mpa_marked_len(pos, len), wire.n);
    unsigned pieces = cut(c, data, len, iwarp_mpa_pad(ulpdu) + 4, in);
    octets_expect("woven", sent, send_pieces(pos, in, pieces, len, sent), wire.p, wire.n);
    assert_int_equal(receive(wire.p, pos, data, len), wire.n);
}

/* --- positions ------------------------------------------------------------------------------- */

static const uint64_t bases[] = {
    0,
    UINT64_C(1) << 31,
    UINT64_C(1) << 32,
    (UINT64_C(1) << 32) - 512,
    (UINT64_C(1) << 32) - 65536,
    UINT64_C(0x123456789abcde00),
    UINT64_C(1) << 63,
    (UINT64_C(1) << 63) - 512,
    UINT64_MAX - 511,
    UINT64_MAX - 65535,
};
#define BASES (sizeof bases / sizeof *bases)

/* Octet by octet from every position, also from within a marker. */
static void positions__every_octet__match_a_count(void **state)
{
    (void)state;
    for (size_t b = 0; b < BASES; b++) {
        for (uint64_t from = bases[b]; from != bases[b] + 512; from++) {
            uint32_t data = 0, n = 0;
            assert_int_equal(iwarp_mpa_marked_len(from, 0), 0);
            for (uint64_t pos = from; n < 1100; pos++) {
                uint32_t at = (uint32_t)(pos % 512);
                n++;
                if (at < 4) {
                    assert_int_equal(iwarp_mpa_marker_left(pos), 4 - at);
                    assert_int_equal(iwarp_mpa_marker_gap(pos), 0);
                } else {
                    assert_int_equal(iwarp_mpa_marker_left(pos), 0);
                    assert_int_equal(iwarp_mpa_marker_gap(pos), 512 - at);
                    data++;
                    assert_int_equal(iwarp_mpa_marked_len(from, data), n);
                }
            }
        }
    }
}

static void count__any_legal_length__is_at_most_128(void **state)
{
    unsigned most = 0;

    (void)state;
    for (uint64_t pos = 0; pos < 512; pos += 4) {
        for (uint32_t ulpdu = 0; ulpdu <= IWARP_MPA_ULPDU_MAX; ulpdu += ulpdu < 64000 ? 97 : 1) {
            unsigned count = iwarp_mpa_marker_count(pos, iwarp_mpa_fpdu_len(ulpdu));
            most = count > most ? count : most;
        }
    }
    assert_int_equal(most, IWARP_MPA_MARKERS_MAX);
}

/* --- FPDUs ----------------------------------------------------------------------------------- */

/* [MPA-4.1-05] [MPA-4.2-01] [MPA-4.2-02] [MPA-4.2-04] [MPA-4.3-02] [MPA-4.3-03] [MPA-4.3-12] */
static void fpdu__every_alignment_and_length__matches_the_reference(void **state)
{
    struct chance c = {chance_seed()};

    (void)state;
    for (uint64_t pos = 0; pos < 512; pos += 4) {
        for (uint32_t ulpdu = (uint32_t)(pos / 4 % STEP); ulpdu <= 1100; ulpdu += STEP) {
            both_ways(&c, pos, ulpdu);
        }
    }
}

/* [MPA-4.3-08] [MPA-4.4-12] */
static void fpdu__longest_at_every_alignment__matches_the_reference(void **state)
{
    struct chance c = {chance_seed()};

    (void)state;
    for (uint64_t pos = 0; pos < 512; pos += 4) {
        both_ways(&c, pos, IWARP_MPA_ULPDU_MAX - (uint32_t)(pos / 4 % 4));
    }
}

/* Past 4 GiB, and where 64 bits end. [MPA-4.3-04] */
static void fpdu__far_positions__match_the_reference(void **state)
{
    static const uint32_t ulpdus[] = {14, 46, 483, 500, 502, 503, 506, 507, 1018, 1442, 64768};
    struct chance c = {chance_seed()};

    (void)state;
    for (size_t b = 0; b < BASES; b++) {
        for (uint64_t pos = bases[b]; pos != bases[b] + 512; pos += 4) {
            for (size_t i = 0; i < sizeof ulpdus / sizeof *ulpdus; i++) {
                if (ulpdus[i] < 2000 || pos % 512 < 12) {
                    both_ways(&c, pos, ulpdus[i]);
                }
            }
        }
    }
}

/* Many FPDUs one behind the other, from just below 2^32. */
static void fpdus__in_a_row__keep_the_interval(void **state)
{
    const uint64_t first = (UINT64_C(1) << 32) - 64 * 512;
    struct chance c = {chance_seed()};
    static uint8_t data[DATA_MAX], sent[WIRE_MAX];
    uint64_t pos = first, next = first;

    (void)state;
    while (pos < first + 4 * 1024 * 1024) {
        struct iovec in[PIECES + 1];
        uint32_t ulpdu = (uint32_t)chance_size(&c, 3000);
        uint32_t len = data_fill(data, ulpdu);
        unsigned pieces = cut(&c, data, len, iwarp_mpa_pad(ulpdu) + 4, in);
        uint32_t n = send_pieces(pos, in, pieces, len, sent);
        for (; next < pos + n; next += 512) {
            const uint8_t *marker = sent + (next - pos);
            uint64_t start = pos % 512 == 0 ? pos + 4 : pos;
            assert_int_equal(iwarp_get_be32(marker), next == pos ? 0 : next - start);
        }
        assert_int_equal(receive(sent, pos, data, len), n);
        pos += n;
    }
}

/* --- literal streams ------------------------------------------------------------------------- */

#define ZEROS_24 "000000000000000000000000 000000000000000000000000"
#define FIGURE_5 "00000000 002a4143 00000000 00000000 00000001 00000000" ZEROS_24 "52239983"
#define FIGURE_6 "002a4143 00000000 00000000 00000002 00000000 00000014" ZEROS_24 "84925898"

static void figures__of_rfc_5044__match_both_ways(void **state)
{
    static const struct {
        uint64_t pos;
        const char *wire, *data;
    } row[] = {
        {0, FIGURE_5, "002a4143 00000000 00000000 00000001 00000000" ZEROS_24 "52239983"},
        {0x1ec, FIGURE_6, "002a4143 00000000 00000000 00000002 00000000" ZEROS_24 "84925898"},
    };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct octets wire = {0}, data = {0};
        uint8_t sent[64];
        octets_hex(&wire, row[i].wire);
        octets_hex(&data, row[i].data);
        uint32_t len = (uint32_t)data.n;
        assert_int_equal(receive(wire.p, row[i].pos, data.p, len), wire.n);
        memset(data.p + len - 4, 0, 4);
        const struct iovec in = {data.p, len};
        octets_expect("figure", sent, send_pieces(row[i].pos, &in, 1, len, sent), wire.p, wire.n);
        octets_free(&wire);
        octets_free(&data);
    }
}

struct segment {
    const char *header; /* of DDP */
    uint32_t payload;   /* octets 00 01 02 .. */
    uint32_t start;     /* of the length field */
    uint32_t crc;       /* as four octets, most significant first */
};

struct vector {
    const char *name;
    struct segment segment[4];
    uint16_t ptr[9]; /* of the markers at 0, 512, ... */
    uint32_t octets;
    const char *sha256;
    bool zero; /* payload is all 00 */
};

#define SEND(msn)          "4143 00000000 00000000 0000000" #msn " 00000000"
#define WRITE(control, to) #control "40 00010203 00000000 0000" #to
#define SECOND(start, crc) {SEND(2), 8, start, crc}

static const struct vector vectors[] = {
    {"K1",
     {{SEND(1), 464, 0x004, 0xa01ee4fd}, {SEND(2), 24, 0x1ec, 0x84925898}},
     {0, 0x14},
     544,
     "1074d3dd6e39733e0f6ba7db32c9f139126bd293297849fe1a469b7d0bb29c7b",
     true},
    {"K2", /* a marker exactly between */
     {{SEND(1), 484, 0x004, 0x8d49863e}, SECOND(0x204, 0x6eaeb4e3)},
     {0, 0},
     548,
     "38f1c59c958f587259b53880a66dcc54cf600eca8c6fd98f44e45e3ffb7be9e1",
     false},
    {"K3", /* a marker before the CRC, no padding */
     {{SEND(1), 488, 0x004, 0x68a8c2e0}, SECOND(0x208, 0xad5fec9e)},
     {0, 0x1fc},
     552,
     "2c9a6c68c5f68f75c1b9b0895b1371c86cc2d92725db06e03130bec52818bedb",
     false},
    {"K4", /* a marker between padding and CRC */
     {{SEND(1), 485, 0x004, 0x9fd3d799}, SECOND(0x208, 0xad5fec9e)},
     {0, 0x1fc},
     552,
     "4c2939bd431fcd05120a25448d3126bb0f0baddbb1c5c5982bfd58b2acf05ea6",
     false},
    {"K5", /* the smallest FPDUPTR but 0 */
     {{SEND(1), 480, 0x004, 0xc7a97213}, SECOND(0x1fc, 0xec9763a0)},
     {0, 4},
     544,
     "70dfc77a4172a8d509f71053341b6cb80dd22ebfef243cde832a6581dfc5c494",
     false},
    {"K6",
     {{WRITE(c1, 1000), 1428, 0x004, 0xa1ae19e2}},
     {0, 0x1fc, 0x3fc},
     1460,
     "d03735a6bad76d6b431869f3a36700ef640598cf45f5a746694200a1cbe0fb1a",
     false},
    {"K7",
     {{WRITE(81, 1000), 1428, 0x0004, 0x0c38ee16},
      {WRITE(81, 1594), 1428, 0x05b4, 0x798da286},
      {WRITE(81, 1b28), 1428, 0x0b68, 0x7a6754b8},
      {WRITE(c1, 20bc), 100, 0x111c, 0xfad1fb45}},
     {0, 0x1fc, 0x3fc, 0x04c, 0x24c, 0x44c, 0x098, 0x298, 0x498},
     4500,
     "34fa1d64c78e917bbf0c832a74d8fb86b45c94636488fcaf34a4af1cb0cc679f",
     false},
};

/* The FPDU of a segment without markers, CRC field 0. */
static uint32_t segment_data(const struct segment *g, bool zero, struct octets *data)
{
    octets_be(data, 0, 2);
    octets_hex(data, g->header);
    for (uint32_t i = 0; i < g->payload; i++) {
        octets_fill(data, zero ? 0 : (uint8_t)i, 1);
    }
    iwarp_put_be16(data->p, (uint16_t)(data->n - 2));
    octets_fill(data, 0, iwarp_mpa_pad((uint32_t)data->n - 2) + 4);
    return (uint32_t)data->n;
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

static void vector_both_ways(const struct vector *v, struct chance *c)
{
    struct octets stream = {0};
    uint8_t sent[2000];

    print_message("# %s\n", v->name);
    for (unsigned i = 0; i < 4 && v->segment[i].header; i++) {
        const struct segment *g = &v->segment[i];
        struct octets data = {0};
        struct iovec in[PIECES + 1];
        uint32_t len = segment_data(g, v->zero, &data);
        unsigned pieces = cut(c, data.p, len, 4 + iwarp_mpa_pad(len - 6), in);
        uint64_t pos = stream.n;
        assert_int_equal(iwarp_mpa_marker_origin(pos), g->start);
        uint32_t n = send_pieces(pos, in, pieces, len, sent);
        assert_int_equal(iwarp_get_be32(sent + n - 4), g->crc);
        octets_add(&stream, sent, n);
        assert_int_equal(receive(stream.p + pos, pos, data.p, len), n);
        octets_free(&data);
    }
    assert_int_equal(stream.n, v->octets);
    for (uint32_t at = 0; at < v->octets; at += 512) {
        assert_int_equal(iwarp_get_be32(stream.p + at), v->ptr[at / 512]);
    }
    expect_sha256(&stream, v->sha256);
    octets_free(&stream);
}

/* [MPA-4.3-05] [MPA-4.3-07] [MPA-4.3-08] [MPA-4.3-09] [MPA-4.3-10] [MPA-4.4-12] */
static void vectors__k1_to_k7__match_both_ways(void **state)
{
    struct chance c = {chance_seed()};

    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        vector_both_ways(&vectors[i], &c);
    }
}

/* --- wrong markers --------------------------------------------------------------------------- */

/* An FPDU of five markers at 2^32, with `ptr` in the marker at offset 512 * which. */
static bool strip_with(unsigned which, uint32_t marker, struct iwarp_fault *fault)
{
    static uint8_t data[DATA_MAX], to[DATA_MAX];
    static struct wire wire;
    uint64_t pos = UINT64_C(1) << 32, end = pos;
    uint32_t len = data_fill(data, 2100);

    *fault = (struct iwarp_fault){.code = IWARP_FAULT_NONE};
    wire_fpdu(&wire, &end, data, len);
    assert_int_equal(iwarp_mpa_marker_count(pos, len), 5);
    memcpy(data + len - 4, wire.p + wire.n - 4, 4);
    iwarp_put_be32(wire.p + 512 * which, marker);
    bool good = iwarp_mpa_marker_strip(to, wire.p, pos, len, fault);
    if (good) {
        octets_expect("stripped", to, len, data, len);
    }
    return good;
}

/* [MPA-8-01] [MPA-8-03] */
static void strip__any_marker_wrong__says_which(void **state)
{
    struct iwarp_fault fault;

    (void)state;
    for (unsigned which = 0; which < 5; which++) {
        uint32_t right = which ? 512 * which - 4 : 0;
        for (unsigned bit = 2; bit < 16; bit++) {
            uint32_t wrong = right ^ 1u << bit;
            assert_false(strip_with(which, wrong, &fault));
            assert_int_equal(fault.code, IWARP_FAULT_MPA_MARKER);
            assert_int_equal(fault.side, IWARP_SIDE_LOCAL);
            assert_true(fault.detail[0] == (UINT64_C(1) << 32) + 512 * which);
            assert_true(fault.detail[1] == wrong);
            assert_true(fault.detail[2] == right);
        }
    }
}

/* [MPA-4.2-03] [MPA-4.2-05] [MPA-4.3-06] */
static void strip__reserved_and_low_bits_set__does_not_mind(void **state)
{
    struct iwarp_fault fault;

    (void)state;
    for (unsigned which = 0; which < 5; which++) {
        uint32_t right = which ? 512 * which - 4 : 0;
        for (uint32_t low = 0; low < 4; low++) {
            assert_true(strip_with(which, 0xffff0000u | right | low, &fault));
            assert_true(strip_with(which, 0x00010000u | right | low, &fault));
            assert_int_equal(fault.code, IWARP_FAULT_NONE);
        }
    }
}

/* Erratum 1427: the CRC field behind covered octets with low bits set is right as received. */
static void receive__low_bits_set_by_the_sender__crc_is_over_them(void **state)
{
    static uint8_t data[DATA_MAX];
    static struct wire wire;
    uint64_t pos = 0x1f0, end = pos;
    uint32_t len = data_fill(data, 100);

    (void)state;
    wire_fpdu(&wire, &end, data, len);
    assert_int_equal(iwarp_get_be32(wire.p + 0x10), 0x10);
    iwarp_put_be32(wire.p + 0x10, 0xabcd0013);
    uint32_t crc_at = iwarp_mpa_marked_len(pos, len) - 4;
    assert_int_not_equal(octets_crc(0, wire.p, crc_at), iwarp_get_le32(wire.p + crc_at));
    iwarp_put_le32(wire.p + crc_at, octets_crc(0, wire.p, crc_at));
    memcpy(data + len - 4, wire.p + crc_at, 4);
    assert_int_equal(receive(wire.p, pos, data, len), wire.n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positions__every_octet__match_a_count),
        cmocka_unit_test(count__any_legal_length__is_at_most_128),
        cmocka_unit_test(fpdu__every_alignment_and_length__matches_the_reference),
        cmocka_unit_test(fpdu__longest_at_every_alignment__matches_the_reference),
        cmocka_unit_test(fpdu__far_positions__match_the_reference),
        cmocka_unit_test(fpdus__in_a_row__keep_the_interval),
        cmocka_unit_test(figures__of_rfc_5044__match_both_ways),
        cmocka_unit_test(vectors__k1_to_k7__match_both_ways),
        cmocka_unit_test(strip__any_marker_wrong__says_which),
        cmocka_unit_test(strip__reserved_and_low_bits_set__does_not_mind),
        cmocka_unit_test(receive__low_bits_set_by_the_sender__crc_is_over_them),
    };
    return cmocka_run_group_tests_name("mpa_marker", tests, NULL, NULL);
}
