/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets from socket() or accept() to close(). */
#include "compat/compat.h"
#include "preload/early.h"
#include "preload/fork.h"
#include "preload/passing.h"
#include "preload/peers.h"
#include "preload/start.h"
#include "rspreload/adopt.h"

#include <errno.h>
#include <link.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- whose socket is it? --------------------------------------------------------------------- */

/* Where the code of this library lies, and of those below: what they open is not the program's. */
static struct {
    uintptr_t from, to;
} below[4];
static unsigned below_count;

static int note_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    const char *name = strrchr(info->dlpi_name, '/');

    (void)size;
    (void)arg;
    name = name ? name + 1 : info->dlpi_name;
    if (strncmp(name, "libibverbs.so", 13) != 0 && strncmp(name, "librdmacm.so", 12) != 0 &&
        strncmp(name, "librspreload.so", 15) != 0) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum && below_count < 4; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X)) {
            below[below_count].from = info->dlpi_addr + part->p_vaddr;
            below[below_count++].to = info->dlpi_addr + part->p_vaddr + part->p_memsz;
        }
    }
    return 0;
}

static bool from_below(const void *caller)
{
    const uintptr_t at = (uintptr_t)caller;

    for (unsigned i = 0; i < below_count; i++) {
        if (at >= below[i].from && at < below[i].to) {
            return true;
        }
    }
    return false;
}

/*
 * Lines of the library's log go past this library. They are dropped while standard error is a
 * connection, as that of a program which inetd has started: its peer would take them for data, and
 * the thread that logs may have that very socket.
 */
static void put_log(const char *line, size_t octets)
{
    if (!sock_is_known(STDERR_FILENO) &&
        sock_option(STDERR_FILENO, SOL_SOCKET, SO_PROTOCOL) != IPPROTO_TCP) {
        while (real()->write(STDERR_FILENO, line, octets) < 0 && errno == EINTR) {
        }
    }
}

static void end_all(void);

/* A constructor of another library may make a socket before those of this one run. */
__attribute__((constructor)) static void begin(void)
{
    static atomic_bool begun;

    if (atomic_exchange(&begun, true)) {
        return;
    }
    iwarp_compat_log_by(put_log);
    (void)dl_iterate_phdr(note_library, NULL);
    sock_begin_process();
    fork_watch();
    iwarp_rs_lead_with(real()->epoll_ctl);
    (void)at_quick_exit(end_all);
    signals_begin(); /* last: see there */
    passing_inherited();
}

/* --- the beginning --------------------------------------------------------------------------- */

int sock_make(int domain, int type, int protocol)
{
    begin();
    const int fd = real()->socket(domain, type, protocol);

    if (fd >= 0 && (domain == AF_INET || domain == AF_INET6) &&
        (type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) == SOCK_STREAM &&
        (protocol == 0 || protocol == IPPROTO_TCP)) {
        (void)sock_new(fd, SOCK_TCP);
    } else if (fd >= 0) {
        (void)sock_remove(fd); /* closed where this library did not see it */
    }
    return fd;
}

EXPORT int socket(int domain, int type, int protocol)
{
    if (!from_below(__builtin_return_address(0))) {
        return sock_make(domain, type, protocol);
    }
    const int fd = real()->socket(domain, type, protocol);
    if (fd >= 0) {
        (void)sock_remove(fd);
    }
    return fd;
}

/* The face of a connection is a socket that could be bound, and listen. */
static bool has_connection(const struct sock *s)
{
    const enum sock_state state = s ? s->state : SOCK_TCP;

    return state != SOCK_TCP && state != SOCK_LISTENER && state != SOCK_ARRIVED;
}

static int refuse(struct sock *s, int error)
{
    sock_put(s);
    errno = error;
    return -1;
}

EXPORT int bind(int fd, const struct sockaddr *name, socklen_t len)
{
    struct sock *s = sock_get(fd);

    if (has_connection(s)) {
        return refuse(s, EINVAL);
    }
    const int result = real()->bind(fd, name, len);
    if (s && result == 0 && len <= sizeof s->bound) {
        memcpy(&s->bound, name, len);
        s->bound_len = len;
    }
    sock_put(s);
    return result;
}

/* A thread may connect to what it listens to, and accept after that. */
static void note_port(int fd)
{
    struct sockaddr_in6 name; /* the port is where that of IPv4 has it */
    socklen_t len = sizeof name;

    if (real()->getsockname(fd, (struct sockaddr *)&name, &len) == 0) {
        peers_note_own(name.sin6_port);
    }
}

static void set_state(struct sock *s, enum sock_state state)
{
    pthread_mutex_lock(&s->start);
    s->state = state;
    pthread_mutex_unlock(&s->start);
}

/*
 * The kernel keeps a connection back until its first octets are there, for the time that a program
 * chose itself if it did. So nothing here waits for silent clients.
 */
EXPORT int listen(int fd, int backlog)
{
    struct sock *s = sock_get(fd);
    const int quiet = (int)start_quiet_s();

    if (has_connection(s)) {
        return refuse(s, EINVAL);
    }
    const bool becomes = s && s->state == SOCK_TCP && quiet > 0;
    const bool defers = becomes && sock_option(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT) == 0;
    if (becomes) {
        if (defers) {
            (void)real()->setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &quiet, sizeof quiet);
        }
        set_state(s, SOCK_LISTENER); /* before the first connection comes */
    }
    const int result = real()->listen(fd, backlog);
    if (becomes && result != 0) {
        const int error = errno, none = 0;
        set_state(s, SOCK_TCP);
        if (defers) {
            (void)real()->setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &none, sizeof none);
        }
        errno = error;
    }
    if (s && s->state == SOCK_LISTENER && result == 0) {
        note_port(fd);
    }
    sock_put(s);
    return result;
}

#define GIVEN_UP 16 /* most of them in one call, whatever peers do */

/*
 * Without those that a client of ours has ended while it waited for a Reply, if there is another
 * one: a server that takes one connection only would have taken the wrong one. There was no octet
 * of the program's in it.
 */
static int accept_live(int fd, struct sockaddr *peer, socklen_t *len, int flags)
{
    const socklen_t room = len ? *len : 0;
    struct pollfd more = {.fd = fd, .events = POLLIN};
    int new_one = real()->accept4(fd, peer, len, flags);

    for (int i = 0;
         i < GIVEN_UP && new_one >= 0 && start_given_up(new_one) && real()->poll(&more, 1, 0) > 0;
         i++) {
        real()->close(new_one);
        if (len) {
            *len = room;
        }
        new_one = real()->accept4(fd, peer, len, flags);
    }
    return new_one;
}

EXPORT int accept4(int fd, struct sockaddr *restrict peer, socklen_t *restrict len, int flags)
{
    struct sock *s = sock_get(fd);
    const bool listens = s && s->state == SOCK_LISTENER;

    sock_put(s);
    const int new_one =
        listens ? accept_live(fd, peer, len, flags) : real()->accept4(fd, peer, len, flags);
    if (listens && new_one >= 0) {
        start_arrived(new_one);
    }
    return new_one;
}

EXPORT int accept(int fd, struct sockaddr *restrict peer, socklen_t *restrict len)
{
    return accept4(fd, peer, len, 0);
}

EXPORT int connect(int fd, const struct sockaddr *to, socklen_t len)
{
    struct sock *s = sock_get(fd);
    const bool may = !s || start_may_connect(s);

    sock_put(s);
    if (!may) {
        return -1;
    }
    int result = real()->connect(fd, to, len);
    if (s && (s = sock_get(fd))) {
        bool again;
        result = start_connected(s, fd, to, len, result, &again);
        sock_put(s);
        result = again && result == 0 ? real()->connect(fd, to, len) : result;
    }
    return result;
}

/* --- the end --------------------------------------------------------------------------------- */

EXPORT int close(int fd)
{
    struct sock *s = sock_get(fd);

    if (!s || !sock_mine()) {
        sock_put(s);
        if (!s && sock_mine()) {
            sock_set_closed(fd);
        }
        return real()->close(fd);
    }
    UNCANCELLED;
    const bool last = start_drop_number(s, fd);
    const int result = real()->close(fd);
    start_dropped(s, last);
    sock_put(s);
    return result;
}

EXPORT int close_range(unsigned from, unsigned to, int flags)
{
    for (unsigned fd = from; sock_mine() && flags == 0 && fd <= to && fd < SOCK_NUMBERS; fd++) {
        struct sock *s = sock_get((int)fd);
        if (s) {
            sock_put(s);
            (void)close((int)fd);
        } else {
            sock_set_closed((int)fd);
        }
    }
    return real()->close_range(from, to, flags);
}

EXPORT void closefrom(int from)
{
    (void)close_range(from < 0 ? 0 : (unsigned)from, ~0U, 0);
}

/* --- the end of the process ------------------------------------------------------------------ */

/*
 * What was written goes out, as it would from the kernel. No handler runs in this thread any more:
 * it would find its sockets gone, or leave the end. A thread that is inside already is in a
 * handler of a fault, or has left one by a jump: it may hold any lock, so the kernel closes all
 * sockets, and what is unsent is lost.
 */
static void end_all(void)
{
    static atomic_bool begun, over;

    if (!sock_mine() || signals_are_held()) { /* a child of vfork has the parent's memory */
        return;
    }
    signals_hold();
    if (atomic_exchange(&begun, true)) { /* another thread ends the process, too */
        while (!atomic_load(&over)) {
            sock_rest();
        }
        return;
    }
    early_wait();
    sock_begin_end();
    for (int fd = 0; fd < sock_beyond(); fd++) { /* the rest of the table was never touched */
        struct sock *s = sock_get(fd);
        if (s && s->state == SOCK_RDMA) {
            /* The number stays: a thread may be about to use it, and another to make one. */
            (void)iwarp_rs_forget(s->rs);
            s->state = SOCK_GONE;
        } else if (s && s->state == SOCK_PIPE && !s->elsewhere) {
            relay_end(s);
        }
        sock_put(s);
    }
    relay_wait();
    iwarp_rs_end();
    sock_end_end();
    atomic_store(&over, true);
}

/* After those without a number, in stdio.c. */
__attribute__((destructor(1000))) static void finish(void)
{
    end_all();
}

EXPORT _Noreturn void _exit(int status)
{
    end_all();
    real()->_exit(status);
    __builtin_unreachable();
}

EXPORT _Noreturn void _Exit(int status)
{
    _exit(status);
}
