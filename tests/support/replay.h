/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One direction of a recorded connection through the library's decoders: the start-up frame by
 * src/mpa/mpa_setup.c, then FPDUs by mpa_frame.h, crc32c.h, ddp_wire.h and rdmap. Takes octets in
 * any pieces and keeps a list of what it saw. The conductor (src/stream) is not used.
 */
#ifndef TESTS_REPLAY_H
#define TESTS_REPLAY_H

#include "octets.h"

#include "ddp/ddp_wire.h"
#include "mpa/mpa_setup.h"
#include "rdmap/rdmap_wire.h"

enum replay_crc { REPLAY_CRC_BAD, REPLAY_CRC_GOOD, REPLAY_CRC_OFF };

struct replay_fpdu {
    size_t end; /* stream octets up to and with this FPDU */
    struct iwarp_ddp_header h;
    unsigned opcode;
    uint32_t ulpdu_len, pad, crc_field;
    enum replay_crc crc;
    struct iwarp_rdmap_read_request read; /* opcode 1 */
    size_t payload;                       /* offset in replay.payload */
    uint32_t payload_len;                 /* behind the DDP header */
};

struct replay {
    bool crc;
    struct iwarp_mpa_setup setup;
    size_t taken;        /* octets of the stream */
    size_t setup_len;    /* of these the start-up frame */
    struct octets carry; /* an FPDU that is not whole */
    struct octets payload;
    struct replay_fpdu *fpdu;
    unsigned fpdus;
};

/* The direction's sender is the initiator (it sends a Request) or the responder. */
void replay_init(struct replay *r, enum iwarp_mpa_role sender, const struct iwarp_mpa_wish *wish,
                 bool crc);
void replay_free(struct replay *r);
void replay_feed(struct replay *r, const uint8_t *p, size_t n);

/* Fails the test unless both saw the same. */
void replay_expect_equal(const struct replay *a, const struct replay *b);

#endif
