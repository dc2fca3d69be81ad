/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults on request: the words of IWARP_FAULTS, what a device and each connection make of them, and
 * registrations that fail. See inject.h; what happens to octets is conn_inject.c.
 */
#include "verbs/inject.h"

#include "base/fault.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    DELAY_MAX_MS = 1000, /* for each write, with conn.lock held: more looks like a hang */
    LATE_MAX_MS = 10000
};

static const struct word {
    const char *name;
    uint64_t least, most;
} words[INJECT_WORDS] = {[INJECT_LOSE_OCTET] = {"lose-octet", 1, UINT64_MAX / 2},
                         [INJECT_LOSE_FPDU] = {"lose-fpdu", 1, UINT64_MAX / 2},
                         [INJECT_CRC] = {"crc", 1, UINT64_MAX / 2},
                         [INJECT_SPLIT] = {"split", 1, UINT32_MAX},
                         [INJECT_DELAY] = {"delay", 0, DELAY_MAX_MS},
                         [INJECT_LATE] = {"late", 1, LATE_MAX_MS},
                         [INJECT_REGISTER] = {"register", 1, UINT64_MAX / 2},
                         [INJECT_LEND] = {"lend", 1, UINT32_MAX},
                         [INJECT_ALLOC] = {"alloc", 1, UINT64_MAX / 2},
                         [INJECT_ONLY] = {"only", 1, UINT64_MAX / 2},
                         [INJECT_SEED] = {"seed", 0, UINT64_MAX / 2}};

/* --- words ----------------------------------------------------------------------------------- */

/*
 * Decimal digits, without sign or blanks, which strtoull would accept. Returns where they end, or
 * NULL.
 */
static const char *number(const char *text, uint64_t *n)
{
    char *end;

    errno = 0;
    *n = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && !errno ? end : NULL;
}

/* "N" or "N-M", up to `end` and no further. False: something else. */
static bool range_of(const char *text, const char *end, struct iwarp_inject_range *r)
{
    const char *p = number(text, &r->least);

    r->most = r->least;
    if (p && *p == '-') {
        p = number(p + 1, &r->most);
    }
    return p == end;
}

/*
 * One word=value of len octets; no NUL follows it. The message quotes the word and says what is
 * expected.
 */
static enum iwarp_status take_word(const char *text, size_t len, struct iwarp_inject_plan *plan)
{
    const char *equals = memchr(text, '=', len);
    size_t name_len = equals ? (size_t)(equals - text) : len;
    unsigned i = 0;

    while (i < INJECT_WORDS &&
           (strlen(words[i].name) != name_len || strncmp(words[i].name, text, name_len) != 0)) {
        i++;
    }
    if (i == INJECT_WORDS) {
        return iwarp_fail(IWARP_MISUSE,
                          "IWARP_FAULTS: \"%.*s\" is none of lose-octet, lose-fpdu, crc, split, "
                          "delay, late, register, lend, alloc, only, seed",
                          (int)name_len, text);
    }
    const struct word *w = &words[i];
    struct iwarp_inject_range *r = &plan->range[i];
    if (r->given) {
        return iwarp_fail(IWARP_MISUSE, "IWARP_FAULTS: %s is there twice", w->name);
    }
    if (!equals || !range_of(equals + 1, text + len, r) || r->least > r->most ||
        r->least < w->least || r->most > w->most || (i == INJECT_SEED && r->least != r->most)) {
        return iwarp_fail(IWARP_MISUSE,
                          "IWARP_FAULTS: \"%.*s\", expected %s=N%s with numbers from %llu to %llu",
                          (int)len, text, w->name, i == INJECT_SEED ? "" : " or N-M",
                          (unsigned long long)w->least, (unsigned long long)w->most);
    }
    r->given = true;
    return IWARP_OK;
}

/*
 * Words before INJECT_ONLY are faults; a text without any of them is refused, since it would change
 * nothing.
 */
enum iwarp_status iwarp_inject_parse(const char *text, struct iwarp_inject_plan *plan)
{
    enum iwarp_status status = IWARP_OK;
    bool any = false;

    *plan = (struct iwarp_inject_plan){0};
    while (status == IWARP_OK && text) {
        const char *comma = strchr(text, ',');
        status = take_word(text, comma ? (size_t)(comma - text) : strlen(text), plan);
        text = comma ? comma + 1 : NULL;
    }
    for (unsigned i = 0; i < INJECT_ONLY; i++) {
        any = any || plan->range[i].given;
    }
    if (status == IWARP_OK && !any) {
        return iwarp_fail(IWARP_MISUSE, "IWARP_FAULTS: only and seed alone ask for no fault");
    }
    return status;
}

/* --- numbers --------------------------------------------------------------------------------- */

/* Splitmix64. Its state only counts up, so any seed gives the full period, also 0. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/*
 * The generator advances even if the range is not given, so adding one fault does not change the
 * numbers that are drawn for others when the connection begins.
 */
uint64_t iwarp_inject_draw(uint64_t *random, const struct iwarp_inject_range *range)
{
    uint64_t r = next_random(random);

    return range->given ? range->least + r % (range->most - range->least + 1) : 0;
}

/* --- devices and connections ----------------------------------------------------------------- */

/*
 * Once for each device. Which registration fails is drawn here, as regions belong to no connection.
 */
enum iwarp_status iwarp_injector_open(struct iwarp_injector **injector)
{
    const char *text = iwarp_setting("IWARP_FAULTS");
    struct iwarp_inject_plan plan;

    *injector = NULL;
    if (!text || !text[0]) {
        return IWARP_OK;
    }
    enum iwarp_status status = iwarp_inject_parse(text, &plan);
    if (status != IWARP_OK) {
        return status;
    }
    *injector = calloc(1, sizeof **injector);
    if (!*injector) {
        return iwarp_fail(IWARP_NO_MEMORY, "no memory for IWARP_FAULTS");
    }
    uint64_t random = plan.range[INJECT_SEED].least;
    (*injector)->plan = plan;
    (*injector)->failing = iwarp_inject_draw(&random, &plan.range[INJECT_REGISTER]);
    if (plan.range[INJECT_ALLOC].given) { /* of the process: most allocations know no device */
        atomic_store(&iwarp_memory_left, iwarp_inject_draw(&random, &plan.range[INJECT_ALLOC]));
    }
    iwarp_log(IWARP_LOG_WARN, "faults", "IWARP_FAULTS is %s: faults will be made on request", text);
    return IWARP_OK;
}

/*
 * The connection's number counts all connections of the device, also those that `only` excludes: so
 * the numbers stay the same when `only` changes.
 */
enum iwarp_status iwarp_inject_open(struct iwarp_injector *injector, struct iwarp_inject **inject)
{
    const struct iwarp_inject_range *range = injector->plan.range, *only = &range[INJECT_ONLY];
    uint64_t number = atomic_fetch_add(&injector->conns, 1) + 1;

    *inject = NULL;
    if (only->given && (number < only->least || number > only->most)) {
        return IWARP_OK;
    }
    bool any = false;
    for (unsigned i = 0; i < INJECT_REGISTER; i++) {
        any = any || range[i].given;
    }
    if (!any) {
        return IWARP_OK;
    }
    struct iwarp_inject *j = calloc(1, sizeof *j);
    if (!j) {
        return iwarp_fail(IWARP_NO_MEMORY, "no memory for the faults of a connection");
    }
    /* Each connection has a state of its own, from seed and number: other connections' reads and
     * writes do not change what happens to this one. */
    j->random = range[INJECT_SEED].least ^ number << 32;
    j->number = number;
    j->split = range[INJECT_SPLIT];
    j->delay = range[INJECT_DELAY];
    j->late = range[INJECT_LATE];
    j->lose_octet = iwarp_inject_draw(&j->random, &range[INJECT_LOSE_OCTET]);
    j->lose_fpdu = iwarp_inject_draw(&j->random, &range[INJECT_LOSE_FPDU]);
    j->crc = iwarp_inject_draw(&j->random, &range[INJECT_CRC]);
    j->track.fpdus = 1;
    *inject = j;
    return IWARP_OK;
}

size_t iwarp_inject_lend(const struct iwarp_injector *injector, uint64_t *seed)
{
    const struct iwarp_inject_range *range = injector->plan.range;

    *seed = range[INJECT_SEED].least ^ atomic_load(&injector->conns) << 32;
    return (size_t)iwarp_inject_draw(seed, &range[INJECT_LEND]);
}

/* Any thread: the count is atomic, so one registration fails even if many run at once. */
enum iwarp_status iwarp_inject_registration(struct iwarp_injector *injector)
{
    uint64_t number = atomic_fetch_add(&injector->registrations, 1) + 1;

    if (number != injector->failing) {
        return IWARP_OK;
    }
    iwarp_log(IWARP_LOG_WARN, "faults", "registration %llu fails, as IWARP_FAULTS asks",
              (unsigned long long)number);
    return iwarp_fail(IWARP_NO_MEMORY, "registration %llu fails, as IWARP_FAULTS asks",
                      (unsigned long long)number);
}
