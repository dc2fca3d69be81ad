/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receive buffer: two halves that the peer fills in turn. A half that was read is lent again,
 * and twice as long as before if the peer has waited for it: then the window is too small for the
 * time that octets and answers are on their way. So it grows as that of a TCP connection does, up
 * to RS_HALF_MAX. Programs that ask for a length by SO_RCVBUF keep that.
 */
#include "rsocket/rs.h"

#include <stdlib.h>

#define NEVER_SO_LONG_NS 1000000000

static void release(struct rs_half *half)
{
    if (half->mr) {
        iwarp_mr_deregister(half->mr);
    }
    free(half->at);
    *half = (struct rs_half){0};
}

/* The half is free, or was never made. If this fails it is as it was. */
static enum iwarp_status make(struct rs *s, struct rs_half *half, uint32_t len)
{
    struct rs_half made = {.at = calloc(1, len), .len = len};
    enum iwarp_status status = IWARP_NO_MEMORY;

    if (made.at) {
        status = iwarp_mr_register(s->pd, made.at, len,
                                   IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE, &made.mr);
    }
    if (status != IWARP_OK) {
        release(&made);
        return status;
    }
    release(half);
    *half = made;
    return IWARP_OK;
}

enum iwarp_status rs_halves_make(struct rs *s)
{
    enum iwarp_status status = make(s, &s->halves[0], s->receive_len / 2);

    return status == IWARP_OK ? make(s, &s->halves[1], s->receive_len / 2) : status;
}

void rs_halves_release(struct rs *s)
{
    release(&s->halves[0]);
    release(&s->halves[1]);
}

static void lend(struct rs_half *half)
{
    half->lent = half->len;
    half->lent_ns = rs_now_ns();
}

/* The first half is lent by the private data. */
void rs_halves_begin(struct rs *s)
{
    lend(&s->halves[0]);
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
 * The peer waits now if the other half is full. It waited for this half if the first message took
 * most of the time since it was lent, and the others little: a peer that is busy with the other
 * half until then takes as long for this one. Longer than NEVER_SO_LONG_NS the program has been
 * idle, and not the peer.
 */
static bool peer_waits(const struct rs_half *half, const struct rs_half *other)
{
    int64_t first = half->came_ns - half->lent_ns, all = rs_now_ns() - half->lent_ns;

    return other->lent == 0 || (first < NEVER_SO_LONG_NS && first / 2 > all / 3);
}

void rs_halves_grow(struct rs *s)
{
    struct rs_half *half = &s->halves[s->lend];

    if (!s->receive_fixed && half->len <= RS_HALF_MAX / 2 &&
        peer_waits(half, &s->halves[!s->lend])) {
        (void)make(s, half, 2 * half->len); /* without memory it is lent as it is */
    }
}

void rs_halves_lent(struct rs *s)
{
    lend(&s->halves[s->lend]);
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
