/* SPDX-License-Identifier: BSD-2-Clause */
/* See flow.h. */
#include "capture/flow.h"

#include "capture/stags.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTE    64
#define COMMENT 380
#define RECENT  16 /* STags described last: not described again at once */
#define UNACKED 32 /* packets of a side without one of the other: then one is made up */

struct iwarp_flow {
    struct iwarp_flow *next; /* in its set; under flows_lock, as `joined` and `there` */
    struct iwarp_capture *capture;
    struct iwarp_headers_addr addr[2];
    bool there[2]; /* that end is recorded now */

    pthread_mutex_t lock; /* of what is below */
    bool joined[2];       /* that end was ever recorded; if both were, only sent octets are */
    uint32_t seq[2];      /* of the next octet that the side sends */
    unsigned unacked[2];  /* packets of the side since one of the other */
    bool fin[2], reset;
    char note[2][NOTE];
    struct iwarp_stags stags[2]; /* of what the side sends */
    iwarp_flow_describe_fn *describe[2];
    void *describe_arg[2];
    uint64_t told[RECENT]; /* side and STag, described in a comment */
    unsigned n_told;
};

/* A packet's comment while it grows. */
struct comment {
    struct iwarp_flow *flow;
    unsigned sender;
    size_t len;
    char text[COMMENT];
};

/* --- addresses ------------------------------------------------------------------------------- */

bool iwarp_flow_addr(struct iwarp_headers_addr *to, const struct sockaddr *addr, socklen_t len)
{
    struct sockaddr_in in;
    struct sockaddr_in6 in6;

    memset(to, 0, sizeof *to);
    if (len >= (socklen_t)sizeof in && addr->sa_family == AF_INET) {
        memcpy(&in, addr, sizeof in);
        to->port = ntohs(in.sin_port);
        memcpy(to->ip, &in.sin_addr, 4);
        return true;
    }
    if (len < (socklen_t)sizeof in6 || addr->sa_family != AF_INET6) {
        return false;
    }
    memcpy(&in6, addr, sizeof in6);
    to->port = ntohs(in6.sin6_port);
    to->v6 = !IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr);
    memcpy(to->ip, in6.sin6_addr.s6_addr + (to->v6 ? 0 : 12), to->v6 ? 16 : 4);
    return true;
}

uint32_t iwarp_flow_number(void)
{
    static _Atomic uint32_t last;

    return atomic_fetch_add(&last, 1) + 1;
}

/* Ports that no other protocol is looked for at: the dynamic ones. */
void iwarp_flow_made_up(uint32_t number, struct iwarp_headers_addr addr[2])
{
    memset(addr, 0, 2 * sizeof *addr);
    for (unsigned side = 0; side < 2; side++) {
        const uint8_t ip[4] = {192, 0, 2, (uint8_t)(1 + side)};
        memcpy(addr[side].ip, ip, sizeof ip);
        addr[side].port = (uint16_t)(49152 + (number >> 14 * side) % 16384);
    }
}

static bool same(const struct iwarp_headers_addr *a, const struct iwarp_headers_addr *b)
{
    return a->v6 == b->v6 && a->port == b->port && memcmp(a->ip, b->ip, sizeof a->ip) == 0;
}

/* --- packets --------------------------------------------------------------------------------- */

/* lock held, or no other thread knows the flow. End `who` records a packet that end `side` has
 * sent. */
static void add(struct iwarp_flow *f, unsigned who, unsigned side, unsigned flags,
                const struct iovec *iov, size_t skip, size_t len, const char *comment)
{
    const struct iwarp_capture_packet p = {
        .headers = {&f->addr[side], &f->addr[1 - side], side, flags, f->seq[side],
                    flags & IWARP_TCP_ACK ? f->seq[1 - side] : 0},
        .inbound = who != side,
        .comment = comment                   ? comment
                   : f->note[who][0] != '\0' ? f->note[who]
                                             : NULL,
        .iov = iov,
        .skip = skip,
        .len = len};

    iwarp_capture_add(f->capture, &p);
    if (!comment) {
        f->note[who][0] = '\0';
    }
    f->seq[side] += (uint32_t)len + ((flags & (IWARP_TCP_SYN | IWARP_TCP_FIN)) != 0);
    f->unacked[side]++;
    f->unacked[1 - side] = 0;
}

/* Wireshark goes through all segments that are not acknowledged, for each one that comes: a stream
 * of one direction would cost it the square of its packets. */
static void acknowledge(struct iwarp_flow *f, unsigned who, unsigned side)
{
    if (f->unacked[side] >= UNACKED) {
        add(f, who, 1 - side, IWARP_TCP_ACK, NULL, 0, 0, NULL);
    }
}

static bool is_told(struct iwarp_flow *f, uint64_t key)
{
    for (unsigned i = 0; i < RECENT; i++) {
        if (f->told[i] == key) {
            return true;
        }
    }
    return false;
}

static void tell(struct comment *c, const char *text)
{
    const size_t len = strlen(text), separator = c->len > 0 ? 2 : 0;

    if (len > 0 && c->len + separator + len < sizeof c->text) {
        snprintf(c->text + c->len, sizeof c->text - c->len, "%s%s", separator ? "; " : "", text);
        c->len += separator + len;
    }
}

static void tell_stag(void *arg, uint32_t stag, bool of_sender)
{
    struct comment *c = arg;
    struct iwarp_flow *f = c->flow;
    const unsigned owner = of_sender ? c->sender : 1 - c->sender;
    const uint64_t key = (uint64_t)(owner + 1) << 32 | stag;
    char text[COMMENT / 3] = "";

    if (f->describe[owner] && !is_told(f, key)) {
        f->told[f->n_told++ % RECENT] = key;
        f->describe[owner](f->describe_arg[owner], stag, text, sizeof text);
        tell(c, text);
    }
}

/* The comment of the next packet: the note, and which regions or windows its STags name. */
static void look_at(struct iwarp_flow *f, struct comment *c, unsigned who, unsigned side,
                    const struct iovec *iov, size_t skip, size_t len)
{
    c->flow = f;
    c->sender = side;
    c->len = 0;
    c->text[0] = '\0';
    tell(c, f->note[who]);
    f->note[who][0] = '\0';
    f->stags[side].over |= f->stags[1 - side].peer_marked; /* RFC 5044 7.1.1, M */
    iwarp_stags_feed(&f->stags[side], iov, skip, len, tell_stag, c);
}

static void add_octets(struct iwarp_flow *f, unsigned who, unsigned side, const struct iovec *iov,
                       size_t len)
{
    struct comment comment;
    size_t done = 0;

    while (done < len && !iwarp_capture_is_over(f->capture)) {
        size_t n = len - done < IWARP_CAPTURE_PAYLOAD ? len - done : IWARP_CAPTURE_PAYLOAD;
        look_at(f, &comment, who, side, iov, done, n);
        add(f, who, side, IWARP_TCP_PSH | IWARP_TCP_ACK, iov, done, n,
            comment.len > 0 ? comment.text : NULL);
        acknowledge(f, who, side);
        done += n;
    }
}

static void add_handshake(struct iwarp_flow *f, unsigned who)
{
    add(f, who, 0, IWARP_TCP_SYN, NULL, 0, 0,
        "Made up by libiwarp: the handshake, all headers, and how octets are cut into packets.");
    add(f, who, 1, IWARP_TCP_SYN | IWARP_TCP_ACK, NULL, 0, 0, NULL);
    add(f, who, 0, IWARP_TCP_ACK, NULL, 0, 0, NULL);
}

static void add_end(struct iwarp_flow *f, unsigned who, unsigned side, bool reset)
{
    if (f->reset || (!reset && f->fin[side])) {
        return;
    }
    add(f, who, side, (reset ? IWARP_TCP_RST : IWARP_TCP_FIN) | IWARP_TCP_ACK, NULL, 0, 0, NULL);
    f->fin[side] = true;
    f->reset = reset;
}

/* --- flows ----------------------------------------------------------------------------------- */

static struct iwarp_flow **set_of(struct iwarp_capture *c, const struct iwarp_headers_addr addr[2])
{
    return &c->flow[(addr[0].port ^ (addr[1].port << 3)) % IWARP_CAPTURE_FLOWSETS];
}

/* flows_lock held. The flow of which only the other end is recorded so far. */
static struct iwarp_flow *other_end(struct iwarp_capture *c,
                                    const struct iwarp_headers_addr addr[2], unsigned side)
{
    struct iwarp_flow *f = *set_of(c, addr);

    while (f && !(same(&f->addr[0], &addr[0]) && same(&f->addr[1], &addr[1]) && !f->joined[side])) {
        f = f->next;
    }
    return f;
}

/* flows_lock held. Sequence numbers differ for one pair of addresses, or the next connection would
 * look like the last one's octets sent again. */
static struct iwarp_flow *flow_new(struct iwarp_capture *c, const struct iwarp_headers_addr addr[2])
{
    struct iwarp_flow *f = calloc(1, sizeof *f);

    if (!f) {
        return NULL;
    }
    pthread_mutex_init(&f->lock, NULL);
    f->capture = c;
    memcpy(f->addr, addr, sizeof f->addr);
    f->seq[0] = ++c->flows * 0x9e3779b1u;
    f->seq[1] = ~f->seq[0];
    f->next = *set_of(c, addr);
    *set_of(c, addr) = f;
    return f;
}

struct iwarp_flow *iwarp_flow_join(struct iwarp_capture *c, const struct iwarp_headers_addr addr[2],
                                   unsigned side)
{
    if (iwarp_capture_is_over(c)) {
        return NULL;
    }
    pthread_mutex_lock(&c->flows_lock);
    struct iwarp_flow *f = other_end(c, addr, side);
    bool is_new = !f;
    if (is_new) {
        f = flow_new(c, addr);
    }
    if (f) {
        pthread_mutex_lock(&f->lock);
        f->there[side] = f->joined[side] = true;
        if (is_new) {
            add_handshake(f, side);
        }
        pthread_mutex_unlock(&f->lock);
    }
    pthread_mutex_unlock(&c->flows_lock);
    return f;
}

void iwarp_flow_leave(struct iwarp_flow *f, unsigned side)
{
    struct iwarp_capture *c = f->capture;

    iwarp_flow_describe(f, side, NULL, NULL);
    pthread_mutex_lock(&c->flows_lock);
    f->there[side] = false;
    bool last = !f->there[1 - side];
    if (last) {
        struct iwarp_flow **at = set_of(c, f->addr);
        while (*at != f) {
            at = &(*at)->next;
        }
        *at = f->next;
    }
    pthread_mutex_unlock(&c->flows_lock);
    if (last) {
        pthread_mutex_destroy(&f->lock);
        free(f);
    }
}

void iwarp_flow_hold(struct iwarp_flow *f)
{
    pthread_mutex_lock(&f->lock);
}

void iwarp_flow_release(struct iwarp_flow *f)
{
    pthread_mutex_unlock(&f->lock);
}

/* --- what happens ---------------------------------------------------------------------------- */

void iwarp_flow_sent(struct iwarp_flow *f, unsigned side, const struct iovec *iov, size_t len)
{
    add_octets(f, side, side, iov, len);
}

void iwarp_flow_ended(struct iwarp_flow *f, unsigned side, bool reset)
{
    add_end(f, side, side, reset);
}

void iwarp_flow_received(struct iwarp_flow *f, unsigned side, const struct iovec *iov, size_t len)
{
    iwarp_flow_hold(f);
    if (!f->joined[1 - side]) {
        add_octets(f, side, 1 - side, iov, len);
    }
    iwarp_flow_release(f);
}

void iwarp_flow_received_end(struct iwarp_flow *f, unsigned side, bool reset)
{
    iwarp_flow_hold(f);
    if (!f->joined[1 - side]) {
        add_end(f, side, 1 - side, reset);
    }
    iwarp_flow_release(f);
}

void iwarp_flow_note(struct iwarp_flow *f, unsigned side, const char *text)
{
    iwarp_flow_hold(f);
    snprintf(f->note[side], sizeof f->note[side], "%s", text);
    iwarp_flow_release(f);
}

void iwarp_flow_describe(struct iwarp_flow *f, unsigned side, iwarp_flow_describe_fn *fn, void *arg)
{
    iwarp_flow_hold(f);
    f->describe[side] = fn;
    f->describe_arg[side] = arg;
    iwarp_flow_release(f);
}
