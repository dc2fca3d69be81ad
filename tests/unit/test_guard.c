/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/guard: faults become return values for the guarded range and thread, and go to the
 * application for everything else. The order in which copies become visible: test_guard_order.c.
 *
 * What ends or changes a process is done in a forked child, which reports by its exit status.
 */
#include "base/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "emulated.h"

#if !defined(SS_AUTODISARM)
#define SS_AUTODISARM (1U << 31)
#endif

/* TSan calls handlers from its own: with its own flags, and with errno set to a mark. */
#if defined(__SANITIZE_THREAD__)
#define EXACT false
#elif defined(__has_feature)
#define EXACT (!__has_feature(thread_sanitizer))
#else
#define EXACT true
#endif

static size_t page;
static unsigned char source[1 << 20];

static unsigned char pattern(size_t i)
{
    return (unsigned char)(i * 7 + (i >> 8) + 1);
}

static unsigned char *map(size_t pages, int protection)
{
    void *p = mmap(NULL, pages * page, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

/* Two pages, the second of which is not there. */
static unsigned char *map_half(void)
{
    unsigned char *p = map(2, PROT_READ | PROT_WRITE);
    assert_int_equal(munmap(p + page, page), 0);
    return p;
}

static int setup(void **state)
{
    (void)state;
    page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < sizeof(source); i++) {
        source[i] = pattern(i);
    }
    return iwarp_guard_install();
}

/* cmocka has handlers of its own, which it installs before each test. */
static void begin(void **state)
{
    (void)state;
    iwarp_guard_refresh();
}

/* ---- copies without a fault ---- */

static void copy__every_size_and_alignment__is_exact(void **state)
{
    begin(state);
    unsigned char buffer[160];
    for (size_t offset = 0; offset < 16; offset++) {
        for (size_t n = 0; n <= 128; n++) {
            memset(buffer, 0, sizeof(buffer));
            assert_int_equal(iwarp_guard_copy_to(buffer + offset + 1, source + 3, n), 0);
            assert_memory_equal(buffer + offset + 1, source + 3, n);
            assert_int_equal(buffer[offset], 0);
            assert_int_equal(buffer[offset + 1 + n], 0);
            memset(buffer, 0, sizeof(buffer));
            assert_int_equal(iwarp_guard_copy_from(buffer + 1, source + offset, n), 0);
            assert_memory_equal(buffer + 1, source + offset, n);
            assert_int_equal(buffer[0], 0);
            assert_int_equal(buffer[n + 1], 0);
        }
    }
}

static void copy__large__is_exact(void **state)
{
    begin(state);
    unsigned char *p = map(300, PROT_READ | PROT_WRITE);
    unsigned char *q = map(300, PROT_READ | PROT_WRITE);
    assert_int_equal(iwarp_guard_copy_to(p + 5, source, sizeof(source)), 0);
    assert_memory_equal(p + 5, source, sizeof(source));
    assert_int_equal(iwarp_guard_copy_from(q, p + 5, sizeof(source)), 0);
    assert_memory_equal(q, source, sizeof(source));
    munmap(p, 300 * page);
    munmap(q, 300 * page);
}

/* ---- faults in the range ---- */

static void copy__unmapped__fails(void **state)
{
    begin(state);
    unsigned char to[64];
    unsigned char *p = map(1, PROT_READ | PROT_WRITE);
    munmap(p, page);
    for (size_t n = 1; n <= 64; n++) {
        assert_int_equal(iwarp_guard_copy_to(p, source, n), -1);
        assert_int_equal(iwarp_guard_copy_from(to, p, n), -1);
    }
    assert_int_equal(iwarp_guard_copy_to(p, source, 0), 0);
    assert_int_equal(iwarp_guard_copy_to(NULL, source, 8), -1);
    assert_int_equal(iwarp_guard_copy_from(to, NULL, 8), -1);
    assert_int_equal(iwarp_guard_copy_to(to, source, sizeof(to)), 0);
    assert_memory_equal(to, source, sizeof(to));
}

static void copy_to__read_only__fails_and_changes_nothing(void **state)
{
    begin(state);
    unsigned char to[64];
    unsigned char *p = map(1, PROT_READ);
    assert_int_equal(iwarp_guard_copy_to(p, source, page), -1);
    assert_int_equal(iwarp_guard_copy_from(to, p, sizeof(to)), 0);
    for (size_t i = 0; i < sizeof(to); i++) {
        assert_int_equal(to[i], 0);
    }
    munmap(p, page);
}

static void copy_to__fault_in_the_middle__octets_below_are_there(void **state)
{
    begin(state);
    static const size_t before[] = {1, 2, 7, 8, 24, 63, 64, 200, 1000, 4096};
    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
        for (size_t after = 1; after <= 70000; after = after * 5 + 2) {
            unsigned char *p = map_half();
            unsigned char *dst = p + page - before[i];
            assert_int_equal(iwarp_guard_copy_to(dst, source, before[i] + after), -1);
            assert_memory_equal(dst, source, before[i]);
            munmap(p, page);
        }
    }
}

static void copy_from__fault_in_the_middle__fails(void **state)
{
    begin(state);
    unsigned char to[128];
    unsigned char *p = map_half();
    assert_int_equal(iwarp_guard_copy_from(to, p + page - 64, 64), 0);
    assert_int_equal(iwarp_guard_copy_from(to, p + page - 64, 65), -1);
    munmap(p, page);
}

static void copy__truncated_file__fails(void **state)
{
    begin(state);
    unsigned char to[64];
    char name[] = "/tmp/test_guard.XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    unlink(name);
    assert_int_equal(ftruncate(fd, (off_t)(2 * page)), 0);
    unsigned char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(p != MAP_FAILED);
    assert_int_equal(iwarp_guard_copy_to(p, source, 2 * page), 0);
    assert_int_equal(ftruncate(fd, (off_t)page), 0);
    assert_int_equal(iwarp_guard_copy_to(p, source + 1, 2 * page), -1);
    assert_memory_equal(p, source + 1, page);
    assert_int_equal(iwarp_guard_copy_to(p + page, source, 24), -1);
    assert_int_equal(iwarp_guard_copy_from(to, p + page, sizeof(to)), -1);
    assert_int_equal(iwarp_guard_copy_from(to, p, sizeof(to)), 0);
    munmap(p, 2 * page);
    close(fd);
}

static void copy__absurd_address__fails(void **state)
{
    begin(state);
    not_emulated();
    static const uint64_t absurd[] = {1,
                                      UINT64_C(0x0000800000000000),
                                      UINT64_C(0x0123456789abcdef),
                                      UINT64_C(0x8000000000000000),
                                      UINT64_C(0xdeadbeefdeadbeef),
                                      UINT64_C(0xffff800000000000),
                                      UINT64_C(0xffffffffffffffc0)};
    unsigned char to[64];
    for (size_t i = 0; i < sizeof(absurd) / sizeof(absurd[0]); i++) {
        /* Read from memory: the compiler must not reason about such a pointer. */
        void *volatile p = (void *)(uintptr_t)absurd[i];
        assert_int_equal(iwarp_guard_copy_to(p, source, 63), -1);
        assert_int_equal(iwarp_guard_copy_to(p, source, 8), -1);
        assert_int_equal(iwarp_guard_copy_from(to, p, sizeof(to)), -1);
        assert_int_equal(iwarp_guard_copy_to(p, source, sizeof(source)), -1);
    }
}

/* ---- run ---- */

struct sum {
    const volatile unsigned char *p;
    size_t n;
    unsigned int total;
    bool finished;
};

static void add_up(void *arg)
{
    struct sum *s = arg;
    for (size_t i = 0; i < s->n; i++) {
        s->total += s->p[i];
    }
    s->finished = true;
}

static void run__readable__runs_to_the_end(void **state)
{
    begin(state);
    unsigned char *p = map(1, PROT_READ | PROT_WRITE);
    memset(p, 2, page);
    struct sum s = {.p = p, .n = page};
    assert_int_equal(iwarp_guard_run(p, page, add_up, &s), 0);
    assert_true(s.finished);
    assert_int_equal(s.total, 2 * page);
    munmap(p, page);
}

static void run__unmapped__is_left(void **state)
{
    begin(state);
    unsigned char *p = map_half();
    struct sum s = {.p = p, .n = 2 * page};
    for (int i = 0; i < 100; i++) {
        assert_int_equal(iwarp_guard_run(p, 2 * page, add_up, &s), -1);
    }
    assert_false(s.finished);
    munmap(p, page);
}

/* ---- what the thread keeps ---- */

static void fault__errno_and_mask__are_kept(void **state)
{
    begin(state);
    unsigned char to[8];
    sigset_t some, before, after;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR1);
    sigaddset(&some, SIGRTMIN + 3);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &some, NULL), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    errno = ENOLINK;
    assert_int_equal(iwarp_guard_copy_from(to, NULL, sizeof(to)), -1);
    assert_true(errno == ENOLINK || !EXACT);
    assert_int_equal(iwarp_guard_copy_to(NULL, source, sizeof(to)), -1);
    assert_true(errno == ENOLINK || !EXACT);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int signo = 1; signo < _NSIG; signo++) {
        assert_int_equal(sigismember(&before, signo), sigismember(&after, signo));
    }
    assert_int_equal(sigismember(&after, SIGUSR1), 1);
    assert_int_equal(sigismember(&after, SIGSEGV), 0);
    pthread_sigmask(SIG_UNBLOCK, &some, NULL);
}

static void *fault_on_own_stack(void *arg)
{
    unsigned int flags = *(unsigned int *)arg;
    unsigned char to[8];
    size_t size = 65536;
    stack_t earlier;
    stack_t mine = {.ss_sp = malloc(size), .ss_size = size, .ss_flags = (int)flags};
    stack_t after;
    bool good = mine.ss_sp != NULL && sigaltstack(&mine, &earlier) == 0;
    for (int i = 0; good && i < 3; i++) {
        good = iwarp_guard_copy_from(to, NULL, sizeof(to)) == -1 &&
               sigaltstack(NULL, &after) == 0 && after.ss_sp == mine.ss_sp &&
               after.ss_size == size && after.ss_flags == (int)flags;
    }
    sigaltstack(&earlier, NULL);
    free(mine.ss_sp);
    return good ? arg : NULL;
}

static void fault__alternate_stack__is_kept(void **state)
{
    begin(state);
    not_emulated();
    unsigned int kinds[] = {0, SS_AUTODISARM};
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        void *result = NULL;
        assert_int_equal(pthread_create(&thread, NULL, fault_on_own_stack, &kinds[i]), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, &kinds[i]);
    }
}

static void *fault_often(void *arg)
{
    unsigned char *half = arg;
    unsigned char to[256];
    for (int i = 0; i < 500; i++) {
        memset(to, 0, sizeof(to));
        if (iwarp_guard_copy_from(to, half + page - 100, 101) != -1 ||
            iwarp_guard_copy_to(to, source + i, 200) != 0 || memcmp(to, source + i, 200) != 0 ||
            iwarp_guard_copy_to(half + page, source, 24) != -1) {
            return NULL;
        }
    }
    return arg;
}

static void fault__many_threads_at_once__each_gets_its_own(void **state)
{
    begin(state);
    pthread_t threads[16];
    unsigned char *half = map_half();
    for (int i = 0; i < 16; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, fault_often, half), 0);
    }
    for (int i = 0; i < 16; i++) {
        void *result = NULL;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, half);
    }
    munmap(half, page);
}

/* ---- handlers of the application: each of these runs in a child ---- */

_Noreturn static void give_up(int line, const char *why)
{
    dprintf(STDERR_FILENO, "line %d: %s\n", line, why);
    _exit(1);
}

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            give_up(__LINE__, #condition);                                                         \
        }                                                                                          \
    } while (0)

static sigjmp_buf back;
static volatile sig_atomic_t calls, low_calls, code;
static void *volatile fault_address;
static volatile bool usr2_was_blocked, own_was_blocked;
static struct sigaction displaced;

static int status_of(void (*child)(void))
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        alarm(60);
        child();
        _exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void install_handler(int signo, void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR2);
    MUST(sigaction(signo, &action, &displaced) == 0);
}

static void install_plain(int signo, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    MUST(sigaction(signo, &action, &displaced) == 0);
}

static void note_and_jump(int signo, siginfo_t *info, void *context)
{
    (void)context;
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    usr2_was_blocked = sigismember(&mask, SIGUSR2) == 1;
    own_was_blocked = sigismember(&mask, signo) == 1;
    calls++;
    code = info->si_code;
    fault_address = info->si_addr;
    siglongjmp(back, 1);
}

static void note_plain(int signo)
{
    (void)signo;
    calls++;
    siglongjmp(back, 1);
}

static void note_low(int signo, siginfo_t *info, void *context)
{
    (void)signo;
    (void)context;
    low_calls++;
    fault_address = info->si_addr;
    siglongjmp(back, 1);
}

/* What it does not know goes to the handler it displaced. */
static void note_and_pass_on(int signo, siginfo_t *info, void *context)
{
    calls++;
    displaced.sa_sigaction(signo, info, context);
}

static void note_and_restore(int signo, siginfo_t *info, void *context)
{
    (void)info;
    (void)context;
    calls++;
    sigaction(signo, &displaced, NULL);
}

/* Raw, not to be judged by a sanitizer before the processor sees it. */
__attribute__((noinline, no_sanitize("address", "thread", "undefined"))) static void touch(
    volatile unsigned char *p)
{
    *p = 1;
}

static bool touch_comes_back(unsigned char *p)
{
    if (sigsetjmp(back, 1) == 0) {
        touch(p);
        return false;
    }
    return true;
}

static bool guard_works(void)
{
    unsigned char to[8];
    return iwarp_guard_copy_from(to, NULL, sizeof(to)) == -1 &&
           iwarp_guard_copy_to(to, source, sizeof(to)) == 0;
}

static void child_earlier_handler(void)
{
    unsigned char *p = map_half();
    install_handler(SIGSEGV, note_and_jump, 0);
    iwarp_guard_refresh();
    for (int i = 1; i <= 3; i++) {
        MUST(touch_comes_back(p + page + 17));
        MUST(calls == i && fault_address == p + page + 17 && code == SEGV_MAPERR);
        MUST(usr2_was_blocked && own_was_blocked);
        MUST(guard_works() && calls == i);
    }
}

static void chain__earlier_handler__gets_unguarded_faults(void **state)
{
    begin(state);
    assert_int_equal(status_of(child_earlier_handler), 0);
}

static void child_bus_handler(void)
{
    char name[] = "/tmp/test_guard.XXXXXX";
    int fd = mkstemp(name);
    MUST(fd >= 0 && unlink(name) == 0 && ftruncate(fd, (off_t)page) == 0);
    unsigned char *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(p != MAP_FAILED && ftruncate(fd, 0) == 0);
    install_handler(SIGBUS, note_and_jump, SA_NODEFER);
    iwarp_guard_refresh();
    MUST(iwarp_guard_copy_to(p + 5, source, 24) == -1 && calls == 0);
    MUST(touch_comes_back(p + 5));
    MUST(calls == 1 && fault_address == p + 5 && code == BUS_ADRERR);
    MUST(usr2_was_blocked && (!own_was_blocked || !EXACT));
}

static void chain__bus_error__gets_its_own_handler_and_flags(void **state)
{
    begin(state);
    assert_int_equal(status_of(child_bus_handler), 0);
}

static void child_plain_handler(void)
{
    install_plain(SIGSEGV, note_plain, 0);
    iwarp_guard_refresh();
    MUST(guard_works() && calls == 0);
    MUST(touch_comes_back(NULL) && calls == 1);
}

static void chain__handler_without_siginfo__is_called(void **state)
{
    begin(state);
    assert_int_equal(status_of(child_plain_handler), 0);
}

static void touch_other_range(void *arg)
{
    touch(arg);
}

static void child_fault_beside_the_range(void)
{
    unsigned char *p = map(3, PROT_NONE);
    install_handler(SIGSEGV, note_and_jump, 0);
    iwarp_guard_refresh();
    static const int beside[] = {-1, 1};
    for (int i = 0; i < 2; i++) {
        unsigned char *at = beside[i] < 0 ? p + page - 1 : p + page + 64;
        if (sigsetjmp(back, 1) == 0) {
            iwarp_guard_run(p + page, 64, touch_other_range, at);
            give_up(__LINE__, "the fault was taken for one in the range");
        }
        MUST(calls == i + 1 && fault_address == at);
        /* The application left the guard by its own jump; the next one is not affected. */
        MUST(guard_works());
    }
}

static void guard__fault_beside_the_range__is_not_its_own(void **state)
{
    begin(state);
    assert_int_equal(status_of(child_fault_beside_the_range), 0);
}

static void raise_segv(void *arg)
{
    (void)arg;
    raise(SIGSEGV);
}

static void child_signal_sent(void)
{
    install_handler(SIGSEGV, note_and_jump, 0);
    iwarp_guard_refresh();
    if (sigsetjmp(back, 1) == 0) {
        iwarp_guard_run(NULL, SIZE_MAX, raise_segv, NULL);
        give_up(__LINE__, "a sent signal was taken for a fault");
    }
    MUST(calls == 1 && code == SI_TKILL);
}

static void guard__signal_sent_by_somebody__is_passed_on(void **state)
{
    begin(state);
    assert_int_equal(status_of(child_signal_sent), 0);
}

static void child_default(void)
{
    install_plain(SIGSEGV, SIG_DFL, 0);
    iwarp_guard_refresh();
    MUST(guard_works());
    touch(NULL);
}

static void child_ignored_fault(void)
{
    install_plain(SIGSEGV, SIG_IGN, 0);
    iwarp_guard_refresh();
    MUST(guard_works());
    touch(NULL);
}

static void child_ignored_sent(void)
{
    install_plain(SIGSEGV, SIG_IGN, 0);
    iwarp_guard_refresh();
    MUST(guard_works());
    MUST(kill(getpid(), SIGSEGV) == 0);
    MUST(guard_works());
}

static void child_default_sent(void)
{
    install_plain(SIGBUS, SIG_DFL, 0);
    iwarp_guard_refresh();
    raise(SIGBUS);
}

static void chain__default_or_ignored__is_what_the_kernel_does(void **state)
{
    begin(state);
    int status = status_of(child_default);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    status = status_of(child_ignored_fault);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    assert_int_equal(status_of(child_ignored_sent), 0);
    status = status_of(child_default_sent);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

static void child_one_shot(void)
{
    install_plain(SIGSEGV, note_plain, (int)SA_RESETHAND);
    iwarp_guard_refresh();
    MUST(guard_works() && touch_comes_back(NULL) && calls == 1 && guard_works());
    touch_comes_back(NULL);
}

static void chain__one_shot_handler__is_called_once(void **state)
{
    begin(state);
    int status = status_of(child_one_shot);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static void child_later_handler(void)
{
    install_handler(SIGSEGV, note_low, 0);
    iwarp_guard_refresh();
    install_handler(SIGSEGV, note_and_pass_on, 0);
    /* Not in front any more, but it passes on what it does not know. */
    MUST(guard_works() && calls == 1);
    iwarp_guard_refresh();
    MUST(guard_works() && calls == 1);
    /* Ours, theirs, ours of before, and the one at the bottom: not round in a circle. */
    MUST(touch_comes_back(NULL) && calls == 2 && low_calls == 1);
    iwarp_guard_refresh();
    MUST(touch_comes_back(NULL) && calls == 3 && low_calls == 2);
}

static void refresh__later_handler_that_passes_on__is_between(void **state)
{
    begin(state);
    assert_int_equal(status_of(child_later_handler), 0);
}

static void child_restoring_handler(void)
{
    install_plain(SIGSEGV, SIG_DFL, 0);
    iwarp_guard_refresh();
    install_handler(SIGSEGV, note_and_restore, 0);
    iwarp_guard_refresh();
    MUST(guard_works() && calls == 0);
    touch(NULL);
}

static void refresh__later_handler_that_restores__ends_by_default(void **state)
{
    begin(state);
    int status = status_of(child_restoring_handler);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static void child_changing_handlers(void)
{
    for (int i = 0; i < 200; i++) {
        if (i % 2 == 0) {
            install_handler(SIGSEGV, note_and_jump, 0);
        } else {
            install_plain(SIGSEGV, note_plain, 0);
        }
        iwarp_guard_refresh();
        MUST(guard_works() && calls == i);
        MUST(touch_comes_back(NULL) && calls == i + 1);
    }
}

static void refresh__handlers_changed_often__never_runs_out(void **state)
{
    begin(state);
    assert_int_equal(status_of(child_changing_handlers), 0);
}

static void child_masks_without_end(void)
{
    /* A different mask each time, so that every one needs its own layer. */
    struct sigaction action = {.sa_handler = note_plain};
    for (int i = 0; i < 30; i++) {
        sigaddset(&action.sa_mask, SIGRTMIN + i);
        MUST(sigaction(SIGBUS, &action, NULL) == 0);
        MUST(dup2(open("/dev/null", O_WRONLY), STDERR_FILENO) >= 0);
        if (iwarp_guard_install() != 0) {
            MUST(i > 10 && guard_works());
            iwarp_guard_refresh();
            return;
        }
    }
    _exit(2);
}

static void install__too_many_handlers__reports_it(void **state)
{
    begin(state);
    assert_int_equal(status_of(child_masks_without_end), 0);
}

/* ---- the right place in a core dump: what a debugger sees at the end ---- */

static uintptr_t program_counter(pid_t pid)
{
#if defined(__x86_64__)
    errno = 0;
    long value = ptrace(PTRACE_PEEKUSER, pid, (void *)offsetof(struct user_regs_struct, rip), NULL);
    assert_int_equal(errno, 0);
    return (uintptr_t)value;
#else
    (void)pid;
    return 0;
#endif
}

static void child_traced(void)
{
    install_plain(SIGSEGV, SIG_DFL, 0);
    iwarp_guard_refresh();
    MUST(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
    touch((unsigned char *)16);
}

static void chain__default__ends_at_the_faulting_instruction(void **state)
{
    begin(state);
    not_emulated();
    int status;
    int stops = 0;
    uintptr_t place[2] = {0, 0};
    pid_t pid = fork();
    if (pid == 0) {
        child_traced();
        _exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    while (WIFSTOPPED(status)) {
        siginfo_t info;
        assert_int_equal(WSTOPSIG(status), SIGSEGV);
        assert_true(stops < 2);
        assert_int_equal(ptrace(PTRACE_GETSIGINFO, pid, NULL, &info), 0);
        assert_int_equal(info.si_code, SEGV_MAPERR);
        assert_true(info.si_addr == (void *)16);
        place[stops++] = program_counter(pid);
        assert_int_equal(ptrace(PTRACE_CONT, pid, NULL, (void *)(uintptr_t)SIGSEGV), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
    }
    assert_int_equal(stops, 2);
    assert_int_equal(place[0], place[1]);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copy__every_size_and_alignment__is_exact),
        cmocka_unit_test(copy__large__is_exact),
        cmocka_unit_test(copy__unmapped__fails),
        cmocka_unit_test(copy_to__read_only__fails_and_changes_nothing),
        cmocka_unit_test(copy_to__fault_in_the_middle__octets_below_are_there),
        cmocka_unit_test(copy_from__fault_in_the_middle__fails),
        cmocka_unit_test(copy__truncated_file__fails),
        cmocka_unit_test(copy__absurd_address__fails),
        cmocka_unit_test(run__readable__runs_to_the_end),
        cmocka_unit_test(run__unmapped__is_left),
        cmocka_unit_test(fault__errno_and_mask__are_kept),
        cmocka_unit_test(fault__alternate_stack__is_kept),
        cmocka_unit_test(fault__many_threads_at_once__each_gets_its_own),
        cmocka_unit_test(chain__earlier_handler__gets_unguarded_faults),
        cmocka_unit_test(chain__bus_error__gets_its_own_handler_and_flags),
        cmocka_unit_test(chain__handler_without_siginfo__is_called),
        cmocka_unit_test(guard__fault_beside_the_range__is_not_its_own),
        cmocka_unit_test(guard__signal_sent_by_somebody__is_passed_on),
        cmocka_unit_test(chain__default_or_ignored__is_what_the_kernel_does),
        cmocka_unit_test(chain__one_shot_handler__is_called_once),
        cmocka_unit_test(refresh__later_handler_that_passes_on__is_between),
        cmocka_unit_test(refresh__later_handler_that_restores__ends_by_default),
        cmocka_unit_test(refresh__handlers_changed_often__never_runs_out),
        cmocka_unit_test(install__too_many_handlers__reports_it),
        cmocka_unit_test(chain__default__ends_at_the_faulting_instruction),
    };
    return cmocka_run_group_tests_name("guard", tests, setup, NULL);
}
