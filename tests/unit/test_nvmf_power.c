/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Power is lost while a host of iwarp-nvmf writes. The disk is a model: it completes what it has in
 * any order, keeps writes in a cache, and makes them stable when a flush that began after them is
 * done, when they were to go through, or whenever it likes. What is left after a loss of power is
 * what is stable, and any part of the rest.
 *
 * Promised is: what was answered with FUA, and what was answered before a Flush that was answered
 * was sent. Each block has a stamp that only grows, so the test compares numbers. The kernel's
 * part, that fdatasync and RWF_DSYNC do what the model's flush does, is not tried here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nvmf_side.h"
#include "programs/disks/engine.h"

#define BLOCK   4096u
#define BLOCKS  64u
#define DEPTH   16u
#define PENDING 64u
#define ROUNDS  60u

/* --- the disk -------------------------------------------------------------------------------- */

struct model {
    struct disk_engine engine;
    struct disk_engine *real; /* closed in its place */
    struct disk_io *pending[PENDING];
    uint64_t then[PENDING][BLOCKS]; /* the cache when it began */
    unsigned count, seed;
    bool lost;
    bool lazy; /* its flushes do nothing */
    uint64_t cache[BLOCKS], stable[BLOCKS];
};

static struct model m;

static unsigned random_below(unsigned limit)
{
    return (unsigned)rand_r(&m.seed) % limit;
}

static void write_block(uint64_t block, uint64_t stamp, bool through)
{
    m.cache[block] = stamp;
    if (through || random_below(8) == 0) {
        m.stable[block] = stamp;
    }
}

static void carry_out(struct disk_io *io, const uint64_t *then)
{
    uint64_t first = io->offset / BLOCK;

    for (uint64_t i = 0; i < io->len / BLOCK; i++) {
        if (io->op == DISK_READ) {
            memset(io->data + i * BLOCK, 0, BLOCK);
            nvmf_put64(io->data + i * BLOCK, m.cache[first + i]);
        } else if (io->op == DISK_WRITE) {
            write_block(first + i, nvmf_get64(io->data + i * BLOCK), io->through && !m.lazy);
        } else {
            write_block(first + i, 0, false);
        }
    }
    for (size_t i = 0; io->op == DISK_FLUSH && !m.lazy && i < BLOCKS; i++) {
        m.stable[i] = m.stable[i] > then[i] ? m.stable[i] : then[i];
    }
}

static void start(struct disk_engine *engine, struct disk_io *io)
{
    (void)engine;
    side_must(m.count < PENDING, "too much for the model");
    memcpy(m.then[m.count], m.cache, sizeof m.cache);
    m.pending[m.count++] = io;
}

/* Some of what it has, in any order. */
static void turn(struct disk_engine *engine)
{
    (void)engine;
    for (unsigned some = m.lost ? m.count : random_below(4); some > 0 && m.count > 0; some--) {
        unsigned n = random_below(m.count);
        struct disk_io *io = m.pending[n];
        if (!m.lost) {
            carry_out(io, m.then[n]);
        }
        m.count--;
        m.pending[n] = m.pending[m.count];
        memcpy(m.then[n], m.then[m.count], sizeof m.then[n]);
        disk_finish(io);
    }
}

static void close_model(struct disk_engine *engine)
{
    (void)engine;
    m.real->close(m.real);
}

/* --- the host -------------------------------------------------------------------------------- */

static struct side s;
static uint64_t stamp;
/* Of each block: asked for last, answered last, and promised: at least that survives. */
static uint64_t asked[BLOCKS], answered[BLOCKS], promised[BLOCKS];
static bool busy[BLOCKS];

/* A flush, and what had been answered when it was sent. */
struct flush {
    bool busy;
    uint64_t answered[BLOCKS];
};

static struct flush flushes[DEPTH];

static void on_written(struct nvmf_host_slot *slot)
{
    size_t block = (uintptr_t)slot->arg / 2;

    assert_int_equal(slot->response.status, NVMF_OK);
    busy[block] = false;
    answered[block] = asked[block];
    if ((uintptr_t)slot->arg & 1) {
        promised[block] = asked[block];
    }
}

static void on_flushed(struct nvmf_host_slot *slot)
{
    struct flush *flush = slot->arg;

    assert_int_equal(slot->response.status, NVMF_OK);
    flush->busy = false;
    for (size_t i = 0; i < BLOCKS; i++) {
        promised[i] = promised[i] > flush->answered[i] ? promised[i] : flush->answered[i];
    }
}

static void ask_flush(void)
{
    uint8_t command[NVMF_COMMAND_LEN] = {NVMF_FLUSH, [4] = 1, [39] = 0x40};
    struct flush *flush = flushes;

    while (flush < flushes + DEPTH && flush->busy) {
        flush++;
    }
    if (flush < flushes + DEPTH && nvmf_host_send(s.io, command, NULL, 0, on_flushed, flush)) {
        flush->busy = true;
        memcpy(flush->answered, answered, sizeof answered);
    }
}

static void ask(void)
{
    uint8_t command[NVMF_COMMAND_LEN];
    size_t block = random_below(BLOCKS);
    bool through = random_below(4) == 0;

    if (random_below(12) == 0) {
        ask_flush();
    } else if (!busy[block]) {
        nvmf_put64(s.host.memory + block * BLOCK, stamp + 1);
        side_put_io(&s, command, NVMF_WRITE, block, through ? 0x40000000 : 0, block * BLOCK, BLOCK);
        if (nvmf_host_send(s.io, command, NULL, 0, on_written, (void *)(block * 2 + through))) {
            asked[block] = ++stamp;
            busy[block] = true;
        }
    }
}

/* Returns how many blocks have less than was promised. */
static unsigned one_loss_of_power(unsigned round, bool lazy)
{
    unsigned broken = 0;

    memset(&m, 0, sizeof m);
    memset(flushes, 0, sizeof flushes);
    memset(busy, 0, sizeof busy);
    memset(asked, 0, sizeof asked);
    memset(answered, 0, sizeof answered);
    memset(promised, 0, sizeof promised);
    side_open(&s, 4 << 20, false);
    m.seed = round + 1;
    m.lazy = lazy;
    m.real = s.target.engine;
    m.engine = (struct disk_engine){start, turn, close_model, "model", 0, 0};
    s.target.engine = s.target.store.engine = &m.engine;
    side_file(&s, BLOCKS * BLOCK);
    side_join(&s);
    for (unsigned turns = 200 + random_below(400); turns > 0; turns--) {
        ask();
        nvmf_host_turn(&s.host);
        uv_run(&s.loop, UV_RUN_NOWAIT);
    }
    m.lost = true;
    for (size_t i = 0; i < BLOCKS; i++) {
        uint64_t left = random_below(2) ? m.stable[i] : m.cache[i];
        broken += left < promised[i];
        assert_true(left <= asked[i]);
    }
    side_close(&s);
    return broken;
}

static void power__lost_at_any_time__leaves_what_was_promised(void **state)
{
    uint64_t promises = 0;

    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        assert_int_equal(one_loss_of_power(round, false), 0);
        for (size_t i = 0; i < BLOCKS; i++) {
            promises += promised[i] > 0;
        }
    }
    assert_true(promises > ROUNDS * 10);
}

/* The same with a disk whose flushes do nothing: the test sees it. */
static void power__lost_with_a_disk_that_lies__is_seen(void **state)
{
    unsigned broken = 0;

    (void)state;
    for (unsigned round = 0; round < 10; round++) {
        broken += one_loss_of_power(round, true);
    }
    assert_true(broken > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(power__lost_at_any_time__leaves_what_was_promised),
        cmocka_unit_test(power__lost_with_a_disk_that_lies__is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
