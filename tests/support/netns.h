/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A network namespace of the test's own, with two interfaces: the ends of one cable (veth). Both
 * have the link-local address fe80::1, so that only the scope tells them apart.
 */
#ifndef TESTS_NETNS_H
#define TESTS_NETNS_H

#include <stdbool.h>

/*
 * Move the calling thread, and the threads that it starts, into a new namespace. scope[] gets the
 * numbers of the interfaces. NULL, or why it is not possible here.
 */
const char *netns_enter(unsigned scope[2]);

/* In such a namespace: the largest packet that goes over loopback, from now on. */
bool netns_loopback_mtu(int mtu);

#endif
