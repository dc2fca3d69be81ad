/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a message costs in each way to wait for it: ping-pong of small Sends between two threads
 * that sleep until a completion comes, that poll while the library's threads move the octets, and
 * that poll and move them themselves (polled progress).
 * Usage: 10_polled [ROUND-TRIPS [OCTETS]]
 */
#include "side.h"

#include <time.h>

#define IN   0
#define OUT  512
#define HALF 512

static unsigned rounds = 20000;
static size_t octets = 8;
static bool sleeping; /* rather than polling */

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* The next receive completion. False: the connection has ended. */
static bool received(struct side *s)
{
    struct iwarp_wc wc;
    int n;

    if (sleeping) {
        return side_wait(s, IWARP_WC_RECV, &wc);
    }
    do {
        while ((n = iwarp_cq_poll(s->cq, &wc, 1)) == 0) {
        }
        must(n < 0 ? (enum iwarp_status)n : IWARP_OK, "poll");
    } while (wc.status == IWARP_WC_SUCCESS && wc.opcode != IWARP_WC_RECV);
    return wc.status == IWARP_WC_SUCCESS;
}

static void *serve(void *arg)
{
    struct side *s = (struct side *)arg;

    side_post_receive(s, IN, HALF);
    side_accept(s, NULL, 0);
    while (received(s)) {
        side_post_receive(s, IN, HALF);
        side_send(s, OUT, octets);
    }
    return NULL;
}

static double ping_pong(enum iwarp_progress progress)
{
    static struct side server, client;
    struct iwarp_device_options options;
    pthread_t thread;

    iwarp_device_options_init(&options);
    options.progress = progress;
    side_open_with(&server, IWARP_ACCESS_LOCAL_WRITE, &options);
    side_listen(&server);
    pthread_create(&thread, NULL, serve, &server);
    side_open_with(&client, IWARP_ACCESS_LOCAL_WRITE, &options);
    side_connect(&client, &server);
    double begun = 0;
    for (unsigned i = 0; i < rounds + rounds / 10; i++) {
        if (i == rounds / 10) { /* warm by now */
            begun = now_us();
        }
        side_post_receive(&client, IN, HALF);
        side_send(&client, OUT, octets);
        if (!received(&client)) {
            fprintf(stderr, "the server has gone\n");
            exit(1);
        }
    }
    double us = (now_us() - begun) / rounds / 2;
    side_close(&client);
    pthread_join(thread, NULL);
    side_close(&server);
    return us;
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        rounds = (unsigned)strtoul(argv[1], NULL, 10);
    }
    if (argc > 2) {
        octets = strtoul(argv[2], NULL, 10);
    }
    if (rounds < 10 || octets > HALF) {
        fprintf(stderr, "at least 10 round trips, at most %d octets\n", HALF);
        return 2;
    }
    printf("%zu octets, %u round trips, microseconds one way:\n", octets, rounds);
    sleeping = true;
    printf("  %6.2f  sleeping, the library's threads move the octets\n",
           ping_pong(IWARP_PROGRESS_THREADED));
    sleeping = false;
    printf("  %6.2f  polling, the library's threads move the octets\n",
           ping_pong(IWARP_PROGRESS_THREADED));
    printf("  %6.2f  polling moves the octets\n", ping_pong(IWARP_PROGRESS_POLLED));
    return 0;
}
