/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs on the drop-in libraries fork, with connections, channels and threads in the midst of
 * calls: whatever the child does with what it inherited returns, and says no where it cannot be
 * done; it takes nothing from its parent, whose connections go on; and it can have its own.
 */
#include "ends.h"

#include "../support/child.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

#define CHILD_LIMIT 20 /* seconds, then SIGALRM ends it */

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

/* In the child: 0, or the line that failed, which becomes its status. */
#define expect_that(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #condition, errno);              \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static pid_t fork_with_limit(void)
{
    (void)fflush(NULL);
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        for (int i = 1; i < 32; i++) {
            (void)signal(i, SIG_DFL);
        }
        alarm(CHILD_LIMIT);
    }
    return pid;
}

static void expect_exit(pid_t pid)
{
    int status = -1;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0) {
        fail_msg("child: %s %d", WIFSIGNALED(status) ? "signal" : "status",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
}

static struct end server, client;

static void end_both(void)
{
    ok(rdma_disconnect(client.id));
    expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    expect_ack(client.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    close_end(&client);
    close_end(&server);
}

/* --- what a child does with its parent's ----------------------------------------------------- */

static bool says_no(int result)
{
    return result == -1 && errno == EINVAL;
}

/* Every call that uses something; the parent's events are not taken. */
static void use_inherited(struct end *e)
{
    struct ibv_send_wr send = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
    struct ibv_recv_wr recv = {.wr_id = 1}, *bad_recv;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct ibv_qp_init_attr init = qp_attr();
    struct rdma_cm_event *event;
    struct rdma_cm_id *id;
    struct sockaddr_storage to;
    struct ibv_cq *cq;
    struct ibv_wc wc;
    void *context;

    address(&to, AF_INET, htons(9));
    expect_that(says_no(rdma_get_cm_event(e->channel, &event)));
    expect_that(says_no(rdma_create_id(e->channel, &id, NULL, RDMA_PS_TCP)));
    expect_that(says_no(rdma_resolve_addr(e->id, NULL, (struct sockaddr *)&to, 100)));
    expect_that(says_no(rdma_connect(e->id, NULL)));
    expect_that(says_no(rdma_accept(e->id, NULL)));
    expect_that(says_no(rdma_disconnect(e->id)));
    expect_that(says_no(rdma_migrate_id(e->id, NULL)));
    expect_that(says_no(rdma_create_qp(e->id, NULL, &init)));
    expect_that(ibv_get_cq_event(e->id->recv_cq_channel, &cq, &context) == -1);
    expect_that(!ibv_create_cq(e->id->verbs, 4, NULL, e->id->recv_cq_channel, 0));
    expect_that(ibv_req_notify_cq(e->id->recv_cq, 0) != 0);
    expect_that(ibv_poll_cq(e->id->recv_cq, 1, &wc) <= 0);
    expect_that(ibv_post_send(e->id->qp, &send, &bad) != 0 && bad == &send);
    expect_that(ibv_post_recv(e->id->qp, &recv, &bad_recv) != 0 && bad_recv == &recv);
    (void)ibv_modify_qp(e->id->qp, &attr, IBV_QP_STATE);
    (void)ibv_query_qp(e->id->qp, &attr, IBV_QP_STATE, &init);
    expect_that(!ibv_reg_mr(e->id->pd, e->memory, LEN, 0));
    ibv_ack_cq_events(e->id->recv_cq, 1);
}

static void destroy_inherited(struct end *e)
{
    if (e->mr) {
        expect_that(ibv_dereg_mr(e->mr) == 0);
    }
    struct ibv_cq *cq[2] = {e->id->send_cq, e->id->recv_cq};
    struct ibv_comp_channel *c[2] = {e->id->send_cq_channel, e->id->recv_cq_channel};
    struct ibv_qp *qp = e->id->qp;
    rdma_destroy_qp(e->id);
    expect_that(ibv_destroy_qp(qp) == 0);
    for (int i = 0; i < 2; i++) {
        expect_that(ibv_destroy_cq(cq[i]) == 0);
        expect_that(ibv_destroy_comp_channel(c[i]) == 0);
    }
    expect_that(rdma_destroy_id(e->id) == 0);
    if (e->listener) {
        expect_that(rdma_destroy_id(e->listener) == 0);
    }
    rdma_destroy_event_channel(e->channel);
}

/* A connection of the child's own, with the context that it has inherited for all ids. */
static void have_ones_own(void)
{
    static struct end a, b;

    establish(&a, &b, AF_INET);
    transfer(&a, &b);
    transfer(&b, &a);
    ok(rdma_disconnect(b.id));
    expect_ack(a.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    expect_ack(b.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    close_end(&b);
    close_end(&a);
}

static void be_child(unsigned what)
{
    if (what == 1) {
        use_inherited(&server);
        use_inherited(&client);
    } else if (what == 2) {
        destroy_inherited(&server);
        destroy_inherited(&client);
    } else if (what == 3) {
        expect_that(ibv_fork_init() == 0);
        have_ones_own();
        use_inherited(&client);
        destroy_inherited(&client);
        have_ones_own();
    } else if (what == 4) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    } else if (what == 5 && !CHILD_SANITIZED) { /* which would miss the other threads' memory */
        exit(0);
    }
    _exit(0);
}

#define CHILDREN 6

/* An event of each kind waits in the parent: they are there still when the child is gone. */
static void child__with_events_of_its_parent__takes_none(void **state)
{
    struct sockaddr_storage to;
    struct rdma_cm_event *event;
    struct rdma_cm_id *id;
    struct ibv_cq *cq;
    struct ibv_wc wc;
    void *context;

    (void)state;
    for (unsigned i = 0; i < CHILDREN; i++) {
        establish(&server, &client, AF_INET);
        transfer(&server, &client);
        address(&to, AF_INET, htons(9));
        ok(rdma_create_id(client.channel, &id, NULL, RDMA_PS_TCP));
        ok(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
        ok(ibv_req_notify_cq(client.id->recv_cq, 0));
        ok(rdma_post_recv(client.id, NULL, client.memory, LEN, client.mr));
        ok(rdma_post_send(server.id, NULL, server.memory, 8, server.mr, IBV_SEND_SIGNALED));
        assert_int_equal(rdma_get_send_comp(server.id, &wc), 1);
        struct pollfd p = {.fd = client.id->recv_cq_channel->fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, WAIT_MS), 1);
        pid_t child = fork_with_limit();
        if (child == 0) {
            be_child(i);
        }
        expect_exit(child);
        assert_true(readable(client.channel->fd));
        ok(rdma_get_cm_event(client.channel, &event));
        assert_ptr_equal(event->id, id);
        ok(rdma_ack_cm_event(event));
        ok(rdma_destroy_id(id));
        assert_true(readable(p.fd));
        ok(ibv_get_cq_event(client.id->recv_cq_channel, &cq, &context));
        ibv_ack_cq_events(cq, 1);
        assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
        transfer(&client, &server);
        transfer(&server, &client);
        end_both();
    }
}

/* --- asynchronous events --------------------------------------------------------------------- */

/* Two receives are flushed into a queue of one entry. */
static void overflow(struct ibv_context *context, struct ibv_pd *pd)
{
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    struct ibv_recv_wr recv[2] = {{.wr_id = 1, .next = &recv[1]}, {.wr_id = 2}}, *bad;
    struct ibv_qp_init_attr attr = qp_attr();

    attr.send_cq = attr.recv_cq = ibv_create_cq(context, 1, NULL, NULL, 0);
    expect_that(attr.recv_cq);
    struct ibv_qp *qp = ibv_create_qp(pd, &attr);
    expect_that(qp);
    expect_that(ibv_post_recv(qp, recv, &bad) == 0);
    expect_that(ibv_modify_qp(qp, &error, IBV_QP_STATE) == 0);
}

static void child__with_asynchronous_events__has_them_alone(void **state)
{
    struct ibv_async_event event;

    (void)state;
    establish(&server, &client, AF_INET);
    struct ibv_context *context = client.id->verbs;
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *opened = ibv_open_device(list[0]);
    assert_non_null(opened);
    overflow(context, client.id->pd);
    pid_t child = fork_with_limit();
    if (child == 0) {
        static struct end own;
        expect_that(!readable(context->async_fd)); /* it is the parent's event */
        open_end(&own);
        prepare_client(&own, AF_INET, htons(9));
        expect_that(own.id->verbs == context);
        overflow(context, own.id->pd);
        overflow(opened, ibv_alloc_pd(opened));
        for (int i = 0; i < 2; i++) {
            struct ibv_context *of = i ? opened : context;
            expect_that(readable(of->async_fd));
            expect_that(ibv_get_async_event(of, &event) == 0);
            expect_that(event.event_type == IBV_EVENT_CQ_ERR);
            expect_that(event.element.cq->context == of);
            ibv_ack_async_event(&event);
            expect_that(!readable(of->async_fd));
        }
        _exit(0);
    }
    expect_exit(child);
    assert_true(readable(context->async_fd));
    ok(ibv_get_async_event(context, &event));
    assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
    ibv_ack_async_event(&event);
    assert_false(readable(context->async_fd));
    assert_false(readable(opened->async_fd));
    ibv_free_device_list(list);
    end_both();
}

/* --- locks ----------------------------------------------------------------------------------- */

static pthread_barrier_t barrier;

/* As if in the midst of the calls that take them: those that a fork may find taken. */
static void *hold_locks(void *arg)
{
    struct ibv_qp_ex *ex = arg;

    pthread_mutex_lock(&client.id->verbs->mutex);
    pthread_mutex_lock(&client.id->recv_cq->mutex);
    pthread_mutex_lock(&client.id->qp->mutex);
    ibv_wr_start(ex);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    ibv_wr_abort(ex);
    pthread_mutex_unlock(&client.id->qp->mutex);
    pthread_mutex_unlock(&client.id->recv_cq->mutex);
    pthread_mutex_unlock(&client.id->verbs->mutex);
    return NULL;
}

static void child__of_a_parent_with_locks_taken__waits_for_none(void **state)
{
    struct ibv_qp_init_attr_ex attr = {
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags = IBV_QP_EX_WITH_SEND};
    pthread_t thread;

    (void)state;
    establish(&server, &client, AF_INET);
    attr.send_cq = attr.recv_cq = client.id->recv_cq;
    attr.pd = client.id->pd;
    struct ibv_qp *extended = ibv_create_qp_ex(client.id->verbs, &attr);
    assert_non_null(extended);
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(extended);
    ok(pthread_barrier_init(&barrier, NULL, 2));
    ok(pthread_create(&thread, NULL, hold_locks, ex));
    pthread_barrier_wait(&barrier);
    pid_t child = fork_with_limit();
    if (child == 0) {
        struct ibv_async_event event = {.event_type = IBV_EVENT_QP_FATAL};
        use_inherited(&client);
        event.element.qp = client.id->qp;
        ibv_ack_async_event(&event);
        ibv_wr_start(ex);
        ibv_wr_send(ex);
        expect_that(ibv_wr_complete(ex) != 0);
        ibv_wr_start(ex);
        ibv_wr_abort(ex);
        expect_that(ibv_destroy_qp(extended) == 0);
        destroy_inherited(&client);
        have_ones_own();
        _exit(0);
    }
    expect_exit(child);
    pthread_barrier_wait(&barrier);
    ok(pthread_join(thread, NULL));
    ok(ibv_destroy_qp(extended));
    transfer(&client, &server);
    end_both();
}

/* --- at random moments ----------------------------------------------------------------------- */

static atomic_bool over;
static _Atomic unsigned rounds[4];

/* Each thread is in another group of calls all the time. */
static void *transfer_all_the_time(void *arg)
{
    (void)arg;
    while (!atomic_load(&over)) {
        transfer(&client, &server);
        transfer(&server, &client);
        atomic_fetch_add(&rounds[0], 1);
    }
    return NULL;
}

static void *resolve_all_the_time(void *arg)
{
    struct rdma_event_channel *channel;
    struct sockaddr_storage to;
    struct rdma_cm_id *id;

    (void)arg;
    address(&to, AF_INET, htons(9));
    while (!atomic_load(&over)) {
        channel = rdma_create_event_channel();
        assert_non_null(channel);
        ok(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
        ok(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
        expect_ack(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
        ok(rdma_destroy_id(id));
        rdma_destroy_event_channel(channel);
        atomic_fetch_add(&rounds[1], 1);
    }
    return NULL;
}

static void *connect_all_the_time(void *arg)
{
    static struct end a, b;

    (void)arg;
    while (!atomic_load(&over)) {
        establish(&a, &b, AF_INET);
        ok(rdma_disconnect(b.id));
        expect_ack(a.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
        expect_ack(b.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
        close_end(&b);
        close_end(&a);
        atomic_fetch_add(&rounds[2], 1);
    }
    return NULL;
}

static void *create_all_the_time(void *arg)
{
    struct ibv_context *context = client.id->verbs;

    (void)arg;
    while (!atomic_load(&over)) {
        struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
        assert_non_null(channel);
        struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, channel, 0);
        assert_non_null(cq);
        struct ibv_mr *mr = ibv_reg_mr(client.id->pd, &barrier, 8, 0);
        assert_non_null(mr);
        ok(ibv_req_notify_cq(cq, 0));
        ok(ibv_dereg_mr(mr));
        ok(ibv_destroy_cq(cq));
        ok(ibv_destroy_comp_channel(channel));
        atomic_fetch_add(&rounds[3], 1);
    }
    return NULL;
}

static void forks__at_random_moments__do_no_harm_and_none_hangs(void **state)
{
    static void *(*const fns[])(void *) = {transfer_all_the_time, resolve_all_the_time,
                                           connect_all_the_time, create_all_the_time};
    const char *seed = getenv("SEED");
    unsigned chance = seed ? (unsigned)strtoul(seed, NULL, 0) : (unsigned)getpid();
    pthread_t thread[4];

    (void)state;
    if (CHILD_SANITIZED) { /* whose allocator's locks stay taken in the child */
        return;
    }
    print_message("# SEED=%u\n", chance);
    establish(&server, &client, AF_INET);
    transfer(&server, &client);
    atomic_store(&over, false);
    for (int i = 0; i < 4; i++) {
        ok(pthread_create(&thread[i], NULL, fns[i], NULL));
    }
    for (unsigned i = 0; i < 60; i++) {
        usleep((useconds_t)(rand_r(&chance) % 8000));
        pid_t child = fork_with_limit();
        if (child == 0) {
            be_child(i % CHILDREN);
        }
        expect_exit(child);
    }
    atomic_store(&over, true);
    for (int i = 0; i < 4; i++) {
        ok(pthread_join(thread[i], NULL));
        assert_true(atomic_load(&rounds[i]) > 0);
    }
    print_message("# rounds: %u %u %u %u\n", rounds[0], rounds[1], rounds[2], rounds[3]);
    end_both();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(child__with_events_of_its_parent__takes_none),
        cmocka_unit_test(child__with_asynchronous_events__has_them_alone),
        cmocka_unit_test(child__of_a_parent_with_locks_taken__waits_for_none),
        cmocka_unit_test(forks__at_random_moments__do_no_harm_and_none_hangs),
    };

    if (CHILD_SANITIZED == 2) {
        puts("ThreadSanitizer does not know children that start threads");
        return 77;
    }
    alarm(CHILD_SECONDS);
    return cmocka_run_group_tests_name("test_cm_fork", tests, NULL, NULL);
}
