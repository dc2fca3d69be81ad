/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stream whose receives come from a shared block: one is taken when a message begins and no
 * earlier, those that are done come out in order, and with nothing there the peer is told so. Every
 * octet is literal; RFC 5041 7.1, RFC 5040 5.4.
 */
#include "deliveries.h"
#include "vectors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STRIDE  128u
#define ENTRIES 16u

/* What verbs would be. */
struct block {
    uint8_t *mem;
    unsigned posted; /* entries 0 to posted-1 are to be had, in this order */
    unsigned taken;
    unsigned asked;
    const struct iwarp_wq *rq;
    const void *pd;
    struct area *area;
};

static uint32_t take(void *arg)
{
    struct block *b = arg;

    assert_int_equal(b->rq->taken, IWARP_RQ_NONE); /* never two at a time */
    b->asked++;
    return b->taken < b->posted ? b->taken++ : IWARP_RQ_NONE;
}

static struct iwarp_rwqe *entry(const struct block *b, unsigned i)
{
    return (void *)(b->mem + (size_t)i * STRIDE);
}

/* Receives of 8 octets each, one behind the other in an area; the area may be of another PD. */
static void share(struct endpoint *e, struct block *b)
{
    b->mem = calloc(ENTRIES, STRIDE);
    assert_non_null(b->mem);
    b->taken = b->asked = 0;
    b->rq = &e->rq;
    b->area = b->pd ? endpoint_stranger(e, 0x00777701, 0, (size_t)8 * ENTRIES, LOCAL)
                    : endpoint_area(e, 0x00777701, 0, (size_t)8 * ENTRIES, LOCAL, 0xee);
    for (unsigned i = 0; i < ENTRIES; i++) {
        struct iwarp_rwqe *w = entry(b, i);
        *w = (struct iwarp_rwqe){.wr_id = i, .capacity = 8, .num_sge = 1};
        w->sgl[0] = (struct iwarp_sge){(void *)(uintptr_t)((size_t)8 * i), 8, 0x00777701};
    }
    iwarp_wq_fini(&e->rq);
    iwarp_rq_share(&e->rq, b->mem, STRIDE, b->pd ? b->area->region.pd : NULL, take, b);
}

static void setup(struct endpoint *e, void *arg)
{
    share(e, arg);
}

static void five_sends_came(struct endpoint *e, void *arg)
{
    static const uint32_t len[] = {5, 0, 4, 0, 1};
    struct block *b = arg;

    assert_int_equal(e->s.life, STREAM_RUNNING);
    assert_int_equal(b->taken, 5); /* and not a sixth */
    assert_int_equal(e->rq.taken, IWARP_RQ_NONE);
    for (unsigned i = 0; i < 5; i++) {
        struct iwarp_rwqe *w = iwarp_rq_pop(&e->rq);
        assert_ptr_equal(w, entry(b, i));
        assert_int_equal(w->wr_id, i);
        assert_int_equal(w->byte_len, len[i]);
        assert_int_equal(w->wc_flags, i == 2   ? IWARP_WC_SOLICITED
                                      : i == 3 ? IWARP_WC_WITH_INVALIDATE
                                      : i == 4 ? IWARP_WC_SOLICITED | IWARP_WC_WITH_INVALIDATE
                                               : 0);
    }
    assert_null(iwarp_rq_pop(&e->rq));
    assert_null(iwarp_rq_untake(&e->rq));
    assert_memory_equal(b->area->p, "hello", 5);
    assert_memory_equal(b->area->p + 16, "\1\2\3\4", 4);
    free(b->mem);
}

static void setup_five(struct endpoint *e, void *arg)
{
    endpoint_area(e, 0x12345678, 0, 8, READABLE, 1); /* what V04 and V05 invalidate */
    endpoint_area(e, 0xabcdef01, 0, 8, READABLE, 1);
    share(e, arg);
}

/* [RDMAP-5.3-02] */
static void sends__with_shared_receives__take_one_each_in_order(void **state)
{
    struct octets o = {0};
    struct block b = {.posted = ENTRIES};
    struct scene scene = {.setup = setup_five, .check = five_sends_came, .arg = &b};

    (void)state;
    octets_hex(&o, V01 V02 V03 V04 V05);
    scene.octets = o.p;
    scene.n = o.n;
    scene.options.ird = scene.options.ord = 1;
    receive_every_way(&scene);
    octets_free(&o);
}

static void empty_was_told(struct endpoint *e, void *arg)
{
    struct block *b = arg;

    assert_int_equal(e->s.fault.code, IWARP_FAULT_DDP_NO_BUFFER);
    assert_int_equal(b->taken, 1);
    assert_ptr_equal(iwarp_rq_pop(&e->rq), entry(b, 0)); /* what was done before stays done */
    assert_null(iwarp_rq_pop(&e->rq));
    assert_null(iwarp_rq_untake(&e->rq));
    /* 1/2/02, the segment's length, its header, and the CRC: those of a queue of its own. */
    endpoint_expect_sent(e, "002a4147 00000000 00000002 00000001 00000000 1202c000 00124143 "
                            "00000000 00000000 00000002 00000000 f6051872");
    free(b->mem);
}

static void send__nothing_in_the_shared_block__is_1_2_02(void **state)
{
    struct octets o = {0};
    struct block b = {.posted = 1};
    struct scene scene = {.setup = setup, .check = empty_was_told, .arg = &b};

    (void)state;
    octets_hex(&o, V01 V02);
    scene.octets = o.p;
    scene.n = o.n;
    receive_every_way(&scene);
    octets_free(&o);
}

static void half_a_message_came(struct endpoint *e, void *arg)
{
    struct block *b = arg;

    assert_int_equal(b->taken, 1);
    assert_null(iwarp_rq_pop(&e->rq)); /* not done */
    assert_memory_equal(b->area->p, "\0\1\2\3", 4);
    assert_ptr_equal(iwarp_rq_untake(&e->rq), entry(b, 0));
    assert_null(iwarp_rq_untake(&e->rq));
    free(b->mem);
}

/* The receive may name memory of another PD than the stream's: that of the shared queue. */
static void send__half_of_it__holds_the_receive_that_it_took(void **state)
{
    static const int other_pd;
    struct octets o = {0};
    struct block b = {.posted = 4};
    struct scene scene = {.setup = setup, .check = half_a_message_came, .arg = &b};

    (void)state;
    fpdu_hex(&o, "0143 00000000 00000000 00000001 00000000", 4);
    scene.octets = o.p;
    scene.n = o.n;
    for (int i = 0; i < 2; i++) {
        b.pd = i ? &other_pd : NULL;
        receive_every_way(&scene);
    }
    octets_free(&o);
}

static void nothing_was_taken(struct endpoint *e, void *arg)
{
    struct block *b = arg;

    assert_int_equal(b->asked, 0);
    assert_int_equal(e->s.life, STREAM_RUNNING);
    free(b->mem);
}

static void setup_write(struct endpoint *e, void *arg)
{
    endpoint_area(e, 0x00010203, 0x1000, 4, WRITABLE, 0);
    share(e, arg);
}

/* [RDMAP-5.1-02] [VERBS-8.1.2.2-01] */
static void write__with_shared_receives__takes_none(void **state)
{
    struct octets o = {0};
    struct block b = {.posted = 4};
    struct scene scene = {.setup = setup_write, .check = nothing_was_taken, .arg = &b};

    (void)state;
    octets_hex(&o, V06 V09);
    scene.octets = o.p;
    scene.n = o.n;
    receive_every_way(&scene);
    octets_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sends__with_shared_receives__take_one_each_in_order),
        cmocka_unit_test(send__nothing_in_the_shared_block__is_1_2_02),
        cmocka_unit_test(send__half_of_it__holds_the_receive_that_it_took),
        cmocka_unit_test(write__with_shared_receives__takes_none),
    };

    return cmocka_run_group_tests_name("stream_srq", tests, NULL, NULL);
}
