/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The configuration file: {"listen": "192.0.2.1:4420", "memory": "256M", "crc": true, "uring":
 * true, "metrics": "127.0.0.1:9420", "tls": "psk=FILE", "secrets": "FILE", "subsystems":
 * [{"nqn": "nqn...", "hosts": ["nqn..."], "namespaces":
 * [{"disk": "/srv/a", "nsid": 1, "read_only": false, "block": 4096}]}]}. What it does not say is as
 * on the command line. A name that is not known is an error: it may be a mistake in one that is.
 */
#include "json.h"
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct config {
    struct nvmf_options *options;
    const char *file;
    struct nvmf_wanted_disk next;
};

/* A member that may be there. letter: of the option that it is; 0: see `use`. */
struct member {
    const char *name;
    enum nvmf_json_type type;
    int letter;
    bool (*use)(struct config *config, const struct nvmf_json *value);
};

static bool wrong(const struct config *config, unsigned line, const char *what, const char *why)
{
    fprintf(stderr, "iwarp-nvmf: %s:%u: %s%s%s\n", config->file, line, what ? what : "",
            what ? ": " : "", why);
    return false;
}

static bool use_member(struct config *config, const struct nvmf_json *value,
                       const struct member *member)
{
    if (value->type != member->type) {
        return wrong(config, value->line, member->name, "a value of another type is needed");
    }
    if (member->use) {
        return member->use(config, value);
    }
    /* Options only switch off what is so by default. */
    if (value->type == NVMF_JSON_BOOL && value->number) {
        return true;
    }
    return nvmf_options_set(config->options, member->letter, value->text, &config->next) ||
           wrong(config, value->line, member->name, "see above");
}

/* Uses the members of an object in the order of the table, whose first one has to be there. */
static bool use_object(struct config *config, const struct nvmf_json *object,
                       const struct member *members, size_t count)
{
    const struct nvmf_json *value;

    if (object->type != NVMF_JSON_OBJECT) {
        return wrong(config, object->line, NULL, "an object is needed here");
    }
    for (value = object->first; value; value = value->next) {
        size_t i = 0;
        while (i < count && strcmp(members[i].name, value->name) != 0) {
            i++;
        }
        if (i == count) {
            return wrong(config, value->line, value->name, "there is no such thing here");
        }
    }
    for (size_t i = 0; i < count; i++) {
        for (value = object->first; value && strcmp(value->name, members[i].name) != 0;) {
            value = value->next;
        }
        if (value && !use_member(config, value, &members[i])) {
            return false;
        }
        if (!value && i == 0) {
            return wrong(config, object->line, members[0].name, "is missing");
        }
    }
    return true;
}

static bool use_block(struct config *config, const struct nvmf_json *value)
{
    config->next.block = (uint32_t)value->number;
    return value->number == 512 || value->number == 4096 ||
           wrong(config, value->line, "block", "neither 512 nor 4096");
}

static bool use_nsid(struct config *config, const struct nvmf_json *value)
{
    config->next.nsid = (uint32_t)value->number;
    return (value->number >= 1 && value->number <= NVMF_NAMESPACES) ||
           wrong(config, value->line, "nsid", "not a number from 1 to 256");
}

static bool use_read_only(struct config *config, const struct nvmf_json *value)
{
    config->next.read_only = value->number;
    return true;
}

/* "disk" is looked at first, as it has to be there, and used last, as the others are about it. */
static bool know_disk(struct config *config, const struct nvmf_json *value)
{
    config->next.name = value->text;
    return true;
}

static bool use_namespaces(struct config *config, const struct nvmf_json *value)
{
    static const struct member members[] = {{"disk", NVMF_JSON_TEXT, 0, know_disk},
                                            {"read_only", NVMF_JSON_BOOL, 0, use_read_only},
                                            {"block", NVMF_JSON_NUMBER, 0, use_block},
                                            {"nsid", NVMF_JSON_NUMBER, 0, use_nsid}};

    for (const struct nvmf_json *one = value->first; one; one = one->next) {
        config->next = (struct nvmf_wanted_disk){0};
        if (!use_object(config, one, members, 4) ||
            !nvmf_options_set(config->options, 'n', config->next.name, &config->next)) {
            return false;
        }
    }
    return true;
}

static bool use_hosts(struct config *config, const struct nvmf_json *value)
{
    for (const struct nvmf_json *one = value->first; one; one = one->next) {
        if (one->type != NVMF_JSON_TEXT) {
            return wrong(config, one->line, "hosts", "names in quotes are needed");
        }
        if (!nvmf_options_set(config->options, 'H', one->text, &config->next)) {
            return false;
        }
    }
    return true;
}

static bool use_subsystems(struct config *config, const struct nvmf_json *value)
{
    static const struct member members[] = {{"nqn", NVMF_JSON_TEXT, 'q', NULL},
                                            {"hosts", NVMF_JSON_ARRAY, 0, use_hosts},
                                            {"namespaces", NVMF_JSON_ARRAY, 0, use_namespaces}};

    for (const struct nvmf_json *one = value->first; one; one = one->next) {
        if (!use_object(config, one, members, 3)) {
            return false;
        }
    }
    return true;
}

static char *read_file(const char *name)
{
    FILE *file = fopen(name, "re");
    char *text = NULL;
    size_t size = 0;

    if (!file) {
        return NULL;
    }
    /* All of it: no octet is 0. */
    if (getdelim(&text, &size, '\0', file) < 0) {
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}

static bool use_file(const char *file, struct nvmf_options *options)
{
    static const struct member members[] = {{"subsystems", NVMF_JSON_ARRAY, 0, use_subsystems},
                                            {"listen", NVMF_JSON_TEXT, 'l', NULL},
                                            {"memory", NVMF_JSON_TEXT, 'm', NULL},
                                            {"crc", NVMF_JSON_BOOL, 256, NULL},
                                            {"uring", NVMF_JSON_BOOL, 257, NULL},
                                            {"metrics", NVMF_JSON_TEXT, 258, NULL},
                                            {"tls", NVMF_JSON_TEXT, 'T', NULL},
                                            {"secrets", NVMF_JSON_TEXT, 259, NULL}};
    struct config config = {options, file, {0}};
    const char *why;
    unsigned line;

    options->config_text = read_file(file);
    if (!options->config_text) {
        return wrong(&config, 0, NULL, "it cannot be read, or is empty");
    }
    options->config = nvmf_json_read(options->config_text, &why, &line);
    if (!options->config) {
        free(options->config_text);
        options->config_text = NULL;
        return wrong(&config, line, NULL, why);
    }
    return use_object(&config, options->config, members, sizeof members / sizeof *members);
}

bool nvmf_options_read(int argc, char **argv, struct nvmf_options *options)
{
    return nvmf_options_parse(argc, argv, options) &&
           (!options->config_file || use_file(options->config_file, options));
}
