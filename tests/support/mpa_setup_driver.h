/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deliver literal start-up frames to src/mpa/mpa_setup.c whole, octet by octet and in random
 * pieces, with FPDU octets behind them that must not be taken, and check that all end alike.
 */
#ifndef TESTS_MPA_SETUP_DRIVER_H
#define TESTS_MPA_SETUP_DRIVER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mpa/mpa_setup.h"

enum setup_delivery { SETUP_WHOLE, SETUP_OCTETS, SETUP_PIECES };

#define INITIATOR IWARP_MPA_INITIATOR
#define RESPONDER IWARP_MPA_RESPONDER

/* Names of rows without the common prefix. */
#define MPA_FAULT(name) IWARP_FAULT_MPA_##name

extern uint64_t setup_random_state;

uint32_t setup_random_below(uint32_t bound);
size_t setup_unhex(const char *hex, uint8_t *out);
void assert_octets(const uint8_t *got, size_t len, const char *hex);
size_t setup_deliver(struct iwarp_mpa_setup *s, const uint8_t *data, size_t len,
                     enum setup_delivery how);
void receive(struct iwarp_mpa_setup *s, enum iwarp_mpa_role role, const struct iwarp_mpa_wish *wish,
             const char *hex, enum iwarp_mpa_step step);
void refuse(enum iwarp_mpa_role role, const struct iwarp_mpa_wish *wish, const char *hex,
            size_t taken, enum iwarp_fault_code code, uint64_t d0, uint64_t d1, uint64_t d2);
void assert_private(const struct iwarp_mpa_setup *s, const char *hex);
void assert_depths(const struct iwarp_mpa_setup *s, unsigned ird, unsigned ord, unsigned peer_ird,
                   unsigned peer_ord);

void assert_request(const struct iwarp_mpa_wish *wish, const char *pd, const char *want);
/* The Request comes, the answer must be exactly `want`; *s is left behind. */
void assert_reply(struct iwarp_mpa_setup *s, const struct iwarp_mpa_wish *wish, const char *request,
                  bool reject, const char *want);

/* Every octet among the first `total` of the frame replaced by every value. */
void setup_mutants_check(enum iwarp_mpa_role role, const struct iwarp_mpa_wish *wish,
                         const char *hex, size_t total);

#endif
