/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The source, and source and sink together: a tree that went through slots of any size is the same
 * tree, and what cannot be read is told without stopping the rest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "programs/cp/sink.h"
#include "programs/cp/source.h"
#include "scratch.h"

static struct cp_source source;
static struct cp_sink sink;
static uint8_t slot[70000];
static uint8_t octets[CP_MESSAGE_MAX];
static unsigned failed, skipped, done;

static void on_done(void *context, uint64_t sequence, const char *path, uint64_t size, bool is_dir,
                    struct cp_result result)
{
    (void)context;
    (void)sequence;
    (void)path;
    (void)size;
    (void)is_dir;
    failed += result.status != CP_OK;
    done += result.status == CP_OK;
}

static void on_skipped(void *context, const char *path, struct cp_result result)
{
    (void)context;
    (void)path;
    (void)result;
    skipped++;
}

static const struct cp_sink_events events = {NULL, on_done, on_skipped};

static void fill_pattern(uint8_t *buf, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++) {
        buf[i] = (uint8_t)((i * 2654435761u + seed) >> 13);
    }
}

/* A tree with files around the slot sizes below. */
static int setup(void **state)
{
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 8192, 50000, 12345};
    static uint8_t buf[50000];
    char name[64];

    failed = skipped = done = 0;
    if (scratch_setup(state) != 0) {
        return -1;
    }
    scratch_mkdir("from");
    scratch_mkdir("from/sub");
    scratch_mkdir("from/sub/empty");
    scratch_mkdir("to");
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        snprintf(name, sizeof name, "from/%sfile-%u", i % 2 ? "sub/" : "", i);
        fill_pattern(buf, sizes[i], i);
        scratch_write(name, buf, sizes[i]);
    }
    scratch_write("from/ -odd\n\xff name", "x", 1);
    return symlinkat("file-0", scratch_fd, "from/link");
}

static void begin(const struct cp_source_options *options, struct cp_top *top)
{
    top->fd = openat(scratch_fd, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    top->path = "from";
    top->name = "copy";
    cp_source_begin(&source, top, 1, options, NULL);
    cp_sink_begin(&sink, openat(scratch_fd, "to", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "", "",
                  &events);
    sink.checksum = options->checksum;
}

/* Move everything, records_len octets of records and slot_size of data at a time. */
static unsigned move_all(size_t slot_size, size_t records_len)
{
    unsigned batches = 0;
    bool more;

    do {
        uint32_t data_len;
        struct cp_writer writer = {octets, records_len, false};
        more = cp_source_fill(&source, slot, slot_size, &writer, &data_len);
        assert_false(writer.full);
        assert_true(data_len <= slot_size);
        struct cp_reader reader = {octets, records_len - writer.left, false};
        assert_true(cp_sink_take(&sink, &reader, slot, data_len));
        batches++;
    } while (more);
    assert_true(cp_sink_complete(&sink));
    return batches;
}

static void expect_same_tree(void)
{
    char command[3 * 4200];

    snprintf(command, sizeof command,
             "cd '%s' && diff -r -x link from to/copy && "
             "(cd from && find . ! -name link -printf '%%P %%m %%T@ %%y\\n' | sort) >list && "
             "(cd to/copy && find . -printf '%%P %%m %%T@ %%y\\n' | sort) | cmp - list",
             scratch_path);
    assert_int_equal(system(command), 0);
}

static void finish(void)
{
    cp_source_end(&source);
    cp_sink_end(&sink);
}

static void tree__any_slot_size__is_the_same_tree(void **state)
{
    static const size_t sizes[] = {1, 100, 4096, 65536};
    struct cp_source_options options = {.recursive = true, .checksum = true};
    struct cp_top top;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        begin(&options, &top);
        unsigned batches = move_all(sizes[i], sizeof octets);
        assert_true(sizes[i] < 65536 || batches <= 3);
        finish();
        assert_int_equal(failed, 0);
        assert_int_equal(skipped, 1);
        expect_same_tree();
        scratch_teardown(state);
        setup(state);
    }
}

static void tree__little_room_for_records__is_the_same_tree(void **state)
{
    struct cp_source_options options = {.recursive = true};
    struct cp_top top;

    (void)state;
    begin(&options, &top);
    assert_true(move_all(65536, CP_RECORD_MAX + 20) > 10);
    finish();
    assert_int_equal(failed, 0);
    expect_same_tree();
}

/* Ten files with the link, and the beginning and the end of three directories. */
static void tree__sync__is_one_entry_in_a_slot(void **state)
{
    struct cp_source_options options = {.recursive = true, .sync = true};
    struct cp_top top;

    (void)state;
    begin(&options, &top);
    assert_true(move_all(65536, sizeof octets) >= 16);
    finish();
    assert_int_equal(failed, 0);
    expect_same_tree();
}

/* However small: the sink says nothing before it has carried out a slot. */
static void tree__many_files__has_few_in_a_slot(void **state)
{
    struct cp_source_options options = {.recursive = true};
    struct cp_top top;
    char name[32];

    (void)state;
    for (unsigned i = 0; i < 3 * CP_SLOT_ENTRIES; i++) {
        snprintf(name, sizeof name, "from/sub/%u", i);
        scratch_write(name, "", 0);
    }
    begin(&options, &top);
    assert_true(move_all(65536, sizeof octets) > 3);
    finish();
    assert_int_equal(failed, 0);
    expect_same_tree();
}

static void file__became_shorter__is_aborted_and_the_rest_goes_on(void **state)
{
    struct cp_source_options options = {.recursive = true};
    struct cp_top top;
    uint32_t data_len;
    struct stat st;

    (void)state;
    begin(&options, &top);
    /* So far that file-6, the one of 50000 octets, has begun. */
    while (source.fd < 0 || source.size != 50000) {
        struct cp_writer writer = {octets, CP_RECORD_MAX + 20, false};
        assert_true(cp_source_fill(&source, slot, 4000, &writer, &data_len));
        struct cp_reader reader = {octets, CP_RECORD_MAX + 20 - writer.left, false};
        assert_true(cp_sink_take(&sink, &reader, slot, data_len));
    }
    int fd = openat(scratch_fd, "from/file-6", O_WRONLY);
    assert_int_equal(ftruncate(fd, 100), 0);
    close(fd);
    move_all(4000, sizeof octets);
    finish();
    assert_int_equal(failed, 1);
    assert_int_equal(fstatat(scratch_fd, "to/copy/file-6", &st, 0), -1);
    assert_int_equal(fstatat(scratch_fd, "to/copy/sub/file-7", &st, 0), 0);
}

static void directory__without_recursive__is_skipped(void **state)
{
    struct cp_source_options options = {0};
    struct cp_top top;

    (void)state;
    begin(&options, &top);
    assert_int_equal(move_all(4096, sizeof octets), 1);
    finish();
    assert_int_equal(skipped, 1);
    assert_int_equal(scratch_count("to"), 0);
}

static void drop__current_file__aborts_only_it(void **state)
{
    struct cp_source_options options = {.recursive = true};
    struct cp_top top;
    uint32_t data_len;

    (void)state;
    begin(&options, &top);
    while (source.fd < 0 || source.size != 50000) {
        struct cp_writer writer = {octets, CP_RECORD_MAX + 20, false};
        assert_true(cp_source_fill(&source, slot, 4000, &writer, &data_len));
        struct cp_reader reader = {octets, CP_RECORD_MAX + 20 - writer.left, false};
        assert_true(cp_sink_take(&sink, &reader, slot, data_len));
    }
    cp_source_drop(&source, source.sequence - 2); /* an earlier one: nothing happens */
    assert_false(source.dropped);
    cp_source_drop(&source, source.sequence - 1);
    move_all(4000, sizeof octets);
    finish();
    assert_int_equal(failed, 1);
    assert_int_equal(done, 11);
}

static void count__is_what_is_sent(void **state)
{
    struct cp_totals totals = {0};
    int fd = openat(scratch_fd, "from", O_RDONLY | O_DIRECTORY);

    (void)state;
    assert_true(cp_source_count(fd, true, INT64_MAX, &totals));
    close(fd);
    assert_int_equal(totals.files, 9);
    assert_int_equal(totals.bytes, 0 + 1 + 4095 + 4096 + 4097 + 8192 + 50000 + 12345 + 1);
}

/* Not even opened: somebody who waits to write to it would take that for a reader. */
static void top_is_a_fifo__is_told_and_not_opened(void **state)
{
    struct cp_source_options options = {.recursive = true};
    char path[4200];
    struct cp_top top = {-1, path, "pipe"};
    struct cp_writer writer = {octets, sizeof octets, false};
    struct cp_record record = {0};
    uint32_t data_len;

    (void)state;
    snprintf(path, sizeof path, "%s/pipe", scratch_path);
    assert_int_equal(mkfifo(path, 0600), 0);
    int notify = inotify_init1(IN_NONBLOCK);
    assert_true(inotify_add_watch(notify, path, IN_OPEN) >= 0);
    cp_source_begin(&source, &top, 1, &options, NULL);
    assert_false(cp_source_fill(&source, slot, sizeof slot, &writer, &data_len));
    cp_source_end(&source);
    struct cp_reader reader = {octets, sizeof octets - writer.left, false};
    assert_int_equal(cp_record_read(&reader, &record), 1);
    assert_int_equal(record.type, CP_RECORD_SKIP);
    assert_int_equal(record.result.status, CP_IS_FIFO);
    assert_int_equal(cp_record_read(&reader, &record), 0);
    assert_int_equal(read(notify, octets, sizeof octets), -1);
    close(notify);
}

static void count__time_is_up__is_not_known(void **state)
{
    struct cp_totals totals = {3, 5}; /* of what was counted before */
    int fd = openat(scratch_fd, "from", O_RDONLY | O_DIRECTORY);

    (void)state;
    assert_false(cp_source_count(fd, true, 0, &totals));
    close(fd);
    assert_int_equal(totals.files, 0);
    assert_int_equal(totals.bytes, 0);
}

int main(void)
{
#define WITH_TREE(test) cmocka_unit_test_setup_teardown(test, setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        WITH_TREE(tree__any_slot_size__is_the_same_tree),
        WITH_TREE(tree__little_room_for_records__is_the_same_tree),
        WITH_TREE(tree__sync__is_one_entry_in_a_slot),
        WITH_TREE(tree__many_files__has_few_in_a_slot),
        WITH_TREE(file__became_shorter__is_aborted_and_the_rest_goes_on),
        WITH_TREE(directory__without_recursive__is_skipped),
        WITH_TREE(drop__current_file__aborts_only_it),
        WITH_TREE(top_is_a_fifo__is_told_and_not_opened),
        WITH_TREE(count__is_what_is_sent),
        WITH_TREE(count__time_is_up__is_not_known),
    };

    return cmocka_run_group_tests_name("cp_source", tests, NULL, NULL);
}
