/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork. A connection that nobody has used yet is a TCP socket: parent and child are equal, and who
 * uses it first makes it RDMA. An rsocket lives in memory of one process. A child that uses one of
 * its parent's asks the parent, over a socket pair that both have since the fork; from then on the
 * parent's threads carry octets between the rsocket and a socket pair, whose other end is the face
 * in both processes (relay.c). So what the kernel's sockets allow, either may read and write.
 *
 * A connection that the parent has closed lives on as long as a child may ask for it: until those
 * that were forked meanwhile have ended or run another program. So it is with TCP. When the parent
 * ends, its connections end.
 */
#ifndef IWARP_PRELOAD_FORK_H
#define IWARP_PRELOAD_FORK_H

#include "preload/sock.h"

/* Install the handlers of fork. Once, first. */
void fork_watch(void);

/* A child uses what its parent has: the state becomes PIPE, PLAIN or GONE. */
void fork_ask(struct sock *s);

/* The last number of an rsocket, or of a pair, is closed. True: a child may have it, and it lives
 * on. fork_closing comes first, while the number is open: of a pair its face is kept. */
void fork_closing(struct sock *s, int number);
bool fork_keep(struct sock *s);

/* From now on threads carry octets between the rsocket and a socket pair; the state is PIPE. The
 * descriptor: the end that is the face, for the caller to close; or -1. `start` is held. */
int relay_start(struct sock *s);

/* At the end of the process: what was written into the pair goes to the rsocket, and that ends.
 * Then wait for all such, for a bounded time. */
void relay_end(struct sock *s);
void relay_wait(void);

/* At a fork: relays stay as they are from hold to release. A child keeps none of their descriptors,
 * so that the end of the parent is theirs. */
void relay_hold(void);
void relay_release(void);
void relay_begin_child(void);

#endif
