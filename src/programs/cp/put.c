/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iwarp-cp put: fill slots, write each to its counterpart at the server by one RDMA Write, and tell
 * by a STORE what is in it. A slot is filled again when the server has stored it (STORED) and this
 * end is done with it (SENT). A file counts as copied when the server has said so.
 */
#include "client.h"

#include "clock.h"
#include "path.h"
#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An entry that the server has not answered for yet. */
struct entry {
    char *path;
    uint64_t size;
    bool is_dir;
    bool told; /* already reported as failed */
};

struct put_slot {
    bool sending; /* SENT is missing */
    bool storing; /* STORED is missing */
    uint32_t data_len;
    uint64_t sent_as; /* number of its STORE */
    uint64_t ended;   /* entries before this number are complete with this slot */
};

struct put {
    struct cp_client client;
    struct cp_source source;
    struct put_slot slots[CP_SLOTS_MAX];
    struct entry *entries; /* ring, a power of two; entry n is at n modulo room */
    uint64_t room;
    uint64_t first, next;     /* numbers of the oldest entry and of the next */
    uint64_t stores, answers; /* so far */
    bool ended;               /* the source has told everything */
    bool stopped;             /* it makes no sense to go on */
    bool no_memory;           /* for entries: the slot is not sent */
    struct cp_top *tops;      /* the FILEs, their names allocated */
    size_t top_count;
    bool is_directory; /* the last FILE is one */
};

static struct entry *entry_at(const struct put *put, uint64_t number)
{
    return &put->entries[number & (put->room - 1)];
}

static bool grow_entries(struct put *put)
{
    uint64_t room = put->room ? put->room * 2 : 1024;
    struct entry *entries = room > SIZE_MAX ? NULL : calloc((size_t)room, sizeof *entries);

    if (!entries) {
        return false;
    }
    for (uint64_t i = put->first; i < put->next; i++) {
        entries[i & (room - 1)] = *entry_at(put, i);
    }
    free(put->entries);
    put->entries = entries;
    put->room = room;
    return true;
}

static void on_begun(void *context, uint64_t sequence, const char *path, uint64_t size, bool is_dir)
{
    struct put *put = context;

    (void)sequence; /* the source counts as we do */
    put->no_memory = put->no_memory || (put->next - put->first == put->room && !grow_entries(put));
    if (put->no_memory) {
        return;
    }
    *entry_at(put, put->next++) = (struct entry){strdup(path), size, is_dir, false};
}

static void on_problem(void *context, const char *path, bool is_begun, struct cp_result result)
{
    struct put *put = context;

    if (put->no_memory) {
        return;
    }
    if (!is_begun && !put->source.walking) {
        /* A FILE itself: it was asked for. */
        cp_report_entry(&put->client.report, path, 0, false, false, result);
        return;
    }
    if (!is_begun) {
        cp_report_skipped(&put->client.report, path, false, result);
        return;
    }
    struct entry *entry = entry_at(put, put->next - 1);
    entry->told = true;
    cp_report_entry(&put->client.report, path, entry->size, false, false, result);
}

/* Fill one slot and send it. False if the connection is of no use any more. */
static bool send_slot(struct put *put, unsigned index)
{
    struct cp_channel *channel = &put->client.channel;
    struct put_slot *slot = &put->slots[index];
    uint8_t *buf = cp_channel_message(channel, index);
    struct cp_batch batch = {0};
    struct cp_writer writer;

    cp_message_begin(&writer, buf, CP_MESSAGE_MAX, CP_MESSAGE_STORE, index);
    uint8_t *batch_at = cp_batch_reserve(&writer);
    size_t empty = writer.left;
    put->ended = !cp_source_fill(&put->source, cp_channel_slot(channel, index), channel->slot_size,
                                 &writer, &batch.data_len);
    if (put->no_memory) {
        cp_client_broken(&put->client, cp_result_of(CP_NO_MEMORY));
        return false;
    }
    if (writer.left == empty) {
        return true;
    }
    cp_batch_set(batch_at, &batch);
    slot->sending = slot->storing = true;
    slot->data_len = batch.data_len;
    slot->sent_as = put->stores++;
    slot->ended = put->next - (put->source.fd >= 0 ? 1 : 0);
    if (!cp_channel_send(channel, index, cp_message_finish(&writer, buf), index, batch.data_len,
                         cp_client_target(&put->client, index))) {
        cp_client_broken(&put->client, cp_result_of(CP_MALFORMED));
        return false;
    }
    return true;
}

static bool send_free_slots(struct put *put)
{
    for (unsigned i = 0; i < put->client.channel.slots && !put->ended && !put->stopped; i++) {
        if (!put->slots[i].sending && !put->slots[i].storing && !send_slot(put, i)) {
            return false;
        }
    }
    return true;
}

static bool anything_under_way(const struct put *put)
{
    for (unsigned i = 0; i < put->client.channel.slots; i++) {
        if (put->slots[i].sending || put->slots[i].storing) {
            return true;
        }
    }
    return false;
}

/* False for a failure that is none, or of an entry that was not sent or is done. */
static bool take_failure(struct put *put, const struct cp_failure *failure)
{
    if (failure->sequence < put->first || failure->sequence >= put->next ||
        failure->result.status == CP_OK) {
        return false;
    }
    struct entry *entry = entry_at(put, failure->sequence);
    if (entry->told) {
        return true;
    }
    entry->told = true;
    cp_source_drop(&put->source, failure->sequence);
    if (put->stopped) {
        /* The same again for what was under way already: one line is enough. */
        put->client.report.failed++;
        return true;
    }
    cp_report_entry(&put->client.report, entry->path ? entry->path : "?", entry->size,
                    entry->is_dir, true, failure->result);
    put->stopped = cp_result_is_full(failure->result);
    return true;
}

static void retire_entries(struct put *put, uint64_t ended)
{
    for (; put->first < ended; put->first++) {
        struct entry *entry = entry_at(put, put->first);
        if (!entry->told) {
            cp_report_entry(&put->client.report, entry->path ? entry->path : "?", entry->size,
                            entry->is_dir, true, cp_result_of(CP_OK));
        }
        free(entry->path);
        entry->path = NULL;
    }
}

static bool take_stored(struct put *put, struct cp_message *message)
{
    struct cp_failure failure;
    int more;

    /* Answers come in the order of the requests, one to each. */
    if (message->type != CP_MESSAGE_STORED || message->slot >= put->client.channel.slots ||
        !put->slots[message->slot].storing || put->slots[message->slot].sent_as != put->answers++) {
        return false;
    }
    struct put_slot *slot = &put->slots[message->slot];
    while ((more = cp_failure_read(&message->body, &failure)) > 0) {
        if (!take_failure(put, &failure)) {
            return false;
        }
    }
    slot->storing = false;
    retire_entries(put, slot->ended);
    cp_report_moved(&put->client.report, slot->data_len);
    return more == 0;
}

static void transfer(struct put *put)
{
    struct cp_event event;
    struct cp_message message;

    while (send_free_slots(put) && anything_under_way(put)) {
        if (!cp_client_wait(&put->client, &event, &message)) {
            return;
        }
        if (event.type == CP_EVENT_SENT && event.index < put->client.channel.slots) {
            put->slots[event.index].sending = false;
        } else if (event.type == CP_EVENT_MESSAGE &&
                   (!take_stored(put, &message) ||
                    !cp_channel_release(&put->client.channel, event.index))) {
            cp_client_broken(&put->client, cp_result_of(CP_MALFORMED));
            return;
        }
    }
}

/* What FILE is called at the server: its last component; that of where it is for "." and "..". */
static char *name_of(const char *path)
{
    char last[CP_NAME_MAX + 1];

    cp_path_last(path, last, sizeof last);
    if (!last[0]) {
        char *whole = realpath(path, NULL);
        if (whole) {
            cp_path_last(whole, last, sizeof last);
            free(whole);
        }
    }
    return strdup(last[0] ? last : "tree");
}

/* Totals are for the progress bar only. */
static void count_totals(struct put *put)
{
    struct cp_totals totals = {0};

    if (!put->client.report.bar) {
        return;
    }
    /* For all together: the server waits for the first request. */
    int64_t deadline = cp_clock_ms() + CP_COUNT_MS;
    bool goes_on = true;
    for (size_t i = 0; i < put->top_count && goes_on; i++) {
        int fd = open(put->tops[i].path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd >= 0) {
            goes_on = cp_source_count(fd, put->client.options->recursive, deadline, &totals);
            close(fd);
        }
    }
    put->client.report.total_bytes = totals.bytes;
    put->client.report.total_files = totals.files;
}

static bool open_target(struct put *put, struct cp_opened *opened)
{
    const struct cp_options *options = put->client.options;
    const char *name = put->client.url.name;
    size_t len = strlen(name);
    unsigned flags = 0;

    if (options->argument_count > 2 || len == 0 || name[len - 1] == '/') {
        flags |= CP_OPEN_INTO;
    } else if (!put->is_directory) {
        flags |= CP_OPEN_ONE_FILE;
    }
    flags |= options->checksum ? CP_OPEN_CHECKSUM : 0;
    flags |= options->sync ? CP_OPEN_SYNC : 0;
    return cp_client_open(&put->client, CP_ACTION_PUT, flags, opened);
}

static void copy(struct put *put)
{
    static const struct cp_source_events template = {NULL, on_begun, on_problem};
    const struct cp_options *options = put->client.options;
    struct cp_source_options how = {
        .recursive = options->recursive, .checksum = options->checksum, .sync = options->sync};
    struct cp_source_events events = template;
    struct cp_opened opened;

    if (!open_target(put, &opened)) {
        return;
    }
    if (opened.kind != CP_KIND_DIRECTORY) {
        free((char *)(uintptr_t)put->tops[0].name);
        put->tops[0].name = name_of(put->client.url.name);
    }
    count_totals(put);
    events.context = put;
    cp_source_begin(&put->source, put->tops, put->top_count, &how, &events);
    transfer(put);
    cp_source_end(&put->source);
}

/* Why a FILE of the command line cannot be copied, as far as looking at it tells. */
static struct cp_result judge(const struct cp_top *top, bool recursive, bool *is_directory)
{
    struct stat st;

    *is_directory = false;
    if (stat(top->path, &st) < 0) {
        return cp_result_from_errno(errno);
    }
    *is_directory = S_ISDIR(st.st_mode);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        return cp_result_of_special(st.st_mode);
    }
    if (S_ISDIR(st.st_mode) && !recursive) {
        return cp_result_of(CP_IS_DIRECTORY);
    }
    return cp_result_of(cp_name_reserved(top->name) ? CP_RESERVED : CP_OK);
}

/* Before anything is made at the server: leave the FILEs that can be copied, tell of the others. */
static void sort_out(struct put *put)
{
    size_t kept = 0;

    for (size_t i = 0; i < put->top_count; i++) {
        struct cp_top top = put->tops[i];
        struct cp_result why = judge(&top, put->client.options->recursive, &put->is_directory);
        if (why.status == CP_OK) {
            put->tops[kept++] = top;
            continue;
        }
        cp_report_entry(&put->client.report, top.path, 0, put->is_directory, false, why);
        free((char *)(uintptr_t)top.name);
    }
    put->top_count = kept;
}

static int compare_tops(const void *a, const void *b)
{
    const struct cp_top *const *left = a, *const *right = b;
    int order = strcmp((*left)->name, (*right)->name);

    /* Then as they were given, for the error to name them in that order. */
    return order ? order : (*left > *right) - (*left < *right);
}

/* Two FILEs of one name would become one copy. True after printing which. */
static bool has_same_names(const struct put *put)
{
    const struct cp_top **sorted = calloc(put->top_count, sizeof *sorted);
    char why[4 * CP_NAME_MAX + 64];
    bool found = false;

    for (size_t i = 0; sorted && i < put->top_count; i++) {
        sorted[i] = &put->tops[i];
    }
    if (sorted) {
        qsort(sorted, put->top_count, sizeof(*sorted), compare_tops);
    }
    for (size_t i = 1; sorted && i < put->top_count && !found; i++) {
        found = strcmp(sorted[i - 1]->name, sorted[i]->name) == 0;
        if (found) {
            char shown[4 * CP_NAME_MAX + 1];
            cp_report_escape(sorted[i - 1]->path, shown, sizeof shown);
            snprintf(why, sizeof why, "its copy would replace that of %s", shown);
            cp_error(sorted[i]->path, why, "copy them one at a time, each to its own name");
        }
    }
    free(sorted);
    return found;
}

static bool name_tops(struct put *put, const struct cp_options *options)
{
    size_t count = options->argument_count - 1;

    put->tops = calloc(count, sizeof *put->tops);
    for (size_t i = 0; put->tops && i < count; i++) {
        const char *path = options->arguments[i];
        put->tops[i] = (struct cp_top){-1, path, name_of(path)};
        if (!put->tops[i].name) {
            return false;
        }
        put->top_count = i + 1;
    }
    return put->tops != NULL;
}

static void release(struct put *put)
{
    for (uint64_t i = put->first; i < put->next; i++) {
        free(entry_at(put, i)->path);
    }
    free(put->entries);
    for (size_t i = 0; i < put->top_count; i++) {
        free((char *)(uintptr_t)put->tops[i].name);
    }
    free(put->tops);
}

int cp_run_put(const struct cp_options *options)
{
    static struct put put;
    int status = cp_client_begin(&put.client, options, "put",
                                 options->arguments[options->argument_count - 1]);

    if (status != CP_EXIT_OK) {
        return status;
    }
    if (!name_tops(&put, options)) {
        cp_error_result("put", false, cp_result_of(CP_NO_MEMORY));
        status = CP_EXIT_FAILED;
    } else if (has_same_names(&put)) {
        status = CP_EXIT_USAGE;
    } else {
        sort_out(&put);
        status = put.top_count > 0 ? cp_client_connect(&put.client) : CP_EXIT_OK;
        if (status == CP_EXIT_OK) {
            if (put.top_count > 0) {
                copy(&put);
            }
            status = cp_client_finish(&put.client);
        }
    }
    release(&put);
    return status;
}
