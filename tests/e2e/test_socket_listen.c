/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listening on sockets that the application has bound with options of its own: they serve like
 * any other listener, and what cannot be listened on is refused and stays the application's.
 */
#include "verbs_pair.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "progress.h"

struct place {
    struct iwarp_device *device;
    struct iwarp_eq *eq;
    struct pair_side side;
};

static int setup(void **state)
{
    static struct place place;
    struct pair_options o;

    memset(&place, 0, sizeof place);
    pair_options_init(&o, PAIR_TCP4);
    must(progress_open(&o.device, &place.device));
    must(iwarp_eq_create(place.device, &place.eq));
    pair_side_open(&place.side, place.device, &o);
    *state = &place;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;

    pair_side_close(&p->side);
    must(iwarp_eq_destroy(p->eq));
    must(progress_close(p->device));
    return 0;
}

/* What connections inherit must not keep a Request back. */
static void set_low_water(int fd)
{
    const int octets = 4096;

    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &octets, sizeof octets), 0);
}

static int bound(int family, int type, in_port_t port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = port};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = port};
    const int on = 1;
    int fd = socket(family, type | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    set_low_water(fd);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in6.sin6_addr = in6addr_any;
    if (family == AF_INET6) {
        assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on), 0);
        assert_int_equal(bind(fd, (struct sockaddr *)&in6, sizeof in6), 0);
    } else {
        assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof in), 0);
    }
    return fd;
}

/* A connection to addr gives a REQUEST of this listener; it is rejected. */
static void serves(struct place *p, struct iwarp_listener *listener, const struct sockaddr *addr,
                   socklen_t len)
{
    struct iwarp_conn *conn;

    must(iwarp_connect(p->side.qp, addr, len, NULL, "x", 1, p->eq, NULL, &conn));
    struct iwarp_event request = pair_event(p->eq, IWARP_EVENT_REQUEST);
    assert_ptr_equal(request.listener, listener);
    assert_ptr_equal(request.user, p);
    must(iwarp_reject(request.conn, NULL, 0));
    assert_ptr_equal(pair_event(p->eq, IWARP_EVENT_REJECTED).conn, conn);
    must(iwarp_conn_destroy(request.conn));
    must(iwarp_conn_destroy(conn));
}

static void start_anew(struct iwarp_qp *qp)
{
    struct iwarp_qp_changes change = {
        .size = sizeof change, .mask = IWARP_QP_CHANGE_STATE, .state = IWARP_QP_IDLE};

    if (iwarp_qp_state(qp) != IWARP_QP_IDLE) {
        must(iwarp_qp_modify(qp, &change));
    }
}

static int64_t used_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

/* Its socket stays readable, and each accept fails. */
static void listen__on_a_socket_that_is_shut_down__does_not_spin(void **state)
{
    struct place *p = *state;
    struct iwarp_event event;
    struct iwarp_listener *l;
    int fd = bound(AF_INET, SOCK_STREAM, 0);

    must(iwarp_listen_socket(p->device, fd, NULL, 4, p->eq, p, &l));
    assert_int_equal(shutdown(fd, SHUT_RDWR), 0);
    int64_t before = used_ms();
    must_fail(iwarp_eq_get(p->eq, &event, 500), IWARP_AGAIN, "no event");
    assert_in_range(used_ms() - before, 0, 100);
    must(iwarp_listener_close(l));
}

static void listen__on_bound_sockets_of_one_port__each_serves_its_own_peers(void **state)
{
    struct place *p = *state;
    struct iwarp_listener *l4, *l6;
    struct sockaddr_storage at;
    socklen_t len;

    must(iwarp_listen_socket(p->device, bound(AF_INET, SOCK_STREAM, 0), NULL, 4, p->eq, p, &l4));
    must(iwarp_listener_addr(l4, &at, &len));
    in_port_t port = ((struct sockaddr_in *)(void *)&at)->sin_port;
    assert_int_not_equal(port, 0);
    must(iwarp_listen_socket(p->device, bound(AF_INET6, SOCK_STREAM, port), NULL, 4, p->eq, p,
                             &l6)); /* its IPV6_V6ONLY leaves room for it */

    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = port};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = port};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in6.sin6_addr = in6addr_loopback;
    serves(p, l4, (struct sockaddr *)&in, sizeof in);
    start_anew(p->side.qp);
    serves(p, l6, (struct sockaddr *)&in6, sizeof in6);
    must(iwarp_listener_close(l6));
    must(iwarp_listener_close(l4));

    /* The sockets are closed (embedded: with a later turn of the loop): nobody answers. */
    int result = 0;
    for (int i = 0; i < 900 && result == 0; i++) {
        int again = bound(AF_INET, SOCK_STREAM, 0);
        result = connect(again, (struct sockaddr *)&in, sizeof in);
        close(again);
        progress_sleep(result == 0 ? 100000 : 0);
    }
    assert_int_equal(result, -1);
}

static void listen__on_another_kind_of_socket__is_misuse_and_leaves_it_open(void **state)
{
    struct place *p = *state;
    struct iwarp_listener *l, *second;
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    int udp = bound(AF_INET, SOCK_DGRAM, 0), unbound = socket(AF_INET, SOCK_STREAM, 0);
    int busy = bound(AF_INET, SOCK_STREAM, 0), connected = socket(AF_INET, SOCK_STREAM, 0);

    must_fail(iwarp_listen_socket(p->device, -1, NULL, 1, p->eq, NULL, &l), IWARP_MISUSE,
              "not a TCP socket");
    must_fail(iwarp_listen_socket(p->device, udp, NULL, 1, p->eq, NULL, &l), IWARP_MISUSE,
              "not a TCP socket");
    must_fail(iwarp_listen_socket(p->device, unbound, NULL, 1, p->eq, NULL, &l), IWARP_MISUSE,
              "is not bound");
    must_fail(iwarp_listen_socket(p->device, busy, NULL, 0, p->eq, NULL, &l), IWARP_MISUSE,
              "backlog");
    assert_int_equal(listen(busy, 1), 0);
    assert_int_equal(getsockname(busy, (struct sockaddr *)&at, &len), 0);
    assert_int_equal(connect(connected, (struct sockaddr *)&at, sizeof at), 0);
    must_fail(iwarp_listen_socket(p->device, connected, NULL, 1, p->eq, NULL, &l), IWARP_MISUSE,
              "without a peer");
    close(connected);
    must(iwarp_listen_socket(p->device, busy, NULL, 1, p->eq, NULL, &l));
    must_fail(iwarp_listen_socket(p->device, busy, NULL, 1, p->eq, NULL, &second), IWARP_MISUSE,
              "library's own");
    assert_int_not_equal(fcntl(udp, F_GETFD), -1);
    assert_int_not_equal(fcntl(unbound, F_GETFD), -1);
    must(iwarp_listener_close(l));
    close(udp);
    close(unbound);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            listen__on_bound_sockets_of_one_port__each_serves_its_own_peers, setup, teardown),
        cmocka_unit_test_setup_teardown(
            listen__on_another_kind_of_socket__is_misuse_and_leaves_it_open, setup, teardown),
        cmocka_unit_test_setup_teardown(listen__on_a_socket_that_is_shut_down__does_not_spin, setup,
                                        teardown),
    };

    return cmocka_run_group_tests_name("test_socket_listen", tests, NULL, NULL);
}
