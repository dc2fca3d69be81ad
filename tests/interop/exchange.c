/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The exchange of a cell, written once for both ends. Who connected carries out `count` requests of
 * one kind, and says with a Send of 8 octets that this was all; with `both` the other end does the
 * same meanwhile. Each end checks what has arrived. Who listened then gives its judgement in
 * another Send, and the end named by `close` closes.
 *
 * A cell of something wrong ends when the connection does. The outcome is one line of words, which
 * the table of cells is compared with.
 */
#include "exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pattern.h"

/* Receives have numbers from 0, requests from here; its words another. */
#define ID_REQUEST 0x100000u
#define ID_WORD    0x200000u
#define WORD_LEN   8

uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static bool is_send(unsigned op)
{
    return op >= OP_SEND && op <= OP_SEND_SE_INV;
}

static bool invalidates(unsigned op)
{
    return op == OP_SEND_INV || op == OP_SEND_SE_INV;
}

static bool issues(const struct talk *talk)
{
    return !talk->settings->server || talk->settings->both;
}

static bool hears(const struct talk *talk)
{
    return talk->settings->server || talk->settings->both;
}

/* --- sending --- */

static void say(struct talk *talk, const char *word)
{
    struct side_request r = {
        .id = ID_WORD, .op = OP_SEND, .addr = talk_word(talk), .len = WORD_LEN};

    memcpy(r.addr, word, WORD_LEN);
    side_post(talk->link, &r);
}

static void post_one(struct talk *talk)
{
    const struct settings *s = talk->settings;
    size_t at = (size_t)talk->posted * s->size;
    struct side_request r = {ID_REQUEST + talk->posted, s->op,
                             talk->source + at,         s->size,
                             talk->peer_stag,           talk->peer_to + at};

    if (s->op == OP_READ) {
        r.addr = talk->sink + at;
    }
    switch (s->wrong) {
    case WRONG_KEY:
        r.remote_stag ^= 0x55;
        break;
    case WRONG_INDEX:
        r.remote_stag ^= 0x00770000;
        break;
    case WRONG_BOUNDS:
        r.remote_to = talk->peer_to + talk->area - s->size / 2;
        break;
    case WRONG_STALE:
        if (talk->posted == 0) {
            r.op = OP_SEND_INV;
        }
        break;
    default:
        break;
    }
    side_post(talk->link, &r);
    talk->posted++;
}

static void post_more(struct talk *talk)
{
    const struct settings *s = talk->settings;
    unsigned number = s->op == OP_NONE ? 0 : s->count;

    if (!issues(talk) || talk->told) {
        return;
    }
    if (s->wrong && talk->posted == 0) {
        /* siw crashes its kernel when a fault comes together with the ready-to-receive message. */
        usleep(500000);
    }
    while (talk->posted < number && talk->posted - talk->completed < SIDE_DEPTH - 8) {
        post_one(talk);
    }
    /* Behind RDMA Reads of which the answer is not here yet, it would say too much. */
    if (talk->completed == number && (!s->wrong || s->op == OP_READ)) {
        say(talk, "all done");
        talk->told = true;
    }
}

/* --- what has arrived --- */

static void check_areas(struct talk *talk)
{
    const struct settings *s = talk->settings;

    if (!pattern_guards(talk->region, talk->area + 8)) {
        talk_complain(talk, "octets beside the region have changed");
    }
    for (unsigned m = 0; m < s->count; m++) {
        size_t at = (size_t)m * s->size;

        if (s->op == OP_WRITE && hears(talk) &&
            !pattern_is(talk->region + at, s->size, !s->server, m)) {
            talk_complain(talk, "message %u of the peer has other octets", m);
        }
        if (s->op == OP_READ && issues(talk) &&
            !pattern_is(talk->sink + at, s->size, !s->server, m)) {
            talk_complain(talk, "RDMA Read %u has other octets", m);
        }
    }
}

static void check_message(struct talk *talk, const struct side_done *done)
{
    const struct settings *s = talk->settings;
    const unsigned char *slot = talk->slots + (size_t)done->id * talk->slot_size;

    if (done->len != s->size) {
        talk_complain(talk, "message %u has %u octets instead of %u", talk->received, done->len,
                      s->size);
    } else if (!pattern_is(slot, done->len, !s->server, talk->received)) {
        talk_complain(talk, "message %u of the peer has other octets", talk->received);
    }
    if ((invalidates(s->op) && side_tells_invalidation()) != done->invalidated) {
        talk_complain(talk, "message %u: invalidation %s", talk->received,
                      done->invalidated ? "told" : "not told");
    } else if (done->invalidated && done->stag != talk->region_stag) {
        talk_complain(talk, "STag %x told invalid instead of %x", done->stag, talk->region_stag);
    }
}

static void check_solicited(struct talk *talk)
{
    bool wanted = talk->settings->op == OP_SEND_SE || talk->settings->op == OP_SEND_SE_INV;

    /* Waits a while for what should not come: not a thousand times. */
    if (is_send(talk->settings->op) && talk->settings->conns == 1 &&
        side_solicited(talk->link) != (wanted && side_tells_solicited())) {
        talk_complain(talk, "%s solicited event", wanted ? "no" : "a");
    }
}

static void take_word(struct talk *talk, const struct side_done *done)
{
    const unsigned char *slot = talk->slots + (size_t)done->id * talk->slot_size;

    if (done->len != WORD_LEN && talk->settings->wrong == WRONG_STALE) {
        return; /* the message that makes the STag invalid */
    }
    if (done->len != WORD_LEN) {
        talk_complain(talk, "a message of %u octets instead of a word", done->len);
    } else if (!memcmp(slot, "all done", WORD_LEN) && hears(talk)) {
        talk->heard = true;
        check_solicited(talk);
    } else if (!memcmp(slot, "all fine", WORD_LEN) && !talk->settings->server) {
        talk->judged = true;
    } else {
        talk_complain(talk, "the peer says: %.8s", (const char *)slot);
        talk->judged = true;
    }
}

static void take(struct talk *talk, const struct side_done *done)
{
    const struct settings *s = talk->settings;
    unsigned messages = hears(talk) && is_send(s->op) ? s->count : 0;

    if (strcmp(done->status, "ok") != 0) {
        if (!talk->status && done->id >= ID_REQUEST) {
            talk->status = done->status;
        }
    } else if (!done->receive) {
        talk->completed += done->id < ID_WORD;
    } else if (talk->received < messages) {
        check_message(talk, done);
        talk->received++;
    } else {
        take_word(talk, done);
        talk->received++;
    }
}

/* --- the course of it --- */

/* Goes on as far as possible; whether anything has happened. */
static bool step(struct talk *talk)
{
    const struct settings *s = talk->settings;
    struct side_done done;
    bool moved = false;

    post_more(talk);
    while (side_poll(talk->link, &done)) {
        take(talk, &done);
        moved = true;
    }
    if (s->server && talk->heard && (!s->both || talk->told) && !talk->judged) {
        check_areas(talk);
        say(talk, talk->complaint[0] ? "not fine" : "all fine");
        talk->judged = true;
    }
    return moved;
}

/* Until all talks are judged or have ended. */
static void run_until_judged(struct talk *talks, unsigned number)
{
    uint64_t until = now_ms() + talks->settings->time * 1000ull;

    for (bool all = false, late = false; !all && !late;) {
        bool moved = false;

        all = true;
        late = now_ms() > until;
        for (unsigned i = 0; i < number; i++) {
            moved |= step(&talks[i]);
            all = all && (talks[i].judged || side_ended(talks[i].link));
            if (late && !talks[i].judged) {
                talk_complain(&talks[i], "time is up: %u posted, %u completed, %u received",
                              talks[i].posted, talks[i].completed, talks[i].received);
            }
        }
        if (!moved) {
            usleep(200);
        }
    }
}

static void close_all(struct talk *talks, unsigned number)
{
    const struct settings *s = talks->settings;
    uint64_t until = now_ms() + s->time * 1000ull;

    for (unsigned i = 0; i < number; i++) {
        if (s->close >= CLOSE_ABORT && !s->server) {
            side_abort(talks[i].link);
        } else if (s->server == (s->close == CLOSE_SERVER) || now_ms() > until) {
            side_disconnect(talks[i].link);
        }
    }
    for (unsigned i = 0; i < number; i++) {
        /* The last completions, and those that the end brings. */
        while (!side_ended(talks[i].link) && now_ms() < until) {
            if (!step(&talks[i])) {
                usleep(200);
            }
        }
        step(&talks[i]);
        if (!side_ended(talks[i].link)) {
            talk_complain(&talks[i], "no end");
        }
    }
}

static void outcome_print(struct talk *talk)
{
    char why[200], info[200];

    side_why(talk->link, why, sizeof why);
    side_info(talk->link, info, sizeof info);
    if (talk->complaint[0]) {
        printf("outcome bad: %s;", talk->complaint);
    } else {
        printf("outcome %s", talk->judged ? "ok" : "ended");
    }
    printf("%s%s %s %s\n", talk->status ? " op=" : "", talk->status ? talk->status : "", why, info);
}

static struct side_link *link_get(const struct settings *settings)
{
    char why[200];
    struct side_link *link =
        settings->server ? side_request(why, sizeof why) : side_dial(why, sizeof why);

    if (!link) {
        printf("outcome bad: %s\n", why);
    }
    return link;
}

/* Established, with what the peer has said of itself. */
static bool talk_start(struct talk *talk, const struct settings *settings)
{
    unsigned char pd[512];
    struct side_link *link = link_get(settings);
    const char *status;

    if (!link) {
        return false;
    }
    talk_init(talk, settings, link);
    talk_introduce(talk, pd);
    if (settings->server && settings->reject) {
        talk_meet(talk);
        side_reject(link, pd, settings->pd);
        printf("outcome %s%s\n", talk->complaint[0] ? "bad: " : "rejects", talk->complaint);
        return false;
    }
    side_watch_solicited(link);
    status = side_establish(link, pd, settings->op >= OP_RPING ? 0 : settings->pd);
    if (settings->op < OP_RPING && (!strcmp(status, "ok") || !strcmp(status, "rejected"))) {
        talk_meet(talk);
    }
    if (strcmp(status, "ok") != 0) {
        char why[200];

        side_why(link, why, sizeof why);
        printf("outcome %s %s; %s\n", status, why, talk->complaint);
        return false;
    }
    if (settings->server && settings->late) {
        usleep(settings->late * 1000);
        talk_receive(talk);
    }
    return true;
}

/* Prints the outcome of what has gone wrong, or (last) of what has not; ends the program if it has.
 */
static void round_end(struct talk *talks, unsigned number, bool last)
{
    for (unsigned i = 0; i < number; i++) {
        bool bad = talks[i].complaint[0] || !talks[i].judged;

        if (bad || (last && i + 1 == number)) {
            outcome_print(&talks[i]);
        }
        talk_free(&talks[i]);
        if (bad) {
            exit(talks[i].complaint[0] ? 1 : 0);
        }
    }
}

static void round_run(struct talk *talks, const struct settings *settings)
{
    for (unsigned i = 0; i < settings->qps; i++) {
        if (!talk_start(&talks[i], settings)) {
            exit(1);
        }
    }
    if (settings->op == OP_RPING) {
        rping_run(talks);
    } else if (settings->op == OP_NVME) {
        nvme_run(talks);
    } else if (settings->op == OP_NFS) {
        nfs_run(talks);
    } else if (settings->close != CLOSE_BUSY || settings->server) {
        run_until_judged(talks, settings->qps);
    } else {
        step(talks);
    }
    for (unsigned i = 0; i < settings->qps; i++) {
        if (!settings->server && settings->op < OP_RPING && talks[i].judged) {
            check_areas(&talks[i]);
        }
    }
    close_all(talks, settings->qps);
}

void exchange_run(const struct settings *settings)
{
    struct talk *talks = calloc(settings->qps, sizeof *talks);

    if (!talks) {
        perror("calloc");
        exit(2);
    }
    for (unsigned round = 0; round < settings->conns; round++) {
        round_run(talks, settings);
        round_end(talks, settings->qps, round + 1 == settings->conns);
    }
    free(talks);
}
