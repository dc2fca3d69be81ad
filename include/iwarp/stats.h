/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statistics: traffic of the streams of a device or a queue pair, and how they ended. The counters
 * of a device only count up. Any thread may read them at any time, and stops no transfer.
 * Each number is right by itself; numbers that are read during transfers need not be of the same
 * instant.
 */
#ifndef IWARP_STATS_H
#define IWARP_STATS_H

#include <iwarp/verbs.h>

IWARP_BEGIN_DECLS

/* One direction, in Full Operation (without the start-up frames). */
struct iwarp_traffic {
    uint64_t messages[16]; /* complete ones, by enum iwarp_opcode (protocol.h) */
    uint64_t payload;      /* octets that were sent from or placed in the applications' memory */
    uint64_t fpdus;
    uint64_t octets; /* of the TCP stream: headers, payload, padding, markers, CRC */
};

/* A Terminate ends a stream, so there is at most one in each direction. RFC 5040 4.8. */
struct iwarp_terminate_stats {
    unsigned count; /* 0: none, and the rest is 0; or 1 */
    unsigned layer, etype, code;
};

/* Of the connection that the queue pair has or had last; all 0 before the first. */
struct iwarp_qp_stats {
    size_t size; /* set by the caller to sizeof(struct iwarp_qp_stats) */
    struct iwarp_traffic sent, received;
    uint64_t messages_waited; /* received ones that came before their receive, and were held */

    /* How its stream ended, 0 or 1 each; all 0 while it goes on and after an orderly close. */
    unsigned crc_errors;          /* an FPDU with a wrong CRC arrived */
    unsigned receive_queue_empty; /* a message found no receive posted, in time */
    unsigned streams_lost;        /* the connection below was reset or timed out */
    struct iwarp_terminate_stats terminate_sent, terminate_received;
};

/*
 * Fill in *stats, whose size the caller has set. The numbers begin at 0 when the queue pair is
 * connected anew. MISUSE: another size.
 */
IWARP_API enum iwarp_status iwarp_qp_stats(struct iwarp_qp *qp, struct iwarp_qp_stats *stats);

/* Terminates by layer, error type and code; the last code stands for 0x0f and above. */
#define IWARP_STATS_LAYERS 3
#define IWARP_STATS_ETYPES 3
#define IWARP_STATS_CODES  16

struct iwarp_device_stats {
    size_t size; /* set by the caller to sizeof(struct iwarp_device_stats) */

    /* Since the device was opened. Streams that have ended are included. */
    struct iwarp_traffic sent, received;
    uint64_t messages_waited;     /* received ones that came before their receive, and were held */
    uint64_t crc_errors;          /* FPDUs with a wrong CRC; each ended its stream */
    uint64_t receive_queue_empty; /* messages that found no receive posted, in time; likewise */
    uint64_t streams_lost;        /* ended by the connection below: reset, timed out */
    uint64_t terminates_sent[IWARP_STATS_LAYERS][IWARP_STATS_ETYPES][IWARP_STATS_CODES];
    uint64_t terminates_received[IWARP_STATS_LAYERS][IWARP_STATS_ETYPES][IWARP_STATS_CODES];
    uint64_t terminates_unknown; /* received, with a layer or error type that there is not */
    uint64_t connects;           /* connections that this side began */
    uint64_t arrivals;           /* connections that peers began */
    uint64_t established;        /* of both */
    uint64_t rejected_here, rejected_by_peer;
    uint64_t failed;      /* start-ups that ended in any other way */
    uint64_t refused;     /* of arrivals, at once: `admit`, max_connections, no memory */
    uint64_t turned_away; /* of failed: for newer ones, beyond max_half_open or a backlog */

    /*
     * Times that a worker was told to take its loop back from threads of the application, mostly
     * since one was about to sleep or armed a queue: enum iwarp_progress in verbs.h.
     */
    uint64_t recalls;

    /* Objects now. */
    unsigned pds, regions, cqs, srqs, qps, event_queues, listeners;
    unsigned connections; /* as max_connections counts them: with those that only wait for the end
                           * of a close, and those that a queue pair keeps for what it can tell */
    unsigned half_open;   /* inbound start-ups, and rejected peers that have not closed yet */
    size_t buffer_bytes;  /* library memory in use for partly received, unsent or waiting FPDUs */
};

/*
 * Fill in *stats, whose size the caller has set. The call adds up over all connections, and no
 * connection can begin or end meanwhile: ask from time to time, not for each message. MISUSE:
 * another size.
 */
IWARP_API enum iwarp_status iwarp_device_stats(struct iwarp_device *device,
                                               struct iwarp_device_stats *stats);

/*
 * Write the numbers that are not 0, one "name value" a line, into buf, at most size octets with the
 * terminating zero (size 0: buf may be NULL). Returns the length of the whole text in octets, as
 * snprintf does.
 */
IWARP_API size_t iwarp_device_stats_text(const struct iwarp_device_stats *stats, char *buf,
                                         size_t size);

IWARP_END_DECLS

#endif
