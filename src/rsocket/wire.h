/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What rsockets put on the wire over iWARP: octets to structs and back, no state. docs/rsockets.md
 * describes it.
 */
#ifndef IWARP_RSOCKET_WIRE_H
#define IWARP_RSOCKET_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RS_PRIVATE_LEN 40
#define RS_PRIVATE_MAX 56 /* with the second half */
#define RS_ENTRY_LEN   16 /* a target entry: address, STag, length, in the host's byte order */
#define RS_MAP_LEN     24 /* an entry of the I/O map: offset, target entry */
#define RS_TARGETS     2  /* target entries of each end */
#define RS_MESSAGE_LEN 4
#define RS_MAP_MAX     (127 * 256) /* entries that private data can announce */

/* Where an end may write. Lies in memory that the peer writes, so its layout is that of the wire
 * between ends of the same byte order. */
struct rs_entry {
    uint64_t addr;
    uint32_t stag, len;
};

struct rs_map_entry {
    uint64_t offset;
    struct rs_entry to;
};

struct rs_hello {
    bool big_endian;
    uint16_t credits; /* messages that the peer may send at first */
    uint32_t map_entries;
    struct rs_entry targets; /* where the sender's target entries are; len: their number */
    struct rs_entry data;    /* the first half of the sender's receive buffer */
    struct rs_entry second;  /* the other one; len 0: it is lent later */
};

/* At most RS_PRIVATE_MAX octets; returns how many. */
size_t rs_hello_write(uint8_t *at, const struct rs_hello *hello);

/* NULL, or what is wrong with the private data. */
const char *rs_hello_read(const uint8_t *at, size_t len, struct rs_hello *hello);

/* Entries of a map as private data can say them: at least as many as are asked for. */
uint32_t rs_map_size(uint32_t entries);

enum rs_message { RS_DATA = 0, RS_CREDITS = 4, RS_MAP = 6, RS_CONTROL = 7 };
/* The last two are the preload library's own; other ends pass over them. */
enum rs_control { RS_DISCONNECT = 0, RS_NO_MORE = 2, RS_KEEPS = 3, RS_KEEPS_NOTHING = 4 };

#define RS_VALUE_MAX 0x1fffffffu

static inline uint32_t rs_message(enum rs_message type, uint32_t value)
{
    return (uint32_t)type << 29 | (value & RS_VALUE_MAX);
}

static inline enum rs_message rs_message_type(uint32_t message)
{
    return (enum rs_message)(message >> 29);
}

static inline uint32_t rs_message_value(uint32_t message)
{
    return message & RS_VALUE_MAX;
}

#endif
