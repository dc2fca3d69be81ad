/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registration of what listens to the plugin's taps.
 */
#ifndef PLUGIN_TABLES_H
#define PLUGIN_TABLES_H

#include "state.h"

void iwarp_tables_register(void);

/* --- content.c: payload as a stream, and messages as files --- */

void iwarp_content_register(void);
void iwarp_content_tap(packet_info *pinfo, const struct iwarp_tap *tap);

#endif
