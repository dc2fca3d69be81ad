/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iwarp-cp ls: the records of a listing, printed. Without -r the contents of a directory, or the
 * file itself; with it everything below. Names are all there is, and most listings are one answer:
 * so one request is under way at first, and one more with each answer, for servers far away.
 */
#include "client.h"

#include "record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct list {
    struct cp_client client;
    char path[CP_DEPTH_MAX * (CP_NAME_MAX + 1) + 1]; /* of the directory, with '/' at its end */
    size_t lengths[CP_DEPTH_MAX];                    /* of path, at each depth */
    unsigned depth;
    uint64_t asked, answered; /* requests so far */
    bool ended;               /* the server has told everything */
};

static void print_mode(char type, uint32_t mode)
{
    static const char letters[] = "rwxrwxrwx";

    putchar(type);
    for (unsigned i = 0; i < 9; i++) {
        bool is_set = mode >> (8 - i) & 1;
        if (i == 5 && mode & S_ISGID) {
            putchar(is_set ? 's' : 'S');
        } else if (i == 8 && mode & S_ISVTX) {
            putchar(is_set ? 't' : 'T');
        } else {
            putchar(is_set ? letters[i] : '-');
        }
    }
}

static void print_time(int64_t seconds)
{
    char text[32] = "?";
    time_t when = (time_t)seconds;
    struct tm tm;

    if (localtime_r(&when, &tm)) {
        strftime(text, sizeof text, "%Y-%m-%d %H:%M", &tm);
    }
    fputs(text, stdout);
}

static void print_line(const struct list *list, const struct cp_record *record, char type)
{
    bool escape = isatty(STDOUT_FILENO);

    print_mode(type, record->mode);
    printf(" %14" PRIu64 " ", record->size);
    if (record->type == CP_RECORD_SKIP) { /* it has no time */
        printf("%16s", "");
    } else {
        print_time(record->mtime);
    }
    putchar(' ');
    cp_report_name(list->path, escape);
    cp_report_name(record->name, escape);
    putchar('\n');
}

/* Seconds since 1970 as a decimal number: what is behind the point counts upwards from the second.
 */
static void print_json_time(int64_t seconds, uint32_t ns)
{
    bool is_between = seconds < 0 && ns > 0;

    if (is_between) {
        seconds++;
        ns = 1000000000 - ns;
    }
    printf("%s%" PRId64 ".%09u", is_between && seconds == 0 ? "-" : "", seconds, ns);
}

static void print_json(const struct list *list, const struct cp_record *record, const char *type)
{
    char name[sizeof list->path + sizeof record->name];

    snprintf(name, sizeof name, "%s%s", list->path, record->name);
    printf("{\"type\":\"%s\",\"name\":", type);
    cp_report_json_string(name);
    if (record->type != CP_RECORD_SKIP) {
        printf(",\"bytes\":%" PRIu64 ",\"mode\":\"%04o\",\"mtime\":", record->size, record->mode);
        print_json_time(record->mtime, record->mtime_ns);
    }
    puts("}");
}

static void print_entry(struct list *list, const struct cp_record *record)
{
    bool is_dir = record->type == CP_RECORD_DIRECTORY;

    if (list->client.options->json) {
        print_json(list, record, is_dir ? "directory" : "file");
    } else {
        print_line(list, record, is_dir ? 'd' : '-');
    }
    if (is_dir) {
        list->client.report.directories++;
    } else {
        list->client.report.files++;
        list->client.report.bytes += record->size;
    }
}

static void print_skip(struct list *list, struct cp_record *record)
{
    if (!cp_result_is_left_out(record->result) || record->result.status == CP_RESERVED) {
        char path[sizeof list->path + sizeof record->name];
        snprintf(path, sizeof path, "%s%s", list->path, record->name);
        cp_report_skipped(&list->client.report, path, true, record->result);
        return;
    }
    record->mode = 0;
    record->size = 0;
    bool is_link = record->result.status == CP_IS_LINK;
    if (list->client.options->json) {
        print_json(list, record, is_link ? "link" : "special");
    } else {
        print_line(list, record, is_link ? 'l' : '?');
    }
}

static bool enter(struct list *list, const struct cp_record *record)
{
    if (list->depth == CP_DEPTH_MAX) {
        return false;
    }
    size_t len = strlen(list->path);
    list->lengths[list->depth++] = len;
    snprintf(list->path + len, sizeof list->path - len, "%s/", record->name);
    return true;
}

static bool leave(struct list *list)
{
    if (list->depth == 0) {
        return false;
    }
    list->path[list->lengths[--list->depth]] = '\0';
    return true;
}

static bool print_records(struct list *list, struct cp_reader *records)
{
    struct cp_record record = {0};
    int more;

    while ((more = cp_record_read(records, &record)) > 0) {
        bool ok = true;
        switch (record.type) {
        case CP_RECORD_FILE:
            print_entry(list, &record);
            break;
        case CP_RECORD_DIRECTORY:
            print_entry(list, &record);
            ok = enter(list, &record);
            break;
        case CP_RECORD_LEAVE:
            ok = leave(list);
            break;
        case CP_RECORD_SKIP:
            print_skip(list, &record);
            break;
        case CP_RECORD_DATA:
        case CP_RECORD_END:
        case CP_RECORD_ABORT:
            ok = false;
            break;
        }
        if (!ok) {
            return false;
        }
    }
    return more == 0;
}

/* Data has no place in a listing, an answer of nothing but "more" would go on for ever, and nothing
 * comes after the end. */
static bool is_useful(const struct list *list, const struct cp_batch *batch,
                      const struct cp_reader *records)
{
    bool is_end = batch->flags & CP_FETCHED_END;

    return batch->data_len == 0 && (records->left > 0 || is_end) &&
           (!list->ended || (records->left == 0 && is_end));
}

static bool ask(struct list *list)
{
    unsigned slots = list->client.channel.slots;
    uint64_t most = list->answered + 1 < slots ? list->answered + 1 : slots;

    while (!list->ended && list->asked - list->answered < most) {
        unsigned slot = (unsigned)(list->asked % slots);
        if (list->client.channel.send_busy[slot]) {
            break; /* the request before it is still on its way out */
        }
        if (!cp_client_fetch(&list->client, slot)) {
            return false;
        }
        list->asked++;
    }
    return true;
}

/* Answers come in the order of the requests, one to each. */
static bool take_answer(struct list *list, const struct cp_event *event, struct cp_message *message)
{
    struct cp_batch batch;

    if (message->type != CP_MESSAGE_FETCHED || list->answered == list->asked ||
        message->slot != list->answered % list->client.channel.slots ||
        !cp_batch_read(&message->body, &batch) || !is_useful(list, &batch, &message->body) ||
        !print_records(list, &message->body)) {
        return false;
    }
    list->answered++;
    list->ended = list->ended || batch.flags & CP_FETCHED_END;
    return !(list->ended && list->depth > 0) &&
           cp_channel_release(&list->client.channel, event->index);
}

static void fetch_all(struct list *list)
{
    struct cp_event event;
    struct cp_message message = {0};

    do {
        bool goes_on = ask(list);
        if (goes_on && !cp_client_wait(&list->client, &event, &message)) {
            return;
        }
        if (!goes_on || (event.type == CP_EVENT_MESSAGE && !take_answer(list, &event, &message))) {
            cp_client_broken(&list->client, cp_result_of(CP_MALFORMED));
            return;
        }
    } while (!list->ended || list->answered < list->asked);
}

int cp_run_list(const struct cp_options *options)
{
    static struct list list;
    struct cp_opened opened;
    int status = cp_client_begin(&list.client, options, "ls", options->arguments[0]);

    if (status == CP_EXIT_OK) {
        status = cp_client_connect(&list.client);
    }
    if (status != CP_EXIT_OK) {
        return status;
    }
    list.client.report.bar = false;
    if (cp_client_open(&list.client, CP_ACTION_LIST, options->recursive ? CP_OPEN_RECURSIVE : 0,
                       &opened)) {
        fetch_all(&list);
    }
    return cp_client_finish(&list.client);
}
