/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send and receive over TCP: a server thread answers each message with the same text in capitals.
 * Usage: 02_send_recv [TEXT...]
 */
#include "side.h"

#include <ctype.h>

/* Halves of each side's buffer: what comes, what goes. */
#define IN   0
#define OUT  512
#define HALF 512

static void *serve(void *arg)
{
    struct side *s = (struct side *)arg;
    struct iwarp_wc wc;

    side_post_receive(s, IN, HALF);
    side_accept(s, NULL, 0);
    while (side_wait(s, IWARP_WC_RECV, &wc)) {
        for (uint32_t i = 0; i < wc.byte_len; i++) {
            s->buffer[OUT + i] = (char)toupper((unsigned char)s->buffer[IN + i]);
        }
        side_post_receive(s, IN, HALF); /* the inbox is free again: for the next message */
        side_send(s, OUT, wc.byte_len);
    }
    return NULL;
}

static void ask(struct side *s, const char *text)
{
    struct iwarp_wc wc;
    size_t len = strlen(text) < HALF ? strlen(text) : HALF;

    memcpy(s->buffer + OUT, text, len);
    side_post_receive(s, IN, HALF);
    side_send(s, OUT, len);
    if (!side_wait(s, IWARP_WC_RECV, &wc)) {
        fprintf(stderr, "the server has gone\n");
        exit(1);
    }
    printf("%s -> %.*s\n", text, (int)wc.byte_len, s->buffer + IN);
}

int main(int argc, char **argv)
{
    static struct side server, client;
    pthread_t thread;

    side_open(&server, IWARP_ACCESS_LOCAL_WRITE);
    side_listen(&server);
    pthread_create(&thread, NULL, serve, &server);
    side_open(&client, IWARP_ACCESS_LOCAL_WRITE);
    side_connect(&client, &server);
    if (argc < 2) {
        ask(&client, "hello");
    }
    for (int i = 1; i < argc; i++) {
        ask(&client, argv[i]);
    }
    side_close(&client);
    pthread_join(thread, NULL);
    side_close(&server);
    return 0;
}
