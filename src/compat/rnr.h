/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How long a message waits for its receive, by the rules of InfiniBand: there the receiver answers
 * "not ready" (RNR) with a time, and the sender tries again after it, so often. On iWARP nothing is
 * sent twice, so the receiver waits as long as all of that together.
 */
#ifndef IWARP_COMPAT_RNR_H
#define IWARP_COMPAT_RNR_H

#include <stdbool.h>

/*
 * In ms, rounded up. retry: rnr_retry, 0 to 7, of the end that sends; 7 is for ever there, and
 * `longest` here, which bounds the others, too. timer: min_rnr_timer, 0 to 31, of the end that
 * receives; 0 is 655.36 ms. With rdma_cm both ends have timer 0. Larger values count as the
 * largest.
 */
unsigned iwarp_compat_rnr_ms(unsigned retry, unsigned timer, unsigned longest);

/*
 * The option rnr_timeout_ms of a connection whose peer tries `retry` times: by the rule, with what
 * IWARP_RNR_MAX says for ever; or what IWARP_RNR_TIMEOUT says, if that is set.
 */
unsigned iwarp_compat_rnr_timeout(unsigned retry, unsigned timer);

#endif
