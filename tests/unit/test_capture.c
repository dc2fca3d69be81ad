/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * capture/capture: names, sharing, the bound, and everything that goes wrong with files. What is in
 * them: test_pcapng.c, test_headers.c, test_flow.c.
 */
#include "capture/capture.h"

#include "base/guard.h"
#include "child.h"
#include "recording.h"
#include "scratch.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define PLENTY (1 << 20)

static const struct iwarp_headers_addr addr[2] = {{.port = 1, .ip = {10, 0, 0, 1}},
                                                  {.port = 2, .ip = {10, 0, 0, 2}}};

static const char *in_scratch(const char *name)
{
    static char path[4][4096];
    static unsigned next;
    char *p = path[next++ % 4];

    snprintf(p, sizeof path[0], "%s/%s", scratch_path, name);
    return p;
}

static uint32_t seq;

static void add_syn(struct iwarp_capture *c)
{
    const struct iwarp_capture_packet p = {
        .headers = {&addr[0], &addr[1], 0, IWARP_TCP_SYN, seq++, 0}};

    iwarp_capture_add(c, &p);
}

static void add_octets(struct iwarp_capture *c, const void *octets, size_t n)
{
    const struct iovec iov = {(void *)(uintptr_t)octets, n};
    const struct iwarp_capture_packet p = {
        .headers = {&addr[0], &addr[1], 0, IWARP_TCP_PSH, seq, 0}, .iov = &iov, .len = n};

    iwarp_capture_add(c, &p);
    seq += (uint32_t)n;
}

static bool exists(const char *name)
{
    return access(in_scratch(name), F_OK) == 0;
}

/* --- names ----------------------------------------------------------------------------------- */

static void name__percent_signs__become_pid_and_percent(void **state)
{
    char expected[64];

    (void)state;
    snprintf(expected, sizeof expected, "a%%%d%%x.%d", (int)getpid(), (int)getpid());
    struct iwarp_capture *c = iwarp_capture_open(in_scratch("a%%%p%x.%p"), PLENTY);
    assert_non_null(c);
    assert_string_equal(c->path, in_scratch(expected));
    assert_true(exists(expected));
    iwarp_capture_close(c);
}

static void name__taken__gets_the_process_id_and_leaves_the_file_alone(void **state)
{
    char second[64], third[64], content[16];
    struct stat st;

    (void)state;
    scratch_write("taken.pcapng", "precious", 8);
    snprintf(second, sizeof second, "taken.%d.pcapng", (int)getpid());
    snprintf(third, sizeof third, "taken.%d-2.pcapng", (int)getpid());
    for (unsigned i = 0; i < 2; i++) {
        struct iwarp_capture *c = iwarp_capture_open(in_scratch("taken.pcapng"), PLENTY);
        assert_non_null(c);
        assert_string_equal(c->path, in_scratch(i == 0 ? second : third));
        assert_int_equal(fstat(c->fd, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        iwarp_capture_close(c);
    }
    assert_int_equal(scratch_read("taken.pcapng", content, sizeof content), 8);
    assert_memory_equal(content, "precious", 8);
}

static void name__taken_with_pid_in_it__gets_a_number(void **state)
{
    char second[64];

    (void)state;
    snprintf(second, sizeof second, "p%d-2", (int)getpid());
    iwarp_capture_close(iwarp_capture_open(in_scratch("p%p"), PLENTY));
    struct iwarp_capture *c = iwarp_capture_open(in_scratch("p%p"), PLENTY);
    assert_non_null(c);
    assert_string_equal(c->path, in_scratch(second));
    iwarp_capture_close(c);
}

static void name__of_a_link__is_not_followed(void **state)
{
    (void)state;
    assert_int_equal(symlink("nowhere", in_scratch("link")), 0);
    struct iwarp_capture *c = iwarp_capture_open(in_scratch("link"), PLENTY);
    assert_non_null(c);
    assert_string_not_equal(c->path, in_scratch("link"));
    assert_false(exists("nowhere"));
    iwarp_capture_close(c);
}

static void name__that_cannot_be__gives_none(void **state)
{
    (void)state;
    assert_null(iwarp_capture_open(in_scratch("no/such/directory"), PLENTY));
    assert_null(iwarp_capture_open("/proc/self/x", PLENTY));
    iwarp_capture_close(NULL);
}

/* --- sharing --------------------------------------------------------------------------------- */

static void same_name__twice__is_one_file_until_the_last_close(void **state)
{
    struct recording r;

    (void)state;
    struct iwarp_capture *a = iwarp_capture_open(in_scratch("shared"), PLENTY);
    struct iwarp_capture *other = iwarp_capture_open(in_scratch("other"), PLENTY);
    struct iwarp_capture *b = iwarp_capture_open(in_scratch("shared"), PLENTY);
    assert_true(a && a == b && a != other);
    add_syn(a);
    iwarp_capture_close(a);
    add_octets(b, "hello", 5);
    iwarp_capture_close(other);
    iwarp_capture_close(b);
    recording_load(&r, in_scratch("shared"));
    assert_int_equal(r.packets, 2);
    recording_expect(&r, 0, 0, "68656c6c6f");
    recording_free(&r);
    recording_load(&r, in_scratch("other"));
    assert_int_equal(r.packets, 0);
    recording_free(&r);
}

static int record_in_child(void *arg)
{
    struct iwarp_capture *parent = arg;

    if (fcntl(parent->fd, F_GETFD) >= 0) {
        return 1; /* the parent's descriptor */
    }
    struct iwarp_capture *c = iwarp_capture_open(in_scratch("forked"), PLENTY);
    if (!c || c == parent) {
        return 2;
    }
    seq = 7;
    add_syn(c);
    iwarp_capture_close(c);
    return 0;
}

static void fork__child_with_the_same_name__has_a_file_of_its_own(void **state)
{
    struct recording r;

    (void)state;
    struct iwarp_capture *c = iwarp_capture_open(in_scratch("forked"), PLENTY);
    add_syn(c);
    assert_int_equal(child_run(record_in_child, c), 0);
    add_octets(c, "parent", 6);
    iwarp_capture_close(c);
    recording_load(&r, in_scratch("forked"));
    assert_int_equal(r.packets, 2);
    recording_free(&r);
}

/* Threads add packets of their own connections; every block stays whole. */
struct adder {
    struct iwarp_capture *c;
    struct iwarp_headers_addr from;
};

static void *add_many(void *arg)
{
    struct adder *a = arg;

    for (uint32_t i = 0; i < 200; i++) {
        const struct iovec iov = {&i, sizeof i};
        const struct iwarp_capture_packet p = {.headers = {&a->from, &addr[1], 0,
                                                           i == 0 ? IWARP_TCP_SYN : IWARP_TCP_PSH,
                                                           i == 0 ? 0 : 4 * i - 3, 0},
                                               .iov = &iov,
                                               .len = i == 0 ? 0 : sizeof i};
        iwarp_capture_add(a->c, &p);
    }
    return NULL;
}

static void threads__adding_at_once__lose_nothing(void **state)
{
    struct adder adder[4];
    pthread_t thread[4];
    struct recording r;

    (void)state;
    struct iwarp_capture *c = iwarp_capture_open(in_scratch("threads"), PLENTY);
    for (uint8_t i = 0; i < 4; i++) {
        adder[i] = (struct adder){c, {.port = 100, .ip = {10, 0, 1, i}}};
        assert_int_equal(pthread_create(&thread[i], NULL, add_many, &adder[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
    }
    iwarp_capture_close(c);
    recording_load(&r, in_scratch("threads"));
    assert_int_equal(r.packets, 800);
    recording_free(&r);
}

/* --- what goes wrong ------------------------------------------------------------------------- */

static void bound__reached__ends_with_a_comment_and_below_it(void **state)
{
    static uint8_t octets[1000];
    struct recording r;

    (void)state;
    struct iwarp_capture *c = iwarp_capture_open(in_scratch("bound"), 8000);
    add_syn(c);
    for (unsigned i = 0; i < 20; i++) {
        add_octets(c, octets, sizeof octets);
    }
    assert_true(iwarp_capture_is_over(c));
    iwarp_capture_close(c);
    recording_load(&r, in_scratch("bound"));
    assert_true(r.file.n > 5000 && r.file.n <= 8000);
    assert_true(r.packets > 5 && r.packets < 9);
    for (unsigned i = 0; i < r.packets; i++) {
        assert_true(r.packet[i].cut == (i == r.packets - 1));
    }
    assert_non_null(strstr(r.packet[r.packets - 1].comment, "bound"));
    recording_free(&r);
}

static void bound__too_small_for_anything__gives_none(void **state)
{
    (void)state;
    assert_null(iwarp_capture_open(in_scratch("tiny"), IWARP_CAPTURE_LEAST - 1));
    assert_false(exists("tiny"));
    struct iwarp_capture *c = iwarp_capture_open(in_scratch("tiny"), IWARP_CAPTURE_LEAST);
    assert_non_null(c);
    add_syn(c);
    assert_false(iwarp_capture_is_over(c));
    iwarp_capture_close(c);
}

/* The limit of the process sinks after the file was opened: as a disk that fills up, in the middle
 * of a block. */
static int write_beyond(void *arg)
{
    static uint8_t octets[1000];
    struct iwarp_capture *c = iwarp_capture_open(arg, PLENTY);

    signal(SIGXFSZ, SIG_IGN);
    add_syn(c);
    uint64_t good = c->at;
    struct rlimit limit = {(rlim_t)good + 500, (rlim_t)good + 500};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
        return 1;
    }
    add_octets(c, octets, sizeof octets);
    if (!iwarp_capture_is_over(c) || c->at != good) {
        return 2;
    }
    add_octets(c, octets, 1);
    iwarp_capture_close(c);
    return 0;
}

static void write__that_fails__leaves_whole_blocks(void **state)
{
    struct recording r;

    (void)state;
    assert_int_equal(child_run(write_beyond, (void *)(uintptr_t)in_scratch("full")), 0);
    recording_load(&r, in_scratch("full"));
    assert_int_equal(r.packets, 1);
    recording_free(&r);
}

/* With the limit there from the beginning nobody is killed by SIGXFSZ. */
static int write_below(void *arg)
{
    static uint8_t octets[1000];
    struct rlimit limit = {6000, 6000};

    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
        return 1;
    }
    struct iwarp_capture *c = iwarp_capture_open(arg, PLENTY);
    add_syn(c);
    for (unsigned i = 0; i < 10; i++) {
        add_octets(c, octets, sizeof octets);
    }
    bool over = iwarp_capture_is_over(c);
    iwarp_capture_close(c);
    return over ? 0 : 2;
}

static void limit_of_the_process__is_a_bound(void **state)
{
    struct recording r;

    (void)state;
    assert_int_equal(child_run(write_below, (void *)(uintptr_t)in_scratch("limited")), 0);
    recording_load(&r, in_scratch("limited"));
    assert_true(r.packets > 3);
    recording_free(&r);
}

static void payload__gone__leaves_the_headers(void **state)
{
    struct recording r;
    uint8_t *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_ptr_not_equal(page, MAP_FAILED);
    assert_int_equal(munmap(page, 4096), 0);
    assert_int_equal(iwarp_guard_install(), 0);
    struct iwarp_capture *c = iwarp_capture_open(in_scratch("gone"), PLENTY);
    add_syn(c);
    add_octets(c, page, 100);
    add_octets(c, "after", 5);
    iwarp_capture_close(c);
    recording_load(&r, in_scratch("gone"));
    assert_int_equal(r.packets, 3);
    assert_true(r.packet[1].cut && r.packet[1].payload == 100);
    assert_non_null(strstr(r.packet[1].comment, "gone"));
    recording_expect(&r, 0, 0, "6166746572");
    recording_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(name__percent_signs__become_pid_and_percent),
        cmocka_unit_test(name__taken__gets_the_process_id_and_leaves_the_file_alone),
        cmocka_unit_test(name__taken_with_pid_in_it__gets_a_number),
        cmocka_unit_test(name__of_a_link__is_not_followed),
        cmocka_unit_test(name__that_cannot_be__gives_none),
        cmocka_unit_test(same_name__twice__is_one_file_until_the_last_close),
        cmocka_unit_test(fork__child_with_the_same_name__has_a_file_of_its_own),
        cmocka_unit_test(bound__reached__ends_with_a_comment_and_below_it),
        cmocka_unit_test(bound__too_small_for_anything__gives_none),
        cmocka_unit_test(write__that_fails__leaves_whole_blocks),
        cmocka_unit_test(limit_of_the_process__is_a_bound),
        cmocka_unit_test(payload__gone__leaves_the_headers),
        cmocka_unit_test(threads__adding_at_once__lose_nothing), /* last: no forks behind threads */
    };

    return cmocka_run_group_tests_name("capture", tests, scratch_setup, scratch_teardown);
}
