/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzing of what comes from the wire below TCP: frames for an interface of lwIP, with a device
 * that listens on it.  A peer whose segments carry the right addresses, ports, sequence numbers and
 * checksums plays against it; the input says what it sends, and how that is damaged.  Worth most
 * with LWIP_SRC, where lwIP itself is compiled with sanitizers and coverage.
 *
 * Octet 0: bit 0, the peer connects; bit 1, and sends an MPA Request that is accepted.  Then
 * pieces: kind, length, and so many octets.  Kind modulo 4:
 *
 *   0  a frame, but for its destination
 *   1  a segment: flags, two octets each of what is added to sequence number, acknowledgement and
 *      window, octets of options (4 bits), these, payload
 *   2  the same; three octets in front of it are a place, and what is laid over it by exclusive
 *      or, before (bit 7 of the first) or after the checksums
 *   3  nothing: time for the device
 */
#include "fuzz.h"

#include "transport/lwip/core.h"

#include <arpa/inet.h>
#include <errno.h>
#include <iwarp/iwarp.h>
#include <lwip/priv/tcp_priv.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FRAME  1514
#define PORT   7471
#define MEMORY 4096

static const uint8_t own[6] = {2, 0, 0, 0, 0, 0x99};
static const uint8_t request[] = "MPA ID Req Frame\x40\x01\x00\x00";
static uv_loop_t loop;
static struct iwarp_device *device;
static struct iwarp_pd *pd;
static struct iwarp_cq *cq;
static struct iwarp_eq *eq;
static struct iwarp_listener *listener;
static struct iwarp_mr *mr;
static uint8_t memory[MEMORY];
static int wire;

/* What the peer knows. */
static struct {
    uint8_t mac[6]; /* of the device */
    uint16_t port;  /* its own */
    uint32_t seq, ack;
    bool synced; /* ack is known */
} peer;

struct fields {
    uint8_t flags;
    int16_t seq, ack;
    uint16_t window;
    const uint8_t *options, *payload;
    size_t options_len, payload_len;
};

/* --- frames ---------------------------------------------------------------------------------- */

static void put16(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static void put32(uint8_t *p, uint32_t v)
{
    put16(p, v >> 16);
    put16(p + 2, v & 0xffff);
}

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t sum(const uint8_t *p, size_t n, uint32_t s)
{
    for (size_t i = 0; i < n; i++) {
        s += i % 2 ? p[i] : (uint32_t)p[i] << 8;
    }
    return s;
}

static uint32_t folded(uint32_t s)
{
    s = (s >> 16) + (s & 0xffff);
    return ~(s + (s >> 16)) & 0xffff;
}

static void put_checksums(uint8_t *f, size_t n)
{
    put16(f + 24, folded(sum(f + 14, 20, 0)));
    put16(f + 50, folded(sum(f + 34, n - 34, sum(f + 26, 8, 6 + (uint32_t)(n - 34)))));
}

/* Returns its size. */
static size_t segment(uint8_t *f, const struct fields *s)
{
    size_t head = 20 + s->options_len, n = 34 + head + s->payload_len;
    const uint32_t seq = (uint32_t)s->seq, ack = (uint32_t)s->ack; /* they may be negative */

    memset(f, 0, 34 + 20);
    memcpy(f, peer.mac, 6);
    memcpy(f + 6, own, 6);
    put16(f + 12, 0x0800);
    f[14] = 0x45;
    put16(f + 16, (uint32_t)(n - 14));
    f[22] = 64;
    f[23] = 6;
    put32(f + 26, 0x0a090009);
    put32(f + 30, 0x0a090001);
    put16(f + 34, peer.port);
    put16(f + 36, PORT);
    put32(f + 38, peer.seq + seq);
    put32(f + 42, peer.ack + ack);
    f[46] = (uint8_t)(head / 4 << 4);
    f[47] = s->flags;
    put16(f + 48, s->window);
    memcpy(f + 54, s->options, s->options_len);
    memcpy(f + 34 + head, s->payload, s->payload_len);
    put_checksums(f, n);
    return n;
}

/* What the device has sent: the peer learns its address and sequence numbers. */
static void listen_to_wire(void)
{
    uint8_t f[FRAME + 100];
    ssize_t n;

    while ((n = recv(wire, f, sizeof f, MSG_DONTWAIT)) > 0) {
        FUZZ_EXPECT((size_t)n <= FRAME && n >= 14);
        memcpy(peer.mac, f + 6, 6);
        if (n < 54 || f[12] != 8 || f[13] != 0 || f[23] != 6 || f[37] != (uint8_t)peer.port ||
            f[36] != peer.port >> 8) {
            continue;
        }
        size_t head = (size_t)(f[46] >> 4) * 4, len = (size_t)(f[16] << 8 | f[17]) - 20 - head;
        uint32_t end = get32(f + 38) + (uint32_t)len + (f[47] & 2) + (f[47] & 1);
        FUZZ_EXPECT(folded(sum(f + 14, 20, 0)) == 0);
        if (!(f[47] & 4) && (!peer.synced || (int32_t)(end - peer.ack) > 0)) {
            peer.ack = end;
            peer.synced = true;
        }
    }
}

static void run(void)
{
    for (int i = 0; i < 3; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        listen_to_wire();
    }
}

static void send_frame(const uint8_t *f, size_t n)
{
    FUZZ_EXPECT(send(wire, f, n, 0) == (ssize_t)n || errno == EAGAIN);
    run();
}

/* --- the device ------------------------------------------------------------------------------ */

static void accept_one(struct iwarp_conn *conn)
{
    struct iwarp_qp_options o;
    struct iwarp_qp *qp;

    iwarp_qp_options_init(&o);
    o.send_cq = o.recv_cq = cq;
    FUZZ_EXPECT(iwarp_qp_create(pd, &o, &qp) == IWARP_OK);
    struct iwarp_sge sge = {.addr = memory, .len = 64, .lkey = iwarp_mr_stag(mr)};
    const struct iwarp_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
    (void)iwarp_post_recv(qp, &wr, NULL);
    if (iwarp_accept(conn, qp, NULL, NULL, 0, NULL) != IWARP_OK) {
        iwarp_conn_destroy(conn);
        FUZZ_EXPECT(iwarp_qp_destroy(qp) == IWARP_OK);
    }
}

/* Whoever asks is accepted; what has ended is given back. */
static void serve(void)
{
    struct iwarp_event e;
    struct iwarp_wc wc;

    while (iwarp_eq_get(eq, &e, 0) == IWARP_OK) {
        if (e.type == IWARP_EVENT_REQUEST) {
            accept_one(e.conn);
        } else if (e.type == IWARP_EVENT_DISCONNECTED || e.type == IWARP_EVENT_FAILED) {
            struct iwarp_qp *qp = iwarp_conn_qp(e.conn);
            iwarp_conn_destroy(e.conn);
            if (qp) {
                FUZZ_EXPECT(iwarp_qp_destroy(qp) == IWARP_OK);
            }
        }
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    while (iwarp_cq_poll(cq, &wc, 1) == 1) {
    }
}

static bool is_idle(void)
{
    struct iwarp_device_stats stats = {.size = sizeof stats};

    FUZZ_EXPECT(iwarp_device_stats(device, &stats) == IWARP_OK);
    return stats.connections == 0;
}

/* Whatever the input has left behind is ended, so that the next one finds nothing of it. */
static void end_all(void)
{
    LOCK_TCPIP_CORE();
    while (tcp_active_pcbs) {
        tcp_abort(tcp_active_pcbs);
    }
    while (tcp_tw_pcbs) {
        tcp_abort(tcp_tw_pcbs);
    }
    UNLOCK_TCPIP_CORE();
    for (int i = 0; i < 10000 && !is_idle(); i++) {
        run();
        serve();
    }
    FUZZ_EXPECT(is_idle());
}

static void say(uint8_t flags, const uint8_t *payload, size_t n)
{
    uint8_t f[FRAME];
    const struct fields s = {
        .flags = flags, .window = 60000, .options = f, .payload = payload, .payload_len = n};

    send_frame(f, segment(f, &s));
    peer.seq += (uint32_t)n + (flags & 2) + (flags & 1);
}

static void connect_peer(bool asks)
{
    say(2, own, 0);
    if (peer.synced) {
        say(16, own, 0);
        if (asks) {
            say(24, request, sizeof request - 1);
            serve();
            run();
        }
    }
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* A segment by the input's octets; damage: a place, what is laid over it. */
static void play(const uint8_t *p, size_t n, const uint8_t *damage)
{
    uint8_t f[FRAME];
    struct fields s = {0};

    if (n < 8) {
        return;
    }
    s.flags = p[0];
    s.seq = (int16_t)(p[1] << 8 | p[2]);
    s.ack = (int16_t)(p[3] << 8 | p[4]);
    s.window = (uint16_t)(p[5] << 8 | p[6]);
    s.options_len = smaller(p[7] & 15, 10) * 4;
    s.options_len = smaller(s.options_len, (n - 8) / 4 * 4);
    s.options = p + 8;
    s.payload = p + 8 + s.options_len;
    s.payload_len = n - 8 - s.options_len;
    size_t size = segment(f, &s);
    if (damage) {
        size_t at = ((size_t)(damage[0] & 0x7f) + 12) % size;
        f[at] ^= damage[1];
        f[(at + 1) % size] ^= damage[2];
        if (damage[0] & 0x80) {
            put_checksums(f, size);
        }
    }
    send_frame(f, size);
    if (s.seq == 0 && !damage) {
        peer.seq += (uint32_t)s.payload_len + ((s.flags & 1) != 0);
    }
}

static void play_frame(const uint8_t *p, size_t n)
{
    uint8_t f[FRAME];

    memcpy(f, peer.mac, 6);
    n = smaller(n, FRAME - 6);
    memcpy(f + 6, p, n);
    send_frame(f, n + 6);
}

static void play_all(const uint8_t *p, size_t n)
{
    while (n >= 2) {
        size_t len = smaller(p[1], n - 2);
        switch (p[0] % 4) {
        case 0:
            play_frame(p + 2, len);
            break;
        case 1:
            play(p + 2, len, NULL);
            break;
        case 2:
            play(p + 5, len < 3 ? 0 : len - 3, p + 2);
            break;
        default:
            run();
            break;
        }
        serve();
        p += 2 + len;
        n -= 2 + len;
    }
}

/* --- entry points ---------------------------------------------------------------------------- */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    struct iwarp_device_options o;
    struct iwarp_conn_options co;
    char text[100];
    int link[2];

    (void)argc;
    (void)argv;
    setenv("IWARP_LOG", "off", 0);
    FUZZ_EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, link) == 0);
    wire = link[1];
    snprintf(text, sizeof text, "lwip:fd=%d,addr=10.9.0.1/24,addr=fd00::1/64", link[0]);
    FUZZ_EXPECT(uv_loop_init(&loop) == 0);
    iwarp_device_options_init(&o);
    o.transport = text;
    o.progress = IWARP_PROGRESS_EMBEDDED;
    o.loop = &loop;
    o.workers = 1;
    FUZZ_EXPECT(iwarp_device_open(&o, &device) == IWARP_OK);
    FUZZ_EXPECT(iwarp_pd_create(device, &pd) == IWARP_OK);
    FUZZ_EXPECT(iwarp_cq_create(device, 256, NULL, &cq) == IWARP_OK);
    FUZZ_EXPECT(iwarp_eq_create(device, &eq) == IWARP_OK);
    FUZZ_EXPECT(iwarp_mr_register(pd, memory, MEMORY,
                                  IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE |
                                      IWARP_ACCESS_REMOTE_READ,
                                  &mr) == IWARP_OK);
    iwarp_conn_options_init(&co);
    inet_pton(AF_INET, "10.9.0.1", &at.sin_addr);
    FUZZ_EXPECT(iwarp_listen(device, (struct sockaddr *)&at, sizeof at, &co, 16, eq, NULL,
                             &listener) == IWARP_OK);
    run();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Who asks for the peer's address gets it before anything else. */
    static const uint8_t arp[] = {8, 6, 0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 0x99, 10, 9, 0, 9};
    uint8_t f[42] = {0};

    if (size < 1) {
        return 0;
    }
    peer.port = (uint16_t)(1024 + (peer.port + 1) % 60000);
    peer.seq = 1000;
    peer.ack = 0;
    peer.synced = false;
    memcpy(f, peer.mac, 6);
    memcpy(f + 6, own, 6);
    memcpy(f + 12, arp, sizeof arp);
    put32(f + 38, 0x0a090001);
    send_frame(f, sizeof f);
    if (data[0] & 1) {
        connect_peer(data[0] & 2);
    }
    play_all(data + 1, size - 1);
    end_all();
    return 0;
}
