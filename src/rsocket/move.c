/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completions and what they mean: messages of the peer, room to send. What the peer says is checked
 * against what it was lent.
 */
#include "rsocket/rs.h"

#include <errno.h>
#include <poll.h>

#define BATCH 16

static void broken(struct rs *s, const char *sentence)
{
    int error = errno;

    (void)iwarp_compat_refuse_peer("rsocket", EPROTO, sentence);
    errno = error;
    iwarp_abort(s->conn);
    rs_over(s, EPROTO);
}

/* --- posting --------------------------------------------------------------------------------- */

static int post_receives(struct rs *s, const uint32_t *slots, unsigned count)
{
    struct iwarp_sge sges[BATCH];
    struct iwarp_recv_wr wrs[BATCH];

    for (unsigned i = 0; i < count; i++) {
        sges[i] = (struct iwarp_sge){&s->messages[slots[i]], RS_MESSAGE_LEN,
                                     iwarp_mr_stag(s->messages_mr)};
        wrs[i] = (struct iwarp_recv_wr){i + 1 < count ? &wrs[i + 1] : NULL,
                                        rs_wr_id(RS_OF_RECEIVE, slots[i]), &sges[i], 1, 0};
    }
    return count == 0 || iwarp_post_recv(s->qp, wrs, NULL) == IWARP_OK ? 0 : -1;
}

/* The peer may send so many messages that take a credit. */
static int open_receives(struct rs *s, uint32_t credits)
{
    uint32_t slots[BATCH];

    while (s->posted < credits + RS_MORE_RECEIVES) {
        unsigned count = 0;
        for (; count < BATCH && s->posted + count < credits + RS_MORE_RECEIVES; count++) {
            slots[count] = s->posted + count;
        }
        if (post_receives(s, slots, count) != 0) {
            return rs_fail(ENOMEM);
        }
        s->posted += count;
    }
    s->rq_open = credits;
    return 0;
}

int rs_open_receives(struct rs *s)
{
    const bool few = s->as_tcp && s->rq_size > RS_FIRST_CREDITS;

    s->posted = 0;
    return open_receives(s, few ? RS_FIRST_CREDITS : s->rq_size);
}

int rs_post(struct rs *s, uint64_t id, const void *from, uint32_t len, const struct rs_entry *to,
            bool is_inline, uint32_t message)
{
    struct iwarp_sge data = {(void *)(uintptr_t)from, len,
                             is_inline ? 0 : iwarp_mr_stag(s->send_mr)};
    struct iwarp_sge word = {&message, sizeof message, 0};
    struct iwarp_send_wr send = {.wr_id = id,
                                 .opcode = IWARP_WR_SEND,
                                 .flags = IWARP_WR_SIGNALED | IWARP_WR_INLINE,
                                 .sg_list = &word,
                                 .num_sge = 1};
    struct iwarp_send_wr write = {.next = &send,
                                  .wr_id = id,
                                  .opcode = IWARP_WR_WRITE,
                                  .flags = is_inline ? IWARP_WR_INLINE : 0,
                                  .sg_list = &data,
                                  .num_sge = 1};

    if (len > 0) {
        write.remote_stag = to->stag;
        write.remote_to = to->addr;
    }
    rs_posting = s;
    enum iwarp_status status = iwarp_post_send_together(s->qp, len > 0 ? &write : &send, NULL);
    rs_posting = NULL;
    return status == IWARP_OK ? 0 : -1;
}

bool rs_tell_control(struct rs *s, enum rs_control control)
{
    if (s->told_end || s->state != RS_CONNECTED) {
        return false;
    }
    s->told_end = control == RS_DISCONNECT;
    if (rs_post(s, rs_wr_id(RS_OF_CONTROL, 0), NULL, 0, NULL, true,
                rs_message(RS_CONTROL, control))) {
        return false;
    }
    s->controls++;
    return true;
}

/* Two are kept for what has to be told. */
bool rs_may_control(const struct rs *s)
{
    return s->controls < RS_SPARE - 2;
}

/* --- credits --------------------------------------------------------------------------------- */

/* Credits that the peer has used since it got some. */
static uint16_t used(const struct rs *s)
{
    return (uint16_t)(s->taken - s->granted_at);
}

/* Half of the buffer is lent anew when it is free; credits go with it, or alone when half of them
 * are used up. */
static bool owes_credits(const struct rs *s)
{
    return s->state == RS_CONNECTED && !s->told_end && (s->free > 0 || used(s) >= s->rq_open / 2);
}

/* True: a half was lent, and the other one may be free, too. */
static bool give_credits(struct rs *s)
{
    bool lend = s->free > 0;
    struct rs_entry entry, to = s->peer_targets;

    if (!owes_credits(s) || !rs_may_control(s)) {
        return false;
    }
    if (s->rq_open < s->rq_size && used(s) >= s->rq_open / 2) {
        (void)open_receives(s, s->rq_size);
    }
    if (lend) {
        rs_halves_grow(s);
        entry = rs_halves_entry(s, s->lend);
    }
    to.addr += (uint64_t)s->peer_target * RS_ENTRY_LEN;
    if (rs_post(s, rs_wr_id(RS_OF_CONTROL, 0), &entry, lend ? sizeof entry : 0, &to, true,
                rs_message(RS_CREDITS, (uint16_t)(s->taken + s->rq_open))) != 0) {
        return false;
    }
    s->controls++;
    s->granted_at = s->taken;
    if (lend) {
        rs_halves_lent(s);
        s->peer_target = (s->peer_target + 1) % RS_TARGETS;
    }
    return lend;
}

/* --- messages of the peer -------------------------------------------------------------------- */

/* A message that takes a credit. Its credit may go back at once: the receive is posted again, and
 * what the peer may write is bounded by what it was lent. */
static bool takes_credit(struct rs *s)
{
    if (used(s) >= s->rq_open) {
        broken(s, "the peer has sent more messages than it has credits for");
        return false;
    }
    s->taken++;
    return true;
}

/* Nobody reads here any more, and the peer may be in a write. Without a reset, which TCP sends,
 * too, each end would wait for the other. */
static void refuse_data(struct rs *s)
{
    s->owes_end = false;
    rs_drop_kept(s);
    iwarp_abort(s->conn);
    rs_over(s, ECONNRESET);
}

static void hear_data(struct rs *s, uint32_t octets)
{
    if (s->owes_end && s->read_over) {
        refuse_data(s);
        return;
    }
    if (octets == 0 || !rs_halves_filled(s, octets)) {
        broken(s, "the peer has written more than was lent to it, or nothing");
        return;
    }
    s->arrived++;
}

/* The peer writes its entries in turn, one for a message at most. The one after the next may be
 * half written, whatever its length says. */
static void take_targets(struct rs *s)
{
    struct rs_entry *entry = &s->shared->targets[s->next_target];

    if (s->targets[s->next_target].len == 0 && __atomic_load_n(&entry->len, __ATOMIC_ACQUIRE) > 0) {
        s->targets[s->next_target] = *entry;
        entry->len = 0; /* not of an entry that is empty: the peer may be writing it now */
        s->next_target = (s->next_target + 1) % RS_TARGETS;
    }
}

/* A queue may have 65535 entries, so a count says nothing by its sign: what matters is how many
 * messages it leaves to be sent. */
static void hear_credits(struct rs *s, uint16_t may_send)
{
    if ((uint16_t)(may_send - s->sent) < rs_credits(s)) {
        broken(s, "the peer takes credits back");
        return;
    }
    s->may_send = may_send;
    take_targets(s);
}

static void hear_control(struct rs *s, uint32_t value)
{
    s->peer_keeps = value == RS_KEEPS; /* the others come behind all that was kept */
    if (value == RS_DISCONNECT || (value == RS_NO_MORE && s->write_over && !rs_keeps(s))) {
        rs_over(s, 0);
    } else if (value == RS_NO_MORE) {
        s->heard_end = s->read_over = true; /* what is kept goes out yet */
    }
}

static void hear_map(struct rs *s, uint32_t index)
{
    if (index >= s->map_size) {
        broken(s, "the peer has written beyond the I/O map");
    } else {
        rs_hear_mapping(s, index);
    }
}

static void hear(struct rs *s, uint32_t message, uint32_t octets)
{
    uint32_t value = rs_message_value(message);

    if (octets != RS_MESSAGE_LEN) {
        broken(s, "a message of the peer has not 4 octets");
        return;
    }
    switch (rs_message_type(message)) {
    case RS_DATA:
        if (takes_credit(s)) {
            hear_data(s, value);
        }
        break;
    case RS_CREDITS:
        hear_credits(s, (uint16_t)value);
        break;
    case RS_MAP:
        if (takes_credit(s)) {
            hear_map(s, value);
        }
        break;
    case RS_CONTROL:
        hear_control(s, value);
        break;
    default:
        broken(s, "a message of the peer is of no known type");
        break;
    }
}

/* --- completions ----------------------------------------------------------------------------- */

static void sent(struct rs *s, const struct iwarp_wc *wc)
{
    if ((wc->wr_id & RS_OF_MASK) == RS_OF_CONTROL) {
        s->controls--;
    } else {
        s->send_free += (uint32_t)(wc->wr_id >> 3);
        s->sends_free++;
    }
}

/* The receives to be posted again, and how many there are. */
struct again {
    uint32_t slots[BATCH];
    unsigned count;
};

static void completed(struct rs *s, const struct iwarp_wc *wc, struct again *again)
{
    uint32_t slot = (uint32_t)(wc->wr_id >> 3);

    if (wc->status != IWARP_WC_SUCCESS) {
        rs_over(s, rs_error_of(wc->fault));
    } else if ((wc->wr_id & RS_OF_MASK) != RS_OF_RECEIVE) {
        sent(s, wc);
    } else if (s->state == RS_CONNECTED) {
        hear(s, s->messages[slot], wc->byte_len);
        again->slots[again->count++] = slot;
    }
}

void rs_has_read(struct rs *s)
{
    if (owes_credits(s)) {
        rs_progress(s);
    }
}

void rs_progress(struct rs *s)
{
    struct iwarp_wc wc[BATCH];
    bool any = false;
    int n = BATCH; /* fewer: the queue was empty then; if it is armed, what comes later is told */

    /* A message that comes before the private data are known stays in the queue. */
    if (!s->cq || s->state == RS_OPEN) {
        return;
    }
    while (n == BATCH && s->state != RS_CONNECTING) {
        struct again again = {.count = 0};
        n = iwarp_cq_poll(s->cq, wc, BATCH);
        for (int i = 0; i < n; i++) {
            completed(s, &wc[i], &again);
        }
        (void)post_receives(s, again.slots, again.count);
        any = any || n > 0;
    }
    rs_tell_mappings(s); /* before what the program has written behind them */
    rs_send_kept(s);
    while (give_credits(s)) {
    }
    if (any) {
        rs_wake(s);
    }
}

_Thread_local bool rs_carries;

bool rs_may_read(struct rs *s)
{
    return s->unread > 0 || s->read_over || rs_is_others(s) ||
           (s->state != RS_CONNECTED && s->state != RS_CONNECTING);
}

static bool is_hung_up(const struct rs *s)
{
    if (s->as_tcp) {
        return s->dead || (s->read_over && s->write_over);
    }
    return s->state == RS_OVER && s->unread == 0; /* rstream takes it for the end of all data */
}

short rs_events(struct rs *s)
{
    short events = 0;

    if (s->state == RS_LISTENING) {
        return s->requests ? POLLIN | POLLRDNORM : 0;
    }
    if (s->state == RS_OPEN) {
        return POLLOUT | POLLWRNORM | POLLHUP;
    }
    if (s->state == RS_CONNECTING) {
        return 0;
    }
    if (rs_may_read(s)) {
        events |= POLLIN | POLLRDNORM;
    }
    if (rs_is_writable(s)) {
        events |= POLLOUT | POLLWRNORM;
    }
    if (s->read_over) {
        events |= POLLRDHUP;
    }
    if (is_hung_up(s)) {
        events |= POLLHUP;
    }
    if (s->error) {
        events |= POLLERR;
    }
    return events;
}
