/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A board: memory that a process of the soak and its conductor (run) share. Here the process
 * says what it does and counts, and the conductor says when to pause and to stop. It outlives the
 * process, so it tells what a killed one did last. Little-endian words of 64 bits, as board.py has
 * them.
 */
#ifndef TESTS_SOAK_BOARD_H
#define TESTS_SOAK_BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define BOARD_LANES 32

/* Names are what `soak-peer names` prints, in this order. */
#define BOARD_NUMBERS(X)                                                                           \
    X(sessions) /* begun */                                                                        \
    X(in_order) /* ended as their script says */                                                   \
    X(broken)   /* by faults, or since the other process died */                                   \
    X(octets)   /* received and found right */                                                     \
    X(sends)    /* acts of this process */                                                         \
    X(writes)                                                                                      \
    X(reads)                                                                                       \
    X(atomics)                                                                                     \
    X(immediates)                                                                                  \
    X(invalidates)                                                                                 \
    X(windows)                                                                                     \
    X(registrations)                                                                               \
    X(shared_receives)                                                                             \
    X(encrypted) /* sessions over TLS */                                                           \
    X(heap)      /* octets that are allocated; the rest as iwarp_device_stats has it */            \
    X(pds)                                                                                         \
    X(regions)                                                                                     \
    X(cqs)                                                                                         \
    X(srqs)                                                                                        \
    X(qps)                                                                                         \
    X(event_queues)                                                                                \
    X(listeners)                                                                                   \
    X(connections)                                                                                 \
    X(half_open)                                                                                   \
    X(buffer_bytes)                                                                                \
    X(payload)                                                                                     \
    X(terminates)

enum board_number {
#define X(name) BOARD_##name,
    BOARD_NUMBERS(X)
#undef X
        BOARD_COUNT
};

struct board_lane {
    _Atomic uint64_t beats;   /* counts up with each step forward */
    _Atomic uint64_t resting; /* it has nothing to do */
    char doing[240];
};

struct board {
    _Atomic uint64_t pause; /* the conductor: 0, or the number of a pause: begin no session */
    _Atomic uint64_t stop;  /* the conductor: end */
    _Atomic uint64_t quiet; /* the number of the pause for which all lanes rest */
    _Atomic uint64_t ready; /* connections can be made */
    _Atomic uint64_t lanes;
    _Atomic uint64_t reserved[3];
    _Atomic int64_t number[64];
    struct board_lane lane[BOARD_LANES];
};

/* Maps it, or ends the process. */
struct board *board_open(const char *path);
void board_add(struct board *b, enum board_number which, int64_t n);
void board_say(struct board_lane *lane, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void board_rest(struct board_lane *lane, bool rests);
bool board_all_rest(const struct board *b);

#endif
