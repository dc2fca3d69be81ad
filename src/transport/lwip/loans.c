/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Octets of a connection that are lent and referred to (struct iwarp_loans; docs/transport.md).
 *
 * Received: lwIP's packet buffers themselves. Nobody changes one until it is given back, so the
 * stream works on them without the core lock.
 *
 * Sent: FPDUs in segments. Each call of tcp_write adds to the last unsent segment as far as that
 * has room, so a group of FPDUs that fit into one segment is written piece by piece, and the first
 * piece of the next group is kept from joining them (begin_segment). With lwIP's own sources
 * payload is referred to; the distribution's tcp_write copies whatever it is told.
 */
#include "base/guard.h"
#include "transport/lwip/core.h"
#ifdef IWARP_OWN_LWIP
#include "transport/lwip/own/touch.h"
#endif

#include <errno.h>
#include <lwip/priv/tcp_priv.h>
#include <string.h>

#define STAGE_OCTETS 32768
#define REFER_LEAST  256 /* pieces below this are copied */
#define QUEUE_SPARE  64  /* packet buffers that one FPDU may need */
#define SEGMENTS     32  /* of one call of tcp_write */

static uint8_t stage[STAGE_OCTETS]; /* under the core lock */

static struct iwarp_lw_endpoint *endpoint_of(struct iwarp_endpoint *ep)
{
    return (struct iwarp_lw_endpoint *)(void *)ep;
}

/* --- received -------------------------------------------------------------------------------- */

/* What is lent now, from the first octet that was not given back. */
static size_t list(const struct iwarp_lw_endpoint *e, struct iovec *iov, unsigned *n)
{
    size_t total = 0, skip = e->taken;
    unsigned k = 0;

    for (const struct pbuf *p = e->first; p && k < *n; p = p->next, k++) {
        iov[k] = (struct iovec){(uint8_t *)p->payload + skip, p->len - skip};
        total += p->len - skip;
        skip = 0;
    }
    *n = k;
    return total;
}

static ssize_t lw_borrow(struct iwarp_endpoint *ep, struct iovec *iov, unsigned *n)
{
    struct iwarp_lw_endpoint *e = endpoint_of(ep);
    ssize_t got;

    LOCK_TCPIP_CORE();
    if (e->octets <= e->held && !iwarp_lw_has_end(e)) {
        iwarp_lw_seat_look(e->note.seat, &e->note);
    }
    size_t total = list(e, iov, n);
    if (e->gone) {
        got = -EFAULT;
    } else if (total > e->held) {
        got = (ssize_t)(total - e->held);
    } else if (e->error) {
        got = -e->error;
    } else {
        got = e->fin ? 0 : -EAGAIN;
    }
    UNLOCK_TCPIP_CORE();
    return got;
}

static void lw_give_back(struct iwarp_endpoint *ep, size_t octets, size_t held)
{
    struct iwarp_lw_endpoint *e = endpoint_of(ep);
    size_t left = octets;

    LOCK_TCPIP_CORE();
    while (left > 0) {
        size_t there = e->first->len - e->taken, n = left < there ? left : there;
        iwarp_lw_consume(e, n);
        left -= n;
    }
    e->held = held;
    iwarp_lw_recved(e, octets);
    iwarp_lw_note_if_ready(e);
    UNLOCK_TCPIP_CORE();
}

/* --- sent: segments -------------------------------------------------------------------------- */

/* As tcp_write has it: no more than half of the largest window that the peer has had. */
static uint16_t segment_octets(const struct tcp_pcb *pcb)
{
    tcpwnd_size_t half = pcb->snd_wnd_max / 2;

    return half > 0 && half < pcb->mss ? (uint16_t)half : pcb->mss;
}

/* Octets of options in each segment. */
static uint16_t option_octets(const struct tcp_pcb *pcb)
{
#if LWIP_TCP_TIMESTAMPS
    return pcb->flags & TF_TIMESTAMP ? LWIP_TCP_OPT_LEN_TS : 0;
#else
    (void)pcb;
    return 0;
#endif
}

uint32_t iwarp_lw_emss(const struct tcp_pcb *pcb)
{
    return (uint32_t)segment_octets(pcb) - option_octets(pcb);
}

size_t iwarp_lw_write_most(const struct tcp_pcb *pcb)
{
    return (size_t)SEGMENTS * iwarp_lw_emss(pcb);
}

static struct tcp_seg *last_of(struct tcp_seg *seg)
{
    while (seg && seg->next) {
        seg = seg->next;
    }
    return seg;
}

/* Octets that would join the last unsent segment. */
static size_t room_in_segment(const struct tcp_pcb *pcb, const struct tcp_seg *seg)
{
    uint32_t most = iwarp_lw_emss(pcb);

    return seg && seg->len > 0 && seg->len < most ? most - seg->len : 0;
}

/*
 * tcp_write walks the unsent segments to the last one, to which it adds if it can: it sees that one
 * alone.  For a new segment it sees none of them; it insists that the count of buffers agrees with
 * what it sees.
 */
static err_t join_segment(struct tcp_pcb *pcb, struct tcp_seg *last, const void *p, uint16_t n,
                          uint8_t flags)
{
    struct tcp_seg *unsent = pcb->unsent;

    pcb->unsent = last;
    err_t err = tcp_write(pcb, p, n, flags);
    pcb->unsent = unsent;
    return err;
}

static err_t begin_segment(struct tcp_pcb *pcb, struct tcp_seg *last, const void *p, uint16_t n,
                           uint8_t flags)
{
    struct tcp_seg *unsent = pcb->unsent;
    uint16_t oversize = pcb->unsent_oversize, buffers = pcb->unacked ? 0 : pcb->snd_queuelen;

    pcb->unsent = NULL;
    pcb->unsent_oversize = 0;
    pcb->snd_queuelen = (uint16_t)(pcb->snd_queuelen - buffers);
    err_t err = tcp_write(pcb, p, n, flags);
    last->next = pcb->unsent;
    pcb->unsent = unsent;
    pcb->snd_queuelen = (uint16_t)(pcb->snd_queuelen + buffers);
    if (err != ERR_OK) {
        pcb->unsent_oversize = oversize;
    }
    return err;
}

/* --- sent: octets ---------------------------------------------------------------------------- */

/* A burst on its way. */
struct sending {
    struct iwarp_lw_endpoint *e;
    const struct iwarp_burst *burst;
    struct tcp_seg *last;    /* of those that lwIP has not sent; NULL: there is none */
    const struct iovec *iov; /* the next octet: at `off` of this piece */
    size_t off;
    size_t staged; /* octets in `stage` that are not written yet */
    bool begin;    /* what is written next begins a segment */
    bool failed;   /* lwIP has no memory */
    bool gone;     /* memory of the application is not there */
    size_t taken;
};

static bool write_piece(struct sending *s, const void *p, size_t n, uint8_t flags)
{
    struct tcp_pcb *pcb = s->e->pcb;
    err_t err = !s->last   ? tcp_write(pcb, p, (uint16_t)n, flags)
                : s->begin ? begin_segment(pcb, s->last, p, (uint16_t)n, flags)
                           : join_segment(pcb, s->last, p, (uint16_t)n, flags);

    s->last = last_of(s->last ? s->last : pcb->unsent);
    s->begin = false;
    s->failed = err != ERR_OK;
    if (!s->failed) {
        s->taken += n;
        s->e->written += n;
    }
    return !s->failed;
}

static bool flush_stage(struct sending *s)
{
    size_t n = s->staged;

    s->staged = 0;
    return n == 0 || write_piece(s, stage, n, TCP_WRITE_FLAG_COPY);
}

static bool copy_piece(struct sending *s, const uint8_t *p, size_t n)
{
    if (iwarp_guard_copy_from(stage + s->staged, p, n) != 0) {
        s->gone = true;
        return false;
    }
    s->staged += n;
    return true;
}

#ifdef IWARP_OWN_LWIP
/* The checksum, which tcp_write computes, is the one that every transmission has. */
static bool refer_piece(struct sending *s, const uint8_t *p, size_t n)
{
    struct iwarp_lw_endpoint *e = s->e;

    if (!flush_stage(s)) {
        return false;
    }
    uint64_t at = e->written;
    (void)iwarp_lw_missed();
    bool good = write_piece(s, p, n, 0);
    s->gone = iwarp_lw_missed();
    if (good) {
        e->ref_from = iwarp_lw_is_referring(e) ? e->ref_from : at;
        e->ref_to = e->written;
    }
    return good && !s->gone;
}

static bool stays(const struct iwarp_burst *b, const uint8_t *p, size_t n)
{
    return n >= REFER_LEAST && (uintptr_t)p - (uintptr_t)b->passing.iov_base >= b->passing.iov_len;
}
#endif

static bool send_piece(struct sending *s, const uint8_t *p, size_t n)
{
#ifdef IWARP_OWN_LWIP
    if (stays(s->burst, p, n)) {
        return refer_piece(s, p, n);
    }
#endif
    return copy_piece(s, p, n);
}

/* The next n octets: FPDUs that share a segment, or one that needs several. False: no further. */
static bool send_group(struct sending *s, size_t n)
{
    size_t most = iwarp_lw_write_most(s->e->pcb);

    most = most < UINT16_MAX / 2 ? most : UINT16_MAX / 2; /* tcp_write counts with 16 bits */
    while (n > 0) {
        const struct iovec *v = s->iov;
        size_t k = v->iov_len - s->off;
        k = k < n ? k : n;
        k = k < most - s->staged ? k : most - s->staged;
        if (!send_piece(s, (const uint8_t *)v->iov_base + s->off, k) ||
            (s->staged == most && !flush_stage(s))) {
            return false;
        }
        n -= k;
        s->off += k;
        if (s->off == v->iov_len) {
            s->iov++;
            s->off = 0;
        }
    }
    return flush_stage(s);
}

/* Is there room for n octets more?  What does not fit into a segment may be cut anywhere. */
static size_t room_for(const struct tcp_pcb *pcb, size_t n)
{
    size_t room = pcb->snd_buf;

    if (!iwarp_lw_has_room(pcb) || pcb->snd_queuelen + QUEUE_SPARE > TCP_SND_QUEUELEN) {
        return 0;
    }
    return n <= room ? n : n <= iwarp_lw_emss(pcb) ? 0 : room;
}

/*
 * FPDUs that fit into what is left of a segment go into it; then one begins the next.  What is left
 * of an FPDU that was cut goes on where it was.
 */
static void send_fpdus(struct sending *s)
{
    const struct iwarp_burst *b = s->burst;
    struct tcp_pcb *pcb = s->e->pcb;
    unsigned i = 0;

    while (i < b->fpdu_count) {
        size_t in_segment = room_in_segment(pcb, s->last), most = iwarp_lw_emss(pcb);
        bool rest = i == 0 && b->rest;
        size_t want = b->fpdus[i++];
        s->begin = !rest && want > in_segment;
        size_t space = s->begin ? most : in_segment;
        while (i < b->fpdu_count && !rest && want + b->fpdus[i] <= space) {
            want += b->fpdus[i++];
        }
        size_t n = room_for(pcb, want);
        if (n == 0 || !send_group(s, n) || n < want) {
            return;
        }
    }
}

static ssize_t lw_refer(struct iwarp_endpoint *ep, const struct iwarp_burst *burst)
{
    struct iwarp_lw_endpoint *e = endpoint_of(ep);
    struct sending s = {.e = e, .burst = burst, .iov = burst->iov};
    ssize_t sent;

    LOCK_TCPIP_CORE();
    if (!e->pcb || e->gone) {
        sent = e->gone ? -EFAULT : e->error ? -e->error : -EPIPE;
    } else {
        s.last = last_of(e->pcb->unsent);
        send_fpdus(&s);
        iwarp_lw_batch_begin(e->netif);
        tcp_output(e->pcb); /* its errors are repaired later: by the link, or lwIP's timers */
        iwarp_lw_batch_end(e->netif);
        sent = s.gone ? -EFAULT : s.taken > 0 ? (ssize_t)s.taken : -EAGAIN;
        e->gone = s.gone;
    }
    UNLOCK_TCPIP_CORE();
    return sent;
}

/* --- sent: what is released ------------------------------------------------------------------ */

static size_t lw_released(struct iwarp_endpoint *ep)
{
    struct iwarp_lw_endpoint *e = endpoint_of(ep);

    LOCK_TCPIP_CORE();
    uint64_t to = iwarp_lw_released_to(e);
    size_t n = (size_t)(to - e->reported);
    e->reported = to;
    UNLOCK_TCPIP_CORE();
    return n;
}

#ifdef IWARP_OWN_LWIP
/* Copies in place of what is referred to. False: no memory, or memory that is gone. */
static bool own_segment(struct tcp_seg *seg)
{
    for (struct pbuf **at = &seg->p; *at; at = &(*at)->next) {
        struct pbuf *p = *at;
        if (p->type_internal != (uint8_t)PBUF_ROM) {
            continue;
        }
        struct pbuf *copy = pbuf_alloc(PBUF_RAW, p->len, PBUF_RAM);
        if (!copy || iwarp_guard_copy_from(copy->payload, p->payload, p->len) != 0) {
            if (copy) {
                pbuf_free(copy);
            }
            return false;
        }
        copy->next = p->next;
        copy->tot_len = p->tot_len;
        *at = copy;
        p->next = NULL;
        pbuf_free(p);
    }
    return true;
}

bool iwarp_lw_own(struct iwarp_lw_endpoint *e)
{
    bool good = true;

    for (struct tcp_seg *seg = e->pcb->unacked; seg && good; seg = seg->next) {
        good = own_segment(seg);
    }
    for (struct tcp_seg *seg = e->pcb->unsent; seg && good; seg = seg->next) {
        good = own_segment(seg);
    }
    return good;
}
#else
/* Nothing is ever referred to. */
bool iwarp_lw_own(struct iwarp_lw_endpoint *e)
{
    (void)e;
    return true;
}
#endif

static void lw_forsake(struct iwarp_endpoint *ep)
{
    struct iwarp_lw_endpoint *e = endpoint_of(ep);

    LOCK_TCPIP_CORE();
    if (e->pcb && iwarp_lw_is_referring(e)) {
        tcp_abort(e->pcb); /* calls on_lost */
    }
    e->ref_to = 0;
    e->written = e->reported; /* forsaken is not released: what it was sent for does not succeed */
    UNLOCK_TCPIP_CORE();
}

const struct iwarp_loans iwarp_lw_loans = {sizeof iwarp_lw_loans, lw_borrow, lw_give_back, lw_refer,
                                           lw_released,           lw_forsake};
