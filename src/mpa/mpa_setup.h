/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA start-up: the Request and Reply frames, and what two ends settle with them (CRC, markers,
 * read depths, ready-to-receive message). A pure module: octets in, a step out. It does not close,
 * send or time anything, and it never takes an octet behind the peer's frame, since FPDUs begin
 * there.
 *
 *   initiator                              responder
 *   request()                              feed() ... MORE
 *   feed() ... MORE                        FRAME: the ULP decides
 *   FRAME: Full Operation, RTR first       reply(): Full Operation (hold until the first FPDU), or
 *   REJECTED: TCP stays open               reply(reject): TCP stays open
 *
 *   FAULT on either side: improperly formatted or not to be agreed with; close TCP. Rows of
 *   faults.def with a layer (initiator only) owe a Terminate first: `settled` says how to frame it.
 *
 * RFC 5044 7.1, RFC 6581 6, 9 and 10.
 */
#ifndef IWARP_MPA_SETUP_H
#define IWARP_MPA_SETUP_H

#include "base/fault.h"

#include <iwarp/protocol.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IWARP_MPA_FRAME_MAX (IWARP_MPA_FRAME_HDR_LEN + IWARP_MPA_PRIVATE_DATA_MAX)

enum iwarp_mpa_role { IWARP_MPA_INITIATOR, IWARP_MPA_RESPONDER };

/* What this end wants. */
struct iwarp_mpa_wish {
    uint8_t rev;       /* the highest revision spoken: 1, or 2 (anything else counts as 2) */
    bool crc;          /* CRC is off only if both ends say so */
    bool markers_rx;   /* the peer is to insert markers */
    bool peer_to_peer; /* initiator: A=1; the responder follows the Request */
    uint8_t rtr;       /* RTR messages possible here; 0: Read as initiator, all as responder */
    uint16_t ird, ord; /* 0..0x3ffe; 0x3fff = unspecified, not to be negotiated */
    bool strict;       /* accept no deviation of known peers (peers/peers.h) */
};

/*
 * What was settled. Depths of 0x3fff: unspecified by both ends, the caller uses its own. At a
 * responder the values are provisional between FRAME and reply().
 */
struct iwarp_mpa_settled {
    uint8_t rev;                 /* of the peer's frame */
    bool crc;                    /* generate and check */
    bool markers_rx;             /* the peer inserts markers */
    bool markers_tx;             /* this end must insert markers */
    bool enhanced;               /* IRD and ORD were in the peer's frame */
    bool peer_to_peer;           /* the initiator sends `rtr` before any other FPDU */
    uint8_t rtr;                 /* one bit or 0 */
    uint16_t ird, ord;           /* in use here */
    uint16_t peer_ird, peer_ord; /* as the peer announced; 0 if not enhanced */
};

enum iwarp_mpa_step {
    IWARP_MPA_MORE,     /* the frame is not complete */
    IWARP_MPA_FRAME,    /* a complete valid frame is there; as initiator: accepted */
    IWARP_MPA_REJECTED, /* initiator: a valid Reply with R set; fault is MPA_REJECTED */
    IWARP_MPA_FAULT     /* see fault */
};

/*
 * Invariants: have <= need <= sizeof frame; need is 20 until the header was checked and 20 +
 * PD_Length afterwards; step FRAME or REJECTED implies have == need; fault.code is set exactly in
 * REJECTED and FAULT. Once not MORE, step never changes.
 */
struct iwarp_mpa_setup {
    enum iwarp_mpa_role role;
    enum iwarp_mpa_step step;
    struct iwarp_mpa_wish wish;
    struct iwarp_mpa_settled settled;
    struct iwarp_fault fault;
    uint16_t have, need;                /* octets of the peer's frame */
    uint8_t frame[IWARP_MPA_FRAME_MAX]; /* the peer's */
};

void iwarp_mpa_setup_init(struct iwarp_mpa_setup *s, enum iwarp_mpa_role role,
                          const struct iwarp_mpa_wish *wish);

/*
 * Write the initiator's Request into out, IWARP_MPA_FRAME_MAX octets; send it with one call.
 * Returns its length, or 0 if the private data is too long (512 octets, revision 2: 508) or this is
 * the responder.
 */
size_t iwarp_mpa_setup_request(const struct iwarp_mpa_setup *s, const void *pd, size_t pd_len,
                               uint8_t *out);

/*
 * The same for the responder's Reply, after FRAME. wish, if given, replaces that of init except for
 * its rev. A reject carries as ORD what this end would have needed. Returns 0 also if no Request is
 * there. `settled` is final then.
 */
size_t iwarp_mpa_setup_reply(struct iwarp_mpa_setup *s, bool reject,
                             const struct iwarp_mpa_wish *wish, const void *pd, size_t pd_len,
                             uint8_t *out);

/* Take octets of the peer's frame; *used of len belong to it. Does nothing once step is not MORE.
 */
enum iwarp_mpa_step iwarp_mpa_setup_feed(struct iwarp_mpa_setup *s, const void *data, size_t len,
                                         size_t *used);

/* The ULP's private data in the peer's frame, without the enhanced words. Never NULL; s owns it. */
const void *iwarp_mpa_setup_private_data(const struct iwarp_mpa_setup *s, size_t *len);

/*
 * What the peer's frame says, for logs, in at most size octets with the terminating zero. Returns
 * the length of the whole text, as snprintf does.
 */
size_t iwarp_mpa_setup_describe(const struct iwarp_mpa_setup *s, char *buf, size_t size);

#endif
