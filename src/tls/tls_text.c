/* SPDX-License-Identifier: BSD-2-Clause */
/* The text of a context: iwarp/tls.h has the words. */
#include "tls/tls_inner.h"

#include <stdlib.h>
#include <string.h>

static enum iwarp_status wrong(const char *why, const char *word)
{
    return iwarp_fail(IWARP_MISUSE,
                      "TLS: %s\"%s\"; expected psk=FILE or cert=FILE,key=FILE,ca=FILE", why, word);
}

static enum iwarp_status parse_number(const char *value, unsigned *number)
{
    char *end;
    unsigned long n = strtoul(value, &end, 10);

    if (value[0] < '0' || value[0] > '9' || *end || n < 1 || n > TLS_REKEY) {
        return iwarp_fail(IWARP_MISUSE, "TLS: rekey=%s, expected 1 to %d", value, TLS_REKEY);
    }
    *number = (unsigned)n;
    return IWARP_OK;
}

static enum iwarp_status parse_switch(const char *value, bool *on)
{
    *on = strcmp(value, "on") == 0;
    return *on || strcmp(value, "off") == 0
               ? IWARP_OK
               : iwarp_fail(IWARP_MISUSE, "TLS: crc=%s, expected on or off", value);
}

/* `word` is NAME=VALUE, and is cut at the =. */
static enum iwarp_status parse_word(struct tls_text *t, char *word)
{
    const struct {
        const char *name;
        const char **value;
    } strings[] = {{"psk", &t->psk},   {"identity", &t->identity},
                   {"cert", &t->cert}, {"key", &t->key},
                   {"ca", &t->ca},     {"name", &t->name}};
    char *value = strchr(word, '=');

    if (!value || value[1] == '\0') {
        return wrong("no value in ", word);
    }
    *value++ = '\0';
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        if (strcmp(word, strings[i].name) == 0) {
            *strings[i].value = value;
            return IWARP_OK;
        }
    }
    if (strcmp(word, "allow") == 0) {
        t->allow[t->allowed++] = value;
        return IWARP_OK;
    }
    if (strcmp(word, "crc") == 0) {
        return parse_switch(value, &t->crc);
    }
    if (strcmp(word, "rekey") == 0) {
        return parse_number(value, &t->rekey);
    }
    return wrong("an unknown word, ", word);
}

static enum iwarp_status check(const struct tls_text *t)
{
    if (!t->psk == !t->cert) {
        return iwarp_fail(IWARP_MISUSE, "TLS: %s psk and cert are given, expected one of the two",
                          t->psk ? "both" : "neither");
    }
    if (t->cert && !t->ca) {
        return iwarp_fail(IWARP_MISUSE,
                          "TLS: cert without ca: peers' certificates must be checked");
    }
    if (t->psk && (t->key || t->ca || t->name)) {
        return iwarp_fail(IWARP_MISUSE, "TLS: key, ca and name go with cert, not with psk");
    }
    if (t->cert && t->identity) {
        return iwarp_fail(IWARP_MISUSE, "TLS: identity goes with psk, not with cert");
    }
    return IWARP_OK;
}

static unsigned count_words(const char *text)
{
    unsigned n = 1;

    for (; *text; text++) {
        n += *text == ',';
    }
    return n;
}

enum iwarp_status iwarp_tls_text_parse(const char *text, struct tls_text *out)
{
    enum iwarp_status status = IWARP_OK;

    *out = (struct tls_text){.words = strdup(text), .rekey = TLS_REKEY};
    out->allow = calloc(count_words(text), sizeof *out->allow);
    if (!out->words || !out->allow) {
        status = iwarp_fail(IWARP_NO_MEMORY, "TLS: no memory");
    }
    char *rest = out->words, *word;
    while (status == IWARP_OK && (word = strsep(&rest, ","))) {
        status = parse_word(out, word);
    }
    status = status == IWARP_OK ? check(out) : status;
    if (status != IWARP_OK) {
        iwarp_tls_text_free(out);
    }
    return status;
}

void iwarp_tls_text_free(struct tls_text *text)
{
    free(text->words);
    free(text->allow);
}
