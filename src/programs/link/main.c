/* SPDX-License-Identifier: BSD-2-Clause */
/* iwarp-link: the switch between processes that have lwIP as their TCP. */
#include "switch.h"

#include <getopt.h>
#include <inttypes.h>
#include <iwarp/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const char usage[] =
    "usage: iwarp-link PATH [--loss P] [--reorder P] [--duplicate P] [--delay US] [--rate BITS]\n"
    "                  [--seed N] [--version] [--help]\n"
    "A switch for Ethernet frames at the socket PATH, for IWARP_TRANSPORT=lwip:unix=PATH,...\n"
    "P is a probability, as 0.01 or 1%; BITS are in a second, as 1000000, 100M or 1G.\n";

static int wrong(const char *option, const char *value)
{
    fprintf(stderr, "iwarp-link: %s %s: not what is expected\n%s", option, value, usage);
    return 2;
}

static bool probability(const char *text, double *p)
{
    char *end;

    *p = strtod(text, &end);
    if (end != text && *end == '%') {
        *p /= 100;
        end++;
    }
    return end != text && *end == '\0' && *p >= 0 && *p <= 1;
}

static bool number(const char *text, uint64_t most, uint64_t *n)
{
    static const char units[] = "kMG";
    char *end;

    *n = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit) {
        for (const char *u = units; u <= unit && *n <= most; u++) {
            *n *= 1000;
        }
        end++;
    }
    return *end == '\0' && *n <= most;
}

static void ready(const char *path)
{
    printf("iwarp-link: %s\n", path);
    fflush(stdout);
}

static bool set(struct link_cable *c, int option, const char *value)
{
    uint64_t n;

    switch (option) {
    case 'l':
        return probability(value, &c->loss);
    case 'r':
        return probability(value, &c->reorder);
    case 'u':
        return probability(value, &c->duplicate);
    case 'd':
        if (!number(value, 10000000, &n)) {
            return false;
        }
        c->delay_ns = n * 1000;
        return true;
    case 'b':
        return number(value, 1000000000000u, &c->rate) && c->rate > 0;
    default:
        return number(value, UINT64_MAX / 1000, &c->random);
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"loss", required_argument, NULL, 'l'},
                                            {"reorder", required_argument, NULL, 'r'},
                                            {"duplicate", required_argument, NULL, 'u'},
                                            {"delay", required_argument, NULL, 'd'},
                                            {"rate", required_argument, NULL, 'b'},
                                            {"seed", required_argument, NULL, 's'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'v'},
                                            {NULL, 0, NULL, 0}};
    struct link_cable c = {0};
    int option, at = 0;

    if (getrandom(&c.random, sizeof c.random, 0) != sizeof c.random) {
        c.random = 1;
    }
    c.random %= 1000000000;
    while ((option = getopt_long(argc, argv, "", options, &at)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            return 0;
        }
        if (option == 'v') {
            printf("iwarp-link %s\n", iwarp_version());
            return 0;
        }
        if (option == '?') {
            fputs(usage, stderr);
            return 2;
        }
        if (!set(&c, option, optarg)) {
            return wrong(options[at].name, optarg);
        }
    }
    if (optind + 1 != argc) {
        fputs(usage, stderr);
        return 2;
    }
    uint64_t seed = c.random;
    int status = link_switch(argv[optind], &c, ready);
    if (status == 0) {
        fprintf(stderr,
                "seed %" PRIu64 ": %" PRIu64 " frames, %" PRIu64 " lost, %" PRIu64
                " reordered, %" PRIu64 " duplicated, %" PRIu64 " dropped for want of room\n",
                seed, c.frames, c.lost, c.reordered, c.duplicated, c.dropped);
    }
    return status;
}
