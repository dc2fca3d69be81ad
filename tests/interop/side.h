/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the exchanges need of an RDMA library, so that they are written once and run on both ends:
 * side_iwarp.c is libiwarp, on the host; side_verbs.c is libibverbs and librdmacm, in the guest,
 * where the kernel's siw is below. Nothing here waits, except where it says so.
 */
#ifndef INTEROP_SIDE_H
#define INTEROP_SIDE_H

#include "settings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIDE_DEPTH 256 /* requests, and receives, that a link takes at a time */

struct side_link;

/* A request or a receive that has completed. */
struct side_done {
    uint64_t id;
    const char *status; /* a word; "ok" */
    uint32_t len;       /* of a receive */
    bool receive;
    bool invalidated; /* the peer invalidated `stag` */
    uint32_t stag;
};

struct side_request {
    uint64_t id;
    unsigned op; /* enum operation */
    void *addr;
    uint32_t len;
    uint32_t remote_stag; /* also what is to be invalidated */
    uint64_t remote_to;
};

/* These end the program with a sentence when something fails that has nothing to do with the peer.
 */
void side_open(const struct settings *settings);
void side_close(void);
void side_listen(void); /* "listening" goes to stdout */

/* A link that is not connected yet: towards the peer, or from its next request (both wait). NULL:
 * it did not come, and the text says why. */
struct side_link *side_dial(char *why, size_t size);
struct side_link *side_request(char *why, size_t size);
void side_destroy(struct side_link *link);

/* Memory that the link may use, with rights for the peer, and its STag. Two of them at most. */
uint32_t side_register(struct side_link *link, void *addr, size_t len, bool remote_read,
                       bool remote_write);
void side_receive(struct side_link *link, uint64_t id, void *addr, uint32_t len);

/* Connect, or accept the request, and wait for the outcome: a word, "ok" or why not. */
const char *side_establish(struct side_link *link, const void *pd, size_t len);
void side_reject(struct side_link *link, const void *pd, size_t len);
const unsigned char *side_private_data(const struct side_link *link, size_t *len);

void side_post(struct side_link *link, const struct side_request *request);
bool side_poll(struct side_link *link, struct side_done *done);

/* Ask to be woken by the next completion; sleep until one comes, or for that time. Between the two
 * there is a poll. */
void side_arm(struct side_link *link);
void side_sleep(struct side_link *link, int ms);

/* Whether completions say what the peer has invalidated, and whether solicited events are told. */
bool side_tells_invalidation(void);
bool side_tells_solicited(void);

/* Whether a solicited event was told since side_watch_solicited. */
void side_watch_solicited(struct side_link *link);
bool side_solicited(struct side_link *link);

void side_disconnect(struct side_link *link);
void side_abort(struct side_link *link);

/* Whether the link has ended; then why, in words: "end=orderly" or as the side has it. */
bool side_ended(struct side_link *link);
void side_why(struct side_link *link, char *text, size_t size);

/* What the start-up settled, in words, as far as this side knows. */
void side_info(struct side_link *link, char *text, size_t size);

#endif
