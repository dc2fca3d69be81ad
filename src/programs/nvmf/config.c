/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The configuration file, in YAML, of which JSON is a part: {"listen": "192.0.2.1:4420", "memory":
 * "256M", "crc": true, "uring": true, "metrics": "127.0.0.1:9420", "tls": "psk=FILE", "secrets":
 * "FILE", "subsystems": [{"nqn": "nqn...", "hosts": ["nqn..."], "namespaces": [{"disk": "/srv/a",
 * "nsid": 1, "read_only": false, "block": 4096}]}]}. What it does not say is as on the command
 * line. A name that is not known is an error: it may be a mistake in one that is.
 */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef IWARP_HAVE_YAML

#include <errno.h>
#include <string.h>
#include <yaml.h>

struct nvmf_config {
    yaml_document_t document;
};

/* What is under way: the namespace that is looked at, and the file's name for errors. */
struct use {
    struct nvmf_options *options;
    const char *file;
    struct nvmf_wanted_disk next;
};

/* OFF and ON: true or false, of which this one means the option and the other one nothing. */
enum kind { TEXT, NUMBER, OFF, ON, LIST };

/* A member that may be there, or must. letter: of the option that it is; a LIST has `each`, which
 * gets one element after the other. */
struct member {
    const char *name;
    enum kind kind;
    int letter;
    bool (*each)(struct use *use, const yaml_node_t *value);
    bool must;
};

#define MEMBERS_MAX 8

static bool wrong(const struct use *use, const yaml_node_t *node, const char *what, const char *why)
{
    fprintf(stderr, "iwarp-nvmf: %s:%zu: %s: %s\n", use->file, node->start_mark.line + 1, what,
            why);
    return false;
}

static yaml_node_t *node_of(const struct use *use, int number)
{
    return yaml_document_get_node(&use->options->config->document, number);
}

/* Of a scalar. */
static const char *text_of(const yaml_node_t *node)
{
    return (const char *)node->data.scalar.value;
}

/* Without quotes, some words are no texts. */
static bool is_word(const yaml_node_t *node, const char *word)
{
    return node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && strcmp(text_of(node), word) == 0;
}

static bool is_of(const yaml_node_t *node, enum kind kind)
{
    bool truth;

    if (node->type != YAML_SCALAR_NODE) {
        return kind == LIST && node->type == YAML_SEQUENCE_NODE;
    }
    truth = is_word(node, "true") || is_word(node, "false");
    switch (kind) {
    case OFF:
    case ON:
        return truth;
    case NUMBER:
        return node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && *text_of(node) &&
               text_of(node)[strspn(text_of(node), "0123456789")] == '\0';
    case TEXT:
        return !truth && !is_word(node, "") && !is_word(node, "~") && !is_word(node, "null") &&
               strlen(text_of(node)) == node->data.scalar.length;
    case LIST:
        break;
    }
    return false;
}

static bool use_member(struct use *use, const yaml_node_t *value, const struct member *member)
{
    static const char *const needed[] = {
        [TEXT] = "a text is needed",       [NUMBER] = "a whole number is needed",
        [OFF] = "true or false is needed", [ON] = "true or false is needed",
        [LIST] = "a list is needed",
    };

    if (!is_of(value, member->kind)) {
        return wrong(use, value, member->name, needed[member->kind]);
    }
    if (member->kind == LIST) {
        const yaml_node_item_t *item = value->data.sequence.items.start;
        while (item < value->data.sequence.items.top && member->each(use, node_of(use, *item))) {
            item++;
        }
        return item == value->data.sequence.items.top;
    }
    if ((member->kind == OFF && is_word(value, "true")) ||
        (member->kind == ON && is_word(value, "false"))) {
        return true;
    }
    return nvmf_options_set(use->options, member->letter, text_of(value), &use->next) ||
           wrong(use, value, member->name, "see above");
}

/* Uses the members of an object in the order of the table. */
static bool use_object(struct use *use, const yaml_node_t *object, const struct member *members,
                       size_t count)
{
    const yaml_node_t *values[MEMBERS_MAX] = {NULL};

    if (object->type != YAML_MAPPING_NODE) {
        return wrong(use, object, "here", "names with values are needed");
    }
    for (const yaml_node_pair_t *pair = object->data.mapping.pairs.start;
         pair < object->data.mapping.pairs.top; pair++) {
        const yaml_node_t *name = node_of(use, pair->key);
        const char *text = name->type == YAML_SCALAR_NODE ? text_of(name) : "";
        size_t i = 0;
        while (i < count && strcmp(members[i].name, text) != 0) {
            i++;
        }
        if (i == count || values[i]) {
            return wrong(use, name, text,
                         i == count ? "there is no such thing here" : "is there twice");
        }
        values[i] = node_of(use, pair->value);
    }
    for (size_t i = 0; i < count; i++) {
        if (values[i] ? !use_member(use, values[i], &members[i])
                      : members[i].must && !wrong(use, object, members[i].name, "is missing")) {
            return false;
        }
    }
    return true;
}

static bool use_namespace(struct use *use, const yaml_node_t *value)
{
    /* The disk comes last, as the others are about it. */
    static const struct member members[] = {{"read_only", ON, 'r', NULL, false},
                                            {"block", NUMBER, 'b', NULL, false},
                                            {"nsid", NUMBER, 260, NULL, false},
                                            {"disk", TEXT, 'n', NULL, true}};

    use->next = (struct nvmf_wanted_disk){0};
    return use_object(use, value, members, sizeof members / sizeof *members);
}

static bool use_host(struct use *use, const yaml_node_t *value)
{
    static const struct member host = {"hosts", TEXT, 'H', NULL, false};

    return use_member(use, value, &host);
}

static bool use_subsystem(struct use *use, const yaml_node_t *value)
{
    static const struct member members[] = {{"nqn", TEXT, 'q', NULL, true},
                                            {"hosts", LIST, 0, use_host, false},
                                            {"namespaces", LIST, 0, use_namespace, false}};

    return use_object(use, value, members, sizeof members / sizeof *members);
}

/* --- the octets ------------------------------------------------------------------------------ */

/* One document, and nothing behind it. NULL, or what is wrong; there is no document then. */
static const char *load(yaml_parser_t *parser, yaml_document_t *document)
{
    const char *why = "not enough memory";
    yaml_document_t behind;

    if (!yaml_parser_load(parser, document)) {
        return parser->problem ? parser->problem : why;
    }
    if (!yaml_document_get_root_node(document)) {
        why = "there is nothing in it";
    } else if (!yaml_parser_load(parser, &behind)) {
        why = parser->problem ? parser->problem : why;
    } else {
        why = yaml_document_get_root_node(&behind) ? "a second document" : NULL;
        yaml_document_delete(&behind);
    }
    if (why) {
        yaml_document_delete(document);
    }
    return why;
}

static bool read_file(const char *name, yaml_document_t *document)
{
    FILE *file = fopen(name, "re");
    yaml_parser_t parser;
    const char *why;

    if (!file || !yaml_parser_initialize(&parser)) {
        fprintf(stderr, "iwarp-nvmf: %s: it cannot be read: %s\n", name, strerror(errno));
        if (file) {
            fclose(file);
        }
        return false;
    }
    yaml_parser_set_input_file(&parser, file);
    why = load(&parser, document);
    if (why) {
        fprintf(stderr, "iwarp-nvmf: %s:%zu: %s%s%s\n", name, parser.problem_mark.line + 1, why,
                parser.context ? " " : "", parser.context ? parser.context : "");
    }
    yaml_parser_delete(&parser);
    fclose(file);
    return why == NULL;
}

static bool use_file(struct nvmf_options *options)
{
    static const struct member members[] = {
        {"listen", TEXT, 'l', NULL, false},  {"memory", TEXT, 'm', NULL, false},
        {"crc", OFF, 256, NULL, false},      {"uring", OFF, 257, NULL, false},
        {"metrics", TEXT, 258, NULL, false}, {"tls", TEXT, 'T', NULL, false},
        {"secrets", TEXT, 259, NULL, false}, {"subsystems", LIST, 0, use_subsystem, true}};
    struct use use = {options, options->config_file, {0}};
    struct nvmf_config *config = malloc(sizeof *config);

    if (!config || !read_file(options->config_file, &config->document)) {
        free(config);
        return false;
    }
    options->config = config;
    return use_object(&use, yaml_document_get_root_node(&config->document), members,
                      sizeof members / sizeof *members);
}

static void free_config(struct nvmf_config *config)
{
    if (config) {
        yaml_document_delete(&config->document);
        free(config);
    }
}

#else

static bool use_file(const struct nvmf_options *options)
{
    fprintf(stderr, "iwarp-nvmf: %s: it cannot be read: this build is without libyaml\n",
            options->config_file);
    return false;
}

static void free_config(struct nvmf_config *config)
{
    (void)config;
}

#endif

bool nvmf_options_read(int argc, char **argv, struct nvmf_options *options)
{
    return nvmf_options_parse(argc, argv, options) && (!options->config_file || use_file(options));
}

void nvmf_options_free(struct nvmf_options *options)
{
    free_config(options->config);
    for (size_t i = 0; i < options->subsystem_count; i++) {
        free(options->subsystems[i].disks);
        free(options->subsystems[i].hosts);
    }
    free(options->subsystems);
    free(options->tls);
}
