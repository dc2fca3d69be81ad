/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections in epoll sets that were accepted, and whose client has sent nothing yet. The kernel
 * shows them once a Request comes, which is nothing for the program: it would read, and wait for a
 * message. poll and select have start_hides for each number; of epoll's events only what the
 * program gave with a number is known (`data`). Two numbers may have the same. So an event is
 * hidden only where the kernel tells again of what is still there: not where it tells of news
 * alone, or once. Programs that ask for these read without waiting, and find nothing.
 */
#ifndef IWARP_PRELOAD_ARRIVALS_H
#define IWARP_PRELOAD_ARRIVALS_H

#include <stdbool.h>
#include <sys/epoll.h>

/* Is a number that is watched so one of these, as long as it is not decided about? */
bool arrivals_concern(const struct epoll_event *event);

/*
 * Takes the Requests out of n events of a set, and decides about their connections: their own
 * events come at the next wait. Returns how many are left. *part, which is false before: of one
 * there is part of the key only.
 */
int arrivals_hide(int epoll, struct epoll_event *events, int n, bool *part);

#endif
