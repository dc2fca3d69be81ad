/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a session may keep its place when others want one: it has some time in advance, waiting
 * for its client uses that up, and every octet that goes over its connection gives some back. So an
 * idle client, and one that sends a little now and then, has none left in the end, and one that
 * moves CP_PACE octets a millisecond or more keeps all of it. The time that the server itself takes
 * counts for nothing.
 *
 * Used by two threads: that of the session, and that which gives places away.
 */
#ifndef CP_STANDING_H
#define CP_STANDING_H

#include <iwarp/iwarp.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct cp_standing {
    pthread_mutex_t lock;
    struct iwarp_qp *qp; /* NULL: none yet, or no more */
    int64_t since_ms;    /* settled up to then */
    uint64_t octets;     /* of the connection, by then */
    int64_t left_ms;
    bool working; /* it is the server's turn */
};

/* A new client has CP_ASK_MS to ask for something. */
void cp_standing_begin(struct cp_standing *standing);

/* Count the octets of this queue pair from now on; NULL before it is destroyed. */
void cp_standing_watch(struct cp_standing *standing, struct iwarp_qp *qp);

/* The client has asked for something: it has CP_GRACE_MS now. */
void cp_standing_asked(struct cp_standing *standing);

/* The turn of the server begins or ends. */
void cp_standing_work(struct cp_standing *standing, bool working);

/* What is left; above CP_GRACE_MS while it is the server's turn. */
int64_t cp_standing_left(struct cp_standing *standing);

void cp_standing_end(struct cp_standing *standing);

#endif
