/* SPDX-License-Identifier: BSD-2-Clause */
/* See child.h. */
#include "child.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t child_start(int (*fn)(void *arg), void *arg)
{
    static const int taken[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGPIPE, SIGABRT};
    const struct rlimit no_core = {0, 0};

    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
            (void)signal(taken[i], SIG_DFL); /* cmocka has handlers of its own */
        }
        setrlimit(RLIMIT_CORE, &no_core);
        setenv("CMOCKA_TEST_ABORT", "1", 1);
        alarm(CHILD_SECONDS);
        int status = fn(arg);
        (void)fflush(NULL);
        _exit(status);
    }
    return pid;
}

int child_wait(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0) {
        assert_int_equal(errno, EINTR);
    }
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

int child_run(int (*fn)(void *arg), void *arg)
{
    return child_wait(child_start(fn, arg));
}
