/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection whose peer has not answered the MPA Request yet, while the program takes it for
 * connected, as TCP is: what it writes is kept, and goes out once it is known whether the
 * connection is RDMA or plain TCP. So a program need not wait for a server that accepts later,
 * perhaps because of what the program does next.
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

/* How many octets a message has. */
static inline size_t message_octets(const struct msghdr *message)
{
    size_t sum = 0;

    for (size_t i = 0; i < message->msg_iovlen; i++) {
        sum += message->msg_iov[i].iov_len;
    }
    return sum;
}

/* As much of the message as there is room for. -1: errno, EAGAIN: there is none; EPIPE: after
 * shutdown; EALREADY: the state has changed. */
ssize_t early_keep(struct sock *s, const struct msghdr *message);

/* shutdown(2): what is written has an end at once, what is read when the socket is settled. False:
 * it is not EARLY. */
bool early_shutdown(struct sock *s, int how);

/* How many octets are kept. */
int early_octets(struct sock *s);

/* Has the program given something that is to go out? `start` is held. */
bool early_has_some(const struct sock *s);

/* All that is kept goes to s->rs, an rsocket or plain TCP. `start` is held, but not while the peer
 * makes room. What cannot go is dropped: the next call of the program learns why. */
void early_pass_on(struct sock *s, bool is_rsocket);

/* Until it is settled; `start` is held afterwards. */
void early_await(struct sock *s);

/* Until it is known of each that the program has a number for whether it is RDMA; for so long, in
 * whole seconds, at most. */
void early_await_all(unsigned ms);

/* It is about to be settled, and may connect anew then: nothing is kept any more. `start` is held.
 */
void early_forget(struct sock *s);

/* The thread that has settled it is done; it had something to pass on. */
void early_passed(void);

/* Before the process, or its program, ends: until what was kept has been passed on, 10 s at most.
 */
void early_wait(void);
void early_begin_child(void);

#endif
