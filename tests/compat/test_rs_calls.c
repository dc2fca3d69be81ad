/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every call of rdma/rsocket.h, as sockets have it: what it does, and errno in misuse.
 */
#include "rsockets.h"

#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/uio.h>

static void rsocket__of_any_kind__is_made_or_refused(void **state)
{
    (void)state;
    works(rclose(works(rsocket(AF_INET, SOCK_STREAM, IPPROTO_TCP))));
    works(rclose(works(rsocket(AF_INET6, SOCK_STREAM, 0))));
    int fd = works(rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    assert_true(works(rfcntl(fd, F_GETFL)) & O_NONBLOCK);
    assert_int_equal(rfcntl(fd, F_GETFD), FD_CLOEXEC);
    works(rclose(fd));
    fails(rsocket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
    fails(rsocket(AF_INET, SOCK_DGRAM, 0), EPROTONOSUPPORT);
    fails(rsocket(AF_INET, SOCK_SEQPACKET, 0), EPROTONOSUPPORT);
}

static void calls__with_a_number_of_no_rsocket__are_bad_descriptors(void **state)
{
    struct sockaddr_in at = loopback(1);
    socklen_t len = sizeof at;
    char c[4];
    struct iovec iov = {c, 1};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    int pipes[2], value = 0;
    socklen_t value_len = sizeof value;

    (void)state;
    works(pipe(pipes));
    for (unsigned i = 0; i < 3; i++) {
        int fd = (int[]){-1, 1 << 28, pipes[0]}[i];
        fails(rbind(fd, (struct sockaddr *)&at, len), EBADF);
        fails(rlisten(fd, 1), EBADF);
        fails(raccept(fd, NULL, NULL), EBADF);
        fails(rconnect(fd, (struct sockaddr *)&at, len), EBADF);
        fails(rshutdown(fd, SHUT_RD), EBADF);
        fails(rclose(fd), EBADF);
        fails(rrecv(fd, c, 1, 0), EBADF);
        fails(rrecvfrom(fd, c, 1, 0, NULL, NULL), EBADF);
        fails(rrecvmsg(fd, &msg, 0), EBADF);
        fails(rread(fd, c, 1), EBADF);
        fails(rreadv(fd, &iov, 1), EBADF);
        fails(rsend(fd, c, 1, 0), EBADF);
        fails(rsendto(fd, c, 1, 0, NULL, 0), EBADF);
        fails(rsendmsg(fd, &msg, 0), EBADF);
        fails(rwrite(fd, c, 1), EBADF);
        fails(rwritev(fd, &iov, 1), EBADF);
        fails(rgetpeername(fd, (struct sockaddr *)&at, &len), EBADF);
        fails(rgetsockname(fd, (struct sockaddr *)&at, &len), EBADF);
        fails(rsetsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, sizeof value), EBADF);
        fails(rgetsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, &value_len), EBADF);
        fails(rfcntl(fd, F_GETFL), EBADF);
        fails(riomap(fd, c, 1, PROT_WRITE, 0, -1), EBADF);
        fails(riounmap(fd, c, 1), EBADF);
        fails((ssize_t)riowrite(fd, c, 1, 0, 0), EBADF);
        fails(iwarp_rs_watch(fd), EBADF);
        fails(iwarp_rs_forget(fd), EBADF);
        assert_false(iwarp_rs_is(fd));
        assert_int_equal(iwarp_rs_start_up(fd, 0), EBADF);
    }
    close(pipes[0]);
    close(pipes[1]);
}

static void calls__in_the_wrong_state__say_which(void **state)
{
    struct sockaddr_in at = loopback(1);
    socklen_t len = sizeof at;
    uint16_t port;
    char c = 0;
    int open = works(rsocket(AF_INET, SOCK_STREAM, 0)), listener = listener_at(&port, 2), fds[2];

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        int fd = i ? listener : open;
        fails(rsend(fd, &c, 1, 0), ENOTCONN);
        fails(rrecv(fd, &c, 1, 0), ENOTCONN);
        fails(rgetpeername(fd, (struct sockaddr *)&at, &len), ENOTCONN);
        fails(rshutdown(fd, SHUT_WR), ENOTCONN);
        assert_int_equal(iwarp_rs_start_up(fd, 0), ENOTCONN);
    }
    fails(raccept(open, NULL, NULL), EINVAL);
    fails(rconnect(listener, (struct sockaddr *)&at, len), EINVAL);
    works(rlisten(listener, 3));
    fails(rconnect(open, &(struct sockaddr){.sa_family = AF_UNIX}, sizeof(struct sockaddr)),
          EAFNOSUPPORT);
    set_nonblocking(listener, true);
    fails(raccept(listener, NULL, NULL), EAGAIN);
    set_nonblocking(listener, false);
    works(rsetsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0, 30000},
                      sizeof(struct timeval)));
    fails(raccept(listener, NULL, NULL), EAGAIN);

    make_pair(fds);
    at = loopback(port);
    fails(rconnect(fds[0], (struct sockaddr *)&at, len), EISCONN);
    fails(rlisten(fds[0], 1), EINVAL);
    fails(raccept(fds[0], NULL, NULL), EINVAL);
    fails(rshutdown(fds[0], 77), EINVAL);
    fails(rsend(fds[0], &c, 1, MSG_OOB), EOPNOTSUPP);
    fails(rrecv(fds[0], &c, 1, MSG_OOB), EINVAL);
    fails(rreadv(fds[0], NULL, -1), EINVAL);
    fails(rwritev(fds[0], NULL, -1), EINVAL);
    fails(rsendto(fds[0], &c, 1, 0, (struct sockaddr *)&at, len), EISCONN);
    fails(rfcntl(fds[0], F_DUPFD, 0), EINVAL);
    fails(iwarp_rs_adopt(fds[0], IWARP_RS_CLIENT, NULL, 0, 0), ENOTCONN);
    close_pair(fds);
    works(rclose(listener));
    works(rclose(open));
}

static void rconnect__where_nobody_listens__is_refused(void **state)
{
    uint16_t port;
    int listener = listener_at(&port, 1), fd = works(rsocket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in to = loopback(port);

    (void)state;
    works(rclose(listener));
    fails(rconnect(fd, (struct sockaddr *)&to, sizeof to), ECONNREFUSED);
    assert_int_equal(error_of(fd), 0);
    begin_connect(fd, port);
    assert_true(polled(fd, POLLOUT, RS_WAIT_MS) & POLLERR);
    assert_int_equal(error_of(fd), ECONNREFUSED);
    works(rclose(fd));
}

/* As with TCP: what was bound stays so. */
static void rconnect__after_one_that_failed__has_the_same_port(void **state)
{
    uint16_t port, wanted;
    int listener = listener_at(&port, 1), fd = works(rsocket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in own = loopback(0), to = loopback(port), name;
    socklen_t len = sizeof own;

    (void)state;
    works(rbind(fd, (struct sockaddr *)&own, sizeof own));
    works(rgetsockname(fd, (struct sockaddr *)&own, &len));
    wanted = own.sin_port;
    works(rclose(listener));
    for (int i = 0; i < 2; i++) {
        fails(rconnect(fd, (struct sockaddr *)&to, sizeof to), ECONNREFUSED);
        len = sizeof name;
        works(rgetsockname(fd, (struct sockaddr *)&name, &len));
        assert_int_equal(name.sin_port, wanted);
    }
    listener = listener_at(&port, 1);
    begin_connect(fd, port);
    len = sizeof name;
    int end = works(raccept(listener, (struct sockaddr *)&name, &len));
    assert_int_equal(name.sin_port, wanted);
    works(rclose(end));
    works(rclose(fd));
    works(rclose(listener));
}

static void names__of_both_ends__are_each_others(void **state)
{
    struct sockaddr_in a, b;
    socklen_t len = sizeof a;
    int fds[2];

    (void)state;
    make_pair(fds);
    for (int i = 0; i < 2; i++) {
        works(rgetsockname(fds[i], (struct sockaddr *)&a, &len));
        works(rgetpeername(fds[!i], (struct sockaddr *)&b, &len));
        assert_int_equal(len, sizeof a);
        assert_int_equal(a.sin_port, b.sin_port);
        assert_int_equal(a.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    }
    len = 2;
    works(rgetpeername(fds[0], (struct sockaddr *)&b, &len));
    assert_int_equal(len, sizeof b);
    close_pair(fds);
}

static void set_int(int fd, int level, int name, int value)
{
    works(rsetsockopt(fd, level, name, &value, sizeof value));
}

static int get_int(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof value;

    works(rgetsockopt(fd, level, name, &value, &len));
    return value;
}

static void options__of_each_level__are_kept(void **state)
{
    int fd = works(rsocket(AF_INET, SOCK_STREAM, 0)), value = 1;
    uint16_t port;
    socklen_t len = sizeof value;

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        int name = (int[]){RDMA_SQSIZE, RDMA_RQSIZE, RDMA_IOMAPSIZE, RDMA_INLINE}[i];
        set_int(fd, SOL_RDMA, name, 100);
        assert_true(get_int(fd, SOL_RDMA, name) > 0);
    }
    assert_int_equal(get_int(fd, SOL_RDMA, RDMA_SQSIZE), 100);
    set_int(fd, SOL_RDMA, RDMA_IOMAPSIZE, 300);
    assert_int_equal(get_int(fd, SOL_RDMA, RDMA_IOMAPSIZE), 512);
    set_int(fd, SOL_RDMA, RDMA_RQSIZE, -5);
    assert_true(get_int(fd, SOL_RDMA, RDMA_RQSIZE) >= 4);
    set_int(fd, SOL_SOCKET, SO_SNDBUF, 10000);
    assert_true(get_int(fd, SOL_SOCKET, SO_SNDBUF) >= 10000);
    set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    assert_int_equal(get_int(fd, IPPROTO_TCP, TCP_NODELAY), 1);
    set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    assert_int_equal(get_int(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    assert_int_equal(get_int(fd, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
    fails(rsetsockopt(fd, SOL_RDMA, 9999, &value, sizeof value), ENOPROTOOPT);
    fails(rgetsockopt(fd, SOL_RDMA, 9999, &value, &len), ENOPROTOOPT);
    fails(rsetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, 1), EINVAL);
    works(rclose(fd));
    fd = works(rsocket(AF_INET6, SOCK_STREAM, 0));
    set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    assert_int_equal(get_int(fd, IPPROTO_IPV6, IPV6_V6ONLY), 1);
    works(rclose(fd));
    fd = listener_at(&port, 1);
    assert_int_equal(get_int(fd, SOL_SOCKET, SO_ACCEPTCONN), 1);
    works(rclose(fd));
}

/* One that is not bound listens everywhere. */
static void ipv6__listener_that_is_not_bound__has_a_port_and_both_have_names(void **state)
{
    struct sockaddr_in6 at = {0}, to = {.sin6_family = AF_INET6}, name = {0};
    socklen_t len = sizeof at;
    int fds[2];
    char octet;

    (void)state;
    int listener = works(rsocket(AF_INET6, SOCK_STREAM, 0));
    works(rlisten(listener, 1));
    works(rgetsockname(listener, (struct sockaddr *)&at, &len));
    assert_int_equal(len, sizeof at);
    assert_int_equal(at.sin6_family, AF_INET6);
    assert_int_not_equal(at.sin6_port, 0);
    to.sin6_port = at.sin6_port;
    to.sin6_addr = in6addr_loopback;
    fds[0] = works(rsocket(AF_INET6, SOCK_STREAM, 0));
    set_nonblocking(fds[0], true);
    fails(rconnect(fds[0], (struct sockaddr *)&to, sizeof to), EINPROGRESS);
    fds[1] = works(raccept(listener, (struct sockaddr *)&at, &len));
    assert_int_equal(len, sizeof at);
    finish_connect(fds[0]);
    works(rgetsockname(fds[0], (struct sockaddr *)&name, &len));
    assert_memory_equal(&name, &at, sizeof at);
    works(rgetpeername(fds[0], (struct sockaddr *)&name, &len));
    assert_memory_equal(&name, &to, sizeof to);
    assert_int_equal(rsend(fds[0], "x", 1, 0), 1);
    assert_int_equal(rrecv(fds[1], &octet, 1, 0), 1);
    works(rclose(listener));
    close_pair(fds);
}

static void forms__of_sending_and_receiving__carry_the_same(void **state)
{
    char a[4], b[5], text[] = "nine octs";
    struct iovec out[3] = {{text, 3}, {NULL, 0}, {text + 3, 6}}, in[2] = {{a, 4}, {b, 5}};
    struct msghdr to = {.msg_iov = out, .msg_iovlen = 3}, from = {.msg_iov = in, .msg_iovlen = 2};
    int fds[2];

    (void)state;
    make_pair(fds);
    for (unsigned form = 0; form < 8; form++) {
        int s = fds[form & 1], r = fds[!(form & 1)];
        assert_int_equal(form % 4 == 0   ? rwritev(s, out, 3)
                         : form % 4 == 1 ? rsendmsg(s, &to, 0)
                         : form % 4 == 2 ? rwrite(s, text, 9)
                                         : rsendto(s, text, 9, 0, NULL, 0),
                         9);
        assert_true(polled(r, POLLIN, RS_WAIT_MS) & POLLIN);
        memset(a, 0, sizeof a);
        memset(b, 0, sizeof b);
        if (form % 4 < 2) {
            assert_int_equal(form % 4 ? rreadv(r, in, 2) : rrecvmsg(r, &from, 0), 9);
        } else if (form % 4 == 2) {
            assert_int_equal(rread(r, a, 4), 4);
            assert_int_equal(rread(r, b, 100 > sizeof b ? sizeof b : 100), 5);
        } else {
            assert_int_equal(rrecv(r, a, 4, 0), 4);
            assert_int_equal(rrecvfrom(r, b, 5, 0, NULL, NULL), 5);
        }
        assert_memory_equal(a, "nine", 4);
        assert_memory_equal(b, " octs", 5);
    }
    assert_int_equal(rsend(fds[0], text, 0, 0), 0);
    assert_int_equal(rrecv(fds[1], a, 0, 0), 0);
    close_pair(fds);
}

static void flags__of_receives__peek_wait_and_do_not(void **state)
{
    char got[16];
    int fds[2];

    (void)state;
    make_pair(fds);
    fails(rrecv(fds[1], got, 1, MSG_DONTWAIT), EAGAIN);
    send_octets(fds[0], "abcd", 4);
    assert_int_equal(polled(fds[1], POLLIN, RS_WAIT_MS), POLLIN);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rrecv(fds[1], got, sizeof got, MSG_PEEK), 4);
        assert_memory_equal(got, "abcd", 4);
    }
    assert_int_equal(rrecv(fds[1], got, 2, 0), 2);
    assert_int_equal(rrecv(fds[1], got, sizeof got, MSG_PEEK), 2);
    assert_memory_equal(got, "cd", 2);
    assert_int_equal(rrecv(fds[1], NULL, 1, MSG_TRUNC), 1); /* dropped */
    assert_int_equal(rrecv(fds[1], got, sizeof got, MSG_WAITALL | MSG_DONTWAIT), 1);
    assert_int_equal(got[0], 'd');
    works(rsetsockopt(fds[1], SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0, 50000},
                      sizeof(struct timeval)));
    uint64_t before = now_ms();
    fails(rrecv(fds[1], got, 1, 0), EAGAIN);
    assert_true(now_ms() - before >= 45);
    send_octets(fds[0], "x", 1);
    assert_int_equal(rrecv(fds[1], got, 4, MSG_WAITALL), 1); /* what had come in time */
    close_pair(fds);
}

static void riowrite__into_what_the_peer_gave__arrives_at_its_offset(void **state)
{
    static uint8_t memory[200000], data[100000];
    uint16_t port;
    int listener = listener_at(&port, 2), fds[2], size = 16;

    (void)state;
    works(rsetsockopt(listener, SOL_RDMA, RDMA_IOMAPSIZE, &size, sizeof size));
    fds[0] = works(rsocket(AF_INET, SOCK_STREAM, 0));
    works(rsetsockopt(fds[0], SOL_RDMA, RDMA_IOMAPSIZE, &size, sizeof size));
    fails(riomap(fds[0], memory, 1, PROT_WRITE, 0, -1), EINVAL);
    connect_through(listener, port, fds);
    fails(riomap(fds[1], memory, 0, PROT_WRITE, 0, -1), EINVAL);
    fails(riomap(fds[1], memory, 1, PROT_EXEC, 0, -1), EINVAL);
    assert_int_equal(riomap(fds[1], memory, sizeof memory, PROT_WRITE, 0, 5000), 5000);
    send_octets(fds[1], "mapped", 6);
    expect_octets(fds[0], "mapped", 6);
    fill(data, sizeof data, 0, 3);
    assert_int_equal(riowrite(fds[0], data, sizeof data, 5000 + 70, 0), sizeof data);
    assert_int_equal((ssize_t)riowrite(fds[0], data, 1, 4999, 0), -1);
    assert_int_equal(errno, EINVAL);
    send_octets(fds[0], "written", 7);
    expect_octets(fds[1], "written", 7);
    check(memory + 70, sizeof data, 0, 3);
    assert_int_equal(memory[69], 0);
    works(riounmap(fds[1], memory, sizeof memory));
    for (int i = 0; i < size; i++) {
        assert_int_equal(riomap(fds[1], memory + i, 1, PROT_WRITE, 0, i), i);
    }
    fails(riomap(fds[1], memory + size, 1, PROT_WRITE, 0, size), ENOMEM);
    works(rclose(listener));
    close_pair(fds);
}

/* It learns of that by nothing. */
static void riowrite__into_what_the_peer_has_taken_back__ends_the_connection(void **state)
{
    static uint8_t memory[100];
    uint16_t port;
    int listener = listener_at(&port, 2), fds[2], size = 1;
    char octet;

    (void)state;
    works(rsetsockopt(listener, SOL_RDMA, RDMA_IOMAPSIZE, &size, sizeof size));
    fds[0] = works(rsocket(AF_INET, SOCK_STREAM, 0));
    works(rsetsockopt(fds[0], SOL_RDMA, RDMA_IOMAPSIZE, &size, sizeof size));
    connect_through(listener, port, fds);
    assert_int_equal(riomap(fds[1], memory, sizeof memory, PROT_WRITE, 0, 0), 0);
    works(riounmap(fds[1], memory, sizeof memory));
    send_octets(fds[1], "x", 1);
    expect_octets(fds[0], "x", 1);
    assert_int_equal(riowrite(fds[0], "late", 4, 0, 0), 4);
    for (int i = 1; i >= 0; i--) {
        assert_true(polled(fds[i], POLLIN, RS_WAIT_MS) & POLLIN);
        assert_true(rrecv(fds[i], &octet, 1, 0) <= 0);
    }
    assert_int_equal(memory[0], 0);
    works(rclose(listener));
    close_pair(fds);
}

static void rselect__of_rsockets_and_a_pipe__says_which(void **state)
{
    fd_set in, out;
    int fds[2], pipes[2];

    (void)state;
    make_pair(fds);
    works(pipe(pipes));
    for (unsigned i = 0; i < 3; i++) {
        FD_ZERO(&in);
        FD_ZERO(&out);
        FD_SET(fds[1], &in);
        FD_SET(pipes[0], &in);
        FD_SET(fds[0], &out);
        if (i == 1) {
            assert_int_equal(write(pipes[1], "x", 1), 1);
        } else if (i == 2) {
            send_octets(fds[0], "x", 1);
            assert_int_equal(polled(fds[1], POLLIN, RS_WAIT_MS), POLLIN);
        }
        struct timeval none = {0, 0};
        assert_int_equal(rselect(FD_SETSIZE, &in, &out, NULL, &none), 1 + (int)i);
        assert_true(FD_ISSET(fds[0], &out));
        assert_int_equal(FD_ISSET(pipes[0], &in) != 0, i >= 1);
        assert_int_equal(FD_ISSET(fds[1], &in) != 0, i == 2);
    }
    const uint64_t before = now_ms();
    assert_int_equal(rselect(0, NULL, NULL, NULL, &(struct timeval){0, 50000}), 0);
    assert_in_range(now_ms() - before, 45, RS_WAIT_MS);
    fails(rselect(-1, NULL, NULL, NULL, NULL), EINVAL);
    FD_ZERO(&in);
    FD_SET(pipes[1] + 200, &in);
    fails(rselect(FD_SETSIZE, &in, NULL, NULL, NULL), EBADF);
    close(pipes[0]);
    close(pipes[1]);
    close_pair(fds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rsocket__of_any_kind__is_made_or_refused),
        cmocka_unit_test(calls__with_a_number_of_no_rsocket__are_bad_descriptors),
        cmocka_unit_test(calls__in_the_wrong_state__say_which),
        cmocka_unit_test(rconnect__where_nobody_listens__is_refused),
        cmocka_unit_test(rconnect__after_one_that_failed__has_the_same_port),
        cmocka_unit_test(names__of_both_ends__are_each_others),
        cmocka_unit_test(options__of_each_level__are_kept),
        cmocka_unit_test(ipv6__listener_that_is_not_bound__has_a_port_and_both_have_names),
        cmocka_unit_test(forms__of_sending_and_receiving__carry_the_same),
        cmocka_unit_test(flags__of_receives__peek_wait_and_do_not),
        cmocka_unit_test(riowrite__into_what_the_peer_gave__arrives_at_its_offset),
        cmocka_unit_test(riowrite__into_what_the_peer_has_taken_back__ends_the_connection),
        cmocka_unit_test(rselect__of_rsockets_and_a_pipe__says_which),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
