/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Command line of iwarp-bench: what each test takes when nothing is said, and the options that
 * change it. Does not run anything.
 */
#include "bench.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a test is, and what it takes by default. */
static const struct test {
    const char *name, *what;
    size_t octets;
    unsigned depth, chain, count;
} tests[] = {
    {"write", "one stream of RDMA Writes", 1 << 20, 16, 1, 0},
    {"read", "one stream of RDMA Reads", 1 << 20, 16, 1, 0},
    {"send", "one stream of Sends", 65536, 64, 1, 0},
    {"pingpong-send", "a Send to and fro", 8, 16, 1, 0},
    {"pingpong-write", "an RDMA Write to and fro, both sides spin on memory", 8, 16, 1, 0},
    {"tcp-stream", "one stream over plain TCP", 1 << 20, 1, 1, 0},
    {"tcp-pingpong", "a message to and fro over plain TCP", 8, 1, 1, 0},
    {"setup", "connections that are set up, per second", 8, 64, 1, 2000},
    {"idle", "idle connections: memory and processor time", 8, 64, 1, 10000},
    {"active", "many connections at a time, RDMA Writes on each", 16384, 4, 1, 1000},
    {"tcp-active", "many connections at a time, messages over plain TCP", 16384, 1, 1, 1000},
    {"register", "what it costs to register memory, by size", 4096, 1, 1, 2000},
    {"memory", "small RDMA Writes between queue pairs of one process", 64, 256, 64, 1},
};

void bench_options_help(void)
{
    puts(
        "usage: iwarp-bench TEST [option...]\n\n"
        "Runs a server and a client on this machine, each in a process of its own, and prints one\n"
        "line of JSON. With --listen and --connect they are on two machines, called with the same\n"
        "options otherwise; there is no check who connects.\n\ntests:");
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        printf("  %-15s %s\n", tests[i].name, tests[i].what);
    }
    puts("\noptions (sizes take K, M, G):\n"
         "  --size N         octets of a message\n"
         "  --footprint N    memory that messages go round in, each side; default one message\n"
         "  --seconds S      for how long; default 1\n"
         "  --count N        connections; memory: target regions, in each queue pair\n"
         "  --depth N        requests in flight\n"
         "  --chain N        requests in one call, the last of them signaled\n"
         "  --inline         payload is copied while posting\n"
         "  --polled         busy polling; default is sleeping for completions\n"
         "  --spin           busy polling, of a device that is opened as for sleeping\n"
         "  --embedded       sleeping, with the device in a loop of this program\n"
         "  --no-crc         without CRC32c\n"
         "  --early          payload is placed before its CRC was seen\n"
         "  --ulpdu N        octets of the longest ULPDU\n"
         "  --workers N      of each device\n"
         "  --cores A,B      the server runs on core A, the client on B\n"
         "  --listen ADDR    be the server only; --connect ADDR: the client only\n"
         "  --port N         for these two; default 7476\n"
         "  --version, --help");
}

static bool number(const char *text, uint64_t low, uint64_t high, uint64_t *value)
{
    char *end;

    errno = 0;
    *value = strtoull(text, &end, 0);
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (shift > 0) {
        end++;
    }
    if (errno != 0 || end == text || *end != '\0' || *text == '-' || *value > high >> shift) {
        return false;
    }
    *value <<= shift;
    return *value >= low;
}

static bool take_cores(const char *text, int cores[2])
{
    return sscanf(text, "%d,%d", &cores[0], &cores[1]) == 2;
}

enum option_id {
    OPTION_SIZE = 1,
    OPTION_FOOTPRINT,
    OPTION_SECONDS,
    OPTION_COUNT,
    OPTION_DEPTH,
    OPTION_CHAIN,
    OPTION_INLINE,
    OPTION_POLLED,
    OPTION_SPIN,
    OPTION_EMBEDDED,
    OPTION_NO_CRC,
    OPTION_EARLY,
    OPTION_ULPDU,
    OPTION_WORKERS,
    OPTION_CORES,
    OPTION_LISTEN,
    OPTION_CONNECT,
    OPTION_PORT
};

static const struct option long_options[] = {{"size", 1, NULL, OPTION_SIZE},
                                             {"footprint", 1, NULL, OPTION_FOOTPRINT},
                                             {"seconds", 1, NULL, OPTION_SECONDS},
                                             {"count", 1, NULL, OPTION_COUNT},
                                             {"depth", 1, NULL, OPTION_DEPTH},
                                             {"chain", 1, NULL, OPTION_CHAIN},
                                             {"inline", 0, NULL, OPTION_INLINE},
                                             {"polled", 0, NULL, OPTION_POLLED},
                                             {"spin", 0, NULL, OPTION_SPIN},
                                             {"no-crc", 0, NULL, OPTION_NO_CRC},
                                             {"early", 0, NULL, OPTION_EARLY},
                                             {"ulpdu", 1, NULL, OPTION_ULPDU},
                                             {"workers", 1, NULL, OPTION_WORKERS},
                                             {"cores", 1, NULL, OPTION_CORES},
                                             {"listen", 1, NULL, OPTION_LISTEN},
                                             {"connect", 1, NULL, OPTION_CONNECT},
                                             {"port", 1, NULL, OPTION_PORT},
                                             {"embedded", 0, NULL, OPTION_EMBEDDED},
                                             {NULL, 0, NULL, 0}};

/* Options that are a number of type unsigned. */
static bool take_unsigned(int id, const char *text, struct bench_options *options)
{
    static const uint64_t highest[] = {[OPTION_COUNT] = 4000000,
                                       [OPTION_DEPTH] = 16384,
                                       [OPTION_CHAIN] = 256,
                                       [OPTION_ULPDU] = 64768,
                                       [OPTION_WORKERS] = 64};
    unsigned *where = id == OPTION_COUNT   ? &options->count
                      : id == OPTION_DEPTH ? &options->depth
                      : id == OPTION_CHAIN ? &options->chain
                      : id == OPTION_ULPDU ? &options->ulpdu_max
                                           : &options->workers;
    uint64_t value;

    if (!number(text, 1, highest[id], &value)) {
        return false;
    }
    *where = (unsigned)value;
    return true;
}

static bool take_size(const char *text, size_t *size)
{
    uint64_t value;

    if (!number(text, 1, (uint64_t)64 << 30, &value) || value > SIZE_MAX) {
        return false;
    }
    *size = (size_t)value;
    return true;
}

static bool take(int id, const char *text, struct bench_options *options)
{
    switch (id) {
    case OPTION_SIZE:
        return take_size(text, &options->octets) && options->octets <= (size_t)1 << 30;
    case OPTION_FOOTPRINT:
        return take_size(text, &options->footprint);
    case OPTION_SECONDS:
        options->seconds = strtod(text, NULL);
        return options->seconds > 0 && options->seconds < 3600;
    case OPTION_INLINE:
        return options->inlined = true;
    case OPTION_POLLED:
        return options->polled = true;
    case OPTION_SPIN:
        return options->spin = true;
    case OPTION_EMBEDDED:
        return options->embedded = true;
    case OPTION_NO_CRC:
        options->crc = false;
        return true;
    case OPTION_EARLY:
        return options->early = true;
    case OPTION_CORES:
        return take_cores(text, options->cores);
    case OPTION_LISTEN:
        options->listen_on = text;
        return true;
    case OPTION_CONNECT:
        options->connect_to = text;
        return true;
    case OPTION_PORT:
        options->port = text;
        return true;
    default:
        return take_unsigned(id, text, options);
    }
}

static bool sensible(struct bench_options *options)
{
    if (options->footprint == 0) {
        options->footprint = options->octets;
    }
    options->footprint -= options->footprint % options->octets;
    if (options->depth < options->chain) {
        options->depth = options->chain;
    }
    const char *wrong =
        options->footprint == 0                      ? "the footprint is smaller than a message"
        : options->inlined && options->octets > 1024 ? "at most 1024 octets can be sent inline"
        : options->embedded && (options->polled || options->spin || options->workers > 1)
            ? "--embedded goes with one worker, and not with --polled or --spin"
        : options->listen_on && options->connect_to ? "--listen and --connect do not go together"
                                                    : NULL;
    if (!wrong && (options->listen_on || options->connect_to) && options->count > 0) {
        wrong = "this test is for one machine";
    }
    if (wrong) {
        fprintf(stderr, "iwarp-bench: %s\n", wrong);
    }
    return !wrong;
}

bool bench_options_parse(int argc, char **argv, struct bench_options *options)
{
    const struct test *test = NULL;
    int id;

    for (size_t i = 0; argc > 1 && i < sizeof tests / sizeof tests[0]; i++) {
        test = strcmp(argv[1], tests[i].name) == 0 ? &tests[i] : test;
    }
    if (!test) {
        fprintf(stderr, "iwarp-bench: %s; see iwarp-bench --help\n",
                argc > 1 ? "no such test" : "which test?");
        return false;
    }
    *options = (struct bench_options){.test = test->name,
                                      .octets = test->octets,
                                      .depth = test->depth,
                                      .chain = test->chain,
                                      .count = test->count,
                                      .seconds = 1,
                                      .workers = 1,
                                      .crc = true,
                                      .cores = {-1, -1},
                                      .port = "7476"};
    while ((id = getopt_long(argc - 1, argv + 1, "", long_options, NULL)) != -1) {
        if (id == '?') {
            return false;
        }
        if (!take(id, optarg, options)) {
            fprintf(stderr, "iwarp-bench: '%s' will not do here; see iwarp-bench --help\n",
                    optarg ? optarg : "an option");
            return false;
        }
    }
    if (optind < argc - 1) {
        fprintf(stderr, "iwarp-bench: what is '%s'?\n", argv[optind + 1]);
        return false;
    }
    return sensible(options);
}
