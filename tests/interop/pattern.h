/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Octets that can be recognised: by side (0: the end that connected), message, and place in it. See
 * talk.c.
 */
#ifndef INTEROP_PATTERN_H
#define INTEROP_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

unsigned char pattern_octet(unsigned side, unsigned message, size_t i);
void pattern_fill(unsigned char *at, size_t len, unsigned side, unsigned message);
bool pattern_is(const unsigned char *at, size_t len, unsigned side, unsigned message);

/* Whether the guards around an area of talk_init are as they were. */
bool pattern_guards(const unsigned char *area, size_t len);

#endif
