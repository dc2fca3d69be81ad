/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One message as long as a message can be, 2^32-1 octets, as Send, Write and Read, with and without
 * markers, so that the stream passes 4 GiB too. RFC 5041 5.2, RFC 5040 5.
 *
 * 8 GiB of memory are not needed: either side's is one piece of 1 MiB that is mapped again and
 * again, but for three pieces that are there once each: the first, the last, and the one at half
 * the way, where a sign could get lost. Those are checked octet by octet, the others' sum of what
 * was written last.
 *
 * LONG_OCTETS in the environment: how long; make test-long asks for all of it.
 */
#include "verbs_pair.h"

#include "stream/stream.h"
#include "verbs/conn.h"
#include "verbs/cq.h"
#include "verbs/mr.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIECE ((size_t)1 << 20)

static size_t octets = ((size_t)24 << 20) - 1;

struct long_area {
    uint8_t *p;
    size_t pieces;
};

static bool is_once(const struct long_area *a, size_t i)
{
    return i == 0 || i == a->pieces / 2 || i + 1 == a->pieces;
}

static void map_piece(uint8_t *at, int fd)
{
    int flags = MAP_FIXED | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
    void *p = mmap(at, PIECE, PROT_READ | PROT_WRITE, flags, fd, 0);

    assert_ptr_equal(p, at);
}

static void map_area(struct long_area *a)
{
    int fd = memfd_create("piece", MFD_CLOEXEC);

    a->pieces = (octets + PIECE - 1) / PIECE;
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)PIECE), 0);
    a->p = mmap(NULL, a->pieces * PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                0);
    assert_ptr_not_equal(a->p, MAP_FAILED);
    for (size_t i = 0; i < a->pieces; i++) {
        map_piece(a->p + i * PIECE, is_once(a, i) ? -1 : fd);
    }
    close(fd);
}

/* Other octets in each piece that there is, or all the same. */
static void fill(const struct long_area *a, uint64_t seed)
{
    for (size_t i = 0; i < a->pieces; i++) {
        if (is_once(a, i) || i == 1) {
            pair_fill(a->p + i * PIECE, PIECE, seed + i);
        }
    }
}

static void blank(const struct long_area *a)
{
    for (size_t i = 0; i < a->pieces; i++) {
        if (is_once(a, i) || i == 1) {
            memset(a->p + i * PIECE, 0x5a, PIECE);
        }
    }
}

static void expect_same(const struct long_area *to, const struct long_area *from)
{
    for (size_t i = 0; i < to->pieces; i++) {
        if (is_once(to, i) || i == 1) {
            size_t n = octets - i * PIECE < PIECE ? octets - i * PIECE : PIECE;
            assert_memory_equal(to->p + i * PIECE, from->p + i * PIECE, n);
        }
    }
    /* 2^32 octets are mapped, and one less is sent. */
    assert_int_equal(to->p[octets], 0x5a);
}

static struct iwarp_wc await(struct iwarp_cq *cq, uint64_t id)
{
    struct iwarp_wc wc = {0};
    int n = 0;

    for (int i = 0; i < 20 && n == 0; i++) { /* a slow machine moves 20 MB/s under a sanitizer */
        n = iwarp_cq_wait(cq, &wc, 1, PAIR_WAIT_MS);
    }
    assert_int_equal(n, 1);
    assert_int_equal(wc.status, IWARP_WC_SUCCESS);
    assert_int_equal(wc.wr_id, id);
    return wc;
}

struct long_case {
    enum iwarp_wr_opcode opcode;
    bool markers;
};

static void transfer(struct pair *p, enum iwarp_wr_opcode opcode, const struct long_area area[2],
                     struct iwarp_mr *const mr[2])
{
    struct iwarp_sge sge = {area[0].p, (uint32_t)octets, iwarp_mr_stag(mr[0])};
    struct iwarp_sge theirs = {area[1].p, (uint32_t)octets, iwarp_mr_stag(mr[1])};
    struct iwarp_send_wr wr = pair_wr(opcode, 1, &sge);

    wr.remote_stag = iwarp_mr_stag(mr[1]);
    wr.remote_to = (uint64_t)(uintptr_t)area[1].p;
    if (opcode == IWARP_WR_SEND) {
        const struct iwarp_recv_wr recv = {.wr_id = 2, .sg_list = &theirs, .num_sge = 1};
        must(iwarp_post_recv(p->side[1].qp, &recv, NULL));
    }
    must(iwarp_post_send(p->side[0].qp, &wr, NULL));
    struct iwarp_wc wc = await(p->side[0].send_cq, 1);
    if (opcode == IWARP_WR_READ) {
        assert_int_equal(wc.byte_len, octets);
    } else if (opcode == IWARP_WR_SEND) {
        assert_int_equal(await(p->side[1].recv_cq, 2).byte_len, octets);
    }
    /* Behind a Write comes a Send: what it finds is there. */
    pair_recv(&p->side[1], 4, 0, 8);
    pair_send(&p->side[0], 3, 8, 8);
    (void)await(p->side[0].send_cq, 3);
    (void)await(p->side[1].recv_cq, 4);
}

static void try_case(const struct long_case *c, const struct long_area area[2])
{
    const struct long_area *from = c->opcode == IWARP_WR_READ ? &area[1] : &area[0];
    const struct long_area *to = c->opcode == IWARP_WR_READ ? &area[0] : &area[1];
    struct pair_options o;
    struct iwarp_mr *mr[2];
    struct pair p;

    pair_options_init(&o, PAIR_TCP4);
    o.conn[0].markers = o.conn[1].markers = c->markers;
    pair_open(&p, &o);
    for (int i = 0; i < 2; i++) {
        must(iwarp_mr_register(p.side[i].pd, area[i].p, area[i].pieces * PIECE, PAIR_ALL, &mr[i]));
    }
    fill(from, c->opcode + 10 * c->markers);
    blank(to);
    transfer(&p, c->opcode, area, mr);
    expect_same(to, from);
    const struct iwarp_stream *sender = &p.side[c->opcode == IWARP_WR_READ].conn->stream;
    assert_true(sender->tx.sent > octets);
    assert_int_equal(iwarp_qp_state(p.side[0].qp), IWARP_QP_RTS);
    for (int i = 0; i < 2; i++) {
        must(iwarp_mr_deregister(mr[i]));
    }
    pair_close(&p);
}

static void message__as_long_as_can_be__arrives(void **state)
{
    static const struct long_case cases[] = {{IWARP_WR_SEND, false},
                                             {IWARP_WR_WRITE, false},
                                             {IWARP_WR_READ, false},
                                             {IWARP_WR_SEND, true},
                                             {IWARP_WR_READ, true}};
    const char *wanted = getenv("LONG_OCTETS");
    struct long_area area[2];

    (void)state;
    if (wanted) {
        octets = strtoul(wanted, NULL, 10);
    }
    assert_in_range(octets, 4 * PIECE, UINT32_MAX);
    assert_true(octets % PIECE != 0); /* the octet behind the last one is there */
    map_area(&area[0]);
    map_area(&area[1]);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        try_case(&cases[i], area);
        print_message("opcode %d, markers %d: %zu octets\n", (int)cases[i].opcode, cases[i].markers,
                      octets);
    }
    munmap(area[0].p, area[0].pieces * PIECE);
    munmap(area[1].p, area[1].pieces * PIECE);
}

/* One octet more cannot be said on the wire. */
/* [DDP-5.2-03] [VERBS-8.1.3.2-01] */
static void message__one_octet_longer__is_misuse(void **state)
{
    struct iwarp_sge sge[2] = {{(void *)(uintptr_t)4096, UINT32_MAX, 1},
                               {(void *)(uintptr_t)4096, 1, 1}};
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_open(&p, &o);
    for (int op = IWARP_WR_SEND; op <= IWARP_WR_WRITE; op++) {
        struct iwarp_send_wr wr = pair_wr((enum iwarp_wr_opcode)op, 1, sge);
        wr.num_sge = 2;
        must_fail(iwarp_post_send(p.side[0].qp, &wr, NULL), IWARP_MISUSE, "2^32-1");
    }
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message__as_long_as_can_be__arrives),
        cmocka_unit_test(message__one_octet_longer__is_misuse),
    };

    return cmocka_run_group_tests_name("pair_long", tests, NULL, NULL);
}
