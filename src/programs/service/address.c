/* SPDX-License-Identifier: BSD-2-Clause */
#include "address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

bool address_parse(const char *text, uint16_t port, struct sockaddr_storage *addr, socklen_t *len)
{
    char host[INET6_ADDRSTRLEN + 1];
    const char *end, *colon;
    size_t host_len;
    bool bracket = *text == '[';

    end = bracket ? strchr(++text, ']') : text + strcspn(text, ":");
    if (!bracket && strchr(text, ':') != strrchr(text, ':')) {
        end = text + strlen(text); /* IPv6 without a port */
    }
    if (!end || (host_len = (size_t)(end - text)) >= sizeof host) {
        return false;
    }
    memcpy(host, text, host_len);
    host[host_len] = '\0';
    colon = end + bracket;
    if (*colon) {
        char *rest;
        unsigned long number = strtoul(colon + 1, &rest, 10);
        if (*colon != ':' || rest == colon + 1 || *rest || number > 65535) {
            return false;
        }
        port = (uint16_t)number;
    }
    memset(addr, 0, sizeof *addr);
    if (uv_ip4_addr(host, port, (struct sockaddr_in *)addr) == 0) {
        *len = sizeof(struct sockaddr_in);
        return true;
    }
    *len = sizeof(struct sockaddr_in6);
    return uv_ip6_addr(host, port, (struct sockaddr_in6 *)addr) == 0;
}

unsigned address_split(const struct sockaddr_storage *addr, char host[INET6_ADDRSTRLEN])
{
    strcpy(host, "?");
    if (addr->ss_family == AF_INET6) {
        uv_ip6_name((const struct sockaddr_in6 *)addr, host, INET6_ADDRSTRLEN);
        return ntohs(((const struct sockaddr_in6 *)addr)->sin6_port);
    }
    if (addr->ss_family == AF_INET) {
        uv_ip4_name((const struct sockaddr_in *)addr, host, INET6_ADDRSTRLEN);
        return ntohs(((const struct sockaddr_in *)addr)->sin_port);
    }
    return 0;
}

void address_text(const struct sockaddr_storage *addr, char text[ADDRESS_TEXT_MAX])
{
    char host[INET6_ADDRSTRLEN];
    unsigned port = address_split(addr, host);

    snprintf(text, ADDRESS_TEXT_MAX, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
}

void address_owner(const struct sockaddr_storage *addr, uint8_t owner[ADDRESS_OWNER_LEN])
{
    /* Beside link-local addresses: all of IPv4, as it is or behind NAT64. */
    static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b};
    const struct in6_addr *six = &((const struct sockaddr_in6 *)addr)->sin6_addr;

    memset(owner, 0, ADDRESS_OWNER_LEN);
    if (addr->ss_family == AF_INET) {
        owner[10] = owner[11] = 0xff;
        memcpy(owner + 12, &((const struct sockaddr_in *)addr)->sin_addr, 4);
    } else if (addr->ss_family == AF_INET6) {
        bool shared = IN6_IS_ADDR_LINKLOCAL(six) || IN6_IS_ADDR_V4MAPPED(six) ||
                      memcmp(six, nat64, sizeof nat64) == 0;
        memcpy(owner, six, shared ? 16 : 8);
    }
}

bool address_is_loopback(const struct sockaddr_storage *addr)
{
    if (addr->ss_family == AF_INET) {
        return ntohl(((const struct sockaddr_in *)addr)->sin_addr.s_addr) >> 24 == 127;
    }
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}
