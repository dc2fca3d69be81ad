/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hidden name is CP_TEMP_PREFIX, then the place of its maker (boot id and PID namespace), its
 * process id and 32 hexadecimal digits drawn at random, with dots in between.
 */
#include "hidden.h"

#include "limits.h"
#include "path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define RANDOM_LEN   16
#define BOOT_ID_LEN  36
#define HEX_DIGITS   "0123456789abcdef"
#define UNKNOWN_HERE "unknown" /* the place of a process that has no /proc to look in */

static char place[64];
static pthread_once_t place_once = PTHREAD_ONCE_INIT;

/* Where a process id means the same process: the boot of the kernel and the PID namespace. */
static void find_place(void)
{
    char boot[BOOT_ID_LEN + 1] = "";
    struct stat ns;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, boot, BOOT_ID_LEN) : -1;

    if (fd >= 0) {
        close(fd);
    }
    if (n != BOOT_ID_LEN || strspn(boot, HEX_DIGITS "-") != BOOT_ID_LEN ||
        stat("/proc/self/ns/pid", &ns) < 0) {
        strcpy(place, UNKNOWN_HERE);
        return;
    }
    snprintf(place, sizeof place, "%s-%llu", boot, (unsigned long long)ns.st_ino);
}

int cp_hidden_draw(char name[CP_HIDDEN_SIZE])
{
    uint8_t drawn[RANDOM_LEN];
    char digits[2 * RANDOM_LEN + 1];
    ssize_t n;

    pthread_once(&place_once, find_place);
    do {
        n = getrandom(drawn, sizeof drawn, 0);
    } while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof drawn) {
        return n < 0 ? errno : EIO;
    }
    for (size_t i = 0; i < sizeof drawn; i++) {
        snprintf(digits + 2 * i, 3, "%02x", drawn[i]);
    }
    snprintf(name, CP_HIDDEN_SIZE, CP_TEMP_PREFIX "%s.%ld.%s", place, (long)getpid(), digits);
    return 0;
}

/* Take a hidden name apart. False if cp_hidden_draw does not make such names. */
static bool parse(const char *name, char at[sizeof place], pid_t *pid)
{
    size_t prefix = sizeof CP_TEMP_PREFIX - 1;

    if (strncmp(name, CP_TEMP_PREFIX, prefix) != 0) {
        return false;
    }
    name += prefix;
    size_t len = strcspn(name, ".");
    if (len == 0 || len >= sizeof place || name[len] != '.') {
        return false;
    }
    memcpy(at, name, len);
    at[len] = '\0';
    name += len + 1;
    len = strspn(name, "0123456789");
    if (len == 0 || len > 9 || name[len] != '.') {
        return false;
    }
    *pid = (pid_t)strtol(name, NULL, 10);
    name += len + 1;
    return *pid > 0 && strspn(name, HEX_DIGITS) == 2 * RANDOM_LEN && name[2 * RANDOM_LEN] == '\0';
}

static bool has_ended(int dir, const char *name, const char *at, pid_t pid, time_t now)
{
    struct stat st;

    if (strcmp(at, place) == 0 && strcmp(at, UNKNOWN_HERE) != 0 && kill(pid, 0) < 0 &&
        errno == ESRCH) {
        return true;
    }
    /* The time of change too: a copy gets the modification time of its source. */
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
           now - st.st_mtime > CP_LEFTOVER_SECONDS && now - st.st_ctime > CP_LEFTOVER_SECONDS;
}

void cp_hidden_clear(int dir, time_t now)
{
    int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = again >= 0 ? fdopendir(again) : NULL;
    const struct dirent *entry;
    char at[sizeof place];
    pid_t pid;

    pthread_once(&place_once, find_place);
    if (!list) {
        if (again >= 0) {
            close(again);
        }
        return;
    }
    while ((entry = readdir(list)) != NULL) {
        if (parse(entry->d_name, at, &pid) && has_ended(dir, entry->d_name, at, pid, now)) {
            (void)unlinkat(dir, entry->d_name, 0);
        }
    }
    closedir(list);
}
