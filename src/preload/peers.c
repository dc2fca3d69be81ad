/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/peers.h"

#include <netinet/in.h>
#include <pthread.h>
#include <string.h>

struct name {
    uint8_t family, address[16];
    in_port_t port;
};

static struct {
    struct name name;
    int64_t until_ms;
} plain[PLAIN_PEERS];
static unsigned next_one;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* What names a peer; padding is zero. */
static bool name_of(const struct sockaddr *peer, socklen_t len, struct name *to)
{
    memset(to, 0, sizeof *to);
    to->family = (uint8_t)peer->sa_family;
    if (peer->sa_family == AF_INET && len >= sizeof(struct sockaddr_in)) {
        struct sockaddr_in in;
        memcpy(&in, peer, sizeof in);
        memcpy(to->address, &in.sin_addr, sizeof in.sin_addr);
        to->port = in.sin_port;
        return true;
    }
    if (peer->sa_family == AF_INET6 && len >= sizeof(struct sockaddr_in6)) {
        struct sockaddr_in6 in6;
        memcpy(&in6, peer, sizeof in6);
        memcpy(to->address, &in6.sin6_addr, sizeof in6.sin6_addr);
        to->port = in6.sin6_port;
        return true;
    }
    return false;
}

/* The same for each port. */
static bool address_of(const struct sockaddr *peer, socklen_t len, struct name *to)
{
    const bool is = name_of(peer, len, to);

    to->port = 0;
    return is;
}

/* --- those that do not answer ---------------------------------------------------------------- */

void peers_note_plain(const struct sockaddr *peer, socklen_t len, int64_t now_ms)
{
    struct name name;

    if (name_of(peer, len, &name)) {
        pthread_mutex_lock(&lock);
        plain[next_one].name = name;
        plain[next_one].until_ms = now_ms + PLAIN_PEERS_MS;
        next_one = (next_one + 1) % PLAIN_PEERS;
        pthread_mutex_unlock(&lock);
    }
}

bool peers_is_plain(const struct sockaddr *peer, socklen_t len, int64_t now_ms)
{
    struct name name;
    bool found = false;

    if (!name_of(peer, len, &name)) {
        return false;
    }
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < PLAIN_PEERS && !found; i++) {
        found = now_ms < plain[i].until_ms && memcmp(&plain[i].name, &name, sizeof name) == 0;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* --- addresses that answer ------------------------------------------------------------------- */

static struct name answering[ANSWERING_PEERS];
static unsigned answers; /* of so many addresses, in all */

/* The lock is held. */
static bool is_answering(const struct name *name)
{
    for (unsigned i = 0; i < answers && i < ANSWERING_PEERS; i++) {
        if (memcmp(&answering[i], name, sizeof *name) == 0) {
            return true;
        }
    }
    return false;
}

void peers_note_answer(const struct sockaddr *peer, socklen_t len)
{
    struct name name;

    if (!address_of(peer, len, &name)) {
        return;
    }
    pthread_mutex_lock(&lock);
    if (!is_answering(&name)) {
        answering[answers++ % ANSWERING_PEERS] = name;
    }
    pthread_mutex_unlock(&lock);
}

bool peers_has_answered(const struct sockaddr *peer, socklen_t len)
{
    struct name name;
    bool has = false;

    if (address_of(peer, len, &name)) {
        pthread_mutex_lock(&lock);
        has = is_answering(&name);
        pthread_mutex_unlock(&lock);
    }
    return has;
}

/* --- this process ---------------------------------------------------------------------------- */

static in_port_t own_ports[OWN_PORTS];
static unsigned owns; /* so many, in all */

/* The lock is held. */
static bool is_own(in_port_t port)
{
    for (unsigned i = 0; i < owns && i < OWN_PORTS; i++) {
        if (own_ports[i] == port) {
            return true;
        }
    }
    return false;
}

void peers_note_own(in_port_t port)
{
    pthread_mutex_lock(&lock);
    if (!is_own(port)) {
        own_ports[owns++ % OWN_PORTS] = port;
    }
    pthread_mutex_unlock(&lock);
}

/* 127.0.0.2 is reached from 127.0.0.1. */
static bool is_loopback(const struct name *n)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    return n->family == AF_INET
               ? n->address[0] == 127
               : memcmp(n->address, mapped, sizeof mapped) == 0 && n->address[12] == 127;
}

bool peers_is_own(const struct sockaddr *local, const struct sockaddr *peer, socklen_t len)
{
    struct name here, there;
    bool is = false;

    if (name_of(local, len, &here) && name_of(peer, len, &there) &&
        (memcmp(here.address, there.address, sizeof here.address) == 0 ||
         (is_loopback(&here) && is_loopback(&there)))) {
        pthread_mutex_lock(&lock);
        is = is_own(there.port);
        pthread_mutex_unlock(&lock);
    }
    return is;
}

void peers_hold(void)
{
    pthread_mutex_lock(&lock);
}

void peers_release(void)
{
    pthread_mutex_unlock(&lock);
}
