/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recorded traffic of the Linux kernel's software RNIC (tests/captures) through the library:
 *  - the decoders, in any pieces, against the counts of tests/captures/README.md;
 *  - the stream, as if this end had been the peer: every Send, RDMA Write and Read Response has to
 *    land where it should, in four deliveries and with each kind of placement, and what this end
 *    sends of its own has to be what the recorded peer sent.
 *
 * For tests/scripts/captures.sh, which compares with an independent decoder:
 *   test_captures --print FILE   one line for each FPDU
 *   test_captures --hash         a filter: data=HEX becomes sha256=HEX
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "capture.h"
#include "deliveries.h"
#include "replay.h"

#define FOLDER "tests/captures/"

/* A recorded file, decoded. replay[c][0] is what the side that connected had sent. */
struct record {
    struct capture capture;
    struct replay replay[CAPTURE_CONNECTIONS][2];
};

/* --- decoding a file --- */

/* What the sender of a start-up frame wished, by the fixed places of RFC 5044 7.1.1 and 6581 9. */
static struct iwarp_mpa_wish wish_of(const struct tcp_direction *d)
{
    const uint8_t *p = d->octets.p;

    assert_true(d->octets.n >= 20);
    struct iwarp_mpa_wish w = {.rev = p[17],
                               .crc = (p[16] & 0x40) != 0,
                               .markers_rx = (p[16] & 0x80) != 0,
                               .ird = 0x3fff,
                               .ord = 0x3fff};
    if (p[17] >= 2 && (p[16] & 0x10)) {
        assert_true(d->octets.n >= 24);
        w.peer_to_peer = (p[20] & 0x80) != 0;
        w.rtr =
            (uint8_t)((p[20] & 0x40 ? IWARP_RTR_SEND : 0) | (p[22] & 0x80 ? IWARP_RTR_WRITE : 0) |
                      (p[22] & 0x40 ? IWARP_RTR_READ : 0));
        w.ird = (uint16_t)((p[20] & 0x3f) << 8 | p[21]);
        w.ord = (uint16_t)((p[22] & 0x3f) << 8 | p[23]);
    }
    return w;
}

static void replay_begin(struct replay *r, const struct tcp_connection *t, unsigned side)
{
    struct iwarp_mpa_wish mine = wish_of(&t->direction[1 - side]);
    bool crc = mine.crc || wish_of(&t->direction[side]).crc;

    replay_init(r, side == 0 ? IWARP_MPA_INITIATOR : IWARP_MPA_RESPONDER, &mine, crc);
}

static void replay_end(const struct replay *r)
{
    assert_int_equal(r->setup.step, IWARP_MPA_FRAME);
    assert_int_equal(r->setup.settled.crc, r->crc);
    assert_int_equal(r->carry.n, 0);
}

static void record_open(struct record *f, const char *path)
{
    capture_load(&f->capture, path);
    assert_true(f->capture.connections > 0);
    for (unsigned i = 0; i < f->capture.connections * 2; i++) {
        const struct tcp_connection *t = &f->capture.connection[i / 2];
        struct replay *r = &f->replay[i / 2][i % 2];
        replay_begin(r, t, i % 2);
        replay_feed(r, t->direction[i % 2].octets.p, t->direction[i % 2].octets.n);
        replay_end(r);
    }
}

static void record_close(struct record *f)
{
    for (unsigned i = 0; i < f->capture.connections * 2; i++) {
        replay_free(&f->replay[i / 2][i % 2]);
    }
    capture_free(&f->capture);
}

/* --- lines for the comparison --- */

static void print_sha256(const uint8_t *p, size_t n)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    assert_int_equal(EVP_Digest(n ? p : (const uint8_t *)"", n, digest, &len, EVP_sha256(), NULL),
                     1);
    printf(" sha256=");
    for (unsigned i = 0; i < len; i++) {
        printf("%02x", digest[i]);
    }
}

static void print_fpdu(const struct record *f, unsigned connection, unsigned side,
                       const struct replay_fpdu *x)
{
    static const char *const crc[] = {"bad", "good", "off"};
    const struct tcp_connection *t = &f->capture.connection[connection];
    const struct replay *r = &f->replay[connection][side];

    printf("frame=%u stream=%u from=%u op=%u L=%u dv=%u rv=%u ",
           capture_frame(&t->direction[side], x->end), connection, t->port[side], x->opcode,
           x->h.last, x->h.control & 3u, (unsigned)x->h.ulp_control >> 6);
    if (x->h.tagged) {
        printf("stag=%08x to=%016" PRIx64, x->h.stag, x->h.to);
    } else {
        printf("rsvd=%08x qn=%08x msn=%08x mo=%08x", x->h.stag, x->h.qn, x->h.msn, x->h.mo);
    }
    printf(" ulpdu=%u pad=%u crc=%s,%08x", x->ulpdu_len, x->pad, crc[x->crc], x->crc_field);
    if (x->opcode == IWARP_OP_READ_REQUEST) {
        printf(" sink=%08x,%016" PRIx64 " size=%08x source=%08x,%016" PRIx64, x->read.sink_stag,
               x->read.sink_to, x->read.size, x->read.src_stag, x->read.src_to);
    } else {
        printf(" octets=%u", x->payload_len);
        print_sha256(r->payload.p + x->payload, x->payload_len);
    }
    printf("\n");
}

/* The next FPDU by the frame that completed it. */
static int next_direction(const struct record *f, const unsigned *at)
{
    unsigned first = 0;
    int best = -1;

    for (unsigned i = 0; i < f->capture.connections * 2; i++) {
        const struct replay *r = &f->replay[i / 2][i % 2];
        if (at[i] < r->fpdus) {
            unsigned frame =
                capture_frame(&f->capture.connection[i / 2].direction[i % 2], r->fpdu[at[i]].end);
            if (best < 0 || frame < first) {
                best = (int)i;
                first = frame;
            }
        }
    }
    return best;
}

static int print_file(const char *path)
{
    static struct record f;
    unsigned at[CAPTURE_CONNECTIONS * 2] = {0};
    int i;

    record_open(&f, path);
    while ((i = next_direction(&f, at)) >= 0) {
        unsigned connection = (unsigned)i / 2, side = (unsigned)i % 2;
        print_fpdu(&f, connection, side, &f.replay[connection][side].fpdu[at[i]++]);
    }
    record_close(&f);
    return 0;
}

static int hash_lines(void)
{
    struct octets data = {0};
    char *line = NULL;
    size_t room = 0;

    while (getline(&line, &room, stdin) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *at = strstr(line, " data=");
        if (at) {
            data.n = 0;
            octets_hex(&data, at + 6);
            *at = '\0';
        }
        printf("%s", line);
        if (at) {
            print_sha256(data.p, data.n);
        }
        printf("\n");
    }
    free(line);
    octets_free(&data);
    return 0;
}

/* --- the table of the README --- */

/* A row of "Message counts", cut at its bars. */
enum {
    FILE_NAME = 1,
    PACKETS,
    STARTUP,
    WRITES,
    READS,
    RESPONSES,
    SENDS,
    SENDS_INV,
    SENDS_SE,
    SENDS_SE_INV,
    TERMINATES,
    FPDUS,
    CRC_RIGHT,
    LARGEST,
    CELLS
};

static bool cut_row(char *line, char **cell)
{
    unsigned n = 0;

    for (char *p = line, *part; n < CELLS && (part = strsep(&p, "|")) != NULL; n++) {
        part += strspn(part, " ");
        for (size_t len = strlen(part); len > 0 && part[len - 1] == ' '; len--) {
            part[len - 1] = '\0';
        }
        cell[n] = part;
    }
    return n == CELLS && strspn(cell[PACKETS], "0123456789") > 0;
}

static void for_each_row(void (*what)(char **cell), unsigned *rows)
{
    FILE *f = fopen(FOLDER "README.md", "r");
    char line[1000], *cell[CELLS];

    *rows = 0;
    if (!f) {
        fail_msg("no " FOLDER "README.md");
        return;
    }
    while (fgets(line, sizeof line, f)) {
        if (cut_row(line, cell)) {
            what(cell);
            ++*rows;
        }
    }
    fclose(f);
}

static void open_row(struct record *f, char **cell)
{
    char path[200];

    snprintf(path, sizeof path, FOLDER "%s.pcap", cell[FILE_NAME]);
    record_open(f, path);
}

static void frame_text(const uint8_t *p, bool reply, char *out, size_t size)
{
    static const char letters[] = "MCRSg"; /* from the highest bit on */
    char flags[] = "-----";
    size_t len;

    for (unsigned i = 0; i < 5; i++) {
        flags[i] = p[16] & 0x80 >> i ? letters[i] : '-';
    }
    len = (size_t)snprintf(out, size, "%s: rev %u %s pd %u", reply ? "Rep" : "Req", p[17], flags,
                           (unsigned)p[18] << 8 | p[19]);
    if (p[16] & 0x10) {
        len += (size_t)snprintf(out + len, size - len, " %02x%02x%02x%02x", p[20], p[21], p[22],
                                p[23]);
    }
    assert_true(len < size);
}

/* The start-up frames in the words of the table, which tells each different one once. */
static void startup_text(const struct record *f, char *out, size_t size)
{
    size_t len = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < f->capture.connections * 2; i++) {
        char one[64];
        frame_text(f->replay[i / 2][i % 2].setup.frame, i % 2 == 1, one, sizeof one);
        if (!strstr(out, one)) {
            len += (size_t)snprintf(out + len, size - len, "%s%s", i ? "; " : "", one);
        }
        assert_true(len < size);
    }
}

static void count_fpdus(const struct record *f, unsigned *count)
{
    static const int cell_of[16] = {WRITES,    READS,    RESPONSES,    SENDS,
                                    SENDS_INV, SENDS_SE, SENDS_SE_INV, TERMINATES};

    for (unsigned i = 0; i < f->capture.connections * 2; i++) {
        const struct replay *r = &f->replay[i / 2][i % 2];
        for (unsigned k = 0; k < r->fpdus; k++) {
            const struct replay_fpdu *x = &r->fpdu[k];
            assert_true(cell_of[x->opcode] != 0);
            assert_int_not_equal(x->crc, REPLAY_CRC_BAD);
            count[cell_of[x->opcode]] += x->h.last;
            count[FPDUS]++;
            count[CRC_RIGHT] += x->crc == REPLAY_CRC_GOOD;
            if (x->ulpdu_len > count[LARGEST]) {
                count[LARGEST] = x->ulpdu_len;
            }
        }
    }
}

static void check_counts(char **cell)
{
    static struct record f;
    unsigned count[CELLS] = {0};
    char startup[400];

    open_row(&f, cell);
    count_fpdus(&f, count);
    count[PACKETS] = f.capture.packets;
    startup_text(&f, startup, sizeof startup);
    assert_string_equal(startup, cell[STARTUP]);
    for (unsigned i = PACKETS; i < CELLS; i++) {
        if (i != STARTUP && strtoul(cell[i], NULL, 10) != count[i]) {
            fail_msg("%s: column %u: counted %u, the table says %s", cell[FILE_NAME], i, count[i],
                     cell[i]);
        }
    }
    record_close(&f);
}

static void decoders__every_file__count_as_the_table_says(void **state)
{
    unsigned rows;
    glob_t files;

    (void)state;
    for_each_row(check_counts, &rows);
    assert_int_equal(glob(FOLDER "*.pcap", 0, NULL, &files), 0);
    assert_int_equal(rows, files.gl_pathc);
    assert_int_equal(rows, 20);
    globfree(&files);
}

/* --- any pieces --- */

static void decode_in_pieces(const struct record *f, unsigned i, size_t most, struct chance *c)
{
    const struct tcp_connection *t = &f->capture.connection[i / 2];
    const struct octets *o = &t->direction[i % 2].octets;
    struct replay r;

    replay_begin(&r, t, i % 2);
    for (size_t at = 0; at < o->n;) {
        size_t n = most == 1 ? 1 : 1 + chance_size(c, most);
        n = n < o->n - at ? n : o->n - at;
        uint8_t *copy = malloc(n);
        assert_non_null(copy);
        memcpy(copy, o->p + at, n);
        replay_feed(&r, copy, n);
        free(copy);
        at += n;
    }
    replay_end(&r);
    replay_expect_equal(&r, &f->replay[i / 2][i % 2]);
    replay_free(&r);
}

static void check_pieces(char **cell)
{
    static struct record f;
    struct chance c = {chance_seed()};

    open_row(&f, cell);
    for (unsigned i = 0; i < f.capture.connections * 2; i++) {
        decode_in_pieces(&f, i, 1, &c);
        for (unsigned times = 0; times < 4; times++) {
            decode_in_pieces(&f, i, 5000, &c);
        }
    }
    record_close(&f);
}

static void decoders__octets_in_any_pieces__see_the_same(void **state)
{
    unsigned rows;

    (void)state;
    for_each_row(check_pieces, &rows);
    assert_int_equal(rows, 20);
}

/* --- through the stream --- */

/* What a recorded direction used of one STag. */
struct span {
    uint32_t stag;
    uint64_t from, to;
    uint8_t *expected;
};

/* This end takes the place of the recorded receiver: `in` comes, `out` is what that one sent. */
struct play {
    const struct replay *in, *out;
    const struct octets *out_octets;
    struct span span[ENDPOINT_REGIONS - 1];
    unsigned spans;
    unsigned sends, reads, requests;
    uint64_t send_octets, answer_octets;
    struct octets sent; /* payload of all Sends, in order */
};

static struct span *span_use(struct play *p, uint32_t stag, uint64_t to, uint64_t n)
{
    unsigned i = 0;

    while (i < p->spans && p->span[i].stag != stag) {
        i++;
    }
    if (i == p->spans) {
        assert_true(p->spans < ENDPOINT_REGIONS - 1);
        p->span[p->spans++] = (struct span){stag, to, to + n, NULL};
    }
    struct span *s = &p->span[i];
    s->from = to < s->from ? to : s->from;
    s->to = to + n > s->to ? to + n : s->to;
    assert_true(s->to - s->from < 1u << 24);
    return s;
}

/* First the extents, then what must be in them at the end. */
static void play_prepare(struct play *p)
{
    for (unsigned i = 0; i < p->in->fpdus; i++) {
        const struct replay_fpdu *x = &p->in->fpdu[i];
        if (x->h.tagged && x->payload_len > 0) {
            span_use(p, x->h.stag, x->h.to, x->payload_len);
        } else if (x->opcode == IWARP_OP_READ_REQUEST) {
            p->requests++;
            p->answer_octets += x->read.size;
            span_use(p, x->read.src_stag, x->read.src_to, x->read.size);
        } else if (!x->h.tagged) {
            p->sends += x->h.last;
            p->send_octets += x->payload_len;
            octets_add(&p->sent, p->in->payload.p + x->payload, x->payload_len);
        }
    }
    for (unsigned i = 0; i < p->out->fpdus; i++) {
        const struct replay_fpdu *x = &p->out->fpdu[i];
        if (x->opcode == IWARP_OP_READ_REQUEST) {
            p->reads++;
            span_use(p, x->read.sink_stag, x->read.sink_to, x->read.size);
        }
    }
    for (unsigned i = 0; i < p->spans; i++) {
        p->span[i].expected = calloc(1, (size_t)(p->span[i].to - p->span[i].from + 1));
        assert_non_null(p->span[i].expected);
    }
    for (unsigned i = 0; i < p->in->fpdus; i++) {
        const struct replay_fpdu *x = &p->in->fpdu[i];
        if (x->h.tagged && x->payload_len > 0) {
            struct span *s = span_use(p, x->h.stag, x->h.to, x->payload_len);
            memcpy(s->expected + (x->h.to - s->from), p->in->payload.p + x->payload,
                   x->payload_len);
        }
    }
}

static void play_fini(struct play *p)
{
    for (unsigned i = 0; i < p->spans; i++) {
        free(p->span[i].expected);
    }
    octets_free(&p->sent);
}

/* Receives of exactly the lengths that came, one behind the other in one area. */
static void post_receives(struct endpoint *e, const struct play *p)
{
    uint32_t stag = 0x00777701, len = 0;
    size_t at = 0;

    for (unsigned i = 0; i < p->spans; i++) {
        assert_int_not_equal(p->span[i].stag >> 8, stag >> 8);
    }
    const struct area *a = endpoint_area(e, stag, 0x1000, (size_t)p->send_octets, LOCAL, 0);
    for (unsigned i = 0; i < p->in->fpdus; i++) {
        const struct replay_fpdu *x = &p->in->fpdu[i];
        if (x->h.tagged || x->h.qn != 0) {
            continue;
        }
        len += x->payload_len;
        if (x->h.last) {
            const struct iwarp_sge sge = area_sge(a, at, len);
            endpoint_recv(e, &sge, 1);
            at += len;
            len = 0;
        }
    }
}

/* The RDMA Reads of the recorded end; what goes out has to be its octets. */
static void post_reads(struct endpoint *e, const struct play *p)
{
    struct octets recorded = {0};
    size_t begin = p->out->setup_len;

    for (unsigned i = 0; i < p->out->fpdus; i++) {
        const struct replay_fpdu *x = &p->out->fpdu[i];
        if (x->opcode == IWARP_OP_READ_REQUEST) {
            const struct iwarp_sge sge = {(void *)(uintptr_t)x->read.sink_to, x->read.size,
                                          x->read.sink_stag};
            const struct iwarp_send_wr wr = {.opcode = IWARP_WR_READ,
                                             .sg_list = &sge,
                                             .num_sge = 1,
                                             .remote_to = x->read.src_to,
                                             .remote_stag = x->read.src_stag};
            endpoint_post(e, &wr);
            octets_add(&recorded, p->out_octets->p + begin, x->end - begin);
            if (e->options.no_crc) {
                memset(recorded.p + recorded.n - 4, 0, 4);
            }
        }
        begin = x->end;
    }
    endpoint_drain(e);
    octets_expect("RDMA Read Requests", e->sent.p, e->sent.n, recorded.p, recorded.n);
    endpoint_forget_sent(e);
    octets_free(&recorded);
}

static void play_setup(struct endpoint *e, void *arg)
{
    const struct play *p = arg;

    for (unsigned i = 0; i < p->spans; i++) {
        const struct span *s = &p->span[i];
        endpoint_area(e, s->stag, s->from, (size_t)(s->to - s->from), WRITABLE | READABLE, 0);
    }
    post_receives(e, p);
    post_reads(e, p);
}

static void check_receives(const struct endpoint *e, const struct play *p)
{
    unsigned n = 0, len = 0;

    assert_int_equal(e->rq.done, p->sends);
    octets_expect("received messages", e->area[p->spans].p, e->area[p->spans].n, p->sent.p,
                  p->sent.n);
    for (unsigned i = 0; i < p->in->fpdus; i++) {
        const struct replay_fpdu *x = &p->in->fpdu[i];
        if (x->h.tagged || x->h.qn != 0) {
            continue;
        }
        len += x->payload_len;
        if (x->h.last) {
            const struct iwarp_rwqe *w = endpoint_rwqe(e, n++);
            assert_int_equal(w->status, IWARP_WC_SUCCESS);
            assert_int_equal(w->byte_len, len);
            assert_int_equal(w->wc_flags, x->opcode == IWARP_OP_SEND_SE ? IWARP_WC_SOLICITED : 0);
            len = 0;
        }
    }
}

/* Each RDMA Read of the peer was answered whole; what the memory held then is not recorded. */
static void check_answers(const struct endpoint *e, const struct play *p)
{
    uint64_t octets = 0;
    unsigned whole = 0;
    struct fpdu x;

    for (size_t at = 0; at < e->sent.n; at += x.len) {
        assert_true(fpdu_decode(e->sent.p + at, e->sent.n - at, !e->options.no_crc, &x));
        assert_int_equal(x.opcode, 2);
        octets += x.payload_len;
        whole += x.last;
    }
    assert_int_equal(whole, p->requests);
    assert_int_equal(octets, p->answer_octets);
}

static void play_check(struct endpoint *e, void *arg)
{
    const struct play *p = arg;

    if (e->s.fault.code != IWARP_FAULT_NONE) {
        fail_msg("%s after %" PRIu64 " octets", iwarp_fault_name(e->s.fault.code),
                 e->s.fault.rx_pos);
    }
    assert_int_equal(e->s.life, STREAM_RUNNING);
    assert_int_equal(e->s.rx.fpdus, p->in->fpdus);
    for (unsigned i = 0; i < p->spans; i++) {
        const struct span *s = &p->span[i];
        octets_expect("memory of an STag", e->area[i].p, e->area[i].n, s->expected,
                      (size_t)(s->to - s->from));
    }
    check_receives(e, p);
    check_answers(e, p);
    assert_int_equal(e->sq.done, p->reads);
    for (unsigned i = 0; i < p->reads; i++) {
        assert_int_equal(endpoint_swqe(e, i)->status, IWARP_WC_SUCCESS);
    }
}

static unsigned directions_played, directions_with_reads;

/* The sink of an RDMA Read is a pointer here, and was one on a machine of 64 bits. */
static bool is_playable(const struct play *p)
{
    directions_with_reads += p->reads > 0;
    return p->reads == 0 || sizeof(void *) == sizeof(uint64_t);
}

static void check_stream(char **cell)
{
    static struct record f;

    open_row(&f, cell);
    for (unsigned i = 0; i < f.capture.connections * 2; i++) {
        const struct tcp_connection *t = &f.capture.connection[i / 2];
        const struct octets *o = &t->direction[i % 2].octets;
        struct play p = {.in = &f.replay[i / 2][i % 2],
                         .out = &f.replay[i / 2][1 - i % 2],
                         .out_octets = &t->direction[1 - i % 2].octets};
        play_prepare(&p);
        const struct scene scene = {
            .options = {.ird = p.requests, .ord = p.reads},
            .setup = play_setup,
            .check = play_check,
            .arg = &p,
            .octets = o->p + p.in->setup_len,
            .n = o->n - p.in->setup_len,
            .not_placement = p.in->crc ? 0 : 1u << PLACE_VERIFIED | 1u << PLACE_EARLY,
        };
        if (is_playable(&p)) {
            receive_every_way(&scene);
            directions_played += p.in->fpdus > 0;
        }
        play_fini(&p);
    }
    record_close(&f);
}

static void stream__every_file_in_every_delivery__lands_and_answers_alike(void **state)
{
    unsigned rows;

    (void)state;
    for_each_row(check_stream, &rows);
    assert_int_equal(rows, 20);
    assert_true(directions_played + (sizeof(void *) < 8 ? directions_with_reads : 0) >= 30);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoders__every_file__count_as_the_table_says),
        cmocka_unit_test(decoders__octets_in_any_pieces__see_the_same),
        cmocka_unit_test(stream__every_file_in_every_delivery__lands_and_answers_alike),
    };

    if (argc == 3 && strcmp(argv[1], "--print") == 0) {
        return print_file(argv[2]);
    }
    if (argc == 2 && strcmp(argv[1], "--hash") == 0) {
        return hash_lines();
    }
    return cmocka_run_group_tests_name("captures", tests, NULL, NULL);
}
