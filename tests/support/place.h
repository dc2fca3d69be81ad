/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where devices and raw peers of a test are.  Both are 127.0.0.1 with kernel TCP.  Behind a tap
 * (tests/support/on-a-tap) the devices are lwIP at one side, and sockets, which are the kernel's,
 * at the other: TEST_DEVICE and TEST_PEER name them.
 */
#ifndef TESTS_PLACE_H
#define TESTS_PLACE_H

#include <netinet/in.h>
#include <stdbool.h>

struct in_addr place_of_device(void);
struct in_addr place_of_peer(void);

/* The host-th of the peers' addresses, from 1 on: 127.0.0.host, or what stands for it. */
struct in_addr place_of_host(unsigned host);

/* Are they different?  Then the window, memory and clocks of connections are lwIP's. */
bool place_is_lwip(void);

#endif
