/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Another station of the link with the same address of IPv4 (RFC 5227 2.4): packets go to one of
 * the two by chance, and nothing else would say why. It is logged once, and this station tells the
 * other one of itself once, so that the one that came later learns it, too.
 */
#include "base/log.h"
#include "transport/lwip/core.h"

#include <arpa/inet.h>
#include <lwip/etharp.h>
#include <string.h>

/* Offsets in an ARP packet for IPv4 over Ethernet. */
#define SENDER_MAC 8
#define SENDER_IP  14

void iwarp_lw_see_arp(struct iwarp_lw_netif *n, const uint8_t *arp)
{
    const uint8_t *mac = arp + SENDER_MAC;
    char text[INET_ADDRSTRLEN];

    if (n->conflict || !n->options.has4 ||
        memcmp(arp + SENDER_IP, &n->options.addr, sizeof n->options.addr) != 0 ||
        memcmp(mac, n->netif.hwaddr, 6) == 0) {
        return;
    }
    n->conflict = true;
    inet_ntop(AF_INET, &n->options.addr, text, sizeof text);
    iwarp_log(IWARP_LOG_WARN, "lwip",
              "%s: the station %02x:%02x:%02x:%02x:%02x:%02x has the address %s, too: connections "
              "of both will fail",
              n->options.text, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5], text);
    etharp_gratuitous(&n->netif);
}
