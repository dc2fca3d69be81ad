/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clients that hold the places of a server without using them: idle ones, ones that ask for a
 * little now and then, many of one address. Others get in all the same, and a client that is at
 * work is not disturbed. The server runs in a child process; clients are made of the same channel.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
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

#define WAIT_MS   90000
#define PLACES    4
#define SLOT_SIZE 65536

/* Clients of many slots: so many fit into CP_FAR_MEMORY_MAX. */
#define FAR_MEMORY ((CP_SLOTS_MAX - CP_SLOTS_NEAR) * CP_SLOT_SIZE_DEFAULT)
#define FAR_FIT    (CP_FAR_MEMORY_MAX / FAR_MEMORY)
#define APART_MS                                                                                   \
    150 /* so that the first client has waited longest; well below CP_ASK_MS in all                \
         */

static pid_t server;
static struct sockaddr_in server_addr;
static struct iwarp_device *device;
static struct cp_channel clients[3 * PLACES];
static struct cp_hello wish; /* of the next client */
static unsigned client_count;

static void run_server(int out, char *places, char *slot_size)
{
    char directory[4200];
    char *argv[] = {(char[]){"iwarp-cp"},
                    (char[]){"serve"},
                    (char[]){"--listen"},
                    (char[]){"127.0.0.1:0"},
                    (char[]){"--max-connections"},
                    places,
                    (char[]){"--block"},
                    slot_size,
                    directory,
                    NULL};
    static struct cp_options options;

    snprintf(directory, sizeof directory, "%s", scratch_path);
    dup2(out, STDOUT_FILENO);
    _exit(cp_options_parse(9, argv, &options) ? cp_run_serve(&options) : 99);
}

static int start_server_of(void **state, char *places, char *slot_size)
{
    int fds[2];
    char line[64] = "";
    unsigned port = 0;

    client_count = 0;
    wish = (struct cp_hello){.version = CP_PROTOCOL_VERSION, .slots = 4, .slot_size = SLOT_SIZE};
    if (scratch_setup(state) != 0 || pipe(fds) != 0) {
        return -1;
    }
    fflush(NULL);
    server = fork();
    if (server == 0) {
        run_server(fds[1], places, slot_size);
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

static int start_server(void **state)
{
    return start_server_of(state, (char[]){"4"}, (char[]){"512K"});
}

static int start_large_server(void **state)
{
    return start_server_of(state, (char[]){"64"}, (char[]){"512K"});
}

static int start_server_of_large_slots(void **state)
{
    return start_server_of(state, (char[]){"4"}, (char[]){"16M"});
}

static int stop_server(void **state)
{
    int status = -1;

    for (unsigned i = 0; i < client_count; i++) {
        cp_channel_close(&clients[i]);
    }
    iwarp_device_close(device);
    if (kill(server, SIGTERM) != 0 || waitpid(server, &status, 0) != server) {
        return -1;
    }
    scratch_teardown(state);
    return status;
}

/* A client from this address. What the server said: OK, or why it did not let it in. */
static enum cp_status come_from(const char *address)
{
    struct cp_channel *channel = &clients[client_count++];
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct iwarp_conn_options options;
    uint8_t data[CP_HELLO_LEN];
    struct cp_hello hello = wish;
    size_t len = 0;

    assert_int_equal(inet_pton(AF_INET, address, &from.sin_addr), 1);
    iwarp_conn_options_init(&options);
    options.source = (struct sockaddr *)&from;
    options.source_len = sizeof from;
    assert_int_equal(cp_channel_open(channel, device, 4, SLOT_SIZE), IWARP_OK);
    assert_true(cp_channel_use_slots(channel, 4));
    assert_int_equal(cp_channel_add_slots(channel, IWARP_ACCESS_LOCAL_WRITE), IWARP_OK);
    assert_int_equal(iwarp_connect(channel->qp, (struct sockaddr *)&server_addr, sizeof server_addr,
                                   &options, data, cp_hello_write(data, &hello), NULL, NULL,
                                   &channel->conn),
                     IWARP_OK);
    enum iwarp_status status = iwarp_conn_wait(channel->conn, WAIT_MS);
    if (status == IWARP_OK) {
        return CP_OK;
    }
    assert_int_equal(status, IWARP_PEER);
    const void *answer = iwarp_conn_private_data(channel->conn, &len);
    assert_true(cp_hello_read(answer, len, &hello));
    return hello.result.status;
}

static void say(struct cp_channel *channel, const void *data, size_t len, size_t write_len,
                struct cp_target target)
{
    int index = cp_channel_free_message(channel);

    assert_true(index >= 0);
    memcpy(cp_channel_message(channel, (unsigned)index), data, len);
    assert_true(cp_channel_send(channel, (unsigned)index, len, 0, write_len, target));
}

/* The next message; false if the connection has ended. */
static bool hear(struct cp_channel *channel, struct cp_message *message)
{
    struct cp_event event;

    do {
        cp_channel_wait(channel, &event, WAIT_MS);
    } while (event.type == CP_EVENT_SENT);
    if (event.type != CP_EVENT_MESSAGE) {
        assert_int_equal(event.type, CP_EVENT_BROKEN);
        return false;
    }
    assert_true(cp_message_read(event.data, event.len, message));
    assert_true(cp_channel_release(channel, event.index));
    return true;
}

/* What the server says to an OPEN. */
static struct cp_opened try_open(struct cp_channel *channel, enum cp_action action,
                                 unsigned wanted_slots)
{
    uint8_t buf[64];
    struct cp_open open = {action, CP_OPEN_INTO, "", 0};
    struct cp_opened opened;
    struct cp_message message;
    struct cp_writer writer;

    cp_message_begin(&writer, buf, sizeof buf, CP_MESSAGE_OPEN, wanted_slots);
    cp_open_write(&writer, &open);
    say(channel, buf, cp_message_finish(&writer, buf), 0, (struct cp_target){0, 0});
    assert_true(hear(channel, &message));
    assert_true(cp_opened_read(&message.body, &opened));
    return opened;
}

static struct cp_opened open_with(struct cp_channel *channel, enum cp_action action,
                                  unsigned wanted_slots)
{
    struct cp_opened opened = try_open(channel, action, wanted_slots);

    assert_int_equal(opened.result.status, CP_OK);
    return opened;
}

static struct cp_target ask(struct cp_channel *channel, enum cp_action action)
{
    struct cp_opened opened = open_with(channel, action, 0);

    return (struct cp_target){opened.stag, opened.to};
}

/* Ask for the next piece of a listing. False if the server has ended this client. */
static bool fetch(struct cp_channel *channel)
{
    static const uint8_t request[CP_HEAD_LEN] = {CP_MESSAGE_FETCH};
    struct cp_message message;

    say(channel, request, sizeof request, 0, (struct cp_target){0, 0});
    return hear(channel, &message) && message.type == CP_MESSAGE_FETCHED;
}

/* Write a whole slot and have it stored as a part of the file that was begun with the first one. */
static bool store(struct cp_channel *channel, struct cp_target slots, bool first)
{
    uint8_t buf[512];
    struct cp_batch batch = {SLOT_SIZE, 0};
    struct cp_record file = {.type = CP_RECORD_FILE, .name = "x", .size = 1 << 30};
    struct cp_record data = {.type = CP_RECORD_DATA, .data_len = SLOT_SIZE};
    struct cp_message message;
    struct cp_writer writer;

    cp_message_begin(&writer, buf, sizeof buf, CP_MESSAGE_STORE, 0);
    cp_batch_set(cp_batch_reserve(&writer), &batch);
    if (first) {
        cp_record_write(&writer, &file);
    }
    cp_record_write(&writer, &data);
    say(channel, buf, cp_message_finish(&writer, buf), SLOT_SIZE, slots);
    return hear(channel, &message) && message.type == CP_MESSAGE_STORED;
}

static void pass_ms(long ms)
{
    poll(NULL, 0, (int)ms);
}

static void expect_displaced(struct cp_channel *channel)
{
    struct cp_message message;
    struct cp_result result;

    assert_true(hear(channel, &message));
    assert_int_equal(message.type, CP_MESSAGE_FAILED);
    assert_true(cp_result_read(&message.body, &result));
    assert_int_equal(result.status, CP_DISPLACED);
    assert_false(hear(channel, &message));
}

/* --- tests --------------------------------------------------------------------------------------
 */

static void silent__all_places__leave_when_others_come(void **state)
{
    (void)state;
    for (unsigned i = 0; i < PLACES; i++) {
        assert_int_equal(come_from(i % 2 ? "127.0.0.2" : "127.0.0.3"), CP_OK);
        pass_ms(APART_MS);
    }
    assert_int_equal(come_from("127.0.0.1"), CP_BUSY); /* they have just come */
    pass_ms(CP_ASK_MS + 500);
    assert_int_equal(come_from("127.0.0.1"), CP_OK);
    expect_displaced(&clients[0]);
    assert_int_equal(come_from("127.0.0.1"), CP_OK);
    expect_displaced(&clients[1]);
}

/* Newcomers displace the clients that ask for next to nothing, and not the one that moves data. */
static void trickling__all_places_but_one__leave_when_others_come(void **state)
{
    (void)state;
    assert_int_equal(come_from("127.0.0.2"), CP_OK);
    struct cp_target slots = ask(&clients[0], CP_ACTION_PUT);
    assert_true(store(&clients[0], slots, true));
    for (unsigned i = 1; i < PLACES; i++) {
        assert_int_equal(come_from(i % 2 ? "127.0.0.2" : "127.0.0.3"), CP_OK);
        (void)ask(&clients[i], CP_ACTION_LIST);
    }
    for (unsigned passed = 0; passed < CP_GRACE_MS + 2000; passed += 200) {
        assert_true(store(&clients[0], slots, false));
        for (unsigned i = 1; i < PLACES; i++) {
            assert_true(fetch(&clients[i]));
        }
        pass_ms(200);
    }
    for (unsigned i = 1; i < PLACES; i++) {
        assert_int_equal(come_from("127.0.0.1"), CP_OK);
        assert_true(store(&clients[0], slots, false));
    }
    assert_int_equal(come_from("127.0.0.1"), CP_BUSY);
    for (unsigned i = 1; i < PLACES; i++) {
        expect_displaced(&clients[i]);
    }
    assert_true(store(&clients[0], slots, false));
}

static void one_address__with_new_clients_all_the_time__has_its_share(void **state)
{
    (void)state;
    for (unsigned i = 0; i < PLACES - 1; i++) {
        assert_int_equal(come_from("127.0.0.2"), CP_OK);
        pass_ms(APART_MS);
    }
    assert_int_equal(come_from("127.0.0.2"), CP_BUSY);
    assert_int_equal(come_from("127.0.0.1"), CP_OK);
    (void)ask(&clients[PLACES], CP_ACTION_LIST);
    /* After a while they may have the places of their own, and those only. */
    pass_ms(CP_ASK_MS + 500);
    for (unsigned i = 0; i < PLACES - 1; i++) {
        assert_int_equal(come_from("127.0.0.2"), CP_OK);
        expect_displaced(&clients[i]);
    }
    assert_int_equal(come_from("127.0.0.2"), CP_BUSY);
    assert_true(fetch(&clients[PLACES]));
}

/* A new client, which has so many slots by the hello. */
static struct cp_channel *come_for(uint16_t granted)
{
    wish.slots = granted;
    wish.slot_size = CP_SLOT_SIZE_DEFAULT;
    assert_int_equal(come_from("127.0.0.1"), CP_OK);
    return &clients[client_count - 1];
}

static uint32_t slots_for(uint16_t granted, unsigned wanted, enum cp_action action)
{
    return open_with(come_for(granted), action, wanted).slots;
}

static void slots__wanted__are_those_of_the_transfer(void **state)
{
    (void)state;
    assert_int_equal(slots_for(64, 0, CP_ACTION_PUT), 64);
    assert_int_equal(slots_for(64, 1, CP_ACTION_PUT), 1);
    assert_int_equal(slots_for(64, 20, CP_ACTION_PUT), 20);
    assert_int_equal(slots_for(12, 64, CP_ACTION_PUT), 12);
    assert_int_equal(slots_for(3, UINT16_MAX, CP_ACTION_PUT), 3);
    assert_int_equal(slots_for(64, 5, CP_ACTION_LIST), 5);
    assert_int_equal(slots_for(64, 0, CP_ACTION_LIST),
                     CP_SLOTS_NEAR); /* they are for messages only */
}

/* The server bounds the size and the number of its slots, and the memory that both come to. */
static void slots__of_the_largest_size__are_only_as_many_as_their_memory_allows(void **state)
{
    struct cp_hello granted;
    size_t len = 0;

    (void)state;
    wish.slots = CP_SLOTS_MAX;
    wish.slot_size = CP_SLOT_SIZE_MAX;
    assert_int_equal(come_from("127.0.0.1"), CP_OK);
    const void *answer = iwarp_conn_private_data(clients[0].conn, &len);
    assert_true(cp_hello_read(answer, len, &granted));
    assert_int_equal(granted.slot_size, CP_SLOT_SIZE_MAX);
    assert_int_equal(granted.slots, CP_SLOT_MEMORY_MAX / CP_SLOT_SIZE_MAX);
}

/* An octet in the last slot is taken, and the one behind ends the connection. */
static void expect_memory_of(struct cp_channel *channel, const struct cp_opened *opened)
{
    uint8_t nothing[CP_HEAD_LEN + 8]; /* a STORE of no record */
    struct cp_target behind = {opened->stag,
                               opened->to + (uint64_t)opened->slots * CP_SLOT_SIZE_DEFAULT};
    struct cp_target last = {behind.stag, behind.to - 1};
    struct cp_message message;
    struct cp_writer writer;
    char text[512];

    cp_message_begin(&writer, nothing, sizeof nothing, CP_MESSAGE_STORE, 0);
    (void)cp_batch_reserve(&writer);
    size_t len = cp_message_finish(&writer, nothing);
    assert_int_equal(len, sizeof nothing);
    say(channel, nothing, len, 1, last);
    assert_true(hear(channel, &message));
    assert_int_equal(message.type, CP_MESSAGE_STORED);
    say(channel, nothing, len, 1, behind);
    assert_false(hear(channel, &message));
    iwarp_fault_text(iwarp_conn_fault(channel->conn), text, sizeof text);
    if (!strstr(text, "beyond its region")) {
        fail_msg("not about the region: %s", text);
    }
}

/*
 * Clients of many slots do not take all memory: the next ones have what is left, then as many as a
 * client that is near. One that wants all of them, as older clients do, gets no fewer.
 */
static void slots__many_of_many_clients__are_bounded_together(void **state)
{
    const unsigned left =
        (CP_FAR_MEMORY_MAX - FAR_FIT * FAR_MEMORY) / CP_SLOT_SIZE_DEFAULT + CP_SLOTS_NEAR;

    (void)state;
    for (unsigned i = 0; i < FAR_FIT; i++) {
        assert_int_equal(slots_for(CP_SLOTS_MAX, CP_SLOTS_MAX, CP_ACTION_PUT), CP_SLOTS_MAX);
    }
    struct cp_channel *partly = come_for(CP_SLOTS_MAX), *last = come_for(CP_SLOTS_MAX);
    struct cp_opened opened = open_with(partly, CP_ACTION_PUT, CP_SLOTS_MAX);
    assert_int_equal(opened.slots, left);
    assert_int_equal(open_with(last, CP_ACTION_PUT, CP_SLOTS_MAX).slots, CP_SLOTS_NEAR);
    cp_channel_close(last);
    client_count--;
    last = come_for(CP_SLOTS_MAX);
    assert_int_equal(try_open(last, CP_ACTION_PUT, 0).result.status, CP_NO_MEMORY);
    expect_memory_of(partly, &opened);
    cp_channel_close(&clients[0]);
    /* The server may take a moment to see it. */
    uint32_t slots = 0;
    for (unsigned tries = 0; tries < 1000 && slots != CP_SLOTS_MAX; tries++) {
        cp_channel_close(last);
        client_count--;
        pass_ms(10);
        last = come_for(CP_SLOTS_MAX);
        slots = open_with(last, CP_ACTION_PUT, CP_SLOTS_MAX).slots;
    }
    assert_int_equal(slots, CP_SLOTS_MAX);
}

int main(void)
{
#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, start_server, stop_server)
#define WITH_LARGE(test)  cmocka_unit_test_setup_teardown(test, start_large_server, stop_server)
    const struct CMUnitTest tests[] = {
        WITH_SERVER(silent__all_places__leave_when_others_come),
        WITH_SERVER(trickling__all_places_but_one__leave_when_others_come),
        WITH_SERVER(one_address__with_new_clients_all_the_time__has_its_share),
        WITH_LARGE(slots__wanted__are_those_of_the_transfer),
        cmocka_unit_test_setup_teardown(
            slots__of_the_largest_size__are_only_as_many_as_their_memory_allows,
            start_server_of_large_slots, stop_server),
        WITH_LARGE(slots__many_of_many_clients__are_bounded_together),
    };

    return cmocka_run_group_tests_name("cp_places", tests, NULL, NULL);
}
