/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iwarp-cp plain-tcp: the same copy over a plain TCP connection, to compare with. Not for users: it
 * copies from this machine to itself and speaks a protocol of its own.
 */
#ifndef CP_PLAIN_H
#define CP_PLAIN_H

#include "options.h"

/* Returns an exit status. */
int cp_run_plain(const struct cp_options *options);

#endif
