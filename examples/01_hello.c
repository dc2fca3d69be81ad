/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hello: two endpoints in one process, joined through memory. One writes into the other's memory,
 * then says so with a Send. No device, no privileges, no network.
 */
#include <iwarp/iwarp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(enum iwarp_status status, const char *what)
{
    if (status != IWARP_OK) {
        fprintf(stderr, "%s: %s\n", what, iwarp_last_error());
        exit(1);
    }
}

static char target[64], source[64] = "hello, remote memory", note[8] = "done", inbox[8];

static struct iwarp_pd *pd;
static struct iwarp_mr *target_mr, *source_mr, *note_mr, *inbox_mr;

static void register_memory(void)
{
    must(iwarp_mr_register(pd, target, sizeof target,
                           IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE, &target_mr),
         "register the target");
    must(iwarp_mr_register(pd, source, sizeof source, 0, &source_mr), "register the source");
    must(iwarp_mr_register(pd, note, sizeof note, 0, &note_mr), "register the note");
    must(iwarp_mr_register(pd, inbox, sizeof inbox, IWARP_ACCESS_LOCAL_WRITE, &inbox_mr),
         "register the inbox");
}

static void release_memory(void)
{
    iwarp_mr_deregister(target_mr);
    iwarp_mr_deregister(source_mr);
    iwarp_mr_deregister(note_mr);
    iwarp_mr_deregister(inbox_mr);
}

/* What is not set is 0. Fields are set one by one so that this is C++17, too. */
static struct iwarp_send_wr request(uint64_t id, enum iwarp_wr_opcode opcode,
                                    const struct iwarp_sge *sge)
{
    struct iwarp_send_wr wr;

    memset(&wr, 0, sizeof wr);
    wr.wr_id = id;
    wr.opcode = opcode;
    wr.sg_list = sge;
    wr.num_sge = 1;
    return wr;
}

/* Two requests in one chain: an RDMA Write, and a Send behind it. */
static void write_and_send(struct iwarp_qp *qp)
{
    struct iwarp_sge from = {source, sizeof source, iwarp_mr_stag(source_mr)};
    struct iwarp_sge say = {note, sizeof note, iwarp_mr_stag(note_mr)};
    struct iwarp_send_wr send = request(3, IWARP_WR_SEND, &say);
    struct iwarp_send_wr write = request(2, IWARP_WR_WRITE, &from);

    send.flags = IWARP_WR_SIGNALED;
    write.next = &send;
    write.remote_to = (uint64_t)(uintptr_t)target;
    write.remote_stag = iwarp_mr_stag(target_mr);
    must(iwarp_post_send(qp, &write, NULL), "post");
}

int main(void)
{
    struct iwarp_device *device;
    struct iwarp_cq *cq;
    struct iwarp_qp *a, *b;
    struct iwarp_conn *conn_a, *conn_b;
    struct iwarp_qp_options options;
    struct iwarp_wc wc;

    must(iwarp_device_open(NULL, &device), "open a device");
    must(iwarp_pd_create(device, &pd), "create a protection domain");
    must(iwarp_cq_create(device, 16, NULL, &cq), "create a completion queue");
    register_memory();
    iwarp_qp_options_init(&options);
    options.send_cq = options.recv_cq = cq;
    must(iwarp_qp_create(pd, &options, &a), "create queue pair a");
    must(iwarp_qp_create(pd, &options, &b), "create queue pair b");

    struct iwarp_sge into = {inbox, sizeof inbox, iwarp_mr_stag(inbox_mr)};
    struct iwarp_recv_wr receive = {NULL, 1, &into, 1, 0};
    must(iwarp_post_recv(b, &receive, NULL), "post a receive");
    must(iwarp_connect_pair(a, b, NULL, NULL, &conn_a, &conn_b), "connect");
    must(iwarp_conn_wait(conn_a, 5000), "connect");
    write_and_send(a);

    /* The receive completes after everything sent before it is in place (RFC 5040 5.5). */
    for (int seen = 0; seen < 2; seen++) {
        if (iwarp_cq_wait(cq, &wc, 1, 5000) != 1 || wc.status != IWARP_WC_SUCCESS) {
            fprintf(stderr, "no successful completion\n");
            return 1;
        }
        if (wc.opcode == IWARP_WC_RECV) {
            printf("b got a message of %u octets: %s\n", wc.byte_len, inbox);
            printf("b's memory now says: %s\n", target);
        }
    }

    must(iwarp_disconnect(conn_a), "disconnect");
    must(iwarp_conn_wait_end(conn_b, 5000), "wait for the end");
    iwarp_conn_destroy(conn_a);
    iwarp_conn_destroy(conn_b);
    iwarp_qp_destroy(a);
    iwarp_qp_destroy(b);
    release_memory();
    iwarp_cq_destroy(cq);
    iwarp_pd_destroy(pd);
    must(iwarp_device_close(device), "close the device");
    return 0;
}
