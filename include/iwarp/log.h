/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library's log. Its lines go to standard error, or into the log of the application. Which
 * lines there are is chosen by IWARP_LOG in the environment: iwarp_env(7).
 */
#ifndef IWARP_LOG_H
#define IWARP_LOG_H

#include <iwarp/api.h>

IWARP_BEGIN_DECLS

enum iwarp_log_level {
    IWARP_LOG_ERROR = 1, /* the library or the process cannot go on */
    IWARP_LOG_WARN,      /* somebody should look: the default */
    IWARP_LOG_INFO,      /* one or two lines for each connection */
    IWARP_LOG_DEBUG,     /* what is registered, what peers ask for */
    IWARP_LOG_TRACE      /* each work request and completion */
};

/*
 * A function that takes one line. module: the part of the library ("conn"). text: the sentence,
 * without heading and newline, at most 1,023 octets; parts of it may come from a peer, so control
 * characters are spaces by now. Both are valid during the call only.
 *
 * The library calls it on any of its threads, or on a thread that calls the library, perhaps on
 * several at a time, and may hold locks: the function must not fork, and must call no other
 * function of the library.
 */
typedef void iwarp_log_fn(enum iwarp_log_level level, const char *module, const char *text,
                          void *arg);

/*
 * Give all lines to fn, with arg, from now on; NULL: to standard error again. Any thread, also
 * before the first device is open. Another thread may still be inside the function that was
 * replaced when the call returns. A forked child goes on with the same function.
 */
IWARP_API void iwarp_log_to(iwarp_log_fn *fn, void *arg);

IWARP_END_DECLS

#endif
