/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The text of metrics.h: in the format of Prometheus, where each name has one type and one
 * sentence, and connections as lines of words NAME=VALUE.
 */
#include "verbs/conn.h"
#include "verbs/device.h"
#include "verbs/metrics.h"
#include "verbs/qp.h"

#include <netdb.h>

/* --- names ----------------------------------------------------------------------------------- */

enum source { COUNTER, GAUGE };

static const struct row {
    const char *name, *help;
    enum source source;
    size_t at;    /* in struct iwarp_device_stats */
    bool is_wide; /* uint64_t or size_t; else unsigned */
} rows[] = {
#define WIDE(name, field, source, help)                                                            \
    {"iwarp_" name, help, source, offsetof(struct iwarp_device_stats, field), true}
#define NARROW(name, field, help)                                                                  \
    {"iwarp_" name, help, GAUGE, offsetof(struct iwarp_device_stats, field), false}
    WIDE("messages_waited_total", messages_waited, COUNTER,
         "messages that came before their receive"),
    WIDE("crc_errors_total", crc_errors, COUNTER, "FPDUs with a wrong CRC32c"),
    WIDE("receive_queue_empty_total", receive_queue_empty, COUNTER,
         "messages that found no receive in time"),
    WIDE("streams_lost_total", streams_lost, COUNTER, "streams that the connection below ended"),
    WIDE("connects_total", connects, COUNTER, "connections that this end began"),
    WIDE("arrivals_total", arrivals, COUNTER, "connections that peers began"),
    WIDE("established_total", established, COUNTER, "connections that were established"),
    WIDE("rejected_here_total", rejected_here, COUNTER, "Requests that this end declined"),
    WIDE("rejected_by_peer_total", rejected_by_peer, COUNTER, "Requests that peers declined"),
    WIDE("failed_total", failed, COUNTER, "start-ups that ended in any other way"),
    WIDE("refused_total", refused, COUNTER, "arrivals that were refused at once"),
    WIDE("turned_away_total", turned_away, COUNTER, "start-ups that made room for newer ones"),
    WIDE("recalls_total", recalls, COUNTER, "times that a worker took its loop back"),
    WIDE("buffer_bytes", buffer_bytes, GAUGE, "memory for FPDUs in pieces, unsent or waiting"),
    NARROW("pds", pds, "protection domains"),
    NARROW("regions", regions, "registered regions"),
    NARROW("cqs", cqs, "completion queues"),
    NARROW("srqs", srqs, "shared receive queues"),
    NARROW("qps", qps, "queue pairs"),
    NARROW("listeners", listeners, "listeners"),
    NARROW("connections", connections, "connections, with those that wait for the end"),
    NARROW("half_open", half_open, "inbound start-ups"),
#undef WIDE
#undef NARROW
};

static const struct {
    const char *name, *help;
} sums_names[] = {{"iwarp_payload_bytes_total", "octets of payload"},
                  {"iwarp_fpdus_total", "FPDUs"},
                  {"iwarp_stream_bytes_total", "octets of the streams"}};

static const char *const opcodes[16] = {
    "write",     "read_request", "read_response",  "send",
    "send_inv",  "send_se",      "send_se_inv",    "terminate",
    "immediate", "immediate_se", "atomic_request", "atomic_response",
    "opcode_12", "opcode_13",    "send_imm",       "send_se_imm"};

/* --- devices --------------------------------------------------------------------------------- */

static void head(FILE *out, const char *name, const char *help, enum source source)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name,
            source == COUNTER ? "counter" : "gauge");
}

static void number_rows(FILE *out, const struct iwarp_device_stats *stats, unsigned n)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        head(out, rows[i].name, rows[i].help, rows[i].source);
        for (unsigned d = 0; d < n; d++) {
            const void *at = (const char *)&stats[d] + rows[i].at;
            uint64_t value = rows[i].is_wide ? *(const uint64_t *)at : *(const unsigned *)at;
            fprintf(out, "%s{device=\"%u\"} %llu\n", rows[i].name, d, (unsigned long long)value);
        }
    }
}

static void messages(FILE *out, const struct iwarp_traffic *t, unsigned d, const char *way)
{
    for (unsigned i = 0; i < 16; i++) {
        fprintf(out, "iwarp_messages_total{device=\"%u\",direction=\"%s\",opcode=\"%s\"} %llu\n", d,
                way, opcodes[i], (unsigned long long)t->messages[i]);
    }
}

static void octets(FILE *out, const struct iwarp_traffic *t, unsigned d, const char *way,
                   unsigned which)
{
    const uint64_t sums[] = {t->payload, t->fpdus, t->octets};

    fprintf(out, "%s{device=\"%u\",direction=\"%s\"} %llu\n", sums_names[which].name, d, way,
            (unsigned long long)sums[which]);
}

void iwarp_metrics_text(FILE *out, const struct iwarp_device_stats *stats, unsigned n)
{
    number_rows(out, stats, n);
    head(out, "iwarp_messages_total", "RDMAP messages, by opcode", COUNTER);
    for (unsigned d = 0; d < n; d++) {
        messages(out, &stats[d].sent, d, "sent");
        messages(out, &stats[d].received, d, "received");
    }
    for (unsigned i = 0; i < sizeof sums_names / sizeof *sums_names; i++) {
        head(out, sums_names[i].name, sums_names[i].help, COUNTER);
        for (unsigned d = 0; d < n; d++) {
            octets(out, &stats[d].sent, d, "sent", i);
            octets(out, &stats[d].received, d, "received", i);
        }
    }
}

/* --- its connections ------------------------------------------------------------------------- */

static const char *const states[] = {"connecting", "securing",    "startup",
                                     "request",    "established", "ended"};

static unsigned long long load(const _Atomic uint64_t *counter)
{
    return (unsigned long long)atomic_load_explicit(counter, memory_order_relaxed);
}

static void connection(FILE *out, struct iwarp_conn *conn, unsigned number)
{
    char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;

    if (iwarp_conn_peer_addr(conn, &peer, &len) == IWARP_OK) {
        (void)getnameinfo((const struct sockaddr *)&peer, len, host, sizeof host, port, sizeof port,
                          NI_NUMERICHOST | NI_NUMERICSERV);
    }
    iwarp_mutex_lock(&conn->lock);
    struct iwarp_qp *qp = conn->qp;
    unsigned sq = 0;
    if (conn->has_stream && qp) {
        struct iwarp_wq *q = conn->stream.config.sq;
        sq = iwarp_wq_head(q) - q->done;
    }
    fprintf(
        out,
        "device=%u qp=%u peer=%s port=%s state=%s tls=%s sent=%llu received=%llu fpdus_out=%llu "
        "fpdus_in=%llu sq=%u waited=%llu fault=%s\n",
        number, qp ? iwarp_qp_num(qp) : 0, host, port, states[conn->state],
        conn->tls ? "yes" : "no", load(&conn->counts.tx.payload), load(&conn->counts.rx.payload),
        load(&conn->counts.tx.fpdus), load(&conn->counts.rx.fpdus), sq, load(&conn->counts.waited),
        iwarp_fault_name(conn->fault.code));
    iwarp_conn_unlock(conn);
}

/* A connection stays in the list while there is a reference to it, so the walk can go on there. */
void iwarp_metrics_connections(FILE *out, struct iwarp_device *device, unsigned number)
{
    struct iwarp_conn *conn = NULL, *next;

    do {
        iwarp_mutex_lock(&device->lock);
        next = conn ? conn->next : device->conns;
        while (next && !iwarp_conn_get_living(next)) {
            next = next->next;
        }
        iwarp_mutex_unlock(&device->lock);
        if (conn) {
            iwarp_conn_put(conn);
        }
        if (next) {
            connection(out, next, number);
        }
        conn = next;
    } while (conn);
}
