/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzing the receive path of one stream, with registered memory, posted receives and RDMA Reads
 * that wait for their responses. The first octets choose the options of the stream, what is posted,
 * how the rest is delivered and what happens on the way; the rest are octets of the stream. If the
 * options say so these are FPDUs whose CRCs, and markers, are put right before they are delivered,
 * so that mutations get past the CRC.
 *
 * Checked: the stream's invariants after each step, canaries beside all memory, memory that the
 * peer has no right to, that nothing is placed after the first fault, no lends or buffers left
 * over.
 */
#include "fuzz.h"

#include "deliveries.h"
#include "mpa/crc32c.h"

#include <string.h>

#define HEAD    8
#define ATOMIC  (IWARP_ACCESS_REMOTE_ATOMIC | IWARP_ACCESS_LOCAL_WRITE)
#define LONGEST 70000

enum { NO_CRC = 1, EARLY = 2, MARKERS_RX = 4, MARKERS_TX = 8, HOLD = 64, REPAIR = 128 };
enum { EOF_AT_END = 4, DEREGISTER = 8, CLOSE = 16, POOR = 32, SEND_LATE = 64, DETACH = 128 };
enum {
    TARGET_GOES = 1,
    RESET = 2,
    SEND_IMM = 4,
    RFC7306 = 8,
    WAIT = 16,
    LATE = 32,
    OVER = 64,
    LENT = 128
};

struct memory {
    struct area *target, *sink, *landing, *source, *token;
    struct area *counter;             /* of Atomics */
    struct area *readable, *stranger; /* not to be changed by anything that comes */
};

/* An assertion of the test support ends the program instead of a test that does not run. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return setenv("CMOCKA_TEST_ABORT", "1", 1);
}

/* Every CRC of this machine; what it has not leaves the one before. */
static void choose_crc(uint8_t wish)
{
    static uint8_t now;

    if (wish != now && wish <= IWARP_CRC32C_EVP) {
        (void)iwarp_crc32c_select((enum iwarp_crc32c_impl)wish);
        FUZZ_EXPECT(iwarp_crc32c_name()[0] != '\0');
        now = wish;
    }
}

static void set_up(struct endpoint *e, const uint8_t *head, struct memory *m)
{
    const struct endpoint_options options = {
        .no_crc = head[0] & NO_CRC,
        .early = head[0] & EARLY,
        .markers_rx = head[0] & MARKERS_RX,
        .markers_tx = head[0] & MARKERS_TX,
        .hold_tx = head[0] & HOLD,
        .rtr = (enum iwarp_stream_rtr)(head[0] >> 4 & 3),
        .ird = head[1] & 15,
        .ord = 1 + (head[1] >> 4),
        .mulpdu = 512,
        .budget = head[3] & POOR ? 1000 : 0,
        .send_imm = head[4] & SEND_IMM,
        .rfc7306 = head[4] & RFC7306,
        .hold = head[4] & WAIT ? 2 * LONGEST : 0,
    };

    choose_crc(head[5] >> 2 & 7);
    endpoint_init(e, &options);
    m->target = endpoint_area(e, 0x00010203, 0x1000, 256, WRITABLE | READABLE, 0x11);
    m->sink = endpoint_area(e, 0x11223344, 0x2000, 64, LOCAL, 0x22);
    m->landing = endpoint_area(e, 0x00020200, 0x100000, 2048, LOCAL, 0x33);
    m->source = endpoint_area(e, 0x00020300, 0x200000, 512, READABLE, 0x44);
    m->token = endpoint_area(e, 0x12345678, 0, 8, READABLE, 0);
    m->readable = endpoint_area(e, 0x00000001, 0x0805b000, 128, READABLE, 0x55);
    m->counter = endpoint_area(e, 0x00050500, 0x3000, 64, ATOMIC, 0);
    m->stranger = endpoint_stranger(e, 0x00040400, 0x1000, 64, WRITABLE);
}

static void post_recv(struct endpoint *e, const struct memory *m, unsigned i)
{
    struct iwarp_sge sgl[] = {area_sge(m->landing, (size_t)i * 128, 40),
                              area_sge(m->landing, (size_t)i * 128 + 64, 1 + i * 4)};

    endpoint_recv(e, sgl, 1 + i % 2);
}

static void post(struct endpoint *e, const uint8_t *head, const struct memory *m)
{
    for (unsigned i = 0; i < (head[2] & 15u); i++) {
        post_recv(e, m, i);
    }
    for (unsigned i = 0; i < (head[1] >> 4); i++) {
        struct iwarp_sge sge = area_sge(m->sink, (size_t)8 * (i % 8), i == 0 ? 8 : i % 8);
        endpoint_post(e, &(struct iwarp_send_wr){.opcode = IWARP_WR_READ,
                                                 .sg_list = &sge,
                                                 .num_sge = 1,
                                                 .remote_stag = 0x00010203,
                                                 .remote_to = 0x1000});
    }
    for (unsigned i = 0; (head[4] & RFC7306) && i < (head[5] & 3u); i++) {
        struct iwarp_sge sge = area_sge(m->sink, (size_t)8 * i, 8);
        endpoint_post(e, &(struct iwarp_send_wr){.opcode = i % 2 ? IWARP_WR_ATOMIC_CMP_SWAP
                                                                 : IWARP_WR_ATOMIC_FETCH_ADD,
                                                 .sg_list = &sge,
                                                 .num_sge = 1,
                                                 .operand = 1,
                                                 .remote_stag = 0x00010203,
                                                 .remote_to = 0x1000});
    }
    for (unsigned i = 0; i < (head[2] >> 4); i++) {
        struct iwarp_sge sge = area_sge(m->source, i, (size_t)i * 30);
        endpoint_post(e, &(struct iwarp_send_wr){.opcode = i % 2 ? IWARP_WR_SEND : IWARP_WR_WRITE,
                                                 .sg_list = &sge,
                                                 .num_sge = 1,
                                                 .flags = i % 3 ? 0 : IWARP_WR_FENCE,
                                                 .remote_stag = 0x00010203,
                                                 .remote_to = 0x1000});
    }
}

/* FPDUs with right CRCs and markers, whatever they had; what is not whole at the end stays so. */
static void repair(struct octets *o, const uint8_t *p, size_t n, bool marked)
{
    size_t at = 0;

    while (n - at >= 2 && o->n < LONGEST) {
        size_t len = (size_t)(p[at] << 8 | p[at + 1]), whole = (2 + len + 3) / 4 * 4 + 4;
        if (whole > n - at) {
            break;
        }
        if (marked) {
            fpdu_add_marked(o, o->n, p + at + 2, len, 0);
        } else {
            fpdu_add(o, p + at + 2, len, 0);
        }
        at += whole;
    }
    octets_add(o, p + at, n - at);
}

static void check_untouched(const struct area *a, uint8_t fill)
{
    for (size_t i = 0; i < a->n; i++) {
        FUZZ_EXPECT(a->p[i] == fill);
    }
}

/* A valid Write after a fault: dropped, RFC 5044 8 and RFC 5041 7.1. */
static void check_deaf(struct endpoint *e, const struct memory *m, enum delivery way,
                       struct chance *c)
{
    uint8_t before[256];
    struct octets o = {0};

    memcpy(before, m->target->p, sizeof before);
    for (unsigned i = 0; i < 3; i++) {
        fpdu_hex(&o, "c140 00010203 00000000 00001000", 64);
    }
    deliver(e, way, o.p, o.n, c);
    FUZZ_EXPECT(memcmp(before, m->target->p, sizeof before) == 0);
    octets_free(&o);
}

static void in_between(struct endpoint *e, const uint8_t *head, struct memory *m)
{
    if (!(head[3] & SEND_LATE)) {
        endpoint_drain(e);
    }
    if (head[3] & DEREGISTER) {
        endpoint_deregister(e, head[4] & TARGET_GOES ? m->target : m->sink);
    }
    if (head[4] & LATE) {
        post_recv(e, m, head[2] & 15u);
        iwarp_stream_resume(&e->s);
    }
    if (head[3] & CLOSE) {
        iwarp_stream_close(&e->s);
    }
}

static void finish(struct endpoint *e, const uint8_t *head)
{
    uint32_t msn;

    endpoint_drain(e);
    if ((head[4] & OVER) && iwarp_stream_waits(&e->s, &msn)) {
        iwarp_stream_wait_over(&e->s, 1000);
        endpoint_drain(e);
    }
    if (head[3] & EOF_AT_END) {
        iwarp_stream_eof(&e->s, head[4] & RESET ? 104 : 0);
        endpoint_drain(e);
    }
    if (head[3] & DETACH) {
        iwarp_stream_detach(&e->s);
        endpoint_drain(e);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct endpoint e;
    struct memory m;
    struct octets o = {0};

    if (size < HEAD) {
        return 0;
    }
    struct chance c = {fuzz_seed(data + 4)};
    enum delivery way = data[4] & LENT ? DELIVER_LENT : (enum delivery)(data[3] & 3);
    set_up(&e, data, &m);
    post(&e, data, &m);
    if (!(data[3] & SEND_LATE)) {
        endpoint_drain(&e);
    }
    if (data[0] & REPAIR) {
        repair(&o, data + HEAD, size - HEAD, data[0] & MARKERS_RX);
    } else {
        octets_add(&o, data + HEAD, size - HEAD);
    }
    size_t half = o.n ? chance_below(&c, o.n) : 0;
    if (o.n > 0) {
        deliver(&e, way, o.p, half, &c);
        in_between(&e, data, &m);
        deliver(&e, way, o.p + half, o.n - half, &c);
    }
    if (e.s.fault.code != IWARP_FAULT_NONE) {
        check_deaf(&e, &m, way, &c);
    }
    finish(&e, data);
    check_untouched(m.readable, 0x55);
    check_untouched(m.stranger, 0);
    check_untouched(m.source, 0x44);
    octets_free(&o);
    endpoint_fini(&e);
    return 0;
}
