/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomics over TCP (RFC 7306): a client changes words in the server's memory while the server's own
 * threads change them with C11 atomics; nothing is lost. FetchAdd on a counter; FetchAdd with a
 * mask, on two counters in one word; CmpSwap with masks, to take a lock in one octet of a word
 * whose other octets are somebody else's.
 */
#include "side.h"

#include <stdatomic.h>
#include <stddef.h>

#define REMOTE_ADDS 2000u

/* What both sides change. Aligned to 8 octets, as Atomics must be. */
struct board {
    _Atomic uint64_t counter;
    _Atomic uint64_t halves; /* two counters of 32 bits */
    _Atomic uint64_t locked; /* top octet: who holds it; the rest: how often the host did work */
    _Atomic uint64_t stop;   /* the client has finished */
};

static struct board board;
static uint64_t host_adds; /* of the server's thread */

static void *serve(void *arg)
{
    struct side *s = (struct side *)arg;
    struct advert advert = {(uint64_t)(uintptr_t)&board, 0, sizeof board};
    struct iwarp_mr *mr;

    must(iwarp_mr_register(s->pd, &board, sizeof board,
                           IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_ATOMIC, &mr),
         "register the board");
    advert.stag = iwarp_mr_stag(mr);
    side_accept(s, &advert, sizeof advert);
    while (atomic_load(&board.stop) == 0) {
        atomic_fetch_add(&board.counter, 1);
        atomic_fetch_add(&board.locked, 1);
        host_adds++;
    }
    must(iwarp_conn_wait_end(s->conn, 10000), "wait for the end");
    iwarp_mr_deregister(mr);
    return NULL;
}

/* Carry out one Atomic on the word at `offset` of the board; returns what it held before. */
static uint64_t atomic(struct side *s, const struct advert *at, size_t offset,
                       struct iwarp_send_wr wr)
{
    struct iwarp_sge old = side_sge(s, 0, sizeof(uint64_t));
    enum iwarp_wc_opcode opcode =
        wr.opcode == IWARP_WR_ATOMIC_FETCH_ADD ? IWARP_WC_FETCH_ADD : IWARP_WC_CMP_SWAP;
    struct iwarp_wc wc;
    uint64_t held;

    wr.sg_list = &old;
    wr.num_sge = 1;
    wr.remote_to = at->to + offset;
    wr.remote_stag = at->stag;
    must(iwarp_post_send(s->qp, &wr, NULL), "post an Atomic");
    if (!side_wait(s, opcode, &wc)) {
        fprintf(stderr, "the connection has ended\n");
        exit(1);
    }
    memcpy(&held, s->buffer, sizeof held); /* in this host's byte order, like the operands */
    return held;
}

static uint64_t add(struct side *s, const struct advert *at, size_t offset, uint64_t n,
                    uint64_t mask)
{
    struct iwarp_send_wr wr = {.opcode = IWARP_WR_ATOMIC_FETCH_ADD, .operand = n, .mask = mask};

    return atomic(s, at, offset, wr);
}

/* If the octets under compare_mask are those of compare, put those of to under mask. */
static uint64_t swap(struct side *s, const struct advert *at, size_t offset, uint64_t compare,
                     uint64_t compare_mask, uint64_t to, uint64_t mask)
{
    struct iwarp_send_wr wr = {.opcode = IWARP_WR_ATOMIC_CMP_SWAP,
                               .operand = to,
                               .mask = mask,
                               .compare = compare,
                               .compare_mask = compare_mask};

    return atomic(s, at, offset, wr);
}

static void play(struct side *s, const struct advert *at)
{
    const uint64_t top = 0xffull << 56, me = 7ull << 56, all = UINT64_MAX;
    uint64_t held;

    for (unsigned i = 0; i < REMOTE_ADDS; i++) {
        add(s, at, offsetof(struct board, counter), 1, 0);
    }

    /* Bit 31 is the top of a field: what leaves the lower counter does not get into the upper. */
    add(s, at, offsetof(struct board, halves), 0xffffffff, 1ull << 31);
    add(s, at, offsetof(struct board, halves), (5ull << 32) + 3, 1ull << 31);

    held = swap(s, at, offsetof(struct board, locked), 0, top, me, top);
    printf("the lock was %s\n", held >> 56 ? "held" : "free, and is taken");
    held = swap(s, at, offsetof(struct board, locked), 0, top, 9ull << 56, top);
    printf("a second one finds it held by %u\n", (unsigned)(held >> 56));

    swap(s, at, offsetof(struct board, stop), 0, all, 1, all);
}

/* The device says whether it has Atomics: IWARP_RFC7306=off takes them away. */
static bool has_atomics(struct side *s)
{
    struct iwarp_device_info info = {.size = sizeof info};

    must(iwarp_device_query(s->device, &info), "ask the device");
    return (info.features & IWARP_FEATURE_ATOMIC) != 0;
}

int main(void)
{
    static struct side server, client;
    struct advert advert;
    pthread_t thread;
    size_t len;

    side_open(&server, 0);
    if (!has_atomics(&server)) {
        fprintf(stderr, "Atomics are switched off\n");
        return 1;
    }
    side_listen(&server);
    pthread_create(&thread, NULL, serve, &server);

    side_open(&client, IWARP_ACCESS_LOCAL_WRITE); /* what the words held comes here */
    side_connect(&client, &server);
    memcpy(&advert, iwarp_conn_private_data(client.conn, &len), sizeof advert);
    play(&client, &advert);
    side_close(&client);
    pthread_join(thread, NULL);
    side_close(&server);

    bool exact = board.counter == host_adds + REMOTE_ADDS;
    bool halves = board.halves == (5ull << 32) + 2;
    bool locked = board.locked == (7ull << 56) + host_adds;
    printf("%llu adds here and %u from afar: %llu, %s\n", (unsigned long long)host_adds,
           REMOTE_ADDS, (unsigned long long)board.counter, exact ? "exact" : "WRONG");
    printf("two counters in one word: %u and %u, %s\n", (unsigned)(board.halves >> 32),
           (unsigned)board.halves, halves ? "no carry between them" : "WRONG");
    printf("the octets beside the lock: %s\n", locked ? "untouched" : "WRONG");
    return exact && halves && locked ? 0 : 1;
}
