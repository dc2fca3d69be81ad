/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Initial sequence numbers by RFC 6528: a clock of 4 us, and a keyed hash (SipHash-2-4) of the
 * connection's addresses and ports, so that nobody who has not seen the packets can guess them,
 * and a connection that reuses them begins behind its predecessor.
 */
#include "transport/lwip/own/isn.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

static uint64_t key[2]; /* 0: none yet; under the core lock, as all of lwIP */

static uint64_t turn(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void rounds(uint64_t v[4], int n)
{
    while (n-- > 0) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = turn(v[1], 13) ^ v[0];
        v[3] = turn(v[3], 16) ^ v[2];
        v[0] = turn(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = turn(v[1], 17) ^ v[2];
        v[3] = turn(v[3], 21) ^ v[0];
        v[2] = turn(v[2], 32);
    }
}

/* Of whole words, the last of which says how many they are. */
static uint64_t hash(const uint64_t *word, unsigned n)
{
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
                     key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};

    for (unsigned i = 0; i < n; i++) {
        v[3] ^= word[i];
        rounds(v, 2);
        v[0] ^= word[i];
    }
    v[2] ^= 0xff;
    rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static void put_address(uint64_t word[2], const ip_addr_t *ip)
{
    if (IP_IS_V4(ip)) {
        word[0] = ip_2_ip4(ip)->addr;
    } else {
        memcpy(word, ip_2_ip6(ip)->addr, 16);
    }
}

u32_t iwarp_lw_isn(const ip_addr_t *own, u16_t own_port, const ip_addr_t *peer, u16_t peer_port)
{
    uint64_t word[6] = {0};
    struct timespec ts;

    if (!key[0] && getrandom(key, sizeof key, 0) != sizeof key) {
        iwarp_lw_broken("no random numbers", __FILE__, __LINE__);
    }
    put_address(word, own);
    put_address(word + 2, peer);
    word[4] = (uint64_t)own_port << 16 | peer_port;
    word[5] = (uint64_t)5 << 56;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    uint64_t clock = (uint64_t)ts.tv_sec * 250000u + (uint64_t)ts.tv_nsec / 4000u;
    return (u32_t)(hash(word, 6) + clock);
}
