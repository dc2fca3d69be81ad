/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the preload library uses (rspreload/adopt.h): TCP connections that become rsockets, and a
 * descriptor for epoll that shows what the rsocket would.
 */
#include "rsockets.h"

#include <netinet/tcp.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static void connection__that_is_adopted__is_an_rsocket_of_the_same_number(void **state)
{
    struct sockaddr_in before, after;
    socklen_t len = sizeof before;
    int fds[2], one = 1;

    (void)state;
    tcp_pair(fds);
    works(setsockopt(fds[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
    works(fcntl(fds[0], F_SETFL, O_NONBLOCK));
    works(getpeername(fds[0], (struct sockaddr *)&before, &len));
    works(iwarp_rs_adopt(fds[0], IWARP_RS_CLIENT, NULL, 0, 5000));
    assert_true(iwarp_rs_is(fds[0]));
    assert_int_equal(iwarp_rs_start_up(fds[0], 0), EINPROGRESS);
    fails(rsend(fds[0], "x", 1, 0), EAGAIN);
    works(iwarp_rs_adopt(fds[1], IWARP_RS_SERVER, NULL, 0, 5000));
    assert_int_equal(iwarp_rs_start_up(fds[0], -1), 0);
    assert_int_equal(iwarp_rs_start_up(fds[1], RS_WAIT_MS), 0);
    works(rgetpeername(fds[0], (struct sockaddr *)&after, &len));
    assert_memory_equal(&before, &after, sizeof before);
    one = 0;
    len = sizeof one;
    works(rgetsockopt(fds[0], IPPROTO_TCP, TCP_NODELAY, &one, &len));
    assert_int_equal(one, 1);
    assert_true(works(rfcntl(fds[0], F_GETFL)) & O_NONBLOCK);
    fails(iwarp_rs_adopt(fds[0], IWARP_RS_CLIENT, NULL, 0, 0), ENOTCONN);
    for (int i = 0; i < 2; i++) {
        set_nonblocking(fds[i], false);
        send_octets(fds[i], "adopted", 7);
        expect_octets(fds[!i], "adopted", 7);
    }
    close_pair(fds);
}

static void octets__read_before_the_adoption__count(void **state)
{
    uint8_t request[16];
    int fds[2];

    (void)state;
    tcp_pair(fds);
    works(iwarp_rs_adopt(fds[0], IWARP_RS_CLIENT, NULL, 0, 5000));
    assert_int_equal(recv(fds[1], request, sizeof request, MSG_WAITALL), sizeof request);
    assert_memory_equal(request, "MPA ID Req Frame", 16);
    works(iwarp_rs_adopt(fds[1], IWARP_RS_SERVER, request, sizeof request, 5000));
    send_octets(fds[1], "here", 4); /* waits for the start-up */
    expect_octets(fds[0], "here", 4);
    close_pair(fds);
}

/* A plain server that reads lines would wait for the end of one. The peer gets it whole. */
static void request__ends_with_a_blank_line__and_is_taken(void **state)
{
    uint8_t request[20 + 4 + 60]; /* head, IRD and ORD, private data: RFC 5044 7.1, RFC 6581 7 */
    int fds[2];

    (void)state;
    tcp_pair(fds);
    works(iwarp_rs_adopt(fds[0], IWARP_RS_CLIENT, NULL, 0, 5000));
    assert_int_equal(recv(fds[1], request, sizeof request, MSG_WAITALL), sizeof request);
    assert_int_equal(request[18] << 8 | request[19], sizeof request - 20);
    assert_memory_equal(request + sizeof request - 4, "\r\n\r\n", 4);
    works(iwarp_rs_adopt(fds[1], IWARP_RS_SERVER, request, sizeof request, 5000));
    for (int i = 0; i < 2; i++) {
        send_octets(fds[i], "taken", 5);
        expect_octets(fds[!i], "taken", 5);
    }
    close_pair(fds);
}

/* The Request of another end, perhaps an older one, offers no second half: it is lent later. */
static void second_half__that_is_not_offered__is_lent_later(void **state)
{
    static uint8_t octets[1 << 20], got[sizeof octets];
    uint8_t request[20 + 4 + 60];
    int fds[2];

    (void)state;
    fill(octets, sizeof octets, 0, 7);
    for (unsigned offered = 0; offered < 2; offered++) {
        tcp_pair(fds);
        works(iwarp_rs_adopt(fds[0], IWARP_RS_CLIENT, NULL, 0, 5000));
        assert_int_equal(recv(fds[1], request, sizeof request, MSG_WAITALL), sizeof request);
        if (!offered) {
            request[24 + 1] &= (uint8_t)~0x04; /* flags of the private data */
        }
        works(iwarp_rs_adopt(fds[1], IWARP_RS_SERVER, request, sizeof request, 5000));
        for (unsigned i = 0; i < 2; i++) { /* both halves twice and more, in each direction */
            size_t sent = 0, had = 0;
            for (const uint64_t end = now_ms() + RS_WAIT_MS; had < sizeof octets;) {
                const ssize_t n = rsend(fds[i], octets + sent, sizeof octets - sent, MSG_DONTWAIT);
                sent += n > 0 ? (size_t)n : 0;
                const ssize_t m = rrecv(fds[!i], got + had, sizeof got - had, MSG_DONTWAIT);
                had += m > 0 ? (size_t)m : 0;
                assert_true(now_ms() < end);
            }
            check(got, sizeof got, 0, 7);
        }
        close_pair(fds);
    }
}

static _Atomic int calls;

static void count(void *by)
{
    atomic_fetch_add(&calls, *(int *)by);
}

static void await_call(void)
{
    for (int ms = 0; atomic_load(&calls) == 0; ms++) {
        assert_true(ms < RS_WAIT_MS);
        usleep(1000);
    }
}

/* Of a connection that is established, of one whose peer hangs up, of one that is closed first. */
static void start_up__that_is_over__is_told_once(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        int fds[2], by = 1;
        atomic_store(&calls, 0);
        tcp_pair(fds);
        works(iwarp_rs_adopt(fds[0], IWARP_RS_CLIENT, NULL, 0, 5000));
        assert_true(iwarp_rs_start_by(fds[0], count, &by));
        assert_int_equal(iwarp_rs_start_up(fds[0], 50), EINPROGRESS);
        assert_int_equal(atomic_load(&calls), 0);
        if (i == 0) {
            works(iwarp_rs_adopt(fds[1], IWARP_RS_SERVER, NULL, 0, 5000));
        } else if (i == 1) {
            close(fds[1]);
        } else {
            rclose(fds[0]);
        }
        await_call();
        if (i < 2) {
            assert_int_equal(iwarp_rs_start_up(fds[0], RS_WAIT_MS), i == 0 ? 0 : ECONNRESET);
            assert_false(iwarp_rs_start_by(fds[0], count, &by));
            rclose(fds[0]);
        }
        if (i == 0) {
            rclose(fds[1]);
        } else if (i == 2) {
            close(fds[1]);
        }
        usleep(100000); /* the socket is freed */
        assert_int_equal(atomic_load(&calls), 1);
    }
    assert_false(iwarp_rs_start_by(-1, count, NULL));
}

static void adoption__of_what_cannot_be__leaves_it_as_it_was(void **state)
{
    int pair[2], fds[2];
    char c;

    (void)state;
    works(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    fails(iwarp_rs_adopt(pair[0], IWARP_RS_CLIENT, NULL, 0, 0), EOPNOTSUPP);
    fails(iwarp_rs_adopt(-1, IWARP_RS_CLIENT, NULL, 0, 0), EBADF);
    fails(iwarp_rs_adopt(STDIN_FILENO, IWARP_RS_CLIENT, NULL, 0, 0), ENOTSOCK);
    assert_int_equal(write(pair[0], "x", 1), 1);
    assert_int_equal(read(pair[1], &c, 1), 1);
    close(pair[0]);
    close(pair[1]);

    /* A peer that says nothing, one that hangs up, one that speaks another language. */
    for (unsigned i = 0; i < 4; i++) {
        tcp_pair(fds);
        works(iwarp_rs_adopt(fds[0], i == 3 ? IWARP_RS_SERVER : IWARP_RS_CLIENT, NULL, 0, 200));
        if (i == 1) {
            close(fds[1]);
        } else if (i >= 2) {
            char nonsense[100] = "HTTP/1.1 400 Bad Request";
            assert_int_equal(send(fds[1], nonsense, sizeof nonsense, 0), sizeof nonsense);
        }
        int result = iwarp_rs_start_up(fds[0], RS_WAIT_MS);
        if (i == 0) {
            assert_int_equal(result, ETIMEDOUT);
        } else if (i == 1) {
            assert_int_equal(result, ECONNRESET);
        } else {
            assert_int_equal(result, EPROTO);
        }
        works(iwarp_rs_forget(fds[0]));
        assert_false(iwarp_rs_is(fds[0]));
        assert_true(fcntl(fds[0], F_GETFL) >= 0);
        close(fds[0]);
        if (i != 1) {
            close(fds[1]);
        }
    }
}

/* --- options --------------------------------------------------------------------------------- */

static void set_int(int fd, int level, int name, int value)
{
    works(iwarp_rs_is(fd) ? rsetsockopt(fd, level, name, &value, sizeof value)
                          : setsockopt(fd, level, name, &value, sizeof value));
}

static int int_of(int fd, int level, int name)
{
    socklen_t len = sizeof(int);
    int value = -1;

    works(iwarp_rs_is(fd) ? rgetsockopt(fd, level, name, &value, &len)
                          : getsockopt(fd, level, name, &value, &len));
    return value;
}

static struct linger linger_of(int fd)
{
    struct linger linger = {-1, -1};
    socklen_t len = sizeof linger;

    works(iwarp_rs_is(fd) ? rgetsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &len)
                          : getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &len));
    return linger;
}

/* The library's descriptor of the connection from that port. */
static int library_s(in_port_t port)
{
    for (int fd = 3; fd < 1000; fd++) {
        struct sockaddr_in name, peer;
        socklen_t len = sizeof name, peer_len = sizeof peer;
        if (!iwarp_rs_is(fd) && getpeername(fd, (struct sockaddr *)&peer, &peer_len) == 0 &&
            getsockname(fd, (struct sockaddr *)&name, &len) == 0 && name.sin_family == AF_INET &&
            name.sin_port == port) {
            return fd;
        }
    }
    fail_msg("no descriptor of the connection");
    return -1;
}

static void set_before(int fd)
{
    set_int(fd, IPPROTO_TCP, TCP_NODELAY, 0);
    set_int(fd, IPPROTO_TCP, TCP_CORK, 1);
    set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 0);
    set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1234);
    set_int(fd, SOL_SOCKET, SO_RCVLOWAT, 4096);
    set_int(fd, IPPROTO_IP, IP_TTL, 33);
    works(setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 7}, sizeof(struct linger)));
    works(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0, 50000},
                     sizeof(struct timeval)));
}

static void are_as_before(int fd)
{
    assert_int_equal(int_of(fd, IPPROTO_TCP, TCP_NODELAY), 0);
    assert_int_equal(int_of(fd, SOL_SOCKET, SO_KEEPALIVE), 0);
    assert_int_equal(int_of(fd, IPPROTO_TCP, TCP_KEEPIDLE), 1234);
    assert_int_equal(linger_of(fd).l_onoff, 1);
    assert_int_equal(linger_of(fd).l_linger, 7);
}

static void options__of_an_adopted_socket__are_its_connection_s(void **state)
{
    (void)state;
    for (unsigned server = 0; server < 2; server++) {
        struct sockaddr_in name;
        socklen_t len = sizeof name;
        struct tcp_info info = {0};
        int fds[2];
        char c;

        tcp_pair(fds);
        const int fd = fds[server];
        set_before(fd);
        works(getsockname(fd, (struct sockaddr *)&name, &len));
        works(iwarp_rs_adopt(fds[0], IWARP_RS_CLIENT, NULL, 0, 5000));
        works(iwarp_rs_adopt(fds[1], IWARP_RS_SERVER, NULL, 0, 5000));
        assert_int_equal(iwarp_rs_start_up(fds[0], RS_WAIT_MS), 0);
        assert_int_equal(iwarp_rs_start_up(fds[1], RS_WAIT_MS), 0);

        are_as_before(fd);
        assert_int_equal(int_of(fd, IPPROTO_TCP, TCP_CORK), 1);
        assert_int_equal(int_of(fd, SOL_SOCKET, SO_RCVLOWAT), 4096);
        assert_int_equal(int_of(fd, IPPROTO_IP, IP_TTL), 33);
        fails(rrecv(fd, &c, 1, 0), EAGAIN); /* SO_RCVTIMEO */
        const int tcp = library_s(name.sin_port);
        assert_int_equal(int_of(tcp, IPPROTO_TCP, TCP_NODELAY), 1);
        assert_int_equal(int_of(tcp, IPPROTO_TCP, TCP_CORK), 0);
        assert_int_equal(int_of(tcp, SOL_SOCKET, SO_RCVLOWAT), 1);
        assert_int_equal(int_of(tcp, SOL_SOCKET, SO_KEEPALIVE), 1);
        assert_int_equal(linger_of(tcp).l_onoff, 0);

        set_int(fd, IPPROTO_IP, IP_TTL, 44); /* reaches TCP */
        set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, 55);
        set_int(fd, IPPROTO_TCP, TCP_NODELAY, 5); /* does not */
        assert_int_equal(int_of(tcp, IPPROTO_IP, IP_TTL), 44);
        assert_int_equal(int_of(tcp, IPPROTO_TCP, TCP_KEEPIDLE), 55);
        assert_int_equal(int_of(fd, IPPROTO_TCP, TCP_KEEPIDLE), 55);
        assert_int_equal(int_of(fd, IPPROTO_TCP, TCP_NODELAY), 1);
        fails(rsetsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){0}, sizeof(int)), EINVAL);
        fails(rsetsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){0}, 1), EINVAL);
        len = sizeof info;
        works(rgetsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
        assert_int_equal(info.tcpi_state, TCP_ESTABLISHED);
        assert_true(info.tcpi_snd_mss > 536);

        fails(send(fd, "x", 1, MSG_NOSIGNAL), EPIPE); /* past the library */
        send_octets(fds[!server], "unharmed", 8);
        expect_octets(fd, "unharmed", 8);
        rclose(fds[!server]);
        rrecv(fd, &c, 1, MSG_DONTWAIT);
        for (int i = 0; i < RS_WAIT_MS && rrecv(fd, &c, 1, MSG_DONTWAIT) != 0; i++) {
            usleep(1000);
        }
        assert_int_equal(int_of(fd, IPPROTO_TCP, TCP_KEEPIDLE), 55); /* it is over, or soon */
        works(rgetsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
        rclose(fd);
    }
}

static void probes__of_a_program_with_its_own__are_the_connection_s(void **state)
{
    struct sockaddr_in name;
    socklen_t len = sizeof name;
    int fds[2];

    (void)state;
    tcp_pair(fds);
    set_int(fds[1], SOL_SOCKET, SO_KEEPALIVE, 1);
    set_int(fds[1], IPPROTO_TCP, TCP_KEEPIDLE, 40);
    set_int(fds[1], IPPROTO_TCP, TCP_KEEPINTVL, 7);
    set_int(fds[1], IPPROTO_TCP, TCP_KEEPCNT, 3);
    works(getsockname(fds[1], (struct sockaddr *)&name, &len));
    works(iwarp_rs_adopt(fds[0], IWARP_RS_CLIENT, NULL, 0, 5000));
    works(iwarp_rs_adopt(fds[1], IWARP_RS_SERVER, NULL, 0, 5000));
    assert_int_equal(iwarp_rs_start_up(fds[0], RS_WAIT_MS), 0);
    const int tcp = library_s(name.sin_port);
    assert_int_equal(int_of(tcp, IPPROTO_TCP, TCP_KEEPIDLE), 40);
    assert_int_equal(int_of(tcp, IPPROTO_TCP, TCP_KEEPINTVL), 7);
    assert_int_equal(int_of(tcp, IPPROTO_TCP, TCP_KEEPCNT), 3);
    close_pair(fds);
}

/* A peer that does not answer, one that speaks another language: TCP is closed by the library. */
static void options__of_a_client_whose_peer_has_no_rdma__are_those_of_the_next_socket(void **state)
{
    (void)state;
    for (unsigned speaks = 0; speaks < 2; speaks++) {
        char request[200];
        int fds[2];

        tcp_pair(fds);
        set_before(fds[0]);
        set_int(fds[0], SOL_SOCKET, SO_SNDBUF, 65536);
        works(fcntl(fds[0], F_SETFL, 0));
        works(iwarp_rs_adopt(fds[0], IWARP_RS_CLIENT, NULL, 0, 200));
        if (speaks) {
            assert_int_equal(send(fds[1], "HTTP/1.1 400 Bad Request", 24, 0), 24);
        }
        assert_int_not_equal(iwarp_rs_start_up(fds[0], RS_WAIT_MS), 0);
        works(iwarp_rs_forget(fds[0]));
        are_as_before(fds[0]);
        assert_int_equal(int_of(fds[0], IPPROTO_IP, IP_TTL), 33);
        assert_int_equal(int_of(fds[0], SOL_SOCKET, SO_SNDBUF), 2 * 65536);
        assert_int_equal(fcntl(fds[0], F_GETFL) & O_NONBLOCK, 0);
        fails(send(fds[0], "x", 1, MSG_NOSIGNAL), EPIPE);
        assert_true(recv(fds[1], request, sizeof request, 0) > 0); /* and then the end, at once */
        assert_true(recv(fds[1], request, sizeof request, 0) <= 0);
        close(fds[0]);
        close(fds[1]);
    }
}

/* --- epoll ----------------------------------------------------------------------------------- */

struct watch {
    int set;
    uint32_t edge;
};

static void watch(struct watch *w, int fd, bool edge)
{
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | (edge ? EPOLLET : 0)};
    int face = works(iwarp_rs_watch(fd));

    assert_int_equal(iwarp_rs_watch(fd), face);
    w->set = works(epoll_create1(0));
    works(epoll_ctl(w->set, EPOLL_CTL_ADD, face, &e));
}

/* Until these events, and no others of `mask`, are shown. */
static void shows(struct watch *w, uint32_t mask, uint32_t wanted)
{
    uint64_t until = now_ms() + 5000;
    uint32_t got = 0;

    do {
        struct epoll_event e = {0};
        (void)epoll_wait(w->set, &e, 1, 10);
        got = e.events;
    } while ((got & mask) != wanted && now_ms() < until);
    assert_int_equal(got & mask, wanted);
}

/* As TCP does: what is written to a peer that has closed is taken once. */
static void write_until_hung_up(int fd)
{
    for (unsigned i = 0; i < 5000 && rsend(fd, "x", 1, 0) == 1; i++) {
        sleep_ms(1);
    }
    assert_int_equal(errno, EPIPE);
}

static void epoll__of_levels__shows_what_the_rsocket_can(void **state)
{
    static char big[50000];
    struct watch w;
    int fds[2];
    char c;

    (void)state;
    for (unsigned adopted = 0; adopted < 2; adopted++) {
        if (adopted) {
            adopt_pair(fds);
        } else {
            make_pair(fds);
        }
        watch(&w, fds[0], false);
        shows(&w, EPOLLIN | EPOLLOUT, EPOLLOUT);
        send_octets(fds[1], "ab", 2);
        shows(&w, EPOLLIN | EPOLLOUT, EPOLLIN | EPOLLOUT);
        assert_int_equal(rrecv(fds[0], &c, 1, 0), 1);
        shows(&w, EPOLLIN, EPOLLIN);
        assert_int_equal(rrecv(fds[0], &c, 1, 0), 1);
        shows(&w, EPOLLIN | EPOLLOUT, EPOLLOUT);
        while (rsend(fds[0], big, sizeof big, MSG_DONTWAIT) > 0 ||
               polled(fds[0], POLLOUT, 50) != 0) {
        }
        shows(&w, EPOLLIN | EPOLLOUT, 0);
        send_octets(fds[1], "c", 1); /* readable, not writable */
        shows(&w, EPOLLIN | EPOLLOUT, EPOLLIN);
        assert_int_equal(rrecv(fds[0], &c, 1, 0), 1);
        while (rrecv(fds[1], big, sizeof big, MSG_DONTWAIT) > 0 ||
               polled(fds[1], POLLIN, 50) != 0) {
        }
        shows(&w, EPOLLIN | EPOLLOUT, EPOLLOUT);
        works(rshutdown(fds[1], SHUT_WR));
        shows(&w, EPOLLRDHUP | EPOLLHUP, EPOLLRDHUP);
        assert_int_equal(rrecv(fds[0], &c, 1, 0), 0);
        works(rclose(fds[1]));
        if (adopted) {
            write_until_hung_up(fds[0]);
        }
        shows(&w, EPOLLHUP, EPOLLHUP);
        works(rclose(fds[0]));
        close(w.set);
    }
}

static void epoll__of_edges__shows_each_arrival(void **state)
{
    struct watch w;
    struct epoll_event e;
    int fds[2];
    char got[400];

    (void)state;
    make_pair(fds);
    watch(&w, fds[0], true);
    shows(&w, EPOLLIN | EPOLLOUT, EPOLLOUT);
    for (unsigned i = 0; i < 350;
         i++) { /* what came before stays unread, more than a socket holds */
        send_octets(fds[1], "x", 1);
        shows(&w, EPOLLIN, EPOLLIN);
    }
    assert_int_equal(epoll_wait(w.set, &e, 1, 50), 0);
    assert_int_equal(rrecv(fds[0], got, sizeof got, MSG_DONTWAIT), 350);
    send_octets(fds[1], "y", 1);
    shows(&w, EPOLLIN, EPOLLIN);
    close_pair(fds);
    close(w.set);
}

static void epoll__of_a_listener_and_a_connect__shows_both(void **state)
{
    struct watch server, client;
    uint16_t port;
    int fds[2], listener = listener_at(&port, 2);

    (void)state;
    watch(&server, listener, false);
    shows(&server, EPOLLIN, 0);
    fds[0] = works(rsocket(AF_INET, SOCK_STREAM, 0));
    watch(&client, fds[0], false);
    begin_connect(fds[0], port);
    shows(&client, EPOLLIN | EPOLLOUT, 0);
    shows(&server, EPOLLIN, EPOLLIN);
    fds[1] = works(raccept(listener, NULL, NULL));
    shows(&server, EPOLLIN, 0);
    shows(&client, EPOLLIN | EPOLLOUT, EPOLLOUT);
    send_octets(fds[1], "x", 1);
    shows(&client, EPOLLIN, EPOLLIN);
    close_pair(fds);
    works(rclose(listener));
    close(client.set);
    close(server.set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connection__that_is_adopted__is_an_rsocket_of_the_same_number),
        cmocka_unit_test(octets__read_before_the_adoption__count),
        cmocka_unit_test(request__ends_with_a_blank_line__and_is_taken),
        cmocka_unit_test(second_half__that_is_not_offered__is_lent_later),
        cmocka_unit_test(start_up__that_is_over__is_told_once),
        cmocka_unit_test(adoption__of_what_cannot_be__leaves_it_as_it_was),
        cmocka_unit_test(options__of_an_adopted_socket__are_its_connection_s),
        cmocka_unit_test(probes__of_a_program_with_its_own__are_the_connection_s),
        cmocka_unit_test(options__of_a_client_whose_peer_has_no_rdma__are_those_of_the_next_socket),
        cmocka_unit_test(epoll__of_levels__shows_what_the_rsocket_can),
        cmocka_unit_test(epoll__of_edges__shows_each_arrival),
        cmocka_unit_test(epoll__of_a_listener_and_a_connect__shows_both),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
