/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What lwIP is when it is compiled from its sources into the library (make LWIP_SRC=DIR).  With the
 * distribution's library its own file of this name counts instead.
 *
 * All of lwIP runs under its core lock (core.h), so it needs no finer ones.  Whoever knows only
 * TCP over Ethernet gets nothing else: no UDP, no fragments, no forwarding.
 */
#ifndef IWARP_LWIP_OWN_LWIPOPTS_H
#define IWARP_LWIP_OWN_LWIPOPTS_H

/* --- threads and memory ---------------------------------------------------------------------- */

#include <stddef.h>
void *iwarp_lw_malloc(size_t n);
void iwarp_lw_free(void *p);

#define NO_SYS                  0
#define LWIP_TCPIP_CORE_LOCKING 1
#define SYS_LIGHTWEIGHT_PROT    0
#define LWIP_NETCONN            0
#define LWIP_SOCKET             0
#define TCPIP_MBOX_SIZE         64
#define TCPIP_THREAD_NAME       "lwip"
#define MEM_LIBC_MALLOC         1
#define MEMP_MEM_MALLOC         1
#define MEM_ALIGNMENT           8
#define mem_clib_malloc         iwarp_lw_malloc
#define mem_clib_free           iwarp_lw_free
#define LWIP_NOASSERT_ON_ERROR  1
#define LWIP_STATS              0

/* --- TCP ------------------------------------------------------------------------------------- */

/* Of the largest packet of IPv4 or IPv6; how large segments are is up to the MTU of the link. */
#define TCP_MSS          65000
#define LWIP_WND_SCALE   1
#define TCP_RCV_SCALE    7
#define TCP_WND          (4u << 20)
#define TCP_SND_BUF      (4u << 20)
#define TCP_SND_QUEUELEN 16384 /* packet buffers */
#define TCP_SNDLOWAT     (TCP_SND_BUF / 2)
/* They take the MSS for one of 16 bits from which TCP_SNDLOWAT is computed. */
#define LWIP_DISABLE_TCP_SANITY_CHECKS 1
#define LWIP_TCP_TIMESTAMPS            1
#define LWIP_TCP_SACK_OUT              1
#define TCP_QUEUE_OOSEQ                1
#define TCP_OOSEQ_MAX_BYTES            TCP_WND
#define TCP_OOSEQ_MAX_PBUFS            4096
#define TCP_LISTEN_BACKLOG             1
#define LWIP_TCP_KEEPALIVE             1
#define SO_REUSE                       1

/* ms: acknowledgements are late by this at most, and timers run at every second one. */
#define TCP_TMR_INTERVAL 10

/* Segments may refer to memory that is not lwIP's. */
#define LWIP_NETIF_TX_SINGLE_PBUF 0
#define LWIP_SUPPORT_CUSTOM_PBUF  1

/* What waits for a neighbour's address is copied then: nothing finds it to be forsaken. */
#define PBUF_NEEDS_COPY(p) (!((p)->type_internal & PBUF_TYPE_FLAG_STRUCT_DATA_CONTIGUOUS))

/* --- octets ---------------------------------------------------------------------------------- */

#define LWIP_CHECKSUM_ON_COPY 1
#define LWIP_CHKSUM           iwarp_lw_checksum

/* Of memory that may be gone, too (touch.c). */
void iwarp_lw_copy(void *to, const void *from, size_t n);
#define MEMCPY(to, from, n) iwarp_lw_copy(to, from, n)

/* --- below TCP ------------------------------------------------------------------------------- */

/* Neighbours on the link; with more than that each is asked for again and again. */
#define ARP_TABLE_SIZE            127
#define LWIP_ND6_NUM_NEIGHBORS    127
#define LWIP_ND6_NUM_DESTINATIONS 127

#define LWIP_ETHERNET           1
#define LWIP_ARP                1
#define ARP_QUEUEING            1
#define ARP_QUEUE_LEN           10
#define LWIP_IPV4               1
#define IP_FORWARD              0
#define IP_REASSEMBLY           0
#define IP_FRAG                 0
#define LWIP_ICMP               1
#define LWIP_IGMP               0
#define LWIP_IPV6               1
#define LWIP_IPV6_FORWARD       0
#define LWIP_IPV6_REASS         0
#define LWIP_IPV6_FRAG          0
#define LWIP_IPV6_AUTOCONFIG    1
#define LWIP_IPV6_NUM_ADDRESSES 6
#define LWIP_IPV6_MLD           1
#define LWIP_ICMP6              1
#define LWIP_RAW                0
#define LWIP_UDP                0
#define LWIP_NETIF_LOOPBACK     1
#define LWIP_HAVE_LOOPIF        0

#define LWIP_HOOK_TCP_ISN iwarp_lw_isn

#endif
