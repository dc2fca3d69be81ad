/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two streams, no transport: the n-th allocation of either fails, for every n until the whole
 * exchange passes. The stream that had no memory ends with that fault and a Terminate, what it had
 * goes back, and the peer learns of it.
 *
 * RFC 5040 7.1.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "alloc_fault.h"
#include "endpoint.h"
#include "mpa/crc32c.h"

#define OCTETS 3000
#define WIRE   (1u << 20)

struct sides {
    struct endpoint e[2];
    struct area *source, *target, *landing, *sink;
};

static void sides_init(struct sides *s, bool markers)
{
    const struct endpoint_options options = {
        .markers_rx = markers, .markers_tx = markers, .ird = 2, .ord = 2};

    for (unsigned i = 0; i < 2; i++) {
        endpoint_init(&s->e[i], &options);
        octets_fill(&s->e[i].sent, 0, WIRE); /* grows no more */
        endpoint_forget_sent(&s->e[i]);
    }
    s->source = endpoint_area(&s->e[0], 0x00010100, 0x1000, OCTETS, LOCAL, 0x11);
    s->sink = endpoint_area(&s->e[0], 0x00010200, 0x1000, OCTETS, LOCAL, 0);
    s->target = endpoint_area(&s->e[1], 0x00020100, 0x1000, OCTETS, WRITABLE | READABLE, 0);
    s->landing = endpoint_area(&s->e[1], 0x00020200, 0x1000, OCTETS, LOCAL, 0);
    const struct iwarp_sge from = area_sge(s->source, 0, OCTETS), to = area_sge(s->sink, 0, OCTETS);
    struct iwarp_send_wr wr = {.opcode = IWARP_WR_WRITE,
                               .sg_list = &from,
                               .num_sge = 1,
                               .remote_stag = 0x00020100,
                               .remote_to = 0x1000};
    endpoint_recv_area(&s->e[1], s->landing);
    endpoint_post(&s->e[0], &wr);
    wr.opcode = IWARP_WR_SEND;
    endpoint_post(&s->e[0], &wr);
    wr.opcode = IWARP_WR_READ;
    wr.sg_list = &to;
    wr.flags = IWARP_WR_FENCE;
    endpoint_post(&s->e[0], &wr);
}

/* All that either has to say, in pieces that leave FPDUs half received. */
static void talk(struct sides *s)
{
    for (unsigned i = 0, quiet = 0; quiet < 2; i++) {
        struct endpoint *from = &s->e[i & 1], *to = &s->e[1 - (i & 1)];
        endpoint_drain(from);
        quiet = from->sent.n == 0 ? quiet + 1 : 0;
        for (size_t at = 0; at < from->sent.n; at += 1000) {
            size_t left = from->sent.n - at;
            iwarp_stream_feed(&to->s, from->sent.p + at, left < 1000 ? left : 1000);
            iwarp_stream_check(&to->s);
        }
        endpoint_forget_sent(from);
    }
}

/* Who had no memory says so; the other has its Terminate. */
static void check_fault(const struct sides *s)
{
    unsigned i = s->e[0].s.fault.code == IWARP_FAULT_LOCAL_NO_MEMORY ? 0 : 1;
    const struct iwarp_fault *own = &s->e[i].s.fault, *told = &s->e[1 - i].s.fault;

    assert_string_equal(iwarp_fault_name(own->code), "LOCAL_NO_MEMORY");
    assert_int_equal(own->side, IWARP_SIDE_LOCAL);
    if (told->code != IWARP_FAULT_NONE) { /* no memory for the Terminate either? then it is reset */
        assert_int_equal(told->side, IWARP_SIDE_PEER);
    } else {
        assert_true(s->e[i].s.abort);
    }
    assert_int_not_equal(s->e[i].s.life, STREAM_RUNNING);
}

static unsigned every_allocation(bool markers)
{
    struct sides s;

    for (unsigned n = 1;; n++) {
        sides_init(&s, markers);
        alloc_fault_at(n);
        talk(&s);
        unsigned tried = alloc_fault_count();
        alloc_fault_at(0);
        bool whole = tried < n;
        if (whole) {
            assert_int_equal(s.e[0].s.fault.code, IWARP_FAULT_NONE);
            assert_int_equal(s.e[1].s.fault.code, IWARP_FAULT_NONE);
            assert_int_equal(s.e[0].sq.done, 3);
            assert_memory_equal(s.sink->p, s.source->p, OCTETS);
            assert_memory_equal(s.landing->p, s.source->p, OCTETS);
        } else {
            check_fault(&s);
        }
        endpoint_fini(&s.e[0]);
        endpoint_fini(&s.e[1]);
        if (whole) {
            return n - 1;
        }
        assert_true(n < 200);
    }
}

static void exchange__any_allocation_fails__ends_with_that_fault(void **state)
{
    (void)state;
    assert_in_range(every_allocation(false), 4, 100);
}

static void exchange_with_markers__any_allocation_fails__ends_with_that_fault(void **state)
{
    (void)state;
    assert_in_range(every_allocation(true), 6, 100);
}

/* --- the rings of RDMA Reads in flight: 1, 2, 4, 8 slots -----------------------------------------
 */

#define READS   6 /* at a time: both rings grow */
#define GROWTHS 4 /* before requests 0, 1, 2, 4 */

static void post_reads(struct sides *s)
{
    const struct endpoint_options options = {.ird = 2 * READS, .ord = 2 * READS};

    for (unsigned i = 0; i < 2; i++) {
        endpoint_init(&s->e[i], &options);
        octets_fill(&s->e[i].sent, 0, WIRE);
        endpoint_forget_sent(&s->e[i]);
    }
    s->sink = endpoint_area(&s->e[0], 0x00010200, 0x1000, OCTETS, LOCAL, 0);
    s->target = endpoint_area(&s->e[1], 0x00020100, 0x1000, OCTETS, READABLE, 0x22);
    for (unsigned i = 0; i < READS; i++) {
        const struct iwarp_sge to = area_sge(s->sink, i * 100, 100);
        const struct iwarp_send_wr wr = {.opcode = IWARP_WR_READ,
                                         .sg_list = &to,
                                         .num_sge = 1,
                                         .remote_stag = 0x00020100,
                                         .remote_to = 0x1000 + i * 100};
        endpoint_post(&s->e[0], &wr);
    }
}

/* The initiator fails at a request that needs another slot, and says at which. */
static void check_requester(const struct sides *s, unsigned at)
{
    check_fault(s);
    assert_int_equal(s->e[0].s.fault.code, IWARP_FAULT_LOCAL_NO_MEMORY);
    for (unsigned i = 0; i < READS; i++) {
        assert_int_equal(endpoint_swqe(&s->e[0], i)->status,
                         i == at ? IWARP_WC_LOCAL_OPERATION : IWARP_WC_SUCCESS);
    }
}

/* The responder has no place for a request: what it had before is not answered either. */
static void check_responder(const struct sides *s)
{
    check_fault(s);
    assert_int_equal(s->e[1].s.fault.code, IWARP_FAULT_LOCAL_NO_MEMORY);
    assert_int_equal(s->e[0].s.fault.code, IWARP_FAULT_PEER_TERMINATE);
    assert_int_equal(s->e[0].sq.done, 0);
}

static void reads__a_ring_cannot_grow__ends_with_that_fault(void **state)
{
    unsigned requester = 0, responder = 0;
    bool whole = false;

    (void)state;
    for (unsigned n = 1; !whole; n++) {
        struct sides s;
        post_reads(&s);
        alloc_fault_at(n);
        talk(&s);
        whole = alloc_fault_count() < n;
        alloc_fault_at(0);
        if (whole) {
            assert_int_equal(s.e[0].sq.done, READS);
            assert_memory_equal(s.sink->p, s.target->p, READS * 100);
        } else if (s.e[0].s.fault.detail[0] == sizeof(struct iwarp_read_out)) {
            check_requester(&s, requester ? 1u << (requester - 1) : 0);
            requester++;
        } else if (s.e[1].s.fault.detail[0] == sizeof(struct iwarp_read_in)) {
            check_responder(&s);
            responder++;
        } else {
            check_fault(&s);
        }
        endpoint_fini(&s.e[0]);
        endpoint_fini(&s.e[1]);
    }
    assert_int_equal(requester, GROWTHS);
    assert_int_equal(responder, GROWTHS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exchange__any_allocation_fails__ends_with_that_fault),
        cmocka_unit_test(exchange_with_markers__any_allocation_fails__ends_with_that_fault),
        cmocka_unit_test(reads__a_ring_cannot_grow__ends_with_that_fault),
    };

    /* Its first use reads the settings, which allocates once and for no stream. */
    if (iwarp_crc32c_select(IWARP_CRC32C_AUTO) != 0) {
        return 1;
    }
    return cmocka_run_group_tests_name("stream_no_memory", tests, NULL, NULL);
}
