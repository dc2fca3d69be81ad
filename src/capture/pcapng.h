/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file format pcapng (draft-ietf-opsawg-pcapng), as much of it as one Ethernet interface needs.
 * The functions write blocks into memory, always little-endian, with times in nanoseconds. They
 * know nothing of files, and nothing of what a packet contains. Any thread; there is no state.
 */
#ifndef IWARP_CAPTURE_PCAPNG_H
#define IWARP_CAPTURE_PCAPNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IWARP_PCAPNG_TEXT_MAX  400 /* octets of a comment or name; what is longer is cut */
#define IWARP_PCAPNG_START_MAX (80 + 3 * (IWARP_PCAPNG_TEXT_MAX + 8))
#define IWARP_PCAPNG_HEAD      28
#define IWARP_PCAPNG_TAIL_MAX  (3 + 8 + IWARP_PCAPNG_TEXT_MAX + 8 + 4 + 4)

/* A packet. Its block in the file is: the head, `captured` octets that the caller writes, the tail.
 */
struct iwarp_pcapng_packet {
    uint64_t ns;                 /* since 1970 */
    uint32_t captured, original; /* octets */
    bool inbound;
    const char *comment; /* UTF-8; NULL: none */
};

/* The blocks that a file begins with: Section Header, Interface Description. Returns the octets. */
size_t iwarp_pcapng_put_start(uint8_t to[IWARP_PCAPNG_START_MAX], const char *comment,
                              const char *application, const char *interface);

/* Octets of the whole block of a packet. */
size_t iwarp_pcapng_size(const struct iwarp_pcapng_packet *p);

/* Write the head or the tail of a packet's block; the tail returns its octets. */
void iwarp_pcapng_put_head(uint8_t to[IWARP_PCAPNG_HEAD], const struct iwarp_pcapng_packet *p);
size_t iwarp_pcapng_put_tail(uint8_t to[IWARP_PCAPNG_TAIL_MAX],
                             const struct iwarp_pcapng_packet *p);

#endif
