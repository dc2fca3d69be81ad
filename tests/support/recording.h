/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the library recorded: reads a pcapng file (little-endian, one Ethernet interface), checks
 * every length and checksum and that sequence numbers and acknowledgements fit without a gap, and
 * puts the octets of each connection together. Uses nothing of src/.
 */
#ifndef TESTS_RECORDING_H
#define TESTS_RECORDING_H

#include "octets.h"

#define RECORDING_CONNECTIONS 16

struct recording_packet {
    uint64_t ns;
    unsigned connection, side; /* who sent it */
    unsigned flags;            /* of TCP */
    bool inbound, cut;         /* cut: payload was left out */
    size_t payload;            /* octets */
    char comment[200];         /* "": none */
};

/* Side 0 sent the SYN. */
struct recording_connection {
    bool v6;
    uint8_t ip[2][16];
    uint16_t port[2];
    uint32_t next[2];
    bool fin[2], reset;
    struct octets octets[2]; /* that the side sent */
};

struct recording {
    char comment[500]; /* of the section header */
    struct octets file;
    struct recording_packet *packet;
    unsigned packets, connections;
    struct recording_connection connection[RECORDING_CONNECTIONS];
};

/* Fails the test if the file is not there or anything in it is wrong. */
void recording_load(struct recording *r, const char *path);
void recording_free(struct recording *r);

/* The octets that a side sent are these. */
void recording_expect(const struct recording *r, unsigned connection, unsigned side,
                      const char *hex);

#endif
