/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process ends with connections open, amid traffic and calls of many threads; crashes of its own
 * end it as they would without the library, or reach its handlers; and a peer that is gone raises
 * no SIGPIPE.
 */
#include "child.h"
#include "verbs_pair.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- exit amid everything ---------------------------------------------------------------------
 */

enum leave { FROM_MAIN, FROM_THREAD, BY_RETURN_OF_THREAD, LEAVES };

struct busy {
    struct pair pair;
    enum leave leave;
    const char *crc;
};

/* Until the process ends. Errors do not matter: the other threads are in the middle of things. */
static void *post_for_ever(void *arg)
{
    struct pair *p = arg;
    struct iwarp_sge sge = pair_sge(&p->side[0], 0, 65536);
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_WRITE, 1, &sge);

    wr.remote_stag = iwarp_mr_stag(p->side[1].mr);
    wr.remote_to = (uint64_t)(uintptr_t)p->side[1].p;
    for (;;) {
        (void)iwarp_post_send(p->side[0].qp, &wr, NULL);
    }
    return NULL;
}

static void *poll_for_ever(void *arg)
{
    struct pair *p = arg;
    struct iwarp_wc wc[16];

    while (iwarp_cq_poll(p->side[0].send_cq, wc, 16) >= 0) {
    }
    return NULL;
}

static void *wait_for_ever(void *arg)
{
    struct pair *p = arg;
    struct iwarp_wc wc;

    (void)iwarp_cq_wait(p->side[1].recv_cq, &wc, 1, -1);
    return NULL;
}

static void *register_for_ever(void *arg)
{
    struct pair *p = arg;
    struct iwarp_mr *mr;

    for (;;) {
        if (iwarp_mr_register(p->side[1].pd, p->side[1].p, 64, PAIR_ALL, &mr) == IWARP_OK) {
            (void)iwarp_mr_deregister(mr);
        }
    }
    return NULL;
}

static void *exit_soon(void *arg)
{
    (void)arg;
    usleep(5000);
    exit(7);
}

static int leave_busy(void *arg)
{
    static void *(*const threads[])(void *) = {post_for_ever, poll_for_ever, wait_for_ever,
                                               register_for_ever};
    struct busy *b = arg;
    struct pair_options o;
    pthread_t t;

    setenv("IWARP_CRC32C", b->crc, 1);
    pair_options_init(&o, PAIR_TCP4);
    o.device.progress = IWARP_PROGRESS_THREADED; /* whatever TEST_PROGRESS says */
    o.device.workers = 2;
    pair_open(&b->pair, &o);
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
        assert_int_equal(pthread_create(&t, NULL, threads[i], &b->pair), 0);
    }
    if (b->leave == FROM_THREAD || b->leave == BY_RETURN_OF_THREAD) {
        assert_int_equal(pthread_create(&t, NULL, exit_soon, NULL), 0);
        if (b->leave == BY_RETURN_OF_THREAD) {
            pthread_exit(NULL); /* the main thread goes, the process does not */
        }
        wait_for_ever(&b->pair);
    }
    exit_soon(NULL);
    return 1;
}

static void exit__amid_traffic_and_calls__ends_the_process(void **state)
{
    static struct busy b; /* outlives the main thread of a child */

    (void)state;
    for (int i = 0; i < LEAVES * 2 * (CHILD_SANITIZED ? 2 : 8); i++) {
        b.leave = (enum leave)(i % LEAVES);
        b.crc = i / LEAVES % 2 ? "auto" : "evp";
        if (CHILD_SANITIZED == 1 && b.leave == BY_RETURN_OF_THREAD) {
            continue; /* what cmocka has on the main thread's stack would count as leaked */
        }
        int end = child_run(leave_busy, &b);
        if (end != 7) {
            fail_msg("leaving in way %d, CRC %s: ended by %d, not 7", (int)b.leave, b.crc, end);
        }
    }
}

/* ---- crashes and handlers ---------------------------------------------------------------------
 */

static struct sigaction action_of(int signo)
{
    struct sigaction action;

    assert_int_equal(sigaction(signo, NULL, &action), 0);
    return action;
}

static int watch_handlers(void *arg)
{
    struct sigaction segv = action_of(SIGSEGV), bus = action_of(SIGBUS);
    struct pair_options o;
    struct pair p;

    (void)arg;
    pair_options_init(&o, PAIR_TCP4);
    o.device.progress = IWARP_PROGRESS_THREADED; /* whatever TEST_PROGRESS says */
    pair_prepare(&p, &o);
    assert_true(action_of(SIGSEGV).sa_handler == segv.sa_handler);
    assert_true(action_of(SIGBUS).sa_handler == bus.sa_handler);
    pair_connect(&p);
    assert_true(action_of(SIGSEGV).sa_handler != segv.sa_handler);
    assert_true(action_of(SIGBUS).sa_handler != bus.sa_handler);
    assert_true((action_of(SIGSEGV).sa_flags & SA_ONSTACK) != 0);
    pair_close(&p);
    return 0;
}

static void handlers__before_the_first_connection__are_the_applications(void **state)
{
    (void)state;
    assert_int_equal(child_run(watch_handlers, NULL), 0);
}

enum when { NEVER, BEFORE, AFTER_AND_CONNECT, AFTER_AND_PASS_ON, WHENS };

struct crash {
    int signo;
    enum when when;
};

static struct sigaction displaced;
static atomic_int handled;
static volatile sig_atomic_t expected; /* by the application */

static void on_crash(int signo, siginfo_t *info, void *context)
{
    if (expected && info->si_signo == signo) {
        _exit(signo);
    }
    atomic_fetch_add(&handled, 1);
    if (displaced.sa_flags & SA_SIGINFO) {
        displaced.sa_sigaction(signo, info, context);
    } else {
        _exit(99); /* a fault of the library's reached a handler that can do nothing */
    }
}

static void install(int signo)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_NODEFER};

    action.sa_sigaction = on_crash;
    sigemptyset(&action.sa_mask);
    assert_int_equal(sigaction(signo, &action, &displaced), 0);
}

/* Half a page of a file that has been cut (SIGBUS), or memory without access (SIGSEGV). */
static uint8_t *bad_memory(int signo)
{
    const size_t size = 65536;
    int fd = memfd_create("cut", MFD_CLOEXEC);

    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    uint8_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    if (signo == SIGBUS) {
        assert_int_equal(ftruncate(fd, 0), 0);
    } else {
        assert_int_equal(mprotect(p, size, PROT_NONE), 0);
    }
    close(fd);
    return p;
}

/* A fault of the library's first, which ends a stream; then one of the application's. */
static int crash(void *arg)
{
    const struct crash *c = arg;
    uint8_t *bad = bad_memory(c->signo);
    struct pair_options o;
    struct pair p, second;
    struct iwarp_mr *mr;

    pair_options_init(&o, PAIR_TCP4);
    o.device.progress = IWARP_PROGRESS_THREADED; /* whatever TEST_PROGRESS says */
    if (c->when == BEFORE) {
        install(c->signo);
    }
    pair_open(&p, &o);
    if (c->when == AFTER_AND_PASS_ON || c->when == AFTER_AND_CONNECT) {
        install(c->signo);
    }
    if (c->when == AFTER_AND_CONNECT) {
        displaced.sa_flags = 0; /* does not pass on, and need not */
        pair_open(&second, &o);
    }
    must(iwarp_mr_register(p.side[0].pd, bad, 65536, PAIR_ALL, &mr));
    struct iwarp_sge sge = {bad, 65536, iwarp_mr_stag(mr)};
    const struct iwarp_send_wr wr = pair_wr(IWARP_WR_SEND, 1, &sge);
    must(iwarp_post_send(p.side[0].qp, &wr, NULL));
    must(iwarp_conn_wait_end(p.side[0].conn, PAIR_WAIT_MS));
    assert_int_equal(iwarp_fault_code(iwarp_conn_fault(p.side[0].conn)), IWARP_FAULT_LOCAL_MEMORY);
    assert_true((atomic_load(&handled) > 0) == (c->when == AFTER_AND_PASS_ON));
    expected = 1;
    *(volatile uint8_t *)bad = 1;
    return 98;
}

static void crash__of_the_applications_own__is_what_it_would_be(void **state)
{
    static const int signals[] = {SIGSEGV, SIGBUS};

    (void)state;
    for (int i = 0; i < 2 * WHENS; i++) {
        struct crash c = {signals[i % 2], (enum when)(i / 2)};
        int end = child_run(crash, &c);
        if (end != (c.when == NEVER ? 1000 + c.signo : c.signo)) {
            fail_msg("signal %d, handler %d: ended by %d", c.signo, (int)c.when, end);
        }
    }
}

/* ---- SIGPIPE ----------------------------------------------------------------------------------
 */

static void drain(struct iwarp_cq *cq)
{
    struct iwarp_wc wc[16];

    while (iwarp_cq_poll(cq, wc, 16) > 0) {
    }
}

static int write_to_the_gone(void *arg)
{
    struct pair_options o;
    struct pair p;

    (void)arg;
    pair_options_init(&o, PAIR_TCP4);
    o.device.progress = IWARP_PROGRESS_THREADED; /* whatever TEST_PROGRESS says */
    o.device.workers = 2;
    for (int i = 0; i < 20; i++) {
        pair_open(&p, &o);
        struct iwarp_sge sge = pair_sge(&p.side[0], 0, 65536);
        struct iwarp_send_wr wr = pair_wr(IWARP_WR_WRITE, 1, &sge);
        wr.remote_stag = iwarp_mr_stag(p.side[1].mr);
        wr.remote_to = (uint64_t)(uintptr_t)p.side[1].p;
        must(iwarp_abort(p.side[1].conn));
        for (int k = 0; k < 200; k++) {
            enum iwarp_status status = iwarp_post_send(p.side[0].qp, &wr, NULL);
            assert_true(status == IWARP_OK || status == IWARP_AGAIN);
            drain(p.side[0].send_cq);
        }
        must(iwarp_conn_wait_end(p.side[0].conn, PAIR_WAIT_MS));
        pair_close(&p);
    }
    return 0;
}

static void sigpipe__writing_to_a_peer_that_is_gone__is_not_raised(void **state)
{
    (void)state;
    assert_int_equal(child_run(write_to_the_gone, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit__amid_traffic_and_calls__ends_the_process),
        cmocka_unit_test(handlers__before_the_first_connection__are_the_applications),
        cmocka_unit_test(crash__of_the_applications_own__is_what_it_would_be),
        cmocka_unit_test(sigpipe__writing_to_a_peer_that_is_gone__is_not_raised),
    };

    return cmocka_run_group_tests_name("process_exit", tests, NULL, NULL);
}
