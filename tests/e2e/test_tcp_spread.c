/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections are spread over the workers of a device, at either side: each worker has its share,
 * and data flows over all of them at the same time.
 */
#include "progress.h"
#include "verbs/conn.h"
#include "verbs/device.h"
#include "verbs_pair.h"

#include <stdio.h>

#define CONNECTIONS 12
#define OCTETS      100000

/* One device for each side: side 0 connects. */
static struct pair end[2];
static struct pair_side side[2][CONNECTIONS];

static void open_end(int k, enum pair_transport transport, unsigned workers)
{
    struct pair_options o;

    pair_options_init(&o, transport);
    o.device.workers = workers;
    o.memory = OCTETS;
    pair_prepare(&end[k], &o);
    for (int i = 0; i < CONNECTIONS; i++) {
        pair_side_open(&side[k][i], end[k].device, &o);
    }
}

static void connect_all(void)
{
    struct sockaddr_storage addr;
    socklen_t len;

    must(iwarp_listener_addr(end[1].listener, &addr, &len));
    for (int i = 0; i < CONNECTIONS; i++) {
        must(iwarp_connect(side[0][i].qp, (const struct sockaddr *)&addr, len,
                           &end[0].options.conn[0], &i, sizeof i, NULL, NULL, &side[0][i].conn));
    }
    for (int n = 0; n < CONNECTIONS; n++) {
        struct iwarp_event e = pair_event(end[1].eq[1], IWARP_EVENT_REQUEST);
        int i;
        memcpy(&i, iwarp_conn_private_data(e.conn, &(size_t){0}), sizeof i);
        assert_in_range(i, 0, CONNECTIONS - 1);
        side[1][i].conn = e.conn;
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        must(iwarp_accept(side[1][i].conn, side[1][i].qp, NULL, NULL, 0, NULL));
    }
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < CONNECTIONS; i++) {
            must(iwarp_conn_wait(side[k][i].conn, PAIR_WAIT_MS));
        }
    }
}

/* How many connections each worker has: the same number. */
static void expect_shares(int k, unsigned workers)
{
    unsigned share[3] = {0};

    assert_int_equal(end[k].device->workers, workers);
    for (int i = 0; i < CONNECTIONS; i++) {
        size_t w = (size_t)(side[k][i].conn->worker - end[k].device->worker);
        assert_true(w < workers);
        share[w]++;
    }
    for (unsigned w = 0; w < workers; w++) {
        assert_int_equal(share[w], CONNECTIONS / workers);
    }
}

/* Both ways at the same time. */
static void transfer(void)
{
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < CONNECTIONS; i++) {
            pair_fill(side[k][i].p, OCTETS / 2, (uint64_t)(k * 100 + i));
            pair_recv(&side[k][i], 1, OCTETS / 2, OCTETS / 2);
        }
    }
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < CONNECTIONS; i++) {
            pair_send(&side[k][i], 2, 0, OCTETS / 2);
        }
    }
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < CONNECTIONS; i++) {
            pair_wc(side[k][i].recv_cq, 1, IWARP_WC_SUCCESS);
            pair_wc(side[k][i].send_cq, 2, IWARP_WC_SUCCESS);
            assert_memory_equal(side[k][i].p + OCTETS / 2, side[1 - k][i].p, OCTETS / 2);
        }
    }
}

static void connections__to_several_workers__have_equal_shares(void **state)
{
    (void)state;
    open_end(0, PAIR_MEMORY, 2);
    open_end(1, PAIR_TCP4, 3);
    connect_all();
    expect_shares(0, 2);
    expect_shares(1, 3);
    transfer();
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < CONNECTIONS; i++) {
            pair_side_close(&side[k][i]);
        }
        pair_close(&end[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections__to_several_workers__have_equal_shares),
    };

    if (progress_is_embedded()) {
        printf("one loop, one worker\n");
        return 77;
    }
    return cmocka_run_group_tests_name("tcp_spread", tests, NULL, NULL);
}
