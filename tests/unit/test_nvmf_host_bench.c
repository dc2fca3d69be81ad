/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `iwarp-nvmf bench` as its user types it, at a target in a thread of this process. What it prints
 * is compared with what the target has counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>

#include "nvmf_side.h"
#include "programs/nvmf-host/bench.h"
#include "support/said.h"

#define DISK (1 << 20) /* octets */

static struct side s; /* of the target's thread; figures are those of its end */
static struct nvmf_stats counted;
static uv_async_t stop;
static uv_sem_t there;
static uv_thread_t thread;
static struct said out, errors;

static void on_stop(uv_async_t *async)
{
    uv_close((uv_handle_t *)async, NULL);
    uv_stop(async->loop);
}

static void serve(void *arg)
{
    (void)arg;
    side_open(&s, 4 << 20, true);
    side_file(&s, DISK);
    uv_async_init(&s.loop, &stop, on_stop);
    uv_sem_post(&there);
    uv_run(&s.loop, UV_RUN_DEFAULT);
    counted = s.target.stats;
    side_close(&s);
}

static int set_up(void **state)
{
    (void)state;
    uv_sem_init(&there, 0);
    if (uv_thread_create(&thread, serve, NULL) != 0) {
        return -1;
    }
    uv_sem_wait(&there);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    uv_sem_destroy(&there);
    return 0;
}

/* From now on the target's figures may be read. */
static void target_ends(void)
{
    uv_async_send(&stop);
    uv_thread_join(&thread);
}

/* The exit status of bench with these words, at this target. */
static int bench(const char *line)
{
    static char words[256];
    char *argv[32] = {"bench"}, *save = NULL;
    int argc = 1, status;

    snprintf(words, sizeof words, "-a 127.0.0.1:%u %s",
             (unsigned)ntohs(((struct sockaddr_in *)&s.addr)->sin_port), line);
    for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        argv[argc++] = word;
    }
    said_begin(&out, STDOUT_FILENO);
    said_begin(&errors, STDERR_FILENO);
    status = nvmf_bench(argc, argv);
    said_end(&errors);
    said_end(&out);
    return status;
}

struct figures {
    double iops, megabytes;
    unsigned p50, p99, p999;
};

/* The line of a run of one second; false: it has another form, or tells of errors. */
static bool read_figures(const char *run, struct figures *figures)
{
    char form[200];
    int end = 0;

    snprintf(form, sizeof form,
             "%.60s: %%lf IOPS, %%lf MB/s, latency 50 %%%% %%u us, 99 %%%% %%u us, 99.9 %%%% %%u "
             "us, processor %%*f %%%%, %%*f IOPS per core, 0 errors%%n",
             run);
    // NOLINTNEXTLINE(cert-err34-c) a number that is none is no match
    return sscanf(out.text, form, &figures->iops, &figures->megabytes, &figures->p50, &figures->p99,
                  &figures->p999, &end) == 5 &&
           end > 0 && strcmp(out.text + end, "\n") == 0;
}

static void read__for_a_second__is_what_the_target_has_counted(void **state)
{
    const struct nvmf_counts *reads = &counted.kind[NVMF_KIND_READ];
    struct figures figures;
    int status = bench("-q " SIDE_NQN " -t 1 -d 8 -j 2");

    (void)state;
    target_ends();
    assert_int_equal(status, 0);
    assert_true(read_figures("random read 4096 octets, 2 queues of 8", &figures));
    assert_true(reads->commands >= 100);
    assert_int_equal(reads->octets, reads->commands * 4096);
    assert_int_equal(reads->errors, 0);
    /* The run ends a little after its second, when all commands have ended. */
    assert_true(figures.iops <= (double)reads->commands);
    assert_true(figures.iops >= (double)reads->commands / 3);
    assert_true(figures.megabytes > figures.iops * 4096 / 1e6 - 1);
    assert_true(figures.megabytes < figures.iops * 4096 / 1e6 + 1);
    assert_true(figures.p50 > 0 && figures.p50 <= figures.p99 && figures.p99 <= figures.p999);
    assert_int_equal(counted.connections, 3); /* one for administration */
}

static void write__in_order__reaches_each_block(void **state)
{
    static uint8_t disk[DISK], unwritten[8192];
    struct figures figures;
    int status, fd = open(s.file, O_RDWR);

    (void)state;
    memset(disk, 0xee, DISK); /* is left where nothing is written */
    memset(unwritten, 0xee, sizeof unwritten);
    assert_int_equal(pwrite(fd, disk, DISK, 0), DISK);
    status = bench("-q " SIDE_NQN " -t 1 -w -l -k -s 8192 -d 4");
    target_ends();
    assert_int_equal(status, 0);
    assert_true(read_figures("sequential write 8192 octets, 1 queues of 4", &figures));
    assert_int_equal(pread(fd, disk, DISK, 0), DISK);
    for (size_t i = 0; i < DISK; i += sizeof unwritten) {
        assert_memory_not_equal(disk + i, unwritten, sizeof unwritten);
        assert_memory_not_equal(disk + i, disk + i + 8, 8); /* no zeros, no pattern */
    }
    close(fd);
}

static void words__that_are_wrong__are_said_with_those_that_are_right(void **state)
{
    static const char *const cases[] = {
        "",           "-q x -j 0",      "-q x -j 17", "-q x -d 1",   "-q x -d 129", "-q x -s 511",
        "-q x -s 9g", "-q x -s 4096k",  "-q x -t 1m", "-q x -d 8x",  "-q x -t -1",  "-q x -j +",
        "-q x -t 0",  "-q x something", "-q x -Z",    "-q x -a :::",
    };

    (void)state;
    target_ends();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(bench(cases[i]), 2);
        assert_non_null(strstr(errors.text, "-q NQN"));
        assert_string_equal(out.text, "");
    }
}

static void target__that_cannot_be_used__is_an_error(void **state)
{
    (void)state;
    assert_int_equal(bench("-q " SIDE_NQN ":other -t 1"), 1);
    assert_non_null(strstr(errors.text, "no subsystem"));
    assert_int_equal(bench("-q " SIDE_NQN " -t 1 -s 4608"), 1);
    assert_non_null(strstr(errors.text, "blocks of another size"));
    target_ends();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(read__for_a_second__is_what_the_target_has_counted),
        TEST(write__in_order__reaches_each_block),
        TEST(words__that_are_wrong__are_said_with_those_that_are_right),
        TEST(target__that_cannot_be_used__is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
