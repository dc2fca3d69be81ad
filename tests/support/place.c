/* SPDX-License-Identifier: BSD-2-Clause */
/* See place.h. */
#include "place.h"

#include <arpa/inet.h>
#include <stdlib.h>

static struct in_addr named(const char *variable)
{
    const char *text = getenv(variable);
    struct in_addr in = {htonl(INADDR_LOOPBACK)};

    if (text && inet_pton(AF_INET, text, &in) != 1) {
        abort();
    }
    return in;
}

struct in_addr place_of_device(void)
{
    return named("TEST_DEVICE");
}

struct in_addr place_of_peer(void)
{
    return named("TEST_PEER");
}

struct in_addr place_of_host(unsigned host)
{
    return (struct in_addr){htonl(ntohl(place_of_peer().s_addr) - 1 + host)};
}

bool place_is_lwip(void)
{
    return getenv("TEST_DEVICE") != NULL;
}
