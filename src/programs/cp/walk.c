/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Walking a tree. A directory is read as a whole when it is entered, so that what a transfer adds
 * to it meanwhile is not seen and names come sorted. One descriptor per level stays open: names are
 * always looked up in the directory that was checked, whatever is renamed in between.
 */
#include "walk.h"

#include "path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int compare_entries(const void *a, const void *b, void *names)
{
    const char *text = names;

    return strcmp(text + *(const size_t *)a + 1, text + *(const size_t *)b + 1);
}

struct listing {
    char *names;
    size_t used, room;
    size_t *entries;
    size_t count, entry_room;
};

static bool grow(struct listing *list, size_t len)
{
    if (list->used + len > list->room) {
        size_t room = (list->room + len) * 2;
        char *names = realloc(list->names, room);
        if (!names) {
            return false;
        }
        list->names = names;
        list->room = room;
    }
    if (list->count == list->entry_room) {
        size_t room = (list->entry_room + 16) * 2;
        size_t *entries = realloc(list->entries, room * sizeof *entries);
        if (!entries) {
            return false;
        }
        list->entries = entries;
        list->entry_room = room;
    }
    return true;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int read_names(DIR *dir, struct listing *list)
{
    struct dirent *entry;

    while (errno = 0, (entry = readdir(dir)) != NULL) {
        size_t len = strlen(entry->d_name) + 2;
        if (is_dots(entry->d_name)) {
            continue;
        }
        if (!grow(list, len)) {
            return ENOMEM;
        }
        list->entries[list->count++] = list->used;
        list->names[list->used] = (char)entry->d_type;
        memcpy(list->names + list->used + 1, entry->d_name, len - 1);
        list->used += len;
    }
    return errno;
}

/* Add a level for the directory fd, which is taken over in any case. */
static int push(struct cp_walk *walk, int fd, size_t path_len)
{
    struct listing list = {0};
    int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = again >= 0 ? fdopendir(again) : NULL;
    int error = dir ? read_names(dir, &list) : errno;

    if (dir) {
        closedir(dir);
    } else if (again >= 0) {
        close(again);
    }
    if (error) {
        free(list.names);
        free(list.entries);
        close(fd);
        return error;
    }
    if (list.count > 0) {
        qsort_r(list.entries, list.count, sizeof *list.entries, compare_entries, list.names);
    }
    walk->levels[walk->depth++] =
        (struct cp_walk_level){fd, list.names, list.entries, list.count, 0, path_len};
    return 0;
}

static void pop(struct cp_walk *walk)
{
    struct cp_walk_level *level = &walk->levels[--walk->depth];

    close(level->fd);
    free(level->names);
    free(level->entries);
}

/* walk->path becomes base_len octets of itself, '/', name. Returns the length, 0 without memory. */
static size_t set_path(struct cp_walk *walk, size_t base_len, const char *name)
{
    size_t len = base_len + 1 + strlen(name);

    if (len + 1 > walk->path_size) {
        char *path = realloc(walk->path, len * 2);
        if (!path) {
            return 0;
        }
        walk->path = path;
        walk->path_size = len * 2;
    }
    size_t at = base_len;
    if (base_len > 0 && walk->path[base_len - 1] != '/') {
        walk->path[at++] = '/';
    }
    strcpy(walk->path + at, name);
    return at + strlen(name);
}

int cp_walk_begin(struct cp_walk *walk, int fd, const char *path, bool shallow)
{
    memset(walk, 0, sizeof *walk);
    walk->shallow = shallow;
    size_t len = set_path(walk, 0, path);
    if (!walk->path) {
        close(fd);
        return ENOMEM;
    }
    int error = push(walk, fd, len);
    if (error) {
        cp_walk_end(walk);
    }
    return error;
}

void cp_walk_end(struct cp_walk *walk)
{
    while (walk->depth > 0) {
        pop(walk);
    }
    free(walk->path);
    walk->path = NULL;
    walk->path_size = 0;
}

static void enter(struct cp_walk *walk, const struct cp_walk_level *level, struct cp_item *item,
                  size_t path_len)
{
    int fd = openat(level->fd, item->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int error = 0;

    item->type = CP_ITEM_SKIP;
    if (fd < 0) {
        error = errno;
    } else if (fstat(fd, &item->stat) < 0) {
        error = errno;
        close(fd);
    } else if (walk->shallow) {
        close(fd);
        walk->leave_due = true;
    } else if (walk->depth == CP_DEPTH_MAX) {
        item->result = cp_result_of(CP_TOO_DEEP);
        close(fd);
        return;
    } else {
        error = push(walk, fd, path_len);
    }
    item->result = cp_result_from_errno(error);
    if (!error) {
        item->type = CP_ITEM_DIRECTORY;
    }
}

/* DT_UNKNOWN: errno. */
static unsigned char type_of(int dir, const char *name, unsigned char type)
{
    struct stat st;

    /* Some file systems do not say it in the directory. */
    if (type == DT_UNKNOWN && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        return (unsigned char)IFTODT(st.st_mode);
    }
    return type;
}

static void next_entry(struct cp_walk *walk, struct cp_item *item)
{
    struct cp_walk_level *level = &walk->levels[walk->depth - 1];
    const char *entry = level->names + level->entries[level->next++];
    size_t path_len = set_path(walk, level->path_len, entry + 1);

    item->name = entry + 1;
    item->path = walk->path;
    item->dir = level->fd;
    unsigned char type = type_of(level->fd, item->name, (unsigned char)entry[0]);
    const int error = errno;
    if (cp_name_reserved(item->name)) {
        item->type = CP_ITEM_SKIP;
        item->result = cp_result_of(CP_RESERVED);
        return;
    }
    switch (type) {
    case DT_REG:
        item->type = CP_ITEM_FILE;
        break;
    case DT_DIR:
        enter(walk, level, item, path_len);
        break;
    case DT_UNKNOWN:
        item->type = CP_ITEM_SKIP;
        item->result = cp_result_from_errno(error);
        break;
    default:
        item->type = CP_ITEM_SKIP;
        item->result =
            type == DT_LNK ? cp_result_of(CP_IS_LINK) : cp_result_of_special(DTTOIF((mode_t)type));
        break;
    }
}

void cp_walk_next(struct cp_walk *walk, struct cp_item *item)
{
    memset(item, 0, sizeof *item);
    if (walk->leave_due) {
        walk->leave_due = false;
        item->type = CP_ITEM_LEAVE;
        return;
    }
    if (walk->depth == 0) {
        item->type = CP_ITEM_END;
        return;
    }
    const struct cp_walk_level *level = &walk->levels[walk->depth - 1];
    if (level->next < level->count) {
        next_entry(walk, item);
        return;
    }
    pop(walk);
    item->type = walk->depth == 0 ? CP_ITEM_END : CP_ITEM_LEAVE;
}
