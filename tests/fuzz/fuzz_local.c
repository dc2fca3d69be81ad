/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzing what an application asks of one stream: windows and regions that are bound, registered
 * and invalidated, requests that name memory they may not or that has gone, allocations that fail,
 * a shared receive queue; and between these FPDUs of a peer that uses the STags. The first octets
 * choose the options, the rest is a program of steps of four octets.
 *
 * Checked: the stream's invariants after each step, canaries; a valid window lies within its region
 * and gives no right that the region has not; memory without local write, and that of another
 * protection domain, never changes; no lends or buffers left over.
 */
#include "fuzz.h"

#include "alloc_fault.h"
#include "base/guard.h"
#include "deliveries.h"

#include <string.h>
#include <sys/mman.h>

#define HEAD   8
#define STEPS  40
#define OCTETS 512
#define PAGE   4096
#define MOST   64 /* requests, and receives */
#define STRIDE 128

enum { NO_CRC = 1, EARLY = 2, MARKERS = 4, SHARED = 8, RFC7306 = 16, SMALL = 32, POOR = 64 };

/* STags by number; the last two are nobody's. */
static const uint32_t stags[] = {0x00010100, 0x00010200, 0x00010300, 0x00010400,
                                 0x00010500, 0x00010600, 0x00010700, 0};
enum { MEMORY, FIXED, STRANGER, GONE, WINDOW_1, WINDOW_2 };

struct local {
    struct endpoint e;
    struct area *area[4]; /* MEMORY to GONE */
    struct iwarp_region window[2];
    uint8_t *page;
    uint8_t *shared; /* receives, as verbs would have them */
    uint32_t posted, taken, sends, msn, read_msn, atomic_msn;
    struct iwarp_sge sink[MOST]; /* of RDMA Reads and Atomics, in order */
    unsigned sinks, answered;
    unsigned fail; /* the allocation of the next step that fails; 0: none */
    struct chance chance;
};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    FUZZ_EXPECT(iwarp_guard_install() == 0);
    return setenv("CMOCKA_TEST_ABORT", "1", 1);
}

/* --- the stage --- */

static uint32_t take(void *arg)
{
    struct local *l = arg;

    return l->taken < l->posted ? l->taken++ : IWARP_RQ_NONE;
}

static void share(struct local *l)
{
    l->shared = calloc(MOST, STRIDE);
    FUZZ_EXPECT(l->shared);
    iwarp_wq_fini(&l->e.rq);
    iwarp_rq_share(&l->e.rq, l->shared, STRIDE, NULL, take, l);
}

static void set_up(struct local *l, const uint8_t *head)
{
    const unsigned bind = IWARP_ACCESS_MW_BIND;
    const struct endpoint_options options = {
        .no_crc = head[0] & NO_CRC,
        .early = head[0] & EARLY,
        .markers_rx = head[0] & MARKERS,
        .markers_tx = head[0] & MARKERS,
        .rfc7306 = head[0] & RFC7306,
        .mulpdu = head[0] & SMALL ? 128 : 1442,
        .ird = head[1] & 3,
        .ord = head[1] >> 2 & 3,
        .budget = head[0] & POOR ? (head[1] & 16 ? 400000 : 1000) : 0,
    };

    memset(l, 0, sizeof *l);
    l->chance.state = fuzz_seed(head + 4);
    l->page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FUZZ_EXPECT(l->page != MAP_FAILED);
    endpoint_init(&l->e, &options);
    l->area[MEMORY] =
        endpoint_area(&l->e, stags[MEMORY], 0x1000, OCTETS, WRITABLE | READABLE | bind, 0);
    l->area[FIXED] = endpoint_area(&l->e, stags[FIXED], 0x2000, OCTETS, READABLE | bind, 0x55);
    l->area[STRANGER] = endpoint_stranger(&l->e, stags[STRANGER], 0x3000, OCTETS, WRITABLE | bind);
    l->area[GONE] =
        endpoint_foreign(&l->e, stags[GONE], 0x4000, l->page, PAGE, WRITABLE | READABLE | bind);
    for (unsigned i = 0; i < 2; i++) {
        l->window[i] = (struct iwarp_region){.kind = i ? REGION_WINDOW_2 : REGION_WINDOW_1,
                                             .pd = l->area[MEMORY]->region.pd};
        FUZZ_EXPECT(iwarp_region_reserve(l->e.regions, &l->window[i], stags[WINDOW_1 + i]));
    }
    l->msn = l->read_msn = l->atomic_msn = 1;
    if (head[0] & SHARED) {
        share(l);
    }
}

static void check(const struct local *l)
{
    const unsigned changes = IWARP_ACCESS_REMOTE_WRITE | IWARP_ACCESS_REMOTE_ATOMIC;

    for (unsigned i = 0; i < 2; i++) {
        const struct iwarp_region *w = &l->window[i], *p = w->parent;
        if (atomic_load(&w->stag) == 0) {
            continue;
        }
        FUZZ_EXPECT(p && atomic_load(&p->stag) != 0 && atomic_load(&p->windows) > 0);
        FUZZ_EXPECT(w->addr >= p->addr && w->len <= p->len &&
                    (size_t)(w->addr - p->addr) <= p->len - w->len);
        FUZZ_EXPECT(!(w->access & changes) || (p->access & IWARP_ACCESS_LOCAL_WRITE));
        FUZZ_EXPECT(w->pd == p->pd);
    }
    for (size_t i = 0; i < OCTETS; i++) {
        FUZZ_EXPECT(l->area[FIXED]->p[i] == 0x55 && l->area[STRANGER]->p[i] == 0);
    }
}

/* --- steps --- */

/* The allocations of the stream, not those of this program. */
static void begin_failing(struct local *l)
{
    alloc_fault_at(l->fail);
    l->fail = 0;
}

static void end_failing(void)
{
    alloc_fault_at(0);
}

/* As a transport: memory that has gone is found out when it is sent from. */
static void send_some(struct local *l, size_t most)
{
    static uint8_t wire[1 << 20];
    struct iwarp_stream *s = &l->e.s;
    const struct iovec *iov = NULL;
    size_t total = 0;

    begin_failing(l);
    unsigned n = iwarp_stream_gather(s, &iov);
    end_failing();
    bool gone = false;
    for (unsigned i = 0; i < n && !gone; i++) {
        FUZZ_EXPECT(iov[i].iov_len <= sizeof wire - total);
        gone = iwarp_guard_copy_from(wire + total, iov[i].iov_base, iov[i].iov_len) != 0;
        total += iov[i].iov_len;
    }
    if (n > 0) {
        iwarp_stream_sent(s, gone ? 0 : total < most ? total : most);
    }
    if (gone) {
        iwarp_stream_kill(s, IWARP_FAULT_LOCAL_MEMORY, IWARP_SIDE_LOCAL, 0);
    }
    iwarp_stream_released(s, chance_below(&l->chance, 1 + s->tx.sent - s->tx.released));
    iwarp_stream_check(s);
}

static uint32_t stag_of(uint8_t x)
{
    uint32_t stag = stags[x & 7];

    return stag ? stag | (x >> 3 & 3u) : 0;
}

static uint64_t to_of(uint8_t x, uint8_t at)
{
    return (uint64_t)0x1000 * (1u + (x & 3u)) + (uint64_t)at * 2;
}

static void bind(struct local *l, const uint8_t *s)
{
    static const enum iwarp_wr_opcode what[] = {IWARP_WR_BIND_MW, IWARP_WR_BIND_MW, IWARP_WR_REG_MR,
                                                IWARP_WR_LOCAL_INV};
    const struct area *a = l->area[s[2] & 3];
    const struct iwarp_binding b = {.addr = a->p + (s[0] >> 4) * 8u,
                                    .len = (uint64_t)s[3] * 2,
                                    .to_base = to_of(s[2], 0),
                                    .access = s[2] >> 2 & 0x3f,
                                    .stag = stag_of(s[1]),
                                    .region = stag_of(s[2])};
    enum iwarp_wr_opcode opcode = what[s[1] >> 5 & 3];
    uint32_t head = iwarp_wq_head(&l->e.sq);

    /* Verbs let regions be made of what the application has, and no further. */
    if (opcode == IWARP_WR_REG_MR && (a != l->area[MEMORY] || b.len > OCTETS - 128)) {
        return;
    }
    endpoint_post(&l->e, &(struct iwarp_send_wr){.opcode = opcode,
                                                 .flags = s[1] & 128 ? IWARP_WR_FENCE : 0,
                                                 .invalidate_stag = stag_of(s[1])});
    if (opcode != IWARP_WR_LOCAL_INV) {
        *iwarp_swqe_binding(iwarp_sq_at(&l->e.sq, head)) = b;
    }
    l->sends++;
}

static void request(struct local *l, const uint8_t *s)
{
    static const enum iwarp_wr_opcode what[] = {
        IWARP_WR_SEND,     IWARP_WR_SEND_INV,         IWARP_WR_WRITE,           IWARP_WR_READ,
        IWARP_WR_READ_INV, IWARP_WR_ATOMIC_FETCH_ADD, IWARP_WR_ATOMIC_CMP_SWAP, IWARP_WR_SEND_IMM};
    enum iwarp_wr_opcode opcode = what[s[2] & 7];
    const bool atomic = opcode == IWARP_WR_ATOMIC_FETCH_ADD || opcode == IWARP_WR_ATOMIC_CMP_SWAP;
    struct iwarp_sge sge = {(void *)(uintptr_t)to_of(s[1], s[0] >> 4), atomic ? 8 : s[3],
                            stag_of(s[1])};

    if (atomic && !l->e.options.rfc7306) {
        return; /* verbs refuse it */
    }
    endpoint_post(&l->e, &(struct iwarp_send_wr){.opcode = opcode,
                                                 .sg_list = &sge,
                                                 .num_sge = 1,
                                                 .flags = (s[2] & 8 ? IWARP_WR_FENCE : 0) |
                                                          (s[2] & 16 ? IWARP_WR_SOLICITED : 0),
                                                 .operand = s[3],
                                                 .invalidate_stag = stag_of(s[3]),
                                                 .remote_stag = stag_of(s[3]),
                                                 .remote_to = 0x1000});
    l->sends++;
    if (atomic || opcode == IWARP_WR_READ || opcode == IWARP_WR_READ_INV) {
        l->sink[l->sinks++] = sge;
    }
}

static void receive(struct local *l, const uint8_t *s)
{
    struct iwarp_sge sge = {(void *)(uintptr_t)to_of(s[1], s[2]), s[3], stag_of(s[1])};

    if (!l->shared) {
        endpoint_recv(&l->e, &sge, s[3] > 0);
    } else {
        struct iwarp_rwqe *w = (void *)(l->shared + (size_t)l->posted * STRIDE);
        *w = (struct iwarp_rwqe){.wr_id = l->posted, .capacity = sge.len, .num_sge = s[3] > 0};
        w->sgl[0] = sge;
    }
    l->posted++;
}

/* What a peer sends that knows the STags. */
static void hear(struct local *l, const uint8_t *s)
{
    static const uint8_t payload[4 * 256] = {1, 2, 3, 4, 5};
    struct octets u = {0}, o = {0};
    unsigned kind = s[2] & 7;

    if (kind == 2 && (s[2] & 32) && l->answered < l->sinks) { /* the right Read Response */
        const struct iwarp_sge *sink = &l->sink[l->answered++];
        octets_be(&u, 0xc142, 2);
        octets_be(&u, sink->lkey, 4);
        octets_be(&u, (uint64_t)(uintptr_t)sink->addr, 8);
        octets_add(&u, payload, sink->len);
    } else if (kind == 1 && (s[2] & 32)) { /* Atomic Response */
        octets_be(&u, 0x414b, 2);
        octets_be(&u, 0, 4);
        octets_be(&u, 3, 4);
        octets_be(&u, l->atomic_msn, 4);
        octets_be(&u, 0, 4);
        octets_be(&u, l->atomic_msn++ + (s[1] & 1u), 4);
        octets_be(&u, s[3], 8);
    } else if (kind < 3) { /* Write, Read Response */
        octets_be(&u, kind < 2 ? 0xc140 : 0xc142, 2);
        octets_be(&u, stag_of(s[1]), 4);
        octets_be(&u, to_of(s[1], s[0] >> 4), 8);
        octets_add(&u, payload, s[2] & 64 ? s[3] * 4u : s[3]);
    } else if (kind < 5) { /* Send, Send with Invalidate */
        octets_be(&u, kind == 3 ? 0x4143 : 0x4144, 2);
        octets_be(&u, kind == 3 ? 0 : stag_of(s[1]), 4);
        octets_be(&u, 0, 4);
        octets_be(&u, l->msn++, 4);
        octets_be(&u, 0, 4);
        octets_add(&u, payload, s[3]);
    } else { /* Read Request, Atomic Request */
        octets_be(&u, kind < 7 ? 0x4141 : 0x414a, 2);
        octets_be(&u, 0, 4);
        octets_be(&u, 1, 4);
        octets_be(&u, l->read_msn++, 4);
        octets_be(&u, 0, 4);
        if (kind < 7) {
            octets_be(&u, 0x11223344, 4);
            octets_be(&u, 0x1000, 8);
            octets_be(&u, s[3], 4);
            octets_be(&u, stag_of(s[1]), 4);
            octets_be(&u, to_of(s[1], s[0] >> 4), 8);
        } else {
            octets_be(&u, s[3] & 1 ? 2 : 0, 4);
            octets_be(&u, l->read_msn, 4);
            octets_be(&u, stag_of(s[1]), 4);
            octets_be(&u, to_of(s[1], s[0] >> 4) + (s[3] & 2), 8);
            octets_fill(&u, s[3], 32);
        }
    }
    if (l->e.options.markers_rx) {
        fpdu_add_marked(&o, l->e.s.rx.pos, u.p, u.n, 0);
    } else {
        fpdu_add(&o, u.p, u.n, 0);
    }
    if (l->fail) {
        begin_failing(l);
        iwarp_stream_feed(&l->e.s, o.p, o.n);
        end_failing();
    } else {
        deliver(&l->e, (enum delivery)(s[2] >> 3 & 3), o.p, o.n, &l->chance);
    }
    iwarp_stream_check(&l->e.s);
    octets_free(&u);
    octets_free(&o);
}

static void trouble(struct local *l, const uint8_t *s)
{
    struct endpoint *e = &l->e;
    unsigned i = s[2] & 3;

    switch (s[1] & 7) {
    case 0:
    case 1:
        FUZZ_EXPECT(mprotect(l->page, PAGE, s[1] & 1 ? PROT_NONE : PROT_READ | PROT_WRITE) == 0);
        break;
    case 2:
        if (atomic_load(&l->area[i]->region.windows) == 0) { /* verbs refuse it with windows */
            endpoint_deregister(e, l->area[i]);
        }
        break;
    case 3:
        iwarp_stream_close(&e->s);
        break;
    case 4:
        iwarp_stream_remind(&e->s);
        break;
    case 5:
        e->s.ddp.denied = s[2] & (IWARP_ACCESS_REMOTE_READ | IWARP_ACCESS_REMOTE_WRITE |
                                  IWARP_ACCESS_REMOTE_ATOMIC);
        break;
    default:
        l->fail = 1 + (s[2] & 3u);
    }
    iwarp_stream_check(&e->s);
}

static void step(struct local *l, const uint8_t *s)
{
    switch (s[0] & 7) {
    case 0:
    case 1:
        if (l->sends < MOST) {
            bind(l, s);
        }
        break;
    case 2:
        if (l->sends < MOST) {
            request(l, s);
        }
        break;
    case 3:
        send_some(l, (size_t)(s[1] << 8 | s[2]));
        break;
    case 4:
        if (l->posted < MOST) {
            receive(l, s);
        }
        break;
    case 5:
    case 6:
        hear(l, s);
        break;
    default:
        trouble(l, s);
        break;
    }
}

static void clean_up(struct local *l)
{
    FUZZ_EXPECT(mprotect(l->page, PAGE, PROT_READ | PROT_WRITE) == 0);
    endpoint_drain(&l->e);
    iwarp_stream_eof(&l->e.s, 0);
    endpoint_drain(&l->e);
    if (l->shared) {
        while (iwarp_rq_pop(&l->e.rq)) {
        }
        iwarp_rq_untake(&l->e.rq);
    }
    for (unsigned i = 0; i < 2; i++) {
        iwarp_region_revoke(l->e.regions, &l->window[i]);
    }
    endpoint_fini(&l->e);
    free(l->shared);
    munmap(l->page, PAGE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct local l;

    if (size < HEAD) {
        return 0;
    }
    set_up(&l, data);
    for (size_t i = 0; i < (size - HEAD) / 4 && i < STEPS; i++) {
        step(&l, data + HEAD + i * 4);
        check(&l);
    }
    clean_up(&l);
    return 0;
}
