/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The exchanges of the interoperability cells, for both ends. See exchange.c.
 */
#ifndef INTEROP_EXCHANGE_H
#define INTEROP_EXCHANGE_H

#include "settings.h"
#include "side.h"

#include <stdarg.h>

/* One connection and its memory. */
struct talk {
    const struct settings *settings;
    struct side_link *link;
    unsigned char *region; /* the peer's to use */
    unsigned char *source, *sink, *slots;
    size_t area; /* octets of each of the first three, without guards */
    uint32_t slot_size;
    uint32_t region_stag;
    uint32_t peer_stag; /* as the peer's private data says */
    uint64_t peer_to;

    unsigned posted, completed; /* requests of this end */
    unsigned received;          /* messages of the peer, the last word included */
    bool told, heard;           /* "that was all": said, heard */
    bool judged;                /* the judgement of the end that listened is given, or has come */
    const char *status;         /* of the first request that failed */
    char complaint[160];        /* the first thing that was not as it should be */
};

void talk_complain(struct talk *talk, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Memory and receives for a link. */
void talk_init(struct talk *talk, const struct settings *settings, struct side_link *link);
void talk_free(struct talk *talk);

/* Post the receives; talk_init does so, unless they are to come late. */
void talk_receive(struct talk *talk);

/* A place for a message of at most 64 octets that this end sends. */
unsigned char *talk_word(const struct talk *talk);

/* The next completion of a request that went well, or false: it did not, or none came in time. */
bool talk_next(const struct talk *talk, struct side_done *done);

/* Octets of private data that say where this end's region is; and what the peer's say. */
void talk_introduce(const struct talk *talk, unsigned char *pd);
void talk_meet(struct talk *talk);

/* The role of rping's server or client on an established link, until the peer is done. */
void rping_run(struct talk *talk);

/* What an NVMe target does first, on an established link. */
void nvme_run(struct talk *talk);

/* What an NFS server does first. */
void nfs_run(struct talk *talk);

/* Run the exchange; prints the line "outcome ...". */
void exchange_run(const struct settings *settings);

/* A clock in milliseconds. */
uint64_t now_ms(void);

#endif
