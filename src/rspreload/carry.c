/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An rsocket whose octets threads of the preload library carry (preload/relay.c): from then on they
 * alone read it. Other threads that wait for it leave, and go on at the socket pair:
 *
 *   | what waits                  | how it leaves                                                |
 *   |-----------------------------|--------------------------------------------------------------|
 *   | a call that reads           | EBADF; octets that it has taken already stay its own         |
 *   | a call that writes          | it does not: both write, in pieces, as on a socket of TCP    |
 *   | a thread that leads         | nothing comes any more, so in 4 ms it waits in the kernel    |
 *   | a thread in the kernel's    | it waits for the old face; whenever the bell rings the       |
 *   | poll or select              | kernel looks at all numbers, so at the new face              |
 */
#include "base/process.h"
#include "rsocket/rs.h"
#include "rspreload/adopt.h"
#include "rspreload/lead.h"

#include <unistd.h>

void iwarp_rs_carrier(void)
{
    rs_carries = true;
}

int iwarp_rs_carry(int fd)
{
    IWARP_UNCANCELLED;
    struct rs *s = rs_take(fd);
    int bell;

    if (!s) {
        return -1;
    }
    s->carried = true;
    (void)rs_watch_in_kernel(s, false);
    rs_lead_not(s);
    atomic_store(&s->set, RS_NO_SET);
    atomic_store(&s->watched, false);
    bell = s->behind;
    if (s->face >= 0) {
        close(s->face);
    }
    s->face = s->behind = -1;
    rs_wake(s);
    rs_give_back(s);
    return bell;
}
