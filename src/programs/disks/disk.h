/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Disks: a file, a block device, or memory ("ram:SIZE"). Operations begin at once, never block the
 * caller's loop, and end by a call of `done` on the loop's thread, possibly before disk_do has
 * returned. A write without `through` is in the hands of the disk or the page cache when it is
 * done; one with it, and everything that was done before a flush began, is on stable storage.
 *
 * Files are carried out by an engine: io_uring, or the threads of libuv where the kernel has none.
 */
#ifndef DISKS_DISK_H
#define DISKS_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct disk;

enum disk_op {
    DISK_READ,
    DISK_WRITE,
    DISK_FLUSH,
    DISK_ZERO,   /* octets read as 0 afterwards, and have a place on the disk */
    DISK_DISCARD /* octets read as 0 afterwards, and need none */
};

struct disk_io {
    enum disk_op op;
    bool through; /* WRITE: on stable storage when done */
    struct disk *disk;
    uint64_t offset;
    uint64_t len;
    uint8_t *data;
    int error; /* set before `done`: 0 or an errno */
    void (*done)(struct disk_io *io);
    uint64_t moved; /* of the engine: octets so far */
    uv_work_t work; /* of the engine of threads */
};

/* How operations on a file are carried out. */
struct disk_engine {
    void (*start)(struct disk_engine *engine, struct disk_io *io);
    void (*turn)(struct disk_engine *engine);  /* once in each turn of the loop, before it sleeps */
    void (*close)(struct disk_engine *engine); /* nothing may be under way */
    const char *name;
    unsigned under_way; /* operations that are not done */
    unsigned lock_ms;   /* how long disk_open may wait for the lock of a file */
};

/* memory: what buffers are part of, registered once if that can be done. uring false: do without
 * io_uring. NULL: no memory. */
struct disk_engine *disk_engine_open(uv_loop_t *loop, void *memory, size_t len, bool uring);

/*
 * A file is locked (flock): for this process alone, or of those that only read it. The lock of a
 * process that was killed stays until the kernel has carried out what io_uring had of it. So a
 * write that was never answered cannot come after one that this process has answered.
 *
 * Open "ram:SIZE" or a path. block: octets of a logical block, 512 or 4096; what is left of the
 * file's last block does not count. NULL after *why is set to a sentence.
 */
struct disk *disk_open(struct disk_engine *engine, const char *name, bool read_only, uint32_t block,
                       const char **why);

/* No operation may be under way. */
void disk_close(struct disk *disk);

/* Octets of "4G"; 0 if it is no size. */
uint64_t disk_size_read(const char *text);

uint64_t disk_blocks(const struct disk *disk);
bool disk_is_direct(const struct disk *disk); /* past the page cache */
bool disk_is_ram(const struct disk *disk);

/* Ask for the size again. The sentence says why the disk is gone; NULL: it is there. */
const char *disk_look(struct disk *disk);

/* Does `name`, as disk_open had it, still lead to this disk? Also true if it leads nowhere: what is
 * open stays. */
bool disk_is_at(const struct disk *disk, const char *name);

/* Of a file: what identifies it. */
int disk_fd(const struct disk *disk);

/* Begin io, whose op, through, offset, len, data and done the caller has set. */
void disk_do(struct disk *disk, struct disk_io *io);

#endif
