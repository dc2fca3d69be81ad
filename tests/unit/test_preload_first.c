/* SPDX-License-Identifier: BSD-2-Clause */
/* Of the preload library for sockets: what first octets say, and peers that are remembered. */
#include "preload/peers.h"
#include "preload/request.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* --- the first octets ------------------------------------------------------------------------ */

static void first_octets__of_an_mpa_request__are_a_request(void **state)
{
    (void)state;
    assert_int_equal(first_octets("MPA ID Req Frame\x40\x02\x00\x3c", 20), FIRST_REQUEST);
    assert_int_equal(first_octets("MPA ID Req Frame", 16), FIRST_REQUEST);
}

static void first_octets__each_shorter_piece_of_the_key__is_a_part(void **state)
{
    (void)state;
    assert_int_equal(first_octets("", 0), FIRST_NOTHING);
    for (size_t n = 1; n < FIRST_OCTETS; n++) {
        assert_int_equal(first_octets("MPA ID Req Frame", n), FIRST_PART);
    }
}

static void request__with_all_its_private_data__is_whole(void **state)
{
    (void)state;
    static const char none[REQUEST_OCTETS] = "MPA ID Req Frame\x40\x02\x00\x00";
    static const char most[REQUEST_OCTETS + 1] = "MPA ID Req Frame\x40\x02\x02\x00";
    static const char more[REQUEST_OCTETS] = "MPA ID Req Frame\x40\x02\xff\xff";

    assert_false(request_is_whole(none, 0));
    for (size_t n = 1; n < REQUEST_OCTETS; n++) {
        assert_int_equal(request_is_whole(none, n), n >= 20);
        assert_false(request_is_whole(most, n));
    }
    assert_true(request_is_whole(most, REQUEST_OCTETS));
    assert_false(request_is_whole(more, REQUEST_OCTETS));
    assert_false(request_is_whole("MPA ID Rep Frame\x40\x02\x00\x00", 20));
}

static void first_octets__one_octet_differs__are_a_programs(void **state)
{
    (void)state;
    for (size_t i = 0; i < FIRST_OCTETS; i++) {
        char octets[] = "MPA ID Req Frame";
        octets[i] ^= 1;
        assert_int_equal(first_octets(octets, FIRST_OCTETS), FIRST_OTHER);
        assert_int_equal(first_octets(octets, i + 1), FIRST_OTHER);
    }
    assert_int_equal(first_octets("MPA ID Rep Frame", 16), FIRST_OTHER);
    assert_int_equal(first_octets("GET / HTTP/1.1\r\n", 16), FIRST_OTHER);
}

/* --- peers without RDMA ---------------------------------------------------------------------- */

static struct sockaddr_in v4(const char *address, uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};

    assert_int_equal(inet_pton(AF_INET, address, &a.sin_addr), 1);
    return a;
}

static bool has(const struct sockaddr_in *a, int64_t now)
{
    return peers_is_plain((const struct sockaddr *)a, sizeof *a, now);
}

static void plain_peer__within_its_time__is_known_by_address_and_port(void **state)
{
    const struct sockaddr_in one = v4("192.0.2.1", 80), port = v4("192.0.2.1", 81),
                             host = v4("192.0.2.2", 80);
    struct sockaddr_in same = one;

    (void)state;
    memset(same.sin_zero, 0x55, sizeof same.sin_zero); /* no part of the name */
    assert_false(has(&one, 1000));
    peers_note_plain((const struct sockaddr *)&one, sizeof one, 1000);
    assert_true(has(&same, 1000));
    assert_true(has(&one, 1000 + PLAIN_PEERS_MS - 1));
    assert_false(has(&one, 1000 + PLAIN_PEERS_MS));
    assert_false(has(&port, 1000));
    assert_false(has(&host, 1000));
}

static void plain_peer__of_ipv6__is_known_by_all_of_its_address(void **state)
{
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(80)};

    (void)state;
    assert_int_equal(inet_pton(AF_INET6, "2001:db8::1", &a.sin6_addr), 1);
    peers_note_plain((const struct sockaddr *)&a, sizeof a, 1000);
    assert_true(peers_is_plain((const struct sockaddr *)&a, sizeof a, 1000));
    a.sin6_addr.s6_addr[15] = 2;
    assert_false(peers_is_plain((const struct sockaddr *)&a, sizeof a, 1000));
}

static void plain_peer__too_many_after_it__is_forgotten(void **state)
{
    const struct sockaddr_in first = v4("198.51.100.1", 1);

    (void)state;
    peers_note_plain((const struct sockaddr *)&first, sizeof first, 1000);
    for (uint16_t i = 0; i < PLAIN_PEERS; i++) {
        const struct sockaddr_in other = v4("203.0.113.1", (uint16_t)(i + 1));
        assert_int_equal(has(&first, 1000), true);
        peers_note_plain((const struct sockaddr *)&other, sizeof other, 1000);
    }
    assert_false(has(&first, 1000));
}

static bool has_answered(const struct sockaddr_in *a)
{
    return peers_has_answered((const struct sockaddr *)a, sizeof *a);
}

static void answer(const struct sockaddr_in *a)
{
    peers_note_answer((const struct sockaddr *)a, sizeof *a);
}

static void plain_peer__an_address_that_is_cut_short__is_none(void **state)
{
    const struct sockaddr_in one = v4("192.0.2.77", 80);

    (void)state;
    peers_note_plain((const struct sockaddr *)&one, sizeof one - 9, 1000);
    assert_false(has(&one, 1000));
}

static void answering_peer__is_known_by_address_alone(void **state)
{
    const struct sockaddr_in one = v4("192.0.2.9", 80), port = v4("192.0.2.9", 81),
                             host = v4("192.0.2.10", 80);

    (void)state;
    assert_false(has_answered(&one));
    answer(&one);
    assert_true(has_answered(&one));
    assert_true(has_answered(&port));
    assert_false(has_answered(&host));
}

static bool is_own(const char *here, const char *there, uint16_t port)
{
    const struct sockaddr_in local = v4(here, 4000), peer = v4(there, port);

    return peers_is_own((const struct sockaddr *)&local, (const struct sockaddr *)&peer,
                        sizeof peer);
}

static void own_peer__is_a_port_of_this_process_at_an_address_of_this_host(void **state)
{
    (void)state;
    assert_false(is_own("127.0.0.1", "127.0.0.1", 7471));
    peers_note_own(htons(7471));
    assert_true(is_own("127.0.0.1", "127.0.0.1", 7471));
    assert_true(is_own("127.0.0.1", "127.0.0.2", 7471));
    assert_true(is_own("192.0.2.1", "192.0.2.1", 7471));
    assert_false(is_own("192.0.2.1", "192.0.2.2", 7471));
    assert_false(is_own("192.0.2.1", "127.0.0.1", 7471));
    assert_false(is_own("127.0.0.1", "127.0.0.1", 7472));
}

static void answering_peer__too_many_after_it__is_forgotten(void **state)
{
    const struct sockaddr_in first = v4("198.51.100.2", 1);

    (void)state;
    answer(&first);
    for (unsigned i = 0; i < ANSWERING_PEERS; i++) {
        struct sockaddr_in other = v4("203.0.113.0", 1);
        other.sin_addr.s_addr = htonl(ntohl(other.sin_addr.s_addr) + i);
        assert_true(has_answered(&first));
        answer(&other);
        answer(&other); /* once is enough */
        assert_true(has_answered(&other));
    }
    assert_false(has_answered(&first));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_octets__of_an_mpa_request__are_a_request),
        cmocka_unit_test(first_octets__each_shorter_piece_of_the_key__is_a_part),
        cmocka_unit_test(request__with_all_its_private_data__is_whole),
        cmocka_unit_test(first_octets__one_octet_differs__are_a_programs),
        cmocka_unit_test(plain_peer__within_its_time__is_known_by_address_and_port),
        cmocka_unit_test(plain_peer__of_ipv6__is_known_by_all_of_its_address),
        cmocka_unit_test(plain_peer__too_many_after_it__is_forgotten),
        cmocka_unit_test(plain_peer__an_address_that_is_cut_short__is_none),
        cmocka_unit_test(answering_peer__is_known_by_address_alone),
        cmocka_unit_test(own_peer__is_a_port_of_this_process_at_an_address_of_this_host),
        cmocka_unit_test(answering_peer__too_many_after_it__is_forgotten),
    };
    return cmocka_run_group_tests_name("preload_first", tests, NULL, NULL);
}
