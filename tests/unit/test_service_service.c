/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a service says to people and to systemd, which is a socket of ours here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "programs/service/service.h"
#include "support/said.h"

static void report__any_length__is_one_line_behind_the_name(void **state)
{
    static struct said errors;
    char expected[64], longer[2000];
    const char *text;

    (void)state;
    said_begin(&errors, STDERR_FILENO);
    service_report("%s has %d disks", "it", 3);
    text = said_end(&errors);
    snprintf(expected, sizeof expected, "%.40s: it has 3 disks\n", program_invocation_short_name);
    assert_string_equal(text, expected);
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    said_begin(&errors, STDERR_FILENO);
    service_report("%s", longer);
    text = said_end(&errors);
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    assert_int_equal(strlen(text), strlen(program_invocation_short_name) + 2 + 1023 + 1);
}

static size_t lines_of(const char *text)
{
    size_t lines = 0;

    for (; (text = strchr(text, '\n')) != NULL; text++) {
        lines++;
    }
    return lines;
}

static void report__of_peers__has_so_many_lines_in_a_second(void **state)
{
    static struct said errors;
    const char *text;
    size_t lines;

    (void)state;
    said_begin(&errors, STDERR_FILENO);
    for (unsigned i = 0; i < 1000; i++) {
        service_report_peer("it did %u", i);
    }
    lines = lines_of(said_end(&errors));
    /* A second may have ended meanwhile. */
    assert_true(lines >= SERVICE_PEER_LINES && lines <= 2 * SERVICE_PEER_LINES + 1);
    usleep(1100000);
    said_begin(&errors, STDERR_FILENO);
    service_report_peer("it is back");
    text = said_end(&errors);
    assert_int_equal(lines_of(text), 2);
    assert_non_null(strstr(text, "more lines about peers were left out\n"));
    assert_non_null(strstr(text, ": it is back\n"));
}

static void tls__a_folder__becomes_its_files(void **state)
{
    static const char *const cases[][2] = {
        {"k", "cert=k/cert.pem,key=k/key.pem,ca=k/ca.pem"}, {"psk=k", "psk=k"}, {"off", "off"}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = service_tls(cases[i][0]);

        assert_non_null(text);
        assert_string_equal(text, cases[i][1]);
        free(text);
    }
}

/* -2: there are several. */
static int given(void)
{
    int fd = -3;

    return service_socket(&fd) ? fd : -2;
}

static void socket__that_systemd_has_made__is_taken_by_the_right_process(void **state)
{
    static struct said errors;
    char pid[16];

    (void)state;
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    assert_int_equal(given(), -1);
    setenv("LISTEN_FDS", "1", 1);
    assert_int_equal(given(), -1);
    setenv("LISTEN_PID", "1", 1);
    assert_int_equal(given(), -1);
    setenv("LISTEN_PID", pid, 1);
    assert_int_equal(given(), 3);
    setenv("LISTEN_FDS", "0", 1);
    assert_int_equal(given(), -1);
    setenv("LISTEN_FDS", "2", 1);
    said_begin(&errors, STDERR_FILENO);
    assert_int_equal(given(), -2);
    assert_non_null(strstr(said_end(&errors), "systemd gives 2 sockets"));
}

/* A socket at which systemd would listen. The name of an abstract one begins with '@'. */
static int systemd(const char *name)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

    memcpy(addr.sun_path, name, strlen(name));
    addr.sun_path[0] = name[0] == '@' ? '\0' : name[0];
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
    setenv("NOTIFY_SOCKET", name, 1);
    return fd;
}

static void hears(int fd, const char *expected)
{
    char text[64] = "";

    assert_int_equal(recv(fd, text, sizeof text - 1, 0), strlen(expected));
    assert_string_equal(text, expected);
}

static void tell__a_name_in_a_folder_or_not__is_heard(void **state)
{
    const char *tmp = getenv("TMPDIR");
    char path[80], name[80];
    int fd;

    (void)state;
    snprintf(path, sizeof path, "%.60s/notify-%d", tmp ? tmp : "/tmp", (int)getpid());
    fd = systemd(path);
    service_tell("READY=1");
    hears(fd, "READY=1");
    close(fd);
    unlink(path);
    service_tell("nobody listens"); /* and nothing happens */
    snprintf(name, sizeof name, "@libiwarp-%d", (int)getpid());
    fd = systemd(name);
    service_tell("STOPPING=1");
    hears(fd, "STOPPING=1");
    close(fd);
}

static void tell__no_name_or_one_that_is_too_long__says_nothing(void **state)
{
    char name[300];

    (void)state;
    unsetenv("NOTIFY_SOCKET");
    service_tell("READY=1");
    setenv("NOTIFY_SOCKET", "", 1);
    service_tell("READY=1");
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    setenv("NOTIFY_SOCKET", name, 1);
    service_tell("READY=1");
}

static void on_enough(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

/* How often systemd hears of the watchdog in so many ms. */
static unsigned heard(int fd, uint64_t ms)
{
    uv_timer_t watchdog, enough;
    unsigned count = 0;
    char text[64];
    uv_loop_t loop;

    uv_loop_init(&loop);
    service_watch(&loop, &watchdog);
    uv_timer_init(&loop, &enough);
    uv_timer_start(&enough, on_enough, ms, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&watchdog, NULL);
    uv_close((uv_handle_t *)&enough, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    for (ssize_t len; (len = recv(fd, text, sizeof text, 0)) > 0; count++) {
        assert_int_equal(len, 10);
        assert_memory_equal(text, "WATCHDOG=1", 10);
    }
    return count;
}

static void watch__a_limit__is_met_twice_over(void **state)
{
    char name[80], pid[16];
    int fd;

    (void)state;
    snprintf(name, sizeof name, "@libiwarp-%d", (int)getpid());
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    fd = systemd(name);
    assert_int_equal(heard(fd, 20), 0);
    setenv("WATCHDOG_USEC", "20000", 1); /* so it is said every 10 ms */
    assert_true(heard(fd, 80) >= 2);
    setenv("WATCHDOG_PID", "1", 1);
    assert_int_equal(heard(fd, 50), 0);
    setenv("WATCHDOG_PID", pid, 1);
    assert_true(heard(fd, 80) >= 2);
    close(fd);
}

static int forget(void **state)
{
    static const char *const names[] = {"LISTEN_PID", "LISTEN_FDS", "NOTIFY_SOCKET",
                                        "WATCHDOG_USEC", "WATCHDOG_PID"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsetenv(names[i]);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report__any_length__is_one_line_behind_the_name),
        cmocka_unit_test(report__of_peers__has_so_many_lines_in_a_second),
        cmocka_unit_test(tls__a_folder__becomes_its_files),
        cmocka_unit_test_setup(socket__that_systemd_has_made__is_taken_by_the_right_process,
                               forget),
        cmocka_unit_test_setup(tell__a_name_in_a_folder_or_not__is_heard, forget),
        cmocka_unit_test_setup(tell__no_name_or_one_that_is_too_long__says_nothing, forget),
        cmocka_unit_test_setup(watch__a_limit__is_met_twice_over, forget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
