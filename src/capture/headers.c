/* SPDX-License-Identifier: BSD-2-Clause */
/* See headers.h. */
#include "capture/headers.h"

#include "base/bytes.h"

enum { ETHERNET = 14, IPV4 = 20, IPV6 = 40, TCP = 20, SYN_OPTIONS = 8, PROTOCOL_TCP = 6 };

/* So large that no analyser reports a full window; the scale is in both SYNs (RFC 7323). */
enum { WINDOW = 0xffff, WINDOW_SCALE = 14, SEGMENT_SIZE = 65000 };

static size_t ip_size(const struct iwarp_headers *h)
{
    return h->from->v6 ? IPV6 : IPV4;
}

static size_t tcp_size(const struct iwarp_headers *h)
{
    return TCP + (h->flags & IWARP_TCP_SYN ? SYN_OPTIONS : 0);
}

size_t iwarp_headers_size(const struct iwarp_headers *h)
{
    return ETHERNET + ip_size(h) + tcp_size(h);
}

/* RFC 1071, of n octets after others; n is even unless they are the last. */
static uint32_t sum(uint32_t before, const uint8_t *p, size_t n)
{
    uint64_t total = before;

    for (size_t i = 0; i + 1 < n; i += 2) {
        total += iwarp_get_be16(p + i);
    }
    if (n % 2 != 0) {
        total += (uint32_t)p[n - 1] << 8;
    }
    while (total >> 16 != 0) {
        total = (total & 0xffff) + (total >> 16);
    }
    return (uint32_t)total;
}

static void put_ethernet(uint8_t *to, const struct iwarp_headers *h)
{
    memset(to, 0, 12);
    to[0] = to[6] = 0x02; /* locally administered */
    to[5] = (uint8_t)(2 - h->side);
    to[11] = (uint8_t)(1 + h->side);
    iwarp_put_be16(to + 12, h->from->v6 ? 0x86dd : 0x0800);
}

static void put_ip(uint8_t *to, const struct iwarp_headers *h, size_t octets)
{
    memset(to, 0, ip_size(h));
    if (h->from->v6) {
        to[0] = 0x60;
        iwarp_put_be16(to + 4, (uint16_t)octets);
        to[6] = PROTOCOL_TCP;
        to[7] = 64; /* hop limit */
        memcpy(to + 8, h->from->ip, 16);
        memcpy(to + 24, h->to->ip, 16);
    } else {
        to[0] = 0x45;
        iwarp_put_be16(to + 2, (uint16_t)(IPV4 + octets));
        to[6] = 0x40; /* not to be fragmented */
        to[8] = 64;   /* time to live */
        to[9] = PROTOCOL_TCP;
        memcpy(to + 12, h->from->ip, 4);
        memcpy(to + 16, h->to->ip, 4);
        iwarp_put_be16(to + 10, (uint16_t)~sum(0, to, IPV4));
    }
}

/* Payload follows, and IP with the addresses stands in front. */
static void put_tcp(uint8_t *to, const struct iwarp_headers *h, size_t octets)
{
    static const uint8_t options[SYN_OPTIONS] = {2, 4, SEGMENT_SIZE >> 8, SEGMENT_SIZE & 0xff, 1,
                                                 3, 3, WINDOW_SCALE};
    size_t addresses = h->from->v6 ? 32 : 8;

    memset(to, 0, TCP);
    iwarp_put_be16(to, h->from->port);
    iwarp_put_be16(to + 2, h->to->port);
    iwarp_put_be32(to + 4, h->seq);
    iwarp_put_be32(to + 8, h->ack);
    to[12] = (uint8_t)(tcp_size(h) / 4 << 4);
    to[13] = (uint8_t)h->flags;
    iwarp_put_be16(to + 14, WINDOW);
    if (h->flags & IWARP_TCP_SYN) {
        memcpy(to + TCP, options, sizeof options);
    }
    uint32_t pseudo = sum((uint32_t)octets + PROTOCOL_TCP, to - addresses, addresses);
    iwarp_put_be16(to + 16, (uint16_t)~sum(pseudo, to, octets));
}

size_t iwarp_headers_put(uint8_t *end, const struct iwarp_headers *h, size_t len)
{
    uint8_t *tcp = end - tcp_size(h), *ip = tcp - ip_size(h);
    size_t octets = tcp_size(h) + len;

    put_ethernet(ip - ETHERNET, h);
    put_ip(ip, h, octets);
    put_tcp(tcp, h, octets);
    return iwarp_headers_size(h);
}
