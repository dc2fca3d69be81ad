/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The server of pages and its clients, in one loop: clients are plain sockets that never block.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs/service/http.h"
#include "support/said.h"

#define PAGE "first line\nsecond line\n"

static uv_loop_t loop;
static struct http_server http;
static struct sockaddr_in addr;
static uv_async_t stop;

static char *page(void *arg, const char *path)
{
    assert_ptr_equal(arg, &addr);
    return strcmp(path, "/page") == 0 ? strdup(PAGE) : NULL;
}

static int set_up(void **state)
{
    int len = sizeof addr;

    (void)state;
    addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    http = (struct http_server){.page = page, .arg = &addr};
    return uv_loop_init(&loop) || http_open(&http, &loop, (struct sockaddr *)&addr) ||
           uv_tcp_getsockname(&http.listener, (struct sockaddr *)&addr, &len);
}

static int tear_down(void **state)
{
    (void)state;
    http_close(&http);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop); /* an error if anything is left */
}

static int come(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static void turn(void)
{
    uv_run(&loop, UV_RUN_NOWAIT);
    usleep(1000);
}

/* All that comes until the server ends the connection, in 2 s. */
static const char *answer(int fd)
{
    static char text[1000];
    size_t len = 0;
    ssize_t octets = -1;

    for (int i = 0; i < 2000 && octets != 0; i++) {
        turn();
        octets = recv(fd, text + len, sizeof text - 1 - len, 0);
        assert_true(octets >= 0 || errno == EAGAIN);
        len += octets > 0 ? (size_t)octets : 0;
    }
    assert_int_equal(octets, 0);
    close(fd);
    text[len] = '\0';
    return text;
}

static const char *asked(const char *request)
{
    int fd = come();

    assert_int_equal(send(fd, request, strlen(request), 0), strlen(request));
    return answer(fd);
}

static void request__of_a_page__is_answered_by_it(void **state)
{
    const char *text = asked("GET /page HTTP/1.1\r\nHost: x\r\n\r\n");
    char length[40];

    (void)state;
    assert_memory_equal(text, "HTTP/1.1 200 OK\r\n", 17);
    snprintf(length, sizeof length, "\r\nContent-Length: %zu\r\n", strlen(PAGE));
    assert_non_null(strstr(text, length));
    assert_non_null(strstr(text, "\r\n\r\n" PAGE));
}

static void request__in_pieces__is_the_same(void **state)
{
    static const char request[] = "GET /page HTTP/1.0\r\n\r\n";
    int fd = come();

    (void)state;
    for (size_t i = 0; i < sizeof request - 1; i++) {
        assert_int_equal(send(fd, request + i, 1, 0), 1);
        turn();
    }
    assert_non_null(strstr(answer(fd), PAGE));
}

static void request__that_cannot_be_met__is_refused(void **state)
{
    static char longer[5000] = "GET /page HTTP/1.1\r\nX: ";

    (void)state;
    assert_memory_equal(asked("GET /other HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 ", 13);
    assert_memory_equal(asked("POST /page HTTP/1.1\r\n\r\n"), "HTTP/1.1 405 ", 13);
    assert_memory_equal(asked("\r\n\r\n"), "HTTP/1.1 405 ", 13);
    memset(longer + strlen(longer), 'x', 4095 - strlen(longer));
    assert_memory_equal(asked(longer), "HTTP/1.1 431 ", 13);
}

static void client__beyond_the_places__waits_for_one(void **state)
{
    static const char request[] = "GET /page HTTP/1.1\r\n\r\n";
    int silent[HTTP_CLIENTS], last;
    char octet;

    (void)state;
    for (size_t i = 0; i < HTTP_CLIENTS; i++) {
        silent[i] = come();
        turn();
    }
    last = come();
    assert_int_equal(send(last, request, sizeof request - 1, 0), sizeof request - 1);
    for (int i = 0; i < 100; i++) {
        turn();
        assert_int_equal(recv(last, &octet, 1, 0), -1);
    }
    close(silent[7]);
    assert_non_null(strstr(answer(last), PAGE));
    for (size_t i = 0; i < HTTP_CLIENTS; i++) {
        if (i != 7) {
            close(silent[i]);
        }
    }
}

static void close__clients_that_have_asked_for_nothing__are_sent_away(void **state)
{
    int fd = come();

    (void)state;
    for (int i = 0; i < 20; i++) {
        turn();
    }
    http_close(&http);
    http_close(&http); /* once more: nothing happens */
    assert_string_equal(answer(fd), "");
}

static void open__an_address_that_is_taken__is_an_error(void **state)
{
    struct http_server other = {.page = page, .arg = &addr};

    (void)state;
    assert_int_equal(http_open(&other, &loop, (struct sockaddr *)&addr), UV_EADDRINUSE);
    uv_run(&loop, UV_RUN_NOWAIT); /* its handle is closed */
}

/* --- the other side: it blocks, so the server has a thread ---------------------------------------
 */

static void on_stop(uv_async_t *async)
{
    uv_close((uv_handle_t *)async, NULL);
    http_close(&http);
}

static void serve(void *arg)
{
    (void)arg;
    uv_run(&loop, UV_RUN_DEFAULT);
}

static void print__a_page_or_none__says_which(void **state)
{
    static struct said out, errors;
    bool page_good, other_good, nobody_good;
    uv_thread_t thread;

    (void)state;
    uv_async_init(&loop, &stop, on_stop);
    uv_thread_create(&thread, serve, NULL);
    said_begin(&out, STDOUT_FILENO);
    said_begin(&errors, STDERR_FILENO);
    page_good = http_print((struct sockaddr *)&addr, sizeof addr, "/page");
    other_good = http_print((struct sockaddr *)&addr, sizeof addr, "/other");
    uv_async_send(&stop);
    uv_thread_join(&thread);
    nobody_good = http_print((struct sockaddr *)&addr, sizeof addr, "/page");
    said_end(&errors);
    said_end(&out);
    assert_true(page_good);
    assert_false(other_good);
    assert_false(nobody_good);
    assert_string_equal(out.text, PAGE);
    assert_non_null(strstr(errors.text, "not the page"));
    assert_non_null(strstr(errors.text, strerror(ECONNREFUSED)));
}

static void print__a_page_that_breaks_off__is_an_error(void **state)
{
    static const char half[] = "HTTP/1.1 200 OK\r\nContent-Length: 23\r\n\r\nfirst line\n";
    static struct said out, errors;
    struct sockaddr_in there = addr;
    socklen_t len = sizeof there;
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    (void)state;
    there.sin_port = 0;
    assert_int_equal(bind(listener, (struct sockaddr *)&there, sizeof there), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&there, &len), 0);
    pid_t child = fork();
    if (child == 0) {
        char request[256];
        int fd = accept(listener, NULL, NULL);
        ssize_t n = read(fd, request, sizeof request);
        _exit(n <= 0 || write(fd, half, sizeof half - 1) < 0);
    }
    said_begin(&out, STDOUT_FILENO);
    said_begin(&errors, STDERR_FILENO);
    bool good = http_print((struct sockaddr *)&there, sizeof there, "/page");
    said_end(&errors);
    said_end(&out);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(listener);
    assert_false(good);
    assert_non_null(strstr(errors.text, "breaks off"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(request__of_a_page__is_answered_by_it),
        TEST(request__in_pieces__is_the_same),
        TEST(request__that_cannot_be_met__is_refused),
        TEST(client__beyond_the_places__waits_for_one),
        TEST(close__clients_that_have_asked_for_nothing__are_sent_away),
        TEST(open__an_address_that_is_taken__is_an_error),
        TEST(print__a_page_or_none__says_which),
        TEST(print__a_page_that_breaks_off__is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
