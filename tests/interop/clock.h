/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two clocks of the measurement, measure.c and measure_tcp.c.
 */
#ifndef INTEROP_CLOCK_H
#define INTEROP_CLOCK_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static inline double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/*
 * Seconds that the processors of the whole machine have not idled, both ends and the kernel's
 * threads together. The kernel tells them in ticks of usually 10 ms.
 */
static inline double busy_s(void)
{
    double user, nice, system, idle, iowait, irq, softirq, steal;
    FILE *stat = fopen("/proc/stat", "r");

    if (!stat || fscanf(stat, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &user, &nice, &system, &idle,
                        &iowait, &irq, &softirq, &steal) != 8) {
        puts("outcome bad: /proc/stat");
        exit(1);
    }
    fclose(stat);
    return (user + nice + system + irq + softirq + steal) / (double)sysconf(_SC_CLK_TCK);
}

#endif
