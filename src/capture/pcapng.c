/* SPDX-License-Identifier: BSD-2-Clause */
/* See pcapng.h. */
#include "capture/pcapng.h"

#include "base/bytes.h"

enum {
    SECTION_HEADER = 0x0a0d0d0a,
    INTERFACE_DESCRIPTION = 1,
    ENHANCED_PACKET = 6,
    ORDER_MAGIC = 0x1a2b3c4d,
    LINK_ETHERNET = 1
};

/* Codes of options. The first two are the same in all blocks; the others depend on the block. */
enum { END_OF_OPTIONS = 0, COMMENT = 1 };
enum { SECTION_APPLICATION = 4, INTERFACE_NAME = 2, INTERFACE_TIME_UNIT = 9, PACKET_FLAGS = 2 };

enum { INBOUND = 1, OUTBOUND = 2 };

static size_t padded(size_t n)
{
    return (n + 3) & ~(size_t)3;
}

static size_t text_length(const char *text)
{
    size_t n = strlen(text);

    return n < IWARP_PCAPNG_TEXT_MAX ? n : IWARP_PCAPNG_TEXT_MAX;
}

static void put_le16(uint8_t *to, size_t v)
{
    to[0] = (uint8_t)v;
    to[1] = (uint8_t)(v >> 8);
}

static size_t put_option(uint8_t *to, unsigned code, const void *value, size_t n)
{
    put_le16(to, code);
    put_le16(to + 2, n);
    memset(to + 4, 0, padded(n));
    memcpy(to + 4, value, n);
    return 4 + padded(n);
}

static size_t put_text(uint8_t *to, unsigned code, const char *text)
{
    return put_option(to, code, text, text_length(text));
}

/* Write the length at both ends of a block of n octets, so that files can be read backwards. */
static size_t end_block(uint8_t *block, size_t n)
{
    n += 4;
    iwarp_put_le32(block + 4, (uint32_t)n);
    iwarp_put_le32(block + n - 4, (uint32_t)n);
    return n;
}

static size_t put_section(uint8_t *to, const char *comment, const char *application)
{
    size_t n = 24;

    iwarp_put_le32(to, SECTION_HEADER);
    iwarp_put_le32(to + 8, ORDER_MAGIC);
    put_le16(to + 12, 1); /* version 1.0 */
    put_le16(to + 14, 0);
    memset(to + 16, 0xff, 8); /* length of the section: not known */
    n += put_text(to + n, COMMENT, comment);
    n += put_text(to + n, SECTION_APPLICATION, application);
    n += put_option(to + n, END_OF_OPTIONS, "", 0);
    return end_block(to, n);
}

static size_t put_interface(uint8_t *to, const char *name)
{
    const uint8_t nanoseconds = 9; /* 10 to the power of minus this */
    size_t n = 16;

    iwarp_put_le32(to, INTERFACE_DESCRIPTION);
    put_le16(to + 8, LINK_ETHERNET);
    put_le16(to + 10, 0);
    iwarp_put_le32(to + 12, 0); /* no limit to the length of packets */
    n += put_text(to + n, INTERFACE_NAME, name);
    n += put_option(to + n, INTERFACE_TIME_UNIT, &nanoseconds, 1);
    n += put_option(to + n, END_OF_OPTIONS, "", 0);
    return end_block(to, n);
}

size_t iwarp_pcapng_put_start(uint8_t to[IWARP_PCAPNG_START_MAX], const char *comment,
                              const char *application, const char *interface)
{
    size_t n = put_section(to, comment, application);

    return n + put_interface(to + n, interface);
}

size_t iwarp_pcapng_size(const struct iwarp_pcapng_packet *p)
{
    size_t comment = p->comment ? 4 + padded(text_length(p->comment)) : 0;

    return IWARP_PCAPNG_HEAD + padded(p->captured) + comment + 8 + 4 + 4;
}

void iwarp_pcapng_put_head(uint8_t to[IWARP_PCAPNG_HEAD], const struct iwarp_pcapng_packet *p)
{
    iwarp_put_le32(to, ENHANCED_PACKET);
    iwarp_put_le32(to + 4, (uint32_t)iwarp_pcapng_size(p));
    iwarp_put_le32(to + 8, 0); /* the only interface */
    iwarp_put_le32(to + 12, (uint32_t)(p->ns >> 32));
    iwarp_put_le32(to + 16, (uint32_t)p->ns);
    iwarp_put_le32(to + 20, p->captured);
    iwarp_put_le32(to + 24, p->original);
}

size_t iwarp_pcapng_put_tail(uint8_t to[IWARP_PCAPNG_TAIL_MAX], const struct iwarp_pcapng_packet *p)
{
    size_t n = padded(p->captured) - p->captured;
    uint8_t flags[4];

    memset(to, 0, n);
    if (p->comment) {
        n += put_text(to + n, COMMENT, p->comment);
    }
    iwarp_put_le32(flags, p->inbound ? INBOUND : OUTBOUND);
    n += put_option(to + n, PACKET_FLAGS, flags, sizeof flags);
    n += put_option(to + n, END_OF_OPTIONS, "", 0);
    iwarp_put_le32(to + n, (uint32_t)iwarp_pcapng_size(p));
    return n + 4;
}
