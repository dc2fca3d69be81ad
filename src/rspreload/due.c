/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets that may have something new are due. Their faces follow on the thread that runs the loop,
 * at the end of the turn in which a completion came: a program that sleeps in the kernel is woken
 * up by that thread, and by no other in between. Nothing here waits for a socket that a call uses;
 * that call looks on its way out (rs_unlock). What is due to a leader (lead.c) is in a list of its
 * own, which the leader takes itself.
 */
#include "base/task.h"
#include "rsocket/rs.h"
#include "rspreload/lead.h"

#include <sched.h>
#include <stddef.h>

struct rs_list {
    struct rs_link *first, **last;
    _Atomic unsigned count;
};

static void show_due(void *arg);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rs_list due, /* whose faces are to follow */
    led_due, led;          /* of the leader: what is due to it; all that it looks at itself */
static _Atomic int leading = RS_NO_SET;
static _Atomic unsigned news; /* how often one became due to a leader */
static _Atomic unsigned refs;
static struct iwarp_task task = {.run = show_due, .refs = &refs};

/* --- lists, with the lock held --------------------------------------------------------------- */

static void take_out(struct rs_link *link)
{
    if (link->list) {
        *link->at = link->next;
        *(link->next ? &link->next->at : &link->list->last) = link->at;
        atomic_fetch_sub(&link->list->count, 1);
        link->list = NULL;
    }
}

static void put_into(struct rs_list *list, struct rs_link *link)
{
    if (link->list == list) {
        return;
    }
    take_out(link);
    link->list = list;
    link->next = NULL;
    link->at = list->first ? list->last : &list->first;
    *link->at = link;
    list->last = &link->next;
    atomic_fetch_add(&list->count, 1);
    atomic_fetch_add(&news, list == &led_due);
}

/* The next one, which stays in memory until it is `seen`. offset: of its link. */
static struct rs *next(struct rs_list *list, size_t offset, struct rs *seen)
{
    struct rs *s = NULL;

    pthread_mutex_lock(&lock);
    if (seen) {
        seen->seeing--;
    }
    if (list->first) {
        s = (struct rs *)(void *)((char *)list->first - offset);
        s->seeing++;
        take_out(list->first);
    }
    pthread_mutex_unlock(&lock);
    return s;
}

/* --- the leader ------------------------------------------------------------------------------ */

bool rs_leads_for(int set)
{
    return set != RS_NO_SET && set == atomic_load(&leading);
}

bool rs_is_led(const struct rs *s)
{
    return rs_leads_for(atomic_load(&s->set));
}

/* Mostly the socket is in the right lists already, and the lock is not taken. If another thread
 * moves it meanwhile, it is looked at once more: rs_due and rs_lead_for set `look`, and the leader
 * looks at each socket that it takes out. */
bool rs_lead_it(struct rs *s, bool is_due)
{
    bool is_led, begins;

    if (rs_is_led(s) && atomic_load(&s->led.list) == &led &&
        is_due == (atomic_load(&s->due.list) == &led_due)) {
        return true;
    }
    pthread_mutex_lock(&lock);
    is_led = rs_is_led(s);
    begins = is_led && is_due && s->due.list != &led_due;
    if (is_led) {
        put_into(&led, &s->led);
    }
    if (is_led && is_due) {
        put_into(&led_due, &s->due);
    } else if (s->due.list == &led_due) {
        take_out(&s->due);
    }
    pthread_mutex_unlock(&lock);
    if (begins && s->device) {
        iwarp_compat_wake_leader(s->device);
    }
    return is_led;
}

/* On the way of each call on a socket, so not by the lock if nobody leads. What becomes the
 * leader's meanwhile by rs_due is looked at once more (`look`). */
void rs_lead_not(struct rs *s)
{
    if (atomic_load(&led.count) == 0 && atomic_load(&led_due.count) == 0) {
        return;
    }
    pthread_mutex_lock(&lock);
    take_out(&s->led);
    if (s->due.list == &led_due) {
        take_out(&s->due);
    }
    pthread_mutex_unlock(&lock);
}

struct rs *rs_led_next(struct rs *seen)
{
    return next(&led_due, offsetof(struct rs, due), seen);
}

void rs_led_seen(struct rs *s)
{
    pthread_mutex_lock(&lock);
    s->seeing--;
    pthread_mutex_unlock(&lock);
}

unsigned rs_led_count(void)
{
    return atomic_load(&led_due.count);
}

unsigned rs_led_news(void)
{
    return atomic_load(&news);
}

static void look(struct rs *s)
{
    atomic_store(&s->look, true);
    if (pthread_mutex_trylock(&s->lock) == 0) {
        rs_unlock(s);
    }
}

/* Some of the leader's sockets may be of the new set already, and come into the list again. */
void rs_lead_for(int set)
{
    struct rs *s = NULL;

    pthread_mutex_lock(&lock);
    unsigned left = atomic_exchange(&leading, set) != set ? atomic_load(&led.count) : 0;
    pthread_mutex_unlock(&lock);
    for (; left > 0 && (s = next(&led, offsetof(struct rs, led), s)); left--) {
        look(s);
    }
    if (s) {
        rs_led_seen(s);
    }
}

/* --- faces ----------------------------------------------------------------------------------- */

/* `look` comes first: a call that uses the socket now, and so takes it out again, has to look. A
 * leader may be away for long, so what is kept is not its matter alone. */
void rs_due(struct rs *s)
{
    bool is_led;

    atomic_store(&s->look, true);
    pthread_mutex_lock(&lock);
    is_led = rs_is_led(s) && !atomic_load(&s->keeps);
    put_into(is_led ? &led_due : &due, &s->due);
    if (is_led) {
        put_into(&led, &s->led);
    }
    pthread_mutex_unlock(&lock);
    if (is_led) {
        iwarp_compat_wake_leader(s->device);
    } else {
        atomic_fetch_add(&refs, 1);
        iwarp_compat_post_task(s->device, &task);
    }
}

static void show_due(void *arg)
{
    (void)arg;
    atomic_fetch_sub(&refs, 1);
    for (struct rs *s = NULL; (s = next(&due, offsetof(struct rs, due), s));) {
        look(s);
    }
}

/* --- the end of a socket --------------------------------------------------------------------- */

/* Its completion queue is gone, so nothing makes it due again. */
void rs_forget_due(struct rs *s)
{
    bool seen = false;

    while (!seen) {
        pthread_mutex_lock(&lock);
        take_out(&s->led);
        take_out(&s->due);
        seen = s->seeing == 0;
        pthread_mutex_unlock(&lock);
        if (!seen) {
            sched_yield();
        }
    }
}

/* The lock may be held by a thread that the child has not; the lists are the parent's. */
void rs_due_in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    due = led_due = led = (struct rs_list){0};
    leading = RS_NO_SET;
    refs = 0;
    task.queued = false;
}
