/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults on request: what IWARP_FAULTS asks for, so that people can see what their programs do when
 * a connection is lost, an FPDU comes with a wrong CRC, octets come in small pieces, or memory
 * cannot be registered. Each of them is a line in the log, at the level of warnings, so that nobody
 * takes it for a real one. iwarp_env(7) has the words.
 *
 * inject.c: the words, the device's part and registrations. conn_inject.c: what happens at the
 * border between a connection and its endpoint, above the capture, which so records what is really
 * sent. Without IWARP_FAULTS none of it is reached.
 */
#ifndef IWARP_VERBS_INJECT_H
#define IWARP_VERBS_INJECT_H

#include <iwarp/status.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct iwarp_conn;
struct iwarp_loans;

enum iwarp_inject_word {
    INJECT_LOSE_OCTET, /* the connection is lost where this octet would be sent */
    INJECT_LOSE_FPDU,  /* ... this FPDU */
    INJECT_CRC,        /* this FPDU is sent with a wrong CRC */
    INJECT_SPLIT,      /* octets that a read or write moves at most */
    INJECT_DELAY,      /* ms before each write */
    INJECT_LATE,       /* ms until what was written counts as released: requests complete late */
    INJECT_REGISTER,   /* this registration fails */
    INJECT_LEND,       /* in memory: pieces that are lent; and what is sent is released late */
    INJECT_ALLOC,      /* this allocation of the library fails */
    INJECT_ONLY,       /* connections that are meant; all if it is not said */
    INJECT_SEED,
    INJECT_WORDS
};

/* From `least` to `most`, drawn anew for each connection, or each read and write; or a number. */
struct iwarp_inject_range {
    bool given;
    uint64_t least, most;
};

struct iwarp_inject_plan {
    struct iwarp_inject_range range[INJECT_WORDS];
};

/* The part of a device; NULL in devices without IWARP_FAULTS. The plan is constant. */
struct iwarp_injector {
    struct iwarp_inject_plan plan;
    uint64_t failing;                      /* which registration; 0: none */
    _Atomic uint64_t conns, registrations; /* so far */
};

/* Where one connection's octets stand; positions count from the first of Full Operation. */
struct iwarp_inject_track {
    uint64_t at;         /* sent */
    uint64_t fpdus;      /* begun, or to begin at `start` */
    uint64_t start, end; /* of the current one; end is start while its length is not known */
    uint8_t first;       /* octet of its length field, if the second is not sent yet */
};

/* The part of a connection, guarded by conn.lock. */
struct iwarp_inject {
    uint64_t number; /* of the connection on its device, from 1 */
    uint64_t random;
    struct iwarp_inject_range split, delay, late;
    uint64_t lose_octet, lose_fpdu, crc; /* 0: none */
    uint64_t sent;                       /* octets, those of the start-up too */
    bool framing;                        /* Full Operation has begun: octets belong to FPDUs */
    bool lost;
    struct iwarp_inject_track track;
    size_t held, due; /* octets that were written: not released yet; of these at due_ms */
    int64_t due_ms;   /* of the monotonic clock */
};

/* MISUSE, with a sentence: what could not be understood. */
enum iwarp_status iwarp_inject_parse(const char *text, struct iwarp_inject_plan *plan);

/*
 * A number of the range; *random is the generator's state, which each call advances. 0 if the range
 * is not given.
 */
uint64_t iwarp_inject_draw(uint64_t *random, const struct iwarp_inject_range *range);

/*
 * What IWARP_FAULTS asks for. *injector is NULL if it is not set; otherwise the caller frees it.
 * MISUSE: it cannot be understood, and the device is not opened, since a test of errors that makes
 * none would mislead.
 */
enum iwarp_status iwarp_injector_open(struct iwarp_injector **injector);

/*
 * The part for the next connection of the device; *inject is NULL if `only` excludes it. The caller
 * frees it.
 */
enum iwarp_status iwarp_inject_open(struct iwarp_injector *injector, struct iwarp_inject **inject);

/* Do connections in memory lend, and if so in pieces of up to how many octets? 0: they do not. Of
 * *seed each pair has one of its own. */
size_t iwarp_inject_lend(const struct iwarp_injector *injector, uint64_t *seed);

/* Count one registration of a region. NO_MEMORY if this is the one that is to fail. */
enum iwarp_status iwarp_inject_registration(struct iwarp_injector *injector);

/*
 * Follow FPDUs over the next n octets of iov. wrong: where the last octet of the FPDU number `crc`
 * is, if it is among them; lose: where number `lose` begins; otherwise they stay as they are.
 */
void iwarp_inject_follow(struct iwarp_inject_track *t, const struct iovec *iov, uint64_t n,
                         bool markers, const struct iwarp_inject *inject, uint64_t *wrong,
                         uint64_t *lose);

/*
 * Late releases: what the connection has instead of its endpoint's loans; NULL: nothing, since
 * octets count as released once they are written. No transport refers to anything by it: it has a
 * copy, and only says so late. late_ms: how long until something is released, at least 1; 0:
 * nothing is held.
 */
const struct iwarp_loans *iwarp_inject_loans(const struct iwarp_inject *inject);
unsigned iwarp_inject_late_ms(const struct iwarp_inject *inject);

/* Called instead of the endpoint's readv and writev, with the same results. conn.lock held. */
ssize_t iwarp_inject_readv(struct iwarp_conn *conn, const struct iovec *iov, int n);
ssize_t iwarp_inject_writev(struct iwarp_conn *conn, const struct iovec *iov, int n);

#endif
