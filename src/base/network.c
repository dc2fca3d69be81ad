/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Networks are compared as 16 octets: an IPv4 peer looks the same whether it came to an IPv4 or to
 * an IPv6 socket.
 */
#include "base/network.h"

#include "base/fault.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct network {
    uint8_t octets[16];
    unsigned bits; /* of the prefix, 0 to 128 */
};

struct iwarp_networks {
    unsigned count;
    struct network list[];
};

enum { TEXT = INET6_ADDRSTRLEN + 4 }; /* with /128 and an end */

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static bool octets_of(const struct sockaddr *addr, uint8_t octets[16])
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (addr->sa_family == AF_INET) {
        memcpy(&v4, addr, sizeof v4);
        memcpy(octets, mapped, sizeof mapped);
        memcpy(octets + sizeof mapped, &v4.sin_addr, 4);
        return true;
    }
    if (addr->sa_family == AF_INET6) {
        memcpy(&v6, addr, sizeof v6);
        memcpy(octets, &v6.sin6_addr, 16);
        return true;
    }
    return false;
}

static bool same_prefix(const uint8_t a[16], const uint8_t b[16], unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;

    return memcmp(a, b, whole) == 0 && (rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0);
}

static bool has_host_bits(const struct network *n)
{
    for (unsigned bit = n->bits; bit < 128; bit++) {
        if (n->octets[bit / 8] >> (7 - bit % 8) & 1) {
            return true;
        }
    }
    return false;
}

/* False: not a number from 0 to most. */
static bool parse_bits(const char *digits, unsigned most, unsigned *bits)
{
    size_t n = strlen(digits);

    if (n == 0 || n > 3 || strspn(digits, "0123456789") < n) {
        return false;
    }
    *bits = (unsigned)strtoul(digits, NULL, 10);
    return *bits <= most;
}

/* text is cut at the slash. */
static bool parse(char *text, struct network *n)
{
    char *slash = strchr(text, '/');
    unsigned most = 128, bits;

    if (slash) {
        *slash = '\0';
    }
    memcpy(n->octets, mapped, sizeof mapped);
    if (inet_pton(AF_INET, text, n->octets + sizeof mapped) == 1) {
        most = 32;
    } else if (inet_pton(AF_INET6, text, n->octets) != 1) {
        return false;
    }
    bits = most;
    if (slash && !parse_bits(slash + 1, most, &bits)) {
        return false;
    }
    n->bits = bits + 128 - most;
    return !has_host_bits(n);
}

static unsigned count_words(const char *text)
{
    unsigned n = 1;

    for (; *text; text++) {
        n += *text == ',';
    }
    return n;
}

enum iwarp_status iwarp_networks_parse(const char *text, struct iwarp_networks **out)
{
    *out = NULL;
    if (text[0] == '\0') {
        return IWARP_OK;
    }
    unsigned words = count_words(text);
    struct iwarp_networks *all = malloc(sizeof *all + words * sizeof *all->list);
    if (!all) {
        return iwarp_fail(IWARP_NO_MEMORY, "no memory for a list of networks");
    }
    all->count = 0;
    for (const char *at = text; all->count < words; at += strcspn(at, ",") + 1) {
        char word[TEXT];
        size_t n = strcspn(at, ",");
        bool fits = n < sizeof word;
        if (fits) {
            memcpy(word, at, n);
            word[n] = '\0';
        }
        if (!fits || !parse(word, &all->list[all->count])) {
            free(all);
            return iwarp_fail(IWARP_MISUSE,
                              "allow: \"%.*s\" is no network; expected ADDRESS/BITS, with no bit "
                              "of ADDRESS set behind the first BITS",
                              (int)(fits ? n : TEXT), at);
        }
        all->count++;
    }
    *out = all;
    return IWARP_OK;
}

/* ::/0 means the IPv6 internet: it does not include IPv4 peers by accident. */
bool iwarp_networks_have(const struct iwarp_networks *networks, const struct sockaddr *addr)
{
    uint8_t octets[16];

    if (!octets_of(addr, octets)) {
        return false;
    }
    bool v4 = memcmp(octets, mapped, sizeof mapped) == 0;
    for (unsigned i = 0; i < networks->count; i++) {
        const struct network *n = &networks->list[i];
        if (same_prefix(n->octets, octets, n->bits) && (n->bits >= 96 || !v4)) {
            return true;
        }
    }
    return false;
}
