/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Native connections of queue pairs that are connected by number: begin, accept, refuse, end. All
 * have keep_qp, so a try in vain, and a peer that has gone, leave what is posted where it is.
 */
#include "compat/num.h"
#include "compat/rnr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A Request may wait long for the other end's RTR, so a start-up may last as long as a Request is
 * held there. TCP's set-up may not: the next try may go another way. */
enum { STARTUP_MS = 60000, CONNECT_MS = 3000 };

enum { RNR_FOR_EVER = 7 };

static void *event_user(const struct num *n)
{
    return (void *)(uintptr_t)((uint64_t)n->attempt << 32 | n->number);
}

/* How long a message waits here for its receive: as often as the peer tries times this end's own
 * timer. peer NULL, before its Reply has come, or unknown: its most. */
static unsigned rnr_timeout(const struct num *n, const struct num_hello *peer)
{
    return iwarp_compat_rnr_timeout(peer && peer->retry_known ? peer->rnr_retry : RNR_FOR_EVER,
                                    n->set.min_rnr_timer);
}

/* Sends with Immediate Data need no agreement by number, as both ends are libiwarp's. */
static void options_of(const struct num *n, const struct num_hello *peer,
                       struct iwarp_conn_options *o)
{
    iwarp_conn_options_init(o);
    o->mpa_rev = 2; /* with peer-to-peer mode: either end may send first */
    o->mpa_fallback = false;
    o->keep_qp = true;
    o->send_imm = IWARP_SEND_IMM_AGREED;
    o->rnr_timeout_ms = rnr_timeout(n, peer);
    o->ird = o->ord = COMPAT_MAX_RD_ATOM; /* Reads confirm Writes, too: verbs_post.c */
    o->connect_timeout_ms = CONNECT_MS;
    o->startup_timeout_ms = STARTUP_MS;
    if (n->mask & IBV_QP_AV && n->set.ah_attr.is_global && n->set.ah_attr.grh.traffic_class) {
        o->traffic_class = n->set.ah_attr.grh.traffic_class;
    }
}

static void remember(struct num *n)
{
    snprintf(n->why, sizeof n->why, "%s", iwarp_last_error());
}

/* --- beginning ------------------------------------------------------------------------------- */

/* The first try and each second one after it come from the address that RTR names as this end's;
 * the others from where the system likes, for programs whose peer knows this end by another one. */
static void choose_source(const struct num *n, struct iwarp_conn_options *o)
{
    const struct sockaddr_storage *s = &n->path.source;

    if (!n->path.here && n->tries % 2 == 0 && s->ss_family == n->path.peer.ss_family) {
        o->source = (const struct sockaddr *)s;
        o->source_len =
            s->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    }
}

bool num_conn_dial(struct num *n, struct iwarp_eq *eq)
{
    struct sockaddr_storage to = n->path.peer;
    const in_port_t port = htons((uint16_t)(n->set.dest_qp_num >> 8));
    uint8_t octets[NUM_WIRE_OCTETS];
    struct iwarp_conn_options o;
    struct num_hello hello;

    memcpy((char *)&to + offsetof(struct sockaddr_in, sin_port), &port, sizeof port);
    num_hello_of(n, &hello);
    num_wire_put(&hello, octets);
    options_of(n, NULL, &o);
    /* It has no answer: TCP resets the connection of a process that ends and has not read all. */
    o.rtr = IWARP_RTR_WRITE;
    choose_source(n, &o);
    n->attempt++;
    n->tries++;
    enum iwarp_status status =
        iwarp_connect(n->qp->native, (const struct sockaddr *)&to, sizeof to, &o, octets,
                      sizeof octets, eq, event_user(n), &n->conn);
    if (status != IWARP_OK) {
        n->conn = NULL;
        remember(n);
        return false;
    }
    n->state = NUM_DIALING;
    return true;
}

bool num_conn_accept(struct num *n, struct iwarp_conn *conn, const struct num_hello *peer)
{
    uint8_t octets[NUM_WIRE_OCTETS];
    struct iwarp_conn_options o;
    struct num_hello hello;

    num_hello_of(n, &hello);
    num_wire_put(&hello, octets);
    options_of(n, peer, &o);
    n->attempt++;
    enum iwarp_status status =
        iwarp_accept(conn, n->qp->native, &o, octets, sizeof octets, event_user(n));
    if (status != IWARP_OK) { /* the peer has gone, or memory */
        remember(n);
        (void)iwarp_conn_destroy(conn);
        return false;
    }
    n->conn = conn;
    n->state = NUM_ANSWERED;
    return true;
}

void num_conn_heard(const struct num *n)
{
    struct num_hello peer;
    size_t len;
    const void *octets = iwarp_conn_private_data(n->conn, &len);

    if (num_wire_get(octets, len, &peer)) {
        (void)iwarp_conn_set_rnr_timeout(n->conn, rnr_timeout(n, &peer));
    }
}

void num_conn_refuse(struct iwarp_conn *conn, enum num_refusal why)
{
    uint8_t octets[NUM_WIRE_OCTETS];

    num_wire_put_refusal(why, octets);
    (void)iwarp_reject(conn, octets, sizeof octets);
    (void)iwarp_conn_destroy(conn);
}

/* --- ending ---------------------------------------------------------------------------------- */

void num_conn_end(struct num *n, bool in_order)
{
    if (!n->conn) {
        return;
    }
    (void)(in_order ? iwarp_disconnect(n->conn) : iwarp_abort(n->conn));
    (void)iwarp_conn_destroy(n->conn);
    n->conn = NULL;
    n->attempt++;
}

static enum iwarp_status to_state(const struct num *n, enum iwarp_qp_state state)
{
    const struct iwarp_qp_changes changes = {
        .size = sizeof changes, .mask = IWARP_QP_CHANGE_STATE, .state = state};

    return iwarp_qp_modify(n->qp->native, &changes);
}

/* A try that is aborted leaves the queue pair IDLE; one that was up is in ERROR by then. */
void num_conn_over(struct num *n)
{
    num_conn_end(n, false);
    num_self_abort(n);
    if (iwarp_qp_state(n->qp->native) == IWARP_QP_IDLE) {
        (void)to_state(n, IWARP_QP_ERROR);
    }
    n->state = NUM_OVER;
}

int num_conn_reset(struct num *n)
{
    num_conn_over(n);
    num_self_end(n);
    enum iwarp_status status = to_state(n, IWARP_QP_IDLE);
    return status == IWARP_OK ? 0 : iwarp_compat_failed("verbs", status, "ibv_modify_qp");
}

/* --- queue pairs ----------------------------------------------------------------------------- */

bool num_conn_has_sends(const struct num *n)
{
    struct iwarp_qp_info info = {.size = sizeof info};

    return iwarp_qp_query(n->qp->native, &info) == IWARP_OK && info.send_in_use > 0;
}

/* While it connects, a queue pair takes no change: the engine calls again afterwards. */
void num_conn_allow(const struct num *n)
{
    const struct iwarp_qp_changes changes = {.size = sizeof changes,
                                             .mask = IWARP_QP_CHANGE_ACCESS,
                                             .access = (iwarp_compat_access(n->qp->access) &
                                                        ~(unsigned)IWARP_ACCESS_LOCAL_WRITE &
                                                        ~(unsigned)IWARP_ACCESS_ZERO_BASED) |
                                                       IWARP_ACCESS_MW_BIND};

    if (!n->conn || n->state == NUM_UP) {
        (void)iwarp_qp_modify(n->qp->native, &changes);
    }
}
