/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads of programs on the drop-in libraries are cancelled (deferred) in whatever call they are
 * in: a call that waits for events ends and loses none, every other call finishes first. Afterwards
 * no lock is held, no descriptor is left and connections work.
 */
#include "ends.h"

#include "../support/child.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <time.h>

#if CHILD_SANITIZED == 1 /* it takes an unwound stack for a bad one */
int main(void)
{
    puts("AddressSanitizer takes the stack of a cancelled thread for a bad one");
    return 77;
}
#else

/* What a thread does first: from here on the next cancellation point ends it. */
static void be_cancelled(void)
{
    ok(pthread_cancel(pthread_self()));
}

static bool was_cancelled(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    void *result = NULL;

    ok(pthread_create(&thread, NULL, fn, arg));
    ok(pthread_join(thread, &result));
    return result == PTHREAD_CANCELED;
}

static unsigned descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned n = 0;

    assert_non_null(dir);
    while (readdir(dir)) {
        n++;
    }
    closedir(dir);
    return n;
}

/* Sockets are closed in the background: as many as there are when no more go. */
static unsigned descriptors_left(void)
{
    unsigned n = descriptors(), same = 0;

    while (same < 10) {
        usleep(10000);
        unsigned now = descriptors();
        same = now == n ? same + 1 : 0;
        n = now;
    }
    return n;
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

/* --- calls that do not wait ------------------------------------------------------------------ */

static const char *_Atomic at; /* the call that a thread is in, with its cancellation pending */

#define step(call)                                                                                 \
    do {                                                                                           \
        atomic_store(&at, #call);                                                                  \
        ok_at((call), #call, __LINE__);                                                            \
    } while (0)
#define make(pointer, call)                                                                        \
    do {                                                                                           \
        atomic_store(&at, #call);                                                                  \
        (pointer) = (call);                                                                        \
        assert_non_null(pointer);                                                                  \
    } while (0)
#define done(call)                                                                                 \
    do {                                                                                           \
        atomic_store(&at, #call);                                                                  \
        call;                                                                                      \
    } while (0)

/* The test's own wait, which is not to be cancelled. */
static struct rdma_cm_event *take(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
    int before, unused;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    struct rdma_cm_event *event = expect(channel, type, 0);
    pthread_setcancelstate(before, &unused);
    return event;
}

static void take_ack(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
    step(rdma_ack_cm_event(take(channel, type)));
}

static void *verbs_of_a_program(void *arg)
{
    struct ibv_device **list;
    struct ibv_context *context;
    struct ibv_comp_channel *channel;
    struct ibv_pd *pd;
    struct ibv_mr *mr;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    struct ibv_mw *mw;
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    union ibv_gid gid;
    struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq_attr limit = {.srq_limit = 1};
    struct ibv_qp_attr state = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    struct ibv_qp_init_attr attr = qp_attr();
    struct ibv_recv_wr recv = {.wr_id = 1}, *bad;
    struct ibv_wc wc;
    static char memory[64];
    int n;

    (void)arg;
    be_cancelled();
    make(list, ibv_get_device_list(&n));
    make(context, ibv_open_device(list[0]));
    done(ibv_free_device_list(list));
    step(ibv_query_device(context, &device));
    step(ibv_query_port(context, 1, &port));
    step(ibv_query_gid(context, 1, 0, &gid));
    make(channel, ibv_create_comp_channel(context));
    make(pd, ibv_alloc_pd(context));
    make(mr, ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE));
    make(mw, ibv_alloc_mw(pd, IBV_MW_TYPE_2));
    make(cq, ibv_create_cq(context, 1, NULL, channel, 0));
    step(ibv_resize_cq(cq, 16));
    make(srq, ibv_create_srq(pd, &srq_attr));
    step(ibv_post_srq_recv(srq, &recv, &bad));
    step(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
    step(ibv_query_srq(srq, &limit));
    attr.send_cq = attr.recv_cq = cq;
    make(qp, ibv_create_qp(pd, &attr));
    step(ibv_modify_qp(qp, &state, IBV_QP_STATE | IBV_QP_PORT));
    step(ibv_query_qp(qp, &state, IBV_QP_STATE, &attr));
    step(ibv_req_notify_cq(cq, 0));
    step(ibv_post_recv(qp, &recv, &bad));
    state.qp_state = IBV_QPS_ERR;
    step(ibv_modify_qp(qp, &state, IBV_QP_STATE)); /* the receive is flushed, and an event comes */
    done(n = ibv_poll_cq(cq, 1, &wc));
    assert_int_equal(n, 1);
    assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(channel->refcnt, 1);
    step(ibv_destroy_qp(qp));
    step(ibv_destroy_srq(srq));
    step(ibv_destroy_cq(cq)); /* with its event, which nobody has taken */
    step(ibv_dealloc_mw(mw));
    step(ibv_dereg_mr(mr));
    step(ibv_dealloc_pd(pd));
    step(ibv_destroy_comp_channel(channel));
    step(ibv_close_device(context));
    return NULL;
}

static void *connections_of_a_program(void *arg)
{
    struct rdma_event_channel *c, *other;
    struct rdma_cm_id *listener, *client, *server, *unwanted;
    struct rdma_cm_event *event;
    struct ibv_qp_init_attr attr;
    struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
    struct sockaddr_storage to;
    struct ibv_context **list;
    uint8_t tos = 8;
    int n;

    (void)arg;
    be_cancelled();
    make(list, rdma_get_devices(&n));
    done(rdma_free_devices(list));
    make(c, rdma_create_event_channel());
    make(other, rdma_create_event_channel());
    step(rdma_create_id(c, &listener, NULL, RDMA_PS_TCP));
    address(&to, AF_INET, 0);
    step(rdma_bind_addr(listener, (struct sockaddr *)&to));
    step(rdma_listen(listener, 1));
    address(&to, AF_INET, rdma_get_src_port(listener));
    for (unsigned i = 0; i < 2; i++) { /* accepted, rejected */
        step(rdma_create_id(c, &client, NULL, RDMA_PS_TCP));
        step(rdma_set_option(client, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1));
        step(rdma_resolve_addr(client, NULL, (struct sockaddr *)&to, 1000));
        step(rdma_migrate_id(client, other)); /* with its event */
        take_ack(other, RDMA_CM_EVENT_ADDR_RESOLVED);
        step(rdma_resolve_route(client, 1000));
        take_ack(other, RDMA_CM_EVENT_ROUTE_RESOLVED);
        attr = qp_attr();
        step(rdma_create_qp(client, NULL, &attr));
        step(rdma_connect(client, &param));
        event = take(c, RDMA_CM_EVENT_CONNECT_REQUEST);
        server = event->id;
        step(rdma_ack_cm_event(event));
        if (i == 0) {
            attr = qp_attr();
            step(rdma_create_qp(server, NULL, &attr));
            step(rdma_accept(server, &param));
            take_ack(c, RDMA_CM_EVENT_ESTABLISHED);
            take_ack(other, RDMA_CM_EVENT_ESTABLISHED);
            step(rdma_disconnect(client));
            take_ack(c, RDMA_CM_EVENT_DISCONNECTED);
            done(rdma_destroy_qp(server));
        } else {
            step(rdma_reject(server, NULL, 0));
        }
        step(rdma_destroy_id(server));
        done(rdma_destroy_qp(client));
        step(rdma_destroy_id(client)); /* its last event waits */
    }
    /* A request that nobody has looked at goes with its listener. */
    step(rdma_create_id(c, &unwanted, NULL, RDMA_PS_TCP));
    step(rdma_bind_addr(unwanted, rdma_get_local_addr(listener)) == -1 ? 0 : 1);
    step(rdma_destroy_id(unwanted));
    step(rdma_destroy_id(listener));
    done(rdma_destroy_event_channel(other));
    done(rdma_destroy_event_channel(c));
    return NULL;
}

/* Ids and endpoints whose calls wait, where nothing remains to be waited for. */
/* An endpoint, with attributes that no other one has filled in. */
static int create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *info)
{
    struct ibv_qp_init_attr attr = qp_attr();

    return rdma_create_ep(id, info, NULL, &attr);
}

static void *endpoints_of_a_program(void *arg)
{
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = RAI_PASSIVE}, *info;
    struct rdma_cm_id *id;

    (void)arg;
    be_cancelled();
    step(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
    step(rdma_destroy_id(id));
    step(rdma_getaddrinfo("127.0.0.1", "0", &hints, &info));
    step(create_ep(&id, info));
    step(rdma_listen(id, 1));
    done(rdma_destroy_ep(id));
    done(rdma_freeaddrinfo(info));
    hints.ai_flags = 0;
    step(rdma_getaddrinfo("127.0.0.1", "9", &hints, &info));
    step(create_ep(&id, info)); /* which waits in it for what is there */
    done(rdma_destroy_ep(id));
    info->ai_flags = RAI_PASSIVE; /* and no address to listen on */
    step(create_ep(&id, info) == -1 ? 0 : 1);
    done(rdma_freeaddrinfo(info));
    return NULL;
}

static void cancel__in_a_call_that_does_not_wait__comes_after_it(void **state)
{
    static void *(*const programs[])(void *) = {verbs_of_a_program, connections_of_a_program,
                                                endpoints_of_a_program};
    unsigned before = 0;

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        before =
            i == 3 ? descriptors_left() : before; /* after the first time nothing more is made */
        if (was_cancelled(programs[i % 3], NULL)) {
            fail_msg("cancelled in %s", atomic_load(&at));
        }
    }
    assert_int_equal(descriptors_left(), before);
}

/* --- calls that wait ------------------------------------------------------------------------- */

static struct end server, client;

static void *wait_in_cm(void *arg)
{
    struct rdma_cm_event *event;

    if (arg) {
        be_cancelled();
    }
    (void)rdma_get_cm_event(client.channel, &event);
    return event;
}

static void *wait_in_cq(void *arg)
{
    struct ibv_cq *cq;
    void *context;

    if (arg) {
        be_cancelled();
    }
    ok(ibv_get_cq_event(client.id->recv_cq_channel, &cq, &context));
    return cq;
}

static struct ibv_context *async_context;

static void *wait_in_async(void *arg)
{
    static struct ibv_async_event event;

    if (arg) {
        be_cancelled();
    }
    ok(ibv_get_async_event(async_context, &event));
    return &event;
}

static void end_both(void)
{
    ok(rdma_disconnect(client.id));
    expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    expect_ack(client.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    close_end(&client);
    close_end(&server);
}

static void cancel__in_a_wait__is_at_once_and_takes_no_event(void **state)
{
    (void)state;
    establish(&server, &client, AF_INET);
    async_context = client.id->verbs;
    assert_true(was_cancelled(wait_in_cm, &client));
    assert_true(was_cancelled(wait_in_cq, &client));
    assert_true(was_cancelled(wait_in_async, &client));
    transfer(&server, &client);
    transfer(&client, &server);
    end_both();
}

/* One more message for the client, whose completion is told to its channel. */
static void cause_cq_event(void)
{
    struct ibv_wc wc;

    ok(ibv_req_notify_cq(client.id->recv_cq, 0));
    ok(rdma_post_recv(client.id, NULL, client.memory, LEN, client.mr));
    ok(rdma_post_send(server.id, NULL, server.memory, 8, server.mr, IBV_SEND_SIGNALED));
    assert_int_equal(rdma_get_send_comp(server.id, &wc), 1);
}

static void take_completion(void)
{
    struct pollfd p = {.fd = client.id->recv_cq_channel->fd, .events = POLLIN};
    struct ibv_wc wc;
    struct ibv_cq *cq;
    void *context;

    if (poll(&p, 1, 20000) != 1) {
        fail_msg("the event of a completion was lost");
    }
    ok(ibv_get_cq_event(client.id->recv_cq_channel, &cq, &context));
    ibv_ack_cq_events(cq, 1);
    assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/* Cancelled while the event comes: the thread has it, or the next one will. */
static void cancel__while_an_event_comes__does_not_lose_it(void **state)
{
    struct ibv_wc wc;
    pthread_t thread;
    void *result;
    unsigned taken = 0;

    (void)state;
    establish(&server, &client, AF_INET);
    transfer(&server, &client);
    for (unsigned i = 0; i < 400; i++) {
        ok(pthread_create(&thread, NULL, wait_in_cq, NULL));
        usleep(i % 8 * 50);
        cause_cq_event();
        ok(pthread_cancel(thread));
        ok(pthread_join(thread, &result));
        if (result == PTHREAD_CANCELED) {
            take_completion();
        } else {
            ibv_ack_cq_events(client.id->recv_cq, 1);
            for (int k = 0; ibv_poll_cq(client.id->recv_cq, 1, &wc) == 0 && k < 20000; k++) {
                usleep(100);
            }
            taken++;
        }
        assert_false(readable(client.id->recv_cq_channel->fd));
    }
    print_message("# taken by the thread: %u of 400\n", taken);
    end_both();
}

/* The thread that causes the event cancels the reader at once. */
static void cancel__right_after_an_event__does_not_lose_it(void **state)
{
    struct rdma_cm_event *event;
    struct rdma_cm_id *id;
    struct sockaddr_storage to;
    pthread_t thread;
    void *result;

    (void)state;
    open_end(&client);
    address(&to, AF_INET, htons(9));
    for (unsigned i = 0; i < 400; i++) {
        ok(pthread_create(&thread, NULL, wait_in_cm, NULL));
        usleep(i % 8 * 50);
        ok(rdma_create_id(client.channel, &id, NULL, RDMA_PS_TCP));
        ok(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
        ok(pthread_cancel(thread));
        ok(pthread_join(thread, &result));
        if (result == PTHREAD_CANCELED) {
            if (!readable(client.channel->fd)) {
                fail_msg("the event of an id was lost, round %u", i);
            }
            ok(rdma_get_cm_event(client.channel, &event));
            ok(rdma_ack_cm_event(event));
        } else {
            ok(rdma_ack_cm_event(result));
        }
        assert_false(readable(client.channel->fd));
        ok(rdma_destroy_id(id));
    }
    close_end(&client);
}

/* --- ids whose calls wait -------------------------------------------------------------------- */

static struct rdma_cm_id *waiting; /* of the thread, to be ended by the test */

static void *connect_in_vain(void *arg)
{
    be_cancelled();
    return rdma_connect(waiting, NULL) == 0 ? waiting : arg;
}

static void *get_a_request(void *listener)
{
    struct rdma_cm_id *id = NULL;

    be_cancelled();
    ok(rdma_get_request(listener, &id));
    return id;
}

static void *disconnect_it(void *id)
{
    be_cancelled();
    return rdma_disconnect(id) == 0 ? id : NULL;
}

static void *accept_it(void *id)
{
    be_cancelled();
    return rdma_accept(id, NULL) == 0 ? id : NULL;
}

static void *connect_it(void *id)
{
    return rdma_connect(id, NULL) == 0 ? id : NULL;
}

/* Each call of an endpoint is cancelled where it waits; ended by the test, nothing is left. */
static void cancel__of_calls_that_wait__leaves_what_can_be_ended(void **state)
{
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = RAI_PASSIVE}, *info;
    struct rdma_cm_id *listener, *id;
    unsigned before = 0;
    char port[8];
    pthread_t thread;

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        before = i == 1 ? descriptors_left() : before;
        hints.ai_flags = RAI_PASSIVE;
        ok(rdma_getaddrinfo("127.0.0.1", "0", &hints, &info));
        ok(create_ep(&listener, info));
        ok(rdma_listen(listener, 4));
        rdma_freeaddrinfo(info);
        snprintf(port, sizeof port, "%u", ntohs(rdma_get_src_port(listener)));
        hints.ai_flags = 0;
        ok(rdma_getaddrinfo("127.0.0.1", port, &hints, &info));
        assert_true(was_cancelled(get_a_request, listener)); /* none is there */
        ok(create_ep(&waiting, info));
        assert_true(was_cancelled(connect_in_vain, NULL)); /* nobody answers it */
        assert_int_equal(
            poll(&(struct pollfd){.fd = listener->channel->fd, .events = POLLIN}, 1, WAIT_MS), 1);
        assert_true(was_cancelled(get_a_request, listener)); /* and one is */
        ok(rdma_get_request(listener, &id));
        rdma_destroy_ep(id);
        rdma_destroy_ep(waiting);
        ok(create_ep(&waiting, info));
        ok(pthread_create(&thread, NULL, connect_it, waiting));
        ok(rdma_get_request(listener, &id));
        assert_true(was_cancelled(accept_it, id));
        void *connected;
        ok(pthread_join(thread, &connected));
        assert_ptr_equal(connected, waiting);
        assert_true(was_cancelled(disconnect_it, waiting));
        rdma_destroy_ep(waiting);
        rdma_destroy_ep(id);
        rdma_destroy_ep(listener);
        rdma_freeaddrinfo(info);
    }
    assert_int_equal(descriptors_left(), before);
}

/* --- destroying what is not acknowledged ----------------------------------------------------- */

static void *destroy_cq(void *cq)
{
    be_cancelled();
    ok(ibv_destroy_cq(cq));
    return NULL;
}

static void *destroy_id(void *id)
{
    be_cancelled();
    ok(rdma_destroy_id(id));
    return NULL;
}

/* They wait for the acknowledgement with a lock, and finish although they are cancelled. */
static void cancel__in_a_destroy_that_waits__lets_it_finish(void **state)
{
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    struct ibv_recv_wr recv = {.wr_id = 1}, *bad;
    struct ibv_qp_init_attr attr = qp_attr();
    struct rdma_cm_event *event;
    struct sockaddr_storage to;
    struct ibv_cq *cq;
    pthread_t thread;
    void *result;

    (void)state;
    open_end(&client);
    ok(rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
    address(&to, AF_INET, htons(9));
    ok(rdma_resolve_addr(client.id, NULL, (struct sockaddr *)&to, 1000));
    ok(rdma_get_cm_event(client.channel, &event));
    struct ibv_comp_channel *channel = ibv_create_comp_channel(client.id->verbs);
    assert_non_null(channel);
    attr.send_cq = attr.recv_cq = ibv_create_cq(client.id->verbs, 4, NULL, channel, 0);
    assert_non_null(attr.recv_cq);
    struct ibv_qp *qp = ibv_create_qp(client.id->pd, &attr);
    assert_non_null(qp);
    ok(ibv_req_notify_cq(attr.recv_cq, 0));
    ok(ibv_post_recv(qp, &recv, &bad));
    ok(ibv_modify_qp(qp, &error, IBV_QP_STATE));
    ok(ibv_get_cq_event(channel, &cq, &result));
    ok(ibv_destroy_qp(qp));
    ok(pthread_create(&thread, NULL, destroy_cq, cq));
    usleep(50000);
    ibv_ack_cq_events(cq, 1);
    ok(pthread_join(thread, &result));
    assert_null(result);
    ok(ibv_destroy_comp_channel(channel));
    ok(pthread_create(&thread, NULL, destroy_id, client.id));
    usleep(50000);
    ok(rdma_ack_cm_event(event));
    ok(pthread_join(thread, &result));
    assert_null(result);
    client.id = NULL;
    close_end(&client);
}

/* --- signals --------------------------------------------------------------------------------- */

static _Atomic unsigned ticks;

static void tick(int signal)
{
    (void)signal;
    atomic_fetch_add(&ticks, 1);
}

static void life(void)
{
    establish(&server, &client, AF_INET);
    transfer(&server, &client);
    transfer(&client, &server);
    end_both();
}

/* A signal every 100 us: with SA_RESTART no call fails for it. */
static void signals__that_restart_calls__make_none_fail(void **state)
{
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART}, before;
    struct itimerspec often = {{0, 100000}, {0, 100000}};
    struct sigevent to = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    timer_t timer;

    (void)state;
    ok(sigaction(SIGALRM, &action, &before));
    ok(timer_create(CLOCK_MONOTONIC, &to, &timer));
    ok(timer_settime(timer, 0, &often, NULL));
    for (unsigned i = 0; i < 20; i++) {
        life();
    }
    ok(timer_delete(timer));
    ok(sigaction(SIGALRM, &before, NULL));
    assert_true(atomic_load(&ticks) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancel__in_a_call_that_does_not_wait__comes_after_it),
        cmocka_unit_test(cancel__in_a_wait__is_at_once_and_takes_no_event),
        cmocka_unit_test(cancel__while_an_event_comes__does_not_lose_it),
        cmocka_unit_test(cancel__right_after_an_event__does_not_lose_it),
        cmocka_unit_test(cancel__of_calls_that_wait__leaves_what_can_be_ended),
        cmocka_unit_test(cancel__in_a_destroy_that_waits__lets_it_finish),
        cmocka_unit_test(signals__that_restart_calls__make_none_fail),
    };

    alarm(CHILD_SECONDS); /* a lock that is left behind would be waited for without an end */
    return cmocka_run_group_tests_name("test_cm_cancel", tests, NULL, NULL);
}
#endif
