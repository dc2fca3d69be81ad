/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receiving half of a transfer: turns records and the data in slots into files below one
 * directory. Trusts neither: whatever the records say, nothing outside that directory is touched,
 * and no file appears under its name before it is complete.
 */
#ifndef CP_SINK_H
#define CP_SINK_H

#include "digest.h"
#include "record.h"
#include "room.h"
#include "temp.h"

/* What became of an entry. Each FILE and DIRECTORY record is told of once, in no certain order. */
struct cp_sink_events {
    void *context;
    void (*done)(void *context, uint64_t sequence, const char *path, uint64_t size, bool is_dir,
                 struct cp_result result);
    void (*skipped)(void *context, const char *path, struct cp_result result); /* may be NULL */
};

struct cp_sink_level {
    int fd; /* -1: could not be made, everything below it fails */
    uint32_t mode;
    int64_t mtime;
    uint32_t mtime_ns;
    bool keep;    /* leave its attributes alone */
    bool cleared; /* of what killed processes left, see temp.h */
    size_t path_len;
};

struct cp_sink {
    struct cp_sink_level levels[CP_DEPTH_MAX + 1]; /* [0] is the directory that it was begun with */
    unsigned depth;
    const struct cp_sink_events *events;
    char
        top_name[CP_NAME_MAX + 1]; /* replaces the first component; "": as it comes; ".": drop it */
    bool one_top; /* one file or tree was asked for: what follows it is not what was asked for */
    bool single;  /* and it is a file */
    bool sync;
    struct cp_room *room; /* of the server, or NULL */
    uint64_t sequence;
    /* the file being written */
    bool in_file;
    bool told;      /* done was called for it: the rest is thrown away */
    bool by_source; /* within done: it is the source that failed */
    struct cp_record file;
    uint64_t offset;
    struct cp_temp temp;
    struct cp_claim claim;
    struct cp_digest digest;
    bool checksum;
    char *path; /* room for every depth */
};

/* dir is taken over. path is what the directory is called towards people. False without memory. */
bool cp_sink_begin(struct cp_sink *sink, int dir, const char *path, const char *top_name,
                   const struct cp_sink_events *events);

/*
 * Carry out records; their data is slot[0..slot_len), all of which they must use. False if they are
 * malformed or in a wrong order.
 */
bool cp_sink_take(struct cp_sink *sink, struct cp_reader *records, const uint8_t *slot,
                  size_t slot_len);

/* True if nothing is half done: the transfer may end here. */
bool cp_sink_complete(const struct cp_sink *sink);

/* Throw away what is half done. */
void cp_sink_end(struct cp_sink *sink);

#endif
