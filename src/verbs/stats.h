/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What devices and connections count for the statistics (stats.c).
 *
 * Life: iwarp_device_counts is part of its device, iwarp_conn_ends of its connection.  Before a
 * connection is freed, its traffic is added to the device's `gone`.
 *
 * Lock: none, but for `gone`.  Counters are atomic; any thread reads them.
 */
#ifndef IWARP_VERBS_STATS_H
#define IWARP_VERBS_STATS_H

#include "stream/stream_count.h"

#include <iwarp/stats.h>

struct iwarp_conn;

/* Events that are rare, counted by any thread. */
struct iwarp_device_counts {
    struct iwarp_stream_counts gone; /* of connections that were freed; under device.lock */
    _Atomic uint64_t crc_errors, receive_queue_empty, streams_lost;
    _Atomic uint64_t terminates_sent[IWARP_STATS_LAYERS][IWARP_STATS_ETYPES][IWARP_STATS_CODES];
    _Atomic uint64_t terminates_received[IWARP_STATS_LAYERS][IWARP_STATS_ETYPES][IWARP_STATS_CODES];
    _Atomic uint64_t terminates_unknown;
    _Atomic uint64_t connects, arrivals, established, rejected_here, rejected_by_peer, failed;
    _Atomic uint64_t refused, turned_away;
    _Atomic unsigned qps, srqs;
};

/* How one stream ended.  It is written once. */
struct iwarp_conn_ends {
    _Atomic bool crc_error, receive_queue_empty, lost;
    _Atomic uint32_t terminate_sent, terminate_received; /* 0, or as stats.c packs its codes */
};

/* Has a request of either application gone over the connection, in whole or in part?  RDMA Reads
 * and Writes without octets do not count, since the start-up uses them itself. */
bool iwarp_stats_used(const struct iwarp_conn *conn);

/* The stream has ended: count how.  Once for each stream, with conn.lock held. */
void iwarp_stats_stream_ended(struct iwarp_conn *conn);

/* The connection is about to be freed: keep its counts.  device.lock held. */
void iwarp_stats_conn_gone(struct iwarp_conn *conn);

#endif
