/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iWARP inside the application's own libuv loop: no thread and no lock of the library. A server
 * that answers each message, a client that sends some, and a timer of the application, all on one
 * thread. The queues' descriptors tell the loop when to look at them.
 * Usage: 09_event_loop [MESSAGES]
 */
#include "side.h"

#include <uv.h>

#define IN   0
#define OUT  512
#define HALF 512

/* One side, and what watches its completion queue. */
struct peer {
    struct side side;
    uv_poll_t completions;
    void (*received)(struct peer *peer, uint32_t len);
};

static uv_loop_t loop;
static uv_poll_t requests; /* of the server's event queue */
static uv_timer_t clock_tick;
static struct peer server, client;
static unsigned wanted = 1000, answered, ticks;

static void on_completions(uv_poll_t *watch, int status, int events)
{
    struct peer *peer = (struct peer *)watch->data;
    struct iwarp_wc wc;

    (void)status;
    (void)events;
    iwarp_cq_drain(peer->side.cq);
    must(iwarp_cq_arm(peer->side.cq, false), "arm"); /* first, so that nothing is missed */
    while (iwarp_cq_poll(peer->side.cq, &wc, 1) == 1) {
        if (wc.status != IWARP_WC_SUCCESS) { /* all that was posted comes back, so none is missed */
            fprintf(stderr, "the connection has ended: %s\n", iwarp_wc_status_text(wc.status));
            exit(1);
        }
        if (wc.opcode == IWARP_WC_RECV) {
            peer->received(peer, wc.byte_len);
        }
    }
}

static void watch_completions(struct peer *peer)
{
    peer->completions.data = peer;
    uv_poll_init(&loop, &peer->completions, iwarp_cq_fd(peer->side.cq));
    uv_poll_start(&peer->completions, UV_READABLE, on_completions);
    must(iwarp_cq_arm(peer->side.cq, false), "arm");
}

static void server_received(struct peer *peer, uint32_t len)
{
    memcpy(peer->side.buffer + OUT, peer->side.buffer + IN, len);
    side_post_receive(&peer->side, IN, HALF);
    side_send(&peer->side, OUT, len);
}

static void ask(struct peer *peer)
{
    int len = snprintf(peer->side.buffer + OUT, HALF, "message %u", answered + 1);

    side_post_receive(&peer->side, IN, HALF);
    side_send(&peer->side, OUT, (size_t)len);
}

static void client_received(struct peer *peer, uint32_t len)
{
    if (memcmp(peer->side.buffer + IN, peer->side.buffer + OUT, len) != 0) {
        fprintf(stderr, "a wrong answer\n");
        exit(1);
    }
    if (++answered < wanted) {
        ask(peer);
        return;
    }
    uv_stop(&loop);
}

static void on_request(uv_poll_t *watch, int status, int events)
{
    struct iwarp_event event;

    (void)watch;
    (void)status;
    (void)events;
    while (iwarp_eq_get(server.side.eq, &event, 0) == IWARP_OK) { /* 0: never wait in a callback */
        if (event.type == IWARP_EVENT_REQUEST) {
            server.side.conn = event.conn;
            side_post_receive(&server.side, IN, HALF);
            must(iwarp_accept(event.conn, server.side.qp, NULL, NULL, 0, NULL), "accept");
        }
    }
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
    ticks++;
}

static void open_side(struct peer *peer, void (*received)(struct peer *, uint32_t))
{
    struct iwarp_device_options options;

    iwarp_device_options_init(&options);
    options.progress = IWARP_PROGRESS_EMBEDDED;
    options.loop = &loop;
    side_open_with(&peer->side, IWARP_ACCESS_LOCAL_WRITE, &options);
    peer->received = received;
    watch_completions(peer);
}

/* What the library has to say goes into the log of the application, here to its output. Try it with
 * IWARP_LOG=info. */
static void take_line(enum iwarp_log_level level, const char *module, const char *text, void *arg)
{
    static const char *const levels[] = {"", "error", "warn", "info", "debug", "trace"};

    (void)arg;
    printf("%s of the library (%s): %s\n", levels[level], module, text);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        wanted = (unsigned)strtoul(argv[1], NULL, 10);
    }
    iwarp_log_to(take_line, NULL);
    uv_loop_init(&loop);
    uv_timer_init(&loop, &clock_tick);
    uv_timer_start(&clock_tick, on_tick, 1, 1);

    open_side(&server, server_received);
    side_listen(&server.side);
    uv_poll_init(&loop, &requests, iwarp_eq_fd(server.side.eq));
    uv_poll_start(&requests, UV_READABLE, on_request);

    open_side(&client, client_received);
    side_connect(&client.side, &server.side); /* outside callbacks waiting runs the loop */
    ask(&client);
    uv_run(&loop, UV_RUN_DEFAULT);
    printf("%u messages answered, the application's timer ran %s, 1 thread\n", answered,
           ticks > 0 ? "beside them" : "NOT");

    uv_close((uv_handle_t *)&clock_tick, NULL);
    uv_close((uv_handle_t *)&requests, NULL);
    uv_close((uv_handle_t *)&server.completions, NULL);
    uv_close((uv_handle_t *)&client.completions, NULL);
    side_close(&client.side);
    side_close(&server.side);
    uv_run(&loop, UV_RUN_DEFAULT); /* until the last handle is closed */
    return uv_loop_close(&loop) == 0 ? 0 : 1;
}
