/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What calls are given: lengths, flags, control messages. The kernel's TCP passes as well.
 *
 *   sockets_calls CASE
 */
#define _GNU_SOURCE
#include "sockets_check.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

static struct sockaddr_in server;
static int listener;

/* Of any length; the compiler does not see it. */
static ssize_t write_parts(int fd, const struct iovec *parts, int count)
{
    ssize_t (*volatile call)(int, const struct iovec *, int) = writev;

    return call(fd, parts, count);
}

/* Nothing of what is wrong goes to the peer. */
static void lengths_that_are_wrong(void)
{
    static struct iovec many[IOV_MAX + 1];
    static char octets[IOV_MAX + 1];
    ssize_t (*volatile write_octets)(int, const void *, size_t) = write;
    struct iovec two[2] = {{octets, 1}, {octets, (size_t)SSIZE_MAX + 1}};
    char got[8];

    for (int i = 0; i <= IOV_MAX; i++) {
        many[i] = (struct iovec){&octets[i], 1};
    }
    listener = listen_somewhere(&server, 100);
    const int client = connected_to(&server), fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0 && write(client, "a", 1) == 1 && read(fd, got, 1) == 1);
    CHECK(write_parts(client, two, 2) == -1 && errno == EINVAL);
    CHECK(write_parts(client, many, IOV_MAX + 1) == -1 && errno == EINVAL);
    CHECK(write_parts(client, many, -1) == -1 && errno == EINVAL);
    CHECK(readv(client, many, IOV_MAX + 1) == -1 && errno == EINVAL);
    CHECK(write_octets(client, octets, SIZE_MAX) == -1 && errno == EFAULT);
    struct msghdr message = {.msg_iov = many, .msg_iovlen = IOV_MAX + 1};
    CHECK(sendmsg(client, &message, 0) == -1 && errno == EMSGSIZE);
    CHECK(recvmsg(client, &message, MSG_DONTWAIT) == -1 && errno == EMSGSIZE);
    CHECK(write(client, "bc", 2) == 2 && shutdown(client, SHUT_WR) == 0);
    CHECK(recv(fd, got, sizeof got, MSG_WAITALL) == 2 && memcmp(got, "bc", 2) == 0);
}

/* TCP has no use for it, and takes it. */
static void control_messages(void)
{
    union {
        struct cmsghdr head;
        char octets[CMSG_SPACE(sizeof(int))];
    } control = {
        .head = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = IPPROTO_IP, .cmsg_type = IP_TOS}};
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    char octet;

    listener = listen_somewhere(&server, 100);
    const int client = connected_to(&server), fd = accept(listener, NULL, NULL);
    CHECK(sendmsg(client, &message, 0) == 1 && read(fd, &octet, 1) == 1 && octet == 'x');
    CHECK(sendmsg(fd, &message, 0) == 1 && read(client, &octet, 1) == 1 && octet == 'x');
}

/* Whatever it is, its flags are those that the program has set. */
static void expect_flags(int fd)
{
    CHECK(fcntl(fd, F_GETFL) == O_RDWR && fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    CHECK(fcntl(fd, F_GETFL) == (O_RDWR | O_NONBLOCK) && fcntl(fd, F_SETFL, 0) == 0);
    CHECK(fcntl(fd, F_GETFL) == O_RDWR);
}

static void flags_of_each_kind(void)
{
    const int fresh = socket(AF_INET, SOCK_STREAM, 0);
    char octet;

    listener = listen_somewhere(&server, 100);
    const int client = connected_to(&server), fd = accept(listener, NULL, NULL);
    expect_flags(fresh);
    expect_flags(listener);
    expect_flags(fd);
    CHECK(write(client, "x", 1) == 1 && read(fd, &octet, 1) == 1);
    expect_flags(client);
    expect_flags(fd);
}

/* MSG_TRUNC needs no memory: HAProxy so empties what it closes. There are no urgent octets, and no
 * queue of errors. */
static void flags_of_reads(void)
{
    char octets[4];

    listener = listen_somewhere(&server, 100);
    const int client = connected_to(&server), fd = accept(listener, NULL, NULL);
    CHECK(write(client, "abcdef", 6) == 6 && recv(fd, octets, 1, MSG_PEEK) == 1);
    CHECK(recv(fd, octets, 1, MSG_OOB) == -1 && errno == EINVAL);
    CHECK(recv(fd, octets, 1, MSG_ERRQUEUE) == -1 && errno == EAGAIN);
    CHECK(recv(fd, NULL, 4, MSG_TRUNC | MSG_WAITALL) == 4);
    CHECK(recv(fd, NULL, 2, MSG_TRUNC | MSG_PEEK) == 2);
    CHECK(read(fd, octets, sizeof octets) == 2 && memcmp(octets, "ef", 2) == 0);
    CHECK(recv(fd, NULL, 4, MSG_TRUNC | MSG_DONTWAIT) == -1 && errno == EAGAIN);
}

/* It connects, and stays plain. */
static void octets_with_the_start(void)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    char octet;

    listener = listen_somewhere(&server, 100);
    if (sendto(fd, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&server, sizeof server) != 1) {
        CHECK(errno == EOPNOTSUPP); /* net.ipv4.tcp_fastopen */
        return;
    }
    const int peer = accept(listener, NULL, NULL);
    CHECK(peer >= 0 && read(peer, &octet, 1) == 1 && octet == 'x');
    CHECK(write(peer, "y", 1) == 1 && read(fd, &octet, 1) == 1 && octet == 'y');
}

static const struct one_case cases[] = {CASE(lengths_that_are_wrong), CASE(control_messages),
                                        CASE(flags_of_each_kind), CASE(flags_of_reads),
                                        CASE(octets_with_the_start)};

int main(int argc, char **argv)
{
    return main_of(argc, argv, cases, sizeof cases / sizeof cases[0], NULL);
}
