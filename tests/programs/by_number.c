/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * by_number self | lid PORT [HOST] | gid PORT [HOST] | one PORT [HOST]
 *
 * Makes the calls of programs that connect queue pairs themselves, in their order, with data that
 * is compared. With HOST it is the client. A TCP connection carries what the ends tell each other.
 *
 *   self  a queue pair connected to itself, LID, is_global 0; as infinity starts
 *   lid   LID and is_global 0; the server answers before it goes to RTR and RTS, and nobody waits
 * for the other before the first request; RDMA Writes, Reads, atomics, Writes with Immediate Data
 *   gid   the first GID of type RoCE v2 that is IPv4; QUEUES queue pairs, PSNs at random; one
 * thread for each side of the work, as proxies of NCCL have; Writes with Immediate Data both ways
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { QUEUES = 16, OCTETS = 65536, ROUNDS = 50 };

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "line %d: %s\n", __LINE__, #what);                                     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct name { /* as told to the peer */
    uint32_t number, psn, rkey;
    uint16_t lid;
    uint64_t addr;
    union ibv_gid gid;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint8_t *memory;
static struct ibv_port_attr port;
static int gid_index;

static void open_device(void)
{
    int n;
    struct ibv_device **list = ibv_get_device_list(&n);

    CHECK(list && n > 0);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    CHECK(context && ibv_query_port(context, 1, &port) == 0);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 1024, NULL, NULL, 0);
    memory = calloc(2, OCTETS);
    CHECK(pd && cq && memory);
    mr = ibv_reg_mr(pd, memory, 2 * (size_t)OCTETS,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_REMOTE_ATOMIC);
    CHECK(mr);
}

/* As NCCL: type by type, the address that is IPv4. */
static void choose_gid(void)
{
    for (int i = 0; i < port.gid_tbl_len; i++) {
        struct ibv_gid_entry entry;
        CHECK(ibv_query_gid_ex(context, 1, (uint32_t)i, &entry, 0) == 0);
        if (entry.gid_type == IBV_GID_TYPE_ROCE_V2 && entry.gid.raw[10] == 0xff) {
            gid_index = i;
            return;
        }
    }
    CHECK(!"a GID of IPv4");
}

static void to_init(struct ibv_qp *qp)
{
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                                  IBV_ACCESS_REMOTE_READ |
                                                  IBV_ACCESS_REMOTE_ATOMIC};
    CHECK(ibv_modify_qp(qp, &init,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
}

static struct ibv_qp *create(void)
{
    struct ibv_qp_init_attr a = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp *qp = ibv_create_qp(pd, &a);

    CHECK(qp);
    to_init(qp);
    return qp;
}

static void connect_qp(struct ibv_qp *qp, const struct name *own, const struct name *peer,
                       int global)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR,
                            .path_mtu = IBV_MTU_4096,
                            .dest_qp_num = peer->number,
                            .rq_psn = peer->psn,
                            .max_dest_rd_atomic = 16,
                            .min_rnr_timer = 12,
                            .ah_attr = {.dlid = peer->lid, .port_num = 1}};

    if (global) {
        a.ah_attr.is_global = 1;
        a.ah_attr.grh.dgid = peer->gid;
        a.ah_attr.grh.sgid_index = (uint8_t)gid_index;
        a.ah_attr.grh.hop_limit = 255;
    }
    CHECK(ibv_modify_qp(qp, &a,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
    memset(&a, 0, sizeof a);
    a.qp_state = IBV_QPS_RTS;
    a.timeout = 14;
    a.retry_cnt = a.rnr_retry = 7;
    a.sq_psn = own->psn;
    a.max_rd_atomic = 16;
    CHECK(ibv_modify_qp(qp, &a,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

/* --- work ------------------------------------------------------------------------------------ */

static void post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, size_t from, size_t n,
                 const struct name *peer, size_t to)
{
    struct ibv_sge sge = {(uintptr_t)memory + from, (uint32_t)n, mr->lkey};
    struct ibv_send_wr *bad, wr = {.wr_id = 1,
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = opcode,
                                   .imm_data = htonl(4711),
                                   .send_flags = IBV_SEND_SIGNALED};

    wr.wr.rdma.remote_addr = peer->addr + to;
    wr.wr.rdma.rkey = peer->rkey;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = peer->addr + to;
        wr.wr.atomic.rkey = peer->rkey;
        wr.wr.atomic.compare_add = 3;
    }
    CHECK(ibv_post_send(qp, &wr, &bad) == 0);
}

static void receive(struct ibv_qp *qp, size_t at, size_t n)
{
    struct ibv_sge sge = {(uintptr_t)memory + at, (uint32_t)n, mr->lkey};
    struct ibv_recv_wr *bad, wr = {.wr_id = 2, .sg_list = &sge, .num_sge = n ? 1 : 0};

    CHECK(ibv_post_recv(qp, &wr, &bad) == 0);
}

/* Any completion, which is a success. */
static struct ibv_wc complete(void)
{
    struct ibv_wc wc;
    int n;

    while ((n = ibv_poll_cq(cq, 1, &wc)) == 0) {
    }
    CHECK(n == 1);
    if (wc.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "wr_id %llu: %s\n", (unsigned long long)wc.wr_id,
                ibv_wc_status_str(wc.status));
        exit(1);
    }
    return wc;
}

static void fill(size_t at, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++) {
        memory[at + i] = (uint8_t)(seed + i * 13 + (i >> 8));
    }
}

static int filled(size_t at, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++) {
        if (memory[at + i] != (uint8_t)(seed + i * 13 + (i >> 8))) {
            return 0;
        }
    }
    return 1;
}

/* --- what the ends tell each other ----------------------------------------------------------- */

static int meet(const char *service, const char *host)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(service))};
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    if (host) {
        CHECK(inet_pton(AF_INET, host, &in.sin_addr) == 1);
        CHECK(connect(fd, (struct sockaddr *)&in, sizeof in) == 0);
        return fd;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    CHECK(bind(fd, (struct sockaddr *)&in, sizeof in) == 0 && listen(fd, 1) == 0);
    int peer = accept(fd, NULL, NULL);
    CHECK(peer >= 0);
    close(fd);
    return peer;
}

static void tell(int fd, const void *p, size_t n)
{
    CHECK(write(fd, p, n) == (ssize_t)n);
}

static void hear(int fd, void *p, size_t n)
{
    CHECK(recv(fd, p, n, MSG_WAITALL) == (ssize_t)n);
}

static void barrier(int fd)
{
    char c = 'x';

    tell(fd, &c, 1);
    hear(fd, &c, 1);
}

static void compare(const struct name *own, const struct name *peer)
{
    puts(own->number == peer->number ? "both have the same number" : "two numbers");
}

static struct name name_of(const struct ibv_qp *qp, uint32_t psn)
{
    struct name name = {.number = qp->qp_num,
                        .psn = psn,
                        .rkey = mr->rkey,
                        .lid = port.lid,
                        .addr = (uintptr_t)memory};

    CHECK(ibv_query_gid(context, 1, gid_index, &name.gid) == 0);
    return name;
}

/* --- the ways -------------------------------------------------------------------------------- */

static int to_itself(void)
{
    struct ibv_qp *qp = create();
    struct name own = name_of(qp, 0);

    connect_qp(qp, &own, &own, 0);
    fill(0, 5000, 1);
    receive(qp, OCTETS, 5000);
    post(qp, IBV_WR_SEND, 0, 5000, &own, 0);
    complete();
    complete();
    CHECK(filled(OCTETS, 5000, 1));
    post(qp, IBV_WR_RDMA_WRITE, 0, 3000, &own, OCTETS + 10000);
    complete();
    post(qp, IBV_WR_RDMA_READ, 20000, 3000, &own, OCTETS + 10000);
    complete();
    CHECK(filled(20000, 3000, 1));
    return ibv_destroy_qp(qp);
}

static int by_lid(int fd, int client)
{
    struct ibv_qp *qp = create();
    struct name own = name_of(qp, 0), peer;

    receive(qp, 0, 0);
    if (client) {
        tell(fd, &own, sizeof own);
        hear(fd, &peer, sizeof peer);
    } else {
        hear(fd, &peer, sizeof peer);
        tell(fd, &own, sizeof own); /* the client begins before this end is in RTR */
        usleep(300000);
    }
    compare(&own, &peer);
    connect_qp(qp, &own, &peer, 0);
    if (!client) {
        struct ibv_wc wc = complete();
        CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.imm_data == htonl(4711));
        CHECK(filled(OCTETS, 40000, 9));
        memcpy(memory, "\1\0\0\0\0\0\0", 8);
        barrier(fd);
        barrier(fd);
        uint64_t value;
        memcpy(&value, memory, sizeof value);
        CHECK(value == 1 + 3 * ROUNDS);
        return ibv_destroy_qp(qp);
    }
    fill(0, 40000, 9);
    post(qp, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 40000, &peer, OCTETS);
    complete();
    barrier(fd);
    for (int i = 0; i < ROUNDS; i++) {
        post(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, 50000, 8, &peer, 0);
        complete();
    }
    post(qp, IBV_WR_RDMA_READ, OCTETS, 40000, &peer, OCTETS);
    complete();
    CHECK(filled(OCTETS, 40000, 9));
    barrier(fd);
    return ibv_destroy_qp(qp);
}

/* Each side writes a part of the peer's memory over each queue pair, in turn. */
static void write_both_ways(int fd, int client, struct ibv_qp **qp, const struct name *peer,
                            unsigned queues)
{
    const size_t part = OCTETS / queues;

    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < queues; i++) {
            receive(qp[i], 0, 0);
        }
        barrier(fd);
        fill(0, OCTETS, round + (client ? 100 : 0));
        for (size_t i = 0; i < queues; i++) {
            post(qp[i], IBV_WR_RDMA_WRITE_WITH_IMM, i * part, part, &peer[i], OCTETS + i * part);
        }
        for (unsigned i = 0; i < 2 * queues; i++) {
            complete();
        }
        CHECK(filled(OCTETS, OCTETS, round + (client ? 0 : 100)));
        barrier(fd);
    }
}

static int by_gid(int fd, int client, unsigned queues, unsigned times)
{
    struct ibv_qp *qp[QUEUES];
    struct name own[QUEUES], peer[QUEUES];

    choose_gid();
    srand((unsigned)getpid());
    for (unsigned i = 0; i < queues; i++) {
        qp[i] = create();
        own[i] = name_of(qp[i], (uint32_t)rand() & 0xffffff);
    }
    tell(fd, own, queues * sizeof *own);
    hear(fd, peer, queues * sizeof *peer);
    compare(&own[0], &peer[0]);
    for (unsigned time = 0; time < times; time++) {
        for (unsigned i = 0; i < queues; i++) {
            connect_qp(qp[i], &own[i], &peer[i], 1);
        }
        write_both_ways(fd, client, qp, peer, queues);
        for (unsigned i = 0; i < queues; i++) {
            struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};
            CHECK(ibv_modify_qp(qp[i], &a, IBV_QP_STATE) == 0);
            to_init(qp[i]);
        }
    }
    for (unsigned i = 0; i < queues; i++) {
        CHECK(ibv_destroy_qp(qp[i]) == 0);
    }
    return 0;
}

int main(int argc, char **argv)
{
    int result = 1;

    alarm(120);
    CHECK(argc >= 2);
    open_device();
    if (strcmp(argv[1], "self") == 0) {
        result = to_itself();
    } else {
        CHECK(argc >= 3);
        int fd = meet(argv[2], argv[3]);
        result = strcmp(argv[1], "gid") == 0   ? by_gid(fd, argc > 3, QUEUES, 1)
                 : strcmp(argv[1], "one") == 0 ? by_gid(fd, argc > 3, 1, 20)
                                               : by_lid(fd, argc > 3);
        close(fd);
    }
    CHECK(ibv_dereg_mr(mr) == 0 && ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0);
    CHECK(ibv_close_device(context) == 0);
    free(memory);
    return result;
}
