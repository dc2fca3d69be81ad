/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The same in turns over plain TCP, with nothing in between: one tight loop of send and recv on
 * each side, blocking or busy polling.
 */
#include "flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_LEAST ((size_t)65536) /* so much is asked for at least, where messages are smaller */

struct wire {
    const struct bench_options *options;
    struct bench_link *link;
    bool server;
    int fd;
    uint8_t *memory;
    size_t len;    /* of it */
    uint64_t sent; /* octets */
};

static void wire_open(struct wire *wire, struct bench_link *link, bool server)
{
    struct sockaddr_storage addr;
    socklen_t addr_len;

    *wire = (struct wire){.options = link->options, .link = link, .server = server};
    wire->len = link->options->footprint < READ_LEAST ? READ_LEAST : link->options->footprint;
    wire->memory = aligned_alloc(4096, (wire->len + 4095) / 4096 * 4096);
    if (!wire->memory) {
        bench_fail("no memory for %zu octets", wire->len);
    }
    memset(wire->memory, 1, wire->len);
    if (server) {
        int listener = bench_tcp_listen(link, 1);
        wire->fd = bench_tcp_accept(listener);
        close(listener);
    } else {
        bench_address(link, &addr, &addr_len);
        wire->fd = bench_tcp_connect((struct sockaddr *)&addr, addr_len);
    }
}

/* A polling server asks nobody between two turns. */
static ssize_t receive(struct wire *wire, uint8_t *at, size_t len)
{
    int flags = wire->options->polled ? MSG_DONTWAIT : 0;

    for (;;) {
        if (wire->server && wire->options->polled && !turn_on()) {
            turn_await(wire->link);
            continue;
        }
        ssize_t n = recv(wire->fd, at, len, flags);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            _exit(wire->server ? 0 : 1); /* the other has ended */
        }
        if (n > 0) {
            return n;
        }
    }
}

static void receive_all(struct wire *wire, uint8_t *at, size_t len)
{
    while (len > 0) {
        ssize_t n = receive(wire, at, len);
        at += n;
        len -= (size_t)n;
    }
}

static void send_all(struct wire *wire, const uint8_t *at, size_t len)
{
    int flags = MSG_NOSIGNAL | (wire->options->polled ? MSG_DONTWAIT : 0);

    wire->sent += len;
    while (len > 0) {
        ssize_t n = send(wire->fd, at, len, flags);
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            _exit(wire->server ? 0 : 1);
        }
        at += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
}

/* --- stream ---------------------------------------------------------------------------------- */

/* It ends when the server has taken all. */
static void stream(void *arg, struct turn *turn)
{
    struct wire *wire = (struct wire *)arg;
    size_t octets = wire->options->octets, at = 0;

    do {
        send_all(wire, wire->memory + at, octets);
        at += octets;
        at = at < wire->options->footprint ? at : 0;
    } while (turn_goes_on(turn, 1));
    turn_await_taken(wire->sent);
}

void turns_tcp_stream_client(struct bench_link *link)
{
    static struct wire wire;

    wire_open(&wire, link, false);
    turn_play(link, stream, &wire);
}

/* Each read takes what is there, up to a message, but small ones together, as any receiver does. */
void turns_tcp_stream_server(struct bench_link *link)
{
    static struct wire wire;
    size_t at = 0;

    wire_open(&wire, link, true);
    turn_serve();
    for (;;) {
        size_t left = wire.len - at, most = link->options->octets;
        ssize_t n =
            receive(&wire, wire.memory + at, most < READ_LEAST || most > left ? left : most);
        turn_took((uint64_t)n);
        at += (size_t)n;
        at = at < wire.len ? at : 0;
    }
}

/* --- ping-pong ------------------------------------------------------------------------------- */

static void pingpong(void *arg, struct turn *turn)
{
    static uint8_t mark;
    struct wire *wire = (struct wire *)arg;
    size_t octets = wire->options->octets;

    do {
        wire->memory[octets - 1] = ++mark;
        send_all(wire, wire->memory, octets);
        receive_all(wire, wire->memory, octets);
        if (wire->memory[octets - 1] != mark) {
            bench_fail("a wrong octet came");
        }
    } while (turn_round_trip(turn));
}

void turns_tcp_pingpong_client(struct bench_link *link)
{
    static struct wire wire;

    wire_open(&wire, link, false);
    turn_play(link, pingpong, &wire);
}

void turns_tcp_pingpong_server(struct bench_link *link)
{
    static struct wire wire;

    wire_open(&wire, link, true);
    turn_serve();
    for (;;) {
        receive_all(&wire, wire.memory, link->options->octets);
        send_all(&wire, wire.memory, link->options->octets);
    }
}
