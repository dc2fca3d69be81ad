/* SPDX-License-Identifier: BSD-2-Clause */
/* See places.h. */
#include "places.h"

#include "net.h"

#include <stdlib.h>

bool cp_places_begin(struct cp_places *places, unsigned max, unsigned share)
{
    *places = (struct cp_places){.max = max, .room = 2 * max};
    places->share = share > 0 ? share : max - max / 4;
    places->at = calloc(places->room, sizeof(struct cp_session *));
    return places->at != NULL;
}

void cp_places_end(struct cp_places *places)
{
    free(places->at);
    places->at = NULL;
}

/* The session that has been of no use for the longest time, of one address or of all. */
static struct cp_session *least_useful(const struct cp_places *places, const struct sockaddr *of)
{
    struct cp_session *least = NULL;
    int64_t least_left = 0;

    for (unsigned i = 0; i < places->room; i++) {
        struct cp_session *session = places->at[i];
        if (!session || session->leaving ||
            (of && !cp_net_is_same_host(of, (const struct sockaddr *)&session->from))) {
            continue;
        }
        int64_t left = cp_standing_left(&session->standing);
        if (left < least_left) {
            least = session;
            least_left = left;
        }
    }
    return least;
}

struct cp_session **cp_places_find(struct cp_places *places, const struct sockaddr *from)
{
    struct cp_session **free_place = NULL;
    unsigned taken = 0, shared = 0;

    for (unsigned i = 0; i < places->room; i++) {
        struct cp_session *session = places->at[i];
        if (!session) {
            free_place = free_place ? free_place : &places->at[i];
        } else if (!session->leaving) {
            taken++;
            shared += cp_net_is_same_host(from, (const struct sockaddr *)&session->from);
        }
    }
    bool is_share_taken = shared >= places->share;
    if (free_place && (is_share_taken || taken >= places->max)) {
        struct cp_session *leaves = least_useful(places, is_share_taken ? from : NULL);
        if (!leaves) {
            return NULL;
        }
        cp_session_stop(leaves, CP_DISPLACED);
    }
    return free_place;
}

void cp_places_join(struct cp_places *places, bool all)
{
    for (unsigned i = 0; i < places->room; i++) {
        if (places->at[i] && (all || places->at[i]->finished)) {
            cp_session_join(places->at[i]);
            places->at[i] = NULL;
        }
    }
}

void cp_places_stop(struct cp_places *places)
{
    for (unsigned i = 0; i < places->room; i++) {
        if (places->at[i]) {
            cp_session_stop(places->at[i], CP_SHUTDOWN);
        }
    }
}
