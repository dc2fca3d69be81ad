/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A memory window: the owner opens 32 octets of its memory to one peer, for one task. The peer
 * writes there and hands the window back with its last message; a Write after that is refused.
 */
#include "side.h"

#include <stddef.h>

#define TASK     512 /* where in the owner's buffer the open octets are */
#define TASK_LEN 32

/* A Write through the window, and behind it a Send that closes it. */
static void fill_and_hand_back(struct side *s, const struct advert *window)
{
    struct iwarp_sge answer = side_sge(s, 512, TASK_LEN);
    struct iwarp_send_wr hand_back = {
        .wr_id = 2, .opcode = IWARP_WR_SEND_INV, .invalidate_stag = window->stag};
    struct iwarp_send_wr write = {.next = &hand_back,
                                  .wr_id = 1,
                                  .opcode = IWARP_WR_WRITE,
                                  .sg_list = &answer,
                                  .num_sge = 1,
                                  .remote_to = window->to,
                                  .remote_stag = window->stag};

    must(iwarp_post_send(s->qp, &write, NULL), "post a write and a send");
}

static void write_again(struct side *s, const struct advert *window)
{
    struct iwarp_sge more = side_sge(s, 512, TASK_LEN);
    struct iwarp_send_wr write = {.wr_id = 3,
                                  .opcode = IWARP_WR_WRITE,
                                  .sg_list = &more,
                                  .num_sge = 1,
                                  .remote_to = window->to,
                                  .remote_stag = window->stag};

    must(iwarp_post_send(s->qp, &write, NULL), "post a write");
}

static void *work(void *arg)
{
    struct side *s = (struct side *)arg;
    struct advert window;
    struct iwarp_wc wc;

    side_post_receive(s, 0, sizeof window);
    side_accept(s, NULL, 0);
    if (!side_wait(s, IWARP_WC_RECV, &wc)) {
        return NULL;
    }
    memcpy(&window, s->buffer, sizeof window);
    strcpy(s->buffer + 512, "done by the peer");
    fill_and_hand_back(s, &window);
    while (side_wait(s, IWARP_WC_SEND, &wc) && wc.wr_id != 2) {
    }
    write_again(s, &window);
    iwarp_conn_wait_end(s->conn, 10000);
    return NULL;
}

/* Bind, and tell the peer: two requests in one chain, the second after the first has taken effect.
 */
static void open_window(struct side *s, struct iwarp_mw *mw)
{
    uint8_t key = (uint8_t)(iwarp_mw_stag(mw) + 1);
    struct iwarp_bind part = {.mr = s->mr,
                              .mw = mw,
                              .addr = s->buffer + TASK,
                              .len = TASK_LEN,
                              .access = IWARP_ACCESS_REMOTE_WRITE | IWARP_ACCESS_ZERO_BASED,
                              .key = key};
    struct advert window = {0, iwarp_stag_with_key(iwarp_mw_stag(mw), key), TASK_LEN};
    struct iwarp_sge sge = side_sge(s, 0, sizeof window);
    struct iwarp_send_wr tell = {.opcode = IWARP_WR_SEND, .sg_list = &sge, .num_sge = 1};
    struct iwarp_send_wr bind = {.next = &tell, .opcode = IWARP_WR_BIND_MW, .bind = &part};

    memcpy(s->buffer, &window, sizeof window);
    must(iwarp_post_send(s->qp, &bind, NULL), "post a bind and a send");
    printf("%u octets are open as STag 0x%08x\n", window.len, window.stag);
}

int main(void)
{
    static struct side peer, owner;
    struct iwarp_stag_info info = {.size = sizeof info};
    struct iwarp_mw *mw;
    struct iwarp_wc wc;
    pthread_t thread;
    char why[512];

    side_open(&peer, IWARP_ACCESS_LOCAL_WRITE);
    side_listen(&peer);
    pthread_create(&thread, NULL, work, &peer);

    /* The region itself has no remote right at all: its STag is of no use to a peer. */
    side_open(&owner, IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_MW_BIND);
    must(iwarp_mw_alloc(owner.pd, IWARP_MW_TYPE_2, &mw), "allocate a window");
    side_connect(&owner, &peer);
    side_post_receive(&owner, 0, 0);
    open_window(&owner, mw);

    if (side_wait(&owner, IWARP_WC_RECV, &wc)) {
        must(iwarp_mw_query(mw, &info), "ask about the window");
        printf("the octets say: %s; the window is %s\n", owner.buffer + TASK,
               info.valid ? "open" : "closed");
    }
    must(iwarp_conn_wait_end(owner.conn, 10000), "wait for the end");
    iwarp_fault_text(iwarp_conn_fault(owner.conn), why, sizeof why);
    printf("a Write after that: %s\n", why);

    pthread_join(thread, NULL);
    must(iwarp_mw_free(mw), "free the window");
    side_close(&owner);
    side_close(&peer);
    return 0;
}
