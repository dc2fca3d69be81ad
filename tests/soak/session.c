/* SPDX-License-Identifier: BSD-2-Clause */
/* A session: connecting, its rounds, its end. */
#include "side.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Private data of the initiator. */
struct hello {
    uint64_t seed;
    uint32_t breaks, encrypted;
};

_Noreturn void side_hang(const struct side *s)
{
    board_say(s->lane, "a planted hang in session %016llx", (unsigned long long)s->script.seed);
    for (;;) {
        pause();
    }
}

static void conn_options(const struct script *script, const char *tls, struct iwarp_conn_options *o)
{
    side_options(o, tls);
    o->mpa_rev = script->mpa_rev;
    o->crc = script->crc;
    o->markers = script->markers;
    o->placement = script->early ? IWARP_PLACE_EARLY : IWARP_PLACE_VERIFIED;
    o->ulpdu_max = script->ulpdu_max;
}

/* Waits until it is established or has failed. */
static enum iwarp_status await(struct side *s, const char *what)
{
    enum iwarp_status status;

    board_say(s->lane, "%s", what);
    do {
        status = iwarp_conn_wait(s->conn, 1000);
    } while (status == IWARP_AGAIN);
    return status;
}

static void leak(struct side *s)
{
    if (s->planted && s->soak->plant == PLANT_DESCRIPTOR) {
        (void)open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    if (s->planted && s->soak->plant == PLANT_MEMORY) {
        void *volatile lost = malloc(20000);
        memset(lost, 1, 20000);
        lost = NULL;
    }
}

static void begin(struct side *s, struct soak *soak, struct board_lane *lane, uint64_t seed)
{
    unsigned number = atomic_fetch_add(&soak->begun, 1) + 1;

    s->soak = soak;
    s->lane = lane;
    s->planted = soak->plant != PLANT_NONE && number >= soak->plant_at;
    board_rest(lane, false);
    board_add(soak->board, BOARD_sessions, 1);
    script_open(&s->script, seed);
    s->as_script = s->script.end == END_EARLY || s->script.end == END_REJECT;
    leak(s);
}

/* The peer breaks off in the last round, or somebody may do so at any time. */
static bool may_end(const struct side *s, unsigned round)
{
    return s->breaks || s->script.end == END_EARLY || script_breaks_off(&s->script, round) ||
           (round > 0 && script_breaks_off(&s->script, round - 1));
}

static bool rounds(struct side *s)
{
    for (unsigned i = 0; i < s->script.rounds; i++) {
        bool acts = (i % 2 == 1) == s->responder;
        s->as_script = script_breaks_off(&s->script, i);
        if (!(acts ? side_act : side_receive)(s, i)) {
            if (!may_end(s, i)) {
                side_fail(s, "ended in round %u of %u: %s", i, s->script.rounds, s->why);
            }
            return false;
        }
    }
    s->as_script = true;
    return true;
}

/* Closes in order, and sees that the peer does so, and that nothing is left. */
static void end_in_order(struct side *s)
{
    bool actor = ((s->script.rounds - 1) % 2 == 1) == s->responder;
    bool closes = s->script.end == END_BOTH_CLOSE || actor == (s->script.end == END_ACTOR_CLOSES);

    if (closes) {
        (void)side_ok(s, iwarp_disconnect(s->conn), "disconnect");
    }
    board_say(s->lane, "%s",
              closes ? "waits for the end that it began" : "waits for the peer's end");
    while (iwarp_conn_wait_end(s->conn, 1000) == IWARP_AGAIN) {
    }
}

static void end(struct side *s, bool done)
{
    char why[300] = "";

    if (done) {
        end_in_order(s);
        iwarp_fault_text(iwarp_conn_fault(s->conn), why, sizeof why);
        if (iwarp_conn_fault(s->conn) && !s->breaks) {
            side_fail(s, "did not end in order: %s", why);
        }
    } else if (s->conn) {
        board_say(s->lane, "ends what has broken");
        (void)iwarp_abort(s->conn);
        while (iwarp_conn_wait_end(s->conn, 1000) == IWARP_AGAIN) {
        }
    }
    board_say(s->lane, "releases all");
    s->ended = s->ended || !done;
    side_take_rest(s);
    if (done && s->ended && !s->breaks) {
        side_fail(s, "did not end in order: %s", s->why);
    }
    side_close(s);
    board_add(s->soak->board, s->as_script ? BOARD_in_order : BOARD_broken, 1);
    board_rest(s->lane, true);
}

/* False: it was not established, as the script says or a fault has it. */
static bool initiate(struct side *s, unsigned port, const char *tls)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct hello hello = {s->script.seed, s->soak->breaks, strcmp(tls, "off") != 0};
    struct iwarp_conn_options o;
    size_t len;

    conn_options(&s->script, tls, &o);
    if (!side_ok(s,
                 iwarp_connect(s->qp, (const struct sockaddr *)&to, sizeof to, &o, &hello,
                               sizeof hello, NULL, NULL, &s->conn),
                 "connect")) {
        return false;
    }
    if (s->script.end == END_EARLY) {
        return false;
    }
    enum iwarp_status status = await(s, "connects");
    bool rejected = s->script.end == END_REJECT;
    if ((status != IWARP_OK || rejected) && !s->breaks && !(rejected && status == IWARP_PEER)) {
        side_fail(s, "connect: %s", status == IWARP_OK ? "not rejected" : iwarp_last_error());
    }
    if (status != IWARP_OK) {
        return false;
    }
    const void *data = iwarp_conn_private_data(s->conn, &len);
    if (len != sizeof s->word) {
        side_fail(s, "wrong octet: %zu octets of private data", len);
    }
    memcpy(&s->word, data, len);
    return true;
}

void session_initiate(struct soak *soak, struct board_lane *lane, uint64_t seed, unsigned port,
                      const char *tls, bool breaks)
{
    struct side s = {.responder = false};

    begin(&s, soak, lane, seed);
    s.breaks = breaks || soak->breaks;
    board_add(soak->board, BOARD_encrypted, strcmp(tls, "off") != 0);
    end(&s, side_open(&s) && initiate(&s, port, tls) && rounds(&s));
}

/* Rejected with its private data, as the peer sees it; nothing else is there yet. */
static bool respond(struct side *s, struct iwarp_conn *request)
{
    struct iwarp_conn_options o;
    struct word word;

    if (s->script.end == END_REJECT) {
        (void)iwarp_reject(request, "no", 2);
        return false;
    }
    if (!side_open(s) || !side_prepare(s, 0)) {
        return false;
    }
    conn_options(&s->script, NULL, &o);
    side_word(s, &word);
    enum iwarp_status status = iwarp_accept(request, s->qp, &o, &word, sizeof word, NULL);
    if (status == IWARP_OK) {
        status = await(s, "accepts");
        /* A session of one round may be over by now: its completions wait. */
        status = status == IWARP_CLOSED && s->script.rounds == 1 ? IWARP_OK : status;
    }
    if (status != IWARP_OK && !may_end(s, 0)) {
        side_fail(s, "accept: %s", iwarp_last_error());
    }
    return status == IWARP_OK;
}

void session_respond(struct soak *soak, struct board_lane *lane, struct iwarp_conn *request)
{
    struct side s = {.responder = true, .conn = request};
    struct hello hello;
    size_t len;
    const void *data = iwarp_conn_private_data(request, &len);

    if (len != sizeof hello) {
        fprintf(stderr, "soak: a request has %zu octets of private data\n", len);
        exit(3);
    }
    memcpy(&hello, data, sizeof hello);
    begin(&s, soak, lane, hello.seed);
    s.breaks = hello.breaks || soak->breaks;
    board_add(soak->board, BOARD_encrypted, hello.encrypted);
    end(&s, respond(&s, request) && rounds(&s));
}
