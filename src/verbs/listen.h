/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A listener.
 *
 * Life: the application creates and closes it.  Closing waits until the loop has closed its
 * handles; with embedded progress the loop does the rest later (`detached`).  A connection points
 * to its listener until the application has answered its Request; the listener ends those
 * connections before it goes.
 *
 * Lock: listener.lock guards `handles` while the listener is being closed.  It is innermost.  The
 * device's list of listeners is under device.lock, and the crowd has a lock of its own.  The libuv
 * handles belong to the worker; what is left is constant once the listener is open.
 */
#ifndef IWARP_VERBS_LISTEN_H
#define IWARP_VERBS_LISTEN_H

#include "transport/stack.h"
#include "verbs/crowd.h"

#include <iwarp/conn.h>
#include <pthread.h>
#include <uv.h>

struct iwarp_worker;

struct iwarp_listener {
    struct iwarp_device *device;
    struct iwarp_worker *worker;
    struct iwarp_conn_options options; /* of its connections */
    struct iwarp_eq *eq;
    void *user;
    struct iwarp_acceptor *acceptor;
    struct iwarp_networks *allow; /* NULL: all */
    struct iwarp_crowd waiting;   /* Requests that wait for an answer */
    struct iwarp_listener *next;  /* of the device */
    uv_timer_t retry;             /* accepting is paused until it fires */
    unsigned handles;             /* of the timer and the acceptor, how many are open */
    bool detached; /* embedded: closed by the application; free it with the last handle */
    pthread_mutex_t lock;
    pthread_cond_t gone; /* a handle is closed */
    struct sockaddr_storage addr;
    socklen_t addr_len;
};

#endif
