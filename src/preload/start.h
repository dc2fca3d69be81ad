/* SPDX-License-Identifier: BSD-2-Clause */
/* How sockets become RDMA or plain; see docs/rsockets.md. */
#ifndef IWARP_PRELOAD_START_H
#define IWARP_PRELOAD_START_H

#include "preload/sock.h"
#include "rspreload/adopt.h"

/* Seconds for which a listener waits for a client's first octets (0: it takes no RDMA), and
 * milliseconds for which a client waits for the Reply (0: it asks for none). */
unsigned start_quiet_s(void);
unsigned start_reply_ms(void);

enum use {
    USE_READ,
    USE_WRITE,
    USE_WAIT /* poll, select, epoll: nothing waits here, and the face has to be right afterwards */
};

enum use_result { USE_FAILED = -1, USE_KERNEL, USE_RSOCKET, USE_EARLY, USE_UNSETTLED };

/*
 * What a call that moves data, or waits for it, does first: a connection that was accepted is
 * decided about. USE_RSOCKET: (*s)->rs does the call. USE_KERNEL: `number` itself does. USE_EARLY,
 * of a call that writes: early_keep does. USE_UNSETTLED: the call may block, and has to wait until
 * the state changes: block.h. USE_FAILED: errno, EAGAIN among others. `wait`: the call may block;
 * *s is put back meanwhile, and what the number is afterwards, NULL if it is nothing of ours.
 */
enum use_result start_use(struct sock **s, int number, enum use use, bool wait);

/*
 * The kernel shows that octets have come for a number. Is that a Request, which the program is not
 * to see? A connection that was accepted is decided about. *part: part of the key has come, which
 * the kernel will go on to show.
 */
bool start_hides(int number, bool *part);

/*
 * The number becomes something else, or is closed, between the two: another thread may get it at
 * once when it is closed. Returns whether it was the last one, for start_dropped, which ends the
 * socket then.
 */
bool start_drop_number(struct sock *s, int number);
void start_dropped(struct sock *s, bool last);

/* The last number is closed. Nothing waits here: while the socket is not settled, its thread ends
 * it afterwards. */
void start_end(struct sock *s);

/*
 * A program acts once the face shows readable or writable, and between the new face and the new
 * state the thread that settles it holds `start`: the state is right afterwards.
 */
void start_await_settled(struct sock *s);

/* Of a connection that was accepted: has a client of ours ended it while it waited for the Reply?
 */
bool start_given_up(int fd);

/* Called before connect(2). False: connect fails, with errno. */
bool start_may_connect(struct sock *s);

/* Called after connect(2), with its result and errno. Returns what the program gets. *again: the
 * peer has no RDMA, and connect is to be called once more, for a plain socket. */
int start_connected(struct sock *s, int number, const struct sockaddr *to, socklen_t len,
                    int result, bool *again);

/* accept(2) has returned `fd`, of a listener of ours. */
void start_arrived(int fd);

/* The connection of the TCP socket becomes an rsocket, of a number of this library's own, or -1.
 * Errors of iwarp_rs_adopt. Addresses are kept in s. `start` is held. */
int start_adopt(struct sock *s, int tcp, bool server, unsigned timeout_ms);

/* How long a call that reads (SO_RCVTIMEO) or writes and connects (SO_SNDTIMEO) may wait, in
 * milliseconds, as the TCP socket's option says; -1: for as long as it takes. */
int start_limit_ms(int fd, enum use use);

/* The rsocket, as it was, is not this thread's to use. Does a child use it, too, by now, so that
 * the kernel has its octets (fork.h)? */
bool start_is_carried(struct sock *s);

/* Has a call failed since the socket is something else by now: a child's, too, or settled
 * (early_keep has EALREADY)? start_use is to be called again. */
bool start_has_changed(struct sock *s, enum use_result use, ssize_t result);

/* The face shows what s->rs is ready for. `start` is held. */
int start_watching(struct sock *s);

/* s->rs is new. If a thread waits for it, or a set watches it already, its face is shown; else the
 * program's numbers become numbers of s->rs, which shows nothing. `start` is held. */
int start_show(struct sock *s, bool waits);

#endif
