/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recorded traffic: reads a capture file (pcap, Ethernet, IPv4) and puts the octets of each TCP
 * connection together by sequence number, remembering which frame completed them. Knows nothing of
 * iWARP, and uses nothing of src/.
 */
#ifndef TESTS_CAPTURE_H
#define TESTS_CAPTURE_H

#include "octets.h"

#define CAPTURE_CONNECTIONS 8

/* Octets up to `end` of a direction are there since this frame (counted from 1). */
struct tcp_arrival {
    size_t end;
    unsigned frame;
};

/* A segment that came before the octets in front of it. */
struct tcp_early {
    size_t at, n;
    uint8_t *p;
    struct tcp_early *next;
};

struct tcp_direction {
    bool begun;     /* SYN seen */
    uint32_t first; /* sequence number of the first octet */
    struct octets octets;
    struct tcp_arrival *arrival;
    size_t arrivals;
    struct tcp_early *early;
};

/* Side 0 opened the connection; direction 0 is what it sent. */
struct tcp_connection {
    uint32_t addr[2];
    uint16_t port[2];
    struct tcp_direction direction[2];
};

struct capture {
    unsigned packets;
    unsigned connections;
    struct tcp_connection connection[CAPTURE_CONNECTIONS];
};

/* Fails the test, with a reason, if the file is not what is said above. */
void capture_load(struct capture *c, const char *path);
void capture_free(struct capture *c);

/* The frame that brought octet `at - 1` of a direction. */
unsigned capture_frame(const struct tcp_direction *d, size_t at);

#endif
