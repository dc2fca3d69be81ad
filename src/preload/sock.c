/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/sock.h"
#include "preload/sets.h"
#include "rspreload/adopt.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

/* Written with the lock held; read without it to see that a number is none of ours. */
static _Atomic(struct sock *) table[SOCK_NUMBERS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sock *all;
static struct sock *arrived; /* those that have been in the state ARRIVED, some still are */
static uint64_t last_serial;
static _Atomic int beyond; /* all numbers so far are below it; written with the lock held */
static pid_t owner;

static bool in_table(int number)
{
    return number >= 0 && number < SOCK_NUMBERS;
}

static struct sock *at(int number)
{
    return in_table(number) ? atomic_load_explicit(&table[number], memory_order_acquire) : NULL;
}

bool sock_is_known(int number)
{
    return at(number) != NULL;
}

int sock_beyond(void)
{
    return atomic_load(&beyond);
}

/* --- references ------------------------------------------------------------------------------ */

struct sock *sock_get(int number)
{
    if (!at(number)) {
        return NULL;
    }
    signals_hold();
    sock_stop_at_end();
    pthread_mutex_lock(&lock);
    struct sock *s = at(number);
    if (s) {
        s->refs++;
    }
    pthread_mutex_unlock(&lock);
    if (!s) {
        signals_release();
    }
    return s;
}

#define STOP_MS 1000 /* after the end of all sockets: the process has ended long before */

static _Atomic int64_t stops_until; /* 0: the process does not end */
static pthread_t ender;

void sock_begin_end(void)
{
    ender = pthread_self();
    atomic_store(&stops_until, INT64_MAX);
}

void sock_end_end(void)
{
    atomic_store(&stops_until, sock_now_ms() + STOP_MS);
}

void sock_stop_at_end(void)
{
    if (atomic_load_explicit(&stops_until, memory_order_acquire) == 0) {
        return;
    }
    UNCANCELLED;
    const int error = errno;
    while (!pthread_equal(pthread_self(), ender) && sock_mine() &&
           sock_now_ms() < atomic_load(&stops_until)) {
        sock_rest();
    }
    errno = error;
}

void sock_ref(struct sock *s)
{
    pthread_mutex_lock(&lock);
    s->refs++;
    pthread_mutex_unlock(&lock);
}

/* The lock is held. */
static void leave_arrived(struct sock *s)
{
    if (s->arrived_at) {
        *s->arrived_at = s->arrived;
        if (s->arrived) {
            s->arrived->arrived_at = s->arrived_at;
        }
        s->arrived_at = NULL;
    }
}

/* The lock is held. */
static void join_arrived(struct sock *s)
{
    s->arrived = arrived;
    s->arrived_at = &arrived;
    if (arrived) {
        arrived->arrived_at = &s->arrived;
    }
    arrived = s;
}

/* The lock is held. */
static bool unref(struct sock *s)
{
    if (--s->refs > 0) {
        return false;
    }
    if (s->next) {
        s->next->before = s->before;
    }
    *(s->before ? &s->before->next : &all) = s->next;
    leave_arrived(s);
    return true;
}

static void sock_free(struct sock *s)
{
    UNCANCELLED;
    const int error = errno;

    if (s->left >= 0) {
        real()->close(s->left);
    }
    errno = error;
    pthread_mutex_destroy(&s->start);
    pthread_cond_destroy(&s->settled);
    pthread_mutex_destroy(&s->sets);
    free(s);
}

/* The last reference is given back with the lock held: `members` finds sockets without one. */
static bool unref_another(struct sock *s)
{
    unsigned refs = atomic_load(&s->refs);

    while (refs > 1 && !atomic_compare_exchange_weak(&s->refs, &refs, refs - 1)) {
    }
    return refs > 1;
}

void sock_unref(struct sock *s)
{
    if (unref_another(s)) {
        return;
    }
    pthread_mutex_lock(&lock);
    const bool last = unref(s);
    pthread_mutex_unlock(&lock);
    if (last) {
        sock_free(s);
    }
}

void sock_put(struct sock *s)
{
    if (s) {
        sock_unref(s);
        sock_stop_at_end();
        signals_release();
    }
}

struct sock *sock_new(int number, enum sock_state state)
{
    SIGNALS_HELD;
    struct sock *s = in_table(number) ? calloc(1, sizeof *s) : NULL;

    if (!s) {
        return NULL;
    }
    const int flags = real()->fcntl(number, F_GETFL);
    s->state = state;
    s->nonblock = flags >= 0 && (flags & O_NONBLOCK);
    s->rs = s->left = s->front = s->pair = s->owner = -1;
    pthread_mutex_init(&s->start, NULL);
    pthread_cond_init(&s->settled, NULL);
    pthread_mutex_init(&s->sets, NULL);
    pthread_mutex_lock(&lock);
    s->serial = ++last_serial;
    s->next = all;
    if (all) {
        all->before = s;
    }
    all = s;
    if (state == SOCK_ARRIVED) {
        join_arrived(s);
    }
    pthread_mutex_unlock(&lock);
    s->refs = 1;
    /* A socket of that number may have been closed where this library did not see it. */
    (void)sock_remove(number);
    (void)sock_add(s, number);
    sock_unref(s);
    return s;
}

/* --- numbers --------------------------------------------------------------------------------- */

bool sock_add(struct sock *s, int number)
{
    SIGNALS_HELD;

    if (!in_table(number)) {
        return false;
    }
    pthread_mutex_lock(&lock);
    s->refs++;
    s->numbers++;
    if (number >= atomic_load(&beyond)) {
        atomic_store(&beyond, number + 1);
    }
    atomic_store_explicit(&table[number], s, memory_order_release);
    pthread_mutex_unlock(&lock);
    return true;
}

/* The lock is held. */
static void forget_watches(struct sock *s, int number)
{
    struct sock_watch **at_watch = &s->watches;

    while (*at_watch) {
        struct sock_watch *w = *at_watch;
        if (w->number == number || number < 0) {
            *at_watch = w->next;
            free(w);
        } else {
            at_watch = &w->next;
        }
    }
}

/*
 * The kernel drops a number from epoll sets only with the last descriptor of its file, and here
 * another one of this library's may be open. So it is taken out by name.
 */
static void leave_sets(struct sock *s, int number)
{
    for (const struct sock_watch *w = s->watches; w; w = w->next) {
        if (w->number == number) {
            (void)real()->epoll_ctl(w->epoll, EPOLL_CTL_DEL, number, NULL);
        }
    }
}

bool sock_remove(int number)
{
    SIGNALS_HELD;
    bool none_left = false, last = false;

    if (!at(number)) {
        return false;
    }
    pthread_mutex_lock(&lock);
    struct sock *s = at(number);
    if (s) {
        if (s->numbers == 1) {
            leave_sets(s, number);
        }
        forget_watches(s, number);
        atomic_store_explicit(&table[number], NULL, memory_order_release);
        none_left = --s->numbers == 0;
        last = unref(s);
    }
    pthread_mutex_unlock(&lock);
    if (last) {
        sock_free(s);
    }
    return none_left;
}

void sock_plain(struct sock *s)
{
    s->state = SOCK_PLAIN;
    pthread_mutex_lock(&lock);
    for (int n = 0; s->numbers > 0 && n < SOCK_NUMBERS; n++) {
        if (at(n) == s) {
            atomic_store_explicit(&table[n], NULL, memory_order_release);
            s->numbers--;
            s->refs--; /* the caller has one */
        }
    }
    forget_watches(s, -1);
    pthread_mutex_unlock(&lock);
}

/* --- faces ----------------------------------------------------------------------------------- */

/* A thread that waits for one that is not settled runs the loop, too: the Reply comes there. */
static enum set_kind kind_of(const struct sock *s)
{
    return s->state == SOCK_RDMA || sock_is_unsettled(s) ? SET_HAS_RSOCKETS : SET_HAS_SOCKETS;
}

static int swap_one(struct sock *s, int number, int face)
{
    const int flags = real()->fcntl(number, F_GETFD);
    int result = 0;

    for (struct sock_watch *w = s->watches; w; w = w->next) {
        if (w->number == number) {
            (void)real()->epoll_ctl(w->epoll, EPOLL_CTL_DEL, number, NULL);
        }
    }
    if (real()->dup3(face, number, flags > 0 && (flags & FD_CLOEXEC) ? O_CLOEXEC : 0) < 0) {
        result = -1;
    }
    for (struct sock_watch *w = s->watches; w; w = w->next) {
        if (w->number == number) {
            (void)real()->epoll_ctl(w->epoll, EPOLL_CTL_ADD, number, &w->event);
            set_has(w->epoll, kind_of(s));
        }
    }
    return result;
}

int sock_swap(struct sock *s, int face)
{
    int result = 0;

    pthread_mutex_lock(&lock);
    unsigned left = s->numbers;
    for (int n = 0; left > 0 && n < SOCK_NUMBERS; n++) {
        if (at(n) == s) {
            left--;
            if (swap_one(s, n, face) != 0) {
                result = -1;
            }
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int sock_face(struct sock *s)
{
    int face = -1;

    pthread_mutex_lock(&lock);
    for (int n = 0; s->numbers > 0 && face < 0 && n < SOCK_NUMBERS; n++) {
        if (at(n) == s) {
            face = real()->fcntl(n, F_DUPFD_CLOEXEC, 3);
        }
    }
    pthread_mutex_unlock(&lock);
    return face;
}

void sock_close_pair(struct sock *s)
{
    if (s->front >= 0) {
        real()->close(s->front);
    }
    if (s->pair >= 0) {
        real()->close(s->pair);
    }
    s->front = s->pair = -1;
}

unsigned sock_numbers(struct sock *s)
{
    pthread_mutex_lock(&lock);
    const unsigned numbers = s->numbers;
    pthread_mutex_unlock(&lock);
    return numbers;
}

bool sock_is_in_sets(struct sock *s)
{
    pthread_mutex_lock(&lock);
    const bool is = s->watches != NULL;
    pthread_mutex_unlock(&lock);
    return is;
}

void sock_forget_watches(struct sock *s)
{
    forget_watches(s, -1);
}

static struct sock_watch **find_watch(struct sock *s, int epoll, int number)
{
    struct sock_watch **w = &s->watches;

    while (*w && ((*w)->epoll != epoll || (*w)->number != number)) {
        w = &(*w)->next;
    }
    return w;
}

/* The rsocket of s, if it has a face to be watched. The lock is held. */
static int watched_rs(const struct sock *s)
{
    return s->state == SOCK_RDMA && s->watched ? s->rs : -1;
}

static bool is_plain(int epoll, uint32_t events)
{
    return !set_is_shared(epoll) && !(events & (EPOLLONESHOT | EPOLLEXCLUSIVE));
}

/*
 * What a thread that leads may look at itself: one set watches it, by its only number, in a way
 * that is known. The lock is held.
 */
static bool is_simple(const struct sock *s)
{
    const struct sock_watch *w = s->watches;

    return s->numbers == 1 && w && !w->next && is_plain(w->epoll, w->event.events) && !s->scattered;
}

/* Was it so, or was it watched by none, and is it so after the call? The lock is held. */
static bool stays_simple(struct sock *s, int epoll, int number, uint32_t events)
{
    const bool was = s->watches ? is_simple(s) && *find_watch(s, epoll, number)
                                : s->numbers == 1 && !s->scattered;

    return was && is_plain(epoll, events);
}

/* -1: errno. The lock is held. */
static int change_watches(struct sock *s, int epoll, int op, int number,
                          const struct epoll_event *event)
{
    struct sock_watch **w = find_watch(s, epoll, number);

    if (op == EPOLL_CTL_ADD && !*w) {
        *w = calloc(1, sizeof **w);
        if (!*w) {
            errno = ENOMEM;
            return -1;
        }
        **w = (struct sock_watch){.epoll = epoll, .number = number};
    }
    if (*w && op == EPOLL_CTL_DEL) {
        struct sock_watch *gone = *w;
        *w = gone->next;
        free(gone);
    } else if (*w) {
        (*w)->event = *event;
    }
    return 0;
}

/* The rsocket is told how the kernel watches its face. `sets` is held. */
static void tell_watches(struct sock *s)
{
    pthread_mutex_lock(&lock);
    const int rs = watched_rs(s);
    const bool simple = is_simple(s), any = s->watches || s->scattered;
    const struct sock_watch w = simple ? *s->watches : (struct sock_watch){0};
    for (const struct sock_watch *one = s->watches; one && rs >= 0; one = one->next) {
        set_has(one->epoll, SET_HAS_RSOCKETS);
    }
    pthread_mutex_unlock(&lock);
    if (rs >= 0 && simple) {
        iwarp_rs_watched(rs, w.epoll, w.number, &w.event);
    } else if (rs >= 0 && any) {
        iwarp_rs_to_kernel(rs);
    } else if (rs >= 0) {
        iwarp_rs_unwatched(rs);
    }
}

/*
 * A thread that leads looks at simple sockets itself (rspreload/lead.c), and rspreload asks the
 * kernel if need be; the others are the kernel's. The rsocket is told without the table's lock.
 */
int sock_watch(struct sock *s, int epoll, int op, int number, struct epoll_event *event)
{
    pthread_mutex_lock(&s->sets);
    pthread_mutex_lock(&lock);
    const int rs = watched_rs(s);
    const bool simple = stays_simple(s, epoll, number, op == EPOLL_CTL_DEL ? 0 : event->events);
    pthread_mutex_unlock(&lock);
    if (rs >= 0 && !simple) {
        iwarp_rs_to_kernel(rs);
    }
    int result = rs >= 0 && simple ? iwarp_rs_ctl(rs, op, epoll, number, event) : 0;
    pthread_mutex_lock(&lock); /* a face that changes meanwhile is in no set for a moment */
    if (rs < 0 || !simple) {
        result = real()->epoll_ctl(epoll, op, number, event);
    }
    if (result == 0) {
        result = change_watches(s, epoll, op, number, event);
        set_has(epoll, kind_of(s));
    }
    pthread_mutex_unlock(&lock);
    if (rs >= 0 && !simple) {
        tell_watches(s);
    }
    pthread_mutex_unlock(&s->sets);
    return result;
}

void sock_tell_watches(struct sock *s)
{
    pthread_mutex_lock(&s->sets);
    tell_watches(s);
    pthread_mutex_unlock(&s->sets);
}

void sock_becomes(struct sock *s, enum sock_state state, bool watched)
{
    pthread_mutex_lock(&s->sets);
    s->watched = watched;
    s->state = state;
    tell_watches(s);
    pthread_mutex_unlock(&s->sets);
}

/* If the number is the last one, nobody is to watch it by that any more. */
void sock_closing(struct sock *s)
{
    pthread_mutex_lock(&lock);
    const int rs = s->numbers == 1 ? watched_rs(s) : -1;
    pthread_mutex_unlock(&lock);
    if (rs >= 0) {
        iwarp_rs_unwatched(rs);
    }
}

/* --- sets ------------------------------------------------------------------------------------ */

static struct sock_watch *watch_of(const struct sock *s, int set)
{
    struct sock_watch *w = s->watches;

    while (w && w->epoll != set) {
        w = w->next;
    }
    return w;
}

#define AT_A_TIME 64

/* Some members of a set that are older than a serial number, each with a reference; `all` has the
 * newest first. */
static size_t members(int set, uint64_t serial, struct sock *some[AT_A_TIME])
{
    size_t n = 0;

    pthread_mutex_lock(&lock);
    for (struct sock *s = all; s && n < AT_A_TIME; s = s->next) {
        if (s->serial < serial && watch_of(s, set)) {
            s->refs++;
            some[n++] = s;
        }
    }
    pthread_mutex_unlock(&lock);
    return n;
}

/* `sets` of the member is held. */
static void each_member(int set, void (*call)(struct sock *s, int set))
{
    struct sock *some[AT_A_TIME];
    uint64_t serial = UINT64_MAX;
    size_t n;

    do {
        n = members(set, serial, some);
        for (size_t i = 0; i < n; i++) {
            pthread_mutex_lock(&some[i]->sets);
            call(some[i], set);
            pthread_mutex_unlock(&some[i]->sets);
            serial = some[i]->serial;
            sock_unref(some[i]);
        }
    } while (n == AT_A_TIME);
}

static void forget_set(struct sock *s, int set)
{
    struct sock_watch *w;

    pthread_mutex_lock(&lock);
    while ((w = watch_of(s, set))) {
        (void)change_watches(s, set, EPOLL_CTL_DEL, w->number, NULL);
    }
    pthread_mutex_unlock(&lock);
    tell_watches(s);
}

/* The set may live on under another number, where nobody sees what becomes of it. */
static void forget_shared(struct sock *s, int set)
{
    pthread_mutex_lock(&lock);
    s->scattered = true;
    pthread_mutex_unlock(&lock);
    forget_set(s, set);
}

/* It is told that its set is the kernel's. */
static void share(struct sock *s, int set)
{
    (void)set;
    tell_watches(s);
}

void sock_set_closed(int number)
{
    SIGNALS_HELD;
    bool shared;
    const enum set_kind kind = set_forget(number, &shared);

    if (kind != SET_NONE) {
        iwarp_rs_set_closed(number);
    }
    if (kind >= SET_HAS_SOCKETS) {
        each_member(number, shared ? forget_shared : forget_set);
    }
}

void sock_set_shared(int number)
{
    SIGNALS_HELD;

    if (set_kind(number) != SET_NONE && !set_is_shared(number)) {
        set_mark_shared(number);
        each_member(number, share);
    }
}

/* --- others ---------------------------------------------------------------------------------- */

void sock_each(void (*call)(struct sock *s, void *arg), void *arg)
{
    SIGNALS_HELD;

    pthread_mutex_lock(&lock);
    for (struct sock *s = all; s; s = s->next) {
        call(s, arg);
    }
    pthread_mutex_unlock(&lock);
}

void sock_each_arrived(void (*call)(struct sock *s, void *arg), void *arg)
{
    SIGNALS_HELD;
    struct sock *next;

    pthread_mutex_lock(&lock);
    for (struct sock *s = arrived; s; s = next) {
        next = s->arrived;
        if (s->state == SOCK_ARRIVED) {
            call(s, arg);
        } else {
            leave_arrived(s);
        }
    }
    pthread_mutex_unlock(&lock);
}

/* The first number of the library's, since programs of select know numbers below 1,024 only, and
 * others have tables by number; and the first beyond: the library has half of them at most. */
static rlim_t numbers_from(rlim_t *end)
{
    struct rlimit limit = {.rlim_cur = 1024};

    (void)getrlimit(RLIMIT_NOFILE, &limit);
    const rlim_t half = limit.rlim_cur / 2, from = limit.rlim_cur > 4096 ? 2048 : half;
    *end = from + half;
    return from;
}

int sock_high(int fd)
{
    rlim_t end;
    const int high = real()->fcntl(fd, F_DUPFD_CLOEXEC, (int)numbers_from(&end));

    return high >= 0 ? high : real()->fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

int sock_option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof value;

    return real()->getsockopt(fd, level, name, &value, &len) == 0 ? value : -1;
}

bool sock_has_numbers(int fd, unsigned n)
{
    rlim_t end;
    const rlim_t from = numbers_from(&end);
    const int high = real()->fcntl(fd, F_DUPFD_CLOEXEC, (int)from);
    const int lowest = real()->fcntl(fd, F_DUPFD_CLOEXEC, 0);

    if (high >= 0) {
        real()->close(high);
    }
    if (lowest >= 0) {
        real()->close(lowest);
    }
    return high >= 0 && (rlim_t)high + n <= end && lowest >= 0 && (rlim_t)lowest < end - from;
}

bool sock_mine(void)
{
    if (owner == 0) { /* the constructors of other libraries run */
        owner = getpid();
    }
    return owner == getpid();
}

void sock_hold(void)
{
    pthread_mutex_lock(&lock);
}

void sock_release(void)
{
    pthread_mutex_unlock(&lock);
}

/*
 * With sock_high's numbers the kernel's table of descriptors grows. Once a process has a second
 * thread, that waits for RCU, some 10 ms, and the first connection would wait with it. So it grows
 * before, by whichever standard descriptor is open: a child may be allowed few system calls. It is
 * not that of a regular file, since to close another number of it ends the program's locks on it.
 */
static void grow_table(void)
{
    const int error = errno;
    struct stat s;
    int high = -1;

    for (int fd = 0; fd < 3 && high < 0; fd++) {
        high = fstat(fd, &s) == 0 && !S_ISREG(s.st_mode) ? sock_high(fd) : -1;
    }
    if (high >= 0) {
        real()->close(high);
    }
    errno = error;
}

void sock_begin_process(void)
{
    owner = getpid();
    atomic_store(&stops_until, 0);
    grow_table();
}

int64_t sock_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

int64_t sock_now_ms(void)
{
    return sock_now_ns() / 1000000;
}

void sock_rest(void)
{
    const struct timespec t = {.tv_nsec = 2000000};

    nanosleep(&t, NULL);
}

void sock_await_none(const atomic_uint *count, int64_t ms)
{
    UNCANCELLED;

    for (const int64_t until = sock_now_ms() + ms;
         atomic_load(count) > 0 && sock_now_ms() < until;) {
        sock_rest();
    }
}
