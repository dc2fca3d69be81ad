/* SPDX-License-Identifier: BSD-2-Clause */
/* See progress.h. */
#include "progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#define LOOPS 8 /* devices open at a time */

static struct {
    struct iwarp_device *device;
    uv_loop_t loop;
} embedded[LOOPS];

static const char *wish(void)
{
    const char *text = getenv("TEST_PROGRESS");

    return text ? text : "threaded";
}

bool progress_is_embedded(void)
{
    return strcmp(wish(), "embedded") == 0;
}

enum iwarp_status progress_open(const struct iwarp_device_options *options,
                                struct iwarp_device **device)
{
    struct iwarp_device_options o;
    int i = 0;

    iwarp_device_options_init(&o);
    if (options) {
        o = *options;
    }
    if (o.progress == IWARP_PROGRESS_DEFAULT && strcmp(wish(), "polled") == 0) {
        o.progress = IWARP_PROGRESS_POLLED;
    }
    if (o.progress != IWARP_PROGRESS_DEFAULT || !progress_is_embedded()) {
        return iwarp_device_open(&o, device);
    }
    while (embedded[i].device) {
        assert_true(++i < LOOPS);
    }
    assert_int_equal(uv_loop_init(&embedded[i].loop), 0);
    o.progress = IWARP_PROGRESS_EMBEDDED;
    o.loop = &embedded[i].loop;
    o.workers = 1;
    enum iwarp_status status = iwarp_device_open(&o, device);
    if (status == IWARP_OK) {
        embedded[i].device = *device;
    } else {
        uv_run(&embedded[i].loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&embedded[i].loop), 0);
    }
    return status;
}

enum iwarp_status progress_close(struct iwarp_device *device)
{
    enum iwarp_status status = iwarp_device_close(device);

    for (int i = 0; i < LOOPS && status == IWARP_OK; i++) {
        if (embedded[i].device == device) {
            uv_run(&embedded[i].loop, UV_RUN_DEFAULT); /* ends when no handle is left */
            assert_int_equal(uv_loop_close(&embedded[i].loop), 0);
            embedded[i].device = NULL;
        }
    }
    return status;
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void turn(void)
{
    for (int i = 0; i < LOOPS; i++) {
        if (embedded[i].device) {
            uv_run(&embedded[i].loop, UV_RUN_NOWAIT);
        }
    }
}

int progress_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    int64_t end = now_ms() + timeout_ms;
    int got;

    if (!progress_is_embedded()) {
        return poll(fds, n, timeout_ms);
    }
    turn();
    while ((got = poll(fds, n, timeout_ms != 0)) == 0 && (timeout_ms < 0 || now_ms() < end)) {
        turn();
    }
    return got;
}

void progress_sleep(unsigned microseconds)
{
    if (progress_is_embedded()) {
        (void)progress_poll(NULL, 0, (int)(microseconds / 1000));
        microseconds %= 1000;
    }
    usleep(microseconds);
}
