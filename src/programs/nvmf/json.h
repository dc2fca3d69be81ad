/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * JSON (RFC 8259), read into a tree of values. Numbers are whole ones from 0 to 2^64 - 1, since
 * nothing else is asked for; texts have no octet 0.
 */
#ifndef NVMF_JSON_H
#define NVMF_JSON_H

#include <stdint.h>

enum nvmf_json_type {
    NVMF_JSON_NULL,
    NVMF_JSON_BOOL,
    NVMF_JSON_NUMBER,
    NVMF_JSON_TEXT,
    NVMF_JSON_ARRAY,
    NVMF_JSON_OBJECT
};

struct nvmf_json {
    enum nvmf_json_type type;
    unsigned line;
    const char *name;               /* in an object */
    const char *text;               /* TEXT */
    uint64_t number;                /* NUMBER, and 0 or 1 of a BOOL */
    struct nvmf_json *first, *next; /* what is within; what comes after */
};

/* The value that text is. The values refer to text, which is changed and has to stay. NULL after
 * *why and *line say what is wrong and where. */
struct nvmf_json *nvmf_json_read(char *text, const char **why, unsigned *line);
void nvmf_json_free(struct nvmf_json *value);

#endif
