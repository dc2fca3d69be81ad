/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * count [-f] CAPTURE.pcapng...
 *
 * What the connections recorded in files of IWARP_PCAP carried, for programs that do not look at
 * their data: lines of side (c: the end that connected, s: the other one), message, octets of
 * one, how many; then `connections N`, `fpdus N`, `bad N`, `unchecked N`. Bad is an FPDU whose CRC
 * is not right or whose header breaks a rule, and octets that are no whole FPDU at the end of a
 * stream; unchecked is one where no CRC was agreed on. The status is 1 if any is bad or there is no
 * FPDU. Framing, CRC and headers are the dissector's, not the library's. With -f each RDMA Write
 * has to be a block as fio makes it for verify=crc32c, one behind the other, or it is bad; `blocks
 * N` says how many.
 */
#include "dissector/crc.h"
#include "dissector/frame.h"
#include "dissector/header.h"
#include "dissector/setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FLOWS = 4096, KINDS = 65536, HEADERS_V4 = 14 + 20, HEADERS_V6 = 14 + 40 };

struct stream {
    uint8_t *octets;
    size_t len, room;
    uint32_t next; /* sequence number behind the last octet */
    int begun;
};

struct flow {
    uint8_t addr[2][18]; /* address and port; [0]: the end that connected */
    struct stream way[2];
};

struct kind {
    unsigned side, opcode;
    uint64_t octets, count;
};

static struct flow flows[FLOWS];
static unsigned n_flows;
static struct kind kinds[KINDS];
static unsigned n_kinds;
static uint64_t fpdus, bad, unchecked;

enum { BLOCK_MAX = 1 << 24, FIO_MAGIC = 0xacca };
static int fio;
static uint8_t block[BLOCK_MAX]; /* the RDMA Write under way */
static size_t block_len;
static uint64_t blocks;

static void die(const char *what)
{
    fprintf(stderr, "count: %s\n", what);
    exit(2);
}

static uint32_t big(const uint8_t *p, unsigned n)
{
    uint32_t v = 0;

    while (n--) {
        v = v << 8 | *p++;
    }
    return v;
}

static uint32_t little(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* --- packets become streams ------------------------------------------------------------------ */

static void append(struct stream *s, uint32_t seq, const uint8_t *p, size_t n)
{
    if (n == 0) {
        return;
    }
    if (!s->begun) {
        s->next = seq;
        s->begun = 1;
    }
    if (seq != s->next) {
        die("octets of a stream are missing or out of order");
    }
    if (s->len + n > s->room) {
        s->room = 2 * (s->len + n);
        s->octets = realloc(s->octets, s->room);
        if (!s->octets) {
            die("no memory");
        }
    }
    memcpy(s->octets + s->len, p, n);
    s->len += n;
    s->next += (uint32_t)n;
}

/* Which of the two ways of which flow. A SYN begins another flow. */
static struct stream *find(const uint8_t from[18], const uint8_t to[18], int begins)
{
    for (unsigned i = n_flows; i-- > 0 && !begins;) {
        for (unsigned side = 0; side < 2; side++) {
            if (memcmp(flows[i].addr[side], from, 18) == 0 &&
                memcmp(flows[i].addr[!side], to, 18) == 0) {
                return &flows[i].way[side];
            }
        }
    }
    if (n_flows == FLOWS) {
        die("too many connections");
    }
    memcpy(flows[n_flows].addr[0], from, 18);
    memcpy(flows[n_flows].addr[1], to, 18);
    return &flows[n_flows++].way[0];
}

static void take_packet(const uint8_t *p, size_t n)
{
    uint8_t from[18] = {0}, to[18] = {0};
    size_t at = HEADERS_V4, end;

    if (n < HEADERS_V4) {
        die("a packet is too short");
    }
    if (big(p + 12, 2) == 0x0800) {
        end = 14 + big(p + 16, 2);
        memcpy(from, p + 26, 4);
        memcpy(to, p + 30, 4);
    } else {
        at = HEADERS_V6;
        end = HEADERS_V6 + big(p + 18, 2);
        memcpy(from, p + 22, 16);
        memcpy(to, p + 38, 16);
    }
    if (end > n || at + 20 > end) {
        die("a packet was not recorded whole");
    }
    const uint8_t *tcp = p + at;
    memcpy(from + 16, tcp, 2);
    memcpy(to + 16, tcp + 2, 2);
    size_t header = (size_t)(tcp[12] >> 4) * 4;
    int begins = (tcp[13] & 0x12) == 0x02;
    struct stream *s = find(from, to, begins);
    append(s, big(tcp + 4, 4), tcp + header, end - at - header);
}

static void take_file(const char *name)
{
    FILE *f = fopen(name, "rb");
    uint8_t head[8];

    if (!f) {
        die(name);
    }
    while (fread(head, 1, 8, f) == 8) {
        uint32_t type = little(head), size = little(head + 4);
        if (size < 12 || size > 1 << 24) {
            die("not a pcapng file of this library");
        }
        uint8_t *body = malloc(size);
        if (!body || fread(body, 1, size - 8, f) != size - 8) {
            die("the file is cut short");
        }
        if (type == 6) { /* Enhanced Packet Block */
            take_packet(body + 20, little(body + 12));
        }
        free(body);
    }
    fclose(f);
}

/* --- streams become messages ----------------------------------------------------------------- */

static void tally(unsigned side, unsigned opcode, uint64_t octets)
{
    unsigned i = 0;

    while (i < n_kinds &&
           (kinds[i].side != side || kinds[i].opcode != opcode || kinds[i].octets != octets)) {
        i++;
    }
    if (i == KINDS) {
        die("too many sizes");
    }
    if (i == n_kinds) {
        kinds[n_kinds++] = (struct kind){.side = side, .opcode = opcode, .octets = octets};
    }
    kinds[i].count++;
}

/*
 * fio's header: magic and kind (16 bits each), octets of the block, seed and offset (64 bits each),
 * time, thread, number, and a CRC32c of all that; behind it one of the data. Neither is inverted at
 * the end. The number has 16 bits in fio 3.33 and 3.39, which puts the CRC at 36, and is larger in
 * 3.41, where the CRC is at 44.
 */
static int is_fio_block(const uint8_t *p, size_t n, size_t header)
{
    const size_t data = header + 8;

    return n >= data && (p[0] | p[1] << 8) == FIO_MAGIC && little(p + 4) == n &&
           (little(p + 16) | (uint64_t)little(p + 20) << 32) == blocks * n &&
           little(p + header) == ~dissect_crc32c(0, p, header) &&
           little(p + header + 4) == ~dissect_crc32c(0, p + data, n - data);
}

static void take_block(void)
{
    if (is_fio_block(block, block_len, 36) || is_fio_block(block, block_len, 44)) {
        blocks++;
    } else {
        bad++;
    }
    block_len = 0;
}

static void add_to_block(const uint8_t *p, size_t n, int last)
{
    if (block_len + n > BLOCK_MAX) {
        die("a block is too large");
    }
    memcpy(block + block_len, p, n);
    block_len += n;
    if (last) {
        take_block();
    }
}

/* One FPDU; `sum` has the payload of unfinished messages. */
static void take_fpdu(unsigned side, const struct dissect_frame *f, const uint8_t *p, int crc,
                      uint64_t sum[DISSECT_OPCODES])
{
    static uint8_t plain[1 << 17];
    struct dissect_header h;
    size_t n = dissect_frame_unmark(f, p, f->whole, plain, sizeof plain);

    fpdus++;
    unchecked += !crc;
    if (crc && dissect_frame_crc(f, p) != dissect_frame_crc_expected(f, p)) {
        bad++;
    }
    if (n < 2 || !dissect_header_decode(&h, plain + 2, n - 2, f->ulpdu_length, false) ||
        h.faults != 0) {
        bad++;
        return;
    }
    if (fio && h.opcode == DISSECT_WRITE) {
        add_to_block(plain + 2 + h.size, h.payload, h.last);
    }
    sum[h.opcode] += h.payload;
    if (h.last) {
        uint64_t header = dissect_opcode_header_size(h.opcode);
        tally(side, h.opcode, sum[h.opcode] > header ? sum[h.opcode] - header : 0);
        sum[h.opcode] = 0;
    }
}

static void take_stream(unsigned side, const struct stream *s, size_t at, int crc, int marked)
{
    uint64_t sum[DISSECT_OPCODES] = {0};
    struct dissect_frame f;
    size_t first = at;

    while (at < s->len &&
           dissect_frame_measure(&f, s->octets + at, s->len - at, (uint32_t)(at - first), marked) &&
           at + f.whole <= s->len) {
        take_fpdu(side, &f, s->octets + at, crc, sum);
        at += f.whole;
    }
    if (at < s->len) {
        bad++;
    }
}

static void take_flow(const struct flow *flow)
{
    struct dissect_setup setup[2];
    struct dissect_agreement a;
    size_t begin[2];

    for (unsigned side = 0; side < 2; side++) {
        const struct stream *s = &flow->way[side];
        begin[side] = dissect_setup_extent(s->octets, s->len);
        if (!dissect_setup_decode(&setup[side], s->octets, s->len)) {
            return; /* refused, or ended before its start */
        }
    }
    dissect_setup_agree(&a, &setup[0], &setup[1]);
    for (unsigned side = 0; side < 2 && !a.rejected; side++) {
        take_stream(side, &flow->way[side], begin[side], a.crc, a.markers[side]);
    }
}

int main(int argc, char **argv)
{
    fio = argc > 1 && strcmp(argv[1], "-f") == 0;
    for (int i = 1 + fio; i < argc; i++) {
        take_file(argv[i]);
    }
    for (unsigned i = 0; i < n_flows; i++) {
        take_flow(&flows[i]);
    }
    for (unsigned i = 0; i < n_kinds; i++) {
        printf("%c %s %llu %llu\n", "cs"[kinds[i].side],
               dissect_opcode_name((uint8_t)kinds[i].opcode), (unsigned long long)kinds[i].octets,
               (unsigned long long)kinds[i].count);
    }
    printf("connections %u\nfpdus %llu\nbad %llu\nunchecked %llu\n", n_flows,
           (unsigned long long)fpdus, (unsigned long long)bad, (unsigned long long)unchecked);
    if (fio) {
        printf("blocks %llu\n", (unsigned long long)blocks);
    }
    return bad || fpdus == 0;
}
