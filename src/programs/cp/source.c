/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Filling slots. The order of records is the grammar in record.h. A file is copied with the size it
 * had when it was opened. If its size or its modification time is another one at the end, the copy
 * is aborted: it may be a mixture of two contents. A file that is replaced or removed under its
 * name meanwhile is still the one that was opened, and its copy is whole.
 *
 * Data comes by pread into the slot; mapping the files instead was measured (docs/copies.md).
 */
#include "source.h"

#include "clock.h"
#include "path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define FILE_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

void cp_source_begin(struct cp_source *source, struct cp_top *tops, size_t top_count,
                     const struct cp_source_options *options, const struct cp_source_events *events)
{
    memset(source, 0, sizeof *source);
    source->options = *options;
    source->events = events;
    source->tops = tops;
    source->top_count = top_count;
    source->fd = -1;
}

static void problem(struct cp_source *source, struct cp_writer *records, const char *name,
                    bool is_begun, struct cp_result result)
{
    if (source->events) {
        source->events->problem(source->events->context, source->path, is_begun, result);
    } else if (!is_begun && cp_name_is_component(name, strlen(name))) {
        struct cp_record record = {.type = CP_RECORD_SKIP, .result = result};
        snprintf(record.name, sizeof record.name, "%s", name);
        cp_record_write(records, &record);
    }
}

static void write_begin(struct cp_source *source, struct cp_writer *records, const char *name,
                        const struct stat *st)
{
    bool is_dir = S_ISDIR(st->st_mode);
    struct cp_record record = {
        .type = is_dir ? CP_RECORD_DIRECTORY : CP_RECORD_FILE,
        .mode = st->st_mode & (is_dir ? CP_DIRECTORY_MODE : CP_FILE_MODE),
        .size = is_dir ? 0 : (uint64_t)st->st_size,
        .mtime = st->st_mtim.tv_sec,
        .mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
    };

    snprintf(record.name, sizeof record.name, "%s", name);
    cp_record_write(records, &record);
    if (source->events) {
        source->events->begun(source->events->context, source->sequence, source->path, record.size,
                              is_dir);
    }
    source->sequence++;
}

/* Begin to copy the open file fd, which is taken over. */
static void begin_file(struct cp_source *source, struct cp_writer *records, int fd,
                       const char *name)
{
    struct stat st;
    struct cp_result result = {0};

    if (fd < 0 || fstat(fd, &st) < 0) {
        result = cp_result_from_errno(errno);
    } else if (!S_ISREG(st.st_mode)) {
        result = cp_result_of_special(st.st_mode);
    } else if (!cp_name_ok(name, strlen(name))) {
        result = cp_result_of(cp_name_reserved(name) ? CP_RESERVED : CP_BAD_NAME);
    } else if (source->options.checksum && !cp_digest_begin(&source->digest)) {
        result = cp_result_of(CP_NO_MEMORY);
    }
    if (result.status != CP_OK) {
        problem(source, records, name, false, result);
        if (fd >= 0) {
            close(fd);
        }
        return;
    }
    write_begin(source, records, name, &st);
    source->fd = fd;
    source->size = (uint64_t)st.st_size;
    source->mtime = st.st_mtim;
    source->offset = 0;
    source->dropped = false;
    if (source->size > CP_SLOT_SIZE_DEFAULT) {
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    }
}

/* Fill buf from the file. Returns how much came; errno is 0 at the end of the file. */
static size_t read_file(int fd, uint8_t *buf, size_t len, uint64_t offset)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = pread(fd, buf + done, len - done, (off_t)(offset + done));
        if (n == 0) {
            errno = 0;
            break;
        }
        if (n < 0 && errno != EINTR) {
            break;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return done;
}

static void close_file(struct cp_source *source)
{
    close(source->fd);
    source->fd = -1;
}

static void abort_file(struct cp_source *source, struct cp_writer *records, struct cp_result result)
{
    struct cp_record record = {.type = CP_RECORD_ABORT, .result = result};

    cp_record_write(records, &record);
    if (!source->dropped) {
        problem(source, records, "", true, result);
    }
    close_file(source);
}

/*
 * Is the open file as it was at the beginning, and is that all of it? Its owner, links and mode are
 * no matter. Files of /proc have content although their size is 0.
 */
static struct cp_result check_unchanged(const struct cp_source *source)
{
    struct stat st;
    uint8_t behind;
    size_t more = read_file(source->fd, &behind, 1, source->size);

    if ((more == 0 && errno != 0) || fstat(source->fd, &st) < 0) {
        return cp_result_from_errno(errno);
    }
    if ((uint64_t)st.st_size < source->size) {
        return cp_result_of(CP_CHANGED);
    }
    bool is_same = (uint64_t)st.st_size == source->size &&
                   st.st_mtim.tv_sec == source->mtime.tv_sec &&
                   st.st_mtim.tv_nsec == source->mtime.tv_nsec;
    if (!is_same) {
        return cp_result_of(CP_MODIFIED);
    }
    return cp_result_of(more > 0 ? CP_WRONG_SIZE : CP_OK);
}

/* Why the file ended before its size did. */
static struct cp_result explain_short(const struct cp_source *source)
{
    struct cp_result changed = check_unchanged(source);

    return changed.status == CP_OK ? cp_result_of(CP_WRONG_SIZE) : changed;
}

static void end_file(struct cp_source *source, struct cp_writer *records)
{
    struct cp_record record = {.type = CP_RECORD_END};
    struct cp_result changed = check_unchanged(source);

    if (changed.status != CP_OK) {
        abort_file(source, records, changed);
        return;
    }

    if (source->options.checksum) {
        if (!cp_digest_finish(&source->digest, record.digest)) {
            abort_file(source, records, cp_result_of(CP_CHECKSUM));
            return;
        }
        record.digest_len = CP_DIGEST_LEN;
    }
    cp_record_write(records, &record);
    close_file(source);
}

/* Goes on with the open file. False if the slot is full. */
static bool continue_file(struct cp_source *source, uint8_t *slot, size_t slot_size,
                          struct cp_writer *records, uint32_t *data_len)
{
    struct cp_record record = {.type = CP_RECORD_DATA};
    uint64_t rest = source->size - source->offset;
    size_t room = slot_size - *data_len;
    size_t len = rest < room ? (size_t)rest : room;

    if (source->dropped) {
        abort_file(source, records, cp_result_of(CP_STOPPED));
        return true;
    }
    if (rest > 0 && room == 0) {
        return false;
    }
    if (len > 0) {
        if (read_file(source->fd, slot + *data_len, len, source->offset) < len) {
            abort_file(source, records,
                       errno ? cp_result_from_errno(errno) : explain_short(source));
            return true;
        }
        cp_digest_update(&source->digest, slot + *data_len, len);
        record.data_len = (uint32_t)len;
        cp_record_write(records, &record);
        *data_len += (uint32_t)len;
        source->offset += len;
    }
    if (source->offset == source->size) {
        end_file(source, records);
    }
    return true;
}

/* A file of a listing: its attributes are all there is. */
static void list_file(struct cp_source *source, struct cp_writer *records,
                      const struct cp_item *item)
{
    struct stat st;

    if (fstatat(item->dir, item->name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        problem(source, records, item->name, false, cp_result_from_errno(errno));
    } else {
        write_begin(source, records, item->name, &st);
    }
}

static void continue_walk(struct cp_source *source, struct cp_writer *records)
{
    struct cp_record leave = {.type = CP_RECORD_LEAVE};
    struct cp_item item;

    cp_walk_next(&source->walk, &item);
    if (item.path) {
        snprintf(source->path, sizeof source->path, "%s", item.path);
    }
    switch (item.type) {
    case CP_ITEM_FILE:
        if (source->options.list) {
            list_file(source, records, &item);
        } else {
            begin_file(source, records, openat(item.dir, item.name, FILE_FLAGS | O_NOFOLLOW),
                       item.name);
        }
        break;
    case CP_ITEM_DIRECTORY:
        write_begin(source, records, item.name, &item.stat);
        break;
    case CP_ITEM_LEAVE:
        cp_record_write(records, &leave);
        break;
    case CP_ITEM_SKIP:
        problem(source, records, item.name, false, item.result);
        break;
    case CP_ITEM_END:
        cp_walk_end(&source->walk);
        source->walking = false;
        if (source->top_begun) {
            cp_record_write(records, &leave);
        }
        break;
    }
}

/* Is enough in a slot, however much more would fit? */
static bool is_enough(const struct cp_source *source, uint64_t entries, int64_t deadline)
{
    bool is_between = source->fd < 0;

    return (is_between && source->options.sync) ||
           (is_between && !source->options.list && entries >= CP_SLOT_ENTRIES) ||
           cp_clock_ms() > deadline;
}

static void begin_directory(struct cp_source *source, struct cp_writer *records, int fd,
                            const struct cp_top *top, const struct stat *st)
{
    if (!source->options.recursive && !source->options.list) {
        problem(source, records, top->name, false, cp_result_of(CP_IS_DIRECTORY));
        close(fd);
        return;
    }
    int error = cp_walk_begin(&source->walk, fd, top->path, source->options.shallow);
    if (error) {
        problem(source, records, top->name, false, cp_result_from_errno(error));
        return;
    }
    source->walking = true;
    source->top_begun = !source->options.list;
    if (source->top_begun) {
        write_begin(source, records, top->name, st);
    }
}

/* Looks before it opens: the writer of a FIFO would notice that it is opened. */
static void begin_top(struct cp_source *source, struct cp_writer *records)
{
    struct cp_top *top = &source->tops[source->top_next++];
    int fd = top->fd;
    struct stat st;

    top->fd = -1;
    snprintf(source->path, sizeof source->path, "%s", top->path);
    if (fd < 0 && stat(top->path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        problem(source, records, top->name, false, cp_result_of_special(st.st_mode));
        return;
    }
    if (fd < 0) {
        fd = open(top->path, FILE_FLAGS);
    }
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        begin_directory(source, records, fd, top, &st);
    } else if (fd >= 0 && source->options.list) {
        write_begin(source, records, top->name, &st);
        close(fd);
    } else {
        begin_file(source, records, fd, top->name);
    }
}

bool cp_source_fill(struct cp_source *source, uint8_t *slot, size_t slot_size,
                    struct cp_writer *records, uint32_t *data_len)
{
    const size_t room = records->left;
    const int64_t deadline = cp_clock_ms() + CP_FILL_MS;
    const uint64_t first = source->sequence;

    *data_len = 0;
    for (;;) {
        /* The other end hears nothing while a slot is filled or carried out: neither takes long. */
        if (records->left < room && is_enough(source, source->sequence - first, deadline)) {
            return true;
        }
        /* No step writes more than one name, or one digest and one number. */
        if (records->left < CP_RECORD_MAX) {
            return true;
        }
        if (source->fd >= 0) {
            if (!continue_file(source, slot, slot_size, records, data_len)) {
                return true;
            }
        } else if (source->walking) {
            continue_walk(source, records);
        } else if (source->top_next < source->top_count) {
            begin_top(source, records);
        } else {
            return false;
        }
    }
}

void cp_source_drop(struct cp_source *source, uint64_t sequence)
{
    if (source->fd >= 0 && sequence + 1 == source->sequence) {
        source->dropped = true;
    }
}

void cp_source_end(struct cp_source *source)
{
    if (source->fd >= 0) {
        close_file(source);
    }
    if (source->walking) {
        cp_walk_end(&source->walk);
        source->walking = false;
    }
    for (; source->top_next < source->top_count; source->top_next++) {
        if (source->tops[source->top_next].fd >= 0) {
            close(source->tops[source->top_next].fd);
        }
    }
    cp_digest_free(&source->digest);
}

bool cp_source_count(int fd, bool recursive, int64_t deadline, struct cp_totals *totals)
{
    static _Thread_local struct cp_walk walk;
    struct cp_item item;
    struct stat st;

    if (fstat(fd, &st) < 0) {
        return true;
    }
    if (S_ISREG(st.st_mode)) {
        totals->files++;
        totals->bytes += (uint64_t)st.st_size;
    }
    int dir =
        recursive && S_ISDIR(st.st_mode) ? openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (dir < 0 || cp_walk_begin(&walk, dir, "", false) != 0) {
        return true;
    }
    do {
        if (cp_clock_ms() > deadline) {
            *totals = (struct cp_totals){0, 0};
            cp_walk_end(&walk);
            return false;
        }
        cp_walk_next(&walk, &item);
        if (item.type == CP_ITEM_FILE &&
            fstatat(item.dir, item.name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            totals->files++;
            totals->bytes += (uint64_t)st.st_size;
        }
    } while (item.type != CP_ITEM_END);
    cp_walk_end(&walk);
    return true;
}
