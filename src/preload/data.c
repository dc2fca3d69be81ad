/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that move data. All reading is rrecvmsg, all writing rsendmsg, so there is one place for
 * each rule. */
#include "preload/block.h"
#include "preload/cancel.h"
#include "preload/early.h"
#include "preload/passing.h"
#include "preload/start.h"

#include <errno.h>
#include <limits.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define READ_OCTETS 65536

/* Is this call the kernel's? Then `call` is made with the number as it is. */
#define OURS_OR(s, call)                                                                           \
    if (!(s)) {                                                                                    \
        return call;                                                                               \
    }

/* Calls on data can be cancelled while nothing is held. */
static struct sock *get(int fd)
{
    if (sock_is_known(fd)) {
        cancel_known();
    }
    cancel_test();
    return sock_get(fd);
}

static bool may_wait(const struct sock *s, int flags)
{
    return !s->nonblock && !(flags & MSG_DONTWAIT);
}

/* A call has failed. Was it ended by a signal after whose handler it goes on? If pthread_cancel has
 * ended it, so is the thread. */
static bool goes_on(void)
{
    const bool may = errno == ERESTART;

    if (may || errno == EINTR) {
        cancel_test();
    }
    if (may) {
        errno = EINTR;
    }
    return may && signals_restart();
}

/* As the kernel checks before it takes an octet: no address space has what is longer, and a sum
 * would begin anew. Of recv it takes what is there first. */
static bool fits(size_t n)
{
    if (n > SSIZE_MAX) {
        errno = EFAULT;
    }
    return n <= SSIZE_MAX;
}

/* too_many: the error of more parts than there may be. */
static bool are_right(const struct iovec *parts, size_t count, int too_many)
{
    size_t sum = 0;

    if (count > IOV_MAX) {
        errno = too_many;
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (parts[i].iov_len > SSIZE_MAX - sum) {
            errno = EINVAL;
            return false;
        }
        sum += parts[i].iov_len;
    }
    return true;
}

static ssize_t refuse(struct sock *s)
{
    const int error = errno;

    sock_put(s);
    errno = error;
    return -1;
}

/* --- reading --------------------------------------------------------------------------------- */

/* What is behind the first octets of a message, for the caller to free; NULL: no memory. */
static struct iovec *rest_of(const struct msghdr *message, size_t first, size_t *count)
{
    struct iovec *rest = calloc(message->msg_iovlen, sizeof *rest);

    *count = 0;
    for (size_t i = 0; rest && i < message->msg_iovlen; i++) {
        struct iovec part = message->msg_iov[i];
        const size_t skipped = first < part.iov_len ? first : part.iov_len;
        first -= skipped;
        part.iov_base = (char *)part.iov_base + skipped;
        part.iov_len -= skipped;
        rest[(*count)++] = part;
    }
    return rest;
}

/* A call with MSG_WAITALL has `got` octets, and a child has begun to use the connection since: the
 * rest comes from the kernel. How many octets more. */
static ssize_t receive_rest(int number, const struct msghdr *message, size_t got, int flags)
{
    struct msghdr rest = {0};
    ssize_t n = 0;

    rest.msg_iov = rest_of(message, got, &rest.msg_iovlen);
    pthread_cleanup_push(free, rest.msg_iov);
    n = rest.msg_iov ? real()->recvmsg(number, &rest, flags) : 0;
    pthread_cleanup_pop(1);
    return n > 0 ? n : 0;
}

/* There are no urgent data and no queue of errors, so nothing is waited for. The kernel's socket
 * says what else is wrong while it is one of TCP; a socket pair would wait. */
static ssize_t receive_aside(struct sock *s, int number, struct msghdr *message, int flags)
{
    const enum sock_state state = s->state;

    sock_put(s);
    if (state == SOCK_TCP || state == SOCK_LISTENER || state == SOCK_ARRIVED ||
        state == SOCK_PLAIN) {
        return real()->recvmsg(number, message, flags);
    }
    errno = flags & MSG_OOB ? EINVAL : EAGAIN;
    return -1;
}

static ssize_t receive_once(struct sock *s, int number, struct msghdr *message, int flags)
{
    enum use_result use;
    ssize_t n = -1;

    if (flags & (MSG_OOB | MSG_ERRQUEUE)) {
        return receive_aside(s, number, message, flags);
    }
    do {
        use = block_use(&s, number, USE_READ, may_wait(s, flags));
        if (use == USE_RSOCKET) {
            n = rrecvmsg(s->rs, message, flags | (s->nonblock ? MSG_DONTWAIT : 0));
        }
        if (use == USE_RSOCKET && n >= 0) {
            message->msg_namelen = 0;
            message->msg_controllen = 0;
            message->msg_flags = 0;
        }
    } while (start_has_changed(s, use, n));
    const bool rest = n > 0 && (flags & (MSG_WAITALL | MSG_PEEK)) == MSG_WAITALL &&
                      (size_t)n < message_octets(message) && start_is_carried(s);
    sock_put(s); /* from here on handlers run, and a signal can end the kernel's wait */
    if (rest) {
        return n + receive_rest(number, message, (size_t)n, flags);
    }
    return use == USE_KERNEL ? real()->recvmsg(number, message, flags) : n;
}

static ssize_t receive(struct sock *s, int number, struct msghdr *message, int flags)
{
    ssize_t n = receive_once(s, number, message, flags);

    while (n < 0 && goes_on()) {
        s = sock_get(number);
        n = s ? receive_once(s, number, message, flags) : real()->recvmsg(number, message, flags);
    }
    return n;
}

static ssize_t receive_into(struct sock *s, int number, void *to, size_t n, int flags)
{
    struct iovec part = {.iov_base = to, .iov_len = n};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    return receive(s, number, &message, flags);
}

EXPORT ssize_t recv(int fd, void *to, size_t n, int flags)
{
    struct sock *s = get(fd);

    OURS_OR(s, real()->recv(fd, to, n, flags))
    return receive_into(s, fd, to, n, flags);
}

EXPORT ssize_t recvfrom(int fd, void *restrict to, size_t n, int flags,
                        struct sockaddr *restrict from, socklen_t *restrict len)
{
    struct sock *s = get(fd);

    OURS_OR(s, real()->recvfrom(fd, to, n, flags, from, len))
    const ssize_t got = receive_into(s, fd, to, n, flags);
    if (got >= 0 && from && len) {
        *len = 0; /* as TCP does */
    }
    return got;
}

EXPORT ssize_t read(int fd, void *to, size_t n)
{
    struct sock *s = get(fd);

    OURS_OR(s, real()->read(fd, to, n))
    return fits(n) ? receive_into(s, fd, to, n, 0) : refuse(s);
}

EXPORT ssize_t readv(int fd, const struct iovec *parts, int count)
{
    struct sock *s = get(fd);
    union {
        const struct iovec *given;
        struct iovec *wanted; /* recvmsg does not write to it */
    } same = {.given = parts};

    OURS_OR(s, real()->readv(fd, parts, count))
    struct msghdr message = {.msg_iov = same.wanted, .msg_iovlen = (size_t)count};
    return are_right(parts, (size_t)count, EINVAL) ? receive(s, fd, &message, 0) : refuse(s);
}

static ssize_t receive_from_kernel(int fd, struct msghdr *message, int flags)
{
    const ssize_t n = real()->recvmsg(fd, message, flags);

    passing_in(n, message);
    return n;
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    struct sock *s = get(fd);

    OURS_OR(s, receive_from_kernel(fd, message, flags))
    return are_right(message->msg_iov, message->msg_iovlen, EMSGSIZE)
               ? receive(s, fd, message, flags)
               : refuse(s);
}

EXPORT int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags,
                    struct timespec *timeout)
{
    struct sock *s = get(fd);
    unsigned i;

    if (!s) {
        const int n = real()->recvmmsg(fd, messages, count, flags, timeout);
        passing_all_in(n, messages);
        return n;
    }
    sock_put(s);
    for (i = 0; i < count; i++) {
        /* A stream has no messages: what is there is enough. */
        const ssize_t n = recvmsg(fd, &messages[i].msg_hdr,
                                  (flags & ~MSG_WAITFORONE) | (i > 0 ? MSG_DONTWAIT : 0));
        if (n < 0) {
            return i > 0 ? (int)i : -1;
        }
        messages[i].msg_len = (unsigned)n;
        if (n == 0) {
            return (int)i + 1;
        }
    }
    return (int)i;
}

/* --- writing --------------------------------------------------------------------------------- */

static ssize_t with_signal_of_pipe(ssize_t n, int flags)
{
    if (n < 0 && errno == EPIPE && !(flags & MSG_NOSIGNAL)) {
        raise(SIGPIPE);
        errno = EPIPE;
    }
    return n;
}

/* If there is no room, a call that may wait comes again, and waits. */
static ssize_t keep(struct sock *s, const struct msghdr *message, int flags)
{
    const ssize_t n = early_keep(s, message);

    if (n < 0 && errno == EAGAIN && may_wait(s, flags)) {
        errno = EALREADY;
    }
    return n;
}

/* *more: as much was kept as there was room for, and the call waits to write the rest. */
static ssize_t deliver_once(struct sock *s, int number, const struct msghdr *message, int flags,
                            bool *more)
{
    /* TCP takes control messages, too: marks, times, and what other families have and it ignores.
     */
    const struct msghdr octets = {.msg_iov = message->msg_iov, .msg_iovlen = message->msg_iovlen};
    enum use_result use;
    ssize_t n = -1;

    *more = false;
    do {
        use = block_use(&s, number, USE_WRITE, may_wait(s, flags));
        if (use == USE_KERNEL) {
            sock_put(s);
            return real()->sendmsg(number, message, flags);
        }
        if (use != USE_FAILED && (flags & MSG_OOB)) {
            errno = EOPNOTSUPP;
        } else if (use == USE_EARLY) {
            n = keep(s, message, flags);
            *more = n > 0 && may_wait(s, flags) && (size_t)n < message_octets(message);
        } else if (use == USE_RSOCKET) {
            n = rsendmsg(s->rs, &octets, (flags & ~MSG_MORE) | (s->nonblock ? MSG_DONTWAIT : 0));
        }
    } while (start_has_changed(s, use, n));
    sock_put(s);
    return with_signal_of_pipe(n, flags);
}

static ssize_t deliver(struct sock *s, int number, const struct msghdr *message, int flags);

static ssize_t deliver_rest(int number, const struct msghdr *message, size_t gone, int flags)
{
    struct msghdr rest = {0};
    ssize_t n = 0;

    rest.msg_iov = rest_of(message, gone, &rest.msg_iovlen);
    pthread_cleanup_push(free, rest.msg_iov);
    if (rest.msg_iov) {
        struct sock *s = sock_get(number);
        flags |= MSG_NOSIGNAL; /* the call has taken octets: it is short */
        n = s ? deliver(s, number, &rest, flags) : real()->sendmsg(number, &rest, flags);
    }
    pthread_cleanup_pop(1);
    return n > 0 ? n : 0;
}

static ssize_t deliver(struct sock *s, int number, const struct msghdr *message, int flags)
{
    bool more;
    ssize_t n = deliver_once(s, number, message, flags, &more);

    while (n < 0 && goes_on()) {
        s = sock_get(number);
        n = s ? deliver_once(s, number, message, flags, &more)
              : real()->sendmsg(number, message, flags);
    }
    return more ? n + deliver_rest(number, message, (size_t)n, flags) : n;
}

static ssize_t deliver_from(struct sock *s, int number, const void *from, size_t n, int flags)
{
    union {
        const void *given;
        void *wanted; /* sendmsg does not write to it */
    } same = {.given = from};
    struct iovec part = {.iov_base = same.wanted, .iov_len = n};
    const struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    return fits(n) ? deliver(s, number, &message, flags) : refuse(s);
}

EXPORT ssize_t send(int fd, const void *from, size_t n, int flags)
{
    struct sock *s = get(fd);

    OURS_OR(s, real()->send(fd, from, n, flags))
    return deliver_from(s, fd, from, n, flags);
}

EXPORT ssize_t sendto(int fd, const void *from, size_t n, int flags, const struct sockaddr *to,
                      socklen_t len)
{
    struct sock *s = get(fd);

    OURS_OR(s, real()->sendto(fd, from, n, flags, to, len))
    if (s->state == SOCK_TCP) { /* TCP's fast open, which connects: stays plain */
        pthread_mutex_lock(&s->start);
        sock_plain(s);
        pthread_mutex_unlock(&s->start);
        sock_put(s);
        return real()->sendto(fd, from, n, flags, to, len);
    }
    return deliver_from(s, fd, from, n, flags);
}

EXPORT ssize_t write(int fd, const void *from, size_t n)
{
    struct sock *s = get(fd);

    OURS_OR(s, real()->write(fd, from, n))
    return deliver_from(s, fd, from, n, 0);
}

EXPORT ssize_t writev(int fd, const struct iovec *parts, int count)
{
    struct sock *s = get(fd);
    union {
        const struct iovec *given;
        struct iovec *wanted; /* sendmsg does not write to it */
    } same = {.given = parts};

    OURS_OR(s, real()->writev(fd, parts, count))
    const struct msghdr message = {.msg_iov = same.wanted, .msg_iovlen = (size_t)count};
    return are_right(parts, (size_t)count, EINVAL) ? deliver(s, fd, &message, 0) : refuse(s);
}

static ssize_t send_by_kernel(int fd, const struct msghdr *message, int flags)
{
    return passing_out(message) == 0 ? real()->sendmsg(fd, message, flags) : -1;
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct sock *s = get(fd);

    OURS_OR(s, send_by_kernel(fd, message, flags))
    return are_right(message->msg_iov, message->msg_iovlen, EMSGSIZE)
               ? deliver(s, fd, message, flags)
               : refuse(s);
}

EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    struct sock *s = get(fd);
    unsigned i;

    OURS_OR(s, passing_all_out(messages, count) == 0 ? real()->sendmmsg(fd, messages, count, flags)
                                                     : -1)
    sock_put(s);
    for (i = 0; i < count; i++) {
        const ssize_t n = sendmsg(fd, &messages[i].msg_hdr, flags);
        if (n < 0) {
            return i > 0 ? (int)i : -1;
        }
        messages[i].msg_len = (unsigned)n;
        if ((size_t)n < message_octets(&messages[i].msg_hdr)) {
            return (int)i + 1; /* the next one would follow a hole */
        }
    }
    return (int)i;
}

/* --- from files ------------------------------------------------------------------------------ */

static ssize_t send_some(struct sock *s, enum use_result use, char *octets, size_t n)
{
    struct iovec part = {.iov_base = octets, .iov_len = n};
    const struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    return use == USE_EARLY ? keep(s, &message, 0)
                            : rsend(s->rs, octets, n, s->nonblock ? MSG_DONTWAIT : 0);
}

/* As sendfile(2) counts: what was read and not sent is read again. */
static ssize_t send_octets(struct sock *s, enum use_result use, int from, off64_t *offset,
                           size_t count)
{
    char *octets = malloc(count < READ_OCTETS ? count + 1 : READ_OCTETS);
    off64_t at = offset ? *offset : lseek64(from, 0, SEEK_CUR);
    size_t sent = 0;
    ssize_t n = 0, asked = 0;

    while (octets && sent < count && n == asked) {
        const size_t left = count - sent;
        asked = pread64(from, octets, left < READ_OCTETS ? left : READ_OCTETS, at);
        if (asked <= 0) {
            n = asked;
            break;
        }
        n = send_some(s, use, octets, (size_t)asked);
        at += n > 0 ? n : 0;
        sent += n > 0 ? (size_t)n : 0;
    }
    const int error = octets ? errno : ENOMEM;
    free(octets);
    if (offset) {
        *offset = at;
    } else {
        (void)lseek64(from, at, SEEK_SET);
    }
    errno = error;
    return sent > 0 || (n == 0 && octets) ? (ssize_t)sent : -1;
}

/* *more: as of deliver_once; or the file is at its end. */
static ssize_t send_file_once(struct sock *s, int to, int from, off64_t *offset, size_t count,
                              bool *more)
{
    enum use_result use;
    ssize_t n;

    do {
        use = block_use(&s, to, USE_WRITE, may_wait(s, 0));
        n = use == USE_RSOCKET || use == USE_EARLY ? send_octets(s, use, from, offset, count) : -1;
        *more = use == USE_EARLY && n > 0 && may_wait(s, 0) && (size_t)n < count;
    } while (start_has_changed(s, use, n));
    sock_put(s);
    return use == USE_KERNEL ? real()->sendfile64(to, from, offset, count)
                             : with_signal_of_pipe(n, 0);
}

static ssize_t send_file(struct sock *s, int to, int from, off64_t *offset, size_t count)
{
    bool more;
    ssize_t n = send_file_once(s, to, from, offset, count, &more);

    while (n < 0 && goes_on()) {
        s = sock_get(to);
        n = s ? send_file_once(s, to, from, offset, count, &more)
              : real()->sendfile64(to, from, offset, count);
    }
    if (more) {
        const ssize_t rest = sendfile64(to, from, offset, count - (size_t)n);
        n += rest > 0 ? rest : 0;
    }
    return n;
}

EXPORT ssize_t sendfile64(int to, int from, off64_t *offset, size_t count)
{
    struct sock *s = get(to);

    OURS_OR(s, real()->sendfile64(to, from, offset, count))
    return send_file(s, to, from, offset, count);
}

/* An offset may have 32 bits. The kernel goes no further than these. */
EXPORT ssize_t sendfile(int to, int from, off_t *offset, size_t count)
{
    const off64_t most = sizeof *offset == sizeof(int32_t) ? INT32_MAX : INT64_MAX;
    struct sock *s = get(to);

    OURS_OR(s, real()->sendfile(to, from, offset, count))
    if (!offset) {
        return send_file(s, to, from, NULL, count);
    }
    off64_t at = *offset;
    const uint64_t left = at < 0 ? count : (uint64_t)(most - at);
    if (left == 0 && count > 0) {
        sock_put(s);
        errno = EOVERFLOW;
        return -1;
    }
    const ssize_t n = send_file(s, to, from, &at, count < left ? count : (size_t)left);
    *offset = (off_t)at;
    return n;
}

/* A pipe would hold pages of the socket. Programs that splice read and write instead, when told. */
EXPORT ssize_t splice(int from, off64_t *at_from, int to, off64_t *at_to, size_t n, unsigned flags)
{
    struct sock *s = get(from);

    s = s ? s : get(to);
    OURS_OR(s, real()->splice(from, at_from, to, at_to, n, flags))
    const enum sock_state state = s->state;
    sock_put(s);
    if (state == SOCK_PLAIN || state == SOCK_PIPE) {
        return real()->splice(from, at_from, to, at_to, n, flags);
    }
    errno = EINVAL;
    return -1;
}
