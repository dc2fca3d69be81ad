/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ways to make progress: which threads may call and which one moves the octets in each; how the
 * threads of polled mode hand the loop to each other; what embedded mode leaves in the
 * application's loop.
 */
#include "verbs_pair.h"

#include "loop/clock.h"
#include "verbs/conn.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs/mr.h"
#include "verbs/worker.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static int64_t cpu_us(void)
{
    struct rusage r;

    getrusage(RUSAGE_SELF, &r);
    return (int64_t)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000 + r.ru_utime.tv_usec +
           r.ru_stime.tv_usec;
}

static void options(struct iwarp_device_options *o, enum iwarp_progress progress, uv_loop_t *loop)
{
    iwarp_device_options_init(o);
    o->progress = progress;
    o->loop = loop;
}

/* --- options --------------------------------------------------------------------------------- */

static void options__that_do_not_fit__are_misuse(void **state)
{
    struct iwarp_device_options o;
    struct iwarp_device *device;
    uv_loop_t loop;

    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    options(&o, (enum iwarp_progress)4, NULL);
    must_fail(iwarp_device_open(&o, &device), IWARP_MISUSE, "progress is 4");
    options(&o, IWARP_PROGRESS_EMBEDDED, NULL);
    must_fail(iwarp_device_open(&o, &device), IWARP_MISUSE, "needs the application's loop");
    options(&o, IWARP_PROGRESS_POLLED, &loop);
    must_fail(iwarp_device_open(&o, &device), IWARP_MISUSE, "for embedded progress only");
    options(&o, IWARP_PROGRESS_EMBEDDED, &loop);
    o.workers = 2;
    must_fail(iwarp_device_open(&o, &device), IWARP_MISUSE, "workers is 2");
    assert_int_equal(uv_loop_close(&loop), 0); /* nothing was put into it */
}

static void environment__decides_where_the_options_do_not(void **state)
{
    static const struct {
        const char *value;
        enum iwarp_progress option, result;
    } cases[] = {
        {NULL, IWARP_PROGRESS_DEFAULT, IWARP_PROGRESS_THREADED},
        {"threaded", IWARP_PROGRESS_DEFAULT, IWARP_PROGRESS_THREADED},
        {"polled", IWARP_PROGRESS_DEFAULT, IWARP_PROGRESS_POLLED},
        {"polled", IWARP_PROGRESS_THREADED, IWARP_PROGRESS_THREADED},
        {"threaded", IWARP_PROGRESS_POLLED, IWARP_PROGRESS_POLLED},
    };
    struct iwarp_device_options o;
    struct iwarp_device *device;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsetenv("IWARP_PROGRESS");
        if (cases[i].value) {
            setenv("IWARP_PROGRESS", cases[i].value, 1);
        }
        options(&o, cases[i].option, NULL);
        must(iwarp_device_open(&o, &device));
        assert_int_equal(device->options.progress, cases[i].result);
        must(iwarp_device_close(device));
    }
    setenv("IWARP_PROGRESS", "embedded", 1); /* only a program can say which loop */
    must_fail(iwarp_device_open(NULL, &device), IWARP_MISUSE, "expected threaded or polled");
    unsetenv("IWARP_PROGRESS");
}

/* --- polled ---------------------------------------------------------------------------------- */

static void open_polled(struct pair *p)
{
    struct pair_options o;

    pair_options_init(&o, PAIR_TCP4);
    o.device.progress = IWARP_PROGRESS_POLLED;
    pair_open(p, &o);
}

/* While nobody calls anything: the peer's Write arrives all the same, and so does its answer. */
static void polled__without_a_poller__the_worker_does_it(void **state)
{
    struct pair p;

    (void)state;
    open_polled(&p);
    for (int round = 1; round < 20; round++) {
        const volatile uint8_t *last = p.side[1].p + 99;
        struct iwarp_wc wc;
        memset(p.side[0].p, round, 100);
        pair_write(&p.side[0], 7, 0, 100, &p.side[1], 0);
        for (int i = 0; *last != round; i++) {
            assert_true(i < 90000);
            usleep(1000);
        }
        while (iwarp_cq_poll(p.side[0].send_cq, &wc, 1) == 0) { /* and from here on it polls */
        }
        assert_int_equal(wc.status, IWARP_WC_SUCCESS);
    }
    pair_close(&p);
}

/* What the thread that polls does, the worker's need not: it sleeps meanwhile. */
static void polled__with_a_poller__the_worker_steps_back(void **state)
{
    struct iwarp_worker *w;
    struct iwarp_wc wc;
    unsigned stepped = 0;
    struct pair p;

    (void)state;
    open_polled(&p);
    w = &p.device->worker[0];
    for (unsigned i = 0; i < 3000; i++) {
        pair_recv(&p.side[1], i, 0, 100);
        pair_send(&p.side[0], i, 0, 100);
        while (iwarp_cq_poll(p.side[1].recv_cq, &wc, 1) == 0) {
            stepped += !atomic_load(&w->loop.lease.asleep);
        }
        assert_int_equal(wc.wr_id, i);
        while (iwarp_cq_poll(p.side[0].send_cq, &wc, 1) == 0) {
        }
        stepped += !atomic_load(&w->loop.lease.asleep);
    }
    print_message("# stepped back at %u of at least 6000 looks\n", stepped);
    assert_true(stepped > 1000);
    pair_close(&p);
}

/* It goes back to sleep when the polls have ended, and an idle device costs nothing. */
static void polled__and_then_idle__uses_no_cpu(void **state)
{
    struct pair p;
    struct iwarp_wc wc;

    (void)state;
    open_polled(&p);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(iwarp_cq_poll(p.side[0].recv_cq, &wc, 1), 0);
    }
    struct iwarp_worker *w = &p.device->worker[0];
    for (int i = 0; !atomic_load(&w->loop.lease.asleep); i++) {
        assert_true(i < 90000);
        usleep(1000);
    }
    int64_t before = cpu_us();
    usleep(300000);
    int64_t used = cpu_us() - before;
    print_message("# %lld us of CPU in 300 ms\n", (long long)used);
    assert_true(used < 30000);
    pair_close(&p);
}

struct poller {
    pthread_t thread;
    struct pair *pair;
    _Atomic bool stop;
};

static void *poll_on(void *arg)
{
    struct poller *me = arg;
    struct iwarp_wc wc;

    while (!atomic_load(&me->stop)) {
        assert_int_equal(iwarp_cq_poll(me->pair->side[0].recv_cq, &wc, 1), 0);
    }
    return NULL;
}

/* Some poll, some wait: nobody misses anything. */
static void polled__beside_threads_that_wait__loses_nothing(void **state)
{
    struct poller poller[2];
    struct pair p;

    (void)state;
    open_polled(&p);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < round; i++) {
            poller[i].pair = &p;
            atomic_store(&poller[i].stop, false);
            assert_int_equal(pthread_create(&poller[i].thread, NULL, poll_on, &poller[i]), 0);
        }
        for (unsigned i = 0; i < 300; i++) {
            pair_recv(&p.side[1], i, 0, 100);
            pair_send(&p.side[0], i, 0, 100);
            pair_wc(p.side[1].recv_cq, i, IWARP_WC_SUCCESS);
            pair_wc(p.side[0].send_cq, i, IWARP_WC_SUCCESS);
        }
        for (int i = 0; i < round; i++) {
            atomic_store(&poller[i].stop, true);
            pthread_join(poller[i].thread, NULL);
        }
    }
    pair_close(&p);
}

/*
 * Two workers with a connection's end each: a thread that polls the queue of one does not run the
 * other, on either transport; and each poll of an end's own queues moves what it has to.
 */
static void polled__a_queue__runs_the_workers_that_use_it_only(void **state)
{
    struct iwarp_event event;
    struct pair_options o;
    struct iwarp_wc wc;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    o.device.progress = IWARP_PROGRESS_POLLED;
    o.device.workers = 2;
    o.conn[0].worker = 2;
    o.conn[1].worker = 1; /* of the listener, and so of what it gets */
    pair_open(&p, &o);
    struct iwarp_worker *mine = &p.device->worker[1], *other = &p.device->worker[0];
    assert_ptr_equal(p.side[0].conn->worker, mine);
    assert_ptr_equal(p.side[1].conn->worker, other);
    pair_await_homes(p.device); /* nobody looks after a loop that its home runs */
    unsigned mine_before = atomic_load(&mine->loop.lease.visits),
             other_before = atomic_load(&other->loop.lease.visits);
    for (unsigned i = 0; i < 500; i++) {
        pair_write(&p.side[0], i, 0, 100, &p.side[1], 0);
        while (iwarp_cq_poll(p.side[0].send_cq, &wc, 1) == 0) {
        }
        assert_int_equal(wc.status, IWARP_WC_SUCCESS);
        assert_int_equal(iwarp_cq_poll(p.side[0].recv_cq, &wc, 1), 0);
        assert_int_equal(iwarp_eq_get(p.eq[0], &event, 0), IWARP_AGAIN); /* of the initiator */
    }
    assert_true(atomic_load(&mine->loop.lease.visits) - mine_before >= 500);
    assert_int_equal(atomic_load(&other->loop.lease.visits), other_before);
    assert_int_equal(iwarp_eq_get(p.eq[1], &event, 0), IWARP_AGAIN); /* of the listener */
    assert_int_equal(atomic_load(&other->loop.lease.visits), other_before + 1);
    for (unsigned i = 0; i < 500; i++) {
        pair_recv(&p.side[1], i, 0, 100);
        pair_send(&p.side[0], i, 0, 100);
        while (iwarp_cq_poll(p.side[1].recv_cq, &wc, 1) == 0) {
        }
        assert_int_equal(wc.wr_id, i);
        assert_int_equal(iwarp_cq_poll(p.side[1].recv_cq, &wc, 1), 0); /* empty for sure: it runs */
        while (iwarp_cq_poll(p.side[0].send_cq, &wc, 1) == 0) {
        }
    }
    assert_true(atomic_load(&other->loop.lease.visits) - other_before >= 500);
    pair_close(&p);
}

/* To look after a loop now and then is no visit: its home comes back to it. */
static void polled__another_queue_from_now_on__lets_the_first_loop_have_its_home(void **state)
{
    struct pair_options o;
    struct iwarp_wc wc;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    o.device.progress = IWARP_PROGRESS_POLLED;
    o.device.workers = 2;
    o.conn[0].worker = 2;
    o.conn[1].worker = 1;
    pair_open(&p, &o);
    const struct iwarp_lease *first = &p.device->worker[0].loop.lease;
    int64_t end = iwarp_now_ms() + PAIR_WAIT_MS;
    while (!iwarp_lease_is_out(first)) {
        assert_int_equal(iwarp_cq_poll(p.side[1].recv_cq, &wc, 1), 0);
        assert_true(iwarp_now_ms() < end);
    }
    while (iwarp_lease_is_out(first)) {
        assert_int_equal(iwarp_cq_poll(p.side[0].recv_cq, &wc, 1), 0);
        assert_true(iwarp_now_ms() < end);
    }
    pair_close(&p);
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Who has polled a queue, and goes on with one of another worker, does not leave the first alone.
 */
static void polled__another_queue_from_now_on__has_the_first_workers_looked_after(void **state)
{
    enum { ROUNDS = 100 };
    struct pair_options o;
    struct iwarp_wc wc;
    struct pair p;
    int64_t took[ROUNDS];

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    o.device.progress = IWARP_PROGRESS_POLLED;
    o.device.workers = 2;
    o.conn[0].worker = 2;
    o.conn[1].worker = 1;
    pair_open(&p, &o);
    const volatile uint8_t *last = p.side[1].p + 99;
    for (unsigned i = 0; i < ROUNDS; i++) {
        memset(p.side[0].p, (int)i + 1, 100);
        pair_write(&p.side[0], i, 0, 100, &p.side[1], 0);
        while (iwarp_cq_poll(p.side[0].send_cq, &wc, 1) == 0) {
        }
        /* Its worker's thread steps back now at the latest, and comes back after 2 ms. */
        assert_int_equal(iwarp_cq_poll(p.side[1].recv_cq, &wc, 1), 0);
        memset(p.side[0].p, (int)i + 101, 100);
        int64_t begin = iwarp_now_ns();
        pair_write(&p.side[0], i, 0, 100, &p.side[1], 0);
        while (*last != (uint8_t)(i + 101)) {
            (void)iwarp_cq_poll(p.side[0].recv_cq, &wc, 1);
        }
        took[i] = iwarp_now_ns() - begin;
        while (iwarp_cq_poll(p.side[0].send_cq, &wc, 1) == 0) {
        }
    }
    qsort(took, ROUNDS, sizeof *took, by_size);
    print_message("# %lld us, median %lld us\n", (long long)took[0] / 1000,
                  (long long)took[ROUNDS / 2] / 1000);
    assert_true(took[ROUNDS / 2] < 1000000);
    pair_close(&p);
}

/* --- embedded -------------------------------------------------------------------------------- */

struct elsewhere {
    struct pair *pair;
    struct iwarp_device *device;
    uint32_t stag;
    _Atomic int ran;
    pthread_t on;
};

static void note_thread(void *arg)
{
    struct elsewhere *e = arg;

    e->on = pthread_self();
    atomic_fetch_add(&e->ran, 1);
}

/* Every kind of call from a thread that is not the loop's. */
static void *call_from_elsewhere(void *arg)
{
    struct elsewhere *e = arg;
    struct pair_side *s = &e->pair->side[0];
    struct iwarp_wc wc;
    struct iwarp_mr *mr;
    struct iwarp_cq *cq;
    struct iwarp_event event;
    const struct iwarp_recv_wr recv = {.wr_id = 1};
    struct iwarp_transport ops = *s->conn->ep->ops;
    struct iwarp_endpoint ep = {.ops = &ops};
    struct iwarp_conn *conn;
    char text[8];

    must_fail(iwarp_post_recv(s->qp, &recv, NULL), IWARP_MISUSE, "iwarp_device_call");
    must_fail(iwarp_mr_register(s->pd, text, 8, 0, &mr), IWARP_MISUSE, "iwarp_device_call");
    must_fail(iwarp_cq_create(e->device, 8, NULL, &cq), IWARP_MISUSE, "iwarp_device_call");
    must_fail(iwarp_eq_get(e->pair->eq[0], &event, 0), IWARP_MISUSE, "iwarp_device_call");
    must_fail(iwarp_conn_wait(s->conn, 0), IWARP_MISUSE, "iwarp_device_call");
    must_fail(iwarp_disconnect(s->conn), IWARP_MISUSE, "iwarp_device_call");
    ops.poll = ops.shutdown_write; /* one of the application's has all */
    must_fail(iwarp_connect_over(s->qp, &ep, NULL, NULL, 0, e->pair->eq[0], NULL, &conn),
              IWARP_MISUSE, "iwarp_device_call");
    must_fail(iwarp_accept_over(e->device, &ep, NULL, e->pair->eq[0], NULL, &conn), IWARP_MISUSE,
              "iwarp_device_call");
    must_fail(iwarp_device_close(e->device), IWARP_MISUSE, "iwarp_device_call");
    assert_int_equal(iwarp_cq_poll(s->send_cq, &wc, 1), IWARP_MISUSE);
    assert_int_equal(iwarp_qp_state(s->qp), IWARP_QP_RTS); /* only returns what is stored */
    assert_int_equal(iwarp_mr_stag(s->mr), e->stag);
    for (int i = 0; i < 3; i++) {
        must(iwarp_device_call(e->device, note_thread, e));
    }
    return NULL;
}

static void open_embedded(struct pair *p, uv_loop_t *loop, enum pair_transport transport)
{
    struct pair_options o;

    assert_int_equal(uv_loop_init(loop), 0);
    pair_options_init(&o, transport);
    options(&o.device, IWARP_PROGRESS_EMBEDDED, loop);
    pair_open(p, &o);
}

static void close_embedded(struct pair *p, uv_loop_t *loop)
{
    pair_close(p);
    uv_run(loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(loop), 0);
}

static void embedded__from_another_thread__is_misuse_but_for_the_call(void **state)
{
    struct elsewhere e = {0};
    pthread_t thread;
    uv_loop_t loop;
    struct pair p;

    (void)state;
    open_embedded(&p, &loop, PAIR_TCP4);
    e.pair = &p;
    e.device = p.device;
    e.stag = iwarp_mr_stag(p.side[0].mr);
    assert_int_equal(pthread_create(&thread, NULL, call_from_elsewhere, &e), 0);
    while (atomic_load(&e.ran) < 3) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    pthread_join(thread, NULL);
    assert_true(pthread_equal(e.on, pthread_self()));
    must_fail(iwarp_device_call(p.device, NULL, NULL), IWARP_MISUSE, "a function");
    close_embedded(&p, &loop);
}

static void count(void *arg)
{
    ++*(int *)arg;
}

/* Calls that the loop had no turn for are neither lost nor leaked. */
static void device_call__before_the_close__is_run_by_it(void **state)
{
    struct iwarp_device_options o;
    struct iwarp_device *device;
    uv_loop_t loop;
    int ran = 0;

    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    options(&o, IWARP_PROGRESS_EMBEDDED, &loop);
    must(iwarp_device_open(&o, &device));
    must(iwarp_device_call(device, count, &ran));
    must(iwarp_device_call(device, count, &ran));
    must(iwarp_device_close(device));
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(ran, 2);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void device_call__in_other_modes__is_misuse(void **state)
{
    struct iwarp_device *device;

    (void)state;
    must(iwarp_device_open(NULL, &device));
    must_fail(iwarp_device_call(device, note_thread, NULL), IWARP_MISUSE, "embedded");
    must(iwarp_device_close(device));
}

/* No thread, and nothing moves unless the loop runs. */
static void embedded__without_a_turn_of_the_loop__nothing_moves(void **state)
{
    unsigned threads = pair_thread_count();
    uv_loop_t loop;
    struct pair p;

    (void)state;
    open_embedded(&p, &loop, PAIR_TCP4);
    assert_int_equal(pair_thread_count(), threads);
    pair_recv(&p.side[1], 1, 0, 100);
    pair_send(&p.side[0], 2, 0, 100);
    usleep(20000);
    pair_no_wc(p.side[1].recv_cq);
    while (uv_run(&loop, UV_RUN_ONCE) && p.side[1].recv_cq->tail == p.side[1].recv_cq->head) {
    }
    pair_wc(p.side[1].recv_cq, 1, IWARP_WC_SUCCESS);
    pair_wc(p.side[0].send_cq, 2, IWARP_WC_SUCCESS);
    close_embedded(&p, &loop);
}

/* The application's loop with handles of its own: completions come through the descriptor. */
struct app {
    struct pair *pair;
    uv_poll_t ready;
    uv_timer_t tick;
    unsigned ticks, received;
};

static void on_tick(uv_timer_t *tick)
{
    struct app *app = tick->data;

    app->ticks++;
}

static void on_ready(uv_poll_t *ready, int status, int events)
{
    struct app *app = ready->data;
    struct iwarp_cq *cq = app->pair->side[1].recv_cq;
    struct iwarp_wc wc;

    (void)events;
    assert_int_equal(status, 0);
    iwarp_cq_drain(cq);
    must(iwarp_cq_arm(cq, false));
    while (iwarp_cq_poll(cq, &wc, 1) == 1) {
        assert_int_equal(wc.status, IWARP_WC_SUCCESS);
        if (++app->received < 200) {
            pair_recv(&app->pair->side[1], 0, 0, 100);
            pair_send(&app->pair->side[0], 0, 0, 100);
        } else {
            uv_close((uv_handle_t *)ready, NULL);
            uv_close((uv_handle_t *)&app->tick, NULL);
            uv_stop(ready->loop);
        }
    }
}

static void embedded__in_a_loop_of_the_application__serves_both(void **state)
{
    struct app app = {0};
    uv_loop_t loop;
    struct pair p;

    (void)state;
    for (enum pair_transport t = 0; t < PAIR_TRANSPORTS; t++) {
        open_embedded(&p, &loop, t);
        app = (struct app){.pair = &p};
        app.ready.data = app.tick.data = &app;
        assert_int_equal(uv_poll_init(&loop, &app.ready, iwarp_cq_fd(p.side[1].recv_cq)), 0);
        uv_poll_start(&app.ready, UV_READABLE, on_ready);
        uv_timer_init(&loop, &app.tick);
        uv_timer_start(&app.tick, on_tick, 0, 1);
        must(iwarp_cq_arm(p.side[1].recv_cq, false));
        pair_recv(&p.side[1], 0, 0, 100);
        pair_send(&p.side[0], 0, 0, 100);
        uv_run(&loop, UV_RUN_DEFAULT);
        assert_int_equal(app.received, 200);
        assert_true(app.ticks > 0);
        close_embedded(&p, &loop);
    }
}

/* What a turn of a loop around the device's has to do. True if anything was found. */
static bool look(struct pair *p, unsigned *established, unsigned *received)
{
    struct iwarp_event event;
    struct iwarp_wc wc;
    bool found = false;

    for (int i = 0; i < 2; i++) {
        while (iwarp_eq_get(p->eq[i], &event, 0) == IWARP_OK) {
            found = true;
            if (event.type == IWARP_EVENT_REQUEST) {
                p->side[1].conn = event.conn;
                must(iwarp_accept(event.conn, p->side[1].qp, NULL, NULL, 0, NULL));
            } else {
                assert_int_equal(event.type, IWARP_EVENT_ESTABLISHED);
                *established += 1;
            }
        }
    }
    while (iwarp_cq_poll(p->side[1].recv_cq, &wc, 1) == 1) {
        assert_int_equal(wc.status, IWARP_WC_SUCCESS);
        found = true;
        if (++*received < 50) {
            pair_recv(&p->side[1], 0, 0, 100);
            pair_send(&p->side[0], 0, 0, 100);
        }
    }
    return found;
}

/* As docs/embedding.md says: what sleeps is poll(2) for the loop's descriptor. */
static void embedded__below_a_loop_that_is_not_libuvs__moves_all(void **state)
{
    unsigned established = 0, received = 0, turns = 0;
    struct sockaddr_storage addr;
    struct pair_options o;
    uv_loop_t loop;
    socklen_t len;
    struct pair p;

    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    pair_options_init(&o, PAIR_TCP4);
    options(&o.device, IWARP_PROGRESS_EMBEDDED, &loop);
    pair_prepare(&p, &o);
    pair_recv(&p.side[1], 0, 0, 100);
    must(iwarp_listener_addr(p.listener, &addr, &len));
    must(iwarp_connect(p.side[0].qp, (const struct sockaddr *)&addr, len, NULL, NULL, 0, p.eq[0],
                       NULL, &p.side[0].conn));
    pair_send(&p.side[0], 0, 0, 100);
    for (int64_t end = iwarp_now_ms() + PAIR_WAIT_MS; received < 50;) {
        do {
            uv_run(&loop, UV_RUN_NOWAIT);
        } while (look(&p, &established, &received));
        struct pollfd fd = {.fd = uv_backend_fd(&loop), .events = POLLIN};
        if (received < 50) {
            poll(&fd, 1, uv_backend_timeout(&loop));
        }
        assert_true(iwarp_now_ms() < end);
    }
    assert_int_equal(established, 2);
    pair_close(&p);
    int closed;
    while ((closed = uv_loop_close(&loop)) == UV_EBUSY && turns++ < 100) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(closed, 0);
}

static void embedded__waiting__keeps_to_its_time(void **state)
{
    struct iwarp_event event;
    struct iwarp_wc wc;
    struct timespec a, b;
    uv_loop_t loop;
    struct pair p;

    (void)state;
    open_embedded(&p, &loop, PAIR_TCP4);
    clock_gettime(CLOCK_MONOTONIC, &a);
    assert_int_equal(iwarp_cq_wait(p.side[0].recv_cq, &wc, 1, 50), 0);
    must_fail(iwarp_eq_get(p.eq[0], &event, 50), IWARP_AGAIN, "50 ms");
    must_fail(iwarp_conn_wait_end(p.side[0].conn, 50), IWARP_AGAIN, "50 ms");
    clock_gettime(CLOCK_MONOTONIC, &b);
    int64_t ms = (b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000;
    assert_in_range(ms, 140, 60000);
    close_embedded(&p, &loop);
}

/* Closing with connections that linger and a listener leaves the loop empty. */
static void embedded__closed_in_the_middle__leaves_the_loop_empty(void **state)
{
    unsigned fds = pair_fd_count();
    uv_loop_t loop;
    struct pair p;

    (void)state;
    for (int i = 0; i < 20; i++) {
        open_embedded(&p, &loop, i % 2 ? PAIR_TCP4 : PAIR_MEMORY);
        pair_send(&p.side[0], 1, 0, 100);
        if (i % 4 > 1) {
            must(iwarp_disconnect(p.side[0].conn));
        }
        close_embedded(&p, &loop);
    }
    assert_true(pair_fd_count() <= fds + 2); /* libuv keeps a pipe from its first loop on */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options__that_do_not_fit__are_misuse),
        cmocka_unit_test(environment__decides_where_the_options_do_not),
        cmocka_unit_test(polled__without_a_poller__the_worker_does_it),
        cmocka_unit_test(polled__with_a_poller__the_worker_steps_back),
        cmocka_unit_test(polled__and_then_idle__uses_no_cpu),
        cmocka_unit_test(polled__beside_threads_that_wait__loses_nothing),
        cmocka_unit_test(polled__a_queue__runs_the_workers_that_use_it_only),
        cmocka_unit_test(polled__another_queue_from_now_on__has_the_first_workers_looked_after),
        cmocka_unit_test(polled__another_queue_from_now_on__lets_the_first_loop_have_its_home),
        cmocka_unit_test(embedded__from_another_thread__is_misuse_but_for_the_call),
        cmocka_unit_test(device_call__before_the_close__is_run_by_it),
        cmocka_unit_test(device_call__in_other_modes__is_misuse),
        cmocka_unit_test(embedded__without_a_turn_of_the_loop__nothing_moves),
        cmocka_unit_test(embedded__in_a_loop_of_the_application__serves_both),
        cmocka_unit_test(embedded__below_a_loop_that_is_not_libuvs__moves_all),
        cmocka_unit_test(embedded__waiting__keeps_to_its_time),
        cmocka_unit_test(embedded__closed_in_the_middle__leaves_the_loop_empty),
    };
    unsetenv("TEST_PROGRESS");
    unsetenv("IWARP_PROGRESS");
    return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
