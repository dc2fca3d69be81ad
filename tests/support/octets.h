/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Octets for tests: literals in hexadecimal, a buffer that grows, an FPDU around a ULPDU, a CRC32c
 * and a decoder of their own, so that what the library sends is never judged by the library's code.
 * Also the random numbers, from a seed that can be given again (environment SEED).
 *
 * RFC 5044 4, RFC 5041 4, RFC 5040 4.
 */
#ifndef TESTS_OCTETS_H
#define TESTS_OCTETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- random numbers ----------------------------------------------------------------------------
 */

struct chance {
    uint64_t state;
};

/* The seed of this run: SEED, or else one made of the time; printed once. */
uint64_t chance_seed(void);
uint64_t chance_next(struct chance *c);
/* 0 to bound - 1; 0 if bound is 0. */
size_t chance_below(struct chance *c, size_t bound);
bool chance_one_in(struct chance *c, size_t n);
/* A size from 0 to max, small ones as likely as large ones. */
size_t chance_size(struct chance *c, size_t max);

/* --- octets ------------------------------------------------------------------------------------
 */

struct octets {
    uint8_t *p;
    size_t n, room;
};

void octets_free(struct octets *o);
void octets_add(struct octets *o, const void *p, size_t n);
/* Hexadecimal digits, anything else between them is skipped. Returns the octets added. */
size_t octets_hex(struct octets *o, const char *hex);
void octets_fill(struct octets *o, uint8_t value, size_t n);
void octets_be(struct octets *o, uint64_t value, unsigned size);

/* Test failure with both sides shown if they differ. */
void octets_expect(const char *what, const void *p, size_t n, const void *expected,
                   size_t expected_n);

/* CRC32c one bit at a time (RFC 3720 12.1). */
uint32_t octets_crc(uint32_t crc, const void *p, size_t n);

/* --- FPDUs -------------------------------------------------------------------------------------
 */

/* Append the FPDU around a ULPDU. xor_crc damages the CRC field. */
void fpdu_add(struct octets *o, const void *ulpdu, size_t n, uint32_t xor_crc);

/* The same, the ULPDU given as hexadecimal digits and a number of octets 00 01 02 .. behind them.
 */
void fpdu_hex(struct octets *o, const char *ulpdu, size_t payload);

/*
 * The same with markers, the FPDU being at this position of its direction; word by word, as RFC
 * 5044 4.3 and 4.4 say. xor_ptr damages the pointer of its last marker, before the CRC.
 */
void fpdu_add_marked(struct octets *o, uint64_t pos, const void *ulpdu, size_t n, uint32_t xor_ptr);
void fpdu_hex_marked(struct octets *o, uint64_t pos, const char *ulpdu, size_t payload);

/*
 * Whole FPDUs with markers, the first at position pos, without them and with CRC fields that are
 * right then. Wrong markers, or CRCs (if crc), and half an FPDU fail the test.
 */
void fpdu_unmark(struct octets *o, uint64_t pos, const uint8_t *p, size_t n, bool crc);

/* One FPDU as it stands on the wire. */
struct fpdu {
    const uint8_t *ulpdu;
    size_t ulpdu_len, len; /* len: of the whole FPDU */
    unsigned opcode;
    bool tagged, last;
    uint32_t stag; /* untagged: Invalidate STag */
    uint64_t to;
    uint32_t qn, msn, mo;
    const uint8_t *payload;
    size_t payload_len;
};

/*
 * Decode the FPDU at p. False if it is not whole. Wrong padding, versions, reserved bits or CRC
 * (if crc) fail the test.
 */
bool fpdu_decode(const uint8_t *p, size_t n, bool crc, struct fpdu *f);

#endif
