/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file that appears under its name only when it is complete, in one step, replacing what was
 * there. Until then it has no name at all (O_TMPFILE), so that nothing is left even when the
 * process is killed. Where the file system cannot do that it has a hidden name, which the next
 * transfer of the same file clears away.
 */
#ifndef CP_TEMP_H
#define CP_TEMP_H

#include "limits.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cp_temp {
    int fd;  /* -1: none open */
    int dir; /* borrowed; where the file will be */
    char name[CP_NAME_MAX + 1];
    char hidden[64]; /* "" while it has no name */
};

/* Set to this before the first use. */
#define CP_TEMP_NONE                                                                               \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/* 0, or an errno. dir must stay open until commit or discard. */
int cp_temp_create(struct cp_temp *temp, int dir, const char *name);

/* Give it its name, mode and time. On failure, with an errno, it is gone. */
int cp_temp_commit(struct cp_temp *temp, mode_t mode, int64_t mtime, uint32_t mtime_ns, bool sync);
void cp_temp_discard(struct cp_temp *temp);

#endif
