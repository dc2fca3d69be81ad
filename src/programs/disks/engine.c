/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which engine carries out what disks are asked for: above both, so that no file uses one above it.
 */
#include "engine.h"

struct disk_engine *disk_engine_open(uv_loop_t *loop, void *memory, size_t len, bool uring)
{
    struct disk_engine *engine = uring ? disk_uring_open(loop, memory, len) : NULL;

    return engine ? engine : disk_threads_open(loop);
}
