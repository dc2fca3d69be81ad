/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An interface of lwIP on a link.  Devices of a process that give the same text share one; `table`
 * has them all.
 *
 * lwIP is initialised once for a process, and its thread, which runs its timers, never ends.  A
 * forked child has neither that thread nor any use for the interfaces, so it cannot have lwIP.
 */
#include "base/fault.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/process.h"
#include "transport/lwip/core.h"

#include <errno.h>
#include <lwip/etharp.h>
#include <lwip/ethip6.h>
#include <lwip/mld6.h>
#include <lwip/priv/tcp_priv.h>
#include <lwip/prot/ethernet.h>
#include <lwip/prot/icmp6.h>
#include <lwip/prot/ip6.h>
#include <netif/ethernet.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define FRAMES     64   /* taken from a link in one go */
#define LINGER_MS  1000 /* what was sent last has so long to arrive when the interface goes */
#define PIECES     128  /* of a frame; one of more is copied: many FPDUs, and a large mtu */
#define ARP_OCTETS 28   /* for IPv4 over Ethernet */

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER; /* outside of the core lock */
static struct iwarp_lw_netif *table;

void (*iwarp_lw_on_missing)(const void *octet);
void (*iwarp_lw_on_frame)(void);

/* --- frames ---------------------------------------------------------------------------------- */

/* Of this interface alone: others may have the same address. */
static void end_connections(struct iwarp_lw_netif *n, int reset)
{
    struct tcp_pcb *pcb = tcp_active_pcbs, *next;

    for (; pcb; pcb = next) {
        next = pcb->next;
        if (pcb->netif_idx == netif_get_index(&n->netif)) {
            tcp_abandon(pcb, reset);
            next = tcp_active_pcbs; /* the list has changed */
        }
    }
}

/* The link has ended: so have all connections over it, since nothing else could tell them. */
static void ended(struct iwarp_lw_netif *n, int error)
{
    if (n->down) {
        return;
    }
    n->down = true;
    iwarp_log(IWARP_LOG_WARN, "lwip", "%s: the link has ended: %s", n->options.text,
              strerror(error));
    netif_set_link_down(&n->netif);
    end_connections(n, 0);
}

/* In one piece: in the place for what is received, since that has been dealt with. */
static int send_copy(struct iwarp_lw_netif *n, const struct pbuf *p)
{
    struct iovec iov = {n->frame, 0};

    for (; p; p = p->next) {
        if (p->len > IWARP_LW_FRAME(n->options.mtu) - iov.iov_len) {
            return -EMSGSIZE;
        }
        if (iwarp_guard_copy_from(n->frame + iov.iov_len, p->payload, p->len) != 0) {
            return -EFAULT;
        }
        iov.iov_len += p->len;
    }
    return n->link->ops->send(n->link, &iov, 1);
}

static int send_frame(struct iwarp_lw_netif *n, const struct pbuf *frame)
{
    struct iovec iov[PIECES];
    const struct pbuf *p = frame;
    int pieces = 0;

    for (; p && pieces < PIECES; p = p->next) {
        iov[pieces++] = (struct iovec){p->payload, p->len};
    }
    return n->down ? -ENETDOWN : p ? send_copy(n, frame) : n->link->ops->send(n->link, iov, pieces);
}

/* Some worker that reads the link watches it for room, too. */
static void ask_for_room(struct iwarp_lw_netif *n)
{
    struct iwarp_lw_seat *s = n->seats;

    n->full = true;
    while (s && !s->reads) {
        s = s->next;
    }
    if (s) {
        uv_async_send(&s->wake);
    }
}

/*
 * An error has lwIP keep a segment that waits, and try again: as soon as the link has room
 * (iwarp_lw_netif_resume).
 */
static err_t output(struct netif *netif, struct pbuf *frame)
{
    struct iwarp_lw_netif *n = netif->state;
    const struct pbuf *p;
    int rc = send_frame(n, frame);

    if (n->batches == 0 && n->link->ops->flush) {
        n->link->ops->flush(n->link);
    }
    if (rc == -EFAULT) {
        for (p = frame; p && iwarp_lw_on_missing; p = p->next) {
            iwarp_lw_on_missing(p->payload);
        }
        return ERR_OK;
    }
    if (rc == -EAGAIN) {
        ask_for_room(n);
        return ERR_MEM;
    }
    return rc == 0 ? ERR_OK : ERR_IF;
}

void iwarp_lw_netif_resume(struct iwarp_lw_netif *n)
{
    n->full = false;
    for (struct tcp_pcb *pcb = tcp_active_pcbs; pcb && !n->full; pcb = pcb->next) {
        if (pcb->netif_idx == netif_get_index(&n->netif)) {
            tcp_output(pcb);
        }
    }
}

static bool is_own4(const struct iwarp_lw_netif *n, const uint8_t *packet)
{
    uint32_t to;

    memcpy(&to, packet + 16, sizeof to);
    return to == netif_ip4_addr(&n->netif)->addr || packet[16] >= 224 ||
           to == (netif_ip4_addr(&n->netif)->addr | ~netif_ip4_netmask(&n->netif)->addr);
}

static bool is_own6(const struct iwarp_lw_netif *n, const uint8_t *packet)
{
    bool own = packet[24] == 0xff;

    for (int i = 0; i < LWIP_IPV6_NUM_ADDRESSES && !own; i++) {
        own = memcmp(packet + 24, netif_ip6_addr(&n->netif, i)->addr, 16) == 0;
    }
    return own;
}

static bool is_fragment4(const uint8_t *packet)
{
    return (packet[6] & 0x3f) != 0 || packet[7] != 0;
}

/*
 * TCP, and ICMP at once or behind the one option that multicast listening has. "Packet too big" is
 * believed within what IPv6 allows and the link has (RFC 8201 4): lwIP believes anything, of
 * anybody, and would make segments of no octets for the next connection, or of too many.
 */
static bool is_known6(const struct iwarp_lw_netif *n, const uint8_t *packet, size_t octets)
{
    size_t at = packet[6] == IP6_NEXTH_HOPBYHOP ? 48 : 40;
    uint32_t mtu;

    if (packet[6] == IP6_NEXTH_TCP) {
        return true;
    }
    if (octets < at + 8 ||
        (packet[6] != IP6_NEXTH_ICMP6 &&
         (packet[6] != IP6_NEXTH_HOPBYHOP || packet[40] != IP6_NEXTH_ICMP6 || packet[41] != 0))) {
        return false;
    }
    memcpy(&mtu, packet + at + 4, sizeof mtu);
    return packet[at] != ICMP6_TYPE_PTB ||
           (ntohl(mtu) >= IWARP_LW_MTU_LEAST6 && ntohl(mtu) <= n->options.mtu);
}

/*
 * Frames for others are left out: a switch may send them everywhere.  So are packets for others:
 * lwIP, as the distribution builds it, would forward them. And fragments, of which TCP has none.
 */
static bool is_ours(struct iwarp_lw_netif *n, size_t octets)
{
    const uint8_t *to = n->frame, *packet = n->frame + IWARP_LW_ETHERNET;

    if (octets < IWARP_LW_ETHERNET || (!(to[0] & 1) && memcmp(to, n->netif.hwaddr, 6) != 0)) {
        return false;
    }
    switch (to[12] << 8 | to[13]) {
    case ETHTYPE_ARP: /* lwIP does not look at its length */
        if (octets < IWARP_LW_ETHERNET + ARP_OCTETS) {
            return false;
        }
        iwarp_lw_see_arp(n, packet);
        return true;
    case ETHTYPE_IP:
        return octets >= IWARP_LW_ETHERNET + 20 && is_own4(n, packet) && !is_fragment4(packet);
    case ETHTYPE_IPV6:
        return octets >= IWARP_LW_ETHERNET + 40 && is_own6(n, packet) &&
               is_known6(n, packet, octets - IWARP_LW_ETHERNET);
    default:
        return false;
    }
}

/* A copy of its exact size: small segments, kept until they are read, hold little memory. */
static void deliver(struct iwarp_lw_netif *n, size_t octets)
{
    struct pbuf *p = pbuf_alloc(PBUF_RAW, (u16_t)octets, PBUF_RAM);

    if (!p) {
        return; /* lost, as by a network */
    }
    memcpy(p->payload, n->frame, octets);
    if (n->netif.input(p, &n->netif) != ERR_OK) {
        pbuf_free(p);
    }
    if (iwarp_lw_on_frame) {
        iwarp_lw_on_frame();
    }
}

static bool input(struct iwarp_lw_netif *n)
{
    for (int i = 0; i < FRAMES && !n->down; i++) {
        ssize_t octets = n->link->ops->receive(n->link, n->frame, IWARP_LW_FRAME(n->options.mtu));
        if (octets == -EAGAIN) {
            return true;
        }
        if (octets < 0) {
            ended(n, (int)-octets);
        } else if (is_ours(n, (size_t)octets) && iwarp_lw_admit(n, (size_t)octets)) {
            deliver(n, (size_t)octets);
        }
    }
    return n->down;
}

/* What lwIP answers goes out together. */
bool iwarp_lw_netif_input(struct iwarp_lw_netif *n)
{
    iwarp_lw_batch_begin(n);
    bool empty = input(n);
    iwarp_lw_batch_end(n);
    return empty;
}

/* --- making one ------------------------------------------------------------------------------ */

/* Locally administered, and unlikely to be anybody else's. */
static err_t set_up(struct netif *netif)
{
    if (getrandom(netif->hwaddr, 6, 0) != 6) {
        return ERR_IF;
    }
    netif->hwaddr[0] = 0x02;
    netif->hwaddr_len = 6;
    netif->mtu = (u16_t)((struct iwarp_lw_netif *)netif->state)->options.mtu;
    netif->name[0] = 'i';
    netif->name[1] = 'w';
    netif->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET |
                   NETIF_FLAG_IGMP | NETIF_FLAG_MLD6;
    netif->output = etharp_output;
    netif->output_ip6 = ethip6_output;
    netif->linkoutput = output;
    return ERR_OK;
}

/*
 * Neighbours ask for an IPv6 address by a multicast that a tap's filter, or a switch, may know by
 * MLD, so lwIP reports it.  The address is taken as given, without a second's search for others
 * that may have it.
 */
static void set_addr6(struct iwarp_lw_netif *n)
{
    uint32_t word[4];
    ip6_addr_t addr;

    netif_create_ip6_linklocal_address(&n->netif, 1);
    netif_ip6_addr_set_state(&n->netif, 0, IP6_ADDR_PREFERRED);
    if (n->options.has6) {
        memcpy(word, &n->options.addr6, sizeof word);
        memset(&addr, 0, sizeof addr);
        memcpy(addr.addr, word, sizeof addr.addr);
        netif_ip6_addr_set(&n->netif, 1, &addr);
        netif_ip6_addr_set_state(&n->netif, 1, IP6_ADDR_PREFERRED);
    }
}

/* Core lock held.  False: lwIP has no memory, or 255 interfaces. */
static bool add(struct iwarp_lw_netif *n)
{
    const ip4_addr_t addr = {n->options.addr.s_addr}, mask = {n->options.mask.s_addr},
                     gw = {n->options.gw.s_addr};

    if (!netif_add(&n->netif, &addr, &mask, &gw, n, set_up, ethernet_input)) {
        return false;
    }
    netif_set_up(&n->netif);
    netif_set_link_up(&n->netif);
    set_addr6(n);
    if (!netif_default) {
        netif_set_default(&n->netif);
    }
    return true;
}

/* The thread of lwIP's timers gets no signals: those are the application's. */
static void start_lwip(void)
{
    sigset_t all, before;

    sigfillset(&all);
    sigdelset(&all, SIGSEGV); /* it sends from memory that may be gone, under guard */
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    tcpip_init(NULL, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/*
 * Which process has lwIP: its generation and 1; 0: none yet.  Asked before table_lock is taken,
 * which may be held for ever in a forked child.
 */
static bool may_have_lwip(void)
{
    static _Atomic unsigned owner;
    unsigned own = iwarp_process_generation() + 1, none = 0;

    return atomic_compare_exchange_strong(&owner, &none, own) || none == own;
}

static enum iwarp_status open_new(const struct iwarp_lw_options *o, struct iwarp_lw_netif **out)
{
    struct iwarp_lw_netif *n = calloc(1, sizeof *n + IWARP_LW_FRAME(o->mtu));
    enum iwarp_status status = IWARP_OK;

    if (!n) {
        return iwarp_fail(IWARP_NO_MEMORY, "no memory for an interface");
    }
    n->options = *o;
    status = iwarp_link_open(o, &n->link);
    if (status == IWARP_OK) {
        LOCK_TCPIP_CORE();
        bool added = add(n);
        UNLOCK_TCPIP_CORE();
        if (!added) {
            n->link->ops->close(n->link);
            status = iwarp_fail(IWARP_LIMIT, "lwIP takes no further interface");
        }
    }
    if (status != IWARP_OK) {
        free(n);
        return status;
    }
    n->next = table;
    table = n;
    *out = n;
    return IWARP_OK;
}

/* table_lock is held. One whose link has ended is of no use to anybody else. */
static struct iwarp_lw_netif *find(const char *text)
{
    struct iwarp_lw_netif *n = table;

    LOCK_TCPIP_CORE();
    while (n && (n->down || strcmp(n->options.text, text) != 0)) {
        n = n->next;
    }
    UNLOCK_TCPIP_CORE();
    return n;
}

enum iwarp_status iwarp_lw_netif_get(const char *text, struct iwarp_lw_netif **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct iwarp_lw_options o;
    enum iwarp_status status = iwarp_lw_options_read(text, &o);

    if (status != IWARP_OK) {
        return status;
    }
    if (!may_have_lwip()) {
        return iwarp_fail(IWARP_MISUSE, "lwIP belongs to the process that forked this one");
    }
    pthread_once(&once, start_lwip);
    pthread_mutex_lock(&table_lock);
    *out = find(text);
    status = *out ? IWARP_OK : open_new(&o, out);
    if (status == IWARP_OK) {
        (*out)->users++;
    }
    pthread_mutex_unlock(&table_lock);
    return status;
}

/* --- taking it away -------------------------------------------------------------------------- */

/* Connections that were closed, and whose last octets or FIN the peer has not acknowledged. */
static bool has_unsent(const struct iwarp_lw_netif *n)
{
    for (const struct tcp_pcb *pcb = tcp_active_pcbs; pcb; pcb = pcb->next) {
        if (pcb->netif_idx == netif_get_index(&n->netif) &&
            (pcb->unsent || pcb->unacked || pcb->state == FIN_WAIT_1 || pcb->state == CLOSING ||
             pcb->state == LAST_ACK)) {
            return true;
        }
    }
    return false;
}

static int64_t now_ms(void)
{
    return (int64_t)(uv_hrtime() / 1000000);
}

/*
 * The kernel finishes what a program has sent and closed; here nobody does once the interface is
 * gone.  So this thread reads the link until all has arrived, or for LINGER_MS.
 */
static void linger(struct iwarp_lw_netif *n)
{
    int64_t end = now_ms() + LINGER_MS;
    struct pollfd pollfd = {.fd = n->link->fd, .events = POLLIN};

    LOCK_TCPIP_CORE();
    while (!n->down && has_unsent(n) && now_ms() < end) {
        bool sleep = iwarp_lw_netif_input(n);
        iwarp_lw_netif_resume(n);
        if (sleep && n->link->ops->asleep) {
            sleep = n->link->ops->asleep(n->link);
        }
        UNLOCK_TCPIP_CORE();
        if (sleep && poll(&pollfd, 1, 10) > 0 && n->link->ops->awake) {
            n->link->ops->awake(n->link);
        }
        LOCK_TCPIP_CORE();
    }
    UNLOCK_TCPIP_CORE();
}

static void on_passed(void *passed)
{
    sem_post(passed);
}

/*
 * What an interface sends to itself waits for lwIP's thread, which is told by messages that name
 * the interface.  netif_remove leaves them; behind the last of them the memory is free to go.
 * False: no memory for a message of ours.
 */
static bool is_forgotten(void)
{
    sem_t passed;

    sem_init(&passed, 0, 0);
    bool asked = tcpip_callback(on_passed, &passed) == ERR_OK;
    while (asked && sem_wait(&passed) != 0) { /* EINTR */
    }
    sem_destroy(&passed);
    return asked;
}

/* netif_remove would end the connections of other interfaces that have the same ones. */
static void forget_addresses(struct iwarp_lw_netif *n)
{
    ip_addr_set_zero_ip4(&n->netif.ip_addr);
    for (int i = 0; i < LWIP_IPV6_NUM_ADDRESSES; i++) {
        n->netif.ip6_addr_state[i] = IP6_ADDR_INVALID;
    }
}

void iwarp_lw_netif_put(struct iwarp_lw_netif *n)
{
    pthread_mutex_lock(&table_lock);
    if (--n->users == 0) {
        struct iwarp_lw_netif **at = &table;
        while (*at != n) {
            at = &(*at)->next;
        }
        *at = n->next;
        linger(n);
        LOCK_TCPIP_CORE();
        end_connections(n, 1);
        forget_addresses(n);
        netif_remove(&n->netif);
        UNLOCK_TCPIP_CORE();
        n->down = true;
        bool forgotten = is_forgotten();
        n->link->ops->close(n->link);
        if (forgotten) {
            free(n);
        }
    }
    pthread_mutex_unlock(&table_lock);
}
