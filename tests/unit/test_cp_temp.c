/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that appear when they are complete: nothing under the final name before commit, nothing at
 * all after discard, replacing what was there, and leftovers of killed processes cleared away.
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
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs/cp/path.h"
#include "programs/cp/temp.h"
#include "scratch.h"

static void write_and_commit(const char *name, const char *content)
{
    struct cp_temp temp = CP_TEMP_NONE;

    assert_int_equal(cp_temp_create(&temp, scratch_fd, name), 0);
    assert_int_equal(write(temp.fd, content, strlen(content)), strlen(content));
    assert_int_equal(cp_temp_commit(&temp, 0640, 1000000000, 5, false), 0);
    assert_int_equal(temp.fd, -1);
}

static void expect_content(const char *name, const char *content)
{
    char buf[64];
    size_t len = scratch_read(name, buf, sizeof buf);

    assert_int_equal(len, strlen(content));
    assert_memory_equal(buf, content, len);
}

static void commit__new_name__has_content_mode_and_time(void **state)
{
    struct stat st;

    (void)state;
    write_and_commit("new", "abc");
    expect_content("new", "abc");
    assert_int_equal(fstatat(scratch_fd, "new", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(st.st_mtim.tv_sec, 1000000000);
    assert_int_equal(st.st_mtim.tv_nsec, 5);
    assert_int_equal(scratch_count("."), 1);
}

static void commit__name_taken__replaces(void **state)
{
    (void)state;
    scratch_write("old", "previous", 8);
    write_and_commit("old", "abc");
    expect_content("old", "abc");
    assert_int_equal(scratch_count("."), 1);
}

static void commit__name_is_a_link__replaces_the_link(void **state)
{
    struct stat st;

    (void)state;
    scratch_write("target", "kept", 4);
    assert_int_equal(symlinkat("target", scratch_fd, "link"), 0);
    write_and_commit("link", "abc");
    expect_content("target", "kept");
    assert_int_equal(fstatat(scratch_fd, "link", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISREG(st.st_mode));
}

static void commit__name_is_a_directory__fails_and_leaves_nothing(void **state)
{
    struct cp_temp temp = CP_TEMP_NONE;

    (void)state;
    scratch_mkdir("dir");
    assert_int_equal(cp_temp_create(&temp, scratch_fd, "dir"), 0);
    assert_int_equal(cp_temp_commit(&temp, 0600, 0, 0, true), EISDIR);
    assert_int_equal(scratch_count("."), 1);
}

static void before_commit__name__is_untouched(void **state)
{
    struct cp_temp temp = CP_TEMP_NONE;

    (void)state;
    scratch_write("old", "previous", 8);
    assert_int_equal(cp_temp_create(&temp, scratch_fd, "old"), 0);
    assert_int_equal(write(temp.fd, "abc", 3), 3);
    expect_content("old", "previous");
    cp_temp_discard(&temp);
    expect_content("old", "previous");
    assert_int_equal(scratch_count("."), 1);
    cp_temp_discard(&temp); /* again: nothing happens */
}

/* The first hidden name for "old": FNV-1a of it. */
static void hidden_of_old(char *hidden, size_t size)
{
    snprintf(hidden, size, CP_TEMP_PREFIX "1a0fad1921d08076.0");
}

static void leftover__of_a_dead_process__is_cleared(void **state)
{
    char hidden[64];

    (void)state;
    hidden_of_old(hidden, sizeof hidden);
    scratch_write("old", "previous", 8);
    scratch_write(hidden, "half", 4);
    write_and_commit("old", "abc");
    expect_content("old", "abc");
    assert_int_equal(scratch_count("."), 1);
}

static void leftover__of_a_living_process__is_kept(void **state)
{
    char hidden[64];

    (void)state;
    hidden_of_old(hidden, sizeof hidden);
    scratch_write("old", "previous", 8);
    scratch_write(hidden, "half", 4);
    int fd = openat(scratch_fd, hidden, O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    write_and_commit("old", "abc");
    expect_content("old", "abc");
    expect_content(hidden, "half");
    assert_int_equal(scratch_count("."), 2);
    close(fd);
}

static void killed__in_the_middle__leaves_nothing(void **state)
{
    int status;

    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct cp_temp temp = CP_TEMP_NONE;
        if (cp_temp_create(&temp, scratch_fd, "x") != 0 || write(temp.fd, "half", 4) != 4) {
            _exit(1);
        }
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(scratch_count("."), 0);
}

static int run_all(bool with_child);
static bool no_tmpfile; /* this process has to do without O_TMPFILE */

static void killed__with_a_hidden_name__is_cleared_by_the_next(void **state)
{
    int status;

    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct cp_temp temp = CP_TEMP_NONE;
        cp_temp_create(&temp, scratch_fd, "x");
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(scratch_count("."), no_tmpfile);
    write_and_commit("x", "abc");
    assert_int_equal(scratch_count("."), 1);
}

/* Make openat with O_TMPFILE fail, as file systems do that have none. */
static bool take_tmpfile_away(void)
{
    const unsigned tmpfile_bit = O_TMPFILE & ~O_DIRECTORY;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, tmpfile_bit, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 &&
           open(".", O_TMPFILE | O_WRONLY, 0600) < 0 && errno == EOPNOTSUPP;
}

static void without_tmpfile__everything_above__holds_too(void **state)
{
    int status = -1;

    (void)state;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* Its report would be counted as tests of this program. */
        dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
        no_tmpfile = true;
        _exit(take_tmpfile_away() ? run_all(false) : 100);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static int run_all(bool with_child)
{
#define WITH_DIR(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)
    const struct CMUnitTest both[] = {
        WITH_DIR(commit__new_name__has_content_mode_and_time),
        WITH_DIR(commit__name_taken__replaces),
        WITH_DIR(commit__name_is_a_link__replaces_the_link),
        WITH_DIR(commit__name_is_a_directory__fails_and_leaves_nothing),
        WITH_DIR(before_commit__name__is_untouched),
        WITH_DIR(leftover__of_a_dead_process__is_cleared),
        WITH_DIR(leftover__of_a_living_process__is_kept),
        WITH_DIR(killed__with_a_hidden_name__is_cleared_by_the_next),
    };
    const struct CMUnitTest once[] = {
        WITH_DIR(killed__in_the_middle__leaves_nothing),
        cmocka_unit_test(without_tmpfile__everything_above__holds_too),
    };
    int failed = cmocka_run_group_tests_name("cp_temp", both, NULL, NULL);

    return with_child ? failed + cmocka_run_group_tests_name("cp_temp, once", once, NULL, NULL)
                      : failed;
}

int main(void)
{
    return run_all(true);
}
