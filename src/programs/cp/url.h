/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iwarp://HOST[:PORT]/NAME and HOST:PORT as people write them. HOST is a name, an IPv4 address or
 * an IPv6 address in brackets. %XX in NAME stands for an octet; everything else, spaces, '?' and
 * '#' included, stands for itself. No name look-up here.
 */
#ifndef CP_URL_H
#define CP_URL_H

#include "limits.h"

#include <stdbool.h>
#include <stddef.h>

#define CP_HOST_MAX 256

struct cp_address {
    char host[CP_HOST_MAX];
    char port[6]; /* a decimal number up to 65535 */
};

struct cp_url {
    struct cp_address address;
    char name[CP_PATH_MAX]; /* without leading slashes */
};

/* True if text begins like a URL of ours. */
bool cp_url_is(const char *text);

/* NULL, or a sentence that says what is wrong. */
const char *cp_url_parse(const char *text, struct cp_url *url);

/* HOST, HOST:PORT, [HOST]:PORT or :PORT (host "" then); len octets of text. The same result. */
const char *cp_address_parse(const char *text, size_t len, struct cp_address *address);

/* How the address is written in messages. */
void cp_address_format(const struct cp_address *address, char *buf, size_t size);

#endif
