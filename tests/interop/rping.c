/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The conversation of rping, either role, so that one end can be the rping of rdmacm-utils.
 *
 * Its client tells of a buffer by a Send of 16 octets (address, STag, length, big-endian). Its
 * server reads it by RDMA Read, answers with a Send of 16 octets, is told of a second buffer, and
 * writes there what it has read; a last Send says so. That is one ping; the client compares.
 */
#include "exchange.h"

#include <arpa/inet.h>
#include <endian.h>
#include <string.h>
#include <unistd.h>

#define WORD_LEN 16

struct ping {
    struct talk *talk;
    struct side_done message; /* the last one that came */
    bool come;                /* and was not looked at */
};

/* Until a message of the peer is there, or (message false) all requests of this end have ended. */
static bool ping_wait(struct ping *ping, bool message)
{
    struct talk *talk = ping->talk;
    uint64_t until = now_ms() + talk->settings->time * 1000ull;
    struct side_done done;

    while (message ? !ping->come : talk->completed < talk->posted) {
        if (side_poll(talk->link, &done)) {
            if (strcmp(done.status, "ok") != 0) {
                return false;
            }
            if (done.receive) {
                ping->message = done;
                ping->come = true;
            } else {
                talk->completed++;
            }
        } else if (side_ended(talk->link)) {
            return false;
        } else if (now_ms() > until) {
            talk_complain(talk, "time is up");
            return false;
        } else {
            usleep(200);
        }
    }
    if (message) {
        ping->come = false;
    }
    return true;
}

static void ping_receive(struct ping *ping)
{
    struct talk *talk = ping->talk;

    side_receive(talk->link, ping->message.id,
                 talk->slots + (size_t)ping->message.id * talk->slot_size, talk->slot_size);
}

static bool ping_do(struct ping *ping, unsigned op, void *addr, uint32_t len)
{
    struct talk *talk = ping->talk;
    struct side_request r = {1, op, addr, len, talk->peer_stag, talk->peer_to};

    side_post(talk->link, &r);
    talk->posted++;
    return ping_wait(ping, false);
}

/* Where a buffer is: rping's own form. */
static bool ping_tell(struct ping *ping, const void *buffer)
{
    struct talk *talk = ping->talk;
    unsigned char *word = talk_word(talk);
    uint64_t to = htobe64((uint64_t)(uintptr_t)buffer);
    uint32_t stag = htonl(talk->region_stag), len = htonl(talk->settings->size);

    memcpy(word, &to, 8);
    memcpy(word + 8, &stag, 4);
    memcpy(word + 12, &len, 4);
    return ping_do(ping, OP_SEND, word, WORD_LEN);
}

static bool ping_learn(struct ping *ping)
{
    struct talk *talk = ping->talk;
    const unsigned char *slot;
    uint64_t to;
    uint32_t stag;

    if (!ping_wait(ping, true)) {
        return false;
    }
    slot = talk->slots + (size_t)ping->message.id * talk->slot_size;
    memcpy(&to, slot, 8);
    memcpy(&stag, slot + 8, 4);
    talk->peer_to = be64toh(to);
    talk->peer_stag = ntohl(stag);
    if (ping->message.len != WORD_LEN) {
        talk_complain(talk, "rping's message has %u octets", ping->message.len);
    }
    ping_receive(ping);
    return true;
}

static bool serve(struct ping *ping)
{
    struct talk *talk = ping->talk;
    uint32_t size = talk->settings->size;

    return ping_learn(ping) && ping_do(ping, OP_READ, talk->sink, size) &&
           ping_tell(ping, talk->region) && ping_learn(ping) &&
           ping_do(ping, OP_WRITE, talk->sink, size) && ping_tell(ping, talk->region);
}

/* rping's server writes back no more than a string of C. */
static void text_fill(unsigned char *at, uint32_t size, unsigned number)
{
    for (uint32_t i = 0; i + 1 < size; i++) {
        at[i] = (unsigned char)('A' + (i + number * 5) % 58);
    }
    at[size - 1] = 0;
}

/* The region holds both buffers: what is read, and behind it what is written. */
static bool ask(struct ping *ping, unsigned number)
{
    struct talk *talk = ping->talk;
    uint32_t size = talk->settings->size;

    text_fill(talk->region, size, number);
    memset(talk->region + size, 0, size);
    if (!ping_tell(ping, talk->region) || !ping_learn(ping) ||
        !ping_tell(ping, talk->region + size) || !ping_learn(ping)) {
        return false;
    }
    if (memcmp(talk->region, talk->region + size, size) != 0) {
        talk_complain(talk, "ping %u came back with other octets", number);
    }
    return true;
}

void rping_run(struct talk *talk)
{
    struct ping ping = {.talk = talk};
    unsigned number = 0;

    while (number < talk->settings->count) {
        if (!(talk->settings->server ? serve(&ping) : ask(&ping, number))) {
            talk_complain(talk, "ping %u of %u failed", number, talk->settings->count);
            return;
        }
        number++;
    }
    talk->judged = true;
}
