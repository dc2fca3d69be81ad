/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A channel without what it needs: without memory or descriptors it says so when it is opened, and
 * not by waiting for messages that nothing will tell it of.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "programs/cp/channel.h"

static struct iwarp_device *device;
static struct cp_channel channel;

static int setup(void **state)
{
    (void)state;
    memset(&channel, 0, sizeof channel);
    return iwarp_device_open(NULL, &device) != IWARP_OK;
}

static int teardown(void **state)
{
    (void)state;
    return iwarp_device_close(device) != IWARP_OK;
}

/* No descriptor beyond those that are open. */
static struct rlimit use_up_descriptors(void)
{
    struct rlimit before, none;
    int next = dup(STDIN_FILENO);

    assert_true(next >= 0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)next;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    return before;
}

static void open__without_descriptors__fails_at_once(void **state)
{
    struct rlimit before = use_up_descriptors();

    (void)state;
    enum iwarp_status status = cp_channel_open(&channel, device, 4, 65536);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(status, IWARP_LIMIT);
    assert_non_null(strstr(iwarp_last_error(), "open files"));
    cp_channel_close(&channel);
    /* It was nothing else. */
    assert_int_equal(cp_channel_open(&channel, device, 4, 65536), IWARP_OK);
    cp_channel_close(&channel);
}

static void wait__when_nothing_comes__ends_in_time(void **state)
{
    struct cp_event event;

    (void)state;
    assert_int_equal(cp_channel_open(&channel, device, 4, 65536), IWARP_OK);
    cp_channel_wait(&channel, &event, 10);
    assert_int_equal(event.type, CP_EVENT_TIMEOUT);
    cp_channel_close(&channel);
}

static void wait__woken__says_so(void **state)
{
    struct cp_event event;
    int fds[2];

    (void)state;
    assert_int_equal(cp_channel_open(&channel, device, 4, 65536), IWARP_OK);
    assert_int_equal(pipe(fds), 0);
    channel.wake_fd = fds[0];
    assert_int_equal(write(fds[1], "x", 1), 1);
    cp_channel_wait(&channel, &event, 90000);
    assert_int_equal(event.type, CP_EVENT_WAKE);
    cp_channel_close(&channel);
    close(fds[0]);
    close(fds[1]);
}

static void messages__until_all_are_busy__are_distinct(void **state)
{
    (void)state;
    assert_int_equal(cp_channel_open(&channel, device, 4, 65536), IWARP_OK);
    for (unsigned i = 0; i < channel.buffers; i++) {
        int index = cp_channel_free_message(&channel);
        assert_true(index >= 0 && !channel.send_busy[index]);
        memset(cp_channel_message(&channel, (unsigned)index), (int)i, CP_MESSAGE_MAX);
        channel.send_busy[index] = true;
    }
    assert_int_equal(cp_channel_free_message(&channel), -1);
    assert_int_equal(*cp_channel_message(&channel, 0), 0);
    assert_int_equal(*cp_channel_message(&channel, channel.buffers - 1), channel.buffers - 1);
    cp_channel_close(&channel);
}

int main(void)
{
#define WITH_DEVICE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_DEVICE(open__without_descriptors__fails_at_once),
        WITH_DEVICE(wait__when_nothing_comes__ends_in_time),
        WITH_DEVICE(wait__woken__says_so),
        WITH_DEVICE(messages__until_all_are_busy__are_distinct),
    };

    return cmocka_run_group_tests_name("cp_channel", tests, NULL, NULL);
}
