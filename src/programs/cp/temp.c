/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Temporary files. What is not told here is why a hidden name cannot lead to the file of somebody
 * else: see the invariant in hidden.h.
 */
#include "temp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define ATTEMPTS 4 /* a name that is taken already is next to impossible */

/* The first hidden file of this directory is there: remove what killed processes left beside it. */
static void clear_leftovers(const struct cp_temp *temp)
{
    struct stat st;

    /* The clock that counts is the file system's, which may be on another machine. */
    if (!*temp->cleared && fstat(temp->fd, &st) == 0) {
        cp_hidden_clear(temp->dir, st.st_ctime);
    }
    *temp->cleared = true;
}

static int create_hidden(struct cp_temp *temp)
{
    int error = EEXIST;

    for (unsigned attempt = 0; error == EEXIST && attempt < ATTEMPTS; attempt++) {
        error = cp_hidden_draw(temp->hidden);
        if (!error) {
            temp->fd = openat(temp->dir, temp->hidden,
                              O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
            error = temp->fd < 0 ? errno : 0;
        }
    }
    if (error) {
        temp->hidden[0] = '\0';
    } else {
        clear_leftovers(temp);
    }
    return error;
}

int cp_temp_create(struct cp_temp *temp, int dir, const char *name, bool *cleared)
{
    *temp = (struct cp_temp){.fd = -1, .dir = dir, .cleared = cleared};
    snprintf(temp->name, sizeof temp->name, "%s", name);
    temp->fd = openat(dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (temp->fd >= 0) {
        return 0;
    }
    /* EISDIR is how a kernel says that its file system has no O_TMPFILE. */
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT) {
        return errno;
    }
    return create_hidden(temp);
}

/*
 * Give a file without name the name to. The second way is for where there is no /proc only: without
 * privilege Linux before 6.10 answers ENOENT to it, whatever else would be wrong.
 */
static int link_to(const struct cp_temp *temp, const char *to)
{
    char self[32];

    snprintf(self, sizeof self, "/proc/self/fd/%d", temp->fd);
    if (linkat(AT_FDCWD, self, temp->dir, to, AT_SYMLINK_FOLLOW) == 0) {
        return 0;
    }
    if (errno == ENOENT && linkat(temp->fd, "", temp->dir, to, AT_EMPTY_PATH) == 0) {
        return 0;
    }
    return errno;
}

/* Something has the final name already: take a hidden one first, for only rename replaces. */
static int link_hidden(struct cp_temp *temp)
{
    int error = EEXIST;

    for (unsigned attempt = 0; error == EEXIST && attempt < ATTEMPTS; attempt++) {
        error = cp_hidden_draw(temp->hidden);
        if (!error) {
            error = link_to(temp, temp->hidden);
        }
    }
    if (error) {
        temp->hidden[0] = '\0';
    } else {
        clear_leftovers(temp);
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

/* Network file systems tell here of what they could not write, and their errors would come too late
 * at the last close: the name is given by then. */
static int flush(int fd)
{
    const int twin = fcntl(fd, F_DUPFD_CLOEXEC, 3);

    return twin < 0 || close(twin) < 0 ? errno : 0;
}

int cp_temp_commit(struct cp_temp *temp, mode_t mode, int64_t mtime, uint32_t mtime_ns, bool sync)
{
    /* Both times: file systems of libfuse 2 forget the one if the other is to stay. */
    struct timespec times[2] = {{0, UTIME_NOW}, {(time_t)mtime, (long)mtime_ns}};
    int error = flush(temp->fd);

    if (error) {
        cp_temp_discard(temp);
        return error;
    }
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
    close(temp->fd); /* what could not be written was told to cp_temp_commit */
    temp->fd = -1;
}
