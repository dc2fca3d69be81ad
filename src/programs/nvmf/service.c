/* SPDX-License-Identifier: BSD-2-Clause */
#include "service.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_SOCKET 3

/* The value of a variable that names a process: this one? */
static bool is_for_us(const char *variable)
{
    const char *pid = getenv(variable);

    return pid && strtoul(pid, NULL, 10) == (unsigned long)getpid();
}

int nvmf_service_socket(void)
{
    const char *count = getenv("LISTEN_FDS");

    return is_for_us("LISTEN_PID") && count && strcmp(count, "1") == 0 ? FIRST_SOCKET : -1;
}

void nvmf_service_tell(const char *text)
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
    nvmf_service_tell("WATCHDOG=1");
}

void nvmf_service_watch(uv_loop_t *loop, uv_timer_t *timer)
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
