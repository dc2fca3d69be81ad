/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FPDUs at the start of TCP segments (RFC 5044 4.5), as the link shows it: two devices of lwIP, and
 * between them a relay that records all frames, loses some and swaps others. Each segment with data
 * begins with an FPDU and ends with one, also when it is sent again. The relay's records are judged
 * by code of their own: octets by sequence number, then FPDUs by their length fields.
 */
#include "octets.h"
#include "progress.h"
#include "verbs_pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef IWARP_HAVE_LWIP

#define FRAME_MAX 2048
#define STREAM    ((size_t)64 << 20) /* the most that one direction may carry */
#define SEGMENTS  400000u
#define MEMORY    ((size_t)1 << 20)

struct segment {
    uint32_t offset, octets; /* of the stream */
};

/* What one end sent. */
struct direction {
    bool begun;
    uint32_t first; /* sequence number of the first octet */
    uint8_t *octets, *border;
    uint32_t end;
    struct segment *segment;
    unsigned segments, again, lost, swapped;
    uint8_t kept[FRAME_MAX]; /* a frame that the next one overtakes */
    size_t kept_len;
};

struct relay {
    int fd[2];
    struct direction from[2];
    struct chance chance;
    unsigned loss; /* one frame of so many is lost; 0: none */
    _Atomic bool stop;
    pthread_t thread;
};

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* An IPv4 TCP segment's data, in *p; its octets. SYN: the stream begins behind it. */
static uint32_t data_of(const uint8_t *frame, struct direction *d, const uint8_t **p,
                        uint32_t *offset)
{
    const uint8_t *ip = frame + 14, *tcp = ip + 4 * (ip[0] & 15);

    if (frame[12] != 8 || frame[13] != 0 || ip[9] != 6) {
        return 0;
    }
    uint32_t header = 4 * (uint32_t)(ip[0] & 15) + 4 * (uint32_t)(tcp[12] >> 4);
    if (tcp[13] & 2) {
        assert_true(!d->begun || d->first == be32(tcp + 4) + 1);
        d->begun = true;
        d->first = be32(tcp + 4) + 1;
        return 0;
    }
    *p = ip + header;
    *offset = be32(tcp + 4) - d->first;
    return ((uint32_t)ip[2] << 8 | ip[3]) - header;
}

static void record(struct direction *d, const uint8_t *frame)
{
    const uint8_t *p = NULL;
    uint32_t offset = 0, n = data_of(frame, d, &p, &offset);

    if (n == 0) {
        return;
    }
    assert_true(offset + n <= STREAM && d->segments < SEGMENTS);
    for (uint32_t i = offset; i < offset + n && i < d->end; i++) {
        assert_int_equal(d->octets[i], p[i - offset]); /* sent again: the same */
    }
    d->again += offset < d->end;
    memcpy(d->octets + offset, p, n);
    d->end = offset + n > d->end ? offset + n : d->end;
    d->segment[d->segments++] = (struct segment){offset, n};
}

/* Lost, if that end has closed. */
static void pass_on(int to, const uint8_t *frame, size_t n)
{
    while (send(to, frame, n, MSG_NOSIGNAL) < 0 && errno == EAGAIN) {
        struct pollfd room = {to, POLLOUT, 0};
        if (poll(&room, 1, 1000) < 0) {
            return;
        }
    }
}

static bool relay_one(struct relay *r, int side)
{
    struct direction *d = &r->from[side];
    uint8_t frame[FRAME_MAX];
    ssize_t n = recv(r->fd[side], frame, sizeof frame, MSG_DONTWAIT);

    if (n <= 0) {
        return false;
    }
    record(d, frame);
    if (r->loss && chance_one_in(&r->chance, r->loss)) {
        d->lost++;
    } else if (r->loss && d->kept_len == 0 && chance_one_in(&r->chance, r->loss)) {
        memcpy(d->kept, frame, (size_t)n);
        d->kept_len = (size_t)n;
        d->swapped++;
    } else {
        pass_on(r->fd[1 - side], frame, (size_t)n);
        if (d->kept_len > 0) {
            pass_on(r->fd[1 - side], d->kept, d->kept_len);
            d->kept_len = 0;
        }
    }
    return true;
}

static void *relay(void *arg)
{
    struct relay *r = arg;

    while (!atomic_load(&r->stop)) {
        struct pollfd fds[2] = {{r->fd[0], POLLIN, 0}, {r->fd[1], POLLIN, 0}};
        poll(fds, 2, 20);
        while (relay_one(r, 0) || relay_one(r, 1)) {
        }
    }
    return NULL;
}

/* Mark where FPDUs begin. The first frame of the stream is the start-up's (RFC 5044 7.1.1). */
static unsigned find_borders(struct direction *d)
{
    uint32_t at = 20 + ((uint32_t)d->octets[18] << 8 | d->octets[19]);
    unsigned fpdus = 0;

    d->border[0] = 1;
    while (at < d->end) {
        d->border[at] = 1;
        uint32_t ulpdu = (uint32_t)d->octets[at] << 8 | d->octets[at + 1];
        at += (2 + ulpdu + 3) / 4 * 4 + 4;
        fpdus++;
    }
    assert_int_equal(at, d->end);
    d->border[at] = 1;
    return fpdus;
}

static void judge(struct direction *d, const char *who)
{
    unsigned fpdus = find_borders(d), largest = 0;

    for (unsigned i = 0; i < d->segments; i++) {
        const struct segment *s = &d->segment[i];
        largest = s->octets > largest ? s->octets : largest;
        if (!d->border[s->offset] || !d->border[s->offset + s->octets]) {
            fail_msg("%s: segment %u of %u octets at %u: %s", who, i, s->octets, s->offset,
                     d->border[s->offset] ? "it ends within an FPDU" : "it begins within an FPDU");
        }
    }
    print_message(
        "%s: %u FPDUs in %u segments of up to %u octets, %u of them sent again, %u frames "
        "lost, %u swapped\n",
        who, fpdus, d->segments, largest, d->again, d->lost, d->swapped);
    assert_true(fpdus > d->segments); /* small ones share a segment */
    assert_true(largest > 1400);
}

/* --- traffic --------------------------------------------------------------------------------- */

struct ends {
    struct iwarp_device *device[2];
    struct iwarp_eq *eq[2];
    struct iwarp_listener *listener;
    struct pair_side side[2];
};

static void relay_open(struct relay *r, struct ends *e, unsigned loss)
{
    memset(r, 0, sizeof *r);
    r->chance.state = chance_seed();
    r->loss = loss;
    for (int i = 0; i < 2; i++) {
        struct iwarp_device_options o;
        char text[64];
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
        snprintf(text, sizeof text, "lwip:fd=%d,addr=10.9.0.%d/24", pair[0], i + 1);
        iwarp_device_options_init(&o);
        o.transport = text;
        must(iwarp_device_open(&o, &e->device[i]));
        must(iwarp_eq_create(e->device[i], &e->eq[i]));
        close(pair[0]);
        r->fd[i] = pair[1];
        r->from[i].octets = calloc(1, STREAM);
        r->from[i].border = calloc(1, STREAM + 1);
        r->from[i].segment = calloc(SEGMENTS, sizeof *r->from[i].segment);
        assert_true(r->from[i].octets && r->from[i].border && r->from[i].segment);
    }
    assert_int_equal(pthread_create(&r->thread, NULL, relay, r), 0);
}

static void connect_ends(struct ends *e)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr("10.9.0.2")};
    struct sockaddr_storage addr;
    struct pair_options o;
    socklen_t len;

    pair_options_init(&o, PAIR_MEMORY);
    o.memory = MEMORY;
    for (int i = 0; i < 2; i++) {
        pair_side_open(&e->side[i], e->device[i], &o);
    }
    must(iwarp_listen(e->device[1], (const struct sockaddr *)&at, sizeof at, &o.conn[1], 8,
                      e->eq[1], NULL, &e->listener));
    must(iwarp_listener_addr(e->listener, &addr, &len));
    must(iwarp_connect(e->side[0].qp, (const struct sockaddr *)&addr, len, &o.conn[0], NULL, 0,
                       e->eq[0], NULL, &e->side[0].conn));
    struct iwarp_event request = pair_event(e->eq[1], IWARP_EVENT_REQUEST);
    e->side[1].conn = request.conn;
    must(iwarp_accept(request.conn, e->side[1].qp, NULL, NULL, 0, NULL));
    pair_event(e->eq[0], IWARP_EVENT_ESTABLISHED);
    pair_event(e->eq[1], IWARP_EVENT_ESTABLISHED);
}

/* Rounds of small and large Writes and Sends from either side, and Reads. */
static void converse(struct ends *e, unsigned rounds, struct chance *c)
{
    enum { AT_ONCE = 24 };

    for (unsigned round = 0; round < rounds; round++) {
        for (int i = 0; i < 2; i++) { /* both before either reads of the other */
            pair_fill(e->side[i].p, MEMORY / 2, round);
        }
        for (int i = 0; i < 2; i++) {
            struct pair_side *s = &e->side[i], *other = &e->side[1 - i];
            for (unsigned k = 0; k < AT_ONCE; k++) {
                size_t n = 1 + chance_size(c, k % 3 ? 200 : 20000), off = k * 20480;
                if (k % 4 == 3) {
                    pair_recv(other, k, MEMORY / 2 + off, 20480);
                    pair_send(s, k, off, n);
                } else if (k % 8 == 6) {
                    pair_read(s, k, MEMORY / 2 + off, n, other, off);
                } else {
                    pair_write(s, k, off, n, other, MEMORY / 2);
                }
            }
        }
        for (int i = 0; i < 2; i++) {
            for (unsigned k = 0; k < AT_ONCE; k++) {
                pair_wc(e->side[i].send_cq, k, IWARP_WC_SUCCESS);
                if (k % 4 == 3) {
                    struct iwarp_wc wc = pair_wc(e->side[1 - i].recv_cq, k, IWARP_WC_SUCCESS);
                    assert_memory_equal(e->side[1 - i].p + MEMORY / 2 + k * 20480,
                                        e->side[i].p + k * 20480, wc.byte_len);
                }
            }
        }
    }
}

static void finish(struct relay *r, struct ends *e)
{
    for (int i = 0; i < 2; i++) {
        must(iwarp_disconnect(e->side[i].conn));
    }
    for (int i = 0; i < 2; i++) {
        must(iwarp_conn_wait_end(e->side[i].conn, PAIR_WAIT_MS));
    }
    must(iwarp_listener_close(e->listener));
    for (int i = 0; i < 2; i++) {
        pair_side_close(&e->side[i]);
        must(iwarp_eq_destroy(e->eq[i]));
        must(iwarp_device_close(e->device[i]));
    }
    atomic_store(&r->stop, true);
    pthread_join(r->thread, NULL);
}

static void run(unsigned loss, unsigned rounds)
{
    static struct relay r;
    struct chance c = {chance_seed()};
    struct ends e;
    unsigned again = 0, lost = 0, swapped = 0;

    relay_open(&r, &e, loss);
    connect_ends(&e);
    converse(&e, rounds, &c);
    finish(&r, &e);
    for (int i = 0; i < 2; i++) {
        judge(&r.from[i], i ? "responder" : "initiator");
        again += r.from[i].again;
        lost += r.from[i].lost;
        swapped += r.from[i].swapped;
        close(r.fd[i]);
        free(r.from[i].octets);
        free(r.from[i].border);
        free(r.from[i].segment);
    }
    assert_true(loss == 0 || (again > 0 && lost > 0 && swapped > 0));
}

static void segments__begin_and_end_with_fpdus(void **state)
{
    (void)state;
    run(0, 60);
}

static void segments__some_lost_and_swapped__do_so_too(void **state)
{
    (void)state;
    run(100, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments__begin_and_end_with_fpdus),
        cmocka_unit_test(segments__some_lost_and_swapped__do_so_too),
    };

    return cmocka_run_group_tests_name("lwip_segments", tests, NULL, NULL);
}

#else

int main(void)
{
    puts("built without lwIP");
    return 77;
}

#endif
