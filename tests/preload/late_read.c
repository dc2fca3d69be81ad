/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls of the library for programs of sockets that come late to their rsocket:
 * LD_PRELOAD=late_read.so behind that library. LATE_READ_MS: how long each call that reads takes
 * before it looks.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags); /* of rdma/rsocket.h */

ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
    union {
        void *found;
        ssize_t (*call)(int, struct msghdr *, int);
    } next = {.found = dlsym(RTLD_NEXT, "rrecvmsg")};
    const char *ms = getenv("LATE_READ_MS");

    if (ms) {
        usleep((useconds_t)strtoul(ms, NULL, 10) * 1000);
    }
    return next.call(socket, msg, flags);
}
