/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The measurement of measure.c on plain TCP, on sockets alone, as the mark for both others.
 * op=send: `size` octets go back and forth; op=write: `count` blocks of `size` octets go one way,
 * and an octet comes back when all have come; op=read: the same the other way.
 */
#include "clock.h"
#include "settings.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WARM 20

static void must(bool good, const char *what)
{
    if (!good) {
        printf("outcome bad: %s\n", what);
        exit(1);
    }
}

static int link_open(const struct settings *s)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s->port)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0), link = fd;

    must(fd >= 0 && inet_pton(AF_INET, s->address, &in.sin_addr) == 1, "socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (s->server) {
        must(!bind(fd, (struct sockaddr *)&in, sizeof in) && !listen(fd, 1), "listen");
        puts("listening");
        link = accept(fd, NULL, NULL);
        must(link >= 0, "accept");
    } else {
        must(!connect(fd, (struct sockaddr *)&in, sizeof in), "connect");
    }
    setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return link;
}

static void put(int fd, const char *at, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

        must(n > 0, "send");
        at += n;
        len -= (size_t)n;
    }
}

static void get(int fd, char *at, size_t len)
{
    while (len > 0) {
        ssize_t n = recv(fd, at, len, 0);

        must(n > 0, "receive");
        at += n;
        len -= (size_t)n;
    }
}

static void blocks(int fd, const struct settings *s, char *block, bool give)
{
    for (unsigned i = 0; i < s->count; i++) {
        if (give) {
            put(fd, block, s->size);
        } else {
            get(fd, block, s->size);
        }
    }
    if (give) {
        get(fd, block, 1);
    } else {
        put(fd, block, 1);
    }
}

int main(int argc, char **argv)
{
    static struct settings s;
    double begin = 0, busy = 0;
    char *block;
    int fd;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!settings_read(&s, argc - 1, argv + 1)) {
        return 2;
    }
    block = calloc(1, s.size + 1);
    must(block != NULL, "calloc");
    fd = link_open(&s);
    if (s.op == OP_SEND) {
        for (unsigned i = 0; i < s.count + WARM; i++) {
            if (i == WARM) {
                busy = busy_s();
                begin = now_us();
            }
            if (s.server) {
                get(fd, block, s.size);
                put(fd, block, s.size);
            } else {
                put(fd, block, s.size);
                get(fd, block, s.size);
            }
        }
    } else {
        busy = busy_s();
        begin = now_us();
        blocks(fd, &s, block, s.server == (s.op == OP_READ));
    }
    if (s.server) {
        puts("outcome ok");
    } else {
        double us = now_us() - begin;

        printf("outcome ok figure=%.2f busy=%.2f\n",
               s.op == OP_SEND ? us / s.count / 2 : (double)s.size * s.count / us, busy_s() - busy);
    }
    close(fd);
    free(block);
    return 0;
}
