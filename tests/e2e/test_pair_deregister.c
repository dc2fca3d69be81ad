/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deregistration in the middle of a transfer, in every role: it returns soon, no octet changes or
 * is looked at afterwards, and the stream ends. RFC 5041 8.3.1, RFC 5042 6.2.2.
 */
#include "octets.h"
#include "progress.h"
#include "verbs_pair.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MIB      ((size_t)1 << 20)
#define REQUESTS 64u

enum role { WRITE_TARGET, RECV_BUFFER, READ_SINK, SEND_SOURCE, WRITE_SOURCE, READ_SOURCE, ROLES };

struct situation {
    enum pair_transport transport;
    enum role role;
    bool crc;
    enum iwarp_placement placement;
};

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Does the memory belong to side 1, which the requests go to? */
static bool is_remote(enum role role)
{
    return role == WRITE_TARGET || role == RECV_BUFFER || role == READ_SOURCE;
}

/* One request, and a receive for it.  Not OK: the stream has ended. */
static enum iwarp_status post(struct pair *p, const struct situation *s, uint8_t *area,
                              uint32_t stag)
{
    struct pair_side *a = &p->side[0], *b = &p->side[1];
    struct iwarp_sge with = {area, 4 * MIB, stag};
    struct iwarp_sge ours = pair_sge(a, 0, 4 * MIB);
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_SEND, 1, is_remote(s->role) ? &ours : &with);
    struct iwarp_sge into = s->role == RECV_BUFFER ? with : pair_sge(b, 0, 4 * MIB);
    const struct iwarp_recv_wr recv = {.wr_id = 9, .sg_list = &into, .num_sge = 1};

    if (s->role == READ_SINK || s->role == READ_SOURCE) {
        wr.opcode = IWARP_WR_READ;
    } else if (s->role == WRITE_TARGET || s->role == WRITE_SOURCE) {
        wr.opcode = IWARP_WR_WRITE;
    }
    wr.remote_stag = is_remote(s->role) ? with.lkey : iwarp_mr_stag(b->mr);
    wr.remote_to = (uint64_t)(uintptr_t)(is_remote(s->role) ? area : b->p);
    enum iwarp_status status = IWARP_OK;
    if (wr.opcode == IWARP_WR_SEND) {
        status = iwarp_post_recv(b->qp, &recv, NULL);
    }
    return status != IWARP_OK ? status : iwarp_post_send(a->qp, &wr, NULL);
}

static bool is_expected(enum iwarp_fault_code code, enum role role)
{
    switch (role) {
    case WRITE_TARGET:
        return code == IWARP_FAULT_DDP_STAG_INVALID;
    case RECV_BUFFER:
    case READ_SINK:
        return code == IWARP_FAULT_LOCAL_SGE || code == IWARP_FAULT_LOCAL_DEREGISTERED;
    case SEND_SOURCE:
    case WRITE_SOURCE:
        return code == IWARP_FAULT_LOCAL_SGE || code == IWARP_FAULT_LOCAL_DEREGISTERED;
    case READ_SOURCE:
        return code == IWARP_FAULT_RDMAP_STAG_INVALID || code == IWARP_FAULT_LOCAL_DEREGISTERED;
    case ROLES:
        break;
    }
    return false;
}

static void check_end(const struct pair *p, const struct situation *s)
{
    int owner = is_remote(s->role);
    char text[400];

    for (int i = 0; i < 2; i++) {
        must(iwarp_conn_wait_end(p->side[i].conn, PAIR_WAIT_MS));
        assert_non_null(iwarp_conn_fault(p->side[i].conn));
    }
    const struct iwarp_fault *fault = iwarp_conn_fault(p->side[owner].conn);
    if (!is_expected(iwarp_fault_code(fault), s->role)) {
        iwarp_fault_text(fault, text, sizeof text);
        fail_msg("role %d, %s, CRC %d, placement %d: %s", (int)s->role,
                 pair_transport_names[s->transport], s->crc, s->placement, text);
    }
}

static void try_situation(const struct situation *s, unsigned wait_us)
{
    const bool sink = s->role <= READ_SINK;
    struct pair_options o;
    struct pair p;
    struct iwarp_mr *mr;

    pair_options_init(&o, s->transport);
    o.memory = 4 * MIB;
    for (int i = 0; i < 2; i++) {
        o.conn[i].crc = s->crc;
        o.conn[i].placement = s->placement;
    }
    pair_open(&p, &o);
    uint8_t *area = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(area, MAP_FAILED);
    must(iwarp_mr_register(p.side[is_remote(s->role)].pd, area, 4 * MIB, PAIR_ALL, &mr));
    uint32_t stag = iwarp_mr_stag(mr);
    for (unsigned i = 0; i < REQUESTS; i++) {
        must(post(&p, s, area, stag));
    }
    progress_sleep(wait_us);
    int64_t begin = now_us();
    must(iwarp_mr_deregister(mr));
    assert_true(now_us() - begin < PAIR_WAIT_MS * 1000);
    if (sink) {
        memset(area, 0xa5, 4 * MIB);
    } else {
        assert_int_equal(mprotect(area, 4 * MIB, PROT_NONE), 0); /* a look would be a fault */
    }
    (void)post(&p, s, area,
               stag); /* all others may be over: on a busy machine this thread is late */
    check_end(&p, s);
    for (size_t i = 0; sink && i < 4 * MIB; i++) {
        assert_int_equal(area[i], 0xa5);
    }
    pair_close(&p);
    munmap(area, 4 * MIB);
}

static void try_all(enum pair_transport transport)
{
    struct chance chance = {chance_seed()};

    for (unsigned i = 0; i < ROLES * 2 * 2; i++) {
        const struct situation s = {.transport = transport,
                                    .role = (enum role)(i % ROLES),
                                    .crc = i / ROLES % 2,
                                    .placement = (enum iwarp_placement)(i / (2 * ROLES))};
        try_situation(&s, (unsigned)chance_below(&chance, 3000));
    }
}

static void deregister__during_transfer_in_memory__ends_the_stream(void **state)
{
    (void)state;
    try_all(PAIR_MEMORY);
}

/* [SEC-6.2.2-02] [DDP-8.3.1-07] [RDMAP-8.1.1-06] */
static void deregister__during_transfer_over_tcp__ends_the_stream(void **state)
{
    (void)state;
    try_all(PAIR_TCP4);
}

/* A receive that nothing arrives for lends nothing: its region goes at once, and quietly. The
 * message that comes then ends the stream, and the receive says why. */
static void deregister__of_a_waiting_receive__is_noticed_when_used(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    pair_open(&p, &o);
    pair_recv(&p.side[1], 1, 0, 64);
    must(iwarp_mr_deregister(p.side[1].mr));
    p.side[1].mr = NULL;
    assert_int_equal(iwarp_qp_state(p.side[1].qp), IWARP_QP_RTS);
    pair_send(&p.side[0], 2, 0, 64);
    struct iwarp_wc wc = pair_wc(p.side[1].recv_cq, 1, IWARP_WC_LOCAL_PROTECTION);
    assert_int_equal(iwarp_fault_code(wc.fault), IWARP_FAULT_LOCAL_SGE);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deregister__during_transfer_in_memory__ends_the_stream),
        cmocka_unit_test(deregister__during_transfer_over_tcp__ends_the_stream),
        cmocka_unit_test(deregister__of_a_waiting_receive__is_noticed_when_used),
    };

    return cmocka_run_group_tests_name("pair_deregister", tests, NULL, NULL);
}
