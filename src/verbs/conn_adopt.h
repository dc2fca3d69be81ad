/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets of the application that became connections, and how it gets them back. */
#ifndef IWARP_VERBS_CONN_ADOPT_H
#define IWARP_VERBS_CONN_ADOPT_H

#include <iwarp/conn.h>

/*
 * The start-up has failed like this: keep the socket for the application, which may take it back.
 * False: it may not.  Leaves no endpoint behind.  On the worker, conn.lock held.
 */
bool iwarp_conn_hand_back(struct iwarp_conn *conn, enum iwarp_fault_code code);

#endif
