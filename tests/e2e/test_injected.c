/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults on request (IWARP_FAULTS): each of them happens where it was asked for and nowhere else,
 * is what a real one would be on both sides, and is told in the log; in memory and over TCP, with
 * and without markers. The initiator's first FPDU is the RDMA Read of peer-to-peer mode, the
 * responder's its answer.
 */
#include "octets.h"
#include "progress.h"
#include "scratch.h"
#include "verbs_pair.h"

#include "loop/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MEMORY ((size_t)1 << 21)
#define HALF   (MEMORY / 2)

static char said[65536]; /* what the last pair said */
static int real_stderr = -1;

static void listen_to_log(void)
{
    int fd = openat(scratch_fd, "log", O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    real_stderr = dup(STDERR_FILENO);
    dup2(fd, STDERR_FILENO);
    close(fd);
}

static void read_log(void)
{
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    real_stderr = -1;
    size_t n = scratch_read("log", said, sizeof said - 1);
    assert_in_range(n, 1, sizeof said - 1);
    said[n] = '\0';
}

static void log_has(const char *text)
{
    if (!strstr(said, text)) {
        fail_msg("\"%s\" is not in the log:\n%s", text, said);
    }
}

static void prepare(struct pair *p, const char *faults, enum pair_transport transport, bool markers)
{
    struct pair_options o;

    pair_options_init(&o, transport);
    o.memory = MEMORY;
    o.conn[0].markers = o.conn[1].markers = markers;
    listen_to_log();
    setenv("IWARP_FAULTS", faults, 1);
    pair_prepare(p, &o);
    unsetenv("IWARP_FAULTS");
    pair_fill(p->side[0].p, HALF, 1);
    pair_fill(p->side[1].p, HALF, 2);
}

static void open_pair(struct pair *p, const char *faults, enum pair_transport transport,
                      bool markers)
{
    prepare(p, faults, transport, markers);
    pair_connect(p);
}

static void wait_both(const struct pair *p)
{
    must(iwarp_conn_wait_end(p->side[0].conn, PAIR_WAIT_MS));
    must(iwarp_conn_wait_end(p->side[1].conn, PAIR_WAIT_MS));
}

static void close_pair(struct pair *p)
{
    pair_close(p);
    read_log();
    log_has(" warn faults: IWARP_FAULTS is ");
}

static void faults_are(const struct pair *p, unsigned from, enum iwarp_fault_code at_sender,
                       enum iwarp_fault_code at_receiver)
{
    assert_int_equal(iwarp_fault_code(iwarp_conn_fault(p->side[from].conn)), at_sender);
    assert_int_equal(iwarp_fault_code(iwarp_conn_fault(p->side[1 - from].conn)), at_receiver);
}

/* One Send of 1000 octets to the other side's second half; false: it did not come. */
static bool send_one(struct pair *p, unsigned from)
{
    struct pair_side *a = &p->side[from], *b = &p->side[1 - from];
    struct iwarp_wc wc;

    memset(b->p + HALF, 0, 1000);
    pair_recv(b, 1, HALF, 1000);
    pair_send(a, 2, 0, 1000);
    assert_int_equal(iwarp_cq_wait(b->recv_cq, &wc, 1, PAIR_WAIT_MS), 1);
    bool came = wc.status == IWARP_WC_SUCCESS;
    assert_int_equal(iwarp_cq_wait(a->send_cq, &wc, 1, PAIR_WAIT_MS), 1);
    if (came) {
        assert_int_equal(wc.status, IWARP_WC_SUCCESS);
        assert_memory_equal(b->p + HALF, a->p, 1000);
    }
    return came;
}

/* The fourth FPDU of one side is its third Send. */
static void in_the_third_send(const char *word, unsigned from, enum pair_transport transport,
                              bool markers, enum iwarp_fault_code at_sender,
                              enum iwarp_fault_code at_receiver)
{
    struct pair p;
    char faults[64];

    snprintf(faults, sizeof faults, "%s=4,only=%u", word, from + 1);
    open_pair(&p, faults, transport, markers);
    assert_true(send_one(&p, 0)); /* a responder waits for the initiator's first */
    assert_true(send_one(&p, 1));
    assert_true(send_one(&p, from));
    assert_false(send_one(&p, from));
    wait_both(&p);
    faults_are(&p, from, at_sender, at_receiver);
    close_pair(&p);
    snprintf(faults, sizeof faults, " warn faults: connection %u", from + 1);
    log_has(faults);
    log_has(strcmp(word, "crc") == 0 ? "FPDU 4 was sent with a wrong CRC, as IWARP_FAULTS asks\n"
                                     : "octets, in FPDU 4, as IWARP_FAULTS asks\n");
}

static void crc__of_the_nth_fpdu__is_wrong_and_seen_by_the_peer(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        in_the_third_send("crc", i & 1, i & 2 ? PAIR_TCP4 : PAIR_MEMORY, i & 4,
                          IWARP_FAULT_PEER_TERMINATE, IWARP_FAULT_MPA_CRC);
    }
}

static void connection__in_place_of_the_nth_fpdu__is_lost_on_both_sides(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        in_the_third_send("lose-fpdu", i & 1, i & 2 ? PAIR_TCP4 : PAIR_MEMORY, i & 4,
                          IWARP_FAULT_TCP_LOST, IWARP_FAULT_TCP_LOST);
    }
}

/* In the middle of a Write: what came before is there, the Write fails on its side. */
static void connection__at_an_octet_of_a_write__is_lost_on_both_sides(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct pair p;
        struct iwarp_wc wc;
        open_pair(&p, "lose-octet=700001,only=1", i & 1 ? PAIR_TCP4 : PAIR_MEMORY, i & 2);
        pair_write(&p.side[0], 1, 0, HALF, &p.side[1], HALF);
        wait_both(&p);
        assert_int_equal(iwarp_cq_wait(p.side[0].send_cq, &wc, 1, PAIR_WAIT_MS), 1);
        assert_int_not_equal(wc.status, IWARP_WC_SUCCESS);
        faults_are(&p, 0, IWARP_FAULT_TCP_LOST, IWARP_FAULT_TCP_LOST);
        assert_int_equal(p.side[1].p[MEMORY - 1], 0);
        close_pair(&p);
        log_has("connection 1 is lost after 700000 octets, in FPDU ");
    }
}

/* The Request is 28 octets long (RFC 6581 9), or so the peer would learn. */
static void connection__within_its_request__is_lost(void **state)
{
    struct sockaddr_storage addr;
    struct pair p;
    socklen_t len;

    (void)state;
    prepare(&p, "lose-octet=11,only=1", PAIR_TCP4, false);
    must(iwarp_listener_addr(p.listener, &addr, &len));
    must(iwarp_connect(p.side[0].qp, (const struct sockaddr *)&addr, len, NULL, NULL, 0, p.eq[0],
                       NULL, &p.side[0].conn));
    struct iwarp_event event = pair_event(p.eq[0], IWARP_EVENT_FAILED);
    assert_int_equal(event.status, IWARP_TRANSPORT);
    assert_int_equal(iwarp_fault_code(event.fault), IWARP_FAULT_TCP_LOST);
    close_pair(&p);
    log_has("connection 1 is lost after 10 octets, in FPDU 0, as IWARP_FAULTS asks\n");
}

static void transfer(struct pair *p, unsigned from)
{
    struct pair_side *a = &p->side[from], *b = &p->side[1 - from];

    pair_write(a, 10, 0, 30000, b, HALF);
    pair_read(a, 11, HALF, 20000, b, 0);
    assert_true(iwarp_cq_wait(a->send_cq, (struct iwarp_wc[1]){{0}}, 1, PAIR_WAIT_MS) == 1);
    pair_wc(a->send_cq, 11, IWARP_WC_SUCCESS);
    assert_memory_equal(b->p + HALF, a->p, 30000);
    assert_memory_equal(a->p + HALF, b->p, 20000);
    assert_true(send_one(p, from));
}

static void transfer_and_close(struct pair *p)
{
    transfer(p, 0);
    transfer(p, 1);
    must(iwarp_disconnect(p->side[0].conn));
    wait_both(p);
    faults_are(p, 0, IWARP_FAULT_NONE, IWARP_FAULT_NONE);
    close_pair(p);
}

static void octets__in_small_pieces__come_complete(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        struct pair p;
        open_pair(&p, i & 4 ? "split=1-50,seed=3" : "split=97", i & 1 ? PAIR_TCP4 : PAIR_MEMORY,
                  i & 2);
        transfer_and_close(&p);
    }
}

/* Twenty batches wait at least 2 ms each. */
static void octets__that_wait__come_later(void **state)
{
    struct pair p;

    (void)state;
    open_pair(&p, "delay=2-4", PAIR_TCP4, false);
    int64_t began = iwarp_now_ms();
    for (unsigned i = 0; i < 10; i++) {
        assert_true(send_one(&p, 0));
        assert_true(send_one(&p, 1));
    }
    assert_true(iwarp_now_ms() - began >= 30);
    close_pair(&p);
}

enum { LATE_MS = 20 };

/* The peer has the message, and has answered it, before the Send completes. */
static void release__that_is_late__completes_requests_late(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct pair p;
        struct iwarp_wc wc;
        open_pair(&p, i & 2 ? "late=20-30,split=900" : "late=20", i & 1 ? PAIR_TCP4 : PAIR_MEMORY,
                  i & 2);
        struct pair_side *a = &p.side[0], *b = &p.side[1];
        for (unsigned k = 0; k < 3; k++) {
            pair_recv(b, 1, HALF, 1000);
            pair_recv(a, 3, HALF, 1000);
            int64_t began = iwarp_now_ms();
            pair_send(a, 2, 0, 1000);
            pair_wc(b->recv_cq, 1, IWARP_WC_SUCCESS);
            pair_send(b, 4, 0, 1000);
            pair_wc(a->recv_cq, 3, IWARP_WC_SUCCESS);
            int64_t answered = iwarp_now_ms() - began; /* under load that may take long */
            int n = iwarp_cq_poll(a->send_cq, &wc, 1);
            assert_true(n == 0 || answered >= LATE_MS);
            if (n == 0) {
                pair_wc(a->send_cq, 2, IWARP_WC_SUCCESS);
            }
            assert_true(iwarp_now_ms() - began >= LATE_MS);
            pair_wc(b->send_cq, 4, IWARP_WC_SUCCESS);
        }
        transfer_and_close(&p);
    }
}

/* An end that closes does not wait for the release: nothing is held then. */
static void release__that_is_late__ends_with_the_stream(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct pair p;
        open_pair(&p, "late=10000", i ? PAIR_TCP4 : PAIR_MEMORY, false);
        pair_recv(&p.side[1], 1, HALF, 1000);
        pair_send(&p.side[0], 2, 0, 1000);
        pair_wc(p.side[1].recv_cq, 1, IWARP_WC_SUCCESS);
        must(iwarp_disconnect(p.side[0].conn));
        wait_both(&p);
        pair_wc(p.side[0].send_cq, 2, IWARP_WC_SUCCESS);
        faults_are(&p, 0, IWARP_FAULT_NONE, IWARP_FAULT_NONE);
        close_pair(&p);
    }
}

/* What is not complete is still in use, whatever the peer has answered. */
static void memory__that_goes_before_its_release__ends_the_stream(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct pair p;
        struct iwarp_mr *mr;
        open_pair(&p, "late=10000", i ? PAIR_TCP4 : PAIR_MEMORY, false);
        struct pair_side *a = &p.side[0], *b = &p.side[1];
        must(iwarp_mr_register(a->pd, a->p, HALF, PAIR_ALL, &mr));
        const struct iwarp_sge sge = {a->p, 60000, iwarp_mr_stag(mr)};
        const struct iwarp_send_wr wr = {.wr_id = 2,
                                         .opcode = IWARP_WR_SEND,
                                         .flags = IWARP_WR_SIGNALED,
                                         .sg_list = &sge,
                                         .num_sge = 1};
        pair_recv(b, 1, HALF, 60000);
        must(iwarp_post_send(a->qp, &wr, NULL));
        pair_wc(b->recv_cq, 1, IWARP_WC_SUCCESS);
        must(iwarp_mr_deregister(mr));
        wait_both(&p);
        pair_wc(a->send_cq, 2, IWARP_WC_FLUSHED);
        assert_int_equal(iwarp_fault_code(iwarp_conn_fault(a->conn)),
                         IWARP_FAULT_LOCAL_DEREGISTERED);
        close_pair(&p);
    }
}

/* Those of the pair are the first two. */
static void registration__of_that_number__fails_alone(void **state)
{
    struct iwarp_mr *mr[3] = {NULL, NULL, NULL};
    struct pair p;

    (void)state;
    open_pair(&p, "register=4", PAIR_MEMORY, false);
    must(iwarp_mr_register(p.side[0].pd, p.side[0].p, 10, PAIR_ALL, &mr[0]));
    must_fail(iwarp_mr_register(p.side[0].pd, p.side[0].p, 10, PAIR_ALL, &mr[1]), IWARP_NO_MEMORY,
              "registration 4 fails, as IWARP_FAULTS asks");
    assert_null(mr[1]);
    must(iwarp_mr_register(p.side[0].pd, p.side[0].p, 10, PAIR_ALL, &mr[2]));
    must(iwarp_mr_deregister(mr[0]));
    must(iwarp_mr_deregister(mr[2]));
    transfer(&p, 0);
    close_pair(&p);
    log_has(" warn faults: registration 4 fails, as IWARP_FAULTS asks\n");
}

/* A fault of chance happens at the same place whenever the seed is the same. */
static void fault__of_chance__is_repeated_by_its_seed(void **state)
{
    char first[64];

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct pair p;
        open_pair(&p, "lose-fpdu=2-60,only=1,seed=20", i ? PAIR_TCP4 : PAIR_MEMORY, false);
        while (send_one(&p, 0)) {
        }
        close_pair(&p);
        const char *where = strstr(said, "in FPDU ");
        assert_non_null(where);
        if (i == 0) {
            snprintf(first, sizeof first, "%.12s", where);
        }
        assert_memory_equal(first, where, 12);
    }
}

/* Nothing else is disturbed, and a connection with nothing agreed on says so. */
static void crc__that_nobody_looks_at__is_told(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    o.memory = MEMORY;
    o.conn[0].crc = o.conn[1].crc = false;
    listen_to_log();
    setenv("IWARP_FAULTS", "crc=2,only=1", 1);
    pair_open(&p, &o);
    unsetenv("IWARP_FAULTS");
    pair_fill(p.side[0].p, HALF, 1);
    assert_true(send_one(&p, 0));
    assert_true(send_one(&p, 0));
    close_pair(&p);
    log_has("FPDU 2 was sent with a wrong CRC, as IWARP_FAULTS asks; nobody looks");
}

static int teardown(void **state)
{
    if (real_stderr >= 0) {
        read_log();
        fprintf(stderr, "%s", said);
    }
    unsetenv("IWARP_FAULTS");
    return scratch_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(crc__of_the_nth_fpdu__is_wrong_and_seen_by_the_peer,
                                        scratch_setup, teardown),
        cmocka_unit_test_setup_teardown(crc__that_nobody_looks_at__is_told, scratch_setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(connection__in_place_of_the_nth_fpdu__is_lost_on_both_sides,
                                        scratch_setup, teardown),
        cmocka_unit_test_setup_teardown(connection__at_an_octet_of_a_write__is_lost_on_both_sides,
                                        scratch_setup, teardown),
        cmocka_unit_test_setup_teardown(connection__within_its_request__is_lost, scratch_setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(octets__in_small_pieces__come_complete, scratch_setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(octets__that_wait__come_later, scratch_setup, teardown),
        cmocka_unit_test_setup_teardown(release__that_is_late__completes_requests_late,
                                        scratch_setup, teardown),
        cmocka_unit_test_setup_teardown(release__that_is_late__ends_with_the_stream, scratch_setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(memory__that_goes_before_its_release__ends_the_stream,
                                        scratch_setup, teardown),
        cmocka_unit_test_setup_teardown(registration__of_that_number__fails_alone, scratch_setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(fault__of_chance__is_repeated_by_its_seed, scratch_setup,
                                        teardown),
    };

    unsetenv("IWARP_LOG");
    return cmocka_run_group_tests_name("injected", tests, NULL, NULL);
}
