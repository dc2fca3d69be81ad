/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two engines behind disk.h.
 */
#ifndef DISKS_ENGINE_H
#define DISKS_ENGINE_H

#include "disk.h"

/* NULL: the kernel or this build has no io_uring. */
struct disk_engine *disk_uring_open(uv_loop_t *loop, void *memory, size_t len);

/* NULL: no memory. */
struct disk_engine *disk_threads_open(uv_loop_t *loop);

/* The mode of fallocate(2) for ZERO and DISCARD. */
int disk_mode(const struct disk_io *io);

/* What the system said of a step of io: octets moved, or -errno. True: io goes on behind what was
 * moved. False: io is over, and its error is set. */
bool disk_step(struct disk_io *io, int64_t result);

/* A small write to a file on a tmpfs, which waits for no disk and no other operation, is carried
 * out. False: io is another. */
bool disk_write_now(struct disk_io *io);

/* io is done. */
void disk_finish(struct disk_io *io);

#endif
