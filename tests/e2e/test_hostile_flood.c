/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers in numbers: connections that say nothing, connections that come and go, more than the
 * device allows. Established connections go on, and a good peer gets its turn.
 *
 * RFC 5044 7.1.2 (8) and (10), RFC 5042 6.4.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "alloc_fault.h"
#include "progress.h"
#include "tcp_host.h"
#include "verbs/conn.h"
#include "verbs/device.h"

#define REQUEST    "4d504120494420526571204672616d65"
#define CROWD      64
#define HALF_OPEN  16
#define STARTUP_MS 6000 /* this end waits half of it for a Request */
#define ALLOWED    60   /* connections of the device, so 30 start-ups */
#define QUIET      2    /* of them are those of the well-behaved connection */

static struct tcp_host *host;

static int setup_half_open(void **state)
{
    struct iwarp_device_options d;
    struct iwarp_conn_options o;

    (void)state;
    iwarp_device_options_init(&d);
    d.max_half_open = HALF_OPEN;
    iwarp_conn_options_init(&o);
    o.startup_timeout_ms = STARTUP_MS;
    host = host_open(&d, &o);
    return 0;
}

static int setup_allowed(void **state)
{
    struct iwarp_device_options d;

    (void)state;
    iwarp_device_options_init(&d);
    d.max_connections = ALLOWED;
    host = host_open(&d, NULL); /* its peers have all the time they want */
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    host_close(host);
    return 0;
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static unsigned connections(void)
{
    iwarp_mutex_lock(&host->device->lock);
    unsigned n = host->device->conn_count;
    iwarp_mutex_unlock(&host->device->lock);
    return n;
}

/* Wait until only the well-behaved connection is left. */
static void all_gone(void)
{
    int64_t begun = now_ms();

    while (connections() != QUIET) {
        assert_true(now_ms() - begun < RAW_PATIENCE_MS);
        progress_sleep(10000);
    }
    assert_int_equal(atomic_load(&host->device->startups.count), 0);
}

/* A good peer: connects, sends one message, closes. */
static void one_good_session(void)
{
    host_options(host);
    host_connect(host, HOST_RESPONDER, 2, 1);
    raw_say(host->fd, NULL, /* V01 */
            "00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 b990b10c");
    assert_int_equal(host_completion(host).byte_len, 5);
    raw_fin(host->fd);
    raw_expect_fin(host->fd, "a close in order");
    host_ended(host, IWARP_FAULT_NONE, 0);
    host_finish(host);
}

/* --- half open ------------------------------------------------------------------------------- */

/* Beside those that are half open: as many as may be turned away and not ended yet, and a batch. */
static unsigned most_connections(void)
{
    return 2 * HALF_OPEN + 2 * 64 + QUIET + 1;
}

static void half_open__a_crowd_says_nothing__is_ended_oldest_first(void **state)
{
    int fd[CROWD];

    (void)state;
    int64_t begun = now_ms();
    for (int i = 0; i < CROWD; i++) {
        fd[i] = raw_connect(&host->addr);
    }
    /* Behind all of them one that does speak. */
    int good = raw_connect(&host->addr);
    raw_say(good, NULL, REQUEST "40010000");
    struct pollfd p = {.fd = iwarp_eq_fd(host->eq), .events = POLLIN};
    while (progress_poll(&p, 1, 5) == 0) {
        unsigned n = atomic_load(&host->device->startups.count);
        assert_true(n <= HALF_OPEN);
        assert_true(connections() <= most_connections());
        host_check_quiet(host);
        assert_true(now_ms() - begun < 2 * RAW_PATIENCE_MS);
    }
    assert_true(now_ms() - begun < STARTUP_MS / 2); /* nobody's time was up yet */
    struct iwarp_conn *conn = host_request(host);
    assert_int_equal(iwarp_reject(conn, NULL, 0), IWARP_OK);
    raw_hear(good, NULL, "4d504120494420526570204672616d65 60010000", "the Reply");
    raw_expect_fin(good, "behind the Reply");
    raw_close(good);
    assert_int_equal(iwarp_conn_destroy(conn), IWARP_OK);
    for (int i = 0; i < CROWD; i++) {
        raw_expect_fin(fd[i], "a peer that said nothing");
        raw_close(fd[i]);
    }
    host_no_event(host, 0);
    all_gone();
    one_good_session();
}

/* Their places are free as soon as they go. */
static void half_open__a_crowd_says_nothing_and_goes__lets_the_next_in_at_once(void **state)
{
    int fd[CROWD];

    (void)state;
    for (int i = 0; i < CROWD; i++) {
        fd[i] = raw_connect(&host->addr);
    }
    for (int i = 0; i < CROWD; i++) {
        if (i & 1) {
            raw_reset(fd[i]);
        } else {
            raw_close(fd[i]);
        }
    }
    one_good_session();
    all_gone();
    host_no_event(host, 0);
}

/* --- storm ----------------------------------------------------------------------------------- */

static void storm__connections_that_come_and_go__leave_nothing_behind(void **state)
{
    static const char *const says[] = {"", "4d", REQUEST, "474554202f0d0a", REQUEST "40030000"};
    struct chance chance = {chance_seed()};

    (void)state;
    for (int i = 0; i < 1500; i++) {
        int fd = raw_connect(&host->addr);
        raw_say(fd, NULL, says[chance_below(&chance, 5)]);
        if (chance_one_in(&chance, 2)) {
            raw_reset(fd);
        } else {
            raw_close(fd);
        }
        if (i % 100 == 0) {
            host_check_quiet(host);
        }
    }
    host_no_event(host, 0);
    one_good_session();
    all_gone();
}

/* Valid Requests of peers that do not wait: each is an event, each answer is harmless. */
static void storm__requests_of_peers_that_are_gone__can_all_be_answered(void **state)
{
    struct iwarp_conn *waits = NULL;
    struct iwarp_event e;
    unsigned requests = 0;
    size_t len;

    (void)state;
    for (int i = 0; i < 300; i++) {
        int fd = raw_connect(&host->addr);
        raw_say(fd, NULL, REQUEST "40010000");
        if (i & 1) {
            raw_reset(fd);
        } else {
            raw_close(fd);
        }
    }
    /* Behind all of them one that waits: when it was taken, so were the others. */
    int last = raw_connect(&host->addr);
    raw_say(last, NULL, REQUEST "40010001 6c");
    int64_t begun = now_ms();
    while (!waits || connections() != QUIET + 1) {
        assert_true(now_ms() - begun < RAW_PATIENCE_MS);
        if (iwarp_eq_get(host->eq, &e, 50) != IWARP_OK) {
            continue;
        }
        assert_int_equal(e.type, IWARP_EVENT_REQUEST);
        (void)iwarp_conn_private_data(e.conn, &len);
        if (len == 1) {
            waits = e.conn;
            continue;
        }
        requests++;
        if (requests & 1) {
            (void)iwarp_reject(e.conn, "no", 2);
        }
        assert_int_equal(iwarp_conn_destroy(e.conn), IWARP_OK);
    }
    assert_int_equal(iwarp_conn_destroy(waits), IWARP_OK);
    raw_close(last);
    /* Most have gone before the application looks: nothing is left of them. */
    assert_true(requests <= 300);
    host_check_quiet(host);
    all_gone();
    one_good_session();
}

/* Silent, half a Request, a whole one, something else; all gone before anybody looks at them. */
static void small_storm(const struct octets *says, unsigned kinds)
{
    for (unsigned i = 0; i < 3 * kinds; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        /* Without memory for a connection lwIP resets it; it has none for a moment here. */
        if (connect(fd, (const struct sockaddr *)&host->addr, sizeof host->addr) != 0) {
            assert_true(errno == ECONNRESET || errno == ECONNREFUSED);
        }
        (void)!send(fd, says[i % kinds].p, says[i % kinds].n, MSG_NOSIGNAL);
        if (i & 1) {
            raw_reset(fd);
        } else {
            raw_close(fd);
        }
    }
}

/* Each allocation of it in turn; to be told from one that never came, beyond the last that did. */
static void storm__any_allocation_fails__costs_nobody_else(void **state)
{
    struct octets says[4] = {{0}};
    unsigned last = 0;

    (void)state;
    raw_text(&says[1], NULL, REQUEST);
    raw_text(&says[2], NULL, REQUEST "40010003 616263");
    raw_text(&says[3], NULL, "474554202f0d0a");
    for (unsigned n = 1; n < last + 20 && n < 400; n++) {
        alloc_fault_anywhere_at(n);
        small_storm(says, 4);
        progress_sleep(3000);
        all_gone();
        last = alloc_fault_anywhere_count() >= n ? n : last;
        alloc_fault_anywhere_at(0);
        host_check_quiet(host);
        if (n % 16 == 0) {
            host_no_event(host, 0);
            one_good_session();
        }
    }
    print_message("# %u allocations\n", last);
    assert_in_range(last, 20, 399);
    one_good_session();
    all_gone();
    for (unsigned i = 0; i < 4; i++) {
        octets_free(&says[i]);
    }
}

/* --- more than allowed ----------------------------------------------------------------------- */

static void limit__more_connections_than_allowed__are_refused_until_others_go(void **state)
{
    int fd[ALLOWED - QUIET], more[10];
    struct iwarp_conn *waits[ALLOWED - QUIET];
    struct iwarp_conn *conn = NULL;

    (void)state;
    for (int i = 0; i < ALLOWED - QUIET; i++) { /* they wait for an answer */
        fd[i] = raw_connect(&host->addr);
        raw_say(fd[i], NULL, REQUEST "40010000");
        waits[i] = host_request(host);
    }
    assert_int_equal(connections(), ALLOWED);
    for (int i = 0; i < 10; i++) {
        more[i] = raw_connect(&host->addr);
        raw_end(more[i], "one too many");
        raw_close(more[i]);
        assert_int_equal(connections(), ALLOWED);
    }
    host_check_quiet(host);
    /* The active side counts too. */
    host_options(host);
    host_qp(host, 0);
    assert_int_equal(iwarp_connect(host->qp, (const struct sockaddr *)&host->addr,
                                   sizeof host->addr, NULL, NULL, 0, host->eq, NULL, &conn),
                     IWARP_LIMIT);
    assert_null(conn);
    assert_non_null(strstr(iwarp_last_error(), "max_connections"));
    assert_int_equal(iwarp_qp_destroy(host->qp), IWARP_OK);
    host->qp = NULL;
    for (int i = 0; i < ALLOWED - QUIET; i++) {
        raw_close(fd[i]);
        assert_int_equal(iwarp_conn_destroy(waits[i]), IWARP_OK);
    }
    all_gone();
    host_no_event(host, 0);
    one_good_session();
}

/* Nobody waits for a crowd when the listener closes. */
static void listener_close__with_a_crowd_in_all_states__ends_them(void **state)
{
    struct tcp_host *h = host;
    int fd[30];

    (void)state;
    for (int i = 0; i < 30; i++) {
        fd[i] = raw_connect(&h->addr);
        raw_say(fd[i], NULL, i % 3 == 0 ? "" : i % 3 == 1 ? "4d50" : REQUEST "40010000");
    }
    /* All are let in, and the Requests of ten have been read. */
    for (int i = 0; connections() != QUIET + 30 || atomic_load(&h->device->startups.count) != 20;
         i++) {
        assert_true(i < RAW_PATIENCE_MS);
        progress_sleep(1000);
    }
    assert_int_equal(iwarp_listener_close(h->listener), IWARP_OK);
    for (int i = 0; i < 30; i++) {
        if (i % 3 == 2) {
            raw_hear(fd[i], NULL, "4d504120494420526570204672616d65 60010000", "a rejection");
        }
        raw_end(fd[i], "a connection of a listener that is closed");
        raw_close(fd[i]);
    }
    host_no_event(h, 0);
    all_gone();
    host_check_quiet(h);
    assert_int_equal(iwarp_listen(h->device, (const struct sockaddr *)&h->addr, sizeof h->addr,
                                  NULL, 16, h->eq, h, &h->listener),
                     IWARP_OK);
    one_good_session();
}

int main(void)
{
    const struct CMUnitTest half_open[] = {
        cmocka_unit_test(half_open__a_crowd_says_nothing__is_ended_oldest_first),
        cmocka_unit_test(half_open__a_crowd_says_nothing_and_goes__lets_the_next_in_at_once),
        cmocka_unit_test(storm__connections_that_come_and_go__leave_nothing_behind),
        cmocka_unit_test(storm__requests_of_peers_that_are_gone__can_all_be_answered),
        cmocka_unit_test(storm__any_allocation_fails__costs_nobody_else),
    };
    const struct CMUnitTest allowed[] = {
        cmocka_unit_test(limit__more_connections_than_allowed__are_refused_until_others_go),
        cmocka_unit_test(listener_close__with_a_crowd_in_all_states__ends_them),
    };
    return cmocka_run_group_tests_name("hostile_half_open", half_open, setup_half_open, teardown) +
           cmocka_run_group_tests_name("hostile_limit", allowed, setup_allowed, teardown);
}
