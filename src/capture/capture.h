/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that record what connections carry. A file gets a name that no other file has, is shared by
 * the devices of the process that give the same name, has a bound, and contains whole blocks only
 * (but for the last one, if the process is killed while it writes). No connection fails because of
 * a recording: an error is one line in the log and the end of the recording. Which packets there
 * are is decided in flow.c.
 */
#ifndef IWARP_CAPTURE_CAPTURE_H
#define IWARP_CAPTURE_CAPTURE_H

#include "capture/headers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/uio.h>

#define IWARP_CAPTURE_LEAST    4096 /* what a file may be bounded to */
#define IWARP_CAPTURE_PAYLOAD  65000
#define IWARP_CAPTURE_FLOWSETS 1024

struct iwarp_flow;

struct iwarp_capture {
    struct iwarp_capture *next; /* under the lock of the list, as users is */
    unsigned users;
    char *wish; /* the name as it was given */
    char *path; /* the file's */
    int fd;
    uint64_t most; /* octets of the file */

    pthread_mutex_t lock; /* of what is below */
    uint64_t at;          /* octets of the file so far */
    uint8_t *block;       /* the one that is being put together */
    _Atomic bool over;    /* nothing is recorded any more */

    pthread_mutex_t flows_lock; /* before flow.lock, before lock */
    uint32_t flows;             /* ever */
    struct iwarp_flow *flow[IWARP_CAPTURE_FLOWSETS];
};

/* len octets of iov from octet `skip` on, with these headers in front. */
struct iwarp_capture_packet {
    struct iwarp_headers headers;
    bool inbound;
    const char *comment; /* NULL: none */
    const struct iovec *iov;
    size_t skip, len; /* len is at most IWARP_CAPTURE_PAYLOAD */
};

/*
 * Record into the file `wish`, in which %p stands for the process id and %% for %, at most `most`
 * octets. A second call of the process with the same name gets the same capture, with the bound of
 * the first. An existing file is left alone: the process id, and after that a number, makes another
 * name. NULL: not possible, and the log says why.
 */
struct iwarp_capture *iwarp_capture_open(const char *wish, uint64_t most);

/* This user is done with it; the last one closes the file. NULL does nothing. */
void iwarp_capture_close(struct iwarp_capture *c);

/* Record a packet. At the bound, the headers of the packet that does not fit are the last record.
 */
void iwarp_capture_add(struct iwarp_capture *c, const struct iwarp_capture_packet *p);

static inline bool iwarp_capture_is_over(struct iwarp_capture *c)
{
    return atomic_load_explicit(&c->over, memory_order_relaxed);
}

#endif
