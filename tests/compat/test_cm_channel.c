/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librdmacm.so.1, event channels and ids: descriptors that are readable exactly while an event
 * waits, reads that are interrupted, refused and cancelled, ids that move and wait for
 * acknowledgements; addresses and ports; and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../support/child.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define ok(call) assert_int_equal((call), 0)
#define refused(call, error)                                                                       \
    do {                                                                                           \
        errno = 0;                                                                                 \
        assert_int_equal((call), -1);                                                              \
        assert_int_equal(errno, (error));                                                          \
    } while (0)

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;

static int setup(void **state)
{
    (void)state;
    channel = rdma_create_event_channel();
    return channel ? rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) : -1;
}

static int teardown(void **state)
{
    (void)state;
    int result = rdma_destroy_id(id);

    rdma_destroy_event_channel(channel);
    return result;
}

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = port};

    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return in;
}

static void resolve(struct rdma_cm_id *i)
{
    struct sockaddr_in to = loopback(htons(9));

    ok(rdma_resolve_addr(i, NULL, (struct sockaddr *)&to, 1000));
}

static bool readable(const struct rdma_event_channel *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

static void take(struct rdma_event_channel *c, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;

    ok(rdma_get_cm_event(c, &event));
    assert_int_equal(event->event, type);
    ok(rdma_ack_cm_event(event));
}

static void channel__with_events__is_readable_until_the_last_is_taken(void **state)
{
    struct rdma_cm_id *other;
    struct rdma_cm_event *event;

    (void)state;
    assert_true(fcntl(channel->fd, F_GETFD) & FD_CLOEXEC);
    assert_false(readable(channel));
    ok(rdma_create_id(channel, &other, NULL, RDMA_PS_TCP));
    resolve(id);
    resolve(other);
    assert_true(readable(channel));
    take(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_true(readable(channel));
    ok(rdma_destroy_id(other)); /* with its event */
    assert_false(readable(channel));
    ok(fcntl(channel->fd, F_SETFL, O_NONBLOCK));
    refused(rdma_get_cm_event(channel, &event), EAGAIN);
}

static void nothing(int signal)
{
    (void)signal;
}

static void get_cm_event__interrupted_by_a_signal__says_so(void **state)
{
    struct sigaction action = {.sa_handler = nothing}, before;
    const struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    struct rdma_cm_event *event;

    (void)state;
    ok(sigaction(SIGALRM, &action, &before));
    ok(setitimer(ITIMER_REAL, &often, NULL));
    refused(rdma_get_cm_event(channel, &event), EINTR);
    ok(setitimer(ITIMER_REAL, &never, NULL));
    ok(sigaction(SIGALRM, &before, NULL));
}

static void *get_one(void *arg)
{
    struct rdma_cm_event *event;

    return rdma_get_cm_event(arg, &event) == 0 ? event : NULL;
}

static void get_cm_event__of_a_cancelled_thread__leaves_the_channel_usable(void **state)
{
    pthread_t thread;
    void *result;

    (void)state;
    if (CHILD_SANITIZED == 1) { /* it takes an unwound stack for a bad one */
        return;
    }
    ok(pthread_create(&thread, NULL, get_one, channel));
    usleep(20000);
    ok(pthread_cancel(thread));
    ok(pthread_join(thread, &result));
    assert_ptr_equal(result, PTHREAD_CANCELED);
    resolve(id);
    take(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
}

static void migrate__with_an_event__takes_it_along(void **state)
{
    struct rdma_event_channel *to = rdma_create_event_channel();

    (void)state;
    assert_non_null(to);
    resolve(id);
    ok(rdma_migrate_id(id, to));
    assert_ptr_equal(id->channel, to);
    assert_false(readable(channel));
    assert_true(readable(to));
    take(to, RDMA_CM_EVENT_ADDR_RESOLVED);
    ok(rdma_migrate_id(id, NULL)); /* calls wait from here on */
    rdma_destroy_event_channel(to);
    ok(rdma_resolve_route(id, 1000));
    assert_int_equal(id->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
    ok(rdma_migrate_id(id, channel));
    assert_null(id->event);
}

static atomic_bool acknowledged;

static void *acknowledge_later(void *event)
{
    usleep(50000);
    atomic_store(&acknowledged, true);
    ok(rdma_ack_cm_event(event));
    return NULL;
}

static void destroy__with_an_event_taken__waits_until_it_is_acknowledged(void **state)
{
    struct rdma_cm_event *event;
    pthread_t thread;

    (void)state;
    resolve(id);
    ok(rdma_get_cm_event(channel, &event));
    atomic_store(&acknowledged, false);
    ok(pthread_create(&thread, NULL, acknowledge_later, event));
    ok(rdma_destroy_id(id));
    assert_true(atomic_load(&acknowledged));
    ok(pthread_join(thread, NULL));
    ok(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
}

/* --- addresses ------------------------------------------------------------------------------- */

static void bind__of_a_taken_port__is_refused_unless_both_reuse_it(void **state)
{
    struct sockaddr_in at = loopback(0);
    struct rdma_cm_id *other;
    int on = 1;

    (void)state;
    ok(rdma_bind_addr(id, (struct sockaddr *)&at));
    at.sin_port = rdma_get_src_port(id);
    assert_int_not_equal(at.sin_port, 0);
    ok(rdma_create_id(channel, &other, NULL, RDMA_PS_TCP));
    refused(rdma_bind_addr(other, (struct sockaddr *)&at), EADDRINUSE);
    ok(rdma_listen(id, 1));
    ok(rdma_set_option(other, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on));
    refused(rdma_bind_addr(other, (struct sockaddr *)&at), EADDRINUSE);
    ok(rdma_destroy_id(id)); /* free at once */
    ok(rdma_bind_addr(other, (struct sockaddr *)&at));
    ok(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
    ok(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on));
    ok(rdma_bind_addr(id, (struct sockaddr *)&at));
    ok(rdma_listen(id, 1));
    ok(rdma_destroy_id(other));
}

static void listen__on_both_wildcards_with_afonly__share_one_port(void **state)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6};
    struct rdma_cm_id *other;
    int on = 1;

    (void)state;
    ok(rdma_bind_addr(id, (struct sockaddr *)&any));
    assert_null(id->verbs);
    ok(rdma_listen(id, 0));
    any6.sin6_port = rdma_get_src_port(id);
    ok(rdma_create_id(channel, &other, NULL, RDMA_PS_TCP));
    ok(rdma_set_option(other, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on));
    ok(rdma_bind_addr(other, (struct sockaddr *)&any6));
    ok(rdma_listen(other, 0));
    ok(rdma_destroy_id(other));
}

static void resolve__of_a_bound_id__keeps_its_address(void **state)
{
    struct sockaddr_in from = loopback(0), other = loopback(htons(1)), to = loopback(htons(9));

    (void)state;
    from.sin_addr.s_addr = htonl(0x7f000002);
    ok(rdma_bind_addr(id, (struct sockaddr *)&from));
    uint16_t port = rdma_get_src_port(id);
    ok(rdma_resolve_addr(id, (struct sockaddr *)&other, (struct sockaddr *)&to, 1000));
    take(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    const struct sockaddr_in *src = (const struct sockaddr_in *)(void *)rdma_get_local_addr(id);
    assert_int_equal(src->sin_port, port);
    assert_int_equal(src->sin_addr.s_addr, from.sin_addr.s_addr);
    assert_int_equal(rdma_get_dst_port(id), htons(9));
}

static void getaddrinfo__without_names__is_what_the_hints_say(void **state)
{
    struct sockaddr_in src = loopback(0), dst = loopback(htons(7));
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *info;

    (void)state;
    hints.ai_src_addr = (struct sockaddr *)&src;
    hints.ai_dst_addr = (struct sockaddr *)&dst;
    hints.ai_src_len = hints.ai_dst_len = sizeof src;
    ok(rdma_getaddrinfo(NULL, NULL, &hints, &info));
    assert_int_equal(info->ai_family, AF_INET);
    assert_int_equal(info->ai_qp_type, IBV_QPT_RC);
    assert_int_equal(info->ai_src_len, sizeof src);
    assert_memory_equal(info->ai_dst_addr, &dst, sizeof dst);
    rdma_freeaddrinfo(info);
    ok(rdma_getaddrinfo("::1", "7", NULL, &info));
    assert_int_equal(info->ai_family, AF_INET6);
    assert_null(info->ai_src_addr);
    rdma_freeaddrinfo(info);
    ok(rdma_getaddrinfo("127.0.0.1", NULL, NULL, &info));
    assert_memory_equal(&((struct sockaddr_in *)(void *)info->ai_dst_addr)->sin_addr, &dst.sin_addr,
                        4);
    rdma_freeaddrinfo(info);
    refused(rdma_getaddrinfo(NULL, NULL, NULL, &info), EINVAL);
    assert_int_not_equal(rdma_getaddrinfo("no such host", "7", NULL, &info), 0);
}

/* --- what is refused ------------------------------------------------------------------------- */

static void calls__out_of_order_or_not_of_iwarp__are_refused(void **state)
{
    struct sockaddr_in at = loopback(0), group = loopback(htons(9));
    struct sockaddr ib = {.sa_family = 27};
    struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 1, .max_recv_wr = 1}};
    struct rdma_cm_id *other;
    uint8_t octet = 5;
    int flag = 1;

    (void)state;
    group.sin_addr.s_addr = htonl(0xe0000001);
    attr.qp_type = IBV_QPT_UD;
    refused(rdma_create_id(channel, &other, NULL, RDMA_PS_IB), EOPNOTSUPP);
    refused(rdma_bind_addr(id, &ib), EAFNOSUPPORT);
    refused(rdma_resolve_addr(id, NULL, (struct sockaddr *)&group, 1), EINVAL);
    refused(rdma_resolve_route(id, 1), EINVAL);
    refused(rdma_connect(id, NULL), EINVAL);
    refused(rdma_accept(id, NULL), EINVAL);
    refused(rdma_reject(id, NULL, 0), EINVAL);
    refused(rdma_disconnect(id), EINVAL);
    refused(rdma_establish(id), EINVAL);
    refused(rdma_notify(id, IBV_EVENT_COMM_EST), EINVAL);
    refused(rdma_get_request(id, &other), EINVAL);
    refused(rdma_create_qp(id, NULL, &attr), EINVAL); /* no device yet */
    refused(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), EOPNOTSUPP);
    refused(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &octet, 1), EOPNOTSUPP);
    refused(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &flag, sizeof flag), EINVAL);
    ok(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &octet, 1));
    ok(rdma_bind_addr(id, (struct sockaddr *)&at));
    refused(rdma_bind_addr(id, (struct sockaddr *)&at), EINVAL);
    refused(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &flag, sizeof flag), EINVAL);
    refused(rdma_create_qp(id, NULL, &attr), EOPNOTSUPP);
    refused(rdma_get_cm_event(NULL, NULL), EINVAL);
}

/* Programs that connect by number look for the device of an address in this way. */
static void bind__of_an_id_for_datagrams__finds_the_device_and_no_more(void **state)
{
    struct sockaddr_in at = loopback(0);
    struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 1, .max_recv_wr = 1},
                                    .qp_type = IBV_QPT_UD};
    struct rdma_cm_id *udp, *tcp;

    (void)state;
    assert_int_equal(rdma_create_id(channel, &tcp, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(tcp, (struct sockaddr *)&at), 0);
    at.sin_port = rdma_get_src_port(tcp);
    assert_int_equal(rdma_create_id(channel, &udp, NULL, RDMA_PS_UDP), 0);
    assert_int_equal(udp->qp_type, IBV_QPT_UD);
    assert_int_equal(rdma_bind_addr(udp, (struct sockaddr *)&at), 0); /* another port than TCP's */
    assert_non_null(udp->verbs);
    assert_int_equal(udp->port_num, 1);
    assert_int_equal(rdma_get_src_port(udp), at.sin_port);
    refused(rdma_listen(udp, 1), EOPNOTSUPP);
    refused(rdma_create_qp(udp, NULL, &attr), EOPNOTSUPP);
    assert_int_equal(rdma_resolve_addr(udp, NULL, (struct sockaddr *)&at, 1), 0);
    refused(rdma_resolve_route(udp, 1), EOPNOTSUPP);
    refused(rdma_connect(udp, NULL), EINVAL);
    assert_int_equal(rdma_destroy_id(udp), 0);
    assert_int_equal(rdma_destroy_id(tcp), 0);
}

static void depths__beyond_the_device__are_refused_and_255_is_the_most(void **state)
{
    struct ibv_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    struct rdma_conn_param param = {.responder_resources = 200, .initiator_depth = 1};

    (void)state;
    resolve(id);
    take(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    ok(rdma_resolve_route(id, 1000));
    take(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
    ok(rdma_create_qp(id, NULL, &attr));
    refused(rdma_create_qp(id, NULL, &attr), EINVAL);
    refused(rdma_connect(id, &param), EINVAL);
    param.responder_resources = RDMA_MAX_RESP_RES;
    ok(rdma_connect(id, &param));
    refused(rdma_connect(id, &param), EINVAL);
    take(channel, RDMA_CM_EVENT_REJECTED); /* nobody is at port 9 */
    rdma_destroy_qp(id);
}

static unsigned timeout_of(struct ibv_qp *qp)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_TIMEOUT, &init), 0);
    return attr.timeout;
}

/* Those that the program has put into the id stay its own. */
static void create_qp__of_an_id_with_queues__uses_them(void **state)
{
    struct ibv_qp_init_attr_ex attr = {
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD};
    struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_qp_init_attr plain = {.cap = attr.cap, .qp_type = IBV_QPT_RC};
    uint8_t timeout = 19;

    (void)state;
    ok(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1));
    resolve(id);
    take(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    struct ibv_cq *cq = ibv_create_cq(id->verbs, 8, NULL, NULL, 0);
    assert_non_null(cq);
    id->send_cq = cq;
    ok(rdma_create_qp_ex(id, &attr)); /* pd is NULL: the id's */
    assert_ptr_equal(id->qp->pd, id->pd);
    assert_ptr_equal(id->qp->send_cq, cq);
    assert_ptr_equal(id->qp->recv_cq, id->recv_cq);
    assert_int_equal(timeout_of(id->qp), 19);
    timeout = 31;
    ok(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1));
    assert_int_equal(timeout_of(id->qp), 31);
    timeout = 32;
    refused(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), EINVAL);
    assert_int_equal(timeout_of(id->qp), 31);
    rdma_destroy_qp(id);
    struct ibv_pd *own = id->pd;
    struct ibv_pd *other_pd = ibv_alloc_pd(id->verbs);
    ok(rdma_create_qp(id, other_pd, &plain));
    assert_ptr_equal(id->qp->pd, other_pd);
    assert_ptr_equal(id->pd, other_pd); /* rdma_reg_msgs registers in it */
    rdma_destroy_qp(id);
    id->pd = own;
    assert_int_equal(ibv_dealloc_pd(other_pd), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    ok(rdma_create_srq(id, NULL, &srq_attr));
    struct ibv_srq *other = ibv_create_srq(id->pd, &srq_attr);
    attr.send_cq = attr.recv_cq = NULL;
    attr.srq = other;
    refused(rdma_create_qp_ex(id, &attr), EINVAL);
    assert_int_equal(ibv_destroy_srq(other), 0);
    rdma_destroy_srq(id);
}

static void create_qp__that_failed__can_be_tried_again_with_the_same_attributes(void **state)
{
    struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 4,
                                            .max_recv_wr = 4,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1,
                                            .max_inline_data = 1 << 20},
                                    .qp_type = IBV_QPT_RC};

    (void)state;
    resolve(id);
    take(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    refused(rdma_create_qp(id, NULL, &attr), EINVAL);
    assert_null(attr.send_cq);
    assert_null(attr.recv_cq);
    attr.cap.max_inline_data = 64;
    ok(rdma_create_qp(id, NULL, &attr));
    rdma_destroy_qp(id);
}

static void devices__are_one_whose_context_all_ids_have(void **state)
{
    int n = -1;
    struct ibv_context **list = rdma_get_devices(&n);

    (void)state;
    assert_non_null(list);
    assert_int_equal(n, 1);
    assert_null(list[1]);
    resolve(id);
    assert_ptr_equal(id->verbs, list[0]);
    assert_ptr_equal(id->pd->context, list[0]);
    rdma_free_devices(list);
    assert_string_equal(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT");
    assert_string_equal(rdma_event_str((enum rdma_cm_event_type)99), "UNKNOWN EVENT");
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* As rping does at its end: the channel is gone, and then a thread asks it for an event. */
static void get_event__of_a_destroyed_channel__is_refused(void **state)
{
    struct rdma_event_channel *gone = rdma_create_event_channel();
    struct rdma_cm_event *event;
    void *blocks[100];

    (void)state;
    assert_non_null(gone);
    rdma_destroy_event_channel(gone);
    for (size_t i = 0; i < 100; i++) { /* what was given back to the heap is another's by now */
        blocks[i] = malloc(24 + i % 10 * 16);
        assert_non_null(blocks[i]);
        memset(blocks[i], 0, 24 + i % 10 * 16);
    }
    refused(rdma_get_cm_event(gone, &event), EBADF);
    for (size_t i = 0; i < 100; i++) {
        free(blocks[i]);
    }
    for (size_t i = 0; i < 200; i++) { /* more of them than are kept */
        gone = rdma_create_event_channel();
        assert_non_null(gone);
        rdma_destroy_event_channel(gone);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(get_event__of_a_destroyed_channel__is_refused),
        test(channel__with_events__is_readable_until_the_last_is_taken),
        test(get_cm_event__interrupted_by_a_signal__says_so),
        test(get_cm_event__of_a_cancelled_thread__leaves_the_channel_usable),
        test(migrate__with_an_event__takes_it_along),
        test(destroy__with_an_event_taken__waits_until_it_is_acknowledged),
        test(bind__of_a_taken_port__is_refused_unless_both_reuse_it),
        test(listen__on_both_wildcards_with_afonly__share_one_port),
        test(resolve__of_a_bound_id__keeps_its_address),
        test(getaddrinfo__without_names__is_what_the_hints_say),
        test(calls__out_of_order_or_not_of_iwarp__are_refused),
        test(bind__of_an_id_for_datagrams__finds_the_device_and_no_more),
        test(depths__beyond_the_device__are_refused_and_255_is_the_most),
        test(create_qp__of_an_id_with_queues__uses_them),
        test(create_qp__that_failed__can_be_tried_again_with_the_same_attributes),
        test(devices__are_one_whose_context_all_ids_have),
    };

    return cmocka_run_group_tests_name("test_cm_channel", tests, NULL, NULL);
}
