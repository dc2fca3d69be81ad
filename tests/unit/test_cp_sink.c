/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sink against records that no honest source writes, and against a disk that refuses: nothing
 * outside its directory is touched, nothing incomplete appears, and every entry is told of once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "programs/cp/sink.h"
#include "scratch.h"

static struct cp_sink sink;
static uint8_t octets[8192];
static struct cp_writer writer;
static char told[512]; /* "sequence:path:status " for each entry */

static void on_done(void *context, uint64_t sequence, const char *path, uint64_t size, bool is_dir,
                    struct cp_result result)
{
    size_t used = strlen(told);

    (void)context;
    (void)size;
    (void)is_dir;
    snprintf(told + used, sizeof told - used, "%d:%s:%d ", (int)sequence, path, result.status);
}

static const struct cp_sink_events events = {NULL, on_done, NULL};

/* The sink works in "in". */
static int setup(void **state)
{
    if (scratch_setup(state) != 0) {
        return -1;
    }
    scratch_mkdir("in");
    scratch_mkdir("out");
    told[0] = '\0';
    writer = (struct cp_writer){octets, sizeof octets, false};
    int dir = openat(scratch_fd, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return !cp_sink_begin(&sink, dir, "", "", &events);
}

static int teardown(void **state)
{
    cp_sink_end(&sink);
    return scratch_teardown(state);
}

static void add(enum cp_record_type type, const char *name, uint64_t number)
{
    struct cp_record record = {
        .type = type, .mode = 0750, .size = number, .data_len = (uint32_t)number};

    snprintf(record.name, sizeof record.name, "%s", name);
    record.result = cp_result_of(CP_IO);
    cp_record_write(&writer, &record);
}

/* Let the sink take what was added since the last time. */
static bool take(const char *data)
{
    struct cp_reader reader = {octets, sizeof octets - writer.left, false};

    assert_false(writer.full);
    writer = (struct cp_writer){octets, sizeof octets, false};
    return cp_sink_take(&sink, &reader, (const uint8_t *)data, strlen(data));
}

static void files_and_directories__appear(void **state)
{
    char buf[16];
    struct stat st;

    (void)state;
    add(CP_RECORD_DIRECTORY, "d", 0);
    add(CP_RECORD_FILE, "f", 5);
    add(CP_RECORD_DATA, "", 2);
    assert_true(take("he"));
    assert_false(cp_sink_complete(&sink));
    assert_int_equal(scratch_count("in/d"), 0);
    add(CP_RECORD_DATA, "", 3);
    add(CP_RECORD_END, "", 0);
    add(CP_RECORD_FILE, "empty", 0);
    add(CP_RECORD_END, "", 0);
    add(CP_RECORD_LEAVE, "", 0);
    assert_true(take("llo"));
    assert_true(cp_sink_complete(&sink));
    assert_int_equal(scratch_read("in/d/f", buf, sizeof buf), 5);
    assert_memory_equal(buf, "hello", 5);
    assert_int_equal(scratch_read("in/d/empty", buf, sizeof buf), 0);
    assert_int_equal(fstatat(scratch_fd, "in/d", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0750);
    assert_string_equal(told, "0:d:0 1:d/f:0 2:d/empty:0 ");
}

/* Each is a list of records (F file of 2, D data of 2, E end, A abort, d directory, L leave). */
static void wrong_order__is_refused(void **state)
{
    static const struct {
        const char *records, *data;
    } cases[] = {
        {"D", "xx"},    {"E", ""},    {"A", ""},   {"L", ""},        {"FF", ""},
        {"Fd", ""},     {"FL", ""},   {"FE", ""},  {"FDDE", "xxxx"}, {"FDED", "xxxx"},
        {"FDE", "xxx"}, {"FDE", "x"}, {"dLL", ""}, {"FS", ""},       {"FDEE", "xx"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (const char *at = cases[i].records; *at; at++) {
            add(*at == 'F'   ? CP_RECORD_FILE
                : *at == 'D' ? CP_RECORD_DATA
                : *at == 'E' ? CP_RECORD_END
                : *at == 'A' ? CP_RECORD_ABORT
                : *at == 'd' ? CP_RECORD_DIRECTORY
                : *at == 'L' ? CP_RECORD_LEAVE
                             : CP_RECORD_SKIP,
                "n", 2);
        }
        assert_false(take(cases[i].data));
        cp_sink_end(&sink);
        int dir = openat(scratch_fd, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(cp_sink_begin(&sink, dir, "", "", &events));
    }
}

static void aborted_file__leaves_nothing_and_is_told(void **state)
{
    char expected[32];

    (void)state;
    add(CP_RECORD_FILE, "f", 9);
    add(CP_RECORD_DATA, "", 2);
    add(CP_RECORD_ABORT, "", 0);
    assert_true(take("he"));
    assert_int_equal(scratch_count("in"), 0);
    snprintf(expected, sizeof expected, "0:f:%d ", CP_IO);
    assert_string_equal(told, expected);
}

static void ended_in_the_middle__leaves_nothing(void **state)
{
    (void)state;
    add(CP_RECORD_FILE, "f", 9);
    add(CP_RECORD_DATA, "", 2);
    assert_true(take("he"));
    cp_sink_end(&sink);
    assert_int_equal(scratch_count("in"), 0);
    assert_string_equal(told, "");
    cp_sink_begin(&sink, dup(scratch_fd), "", "", &events);
}

/* A link in the exported directory, made by somebody else, leads out: it is not followed. */
static void directory_is_a_link__is_not_entered(void **state)
{
    char expected[64];

    (void)state;
    assert_int_equal(symlinkat("../out", scratch_fd, "in/d"), 0);
    add(CP_RECORD_DIRECTORY, "d", 0);
    add(CP_RECORD_DIRECTORY, "e", 0);
    add(CP_RECORD_LEAVE, "", 0);
    add(CP_RECORD_FILE, "f", 2);
    add(CP_RECORD_DATA, "", 2);
    add(CP_RECORD_END, "", 0);
    add(CP_RECORD_LEAVE, "", 0);
    add(CP_RECORD_FILE, "g", 0);
    add(CP_RECORD_END, "", 0);
    assert_true(take("xx"));
    snprintf(expected, sizeof expected, "0:d:%d 1:d/e:%d 2:d/f:%d 3:g:0 ", CP_NOT_DIRECTORY,
             CP_PARENT, CP_PARENT);
    assert_string_equal(told, expected);
    assert_int_equal(scratch_count("out"), 0);
    assert_int_equal(scratch_count("in"), 2);
}

static void file_over_directory__fails_alone(void **state)
{
    char expected[64];

    (void)state;
    scratch_mkdir("in/f");
    add(CP_RECORD_FILE, "f", 2);
    add(CP_RECORD_DATA, "", 2);
    add(CP_RECORD_END, "", 0);
    add(CP_RECORD_FILE, "g", 0);
    add(CP_RECORD_END, "", 0);
    assert_true(take("xx"));
    snprintf(expected, sizeof expected, "0:f:%d 1:g:0 ", CP_HAS_DIRECTORY);
    assert_string_equal(told, expected);
}

static void checksum__wrong_or_missing__fails_and_leaves_nothing(void **state)
{
    /* SHA-256 of "xx" */
    static const uint8_t right[CP_DIGEST_LEN] = {0x5d, 0xde, 0x89, 0x68, 0x87, 0xf6, 0x75, 0x4c,
                                                 0x9b, 0x15, 0xbf, 0xe3, 0xa4, 0x41, 0xae, 0x48,
                                                 0x06, 0xdf, 0x2f, 0xde, 0x94, 0x00, 0x13, 0x11,
                                                 0xe0, 0x8b, 0xf1, 0x10, 0x62, 0x2e, 0x0b, 0xbe};
    struct cp_record end = {.type = CP_RECORD_END, .digest_len = CP_DIGEST_LEN};
    char expected[64];

    (void)state;
    sink.checksum = true;
    memcpy(end.digest, right, sizeof right);
    for (int i = 0; i < 3; i++) {
        char name[2] = {(char)('a' + i), 0};
        add(CP_RECORD_FILE, name, 2);
        add(CP_RECORD_DATA, "", 2);
        end.digest[31] ^= i == 1;
        end.digest_len = i == 2 ? 0 : CP_DIGEST_LEN;
        cp_record_write(&writer, &end);
        assert_true(take("xx"));
    }
    snprintf(expected, sizeof expected, "0:a:0 1:b:%d 2:c:%d ", CP_CHECKSUM, CP_CHECKSUM);
    assert_string_equal(told, expected);
    assert_int_equal(scratch_count("in"), 1);
}

/* A limit on file size stands for a disk that is full in the middle. */
static void write_fails_in_the_middle__is_told_once_and_leaves_nothing(void **state)
{
    struct rlimit before, small;
    char expected[64];

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 3; i++) {
        if (i == 0) {
            add(CP_RECORD_FILE, "f", 6);
        }
        add(CP_RECORD_DATA, "", 2);
        if (i == 2) {
            add(CP_RECORD_END, "", 0);
        }
        assert_true(take("xx"));
    }
    setrlimit(RLIMIT_FSIZE, &before);
    snprintf(expected, sizeof expected, "0:f:%d ", CP_TOO_BIG);
    assert_string_equal(told, expected);
    assert_int_equal(scratch_count("in"), 0);
}

/* More than any disk holds: refused at the beginning, before data has come. */
static void announced_size_impossible__fails_at_once(void **state)
{
    (void)state;
    add(CP_RECORD_FILE, "f", INT64_MAX);
    assert_true(take(""));
    assert_string_not_equal(told, "");
    assert_int_equal(scratch_count("in"), 0);
}

static void top_name__replaces_the_first_component(void **state)
{
    (void)state;
    strcpy(sink.top_name, "x");
    add(CP_RECORD_DIRECTORY, "d", 0);
    add(CP_RECORD_FILE, "f", 0);
    add(CP_RECORD_END, "", 0);
    add(CP_RECORD_LEAVE, "", 0);
    assert_true(take(""));
    assert_int_equal(scratch_count("in/x"), 1);
    strcpy(sink.top_name, ".");
    add(CP_RECORD_DIRECTORY, "d", 0);
    add(CP_RECORD_FILE, "g", 0);
    add(CP_RECORD_END, "", 0);
    add(CP_RECORD_LEAVE, "", 0);
    assert_true(take(""));
    assert_int_equal(scratch_count("in"), 2);
}

/* What a client asked for is one thing, whatever the server sends. */
static void one_top__a_second_one__is_refused(void **state)
{
    (void)state;
    sink.one_top = true;
    add(CP_RECORD_DIRECTORY, "d", 0);
    for (int i = 0; i < 2; i++) {
        add(CP_RECORD_FILE, i == 0 ? "f" : "g", 0);
        add(CP_RECORD_END, "", 0);
    }
    add(CP_RECORD_LEAVE, "", 0);
    assert_true(take(""));
    add(CP_RECORD_FILE, "second", 0);
    assert_false(take(""));
    add(CP_RECORD_DIRECTORY, "e", 0);
    assert_false(take(""));
    assert_int_equal(scratch_count("in"), 1);
    assert_int_equal(scratch_count("in/d"), 2);
}

static void single__a_directory_or_a_second_file__is_refused(void **state)
{
    (void)state;
    sink.one_top = sink.single = true;
    add(CP_RECORD_DIRECTORY, "d", 0);
    assert_false(take(""));
    add(CP_RECORD_FILE, "f", 0);
    add(CP_RECORD_END, "", 0);
    assert_true(take(""));
    add(CP_RECORD_FILE, "g", 0);
    assert_false(take(""));
    assert_int_equal(scratch_count("in"), 1);
}

static void file_over_a_fifo__fails_and_leaves_it(void **state)
{
    char expected[64];
    struct stat st;

    (void)state;
    assert_int_equal(mkfifoat(scratch_fd, "in/f", 0600), 0);
    add(CP_RECORD_FILE, "f", 0);
    add(CP_RECORD_END, "", 0);
    assert_true(take(""));
    snprintf(expected, sizeof expected, "0:f:%d ", CP_IS_FIFO);
    assert_string_equal(told, expected);
    assert_int_equal(fstatat(scratch_fd, "in/f", &st, 0), 0);
    assert_true(S_ISFIFO(st.st_mode));
}

/* What the file system counts as free, and others are going to write, is nobody else's. */
static void room__promised_to_other_copies__is_not_there(void **state)
{
    struct cp_room room = {.lock = PTHREAD_MUTEX_INITIALIZER};
    int fd = open(scratch_path, O_RDONLY | O_DIRECTORY);
    struct cp_claim claim;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(cp_claim_begin(&claim, &room, fd, 1000).status, CP_OK);
    assert_int_equal(room.promised, 1000);
    cp_claim_written(&claim, 400);
    assert_int_equal(room.promised, 600);
    cp_claim_end(&claim);
    assert_int_equal(room.promised, 0);
    room.promised = UINT64_MAX;
    assert_int_equal(cp_claim_begin(&claim, &room, fd, 1000).status, CP_NO_SPACE);
    assert_int_equal(room.promised, UINT64_MAX);
    close(fd);
}

int main(void)
{
#define WITH_SINK(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_SINK(files_and_directories__appear),
        WITH_SINK(room__promised_to_other_copies__is_not_there),
        WITH_SINK(wrong_order__is_refused),
        WITH_SINK(aborted_file__leaves_nothing_and_is_told),
        WITH_SINK(ended_in_the_middle__leaves_nothing),
        WITH_SINK(directory_is_a_link__is_not_entered),
        WITH_SINK(file_over_directory__fails_alone),
        WITH_SINK(checksum__wrong_or_missing__fails_and_leaves_nothing),
        WITH_SINK(write_fails_in_the_middle__is_told_once_and_leaves_nothing),
        WITH_SINK(announced_size_impossible__fails_at_once),
        WITH_SINK(one_top__a_second_one__is_refused),
        WITH_SINK(single__a_directory_or_a_second_file__is_refused),
        WITH_SINK(file_over_a_fifo__fails_and_leaves_it),
        WITH_SINK(top_name__replaces_the_first_component),
    };

    return cmocka_run_group_tests_name("cp_sink", tests, NULL, NULL);
}
