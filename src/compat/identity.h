/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the device is told apart by: a MAC address, from which GUID and GID are made, and the MTU
 * that it reports. The MAC is that of the first interface that has one; else one of the range for
 * local use, made from the machine id, so that it is the same each time.
 */
#ifndef IWARP_COMPAT_IDENTITY_H
#define IWARP_COMPAT_IDENTITY_H

#include <infiniband/verbs.h>
#include <stdint.h>

__be64 iwarp_compat_guid(void);                  /* EUI-64 of the MAC */
void iwarp_compat_gid(union ibv_gid *gid);       /* the MAC, then zeros, as RNICs have it */
enum ibv_mtu iwarp_compat_mtu(unsigned *octets); /* the interface's as one of the five */

/* For tests: of these octets instead of the machine id. */
void iwarp_compat_mac_of_machine(const char *machine_id, uint8_t mac[6]);

#endif
