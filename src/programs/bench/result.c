/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The result of a run: one line of JSON, which bench/run reads.
 */
#include "bench.h"

#include <stdio.h>

void bench_result_begin(const struct bench_options *options)
{
    printf("{\"test\": \"%s\", \"octets\": %zu, \"footprint\": %zu, \"progress\": \"%s\", "
           "\"crc\": %s, \"placement\": \"%s\"",
           options->test, options->octets, options->footprint,
           options->polled ? "polled" : "threaded", options->crc ? "true" : "false",
           options->early ? "early" : "verified");
}

void bench_result_number(const char *name, double value)
{
    printf(", \"%s\": %.9g", name, value);
}

void bench_result_end(void)
{
    puts("}");
    fflush(stdout);
}
