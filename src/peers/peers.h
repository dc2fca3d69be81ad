/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What known peers do differently, in one list: Linux siw, Chelsio (cxgb4), Intel (irdma, i40iw),
 * Marvell (qed), and the software RNICs before siw. The layers ask here by name; no other file
 * departs from the letter of the RFCs for the sake of a peer.
 *
 *   accepted   not allowed to the peer, and taken all the same; `strict` of a connection's options
 *              switches all of these off
 *   chosen     where the RFCs leave this end a choice, what all of those peers can live with
 *   no code    what follows from the RFCs' own rules, if nothing is added to them
 *
 * RFC 5044 7.1, RFC 6581 9 and 10, RFC 5040 4.8. Pure functions of plain numbers.
 */
#ifndef IWARP_PEERS_H
#define IWARP_PEERS_H

#include "base/fault.h"

#include <iwarp/protocol.h>
#include <stdbool.h>
#include <stdint.h>

/* --- accepted, unless strict ----------------------------------------------------------------- */

/*
 * A Reject without the enhanced words in answer to a Request with them (RFC 6581 10: the format of
 * the Request). A responder that knows revision 1 alone rejects in its own format; a format error
 * instead would hide the rejection from the ULP.
 */
static inline bool iwarp_peers_reject_is_plain(bool strict, bool reject, bool enhanced)
{
    return !strict && reject && !enhanced;
}

/*
 * A Reply of revision 2 to a Request of revision 1 (RFC 5044 7.1.1: at most the Request's). Without
 * S it is octet by octet one of revision 1 (RFC 6581 6), of a peer that writes its own number.
 */
static inline bool iwarp_peers_reply_is_newer(bool strict, unsigned rev, bool enhanced)
{
    return !strict && rev == 2 && !enhanced;
}

/*
 * FPDUs of a responder before the initiator has sent one (RFC 5044 7.1.2 rule 4). siw without
 * peer-to-peer mode reports its connection established with the Reply, and its ULP may send; so did
 * the software RNICs before it. True if such an FPDU is a fault: `framed` of this end's are out.
 */
static inline bool iwarp_peers_fpdu_is_early(bool strict, bool responder, uint64_t framed)
{
    return strict && !responder && framed == 0;
}

/*
 * A Chelsio initiator of revision 1 begins with a zero-length RDMA Read that nobody asked for, as
 * its ready-to-receive message. Without enhanced words a responder therefore has room for one,
 * though its ULP wants no RDMA Reads.
 */
static inline uint16_t iwarp_peers_ird_unannounced(bool strict, bool responder, uint16_t ird)
{
    return !strict && responder && ird == 0 ? 1 : ird;
}

/* What else is known when a Terminate comes. */
struct iwarp_peers_term {
    bool strict;
    bool first;  /* it is the peer's first FPDU */
    bool silent; /* this end has sent none, and no FIN */
};

/* Does this Terminate belong to the start-up? RFC 6581 8 */
static inline bool iwarp_peers_term_is_startup(unsigned layer, unsigned etype, unsigned code)
{
    return layer == IWARP_TERM_LLP && etype == IWARP_TERM_LLP_MPA && code >= 0x05;
}

/*
 * The control word of siw's Terminates is a C bit-field: on little-endian hosts EType<<4|Layer
 * instead of Layer<<4|EType, and HdrCt in the low bits of its octet (M 0x01, D 0x02, R 0x04). HdrCt
 * tells the two apart. Without headers the reading whose layer, type and code is registered wins.
 * Both are for 2/0/05 to 07 and 0/2/05 to 07: the former come as a peer's first FPDU or never, the
 * latter not before this end has sent something. If even that leaves both, it is the RFC's. RFC
 * 5040 4.8
 */
static inline bool iwarp_peers_term_is_siws(const struct iwarp_peers_term *t, const uint8_t *word)
{
    uint8_t high = word[0] >> 4, low = word[0] & 0x0f, code = word[1];

    if (t->strict || (word[2] & 0xe0)) {
        return false;
    }
    if (word[2] & 0x07) {
        return true;
    }
    if (!iwarp_terminate_meaning(low, high, code)) {
        return false;
    }
    if (!iwarp_terminate_meaning(high, low, code)) {
        return true;
    }
    return iwarp_peers_term_is_startup(high, low, code)
               ? !t->first
               : t->first && t->silent && iwarp_peers_term_is_startup(low, high, code);
}

static inline uint8_t iwarp_peers_hdrct_of_siw(uint8_t octet)
{
    return (uint8_t)((octet & 0x01 ? IWARP_TERM_HDRCT_M : 0) |
                     (octet & 0x02 ? IWARP_TERM_HDRCT_D : 0) |
                     (octet & 0x04 ? IWARP_TERM_HDRCT_R : 0));
}

/* Chelsio and Intel number MPA's only error type 3 (RFC 5044 8: 0), as in 0x23 0x02. */
static inline uint8_t iwarp_peers_term_etype(bool strict, uint8_t layer, uint8_t etype)
{
    return !strict && layer == IWARP_TERM_LLP && etype == 3 ? IWARP_TERM_LLP_MPA : etype;
}

/* --- chosen ---------------------------------------------------------------------------------- */

/*
 * Exactly one RTR, though several may be named: given more, Chelsio takes Write without having
 * offered it. Read first: the only one that Chelsio knows. Send last: siw has none, and it eats a
 * receive. RFC 6581 9.2
 */
static inline uint8_t iwarp_peers_rtr_pick(unsigned mask)
{
    return mask & IWARP_RTR_READ    ? IWARP_RTR_READ
           : mask & IWARP_RTR_WRITE ? IWARP_RTR_WRITE
           : mask & IWARP_RTR_SEND  ? IWARP_RTR_SEND
                                    : IWARP_RTR_NONE;
}

/* Offered if the ULP names none: given Write too, Chelsio remembers that and answers Read. */
#define IWARP_PEERS_RTR_OFFER IWARP_RTR_READ

/*
 * An RTR by RDMA Read occupies one entry, even if the ULP wants no Reads: depth 0 becomes 1.
 * Chelsio and Marvell do the same on their side, Intel refuses depth 0. RFC 6581 9.1
 */
static inline uint16_t iwarp_peers_rtr_depth(uint16_t depth)
{
    return depth == 0 ? 1 : depth;
}

/*
 * Source and sink of a zero-length RTR, where any would do (TO 0): Chelsio's hardware fails tagged
 * messages with STag 0 whatever their length. RFC 5040 5.1
 */
#define IWARP_PEERS_RTR_STAG 1

/*
 * siw (Linux 5.3 to at least 6.1) as responder can overlook the first FPDU behind its Reply: what
 * arrives before it has changed from waiting for frames to waiting for FPDUs wakes it only when
 * more octets come. An initiator that has sent something and heard nothing at all therefore sends a
 * zero-length RDMA Write so many ms after the Reply, which touches nothing and needs no receive
 * (RFC 5040 5.1). A peer that answers the ready-to-receive message never sees one.
 */
static const uint16_t iwarp_peers_remind_ms[] = {100, 400, 1600};

/* --- no code --------------------------------------------------------------------------------- */

/*
 *  - A start-up frame goes out in one write, with no-delay on: Intel wants it in one TCP segment,
 *    and siw of Linux 5.10 loses the connection over two.
 *  - Nothing follows a start-up frame before the peer's answer (initiator) or first FPDU
 *    (responder): siw and Chelsio fail on octets behind a frame.
 *  - The Reply's C says whether CRC will be used, not whether this end asked for it: siw as
 *    initiator looks at the Reply alone and does not remember what it asked for. RFC 5044 7.1.1
 *  - Of the peer's frame exactly 20 + PD_Length octets are read: siw's FPDUs may lie right behind.
 *  - Private data is passed on as it came: a Chelsio Reply can announce octets that its ULP never
 *    gave, Intel adapters report four octets too many to their own ULP. 512 octets are taken; siw
 *    and Chelsio take 256, so that 252 (revision 2) is what a ULP can send to all.
 *  - The reserved flag 0x08 (siw: "my FPDUs may exceed a segment") is ignored and never set; siw
 *    echoes all flags of a Request in its Reply. RFC 5044 7.1.1
 *  - Revision 2 is never sent without S and the enhanced words: Intel reads the words whatever S
 *    is, and wants A=1 (`peer_to_peer`, the default).
 *  - A number in answer to our 0x3fff is the limit it says: siw does not know 0x3fff and clamps it.
 *    0x3fff in answer to a number leaves our own value: Intel answers one 0x3fff with two. A depth
 *    that the Reply lowers is lowered: Marvell never raises its own.
 *  - A zero-length RDMA Read or Write is a good first FPDU in each revision, whatever its STags;
 *    a zero-length Read Response is good whatever it names (RFC 5040 5.1, 5.2).
 *  - FPDUs are no longer than a TCP segment unless `ulpdu_max` says so: Marvell drops longer ones.
 *    Received ones may have any length, and be cut anywhere (siw with segmentation offload).
 *  - What a Terminate quotes is a hint: siw's Segment Length leaves out the header, its R flag
 *    comes without a header, Chelsio leaves all headers out. A Terminate ends the stream in any
 * case.
 *  - A hang-up without an octet of a Reply: once more with revision 1 (`mpa_fallback`, RFC 6581
 * 10). siw closes without a word on every frame that it does not like.
 */

#endif
