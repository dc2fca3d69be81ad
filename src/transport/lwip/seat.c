/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A worker's place at an interface.  Whoever runs the worker's loop reads the link, so that a
 * thread that polls gets its frames without a change of threads; and tells the endpoints of this
 * worker what has come for them, by notes.
 *
 * Every worker with an endpoint or listener reads, and the first of a device always does, since
 * lwIP answers for connections that are closed, too.  A frame may be read by one worker and be for
 * an endpoint of another; that one is woken up.
 */
#include "transport/lwip/core.h"

#include <errno.h>
#include <stdlib.h>

static struct iwarp_lw_seat *seat_of(struct iwarp_seat *seat)
{
    return (struct iwarp_lw_seat *)(void *)seat;
}

/* --- notes ----------------------------------------------------------------------------------- */

/* Any thread.  Several wake-ups before the worker comes are one. */
static void signal_seat(struct iwarp_lw_seat *s)
{
    if (!s->reading && !s->signalled) {
        s->signalled = true;
        uv_async_send(&s->wake);
    }
}

void iwarp_lw_note(struct iwarp_lw_note *note)
{
    struct iwarp_lw_seat *s = note->seat;

    if (!s) {
        return; /* whoever gets it looks at once */
    }
    if (!note->at) {
        note->next = NULL;
        note->at = s->last;
        *s->last = note;
        s->last = &note->next;
    }
    signal_seat(s);
}

void iwarp_lw_unnote(struct iwarp_lw_note *note)
{
    if (note->at) {
        *note->at = note->next;
        if (note->next) {
            note->next->at = note->at;
        } else {
            note->seat->last = note->at;
        }
        note->at = NULL;
    }
}

/*
 * As many as are there now, one at a time: each may close others.  What is noted meanwhile waits
 * for the next turn of the loop, so that no endpoint keeps the loop to itself.
 */
static void run_notes(struct iwarp_lw_seat *s)
{
    unsigned most = 0;

    LOCK_TCPIP_CORE();
    s->signalled = false;
    for (const struct iwarp_lw_note *note = s->notes; note; note = note->next) {
        most++;
    }
    for (struct iwarp_lw_note *note; most > 0 && (note = s->notes) != NULL; most--) {
        iwarp_lw_unnote(note);
        UNLOCK_TCPIP_CORE();
        note->run(note); /* it may be gone from here on */
        LOCK_TCPIP_CORE();
    }
    if (s->notes) {
        signal_seat(s);
    }
    UNLOCK_TCPIP_CORE();
}

/* --- reading the link ------------------------------------------------------------------------ */

static void on_poll(uv_poll_t *poll, int status, int events);

/* On the worker.  Level-triggered, but for room, which is asked for once. */
static void watch(struct iwarp_lw_seat *s)
{
    int events = s->users > 0 || s->first ? UV_READABLE : 0;

    LOCK_TCPIP_CORE();
    s->reads = events != 0;
    bool full = s->netif->full && !s->netif->link->ops->asleep;
    UNLOCK_TCPIP_CORE();
    events |= events && full ? UV_WRITABLE : 0;
    if (s->polled && events != s->events) {
        s->events = events;
        if (events) {
            uv_poll_start(&s->poll, events, on_poll);
        } else {
            uv_poll_stop(&s->poll);
        }
    }
}

/* On the worker. */
static void read_link(struct iwarp_lw_seat *s, bool room)
{
    LOCK_TCPIP_CORE();
    s->reading = true;
    (void)iwarp_lw_netif_input(s->netif);
    if (room && s->netif->full) {
        iwarp_lw_netif_resume(s->netif);
    }
    s->reading = false;
    bool down = s->netif->down;
    UNLOCK_TCPIP_CORE();
    if (down && s->polled) { /* its end would be reported without end */
        uv_poll_stop(&s->poll);
        s->polled = false;
    }
    run_notes(s);
    watch(s);
}

/* A doorbell does not say whether it is about frames or room. */
static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct iwarp_lw_seat *s = poll->data;
    const struct iwarp_link_ops *link = s->netif->link->ops;

    if (status < 0) {
        s->events = 0; /* libuv has stopped watching; the next call on the link says why */
    }
    if (link->awake) {
        link->awake(s->netif->link);
    }
    read_link(s, link->awake || (events & UV_WRITABLE) || status < 0);
}

/* The loop may sleep now: not while frames are in the ring. */
static void on_prepare(uv_prepare_t *prepare)
{
    struct iwarp_lw_seat *s = prepare->data;

    if ((s->users > 0 || s->first) && !s->netif->link->ops->asleep(s->netif->link)) {
        read_link(s, false);
        if (!s->netif->link->ops->asleep(s->netif->link)) {
            uv_async_send(&s->wake); /* there is more already: the loop comes back at once */
        }
    }
}

static void on_wake(uv_async_t *wake)
{
    struct iwarp_lw_seat *s = wake->data;

    run_notes(s);
    watch(s);
}

/*
 * For an endpoint that finds nothing to read: with frames that wait it spares the loop.  Notes of
 * others that came of it are for the loop.
 */
void iwarp_lw_seat_look(struct iwarp_lw_seat *s, struct iwarp_lw_note *who)
{
    bool was = s->reading;

    s->reading = true;
    (void)iwarp_lw_netif_input(s->netif);
    s->reading = was;
    iwarp_lw_unnote(who);
    if (s->notes) {
        signal_seat(s);
    }
}

/* --- its life -------------------------------------------------------------------------------- */

void iwarp_lw_seat_use(struct iwarp_lw_seat *s, int change)
{
    s->users += (unsigned)change;
    watch(s);
}

int iwarp_lw_seat_join(struct iwarp_stack *base, struct iwarp_seat **seat)
{
    struct iwarp_lw_stack *stack = (struct iwarp_lw_stack *)(void *)base;
    struct iwarp_lw_seat *s = calloc(1, sizeof *s);

    if (!s) {
        return -ENOMEM;
    }
    s->base.stack = base;
    s->netif = stack->netif;
    s->last = &s->notes;
    s->first = !stack->seated;
    stack->seated = true;
    *seat = &s->base;
    return 0;
}

/*
 * If the link's descriptor cannot be watched, frames are read whenever the loop runs for another
 * reason, and `watch` finds nothing to start.
 */
void iwarp_lw_seat_sit(struct iwarp_seat *seat, uv_loop_t *loop)
{
    struct iwarp_lw_seat *s = seat_of(seat);

    s->base.loop = loop;
    (void)uv_async_init(loop, &s->wake, on_wake); /* cannot fail: the loop has another one */
    uv_prepare_init(loop, &s->prepare);
    s->wake.data = s->prepare.data = s;
    s->handles = 2;
    if (uv_poll_init(loop, &s->poll, s->netif->link->fd) == 0) {
        s->poll.data = s;
        s->polled = true;
        s->handles = 3;
    }
    if (s->netif->link->ops->asleep) {
        uv_prepare_start(&s->prepare, on_prepare);
    }
    LOCK_TCPIP_CORE();
    s->next = s->netif->seats;
    s->netif->seats = s;
    UNLOCK_TCPIP_CORE();
    watch(s);
}

static void on_closed(uv_handle_t *handle)
{
    struct iwarp_lw_seat *s = handle->data;

    if (--s->handles == 0) {
        void (*left)(void *arg) = s->left;
        void *arg = s->left_arg;
        free(s);
        left(arg);
    }
}

/* No endpoint and no acceptor of it is left. */
void iwarp_lw_seat_leave(struct iwarp_seat *seat, void (*left)(void *arg), void *arg)
{
    struct iwarp_lw_seat *s = seat_of(seat);

    if (!s->base.loop) {
        free(s);
        left(arg);
        return;
    }
    LOCK_TCPIP_CORE();
    struct iwarp_lw_seat **at = &s->netif->seats;
    while (*at != s) {
        at = &(*at)->next;
    }
    *at = s->next;
    UNLOCK_TCPIP_CORE();
    s->left = left;
    s->left_arg = arg;
    if (s->handles == 3) {
        uv_close((uv_handle_t *)&s->poll, on_closed);
    }
    uv_close((uv_handle_t *)&s->prepare, on_closed);
    uv_close((uv_handle_t *)&s->wake, on_closed);
}
