/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Notification by Immediate Data (RFC 7306): a client writes records into a ring of the server,
 * each with a number behind it, as one work request. The server sleeps; its queue is armed for
 * solicited completions only, so that it wakes at the last record, not at each.
 *
 * The Immediate Data is 8 octets, most significant first. A value of 32 bits lies in the last four
 * of them: 0x00020011 is 00 00 00 00 00 02 00 11 on the wire, and `imm` is just that number.
 */
#include "side.h"

#include <poll.h>

#define RECORDS  4
#define SLOT_LEN 64 /* of a record in the ring */

/* A completion with Immediate Data says nothing of the Write before it, so the value does. */
static uint32_t value_of(unsigned slot, size_t len)
{
    return (uint32_t)slot << 16 | (uint32_t)len;
}

static unsigned take_records(struct side *s)
{
    struct iwarp_wc wc;
    unsigned n = 0;

    while (iwarp_cq_poll(s->cq, &wc, 1) == 1 && wc.status == IWARP_WC_SUCCESS) {
        if (wc.flags & IWARP_WC_WITH_IMM) {
            uint32_t value = (uint32_t)wc.imm;
            unsigned slot = value >> 16, len = value & 0xffff;
            printf("0x%08x: slot %u, %u octets: %.*s\n", value, slot, len, (int)len,
                   s->buffer + (size_t)slot * SLOT_LEN);
            n++;
        }
    }
    return n;
}

static void *serve(void *arg)
{
    struct side *s = (struct side *)arg;
    struct advert ring = {(uint64_t)(uintptr_t)s->buffer, iwarp_mr_stag(s->mr), sizeof s->buffer};
    struct pollfd notified = {iwarp_cq_fd(s->cq), POLLIN, 0};
    unsigned records = 0, wakes = 0;

    for (unsigned i = 0; i < RECORDS; i++) {
        side_post_receive(s, 0, 0); /* each Immediate Data takes one; it needs no buffer */
    }
    must(iwarp_cq_arm(s->cq, true), "arm"); /* before anything can come */
    side_accept(s, &ring, sizeof ring);
    while (records < RECORDS) {
        if (poll(&notified, 1, 10000) != 1) {
            fprintf(stderr, "no notification\n");
            exit(1);
        }
        wakes++;
        iwarp_cq_drain(s->cq);
        must(iwarp_cq_arm(s->cq, true), "arm"); /* first, so that nothing is missed */
        records += take_records(s);
    }
    printf("%u records, woken %s\n", records, wakes == 1 ? "once" : "MORE THAN ONCE");
    return NULL;
}

/* One request: the octets go to their slot, and the value behind them. */
static void put_record(struct side *s, const struct advert *ring, unsigned slot, const char *text)
{
    size_t offset = (size_t)slot * SLOT_LEN, len = strlen(text);
    struct iwarp_sge sge = side_sge(s, offset, len);
    struct iwarp_send_wr wr = {.wr_id = slot,
                               .opcode = IWARP_WR_WRITE_IMM,
                               .flags = slot == RECORDS - 1 ? IWARP_WR_SOLICITED : 0u,
                               .sg_list = &sge,
                               .num_sge = 1,
                               .remote_to = ring->to + offset,
                               .remote_stag = ring->stag,
                               .imm = value_of(slot, len)};

    memcpy(s->buffer + offset, text, len);
    must(iwarp_post_send(s->qp, &wr, NULL), "post a write with Immediate Data");
}

int main(void)
{
    static const char *const texts[RECORDS] = {"first", "second", "third", "the one to wake for"};
    static struct side server, client;
    struct advert ring;
    struct iwarp_wc wc;
    pthread_t thread;
    size_t len;

    side_open(&server, IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE);
    side_listen(&server);
    pthread_create(&thread, NULL, serve, &server);

    side_open(&client, 0);
    side_connect(&client, &server);
    memcpy(&ring, iwarp_conn_private_data(client.conn, &len), sizeof ring);
    for (unsigned i = 0; i < RECORDS; i++) {
        put_record(&client, &ring, i, texts[i]);
    }
    for (unsigned i = 0; i < RECORDS && side_wait(&client, IWARP_WC_WRITE, &wc); i++) {
    }
    pthread_join(thread, NULL);
    side_close(&client);
    side_close(&server);
    return 0;
}
