/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading and writing. What is written goes through the send buffer, so a program has its memory
 * back when a call returns.
 */
#include "rsocket/rs.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

/* Never less than what is there, also where the sum is more than a size can say. */
static size_t octets_of(const struct iovec *iov, size_t count)
{
    size_t sum = 0;

    for (size_t i = 0; i < count; i++) {
        sum += iov[i].iov_len < SIZE_MAX - sum ? iov[i].iov_len : SIZE_MAX - sum;
    }
    return sum;
}

/* Between the octets of some pieces, from an offset on, and a buffer. */
enum direction { GATHER, SCATTER };

static void copy(enum direction direction, uint8_t *buffer, const struct iovec *iov, size_t at,
                 size_t octets)
{
    for (; octets > 0; iov++) {
        size_t here = at < iov->iov_len ? iov->iov_len - at : 0;
        size_t n = here < octets ? here : octets;
        uint8_t *piece = (uint8_t *)iov->iov_base + at;
        if (n > 0) {
            memcpy(direction == GATHER ? buffer : piece, direction == GATHER ? piece : buffer, n);
        }
        at = at > iov->iov_len ? at - iov->iov_len : 0;
        buffer += n;
        octets -= n;
    }
}

/* --- writing --------------------------------------------------------------------------------- */

/* What is written now goes to a peer that has closed. */
static bool is_lost(const struct rs *s)
{
    return s->as_tcp && s->state == RS_OVER && !s->dead;
}

/* Why nothing can be written: errno. */
static bool write_refused(struct rs *s)
{
    if (s->state == RS_OPEN || s->state == RS_LISTENING) {
        errno = ENOTCONN;
    } else if (s->write_over) {
        errno = EPIPE;
    } else if (s->state == RS_OVER && !is_lost(s)) {
        if (!rs_take_error(s)) {
            errno = s->as_tcp ? EPIPE : ECONNRESET;
        }
    } else {
        return false;
    }
    return true;
}

/* As if the peer had answered with a reset. */
static void lose(struct rs *s)
{
    s->dead = true;
    s->error = EPIPE;
    rs_wake(s);
}

/* A piece of what is left, into the send buffer. How many octets. */
static size_t keep(struct rs *s, const struct iovec *iov, size_t at, size_t left)
{
    uint32_t room;
    uint8_t *to = rs_room(s, &room);
    const uint32_t octets = left < room ? (uint32_t)left : room;

    copy(GATHER, to, iov, at, octets);
    rs_take_room(s, octets);
    s->kept += octets;
    return octets;
}

static ssize_t send_all(struct rs *s, const struct iovec *iov, size_t count, int flags)
{
    size_t left = octets_of(iov, count), done = 0;
    struct rs_limit limit = {SO_SNDTIMEO, flags, false, 0};

    while (!write_refused(s)) {
        size_t went;
        if (left == 0 && done == 0) {
            return 0;
        }
        if (is_lost(s)) {
            lose(s);
            return (ssize_t)(done + left);
        }
        if (rs_wait_as_asked(s, rs_may_send, &limit) != 0) {
            break;
        }
        if (s->state != RS_CONNECTED || s->write_over) {
            continue;
        }
        went = keep(s, iov, done, left);
        rs_send_kept(s);
        done += went;
        left -= went;
        if (left == 0) {
            break;
        }
    }
    return done > 0 ? (ssize_t)done : -1;
}

static ssize_t send_iov(int socket, const struct iovec *iov, size_t count, int flags)
{
    struct rs *s = rs_take(socket);
    ssize_t result;

    if (!s) {
        return -1;
    }
    result = flags & MSG_OOB ? rs_fail(EOPNOTSUPP) : send_all(s, iov, count, flags);
    rs_give_back(s);
    return result;
}

ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
    struct iovec iov = {(void *)(uintptr_t)buf, len};

    return send_iov(socket, &iov, 1, flags);
}

ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
                const struct sockaddr *dest_addr, socklen_t addrlen)
{
    if (dest_addr || addrlen) {
        return rs_fail(EISCONN);
    }
    return rsend(socket, buf, len, flags);
}

ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
    if (msg->msg_controllen > 0) {
        return rs_fail(EOPNOTSUPP);
    }
    return send_iov(socket, msg->msg_iov, msg->msg_iovlen, flags);
}

ssize_t rwrite(int socket, const void *buf, size_t count)
{
    return rsend(socket, buf, count, 0);
}

ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
    if (iovcnt < 0) {
        return rs_fail(EINVAL);
    }
    return send_iov(socket, iov, (size_t)iovcnt, 0);
}

/* --- reading --------------------------------------------------------------------------------- */

/* With MSG_TRUNC the octets are dropped, as TCP does: there need be no memory for them. */
static size_t take(struct rs *s, const struct iovec *iov, size_t at, size_t wanted, int flags)
{
    uint64_t unread = s->unread;
    struct rs_place from = s->read;
    size_t done = 0;

    while (done < wanted && unread > 0) {
        const struct rs_half *half = &s->halves[from.half];
        uint32_t n =
            rs_least(half->len - from.at, unread < UINT32_MAX ? (uint32_t)unread : UINT32_MAX);
        n = wanted - done < n ? (uint32_t)(wanted - done) : n;
        if (!(flags & MSG_TRUNC)) {
            copy(SCATTER, half->at + from.at, iov, at + done, n);
        }
        (void)rs_halves_pass(s, &from, n);
        unread -= n;
        done += n;
        if (!(flags & MSG_PEEK)) {
            rs_halves_took(s, n);
        }
    }
    return done;
}

static ssize_t receive_all(struct rs *s, const struct iovec *iov, size_t count, int flags)
{
    bool peek = (flags & MSG_PEEK) != 0;
    size_t wanted = octets_of(iov, count), done = 0;
    struct rs_limit limit = {SO_RCVTIMEO, flags, false, 0};

    if (s->state == RS_OPEN || s->state == RS_LISTENING) {
        return rs_fail(ENOTCONN);
    }
    do {
        /* A look at the queue might run the loop, for each call. If this one reads all that is
         * known, it looks: the buffer grows for programs that read all there is (halves.c). */
        if (wanted > 0 && s->unread <= wanted && rs_wait_as_asked(s, rs_may_read, &limit) != 0) {
            return done > 0 ? (ssize_t)done : -1;
        }
        if (rs_is_others(s)) { /* perhaps since this call began */
            return done > 0 ? (ssize_t)done : rs_fail(EBADF);
        }
        if (s->unread == 0) {
            break;
        }
        done += take(s, iov, done, wanted - done, flags);
    } while ((flags & MSG_WAITALL) && !peek && done < wanted);
    if (done == 0 && wanted > 0 && s->state == RS_OVER && !(s->as_tcp && s->heard_end) &&
        rs_take_error(s)) {
        return -1;
    }
    rs_has_read(s);
    return (ssize_t)done;
}

static ssize_t receive_iov(int socket, const struct iovec *iov, size_t count, int flags)
{
    struct rs *s = rs_take(socket);
    ssize_t result;

    if (!s) {
        return -1;
    }
    result = flags & MSG_OOB ? rs_fail(EINVAL) : receive_all(s, iov, count, flags);
    rs_give_back(s);
    return result;
}

ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
    struct iovec iov = {buf, len};

    return receive_iov(socket, &iov, 1, flags);
}

ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
                  socklen_t *addrlen)
{
    ssize_t result = rrecv(socket, buf, len, flags);

    if (result >= 0 && src_addr) {
        (void)rgetpeername(socket, src_addr, addrlen);
    }
    return result;
}

ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
    ssize_t result = receive_iov(socket, msg->msg_iov, msg->msg_iovlen, flags);

    if (result >= 0) {
        msg->msg_namelen = 0;
        msg->msg_controllen = 0;
        msg->msg_flags = 0;
    }
    return result;
}

ssize_t rread(int socket, void *buf, size_t count)
{
    return rrecv(socket, buf, count, 0);
}

ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
    if (iovcnt < 0) {
        return rs_fail(EINVAL);
    }
    return receive_iov(socket, iov, (size_t)iovcnt, 0);
}
