/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which engine carries out what disks are asked for.
 */
#include "engine.h"

struct nvmf_engine *nvmf_engine_open(uv_loop_t *loop, void *memory, size_t len, bool uring)
{
    struct nvmf_engine *engine = uring ? nvmf_uring_open(loop, memory, len) : NULL;

    return engine ? engine : nvmf_threads_open(loop);
}
