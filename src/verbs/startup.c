/* SPDX-License-Identifier: BSD-2-Clause */
/* See startup.h.  What happens during the start-up is in conn_setup.c. */
#include "verbs/startup.h"
#include "base/memory.h"

#include <stdlib.h>
#include <unistd.h>

/*
 * Only an initiator needs room for the frame that it sends, at the end of the block: a responder's
 * Reply is laid out on the stack. So a flood of inbound start-ups costs that much less memory.
 */
struct iwarp_startup *iwarp_startup_new(enum iwarp_startup_origin origin)
{
    bool initiator = origin == STARTUP_OVER || origin == STARTUP_CONNECTS;
    struct iwarp_startup *s = iwarp_calloc(1, sizeof *s + (initiator ? IWARP_MPA_FRAME_MAX : 0));

    if (s) {
        s->origin = origin;
        s->spare_fd = -1;
    }
    return s;
}

/*
 * A socket of the application that it has not taken back is closed here: nobody else can reach it.
 * The descriptor of an accepted socket is not left over: the first kick takes it over or closes it.
 */
void iwarp_startup_free(struct iwarp_startup *s)
{
    if (!s) {
        return;
    }
    if (s->spare_fd >= 0) {
        close(s->spare_fd);
    }
    free(s->spare);
    free(s);
}
