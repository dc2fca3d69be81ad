/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that has functions of the C library's names itself, and calls the C library's by their
 * other names, as Erlang's does with sigaction: each calls the library's once, and not the
 * program's.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int __sigaction(int n, const struct sigaction *new, struct sigaction *old);
ssize_t __read(int fd, void *to, size_t n);
ssize_t __write(int fd, const void *from, size_t n);
int __close(int fd);
static int calls;

int sigaction(int n, const struct sigaction *restrict new, struct sigaction *restrict old)
{
    calls++;
    return __sigaction(n, new, old);
}

ssize_t read(int fd, void *to, size_t n)
{
    calls++;
    return __read(fd, to, n);
}

ssize_t write(int fd, const void *from, size_t n)
{
    calls++;
    return __write(fd, from, n);
}

int close(int fd)
{
    calls++;
    return __close(fd);
}

static void handle(int n)
{
    (void)n;
}

int main(void)
{
    struct sigaction action = {.sa_handler = handle};
    int ends[2];
    char octet = 'x';

    if (pipe(ends) != 0 || sigaction(SIGUSR1, &action, NULL) != 0 ||
        write(ends[1], &octet, 1) != 1 || read(ends[0], &octet, 1) != 1 || close(ends[0]) != 0 ||
        calls != 4) {
        printf("%d calls\n", calls);
        return 1;
    }
    return 0;
}
