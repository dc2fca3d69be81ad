/* SPDX-License-Identifier: BSD-2-Clause */
/* See process.h. The handlers of fork also keep the library's few global locks usable. */
#include "base/process.h"

#include "base/guard.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORD_BITS 64

_Atomic unsigned iwarp_process_forks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t *fds; /* one bit for each; under lock */
static size_t words;

/*
 * No thread is inside one of these locks while the process is copied. The order is that of
 * docs/locks.md; both processes give them back.
 */
static void before_fork(void)
{
    pthread_mutex_lock(&lock);
    iwarp_guard_hold();
    iwarp_log_hold();
}

static void after_fork(void)
{
    iwarp_log_release();
    iwarp_guard_release();
    pthread_mutex_unlock(&lock);
}

/* Async-signal-safe but for the locks, which this thread holds: close and memset only. */
static void after_fork_in_child(void)
{
    IWARP_UNCANCELLED; /* the thread that forks may be cancelled already */
    atomic_fetch_add(&iwarp_process_forks, 1);
    for (size_t fd = 0; fd < words * WORD_BITS; fd++) {
        if (fds[fd / WORD_BITS] >> fd % WORD_BITS & 1) {
            close((int)fd);
        }
    }
    if (words > 0) {
        memset(fds, 0, words * sizeof *fds);
    }
    after_fork();
}

static void watch(void)
{
    (void)pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

void iwarp_process_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch);
}

/* Under lock. */
static void add(int fd)
{
    size_t word = (size_t)fd / WORD_BITS;

    if (word >= words) {
        size_t more = word + 1 > 2 * words ? word + 1 : 2 * words;
        uint64_t *larger = realloc(fds, more * sizeof *fds);
        if (larger) {
            memset(larger + words, 0, (more - words) * sizeof *fds);
            fds = larger;
            words = more;
        }
    }
    if (word < words) {
        fds[word] |= (uint64_t)1 << fd % WORD_BITS;
    }
}

/* Under lock. */
static void forget(int fd)
{
    size_t word = (size_t)fd / WORD_BITS;

    if (word < words) {
        fds[word] &= ~((uint64_t)1 << fd % WORD_BITS);
    }
}

void iwarp_process_add_fd(int fd)
{
    pthread_mutex_lock(&lock);
    add(fd);
    pthread_mutex_unlock(&lock);
}

void iwarp_process_remove_fd(int fd)
{
    pthread_mutex_lock(&lock);
    forget(fd);
    pthread_mutex_unlock(&lock);
}

/* The lock is held over the system call, and before_fork takes it: no fork comes in between. */
int iwarp_process_socket(int family)
{
    pthread_mutex_lock(&lock);
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        add(fd);
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

int iwarp_process_accept(int listener, struct sockaddr *peer, socklen_t *peer_len)
{
    pthread_mutex_lock(&lock);
    int fd = accept4(listener, peer, peer_len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        add(fd);
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

/* Forgotten and closed in one step: another thread may get the same number as soon as it is free.
 */
void iwarp_process_close(int fd)
{
    int saved = errno;

    pthread_mutex_lock(&lock);
    forget(fd);
    close(fd);
    pthread_mutex_unlock(&lock);
    errno = saved;
}

/* Each copy gets the lowest number that is free. Without descriptors the next call fails, too. */
void iwarp_process_fill_standard(void)
{
    int ends[2], fd = STDIN_FILENO;

    while (fd <= STDERR_FILENO && fcntl(fd, F_GETFD) >= 0) {
        fd++;
    }
    if (fd > STDERR_FILENO || pipe2(ends, O_CLOEXEC) != 0) {
        return;
    }
    close(ends[1]);
    for (fd = ends[0]; fd >= 0 && fd <= STDERR_FILENO;) {
        fd = fcntl(ends[0], F_DUPFD_CLOEXEC, STDIN_FILENO);
    }
    if (fd >= 0) {
        close(fd);
    }
}

bool iwarp_process_has_fd(int fd)
{
    size_t word = (size_t)fd / WORD_BITS;

    pthread_mutex_lock(&lock);
    bool has = fd >= 0 && word < words && (fds[word] >> fd % WORD_BITS & 1);
    pthread_mutex_unlock(&lock);
    return has;
}

int iwarp_process_poll(struct pollfd *fd, int timeout_ms, int cancel_state)
{
    int unused;

    pthread_setcancelstate(cancel_state, NULL);
    int n = poll(fd, 1, timeout_ms);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &unused);
    return n;
}
