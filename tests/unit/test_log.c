/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/log: what IWARP_LOG chooses, and what a line looks like.
 *
 * Standard error is a pipe while a test logs, in packet mode: each read returns one write, so
 * "one line is one write" is seen and not assumed.
 */
#include "base/log.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int pipe_ends[2];
static int real_stderr;

static void catch_stderr(void)
{
    assert_int_equal(pipe2(pipe_ends, O_DIRECT | O_CLOEXEC), 0);
    fcntl(pipe_ends[0], F_SETFL, fcntl(pipe_ends[0], F_GETFL) | O_NONBLOCK);
    real_stderr = dup(STDERR_FILENO);
    dup2(pipe_ends[1], STDERR_FILENO);
}

/* Before any assertion, so that its message is seen. */
static void release_stderr(void)
{
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    close(pipe_ends[1]);
}

/* The next line without its newline; "" when there is none.  A write that is no line fails. */
static char *next_line(void)
{
    static char line[4096];
    ssize_t n = read(pipe_ends[0], line, sizeof(line) - 1);
    if (n <= 0) {
        line[0] = '\0';
        return line;
    }
    line[n] = '\0';
    assert_int_equal(line[n - 1], '\n');
    line[n - 1] = '\0';
    assert_null(strchr(line, '\n'));
    return line;
}

static void expect_no_more(void)
{
    assert_string_equal(next_line(), "");
    close(pipe_ends[0]);
}

/* What follows the time stamp. */
static const char *after_time(const char *line)
{
    unsigned int seconds, micros;
    int used = 0;
    assert_int_equal(sscanf(line, "iwarp %u.%6u %n", &seconds, &micros, &used), 2);
    assert_true(used > 0);
    return line + used;
}

static void log_all_levels(const char *module)
{
    iwarp_log(IWARP_LOG_ERROR, module, "e %d", 1);
    iwarp_log(IWARP_LOG_WARN, module, "w %d", 2);
    iwarp_log(IWARP_LOG_INFO, module, "i %d", 3);
    iwarp_log(IWARP_LOG_DEBUG, module, "d %d", 4);
    iwarp_log(IWARP_LOG_TRACE, module, "t %d", 5);
}

/* How many of the five levels are written, lowest first. */
static int levels_written(const char *spec, const char *module)
{
    static const char *const text[] = {"error m: e 1", "warn m: w 2", "info m: i 3", "debug m: d 4",
                                       "trace m: t 5"};
    int count = 0;
    iwarp_log_set(spec);
    catch_stderr();
    log_all_levels(module);
    release_stderr();
    for (const char *line = next_line(); line[0] != '\0'; line = next_line(), count++) {
        assert_true(count < 5);
        const char *rest = strcmp(module, "m") == 0 ? strstr(line, text[count]) : line;
        assert_non_null(rest);
    }
    close(pipe_ends[0]);
    return count;
}

static void level__names_and_numbers__choose(void **state)
{
    (void)state;
    static const char *const names[] = {"off", "error", "warn", "info", "debug", "trace"};
    for (int i = 0; i <= 5; i++) {
        char number[2] = {(char)('0' + i), '\0'};
        assert_int_equal(levels_written(names[i], "m"), i);
        assert_int_equal(levels_written(number, "m"), i);
    }
    assert_int_equal(levels_written("DEBUG", "m"), 4);
}

static void level__nothing_said__is_warn(void **state)
{
    (void)state;
    assert_int_equal(levels_written(NULL, "m"), 2);
    assert_int_equal(levels_written("", "m"), 2);
    assert_int_equal(levels_written(",,", "m"), 2);
}

static void level__module_named__applies_to_it_alone(void **state)
{
    (void)state;
    assert_int_equal(levels_written("info,m=trace", "m"), 5);
    assert_int_equal(levels_written("info,m=trace", "other"), 3);
    assert_int_equal(levels_written("m=debug", "other"), 2);
    assert_int_equal(levels_written("debug,m=off", "m"), 0);
    assert_int_equal(levels_written("m=5,m=error", "m"), 1);
    assert_int_equal(levels_written("mm=5", "m"), 2);
}

static void log_on__highest_of_all_modules__decides(void **state)
{
    (void)state;
    iwarp_log_set("info");
    assert_true(iwarp_log_on(IWARP_LOG_INFO));
    assert_false(iwarp_log_on(IWARP_LOG_DEBUG));
    iwarp_log_set("error,conn=debug");
    assert_true(iwarp_log_on(IWARP_LOG_DEBUG));
    assert_false(iwarp_log_on(IWARP_LOG_TRACE));
    iwarp_log_set("off");
    assert_false(iwarp_log_on(IWARP_LOG_ERROR));
}

static void spec__unknown_words__one_warning_names_them(void **state)
{
    (void)state;
    catch_stderr();
    iwarp_log_set("loud,conn=7,=info,error,a_name_that_is_far_too_long=info");
    log_all_levels("m");
    release_stderr();
    const char *line = after_time(next_line());
    assert_non_null(strstr(line, "warn log: IWARP_LOG: ignored \"loud\", \"conn=7\", \"=info\", "
                                 "\"a_name_that_is_far_too_long=info\";"));
    assert_string_equal(after_time(next_line()), "error m: e 1");
    expect_no_more();
}

static void spec__endless_word__is_bounded(void **state)
{
    (void)state;
    char spec[5000];
    memset(spec, 'x', sizeof(spec) - 1);
    memcpy(spec + 4000, ",info,", 6);
    spec[sizeof(spec) - 1] = '\0';
    catch_stderr();
    iwarp_log_set(spec);
    release_stderr();
    assert_non_null(strstr(next_line(), "ignored \"xxxx"));
    expect_no_more();
    assert_true(iwarp_log_on(IWARP_LOG_INFO));
    assert_false(iwarp_log_on(IWARP_LOG_DEBUG));
}

static void spec__more_modules_than_fit__is_said(void **state)
{
    (void)state;
    char spec[400] = "info";
    for (int i = 0; i < 17; i++) {
        snprintf(spec + strlen(spec), sizeof(spec) - strlen(spec), ",m%d=trace", i);
    }
    catch_stderr();
    iwarp_log_set(spec);
    release_stderr();
    assert_non_null(strstr(next_line(), "ignored \"m16=trace\";"));
    expect_no_more();
}

static void line__debug_chosen__shows_the_thread(void **state)
{
    (void)state;
    char expected[64];
    catch_stderr();
    iwarp_log_set("debug");
    iwarp_log(IWARP_LOG_WARN, "m", "x");
    iwarp_log_set("info");
    iwarp_log(IWARP_LOG_WARN, "m", "x");
    release_stderr();
    snprintf(expected, sizeof(expected), "[%d] warn m: x", (int)gettid());
    assert_string_equal(after_time(next_line()), expected);
    assert_string_equal(after_time(next_line()), "warn m: x");
    expect_no_more();
}

static void line__too_long__ends_in_ellipsis(void **state)
{
    (void)state;
    char text[3000];
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    iwarp_log_set("info");
    catch_stderr();
    iwarp_log(IWARP_LOG_INFO, "m", "%s", text);
    release_stderr();
    const char *line = next_line();
    assert_int_equal(strlen(line), 1023);
    assert_string_equal(line + 1023 - 4, "a...");
    expect_no_more();
}

static void line__every_length_near_the_limit__is_whole_or_marked(void **state)
{
    (void)state;
    iwarp_log_set("info");
    for (int n = 970; n < 1030; n++) {
        catch_stderr();
        iwarp_log(IWARP_LOG_INFO, "m", "%*s", n, "z");
        release_stderr();
        const char *line = next_line();
        size_t heading = (size_t)(strstr(line, "m: ") + 3 - line);
        if (heading + (size_t)n <= 1023) {
            assert_int_equal(strlen(line), heading + (size_t)n);
            assert_int_equal(line[strlen(line) - 1], 'z');
        } else {
            assert_int_equal(strlen(line), 1023);
            assert_string_equal(line + 1020, "...");
        }
        expect_no_more();
    }
}

static void line__control_characters__become_spaces(void **state)
{
    (void)state;
    iwarp_log_set("info");
    catch_stderr();
    iwarp_log(IWARP_LOG_INFO, "m", "a\nb\tc\x1b[31md\n");
    release_stderr();
    assert_string_equal(after_time(next_line()), "info m: a b c [31md");
    expect_no_more();
}

static void log__errno__is_kept_and_printable(void **state)
{
    (void)state;
    const char *format = "%d %m"; /* a variable: to the compiler %m is not C */
    iwarp_log_set("info");
    catch_stderr();
    errno = ENOLINK;
    iwarp_log(IWARP_LOG_INFO, "m", format, 7);
    int after = errno;
    release_stderr();
    assert_int_equal(after, ENOLINK);
    const char *text = strstr(next_line(), "m: 7 ");
    assert_non_null(text);
    assert_string_equal(text + 5, strerror(ENOLINK));
    expect_no_more();
    catch_stderr();
    close(STDERR_FILENO);
    errno = ENOLINK;
    iwarp_log(IWARP_LOG_INFO, "m", "nowhere to write to");
    after = errno;
    release_stderr();
    close(pipe_ends[0]);
    assert_int_equal(after, ENOLINK);
}

/* Of the process, too: this test is not the first, and the library was loaded with the program. */
static void line__time__is_since_the_library_was_loaded(void **state)
{
    (void)state;
    unsigned long seconds[2], micros[2];
    iwarp_log_set("info");
    catch_stderr();
    iwarp_log(IWARP_LOG_INFO, "m", "x");
    usleep(20000);
    iwarp_log(IWARP_LOG_INFO, "m", "x");
    release_stderr();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sscanf(next_line(), "iwarp %lu.%6lu ", &seconds[i], &micros[i]), 2);
    }
    unsigned long passed = (seconds[1] - seconds[0]) * 1000000 + micros[1] - micros[0];
    assert_in_range(passed, 15000, 100000000);
    assert_true(seconds[0] > 0 || micros[0] > 0);
    expect_no_more();
}

struct taken {
    int lines;
    enum iwarp_log_level level;
    char module[20], text[1100];
};

static void take_line(enum iwarp_log_level level, const char *module, const char *text, void *arg)
{
    struct taken *t = arg;

    t->lines++;
    t->level = level;
    snprintf(t->module, sizeof t->module, "%s", module);
    snprintf(t->text, sizeof t->text, "%s", text);
    errno = ERANGE;
}

static void lines__to_a_function__have_no_heading(void **state)
{
    (void)state;
    struct taken t = {0};
    iwarp_log_set("info");
    catch_stderr();
    iwarp_log_to(take_line, &t);
    errno = ENOLINK;
    iwarp_log(IWARP_LOG_INFO, "m", "peer says \"a\nb\"\n");
    int after = errno;
    iwarp_log(IWARP_LOG_DEBUG, "m", "not this");
    iwarp_log_to(NULL, NULL);
    release_stderr();
    assert_int_equal(after, ENOLINK);
    assert_int_equal(t.lines, 1);
    assert_int_equal(t.level, IWARP_LOG_INFO);
    assert_string_equal(t.module, "m");
    assert_string_equal(t.text, "peer says \"a b\"");
    expect_no_more();
}

static void lines__to_a_function__end_in_dots_if_they_are_long(void **state)
{
    (void)state;
    static char text[5000];
    struct taken t = {0};
    memset(text, 'x', sizeof(text) - 1);
    iwarp_log_set("info");
    iwarp_log_to(take_line, &t);
    iwarp_log(IWARP_LOG_INFO, "m", "%s", text);
    iwarp_log_to(NULL, NULL);
    assert_in_range(strlen(t.text), 1000, 1023);
    assert_string_equal(t.text + strlen(t.text) - 4, "x...");
}

static void lines__to_a_function__and_back(void **state)
{
    (void)state;
    struct taken t = {0};
    iwarp_log_set("info");
    catch_stderr();
    iwarp_log_to(take_line, &t);
    iwarp_log_set("nonsense"); /* the line about it goes there, too */
    iwarp_log_set("info");
    iwarp_log_to(NULL, NULL);
    iwarp_log(IWARP_LOG_INFO, "m", "x");
    release_stderr();
    assert_int_equal(t.lines, 1);
    assert_non_null(strstr(t.text, "ignored \"nonsense\""));
    assert_non_null(strstr(next_line(), " info m: x"));
    expect_no_more();
}

enum { THREADS = 4, LINES = 100 };

static void *log_lines(void *arg)
{
    int id = *(int *)arg;
    char text[300];
    memset(text, 'a' + id, sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    for (int i = 0; i < LINES; i++) {
        iwarp_log(IWARP_LOG_INFO, "m", "%d %s", id, text);
        if (id == 0 && i % 10 == 0) {
            iwarp_log_set(i % 20 == 0 ? "debug" : "info,x=trace");
        }
    }
    return NULL;
}

/* Reads while the others write: the pipe does not hold all of it. */
static void lines__many_threads__do_not_mix(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    int ids[THREADS];
    int bad = 0;
    int count = 0;
    iwarp_log_set("info");
    catch_stderr();
    for (int i = 0; i < THREADS; i++) {
        ids[i] = i;
        pthread_create(&threads[i], NULL, log_lines, &ids[i]);
    }
    for (int waits = 0; count < THREADS * LINES && waits < 90000;) {
        const char *line = next_line();
        if (line[0] == '\0') {
            waits++;
            usleep(1000);
            continue;
        }
        const char *text = strstr(line, "m: ");
        size_t length =
            text == NULL ? 0 : strspn(text + 5, (char[]){(char)(text[3] - '0' + 'a'), 0});
        bad += length != 299 || text[5 + length] != '\0';
        count++;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    release_stderr();
    assert_int_equal(count, THREADS * LINES);
    assert_int_equal(bad, 0);
    expect_no_more();
}

/* In the first test, and in children: this process has not read the environment yet. */
static void environment__read_at_first_line__chooses(void **state)
{
    (void)state;
    catch_stderr();
    pid_t pid = fork();
    if (pid == 0) {
        setenv("IWARP_LOG", "info,conn=debug,nonsense", 1);
        bool before = iwarp_log_on(IWARP_LOG_TRACE);
        iwarp_log(IWARP_LOG_DEBUG, "m", "not this");
        iwarp_log(IWARP_LOG_DEBUG, "conn", "this");
        iwarp_log(IWARP_LOG_INFO, "m", "and this");
        _exit(before && !iwarp_log_on(IWARP_LOG_TRACE) ? 0 : 1);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    release_stderr();
    assert_int_equal(status, 0);
    const char *line = next_line();
    assert_memory_equal(line, "iwarp ", 6);
    assert_non_null(strstr(line, "ignored \"nonsense\";"));
    assert_non_null(strstr(next_line(), "] debug conn: this"));
    assert_non_null(strstr(next_line(), "] info m: and this"));
    expect_no_more();
}

static void rarely__many_lines__one_a_second_and_a_count(void **state)
{
    static struct iwarp_log_limit limit, other;
    (void)state;
    iwarp_log_set("warn");
    catch_stderr();
    for (int i = 0; i < 10; i++) {
        iwarp_log_rarely(&limit, IWARP_LOG_WARN, "m", "line %d", i);
    }
    iwarp_log_rarely(&other, IWARP_LOG_WARN, "m", "of its own");
    iwarp_log_rarely(&other, IWARP_LOG_INFO, "m", "not chosen");
    atomic_store(&limit.next_ms, 0); /* a second later */
    iwarp_log_rarely(&limit, IWARP_LOG_WARN, "m", "line 10");
    release_stderr();
    assert_string_equal(after_time(next_line()), "warn m: line 0");
    assert_string_equal(after_time(next_line()), "warn m: of its own");
    assert_string_equal(after_time(next_line()), "warn m: line 10 (and 9 more in the last while)");
    expect_no_more();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(environment__read_at_first_line__chooses),
        cmocka_unit_test(level__names_and_numbers__choose),
        cmocka_unit_test(level__nothing_said__is_warn),
        cmocka_unit_test(level__module_named__applies_to_it_alone),
        cmocka_unit_test(log_on__highest_of_all_modules__decides),
        cmocka_unit_test(spec__unknown_words__one_warning_names_them),
        cmocka_unit_test(spec__endless_word__is_bounded),
        cmocka_unit_test(spec__more_modules_than_fit__is_said),
        cmocka_unit_test(line__debug_chosen__shows_the_thread),
        cmocka_unit_test(line__too_long__ends_in_ellipsis),
        cmocka_unit_test(line__every_length_near_the_limit__is_whole_or_marked),
        cmocka_unit_test(line__control_characters__become_spaces),
        cmocka_unit_test(log__errno__is_kept_and_printable),
        cmocka_unit_test(line__time__is_since_the_library_was_loaded),
        cmocka_unit_test(lines__to_a_function__have_no_heading),
        cmocka_unit_test(lines__to_a_function__end_in_dots_if_they_are_long),
        cmocka_unit_test(lines__to_a_function__and_back),
        cmocka_unit_test(lines__many_threads__do_not_mix),
        cmocka_unit_test(rarely__many_lines__one_a_second_and_a_count),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
