/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls by all names that the C library has for them, with time-outs and offsets of each length: on
 * 32 bits it is compiled with _TIME_BITS=64 and _FILE_OFFSET_BITS=64, and without. The kernel's TCP
 * passes as well.
 *
 *   sockets_names
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(is) ((is) ? (void)0 : fail(#is, __LINE__))
#define TIMES     40 /* of each wait: enough for a thread that waits to run the library's loop */
#define SHORT_MS  30
#define LONG_MS   20000

struct plain_timeval { /* of a name that knows no other times */
    long tv_sec, tv_usec;
};

int __connect(int fd, const struct sockaddr *to, socklen_t len);
int __close(int fd);
int __dup2(int fd, int to);
int __fcntl(int fd, int command, ...);
ssize_t __read(int fd, void *to, size_t n);
ssize_t __write(int fd, const void *from, size_t n);
ssize_t __send(int fd, const void *from, size_t n, int flags);
int __poll(struct pollfd *fds, nfds_t n, int timeout);
int __select(int n, fd_set *readable, fd_set *writable, fd_set *urgent, struct plain_timeval *t);
FILE *_IO_fdopen(int fd, const char *mode);
ssize_t __read_chk(int fd, void *to, size_t n, size_t room);
ssize_t __recv_chk(int fd, void *to, size_t n, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *to, size_t n, size_t room, int flags, struct sockaddr *from,
                       socklen_t *len);
int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const void *plain_timeout, const sigset_t *signals,
                size_t room);

static int c;
/* Beyond 32 bits, if the program has times for that. */
static int64_t for_ever_ms = sizeof(time_t) == 8 ? INT64_C(5000000000000) : 60000;

static void fail(const char *what, int line)
{
    fprintf(stderr, "line %d: %s, errno %d\n", line, what, errno);
    exit(1);
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static struct timespec time_of(int64_t ms)
{
    return (struct timespec){(time_t)(ms / 1000), (long)(ms % 1000 * 1000000)};
}

/* --- the peer echoes ------------------------------------------------------------------------- */

static void echo(int listener)
{
    const int fd = accept(listener, NULL, NULL);
    char octets[64];
    ssize_t n;

    while ((n = read(fd, octets, sizeof octets)) > 0 && write(fd, octets, (size_t)n) == n) {
    }
    _exit(n != 0);
}

static void connect_to_child(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);

    CHECK(bind(listener, (struct sockaddr *)&at, len) == 0 && listen(listener, 1) == 0 &&
          getsockname(listener, (struct sockaddr *)&at, &len) == 0);
    if (fork() == 0) {
        echo(listener);
    }
    CHECK(__close(listener) == 0);
    c = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(__connect(c, (struct sockaddr *)&at, len) == 0);
}

/* --- waits: how many are ready --------------------------------------------------------------- */

static int by_poll(int64_t ms)
{
    struct pollfd p = {.fd = c, .events = POLLIN};

    return __poll(&p, 1, ms < LONG_MS ? (int)ms : LONG_MS);
}

static int by_poll_chk(int64_t ms)
{
    struct pollfd p = {.fd = c, .events = POLLIN};

    return __poll_chk(&p, 1, ms < LONG_MS ? (int)ms : LONG_MS, sizeof p);
}

static int by_ppoll(int64_t ms)
{
    struct pollfd p = {.fd = c, .events = POLLIN};
    const struct timespec t = time_of(ms);

    return ppoll(&p, 1, &t, NULL);
}

static int by_ppoll_chk(int64_t ms)
{
    struct pollfd p = {.fd = c, .events = POLLIN};
    const long wait = (long)(ms < LONG_MS ? ms : LONG_MS);
    const long t[2] = {wait / 1000, wait % 1000 * 1000000};

    return __ppoll_chk(&p, 1, t, NULL, sizeof p);
}

static fd_set only_c(void)
{
    fd_set set;

    FD_ZERO(&set);
    FD_SET(c, &set);
    return set;
}

static int by_plain_select(int64_t ms)
{
    const long wait = (long)(ms < LONG_MS ? ms : LONG_MS);
    struct plain_timeval t = {wait / 1000, wait % 1000 * 1000};
    fd_set set = only_c();

    return __select(c + 1, &set, NULL, NULL, &t);
}

static int by_select(int64_t ms)
{
    struct timeval t = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)};
    fd_set set = only_c();
    const int n = select(c + 1, &set, NULL, NULL, &t);
    const int64_t left = (int64_t)t.tv_sec * 1000 + t.tv_usec / 1000;

    CHECK(n == 1 ? left <= ms && left > ms - LONG_MS : n == 0 && left == 0);
    return n;
}

static int by_pselect(int64_t ms)
{
    const struct timespec t = time_of(ms);
    fd_set set = only_c();

    return pselect(c + 1, &set, NULL, NULL, &t, NULL);
}

/* Not every emulator knows it. */
static int by_epoll(int64_t ms)
{
    static int set = -1;
    struct epoll_event e = {.events = EPOLLIN};
    const struct timespec t = time_of(ms);

    if (set < 0) {
        set = epoll_create1(0);
        CHECK(epoll_ctl(set, EPOLL_CTL_ADD, c, &e) == 0);
    }
    const int n = epoll_pwait2(set, &e, 1, &t, NULL);
    return n < 0 && errno == ENOSYS ? by_poll(ms) : n;
}

/* --- octets to and fro ----------------------------------------------------------------------- */

static void write_one(unsigned way)
{
    struct iovec part = {"x", 1};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};

    switch (way % 4) {
    case 0:
        CHECK(__write(c, "x", 1) == 1);
        break;
    case 1:
        CHECK(__send(c, "x", 1, 0) == 1);
        break;
    case 2:
        CHECK(sendmsg(c, &message.msg_hdr, 0) == 1);
        break;
    default:
        CHECK(sendmmsg(c, &message, 1, 0) == 1 && message.msg_len == 1);
    }
}

static void read_one(unsigned way)
{
    char octet = 0;
    struct iovec part = {&octet, 1};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
    struct timespec t = time_of(LONG_MS);

    switch (way % 6) {
    case 0:
        CHECK(__read(c, &octet, 1) == 1);
        break;
    case 1:
        CHECK(__read_chk(c, &octet, 1, 1) == 1);
        break;
    case 2:
        CHECK(__recv_chk(c, &octet, 1, 1, 0) == 1);
        break;
    case 3:
        CHECK(__recvfrom_chk(c, &octet, 1, 1, 0, NULL, NULL) == 1);
        break;
    case 4:
        CHECK(recvmsg(c, &message.msg_hdr, 0) == 1);
        break;
    default:
        CHECK(recvmmsg(c, &message, 1, 0, &t) == 1 && message.msg_len == 1);
    }
    CHECK(octet == 'x');
}

static void wait_so(int (*call)(int64_t ms))
{
    CHECK(call(0) == 0);
    for (unsigned i = 0; i < TIMES; i++) {
        write_one(i);
        int n = call(for_ever_ms);
        if (n < 0 && errno == EOVERFLOW) { /* an emulator has no system call for that */
            for_ever_ms = 60000;
            n = call(for_ever_ms);
        }
        CHECK(n == 1);
        read_one(i);
    }
    const int64_t start = now_ms();
    CHECK(call(SHORT_MS) == 0 && now_ms() - start >= SHORT_MS && now_ms() - start < LONG_MS);
}

static void refuse_times(void)
{
    struct timespec t = {.tv_sec = -1};
    struct timeval v = {.tv_sec = -1};

    CHECK(ppoll(NULL, 0, &t, NULL) < 0 && errno == EINVAL);
    CHECK(pselect(0, NULL, NULL, NULL, &t, NULL) < 0 && errno == EINVAL);
    CHECK(select(0, NULL, NULL, NULL, &v) < 0 && errno == EINVAL);
    t = (struct timespec){.tv_nsec = 1000000000};
    CHECK(ppoll(NULL, 0, &t, NULL) < 0 && errno == EINVAL);
}

/* --- options, flags, files ------------------------------------------------------------------- */

static void limit_reading(void)
{
    struct timeval limit = {.tv_usec = SHORT_MS * 1000}, none = {0}, is = {0};
    socklen_t len = sizeof is;
    char octet;

    CHECK(setsockopt(c, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    CHECK(getsockopt(c, SOL_SOCKET, SO_RCVTIMEO, &is, &len) == 0);
    if (len == sizeof is) { /* an emulator may know the option for 32 bits alone */
        const int64_t start = now_ms();
        CHECK(is.tv_sec == 0 && is.tv_usec >= limit.tv_usec && is.tv_usec < 2 * limit.tv_usec);
        CHECK(read(c, &octet, 1) < 0 && errno == EAGAIN);
        CHECK(now_ms() - start >= SHORT_MS - 1 && now_ms() - start < LONG_MS);
    }
    CHECK(setsockopt(c, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none) == 0);
}

static void set_flags(void)
{
    const int flags = __fcntl(c, F_GETFL);
    int on = 1, count = 0;
    char octet;

    CHECK(flags >= 0 && __fcntl(c, F_SETFL, flags | O_NONBLOCK) == 0);
    CHECK(__read(c, &octet, 1) < 0 && errno == EAGAIN);
    CHECK(fcntl(c, F_SETFL, flags) == 0 && !(__fcntl(c, F_GETFL) & O_NONBLOCK));
    CHECK(ioctl(c, FIONBIO, &on) == 0 && (fcntl(c, F_GETFL) & O_NONBLOCK));
    on = 0;
    CHECK(ioctl(c, FIONBIO, &on) == 0);
    write_one(0);
    CHECK(by_poll(LONG_MS) == 1 && ioctl(c, FIONREAD, &count) == 0 && count == 1);
    read_one(0);
}

static void name_it_twice(void)
{
    FILE *f;
    char octet;

    CHECK(__dup2(c, 100) == 100);
    f = _IO_fdopen(100, "w");
    CHECK(f && fputc('y', f) == 'y' && fclose(f) == 0 && fcntl(100, F_GETFD) < 0);
    CHECK(__read(c, &octet, 1) == 1 && octet == 'y');
}

/* Beyond 4 GiB, if the program has offsets for that. */
static void send_from_file(void)
{
    const off_t at = sizeof at == 8 ? (off_t)INT64_C(5000000000) : 5000;
    FILE *file = tmpfile();
    off_t offset = at;
    char octets[3];

    CHECK(file && pwrite(fileno(file), "abc", 3, at) == 3);
    CHECK(sendfile(c, fileno(file), &offset, 10) == 3 && offset == at + 3);
    CHECK(recv(c, octets, 3, MSG_WAITALL) == 3 && memcmp(octets, "abc", 3) == 0);
    CHECK(lseek(fileno(file), at + 1, SEEK_SET) == at + 1);
    CHECK(sendfile(c, fileno(file), NULL, 10) == 2 && lseek(fileno(file), 0, SEEK_CUR) == at + 3);
    CHECK(recv(c, octets, 2, MSG_WAITALL) == 2 && memcmp(octets, "bc", 2) == 0);
    fclose(file);
}

/* Nothing of a socket, but by the same call. */
static void lock_a_file(void)
{
    const off_t at = sizeof at == 8 ? (off_t)INT64_C(5000000000) : 5000;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 7};
    FILE *file = tmpfile();
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(file));
    const int other = open(path, O_RDWR);
    CHECK(other >= 0 && fcntl(fileno(file), F_OFD_SETLK, &lock) == 0);
    lock.l_start = 0;
    lock.l_len = 0;
    CHECK(fcntl(other, F_OFD_GETLK, &lock) == 0);
    CHECK(lock.l_type == F_WRLCK && lock.l_start == at && lock.l_len == 7);
    close(other);
    fclose(file);
}

int main(void)
{
    int status;

    connect_to_child();
    wait_so(by_poll);
    wait_so(by_poll_chk);
    wait_so(by_ppoll);
    wait_so(by_ppoll_chk);
    wait_so(by_plain_select);
    wait_so(by_select);
    wait_so(by_pselect);
    wait_so(by_epoll);
    refuse_times();
    limit_reading();
    set_flags();
    name_it_twice();
    send_from_file();
    lock_a_file();
    CHECK(__close(c) == 0 && wait(&status) > 0 && status == 0);
    return 0;
}
