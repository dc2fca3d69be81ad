/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults: recording the first one, looking rows up, and telling them in sentences. The rows are in
 * include/iwarp/faults.def. Also the sentence for the last failed call of each thread.
 */
#ifndef IWARP_BASE_FAULT_H
#define IWARP_BASE_FAULT_H

#include <iwarp/status.h>
#include <stdbool.h>

/* What a received Terminate quotes of this end's segment that is to blame. */
enum iwarp_quote_kind {
    IWARP_QUOTE_NONE,
    IWARP_QUOTE_TAGGED,
    IWARP_QUOTE_UNTAGGED,
    IWARP_QUOTE_READ
};

struct iwarp_quote {
    uint8_t kind; /* enum iwarp_quote_kind */
    uint8_t opcode;
    bool siw_bit_order;
    uint32_t qn, msn; /* UNTAGGED, READ */
    uint32_t stag;    /* TAGGED; READ: of the source */
    uint32_t len;     /* READ: octets */
    uint64_t to;      /* TAGGED; READ: of the source */
};

struct iwarp_fault {
    enum iwarp_fault_code code;
    enum iwarp_fault_side side;
    uint64_t rx_pos;          /* stream octets received when it was noticed */
    uint64_t detail[3];       /* as the row's text says */
    struct iwarp_quote quote; /* PEER_TERMINATE, PEER_NO_RFC7306, PEER_NO_SEND_IMM */
};

struct iwarp_fault_row {
    const char *name;
    enum iwarp_status status;
    int layer; /* -1: no Terminate */
    unsigned etype, code;
    const char *rfc;
    const char *text;
};

const struct iwarp_fault_row *iwarp_fault_row(enum iwarp_fault_code code);

/* Fill *fault unless it holds one already: the first fault wins (RFC 5040 7.1). */
void iwarp_fault_set(struct iwarp_fault *fault, enum iwarp_fault_code code,
                     enum iwarp_fault_side side, uint64_t d0, uint64_t d1, uint64_t d2);

/* Did the peer end the stream by a Terminate? Then the details are its layer, type and code. */
static inline bool iwarp_fault_is_terminate(const struct iwarp_fault *fault)
{
    return fault->code == IWARP_FAULT_PEER_TERMINATE ||
           fault->code == IWARP_FAULT_PEER_NO_RFC7306 ||
           fault->code == IWARP_FAULT_PEER_NO_SEND_IMM;
}

/* What a peer means by that Terminate; NULL if the combination is not registered. */
const char *iwarp_terminate_meaning(unsigned layer, unsigned etype, unsigned code);

/* Set iwarp_last_error() of this thread and return status, so that `return iwarp_fail(...)`. */
enum iwarp_status iwarp_fail(enum iwarp_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same with the sentence of a fault. */
enum iwarp_status iwarp_fail_fault(const struct iwarp_fault *fault);

/* Is the argument of a public function there? Otherwise iwarp_last_error() says that it is NULL. */
#define IWARP_GIVEN(pointer) ((pointer) || iwarp_is_null(#pointer))
bool iwarp_is_null(const char *name); /* false */

#endif
