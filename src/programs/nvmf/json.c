/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recursive descent; texts are unescaped in place, since no escape is longer than what it means.
 */
#include "json.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH 32

struct reader {
    char *at;
    unsigned line, depth;
    const char *why;
};

static struct nvmf_json *read_value(struct reader *reader);

static void *wrong(struct reader *reader, const char *why)
{
    if (!reader->why) {
        reader->why = why;
    }
    return NULL;
}

static char skip_space(struct reader *reader)
{
    while (*reader->at == ' ' || *reader->at == '\t' || *reader->at == '\r' ||
           *reader->at == '\n') {
        reader->line += *reader->at++ == '\n';
    }
    return *reader->at;
}

/* --- texts ----------------------------------------------------------------------------------- */

/* The four digits of an escape; 0 is wrong. */
static unsigned read_hex(const char *at)
{
    char digits[5] = "", *end;
    unsigned value;

    memcpy(digits, at, strnlen(at, 4));
    value = (unsigned)strtoul(digits, &end, 16);
    return end == digits + 4 && strspn(digits, "0123456789abcdefABCDEF") == 4 ? value : 0;
}

static char *put_utf8(char *to, unsigned code)
{
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3f));
    } else {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    }
    return to;
}

/* Behind a backslash. NULL: no such escape. */
static char *read_escape(struct reader *reader, char *to)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *letter = *reader->at ? strchr(letters, *reader->at) : NULL;
    unsigned code;

    if (letter) {
        reader->at++;
        *to++ = meant[letter - letters];
        return to;
    }
    code = *reader->at == 'u' ? read_hex(reader->at + 1) : 0;
    if (code == 0 || (code >= 0xd800 && code < 0xe000)) {
        return wrong(reader, "an escape that is not taken here");
    }
    reader->at += 5;
    return put_utf8(to, code);
}

/* at is behind the quote. */
static const char *read_text(struct reader *reader)
{
    char *text = reader->at, *to = text;

    while (*reader->at != '"') {
        if ((unsigned char)*reader->at < 0x20) {
            return wrong(reader, "a text without its second quote");
        }
        if (*reader->at == '\\') {
            reader->at++;
            to = read_escape(reader, to);
            if (!to) {
                return NULL;
            }
        } else {
            *to++ = *reader->at++;
        }
    }
    reader->at++;
    *to = '\0';
    return text;
}

/* --- values ---------------------------------------------------------------------------------- */

/* One more member; at is at its beginning. */
static bool read_member(struct reader *reader, struct nvmf_json *parent, struct nvmf_json **last)
{
    const char *name = NULL;

    if (parent->type == NVMF_JSON_OBJECT) {
        if (*reader->at != '"') {
            return wrong(reader, "the name of a member in quotes is missing");
        }
        reader->at++;
        name = read_text(reader);
        if (!name) {
            return false;
        }
        if (skip_space(reader) != ':') {
            return wrong(reader, "a colon is missing");
        }
        reader->at++;
    }
    *last = read_value(reader);
    if (*last) {
        (*last)->name = name;
    }
    return *last != NULL;
}

static bool read_members(struct reader *reader, struct nvmf_json *parent)
{
    char end = parent->type == NVMF_JSON_OBJECT ? '}' : ']';
    struct nvmf_json **last = &parent->first;

    reader->at++;
    if (skip_space(reader) == end) {
        reader->at++;
        return true;
    }
    while (skip_space(reader), read_member(reader, parent, last)) {
        char next = skip_space(reader);
        last = &(*last)->next;
        if (next != ',' && next != end) {
            return wrong(reader, "a comma or the closing bracket is missing");
        }
        reader->at++;
        if (next == end) {
            return true;
        }
    }
    return false;
}

static bool read_number(struct reader *reader, uint64_t *number)
{
    const char *first = reader->at;

    *number = 0;
    while (*reader->at >= '0' && *reader->at <= '9') {
        unsigned digit = (unsigned)(*reader->at++ - '0');
        if (*number > (UINT64_MAX - digit) / 10) {
            return wrong(reader, "a number that is too large");
        }
        *number = *number * 10 + digit;
    }
    if (reader->at == first || (*first == '0' && reader->at != first + 1) ||
        (*reader->at && strchr(".eE+-", *reader->at))) {
        return wrong(reader, "neither a whole number nor anything else that JSON has");
    }
    return true;
}

static bool read_word(struct reader *reader, struct nvmf_json *value)
{
    static const struct {
        const char *word;
        enum nvmf_json_type type;
        uint64_t number;
    } words[] = {
        {"true", NVMF_JSON_BOOL, 1}, {"false", NVMF_JSON_BOOL, 0}, {"null", NVMF_JSON_NULL, 0}};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t len = strlen(words[i].word);
        if (strncmp(reader->at, words[i].word, len) == 0) {
            reader->at += len;
            value->type = words[i].type;
            value->number = words[i].number;
            return true;
        }
    }
    value->type = NVMF_JSON_NUMBER;
    return read_number(reader, &value->number);
}

static bool fill(struct reader *reader, struct nvmf_json *value)
{
    switch (skip_space(reader)) {
    case '{':
    case '[':
        value->type = *reader->at == '{' ? NVMF_JSON_OBJECT : NVMF_JSON_ARRAY;
        if (reader->depth > DEPTH) {
            return wrong(reader, "too deep");
        }
        return read_members(reader, value);
    case '"':
        reader->at++;
        value->type = NVMF_JSON_TEXT;
        value->text = read_text(reader);
        return value->text != NULL;
    default:
        return read_word(reader, value);
    }
}

static struct nvmf_json *read_value(struct reader *reader)
{
    struct nvmf_json *value = calloc(1, sizeof *value);
    bool good;

    if (!value) {
        return wrong(reader, "not enough memory");
    }
    reader->depth++;
    skip_space(reader);
    value->line = reader->line;
    good = fill(reader, value);
    reader->depth--;
    if (good) {
        return value;
    }
    nvmf_json_free(value);
    return NULL;
}

struct nvmf_json *nvmf_json_read(char *text, const char **why, unsigned *line)
{
    struct reader reader = {text, 1, 0, NULL};
    struct nvmf_json *value = read_value(&reader);

    if (value && skip_space(&reader) != '\0') {
        nvmf_json_free(value);
        value = wrong(&reader, "something behind the end");
    }
    *why = reader.why;
    *line = reader.line;
    return value;
}

void nvmf_json_free(struct nvmf_json *value)
{
    while (value) {
        struct nvmf_json *next = value->next;
        nvmf_json_free(value->first);
        free(value);
        value = next;
    }
}
