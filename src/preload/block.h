/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that block while it is not known yet whether a socket is RDMA. */
#ifndef IWARP_PRELOAD_BLOCK_H
#define IWARP_PRELOAD_BLOCK_H

#include "preload/start.h"

/* start_use, and wait where it says USE_UNSETTLED. */
enum use_result block_use(struct sock **s, int number, enum use use, bool wait);

#endif
