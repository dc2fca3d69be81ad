/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that there are for programs only: what they say (verbs_files.c, in libibverbs.so.1), and
 * the functions that show them (files.c, a library of its own that iwarp-run preloads).
 */
#ifndef IWARP_COMPAT_FILES_H
#define IWARP_COMPAT_FILES_H

enum compat_file {
    COMPAT_FILE_NONE,   /* none of ours: ask the system */
    COMPAT_FILE_TEXT,   /* to be read */
    COMPAT_FILE_DEVICE, /* a character device that nobody opens */
    COMPAT_FILE_FOLDER
};

enum { COMPAT_FILE_OCTETS = 128 };

/* TEXT: it lies in `to`, COMPAT_FILE_OCTETS of them, as a string. Only with IWARP_PERSONA=roce. */
enum compat_file iwarp_compat_file(const char *path, char *to);

#endif
