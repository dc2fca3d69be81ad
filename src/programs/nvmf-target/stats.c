/* SPDX-License-Identifier: BSD-2-Clause */
#include "stats.h"

#include "programs/nvmf-wire/nvme.h"

const char *nvmf_kind_name(enum nvmf_kind kind)
{
    static const char *const names[] = {
#define KIND(name, text) text,
        NVMF_KINDS(KIND)
#undef KIND
            "other_io",
        "admin"};
    return names[kind];
}

enum nvmf_kind nvmf_kind_of(unsigned queue, uint8_t opcode)
{
    if (queue == 0 || opcode == NVMF_FABRICS) {
        return NVMF_KIND_ADMIN;
    }
    switch (opcode) {
#define KIND(name, text)                                                                           \
    case NVMF_##name:                                                                              \
        return NVMF_KIND_##name;
        NVMF_KINDS(KIND)
#undef KIND
    default:
        return NVMF_KIND_OTHER;
    }
}

void nvmf_stats_count(struct nvmf_stats *stats, enum nvmf_kind kind, unsigned status,
                      uint64_t octets, uint64_t ns)
{
    struct nvmf_counts *counts = &stats->kind[kind];
    uint64_t us = ns / 1000;
    unsigned bucket = 0;

    while (bucket + 1 < NVMF_BUCKETS && us >> bucket > 0) {
        bucket++;
    }
    counts->commands++;
    counts->bucket[bucket]++;
    counts->latency_us += us;
    if (status == NVMF_OK) {
        counts->octets += octets;
    } else {
        counts->errors++;
    }
}
