/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The result of a run: one line of JSON, which bench/run reads.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

#define SAMPLES 65536u

static double samples[SAMPLES];
static uint64_t sampled;

void bench_result_begin(const struct bench_options *options)
{
    printf("{\"test\": \"%s\", \"octets\": %zu, \"footprint\": %zu, \"progress\": \"%s\", "
           "\"crc\": %s, \"placement\": \"%s\"",
           options->test, options->octets, options->footprint,
           options->polled     ? "polled"
           : options->embedded ? "embedded"
                               : "threaded",
           options->crc ? "true" : "false", options->early ? "early" : "verified");
}

void bench_result_number(const char *name, double value)
{
    printf(", \"%s\": %.9g", name, value);
}

void bench_result_stream(const struct bench_options *options, uint64_t messages, double seconds,
                         double client_cpu, double server_cpu)
{
    double n = (double)messages, octets = n * (double)options->octets;
    double gib = octets / (double)(1 << 30);

    bench_result_number("messages", n);
    bench_result_number("seconds", seconds);
    bench_result_number("octets_per_s", octets / seconds);
    bench_result_number("messages_per_s", n / seconds);
    bench_result_number("cpu_client_s_per_gib", client_cpu / gib);
    if (server_cpu >= 0) {
        bench_result_number("cpu_server_s_per_gib", server_cpu / gib);
    }
}

/* The last SAMPLES of them are kept. */
void bench_sample(double seconds)
{
    samples[sampled++ % SAMPLES] = seconds;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

void bench_result_round_trips(double seconds)
{
    size_t n = sampled < SAMPLES ? (size_t)sampled : SAMPLES;

    if (n == 0) {
        bench_fail("not one round trip in that time");
    }
    qsort(samples, n, sizeof *samples, by_value);
    bench_result_number("round_trips", (double)sampled);
    bench_result_number("us_one_way", seconds / (double)sampled / 2 * 1e6);
    bench_result_number("us_one_way_median", samples[n / 2] / 2 * 1e6);
    bench_result_number("us_one_way_p99", samples[n * 99 / 100] / 2 * 1e6);
}

void bench_result_end(void)
{
    puts("}");
    fflush(stdout);
}
