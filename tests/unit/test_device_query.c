/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a device says of itself: the options that hold, what RFC 7306 adds and whether it is there,
 * and limits that are exactly those of the calls: the value itself is taken, one more is not.
 */
#include "verbs_pair.h"

#include <stdlib.h>

static struct iwarp_device_info query(const struct iwarp_device *device)
{
    struct iwarp_device_info info = {.size = sizeof info};

    must(iwarp_device_query(device, &info));
    return info;
}

static void query__wrong_size__is_misuse(void **state)
{
    struct iwarp_device_info info = {.size = sizeof info - 1};
    struct iwarp_device *device = NULL;

    (void)state;
    must(iwarp_device_open(NULL, &device));
    must_fail(iwarp_device_query(device, &info), IWARP_MISUSE, "struct iwarp_device_info");
    assert_int_equal(info.max_sge, 0); /* untouched */
    must(iwarp_device_close(device));
}

static void query__options__are_what_holds(void **state)
{
    struct iwarp_device_options o;
    struct iwarp_device *device = NULL;

    (void)state;
    unsetenv("IWARP_PROGRESS");
    iwarp_device_options_init(&o);
    o.workers = 2;
    o.max_connections = 17;
    o.max_regions = 99;
    must(iwarp_device_open(&o, &device));
    struct iwarp_device_info info = query(device);
    assert_int_equal(info.options.size, sizeof o);
    assert_int_equal(info.options.workers, 2);
    assert_int_equal(info.options.max_connections, 17);
    assert_int_equal(info.options.max_regions, 99);
    assert_int_equal(info.options.progress, IWARP_PROGRESS_THREADED); /* not DEFAULT */
    assert_int_equal(info.options.rfc7306, IWARP_RFC7306_ON);
    must(iwarp_device_close(device));

    setenv("IWARP_PROGRESS", "polled", 1);
    must(iwarp_device_open(NULL, &device));
    assert_int_equal(query(device).options.progress, IWARP_PROGRESS_POLLED);
    must(iwarp_device_close(device));
    unsetenv("IWARP_PROGRESS");
}

/* Option and environment, and what is told and what is done agree. */
static void query__rfc_7306__is_told_as_it_is_done(void **state)
{
    static const struct {
        enum iwarp_rfc7306 option;
        const char *environment;
        bool there;
    } cases[] = {
        {IWARP_RFC7306_DEFAULT, NULL, true},   {IWARP_RFC7306_DEFAULT, "on", true},
        {IWARP_RFC7306_DEFAULT, "off", false}, {IWARP_RFC7306_ON, "off", true},
        {IWARP_RFC7306_OFF, NULL, false},      {IWARP_RFC7306_OFF, "on", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct iwarp_send_wr wr = pair_wr(IWARP_WR_IMM, 1, NULL);
        struct pair_options o;
        struct pair p;
        unsetenv("IWARP_RFC7306");
        if (cases[i].environment) {
            setenv("IWARP_RFC7306", cases[i].environment, 1);
        }
        pair_options_init(&o, PAIR_MEMORY);
        o.device.rfc7306 = cases[i].option;
        pair_open(&p, &o);
        struct iwarp_device_info info = query(p.device);
        assert_int_equal(info.features,
                         cases[i].there ? IWARP_FEATURE_IMMEDIATE | IWARP_FEATURE_ATOMIC : 0);
        assert_int_equal(info.options.rfc7306,
                         cases[i].there ? IWARP_RFC7306_ON : IWARP_RFC7306_OFF);
        pair_recv(&p.side[1], 1, 0, 0);
        assert_int_equal(iwarp_post_send(p.side[0].qp, &wr, NULL),
                         cases[i].there ? IWARP_OK : IWARP_MISUSE);
        pair_close(&p);
    }
    unsetenv("IWARP_RFC7306");
}

/* --- limits ---------------------------------------------------------------------------------- */

/* A queue pair with these options can be had, or not. */
static void expect_qp(const struct pair_side *s, const struct iwarp_qp_options *with, bool good)
{
    struct iwarp_qp_options o = *with;
    struct iwarp_qp *qp = NULL;

    o.send_cq = s->send_cq;
    o.recv_cq = s->recv_cq;
    assert_int_equal(iwarp_qp_create(s->pd, &o, &qp), good ? IWARP_OK : IWARP_MISUSE);
    if (good) {
        must(iwarp_qp_destroy(qp));
    }
}

static void query__limits_of_queue_pairs__are_those_of_create(void **state)
{
    struct iwarp_qp_options qp;
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_prepare(&p, &o);
    const struct iwarp_device_info info = query(p.device);
    assert_int_equal(info.max_wr, 65536);
    assert_int_equal(info.max_sge, 32);
    assert_int_equal(info.max_sge_rd, 32);
    assert_int_equal(info.max_inline, 1024);
    for (unsigned more = 0; more < 2; more++) {
        iwarp_qp_options_init(&qp);
        qp.max_send_wr = info.max_wr + more;
        expect_qp(&p.side[0], &qp, !more);
        iwarp_qp_options_init(&qp);
        qp.max_recv_wr = info.max_wr + more;
        expect_qp(&p.side[0], &qp, !more);
        iwarp_qp_options_init(&qp);
        qp.max_send_sge = info.max_sge + more;
        expect_qp(&p.side[0], &qp, !more);
        iwarp_qp_options_init(&qp);
        qp.max_recv_sge = info.max_sge + more;
        expect_qp(&p.side[0], &qp, !more);
        iwarp_qp_options_init(&qp);
        qp.max_inline = info.max_inline + more;
        expect_qp(&p.side[0], &qp, !more);
    }
    pair_close(&p);
}

static void query__limits_of_shared_queues__are_those_of_create(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_prepare(&p, &o);
    const struct iwarp_device_info info = query(p.device);
    for (unsigned i = 0; i < 4; i++) {
        struct iwarp_srq_options srq;
        struct iwarp_srq *made = NULL;
        iwarp_srq_options_init(&srq);
        srq.max_wr = i < 2 ? info.max_wr + i : 1;
        srq.max_sge = i < 2 ? 1 : info.max_sge + i - 2;
        assert_int_equal(iwarp_srq_create(p.side[0].pd, &srq, &made),
                         i % 2 ? IWARP_MISUSE : IWARP_OK);
        if (made) {
            must(iwarp_srq_destroy(made));
        }
    }
    struct iwarp_cq *cq = NULL;
    assert_int_equal(info.max_cq_entries, 4194304);
    must_fail(iwarp_cq_create(p.device, info.max_cq_entries + 1, NULL, &cq), IWARP_MISUSE,
              "4194305");
    pair_close(&p);
}

static void query__limits_of_connections__are_those_of_connect(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) { /* as many as may be, one more, one more the other way */
        struct pair_options o;
        struct pair p;
        pair_options_init(&o, PAIR_MEMORY);
        pair_prepare(&p, &o);
        const struct iwarp_device_info info = query(p.device);
        struct iwarp_conn_options conn = o.conn[0];
        conn.ird = info.max_ird + (i == 1);
        conn.ord = info.max_ord + (i == 2);
        enum iwarp_status status = iwarp_connect_pair(p.side[0].qp, p.side[1].qp, &conn, NULL,
                                                      &p.side[0].conn, &p.side[1].conn);
        assert_int_equal(status, i ? IWARP_MISUSE : IWARP_OK);
        if (i == 0) {
            must(iwarp_conn_wait(p.side[0].conn, PAIR_WAIT_MS));
        }
        assert_int_equal(info.max_private_data, 512);
        assert_true(info.max_region == SIZE_MAX);
        pair_close(&p);
    }
}

/* One octet too many is refused at once; the longest alone only because its memory is not there. */
static void query__longest_message__is_that_of_posting(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_open(&p, &o);
    const struct iwarp_device_info info = query(p.device);
    assert_true(info.max_message == 0xffffffffu);
    struct iwarp_sge sge[2] = {pair_sge(&p.side[0], 0, info.max_message),
                               pair_sge(&p.side[0], 0, 1)};
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_SEND, 1, sge);
    wr.num_sge = 2;
    must_fail(iwarp_post_send(p.side[0].qp, &wr, NULL), IWARP_MISUSE, "at most 2^32-1");
    wr.num_sge = 1;
    must(iwarp_post_send(p.side[0].qp, &wr, NULL)); /* it may be posted: what fails is the SGE */
    pair_wc(p.side[0].send_cq, 1, IWARP_WC_LOCAL_PROTECTION);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(query__wrong_size__is_misuse),
        cmocka_unit_test(query__options__are_what_holds),
        cmocka_unit_test(query__rfc_7306__is_told_as_it_is_done),
        cmocka_unit_test(query__limits_of_queue_pairs__are_those_of_create),
        cmocka_unit_test(query__limits_of_shared_queues__are_those_of_create),
        cmocka_unit_test(query__limits_of_connections__are_those_of_connect),
        cmocka_unit_test(query__longest_message__is_that_of_posting),
    };

    return cmocka_run_group_tests_name("device_query", tests, NULL, NULL);
}
