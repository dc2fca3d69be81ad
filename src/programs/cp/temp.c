/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Temporary files. The hidden name is made from the final one, so that a repeated transfer finds
 * what a killed one has left; a lock on the file, which ends with its process, tells leftovers from
 * transfers that are still at work.
 */
#include "temp.h"

#include "path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define ATTEMPTS 64 /* concurrent transfers of one file, at most */

static uint64_t hash_name(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a; only has to tell names of a directory apart */

    for (; *name; name++) {
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    }
    return hash;
}

static void hidden_name(struct cp_temp *temp, unsigned attempt)
{
    snprintf(temp->hidden, sizeof temp->hidden, CP_TEMP_PREFIX "%016llx.%u",
             (unsigned long long)hash_name(temp->name), attempt);
}

/* Remove temp->hidden if the process that made it has ended. True if the name is free now. */
static bool clear_leftover(const struct cp_temp *temp)
{
    int fd = openat(temp->dir, temp->hidden, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT;
    }
    bool ours = flock(fd, LOCK_EX | LOCK_NB) == 0 && unlinkat(temp->dir, temp->hidden, 0) == 0;
    close(fd);
    return ours;
}

static int create_hidden(struct cp_temp *temp)
{
    for (unsigned attempt = 0; attempt < ATTEMPTS; attempt++) {
        hidden_name(temp, attempt);
        for (int again = 0; again < 2; again++) {
            temp->fd = openat(temp->dir, temp->hidden,
                              O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
            if (temp->fd >= 0) {
                (void)flock(temp->fd, LOCK_EX | LOCK_NB);
                return 0;
            }
            if (errno != EEXIST) {
                return errno;
            }
            if (!clear_leftover(temp)) {
                break;
            }
        }
    }
    return EBUSY;
}

int cp_temp_create(struct cp_temp *temp, int dir, const char *name)
{
    *temp = (struct cp_temp){.fd = -1, .dir = dir};
    snprintf(temp->name, sizeof temp->name, "%s", name);
    temp->fd = openat(dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (temp->fd >= 0) {
        return 0;
    }
    /* EISDIR is how a kernel says that its file system has no O_TMPFILE. */
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT) {
        return errno;
    }
    int error = create_hidden(temp);
    if (error) {
        temp->hidden[0] = '\0';
    }
    return error;
}

/* Give a file without name the name to; needs no privilege this way. */
static int link_to(const struct cp_temp *temp, const char *to)
{
    char self[32];

    snprintf(self, sizeof self, "/proc/self/fd/%d", temp->fd);
    if (linkat(AT_FDCWD, self, temp->dir, to, AT_SYMLINK_FOLLOW) == 0 ||
        linkat(temp->fd, "", temp->dir, to, AT_EMPTY_PATH) == 0) {
        return 0;
    }
    return errno;
}

/* Something has the final name already: take a hidden one first, for only rename replaces. */
static int link_hidden(struct cp_temp *temp)
{
    int error = EEXIST;

    (void)flock(temp->fd, LOCK_EX | LOCK_NB);
    for (unsigned attempt = 0; error == EEXIST && attempt < ATTEMPTS; attempt++) {
        hidden_name(temp, attempt);
        error = link_to(temp, temp->hidden);
        if (error == EEXIST && clear_leftover(temp)) {
            error = link_to(temp, temp->hidden);
        }
    }
    if (error) {
        temp->hidden[0] = '\0';
    }
    return error;
}

static int give_name(struct cp_temp *temp)
{
    int error = 0;

    if (!temp->hidden[0]) {
        error = link_to(temp, temp->name);
        if (error != EEXIST) {
            return error;
        }
        error = link_hidden(temp);
    }
    if (!error && renameat(temp->dir, temp->hidden, temp->dir, temp->name) < 0) {
        return errno;
    }
    if (!error) {
        temp->hidden[0] = '\0';
    }
    return error;
}

int cp_temp_commit(struct cp_temp *temp, mode_t mode, int64_t mtime, uint32_t mtime_ns, bool sync)
{
    struct timespec times[2] = {{0, UTIME_OMIT}, {mtime, (long)mtime_ns}};
    int error = 0;

    if (fchmod(temp->fd, mode & 0777) < 0 || futimens(temp->fd, times) < 0 ||
        (sync && fsync(temp->fd) < 0)) {
        error = errno;
    }
    if (!error) {
        error = give_name(temp);
    }
    if (!error && sync && fsync(temp->dir) < 0) {
        error = errno;
    }
    cp_temp_discard(temp);
    return error;
}

void cp_temp_discard(struct cp_temp *temp)
{
    if (temp->fd < 0) {
        return;
    }
    if (temp->hidden[0]) {
        (void)unlinkat(temp->dir, temp->hidden, 0);
        temp->hidden[0] = '\0';
    }
    /* What the kernel could not write shows up here; data is checked by write and fsync. */
    close(temp->fd);
    temp->fd = -1;
}
