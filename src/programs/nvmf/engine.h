/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two engines behind disk.h.
 */
#ifndef NVMF_ENGINE_H
#define NVMF_ENGINE_H

#include "disk.h"

/* NULL: the kernel or this build has no io_uring. */
struct nvmf_engine *nvmf_uring_open(uv_loop_t *loop, void *memory, size_t len);

/* NULL: no memory. */
struct nvmf_engine *nvmf_threads_open(uv_loop_t *loop);

/* The mode of fallocate(2) for ZERO and DISCARD. */
int nvmf_disk_mode(const struct nvmf_disk_io *io);

/* What the system said of a step of io: octets moved, or -errno. True: io goes on behind what was
 * moved. False: io is over, and its error is set. */
bool nvmf_disk_step(struct nvmf_disk_io *io, int64_t result);

/* io is done. */
void nvmf_disk_finish(struct nvmf_disk_io *io);

#endif
