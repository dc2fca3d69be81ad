/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that spins on the last octet of a Write sees all octets before it, and the same holds
 * for the last octet of each segment. Payload here is placed after its CRC was checked (verified).
 *
 * The thread of the test posts a few Writes, spins on their ends while the worker places them, and
 * then looks at everything before. It races with the worker by design: what the worker stores goes
 * through base/guard, whose copies ThreadSanitizer does not see, so it reports nothing. Whether
 * the test would notice is found out by replacing that copy with plain memcpy (by the linker).
 *
 * SPIN_MESSAGES in the environment: how many, instead of a few (make test-spin).
 */
#include "base/guard.h"
#include "octets.h"
#include "seconds.h"
#include "verbs/conn.h"
#include "verbs_pair.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#define SLOTS      4u
#define LARGEST    65536u
#define SLOT       (LARGEST + 128u)
#define TAGGED_HDR 14u /* of a segment: its payload is that much smaller than the ULPDU */

/* ---- the copy ---------------------------------------------------------------------------------
 */

int __real_iwarp_guard_copy_to(void *dst, const void *src, size_t n);
int __wrap_iwarp_guard_copy_to(void *dst, const void *src, size_t n);

static atomic_bool plain;

int __wrap_iwarp_guard_copy_to(void *dst, const void *src, size_t n)
{
    if (!atomic_load_explicit(&plain, memory_order_relaxed)) {
        return __real_iwarp_guard_copy_to(dst, src, n);
    }
    memcpy(dst, src, n);
    return 0;
}

/* ---- messages ---------------------------------------------------------------------------------
 */

struct spin {
    struct pair pair;
    struct chance chance;
    uint32_t segment; /* payload octets of all segments but the last */
    unsigned long messages, segments, violations;
    unsigned char octet; /* that the next batch consists of */
};

struct message {
    size_t offset; /* in either memory */
    uint32_t size;
};

/* Mostly small, where the order of stores within memcpy differs most; every alignment. */
static struct message draw(struct spin *spin, unsigned slot)
{
    static const uint32_t kinds[] = {40, 300, 1000, 2000, 8000, LARGEST - 24};
    uint64_t pick = chance_below(&spin->chance, 64);
    unsigned kind = pick == 0 ? 5 : pick < 5 ? 4 : (unsigned)pick % 4;

    return (struct message){.offset = slot * SLOT + chance_below(&spin->chance, 61),
                            .size = 24 + (uint32_t)chance_below(&spin->chance, kinds[kind] + 1)};
}

/*
 * Spin until the last of n octets is there. Looking at the first ones too keeps their cache lines
 * here, so that the worker has to take each back: the later it stores them, the later they come.
 * False: never.
 */
static bool await(const uint8_t *p, size_t n, unsigned char octet)
{
    const time_t end = seconds_now() + PAIR_WAIT_MS / 1000;
    const volatile uint8_t *front = p;

    for (unsigned spins = 1; __atomic_load_n(p + n - 1, __ATOMIC_ACQUIRE) != octet; spins++) {
        (void)front[0];
        (void)front[n / 2];
        if (spins % 2048 == 0) {
            sched_yield(); /* somebody else may need this processor to bring it about */
            if (seconds_now() > end) {
                return false;
            }
        }
    }
    return true;
}

/* The octets first that are late if any are. */
static bool all_there(const uint8_t *p, size_t n, unsigned char octet)
{
    return p[0] == octet && p[n - 2] == octet && memcmp(p, p + 1, n - 1) == 0;
}

static void watch(struct spin *spin, const struct message *m)
{
    const uint8_t *p = spin->pair.side[1].p + m->offset;
    uint32_t end = 0;

    while (end < m->size) {
        end = m->size - end > spin->segment ? end + spin->segment : m->size;
        if (!await(p, end, spin->octet)) {
            fail_msg("octet %u of a Write of %u never came", end, m->size);
        }
        spin->violations += !all_there(p, end, spin->octet);
        spin->segments++;
    }
    spin->messages++;
}

/* Post a batch in one go, and watch it arrive. */
static void exchange(struct spin *spin, unsigned n)
{
    struct pair_side *a = &spin->pair.side[0], *b = &spin->pair.side[1];
    struct message m[SLOTS];
    struct iwarp_sge sge[SLOTS];
    struct iwarp_send_wr wr[SLOTS] = {{0}};

    spin->octet = spin->octet == 0x55 ? 0xaa : 0x55;
    for (unsigned i = 0; i < n; i++) {
        m[i] = draw(spin, i);
        memset(a->p + m[i].offset, spin->octet, m[i].size);
        memset(b->p + m[i].offset, 0, m[i].size);
        sge[i] = pair_sge(a, m[i].offset, m[i].size);
        wr[i] = pair_wr(IWARP_WR_WRITE, i, &sge[i]);
        wr[i].flags = i + 1 == n ? IWARP_WR_SIGNALED : 0;
        wr[i].remote_stag = iwarp_mr_stag(b->mr);
        wr[i].remote_to = (uint64_t)(uintptr_t)(b->p + m[i].offset);
        wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
    }
    must(iwarp_post_send(a->qp, wr, NULL));
    for (unsigned i = 0; i < n; i++) {
        watch(spin, &m[i]);
    }
    pair_wc(a->send_cq, n - 1, IWARP_WC_SUCCESS);
}

/*
 * Run on the first or the last processor that the program was given. Threads that are started
 * inherit it, so the worker has one and the thread of the test another.
 */
static void use_processor(bool last)
{
    static cpu_set_t given;
    cpu_set_t one;
    size_t cpu = last ? CPU_SETSIZE - 1 : 0;

    if (CPU_COUNT(&given) == 0) {
        assert_int_equal(sched_getaffinity(0, sizeof given, &given), 0);
    }
    while (!CPU_ISSET(cpu, &given)) {
        cpu = last ? cpu - 1 : cpu + 1;
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    (void)sched_setaffinity(0, sizeof one, &one); /* where that is forbidden it goes without */
}

static void open_spin(struct spin *spin, enum pair_transport transport, unsigned ulpdu_max)
{
    struct iwarp_conn_info info = {.size = sizeof info};
    struct pair_options o;

    *spin = (struct spin){.chance = {chance_seed()}};
    pair_options_init(&o, transport);
    o.device.progress = IWARP_PROGRESS_THREADED; /* whatever TEST_PROGRESS says */
    o.memory = (size_t)SLOTS * SLOT;
    o.conn[0].ulpdu_max = o.conn[1].ulpdu_max = ulpdu_max;
    use_processor(true);
    pair_open(&spin->pair, &o);
    use_processor(false);
    must(iwarp_conn_info(spin->pair.side[0].conn, &info));
    spin->segment = info.mulpdu - TAGGED_HDR;
}

static unsigned long wanted(unsigned long few)
{
    const char *text = getenv("SPIN_MESSAGES");

    return text ? strtoul(text, NULL, 10) : few;
}

/* In one FPDU each but for the largest, and in many. */
static const unsigned ulpdu_sizes[] = {64768, 1442, 128};

static void last_octet__polled_during_verified_placement__is_last(void **state)
{
    unsigned long n = wanted(120000) / 6;
    unsigned long messages = 0, segments = 0;
    struct spin spin;

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        open_spin(&spin, i % 2 ? PAIR_MEMORY : PAIR_TCP4, ulpdu_sizes[i / 2]);
        while (spin.messages < n) {
            exchange(&spin, 1 + (unsigned)chance_below(&spin.chance, SLOTS));
        }
        assert_int_equal(spin.violations, 0);
        messages += spin.messages;
        segments += spin.segments;
        pair_close(&spin.pair);
    }
    print_message("%lu messages, %lu segments, no violation\n", messages, segments);
    assert_true(messages >= n * 6);
}

#if !defined(SANITIZED)
/* Small Writes are not placed in runs, which have the copy inside. */
static void place_each_by_itself(struct iwarp_conn *conn)
{
    iwarp_mutex_lock(&conn->lock);
    conn->stream.config.plain = true;
    iwarp_mutex_unlock(&conn->lock);
}

/* Where even plain memcpy shows nothing, the test above says nothing either. */
static void last_octet__with_plain_memcpy__is_seen_too_early(void **state)
{
    unsigned long most = wanted(0) ? wanted(0) / 5 : 200000;
    bool until_first = wanted(0) == 0;
    struct spin spin;

    (void)state;
    if (getenv("TEST_EMULATED")) {
        skip();
    }
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
        skip();
    }
    open_spin(&spin, PAIR_TCP4, 64768);
    place_each_by_itself(spin.pair.side[1].conn);
    atomic_store(&plain, true);
    while (spin.messages < most && !(until_first && spin.violations > 0)) {
        exchange(&spin, 1 + (unsigned)chance_below(&spin.chance, SLOTS));
    }
    atomic_store(&plain, false);
    print_message("%lu violations in %lu messages\n", spin.violations, spin.messages);
    assert_true(spin.violations > 0);
    pair_close(&spin.pair);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_octet__polled_during_verified_placement__is_last),
#if !defined(SANITIZED)
        cmocka_unit_test(last_octet__with_plain_memcpy__is_seen_too_early),
#endif
    };

    return cmocka_run_group_tests_name("pair_spin", tests, NULL, NULL);
}
