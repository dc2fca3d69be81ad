/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Segments that lwIP would not treat as it should, seen before lwIP has them.
 *
 * lwIP believes an MSS wherever it comes, and ends the process when what it has cut already is
 * larger than a later one. Only a SYN may carry that option (RFC 9293 3.7.1), so what else has it
 * is dropped. Nothing gets past this: netif.c drops fragments, and TCP behind further headers.
 *
 * A peer may take a port again while this end still remembers its last connection (TIME_WAIT): a
 * SYN behind all that this end has seen opens a new one (RFC 1122 4.2.2.13).  lwIP would open none
 * for two minutes, so the old connection is forgotten first.
 *
 * A listener has room for so many connections that nobody has taken. lwIP would accept more, and
 * they could only be reset; a SYN that is lost comes again.
 */
#include "transport/lwip/core.h"

#include <lwip/priv/tcp_priv.h>
#include <lwip/prot/ethernet.h>
#include <lwip/prot/ip.h>
#include <string.h>

#define OPTION_END  0
#define OPTION_NONE 1
#define OPTION_MSS  2

struct segment {
    const uint8_t *from, *to; /* addresses, of `len` octets */
    size_t len;
    uint16_t from_port, to_port;
    uint32_t seq;
    uint8_t flags;
    const uint8_t *options;
    size_t options_len; /* of those that have come */
};

static uint32_t big_endian(const uint8_t *p, int octets)
{
    uint32_t value = 0;

    while (octets-- > 0) {
        value = value << 8 | *p++;
    }
    return value;
}

/* False: anything else than TCP. */
static bool read_segment(const uint8_t *frame, size_t octets, struct segment *s)
{
    const uint8_t *ip = frame + IWARP_LW_ETHERNET;
    bool v6 = big_endian(frame + 12, 2) == ETHTYPE_IPV6;
    size_t header = v6 ? 40 : (size_t)(ip[0] & 15) * 4;
    const uint8_t *tcp = ip + header;

    if ((!v6 && big_endian(frame + 12, 2) != ETHTYPE_IP) ||
        octets < IWARP_LW_ETHERNET + header + TCP_HLEN || ip[v6 ? 6 : 9] != IP_PROTO_TCP) {
        return false;
    }
    size_t tcp_header = (size_t)(tcp[12] >> 4) * 4, there = octets - IWARP_LW_ETHERNET - header;
    s->from = ip + (v6 ? 8 : 12);
    s->to = ip + (v6 ? 24 : 16);
    s->len = v6 ? 16 : 4;
    s->from_port = (uint16_t)big_endian(tcp, 2);
    s->to_port = (uint16_t)big_endian(tcp + 2, 2);
    s->seq = big_endian(tcp + 4, 4);
    s->flags = tcp[13];
    s->options = tcp + TCP_HLEN;
    tcp_header = tcp_header < there ? tcp_header : there;
    s->options_len = tcp_header > TCP_HLEN ? tcp_header - TCP_HLEN : 0;
    return true;
}

static bool has_mss(const struct segment *s)
{
    const uint8_t *o = s->options;
    size_t at = 0;

    while (at < s->options_len && o[at] != OPTION_END && o[at] != OPTION_MSS) {
        size_t len = o[at] == OPTION_NONE ? 1 : at + 1 < s->options_len ? o[at + 1] : 0;
        if (len == 0 || (len == 1 && o[at] != OPTION_NONE)) {
            return false;
        }
        at += len;
    }
    return at < s->options_len && o[at] == OPTION_MSS;
}

static bool is_at(const ip_addr_t *ip, const uint8_t *addr, size_t len)
{
    const void *own =
        IP_IS_V6(ip) ? (const void *)ip_2_ip6(ip)->addr : (const void *)&ip_2_ip4(ip)->addr;

    return (IP_IS_V6(ip) ? 16 : 4) == len && memcmp(own, addr, len) == 0;
}

static bool is_of(const struct tcp_pcb *pcb, const struct segment *s)
{
    return pcb->remote_port == s->from_port && pcb->local_port == s->to_port &&
           is_at(&pcb->remote_ip, s->from, s->len);
}

static void forget(const struct iwarp_lw_netif *n, const struct segment *s)
{
    for (struct tcp_pcb *pcb = tcp_tw_pcbs; pcb; pcb = pcb->next) {
        if (pcb->netif_idx == netif_get_index(&n->netif) && is_of(pcb, s) &&
            TCP_SEQ_GT(s->seq, pcb->rcv_nxt)) {
            tcp_abort(pcb); /* without a word, in this state */
            return;
        }
    }
}

/* Of connections that are being established. */
static unsigned half_open(const struct tcp_pcb_listen *listener)
{
    unsigned count = 0;

    for (const struct tcp_pcb *pcb = tcp_active_pcbs; pcb; pcb = pcb->next) {
        count += pcb->state == SYN_RCVD && pcb->listener == listener;
    }
    return count;
}

/* As lwIP finds it: one at this address, or else at any. NULL: there is none. */
static const struct tcp_pcb_listen *listener_of(const struct iwarp_lw_netif *n,
                                                const struct segment *s)
{
    const struct tcp_pcb_listen *any = NULL;

    for (const struct tcp_pcb_listen *l = tcp_listen_pcbs.listen_pcbs; l; l = l->next) {
        if (l->local_port != s->to_port || l->netif_idx != netif_get_index(&n->netif)) {
            continue;
        }
        if (IP_IS_ANY_TYPE_VAL(l->local_ip)) {
            any = l;
        } else if (is_at(&l->local_ip, s->to, s->len)) {
            return l;
        }
    }
    return any;
}

static bool has_room(const struct tcp_pcb_listen *l)
{
    const struct iwarp_lw_queue *q = l->callback_arg;

    return half_open(l) + q->count < q->most;
}

bool iwarp_lw_admit(const struct iwarp_lw_netif *n, size_t octets)
{
    struct segment s;

    if (octets < IWARP_LW_ETHERNET + 20 || !read_segment(n->frame, octets, &s)) {
        return true;
    }
    if (!(s.flags & TCP_SYN)) {
        return !has_mss(&s);
    }
    if (s.flags & (TCP_ACK | TCP_RST)) {
        return true;
    }
    const struct tcp_pcb_listen *l = listener_of(n, &s);
    if (!l) {
        return true; /* to be refused, which is no reason to walk all connections */
    }
    forget(n, &s);
    if (!has_room(l)) {
        return false;
    }
    iwarp_lw_forget_oldest();
    return true;
}
