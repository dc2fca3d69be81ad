/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One end of a session: its objects, and what it waits for. side.c makes and releases them, take.c
 * takes completions and checks what was received, act.c carries out rounds, session.c connects and
 * ends.
 */
#ifndef TESTS_SOAK_SIDE_H
#define TESTS_SOAK_SIDE_H

#include "board.h"
#include "pool.h"
#include "script.h"

#include <iwarp/iwarp.h>

#define SIDE_AREA ((size_t)SCRIPT_STEPS * SCRIPT_SLOT)

/* Faults of the soak itself, to see that it finds them. From session `plant_at` of a process on. */
enum plant { PLANT_NONE, PLANT_DESCRIPTOR, PLANT_MEMORY, PLANT_OCTET, PLANT_HANG };

/* What a peer may do with exposed memory. */
#define SIDE_RIGHTS                                                                                \
    (IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE | IWARP_ACCESS_REMOTE_READ |             \
     IWARP_ACCESS_REMOTE_ATOMIC)

/* A process. */
struct soak {
    struct iwarp_device *device;
    struct board *board;
    struct pool pool;
    uint64_t seed;
    bool breaks; /* this process makes faults or will be killed */
    enum plant plant;
    unsigned plant_at;
    _Atomic unsigned begun; /* sessions */
};

/* What the actor says at the end of a round: what it has exposed for the next one. */
struct word {
    uint64_t seed;
    uint32_t round, stag;
    uint64_t to;
};

struct side {
    struct soak *soak;
    struct board_lane *lane;
    struct script script;
    bool responder;
    bool breaks; /* the connection may break at any time */
    bool planted;

    struct iwarp_pd *pd;
    struct iwarp_cq *cq;
    struct iwarp_qp *qp;
    struct iwarp_conn *conn;
    uint8_t *octets;          /* of the three areas below */
    struct iwarp_mr *memory;  /* all of it, without remote rights */
    struct iwarp_mr *exposed; /* the second area, with all rights */
    struct iwarp_mr *of_round, *fast, *sink;
    struct iwarp_mw *window[2];
    uint8_t key; /* of the last STag that was made valid by a work request */

    struct script_round acts;  /* the last round in which this end acts */
    struct script_round takes; /* and in which it receives */
    unsigned takes_number;
    unsigned received;   /* receives of it that have completed */
    uint32_t takes_stag; /* what this end has exposed for it, and where that begins */
    uint64_t takes_to;
    bool invalidated; /* by the peer */
    struct word word; /* the peer's last */
    uint64_t count;   /* of send requests */
    uint64_t word_id; /* wr_id of the last word */
    uint64_t last;    /* wr_id of the last send request that has completed */
    bool as_script;   /* it is where its script ends */
    bool ended;       /* something was flushed or has failed */
    unsigned empty;   /* polls in a row that have found nothing */
    char why[400];
};

/* wr_id of send requests: 256 times a number that counts up, and the number of the step, or: */
enum { REQUEST_WORD = 100, REQUEST_MEMORY };
#define REQUEST_RECEIVE (UINT64_C(1) << 63) /* of receives, and the number of the buffer */

/*
 * What all connections and listeners have in common: limits that no machine reaches by being busy,
 * and that a hang reaches before the conductor's patience is over.
 */
void side_options(struct iwarp_conn_options *o, const char *tls);

/* Says what is wrong, in which session and when, and ends the process with status 3. */
_Noreturn void side_fail(const struct side *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Ends it if status is a failure that no injected fault explains. */
bool side_ok(const struct side *s, enum iwarp_status status, const char *what);

/* False: an injected fault. All that is there is released by side_close. */
bool side_open(struct side *s);
void side_close(struct side *s);

/* Places of step i. */
uint8_t *side_local(const struct side *s, unsigned i);
uint8_t *side_target(const struct side *s, unsigned i);
uint8_t *side_buffer(const struct side *s, unsigned i);

/* Expose memory and post receives for the round, unless it is the one behind the last. False: the
 * session is over. */
bool side_prepare(struct side *s, unsigned number);
/* Act in a round, or receive what the peer does in it. False: the session is over. */
bool side_act(struct side *s, unsigned number);
bool side_receive(struct side *s, unsigned number);
void side_word(const struct side *s, struct word *word);

/* Take completions: wait for some. False: the stream has ended, and all completions are taken. */
bool side_take(struct side *s);
void side_take_rest(struct side *s);

/* The octets of the step at p are right, or the process ends. */
void side_expect_octets(const struct side *s, const uint8_t *p, const struct script_step *step,
                        const char *where);

/* For ever, for the watchdog. */
_Noreturn void side_hang(const struct side *s);

/* A whole session. The initiator begins it; `request` is what a responder was asked. */
void session_initiate(struct soak *soak, struct board_lane *lane, uint64_t seed, unsigned port,
                      const char *tls, bool breaks);
void session_respond(struct soak *soak, struct board_lane *lane, struct iwarp_conn *request);

#endif
