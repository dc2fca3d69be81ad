/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One stream with all it needs, for tests: queues, an STag table, a budget, memory with canaries
 * around each buffer, posting without verbs, and a sink for what it sends.
 *
 * Every step is followed by iwarp_stream_check and a check of the canaries where that is cheap.
 * endpoint_fini fails the test if memory or lends are left over.
 */
#ifndef TESTS_ENDPOINT_H
#define TESTS_ENDPOINT_H

#include "octets.h"

#include "stream/stream.h"

#include <stdio.h>

#define ENDPOINT_REGIONS 40
#define LOCAL            IWARP_ACCESS_LOCAL_WRITE
#define WRITABLE         (IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE)
#define READABLE         IWARP_ACCESS_REMOTE_READ

struct endpoint_options {
    bool no_crc, early, hold_tx, refers, large_batches;
    bool markers_rx, markers_tx;
    bool rfc7306, send_imm, strict;
    bool plain; /* no runs (stream/stream_run.h) */
    enum iwarp_stream_rtr rtr;
    uint32_t mulpdu; /* 0: 1442 */
    uint32_t ird, ord;
    size_t budget; /* 0: plenty */
    size_t hold;   /* octets of messages that may wait for receives */
};

/* A registered buffer between canaries. */
struct area {
    uint8_t *p;
    size_t n;
    uint8_t *block;
    struct iwarp_region region;
    bool foreign; /* p is not from endpoint_area */
};

struct endpoint {
    struct endpoint_options options;
    struct iwarp_region_table *regions;
    struct iwarp_wq sq, rq;
    struct iwarp_budget budget;
    struct iwarp_spare spare;
    struct iwarp_stream_counts counts;
    struct iwarp_stream s;
    struct area area[ENDPOINT_REGIONS];
    unsigned areas;
    struct octets sent; /* everything that gather gave and sent took */
};

void endpoint_init(struct endpoint *e, const struct endpoint_options *options);
void endpoint_fini(struct endpoint *e);

/* n octets, all `fill`, registered with TO to_base of the first; another PD if `stranger`. */
struct area *endpoint_area(struct endpoint *e, uint32_t stag, uint64_t to_base, size_t n,
                           unsigned access, uint8_t fill);
struct area *endpoint_stranger(struct endpoint *e, uint32_t stag, uint64_t to_base, size_t n,
                               unsigned access);

/* Register memory of the caller's. */
struct area *endpoint_foreign(struct endpoint *e, uint32_t stag, uint64_t to_base, void *p,
                              size_t n, unsigned access);
void endpoint_deregister(struct endpoint *e, struct area *a);

/* An SGE for octets [off, off + len) of an area. */
struct iwarp_sge area_sge(const struct area *a, size_t off, size_t len);

/* Post. For a request the given fields of *wr are used as verbs would use them. */
void endpoint_recv(struct endpoint *e, const struct iwarp_sge *sgl, unsigned n);
void endpoint_recv_area(struct endpoint *e, const struct area *a);
void endpoint_post(struct endpoint *e, const struct iwarp_send_wr *wr);

/* The i-th receive and request posted. */
const struct iwarp_rwqe *endpoint_rwqe(const struct endpoint *e, unsigned i);
const struct iwarp_swqe *endpoint_swqe(const struct endpoint *e, unsigned i);

/* Octets in hex arrive, in one piece. */
void endpoint_feed_hex(struct endpoint *e, const char *hex);

/* A Read Request arrives, of so many octets at STag 0x00aabb00 and TO 0x7000, for STag 0x11223344
 * and TO 0x2000 of the peer. */
void endpoint_feed_read(struct endpoint *e, uint32_t msn, uint32_t octets);

/* Send until nothing is left to send now; all of it is released. */
void endpoint_drain(struct endpoint *e);

/* The same in random steps, releasing late. */
void endpoint_drain_randomly(struct endpoint *e, struct chance *c);

/* One gather and sent of at most n octets; returns how many. Nothing is released. */
size_t endpoint_send(struct endpoint *e, size_t n);

/*
 * What was sent since the last call is exactly this. CRC fields are not compared without CRC; hex
 * is without markers whatever is sent, those that are sent are checked.
 */
void endpoint_expect_sent(struct endpoint *e, const char *hex);
/* It is one Terminate; hex is what stands behind its DDP header. */
void endpoint_expect_terminate(struct endpoint *e, const char *hex);
void endpoint_forget_sent(struct endpoint *e);

/* Invariants and canaries. */
void endpoint_check(struct endpoint *e);

/* State, completions and memory as text; comparable between endpoints that had the same input. */
enum endpoint_dump { DUMP_ALL = 0, DUMP_NO_MEMORY = 1, DUMP_NO_POSITIONS = 2 };
void endpoint_dump(const struct endpoint *e, unsigned without, FILE *to);

#endif
