/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A disk that takes long, for any program: LD_PRELOAD=slow_disk.so.
 *
 * SLOW_READ_MS: how long each pread takes.
 * SLOW_READV_MS: how long each preadv takes.
 * SLOW_SYNC_MS: how long each fsync and fdatasync takes, which do nothing else.
 * SLOW_SYNC_LOG, SLOW_READV_LOG: a file that gets a line for each of these, with the path.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static void note(int fd, const char *log)
{
    char self[32], path[4097];

    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(self, path, sizeof path - 1);
    int out = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (len > 0 && out >= 0) {
        path[len] = '\n';
        (void)!write(out, path, (size_t)len + 1);
    }
    if (out >= 0) {
        close(out);
    }
}

static void hold_up(const char *variable)
{
    const char *ms = getenv(variable);

    if (ms) {
        usleep((useconds_t)strtoul(ms, NULL, 10) * 1000);
    }
}

/* Not the real one: that of a busy machine may take longer than a test waits. */
int fsync(int fd)
{
    const char *log = getenv("SLOW_SYNC_LOG");

    hold_up("SLOW_SYNC_MS");
    if (log) {
        note(fd, log);
    }
    return 0;
}

int fdatasync(int fd)
{
    return fsync(fd);
}

/* The header gives this the name pread64 where there are two of them. */
ssize_t pread(int fd, void *buf, size_t len, off_t offset)
{
    ssize_t (*next)(int, void *, size_t, off_t);
    void *found = dlsym(RTLD_NEXT, "pread64");

    *(void **)&next = found ? found : dlsym(RTLD_NEXT, "pread");
    hold_up("SLOW_READ_MS");
    return next(fd, buf, len, offset);
}

ssize_t preadv(int fd, const struct iovec *to, int count, off_t offset)
{
    const char *log = getenv("SLOW_READV_LOG");
    ssize_t (*next)(int, const struct iovec *, int, off_t);
    void *found = dlsym(RTLD_NEXT, "preadv64");

    *(void **)&next = found ? found : dlsym(RTLD_NEXT, "preadv");
    if (log) {
        note(fd, log);
    }
    hold_up("SLOW_READV_MS");
    return next(fd, to, count, offset);
}
