/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The provider's own CRC32c arithmetic. For provider.c and the tests only.
 *
 * All functions take and return the register before the final inversion: start with ~0, invert at
 * the end. iwarp_provider_crc32c_prepare must have returned once before any other is called.
 */
#ifndef IWARP_PROVIDER_CRC32C_UPDATE_H
#define IWARP_PROVIDER_CRC32C_UPDATE_H

#include <stddef.h>
#include <stdint.h>

/* Makes the tables and looks at the processor, once per process. Any thread, any number of times.
 */
void iwarp_provider_crc32c_prepare(void);

/* The fastest of the others that runs here. */
uint32_t iwarp_provider_crc32c_update(uint32_t state, const uint8_t *data, size_t len);

/* By tables alone: runs everywhere. */
uint32_t iwarp_provider_crc32c_by_table(uint32_t state, const uint8_t *data, size_t len);

#endif
