/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One measurement, for both ends: iwarp-measure (libiwarp) and siw-measure (libibverbs) are this,
 * with one side or the other. op=send: messages of `size` octets go back and forth, half of a round
 * is told. op=write, op=read: `count` of them, DEPTH at a time; a write counts when the peer has
 * said that all has come. Nothing is compared: that is what exchange.c is for. Besides the figure
 * it tells how long processors of the machine were busy in that time.
 *
 * Both ends sleep until there is a completion, as plain TCP does: the guest has two processors,
 * which the kernel's siw needs, too.
 */
#include "clock.h"
#include "exchange.h"

#include <arpa/inet.h>
#include <endian.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH  16
#define SLOTS  32
#define WARM   20
#define FINISH 8 /* octets of the message behind writes, and of its answer */

struct measure {
    const struct settings *s;
    struct side_link *link;
    unsigned char *region, *local; /* DEPTH places of `slot` octets; SLOTS more in local */
    size_t slot;
    uint32_t peer_stag;
    uint64_t peer_to;
    unsigned received, completed;
};

static void fail(const char *what)
{
    printf("outcome bad: %s\n", what);
    exit(1);
}

static void receive(struct measure *m, unsigned slot)
{
    side_receive(m->link, slot, m->local + (DEPTH + slot) * m->slot, (uint32_t)m->slot);
}

static void prepare(struct measure *m)
{
    size_t local = m->slot * (DEPTH + SLOTS);
    uint32_t stag;
    uint64_t to;
    unsigned char pd[16] = {0};
    const unsigned char *peer;
    size_t len;

    m->region = calloc(DEPTH, m->slot);
    m->local = calloc(1, local);
    if (!m->region || !m->local) {
        fail("calloc");
    }
    stag = htonl(side_register(m->link, m->region, m->slot * DEPTH, true, true));
    side_register(m->link, m->local, local, false, false);
    for (unsigned i = 0; i < SLOTS; i++) {
        receive(m, i);
    }
    to = htobe64((uint64_t)(uintptr_t)m->region);
    memcpy(pd, &stag, 4);
    memcpy(pd + 4, &to, 8);
    if (strcmp(side_establish(m->link, pd, sizeof pd), "ok") != 0) {
        fail("no connection");
    }
    peer = side_private_data(m->link, &len);
    if (len != sizeof pd) {
        fail("private data");
    }
    memcpy(&stag, peer, 4);
    memcpy(&to, peer + 4, 8);
    m->peer_stag = ntohl(stag);
    m->peer_to = be64toh(to);
}

/* Takes what has completed, or sleeps until something has; false when that was nothing. */
static bool look(struct measure *m)
{
    struct side_done done;

    if (!side_poll(m->link, &done)) {
        side_arm(m->link);
        if (!side_poll(m->link, &done)) {
            side_sleep(m->link, 100);
            return false;
        }
    }
    if (strcmp(done.status, "ok") != 0) {
        fail(done.status);
    }
    if (done.receive) {
        m->received++;
        receive(m, (unsigned)done.id);
    } else {
        m->completed++;
    }
    return true;
}

static void post(struct measure *m, unsigned op, unsigned place, size_t len)
{
    struct side_request r = {
        .id = SLOTS + place, .op = op, .addr = m->local + place * m->slot, .len = (uint32_t)len};

    r.remote_stag = m->peer_stag;
    r.remote_to = m->peer_to + place * m->slot;
    side_post(m->link, &r);
}

static void one_round(struct measure *m, unsigned number, size_t len)
{
    post(m, OP_SEND, 0, len);
    while (m->received < number || m->completed < number) {
        look(m);
    }
}

static void client(struct measure *m)
{
    const struct settings *s = m->s;
    double begin, busy, us;

    if (s->op == OP_SEND) {
        for (unsigned i = 0; i < WARM; i++) {
            one_round(m, i + 1, s->size);
        }
        busy = busy_s();
        begin = now_us();
        for (unsigned i = 0; i < s->count; i++) {
            one_round(m, WARM + i + 1, s->size);
        }
        us = now_us() - begin;
        printf("outcome ok figure=%.2f busy=%.2f\n", us / s->count / 2, busy_s() - busy);
        return;
    }
    busy = busy_s();
    begin = now_us();
    for (unsigned posted = 0; posted < s->count || m->completed < s->count;) {
        if (posted < s->count && posted - m->completed < DEPTH) {
            post(m, s->op, posted++ % DEPTH, s->size);
        } else {
            look(m);
        }
    }
    if (s->op == OP_WRITE) {
        m->completed = 0;
        one_round(m, 1, FINISH);
    }
    us = now_us() - begin;
    printf("outcome ok figure=%.2f busy=%.2f\n", (double)s->size * s->count / us, /* MB/s */
           busy_s() - busy);
}

/* Answers each message until the peer has gone. */
static void server(struct measure *m)
{
    unsigned answered = 0;
    uint64_t until = now_ms() + m->s->time * 1000ull;

    while (now_ms() < until) {
        if (m->received > answered) {
            post(m, OP_SEND, 0, m->s->op == OP_SEND ? m->s->size : FINISH);
            answered++;
        } else if (!look(m) && side_ended(m->link)) {
            printf("outcome ok\n");
            return;
        }
    }
    fail("time is up");
}

int main(int argc, char **argv)
{
    static struct settings settings;
    static struct measure m;
    char why[200];
    unsigned waits = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!settings_read(&settings, argc - 1, argv + 1)) {
        return 2;
    }
    m.s = &settings;
    m.slot = settings.size < 64 ? 64 : settings.size;
    side_open(&settings);
    if (settings.server) {
        side_listen();
    }
    m.link = settings.server ? side_request(why, sizeof why) : side_dial(why, sizeof why);
    if (!m.link) {
        fail(why);
    }
    prepare(&m);
    if (settings.server) {
        server(&m);
    } else {
        client(&m);
        side_disconnect(m.link);
        while (!side_ended(m.link) && waits++ < 100000) {
            sched_yield();
        }
    }
    return 0;
}
