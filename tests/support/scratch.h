/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A directory of its own for a test that needs files: made by scratch_setup, removed with
 * everything in it by scratch_teardown. The test's working directory is not changed.
 */
#ifndef SCRATCH_H
#define SCRATCH_H

#include <stddef.h>
#include <stdint.h>

extern char scratch_path[];
extern int scratch_fd; /* the directory, O_RDONLY */

int scratch_setup(void **state);
int scratch_teardown(void **state);

/* Write len octets to the file name, below the directory. */
void scratch_write(const char *name, const void *data, size_t len);

/* Read it whole; returns its length, or SIZE_MAX if it is not there. At most size octets. */
size_t scratch_read(const char *name, void *buf, size_t size);

void scratch_mkdir(const char *name);

/* How many entries a directory has, hidden ones included, without "." and "..". */
unsigned scratch_count(const char *name);

#endif
