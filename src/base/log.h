/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Diagnostic lines, on standard error or for the application (iwarp/log.h), chosen by the
 * environment variable IWARP_LOG.
 *
 * IWARP_LOG is a list of words with commas between: a level for everything, or MODULE=LEVEL for
 * one module, later words winning.  Levels: off, error, warn, info, debug, trace, or 0 to 5; warn
 * if nothing is said.  Example: IWARP_LOG=info,conn=trace.  A line on standard error shows seconds
 * since the library was loaded, the thread if anything is logged at debug or trace, the level, the
 * module, the message:
 *     iwarp 0.001342 [4711] debug conn: ...
 * No files, no rotation; errors are reported by status, never only here.
 */
#ifndef IWARP_BASE_LOG_H
#define IWARP_BASE_LOG_H

#include <iwarp/log.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* The highest level that any module logs at; everything until IWARP_LOG has been read. */
extern atomic_int iwarp_log_highest;

/*
 * Is it worth preparing a line of this level?  One relaxed load.  May be true although the line
 * is then not written, because another module is logged at this level.
 */
static inline bool iwarp_log_on(enum iwarp_log_level level)
{
    return (int)level <= atomic_load_explicit(&iwarp_log_highest, memory_order_relaxed);
}

/*
 * Writes one line with one write(2), if the module's level says so.  Too long a line ends in
 * "...", control characters become spaces.  errno is left as it was.  Not for signal handlers.
 */
void iwarp_log(enum iwarp_log_level level, const char *module, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* For lines that a peer can provoke as often as it likes. Zero-initialised. */
struct iwarp_log_limit {
    _Atomic long long next_ms; /* no line before */
    atomic_uint left_out;
};

/* As iwarp_log, but at most one line a second for each limit; the next says how many were not. */
void iwarp_log_rarely(struct iwarp_log_limit *limit, enum iwarp_log_level level, const char *module,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Replaces what IWARP_LOG says; NULL is the default.  Any thread; meant for tests. */
void iwarp_log_set(const char *spec);

/* Lines go through this function and not to standard error. It must not log. Before there are
 * threads. */
void iwarp_log_write_by(void (*put)(const char *line, size_t octets));

/* For fork (process.c): nobody chooses levels between the two. */
void iwarp_log_hold(void);
void iwarp_log_release(void);

#endif
