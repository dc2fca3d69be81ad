/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iwarp-bench: measures libiwarp, and plain TCP in the same way. This file chooses the test.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *test;
    void (*server)(struct bench_link *link), (*client)(struct bench_link *link);
} pairs[] = {
    {"write", bench_stream_server, bench_stream_client},
    {"read", bench_stream_server, bench_stream_client},
    {"send", bench_stream_server, bench_stream_client},
    {"pingpong-send", bench_pingpong_server, bench_pingpong_client},
    {"pingpong-write", bench_pingpong_server, bench_pingpong_client},
    {"tcp-stream", bench_tcp_stream_server, bench_tcp_stream_client},
    {"tcp-pingpong", bench_tcp_pingpong_server, bench_tcp_pingpong_client},
    {"setup", bench_crowd_server, bench_crowd_client},
    {"idle", bench_crowd_server, bench_crowd_client},
    {"active", bench_crowd_server, bench_crowd_client},
    {"tcp-active", bench_tcp_crowd_server, bench_tcp_crowd_client},
};

int main(int argc, char **argv)
{
    static struct bench_options options;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        bench_options_help();
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("iwarp-bench %s\n", iwarp_version());
        return 0;
    }
    if (!bench_options_parse(argc, argv, &options)) {
        return 2;
    }
    setenv("IWARP_LOG", "error", 0);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (strcmp(options.test, pairs[i].test) == 0) {
            return bench_both(&options, pairs[i].server, pairs[i].client);
        }
    }
    return strcmp(options.test, "register") == 0 ? bench_register(&options)
                                                 : bench_memory(&options);
}
