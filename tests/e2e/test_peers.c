/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Known peers, played by a raw socket with literal octets: Linux siw, Chelsio, Intel, Marvell, as
 * initiator and as responder, from the start-up to a Send each way. Those that keep to the RFCs are
 * met in strict mode too, and it makes no difference; for the others both modes are shown.
 *
 * RFC 5044 7.1, RFC 6581 9 and 10. What is told apart here is listed in src/peers/peers.h.
 */
#include "progress.h"
#include "raw_peer.h"
#include "verbs_pair.h"

#include <stdio.h>

#define REQUEST "4d504120494420526571204672616d65"
#define REPLY   "4d504120494420526570204672616d65"

/* "hello" as the first Send of either end. */
#define HELLO "00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 b990b10c"

/* The zero-length RDMA Read that this end begins with, and a good answer. */
#define RTR                                                                                        \
    "002e4141 00000000 00000001 00000001 00000000 00000001 00000000 00000000"                      \
    "00000000 00000001 00000000 00000000 27dbd7e7"
#define RTR_DONE "000ec142 00000001 00000000 00000000 21a3e83e"

/* A zero-length RDMA Read of a peer: sink STag, TO, source STag, TO. */
#define READ(sink, sink_to, source, source_to)                                                     \
    "002e4141 00000000 00000001 00000001 00000000" sink sink_to "00000000" source source_to "C"

static struct pair pair;
static struct pair_side *side; /* the one of this end */
static struct iwarp_conn_options options;
static int listener, fd;

static void begin(unsigned which, bool strict)
{
    struct pair_options o;

    pair_options_init(&o, PAIR_TCP4);
    pair_prepare(&pair, &o);
    options = o.conn[which];
    options.strict = strict;
    side = &pair.side[which];
    memcpy(side->p, "hello", 5);
    pair_recv(side, 1, 100, 8);
    listener = -1;
}

static void end(void)
{
    raw_close(fd);
    if (listener >= 0) {
        raw_close(listener);
    }
    pair_close(&pair);
}

static struct iwarp_conn_info info(void)
{
    struct iwarp_conn_info i = {.size = sizeof i};

    must(iwarp_conn_info(side->conn, &i));
    return i;
}

static void peer_sends(void)
{
    raw_say(fd, NULL, HELLO);
    assert_int_equal(pair_wc(side->recv_cq, 1, IWARP_WC_SUCCESS).byte_len, 5);
    assert_memory_equal(side->p + 100, "hello", 5);
}

/* After it has heard ours. */
static void peer_leaves(void)
{
    pair_wc(side->send_cq, 2, IWARP_WC_SUCCESS);
    raw_fin(fd);
    raw_expect_fin(fd, "a close in order");
    assert_int_equal(pair_event(pair.eq[side != &pair.side[0]], IWARP_EVENT_DISCONNECTED).status,
                     IWARP_OK);
}

static void connect_to_raw(const char *request)
{
    struct sockaddr_in at;

    listener = raw_listen(&at);
    must(iwarp_connect(side->qp, (const struct sockaddr *)&at, sizeof at, &options, NULL, 0,
                       pair.eq[0], NULL, &side->conn));
    fd = raw_accept(listener);
    raw_hear(fd, NULL, request, "the Request");
}

static void accept_raw(const char *request, const char *reply)
{
    struct sockaddr_storage at;
    struct sockaddr_in in;
    socklen_t len;

    must(iwarp_listener_addr(pair.listener, &at, &len));
    memcpy(&in, &at, sizeof in);
    fd = raw_connect(&in);
    raw_say(fd, NULL, request);
    side->conn = pair_event(pair.eq[1], IWARP_EVENT_REQUEST).conn;
    must(iwarp_accept(side->conn, side->qp, &options, NULL, 0, NULL));
    raw_hear(fd, NULL, reply, "the Reply");
    pair_event(pair.eq[1], IWARP_EVENT_ESTABLISHED);
}

/* --- responders that keep to the RFCs -------------------------------------------------------- */

/* Our Request is the same for all (interop facts, section 0); work posted before has to wait. */
static void responder__of_each_kind__is_met(void **state)
{
    static const struct {
        const char *who, *reply;
        unsigned ord; /* in use */
    } row[] = {
        {"siw", REPLY "50020004 8020 4020", 32},
        {"siw with the flag 0x08", REPLY "58020004 8020 4020", 32},
        {"siw, its own limits", REPLY "50020004 8080 4020", 32},
        {"Chelsio", REPLY "50020004 8020 4020", 32},
        {"Intel", REPLY "50020004 807f 4020", 32},
        {"Intel without negotiation", REPLY "50020004 bfff 7fff", 32},
        {"Marvell, fewer Reads", REPLY "50020004 8008 4008", 8},
        {"Marvell, all its RTRs", REPLY "50020004 c020 c020", 32},
    };

    (void)state;
    for (size_t i = 0; i < 2 * sizeof row / sizeof *row; i++) {
        printf("# %s\n", row[i / 2].who);
        fflush(stdout);
        begin(0, i % 2);
        pair_send(side, 2, 0, 5);
        connect_to_raw(REQUEST "50020004 80204020");
        raw_expect_silence(fd, 20, "nothing may follow a Request");
        raw_say(fd, NULL, row[i / 2].reply);
        raw_hear(fd, NULL, RTR HELLO, "the first messages");
        raw_say(fd, NULL, RTR_DONE);
        pair_event(pair.eq[0], IWARP_EVENT_ESTABLISHED);
        assert_int_equal(info().rtr, IWARP_RTR_READ);
        assert_int_equal(info().ord, row[i / 2].ord);
        assert_int_equal(info().ird, 32);
        assert_true(info().crc);
        peer_sends();
        peer_leaves();
        end();
    }
}

/* siw can overlook our first message until more octets come (src/peers/peers.h). */
static void responder__that_says_nothing__is_reminded_three_times(void **state)
{
    (void)state;
    for (int wanted = 1; wanted >= 0; wanted--) {
        begin(0, false);
        options.remind = wanted;
        connect_to_raw(REQUEST "50020004 80204020");
        raw_say(fd, NULL, REPLY "50020004 80204020");
        raw_hear(fd, NULL, RTR, "the first message");
        for (int i = 0; i < 3 && wanted; i++) {
            raw_hear(fd, NULL, "000ec140 00000001 00000000 00000000 C", "a reminder");
        }
        raw_expect_silence(fd, 300, "nothing more is said");
        raw_say(fd, NULL, RTR_DONE);
        pair_event(pair.eq[0], IWARP_EVENT_ESTABLISHED);
        peer_sends();
        pair_send(side, 2, 0, 5);
        raw_hear(fd, NULL, HELLO, "our Send");
        peer_leaves();
        end();
    }
}

/* --- initiators that keep to the RFCs -------------------------------------------------------- */

static void initiator__of_each_kind__is_met(void **state)
{
    static const struct {
        const char *who, *request, *reply;
        const char *first, *answer; /* its first FPDU; what we say to it */
        enum iwarp_rtr rtr;
    } row[] = {
        {"siw", REQUEST "10020004 0080 0080", REPLY "50020004 0020 0020", NULL, "", 0},
        {"siw, peer-to-peer", REQUEST "10020004 8080 c080", REPLY "50020004 8020 4020",
         READ("00000000", "0000000000000000", "00000001", "0000000000000000"),
         "000ec142 00000000 00000000 00000000 C", IWARP_RTR_READ},
        {"siw, Write alone", REQUEST "10020004 8080 8080", REPLY "50020004 8020 8020",
         "000ec140 00000001 00000000 00000000 C", "", IWARP_RTR_WRITE},
        {"Chelsio", REQUEST "50020004 8020 4020", REPLY "50020004 8020 4020",
         READ("00000001", "0000000000000001", "00000001", "0000000000000001"),
         "000ec142 00000001 00000000 00000001 C", IWARP_RTR_READ},
        {"Chelsio, revision 1", REQUEST "40010000", REPLY "40010000",
         READ("00000001", "0000000000000001", "00000001", "0000000000000001"),
         "000ec142 00000001 00000000 00000001 C", 0},
        {"Intel", REQUEST "50020004 807f c07f", REPLY "50020004 8020 4020",
         READ("0000abcd", "0000000000000000", "00001234", "0000000000000000"),
         "000ec142 0000abcd 00000000 00000000 C", IWARP_RTR_READ},
        {"Intel without negotiation", REQUEST "50020004 bfff ffff", REPLY "50020004 bfff 7fff",
         READ("0000abcd", "0000000000000000", "00001234", "0000000000000000"),
         "000ec142 0000abcd 00000000 00000000 C", IWARP_RTR_READ},
        {"Intel, Write alone", REQUEST "50020004 803f 803f", REPLY "50020004 8020 8020",
         "000ec140 00000000 00000000 00000000 C", "", IWARP_RTR_WRITE},
        {"Intel, revision 1", REQUEST "40010000", REPLY "40010000",
         "000ec140 00000000 00000000 00000000 C", "", 0},
        {"Marvell", REQUEST "50020004 c020 c020", REPLY "50020004 8020 4020",
         READ("00000002", "0000000000000000", "00000002", "0000000000000000"),
         "000ec142 00000002 00000000 00000000 C", IWARP_RTR_READ},
    };

    (void)state;
    for (size_t i = 0; i < 2 * sizeof row / sizeof *row; i++) {
        printf("# %s\n", row[i / 2].who);
        fflush(stdout);
        begin(1, i % 2);
        accept_raw(row[i / 2].request, row[i / 2].reply);
        assert_int_equal(info().rtr, row[i / 2].rtr);
        assert_true(info().crc);
        if (row[i / 2].first) {
            raw_expect_silence(fd, 20, "a responder waits");
            raw_say(fd, NULL, row[i / 2].first);
            raw_hear(fd, NULL, row[i / 2].answer, "the answer");
            pair_send(side, 2, 0, 5);
            raw_hear(fd, NULL, HELLO, "our Send");
        } else {
            pair_send(side, 2, 0, 5);
            raw_expect_silence(fd, 20, "a responder waits");
        }
        peer_sends();
        if (!row[i / 2].first) {
            raw_hear(fd, NULL, HELLO, "our Send, which was held");
        }
        peer_leaves();
        end();
    }
}

/* --- and those that do not ------------------------------------------------------------------- */

static void failed(enum iwarp_event_type type, enum iwarp_fault_code code)
{
    struct iwarp_event e = pair_event(pair.eq[side != &pair.side[0]], type);

    assert_string_equal(iwarp_fault_name(iwarp_fault_code(e.fault)), iwarp_fault_name(code));
    pair_wc(side->recv_cq, 1, IWARP_WC_FLUSHED);
    end();
}

/* siw sends behind its Reply, in the same segment, before it has heard anything. */
static void responder__that_sends_first__is_taken_unless_strict(void **state)
{
    (void)state;
    for (int strict = 0; strict < 2; strict++) {
        begin(0, strict);
        options.peer_to_peer = false;
        connect_to_raw(REQUEST "50020004 00200020");
        raw_say(fd, NULL, REPLY "50020004 00800020" HELLO);
        pair_event(pair.eq[0], IWARP_EVENT_ESTABLISHED);
        if (strict) {
            raw_end(fd, "an FPDU that may not be");
            failed(IWARP_EVENT_DISCONNECTED, IWARP_FAULT_MPA_EARLY_FPDU);
            continue;
        }
        pair_wc(side->recv_cq, 1, IWARP_WC_SUCCESS);
        assert_memory_equal(side->p + 100, "hello", 5);
        pair_send(side, 2, 0, 5);
        raw_hear(fd, NULL, HELLO, "our Send");
        end();
    }
}

static void responder__that_rejects_in_the_older_format__has_said_no_unless_strict(void **state)
{
    (void)state;
    for (int strict = 0; strict < 2; strict++) {
        begin(0, strict);
        connect_to_raw(REQUEST "50020004 80204020");
        raw_say(fd, NULL, REPLY "60010002 6e6f");
        failed(strict ? IWARP_EVENT_FAILED : IWARP_EVENT_REJECTED,
               strict ? IWARP_FAULT_MPA_ENHANCED_MISSING : IWARP_FAULT_MPA_REJECTED);
    }
}

static void responder__that_writes_its_own_revision__is_taken_unless_strict(void **state)
{
    (void)state;
    for (int strict = 0; strict < 2; strict++) {
        begin(0, strict);
        options.mpa_rev = 1;
        connect_to_raw(REQUEST "40010000");
        raw_say(fd, NULL, REPLY "40020000");
        if (strict) {
            failed(IWARP_EVENT_FAILED, IWARP_FAULT_MPA_REVISION);
            continue;
        }
        pair_event(pair.eq[0], IWARP_EVENT_ESTABLISHED);
        pair_send(side, 2, 0, 5);
        raw_hear(fd, NULL, HELLO, "our Send");
        peer_sends();
        peer_leaves();
        end();
    }
}

/* Chelsio in revision 1, where the ULP of this end wants no RDMA Reads. */
static void initiator__that_reads_unasked__is_answered_unless_strict(void **state)
{
    (void)state;
    for (int strict = 0; strict < 2; strict++) {
        begin(1, strict);
        options.ird = 0;
        accept_raw(REQUEST "40010000", REPLY "40010000");
        assert_int_equal(info().ird, strict ? 0 : 1);
        raw_say(fd, NULL, READ("00000001", "0000000000000001", "00000001", "0000000000000001"));
        if (strict) {
            raw_hear(fd, NULL,
                     "002a4147 00000000 00000002 00000001 00000000 1203c000 002e4141 00000000"
                     "00000001 00000001 00000000 C",
                     "a Terminate");
            failed(IWARP_EVENT_DISCONNECTED, IWARP_FAULT_DDP_IRD_EXCEEDED);
            continue;
        }
        raw_hear(fd, NULL, "000ec142 00000001 00000000 00000001 C", "the answer");
        pair_send(side, 2, 0, 5);
        raw_hear(fd, NULL, HELLO, "our Send");
        peer_sends();
        peer_leaves();
        end();
    }
}

static void says(const char *part)
{
    struct iwarp_event e = pair_event(pair.eq[0], IWARP_EVENT_DISCONNECTED);
    char text[400];

    iwarp_fault_text(e.fault, text, sizeof text);
    if (!strstr(text, part)) {
        fail_msg("'%s' does not say '%s'", text, part);
    }
}

/* Its Terminates are understood; in strict mode they are what RFC 5040 4.8 makes of them. */
static void terminate__of_each_kind__is_explained_unless_strict(void **state)
{
    static const struct {
        const char *who, *fpdu, *says[2];
    } row[] = {
        {"siw: CRC",
         "00164147 00000000 00000002 00000001 00000000 02020000 C",
         {"layer 2, error type 0, code 0x02", "layer 0, error type 2, code 0x02"}},
        {"siw: MSN",
         "002a4147 00000000 00000002 00000001 00000000 21030300 00050017 41430000"
         "00000000 00000000 00000000 C",
         {"layer 1, error type 2, code 0x03", "layer 2, error type 1, code 0x03"}},
        {"Chelsio: CRC",
         "00164147 00000000 00000002 00000001 00000000 23020000 C",
         {"layer 2, error type 0, code 0x02", "layer 2, error type 3, code 0x02"}},
    };

    (void)state;
    for (size_t i = 0; i < 2 * sizeof row / sizeof *row; i++) {
        printf("# %s\n", row[i / 2].who);
        fflush(stdout);
        begin(0, i % 2);
        connect_to_raw(REQUEST "50020004 80204020");
        raw_say(fd, NULL, REPLY "50020004 80204020");
        raw_hear(fd, NULL, RTR, "the first message");
        raw_say(fd, NULL, RTR_DONE);
        pair_event(pair.eq[0], IWARP_EVENT_ESTABLISHED);
        raw_say(fd, NULL, row[i / 2].fpdu);
        raw_expect_fin(fd, "a Terminate has no answer");
        says(row[i / 2].says[i % 2]);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(responder__of_each_kind__is_met),
        cmocka_unit_test(responder__that_says_nothing__is_reminded_three_times),
        cmocka_unit_test(initiator__of_each_kind__is_met),
        cmocka_unit_test(responder__that_sends_first__is_taken_unless_strict),
        cmocka_unit_test(responder__that_rejects_in_the_older_format__has_said_no_unless_strict),
        cmocka_unit_test(responder__that_writes_its_own_revision__is_taken_unless_strict),
        cmocka_unit_test(initiator__that_reads_unasked__is_answered_unless_strict),
        cmocka_unit_test(terminate__of_each_kind__is_explained_unless_strict),
    };

    return cmocka_run_group_tests_name("peers", tests, NULL, NULL);
}
