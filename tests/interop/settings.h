/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Settings of one exchange, from the words NAME=VALUE that a line of the table of cells gives to
 * the programs on both sides (tests/interop/cells). What a name means is said here once; a name
 * that means nothing is an error.
 */
#ifndef INTEROP_SETTINGS_H
#define INTEROP_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

/* What is asked of the peer that it has to refuse. */
enum wrong {
    WRONG_NOTHING = 0,
    WRONG_KEY,    /* the last octet of the STag */
    WRONG_INDEX,  /* the rest of it */
    WRONG_BOUNDS, /* half of it beyond the end */
    WRONG_STALE,  /* an STag that a Send with Invalidate has just made invalid */
    WRONG_ASKED   /* the right thing, which the peer's own settings forbid */
};

enum closing {
    CLOSE_CLIENT = 0, /* in order, by the end that connected */
    CLOSE_SERVER,     /* in order, by the end that listened */
    CLOSE_ABORT,      /* the end that connected goes without a word */
    CLOSE_BUSY        /* the same while its requests are being carried out */
};

enum operation {
    OP_NONE = 0,
    OP_SEND,
    OP_SEND_SE,
    OP_SEND_INV,
    OP_SEND_SE_INV,
    OP_WRITE,
    OP_READ,
    OP_RPING, /* what rping of librdmacm does */
    OP_NVME,  /* the beginning of NVMe over RDMA, with the guest's kernel */
    OP_NFS    /* the same of NFS */
};

struct settings {
    const char *address;
    unsigned server, port, time; /* time: seconds for each step */

    unsigned op, size, count; /* enum operation; octets of each, how many of them */
    unsigned qps, conns;      /* connections at a time, and one after the other */
    unsigned both;            /* the end that listened does the same at the same time */
    unsigned wrong;           /* enum wrong */
    unsigned close;           /* enum closing */
    unsigned pd;              /* octets of private data, of both */
    unsigned reject;          /* the end that listened says no */

    unsigned receives, rsize; /* of the end that listened: how many, how large */
    unsigned late;            /* and so many ms after it has accepted */
    unsigned read, write;     /* what its region allows */

    unsigned ird, ord;
    /* libiwarp alone: siw has parameters of its module for these */
    unsigned rev, crc, p2p, rtr, ulpdu, early, remind, strict, rnr;
    unsigned pieces; /* SGEs of each RDMA Read; siw takes one */
};

/* The defaults, then the words. False, with a sentence on stderr, when one is not understood. */
bool settings_read(struct settings *settings, int words, char **word);

#endif
