/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answering requests. What comes from a client is not trusted: messages are checked by wire.c,
 * records by the sink, names by path.c; the slot number is checked here. The client never gives an
 * address, and the STag it gets covers the slots of this session only, with the one right that its
 * action needs.
 */
#include "session.h"

#include "clock.h"
#include "path.h"
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINGER_MS 1000 /* for the last message to reach the client */

/* --- what each request does ------------------------------------------------------------------ */

static void on_done(void *context, uint64_t sequence, const char *path, uint64_t size, bool is_dir,
                    struct cp_result result)
{
    struct cp_session *session = context;
    struct cp_failure failure = {sequence, result};

    (void)path;
    if (result.status != CP_OK) {
        session->failed++;
        cp_failure_write(session->answer, &failure);
    } else if (!is_dir) {
        session->files++;
        session->bytes += size;
    }
}

/* Where a put goes: the directory itself or the one that the name is in. -1 with errno. */
static int open_put_target(const struct cp_session *session, unsigned flags, enum cp_kind *kind)
{
    int root = session->export->root;
    char last[CP_NAME_MAX + 1];

    *kind = CP_KIND_DIRECTORY;
    cp_path_last(session->name, last, sizeof last);
    if (flags & CP_OPEN_INTO || !last[0]) {
        return cp_path_make(root, session->name, false, flags & CP_OPEN_SYNC);
    }
    if (flags & CP_OPEN_ONE_FILE) {
        int fd = cp_path_open(root, session->name, O_RDONLY | O_DIRECTORY);
        if (fd >= 0) {
            return fd;
        }
    }
    *kind = CP_KIND_NAME;
    return cp_path_make(root, session->name, true, flags & CP_OPEN_SYNC);
}

static struct cp_result open_put(struct cp_session *session, unsigned flags,
                                 struct cp_opened *opened)
{
    if (session->export->options->read_only) {
        return cp_result_of(CP_READ_ONLY);
    }
    struct cp_result room = cp_room_check(session->export->room, session->export->root, 0);
    if (room.status != CP_OK) {
        return room;
    }
    int dir = open_put_target(session, flags, &opened->kind);
    if (dir < 0) {
        return cp_result_from_errno(errno);
    }
    session->sink_events = (struct cp_sink_events){session, on_done, NULL};
    if (!cp_sink_begin(&session->sink, dir, "", "", &session->sink_events)) {
        return cp_result_of(CP_NO_MEMORY);
    }
    session->sinking = true;
    session->sink.checksum = flags & CP_OPEN_CHECKSUM;
    session->sink.room = session->export->room;
    session->sink.sync = flags & CP_OPEN_SYNC;
    return cp_result_of(CP_OK);
}

/* Looks before it opens, for opening a device or a pipe can have effects. */
static struct cp_result open_for_reading(const struct cp_session *session, bool recursive, int *fd,
                                         enum cp_kind *kind)
{
    struct stat st;
    int root = session->export->root;
    int look = cp_path_open(root, session->name, O_PATH);
    struct cp_result result = cp_result_from_errno(look < 0 || fstat(look, &st) < 0 ? errno : 0);

    if (look >= 0) {
        close(look);
    }
    if (result.status != CP_OK) {
        return result;
    }
    *kind = S_ISDIR(st.st_mode) ? CP_KIND_DIRECTORY : CP_KIND_FILE;
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) {
        return cp_result_of_special(st.st_mode);
    }
    if (S_ISDIR(st.st_mode) && !recursive) {
        return cp_result_of(CP_IS_DIRECTORY);
    }
    *fd = cp_path_open(root, session->name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    return cp_result_from_errno(*fd < 0 ? errno : 0);
}

static struct cp_result open_get(struct cp_session *session, const struct cp_open *open,
                                 struct cp_opened *opened)
{
    bool list = open->action == CP_ACTION_LIST;
    bool recursive = open->flags & CP_OPEN_RECURSIVE;
    struct cp_source_options how = {.recursive = recursive,
                                    .checksum = open->flags & CP_OPEN_CHECKSUM,
                                    .list = list,
                                    .sync = open->flags & CP_OPEN_SYNC,
                                    .shallow = list && !recursive};
    struct cp_totals totals = {0};
    int fd = -1;
    struct cp_result result = open_for_reading(session, recursive || list, &fd, &opened->kind);

    if (result.status != CP_OK) {
        return result;
    }
    if (open->flags & CP_OPEN_TOTALS && !list) {
        (void)cp_source_count(fd, recursive, cp_clock_ms() + CP_COUNT_MS, &totals);
        opened->total_files = totals.files;
        opened->total_bytes = totals.bytes;
    }
    cp_path_last(session->name, session->top_name, sizeof session->top_name);
    session->top =
        (struct cp_top){fd, session->name, session->top_name[0] ? session->top_name : "export"};
    cp_source_begin(&session->source, &session->top, 1, &how, NULL);
    session->sourcing = true;
    return result;
}

/* Takes memory for slots beyond CP_SLOTS_NEAR: for `more` of them or as many as there is left for.
 */
static unsigned take_far_memory(struct cp_session *session, unsigned more)
{
    _Atomic size_t *used = session->export->far_memory;
    size_t size = session->channel.slot_size, before = atomic_load(used), taken;

    do {
        size_t fit = (CP_FAR_MEMORY_MAX - before) / size;
        taken = (more < fit ? more : fit) * size;
    } while (!atomic_compare_exchange_weak(used, &before, before + taken));
    session->far_memory += taken;
    return (unsigned)(taken / size);
}

static void give_far_memory_back(struct cp_session *session)
{
    atomic_fetch_sub(session->export->far_memory, session->far_memory);
    session->far_memory = 0;
}

/*
 * The slots of this transfer: as many as the client wants of those that it was granted, but fewer
 * if other clients have the memory. A client that wants all, by 0, knows of no fewer.
 */
static struct cp_result use_slots(struct cp_session *session, enum cp_action action,
                                  unsigned wanted)
{
    unsigned granted = session->channel.slots, slots = granted;

    if (wanted > 0 && wanted < granted) {
        slots = wanted;
    }
    if (slots > CP_SLOTS_NEAR) {
        unsigned more = slots - CP_SLOTS_NEAR;
        slots = CP_SLOTS_NEAR;
        slots += action != CP_ACTION_LIST ? take_far_memory(session, more) : 0;
    }
    if (wanted == 0 && slots < granted && action != CP_ACTION_LIST) {
        return cp_result_of(CP_NO_MEMORY);
    }
    return cp_result_of(cp_channel_use_slots(&session->channel, slots) ? CP_OK : CP_SYSTEM);
}

static struct cp_result open_action(struct cp_session *session, const struct cp_open *open,
                                    unsigned wanted_slots, struct cp_opened *opened)
{
    static const unsigned access[] = {
        [CP_ACTION_PUT] = IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE,
        [CP_ACTION_GET] = IWARP_ACCESS_REMOTE_READ,
    };

    memcpy(session->name, open->name, open->name_len);
    session->name[open->name_len] = '\0';
    if (cp_path_reserved(session->name)) {
        return cp_result_of(CP_RESERVED);
    }
    struct cp_result result = open->action == CP_ACTION_PUT ? open_put(session, open->flags, opened)
                                                            : open_get(session, open, opened);
    if (result.status != CP_OK) {
        return result;
    }
    result = use_slots(session, open->action, wanted_slots);
    if (result.status != CP_OK) {
        return result;
    }
    opened->slots = session->channel.slots;
    if (open->action == CP_ACTION_LIST) {
        session->action = CP_ACTION_LIST;
        return result;
    }
    if (cp_channel_add_slots(&session->channel, access[open->action]) != IWARP_OK) {
        return cp_result_of(CP_NO_MEMORY);
    }
    session->action = open->action;
    opened->stag = iwarp_mr_stag(session->channel.slot_mr);
    opened->to = (uint64_t)(uintptr_t)session->channel.slot_memory;
    return result;
}

static bool answer_open(struct cp_session *session, const struct cp_message *message,
                        struct cp_writer *writer)
{
    struct cp_reader body = message->body;
    struct cp_open open;
    struct cp_opened opened = {0};

    if (session->sourcing || session->sinking || !cp_open_read(&body, &open)) {
        return false;
    }
    opened.result = open_action(session, &open, message->slot, &opened);
    cp_standing_asked(&session->standing);
    cp_opened_write(writer, &opened);
    return true;
}

static bool answer_store(struct cp_session *session, const struct cp_message *message,
                         struct cp_writer *writer)
{
    struct cp_reader body = message->body;
    struct cp_batch batch;

    if (session->action != CP_ACTION_PUT || message->slot >= session->channel.slots ||
        !cp_batch_read(&body, &batch) || batch.data_len > session->channel.slot_size) {
        return false;
    }
    session->answer = writer;
    return cp_sink_take(&session->sink, &body, cp_channel_slot(&session->channel, message->slot),
                        batch.data_len);
}

static bool answer_fetch(struct cp_session *session, const struct cp_message *message,
                         struct cp_writer *writer)
{
    struct cp_batch batch = {0};
    bool list = session->action == CP_ACTION_LIST;

    if ((session->action != CP_ACTION_GET && !list) || message->slot >= session->channel.slots ||
        message->body.left != 0) {
        return false;
    }
    uint8_t *batch_at = cp_batch_reserve(writer);
    if (!session->told_all) {
        session->told_all = !cp_source_fill(
            &session->source, list ? NULL : cp_channel_slot(&session->channel, message->slot),
            list ? 0 : session->channel.slot_size, writer, &batch.data_len);
    }
    batch.flags = session->told_all ? CP_FETCHED_END : 0;
    session->bytes += batch.data_len;
    cp_batch_set(batch_at, &batch);
    return true;
}

/* --- messages -------------------------------------------------------------------------------- */

static bool send_message(struct cp_session *session, unsigned index, size_t len)
{
    return cp_channel_send(&session->channel, index, len, 0, 0, (struct cp_target){0, 0});
}

static void send_failed(struct cp_session *session, struct cp_result why)
{
    int index = cp_channel_free_message(&session->channel);
    struct cp_writer writer;

    session->end = why;
    if (index < 0) {
        return;
    }
    uint8_t *buf = cp_channel_message(&session->channel, (unsigned)index);
    cp_message_begin(&writer, buf, CP_MESSAGE_MAX, CP_MESSAGE_FAILED, 0);
    cp_result_write(&writer, why);
    (void)send_message(session, (unsigned)index, cp_message_finish(&writer, buf));
}

/* Answer a request with message number index. False if the session is over. */
static bool answer(struct cp_session *session, const struct cp_event *request, unsigned index)
{
    static const enum cp_message_type answers[] = {
        [CP_MESSAGE_OPEN] = CP_MESSAGE_OPENED,
        [CP_MESSAGE_STORE] = CP_MESSAGE_STORED,
        [CP_MESSAGE_FETCH] = CP_MESSAGE_FETCHED,
    };
    uint8_t *buf = cp_channel_message(&session->channel, index);
    struct cp_message message;
    struct cp_writer writer;
    bool ok = cp_message_read(request->data, request->len, &message);
    unsigned type = ok ? (unsigned)message.type : 0;

    if (type != CP_MESSAGE_OPEN && type != CP_MESSAGE_STORE && type != CP_MESSAGE_FETCH) {
        send_failed(session, cp_result_of(CP_MALFORMED));
        return false;
    }
    cp_message_begin(&writer, buf, CP_MESSAGE_MAX, answers[type], message.slot);
    if (type == CP_MESSAGE_OPEN) {
        ok = answer_open(session, &message, &writer);
    } else if (type == CP_MESSAGE_STORE) {
        ok = answer_store(session, &message, &writer);
    } else {
        ok = answer_fetch(session, &message, &writer);
    }
    size_t len = cp_message_finish(&writer, buf);
    if (!ok || len == 0) {
        send_failed(session, cp_result_of(CP_MALFORMED));
        return false;
    }
    /* The buffer first: the answer allows the client to send the next request. */
    if (!cp_channel_release(&session->channel, request->index) ||
        !send_message(session, index, len)) {
        session->end = cp_result_of(CP_SYSTEM);
        return false;
    }
    return true;
}

/* Answer what waits, as far as there are buffers to answer with. */
static bool answer_waiting(struct cp_session *session)
{
    int index;

    while (session->count > 0 && (index = cp_channel_free_message(&session->channel)) >= 0) {
        struct cp_event request = session->waiting[session->first];
        session->first = (session->first + 1) % CP_BUFFERS_MAX;
        session->count--;
        if (!answer(session, &request, (unsigned)index)) {
            return false;
        }
    }
    return true;
}

/* The server's turn. False if the session is over. */
static bool answer_in_turn(struct cp_session *session)
{
    if (session->stop_as != CP_OK) {
        send_failed(session, cp_result_of((enum cp_status)session->stop_as));
        return false;
    }
    cp_standing_work(&session->standing, true);
    bool goes_on = answer_waiting(session);
    cp_standing_work(&session->standing, false);
    return goes_on;
}

static void serve(struct cp_session *session)
{
    struct cp_event event;
    int idle_ms = (int)session->export->options->idle_s * 1000;

    while (answer_in_turn(session)) {
        cp_channel_wait(&session->channel, &event, idle_ms);
        switch (event.type) {
        case CP_EVENT_MESSAGE:
            session->waiting[(session->first + session->count++) % CP_BUFFERS_MAX] = event;
            break;
        case CP_EVENT_SENT:
        case CP_EVENT_READ:
        case CP_EVENT_ALIVE:
            break;
        case CP_EVENT_TIMEOUT:
            send_failed(session, cp_result_of(CP_IDLE));
            return;
        case CP_EVENT_WAKE: /* stop_as says why */
            break;
        case CP_EVENT_BROKEN:
            return;
        }
    }
}

/* --- life ------------------------------------------------------------------------------------ */

/* What the client may have, of what it wishes. */
static struct cp_hello grant(const struct cp_options *options, const struct cp_hello *wish)
{
    struct cp_hello hello = {.version = CP_PROTOCOL_VERSION};

    hello.slots = wish->slots < options->slots ? wish->slots : (uint16_t)options->slots;
    hello.slots = hello.slots > 0 ? hello.slots : 1;
    hello.slot_size = wish->slot_size < options->slot_size ? wish->slot_size : options->slot_size;
    if (hello.slot_size < CP_SLOT_SIZE_MIN) {
        hello.slot_size = CP_SLOT_SIZE_MIN;
    }
    if (hello.slots > CP_SLOT_MEMORY_MAX / hello.slot_size) {
        hello.slots = (uint16_t)(CP_SLOT_MEMORY_MAX / hello.slot_size);
    }
    return hello;
}

void cp_session_refuse(struct iwarp_conn *conn, struct cp_result why)
{
    uint8_t data[CP_HELLO_LEN];
    struct cp_hello hello = {.version = CP_PROTOCOL_VERSION, .result = why};

    (void)iwarp_reject(conn, data, cp_hello_write(data, &hello));
    (void)iwarp_conn_destroy(conn);
}

static bool accept_client(struct cp_session *session)
{
    struct cp_hello wish, hello;
    uint8_t data[CP_HELLO_LEN];
    size_t len = 0;
    const void *asked = iwarp_conn_private_data(session->conn, &len);

    if (!cp_hello_read(asked, len, &wish) || wish.version != CP_PROTOCOL_VERSION) {
        cp_session_refuse(session->conn, cp_result_of(CP_VERSION));
        return false;
    }
    hello = grant(session->export->options, &wish);
    enum iwarp_status status = session->wake_fd < 0
                                   ? IWARP_LIMIT
                                   : cp_channel_open(&session->channel, session->export->device,
                                                     hello.slots, hello.slot_size);
    if (status != IWARP_OK) {
        cp_session_refuse(session->conn, status == IWARP_LIMIT ? cp_result_from_errno(EMFILE)
                                                               : cp_result_of(CP_NO_MEMORY));
        return false;
    }
    struct cp_target pulse = cp_channel_pulse(&session->channel);
    hello.pulse_stag = pulse.stag;
    hello.pulse_to = pulse.to;
    session->channel.peer_pulse = (struct cp_target){wish.pulse_stag, wish.pulse_to};
    session->channel.conn = session->conn;
    session->channel.wake_fd = session->wake_fd;
    cp_standing_watch(&session->standing, session->channel.qp);
    return iwarp_accept(session->conn, session->channel.qp, NULL, data,
                        cp_hello_write(data, &hello), NULL) == IWARP_OK;
}

static void log_end(const struct cp_session *session)
{
    static _Thread_local char name[4 * CP_PATH_MAX + 1];
    static const char *const verbs[] = {"connected", "put", "get", "ls"};
    bool complete = session->sinking    ? cp_sink_complete(&session->sink)
                    : session->sourcing ? session->told_all
                                        : true;
    const char *why = session->end.status != CP_OK ? cp_result_text(session->end)
                      : complete                   ? "done"
                                                   : "broken off by the client";

    cp_report_escape(session->name, name, sizeof name);
    fprintf(stderr, "iwarp-cp: %s: %s /%s: %" PRIu64 " octets, %" PRIu64 " failed, %s\n",
            session->peer, verbs[session->action], name, session->bytes, session->failed, why);
}

static void *run(void *context)
{
    struct cp_session *session = context;

    if (accept_client(session)) {
        serve(session);
        if (session->end.status != CP_OK) {
            cp_channel_finish(&session->channel, LINGER_MS);
        }
        if (session->export->options->verbose) {
            log_end(session);
        }
    }
    cp_standing_watch(&session->standing, NULL);
    /* The channel first: nothing may write to a slot while it is released. */
    cp_channel_close(&session->channel);
    give_far_memory_back(session);
    if (session->sinking) {
        cp_sink_end(&session->sink);
    }
    if (session->sourcing) {
        cp_source_end(&session->source);
    }
    session->finished = true;
    (void)eventfd_write(session->export->done_fd, 1);
    return NULL;
}

static void release(struct cp_session *session)
{
    if (session->wake_fd >= 0) {
        close(session->wake_fd);
    }
    cp_standing_end(&session->standing);
    free(session);
}

struct cp_session *cp_session_start(const struct cp_export *export, struct iwarp_conn *conn)
{
    struct cp_session *session = calloc(1, sizeof *session);
    socklen_t len = sizeof session->from;

    if (!session) {
        return NULL;
    }
    session->export = export;
    session->conn = conn;
    if (iwarp_conn_peer_addr(conn, &session->from, &len) == IWARP_OK) {
        cp_net_format((struct sockaddr *)&session->from, len, session->peer, sizeof session->peer);
    }
    session->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    cp_standing_begin(&session->standing);
    if (pthread_create(&session->thread, NULL, run, session) != 0) {
        release(session);
        return NULL;
    }
    return session;
}

void cp_session_stop(struct cp_session *session, enum cp_status why)
{
    if (!session->leaving) {
        session->leaving = true;
        session->stop_as = (int)why;
        (void)eventfd_write(session->wake_fd, 1);
    }
}

void cp_session_join(struct cp_session *session)
{
    pthread_join(session->thread, NULL);
    release(session);
}
