/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a peer can have lwIP keep: segments out of order, and connections that have ended. The peer
 * is nothing but frames, and lwIP's own lists are counted.
 */
#include "octets.h"
#include "progress.h"
#include "verbs_pair.h"

#include <stdio.h>

#ifdef IWARP_HAVE_LWIP

#include "transport/lwip/core.h"

#include <arpa/inet.h>
#include <lwip/priv/tcp_priv.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#define PORT 7471
#define SYN  2
#define ACK  16
#define FIN  1

static const uint8_t own[6] = {2, 0, 0, 0, 0, 9};
static uint8_t mac[6]; /* the device's */
static struct iwarp_device *device;
static struct iwarp_eq *eq;
static struct iwarp_listener *listener;
static uv_loop_t loop;
static int wire;

static struct {
    uint16_t port;
    uint32_t seq, ack;
} peer;

static void put(uint8_t *p, uint32_t value, int octets)
{
    while (octets-- > 0) {
        p[octets] = (uint8_t)value;
        value >>= 8;
    }
}

static uint32_t get(const uint8_t *p, int octets)
{
    uint32_t value = 0;

    while (octets-- > 0) {
        value = value << 8 | *p++;
    }
    return value;
}

static uint32_t checksum(const uint8_t *p, size_t n, uint32_t sum)
{
    for (size_t i = 0; i < n; i++) {
        sum += i % 2 ? p[i] : (uint32_t)p[i] << 8;
    }
    sum = (sum >> 16) + (sum & 0xffff);
    return ~(sum + (sum >> 16)) & 0xffff;
}

/* The peer acknowledges, with its next segment, all that the device has sent it. */
static void run(void)
{
    uint8_t f[2000];
    ssize_t n;

    uv_run(&loop, UV_RUN_NOWAIT);
    while ((n = recv(wire, f, sizeof f, MSG_DONTWAIT)) > 0) {
        memcpy(mac, f + 6, 6);
        if (n < 54 || get(f + 12, 2) != 0x0800 || f[23] != 6 || get(f + 36, 2) != peer.port) {
            continue;
        }
        uint32_t len =
            get(f + 16, 2) - 20 - (f[46] >> 4) * 4u + (f[47] & SYN ? 1 : 0) + (f[47] & FIN);
        peer.ack = get(f + 38, 4) + len;
    }
}

static void send_segment(unsigned flags, uint32_t seq, const char *data)
{
    size_t len = strlen(data), n = 54 + len;
    uint8_t f[100] = {0};
    uint32_t pseudo = 6 + 20 + (uint32_t)len;

    memcpy(f, mac, 6);
    memcpy(f + 6, own, 6);
    put(f + 12, 0x0800, 2);
    f[14] = 0x45;
    put(f + 16, (uint32_t)n - 14, 2);
    f[22] = 64;
    f[23] = 6;
    put(f + 26, 0x0a090002, 4);
    put(f + 30, 0x0a090001, 4);
    put(f + 24, checksum(f + 14, 20, 0), 2);
    put(f + 34, peer.port, 2);
    put(f + 36, PORT, 2);
    put(f + 38, seq, 4);
    put(f + 42, flags & ACK ? peer.ack : 0, 4);
    f[46] = 0x50;
    f[47] = (uint8_t)flags;
    put(f + 48, 65535, 2);
    memcpy(f + 54, data, len);
    for (int i = 26; i < 34; i += 2) {
        pseudo += get(f + i, 2);
    }
    put(f + 50, checksum(f + 34, n - 34, pseudo), 2);
    assert_int_equal(send(wire, f, n, 0), n);
    run();
}

static void connect_from(uint16_t port)
{
    peer.port = port;
    peer.seq = 1000;
    send_segment(SYN, peer.seq++, "");
    send_segment(ACK, peer.seq, "");
}

/* The device asks who has the peer's address, and learns it by a question of the peer. */
static void open_device(void)
{
    static const uint8_t question[] = {8, 6, 0, 1, 8, 0, 6, 4, 0, 1};
    const struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = htonl(0x0a090001)};
    struct iwarp_device_options o;
    uint8_t f[42];
    char text[60];
    int link[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, link), 0);
    wire = link[1];
    snprintf(text, sizeof text, "lwip:fd=%d,addr=10.9.0.1/24", link[0]);
    uv_loop_init(&loop);
    iwarp_device_options_init(&o);
    o.transport = text;
    o.progress = IWARP_PROGRESS_EMBEDDED;
    o.loop = &loop;
    o.workers = 1;
    must(iwarp_device_open(&o, &device));
    must(iwarp_eq_create(device, &eq));
    must(iwarp_listen(device, (const struct sockaddr *)&at, sizeof at, NULL, 128, eq, NULL,
                      &listener));
    memset(f, 0xff, 6);
    memcpy(f + 6, own, 6);
    memcpy(f + 12, question, sizeof question);
    memcpy(f + 22, own, 6);
    put(f + 28, 0x0a090002, 4);
    memset(f + 32, 0, 6);
    put(f + 38, 0x0a090001, 4);
    assert_int_equal(send(wire, f, sizeof f, 0), sizeof f);
    for (int i = 0; i < 100 && mac[0] == 0; i++) {
        run();
        usleep(1000);
    }
    run();
}

static void close_device(void)
{
    must(iwarp_listener_close(listener));
    must(iwarp_eq_destroy(eq));
    must(iwarp_device_close(device));
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    close(wire);
}

static unsigned count(const struct tcp_pcb *pcb)
{
    unsigned n = 0;

    for (; pcb; pcb = pcb->next) {
        n++;
    }
    return n;
}

/* Those nearest to what is missing are kept: once it comes, they count. */
static void octets__out_of_order__are_kept_as_far_as_the_bound(void **state)
{
    (void)state;
    open_device();
    connect_from(2000);
    for (uint32_t i = 0; i < 2 * IWARP_LW_OUT_OF_ORDER; i++) {
        send_segment(ACK, peer.seq + 1 + 2 * i, "D");
    }
    LOCK_TCPIP_CORE();
    unsigned kept = 0;
    for (const struct tcp_seg *seg = tcp_active_pcbs->ooseq; seg; seg = seg->next) {
        kept++;
    }
    uint32_t expected = tcp_active_pcbs->rcv_nxt;
    UNLOCK_TCPIP_CORE();
    assert_in_range(kept, IWARP_LW_OUT_OF_ORDER / 2, IWARP_LW_OUT_OF_ORDER);
    assert_int_equal(expected, peer.seq);
    send_segment(ACK, peer.seq, "M");
    LOCK_TCPIP_CORE();
    expected = tcp_active_pcbs->rcv_nxt;
    UNLOCK_TCPIP_CORE();
    assert_int_equal(expected, peer.seq + 2);
    close_device();
}

/* Refused at once, since no start-up begins with an X. */
static void connections__that_have_ended__are_remembered_as_far_as_the_bound(void **state)
{
    (void)state;
    for (unsigned orphans = 0; orphans < 2; orphans++) {
        open_device();
        for (unsigned i = 0; i < IWARP_LW_LEFT_OVER + 300; i++) {
            connect_from((uint16_t)(2000 + i));
            send_segment(ACK, peer.seq, "X");
            if (!orphans) {
                send_segment(ACK | FIN, peer.seq + 1, "");
            }
        }
        LOCK_TCPIP_CORE();
        unsigned waiting = count(tcp_tw_pcbs), active = count(tcp_active_pcbs);
        UNLOCK_TCPIP_CORE();
        assert_in_range(orphans ? active : waiting, IWARP_LW_LEFT_OVER - 100, IWARP_LW_LEFT_OVER);
        close_device();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(octets__out_of_order__are_kept_as_far_as_the_bound),
        cmocka_unit_test(connections__that_have_ended__are_remembered_as_far_as_the_bound),
    };
    return cmocka_run_group_tests_name("lwip_bounds", tests, NULL, NULL);
}

#else

int main(void)
{
    puts("built without lwIP");
    return 77;
}

#endif
