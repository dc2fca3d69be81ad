/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * capture/stags: which STags the octets of a direction name, in pieces of any size.
 */
#include "capture/stags.h"

#include "base/guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "support/octets.h"

#define REQUEST "4d504120494420526571204672616d65"
#define REPLY   "4d504120494420526570204672616d65"
/* Five octets to STag 11223344; CRC off. */
#define WRITE "0013 c140 11223344 0000000000000008 68656c6c6f 000000 00000000"
#define SEND  "0017 4143 00000000 00000000 00000001 00000000 68656c6c6f 000000 00000000"
/* Of 16 octets from STag 00000500 into STag 00000a00. */
#define READ                                                                                       \
    "002e 4141 00000000 00000001 00000001 00000000 00000a00 0000000000000000 00000010 00000500 "   \
    "0000000000000000 00000000"
#define READ_OF_NOTHING                                                                            \
    "002e 4141 00000000 00000001 00000001 00000000 00000a00 0000000000000000 00000000 00000500 "   \
    "0000000000000000 00000000"
#define FETCH_ADD                                                                                  \
    "0046 414a 00000000 00000001 00000002 00000000 00000000 00000007 00000600 0000000000000010 "   \
    "0000000000000001 0000000000000000 0000000000000000 0000000000000000 00000000"

static char found[200];

static void note(void *arg, uint32_t stag, bool of_sender)
{
    const size_t n = strlen(found);

    assert_ptr_equal(arg, found);
    snprintf(found + n, sizeof found - n, "%s%08x ", of_sender ? "own:" : "", stag);
}

/* In pieces of `size` octets, each of them two of iovec. */
static void feed(struct iwarp_stags *s, const char *hex, size_t size)
{
    struct octets o = {0};

    octets_hex(&o, hex);
    for (size_t at = 0; at < o.n; at += size) {
        const size_t n = o.n - at < size ? o.n - at : size;
        const struct iovec iov[] = {{o.p, at}, {o.p + at, n / 2}, {o.p + at + n / 2, n - n / 2}};
        iwarp_stags_feed(s, iov, at, n, note, found);
    }
    octets_free(&o);
}

static void conversation__pieces_of_every_size__its_stags(void **state)
{
    (void)state;
    for (size_t size = 1; size < 320; size++) {
        struct iwarp_stags s = {0};
        found[0] = '\0';
        feed(&s, REQUEST "40010004 61626364" SEND WRITE READ FETCH_ADD READ_OF_NOTHING WRITE, size);
        assert_string_equal(found, "11223344 own:00000a00 00000500 00000600 11223344 ");
        assert_false(s.over);
        assert_false(s.peer_marked);
    }
}

static void reply__asks_for_markers__is_told(void **state)
{
    struct iwarp_stags s = {0};

    (void)state;
    feed(&s, REPLY "c0010000", 7);
    assert_true(s.started && s.peer_marked && !s.over);
}

static void no_iwarp__is_given_up(void **state)
{
    struct iwarp_stags s = {0};

    (void)state;
    found[0] = '\0';
    feed(&s, "474554202f20485454502f312e310d0a0d0a0d0a" WRITE, 5);
    assert_true(s.over);
    assert_string_equal(found, "");
}

/* Shorter than the header that it claims to be: what follows is found no more. */
static void length__shorter_than_its_header__is_given_up(void **state)
{
    struct iwarp_stags s = {0};

    (void)state;
    found[0] = '\0';
    feed(&s,
         REQUEST "40010000"
                 "0004 4141 00000000 00000001" WRITE WRITE WRITE WRITE,
         1000);
    assert_true(s.over);
    assert_string_equal(found, "");
}

static void memory_that_is_gone__is_given_up(void **state)
{
    struct iwarp_stags s = {0};
    uint8_t *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct iovec iov = {page, 20};

    (void)state;
    assert_ptr_not_equal(page, MAP_FAILED);
    assert_int_equal(munmap(page, 4096), 0);
    assert_int_equal(iwarp_guard_install(), 0);
    iwarp_stags_feed(&s, &iov, 0, 20, note, found);
    assert_true(s.over);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversation__pieces_of_every_size__its_stags),
        cmocka_unit_test(reply__asks_for_markers__is_told),
        cmocka_unit_test(no_iwarp__is_given_up),
        cmocka_unit_test(length__shorter_than_its_header__is_given_up),
        cmocka_unit_test(memory_that_is_gone__is_given_up),
    };

    return cmocka_run_group_tests_name("stags", tests, NULL, NULL);
}
