/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TLS of a connection: between its endpoint and the start-up of MPA (docs/tls.md). "Worker": on the
 * connection's worker only, with conn.lock held.
 */
#ifndef IWARP_VERBS_CONN_TLS_H
#define IWARP_VERBS_CONN_TLS_H

#include "verbs/startup.h"

#include <iwarp/conn.h>

struct iwarp_device;

/*
 * What the options, or else the device, say for a connection of this origin: *context is NULL for a
 * plain one. Not OK: a text or file is wrong, see iwarp_last_error. Any thread.
 */
enum iwarp_status iwarp_conn_choose_tls(struct iwarp_device *device,
                                        const struct iwarp_conn_options *options,
                                        enum iwarp_startup_origin origin,
                                        struct iwarp_tls_context **context);

/*
 * The text of a listener's options is the application's: put the one in its place that stays as
 * long as the device. Not OK: as above.
 */
enum iwarp_status iwarp_listener_choose_tls(struct iwarp_device *device,
                                            struct iwarp_conn_options *options);

/* Under TLS the context has the say about CRCs. conn.lock held, or nobody knows conn yet. */
void iwarp_conn_tls_options(struct iwarp_conn *conn);

/*
 * begin: the endpoint is connected. True: the handshake comes first, and goes on to the start-up of
 * MPA when it is done. step: the endpoint is ready. broke: a call has returned -EPROTO in Full
 * Operation, which ends the stream. All: worker.
 */
bool iwarp_conn_tls_begin(struct iwarp_conn *conn);
void iwarp_conn_tls_step(struct iwarp_conn *conn);
void iwarp_conn_tls_broke(struct iwarp_conn *conn);

#endif
