/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests and completions in the log, field by field, at IWARP_LOG=trace.  Any thread. */
#ifndef IWARP_VERBS_TRACE_H
#define IWARP_VERBS_TRACE_H

#include <iwarp/verbs.h>

/* The caller asks iwarp_log_on first, so that nothing is formatted for a log that is off. */
void iwarp_trace_send(const struct iwarp_qp *qp, const struct iwarp_send_wr *wr);
void iwarp_trace_recv(const struct iwarp_qp *qp, const struct iwarp_recv_wr *wr);
void iwarp_trace_wc(const struct iwarp_wc *wc);

#endif
