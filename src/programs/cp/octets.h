/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading and writing big-endian numbers in a bounded buffer. A reader or writer that was asked for
 * more than there is turns bad and stays so: callers run through and check once at the end.
 */
#ifndef CP_OCTETS_H
#define CP_OCTETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cp_reader {
    const uint8_t *at;
    size_t left;
    bool bad; /* something was read that is not there */
};

struct cp_writer {
    uint8_t *at;
    size_t left;
    bool full; /* something did not fit */
};

/* The next len octets, or NULL. */
static inline const uint8_t *cp_take(struct cp_reader *reader, size_t len)
{
    if (reader->bad || reader->left < len) {
        reader->bad = true;
        return NULL;
    }
    const uint8_t *at = reader->at;
    reader->at += len;
    reader->left -= len;
    return at;
}

static inline uint64_t cp_take_number(struct cp_reader *reader, size_t len)
{
    const uint8_t *at = cp_take(reader, len);
    uint64_t value = 0;

    for (size_t i = 0; at && i < len; i++) {
        value = value << 8 | at[i];
    }
    return value;
}

static inline uint8_t cp_take_u8(struct cp_reader *reader)
{
    return (uint8_t)cp_take_number(reader, 1);
}

static inline uint16_t cp_take_u16(struct cp_reader *reader)
{
    return (uint16_t)cp_take_number(reader, 2);
}

static inline uint32_t cp_take_u32(struct cp_reader *reader)
{
    return (uint32_t)cp_take_number(reader, 4);
}

static inline uint64_t cp_take_u64(struct cp_reader *reader)
{
    return cp_take_number(reader, 8);
}

static inline void cp_add(struct cp_writer *writer, const void *data, size_t len)
{
    if (writer->full || writer->left < len) {
        writer->full = true;
        return;
    }
    if (len > 0) {
        memcpy(writer->at, data, len);
    }
    writer->at += len;
    writer->left -= len;
}

static inline void cp_add_number(struct cp_writer *writer, uint64_t value, size_t len)
{
    uint8_t octets[8];

    for (size_t i = 0; i < len; i++) {
        octets[i] = (uint8_t)(value >> (8 * (len - 1 - i)));
    }
    cp_add(writer, octets, len);
}

#endif
