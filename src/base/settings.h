/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Settings: what people may choose without changing a program, by variables of the environment or
 * by lines of a file with the same names. man/iwarp_env.7 lists them.
 *
 * The environment comes first and is read each time, so a program can still set a variable. The
 * files are read once, when the first setting is asked for: the file that IWARP_CONFIG names and no
 * other ("": no file at all); without IWARP_CONFIG, iwarp.conf in $XDG_CONFIG_HOME or ~/.config,
 * and for names that it lacks /etc/iwarp.conf. A program that runs with more rights than its user
 * reads /etc/iwarp.conf alone and no variable. Nothing here can fail: a mistake in a file or a
 * value becomes a line in the log. Any thread.
 */
#ifndef IWARP_BASE_SETTINGS_H
#define IWARP_BASE_SETTINGS_H

#include <stdbool.h>

/* The value of a setting, or NULL. It stays valid as long as the environment is not changed. */
const char *iwarp_setting(const char *name);

/* Index of the setting's value in a list of words that NULL ends. `none` if it is not set; also if
 * it is none of the words, and the log says so. */
unsigned iwarp_setting_word(const char *name, const char *const *words, unsigned none);

/* A switch, on or off. `none`: as above. */
bool iwarp_setting_on(const char *name, bool none);

/* A decimal number from least to most. `none`: as above. */
unsigned iwarp_setting_number(const char *name, unsigned least, unsigned most, unsigned none);

/* A sentence about the first mistake in the files; NULL: there is none, or it was returned before.
 */
const char *iwarp_settings_complaint(void);

/* Write that sentence to the log. */
void iwarp_settings_complain(void);

/* For tests: read the files again. No thread may hold a value from them. */
void iwarp_settings_forget(void);

#endif
