/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A key-value store with one-sided reads. A client puts by a message, which the server's thread
 * answers. It gets by an RDMA Read of the slot where the key has to be, without that thread. Each
 * slot has a sum over version, key and value: what was read while it changed is read again.
 */
#include "side.h"

#define SLOTS  1024
#define WANTED 300
#define IN     0 /* where a message is received in a side's buffer */
#define OUT    512

struct put {
    char key[48], value[192];
};

struct slot {
    uint64_t version; /* 0: nothing was ever here */
    struct put put;
    uint64_t sum;
};

static struct slot table[SLOTS];
static unsigned requests, updates, again; /* again: reads of a slot that was being changed */

static uint64_t sum_of(const void *octets, size_t len)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

    for (const uint8_t *at = octets; len > 0; len--) {
        sum = (sum ^ *at++) * UINT64_C(0x100000001b3);
    }
    return sum;
}

static size_t place_of(const char *key)
{
    return sum_of(key, strlen(key)) % SLOTS;
}

/* Keys are never removed, so a key is in the first slots from its place on that are not empty. */
static void put(const struct put *what)
{
    size_t n = place_of(what->key);

    while (table[n].version > 0 && strcmp(table[n].put.key, what->key) != 0) {
        n = (n + 1) % SLOTS;
    }
    table[n].version++;
    table[n].put = *what;
    table[n].sum = sum_of(&table[n], offsetof(struct slot, sum));
}

static void *serve(void *arg)
{
    struct side *s = arg;
    struct advert advert = {(uint64_t)(uintptr_t)table, 0, sizeof table};
    struct put own = {.key = "clock"};
    struct iwarp_wc wc = {0};
    struct iwarp_mr *mr;

    must(iwarp_mr_register(s->pd, table, sizeof table, IWARP_ACCESS_REMOTE_READ, &mr), "register");
    advert.stag = iwarp_mr_stag(mr);
    side_post_receive(s, IN, sizeof(struct put));
    side_accept(s, &advert, sizeof advert);
    do {
        /* Meanwhile it changes a value of its own, as fast as it can. */
        memset(own.value, 'a' + (int)(updates++ % 26), sizeof own.value - 1);
        put(&own);
        if (iwarp_cq_poll(s->cq, &wc, 1) == 1 && wc.status == IWARP_WC_SUCCESS &&
            wc.opcode == IWARP_WC_RECV) {
            put((const struct put *)(s->buffer + IN));
            side_post_receive(s, IN, sizeof(struct put));
            side_send(s, OUT, 1);
            requests++;
        }
    } while (wc.status != IWARP_WC_FLUSHED);
    iwarp_mr_deregister(mr);
    return NULL;
}

static void ask_put(struct side *s, const struct put *what)
{
    struct iwarp_wc wc;

    memcpy(s->buffer + OUT, what, sizeof *what);
    side_post_receive(s, IN, 1);
    side_send(s, OUT, sizeof *what);
    side_need(s, IWARP_WC_RECV, &wc); /* from now on everybody reads it */
}

/* NULL: there is no such key. */
static const char *get(struct side *s, const struct advert *store, const char *key)
{
    const struct slot *slot = (const void *)(s->buffer + IN);
    struct iwarp_sge sge = side_sge(s, IN, sizeof *slot);
    struct iwarp_send_wr wr = {.opcode = IWARP_WR_READ, .sg_list = &sge, .num_sge = 1};
    struct iwarp_wc wc;

    for (size_t n = place_of(key);;) {
        wr.remote_stag = store->stag;
        wr.remote_to = store->to + n * sizeof *slot;
        must(iwarp_post_send(s->qp, &wr, NULL), "post a read");
        side_need(s, IWARP_WC_READ, &wc);
        if (slot->version > 0 && slot->sum != sum_of(slot, offsetof(struct slot, sum))) {
            again++;
        } else if (slot->version == 0 || strcmp(slot->put.key, key) == 0) {
            return slot->version > 0 ? slot->put.value : NULL;
        } else {
            n = (n + 1) % SLOTS; /* another key has this slot */
        }
    }
}

int main(void)
{
    static struct side server, client;
    unsigned right = 0;
    struct advert store;
    pthread_t thread;
    size_t len;

    side_open(&server, IWARP_ACCESS_LOCAL_WRITE);
    side_listen(&server);
    pthread_create(&thread, NULL, serve, &server);
    side_open(&client, IWARP_ACCESS_LOCAL_WRITE);
    side_connect(&client, &server);
    memcpy(&store, iwarp_conn_private_data(client.conn, &len), sizeof store);

    for (unsigned i = 0; i < 3 * WANTED; i++) { /* the second third is not there */
        struct put what = {{0}, {0}};
        snprintf(what.key, sizeof what.key, "key %u", i % (2 * WANTED));
        snprintf(what.value, sizeof what.value, "value %u", i);
        if (i < WANTED) {
            ask_put(&client, &what);
        }
        const char *found = get(&client, &store, what.key);
        right += i < WANTED ? found && strcmp(found, what.value) == 0
                            : (found != NULL) == (i >= 2 * WANTED);
        found = get(&client, &store, "clock");
        right += found && strspn(found, (char[]){found[0], '\0'}) == sizeof what.value - 1;
    }
    side_close(&client);
    pthread_join(thread, NULL);
    side_close(&server);
    printf("%u gets of %u right, %u requests at the server, %u changes, %u reads repeated\n", right,
           6 * WANTED, requests, updates, again);
    return right == 6 * WANTED && requests == WANTED ? 0 : 1;
}
