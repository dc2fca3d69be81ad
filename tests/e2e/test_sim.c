/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The simulator (iwarp/sim.h): a run is repeated exactly by its seed; octets arrive whole and in
 * order whatever chance does; losses and refused memory are told and cost nothing else; time is
 * virtual; and what is wrong is refused.
 */
#include <iwarp/iwarp.h>
#include <iwarp/sim.h>

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND   ((uint64_t)1000000000)
#define OCTETS   5000
#define MESSAGES 20

struct end {
    struct iwarp_device *device;
    struct iwarp_pd *pd;
    struct iwarp_cq *cq;
    struct iwarp_eq *eq;
    struct iwarp_mr *mr;
    struct iwarp_qp *qp;
    struct iwarp_conn *conn;
    uint8_t *memory; /* MESSAGES times OCTETS */
    unsigned done, ended;
};

/* One client and one server in a simulation. Any step may fail where memory is refused. */
struct world {
    struct iwarp_sim *sim;
    struct end client, server;
    struct iwarp_listener *listener;
    uint64_t hash; /* of the trace */
    unsigned lines;
};

static void note(void *arg, const char *line)
{
    struct world *w = arg;

    w->lines++;
    for (; *line; line++) {
        w->hash = (w->hash ^ (uint8_t)*line) * 0x100000001b3u;
    }
}

static bool is_ok(enum iwarp_status status)
{
    assert_true(status == IWARP_OK || status == IWARP_NO_MEMORY || status == IWARP_LIMIT);
    return status == IWARP_OK;
}

static bool create_qp(struct end *e)
{
    struct iwarp_qp_options options;

    iwarp_qp_options_init(&options);
    options.send_cq = options.recv_cq = e->cq;
    options.max_send_wr = options.max_recv_wr = MESSAGES;
    options.signal_all = true;
    return is_ok(iwarp_qp_create(e->pd, &options, &e->qp));
}

static bool open_end(struct world *w, struct end *e, const char *address)
{
    e->memory = iwarp_sim_memory(w->sim, (size_t)MESSAGES * OCTETS);
    assert_non_null(e->memory);
    return is_ok(iwarp_sim_device_open(w->sim, address, NULL, &e->device)) &&
           is_ok(iwarp_pd_create(e->device, &e->pd)) &&
           is_ok(iwarp_cq_create(e->device, 4 * MESSAGES, NULL, &e->cq)) &&
           is_ok(iwarp_eq_create(e->device, &e->eq)) &&
           is_ok(iwarp_mr_register(e->pd, e->memory, (size_t)MESSAGES * OCTETS,
                                   IWARP_ACCESS_LOCAL_WRITE, &e->mr)) &&
           create_qp(e);
}

static void close_end(struct end *e)
{
    if (e->conn) {
        iwarp_conn_destroy(e->conn);
    }
    if (e->qp) {
        assert_int_equal(iwarp_qp_destroy(e->qp), IWARP_OK);
    }
    if (e->mr) {
        assert_int_equal(iwarp_mr_deregister(e->mr), IWARP_OK);
    }
    if (e->eq) {
        assert_int_equal(iwarp_eq_destroy(e->eq), IWARP_OK);
    }
    if (e->cq) {
        assert_int_equal(iwarp_cq_destroy(e->cq), IWARP_OK);
    }
    if (e->pd) {
        assert_int_equal(iwarp_pd_destroy(e->pd), IWARP_OK);
    }
    if (e->device) {
        assert_int_equal(iwarp_device_close(e->device), IWARP_OK);
    }
}

static void close_world(struct world *w)
{
    if (w->listener) {
        iwarp_listener_close(w->listener);
    }
    close_end(&w->client);
    close_end(&w->server);
    assert_int_equal(iwarp_sim_close(w->sim), IWARP_OK);
}

static bool listen_and_connect(struct world *w)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(7471)};

    if (!is_ok(iwarp_listen(w->server.device, (struct sockaddr *)&at, sizeof at, NULL, 4,
                            w->server.eq, NULL, &w->listener))) {
        return false;
    }
    inet_pton(AF_INET, "10.0.0.2", &at.sin_addr);
    return is_ok(iwarp_connect(w->client.qp, (struct sockaddr *)&at, sizeof at, NULL, NULL, 0,
                               w->client.eq, NULL, &w->client.conn));
}

static void post_receives(struct end *e)
{
    for (unsigned i = 0; i < MESSAGES; i++) {
        struct iwarp_sge sge = {e->memory + (size_t)i * OCTETS, OCTETS, iwarp_mr_stag(e->mr)};
        struct iwarp_recv_wr wr = {NULL, i, &sge, 1, 0};
        assert_int_equal(iwarp_post_recv(e->qp, &wr, NULL), IWARP_OK);
    }
}

static void send_all(struct end *e)
{
    for (unsigned i = 0; i < MESSAGES; i++) {
        memset(e->memory + (size_t)i * OCTETS, (int)i + 1, OCTETS);
        struct iwarp_sge sge = {e->memory + (size_t)i * OCTETS, OCTETS, iwarp_mr_stag(e->mr)};
        struct iwarp_send_wr wr = {
            .wr_id = i, .opcode = IWARP_WR_SEND, .sg_list = &sge, .num_sge = 1};
        assert_int_equal(iwarp_post_send(e->qp, &wr, NULL), IWARP_OK);
    }
}

static void check_message(const uint8_t *p, unsigned i)
{
    for (unsigned k = 0; k < OCTETS; k++) {
        assert_int_equal(p[k], i + 1);
    }
}

static void poll_end(struct world *w, struct end *e)
{
    struct iwarp_event event;
    struct iwarp_wc wc;

    while (iwarp_cq_poll(e->cq, &wc, 1) == 1) {
        if (wc.opcode == IWARP_WC_RECV && wc.status == IWARP_WC_SUCCESS) {
            assert_int_equal(wc.wr_id, e->done);
            check_message(e->memory + (size_t)e->done * OCTETS, e->done);
            e->done++;
        }
    }
    while (iwarp_eq_get(e->eq, &event, 0) == IWARP_OK) {
        if (event.type == IWARP_EVENT_REQUEST && !e->conn) {
            e->conn = event.conn;
            post_receives(e);
            if (!is_ok(iwarp_accept(e->conn, e->qp, NULL, NULL, 0, NULL))) {
                e->ended++;
            }
        } else if (event.type == IWARP_EVENT_REQUEST) {
            iwarp_conn_destroy(event.conn);
        } else if (event.type == IWARP_EVENT_ESTABLISHED && e == &w->client) {
            send_all(e);
        } else if (event.type != IWARP_EVENT_ESTABLISHED) {
            e->ended++;
        }
    }
}

static void watch_client(void *arg)
{
    struct world *w = arg;
    poll_end(w, &w->client);
}

static void watch_server(void *arg)
{
    struct world *w = arg;
    poll_end(w, &w->server);
}

/* A whole run. Returns false if memory was refused before both ends were there. */
static bool play(struct world *w, const struct iwarp_sim_options *options)
{
    struct iwarp_sim_options o = *options;

    *w = (struct world){.hash = 0xcbf29ce484222325u};
    o.trace = note;
    o.trace_arg = w;
    assert_int_equal(iwarp_sim_open(&o, &w->sim), IWARP_OK);
    bool good = open_end(w, &w->client, "10.0.0.1") && open_end(w, &w->server, "10.0.0.2");
    if (good) {
        iwarp_sim_watch(w->client.device, watch_client, w);
        iwarp_sim_watch(w->server.device, watch_server, w);
        good = listen_and_connect(w);
        iwarp_sim_run(w->sim, 60 * SECOND);
        iwarp_sim_watch(w->client.device, NULL, NULL);
        iwarp_sim_watch(w->server.device, NULL, NULL);
    }
    return good;
}

/* --- runs ------------------------------------------------------------------------------------ */

static void seed__of_many__brings_all_octets_in_order(void **state)
{
    struct iwarp_sim_options options;
    struct world w;

    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        iwarp_sim_options_init(&options, seed);
        options.piece_max = seed % 2 ? 65536 : 700;
        assert_true(play(&w, &options));
        assert_int_equal(w.server.done, MESSAGES);
        assert_int_equal(w.client.ended + w.server.ended, 0);
        close_world(&w);
    }
}

static void seed__the_same_again__is_the_same_run_and_another_is_another(void **state)
{
    struct iwarp_sim_options options;
    struct world first, again, other;

    (void)state;
    for (uint64_t seed = 1; seed < 20; seed++) {
        iwarp_sim_options_init(&options, seed);
        options.lose_one_in = 100;
        play(&first, &options);
        close_world(&first);
        play(&again, &options);
        close_world(&again);
        options.seed = seed + 1000;
        play(&other, &options);
        close_world(&other);
        assert_true(first.lines > 20);
        assert_int_equal(first.lines, again.lines);
        assert_int_equal(first.hash, again.hash);
        assert_int_not_equal(first.hash, other.hash);
    }
}

/* What arrived is the beginning of what was sent; and both ends learn that it is over. */
static void loss__at_any_moment__is_told_at_both_ends(void **state)
{
    struct iwarp_sim_options options;
    unsigned cut = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct world w;
        iwarp_sim_options_init(&options, seed);
        options.lose_one_in = 30;
        assert_true(play(&w, &options));
        if (w.server.done < MESSAGES) {
            cut++;
            assert_true(w.client.ended > 0);
            assert_true(!w.server.conn || w.server.ended > 0);
        }
        close_world(&w);
    }
    assert_true(cut > 10 && cut < 60);
}

static void lose__of_a_device__ends_its_connections(void **state)
{
    struct iwarp_sim_options options;
    struct world w;

    (void)state;
    iwarp_sim_options_init(&options, 5);
    assert_true(play(&w, &options));
    iwarp_sim_watch(w.client.device, watch_client, &w);
    iwarp_sim_watch(w.server.device, watch_server, &w);
    assert_int_equal(iwarp_sim_lose(w.server.device), IWARP_OK);
    iwarp_sim_run(w.sim, SECOND);
    assert_true(w.client.ended > 0 && w.server.ended > 0);
    close_world(&w);
}

/* Whatever allocation fails: a status or the end of a connection, and nothing is left over. */
static void memory__refused_anywhere__costs_no_more_than_the_connection(void **state)
{
    struct iwarp_sim_options options;
    unsigned whole = 0, refused = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 150; seed++) {
        struct world w;
        iwarp_sim_options_init(&options, seed);
        options.refuse_one_in = 30;
        bool good = play(&w, &options);
        refused += !good;
        whole += good && w.server.done == MESSAGES;
        close_world(&w);
    }
    assert_true(whole > 0 && refused > 0 && whole + refused < 150);
}

/* --- time ------------------------------------------------------------------------------------ */

static void count(void *arg)
{
    (*(unsigned *)arg)++;
}

static void wait__of_an_hour__is_of_virtual_time(void **state)
{
    struct iwarp_sim_options options;
    struct iwarp_device *device;
    struct iwarp_event event;
    struct iwarp_sim *sim;
    struct iwarp_eq *eq;
    unsigned calls = 0;

    (void)state;
    iwarp_sim_options_init(&options, 1);
    assert_int_equal(iwarp_sim_open(&options, &sim), IWARP_OK);
    assert_int_equal(iwarp_sim_device_open(sim, "fd00::1", NULL, &device), IWARP_OK);
    assert_int_equal(iwarp_eq_create(device, &eq), IWARP_OK);
    assert_int_equal(iwarp_sim_after(sim, 1800 * SECOND, count, &calls), IWARP_OK);
    assert_int_equal(iwarp_sim_after(sim, 5400 * SECOND, count, &calls), IWARP_OK);
    assert_int_equal(iwarp_eq_get(eq, &event, 3600 * 1000), IWARP_AGAIN);
    assert_int_equal(calls, 1);
    assert_true(iwarp_sim_now(sim) >= 3600 * SECOND && iwarp_sim_now(sim) < 3601 * SECOND);
    assert_true(iwarp_sim_step(sim));
    assert_int_equal(calls, 2);
    assert_false(iwarp_sim_step(sim));
    assert_int_equal(iwarp_eq_destroy(eq), IWARP_OK);
    assert_int_equal(iwarp_device_close(device), IWARP_OK);
    assert_int_equal(iwarp_sim_close(sim), IWARP_OK);
}

/* --- use ------------------------------------------------------------------------------------- */

static void run__of_any_length__lets_happen_what_is_due_by_then(void **state)
{
    struct iwarp_sim_options options;
    struct iwarp_sim *sim;
    int calls = 0;

    (void)state;
    iwarp_sim_options_init(&options, 1);
    assert_int_equal(iwarp_sim_open(&options, &sim), IWARP_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(iwarp_sim_after(sim, SECOND, count, &calls), IWARP_OK);
    }
    assert_int_equal(iwarp_sim_after(sim, SECOND + 1, count, &calls), IWARP_OK);
    iwarp_sim_run(sim, SECOND);
    assert_int_equal(calls, 3);
    assert_int_equal(iwarp_sim_now(sim), SECOND);
    for (int i = 0; i < 4; i++) { /* time has an end, and does not begin anew */
        iwarp_sim_run(sim, UINT64_MAX);
        assert_int_equal(calls, 4);
        assert_true(iwarp_sim_now(sim) == INT64_MAX / 2);
    }
    assert_int_equal(iwarp_sim_close(sim), IWARP_OK);
}

static void device__closed__leaves_its_address_to_another(void **state)
{
    struct iwarp_sim_options options;
    struct iwarp_device *device, *second;
    struct iwarp_sim *sim;

    (void)state;
    iwarp_sim_options_init(&options, 1);
    assert_int_equal(iwarp_sim_open(&options, &sim), IWARP_OK);
    assert_int_equal(iwarp_sim_device_open(sim, "10.0.0.1", NULL, &device), IWARP_OK);
    assert_int_equal(iwarp_sim_device_open(sim, "10.0.0.1", NULL, &second), IWARP_MISUSE);
    assert_int_equal(iwarp_device_close(device), IWARP_OK);
    assert_int_equal(iwarp_sim_device_open(sim, "10.0.0.1", NULL, &device), IWARP_OK);
    assert_int_equal(iwarp_device_close(device), IWARP_OK);
    assert_int_equal(iwarp_sim_close(sim), IWARP_OK);
}

static void misuse__of_each_kind__is_refused(void **state)
{
    struct iwarp_sim_options options, wrong;
    struct iwarp_device *device = NULL, *real;
    struct iwarp_sim *sim, *second;

    (void)state;
    iwarp_sim_options_init(&options, 1);
    wrong = options;
    wrong.delay_min_ns = wrong.delay_max_ns + 1;
    assert_int_equal(iwarp_sim_open(&wrong, &sim), IWARP_MISUSE);
    wrong = options;
    wrong.piece_max = 0;
    assert_int_equal(iwarp_sim_open(&wrong, &sim), IWARP_MISUSE);
    wrong = options;
    wrong.size--;
    assert_int_equal(iwarp_sim_open(&wrong, &sim), IWARP_MISUSE);
    assert_int_equal(iwarp_sim_open(NULL, &sim), IWARP_MISUSE);
    assert_int_equal(iwarp_sim_open(&options, NULL), IWARP_MISUSE);
    assert_int_equal(iwarp_device_open(NULL, &real), IWARP_OK);
    assert_int_equal(iwarp_sim_watch(real, count, NULL), IWARP_MISUSE);
    assert_int_equal(iwarp_sim_lose(real), IWARP_MISUSE);
    assert_int_equal(iwarp_device_close(real), IWARP_OK);
    assert_int_equal(iwarp_sim_open(&options, &sim), IWARP_OK);
    assert_int_equal(iwarp_sim_open(&options, &second), IWARP_MISUSE);
    assert_int_equal(iwarp_sim_device_open(sim, "nowhere", NULL, &device), IWARP_MISUSE);
    assert_int_equal(iwarp_sim_device_open(sim, NULL, NULL, &device), IWARP_MISUSE);
    assert_int_equal(iwarp_sim_device_open(sim, "10.0.0.1", NULL, NULL), IWARP_MISUSE);
    assert_int_equal(iwarp_sim_after(sim, 1, NULL, NULL), IWARP_MISUSE);
    assert_int_equal(iwarp_sim_change(sim, &wrong), IWARP_MISUSE);
    assert_int_equal(iwarp_sim_change(NULL, &options), IWARP_MISUSE);
    assert_non_null(strstr(iwarp_last_error(), "iwarp_sim_change"));
    assert_int_equal(iwarp_sim_change(sim, NULL), IWARP_OK); /* nothing changes */
    assert_null(iwarp_sim_memory(sim, 0));
    assert_int_equal(iwarp_sim_random(sim, 0), 0);
    assert_int_equal(iwarp_sim_device_open(sim, "10.0.0.1", NULL, &device), IWARP_OK);
    assert_int_equal(iwarp_sim_close(sim), IWARP_MISUSE);
    assert_int_equal(iwarp_device_close(device), IWARP_OK);
    assert_int_equal(iwarp_sim_close(sim), IWARP_OK);
    assert_int_equal(iwarp_sim_close(NULL), IWARP_MISUSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seed__of_many__brings_all_octets_in_order),
        cmocka_unit_test(seed__the_same_again__is_the_same_run_and_another_is_another),
        cmocka_unit_test(loss__at_any_moment__is_told_at_both_ends),
        cmocka_unit_test(lose__of_a_device__ends_its_connections),
        cmocka_unit_test(memory__refused_anywhere__costs_no_more_than_the_connection),
        cmocka_unit_test(wait__of_an_hour__is_of_virtual_time),
        cmocka_unit_test(device__closed__leaves_its_address_to_another),
        cmocka_unit_test(run__of_any_length__lets_happen_what_is_due_by_then),
        cmocka_unit_test(misuse__of_each_kind__is_refused),
    };

    setenv("IWARP_LOG", "error", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
