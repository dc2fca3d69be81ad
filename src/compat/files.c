/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libiwarp-files.so, which iwarp-run preloads with IWARP_PERSONA=roce: functions of the C library
 * that know the files of verbs_files.c besides those that exist. A program's modules look them up
 * in preloaded libraries before the C library's; without preloading they would find the latter
 * first, so libibverbs.so.1 cannot have them. Needs no privileges and no namespace, and changes
 * nothing for other paths.
 *
 * A text becomes a file in memory. A device file has the type and rights of /dev/null.
 */
/* Both names of each function are defined here; with 64-bit offsets asked for, one is the other. */
#undef _FILE_OFFSET_BITS

#include "compat/files.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* This file defines both; in libc they are one on 64-bit machines. */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "64 bits");

/* Declares `next`: the definition behind this library's, which is libc's. */
#define NEXT(name)                                                                                 \
    static __typeof__(&name) next;                                                                 \
    if (!next) {                                                                                   \
        *(void **)&next = dlsym(RTLD_NEXT, #name);                                                 \
    }

/* Few paths are looked at closely. libibverbs.so.1 is not there if something else than iwarp-run
 * has loaded this library. */
static enum compat_file ours(const char *path, char *to)
{
    static enum compat_file (*ask)(const char *, char *);

    if (!path || (strncmp(path, "/sys/class/infiniband", 21) != 0 &&
                  strncmp(path, "/dev/infiniband", 15) != 0)) {
        return COMPAT_FILE_NONE;
    }
    if (!ask) {
        *(void **)&ask = dlsym(RTLD_DEFAULT, "iwarp_compat_file");
    }
    return ask ? ask(path, to) : COMPAT_FILE_NONE;
}

/* What can be opened. Folders of ours cannot be listed, so only the system's are opened. */
static enum compat_file ours_to_open(const char *path, char *to)
{
    enum compat_file kind = ours(path, to);

    return kind == COMPAT_FILE_FOLDER ? COMPAT_FILE_NONE : kind;
}

/* As open(2): a descriptor, or -1 with errno. */
static int open_text(enum compat_file kind, const char *text, int flags)
{
    size_t n = strlen(text);

    if (kind != COMPAT_FILE_TEXT || (flags & O_ACCMODE) != O_RDONLY) {
        errno = EACCES;
        return -1;
    }
    int fd = memfd_create("iwarp", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
    if (fd >= 0 && (write(fd, text, n) != (ssize_t)n || lseek(fd, 0, SEEK_SET) != 0)) {
        close(fd);
        errno = EIO;
        return -1;
    }
    return fd;
}

static mode_t mode_in(int flags, va_list args)
{
    return flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? va_arg(args, mode_t) : 0;
}

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        NEXT(name)                                                                                 \
        char text[COMPAT_FILE_OCTETS] = "";                                                        \
        enum compat_file kind = ours_to_open(path, text);                                          \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        mode_t mode = mode_in(flags, args);                                                        \
        va_end(args);                                                                              \
        return kind ? open_text(kind, text, flags) : next(path, flags, mode);                      \
    }

OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                               \
    int name(int at, const char *path, int flags, ...)                                             \
    {                                                                                              \
        NEXT(name)                                                                                 \
        char text[COMPAT_FILE_OCTETS] = "";                                                        \
        enum compat_file kind = ours_to_open(path, text);                                          \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        mode_t mode = mode_in(flags, args);                                                        \
        va_end(args);                                                                              \
        return kind ? open_text(kind, text, flags) : next(at, path, flags, mode);                  \
    }

OPENAT(openat)
OPENAT(openat64)

#define FOPEN(name)                                                                                \
    FILE *name(const char *restrict path, const char *restrict mode)                               \
    {                                                                                              \
        NEXT(name)                                                                                 \
        char text[COMPAT_FILE_OCTETS] = "";                                                        \
        enum compat_file kind = ours_to_open(path, text);                                          \
        if (!kind) {                                                                               \
            return next(path, mode);                                                               \
        }                                                                                          \
        int fd = open_text(kind, text, mode[0] == 'r' && !strchr(mode, '+') ? O_RDONLY : O_RDWR);  \
        return fd >= 0 ? fdopen(fd, "r") : NULL;                                                   \
    }

FOPEN(fopen)
FOPEN(fopen64)

/* Of /dev/null, /sys, or a file in memory, whichever is like it. */
static int stat_ours(enum compat_file kind, const char *text, struct stat *st)
{
    NEXT(stat)
    if (kind != COMPAT_FILE_TEXT) {
        return next(kind == COMPAT_FILE_DEVICE ? "/dev/null" : "/sys", st);
    }
    int fd = open_text(kind, text, O_RDONLY | O_CLOEXEC);
    int result = fd >= 0 ? fstat(fd, st) : -1;
    if (fd >= 0) {
        close(fd);
    }
    return result;
}

#define STAT(name, type)                                                                           \
    int name(const char *restrict path, struct type *restrict st)                                  \
    {                                                                                              \
        NEXT(name)                                                                                 \
        char text[COMPAT_FILE_OCTETS] = "";                                                        \
        enum compat_file kind = ours(path, text);                                                  \
        return kind ? stat_ours(kind, text, (struct stat *)(void *)st) : next(path, st);           \
    }

STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)

int access(const char *path, int how)
{
    char text[COMPAT_FILE_OCTETS] = "";
    enum compat_file kind = ours(path, text);

    NEXT(access)
    if (!kind || kind == COMPAT_FILE_DEVICE) {
        return next(kind ? "/dev/null" : path, how);
    }
    if ((how & W_OK) || ((how & X_OK) && kind == COMPAT_FILE_TEXT)) {
        errno = EACCES;
        return -1;
    }
    return 0;
}
