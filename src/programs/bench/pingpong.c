/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ping-pong: one small message to and fro, by Sends or by RDMA Writes into memory that the other
 * side spins on. Sleeping for completions with threaded progress, or busy with polled progress.
 * RFC 5040 5.1; what spinning may rely on is in <iwarp/verbs.h>.
 */
#include "bench.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define RECEIVES 16u

struct game {
    struct bench_side side;
    bool writing;
    unsigned unreaped;           /* posted without a signal since the last signaled one */
    _Atomic unsigned char *spot; /* last octet of what comes */
    uint8_t *out;
};

static void game_open(struct game *game, const struct bench_options *options)
{
    memset(game, 0, sizeof *game);
    bench_side_open(&game->side, options);
    game->writing = strcmp(options->test, "pingpong-write") == 0;
    if (game->writing && !options->polled) {
        bench_fail("pingpong-write spins on memory: it takes --polled");
    }
    game->spot = (_Atomic unsigned char *)(game->side.memory + options->octets - 1);
    game->out = game->side.memory + options->footprint;
    for (unsigned i = 0; i < RECEIVES; i++) {
        bench_post_receive(&game->side, 0, options->octets);
    }
}

static void send_one(struct game *game, unsigned char mark)
{
    const struct bench_options *options = game->side.options;
    struct iwarp_sge sge = {game->out, (uint32_t)options->octets, game->side.stag};
    struct iwarp_send_wr wr = {.opcode = game->writing ? IWARP_WR_WRITE : IWARP_WR_SEND,
                               .flags = options->inlined ? IWARP_WR_INLINE : 0,
                               .sg_list = &sge,
                               .num_sge = 1,
                               .remote_stag = game->side.peer.stag,
                               .remote_to = game->side.peer.to};

    game->out[options->octets - 1] = mark;
    bench_post(&game->side, &wr);
}

/* Writes: polling moves the octets, memory tells that they have come. */
static bool take_write(struct game *game, unsigned char mark)
{
    struct iwarp_wc wc;

    while (atomic_load_explicit(game->spot, memory_order_acquire) != mark) {
        int n = iwarp_cq_poll(game->side.cq, &wc, 1);
        if (n < 0 || (n == 1 && wc.status != IWARP_WC_SUCCESS)) {
            return false;
        }
    }
    return true;
}

static bool take_one(struct game *game, unsigned char mark)
{
    struct iwarp_wc wc;

    if (game->writing) {
        return take_write(game, mark);
    }
    do {
        if (bench_take(&game->side, &wc, 1) == 0) {
            return false;
        }
    } while (wc.opcode != IWARP_WC_RECV);
    bench_post_receive(&game->side, 0, game->side.options->octets);
    if (atomic_load_explicit(game->spot, memory_order_acquire) != mark) {
        bench_fail("a wrong octet came");
    }
    return true;
}

void bench_pingpong_server(struct bench_link *link)
{
    static struct game game;

    game_open(&game, link->options);
    bench_side_serve(&game.side, link);
    /* The mark 255 is the last one, and is answered too. */
    for (unsigned char mark = 1;; mark = (unsigned char)(mark % 200 + 1)) {
        unsigned char got = mark;
        if (game.writing) {
            struct iwarp_wc wc;
            unsigned char now;
            while ((now = atomic_load_explicit(game.spot, memory_order_acquire)) != mark &&
                   now != 255) {
                if (iwarp_cq_poll(game.side.cq, &wc, 1) < 0) {
                    bench_fail("poll: %s", iwarp_last_error());
                }
            }
            got = now;
        } else {
            struct iwarp_wc wc;
            do {
                if (bench_take(&game.side, &wc, 1) == 0) {
                    bench_fail("the client has gone");
                }
            } while (wc.opcode != IWARP_WC_RECV);
            bench_post_receive(&game.side, 0, link->options->octets);
            got = atomic_load_explicit(game.spot, memory_order_acquire);
            if (got != mark && got != 255) {
                bench_fail("a wrong octet came");
            }
        }
        send_one(&game, got);
        if (got == 255) {
            break;
        }
    }
    bench_tell(link, "d", 1);
    bench_side_close(&game.side);
}

void bench_pingpong_client(struct bench_link *link)
{
    static struct game game;
    const struct bench_options *options = link->options;
    unsigned char mark = 0;
    double warm = options->seconds / 10, begin = 0, last;
    char done;

    game_open(&game, options);
    bench_side_connect(&game.side, link);
    double first = last = bench_now();
    while (last - first < options->seconds + warm) {
        mark = (unsigned char)(mark % 200 + 1);
        send_one(&game, mark);
        if (!take_one(&game, mark)) {
            bench_fail("the server has gone: %s", iwarp_last_error());
        }
        double now = bench_now();
        if (begin > 0) {
            bench_sample(now - last);
        } else if (now - first >= warm) {
            begin = now;
        }
        last = now;
    }
    send_one(&game, 255);
    take_one(&game, 255);
    bench_hear(link, &done, 1);
    bench_side_close(&game.side);
    bench_result_begin(options);
    bench_result_round_trips(last - begin);
    bench_result_end();
}
