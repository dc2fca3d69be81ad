/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names of unfinished files, where they need one, and what killed processes leave under such
 * names.
 *
 * Invariant: a hidden name belongs to the process that drew it, for ever. It has 128 random bits,
 * so that no process ever draws one that another process has drawn, on this machine or on another
 * one that mounts the same file system. Only the process that drew a name creates, links or renames
 * a file under it; whatever anybody else does, what it renames to a final name is its own file.
 * This needs no locks, which some file systems do not have and others pretend to have.
 *
 * There is one exception, and it only removes: cp_hidden_clear removes the file of a process that
 * has ended. The name says which process it was: boot of the kernel, PID namespace, process id. If
 * the first two are those of this process and there is no such process id, it has ended. Any other
 * process (of another machine, another container, an earlier boot, or one whose id was given out
 * again) is taken for dead when its file has not been touched for CP_LEFTOVER_SECONDS; no transfer
 * waits that long for its peer. A process that was stopped for longer than that loses its
 * unfinished file, and its rename fails: an error, not a wrong file.
 */
#ifndef CP_HIDDEN_H
#define CP_HIDDEN_H

#include <stdbool.h>
#include <time.h>

#define CP_HIDDEN_SIZE 128

/* Draw a new name. 0, or an errno. */
int cp_hidden_draw(char name[CP_HIDDEN_SIZE]);

/* Remove what ended processes left in dir. now is the time of the file system that dir is on. */
void cp_hidden_clear(int dir, time_t now);

#endif
