/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Times of connections (conn_timer.c), in milliseconds.  A connection with one has an endpoint,
 * whose reference keeps it alive; closing the endpoint stops them.  All functions run on the
 * connection's worker, those of a connection with conn.lock held.
 */
#ifndef IWARP_VERBS_CONN_TIMER_H
#define IWARP_VERBS_CONN_TIMER_H

#include <stdint.h>

struct iwarp_conn;
struct iwarp_worker;

/* At `due`, on the loop's clock, fn is called with conn.lock held. */
struct iwarp_timed {
    struct iwarp_timed *next, **at; /* worker.timed; at NULL: not in it */
    uint64_t due;
    struct iwarp_conn *conn;
    void (*fn)(struct iwarp_conn *conn);
};

void iwarp_worker_open_timer(struct iwarp_worker *w);

/* `timed` is one of the connection's; a new start replaces the old one.  Stopping is idempotent. */
void iwarp_conn_start_timed(struct iwarp_conn *conn, struct iwarp_timed *timed,
                            void (*fn)(struct iwarp_conn *conn), unsigned ms);
void iwarp_conn_stop_timed(struct iwarp_conn *conn, struct iwarp_timed *timed);

/* A connection has one limit at a time; the new one replaces the old one. */
void iwarp_conn_start_timer(struct iwarp_conn *conn, unsigned ms);
void iwarp_conn_stop_timer(struct iwarp_conn *conn);

/* The time of a message that waits for its receive, or of a reminder: no limit of the connection,
 * so one that runs goes first, and one that starts later takes the timer over. */
void iwarp_conn_start_wait(struct iwarp_conn *conn, unsigned ms);

/*
 * The limit of a part of the start-up that may take ms altogether, of which *used are gone already;
 * and its end, which adds to *used.
 */
void iwarp_conn_start_phase(struct iwarp_conn *conn, unsigned ms, const unsigned *used);
void iwarp_conn_end_phase(struct iwarp_conn *conn, unsigned *used);

/* The peer's pace: at the end of a turn of the worker in which the endpoint stays open. */
void iwarp_conn_keep_pace(struct iwarp_conn *conn);

#endif
