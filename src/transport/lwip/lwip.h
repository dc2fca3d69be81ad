/* SPDX-License-Identifier: BSD-2-Clause */
/* The way into this folder, for whoever knows nothing of lwIP's own headers. */
#ifndef IWARP_LWIP_LWIP_H
#define IWARP_LWIP_LWIP_H

#include "transport/stack.h"

/* text begins with "lwip:"; options.h says what follows.  Not OK: see iwarp_last_error. */
enum iwarp_status iwarp_lwip_open(const char *text, struct iwarp_stack **stack);

#endif
