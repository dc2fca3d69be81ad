/* SPDX-License-Identifier: BSD-2-Clause */
/* Completions: each in its turn, with the right status, kind and length, and each received octet
 * right. */
#include "side.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void side_expect_octets(const struct side *s, const uint8_t *p, const struct script_step *step,
                        const char *where)
{
    size_t bad = script_differs(p, step->len, step->key);

    if (bad < step->len) {
        side_fail(s, "wrong octet: %zu of %u of a %s, %s, is 0x%02x", bad, step->len,
                  script_act_name(step->act), where, p[bad]);
    }
    board_add(s->soak->board, BOARD_octets, step->len);
}

/* The step that takes receive number n of the round, and its place; NULL: the word at the end. */
static const struct script_step *receiving(const struct script_round *r, unsigned n,
                                           unsigned *place)
{
    for (unsigned i = 0; i < r->steps; i++) {
        if (script_receives(r->step[i].act) && n-- == 0) {
            *place = i;
            return &r->step[i];
        }
    }
    return NULL;
}

/*
 * The octets of the RDMA Write that Immediate Data on the wire follow immediately: those of one
 * request count as those of two (verbs.h).
 */
static unsigned written(const struct script_round *r, unsigned i)
{
    const struct script_step *step = &r->step[i];

    if (step->act == ACT_WRITE_IMM) {
        return step->len;
    }
    return i > 0 && r->step[i - 1].act == ACT_WRITE ? r->step[i - 1].len : 0;
}

static void expect_receive(struct side *s, const struct iwarp_wc *wc,
                           const struct script_step *step, unsigned place, const uint8_t *p)
{
    bool imm = step->act == ACT_IMM || step->act == ACT_WRITE_IMM;
    unsigned flags = 0;

    flags |= imm ? IWARP_WC_WITH_IMM : 0;
    flags |= step->act == ACT_SEND_IMM ? IWARP_WC_WITH_IMM | IWARP_WC_IMM_OF_SEND : 0;
    flags |= step->act == ACT_SEND_INV ? IWARP_WC_WITH_INVALIDATE : 0;
    flags |= step->solicited ? IWARP_WC_SOLICITED : 0;
    if (wc->flags != flags || wc->byte_len != (imm ? written(&s->takes, place) : step->len)) {
        side_fail(s,
                  "receive of step %u, a %s of %u octets, has %u octets and flags 0x%x, not 0x%x",
                  place, script_act_name(step->act), step->len, wc->byte_len, wc->flags, flags);
    }
    uint64_t sent = step->act == ACT_SEND_IMM ? (uint32_t)step->key : step->key;
    if ((flags & IWARP_WC_WITH_IMM) && wc->imm != sent) {
        side_fail(s, "wrong octet: immediate data of step %u are 0x%llx, not 0x%llx", place,
                  (unsigned long long)wc->imm, (unsigned long long)sent);
    }
    if (step->act == ACT_SEND_INV) {
        s->invalidated = true;
        if (wc->invalidated_stag != s->takes_stag) {
            side_fail(s, "STag 0x%x is invalidated, not 0x%x", wc->invalidated_stag, s->takes_stag);
        }
    }
    if (!imm) {
        side_expect_octets(s, p, step, "received");
    }
}

static void expect_word(struct side *s, const struct iwarp_wc *wc, const uint8_t *p)
{
    memcpy(&s->word, p, sizeof s->word);
    if (wc->byte_len != sizeof s->word || wc->flags != 0 || s->word.seed != s->script.seed ||
        s->word.round != s->takes_number + 1) {
        side_fail(s, "wrong octet: the word of round %u has %u octets, flags 0x%x, round %u",
                  s->takes_number, wc->byte_len, wc->flags, s->word.round);
    }
}

static void take_receive(struct side *s, const struct iwarp_wc *wc)
{
    unsigned buffer = (unsigned)(wc->wr_id & 0xffff), place = 0;
    bool shared = s->script.srq[s->responder];
    const uint8_t *p =
        shared ? pool_buffer(&s->soak->pool, buffer) : side_buffer(s, buffer % (SCRIPT_STEPS + 1));

    if (wc->status == IWARP_WC_SUCCESS) {
        if (s->received >= s->takes.receives || (!shared && buffer != s->received)) {
            side_fail(s, "receive %u completes as number %u of %u", buffer, s->received,
                      s->takes.receives);
        }
        const struct script_step *step = receiving(&s->takes, s->received, &place);
        if (step) {
            expect_receive(s, wc, step, place, p);
        } else {
            expect_word(s, wc, p);
        }
        s->received++;
    }
    if (shared) {
        board_add(s->soak->board, BOARD_shared_receives, 1);
        pool_post(&s->soak->pool, buffer);
    }
}

static void take_sent(struct side *s, const struct iwarp_wc *wc)
{
    unsigned place = (unsigned)(wc->wr_id & 0xff);

    if (wc->wr_id <= s->last) {
        side_fail(s, "request 0x%llx completes after 0x%llx", (unsigned long long)wc->wr_id,
                  (unsigned long long)s->last);
    }
    s->last = wc->wr_id;
    if (place >= s->acts.steps) {
        return;
    }
    const struct script_step *step = &s->acts.step[place];
    static const enum iwarp_wc_opcode opcodes[ACTS] = {
        [ACT_SEND] = IWARP_WC_SEND,         [ACT_SEND_IMM] = IWARP_WC_SEND,
        [ACT_SEND_INV] = IWARP_WC_SEND,     [ACT_IMM] = IWARP_WC_IMM,
        [ACT_WRITE] = IWARP_WC_WRITE,       [ACT_WRITE_IMM] = IWARP_WC_WRITE,
        [ACT_READ] = IWARP_WC_READ,         [ACT_READ_INV] = IWARP_WC_READ,
        [ACT_CMP_SWAP] = IWARP_WC_CMP_SWAP, [ACT_FETCH_ADD] = IWARP_WC_FETCH_ADD};
    if (wc->opcode != opcodes[step->act]) {
        side_fail(s, "step %u, a %s, completes with opcode %d", place, script_act_name(step->act),
                  (int)wc->opcode);
    }
    if (wc->opcode == IWARP_WC_READ && wc->byte_len != step->len) {
        side_fail(s, "step %u reads %u octets of %u", place, wc->byte_len, step->len);
    }
}

static void take_one(struct side *s, const struct iwarp_wc *wc)
{
    if (wc->status != IWARP_WC_SUCCESS && !s->ended) {
        char why[300];
        iwarp_fault_text(wc->fault, why, sizeof why);
        snprintf(s->why, sizeof s->why, "request 0x%llx: %s: %s", (unsigned long long)wc->wr_id,
                 iwarp_wc_status_text(wc->status), wc->fault ? why : "no fault");
        s->ended = true;
    }
    if (wc->wr_id & REQUEST_RECEIVE) {
        take_receive(s, wc);
    } else if (wc->status == IWARP_WC_SUCCESS) {
        take_sent(s, wc);
    }
    atomic_fetch_add(&s->lane->beats, 1);
}

/* A queue pair with a shared queue may end without a completion: look at it when nothing comes. */
bool side_take(struct side *s)
{
    struct iwarp_wc wc[8];
    bool polls = s->script.polls[s->responder];
    bool over = iwarp_qp_state(s->qp) == IWARP_QP_ERROR;
    int n = polls || over ? iwarp_cq_poll(s->cq, wc, 8) : iwarp_cq_wait(s->cq, wc, 8, 50);

    if (n < 0) {
        side_fail(s, "completion queue: %s", iwarp_last_error());
    }
    for (int i = 0; i < n; i++) {
        take_one(s, &wc[i]);
    }
    if (n == 0 && over) {
        if (!s->ended) {
            snprintf(s->why, sizeof s->why, "the queue pair has ended");
        }
        s->ended = true;
        return false;
    }
    /* Polls without a pause, but leaves the processor to others now and then. */
    s->empty = n == 0 && polls ? s->empty + 1 : 0;
    if (s->empty % 4096 == 4095) {
        usleep(100);
    }
    return true;
}

void side_take_rest(struct side *s)
{
    struct iwarp_wc wc;

    while (s->cq && iwarp_cq_poll(s->cq, &wc, 1) == 1) {
        take_one(s, &wc);
    }
}
