/* SPDX-License-Identifier: BSD-2-Clause */
/* What lwIP asks of the compiler and the system.  Every file of lwIP includes this one. */
#ifndef IWARP_LWIP_OWN_ARCH_CC_H
#define IWARP_LWIP_OWN_ARCH_CC_H

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

#define LWIP_TIMEVAL_PRIVATE  0
#define LWIP_ERRNO_STDINCLUDE 1

uint32_t iwarp_lw_random(void);
uint16_t iwarp_lw_checksum(const void *data, int octets);
_Noreturn void iwarp_lw_broken(const char *what, const char *file, int line);

#define LWIP_RAND() iwarp_lw_random()

/* lwIP prints nothing of its own: what has to be said is said by its callers. */
#define LWIP_PLATFORM_DIAG(x)
#define LWIP_PLATFORM_ASSERT(x) iwarp_lw_broken(x, __FILE__, __LINE__)

#define LWIP_HOOK_FILENAME "transport/lwip/own/isn.h"

#endif
