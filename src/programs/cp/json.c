/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * JSON strings (RFC 8259 7). UTF-8 is passed through after a strict check: no overlong forms, no
 * surrogates, nothing above U+10FFFF.
 */
#include "json.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct output {
    char *buf;
    size_t size;
    size_t len; /* of the whole, which may be more than fits */
};

static void put(struct output *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++, out->len++) {
        if (out->len + 1 < out->size) {
            out->buf[out->len] = text[i];
        }
    }
}

size_t cp_json_utf8_len(const char *character)
{
    const unsigned char *text = (const unsigned char *)character;
    static const struct {
        unsigned char low, high, second_low, second_high;
        size_t len;
    } forms[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };

    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (text[0] < forms[i].low || text[0] > forms[i].high) {
            continue;
        }
        if (text[1] < forms[i].second_low || text[1] > forms[i].second_high) {
            return 0;
        }
        for (size_t at = 2; at < forms[i].len; at++) {
            if ((text[at] & 0xc0) != 0x80) {
                return 0;
            }
        }
        return forms[i].len;
    }
    return 0;
}

static void put_escape(struct output *out, unsigned char octet)
{
    static const char named[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    char text[8];

    for (size_t i = 0; i + 1 < sizeof named - 1; i += 2) {
        if ((unsigned char)named[i] == octet) {
            char pair[2] = {'\\', named[i + 1]};
            put(out, pair, 2);
            return;
        }
    }
    snprintf(text, sizeof text, "\\u%04x", octet < 0x80 ? octet : 0xdc00u + octet);
    put(out, text, 6);
}

size_t cp_json_string(const char *text, char *buf, size_t size)
{
    struct output out = {buf, size, 0};

    put(&out, "\"", 1);
    while (*text) {
        unsigned char octet = (unsigned char)*text;
        if (octet >= 0x80) {
            size_t len = cp_json_utf8_len(text);
            if (len > 0) {
                put(&out, text, len);
                text += len;
                continue;
            }
        }
        if (octet < 0x20 || octet == '"' || octet == '\\' || octet >= 0x7f) {
            put_escape(&out, octet);
        } else {
            put(&out, text, 1);
        }
        text++;
    }
    put(&out, "\"", 1);
    if (size > 0) {
        buf[out.len < size ? out.len : size - 1] = '\0';
    }
    return out.len;
}
