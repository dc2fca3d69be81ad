/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Internet addresses. Networks are compared as 16 octets: an IPv4 client looks the same whether it
 * came to an IPv4 or to an IPv6 socket.
 */
#include "net.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static bool is_mapped(const uint8_t octets[16])
{
    return memcmp(octets, mapped_prefix, sizeof mapped_prefix) == 0;
}

static bool octets_of(const struct sockaddr *addr, uint8_t octets[16])
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (addr->sa_family == AF_INET) {
        memcpy(&v4, addr, sizeof v4);
        memcpy(octets, mapped_prefix, sizeof mapped_prefix);
        memcpy(octets + 12, &v4.sin_addr, 4);
        return true;
    }
    if (addr->sa_family == AF_INET6) {
        memcpy(&v6, addr, sizeof v6);
        memcpy(octets, &v6.sin6_addr, 16);
        return true;
    }
    return false;
}

/* True if the two agree in their first bits. */
static bool same_prefix(const uint8_t a[16], const uint8_t b[16], unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;

    if (memcmp(a, b, whole) != 0) {
        return false;
    }
    return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

static bool has_host_bits(const struct cp_network *network)
{
    for (unsigned bit = network->prefix; bit < 128; bit++) {
        if (network->octets[bit / 8] >> (7 - bit % 8) & 1) {
            return true;
        }
    }
    return false;
}

bool cp_network_parse(const char *text, struct cp_network *network)
{
    char host[INET6_ADDRSTRLEN];
    size_t len = strcspn(text, "/");
    unsigned long bits, most = 128;

    if (len >= sizeof host) {
        return false;
    }
    memcpy(host, text, len);
    host[len] = '\0';
    memcpy(network->octets, mapped_prefix, sizeof mapped_prefix);
    if (inet_pton(AF_INET, host, network->octets + 12) == 1) {
        most = 32;
    } else if (inet_pton(AF_INET6, host, network->octets) != 1) {
        return false;
    }
    bits = most;
    if (text[len] == '/') {
        const char *digits = text + len + 1;
        size_t count = strlen(digits);
        if (count == 0 || count > 3 || strspn(digits, "0123456789") < count) {
            return false;
        }
        bits = strtoul(digits, NULL, 10);
        if (bits > most) {
            return false;
        }
    }
    network->prefix = (unsigned)(bits + 128 - most);
    return !has_host_bits(network);
}

bool cp_network_has(const struct cp_network *network, const struct sockaddr *addr)
{
    uint8_t octets[16];

    /* ::/0 means the IPv6 internet: it does not include IPv4 clients by accident. */
    return octets_of(addr, octets) && same_prefix(network->octets, octets, network->prefix) &&
           (network->prefix >= 96 || !is_mapped(octets));
}

bool cp_net_is_same_host(const struct sockaddr *a, const struct sockaddr *b)
{
    uint8_t one[16], other[16];

    if (!octets_of(a, one) || !octets_of(b, other)) {
        return true; /* not known to be different */
    }
    return same_prefix(one, other, is_mapped(one) || is_mapped(other) ? 128 : 64);
}

bool cp_net_is_loopback(const struct sockaddr *addr)
{
    static const uint8_t v6_loopback[16] = {[15] = 1};
    uint8_t octets[16];

    if (!octets_of(addr, octets)) {
        return false;
    }
    return memcmp(octets, v6_loopback, sizeof octets) == 0 ||
           (is_mapped(octets) && octets[12] == 127);
}

const char *cp_net_resolve(const struct cp_address *address, bool passive, struct addrinfo **list)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0),
    };
    int error = getaddrinfo(address->host[0] ? address->host : NULL, address->port, &hints, list);

    return error == 0 ? NULL : gai_strerror(error);
}

void cp_net_format(const struct sockaddr *addr, socklen_t len, char *buf, size_t size)
{
    struct cp_address address;

    if (getnameinfo(addr, len, address.host, sizeof address.host, address.port, sizeof address.port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        snprintf(buf, size, "unknown address");
        return;
    }
    cp_address_format(&address, buf, size);
}
