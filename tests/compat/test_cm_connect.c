/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librdmacm.so.1, connections: both ends in one process, over IPv4 and IPv6 loopback, as events and
 * as calls that wait; rejected, refused, given up; a hundred at once; and with a forked child that
 * exits amid one.
 */
#include "ends.h"

#include "../support/child.h"
#include "../support/seconds.h"

#include <pthread.h>
#include <sys/wait.h>

static void talk(int family)
{
    static struct end server, client;

    establish(&server, &client, family);
    assert_int_equal(client.id->qp->state, IBV_QPS_RTS);
    assert_int_equal(rdma_get_dst_port(client.id), rdma_get_src_port(server.listener));
    assert_int_not_equal(rdma_get_src_port(client.id), 0);
    assert_int_equal(rdma_get_src_port(client.id), rdma_get_dst_port(server.id));
    assert_int_equal(rdma_get_peer_addr(server.id)->sa_family, family);
    transfer(&client, &server);
    transfer(&server, &client);
    ok(rdma_disconnect(client.id));
    expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    expect_ack(client.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    ok(rdma_disconnect(server.id)); /* the answer of many programs to the event */
    close_end(&client);
    close_end(&server);
}

static void connect__over_ipv4__carries_messages_and_private_data(void **state)
{
    (void)state;
    talk(AF_INET);
}

static void connect__over_ipv6__carries_messages_and_private_data(void **state)
{
    (void)state;
    talk(AF_INET6);
}

/* Of this process' socket with these two ports; -1: there is none. */
static int tos_of(in_port_t local, in_port_t peer, int family)
{
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_in6 a = {.sin6_port = 0}, b = {.sin6_port = 0}; /* ports at one place */
        socklen_t len = sizeof a, peer_len = sizeof b;
        int tos = -1;
        socklen_t size = sizeof tos;
        if (getsockname(fd, (struct sockaddr *)&a, &len) == 0 && a.sin6_family == family &&
            getpeername(fd, (struct sockaddr *)&b, &peer_len) == 0 && a.sin6_port == local &&
            b.sin6_port == peer) {
            ok(getsockopt(fd, family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6,
                          family == AF_INET ? IP_TOS : IPV6_TCLASS, &tos, &size));
            return tos;
        }
    }
    return -1;
}

/* Wished when the address is there already: by the listener for all that it accepts. */
static void option_tos__of_either_side__is_that_of_its_socket(void **state)
{
    static const int families[] = {AF_INET, AF_INET6};
    static struct end server, client;

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct sockaddr_storage addr;
        uint8_t of_server = 0x48, of_client = 0x28;
        open_end(&server);
        address(&addr, families[i], 0);
        ok(rdma_create_id(server.channel, &server.listener, &server, RDMA_PS_TCP));
        ok(rdma_bind_addr(server.listener, (struct sockaddr *)&addr));
        ok(rdma_set_option(server.listener, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &of_server, 1));
        ok(rdma_listen(server.listener, 4));
        open_end(&client);
        prepare_client(&client, families[i], rdma_get_src_port(server.listener));
        ok(rdma_set_option(client.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &of_client, 1));
        connect_client(&client, "tos");
        ok(rdma_ack_cm_event(request(&server, "tos")));
        accept_request(&server);
        expect_ack(server.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
        expect_ack(client.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
        in_port_t a = rdma_get_src_port(client.id), b = rdma_get_dst_port(client.id);
        assert_int_equal(tos_of(a, b, families[i]), of_client);
        assert_int_equal(tos_of(b, a, families[i]), of_server);
        close_end(&client);
        expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
        close_end(&server);
    }
}

static void setting_addr__is_where_the_program_leaves_it_open(void **state)
{
    static struct end server, client;
    struct sockaddr_in any = {.sin_family = AF_INET}, to = any;
    const uint32_t wished = INADDR_LOOPBACK + 1; /* 127.0.0.2 */

    (void)state;
    assert_int_equal(setenv("IWARP_ADDR", "127.0.0.2", 1), 0);
    open_end(&server);
    ok(rdma_create_id(server.channel, &server.listener, &server, RDMA_PS_TCP));
    ok(rdma_bind_addr(server.listener, (struct sockaddr *)&any));
    memcpy(&to, rdma_get_local_addr(server.listener), sizeof to);
    assert_int_equal(ntohl(to.sin_addr.s_addr), wished);
    assert_int_not_equal(to.sin_port, 0);
    assert_non_null(server.listener->verbs);
    open_end(&client);
    ok(rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ok(rdma_resolve_addr(client.id, NULL, (struct sockaddr *)&to, 1000));
    expect_ack(client.channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    memcpy(&any, rdma_get_local_addr(client.id), sizeof any);
    assert_int_equal(ntohl(any.sin_addr.s_addr), wished);
    close_id(&client.id);
    /* What the program says, and the other family, is as it was. */
    ok(rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 2);
    any.sin_port = 0;
    ok(rdma_bind_addr(client.id, (struct sockaddr *)&any));
    memcpy(&to, rdma_get_local_addr(client.id), sizeof to);
    assert_int_equal(to.sin_addr.s_addr, any.sin_addr.s_addr);
    close_id(&client.id);
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6};
    ok(rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
    ok(rdma_bind_addr(client.id, (struct sockaddr *)&any6));
    assert_null(client.id->verbs);
    assert_int_equal(rdma_get_local_addr(client.id)->sa_family, AF_INET6);
    assert_int_equal(unsetenv("IWARP_ADDR"), 0);
    close_end(&client);
    close_end(&server);
}

static void reject__with_private_data__is_told_to_the_client_and_flushes(void **state)
{
    static struct end server, client;
    struct ibv_wc wc;

    (void)state;
    listen_at(&server, AF_INET);
    open_end(&client);
    prepare_client(&client, AF_INET, rdma_get_src_port(server.listener));
    client.mr = rdma_reg_msgs(client.id, client.memory, LEN);
    ok(rdma_post_recv(client.id, NULL, client.memory, LEN, client.mr));
    connect_client(&client, "may I?");
    struct rdma_cm_event *event = request(&server, "may I?");
    ok(rdma_reject(server.id, "no", 2));
    ok(rdma_ack_cm_event(event));
    errno = 0;
    assert_int_equal(rdma_accept(server.id, NULL), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_reject(server.id, "no", 2), -1); /* once is enough */
    assert_int_equal(errno, EINVAL);
    ok(rdma_destroy_id(server.id));
    server.id = NULL;
    event = expect(client.channel, RDMA_CM_EVENT_REJECTED, -ECONNREFUSED);
    assert_int_equal(event->param.conn.private_data_len, 2);
    assert_memory_equal(event->param.conn.private_data, "no", 2);
    ok(rdma_ack_cm_event(event));
    assert_int_equal(rdma_get_recv_comp(client.id, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
    close_end(&client);
    close_end(&server);
}

/* After some tries: perftest's clients connect while their server makes its second listener. */
static void connect__to_nobody__is_rejected_in_a_moment(void **state)
{
    static struct end server, client;

    (void)state;
    listen_at(&server, AF_INET);
    uint16_t port = rdma_get_src_port(server.listener);
    close_end(&server);
    open_end(&client);
    prepare_client(&client, AF_INET, port);
    int64_t began = milliseconds_now();
    connect_client(&client, "");
    expect_ack(client.channel, RDMA_CM_EVENT_REJECTED, -ECONNREFUSED);
    assert_true(milliseconds_now() - began >= 30);
    close_end(&client);
}

static void destroy__amid_connecting__leaves_no_event(void **state)
{
    static struct end server, client;

    (void)state;
    listen_at(&server, AF_INET);
    open_end(&client);
    for (int i = 0; i < 10; i++) { /* at different moments of the start-up */
        prepare_client(&client, AF_INET, rdma_get_src_port(server.listener));
        connect_client(&client, "");
        usleep((unsigned)i * 100);
        close_id(&client.id);
    }
    nothing_more(client.channel);
    close_end(&client);
    ok(rdma_destroy_id(server.listener)); /* with requests that nobody took */
    server.listener = NULL;
    close_end(&server);
}

/* A request that the server has taken and not answered. */
static void ask_server(struct end *server, struct end *client)
{
    listen_at(server, AF_INET);
    open_end(client);
    prepare_client(client, AF_INET, rdma_get_src_port(server->listener));
    connect_client(client, "hello");
    ok(rdma_ack_cm_event(request(server, "hello")));
}

/* Disconnecting it does nothing; nor is there an event. */
static void request__disconnected_unanswered__can_be_accepted(void **state)
{
    static struct end server, client;

    (void)state;
    ask_server(&server, &client);
    ok(rdma_disconnect(server.id));
    accept_request(&server);
    expect_ack(server.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    expect_ack(client.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    transfer(&client, &server);
    ok(rdma_disconnect(server.id));
    ok(rdma_disconnect(server.id));
    expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    expect_ack(client.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    close_end(&client);
    close_end(&server);
}

/* The answer fails, and sends then do, too; or it was given before the end was known, and an event
 * tells. */
static void request__of_a_peer_that_has_gone__cannot_be_accepted(void **state)
{
    struct ibv_qp_init_attr attr = qp_attr();
    static struct end server, client;

    (void)state;
    ask_server(&server, &client);
    close_end(&client);
    usleep(100000);
    ok(rdma_create_qp(server.id, NULL, &attr));
    if (rdma_accept(server.id, NULL) == 0) {
        struct pollfd p = {.fd = server.channel->fd, .events = POLLIN};
        struct rdma_cm_event *event;
        assert_int_equal(poll(&p, 1, WAIT_MS), 1);
        ok(rdma_get_cm_event(server.channel, &event));
        assert_int_equal(event->event, RDMA_CM_EVENT_CONNECT_ERROR);
        ok(rdma_ack_cm_event(event));
    } else {
        struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
        assert_int_equal(errno, ECONNRESET);
        assert_int_equal(ibv_post_send(server.id->qp, &wr, &bad), EINVAL);
        assert_int_equal(rdma_accept(server.id, NULL), -1);
    }
    close_end(&server);
}

static void destroy__of_a_listener__rejects_requests_that_wait(void **state)
{
    static struct end server, client;
    struct pollfd p;

    (void)state;
    listen_at(&server, AF_INET);
    open_end(&client);
    prepare_client(&client, AF_INET, rdma_get_src_port(server.listener));
    connect_client(&client, "");
    p = (struct pollfd){.fd = server.channel->fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
    ok(rdma_destroy_id(server.listener));
    server.listener = NULL;
    expect_ack(client.channel, RDMA_CM_EVENT_REJECTED, -ECONNREFUSED);
    close_end(&server);
    close_end(&client);
}

/* A peer that speaks MPA so far, and is gone before it is answered. */
static void ask_and_go(struct rdma_cm_id *listener)
{
    static const char request[] = "MPA ID Req Frame\x40\x01\x00\x00";
    const struct linger reset = {1, 0};
    struct sockaddr_storage addr;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address(&addr, AF_INET, rdma_get_src_port(listener));
    ok(connect(fd, (struct sockaddr *)&addr, sizeof(struct sockaddr_in)));
    assert_int_equal(write(fd, request, sizeof request - 1), sizeof request - 1);
    ok(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset));
    struct pollfd p = {.fd = ((struct end *)listener->context)->channel->fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
    close(fd);
    usleep(200000);
}

/* Such peers come as often as they like: the log has a line a second at most. */
static void accept__of_peers_that_have_gone__is_refused_and_seldom_told(void **state)
{
    static struct end server;
    char name[] = "/tmp/test_cm_connect.XXXXXX", line[512];
    int real = dup(STDERR_FILENO), fd = mkstemp(name), lines = 0, refusals = 0;
    time_t began = seconds_now();

    (void)state;
    assert_true(fd >= 0);
    unlink(name);
    listen_at(&server, AF_INET);
    dup2(fd, STDERR_FILENO);
    for (int i = 0; i < 10; i++) {
        struct ibv_qp_init_attr attr = qp_attr();
        struct rdma_cm_event *event;
        ask_and_go(server.listener);
        if (poll(&(struct pollfd){.fd = server.channel->fd, .events = POLLIN}, 1, 0) != 1) {
            continue; /* not even the request is left */
        }
        ok(rdma_get_cm_event(server.channel, &event));
        struct rdma_cm_id *id = event->id;
        bool asked = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
        ok(rdma_ack_cm_event(event));
        errno = 0;
        if (asked && rdma_create_qp(id, NULL, &attr) == 0 && rdma_accept(id, NULL) != 0) {
            refusals += errno == ECONNRESET;
        }
        if (asked) {
            close_id(&id); /* what may still be told of it goes with it */
        }
    }
    dup2(real, STDERR_FILENO);
    close(real);
    FILE *log = fdopen(fd, "r");
    rewind(log);
    while (fgets(line, sizeof line, log)) {
        lines += strstr(line, "rdma_accept: the peer has gone") != NULL;
    }
    fclose(log);
    assert_true(refusals == 0 || lines > 0);
    assert_true(lines <= seconds_now() - began + 2);
    close_end(&server);
}

#define MANY 100

static void connect__a_hundred_at_once__all_are_established_and_end(void **state)
{
    static struct end server, client, one[MANY];
    int left = MANY;

    (void)state;
    listen_at(&server, AF_INET);
    open_end(&client);
    for (int i = 0; i < MANY; i++) {
        one[i].channel = client.channel;
        prepare_client(&one[i], AF_INET, rdma_get_src_port(server.listener));
    }
    for (int i = 0; i < MANY; i++) {
        connect_client(&one[i], "x");
    }
    struct rdma_cm_id *accepted[MANY];
    for (int requests = 0, up = 0; up < MANY;) { /* they come mixed */
        struct rdma_cm_event *event;
        ok(rdma_get_cm_event(server.channel, &event));
        if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
            accepted[requests++] = server.id = event->id;
            accept_request(&server);
        } else {
            assert_int_equal(event->event, RDMA_CM_EVENT_ESTABLISHED);
            up++;
        }
        ok(rdma_ack_cm_event(event));
    }
    for (int i = 0; i < MANY; i++) {
        expect_ack(client.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    }
    for (int i = 0; i < MANY; i++) {
        ok(rdma_disconnect(accepted[i]));
    }
    while (left-- > 0) {
        expect_ack(client.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
        expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    }
    for (int i = 0; i < MANY; i++) {
        close_id(&accepted[i]);
        close_id(&one[i].id);
    }
    server.id = NULL;
    close_end(&server);
    close_end(&client);
}

/* --- calls that wait ------------------------------------------------------------------------- */

static void *serve(void *arg)
{
    struct rdma_cm_id *listener = arg, *id;
    struct ibv_wc wc;
    static uint8_t memory[LEN];

    ok(rdma_get_request(listener, &id));
    assert_non_null(id->qp);
    struct ibv_mr *mr = rdma_reg_msgs(id, memory, LEN);
    ok(rdma_post_recv(id, NULL, memory, LEN, mr));
    ok(rdma_accept(id, NULL));
    assert_int_equal(rdma_get_recv_comp(id, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    ok(rdma_post_send(id, NULL, memory, LEN, mr, IBV_SEND_SIGNALED));
    assert_int_equal(rdma_get_send_comp(id, &wc), 1);
    (void)rdma_disconnect(id); /* the client may have been first */
    ok(rdma_dereg_mr(mr));
    rdma_destroy_ep(id);
    return NULL;
}

static void endpoints__that_wait__connect_and_transfer(void **state)
{
    struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *info;
    struct ibv_qp_init_attr attr = qp_attr();
    struct rdma_cm_id *listener, *id;
    struct ibv_wc wc;
    static uint8_t memory[LEN];
    pthread_t server;
    char port[8];

    (void)state;
    ok(rdma_getaddrinfo("127.0.0.1", "0", &hints, &info));
    ok(rdma_create_ep(&listener, info, NULL, &attr));
    rdma_freeaddrinfo(info);
    ok(rdma_listen(listener, 0));
    snprintf(port, sizeof port, "%u", ntohs(rdma_get_src_port(listener)));
    assert_int_equal(pthread_create(&server, NULL, serve, listener), 0);
    hints.ai_flags = 0;
    ok(rdma_getaddrinfo("127.0.0.1", port, &hints, &info));
    ok(rdma_create_ep(&id, info, NULL, &attr));
    rdma_freeaddrinfo(info);
    struct ibv_mr *mr = rdma_reg_msgs(id, memory, LEN);
    ok(rdma_post_recv(id, NULL, memory, LEN, mr));
    ok(rdma_connect(id, NULL));
    ok(rdma_post_send(id, NULL, memory, LEN, mr, IBV_SEND_SIGNALED));
    assert_int_equal(rdma_get_recv_comp(id, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, LEN);
    ok(rdma_disconnect(id));
    assert_int_equal(pthread_join(server, NULL), 0);
    ok(rdma_dereg_mr(mr));
    rdma_destroy_ep(id);
    rdma_destroy_ep(listener);
}

/* --- queue pairs of the program's own -------------------------------------------------------- */

static void to_rts(struct rdma_cm_id *id, struct ibv_qp *qp)
{
    static const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};

    for (int i = 0; i < 3; i++) {
        struct ibv_qp_attr attr = {.qp_state = states[i]};
        int mask = -1;
        ok(rdma_init_qp_attr(id, &attr, &mask));
        assert_int_equal(mask, i < 2 ? IBV_QP_STATE | IBV_QP_ACCESS_FLAGS : 0);
        assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
    }
}

static struct ibv_qp *own_qp(struct rdma_cm_id *id, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr attr = qp_attr();

    attr.send_cq = attr.recv_cq = cq;
    struct ibv_qp *qp = ibv_create_qp(id->pd, &attr);
    assert_non_null(qp);
    return qp;
}

/* The device says that it has atomics. */
static void fetch_and_add(struct ibv_qp *qp, struct ibv_cq *cq)
{
    static uint64_t words[2] = {5, 0}; /* of the peer, which is this process; of this end */
    struct ibv_mr *mr =
        ibv_reg_mr(qp->pd, words, sizeof words, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    assert_non_null(mr);
    struct ibv_sge result = {(uintptr_t)&words[1], sizeof words[1], mr->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                             .send_flags = IBV_SEND_SIGNALED,
                             .sg_list = &result,
                             .num_sge = 1},
                       *bad;
    struct ibv_wc wc;
    int n;

    wr.wr.atomic.remote_addr = (uintptr_t)&words[0];
    wr.wr.atomic.rkey = mr->rkey;
    wr.wr.atomic.compare_add = 2;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    while ((n = ibv_poll_cq(cq, 1, &wc)) == 0) {
        sched_yield();
    }
    assert_int_equal(n, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(words[0], 7);
    assert_int_equal(words[1], 5);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void connect__queue_pairs_of_the_program__by_their_numbers(void **state)
{
    static struct end server, client;
    struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};

    (void)state;
    listen_at(&server, AF_INET);
    open_end(&client);
    prepare_client(&client, AF_INET, rdma_get_src_port(server.listener));
    rdma_destroy_qp(client.id);
    struct ibv_cq *cq = ibv_create_cq(client.id->verbs, 32, NULL, NULL, 0);
    assert_non_null(cq);
    assert_int_equal(rdma_connect(client.id, &param), -1); /* number 0 */
    assert_int_equal(errno, EINVAL);
    struct ibv_qp *a = own_qp(client.id, cq), *b = own_qp(client.id, cq);
    param.qp_num = a->qp_num;
    ok(rdma_connect(client.id, &param));
    struct rdma_cm_event *event = expect(server.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    server.id = event->id;
    ok(rdma_ack_cm_event(event));
    to_rts(server.id, b);
    param.qp_num = b->qp_num;
    ok(rdma_accept(server.id, &param));
    expect_ack(client.channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
    to_rts(client.id, a);
    ok(rdma_establish(client.id));
    expect_ack(server.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    fetch_and_add(a, cq);
    ok(rdma_disconnect(server.id));
    expect_ack(client.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    assert_int_equal(ibv_destroy_qp(a), 0);
    assert_int_equal(ibv_destroy_qp(b), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    close_end(&client);
    close_end(&server);
}

/* --- processes ------------------------------------------------------------------------------- */

/* A child connects and exits, closing nothing; it had inherited ids that are out of its bounds. */
static void child_of(const struct end *parent, uint16_t port)
{
    static struct end client;

    if (rdma_listen(parent->listener, 1) != -1 || errno != EINVAL) {
        _exit(3);
    }
    open_end(&client);
    prepare_client(&client, AF_INET, port);
    connect_client(&client, "child");
    expect_ack(client.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    exit(0);
}

static void fork__child_connects_to_its_parent_and_exits__parent_is_told(void **state)
{
    static struct end server;
    int status = -1;

    (void)state;
    if (CHILD_SANITIZED == 2) { /* it does not know children that start threads */
        return;
    }
    listen_at(&server, AF_INET);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        child_of(&server, rdma_get_src_port(server.listener));
        _exit(1);
    }
    ok(rdma_ack_cm_event(request(&server, "child")));
    accept_request(&server);
    expect_ack(server.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    close_end(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connect__over_ipv4__carries_messages_and_private_data),
        cmocka_unit_test(connect__over_ipv6__carries_messages_and_private_data),
        cmocka_unit_test(option_tos__of_either_side__is_that_of_its_socket),
        cmocka_unit_test(setting_addr__is_where_the_program_leaves_it_open),
        cmocka_unit_test(reject__with_private_data__is_told_to_the_client_and_flushes),
        cmocka_unit_test(connect__to_nobody__is_rejected_in_a_moment),
        cmocka_unit_test(destroy__amid_connecting__leaves_no_event),
        cmocka_unit_test(request__disconnected_unanswered__can_be_accepted),
        cmocka_unit_test(request__of_a_peer_that_has_gone__cannot_be_accepted),
        cmocka_unit_test(destroy__of_a_listener__rejects_requests_that_wait),
        cmocka_unit_test(accept__of_peers_that_have_gone__is_refused_and_seldom_told),
        cmocka_unit_test(connect__a_hundred_at_once__all_are_established_and_end),
        cmocka_unit_test(endpoints__that_wait__connect_and_transfer),
        cmocka_unit_test(connect__queue_pairs_of_the_program__by_their_numbers),
        cmocka_unit_test(fork__child_connects_to_its_parent_and_exits__parent_is_told),
    };

    return cmocka_run_group_tests_name("test_cm_connect", tests, NULL, NULL);
}
