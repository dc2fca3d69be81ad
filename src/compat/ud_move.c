/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams from one native queue pair to the next. Each buffer has one work request at any time,
 * whose wr_id is its address:
 *
 *   outward: receive of the inner queue pair -> send on a way -> receive of the inner one ...
 *   inward:  entry of the shared queue of all ways -> send of the inner one -> entry ...
 *
 * The head in front of a datagram is written anew in place at each step.
 */
#include "base/lead.h"
#include "base/log.h"
#include "compat/ud.h"

#include <string.h>

/* Between two looks at events and time. */
enum { MOVE_MOST = 64 };

/* So many may wait for receives. What comes then is kept, and the ways are not read, until one is
 * posted; or dropped, if for so long none was. */
enum { DELIVERING_MOST = UD_BUFFERS - 16, NO_RECEIVE_MS = 500 };

static bool send_from(struct ud *ud, struct iwarp_qp *qp, struct ud_buffer *b,
                      struct iwarp_send_wr *wr, uint32_t len)
{
    const struct iwarp_sge sge = ud_buffer_piece(ud, b, len);

    wr->wr_id = (uint64_t)(uintptr_t)b;
    wr->flags |= IWARP_WR_SIGNALED;
    wr->sg_list = &sge;
    wr->num_sge = 1;
    return iwarp_post_send(qp, wr, NULL) == IWARP_OK;
}

static void drop(struct ud *ud, struct ud_buffer *b, const char *why)
{
    static struct iwarp_log_limit limit;

    iwarp_log_rarely(&limit, IWARP_LOG_INFO, "verbs", "queue pair 0x%06x drops a datagram: %s",
                     ud->number, why);
    ud->dropped++;
    ud_buffer_lend(ud, b);
}

/* --- to the peer ----------------------------------------------------------------------------- */

static void send_out(struct ud *ud, struct ud_buffer *b, uint32_t len)
{
    struct iwarp_send_wr wr = {.opcode = IWARP_WR_SEND};
    struct ud_to to;

    memcpy(&to, b->octets, sizeof to);
    const struct ud_wire wire = {.qkey = to.qkey,
                                 .imm = to.imm,
                                 .traffic_class = to.traffic_class,
                                 .hop_limit = to.hop_limit,
                                 .has_imm = to.has_imm,
                                 .solicited = to.solicited};
    struct ud_way *way = ud_way_to(ud, &to);
    ud->taken++;
    ud_wire_put(&wire, b->octets);
    if (!way || !send_from(ud, way->qp, b, &wr, len)) {
        drop(ud, b, "no connection to its destination can be made");
        return;
    }
    if (way->queued++ == 0) {
        way->moved_ms = compat_now_ms();
    }
    ud->queued++;
    b->way = way;
}

static void has_left(struct ud *ud, struct ud_buffer *b)
{
    ud->queued--;
    b->way->queued--;
    b->way->moved_ms = compat_now_ms();
    ud_buffer_lend(ud, b);
}

/* --- to the program -------------------------------------------------------------------------- */

/* NULL, or why it may not come in. */
static const char *unwelcome(const struct ud *ud, const uint8_t *octets, uint32_t len,
                             struct ud_wire *w)
{
    if (len < UD_HEAD || !ud_wire_get(octets, w)) {
        return "it is of another layout";
    }
    if (w->qkey != ud->qp->num->set.qkey) {
        return "its Q_Key is not the queue pair's";
    }
    return ud->delivering < DELIVERING_MOST ? NULL : "no receive is posted, and many wait for one";
}

static void send_in(struct ud *ud, struct ud_buffer *b, const struct ud_way *way, uint32_t len)
{
    struct iwarp_send_wr wr = {.opcode = IWARP_WR_SEND_IMM};
    struct ud_wire wire;
    uint32_t index;
    struct ud_note *note;
    const char *why = unwelcome(ud, b->octets, len, &wire);

    if (why || !(note = ud_note_take(ud, &index))) {
        drop(ud, b, why ? why : "too many are received and not polled");
        return;
    }
    note->from = way->number;
    note->imm = wire.imm;
    note->has_imm = wire.has_imm;
    note->packet_type = ud_grh_put(&way->peer, &way->own, &wire, len - UD_HEAD, b->octets);
    wr.imm = index;
    wr.flags = wire.solicited ? IWARP_WR_SOLICITED : 0;
    if (!send_from(ud, ud->inner, b, &wr, len)) {
        ud_note_give_back(ud, index);
        drop(ud, b, "the queue pair has ended");
        return;
    }
    if (ud->delivering++ == 0) {
        ud->delivered_ms = compat_now_ms();
    }
}

static bool program_takes(const struct ud *ud)
{
    return ud->delivering < DELIVERING_MOST || compat_now_ms() < ud->delivered_ms + NO_RECEIVE_MS;
}

/* In the order in which they came. */
static void keep(struct ud *ud, struct ud_buffer *b, const struct ud_way *way, uint32_t len)
{
    ud->kept[ud->kept_count++] = (struct ud_kept){.buffer = b, .way = way, .len = len};
}

static void came_in(struct ud *ud, struct ud_buffer *b, struct ud_way *way, uint32_t len)
{
    way->moved_ms = compat_now_ms();
    if (ud->delivering >= DELIVERING_MOST && program_takes(ud)) {
        keep(ud, b, way, len);
    } else {
        send_in(ud, b, way, len);
    }
}

static void kept_send(struct ud *ud)
{
    unsigned n = 0;

    while (n < ud->kept_count && (ud->delivering < DELIVERING_MOST || !program_takes(ud))) {
        const struct ud_kept k = ud->kept[n++];
        send_in(ud, k.buffer, k.way, k.len);
    }
    ud->kept_count -= n;
    memmove(ud->kept, ud->kept + n, ud->kept_count * sizeof *ud->kept);
}

/* --- completions ----------------------------------------------------------------------------- */

static void on_outward(struct ud *ud, struct ud_buffer *b, const struct iwarp_wc *wc)
{
    if (b->way) {
        has_left(ud, b);
    } else if (wc->status == IWARP_WC_SUCCESS && wc->byte_len >= UD_HEAD) {
        send_out(ud, b, wc->byte_len);
    } /* else the inner one has ended: nothing comes any more until RESET */
}

/* Of what failed, opcode is not valid: a send is one of the inner queue pair. */
static void on_inward(struct ud *ud, struct ud_buffer *b, const struct iwarp_wc *wc)
{
    if (wc->qp == ud->inner) {
        ud->delivering--;
        ud->delivered_ms = compat_now_ms();
        ud_buffer_lend(ud, b);
        kept_send(ud);
    } else if (wc->status == IWARP_WC_SUCCESS) {
        came_in(ud, b, compat_of(iwarp_qp_user(wc->qp), struct ud_way, owner), wc->byte_len);
    } else { /* a message was only half there when its way ended */
        ud_buffer_lend(ud, b);
    }
}

static int take(struct ud *ud)
{
    struct iwarp_wc wc[16];
    int got = iwarp_cq_poll(ud->cq, wc, (int)(sizeof wc / sizeof *wc));

    for (int i = 0; i < got; i++) {
        struct ud_buffer *b = (struct ud_buffer *)(uintptr_t)wc[i].wr_id;
        (b->inward ? on_inward : on_outward)(ud, b, &wc[i]);
    }
    return got > 0 ? got : 0;
}

/* So that no kept one names a way that has gone. */
static void kept_leave(struct ud *ud, const struct ud_way *way)
{
    for (unsigned i = 0; i < ud->kept_count;) {
        struct ud_kept k = ud->kept[i];
        if (k.way != way) {
            i++;
            continue;
        }
        ud->kept_count--;
        memmove(ud->kept + i, ud->kept + i + 1, (ud->kept_count - i) * sizeof *ud->kept);
        drop(ud, k.buffer, "its connection has ended before a receive was posted");
    }
}

int64_t ud_kept_check(struct ud *ud)
{
    kept_send(ud);
    return ud->kept_count > 0 ? ud->delivered_ms + NO_RECEIVE_MS : 0;
}

/* All that are in the queue now. */
static void move_present(struct ud *ud)
{
    for (int most = UD_BUFFERS_MOST; most > 0;) {
        int got = take(ud);
        most = got > 0 ? most - got : 0;
    }
}

bool ud_move(struct ud *ud)
{
    bool armed = false;

    for (int moved = 0; moved < MOVE_MOST;) {
        int got = take(ud);
        if (got == 0 && armed) {
            return false;
        }
        if (got == 0) {
            iwarp_cq_arm_aside(ud->cq);
            armed = true;
        }
        moved += got > 0 ? got : 1;
    }
    return true;
}

/* First what is in the queue, so that none of it is of a way that has gone: that a receive was
 * flushed is known by its completion alone. */
void ud_event(struct ud *ud, const struct iwarp_event *e)
{
    struct ud_way *w = ud_way_of(ud, e->conn);

    if (w && e->type != IWARP_EVENT_ESTABLISHED) {
        move_present(ud);
        kept_leave(ud, w);
        ud_way_over(w);
    }
}
