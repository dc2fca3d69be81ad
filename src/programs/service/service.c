/* SPDX-License-Identifier: BSD-2-Clause */
#include "service.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_SOCKET 3

/* One write: lines of two processes do not mix. */
static void put_line(const char *format, va_list arguments)
{
    char line[1024];

    vsnprintf(line, sizeof line, format, arguments);
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, line);
}

void service_report(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    put_line(format, arguments);
    va_end(arguments);
}

/* True: one more line fits into this second. What was left out in an earlier one is said first. */
static bool has_room(void)
{
    static uint64_t second, lines;
    uint64_t now = uv_hrtime() / 1000000000;

    if (now != second) {
        if (lines > SERVICE_PEER_LINES) {
            service_report("%llu more lines about peers were left out",
                           (unsigned long long)(lines - SERVICE_PEER_LINES));
        }
        second = now;
        lines = 0;
    }
    return ++lines <= SERVICE_PEER_LINES;
}

void service_report_peer(const char *format, ...)
{
    va_list arguments;

    if (has_room()) {
        va_start(arguments, format);
        put_line(format, arguments);
        va_end(arguments);
    }
}

char *service_tls(const char *value)
{
    char *text = NULL;

    if (strchr(value, '=') || strcmp(value, "off") == 0) {
        return strdup(value);
    }
    return asprintf(&text, "cert=%s/cert.pem,key=%s/key.pem,ca=%s/ca.pem", value, value, value) < 0
               ? NULL
               : text;
}

/* --- systemd --------------------------------------------------------------------------------- */

/* The value of a variable that names a process: this one? */
static bool is_for_us(const char *variable)
{
    const char *pid = getenv(variable);

    return pid && strtoul(pid, NULL, 10) == (unsigned long)getpid();
}

bool service_socket(int *fd)
{
    const char *count = getenv("LISTEN_FDS");
    unsigned long sockets = is_for_us("LISTEN_PID") && count ? strtoul(count, NULL, 10) : 0;

    *fd = sockets == 1 ? FIRST_SOCKET : -1;
    if (sockets > 1) {
        service_report("systemd gives %s sockets; one alone can be used (one ListenStream=)",
                       count);
    }
    return sockets <= 1;
}

void service_tell(const char *text)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len = path ? strlen(path) : 0;
    int fd;

    if (len == 0 || len >= sizeof to.sun_path) {
        return;
    }
    memcpy(to.sun_path, path, len);
    if (to.sun_path[0] == '@') {
        to.sun_path[0] = '\0'; /* not in the file system */
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        (void)sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&to,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
        close(fd);
    }
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
    service_tell("WATCHDOG=1");
}

void service_watch(uv_loop_t *loop, uv_timer_t *timer)
{
    const char *limit = getenv("WATCHDOG_USEC");
    uint64_t ms = limit && (!getenv("WATCHDOG_PID") || is_for_us("WATCHDOG_PID"))
                      ? strtoull(limit, NULL, 10) / 2000
                      : 0;

    uv_timer_init(loop, timer);
    if (ms > 0) {
        uv_timer_start(timer, on_tick, ms, ms);
    }
}
