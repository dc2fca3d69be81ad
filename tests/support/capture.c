/* SPDX-License-Identifier: BSD-2-Clause */
/* See capture.h. */
#include "capture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PCAP_HEADER   24
#define RECORD_HEADER 16
#define ETHERNET      14
#define MOST_OCTETS   (64u << 20)

enum { SYN = 0x02, ACK = 0x10 };

static uint32_t be(const uint8_t *p, unsigned n)
{
    uint32_t v = 0;

    for (unsigned i = 0; i < n; i++) {
        v = v << 8 | p[i];
    }
    return v;
}

/* The capturing host's byte order; the magic number says which. */
static uint32_t host32(const uint8_t *p, bool little)
{
    return little ? (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0]
                  : be(p, 4);
}

/* --- TCP --- */

static void arrived(struct tcp_direction *d, const uint8_t *p, size_t n, unsigned frame)
{
    octets_add(&d->octets, p, n);
    d->arrival = realloc(d->arrival, (d->arrivals + 1) * sizeof *d->arrival);
    assert_non_null(d->arrival);
    d->arrival[d->arrivals++] = (struct tcp_arrival){d->octets.n, frame};
}

static void keep_early(struct tcp_direction *d, size_t at, const uint8_t *p, size_t n)
{
    struct tcp_early *e = malloc(sizeof *e);

    assert_non_null(e);
    *e = (struct tcp_early){at, n, malloc(n), d->early};
    assert_non_null(e->p);
    memcpy(e->p, p, n);
    d->early = e;
}

/* Octets at this place of the direction: the ones known already have to be the same again. */
static bool take(struct tcp_direction *d, size_t at, const uint8_t *p, size_t n, unsigned frame)
{
    if (at > d->octets.n) {
        return false;
    }
    size_t known = d->octets.n - at < n ? d->octets.n - at : n;
    if (known > 0) {
        assert_memory_equal(d->octets.p + at, p, known);
    }
    if (n > known) {
        arrived(d, p + known, n - known, frame);
    }
    return true;
}

static void segment(struct tcp_direction *d, uint32_t seq, const uint8_t *p, size_t n,
                    unsigned frame)
{
    int32_t from = (int32_t)(seq - d->first);

    if (n == 0 || from < 0) {
        return; /* acknowledgements; keep-alives repeat the octet before */
    }
    if (!take(d, (size_t)from, p, n, frame)) {
        keep_early(d, (size_t)from, p, n);
        return;
    }
    for (struct tcp_early **e = &d->early; *e;) {
        struct tcp_early *this = *e;
        if (take(d, this->at, this->p, this->n, frame)) {
            *e = this->next;
            free(this->p);
            free(this);
            e = &d->early;
        } else {
            e = &this->next;
        }
    }
}

static struct tcp_connection *find(struct capture *c, const uint32_t *addr, const uint16_t *port,
                                   unsigned *side)
{
    for (unsigned i = c->connections; i-- > 0;) {
        for (unsigned s = 0; s < 2; s++) {
            struct tcp_connection *t = &c->connection[i];
            if (t->addr[s] == addr[0] && t->addr[1 - s] == addr[1] && t->port[s] == port[0] &&
                t->port[1 - s] == port[1]) {
                *side = s;
                return t;
            }
        }
    }
    return NULL;
}

static void tcp(struct capture *c, const uint32_t *addr, const uint8_t *p, size_t n)
{
    const uint16_t port[2] = {(uint16_t)be(p, 2), (uint16_t)be(p + 2, 2)};
    uint32_t seq = be(p + 4, 4);
    size_t header = (size_t)(p[12] >> 4) * 4;
    unsigned flags = p[13], side = 0;
    struct tcp_connection *t = find(c, addr, port, &side);

    assert_true(header >= 20 && header <= n);
    if ((flags & (SYN | ACK)) == SYN && (!t || t->direction[side].first != seq + 1)) {
        assert_true(c->connections < CAPTURE_CONNECTIONS);
        t = &c->connection[c->connections++];
        *t = (struct tcp_connection){{addr[0], addr[1]}, {port[0], port[1]}, {{0}}};
        side = 0;
    }
    if (!t) {
        fail_msg("frame %u: the connection has no SYN", c->packets);
        return;
    }
    struct tcp_direction *d = &t->direction[side];
    if (flags & SYN) {
        d->begun = true;
        d->first = seq + 1;
        return;
    }
    assert_true(d->begun || n == header);
    segment(d, seq, p + header, n - header, c->packets);
}

/* --- packets --- */

static void packet(struct capture *c, const uint8_t *p, size_t n)
{
    if (n < ETHERNET + 20 || be(p + 12, 2) != 0x0800) {
        return;
    }
    const uint8_t *ip = p + ETHERNET;
    size_t header = (size_t)(ip[0] & 0x0f) * 4, total = be(ip + 2, 2);
    assert_true(ip[0] >> 4 == 4 && header >= 20);
    assert_true(total >= header && total <= n - ETHERNET);
    assert_int_equal(be(ip + 6, 2) & 0x3fff, 0); /* no fragments */
    if (ip[9] == 6) {
        const uint32_t addr[2] = {be(ip + 12, 4), be(ip + 16, 4)};
        assert_true(total >= header + 20);
        tcp(c, addr, ip + header, total - header);
    }
}

static void read_all(struct octets *file, const char *path)
{
    uint8_t block[65536];
    FILE *f = fopen(path, "rb");
    size_t n;

    if (!f) {
        fail_msg("cannot open %s", path);
        return;
    }
    while ((n = fread(block, 1, sizeof block, f)) > 0) {
        octets_add(file, block, n);
        assert_true(file->n < MOST_OCTETS);
    }
    assert_false(ferror(f));
    fclose(f);
}

void capture_load(struct capture *c, const char *path)
{
    struct octets file = {0};

    *c = (struct capture){0};
    read_all(&file, path);
    assert_true(file.n >= PCAP_HEADER);
    bool little = file.p[0] == 0xd4 || file.p[0] == 0x4d;
    uint32_t magic = host32(file.p, little);
    assert_true(magic == 0xa1b2c3d4 || magic == 0xa1b23c4d); /* micro- or nanoseconds */
    assert_int_equal(host32(file.p + 20, little), 1);        /* Ethernet */
    for (size_t at = PCAP_HEADER; at < file.n;) {
        assert_true(file.n - at >= RECORD_HEADER);
        uint32_t n = host32(file.p + at + 8, little);
        assert_int_equal(host32(file.p + at + 12, little), n); /* not cut */
        at += RECORD_HEADER;
        assert_true(n <= file.n - at);
        c->packets++;
        packet(c, file.p + at, n);
        at += n;
    }
    octets_free(&file);
    for (unsigned i = 0; i < c->connections; i++) {
        assert_null(c->connection[i].direction[0].early); /* nothing is missing */
        assert_null(c->connection[i].direction[1].early);
    }
}

void capture_free(struct capture *c)
{
    for (unsigned i = 0; i < c->connections * 2; i++) {
        struct tcp_direction *d = &c->connection[i / 2].direction[i % 2];
        octets_free(&d->octets);
        free(d->arrival);
    }
    c->connections = 0;
}

unsigned capture_frame(const struct tcp_direction *d, size_t at)
{
    size_t i = 0;

    while (i < d->arrivals && d->arrival[i].end < at) {
        i++;
    }
    return i < d->arrivals ? d->arrival[i].frame : 0;
}
