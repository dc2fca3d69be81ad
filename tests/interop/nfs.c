/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first steps of an NFS server on RPC-over-RDMA, enough to see the kernel as a user of siw: its
 * client begins with a call of the NULL procedure in a Send, which is answered by another Send, and
 * then comes with a COMPOUND. That is answered, too: this server has another version of NFS, so
 * that the client ends at once and has a reason. That it names this reason shows that both answers
 * were understood. A server that knows NFS would have to read and write by the chunk lists.
 *
 * RFC 8166 4.1 to 4.4 (header: XID, version 1, credits, RDMA_MSG, lists of chunks); RFC 5531 9
 * (call and reply).
 */
#include "exchange.h"

#include <arpa/inet.h>
#include <string.h>
#include <unistd.h>

#define CREDITS   32
#define NFS       100003
#define WORDS_MAX 1024 /* the kernel's messages have 4096 octets at the most */

/* Of a call: what is looked at. */
struct call {
    uint32_t xid;
    uint32_t version;
    uint32_t procedure;
};

/* Behind the three lists that begin at word 4 there is the RPC message: which word that is, or 0.
 */
static size_t message_find(const uint32_t *word, size_t words)
{
    size_t at = 4;

    while (at < words && word[at] == 1) { /* read list: position, STag, length, offset */
        at += 6;
    }
    at++;
    for (unsigned list = 0; list < 2; list++) { /* write list; at most one reply chunk */
        while (at + 1 < words && word[at] == 1) {
            uint32_t segments = word[at + 1];
            if (segments > words) {
                return 0;
            }
            at += 2 + 4 * (size_t)segments;
            if (list == 1) {
                return at;
            }
        }
        at++;
    }
    return at;
}

/* RPC-over-RDMA version 1, RDMA_MSG; the RPC's XID is that of the header; CALL, RPC version 2. */
static bool call_read(struct call *call, const unsigned char *octets, size_t len)
{
    static uint32_t word[WORDS_MAX];
    size_t words = len / 4 < WORDS_MAX ? len / 4 : WORDS_MAX, at;

    for (size_t i = 0; i < words; i++) {
        memcpy(&word[i], octets + 4 * i, 4);
        word[i] = ntohl(word[i]);
    }
    if (words < 13 || word[1] != 1 || word[2] == 0 || word[3] != 0) {
        return false;
    }
    at = message_find(word, words);
    if (at == 0 || at + 6 > words || word[at] != word[0] || word[at + 1] != 0 ||
        word[at + 2] != 2 || word[at + 3] != NFS) {
        return false;
    }
    *call = (struct call){word[0], word[at + 4], word[at + 5]};
    return true;
}

/* The next call, which has to be of that procedure of NFS version 4. */
static bool call_take(struct talk *talk, struct call *call, uint32_t procedure)
{
    struct side_done done;

    do {
        if (!talk_next(talk, &done)) {
            talk_complain(talk, "no call of procedure %u came", procedure);
            return false;
        }
    } while (!done.receive);
    if (!call_read(call, talk->slots + (size_t)done.id * talk->slot_size, done.len)) {
        talk_complain(talk, "a message of %u octets is no call of NFS", done.len);
        return false;
    }
    if (call->version != 4 || call->procedure != procedure) {
        talk_complain(talk, "version %u, procedure %u instead of %u", call->version,
                      call->procedure, procedure);
        return false;
    }
    return true;
}

/* REPLY, accepted, no verifier; success, or (true) versions 2 to 3 alone. */
static void call_answer(struct talk *talk, const struct call *call, bool refuse)
{
    uint32_t answer[15] = {htonl(call->xid),
                           htonl(1),
                           htonl(CREDITS),
                           0,
                           0,
                           0,
                           0,
                           htonl(call->xid),
                           htonl(1),
                           0,
                           0,
                           0,
                           0,
                           0,
                           0};
    struct side_request send = {.id = 0x100000, .op = OP_SEND, .addr = talk->source, .len = 13 * 4};

    if (refuse) {
        answer[12] = htonl(2); /* PROG_MISMATCH */
        answer[13] = htonl(2);
        answer[14] = htonl(3);
        send.len = sizeof answer;
        send.addr = talk->source + sizeof answer; /* the first may still be under way */
    }
    memcpy(send.addr, answer, send.len);
    side_post(talk->link, &send);
}

void nfs_run(struct talk *talk)
{
    struct call call;
    uint64_t until;

    if (!call_take(talk, &call, 0)) {
        return;
    }
    call_answer(talk, &call, false);
    if (!call_take(talk, &call, 1)) { /* COMPOUND */
        return;
    }
    call_answer(talk, &call, true);
    until = now_ms() + talk->settings->time * 1000ull;
    while (!side_ended(talk->link) && now_ms() < until) {
        struct side_done done;
        if (!side_poll(talk->link, &done)) {
            usleep(200);
        }
    }
    talk->judged = true;
}
