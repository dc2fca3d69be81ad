/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages that came before their receives (stream/stream_wait.c): how long they wait, who wakes
 * the stream up, and what is watched while it reads no more.  conn.lock held; all but `no_more` on
 * the worker.
 */
#ifndef IWARP_VERBS_CONN_WAIT_H
#define IWARP_VERBS_CONN_WAIT_H

#include <stdbool.h>
#include <stddef.h>

struct iwarp_conn;

/* How long a message may wait for its receive, in ms; 0: not at all.  bytes: how much may. */
unsigned iwarp_conn_rnr_ms(const struct iwarp_conn *conn);
size_t iwarp_conn_rnr_bytes(const struct iwarp_conn *conn);

/*
 * After receiving: if messages wait, deliver those that have a receive by now; for the others, take
 * the time and ask to be woken up.  Returns the ms that the timer is to run, or 0: as before.
 */
unsigned iwarp_conn_await_receive(struct iwarp_conn *conn);

/* It waits no more, or its queue pair goes away: nobody needs to wake it up. */
void iwarp_conn_await_no_more(struct iwarp_conn *conn);

/* conn.lock held: the option has changed. A message that waits has the new time, from its
 * beginning; the caller kicks the worker. */
void iwarp_conn_change_wait(struct iwarp_conn *conn);

/* The timer says that the message may have waited long enough.  Returns ms as above, or 0: the
 * stream ends. */
unsigned iwarp_conn_waited(struct iwarp_conn *conn);

/* How long closing may take: no longer than what still waits for its receive. */
unsigned iwarp_conn_close_ms(struct iwarp_conn *conn);

/* Something has happened to an endpoint that is not read from, as the stream is full. */
void iwarp_conn_look_for_end(struct iwarp_conn *conn);

/* The stream is full: watch for the peer's end alone, and for room if `write`. */
void iwarp_conn_watch_end(struct iwarp_conn *conn, bool write);

#endif
