/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the target has done since it was started.
 */
#ifndef NVMF_STATS_H
#define NVMF_STATS_H

#include <stddef.h>
#include <stdint.h>

/* Kinds of commands that are counted apart, and those of I/O queues that have no kind of their own.
 */
#define NVMF_KINDS(KIND)                                                                           \
    KIND(READ, "read")                                                                             \
    KIND(WRITE, "write")                                                                           \
    KIND(FLUSH, "flush")                                                                           \
    KIND(WRITE_ZEROES, "write_zeroes")                                                             \
    KIND(DATASET, "dataset_management")                                                            \
    KIND(COMPARE, "compare")                                                                       \
    KIND(VERIFY, "verify")

enum nvmf_kind {
#define KIND(name, text) NVMF_KIND_##name,
    NVMF_KINDS(KIND)
#undef KIND
        NVMF_KIND_OTHER,
    NVMF_KIND_ADMIN,
    NVMF_KIND_COUNT
};

/* Bucket n of a histogram: less than 2^n microseconds; the last one has all others. */
#define NVMF_BUCKETS 22

struct nvmf_counts {
    uint64_t commands, errors, octets, latency_us;
    uint64_t bucket[NVMF_BUCKETS];
};

struct nvmf_stats {
    struct nvmf_counts kind[NVMF_KIND_COUNT];
    uint64_t connections; /* queues that were connected */
    uint64_t faults;      /* of them, ended by an error */
};

const char *nvmf_kind_name(enum nvmf_kind kind);
enum nvmf_kind nvmf_kind_of(unsigned queue, uint8_t opcode);

void nvmf_stats_count(struct nvmf_stats *stats, enum nvmf_kind kind, unsigned status,
                      uint64_t octets, uint64_t ns);

#endif
