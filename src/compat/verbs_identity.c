/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See identity.h. The interfaces are listed once per process; which interface has an address is
 * asked each time, since addresses change. getifaddrs needs no privilege. The machine id is hashed
 * (FNV-1a), since machine-id(5) forbids to show it to others as it is.
 */
#include "compat/identity.h"

#include "base/log.h"
#include "base/settings.h"
#include "compat/compat.h"

#include <arpa/inet.h>

#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static struct compat_identity identities[COMPAT_MAX_DEVICES];
static unsigned n_identities;
static char machine[256];

void iwarp_compat_mac_of_machine(const char *machine_id, uint8_t mac[COMPAT_MAC_OCTETS])
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (const char *c = machine_id; *c; c++) {
        hash = (hash ^ (uint8_t)*c) * 0x100000001b3u;
    }
    for (int i = 0; i < COMPAT_MAC_OCTETS; i++) {
        mac[i] = (uint8_t)(hash >> 8 * (COMPAT_MAC_OCTETS - i));
    }
    mac[0] = (uint8_t)((mac[0] & 0xfc) | 0x02); /* of local use, of one station */
}

static void read_machine_id(char *id, size_t size)
{
    int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, id, size - 1);

    if (fd >= 0) {
        close(fd);
    }
    if (n < 1 && gethostname(id, size - 1) == 0) {
        n = (ssize_t)strnlen(id, size - 1);
    }
    n = n < 0 ? 0 : n;
    id[n] = '\0';
    id[strcspn(id, "\n")] = '\0';
}

static unsigned mtu_of(const char *name)
{
    struct ifreq r = {.ifr_mtu = 0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
    int mtu = fd >= 0 && ioctl(fd, SIOCGIFMTU, &r) == 0 ? r.ifr_mtu : 1500;
    if (fd >= 0) {
        close(fd);
    }
    return (unsigned)mtu;
}

/* NULL if it has none. */
static const uint8_t *mac_of(const struct ifaddrs *a)
{
    static const uint8_t none[COMPAT_MAC_OCTETS];
    const struct sockaddr_ll *ll = (const void *)a->ifa_addr;

    return ll && ll->sll_family == AF_PACKET && !(a->ifa_flags & IFF_LOOPBACK) &&
                   ll->sll_halen == COMPAT_MAC_OCTETS &&
                   memcmp(ll->sll_addr, none, COMPAT_MAC_OCTETS) != 0
               ? ll->sll_addr
               : NULL;
}

/* --- one for all ----------------------------------------------------------------------------- */

/* With the MAC of the first interface that is up and has one; those that are down may have been
 * made up since the machine started. */
static void find_one(const struct ifaddrs *all)
{
    struct compat_identity *d = &identities[0];
    const char *interface = "lo";
    unsigned best = 0;
    bool best_up = false;

    snprintf(d->name, sizeof d->name, "iwarp0");
    iwarp_compat_mac_of_machine(machine, d->mac);
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
        const uint8_t *mac = mac_of(a);
        unsigned index = mac ? if_nametoindex(a->ifa_name) : 0;
        bool up = a->ifa_flags & IFF_UP;
        if (index > 0 && (best == 0 || (up && !best_up) || (up == best_up && index < best))) {
            best = index;
            best_up = up;
            memcpy(d->mac, mac, sizeof d->mac);
            interface = a->ifa_name;
        }
    }
    d->mtu = mtu_of(interface);
    n_identities = 1;
}

/* --- one for each ---------------------------------------------------------------------------- */

static bool is_ip(const struct ifaddrs *a)
{
    return a->ifa_addr && (a->ifa_flags & IFF_UP) &&
           (a->ifa_addr->sa_family == AF_INET || a->ifa_addr->sa_family == AF_INET6);
}

/* 0: no device has this interface's addresses. */
static unsigned number_of(const char *interface)
{
    for (unsigned i = 0; i < n_identities; i++) {
        if (strcmp(identities[i].interface, interface) == 0) {
            return i + 1;
        }
    }
    return 0;
}

static void add(const struct ifaddrs *all, const char *interface)
{
    struct compat_identity *d = &identities[n_identities];
    char id[sizeof machine + IF_NAMESIZE];

    snprintf(d->name, sizeof d->name, "iwarp_%s", interface);
    snprintf(d->interface, sizeof d->interface, "%s", interface);
    snprintf(id, sizeof id, "%s/%s", machine, interface);
    iwarp_compat_mac_of_machine(id, d->mac);
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
        const uint8_t *mac = strcmp(a->ifa_name, interface) == 0 ? mac_of(a) : NULL;
        if (mac) {
            memcpy(d->mac, mac, sizeof d->mac);
        }
    }
    d->mtu = mtu_of(interface);
    n_identities++;
}

/* Loopback addresses belong to the first device, the one that programs open if they choose none. */
static void find_each(const struct ifaddrs *all)
{
    for (const struct ifaddrs *a = all; a && n_identities < COMPAT_MAX_DEVICES; a = a->ifa_next) {
        if (is_ip(a) && !(a->ifa_flags & IFF_LOOPBACK) && number_of(a->ifa_name) == 0) {
            add(all, a->ifa_name);
        }
    }
    if (n_identities == 0) {
        add(all, "lo");
    }
}

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
    const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
    const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

    if (a->sa_family != b->sa_family) {
        return false;
    }
    return a->sa_family == AF_INET
               ? a4->sin_addr.s_addr == b4->sin_addr.s_addr
               : memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof a6->sin6_addr) == 0 &&
                     (a6->sin6_scope_id == 0 || a6->sin6_scope_id == b6->sin6_scope_id);
}

/* Asked once: what a device is called must not change. */
static bool roce;

static void read_persona(void)
{
    static const char *const words[] = {"iwarp", "roce", NULL};

    roce = iwarp_setting_word("IWARP_PERSONA", words, 0) == 1;
}

bool iwarp_compat_poses_as_roce(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, read_persona);
    return roce;
}

/* --- asking ---------------------------------------------------------------------------------- */

static void find(void)
{
    static const char *const words[] = {"one", "per-interface", NULL};
    struct ifaddrs *all = NULL;

    read_machine_id(machine, sizeof machine);
    (void)getifaddrs(&all);
    if (iwarp_setting_word("IWARP_DEVICES", words, 0) == 1) {
        find_each(all);
    } else {
        find_one(all);
    }
    if (all) {
        freeifaddrs(all);
    }
}

unsigned iwarp_compat_identities(const struct compat_identity **all)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, find);
    *all = identities;
    return n_identities;
}

unsigned iwarp_compat_identity_at(const struct sockaddr *addr)
{
    const struct compat_identity *unused;
    struct ifaddrs *all = NULL;
    unsigned number = 0;

    if (iwarp_compat_identities(&unused) < 2 || getifaddrs(&all) != 0) {
        return 0;
    }
    for (const struct ifaddrs *a = all; a && number == 0; a = a->ifa_next) {
        if (is_ip(a) && same_address(addr, a->ifa_addr)) {
            number = number_of(a->ifa_name);
        }
    }
    freeifaddrs(all);
    return number > 0 ? number - 1 : 0;
}

bool iwarp_compat_wished_addr(int family, struct sockaddr_storage *addr)
{
    static atomic_flag complained = ATOMIC_FLAG_INIT;
    const char *text = iwarp_setting("IWARP_ADDR");
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

    if (!text || *text == '\0') {
        return false;
    }
    bool v4 = inet_pton(AF_INET, text, &in.sin_addr) == 1;
    bool v6 = !v4 && inet_pton(AF_INET6, text, &in6.sin6_addr) == 1;
    if (!v4 && !v6 && !atomic_flag_test_and_set(&complained)) {
        iwarp_log(IWARP_LOG_WARN, "settings", "IWARP_ADDR is %s, expected an IPv4 or IPv6 address",
                  text);
    }
    memset(addr, 0, sizeof *addr);
    if (v4) {
        memcpy(addr, &in, sizeof in);
    } else if (v6) {
        memcpy(addr, &in6, sizeof in6);
    }
    return (v4 || v6) && addr->ss_family == family;
}

__be64 iwarp_compat_guid(const struct compat_identity *identity)
{
    uint8_t eui[8] = {0, 0, 0, 0xff, 0xfe, 0, 0, 0};
    __be64 guid;

    memcpy(eui, identity->mac, 3);
    memcpy(eui + 5, identity->mac + 3, 3);
    eui[0] ^= 0x02;
    memcpy(&guid, eui, sizeof guid);
    return guid;
}

enum ibv_mtu iwarp_compat_mtu(const struct compat_identity *identity)
{
    return identity->mtu >= 4096   ? IBV_MTU_4096
           : identity->mtu >= 2048 ? IBV_MTU_2048
           : identity->mtu >= 1024 ? IBV_MTU_1024
           : identity->mtu >= 512  ? IBV_MTU_512
                                   : IBV_MTU_256;
}
