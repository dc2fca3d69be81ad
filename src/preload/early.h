/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection whose peer has not answered the MPA Request yet, while the program takes it for
 * connected, as TCP is: what it writes is kept, and goes out once it is known which way. So a
 * program need not wait for a server that accepts later, perhaps because of what the program does
 * next.
 */
#ifndef IWARP_PRELOAD_EARLY_H
#define IWARP_PRELOAD_EARLY_H

#include "preload/sock.h"

#define EARLY_AFTER_MS 10 /* what is answered sooner needs none of this */

/* A face that is one end of a pair is not writable any more; is writable again, by the other end.
 */
void early_fill(int face);
void early_empty(int pair);

/* The socket has such a face: it shows writable, and calls that write keep their octets. `start` is
 * held. */
void early_begin(struct sock *s);

/*
 * As much of the message as there is room for; of one that may wait all or nothing. -1: errno,
 * EALREADY: the state has changed, or the caller waits until it does.
 */
ssize_t early_keep(struct sock *s, const struct msghdr *message, bool may_wait);

/* shutdown(2), for later. False: it is not EARLY any more. */
bool early_shutdown(struct sock *s, int how);

/* How many octets are kept. */
int early_octets(struct sock *s);

/* Has the program given something that is to go out? `start` is held. */
bool early_has_some(const struct sock *s);

/* All that is kept goes to s->rs, an rsocket or plain TCP. `start` is held, but not while the peer
 * makes room. What cannot go is dropped: the next call of the program learns why. */
void early_pass_on(struct sock *s, bool is_rsocket);

/* Until it is settled; `start` is held afterwards. all: those that the program has numbers for. */
void early_await(struct sock *s);
void early_await_all(void);

/* The thread that has settled it is done. */
void early_end(struct sock *s);

/* At the end of the process: until what was kept has been passed on. */
void early_wait(void);
void early_begin_child(void);

#endif
