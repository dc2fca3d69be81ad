/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parsing of addresses and URLs. Strict about what could be misread (an IPv6 address without
 * brackets, a port out of range, a broken escape), with a sentence for each.
 */
#include "url.h"

#include <iwarp/conn.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char scheme[] = "iwarp://";

bool cp_url_is(const char *text)
{
    return strncmp(text, scheme, sizeof scheme - 1) == 0;
}

static const char *parse_port(const char *text, size_t len, char port[6])
{
    unsigned long value = 0;

    if (len == 0 || len > 5 || strspn(text, "0123456789") < len) {
        return "the port is not a number from 0 to 65535";
    }
    for (size_t i = 0; i < len; i++) {
        value = value * 10 + (unsigned long)(text[i] - '0');
    }
    if (value > 65535) {
        return "the port is not a number from 0 to 65535";
    }
    snprintf(port, 6, "%lu", value);
    return NULL;
}

const char *cp_address_parse(const char *text, size_t len, struct cp_address *address)
{
    const char *end = text + len;
    const char *host = text, *host_end, *after;

    snprintf(address->port, sizeof address->port, "%d", IWARP_DEFAULT_PORT);
    if (len > 0 && *text == '[') {
        host = text + 1;
        host_end = memchr(host, ']', (size_t)(end - host));
        if (!host_end) {
            return "there is no ] after the IPv6 address";
        }
        after = host_end + 1;
        if (after < end && *after != ':') {
            return "only a port may follow the ] of the address";
        }
    } else {
        const char *colon = memchr(text, ':', len);
        host_end = colon ? colon : end;
        after = host_end;
        if (colon && memchr(colon + 1, ':', (size_t)(end - colon - 1))) {
            return "an IPv6 address is written in brackets, as in [::1]:7475";
        }
    }
    size_t host_len = (size_t)(host_end - host);
    if (host_len >= sizeof address->host) {
        return "the host name is too long";
    }
    memcpy(address->host, host, host_len);
    address->host[host_len] = '\0';
    return after < end ? parse_port(after + 1, (size_t)(end - after - 1), address->port) : NULL;
}

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c | 0x20) : NULL;

    return at ? (int)(at - digits) : -1;
}

static const char *decode_name(const char *text, char *name, size_t size)
{
    size_t used = 0;

    for (; *text; text++) {
        int octet = (unsigned char)*text;
        if (*text == '%') {
            int high = hex_digit(text[1]);
            int low = high < 0 ? -1 : hex_digit(text[2]);
            if (low < 0) {
                return "two hexadecimal digits must follow a %; a % itself is written %25";
            }
            octet = high * 16 + low;
            text += 2;
        }
        if (octet == 0) {
            return "a name cannot hold %00";
        }
        if (octet == '/' && used == 0) {
            continue; /* names are relative to the export, also those that begin with %2F */
        }
        if (used + 1 >= size) {
            return "the name is too long";
        }
        name[used++] = (char)octet;
    }
    name[used] = '\0';
    return NULL;
}

const char *cp_url_parse(const char *text, struct cp_url *url)
{
    if (!cp_url_is(text)) {
        return "it does not begin with iwarp://";
    }
    text += sizeof scheme - 1;
    size_t len = strcspn(text, "/");
    const char *wrong = cp_address_parse(text, len, &url->address);
    if (wrong) {
        return wrong;
    }
    if (!url->address.host[0]) {
        return "the host is missing";
    }
    if (strcmp(url->address.port, "0") == 0) {
        return "port 0 cannot be connected to";
    }
    return decode_name(text + len, url->name, sizeof url->name);
}

void cp_address_format(const struct cp_address *address, char *buf, size_t size)
{
    bool brackets = strchr(address->host, ':') != NULL;

    snprintf(buf, size, "%s%s%s:%s", brackets ? "[" : "", address->host, brackets ? "]" : "",
             address->port);
}
