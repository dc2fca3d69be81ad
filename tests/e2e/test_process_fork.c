/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process with connections forks: whatever the child does, the parent's connections are
 * unharmed, nothing of the child's reaches their peers, and the child can have a device of its own.
 * An end of the parent reaches its peers although a child lives.
 */
#include "child.h"
#include "raw_peer.h"
#include "verbs_pair.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void exchange(struct pair *p, uint64_t id)
{
    for (int i = 0; i < 2; i++) {
        pair_recv(&p->side[1 - i], id, 0, 32768);
        pair_fill(p->side[i].p + 32768, 32768, id);
        pair_send(&p->side[i], id, 32768, 32768);
        pair_wc(p->side[1 - i].recv_cq, id, IWARP_WC_SUCCESS);
        pair_wc(p->side[i].send_cq, id, IWARP_WC_SUCCESS);
        assert_memory_equal(p->side[1 - i].p, p->side[i].p + 32768, 32768);
    }
}

static void open_tcp(struct pair *p)
{
    struct pair_options o;

    pair_options_init(&o, PAIR_TCP4);
    o.device.progress = IWARP_PROGRESS_THREADED; /* whatever TEST_PROGRESS says */
    pair_open(p, &o);
    exchange(p, 1);
}

static int wait_for(pid_t pid)
{
    int status = -1;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* Orderly on both sides: nobody lost anything. */
static void close_in_order(struct pair *p)
{
    must(iwarp_disconnect(p->side[0].conn));
    for (int i = 0; i < 2; i++) {
        must(iwarp_conn_wait_end(p->side[i].conn, PAIR_WAIT_MS));
        assert_null(iwarp_conn_fault(p->side[i].conn));
    }
    pair_close(p);
}

/* ---- children that only go ------------------------------------------------------------------ */

enum way { BY_EXIT, BY__EXIT, BY_EXEC, BY_SIGNAL, WAYS };

static void go(enum way way)
{
    switch (way) {
    case BY_EXIT:
        exit(3);
    case BY__EXIT:
        _exit(3);
    case BY_EXEC:
        execl("/bin/sh", "sh", "-c", "exit 3", (char *)NULL);
        _exit(4);
    case BY_SIGNAL:
        raise(SIGKILL);
        _exit(4);
    case WAYS:
        break;
    }
    _exit(5);
}

static int parent_of_some(void *arg)
{
    struct pair p;

    (void)arg;
    open_tcp(&p);
    for (int i = 0; i < WAYS * 3; i++) {
        enum way way = (enum way)(i % WAYS);
        pair_recv(&p.side[1], 90, 0, 4096);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            go(way);
        }
        pair_send(&p.side[0], 91, 0, 4096); /* while it goes */
        assert_int_equal(wait_for(pid), way == BY_SIGNAL ? 1000 + SIGKILL : 3);
        pair_wc(p.side[0].send_cq, 91, IWARP_WC_SUCCESS);
        pair_wc(p.side[1].recv_cq, 90, IWARP_WC_SUCCESS);
        exchange(&p, 2);
    }
    close_in_order(&p);
    return 0;
}

static void fork__of_children_that_end__leaves_connections_alone(void **state)
{
    (void)state;
    assert_int_equal(child_run(parent_of_some, NULL), 0);
}

/* With traffic in all threads, so that locks are held at the moment of the fork. */
static atomic_bool stop;

static void *traffic(void *arg)
{
    struct pair *p = arg;

    for (uint64_t id = 10; !atomic_load(&stop); id++) {
        exchange(p, id);
    }
    return NULL;
}

static int parent_with_traffic(void *arg)
{
    struct pair p[2];
    pthread_t thread[2];

    (void)arg;
    for (int i = 0; i < 2; i++) {
        open_tcp(&p[i]);
        assert_int_equal(pthread_create(&thread[i], NULL, traffic, &p[i]), 0);
    }
    for (int i = 0; i < 15; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            struct iwarp_wc wc;
            enum iwarp_status status = iwarp_abort(p[0].side[0].conn);
            _exit(status == IWARP_MISUSE && iwarp_cq_wait(p[1].side[0].send_cq, &wc, 1, -1) <= 0
                      ? 0
                      : 1);
        }
        assert_int_equal(wait_for(pid), 0);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], NULL);
        exchange(&p[i], 5);
        close_in_order(&p[i]);
    }
    return 0;
}

static void fork__amid_traffic__leaves_connections_alone(void **state)
{
    (void)state;
    assert_int_equal(child_run(parent_with_traffic, NULL), 0);
}

/* ---- a child that uses what it inherited ----------------------------------------------------- */

#define refused(call) must_fail(call, IWARP_MISUSE, "process that forked")

static void use_connection(const struct pair *p)
{
    struct iwarp_conn *conn = p->side[0].conn;
    struct iwarp_conn_info info = {.size = sizeof info};
    struct sockaddr_storage addr;
    socklen_t addr_len;
    size_t len = 7;

    refused(iwarp_accept(conn, p->side[0].qp, NULL, NULL, 0, NULL));
    refused(iwarp_reject(conn, NULL, 0));
    refused(iwarp_conn_wait(conn, -1));
    refused(iwarp_conn_wait_end(conn, -1));
    refused(iwarp_disconnect(conn));
    refused(iwarp_abort(conn));
    refused(iwarp_conn_info(conn, &info));
    refused(iwarp_conn_peer_addr(conn, &addr, &addr_len));
    refused(iwarp_conn_local_addr(conn, &addr, &addr_len));
    assert_non_null(iwarp_conn_private_data(conn, &len));
    assert_int_equal(len, 0);
    assert_null(iwarp_conn_qp(conn));
    assert_null(iwarp_conn_fault(conn));
    refused(iwarp_conn_destroy(conn));
}

static void use_nothing(void *arg)
{
    (void)arg;
}

static void use_queues(const struct pair *p)
{
    const struct pair_side *s = &p->side[0];
    struct iwarp_sge sge = pair_sge(s, 0, 64);
    const struct iwarp_send_wr wr = pair_wr(IWARP_WR_SEND, 1, &sge);
    const struct iwarp_recv_wr recv = {.wr_id = 1, .sg_list = &sge, .num_sge = 1};
    struct iwarp_event event;
    struct iwarp_wc wc;
    struct iwarp_mr *mr;
    struct iwarp_cq *cq;
    struct iwarp_eq *eq;
    struct iwarp_pd *pd;
    struct iwarp_device_info info = {.size = sizeof info};

    const struct iwarp_async_event taken = {.qp = s->qp};

    refused(iwarp_device_query(p->device, &info));
    refused(iwarp_device_call(p->device, use_nothing, NULL));
    iwarp_async_ack(&taken);
    assert_non_null(strstr(iwarp_last_error(), "process that forked"));
    refused(iwarp_post_send(s->qp, &wr, NULL));
    refused(iwarp_post_recv(s->qp, &recv, NULL));
    refused((enum iwarp_status)iwarp_cq_wait(s->send_cq, &wc, 1, -1));
    refused(iwarp_cq_arm(s->send_cq, false));
    assert_int_equal(iwarp_cq_fd(s->recv_cq), -1);
    iwarp_cq_drain(s->send_cq);
    refused(iwarp_eq_get(p->eq[0], &event, -1));
    assert_null(iwarp_qp_fault(s->qp));
    refused(iwarp_mr_register(s->pd, s->p, 64, PAIR_ALL, &mr));
    refused(iwarp_cq_create(p->device, 1, NULL, &cq));
    refused(iwarp_eq_create(p->device, &eq));
    refused(iwarp_pd_create(p->device, &pd));
}

static void destroy_all(const struct pair *p)
{
    const struct pair_side *s = &p->side[0];

    refused(iwarp_qp_destroy(s->qp));
    refused(iwarp_mr_deregister(s->mr));
    refused(iwarp_cq_destroy(s->send_cq));
    refused(iwarp_pd_destroy(s->pd));
    refused(iwarp_listener_close(p->listener));
    refused(iwarp_eq_destroy(p->eq[0]));
    refused(iwarp_device_close(p->device));
}

static int parent_of_a_user(void *arg)
{
    struct pair p;

    (void)arg;
    open_tcp(&p);
    pair_recv(&p.side[1], 5, 0, 64);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        use_connection(&p);
        use_queues(&p);
        destroy_all(&p);
        exit(0);
    }
    assert_int_equal(wait_for(pid), 0);
    pair_no_wc(p.side[1].recv_cq); /* what the child posted went nowhere */
    pair_send(&p.side[0], 6, 0, 64);
    pair_wc(p.side[1].recv_cq, 5, IWARP_WC_SUCCESS);
    pair_wc(p.side[0].send_cq, 6, IWARP_WC_SUCCESS);
    exchange(&p, 7);
    close_in_order(&p);
    return 0;
}

static void fork__child_uses_handles__is_told(void **state)
{
    (void)state;
    assert_int_equal(child_run(parent_of_a_user, NULL), 0);
}

#if CHILD_SANITIZED != 2 /* TSan cannot start threads after such a fork */
static int parent_of_a_device(void *arg)
{
    struct pair p;

    (void)arg;
    open_tcp(&p);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct pair own;
        open_tcp(&own);
        exchange(&own, 3);
        close_in_order(&own);
        exit(0);
    }
    exchange(&p, 4);
    assert_int_equal(wait_for(pid), 0);
    exchange(&p, 5);
    close_in_order(&p);
    return 0;
}

static void fork__child_opens_a_device__works_in_both(void **state)
{
    (void)state;
    assert_int_equal(child_run(parent_of_a_device, NULL), 0);
}
#endif

/* ---- a child that stays -----------------------------------------------------------------------
 */

struct stayer {
    int pipe[2]; /* the grandchild ends when nobody holds the writing end */
    struct sockaddr_in to;
};

static void stay(const struct stayer *s)
{
    char c;

    close(s->pipe[1]);
    (void)!read(s->pipe[0], &c, 1);
    _exit(0);
}

/* The port of a closed listener can be had again, and an abort arrives, though a child stays. */
static int parent_that_closes(void *arg)
{
    const struct stayer *s = arg;
    struct sockaddr_storage addr;
    struct pair p;
    socklen_t len;

    open_tcp(&p);
    must(iwarp_listener_addr(p.listener, &addr, &len));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        stay(s);
    }
    must(iwarp_abort(p.side[0].conn));
    must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
    assert_int_equal(iwarp_fault_code(iwarp_conn_fault(p.side[1].conn)), IWARP_FAULT_TCP_LOST);
    must(iwarp_listener_close(p.listener));
    must(iwarp_listen(p.device, (const struct sockaddr *)&addr, len, NULL, 1, p.eq[1], NULL,
                      &p.listener));
    pair_close(&p);
    return 0;
}

static void fork__child_stays__closing_works(void **state)
{
    struct stayer s;

    (void)state;
    assert_int_equal(pipe(s.pipe), 0);
    assert_int_equal(child_run(parent_that_closes, &s), 0);
    close(s.pipe[0]);
    close(s.pipe[1]);
}

static int parent_that_goes(void *arg)
{
    const struct stayer *s = arg;
    struct iwarp_conn *conn;
    struct pair_options o;
    struct pair p;

    pair_options_init(&o, PAIR_TCP4);
    o.device.progress = IWARP_PROGRESS_THREADED; /* whatever TEST_PROGRESS says */
    pair_prepare(&p, &o);
    must(iwarp_connect(p.side[0].qp, (const struct sockaddr *)&s->to, sizeof s->to, NULL, NULL, 0,
                       NULL, NULL, &conn));
    assert_int_equal(iwarp_conn_wait(conn, 100), IWARP_AGAIN); /* until the Request is out */
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        stay(s);
    }
    _exit(0);
}

static void fork__child_stays__the_end_of_the_parent_is_noticed(void **state)
{
    struct stayer s;
    uint8_t request[24];

    (void)state;
    assert_int_equal(pipe(s.pipe), 0);
    int listener = raw_listen(&s.to);
    pid_t pid = child_start(parent_that_goes, &s);
    int fd = raw_accept(listener);
    raw_read(fd, request, sizeof request, "Request");
    assert_int_equal(child_wait(pid), 0);
    (void)raw_end(fd, "the process has gone");
    raw_close(fd);
    close(listener);
    close(s.pipe[0]);
    close(s.pipe[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fork__of_children_that_end__leaves_connections_alone),
        cmocka_unit_test(fork__amid_traffic__leaves_connections_alone),
        cmocka_unit_test(fork__child_uses_handles__is_told),
#if CHILD_SANITIZED != 2
        cmocka_unit_test(fork__child_opens_a_device__works_in_both),
#endif
        cmocka_unit_test(fork__child_stays__closing_works),
        cmocka_unit_test(fork__child_stays__the_end_of_the_parent_is_noticed),
    };

    return cmocka_run_group_tests_name("process_fork", tests, NULL, NULL);
}
