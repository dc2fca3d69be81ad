/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When a program is told that a connection is over.  Programs answer DISCONNECTED by destroying the
 * queue pair, which discards its completions, and a thread that the system has kept from running
 * may find the event before the last message: libfabric's rxm then waits for that message for ever.
 * So the event waits until the program has polled the completions of success, but not for long.
 *
 *   | state  | event                                     | action               | state  |
 *   |--------|-------------------------------------------|----------------------|--------|
 *   | begin  | over; completions wait, the program has   | look again in 1 ms   | held   |
 *   |        | a channel, did not disconnect itself, and |                      |        |
 *   |        | fewer than MOST ids are held              |                      |        |
 *   | begin  | over, otherwise                           | tell                 | told   |
 *   | held   | a look: completions wait, fewer than      | look again in twice  | held   |
 *   |        | LOOKS looks                               | the time             |        |
 *   | held   | a look: none waits, or LOOKS looks        | tell                 | told   |
 *   | held   | the id moves to another channel           | tell; the event      | told   |
 *   |        |                                           | moves with the id    |        |
 *   | held   | the id ends                               | none                 | (gone) |
 *   | held   | a fork, in the child                      | none: the parent     | (gone) |
 *   |        |                                           | still holds the id   |        |
 *
 * Owner: the thread of native events (cm_engine.c) looks; any thread with cm_lock held moves and
 * ends ids.  Invariant: an id is in `held` exactly while `over_looks` is not 0.
 */
#include "compat/cm.h"

#define LOOKS 7  /* after 1, 3, 7 ... 127 ms */
#define MOST  64 /* held at the same time; each look goes through completion queues */

static struct cm_id *held; /* both under cm_lock */
static unsigned count;

static void look_later(struct cm_id *id)
{
    id->over_ms = compat_now_ms() + (INT64_C(1) << id->over_looks++);
}

static void hold(struct cm_id *id)
{
    id->over_next = held;
    held = id;
    count++;
    look_later(id);
}

void cm_over_forget(struct cm_id *id)
{
    if (id->over_looks == 0) {
        return;
    }
    struct cm_id **at = &held;
    while (*at != id) {
        at = &(*at)->over_next;
    }
    *at = id->over_next;
    id->over_looks = 0;
    count--;
}

void cm_over_forget_all(void)
{
    for (; held; held = held->over_next) {
        held->over_looks = 0;
    }
    count = 0;
}

static void tell(struct cm_id *id)
{
    cm_over_forget(id);
    (void)cm_event_tell(id, RDMA_CM_EVENT_DISCONNECTED, 0);
}

void cm_over_now(struct cm_id *id)
{
    if (id->over_looks > 0) {
        tell(id);
    }
}

void cm_over(struct cm_id *id)
{
    const bool by_peer = id->state != CM_DISCONNECTING;

    id->state = CM_OVER;
    if (by_peer && !id->sync && count < MOST && iwarp_compat_unpolled(id->conn)) {
        hold(id);
    } else {
        tell(id);
    }
}

int cm_over_look(void)
{
    int64_t next = INT64_MAX;

    cm_hold();
    const int64_t now = compat_now_ms();
    for (struct cm_id *id = held; id;) {
        struct cm_id *behind = id->over_next;
        if (id->over_ms <= now) {
            if (id->over_looks < LOOKS && iwarp_compat_unpolled(id->conn)) {
                look_later(id);
            } else {
                tell(id);
            }
        }
        if (id->over_looks > 0 && id->over_ms < next) {
            next = id->over_ms;
        }
        id = behind;
    }
    cm_release();
    return next == INT64_MAX ? -1 : next > now ? (int)(next - now) : 0;
}
