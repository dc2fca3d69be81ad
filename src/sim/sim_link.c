/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection of a simulation: two ends around a pair in memory (transport/mem.c), which has the
 * octets, and of which they arrive piece by piece. An end shows its connection no more of the pair
 * than what has arrived.
 *
 * A loss has three moments: nothing arrives any more (link.lost), and each end notices at a time of
 * its own (end.lost). In between an end sends in vain: it is told that the octets are taken, or
 * that there is no room.
 *
 * Events have an end, or its `comes`, as key, and go with it. A link goes with its second end.
 */
#include "base/log.h"
#include "sim/sim.h"
#include "transport/transport.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static struct sim_end *other(struct sim_end *e)
{
    return &e->link->end[e == &e->link->end[0]];
}

static int side(const struct sim_end *e)
{
    return e == &e->link->end[1];
}

/* --- what an end can see --------------------------------------------------------------------- */

bool iwarp_sim_end_is_over(struct sim_end *e, size_t *unread)
{
    struct iwarp_mem_look look;

    iwarp_mem_look(e->inner, &look);
    *unread = look.unread;
    return e->lost || (!e->link->lost && ((look.fin && e->fin) || look.broken));
}

static bool is_ready(struct sim_end *e, bool *readable, bool *writable)
{
    struct iwarp_mem_look look;
    size_t unread;
    bool over = iwarp_sim_end_is_over(e, &unread);

    iwarp_mem_look(e->inner, &look);
    *readable = e->open && (e->mode == SIM_OCTETS
                                ? e->want_read && (unread > 0 || over)
                                : over || (e->mode == SIM_CROWDED && unread > IWARP_UNREAD_MAX));
    *writable = e->open && e->want_write && (e->lost || (!e->link->lost && look.room > 0));
    return *readable || *writable || (e->open && look.released);
}

/* Level-triggered: it comes again as long as there is something. */
static void poll_end(void *end)
{
    struct sim_end *e = end;
    bool readable, writable;

    e->polls = false;
    if (!e->closed && is_ready(e, &readable, &writable)) {
        iwarp_sim_end_poll_soon(e);
        e->ep.ready(e->ep.user, readable, writable); /* the end may be gone from here on */
    }
}

void iwarp_sim_end_poll_soon(struct sim_end *e)
{
    if (!e->polls && !e->closed && e->ep.ready) {
        e->polls = true;
        iwarp_sim_at(e->link->sim, iwarp_sim_reaction(e->link->sim), e, e->node, poll_end, e);
    }
}

/* --- octets on their way --------------------------------------------------------------------- */

static void come(struct sim_end *e);

/* A piece arrives at this end, and behind the last one the peer's FIN. */
static void arrive(void *end)
{
    struct sim_end *e = end;
    struct iwarp_sim *sim = e->link->sim;
    size_t coming = iwarp_mem_coming(e->inner);

    e->comes = false;
    if (iwarp_sim_one_in(sim, sim->options.lose_one_in)) {
        iwarp_sim_link_lose(e->link);
        return;
    }
    size_t most = coming < sim->options.piece_max ? coming : sim->options.piece_max;
    size_t n = most > 0 ? (size_t)iwarp_sim_between(sim, 1, most) : 0;
    iwarp_mem_arrive(e->inner, n);
    e->fin = n == coming && other(e)->shut;
    iwarp_sim_say(sim, "link %u: %zu octets arrive at %d%s", e->link->number, n, side(e),
                  e->fin ? ", and the end" : "");
    if (!e->fin && (n < coming || other(e)->shut)) {
        come(e);
    }
    iwarp_sim_end_poll_soon(e);
}

static void come(struct sim_end *e)
{
    if (!e->comes && !e->closed && !e->link->lost) {
        e->comes = true;
        iwarp_sim_at(e->link->sim, iwarp_sim_delay(e->link->sim), &e->comes, e->node, arrive, e);
    }
}

/* FNV-1a, so that traces of two runs tell whether the octets were the same. */
static void say_sent(struct sim_end *e, const struct iovec *iov, int n, size_t octets)
{
    uint64_t hash = 0xcbf29ce484222325u;
    size_t left = octets;

    if (!e->link->sim->options.trace) {
        return;
    }
    for (int i = 0; i < n && left > 0; i++) {
        size_t len = iov[i].iov_len < left ? iov[i].iov_len : left;
        for (size_t k = 0; k < len; k++) {
            hash = (hash ^ ((const uint8_t *)iov[i].iov_base)[k]) * 0x100000001b3u;
        }
        left -= len;
    }
    iwarp_sim_say(e->link->sim, "link %u: %d sends %zu octets, %016llx", e->link->number, side(e),
                  octets, (unsigned long long)hash);
}

/* --- a connection that is lost --------------------------------------------------------------- */

static void notice(void *end)
{
    struct sim_end *e = end;

    e->lost = e->open = true;
    e->error = ECONNRESET;
    iwarp_sim_say(e->link->sim, "link %u: %d notices", e->link->number, side(e));
    iwarp_sim_end_poll_soon(e);
}

void iwarp_sim_link_lose(struct sim_link *link)
{
    struct iwarp_sim *sim = link->sim;

    if (link->lost) {
        return;
    }
    link->lost = true;
    iwarp_sim_say(sim, "link %u is lost, %zu and %zu octets on their way", link->number,
                  link->end[0].closed ? 0 : iwarp_mem_coming(link->end[0].inner),
                  link->end[1].closed ? 0 : iwarp_mem_coming(link->end[1].inner));
    for (int i = 0; i < 2; i++) {
        struct sim_end *e = &link->end[i];
        iwarp_sim_cancel(sim, &e->comes);
        if (!e->closed) {
            iwarp_sim_at(sim, (int64_t)iwarp_sim_between(sim, 1, sim->options.notice_max_ns), e,
                         e->node, notice, e);
        }
    }
}

/* What the pair says about the end of the connection is not what this end knows of it. */
static ssize_t seen(struct sim_end *e, ssize_t got)
{
    if (got > 0 || got == -EFAULT) {
        return got;
    }
    if (e->lost) {
        return -e->error;
    }
    return e->link->lost || (got == 0 && !e->fin) ? -EAGAIN : got;
}

/* --- an endpoint's operations ---------------------------------------------------------------- */

static ssize_t end_readv(struct iwarp_endpoint *ep, const struct iovec *iov, int n)
{
    struct sim_end *e = sim_end_of(ep);
    ssize_t got = e->inner->ops->readv(e->inner, iov, n);

    if (got > 0) {
        iwarp_sim_end_poll_soon(other(e)); /* there is room, and something may be released */
    }
    return seen(e, got);
}

/* Sent in vain, by an end that does not know that the connection is lost: all, or -EAGAIN. */
static ssize_t swallow(const struct sim_end *e, const struct iovec *iov, int n)
{
    ssize_t total = 0;

    for (int i = 0; i < n && e->link->swallows; i++) {
        total += (ssize_t)iov[i].iov_len;
    }
    return total > 0 ? total : -EAGAIN;
}

static ssize_t sent(struct sim_end *e, const struct iovec *iov, int n, ssize_t octets)
{
    if (octets > 0) {
        say_sent(e, iov, n, (size_t)octets);
        come(other(e));
    }
    return octets;
}

static ssize_t end_writev(struct iwarp_endpoint *ep, const struct iovec *iov, int n)
{
    struct sim_end *e = sim_end_of(ep);

    if (e->lost) {
        return -e->error;
    }
    return e->link->lost ? swallow(e, iov, n)
                         : sent(e, iov, n, e->inner->ops->writev(e->inner, iov, n));
}

static void end_watch(struct iwarp_endpoint *ep, bool read, bool write)
{
    struct sim_end *e = sim_end_of(ep);
    bool readable, writable;

    e->mode = SIM_OCTETS;
    e->want_read = read;
    e->want_write = write;
    if (is_ready(e, &readable, &writable)) {
        iwarp_sim_end_poll_soon(e);
    }
}

static void end_shutdown_write(struct iwarp_endpoint *ep)
{
    struct sim_end *e = sim_end_of(ep);

    e->shut = true;
    e->inner->ops->shutdown_write(e->inner);
    come(other(e));
}

static void unlink_link(struct sim_link *link)
{
    struct sim_link **at = &link->sim->links;

    while (*at != link) {
        at = &(*at)->next;
    }
    *at = link->next;
    free(link);
}

/* Nobody has, or will have, this end. */
static void shut_for_good(struct sim_end *e)
{
    iwarp_sim_cancel(e->link->sim, e);
    iwarp_sim_cancel(e->link->sim, &e->comes);
    e->closed = e->shut = true;
    e->inner->ops->close(e->inner, false);
}

/*
 * A reset loses what is on its way, or overtakes it. The peer sees the end of an orderly close when
 * all octets before it have arrived.
 */
static void end_close(struct iwarp_endpoint *ep, bool reset)
{
    struct sim_end *e = sim_end_of(ep), *peer = other(e);
    struct sim_link *link = e->link;
    void (*closed)(void *user) = ep->closed;
    void *user = ep->user;

    iwarp_sim_say(link->sim, "link %u: %d %s", link->number, side(e), reset ? "resets" : "closes");
    if (!peer->closed && !peer->open) { /* it was never connected */
        shut_for_good(peer);
    }
    if (!peer->closed && reset) {
        if (iwarp_sim_draw(link->sim, 2) && !link->lost) {
            iwarp_mem_arrive(peer->inner, iwarp_mem_coming(peer->inner));
        }
        iwarp_sim_link_lose(link);
    }
    shut_for_good(e);
    if (peer->closed) {
        unlink_link(link);
    } else {
        come(peer);
    }
    closed(user);
}

static uint32_t end_emss(struct iwarp_endpoint *ep)
{
    return sim_end_of(ep)->link->emss;
}

/* The library asks after a read that left something: that is found out later, as all else. */
static void end_poll(struct iwarp_endpoint *ep)
{
    struct sim_end *e = sim_end_of(ep);
    bool readable, writable;

    if (is_ready(e, &readable, &writable)) {
        iwarp_sim_end_poll_soon(e);
    }
}

static const struct iwarp_transport end_ops = {
    "sim", end_readv, end_writev, end_watch, end_shutdown_write, end_close, end_emss, end_poll};

/* --- loans ----------------------------------------------------------------------------------- */

static ssize_t end_borrow(struct iwarp_endpoint *ep, struct iovec *iov, unsigned *n)
{
    struct sim_end *e = sim_end_of(ep);

    iwarp_sim_end_poll_soon(other(e)); /* what was referred to has been copied */
    return seen(e, e->inner->loans->borrow(e->inner, iov, n));
}

static void end_give_back(struct iwarp_endpoint *ep, size_t octets, size_t held)
{
    struct sim_end *e = sim_end_of(ep);

    e->inner->loans->give_back(e->inner, octets, held);
    iwarp_sim_end_poll_soon(other(e));
}

static ssize_t end_refer(struct iwarp_endpoint *ep, const struct iwarp_burst *burst)
{
    struct sim_end *e = sim_end_of(ep);

    if (e->lost || e->link->lost) {
        return e->lost ? -e->error : -EAGAIN;
    }
    return sent(e, burst->iov, (int)burst->n, e->inner->loans->refer(e->inner, burst));
}

static size_t end_released(struct iwarp_endpoint *ep)
{
    struct sim_end *e = sim_end_of(ep);
    size_t n = e->inner->loans->released(e->inner);

    end_poll(ep); /* a part of it may come later */
    return n;
}

static void end_forsake(struct iwarp_endpoint *ep)
{
    struct sim_end *e = sim_end_of(ep);

    e->inner->loans->forsake(e->inner);
    iwarp_sim_link_lose(e->link);
}

static const struct iwarp_loans end_loans = {sizeof end_loans, end_borrow,   end_give_back,
                                             end_refer,        end_released, end_forsake};

/* --- making one ------------------------------------------------------------------------------ */

static void no_wake(void *user)
{
    (void)user;
}

static void set_port(struct sim_addr *a, uint16_t port)
{
    if (a->any.ss_family == AF_INET) {
        ((struct sockaddr_in *)&a->any)->sin_port = htons(port);
    } else {
        ((struct sockaddr_in6 *)&a->any)->sin6_port = htons(port);
    }
}

/* By chance it uses the memory of what is sent, and lends what has come, or copies both; and its
 * segments are of one size or another. */
static struct sim_link *new_link(struct sim_node *from, const struct sim_addr *to)
{
    static const uint32_t segments[] = {536, 1460, 8948, 65483};
    struct iwarp_sim *sim = from->sim;
    struct sim_link *link = calloc(1, sizeof *link);
    const struct iwarp_mem_loans loans = {
        1 + (size_t)iwarp_sim_between(sim, 1, sim->options.piece_max),
        iwarp_sim_draw(sim, UINT64_MAX)};
    bool late = iwarp_sim_one_in(sim, sim->options.late_one_in);

    if (!link) {
        return NULL;
    }
    struct sim_end *e = link->end;
    if (iwarp_mem_pair(no_wake, NULL, NULL, late ? &loans : NULL, &e[0].inner, &e[1].inner) != 0) {
        free(link);
        return NULL;
    }
    iwarp_mem_slow(e[0].inner);
    link->sim = sim;
    link->number = ++sim->link_count;
    link->emss = segments[iwarp_sim_draw(sim, 4)];
    link->swallows = !late && iwarp_sim_draw(sim, 2);
    for (int i = 0; i < 2; i++) {
        e[i].link = link;
        e[i].ep.ops = &end_ops;
        e[i].ep.loans = late ? &end_loans : NULL;
        e[i].inner->closed = no_wake;
    }
    from->last_port = from->last_port < UINT16_MAX ? from->last_port + 1 : 49152;
    e[0].node = from;
    e[0].addr = from->addr;
    set_port(&e[0].addr, from->last_port);
    e[1].addr = *to;
    link->next = sim->links;
    sim->links = link;
    return link;
}

/* The peer hears of it, or answers with a reset, as an address without a listener does. */
static void connected(void *end)
{
    struct sim_end *e = end;
    struct sim_acceptor *a = iwarp_sim_acceptor_at(e->link->sim, &e->link->end[1].addr);

    e->open = true;
    if (a) {
        other(e)->open = true;
        other(e)->node = a->node;
        iwarp_sim_acceptor_add(a, other(e));
    } else {
        e->lost = true;
        e->error = ECONNREFUSED;
    }
    iwarp_sim_say(e->link->sim, "link %u: %s", e->link->number, a ? "connected" : "refused");
    iwarp_sim_end_poll_soon(e);
}

/* A connect that is lost is never answered: the limit of time is the library's. */
int iwarp_sim_connect(struct iwarp_seat *seat, const struct iwarp_way *way,
                      struct iwarp_endpoint **ep)
{
    struct sim_node *node = (struct sim_node *)(void *)seat->stack;
    struct iwarp_sim *sim = node->sim;
    struct sim_addr to = {.len = way->addr_len};

    if (way->addr->sa_family != node->addr.any.ss_family || way->addr_len != node->addr.len) {
        return -ENETUNREACH;
    }
    memcpy(&to.any, way->addr, way->addr_len);
    struct sim_link *link = new_link(node, &to);
    if (!link) {
        return -ENOMEM;
    }
    bool lost = iwarp_sim_one_in(sim, sim->options.lose_one_in);
    iwarp_sim_say(sim, "link %u: a connect%s", link->number, lost ? ", which is lost" : "");
    if (!lost) {
        iwarp_sim_at(sim, iwarp_sim_delay(sim), &link->end[0], node, connected, &link->end[0]);
    }
    *ep = &link->end[0].ep;
    return 0;
}
