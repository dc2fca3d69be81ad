/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links: a way for Ethernet frames into and out of this process.
 *
 * All operations are called under lwIP's core lock, so one at a time, but for `asleep`.  None
 * blocks.
 */
#ifndef IWARP_LWIP_LINK_H
#define IWARP_LWIP_LINK_H

#include "transport/lwip/options.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

struct iwarp_link;

struct iwarp_link_ops {
    /* One frame: its octets; -EAGAIN: none is there; otherwise -errno: the link has ended. */
    ssize_t (*receive)(struct iwarp_link *link, void *frame, size_t size);
    /* 0; -EAGAIN: no room, not taken; -EFAULT: memory that is not there; otherwise -errno: the link
     * has ended. */
    int (*send)(struct iwarp_link *link, const struct iovec *iov, int n);
    /*
     * NULL: the descriptor alone says whether frames are there.  Otherwise it is readable only if
     * the link was told that a reader goes to sleep.  asleep: tell it so; false: a frame is there,
     * do not sleep.  awake: the descriptor was readable.
     */
    bool (*asleep)(struct iwarp_link *link);
    void (*awake)(struct iwarp_link *link);
    /* NULL, or: what was sent since the last call may wait for this one. */
    void (*flush)(struct iwarp_link *link);
    void (*close)(struct iwarp_link *link);
};

struct iwarp_link {
    const struct iwarp_link_ops *ops;
    int fd; /* readable: frames have come; writable, of some kinds: there is room for one */
};

/* Not OK: iwarp_last_error says why there is no such link. */
enum iwarp_status iwarp_link_open(const struct iwarp_lw_options *o, struct iwarp_link **link);

/* The kinds.  frame: octets of the largest one.  link_packet.c */
enum iwarp_status iwarp_link_unix(const char *path, struct iwarp_link **link);
enum iwarp_status iwarp_link_tap(const char *name, struct iwarp_link **link);
enum iwarp_status iwarp_link_fd(int fd, struct iwarp_link **link);
/* link_xdp.c */
enum iwarp_status iwarp_link_xdp(const char *name, unsigned frame, struct iwarp_link **link);
/* link_ring.c */
enum iwarp_status iwarp_link_ring(const char *path, unsigned frame, struct iwarp_link **link);

#endif
