/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Words to settings: one table of names. Does not know what they are for.
 */
#include "settings.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const operations[] = {"none",        "send",  "send-se", "send-inv",
                                         "send-se-inv", "write", "read",    "rping",
                                         "nvme",        "nfs",   NULL};
static const char *const wrongs[] = {"nothing", "key", "index", "bounds", "stale", "asked", NULL};
static const char *const closings[] = {"client", "server", "abort", "busy", NULL};
static const char *const roles[] = {"client", "server", NULL};

static const struct name {
    const char *name;
    size_t offset;
    const char *const *words; /* NULL: a number */
} names[] = {
    {"role", offsetof(struct settings, server), roles},
    {"port", offsetof(struct settings, port), NULL},
    {"time", offsetof(struct settings, time), NULL},
    {"op", offsetof(struct settings, op), operations},
    {"size", offsetof(struct settings, size), NULL},
    {"count", offsetof(struct settings, count), NULL},
    {"qps", offsetof(struct settings, qps), NULL},
    {"conns", offsetof(struct settings, conns), NULL},
    {"both", offsetof(struct settings, both), NULL},
    {"wrong", offsetof(struct settings, wrong), wrongs},
    {"close", offsetof(struct settings, close), closings},
    {"pd", offsetof(struct settings, pd), NULL},
    {"reject", offsetof(struct settings, reject), NULL},
    {"receives", offsetof(struct settings, receives), NULL},
    {"late", offsetof(struct settings, late), NULL},
    {"rsize", offsetof(struct settings, rsize), NULL},
    {"read", offsetof(struct settings, read), NULL},
    {"write", offsetof(struct settings, write), NULL},
    {"ird", offsetof(struct settings, ird), NULL},
    {"ord", offsetof(struct settings, ord), NULL},
    {"rev", offsetof(struct settings, rev), NULL},
    {"crc", offsetof(struct settings, crc), NULL},
    {"p2p", offsetof(struct settings, p2p), NULL},
    {"rtr", offsetof(struct settings, rtr), NULL},
    {"ulpdu", offsetof(struct settings, ulpdu), NULL},
    {"early", offsetof(struct settings, early), NULL},
    {"remind", offsetof(struct settings, remind), NULL},
    {"strict", offsetof(struct settings, strict), NULL},
    {"pieces", offsetof(struct settings, pieces), NULL},
    {"rnr", offsetof(struct settings, rnr), NULL},
};

static bool value_read(const struct name *name, const char *text, unsigned *value)
{
    char *end;

    if (name->words) {
        for (unsigned i = 0; name->words[i]; i++) {
            if (!strcmp(name->words[i], text)) {
                *value = i;
                return true;
            }
        }
        return false;
    }
    *value = (unsigned)strtoul(text, &end, 0);
    return *text && !*end;
}

static bool word_read(struct settings *settings, char *word)
{
    size_t len = strcspn(word, "=");

    if (!strncmp(word, "addr=", 5)) {
        settings->address = word + 5;
        return true;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i].name) == len && !strncmp(names[i].name, word, len) && word[len]) {
            return value_read(&names[i], word + len + 1,
                              (unsigned *)(void *)((char *)settings + names[i].offset));
        }
    }
    return false;
}

bool settings_read(struct settings *settings, int words, char **word)
{
    *settings = (struct settings){.address = "0.0.0.0",
                                  .port = 7471,
                                  .time = 15,
                                  .count = 3,
                                  .qps = 1,
                                  .conns = 1,
                                  .pd = 16,
                                  .receives = 250,
                                  .read = 1,
                                  .write = 1,
                                  .ird = 4,
                                  .ord = 4,
                                  .rev = 2,
                                  .crc = 1,
                                  .p2p = 1,
                                  .pieces = 1};
    for (int i = 0; i < words; i++) {
        if (!word_read(settings, word[i])) {
            fprintf(stderr, "not understood: %s\n", word[i]);
            return false;
        }
    }
    return true;
}
