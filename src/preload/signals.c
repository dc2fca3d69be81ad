/* SPDX-License-Identifier: BSD-2-Clause */
/* First, since it includes real.h: */
#include "preload/real.h"

#include "preload/cancel.h"
#include "preload/signals.h"

#include "rspreload/adopt.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>

#define NUMBERS 65 /* from 1 on, those of the kernel */
#define FIRMLY  0x10000u

/* What the program has asked for, where the kernel has on_signal. A handler that takes one argument
 * may be called with three, as the kernel does. */
typedef void handler_of_three(int n, siginfo_t *info, void *context);
static struct {
    _Atomic(handler_of_three *) handler;
    _Atomic int flags;
    atomic_bool nests; /* SA_NODEFER, and the mask lets it */
} wanted[NUMBERS];

static _Atomic uint64_t interrupting; /* by siginterrupt; a bit each */

/* Of a thread, and its handlers write to them. In a library that is loaded at the start this model
 * needs no call. */
#define OF_THREAD static _Thread_local __attribute__((tls_model("initial-exec"))) volatile
OF_THREAD unsigned depth;
OF_THREAD bool any_held, held[NUMBERS]; /* one for each signal: its handler alone writes it */
OF_THREAD bool ended;                   /* a handler without SA_RESTART has run */
OF_THREAD unsigned count;
static _Thread_local
    __attribute__((tls_model("initial-exec"))) _Atomic(_Atomic unsigned *) sleeps_on;

static void on_signal(int n, siginfo_t *info, void *context);

static uint64_t bit(int n)
{
    return UINT64_C(1) << (n - 1);
}

/* --- when a signal comes --------------------------------------------------------------------- */

/* The kernel has blocked it while on_signal runs. */
static void hold_back(int n, siginfo_t *info, ucontext_t *context)
{
    _Atomic unsigned *turn = atomic_load(&sleeps_on);

    held[n] = any_held = true;
    sigaddset(&context->uc_sigmask, n);
    if (real()->syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), n, info) != 0) {
        (void)kill(getpid(), n); /* which the system takes without room for a value */
    }
    if (turn && depth < FIRMLY) {
        atomic_fetch_add(turn, 1); /* a futex that the kernel waits for anew has changed */
    }
}

/* As the kernel does with SA_RESETHAND. */
static void forget_handler(int n, int flags)
{
    struct sigaction action;

    if (real()->sigaction(n, NULL, &action) == 0 && action.sa_sigaction == on_signal) {
        action.sa_handler = SIG_DFL;
        action.sa_flags = flags;
        (void)real()->sigaction(n, &action, NULL);
    }
}

static void unblock(int n)
{
    sigset_t one;

    sigemptyset(&one);
    sigaddset(&one, n);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
}

static void on_signal(int n, siginfo_t *info, void *context)
{
    const int error = errno;

    if (depth > 0) {
        hold_back(n, info, context);
        errno = error;
        return;
    }
    held[n] = false; /* of a release that a handler has left */
    handler_of_three *const handler = atomic_load(&wanted[n].handler);
    const int flags = atomic_load(&wanted[n].flags);
    const bool ends = ended || !(flags & SA_RESTART);
    if (flags & (int)SA_RESETHAND) {
        forget_handler(n, flags);
    }
    if (atomic_load(&wanted[n].nests)) {
        unblock(n);
    }
    errno = error;
    ended = ends;
    count++;
    handler(n, info, context);
    ended = ended || ends; /* calls of the handler may have been ended by others */
}

/* --- inside ---------------------------------------------------------------------------------- */

void signals_hold(void)
{
    depth++;
    atomic_signal_fence(memory_order_seq_cst);
}

/* One after the other: after a handler that does not return, the next release lets the rest in. */
static void let_in(void)
{
    const int error = errno;

    ended = false;
    for (int n = 1; any_held && n < NUMBERS; n++) {
        if (held[n]) {
            held[n] = false;
            unblock(n);
        }
    }
    any_held = false;
    errno = error;
}

void signals_release(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    if (--depth == 0 && any_held) {
        let_in();
    }
}

void signals_hold_firmly(void)
{
    depth += FIRMLY;
}

void signals_release_firmly(void)
{
    depth -= FIRMLY;
}

bool signals_restart(void)
{
    return depth == 0 && !ended;
}

void signals_count_anew(void)
{
    ended = false;
}

bool signals_are_held(void)
{
    return depth > 0;
}

unsigned signals_count(void)
{
    return count;
}

static bool has_come(void)
{
    return any_held && depth < FIRMLY;
}

static bool is_cancelled(void)
{
    return cancel_came() && depth < FIRMLY;
}

static void sleep_on(_Atomic unsigned *turn)
{
    atomic_store(&sleeps_on, turn);
    cancel_sleep_on(turn);
}

void signals_begin(void)
{
    static const struct iwarp_rs_signals mine = {signals_are_held, has_come, is_cancelled,
                                                 sleep_on};

    iwarp_rs_hold_signals(&mine);
    /* What is registered last comes first before a fork, and last after it. */
    (void)pthread_atfork(signals_hold, signals_release, signals_release);
}

/* --- what the program asks for --------------------------------------------------------------- */

static bool may_be_held(int n)
{
    static const int never[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};

    for (unsigned i = 0; i < sizeof never / sizeof *never; i++) {
        if (n == never[i]) {
            return false;
        }
    }
    return n > 0 && n < NUMBERS;
}

static bool has_handler(const struct sigaction *action)
{
    return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

/* The kernel is to block the signal meanwhile, and to leave the handler in its place. on_signal
 * itself comes from where this library was not asked. */
static struct sigaction in_its_place(int n, const struct sigaction *action)
{
    struct sigaction mine = *action;

    if (action->sa_sigaction != on_signal) {
        atomic_store(&wanted[n].nests,
                     (action->sa_flags & SA_NODEFER) && sigismember(&action->sa_mask, n) != 1);
        atomic_store(&wanted[n].flags, action->sa_flags);
        atomic_store(&wanted[n].handler, action->sa_sigaction);
    }
    mine.sa_sigaction = on_signal;
    mine.sa_flags = (action->sa_flags & ~(int)(SA_RESETHAND | SA_NODEFER)) | SA_SIGINFO;
    return mine;
}

EXPORT int sigaction(int n, const struct sigaction *restrict new, struct sigaction *restrict old)
{
    if (!may_be_held(n)) {
        return real()->sigaction(n, new, old);
    }
    handler_of_three *const handler = atomic_load(&wanted[n].handler);
    const int flags = atomic_load(&wanted[n].flags);
    struct sigaction mine;

    if (new && has_handler(new)) {
        mine = in_its_place(n, new);
        new = &mine;
    }
    const int result = real()->sigaction(n, new, old);
    if (result == 0 && old && old->sa_sigaction == on_signal) {
        old->sa_sigaction = handler;
        old->sa_flags = flags;
    }
    return result;
}

static sighandler_t set_handler(int n, sighandler_t handler, int flags)
{
    struct sigaction new = {.sa_handler = handler, .sa_flags = flags}, old;

    if (handler == SIG_ERR) {
        errno = EINVAL;
        return SIG_ERR;
    }
    sigemptyset(&new.sa_mask);
    if (!(flags & SA_NODEFER)) {
        sigaddset(&new.sa_mask, n);
    }
    return sigaction(n, &new, &old) == 0 ? old.sa_handler : SIG_ERR;
}

/* The C library's own call its own sigaction. */
EXPORT sighandler_t signal(int n, sighandler_t handler)
{
    const bool ends = n > 0 && n < NUMBERS && (atomic_load(&interrupting) & bit(n));

    return set_handler(n, handler, ends ? 0 : SA_RESTART);
}

EXPORT sighandler_t sysv_signal(int n, sighandler_t handler)
{
    return set_handler(n, handler, (int)SA_RESETHAND | SA_NODEFER);
}

EXPORT int siginterrupt(int n, int ends)
{
    struct sigaction action;

    if (sigaction(n, NULL, &action) != 0) {
        return -1;
    }
    if (ends) {
        atomic_fetch_or(&interrupting, bit(n));
    } else {
        atomic_fetch_and(&interrupting, ~bit(n));
    }
    action.sa_flags = ends ? action.sa_flags & ~SA_RESTART : action.sa_flags | SA_RESTART;
    return sigaction(n, &action, NULL);
}

static bool change_mask(int n, int how)
{
    sigset_t one, before;

    sigemptyset(&one);
    if (sigaddset(&one, n) != 0 || pthread_sigmask(how, &one, &before) != 0) {
        return false;
    }
    return sigismember(&before, n) == 1;
}

/* Of System V: SIG_HOLD blocks the signal, anything else unblocks it. */
EXPORT sighandler_t sigset(int n, sighandler_t handler)
{
    struct sigaction action;

    if (handler == SIG_HOLD) {
        const bool blocked = change_mask(n, SIG_BLOCK);
        return blocked ? SIG_HOLD : sigaction(n, NULL, &action) == 0 ? action.sa_handler : SIG_ERR;
    }
    const sighandler_t before = set_handler(n, handler, 0);
    return before != SIG_ERR && change_mask(n, SIG_UNBLOCK) ? SIG_HOLD : before;
}
