/* SPDX-License-Identifier: BSD-2-Clause */
#include "script.h"

#include <string.h>

/* Splitmix64 of both. */
uint64_t script_mix(uint64_t a, uint64_t b)
{
    uint64_t z = a + (b + 1) * 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void script_fill(uint8_t *p, size_t len, uint64_t key)
{
    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = script_mix(key, i / 8);
        memcpy(p + i, &word, len - i < 8 ? len - i : 8);
    }
}

size_t script_differs(const uint8_t *p, size_t len, uint64_t key)
{
    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = script_mix(key, i / 8);
        size_t n = len - i < 8 ? len - i : 8;
        if (memcmp(p + i, &word, n) != 0) {
            const uint8_t *right = (const uint8_t *)&word;
            size_t k = 0;
            while (p[i + k] == right[k]) {
                k++;
            }
            return i + k;
        }
    }
    return len;
}

/* --- drawing --------------------------------------------------------------------------------- */

struct draw {
    uint64_t seed, count;
};

static unsigned below(struct draw *d, unsigned n)
{
    return (unsigned)(script_mix(d->seed, d->count++) % n);
}

/* Most messages are small; the lengths between are drawn on a logarithmic scale. */
static unsigned draw_len(struct draw *d)
{
    unsigned most = SCRIPT_SLOT - 2 * SCRIPT_MARGIN - 8, len = below(d, 2u << below(d, 15));

    return len < most ? len : most;
}

static enum script_end draw_end(struct draw *d)
{
    unsigned n = below(d, 32);

    return n < 8    ? END_ACTOR_CLOSES
           : n < 16 ? END_OTHER_CLOSES
           : n < 22 ? END_BOTH_CLOSE
           : n < 25 ? END_ABORT
           : n < 27 ? END_DESTROY
           : n < 29 ? END_WRONG
           : n < 31 ? END_REJECT
                    : END_EARLY;
}

void script_open(struct script *s, uint64_t seed)
{
    struct draw d = {seed, 0};

    *s = (struct script){.seed = seed, .rounds = 1 + below(&d, 1u << (1 + below(&d, 6)))};
    s->end = draw_end(&d);
    for (int i = 0; i < 2; i++) {
        s->srq[i] = below(&d, 3) == 0;
        s->polls[i] = below(&d, 4) == 0;
    }
    s->crc = below(&d, 4) != 0;
    s->markers = below(&d, 4) == 0;
    s->early = below(&d, 4) == 0;
    s->mpa_rev = below(&d, 4) ? 2 : 1;
    s->ulpdu_max = below(&d, 4) ? 0 : 128 + below(&d, 20000);
    s->connection_goes_first = below(&d, 2);

    /* What a destroyed queue pair has taken from a shared queue comes back by no completion. */
    if (s->end == END_DESTROY && (s->srq[0] || s->srq[1])) {
        s->end = END_ABORT;
    }
}

bool script_breaks_off(const struct script *s, unsigned number)
{
    return number + 1 == s->rounds &&
           (s->end == END_ABORT || s->end == END_DESTROY || s->end == END_WRONG);
}

bool script_receives(enum script_act act)
{
    return act == ACT_SEND || act == ACT_SEND_IMM || act == ACT_IMM || act == ACT_WRITE_IMM ||
           act == ACT_SEND_INV;
}

const char *script_act_name(enum script_act act)
{
    static const char *const names[ACTS] = {[ACT_SEND] = "send",
                                            [ACT_SEND_IMM] = "send with immediate",
                                            [ACT_IMM] = "immediate",
                                            [ACT_WRITE] = "write",
                                            [ACT_READ] = "read",
                                            [ACT_WRITE_IMM] = "write with immediate",
                                            [ACT_READ_INV] = "read with invalidate",
                                            [ACT_FETCH_ADD] = "fetch and add",
                                            [ACT_CMP_SWAP] = "compare and swap",
                                            [ACT_SEND_INV] = "send with invalidate"};

    return names[act];
}

static void draw_step(struct draw *d, struct script_step *step, bool may_read_inv)
{
    *step = (struct script_step){.act = (enum script_act)below(d, ACT_SEND_INV),
                                 .len = draw_len(d),
                                 .pieces = 1 + below(d, 3),
                                 .at = SCRIPT_MARGIN + below(d, 8),
                                 .solicited = below(d, 4) == 0,
                                 .signaled = below(d, 2) == 0,
                                 .key = script_mix(d->seed, d->count)};
    if (step->act == ACT_READ_INV && !may_read_inv) {
        step->act = ACT_READ;
    }
    if (step->act == ACT_READ_INV) {
        step->pieces = 1;
    }
    if (step->act == ACT_IMM) {
        step->len = 0;
    }
    if (step->act == ACT_FETCH_ADD || step->act == ACT_CMP_SWAP) {
        step->at = SCRIPT_MARGIN; /* aligned */
        step->len = 8;
        step->pieces = 1;
    }
    step->inlined = step->len <= 64 && below(d, 2) &&
                    (script_receives(step->act) || step->act == ACT_WRITE) && step->act != ACT_IMM;
}

/* In round 0 nothing can be bound yet: the responder's send queue waits for the first FPDU. */
static enum script_exposure draw_exposure(struct draw *d, unsigned number)
{
    return (enum script_exposure)below(d, number == 0 ? EXPOSE_FAST : EXPOSURES);
}

void script_round(const struct script *s, unsigned number, struct script_round *round)
{
    struct draw d = {script_mix(s->seed, 1000 + number), 0};
    unsigned read_invs = 0;

    *round = (struct script_round){.steps = below(&d, SCRIPT_STEPS + 1),
                                   .receives = 1,
                                   .exposure = draw_exposure(&d, number),
                                   .zero_based = below(&d, 2),
                                   .chained = below(&d, 2)};
    for (unsigned i = 0; i < round->steps; i++) {
        struct script_step *step = &round->step[i];
        draw_step(&d, step, read_invs == 0);
        read_invs += step->act == ACT_READ_INV;
        if (i + 1 == round->steps && below(&d, 2) &&
            (round->exposure == EXPOSE_FAST || round->exposure == EXPOSE_WINDOW_2)) {
            read_invs -= step->act == ACT_READ_INV;
            step->act = ACT_SEND_INV;
            step->inlined = false;
        }
        round->receives += script_receives(step->act);
    }
}

struct script_atomic script_atomic(const struct script_step *step)
{
    struct script_atomic a = {.before = script_mix(step->key, 1),
                              .operand = script_mix(step->key, 2)};
    uint64_t draw = script_mix(step->key, 3);

    if (step->act == ACT_FETCH_ADD && draw % 2) {
        a.mask = 0x8000000080000000u; /* two fields of 32 bits */
        a.after = (a.before + (a.operand & 0xffffffffu)) & 0xffffffffu;
        a.after |= ((a.before >> 32) + (a.operand >> 32)) << 32;
    } else if (step->act == ACT_FETCH_ADD) {
        a.after = a.before + a.operand;
    } else {
        a.mask = UINT64_MAX;
        a.compare = draw % 2 ? a.before : ~a.before;
        a.after = draw % 2 ? a.operand : a.before;
    }
    return a;
}
