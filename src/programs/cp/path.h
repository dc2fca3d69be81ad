/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names that must stay below a directory. Whatever a peer says, nothing outside the directory is
 * opened, made or replaced: not through "..", not through an absolute name, not through a symbolic
 * link.
 */
#ifndef CP_PATH_H
#define CP_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* How the names of unfinished files begin, where they need a name (see temp.h). */
#define CP_TEMP_PREFIX ".iwarp-cp."

/* One component: 1 to CP_NAME_MAX octets, no '/', no NUL, not "." or "..". */
bool cp_name_is_component(const char *name, size_t len);

/* The same, and not reserved: it may be used for a copy. */
bool cp_name_ok(const char *name, size_t len);

/* One component of a path that is kept for temporary files. */
bool cp_name_reserved(const char *name);

/* The same for any component of a path. */
bool cp_path_reserved(const char *path);

/*
 * The last component of a path, "" if it has none that is a name ("", "/", "a/..") or it is too
 * long. Trailing slashes are ignored. It may be reserved.
 */
void cp_path_last(const char *path, char *last, size_t size);

/*
 * Open path, relative to the directory dir and never leaving it, with flags as for open. "" and "/"
 * are the directory itself. Links are followed where the kernel can keep them below dir (Linux
 * 5.6), otherwise refused. Returns a descriptor, or -1 with errno: EXDEV where path leads out,
 * EINVAL where a component is reserved.
 */
int cp_path_open(int dir, const char *path, int flags);

/*
 * The same for a directory whose missing parts are made. drop_last leaves away the last component.
 * sync: on stable storage, too.
 */
int cp_path_make(int dir, const char *path, bool drop_last, bool sync);

#endif
