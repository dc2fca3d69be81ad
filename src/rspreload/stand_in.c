/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the number of an adopted socket is while the connection is the library's: a TCP socket that
 * is not connected, so that a call past the library reads and writes nothing. One socket for each
 * family has all these numbers, since nobody uses it.
 */
#include "base/process.h"
#include "rsocket/rs.h"

#include <fcntl.h>
#include <unistd.h>

static _Atomic int sockets[2] = {-1, -1};

/* Its number is none of those that programs count on. -1: errno. */
static int high_socket(int family, int above)
{
    const int low = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int high = low >= 0 ? fcntl(low, F_DUPFD_CLOEXEC, above) : -1;

    if (high < 0) {
        return low;
    }
    close(low);
    return high;
}

/* -1: errno. */
static int make(_Atomic int *at, const struct rs *s)
{
    int fresh = high_socket(s->family, s->fd), none = -1;

    if (fresh >= 0 && !atomic_compare_exchange_strong(at, &none, fresh)) {
        close(fresh);
        fresh = none; /* another thread was quicker, and this is its socket */
    }
    return fresh;
}

/* A child may close all descriptors that it does not know, and give their numbers to others. */
void rs_stand_in_child(void)
{
    atomic_store(&sockets[0], -1);
    atomic_store(&sockets[1], -1);
}

bool rs_stand_in(struct rs *s)
{
    IWARP_UNCANCELLED;
    _Atomic int *at = &sockets[s->family == AF_INET6];
    int socket = atomic_load(at);

    socket = socket >= 0 ? socket : make(at, s);
    return socket >= 0 && dup3(socket, s->fd, O_CLOEXEC) >= 0;
}
