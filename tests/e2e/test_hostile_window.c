/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that uses memory windows, rightly and wrongly: rights, bounds, windows that were
 * invalidated, bound elsewhere, freed, or are another queue pair's. Each octet sent and each octet
 * that comes back is literal.
 *
 * RFC 5040 5.3, 7.2 and 8.1.1, RFC 5041 7.1 and 8.3.1, verbs draft 7.10.6.
 *
 * Names besides those of tcp_host.h:
 *   A  window of type 2, remote write, 256 octets from TO B on, inside a region of 4096
 *   D  window of type 2, remote read, the same octets from TO 0 on
 *   E  window of type 2 of another queue pair of the same PD, remote write, from TO B on
 *   F  window of type 1, remote write, the same; G what it was before it was bound again
 *   I  window of type 2 that was bound and invalidated; J one that was bound and freed
 *   O  region that only another queue pair of the same PD may use; S one of this queue pair alone
 *   K  A with another key; M the region's own STag, which has no remote rights
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tcp_host.h"

#include <iwarp/qp.h>

#include <stdlib.h>
#include <string.h>

#define WINDOW_AT  256
#define WINDOW_LEN 256

struct scene {
    struct tcp_host *h;
    uint8_t *memory;
    struct iwarp_mr *mr, *o, *s; /* o, s: the memory, remote write, for one queue pair each */
    struct iwarp_mw *a, *d, *e, *f, *i;
};

/* Two queue pairs of the same protection domain, connected with each other. */
static struct {
    struct iwarp_cq *cq;
    struct iwarp_qp *qp[2];
    struct iwarp_conn *conn[2];
} others;

static struct tcp_host *host;

static int open_host(void **state)
{
    (void)state;
    struct iwarp_qp_options o;

    host = host_open(NULL, NULL);
    assert_int_equal(iwarp_cq_create(host->device, 16, NULL, &others.cq), IWARP_OK);
    iwarp_qp_options_init(&o);
    o.send_cq = o.recv_cq = others.cq;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(iwarp_qp_create(host->pd, &o, &others.qp[i]), IWARP_OK);
    }
    assert_int_equal(iwarp_connect_pair(others.qp[0], others.qp[1], NULL, NULL, &others.conn[0],
                                        &others.conn[1]),
                     IWARP_OK);
    assert_int_equal(iwarp_conn_wait(others.conn[0], RAW_PATIENCE_MS), IWARP_OK);
    return 0;
}

static int close_host(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(iwarp_qp_destroy(others.qp[i]), IWARP_OK);
        assert_int_equal(iwarp_conn_destroy(others.conn[i]), IWARP_OK);
    }
    assert_int_equal(iwarp_cq_destroy(others.cq), IWARP_OK);
    host_close(host);
    return 0;
}

/* --- binding --------------------------------------------------------------------------------- */

static void finish(struct iwarp_cq *cq, uint64_t wr_id, enum iwarp_wc_opcode opcode)
{
    struct iwarp_wc wc;

    memset(&wc, 0, sizeof wc);
    assert_int_equal(iwarp_cq_wait(cq, &wc, 1, RAW_PATIENCE_MS), 1);
    assert_int_equal(wc.wr_id, wr_id);
    assert_int_equal(wc.status, IWARP_WC_SUCCESS);
    assert_int_equal(wc.opcode, opcode);
}

static struct iwarp_mw *bound(struct scene *s, enum iwarp_mw_type type, unsigned access,
                              struct iwarp_qp *qp, struct iwarp_cq *cq)
{
    struct iwarp_mw *mw;

    assert_int_equal(iwarp_mw_alloc(s->h->pd, type, &mw), IWARP_OK);
    const struct iwarp_bind b = {.mr = s->mr,
                                 .mw = mw,
                                 .addr = s->memory + WINDOW_AT,
                                 .len = WINDOW_LEN,
                                 .access = access,
                                 .key = (uint8_t)(iwarp_mw_stag(mw) + 3)};
    const struct iwarp_send_wr wr = {
        .wr_id = 7, .opcode = IWARP_WR_BIND_MW, .flags = IWARP_WR_SIGNALED, .bind = &b};
    assert_int_equal(type == IWARP_MW_TYPE_1 ? iwarp_mw_bind(qp, mw, &b, 7, IWARP_WR_SIGNALED)
                                             : iwarp_post_send(qp, &wr, NULL),
                     IWARP_OK);
    finish(cq, 7, IWARP_WC_BIND_MW);
    return mw;
}

static void name_window(struct scene *s, char letter, const struct iwarp_mw *mw)
{
    raw_name(&s->h->names, letter, iwarp_mw_stag(mw), 4);
}

static void bind_all(struct scene *s)
{
    const unsigned wr = IWARP_ACCESS_REMOTE_WRITE;
    struct tcp_host *h = s->h;

    s->a = bound(s, IWARP_MW_TYPE_2, wr, h->qp, h->cq);
    s->d =
        bound(s, IWARP_MW_TYPE_2, IWARP_ACCESS_REMOTE_READ | IWARP_ACCESS_ZERO_BASED, h->qp, h->cq);
    s->e = bound(s, IWARP_MW_TYPE_2, wr, others.qp[0], others.cq);
    s->f = bound(s, IWARP_MW_TYPE_1, wr, h->qp, h->cq);
    name_window(s, 'G', s->f);
    const struct iwarp_bind again = {
        .mr = s->mr, .addr = s->memory + WINDOW_AT, .len = WINDOW_LEN, .access = wr};
    assert_int_equal(iwarp_mw_bind(h->qp, s->f, &again, 8, IWARP_WR_SIGNALED), IWARP_OK);
    finish(h->cq, 8, IWARP_WC_BIND_MW);
    s->i = bound(s, IWARP_MW_TYPE_2, wr, h->qp, h->cq);
    const struct iwarp_send_wr inv = {.wr_id = 9,
                                      .opcode = IWARP_WR_LOCAL_INV,
                                      .flags = IWARP_WR_SIGNALED,
                                      .invalidate_stag = iwarp_mw_stag(s->i)};
    assert_int_equal(iwarp_post_send(h->qp, &inv, NULL), IWARP_OK);
    finish(h->cq, 9, IWARP_WC_LOCAL_INV);
    struct iwarp_mw *gone = bound(s, IWARP_MW_TYPE_2, wr, h->qp, h->cq);
    name_window(s, 'J', gone);
    assert_int_equal(iwarp_mw_free(gone), IWARP_OK);
    name_window(s, 'A', s->a);
    name_window(s, 'D', s->d);
    name_window(s, 'E', s->e);
    name_window(s, 'F', s->f);
    name_window(s, 'I', s->i);
    raw_name(&h->names, 'K', iwarp_mw_stag(s->a) ^ 0x80, 4);
    raw_name(&h->names, 'M', iwarp_mr_stag(s->mr), 4);
    raw_name(&h->names, 'B', (uint64_t)(uintptr_t)(s->memory + WINDOW_AT), 8);
}

static struct iwarp_mr *limited(struct scene *s, char letter, struct iwarp_qp *qp)
{
    struct iwarp_mr_options o;
    struct iwarp_mr *mr;

    iwarp_mr_options_init(&o, s->memory, HOST_AREA,
                          IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE);
    o.qp = qp;
    assert_int_equal(iwarp_mr_create(s->h->pd, &o, &mr), IWARP_OK);
    raw_name(&s->h->names, letter, iwarp_mr_stag(mr), 4);
    return mr;
}

static void open_scene(struct scene *s, enum host_role role, enum iwarp_placement placement)
{
    *s = (struct scene){.h = host};
    s->memory = malloc(HOST_AREA);
    assert_non_null(s->memory);
    memset(s->memory, 0x77, HOST_AREA);
    assert_int_equal(iwarp_mr_register(host->pd, s->memory, HOST_AREA,
                                       IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_MW_BIND, &s->mr),
                     IWARP_OK);
    host_options(host);
    host->options.placement = placement;
    host_connect(host, role, 2, HOST_RECEIVES);
    bind_all(s);
    s->o = limited(s, 'O', others.qp[0]);
    s->s = limited(s, 'S', host->qp);
}

/* Octets [from, from + n) of the region are `fill`, all others as they were. */
static void check_memory(const struct scene *s, size_t from, size_t n, uint8_t fill)
{
    for (size_t i = 0; i < HOST_AREA; i++) {
        uint8_t want = i >= from && i < from + n ? fill : 0x77;
        if (s->memory[i] != want) {
            fail_msg("octet %zu is 0x%02x, not 0x%02x", i, s->memory[i], want);
        }
    }
}

static void close_scene(struct scene *s)
{
    host_finish(s->h);
    assert_int_equal(iwarp_mr_deregister(s->mr), IWARP_MISUSE); /* windows are bound */
    assert_int_equal(iwarp_mw_free(s->a), IWARP_OK);
    assert_int_equal(iwarp_mw_free(s->d), IWARP_OK);
    assert_int_equal(iwarp_mw_free(s->e), IWARP_OK);
    assert_int_equal(iwarp_mw_free(s->f), IWARP_OK);
    assert_int_equal(iwarp_mw_free(s->i), IWARP_OK);
    assert_int_equal(iwarp_mr_deregister(s->mr), IWARP_OK);
    assert_int_equal(iwarp_mr_deregister(s->o), IWARP_OK);
    assert_int_equal(iwarp_mr_deregister(s->s), IWARP_OK);
    free(s->memory);
    host_check_quiet(s->h);
}

/* --- what ends the stream -------------------------------------------------------------------- */

#define FAULT(name) IWARP_FAULT_##name
#define TERM        "00264147 00000000 00000002 00000001 00000000 "
#define TERM_SEND   "002a4147 00000000 00000002 00000001 00000000 "
#define TERM_READ   "00464147 00000000 00000002 00000001 00000000 "
#define ZERO        "00000000 00000000 "
#define SEND(stag)  "00174144 " stag " 00000000 00000001 00000000 "
#define READ_MSN(n) "002e4141 00000000 00000001 0000000" n " 00000000 11223344 00000000 00002000 "
#define READ        READ_MSN("1")
#define ANSWER      "000ec142 11223344 00000000 00002000 C"

static const struct {
    const char *name, *sent, *answer;
    enum iwarp_fault_code fault;
} rows[] = {
    {"write__window_without_that_right", "0012c140 D " ZERO "deadbeef C",
     TERM "1102c000 0012c140 D " ZERO "C", FAULT(DDP_ACCESS)},
    {"write__before_the_window_but_in_the_region", "0012c140 A B-1 deadbeef C",
     TERM "1101c000 0012c140 A B-1 C", FAULT(DDP_BOUNDS)},
    {"write__leaves_the_window_but_not_the_region", "0012c140 A B+fd deadbeef C",
     TERM "1101c000 0012c140 A B+fd C", FAULT(DDP_BOUNDS)},
    {"write__zero_based_to_of_another_window", "0012c140 A " ZERO "deadbeef C",
     TERM "1101c000 0012c140 A " ZERO "C", FAULT(DDP_BOUNDS)},
    {"write__invalidated_window", "0012c140 I B deadbeef C", TERM "1100c000 0012c140 I B C",
     FAULT(DDP_STAG_INVALID)},
    {"write__freed_window", "0012c140 J B deadbeef C", TERM "1100c000 0012c140 J B C",
     FAULT(DDP_STAG_INVALID)},
    {"write__window_bound_again_by_its_old_stag", "0012c140 G B deadbeef C",
     TERM "1100c000 0012c140 G B C", FAULT(DDP_STAG_INVALID)},
    {"write__wrong_key", "0012c140 K B deadbeef C", TERM "1100c000 0012c140 K B C",
     FAULT(DDP_STAG_INVALID)},
    {"write__window_of_another_queue_pair", "0012c140 E B deadbeef C",
     TERM "1102c000 0012c140 E B C", FAULT(DDP_STAG_QP)},
    {"write__region_itself_has_no_remote_right", "0012c140 M B deadbeef C",
     TERM "1102c000 0012c140 M B C", FAULT(DDP_ACCESS)},
    {"read__window_without_that_right", READ "00000004 A B C",
     TERM_READ "0102e000 " READ "00000004 A B C", FAULT(RDMAP_ACCESS)},
    {"read__leaves_the_window", READ "00000004 D 00000000 000000fd C",
     TERM_READ "0101e000 " READ "00000004 D 00000000 000000fd C", FAULT(RDMAP_BOUNDS)},
    {"read__invalidated_window", READ "00000004 I B C", TERM_READ "0100e000 " READ "00000004 I B C",
     FAULT(RDMAP_STAG_INVALID)},
    {"read__window_of_another_queue_pair", READ "00000004 E B C",
     TERM_READ "0103e000 " READ "00000004 E B C", FAULT(RDMAP_STAG_QP)},
    {"invalidate__window_of_type_1", SEND("F") "68656c6c 6f 000000 C",
     TERM_SEND "0109c000 " SEND("F") "C", FAULT(RDMAP_INVALIDATE)},
    {"invalidate__window_of_another_queue_pair", SEND("E") "68656c6c 6f 000000 C",
     TERM_SEND "0109c000 " SEND("E") "C", FAULT(RDMAP_INVALIDATE)},
    {"invalidate__window_that_is_invalid", SEND("I") "68656c6c 6f 000000 C",
     TERM_SEND "0109c000 " SEND("I") "C", FAULT(RDMAP_INVALIDATE)},
    {"invalidate__region_of_the_windows", SEND("M") "68656c6c 6f 000000 C",
     TERM_SEND "0109c000 " SEND("M") "C", FAULT(RDMAP_INVALIDATE)},
    {"write__region_of_another_queue_pair", "0012c140 O B deadbeef C",
     TERM "1102c000 0012c140 O B C", FAULT(DDP_STAG_QP)},
    /* [RDMAP-5.3-12] [RDMAP-7.2-08] */
    {"invalidate__region_of_another_queue_pair", SEND("O") "68656c6c 6f 000000 C",
     TERM_SEND "0109c000 " SEND("O") "C", FAULT(RDMAP_INVALIDATE)},
    /* [RDMAP-8.1.1-07] */
    {"invalidate__region_that_other_streams_may_use", SEND("W") "68656c6c 6f 000000 C",
     TERM_SEND "0109c000 " SEND("W") "C", FAULT(RDMAP_INVALIDATE_SHARED)},
};

/* [VERBS-7.10.6.2-01] [VERBS-7.10.6.2-02] */
static void window__used_wrongly__is_the_right_terminate(void **state)
{
    struct scene s;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (unsigned round = 0; round < 4; round++) {
            print_message("%s, %s, %s\n", rows[i].name, round & 1 ? "responder" : "initiator",
                          round & 2 ? "early" : "verified");
            open_scene(&s, round & 1 ? HOST_RESPONDER : HOST_INITIATOR,
                       round & 2 ? IWARP_PLACE_EARLY : IWARP_PLACE_VERIFIED);
            raw_say(host->fd, &host->names, rows[i].sent);
            raw_hear(host->fd, &host->names, rows[i].answer, "the Terminate");
            raw_expect_fin(host->fd, "behind the Terminate");
            host_ended(host, rows[i].fault, HOST_RECEIVES);
            check_memory(&s, 0, 0, 0);
            close_scene(&s);
        }
    }
}

/*
 * [VERBS-8.1.2.2-02 VERBS-7.10.6.2-01] The queue pair stops allowing what its STags still would.
 * Zero lengths pass.
 */
static void window__of_a_queue_pair_that_withholds_rights__is_of_no_use(void **state)
{
    static const struct {
        const char *sent, *answer;
        enum iwarp_fault_code fault;
    } row[] = {
        {"0012c140 A B deadbeef C", TERM "1102c000 0012c140 A B C", FAULT(DDP_QP_ACCESS)},
        {READ_MSN("3") "00000004 D " ZERO "C",
         TERM_READ "0102e000 " READ_MSN("3") "00000004 D " ZERO "C", FAULT(RDMAP_QP_ACCESS)},
        {SEND("A") "68656c6c 6f 000000 C", TERM_SEND "0109c000 " SEND("A") "C",
         FAULT(RDMAP_INVALIDATE)},
    };
    const struct iwarp_qp_changes nothing = {.size = sizeof nothing,
                                             .mask = IWARP_QP_CHANGE_ACCESS};
    struct scene s;

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        open_scene(&s, HOST_INITIATOR, IWARP_PLACE_VERIFIED);
        raw_say(host->fd, &host->names, "0012c140 A B 77777777 C |" READ "00000000 D " ZERO "C");
        raw_hear(host->fd, &host->names, ANSWER, "the response: the Write was allowed");
        assert_int_equal(iwarp_qp_modify(host->qp, &nothing), IWARP_OK);
        raw_say(host->fd, &host->names, "000ec140 A B C |" READ_MSN("2") "00000000 D " ZERO "C");
        raw_hear(host->fd, &host->names, ANSWER, "the response: nothing is checked");
        raw_say(host->fd, &host->names, row[i].sent);
        raw_hear(host->fd, &host->names, row[i].answer, "the Terminate");
        raw_expect_fin(host->fd, "behind the Terminate");
        host_ended(host, row[i].fault, HOST_RECEIVES);
        check_memory(&s, 0, 0, 0);
        close_scene(&s);
    }
}

/* --- what is right --------------------------------------------------------------------------- */

static void hear_the_end(struct scene *s, const char *terminate, enum iwarp_fault_code code,
                         unsigned left)
{
    raw_hear(host->fd, &host->names, terminate, "the Terminate");
    raw_expect_fin(host->fd, "behind the Terminate");
    host_ended(s->h, code, left);
}

/* The first and the last octets of windows; zero lengths are not checked at all. */
static void window__used_rightly__is_written_and_read(void **state)
{
    struct scene s;

    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        open_scene(&s, round ? HOST_RESPONDER : HOST_INITIATOR, IWARP_PLACE_VERIFIED);
        raw_say(host->fd, &host->names,
                "0012c140 A B 55555555 C | 0012c140 F B+4 55555555 C | 0012c140 A B+fc 55555555 C"
                "| 000ec140 I B C | 000ec140 E B C |" READ "00000000 J B C |"
                "002e4141 00000000 00000001 00000002 00000000 11223344 00000000 00002000"
                "00000008 D 00000000 00000004 C |"
                "002e4141 00000000 00000001 00000003 00000000 11223344 00000000 00002000"
                "00000001 D 00000000 000000ff C");
        raw_hear(host->fd, &host->names,
                 "000ec142 11223344 00000000 00002000 C |"
                 "0016c142 11223344 00000000 00002000 55555555 77777777 C |"
                 "000fc142 11223344 00000000 00002000 55 000000 C",
                 "the responses");
        for (unsigned i = 0; i < HOST_AREA; i++) {
            bool written = (i >= WINDOW_AT && i < WINDOW_AT + 8) ||
                           (i >= WINDOW_AT + 252 && i < WINDOW_AT + 256);
            assert_int_equal(s.memory[i], written ? 0x55 : 0x77);
        }
        raw_fin(host->fd);
        raw_expect_fin(host->fd, "in order");
        host_ended(host, IWARP_FAULT_NONE, HOST_RECEIVES);
        close_scene(&s);
    }
}

/*
 * Send with Invalidate: the Receive completes with the STag, from then on nothing lands, and the
 * window may be bound again. RFC 5040 5.3, verbs draft 8.2.2.1.
 */
/* [VERBS-8.2.2.1-01] */
static void window__invalidated_by_the_peer__is_closed_when_the_receive_completes(void **state)
{
    struct scene s;

    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        open_scene(&s, round ? HOST_RESPONDER : HOST_INITIATOR, IWARP_PLACE_VERIFIED);
        uint32_t stag = iwarp_mw_stag(s.a);
        raw_say(host->fd, &host->names,
                "0012c140 A B 55555555 C |" SEND("A") "68656c6c 6f 000000 C");
        struct iwarp_wc wc = host_completion(host);
        assert_int_equal(wc.status, IWARP_WC_SUCCESS);
        assert_int_equal(wc.flags, IWARP_WC_WITH_INVALIDATE);
        assert_int_equal(wc.invalidated_stag, stag);
        struct iwarp_stag_info info = {.size = sizeof info};
        assert_int_equal(iwarp_mw_query(s.a, &info), IWARP_OK);
        assert_false(info.valid);
        assert_int_equal(info.stag, stag);
        check_memory(&s, WINDOW_AT, 4, 0x55);
        const struct iwarp_bind b = {.mr = s.mr,
                                     .mw = s.a,
                                     .addr = s.memory + WINDOW_AT,
                                     .len = 2,
                                     .access = IWARP_ACCESS_REMOTE_WRITE,
                                     .key = (uint8_t)(stag + 1)};
        const struct iwarp_send_wr wr = {
            .wr_id = 7, .opcode = IWARP_WR_BIND_MW, .flags = IWARP_WR_SIGNALED, .bind = &b};
        assert_int_equal(iwarp_post_send(host->qp, &wr, NULL), IWARP_OK);
        finish(host->cq, 7, IWARP_WC_BIND_MW);
        raw_name(&host->names, 'Y', iwarp_mw_stag(s.a), 4);
        raw_say(host->fd, &host->names, "0010c140 Y B 7777 0000 C | 0012c140 A B deadbeef C");
        hear_the_end(&s, TERM "1100c000 0012c140 A B C", IWARP_FAULT_DDP_STAG_INVALID,
                     HOST_RECEIVES - 1);
        check_memory(&s, WINDOW_AT + 2, 2, 0x55);
        close_scene(&s);
    }
}

/* What no other stream may use, its peer may invalidate, whoever else shares the PD. */
/* [RDMAP-8.1.1-07] [RDMAP-5.3-13] */
static void region__of_this_stream_alone__is_closed_when_the_receive_completes(void **state)
{
    struct iwarp_stag_info info = {.size = sizeof info};
    struct scene s;

    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        open_scene(&s, round ? HOST_RESPONDER : HOST_INITIATOR, IWARP_PLACE_VERIFIED);
        raw_say(host->fd, &host->names,
                "0012c140 S B 55555555 C |" SEND("S") "68656c6c 6f 000000 C");
        struct iwarp_wc wc = host_completion(host);
        assert_int_equal(wc.status, IWARP_WC_SUCCESS);
        assert_int_equal(wc.flags, IWARP_WC_WITH_INVALIDATE);
        assert_int_equal(wc.invalidated_stag, iwarp_mr_stag(s.s));
        assert_int_equal(iwarp_mr_query(s.s, &info), IWARP_OK);
        assert_false(info.valid);
        assert_int_equal(iwarp_mr_query(s.o, &info), IWARP_OK);
        assert_true(info.valid);
        raw_say(host->fd, &host->names, "0012c140 S B deadbeef C");
        hear_the_end(&s, TERM "1100c000 0012c140 S B C", IWARP_FAULT_DDP_STAG_INVALID,
                     HOST_RECEIVES - 1);
        check_memory(&s, WINDOW_AT, 4, 0x55);
        close_scene(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(window__used_wrongly__is_the_right_terminate),
        cmocka_unit_test(window__of_a_queue_pair_that_withholds_rights__is_of_no_use),
        cmocka_unit_test(window__used_rightly__is_written_and_read),
        cmocka_unit_test(window__invalidated_by_the_peer__is_closed_when_the_receive_completes),
        cmocka_unit_test(region__of_this_stream_alone__is_closed_when_the_receive_completes),
    };

    return cmocka_run_group_tests_name("hostile_window", tests, open_host, close_host);
}
