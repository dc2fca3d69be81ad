/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Made-up Ethernet, IP and TCP headers in front of octets that some transport carried, with right
 * lengths and checksums: RFC 791, RFC 8200, RFC 9293. What the numbers are is the caller's matter.
 */
#ifndef IWARP_CAPTURE_HEADERS_H
#define IWARP_CAPTURE_HEADERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IWARP_HEADERS_MAX (14 + 40 + 20 + 8)

enum iwarp_tcp_flags {
    IWARP_TCP_FIN = 0x01,
    IWARP_TCP_SYN = 0x02,
    IWARP_TCP_RST = 0x04,
    IWARP_TCP_PSH = 0x08,
    IWARP_TCP_ACK = 0x10
};

/* An address of a connection. IPv4: the first four octets of ip, the rest 0. */
struct iwarp_headers_addr {
    bool v6;
    uint16_t port;
    uint8_t ip[16];
};

struct iwarp_headers {
    const struct iwarp_headers_addr *from, *to; /* of one family */
    unsigned side;  /* of the sender: 0 or 1, the last octet of its MAC */
    unsigned flags; /* enum iwarp_tcp_flags */
    uint32_t seq, ack;
};

/*
 * The headers of a segment with len octets of payload, which lie behind: the headers end where
 * payload begins, at `end`, with IWARP_HEADERS_MAX octets of room in front of it. Returns how many
 * octets they are. At most 65000 octets of payload.
 */
size_t iwarp_headers_put(uint8_t *end, const struct iwarp_headers *h, size_t len);

/* How many that will be. */
size_t iwarp_headers_size(const struct iwarp_headers *h);

#endif
