/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Carrying out records. Each directory that a record enters stays open until it is left, and names
 * are looked up in that descriptor only, without following links: so a name, a link that somebody
 * made meanwhile, or a directory that was moved cannot lead anywhere else.
 *
 * What fails is told once and the transfer goes on with the next entry.
 */
#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_ROOM ((CP_DEPTH_MAX + 1) * (CP_NAME_MAX + 1) + CP_PATH_MAX + 1)

bool cp_sink_begin(struct cp_sink *sink, int dir, const char *path, const char *top_name,
                   const struct cp_sink_events *events)
{
    memset(sink, 0, sizeof *sink);
    sink->temp = (struct cp_temp)CP_TEMP_NONE;
    sink->levels[0].fd = dir;
    sink->levels[0].keep = true;
    sink->events = events;
    snprintf(sink->top_name, sizeof sink->top_name, "%s", top_name);
    sink->path = malloc(PATH_ROOM);
    if (!sink->path) {
        close(dir);
        sink->levels[0].fd = -1;
        return false;
    }
    snprintf(sink->path, CP_PATH_MAX, "%s", path);
    sink->levels[0].path_len = strlen(sink->path);
    return true;
}

static struct cp_sink_level *here(struct cp_sink *sink)
{
    return &sink->levels[sink->depth];
}

/* The name that a record's entry gets; sink->path becomes its path. */
static const char *resolve_name(struct cp_sink *sink, const struct cp_record *record)
{
    size_t len = here(sink)->path_len;
    const char *name = sink->depth == 0 && sink->top_name[0] ? sink->top_name : record->name;
    const char *slash = len > 0 && sink->path[len - 1] != '/' ? "/" : "";

    snprintf(sink->path + len, PATH_ROOM - len, "%s%s", slash, name);
    return name;
}

static void tell(struct cp_sink *sink, uint64_t sequence, const struct cp_record *record,
                 struct cp_result result)
{
    sink->events->done(sink->events->context, sequence, sink->path, record->size,
                       record->type == CP_RECORD_DIRECTORY, result);
}

/* The open file failed: say so, once, and forget it. What follows of it is thrown away. */
static void fail_file(struct cp_sink *sink, struct cp_result result)
{
    cp_temp_discard(&sink->temp);
    cp_claim_end(&sink->claim);
    if (!sink->told) {
        sink->told = true;
        tell(sink, sink->sequence - 1, &sink->file, result);
    }
}

static void fail_file_errno(struct cp_sink *sink, int error)
{
    fail_file(sink, cp_result_from_errno(error));
}

static bool is_one_too_many(const struct cp_sink *sink)
{
    return sink->one_top && sink->depth == 0 && sink->sequence > 0;
}

/*
 * May a file have this name? Only files and links to them are replaced: a device or a FIFO has
 * users that a file has not, and a link to one, such as /dev/stdout, stands for it. So do the links
 * of /proc.
 */
static struct cp_result judge_name(int dir, const char *name)
{
    static const char proc[] = "/proc/";
    char leads_to[sizeof proc - 1];
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISREG(st.st_mode)) {
        return cp_result_of(CP_OK);
    }
    if (S_ISDIR(st.st_mode)) {
        return cp_result_of(CP_HAS_DIRECTORY);
    }
    if (!S_ISLNK(st.st_mode)) {
        return cp_result_of_special(st.st_mode);
    }
    if (readlinkat(dir, name, leads_to, sizeof leads_to) == (ssize_t)sizeof leads_to &&
        memcmp(leads_to, proc, sizeof leads_to) == 0) {
        return cp_result_of(CP_IS_LINK);
    }
    bool is_special =
        fstatat(dir, name, &st, 0) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
    return is_special ? cp_result_of_special(st.st_mode) : cp_result_of(CP_OK);
}

static bool begin_file(struct cp_sink *sink, const struct cp_record *record)
{
    int dir = here(sink)->fd;

    if (sink->in_file || is_one_too_many(sink)) {
        return false;
    }
    sink->in_file = true;
    sink->told = false;
    sink->file = *record;
    sink->offset = 0;
    sink->sequence++;
    const char *name = resolve_name(sink, record);
    if (dir < 0) {
        fail_file(sink, cp_result_of(CP_PARENT));
        return true;
    }
    struct cp_result result = judge_name(dir, name);
    if (result.status == CP_OK) {
        result = cp_result_from_errno(cp_temp_create(&sink->temp, dir, name, &here(sink)->cleared));
    }
    if (result.status == CP_OK) {
        /* Fails here if the disk cannot hold the file, not after most of it was copied. */
        result = cp_claim_begin(&sink->claim, sink->room, sink->temp.fd, record->size);
    }
    if (result.status == CP_OK && sink->checksum && !cp_digest_begin(&sink->digest)) {
        result = cp_result_of(CP_NO_MEMORY);
    }
    if (result.status != CP_OK) {
        fail_file(sink, result);
    }
    return true;
}

static int write_at(int fd, const uint8_t *data, size_t len, uint64_t offset)
{
    while (len > 0) {
        ssize_t n = pwrite(fd, data, len, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? errno : EIO;
        }
        data += n;
        len -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

/* Is a piece complete that --sync wants on the disk before more is taken? */
static bool is_sync_due(const struct cp_sink *sink, uint32_t data_len)
{
    return sink->sync && sink->offset / CP_SYNC_STEP != (sink->offset + data_len) / CP_SYNC_STEP;
}

static struct cp_result write_data(struct cp_sink *sink, const uint8_t *data, uint32_t len)
{
    struct cp_result result = cp_claim_extend(&sink->claim, sink->offset + len);

    if (result.status != CP_OK) {
        return result;
    }
    int error = write_at(sink->temp.fd, data, len, sink->offset);
    if (!error && is_sync_due(sink, len) && fdatasync(sink->temp.fd) < 0) {
        error = errno;
    }
    cp_claim_written(&sink->claim, len);
    return cp_result_from_errno(error);
}

static bool take_data(struct cp_sink *sink, const struct cp_record *record, struct cp_reader *slot)
{
    const uint8_t *data = cp_take(slot, record->data_len);

    /* A record of no data is of no use but to keep the other end busy. */
    if (!data || record->data_len == 0 || !sink->in_file ||
        record->data_len > sink->file.size - sink->offset) {
        return false;
    }
    if (!sink->told) {
        struct cp_result result = write_data(sink, data, record->data_len);
        if (result.status != CP_OK) {
            fail_file(sink, result);
        } else {
            cp_digest_update(&sink->digest, data, record->data_len);
        }
    }
    sink->offset += record->data_len;
    return true;
}

static bool end_file(struct cp_sink *sink, const struct cp_record *record)
{
    uint8_t sum[CP_DIGEST_LEN];

    if (!sink->in_file || sink->offset != sink->file.size) {
        return false;
    }
    sink->in_file = false;
    if (sink->told) {
        return true;
    }
    if (sink->checksum &&
        (record->digest_len != CP_DIGEST_LEN || !cp_digest_finish(&sink->digest, sum) ||
         memcmp(sum, record->digest, CP_DIGEST_LEN) != 0)) {
        fail_file(sink, cp_result_of(CP_CHECKSUM));
        return true;
    }
    cp_claim_end(&sink->claim);
    int error = cp_temp_commit(&sink->temp, sink->file.mode, sink->file.mtime, sink->file.mtime_ns,
                               sink->sync);
    if (error) {
        fail_file_errno(sink, error);
    } else {
        tell(sink, sink->sequence - 1, &sink->file, cp_result_of(CP_OK));
    }
    return true;
}

static bool abort_file(struct cp_sink *sink, const struct cp_record *record)
{
    if (!sink->in_file) {
        return false;
    }
    sink->by_source = true;
    fail_file(sink, record->result);
    sink->by_source = false;
    sink->in_file = false;
    return true;
}

/*
 * Take the directory that is there, or make it, for level. The sticky bit and set-group-ID stay
 * where they are: somebody set them, or they came from the directory above.
 */
static struct cp_result open_directory(struct cp_room *room, int dir, const char *name,
                                       struct cp_sink_level *level)
{
    struct cp_result result = cp_room_check(room, dir, 0);
    bool may_be_new = strcmp(name, ".") != 0;
    struct stat st;

    if (may_be_new && result.status == CP_OK && mkdirat(dir, name, level->mode | 0700) < 0 &&
        errno != EEXIST) {
        return cp_result_from_errno(errno);
    }
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        bool was_not_made = errno == ENOENT && result.status != CP_OK;
        return was_not_made ? result : cp_result_from_errno(errno);
    }
    if (fstat(fd, &st) < 0) {
        result = cp_result_from_errno(errno);
        close(fd);
        return result;
    }
    /* One that an earlier copy left without write permission must take files again. */
    if (may_be_new && (st.st_mode & 0700) != 0700) {
        (void)fchmod(fd, (st.st_mode & CP_DIRECTORY_MODE) | 0700);
    }
    level->fd = fd;
    level->mode |= st.st_mode & CP_DIRECTORY_MODE & ~0777U;
    return cp_result_of(CP_OK);
}

static bool enter(struct cp_sink *sink, const struct cp_record *record)
{
    const struct cp_sink_level *above = here(sink);
    struct cp_sink_level level = {
        .fd = -1, .mode = record->mode, .mtime = record->mtime, .mtime_ns = record->mtime_ns};
    struct cp_result result = {0};

    if (sink->in_file || sink->single || is_one_too_many(sink) || sink->depth == CP_DEPTH_MAX) {
        return false;
    }
    const char *name = resolve_name(sink, record);
    if (above->fd < 0) {
        result = cp_result_of(CP_PARENT);
    } else {
        result = open_directory(sink->room, above->fd, name, &level);
    }
    /* Before the files in it are told of. Also if it was there: it may not have been flushed. */
    if (sink->sync && level.fd >= 0 && fsync(above->fd) < 0) {
        result = cp_result_from_errno(errno);
        close(level.fd);
        level.fd = -1;
    }
    level.keep = strcmp(name, ".") == 0;
    level.path_len = strlen(sink->path);
    sink->levels[++sink->depth] = level;
    tell(sink, sink->sequence++, record, result);
    return true;
}

static bool leave(struct cp_sink *sink)
{
    const struct cp_sink_level *level = here(sink);
    struct timespec times[2] = {{0, UTIME_NOW},
                                {(time_t)level->mtime, (long)level->mtime_ns}}; /* temp.c */

    if (sink->in_file || sink->depth == 0) {
        return false;
    }
    if (level->fd >= 0) {
        /* Fails for a directory that was there before and belongs to somebody else: no harm. */
        if (!level->keep) {
            (void)fchmod(level->fd, level->mode);
            (void)futimens(level->fd, times);
            if (sink->sync) {
                (void)fsync(level->fd);
            }
        }
        close(level->fd);
    }
    sink->depth--;
    return true;
}

static bool skip(struct cp_sink *sink, const struct cp_record *record)
{
    if (sink->in_file) {
        return false;
    }
    if (sink->events->skipped) {
        (void)resolve_name(sink, record);
        sink->events->skipped(sink->events->context, sink->path, record->result);
    }
    return true;
}

bool cp_sink_take(struct cp_sink *sink, struct cp_reader *records, const uint8_t *slot,
                  size_t slot_len)
{
    struct cp_reader data = {slot, slot_len, false};
    struct cp_record record = {0};
    bool ok = true;
    int more = 0;

    while (ok && (more = cp_record_read(records, &record)) > 0) {
        switch (record.type) {
        case CP_RECORD_FILE:
            ok = begin_file(sink, &record);
            break;
        case CP_RECORD_DATA:
            ok = take_data(sink, &record, &data);
            break;
        case CP_RECORD_END:
            ok = end_file(sink, &record);
            break;
        case CP_RECORD_ABORT:
            ok = abort_file(sink, &record);
            break;
        case CP_RECORD_DIRECTORY:
            ok = enter(sink, &record);
            break;
        case CP_RECORD_LEAVE:
            ok = leave(sink);
            break;
        case CP_RECORD_SKIP:
            ok = skip(sink, &record);
            break;
        }
    }
    return ok && more == 0 && data.left == 0;
}

bool cp_sink_complete(const struct cp_sink *sink)
{
    return !sink->in_file && sink->depth == 0;
}

void cp_sink_end(struct cp_sink *sink)
{
    cp_temp_discard(&sink->temp);
    cp_claim_end(&sink->claim);
    for (unsigned i = 0; i <= sink->depth; i++) {
        if (sink->levels[i].fd >= 0) {
            close(sink->levels[i].fd);
        }
    }
    sink->depth = 0;
    sink->levels[0].fd = -1;
    cp_digest_free(&sink->digest);
    free(sink->path);
    sink->path = NULL;
}
