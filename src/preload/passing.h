/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets that come from elsewhere: a process that ran this program, or a message of another
 * process (SCM_RIGHTS); and those that go in such a message.
 *
 *   what goes         | what the receiver gets
 *   ------------------+---------------------------------------------------------------------------
 *   TCP, LISTENER,    | the TCP socket; with this library it may become RDMA there as it would here
 *   ARRIVED           |
 *   PLAIN             | the TCP socket
 *   CONNECTING, EARLY | what it has become, once that is known
 *   RDMA, PARENTS,    | an end of a socket pair, with the names of the connection (pair_name.h):
 *   PIPE              | threads of the process that has the rsocket carry octets, as for a child of
 *                     | fork, until that process ends
 */
#ifndef IWARP_PRELOAD_PASSING_H
#define IWARP_PRELOAD_PASSING_H

#include <sys/socket.h>

/* Descriptors that this program had at its begin. */
void passing_inherited(void);

/* Messages that the kernel is about to send. 0, or -1: errno, something in them cannot go. */
int passing_out(const struct msghdr *message);
int passing_all_out(const struct mmsghdr *messages, unsigned count);

/* What the kernel has given: n is what its call has returned. */
void passing_in(ssize_t n, const struct msghdr *message);
void passing_all_in(int n, const struct mmsghdr *messages);

#endif
