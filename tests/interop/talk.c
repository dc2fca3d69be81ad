/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One connection of an exchange: its memory, what it says of it in its private data, and patterns
 * to recognise octets by. Each of the areas has guards on both sides that nobody may change.
 */
#include "exchange.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pattern.h"

#define GUARD       64
#define GUARD_OCTET 0xe7
#define MORE        4 /* receives beyond the messages */

unsigned char pattern_octet(unsigned side, unsigned message, size_t i)
{
    return (unsigned char)(i * 7 + (i >> 8) * 13 + (i >> 16) * 29 + message * 131u + side * 77u +
                           1);
}

void pattern_fill(unsigned char *at, size_t len, unsigned side, unsigned message)
{
    for (size_t i = 0; i < len; i++) {
        at[i] = pattern_octet(side, message, i);
    }
}

bool pattern_is(const unsigned char *at, size_t len, unsigned side, unsigned message)
{
    for (size_t i = 0; i < len; i++) {
        if (at[i] != pattern_octet(side, message, i)) {
            return false;
        }
    }
    return true;
}

bool pattern_guards(const unsigned char *area, size_t len)
{
    for (size_t i = 1; i <= GUARD; i++) {
        if (area[-(ptrdiff_t)i] != GUARD_OCTET || area[len + i - 1] != GUARD_OCTET) {
            return false;
        }
    }
    return true;
}

void talk_complain(struct talk *talk, const char *format, ...)
{
    va_list list;

    if (talk->complaint[0]) {
        return;
    }
    va_start(list, format);
    vsnprintf(talk->complaint, sizeof talk->complaint, format, list);
    va_end(list);
}

static unsigned char *area_make(size_t len)
{
    unsigned char *area = malloc(len + 2 * GUARD);

    if (!area) {
        perror("malloc");
        exit(2);
    }
    memset(area, GUARD_OCTET, len + 2 * GUARD);
    return area + GUARD;
}

void talk_init(struct talk *talk, const struct settings *settings, struct side_link *link)
{
    const struct settings *s = settings;
    size_t each, local;

    *talk = (struct talk){.settings = s, .link = link};
    talk->area = (size_t)s->count * s->size;
    each = talk->area + 2 * GUARD;
    talk->slot_size = s->server && s->rsize ? s->rsize : s->size < 64 ? 64 : s->size;
    talk->region = area_make(talk->area + 8);
    local = 2 * each + (size_t)talk->slot_size * (s->count + MORE) + 64;
    talk->source = area_make(local);
    talk->sink = talk->source + each;
    talk->slots = talk->sink + each;
    for (unsigned m = 0; m < s->count; m++) {
        pattern_fill(talk->source + (size_t)m * s->size, s->size, s->server, m);
        if (s->op == OP_READ) {
            pattern_fill(talk->region + (size_t)m * s->size, s->size, s->server, m);
        }
    }
    talk->region_stag =
        side_register(link, talk->region, talk->area ? talk->area : 8, s->read, s->write);
    side_register(link, talk->source, local, false, false);
    if (!s->server || !s->late) {
        talk_receive(talk);
    }
}

void talk_receive(struct talk *talk)
{
    const struct settings *s = talk->settings;
    unsigned number = s->server ? s->receives : SIDE_DEPTH;

    for (unsigned i = 0; i < s->count + MORE && i < number; i++) {
        side_receive(talk->link, i, talk->slots + (size_t)i * talk->slot_size, talk->slot_size);
    }
}

void talk_free(struct talk *talk)
{
    side_destroy(talk->link);
    free(talk->region - GUARD);
    free(talk->source - GUARD);
}

unsigned char *talk_word(const struct talk *talk)
{
    return talk->slots + (size_t)talk->slot_size * (talk->settings->count + MORE);
}

bool talk_next(const struct talk *talk, struct side_done *done)
{
    uint64_t until = now_ms() + talk->settings->time * 1000ull;

    while (!side_poll(talk->link, done)) {
        if (side_ended(talk->link) || now_ms() > until) {
            return false;
        }
        usleep(200);
    }
    return strcmp(done->status, "ok") == 0;
}

void talk_introduce(const struct talk *talk, unsigned char *pd)
{
    const struct settings *s = talk->settings;
    uint32_t stag = htonl(talk->region_stag), len = htonl((uint32_t)talk->area);
    uint64_t to = htobe64((uint64_t)(uintptr_t)talk->region);

    pattern_fill(pd, s->pd, s->server, 0);
    if (s->pd >= 16) {
        memcpy(pd, &stag, 4);
        memcpy(pd + 4, &to, 8);
        memcpy(pd + 12, &len, 4);
    }
}

void talk_meet(struct talk *talk)
{
    const struct settings *s = talk->settings;
    unsigned char whole[512];
    size_t len;
    const unsigned char *pd = side_private_data(talk->link, &len);

    /* The last octet tells both that there are as many as there should be, and that they are
     * right. */
    pattern_fill(whole, s->pd, !s->server, 0);
    if (len < s->pd || (s->pd > 16 && memcmp(pd + 16, whole + 16, s->pd - 16) != 0) ||
        (s->pd < 16 && memcmp(pd, whole, s->pd) != 0)) {
        talk_complain(talk, "private data: %zu octets, or other ones", len);
    } else if (len != s->pd) {
        talk_complain(talk, "private data: %zu octets instead of %u", len, s->pd);
    }
    if (len >= 16 && s->pd >= 16) {
        uint32_t stag;
        uint64_t to;

        memcpy(&stag, pd, 4);
        memcpy(&to, pd + 4, 8);
        talk->peer_stag = ntohl(stag);
        talk->peer_to = be64toh(to);
    }
}
