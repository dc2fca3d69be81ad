/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Strangers at the port of a queue pair of datagrams: what they hold keeps no datagram of others
 * away.
 */
#include "numbered.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#define QKEY 0x1234567u

enum { HEAD = 40, MANY = 300 };

static const struct loop_options datagrams = {.unconnected = true, .datagrams = true};

static void ud_rts(struct ibv_qp *qp)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

    assert_int_equal(
        ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    to_state(qp, IBV_QPS_RTR);
    a.qp_state = IBV_QPS_RTS;
    assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

/* A datagram goes from side 0 to side 1. */
static void send_one(struct loop *l, struct ibv_ah *ah)
{
    struct ibv_sge sge = loop_sge(l, 0, 0, 64);
    struct ibv_send_wr *bad,
        wr = {.wr_id = 1,
              .sg_list = &sge,
              .num_sge = 1,
              .opcode = IBV_WR_SEND,
              .send_flags = IBV_SEND_SIGNALED,
              .wr.ud = {.ah = ah, .remote_qpn = l->qp[1]->qp_num, .remote_qkey = QKEY}};

    loop_recv(l, 1, 2, 0, HEAD + 64);
    assert_int_equal(ibv_post_send(l->qp[0], &wr, &bad), 0);
    loop_expect(l, 0, 1, IBV_WC_SEND);
    assert_int_equal(loop_expect(l, 1, 2, IBV_WC_RECV).byte_len, HEAD + 64);
}

static uint32_t crc32c(const uint8_t *p, size_t n)
{
    uint32_t crc = ~0u;

    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
        }
    }
    return ~crc;
}

static void put32(uint8_t *to, uint32_t value)
{
    const uint32_t big = htonl(value);

    memcpy(to, &big, sizeof big);
}

/* An MPA Request of revision 2 with CRC, whose private data is that of docs/datagrams.md. */
static void say_hello(int fd, uint32_t from, uint32_t to)
{
    uint8_t o[20 + 4 + 32] = "MPA ID Req Frame\x50\x02\x00\x24\x00\x01\x00\x01iwQP\x03\x00\x00\x01";

    put32(o + 32, from);
    put32(o + 36, to);
    assert_int_equal(write(fd, o, sizeof o), sizeof o);
    uint8_t reply[sizeof o];
    assert_int_equal(recv(fd, reply, sizeof reply, MSG_WAITALL), sizeof reply);
    assert_memory_equal(reply, "MPA ID Rep Frame", 16);
    assert_int_equal(reply[16] & 0x20, 0); /* not rejected */
}

/* A connection to side 1. */
static int stranger(const struct loop *l, uint32_t number)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)(l->qp[1]->qp_num >> 8)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    say_hello(fd, number, l->qp[1]->qp_num);
    return fd;
}

/* One FPDU: the first segment of a Send, which is not the last one. */
static void send_half(int fd)
{
    uint8_t fpdu[2 + 18 + 40 + 4] = {0, 58, 0x01, 0x43};

    put32(fpdu + 2 + 10, 1); /* MSN */
    const uint32_t crc = htole32(crc32c(fpdu, sizeof fpdu - 4));
    memcpy(fpdu + sizeof fpdu - 4, &crc, sizeof crc);
    assert_int_equal(write(fd, fpdu, sizeof fpdu), sizeof fpdu);
}

/* Two queue pairs in RTS, and the address of both. */
static struct ibv_ah *open_both(struct loop *l)
{
    struct ibv_ah_attr a = {.port_num = 1, .is_global = 1, .grh = {.hop_limit = 9}};

    loop_open(l, &datagrams);
    ud_rts(l->qp[0]);
    ud_rts(l->qp[1]);
    assert_int_equal(ibv_query_gid(l->context, 1, 0, &a.grh.dgid), 0);
    struct ibv_ah *ah = ibv_create_ah(l->pd, &a);
    assert_non_null(ah);
    return ah;
}

/* More of them than there are buffers without them. */
static void half_datagrams__of_many_peers__keep_nobody_away(void **state)
{
    int fd[MANY];
    struct loop l;

    (void)state;
    struct ibv_ah *ah = open_both(&l);
    send_one(&l, ah);
    for (int round = 0; round < 2; round++) { /* the buffers of those that went serve again */
        for (int i = 0; i < MANY; i++) {
            fd[i] = stranger(&l, 0xfffe00u - (uint32_t)i);
            send_half(fd[i]);
        }
        nap_ms(50);
        for (int i = 0; i < 200; i++) {
            send_one(&l, ah);
        }
        for (int i = 0; i < MANY; i++) {
            close(fd[i]);
        }
        nap_ms(50);
        send_one(&l, ah);
    }
    assert_int_equal(ibv_destroy_ah(ah), 0);
    loop_close(&l);
}

/* As many connections as a queue pair takes, and none of them sends anything. Each time that a peer
 * finds no room, one of them goes. */
static void idle_connections__of_one_host__keep_no_other_away(void **state)
{
    enum { ALL = 1024 };
    struct ibv_wc wc;
    int fd[ALL];
    struct loop l;

    (void)state;
    struct ibv_ah *ah = open_both(&l);
    for (int i = 0; i < ALL; i++) {
        fd[i] = stranger(&l, 0xfffe00u - (uint32_t)i);
    }
    struct ibv_sge sge = loop_sge(&l, 0, 0, 64);
    struct ibv_send_wr *bad,
        wr = {.sg_list = &sge,
              .num_sge = 1,
              .opcode = IBV_WR_SEND,
              .wr.ud = {.ah = ah, .remote_qpn = l.qp[1]->qp_num, .remote_qkey = QKEY}};
    loop_recv(&l, 1, 2, 0, HEAD + 64);
    int came = 0;
    for (int tries = 0; came == 0 && tries < 100; tries++) { /* datagrams may be lost */
        assert_int_equal(ibv_post_send(l.qp[0], &wr, &bad), 0);
        nap_ms(100);
        came = ibv_poll_cq(l.cq[1], 1, &wc);
    }
    assert_int_equal(came, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    for (int i = 0; i < ALL; i++) {
        close(fd[i]);
    }
    assert_int_equal(ibv_destroy_ah(ah), 0);
    loop_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_datagrams__of_many_peers__keep_nobody_away),
        cmocka_unit_test(idle_connections__of_one_host__keep_no_other_away),
    };

    return cmocka_run_group_tests_name("ud_hostile", tests, NULL, NULL);
}
