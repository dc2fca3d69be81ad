/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iwarp-cp ls, and the progress bar, against a server that begins as it should and then lies: what
 * cannot be ends the client with an error, and what only looks strange is printed in a way that
 * does nothing to a terminal and is valid JSON.
 */
#include "cp_host.h"

static unsigned lie; /* which one of a list */

static void add(struct cp_writer *writer, char letter)
{
    static const char types[] = "FDEAdLS";

    host_add(writer, (enum cp_record_type)(strchr(types, letter) - types + 1), "n", 5);
}

/* True if it is the OPEN, which has its answer then. */
static bool is_open_answered(const struct cp_message *request)
{
    bool is_open = request->type == CP_MESSAGE_OPEN;

    if (is_open) {
        host_send_opened(CP_KIND_DIRECTORY);
    }
    return is_open;
}

static const struct {
    const char *records;
    uint32_t data_len, flags;
} bad_lists[] = {
    {"D", 0, CP_FETCHED_END},
    {"FDE", 5, CP_FETCHED_END},
    {"E", 0, CP_FETCHED_END},
    {"A", 0, CP_FETCHED_END},
    {"L", 0, CP_FETCHED_END},
    {"dLL", 0, CP_FETCHED_END},
    {"dF", 0, CP_FETCHED_END},
    {"", 1, CP_FETCHED_END},
    {"", 0, 0},
    {"d", 0, 0},
};

static void answer_bad_list(const struct cp_message *request)
{
    struct cp_writer writer;

    if (is_open_answered(request)) {
        return;
    }
    uint8_t *buf =
        host_begin_fetched(&writer, request->slot, bad_lists[lie].data_len, bad_lists[lie].flags);
    for (const char *letter = bad_lists[lie].records; buf && *letter; letter++) {
        add(&writer, *letter);
    }
    if (buf) {
        host_send(&writer, buf);
    }
}

static void lists__that_cannot_be__are_refused(void **state)
{
    (void)state;
    for (lie = 0; lie < sizeof bad_lists / sizeof bad_lists[0]; lie++) {
        print_message("lie %u\n", lie);
        host_expect_broken("ls -r", answer_bad_list, "protocol");
    }
}

/* An answer is for another slot than the next one, the listing goes on after its end, it ends again
 * with something in it, or each request has two answers. */
static void answer_out_of_turn(const struct cp_message *request)
{
    struct cp_writer writer;
    unsigned number = host.requests; /* the first FETCH is 1 */

    if (is_open_answered(request)) {
        return;
    }
    bool is_end = (lie == 1 && number == 2) || (lie == 2 && number >= 2);
    for (unsigned times = lie == 3 ? 2 : 1; times > 0; times--) {
        uint8_t *buf = host_begin_fetched(&writer, request->slot ^ (lie == 0 && number == 3), 0,
                                          is_end ? CP_FETCHED_END : 0);
        if (buf) {
            add(&writer, 'F');
            host_send(&writer, buf);
        }
    }
}

static void answers__out_of_turn__are_refused(void **state)
{
    (void)state;
    for (lie = 0; lie < 4; lie++) {
        host_expect_broken("ls -r", answer_out_of_turn, "protocol");
    }
}

/* Four answers. Requests under way: 1, 2, 3, and then as many as there are slots. */
static void answer_in_four(const struct cp_message *request)
{
    struct cp_writer writer;

    if (is_open_answered(request)) {
        return;
    }
    uint8_t *buf =
        host_begin_fetched(&writer, request->slot, 0, host.requests < 4 ? 0 : CP_FETCHED_END);
    if (buf) {
        if (host.requests <= 4) {
            add(&writer, 'F');
        }
        host_send(&writer, buf);
    }
}

static void listing__of_several_answers__has_more_requests_under_way_with_each(void **state)
{
    (void)state;
    assert_int_equal(host_serve("ls", answer_in_four), CP_EXIT_OK);
    assert_int_equal(host.requests, 1 + 4 + (HOST_SLOTS - 1));
}

/* Names and times that look strange. */
static const char strange[] = "\033[31m\x9b"
                              "1m\xc2\x9b\r\n\a\"\\\xff\xc0\xaf\xed\xa0\x80";

static void answer_strangely(const struct cp_message *request)
{
    static const struct {
        int64_t mtime;
        uint32_t ns;
    } times[] = {{-2, 500000000}, {-1, 500000000}, {INT64_MIN, 999999999}, {INT64_MAX, 1}, {0, 0}};
    struct cp_record record = {.type = CP_RECORD_FILE, .mode = 0777, .size = INT64_MAX};
    struct cp_writer writer;

    if (is_open_answered(request)) {
        return;
    }
    uint8_t *buf = host_begin_fetched(&writer, request->slot, 0, CP_FETCHED_END);
    for (size_t i = 0; buf && i < sizeof times / sizeof times[0]; i++) {
        record.mtime = times[i].mtime;
        record.mtime_ns = times[i].ns;
        snprintf(record.name, sizeof record.name, "%s", strange);
        cp_record_write(&writer, &record);
    }
    if (buf) {
        host_send(&writer, buf);
    }
}

static void names__on_a_terminal__have_no_effect_there(void **state)
{
    (void)state;
    assert_int_equal(host_serve_on("ls", answer_strangely, true), CP_EXIT_OK);
    assert_non_null(
        strstr(host.out, "\\033[31m\\2331m\\302\\233\\015\\012\\007\"\\\\377\\300\\257"));
    for (const char *c = host.out; *c; c++) {
        assert_true((*c >= ' ' && *c < 0x7f) || *c == '\r' || *c == '\n');
    }
}

static void names_and_times__in_json__are_valid(void **state)
{
    (void)state;
    assert_int_equal(host_serve("ls --json", answer_strangely), CP_EXIT_OK);
    assert_non_null(strstr(host.out, "\"name\":\"\\u001b[31m\\udc9b1m\xc2\x9b\\r\\n\\u0007\\\"\\\\"
                                     "\\udcff\\udcc0\\udcaf\\udced\\udca0\\udc80\","));
    assert_non_null(strstr(host.out, "\"mtime\":-1.500000000}"));
    assert_non_null(strstr(host.out, "\"mtime\":-0.500000000}"));
    assert_non_null(strstr(host.out, "\"mtime\":-9223372036854775807.000000001}"));
    assert_non_null(strstr(host.out, "\"mtime\":9223372036854775807.000000001}"));
}

/* Totals that cannot be, for the progress bar. */
static void answer_with_totals(const struct cp_message *request)
{
    struct cp_writer writer;
    struct cp_opened opened = {
        .kind = CP_KIND_FILE,
        .stag = iwarp_mr_stag(host.channel.slot_mr),
        .to = (uint64_t)(uintptr_t)host.channel.slot_memory,
        .total_files = UINT64_MAX,
        .total_bytes = UINT64_MAX,
    };
    bool is_open = request->type == CP_MESSAGE_OPEN;
    uint8_t *buf = is_open ? host_begin(&writer, CP_MESSAGE_OPENED, 0)
                           : host_begin_fetched(&writer, request->slot, host.requests == 1 ? 5 : 0,
                                                CP_FETCHED_END);
    if (!buf) {
        return;
    }
    if (is_open) {
        cp_opened_write(&writer, &opened);
    } else if (host.requests == 1) {
        add(&writer, 'F');
        add(&writer, 'D');
        add(&writer, 'E');
        poll(NULL, 0, 200); /* for the bar to be drawn with a speed */
    }
    host_send(&writer, buf);
}

static void totals__that_cannot_be__leave_the_bar_whole(void **state)
{
    (void)state;
    assert_int_equal(host_serve_on("get", answer_with_totals, true), CP_EXIT_OK);
    assert_non_null(strstr(host.out, " left"));
    assert_null(strstr(host.out, "-"));
}

int main(void)
{
#define WITH_HOST(test) cmocka_unit_test_setup_teardown(test, host_setup, host_teardown)
    const struct CMUnitTest tests[] = {
        WITH_HOST(lists__that_cannot_be__are_refused),
        WITH_HOST(answers__out_of_turn__are_refused),
        WITH_HOST(listing__of_several_answers__has_more_requests_under_way_with_each),
        WITH_HOST(names__on_a_terminal__have_no_effect_there),
        WITH_HOST(names_and_times__in_json__are_valid),
        WITH_HOST(totals__that_cannot_be__leave_the_bar_whole),
    };

    return cmocka_run_group_tests_name("cp_hostile_list", tests, NULL, NULL);
}
