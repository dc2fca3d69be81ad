/* SPDX-License-Identifier: BSD-2-Clause */
/* See netns.h. rtnetlink(7). */
#include "netns.h"

#include <net/if.h>
#include <sched.h>

#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

struct request {
    struct nlmsghdr head;
    char room[256];
};

static void *add(struct request *r, const void *p, size_t n)
{
    void *at = (char *)r + NLMSG_ALIGN(r->head.nlmsg_len);

    memcpy(at, p, n);
    r->head.nlmsg_len = (uint32_t)(NLMSG_ALIGN(r->head.nlmsg_len) + n);
    return at;
}

static struct rtattr *attribute(struct request *r, unsigned short type, const void *p, size_t n)
{
    struct rtattr a = {.rta_len = (unsigned short)RTA_LENGTH(n), .rta_type = type};
    struct rtattr *at = add(r, &a, sizeof a);

    if (n > 0) {
        add(r, p, n);
    }
    return at;
}

/* The kernel does it, and says so. */
static bool done(struct request *r)
{
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
        char room[512];
    } answer;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

    r->head.nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
    memset(&answer, 0, sizeof answer);
    bool ok = fd >= 0 && send(fd, r, r->head.nlmsg_len, 0) == (ssize_t)r->head.nlmsg_len &&
              recv(fd, &answer, sizeof answer, 0) > 0 && answer.head.nlmsg_type == NLMSG_ERROR &&
              answer.error.error == 0;
    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

static bool add_cable(void)
{
    struct request r = {.head = {.nlmsg_len = NLMSG_HDRLEN,
                                 .nlmsg_type = RTM_NEWLINK,
                                 .nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL}};
    const struct ifinfomsg link = {.ifi_family = AF_UNSPEC};

    add(&r, &link, sizeof link);
    attribute(&r, IFLA_IFNAME, "end", sizeof "end");
    struct rtattr *info = attribute(&r, IFLA_LINKINFO, NULL, 0);
    const char *from = (const char *)info;
    attribute(&r, IFLA_INFO_KIND, "veth", sizeof "veth");
    info->rta_len = (unsigned short)((char *)&r + r.head.nlmsg_len - from);
    return done(&r);
}

static bool add_address(unsigned scope)
{
    struct request r = {.head = {.nlmsg_len = NLMSG_HDRLEN,
                                 .nlmsg_type = RTM_NEWADDR,
                                 .nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL}};
    const struct ifaddrmsg address = {.ifa_family = AF_INET6,
                                      .ifa_prefixlen = 64,
                                      .ifa_flags = IFA_F_NODAD,
                                      .ifa_scope = RT_SCOPE_LINK,
                                      .ifa_index = scope};
    struct in6_addr in6;

    inet_pton(AF_INET6, "fe80::1", &in6);
    add(&r, &address, sizeof address);
    attribute(&r, IFA_LOCAL, &in6, sizeof in6);
    attribute(&r, IFA_ADDRESS, &in6, sizeof in6);
    return done(&r);
}

/* The interface's flags, after setting some. */
static short flags(unsigned scope, short set)
{
    struct ifreq r;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    memset(&r, 0, sizeof r);
    if (fd >= 0 && if_indextoname(scope, r.ifr_name) && ioctl(fd, SIOCGIFFLAGS, &r) == 0 && set) {
        r.ifr_flags = (short)(r.ifr_flags | set);
        ioctl(fd, SIOCSIFFLAGS, &r);
    }
    if (fd >= 0) {
        close(fd);
    }
    return r.ifr_flags;
}

/* The kernel sees the cable a little later. */
static bool runs(unsigned scope)
{
    for (int i = 0; i < 20000 && !(flags(scope, 0) & IFF_RUNNING); i++) {
        usleep(1000);
    }
    return flags(scope, 0) & IFF_RUNNING;
}

/* The routes to the addresses come a little later too; before, packets would go over the cable. */
static bool routed(void)
{
    for (int i = 0; i < 20000; i++) {
        char line[256];
        unsigned n = 0;
        FILE *f = fopen("/proc/thread-self/net/ipv6_route", "re");
        while (f && fgets(line, sizeof line, f)) {
            n += strncmp(line, "fe800000000000000000000000000001 80", 35) == 0;
        }
        if (f) {
            fclose(f);
        }
        if (n == 2) {
            return true;
        }
        usleep(1000);
    }
    return false;
}

const char *netns_enter(unsigned scope[2])
{
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        return "no network namespace is allowed here";
    }
    if (!add_cable()) {
        return "this kernel makes no veth interface";
    }
    struct if_nameindex *list = if_nameindex();
    unsigned n = 0;
    for (const struct if_nameindex *i = list; list && i->if_index != 0; i++) {
        flags(i->if_index, IFF_UP);
        if (strcmp(i->if_name, "lo") != 0 && n < 2) {
            scope[n++] = i->if_index;
        }
    }
    if_freenameindex(list);
    return n == 2 && runs(scope[0]) && runs(scope[1]) && add_address(scope[0]) &&
                   add_address(scope[1]) && routed()
               ? NULL
               : "no IPv6 on interfaces of a namespace";
}

bool netns_loopback_mtu(int mtu)
{
    struct ifreq r = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    r.ifr_mtu = mtu;
    bool ok = fd >= 0 && ioctl(fd, SIOCSIFMTU, &r) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return ok;
}
