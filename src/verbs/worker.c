/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Workers: a loop and one staging area each; a connection belongs to one worker.
 */
#include "verbs/worker.h"
#include "base/budget.h"
#include "base/process.h"
#include "loop/loop.h"
#include "verbs/conn.h"
#include "verbs/conn_admit.h"
#include "verbs/conn_timer.h"
#include "verbs/defer.h"
#include "verbs/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One read takes at most this much: a quarter of a common L2 cache, see docs/copies.md. */
#define STAGING_BYTES (256u * 1024u)

static void left(void *worker)
{
    ((struct iwarp_worker *)worker)->seat = NULL;
}

/*
 * The loop ends. A loop runs as long as it has open handles, so a handle that is left open here
 * would keep the thread from ending.
 */
static void close_handles(void *worker)
{
    struct iwarp_worker *w = worker;

    iwarp_defer_drop_all(w);
    uv_close((uv_handle_t *)&w->timer, NULL);
    w->seat->stack->ops->leave(w->seat, left, w);
}

/* The timer is opened between open and launch, before the loop's thread runs. */
enum iwarp_status iwarp_worker_start(struct iwarp_worker *w, struct iwarp_device *device)
{
    const struct iwarp_loop_options options = {.uv = device->options.loop,
                                               .simulated = device->simulated,
                                               .open = device->polled,
                                               .look = device->options.look,
                                               .sleepers = &device->sleepers,
                                               .ending = close_handles,
                                               .ring = iwarp_defer_tick,
                                               .arg = w};

    w->device = device;
    pthread_mutex_init(&w->defer_lock, NULL); /* before the loop runs */
    w->staging_len = STAGING_BYTES;
    w->staging = malloc(w->staging_len);
    if (!w->staging) {
        return iwarp_fail(IWARP_NO_MEMORY, "no memory for a worker's staging area");
    }
    int rc = device->stack->ops->join(device->stack, &w->seat);
    if (rc == 0) {
        rc = iwarp_loop_open(&w->loop, &options);
        if (rc != 0) {
            device->stack->ops->leave(w->seat, left, w);
        }
    }
    if (rc == 0) {
        iwarp_worker_open_timer(w);
        device->stack->ops->sit(w->seat, w->loop.uv);
        rc = iwarp_loop_launch(&w->loop); /* on failure it has run close_handles */
    }
    if (rc != 0) {
        free(w->staging);
        errno = -rc;
        return iwarp_fail(rc == -ENOMEM ? IWARP_NO_MEMORY : IWARP_LIMIT,
                          "cannot start a worker and its event loop: %s", strerror(-rc));
    }
    pthread_mutex_init(&w->wait_lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    return IWARP_OK;
}

/* The loop has ended, so no thread can be inside any of these. */
static void fini(struct iwarp_worker *w)
{
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->wait_lock);
    pthread_mutex_destroy(&w->defer_lock);
    iwarp_spare_fini(&w->spare);
    free(w->staging);
}

/* Embedded: the application's loop goes on, and has closed the worker's handles before. */
void iwarp_worker_fini(struct iwarp_worker *w)
{
    iwarp_loop_fini(&w->loop);
    fini(w);
}

void iwarp_worker_stop(struct iwarp_worker *w)
{
    iwarp_loop_stop(&w->loop);
    fini(w);
}

/*
 * The one call that any thread may make at a device with embedded progress; so it checks for a fork
 * only, and not for the thread.
 */
enum iwarp_status iwarp_device_call(struct iwarp_device *device, void (*fn)(void *arg), void *arg)
{
    IWARP_UNCANCELLED;
    if (!iwarp_device_is_ours(device)) {
        return IWARP_MISUSE;
    }
    if (!device->embedded || !fn) {
        return iwarp_fail(IWARP_MISUSE, "iwarp_device_call needs %s",
                          fn ? "a device with embedded progress" : "a function");
    }
    return iwarp_loop_send(&device->worker[0].loop, fn, arg)
               ? IWARP_OK
               : iwarp_fail(IWARP_NO_MEMORY, "no memory for a call");
}

/* The reference is the task's: the connection cannot be freed before the worker has run it. */
void iwarp_worker_kick(struct iwarp_conn *conn)
{
    iwarp_conn_get(conn);
    iwarp_loop_post(&conn->worker->loop, &conn->kick);
}

/*
 * A crowd may drop a connection on any thread, but only the worker ends it. `leaving` counts the
 * connections on their way; the bound on connections does not count them.
 */
void iwarp_worker_turn_away(struct iwarp_conn *conn)
{
    atomic_fetch_add(&conn->device->leaving, 1);
    atomic_fetch_add(&conn->turned_away, 1);
    iwarp_loop_post(&conn->worker->loop, &conn->kick); /* with the reference of the crowd */
}
