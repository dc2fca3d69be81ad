/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that is nothing but a blocking socket and literal octets: no encoder, no decoder, no state
 * machine. What it sends and what it expects is written out in hexadecimal by each test; only what
 * is known no earlier than at run time (STags, addresses, and CRCs over those) is filled in.
 *
 * Every wait has an end: RAW_PATIENCE_MS, or what the call says.
 */
#ifndef TESTS_RAW_PEER_H
#define TESTS_RAW_PEER_H

#include "octets.h"

#include <netinet/in.h>

#define RAW_PATIENCE_MS 90000

/* What run time fills in. A name is one capital letter. */
struct raw_names {
    uint64_t value[26]; /* of 'A' to 'Z' */
    uint8_t size[26];   /* octets, 0: no such name */
};

void raw_name(struct raw_names *names, char letter, uint64_t value, unsigned size);

/*
 * Append the octets of a text: pairs of hexadecimal digits in small letters, and
 *   W, W+1f, W-4  the value of a name, most significant octet first, plus or minus something
 *   |             here a new FPDU begins
 *   C             CRC32c of the FPDU so far, computed bit by bit, least significant octet first
 *   Nxx*count     count (decimal) octets xx
 */
void raw_text(struct octets *o, const struct raw_names *names, const char *text);

/* --- sockets, all on 127.0.0.1 --------------------------------------------------------------- */

int raw_connect(const struct sockaddr_in *to);

/* A listening socket; its address goes to *at. */
int raw_listen(struct sockaddr_in *at);
int raw_accept(int listener);

/* All of it, or the test fails. */
void raw_send(int fd, const void *p, size_t n);

/* In pieces: `piece` octets each (1: octet by octet), or of random size (0); each a segment. */
void raw_send_pieces(int fd, const void *p, size_t n, size_t piece, struct chance *chance);

/* Exactly n octets; the test fails if fewer come before the end or the time is up. */
void raw_read(int fd, void *p, size_t n, const char *what);

/* The next octets are these. */
void raw_expect(int fd, const void *p, size_t n, const char *what);

/* Send or expect a text. */
void raw_say(int fd, const struct raw_names *names, const char *text);
void raw_hear(int fd, const struct raw_names *names, const char *text, const char *what);

enum raw_end { RAW_FIN, RAW_RESET };

/* The connection ends without a further octet, and how. */
enum raw_end raw_end(int fd, const char *what);

/* The same, and only FIN will do: a reset could have destroyed what went before it. */
void raw_expect_fin(int fd, const char *what);

/* Nothing comes, not even an end, for that long. */
void raw_expect_silence(int fd, int ms, const char *what);

/* Take everything until the end or a reset; returns how many octets there were. */
size_t raw_drain(int fd);

void raw_fin(int fd);   /* half-close: no more octets from here */
void raw_reset(int fd); /* RST, and the socket is closed */
void raw_close(int fd);

#endif
