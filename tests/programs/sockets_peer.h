/* SPDX-License-Identifier: BSD-2-Clause */
/* A process that the client of a test talks to: what it does with a connection is the first octet.
 */
#ifndef SOCKETS_PEER_H
#define SOCKETS_PEER_H

#include "sockets_check.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

#define SOURCE 's' /* writes without end */
#define SINK   'k' /* reads to the end */
#define QUIET  'q' /* neither, until the end */
#define ECHO   'e'

static inline void *serve(void *arg)
{
    const int fd = (int)(intptr_t)arg;
    char what, some[65536] = {0};

    if (read(fd, &what, 1) == 1) {
        ssize_t n;
        while (what == SOURCE && write(fd, some, sizeof some) > 0) {
        }
        while (what == SINK && read(fd, some, sizeof some) > 0) {
        }
        while (what == ECHO && (n = read(fd, some, sizeof some)) > 0 &&
               write(fd, some, (size_t)n) == n) {
        }
        while (what == QUIET && sleep(1) == 0) {
        }
    }
    close(fd);
    return NULL;
}

static struct sockaddr_in address = {.sin_family = AF_INET};

static inline void start_peer(void)
{
    const int listener = listen_somewhere(&address, 100);
    int ends[2];
    char octet;

    CHECK(pipe(ends) == 0);
    if (fork() == 0) {
        pthread_t thread;
        close(ends[1]);
        signal(SIGPIPE, SIG_IGN);
        while (poll((struct pollfd[]){{listener, POLLIN, 0}, {ends[0], 0, 0}}, 2, -1) >= 0) {
            if (poll(&(struct pollfd){ends[0], 0, 0}, 1, 0) > 0) { /* the end of the parent */
                _exit(read(ends[0], &octet, 1) != 0);
            }
            const int fd = accept(listener, NULL, NULL);
            CHECK(fd >= 0 && pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd) == 0);
        }
        _exit(1);
    }
    close(ends[0]);
    close(listener);
}

static inline int peer(char what)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);

    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(write(fd, &what, 1) == 1);
    return fd;
}

static inline void echoes(int fd)
{
    char octet = 'x';

    CHECK(write(fd, &octet, 1) == 1 && read(fd, &octet, 1) == 1 && octet == 'x');
}

#endif
