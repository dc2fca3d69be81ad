/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Walking a tree: gives one item after the other, directories before and after their contents,
 * names sorted. Opens no files and follows no links. Memory is that of the names of the directories
 * on the way down.
 */
#ifndef CP_WALK_H
#define CP_WALK_H

#include "limits.h"
#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

enum cp_item_type {
    CP_ITEM_END,       /* the walk is over */
    CP_ITEM_FILE,      /* open name in dir */
    CP_ITEM_DIRECTORY, /* its contents follow, then LEAVE */
    CP_ITEM_LEAVE,
    CP_ITEM_SKIP /* result says why; not only errors */
};

struct cp_item {
    enum cp_item_type type;
    int dir;          /* FILE: where it is; valid until the next call */
    const char *name; /* last component */
    const char *path; /* from the top of the walk, for people; valid until the next call */
    struct stat stat; /* DIRECTORY */
    struct cp_result result;
};

struct cp_walk_level {
    int fd;
    char *names;     /* type octet, name, NUL; one after the other */
    size_t *entries; /* offsets into names, sorted */
    size_t count;
    size_t next;
    size_t path_len; /* of the directory itself */
};

struct cp_walk {
    struct cp_walk_level levels[CP_DEPTH_MAX];
    unsigned depth;
    bool shallow; /* directories below the top are told of, not entered */
    bool leave_due;
    bool end_due;
    char *path;
    size_t path_size;
};

/*
 * Begin at the open directory fd, which the walk takes over. The first item is its contents: the
 * top itself is not an item. 0 or an errno (fd is closed then).
 */
int cp_walk_begin(struct cp_walk *walk, int fd, const char *path, bool shallow);
void cp_walk_next(struct cp_walk *walk, struct cp_item *item);
void cp_walk_end(struct cp_walk *walk);

#endif
