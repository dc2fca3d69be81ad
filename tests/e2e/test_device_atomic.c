/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomics between the workers of one device, and between two devices. Connections that are driven
 * by different workers, and threads of this process with C11 atomics, change the same words: sums
 * are exact, fields under masks do not leak, and a lock that is taken by CmpSwap excludes. And a
 * device for which RFC 7306 is switched off, as the peer of one for which it is not.
 */
#include "progress.h"
#include "verbs/conn.h"
#include "verbs/device.h"
#include "verbs/eq.h"
#include "verbs/listen.h"
#include "verbs/mr.h"
#include "verbs_pair.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define CONNS   4
#define THREADS 2
#define ROUNDS  1500u
#define DEPTH   8u
#define LOW     (1ull << 31) /* the mask for two fields of 32 bits */
#define HOLDER  (0xffull << 56)

static struct {
    _Alignas(64) _Atomic uint64_t sum;
    _Atomic uint64_t halves;
    _Atomic uint64_t lock;    /* top octet: who holds it, 0: nobody; the rest counts the host */
    _Atomic uint64_t guarded; /* changed by its holder alone, without atomics */
} shared;

/* Four connections of one device with a worker for each end, over TCP and in memory. */
struct crowd {
    struct pair p; /* the device and what hangs on it; not connected itself */
    struct pair_side side[2 * CONNS];
    struct iwarp_mr *mr[CONNS]; /* of `shared`, at the second of each two sides */
};

static void crowd_open(struct crowd *c)
{
    struct pair_options o;

    memset(&shared, 0, sizeof shared);
    pair_options_init(&o, PAIR_TCP4);
    o.device.workers = progress_is_embedded() ? 1 : 3; /* odd: targets get on different ones */
    o.no_events = true;
    pair_prepare(&c->p, &o);
    for (unsigned i = 0; i < CONNS; i++) {
        struct pair q = c->p;
        q.options.transport = i == 0 ? PAIR_MEMORY : PAIR_TCP4;
        pair_side_open(&q.side[0], q.device, &o);
        pair_side_open(&q.side[1], q.device, &o);
        pair_connect(&q);
        c->side[2 * i] = q.side[0];
        c->side[2 * i + 1] = q.side[1];
        must(iwarp_mr_register(q.side[1].pd, &shared, sizeof shared,
                               IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_ATOMIC, &c->mr[i]));
    }
}

/* How many of the device's workers carry out the Atomics. */
static unsigned workers_at_work(const struct crowd *c)
{
    unsigned n = 0;

    for (unsigned i = 0; i < CONNS; i++) {
        bool first = true;
        for (unsigned k = 0; k < i; k++) {
            first = first && c->side[2 * k + 1].conn->worker != c->side[2 * i + 1].conn->worker;
        }
        n += first;
    }
    return n;
}

static void crowd_close(struct crowd *c)
{
    for (unsigned i = 0; i < CONNS; i++) {
        must(iwarp_mr_deregister(c->mr[i]));
    }
    for (unsigned i = 0; i < 2 * CONNS; i++) {
        pair_side_close(&c->side[i]);
    }
    pair_close(&c->p);
}

static struct iwarp_send_wr request(const struct crowd *c, unsigned i, const _Atomic uint64_t *word,
                                    struct iwarp_sge *sge)
{
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_ATOMIC_FETCH_ADD, 0, sge);

    wr.remote_stag = iwarp_mr_stag(c->mr[i]);
    wr.remote_to = (uint64_t)(uintptr_t)word;
    return wr;
}

/* --- sums ------------------------------------------------------------------------------------ */

#define BURST 20000u

static _Atomic bool adding;

/* In bursts, until all others are done: the remote ones need the processor, too. */
static void *add_here(void *arg)
{
    uint64_t *added = arg;

    while (atomic_load(&adding)) {
        for (unsigned i = 0; i < BURST; i++) {
            atomic_fetch_add(&shared.sum, 1);
            atomic_fetch_add(&shared.halves, 1ull << 32);
        }
        *added += BURST;
        usleep(50);
    }
    return NULL;
}

/* One connection: as many requests as fit, alternately to both words; then what is done. */
static bool add_there(struct crowd *c, unsigned i, unsigned *posted, unsigned *done)
{
    struct pair_side *s = &c->side[2 * i];

    for (; *posted < 2 * ROUNDS && *posted - *done < DEPTH; ++*posted) {
        bool sum = *posted % 2 == 0;
        struct iwarp_sge sge = pair_sge(s, (size_t)8 * (*posted % DEPTH), 8);
        struct iwarp_send_wr wr = request(c, i, sum ? &shared.sum : &shared.halves, &sge);
        wr.wr_id = *posted;
        wr.operand = sum ? 1 : 0xffffffff; /* minus one, in the lower half alone */
        wr.mask = sum ? 0 : LOW;
        must(iwarp_post_send(s->qp, &wr, NULL));
    }
    if (*done < *posted) {
        pair_wc(s->send_cq, *done, IWARP_WC_SUCCESS);
        ++*done;
    }
    return *done < 2 * ROUNDS;
}

/* [RDMAX-5-01] [RDMAX-5.3-01] [RDMAX-5.4-02] */
static void atomic__workers_of_one_device_and_threads__lose_nothing(void **state)
{
    unsigned posted[CONNS] = {0}, done[CONNS] = {0};
    uint64_t added[THREADS] = {0}, here = 0;
    pthread_t thread[THREADS];
    static struct crowd c;
    bool left = true;

    (void)state;
    crowd_open(&c);
    assert_in_range(workers_at_work(&c), progress_is_embedded() ? 1 : 2, 3);
    atomic_store(&adding, true);
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, add_here, &added[i]), 0);
    }
    while (left) {
        left = false;
        for (unsigned i = 0; i < CONNS; i++) {
            left = add_there(&c, i, &posted[i], &done[i]) || left;
        }
    }
    atomic_store(&adding, false);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        here += added[i];
    }
    assert_true(shared.sum == CONNS * ROUNDS + here);
    assert_true((uint32_t)shared.halves == (uint32_t)(0u - CONNS * ROUNDS));
    assert_true(shared.halves >> 32 == (uint32_t)here);
    crowd_close(&c);
}

/* --- a lock ---------------------------------------------------------------------------------- */

#define LOCKINGS 150u

static _Atomic bool locking;

/* The host takes the lock too, and counts in the octets beside the holder's meanwhile. */
static void *lock_here(void *arg)
{
    uint64_t *taken = arg;

    while (atomic_load(&locking)) {
        uint64_t seen = atomic_fetch_add(&shared.lock, 1) + 1;
        if (!(seen & HOLDER) &&
            atomic_compare_exchange_strong(&shared.lock, &seen, seen | HOLDER)) {
            uint64_t was = atomic_load_explicit(&shared.guarded, memory_order_relaxed);
            atomic_store_explicit(&shared.guarded, was + 1, memory_order_relaxed);
            ++*taken;
            atomic_fetch_and(&shared.lock, ~HOLDER);
        }
    }
    return NULL;
}

/* The top octet from one holder to another, and what was there before. */
static uint64_t pass(struct crowd *c, unsigned i, uint64_t from, uint64_t to)
{
    struct pair_side *s = &c->side[2 * i];
    struct iwarp_sge sge = pair_sge(s, 0, 8);
    struct iwarp_send_wr wr = request(c, i, &shared.lock, &sge);
    uint64_t held;

    wr.opcode = IWARP_WR_ATOMIC_CMP_SWAP;
    wr.compare = from << 56;
    wr.operand = to << 56;
    wr.compare_mask = wr.mask = HOLDER;
    must(iwarp_post_send(s->qp, &wr, NULL));
    pair_wc(s->send_cq, 0, IWARP_WC_SUCCESS);
    memcpy(&held, s->p, sizeof held);
    return held >> 56;
}

/* Only this thread acts for the connections, so those can never meet each other in the lock; but
 * each of them meets the host, on whichever worker it is. */
static void swap__under_masks__excludes_the_host(void **state)
{
    uint64_t taken = 0, ours = 0;
    static struct crowd c;
    pthread_t thread;

    (void)state;
    crowd_open(&c);
    atomic_store(&locking, true);
    assert_int_equal(pthread_create(&thread, NULL, lock_here, &taken), 0);
    for (unsigned i = 0; i < LOCKINGS; i++) {
        unsigned k = i % CONNS, other = (i + 1) % CONNS;
        unsigned tries = 0;
        while (pass(&c, k, 0, k + 1) != 0) {
            assert_true(++tries < 200000);
        }
        assert_int_equal(pass(&c, other, 0, other + 1), k + 1); /* not twice */
        uint64_t was = atomic_load_explicit(&shared.guarded, memory_order_relaxed);
        progress_sleep(20);
        assert_true(atomic_load_explicit(&shared.guarded, memory_order_relaxed) == was);
        atomic_store_explicit(&shared.guarded, was + 1, memory_order_relaxed);
        ours++;
        assert_int_equal(pass(&c, k, k + 1, 0), k + 1);
    }
    atomic_store(&locking, false);
    pthread_join(thread, NULL);
    assert_true(shared.guarded == ours + taken);
    assert_int_equal(shared.lock >> 56, 0);
    crowd_close(&c);
}

/* --- one end without RFC 7306 ---------------------------------------------------------------- */

/* Two devices: the pair's own has it, the other's side is the peer. */
struct mixed {
    struct pair p;
    struct iwarp_device *other;
    struct iwarp_eq *eq;
    struct iwarp_listener *listener;
    struct pair_side side;
    struct iwarp_mr *mr;
};

/* The next event of the other device, while both work. */
static struct iwarp_conn *mixed_event(struct mixed *m, enum iwarp_event_type type)
{
    struct iwarp_event event = {.conn = NULL};

    for (unsigned ms = 0; ms < PAIR_WAIT_MS && !event.conn; ms++) {
        if (iwarp_eq_get(m->eq, &event, 0) != IWARP_OK) {
            progress_sleep(1000);
        }
    }
    assert_non_null(event.conn);
    assert_int_equal(event.type, type);
    return event.conn;
}

static void mixed_open(struct mixed *m, bool by_environment)
{
    struct iwarp_device_options device;
    struct sockaddr_storage addr;
    struct pair_options o;
    socklen_t len;

    memset(m, 0, sizeof *m);
    pair_options_init(&o, PAIR_MEMORY);
    pair_prepare(&m->p, &o);
    iwarp_device_options_init(&device);
    device.progress = IWARP_PROGRESS_THREADED; /* waiting for one of two runs the loop of one */
    if (by_environment) {
        setenv("IWARP_RFC7306", "off", 1);
    } else {
        device.rfc7306 = IWARP_RFC7306_OFF;
    }
    must(progress_open(&device, &m->other));
    unsetenv("IWARP_RFC7306");
    must(iwarp_eq_create(m->other, &m->eq));
    pair_side_open(&m->side, m->other, &o);
    must(iwarp_mr_register(m->side.pd, &shared, sizeof shared,
                           IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_ATOMIC, &m->mr));
    m->listener = pair_listen(m->other, PAIR_TCP4, &o.conn[1], m->eq);
    must(iwarp_listener_addr(m->listener, &addr, &len));
    struct pair_side *a = &m->p.side[0];
    must(iwarp_connect(a->qp, (const struct sockaddr *)&addr, len, &o.conn[0], NULL, 0, NULL, NULL,
                       &a->conn));
    m->side.conn = mixed_event(m, IWARP_EVENT_REQUEST);
    must(iwarp_accept(m->side.conn, m->side.qp, NULL, NULL, 0, NULL));
    mixed_event(m, IWARP_EVENT_ESTABLISHED);
    must(iwarp_conn_wait(a->conn, PAIR_WAIT_MS));
}

static void mixed_close(struct mixed *m)
{
    must(iwarp_mr_deregister(m->mr));
    pair_side_close(&m->side);
    must(iwarp_listener_close(m->listener));
    must(iwarp_eq_destroy(m->eq));
    must(progress_close(m->other));
    pair_close(&m->p);
}

/* The end that has it is told what the peer lacks, and by which option; the other end refuses what
 * comes as unknown (0/2/06), says so, and has changed nothing. */
static void expect_told(struct mixed *m, enum iwarp_wr_opcode opcode)
{
    static const char *const parts[] = {"the peer does not know RFC 7306", "device option rfc7306",
                                        "IWARP_RFC7306=off", "layer 0, error type 2, code 0x06"};
    struct pair_side *a = &m->p.side[0];
    struct iwarp_device_stats stats = {.size = sizeof stats};
    struct iwarp_sge sge = pair_sge(a, 0, 8);
    struct iwarp_send_wr wr = pair_wr(opcode, 1, opcode == IWARP_WR_IMM ? NULL : &sge);
    char text[1024];

    wr.remote_stag = iwarp_mr_stag(m->mr);
    wr.remote_to = (uint64_t)(uintptr_t)&shared.sum;
    wr.operand = wr.mask = UINT64_MAX;
    if (opcode == IWARP_WR_WRITE_IMM) {
        wr.num_sge = 0;
    }
    pair_recv(&m->side, 9, 0, 64);
    must(iwarp_post_send(a->qp, &wr, NULL));
    pair_wc(a->send_cq, 1,
            opcode == IWARP_WR_IMM || opcode == IWARP_WR_WRITE_IMM ? IWARP_WC_SUCCESS
                                                                   : IWARP_WC_REMOTE_OPERATION);
    must(iwarp_conn_wait_end(a->conn, PAIR_WAIT_MS));
    must(iwarp_conn_wait_end(m->side.conn, PAIR_WAIT_MS));
    iwarp_fault_text(iwarp_conn_fault(a->conn), text, sizeof text);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!strstr(text, parts[i])) {
            fail_msg("no \"%s\" in: %s", parts[i], text);
        }
    }
    assert_string_equal(iwarp_fault_name(iwarp_fault_code(iwarp_conn_fault(a->conn))),
                        "PEER_NO_RFC7306");
    assert_string_equal(iwarp_fault_name(iwarp_fault_code(iwarp_conn_fault(m->side.conn))),
                        "RDMAP_SWITCHED_OFF");
    iwarp_fault_text(iwarp_conn_fault(m->side.conn), text, sizeof text);
    assert_non_null(strstr(text, "switched off here (device option rfc7306, IWARP_RFC7306=off)"));
    pair_wc(m->side.recv_cq, 9, IWARP_WC_FLUSHED);
    must(iwarp_device_stats(m->other, &stats));
    assert_int_equal(stats.terminates_sent[0][2][6], 1);
    assert_true(shared.sum == 0);
}

static void message__of_rfc_7306_to_a_peer_without__is_explained(void **state)
{
    static const enum iwarp_wr_opcode kinds[] = {
        IWARP_WR_IMM, IWARP_WR_WRITE_IMM, IWARP_WR_ATOMIC_FETCH_ADD, IWARP_WR_ATOMIC_CMP_SWAP};

    (void)state;
    memset(&shared, 0, sizeof shared);
    for (unsigned i = 0; i < 8; i++) {
        struct mixed m;
        mixed_open(&m, i >= 4);
        expect_told(&m, kinds[i % 4]);
        mixed_close(&m);
    }
}

/* The end without it refuses to post, and the connection goes on. */
static void post__at_the_end_without__is_misuse_and_harmless(void **state)
{
    static const enum iwarp_wr_opcode kinds[] = {
        IWARP_WR_IMM, IWARP_WR_WRITE_IMM, IWARP_WR_ATOMIC_FETCH_ADD, IWARP_WR_ATOMIC_CMP_SWAP};
    struct mixed m;

    (void)state;
    mixed_open(&m, true);
    for (unsigned i = 0; i < 4; i++) {
        struct iwarp_sge sge = pair_sge(&m.side, 0, 8);
        struct iwarp_send_wr wr = pair_wr(kinds[i], 1, i ? &sge : NULL);
        must_fail(iwarp_post_send(m.side.qp, &wr, NULL), IWARP_MISUSE,
                  i < 2 ? "Immediate Data is switched off for this device (device option rfc7306"
                        : "Atomics are switched off for this device (device option rfc7306");
    }
    pair_recv(&m.p.side[0], 1, 0, 64);
    pair_send(&m.side, 2, 0, 64);
    pair_wc(m.p.side[0].recv_cq, 1, IWARP_WC_SUCCESS);
    pair_wc(m.side.send_cq, 2, IWARP_WC_SUCCESS);
    mixed_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(atomic__workers_of_one_device_and_threads__lose_nothing),
        cmocka_unit_test(swap__under_masks__excludes_the_host),
        cmocka_unit_test(message__of_rfc_7306_to_a_peer_without__is_explained),
        cmocka_unit_test(post__at_the_end_without__is_misuse_and_harmless),
    };

    return cmocka_run_group_tests_name("device_atomic", tests, NULL, NULL);
}
