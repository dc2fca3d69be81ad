/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iwarp-cp put against a server that begins as it should and then lies about what it has stored:
 * each lie that can be told from the truth ends the client with an error, in bounded time. At the
 * end answers damaged at random; SEED=n repeats.
 */
#include "cp_host.h"

#define ROUNDS      40
#define ALLOCATIONS 30

static unsigned lie; /* which one of a list */

enum {
    HONEST,
    NEVER_SENT,
    DONE_ALREADY,
    FAILED_WITH_SUCCESS,
    TWICE,
    OTHER_SLOT,
    NO_SLOT,
    FETCHED,
    HALF_A_FAILURE,
    NOTHING,
    LIES
};

/* A source of many slots. */
static int setup(void **state)
{
    static const uint8_t octets[64 * 1024];

    if (host_setup(state) != 0) {
        return -1;
    }
    scratch_mkdir("source");
    for (char name[] = "source/a"; name[7] <= 'p'; name[7]++) {
        scratch_write(name, octets, sizeof octets);
    }
    return 0;
}

static uint8_t *begin_stored(struct cp_writer *writer, unsigned slot)
{
    return host_begin(writer, CP_MESSAGE_STORED, slot);
}

static void answer_badly(const struct cp_message *request)
{
    struct cp_failure failure = {.result = {CP_IO, 0}};
    struct cp_writer writer;
    unsigned slot = request->slot;

    if (request->type == CP_MESSAGE_OPEN) {
        host_send_opened(CP_KIND_NAME);
        return;
    }
    if (lie == NOTHING || (lie == OTHER_SLOT && host.requests == 1)) {
        return;
    }
    slot = lie == NO_SLOT ? HOST_SLOTS : slot;
    for (int i = lie == TWICE ? 2 : 1; i > 0; i--) {
        uint8_t *buf = begin_stored(&writer, slot);
        if (!buf) {
            return;
        }
        failure.sequence = lie == NEVER_SENT ? 1000 : 0;
        failure.result.status = lie == FAILED_WITH_SUCCESS ? CP_OK : CP_IO;
        if (lie == NEVER_SENT || lie == FAILED_WITH_SUCCESS ||
            (lie == DONE_ALREADY && host.requests > 8)) {
            cp_failure_write(&writer, &failure);
        }
        if (lie == HALF_A_FAILURE) {
            cp_add_number(&writer, 0, 5);
        }
        size_t len = cp_message_finish(&writer, buf);
        buf[0] = lie == FETCHED ? CP_MESSAGE_FETCHED : buf[0];
        host_send_octets(buf, len);
    }
}

static void answers__that_cannot_be__are_refused(void **state)
{
    (void)state;
    lie = HONEST;
    assert_int_equal(host_serve("put -r -q", answer_badly), CP_EXIT_OK);
    assert_string_equal(host.err, "");
    for (lie = HONEST + 1; lie < LIES; lie++) {
        print_message("lie %u\n", lie);
        host_expect_broken("put -r -q", answer_badly,
                           lie == NOTHING ? "nothing came from the server for 2 s" : "protocol");
    }
}

static void answer_with_a_flood(const struct cp_message *request)
{
    struct cp_writer writer;
    uint8_t *buf;

    (void)request;
    while ((buf = begin_stored(&writer, 0)) != NULL) {
        host_send(&writer, buf);
    }
}

static void messages__more_than_asked_for__are_refused(void **state)
{
    (void)state;
    host_expect_broken("put -r -q", answer_with_a_flood, "");
}

/* A reason that no version knows, with an errno that no system has: a sentence all the same. */
static void answer_with_an_unknown_reason(const struct cp_message *request)
{
    struct cp_writer writer;

    (void)request;
    uint8_t *buf = host_begin(&writer, CP_MESSAGE_FAILED, 0);
    if (buf) {
        cp_add_number(&writer, 65535, 2);
        cp_add_number(&writer, 65535, 2);
        host_send(&writer, buf);
    }
}

static void failure__for_an_unknown_reason__is_a_sentence(void **state)
{
    (void)state;
    host_expect_broken("put -r -q", answer_with_an_unknown_reason, "Unknown error 65535; ");
}

static void write_to_nowhere(const struct cp_message *request)
{
    struct cp_writer writer;
    struct cp_opened opened = {.kind = CP_KIND_NAME, .stag = 0xdeadbeef, .to = UINT64_MAX - 7};

    if (request->type == CP_MESSAGE_OPEN) {
        uint8_t *buf = host_begin(&writer, CP_MESSAGE_OPENED, 0);
        cp_opened_write(&writer, &opened);
        host_send(&writer, buf);
    }
}

static void slots__that_the_server_does_not_have__end_the_client(void **state)
{
    (void)state;
    host_expect_broken("put -r -q", write_to_nowhere, "the connection is lost");
}

static void answer_at_random(const struct cp_message *request)
{
    struct chance *chance = &host.chance;
    struct cp_writer writer;
    struct cp_failure failure = {.result = {CP_IO, 0}};

    if (request->type == CP_MESSAGE_OPEN) {
        host_send_opened((enum cp_kind)chance_below(chance, 3));
        return;
    }
    uint8_t *buf = begin_stored(&writer, request->slot);
    if (!buf || chance_one_in(chance, 50)) {
        return;
    }
    while (chance_one_in(chance, 4)) {
        failure.sequence = chance_below(chance, 20);
        cp_failure_write(&writer, &failure);
    }
    size_t len = cp_message_finish(&writer, buf);
    while (chance_one_in(chance, 4)) {
        buf[chance_below(chance, len)] = (uint8_t)chance_next(chance);
    }
    host_send_octets(buf, chance_one_in(chance, 16) ? chance_below(chance, len + 1) : len);
}

static void answers__damaged_at_random__never_do_harm(void **state)
{
    uint64_t seed = getenv("SEED") ? strtoull(getenv("SEED"), NULL, 10) : 1;

    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        print_message("SEED=%llu\n", (unsigned long long)(seed + round));
        host.chance.state = seed + round;
        int status = host_serve(round % 2 ? "put -r -q -c" : "put -r -q --json", answer_at_random);
        assert_true(status == CP_EXIT_OK || status == CP_EXIT_FAILED || status == CP_EXIT_BROKEN);
    }
}

/* Whichever allocation of the client fails: it ends with a sentence, if it cannot go on. */
static void memory__that_is_out__is_an_error(void **state)
{
    unsigned said = 0;

    (void)state;
    lie = HONEST;
    for (host.without = 1; host.without <= ALLOCATIONS; host.without++) {
        print_message("allocation %u\n", host.without);
        int status = host_serve("put -r -q", answer_badly);
        assert_true(status == CP_EXIT_OK || host.err[0]);
        said += strstr(host.err, "not enough memory; try a smaller --block") != NULL;
    }
    host.without = 0;
    assert_true(said > 0);
}

int main(void)
{
#define WITH_HOST(test) cmocka_unit_test_setup_teardown(test, setup, host_teardown)
    const struct CMUnitTest tests[] = {
        WITH_HOST(answers__that_cannot_be__are_refused),
        WITH_HOST(messages__more_than_asked_for__are_refused),
        WITH_HOST(failure__for_an_unknown_reason__is_a_sentence),
        WITH_HOST(slots__that_the_server_does_not_have__end_the_client),
        WITH_HOST(memory__that_is_out__is_an_error),
        WITH_HOST(answers__damaged_at_random__never_do_harm),
    };

    return cmocka_run_group_tests_name("cp_hostile_put", tests, NULL, NULL);
}
