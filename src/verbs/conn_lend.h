/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections whose transport lends what it receives and refers to what it sends (struct
 * iwarp_loans).  All with conn.lock held, but for iwarp_device_forsake.
 */
#ifndef IWARP_VERBS_CONN_LEND_H
#define IWARP_VERBS_CONN_LEND_H

#include "verbs/conn.h"

struct iwarp_region;

static inline bool iwarp_conn_borrows(const struct iwarp_conn *conn)
{
    return conn->loans && conn->loans->borrow;
}

static inline bool iwarp_conn_refers(const struct iwarp_conn *conn)
{
    return conn->loans && conn->loans->refer;
}

/* As a read, from what is lent.  False: there is nothing more now.  On the worker. */
bool iwarp_conn_receive_lent(struct iwarp_conn *conn);

/*
 * Send what gather gave, as one burst, and tell the stream.  Octets that were taken, or -errno.
 * *offered: octets of the burst.
 */
ssize_t iwarp_conn_send_burst(struct iwarp_conn *conn, const struct iovec *iov, unsigned n,
                              size_t *offered);

/* Tell the stream what the transport refers to no more: requests complete by it. */
void iwarp_conn_take_released(struct iwarp_conn *conn);

/* The transport refers to nothing when this returns; the stream has ended. */
void iwarp_conn_forsake(struct iwarp_conn *conn);

/* Memory goes away: end the streams whose transports refer to it.  No lock is held, no lend. */
void iwarp_device_forsake(struct iwarp_device *device, struct iwarp_region *region);

#endif
