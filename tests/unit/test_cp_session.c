/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The server against clients that do not keep to the protocol. The server runs in a child process;
 * the client here is made of the same channel, but says what it likes. Each time the client is told
 * or cut off, the server goes on for the next one, and nothing outside its directory is touched.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs/cp/channel.h"
#include "programs/cp/options.h"
#include "programs/cp/record.h"
#include "programs/cp/server.h"
#include "programs/cp/wire.h"
#include "scratch.h"

#define WAIT_MS 90000

static pid_t server;
static struct sockaddr_in server_addr;
static struct iwarp_device *device;
static struct cp_channel channel;
static struct cp_target slots; /* of the server */

/* --- the server ---------------------------------------------------------------------------------
 */

static void run_server(int out)
{
    char directory[4200];
    char *argv[] = {(char[]){"iwarp-cp"},
                    (char[]){"serve"},
                    (char[]){"--listen"},
                    (char[]){"127.0.0.1:0"},
                    (char[]){"--idle"},
                    (char[]){"2"},
                    directory,
                    NULL};
    static struct cp_options options;

    snprintf(directory, sizeof directory, "%s/in", scratch_path);
    dup2(out, STDOUT_FILENO);
    _exit(cp_options_parse(7, argv, &options) ? cp_run_serve(&options) : 99);
}

static int start_server(void **state)
{
    int fds[2];
    char line[64] = "";
    unsigned port = 0;

    if (scratch_setup(state) != 0 || pipe(fds) != 0) {
        return -1;
    }
    scratch_mkdir("in");
    scratch_mkdir("in/sub");
    scratch_write("in/file", "hello", 5);
    scratch_write("secret", "secret", 6);
    fflush(NULL);
    server = fork();
    if (server == 0) {
        run_server(fds[1]);
    }
    close(fds[1]);
    ssize_t n = read(fds[0], line, sizeof line - 1);
    close(fds[0]);
    if (n <= 0 || sscanf(line, "listening on 127.0.0.1:%u", &port) != 1) {
        return -1;
    }
    server_addr = (struct sockaddr_in){.sin_family = AF_INET,
                                       .sin_port = htons((uint16_t)port),
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return iwarp_device_open(NULL, &device) != IWARP_OK;
}

/* The server has survived everything, and ends in order. */
static int stop_server(void **state)
{
    int status = -1;

    iwarp_device_close(device);
    if (kill(server, SIGTERM) != 0 || waitpid(server, &status, 0) != server) {
        return -1;
    }
    scratch_teardown(state);
    return status;
}

/* --- the client ---------------------------------------------------------------------------------
 */

static enum iwarp_status connect_open(const void *private_data, size_t len)
{
    assert_true(cp_channel_use_slots(&channel, 4));
    assert_int_equal(cp_channel_add_slots(&channel, IWARP_ACCESS_LOCAL_WRITE), IWARP_OK);
    assert_int_equal(iwarp_connect(channel.qp, (struct sockaddr *)&server_addr, sizeof server_addr,
                                   NULL, private_data, len, NULL, NULL, &channel.conn),
                     IWARP_OK);
    return iwarp_conn_wait(channel.conn, WAIT_MS);
}

static enum iwarp_status connect_with(const void *private_data, size_t len)
{
    assert_int_equal(cp_channel_open(&channel, device, 4, 65536), IWARP_OK);
    return connect_open(private_data, len);
}

static void connect_well(void)
{
    uint8_t data[CP_HELLO_LEN];
    struct cp_hello hello = {.version = CP_PROTOCOL_VERSION, .slots = 4, .slot_size = 65536};

    assert_int_equal(connect_with(data, cp_hello_write(data, &hello)), IWARP_OK);
}

static int close_client(void **state)
{
    (void)state;
    cp_channel_close(&channel);
    return 0;
}

/* Send len octets at data as a message. */
static void say(const void *data, size_t len)
{
    int index = cp_channel_free_message(&channel);

    assert_true(index >= 0);
    memcpy(cp_channel_message(&channel, (unsigned)index), data, len);
    assert_true(cp_channel_send(&channel, (unsigned)index, len, 0, 0, (struct cp_target){0, 0}));
}

/* The next message, or what else ends the waiting. */
static enum cp_event_type hear(struct cp_message *message)
{
    struct cp_event event;

    do {
        cp_channel_wait(&channel, &event, WAIT_MS);
    } while (event.type == CP_EVENT_SENT);
    if (event.type == CP_EVENT_MESSAGE) {
        assert_true(cp_message_read(event.data, event.len, message));
    }
    return event.type;
}

static void expect_failed(enum cp_status status)
{
    struct cp_message message;
    struct cp_result result;

    assert_int_equal(hear(&message), CP_EVENT_MESSAGE);
    assert_int_equal(message.type, CP_MESSAGE_FAILED);
    assert_true(cp_result_read(&message.body, &result));
    assert_int_equal(result.status, status);
    assert_int_equal(hear(&message), CP_EVENT_BROKEN);
}

static struct cp_result open_name(enum cp_action action, unsigned flags, const char *name)
{
    uint8_t buf[512];
    struct cp_open open = {action, flags, name, strlen(name)};
    struct cp_opened opened;
    struct cp_message message;
    struct cp_writer writer;

    cp_message_begin(&writer, buf, sizeof buf, CP_MESSAGE_OPEN, 0);
    cp_open_write(&writer, &open);
    say(buf, cp_message_finish(&writer, buf));
    assert_int_equal(hear(&message), CP_EVENT_MESSAGE);
    assert_int_equal(message.type, CP_MESSAGE_OPENED);
    assert_true(cp_opened_read(&message.body, &opened));
    slots = (struct cp_target){opened.stag, opened.to};
    return opened.result;
}

/* STORE of these records. */
static void store(unsigned slot, uint32_t data_len, const struct cp_record *records, size_t count)
{
    uint8_t buf[4096];
    struct cp_writer writer;
    struct cp_batch batch = {data_len, 0};

    cp_message_begin(&writer, buf, sizeof buf, CP_MESSAGE_STORE, slot);
    cp_batch_set(cp_batch_reserve(&writer), &batch);
    for (size_t i = 0; i < count; i++) {
        cp_record_write(&writer, &records[i]);
    }
    say(buf, cp_message_finish(&writer, buf));
}

static void write_to(struct cp_target target, size_t len)
{
    const uint8_t empty[CP_HEAD_LEN] = {CP_MESSAGE_FETCH};
    int index = cp_channel_free_message(&channel);

    memcpy(cp_channel_message(&channel, (unsigned)index), empty, sizeof empty);
    assert_true(cp_channel_send(&channel, (unsigned)index, sizeof empty, 0, len, target));
}

/* The stream ends with a Terminate that names this kind of error. */
static void expect_terminate(const char *words)
{
    struct cp_event event;
    char text[512];

    do {
        cp_channel_wait(&channel, &event, WAIT_MS);
    } while (event.type == CP_EVENT_SENT || event.type == CP_EVENT_MESSAGE);
    assert_int_equal(event.type, CP_EVENT_BROKEN);
    assert_non_null(iwarp_conn_fault(channel.conn));
    iwarp_fault_text(iwarp_conn_fault(channel.conn), text, sizeof text);
    if (!strstr(text, words)) {
        fail_msg("not about \"%s\": %s", words, text);
    }
}

/* --- tests --------------------------------------------------------------------------------------
 */

static void hello__not_ours__is_rejected(void **state)
{
    size_t len;
    struct cp_hello hello;

    (void)state;
    assert_int_equal(connect_with("something else that is long enough", 34), IWARP_PEER);
    assert_true(cp_hello_read(iwarp_conn_private_data(channel.conn, &len), CP_HELLO_LEN, &hello));
    assert_int_equal(hello.result.status, CP_VERSION);
    cp_channel_close(&channel);
    assert_int_equal(connect_with(NULL, 0), IWARP_PEER);
}

static void message__of_garbage__ends_the_session(void **state)
{
    static const uint8_t garbage[][12] = {
        {0},
        {CP_MESSAGE_OPENED},
        {CP_MESSAGE_FAILED, 0, 0, 0, 0, 0, 0, 4},
        {CP_MESSAGE_OPEN, 0, 0, 0, 0xff, 0xff, 0xff, 0xff},
        {CP_MESSAGE_OPEN, 0, 0, 0, 0, 0, 0, 4, 9, 0, 0, 0},
        {CP_MESSAGE_OPEN, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0xff, 0xff},
        {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
    };

    (void)state;
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        connect_well();
        say(garbage[i], sizeof garbage[i]);
        expect_failed(CP_MALFORMED);
        cp_channel_close(&channel);
    }
    connect_well();
    say("", 0);
    expect_failed(CP_MALFORMED);
}

static void request__before_open__ends_the_session(void **state)
{
    static const uint8_t fetch[CP_HEAD_LEN] = {CP_MESSAGE_FETCH};

    (void)state;
    connect_well();
    say(fetch, sizeof fetch);
    expect_failed(CP_MALFORMED);
    cp_channel_close(&channel);
    connect_well();
    store(0, 0, NULL, 0);
    expect_failed(CP_MALFORMED);
}

static void request__of_the_other_action__ends_the_session(void **state)
{
    static const uint8_t fetch[CP_HEAD_LEN] = {CP_MESSAGE_FETCH};

    (void)state;
    connect_well();
    assert_int_equal(open_name(CP_ACTION_PUT, CP_OPEN_INTO, "sub").status, CP_OK);
    say(fetch, sizeof fetch);
    expect_failed(CP_MALFORMED);
    cp_channel_close(&channel);
    connect_well();
    assert_int_equal(open_name(CP_ACTION_GET, 0, "file").status, CP_OK);
    store(0, 0, NULL, 0);
    expect_failed(CP_MALFORMED);
}

static void open__twice__ends_the_session(void **state)
{
    uint8_t buf[64];
    struct cp_writer writer;
    struct cp_open open = {CP_ACTION_GET, 0, "file", 4};

    (void)state;
    connect_well();
    assert_int_equal(open_name(CP_ACTION_PUT, CP_OPEN_INTO, "sub").status, CP_OK);
    cp_message_begin(&writer, buf, sizeof buf, CP_MESSAGE_OPEN, 0);
    cp_open_write(&writer, &open);
    say(buf, cp_message_finish(&writer, buf));
    expect_failed(CP_MALFORMED);
}

static void open__names_that_lead_out__are_refused(void **state)
{
    static const char *const names[] = {"..", "../secret", "sub/../../secret", "/../secret"};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        for (int action = CP_ACTION_PUT; action <= CP_ACTION_LIST; action++) {
            connect_well();
            assert_int_equal(open_name((enum cp_action)action, CP_OPEN_INTO, names[i]).status,
                             CP_OUTSIDE);
            cp_channel_close(&channel);
        }
    }
    connect_well();
}

/* The names of unfinished copies are for the server alone. */
static void open__reserved_names__are_refused(void **state)
{
    static const char *const names[] = {".iwarp-cp.x", "sub/.iwarp-cp.x", ".iwarp-cp.x/y"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        for (int action = CP_ACTION_PUT; action <= CP_ACTION_LIST; action++) {
            connect_well();
            assert_int_equal(open_name((enum cp_action)action, CP_OPEN_INTO, names[i]).status,
                             CP_RESERVED);
            cp_channel_close(&channel);
        }
    }
    assert_int_equal(scratch_count("in"), 2);
    assert_int_equal(scratch_count("in/sub"), 0);
    connect_well();
}

static void store__slot_or_length_out_of_bounds__ends_the_session(void **state)
{
    static const struct {
        unsigned slot;
        uint32_t data_len;
    } cases[] = {{4, 0}, {0xffff, 0}, {0, 65537}, {3, 0xffffffff}, {0, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        connect_well();
        assert_int_equal(open_name(CP_ACTION_PUT, CP_OPEN_INTO, "").status, CP_OK);
        store(cases[i].slot, cases[i].data_len, NULL, 0);
        expect_failed(CP_MALFORMED);
        cp_channel_close(&channel);
    }
    connect_well();
}

static void store__records_that_make_no_sense__end_the_session_and_leave_nothing(void **state)
{
    static const struct cp_record out[] = {{.type = CP_RECORD_FILE, .name = "../escaped"}};
    static const struct cp_record absolute[] = {{.type = CP_RECORD_DIRECTORY, .name = "/tmp"}};
    static const struct cp_record up[] = {{.type = CP_RECORD_DIRECTORY, .name = ".."}};
    static const struct cp_record beyond[] = {{.type = CP_RECORD_FILE, .name = "x", .size = 5},
                                              {.type = CP_RECORD_DATA, .data_len = 6}};
    static const struct cp_record leave[] = {{.type = CP_RECORD_LEAVE}};
    static const struct {
        const struct cp_record *records;
        size_t count;
        uint32_t data_len;
    } cases[] = {{out, 1, 0}, {absolute, 1, 0}, {up, 1, 0}, {beyond, 2, 6}, {leave, 1, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        connect_well();
        assert_int_equal(open_name(CP_ACTION_PUT, CP_OPEN_INTO, "sub").status, CP_OK);
        store(0, cases[i].data_len, cases[i].records, cases[i].count);
        expect_failed(CP_MALFORMED);
        cp_channel_close(&channel);
    }
    assert_int_equal(scratch_count("in/sub"), 0);
    assert_int_equal(scratch_count("."), 2);
    connect_well();
}

static void write__outside_the_slots__is_terminated(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct cp_target target;
        connect_well();
        assert_int_equal(open_name(CP_ACTION_PUT, CP_OPEN_INTO, "").status, CP_OK);
        target = slots;
        target.to += i == 0 ? 4 * 65536 - 4 : 0;
        target.to -= i == 1 ? 1 : 0;
        target.stag += i == 2 ? 1 : 0;
        write_to(target, 8);
        expect_terminate("layer 1");
        cp_channel_close(&channel);
    }
    connect_well();
}

/* The STag of a put can be written and not read, that of a get read and not written. */
static void stag__used_against_its_right__is_terminated(void **state)
{
    (void)state;
    connect_well();
    assert_int_equal(open_name(CP_ACTION_PUT, CP_OPEN_INTO, "").status, CP_OK);
    assert_true(cp_channel_read(&channel, 0, 8, slots));
    expect_terminate("layer 0");
    cp_channel_close(&channel);
    connect_well();
    assert_int_equal(open_name(CP_ACTION_GET, 0, "file").status, CP_OK);
    write_to(slots, 8);
    expect_terminate("layer 1");
}

/* The STag of one client is of no use to another one, nor after its session. */
static void stag__of_another_client__is_terminated(void **state)
{
    struct cp_channel first;

    (void)state;
    connect_well();
    assert_int_equal(open_name(CP_ACTION_PUT, CP_OPEN_INTO, "").status, CP_OK);
    struct cp_target stolen = slots;
    first = channel;
    connect_well();
    assert_int_equal(open_name(CP_ACTION_PUT, CP_OPEN_INTO, "").status, CP_OK);
    write_to(stolen, 8);
    expect_terminate("layer 1");
    cp_channel_close(&channel);
    channel = first;
    cp_channel_close(&channel);
    connect_well();
    assert_int_equal(open_name(CP_ACTION_PUT, CP_OPEN_INTO, "").status, CP_OK);
    write_to(stolen, 8);
    expect_terminate("layer 1");
}

static void message__more_than_allowed__is_terminated(void **state)
{
    uint8_t list[64];
    static const uint8_t fetch[CP_HEAD_LEN] = {CP_MESSAGE_FETCH};
    struct cp_writer writer;
    struct cp_open open = {CP_ACTION_LIST, CP_OPEN_RECURSIVE, "", 0};

    (void)state;
    connect_well();
    /* More requests than there are slots, again and again, without ever taking an answer. */
    cp_message_begin(&writer, list, sizeof list, CP_MESSAGE_OPEN, 0);
    cp_open_write(&writer, &open);
    size_t len = cp_message_finish(&writer, list);
    for (int i = 0; i < 6; i++) {
        say(i == 0 ? list : fetch, i == 0 ? len : sizeof fetch);
    }
    struct cp_event event;
    do {
        cp_channel_wait(&channel, &event, WAIT_MS);
        if (event.type == CP_EVENT_SENT) {
            say(fetch, sizeof fetch);
        }
    } while (event.type != CP_EVENT_BROKEN && event.type != CP_EVENT_TIMEOUT);
    assert_int_equal(event.type, CP_EVENT_BROKEN);
}

static void silence__after_connecting__is_ended(void **state)
{
    struct cp_message message;

    (void)state;
    connect_well();
    enum cp_event_type type = hear(&message);
    if (type == CP_EVENT_MESSAGE) {
        assert_int_equal(message.type, CP_MESSAGE_FAILED);
        type = hear(&message);
    }
    assert_int_equal(type, CP_EVENT_BROKEN);
}

/* Connect with its own pulse, so many octets further on, and do nothing for twice --idle. */
static void work_for_long(uint64_t beyond)
{
    uint8_t data[CP_HELLO_LEN];

    assert_int_equal(cp_channel_open(&channel, device, 4, 65536), IWARP_OK);
    struct cp_target pulse = cp_channel_pulse(&channel);
    struct cp_hello hello = {.version = CP_PROTOCOL_VERSION,
                             .slots = 4,
                             .slot_size = 65536,
                             .pulse_stag = pulse.stag,
                             .pulse_to = pulse.to + beyond};
    assert_int_equal(connect_open(data, cp_hello_write(data, &hello)), IWARP_OK);
    poll(NULL, 0, 4000);
}

static void pulse__of_a_client_that_works__has_the_server_wait(void **state)
{
    (void)state;
    work_for_long(0);
    assert_int_equal(open_name(CP_ACTION_LIST, 0, "").status, CP_OK);
    expect_failed(CP_IDLE); /* for it only waits now */
}

static void pulse__of_another_address__ends_the_client(void **state)
{
    struct cp_message message;

    (void)state;
    work_for_long(1000);
    assert_int_equal(hear(&message), CP_EVENT_BROKEN);
}

/* A file that is never completed does not appear, and is gone after the client. */
static void file__never_completed__does_not_appear(void **state)
{
    static const struct cp_record half[] = {{.type = CP_RECORD_FILE, .name = "half", .size = 10},
                                            {.type = CP_RECORD_DATA, .data_len = 5}};
    struct cp_message message;

    (void)state;
    connect_well();
    assert_int_equal(open_name(CP_ACTION_PUT, CP_OPEN_INTO, "sub").status, CP_OK);
    store(0, 5, half, 2);
    assert_int_equal(hear(&message), CP_EVENT_MESSAGE);
    assert_int_equal(message.type, CP_MESSAGE_STORED);
    assert_int_equal(message.body.left, 0);
    assert_int_equal(scratch_count("in/sub"), 0);
    cp_channel_close(&channel);
    connect_well();
    assert_int_equal(open_name(CP_ACTION_LIST, 0, "sub").status, CP_OK);
    assert_int_equal(scratch_count("in/sub"), 0);
}

int main(void)
{
#define WITH_CLIENT(test) cmocka_unit_test_setup_teardown(test, NULL, close_client)
    const struct CMUnitTest tests[] = {
        WITH_CLIENT(hello__not_ours__is_rejected),
        WITH_CLIENT(message__of_garbage__ends_the_session),
        WITH_CLIENT(request__before_open__ends_the_session),
        WITH_CLIENT(request__of_the_other_action__ends_the_session),
        WITH_CLIENT(open__twice__ends_the_session),
        WITH_CLIENT(open__names_that_lead_out__are_refused),
        WITH_CLIENT(open__reserved_names__are_refused),
        WITH_CLIENT(store__slot_or_length_out_of_bounds__ends_the_session),
        WITH_CLIENT(store__records_that_make_no_sense__end_the_session_and_leave_nothing),
        WITH_CLIENT(write__outside_the_slots__is_terminated),
        WITH_CLIENT(stag__used_against_its_right__is_terminated),
        WITH_CLIENT(stag__of_another_client__is_terminated),
        WITH_CLIENT(message__more_than_allowed__is_terminated),
        WITH_CLIENT(silence__after_connecting__is_ended),
        WITH_CLIENT(pulse__of_a_client_that_works__has_the_server_wait),
        WITH_CLIENT(pulse__of_another_address__ends_the_client),
        WITH_CLIENT(file__never_completed__does_not_appear),
    };

    return cmocka_run_group_tests_name("cp_session", tests, start_server, stop_server);
}
