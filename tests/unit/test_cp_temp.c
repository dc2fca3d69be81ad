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
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs/cp/hidden.h"
#include "programs/cp/limits.h"
#include "programs/cp/path.h"
#include "programs/cp/temp.h"
#include "scratch.h"

static int proc_error; /* errno of linkat from a path; 0: it works */

/*
 * Before Linux 6.10 a file cannot be linked by its descriptor alone without CAP_DAC_READ_SEARCH: so
 * it is here on every kernel, as for most people.
 */
int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    if (flags & AT_EMPTY_PATH) {
        errno = ENOENT;
        return -1;
    }
    if (proc_error) {
        errno = proc_error;
        return -1;
    }
    return (int)syscall(SYS_linkat, from_dir, from, to_dir, to, flags);
}

static void write_and_commit(const char *name, const char *content)
{
    struct cp_temp temp = CP_TEMP_NONE;
    bool cleared = false;

    assert_int_equal(cp_temp_create(&temp, scratch_fd, name, &cleared), 0);
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

/* The error of the way that should have worked is told, not that of the other one. */
static void commit__disk_full__says_so(void **state)
{
    struct cp_temp temp = CP_TEMP_NONE;
    bool cleared = false;

    (void)state;
    assert_int_equal(cp_temp_create(&temp, scratch_fd, "x", &cleared), 0);
    bool is_linked = !temp.hidden[0];
    proc_error = ENOSPC;
    int error = cp_temp_commit(&temp, 0600, 0, 0, false);
    proc_error = 0;
    assert_int_equal(error, is_linked ? ENOSPC : 0);
    assert_int_equal(scratch_count("."), is_linked ? 0 : 1);
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
    bool cleared = false;

    (void)state;
    scratch_mkdir("dir");
    assert_int_equal(cp_temp_create(&temp, scratch_fd, "dir", &cleared), 0);
    assert_int_equal(cp_temp_commit(&temp, 0600, 0, 0, true), EISDIR);
    assert_int_equal(scratch_count("."), 1);
}

static void before_commit__name__is_untouched(void **state)
{
    struct cp_temp temp = CP_TEMP_NONE;
    bool cleared = false;

    (void)state;
    scratch_write("old", "previous", 8);
    assert_int_equal(cp_temp_create(&temp, scratch_fd, "old", &cleared), 0);
    assert_int_equal(write(temp.fd, "abc", 3), 3);
    expect_content("old", "previous");
    cp_temp_discard(&temp);
    expect_content("old", "previous");
    assert_int_equal(scratch_count("."), 1);
    cp_temp_discard(&temp); /* again: nothing happens */
}

/* Two copies of one name, each step of the one between two of the other: each gets its own file. */
static void commit__of_two_at_once__gives_each_its_own_file(void **state)
{
    struct cp_temp one = CP_TEMP_NONE, two = CP_TEMP_NONE;
    bool cleared[2] = {false, false};

    (void)state;
    scratch_write("x", "previous", 8);
    assert_int_equal(cp_temp_create(&one, scratch_fd, "x", &cleared[0]), 0);
    assert_int_equal(cp_temp_create(&two, scratch_fd, "x", &cleared[1]), 0);
    assert_int_equal(write(two.fd, "tw", 2), 2);
    assert_int_equal(write(one.fd, "one", 3), 3);
    assert_int_equal(cp_temp_commit(&one, 0600, 0, 0, false), 0);
    expect_content("x", "one");
    assert_int_equal(write(two.fd, "o", 1), 1);
    expect_content("x", "one");
    assert_int_equal(cp_temp_commit(&two, 0600, 0, 0, false), 0);
    expect_content("x", "two");
    assert_int_equal(scratch_count("."), 1);
}

/* --- hidden names -------------------------------------------------------------------------------
 */

/* A hidden name that this process would draw, but with another place or process id. */
static void hidden_of(char hidden[CP_HIDDEN_SIZE], const char *place, pid_t pid)
{
    char drawn[CP_HIDDEN_SIZE], own_place[CP_HIDDEN_SIZE], digits[CP_HIDDEN_SIZE];

    assert_int_equal(cp_hidden_draw(drawn), 0);
    assert_int_equal(sscanf(drawn, CP_TEMP_PREFIX "%127[^.].%*[0-9].%127s", own_place, digits), 2);
    assert_true(snprintf(hidden, CP_HIDDEN_SIZE, CP_TEMP_PREFIX "%s.%ld.%s",
                         place ? place : own_place, (long)pid, digits) < CP_HIDDEN_SIZE);
}

/* The id of a process that there is no more. */
static pid_t ended_process(void)
{
    pid_t child = fork();

    if (child == 0) {
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    return child;
}

/* Is the file still there when leftovers are cleared after so many seconds? It is removed. */
static bool survives(const char *hidden, time_t seconds)
{
    struct stat st;

    scratch_write(hidden, "half", 4);
    assert_int_equal(fstatat(scratch_fd, hidden, &st, 0), 0);
    cp_hidden_clear(scratch_fd, st.st_ctime + seconds);
    return unlinkat(scratch_fd, hidden, 0) == 0;
}

static void draw__twice__is_never_the_same_and_reserved(void **state)
{
    char one[CP_HIDDEN_SIZE], two[CP_HIDDEN_SIZE];

    (void)state;
    assert_int_equal(cp_hidden_draw(one), 0);
    assert_int_equal(cp_hidden_draw(two), 0);
    assert_string_not_equal(one, two);
    assert_true(cp_name_reserved(one));
    assert_true(cp_name_is_component(one, strlen(one)));
}

static void leftover__of_an_ended_process__is_cleared(void **state)
{
    char hidden[CP_HIDDEN_SIZE];

    (void)state;
    hidden_of(hidden, NULL, ended_process());
    assert_false(survives(hidden, 0));
}

static void leftover__of_a_living_process__is_kept(void **state)
{
    char hidden[CP_HIDDEN_SIZE];

    (void)state;
    hidden_of(hidden, NULL, getpid());
    assert_true(survives(hidden, 86400));
    hidden_of(hidden, NULL, 1);
    assert_true(survives(hidden, 86400));
}

/* Of another machine, say: its process ids mean nothing here. */
static void leftover__of_another_place__is_kept_for_days(void **state)
{
    static const char *const places[] = {"00000000-0000-0000-0000-000000000000-4026531836",
                                         "unknown"};
    char hidden[CP_HIDDEN_SIZE];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        hidden_of(hidden, places[i], ended_process());
        assert_true(survives(hidden, CP_LEFTOVER_SECONDS));
        assert_false(survives(hidden, CP_LEFTOVER_SECONDS + 1));
    }
}

static void clear__of_other_names__keeps_them(void **state)
{
    static const char *const names[] = {
        CP_TEMP_PREFIX "mine",
        "file",
        CP_TEMP_PREFIX "unknown.123.0123456789abcdef0123456789abcde",
        CP_TEMP_PREFIX "unknown.123.0123456789abcdef0123456789abcdef0",
        CP_TEMP_PREFIX "unknown.0.0123456789abcdef0123456789abcdef",
        CP_TEMP_PREFIX "unknown.1x.0123456789abcdef0123456789abcdef",
        CP_TEMP_PREFIX ".123.0123456789abcdef0123456789abcdef",
    };
    char hidden[CP_HIDDEN_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_true(survives(names[i], 100 * CP_LEFTOVER_SECONDS));
    }
    hidden_of(hidden, NULL, ended_process());
    scratch_mkdir(hidden);
    cp_hidden_clear(scratch_fd, 0);
    assert_int_equal(scratch_count("."), 1);
}

static void killed__in_the_middle__leaves_nothing(void **state)
{
    int status;

    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct cp_temp temp = CP_TEMP_NONE;
        bool cleared = false;
        if (cp_temp_create(&temp, scratch_fd, "x", &cleared) != 0 ||
            write(temp.fd, "half", 4) != 4) {
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
        bool cleared = false;
        cp_temp_create(&temp, scratch_fd, "x", &cleared);
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
    if (getenv("TEST_EMULATED")) {
        skip();
    }
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
        WITH_DIR(commit__disk_full__says_so),
        WITH_DIR(commit__name_is_a_directory__fails_and_leaves_nothing),
        WITH_DIR(before_commit__name__is_untouched),
        WITH_DIR(commit__of_two_at_once__gives_each_its_own_file),
        WITH_DIR(killed__with_a_hidden_name__is_cleared_by_the_next),
    };
    const struct CMUnitTest once[] = {
        WITH_DIR(killed__in_the_middle__leaves_nothing),
        WITH_DIR(draw__twice__is_never_the_same_and_reserved),
        WITH_DIR(leftover__of_an_ended_process__is_cleared),
        WITH_DIR(leftover__of_a_living_process__is_kept),
        WITH_DIR(leftover__of_another_place__is_kept_for_days),
        WITH_DIR(clear__of_other_names__keeps_them),
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
