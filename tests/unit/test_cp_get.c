/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iwarp-cp get against servers that send something else than what was asked for. The client runs in
 * a child process; the server here is made of the same channel, but says what it likes. Each time
 * the client ends with an error in one line, and no file but the one that it asked for is there.
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

#include "programs/cp/client.h"
#include "programs/cp/record.h"
#include "scratch.h"

#define WAIT_MS   90000
#define SLOT_SIZE 65536

static struct iwarp_device *device;
static struct iwarp_eq *eq;
static struct iwarp_listener *listener;
static struct cp_channel channel;
static pid_t client;
static int to_client, from_client; /* the URL, standard error */
static char said[4096];            /* by the client, on standard error */
static long start_up_ms;           /* at least so long until the client is connected */
static unsigned wanted_slots;      /* by the client's OPEN */

/* What the server answers: to OPEN, and to the first FETCH. */
struct script {
    enum cp_kind kind;
    const struct cp_record *records;
    size_t count;
    const char *data; /* in the slot */
};

/* --- the client ---------------------------------------------------------------------------------
 */

/* Takes its option and its URL from a pipe, for the server is not there yet. */
static void run_client(int in, int err)
{
    static struct cp_options options;
    char line[128] = "", option[32], url[64], target[4200];
    char *argv[] = {(char[]){"iwarp-cp"}, (char[]){"get"}, option, url, target, NULL};

    if (read(in, line, sizeof line - 1) <= 0 || sscanf(line, "%31s %63s", option, url) != 2) {
        _exit(98);
    }
    snprintf(target, sizeof target, "%s/in/copy", scratch_path);
    dup2(err, STDERR_FILENO);
    _exit(cp_options_parse(5, argv, &options) ? cp_run_get(&options) : 99);
}

/* Before there are threads, which a child would not have. */
static int start_client(void)
{
    int in[2], err[2];

    if (pipe(in) != 0 || pipe(err) != 0) {
        return -1;
    }
    fflush(NULL);
    client = fork();
    if (client == 0) {
        close(in[1]);
        run_client(in[0], err[1]);
    }
    close(in[0]);
    close(err[1]);
    to_client = in[1];
    from_client = err[0];
    return client < 0;
}

/* Its exit status; what it said is in said. */
static int end_client(void)
{
    size_t used = 0;
    ssize_t n;
    int status = -1;

    while (used + 1 < sizeof said &&
           (n = read(from_client, said + used, sizeof said - 1 - used)) > 0) {
        used += (size_t)n;
    }
    said[used] = '\0';
    assert_int_equal(waitpid(client, &status, 0), client);
    client = 0;
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* --- the server ---------------------------------------------------------------------------------
 */

static int setup(void **state)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    if (scratch_setup(state) != 0) {
        return -1;
    }
    scratch_mkdir("in");
    memset(&channel, 0, sizeof channel);
    start_up_ms = 0;
    return start_client() != 0 || iwarp_device_open(NULL, &device) != IWARP_OK ||
           iwarp_eq_create(device, &eq) != IWARP_OK ||
           iwarp_listen(device, (struct sockaddr *)&addr, sizeof addr, NULL, 4, eq, NULL,
                        &listener) != IWARP_OK;
}

static int teardown(void **state)
{
    if (client > 0) {
        kill(client, SIGKILL);
        waitpid(client, NULL, 0);
    }
    close(to_client);
    close(from_client);
    cp_channel_close(&channel);
    (void)iwarp_listener_close(listener);
    (void)iwarp_eq_destroy(eq);
    (void)iwarp_device_close(device);
    return scratch_teardown(state);
}

static void let_client_come(const char *option)
{
    struct sockaddr_storage addr;
    struct sockaddr_in v4;
    socklen_t len = sizeof addr;
    struct iwarp_event event;
    uint8_t data[CP_HELLO_LEN];
    struct cp_hello hello = {
        .version = CP_PROTOCOL_VERSION, .slots = CP_SLOTS_MAX, .slot_size = SLOT_SIZE};

    assert_int_equal(iwarp_listener_addr(listener, &addr, &len), IWARP_OK);
    memcpy(&v4, &addr, sizeof v4);
    dprintf(to_client, "%s iwarp://127.0.0.1:%u/file", option, ntohs(v4.sin_port));
    assert_int_equal(iwarp_eq_get(eq, &event, WAIT_MS), IWARP_OK);
    assert_int_equal(event.type, IWARP_EVENT_REQUEST);
    poll(NULL, 0, (int)start_up_ms);
    assert_int_equal(cp_channel_open(&channel, device, CP_SLOTS_MAX, SLOT_SIZE), IWARP_OK);
    channel.conn = event.conn;
    assert_true(cp_channel_use_slots(&channel, CP_SLOTS_MAX));
    assert_int_equal(cp_channel_add_slots(&channel, IWARP_ACCESS_REMOTE_READ), IWARP_OK);
    assert_int_equal(
        iwarp_accept(event.conn, channel.qp, NULL, data, cp_hello_write(data, &hello), NULL),
        IWARP_OK);
}

static void write_opened(struct cp_writer *writer, const struct script *script)
{
    struct cp_opened opened = {
        .kind = script->kind,
        .stag = iwarp_mr_stag(channel.slot_mr),
        .to = (uint64_t)(uintptr_t)channel.slot_memory,
    };

    cp_opened_write(writer, &opened);
}

static void write_fetched(struct cp_writer *writer, const struct script *script, unsigned slot)
{
    struct cp_batch batch = {0, CP_FETCHED_END};
    uint8_t *at = cp_batch_reserve(writer);

    if (script->data) {
        batch.data_len = (uint32_t)strlen(script->data);
        memcpy(cp_channel_slot(&channel, slot), script->data, batch.data_len);
    }
    cp_batch_set(at, &batch);
    for (size_t i = 0; i < script->count; i++) {
        cp_record_write(writer, &script->records[i]);
    }
}

static void answer(const struct cp_event *event, const struct script *script, bool is_first)
{
    static const struct script nothing;
    int index = cp_channel_free_message(&channel);
    struct cp_message message;
    struct cp_writer writer;

    assert_true(index >= 0 && cp_message_read(event->data, event->len, &message));
    uint8_t *buf = cp_channel_message(&channel, (unsigned)index);
    if (message.type == CP_MESSAGE_OPEN) {
        wanted_slots = message.slot;
        cp_message_begin(&writer, buf, CP_MESSAGE_MAX, CP_MESSAGE_OPENED, 0);
        write_opened(&writer, script);
    } else {
        cp_message_begin(&writer, buf, CP_MESSAGE_MAX, CP_MESSAGE_FETCHED, message.slot);
        write_fetched(&writer, is_first ? script : &nothing, message.slot);
    }
    assert_true(cp_channel_release(&channel, event->index));
    assert_true(cp_channel_send(&channel, (unsigned)index, cp_message_finish(&writer, buf), 0, 0,
                                (struct cp_target){0, 0}));
}

/* Serve one client by the script; returns its exit status. */
static int serve(const char *option, const struct script *script)
{
    struct cp_event event;
    unsigned fetches = 0;

    let_client_come(option);
    for (;;) {
        cp_channel_wait(&channel, &event, WAIT_MS);
        if (event.type == CP_EVENT_MESSAGE) {
            /* The first request is the OPEN. */
            answer(&event, script, fetches++ < 2);
        } else if (event.type != CP_EVENT_SENT) {
            break;
        }
    }
    assert_int_equal(event.type, CP_EVENT_BROKEN);
    return end_client();
}

static void expect_refused(const char *option, const struct script *script, const char *why)
{
    assert_int_equal(serve(option, script), CP_EXIT_BROKEN);
    if (!strstr(said, why) || strchr(said, '\n') != said + strlen(said) - 1) {
        fail_msg("not one line about \"%s\": %s", why, said);
    }
}

/* --- tests --------------------------------------------------------------------------------------
 */

static const struct cp_record file = {.type = CP_RECORD_FILE, .name = "f", .size = 5, .mode = 0600};
static const struct cp_record data = {.type = CP_RECORD_DATA, .data_len = 5};
static const struct cp_record end = {.type = CP_RECORD_END};
static const struct cp_record directory = {.type = CP_RECORD_DIRECTORY, .name = "d", .mode = 0700};
static const struct cp_record leave = {.type = CP_RECORD_LEAVE};

/* The others are refused for what they are, not because this server is of no use. */
static void file__as_asked_for__is_copied(void **state)
{
    const struct cp_record records[] = {file, data, end};
    char content[8];

    (void)state;
    assert_int_equal(serve("-q", &(struct script){CP_KIND_FILE, records, 3, "hello"}), CP_EXIT_OK);
    assert_string_equal(said, "");
    assert_int_equal(scratch_read("in/copy", content, sizeof content), 5);
    assert_memory_equal(content, "hello", 5);
}

static void directory__for_a_file__is_refused(void **state)
{
    const struct cp_record records[] = {directory, file, data, end, leave};

    (void)state;
    expect_refused("-q", &(struct script){CP_KIND_DIRECTORY, records, 5, "hello"}, "protocol");
    assert_int_equal(scratch_count("in"), 0);
}

static void directory_record__announced_as_file__is_refused(void **state)
{
    const struct cp_record records[] = {directory, file, data, end, leave};

    (void)state;
    expect_refused("-q", &(struct script){CP_KIND_FILE, records, 5, "hello"}, "protocol");
    assert_int_equal(scratch_count("in"), 0);
}

static void second_file__for_one__is_refused(void **state)
{
    const struct cp_record records[] = {file, data, end, file, data, end};
    char content[8];

    (void)state;
    expect_refused("-q", &(struct script){CP_KIND_FILE, records, 6, "helloOTHER"}, "protocol");
    assert_int_equal(scratch_count("in"), 1);
    assert_int_equal(scratch_read("in/copy", content, sizeof content), 5);
    assert_memory_equal(content, "hello", 5);
}

static void second_tree__for_one__is_refused(void **state)
{
    const struct cp_record records[] = {directory, leave, directory, file, data, end, leave};

    (void)state;
    expect_refused("-r", &(struct script){CP_KIND_DIRECTORY, records, 7, "hello"}, "protocol");
    assert_int_equal(scratch_count("in"), 1);
    assert_int_equal(scratch_count("in/copy"), 0);
}

/* An end without the file must not look like success. */
static void nothing__for_a_file__is_an_error(void **state)
{
    (void)state;
    expect_refused("-q", &(struct script){CP_KIND_FILE, NULL, 0, NULL}, "without the file");
    assert_int_equal(scratch_count("in"), 0);
}

static void nothing_but_a_note__for_a_file__is_an_error(void **state)
{
    static const struct cp_record records[] = {
        {.type = CP_RECORD_SKIP, .name = "f", .result = {CP_IS_LINK, 0}}};

    (void)state;
    assert_int_equal(serve("-q", &(struct script){CP_KIND_FILE, records, 1, NULL}), CP_EXIT_BROKEN);
    assert_non_null(strstr(said, "without the file"));
    assert_int_equal(scratch_count("in"), 0);
}

static void file__cut_off_by_the_end__is_refused(void **state)
{
    const struct cp_record records[] = {file, data};

    (void)state;
    expect_refused("-q", &(struct script){CP_KIND_FILE, records, 2, "hello"}, "protocol");
    assert_int_equal(scratch_count("in"), 0);
}

static void name__that_leads_out__is_refused(void **state)
{
    static const struct cp_record records[] = {
        {.type = CP_RECORD_DIRECTORY, .name = "d", .mode = 0700},
        {.type = CP_RECORD_FILE, .name = "../../escaped"}};

    (void)state;
    expect_refused("-r", &(struct script){CP_KIND_DIRECTORY, records, 2, NULL}, "protocol");
    assert_int_equal(scratch_count("."), 1);
}

/* The longer the way to the server, the more slots are wanted, but no more than there are. */
static void get_a_long_way(long ms, unsigned at_least)
{
    const struct cp_record records[] = {file, data, end};

    start_up_ms = ms;
    assert_int_equal(serve("-q", &(struct script){CP_KIND_FILE, records, 3, "hello"}), CP_EXIT_OK);
    assert_in_range(wanted_slots, at_least, CP_SLOTS_MAX);
}

static void server__ten_ms_away__has_more_slots_in_use(void **state)
{
    (void)state;
    get_a_long_way(10, CP_SLOTS_NEAR + 10 * CP_SLOTS_A_MS);
}

static void server__a_long_way_away__has_all_slots_in_use(void **state)
{
    (void)state;
    get_a_long_way(100, CP_SLOTS_MAX);
}

int main(void)
{
#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_SERVER(file__as_asked_for__is_copied),
        WITH_SERVER(directory__for_a_file__is_refused),
        WITH_SERVER(directory_record__announced_as_file__is_refused),
        WITH_SERVER(second_file__for_one__is_refused),
        WITH_SERVER(second_tree__for_one__is_refused),
        WITH_SERVER(nothing__for_a_file__is_an_error),
        WITH_SERVER(nothing_but_a_note__for_a_file__is_an_error),
        WITH_SERVER(file__cut_off_by_the_end__is_refused),
        WITH_SERVER(name__that_leads_out__is_refused),
        WITH_SERVER(server__ten_ms_away__has_more_slots_in_use),
        WITH_SERVER(server__a_long_way_away__has_all_slots_in_use),
    };

    return cmocka_run_group_tests_name("cp_get", tests, NULL, NULL);
}
