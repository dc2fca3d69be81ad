/* SPDX-License-Identifier: BSD-2-Clause */
/* What poll.c, select.c and epoll.c share. */
#ifndef IWARP_PRELOAD_WAIT_H
#define IWARP_PRELOAD_WAIT_H

#include "preload/start.h"

#include <time.h>

/* Times are nanoseconds of CLOCK_MONOTONIC; INT64_MAX is for ever. */
int64_t wait_end_of(int64_t timeout_ns);      /* < 0: for ever */
int64_t wait_ns_of(const struct timespec *t); /* NULL, or longer than that goes: -1 */
struct timespec wait_left_of(int64_t end);
bool wait_is_time(const struct timespec *t);    /* as the kernel takes it; or NULL */
bool wait_is_at_once(const struct timespec *t); /* no time at all; not NULL */

/* Is it the turn of the loop, and of what else is waited for, whatever sockets are ready? So a
 * thread that always finds some serves the rest, too. Zeroed at first; one thread at a time. */
struct wait_turns {
    unsigned looks;
    int64_t at_ns; /* when the last turn was */
};
bool wait_is_turn(struct wait_turns *t);

/* For a wait in poll or select: the face is right. True: it is an rsocket, or becomes one perhaps,
 * or a set that has some. *changes becomes true if it has another face soon, perhaps: it connects,
 * or it was accepted and is not decided about. errno stays. */
bool wait_prepare(int number, bool *changes);

/* A socket that is not settled has another face soon. Returns a descriptor of the face that it has
 * now, for the caller to close; -1: the socket is settled. */
int wait_stand_in(int number);

/* The stand-in shows this. Is it what the program is to see? Else the socket is settled, so its new
 * face is to be looked at. */
bool wait_is_early(int number, short revents);

/* Is it an rsocket that is watched? With a reference, for sock_put. */
struct sock *wait_rsocket(int number);

/* Has a handler run since the call began? Then the kernel is asked and does not wait, and if it has
 * nothing to tell the call fails with EINTR. */
bool wait_is_ended(unsigned handlers, bool at_once);
int wait_result(int result, bool is_ended);

/* A wait in the kernel for rsockets. It may be cancelled. */
int wait_in_kernel(int (*call)(void *arg), void *arg);

/* For such calls: the face of a number that this process has glanced at follows. */
void wait_follow(int number);

struct wait_poll {
    struct pollfd *fds;
    nfds_t n; /* WAIT_MOST at most, to be led */
    int64_t end;
    bool at_once; /* the time-out is 0: a signal does not end the call */
    const sigset_t *signals;
    unsigned handlers; /* signals_count at its beginning */
};
#define WAIT_MOST 64

/* poll, once the faces are right. changes: as wait_prepare found. */
int wait_poll(struct wait_poll *c, bool changes);

/* The same by leading. True: it is over, with its result. */
bool wait_lead_poll(const struct wait_poll *c, int *result);

#endif
