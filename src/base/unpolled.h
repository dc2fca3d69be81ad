/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For the events of connections in the drop-in library, which includes nothing below the public
 * headers but this folder; src/verbs/unpolled.c is behind it.
 */
#ifndef IWARP_BASE_UNPOLLED_H
#define IWARP_BASE_UNPOLLED_H

#include <stdbool.h>

struct iwarp_conn;

/*
 * Does a completion with success of the connection's queue pair wait in one of its completion
 * queues, where the application has not polled it yet?  Any thread; takes conn.lock and cq.lock.
 * Destroying the queue pair would discard it.
 */
bool iwarp_conn_unpolled(struct iwarp_conn *conn);

#endif
