/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA Write over TCP: the server says in its Reply where its memory is; the client writes there
 * while the server's thread does nothing about it, then sends an empty message so that it looks.
 */
#include "side.h"

static void *serve(void *arg)
{
    struct side *s = (struct side *)arg;
    struct advert advert = {(uint64_t)(uintptr_t)s->buffer, iwarp_mr_stag(s->mr), sizeof s->buffer};
    struct iwarp_wc wc;

    side_post_receive(s, 0, 0); /* an empty receive for the empty message */
    side_accept(s, &advert, sizeof advert);
    if (side_wait(s, IWARP_WC_RECV, &wc)) {
        printf("the server's memory now says: %s\n", s->buffer);
    }
    return NULL;
}

int main(void)
{
    static struct side server, client;
    struct advert advert;
    struct iwarp_wc wc;
    pthread_t thread;
    size_t len;

    side_open(&server, IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE);
    side_listen(&server);
    pthread_create(&thread, NULL, serve, &server);

    side_open(&client, 0);
    side_connect(&client, &server);
    memcpy(&advert, iwarp_conn_private_data(client.conn, &len), sizeof advert);
    printf("the server offers %u octets at STag 0x%08x\n", advert.len, advert.stag);

    strcpy(client.buffer, "written from afar");
    struct iwarp_sge sge = side_sge(&client, 0, strlen(client.buffer) + 1);
    struct iwarp_send_wr done = {.wr_id = 2, .opcode = IWARP_WR_SEND};
    struct iwarp_send_wr write = {.next = &done,
                                  .wr_id = 1,
                                  .opcode = IWARP_WR_WRITE,
                                  .sg_list = &sge,
                                  .num_sge = 1,
                                  .remote_to = advert.to,
                                  .remote_stag = advert.stag};
    must(iwarp_post_send(client.qp, &write, NULL), "post a write and a send");

    /* This tells that the octets have left, not that they have arrived: the server's side does. */
    side_wait(&client, IWARP_WC_SEND, &wc);
    side_close(&client);
    pthread_join(thread, NULL);
    side_close(&server);
    return 0;
}
