/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hostile server for tests. It starts like a real one, up to and including the MPA start-up; then
 * it answers each request with whatever the test says. The client
 * is iwarp-cp itself in a child process; it works in scratch_path/in, and scratch_path/out is what
 * it must never touch. A client that does not end is killed, and the test fails.
 */
#ifndef CP_HOST_H
#define CP_HOST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "alloc_fault.h"
#include "octets.h"
#include "programs/cp/client.h"
#include "programs/cp/record.h"
#include "scratch.h"

#define HOST_SLOTS     4
#define HOST_SLOT_SIZE 65536
#define HOST_WAIT_MS   60000 /* for a client that has --timeout 2 and little to do */

struct host {
    struct iwarp_device *device;
    struct iwarp_eq *eq;
    struct iwarp_listener *listener;
    struct cp_channel channel;
    pid_t client;
    int to_client;     /* the port */
    int terminal;      /* the client's terminal, or -1 */
    unsigned requests; /* so far; the first one is OPEN */
    uint64_t number;   /* for the test */
    uint16_t slots;    /* granted, whatever the client wishes, of 16 MiB each; 0: as it should be */
    unsigned without;  /* the client's allocation that fails; 0: none does */
    struct chance chance;
    char out[65536], err[16384]; /* what the client said */
};
static struct host host;

/* What the test does with a request. */
typedef void (*host_answer)(const struct cp_message *request);

/* --- the client -------------------------------------------------------------------------------
 */

static inline int host_file(const char *name)
{
    return openat(scratch_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
}

/* Takes the port from a pipe, for the server is not there yet. words: the command and its options.
 */
static inline void host_run_client(const char *words, int in, const char *terminal)
{
    static struct cp_options options;
    static char text[256], url[64], target[4200], port[16], source[] = "source";
    char *argv[16] = {(char[]){"iwarp-cp"}};
    int argc = 1;

    ssize_t n = read(in, port, sizeof port - 1);
    if (n <= 0 || chdir(scratch_path) != 0) {
        _exit(98);
    }
    snprintf(text, sizeof text, "%s", words);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        argv[argc++] = word;
    }
    argv[argc++] = (char[]){"--timeout"};
    argv[argc++] = (char[]){"2"};
    snprintf(url, sizeof url, "iwarp://127.0.0.1:%s/name", port);
    snprintf(target, sizeof target, "%s/in/copy", scratch_path);
    if (strcmp(argv[1], "put") == 0) {
        argv[argc++] = source;
    }
    argv[argc++] = url;
    if (strcmp(argv[1], "get") == 0) {
        argv[argc++] = target;
    }
    int tty = terminal ? open(terminal, O_RDWR | O_NOCTTY) : -1;
    dup2(tty >= 0 ? tty : host_file("stdout"), STDOUT_FILENO);
    dup2(tty >= 0 ? tty : host_file("stderr"), STDERR_FILENO);
    if (!cp_options_parse(argc, argv, &options)) {
        _exit(99);
    }
    alloc_fault_at(host.without);
    int status = options.command == CP_COMMAND_GET   ? cp_run_get(&options)
                 : options.command == CP_COMMAND_PUT ? cp_run_put(&options)
                                                     : cp_run_list(&options);
    fflush(NULL);
    _exit(status);
}

/* Before there are threads, which a child would not have. */
static inline void host_start_client(const char *words, bool on_terminal)
{
    int in[2];
    const char *terminal = NULL;

    assert_int_equal(pipe(in), 0);
    host.terminal = on_terminal ? posix_openpt(O_RDWR | O_NOCTTY) : -1;
    if (on_terminal) {
        assert_true(host.terminal >= 0 && grantpt(host.terminal) == 0);
        assert_int_equal(unlockpt(host.terminal), 0);
        terminal = ptsname(host.terminal);
    }
    fflush(NULL);
    host.client = fork();
    if (host.client == 0) {
        close(in[1]);
        host_run_client(words, in[0], terminal);
    }
    close(in[0]);
    host.to_client = in[1];
}

static inline size_t host_read(const char *name, char *buf, size_t size)
{
    size_t len = scratch_read(name, buf, size - 1);

    assert_true(len < size);
    buf[len] = '\0';
    return len;
}

static inline void host_read_terminal(void)
{
    size_t used = 0;
    struct pollfd fd = {.fd = host.terminal, .events = POLLIN};

    while (used + 1 < sizeof host.out && poll(&fd, 1, 100) > 0) {
        ssize_t n = read(host.terminal, host.out + used, sizeof host.out - 1 - used);
        if (n <= 0) {
            break;
        }
        used += (size_t)n;
    }
    host.out[used] = '\0';
    host.err[0] = '\0';
    close(host.terminal);
}

/* Its exit status. A client that was killed by a signal, or has to be, makes the test fail. */
static inline int host_end_client(void)
{
    int status = 0;
    pid_t ended = 0;

    for (int waited = 0; waited < HOST_WAIT_MS && ended == 0; waited += 20) {
        ended = waitpid(host.client, &status, WNOHANG);
        if (ended == 0) {
            poll(NULL, 0, 20);
        }
    }
    if (ended == 0) {
        kill(host.client, SIGKILL);
        waitpid(host.client, NULL, 0);
    }
    host.client = 0;
    if (host.terminal >= 0) {
        host_read_terminal();
    } else {
        host_read("stdout", host.out, sizeof host.out);
        host_read("stderr", host.err, sizeof host.err);
    }
    /* A sanitizer ends it with a status that a failed copy has, too. */
    assert_null(strstr(host.terminal >= 0 ? host.out : host.err, "Sanitizer"));
    assert_null(strstr(host.terminal >= 0 ? host.out : host.err, "runtime error:"));
    if (ended == 0 || !WIFEXITED(status)) {
        fail_msg("%s: %s", ended == 0 ? "the client does not end" : "it died", host.err);
    }
    return WEXITSTATUS(status);
}

/* --- the server -------------------------------------------------------------------------------
 */

static inline void host_listen(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    assert_int_equal(iwarp_device_open(NULL, &host.device), IWARP_OK);
    assert_int_equal(iwarp_eq_create(host.device, &host.eq), IWARP_OK);
    assert_int_equal(iwarp_listen(host.device, (struct sockaddr *)&addr, sizeof addr, NULL, 4,
                                  host.eq, NULL, &host.listener),
                     IWARP_OK);
}

/* False: it has ended before it came. */
static inline bool host_await_client(struct iwarp_event *event)
{
    for (int waited = 0; waited < HOST_WAIT_MS / 4; waited += 100) {
        siginfo_t ended = {0};
        if (iwarp_eq_get(host.eq, event, 100) == IWARP_OK) {
            return true;
        }
        if (waitid(P_PID, (id_t)host.client, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            ended.si_pid != 0) {
            break;
        }
    }
    return false;
}

/* False: it does not come, as one without memory may not. */
static inline bool host_take_client(void)
{
    struct sockaddr_storage addr;
    struct sockaddr_in v4;
    socklen_t len = sizeof addr;
    size_t wish_len = 0;
    struct iwarp_event event;
    uint8_t data[CP_HELLO_LEN];
    struct cp_hello hello;

    assert_int_equal(iwarp_listener_addr(host.listener, &addr, &len), IWARP_OK);
    memcpy(&v4, &addr, sizeof v4);
    dprintf(host.to_client, "%u", ntohs(v4.sin_port));
    close(host.to_client);
    if (!host_await_client(&event)) {
        if (host.without > 0) {
            return false;
        }
        fail_msg("the client does not come, but ends with %d: %s", host_end_client(), host.err);
    }
    assert_int_equal(event.type, IWARP_EVENT_REQUEST);
    assert_int_equal(cp_channel_open(&host.channel, host.device, HOST_SLOTS, HOST_SLOT_SIZE),
                     IWARP_OK);
    host.channel.conn = event.conn;
    assert_true(
        cp_hello_read(iwarp_conn_private_data(event.conn, &wish_len), CP_HELLO_LEN, &hello));
    hello.slots = hello.slots < HOST_SLOTS ? hello.slots : HOST_SLOTS;
    hello.slot_size = HOST_SLOT_SIZE;
    hello.pulse_stag = 0; /* as an older server */
    if (host.slots > 0) {
        hello.slots = host.slots;
        hello.slot_size = CP_SLOT_SIZE_MAX;
    }
    assert_true(cp_channel_use_slots(&host.channel, HOST_SLOTS));
    assert_int_equal(cp_channel_add_slots(&host.channel, IWARP_ACCESS_LOCAL_WRITE |
                                                             IWARP_ACCESS_REMOTE_READ |
                                                             IWARP_ACCESS_REMOTE_WRITE),
                     IWARP_OK);
    assert_int_equal(
        iwarp_accept(event.conn, host.channel.qp, NULL, data, cp_hello_write(data, &hello), NULL),
        IWARP_OK);
    return true;
}

/* Begin a message; NULL if no buffer is free, which a flood may lead to. */
static inline uint8_t *host_begin(struct cp_writer *writer, enum cp_message_type type,
                                  unsigned slot)
{
    int index = cp_channel_free_message(&host.channel);

    if (index < 0) {
        return NULL;
    }
    uint8_t *buf = cp_channel_message(&host.channel, (unsigned)index);
    cp_message_begin(writer, buf, CP_MESSAGE_MAX, type, slot);
    return buf;
}

static inline void host_send_octets(uint8_t *buf, size_t len)
{
    size_t index = (size_t)(buf - cp_channel_message(&host.channel, 0)) / CP_MESSAGE_MAX;

    /* Fails when the client has gone already. */
    (void)cp_channel_send(&host.channel, (unsigned)index, len, 0, 0, (struct cp_target){0, 0});
}

static inline void host_send(struct cp_writer *writer, uint8_t *buf)
{
    host_send_octets(buf, cp_message_finish(writer, buf));
}

/* As an honest server. */
static inline void host_send_opened(enum cp_kind kind)
{
    struct cp_writer writer;
    uint8_t *buf = host_begin(&writer, CP_MESSAGE_OPENED, 0);
    struct cp_opened opened = {
        .kind = kind,
        .stag = iwarp_mr_stag(host.channel.slot_mr),
        .to = (uint64_t)(uintptr_t)host.channel.slot_memory,
    };

    cp_opened_write(&writer, &opened);
    host_send(&writer, buf);
}

/* Begin a FETCHED with so much data (of 'x') in the slot. */
static inline uint8_t *host_begin_fetched(struct cp_writer *writer, unsigned slot,
                                          uint32_t data_len, uint32_t flags)
{
    struct cp_batch batch = {data_len, flags};
    uint8_t *buf = host_begin(writer, CP_MESSAGE_FETCHED, slot);

    if (buf) {
        memset(cp_channel_slot(&host.channel, slot % HOST_SLOTS), 'x',
               data_len < HOST_SLOT_SIZE ? data_len : HOST_SLOT_SIZE);
        cp_batch_set(cp_batch_reserve(writer), &batch);
    }
    return buf;
}

static inline void host_add(struct cp_writer *writer, enum cp_record_type type, const char *name,
                            uint64_t number)
{
    struct cp_record record = {.type = type,
                               .mode = 0700,
                               .size = number,
                               .mtime = 1000000000,
                               .data_len = (uint32_t)number,
                               .result = {CP_IO, 0}};

    snprintf(record.name, sizeof record.name, "%s", name);
    cp_record_write(writer, &record);
}

/* --- the conversation ---------------------------------------------------------------------------
 */

static inline void host_close(void)
{
    cp_channel_close(&host.channel);
    (void)iwarp_listener_close(host.listener);
    (void)iwarp_eq_destroy(host.eq);
    (void)iwarp_device_close(host.device);
}

/* Serve a client that is called with these words until it has gone. Returns its exit status. */
static inline int host_serve_on(const char *words, host_answer answer, bool on_terminal)
{
    struct cp_event event = {.type = CP_EVENT_SENT};
    struct cp_message request;
    struct timespec start, now;

    host.requests = 0;
    host_start_client(words, on_terminal);
    host_listen();
    bool comes = host_take_client();
    clock_gettime(CLOCK_MONOTONIC, &start);
    while (comes && event.type != CP_EVENT_BROKEN && event.type != CP_EVENT_TIMEOUT) {
        cp_channel_wait(&host.channel, &event, HOST_WAIT_MS);
        if (event.type == CP_EVENT_MESSAGE) {
            assert_true(cp_message_read(event.data, event.len, &request));
            (void)cp_channel_release(&host.channel, event.index);
            answer(&request);
            host.requests++;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        comes = (now.tv_sec - start.tv_sec) * 1000 < HOST_WAIT_MS;
    }
    int status = host_end_client();
    host_close();
    return status;
}

static inline int host_serve(const char *words, host_answer answer)
{
    return host_serve_on(words, answer, false);
}

/* The client breaks off, and says at last that the server broke the protocol, or what else. */
static inline void host_expect_broken(const char *words, host_answer answer, const char *why)
{
    assert_int_equal(host_serve(words, answer), CP_EXIT_BROKEN);
    if (!strstr(host.err, why) || strncmp(host.err, "iwarp-cp: ", 10) != 0) {
        fail_msg("not about \"%s\": %s", why, host.err);
    }
}

/* Nothing came where nothing was asked for, and nothing hidden is left. */
static inline void host_expect_clean(void)
{
    char target[8];

    assert_int_equal(scratch_count("out"), 1);
    assert_int_equal(host_read("out/secret", target, sizeof target), 6);
    assert_string_equal(target, "secret");
    assert_true(scratch_count("in") <= 1);
}

static inline int host_setup(void **state)
{
    if (scratch_setup(state) != 0) {
        return -1;
    }
    memset(&host, 0, sizeof host);
    scratch_mkdir("in");
    scratch_mkdir("out");
    scratch_write("out/secret", "secret", 6);
    return 0;
}

static inline int host_teardown(void **state)
{
    if (host.client > 0) {
        kill(host.client, SIGKILL);
        waitpid(host.client, NULL, 0);
    }
    return scratch_teardown(state);
}

#endif
