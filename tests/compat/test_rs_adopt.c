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
        cmocka_unit_test(epoll__of_levels__shows_what_the_rsocket_can),
        cmocka_unit_test(epoll__of_edges__shows_each_arrival),
        cmocka_unit_test(epoll__of_a_listener_and_a_connect__shows_both),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
