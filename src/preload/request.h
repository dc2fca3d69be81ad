/* SPDX-License-Identifier: BSD-2-Clause */
/* What the first octets of an accepted connection say. A pure function. */
#ifndef IWARP_PRELOAD_REQUEST_H
#define IWARP_PRELOAD_REQUEST_H

#include <iwarp/protocol.h>
#include <stdbool.h>
#include <stddef.h>

enum first_octets {
    FIRST_NOTHING, /* none yet */
    FIRST_PART,    /* so far they are those of the key of an MPA Request */
    FIRST_REQUEST, /* the whole key (RFC 5044 7.1.1) */
    FIRST_OTHER    /* a program's own */
};

#define FIRST_OCTETS 16
enum first_octets first_octets(const void *octets, size_t n);

/* Is all of a Request there, with its private data? The longest has so many octets. */
#define REQUEST_OCTETS (IWARP_MPA_FRAME_HDR_LEN + IWARP_MPA_PRIVATE_DATA_MAX)
bool request_is_whole(const void *octets, size_t n);

#endif
