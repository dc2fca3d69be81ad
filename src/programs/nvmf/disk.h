/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Disks: a file, a block device, or memory ("ram:SIZE"). Operations begin at once, never block the
 * caller's loop, and end by a call of `done` on the loop's thread, possibly before nvmf_disk_do has
 * returned. A write without `through` is in the hands of the disk or the page cache when it is
 * done; one with it, and everything that was done before a flush began, is on stable storage.
 *
 * Files are carried out by an engine: io_uring, or the threads of libuv where the kernel has none.
 */
#ifndef NVMF_DISK_H
#define NVMF_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct nvmf_disk;

enum nvmf_disk_op {
    NVMF_DISK_READ,
    NVMF_DISK_WRITE,
    NVMF_DISK_FLUSH,
    NVMF_DISK_ZERO,   /* octets read as 0 afterwards, and have a place on the disk */
    NVMF_DISK_DISCARD /* octets read as 0 afterwards, and need none */
};

struct nvmf_disk_io {
    enum nvmf_disk_op op;
    bool through; /* WRITE: on stable storage when done */
    struct nvmf_disk *disk;
    uint64_t offset;
    uint64_t len;
    uint8_t *data;
    int error; /* set before `done`: 0 or an errno */
    void (*done)(struct nvmf_disk_io *io);
    uint64_t moved; /* of the engine: octets so far */
    uv_work_t work; /* of the engine of threads */
};

/* How operations on a file are carried out. */
struct nvmf_engine {
    void (*start)(struct nvmf_engine *engine, struct nvmf_disk_io *io);
    void (*turn)(struct nvmf_engine *engine);  /* once in each turn of the loop, before it sleeps */
    void (*close)(struct nvmf_engine *engine); /* nothing may be under way */
    const char *name;
    unsigned under_way; /* operations that are not done */
    unsigned lock_ms;   /* how long nvmf_disk_open may wait for the lock of a file */
};

/* memory: what buffers are part of, registered once if that can be done. uring false: do without
 * io_uring. NULL: no memory. */
struct nvmf_engine *nvmf_engine_open(uv_loop_t *loop, void *memory, size_t len, bool uring);

/*
 * A file is locked (flock): for this process alone, or of those that only read it. The lock of a
 * process that was killed stays until the kernel has carried out what io_uring had of it. So a
 * write that was never answered cannot come after one that this process has answered.
 *
 * Open "ram:SIZE" or a path. block: octets of a logical block, 512 or 4096; what is left of the
 * file's last block does not count. NULL after *why is set to a sentence.
 */
struct nvmf_disk *nvmf_disk_open(struct nvmf_engine *engine, const char *name, bool read_only,
                                 uint32_t block, const char **why);

/* No operation may be under way. */
void nvmf_disk_close(struct nvmf_disk *disk);

uint64_t nvmf_disk_blocks(const struct nvmf_disk *disk);
bool nvmf_disk_is_direct(const struct nvmf_disk *disk); /* past the page cache */
bool nvmf_disk_is_ram(const struct nvmf_disk *disk);

/* Ask for the size again. The sentence says why the disk is gone; NULL: it is there. */
const char *nvmf_disk_look(struct nvmf_disk *disk);

/* Of a file: what identifies it. */
int nvmf_disk_fd(const struct nvmf_disk *disk);

/* Begin io, whose op, through, offset, len, data and done the caller has set. */
void nvmf_disk_do(struct nvmf_disk *disk, struct nvmf_disk_io *io);

#endif
