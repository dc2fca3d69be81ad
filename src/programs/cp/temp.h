/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file that appears under its name only when it is complete, in one step, replacing what was
 * there. Until then it has no name at all (O_TMPFILE), so that nothing is left even when the
 * process is killed. On a file system without O_TMPFILE the file has a hidden name meanwhile
 * (hidden.h), and the next transfer into that directory removes what a killed process left.
 *
 * Invariant: this process links, renames and unlinks only a name that it drew itself, and only
 * while temp->hidden has it. So what gets the final name is always the file behind temp->fd.
 */
#ifndef CP_TEMP_H
#define CP_TEMP_H

#include "hidden.h"
#include "limits.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cp_temp {
    int fd;  /* -1: none open */
    int dir; /* borrowed; where the file will be */
    char name[CP_NAME_MAX + 1];
    bool *cleared;               /* borrowed; leftovers in dir were looked for */
    char hidden[CP_HIDDEN_SIZE]; /* "" while it has no name */
};

/* Set to this before the first use. */
#define CP_TEMP_NONE {.fd = -1}

/*
 * 0, or an errno. dir must stay open until commit or discard, and cleared stay valid. The first
 * file that needs a hidden name in dir sets *cleared and removes the leftovers there.
 */
int cp_temp_create(struct cp_temp *temp, int dir, const char *name, bool *cleared);

/* Give it its name, mode and time. On failure, with an errno, it is gone. */
int cp_temp_commit(struct cp_temp *temp, mode_t mode, int64_t mtime, uint32_t mtime_ns, bool sync);
void cp_temp_discard(struct cp_temp *temp);

#endif
