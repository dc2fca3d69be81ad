/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the two ends of a session do, from one seed that both know: how many rounds, what is done in
 * each, which octets go where, and how the session ends. In a round one end acts, the other one
 * receives; the initiator acts in round 0, and then they take turns.
 */
#ifndef TESTS_SOAK_SCRIPT_H
#define TESTS_SOAK_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCRIPT_STEPS 12
#define SCRIPT_SLOT  32768 /* octets of memory that a step has for itself, at either end */
#define SCRIPT_MARGIN                                                                              \
    16 /* octets before and after those of the step that must stay as they are                     \
        */

enum script_act {
    ACT_SEND,
    ACT_SEND_IMM,
    ACT_IMM,
    ACT_WRITE,
    ACT_WRITE_IMM,
    ACT_READ,
    ACT_READ_INV,
    ACT_FETCH_ADD,
    ACT_CMP_SWAP,
    ACT_SEND_INV, /* the last step of its round: what was exposed is gone then */
    ACTS
};

/* What the receiving end lets its peer use in a round. */
enum script_exposure {
    EXPOSE_SESSION,  /* a region as old as the session */
    EXPOSE_ROUND,    /* registered for the round */
    EXPOSE_FAST,     /* by REG_MR; invalidated afterwards, by either end */
    EXPOSE_WINDOW_1, /* a window, bound anew */
    EXPOSE_WINDOW_2, /* a window; invalidated afterwards, by either end */
    EXPOSURES
};

/* The actor is the end that acts in the last round. */
enum script_end {
    END_ACTOR_CLOSES,
    END_OTHER_CLOSES,
    END_BOTH_CLOSE,
    END_ABORT,   /* by the actor, in the middle of the last round; so are the next two */
    END_DESTROY, /* of its queue pair */
    END_WRONG,   /* it writes beyond what was exposed */
    END_REJECT,  /* the responder refuses */
    END_EARLY    /* the initiator gives up at once */
};

struct script_step {
    enum script_act act;
    unsigned at, len; /* octets, in the slot of the step; 8 for atomics */
    unsigned pieces;  /* SGEs, at most 3 */
    bool inlined, solicited, signaled;
    uint64_t key; /* all octets and numbers of the step come from it */
};

struct script_round {
    unsigned steps,
        receives; /* receives that the steps take, and one more for the word at the end */
    enum script_exposure exposure;
    bool zero_based;
    bool chained; /* the steps are posted by one call */
    struct script_step step[SCRIPT_STEPS];
};

struct script {
    uint64_t seed;
    unsigned rounds; /* at least 1 */
    enum script_end end;
    bool srq[2], polls[2];       /* of initiator, responder */
    bool crc, markers, early;    /* options of the connection */
    unsigned mpa_rev, ulpdu_max; /* likewise */
    bool connection_goes_first;  /* when all is released */
};

void script_open(struct script *s, uint64_t seed);
void script_round(const struct script *s, unsigned number, struct script_round *round);

/* Does the session end in the middle of round `number`? */
bool script_breaks_off(const struct script *s, unsigned number);

/* Does this act take a receive of the peer? */
bool script_receives(enum script_act act);
const char *script_act_name(enum script_act act);

/* Numbers of an atomic step: the word before it, what is sent, the word after it. */
struct script_atomic {
    uint64_t before, after, operand, mask, compare;
};
struct script_atomic script_atomic(const struct script_step *step);

/* A number that depends on a and b alone. */
uint64_t script_mix(uint64_t a, uint64_t b);

/* Octet i is one of the 8 of script_mix(key, i / 8). */
void script_fill(uint8_t *p, size_t len, uint64_t key);
/* The first octet that differs, or len. */
size_t script_differs(const uint8_t *p, size_t len, uint64_t key);

#endif
