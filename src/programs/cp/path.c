/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening below a directory: by openat2 with RESOLVE_BENEATH where the kernel has it, otherwise
 * component by component without following any link. The two differ only for links that stay
 * inside: the second way refuses them.
 */
#include "path.h"

#include "limits.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

bool cp_name_reserved(const char *name)
{
    return strncmp(name, CP_TEMP_PREFIX, sizeof CP_TEMP_PREFIX - 1) == 0;
}

bool cp_path_reserved(const char *path)
{
    for (path += strspn(path, "/"); *path; path += strspn(path, "/")) {
        if (cp_name_reserved(path)) {
            return true;
        }
        path += strcspn(path, "/");
    }
    return false;
}

bool cp_name_is_component(const char *name, size_t len)
{
    if (len == 0 || len > CP_NAME_MAX || memchr(name, '/', len) || memchr(name, '\0', len)) {
        return false;
    }
    if (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.'))) {
        return false;
    }
    return true;
}

bool cp_name_ok(const char *name, size_t len)
{
    size_t prefix = sizeof CP_TEMP_PREFIX - 1;

    if (!cp_name_is_component(name, len)) {
        return false;
    }
    return len < prefix || memcmp(name, CP_TEMP_PREFIX, prefix) != 0;
}

/*
 * The next component of *path, which moves on behind it. Returns its length, 0 at the end, -1 with
 * errno for "..", names that are too long or reserved.
 */
static int next_component(const char **path, char name[CP_NAME_MAX + 1])
{
    for (;;) {
        *path += strspn(*path, "/");
        size_t len = strcspn(*path, "/");
        if (len > CP_NAME_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(name, *path, len);
        name[len] = '\0';
        *path += len;
        if (strcmp(name, "..") == 0) {
            errno = EXDEV;
            return -1;
        }
        if (cp_name_reserved(name)) {
            errno = EINVAL;
            return -1;
        }
        if (strcmp(name, ".") != 0) {
            return (int)len;
        }
    }
}

void cp_path_last(const char *path, char *last, size_t size)
{
    size_t end = strlen(path);

    while (end > 0 && path[end - 1] == '/') {
        end--;
    }
    size_t start = end;
    while (start > 0 && path[start - 1] != '/') {
        start--;
    }
    size_t len = end - start;
    if (len >= size || !cp_name_is_component(path + start, len)) {
        len = 0;
    }
    memcpy(last, path + start, len);
    last[len] = '\0';
}

/* openat without following a link. With O_PATH the kernel would open the link itself: refuse. */
static int open_no_link(int dir, const char *name, int flags)
{
    struct stat st;
    int fd = openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0 && flags & O_PATH && fstat(fd, &st) == 0 && S_ISLNK(st.st_mode)) {
        close(fd);
        errno = ELOOP;
        return -1;
    }
    return fd;
}

/* Without openat2: no link is followed, so there is nothing that could lead out. */
static int open_by_components(int dir, const char *path, int flags)
{
    char name[CP_NAME_MAX + 1], next[CP_NAME_MAX + 1];
    int at = openat(dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int len = next_component(&path, name);

    while (at >= 0 && len > 0) {
        int next_len = next_component(&path, next);
        int how = next_len == 0 ? flags : O_PATH | O_DIRECTORY;
        int fd = next_len < 0 ? -1 : open_no_link(at, name, how);
        int error = errno;

        close(at);
        errno = error;
        at = fd;
        len = next_len;
        memcpy(name, next, sizeof name);
        if (len == 0) {
            return at;
        }
    }
    if (at >= 0) {
        int error = errno;
        int fd = len < 0 ? -1 : openat(at, ".", flags | O_CLOEXEC);

        error = len < 0 ? error : errno;
        close(at);
        errno = error;
        return fd;
    }
    return -1;
}

int cp_path_open(int dir, const char *path, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };
    const char *rest = path;
    char name[CP_NAME_MAX + 1];
    int len;

    /* ".." is refused even where it would stay inside: no honest client sends it. */
    while ((len = next_component(&rest, name)) > 0) {
    }
    if (len < 0) {
        return -1;
    }
    path += strspn(path, "/");
    path = *path ? path : ".";
    long fd = -1;
    /* EAGAIN: something was renamed while the kernel looked whether the name stays inside. */
    for (int attempt = 0; attempt < 16; attempt++) {
        fd = syscall(SYS_openat2, dir, path, &how, sizeof how);
        if (fd >= 0 || errno != EAGAIN) {
            break;
        }
    }
    if (fd < 0 && (errno == ENOSYS || errno == EPERM)) {
        return open_by_components(dir, path, flags);
    }
    return (int)fd;
}

/* Make the directory name in at, or take the one that is there. Follows links only below dir. */
static int make_component(int dir, int at, const char *name, const char *whole, size_t whole_len,
                          bool sync)
{
    char so_far[CP_PATH_MAX];

    if (mkdirat(at, name, 0777) < 0 && errno != EEXIST) {
        return -1;
    }
    /* Also of one that is there: whoever made it may not have flushed it. */
    if (sync && fsync(at) < 0) {
        return -1;
    }
    if (whole_len >= sizeof so_far) {
        errno = ENAMETOOLONG;
        return -1;
    }
    /* From the top again: only so the kernel can tell that a link on the way stays inside. */
    memcpy(so_far, whole, whole_len);
    so_far[whole_len] = '\0';
    return cp_path_open(dir, so_far, O_RDONLY | O_DIRECTORY);
}

int cp_path_make(int dir, const char *path, bool drop_last, bool sync)
{
    const char *rest = path;
    char name[CP_NAME_MAX + 1], next[CP_NAME_MAX + 1];
    int at = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int len = next_component(&rest, name);

    while (at >= 0 && len > 0) {
        size_t so_far = (size_t)(rest - path);
        int next_len = next_component(&rest, next);
        if (next_len == 0 && drop_last) {
            return at;
        }
        int fd = next_len < 0 ? -1 : make_component(dir, at, name, path, so_far, sync);
        int error = errno;
        close(at);
        errno = error;
        at = fd;
        len = next_len;
        memcpy(name, next, sizeof name);
    }
    if (at >= 0 && len < 0) {
        int error = errno;
        close(at);
        errno = error;
        at = -1;
    }
    return at;
}
