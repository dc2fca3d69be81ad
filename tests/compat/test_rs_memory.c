/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of rsockets: what a buffer was not used for is not there, and all of it goes with the
 * connection. Sizes are the kernel's, of the process.
 */
#include "rsockets.h"

#include <stdio.h>

#define LONG_BUFFER (4 << 20)
#define PAIRS       20
#define ROUNDS      64
#define MIB         ((size_t)1 << 20)

/*
 * Sizes say nothing under a sanitizer or an emulator. The first adds memory of its own, and keeps
 * freed memory. The second takes all addresses when it starts.
 */
static bool is_judged(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return false;
#else
    return !getenv("TEST_EMULATED"); /* tools/emulated */
#endif
}

/* Octets; of addresses, or of pages that are there. */
enum size { ADDRESSES, RESIDENT };

static size_t size_of(enum size which)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages[2] = {0};

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &pages[0], &pages[1]), 2);
    fclose(file);
    return pages[which] * (size_t)sysconf(_SC_PAGESIZE);
}

static void exchange(const int fds[2])
{
    char octet = 'a';

    for (unsigned from = 0; from < 2; from++) {
        send_octets(fds[from], "x", 1);
        assert_int_equal(works(rrecv(fds[!from], &octet, 1, 0)), 1);
        assert_int_equal(octet, 'x');
    }
}

static void memory__of_long_buffers_that_are_hardly_used__is_not_there(void **state)
{
    int octets = LONG_BUFFER, fds[PAIRS][2];
    uint16_t port;
    int listener = listener_at(&port, 4);

    (void)state;
    works(rsetsockopt(listener, SOL_SOCKET, SO_RCVBUF, &octets, sizeof octets));
    works(rsetsockopt(listener, SOL_SOCKET, SO_SNDBUF, &octets, sizeof octets));
    size_t addresses = size_of(ADDRESSES), resident = size_of(RESIDENT);
    for (unsigned i = 0; i < PAIRS; i++) {
        fds[i][0] = works(rsocket(AF_INET, SOCK_STREAM, 0));
        works(rsetsockopt(fds[i][0], SOL_SOCKET, SO_RCVBUF, &octets, sizeof octets));
        works(rsetsockopt(fds[i][0], SOL_SOCKET, SO_SNDBUF, &octets, sizeof octets));
        connect_through(listener, port, fds[i]);
        exchange(fds[i]);
    }
    if (is_judged()) {
        assert_true(size_of(ADDRESSES) - addresses >= PAIRS * 4ul * LONG_BUFFER);
        assert_in_range(size_of(RESIDENT) - resident, 0, PAIRS * MIB);
    }
    for (unsigned i = 0; i < PAIRS; i++) {
        close_pair(fds[i]);
    }
    works(rclose(listener));
}

static void one_connection(void)
{
    int fds[2];

    make_pair(fds);
    exchange(fds);
    close_pair(fds);
}

/* They end after rclose has returned, so this end waits for it. */
static void memory__of_connections_that_have_ended__goes(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        one_connection();
    }
    sleep_ms(200);
    size_t before = size_of(ADDRESSES);
    for (unsigned i = 0; i < ROUNDS; i++) {
        one_connection();
    }
    for (unsigned i = 0; is_judged() && i < 100 && size_of(ADDRESSES) > before + 16 * MIB; i++) {
        sleep_ms(100);
    }
    if (is_judged()) {
        assert_in_range(size_of(ADDRESSES), 0, before + 16 * MIB);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory__of_long_buffers_that_are_hardly_used__is_not_there),
        cmocka_unit_test(memory__of_connections_that_have_ended__goes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
