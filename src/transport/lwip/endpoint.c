/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One connection of lwIP as an endpoint.  What the peer sends is kept as lwIP's packet buffers, and
 * the window stays closed by as much until it is read or, in Full Operation, given back (loans.c).
 *
 * lwIP frees a connection on its own in three ways: with a call of on_lost; when both ends have
 * said FIN, without a word, some time after on_received has told of the peer's; and in tcp_close
 * and tcp_abort.  `pcb` is NULL from then on.
 */
#include "base/guard.h"
#include "transport/lwip/core.h"

#include <errno.h>
#include <lwip/priv/tcp_priv.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define STAGE_OCTETS  16384
#define TICKS         (TCP_SLOW_INTERVAL < 500 ? 2 : 1) /* of lwIP's slow timer */
#define TICK_MS       (TICKS * TCP_SLOW_INTERVAL)
#define FIRST_RTO     (1000 / TCP_SLOW_INTERVAL) /* RFC 6298 2.1; lwIP begins with 3 s */
#define LEAST_RTO     (200 / TCP_SLOW_INTERVAL)  /* peers may acknowledge late; 0: lwIP's own */
#define PORT_FIRST    0xC000
#define PORTS         (0x10000 - PORT_FIRST)
#define PROBES        4
#define SMALL         256 /* octets of a segment that is gathered with others */
#define GATHER_OCTETS 512
#define LEAST_MSS     88 /* a smaller one is taken for this; no Ethernet asks for it */

static uint8_t stage[STAGE_OCTETS]; /* under the core lock, as all here */

static struct iwarp_lw_endpoint *endpoint_of(struct iwarp_endpoint *ep)
{
    return (struct iwarp_lw_endpoint *)(void *)ep;
}

/* --- readiness ------------------------------------------------------------------------------- */

static void lw_poll(struct iwarp_endpoint *ep)
{
    struct iwarp_lw_endpoint *e = endpoint_of(ep);

    LOCK_TCPIP_CORE();
    bool readable = iwarp_lw_is_readable(e), writable = iwarp_lw_is_writable(e),
         due = iwarp_lw_release_due(e);
    UNLOCK_TCPIP_CORE();
    if (readable || writable || due) {
        ep->ready(ep->user, readable, writable);
    }
}

static void run(struct iwarp_lw_note *note)
{
    lw_poll(&((struct iwarp_lw_endpoint *)(void *)((char *)note -
                                                   offsetof(struct iwarp_lw_endpoint, note)))
                 ->ep);
}

static void lw_watch(struct iwarp_endpoint *ep, bool read, bool write)
{
    struct iwarp_lw_endpoint *e = endpoint_of(ep);

    LOCK_TCPIP_CORE();
    e->away = e->away && read && !write;
    e->want_read = read;
    e->want_write = write;
    e->end_octets = 0;
    iwarp_lw_note_if_ready(e); /* level-triggered: it may have been ready before */
    UNLOCK_TCPIP_CORE();
}

static void await_end(struct iwarp_lw_endpoint *e, size_t octets, bool write)
{
    LOCK_TCPIP_CORE();
    e->away = false;
    e->want_read = false;
    e->want_write = write;
    e->end_octets = octets;
    iwarp_lw_note_if_ready(e);
    UNLOCK_TCPIP_CORE();
}

void iwarp_lw_watch_end(struct iwarp_endpoint *ep)
{
    await_end(endpoint_of(ep), IWARP_UNREAD_MAX, false);
}

void iwarp_lw_await_end(struct iwarp_endpoint *ep, bool write)
{
    await_end(endpoint_of(ep), SIZE_MAX, write);
}

/* A read looks at the link itself: what is gained is that the loop has fewer turns (loop/hot.h). */
void iwarp_lw_go_away(struct iwarp_endpoint *ep)
{
    struct iwarp_lw_endpoint *e = endpoint_of(ep);

    LOCK_TCPIP_CORE();
    e->away = e->want_read && !e->want_write;
    UNLOCK_TCPIP_CORE();
}

void iwarp_lw_come_back(struct iwarp_endpoint *ep)
{
    struct iwarp_lw_endpoint *e = endpoint_of(ep);

    LOCK_TCPIP_CORE();
    e->away = false;
    iwarp_lw_note_if_ready(e);
    UNLOCK_TCPIP_CORE();
}

/* Changed by its worker alone, who asks. */
bool iwarp_lw_is_away(const struct iwarp_endpoint *ep)
{
    return ((const struct iwarp_lw_endpoint *)(const void *)ep)->away;
}

bool iwarp_lw_ending(struct iwarp_endpoint *ep, int *error)
{
    struct iwarp_lw_endpoint *e = endpoint_of(ep);

    LOCK_TCPIP_CORE();
    bool ending = iwarp_lw_has_end(e);
    *error = e->error;
    UNLOCK_TCPIP_CORE();
    return ending;
}

bool iwarp_lw_unread(struct iwarp_endpoint *ep, int *octets)
{
    struct iwarp_lw_endpoint *e = endpoint_of(ep);

    LOCK_TCPIP_CORE();
    *octets = (int)e->octets;
    bool unread = !iwarp_lw_has_end(e) && e->octets > 0;
    UNLOCK_TCPIP_CORE();
    return unread;
}

/* --- what lwIP calls ------------------------------------------------------------------------- */

/* From here on lwIP has the connection alone, and calls nobody. */
static struct tcp_pcb *detach(struct iwarp_lw_endpoint *e)
{
    struct tcp_pcb *pcb = e->pcb;

    e->pcb = NULL;
    if (pcb) {
        tcp_arg(pcb, NULL);
        tcp_recv(pcb, NULL);
        tcp_sent(pcb, NULL);
        tcp_err(pcb, NULL);
        tcp_poll(pcb, NULL, 0);
    }
    return pcb;
}

static void append(struct iwarp_lw_endpoint *e, struct pbuf *p)
{
    p->next = NULL;
    p->tot_len = p->len;
    if (e->last) {
        e->last->next = p;
    } else {
        e->first = p;
    }
    e->last = p;
    e->spare = 0;
}

/*
 * A segment of an octet costs a packet buffer of a hundred. So small ones that come while others
 * wait to be read are gathered: copied behind the octets of the last buffer, where that has room.
 * What is lent of it stays where it is. False: it was not.
 */
static bool gather(struct iwarp_lw_endpoint *e, const struct pbuf *p)
{
    if (!e->last || p->len > SMALL) {
        return false;
    }
    if (e->spare < p->len) {
        struct pbuf *room = pbuf_alloc(PBUF_RAW, GATHER_OCTETS, PBUF_RAM);
        if (!room) {
            return false;
        }
        room->len = 0;
        append(e, room);
        e->spare = GATHER_OCTETS;
    }
    memcpy((uint8_t *)e->last->payload + e->last->len, p->payload, p->len);
    e->last->len = (u16_t)(e->last->len + p->len);
    e->spare -= p->len;
    return true;
}

/* A chain is taken apart: tot_len of a longer one would not hold what a large window brings. */
static void queue(struct iwarp_lw_endpoint *e, struct pbuf *p)
{
    while (p) {
        struct pbuf *next = p->next;
        e->octets += p->len;
        p->next = NULL;
        if (gather(e, p)) {
            pbuf_free(p);
        } else {
            append(e, p);
        }
        p = next;
    }
}

/*
 * Both ends have said FIN: lwIP goes on alone with what is not acknowledged, so that is copied, and
 * so released. Where it cannot be, the connection is lost.
 */
static err_t leave(struct iwarp_lw_endpoint *e)
{
    e->gone = e->gone || (iwarp_lw_is_referring(e) && !iwarp_lw_own(e));
    struct tcp_pcb *pcb = detach(e);
    if (e->gone) {
        tcp_abort(pcb);
        return ERR_ABRT;
    }
    e->ref_to = 0;
    return ERR_OK;
}

/* NULL is the peer's FIN.  In every other state than CLOSE_WAIT it is the second of two. */
static err_t on_received(void *arg, struct tcp_pcb *pcb, struct pbuf *p, err_t err)
{
    struct iwarp_lw_endpoint *e = arg;
    bool second = !p && pcb->state != CLOSE_WAIT;

    (void)err;
    if (p) {
        queue(e, p);
    }
    e->fin = e->fin || !p;
    err_t rc = second ? leave(e) : ERR_OK;
    iwarp_lw_note_if_ready(e);
    return rc;
}

/*
 * lwIP has no least time-out: with finer timers an acknowledgement that a peer delays would be
 * late. The time-out is computed from `sv`, again with each retransmission.
 */
static void settle(struct tcp_pcb *pcb)
{
    if (pcb->sv < LEAST_RTO) {
        pcb->sv = LEAST_RTO;
    }
    if (pcb->rto < LEAST_RTO) {
        pcb->rto = LEAST_RTO;
    }
}

static err_t on_sent(void *arg, struct tcp_pcb *pcb, u16_t octets)
{
    struct iwarp_lw_endpoint *e = arg;

    e->sent_acked += octets;
    settle(pcb);
    iwarp_lw_note_if_ready(e);
    return ERR_OK;
}

/*
 * Each segment costs packet buffers, whatever it carries. For a peer that asks for tiny ones, by
 * its MSS or by its window, they would be used up before one FPDU is written.
 */
static void enlarge_segments(struct tcp_pcb *pcb)
{
    if (pcb->mss < LEAST_MSS) {
        pcb->mss = LEAST_MSS;
    }
    if (pcb->cwnd < pcb->mss) {
        pcb->cwnd = pcb->mss;
    }
    if (pcb->snd_wnd_max < 2 * LEAST_MSS) { /* half of it is the most for a segment */
        pcb->snd_wnd_max = 2 * LEAST_MSS;
    }
}

static err_t on_connected(void *arg, struct tcp_pcb *pcb, err_t err)
{
    struct iwarp_lw_endpoint *e = arg;

    (void)err;
    enlarge_segments(pcb);
    e->connected = true;
    iwarp_lw_note_if_ready(e);
    return ERR_OK;
}

/* lwIP has freed the connection.  CLSD: in order, since the peer has acknowledged the last FIN. */
static void on_lost(void *arg, err_t err)
{
    struct iwarp_lw_endpoint *e = arg;

    e->pcb = NULL;
    if (e->netif->down) {
        e->error = ENETDOWN;
    } else if (err == ERR_RST && !e->connected) {
        e->error = ECONNREFUSED;
    } else if (err != ERR_CLSD) {
        e->error = iwarp_lw_errno(err);
    }
    iwarp_lw_note_if_ready(e);
}

/*
 * Every TICK_MS.  lwIP has no user timeout: the connection is lost once the peer has acknowledged
 * nothing for so long while octets wait.  It is also the second chance of a writer that was turned
 * away for want of memory, with nothing in flight whose acknowledgement could wake it up.
 */
static err_t on_tick(void *arg, struct tcp_pcb *pcb)
{
    struct iwarp_lw_endpoint *e = arg;
    bool waits = pcb->unsent || pcb->unacked;

    if (!waits || pcb->lastack != e->acked) {
        e->silent_ms = 0;
        e->acked = pcb->lastack;
    } else {
        e->silent_ms += TICK_MS;
    }
    if (e->user_timeout_ms && e->silent_ms >= e->user_timeout_ms) {
        tcp_abort(pcb); /* calls on_lost */
        return ERR_ABRT;
    }
    if (e->silent_ms > 0) {
        iwarp_lw_ask(e, e->silent_ms);
    }
    iwarp_lw_note_if_ready(e);
    return ERR_OK;
}

/* NULL: lwIP has it alone. */
static struct iwarp_lw_endpoint *endpoint_at(const struct tcp_pcb *pcb)
{
    return pcb && pcb->recv == on_received ? pcb->callback_arg : NULL;
}

/* lwIP puts the connection whose segment has come in front of the others. */
static void on_frame(void)
{
    struct iwarp_lw_endpoint *e = endpoint_at(tcp_active_pcbs);

    if (tcp_active_pcbs) {
        iwarp_lw_trim(tcp_active_pcbs);
    }
    if (e) {
        iwarp_lw_recover(e);
    }
}

/* --- octets ---------------------------------------------------------------------------------- */

/* Into one piece of memory.  -1: that is not there. */
static ssize_t take(struct iwarp_lw_endpoint *e, uint8_t *to, size_t room)
{
    size_t total = 0;

    while (e->first && total < room) {
        struct pbuf *p = e->first;
        size_t left = p->len - e->taken, n = left < room - total ? left : room - total;
        if (iwarp_guard_copy_to(to + total, (const uint8_t *)p->payload + e->taken, n) != 0) {
            break;
        }
        total += n;
        iwarp_lw_consume(e, n);
    }
    return e->first && total < room && total == 0 ? -1 : (ssize_t)total;
}

static ssize_t take_all(struct iwarp_lw_endpoint *e, const struct iovec *iov, int n)
{
    ssize_t total = 0;

    for (int i = 0; i < n && e->first; i++) {
        ssize_t got = take(e, iov[i].iov_base, iov[i].iov_len);
        if (got < 0) {
            return total > 0 ? total : -EFAULT;
        }
        total += got;
        if ((size_t)got < iov[i].iov_len) {
            break;
        }
    }
    return total;
}

/* Octets that came before a reset or FIN are read first, as with a socket. */
static ssize_t lw_readv(struct iwarp_endpoint *ep, const struct iovec *iov, int n)
{
    struct iwarp_lw_endpoint *e = endpoint_of(ep);
    ssize_t got;

    LOCK_TCPIP_CORE();
    if (e->octets == 0 && !iwarp_lw_has_end(e)) {
        iwarp_lw_seat_look(e->note.seat, &e->note);
    }
    if (e->octets > 0) {
        got = take_all(e, iov, n);
        if (got > 0) {
            iwarp_lw_recved(e, (size_t)got);
        }
    } else if (e->error) {
        got = -e->error;
    } else {
        got = e->fin ? 0 : -EAGAIN;
    }
    if (e->octets > 0 || iwarp_lw_has_end(e)) {
        iwarp_lw_note_if_ready(e);
    }
    UNLOCK_TCPIP_CORE();
    return got;
}

/*
 * One piece.  By way of `stage`, since lwIP would copy from memory that may be gone without a
 * guard.  Returns how much was taken; -EFAULT: such memory.
 */
static ssize_t put(struct iwarp_lw_endpoint *e, const uint8_t *from, size_t octets)
{
    struct tcp_pcb *pcb = e->pcb;
    size_t total = 0, most = iwarp_lw_write_most(pcb);

    most = most < STAGE_OCTETS ? most : STAGE_OCTETS;
    while (total < octets) {
        size_t room = pcb->snd_buf, n = octets - total;
        n = n < room ? n : room;
        n = n < most ? n : most;
        if (n == 0) {
            break;
        }
        if (iwarp_guard_copy_from(stage, from + total, n) != 0) {
            return total > 0 ? (ssize_t)total : -EFAULT;
        }
        if (tcp_write(pcb, stage, (u16_t)n, TCP_WRITE_FLAG_COPY) != ERR_OK) {
            break; /* out of memory, or of packet buffers for this connection */
        }
        total += n;
        e->written = e->reported += n; /* loans begin behind it */
    }
    return (ssize_t)total;
}

static ssize_t put_all(struct iwarp_lw_endpoint *e, const struct iovec *iov, int n)
{
    ssize_t total = 0;

    for (int i = 0; i < n; i++) {
        ssize_t taken = put(e, iov[i].iov_base, iov[i].iov_len);
        if (taken < 0) {
            return total > 0 ? total : taken;
        }
        total += taken;
        if ((size_t)taken < iov[i].iov_len) {
            break;
        }
    }
    return total > 0 ? total : -EAGAIN;
}

/* One tcp_output for all of it. */
static ssize_t lw_writev(struct iwarp_endpoint *ep, const struct iovec *iov, int n)
{
    struct iwarp_lw_endpoint *e = endpoint_of(ep);
    ssize_t sent;

    LOCK_TCPIP_CORE();
    if (!e->pcb) {
        sent = e->error ? -e->error : -EPIPE;
    } else if (!e->connected) {
        sent = -EAGAIN;
    } else {
        sent = put_all(e, iov, n);
        tcp_output(e->pcb); /* its errors are repaired later: by the link, or lwIP's timers */
    }
    UNLOCK_TCPIP_CORE();
    return sent;
}

/* If there is no memory for the FIN, lwIP tries again by itself. */
static void lw_shutdown_write(struct iwarp_endpoint *ep)
{
    struct iwarp_lw_endpoint *e = endpoint_of(ep);

    LOCK_TCPIP_CORE();
    if (e->pcb) {
        tcp_shutdown(e->pcb, 0, 1);
    }
    UNLOCK_TCPIP_CORE();
}

static uint32_t lw_emss(struct iwarp_endpoint *ep)
{
    struct iwarp_lw_endpoint *e = endpoint_of(ep);

    LOCK_TCPIP_CORE();
    uint32_t mss = e->pcb ? iwarp_lw_emss(e->pcb) : TCP_MSS;
    UNLOCK_TCPIP_CORE();
    return mss;
}

/* --- its life -------------------------------------------------------------------------------- */

void iwarp_lw_endpoint_drop(struct iwarp_lw_endpoint *e, bool reset)
{
    bool own = !e->pcb || reset || !iwarp_lw_is_referring(e) || iwarp_lw_own(e);
    struct tcp_pcb *pcb = detach(e);

    iwarp_lw_unnote(&e->note);
    if (pcb && (reset || !own || tcp_close(pcb) != ERR_OK)) {
        tcp_abort(pcb);
    }
    while (e->first) {
        struct pbuf *p = e->first;
        e->first = p->next;
        p->next = NULL;
        pbuf_free(p);
    }
    free(e);
}

static void lw_close(struct iwarp_endpoint *ep, bool reset)
{
    struct iwarp_lw_endpoint *e = endpoint_of(ep);
    struct iwarp_lw_seat *seat = e->note.seat;
    void (*closed)(void *user) = ep->closed;
    void *user = ep->user;

    LOCK_TCPIP_CORE();
    iwarp_lw_endpoint_drop(e, reset);
    UNLOCK_TCPIP_CORE();
    iwarp_lw_seat_use(seat, -1);
    closed(user);
}

static const struct iwarp_transport lw_transport = {
    "lwip", lw_readv, lw_writev, lw_watch, lw_shutdown_write, lw_close, lw_emss, lw_poll};

/* Does it refer to this octet? */
static bool refers(const struct tcp_seg *seg, const void *octet)
{
    for (; seg; seg = seg->next) {
        for (const struct pbuf *p = seg->p; p; p = p->next) {
            if ((uintptr_t)octet - (uintptr_t)p->payload < p->len) {
                return true;
            }
        }
    }
    return false;
}

/* Memory was to be sent, perhaps once more, and is gone: so is the connection that refers to it. */
static void on_missing(const void *octet)
{
    struct tcp_pcb *pcb = tcp_active_pcbs;

    while (pcb && !refers(pcb->unsent, octet) && !refers(pcb->unacked, octet)) {
        pcb = pcb->next;
    }
    struct iwarp_lw_endpoint *e = endpoint_at(pcb);
    if (e) {
        e->gone = true;
        iwarp_lw_note_if_ready(e);
    }
}

struct iwarp_lw_endpoint *iwarp_lw_endpoint_new(struct iwarp_lw_netif *n, struct tcp_pcb *pcb)
{
    struct iwarp_lw_endpoint *e = calloc(1, sizeof *e);

    if (e) {
        e->ep.ops = &lw_transport;
        e->ep.loans = &iwarp_lw_loans;
        e->note.run = run;
        e->netif = n;
        iwarp_lw_on_missing = on_missing;
        iwarp_lw_on_frame = on_frame;
        e->pcb = pcb;
        e->connected = pcb->state == ESTABLISHED;
        if (e->connected) {
            enlarge_segments(pcb);
        }
        e->acked = e->loss.acked = pcb->lastack;
        tcp_bind_netif(pcb, &n->netif);
        tcp_nagle_disable(pcb); /* an MPA frame is one write */
        pcb->rto = pcb->sv = FIRST_RTO;
        tcp_arg(pcb, e);
        tcp_recv(pcb, on_received);
        tcp_sent(pcb, on_sent);
        tcp_err(pcb, on_lost);
        tcp_poll(pcb, on_tick, TICKS);
    }
    return e;
}

void iwarp_lw_endpoint_seat(struct iwarp_lw_endpoint *e, struct iwarp_lw_seat *seat)
{
    LOCK_TCPIP_CORE();
    e->note.seat = seat;
    UNLOCK_TCPIP_CORE();
    iwarp_lw_seat_use(seat, 1);
}

/* --- connecting ------------------------------------------------------------------------------ */

/* Of those from PORT_FIRST on, which connections or listeners at this address have; by bits. */
static void find_taken(const ip_addr_t *at, uint8_t taken[PORTS / 8])
{
    memset(taken, 0, PORTS / 8);
    for (unsigned i = 0; i < NUM_TCP_PCB_LISTS; i++) {
        for (const struct tcp_pcb *pcb = *tcp_pcb_lists[i]; pcb; pcb = pcb->next) {
            if (pcb->local_port >= PORT_FIRST &&
                (ip_addr_isany(&pcb->local_ip) || ip_addr_cmp(&pcb->local_ip, at))) {
                unsigned port = pcb->local_port - PORT_FIRST;
                taken[port / 8] |= (uint8_t)(1u << port % 8);
            }
        }
    }
}

/*
 * One after the other, so that a port comes back late: the peer may remember it in TIME_WAIT, and
 * lwIP as a peer answers no SYN then.  From a random one: lwIP's own choice comes from rand(),
 * which begins alike in every process.
 */
static err_t bind_any_port(struct tcp_pcb *pcb, const ip_addr_t *from)
{
    static uint16_t next;
    static uint8_t taken[PORTS / 8];

    if (next == 0 && getrandom(&next, sizeof next, 0) != sizeof next) {
        return ERR_IF;
    }
    find_taken(from, taken);
    for (unsigned i = 0; i < PORTS; i++) {
        next = PORT_FIRST | (uint16_t)(next + 1);
        unsigned port = next - PORT_FIRST;
        if (!(taken[port / 8] & 1u << port % 8)) {
            return tcp_bind(pcb, from, next);
        }
    }
    return ERR_USE;
}

static int begin(struct iwarp_lw_netif *n, struct tcp_pcb *pcb, const struct iwarp_way *way,
                 struct iwarp_lw_endpoint **e)
{
    ip_addr_t to, from;
    u16_t to_port, from_port = 0;

    if (!iwarp_lw_from_sockaddr(n, way->addr, way->addr_len, &to, &to_port)) {
        return -EAFNOSUPPORT;
    }
    if (!iwarp_lw_source(n, &to, &from)) {
        return -ENETUNREACH;
    }
    if (way->source_len > 0) {
        ip_addr_t wish;
        if (!iwarp_lw_from_sockaddr(n, way->source, way->source_len, &wish, &from_port) ||
            (!ip_addr_isany(&wish) && !ip_addr_cmp(&wish, &from))) {
            return -EADDRNOTAVAIL;
        }
    }
    if (from_port) { /* connections to other peers may have the same one */
        ip_set_option(pcb, SOF_REUSEADDR);
    }
    err_t err = from_port ? tcp_bind(pcb, &from, from_port) : bind_any_port(pcb, &from);
    if (err != ERR_OK) {
        return -iwarp_lw_errno(err);
    }
    *e = iwarp_lw_endpoint_new(n, pcb);
    if (!*e) {
        return -ENOMEM;
    }
    err = tcp_connect(pcb, &to, to_port, on_connected);
    return -iwarp_lw_errno(err);
}

static int connect_locked(struct iwarp_lw_netif *n, const struct iwarp_way *way,
                          struct iwarp_lw_endpoint **e)
{
    struct tcp_pcb *pcb = n->down ? NULL : tcp_new_ip_type(IPADDR_TYPE_ANY);

    if (!pcb) {
        return n->down ? -ENETDOWN : -ENOMEM;
    }
    if (way->traffic_class >= 0) {
        pcb->tos = (u8_t)(way->traffic_class & 0xfc); /* ECN is TCP's own, and lwIP has none */
    }
    *e = NULL;
    iwarp_lw_forget_oldest();
    int rc = begin(n, pcb, way, e);
    if (rc < 0 && *e) {
        iwarp_lw_endpoint_drop(*e, true);
    } else if (rc < 0) {
        tcp_abort(pcb);
    }
    return rc;
}

int iwarp_lw_connect(struct iwarp_seat *base, const struct iwarp_way *way,
                     struct iwarp_endpoint **ep)
{
    struct iwarp_lw_seat *seat = (struct iwarp_lw_seat *)(void *)base;
    struct iwarp_lw_endpoint *e;

    LOCK_TCPIP_CORE();
    int rc = connect_locked(seat->netif, way, &e);
    UNLOCK_TCPIP_CORE();
    if (rc == 0) {
        iwarp_lw_endpoint_seat(e, seat);
        *ep = &e->ep;
    }
    return rc;
}

/* --- what the stack's table has of it -------------------------------------------------------- */

int iwarp_lw_error(struct iwarp_endpoint *ep)
{
    LOCK_TCPIP_CORE();
    int error = endpoint_of(ep)->error;
    UNLOCK_TCPIP_CORE();
    return error;
}

void iwarp_lw_patience(struct iwarp_endpoint *ep, unsigned user_timeout_ms, unsigned keepalive_s)
{
    struct iwarp_lw_endpoint *e = endpoint_of(ep);

    LOCK_TCPIP_CORE();
    e->user_timeout_ms = user_timeout_ms;
    if (e->pcb && keepalive_s > 0) {
        ip_set_option(e->pcb, SOF_KEEPALIVE);
        e->pcb->keep_idle = keepalive_s * 1000;
        e->pcb->keep_intvl = keepalive_s * 1000 / PROBES;
        e->pcb->keep_cnt = PROBES;
    } else if (e->pcb) {
        ip_reset_option(e->pcb, SOF_KEEPALIVE);
    }
    UNLOCK_TCPIP_CORE();
}

bool iwarp_lw_taken(struct iwarp_endpoint *ep, uint64_t *octets)
{
    LOCK_TCPIP_CORE();
    *octets = endpoint_of(ep)->sent_acked;
    UNLOCK_TCPIP_CORE();
    return true;
}

void iwarp_lw_local_addr(struct iwarp_endpoint *ep, struct sockaddr_storage *addr,
                         socklen_t *addr_len)
{
    struct iwarp_lw_endpoint *e = endpoint_of(ep);

    *addr_len = 0;
    LOCK_TCPIP_CORE();
    if (e->pcb) {
        iwarp_lw_to_sockaddr(&e->pcb->local_ip, e->pcb->local_port, addr, addr_len);
    }
    UNLOCK_TCPIP_CORE();
}

void iwarp_lw_peer_addr(struct iwarp_endpoint *ep, struct sockaddr_storage *addr,
                        socklen_t *addr_len)
{
    struct iwarp_lw_endpoint *e = endpoint_of(ep);

    *addr_len = 0;
    LOCK_TCPIP_CORE();
    if (e->pcb) {
        iwarp_lw_to_sockaddr(&e->pcb->remote_ip, e->pcb->remote_port, addr, addr_len);
    }
    UNLOCK_TCPIP_CORE();
}
