/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * More than the peer's program reads: what is written waits at both ends, in order, and programs
 * that TCP's buffers serve do not stand still. The kernel's TCP passes as well.
 *
 *   sockets_full CASE
 */
#define _GNU_SOURCE
#include "sockets_check.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUESTS 5000 /* more than a connection has credits for */
#define LEN      10   /* octets of each */
#define PIECE    5000
#define MANY     5000000

static int to_peer[2], from_peer[2]; /* pipes */
static pid_t peer;

static void tell(int fd)
{
    CHECK(write(fd, "", 1) == 1);
}

static void hear(int fd)
{
    char c;

    CHECK(read(fd, &c, 1) == 1);
}

/* A child that serves the one connection; this end of it. */
static int begin(void (*serve)(int fd))
{
    struct sockaddr_in at;
    const int listener = listen_somewhere(&at, 1), on = 1;

    CHECK(pipe(to_peer) == 0 && pipe(from_peer) == 0);
    peer = fork();
    if (peer == 0) {
        const int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        serve(fd);
        exit(0);
    }
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 && close(listener) == 0);
    return fd;
}

static void end(void)
{
    int status;

    CHECK(waitpid(peer, &status, 0) == peer && status == 0);
    for (int i = 0; i < 2; i++) {
        close(to_peer[i]);
        close(from_peer[i]);
    }
}

static void request(char *octets, int i)
{
    snprintf(octets, LEN + 1, "request%03d", i % 1000);
}

static void write_requests(int fd)
{
    char octets[LEN + 1];

    for (int i = 0; i < REQUESTS; i++) {
        request(octets, i);
        CHECK(write(fd, octets, LEN) == LEN);
    }
}

static void read_requests(int fd)
{
    char octets[LEN + 1], got[LEN];

    for (int i = 0; i < REQUESTS; i++) {
        request(octets, i);
        CHECK(recv(fd, got, LEN, MSG_WAITALL) == LEN && memcmp(got, octets, LEN) == 0);
    }
}

static void is_at_end(int fd)
{
    char c;

    CHECK(read(fd, &c, 1) == 0);
}

/* --- requests before answers ----------------------------------------------------------------- */

static void answer_each(int fd)
{
    char got[LEN];
    ssize_t n;

    while ((n = recv(fd, got, LEN, MSG_WAITALL)) == LEN) {
        CHECK(write(fd, got, LEN) == LEN);
    }
    CHECK(n == 0);
}

static void requests_before_answers(void)
{
    const int fd = begin(answer_each);

    write_requests(fd);
    read_requests(fd);
    CHECK(close(fd) == 0);
    end();
}

/* --- writable -------------------------------------------------------------------------------- */

static short shown(int fd, short events, int ms)
{
    struct pollfd p = {fd, events, 0};

    CHECK(poll(&p, 1, ms) >= 0);
    return p.revents;
}

/* Reads only while it has nothing to write, and its writes block. */
static void echo_pieces(int fd)
{
    char piece[PIECE];
    ssize_t n;

    while (shown(fd, POLLIN, -1) && (n = read(fd, piece, sizeof piece)) > 0) {
        CHECK(shown(fd, POLLOUT, -1) & POLLOUT);
        CHECK(write(fd, piece, (size_t)n) == n);
    }
}

static void writable_has_room_for_a_piece(void)
{
    static char piece[PIECE], got[65536];
    const int fd = begin(echo_pieces);
    size_t sent = 0, had = 0;

    while (had < MANY) {
        const short events = shown(fd, (short)(POLLIN | (sent < MANY ? POLLOUT : 0)), 10000);
        CHECK(events != 0);
        if (events & POLLOUT) { /* first, as socat does */
            CHECK(write(fd, piece, sizeof piece) == sizeof piece);
            sent += sizeof piece;
        } else {
            const ssize_t n = read(fd, got, sizeof got);
            CHECK(n > 0);
            had += (size_t)n;
        }
    }
    CHECK(close(fd) == 0);
    end();
}

/* --- what waits at the sender ---------------------------------------------------------------- */

static void read_when_told(int fd)
{
    hear(to_peer[0]);
    read_requests(fd);
    tell(from_peer[1]);
    hear(to_peer[0]);
}

/* The writer waits for something else, and makes no call on the socket. */
static void goes_out_without_a_call(void)
{
    for (int polled = 0; polled < 2; polled++) {
        const int fd = begin(read_when_told);
        CHECK(!polled || (shown(fd, POLLOUT, 10000) & POLLOUT));
        write_requests(fd);
        CHECK(!polled || (shown(fd, POLLOUT, 10000) & POLLOUT));
        tell(to_peer[1]);
        hear(from_peer[0]);
        tell(to_peer[1]);
        CHECK(close(fd) == 0);
        end();
    }
}

static void read_nothing(int fd)
{
    (void)fd;
    hear(to_peer[0]);
}

static void unsent_is_counted(void)
{
    static const char some[10000];
    const int fd = begin(read_nothing);
    int octets = 0;

    CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    do {
        while (write(fd, some, sizeof some) > 0) {
        }
    } while (shown(fd, POLLOUT, 100) != 0);
    CHECK(ioctl(fd, SIOCOUTQNSD, &octets) == 0 && octets > 0);
    CHECK(close(fd) == 0);
    tell(to_peer[1]);
    end();
}

static void read_to_the_end(int fd)
{
    hear(to_peer[0]);
    read_requests(fd);
    is_at_end(fd);
}

static void close_comes_behind_it(void)
{
    const int fd = begin(read_to_the_end);

    write_requests(fd);
    CHECK(close(fd) == 0);
    tell(to_peer[1]);
    end();
}

/* Another process writes and ends; this one has the connection's peer. */
static void exit_comes_behind_it(void)
{
    struct sockaddr_in at;
    const int listener = listen_somewhere(&at, 1);
    int status;

    CHECK(pipe(to_peer) == 0);
    const pid_t writer = fork();
    if (writer == 0) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
        write_requests(fd);
        tell(to_peer[1]);
        exit(0);
    }
    const int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    CHECK(shown(fd, POLLIN, 10000) & POLLIN);
    read_to_the_end(fd);
    CHECK(waitpid(writer, &status, 0) == writer && status == 0);
    CHECK(close(fd) == 0 && close(listener) == 0);
}

static void read_and_answer(int fd)
{
    read_to_the_end(fd);
    tell(from_peer[1]);
    write_requests(fd);
}

static void shutdown_comes_behind_it(void)
{
    const int fd = begin(read_and_answer);

    write_requests(fd);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    tell(to_peer[1]);
    hear(from_peer[0]);
    read_requests(fd);
    is_at_end(fd);
    CHECK(close(fd) == 0);
    end();
}

/* --- a peer that reads late, or never -------------------------------------------------------- */

/* As much as is taken without waiting: more than the peer has lent. */
static size_t fill_up(int fd)
{
    static const char some[10000];
    size_t sent = 0;
    ssize_t n;

    do {
        n = send(fd, some, sizeof some, MSG_DONTWAIT);
        sent += n > 0 ? (size_t)n : 0;
    } while (n > 0 || (shown(fd, POLLOUT, 100) & POLLOUT));
    CHECK(sent > 524288);
    return sent;
}

/* Octets until the end, and the errno of that, or 0. */
static size_t drain(int fd, int *error)
{
    static char got[65536];
    size_t sum = 0;
    ssize_t n;

    while ((n = read(fd, got, sizeof got)) > 0) {
        sum += (size_t)n;
    }
    *error = n < 0 ? errno : 0;
    return sum;
}

static void hear_and_drain(int fd)
{
    size_t sent;
    int error;
    char c;

    CHECK(read(fd, &c, 1) == 1); /* connected */
    CHECK(read(to_peer[0], &sent, sizeof sent) == sizeof sent);
    sleep(6); /* longer than a close waits for a peer that takes nothing */
    CHECK(drain(fd, &error) == sent && error == 0);
}

static void close_and_a_late_reader(void)
{
    const int fd = begin(hear_and_drain);

    CHECK(write(fd, "", 1) == 1);
    const size_t sent = fill_up(fd);
    CHECK(close(fd) == 0);
    CHECK(write(to_peer[1], &sent, sizeof sent) == sizeof sent);
    end();
}

static void fill_without_end(int fd)
{
    static const char some[65536];

    tell(from_peer[1]);
    while (send(fd, some, sizeof some, MSG_NOSIGNAL) > 0) {
    }
    CHECK(errno == EPIPE || errno == ECONNRESET);
}

/* Each writes, and neither reads: the close of one ends the write of the other. */
static void close_under_a_full_peer(void)
{
    const int fd = begin(fill_without_end);
    const double from = now();

    hear(from_peer[0]);
    (void)fill_up(fd);
    CHECK(close(fd) == 0);
    end();
    CHECK(now() - from < 4);
}

/* Another process writes, and then goes. This one reads after that: has all come that was taken?
 * *error: how the stream ended. */
static bool comes_whole(void (*go)(void), int *error)
{
    struct sockaddr_in at;
    const int listener = listen_somewhere(&at, 1);
    size_t sent;
    int status;

    CHECK(pipe(to_peer) == 0);
    const pid_t writer = fork();
    if (writer == 0) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(fd, (struct sockaddr *)&at, sizeof at) == 0 && write(fd, "", 1) == 1);
        sent = fill_up(fd) + 1;
        CHECK(write(to_peer[1], &sent, sizeof sent) == sizeof sent);
        go();
    }
    const int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0 && (shown(fd, POLLIN, 10000) & POLLIN));
    CHECK(read(to_peer[0], &sent, sizeof sent) == sizeof sent);
    const bool whole = drain(fd, error) == sent;
    CHECK(waitpid(writer, &status, 0) == writer && close(fd) == 0 && close(listener) == 0);
    return whole;
}

static void run_another_program(void)
{
    char *const arguments[] = {(char[]){"true"}, NULL};

    execv("/bin/true", arguments);
}

static void another_program_comes_behind_it(void)
{
    int error;

    /* A reset if credits of the peer were still on their way: docs/rsockets.md. */
    CHECK(comes_whole(run_another_program, &error) && (error == 0 || error == ECONNRESET));
}

static void run_another_program_by_list(void) /* waits for nothing */
{
    execl("/bin/true", "true", NULL);
}

static void be_killed(void)
{
    kill(getpid(), SIGKILL);
}

/* Of TCP the kernel sends the rest. Here a part is not taken for the whole. */
static void killed_before_it_is_sent(void)
{
    int error;

    CHECK(comes_whole(be_killed, &error) || error == ECONNRESET);
    CHECK(comes_whole(run_another_program_by_list, &error) || error == ECONNRESET);
}

/* --- what else a program may have written ----------------------------------------------------- */

static void count_octets(int fd)
{
    static char octets[65536];
    size_t count = 0;
    ssize_t n;

    hear(to_peer[0]);
    while ((n = read(fd, octets, sizeof octets)) > 0) {
        count += (size_t)n;
    }
    CHECK(n == 0 && write(from_peer[1], &count, sizeof count) == sizeof count);
}

static void on_alarm(int number)
{
    (void)number;
}

/* A signal ends sendmmsg within its first message: the second one does not follow the hole. */
static void messages_behind_a_short_one(void)
{
    static char octets[8 << 20];
    const struct sigaction action = {.sa_handler = on_alarm}; /* without SA_RESTART */
    const struct itimerval soon = {.it_value = {0, 300000}};
    struct iovec parts[2] = {{octets, sizeof octets}, {octets, 1000}};
    struct mmsghdr messages[2] = {{{.msg_iov = parts, .msg_iovlen = 1}, 0},
                                  {{.msg_iov = parts + 1, .msg_iovlen = 1}, 0}};
    const int fd = begin(count_octets);
    size_t count;

    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &soon, NULL) == 0);
    CHECK(sendmmsg(fd, messages, 2, 0) == 1 && messages[0].msg_len < sizeof octets);
    tell(to_peer[1]);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    CHECK(read(from_peer[0], &count, sizeof count) == sizeof count);
    CHECK(count == messages[0].msg_len);
    end();
}

static void write_to_a_stream(int fd)
{
    FILE *stream = fdopen(fd, "r+");

    CHECK(stream && fprintf(stream, "first\n") == 6 && fflush(stream) == 0);
    CHECK(fprintf(stream, "last words\n") == 11);
    exit(0);
}

static void exit_flushes_streams(void)
{
    const int fd = begin(write_to_a_stream);
    char octets[32] = "";
    size_t at = 0;
    ssize_t n;

    while ((n = read(fd, octets + at, sizeof octets - 1 - at)) > 0) {
        at += (size_t)n;
    }
    CHECK(n == 0 && strcmp(octets, "first\nlast words\n") == 0);
    end();
}

/* --------------------------------------------------------------------------------------------- */

static const struct one_case cases[] = {
    CASE(requests_before_answers),  CASE(writable_has_room_for_a_piece),
    CASE(goes_out_without_a_call),  CASE(unsent_is_counted),
    CASE(close_comes_behind_it),    CASE(exit_comes_behind_it),
    CASE(shutdown_comes_behind_it), CASE(close_and_a_late_reader),
    CASE(close_under_a_full_peer),  CASE(another_program_comes_behind_it),
    CASE(killed_before_it_is_sent), CASE(messages_behind_a_short_one),
    CASE(exit_flushes_streams)};

int main(int argc, char **argv)
{
    return main_of(argc, argv, cases, sizeof cases / sizeof cases[0], NULL);
}
