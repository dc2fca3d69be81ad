/* SPDX-License-Identifier: BSD-2-Clause */
/* A directory for tests that need files. */
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char scratch_path[4096];
int scratch_fd = -1;

int scratch_setup(void **state)
{
    const char *base = getenv("TMPDIR");

    (void)state;
    snprintf(scratch_path, sizeof scratch_path, "%s/scratch-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(scratch_path)) {
        return -1;
    }
    scratch_fd = open(scratch_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return scratch_fd < 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int make_writable(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    return type == FTW_D && (st->st_mode & 0700) != 0700 ? chmod(path, 0700) : 0;
}

int scratch_teardown(void **state)
{
    (void)state;
    close(scratch_fd);
    nftw(scratch_path, make_writable, 16, FTW_PHYS);
    return nftw(scratch_path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void scratch_write(const char *name, const void *data, size_t len)
{
    int fd = openat(scratch_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), len);
    close(fd);
}

size_t scratch_read(const char *name, void *buf, size_t size)
{
    int fd = openat(scratch_fd, name, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return SIZE_MAX;
    }
    ssize_t n = read(fd, buf, size);
    assert_true(n >= 0);
    close(fd);
    return (size_t)n;
}

void scratch_mkdir(const char *name)
{
    assert_int_equal(mkdirat(scratch_fd, name, 0755), 0);
}

unsigned scratch_count(const char *name)
{
    int fd = openat(scratch_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fdopendir(fd);
    const struct dirent *entry;
    unsigned count = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(dir);
    return count;
}
