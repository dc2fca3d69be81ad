/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The client's side of a connection. Every wait ends: connecting after at most
 * CP_CONNECT_SECONDS_MAX for TCP and as much for MPA, everything else after --timeout without an
 * event, unless the server is busy or data moves.
 */
#include "client.h"

#include "clock.h"
#include "tls.h"

#include <stdio.h>
#include <string.h>

static int connect_seconds(const struct cp_options *options)
{
    return (int)(options->timeout_s < CP_CONNECT_SECONDS_MAX ? options->timeout_s
                                                             : CP_CONNECT_SECONDS_MAX);
}

static const char *connect_hint(const struct iwarp_fault *fault)
{
    enum iwarp_status status = fault ? iwarp_fault_status(fault) : IWARP_TRANSPORT;
    enum iwarp_fault_code code = iwarp_fault_code(fault);

    if (strncmp(iwarp_fault_name(code), "TLS_", 4) == 0 || code == IWARP_FAULT_MPA_TLS) {
        return "check --tls at both ends, and the server's --allow-id";
    }
    /* Something answered, or took the connection and kept silent: but not a server of ours. */
    if (status == IWARP_PROTOCOL || status == IWARP_PEER || code == IWARP_FAULT_MPA_TIMEOUT) {
        return "check that what listens there is iwarp-cp serve";
    }
    /* A server resets connections from addresses that it does not allow, without a word. */
    return "check address and port, that iwarp-cp serve runs there, and that its --allow covers "
           "this machine";
}

/* The MPA start-up is over, one way or the other: look at what the server said with it. */
static bool explain_refusal(struct cp_client *client)
{
    struct cp_hello hello;
    size_t len = 0;
    const void *data = iwarp_conn_private_data(client->channel.conn, &len);

    if (!cp_hello_read(data, len, &hello)) {
        return false;
    }
    if (hello.version != CP_PROTOCOL_VERSION) {
        hello.result = cp_result_of(CP_VERSION);
    }
    if (hello.result.status == CP_OK) {
        return false;
    }
    cp_report_broken(&client->report, client->server, cp_result_text(hello.result),
                     cp_result_hint(hello.result, true));
    return true;
}

static void explain_failure(struct cp_client *client, enum iwarp_status status)
{
    const struct iwarp_fault *fault =
        client->channel.conn ? iwarp_conn_fault(client->channel.conn) : NULL;
    char why[512];

    if (client->channel.conn && status == IWARP_PEER && explain_refusal(client)) {
        return;
    }
    if (fault) {
        iwarp_fault_text(fault, why, sizeof why);
    } else if (status == IWARP_AGAIN) {
        snprintf(why, sizeof why, "no connection within %d s",
                 2 * connect_seconds(client->options));
    } else {
        const char *text = iwarp_last_error();
        snprintf(why, sizeof why, "%s", text[0] ? text : iwarp_status_text(status));
    }
    /* Without a connection that failed it is this process that could not begin one. */
    cp_report_broken(
        &client->report, client->server, why,
        client->channel.conn
            ? connect_hint(fault)
            : cp_tls_hint(why, "check the limits and the environment of this process"));
}

static enum iwarp_status try_address(struct cp_client *client, const struct addrinfo *address)
{
    const struct cp_options *options = client->options;
    struct iwarp_conn_options conn = options->conn;
    char tls[CP_TLS_MAX];
    uint8_t private_data[CP_HELLO_LEN];
    enum iwarp_status status =
        cp_channel_open(&client->channel, client->device, options->slots, options->slot_size);

    if (status != IWARP_OK) {
        return status;
    }
    struct cp_target pulse = cp_channel_pulse(&client->channel);
    struct cp_hello hello = {
        .version = CP_PROTOCOL_VERSION,
        .slots = (uint16_t)options->slots,
        .slot_size = options->slot_size,
        .pulse_stag = pulse.stag,
        .pulse_to = pulse.to,
    };
    int64_t begin = cp_clock_us();
    conn.connect_timeout_ms = conn.startup_timeout_ms = (unsigned)connect_seconds(options) * 1000;
    if (conn.tls && cp_tls_expect(client->url.address.host, conn.tls, tls)) {
        conn.tls = tls;
    }
    status = iwarp_connect(client->channel.qp, address->ai_addr, address->ai_addrlen, &conn,
                           private_data, cp_hello_write(private_data, &hello), NULL, NULL,
                           &client->channel.conn);
    if (status == IWARP_OK) {
        status = iwarp_conn_wait(client->channel.conn, 2 * connect_seconds(options) * 1000 + 1000);
    }
    client->startup_us = cp_clock_us() - begin;
    return status;
}

/* Take over what the server grants. */
static bool take_grant(struct cp_client *client)
{
    struct cp_hello hello;
    size_t len = 0;
    const void *data = iwarp_conn_private_data(client->channel.conn, &len);

    if (explain_refusal(client)) {
        return false;
    }
    if (!cp_hello_read(data, len, &hello) || hello.slots == 0 ||
        hello.slots > client->channel.slots || hello.slot_size < CP_SLOT_SIZE_MIN ||
        hello.slot_size > client->channel.slot_size ||
        (size_t)hello.slots * hello.slot_size > CP_SLOT_MEMORY_MAX) {
        cp_report_broken(&client->report, client->server,
                         "it speaks iWARP, but not as iwarp-cp does",
                         "check that what listens there is iwarp-cp serve");
        return false;
    }
    client->channel.peer_pulse = (struct cp_target){hello.pulse_stag, hello.pulse_to};
    client->channel.slots = hello.slots;
    client->channel.slot_size = hello.slot_size;
    return true;
}

static bool connect_any(struct cp_client *client, const struct addrinfo *list)
{
    for (; list; list = list->ai_next) {
        enum iwarp_status status = try_address(client, list);
        if (status == IWARP_OK) {
            return take_grant(client);
        }
        if (!list->ai_next) {
            explain_failure(client, status);
        }
        cp_channel_close(&client->channel);
    }
    return false;
}

int cp_client_begin(struct cp_client *client, const struct cp_options *options, const char *verb,
                    const char *url)
{
    memset(client, 0, sizeof *client);
    client->options = options;
    const char *why = cp_url_parse(url, &client->url);
    if (why) {
        cp_error(url, why, "write iwarp://HOST[:PORT]/NAME");
        return CP_EXIT_USAGE;
    }
    cp_address_format(&client->url.address, client->server, sizeof client->server);
    cp_report_begin(&client->report, verb, client->server, options->json, options->quiet);
    return CP_EXIT_OK;
}

int cp_client_connect(struct cp_client *client)
{
    struct addrinfo *list = NULL;
    const char *why = cp_net_resolve(&client->url.address, false, &list);

    if (why) {
        cp_report_broken(&client->report, client->server, why, "check the name of the host");
        (void)cp_client_finish(client);
        return CP_EXIT_CONNECTION;
    }
    enum iwarp_status status = iwarp_device_open(NULL, &client->device);
    if (status != IWARP_OK) {
        explain_failure(client, status);
    }
    bool ok = status == IWARP_OK && connect_any(client, list);
    freeaddrinfo(list);
    if (!ok) {
        (void)cp_client_finish(client);
        return CP_EXIT_CONNECTION;
    }
    return CP_EXIT_OK;
}

void cp_client_broken(struct cp_client *client, struct cp_result result)
{
    cp_report_broken(&client->report, client->server, cp_result_text(result),
                     cp_result_hint(result, true));
}

static void explain_end(struct cp_client *client, const struct cp_event *event)
{
    char text[448], why[512];

    if (event->type == CP_EVENT_TIMEOUT) {
        snprintf(why, sizeof why, "nothing came from the server for %u s",
                 client->options->timeout_s);
        cp_report_broken(&client->report, client->server, why,
                         "check the server and the network, then repeat");
        return;
    }
    if (event->fault) {
        iwarp_fault_text(event->fault, text, sizeof text);
        snprintf(why, sizeof why, "the connection is lost: %s", text);
    } else {
        snprintf(why, sizeof why, "the server closed the connection");
    }
    cp_report_broken(&client->report, client->server, why,
                     "check that the server still runs, then repeat");
}

bool cp_client_wait(struct cp_client *client, struct cp_event *event, struct cp_message *message)
{
    struct cp_result result;

    cp_channel_wait(&client->channel, event, (int)client->options->timeout_s * 1000);
    if (event->type == CP_EVENT_TIMEOUT || event->type == CP_EVENT_BROKEN) {
        explain_end(client, event);
        return false;
    }
    if (event->type != CP_EVENT_MESSAGE) {
        return true;
    }
    if (!cp_message_read(event->data, event->len, message)) {
        cp_client_broken(client, cp_result_of(CP_MALFORMED));
        return false;
    }
    if (message->type == CP_MESSAGE_FAILED) {
        if (!cp_result_read(&message->body, &result)) {
            result = cp_result_of(CP_MALFORMED);
        }
        cp_client_broken(client, result);
        return false;
    }
    return true;
}

/* How many slots to ask for, of those that the server has granted. See limits.h. */
static unsigned wanted_slots(const struct cp_client *client)
{
    unsigned granted = client->channel.slots;
    int64_t more = client->startup_us * CP_SLOTS_A_MS / 1000;

    if (client->options->all_slots || more + CP_SLOTS_NEAR >= granted) {
        return granted;
    }
    return CP_SLOTS_NEAR + (unsigned)more;
}

/* OPEN uses the buffer behind those of the slots. */
static bool send_open(struct cp_client *client, enum cp_action action, unsigned flags)
{
    struct cp_channel *channel = &client->channel;
    unsigned index = channel->buffers - 1;
    uint8_t *buf = cp_channel_message(channel, index);
    struct cp_open open = {action, flags, client->url.name, strlen(client->url.name)};
    struct cp_writer writer;

    cp_message_begin(&writer, buf, CP_MESSAGE_MAX, CP_MESSAGE_OPEN, wanted_slots(client));
    cp_open_write(&writer, &open);
    return cp_channel_send(channel, index, cp_message_finish(&writer, buf), 0, 0,
                           (struct cp_target){0, 0});
}

bool cp_client_open(struct cp_client *client, enum cp_action action, unsigned flags,
                    struct cp_opened *opened)
{
    struct cp_event event = {0};
    struct cp_message message;
    unsigned access = action == CP_ACTION_GET ? IWARP_ACCESS_LOCAL_WRITE : 0;

    if (!send_open(client, action, flags)) {
        cp_client_broken(client, cp_result_of(CP_MALFORMED));
        return false;
    }
    do {
        if (!cp_client_wait(client, &event, &message)) {
            return false;
        }
    } while (event.type != CP_EVENT_MESSAGE);
    if (message.type != CP_MESSAGE_OPENED || !cp_opened_read(&message.body, opened) ||
        opened->slots > client->channel.slots ||
        !cp_channel_release(&client->channel, event.index)) {
        cp_client_broken(client, cp_result_of(CP_MALFORMED));
        return false;
    }
    if (opened->result.status != CP_OK) {
        cp_report_entry(&client->report, client->url.name[0] ? client->url.name : "/", 0, false,
                        true, opened->result);
        return false;
    }
    unsigned slots = opened->slots > 0 ? opened->slots : wanted_slots(client);
    if (!cp_channel_use_slots(&client->channel, slots) ||
        (action != CP_ACTION_LIST && cp_channel_add_slots(&client->channel, access) != IWARP_OK)) {
        cp_client_broken(client, cp_result_of(CP_NO_MEMORY));
        return false;
    }
    client->slots = (struct cp_target){opened->stag, opened->to};
    client->report.total_files = opened->total_files;
    client->report.total_bytes = opened->total_bytes;
    return true;
}

struct cp_target cp_client_target(const struct cp_client *client, unsigned slot)
{
    return (struct cp_target){client->slots.stag,
                              client->slots.to + (uint64_t)slot * client->channel.slot_size};
}

bool cp_client_fetch(struct cp_client *client, unsigned slot)
{
    uint8_t *buf = cp_channel_message(&client->channel, slot);
    struct cp_writer writer;

    cp_message_begin(&writer, buf, CP_MESSAGE_MAX, CP_MESSAGE_FETCH, slot);
    return cp_channel_send(&client->channel, slot, cp_message_finish(&writer, buf), 0, 0,
                           (struct cp_target){0, 0});
}

int cp_client_finish(struct cp_client *client)
{
    if (client->channel.conn && !client->report.broken) {
        cp_channel_finish(&client->channel, 2000);
    }
    struct cp_counts counts = client->channel.counts;
    cp_channel_close(&client->channel);
    if (client->device) {
        (void)iwarp_device_close(client->device);
        client->device = NULL;
    }
    return cp_report_end(&client->report, &counts);
}
