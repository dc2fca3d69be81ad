/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statistics of the process as text, for whoever asks at the place that IWARP_METRICS names: for
 * Prometheus, and a line for each connection (iwarp-stat).
 *
 * Life: the thread that answers begins with the first device and ends with the last one. Devices
 * with EMBEDDED progress have no locks and are not among them.
 * Locks: metrics_lock is outside of device.lock and conn.lock.
 */
#ifndef IWARP_VERBS_METRICS_H
#define IWARP_VERBS_METRICS_H

#include <iwarp/stats.h>
#include <stdio.h>

struct iwarp_device;

/* The device is open; nothing happens without IWARP_METRICS. What fails becomes a line in the log.
 */
void iwarp_metrics_join(struct iwarp_device *device);

/* Before it is closed. When this returns nobody looks at it any more. */
void iwarp_metrics_leave(struct iwarp_device *device);

/* metrics_text.c: the statistics of n devices of the process; the connections of one of them. */
void iwarp_metrics_text(FILE *out, const struct iwarp_device_stats *stats, unsigned n);
void iwarp_metrics_connections(FILE *out, struct iwarp_device *device, unsigned number);

#endif
