/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iwarp-cp get against a server that begins as it should and then lies: each lie ends the client
 * with an error, in bounded time, and nothing is made but below the name that it asked for. At the
 * end answers damaged at random; SEED=n repeats.
 */
#include "cp_host.h"

#define ROUNDS 40

static unsigned lie; /* which one of a list */

/* Answer OPEN for a tree, and each FETCH with what the case says. */
static bool answered_open(const struct cp_message *request, enum cp_kind kind)
{
    if (request->type == CP_MESSAGE_OPEN) {
        host_send_opened(kind);
        return true;
    }
    return false;
}

/* --- records that cannot be ---------------------------------------------------------------------
 */

static const struct {
    const char *name;
    size_t len;
    uint32_t ns;
    uint64_t size;
} bad_files[] = {
    {"..", 2, 0, 0},         {".", 1, 0, 0},
    {"../out/x", 8, 0, 0},   {"/tmp/x", 6, 0, 0},
    {"a\0b", 3, 0, 0},       {"", 0, 0, 0},
    {"a/b", 3, 0, 0},        {".iwarp-cp.x", 11, 0, 0},
    {NULL, 256, 0, 0},       {NULL, 65535, 0, 0},
    {"f", 1, 1000000000, 0}, {"f", 1, UINT32_MAX, 0},
    {"f", 1, 0, UINT64_MAX}, {"f", 1, 0, (uint64_t)INT64_MAX + 1},
};

static void answer_bad_file(const struct cp_message *request)
{
    static const char longest[65535];
    struct cp_writer writer;

    if (answered_open(request, CP_KIND_DIRECTORY)) {
        return;
    }
    uint8_t *buf = host_begin_fetched(&writer, request->slot, 0, CP_FETCHED_END);
    if (!buf) {
        return;
    }
    host_add(&writer, CP_RECORD_DIRECTORY, "d", 0);
    cp_add_number(&writer, CP_RECORD_FILE, 1);
    cp_add_number(&writer, 0600, 4);
    cp_add_number(&writer, 0, 8);
    cp_add_number(&writer, bad_files[lie].ns, 4);
    cp_add_number(&writer, bad_files[lie].size, 8);
    cp_add_number(&writer, bad_files[lie].len, 2);
    cp_add(&writer, bad_files[lie].name ? bad_files[lie].name : longest,
           bad_files[lie].len < 300 ? bad_files[lie].len : 300);
    host_send(&writer, buf);
}

static void file_records__that_cannot_be__are_refused(void **state)
{
    (void)state;
    for (lie = 0; lie < sizeof bad_files / sizeof bad_files[0]; lie++) {
        host_expect_broken("get -r -q", answer_bad_file, "protocol");
        host_expect_clean();
    }
}

/* Each letter is a record (see add_letter); the data in the slot is as long as the number says. */
static const struct {
    const char *records;
    uint32_t data_len;
} bad_orders[] = {
    {"D", 5},      {"dFD", 4},  {"dFDDE", 10}, {"dFDE", 6},   {"dFDE", 5},
    {"dFE", 0},    {"dLL", 0},  {"dFd", 0},    {"dFF", 0},    {"dFL", 0},
    {"E", 0},      {"A", 0},    {"L", 0},      {"dFDEEL", 5}, {"dFDEL?", 5},
    {"dF0DEL", 5}, {"dLdL", 0}, {"dS!L", 0},   {"dFDsL", 5},
};

static void add_letter(struct cp_writer *writer, char letter)
{
    static const char types[] = "FDEAdLS";
    struct cp_record digest = {.type = CP_RECORD_END, .digest_len = 5};

    if (letter == '?') {
        cp_add_number(writer, 99, 1);
    } else if (letter == '0') {
        host_add(writer, CP_RECORD_DATA, "", 0);
    } else if (letter == 's') {
        cp_record_write(writer, &digest);
    } else if (letter == '!') {
        cp_add_number(writer, CP_RECORD_SKIP, 1); /* with OK as the reason */
        cp_add_number(writer, 0, 4);
        cp_add_number(writer, 1, 2);
        cp_add(writer, "x", 1);
    } else {
        enum cp_record_type type = (enum cp_record_type)(strchr(types, letter) - types + 1);
        bool has_number = letter == 'F' || letter == 'D';
        host_add(writer, type, letter == 'd' ? "d" : "f", has_number ? 5 : 0);
    }
}

static void answer_bad_order(const struct cp_message *request)
{
    bool is_first = host.requests == 1;
    struct cp_writer writer;

    if (answered_open(request, CP_KIND_DIRECTORY)) {
        return;
    }
    uint8_t *buf = host_begin_fetched(&writer, request->slot,
                                      is_first ? bad_orders[lie].data_len : 0, CP_FETCHED_END);
    for (const char *letter = bad_orders[lie].records; buf && is_first && *letter; letter++) {
        add_letter(&writer, *letter);
    }
    if (buf) {
        host_send(&writer, buf);
    }
}

static void records__in_an_order_that_cannot_be__are_refused(void **state)
{
    (void)state;
    for (lie = 0; lie < sizeof bad_orders / sizeof bad_orders[0]; lie++) {
        host_expect_broken("get -r -q", answer_bad_order, "protocol");
        host_expect_clean();
    }
}

/* --- answers that cannot be ---------------------------------------------------------------------
 */

enum {
    TWICE,
    OTHER_SLOT,
    NO_SLOT,
    TOO_LONG,
    STORED,
    OPENED_AGAIN,
    CUT,
    EMPTY,
    NOTHING,
    ANSWER_LIES
};

static void answer_badly(const struct cp_message *request)
{
    unsigned slot = request->slot;
    struct cp_writer writer;
    uint8_t *buf;

    if (answered_open(request, CP_KIND_DIRECTORY)) {
        return;
    }
    if (lie == OTHER_SLOT || lie == TWICE) {
        /* Wait until two are asked for. */
        slot = lie == OTHER_SLOT ? 1 : 0;
        if (request->slot != 1) {
            return;
        }
    }
    slot = lie == NO_SLOT ? HOST_SLOTS + host.requests : slot;
    for (int i = lie == TWICE ? 2 : 1; i > 0; i--) {
        buf = host_begin_fetched(&writer, slot, lie == TOO_LONG ? HOST_SLOT_SIZE + 1 : 0, 0);
        if (!buf) {
            return;
        }
        if (host.requests == 1 || lie == OTHER_SLOT || (lie == TWICE && i == 2)) {
            host_add(&writer, CP_RECORD_DIRECTORY, "d", 0);
        } else if (lie != EMPTY && lie != NOTHING) {
            host_add(&writer, CP_RECORD_SKIP, "s", 0);
        }
        size_t len = cp_message_finish(&writer, buf);
        buf[0] = lie == STORED         ? CP_MESSAGE_STORED
                 : lie == OPENED_AGAIN ? CP_MESSAGE_OPENED
                                       : buf[0];
        if (lie == NOTHING) {
            return;
        }
        host_send_octets(buf, lie == CUT ? len - 1 : len);
    }
}

static void answers__that_cannot_be__are_refused(void **state)
{
    (void)state;
    for (lie = 0; lie < ANSWER_LIES; lie++) {
        print_message("lie %u\n", lie);
        host_expect_broken("get -r -q", answer_badly,
                           lie == NOTHING ? "nothing came from the server for 2 s" : "protocol");
        host_expect_clean();
    }
}

static void answer_with_a_flood(const struct cp_message *request)
{
    struct cp_writer writer;
    uint8_t *buf;

    if (answered_open(request, CP_KIND_DIRECTORY)) {
        /* Beside the answer, more than was asked for and than there are receives. */
        while ((buf = host_begin_fetched(&writer, 0, 0, 0)) != NULL) {
            host_add(&writer, CP_RECORD_SKIP, "s", 0);
            host_send(&writer, buf);
        }
    }
}

static void messages__more_than_asked_for__are_refused(void **state)
{
    (void)state;
    host_expect_broken("get -r -q", answer_with_a_flood, "");
    host_expect_clean();
}

/* --- memory -------------------------------------------------------------------------------------
 */

static void answer_with_other_slots(const struct cp_message *request)
{
    struct cp_writer writer;
    struct cp_opened opened = {.kind = CP_KIND_FILE, .stag = 0xdeadbeef, .to = UINT64_MAX - 7};
    uint8_t *buf;

    if (request->type == CP_MESSAGE_OPEN) {
        buf = host_begin(&writer, CP_MESSAGE_OPENED, 0);
        cp_opened_write(&writer, &opened);
    } else {
        buf = host_begin_fetched(&writer, request->slot, 5, CP_FETCHED_END);
        if (buf) {
            add_letter(&writer, 'F');
            add_letter(&writer, 'D');
            add_letter(&writer, 'E');
        }
    }
    if (buf) {
        host_send(&writer, buf);
    }
}

static void slots__that_the_server_does_not_have__end_the_client(void **state)
{
    (void)state;
    host_expect_broken("get -q", answer_with_other_slots, "the connection is lost");
    assert_int_equal(scratch_count("in"), 0);
    host_expect_clean();
}

static uint32_t too_many;

static void answer_with_more_slots(const struct cp_message *request)
{
    struct cp_writer writer;
    struct cp_opened opened = {.kind = CP_KIND_FILE, .slots = too_many};
    uint8_t *buf = host_begin(&writer, CP_MESSAGE_OPENED, 0);

    (void)request;
    cp_opened_write(&writer, &opened);
    host_send(&writer, buf);
}

static void slots__more_than_were_granted__end_the_client(void **state)
{
    static const char *const verbs[] = {"get -q", "ls"};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        too_many = i % 2 ? UINT32_MAX : HOST_SLOTS + 1;
        host_expect_broken(verbs[i / 2], answer_with_more_slots, "protocol");
        assert_int_equal(host.requests, 1); /* the OPEN */
    }
    host_expect_clean();
}

/* 64 slots of 16 MiB were wished for, but 64 MiB are the most. */
static void slots__of_more_memory_than_may_be__end_the_client(void **state)
{
    (void)state;
    host.slots = CP_SLOT_MEMORY_MAX / CP_SLOT_SIZE_MAX + 1;
    assert_int_equal(host_serve("get -q --block 16M", answer_with_more_slots), CP_EXIT_CONNECTION);
    assert_non_null(strstr(host.err, "not as iwarp-cp does"));
    assert_int_equal(host.requests, 0);
}

/* Write to or read from memory of the client, which offers none. */
static void reach_into_the_client(const struct cp_message *request)
{
    struct cp_target target = {(uint32_t)chance_next(&host.chance), chance_next(&host.chance)};
    int index = cp_channel_free_message(&host.channel);

    (void)request;
    if (index >= 0 && host.number % 2 == 0) {
        (void)cp_channel_send(&host.channel, (unsigned)index, CP_HEAD_LEN, 0, 64, target);
    } else if (index >= 0) {
        (void)cp_channel_read(&host.channel, 0, 64, target);
    }
}

static void memory_of_the_client__is_out_of_reach(void **state)
{
    (void)state;
    host.chance.state = 1;
    for (unsigned i = 0; i < 4; i++) {
        host.number = i;
        host_expect_broken("get -q", reach_into_the_client, "the connection is lost");
        host_expect_clean();
    }
}

/* --- files --------------------------------------------------------------------------------------
 */

static void answer_with_a_wrong_sum(const struct cp_message *request)
{
    struct cp_record end = {.type = CP_RECORD_END, .digest_len = lie ? CP_DIGEST_LEN : 0};
    struct cp_writer writer;

    if (answered_open(request, CP_KIND_FILE)) {
        return;
    }
    uint8_t *buf =
        host_begin_fetched(&writer, request->slot, host.requests == 1 ? 5 : 0, CP_FETCHED_END);
    if (buf && host.requests == 1) {
        add_letter(&writer, 'F');
        add_letter(&writer, 'D');
        cp_record_write(&writer, &end);
    }
    if (buf) {
        host_send(&writer, buf);
    }
}

static void checksum__wrong_or_missing__is_an_error_and_no_file(void **state)
{
    (void)state;
    for (lie = 0; lie < 2; lie++) {
        assert_int_equal(host_serve("get -q -c", answer_with_a_wrong_sum), CP_EXIT_FAILED);
        assert_non_null(strstr(host.err, "different SHA-256"));
        assert_int_equal(scratch_count("in"), 0);
    }
}

static void answer_with_directories(const struct cp_message *request)
{
    struct cp_writer writer;

    if (answered_open(request, CP_KIND_DIRECTORY)) {
        return;
    }
    bool is_last = host.requests >= 40;
    uint8_t *buf = host_begin_fetched(&writer, request->slot, 0, is_last ? CP_FETCHED_END : 0);
    if (!buf) {
        return;
    }
    add_letter(&writer, host.requests == 1 || lie ? 'd' : 'S');
    for (unsigned i = 0; i < 100; i++) {
        add_letter(&writer, 'd');
        add_letter(&writer, lie ? 'd' : 'L');
    }
    if (is_last) {
        add_letter(&writer, 'L');
    }
    host_send(&writer, buf);
}

static void directories__the_same_again_and_again__are_one(void **state)
{
    (void)state;
    lie = 0;
    assert_int_equal(host_serve("get -r -q --depth 1", answer_with_directories), CP_EXIT_FAILED);
    assert_int_equal(scratch_count("in/copy"), 1);
    assert_int_equal(scratch_count("in/copy/d"), 0);
    lie = 1;
    host_expect_broken("get -r -q --depth 1", answer_with_directories, "protocol");
    host_expect_clean();
}

/* A directory becomes a link to another one while the server sends into it, and again. */
static void answer_while_links_are_made(const struct cp_message *request)
{
    static const char *const pieces[] = {"dd", "FDE", "LdFDE", "LL"};
    unsigned piece = host.requests - 1;
    struct cp_writer writer;

    if (answered_open(request, CP_KIND_DIRECTORY)) {
        return;
    }
    if (piece == 1) {
        assert_int_equal(renameat(scratch_fd, "in/copy/d", scratch_fd, "in/copy/was-d"), 0);
        assert_int_equal(symlinkat("../../out", scratch_fd, "in/copy/d"), 0);
    }
    piece = piece < 3 ? piece : 3;
    bool has_data = piece == 1 || piece == 2;
    uint8_t *buf = host_begin_fetched(&writer, request->slot, has_data ? 5 : 0,
                                      piece == 3 ? CP_FETCHED_END : 0);
    for (const char *letter = pieces[piece]; buf && *letter; letter++) {
        add_letter(&writer, *letter);
    }
    if (buf) {
        host_send(&writer, buf);
    }
}

static void directory__that_becomes_a_link__leads_nowhere(void **state)
{
    char content[8];

    (void)state;
    assert_int_equal(host_serve("get -r -q --depth 1", answer_while_links_are_made),
                     CP_EXIT_FAILED);
    host_expect_clean();
    assert_int_equal(scratch_read("in/copy/was-d/f", content, sizeof content), 5);
}

/* --- at random ----------------------------------------------------------------------------------
 */

static void answer_at_random(const struct cp_message *request)
{
    static const char letters[] = "FFFDDDEEEAdddLLLS";
    struct cp_writer writer;
    struct chance *chance = &host.chance;

    if (answered_open(request, CP_KIND_DIRECTORY)) {
        return;
    }
    uint8_t *buf =
        host_begin_fetched(&writer, request->slot, (uint32_t)(5 * chance_below(chance, 3)),
                           chance_one_in(chance, 8) ? CP_FETCHED_END : 0);
    if (!buf || chance_one_in(chance, 50)) {
        return;
    }
    if (host.requests == 1) {
        add_letter(&writer, 'd');
    }
    for (size_t n = chance_below(chance, 8); n > 0; n--) {
        add_letter(&writer, letters[chance_below(chance, sizeof letters - 1)]);
    }
    size_t len = cp_message_finish(&writer, buf);
    while (chance_one_in(chance, 2)) {
        buf[chance_below(chance, len)] = (uint8_t)chance_next(chance);
    }
    host_send_octets(buf, chance_one_in(chance, 8) ? chance_below(chance, len + 1) : len);
}

static void answers__damaged_at_random__never_do_harm(void **state)
{
    uint64_t seed = getenv("SEED") ? strtoull(getenv("SEED"), NULL, 10) : 1;

    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        print_message("SEED=%llu\n", (unsigned long long)(seed + round));
        host.chance.state = seed + round;
        int status = host_serve(round % 2 ? "get -r -q -c" : "get -r -q --json", answer_at_random);
        assert_true(status == CP_EXIT_OK || status == CP_EXIT_FAILED || status == CP_EXIT_BROKEN);
        host_expect_clean();
    }
}

int main(void)
{
#define WITH_HOST(test) cmocka_unit_test_setup_teardown(test, host_setup, host_teardown)
    const struct CMUnitTest tests[] = {
        WITH_HOST(file_records__that_cannot_be__are_refused),
        WITH_HOST(records__in_an_order_that_cannot_be__are_refused),
        WITH_HOST(answers__that_cannot_be__are_refused),
        WITH_HOST(messages__more_than_asked_for__are_refused),
        WITH_HOST(slots__that_the_server_does_not_have__end_the_client),
        WITH_HOST(slots__more_than_were_granted__end_the_client),
        WITH_HOST(slots__of_more_memory_than_may_be__end_the_client),
        WITH_HOST(memory_of_the_client__is_out_of_reach),
        WITH_HOST(checksum__wrong_or_missing__is_an_error_and_no_file),
        WITH_HOST(directories__the_same_again_and_again__are_one),
        WITH_HOST(directory__that_becomes_a_link__leads_nowhere),
        WITH_HOST(answers__damaged_at_random__never_do_harm),
    };

    return cmocka_run_group_tests_name("cp_hostile_get", tests, NULL, NULL);
}
