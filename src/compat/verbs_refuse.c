/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Refused calls set errno for the program and write a sentence to the log for its user. Both
 * libraries use this; IWARP_LOG chooses what is shown (base/log.h).
 */
#include "base/log.h"
#include "base/settings.h"
#include "compat/compat.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int iwarp_compat_refuse(const char *module, int error, const char *format, ...)
{
    char text[512];
    va_list args;

    if (iwarp_log_on(IWARP_LOG_WARN)) {
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        iwarp_log(IWARP_LOG_WARN, module, "%s", text);
    }
    errno = error;
    return error;
}

int iwarp_compat_refuse_peer(const char *module, int error, const char *sentence)
{
    static struct iwarp_log_limit limit;

    iwarp_log_rarely(&limit, IWARP_LOG_WARN, module, "%s", sentence);
    errno = error;
    return error;
}

void iwarp_compat_tell(const char *module, const char *format, ...)
{
    static struct iwarp_log_limit limit;
    char text[512];
    va_list args;

    if (iwarp_log_on(IWARP_LOG_INFO)) {
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        iwarp_log_rarely(&limit, IWARP_LOG_INFO, module, "%s", text);
    }
}

void iwarp_compat_log_by(void (*put)(const char *line, size_t octets))
{
    iwarp_log_write_by(put);
}

unsigned iwarp_compat_number(const char *name, unsigned least, unsigned most, unsigned none)
{
    return iwarp_setting_number(name, least, most, none);
}

static int error_of(enum iwarp_status status)
{
    switch (status) {
    case IWARP_OK:
        return 0;
    case IWARP_AGAIN:
        return EAGAIN;
    case IWARP_MISUSE:
    case IWARP_PROTOCOL:
        return EINVAL;
    case IWARP_NO_MEMORY:
    case IWARP_LIMIT:
        return ENOMEM;
    case IWARP_PEER:
        return ECONNRESET;
    case IWARP_TRANSPORT:
        return ECONNABORTED;
    case IWARP_CLOSED:
        return ENOTCONN;
    }
    return EINVAL;
}

/* If descriptors ran out, errno says so (EMFILE, ENFILE): native calls leave it as the system set
 * it. */
int iwarp_compat_failed(const char *module, enum iwarp_status status, const char *what)
{
    bool descriptors = status == IWARP_LIMIT && (errno == EMFILE || errno == ENFILE);
    int error = descriptors ? errno : error_of(status);

    return iwarp_compat_refuse(module, error, "%s: %s", what, iwarp_last_error());
}

void iwarp_compat_missing(const char *name, _Atomic bool *told)
{
    if (!atomic_exchange(told, true)) {
        bool socket = name[0] == 'r' && strncmp(name, "rdma_", 5) != 0;
        (void)iwarp_compat_refuse("verbs", EOPNOTSUPP, "%s is not offered by libiwarp%s", name,
                                  socket ? "; where rsockets would do, sockets do: these run over "
                                           "TCP in any case"
                                         : "");
    }
    errno = EOPNOTSUPP;
}
