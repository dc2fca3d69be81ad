/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A disk that takes long to flush, for any program: LD_PRELOAD=slow_sync.so.
 *
 * SLOW_SYNC_MS: how long each fsync and fdatasync takes.
 * SLOW_SYNC_LOG: a file that gets a line for each, the path of what was flushed.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
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

static int slowly(const char *name, int fd)
{
    int (*next)(int);
    const char *ms = getenv("SLOW_SYNC_MS"), *log = getenv("SLOW_SYNC_LOG");

    *(void **)&next = dlsym(RTLD_NEXT, name);
    if (ms) {
        usleep((useconds_t)strtoul(ms, NULL, 10) * 1000);
    }
    if (log) {
        note(fd, log);
    }
    return next(fd);
}

int fsync(int fd)
{
    return slowly("fsync", fd);
}

int fdatasync(int fd)
{
    return slowly("fdatasync", fd);
}
