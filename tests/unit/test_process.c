/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/process: what a forked child keeps, and cancellation inside calls.
 */
#include "base/process.h"

#include "child.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

struct inherited {
    int kept, removed, closed, far;
};

static int look(void *arg)
{
    const struct inherited *in = arg;

    return is_open(in->kept) && is_open(in->removed) && !is_open(in->closed) && !is_open(in->far)
               ? (int)iwarp_process_generation()
               : 99;
}

static void fork__registered_descriptors__are_closed_in_the_child(void **state)
{
    struct inherited in;

    (void)state;
    iwarp_process_watch();
    iwarp_process_watch();
    int base = (int)iwarp_process_generation();
    in.kept = open("/dev/null", O_RDONLY);
    in.removed = dup(in.kept);
    in.closed = dup(in.kept);
    in.far = fcntl(in.kept, F_DUPFD, 700);
    assert_true(in.far >= 700);
    iwarp_process_add_fd(in.removed);
    iwarp_process_add_fd(in.closed);
    iwarp_process_add_fd(in.far);
    iwarp_process_remove_fd(in.removed);
    iwarp_process_remove_fd(100000); /* never heard of: no harm */
    assert_int_equal(child_run(look, &in), base + 1);
    assert_int_equal(child_run(look, &in), base + 1);
    assert_true(is_open(in.closed) && is_open(in.far));
    assert_int_equal(iwarp_process_generation(), base);
    iwarp_process_remove_fd(in.closed);
    iwarp_process_remove_fd(in.far);
    close(in.kept);
    close(in.removed);
    close(in.closed);
    close(in.far);
}

/* A grandchild is another generation, and has nothing left to close. */
static int fork_again(void *arg)
{
    struct inherited *in = arg;

    in->closed = dup(in->kept); /* the number that was closed is the child's own now */
    pid_t pid = fork();
    if (pid == 0) {
        _exit(is_open(in->closed) ? (int)iwarp_process_generation() : 99);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}

static void fork__of_a_child__closes_nothing_again(void **state)
{
    struct inherited in;

    (void)state;
    iwarp_process_watch();
    in.kept = open("/dev/null", O_RDONLY);
    in.closed = dup(in.kept);
    iwarp_process_add_fd(in.closed);
    assert_int_equal(child_run(fork_again, &in), (int)iwarp_process_generation() + 2);
    iwarp_process_remove_fd(in.closed);
    close(in.kept);
    close(in.closed);
}

#if CHILD_SANITIZED != 1
static void call_within_a_call(void)
{
    IWARP_UNCANCELLED;
    pthread_testcancel();
}

static void *cancelled(void *arg)
{
    bool *reached = arg;

    pthread_cancel(pthread_self());
    {
        IWARP_UNCANCELLED;
        pthread_testcancel();
        call_within_a_call();
        pthread_testcancel();
        reached[0] = true;
    }
    pthread_testcancel();
    reached[1] = true;
    return NULL;
}

static void *polling(void *arg)
{
    struct pollfd p = {.fd = -1, .events = POLLIN};
    bool *reached = arg;

    pthread_cancel(pthread_self());
    IWARP_UNCANCELLED;
    reached[0] = true;
    (void)IWARP_POLL_CANCELLABLY(&p, 60000);
    reached[1] = true;
    return NULL;
}

static void *forbidding(void *arg)
{
    struct pollfd p = {.fd = -1, .events = POLLIN};
    bool *reached = arg;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cancel(pthread_self());
    {
        IWARP_UNCANCELLED;
        reached[0] = IWARP_POLL_CANCELLABLY(&p, 1) == 0;
    }
    reached[1] = true;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    pthread_testcancel();
    return NULL;
}

static void cancel__in_a_block__waits_for_its_end(void **state)
{
    static void *(*const threads[])(void *) = {cancelled, polling, forbidding};

    (void)state;
    for (int i = 0; i < 3; i++) {
        bool reached[2] = {false, false};
        void *result = NULL;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, threads[i], reached), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, PTHREAD_CANCELED);
        assert_true(reached[0]);
        assert_int_equal(reached[1], i == 2); /* only where the caller had forbidden it */
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fork__registered_descriptors__are_closed_in_the_child),
        cmocka_unit_test(fork__of_a_child__closes_nothing_again),
#if CHILD_SANITIZED != 1 /* ASan takes the frames that a cancelled thread leaves for alive */
        cmocka_unit_test(cancel__in_a_block__waits_for_its_end),
#endif
    };

    return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
