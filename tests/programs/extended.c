/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * extended s|c PORT: RDMA by the extended calls alone, compiled with rdma-core's headers: the queue
 * pair is from rdma_create_qp_ex with send operations, work is posted by ibv_wr_*, completions are
 * read by ibv_start_poll and ibv_wc_read_*. The client writes, reads back and compares, sends
 * plain, inline and gathered, writes with immediate data, adds and swaps atomically; the server
 * looks at what it got. Each ends with status 0 if all was right.
 */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 1 << 20, INLINE = 64, WAITS = 16 };

struct region {
    uint64_t addr;
    uint32_t rkey;
};

static struct rdma_cm_id *id;
static struct ibv_cq_ex *cq;
static struct ibv_mr *mr, *words_mr;
static uint8_t *memory;
static uint64_t words[2];

static void must(int right, const char *what)
{
    if (!right) {
        perror(what);
        exit(1);
    }
}

static uint8_t octet(uint32_t i)
{
    return (uint8_t)(i * 2654435761U >> 24);
}

/* --- the connection -------------------------------------------------------------------------- */

static void make_qp(void)
{
    struct ibv_cq_init_attr_ex cq_attr = {
        .cqe = 256,
        .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM,
    };
    struct ibv_qp_init_attr_ex attr = {
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 0,
        .cap = {.max_send_wr = 64,
                .max_recv_wr = 64,
                .max_send_sge = 4,
                .max_recv_sge = 1,
                .max_inline_data = INLINE},
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                          IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ |
                          IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
    };

    attr.pd = id->pd ? id->pd : ibv_alloc_pd(id->verbs);
    must(attr.pd != NULL, "protection domain");
    cq = ibv_create_cq_ex(id->verbs, &cq_attr);
    must(cq != NULL, "ibv_create_cq_ex");
    attr.send_cq = attr.recv_cq = ibv_cq_ex_to_cq(cq);
    must(rdma_create_qp_ex(id, &attr) == 0, "rdma_create_qp_ex");
    memory = calloc(2, SIZE);
    must(memory != NULL, "memory");
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                 IBV_ACCESS_REMOTE_ATOMIC;
    mr = ibv_reg_mr(attr.pd, memory, (size_t)2 * SIZE, access);
    words_mr = ibv_reg_mr(attr.pd, words, sizeof words, access);
    must(mr && words_mr, "ibv_reg_mr");
    for (uint64_t i = 0; i < WAITS; i++) {
        struct ibv_sge sge = {(uintptr_t)memory + SIZE + i * 4096, 4096, mr->lkey};
        struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;
        must(ibv_post_recv(id->qp, &wr, &bad) == 0, "ibv_post_recv");
    }
}

static struct rdma_conn_param param(struct region region[2])
{
    region[0] = (struct region){(uintptr_t)memory, mr->rkey};
    region[1] = (struct region){(uintptr_t)words, words_mr->rkey};
    return (struct rdma_conn_param){.private_data = region,
                                    .private_data_len = 2 * sizeof *region,
                                    .responder_resources = 4,
                                    .initiator_depth = 4,
                                    .retry_count = 7};
}

static void serve(struct sockaddr *addr)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_event *event;
    struct rdma_cm_id *listener;
    struct region mine[2];

    must(channel != NULL, "rdma_create_event_channel");
    must(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
    must(rdma_bind_addr(listener, addr) == 0, "rdma_bind_addr");
    must(rdma_listen(listener, 1) == 0, "rdma_listen");
    must(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
    must(event->event == RDMA_CM_EVENT_CONNECT_REQUEST, "a request");
    id = event->id;
    rdma_ack_cm_event(event);
    make_qp();
    struct rdma_conn_param p = param(mine);
    must(rdma_accept(id, &p) == 0, "rdma_accept");
    must(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
    must(event->event == RDMA_CM_EVENT_ESTABLISHED, "a connection");
    rdma_ack_cm_event(event);
}

static void join(struct sockaddr *addr, struct region theirs[2])
{
    struct region mine[2];

    must(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
    must(rdma_resolve_addr(id, NULL, addr, 2000) == 0, "rdma_resolve_addr");
    must(rdma_resolve_route(id, 2000) == 0, "rdma_resolve_route");
    make_qp();
    struct rdma_conn_param p = param(mine);
    must(rdma_connect(id, &p) == 0, "rdma_connect");
    must(id->event && id->event->param.conn.private_data_len >= 2 * sizeof *theirs, "private data");
    memcpy(theirs, id->event->param.conn.private_data, 2 * sizeof *theirs);
}

/* --- completions ----------------------------------------------------------------------------- */

/* Waits for one, which must be that; its length, and the immediate data if there is any. */
static uint32_t complete(uint64_t wr_id, enum ibv_wc_opcode opcode, uint32_t *imm)
{
    struct ibv_poll_cq_attr attr = {0};
    uint32_t length;
    int status;

    while ((status = ibv_start_poll(cq, &attr)) == ENOENT) {
    }
    must(status == 0, "ibv_start_poll");
    if (cq->status != IBV_WC_SUCCESS || cq->wr_id != wr_id || ibv_wc_read_opcode(cq) != opcode) {
        fprintf(stderr, "request %llu: %s, opcode %d; expected request %llu, opcode %d\n",
                (unsigned long long)cq->wr_id, ibv_wc_status_str(cq->status),
                (int)ibv_wc_read_opcode(cq), (unsigned long long)wr_id, (int)opcode);
        exit(1);
    }
    length = ibv_wc_read_byte_len(cq);
    if (imm) {
        must((ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM) != 0, "immediate data");
        *imm = ntohl(ibv_wc_read_imm_data(cq));
    }
    ibv_end_poll(cq);
    return length;
}

static struct ibv_qp_ex *begin(uint64_t wr_id)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(id->qp);

    must(qp != NULL, "ibv_qp_to_qp_ex");
    ibv_wr_start(qp);
    qp->wr_id = wr_id;
    qp->wr_flags = IBV_SEND_SIGNALED;
    return qp;
}

static void end(struct ibv_qp_ex *qp, enum ibv_wc_opcode opcode)
{
    uint64_t wr_id = qp->wr_id;

    must(ibv_wr_complete(qp) == 0, "ibv_wr_complete");
    (void)complete(wr_id, opcode, NULL);
}

/* --- the two ends ---------------------------------------------------------------------------- */

static void tagged(const struct region *theirs)
{
    struct ibv_qp_ex *qp;

    for (uint32_t i = 0; i < SIZE; i++) {
        memory[i] = octet(i);
    }
    qp = begin(1);
    ibv_wr_rdma_write(qp, theirs->rkey, theirs->addr);
    ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, SIZE);
    end(qp, IBV_WC_RDMA_WRITE);
    memset(memory, 0, SIZE);
    qp = begin(2);
    ibv_wr_rdma_read(qp, theirs->rkey, theirs->addr);
    ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, SIZE);
    end(qp, IBV_WC_RDMA_READ);
    for (uint32_t i = 0; i < SIZE; i++) {
        must(memory[i] == octet(i), "what was read");
    }
}

static void untagged(const struct region *theirs)
{
    struct ibv_sge list[3] = {{(uintptr_t)memory, 100, mr->lkey},
                              {(uintptr_t)memory + 100, 900, mr->lkey},
                              {(uintptr_t)memory + 1000, 3000, mr->lkey}};
    char text[INLINE];
    struct ibv_qp_ex *qp = begin(3);

    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, 1000);
    end(qp, IBV_WC_SEND);
    qp = begin(4);
    ibv_wr_send(qp);
    memset(text, 'x', sizeof text);
    ibv_wr_set_inline_data(qp, text, sizeof text);
    memset(text, 'y', sizeof text); /* it has been copied */
    end(qp, IBV_WC_SEND);
    qp = begin(5);
    ibv_wr_send(qp);
    ibv_wr_set_sge_list(qp, 3, list);
    end(qp, IBV_WC_SEND);
    qp = begin(6);
    ibv_wr_rdma_write_imm(qp, theirs->rkey, theirs->addr, htonl(0x12345678));
    ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, 10);
    end(qp, IBV_WC_RDMA_WRITE);
}

static void atomics(const struct region *theirs)
{
    struct ibv_qp_ex *qp;

    for (uint64_t i = 0; i < 10; i++) {
        qp = begin(10 + i);
        ibv_wr_atomic_fetch_add(qp, theirs->rkey, theirs->addr, 3);
        ibv_wr_set_sge(qp, words_mr->lkey, (uintptr_t)&words[1], 8);
        end(qp, IBV_WC_FETCH_ADD);
        must(words[1] == 100 + 3 * i, "the sum before");
    }
    qp = begin(30);
    ibv_wr_atomic_cmp_swp(qp, theirs->rkey, theirs->addr, 130, 7);
    ibv_wr_set_sge(qp, words_mr->lkey, (uintptr_t)&words[1], 8);
    end(qp, IBV_WC_COMP_SWAP);
    must(words[1] == 130, "the value before the swap");
}

static void several_at_once(void)
{
    struct ibv_qp_ex *qp = begin(40);

    for (uint64_t i = 0; i < 3; i++) {
        qp->wr_id = 40 + i;
        ibv_wr_send(qp);
        ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, (uint32_t)(10 + i));
    }
    must(ibv_wr_complete(qp) == 0, "ibv_wr_complete");
    for (uint64_t i = 0; i < 3; i++) {
        (void)complete(40 + i, IBV_WC_SEND, NULL);
    }
    qp = begin(50);
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, 1);
    ibv_wr_abort(qp); /* as if it had not been */
}

static void look(void)
{
    uint32_t imm;

    must(complete(0, IBV_WC_RECV, NULL) == 1000, "length of the first Send");
    must(complete(1, IBV_WC_RECV, NULL) == INLINE, "length of the inline Send");
    must(complete(2, IBV_WC_RECV, NULL) == 4000, "length of the gathered Send");
    must(complete(3, IBV_WC_RECV_RDMA_WITH_IMM, &imm) == 10, "length of what was written");
    must(imm == 0x12345678, "the immediate data");
    for (uint64_t i = 0; i < 3; i++) {
        must(complete(4 + i, IBV_WC_RECV, NULL) == 10 + i, "lengths of three at once");
    }
    for (uint32_t i = 0; i < SIZE; i++) {
        must(memory[i] == octet(i), "what was written");
    }
    for (uint32_t i = 0; i < 4000; i++) {
        must(i >= 1000 || memory[SIZE + i] == octet(i), "what was sent");
        must(memory[SIZE + 2 * 4096 + i] == octet(i), "what was gathered");
    }
    for (uint32_t i = 0; i < INLINE; i++) {
        must(memory[SIZE + 4096 + i] == 'x', "what was sent inline");
    }
    must(words[0] == 7, "the swapped word");
}

int main(int argc, char **argv)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    struct region theirs[2];

    must(argc == 3, "usage: extended s|c PORT");
    addr.sin_port = htons((uint16_t)atoi(argv[2]));
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    words[0] = 100;
    if (argv[1][0] == 's') {
        serve((struct sockaddr *)&addr);
        look();
    } else {
        join((struct sockaddr *)&addr, theirs);
        tagged(&theirs[0]);
        untagged(&theirs[0]);
        atomics(&theirs[1]);
        several_at_once();
    }
    rdma_disconnect(id);
    printf("all right\n");
    return 0;
}
