/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The handlers of guard.h, their place in the chain of handlers, and the guarded copies.
 *
 * A guard is a jump buffer and a range, on the stack of the thread that copies.  The thread-local
 * pointer `active` points to it.  If a fault lies in the range, the handler jumps back to the
 * buffer.  The thread's signal mask is restored after the jump, from the copy that the kernel made
 * for the handler; so entering a guard costs no system call, and with the compiler's own setjmp
 * only a few nanoseconds.
 */
#include "base/guard_copy.h"

#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__clang__)
#define OPAQUE __attribute__((noinline))
#else
#define OPAQUE __attribute__((noipa))
#endif

#if !defined(SS_AUTODISARM) /* Linux has it, the C library's headers may not */
#define SS_AUTODISARM (1U << 31)
#endif

/* ---- the guard of this thread ---- */

/*
 * The compiler's setjmp is half the price of the C library's.  Sanitizers follow only the latter,
 * and clang has the former on x86 only.
 */
#if (defined(__x86_64__) || defined(__GNUC__) && !defined(__clang__)) &&                           \
    !defined(IWARP_UNDER_ASAN) && !defined(IWARP_UNDER_TSAN)
#define MARK(g) __builtin_setjmp((g)->jump)
#define JUMP(g) __builtin_longjmp((g)->jump, 1)
typedef void *jump_buffer[5];
#else
#define MARK(g) sigsetjmp((g)->jump, 0)
#define JUMP(g) siglongjmp((g)->jump, 1)
typedef sigjmp_buf jump_buffer;
#endif

struct guard {
    const volatile struct iwarp_guard_range *range;
    sigset_t mask; /* set by the handler: as it was at the fault */
    stack_t stack;
    jump_buffer jump;
};

/* Initial-exec: any other model may allocate at the first access, here within a handler. */
static _Thread_local struct guard *volatile active __attribute__((tls_model("initial-exec")));

/* After the jump out of the handler: restore what the kernel restores when a handler returns. */
__attribute__((noinline)) static int land(const struct guard *g)
{
    int saved = errno;
    if (((unsigned int)g->stack.ss_flags & SS_AUTODISARM) != 0) {
        sigaltstack(&g->stack, NULL);
    }
    pthread_sigmask(SIG_SETMASK, &g->mask, NULL);
    errno = saved;
    return -1;
}

/*
 * The only place that is jumped to.  The compiler must not see what fn is: it does not know that a
 * store may fault, so it would take the landing for code that cannot be reached.  The guard is the
 * caller's variable, because those of this function need not survive the jump.
 */
OPAQUE static int enter(struct guard *g, void (*fn)(void *arg), void *arg)
{
    if (MARK(g) != 0) {
        return land(g);
    }
    IWARP_COMPILER_BARRIER();
    active = g;
    IWARP_COMPILER_BARRIER();
    fn(arg);
    IWARP_COMPILER_BARRIER();
    active = NULL;
    return 0;
}

int iwarp_guard_run(const void *addr, size_t n, void (*fn)(void *arg), void *arg)
{
    const struct iwarp_guard_range range = {addr, n};
    return iwarp_guard_batch(&range, fn, arg);
}

int iwarp_guard_batch(const volatile struct iwarp_guard_range *range, void (*fn)(void *arg),
                      void *arg)
{
    struct guard g; /* clearing all of it would cost as much as a small copy */
    g.range = range;
    return enter(&g, fn, arg);
}

/* ---- the handler ---- */

/*
 * Did the interrupted instruction raise the signal by its access?  If not, a process has sent the
 * signal, or it reports an error elsewhere; then repeating the instruction would not raise it
 * again.
 */
static bool is_access(int signo, const siginfo_t *info)
{
    if (info->si_code <= 0) {
        return false;
    }
    if (signo == SIGBUS) {
        return info->si_code != BUS_MCEERR_AO;
    }
#if defined(SEGV_MTEAERR)
    return info->si_code != SEGV_MTEAERR;
#else
    return true;
#endif
}

/* As the kernel reports it: without the tag that ARMv8 allows in the top octet of an address. */
static uintptr_t untagged(const void *addr)
{
    uintptr_t a = (uintptr_t)addr;
#if defined(__aarch64__)
    a = (a >> 55 & 1) != 0 ? a : a & UINT64_MAX >> 8;
#endif
    return a;
}

/* Does the fault lie in the range of this guard? */
static bool is_guarded(const struct guard *g, int signo, const siginfo_t *info)
{
    if (!is_access(signo, info)) {
        return false;
    }
    if (info->si_code == SI_KERNEL) {
        /* An address the processor itself rejects (not canonical); it is not reported. */
        return true;
    }
    uintptr_t begin = untagged(g->range->addr), first = begin;
    if (signo == SIGBUS && info->si_code == BUS_MCEERR_AR) {
        /* Broken memory is reported by the page. */
        first &= ~(((uintptr_t)1 << info->si_addr_lsb) - 1);
    }
#if defined(__s390x__)
    first &= ~(uintptr_t)4095; /* and there all memory is */
#endif
    return untagged(info->si_addr) - first < g->range->n + (begin - first);
}

/* In the handler: jump out of it, to the landing of this thread's guard. */
_Noreturn static void leave(struct guard *g, const ucontext_t *context)
{
    /* The kernel's mask is shorter than the C library's type. */
    sigemptyset(&g->mask);
    memcpy(&g->mask, &context->uc_sigmask, _NSIG / 8);
    g->stack = context->uc_stack;
    active = NULL;
    JUMP(g);
}

/* ---- the chain ---- */

/*
 * Each time the handlers are put in front of another handler they take a new layer, which has an
 * entry point of its own.  Suppose that the application's handler displaced layer 0 and now lies
 * below layer 1.  It may call or restore what it displaced.  That is still layer 0, which passes
 * signals on to what lies below layer 0, so they do not go round in a circle.
 */
enum { LAYERS = 16, SIGNALS = 2 };

struct layer {
    atomic_bool used;       /* below is valid and does not change any more */
    atomic_bool spent;      /* below was good for one signal (SA_RESETHAND), which it has had */
    struct sigaction below; /* what this layer displaced */
};

static struct layer layers[SIGNALS][LAYERS];
static const int signals[SIGNALS] = {SIGSEGV, SIGBUS};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct layer *layer_of(int signo, int index)
{
    return &layers[signo == SIGBUS][index];
}

static void take_default(int signo, siginfo_t *info)
{
    int saved = errno;
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigaction(signo, &action, NULL);
    /*
     * On return the instruction faults once more, so the process ends at the right place.  A
     * signal that was sent is sent again; it is blocked here, hence delivered after the return.
     */
    if (!is_access(signo, info)) {
        syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), signo, info);
    }
    errno = saved;
}

/* Give a signal that is not ours to what lies below this layer, as the kernel would have done. */
static void pass_on(struct layer *l, int signo, siginfo_t *info, void *context)
{
    if (!atomic_load_explicit(&l->used, memory_order_acquire)) {
        return;
    }
    const struct sigaction *below = &l->below;
    bool spent = (below->sa_flags & (int)SA_RESETHAND) != 0 && atomic_exchange(&l->spent, true);
    if (below->sa_handler == SIG_IGN && !is_access(signo, info)) {
        return;
    }
    /* The kernel does not let a fault be ignored either. */
    if (spent || below->sa_handler == SIG_DFL || below->sa_handler == SIG_IGN) {
        take_default(signo, info);
    } else if ((below->sa_flags & SA_SIGINFO) != 0) {
        below->sa_sigaction(signo, info, context);
    } else {
        below->sa_handler(signo);
    }
}

static void handle(int index, int signo, siginfo_t *info, void *context)
{
    struct guard *g = active;
    if (g != NULL && is_guarded(g, signo, info)) {
        leave(g, context);
    }
    pass_on(layer_of(signo, index), signo, info, context);
}

#define ENTRY(index)                                                                               \
    static void entry_##index(int signo, siginfo_t *info, void *context)                           \
    {                                                                                              \
        handle(index, signo, info, context);                                                       \
    }
ENTRY(0)
ENTRY(1)
ENTRY(2)
ENTRY(3)
ENTRY(4)
ENTRY(5)
ENTRY(6)
ENTRY(7)
ENTRY(8)
ENTRY(9)
ENTRY(10)
ENTRY(11)
ENTRY(12)
ENTRY(13)
ENTRY(14)
ENTRY(15)
static void (*const entries[LAYERS])(int, siginfo_t *, void *) = {
    entry_0, entry_1, entry_2,  entry_3,  entry_4,  entry_5,  entry_6,  entry_7,
    entry_8, entry_9, entry_10, entry_11, entry_12, entry_13, entry_14, entry_15,
};

static bool is_ours(const struct sigaction *action)
{
    for (int i = 0; (action->sa_flags & SA_SIGINFO) != 0 && i < LAYERS; i++) {
        if (action->sa_sigaction == entries[i]) {
            return true;
        }
    }
    return false;
}

static bool is_same(const struct sigaction *a, const struct sigaction *b)
{
    /* By member: the end of a mask that the kernel returns is not defined. */
    for (int signo = 1; signo < _NSIG; signo++) {
        if (sigismember(&a->sa_mask, signo) != sigismember(&b->sa_mask, signo)) {
            return false;
        }
    }
    return a->sa_handler == b->sa_handler && a->sa_flags == b->sa_flags;
}

/* The layer above this action: the one it had before, or a new one.  -1: all are in use. */
static int find_layer(int signo, const struct sigaction *below)
{
    for (int i = 0; i < LAYERS; i++) {
        struct layer *l = layer_of(signo, i);
        if (!atomic_load_explicit(&l->used, memory_order_relaxed)) {
            l->below = *below;
            atomic_store_explicit(&l->used, true, memory_order_release);
            return i;
        }
        if (is_same(&l->below, below)) {
            atomic_store(&l->spent, false);
            return i;
        }
    }
    return -1;
}

/*
 * The action to install above another one.  It has the mask and flags of that one, so that a
 * handler which is called from here runs as if the kernel had called it.
 */
static struct sigaction action_above(const struct sigaction *below, int index)
{
    struct sigaction action = *below;
    action.sa_sigaction = entries[index];
    if (below->sa_handler == SIG_DFL || below->sa_handler == SIG_IGN) {
        sigemptyset(&action.sa_mask);
        action.sa_flags = SA_ONSTACK | SA_RESTART;
    }
    action.sa_flags = (action.sa_flags & ~(int)SA_RESETHAND) | SA_SIGINFO;
    return action;
}

/*
 * lock held.  Another thread of the application may install a handler between the query and the
 * change: then the one that was really displaced gets a layer above it in the next round.
 */
static int take_over(int signo)
{
    struct sigaction below;
    if (sigaction(signo, NULL, &below) != 0) {
        return -1;
    }
    while (!is_ours(&below)) {
        int index = find_layer(signo, &below);
        if (index < 0) {
            return -1;
        }
        struct sigaction above = action_above(&below, index);
        struct sigaction displaced;
        if (sigaction(signo, &above, &displaced) != 0) {
            return -1;
        }
        if (is_same(&displaced, &below)) {
            return 0;
        }
        below = displaced; /* another thread was faster; its handler has to be below ours */
    }
    return 0;
}

int iwarp_guard_install(void)
{
    int result = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < SIGNALS; i++) {
        if (take_over(signals[i]) != 0) {
            result = -1;
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

void iwarp_guard_refresh(void)
{
    static atomic_bool warned;
    if (iwarp_guard_install() != 0 && !atomic_exchange(&warned, true)) {
        iwarp_log(IWARP_LOG_WARN, "guard",
                  "cannot take over SIGSEGV and SIGBUS again after %d other handlers: "
                  "faults in registered memory reach the application",
                  LAYERS);
    }
}

void iwarp_guard_hold(void)
{
    pthread_mutex_lock(&lock);
}

void iwarp_guard_release(void)
{
    pthread_mutex_unlock(&lock);
}

/* ---- the copies ---- */

IWARP_UNCHECKED void iwarp_copy_long(void *dst, const void *src, size_t n)
{
    memcpy(dst, src, n);
}

struct copy {
    void *dst;
    const void *src;
    size_t n;
};

IWARP_UNCHECKED static void copy_to(void *arg)
{
    const struct copy *c = arg;
    iwarp_guard_place(c->dst, c->src, c->n);
}

/*
 * The second try, when the first has faulted: octet by octet from the beginning, as far as the
 * memory is there.  memcpy may begin at the end, so the first try may have left any part of it.
 */
IWARP_UNCHECKED static void copy_to_again(void *arg)
{
    const struct copy *c = arg;
    size_t head = c->n - 1;
    iwarp_copy_octets(c->dst, c->src, head);
    iwarp_release_stores(c->n);
    iwarp_copy_octets((unsigned char *)c->dst + head, (const unsigned char *)c->src + head, 1);
}

IWARP_UNCHECKED static void copy_from(void *arg)
{
    const struct copy *c = arg;
    iwarp_guard_fetch(c->dst, c->src, c->n);
}

int iwarp_guard_copy_to(void *dst, const void *src, size_t n)
{
    struct copy c = {.dst = dst, .src = src, .n = n};
    if (n == 0) {
        return 0;
    }
    if (iwarp_guard_run(dst, n, copy_to, &c) != 0 &&
        iwarp_guard_run(dst, n, copy_to_again, &c) != 0) {
        return -1;
    }
    iwarp_guard_check(dst, n);
    return 0;
}

int iwarp_guard_copy_from(void *dst, const void *src, size_t n)
{
    struct copy c = {.dst = dst, .src = src, .n = n};
    if (n == 0) {
        return 0;
    }
    if (iwarp_guard_run(src, n, copy_from, &c) != 0) {
        return -1;
    }
    iwarp_guard_check(src, n);
    return 0;
}
