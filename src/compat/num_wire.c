/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private data of Requests and Replies between two queue pairs that are connected by number:
 * docs/by-number.md. Any octets may come from a peer: what is not of this layout is no hello.
 */
#include "base/bytes.h"
#include "compat/num.h"

#include <string.h>

#define MAGIC   0x69775150u /* "iwQP" */
#define VERSION 1
#define OTHER_HOST                                                                                 \
    "the connection comes from another address than that of the peer which it names; address "     \
    "translation (NAT) between the two is not possible"
#define LOW24 0xffffffu

enum { AT_MAGIC = 0, AT_KIND = 4, AT_REASON = 5, AT_VERSION = 7, AT_FROM = 8, AT_TO = 12 };
enum { AT_SQ = 16, AT_RQ = 20, AT_NONCE = 24 };
enum { KIND_HELLO = 1, KIND_REFUSAL = 2 };
enum { SQ_KNOWN = 1, RETRY_KNOWN = 8 }; /* the latter beside three bits of rnr_retry */

void num_wire_put(const struct num_hello *h, uint8_t octets[NUM_WIRE_OCTETS])
{
    uint32_t sq = h->sq_known ? (uint32_t)SQ_KNOWN << 24 | h->sq_psn : 0;
    uint32_t retry = h->retry_known ? RETRY_KNOWN | (h->rnr_retry & 7u) : 0;

    memset(octets, 0, NUM_WIRE_OCTETS);
    iwarp_put_be32(octets + AT_MAGIC, MAGIC);
    octets[AT_KIND] = KIND_HELLO;
    octets[AT_VERSION] = VERSION;
    iwarp_put_be32(octets + AT_FROM, h->from);
    iwarp_put_be32(octets + AT_TO, h->to);
    iwarp_put_be32(octets + AT_SQ, sq);
    iwarp_put_be32(octets + AT_RQ, retry << 24 | h->rq_psn);
    iwarp_put_be64(octets + AT_NONCE, h->nonce);
}

static bool is_ours(const uint8_t *o, size_t len, uint8_t kind)
{
    return len == NUM_WIRE_OCTETS && iwarp_get_be32(o + AT_MAGIC) == MAGIC && o[AT_KIND] == kind &&
           o[AT_VERSION] == VERSION;
}

bool num_wire_get(const void *octets, size_t len, struct num_hello *h)
{
    const uint8_t *o = octets;

    if (!is_ours(o, len, KIND_HELLO)) {
        return false;
    }
    uint32_t sq = iwarp_get_be32(o + AT_SQ), rq = iwarp_get_be32(o + AT_RQ);
    *h = (struct num_hello){.from = iwarp_get_be32(o + AT_FROM),
                            .to = iwarp_get_be32(o + AT_TO),
                            .sq_psn = sq & LOW24,
                            .rq_psn = rq & LOW24,
                            .sq_known = sq >> 24 & SQ_KNOWN,
                            .retry_known = rq >> 24 & RETRY_KNOWN,
                            .rnr_retry = (uint8_t)(rq >> 24 & 7),
                            .nonce = iwarp_get_be64(o + AT_NONCE)};
    return h->from <= LOW24 && h->to <= LOW24;
}

void num_wire_put_refusal(enum num_refusal why, uint8_t octets[NUM_WIRE_OCTETS])
{
    memset(octets, 0, NUM_WIRE_OCTETS);
    iwarp_put_be32(octets + AT_MAGIC, MAGIC);
    octets[AT_KIND] = KIND_REFUSAL;
    octets[AT_REASON] = (uint8_t)why;
    octets[AT_VERSION] = VERSION;
}

enum num_refusal num_wire_refusal(const void *octets, size_t len)
{
    const uint8_t *o = octets;

    return is_ours(o, len, KIND_REFUSAL) && o[AT_REASON] < NUM_REFUSALS
               ? (enum num_refusal)o[AT_REASON]
               : NUM_WELCOME;
}

const char *num_refusal_text(enum num_refusal why)
{
    static const char *const texts[NUM_REFUSALS] = {
        [NUM_WELCOME] = "no reason is given",
        [NUM_NOBODY] = "no queue pair has that number there",
        [NUM_OTHER_PEER] = "it names another queue pair as its peer",
        [NUM_OTHER_HOST] = OTHER_HOST,
        [NUM_OTHER_PSN] = "the packet sequence numbers do not fit: rq_psn is not the peer's",
        [NUM_BUSY] = "it has a connection, or too many wait"};

    return texts[why];
}

void num_hello_of(const struct num *n, struct num_hello *h)
{
    *h = (struct num_hello){.from = n->number,
                            .to = n->set.dest_qp_num & LOW24,
                            .sq_psn = n->set.sq_psn & LOW24,
                            .rq_psn = n->set.rq_psn & LOW24,
                            .sq_known = n->mask & IBV_QP_SQ_PSN,
                            .retry_known = n->mask & IBV_QP_RNR_RETRY,
                            .rnr_retry = n->set.rnr_retry & 7,
                            .nonce = n->nonce};
}

enum num_refusal num_hello_fits(const struct num *n, const struct num_hello *peer)
{
    struct num_hello own;

    num_hello_of(n, &own);
    if (own.to != peer->from || own.from != peer->to) {
        return NUM_OTHER_PEER;
    }
    if ((own.sq_known && own.sq_psn != peer->rq_psn) ||
        (peer->sq_known && peer->sq_psn != own.rq_psn)) {
        return NUM_OTHER_PSN;
    }
    return NUM_WELCOME;
}
