/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw peers that ask for markers, insert them rightly and wrongly, and that start in peer-to-peer
 * mode: literal Requests and Replies, the first FPDU of the initiator, answers that were not
 * offered.
 *
 * RFC 5044 4.2 to 4.4, 7.1.1 and 8; RFC 6581 9.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "tcp_host.h"
#include "vectors.h"

#define REQUEST  "4d504120494420526571204672616d65"
#define REPLY    "4d504120494420526570204672616d65"
#define RTR_SEND "00124143 00000000 00000000 00000001 00000000 587be8c4"
#define BAD_CRC  "00164147 00000000 00000002 00000001 00000000 20020000 7fe42585"
#define FRAMING  "00164147 00000000 00000002 00000001 00000000 20030000 01766420"

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

/* --- starting ----------------------------------------------------------------------------------
 */

/* The raw peer is the initiator; this end answers with `reply`. */
static void be_responder(const char *request, const char *reply, unsigned receives)
{
    host->conn = NULL;
    host->fd = raw_connect(&host->addr);
    raw_say(host->fd, NULL, request);
    host_accept(host, host_request(host), receives);
    raw_hear(host->fd, NULL, reply, "the Reply");
    host_event(host, IWARP_EVENT_ESTABLISHED);
}

/* The raw peer has the Request; nothing follows it before the Reply. */
static void call_raw(const char *request, unsigned receives)
{
    struct sockaddr_in at;
    int listener = raw_listen(&at);

    host_qp(host, receives);
    assert_int_equal(iwarp_connect(host->qp, (const struct sockaddr *)&at, sizeof at,
                                   &host->options, NULL, 0, host->eq, NULL, &host->conn),
                     IWARP_OK);
    host->fd = raw_accept(listener);
    raw_close(listener);
    raw_hear(host->fd, NULL, request, "the Request");
}

static void be_initiator(const char *request, const char *reply, unsigned receives)
{
    call_raw(request, receives);
    raw_say(host->fd, NULL, reply);
    host_event(host, IWARP_EVENT_ESTABLISHED);
}

static void close_in_order(unsigned left)
{
    raw_fin(host->fd);
    raw_expect_fin(host->fd, "a close in order");
    host_ended(host, IWARP_FAULT_NONE, left);
    host_finish(host);
    host_check_quiet(host);
    host_reset_memory(host);
}

static void ended_with(const char *terminate, enum iwarp_fault_code fault, unsigned left)
{
    raw_hear(host->fd, &host->names, terminate, "the Terminate");
    raw_expect_fin(host->fd, "behind the Terminate");
    host_ended(host, fault, left);
    host_finish(host);
    host_check_memory(host);
    host_check_quiet(host);
}

/* It was never established, with one receive posted. `answer` is what came before the end, or
 * nothing. */
static void failed_with(const char *answer, enum iwarp_fault_code fault)
{
    if (answer) {
        raw_hear(host->fd, NULL, answer, "the Terminate");
        raw_expect_fin(host->fd, "behind the Terminate");
    } else {
        raw_end(host->fd, "a Reply that cannot be");
    }
    struct iwarp_event e = host_event(host, IWARP_EVENT_FAILED);
    host_check_fault(e.fault, fault);
    assert_int_equal(e.status, IWARP_PROTOCOL);
    struct iwarp_wc wc = host_completion(host); /* of the one receive */
    assert_int_equal(wc.status, IWARP_WC_FLUSHED);
    host_check_fault(wc.fault, fault);
    host_finish(host);
    host_check_quiet(host);
}

/* --- markers both ways -------------------------------------------------------------------------
 */

/* This end sends a Send and two Writes; they come with markers or without. */
static void expect_traffic(bool markers)
{
    static const struct {
        const char *header;
        uint32_t n;
    } row[] = {
        {"4143 00000000 00000000 00000001 00000000", 5},
        {"c140 11223344 0000000000003000", 600},
        {"c140 11223344 0000000000003000", 1431},
    };
    struct octets o = {0};

    for (unsigned i = 0; i < 3; i++) {
        struct octets u = {0};
        octets_hex(&u, row[i].header);
        octets_add(&u, host->r.p, row[i].n);
        if (markers) {
            fpdu_add_marked(&o, o.n, u.p, u.n, 0);
        } else {
            fpdu_add(&o, u.p, u.n, 0);
        }
        octets_free(&u);
        host_post(host, i ? IWARP_WR_WRITE : IWARP_WR_SEND, 300 + i, row[i].n);
    }
    raw_expect(host->fd, o.p, o.n, markers ? "FPDUs with markers" : "FPDUs without markers");
    octets_free(&o);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(host_completion(host).wr_id, 300 + i);
    }
}

/* The raw peer sends a Write and a Send; both arrive. `piece` as in raw_send_pieces. */
static void send_traffic(bool markers, size_t piece, struct chance *chance)
{
    struct octets o = {0};

    for (unsigned i = 0; i < 3; i++) {
        struct octets u = {0};
        if (i < 2) {
            octets_hex(&u, "c140");
            octets_be(&u, iwarp_mr_stag(host->w.mr), 4);
            octets_be(&u, (uint64_t)(uintptr_t)host->w.p + 1400 * i, 8);
            octets_fill(&u, (uint8_t)(0x70 + i), 1400);
        } else {
            octets_hex(&u, "4143 00000000 00000000 00000001 00000000 68656c6c 6f");
        }
        if (markers) {
            fpdu_add_marked(&o, o.n, u.p, u.n, 0);
        } else {
            fpdu_add(&o, u.p, u.n, 0);
        }
        octets_free(&u);
    }
    if (piece == SIZE_MAX) {
        raw_send(host->fd, o.p, o.n);
    } else {
        raw_send_pieces(host->fd, o.p, o.n, piece, chance);
    }
    octets_free(&o);
    struct iwarp_wc wc = host_completion(host);
    assert_int_equal(wc.status, IWARP_WC_SUCCESS);
    assert_int_equal(wc.byte_len, 5);
    assert_memory_equal(host->l.p, "hello", 5);
    for (size_t i = 0; i < 2800; i++) {
        assert_int_equal(host->w.p[i], 0x70 + i / 1400);
    }
}

/* Each end asks or not, in both revisions, as initiator and as responder. */
static void markers__asked_for_by_either_end__are_in_its_direction_only(void **state)
{
    static const size_t pieces[] = {SIZE_MAX, 0, 97};
    struct chance chance = {chance_seed()};

    (void)state;
    for (unsigned i = 0; i < 2 * 2 * 2 * 2 * 3; i++) {
        bool ours = i & 1, theirs = i & 2, rev2 = i & 4, initiator = i & 8;
        char request[80], reply[80];
        host_options(host);
        host->options.markers = ours;
        host->options.mpa_rev = rev2 ? 2 : 1;
        host->options.ulpdu_max = 1445;
        host->options.placement = i / 16 ? IWARP_PLACE_EARLY : IWARP_PLACE_VERIFIED;
        snprintf(request, sizeof request, REQUEST "%02x%s",
                 (rev2 ? 0x50u : 0x40u) | ((initiator ? ours : theirs) ? 0x80u : 0),
                 rev2 ? "020004 00200020" : "010000");
        snprintf(reply, sizeof reply, REPLY "%02x%s",
                 (rev2 ? 0x50u : 0x40u) | ((initiator ? theirs : ours) ? 0x80u : 0),
                 rev2 ? "020004 00200020" : "010000");
        printf("# %s %s\n", request, reply);
        fflush(stdout);
        if (initiator) {
            be_initiator(request, reply, 1);
        } else {
            be_responder(request, reply, 1);
        }
        send_traffic(ours, pieces[i / 16], &chance);
        expect_traffic(theirs);
        close_in_order(0);
    }
}

static void markers__octet_by_octet__are_taken(void **state)
{
    struct chance chance = {chance_seed()};

    (void)state;
    host_options(host);
    host->options.markers = true;
    be_responder(REQUEST "40010000", REPLY "c0010000", 1);
    send_traffic(true, 1, &chance);
    close_in_order(0);
}

/* MULPDU of a connection whose segments are small, with the raw peer's markers or without. */
static unsigned mulpdu_with(bool markers)
{
    struct iwarp_conn_info info = {.size = sizeof info};
    struct sockaddr_in at;
    int mss = 1400, listener = raw_listen(&at);

    assert_int_equal(setsockopt(listener, IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof mss), 0);
    host_options(host);
    host_qp(host, 0);
    assert_int_equal(iwarp_connect(host->qp, (const struct sockaddr *)&at, sizeof at,
                                   &host->options, NULL, 0, host->eq, NULL, &host->conn),
                     IWARP_OK);
    host->fd = raw_accept(listener);
    raw_close(listener);
    raw_hear(host->fd, NULL, REQUEST "50020004 00200020", "the Request");
    raw_say(host->fd, NULL, markers ? REPLY "d0020004 00200020" : REPLY "50020004 00200020");
    host_event(host, IWARP_EVENT_ESTABLISHED);
    assert_int_equal(iwarp_conn_info(host->conn, &info), IWARP_OK);
    host_post(host, IWARP_WR_WRITE, 300, 4000);
    uint8_t head[6];
    raw_read(host->fd, head, sizeof head, "the first FPDU");
    assert_int_equal(info.mulpdu, markers ? head[4] << 8 | head[5] : head[0] << 8 | head[1]);
    assert_int_equal(host_completion(host).wr_id, 300);
    raw_fin(host->fd);
    raw_drain(host->fd);
    host_ended(host, IWARP_FAULT_NONE, 0);
    host_finish(host);
    return info.mulpdu;
}

/* RFC 5044 4.5: three markers fit a segment of 1400 octets or a little less. */
/* [MPA-3-02] [DDP-3-01] */
static void markers__small_segments__leave_room_for_them(void **state)
{
    unsigned without = mulpdu_with(false);

    (void)state;
    assert_in_range(without, 1300, 1394);
    assert_int_equal(mulpdu_with(true), without - 12);
}

/* M03 with its private data. */
static void markers__m03__is_answered(void **state)
{
    size_t len;

    (void)state;
    host_options(host);
    be_responder(REQUEST "c0010004 74657374", REPLY "40010000", 0);
    assert_memory_equal(iwarp_conn_private_data(host->conn, &len), "test", 4);
    assert_int_equal(len, 4);
    raw_say(host->fd, NULL, V24);
    host_post(host, IWARP_WR_SEND, 300, 0);
    raw_hear(host->fd, NULL, "| 00000000 00124143 00000000 00000000 00000001 00000000 C",
             "the Send with a marker");
    assert_int_equal(host_completion(host).wr_id, 300);
    close_in_order(0);
}

/* --- markers that are wrong --------------------------------------------------------------------
 */

/* A first FPDU of 20 octets behind its marker, so that the next one is at 24. */
#define FIRST "| 00000000 000ec140 00000001 00000000 00000000 C"

static const struct {
    const char *sent, *answer;
    enum iwarp_fault_code fault;
} wrong[] = {
    /* 512 - 24 = 488 = 1e8: one word less, more, 0 */
    {FIRST "| 01f64143 00000000 00000000 00000001 00000000 N11*468 000001e4 N11*16 C", FRAMING,
     IWARP_FAULT_MPA_MARKER},
    {FIRST "| 01f64143 00000000 00000000 00000001 00000000 N11*468 000001ec N11*16 C", FRAMING,
     IWARP_FAULT_MPA_MARKER},
    {FIRST "| 01f64143 00000000 00000000 00000001 00000000 N11*468 00000000 N11*16 C", FRAMING,
     IWARP_FAULT_MPA_MARKER},
    /* as it should be, but for the CRC, which leaves it out or is that of another pointer */
    {FIRST "01f64143 00000000 00000000 00000001 00000000 N11*468 000001e8 N11*16 00000000", BAD_CRC,
     IWARP_FAULT_MPA_CRC},
    /* no marker at all: the second FPDU's length is read 4 octets late */
    {FIRST "| 01f64143 00000000 00000000 00000001 00000000 N11*484 C N00*600", BAD_CRC,
     IWARP_FAULT_MPA_CRC},
    /* a marker too early */
    {FIRST "| 00000000 00124143 00000000 00000000 00000001 00000000 C N00*600", BAD_CRC,
     IWARP_FAULT_MPA_CRC},
    /* too long */
    {FIRST "fd01c140 N00*40", FRAMING, IWARP_FAULT_MPA_ULPDU_LEN},
};

/* [MPA-8-08] */
static void marker__wrong__is_the_literal_terminate(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * sizeof wrong / sizeof *wrong; i++) {
        host_options(host);
        host->options.markers = true;
        host->options.placement = i & 1 ? IWARP_PLACE_EARLY : IWARP_PLACE_VERIFIED;
        be_responder(REQUEST "40010000", REPLY "c0010000", HOST_RECEIVES);
        raw_say(host->fd, NULL, wrong[i / 2].sent);
        ended_with(wrong[i / 2].answer, wrong[i / 2].fault, HOST_RECEIVES);
    }
}

/* The Terminate has markers too, if the peer wants them. */
static void marker__wrong_both_ways__is_a_terminate_with_marker(void **state)
{
    (void)state;
    host_options(host);
    host->options.markers = true;
    be_initiator(REQUEST "d0020004 00200020", REPLY "d0020004 00200020", HOST_RECEIVES);
    raw_say(host->fd, NULL, "| 00000004 000ec140 00000001 00000000 00000000 C");
    ended_with("| 00000000 00164147 00000000 00000002 00000001 00000000 20030000 C",
               IWARP_FAULT_MPA_MARKER, HOST_RECEIVES);
}

/* RFC 5044 7.1.2 (4): no FPDU was valid yet. */
static void marker__wrong_in_the_first_fpdu__resets_without_an_octet(void **state)
{
    (void)state;
    host_options(host);
    host->options.markers = true;
    be_responder(REQUEST "40010000", REPLY "c0010000", HOST_RECEIVES);
    raw_say(host->fd, NULL, "| 00000004 000ec140 00000001 00000000 00000000 C");
    assert_int_equal(raw_end(host->fd, "a wrong first marker"), RAW_RESET);
    host_ended(host, IWARP_FAULT_MPA_MARKER, HOST_RECEIVES);
    host_finish(host);
    host_check_quiet(host);
}

/* Erratum 1427, and reserved octets: taken. */
static void marker__odd__is_taken(void **state)
{
    static const char *const odd[] = {
        "| 00000003 00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 C",
        "| ffff0000 00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 C",
        "| a5a50001 00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 C",
    };

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        host_options(host);
        host->options.markers = true;
        be_responder(REQUEST "40010000", REPLY "c0010000", 1);
        raw_say(host->fd, NULL, odd[i]);
        assert_int_equal(host_completion(host).byte_len, 5);
        assert_memory_equal(host->l.p, "hello", 5);
        close_in_order(0);
    }
}

/* --- peer-to-peer, this end is the responder ---------------------------------------------------
 */

static const struct {
    const char *request, *reply, *rtr, *answer;
    unsigned mask; /* ours */
} calls[] = {
    {REQUEST "50020006 8010c008 6162", REPLY "50020004 80084010", V25, V26, 0}, /* M07, M08 */
    {REQUEST "50020004 ffffffff", REPLY "50020004 bfff7fff", V25, V26, 0},      /* M09 */
    {REQUEST "50020004 ffffffff", REPLY "50020004 bfffbfff", V24, "", IWARP_RTR_WRITE},
    {REQUEST "50020004 ffffffff", REPLY "50020004 ffff3fff", RTR_SEND, "", IWARP_RTR_SEND},
    {REQUEST "50020004 8010c008", REPLY "50020004 80088010", V24, "", 3},
    {REQUEST "50020004 8010c008", REPLY "50020004 80088010", V09, "", 3}, /* STag 0 */
    {REQUEST "50020004 c0108008", REPLY "50020004 80088010", V24, "", 0},
    {REQUEST "50020004 c0100008", REPLY "50020004 c0080010", RTR_SEND, "", 0},
    {REQUEST "50020004 80104008", REPLY "50020004 80084010", V11, V13, 0}, /* STags 0 */
    /* ORD 0 and an RDMA Read: room for that one all the same */
    {REQUEST "50020004 80104000", REPLY "50020004 80014010", V25, V26, 0},
    /* none offered, or none in common: one that is possible here, for the initiator to refuse */
    {REQUEST "50020004 80100008", REPLY "50020004 80084010", V25, V26, 0},
    {REQUEST "50020004 80104008", REPLY "50020004 80088010", V24, "", IWARP_RTR_WRITE},
};

static void responder__peer_to_peer__sends_once_the_rtr_came(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        bool takes_receive = strcmp(calls[i].rtr, RTR_SEND) == 0;
        printf("# %s\n", calls[i].request);
        fflush(stdout);
        host_options(host);
        host->options.rtr = calls[i].mask;
        be_responder(calls[i].request, calls[i].reply, 2);
        host_post(host, IWARP_WR_SEND, 300, 0);
        raw_expect_silence(host->fd, 30, "a responder before the RTR");
        raw_say(host->fd, NULL, calls[i].rtr);
        raw_hear(host->fd, NULL, RTR_SEND, "the Send that waited"); /* the same octets */
        raw_hear(host->fd, NULL, calls[i].answer, "the answer");
        unsigned seen = 0;
        for (unsigned k = 0; k < 1u + takes_receive; k++) {
            struct iwarp_wc wc = host_completion(host);
            assert_int_equal(wc.status, IWARP_WC_SUCCESS);
            assert_true(wc.wr_id == 300 || (takes_receive && wc.wr_id == 100 && wc.byte_len == 0));
            seen |= wc.wr_id == 300 ? 1u : 2u;
        }
        assert_int_equal(seen, takes_receive ? 3 : 1);
        close_in_order(takes_receive ? 1 : 2);
    }
}

/* The initiator cannot live with the answer: V18 is the first FPDU. */
static void responder__peer_to_peer_refused__says_so(void **state)
{
    (void)state;
    host_options(host);
    host->options.rtr = IWARP_RTR_WRITE;
    be_responder(REQUEST "50020004 80104008", REPLY "50020004 80088010", HOST_RECEIVES);
    raw_say(host->fd, NULL, V18);
    raw_fin(host->fd);
    raw_end(host->fd, "behind a Terminate");
    host_ended(host, IWARP_FAULT_PEER_TERMINATE, HOST_RECEIVES);
    host_finish(host);
    host_check_quiet(host);
}

/* --- peer-to-peer, this end is the initiator ---------------------------------------------------
 */

static void ask_for(unsigned mask)
{
    host_options(host);
    host->options.peer_to_peer = true;
    host->options.rtr = mask;
    host->options.close_timeout_ms = 1000;
}

static const struct {
    unsigned mask;
    const char *request, *reply, *rtr, *answer;
} chosen[] = {
    {0, REQUEST "50020004 80204020", REPLY "50020004 80104010", V25, V26},
    {4, REQUEST "50020004 80204020", REPLY "50020004 80104010", V25, V13},
    {2, REQUEST "50020004 80208020", REPLY "50020004 80108010", V24, ""},
    {1, REQUEST "50020004 c0200020", REPLY "50020004 c0100010", RTR_SEND, ""},
    {7, REQUEST "50020004 c020c020", REPLY "50020004 80108010", V24, ""},
    {7, REQUEST "50020004 c020c020", REPLY "50020004 c0100010", RTR_SEND, ""},
    /* several: Read before Write before Send */
    {7, REQUEST "50020004 c020c020", REPLY "50020004 c010c010", V25, V26},
    {3, REQUEST "50020004 c0208020", REPLY "50020004 c0108010", V24, ""},
    /* one of those that were offered, one that was not */
    {1, REQUEST "50020004 c0200020", REPLY "50020004 c010c010", RTR_SEND, ""},
    /* an IRD of 0 leaves no place for a Read: the other one */
    {6, REQUEST "50020004 8020c020", REPLY "50020004 8000c010", V24, ""},
};

static void initiator__peer_to_peer__begins_with_the_rtr(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof chosen / sizeof *chosen; i++) {
        printf("# %u: %s\n", chosen[i].mask, chosen[i].reply);
        fflush(stdout);
        ask_for(chosen[i].mask);
        call_raw(chosen[i].request, 1);
        raw_expect_silence(host->fd, 20, "an initiator before the Reply");
        raw_say(host->fd, NULL, chosen[i].reply);
        raw_hear(host->fd, NULL, chosen[i].rtr, "the RTR");
        raw_expect_silence(host->fd, 20, "an initiator with nothing to send");
        host_event(host, IWARP_EVENT_ESTABLISHED);
        raw_say(host->fd, NULL, chosen[i].answer);
        raw_say(host->fd, NULL, V01); /* the peer may be first */
        assert_int_equal(host_completion(host).byte_len, 5);
        close_in_order(0);
    }
}

/* FPDUs right behind the Reply; the RTR with a marker; depth 1 where the user wants none. */
static void initiator__peer_to_peer_and_markers__begins_with_the_marked_rtr(void **state)
{
    (void)state;
    ask_for(0);
    host->options.markers = true;
    host->options.ird = host->options.ord = 0;
    be_initiator(REQUEST "d0020004 80004001",
                 REPLY
                 "d0020004 80014000"
                 "| 00000000 00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 C",
                 1);
    raw_hear(host->fd, NULL,
             "| 00000000 002e4141 00000000 00000001 00000001 00000000 00000001 00000000 00000000"
             "00000000 00000001 00000000 00000000 C",
             "the RTR with a marker");
    assert_int_equal(host_completion(host).byte_len, 5);
    raw_say(host->fd, NULL, "| 000ec142 00000001 00000000 00000000 C");
    close_in_order(0);
}

/* With revision 1 there is no such thing. */
static void initiator__peer_to_peer_with_revision_1__is_client_server(void **state)
{
    struct iwarp_conn_info info = {.size = sizeof info};

    (void)state;
    ask_for(7);
    host->options.mpa_rev = 1;
    host->options.ord = 0; /* which stays 0 */
    be_initiator(REQUEST "40010000", REPLY "40010000", 0);
    raw_expect_silence(host->fd, 50, "an initiator with nothing to send");
    assert_int_equal(iwarp_conn_info(host->conn, &info), IWARP_OK);
    assert_int_equal(info.ord, 0);
    close_in_order(0);
}

static const struct {
    unsigned mask;
    const char *request, *reply, *answer;
    enum iwarp_fault_code fault;
} refused[] = {
    {4, REQUEST "50020004 80204020", REPLY "50020004 80108010", V18, IWARP_FAULT_MPA_NO_RTR},
    {4, REQUEST "50020004 80204020", REPLY "50020004 c0100010", V18, IWARP_FAULT_MPA_NO_RTR},
    {4, REQUEST "50020004 80204020", REPLY "50020004 c0108010", V18, IWARP_FAULT_MPA_NO_RTR},
    {4, REQUEST "50020004 80204020", REPLY "50020004 80100010", V18, IWARP_FAULT_MPA_NO_RTR},
    {2, REQUEST "50020004 80208020", REPLY "50020004 80104010", V18, IWARP_FAULT_MPA_NO_RTR},
    {1, REQUEST "50020004 c0200020", REPLY "50020004 8010c010", V18, IWARP_FAULT_MPA_NO_RTR},
    {7, REQUEST "50020004 c020c020", REPLY "50020004 80100010", V18, IWARP_FAULT_MPA_NO_RTR},
    /* Read, and an IRD of 0 */
    {4, REQUEST "50020004 80204020", REPLY "50020004 80004010", V18, IWARP_FAULT_MPA_NO_RTR},
    /* the Terminate has its marker */
    {4, REQUEST "50020004 80204020", REPLY "d0020004 80108010",
     "| 00000000 00164147 00000000 00000002 00000001 00000000 20070000 C", IWARP_FAULT_MPA_NO_RTR},
    /* A is not ours: the connection model is part of 2/0/07 */
    {4, REQUEST "50020004 80204020", REPLY "50020004 00100010", V18, IWARP_FAULT_MPA_RTR_MISMATCH},
    {4, REQUEST "50020004 80204020", REPLY "50020004 00104010", V18, IWARP_FAULT_MPA_RTR_MISMATCH},
    {7, REQUEST "50020004 c020c020", REPLY "50020004 4010c010", V18, IWARP_FAULT_MPA_RTR_MISMATCH},
    /* and no words at all */
    {4, REQUEST "50020004 80204020", REPLY "40020000", NULL, IWARP_FAULT_MPA_ENHANCED_MISSING},
};

/* [MPA2-9.2-10] */
static void initiator__reply_without_its_rtr__refuses(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof refused / sizeof *refused; i++) {
        printf("# %u: %s\n", refused[i].mask, refused[i].reply);
        fflush(stdout);
        ask_for(refused[i].mask);
        call_raw(refused[i].request, 1);
        raw_say(host->fd, NULL, refused[i].reply);
        failed_with(refused[i].answer, refused[i].fault);
    }
}

/* --- the answer to an RDMA Read as RTR ---------------------------------------------------------
 */

static void begin_rtr_read(unsigned receives)
{
    ask_for(4);
    be_initiator(REQUEST "50020004 80204020", REPLY "50020004 80104010", receives);
    raw_hear(host->fd, NULL, V25, "the RTR");
}

static void rtr_read__answered_with_payload__is_a_fault(void **state)
{
    (void)state;
    begin_rtr_read(HOST_RECEIVES);
    raw_say(host->fd, &host->names, "| 0012c142 L Q 01020304 C");
    ended_with("| 00264147 00000000 00000002 00000001 00000000 1101c000 0012c142 L Q C",
               IWARP_FAULT_READ_RESPONSE_BOUNDS, HOST_RECEIVES);
}

static void rtr_read__refused__tells_why(void **state)
{
    (void)state;
    begin_rtr_read(HOST_RECEIVES);
    raw_say(host->fd, NULL, V17);
    raw_fin(host->fd);
    raw_end(host->fd, "behind a Terminate");
    host_ended(host, IWARP_FAULT_PEER_TERMINATE, HOST_RECEIVES);
    host_finish(host);
}

/* Closing waits for the answer, */
static void disconnect__rtr_read_unanswered__waits(void **state)
{
    (void)state;
    begin_rtr_read(0);
    assert_int_equal(iwarp_disconnect(host->conn), IWARP_OK);
    raw_expect_silence(host->fd, 50, "a close before the answer");
    raw_say(host->fd, NULL, V26);
    raw_expect_fin(host->fd, "behind the answer");
    raw_fin(host->fd);
    host_ended(host, IWARP_FAULT_NONE, 0);
    host_finish(host);
}

/* but not for ever; */
static void disconnect__rtr_read_never_answered__ends_when_the_time_is_up(void **state)
{
    (void)state;
    begin_rtr_read(0);
    assert_int_equal(iwarp_disconnect(host->conn), IWARP_OK);
    raw_end(host->fd, "no answer");
    host_ended(host, IWARP_FAULT_TCP_CLOSE_TIMEOUT, 0);
    host_finish(host);
}

/* and a peer that closes instead has closed in order. */
static void rtr_read__answered_with_fin__is_a_close_in_order(void **state)
{
    (void)state;
    begin_rtr_read(HOST_RECEIVES);
    close_in_order(HOST_RECEIVES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(markers__asked_for_by_either_end__are_in_its_direction_only),
        cmocka_unit_test(markers__octet_by_octet__are_taken),
        cmocka_unit_test(markers__small_segments__leave_room_for_them),
        cmocka_unit_test(markers__m03__is_answered),
        cmocka_unit_test(marker__wrong__is_the_literal_terminate),
        cmocka_unit_test(marker__wrong_both_ways__is_a_terminate_with_marker),
        cmocka_unit_test(marker__wrong_in_the_first_fpdu__resets_without_an_octet),
        cmocka_unit_test(marker__odd__is_taken),
        cmocka_unit_test(responder__peer_to_peer__sends_once_the_rtr_came),
        cmocka_unit_test(responder__peer_to_peer_refused__says_so),
        cmocka_unit_test(initiator__peer_to_peer__begins_with_the_rtr),
        cmocka_unit_test(initiator__peer_to_peer_and_markers__begins_with_the_marked_rtr),
        cmocka_unit_test(initiator__peer_to_peer_with_revision_1__is_client_server),
        cmocka_unit_test(initiator__reply_without_its_rtr__refuses),
        cmocka_unit_test(rtr_read__answered_with_payload__is_a_fault),
        cmocka_unit_test(rtr_read__refused__tells_why),
        cmocka_unit_test(disconnect__rtr_read_unanswered__waits),
        cmocka_unit_test(disconnect__rtr_read_never_answered__ends_when_the_time_is_up),
        cmocka_unit_test(rtr_read__answered_with_fin__is_a_close_in_order),
    };

    return cmocka_run_group_tests_name("hostile_markers", tests, setup, teardown);
}
