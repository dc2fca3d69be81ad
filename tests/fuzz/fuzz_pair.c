/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzing two streams that talk to each other: the first octets choose their options, the rest is a
 * program of steps: post a request, carry some octets over, change, drop, double or add octets on
 * the way, close, deregister, lose the connection. So the send side is fuzzed too: with answers
 * that are almost right, with room for few octets at a time, and with memory that goes away.
 *
 * Checked: the invariants of both streams after each step, canaries, no lends or buffers left over;
 * where nothing was damaged there is no fault, and all data arrived.
 */
#include "fuzz.h"

#include "deliveries.h"

#include <string.h>

#define HEAD   8
#define ATOMIC IWARP_ACCESS_REMOTE_ATOMIC
#define STEPS  30
#define OCTETS 6000
#define MOST   100 /* requests of a side, and its receives */

enum { RFC7306 = 1, SEND_IMM = 2, WAIT = 4, PLAIN = 8, REFER = 16 }; /* data[2] */
enum { NO_CRC = 1, EARLY = 2, MARKERS_0 = 4, MARKERS_1 = 8, RTR = 16, SMALL = 64, HOLD = 128 };

struct side {
    struct endpoint e;
    struct side *peer;
    struct area *source, *target, *landing, *sink, *counter, *original;
    struct octets wire; /* on its way to this side */
    uint32_t sends, receives;
    struct iwarp_sge late[MOST]; /* receives that are not posted yet, in order */
    unsigned lates;
    uint64_t added; /* by its Atomics to the peer's counter */
    bool told_eof;
};

struct pair {
    struct side side[2];
    struct chance chance;
    bool refers; /* the transport refers to memory until it is released */
    bool harmed; /* faults are to be expected */
};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return setenv("CMOCKA_TEST_ABORT", "1", 1);
}

static void side_init(struct pair *p, unsigned i, const uint8_t *head)
{
    struct side *s = &p->side[i];
    uint32_t ird = 1 + (head[1] & 3), rtr = i == 0 ? (head[0] >> 4) & 3u : 0;
    const struct endpoint_options options = {
        .no_crc = head[0] & NO_CRC,
        .early = head[0] & EARLY,
        .markers_rx = head[0] & (i ? MARKERS_1 : MARKERS_0),
        .markers_tx = head[0] & (i ? MARKERS_0 : MARKERS_1),
        .hold_tx = i == 1 && (head[0] & HOLD),
        .rtr = (enum iwarp_stream_rtr)rtr,
        .mulpdu = head[0] & SMALL ? 128 : 1442,
        .ird = ird,
        .ord = ird,
        .rfc7306 = head[2] & RFC7306,
        .send_imm = head[2] & SEND_IMM,
        .hold = head[2] & WAIT ? 1 << 20 : 0,
        .plain = head[2] & PLAIN,
    };

    endpoint_init(&s->e, &options);
    s->peer = &p->side[1 - i];
    s->source = endpoint_area(&s->e, 0x00010100, 0x100000, OCTETS, READABLE, 0);
    s->target = endpoint_area(&s->e, 0x00010200, 0x200000, OCTETS, WRITABLE, 0xee);
    s->landing = endpoint_area(&s->e, 0x00010300, 0x300000, OCTETS, LOCAL, 0xee);
    s->sink = endpoint_area(&s->e, 0x00010400, 0x400000, OCTETS, LOCAL, 0xee);
    s->counter = endpoint_area(&s->e, 0x00010500, 0x500000, 8, LOCAL | ATOMIC, 0);
    s->original = endpoint_area(&s->e, 0x00010600, 0x600000, 8, LOCAL, 0);
    for (size_t k = 0; k < OCTETS; k++) {
        s->source->p[k] = (uint8_t)(k * 7 + k / 256 + i);
    }
}

/* Behind late receives others come late, too: they are taken in the order of posting. */
static void post_receive(struct side *s, size_t at, size_t len, bool late)
{
    struct iwarp_sge sge = area_sge(s->landing, at, len);

    s->receives++;
    if (s->lates > 0 || (late && s->e.options.hold > 0)) {
        s->late[s->lates++] = sge;
    } else {
        endpoint_recv(&s->e, &sge, len > 0);
    }
}

static void post_late_receives(struct side *s)
{
    for (unsigned i = 0; i < s->lates; i++) {
        endpoint_recv(&s->e, &s->late[i], s->late[i].len > 0);
    }
    s->lates = 0;
    iwarp_stream_resume(&s->e.s);
    iwarp_stream_check(&s->e.s);
}

/* Every message goes where it lies in the source: whatever arrives undamaged equals that. */
static void post(struct side *s, uint8_t kind, uint8_t x, uint8_t y)
{
    size_t at = (size_t)x * 20, len = (size_t)y * (kind & 4 ? 3 : 1);
    struct iwarp_sge sgl[2];

    if (s->sends >= MOST || s->peer->receives >= MOST) {
        return;
    }
    len = len < OCTETS - at ? len : OCTETS - at;
    sgl[0] = area_sge(s->source, at, len / 3);
    sgl[1] = area_sge(s->source, at + len / 3, len - len / 3);
    struct iwarp_send_wr wr = {.sg_list = sgl,
                               .num_sge = 2,
                               .flags = (kind & 8 ? IWARP_WR_FENCE : 0) |
                                        (kind & 16 ? IWARP_WR_SOLICITED : 0) |
                                        (kind & 32 && kind % 3 < 2 ? IWARP_WR_INLINE : 0),
                               .remote_stag = 0x00010200,
                               .remote_to = 0x200000 + at};
    if (wr.flags & IWARP_WR_INLINE) { /* copied from there at once */
        sgl[0].addr = s->source->p + at;
        sgl[1].addr = s->source->p + at + len / 3;
    }
    if (kind % 3 == 0) {
        post_receive(s->peer, at, len, kind & 64);
    } else if (kind % 3 == 1) {
        wr.opcode = IWARP_WR_WRITE;
    } else {
        sgl[0] = area_sge(s->sink, at, len / 3);
        sgl[1] = area_sge(s->sink, at + len / 3, len - len / 3);
        wr.opcode = IWARP_WR_READ;
        wr.remote_stag = 0x00010100;
        wr.remote_to = 0x100000 + at;
    }
    endpoint_post(&s->e, &wr);
    s->sends++;
}

/* RFC 7306's, and Sends with Immediate Data: only verbs that agreed on them post them. */
static void post_extended(struct side *s, uint8_t kind, uint8_t x, uint8_t y)
{
    const bool allowed = kind % 5 == 2 ? s->e.options.send_imm : s->e.options.rfc7306;
    struct iwarp_sge sge = area_sge(s->source, x, y);

    if (!allowed || s->sends >= MOST || s->peer->receives >= MOST) {
        return;
    }
    struct iwarp_send_wr wr = {.sg_list = &sge,
                               .num_sge = 1,
                               .imm = (uint64_t)x << 32 | y,
                               .flags = (kind & 8 ? IWARP_WR_FENCE : 0) |
                                        (kind & 16 ? IWARP_WR_SOLICITED : 0),
                               .remote_stag = 0x00010200,
                               .remote_to = 0x200000 + x};
    switch (kind % 5) {
    case 0:
        wr.opcode = IWARP_WR_IMM;
        wr.num_sge = 0;
        post_receive(s->peer, 0, 0, kind & 64);
        break;
    case 1:
        wr.opcode = IWARP_WR_WRITE_IMM;
        post_receive(s->peer, 0, 0, kind & 64);
        break;
    case 2:
        wr.opcode = IWARP_WR_SEND_IMM;
        post_receive(s->peer, x, y, kind & 64);
        break;
    default:
        sge = area_sge(s->original, 0, 8);
        wr.opcode = kind % 5 == 3 ? IWARP_WR_ATOMIC_FETCH_ADD : IWARP_WR_ATOMIC_CMP_SWAP;
        wr.remote_stag = 0x00010500;
        wr.remote_to = 0x500000;
        wr.operand = x;
        wr.mask = kind % 5 == 3 ? 0 : UINT64_MAX;
        wr.compare = UINT64_MAX; /* a comparison that never holds leaves the sum alone */
        wr.compare_mask = UINT64_MAX;
        s->added += kind % 5 == 3 ? x : 0;
    }
    endpoint_post(&s->e, &wr);
    s->sends++;
}

/* Send at most n octets of whole FPDUs, as transports do that refer to memory. */
static size_t send_referring(struct endpoint *e, size_t n)
{
    const struct iovec *iov = NULL;
    struct iovec passing;
    uint32_t fpdus[16];
    size_t offered = 0, taken = 0;

    if (iwarp_stream_gather(&e->s, &iov) == 0) {
        return 0;
    }
    unsigned count = iwarp_stream_fpdus(&e->s, iov, fpdus, 16, &passing);
    for (unsigned i = 0; i < count; i++) {
        offered += fpdus[i];
    }
    n = n < offered ? n : offered;
    for (unsigned i = 0; taken < n; i++) {
        size_t k = iov[i].iov_len < n - taken ? iov[i].iov_len : n - taken;
        octets_add(&e->sent, iov[i].iov_base, k);
        taken += k;
    }
    iwarp_stream_cut(&e->s, fpdus, count, n);
    iwarp_stream_sent(&e->s, n);
    iwarp_stream_check(&e->s);
    return n;
}

static size_t send_some(const struct pair *p, struct endpoint *e, size_t n)
{
    return p->refers ? send_referring(e, n) : endpoint_send(e, n);
}

/* Send at most n octets, release some, deliver all that is under way. */
static void carry_over(struct pair *p, struct side *from, enum delivery way, size_t n)
{
    struct side *to = from->peer;

    size_t sent = send_some(p, &from->e, n);
    if (sent > 0 && chance_one_in(&p->chance, 2)) {
        iwarp_stream_released(&from->e.s, (size_t)(from->e.s.tx.sent - from->e.s.tx.released));
    }
    octets_add(&to->wire, from->e.sent.p, from->e.sent.n);
    endpoint_forget_sent(&from->e);
    deliver(&to->e, way, to->wire.p, to->wire.n, &p->chance);
    to->wire.n = 0;
}

/* Take octets from one side without delivering them yet, and change them. */
static void damage(struct pair *p, struct side *from, const uint8_t *step)
{
    struct side *to = from->peer;
    uint8_t again[1000];
    size_t n;

    send_some(p, &from->e, SIZE_MAX);
    octets_add(&to->wire, from->e.sent.p, from->e.sent.n);
    endpoint_forget_sent(&from->e);
    p->harmed = true;
    if (to->wire.n == 0) {
        octets_add(&to->wire, step + 1, 3);
        return;
    }
    size_t at = (size_t)(step[1] << 8 | step[2]) % to->wire.n;
    switch (step[3] & 3) {
    case 0: /* drop the rest */
        to->wire.n = at;
        break;
    case 1: /* come again */
        n = (to->wire.n - at) / 2 < sizeof again ? (to->wire.n - at) / 2 : sizeof again;
        memcpy(again, to->wire.p + at, n);
        octets_add(&to->wire, again, n);
        break;
    default:
        to->wire.p[at] ^= step[3];
    }
}

static void tell_eof(struct side *s, int error)
{
    if (!s->told_eof) {
        s->told_eof = true;
        iwarp_stream_eof(&s->e.s, error);
        iwarp_stream_check(&s->e.s);
    }
}

static void trouble(struct pair *p, struct side *s, const uint8_t *step)
{
    p->harmed = true;
    switch (step[1] & 3) {
    case 0:
        iwarp_stream_close(&s->e.s);
        break;
    case 1:
        endpoint_deregister(&s->e, step[2] & 1 ? s->source : s->landing);
        break;
    case 2:
        tell_eof(s, step[2] & 1 ? 104 : 0);
        break;
    default:
        iwarp_stream_kill(&s->e.s, IWARP_FAULT_LOCAL_ABORT, IWARP_SIDE_LOCAL, 0);
        break;
    }
    iwarp_stream_check(&s->e.s);
}

static void step(struct pair *p, const uint8_t *s)
{
    struct side *side = &p->side[s[0] >> 7];

    switch (s[0] & 7) {
    case 0:
    case 1:
        post(side, s[3], s[1], s[2]);
        break;
    case 2:
        post_extended(side, s[3], s[1], s[2]);
        break;
    case 3:
    case 4:
        carry_over(p, side, (enum delivery)(s[3] % DELIVERIES), (size_t)(s[1] << 8 | s[2]));
        break;
    case 5:
        post_late_receives(side);
        break;
    case 6:
        damage(p, side, s);
        break;
    default:
        trouble(p, side, s);
        break;
    }
}

/* Let both talk until neither has anything to say. */
static void calm_down(struct pair *p)
{
    post_late_receives(&p->side[0]);
    post_late_receives(&p->side[1]);
    for (unsigned quiet = 0, i = 0; quiet < 2; i++) {
        struct side *s = &p->side[i & 1];
        uint64_t before = s->e.s.tx.sent;
        carry_over(p, s, DELIVER_MIXED, SIZE_MAX);
        iwarp_stream_released(&s->e.s, (size_t)(s->e.s.tx.sent - s->e.s.tx.released));
        quiet = s->e.s.tx.sent == before ? quiet + 1 : 0;
        FUZZ_EXPECT(i < 10000);
    }
}

/* Octets are those of the peer's source, or were never written. */
static void check_data(const struct area *got, const struct area *source)
{
    for (size_t i = 0; i < OCTETS; i++) {
        FUZZ_EXPECT(got->p[i] == source->p[i] || got->p[i] == 0xee);
    }
}

static void check_unharmed(const struct side *s)
{
    FUZZ_EXPECT(s->e.s.fault.code == IWARP_FAULT_NONE);
    FUZZ_EXPECT(s->e.sq.done == s->sends);
    FUZZ_EXPECT(s->e.rq.done == s->receives);
    check_data(s->target, s->peer->source);
    check_data(s->landing, s->peer->source);
    check_data(s->sink, s->peer->source);
    uint64_t counted;
    memcpy(&counted, s->counter->p, sizeof counted);
    FUZZ_EXPECT(counted == s->peer->added);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct pair p;

    if (size < HEAD) {
        return 0;
    }
    memset(&p, 0, sizeof p);
    p.chance.state = fuzz_seed(data + 4);
    p.refers = data[2] & REFER;
    side_init(&p, 0, data);
    side_init(&p, 1, data);
    if ((data[0] >> 4 & 3) == STREAM_RTR_SEND) { /* takes the first receive */
        post_receive(&p.side[1], 0, 0, false);
    }
    if (data[0] & HOLD) { /* the responder waits for a first FPDU */
        post(&p.side[0], 1, 0, 0);
    }
    size_t steps = (size - HEAD) / 4;
    for (size_t i = 0; i < steps && i < STEPS; i++) {
        step(&p, data + HEAD + i * 4);
    }
    calm_down(&p);
    for (unsigned i = 0; i < 2; i++) {
        if (!p.harmed) {
            check_unharmed(&p.side[i]);
        }
        tell_eof(&p.side[i], 0);
    }
    calm_down(&p);
    for (unsigned i = 0; i < 2; i++) {
        octets_free(&p.side[i].wire);
        endpoint_fini(&p.side[i].e);
    }
    return 0;
}
