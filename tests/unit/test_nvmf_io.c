/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * I/O commands of iwarp-nvmf, on a file by either engine and in memory: what is written is there,
 * and what cannot be done has its status.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "nvmf_side.h"

#define DNR   0x4000
#define BLOCK 4096
#define DISK  ((off_t)4 << 20) /* 1024 blocks */
#define FUA   0x40000000u

static struct side s;

static int open_with(bool uring, bool file)
{
    side_open(&s, 4 << 20, uring);
    if (file) {
        side_file(&s, DISK);
    } else {
        side_disk(&s, "ram:4M", false);
    }
    side_join(&s);
    return 0;
}

static int with_uring(void **state)
{
    (void)state;
    return open_with(true, true);
}

static int with_threads(void **state)
{
    (void)state;
    return open_with(false, true);
}

static int with_memory(void **state)
{
    (void)state;
    return open_with(true, false);
}

static int tear_down(void **state)
{
    (void)state;
    side_close(&s);
    return 0;
}

static void fill(size_t offset, size_t octets, unsigned seed)
{
    for (size_t i = 0; i < octets; i++) {
        seed = seed * 1103515245 + 12345;
        s.host.memory[offset + i] = (uint8_t)(seed >> 16);
    }
}

/* Half of the host's memory is what is written, the other half what is read. */
#define BACK (SIDE_MEMORY / 2)

static void same(size_t octets)
{
    assert_memory_equal(s.host.memory, s.host.memory + BACK, octets);
}

static void write__then_read__is_the_same(void **state)
{
    static const struct {
        uint32_t lba, blocks, flags;
    } cases[] = {{0, 1, 0}, {1023, 1, FUA}, {5, 2, 0}, {100, 255, 0}, {7, 256, FUA}, {768, 256, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t octets = cases[i].blocks * BLOCK, count = cases[i].blocks - 1;
        fill(0, octets, (unsigned)i + 1);
        memset(s.host.memory + BACK, 0, octets);
        assert_int_equal(side_io(&s, NVMF_WRITE, cases[i].lba, count | cases[i].flags, 0, octets),
                         NVMF_OK);
        assert_int_equal(side_io(&s, NVMF_READ, cases[i].lba, count, BACK, octets), NVMF_OK);
        same(octets);
        assert_int_equal(side_io(&s, NVMF_VERIFY, cases[i].lba, count, 0, 0), NVMF_OK);
    }
    assert_int_equal(side_io(&s, NVMF_FLUSH, 0, 0, 0, 0), NVMF_OK);
    /* In the file is what the host has written last to this place. */
    if (s.file[0]) {
        int fd = open(s.file, O_RDONLY);
        assert_int_equal(pread(fd, s.host.memory + BACK, 256 * BLOCK, 768 * BLOCK), 256 * BLOCK);
        same(256 * BLOCK);
        close(fd);
    }
    assert_int_equal(s.target.net.arena.used, 0);
}

static void write__in_capsule__is_written(void **state)
{
    uint8_t command[NVMF_COMMAND_LEN];

    (void)state;
    for (uint32_t octets = BLOCK; octets <= NVMF_IN_CAPSULE; octets += BLOCK) {
        fill(0, octets, octets);
        side_put_io(&s, command, NVMF_WRITE, 9, octets / BLOCK - 1, 0, 0);
        memset(command + 24, 0, 16);
        nvmf_put32(command + 32, octets);
        command[39] = 0x01;
        assert_int_equal(nvmf_host_do(s.io, command, s.host.memory, octets, NULL), NVMF_OK);
        assert_int_equal(side_io(&s, NVMF_READ, 9, octets / BLOCK - 1, BACK, octets), NVMF_OK);
        same(octets);
        /* Compare has its data in the capsule, too. */
        command[0] = NVMF_COMPARE;
        assert_int_equal(nvmf_host_do(s.io, command, s.host.memory, octets, NULL), NVMF_OK);
        s.host.memory[octets - 1] ^= 1;
        assert_int_equal(nvmf_host_do(s.io, command, s.host.memory, octets, NULL),
                         NVMF_COMPARE_FAILED | DNR);
    }
    /* A read into the capsule has nowhere to go. */
    command[0] = NVMF_READ;
    assert_int_equal(nvmf_host_do(s.io, command, s.host.memory, NVMF_IN_CAPSULE, NULL),
                     NVMF_SGL_TYPE | DNR);
}

/* Such data lie where a disk that is open past the page cache cannot take them. */
static void write__in_capsule_at_an_offset__is_written(void **state)
{
    static const uint32_t offsets[] = {1, 512, BLOCK - 4, BLOCK};
    uint8_t command[NVMF_COMMAND_LEN];

    (void)state;
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        uint32_t at = offsets[i];
        fill(0, at + BLOCK, at);
        side_put_io(&s, command, NVMF_WRITE, 9, 0, 0, 0);
        memset(command + 24, 0, 16);
        nvmf_put64(command + 24, at);
        nvmf_put32(command + 32, BLOCK);
        command[39] = 0x01;
        assert_int_equal(nvmf_host_do(s.io, command, s.host.memory, at + BLOCK, NULL), NVMF_OK);
        assert_int_equal(side_io(&s, NVMF_READ, 9, 0, BACK, BLOCK), NVMF_OK);
        assert_memory_equal(s.host.memory + at, s.host.memory + BACK, BLOCK);
        command[0] = NVMF_COMPARE;
        assert_int_equal(nvmf_host_do(s.io, command, s.host.memory, at + BLOCK, NULL), NVMF_OK);
        assert_int_equal(s.target.net.arena.used, 0);
    }
}

static void compare__equal_or_not__says_so(void **state)
{
    (void)state;
    fill(0, 64 * BLOCK, 3);
    assert_int_equal(side_io(&s, NVMF_WRITE, 0, 63, 0, 64 * BLOCK), NVMF_OK);
    assert_int_equal(side_io(&s, NVMF_COMPARE, 0, 63, 0, 64 * BLOCK), NVMF_OK);
    s.host.memory[64 * BLOCK - 1] ^= 1;
    assert_int_equal(side_io(&s, NVMF_COMPARE, 0, 63, 0, 64 * BLOCK), NVMF_COMPARE_FAILED | DNR);
    assert_int_equal(s.target.net.arena.used, 0);
}

/* What was asked of the disk: a letter for each operation. */
static void (*real_start)(struct disk_engine *engine, struct disk_io *io);
static char asked[16];

static void note_start(struct disk_engine *engine, struct disk_io *io)
{
    asked[strlen(asked)] = "rwfzd"[io->op];
    real_start(engine, io);
}

static void fua__of_reads__flushes_what_was_read(void **state)
{
    static const uint8_t opcodes[] = {NVMF_READ, NVMF_COMPARE, NVMF_VERIFY};

    (void)state;
    real_start = s.target.engine->start;
    s.target.engine->start = note_start;
    for (size_t i = 0; i < sizeof opcodes; i++) {
        memset(asked, 0, sizeof asked);
        assert_int_equal(side_io(&s, opcodes[i], 3, 0, 0, BLOCK), NVMF_OK);
        assert_string_equal(asked, "r");
        assert_int_equal(side_io(&s, opcodes[i], 3, FUA, 0, BLOCK), NVMF_OK);
        assert_string_equal(asked, "rrf");
    }
    memset(asked, 0, sizeof asked);
    s.host.memory[0] ^= 1;
    assert_int_equal(side_io(&s, NVMF_COMPARE, 3, FUA, 0, BLOCK), NVMF_COMPARE_FAILED | DNR);
    assert_string_equal(asked, "r");
}

static void zeroes__and_deallocated__read_as_zero_and_no_more(void **state)
{
    static const uint32_t flags[] = {0, FUA, 0x02000000, 0x02000000 | FUA};
    uint8_t *ranges = s.host.memory + BACK;
    struct stat before, after;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        fill(0, 32 * BLOCK, 5);
        assert_int_equal(side_io(&s, NVMF_WRITE, 0, 31, 0, 32 * BLOCK), NVMF_OK);
        assert_int_equal(side_io(&s, NVMF_WRITE_ZEROES, 3, 9 | flags[i], 0, 0), NVMF_OK);
        assert_int_equal(side_io(&s, NVMF_READ, 0, 31, BACK, 32 * BLOCK), NVMF_OK);
        memset(s.host.memory + 3 * BLOCK, 0, 10 * BLOCK);
        same(32 * BLOCK);
    }
    fill(0, 256 * BLOCK, 6);
    assert_int_equal(side_io(&s, NVMF_WRITE, 0, 255, 0, 256 * BLOCK), NVMF_OK);
    assert_int_equal(side_io(&s, NVMF_FLUSH, 0, 0, 0, 0), NVMF_OK);
    side_must(!s.file[0] || stat(s.file, &before) == 0, "stat");
    memset(ranges, 0, 48);
    nvmf_put32(ranges + 4, 100);
    nvmf_put64(ranges + 8, 10);
    nvmf_put32(ranges + 16 + 4, 0); /* one of no blocks */
    nvmf_put32(ranges + 32 + 4, 1);
    nvmf_put64(ranges + 32 + 8, 200);
    uint8_t command[NVMF_COMMAND_LEN];
    side_put_io(&s, command, NVMF_DATASET, 0, 0, BACK, 48);
    nvmf_put32(command + 40, 2);
    assert_int_equal(nvmf_host_do(s.io, command, NULL, 0, NULL), NVMF_OK); /* but not asked for */
    nvmf_put32(command + 44, 4);
    assert_int_equal(nvmf_host_do(s.io, command, NULL, 0, NULL), NVMF_OK);
    assert_int_equal(side_io(&s, NVMF_READ, 0, 255, BACK, 256 * BLOCK), NVMF_OK);
    memset(s.host.memory + 10 * BLOCK, 0, 100 * BLOCK);
    memset(s.host.memory + 200 * BLOCK, 0, BLOCK);
    same(256 * BLOCK);
    if (s.file[0]) {
        side_must(stat(s.file, &after) == 0, "stat");
        assert_true(after.st_blocks < before.st_blocks);
        assert_int_equal(after.st_size, DISK);
    }
    nvmf_put32(command + 40, 3); /* four ranges in the octets of three */
    assert_int_equal(nvmf_host_do(s.io, command, NULL, 0, NULL), NVMF_SGL_LENGTH | DNR);
}

static void ranges__beyond_the_end_or_of_wrong_length__are_refused(void **state)
{
    (void)state;
    assert_int_equal(side_io(&s, NVMF_READ, 1024, 0, 0, BLOCK), NVMF_LBA_RANGE | DNR);
    assert_int_equal(side_io(&s, NVMF_READ, 1023, 1, 0, 2 * BLOCK), NVMF_LBA_RANGE | DNR);
    assert_int_equal(side_io(&s, NVMF_WRITE, UINT64_MAX, 0, 0, BLOCK), NVMF_LBA_RANGE | DNR);
    assert_int_equal(side_io(&s, NVMF_WRITE_ZEROES, 1000, 24, 0, 0), NVMF_LBA_RANGE | DNR);
    assert_int_equal(side_io(&s, NVMF_VERIFY, UINT64_MAX - 3, 5, 0, 0), NVMF_LBA_RANGE | DNR);
    assert_int_equal(side_io(&s, NVMF_READ, 0, 256, 0, 257 * BLOCK), NVMF_INVALID_FIELD | DNR);
    assert_int_equal(side_io(&s, NVMF_READ, 0, 1, 0, BLOCK), NVMF_SGL_LENGTH | DNR);
    assert_int_equal(side_io(&s, NVMF_WRITE, 0, 0, 0, 2 * BLOCK), NVMF_SGL_LENGTH | DNR);
    assert_int_equal(side_io(&s, NVMF_WRITE, 0, 0, 0, 0), NVMF_SGL_LENGTH | DNR);
    for (unsigned opcode = 0; opcode < 0x7f; opcode++) {
        /* Reservations, Write Uncorrectable, Copy, and whatever there is. */
        bool known = opcode <= 2 || opcode == 5 || opcode == 8 || opcode == 9 || opcode == 0x0c;
        if (!known) {
            assert_int_equal(side_io(&s, (uint8_t)opcode, 0, 0, 0, BLOCK),
                             NVMF_INVALID_OPCODE | DNR);
        }
    }
}

static void namespace__missing_read_only_or_removed__has_its_status(void **state)
{
    uint8_t command[NVMF_COMMAND_LEN];

    (void)state;
    side_disk(&s, "ram:1M", true);
    side_put_io(&s, command, NVMF_READ, 0, 0, 0, BLOCK);
    nvmf_put32(command + 4, 2);
    assert_int_equal(nvmf_host_do(s.io, command, NULL, 0, NULL), NVMF_OK);
    for (size_t i = 0; i < 3; i++) {
        command[0] = (uint8_t[]){NVMF_WRITE, NVMF_WRITE_ZEROES, NVMF_DATASET}[i];
        assert_int_equal(nvmf_host_do(s.io, command, NULL, 0, NULL), NVMF_WRITE_PROTECTED | DNR);
    }
    command[0] = NVMF_FLUSH;
    nvmf_put32(command + 4, NVMF_NSID_ALL);
    assert_int_equal(nvmf_host_do(s.io, command, NULL, 0, NULL), NVMF_OK);
    nvmf_put32(command + 4, 3);
    assert_int_equal(nvmf_host_do(s.io, command, NULL, 0, NULL), NVMF_INVALID_NAMESPACE | DNR);
    nvmf_namespace_remove(&s.target.store, nvmf_namespace_find(s.subsystem, 1));
    assert_int_equal(side_io(&s, NVMF_READ, 0, 0, 0, BLOCK), NVMF_INVALID_NAMESPACE | DNR);
}

/* Many commands at once, and the namespace goes away between them: each has an answer. */
static unsigned answered, gone;

static void on_answer(struct nvmf_host_slot *slot)
{
    answered++;
    if (slot->response.status == (NVMF_INVALID_NAMESPACE | DNR)) {
        gone++;
    } else {
        assert_int_equal(slot->response.status, NVMF_OK);
    }
}

static void namespace__removed_under_load__answers_every_command(void **state)
{
    uint8_t command[NVMF_COMMAND_LEN];
    unsigned sent = 32;

    (void)state;
    answered = gone = 0;
    for (unsigned i = 0; i < 32; i++) {
        side_put_io(&s, command, i % 2 ? NVMF_WRITE : NVMF_READ, i * 16, 15, i * 16 * BLOCK,
                    16 * BLOCK);
        assert_non_null(nvmf_host_send(s.io, command, NULL, 0, on_answer, NULL));
    }
    for (unsigned i = 0; i < 10000000 && answered < 4; i++) {
        nvmf_host_turn(&s.host);
        uv_run(&s.loop, UV_RUN_NOWAIT);
    }
    nvmf_namespace_remove(&s.target.store, nvmf_namespace_find(s.subsystem, 1));
    for (unsigned i = 0; i < 32; i++) {
        side_put_io(&s, command, NVMF_READ, 0, 0, 0, BLOCK);
        sent += nvmf_host_send(s.io, command, NULL, 0, on_answer, NULL) != NULL; /* free slots */
    }
    for (unsigned i = 0; i < 1000 && answered < sent; i++) {
        side_run(&s, s.io, 20);
    }
    assert_false(s.io->ended);
    assert_int_equal(answered, sent);
    assert_true(sent >= 36 && gone >= 4);
    assert_int_equal(s.target.net.arena.used, 0);
}

/* 32 commands of 1 MiB share 4 MiB of buffers. */
static void load__more_than_the_buffers_hold__waits_and_is_done(void **state)
{
    uint8_t command[NVMF_COMMAND_LEN];
    size_t most = 0;

    (void)state;
    answered = gone = 0;
    for (unsigned i = 0; i < 32; i++) {
        side_put_io(&s, command, i % 2 ? NVMF_WRITE : NVMF_READ, 0, 255, (i % 8) << 20, 1 << 20);
        assert_non_null(nvmf_host_send(s.io, command, NULL, 0, on_answer, NULL));
    }
    for (unsigned i = 0; i < 100000 && answered < 32; i++) {
        nvmf_host_turn(&s.host);
        uv_run(&s.loop, UV_RUN_NOWAIT);
        most = s.target.net.arena.waiting > most ? s.target.net.arena.waiting : most;
    }
    for (unsigned i = 0; i < 1000 && answered < 32; i++) {
        side_run(&s, s.io, 20);
    }
    assert_int_equal(answered, 32);
    assert_int_equal(gone, 0);
    assert_true(most > 0);
    side_run(&s, NULL, 50);
    assert_int_equal(s.target.net.arena.used, 0);
    assert_int_equal(s.target.net.arena.waiting, 0);
}

static void disk__shorter_full_or_gone__is_an_error_of_that_command(void **state)
{
    struct rlimit old, small = {2 << 20, RLIM_INFINITY};

    (void)state;
    side_must(truncate(s.file, 2 << 20) == 0, "truncate");
    assert_int_equal(side_io(&s, NVMF_READ, 600, 7, 0, 8 * BLOCK), NVMF_READ_ERROR | DNR);
    assert_int_equal(side_io(&s, NVMF_READ, 500, 15, 0, 16 * BLOCK), NVMF_READ_ERROR | DNR);
    assert_int_equal(side_io(&s, NVMF_READ, 0, 7, 0, 8 * BLOCK), NVMF_OK);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small.rlim_max = old.rlim_max;
    setrlimit(RLIMIT_FSIZE, &small);
    assert_int_equal(side_io(&s, NVMF_WRITE, 600, 7, 0, 8 * BLOCK), NVMF_CAPACITY | DNR);
    assert_int_equal(side_io(&s, NVMF_WRITE, 0, 7, 0, 8 * BLOCK), NVMF_OK);
    setrlimit(RLIMIT_FSIZE, &old);
    /* For the SMART log: the two reads. No room is no fault of the medium. */
    assert_int_equal(s.target.controllers.first->media_errors, 2);
    nvmf_store_look(&s.target.store);
    assert_int_equal(nvmf_namespace_find(s.subsystem, 1)->blocks, 512);
    assert_int_equal(side_io(&s, NVMF_READ, 600, 7, 0, 8 * BLOCK), NVMF_LBA_RANGE | DNR);
    unlink(s.file);
    nvmf_store_look(&s.target.store);
    assert_null(nvmf_namespace_find(s.subsystem, 1));
    assert_int_equal(side_io(&s, NVMF_READ, 0, 7, 0, 8 * BLOCK), NVMF_INVALID_NAMESPACE | DNR);
}

static void verify__of_memory__reads_nothing(void **state)
{
    struct arena_share all = {0};
    struct nvmf_host_slot *slot;
    uint8_t command[NVMF_COMMAND_LEN];
    void *pieces[2];

    (void)state;
    for (unsigned i = 0; i < 2; i++) { /* no buffer is left to read into */
        pieces[i] = arena_take(&s.target.net.arena, &all, ARENA_LARGEST);
    }
    side_put_io(&s, command, NVMF_VERIFY, 0, 1023, 0, 0);
    slot = nvmf_host_send(s.io, command, NULL, 0, NULL, NULL);
    side_run(&s, NULL, 300);
    for (unsigned i = 0; i < 2; i++) {
        arena_give(&s.target.net.arena, &all, pieces[i]);
    }
    assert_false(slot->busy);
    assert_int_equal(slot->response.status, NVMF_OK);
    assert_int_equal(side_io(&s, NVMF_VERIFY, 1, 1023, 0, 0), NVMF_LBA_RANGE | DNR);
}

/* Its data come when another namespace has the number: that one is not what the host meant. */
static void write__to_a_namespace_that_is_replaced__is_not_written(void **state)
{
    uint8_t command[NVMF_COMMAND_LEN];
    struct arena_share all = {0};
    void *pieces[2];
    struct nvmf_host_slot *slot;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        pieces[i] = arena_take(&s.target.net.arena, &all, ARENA_LARGEST);
    }
    fill(0, BLOCK, 3);
    side_put_io(&s, command, NVMF_WRITE, 5, 0, 0, BLOCK);
    slot = nvmf_host_send(s.io, command, NULL, 0, NULL, NULL);
    side_run(&s, NULL, 100);
    assert_int_equal(s.target.net.arena.waiting, 1);
    nvmf_namespace_remove(&s.target.store, nvmf_namespace_find(s.subsystem, 1));
    assert_int_equal(side_disk(&s, "ram:4M", false)->nsid, 1);
    for (unsigned i = 0; i < 2; i++) {
        arena_give(&s.target.net.arena, &all, pieces[i]);
    }
    for (unsigned i = 0; i < 100 && slot->busy; i++) {
        side_run(&s, NULL, 20);
    }
    assert_false(slot->busy);
    assert_int_equal(slot->response.status, NVMF_INVALID_NAMESPACE | DNR);
    assert_int_equal(side_io(&s, NVMF_READ, 5, 0, BACK, BLOCK), NVMF_OK);
    for (size_t i = 0; i < BLOCK; i++) {
        assert_int_equal(s.host.memory[BACK + i], 0);
    }
}

#define WITH(name, way) {#name " (" #way ")", name, with_##way, tear_down, NULL}
#define FILES(name)     WITH(name, uring), WITH(name, threads)
#define ALL(name)       FILES(name), WITH(name, memory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ALL(write__then_read__is_the_same),
        ALL(write__in_capsule__is_written),
        ALL(write__in_capsule_at_an_offset__is_written),
        ALL(compare__equal_or_not__says_so),
        FILES(fua__of_reads__flushes_what_was_read),
        ALL(zeroes__and_deallocated__read_as_zero_and_no_more),
        WITH(ranges__beyond_the_end_or_of_wrong_length__are_refused, memory),
        ALL(namespace__missing_read_only_or_removed__has_its_status),
        ALL(namespace__removed_under_load__answers_every_command),
        ALL(load__more_than_the_buffers_hold__waits_and_is_done),
        WITH(verify__of_memory__reads_nothing, memory),
        WITH(write__to_a_namespace_that_is_replaced__is_not_written, memory),
        FILES(disk__shorter_full_or_gone__is_an_error_of_that_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
