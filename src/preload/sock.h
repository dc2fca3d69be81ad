/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets of the program that are RDMA or may become it, and the descriptors by which the program
 * knows them ("numbers"; dup makes more of them).
 *
 * What a number is in the kernel, its *face*, changes: the TCP socket, then, once the connection is
 * an rsocket, a descriptor that poll, select and epoll show readable and writable when that is. So
 * the kernel can do all waiting; a thread that has earned it looks at rsockets itself (wait.c,
 * rspreload/lead.h). sock_swap exchanges the face and has epoll sets watch the new one.
 *
 *   state       | face                     | who moves data | next
 *   ------------+--------------------------+----------------+------------------------------------
 *   TCP         | TCP, not connected       | -              | LISTENER, CONNECTING, RDMA, PLAIN
 *   LISTENER    | TCP                      | -              | -
 *   ARRIVED     | TCP, accepted            | -              | at first use RDMA, or PLAIN
 *   CONNECTING  | neither readable nor     | -              | EARLY, RDMA, PLAIN, or TCP if
 *               | writable                 |                | TCP's own connect has failed
 *   EARLY       | writable while there is  | early.c keeps  | RDMA, PLAIN
 *               | room                     | what comes     |
 *   RDMA        | free, or watched         | the rsocket    | PIPE
 *   PIPE        | an end of a socket pair  | the kernel;    | -
 *               |                          | relay.c beyond |
 *   PARENTS     | as it was at the fork    | nobody         | PIPE, PLAIN or GONE at first use
 *   GONE        | as it was                | nobody         | -
 *   PLAIN       | TCP                      | the kernel     | (no number is known any more)
 *
 * Lock order: sock.start, sock.sets, then the table's lock, which is innermost. The handlers of
 * fork take those of relay.c and peers.c before the table's; elsewhere nothing is locked while one
 * of these is held. None is held while anything waits, except sock.start: while the state changes
 * at first use, and while a peer is asked.
 */
#ifndef IWARP_PRELOAD_SOCK_H
#define IWARP_PRELOAD_SOCK_H

#include "preload/real.h"
#include "preload/signals.h"
#include "rspreload/adopt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum sock_state {
    SOCK_TCP,
    SOCK_LISTENER,
    SOCK_ARRIVED,
    SOCK_CONNECTING,
    SOCK_EARLY,
    SOCK_RDMA,
    SOCK_PIPE,
    SOCK_PARENTS,
    SOCK_GONE,
    SOCK_PLAIN
};

/* One epoll set that watches a number. */
struct sock_watch {
    struct sock_watch *next;
    int epoll, number;
    struct epoll_event event;
};

/* Of the state EARLY; with `start`. */
struct early {
    uint8_t *octets;
    size_t len, passed; /* what has gone on to s->rs already */
    bool full;          /* for good: the face shows it */
    bool writes_over, reads_over;
    bool is_rdma; /* that is known, and what was kept is on its way */
    bool counted; /* there is, or was, something to pass on */
    bool polled;  /* somebody waits for the face, or has put it into a set */
};

struct sock {
    struct sock *next, *before;         /* of all; this and the next six: table lock */
    struct sock *arrived, **arrived_at; /* sock_each_arrived; NULL: in no list */
    _Atomic unsigned refs;              /* numbers, and calls under way */
    unsigned numbers;
    struct sock_watch *watches;
    _Atomic enum sock_state state; /* changed with `start` held */
    unsigned holders;              /* families (fork.c) that may ask for it; table lock */
    uint64_t since;                /* the first of these */
    bool kept;                     /* it lives on for them alone; table lock */
    atomic_bool watched;           /* the face shows readable and writable; written with `sets` */
    bool elsewhere;                /* another process has the rsocket */
    bool scattered;                /* sets that nobody knows any more may watch it; table lock */
    atomic_bool nonblock;
    atomic_bool closed; /* by the program: before `start` is tried */
    pthread_mutex_t start;
    pthread_cond_t settled; /* no longer CONNECTING or EARLY; with `start` */
    pthread_mutex_t sets;   /* held by epoll_ctl, and while the rsocket is told of `watches` */
    _Atomic int rs; /* the rsocket; while CONNECTING or EARLY perhaps the TCP socket; else -1 */
    int left;  /* the number of an rsocket that has ended; else -1. It is closed once no call has s:
                * one may be about to use the number, which the next connection would have */
    int front; /* CONNECTING, EARLY: the face; else -1 */
    int pair;  /* CONNECTING, EARLY: its other end; PIPE, once the program has closed it: the face,
                * for children; else -1 */
    struct early early;
    int64_t part_ms;          /* ARRIVED: when part of the key was first seen, or 0; with `start` */
    atomic_bool starts_alone; /* a server's: its whole Request was there, and it has not started */
    int owner;                /* PARENTS: where to ask the process that has it */
    uint64_t serial;
    struct sockaddr_storage bound, local, peer; /* bound: by the program */
    socklen_t bound_len, local_len, peer_len;
};

/* socket(2), for the program. */
int sock_make(int domain, int type, int protocol);

/* The socket with that number, with a reference; NULL: none of ours, the kernel's matter. From here
 * to sock_put the thread is inside (signals.h). */
struct sock *sock_get(int number);
void sock_put(struct sock *s); /* or NULL */

/*
 * The process ends, and this thread ends its sockets, from begin to end. Another one that comes
 * from a call on a socket, or to one, stops, or it would find it gone: the kernel ends sockets with
 * their process. It goes on a while later, since a destructor of another library may wait for it.
 */
void sock_begin_end(void);
void sock_end_end(void);
void sock_stop_at_end(void); /* if that has begun, and this is another thread */

/* A reference that another thread may give back. */
void sock_ref(struct sock *s);
void sock_unref(struct sock *s);

/* A socket with that number; it knows no other. NULL: no memory, or the number is beyond
 * SOCK_NUMBERS; the descriptor is plain then. */
#define SOCK_NUMBERS 65536
struct sock *sock_new(int number, enum sock_state state);

/* Has some socket that number? From anywhere: no lock is taken. */
bool sock_is_known(int number);

/* All numbers that sockets have, or have had, are below it. */
int sock_beyond(void);

/* `number` is another name of s now: true. False: no room; the caller closes it. */
bool sock_add(struct sock *s, int number);

/* The number is no longer ours; epoll forgets it. True: s had no other. The caller closes it. */
bool sock_remove(int number);

/* No number is ours any more: the kernel does everything from now on. `start` is held. */
void sock_plain(struct sock *s);

/* All numbers become duplicates of `face`, each with the flag of exec that it had; epoll sets that
 * watched them watch the new face. -1: errno, from the first that failed. */
int sock_swap(struct sock *s, int face);

/* Its peer has not answered yet: another state, and another face, come. */
static inline bool sock_is_unsettled(const struct sock *s)
{
    const enum sock_state state = s->state;

    return state == SOCK_CONNECTING || state == SOCK_EARLY;
}

/* Its rsocket ends, and its state is GONE. `left` keeps the number from the next rsocket. `start`
 * is held. */
static inline void sock_end_rsocket(struct sock *s)
{
    s->state = SOCK_GONE;
    s->left = s->rs;
    iwarp_rs_leave(s->rs);
}

/* A new descriptor of its face, or -1. */
int sock_face(struct sock *s);

/* `front` and `pair`, as far as they are there; numbers keep what they are. `start` is held. */
void sock_close_pair(struct sock *s);

unsigned sock_numbers(struct sock *s); /* how many there are */

bool sock_is_in_sets(struct sock *s);

/* No epoll set watches it, as far as this process has to know. The table's lock is held. */
void sock_forget_watches(struct sock *s);

/* epoll_ctl for a number of s, which is remembered. */
int sock_watch(struct sock *s, int epoll, int op, int number, struct epoll_event *event);

/* The rsocket is told how its face is watched in the kernel now. becomes: and with it changes. */
void sock_tell_watches(struct sock *s);
void sock_becomes(struct sock *s, enum sock_state state, bool watched);

/* A number of it is about to be closed, perhaps the last one. */
void sock_closing(struct sock *s);

/* The number of an epoll set is about to be closed; the set is shared from now on (sets.h). Nothing
 * happens for other numbers. */
void sock_set_closed(int number);
void sock_set_shared(int number);

/* Calls for each socket, or for each in the state ARRIVED, with the table's lock held. */
void sock_each(void (*call)(struct sock *s, void *arg), void *arg);
void sock_each_arrived(void (*call)(struct sock *s, void *arg), void *arg);

/* An option of the kernel's socket that is an int; -1: there is none. */
int sock_option(int fd, int level, int name);

/* A descriptor of this library's own, out of the way of the program's numbers, closed by exec. */
int sock_high(int fd);

/* Has the library n more numbers, and is the lowest free number of all within the first half? fd:
 * any that is open. */
bool sock_has_numbers(int fd, unsigned n);

/* Is this the process that the table belongs to? A child of vfork shares it, and may not touch it.
 */
bool sock_mine(void);

/* 2 ms, where nothing tells of what is waited for. await_none: until the count is 0, so long at
 * most. */
void sock_rest(void);
void sock_await_none(const atomic_uint *count, int64_t ms);

/* Of CLOCK_MONOTONIC. */
int64_t sock_now_ns(void);
int64_t sock_now_ms(void);

/* For the handlers of fork. */
void sock_hold(void);
void sock_release(void);
void sock_begin_process(void); /* at the start, and in a child of fork */

#endif
