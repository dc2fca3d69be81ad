/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ways: connections between two queue pairs of datagrams. Each carries datagrams in one direction,
 * from the end that has connected, so that two ends that begin at the same time need no agreement.
 * One is made when a datagram wants it, and kept until either queue pair has gone.
 */
#include "compat/gid.h"
#include "compat/ud.h"

#include <stdlib.h>
#include <string.h>

/* --- making ---------------------------------------------------------------------------------- */

static bool create_qp(struct ud_way *w)
{
    struct ud *ud = w->ud;
    struct iwarp_qp_options o;

    iwarp_qp_options_init(&o);
    o.send_cq = o.recv_cq = ud->cq;
    o.srq = w->inward ? ud->srq : NULL;
    o.max_recv_wr = 0;
    o.max_send_wr = w->inward ? 1 : UD_BUFFERS;
    o.access = 0;
    o.user = &w->owner;
    return iwarp_qp_create(ud->pd, &o, &w->qp) == IWARP_OK;
}

static void options_of(struct iwarp_conn_options *o)
{
    iwarp_conn_options_init(o);
    o->mpa_rev = 2;
    o->mpa_fallback = false;
    o->peer_to_peer = false; /* only the initiator sends */
    o->remind = false;
    o->connect_timeout_ms = 3000;
    o->send_imm = IWARP_SEND_IMM_OFF;
    o->rnr_timeout_ms = IWARP_RNR_OF_DEVICE - 1; /* for ever: buffers come back */
}

/* Events find their queue pair by its number, and their way by its connection. */
static void *event_user(const struct ud *ud)
{
    return (void *)(uintptr_t)ud->number;
}

static void hello_of(const struct ud *ud, uint32_t to, uint8_t octets[NUM_WIRE_OCTETS])
{
    const struct num_hello hello = {.from = ud->number, .to = to, .datagrams = true};

    num_wire_put(&hello, octets);
}

static bool dial(struct ud_way *w, const struct ud_to *to)
{
    struct sockaddr_storage addr = w->peer;
    const in_port_t port = htons((uint16_t)(w->number >> 8));
    uint8_t octets[NUM_WIRE_OCTETS];
    struct iwarp_conn_options o;

    if (!create_qp(w)) {
        w->qp = NULL;
        return false;
    }
    memcpy((char *)&addr + offsetof(struct sockaddr_in, sin_port), &port, sizeof port);
    hello_of(w->ud, w->number, octets);
    options_of(&o);
    o.traffic_class = to->traffic_class ? to->traffic_class : -1;
    if (iwarp_connect(w->qp, (const struct sockaddr *)&addr, sizeof addr, &o, octets, sizeof octets,
                      w->ud->eq, event_user(w->ud), &w->conn) != IWARP_OK) {
        (void)iwarp_qp_destroy(w->qp);
        w->qp = NULL;
        return false;
    }
    w->moved_ms = compat_now_ms();
    return true;
}

static struct ud_way *add(struct ud *ud, uint32_t number, bool inward)
{
    struct ud_way *w = calloc(1, sizeof *w);

    if (w) {
        w->ud = ud;
        w->number = number;
        w->inward = inward;
        w->next = ud->ways;
        ud->ways = w;
        *(inward ? &ud->inward : &ud->outward) += 1;
    }
    return w;
}

/* --- ending ---------------------------------------------------------------------------------- */

/* Its queue pair and connection go; what it had to send is dropped. */
static void end(struct ud_way *w)
{
    struct ud *ud = w->ud;

    if (w->qp) {
        (void)iwarp_qp_destroy(w->qp);
    }
    if (w->conn) {
        (void)iwarp_conn_destroy(w->conn);
    }
    w->qp = NULL;
    w->conn = NULL;
    w->ending = false;
    for (unsigned i = 0; i < UD_BUFFERS && w->queued > 0; i++) {
        if (ud->buffer[i].way == w) {
            ud->dropped++;
            ud->queued--;
            w->queued--;
            ud_buffer_lend(ud, &ud->buffer[i]);
        }
    }
}

static void remove_way(struct ud_way *w)
{
    struct ud_way **at = &w->ud->ways;

    while (*at != w) {
        at = &(*at)->next;
    }
    *at = w->next;
    *(w->inward ? &w->ud->inward : &w->ud->outward) -= 1;
    free(w);
}

void ud_ways_end(struct ud *ud)
{
    while (ud->ways) {
        struct ud_way *w = ud->ways;
        if (w->conn && !w->inward && w->queued == 0) { /* in order: what was sent arrives */
            (void)iwarp_disconnect(w->conn);
            (void)iwarp_conn_destroy(w->conn);
            w->conn = NULL;
        }
        if (w->qp) {
            (void)iwarp_qp_destroy(w->qp);
        }
        if (w->conn) {
            (void)iwarp_conn_destroy(w->conn);
        }
        remove_way(w);
    }
}

/* There are too many: the one that has been idle for longest goes. */
static void make_room(struct ud *ud)
{
    struct ud_way *oldest = NULL;

    for (struct ud_way *w = ud->ways; w; w = w->next) {
        if (!w->inward && w->queued == 0 && (!oldest || w->moved_ms < oldest->moved_ms)) {
            oldest = w;
        }
    }
    if (oldest) {
        end(oldest);
        remove_way(oldest);
    }
}

/* --- from here ------------------------------------------------------------------------------- */

static struct ud_way *find(const struct ud *ud, const struct ud_to *to,
                           const struct sockaddr_storage *peer)
{
    for (struct ud_way *w = ud->ways; w; w = w->next) {
        if (!w->inward && w->number == to->number && iwarp_compat_same_host(&w->peer, peer)) {
            return w;
        }
    }
    return NULL;
}

struct ud_way *ud_way_to(struct ud *ud, const struct ud_to *to)
{
    struct sockaddr_storage peer;
    union ibv_gid gid;

    memcpy(gid.raw, to->addr, sizeof gid.raw);
    iwarp_compat_addr_of_gid(&gid, to->scope, &peer);
    struct ud_way *w = find(ud, to, &peer);
    if (!w) {
        if (ud->outward >= UD_WAYS) {
            make_room(ud);
        }
        w = ud->outward < UD_WAYS ? add(ud, to->number, false) : NULL;
        if (!w) {
            return NULL;
        }
        w->peer = peer;
    }
    if (!w->qp) {
        if (compat_now_ms() < w->pause_ms || !dial(w, to)) {
            return NULL;
        }
    }
    return w->ending ? NULL : w;
}

/* --- from a peer ----------------------------------------------------------------------------- */

enum { SHARES = 64 };

static unsigned share_of(const struct ud_way *w)
{
    union ibv_gid gid;
    unsigned share = 0;

    iwarp_compat_gid_of(&w->peer, &gid);
    for (unsigned i = 0; i < sizeof gid.raw; i++) {
        share = share * 31 + gid.raw[i];
    }
    return share % SHARES;
}

/* There are too many: one ends, so that the peer that is refused now finds room when it tries
 * again. It is the one that has brought no datagram for longest, of those whose addresses have the
 * hash that most have: a host with very many loses its own. */
static void end_one_inward(struct ud *ud)
{
    unsigned count[SHARES] = {0}, most = 0;
    struct ud_way *oldest = NULL;

    for (struct ud_way *w = ud->ways; w; w = w->next) {
        if (w->inward && !w->ending) {
            unsigned share = share_of(w);
            most = ++count[share] > count[most] ? share : most;
        }
    }
    for (struct ud_way *w = ud->ways; w; w = w->next) {
        if (w->inward && !w->ending && share_of(w) == most &&
            (!oldest || w->moved_ms < oldest->moved_ms)) {
            oldest = w;
        }
    }
    if (oldest) {
        oldest->ending = true; /* an event follows */
        (void)iwarp_abort(oldest->conn);
    }
}

void ud_way_accept(struct ud *ud, struct iwarp_conn *conn, const struct num_hello *hello)
{
    struct ud_way *w = ud->inward < UD_WAYS ? add(ud, hello->from, true) : NULL;
    socklen_t peer_len = sizeof w->peer, own_len = sizeof w->own;
    uint8_t octets[NUM_WIRE_OCTETS];
    struct iwarp_conn_options o;

    if (!w || !create_qp(w)) {
        if (w) {
            remove_way(w);
        } else {
            end_one_inward(ud);
        }
        num_conn_refuse(conn, NUM_BUSY);
        return;
    }
    ud_buffer_bring(ud);
    w->conn = conn;
    w->moved_ms = compat_now_ms();
    options_of(&o);
    hello_of(ud, hello->from, octets);
    if (iwarp_conn_peer_addr(conn, &w->peer, &peer_len) != IWARP_OK ||
        iwarp_conn_local_addr(conn, &w->own, &own_len) != IWARP_OK ||
        iwarp_accept(conn, w->qp, &o, octets, sizeof octets, event_user(ud)) != IWARP_OK) {
        end(w); /* the peer has gone */
        remove_way(w);
    }
}

/* --- what happens to them -------------------------------------------------------------------- */

struct ud_way *ud_way_of(const struct ud *ud, const struct iwarp_conn *conn)
{
    struct ud_way *w = ud->ways;

    while (w && w->conn != conn) {
        w = w->next;
    }
    return w;
}

void ud_way_over(struct ud_way *w)
{
    end(w);
    w->pause_ms = compat_now_ms() + UD_PAUSE_MS;
    if (w->inward) {
        remove_way(w);
    }
}

/* Ways that hold buffers and send none keep datagrams from all the others. */
int64_t ud_ways_check(struct ud *ud, int64_t now)
{
    int64_t next = 0;

    if (ud->queued < UD_BUFFERS) {
        return 0;
    }
    for (struct ud_way *w = ud->ways; w; w = w->next) {
        int64_t due = w->moved_ms + UD_STUCK_MS;
        if (w->queued == 0 || w->ending) {
            continue;
        }
        if (now >= due) {
            w->ending = true; /* an event follows */
            (void)iwarp_abort(w->conn);
        } else if (next == 0 || due < next) {
            next = due;
        }
    }
    return next;
}
