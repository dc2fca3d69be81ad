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
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct nvmf_disk {
    struct nvmf_engine *engine;
    int fd;       /* -1: memory */
    uint8_t *ram; /* of blocks * block octets */
    uint32_t block;
    uint64_t blocks;
    bool direct;
};

int nvmf_disk_mode(const struct nvmf_disk_io *io)
{
    return FALLOC_FL_KEEP_SIZE |
           (io->op == NVMF_DISK_ZERO ? FALLOC_FL_ZERO_RANGE : FALLOC_FL_PUNCH_HOLE);
}

bool nvmf_disk_step(struct nvmf_disk_io *io, int64_t result)
{
    if (result == -EINTR || result == -EAGAIN) {
        return true;
    }
    if (result < 0) {
        io->error = (int)-result;
        return false;
    }
    if (io->op != NVMF_DISK_READ && io->op != NVMF_DISK_WRITE) {
        return false;
    }
    /* No octets: the file has become shorter, or has no room. */
    if (result == 0) {
        io->error = io->op == NVMF_DISK_READ ? EIO : ENOSPC;
        return false;
    }
    io->moved += (uint64_t)result;
    return io->moved < io->len;
}

void nvmf_disk_finish(struct nvmf_disk_io *io)
{
    io->disk->engine->under_way--;
    io->done(io);
}

/* Octets of "4G"; 0 if it is no size. */
static uint64_t parse_size(const char *text)
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

static const char *open_ram(struct nvmf_disk *disk, const char *size)
{
    uint64_t len = parse_size(size);

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

const char *nvmf_disk_look(struct nvmf_disk *disk)
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

/* File systems that know no locks do without. */
static bool lock(const struct nvmf_disk *disk, bool read_only)
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

static const char *open_file(struct nvmf_disk *disk, const char *name, bool read_only)
{
    int flags = (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK;
    const char *why;

    disk->fd = open(name, flags | O_DIRECT);
    disk->direct = disk->fd >= 0;
    if (disk->fd < 0 && errno == EINVAL) {
        disk->fd = open(name, flags); /* tmpfs, for one, has no direct I/O */
    }
    if (disk->fd < 0) {
        return strerror(errno);
    }
    if (!lock(disk, read_only)) {
        return "it is in use: another process, or another namespace, has its lock";
    }
    why = nvmf_disk_look(disk);
    if (!why && disk->direct) {
        void *probe = aligned_alloc(4096, disk->block);
        /* Some disks have larger blocks than ours. */
        if (!probe || pread(disk->fd, probe, disk->block, 0) != (ssize_t)disk->block) {
            disk->direct = fcntl(disk->fd, F_SETFL, flags & ~O_DIRECT) < 0;
        }
        free(probe);
    }
    return why;
}

struct nvmf_disk *nvmf_disk_open(struct nvmf_engine *engine, const char *name, bool read_only,
                                 uint32_t block, const char **why)
{
    struct nvmf_disk *disk = calloc(1, sizeof *disk);

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
        nvmf_disk_close(disk);
        return NULL;
    }
    return disk;
}

void nvmf_disk_close(struct nvmf_disk *disk)
{
    if (disk->ram) {
        munmap(disk->ram, disk->blocks * disk->block);
    }
    if (disk->fd >= 0) {
        close(disk->fd);
    }
    free(disk);
}

uint64_t nvmf_disk_blocks(const struct nvmf_disk *disk)
{
    return disk->blocks;
}

bool nvmf_disk_is_direct(const struct nvmf_disk *disk)
{
    return disk->direct;
}

bool nvmf_disk_is_ram(const struct nvmf_disk *disk)
{
    return disk->ram != NULL;
}

int nvmf_disk_fd(const struct nvmf_disk *disk)
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

static void do_ram(struct nvmf_disk *disk, struct nvmf_disk_io *io)
{
    switch (io->op) {
    case NVMF_DISK_READ:
        memcpy(io->data, disk->ram + io->offset, io->len);
        break;
    case NVMF_DISK_WRITE:
        memcpy(disk->ram + io->offset, io->data, io->len);
        break;
    case NVMF_DISK_ZERO:
    case NVMF_DISK_DISCARD:
        zero_ram(disk->ram + io->offset, io->len);
        break;
    case NVMF_DISK_FLUSH:
        break;
    }
    io->done(io);
}

void nvmf_disk_do(struct nvmf_disk *disk, struct nvmf_disk_io *io)
{
    io->disk = disk;
    io->error = 0;
    io->moved = 0;
    if (disk->ram) {
        do_ram(disk, io);
    } else {
        disk->engine->under_way++;
        disk->engine->start(disk->engine, io);
    }
}
