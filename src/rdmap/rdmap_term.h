/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Terminate messages: building the one that a fault owes the peer, and understanding the peer's.
 * RFC 5040 4.8 (format, figure 10: which headers are copied) and 7.1.
 *
 * Real peers write the control word in other ways too (peers/peers.h).
 */
#ifndef IWARP_RDMAP_TERM_H
#define IWARP_RDMAP_TERM_H

#include "base/fault.h"
#include "peers/peers.h"

#include <iwarp/protocol.h>

/* The offending segment, as far as it is known. Lengths 0: not known, or not tied to a segment. */
struct iwarp_term_cause {
    uint16_t segment_len;   /* of the DDP segment: its ULPDU_Length */
    uint8_t ddp_header_len; /* 14, 18 or 0 */
    bool read_request;      /* the RDMAP header is there too */
    uint8_t header[IWARP_DDP_UNTAGGED_HDR_LEN + IWARP_RDMAP_READ_REQUEST_LEN];
};

/* What a received Terminate says. */
struct iwarp_term_info {
    uint8_t layer, etype, code;
    uint8_t hdrct;      /* in RFC bit order */
    bool siw_bit_order; /* the control word had siw's bit order */
};

/*
 * Write the Terminate payload for a fault (at most IWARP_TERM_MAX_LEN octets) and return its
 * length; 0 if the fault's row owes none.
 */
uint32_t iwarp_rdmap_term_put(const struct iwarp_fault *fault, const struct iwarp_term_cause *cause,
                              uint8_t *out);

/*
 * Understand a received Terminate from its control word, 4 octets: all that decisions rest on. With
 * when->strict as RFC 5040 4.8 has it, and in no other way.
 */
void iwarp_rdmap_term_get(const uint8_t *p, const struct iwarp_peers_term *when,
                          struct iwarp_term_info *info);

/*
 * What the Terminate of len octets at p quotes. Quoted headers may be missing, cut short or wrong:
 * what is here is a hint.
 */
void iwarp_rdmap_term_quote(const uint8_t *p, uint32_t len, const struct iwarp_term_info *info,
                            struct iwarp_quote *quote);

#endif
