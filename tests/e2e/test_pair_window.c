/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Access taken back in the middle of a transfer, in every way there is: after that, and not one
 * octet later, the memory is the owner's. Then many streams that bind, are written to, and have
 * their windows invalidated by the peer, all over one region. RFC 5041 8.3.1 (6), RFC 5042 6.2.2,
 * verbs draft 8.2.2.1.
 *
 * The owner's own accesses are plain ones: ThreadSanitizer sees a missing order.
 */
#include "octets.h"
#include "progress.h"
#include "verbs_pair.h"

#include <stdlib.h>

#define MIB      ((size_t)1 << 20)
#define AREA     (4 * MIB)
#define REQUESTS 64u

/* --- one stream, taken back ------------------------------------------------------------------ */

enum way { FREE, BIND_BY_ANOTHER_QP, LOCAL_INV, LOCAL_INV_OF_REGION, SEND_INV, REREGISTER, WAYS };
static const char *const way_names[] = {"free",
                                        "bind by another queue pair",
                                        "LOCAL_INV",
                                        "LOCAL_INV of the region",
                                        "Send with Invalidate",
                                        "register anew"};

struct scene {
    struct pair p;
    struct pair_side *writer, *owner;
    uint8_t *area; /* of the owner, with a region for windows */
    struct iwarp_mr *mr;
    struct iwarp_mw *mw; /* over all of it; NULL where the region itself is written to */
    /* Another queue pair of the owner's protection domain, with a peer that does nothing. */
    struct pair_side other, other_peer;
};

static void open_other(struct scene *x, struct pair_side *s, struct iwarp_pd *pd)
{
    struct iwarp_qp_options q;

    iwarp_qp_options_init(&q);
    must(iwarp_cq_create(x->p.device, 16, NULL, &s->send_cq));
    q.send_cq = q.recv_cq = s->send_cq;
    must(iwarp_qp_create(pd, &q, &s->qp));
}

static void close_other(struct pair_side *s)
{
    must(iwarp_conn_destroy(s->conn));
    must(iwarp_qp_destroy(s->qp));
    must(iwarp_cq_destroy(s->send_cq));
}

static uint32_t target_stag(const struct scene *x)
{
    return x->mw ? iwarp_mw_stag(x->mw) : iwarp_mr_stag(x->mr);
}

static void bind_window(struct scene *x, enum iwarp_mw_type type)
{
    must(iwarp_mw_alloc(x->owner->pd, type, &x->mw));
    const struct iwarp_bind b = {.mr = x->mr,
                                 .mw = x->mw,
                                 .addr = x->area,
                                 .len = AREA,
                                 .access = IWARP_ACCESS_REMOTE_WRITE,
                                 .key = 1};
    const struct iwarp_send_wr wr = {
        .wr_id = 1, .opcode = IWARP_WR_BIND_MW, .flags = IWARP_WR_SIGNALED, .bind = &b};
    must(iwarp_post_send(x->owner->qp, &wr, NULL));
    pair_wc(x->owner->send_cq, 1, IWARP_WC_SUCCESS);
}

static void open_scene(struct scene *x, enum pair_transport transport, enum way way,
                       enum iwarp_placement placement)
{
    struct pair_options o;

    pair_options_init(&o, transport);
    o.memory = AREA;
    o.device.workers = progress_is_embedded() ? 1 : 2;
    o.conn[0].placement = o.conn[1].placement = placement;
    *x = (struct scene){.area = malloc(AREA)};
    assert_non_null(x->area);
    pair_open(&x->p, &o);
    x->writer = &x->p.side[0];
    x->owner = &x->p.side[1];
    open_other(x, &x->other, x->owner->pd);
    open_other(x, &x->other_peer, x->writer->pd);
    must(iwarp_connect_pair(x->other.qp, x->other_peer.qp, NULL, NULL, &x->other.conn,
                            &x->other_peer.conn));
    must(iwarp_conn_wait(x->other.conn, PAIR_WAIT_MS));
    must(iwarp_mr_register(
        x->owner->pd, x->area, AREA,
        IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE | IWARP_ACCESS_MW_BIND, &x->mr));
    if (way != LOCAL_INV_OF_REGION && way != REREGISTER) {
        bind_window(x, way == BIND_BY_ANOTHER_QP ? IWARP_MW_TYPE_1 : IWARP_MW_TYPE_2);
    }
}

static void close_scene(struct scene *x)
{
    if (x->mw) {
        must(iwarp_mw_free(x->mw));
    }
    must(iwarp_mr_deregister(x->mr));
    close_other(&x->other);
    close_other(&x->other_peer);
    pair_close(&x->p);
    free(x->area);
}

static void post_write(struct scene *x, size_t off, size_t len)
{
    struct iwarp_sge sge = pair_sge(x->writer, off, len);
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_WRITE, 1, &sge);

    wr.flags = 0;
    wr.remote_stag = target_stag(x);
    wr.remote_to = (uint64_t)(uintptr_t)x->area + off;
    must(iwarp_post_send(x->writer->qp, &wr, NULL));
}

/* More than can be carried out before access is taken back; the peer's own SEND_INV in the middle.
 */
static void post_writes(struct scene *x, enum way way, struct chance *chance)
{
    for (unsigned i = 0; i < REQUESTS; i++) {
        if (way == SEND_INV && i == REQUESTS / 2) {
            const struct iwarp_send_wr inv = {
                .wr_id = 2, .opcode = IWARP_WR_SEND_INV, .invalidate_stag = target_stag(x)};
            must(iwarp_post_send(x->writer->qp, &inv, NULL));
        }
        size_t off = i % 2 ? chance_below(chance, MIB) : 0;
        post_write(x, off, i % 8 == 7 ? chance_below(chance, 3000) + 1 : AREA - off);
    }
}

static void take_back(struct scene *x, enum way way)
{
    const struct iwarp_bind nothing = {.mr = NULL};
    const struct iwarp_send_wr inv = {.wr_id = 7,
                                      .opcode = IWARP_WR_LOCAL_INV,
                                      .flags = IWARP_WR_SIGNALED,
                                      .invalidate_stag = target_stag(x)};
    struct iwarp_mr_options o;

    switch (way) {
    case FREE:
        must(iwarp_mw_free(x->mw));
        x->mw = NULL;
        break;
    case BIND_BY_ANOTHER_QP:
        must(iwarp_mw_bind(x->other.qp, x->mw, &nothing, 7, IWARP_WR_SIGNALED));
        pair_wc(x->other.send_cq, 7, IWARP_WC_SUCCESS);
        break;
    case LOCAL_INV_OF_REGION: /* by the other queue pair: while the first one receives */
        must(iwarp_post_send(x->other.qp, &inv, NULL));
        pair_wc(x->other.send_cq, 7, IWARP_WC_SUCCESS);
        break;
    case LOCAL_INV:
        must(iwarp_post_send(x->owner->qp, &inv, NULL));
        pair_wc(x->owner->send_cq, 7, IWARP_WC_SUCCESS);
        break;
    case SEND_INV:
        assert_int_equal(pair_wc(x->owner->recv_cq, 9, IWARP_WC_SUCCESS).invalidated_stag,
                         target_stag(x));
        break;
    case REREGISTER:
        iwarp_mr_options_init(&o, x->p.side[0].p, 8, 0);
        must(iwarp_mr_reregister(x->mr, NULL, &o));
        break;
    case WAYS:
        break;
    }
}

static void try_way(enum pair_transport transport, enum way way, enum iwarp_placement placement,
                    struct chance *chance)
{
    struct scene x;
    char text[400];

    print_message("%s, %s, %s\n", way_names[way], pair_transport_names[transport],
                  placement == IWARP_PLACE_EARLY ? "early" : "verified");
    open_scene(&x, transport, way, placement);
    if (way == SEND_INV) {
        const struct iwarp_recv_wr recv = {.wr_id = 9};
        must(iwarp_post_recv(x.owner->qp, &recv, NULL));
    }
    post_writes(&x, way, chance);
    if (way != SEND_INV) {
        progress_sleep((unsigned)chance_below(chance, 3000));
    }
    take_back(&x, way);
    memset(x.area, 0xa5, AREA);
    for (int i = 0; i < 2; i++) {
        must(iwarp_conn_wait_end(x.p.side[i].conn, PAIR_WAIT_MS));
    }
    const struct iwarp_fault *fault = iwarp_conn_fault(x.owner->conn);
    if (iwarp_fault_code(fault) != IWARP_FAULT_DDP_STAG_INVALID) {
        iwarp_fault_text(fault, text, sizeof text);
        fail_msg("%s: %s", way_names[way], text);
    }
    for (size_t i = 0; i < AREA; i++) {
        if (x.area[i] != 0xa5) {
            fail_msg("%s: octet %zu has changed afterwards", way_names[way], i);
        }
    }
    close_scene(&x);
}

static void try_all(enum pair_transport transport)
{
    struct chance chance = {chance_seed()};

    for (unsigned i = 0; i < WAYS * 2; i++) {
        try_way(transport, (enum way)(i / 2), i & 1 ? IWARP_PLACE_EARLY : IWARP_PLACE_VERIFIED,
                &chance);
    }
}

static void taken_back__in_memory__nothing_lands_afterwards(void **state)
{
    (void)state;
    try_all(PAIR_MEMORY);
}

static void taken_back__over_tcp__nothing_lands_afterwards(void **state)
{
    (void)state;
    try_all(PAIR_TCP4);
}

/* --- many streams, one region ---------------------------------------------------------------- */

#define STREAMS 4u
#define ROUNDS  60u
#define PART    (64u * 1024) /* octets of each stream's part of the region */

/*
 * A round of one stream: the owner binds a window and sends its STag; the peer fills it with
 * several Writes and invalidates it; when that has arrived the owner checks, and wipes it with
 * plain stores.
 */
struct lane {
    struct pair_side owner, peer;
    struct iwarp_mw *mw;
    struct iwarp_mr *peer_mr, *note_mr;
    uint8_t *part;    /* of the owner's region */
    uint8_t *source;  /* the peer's */
    uint32_t note[2]; /* the STag, as sent and as received */
    uint32_t round;
};

struct lanes {
    struct iwarp_device *device;
    struct iwarp_pd *pd, *peer_pd;
    struct iwarp_mr *region;
    uint8_t *memory;
    struct lane lane[STREAMS];
};

static void owner_begins(struct lanes *all, struct lane *l)
{
    const struct iwarp_recv_wr recv = {.wr_id = l->round};
    const struct iwarp_bind b = {.mr = all->region,
                                 .mw = l->mw,
                                 .addr = l->part,
                                 .len = PART,
                                 .access = IWARP_ACCESS_REMOTE_WRITE | IWARP_ACCESS_ZERO_BASED,
                                 .key = (uint8_t)l->round};
    struct iwarp_sge note = {&l->note[0], 4, iwarp_mr_stag(l->note_mr)};
    struct iwarp_send_wr send = {.wr_id = l->round,
                                 .opcode = IWARP_WR_SEND,
                                 .flags = IWARP_WR_INLINE,
                                 .sg_list = &note,
                                 .num_sge = 1};
    const struct iwarp_send_wr bind = {.next = &send, .opcode = IWARP_WR_BIND_MW, .bind = &b};

    l->note[0] = iwarp_stag_with_key(iwarp_mw_stag(l->mw), b.key);
    must(iwarp_post_recv(l->owner.qp, &recv, NULL));
    must(iwarp_post_send(l->owner.qp, &bind, NULL));
}

static void peer_answers(struct lane *l)
{
    struct iwarp_sge sge[4];
    struct iwarp_send_wr wr[5];

    memset(l->source, (int)(l->round + 1), PART);
    for (unsigned i = 0; i < 4; i++) { /* overlapping; the last octets come last */
        uint32_t off = i * (PART / 4), len = i == 3 ? PART / 4 : PART / 2;
        sge[i] = (struct iwarp_sge){l->source + off, len, iwarp_mr_stag(l->peer_mr)};
        wr[i] = (struct iwarp_send_wr){.next = &wr[i + 1],
                                       .opcode = IWARP_WR_WRITE,
                                       .sg_list = &sge[i],
                                       .num_sge = 1,
                                       .remote_stag = l->note[1],
                                       .remote_to = off};
    }
    wr[4] = (struct iwarp_send_wr){.wr_id = l->round,
                                   .opcode = IWARP_WR_SEND_INV,
                                   .flags = IWARP_WR_SIGNALED,
                                   .invalidate_stag = l->note[1]};
    must(iwarp_post_send(l->peer.qp, wr, NULL));
}

static void peer_listens(struct lane *l)
{
    struct iwarp_sge sge = {&l->note[1], 4, iwarp_mr_stag(l->note_mr)};
    const struct iwarp_recv_wr recv = {.wr_id = l->round, .sg_list = &sge, .num_sge = 1};

    must(iwarp_post_recv(l->peer.qp, &recv, NULL));
}

static void open_end(struct lanes *all, struct pair_side *s, struct iwarp_pd *pd)
{
    struct iwarp_qp_options q;

    iwarp_qp_options_init(&q);
    must(iwarp_cq_create(all->device, 256, NULL, &s->send_cq));
    must(iwarp_cq_create(all->device, 256, NULL, &s->recv_cq));
    q.send_cq = s->send_cq;
    q.recv_cq = s->recv_cq;
    must(iwarp_qp_create(pd, &q, &s->qp));
}

static void open_lane(struct lanes *all, unsigned i)
{
    struct lane *l = &all->lane[i];

    l->part = all->memory + (size_t)i * PART;
    l->source = malloc(PART);
    assert_non_null(l->source);
    open_end(all, &l->owner, all->pd);
    open_end(all, &l->peer, all->peer_pd);
    must(iwarp_mr_register(all->peer_pd, l->source, PART, 0, &l->peer_mr));
    must(iwarp_mr_register(all->peer_pd, l->note, sizeof l->note, IWARP_ACCESS_LOCAL_WRITE,
                           &l->note_mr));
    must(iwarp_mw_alloc(all->pd, IWARP_MW_TYPE_2, &l->mw));
    must(iwarp_connect_pair(l->owner.qp, l->peer.qp, NULL, NULL, &l->owner.conn, &l->peer.conn));
    must(iwarp_conn_wait(l->owner.conn, PAIR_WAIT_MS));
    must(iwarp_conn_wait(l->peer.conn, PAIR_WAIT_MS));
}

static void close_end(struct pair_side *s)
{
    must(iwarp_conn_destroy(s->conn));
    must(iwarp_qp_destroy(s->qp));
    must(iwarp_cq_destroy(s->send_cq));
    must(iwarp_cq_destroy(s->recv_cq));
}

static void close_lane(struct lane *l)
{
    close_end(&l->owner);
    close_end(&l->peer);
    must(iwarp_mw_free(l->mw));
    must(iwarp_mr_deregister(l->peer_mr));
    must(iwarp_mr_deregister(l->note_mr));
    free(l->source);
}

/* The Send with Invalidate has arrived: all is there, and from now on it is the owner's. */
static void owner_checks(struct lane *l)
{
    struct iwarp_wc wc = pair_wc(l->owner.recv_cq, l->round, IWARP_WC_SUCCESS);

    assert_int_equal(wc.invalidated_stag, l->note[0]);
    for (size_t i = 0; i < PART; i++) {
        if (l->part[i] != (uint8_t)(l->round + 1)) {
            fail_msg("round %u: octet %zu is 0x%02x", l->round, i, l->part[i]);
        }
    }
    memset(l->part, 0, PART);
}

static void windows__of_many_streams__are_closed_when_the_receive_completes(void **state)
{
    struct lanes all = {.memory = calloc(STREAMS, PART)};
    struct iwarp_device_options o;

    (void)state;
    assert_non_null(all.memory);
    iwarp_device_options_init(&o);
    o.workers = progress_is_embedded() ? 1 : 2;
    must(progress_open(&o, &all.device));
    must(iwarp_pd_create(all.device, &all.pd));
    must(iwarp_pd_create(all.device, &all.peer_pd));
    must(iwarp_mr_register(all.pd, all.memory, (size_t)STREAMS * PART,
                           IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_MW_BIND, &all.region));
    for (unsigned i = 0; i < STREAMS; i++) {
        open_lane(&all, i);
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < STREAMS; i++) {
            all.lane[i].round = round;
            peer_listens(&all.lane[i]);
            owner_begins(&all, &all.lane[i]);
        }
        for (unsigned i = 0; i < STREAMS; i++) {
            pair_wc(all.lane[i].peer.recv_cq, round, IWARP_WC_SUCCESS);
            peer_answers(&all.lane[i]);
        }
        for (unsigned i = 0; i < STREAMS; i++) {
            owner_checks(&all.lane[i]);
            pair_wc(all.lane[i].peer.send_cq, round, IWARP_WC_SUCCESS);
        }
    }
    for (size_t i = 0; i < (size_t)STREAMS * PART; i++) {
        assert_int_equal(all.memory[i], 0);
    }
    for (unsigned i = 0; i < STREAMS; i++) {
        close_lane(&all.lane[i]);
    }
    must(iwarp_mr_deregister(all.region));
    must(iwarp_pd_destroy(all.pd));
    must(iwarp_pd_destroy(all.peer_pd));
    must(progress_close(all.device));
    free(all.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken_back__in_memory__nothing_lands_afterwards),
        cmocka_unit_test(taken_back__over_tcp__nothing_lands_afterwards),
        cmocka_unit_test(windows__of_many_streams__are_closed_when_the_receive_completes),
    };

    return cmocka_run_group_tests_name("pair_window", tests, NULL, NULL);
}
