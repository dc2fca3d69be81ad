/* SPDX-License-Identifier: BSD-2-Clause */
/* What lead.c, where the table is, needs of face.c and due.c. */
#ifndef IWARP_RSPRELOAD_LEAD_H
#define IWARP_RSPRELOAD_LEAD_H

#include "rsocket/rs.h"

/* --- face.c, with the socket's lock held ----------------------------------------------------- */

#define RS_ALWAYS ((uint32_t)(EPOLLERR | EPOLLHUP))

/* The kernel's set watches the face as the socket is watched, or not. 0 or -1: errno. */
int rs_watch_in_kernel(struct rs *s, bool watch);

int rs_ask_kernel(int set, int op, int number, struct epoll_event *event); /* its epoll_ctl */

/* What the set is to be told: with EPOLLET, if there is more than it was told before. */
uint32_t rs_news_of(struct rs *s);

/* Without the lock: how often a face has followed; the device of all rsockets, NULL: there are
 * none. */
unsigned rs_shown(void);
struct iwarp_device *rs_watched_device(void);

/* --- due.c ----------------------------------------------------------------------------------- */

/* Does a thread lead for that set? For its set? */
bool rs_leads_for(int set);
bool rs_is_led(const struct rs *s);

/*
 * The same; and if so, it is one of the leader's sockets, and due or not. The socket's lock is
 * held. A thread that leads for another set from now on sees what this call did, or the reverse.
 */
bool rs_lead_it(struct rs *s, bool due);

/* It is not one of the leader's sockets. */
void rs_lead_not(struct rs *s);

/* The next one that is due to the leader. It stays in memory until it is `seen`. */
struct rs *rs_led_next(struct rs *seen);
void rs_led_seen(struct rs *s);
unsigned rs_led_count(void); /* how many are due */
unsigned rs_led_news(void);  /* how often one became due */

#endif
