/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/process: what a forked child keeps, and cancellation inside calls.
 */
#include "base/process.h"

#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
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

static unsigned count_sockets(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 256; fd++) {
        struct stat st;
        n += fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
    }
    return n;
}

struct comings {
    pthread_t thread;
    int listener;
    struct sockaddr_in addr;
    _Atomic bool stop;
    _Atomic unsigned rounds;
};

/* Opens, accepts and closes without end. */
static void *come_and_go(void *arg)
{
    struct comings *c = arg;

    while (!atomic_load(&c->stop)) {
        int out = iwarp_process_socket(AF_INET), in = -1;
        (void)connect(out, (struct sockaddr *)&c->addr, sizeof c->addr);
        for (int i = 0; i < 1000 && in < 0; i++) {
            in = iwarp_process_accept(c->listener, NULL, NULL);
        }
        iwarp_process_close(out);
        if (in >= 0) {
            iwarp_process_close(in);
        }
        atomic_fetch_add(&c->rounds, 1);
    }
    return NULL;
}

static void listen_for(struct comings *c)
{
    socklen_t len = sizeof c->addr;

    c->addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    c->listener = iwarp_process_socket(AF_INET);
    assert_true(c->listener >= 0 && iwarp_process_has_fd(c->listener));
    assert_int_equal(bind(c->listener, (struct sockaddr *)&c->addr, len), 0);
    assert_int_equal(listen(c->listener, 64), 0);
    assert_int_equal(getsockname(c->listener, (struct sockaddr *)&c->addr, &len), 0);
}

/* Whenever the fork comes, between which system calls of another thread. */
static void fork__beside_sockets_that_come_and_go__leaves_none_to_the_child(void **state)
{
    struct comings c = {.stop = false};
    unsigned before = count_sockets(), left = 0;

    (void)state;
    iwarp_process_watch();
    listen_for(&c);
    assert_int_equal(pthread_create(&c.thread, NULL, come_and_go, &c), 0);
    while (c.rounds == 0) {
        sched_yield();
    }
    for (unsigned i = 0; i < 400; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            _exit(count_sockets() == before ? 0 : 1);
        }
        int status = -1;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        left += status != 0;
    }
    atomic_store(&c.stop, true);
    pthread_join(c.thread, NULL);
    iwarp_process_close(c.listener);
    assert_int_equal(left, 0);
    assert_int_equal(count_sockets(), before);
}

static void socket__that_cannot_be__is_an_error(void **state)
{
    (void)state;
    assert_int_equal(iwarp_process_socket(9999), -1);
    assert_int_equal(errno, EAFNOSUPPORT);
    assert_int_equal(iwarp_process_accept(-1, NULL, NULL), -1);
    assert_int_equal(errno, EBADF);
    int fd = iwarp_process_socket(AF_INET);
    errno = ENOENT;
    iwarp_process_close(fd);
    assert_int_equal(errno, ENOENT);
    assert_false(iwarp_process_has_fd(fd));
    assert_false(is_open(fd));
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
        cmocka_unit_test(fork__beside_sockets_that_come_and_go__leaves_none_to_the_child),
        cmocka_unit_test(socket__that_cannot_be__is_an_error),
        cmocka_unit_test(fork__of_a_child__closes_nothing_again),
#if CHILD_SANITIZED != 1 /* ASan takes the frames that a cancelled thread leaves for alive */
        cmocka_unit_test(cancel__in_a_block__waits_for_its_end),
#endif
    };

    return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
