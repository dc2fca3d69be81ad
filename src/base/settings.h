/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What people may choose without changing a program: variables of the environment, and lines of a
 * file with the same names. man/iwarp.7 has all of them.
 *
 * The environment goes first and is looked at each time, so that a program can still set it. The
 * file is read once, when first asked: what IWARP_CONFIG names ("": none), else iwarp.conf in
 * $XDG_CONFIG_HOME or ~/.config, and behind it /etc/iwarp.conf. Programs that run with more rights
 * than their user look at /etc/iwarp.conf alone. Nothing here can fail: a mistake in a file or a
 * value becomes a line in the log.
 */
#ifndef IWARP_BASE_SETTINGS_H
#define IWARP_BASE_SETTINGS_H

#include <stdbool.h>

/* The value of IWARP_..., or NULL. As long as the process lives, if the environment stays. */
const char *iwarp_setting(const char *name);

/* Which of the words (up to a NULL) it is; otherwise, with a line in the log, and unset: `none`. */
unsigned iwarp_setting_word(const char *name, const char *const *words, unsigned none);

/* on or off */
bool iwarp_setting_on(const char *name, bool none);

/* A decimal number from least to most */
unsigned iwarp_setting_number(const char *name, unsigned least, unsigned most, unsigned none);

/* The first sentence about a mistake in the files, once; NULL: there is none, or it was told. */
const char *iwarp_settings_complaint(void);

/* Writes that to the log. */
void iwarp_settings_complain(void);

/* For tests: the file is read again. Nobody may hold a value from it. */
void iwarp_settings_forget(void);

#endif
