/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that end a connection badly, or with a Terminate: FIN in the middle of an FPDU or of work,
 * reset in mid-transfer, Terminates of every style in use, octets in masses behind a fault.
 *
 * RFC 5040 4.8, 5.4 and 7.1, RFC 5041 6.2, RFC 5044 8.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loop/loop.h"
#include "progress.h"
#include "tcp_host.h"
#include "verbs/device.h"

#define V01       "00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 b990b10c"
#define V16       "00164147 00000000 00000002 00000001 00000000 20020000 7fe42585"
#define V17       "00164147 00000000 00000002 00000001 00000000 00000000 f9a26f1d"
#define V24       "000ec140 00000001 00000000 00000000 ebd34c5f"
#define TERM_0207 "00164147 00000000 00000002 00000001 00000000 02070000 11e5f8d6"

static struct tcp_host *host;

static int setup(void **state)
{
    (void)state;
    host = host_open(NULL, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    host_close(host);
    return 0;
}

static void connect_raw(enum host_role role, unsigned receives)
{
    host_options(host);
    host_connect(host, role, 1, receives);
}

static void over(void)
{
    host_finish(host);
    host_check_memory(host);
    host_check_quiet(host);
    host_reset_memory(host);
}

/* --- FIN ------------------------------------------------------------------------------------- */

static void cut_by_fin(const char *text, size_t n, enum host_role role)
{
    struct octets o = {0};

    raw_text(&o, &host->names, text);
    n = n < o.n ? n : o.n - 1;
    connect_raw(role, HOST_RECEIVES);
    raw_say(host->fd, NULL, V24);
    raw_send(host->fd, o.p, n);
    octets_free(&o);
    raw_fin(host->fd);
    raw_hear(host->fd, NULL, TERM_0207, "the Terminate");
    raw_expect_fin(host->fd, "behind the Terminate");
    host_ended(host, IWARP_FAULT_RDMAP_PEER_CLOSED, HOST_RECEIVES);
    over();
}

static void fin__in_the_middle_of_an_fpdu__is_0_2_07(void **state)
{
    (void)state;
    for (size_t n = 1; n < 32; n++) {
        cut_by_fin(V01, n, n & 1 ? HOST_INITIATOR : HOST_RESPONDER);
    }
    for (size_t n = 1; n < 3100; n += 333) {
        cut_by_fin("0bc6c140 W T N33*3000 C", n, n & 1 ? HOST_INITIATOR : HOST_RESPONDER);
    }
    cut_by_fin("0bc6c140 W T N33*3000 C", SIZE_MAX, HOST_INITIATOR);
}

/* A responder that has seen no FPDU may not send a Terminate. */
static void fin__in_the_middle_of_the_first_fpdu__has_no_answer(void **state)
{
    (void)state;
    connect_raw(HOST_RESPONDER, HOST_RECEIVES);
    raw_say(host->fd, NULL, "00174143 00000000 0000");
    raw_fin(host->fd);
    raw_expect_fin(host->fd, "half an FPDU");
    host_ended(host, IWARP_FAULT_RDMAP_PEER_CLOSED, HOST_RECEIVES);
    over();
}

static void fin__while_an_rdma_read_is_outstanding__is_0_2_07(void **state)
{
    (void)state;
    for (int role = 0; role < 2; role++) {
        connect_raw((enum host_role)role, HOST_RECEIVES);
        host_begin_read(host);
        raw_fin(host->fd);
        raw_hear(host->fd, NULL, TERM_0207, "the Terminate");
        raw_expect_fin(host->fd, "behind the Terminate");
        host_ended(host, IWARP_FAULT_RDMAP_PEER_CLOSED, HOST_RECEIVES + 1);
        over();
    }
}

/* At the border of two FPDUs, but a Send needs its last segment, also behind one without octets,
 * and so does an RDMA Write. */
static void fin__in_the_middle_of_a_message__is_0_2_07(void **state)
{
    static const char *const segments[] = {
        "00170143 00000000 00000000 00000001 00000000 68656c6c 6f000000 C",
        "00120143 00000000 00000000 00000001 00000000 C", "00168140 W T 0102030405060708 C",
        "000e8140 W T C", "0016c140 W T 0102030405060708 C | 00168140 W T 0102030405060708 C"};

    (void)state;
    for (unsigned i = 0; i < 2 * sizeof segments / sizeof *segments; i++) {
        connect_raw((enum host_role)(i % 2), HOST_RECEIVES);
        raw_say(host->fd, &host->names, segments[i / 2]);
        raw_fin(host->fd);
        raw_hear(host->fd, NULL, TERM_0207, "the Terminate");
        raw_expect_fin(host->fd, "behind the Terminate");
        host_ended(host, IWARP_FAULT_RDMAP_PEER_CLOSED, HOST_RECEIVES);
        host_reset_memory(host); /* the segments of Writes are in place */
        over();
    }
}

/* The peer half-closes behind its last request, and still gets the answer. */
static void fin__behind_a_read_request__is_answered_first(void **state)
{
    (void)state;
    connect_raw(HOST_RESPONDER, 0);
    struct octets ulpdu = {0}, answer = {0};
    raw_say(host->fd, &host->names,
            "002e4141 00000000 00000001 00000001 00000000 11223344 00000000 00002000 00000008"
            "R U C");
    raw_fin(host->fd);
    raw_text(&ulpdu, NULL, "c142 11223344 00000000 00002000");
    octets_add(&ulpdu, host->r.p, 8);
    fpdu_add(&answer, ulpdu.p, ulpdu.n, 0);
    raw_expect(host->fd, answer.p, answer.n, "the RDMA Read Response");
    octets_free(&ulpdu);
    octets_free(&answer);
    raw_expect_fin(host->fd, "a close in order");
    host_ended(host, IWARP_FAULT_NONE, 0);
    over();
}

/* --- behind our FIN ----------------------------------------------------------------------------
 */

/* The peer may go on until its own FIN: what it sends is placed and delivered. RFC 5041 6.2.1 */
/* [DDP-6.2.1-06] */
static void send__behind_our_fin__is_delivered(void **state)
{
    (void)state;
    for (int role = 0; role < 2; role++) {
        connect_raw(role ? HOST_INITIATOR : HOST_RESPONDER, HOST_RECEIVES);
        raw_say(host->fd, &host->names, "0012c140 W T cafebabe C");
        assert_int_equal(iwarp_disconnect(host->conn), IWARP_OK);
        raw_expect_fin(host->fd, "our half of the close");
        raw_say(host->fd, &host->names,
                "0012c140 W T deadbeef C |"
                "00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 b990b10c");
        assert_int_equal(host_completion(host).byte_len, 5);
        assert_memory_equal(host->w.p, "\xde\xad\xbe\xef", 4);
        raw_fin(host->fd);
        host_ended(host, IWARP_FAULT_NONE, HOST_RECEIVES - 1);
        host_finish(host);
        host_reset_memory(host);
    }
}

/* --- reset ----------------------------------------------------------------------------------- */

/* [DDP-3-03] */
static void reset__in_the_middle_of_an_fpdu__flushes_everything(void **state)
{
    struct octets o = {0};

    (void)state;
    raw_text(&o, &host->names, "0bc6c140 W T N33*3000 C");
    for (size_t n = 0; n < o.n; n += 501) {
        connect_raw(n & 1 ? HOST_INITIATOR : HOST_RESPONDER, HOST_RECEIVES);
        host_post_read(host);
        raw_say(host->fd, NULL, V24);
        raw_send(host->fd, o.p, n);
        raw_reset(host->fd);
        host->fd = -1;
        host_ended(host, IWARP_FAULT_TCP_LOST, HOST_RECEIVES + 1);
        over();
    }
    octets_free(&o);
}

/* --- Terminates that are received ------------------------------------------------------------ */

static const struct {
    const char *payload; /* of the Terminate */
    const char *says;    /* part of the fault's text */
    enum iwarp_wc_status read;
} terminates[] = {
    {"20020000", "layer 2, error type 0, code 0x02 (MPA_CRC)", IWARP_WC_REMOTE_OPERATION},
    {"00000000", "layer 0, error type 0, code 0x00", IWARP_WC_REMOTE_OPERATION},
    {"00ff0000",
     "layer 0, error type 0, code 0xff: it had a local catastrophic error; its log or its events "
     "tell which [",
     IWARP_WC_REMOTE_OPERATION},
    {"02060000", "layer 0, error type 2, code 0x06", IWARP_WC_REMOTE_OPERATION},
    {"10000000", "layer 1, error type 0, code 0x00", IWARP_WC_REMOTE_OPERATION},
    /* with M and D: a tagged and an untagged header */
    {"1100c000 0012c140 00010203 00000000 00001000",
     "layer 1, error type 1, code 0x00 (DDP_STAG_INVALID): the STag of a tagged segment is invalid "
     "there; it quotes a tagged segment (opcode 0x0) to STag 0x00010203, TO 0x0000000000001000 [",
     IWARP_WC_REMOTE_ACCESS},
    {"1202c000 00174143 00000000 00000000 00000001 00000000",
     "code 0x02 (DDP_NO_BUFFER): a message came with no receive posted; it quotes message 1 of "
     "queue 0 (opcode 0x3) [",
     IWARP_WC_REMOTE_INVALID},
    /* with M, D and R */
    {"0102e000 002e4141 00000000 00000001 00000001 00000000 11223344 00000000 00002000 00000100"
     "11223344 00000000 00002000",
     "code 0x02 (RDMAP_ACCESS): the region does not allow this remote access; it quotes RDMA Read "
     "Request 1 for 256 octets of STag 0x11223344, TO 0x0000000000002000 [",
     IWARP_WC_REMOTE_ACCESS},
    /* siw: type before layer, HdrCt in the low bits */
    {"02020000", "layer 2, error type 0, code 0x02 (MPA_CRC)", IWARP_WC_REMOTE_OPERATION},
    {"11000300 0012c140 00010203 00000000 00001000",
     "layer 1, error type 1, code 0x00 (DDP_STAG_INVALID)", IWARP_WC_REMOTE_ACCESS},
    {"21030300 00174143 00000000 00000000 00000001 00000000", "layer 1, error type 2, code 0x03",
     IWARP_WC_REMOTE_INVALID},
    {"10010700 002e4141 00000000 00000001 00000001 00000000 11223344 00000000 00002000 00000100"
     "11223344 00000000 00002000",
     "code 0x01 (RDMAP_BOUNDS): a remote access went beyond its region; in the bit order of siw; "
     "it "
     "quotes RDMA Read Request 1 for 256 octets of STag 0x11223344, TO 0x0000000000002000 [",
     IWARP_WC_REMOTE_ACCESS},
    /* Chelsio and Intel: MPA errors with type 3 */
    {"23020000", "layer 2, error type 0, code 0x02 (MPA_CRC)", IWARP_WC_REMOTE_OPERATION},
    {"23070000", "layer 2, error type 0, code 0x07 (MPA_NO_RTR)", IWARP_WC_REMOTE_OPERATION},
    /* flags without what they promise, more than they promise, and what nobody has registered */
    {"1100c000", "layer 1, error type 1, code 0x00", IWARP_WC_REMOTE_ACCESS},
    {"1100e000 0012", "layer 1, error type 1, code 0x00", IWARP_WC_REMOTE_ACCESS},
    {"20020000 Nee*1400", "layer 2, error type 0, code 0x02", IWARP_WC_REMOTE_OPERATION},
    {"200200ff", "layer 2, error type 0, code 0x02", IWARP_WC_REMOTE_OPERATION},
    {"02090000", "code 0x09: the STag cannot be invalidated [", IWARP_WC_REMOTE_OPERATION},
    /* of the start-up if it is the peer's first FPDU, else siw's 0/2/05 */
    {"20050000", "code 0x05", IWARP_WC_REMOTE_OPERATION},
    {"f9a50000", "layer 15, error type 9, code 0xa5: not registered [", IWARP_WC_REMOTE_OPERATION},
};

static void say_terminate(const char *payload)
{
    struct octets ulpdu = {0}, fpdu = {0};

    raw_text(&ulpdu, NULL, "4147 00000000 00000002 00000001 00000000");
    raw_text(&ulpdu, NULL, payload);
    fpdu_add(&fpdu, ulpdu.p, ulpdu.n, 0);
    raw_send(host->fd, fpdu.p, fpdu.n);
    octets_free(&ulpdu);
    octets_free(&fpdu);
}

static void terminated(const char *says, enum iwarp_wc_status read)
{
    struct iwarp_event e = host_event(host, IWARP_EVENT_DISCONNECTED);
    char text[400];

    host_check_fault(e.fault, IWARP_FAULT_PEER_TERMINATE);
    assert_int_equal(e.status, IWARP_PEER);
    assert_int_equal(iwarp_fault_side(e.fault), IWARP_SIDE_PEER);
    iwarp_fault_text(e.fault, text, sizeof text);
    if (!strstr(text, says)) {
        fail_msg("'%s' does not say '%s'", text, says);
    }
    for (int i = 0; i < HOST_RECEIVES + 1; i++) {
        struct iwarp_wc wc = host_completion(host);
        assert_int_equal(wc.status, wc.wr_id == 200 ? read : IWARP_WC_FLUSHED);
        host_check_fault(wc.fault, IWARP_FAULT_PEER_TERMINATE);
    }
}

static void terminate__received__is_explained_and_has_no_answer(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * sizeof terminates / sizeof *terminates; i++) {
        printf("# %s\n", terminates[i / 2].payload);
        fflush(stdout);
        connect_raw(i & 1 ? HOST_INITIATOR : HOST_RESPONDER, HOST_RECEIVES);
        host_begin_read(host);
        say_terminate(terminates[i / 2].payload);
        raw_expect_fin(host->fd, "a Terminate has no answer");
        terminated(terminates[i / 2].says, terminates[i / 2].read);
        over();
    }
}

/* Of three Reads under way the peer blames the second: that one is told, the others are flushed. */
/* [VERBS-6.2.4-01] */
static void terminate__about_one_of_several_reads__blames_it_alone(void **state)
{
    (void)state;
    for (int role = 0; role < 2; role++) {
        connect_raw(role ? HOST_INITIATOR : HOST_RESPONDER, HOST_RECEIVES);
        host_begin_read(host);
        host_post_read(host);
        host_post_read(host);
        raw_hear(host->fd, &host->names,
                 "002e4141 00000000 00000001 00000002 00000000 L Q+400 00000100"
                 "11223344 00000000 00002000 C |"
                 "002e4141 00000000 00000001 00000003 00000000 L Q+400 00000100"
                 "11223344 00000000 00002000 C",
                 "the other two");
        raw_say(host->fd, &host->names,
                "00464147 00000000 00000002 00000001 00000000 0101e000"
                "002e4141 00000000 00000001 00000002 00000000 L Q+400 00000100"
                "11223344 00000000 00002000 C");
        raw_expect_fin(host->fd, "a Terminate has no answer");
        host_check_fault(host_event(host, IWARP_EVENT_DISCONNECTED).fault,
                         IWARP_FAULT_PEER_TERMINATE);
        unsigned reads = 0;
        for (int i = 0; i < HOST_RECEIVES + 3; i++) {
            struct iwarp_wc wc = host_completion(host);
            reads += wc.wr_id == 200;
            assert_int_equal(wc.status, wc.wr_id == 200 && reads == 2 ? IWARP_WC_REMOTE_ACCESS
                                                                      : IWARP_WC_FLUSHED);
        }
        assert_int_equal(reads, 3);
        over();
    }
}

/* Behind a Read that is not answered nothing completes, so all of it is left: one says why. */
/* [VERBS-6.2.4-01] [VERBS-8.1.3.1-02] [VERBS-9.3.2.1-01] */
static void terminate__received_with_much_posted__flushes_all_but_the_first(void **state)
{
    (void)state;
    for (int role = 0; role < 2; role++) {
        struct iwarp_send_wr wr = {.opcode = IWARP_WR_WRITE}; /* nobody asked for a completion */
        uint64_t receive = 100, request = 200;
        connect_raw((enum host_role)role, HOST_RECEIVES);
        host_begin_read(host);
        for (wr.wr_id = 201; wr.wr_id < 205; wr.wr_id++) {
            assert_int_equal(iwarp_post_send(host->qp, &wr, NULL), IWARP_OK);
        }
        host_post(host, IWARP_WR_SEND, 205, 100);
        say_terminate("02060000");
        struct iwarp_event e = host_event(host, IWARP_EVENT_DISCONNECTED);
        host_check_fault(e.fault, IWARP_FAULT_PEER_TERMINATE);
        while (request < 206 || receive < 100 + HOST_RECEIVES) {
            struct iwarp_wc wc = host_completion(host);
            assert_int_equal(wc.wr_id, wc.opcode == IWARP_WC_RECV ? receive++ : request++);
            assert_int_equal(wc.status,
                             wc.wr_id == 200 ? IWARP_WC_REMOTE_OPERATION : IWARP_WC_FLUSHED);
        }
        over();
    }
}

static void nap(void *arg)
{
    (void)arg;
    progress_sleep(200000);
}

static void *nap_on_worker(void *arg)
{
    iwarp_loop_call(&host->device->worker[0].loop, nap, arg);
    return NULL;
}

/*
 * The peer says why and is gone. Our writing fails before the worker has had time to read: what it
 * said must not be lost over that.
 */
static void terminate__then_a_reset_noticed_by_a_write_first__is_still_the_reason(void **state)
{
    pthread_t napping;

    (void)state;
    connect_raw(HOST_INITIATOR, HOST_RECEIVES);
    host_begin_read(host);
    assert_int_equal(pthread_create(&napping, NULL, nap_on_worker, NULL), 0);
    progress_sleep(50000);
    say_terminate("1100c000 0012c140 00010203 00000000 00001000");
    raw_reset(host->fd);
    host->fd = -1;
    progress_sleep(20000);
    host_post(host, IWARP_WR_SEND, 300, 100); /* this thread writes */
    host_post(host, IWARP_WR_SEND, 301, 100);
    struct iwarp_event e = host_event(host, IWARP_EVENT_DISCONNECTED);
    host_check_fault(e.fault, IWARP_FAULT_PEER_TERMINATE);
    for (int i = 0; i < HOST_RECEIVES + 3; i++) {
        assert_int_not_equal(host_completion(host).status, IWARP_WC_SUCCESS);
    }
    assert_int_equal(pthread_join(napping, NULL), 0);
    over();
}

/* [DDP-6.2.2-01] [RDMAP-7.1-01] */
static void reset__noticed_by_a_write_first__ends_as_lost(void **state)
{
    pthread_t napping;

    (void)state;
    connect_raw(HOST_INITIATOR, HOST_RECEIVES);
    host_begin_read(host);
    assert_int_equal(pthread_create(&napping, NULL, nap_on_worker, NULL), 0);
    progress_sleep(50000);
    raw_reset(host->fd);
    host->fd = -1;
    progress_sleep(20000);
    host_post(host, IWARP_WR_SEND, 300, 100);
    host_post(host, IWARP_WR_SEND, 301, 100);
    host_ended(host, IWARP_FAULT_TCP_LOST, HOST_RECEIVES + 3);
    assert_int_equal(pthread_join(napping, NULL), 0);
    over();
}

/* --- octets behind the end ------------------------------------------------------------------- */

/* They are dropped, and do not destroy the Terminate. */
static void flood__behind_a_fault__does_not_destroy_the_terminate(void **state)
{
    struct octets o = {0};

    (void)state;
    raw_text(&o, &host->names, V24 "|" V01 "|" /* MSN 1 again: 1/2/03 */ V01);
    octets_fill(&o, 0xee, 4000000);
    connect_raw(HOST_RESPONDER, HOST_RECEIVES);
    raw_send(host->fd, o.p, o.n);
    octets_free(&o);
    raw_hear(host->fd, NULL,
             "002a4147 00000000 00000002 00000001 00000000 1203c000 00174143 00000000 00000000"
             "00000001 00000000 C",
             "the Terminate");
    raw_expect_fin(host->fd, "behind the Terminate");
    assert_int_equal(host_completion(host).status, IWARP_WC_SUCCESS);
    host_ended(host, IWARP_FAULT_DDP_MSN, HOST_RECEIVES - 1);
    over();
}

/* Of the device so far, and of this queue pair with its Terminate 2/0/02. */
static void crc_error_counted(unsigned times)
{
    struct iwarp_device_stats d = {.size = sizeof d};
    struct iwarp_qp_stats q = {.size = sizeof q};

    assert_int_equal(iwarp_device_stats(host->device, &d), IWARP_OK);
    assert_int_equal(iwarp_qp_stats(host->qp, &q), IWARP_OK);
    assert_int_equal(d.crc_errors, times);
    assert_int_equal(d.terminates_sent[2][0][2], times);
    assert_int_equal(q.crc_errors, 1);
    assert_int_equal(q.receive_queue_empty + q.streams_lost + q.terminate_received.count, 0);
    assert_int_equal(q.terminate_sent.count, 1);
    assert_int_equal(q.terminate_sent.layer, 2);
    assert_int_equal(q.terminate_sent.etype, 0);
    assert_int_equal(q.terminate_sent.code, 2);
}

/* Nor does a good FPDU behind a bad one do anything (RFC 5041 7.1). */
/* [MPA-6-02] [MPA-8-07] [DDP-3-08] [DDP-3-09] [DDP-7.1-16] [RDMAP-7-01] [RDMAP-7-02] */
static void write__behind_a_fault__is_not_placed(void **state)
{
    (void)state;
    for (int role = 0; role < 2; role++) {
        connect_raw((enum host_role)role, HOST_RECEIVES);
        raw_say(host->fd, &host->names,
                V24 "| 00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 00000000"
                    "| 0012c140 W T deadbeef C |" V01);
        raw_hear(host->fd, NULL, V16, "the Terminate");
        raw_expect_fin(host->fd, "behind the Terminate");
        host_ended(host, IWARP_FAULT_MPA_CRC, HOST_RECEIVES);
        crc_error_counted((unsigned)role + 1);
        over();
    }
}

/* Octet by octet in two halves, so that early placement has begun before the CRC is there. */
static void damaged(enum host_role role, enum iwarp_placement placement)
{
    struct octets o = {0};

    raw_text(&o, &host->names, "0bc6c140 W T+10 N33*3000 00000000");
    host_options(host);
    host->options.placement = placement;
    host_connect(host, role, 2, HOST_RECEIVES);
    raw_say(host->fd, NULL, V24);
    raw_send(host->fd, o.p, 1500);
    progress_sleep(20000);
    raw_send(host->fd, o.p + 1500, o.n - 1500);
    octets_free(&o);
    raw_hear(host->fd, NULL, V16, "the Terminate");
    raw_expect_fin(host->fd, "behind the Terminate");
    host_ended(host, IWARP_FAULT_MPA_CRC, HOST_RECEIVES);
}

static void write__large_and_damaged__touches_memory_only_if_placed_early(void **state)
{
    (void)state;
    for (int role = 0; role < 2; role++) {
        damaged((enum host_role)role, IWARP_PLACE_VERIFIED);
        over();
        damaged((enum host_role)role, IWARP_PLACE_EARLY);
        for (unsigned i = 0; i < 3000; i++) { /* that is what early means, RFC 5044 6 does not */
            assert_int_equal(host->w.p[0x10 + i], 0x33);
        }
        uint8_t before = host->w.p[0x0f], behind = host->w.p[0x10 + 3000];
        host_reset_memory(host); /* nothing beside what the segment named */
        assert_int_equal(before, host->w.p[0x0f]);
        assert_int_equal(behind, host->w.p[0x10 + 3000]);
        over();
    }
}

/* --- faults of this end ---------------------------------------------------------------------- */

/* [RDMAP-7.1-02] */
static void send__from_memory_that_is_not_registered__is_0_0_00(void **state)
{
    static uint8_t octets[16];
    struct iwarp_sge sge = {octets, sizeof octets, 0x00010203};
    const struct iwarp_send_wr wr = {
        .wr_id = 300, .opcode = IWARP_WR_SEND, .sg_list = &sge, .num_sge = 1};
    struct iwarp_wc wc;

    (void)state;
    connect_raw(HOST_INITIATOR, 1);
    assert_int_equal(iwarp_post_send(host->qp, &wr, NULL), IWARP_OK);
    raw_hear(host->fd, NULL, V17, "the Terminate");
    raw_expect_fin(host->fd, "behind the Terminate");
    struct iwarp_event e = host_event(host, IWARP_EVENT_DISCONNECTED);
    host_check_fault(e.fault, IWARP_FAULT_LOCAL_SGE);
    wc = host_completion(host);
    assert_int_equal(wc.wr_id, 300);
    assert_int_equal(wc.status, IWARP_WC_LOCAL_PROTECTION);
    assert_int_equal(host_completion(host).status, IWARP_WC_FLUSHED);
    over();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fin__in_the_middle_of_an_fpdu__is_0_2_07),
        cmocka_unit_test(fin__in_the_middle_of_the_first_fpdu__has_no_answer),
        cmocka_unit_test(fin__while_an_rdma_read_is_outstanding__is_0_2_07),
        cmocka_unit_test(fin__in_the_middle_of_a_message__is_0_2_07),
        cmocka_unit_test(fin__behind_a_read_request__is_answered_first),
        cmocka_unit_test(send__behind_our_fin__is_delivered),
        cmocka_unit_test(reset__in_the_middle_of_an_fpdu__flushes_everything),
        cmocka_unit_test(terminate__received__is_explained_and_has_no_answer),
        cmocka_unit_test(terminate__about_one_of_several_reads__blames_it_alone),
        cmocka_unit_test(terminate__received_with_much_posted__flushes_all_but_the_first),
        cmocka_unit_test(terminate__then_a_reset_noticed_by_a_write_first__is_still_the_reason),
        cmocka_unit_test(reset__noticed_by_a_write_first__ends_as_lost),
        cmocka_unit_test(flood__behind_a_fault__does_not_destroy_the_terminate),
        cmocka_unit_test(write__behind_a_fault__is_not_placed),
        cmocka_unit_test(write__large_and_damaged__touches_memory_only_if_placed_early),
        cmocka_unit_test(send__from_memory_that_is_not_registered__is_0_0_00),
    };
    return cmocka_run_group_tests_name("hostile_end", tests, setup, teardown);
}
