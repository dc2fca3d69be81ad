/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What devices are told apart by: a name, a MAC address, from which the GUID is made, and the
 * MTU that is reported. There is one device for all addresses of this machine, or one for each
 * interface (IWARP_DEVICES). A device without a MAC of its own gets one of the range for local use,
 * made from the machine id and the interface's name, so that it is the same each time.
 */
#ifndef IWARP_COMPAT_IDENTITY_H
#define IWARP_COMPAT_IDENTITY_H

#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { COMPAT_MAC_OCTETS = 6 };

struct compat_identity {
    char name[IBV_SYSFS_NAME_MAX]; /* of the device */
    char interface[IF_NAMESIZE];   /* the only one whose addresses it has; "": of all */
    uint8_t mac[COMPAT_MAC_OCTETS];
    unsigned mtu; /* octets */
};

/*
 * IWARP_PERSONA=roce: devices pose as RoCE adapters, for programs that take no iWARP (UCX). They
 * say so in the string of their firmware's version.
 */
bool iwarp_compat_poses_as_roce(void);

/* All of them, in order, looked for by the first call; returns how many, at least one. */
unsigned iwarp_compat_identities(const struct compat_identity **all);

/* Which of them has this local address; 0, the first one, if none has it. */
unsigned iwarp_compat_identity_at(const struct sockaddr *addr);

__be64 iwarp_compat_guid(const struct compat_identity *identity); /* EUI-64 of the MAC */
/* The interface's as one of the five. */
enum ibv_mtu iwarp_compat_mtu(const struct compat_identity *identity);

/* For tests: of these octets instead of the machine id. */
void iwarp_compat_mac_of_machine(const char *machine_id, uint8_t mac[COMPAT_MAC_OCTETS]);

#endif
