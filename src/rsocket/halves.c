/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receive buffer: two halves that the peer fills in turn. A half that was read is lent again.
 * It is twice as long as before if the program has read all there was meanwhile and the peer has
 * waited, for this half or for the other one, which is longer by now: then each waits for the
 * other, or for what is on its way between them. So the buffer grows as that of a TCP connection
 * does, up to RS_HALF_MAX, and RS_GROWN_MAX in all connections of the process. It does not grow if
 * the program reads too slowly, or has set its length. Where TCP says that the peer is near, it
 * grows up to RS_NEAR_MAX: no more is on its way, and a buffer that is longer than the cache is
 * slower to copy into and out of.
 */
#include "rsocket/rs.h"

#include "base/pages.h"

#include <linux/tcp.h> /* that of the C library, of the same name, has not tcpi_min_rtt */
#include <netinet/in.h>
#include <stddef.h>

/* Nobody waits so long for what is on its way: the peer had nothing to say. */
#define IDLE_NS 1000000000

/* There and back to a near peer: both halves of RS_NEAR_MAX in that time are 4 GB/s. */
#define NEAR_US 500

static _Atomic size_t grown; /* octets beyond the first length, in all halves */

static bool claim(size_t octets)
{
    if (atomic_fetch_add(&grown, octets) + octets <= RS_GROWN_MAX) {
        return true;
    }
    atomic_fetch_sub(&grown, octets);
    return false;
}

/* Memory that has not grown is a part of the socket's mapping, and stays. */
static void release(struct rs_half *half)
{
    if (half->mr) {
        iwarp_mr_deregister(half->mr);
    }
    if (half->grown > 0) {
        iwarp_pages_unmap(half->at, half->len);
        atomic_fetch_sub(&grown, half->grown);
    }
    *half = (struct rs_half){0};
}

static enum iwarp_status enroll(struct rs *s, struct rs_half *half)
{
    return iwarp_mr_register(s->pd, half->at, half->len,
                             IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE, &half->mr);
}

/* The half is free, and the peer has filled it, so it will be used as a whole. If there is no
 * memory it stays as it is. */
static void grow(struct rs *s, struct rs_half *half)
{
    const uint32_t len = 2 * half->len;
    struct rs_half made = {.len = len, .grown = len - s->receive_len / 2};

    if (!claim(made.grown)) {
        return;
    }
    made.at = iwarp_pages_map(len, true);
    if (!made.at || enroll(s, &made) != IWARP_OK) {
        release(&made);
        return;
    }
    if (half->grown == 0) {
        iwarp_pages_drop(half->at, half->len);
    }
    release(half);
    *half = made;
}

size_t rs_halves_len(const struct rs *s)
{
    return 2 * iwarp_pages_round(s->receive_len / 2);
}

enum iwarp_status rs_halves_make(struct rs *s, uint8_t *at)
{
    enum iwarp_status status = IWARP_OK;

    for (size_t i = 0; i < 2 && status == IWARP_OK; i++) {
        s->halves[i] =
            (struct rs_half){.at = at + i * rs_halves_len(s) / 2, .len = s->receive_len / 2};
        status = enroll(s, &s->halves[i]);
    }
    return status;
}

void rs_halves_release(struct rs *s)
{
    release(&s->halves[0]);
    release(&s->halves[1]);
}

/* The first half is lent by the private data, some time before the peer knows it. */
void rs_halves_begin(struct rs *s)
{
    s->halves[0].lent = s->halves[0].len;
    s->arrive = 0;
    s->lend = s->free = 1;
    s->read = (struct rs_place){0, 0};
    s->unread = 0;
}

struct rs_entry rs_halves_entry(const struct rs *s, unsigned which)
{
    const struct rs_half *half = &s->halves[which];

    return (struct rs_entry){(uint64_t)(uintptr_t)half->at, iwarp_mr_stag(half->mr), half->len};
}

/*
 * The peer waits now if the other half is full. It waited for this half if its first message took
 * most of the time since it was lent, and all others little: a peer that is busy with the other
 * half until then takes as long for this one. A message has come when this end has looked.
 */
static bool peer_waits(const struct rs_half *half, const struct rs_half *other)
{
    int64_t first = half->came_ns - half->lent_ns, all = rs_now_ns() - half->lent_ns;

    return other->lent == 0 || (half->lent_ns && first < IDLE_NS && first / 2 > all / 3);
}

static bool is_near(const struct rs *s)
{
    struct tcp_info info;
    socklen_t len = sizeof info;

    return s->as_tcp && iwarp_compat_getsockopt(s->conn, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
           len >= offsetof(struct tcp_info, tcpi_min_rtt) + sizeof info.tcpi_min_rtt &&
           info.tcpi_min_rtt < NEAR_US;
}

void rs_halves_grow(struct rs *s)
{
    struct rs_half *half = &s->halves[s->lend];
    const struct rs_half *other = &s->halves[!s->lend];

    if (half->all_read && !s->heard_end && !s->receive_fixed && half->len <= RS_HALF_MAX / 2 &&
        (half->len < other->len || peer_waits(half, other)) &&
        (half->len < RS_NEAR_MAX || !is_near(s))) {
        grow(s, half);
    }
}

void rs_halves_lent(struct rs *s)
{
    struct rs_half *half = &s->halves[s->lend];

    half->lent = half->len;
    half->lent_ns = rs_now_ns();
    half->all_read = false;
    s->lend = !s->lend;
    s->free--;
}

bool rs_halves_filled(struct rs *s, uint32_t octets)
{
    struct rs_half *half = &s->halves[s->arrive];

    if (octets > half->lent) {
        return false;
    }
    if (half->lent == half->len) {
        half->came_ns = rs_now_ns();
    }
    half->lent -= octets;
    s->unread += octets;
    if (half->lent == 0) {
        s->arrive = !s->arrive;
    }
    return true;
}

bool rs_halves_pass(const struct rs *s, struct rs_place *place, uint32_t octets)
{
    place->at += octets;
    if (place->at < s->halves[place->half].len) {
        return false;
    }
    *place = (struct rs_place){!place->half, 0};
    return true;
}

void rs_halves_took(struct rs *s, uint32_t octets)
{
    s->free += rs_halves_pass(s, &s->read, octets);
    s->unread -= octets;
    if (s->unread == 0) {
        s->halves[0].all_read = s->halves[1].all_read = true;
    }
}
