/* SPDX-License-Identifier: BSD-2-Clause */
/* Walking a tree: order, what is told of and what is not, no link followed, no depth without end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "programs/cp/path.h"
#include "programs/cp/walk.h"
#include "scratch.h"

static struct cp_walk walk;

/* The items of a walk in one line: F file, D directory, L leave, S skipped (with its status). */
static void trace(bool shallow, char *line, size_t size)
{
    struct cp_item item;
    size_t used = 0;
    int fd = openat(scratch_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    line[0] = '\0';
    assert_int_equal(cp_walk_begin(&walk, fd, "top", shallow), 0);
    for (;;) {
        cp_walk_next(&walk, &item);
        if (item.type == CP_ITEM_END) {
            break;
        }
        if (item.type == CP_ITEM_LEAVE) {
            used += (size_t)snprintf(line + used, size - used, "L ");
        } else if (item.type == CP_ITEM_SKIP) {
            used += (size_t)snprintf(line + used, size - used, "S%d:%s ", item.result.status,
                                     item.path);
        } else {
            used += (size_t)snprintf(line + used, size - used, "%c:%s ",
                                     item.type == CP_ITEM_FILE ? 'F' : 'D', item.path);
        }
    }
    cp_walk_next(&walk, &item);
    assert_int_equal(item.type, CP_ITEM_END);
    cp_walk_end(&walk);
}

static void tree__is_told_in_order(void **state)
{
    char line[512], expected[512];

    (void)state;
    scratch_mkdir("b");
    scratch_mkdir("b/empty");
    scratch_write("b/z", "", 0);
    scratch_write("a", "", 0);
    scratch_write("c", "", 0);
    scratch_write(CP_TEMP_PREFIX "x", "", 0);
    assert_int_equal(symlinkat("/", scratch_fd, "link"), 0);
    assert_int_equal(mkfifoat(scratch_fd, "pipe", 0600), 0);
    trace(false, line, sizeof line);
    snprintf(expected, sizeof expected,
             "S%d:top/" CP_TEMP_PREFIX "x F:top/a D:top/b D:top/b/empty L F:top/b/z L F:top/c "
             "S%d:top/link S%d:top/pipe ",
             CP_RESERVED, CP_IS_LINK, CP_IS_FIFO);
    assert_string_equal(line, expected);
}

static void shallow__does_not_enter(void **state)
{
    char line[512];

    (void)state;
    scratch_mkdir("b");
    scratch_write("b/z", "", 0);
    scratch_write("c", "", 0);
    trace(true, line, sizeof line);
    assert_string_equal(line, "D:top/b L F:top/c ");
}

static void empty_directory__ends_at_once(void **state)
{
    char line[16];

    (void)state;
    trace(false, line, sizeof line);
    assert_string_equal(line, "");
}

static void deeper_than_the_limit__is_skipped_with_a_reason(void **state)
{
    struct cp_item item;
    unsigned directories = 0, too_deep = 0;
    int at = dup(scratch_fd);

    (void)state;
    for (int i = 0; i < CP_DEPTH_MAX + 5; i++) {
        assert_int_equal(mkdirat(at, "d", 0700), 0);
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY);
        close(at);
        at = next;
    }
    close(at);
    at = openat(scratch_fd, ".", O_RDONLY | O_DIRECTORY);
    assert_int_equal(cp_walk_begin(&walk, at, "", false), 0);
    do {
        cp_walk_next(&walk, &item);
        directories += item.type == CP_ITEM_DIRECTORY;
        too_deep += item.type == CP_ITEM_SKIP && item.result.status == CP_TOO_DEEP;
    } while (item.type != CP_ITEM_END);
    cp_walk_end(&walk);
    assert_int_equal(directories, CP_DEPTH_MAX - 1);
    assert_int_equal(too_deep, 1);
}

static void unreadable_directory__is_skipped_with_a_reason(void **state)
{
    char line[64], expected[64];

    (void)state;
    if (geteuid() == 0) {
        /* root may read it: it is made unreadable by not being there any more. */
        struct cp_item item;
        scratch_mkdir("gone");
        int fd = openat(scratch_fd, ".", O_RDONLY | O_DIRECTORY);
        assert_int_equal(cp_walk_begin(&walk, fd, "", false), 0);
        assert_int_equal(unlinkat(scratch_fd, "gone", AT_REMOVEDIR), 0);
        cp_walk_next(&walk, &item);
        assert_int_equal(item.type, CP_ITEM_SKIP);
        assert_int_equal(item.result.status, CP_NOT_FOUND);
        cp_walk_end(&walk);
        return;
    }
    scratch_mkdir("closed");
    assert_int_equal(fchmodat(scratch_fd, "closed", 0, 0), 0);
    trace(false, line, sizeof line);
    snprintf(expected, sizeof expected, "S%d:top/closed ", CP_DENIED);
    assert_string_equal(line, expected);
}

int main(void)
{
#define WITH_DIR(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        WITH_DIR(tree__is_told_in_order),
        WITH_DIR(shallow__does_not_enter),
        WITH_DIR(empty_directory__ends_at_once),
        WITH_DIR(deeper_than_the_limit__is_skipped_with_a_reason),
        WITH_DIR(unreadable_directory__is_skipped_with_a_reason),
    };

    return cmocka_run_group_tests_name("cp_walk", tests, NULL, NULL);
}
