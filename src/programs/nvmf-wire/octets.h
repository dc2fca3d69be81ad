/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Little-endian numbers, as NVMe has them, in octets whose number the caller knows.
 */
#ifndef NVMF_OCTETS_H
#define NVMF_OCTETS_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t nvmf_get(const uint8_t *at, size_t octets)
{
    uint64_t value = 0;

    while (octets > 0) {
        value = value << 8 | at[--octets];
    }
    return value;
}

static inline uint16_t nvmf_get16(const uint8_t *at)
{
    return (uint16_t)nvmf_get(at, 2);
}

static inline uint32_t nvmf_get32(const uint8_t *at)
{
    return (uint32_t)nvmf_get(at, 4);
}

static inline uint64_t nvmf_get64(const uint8_t *at)
{
    return nvmf_get(at, 8);
}

static inline void nvmf_put(uint8_t *at, uint64_t value, size_t octets)
{
    for (size_t i = 0; i < octets; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

static inline void nvmf_put16(uint8_t *at, uint16_t value)
{
    nvmf_put(at, value, 2);
}

static inline void nvmf_put32(uint8_t *at, uint32_t value)
{
    nvmf_put(at, value, 4);
}

static inline void nvmf_put64(uint8_t *at, uint64_t value)
{
    nvmf_put(at, value, 8);
}

#endif
