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

bool address_is_loopback(const struct sockaddr_storage *addr)
{
    if (addr->ss_family == AF_INET) {
        return ntohl(((const struct sockaddr_in *)addr)->sin_addr.s_addr) >> 24 == 127;
    }
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}
