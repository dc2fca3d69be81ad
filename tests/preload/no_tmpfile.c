/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file system without O_TMPFILE, for any program: LD_PRELOAD=no-tmpfile.so. FUSE, NFS and SMB
 * refuse it like this.
 *
 * NO_TMPFILE_DELAY_MS: after the program has made a hidden file it is held up for so long. What
 * another program can do to a file between its creation and the next step of its maker then happens
 * each time, not once in a hundred runs.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

int openat(int dir, const char *path, int flags, ...);

static void hold_up(void)
{
    const char *ms = getenv("NO_TMPFILE_DELAY_MS");

    if (ms) {
        usleep((useconds_t)strtoul(ms, NULL, 10) * 1000);
    }
}

int openat(int dir, const char *path, int flags, ...)
{
    static int (*next)(int, const char *, int, ...);
    mode_t mode = 0;
    va_list args;

    if ((flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    if (flags & O_CREAT) {
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    if (!next) {
        *(void **)&next = dlsym(RTLD_NEXT, "openat");
    }
    int fd = next(dir, path, flags, mode);
    if (fd >= 0 && flags & O_CREAT && strncmp(path, ".iwarp-cp.", 10) == 0) {
        hold_up();
    }
    return fd;
}
