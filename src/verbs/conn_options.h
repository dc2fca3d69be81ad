/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of connections, and what they mean for the start-up.  Touches no connection. */
#ifndef IWARP_VERBS_CONN_OPTIONS_H
#define IWARP_VERBS_CONN_OPTIONS_H

#include <iwarp/conn.h>

struct iwarp_mpa_wish;

/* Copy and check options; NULL gives the defaults. */
enum iwarp_status iwarp_conn_options_check(const struct iwarp_conn_options *in,
                                           struct iwarp_conn_options *out);

/* What they mean for the start-up. */
void iwarp_conn_wish(const struct iwarp_conn_options *o, struct iwarp_mpa_wish *wish);

#endif
