/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is in a Terminate message: RFC 5040 4.8, with the codes of RFC 5040 7.1, RFC 5041 7.2,
 * RFC 5044 8, RFC 6581 8 and RFC 7306 8, and the bit order in which Linux's siw sends it.
 */
#ifndef DISSECTOR_TERMINATE_H
#define DISSECTOR_TERMINATE_H

#include "header.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dissect_term_order { DISSECT_ORDER_RFC, DISSECT_ORDER_SIW };

struct dissect_terminate {
    enum dissect_term_order order;
    uint8_t layer, etype, code;
    bool m, d, r;
    uint8_t reserved;
    unsigned length_at; /* offset of the DDP Segment Length, 0 if absent */
    uint16_t ddp_length;
    unsigned ddp_at;           /* offset of the terminated DDP header, 0 if absent */
    unsigned ddp_size;         /* 14 or 18 by its own T bit */
    unsigned rdma_at;          /* offset of the terminated RDMA header, 0 if absent */
    unsigned rdma_size;        /* 28, or what is there */
    struct dissect_header ddp; /* of the terminated segment, if ddp_at */
};

/* Of the n octets behind the DDP header; false if not even the control word is there. */
bool dissect_terminate_decode(struct dissect_terminate *t, const uint8_t *p, size_t n);

/* Names; never NULL. */
const char *dissect_terminate_layer(uint8_t layer);
const char *dissect_terminate_type(uint8_t layer, uint8_t etype);
const char *dissect_terminate_code(uint8_t layer, uint8_t etype, uint8_t code);

/* Is this combination in one of the tables of the RFCs? */
bool dissect_terminate_registered(uint8_t layer, uint8_t etype, uint8_t code);

#endif
