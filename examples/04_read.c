/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA Read over TCP: the client fetches the server's memory; the server's thread takes no part.
 * Then it reads past the end, to show how an error explains itself on both sides.
 */
#include "side.h"

static void *serve(void *arg)
{
    struct side *s = (struct side *)arg;
    struct advert advert = {(uint64_t)(uintptr_t)s->buffer, iwarp_mr_stag(s->mr), sizeof s->buffer};
    char why[512];

    side_accept(s, &advert, sizeof advert);
    must(iwarp_conn_wait_end(s->conn, 10000), "wait for the end");
    iwarp_fault_text(iwarp_conn_fault(s->conn), why, sizeof why);
    printf("server: %s\n", why);
    return NULL;
}

static struct iwarp_wc fetch(struct side *s, uint32_t stag, uint64_t to, uint32_t len)
{
    struct iwarp_sge sge = side_sge(s, 0, len);
    struct iwarp_send_wr wr = {.wr_id = 1,
                               .opcode = IWARP_WR_READ,
                               .sg_list = &sge,
                               .num_sge = 1,
                               .remote_to = to,
                               .remote_stag = stag};
    struct iwarp_wc wc;

    must(iwarp_post_send(s->qp, &wr, NULL), "post a read");
    if (iwarp_cq_wait(s->cq, &wc, 1, 10000) != 1) {
        fprintf(stderr, "no completion\n");
        exit(1);
    }
    return wc;
}

int main(void)
{
    static struct side server, client;
    struct advert advert;
    struct iwarp_wc wc;
    pthread_t thread;
    char why[512];
    size_t len;

    side_open(&server, IWARP_ACCESS_REMOTE_READ);
    strcpy(server.buffer, "the treasure");
    side_listen(&server);
    pthread_create(&thread, NULL, serve, &server);

    side_open(&client, IWARP_ACCESS_LOCAL_WRITE);
    side_connect(&client, &server);
    memcpy(&advert, iwarp_conn_private_data(client.conn, &len), sizeof advert);

    wc = fetch(&client, advert.stag, advert.to, 64);
    printf("read: %s: %s\n", iwarp_wc_status_text(wc.status), client.buffer);

    wc = fetch(&client, advert.stag, advert.to + advert.len - 32, 64);
    iwarp_fault_text(wc.fault, why, sizeof why);
    printf("read past the end: %s\nclient: %s\n", iwarp_wc_status_text(wc.status), why);

    pthread_join(thread, NULL);
    side_close(&client);
    side_close(&server);
    return 0;
}
