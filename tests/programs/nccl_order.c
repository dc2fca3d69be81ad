/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * nccl_order PORT [HOST]
 *
 * Makes the calls of NCCL's transport for InfiniBand and RoCE, in its order and with its
 * attributes, with host memory instead of a GPU's; data is compared. With HOST it is the client. It
 * takes an adapter only if that is one for RoCE v2 by all that NCCL looks at, and by what others
 * look at who do: transport, link layer, speed, the file with the type of its GID.
 *
 * The receiver writes into a list of the sender (an RDMA Write of 64 octets) which memory to fill,
 * and posts a receive without a piece of memory. The sender polls the list, writes, and tells the
 * size by an RDMA Write with Immediate Data, over several queue pairs in turn. A queue pair that is
 * connected to itself reads one octet, as if to have a GPU's memory up to date.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { QUEUES = 4, SLOTS = 8, MESSAGES = 400, LARGEST = 100000 };

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "line %d: %s\n", __LINE__, #what);                                     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct entry { /* of the list: who fills it writes idx last */
    uint64_t addr;
    uint32_t size, rkey;
    uint64_t tag[5], idx;
};

struct info { /* told to the peer */
    uint32_t number[QUEUES], list_rkey;
    uint64_t prefix, id, list;
    enum ibv_mtu mtu;
};

static struct ibv_context *context;
static struct ibv_port_attr port;
static int gid_index;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp[QUEUES], *flush;
static struct ibv_mr *list_mr, *outgoing_mr, *mr;
static struct entry list[SLOTS], outgoing[SLOTS];
static uint8_t memory[SLOTS][LARGEST];
static struct info own, peer;

/* --- the adapter ----------------------------------------------------------------------------- */

static void *events(void *unused)
{
    struct ibv_async_event event;

    (void)unused;
    while (ibv_get_async_event(context, &event) == 0) {
        if (event.event_type != IBV_EVENT_COMM_EST) {
            fprintf(stderr, "event: %s\n", ibv_event_type_str(event.event_type));
        }
        ibv_ack_async_event(&event);
    }
    return NULL;
}

static int is_roce_v2(const char *name, int index)
{
    char path[PATH_MAX], type[32] = "";

    snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/gid_attrs/types/%d", name, index);
    int fd = open(path, O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, type, sizeof type - 1) : 0;
    if (fd >= 0) {
        close(fd);
    }
    return n > 0 && strncmp(type, "RoCE v2", 7) == 0;
}

static int mbit_per_lane(unsigned speed)
{
    return speed == 1 ? 2500 : speed == 2 ? 5000 : speed & 12 ? 10000 : speed ? 14000 : 0;
}

/* NULL, or why it is none. */
static const char *look_at(struct ibv_device *device)
{
    struct ibv_device_attr attr;
    char path[PATH_MAX];

    context = ibv_open_device(device);
    CHECK(context && ibv_query_device(context, &attr) == 0 && attr.phys_port_cnt == 1);
    CHECK(ibv_query_port(context, 1, &port) == 0);
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/device", ibv_get_device_name(device));
    char *real = realpath(path, NULL);
    printf("%s: firmware %s, PCI path %s, %d Mbit/s\n", ibv_get_device_name(device), attr.fw_ver,
           real ? real : "none", mbit_per_lane(port.active_speed));
    free(real);
    if (device->transport_type != IBV_TRANSPORT_IB || device->node_type != IBV_NODE_CA) {
        return "its transport is not InfiniBand's";
    }
    if (port.state != IBV_PORT_ACTIVE || port.link_layer != IBV_LINK_LAYER_ETHERNET ||
        mbit_per_lane(port.active_speed) == 0) {
        return "its port is down, or not Ethernet, or has no speed";
    }
    for (gid_index = 0; gid_index < port.gid_tbl_len; gid_index++) {
        union ibv_gid gid;
        CHECK(ibv_query_gid(context, 1, gid_index, &gid) == 0);
        if (is_roce_v2(ibv_get_device_name(device), gid_index) && gid.raw[10] == 0xff) {
            return NULL;
        }
    }
    return "it has no GID of RoCE v2 for IPv4";
}

static void open_adapter(void)
{
    const char *why = "there is no device";
    pthread_t thread;
    int n = 0;

    CHECK(ibv_fork_init() == 0);
    struct ibv_device **all = ibv_get_device_list(&n);
    CHECK(all);
    for (int i = 0; i < n && why; i++) {
        why = look_at(all[i]);
    }
    ibv_free_device_list(all);
    if (why) {
        printf("no RoCE adapter: %s\n", why);
        exit(3);
    }
    CHECK(pthread_create(&thread, NULL, events, NULL) == 0);
    pthread_detach(thread);
    pd = ibv_alloc_pd(context);
    CHECK(pd && !ibv_reg_dmabuf_mr(pd, 0, 0, 0, -1, 0)); /* asks whether there is such a thing */
    cq = ibv_create_cq(context, 2 * 128 * QUEUES, NULL, NULL, 0);
    CHECK(cq);
}

/* --- queue pairs ----------------------------------------------------------------------------- */

static struct ibv_qp *create_qp(unsigned access)
{
    struct ibv_qp_init_attr a = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 256, .max_recv_wr = 128, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};
    struct ibv_qp *q = ibv_create_qp(pd, &a);

    CHECK(q &&
          ibv_modify_qp(q, &init,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    return q;
}

static void connect_qp(struct ibv_qp *q, const struct info *to, uint32_t number)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR,
                            .path_mtu = to->mtu < port.active_mtu ? to->mtu : port.active_mtu,
                            .dest_qp_num = number,
                            .max_dest_rd_atomic = 1,
                            .min_rnr_timer = 12,
                            .ah_attr = {.is_global = 1, .port_num = 1}};

    a.ah_attr.grh.dgid.global.subnet_prefix = to->prefix;
    a.ah_attr.grh.dgid.global.interface_id = to->id;
    a.ah_attr.grh.sgid_index = (uint8_t)gid_index;
    a.ah_attr.grh.hop_limit = 255;
    CHECK(ibv_modify_qp(q, &a,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
    memset(&a, 0, sizeof a);
    a.qp_state = IBV_QPS_RTS;
    a.timeout = 20;
    a.retry_cnt = a.rnr_retry = 7;
    a.max_rd_atomic = 1;
    CHECK(ibv_modify_qp(q, &a,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static struct ibv_mr *region(void *addr, size_t n)
{
    struct ibv_mr *r = ibv_reg_mr_iova2(pd, addr, n, (uintptr_t)addr,
                                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                            IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING);
    CHECK(r);
    return r;
}

/* The server goes to RTR and RTS before the client knows its numbers. */
static void meet(int fd, int client)
{
    union ibv_gid gid;

    for (int i = 0; i < QUEUES; i++) {
        qp[i] = create_qp(IBV_ACCESS_REMOTE_WRITE);
        own.number[i] = qp[i]->qp_num;
    }
    list_mr = region(list, sizeof list);
    outgoing_mr = region(outgoing, sizeof outgoing);
    mr = region(memory, sizeof memory);
    CHECK(ibv_query_gid(context, 1, gid_index, &gid) == 0);
    own.prefix = gid.global.subnet_prefix;
    own.id = gid.global.interface_id;
    own.mtu = port.active_mtu;
    own.list = (uintptr_t)list;
    own.list_rkey = list_mr->rkey;
    if (client) {
        CHECK(write(fd, &own, sizeof own) == sizeof own);
    }
    CHECK(recv(fd, &peer, sizeof peer, MSG_WAITALL) == sizeof peer);
    for (int i = 0; i < QUEUES; i++) {
        connect_qp(qp[i], &peer, peer.number[i]);
    }
    if (!client) {
        flush = create_qp(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
        connect_qp(flush, &own, flush->qp_num);
        CHECK(write(fd, &own, sizeof own) == sizeof own);
    }
}

/* --- messages -------------------------------------------------------------------------------- */

static uint32_t size_of(unsigned message)
{
    return message % 7 == 0 ? 0 : message * 251u % LARGEST;
}

static uint8_t octet(unsigned message, uint32_t at)
{
    return (uint8_t)(message * 17 + at * 3 + (at >> 8));
}

static void complete_one(struct ibv_wc *wc)
{
    int n;

    while ((n = ibv_poll_cq(cq, 1, wc)) == 0) {
    }
    CHECK(n == 1);
    if (wc->status != IBV_WC_SUCCESS) {
        fprintf(stderr, "wr_id %llu: %s\n", (unsigned long long)wc->wr_id,
                ibv_wc_status_str(wc->status));
        exit(1);
    }
}

static void await_wr(uint64_t wr_id, struct ibv_wc *wc)
{
    do {
        complete_one(wc);
    } while (wc->wr_id != wr_id);
}

/* What the peer's adapter writes is seen when idx is, which is its last word. */
static void send_all(void)
{
    struct ibv_send_wr wr[2], *bad;
    struct ibv_wc wc;

    for (unsigned i = 0; i < MESSAGES; i++) {
        const unsigned slot = i % SLOTS;
        volatile struct entry *e = &list[slot];
        while (__atomic_load_n(&e->idx, __ATOMIC_ACQUIRE) != i + 1) {
        }
        uint32_t size = size_of(i);
        for (uint32_t at = 0; at < size; at++) {
            memory[slot][at] = octet(i, at);
        }
        CHECK(e->size >= size);
        struct ibv_sge sge = {(uintptr_t)memory[slot], size, mr->lkey};
        memset(wr, 0, sizeof wr);
        wr[0].opcode = IBV_WR_RDMA_WRITE;
        wr[0].sg_list = &sge;
        wr[0].num_sge = size ? 1 : 0;
        wr[0].wr.rdma.remote_addr = e->addr;
        wr[0].wr.rdma.rkey = e->rkey;
        wr[0].next = &wr[1];
        wr[1].wr_id = 1000 + i;
        wr[1].opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        wr[1].send_flags = IBV_SEND_SIGNALED;
        wr[1].imm_data = htonl(size);
        CHECK(ibv_post_send(qp[i % QUEUES], wr, &bad) == 0);
        await_wr(1000 + i, &wc);
    }
}

static void ask_for(unsigned i)
{
    const unsigned slot = i % SLOTS;
    struct ibv_recv_wr receive = {.wr_id = i}, *bad_receive;
    struct ibv_sge sge = {(uintptr_t)&outgoing[slot], sizeof *outgoing, outgoing_mr->lkey};
    struct ibv_send_wr *bad, wr = {.wr_id = 5000,
                                   .opcode = IBV_WR_RDMA_WRITE,
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .send_flags = i % SLOTS == 0 ? IBV_SEND_SIGNALED : 0};

    memset(memory[slot], 0xee, LARGEST);
    CHECK(ibv_post_recv(qp[i % QUEUES], &receive, &bad_receive) == 0);
    outgoing[slot] = (struct entry){
        .addr = (uintptr_t)memory[slot], .size = LARGEST, .rkey = mr->rkey, .idx = i + 1};
    wr.wr.rdma.remote_addr = peer.list + slot * sizeof *list;
    wr.wr.rdma.rkey = peer.list_rkey;
    CHECK(ibv_post_send(qp[0], &wr, &bad) == 0);
}

static void read_octet(unsigned slot)
{
    static uint8_t octet_of_flush;
    static struct ibv_mr *flush_mr;
    struct ibv_wc wc;

    flush_mr = flush_mr ? flush_mr : region(&octet_of_flush, 1);
    struct ibv_sge sge = {(uintptr_t)&octet_of_flush, 1, flush_mr->lkey};
    struct ibv_send_wr *bad, wr = {.wr_id = 9999,
                                   .opcode = IBV_WR_RDMA_READ,
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .send_flags = IBV_SEND_SIGNALED};
    wr.wr.rdma.remote_addr = (uintptr_t)memory[slot];
    wr.wr.rdma.rkey = mr->rkey;
    CHECK(ibv_post_send(flush, &wr, &bad) == 0);
    await_wr(9999, &wc);
    CHECK(octet_of_flush == memory[slot][0]);
}

static void receive_all(void)
{
    struct ibv_wc wc;

    for (unsigned i = 0; i < MESSAGES; i++) {
        const unsigned slot = i % SLOTS;
        ask_for(i);
        await_wr(i, &wc);
        CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && (wc.wc_flags & IBV_WC_WITH_IMM));
        uint32_t size = ntohl(wc.imm_data);
        CHECK(size == size_of(i));
        for (uint32_t at = 0; at < LARGEST; at++) {
            CHECK(memory[slot][at] == (at < size ? octet(i, at) : 0xee));
        }
        if (i % 50 == 0) {
            read_octet(slot);
        }
    }
}

/* --- both ends ------------------------------------------------------------------------------- */

static int socket_to(const char *service, const char *host)
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
    int accepted = accept(fd, NULL, NULL);
    CHECK(accepted >= 0);
    close(fd);
    return accepted;
}

int main(int argc, char **argv)
{
    char done = 'x';

    alarm(120);
    CHECK(argc >= 2);
    open_adapter();
    int fd = socket_to(argv[1], argv[2]);
    meet(fd, argc > 2);
    if (argc > 2) {
        send_all();
    } else {
        receive_all();
    }
    CHECK(write(fd, &done, 1) == 1 && read(fd, &done, 1) == 1);
    for (int i = 0; i < QUEUES; i++) {
        CHECK(ibv_destroy_qp(qp[i]) == 0);
    }
    CHECK(!flush || ibv_destroy_qp(flush) == 0);
    printf("%d messages, all right\n", MESSAGES);
    return 0;
}
