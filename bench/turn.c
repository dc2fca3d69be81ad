/* SPDX-License-Identifier: BSD-2-Clause */
#include "turn.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES (1u << 20)

/* Both processes see it. */
static struct shared {
    atomic_bool playing;
    _Atomic uint64_t taken;
    clockid_t clock; /* the server's processor time */
    atomic_bool has_clock;
} *shared;

static float samples[SAMPLES]; /* seconds of round trips of this turn */

void turn_share(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        bench_fail("no memory");
    }
}

/* --- asking and answering -------------------------------------------------------------------- */

void turn_ready(void)
{
    printf("ready %s\n", iwarp_version());
    fflush(stdout);
}

bool turn_next(struct turn *turn)
{
    char line[80];

    *turn = (struct turn){0};
    if (!fgets(line, sizeof line, stdin) ||
        sscanf(line, "%lf %lf", &turn->warm, &turn->length) != 2) {
        return false;
    }
    turn->warm /= 1e3;
    turn->length /= 1e3;
    turn->start = bench_now();
    return true;
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return x < y ? -1 : x > y;
}

/* One way in microseconds, rounded down to 32 steps an octave. */
static double step_of(float seconds)
{
    uint64_t ns = (uint64_t)((double)seconds / 2 * 1e9);
    unsigned drop = ns < 64 ? 0 : 63u - (unsigned)__builtin_clzll(ns) - 5;

    return (double)(ns >> drop << drop) / 1e3;
}

static void answer_samples(uint64_t n)
{
    double step = -1;
    uint64_t count = 0;

    qsort(samples, n, sizeof *samples, by_value);
    printf(", \"p50\": %.6g, \"p99\": %.6g, \"steps\": [", (double)samples[n / 2] / 2 * 1e6,
           (double)samples[n * 99 / 100] / 2 * 1e6);
    for (uint64_t i = 0; i <= n; i++) {
        double next = i < n ? step_of(samples[i]) : -2;
        if (next != step && count > 0) {
            printf("[%.6g, %llu]%s", step, (unsigned long long)count, i < n ? ", " : "");
            count = 0;
        }
        step = next;
        count++;
    }
    printf("], \"longest\": %.6g", (double)samples[n - 1] / 2 * 1e6);
}

void turn_answer(struct turn *turn, double rate)
{
    printf("{\"rate\": %.9g, \"seconds\": %.9g, \"cpu\": [%.9g, %.9g]", rate,
           turn->now - turn->begin, turn->cpu[0], turn->cpu[1]);
    if (turn->samples > 0) {
        answer_samples(turn->samples < SAMPLES ? turn->samples : SAMPLES);
    }
    puts("}");
    fflush(stdout);
}

/* --- the client ------------------------------------------------------------------------------ */

static double seconds_of(clockid_t clock)
{
    struct timespec t = {0};

    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void read_clocks(double cpu[2])
{
    cpu[0] = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    cpu[1] = shared && atomic_load(&shared->has_clock) ? seconds_of(shared->clock) : 0;
}

bool turn_goes_on(struct turn *turn, uint64_t messages)
{
    turn->now = bench_now();
    if (turn->begin > 0) {
        turn->messages += messages;
    } else if (turn->now - turn->start >= turn->warm) {
        turn->begin = turn->now;
        read_clocks(turn->cpu_begin);
    }
    if (turn->begin == 0 || turn->now - turn->begin < turn->length) {
        return true;
    }
    read_clocks(turn->cpu);
    turn->cpu[0] -= turn->cpu_begin[0];
    turn->cpu[1] -= turn->cpu_begin[1];
    return false;
}

bool turn_round_trip(struct turn *turn)
{
    double before = turn->now > 0 ? turn->now : turn->start;
    bool counts = turn->begin > 0, more = turn_goes_on(turn, 1);

    if (counts) {
        samples[turn->samples++ % SAMPLES] = (float)(turn->now - before);
    }
    return more;
}

void turn_play(struct bench_link *link, void (*play)(void *arg, struct turn *turn), void *arg)
{
    struct turn turn;

    turn_ready();
    while (turn_next(&turn)) {
        atomic_store(&shared->playing, true);
        bench_tell(link, "g", 1);
        play(arg, &turn);
        atomic_store(&shared->playing, false);
        turn_answer(&turn, (double)turn.messages / (turn.now - turn.begin));
    }
    bench_tell(link, "q", 1);
    exit(0); /* which ends the server's process, too, wherever it is */
}

/* --- the server ------------------------------------------------------------------------------ */

void turn_serve(void)
{
    atomic_store(&shared->has_clock, clock_getcpuclockid(getpid(), &shared->clock) == 0);
}

bool turn_on(void)
{
    return atomic_load_explicit(&shared->playing, memory_order_relaxed);
}

void turn_await(struct bench_link *link)
{
    char go;

    bench_hear(link, &go, 1);
    if (go == 'q') {
        _exit(0);
    }
}

void turn_took(uint64_t octets)
{
    atomic_fetch_add_explicit(&shared->taken, octets, memory_order_relaxed);
}

uint64_t turn_taken(void)
{
    return atomic_load_explicit(&shared->taken, memory_order_relaxed);
}

void turn_await_taken(uint64_t octets)
{
    for (double begin = bench_now(); turn_taken() < octets;) {
        if (bench_now() - begin > BENCH_PATIENCE_MS / 1e3) {
            bench_fail("the server takes no more");
        }
        usleep(100);
    }
}
