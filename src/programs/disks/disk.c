/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Disks: opening, sizes, and memory as a disk. What becomes of files is the engine's.
 */
#include "disk.h"

#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Up to here a copy is quicker than another thread that makes it. */
#define AT_ONCE 16384

struct disk {
    struct disk_engine *engine;
    int fd;       /* -1: memory */
    uint8_t *ram; /* of blocks * block octets */
    uint32_t block;
    uint64_t blocks;
    bool direct;
    bool on_tmpfs;
    unsigned zeroing; /* operations under way that hold the file's lock for long */
};

int disk_mode(const struct disk_io *io)
{
    return FALLOC_FL_KEEP_SIZE |
           (io->op == DISK_ZERO ? FALLOC_FL_ZERO_RANGE : FALLOC_FL_PUNCH_HOLE);
}

bool disk_step(struct disk_io *io, int64_t result)
{
    if (result == -EINTR || result == -EAGAIN) {
        return true;
    }
    if (result < 0) {
        io->error = (int)-result;
        return false;
    }
    if (io->op != DISK_READ && io->op != DISK_WRITE) {
        return false;
    }
    /* No octets: the file has become shorter, or has no room. */
    if (result == 0) {
        io->error = io->op == DISK_READ ? EIO : ENOSPC;
        return false;
    }
    io->moved += (uint64_t)result;
    return io->moved < io->len;
}

static bool is_zeroing(const struct disk_io *io)
{
    return io->op == DISK_ZERO || io->op == DISK_DISCARD;
}

void disk_finish(struct disk_io *io)
{
    io->disk->zeroing -= is_zeroing(io);
    io->disk->engine->under_way--;
    io->done(io);
}

uint64_t disk_size_read(const char *text)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    const char *units = "KMGT", *unit = *end ? strchr(units, *end) : NULL;

    if (end == text || *text == '-' || (*end && (!unit || end[1]))) {
        return 0;
    }
    for (const char *u = units; unit && u <= unit; u++) {
        value = value > UINT64_MAX / 1024 ? 0 : value * 1024;
    }
    return value;
}

static const char *open_ram(struct disk *disk, const char *size)
{
    uint64_t len = disk_size_read(size);

    disk->blocks = len / disk->block;
    if (disk->blocks == 0 || len > SIZE_MAX / 2) {
        return "not a size; write ram:512M";
    }
    disk->ram = mmap(NULL, disk->blocks * disk->block, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (disk->ram == MAP_FAILED) {
        disk->ram = NULL;
        return strerror(errno);
    }
    return NULL;
}

const char *disk_look(struct disk *disk)
{
    uint64_t size = 0;
    struct stat st;

    if (disk->ram) {
        return NULL;
    }
    if (fstat(disk->fd, &st) < 0) {
        return strerror(errno);
    }
    if (S_ISBLK(st.st_mode)) {
        if (ioctl(disk->fd, BLKGETSIZE64, &size) < 0) {
            return strerror(errno);
        }
    } else if (!S_ISREG(st.st_mode)) {
        return "neither a file nor a block device";
    } else if (st.st_nlink == 0) {
        return "the file was removed";
    } else {
        size = (uint64_t)st.st_size;
    }
    disk->blocks = size / disk->block;
    return disk->blocks > 0 ? NULL : "there is not one block in it";
}

bool disk_is_at(const struct disk *disk, const char *name)
{
    struct stat ours, named;

    if (disk->ram || fstat(disk->fd, &ours) < 0 || stat(name, &named) < 0) {
        return true;
    }
    /* A device may have several files. */
    return S_ISBLK(ours.st_mode) ? S_ISBLK(named.st_mode) && ours.st_rdev == named.st_rdev
                                 : ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

/* File systems that know no locks do without. */
static bool lock(const struct disk *disk, bool read_only)
{
    unsigned patience = disk->engine ? disk->engine->lock_ms : 0;

    while (flock(disk->fd, (read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK) {
            return true;
        }
        if (patience == 0) {
            return false;
        }
        usleep(1000);
        patience--;
    }
    return true;
}

static const char *open_file(struct disk *disk, const char *name, bool read_only)
{
    int flags = (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC;
    struct statfs fs;
    struct stat st;
    const char *why;

    /* Not to wait for the other side of a FIFO. */
    disk->fd = open(name, flags | O_NONBLOCK | O_DIRECT);
    disk->direct = disk->fd >= 0;
    if (disk->fd < 0 && errno == EINVAL) {
        disk->fd = open(name, flags | O_NONBLOCK); /* tmpfs, for one, has no direct I/O */
    }
    if (disk->fd < 0) {
        return strerror(errno);
    }
    if (!lock(disk, read_only)) {
        return "it is in use: another process, or another namespace, has its lock";
    }
    /* With O_NONBLOCK io_uring says EAGAIN, again and again, of each operation that a disk cannot
     * begin without waiting; many of the device mapper and of md never can. */
    if (fcntl(disk->fd, F_SETFL, flags | (disk->direct ? O_DIRECT : 0)) < 0) {
        return strerror(errno);
    }
    /* A block device's name may lie on a tmpfs, as all in /dev; its writes go to a disk. */
    disk->on_tmpfs = fstat(disk->fd, &st) == 0 && S_ISREG(st.st_mode) &&
                     fstatfs(disk->fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
    why = disk_look(disk);
    if (!why && disk->direct) {
        void *probe = aligned_alloc(4096, disk->block);
        /* Some disks have larger blocks than ours. */
        if (!probe || pread(disk->fd, probe, disk->block, 0) != (ssize_t)disk->block) {
            disk->direct = fcntl(disk->fd, F_SETFL, flags) < 0;
        }
        free(probe);
    }
    return why;
}

struct disk *disk_open(struct disk_engine *engine, const char *name, bool read_only, uint32_t block,
                       const char **why)
{
    struct disk *disk = calloc(1, sizeof *disk);

    if (!disk) {
        *why = "not enough memory";
        return NULL;
    }
    disk->engine = engine;
    disk->block = block;
    disk->fd = -1;
    *why =
        strncmp(name, "ram:", 4) == 0 ? open_ram(disk, name + 4) : open_file(disk, name, read_only);
    if (*why) {
        disk_close(disk);
        return NULL;
    }
    return disk;
}

void disk_close(struct disk *disk)
{
    if (disk->ram) {
        munmap(disk->ram, disk->blocks * disk->block);
    }
    if (disk->fd >= 0) {
        close(disk->fd);
    }
    free(disk);
}

uint64_t disk_blocks(const struct disk *disk)
{
    return disk->blocks;
}

bool disk_is_direct(const struct disk *disk)
{
    return disk->direct;
}

bool disk_is_ram(const struct disk *disk)
{
    return disk->ram != NULL;
}

int disk_fd(const struct disk *disk)
{
    return disk->fd;
}

static void zero_ram(uint8_t *at, uint64_t len)
{
    uint64_t skip = (4096 - (uintptr_t)at % 4096) % 4096;

    if (len < skip + 4096) {
        memset(at, 0, len);
        return;
    }
    /* Whole pages are given back, and read as 0. */
    memset(at, 0, skip);
    at += skip;
    len -= skip;
    madvise(at, len / 4096 * 4096, MADV_DONTNEED);
    memset(at + len / 4096 * 4096, 0, len % 4096);
}

static void do_ram(struct disk *disk, struct disk_io *io)
{
    switch (io->op) {
    case DISK_READ:
        memcpy(io->data, disk->ram + io->offset, io->len);
        break;
    case DISK_WRITE:
        memcpy(disk->ram + io->offset, io->data, io->len);
        break;
    case DISK_ZERO:
    case DISK_DISCARD:
        zero_ram(disk->ram + io->offset, io->len);
        break;
    case DISK_FLUSH:
        break;
    }
    io->done(io);
}

/* io_uring of Linux 6.1 hands each write to a file in memory to a thread, which costs more. */
bool disk_write_now(struct disk_io *io)
{
    const struct disk *disk = io->disk;
    ssize_t result;

    if (!disk->on_tmpfs || disk->zeroing > 0 || io->op != DISK_WRITE || io->len > AT_ONCE) {
        return false;
    }
    do {
        result = pwrite(disk->fd, io->data + io->moved, io->len - io->moved,
                        (off_t)(io->offset + io->moved));
    } while (disk_step(io, result < 0 ? -errno : result));
    disk_finish(io);
    return true;
}

void disk_do(struct disk *disk, struct disk_io *io)
{
    io->disk = disk;
    io->error = 0;
    io->moved = 0;
    if (disk->ram) {
        do_ram(disk, io);
    } else {
        disk->engine->under_way++;
        disk->zeroing += is_zeroing(io);
        disk->engine->start(disk->engine, io);
    }
}
