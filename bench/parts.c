/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * parts PART: what a figure of the benchmark is made of, measured in turns (turn.h) beside it, and
 * what the host gives to a program that has nothing to do with the library. The answer's rate is
 *   copies, two-copies  octets a second of copies that L2 does not hold, on one core and on two
 *   near-copies         the same of 64 KiB, which L2 holds
 *   crc                 octets a second of our CRC32c over 64 KiB
 *   call                calls of send with recv a second, 8 octets, both ends in one thread
 *   wake                round trips a second through pipes between two processes that sleep
 */
#include "mpa/crc32c.h"
#include "turn.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FAR  ((size_t)8 << 20) /* octets of a copy; more than L2 holds */
#define NEAR ((size_t)64 << 10)

static uint8_t *memory_of(size_t octets)
{
    uint8_t *memory = malloc(octets);

    if (!memory) {
        bench_fail("no memory");
    }
    memset(memory, 1, octets);
    return memory;
}

/* The compiler does not see that nobody looks at it. */
static void used(const void *memory)
{
    __asm__ volatile("" : : "r"(memory) : "memory");
}

static void copies(struct turn *turn, uint8_t *memory, size_t octets)
{
    do {
        memcpy(memory, memory + octets, octets);
        used(memory);
    } while (turn_goes_on(turn, octets));
}

static void crc(struct turn *turn, uint8_t *memory)
{
    uint32_t sum = 0;

    do {
        sum = iwarp_crc32c(sum, memory, NEAR);
        used(&sum);
    } while (turn_goes_on(turn, NEAR));
}

/* --- two threads ----------------------------------------------------------------------------- */

static pthread_barrier_t begin_turn, end_turn;
static struct turn other_turn;

static void *other_thread(void *memory)
{
    bench_pin(0);
    for (;;) {
        pthread_barrier_wait(&begin_turn);
        copies(&other_turn, memory, FAR);
        pthread_barrier_wait(&end_turn);
    }
    return NULL;
}

static void start_other(void)
{
    pthread_t thread;

    pthread_barrier_init(&begin_turn, NULL, 2);
    pthread_barrier_init(&end_turn, NULL, 2);
    if (pthread_create(&thread, NULL, other_thread, memory_of(2 * FAR)) != 0) {
        bench_fail("no thread");
    }
}

static double two_copies(struct turn *turn, uint8_t *memory)
{
    other_turn = *turn;
    pthread_barrier_wait(&begin_turn);
    copies(turn, memory, FAR);
    pthread_barrier_wait(&end_turn);
    return (double)other_turn.messages / (other_turn.now - other_turn.begin);
}

/* --- calls, and waking up -------------------------------------------------------------------- */

static void calls(struct turn *turn, const int fd[2])
{
    char c[8] = {0};

    do {
        if (send(fd[0], c, sizeof c, 0) != sizeof c || recv(fd[1], c, sizeof c, 0) != sizeof c) {
            bench_fail("a socket did not pass on 8 octets");
        }
    } while (turn_goes_on(turn, 1));
}

static void connect_to_self(int fd[2])
{
    struct bench_options options = {.port = "0"};
    struct sockaddr_storage addr;
    socklen_t addr_len = sizeof addr;
    int listener = bench_tcp_listen(&(struct bench_link){&options, true, -1, -1}, 1);

    getsockname(listener, (struct sockaddr *)&addr, &addr_len);
    fd[0] = bench_tcp_connect((struct sockaddr *)&addr, addr_len);
    fd[1] = bench_tcp_accept(listener);
}

static void wake(void *arg, struct turn *turn)
{
    struct bench_link *link = (struct bench_link *)arg;
    char c = 'p';

    do {
        bench_tell(link, &c, 1);
        bench_hear(link, &c, 1);
    } while (turn_goes_on(turn, 1));
}

static void wake_client(struct bench_link *link)
{
    turn_play(link, wake, link);
}

static void wake_server(struct bench_link *link)
{
    char c;

    turn_serve();
    for (bench_hear(link, &c, 1); c != 'q'; bench_hear(link, &c, 1)) {
        if (c == 'p') {
            bench_tell(link, &c, 1);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct bench_options options = {.cores = {0, 1}};
    const char *part = argc == 2 ? argv[1] : "";
    bool two = strcmp(part, "two-copies") == 0, far = two || strcmp(part, "copies") == 0;
    bool near = strcmp(part, "near-copies") == 0, sum = strcmp(part, "crc") == 0;
    struct turn turn;
    int fd[2];

    if (strcmp(part, "wake") == 0) {
        turn_share();
        return bench_both(&options, wake_server, wake_client);
    }
    if (!far && !near && !sum && strcmp(part, "call") != 0) {
        fprintf(stderr, "parts: no such part: %s\n", part);
        return 2;
    }
    bench_pin(1);
    uint8_t *memory = memory_of(2 * (far ? FAR : NEAR));
    if (two) {
        start_other();
    }
    connect_to_self(fd);
    turn_ready();
    while (turn_next(&turn)) {
        double rate = two ? two_copies(&turn, memory) : 0;
        if (far && !two) {
            copies(&turn, memory, FAR);
        } else if (near) {
            copies(&turn, memory, NEAR);
        } else if (sum) {
            crc(&turn, memory);
        } else if (!two) {
            calls(&turn, fd);
        }
        turn_answer(&turn, rate + (double)turn.messages / (turn.now - turn.begin));
    }
    return 0;
}
