/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A raw peer whose counters go through their ends on a connection of a live server: MSNs of Sends,
 * of RDMA Read and Atomic Requests and their answers through 2^32, repeated, behind and ahead on
 * either side of it; MO up to the longest message; TO up to 2^64. The first message of each
 * conversation is an ordinary one; then the server's counters are set, as if 2^32 - 2 more had
 * gone.
 *
 * RFC 5041 4.3, 5.1 and 7.1, RFC 5040 5.2 and 7.2, RFC 7306 5.2.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "stream/stream.h"
#include "tcp_host.h"
#include "vectors.h"
#include "verbs/conn.h"
#include "verbs/mr.h"
#include "verbs/srq.h"

#define NEAR 0xfffffffeu /* two in front of 0 */

static struct tcp_host *host;

static int setup(void **state)
{
    struct iwarp_device_options device;

    (void)state;
    iwarp_device_options_init(&device);
    device.rfc7306 = IWARP_RFC7306_ON;
    host = host_open(&device, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    host_close(host);
    return 0;
}

/* --- counters that are set ------------------------------------------------------------------- */

/* All of both directions; nothing is under way. */
static void set_msns(void)
{
    struct iwarp_stream *s = &host->conn->stream;

    iwarp_mutex_lock(&host->conn->lock);
    for (unsigned qn = 0; qn < 4; qn++) {
        if (qn != 2) { /* a Terminate is the only one of its queue */
            s->ddp.msn[qn] = NEAR;
        }
    }
    s->tx.send_msn = s->tx.read_msn = s->tx.atomic_msn = NEAR;
    iwarp_mutex_unlock(&host->conn->lock);
}

/* The message that is under way has come so far. */
static void set_mo(uint32_t mo)
{
    struct iwarp_stream *s = &host->conn->stream;

    iwarp_mutex_lock(&host->conn->lock);
    assert_int_not_equal(s->ddp.mo[0], 0);
    s->ddp.mo[0] = mo;
    iwarp_mutex_unlock(&host->conn->lock);
}

static void receive(uint64_t wr_id, void *p, uint32_t n, struct iwarp_mr *mr)
{
    const struct iwarp_sge sge = {p, n, iwarp_mr_stag(mr)};
    const struct iwarp_recv_wr recv = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};

    assert_int_equal(iwarp_post_recv(host->qp, &recv, NULL), IWARP_OK);
}

static void say(const char *text)
{
    raw_say(host->fd, &host->names, text);
}

static void hear(const char *text, const char *what)
{
    raw_hear(host->fd, &host->names, text, what);
}

static void send_of_5(uint32_t msn)
{
    raw_name(&host->names, 'M', msn, 4);
    say("00174143 00000000 00000000 M 00000000 68656c6c 6f 000000 C");
}

static void received(uint64_t wr_id)
{
    struct iwarp_wc wc = host_completion(host);

    assert_int_equal(wc.status, IWARP_WC_SUCCESS);
    assert_int_equal(wc.wr_id, wr_id);
    assert_int_equal(wc.byte_len, 5);
}

/* Established, a Send has come, and the counters stand in front of their ends. */
static void begin(enum host_role role, unsigned receives)
{
    host_options(host);
    host_connect(host, role, 2, 1);
    send_of_5(1);
    received(100);
    for (unsigned i = 0; i < receives; i++) {
        receive(101 + i, host->l.p, HOST_RECV_LEN, host->l.mr);
    }
    set_msns();
}

static void end_in_order(unsigned left)
{
    raw_fin(host->fd);
    raw_expect_fin(host->fd, "a close in order");
    host_ended(host, IWARP_FAULT_NONE, left);
    host_finish(host);
    host_check_quiet(host);
}

static void end_with(const char *terminate, enum iwarp_fault_code fault, unsigned left)
{
    hear(terminate, "the Terminate");
    raw_expect_fin(host->fd, "behind the Terminate");
    host_ended(host, fault, left);
    host_finish(host);
    host_check_quiet(host);
}

/* --- Sends ----------------------------------------------------------------------------------- */

static void sends__through_the_end_of_msn__arrive_and_go(void **state)
{
    (void)state;
    for (int role = 0; role < 2; role++) {
        begin(role ? HOST_INITIATOR : HOST_RESPONDER, 5);
        for (uint32_t i = 0; i < 5; i++) {
            send_of_5(NEAR + i);
            received(101 + i);
            raw_name(&host->names, 'M', NEAR + i, 4);
            host_post(host, IWARP_WR_SEND, 300 + i, 0);
            hear("00124143 00000000 00000000 M 00000000 C", "a Send");
            assert_int_equal(host_completion(host).wr_id, 300 + i);
        }
        end_in_order(0);
    }
}

/* So many in order from NEAR on, then this one. */
static const struct {
    uint32_t in_order, msn;
} bad_msns[] = {
    {0, 0xffffffff}, {0, 0},          {0, 1},          {0, 0xfffffffd}, {1, 0xfffffffe},
    {1, 0},          {1, 0x7fffffff}, {2, 0xffffffff}, {2, 1},          {2, 0xfffffffe},
    {2, 0x80000000}, {3, 0},          {3, 0xffffffff}, {3, 2},          {4, 1},
};

static void sends__out_of_order_around_the_end_of_msn__are_1_2_03(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof bad_msns / sizeof *bad_msns; i++) {
        printf("# %u in order, then %08x\n", bad_msns[i].in_order, bad_msns[i].msn);
        fflush(stdout);
        begin(i % 2 ? HOST_INITIATOR : HOST_RESPONDER, 6);
        for (uint32_t k = 0; k < bad_msns[i].in_order; k++) {
            send_of_5(NEAR + k);
            received(101 + k);
        }
        send_of_5(bad_msns[i].msn); /* M is what the Terminate quotes */
        end_with("002a4147 00000000 00000002 00000001 00000000 1203c000"
                 "00174143 00000000 00000000 M 00000000 C",
                 IWARP_FAULT_DDP_MSN, 6 - bad_msns[i].in_order);
    }
}

/* Several segments each: the MSN stays while MO goes on, and both are the next one's then. */
static void sends__of_segments_through_the_end_of_msn__are_whole(void **state)
{
    (void)state;
    begin(HOST_RESPONDER, 4);
    for (uint32_t i = 0; i < 4; i++) {
        raw_name(&host->names, 'M', NEAR + i, 4);
        say("00140143 00000000 00000000 M 00000000 6865 0000 C"
            "| 00124143 00000000 00000000 M 00000002 C");
        struct iwarp_wc wc = host_completion(host);
        assert_int_equal(wc.wr_id, 101 + i);
        assert_int_equal(wc.byte_len, 2);
    }
    raw_name(&host->names, 'O', 1, 4);
    receive(105, host->l.p, HOST_RECV_LEN, host->l.mr);
    raw_name(&host->names, 'M', NEAR + 4, 4);
    say("00140143 00000000 00000000 M 00000000 6865 0000 C"
        "| 00144143 00000000 00000000 O 00000002 6865 0000 C");
    end_with("002a4147 00000000 00000002 00000001 00000000 1203c000"
             "00144143 00000000 00000000 O 00000002 C",
             IWARP_FAULT_DDP_MSN, 1);
}

/* --- a shared receive queue ------------------------------------------------------------------ */

static void sends__into_a_shared_queue_through_the_end_of_msn__arrive(void **state)
{
    struct iwarp_srq_options srq;
    struct iwarp_qp_options qp;
    struct iwarp_srq *shared;

    (void)state;
    iwarp_srq_options_init(&srq);
    assert_int_equal(iwarp_srq_create(host->pd, &srq, &shared), IWARP_OK);
    for (unsigned i = 0; i < 8; i++) {
        const struct iwarp_sge sge = {host->l.p, HOST_RECV_LEN, iwarp_mr_stag(host->l.mr)};
        const struct iwarp_recv_wr recv = {.wr_id = 100 + i, .sg_list = &sge, .num_sge = 1};
        assert_int_equal(iwarp_srq_post_recv(shared, &recv, NULL), IWARP_OK);
    }
    host_options(host);
    host->conn = NULL;
    host->fd = raw_connect(&host->addr);
    say("4d504120494420526571204672616d65 50020004 00100008");
    struct iwarp_conn *conn = host_request(host);
    iwarp_qp_options_init(&qp);
    qp.send_cq = qp.recv_cq = host->cq;
    qp.srq = shared;
    qp.max_recv_wr = 0;
    assert_int_equal(iwarp_qp_create(host->pd, &qp, &host->qp), IWARP_OK);
    host->conn = conn;
    assert_int_equal(iwarp_accept(conn, host->qp, &host->options, NULL, 0, NULL), IWARP_OK);
    hear("4d504120494420526570204672616d65 50020004 00080010", "the Reply");
    host_event(host, IWARP_EVENT_ESTABLISHED);
    send_of_5(1);
    received(100);
    set_msns();
    for (uint32_t i = 0; i < 5; i++) {
        send_of_5(NEAR + i);
        received(101 + i);
    }
    send_of_5(NEAR + 4);
    end_with("002a4147 00000000 00000002 00000001 00000000 1203c000"
             "00174143 00000000 00000000 M 00000000 C",
             IWARP_FAULT_DDP_MSN, 1); /* a receive that was taken for it */
    assert_int_equal(iwarp_srq_destroy(shared), IWARP_OK);
}

/* --- RDMA Reads and Atomics of the peer ------------------------------------------------------ */

static void read_request(uint32_t msn)
{
    raw_name(&host->names, 'M', msn, 4);
    say("002e4141 00000000 00000001 M 00000000 11223344 00000000 00002000 00000004 R U C");
}

static void requests__through_the_end_of_msn__are_answered(void **state)
{
    static uint64_t word;
    struct iwarp_mr *mr;

    (void)state;
    host_reset_memory(host);
    assert_int_equal(iwarp_mr_register(host->pd, &word, sizeof word,
                                       IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_ATOMIC, &mr),
                     IWARP_OK);
    raw_name(&host->names, 'A', iwarp_mr_stag(mr), 4);
    raw_name(&host->names, 'B', (uint64_t)(uintptr_t)&word, 8);
    raw_name(&host->names, 'D',
             (uint64_t)host->r.p[0] << 24 | (uint64_t)host->r.p[1] << 16 |
                 (uint64_t)host->r.p[2] << 8 | host->r.p[3],
             4);
    begin(HOST_RESPONDER, 0);
    word = 40;
    for (uint32_t i = 0; i < 6; i++) { /* both kinds are of one queue */
        raw_name(&host->names, 'M', NEAR + i, 4);
        if (i % 2 == 0) {
            read_request(NEAR + i);
            hear("0012c142 11223344 00000000 00002000 D C", "the RDMA Read Response");
        } else {
            raw_name(&host->names, 'I', i, 4);
            raw_name(&host->names, 'J', NEAR + i / 2, 4);
            raw_name(&host->names, 'K', 40 + i / 2, 8);
            say("0046414a 00000000 00000001 M 00000000 00000000 I A B 00000000 00000001"
                "00000000 00000000 00000000 00000000 ffffffff ffffffff C");
            hear("001e414b 00000000 00000003 J 00000000 I K C", "the Atomic Response");
        }
    }
    assert_int_equal(word, 43);
    end_in_order(0);
    assert_int_equal(iwarp_mr_deregister(mr), IWARP_OK);
}

static void requests__out_of_order_around_the_end_of_msn__are_1_2_03(void **state)
{
    struct octets skip = {0};

    (void)state;
    octets_fill(&skip, 0, 24); /* of a Response */
    for (unsigned i = 0; i < sizeof bad_msns / sizeof *bad_msns; i++) {
        begin(HOST_RESPONDER, 0);
        for (uint32_t k = 0; k < bad_msns[i].in_order; k++) {
            read_request(NEAR + k);
            raw_read(host->fd, skip.p, skip.n, "the RDMA Read Response");
        }
        read_request(bad_msns[i].msn);
        end_with("002a4147 00000000 00000002 00000001 00000000 1203c000"
                 "002e4141 00000000 00000001 M 00000000 C",
                 IWARP_FAULT_DDP_MSN, 0);
    }
    octets_free(&skip);
}

/* --- RDMA Reads of this end ------------------------------------------------------------------ */

static void hear_read_request(uint32_t msn)
{
    raw_name(&host->names, 'M', msn, 4);
    hear("002e4141 00000000 00000001 M 00000000 L Q+400 00000100 11223344 00000000 00002000 C",
         "the RDMA Read Request");
}

static void reads__through_the_end_of_msn__are_answered(void **state)
{
    (void)state;
    begin(HOST_RESPONDER, 0);
    for (uint32_t i = 0; i < 5; i++) {
        host_post_read(host);
        hear_read_request(NEAR + i);
        say("010ec142 L Q+400 N5c*256 C");
        struct iwarp_wc wc = host_completion(host);
        assert_int_equal(wc.status, IWARP_WC_SUCCESS);
        assert_int_equal(wc.byte_len, HOST_READ_LEN);
        assert_int_equal(host->l.p[HOST_READ_AT + 255], 0x5c);
    }
    end_in_order(0);
}

/* Five are outstanding on both sides of the end; the peer's Terminate quotes one of them. */
static void reads__of_which_a_terminate_quotes_one_beyond_the_end__blame_that_one(void **state)
{
    (void)state;
    for (uint32_t which = 0; which < 6; which++) {
        begin(HOST_RESPONDER, 0);
        for (uint32_t i = 0; i < 5; i++) {
            host_post_read(host);
            hear_read_request(NEAR + i);
        }
        raw_name(&host->names, 'M', NEAR + which, 4); /* a sixth was never sent: the oldest */
        say("| 00464147 00000000 00000002 00000001 00000000 0100e000 002e4141 00000000 00000001"
            "M 00000000 L Q+400 00000100 11223344 00000000 00002000 C");
        raw_fin(host->fd);
        (void)raw_drain(host->fd);
        host_event(host, IWARP_EVENT_DISCONNECTED);
        for (uint32_t i = 0; i < 5; i++) {
            struct iwarp_wc wc = host_completion(host);
            assert_int_equal(wc.status, i == which % 5 ? IWARP_WC_REMOTE_ACCESS : IWARP_WC_FLUSHED);
        }
        host_finish(host);
        host_check_quiet(host);
    }
}

/* --- MO and TO ------------------------------------------------------------------------------- */

#define LONGEST 0xffffffffu

/* The longest message there is: 2^32 - 1 octets, of which the middle is taken for granted. */
static void send__as_long_as_can_be__arrives_and_one_octet_more_is_1_2_05(void **state)
{
    (void)state;
    if (sizeof(void *) == 4) { /* so much memory has no addresses */
        skip();
    }
    uint8_t *p = mmap(NULL, (size_t)LONGEST + 1, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct iwarp_mr *mr;

    assert_ptr_not_equal(p, MAP_FAILED);
    assert_int_equal(iwarp_mr_register(host->pd, p, LONGEST, IWARP_ACCESS_LOCAL_WRITE, &mr),
                     IWARP_OK);
    for (unsigned more = 0; more < 3; more++) {
        host_options(host);
        host_connect(host, HOST_RESPONDER, 2, 0);
        receive(100, p, LONGEST, mr);
        receive(101, host->l.p, HOST_RECV_LEN, host->l.mr);
        say("00160143 00000000 00000000 00000001 00000000 68656c6c C"
            "| 000ec140 00000001 00000000 00000000 C"); /* and a Write of nothing behind it */
        host_post_read(host); /* asked for in answer to what has come: the segment was placed */
        hear("002e4141 00000000 00000001 00000001 00000000 L Q+400 00000100 11223344 00000000"
             "00002000 C",
             "the RDMA Read Request");
        say("010ec142 L Q+400 N5c*256 C");
        assert_int_equal(host_completion(host).opcode, IWARP_WC_READ);
        for (int i = 0; i < 1000 && p[3] != 0x6c; i++) {
            raw_expect_silence(host->fd, 1, "a peer that waits");
        }
        set_mo(LONGEST - 3);
        if (more == 0) {
            say("00154143 00000000 00000000 00000001 fffffffc 6c6f21 00 C");
            struct iwarp_wc wc = host_completion(host);
            assert_int_equal(wc.status, IWARP_WC_SUCCESS);
            assert_int_equal(wc.byte_len, LONGEST);
            assert_memory_equal(p + LONGEST - 3, "lo!", 3);
            raw_name(&host->names, 'M', 2, 4);
            send_of_5(2);
            received(101);
            end_in_order(0);
        } else if (more == 1) {
            say("00164143 00000000 00000000 00000001 fffffffc 6c6f2121 C");
            end_with("002a4147 00000000 00000002 00000001 00000000 1205c000"
                     "00164143 00000000 00000000 00000001 fffffffc C",
                     IWARP_FAULT_DDP_TOO_LONG, 2);
        } else { /* beyond the end of MO, as if it began anew */
            say("00160143 00000000 00000000 00000001 00000000 6c6f2121 C");
            end_with("002a4147 00000000 00000002 00000001 00000000 1204c000"
                     "00160143 00000000 00000000 00000001 00000000 C",
                     IWARP_FAULT_DDP_MO, 2);
        }
        p[3] = 0;
    }
    assert_int_equal(iwarp_mr_deregister(mr), IWARP_OK);
    munmap(p, (size_t)LONGEST + 1);
}

/* A region whose last octet has the TO 2^64 - 2: the sum may not be 2^64 either. */
#define TAGGED_ERROR "00264147 00000000 00000002 00000001 00000000 "

static const struct {
    const char *sent, *answer;
    enum iwarp_fault_code fault;
} at_the_end[] = {
    {"0016c140 E ffffffff ffffffff 11111111 11111111 C",
     TAGGED_ERROR "1103c000 0016c140 E ffffffff ffffffff C", IWARP_FAULT_DDP_TO_WRAP},
    {"0016c140 E ffffffff fffffff8 11111111 11111111 C",
     TAGGED_ERROR "1103c000 0016c140 E ffffffff fffffff8 C", IWARP_FAULT_DDP_TO_WRAP},
    {"0016c140 E ffffffff fffffff9 11111111 11111111 C",
     TAGGED_ERROR "1103c000 0016c140 E ffffffff fffffff9 C", IWARP_FAULT_DDP_TO_WRAP},
    {"0016c140 E 00000000 00000000 11111111 11111111 C",
     TAGGED_ERROR "1101c000 0016c140 E 00000000 00000000 C", IWARP_FAULT_DDP_BOUNDS},
    {"0016c140 E ffffffff ffffffbe 11111111 11111111 C",
     TAGGED_ERROR "1101c000 0016c140 E ffffffff ffffffbe C", IWARP_FAULT_DDP_BOUNDS},
};

static void writes__up_to_the_end_of_to__arrive_and_beyond_are_told_apart(void **state)
{
    static uint8_t memory[64];
    struct iwarp_mr_options o;
    struct iwarp_mr *mr;

    (void)state;
    iwarp_mr_options_init(&o, memory, sizeof memory,
                          IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE |
                              IWARP_ACCESS_REMOTE_READ);
    o.to_base = UINT64_MAX - sizeof memory;
    assert_int_equal(iwarp_mr_create(host->pd, &o, &mr), IWARP_OK);
    raw_name(&host->names, 'E', iwarp_mr_stag(mr), 4);
    for (unsigned i = 0; i < sizeof at_the_end / sizeof *at_the_end; i++) {
        printf("# %s\n", at_the_end[i].sent);
        fflush(stdout);
        memset(memory, 0, sizeof memory);
        begin(HOST_RESPONDER, 0);
        say("0016c140 E ffffffff fffffff7 68656c6c 6f212121 C" /* its last eight octets */
            "| 002e4141 00000000 00000001 fffffffe 00000000 11223344 ffffffff fffffff0 00000008 E"
            "ffffffff fffffff7 C");
        hear("0016c142 11223344 ffffffff fffffff0 68656c6c 6f212121 C", "what was written");
        assert_memory_equal(memory + 56, "hello!!!", 8);
        say(at_the_end[i].sent);
        end_with(at_the_end[i].answer, at_the_end[i].fault, 0);
        assert_int_equal(memory[0], 0);
    }
    assert_int_equal(iwarp_mr_deregister(mr), IWARP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sends__through_the_end_of_msn__arrive_and_go),
        cmocka_unit_test(sends__out_of_order_around_the_end_of_msn__are_1_2_03),
        cmocka_unit_test(sends__of_segments_through_the_end_of_msn__are_whole),
        cmocka_unit_test(sends__into_a_shared_queue_through_the_end_of_msn__arrive),
        cmocka_unit_test(requests__through_the_end_of_msn__are_answered),
        cmocka_unit_test(requests__out_of_order_around_the_end_of_msn__are_1_2_03),
        cmocka_unit_test(reads__through_the_end_of_msn__are_answered),
        cmocka_unit_test(reads__of_which_a_terminate_quotes_one_beyond_the_end__blame_that_one),
        cmocka_unit_test(send__as_long_as_can_be__arrives_and_one_octet_more_is_1_2_05),
        cmocka_unit_test(writes__up_to_the_end_of_to__arrive_and_beyond_are_told_apart),
    };

    return cmocka_run_group_tests_name("hostile_wraps", tests, setup, teardown);
}
