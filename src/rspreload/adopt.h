/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What librdmacm.so.1 offers of its rsockets beyond rdma/rsocket.h, for the preload library: TCP
 * connections that become rsockets, and a descriptor for epoll. Exported under the node
 * IWARP_PRIVATE_1; programs do not use it.
 *
 * The number of an rsocket is a descriptor: a TCP socket that is not connected. All calls of
 * rdma/rsocket.h take that number. Calls here may be made by several threads, return -1 with errno
 * unless they say otherwise, and hold no lock when they return.
 */
#ifndef IWARP_RSPRELOAD_ADOPT_H
#define IWARP_RSPRELOAD_ADOPT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

enum iwarp_rs_role {
    IWARP_RS_CLIENT, /* sends the MPA Request at once */
    IWARP_RS_SERVER  /* the peer's MPA Request has come, is coming, or is in `received` */
};

/*
 * The connected TCP socket `fd` becomes an rsocket, of the same number: its connection moves to a
 * descriptor of the library's, and a TCP socket that is not connected takes its place, with
 * FD_CLOEXEC; for a client that happens when the connection is established. An epoll set still
 * watches the old one: take fd out of the set before the call. Options of fd stay as the program
 * has set them, and those that it sets later reach TCP, but for what the library needs otherwise
 * (transport/tcp_options.h). `received` is octets that were read from fd already, copied; NULL and
 * 0: none.
 *
 * The call does not wait: the start-up goes on, and ends by timeout_ms (0: the defaults of
 * iwarp/conn.h). iwarp_rs_start_up tells how far it is. rsend and rrecv wait for it, or fail with
 * EAGAIN if the rsocket does not block; rpoll and iwarp_rs_watch show the end of it as sockets do:
 * writable, or an error.
 *
 * From then on errors, hang-ups and a close with octets unread are as with TCP (docs/rsockets.md).
 *
 * After a failure of the call itself fd is as it was. EBADF, ENOTSOCK, ENOTCONN, EOPNOTSUPP (not
 * TCP, or the device's TCP is not the kernel's), EEXIST (an rsocket already), EMFILE, ENOMEM.
 */
int iwarp_rs_adopt(int fd, enum iwarp_rs_role role, const void *received, size_t received_len,
                   unsigned timeout_ms);

/*
 * How far is the connection? 0: established, now or before; EINPROGRESS; or why it failed
 * (ETIMEDOUT: no answer in time, ECONNREFUSED: the peer said no, ECONNRESET: the peer hung up,
 * EPROTO: what came is not MPA's or not an rsocket's); EBADF: no rsocket. timeout_ms: wait so long
 * for it, 0: do not, -1: as long as it takes. Does not touch errno, nor SO_ERROR.
 */
int iwarp_rs_start_up(int fd, int timeout_ms);

/*
 * Have call(user) called once: by the thread that runs the loop when the start-up is over, well or
 * not; or, if the rsocket is freed before, by the thread that frees it. It waits for no lock whose
 * owner may wait for the loop; this thread may have the lock of another rsocket. False: it is over
 * already, and nothing is called.
 */
bool iwarp_rs_start_by(int fd, void (*call)(void *user), void *user);

/* Is the descriptor the number of an rsocket of this process? */
bool iwarp_rs_is(int fd);

/*
 * A descriptor that poll, select and epoll show readable and writable when the rsocket is, and hung
 * up when both directions are over (EPOLLHUP) or the peer sends no more (EPOLLRDHUP). From the
 * first call on the library keeps it so, without the caller. It belongs to
 * the rsocket, is the same at each call, and is closed by rclose and by an rconnect after one that
 * failed; nobody reads or writes it.
 */
int iwarp_rs_watch(int fd);

/*
 * The same with a socket pair of the caller's. Both ends become the rsocket's: `face` is what
 * iwarp_rs_watch returns from then on, and `behind` is its other end. writable: the face is
 * writable now; else it is full of what the caller has sent. 0, or -1: EBADF, or there is one
 * already.
 */
int iwarp_rs_watch_by(int fd, int face, int behind, bool writable);

/* How many octets have come and are unread; with to_send: were written and are not with the peer
 * yet, as far as is known. At most INT_MAX. -1: EBADF. */
int iwarp_rs_octets(int fd, bool to_send);

/*
 * End the rsocket as rclose does, but leave the descriptor `fd` open: a new TCP socket, with the
 * options that were set. So a client whose peer has no RDMA connects anew. EMFILE, ENOMEM: it has
 * ended, and fd cannot be connected.
 */
int iwarp_rs_forget(int fd);

/* The same without a new socket: the number stays the caller's to close. Until then it is no other
 * rsocket's, so a call that was about to use it finds none. */
void iwarp_rs_leave(int fd);

/* --- waiting for several: lead.c ------------------------------------------------------------- */

/*
 * How the face is watched. The preload library knows the epoll sets; the rsocket has to know the
 * one that watches it, if there is one, since a thread that leads looks at it instead of the
 * kernel. `number` is that of the program in the set.
 *
 * The preload library gives the kernel's epoll_ctl once. iwarp_rs_ctl is epoll_ctl for an rsocket
 * that no other set watches, as this one perhaps does; 0 or -1, as the kernel's. iwarp_rs_watched:
 * the kernel's set watches it so now, and no other one does. iwarp_rs_to_kernel: it is watched as
 * only the kernel knows. iwarp_rs_unwatched: nobody watches it.
 */
void iwarp_rs_lead_with(int (*epoll_ctl)(int set, int op, int number, struct epoll_event *event));
int iwarp_rs_ctl(int fd, int op, int set, int number, const struct epoll_event *event);
void iwarp_rs_watched(int fd, int set, int number, const struct epoll_event *event);
void iwarp_rs_to_kernel(int fd);
void iwarp_rs_unwatched(int fd);

/*
 * From now on only threads that call iwarp_rs_carrier read it; calls of other threads that read, or
 * are about to, end with EBADF. It has no face any more. It returns a bell, for the caller to
 * close: at each shutdown of the bell, threads that wait in the kernel's poll or select for the old
 * face look at all their numbers once more. -1: there was no face.
 */
int iwarp_rs_carry(int fd);
void iwarp_rs_carrier(void);

/*
 * The end of the process: what was written goes out as long as the peer takes it. For the preload
 * library, once the program's own functions of atexit have run; after iwarp_rs_lead_with nothing
 * else does it.
 */
void iwarp_rs_end(void);

/* This program is about to give way to another one, and with it its rsockets: wait until nothing is
 * kept for peers without room, 10 s at most. */
void iwarp_rs_await_kept(void);

/* That set is about to be closed, and nobody leads for it any more. */
void iwarp_rs_set_closed(int set);

/* In the place of a set's number: none; a thread that polls; several, or in ways that only the
 * kernel knows. */
#define IWARP_RS_NO_SET  (-1)
#define IWARP_RS_POLLED  (-2)
#define IWARP_RS_IN_SETS (-3)

/* Does this thread run the loop, as the library's own or as a leader? May it have to wait for
 * rsockets? Not if there are none, nor inside. */
bool iwarp_rs_is_inside(void);
bool iwarp_rs_waits(void);

/*
 * Run the loop, once at least, until a socket of the set has something to tell, one of `fds` is
 * ready, or it is until_ns by CLOCK_MONOTONIC (INT64_MAX: for ever). 0: look at these; if there is
 * nothing, *interrupted says whether a signal has come, which ends the wait. EAGAIN: the thread has
 * not earned the loop, or nothing came for 4 ms: it waits in the kernel. fds has room for one more;
 * revents are set only where the thread slept.
 * seen: for IWARP_RS_POLLED, iwarp_rs_news before the sockets were looked at.
 */
int iwarp_rs_lead(int set, unsigned seen, struct pollfd *fds, unsigned n, int64_t until_ns,
                  bool *interrupted);
unsigned iwarp_rs_news(void);

/* What a leader's sockets have to tell, as epoll_wait would, each once; without waiting. */
int iwarp_rs_take(int set, struct epoll_event *events, int most);

/* What poll would say of one. From now on it is the leader's, if no set watches it. */
short iwarp_rs_glance(int fd, short events);

/*
 * How the preload library holds the handlers of signals back (preload/signals.h). held: are they
 * held back from this thread? came: has a signal come meanwhile? cancelled: has pthread_cancel
 * (preload/cancel.h), which counts where the caller has it enabled? sleep_on: until sleep_on(NULL),
 * a signal that comes, or pthread_cancel, adds 1 to *turn. Where they are held, calls of
 * rdma/rsocket.h that wait end with EINTR, or with ERESTART if they have no time-out.
 */
struct iwarp_rs_signals {
    bool (*held)(void);
    bool (*came)(void);
    bool (*cancelled)(void);
    void (*sleep_on)(_Atomic unsigned *turn);
};
void iwarp_rs_hold_signals(const struct iwarp_rs_signals *signals);

/*
 * Around a wait in the kernel for rsockets. From begin on no thread leads, and the faces are right,
 * but for those that were glanced at: iwarp_rs_follow has one follow. The end may be called by a
 * handler of cancellation.
 */
void iwarp_rs_begin_sleep(void);
void iwarp_rs_end_sleep(void);
void iwarp_rs_follow(int fd);

#endif
