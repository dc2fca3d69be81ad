/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A call of the library for programs of sockets that comes late to its rsocket:
 * LD_PRELOAD=late_read.so behind that library. The program finds late_read by dlsym, and says when.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags); /* of rdma/rsocket.h */
void late_read(int step);

static _Atomic int next_stops, has_stopped, may_look;

/* 0: the next call that reads stops before it looks. 1: returns once it has stopped. 2: it goes
 * on. */
void late_read(int step)
{
    if (step == 0) {
        atomic_store(&next_stops, 1);
    } else if (step == 2) {
        atomic_store(&may_look, 1);
    }
    while (step == 1 && !atomic_load(&has_stopped)) {
        usleep(1000);
    }
}

ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
    union {
        void *found;
        ssize_t (*call)(int, struct msghdr *, int);
    } next = {.found = dlsym(RTLD_NEXT, "rrecvmsg")};

    if (atomic_exchange(&next_stops, 0)) {
        atomic_store(&has_stopped, 1);
        while (!atomic_load(&may_look)) {
            usleep(1000);
        }
    }
    return next.call(socket, msg, flags);
}
