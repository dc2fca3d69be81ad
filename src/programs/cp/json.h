/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A JSON string from any octets. Names need not be UTF-8: an octet that is not part of it becomes a
 * lone surrogate, \udc80 to \udcff, which is what Python's os.fsencode turns back into the octet.
 */
#ifndef CP_JSON_H
#define CP_JSON_H

#include <stddef.h>

/*
 * Write text with its quotes to buf, at most size octets with the terminating zero; returns the
 * length that the whole has. Six times the length of text, and three, is always enough.
 */
size_t cp_json_string(const char *text, char *buf, size_t size);

/* Octets of one character of UTF-8 above 0x7f; 0 if text, which is terminated, has none there. */
size_t cp_json_utf8_len(const char *text);

#endif
