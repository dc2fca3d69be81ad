/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The two sides of a connection. Calls nothing of the plugin, so that every file may ask. */
#include "state.h"

bool iwarp_is_initiator(const struct iwarp_conn *c, unsigned side)
{
    return c->walk.has_initiator && c->walk.initiator == side;
}

unsigned iwarp_responder(const struct iwarp_conn *c)
{
    if (c->walk.has_initiator) {
        return 1 - c->walk.initiator;
    }
    return c->port[0] < c->port[1] ? 0 : 1;
}

/* By address and port, so that equal ports on both ends do no harm. */
unsigned iwarp_side_of(const struct iwarp_conn *c, packet_info *pinfo)
{
    return c->port[0] == pinfo->srcport && addresses_equal(&c->addr[0], &pinfo->src) ? 0 : 1;
}
