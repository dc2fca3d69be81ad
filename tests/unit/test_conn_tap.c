/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs/conn_tap: what is recorded of connections with a raw peer over kernel TCP is what that peer
 * sent and heard, in both roles, over an adopted socket too; and what the environment asks for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recording.h"
#include "scratch.h"
#include "tcp_host.h"

#define REQUEST "4d504120494420526571204672616d65"
#define REPLY   "4d504120494420526570204672616d65"
#define HELLO   "00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 b990b10c"

static struct tcp_host *host;
static char path[4096];

static int setup(void **state)
{
    static unsigned files;
    struct iwarp_device_options o;

    (void)state;
    snprintf(path, sizeof path, "%s/%u.pcapng", scratch_path, files++);
    iwarp_device_options_init(&o);
    o.pcap = path;
    host = host_open(&o, NULL);
    return 0;
}

/* Everything ends, and the file is read. */
static void load(struct recording *r)
{
    host_close(host);
    recording_load(r, path);
}

/* The connection with this port of the raw peer's at that side; every other is the quiet one. */
static unsigned connection_of(const struct recording *r, unsigned side, uint16_t port)
{
    for (unsigned i = 0; i < r->connections; i++) {
        if (r->connection[i].port[side] == port) {
            assert_memory_equal(r->connection[i].ip[0], "\x7f\0\0\x01", 4);
            assert_memory_equal(r->connection[i].ip[1], "\x7f\0\0\x01", 4);
            return i;
        }
    }
    fail_msg("no connection of port %u", port);
    return 0;
}

static uint16_t raw_port(void)
{
    struct sockaddr_in at;
    socklen_t len = sizeof at;

    assert_int_equal(getsockname(host->fd, (struct sockaddr *)&at, &len), 0);
    return ntohs(at.sin_port);
}

/* --- streams --------------------------------------------------------------------------------- */

static void responder__records_what_the_peer_sent_and_heard(void **state)
{
    struct recording r;

    (void)state;
    host_connect(host, HOST_RESPONDER, 1, 1);
    uint16_t port = raw_port(), listening = ntohs(host->addr.sin_port);
    raw_say(host->fd, NULL, HELLO);
    assert_int_equal(host_completion(host).status, IWARP_WC_SUCCESS);
    raw_fin(host->fd);
    raw_expect_fin(host->fd, "the host's end");
    host_ended(host, IWARP_FAULT_NONE, 0);
    host_finish(host);
    load(&r);
    unsigned c = connection_of(&r, 0, port);
    assert_int_equal(r.connection[c].port[1], listening);
    recording_expect(&r, c, 0, REQUEST "40010000" HELLO);
    recording_expect(&r, c, 1, REPLY "40010000");
    assert_true(r.connection[c].fin[0] && r.connection[c].fin[1]);
    recording_free(&r);
}

static void initiator__records_what_the_peer_sent_and_heard(void **state)
{
    struct recording r;
    char qp[32];
    bool named = false;

    (void)state;
    host_connect(host, HOST_INITIATOR, 1, 1);
    uint16_t port = raw_port();
    snprintf(qp, sizeof qp, "QP %u", iwarp_qp_num(host->qp));
    memcpy(host->r.p, "hello", 5);
    host_post(host, IWARP_WR_SEND, 1, 5);
    raw_hear(host->fd, NULL, HELLO, "the Send");
    raw_say(host->fd, NULL, HELLO);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(host_completion(host).status, IWARP_WC_SUCCESS);
    }
    raw_fin(host->fd);
    raw_expect_fin(host->fd, "the host's end");
    host_ended(host, IWARP_FAULT_NONE, 0);
    host_finish(host);
    host_reset_memory(host);
    load(&r);
    unsigned c = connection_of(&r, 1, port);
    recording_expect(&r, c, 0, REQUEST "40010000" HELLO);
    recording_expect(&r, c, 1, REPLY "40010000" HELLO);
    for (unsigned i = 0; i < r.packets; i++) {
        named = named || (r.packet[i].connection == c && strcmp(r.packet[i].comment, qp) == 0);
    }
    assert_true(named);
    recording_free(&r);
}

/* What the peer writes to, and what a Read of this end goes into. */
static void regions__used__are_told_by_comments(void **state)
{
    struct recording r;
    char written[160], sink[32];
    unsigned told[2] = {0, 0};

    (void)state;
    host_connect(host, HOST_RESPONDER, 1, 1);
    snprintf(
        written, sizeof written, "MR 0x%08x: 4096 octets from TO 0x%llx, local write, remote write",
        (uint32_t)host->names.value['W' - 'A'], (unsigned long long)host->names.value['T' - 'A']);
    snprintf(sink, sizeof sink, "MR 0x%08x: 4096 octets", (uint32_t)host->names.value['L' - 'A']);
    host_begin_read(host);
    raw_say(host->fd, &host->names, "|0012c140 W T 61626364C |0012c140 W T 65666768C |" HELLO);
    assert_int_equal(host_completion(host).opcode, IWARP_WC_RECV);
    raw_reset(host->fd);
    host->fd = -1;
    host_ended(host, IWARP_FAULT_TCP_LOST, 1);
    host_finish(host);
    host_reset_memory(host);
    load(&r);
    for (unsigned i = 0; i < r.packets; i++) {
        told[0] += strstr(r.packet[i].comment, written) != NULL;
        told[1] += r.packet[i].side == 1 && strstr(r.packet[i].comment, sink) != NULL;
    }
    assert_int_equal(told[0], 1);
    assert_int_equal(told[1], 1);
    recording_free(&r);
}

static void reset__of_the_peer__is_recorded(void **state)
{
    struct recording r;

    (void)state;
    host_connect(host, HOST_RESPONDER, 2, 0);
    uint16_t port = raw_port();
    raw_reset(host->fd);
    host->fd = -1;
    host_ended(host, IWARP_FAULT_TCP_LOST, 0);
    host_finish(host);
    load(&r);
    assert_true(r.connection[connection_of(&r, 0, port)].reset);
    recording_free(&r);
}

/* Octets that the application had read count; what was said before is not the connection's. */
static void adopted__begins_at_the_adoption(void **state)
{
    struct recording r;
    struct sockaddr_in at;
    struct octets early = {0};
    int listener = raw_listen(&at);
    int ours = raw_connect(&at);

    (void)state;
    host->fd = raw_accept(listener);
    raw_close(listener);
    uint16_t port = raw_port();
    raw_send(ours, "HELLO\n", 6);
    raw_hear(host->fd, NULL, "48454c4c4f0a", "the application's own protocol");
    host_options(host);
    octets_hex(&early, "4d50412049");
    assert_int_equal(iwarp_accept_socket(host->device, ours, early.p, early.n, &host->options,
                                         host->eq, host, &host->conn),
                     IWARP_OK);
    octets_free(&early);
    raw_say(host->fd, NULL, "4420526571204672616d65 40010000");
    struct iwarp_event e = host_event(host, IWARP_EVENT_REQUEST);
    host_accept(host, e.conn, 1);
    raw_hear(host->fd, NULL, REPLY "40010000", "the Reply");
    assert_int_equal(host_event(host, IWARP_EVENT_ESTABLISHED).status, IWARP_OK);
    raw_say(host->fd, NULL, HELLO);
    assert_int_equal(host_completion(host).status, IWARP_WC_SUCCESS);
    raw_fin(host->fd);
    raw_expect_fin(host->fd, "the host's end");
    host_ended(host, IWARP_FAULT_NONE, 0);
    host_finish(host);
    load(&r);
    unsigned c = connection_of(&r, 0, port);
    recording_expect(&r, c, 0, REQUEST "40010000" HELLO);
    recording_expect(&r, c, 1, REPLY "40010000");
    recording_free(&r);
}

/* --- what the environment says --------------------------------------------------------------- */

static struct iwarp_device *open_by_environment(const char *name, const char *most)
{
    struct iwarp_device *device = NULL;

    setenv("IWARP_PCAP", name, 1);
    if (most) {
        setenv("IWARP_PCAP_MAX", most, 1);
    }
    assert_int_equal(iwarp_device_open(NULL, &device), IWARP_OK);
    unsetenv("IWARP_PCAP");
    unsetenv("IWARP_PCAP_MAX");
    return device;
}

static void environment__names_a_file__makes_it(void **state)
{
    struct recording r;

    (void)state;
    snprintf(path, sizeof path, "%s/environment", scratch_path);
    struct iwarp_device *device = open_by_environment(path, "5000");
    assert_int_equal(iwarp_device_close(device), IWARP_OK);
    recording_load(&r, path);
    assert_int_equal(r.packets, 0);
    recording_free(&r);
}

static void environment__with_mistakes__opens_the_device_all_the_same(void **state)
{
    static const char *const bounds[] = {"", "12", "5000x", "-5000", "99999999999999999999"};
    struct stat st;

    (void)state;
    for (unsigned i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        snprintf(path, sizeof path, "%s/mistake%u", scratch_path, i);
        assert_int_equal(iwarp_device_close(open_by_environment(path, bounds[i])), IWARP_OK);
        assert_int_equal(stat(path, &st), 0);
    }
    assert_int_equal(iwarp_device_close(open_by_environment("/no/such/directory/x", NULL)),
                     IWARP_OK);
    assert_int_equal(iwarp_device_close(open_by_environment("", NULL)), IWARP_OK);
}

static void option__empty__is_none_whatever_the_environment_says(void **state)
{
    struct iwarp_device_options o;
    struct iwarp_device *device;
    struct stat st;

    (void)state;
    snprintf(path, sizeof path, "%s/unwanted", scratch_path);
    setenv("IWARP_PCAP", path, 1);
    iwarp_device_options_init(&o);
    o.pcap = "";
    assert_int_equal(iwarp_device_open(&o, &device), IWARP_OK);
    assert_int_equal(iwarp_device_close(device), IWARP_OK);
    unsetenv("IWARP_PCAP");
    assert_int_not_equal(stat(path, &st), 0);
    o.pcap_max_bytes = 4095;
    assert_int_equal(iwarp_device_open(&o, &device), IWARP_MISUSE);
    assert_non_null(strstr(iwarp_last_error(), "pcap_max_bytes is 4095"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(responder__records_what_the_peer_sent_and_heard, setup),
        cmocka_unit_test_setup(initiator__records_what_the_peer_sent_and_heard, setup),
        cmocka_unit_test_setup(regions__used__are_told_by_comments, setup),
        cmocka_unit_test_setup(reset__of_the_peer__is_recorded, setup),
        cmocka_unit_test_setup(adopted__begins_at_the_adoption, setup),
        cmocka_unit_test(environment__names_a_file__makes_it),
        cmocka_unit_test(environment__with_mistakes__opens_the_device_all_the_same),
        cmocka_unit_test(option__empty__is_none_whatever_the_environment_says),
    };

    return cmocka_run_group_tests_name("conn_tap", tests, scratch_setup, scratch_teardown);
}
