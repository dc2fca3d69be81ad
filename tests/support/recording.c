/* SPDX-License-Identifier: BSD-2-Clause */
/* See recording.h. */
#include "recording.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FIN = 0x01, SYN = 0x02, RST = 0x04, ACK = 0x10 };
enum { ETHERNET = 14, OPTION_COMMENT = 1, OPTION_FLAGS = 2, OPTION_TIME_UNIT = 9 };

static uint32_t le(const uint8_t *p, unsigned n)
{
    uint32_t v = 0;

    for (unsigned i = n; i-- > 0;) {
        v = v << 8 | p[i];
    }
    return v;
}

static uint32_t be(const uint8_t *p, unsigned n)
{
    uint32_t v = 0;

    for (unsigned i = 0; i < n; i++) {
        v = v << 8 | p[i];
    }
    return v;
}

/* RFC 1071, octet by octet. Over what contains its own sum it is 0xffff. */
static uint32_t sum(uint32_t v, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        v += i % 2 ? p[i] : (uint32_t)p[i] << 8;
        v = (v & 0xffff) + (v >> 16);
    }
    return v;
}

/* --- TCP --- */

static bool is_between(const struct recording_connection *c, bool v6, const uint8_t *from,
                       const uint8_t *to, const uint8_t *ports, unsigned side)
{
    size_t n = v6 ? 16 : 4;

    return c->v6 == v6 && memcmp(c->ip[side], from, n) == 0 &&
           memcmp(c->ip[1 - side], to, n) == 0 && c->port[side] == be(ports, 2) &&
           c->port[1 - side] == be(ports + 2, 2);
}

/* The last one between these. A SYN alone begins another. */
static void find_connection(struct recording *r, struct recording_packet *p, bool v6,
                            const uint8_t *from, const uint8_t *to, const uint8_t *tcp)
{
    if ((p->flags & (SYN | ACK)) == SYN) {
        assert_true(r->connections < RECORDING_CONNECTIONS);
        struct recording_connection *c = &r->connection[r->connections];
        c->v6 = v6;
        memcpy(c->ip[0], from, v6 ? 16 : 4);
        memcpy(c->ip[1], to, v6 ? 16 : 4);
        c->port[0] = (uint16_t)be(tcp, 2);
        c->port[1] = (uint16_t)be(tcp + 2, 2);
        c->next[0] = be(tcp + 4, 4);
        p->connection = r->connections++;
        return;
    }
    for (unsigned i = r->connections; i-- > 0;) {
        for (p->side = 0; p->side < 2; p->side++) {
            if (is_between(&r->connection[i], v6, from, to, tcp, p->side)) {
                p->connection = i;
                return;
            }
        }
    }
    fail_msg("packet %u belongs to no connection", r->packets + 1);
}

static void take_segment(struct recording *r, struct recording_packet *p, const uint8_t *tcp)
{
    struct recording_connection *c = &r->connection[p->connection];
    unsigned side = p->side;

    if ((p->flags & (SYN | ACK)) == (SYN | ACK)) {
        c->next[side] = be(tcp + 4, 4);
    }
    if (be(tcp + 4, 4) != c->next[side] ||
        ((p->flags & ACK) && be(tcp + 8, 4) != c->next[1 - side])) {
        fail_msg("packet %u: sequence numbers %u and %u, expected %u and %u", r->packets + 1,
                 be(tcp + 4, 4), be(tcp + 8, 4), c->next[side], c->next[1 - side]);
    }
    assert_false(c->reset || c->fin[side]);
    c->next[side] += (uint32_t)p->payload + ((p->flags & (SYN | FIN)) != 0);
    c->fin[side] = (p->flags & FIN) != 0;
    c->reset = (p->flags & RST) != 0;
    if (!p->cut && p->payload > 0) {
        octets_add(&c->octets[side], tcp + (size_t)(tcp[12] >> 4) * 4, p->payload);
    }
}

static void take_frame(struct recording *r, struct recording_packet *p, const uint8_t *frame,
                       size_t captured, size_t original)
{
    const uint8_t *ip = frame + ETHERNET;
    bool v6 = be(frame + 12, 2) == 0x86dd;
    size_t ip_size = v6 ? 40 : 20, addr = v6 ? 16 : 4;
    const uint8_t *tcp = ip + ip_size, *from = ip + (v6 ? 8 : 12);

    assert_true(captured >= ETHERNET + ip_size + 20);
    assert_int_equal(ip[0] >> 4, v6 ? 6 : 4);
    size_t segment = be(ip + (v6 ? 4 : 2), 2) - (v6 ? 0 : ip_size);
    assert_int_equal(original, ETHERNET + ip_size + segment);
    assert_int_equal(ip[v6 ? 6 : 9], 6);
    assert_true(v6 || sum(0, ip, 20) == 0xffff);
    p->flags = tcp[13];
    p->payload = segment - (size_t)(tcp[12] >> 4) * 4;
    p->cut = captured < original;
    if (!p->cut) {
        assert_int_equal(sum(sum((uint32_t)(6 + segment), from, 2 * addr), tcp, segment), 0xffff);
    }
    find_connection(r, p, v6, from, from + addr, tcp);
    take_segment(r, p, tcp);
}

/* --- pcapng --- */

/* The value of an option, and its length; NULL: there is none. */
static const uint8_t *option(const uint8_t *p, const uint8_t *end, unsigned code, size_t *n)
{
    while (end - p >= 4 && le(p, 2) != 0) {
        *n = le(p + 2, 2);
        assert_true((size_t)(end - p) >= 4 + *n);
        if (le(p, 2) == code) {
            return p + 4;
        }
        p += 4 + (*n + 3) / 4 * 4;
    }
    return NULL;
}

static void text_option(const uint8_t *p, const uint8_t *end, char *to, size_t size)
{
    size_t n;
    const uint8_t *text = option(p, end, OPTION_COMMENT, &n);

    if (text) {
        snprintf(to, size, "%.*s", (int)n, (const char *)text);
    }
}

static void take_packet(struct recording *r, const uint8_t *body, const uint8_t *end)
{
    size_t captured = le(body + 12, 4), original = le(body + 16, 4), n = 0;
    const uint8_t *options = body + 20 + (captured + 3) / 4 * 4;

    assert_true(options <= end);
    r->packet = realloc(r->packet, (r->packets + 1) * sizeof *r->packet);
    assert_non_null(r->packet);
    struct recording_packet *p = &r->packet[r->packets];
    memset(p, 0, sizeof *p);
    p->ns = (uint64_t)le(body + 4, 4) << 32 | le(body + 8, 4);
    assert_true(r->packets == 0 || p[-1].ns <= p->ns + 1000000000u); /* the clock may be set */
    text_option(options, end, p->comment, sizeof p->comment);
    const uint8_t *flags = option(options, end, OPTION_FLAGS, &n);
    assert_non_null(flags);
    p->inbound = (flags[0] & 3) == 1;
    take_frame(r, p, body + 20, captured, original);
    r->packets++;
}

static void take_block(struct recording *r, unsigned index, uint32_t type, const uint8_t *body,
                       const uint8_t *end)
{
    size_t n = 0;

    if (index == 0) {
        assert_int_equal(type, 0x0a0d0d0a);
        assert_int_equal(le(body, 4), 0x1a2b3c4d);
        text_option(body + 16, end, r->comment, sizeof r->comment);
    } else if (index == 1) {
        assert_int_equal(type, 1);
        assert_int_equal(le(body, 2), 1); /* Ethernet */
        const uint8_t *unit = option(body + 8, end, OPTION_TIME_UNIT, &n);
        assert_true(unit && *unit == 9);
    } else {
        assert_int_equal(type, 6);
        assert_int_equal(le(body, 4), 0);
        take_packet(r, body, end);
    }
}

void recording_load(struct recording *r, const char *path)
{
    uint8_t buf[4096];
    size_t got;
    FILE *f = fopen(path, "rb");

    if (!f) {
        fail_msg("%s: cannot be opened", path);
        return;
    }
    memset(r, 0, sizeof *r);
    while ((got = fread(buf, 1, sizeof buf, f)) > 0) {
        octets_add(&r->file, buf, got);
    }
    fclose(f);
    size_t at = 0, n;
    for (unsigned i = 0; at < r->file.n; i++, at += n) {
        assert_true(r->file.n - at >= 12);
        n = le(r->file.p + at + 4, 4);
        assert_true(n % 4 == 0 && n >= 12 && n <= r->file.n - at);
        assert_int_equal(le(r->file.p + at + n - 4, 4), n);
        take_block(r, i, le(r->file.p + at, 4), r->file.p + at + 8, r->file.p + at + n - 4);
    }
}

void recording_free(struct recording *r)
{
    for (unsigned i = 0; i < r->connections; i++) {
        octets_free(&r->connection[i].octets[0]);
        octets_free(&r->connection[i].octets[1]);
    }
    free(r->packet);
    octets_free(&r->file);
}

void recording_expect(const struct recording *r, unsigned connection, unsigned side,
                      const char *hex)
{
    struct octets expected = {0};
    char what[60];

    assert_true(connection < r->connections);
    const struct octets *got = &r->connection[connection].octets[side];
    octets_hex(&expected, hex);
    snprintf(what, sizeof what, "connection %u, sent by side %u", connection, side);
    octets_expect(what, got->p, got->n, expected.p, expected.n);
    octets_free(&expected);
}
