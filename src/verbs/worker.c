/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Workers: one libuv loop and one staging area each; a connection belongs to one worker. Others
 * reach a worker in two ways: a call that they wait for, and a kick that makes it look at a
 * connection. Which thread runs the loop, and when: progress.c.
 */
#include "base/log.h"
#include "verbs/conn_admit.h"
#include "verbs/verbs.h"
#include "verbs/wake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One read takes at most this much: a quarter of a common L2 cache, see docs/copies.md. */
#define STAGING_BYTES (256u * 1024u)

struct iwarp_call {
    void (*fn)(void *arg);
    void *arg;
    bool done;
    bool waited_for; /* lies on the caller's stack; else it is freed here */
    struct iwarp_call *next;
};

void iwarp_worker_run_calls(struct iwarp_worker *w)
{
    pthread_mutex_lock(&w->lock);
    while (w->calls) {
        struct iwarp_call *call = w->calls;
        w->calls = call->next;
        bool waited_for = call->waited_for;
        pthread_mutex_unlock(&w->lock);
        call->fn(call->arg);
        pthread_mutex_lock(&w->lock);
        if (waited_for) {
            call->done = true; /* it may be gone from the next unlocking on */
            pthread_mutex_unlock(&w->lock);
            pthread_cond_broadcast(&w->finished); /* not with the lock, which they want */
            pthread_mutex_lock(&w->lock);
        } else {
            free(call);
        }
    }
    pthread_mutex_unlock(&w->lock);
}

static void run_kicks(struct iwarp_worker *w)
{
    pthread_mutex_lock(&w->lock);
    struct iwarp_conn *list = w->kicked;
    w->kicked = NULL;
    while (list) {
        struct iwarp_conn *conn = list;
        list = conn->next_kicked;
        conn->kicked = false;
        pthread_mutex_unlock(&w->lock);
        iwarp_conn_kicked(conn);
        iwarp_conn_put(conn);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
}

static void on_wake(uv_async_t *wake)
{
    struct iwarp_worker *w = wake->data;

    iwarp_worker_run_calls(w);
    run_kicks(w);
    pthread_mutex_lock(&w->lock);
    bool stop = w->stop && !w->kicked && !w->calls;
    pthread_mutex_unlock(&w->lock);
    if (stop) {
        uv_close((uv_handle_t *)&w->timer, NULL);
        uv_close((uv_handle_t *)&w->limit, NULL);
        uv_close((uv_handle_t *)wake, NULL); /* the loop ends when its last handle is closed */
    }
}

/*
 * The first loop of a process makes a pipe of libuv's own, and libuv aborts the process when it
 * cannot have it: look first whether there are descriptors.
 */
static int init_loop(uv_loop_t *loop)
{
    int first[2], second[2];

    if (pipe2(first, O_CLOEXEC) != 0) {
        return -errno;
    }
    int rc = pipe2(second, O_CLOEXEC) != 0 ? -errno : 0;
    if (rc == 0) {
        close(second[0]);
        close(second[1]);
    }
    close(first[0]);
    close(first[1]);
    return rc < 0 ? rc : uv_loop_init(loop);
}

static void init_locks(struct iwarp_worker *w)
{
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->finished, NULL);
    pthread_mutex_init(&w->wait_lock, NULL);
    pthread_cond_init(&w->changed, NULL);
}

enum iwarp_status iwarp_worker_start(struct iwarp_worker *w, struct iwarp_device *device)
{
    w->device = device;
    w->progress = device->options.progress;
    atomic_init(&w->polled, w->progress == IWARP_PROGRESS_POLLED);
    w->loop = device->options.loop ? device->options.loop : &w->own;
    w->staging_len = STAGING_BYTES;
    w->staging = malloc(w->staging_len);
    if (!w->staging) {
        return iwarp_fail(IWARP_NO_MEMORY, "no memory for a worker's staging area");
    }
    int rc = w->loop == &w->own ? init_loop(w->loop) : 0;
    if (rc < 0) {
        free(w->staging);
        errno = -rc;
        return iwarp_fail(IWARP_LIMIT, "cannot create an event loop: %s", uv_strerror(rc));
    }
    init_locks(w);
    rc = uv_async_init(w->loop, &w->wake, on_wake);
    w->wake.data = w;
    if (rc == 0) {
        iwarp_worker_open_timer(w);
        rc = iwarp_worker_launch(w);
        if (rc != 0) {
            uv_close((uv_handle_t *)&w->timer, NULL);
            uv_close((uv_handle_t *)&w->limit, NULL);
            uv_close((uv_handle_t *)&w->wake, NULL);
            uv_run(w->loop, UV_RUN_DEFAULT);
        }
    }
    if (rc != 0) {
        if (w->loop == &w->own) {
            uv_loop_close(w->loop);
        }
        iwarp_worker_fini(w);
        errno = -rc;
        return iwarp_fail(IWARP_LIMIT, "cannot start a worker: %s", strerror(-rc));
    }
    return IWARP_OK;
}

void iwarp_worker_fini(struct iwarp_worker *w)
{
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->wait_lock);
    pthread_cond_destroy(&w->finished);
    pthread_mutex_destroy(&w->lock);
    iwarp_spare_fini(&w->spare);
    free(w->staging);
}

void iwarp_worker_stop(struct iwarp_worker *w)
{
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_mutex_unlock(&w->lock);
    iwarp_worker_wake(w);
    iwarp_worker_join(w);
    int rc = uv_loop_close(w->loop);
    if (rc != 0) {
        iwarp_log(IWARP_LOG_ERROR, "worker", "event loop did not close: %s", uv_strerror(rc));
    }
    iwarp_worker_fini(w);
}

static void add_call(struct iwarp_worker *w, struct iwarp_call *call)
{
    struct iwarp_call **last = &w->calls;

    while (*last) {
        last = &(*last)->next;
    }
    *last = call;
}

void iwarp_worker_call(struct iwarp_worker *w, void (*fn)(void *arg), void *arg)
{
    struct iwarp_call call = {.fn = fn, .arg = arg, .waited_for = true};

    if (iwarp_worker_is_current(w)) {
        fn(arg);
        return;
    }
    pthread_mutex_lock(&w->lock);
    add_call(w, &call);
    if (w->progress == IWARP_PROGRESS_POLLED) { /* the worker may have stepped back */
        pthread_mutex_unlock(&w->lock);
        iwarp_worker_drive_calls(w);
        pthread_mutex_lock(&w->lock);
    } else {
        iwarp_worker_wake(w);
        iwarp_worker_want_loop(w);
        iwarp_worker_hand_over(w); /* if nobody is in the loop */
    }
    while (!call.done) {
        pthread_cond_wait(&w->finished, &w->lock);
    }
    pthread_mutex_unlock(&w->lock);
}

enum iwarp_status iwarp_device_call(struct iwarp_device *device, void (*fn)(void *arg), void *arg)
{
    IWARP_UNCANCELLED;
    if (!iwarp_device_is_ours(device)) {
        return IWARP_MISUSE;
    }
    struct iwarp_worker *w = &device->worker[0];
    if (w->progress != IWARP_PROGRESS_EMBEDDED || !fn) {
        return iwarp_fail(IWARP_MISUSE, "iwarp_device_call needs %s",
                          fn ? "a device with embedded progress" : "a function");
    }
    struct iwarp_call *call = calloc(1, sizeof *call);
    if (!call) {
        return iwarp_fail(IWARP_NO_MEMORY, "no memory for a call");
    }
    call->fn = fn;
    call->arg = arg;
    pthread_mutex_lock(&w->lock);
    add_call(w, call);
    iwarp_worker_wake(w);
    pthread_mutex_unlock(&w->lock);
    return IWARP_OK;
}

/* worker.lock held, and not kicked yet. A reference goes along. True: the loop has to wake up. */
static bool add_kick(struct iwarp_worker *w, struct iwarp_conn *conn)
{
    bool wake = w->kicked == NULL;

    conn->kicked = true;
    conn->next_kicked = NULL;
    *(wake ? &w->kicked : &w->last_kicked->next_kicked) = conn;
    w->last_kicked = conn;
    return wake;
}

static void wake_up(struct iwarp_worker *w)
{
    iwarp_worker_wake(w);
    iwarp_worker_want_loop(w);
}

void iwarp_worker_kick(struct iwarp_conn *conn)
{
    struct iwarp_worker *w = conn->worker;
    bool wake = false;

    pthread_mutex_lock(&w->lock);
    if (!conn->kicked) {
        iwarp_conn_get(conn);
        wake = add_kick(w, conn);
    }
    pthread_mutex_unlock(&w->lock);
    if (wake) {
        wake_up(w);
    }
}

void iwarp_worker_turn_away(struct iwarp_conn *conn)
{
    struct iwarp_worker *w = conn->worker;
    bool wake = false;

    atomic_fetch_add(&w->device->leaving, 1);
    pthread_mutex_lock(&w->lock);
    atomic_fetch_add(&conn->turned_away, 1);
    if (conn->kicked) {
        atomic_fetch_sub(&conn->refs, 1); /* not the last one: the kick that waits has another */
    } else {
        wake = add_kick(w, conn);
    }
    pthread_mutex_unlock(&w->lock); /* it may be gone from here on */
    if (wake) {
        wake_up(w);
    }
}
