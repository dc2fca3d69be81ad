/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine without io_uring: each operation blocks a thread of libuv's pool
 * (UV_THREADPOOL_SIZE).
 */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

struct threads {
    struct disk_engine engine;
    uv_loop_t *loop;
};

/* Where the flag is not known, as in qemu's user mode, the octets are flushed after they are
 * written. */
static ssize_t write_through(int fd, const struct iovec *piece, off_t at)
{
    ssize_t moved = pwritev2(fd, piece, 1, at, RWF_DSYNC);

    if (moved < 0 && errno == EOPNOTSUPP) {
        moved = pwritev(fd, piece, 1, at);
        moved = moved > 0 && fdatasync(fd) < 0 ? -1 : moved;
    }
    return moved;
}

static int64_t one_step(struct disk_io *io)
{
    int fd = disk_fd(io->disk), result = 0;
    off_t at = (off_t)(io->offset + io->moved);
    ssize_t moved;

    switch (io->op) {
    case DISK_READ:
    case DISK_WRITE: {
        struct iovec piece = {io->data + io->moved, io->len - io->moved};
        moved = io->op == DISK_READ ? preadv(fd, &piece, 1, at)
                : io->through       ? write_through(fd, &piece, at)
                                    : pwritev(fd, &piece, 1, at);
        return moved < 0 ? -errno : moved;
    }
    case DISK_FLUSH:
        result = fdatasync(fd);
        break;
    case DISK_ZERO:
    case DISK_DISCARD:
        result = fallocate(fd, disk_mode(io), (off_t)io->offset, (off_t)io->len);
        break;
    }
    return result < 0 ? -errno : 0;
}

static void work(uv_work_t *request)
{
    struct disk_io *io = request->data;

    while (disk_step(io, one_step(io))) {
    }
}

static void after(uv_work_t *request, int status)
{
    struct disk_io *io = request->data;

    if (status < 0) {
        io->error = ECANCELED;
    }
    disk_finish(io);
}

static void start(struct disk_engine *engine, struct disk_io *io)
{
    if (!disk_write_now(io)) {
        io->work.data = io;
        uv_queue_work(((struct threads *)engine)->loop, &io->work, work, after);
    }
}

static void turn(struct disk_engine *engine)
{
    (void)engine;
}

static void close_engine(struct disk_engine *engine)
{
    free(engine);
}

struct disk_engine *disk_threads_open(uv_loop_t *loop)
{
    struct threads *threads = calloc(1, sizeof *threads);

    if (!threads) {
        return NULL;
    }
    threads->loop = loop;
    threads->engine = (struct disk_engine){start, turn, close_engine, "threads", 0, 0};
    return &threads->engine;
}
