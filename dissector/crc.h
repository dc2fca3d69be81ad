/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CRC32c as MPA uses it (RFC 5044 4.4, RFC 3720 12.1), in portable C: eight octets at a time by
 * tables that are made at first use. Not thread safe before that; dissection has one thread.
 */
#ifndef DISSECTOR_CRC_H
#define DISSECTOR_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Of one piece; `crc` is 0 at first, then what the call before returned. */
uint32_t dissect_crc32c(uint32_t crc, const uint8_t *p, size_t n);

#endif
