/* SPDX-License-Identifier: BSD-2-Clause */
/* See options.h. */
#include "transport/lwip/options.h"
#include "base/fault.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX         "lwip:"
#define INTERFACE_MOST 15 /* of an interface */

static enum iwarp_status wrong(const struct iwarp_lw_options *o, const char *what)
{
    return iwarp_fail(IWARP_MISUSE,
                      "transport \"%s\": %s; expected lwip: and unix=PATH, shm=PATH, tap=NAME, "
                      "xdp=NAME or fd=NUMBER, then ,addr=ADDRESS/PREFIX and perhaps ,gw=ADDRESS "
                      "and ,mtu=OCTETS",
                      o->text, what);
}

/* A decimal number, all of the text.  -1: it is none, or larger. */
static int number(const char *text, int most)
{
    char *end;
    long n = strtol(text, &end, 10);

    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && n <= most ? (int)n : -1;
}

static enum iwarp_status read_place(struct iwarp_lw_options *o, const char *value)
{
    bool interface = o->kind == IWARP_LW_TAP || o->kind == IWARP_LW_XDP;

    if (strlen(value) > (interface ? INTERFACE_MOST : sizeof o->place - 1)) {
        return wrong(o, "the path or name is too long");
    }
    strcpy(o->place, value);
    return IWARP_OK;
}

/* Of a host: neither none, nor of many, nor (IPv4) all or none of its network's. */
static bool is_host(const struct iwarp_lw_options *o, bool v6, int prefix)
{
    if (v6) {
        return !IN6_IS_ADDR_UNSPECIFIED(&o->addr6) && !IN6_IS_ADDR_MULTICAST(&o->addr6);
    }
    uint32_t addr = ntohl(o->addr.s_addr), host = prefix < 31 ? ~(uint32_t)0 >> prefix : 0;
    bool of_network = prefix >= 31 || ((addr & host) != 0 && (addr & host) != host);
    return addr >> 24 != 0 && addr >> 28 < 14 && of_network;
}

/* The mask is kept in network byte order, as lwIP has it. */
static enum iwarp_status read_address(struct iwarp_lw_options *o, char *value)
{
    char *slash = strchr(value, '/');
    bool v6 = strchr(value, ':') != NULL;

    if (!slash) {
        return wrong(o, "addr has no /PREFIX");
    }
    *slash = '\0';
    int prefix = number(slash + 1, v6 ? 128 : 32);
    if (prefix < 0) {
        return wrong(o, "addr has no valid prefix");
    }
    if (v6 ? o->has6 : o->has4) {
        return wrong(o, "more than one address of a family");
    }
    if (inet_pton(v6 ? AF_INET6 : AF_INET, value, v6 ? (void *)&o->addr6 : (void *)&o->addr) != 1) {
        return wrong(o, "addr is no address");
    }
    if (!is_host(o, v6, prefix)) {
        return wrong(o, "addr is no address of a host in its network");
    }
    if (v6 && prefix != 64) {
        return wrong(o, "lwIP knows IPv6 networks with a prefix of 64 bits only");
    }
    if (v6) {
        o->has6 = true;
        o->prefix6 = (unsigned)prefix;
    } else {
        o->has4 = true;
        o->mask.s_addr = htonl(prefix == 0 ? 0 : ~(uint32_t)0 << (32 - prefix));
    }
    return IWARP_OK;
}

static enum iwarp_status read_kind(struct iwarp_lw_options *o, const char *name, const char *value)
{
    static const char *const names[] = {[IWARP_LW_UNIX] = "unix",
                                        [IWARP_LW_SHM] = "shm",
                                        [IWARP_LW_TAP] = "tap",
                                        [IWARP_LW_XDP] = "xdp"};

    if (strcmp(name, "fd") == 0) {
        o->kind = IWARP_LW_FD;
        o->fd = number(value, 1 << 20);
        return o->fd >= 0 ? IWARP_OK : wrong(o, "fd is no number");
    }
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            o->kind = (enum iwarp_lw_kind)i;
            return value[0] ? read_place(o, value) : wrong(o, "the path or name is empty");
        }
    }
    return wrong(o, "the first word is none of unix, shm, tap, xdp and fd");
}

static enum iwarp_status read_word(struct iwarp_lw_options *o, unsigned at, char *word)
{
    char *value = strchr(word, '=');

    if (!value) {
        return wrong(o, "a word has no =");
    }
    *value++ = '\0';
    if (at == 0) {
        return read_kind(o, word, value);
    }
    if (strcmp(word, "addr") == 0) {
        return read_address(o, value);
    }
    if (strcmp(word, "gw") == 0) {
        return inet_pton(AF_INET, value, &o->gw) == 1 ? IWARP_OK
                                                      : wrong(o, "gw is no address of IPv4");
    }
    if (strcmp(word, "mtu") == 0) {
        int mtu = number(value, IWARP_LW_MTU_MOST);
        o->mtu = (unsigned)mtu;
        return mtu >= IWARP_LW_MTU_LEAST ? IWARP_OK : wrong(o, "mtu is none of 576 to 65000");
    }
    return wrong(o, "a later word is none of addr, gw and mtu");
}

enum iwarp_status iwarp_lw_options_read(const char *text, struct iwarp_lw_options *o)
{
    char copy[IWARP_LW_TEXT], *rest = copy;
    enum iwarp_status status = IWARP_OK;

    memset(o, 0, sizeof *o);
    if (strlen(text) >= sizeof o->text) {
        return iwarp_fail(IWARP_MISUSE, "the transport's text has %zu characters, at most %zu",
                          strlen(text), sizeof o->text - 1);
    }
    strcpy(o->text, text);
    o->mtu = IWARP_LW_MTU;
    strcpy(copy, text + strlen(PREFIX));
    for (unsigned at = 0; status == IWARP_OK && rest; at++) {
        status = read_word(o, at, strsep(&rest, ","));
    }
    if (status == IWARP_OK && !o->has4 && !o->has6) {
        status = wrong(o, "no addr");
    }
    if (status == IWARP_OK && o->has6 && o->mtu < IWARP_LW_MTU_LEAST6) {
        status = wrong(o, "IPv6 asks for an mtu of 1280");
    }
    return status;
}
