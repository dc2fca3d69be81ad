/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Disks: what becomes of operations on memory, and on files by each engine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "programs/disks/disk.h"
#include "programs/disks/engine.h"
#include "support/child.h"

#define BLOCK  4096
#define BLOCKS 64

/* By what: each test runs once with each. */
struct place {
    const char *name; /* NULL: a file */
    bool uring;
};
static struct place memory = {"ram:256K", true}, ring = {NULL, true}, threads = {NULL, false};

struct bed {
    uv_loop_t loop;
    struct disk_engine *engine;
    struct disk *disk;
    uint8_t *buffers; /* two blocks, registered with the engine */
    char file[64];
};

static struct bed bed;
static const char *folder; /* of its file; NULL: TMPDIR */

static void open_bed(const struct place *place)
{
    const char *tmp = folder ? folder : getenv("TMPDIR"), *why = "";
    int fd;

    uv_loop_init(&bed.loop);
    bed.buffers = aligned_alloc(BLOCK, 2 * (size_t)BLOCK);
    bed.engine = disk_engine_open(&bed.loop, bed.buffers, 2 * (size_t)BLOCK, place->uring);
    assert_true(bed.buffers && bed.engine);
    snprintf(bed.file, sizeof bed.file, "%.40s/disk-XXXXXX", tmp ? tmp : "/tmp");
    fd = mkstemp(bed.file);
    assert_true(fd >= 0 && ftruncate(fd, BLOCKS * BLOCK + 100) == 0);
    close(fd);
    bed.disk = disk_open(bed.engine, place->name ? place->name : bed.file, false, BLOCK, &why);
    assert_string_equal(why ? why : "", "");
    assert_non_null(bed.disk);
    assert_int_equal(disk_blocks(bed.disk),
                     BLOCKS); /* what is left of the last one does not count */
}

static void close_bed(void)
{
    disk_close(bed.disk);
    bed.engine->close(bed.engine);
    uv_run(&bed.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&bed.loop), 0);
    unlink(bed.file);
    free(bed.buffers);
}

static void on_done(struct disk_io *io)
{
    io->done = NULL;
}

/* Do it, and wait. Returns its error. */
static int do_io(enum disk_op op, uint64_t offset, uint8_t *data, uint64_t len, bool through)
{
    struct disk_io io = {
        .op = op, .through = through, .offset = offset, .len = len, .data = data, .done = on_done};

    disk_do(bed.disk, &io);
    while (io.done) {
        bed.engine->turn(bed.engine);
        if (io.done) {
            uv_run(&bed.loop, UV_RUN_ONCE);
        }
    }
    assert_int_equal(bed.engine->under_way, 0);
    return io.error;
}

static bool reads_as(uint64_t block, uint8_t octet)
{
    uint8_t *at = bed.buffers + BLOCK;

    memset(at, 0x55, BLOCK);
    assert_int_equal(do_io(DISK_READ, block * BLOCK, at, BLOCK, false), 0);
    for (size_t i = 0; i < BLOCK; i++) {
        if (at[i] != octet) {
            return false;
        }
    }
    return true;
}

static void write_block(uint64_t block, uint8_t octet, bool through)
{
    memset(bed.buffers, octet, BLOCK);
    assert_int_equal(do_io(DISK_WRITE, block * BLOCK, bed.buffers, BLOCK, through), 0);
}

static void write__block__is_read_back_and_nothing_beside_it(void **state)
{
    open_bed(*state);
    write_block(7, 0xa7, false);
    write_block(BLOCKS - 1, 0xa8, true);
    assert_int_equal(do_io(DISK_FLUSH, 0, NULL, 0, false), 0);
    assert_true(reads_as(6, 0) && reads_as(7, 0xa7) && reads_as(8, 0));
    assert_true(reads_as(BLOCKS - 1, 0xa8));
    close_bed();
}

static void zero_and_discard__blocks__read_as_0(void **state)
{
    static const enum disk_op ops[] = {DISK_ZERO, DISK_DISCARD};

    open_bed(*state);
    for (size_t i = 0; i < 2; i++) {
        int error;
        for (uint64_t block = 0; block < 5; block++) {
            write_block(block, 0xee, false);
        }
        error = do_io(ops[i], BLOCK, NULL, 3 * (uint64_t)BLOCK, false);
        /* Not each file system can: then it says so, and nothing has changed. */
        assert_true(error == 0 || error == EOPNOTSUPP);
        assert_true(reads_as(0, 0xee) && reads_as(4, 0xee));
        for (uint64_t block = 1; block < 4; block++) {
            assert_true(reads_as(block, error ? 0xee : 0));
        }
    }
    close_bed();
}

/* A disk in memory gives back whole pages of it; what lies beside them is overwritten. */
static void zero__from_within_a_page__reads_as_0_and_nothing_beside_it(void **state)
{
    const uint64_t from = 512, len = 3 * BLOCK + 700;

    open_bed(*state);
    for (uint64_t block = 0; block < 5; block++) {
        write_block(block, 0xee, false);
    }
    assert_int_equal(do_io(DISK_ZERO, from, NULL, len, false), 0);
    for (uint64_t block = 0; block < 5; block++) {
        assert_int_equal(do_io(DISK_READ, block * BLOCK, bed.buffers, BLOCK, false), 0);
        for (uint64_t i = 0; i < BLOCK; i++) {
            uint64_t at = block * BLOCK + i;
            assert_int_equal(bed.buffers[i], at < from || at >= from + len ? 0xee : 0);
        }
    }
    close_bed();
}

static void read__behind_what_is_left_of_a_file__is_an_error(void **state)
{
    open_bed(*state);
    assert_int_equal(truncate(bed.file, 2 * BLOCK), 0);
    assert_true(reads_as(1, 0));
    assert_int_equal(do_io(DISK_READ, 2 * BLOCK, bed.buffers, BLOCK, false), EIO);
    assert_null(disk_look(bed.disk));
    assert_int_equal(disk_blocks(bed.disk), 2);
    assert_int_equal(truncate(bed.file, 10), 0);
    assert_non_null(disk_look(bed.disk));
    unlink(bed.file);
    assert_string_equal(disk_look(bed.disk), "the file was removed");
    close_bed();
}

/* Memory that the engine does not know is used like any other. */
static void read__into_memory_that_is_not_registered__is_the_same(void **state)
{
    uint8_t *other = aligned_alloc(BLOCK, BLOCK);

    open_bed(*state);
    write_block(3, 0x33, false);
    assert_non_null(other);
    assert_int_equal(do_io(DISK_READ, 3 * BLOCK, other, BLOCK, false), 0);
    assert_memory_equal(other, bed.buffers, BLOCK);
    close_bed();
    free(other);
}

static void open__what_is_no_disk__says_why(void **state)
{
    static const char *const names[] = {
        "/nothing/there", "/dev/null", "/", "ram:", "ram:0", "ram:-1", "ram:5X", "ram:1K"};
    const char *why;

    open_bed(*state);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        why = NULL;
        assert_null(disk_open(bed.engine, names[i], false, BLOCK, &why));
        assert_non_null(why);
    }
    close_bed();
}

static void write__small_to_a_file_in_memory__is_done_at_once(void **state)
{
    struct disk_io io = {.op = DISK_WRITE, .offset = BLOCK, .len = BLOCK, .done = on_done};

    folder = "/dev/shm";
    open_bed(*state);
    folder = NULL;
    memset(bed.buffers, 0x37, BLOCK);
    io.data = bed.buffers;
    disk_do(bed.disk, &io);
    assert_null(io.done); /* and the loop has not turned */
    assert_int_equal(io.error, 0);
    assert_true(reads_as(1, 0x37));
    assert_true(reads_as(0, 0));
    assert_true(reads_as(2, 0));
    close_bed();
}

/* Else io_uring refuses for ever what a disk cannot begin without waiting. The guest has such disks
 * (make interop CELLS=nvmf-power). */
static void open__file__may_be_waited_for(void **state)
{
    open_bed(*state);
    assert_int_equal(fcntl(disk_fd(bed.disk), F_GETFL) & O_NONBLOCK, 0);
    close_bed();
}

static void open__file_that_has_its_lock__is_refused(void **state)
{
    const char *why = NULL;

    open_bed(*state);
    assert_null(disk_open(bed.engine, bed.file, false, BLOCK, &why));
    assert_null(disk_open(bed.engine, bed.file, true, BLOCK, &why));
    assert_non_null(strstr(why, "in use"));
    close_bed();
}

/* A ring can be made, but nothing be submitted: it is not used. */
static int open_without_submitting(void *arg)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_enter, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};

    (void)arg;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        return 1;
    }
    open_bed(&ring);
    bool threads_do_it = strcmp(bed.engine->name, "threads") == 0;
    close_bed();
    return threads_do_it ? 0 : 2;
}

static void open__where_no_entry_can_be_submitted__takes_threads(void **state)
{
    (void)state;
    if (getenv("TEST_EMULATED")) {
        skip();
    }
    assert_int_equal(child_run(open_without_submitting, NULL), 0);
}

#define BY(test, place) {#test " by " #place, test, NULL, NULL, &(place)}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BY(write__block__is_read_back_and_nothing_beside_it, memory),
        BY(write__block__is_read_back_and_nothing_beside_it, ring),
        BY(write__block__is_read_back_and_nothing_beside_it, threads),
        BY(zero_and_discard__blocks__read_as_0, memory),
        BY(zero_and_discard__blocks__read_as_0, ring),
        BY(zero_and_discard__blocks__read_as_0, threads),
        BY(zero__from_within_a_page__reads_as_0_and_nothing_beside_it, memory),
        BY(read__behind_what_is_left_of_a_file__is_an_error, ring),
        BY(read__behind_what_is_left_of_a_file__is_an_error, threads),
        BY(read__into_memory_that_is_not_registered__is_the_same, ring),
        BY(read__into_memory_that_is_not_registered__is_the_same, threads),
        BY(open__what_is_no_disk__says_why, ring),
        BY(write__small_to_a_file_in_memory__is_done_at_once, ring),
        BY(write__small_to_a_file_in_memory__is_done_at_once, threads),
        BY(open__file__may_be_waited_for, ring),
        BY(open__file_that_has_its_lock__is_refused, ring),
        cmocka_unit_test(open__where_no_entry_can_be_submitted__takes_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
