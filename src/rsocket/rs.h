/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The inside of rsockets: stream sockets over RDMA Writes, in our librdmacm.so.1. They call the
 * native library (include/iwarp) as an application does. docs/rsockets.md has the wire.
 *
 *   state       event                                    action                          next
 *   OPEN        rlisten                                  listen                          LISTENING
 *               rconnect, iwarp_rs_adopt                 connect, or wait for a Request  CONNECTING
 *   LISTENING   a Request                                remember it for raccept
 *   CONNECTING  the connection is established            use the peer's private data     CONNECTED
 *               it fails, or is no rsocket               set `error`                     OVER
 *   CONNECTED   "disconnect" or FIN of the peer          reads end, writes fail (*)      OVER
 *               "no more data" of the peer               reads end
 *               rshutdown                                tell the peer, writes fail
 *               reset, time-out, a rule that is broken   set `error`                     OVER
 *
 * A socket that raccept returns begins as CONNECTED: what it sends waits in the queue pair. OVER
 * keeps what has arrived until it is read. (*) One that was adopted ends as TCP does, see `as_tcp`.
 *
 * Who owns a socket: the table, from its creation to rclose; each call that uses it (`uses`); and
 * from rclose on the engine, which frees it when the connection has ended and nobody uses it.
 *
 * Locks, outermost first: lock of a socket (of a listener before one that it accepts), then native
 * locks; engine lock; that of rspreload/due.c; wake_lock of a socket. The lock of events comes
 * before all of these, and the engine alone waits for it. The table lock comes last: nothing is
 * locked under it but by a fork. A thread that holds a socket's lock does not wait for the peer.
 */
#ifndef IWARP_RSOCKET_RS_H
#define IWARP_RSOCKET_RS_H

#include "compat/compat.h"
#include "rsocket/wire.h"

#include <errno.h>
#include <iwarp/iwarp.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <time.h>

/* Messages that take no credit (credits, control): so many are under way at once, and so many
 * credits a sender leaves unused for them, since a stock receiver has no receives beyond its
 * credits. Two of them are kept for control. */
#define RS_SPARE 4

/* What this end posts beyond the credits that it grants. */
#define RS_MORE_RECEIVES 16

/* Credits that the peer of a program of TCP has at first. The others, and their receives, come when
 * half of these are used: most connections end before. */
#define RS_FIRST_CREDITS 32

/* For a close to come to its end, as of native connections; for programs of TCP since the peer took
 * a share of the send buffer last. */
#define RS_LINGER_MS 5000

/* The same where something is kept for a peer whose program reads slowly: it shows that it reads
 * once for each half of its buffer. As long as few sockets wait so. */
#define RS_KEPT_MS   120000
#define RS_KEPT_MOST 256

struct rs_request { /* at a listener: raccept has not taken it yet */
    struct rs_request *next;
    struct iwarp_conn *conn;
    struct rs_hello hello;
};

/* `set`: none. For the others that are no number see rspreload/adopt.h. */
#define RS_NO_SET (-1)

struct rs_list;

/* Half of the receive buffer. */
struct rs_half {
    uint8_t *at;
    uint32_t len, grown;      /* octets; those beyond its first length */
    uint32_t lent;            /* octets that the peer may still fill */
    int64_t lent_ns, came_ns; /* when it was lent; when its first message came. 0: not known */
    bool all_read;            /* since it was lent, the program has read all there was */
    struct iwarp_mr *mr;
};

/* A half grows up to so many octets, that of a near peer up to fewer, those of all connections by
 * so many. */
#define RS_HALF_MAX  (1u << 22)
#define RS_NEAR_MAX  (1u << 20)
#define RS_GROWN_MAX (1u << 27)

struct rs_place {
    unsigned half;
    uint32_t at;
};

struct rs_link {
    struct rs_link *next, **at;
    struct rs_list *_Atomic list; /* NULL: in none */
};

struct rs_watcher { /* a thread that waits for several sockets, in the list of one of them */
    struct rs_watcher *next, *before; /* before: NULL, the first one */
    int bell;                         /* its eventfd */
};

/* A part of the receive buffer that the program gave for riowrite of the peer. */
struct rs_mapping {
    struct rs_mapping *next;
    struct iwarp_mr *mr;
    struct rs_map_entry entry;
    uint32_t index; /* in the peer's map */
    bool told;
};

struct rs {
    int fd; /* its number: a TCP socket that is not connected. An adopted client has its connection
             * there until that is established */
    unsigned born;
    _Atomic unsigned uses; /* rises with the table's lock held only */
    pthread_mutex_t lock;
    enum { RS_OPEN, RS_LISTENING, RS_CONNECTING, RS_CONNECTED, RS_OVER } state;
    int error;    /* for the next call, and SO_ERROR */
    int start_up; /* why it never became CONNECTED; 0 */
    bool nonblocking, closed;
    bool adopting;              /* `conn` is being made, by a thread that does not hold the lock */
    bool read_over, write_over; /* nothing more comes; nothing more may be sent */
    bool told_end;              /* "disconnect" was posted */
    bool heard_end;             /* the peer has ended in order what it sends */
    /* For programs of TCP: the first write after the peer's close is taken and lost, as if a reset
     * came back, and only then is the connection `dead`, that is hung up for poll, and writes fail
     * with EPIPE. A connection that has failed is dead as well. */
    bool as_tcp, dead;
    bool to_reset; /* closed with octets unread, as_tcp: the engine aborts it once all is sent */
    bool to_end;   /* closed with octets kept, or unsent and as_tcp: the engine ends it then */
    uint32_t free_then; /* octets that were free when the peer had taken something last */
    bool carried; /* by the preload library's threads, which alone read it (rspreload/carry.c) */
    int family;

    /* `turn` counts wake-ups: a thread sleeps, or runs the loop, until it differs. */
    _Atomic unsigned turn, sleepers, leaders;
    pthread_mutex_t wake_lock;
    struct rs_watcher *_Atomic watchers; /* they change under wake_lock */

    struct sockaddr_storage bound; /* by the program: the number loses it when a connect begins */
    socklen_t bound_len;           /* 0: not bound */
    struct iwarp_listener *listener;
    struct rs_request *requests, **last_request;

    struct iwarp_device *device;
    struct iwarp_conn *conn;
    struct iwarp_qp *qp;
    struct iwarp_cq *cq;
    struct iwarp_pd *pd;
    uint32_t sq_size, rq_size, map_size, send_len, receive_len; /* as asked for */
    uint32_t rq_open;   /* of rq_size: credits that the peer has, while it uses none */
    uint32_t posted;    /* receives, RS_MORE_RECEIVES among them */
    bool receive_fixed; /* SO_RCVBUF was */

    uint8_t *buffers; /* one mapping: the ring to send from, and behind it the halves at first */
    size_t buffers_len;

    /* Sending: a ring of `send_len` octets. */
    struct iwarp_mr *send_mr, *messages_mr, *targets_mr;
    uint8_t *send;
    uint32_t *messages; /* one for each receive that is posted */
    struct {
        struct rs_entry targets[RS_TARGETS]; /* which the peer writes */
    } *shared;                               /* and its map behind them */
    uint32_t send_at, send_free, sends_free, controls;
    uint32_t kept;           /* octets of the ring that are to be posted yet, the newest ones */
    bool owes_end;           /* the end is to be told behind these */
    bool told_kept;          /* the peer was told that something is kept; as_tcp */
    bool peer_keeps;         /* the peer has told so: a FIN is then no end in order */
    _Atomic bool keeps;      /* as rs_keeps, or told_kept: the loop looks at each completion */
    uint16_t sent, may_send; /* messages that take a credit, modulo 2^16 */
    uint16_t spare;          /* credits that stay unused, see RS_SPARE */
    struct rs_entry targets[RS_TARGETS]; /* what is left of them; those in `shared` may be half
                                          * written until a message says that they are there */
    unsigned target;                     /* the one in use */
    unsigned next_target;                /* the one that the peer fills next */
    struct rs_entry peer_targets, peer_map;
    unsigned peer_target;     /* the next one to be written */
    struct rs_map_entry *map; /* the entries of our map that the peer has told of */

    struct rs_half halves[2];   /* in turn: lent, filled, read, lent again */
    unsigned arrive;            /* the half that the next message of data is in */
    unsigned lend, free;        /* the half that is lent next; how many may be lent */
    struct rs_place read;       /* what is read next */
    uint64_t unread, counted;   /* counted: what iwarp_rs_octets has told last */
    uint16_t granted_at, taken; /* messages that took a credit: when credits went out; now */

    struct rs_mapping *mappings;

    /* The face (rspreload/face.c): two ends of a socket pair. */
    _Atomic bool watched;
    _Atomic bool look; /* something has come; the next thread that unlocks it shows it */
    int face, behind;
    bool shows_readable, shows_writable, shows_read_over, shows_over;
    uint64_t arrived, shown; /* messages, for edges */

    /* The one epoll set that watches it, or IWARP_RS_POLLED; what it is to be told:
     * rspreload/lead.c */
    _Atomic int set;
    int number; /* of the program, there */
    struct epoll_event wanted;
    bool in_kernel;        /* the kernel's set watches the face */
    uint32_t told;         /* with EPOLLET */
    uint64_t told_arrived; /* `arrived` then */

    struct rs_link due, led; /* rspreload/due.c: with its lock, as the next */
    unsigned seeing;

    struct rs *next_dead;         /* engine lock */
    bool gone;                    /* the engine frees it: nobody is to use its queue */
    bool ended;                   /* the last event has come */
    void (*on_start)(void *user); /* to be called once when the start-up is over; with `lock` while
                                   * that lasts, with events_lock afterwards */
    void *start_user;
    struct rs *next_start;
    _Atomic bool event_waits; /* the thread that unlocks it takes it */
    uint64_t dead_until_ms;
};

static inline uint32_t rs_least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

#define RS_REFUSE(error, ...) (iwarp_compat_refuse("rsocket", error, __VA_ARGS__), -1)

/* The same without a line in the log: for errors that programs expect, as ENOTCONN. */
static inline int rs_fail(int error)
{
    errno = error;
    return -1;
}

/* Of CLOCK_MONOTONIC. */
static inline int64_t rs_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* --- table.c --------------------------------------------------------------------------------- */

/* A new socket with this number, in the table; as from rs_take. NULL: errno. */
struct rs *rs_new(int fd, int family, const struct rs *like);

/* The socket of a number, with its lock held. NULL: EBADF. */
struct rs *rs_take(int fd);
bool rs_is_inside(void);         /* this thread has taken one: a handler of a signal may ask */
void rs_look(struct rs *s);      /* at what has come since it was watched last */
void rs_unlock(struct rs *s);    /* its face shows what has changed */
void rs_done(struct rs *s);      /* this thread uses it no more */
void rs_give_back(struct rs *s); /* both */

/* Out of the table: the number is nobody's. True if this call did it. The lock is held. */
bool rs_drop(struct rs *s);

bool rs_is_used(struct rs *s);
void rs_close_all(void);
void rs_watch_forks(void); /* any number of times */

/* A number of a parent, in its child: it can only be closed. */
bool rs_is_of_parent(int fd);
void rs_forget_of_parent(int fd);

/* --- wait.c ---------------------------------------------------------------------------------- */

/* Somebody may have to look again. Any lock may be held. */
void rs_wake(struct rs *s);

/*
 * Wait until ready(s), with the lock held, which is released meanwhile. until: milliseconds of
 * rs_now_ms; 0: do not wait. 0, or -1: EAGAIN, EBADF (closed meanwhile), EINTR (a handler has run,
 * or is held back and there is a time-out), ERESTART (one is held back, and there is none).
 */
int rs_wait(struct rs *s, bool (*ready)(struct rs *s), uint64_t until);

/* The same within the time that the program has chosen for all waits of a call: rs_call_until,
 * which is asked once one is needed. */
struct rs_limit {
    int option, flags;
    bool known;
    uint64_t until;
};
int rs_wait_as_asked(struct rs *s, bool (*ready)(struct rs *s), struct rs_limit *limit);

#define RS_FOR_EVER UINT64_MAX
uint64_t rs_now_ms(void);
uint64_t rs_until(int timeout_ms); /* < 0: for ever */

/* --- events.c: connection events ------------------------------------------------------------- */

/* The event queue of all sockets, made the first time. NULL: errno. */
struct iwarp_eq *rs_events_make(void);
void rs_events_in_child(void);

/* Take what there is. Any lock may be held. */
void rs_events_take(void);

/* Between these no event is taken: for the thread that frees a socket. No lock is held. */
void rs_events_forget(struct rs *s); /* it is about to be freed; while they are held */
void rs_events_hold(void);
void rs_events_release(void);

/* --- engine.c: sockets that were closed ------------------------------------------------------ */

/* The event queue of all sockets, and the thread. NULL: errno. */
struct iwarp_eq *rs_engine_eq(void);

/* Free the socket when its connection has ended, at until_ms at the latest (rs_engine_until, with
 * the lock). at_once: the connection is still to be ended, once what was written is out. */
uint64_t rs_engine_until(const struct rs *s);
void rs_engine_bury(struct rs *s, uint64_t until_ms, bool at_once);
void rs_engine_in_child(void);

/* The process exits: what was written goes out, as long as the peer takes it. */
void rs_engine_end(void);

/* --- conn.c ---------------------------------------------------------------------------------- */

/* Memory, queues. 0, or -1 with errno; rs_unprepare undoes it. */
int rs_prepare(struct rs *s);
void rs_unprepare(struct rs *s);

/* Private data. second: this end offers the second half, or takes the peer's. Returns how many
 * octets. */
size_t rs_hello(const struct rs *s, bool second, uint8_t private_data[RS_PRIVATE_MAX]);

/* The peer's private data are known. If they have a second half, ours had one. */
void rs_connected(struct rs *s, const struct rs_hello *peer);
void rs_options(struct iwarp_conn_options *options);

/* The connection has ended. error 0: in order. */
void rs_over(struct rs *s, int error);

/* An errno for a fault. */
int rs_error_of(const struct iwarp_fault *fault);

/* --- halves.c: the receive buffer ------------------------------------------------------------ */

/* `at`: zeros, rs_halves_len octets from a page's begin, which stay the caller's. */
size_t rs_halves_len(const struct rs *s);
enum iwarp_status rs_halves_make(struct rs *s, uint8_t *at);
void rs_halves_release(struct rs *s);
void rs_halves_begin(struct rs *s);

/* What the peer is told of a half. */
struct rs_entry rs_halves_entry(const struct rs *s, unsigned which);

/* s->free > 0: before the next half is lent, and when it was. */
void rs_halves_grow(struct rs *s);
void rs_halves_lent(struct rs *s);

/* The peer has written so many octets. False: more than was lent. */
bool rs_halves_filled(struct rs *s, uint32_t octets);

/* The program has read so many octets. */
void rs_halves_took(struct rs *s, uint32_t octets);

/* The place moves on by octets of its half. True: it was the rest of that half. */
bool rs_halves_pass(const struct rs *s, struct rs_place *place, uint32_t octets);

/* --- move.c: completions, credits, messages -------------------------------------------------- */

void rs_progress(struct rs *s);
void rs_has_read(struct rs *s);     /* credits that are owed go back, after a look at the queue */
int rs_open_receives(struct rs *s); /* the first ones */

/* Is there something to read? Also true when an error or the end is what the caller will learn. */
bool rs_may_read(struct rs *s);

/* What poll would say. */
short rs_events(struct rs *s);

/* Tell of an error once: errno is set. False: there is none. */
bool rs_take_error(struct rs *s);

/* This thread posts to it, with its lock held; else NULL. */
extern _Thread_local const struct rs *rs_posting;

/* This thread is one of the preload library's that read a socket which is `carried`; others are not
 * to read it. The lock is held. */
extern _Thread_local bool rs_carries;
static inline bool rs_is_others(const struct rs *s)
{
    return s->carried && !rs_carries;
}

/* Post a Write of `len` octets, if there are any, and the message behind it. */
int rs_post(struct rs *s, uint64_t wr_id, const void *from, uint32_t len, const struct rs_entry *to,
            bool is_inline, uint32_t message);
bool rs_tell_control(struct rs *s, enum rs_control control);
bool rs_may_control(const struct rs *s); /* what can wait; else the next completion makes room */

/* wr_id of requests: kind in the lowest bits, above it octets of the send buffer, or the number of
 * a receive. */
enum { RS_OF_RECEIVE, RS_OF_DATA, RS_OF_CONTROL, RS_OF_MASK = 7 };

static inline uint64_t rs_wr_id(unsigned kind, uint64_t value)
{
    return value << 3 | kind;
}

/* --- send.c ---------------------------------------------------------------------------------- */

/* May one octet be written? May riowrite write? Would poll show it writable? Each is also true when
 * an error or the end is what the caller will learn. */
bool rs_may_send(struct rs *s);
bool rs_may_write(struct rs *s);
bool rs_is_writable(const struct rs *s);

/* How many messages that take a credit may be sent yet. Has the peer room for one of data? */
uint16_t rs_credits(const struct rs *s);
bool rs_may_post(const struct rs *s);

/* Where the next octets go, and how many; and that they are used. */
uint8_t *rs_room(struct rs *s, uint32_t *octets);
void rs_take_room(struct rs *s, uint32_t octets);

/* Post what is kept, as far as the peer has room. */
void rs_send_kept(struct rs *s);

/* Nothing more is written: the peer is told behind what is kept, and also that nothing is read any
 * more if that is so by then. */
void rs_tell_end(struct rs *s);

/* Is there something that goes out later? rs_drop_kept: nobody will read it. */
bool rs_keeps(const struct rs *s);
void rs_drop_kept(struct rs *s);
void rs_note_kept(struct rs *s); /* that may have changed */
void rs_send_in_child(void);

/* Does some socket of the process keep something? Wait until none does, or the time is over. */
bool rs_some_keep(void);
void rs_await_kept(void);

/* --- iomap.c --------------------------------------------------------------------------------- */

/* Tell the peer of mappings that it does not know, as far as credits allow. */
void rs_tell_mappings(struct rs *s);
void rs_hear_mapping(struct rs *s, uint32_t index);
void rs_free_mappings(struct rs *s);
size_t rs_shared_len(const struct rs *s);

/* --- options.c ------------------------------------------------------------------------------- */

/* Until when a call may wait: SO_RCVTIMEO or SO_SNDTIMEO, and whether it blocks at all. */
uint64_t rs_call_until(struct rs *s, int option, int flags);

/* As getsockopt, for what rsockets have no option of their own for. The lock is held. */
int rs_get_option(struct rs *s, int level, int name, void *value, socklen_t *len);

/* --- rspreload: sockets that are watched ------------------------------------------------------ */

/* Its state may have changed: the leader is told, or the face follows. */
void rs_show(struct rs *s);
void rs_watched(struct rs *s); /* it has a device, and a face */
void rs_hide(struct rs *s);    /* no face any more */

/* A completion of it has come. Called with locks of the library held. */
void rs_due(struct rs *s);
void rs_forget_due(struct rs *s);
bool rs_is_preloaded(void); /* the preload library is there, and ends all at the end */

/* Handlers of signals that are held back: from this thread? Has one come, or pthread_cancel? Until
 * NULL is given, these end *turn. */
bool rs_signals_are_held(void);
bool rs_signal_came(void);
bool rs_cancel_came(void);
void rs_signals_sleep_on(_Atomic unsigned *turn);
void rs_due_in_child(void);

/* A thread leads for that set from now on (rspreload/lead.c); RS_NO_SET: none does. */
void rs_lead_for(int set);

/* --- life.c ---------------------------------------------------------------------------------- */

/* rclose; keep_number: but the number stays open. The lock is held, and given back. */
void rs_end(struct rs *s, bool keep_number);

bool rs_is_settled(struct rs *s); /* not CONNECTING */

/* --- renew.c --------------------------------------------------------------------------------- */

/* A fresh TCP socket with the same options and flags takes the place of its number. 0 or -1. The
 * lock is held. */
int rs_renew(struct rs *s);
void rs_copy_options(struct rs *from, int to); /* the lock is held */

/* Has the program set that length of a TCP socket's buffer? The lock is held. `lock`: of
 * SO_BUF_LOCK, SOCK_SNDBUF_LOCK or SOCK_RCVBUF_LOCK of linux/socket.h. */
#define RS_SEND_LENGTH_SET    1
#define RS_RECEIVE_LENGTH_SET 2
bool rs_has_set_length(struct rs *s, int lock);

/* rspreload/stand_in.c: its number is that of no connection any more. False: it still is. */
bool rs_stand_in(struct rs *s);
void rs_stand_in_child(void);

#endif
