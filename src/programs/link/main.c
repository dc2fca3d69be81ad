/* SPDX-License-Identifier: BSD-2-Clause */
/* iwarp-link: the switch between processes that have lwIP as their TCP. */
#include "programs/service/refused.h"
#include "switch.h"

#include <getopt.h>
#include <inttypes.h>
#include <iwarp/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const char usage[] =
    "iwarp-link is an Ethernet switch between processes, for IWARP_TRANSPORT=lwip:unix=PATH,...\n\n"
    "  iwarp-link [OPTION...] PATH          a socket that it makes\n\n"
    "  --loss P         frames that are lost; P is a probability, as 0.01 or 1%\n"
    "  --reorder P      frames that come behind others\n"
    "  --duplicate P    frames that come twice\n"
    "  --delay US       microseconds that every frame takes\n"
    "  --rate BITS      a second to each end, as 1000000, 100M or 1G\n"
    "  --seed N         of chance; without it, it is printed at the end\n"
    "  -h, --help       this text\n"
    "  -V, --version    the version\n";

/* The status of the program. */
static int wrong(const char *what, const char *why)
{
    fprintf(stderr, "iwarp-link: %s: %s; see iwarp-link --help\n", what, why);
    return 2;
}

static int print(const char *text)
{
    if (fputs(text, stdout) < 0 || fflush(stdout) != 0) {
        fputs("iwarp-link: standard output: it cannot be written\n", stderr);
        return 1;
    }
    return 0;
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

/* NULL, or what it should have been. */
static const char *set(struct link_cable *c, int option, const char *value)
{
    static const char chance[] = "not a probability, as 0.01 or 1%";
    uint64_t n;

    switch (option) {
    case 'l':
        return probability(value, &c->loss) ? NULL : chance;
    case 'r':
        return probability(value, &c->reorder) ? NULL : chance;
    case 'u':
        return probability(value, &c->duplicate) ? NULL : chance;
    case 'd':
        if (!number(value, 10000000, &n)) {
            return "not a number of microseconds up to 10000000";
        }
        c->delay_ns = n * 1000;
        return NULL;
    case 'b':
        return number(value, 1000000000000u, &c->rate) && c->rate > 0
                   ? NULL
                   : "not bits a second, as 1000000, 100M or 1G, up to 1000G";
    default:
        return number(value, UINT64_MAX / 1000, &c->random) ? NULL : "not a number";
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
                                            {"version", no_argument, NULL, 'V'},
                                            {NULL, 0, NULL, 0}};
    struct link_cable c = {0};
    int option;

    if (getrandom(&c.random, sizeof c.random, 0) != sizeof c.random) {
        c.random = 1;
    }
    c.random %= 1000000000;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":hV", options, NULL)) != -1) {
        if (option == 'h') {
            return print(usage);
        }
        if (option == 'V') {
            return print("iwarp-link " IWARP_VERSION "\n");
        }
        if (option == '?' || option == ':') {
            const char *word = argv[optind - 1], *why = option_refused(option, &word);
            return wrong(word, why);
        }
        const char *expected = set(&c, option, optarg);
        if (expected) {
            return wrong(optarg, expected);
        }
    }
    if (optind == argc) {
        return wrong("PATH", "it is missing");
    }
    if (optind + 1 < argc) {
        return wrong(argv[optind + 1], "there is one PATH only");
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
