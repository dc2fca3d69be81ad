/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sending half of a transfer, for put and get alike: turns files and trees into records and
 * fills slots with their data. Knows nothing of connections. Many small files share a slot, a large
 * one takes as many as it needs.
 */
#ifndef CP_SOURCE_H
#define CP_SOURCE_H

#include "digest.h"
#include "record.h"
#include "walk.h"

#include <time.h>

/* One thing to copy. */
struct cp_top {
    int fd;           /* open, taken over by the source; -1: open path */
    const char *path; /* for opening and for people */
    const char *name; /* what it is called at the other end */
};

/* What the source tells while it fills. Without it (NULL) what is skipped becomes SKIP records. */
struct cp_source_events {
    void *context;
    /* A FILE or DIRECTORY record with this number was written. */
    void (*begun)(void *context, uint64_t sequence, const char *path, uint64_t size, bool is_dir);
    /* Something is not copied, or (is_begun) not completed. */
    void (*problem)(void *context, const char *path, bool is_begun, struct cp_result result);
};

struct cp_source_options {
    bool recursive;
    bool checksum;
    bool list;    /* names only, no data: FILE without END, contents of the top only */
    bool shallow; /* list: do not enter directories */
    bool sync;    /* a slot holds one file or directory at most: the sink flushes each */
};

struct cp_source {
    struct cp_source_options options;
    const struct cp_source_events *events;
    struct cp_top *tops;
    size_t top_count;
    size_t top_next;
    struct cp_walk walk;
    bool walking;
    bool top_begun;    /* the directory of this walk has its own record */
    uint64_t sequence; /* of the next FILE or DIRECTORY record */
    /* the open file */
    int fd; /* -1: none */
    uint64_t size;
    struct timespec mtime;
    uint64_t offset;
    bool dropped; /* the other end does not want the rest */
    struct cp_digest digest;
    char path[CP_PATH_MAX]; /* cut if longer: for people only */
};

/* tops must stay until the end. */
void cp_source_begin(struct cp_source *source, struct cp_top *tops, size_t top_count,
                     const struct cp_source_options *options,
                     const struct cp_source_events *events);

/*
 * Write records, and their data to the slot, as much as fits. Returns false when everything has
 * been told; the records of this call still count.
 */
bool cp_source_fill(struct cp_source *source, uint8_t *slot, size_t slot_size,
                    struct cp_writer *records, uint32_t *data_len);

/* The other end could not take the file with this number: send no more of it. */
void cp_source_drop(struct cp_source *source, uint64_t sequence);
void cp_source_end(struct cp_source *source);

/*
 * Add what a source would send from the open file or directory fd, which stays open. Gives up at
 * the deadline of cp_clock_ms: false, with totals of 0, not known.
 */
struct cp_totals {
    uint64_t files;
    uint64_t bytes;
};
bool cp_source_count(int fd, bool recursive, int64_t deadline, struct cp_totals *totals);

#endif
