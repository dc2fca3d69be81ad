/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statistics of devices and queue pairs. Streams count in their connections (stream_count.h); what
 * is asked of a device is the sum over its connections and over those that are gone. How streams
 * ended is counted once per stream, here; recalls are counted by the leases of the loops.
 */
#include "verbs/stats.h"
#include "base/process.h"
#include "verbs/conn.h"
#include "verbs/device.h"
#include "verbs/mr.h"
#include "verbs/qp.h"

#include <stdarg.h>
#include <stdio.h>

/* --- counting -------------------------------------------------------------------------------- */

/*
 * The counters are read one by one while streams go on counting, so their sums need not match to
 * the octet. Each one alone is right.
 */
static void add_traffic(struct iwarp_stream_traffic *to, const struct iwarp_stream_traffic *from)
{
    for (unsigned i = 0; i < STREAM_COUNT_OPCODES; i++) {
        iwarp_count(&to->messages[i],
                    atomic_load_explicit(&from->messages[i], memory_order_relaxed));
    }
    iwarp_count(&to->payload, atomic_load_explicit(&from->payload, memory_order_relaxed));
    iwarp_count(&to->fpdus, atomic_load_explicit(&from->fpdus, memory_order_relaxed));
    iwarp_count(&to->octets, atomic_load_explicit(&from->octets, memory_order_relaxed));
}

static void add_counts(struct iwarp_stream_counts *to, const struct iwarp_stream_counts *from)
{
    add_traffic(&to->tx, &from->tx);
    add_traffic(&to->rx, &from->rx);
    iwarp_count(&to->waited, atomic_load_explicit(&from->waited, memory_order_relaxed));
}

/*
 * device.lock keeps readers from seeing the connection both in the list and in `gone`, or in
 * neither.
 */
void iwarp_stats_conn_gone(struct iwarp_conn *conn)
{
    add_counts(&conn->device->stats.gone, &conn->counts);
}

/* Codes beyond the table, which a peer may invent, share its last entry. */
static unsigned code_index(uint64_t code)
{
    return code < IWARP_STATS_CODES ? (unsigned)code : IWARP_STATS_CODES - 1;
}

/*
 * The three codes of a Terminate in one atomic word, so that readers never see parts of two. Bit 24
 * says that there was one: all codes may be 0.
 */
static uint32_t pack_terminate(uint64_t layer, uint64_t etype, uint64_t code)
{
    return 1u << 24 | (uint32_t)(layer & 0xff) << 16 | (uint32_t)(etype & 0xff) << 8 |
           (uint32_t)(code & 0xff);
}

/*
 * The first fault of a stream stays its fault, so an ending is counted in one class only. A
 * Terminate counts as sent once it is framed; the peer may have been gone by then.
 */
void iwarp_stats_stream_ended(struct iwarp_conn *conn)
{
    struct iwarp_device_counts *c = &conn->device->stats;
    const struct iwarp_fault *f = &conn->stream.fault;
    const struct iwarp_fault_row *row = iwarp_fault_row(f->code);

    if (f->code == IWARP_FAULT_MPA_CRC) {
        atomic_fetch_add(&c->crc_errors, 1);
        atomic_store(&conn->ends.crc_error, true);
    } else if (f->code == IWARP_FAULT_DDP_NO_BUFFER || f->code == IWARP_FAULT_DDP_WAITED) {
        atomic_fetch_add(&c->receive_queue_empty, 1);
        atomic_store(&conn->ends.receive_queue_empty, true);
    } else if (f->side == IWARP_SIDE_TRANSPORT) {
        atomic_fetch_add(&c->streams_lost, 1);
        atomic_store(&conn->ends.lost, true);
    }
    if (iwarp_fault_is_terminate(f)) {
        atomic_store(&conn->ends.terminate_received,
                     pack_terminate(f->detail[0], f->detail[1], f->detail[2]));
        if (f->detail[0] < IWARP_STATS_LAYERS && f->detail[1] < IWARP_STATS_ETYPES) {
            atomic_fetch_add(
                &c->terminates_received[f->detail[0]][f->detail[1]][code_index(f->detail[2])], 1);
        } else {
            atomic_fetch_add(&c->terminates_unknown, 1);
        }
    } else if (conn->stream.tx.terminate_framed) {
        atomic_store(
            &conn->ends.terminate_sent,
            pack_terminate((uint64_t)row->layer, (uint64_t)row->etype, (uint64_t)row->code));
        atomic_fetch_add(&c->terminates_sent[row->layer][row->etype][code_index(row->code)], 1);
    }
}

static bool carried(const struct iwarp_stream_traffic *t)
{
    uint64_t n = atomic_load_explicit(&t->payload, memory_order_relaxed);

    for (unsigned i = IWARP_OP_SEND; i < STREAM_COUNT_OPCODES; i++) {
        n += i == IWARP_OP_TERMINATE ? 0
                                     : atomic_load_explicit(&t->messages[i], memory_order_relaxed);
    }
    return n > 0;
}

bool iwarp_stats_used(const struct iwarp_conn *conn)
{
    return carried(&conn->counts.tx) || carried(&conn->counts.rx);
}

/* --- reading --------------------------------------------------------------------------------- */

/* Copy the atomic counters into the plain struct of the application. */
static void read_traffic(struct iwarp_traffic *to, const struct iwarp_stream_traffic *from)
{
    for (unsigned i = 0; i < STREAM_COUNT_OPCODES; i++) {
        to->messages[i] = atomic_load_explicit(&from->messages[i], memory_order_relaxed);
    }
    to->payload = atomic_load_explicit(&from->payload, memory_order_relaxed);
    to->fpdus = atomic_load_explicit(&from->fpdus, memory_order_relaxed);
    to->octets = atomic_load_explicit(&from->octets, memory_order_relaxed);
}

/* The reverse of pack_terminate. */
static struct iwarp_terminate_stats unpack_terminate(uint32_t packed)
{
    return (struct iwarp_terminate_stats){packed >> 24, packed >> 16 & 0xff, packed >> 8 & 0xff,
                                          packed & 0xff};
}

/*
 * Of the queue pair's present connection; what earlier ones counted is in the device's statistics
 * only.
 */
enum iwarp_status iwarp_qp_stats(struct iwarp_qp *qp, struct iwarp_qp_stats *stats)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(qp) || !IWARP_GIVEN(stats)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(qp->pd->device);
    if (stats->size != sizeof *stats) {
        return iwarp_fail(IWARP_MISUSE, "statistics: set size to sizeof(struct iwarp_qp_stats)");
    }
    *stats = (struct iwarp_qp_stats){.size = sizeof *stats};
    iwarp_mutex_lock(&qp->post_lock); /* keeps qp.conn, and so the connection, in place */
    if (qp->conn) {
        read_traffic(&stats->sent, &qp->conn->counts.tx);
        read_traffic(&stats->received, &qp->conn->counts.rx);
        stats->messages_waited = atomic_load(&qp->conn->counts.waited);
        stats->crc_errors = atomic_load(&qp->conn->ends.crc_error);
        stats->receive_queue_empty = atomic_load(&qp->conn->ends.receive_queue_empty);
        stats->streams_lost = atomic_load(&qp->conn->ends.lost);
        stats->terminate_sent = unpack_terminate(atomic_load(&qp->conn->ends.terminate_sent));
        stats->terminate_received =
            unpack_terminate(atomic_load(&qp->conn->ends.terminate_received));
    }
    iwarp_mutex_unlock(&qp->post_lock);
    return IWARP_OK;
}

/* Rare events, kept by the device itself: no lock, no sum over connections. */
static void read_ends(struct iwarp_device_stats *to, struct iwarp_device_counts *from)
{
    to->crc_errors = from->crc_errors;
    to->receive_queue_empty = from->receive_queue_empty;
    to->streams_lost = from->streams_lost;
    to->terminates_unknown = from->terminates_unknown;
    for (unsigned l = 0; l < IWARP_STATS_LAYERS; l++) {
        for (unsigned e = 0; e < IWARP_STATS_ETYPES; e++) {
            for (unsigned c = 0; c < IWARP_STATS_CODES; c++) {
                to->terminates_sent[l][e][c] = from->terminates_sent[l][e][c];
                to->terminates_received[l][e][c] = from->terminates_received[l][e][c];
            }
        }
    }
    to->connects = from->connects;
    to->arrivals = from->arrivals;
    to->established = from->established;
    to->rejected_here = from->rejected_here;
    to->rejected_by_peer = from->rejected_by_peer;
    to->failed = from->failed;
    to->refused = from->refused;
    to->turned_away = from->turned_away;
}

/* Each lease counts its own recalls.  An embedded loop has none. */
static uint64_t read_recalls(const struct iwarp_device *d)
{
    uint64_t recalls = 0;

    for (unsigned i = 0; i < d->workers; i++) {
        recalls += atomic_load_explicit(&d->worker[i].loop.lease.recalls, memory_order_relaxed);
    }
    return recalls;
}

/*
 * Walks all connections with device.lock held: meant for a question now and then, not for each
 * message.
 */
enum iwarp_status iwarp_device_stats(struct iwarp_device *d, struct iwarp_device_stats *stats)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(d) || !IWARP_GIVEN(stats)) {
        return IWARP_MISUSE;
    }
    struct iwarp_stream_counts sum = {.tx = {.payload = 0}};

    IWARP_ON_LOOP(d);
    if (stats->size != sizeof *stats) {
        return iwarp_fail(IWARP_MISUSE,
                          "statistics: set size to sizeof(struct iwarp_device_stats)");
    }
    *stats = (struct iwarp_device_stats){.size = sizeof *stats,
                                         .pds = atomic_load(&d->pds),
                                         .cqs = atomic_load(&d->cqs),
                                         .srqs = atomic_load(&d->stats.srqs),
                                         .qps = atomic_load(&d->stats.qps),
                                         .event_queues = atomic_load(&d->eqs),
                                         .listeners = atomic_load(&d->listeners),
                                         .half_open = atomic_load(&d->startups.count),
                                         .buffer_bytes = atomic_load(&d->budget.used)};
    read_ends(stats, &d->stats);
    stats->recalls = read_recalls(d);
    iwarp_mutex_lock(&d->lock); /* for the list of connections; streams count without it */
    add_counts(&sum, &d->stats.gone);
    for (const struct iwarp_conn *c = d->conns; c; c = c->next) {
        add_counts(&sum, &c->counts);
    }
    stats->connections = d->conn_count;
    stats->regions = d->mr_count;
    iwarp_mutex_unlock(&d->lock);
    read_traffic(&stats->sent, &sum.tx);
    read_traffic(&stats->received, &sum.rx);
    stats->messages_waited = atomic_load(&sum.waited);
    return IWARP_OK;
}

/* --- text ------------------------------------------------------------------------------------ */

/* A growing text in a buffer that may be too small: len counts on, as with snprintf. */
struct text {
    char *buf;
    size_t size, len;
};

/* One line "name value", unless the value is 0: the full list has several hundred names. */
static __attribute__((format(printf, 3, 4))) void line(struct text *t, uint64_t value,
                                                       const char *name, ...)
{
    char full[80];
    va_list args;

    if (value == 0) {
        return;
    }
    va_start(args, name);
    vsnprintf(full, sizeof full, name, args);
    va_end(args);
    size_t room = t->len < t->size ? t->size - t->len : 0;
    int n =
        snprintf(room ? t->buf + t->len : NULL, room, "%s %llu\n", full, (unsigned long long)value);
    t->len += (size_t)n;
}

/* The names follow the RDMAP opcodes (RFC 5040 and 7306, and 14 and 15 of this library); the index
 * is the opcode on the wire. */
static void traffic_text(struct text *t, const char *way, const struct iwarp_traffic *traffic)
{
    static const char *const names[16] = {
        "write",     "read-request", "read-response",  "send",
        "send-inv",  "send-se",      "send-se-inv",    "terminate",
        "immediate", "immediate-se", "atomic-request", "atomic-response",
        "opcode-12", "opcode-13",    "send-imm",       "send-se-imm"};

    for (unsigned i = 0; i < 16; i++) {
        line(t, traffic->messages[i], "%s.%s", way, names[i]);
    }
    line(t, traffic->payload, "%s.payload", way);
    line(t, traffic->fpdus, "%s.fpdus", way);
    line(t, traffic->octets, "%s.octets", way);
}

/* One line for each combination of layer, error type and code that occurred. */
static void terminates_text(struct text *t, const struct iwarp_device_stats *s)
{
    for (unsigned i = 0; i < IWARP_STATS_LAYERS * IWARP_STATS_ETYPES * IWARP_STATS_CODES; i++) {
        unsigned l = i / IWARP_STATS_CODES / IWARP_STATS_ETYPES;
        unsigned e = i / IWARP_STATS_CODES % IWARP_STATS_ETYPES, c = i % IWARP_STATS_CODES;
        line(t, s->terminates_sent[l][e][c], "terminates-sent.%u/%u/%02x", l, e, c);
        line(t, s->terminates_received[l][e][c], "terminates-received.%u/%u/%02x", l, e, c);
    }
    line(t, s->terminates_unknown, "terminates-unknown");
}

/*
 * As snprintf: returns the length of the whole text, so a caller can ask for it with size 0 first.
 * Each name is written once, as a literal, so that it is found by searching for it.
 */
size_t iwarp_device_stats_text(const struct iwarp_device_stats *s, char *buf, size_t size)
{
    struct text t = {buf, size, 0};

    if (size > 0 && !IWARP_GIVEN(buf)) {
        return 0;
    }
    if (size > 0) {
        buf[0] = 0;
    }
    if (!IWARP_GIVEN(s)) {
        return 0;
    }
    traffic_text(&t, "sent", &s->sent);
    traffic_text(&t, "received", &s->received);
    line(&t, s->messages_waited, "messages-waited");
    line(&t, s->crc_errors, "crc-errors");
    line(&t, s->receive_queue_empty, "receive-queue-empty");
    line(&t, s->streams_lost, "streams-lost");
    terminates_text(&t, s);
    line(&t, s->connects, "connects");
    line(&t, s->arrivals, "arrivals");
    line(&t, s->established, "established");
    line(&t, s->rejected_here, "rejected-here");
    line(&t, s->rejected_by_peer, "rejected-by-peer");
    line(&t, s->failed, "failed");
    line(&t, s->refused, "refused");
    line(&t, s->turned_away, "turned-away");
    line(&t, s->recalls, "recalls");
    line(&t, s->pds, "pds");
    line(&t, s->regions, "regions");
    line(&t, s->cqs, "cqs");
    line(&t, s->srqs, "srqs");
    line(&t, s->qps, "qps");
    line(&t, s->event_queues, "event-queues");
    line(&t, s->listeners, "listeners");
    line(&t, s->connections, "connections");
    line(&t, s->half_open, "half-open");
    line(&t, s->buffer_bytes, "buffer-bytes");
    return t.len;
}
