/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The n-th allocation fails, whichever thread makes it, for every n until a whole conversation
 * passes without: device, memory, queues, connecting, a Send, a Write and a Read, closing. Every
 * time there is a clean status within bounded time, and nothing stays behind: no memory (ASan), no
 * descriptor, no thread. In memory and over TCP.
 *
 * RFC 5040 7.1.
 */
#include "alloc_fault.h"
#include "progress.h"
#include "verbs_pair.h"

#include <stdio.h>
#include <stdlib.h>

#define OCTETS 5000 /* several FPDUs */

static uint8_t memory[2][4 * OCTETS];

/* How far one conversation came, and what went wrong there. */
struct talk {
    struct pair p;
    const char *step;
    enum iwarp_status status;
    char sentence[300];
};

#define TRY(t, call)                                                                               \
    do {                                                                                           \
        (t)->step = #call;                                                                         \
        (t)->status = (call);                                                                      \
        if ((t)->status != IWARP_OK) {                                                             \
            snprintf((t)->sentence, sizeof(t)->sentence, "%s", iwarp_last_error());                \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

static bool open_side(struct talk *t, unsigned i)
{
    struct pair_side *s = &t->p.side[i];
    struct iwarp_qp_options qp;

    TRY(t, iwarp_pd_create(t->p.device, &s->pd));
    TRY(t, iwarp_cq_create(t->p.device, 16, NULL, &s->send_cq));
    TRY(t, iwarp_cq_create(t->p.device, 16, NULL, &s->recv_cq));
    iwarp_qp_options_init(&qp);
    qp.send_cq = s->send_cq;
    qp.recv_cq = s->recv_cq;
    TRY(t, iwarp_qp_create(s->pd, &qp, &s->qp));
    TRY(t, iwarp_mr_register(s->pd, memory[i], sizeof memory[i], PAIR_ALL, &s->mr));
    return true;
}

static bool open_all(struct talk *t)
{
    struct iwarp_device_options o;

    iwarp_device_options_init(&o);
    TRY(t, progress_open(&o, &t->p.device));
    for (unsigned i = 0; i < 2; i++) {
        TRY(t, iwarp_eq_create(t->p.device, &t->p.eq[i]));
        if (!open_side(t, i)) {
            return false;
        }
    }
    return true;
}

/* A responder that cannot be made shows at the initiator, so both are looked at in turn. */
static enum iwarp_status next_request(struct talk *t)
{
    struct iwarp_event event;

    for (int waited = 0; waited < PAIR_WAIT_MS; waited += 20) {
        enum iwarp_status status = iwarp_eq_get(t->p.eq[1], &event, 20);
        if (status == IWARP_OK && event.type == IWARP_EVENT_REQUEST) {
            t->p.side[1].conn = event.conn;
            return IWARP_OK;
        }
        status = iwarp_conn_wait(t->p.side[0].conn, 0);
        if (status != IWARP_OK && status != IWARP_AGAIN) {
            return status;
        }
    }
    fail_msg("neither a request nor a failure");
    return IWARP_AGAIN;
}

static bool connect_tcp(struct talk *t)
{
    struct sockaddr_storage addr;
    socklen_t len = pair_loopback(PAIR_TCP4, &addr);

    TRY(t, iwarp_listen(t->p.device, (const struct sockaddr *)&addr, len, &t->p.options.conn[1], 4,
                        t->p.eq[1], NULL, &t->p.listener));
    TRY(t, iwarp_listener_addr(t->p.listener, &addr, &len));
    TRY(t, iwarp_connect(t->p.side[0].qp, (const struct sockaddr *)&addr, len,
                         &t->p.options.conn[0], "hi", 2, t->p.eq[0], NULL, &t->p.side[0].conn));
    TRY(t, next_request(t));
    TRY(t, iwarp_accept(t->p.side[1].conn, t->p.side[1].qp, NULL, NULL, 0, NULL));
    return true;
}

static bool connect_all(struct talk *t, enum pair_transport transport)
{
    if (transport == PAIR_TCP4) {
        if (!connect_tcp(t)) {
            return false;
        }
    } else {
        TRY(t, iwarp_connect_pair(t->p.side[0].qp, t->p.side[1].qp, &t->p.options.conn[0],
                                  t->p.eq[0], &t->p.side[0].conn, &t->p.side[1].conn));
    }
    TRY(t, iwarp_conn_wait(t->p.side[0].conn, PAIR_WAIT_MS));
    TRY(t, iwarp_conn_wait(t->p.side[1].conn, PAIR_WAIT_MS));
    return true;
}

static enum iwarp_status fault_status(struct iwarp_qp *qp)
{
    const struct iwarp_fault *fault = iwarp_qp_fault(qp);

    return fault ? iwarp_fault_status(fault) : IWARP_CLOSED;
}

/* One completion: it comes within the time, and says why if it failed. */
static enum iwarp_status complete(struct pair_side *s, struct iwarp_cq *cq)
{
    struct iwarp_wc wc;

    if (iwarp_cq_wait(cq, &wc, 1, PAIR_WAIT_MS) != 1) {
        fail_msg("no completion");
    }
    return wc.status == IWARP_WC_SUCCESS ? IWARP_OK : fault_status(s->qp);
}

static enum iwarp_status post(struct pair_side *s, const struct pair_side *other,
                              enum iwarp_wr_opcode opcode)
{
    struct iwarp_sge sge = {s->p + (size_t)opcode * OCTETS, OCTETS, iwarp_mr_stag(s->mr)};
    struct iwarp_send_wr wr = pair_wr(opcode, opcode, &sge);

    wr.remote_stag = iwarp_mr_stag(other->mr);
    wr.remote_to = (uint64_t)(uintptr_t)(other->p + (size_t)opcode * OCTETS);
    return iwarp_post_send(s->qp, &wr, NULL);
}

static bool exchange(struct talk *t)
{
    struct pair_side *a = &t->p.side[0], *b = &t->p.side[1];
    const struct iwarp_sge sge = {b->p, OCTETS, iwarp_mr_stag(b->mr)};
    const struct iwarp_recv_wr wr = {.sg_list = &sge, .num_sge = 1};

    TRY(t, iwarp_post_recv(b->qp, &wr, NULL));
    TRY(t, post(a, b, IWARP_WR_WRITE));
    TRY(t, post(a, b, IWARP_WR_READ));
    TRY(t, post(a, b, IWARP_WR_SEND));
    TRY(t, complete(a, a->send_cq));
    TRY(t, complete(a, a->send_cq));
    TRY(t, complete(a, a->send_cq));
    TRY(t, complete(b, b->recv_cq));
    TRY(t, iwarp_disconnect(a->conn));
    TRY(t, iwarp_conn_wait_end(a->conn, PAIR_WAIT_MS));
    TRY(t, iwarp_conn_wait_end(b->conn, PAIR_WAIT_MS));
    return true;
}

static void check_octets(void)
{
    static const enum iwarp_wr_opcode to_b[] = {IWARP_WR_SEND, IWARP_WR_WRITE};

    assert_memory_equal(memory[1], memory[0], OCTETS);
    for (unsigned i = 0; i < 2; i++) {
        size_t at = (size_t)to_b[i] * OCTETS;
        assert_memory_equal(memory[1] + (to_b[i] == IWARP_WR_SEND ? 0 : at), memory[0] + at,
                            OCTETS);
    }
    size_t at = (size_t)IWARP_WR_READ * OCTETS;
    assert_memory_equal(memory[0] + at, memory[1] + at, OCTETS);
}

/* Release what came to be. The calls that do so need no memory, or say that they had none. */
static void release(struct pair *p)
{
    for (unsigned i = 0; i < 2; i++) {
        p->side[i].p = NULL; /* not from the allocator */
    }
    if (p->device) {
        pair_close(p);
    }
}

/* One conversation; true if nothing failed. */
static bool talk(enum pair_transport transport, unsigned n)
{
    static struct talk t;
    struct pair_options o;

    memset(&t, 0, sizeof t);
    pair_options_init(&o, transport);
    o.conn[0].mpa_fallback = false; /* nobody here would answer a second Request */
    t.p.options = o;
    pair_fill(memory[0], sizeof memory[0], 1);
    pair_fill(memory[1], sizeof memory[1], 2);
    t.p.side[0].p = memory[0];
    t.p.side[1].p = memory[1];
    alloc_fault_anywhere_at(n);
    bool whole = open_all(&t) && connect_all(&t, transport) && exchange(&t);
    alloc_fault_anywhere_at(0);
    if (whole) {
        check_octets();
    } else if (t.status != IWARP_NO_MEMORY && t.status != IWARP_PEER &&
               t.status != IWARP_TRANSPORT && t.status != IWARP_CLOSED) {
        fail_msg("allocation %u: %s: %s (%s)", n, t.step, iwarp_status_text(t.status), t.sentence);
    } else if (t.p.side[0].conn == NULL && t.status != IWARP_NO_MEMORY) {
        /* Until there is a connection nobody else can be to blame. */
        fail_msg("allocation %u: %s: %s (%s)", n, t.step, iwarp_status_text(t.status), t.sentence);
    }
    release(&t.p);
    return whole;
}

static void every_allocation(enum pair_transport transport)
{
    unsigned n = 1, last_failed = 0;

    assert_true(talk(transport, UINT32_MAX)); /* what is kept for good is there now */
    unsigned fds = pair_fd_count(), threads = pair_thread_count();
    /* A thread that runs later or earlier makes one more or less: look beyond the first success. */
    for (; n < 400 && n < last_failed + 12; n++) {
        if (!talk(transport, n)) {
            last_failed = n;
        }
        assert_int_equal(pair_fd_count(), fds);
        assert_int_equal(pair_thread_count(), threads);
    }
    print_message("# %u allocations\n", last_failed);
    assert_in_range(last_failed, 25, 399);
}

static void conversation_in_memory__any_allocation_fails__ends_cleanly(void **state)
{
    (void)state;
    every_allocation(PAIR_MEMORY);
}

static void conversation_over_tcp__any_allocation_fails__ends_cleanly(void **state)
{
    (void)state;
    every_allocation(PAIR_TCP4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversation_in_memory__any_allocation_fails__ends_cleanly),
        cmocka_unit_test(conversation_over_tcp__any_allocation_fails__ends_cleanly),
    };

    return cmocka_run_group_tests_name("pair_no_memory", tests, NULL, NULL);
}
