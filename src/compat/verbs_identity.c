/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See identity.h. Interfaces are looked at once per process; getifaddrs needs no privilege. The
 * machine id is hashed (FNV-1a), since it is not to be shown to others as it is: machine-id(5).
 */
#include "compat/identity.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAC_OCTETS 6

static struct {
    uint8_t mac[MAC_OCTETS];
    unsigned mtu;
} identity;

void iwarp_compat_mac_of_machine(const char *machine_id, uint8_t mac[6])
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (const char *c = machine_id; *c; c++) {
        hash = (hash ^ (uint8_t)*c) * 0x100000001b3u;
    }
    for (int i = 0; i < MAC_OCTETS; i++) {
        mac[i] = (uint8_t)(hash >> 8 * (MAC_OCTETS - i));
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

static void find(void)
{
    static const uint8_t none[MAC_OCTETS];
    struct ifaddrs *all = NULL;
    char id[256], name[IF_NAMESIZE] = "lo";
    int best = 0;

    read_machine_id(id, sizeof id);
    iwarp_compat_mac_of_machine(id, identity.mac);
    (void)getifaddrs(&all);
    for (struct ifaddrs *a = all; a; a = a->ifa_next) {
        const struct sockaddr_ll *ll = (const void *)a->ifa_addr;
        if (ll && ll->sll_family == AF_PACKET && !(a->ifa_flags & IFF_LOOPBACK) &&
            ll->sll_halen == MAC_OCTETS && memcmp(ll->sll_addr, none, MAC_OCTETS) != 0 &&
            (best == 0 || ll->sll_ifindex < best)) {
            best = ll->sll_ifindex;
            memcpy(identity.mac, ll->sll_addr, MAC_OCTETS);
            snprintf(name, sizeof name, "%s", a->ifa_name);
        }
    }
    if (all) {
        freeifaddrs(all);
    }
    identity.mtu = mtu_of(name);
}

static void look(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, find);
}

__be64 iwarp_compat_guid(void)
{
    uint8_t eui[8] = {0, 0, 0, 0xff, 0xfe, 0, 0, 0};
    __be64 guid;

    look();
    memcpy(eui, identity.mac, 3);
    memcpy(eui + 5, identity.mac + 3, 3);
    eui[0] ^= 0x02;
    memcpy(&guid, eui, sizeof guid);
    return guid;
}

void iwarp_compat_gid(union ibv_gid *gid)
{
    look();
    memset(gid, 0, sizeof *gid);
    memcpy(gid->raw, identity.mac, MAC_OCTETS);
}

enum ibv_mtu iwarp_compat_mtu(unsigned *octets)
{
    look();
    if (octets) {
        *octets = identity.mtu;
    }
    return identity.mtu >= 4096   ? IBV_MTU_4096
           : identity.mtu >= 2048 ? IBV_MTU_2048
           : identity.mtu >= 1024 ? IBV_MTU_1024
           : identity.mtu >= 512  ? IBV_MTU_512
                                  : IBV_MTU_256;
}
