/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two processes of a run, their cores and their clocks, and the pipes between them. Does not
 * know what they do. Processes are forked before any device is opened, so each has its own.
 */
#include "bench.h"

#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void bench_fail(const char *format, ...)
{
    va_list args;

    fputs("iwarp-bench: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    _exit(1);
}

void bench_must(enum iwarp_status status, const char *what)
{
    if (status != IWARP_OK) {
        bench_fail("%s: %s", what, iwarp_last_error());
    }
}

double bench_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

double bench_cpu(void)
{
    struct rusage use;

    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

void bench_pin(int core)
{
    cpu_set_t set;

    if (core < 0) {
        return;
    }
    CPU_ZERO(&set);
    CPU_SET((size_t)core, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        bench_fail("there is no core %d for this process", core);
    }
}

size_t bench_resident(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    size_t kib, sum = 0;

    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "Private_Dirty: %zu", &kib) == 1 ||
            sscanf(line, "Private_Clean: %zu", &kib) == 1) {
            sum += kib * 1024;
        }
    }
    if (file) {
        fclose(file);
    }
    return sum;
}

void bench_raise_limit(unsigned connections)
{
    rlim_t need = (rlim_t)connections + 128;
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur >= need) {
        return;
    }
    if (limit.rlim_max < need) {
        limit.rlim_max = need;
    }
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        bench_fail("%u connections need %llu descriptors, and the limit (ulimit -Hn) is lower",
                   connections, (unsigned long long)need);
    }
}

void bench_tell(struct bench_link *link, const void *data, size_t len)
{
    if (link->to_peer >= 0 && write(link->to_peer, data, len) != (ssize_t)len) {
        bench_fail("the other process has gone");
    }
}

bool bench_hear(struct bench_link *link, void *data, size_t len)
{
    size_t have = 0;

    if (link->from_peer < 0) {
        memset(data, 0, len);
        return false;
    }
    while (have < len) {
        ssize_t n = read(link->from_peer, (char *)data + have, len - have);
        if (n <= 0) {
            bench_fail("the other process has gone");
        }
        have += (size_t)n;
    }
    return true;
}

static void run_child(struct bench_link *link, void (*server)(struct bench_link *), pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);
    }
    bench_pin(link->options->cores[0]);
    server(link);
    _exit(0);
}

static int run_pair(const struct bench_options *options, void (*server)(struct bench_link *),
                    void (*client)(struct bench_link *))
{
    int up[2], down[2], status;
    pid_t parent = getpid();

    if (pipe(up) != 0 || pipe(down) != 0) {
        bench_fail("no pipe");
    }
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) {
        bench_fail("no process");
    }
    if (child == 0) {
        close(up[0]);
        close(down[1]);
        run_child(&(struct bench_link){options, true, up[1], down[0]}, server, parent);
    }
    close(up[1]);
    close(down[0]);
    bench_pin(options->cores[1]);
    client(&(struct bench_link){options, false, down[1], up[0]});
    if (waitpid(child, &status, 0) != child || status != 0) {
        bench_fail("the server's process failed");
    }
    return 0;
}

int bench_both(const struct bench_options *options, void (*server)(struct bench_link *),
               void (*client)(struct bench_link *))
{
    struct bench_link link = {options, options->listen_on != NULL, -1, -1};

    signal(SIGPIPE, SIG_IGN);
    if (options->listen_on) {
        bench_pin(options->cores[0]);
        server(&link);
        return 0;
    }
    if (options->connect_to) {
        bench_pin(options->cores[1]);
        client(&link);
        return 0;
    }
    return run_pair(options, server, client);
}
