/* SPDX-License-Identifier: BSD-2-Clause */
/* A small Ethernet switch: ends attach to a socket of AF_UNIX, and each connection is a port. */
#ifndef IWARP_LINK_SWITCH_H
#define IWARP_LINK_SWITCH_H

#include "frames.h"

/*
 * Offer the switch at path until a signal ends it; `ready` is called once ends may come.  0, or 1
 * after a line about what is wrong.
 */
int link_switch(const char *path, struct link_cable *cable, void (*ready)(const char *path));

#endif
