/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that posts, and spins on memory until its peer's Write is there: its posts run the loop
 * in the end. Whatever it does next, what comes is placed, though it makes no call.
 */
#include "verbs_pair.h"

#include "loop/clock.h"
#include "verbs/conn.h"
#include "verbs/qp.h"
#include "verbs/worker.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define OCTETS 64
#define MANY   20000u /* posts; a machine that is busy answers late, and then the habit is lost */

/* The peer answers each mark that is written into its memory; 255 is the last one. */
struct peer {
    struct pair_side *side, *other;
    pthread_t thread;
    _Atomic bool twice;     /* it answers by two Writes, the second to the next octet */
    _Atomic unsigned more;  /* so many Writes follow that answer, of 250, 249 and so on, */
    _Atomic unsigned pause; /* so many microseconds apart */
};

struct game {
    struct pair p;
    struct iwarp_device *other;
    struct peer peer;
    unsigned char mark;
};

static void write_mark_at(const struct pair_side *from, const struct pair_side *to, size_t at,
                          unsigned char mark)
{
    struct iwarp_sge sge = pair_sge(from, OCTETS, 1);
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_WRITE, 0, &sge);

    from->p[OCTETS] = mark;
    wr.remote_to = (uintptr_t)to->p + at;
    wr.remote_stag = iwarp_mr_stag(to->mr);
    must(iwarp_post_send(from->qp, &wr, NULL));
    (void)pair_wc(from->send_cq, 0, IWARP_WC_SUCCESS);
}

static void write_mark(const struct pair_side *from, const struct pair_side *to, unsigned char mark)
{
    write_mark_at(from, to, 0, mark);
}

/* As such a program does it: without a call. */
static void spin_until_at(const struct pair_side *side, size_t where, unsigned char mark)
{
    const volatile uint8_t *at = side->p + where;
    int64_t end = iwarp_now_ms() + PAIR_WAIT_MS;

    while (*at != mark) {
        assert_true(iwarp_now_ms() < end);
    }
}

static void spin_until(const struct pair_side *side, unsigned char mark)
{
    spin_until_at(side, 0, mark);
}

static unsigned char next_mark(unsigned char mark)
{
    return (unsigned char)(mark % 200 + 1);
}

static void *answer(void *arg)
{
    struct peer *peer = arg;
    const volatile uint8_t *at = peer->side->p;
    unsigned char mark = 0, seen; /* read once: the next one may come while this one is answered */

    do {
        mark = next_mark(mark);
        while ((seen = *at) != mark && seen != 255) {
            usleep(0);
        }
        write_mark(peer->side, peer->other, seen);
        if (atomic_load(&peer->twice)) {
            write_mark_at(peer->side, peer->other, 1, seen);
        }
    } while (seen != 255);
    for (unsigned i = 0; i < atomic_load(&peer->more); i++) {
        usleep(atomic_load(&peer->pause));
        write_mark(peer->side, peer->other, (unsigned char)(250 - i));
    }
    return NULL;
}

/* The two ends have two devices, as in two processes. */
static void begin(struct game *g, enum iwarp_progress progress)
{
    struct pair_options o;
    struct pair *p = &g->p;

    memset(g, 0, sizeof *g);
    pair_options_init(&o, PAIR_TCP4);
    o.device.progress = progress;
    p->options = o;
    must(iwarp_device_open(&o.device, &p->device));
    must(iwarp_device_open(&o.device, &g->other));
    for (int i = 0; i < 2; i++) {
        struct iwarp_device *device = i == 0 ? p->device : g->other;
        must(iwarp_eq_create(device, &p->eq[i]));
        pair_side_open(&p->side[i], device, &o);
        memset(p->side[i].p, 0, 2 * OCTETS);
    }
    p->listener = pair_listen(g->other, PAIR_TCP4, &o.conn[1], p->eq[1]);
    pair_connect(p);
    g->peer.side = &p->side[1];
    g->peer.other = &p->side[0];
    assert_int_equal(pthread_create(&g->peer.thread, NULL, answer, &g->peer), 0);
}

/* The peer has had 255, and ends. */
static void end(struct game *g)
{
    pthread_join(g->peer.thread, NULL);
    pair_close(&g->p);
    must(iwarp_device_close(g->other));
}

static struct iwarp_spin *spin_of(struct game *g)
{
    return &g->p.side[0].conn->spin;
}

/*
 * However slow this build is, the post comes right after the Write.  The turn that has placed the
 * Write holds conn.lock; once that is free, the turn does not note its own time behind this one.
 */
static void react_at_once(struct game *g)
{
    struct iwarp_conn *conn = g->p.side[0].conn;

    iwarp_mutex_lock(&conn->lock);
    iwarp_conn_unlock(conn);
    atomic_store(&spin_of(g)->came_ns, iwarp_now_ns() + 1000000000);
}

static void to_and_fro(struct game *g)
{
    g->mark = next_mark(g->mark);
    react_at_once(g);
    write_mark(&g->p.side[0], &g->p.side[1], g->mark);
    spin_until(&g->p.side[0], g->mark);
}

/*
 * Stays that a busy machine has spoilt cost nothing here: the penalty for them, which doubles each
 * time, would soon be more round trips than there is time for. Only this thread's posts use it.
 */
static void earn(struct game *g)
{
    spin_of(g)->habit.owed = spin_of(g)->habit.penalty = 0;
    for (unsigned i = 0; !spin_of(g)->habit.earned; i++) {
        assert_true(i < MANY);
        to_and_fro(g);
    }
}

static void last_round(struct game *g)
{
    react_at_once(g);
    write_mark(&g->p.side[0], &g->p.side[1], 255);
}

static void post__of_a_thread_that_spins_on_memory__runs_the_loop(void **state)
{
    struct game g;
    bool answered = false;

    (void)state;
    begin(&g, IWARP_PROGRESS_THREADED);
    for (unsigned i = 0; !answered; i++) {
        assert_true(i < MANY);
        earn(&g);
        g.mark = next_mark(g.mark);
        react_at_once(&g);
        write_mark(&g.p.side[0], &g.p.side[1], g.mark);
        answered = g.p.side[0].p[0] == g.mark;
        spin_until(&g.p.side[0], g.mark);
    }
    last_round(&g);
    spin_until(&g.p.side[0], 255);
    end(&g);
}

/* After the stay nobody runs the loop, and the thread makes no call: the home comes back. */
static void writes__that_come_later__are_placed_without_a_call(void **state)
{
    struct game g;

    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        begin(&g, IWARP_PROGRESS_THREADED);
        atomic_store(&g.peer.more, 3);
        atomic_store(&g.peer.pause, i * 300);
        earn(&g);
        last_round(&g);
        spin_until(&g.p.side[0], 248);
        end(&g);
    }
}

/* Nobody answers: the post returns all the same, and the habit slips. */
static void post__that_nobody_answers__returns(void **state)
{
    struct game g;

    (void)state;
    begin(&g, IWARP_PROGRESS_THREADED);
    earn(&g);
    last_round(&g);
    spin_until(&g.p.side[0], 255);
    react_at_once(&g);
    write_mark(&g.p.side[0], &g.p.side[1], 7);
    react_at_once(&g);
    write_mark(&g.p.side[0], &g.p.side[1], 8);
    react_at_once(&g);
    write_mark(&g.p.side[0], &g.p.side[1], 9);
    assert_false(spin_of(&g)->habit.earned);
    write_mark(&g.p.side[1], &g.p.side[0], 10); /* the home serves it */
    spin_until(&g.p.side[0], 10);
    end(&g);
}

static void post__while_a_queue_is_armed__does_not_stay(void **state)
{
    struct game g;

    (void)state;
    begin(&g, IWARP_PROGRESS_THREADED);
    earn(&g);
    must(iwarp_cq_arm(g.p.side[0].recv_cq, false));
    for (unsigned i = 0; i < 20; i++) {
        to_and_fro(&g);
        assert_int_equal(atomic_load(&spin_of(&g)->stayed), 0);
    }
    last_round(&g);
    end(&g);
}

/* The thread polls an empty queue while it waits, and its polls can run the loop. */
static void post__of_a_thread_that_polls_meanwhile__does_not_stay(void **state)
{
    struct game g;

    (void)state;
    begin(&g, IWARP_PROGRESS_THREADED);
    for (unsigned i = 0; i < 200; i++) {
        to_and_fro(&g);
        pair_no_wc(g.p.side[0].send_cq);
        assert_false(spin_of(&g)->habit.earned);
    }
    last_round(&g);
    end(&g);
}

/* A thread that waits for a completion is told of it, and can run the loop by that. */
static void post__of_a_thread_that_waits_meanwhile__does_not_stay(void **state)
{
    struct iwarp_wc wc;
    struct game g;

    (void)state;
    begin(&g, IWARP_PROGRESS_THREADED);
    for (unsigned i = 0; i < 200; i++) {
        to_and_fro(&g);
        (void)iwarp_cq_wait(g.p.side[0].recv_cq, &wc, 1, 0);
        assert_false(spin_of(&g)->habit.earned);
    }
    last_round(&g);
    end(&g);
}

/*
 * The Write that ended the stay was not all that the program spins for: what it waits for then is
 * placed by the home, which takes a while, so it is not kept in its posts any longer.
 */
static void post__after_a_second_write__does_not_stay(void **state)
{
    struct game g;

    (void)state;
    begin(&g, IWARP_PROGRESS_THREADED);
    atomic_store(&g.peer.twice, true);
    for (unsigned i = 0; i < 200; i++) {
        to_and_fro(&g);
        spin_until_at(&g.p.side[0], 1, g.mark);
        assert_false(spin_of(&g)->habit.earned);
    }
    last_round(&g);
    end(&g);
}

/* After a request of another kind the home has the loop at once: the answer may be long in coming.
 */
static void post__of_a_chain__gives_the_loop_back(void **state)
{
    struct iwarp_sge sge;
    struct iwarp_send_wr wr[2];
    struct game g;

    (void)state;
    begin(&g, IWARP_PROGRESS_THREADED);
    for (unsigned i = 0; i < 5; i++) {
        for (earn(&g); !spin_of(&g)->leads; earn(&g)) { /* the post that earned it has stayed */
            to_and_fro(&g);
        }
        sge = pair_sge(&g.p.side[0], OCTETS, 1);
        for (unsigned k = 0; k < 2; k++) {
            wr[k] = pair_wr(IWARP_WR_WRITE, 0, &sge);
            wr[k].remote_to = (uintptr_t)g.p.side[1].p + OCTETS / 2;
            wr[k].remote_stag = iwarp_mr_stag(g.p.side[1].mr);
        }
        wr[0].next = &wr[1];
        must(iwarp_post_send(g.p.side[0].qp, wr, NULL));
        assert_false(spin_of(&g)->leads || spin_of(&g)->habit.earned);
        (void)pair_wc(g.p.side[0].send_cq, 0, IWARP_WC_SUCCESS);
        (void)pair_wc(g.p.side[0].send_cq, 0, IWARP_WC_SUCCESS);
    }
    last_round(&g);
    end(&g);
}

/* The program may look at the memory of all its connections, so it is kept in none of its posts. */
static void post__while_another_connection_receives__does_not_stay(void **state)
{
    struct game g;

    (void)state;
    begin(&g, IWARP_PROGRESS_THREADED);
    for (unsigned i = 0; i < 200; i++) {
        atomic_fetch_add(&g.p.side[0].conn->worker->switches,
                         1); /* as iwarp_spin_receives does it */
        to_and_fro(&g);
        assert_false(spin_of(&g)->habit.earned);
    }
    last_round(&g);
    end(&g);
}

static void post__with_polled_progress__does_not_stay(void **state)
{
    struct game g;

    (void)state;
    begin(&g, IWARP_PROGRESS_POLLED);
    for (unsigned i = 0; i < 30; i++) {
        to_and_fro(&g);
        assert_int_equal(atomic_load(&spin_of(&g)->stayed), 0);
    }
    last_round(&g);
    end(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(post__of_a_thread_that_spins_on_memory__runs_the_loop),
        cmocka_unit_test(writes__that_come_later__are_placed_without_a_call),
        cmocka_unit_test(post__that_nobody_answers__returns),
        cmocka_unit_test(post__while_a_queue_is_armed__does_not_stay),
        cmocka_unit_test(post__of_a_thread_that_polls_meanwhile__does_not_stay),
        cmocka_unit_test(post__of_a_thread_that_waits_meanwhile__does_not_stay),
        cmocka_unit_test(post__after_a_second_write__does_not_stay),
        cmocka_unit_test(post__of_a_chain__gives_the_loop_back),
        cmocka_unit_test(post__while_another_connection_receives__does_not_stay),
        cmocka_unit_test(post__with_polled_progress__does_not_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
