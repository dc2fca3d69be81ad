/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every receive test in every way: the same octets delivered whole, one by one, in random pieces,
 * in a random mixture of direct reads (want, placed) and staged ones (feed), and lent in random
 * pieces, each of which is freed as soon as it is given back (take); each with verified and early
 * placement and without CRC; and once more whole, but each FPDU by itself and none in a run
 * (stream/stream_run.h). Whatever the way, the end must be the same.
 */
#ifndef TESTS_DELIVERIES_H
#define TESTS_DELIVERIES_H

#include "endpoint.h"

enum delivery {
    DELIVER_WHOLE,
    DELIVER_SINGLY,
    DELIVER_SPLIT,
    DELIVER_MIXED,
    DELIVER_LENT,
    DELIVERIES
};
enum placement { PLACE_VERIFIED, PLACE_EARLY, PLACE_NO_CRC, PLACEMENTS };

/* Hand n octets to the stream in one way. Checks the stream after each step. */
void deliver(struct endpoint *e, enum delivery way, const uint8_t *p, size_t n, struct chance *c);

/* A receive test. */
struct scene {
    struct endpoint_options options; /* no_crc and early are set by receive_every_way */
    void (*setup)(struct endpoint *e, void *arg);
    void (*check)(struct endpoint *e, void *arg); /* after the octets came and all was sent */
    void *arg;
    const uint8_t *octets;
    size_t n;
    bool keep_unsent;       /* do not send while receiving */
    unsigned without;       /* enum endpoint_dump: what may differ between the ways */
    unsigned not_placement; /* bit mask of enum placement to leave out */
};

void receive_every_way(const struct scene *scene);

#endif
