/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names that must not leave the exported directory: every way out that there is, against openat2
 * and against the way without it (the child of the last test, where a filter takes openat2 away).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs/cp/limits.h"
#include "programs/cp/path.h"
#include "scratch.h"

static bool no_openat2; /* this process has to do without */

/* Everything below "in" is exported; "out" and "secret" are not. */
static int setup(void **state)
{
    if (scratch_setup(state) != 0) {
        return -1;
    }
    scratch_mkdir("in");
    scratch_mkdir("out");
    scratch_mkdir("in/dir");
    scratch_write("in/file", "in", 2);
    scratch_write("in/dir/deep", "deep", 4);
    scratch_write("secret", "no", 2);
    scratch_write("out/secret", "no", 2);
    return symlinkat("../secret", scratch_fd, "in/up") ||
           symlinkat(scratch_path, scratch_fd, "in/absolute") ||
           symlinkat("../out", scratch_fd, "in/outdir") ||
           symlinkat("dir", scratch_fd, "in/inside") || symlinkat("loop", scratch_fd, "in/loop");
}

static int open_in(const char *path, int flags)
{
    int in = openat(scratch_fd, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = cp_path_open(in, path, flags);
    int error = errno;

    close(in);
    errno = error;
    return fd;
}

static void expect_file(const char *path, const char *content)
{
    char buf[16] = "";
    int fd = open_in(path, O_RDONLY);

    assert_true(fd >= 0);
    assert_int_equal(read(fd, buf, sizeof buf), strlen(content));
    assert_string_equal(buf, content);
    close(fd);
}

static void open__names_below__are_opened(void **state)
{
    (void)state;
    expect_file("file", "in");
    expect_file("dir/deep", "deep");
    expect_file("/file", "in");
    expect_file("//dir///deep", "deep");
    expect_file("./dir/./deep", "deep");
    assert_true(open_in("", O_RDONLY | O_DIRECTORY) >= 0);
    assert_true(open_in("/", O_RDONLY | O_DIRECTORY) >= 0);
    assert_true(open_in("dir/", O_RDONLY | O_DIRECTORY) >= 0);
}

static void open__ways_out__are_refused(void **state)
{
    char absolute[4200];
    const char *const paths[] = {
        "..",         "../secret", "dir/../../secret", "dir/..", "dir/../file",
        "up",         "absolute",  "absolute/secret",  "outdir", "outdir/secret",
        "/../secret", absolute};

    (void)state;
    snprintf(absolute, sizeof absolute, "%s/secret", scratch_path);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        assert_int_equal(open_in(paths[i], O_RDONLY), -1);
        if (paths[i] == absolute) {
            assert_int_equal(errno, ENOENT); /* taken as a name below */
        } else {
            assert_true(errno == EXDEV || errno == ELOOP || errno == ENOTDIR);
        }
        assert_int_equal(open_in(paths[i], O_PATH), -1);
    }
    assert_int_equal(open_in("loop", O_RDONLY), -1);
}

static void open__link_that_stays_inside__is_followed_if_the_kernel_can(void **state)
{
    (void)state;
    if (getenv("TEST_EMULATED")) {
        skip();
    }
    if (no_openat2) {
        assert_int_equal(open_in("inside/deep", O_RDONLY), -1);
    } else {
        expect_file("inside/deep", "deep");
    }
}

static void open__missing_or_too_long__has_its_errno(void **state)
{
    char name[CP_NAME_MAX + 2];

    (void)state;
    assert_int_equal(open_in("none", O_RDONLY), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(open_in("file/x", O_RDONLY), -1);
    assert_int_equal(errno, ENOTDIR);
    memset(name, 'n', sizeof name);
    name[CP_NAME_MAX + 1] = '\0';
    assert_int_equal(open_in(name, O_RDONLY), -1);
    assert_int_equal(errno, ENAMETOOLONG);
}

static int make_in(const char *path, bool drop_last)
{
    int in = openat(scratch_fd, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = cp_path_make(in, path, drop_last, false);
    int error = errno;

    close(in);
    errno = error;
    return fd;
}

static void make__missing_directories__are_made(void **state)
{
    struct stat made, there;

    (void)state;
    int fd = make_in("new/a//b/", false);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &made), 0);
    assert_int_equal(fstatat(scratch_fd, "in/new/a/b", &there, 0), 0);
    assert_int_equal(made.st_ino, there.st_ino);
    fd = make_in("new/c/file", true);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &made), 0);
    assert_int_equal(fstatat(scratch_fd, "in/new/c", &there, 0), 0);
    assert_int_equal(made.st_ino, there.st_ino);
    assert_int_equal(fstatat(scratch_fd, "in/new/c/file", &there, 0), -1);
}

static void make__ways_out__make_nothing(void **state)
{
    static const char *const paths[] = {"../x",       "dir/../../x", "outdir/x",
                                        "outdir/x/y", "up/x",        "absolute/x",
                                        "file/x",     "..",          "new/../x"};

    (void)state;
    unsigned before = scratch_count("."), out = scratch_count("out");
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        assert_int_equal(make_in(paths[i], false), -1);
        assert_int_not_equal(errno, 0);
    }
    assert_int_equal(scratch_count("."), before);
    assert_int_equal(scratch_count("out"), out);
}

static void last__of_a_path__is_its_name(void **state)
{
    static const char *const cases[][2] = {{".iwarp-cp.1", ".iwarp-cp.1"},
                                           {"d/.iwarp-cp.1/", ".iwarp-cp.1"},
                                           {"a", "a"},
                                           {"a/b", "b"},
                                           {"a/b//", "b"},
                                           {"/", ""},
                                           {"", ""},
                                           {".", ""},
                                           {"a/..", ""},
                                           {"./x", "x"},
                                           {"/x", "x"}};
    char last[CP_NAME_MAX + 1];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cp_path_last(cases[i][0], last, sizeof last);
        assert_string_equal(last, cases[i][1]);
    }
}

/* The names of unfinished copies: never opened or made for a client, in any place of a path. */
static void reserved__anywhere_in_a_path__is_refused(void **state)
{
    static const char *const paths[] = {".iwarp-cp.x",    "/.iwarp-cp.x", "dir/.iwarp-cp.x",
                                        ".iwarp-cp.x/y",  ".iwarp-cp.",   "dir//.iwarp-cp.x/",
                                        "./.iwarp-cp.x/y"};
    static const char *const others[] = {".iwarp-cp", "iwarp-cp.x", "x.iwarp-cp.", "dir", "", "/"};

    (void)state;
    scratch_write("in/.iwarp-cp.x", "half", 4);
    unsigned before = scratch_count("in"), below = scratch_count("in/dir");
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        assert_true(cp_path_reserved(paths[i]));
        assert_int_equal(open_in(paths[i], O_RDONLY), -1);
        assert_int_equal(errno, EINVAL);
        assert_int_equal(make_in(paths[i], false), -1);
        assert_int_equal(errno, EINVAL);
        assert_int_equal(make_in(paths[i], true), -1);
        assert_int_equal(errno, EINVAL);
    }
    assert_int_equal(scratch_count("in"), before);
    assert_int_equal(scratch_count("in/dir"), below);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(cp_path_reserved(others[i]));
    }
}

static int run_all(bool with_child);

/* Make openat2 fail with ENOSYS in this process and its children. */
static bool take_openat2_away(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void without_openat2__everything_above__holds_too(void **state)
{
    int status = -1;

    (void)state;
    if (getenv("TEST_EMULATED")) {
        skip();
    }
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* Its report would be counted as tests of this program. */
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDOUT_FILENO);
        no_openat2 = true;
        _exit(take_openat2_away() ? run_all(false) : 100);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static int run_all(bool with_child)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(open__names_below__are_opened, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(open__ways_out__are_refused, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(open__link_that_stays_inside__is_followed_if_the_kernel_can,
                                        setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(open__missing_or_too_long__has_its_errno, setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(make__missing_directories__are_made, setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(make__ways_out__make_nothing, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(reserved__anywhere_in_a_path__is_refused, setup,
                                        scratch_teardown),
        cmocka_unit_test(last__of_a_path__is_its_name),
    };
    const struct CMUnitTest child[] = {
        cmocka_unit_test(without_openat2__everything_above__holds_too),
    };
    int failed = cmocka_run_group_tests_name("cp_path", tests, NULL, NULL);

    return with_child ? failed + cmocka_run_group_tests_name("cp_path, fallback", child, NULL, NULL)
                      : failed;
}

int main(void)
{
    return run_all(true);
}
