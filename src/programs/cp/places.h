/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server has a number of places; each connected client takes one. This decides whether a new
 * client gets a place.
 *
 * Invariant: clients that are idle or send little cannot keep others out, whether they come from
 * one address or from many. When all places are taken, the server ends the session that used up its
 * time (standing.h) first, and the newcomer gets that place. An address never has more places than
 * its share: beyond it, a new client of that address can only displace another of the same address.
 * An IPv6 address counts with the whole /64 that it is in, for that is what one machine may have.
 */
#ifndef CP_PLACES_H
#define CP_PLACES_H

#include "session.h"

struct cp_places {
    struct cp_session **at; /* room of them; NULL: free */
    unsigned room;          /* twice max: those that are leaving have not left yet */
    unsigned max;
    unsigned share; /* of one address, at most */
};

/* share 0: three quarters of max. False without memory. */
bool cp_places_begin(struct cp_places *places, unsigned max, unsigned share);
void cp_places_end(struct cp_places *places);

/* Where a client from this address goes, which may displace another one; NULL: nowhere. */
struct cp_session **cp_places_find(struct cp_places *places, const struct sockaddr *from);

/* Take leave of the sessions that have ended; all: of every one, which must have been told. */
void cp_places_join(struct cp_places *places, bool all);

/* Tell all sessions to end. */
void cp_places_stop(struct cp_places *places);

#endif
