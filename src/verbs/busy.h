/* SPDX-License-Identifier: BSD-2-Clause */
/* Threaded progress: threads that poll without end. See busy.c. */
#ifndef IWARP_VERBS_BUSY_H
#define IWARP_VERBS_BUSY_H

#include <stdbool.h>
#include <stdint.h>

struct iwarp_device;

/*
 * A poll in vain of a queue that these workers serve: is this thread to drive them? It has driven
 * them; it may soon sleep.
 */
bool iwarp_busy(struct iwarp_device *device, uint64_t workers);
void iwarp_busy_drove(void);
void iwarp_busy_pause(void);

#endif
