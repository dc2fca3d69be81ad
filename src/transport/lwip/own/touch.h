/* SPDX-License-Identifier: BSD-2-Clause */
/* What lwIP's sources found out about memory of the application. */
#ifndef IWARP_LWIP_OWN_TOUCH_H
#define IWARP_LWIP_OWN_TOUCH_H

#include <stdbool.h>

/* Was some of it missing, since the last call?  Core lock held. */
bool iwarp_lw_missed(void);

#endif
