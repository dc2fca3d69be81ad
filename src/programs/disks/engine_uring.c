/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine of io_uring. Operations of one turn of the loop are submitted together, before it
 * sleeps; completions are looked for in each turn, and the ring's descriptor wakes it up for those
 * that come meanwhile.
 */
#include "engine.h"

#ifdef IWARP_HAVE_URING

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

/* Entries of the submission queue; that of completions has twice as many, and the kernel keeps what
 * does not fit there. */
#define ENTRIES 512

struct uring {
    struct disk_engine engine;
    struct io_uring ring;
    uv_poll_t poll;
    uint8_t *fixed; /* NULL: the kernel lets nothing be registered */
    size_t fixed_len;
    unsigned prepared;
};

static void submit(struct uring *uring)
{
    /* EAGAIN, EBUSY: what was not taken stays in the ring until the next turn. */
    if (uring->prepared > 0) {
        int taken = io_uring_submit(&uring->ring);
        uring->prepared -= taken > 0 ? (unsigned)taken : 0;
    }
}

static struct io_uring_sqe *next_entry(struct uring *uring)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);

    while (!sqe) {
        submit(uring);
        sqe = io_uring_get_sqe(&uring->ring);
    }
    uring->prepared++;
    return sqe;
}

static bool is_fixed(const struct uring *uring, const struct disk_io *io)
{
    return uring->fixed && io->data >= uring->fixed && io->data < uring->fixed + uring->fixed_len;
}

static void prepare(struct uring *uring, struct disk_io *io)
{
    struct io_uring_sqe *sqe = next_entry(uring);
    int fd = disk_fd(io->disk);
    uint64_t at = io->offset + io->moved;
    uint8_t *data = io->data ? io->data + io->moved : NULL;
    unsigned len = (unsigned)(io->len - io->moved);

    switch (io->op) {
    case DISK_READ:
        if (is_fixed(uring, io)) {
            io_uring_prep_read_fixed(sqe, fd, data, len, at, 0);
        } else {
            io_uring_prep_read(sqe, fd, data, len, at);
        }
        break;
    case DISK_WRITE:
        if (is_fixed(uring, io)) {
            io_uring_prep_write_fixed(sqe, fd, data, len, at, 0);
        } else {
            io_uring_prep_write(sqe, fd, data, len, at);
        }
        sqe->rw_flags = io->through ? RWF_DSYNC : 0;
        break;
    case DISK_FLUSH:
        io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
        break;
    case DISK_ZERO:
    case DISK_DISCARD:
        io_uring_prep_rw(IORING_OP_FALLOCATE, sqe, fd, NULL, (unsigned)disk_mode(io), io->offset);
        sqe->addr = io->len;
        break;
    }
    io_uring_sqe_set_data(sqe, io);
}

static void start(struct disk_engine *engine, struct disk_io *io)
{
    if (!disk_write_now(io)) {
        prepare((struct uring *)engine, io);
    }
}

/* What is done may begin new operations, whose completions may be there at once. */
static void reap(struct uring *uring)
{
    struct io_uring_cqe *cqe;

    while (io_uring_peek_cqe(&uring->ring, &cqe) == 0) {
        struct disk_io *io = io_uring_cqe_get_data(cqe);
        int result = cqe->res;
        io_uring_cqe_seen(&uring->ring, cqe);
        if (disk_step(io, result)) {
            prepare(uring, io);
        } else {
            disk_finish(io);
        }
    }
}

static void turn(struct disk_engine *engine)
{
    struct uring *uring = (struct uring *)engine;

    reap(uring);
    submit(uring);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    turn(poll->data);
}

static void on_closed(uv_handle_t *handle)
{
    struct uring *uring = handle->data;

    io_uring_queue_exit(&uring->ring);
    free(uring);
}

static void close_engine(struct disk_engine *engine)
{
    uv_close((uv_handle_t *)&((struct uring *)engine)->poll, on_closed);
}

/* A filter of system calls may allow a ring to be made, and nothing to be submitted: operations
 * would wait for ever. */
static bool takes_entries(struct io_uring *ring)
{
    struct io_uring_cqe *cqe;

    io_uring_prep_nop(io_uring_get_sqe(ring));
    if (io_uring_submit_and_wait(ring, 1) != 1 || io_uring_peek_cqe(ring, &cqe) != 0) {
        return false;
    }
    io_uring_cqe_seen(ring, cqe);
    return true;
}

struct disk_engine *disk_uring_open(uv_loop_t *loop, void *memory, size_t len)
{
    struct uring *uring = calloc(1, sizeof *uring);
    struct iovec whole = {memory, len};

    if (!uring || io_uring_queue_init(ENTRIES, &uring->ring, IORING_SETUP_CLAMP) != 0) {
        free(uring);
        return NULL;
    }
    if (!takes_entries(&uring->ring) ||
        uv_poll_init(loop, &uring->poll, uring->ring.ring_fd) != 0) {
        io_uring_queue_exit(&uring->ring);
        free(uring);
        return NULL;
    }
    /* RLIMIT_MEMLOCK may forbid it; then the kernel looks up the pages of each operation. */
    if (io_uring_register_buffers(&uring->ring, &whole, 1) == 0) {
        uring->fixed = memory;
        uring->fixed_len = len;
    }
    uring->poll.data = uring;
    uv_poll_start(&uring->poll, UV_READABLE, on_ready);
    uring->engine = (struct disk_engine){
        start, turn, close_engine, uring->fixed ? "io_uring, fixed buffers" : "io_uring", 0, 0};
    return &uring->engine;
}

#else

struct disk_engine *disk_uring_open(uv_loop_t *loop, void *memory, size_t len)
{
    (void)loop;
    (void)memory;
    (void)len;
    return NULL;
}

#endif
