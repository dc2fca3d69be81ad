/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How lwIP sums and copies octets (lwipopts.h): under guard, since they may be the application's,
 * and gone. Then zeros are copied, and whose octets they were is told (core.h).
 */
#include "transport/lwip/own/touch.h"

#include "base/guard.h"
#include "transport/lwip/core.h"

#include <lwip/inet_chksum.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GUARD_LEAST 64 /* headers are lwIP's own */

static bool missed; /* under the core lock */

/*
 * The sum of RFC 1071, in network byte order.  Eight octets at a time into two halves: 2^32 of
 * them fit before a half would overflow.
 */
static uint16_t sum_of(const void *data, size_t n)
{
    const uint8_t *p = data;
    uint64_t sum = 0, other = 0, word;

    for (; n >= 16; n -= 16, p += 16) {
        memcpy(&word, p, sizeof word);
        sum += (word & 0xffffffff) + (word >> 32);
        memcpy(&word, p + 8, sizeof word);
        other += (word & 0xffffffff) + (word >> 32);
    }
    for (; n > 0; n -= n < 8 ? n : 8, p += 8) {
        word = 0;
        memcpy(&word, p, n < 8 ? n : 8);
        sum += (word & 0xffffffff) + (word >> 32);
    }
    sum += other;
    for (int i = 0; i < 4; i++) {
        sum = (sum >> 16 & 0xffffffffffff) + (sum & 0xffff);
    }
    return (uint16_t)sum;
}

struct pass {
    const void *data;
    size_t n;
    uint16_t sum;
};

static void pass(void *arg)
{
    struct pass *p = arg;
    p->sum = sum_of(p->data, p->n);
}

static void missing(const void *octet)
{
    missed = true;
    if (iwarp_lw_on_missing) {
        iwarp_lw_on_missing(octet);
    }
}

uint16_t iwarp_lw_checksum(const void *data, int octets)
{
    struct pass p = {data, (size_t)octets, 0};

    if (octets < GUARD_LEAST) {
        return sum_of(data, p.n);
    }
    if (iwarp_guard_run(data, p.n, pass, &p) != 0) {
        missing(data);
    }
    return p.sum;
}

void iwarp_lw_copy(void *to, const void *from, size_t n)
{
    if (iwarp_guard_copy_from(to, from, n) != 0) {
        memset(to, 0, n);
        missing(from);
    }
}

bool iwarp_lw_missed(void)
{
    bool was = missed;

    missed = false;
    return was;
}
