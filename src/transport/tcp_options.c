/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/tcp_options.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>

enum { CORK, LOW_WATER };

static const struct {
    int level, name;
    bool passed_on; /* what the application sets later is the socket's, too */
} kept[IWARP_TCP_KEPT] = {
    [CORK] = {IPPROTO_TCP, TCP_CORK, false}, [LOW_WATER] = {SOL_SOCKET, SO_RCVLOWAT, false},
    {IPPROTO_TCP, TCP_NODELAY, false},       {SOL_SOCKET, SO_KEEPALIVE, false},
    {IPPROTO_TCP, TCP_KEEPIDLE, true},       {IPPROTO_TCP, TCP_KEEPINTVL, true},
    {IPPROTO_TCP, TCP_KEEPCNT, true},        {IPPROTO_TCP, TCP_USER_TIMEOUT, true},
};

void iwarp_tcp_disarm(int fd)
{
    const struct linger no_linger = {0, 0};
    const int one = 1, off = 0;

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &no_linger, sizeof no_linger);
    setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_CORK, &off, sizeof off);
}

void iwarp_tcp_options_keep(struct iwarp_tcp_options *o, int fd)
{
    socklen_t len = sizeof o->linger;

    o->fd = fd;
    o->flags = fcntl(fd, F_GETFL);
    getsockopt(fd, SOL_SOCKET, SO_LINGER, &o->linger, &len);
    for (unsigned i = 0; i < IWARP_TCP_KEPT; i++) {
        len = sizeof o->value[i];
        getsockopt(fd, kept[i].level, kept[i].name, &o->value[i], &len);
    }
    if (o->linger.l_onoff || o->value[CORK] != 0 || o->value[LOW_WATER] != 1) {
        iwarp_tcp_disarm(fd);
    }
}

void iwarp_tcp_options_restore(const struct iwarp_tcp_options *o, int fd)
{
    fcntl(fd, F_SETFL, o->flags);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &o->linger, sizeof o->linger);
    for (unsigned i = 0; i < IWARP_TCP_KEPT; i++) {
        setsockopt(fd, kept[i].level, kept[i].name, &o->value[i], sizeof o->value[i]);
    }
}

/* --- the application's view ------------------------------------------------------------------ */

/* IWARP_TCP_KEPT: none of these. */
static unsigned find(int level, int name)
{
    unsigned i = 0;

    while (i < IWARP_TCP_KEPT && (kept[i].level != level || kept[i].name != name)) {
        i++;
    }
    return i;
}

static bool is_linger(int level, int name)
{
    return level == SOL_SOCKET && name == SO_LINGER;
}

/* As much as there is room for. */
static int give(const void *from, size_t size, void *value, socklen_t *len)
{
    if (!value || !len) {
        return -EFAULT;
    }
    *len = *len < size ? *len : (socklen_t)size;
    memcpy(value, from, *len);
    return 0;
}

int iwarp_tcp_options_get(const struct iwarp_tcp_options *o, int level, int name, void *value,
                          socklen_t *len)
{
    const unsigned i = find(level, name);

    if (i < IWARP_TCP_KEPT) {
        return give(&o->value[i], sizeof o->value[i], value, len);
    }
    if (is_linger(level, name)) {
        return give(&o->linger, sizeof o->linger, value, len);
    }
    if (o->fd < 0) {
        return -ENOTCONN;
    }
    return getsockopt(o->fd, level, name, value, len) == 0 ? 0 : -errno;
}

static int take(void *to, size_t size, const void *value, socklen_t len)
{
    if (len < size) {
        return -EINVAL;
    }
    if (!value) {
        return -EFAULT;
    }
    memcpy(to, value, size);
    return 0;
}

/* As the kernel keeps it. */
static int as_kept(unsigned i, int value)
{
    if (i != LOW_WATER) {
        return value != 0;
    }
    return value < 0 ? INT_MAX : value > 0 ? value : 1;
}

static int set_kept(struct iwarp_tcp_options *o, unsigned i, const void *value, socklen_t len)
{
    int wanted, rc = take(&wanted, sizeof wanted, value, len);

    if (rc < 0) {
        return rc;
    }
    if (!kept[i].passed_on) {
        o->value[i] = as_kept(i, wanted);
        return 0;
    }
    if (o->fd >= 0 && setsockopt(o->fd, kept[i].level, kept[i].name, value, len) != 0) {
        return -errno;
    }
    o->value[i] = wanted;
    return 0;
}

int iwarp_tcp_options_set(struct iwarp_tcp_options *o, int level, int name, const void *value,
                          socklen_t len)
{
    const unsigned i = find(level, name);

    if (i < IWARP_TCP_KEPT) {
        return set_kept(o, i, value, len);
    }
    if (is_linger(level, name)) {
        return take(&o->linger, sizeof o->linger, value, len);
    }
    if (o->fd < 0) {
        return -ENOTCONN;
    }
    return setsockopt(o->fd, level, name, value, len) == 0 ? 0 : -errno;
}
