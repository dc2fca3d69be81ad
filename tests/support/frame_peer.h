/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer of an interface of lwIP that is nothing but frames: 10.9.0.2, fd00::2. Its segments have
 * the right checksums, and else what a test wants. The interface is 10.9.0.1, fd00::1.
 */
#ifndef TESTS_FRAME_PEER_H
#define TESTS_FRAME_PEER_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#ifdef IWARP_HAVE_LWIP

#define FRAME_PORT 7471 /* of the listener */
#define FRAME_SYN  2
#define FRAME_ACK  16
#define FRAME_FIN  1

extern struct frame_peer {
    uv_loop_t loop; /* the interface's */
    int wire;
    uint8_t mac[6]; /* the interface's */
    uint16_t port, window;
    uint32_t seq, ack;
    uint8_t options[40]; /* of the next segment */
    size_t options_len;
} peer;

extern const struct sockaddr_in peer_calls; /* the listener's address */
extern const uint8_t frame_own_mac[6];      /* the peer's */
extern const uint8_t frame_question[42];    /* the peer's ARP request, to all, for 10.9.0.1 */

void frame_put(uint8_t *p, uint32_t value, int octets);
uint32_t frame_checksum(const uint8_t *p, size_t n, uint32_t sum);

/* The text of a transport over a new wire, whose other end is *link; and a new loop. */
const char *peer_new_wire(int *link);

/* The interface learns the peer's Ethernet address: it sends an ARP request, and the peer sends
 * one. */
void peer_introduce(void);

/* The peer acknowledges, with its next segment, all that it has been sent. */
void peer_run(void);

void peer_send_octets(unsigned flags, uint32_t seq, const void *data, size_t len);
void peer_send(unsigned flags, uint32_t seq, const char *data); /* and peer_run */

/* The next segment says so. */
void peer_put_mss(uint16_t mss);

void peer_connect(uint16_t port);

#endif
#endif
