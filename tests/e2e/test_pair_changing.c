/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that changes memory while it is sent. With IWARP_COPY_PAYLOAD its Writes and Sends
 * complete, whatever octets arrive: in each of the ways in which payload is framed, by transport.
 */
#include "verbs_pair.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#ifdef __SANITIZE_THREAD__
#define CHANGES false /* it would say that the two race, and they do */
#else
#define CHANGES true
#endif

enum { MEMORY = 1 << 20, TIMES = 1000 };

struct changer {
    atomic_bool done;
    uint8_t *p;
};

static void *change(void *arg)
{
    struct changer *c = arg;

    for (uint64_t n = 1; CHANGES && !atomic_load(&c->done); n++) {
        for (size_t at = 0; at < MEMORY; at += 512) {
            *(volatile uint64_t *)(void *)(c->p + at) = n;
        }
    }
    return NULL;
}

/* `pieces` SGEs of `len` octets together. */
static void send_one(struct pair *p, enum iwarp_wr_opcode opcode, size_t len, unsigned pieces)
{
    struct pair_side *from = &p->side[0], *to = &p->side[1];
    struct iwarp_sge sge[2] = {pair_sge(from, 0, len / pieces),
                               pair_sge(from, MEMORY / 2, len - len / pieces)};
    struct iwarp_send_wr wr = pair_wr(opcode, 1, sge);

    wr.num_sge = pieces;
    wr.remote_stag = iwarp_mr_stag(to->mr);
    wr.remote_to = (uint64_t)(uintptr_t)to->p;
    if (opcode == IWARP_WR_SEND) {
        pair_recv(to, 2, 0, len);
    }
    must(iwarp_post_send(from->qp, &wr, NULL));
    pair_wc(from->send_cq, 1, IWARP_WC_SUCCESS);
    if (opcode == IWARP_WR_SEND) {
        pair_wc(to->recv_cq, 2, IWARP_WC_SUCCESS);
    }
}

static void send_all(enum pair_transport transport, bool markers, unsigned ulpdu_max)
{
    static const size_t lengths[] = {100, 1024, 1400, 5000, 200000};
    struct pair_options o;
    pthread_t thread;
    struct pair p;

    pair_options_init(&o, transport);
    o.memory = MEMORY;
    for (int i = 0; i < 2; i++) {
        o.conn[i].markers = markers;
        o.conn[i].ulpdu_max = ulpdu_max;
    }
    pair_open(&p, &o);
    static struct changer changer; /* it outlives a test that fails */
    changer.p = p.side[0].p;
    atomic_store(&changer.done, false);
    assert_int_equal(pthread_create(&thread, NULL, change, &changer), 0);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (unsigned k = 0; k < TIMES; k++) {
            send_one(&p, k % 3 ? IWARP_WR_WRITE : IWARP_WR_SEND, lengths[i], 1 + k % 2);
        }
    }
    atomic_store(&changer.done, true);
    pthread_join(thread, NULL);
    pair_close(&p);
}

static void requests__from_memory_that_changes__complete(void **state)
{
    (void)state;
    setenv("IWARP_COPY_PAYLOAD", "on", 1);
    for (int transport = 0; transport < PAIR_TRANSPORTS; transport++) {
        send_all((enum pair_transport)transport, false, 0);
    }
    send_all(PAIR_TCP4, true, 0);
    send_all(PAIR_TCP4, false, 1460); /* each Write is a run */
    unsetenv("IWARP_COPY_PAYLOAD");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests__from_memory_that_changes__complete),
    };
    return cmocka_run_group_tests_name("pair_changing", tests, NULL, NULL);
}
