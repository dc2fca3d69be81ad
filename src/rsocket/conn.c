/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a connection needs: memory, queues, the two private data; and what its end means.
 */
#include "rsocket/rs.h"

#include "base/fault.h"
#include "base/pages.h"

#include <errno.h>
#include <stdlib.h>

_Thread_local const struct rs *rs_posting;

/*
 * Completions wake up. Called with locks of the library held. A call that posts holds the socket's
 * lock, and looks when it gives that back.
 */
static void on_completion(void *arg)
{
    struct rs *s = arg;

    rs_wake(s);
    if (!atomic_load(&s->watched) && !atomic_load(&s->keeps)) {
        return;
    }
    if (rs_posting == s) {
        atomic_store(&s->look, true);
    } else {
        rs_due(s);
    }
}

static uint32_t receives(const struct rs *s)
{
    return s->rq_size + RS_MORE_RECEIVES;
}

/* Each data message is a Write and a Send, and so is a half of the buffer that is lent. */
static uint32_t sends(const struct rs *s)
{
    return 2 * (s->sq_size + RS_SPARE) + 2;
}

static enum iwarp_status make_memory(struct rs *s)
{
    const unsigned local = IWARP_ACCESS_LOCAL_WRITE, by_peer = local | IWARP_ACCESS_REMOTE_WRITE;
    size_t messages = receives(s) * sizeof *s->messages;
    enum iwarp_status status = IWARP_OK;

    const size_t send = iwarp_pages_round(s->send_len);
    s->buffers_len = send + rs_halves_len(s);
    s->send = s->buffers = iwarp_pages_map(s->buffers_len, false);
    s->messages = calloc(1, messages);
    s->shared = calloc(1, rs_shared_len(s));
    s->map = calloc(s->map_size + 1, sizeof *s->map);
    if (!s->send || !s->messages || !s->shared || !s->map) {
        return IWARP_NO_MEMORY;
    }
    const struct part {
        void *at;
        size_t len;
        unsigned access;
        struct iwarp_mr **mr;
    } parts[] = {{s->send, s->send_len, 0, &s->send_mr},
                 {s->messages, messages, local, &s->messages_mr},
                 {s->shared, rs_shared_len(s), by_peer, &s->targets_mr}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts && status == IWARP_OK; i++) {
        status = iwarp_mr_register(s->pd, parts[i].at, parts[i].len, parts[i].access, parts[i].mr);
    }
    return status == IWARP_OK ? rs_halves_make(s, s->buffers + send) : status;
}

static enum iwarp_status make_queues(struct rs *s)
{
    static struct compat_owner nobody; /* no program gets asynchronous events of it */
    struct iwarp_qp_options options;
    enum iwarp_status status =
        iwarp_cq_create(s->device, sends(s) + receives(s) + RS_MORE_RECEIVES, s, &s->cq);

    if (status == IWARP_OK) {
        status = iwarp_cq_notify_by(s->cq, on_completion, s);
    }
    if (status != IWARP_OK) {
        return status;
    }
    iwarp_qp_options_init(&options);
    options.send_cq = options.recv_cq = s->cq;
    options.max_send_wr = sends(s);
    options.max_recv_wr = receives(s);
    options.max_send_sge = options.max_recv_sge = 1;
    options.access = IWARP_ACCESS_REMOTE_WRITE;
    options.user = &nobody;
    return iwarp_qp_create(s->pd, &options, &s->qp);
}

static void begin(struct rs *s)
{
    s->send_at = s->controls = s->kept = 0;
    s->owes_end = s->told_kept = s->peer_keeps = false;
    s->send_free = s->send_len;
    s->sends_free = s->sq_size;
    s->sent = s->may_send = s->granted_at = s->taken = 0;
    s->target = 0;
    s->next_target = 1; /* entry 0 is in the private data */
    s->peer_target = 1;
    rs_halves_begin(s);
    s->error = s->start_up = 0;
    s->read_over = s->write_over = s->told_end = s->heard_end = s->dead = s->ended = false;
}

int rs_prepare(struct rs *s)
{
    enum iwarp_status status;

    s->device = iwarp_compat_device();
    if (!s->device) {
        return -1;
    }
    status = iwarp_pd_create(s->device, &s->pd);
    if (status == IWARP_OK) {
        status = make_memory(s);
    }
    if (status == IWARP_OK) {
        status = make_queues(s);
    }
    if (status != IWARP_OK) {
        (void)iwarp_compat_failed("rsocket", status, "memory and queues of a connection");
        rs_unprepare(s);
        return -1;
    }
    begin(s);
    if (rs_open_receives(s) != 0) {
        rs_unprepare(s);
        return -1;
    }
    return 0;
}

static void deregister(struct iwarp_mr **mr)
{
    if (*mr) {
        iwarp_mr_deregister(*mr);
        *mr = NULL;
    }
}

void rs_unprepare(struct rs *s)
{
    int error = errno;

    if (s->conn) {
        iwarp_conn_destroy(s->conn);
        s->conn = NULL;
    }
    if (s->qp) {
        iwarp_qp_destroy(s->qp);
        s->qp = NULL;
    }
    if (s->cq) {
        iwarp_cq_destroy(s->cq);
        s->cq = NULL;
    }
    rs_free_mappings(s);
    deregister(&s->send_mr);
    rs_halves_release(s);
    deregister(&s->messages_mr);
    deregister(&s->targets_mr);
    if (s->pd) {
        iwarp_pd_destroy(s->pd);
        s->pd = NULL;
    }
    iwarp_pages_unmap(s->buffers, s->buffers_len);
    free(s->messages);
    free(s->shared);
    free(s->map);
    s->send = s->buffers = NULL;
    s->messages = NULL;
    s->shared = NULL;
    s->map = NULL;
    errno = error;
}

void rs_options(struct iwarp_conn_options *options)
{
    iwarp_conn_options_init(options);
    /* rsockets have no RDMA Reads, but some start-ups over iWARP begin with one. */
    options->ird = options->ord = 1;
}

size_t rs_hello(const struct rs *s, bool second, uint8_t private_data[RS_PRIVATE_MAX])
{
    struct rs_hello hello = {
        .big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__,
        .credits = (uint16_t)s->rq_open,
        .map_entries = s->map_size,
        .targets = {(uint64_t)(uintptr_t)s->shared, iwarp_mr_stag(s->targets_mr), RS_TARGETS},
        .data = rs_halves_entry(s, 0),
    };

    if (second) {
        hello.second = rs_halves_entry(s, 1);
    }
    return rs_hello_write(private_data, &hello);
}

/* Each end has told the other of both halves. */
static void exchange_second(struct rs *s, const struct rs_entry *peers)
{
    s->targets[1] = *peers;
    s->next_target = s->peer_target = 0;
    rs_halves_lent(s);
}

void rs_connected(struct rs *s, const struct rs_hello *peer)
{
    s->peer_targets = peer->targets;
    s->peer_map = (struct rs_entry){peer->targets.addr + RS_TARGETS * RS_ENTRY_LEN,
                                    peer->targets.stag, peer->map_entries};
    s->targets[0] = peer->data;
    s->targets[1].len = 0;
    if (s->as_tcp && peer->second.len > 0) {
        exchange_second(s, &peer->second);
    }
    s->may_send = peer->credits;
    s->spare = peer->credits > 2 * RS_SPARE ? RS_SPARE : peer->credits / 2;
    s->state = RS_CONNECTED;
    if (atomic_load(&s->watched)) {
        rs_watched(s);
        iwarp_compat_arm_aside(s->cq);
    }
    rs_progress(s);
    rs_wake(s);
}

int rs_error_of(const struct iwarp_fault *f)
{
    if (!f) {
        return 0;
    }
    if ((f->code == IWARP_FAULT_TCP_CONNECT || f->code == IWARP_FAULT_TCP_LOST) &&
        f->detail[0] > 0 && f->detail[0] < 4096) {
        return (int)f->detail[0];
    }
    if (f->code == IWARP_FAULT_TCP_TIMEOUT || f->code == IWARP_FAULT_MPA_TIMEOUT ||
        f->code == IWARP_FAULT_MPA_RETRY_TIMEOUT) {
        return ETIMEDOUT;
    }
    if (f->code == IWARP_FAULT_MPA_KEY || f->code == IWARP_FAULT_MPA_BOTH_INITIATORS ||
        f->code == IWARP_FAULT_MPA_BOTH_RESPONDERS || f->code == IWARP_FAULT_MPA_REVISION) {
        return EPROTO; /* the peer speaks something else */
    }
    return ECONNRESET;
}

/*
 * What TCP's would be. A reset that follows the end of the stream is told to writers alone. A peer
 * that closed while we had no room to send has left octets unread: TCP would reset.
 */
static int error_of_tcp(struct rs *s, int error)
{
    if (error) {
        return s->heard_end ? EPIPE : error;
    }
    if (s->peer_keeps) {
        return ECONNRESET; /* its process was killed, and what it kept was for us */
    }
    return s->kept == 0 && (s->write_over || rs_may_post(s)) ? 0 : ECONNRESET;
}

void rs_over(struct rs *s, int error)
{
    const bool in_order = error == 0 && !s->peer_keeps;

    if (s->state == RS_OVER) {
        return;
    }
    if (s->state == RS_CONNECTING) {
        s->start_up = error ? error : ECONNRESET;
        error = s->start_up;
    } else if (s->as_tcp) {
        error = error_of_tcp(s, error);
    }
    s->state = RS_OVER;
    s->error = error;
    s->dead = error != 0;
    s->heard_end = s->heard_end || in_order;
    s->read_over = true;
    rs_drop_kept(s);
    rs_note_kept(s);
    rs_wake(s);
}

bool rs_take_error(struct rs *s)
{
    if (s->error == 0) {
        return false;
    }
    errno = s->error;
    s->error = 0;
    return true;
}
