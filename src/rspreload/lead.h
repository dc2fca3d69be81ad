/* SPDX-License-Identifier: BSD-2-Clause */
/* Between due.c, where the lists are, lead.c, where the tables are, and face.c. */
#ifndef IWARP_RSPRELOAD_LEAD_H
#define IWARP_RSPRELOAD_LEAD_H

#include "rsocket/rs.h"

/* The face shows what poll would say. True: that is news. The socket's lock is held. */
bool rs_face_follow(struct rs *s);

/* Is its set the one that a thread leads for? */
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

/* A thread leads for that set from now on; RS_NO_SET: none does. */
void rs_lead_for(int set);

#endif
