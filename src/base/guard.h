/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guarded access to memory of the application: a fault becomes a return value.
 *
 * Registering memory walks no pages, so memory may be gone when it is used: unmapped, read-only,
 * or a mapped file that was cut short.  RFC 5041 and RFC 5040 make that an error of the stream;
 * it must not end the process.  A SIGSEGV or SIGBUS is recovered if the calling thread's own access
 * to the guarded range raised it.  Any other one goes to the application's own handler, or to the
 * default action, as if this library were not there.  Nothing here knows regions or STags.
 *
 * A thread that uses these functions leaves SIGSEGV and SIGBUS unblocked: the kernel kills a
 * process that faults with the signal blocked, and no handler is asked.  Guards do not nest.
 */
#ifndef IWARP_BASE_GUARD_H
#define IWARP_BASE_GUARD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/*
 * Installs the handlers, in front of those the application has; any thread, any number of times.
 * Returns 0, or -1 if a signal could not be taken over (then faults reach the application).
 */
int iwarp_guard_install(void);

/*
 * Puts the handlers back in front if the application has replaced them since.  Called when a
 * connection is set up; costs one system call for each of the two signals when nothing has changed.
 * Between the application's sigaction() and the next refresh the application's handler sees every
 * fault first.  Guarded faults are recovered then only if it passes unknown faults on to the
 * handler that it displaced.
 */
void iwarp_guard_refresh(void);

/* For pthread_sigmask: every signal but SIGSEGV, SIGBUS, SIGFPE and SIGILL, which a thread raises
 * by what it does itself. */
static inline void iwarp_guard_block_set(sigset_t *set)
{
    sigfillset(set);
    sigdelset(set, SIGSEGV);
    sigdelset(set, SIGBUS);
    sigdelset(set, SIGFPE);
    sigdelset(set, SIGILL);
}

/*
 * pthread_create for a thread of the library: it blocks that set from its beginning, since signals
 * are the application's.  If the thread set the mask itself, a handler could run in it before that.
 */
static inline int iwarp_guard_thread(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
    sigset_t most, before;

    iwarp_guard_block_set(&most);
    pthread_sigmask(SIG_SETMASK, &most, &before);
    int error = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* For fork (process.c): no thread installs handlers between the two calls. */
void iwarp_guard_hold(void);
void iwarp_guard_release(void);

/*
 * Copies n octets into user memory; src is the library's own and does not overlap.  The last
 * octet becomes visible after all octets before it, on any CPU.  An aligned 2, 4 or 8 octets at
 * the end are stored as one, so that a flag word which a program polls is never seen in halves.
 * Returns 0, or -1 if some of dst is not writable; then the octets below the first such one
 * have been copied.
 */
int iwarp_guard_copy_to(void *dst, const void *src, size_t n);

/* Copies n octets from user memory; dst is the library's own.  0, or -1: some is not readable. */
int iwarp_guard_copy_from(void *dst, const void *src, size_t n);

/*
 * Runs fn(arg) while accesses to [addr, addr + n) are guarded.  fn may be left at any access to
 * that range: it must not allocate, lock or do I/O.  Returns 0, or -1 if fn was left.
 */
int iwarp_guard_run(const void *addr, size_t n, void (*fn)(void *arg), void *arg);

/*
 * The same for many accesses in a row: fn itself says in *range what is guarded next, and may
 * change it as often as it likes. If it was left, what it stored before is there. The copies that
 * it may use are in guard_copy.h.
 */
struct iwarp_guard_range {
    const void *addr;
    size_t n;
};
int iwarp_guard_batch(const volatile struct iwarp_guard_range *range, void (*fn)(void *arg),
                      void *arg);

#endif
