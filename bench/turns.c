/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * turns TEST [option of iwarp-bench...]: libiwarp, or plain TCP, as a contender that works in turns
 * (turn.h). With whichever libiwarp.so LD_LIBRARY_PATH names.
 */
#include "flow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *test;
    void (*server)(struct bench_link *link), (*client)(struct bench_link *link);
} contenders[] = {
    {"write", turns_stream_server, turns_stream_client},
    {"read", turns_stream_server, turns_stream_client},
    {"send", turns_stream_server, turns_stream_client},
    {"pingpong-send", turns_pingpong_server, turns_pingpong_client},
    {"pingpong-write", turns_pingpong_server, turns_pingpong_client},
    {"tcp-stream", turns_tcp_stream_server, turns_tcp_stream_client},
    {"tcp-active", turns_tcp_crowd_server, turns_tcp_crowd_client},
    {"tcp-pingpong", turns_tcp_pingpong_server, turns_tcp_pingpong_client},
};

int main(int argc, char **argv)
{
    static struct bench_options options;

    if (!bench_options_parse(argc, argv, &options)) {
        return 2;
    }
    setenv("IWARP_LOG", "error", 0);
    if (strcmp(options.test, "memory") == 0) {
        return turns_memory(&options);
    }
    turn_share();
    for (size_t i = 0; i < sizeof contenders / sizeof contenders[0]; i++) {
        if (strcmp(options.test, contenders[i].test) == 0) {
            return bench_both(&options, contenders[i].server, contenders[i].client);
        }
    }
    fprintf(stderr, "turns: not a test that works in turns: %s\n", options.test);
    return 2;
}
