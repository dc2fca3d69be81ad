/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A raw peer that uses markers as RFC 5044 allows and nobody does: FPDUs of the least sizes begin
 * at every position between two markers, so that these stand in front of the length field, behind
 * it, in each header, in the payload, in front of the CRC field; padding, reserved octets and the
 * low bits of FPDUPTR are not 0; segments hold an octet, an FPDU, many, or end anywhere. All of it
 * arrives, with CRC and without, in both directions. What is next to it and wrong is told apart.
 *
 * RFC 5044 4.1 to 4.4, erratum 1427.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tcp_host.h"
#include "vectors.h"

#define REQUEST "4d504120494420526571204672616d65"
#define REPLY   "4d504120494420526570204672616d65"
#define FRAMING "00164147 00000000 00000002 00000001 00000000 20030000 "
#define BAD_CRC "00164147 00000000 00000002 00000001 00000000 20020000 "

#define WRITE_HEADER 14u /* octets of a ULPDU in front of its payload */
#define SEND_HEADER  18u
#define LEAST        WRITE_HEADER
#define SIZES        8u   /* of ULPDUs from LEAST on: twice each padding */
#define PLACES       128u /* of a word; behind a marker no FPDU ends */

static struct tcp_host *host;
static struct chance chance;

static int setup(void **state)
{
    (void)state;
    chance.state = chance_seed();
    host = host_open(NULL, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    host_close(host);
    return 0;
}

/* --- an odd sender --------------------------------------------------------------------------- */

struct way {
    bool crc, initiator; /* this end is the initiator */
    enum { WHOLE, FPDU_BY_FPDU, ANYWHERE, OCTETS } pieces;
};

struct peer {
    const struct way *way;
    struct octets out;         /* not sent yet */
    uint64_t pos;              /* of what comes next, markers included */
    uint64_t heard;            /* the same of the other direction */
    uint32_t msn, reads;       /* next of its Sends, and of its RDMA Read Requests */
    uint32_t theirs;           /* next Send of this end */
    uint8_t shadow[HOST_AREA]; /* area W, as it must be when all has arrived */
};

static void flush(struct peer *p)
{
    static const size_t pieces[] = {SIZE_MAX, SIZE_MAX, 0, 1};

    raw_send_pieces(host->fd, p->out.p, p->out.n, pieces[p->way->pieces], &chance);
    p->out.n = 0;
}

/* [MPA-4.1-04] [MPA-4.2-03] [MPA-4.2-05]: what a receiver is to ignore is random. */
static void add_marker(struct peer *p, uint64_t at, uint64_t origin)
{
    octets_be(&p->out, chance_next(&chance) & 0xffff, 2);
    octets_be(&p->out, (at < origin ? 0 : at - origin) | chance_below(&chance, 4), 2);
}

static void say_fpdu(struct peer *p, const struct octets *ulpdu)
{
    uint64_t origin = p->pos % 512 == 0 ? p->pos + 4 : p->pos;
    struct octets body = {0};
    size_t start = p->out.n;

    octets_be(&body, ulpdu->n, 2);
    octets_add(&body, ulpdu->p, ulpdu->n);
    while (body.n % 4 != 0) {
        octets_fill(&body, (uint8_t)chance_next(&chance), 1);
    }
    for (size_t at = 0; at <= body.n; at += 4) {
        if (p->pos % 512 == 0) {
            add_marker(p, p->pos, origin);
            p->pos += 4;
        }
        if (at < body.n) {
            octets_add(&p->out, body.p + at, 4);
            p->pos += 4;
        }
    }
    octets_free(&body);
    uint32_t crc = octets_crc(0, p->out.p + start, p->out.n - start);
    if (!p->way->crc) {
        crc = (uint32_t)chance_next(&chance); /* a field that nobody looks at */
    }
    for (int i = 0; i < 4; i++) {
        octets_fill(&p->out, (uint8_t)(crc >> 8 * i), 1);
    }
    p->pos += 4;
    if (p->way->pieces == FPDU_BY_FPDU) {
        flush(p);
    }
}

/* A Write of a segment whose ULPDU has this length, anywhere into area W. */
static void say_write(struct peer *p, size_t ulpdu_len)
{
    struct octets u = {0};
    size_t n = ulpdu_len - WRITE_HEADER, at = chance_below(&chance, HOST_AREA - n);

    octets_hex(&u, chance_one_in(&chance, 2) ? "c140" : "8140");
    octets_be(&u, iwarp_mr_stag(host->w.mr), 4);
    octets_be(&u, (uint64_t)(uintptr_t)host->w.p + at, 8);
    for (size_t i = 0; i < n; i++) {
        p->shadow[at + i] = (uint8_t)chance_next(&chance);
    }
    octets_add(&u, p->shadow + at, n);
    say_fpdu(p, &u);
    octets_free(&u);
}

/* A Send, for which this end has a receive: until it is there, all before it has arrived. */
static void say_send(struct peer *p)
{
    const struct iwarp_sge sge = {host->l.p, HOST_RECV_LEN, iwarp_mr_stag(host->l.mr)};
    const struct iwarp_recv_wr recv = {.wr_id = 100, .sg_list = &sge, .num_sge = 1};
    size_t n = chance_below(&chance, HOST_RECV_LEN + 1);
    struct octets u = {0};

    assert_int_equal(iwarp_post_recv(host->qp, &recv, NULL), IWARP_OK);
    octets_hex(&u, "4143 00000000 00000000");
    octets_be(&u, p->msn++, 4);
    octets_be(&u, 0, 4);
    for (size_t i = 0; i < n; i++) {
        octets_fill(&u, (uint8_t)chance_next(&chance), 1);
    }
    say_fpdu(p, &u);
    flush(p);
    struct iwarp_wc wc = host_completion(host);
    assert_int_equal(wc.status, IWARP_WC_SUCCESS);
    assert_int_equal(wc.byte_len, n);
    assert_memory_equal(host->l.p, u.p + SEND_HEADER, n);
    octets_expect("area W", host->w.p, HOST_AREA, p->shadow, HOST_AREA);
    octets_free(&u);
}

/* --- what this end sends --------------------------------------------------------------------- */

/* The next FPDU is this one, with markers where they belong. */
static void hear_fpdu(struct peer *p, const struct octets *ulpdu, const char *what)
{
    struct octets expected = {0}, got = {0};

    fpdu_add_marked(&expected, p->heard, ulpdu->p, ulpdu->n, 0);
    octets_fill(&got, 0, expected.n);
    raw_read(host->fd, got.p, got.n, what);
    size_t n = expected.n - (p->way->crc ? 0 : 4);
    octets_expect(what, got.p, n, expected.p, n);
    p->heard += expected.n;
    octets_free(&expected);
    octets_free(&got);
}

static void read_and_hear(struct peer *p)
{
    size_t n = chance_below(&chance, 600), at = chance_below(&chance, HOST_AREA - n);
    struct octets u = {0}, answer = {0};

    octets_hex(&u, "4141 00000000 00000001");
    octets_be(&u, p->reads++, 4);
    octets_hex(&u, "00000000 11223344 00000000 00002000");
    octets_be(&u, n, 4);
    octets_be(&u, iwarp_mr_stag(host->r.mr), 4);
    octets_be(&u, (uint64_t)(uintptr_t)host->r.p + at, 8);
    say_fpdu(p, &u);
    flush(p);
    octets_hex(&answer, "c142 11223344 00000000 00002000");
    octets_add(&answer, host->r.p + at, n);
    hear_fpdu(p, &answer, "the RDMA Read Response");
    octets_free(&u);
    octets_free(&answer);
}

static void hear_send(struct peer *p)
{
    uint32_t n = (uint32_t)chance_below(&chance, 600);
    struct octets u = {0};

    host_post(host, IWARP_WR_SEND, 300, n);
    octets_hex(&u, "4143 00000000 00000000");
    octets_be(&u, p->theirs++, 4);
    octets_be(&u, 0, 4);
    octets_add(&u, host->r.p, n);
    hear_fpdu(p, &u, "a Send");
    assert_int_equal(host_completion(host).wr_id, 300);
    octets_free(&u);
}

/* --- conversations --------------------------------------------------------------------------- */

static const char *frame(char *text, size_t size, const char *key, bool markers, bool crc)
{
    snprintf(text, size, "%s%02x010000", key, (markers ? 0x80u : 0) | (crc ? 0x40u : 0));
    return text;
}

/* The raw peer has markers sent to it if it wants; this end always wants them. */
static void begin(const struct way *way, bool theirs)
{
    char mine[64], yours[64];

    host_reset_memory(host);
    host_options(host);
    host->options.markers = true;
    host->options.crc = way->crc;
    host->options.mpa_rev = 1;
    host->options.ulpdu_max = 1445;
    host->conn = NULL;
    if (way->initiator) {
        struct sockaddr_in at;
        int listener = raw_listen(&at);
        host_qp(host, 0);
        assert_int_equal(iwarp_connect(host->qp, (const struct sockaddr *)&at, sizeof at,
                                       &host->options, NULL, 0, host->eq, NULL, &host->conn),
                         IWARP_OK);
        host->fd = raw_accept(listener);
        raw_close(listener);
        raw_hear(host->fd, NULL, frame(mine, sizeof mine, REQUEST, true, way->crc), "the Request");
        raw_say(host->fd, NULL, frame(yours, sizeof yours, REPLY, theirs, way->crc));
    } else {
        host->fd = raw_connect(&host->addr);
        raw_say(host->fd, NULL, frame(yours, sizeof yours, REQUEST, theirs, way->crc));
        host_accept(host, host_request(host), 0);
        raw_hear(host->fd, NULL, frame(mine, sizeof mine, REPLY, true, way->crc), "the Reply");
    }
    host_event(host, IWARP_EVENT_ESTABLISHED);
}

static void end_in_order(void)
{
    raw_fin(host->fd);
    raw_expect_fin(host->fd, "a close in order");
    host_ended(host, IWARP_FAULT_NONE, 0);
    host_finish(host);
    host_check_quiet(host);
}

/* Every place of an FPDU with every one of the least sizes; long ones lead to where some lack. */
static void converse(const struct way *way)
{
    static struct peer p;
    bool seen[PLACES][SIZES] = {{false}};
    unsigned left = (PLACES - 1) * SIZES, fpdus = 0;

    memset(&p, 0, sizeof p);
    p = (struct peer){.way = way, .msn = 1, .reads = 1, .theirs = 1};
    begin(way, true);
    memcpy(p.shadow, host->w.p, HOST_AREA);
    say_write(&p, LEAST); /* this end may send from here on */
    while (left > 0) {
        bool *here = seen[p.pos / 4 % PLACES];
        unsigned size = (unsigned)chance_below(&chance, SIZES);
        for (unsigned i = 0; i < SIZES && here[size]; i++) {
            size = (size + 1) % SIZES;
        }
        if (here[size]) {
            say_write(&p, LEAST + chance_size(&chance, chance_one_in(&chance, 8) ? 3000 : 500));
        } else {
            here[size] = true;
            left--;
            say_write(&p, LEAST + size);
        }
        if (++fpdus % 16 == 0) {
            say_send(&p);
            read_and_hear(&p);
            hear_send(&p);
        }
    }
    say_send(&p);
    print_message("# %u Writes, %llu octets\n", fpdus, (unsigned long long)p.pos);
    octets_free(&p.out);
    end_in_order();
}

static void markers__at_every_place_of_every_small_fpdu__are_taken(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * 2 * 4; i++) {
        const struct way way = {.crc = i & 1, .initiator = i & 2, .pieces = i / 4};
        converse(&way);
    }
}

/* --- what is next to it and wrong ------------------------------------------------------------ */

/* Behind the first marker, 20 octets: the next FPDU is at 24. */
#define FIRST "| 00000000 000ec140 00000001 00000000 00000000 C"
#define EMPTY "000ec140 00000001 00000000 00000000"

static const struct {
    const char *name, *sent, *answer;
    enum iwarp_fault_code fault;
    bool needs_crc;
} wrong[] = {
    {"between FPDUs, and points to the one before",
     FIRST "| 01e2c140 W T N11*468 C | 000001e8 " EMPTY " C", FRAMING "01766420",
     IWARP_FAULT_MPA_MARKER, false},
    {"between FPDUs, and points in front of itself",
     FIRST "| 01e2c140 W T N11*468 C | 00000004 " EMPTY " C", FRAMING "01766420",
     IWARP_FAULT_MPA_MARKER, false},
    {"between FPDUs, and in no CRC", FIRST "| 01e2c140 W T N11*468 C | 00000000 | " EMPTY " C",
     BAD_CRC "7fe42585", IWARP_FAULT_MPA_CRC, true},
    {"in front of the CRC field, and says that it is between FPDUs",
     FIRST "| 01e6c140 W T N11*472 00000000 C", FRAMING "01766420", IWARP_FAULT_MPA_MARKER, false},
    {"behind the length field, and says that it is between FPDUs",
     FIRST "| 01dec140 W T N11*464 C | 0010c140 00000000 00000001 00000000 00000000 0000 0000 C",
     FRAMING "01766420", IWARP_FAULT_MPA_MARKER, false},
    {"the second of two, and points to the first",
     FIRST "| 03e4c140 W T N11*472 000001e8 N11*508 00000200 N11*2 0000 C", FRAMING "01766420",
     IWARP_FAULT_MPA_MARKER, false},
    {"the second of two, and does not count the first",
     FIRST "| 03e4c140 W T N11*472 000001e8 N11*508 000003e4 N11*2 0000 C", FRAMING "01766420",
     IWARP_FAULT_MPA_MARKER, false},
};

static void marker__wrong_next_to_what_is_right__is_the_literal_terminate(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * sizeof wrong / sizeof *wrong; i++) {
        const struct way way = {.crc = i % 2 == 0};
        if (wrong[i / 2].needs_crc && !way.crc) {
            continue;
        }
        printf("# %s, CRC %d\n", wrong[i / 2].name, way.crc);
        fflush(stdout);
        begin(&way, false);
        raw_say(host->fd, &host->names, wrong[i / 2].sent);
        struct octets answer = {0};
        raw_text(&answer, NULL, wrong[i / 2].answer);
        struct octets got = {0};
        octets_fill(&got, 0, answer.n);
        raw_read(host->fd, got.p, got.n, "the Terminate");
        size_t n = answer.n - (way.crc ? 0 : 4);
        octets_expect("the Terminate", got.p, n, answer.p, n);
        octets_free(&answer);
        octets_free(&got);
        raw_expect_fin(host->fd, "behind the Terminate");
        host_ended(host, wrong[i / 2].fault, 0);
        host_finish(host);
        host_check_quiet(host);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(markers__at_every_place_of_every_small_fpdu__are_taken),
        cmocka_unit_test(marker__wrong_next_to_what_is_right__is_the_literal_terminate),
    };

    return cmocka_run_group_tests_name("odd_markers", tests, setup, teardown);
}
