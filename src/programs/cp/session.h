/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One client at the server: a thread that answers its requests one after the other until the client
 * closes, breaks the protocol, asks for nothing for too long, or the server ends.
 */
#ifndef CP_SESSION_H
#define CP_SESSION_H

#include "channel.h"
#include "options.h"
#include "room.h"
#include "sink.h"
#include "source.h"
#include "standing.h"
#include "wire.h"

#include <pthread.h>
#include <sys/socket.h>

/* What all sessions share; constant while they run, but for what guards itself. */
struct cp_export {
    const struct cp_options *options;
    int root; /* the exported directory */
    struct iwarp_device *device;
    int done_fd; /* eventfd: a session has ended */
    struct cp_room *room;
    _Atomic size_t *far_memory; /* octets of slots beyond CP_SLOTS_NEAR in all sessions */
};

struct cp_session {
    const struct cp_export *export;
    struct iwarp_conn *conn; /* a REQUEST to answer */
    pthread_t thread;
    _Atomic bool finished;
    _Atomic int stop_as; /* enum cp_status; not OK: it shall end, and tell the client that */
    int wake_fd;         /* eventfd: look at stop_as; -1: there was none to be had */
    bool leaving;        /* cp_session_stop was called */
    struct sockaddr_storage from; /* the client's address */
    struct cp_standing standing;
    char peer[CP_HOST_MAX + 16];
    struct cp_channel channel;
    size_t far_memory;                       /* its part of the export's */
    struct cp_event waiting[CP_BUFFERS_MAX]; /* ring of messages not answered yet */
    unsigned first, count;
    enum cp_action action; /* 0 before OPEN */
    bool sourcing, sinking;
    bool told_all; /* the source has nothing more */
    struct cp_source source;
    struct cp_top top;
    struct cp_sink sink;
    struct cp_sink_events sink_events;
    struct cp_writer *answer; /* STORED being written */
    char name[CP_PATH_MAX];   /* of the OPEN */
    char top_name[CP_NAME_MAX + 1];
    uint64_t files, bytes, failed;
    struct cp_result end; /* why the server ended it; OK if the client did */
};

/* Take over conn and answer it in a thread of its own. NULL without memory or threads. */
struct cp_session *cp_session_start(const struct cp_export *export, struct iwarp_conn *conn);

/* End it soon, with this as the reason; nothing happens the second time. Any thread but its own. */
void cp_session_stop(struct cp_session *session, enum cp_status why);

/* After finished: wait for the thread and release everything. */
void cp_session_join(struct cp_session *session);

/* Answer a REQUEST with a reason, and release it. */
void cp_session_refuse(struct iwarp_conn *conn, struct cp_result why);

#endif
