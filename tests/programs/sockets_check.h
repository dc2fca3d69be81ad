/* SPDX-License-Identifier: BSD-2-Clause */
/* What the programs sockets_*.c share; each is one file and this one. */
#ifndef SOCKETS_CHECK_H
#define SOCKETS_CHECK_H

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define CHECK(is) ((is) ? (void)0 : fail(#is, __LINE__))

static inline void fail(const char *what, int line)
{
    fprintf(stderr, "line %d: %s, errno %d\n", line, what, errno);
    exit(1);
}

/* A socket that listens at a port of 127.0.0.1, which is *at afterwards. */
static inline int listen_somewhere(struct sockaddr_in *at, int backlog)
{
    socklen_t len = sizeof *at;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);

    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(bind(listener, (struct sockaddr *)at, len) == 0 && listen(listener, backlog) == 0 &&
          getsockname(listener, (struct sockaddr *)at, &len) == 0);
    return listener;
}

static inline int connected_to(const struct sockaddr_in *server)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);

    CHECK(fd >= 0 && connect(fd, (const struct sockaddr *)server, sizeof *server) == 0);
    return fd;
}

/* `peer`, if it is not NULL, runs in a process of its own. */
struct one_case {
    const char *name;
    void (*run)(void), (*peer)(void);
};

#define CASE(name) {#name, name, NULL}

/* What main does: without an argument it lists the cases, else it runs the one of that name, by
 * `run` unless that is NULL. */
static inline int main_of(int argc, char **argv, const struct one_case *cases, size_t count,
                          void (*run)(const struct one_case *))
{
    for (size_t i = 0; i < count; i++) {
        if (argc < 2) {
            puts(cases[i].name);
        } else if (strcmp(argv[1], cases[i].name) == 0) {
            if (run) {
                run(&cases[i]);
            } else {
                cases[i].run();
            }
            return 0;
        }
    }
    return argc < 2 ? 0 : 2;
}

/* Seconds of CLOCK_MONOTONIC. */
static inline double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

#endif
