/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets by their numbers. The numbers are descriptors of the system, so that none is given twice.
 */
#include "rsocket/rs.h"

#include "base/process.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define PAGE 1024

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rs **pages[1024];       /* a million descriptors */
static _Thread_local unsigned inside; /* sockets that this thread uses, and the table */

/* A handler of a signal that calls exit may come anywhere: `inside` covers the lock. */
static void hold_table(void)
{
    inside++;
    pthread_mutex_lock(&table_lock);
}

static void release_table(void)
{
    pthread_mutex_unlock(&table_lock);
    inside--;
}

/* A fork waits for the table, so that the child has one that can be used. */
static void before_fork(void)
{
    rs_lead_for(RS_NO_SET); /* a child has the epoll sets, too */
    pthread_mutex_lock(&table_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&table_lock);
}

static void after_fork_in_child(void)
{
    after_fork();
    rs_engine_in_child();
    rs_due_in_child();
    rs_send_in_child();
    rs_stand_in_child();
}

static void begin_to_watch(void)
{
    (void)iwarp_compat_generation(); /* its handlers first: see there */
    (void)pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

void rs_watch_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, begin_to_watch);
}

/* table_lock held. */
static struct rs **slot(int fd, bool make)
{
    size_t page = (size_t)fd / PAGE;

    if (fd < 0 || page >= sizeof pages / sizeof pages[0]) {
        return NULL;
    }
    if (!pages[page] && make) {
        pages[page] = calloc(PAGE, sizeof *pages[page]);
    }
    return pages[page] ? &pages[page][fd % PAGE] : NULL;
}

/* Buffers as long as rdma-core's, a quarter of these, have both ends wait for each other: see
 * docs/notes/2026-11-24-sockets.md. Memory that was never reached is not there. */
static void defaults(struct rs *s, const struct rs *like)
{
    s->sq_size = like ? like->sq_size : 384;
    s->rq_size = like ? like->rq_size : 384;
    s->send_len = like ? like->send_len : 1 << 19;
    s->receive_len = like ? like->receive_len : 1 << 19;
    s->receive_fixed = like && like->receive_fixed;
    s->map_size = like ? like->map_size : 0;
}

struct rs *rs_new(int fd, int family, const struct rs *like)
{
    struct rs *s = calloc(1, sizeof *s), **at;

    rs_watch_forks();
    if (!s) {
        errno = ENOMEM;
        return NULL;
    }
    s->fd = fd;
    s->family = family;
    s->face = s->behind = -1;
    s->set = RS_NO_SET;
    s->born = iwarp_compat_generation();
    s->last_request = &s->requests;
    defaults(s, like);
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->wake_lock, NULL);
    s->uses = 1;
    inside++;
    pthread_mutex_lock(&s->lock); /* nobody knows it yet */
    hold_table();
    at = slot(fd, true);
    if (at) {
        *at = s; /* what a parent had there, or what somebody closed without us, is gone */
    }
    release_table();
    if (!at) {
        inside--;
        pthread_mutex_unlock(&s->lock);
        free(s);
        errno = EMFILE;
        return NULL;
    }
    return s;
}

struct rs *rs_take(int fd)
{
    struct rs **at, *s = NULL;

    hold_table();
    at = slot(fd, false);
    if (at && *at && (*at)->born == iwarp_compat_generation()) {
        s = *at;
        s->uses++;
        inside++;
    }
    release_table();
    if (!s) {
        errno = EBADF;
        return NULL;
    }
    pthread_mutex_lock(&s->lock);
    if (s->closed) {
        rs_give_back(s);
        errno = EBADF;
        return NULL;
    }
    return s;
}

/* One that was closed may have to send what it keeps, until the engine frees its queue. */
void rs_look(struct rs *s)
{
    if (atomic_exchange(&s->look, false) && !s->gone && s->cq) {
        iwarp_compat_arm_aside(s->cq); /* before the look: what comes later makes it due again */
        rs_progress(s);
    }
}

/* Something may come between the look and the unlocking, whose thread has not waited (due.c). The
 * caller's errno stays. */
void rs_unlock(struct rs *s)
{
    int error = errno;

    do {
        rs_look(s);
        rs_show(s);
        pthread_mutex_unlock(&s->lock);
    } while (atomic_load(&s->look) && pthread_mutex_trylock(&s->lock) == 0);
    if (atomic_load(&s->event_waits)) {
        rs_events_take();
    }
    errno = error;
}

void rs_give_back(struct rs *s)
{
    rs_unlock(s);
    rs_done(s);
}

void rs_done(struct rs *s)
{
    atomic_fetch_sub(&s->uses, 1); /* it may be gone from here on */
    inside--;
}

bool rs_is_inside(void)
{
    return inside > 0;
}

bool rs_drop(struct rs *s)
{
    struct rs **at;
    bool mine;

    hold_table();
    at = slot(s->fd, false);
    mine = at && *at == s;
    if (mine) {
        *at = NULL;
    }
    release_table();
    return mine;
}

bool rs_is_of_parent(int fd)
{
    struct rs **at;
    bool is;

    hold_table();
    at = slot(fd, false);
    is = at && *at && (*at)->born != iwarp_compat_generation();
    release_table();
    return is;
}

/* Its memory stays: its locks may be held by threads that this process does not have. */
void rs_forget_of_parent(int fd)
{
    IWARP_UNCANCELLED;
    struct rs **at;

    hold_table();
    at = slot(fd, false);
    if (at && *at && (*at)->born != iwarp_compat_generation()) {
        if ((*at)->face >= 0) {
            close((*at)->face);
            close((*at)->behind);
        }
        *at = NULL;
    }
    release_table();
}

bool rs_is_used(struct rs *s)
{
    return atomic_load(&s->uses) > 0;
}

void rs_close_all(void)
{
    for (int fd = 0; fd < (int)(sizeof pages / sizeof pages[0]) * PAGE; fd++) {
        if (!pages[fd / PAGE]) {
            fd += PAGE - 1;
        } else {
            struct rs *s = rs_take(fd);
            if (s && s->adopting) { /* its thread goes on; nothing was written */
                rs_give_back(s);
            } else if (s) { /* a thread may be about to use the number, and another to make one */
                rs_end(s, true);
            }
        }
    }
}
