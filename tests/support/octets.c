/* SPDX-License-Identifier: BSD-2-Clause */
/* See octets.h. Written from the specification's tables; nothing of src/ is used. */
#include "octets.h"

#include <ctype.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

uint64_t chance_seed(void)
{
    static uint64_t seed;

    if (seed == 0) {
        const char *given = getenv("SEED");
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now); /* wall clock: a seed */
        seed = given ? strtoull(given, NULL, 0)
                     : (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
        seed += seed == 0;
        printf("# SEED=%" PRIu64 "\n", seed);
        fflush(stdout);
    }
    return seed;
}

uint64_t chance_next(struct chance *c)
{
    uint64_t z = c->state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

size_t chance_below(struct chance *c, size_t bound)
{
    return bound ? (size_t)(chance_next(c) % bound) : 0;
}

bool chance_one_in(struct chance *c, size_t n)
{
    return chance_below(c, n) == 0;
}

size_t chance_size(struct chance *c, size_t max)
{
    switch (chance_below(c, 4)) {
    case 0:
        return chance_below(c, max < 4 ? max + 1 : 5);
    case 1:
        return chance_below(c, max < 40 ? max + 1 : 41);
    case 2:
        return chance_below(c, max < 1600 ? max + 1 : 1601);
    default:
        return chance_below(c, max + 1);
    }
}

void octets_free(struct octets *o)
{
    free(o->p);
    *o = (struct octets){0};
}

void octets_add(struct octets *o, const void *p, size_t n)
{
    if (o->n + n > o->room) {
        o->room = (o->n + n) * 2;
        o->p = realloc(o->p, o->room);
        assert_non_null(o->p);
    }
    if (n > 0) {
        memcpy(o->p + o->n, p, n);
        o->n += n;
    }
}

size_t octets_hex(struct octets *o, const char *hex)
{
    size_t before = o->n;

    for (; *hex; hex++) {
        if (isxdigit((unsigned char)hex[0])) {
            char digits[3] = {hex[0], hex[1], 0};
            assert_true(isxdigit((unsigned char)hex[1]));
            uint8_t octet = (uint8_t)strtoul(digits, NULL, 16);
            octets_add(o, &octet, 1);
            hex++;
        }
    }
    return o->n - before;
}

void octets_fill(struct octets *o, uint8_t value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        octets_add(o, &value, 1);
    }
}

void octets_be(struct octets *o, uint64_t value, unsigned size)
{
    while (size-- > 0) {
        uint8_t octet = (uint8_t)(value >> 8 * size);
        octets_add(o, &octet, 1);
    }
}

static void print_octets(const char *what, const uint8_t *p, size_t n)
{
    print_error("%s (%zu octets):", what, n);
    for (size_t i = 0; i < n && i < 256; i++) {
        print_error("%s%02x", i % 32 == 0 ? "\n    " : i % 4 == 0 ? " " : "", p[i]);
    }
    print_error("\n");
}

void octets_expect(const char *what, const void *p, size_t n, const void *expected,
                   size_t expected_n)
{
    if (n == expected_n && (n == 0 || memcmp(p, expected, n) == 0)) {
        return;
    }
    print_octets("got", p, n);
    print_octets("expected", expected, expected_n);
    fail_msg("%s", what);
}

/* The table is made one bit at a time from the polynomial; tests of one thread only. */
uint32_t octets_crc(uint32_t crc, const void *p, size_t n)
{
    static uint32_t table[256];
    const uint8_t *octet = p;
    uint32_t state = ~crc;

    for (uint32_t i = 0; i < 256 && table[255] == 0; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++) {
            table[i] = table[i] & 1 ? table[i] >> 1 ^ 0x82f63b78u : table[i] >> 1;
        }
    }
    for (size_t i = 0; i < n; i++) {
        state = state >> 8 ^ table[(state ^ octet[i]) & 0xff];
    }
    return ~state;
}

void fpdu_add(struct octets *o, const void *ulpdu, size_t n, uint32_t xor_crc)
{
    size_t start = o->n;

    octets_be(o, n, 2);
    octets_add(o, ulpdu, n);
    octets_fill(o, 0, (4 - (2 + n) % 4) % 4);
    uint32_t crc = octets_crc(0, o->p + start, o->n - start) ^ xor_crc;
    for (int i = 0; i < 4; i++) {
        octets_fill(o, (uint8_t)(crc >> 8 * i), 1);
    }
}

void fpdu_hex(struct octets *o, const char *ulpdu, size_t payload)
{
    struct octets u = {0};

    octets_hex(&u, ulpdu);
    for (size_t i = 0; i < payload; i++) {
        octets_fill(&u, (uint8_t)i, 1);
    }
    fpdu_add(o, u.p, u.n, 0);
    octets_free(&u);
}

static uint64_t get_be(const uint8_t *p, unsigned size)
{
    uint64_t v = 0;

    while (size-- > 0) {
        v = v << 8 | *p++;
    }
    return v;
}

void fpdu_add_marked(struct octets *o, uint64_t pos, const void *ulpdu, size_t n, uint32_t xor_ptr)
{
    struct octets body = {0};
    size_t start = o->n, last = SIZE_MAX;
    uint64_t origin = pos % 512 == 0 ? pos + 4 : pos;

    octets_be(&body, n, 2);
    octets_add(&body, ulpdu, n);
    octets_fill(&body, 0, (4 - body.n % 4) % 4);
    for (size_t at = 0; at <= body.n; at += 4) { /* one look before the CRC field too */
        if (pos % 512 == 0) {
            last = o->n;
            octets_be(o, pos < origin ? 0 : pos - origin, 4);
            pos += 4;
        }
        if (at < body.n) {
            octets_add(o, body.p + at, 4);
            pos += 4;
        }
    }
    octets_free(&body);
    for (unsigned i = 0; xor_ptr && i < 4; i++) {
        assert_true(last != SIZE_MAX);
        o->p[last + i] ^= (uint8_t)(xor_ptr >> (24 - 8 * i));
    }
    uint32_t crc = octets_crc(0, o->p + start, o->n - start);
    for (int i = 0; i < 4; i++) {
        octets_fill(o, (uint8_t)(crc >> 8 * i), 1);
    }
}

void fpdu_hex_marked(struct octets *o, uint64_t pos, const char *ulpdu, size_t payload)
{
    struct octets u = {0};

    octets_hex(&u, ulpdu);
    for (size_t i = 0; i < payload; i++) {
        octets_fill(&u, (uint8_t)i, 1);
    }
    fpdu_add_marked(o, pos, u.p, u.n, 0);
    octets_free(&u);
}

/* One FPDU at p, position pos; returns its octets. */
static size_t unmark_one(struct octets *o, uint64_t pos, const uint8_t *p, size_t n, bool crc)
{
    size_t lead = pos % 512 == 0 ? 4 : 0;
    struct octets body = {0};

    assert_true(n >= lead + 8);
    size_t len = (size_t)get_be(p + lead, 2), data = 2 + len + (4 - (2 + len) % 4) % 4;
    size_t at = 0;
    while (body.n < data || (pos + at) % 512 == 0) {
        assert_true(at + 4 <= n);
        if ((pos + at) % 512 == 0) {
            assert_int_equal(get_be(p + at, 4), at < lead ? 0 : at - lead);
        } else {
            octets_add(&body, p + at, 4);
        }
        at += 4;
    }
    assert_true(at + 4 <= n);
    uint32_t got =
        p[at] | (uint32_t)p[at + 1] << 8 | (uint32_t)p[at + 2] << 16 | (uint32_t)p[at + 3] << 24;
    assert_int_equal(got, crc ? octets_crc(0, p, at) : 0);
    for (size_t i = 2 + len; i < data; i++) {
        assert_int_equal(body.p[i], 0);
    }
    fpdu_add(o, body.p + 2, len, 0);
    octets_free(&body);
    return at + 4;
}

void fpdu_unmark(struct octets *o, uint64_t pos, const uint8_t *p, size_t n, bool crc)
{
    for (size_t at = 0; at < n;) {
        at += unmark_one(o, pos + at, p + at, n - at, crc);
    }
}

bool fpdu_decode(const uint8_t *p, size_t n, bool crc, struct fpdu *f)
{
    if (n < 2) {
        return false;
    }
    size_t len = (size_t)get_be(p, 2), pad = (4 - (2 + len) % 4) % 4;
    if (n < 2 + len + pad + 4) {
        return false;
    }
    assert_in_range(len, 14, 64768);
    const uint8_t *u = p + 2;
    *f = (struct fpdu){.ulpdu = u, .ulpdu_len = len, .len = 2 + len + pad + 4};
    f->tagged = (u[0] & 0x80) != 0;
    f->last = (u[0] & 0x40) != 0;
    assert_int_equal(u[0] & 0x3f, 0x01);
    assert_int_equal(u[1] & 0xf0, 0x40);
    f->opcode = u[1] & 0x0f;
    f->stag = (uint32_t)get_be(u + 2, 4);
    size_t header = f->tagged ? 14 : 18;
    assert_true(len >= header);
    if (f->tagged) {
        f->to = get_be(u + 6, 8);
    } else {
        f->qn = (uint32_t)get_be(u + 6, 4);
        f->msn = (uint32_t)get_be(u + 10, 4);
        f->mo = (uint32_t)get_be(u + 14, 4);
    }
    f->payload = u + header;
    f->payload_len = len - header;
    for (size_t i = 0; i < pad; i++) {
        assert_int_equal(p[2 + len + i], 0);
    }
    if (crc) {
        const uint8_t *c = p + 2 + len + pad;
        uint32_t got = c[0] | (uint32_t)c[1] << 8 | (uint32_t)c[2] << 16 | (uint32_t)c[3] << 24;
        assert_int_equal(got, octets_crc(0, p, 2 + len + pad));
    }
    return true;
}
