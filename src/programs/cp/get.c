/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iwarp-cp get: ask the server to fill slots (FETCH), read each by one RDMA Read into its
 * counterpart here, carry out its records, ask again. Slots are carried out in the order in which
 * they were asked for.
 */
#include "client.h"

#include "path.h"
#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A FETCHED that is not carried out yet, in order of arrival. */
struct fetched {
    unsigned slot;
    unsigned receive; /* buffer that its records are in */
    struct cp_reader records;
    uint32_t data_len;
    bool here; /* its data has come */
};

struct get {
    struct cp_client client;
    struct cp_sink sink;
    bool idle[CP_SLOTS_MAX];              /* nothing asked for */
    uint64_t asked_as[CP_SLOTS_MAX];      /* number of the FETCH of each slot */
    uint64_t fetches, answers;            /* so far */
    struct fetched fetched[CP_SLOTS_MAX]; /* ring */
    unsigned first, count;
    bool ended;   /* the server has told everything */
    bool stopped; /* it makes no sense to go on */
};

static void on_done(void *context, uint64_t sequence, const char *path, uint64_t size, bool is_dir,
                    struct cp_result result)
{
    struct get *get = context;

    (void)sequence;
    if (get->stopped) {
        get->client.report.failed += result.status != CP_OK;
        return;
    }
    cp_report_entry(&get->client.report, path, size, is_dir, get->sink.by_source, result);
    get->stopped = !get->sink.by_source && cp_result_is_full(result);
}

static void on_skipped(void *context, const char *path, struct cp_result result)
{
    struct get *get = context;

    cp_report_skipped(&get->client.report, path, true, result);
}

static bool ask(struct get *get)
{
    for (unsigned i = 0; i < get->client.channel.slots && !get->ended && !get->stopped; i++) {
        /* The buffer of the last FETCH of this slot may still be on its way out. */
        if (!get->idle[i] || get->client.channel.send_busy[i]) {
            continue;
        }
        if (!cp_client_fetch(&get->client, i)) {
            return false;
        }
        get->idle[i] = false;
        get->asked_as[i] = get->fetches++;
    }
    return true;
}

static struct fetched *fetched_at(struct get *get, unsigned n)
{
    return &get->fetched[(get->first + n) % CP_SLOTS_MAX];
}

static bool take_fetched(struct get *get, const struct cp_event *event, struct cp_message *message)
{
    struct cp_batch batch;

    /* Answers come in the order of the requests, one to each. */
    if (message->type != CP_MESSAGE_FETCHED || message->slot >= get->client.channel.slots ||
        get->idle[message->slot] || get->asked_as[message->slot] != get->answers ||
        !cp_batch_read(&message->body, &batch) || batch.data_len > get->client.channel.slot_size) {
        return false;
    }
    /* An answer without an end and without anything else would go on for ever. */
    if (message->body.left == 0 && !(batch.flags & CP_FETCHED_END)) {
        return false;
    }
    get->answers++;
    get->ended = get->ended || batch.flags & CP_FETCHED_END;
    *fetched_at(get, get->count++) = (struct fetched){message->slot, event->index, message->body,
                                                      batch.data_len, batch.data_len == 0};
    return batch.data_len == 0 ||
           cp_channel_read(&get->client.channel, message->slot, batch.data_len,
                           cp_client_target(&get->client, message->slot));
}

/*
 * Everything has come: what becomes of the connection is no matter any more. The server may well
 * end it, for it is asked for nothing while the last slots are written to a slow disk.
 */
static bool has_all(struct get *get)
{
    bool all = get->ended && get->answers == get->fetches;

    for (unsigned i = 0; all && i < get->count; i++) {
        all = fetched_at(get, i)->here;
    }
    return all;
}

static bool carry_out_one(struct get *get)
{
    struct fetched *fetched = fetched_at(get, 0);
    const uint8_t *slot = cp_channel_slot(&get->client.channel, fetched->slot);

    if (!cp_sink_take(&get->sink, &fetched->records, slot, fetched->data_len) ||
        (!has_all(get) && !cp_channel_release(&get->client.channel, fetched->receive))) {
        return false;
    }
    cp_report_moved(&get->client.report, fetched->data_len);
    get->idle[fetched->slot] = true;
    get->first = (get->first + 1) % CP_SLOTS_MAX;
    get->count--;
    return true;
}

static bool take_event(struct get *get, const struct cp_event *event, struct cp_message *message)
{
    if (event->type == CP_EVENT_MESSAGE) {
        return take_fetched(get, event, message);
    }
    if (event->type == CP_EVENT_READ) {
        for (unsigned i = 0; i < get->count; i++) {
            struct fetched *fetched = fetched_at(get, i);
            fetched->here = fetched->here || fetched->slot == event->index;
        }
    }
    return true;
}

/*
 * The next slot is carried out, if it is here and nothing else is to be done: writing takes longer
 * than all else, so the server fills the slots that are free, and Reads fetch those that are full,
 * meanwhile.
 */
static bool step(struct get *get)
{
    struct cp_event event;
    struct cp_message message;

    if (!ask(get)) {
        cp_client_broken(&get->client, cp_result_of(CP_MALFORMED));
        return false;
    }
    bool works = get->count > 0 && fetched_at(get, 0)->here &&
                 (has_all(get) || !cp_channel_has_event(&get->client.channel));
    if (!works && !cp_client_wait(&get->client, &event, &message)) {
        return false;
    }
    if (works ? !carry_out_one(get) : !take_event(get, &event, &message)) {
        cp_client_broken(&get->client, cp_result_of(CP_MALFORMED));
        return false;
    }
    return true;
}

static void transfer(struct get *get)
{
    memset(get->idle, true, sizeof get->idle);
    do {
        if (!step(get)) {
            return;
        }
    } while (!get->stopped && (!get->ended || get->answers < get->fetches || get->count > 0));
    if (!get->stopped && !cp_sink_complete(&get->sink)) {
        cp_client_broken(&get->client, cp_result_of(CP_MALFORMED));
    } else if (get->sink.sequence == 0 && get->client.report.failed == 0) {
        cp_client_broken(&get->client, cp_result_of(CP_NOTHING_SENT));
    }
}

/* Flush the directory that the new directory fd is in. fd, or -1 with errno. */
static int flush_above(int fd)
{
    int above = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = above < 0 || fsync(above) < 0 ? errno : 0;

    if (above >= 0) {
        close(above);
    }
    if (!error) {
        return fd;
    }
    close(fd);
    errno = error;
    return -1;
}

/*
 * Where to: target is a directory to copy into if it says so, or is one and the source a file.
 * Opens the directory, sets the name in it and what the directory is called. -1 with errno.
 */
static int open_target(const char *target, const char *source, bool is_dir, char *name,
                       char *directory, bool sync)
{
    struct stat st;
    size_t len = strlen(target);
    const char *slash = strrchr(target, '/');
    const char *last = slash ? slash + 1 : target;
    bool exists = stat(target, &st) == 0 && S_ISDIR(st.st_mode);
    bool is_made = false;
    bool into = !*last || strcmp(last, ".") == 0 || strcmp(last, "..") == 0 || (exists && !is_dir);

    if (len >= CP_PATH_MAX || strlen(last) > CP_NAME_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (into) {
        is_made = !exists && mkdir(target, 0777) == 0;
        if (!exists && !is_made && errno != EEXIST) {
            return -1;
        }
        cp_path_last(source, name, CP_NAME_MAX + 1);
        snprintf(directory, CP_PATH_MAX, "%s", target);
        if (!name[0]) {
            strcpy(name, ".");
        }
    } else {
        snprintf(name, CP_NAME_MAX + 1, "%s", last);
        snprintf(directory, CP_PATH_MAX, "%.*s", (int)(last - target), target);
    }
    int fd = open(directory[0] ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && is_made && sync ? flush_above(fd) : fd;
}

static void copy(struct get *get)
{
    const struct cp_options *options = get->client.options;
    const char *target = options->arguments[1];
    struct cp_sink_events events = {get, on_done, on_skipped};
    char name[CP_NAME_MAX + 1], directory[CP_PATH_MAX];
    struct cp_opened opened;
    unsigned flags = 0;

    flags |= options->recursive ? CP_OPEN_RECURSIVE : 0;
    flags |= options->checksum ? CP_OPEN_CHECKSUM : 0;
    flags |= options->sync ? CP_OPEN_SYNC : 0;
    flags |= get->client.report.bar ? CP_OPEN_TOTALS : 0;
    if (!cp_client_open(&get->client, CP_ACTION_GET, flags, &opened)) {
        return;
    }
    /* The server decides what is sent, but not more than was asked for. */
    if (opened.kind == CP_KIND_DIRECTORY && !options->recursive) {
        cp_client_broken(&get->client, cp_result_of(CP_MALFORMED));
        return;
    }
    int dir = open_target(target, get->client.url.name, opened.kind == CP_KIND_DIRECTORY, name,
                          directory, options->sync);
    if (dir < 0) {
        cp_report_entry(&get->client.report, target, 0, false, false, cp_result_from_errno(errno));
        return;
    }
    if (!cp_sink_begin(&get->sink, dir, directory, name, &events)) {
        cp_client_broken(&get->client, cp_result_of(CP_NO_MEMORY));
        return;
    }
    get->sink.checksum = options->checksum;
    get->sink.sync = options->sync;
    get->sink.one_top = true;
    get->sink.single = opened.kind != CP_KIND_DIRECTORY;
    transfer(get);
    cp_sink_end(&get->sink);
}

int cp_run_get(const struct cp_options *options)
{
    static struct get get;
    const char *target = options->arguments[1];
    char last[CP_NAME_MAX + 1];
    int status = cp_client_begin(&get.client, options, "get", options->arguments[0]);

    if (status != CP_EXIT_OK) {
        return status;
    }
    cp_path_last(target, last, sizeof last);
    if (cp_name_reserved(last)) {
        cp_report_entry(&get.client.report, target, 0, false, false, cp_result_of(CP_RESERVED));
        return cp_client_finish(&get.client);
    }
    status = cp_client_connect(&get.client);
    if (status != CP_EXIT_OK) {
        return status;
    }
    copy(&get);
    return cp_client_finish(&get.client);
}
