/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets that go to another process with a message (SCM_RIGHTS), as vsftpd's data connections do.
 * The kernel's TCP passes as well.
 *
 *   sockets_passed CASE
 */
#define _GNU_SOURCE
#include "sockets_check.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY 3000000

/* --- descriptors in messages ----------------------------------------------------------------- */

union carrier {
    struct cmsghdr header;
    char octets[CMSG_SPACE(sizeof(int))];
};

/* several: by sendmmsg and recvmmsg. */
static void give(int to, int fd, bool several)
{
    union carrier carrier = {.header = {CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec part = {"", 1};
    struct mmsghdr m = {.msg_hdr = {.msg_iov = &part,
                                    .msg_iovlen = 1,
                                    .msg_control = &carrier,
                                    .msg_controllen = sizeof carrier}};

    memcpy(CMSG_DATA(&carrier.header), &fd, sizeof fd);
    if (several) {
        CHECK(sendmmsg(to, &m, 1, 0) == 1);
    } else {
        CHECK(sendmsg(to, &m.msg_hdr, 0) == 1);
    }
    CHECK(close(fd) == 0);
}

static int take(int from, bool several)
{
    union carrier carrier = {0};
    char octet;
    struct iovec part = {&octet, 1};
    struct mmsghdr m = {.msg_hdr = {.msg_iov = &part,
                                    .msg_iovlen = 1,
                                    .msg_control = &carrier,
                                    .msg_controllen = sizeof carrier}};
    int fd;

    if (several) {
        CHECK(recvmmsg(from, &m, 1, 0, NULL) == 1);
    } else {
        CHECK(recvmsg(from, &m.msg_hdr, 0) == 1);
    }
    CHECK(carrier.header.cmsg_type == SCM_RIGHTS);
    memcpy(&fd, CMSG_DATA(&carrier.header), sizeof fd);
    return fd;
}

/* --- three processes ------------------------------------------------------------------------- */

static struct sockaddr_in at;
static int listener, way[2]; /* from the one that passes to the one that takes */

static int connect_to_it(void)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);

    CHECK(connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    return fd;
}

/* Sends and reads back, and then the peer ends. */
static void ask(int fd)
{
    static char sent[MANY], got[MANY];
    size_t out = 0, in = 0;

    for (size_t i = 0; i < MANY; i++) {
        sent[i] = (char)(i * 7 + i / 1000);
    }
    while (in < MANY) {
        struct pollfd p = {fd, (short)(POLLIN | (out < MANY ? POLLOUT : 0)), 0};
        CHECK(poll(&p, 1, 10000) == 1);
        if (p.revents & POLLOUT) {
            const ssize_t n = send(fd, sent + out, MANY - out, MSG_DONTWAIT);
            CHECK(n > 0 || errno == EAGAIN);
            out += n > 0 ? (size_t)n : 0;
        }
        if (p.revents & POLLIN) {
            const ssize_t n = read(fd, got + in, MANY - in);
            CHECK(n > 0);
            in += (size_t)n;
        }
    }
    CHECK(memcmp(sent, got, MANY) == 0 && shutdown(fd, SHUT_WR) == 0);
    CHECK(read(fd, got, 1) == 0 && close(fd) == 0);
}

/* However it has come. */
static void check_names(int fd)
{
    struct sockaddr_in own = {0}, peer = {0};
    socklen_t len = sizeof own;
    int protocol = 0;

    CHECK(getsockname(fd, (struct sockaddr *)&own, &len) == 0 && len == sizeof own);
    CHECK(getpeername(fd, (struct sockaddr *)&peer, &len) == 0 && len == sizeof peer);
    CHECK(own.sin_family == AF_INET && own.sin_port == at.sin_port);
    CHECK(peer.sin_family == AF_INET && peer.sin_addr.s_addr == at.sin_addr.s_addr);
    len = sizeof protocol;
    CHECK(getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) == 0);
    CHECK(protocol == IPPROTO_TCP);
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &protocol, &len) == 0);
}

static void answer(int fd)
{
    char some[65536];
    ssize_t n;

    check_names(fd);
    while ((n = read(fd, some, sizeof some)) > 0) {
        CHECK(write(fd, some, (size_t)n) == n);
    }
    CHECK(n == 0 && close(fd) == 0);
}

static pid_t child(void (*run)(void))
{
    const pid_t pid = fork();

    if (pid == 0) {
        run();
        exit(0);
    }
    return pid;
}

/* At the same port of all addresses. */
static void listen_for_both(void)
{
    struct sockaddr_in6 name = {.sin6_family = AF_INET6};
    socklen_t len = sizeof name;
    const int none = 0;

    listener = socket(AF_INET6, SOCK_STREAM, 0);
    CHECK(setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &none, sizeof none) == 0);
    CHECK(bind(listener, (struct sockaddr *)&name, len) == 0 && listen(listener, 10) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&name, &len) == 0);
    at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    at.sin_port = name.sin6_port;
}

static void run_at(int family, void (*client)(void), void (*passes)(void), void (*takes)(void))
{
    pid_t pids[3];
    int status;

    if (family == AF_INET6) {
        listen_for_both();
    } else {
        listener = listen_somewhere(&at, 10);
    }
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, way) == 0);
    pids[0] = child(takes);
    pids[1] = child(passes);
    pids[2] = child(client);
    close(listener);
    for (int i = 2; i >= 0; i--) { /* the one that passes lives until the others have ended */
        if (i == 1) {
            continue;
        }
        CHECK(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
    }
    CHECK(write(way[1], "", 1) == 1);
    CHECK(waitpid(pids[1], &status, 0) == pids[1] && status == 0);
}

static void run_all(void (*client)(void), void (*passes)(void), void (*takes)(void))
{
    run_at(AF_INET, client, passes, takes);
}

static void await_the_others(void)
{
    char octet;

    close(way[1]); /* so that it is seen if they end without a word */
    CHECK(read(way[0], &octet, 1) == 1);
}

/* --- cases ----------------------------------------------------------------------------------- */

static void client(void)
{
    ask(connect_to_it());
}

static void take_and_answer(void)
{
    answer(take(way[1], false));
}

static void take_several_and_answer(void)
{
    answer(take(way[1], true));
}

static void pass_unused(void)
{
    give(way[0], accept(listener, NULL, NULL), false);
    await_the_others();
}

static void unused_connection(void)
{
    run_all(client, pass_unused, take_and_answer);
}

static void pass_used(void)
{
    char octets[10000];
    const int fd = accept(listener, NULL, NULL);

    CHECK(recv(fd, octets, sizeof octets, MSG_WAITALL) == sizeof octets);
    CHECK(send(fd, octets, sizeof octets, 0) == sizeof octets);
    give(way[0], fd, false);
    await_the_others();
}

static void used_connection(void)
{
    run_all(client, pass_used, take_and_answer);
}

static void pass_used_among_several(void)
{
    char octet;
    const int fd = accept(listener, NULL, NULL);

    CHECK(read(fd, &octet, 1) == 1 && write(fd, &octet, 1) == 1);
    give(way[0], fd, true);
    await_the_others();
}

static void messages_at_once(void)
{
    run_all(client, pass_used_among_several, take_several_and_answer);
}

static void pass_the_listener(void)
{
    give(way[0], listener, false);
    await_the_others();
}

static void take_the_listener(void)
{
    CHECK(close(listener) == 0);
    answer(accept(take(way[1], false), NULL, NULL));
}

static void listening_socket(void)
{
    run_all(client, pass_the_listener, take_the_listener);
}

/* Here the client passes what it has connected, and the server is a third process. */
static void connect_and_pass(void)
{
    give(way[0], connect_to_it(), false);
    await_the_others();
}

static void take_and_ask(void)
{
    ask(take(way[1], false));
}

static void serve(void)
{
    answer(accept(listener, NULL, NULL));
}

static void client_connection(void)
{
    run_all(serve, connect_and_pass, take_and_ask);
}

static bool is_mapped; /* the client is of IPv4 */

static void client_of_either(void)
{
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = at.sin_port};
    char octet;

    to.sin6_addr = in6addr_loopback;
    const int fd = is_mapped ? connect_to_it() : socket(AF_INET6, SOCK_STREAM, 0);
    CHECK(is_mapped || connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    CHECK(write(fd, "a", 1) == 1 && read(fd, &octet, 1) == 1 && octet == 'b');
}

static void check_names_of_ipv6(int fd)
{
    struct sockaddr_in6 own = {0}, peer = {0};
    socklen_t len = sizeof own, peer_len = sizeof peer;

    CHECK(getsockname(fd, (struct sockaddr *)&own, &len) == 0 && len == sizeof own);
    CHECK(getpeername(fd, (struct sockaddr *)&peer, &peer_len) == 0 && peer_len == sizeof peer);
    CHECK(own.sin6_family == AF_INET6 && own.sin6_port == at.sin_port);
    CHECK(peer.sin6_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(&peer.sin6_addr) == !is_mapped);
    CHECK(memcmp(&own.sin6_addr, &peer.sin6_addr, sizeof own.sin6_addr) == 0);
}

static void take_and_answer_of_ipv6(void)
{
    const int fd = take(way[1], false);

    check_names_of_ipv6(fd);
    CHECK(write(fd, "b", 1) == 1);
}

static void pass_of_ipv6(void)
{
    const int fd = accept(listener, NULL, NULL);
    char octet;

    CHECK(read(fd, &octet, 1) == 1);
    check_names_of_ipv6(fd);
    give(way[0], fd, false);
    await_the_others();
}

/* One listener takes clients of both. */
static void connections_of_ipv6(void)
{
    for (int i = 0; i < 2; i++) {
        is_mapped = i > 0;
        run_at(AF_INET6, client_of_either, pass_of_ipv6, take_and_answer_of_ipv6);
    }
}

/* As a program that inetd has started: its log is the connection, too. The library's own lines are
 * no octets of the program. */
static void answer_as_of_inetd(void)
{
    char some[65536];
    ssize_t n;

    while ((n = read(0, some, sizeof some)) > 0) {
        CHECK(write(1, some, (size_t)n) == n);
    }
}

static void start_as_inetd(void)
{
    const int fd = accept(listener, NULL, NULL);

    for (int number = 0; number < 3; number++) {
        CHECK(dup2(fd, number) == number);
    }
    CHECK(close(fd) == 0 && setenv("IWARP_LOG", "debug", 1) == 0);
    execl("/proc/self/exe", "sockets_passed", "", NULL);
}

static void program_of_inetd(void)
{
    int status;

    listener = listen_somewhere(&at, 10);
    const pid_t pid = child(start_as_inetd);
    close(listener);
    client();
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static const struct one_case cases[] = {CASE(unused_connection), CASE(used_connection),
                                        CASE(messages_at_once),  CASE(listening_socket),
                                        CASE(client_connection), CASE(connections_of_ipv6),
                                        CASE(program_of_inetd)};

int main(int argc, char **argv)
{
    if (argc == 2 && argv[1][0] == 0) {
        answer_as_of_inetd();
        return 0;
    }
    return main_of(argc, argv, cases, sizeof cases / sizeof cases[0], NULL);
}
