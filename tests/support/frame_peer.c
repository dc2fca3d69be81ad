/* SPDX-License-Identifier: BSD-2-Clause */
/* See frame_peer.h. */
#include "frame_peer.h"

#ifdef IWARP_HAVE_LWIP

#include "verbs_pair.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const uint8_t frame_own_mac[6] = {2, 0, 0, 0, 0, 9};
struct frame_peer peer = {.window = 65535};

void frame_put(uint8_t *p, uint32_t value, int octets)
{
    while (octets-- > 0) {
        p[octets] = (uint8_t)value;
        value >>= 8;
    }
}

static uint32_t frame_get(const uint8_t *p, int octets)
{
    uint32_t value = 0;

    while (octets-- > 0) {
        value = value << 8 | *p++;
    }
    return value;
}

uint32_t frame_checksum(const uint8_t *p, size_t n, uint32_t sum)
{
    for (size_t i = 0; i < n; i++) {
        sum += i % 2 ? p[i] : (uint32_t)p[i] << 8;
    }
    sum = (sum >> 16) + (sum & 0xffff);
    return ~(sum + (sum >> 16)) & 0xffff;
}

void peer_run(void)
{
    uint8_t f[2000];
    ssize_t n;

    uv_run(&peer.loop, UV_RUN_NOWAIT);
    while ((n = recv(peer.wire, f, sizeof f, MSG_DONTWAIT)) > 0) {
        memcpy(peer.mac, f + 6, 6);
        if (n < 54 || frame_get(f + 12, 2) != 0x0800 || f[23] != 6 ||
            frame_get(f + 36, 2) != peer.port) {
            continue;
        }
        uint32_t len = frame_get(f + 16, 2) - 20 - (f[46] >> 4) * 4u + (f[47] & FRAME_SYN ? 1 : 0) +
                       (f[47] & FRAME_FIN);
        peer.ack = frame_get(f + 38, 4) + len;
    }
}

void peer_send_octets(unsigned flags, uint32_t seq, const void *data, size_t len)
{
    size_t head = 20 + peer.options_len, n = 34 + head + len;
    uint8_t f[1600] = {0};
    uint32_t pseudo = 6 + (uint32_t)(head + len);

    memcpy(f, peer.mac, 6);
    memcpy(f + 6, frame_own_mac, 6);
    frame_put(f + 12, 0x0800, 2);
    f[14] = 0x45;
    frame_put(f + 16, (uint32_t)n - 14, 2);
    f[22] = 64;
    f[23] = 6;
    frame_put(f + 26, 0x0a090002, 4);
    frame_put(f + 30, 0x0a090001, 4);
    frame_put(f + 24, frame_checksum(f + 14, 20, 0), 2);
    frame_put(f + 34, peer.port, 2);
    frame_put(f + 36, FRAME_PORT, 2);
    frame_put(f + 38, seq, 4);
    frame_put(f + 42, flags & FRAME_ACK ? peer.ack : 0, 4);
    f[46] = (uint8_t)(head / 4 << 4);
    f[47] = (uint8_t)flags;
    frame_put(f + 48, peer.window, 2);
    memcpy(f + 54, peer.options, peer.options_len);
    memcpy(f + 34 + head, data, len);
    peer.options_len = 0;
    for (int i = 26; i < 34; i += 2) {
        pseudo += frame_get(f + i, 2);
    }
    frame_put(f + 50, frame_checksum(f + 34, n - 34, pseudo), 2);
    assert_int_equal(send(peer.wire, f, n, 0), n);
}

void peer_send(unsigned flags, uint32_t seq, const char *data)
{
    peer_send_octets(flags, seq, data, strlen(data));
    peer_run();
}

void peer_put_mss(uint16_t mss)
{
    frame_put(peer.options, 2 << 8 | 4, 2);
    frame_put(peer.options + 2, mss, 2);
    peer.options_len = 4;
}

void peer_connect(uint16_t port)
{
    peer.port = port;
    peer.seq = 1000;
    peer_send(FRAME_SYN, peer.seq++, "");
    peer_send(FRAME_ACK, peer.seq, "");
}

const struct sockaddr_in peer_calls = {.sin_family = AF_INET,
                                       .sin_port = __builtin_bswap16(FRAME_PORT),
                                       .sin_addr.s_addr = __builtin_bswap32(0x0a090001)};

const uint8_t frame_question[42] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0,  9, 8, 6,
                                    0,    1,    8,    0,    6,    4,    0, 1, 2, 0, 0,  0, 0, 9,
                                    10,   9,    0,    2,    0,    0,    0, 0, 0, 0, 10, 9, 0, 1};

void peer_introduce(void)
{
    memset(peer.mac, 0, sizeof peer.mac);
    assert_int_equal(send(peer.wire, frame_question, sizeof frame_question, 0),
                     sizeof frame_question);
    for (int i = 0; i < 100 && peer.mac[0] == 0; i++) {
        peer_run();
        usleep(1000);
    }
    peer_run();
}

const char *peer_new_wire(int *link)
{
    static char text[100];
    int both[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, both), 0);
    peer.wire = both[1];
    *link = both[0];
    snprintf(text, sizeof text, "lwip:fd=%d,addr=10.9.0.1/24,addr=fd00::1/64", both[0]);
    uv_loop_init(&peer.loop);
    return text;
}

#endif
