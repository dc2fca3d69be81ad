/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many threads at the same ids and queue pairs: two serve one channel, and may destroy an id while
 * the other one still returns from the call that accepted it; two connect and end; two others ask
 * and change what these have, at random. Nothing is expected of a call but that it returns. For the
 * sanitizers.
 */
#include "ends.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

enum { SERVERS = 2, CLIENTS = 2, OTHERS = 2, SECONDS = 2 };

static _Atomic bool stop, served;
static _Atomic unsigned requests, established, calls;
static _Atomic unsigned served_ids; /* of requests, not destroyed yet */
static struct end server;

static unsigned below(unsigned *seed, unsigned n)
{
    return (unsigned)rand_r(seed) % n;
}

/* NULL: none within some milliseconds. */
static struct rdma_cm_event *next_event(struct rdma_event_channel *channel, int ms)
{
    struct pollfd p = {.fd = channel->fd, .events = POLLIN};
    struct rdma_cm_event *event = NULL;

    return poll(&p, 1, ms) > 0 && rdma_get_cm_event(channel, &event) == 0 ? event : NULL;
}

static void leave(struct rdma_cm_id *id)
{
    if (id->qp) {
        rdma_destroy_qp(id);
    }
    ok(rdma_destroy_id(id));
}

/* --- serving --------------------------------------------------------------------------------- */

static void answer(struct rdma_cm_id *id, unsigned *seed)
{
    struct rdma_conn_param param = {.responder_resources = 4};
    struct ibv_qp_init_attr attr = qp_attr();

    if (below(seed, 8) == 0) {
        (void)rdma_reject(id, NULL, 0);
        leave(id);
    } else if (rdma_create_qp(id, NULL, &attr) != 0 || rdma_accept(id, &param) != 0) {
        leave(id); /* the client has gone; after success it may be the other thread's already */
    } else {
        return;
    }
    atomic_fetch_sub(&served_ids, 1);
}

/* The channel does not block: the other thread may take the event that both were told of. */
static void *serve(void *number)
{
    unsigned seed = (unsigned)(uintptr_t)number;

    while (!atomic_load(&served)) {
        struct rdma_cm_event *event = next_event(server.channel, 20);
        if (!event) {
            continue;
        }
        struct rdma_cm_id *id = event->id;
        const enum rdma_cm_event_type type = event->event;
        ok(rdma_ack_cm_event(event));
        if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
            atomic_fetch_add(&requests, 1);
            atomic_fetch_add(&served_ids, 1);
            answer(id, &seed);
        } else if (type != RDMA_CM_EVENT_ESTABLISHED) {
            leave(id);
            atomic_fetch_sub(&served_ids, 1);
        }
    }
    return NULL;
}

/* --- connecting ------------------------------------------------------------------------------ */

static struct client {
    pthread_t thread;
    pthread_rwlock_t lock; /* others use the id under it */
    struct rdma_cm_id *id;
} clients[CLIENTS];

static void show(struct client *c, struct rdma_cm_id *id)
{
    ok(pthread_rwlock_wrlock(&c->lock));
    c->id = id;
    ok(pthread_rwlock_unlock(&c->lock));
}

static void await(struct rdma_event_channel *channel, unsigned *seed)
{
    for (bool over = false; !over;) {
        struct rdma_cm_event *event = next_event(channel, 20);
        over = !event || event->event != RDMA_CM_EVENT_ESTABLISHED || below(seed, 4) == 0;
        if (event) {
            established += event->event == RDMA_CM_EVENT_ESTABLISHED;
            ok(rdma_ack_cm_event(event));
        }
    }
}

static void *connect_and_end(void *client)
{
    struct rdma_conn_param param = {.responder_resources = 5, .initiator_depth = 6};
    struct client *c = client;
    unsigned seed = 77u + (unsigned)(c - clients);

    while (!atomic_load(&stop)) {
        struct end e;
        open_end(&e);
        prepare_client(&e, AF_INET, rdma_get_src_port(server.listener));
        show(c, e.id);
        if (rdma_connect(e.id, &param) == 0) { /* else its queue pair is in ERR */
            await(e.channel, &seed);
        }
        if (below(&seed, 2)) {
            (void)rdma_disconnect(e.id);
        }
        show(c, NULL);
        leave(e.id);
        rdma_destroy_event_channel(e.channel);
    }
    return NULL;
}

/* --- what others do meanwhile ---------------------------------------------------------------- */

static void call_any(struct rdma_cm_id *id, unsigned *seed)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    struct ibv_qp_init_attr init;
    struct ibv_recv_wr receive = {.wr_id = 1}, *bad_receive;
    struct ibv_send_wr send = {.wr_id = 2, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
                       *bad_send;
    struct ibv_wc wc;

    switch (below(seed, 9)) {
    case 0:
        (void)ibv_modify_qp(id->qp, &attr, IBV_QP_STATE);
        break;
    case 1:
        (void)ibv_modify_qp(id->qp, &attr, IBV_QP_ACCESS_FLAGS);
        break;
    case 2:
        (void)rdma_disconnect(id);
        break;
    case 3:
        (void)ibv_post_recv(id->qp, &receive, &bad_receive);
        break;
    case 4:
        (void)ibv_post_send(id->qp, &send, &bad_send);
        break;
    case 5:
        while (ibv_poll_cq(id->send_cq, 1, &wc) > 0 || ibv_poll_cq(id->recv_cq, 1, &wc) > 0) {
        }
        break;
    case 6:
        (void)ibv_req_notify_cq(id->send_cq, 0);
        break;
    case 7:
        (void)rdma_get_src_port(id);
        assert_int_equal(rdma_get_dst_port(id), rdma_get_src_port(server.listener));
        break;
    default:
        ok(ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init));
        break;
    }
}

static void *meddle(void *number)
{
    unsigned seed = 1000u + (unsigned)(uintptr_t)number;

    while (!atomic_load(&stop)) {
        struct client *c = &clients[below(&seed, CLIENTS)];
        ok(pthread_rwlock_rdlock(&c->lock));
        if (c->id) {
            call_any(c->id, &seed);
            atomic_fetch_add(&calls, 1);
        }
        ok(pthread_rwlock_unlock(&c->lock));
        if (below(&seed, 3) == 0) {
            usleep(below(&seed, 500));
        } else {
            sched_yield();
        }
    }
    return NULL;
}

/* The clients have gone. Until no id of theirs is left, and no further request comes. */
static void await_the_end_of_all(void)
{
    for (unsigned quiet = 0; quiet < 50; quiet++) {
        usleep(10000);
        quiet = atomic_load(&served_ids) > 0 ? 0 : quiet;
    }
}

static void calls__at_random_by_many_threads__leave_nothing_behind(void **state)
{
    pthread_t servers[SERVERS], others[OTHERS];

    (void)state;
    listen_at(&server, AF_INET);
    ok(fcntl(server.channel->fd, F_SETFL, O_NONBLOCK));
    for (uintptr_t i = 0; i < SERVERS; i++) {
        ok(pthread_create(&servers[i], NULL, serve, (void *)i));
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        ok(pthread_rwlock_init(&clients[i].lock, NULL));
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        ok(pthread_create(&clients[i].thread, NULL, connect_and_end, &clients[i]));
    }
    for (uintptr_t i = 0; i < OTHERS; i++) {
        ok(pthread_create(&others[i], NULL, meddle, (void *)i));
    }
    sleep(SECONDS);
    atomic_store(&stop, true);
    for (unsigned i = 0; i < OTHERS; i++) {
        ok(pthread_join(others[i], NULL));
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        ok(pthread_join(clients[i].thread, NULL));
    }
    await_the_end_of_all();
    atomic_store(&served, true);
    for (unsigned i = 0; i < SERVERS; i++) {
        ok(pthread_join(servers[i], NULL));
    }
    print_message("%u requests, %u established, %u calls beside them\n", atomic_load(&requests),
                  atomic_load(&established), atomic_load(&calls));
    assert_true(established > 0 && calls > 0);
    ok(rdma_destroy_id(server.listener));
    rdma_destroy_event_channel(server.channel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls__at_random_by_many_threads__leave_nothing_behind),
    };

    return cmocka_run_group_tests_name("test_cm_storm", tests, NULL, NULL);
}
