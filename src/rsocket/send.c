/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The send buffer, a ring. What a program writes is taken at once, as TCP takes it, and posted as
 * far as the peer has lent memory and given credits. The rest, the newest octets of the ring, is
 * `kept`, so that small writes become one message. What completes later has it posted: by a call
 * that looks at the queue, or by the thread that runs the loop, since the program may be anywhere.
 */
#include "rsocket/rs.h"

#include "base/process.h"

#include <errno.h>
#include <unistd.h>

#define AWAIT_MS 10000

static _Atomic unsigned keeping; /* sockets with `keeps` */

/* Octets of one message: the peer reads the first while the next comes. */
#define PIECE_MAX 131072u

uint16_t rs_credits(const struct rs *s)
{
    return (uint16_t)(s->may_send - s->sent);
}

bool rs_may_post(const struct rs *s)
{
    return s->sends_free > 0 && rs_credits(s) > s->spare && s->targets[s->target].len > 0;
}

/* What is written now goes nowhere: the caller learns why. */
static bool is_over(const struct rs *s)
{
    return s->state != RS_CONNECTED || s->write_over;
}

bool rs_may_send(struct rs *s)
{
    return s->state != RS_CONNECTING && (is_over(s) || s->send_free > 0);
}

/* What is kept comes first in the ring, so it has to be gone. */
bool rs_may_write(struct rs *s)
{
    return s->state != RS_CONNECTING &&
           (is_over(s) || (s->kept == 0 && s->send_free > 0 && rs_may_post(s)));
}

/* As TCP: a program that polls may write a piece of some length without waiting. */
bool rs_is_writable(const struct rs *s)
{
    return s->state != RS_CONNECTING && (is_over(s) || s->send_free >= s->send_len / 3);
}

uint8_t *rs_room(struct rs *s, uint32_t *octets)
{
    if (s->send_free == s->send_len) {
        s->send_at = 0; /* what was used last is in the cache */
    }
    *octets = rs_least(rs_least(s->send_free, s->send_len - s->send_at), PIECE_MAX);
    return s->send + s->send_at;
}

void rs_take_room(struct rs *s, uint32_t octets)
{
    s->send_at = (s->send_at + octets) % s->send_len;
    s->send_free -= octets;
}

static bool post_piece(struct rs *s)
{
    struct rs_entry *target = &s->targets[s->target], to = *target;
    const uint32_t at = (s->send_at + s->send_len - s->kept) % s->send_len;
    const uint32_t octets =
        rs_least(rs_least(s->kept, s->send_len - at), rs_least(to.len, PIECE_MAX));

    if (rs_post(s, rs_wr_id(RS_OF_DATA, octets), s->send + at, octets, &to, false,
                rs_message(RS_DATA, octets)) != 0) {
        return false;
    }
    target->addr += octets; /* our copy: the peer writes another one */
    target->len -= octets;
    if (target->len == 0) {
        s->target = (s->target + 1) % RS_TARGETS;
    }
    s->kept -= octets;
    s->sends_free--;
    s->sent++;
    return true;
}

bool rs_keeps(const struct rs *s)
{
    return s->state == RS_CONNECTED && (s->kept > 0 || s->owes_end);
}

void rs_drop_kept(struct rs *s)
{
    s->send_at = (s->send_at + s->send_len - s->kept) % s->send_len;
    s->send_free += s->kept;
    s->kept = 0;
}

/* Should this process be killed, its peer takes no part for the whole. */
static bool tell_kept(struct rs *s)
{
    const bool keeps = s->kept > 0;

    if (s->as_tcp && keeps != s->told_kept && rs_may_control(s) &&
        rs_tell_control(s, keeps ? RS_KEEPS : RS_KEEPS_NOTHING)) {
        s->told_kept = keeps;
    }
    return s->told_kept && !s->told_end;
}

/* The program may make no call any more: from now on each completion has the socket looked at, and
 * one that has come already with this thread's unlocking. */
void rs_note_kept(struct rs *s)
{
    const bool told = tell_kept(s), keeps = rs_keeps(s) || (told && s->state == RS_CONNECTED);

    if (atomic_exchange(&s->keeps, keeps) == keeps) {
        return;
    }
    if (keeps) {
        atomic_fetch_add(&keeping, 1);
        atomic_store(&s->look, true);
    } else {
        atomic_fetch_sub(&keeping, 1);
    }
}

bool rs_some_keep(void)
{
    return atomic_load(&keeping) > 0;
}

void rs_await_kept(void)
{
    IWARP_UNCANCELLED;
    const uint64_t until = rs_now_ms() + AWAIT_MS;

    while (rs_some_keep() && rs_now_ms() < until) {
        usleep(1000);
    }
}

void rs_send_in_child(void)
{
    atomic_store(&keeping, 0);
}

void rs_send_kept(struct rs *s)
{
    if (s->state == RS_CONNECTED) {
        while (s->kept > 0 && rs_may_post(s) && post_piece(s)) {
        }
        if (s->kept == 0 && s->owes_end) {
            s->owes_end = false;
            (void)rs_tell_control(s, s->read_over ? RS_DISCONNECT : RS_NO_MORE);
        }
    }
    rs_note_kept(s);
}

void rs_tell_end(struct rs *s)
{
    s->owes_end = true;
    rs_send_kept(s);
}
