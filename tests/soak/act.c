/* SPDX-License-Identifier: BSD-2-Clause */
/* Rounds: what is exposed before one, what is done in one, and what is there afterwards. */
#include "side.h"

#include <stdatomic.h>
#include <string.h>

#define POISON 0xee

/* Requests of a round, and what they point to while they are posted. */
struct posting {
    struct iwarp_send_wr wr[SCRIPT_STEPS + 1];
    struct iwarp_sge sge[SCRIPT_STEPS][3];
    unsigned n;
};

static uint64_t next_id(struct side *s, unsigned place)
{
    return (++s->count << 8) | place;
}

static bool is_atomic(enum script_act act)
{
    return act == ACT_FETCH_ADD || act == ACT_CMP_SWAP;
}

static bool is_fetch(enum script_act act)
{
    return act == ACT_READ || act == ACT_READ_INV || is_atomic(act);
}

/* Posts one request that this end needs for itself, for a window or region. */
static bool post_memory(struct side *s, enum iwarp_wr_opcode opcode, const struct iwarp_bind *bind,
                        uint32_t stag)
{
    const struct iwarp_send_wr wr = {.wr_id = next_id(s, REQUEST_MEMORY),
                                     .opcode = opcode,
                                     .bind = bind,
                                     .invalidate_stag = stag};

    return side_ok(s, iwarp_post_send(s->qp, &wr, NULL), "post for memory");
}

/* --- exposing -------------------------------------------------------------------------------- */

static bool expose_round(struct side *s)
{
    struct iwarp_mr_options o;

    iwarp_mr_options_init(&o, side_target(s, 0), SIDE_AREA,
                          SIDE_RIGHTS | (s->takes.zero_based ? IWARP_ACCESS_ZERO_BASED : 0));
    board_add(s->soak->board, BOARD_registrations, 1);
    return side_ok(s, iwarp_mr_create(s->pd, &o, &s->of_round), "register");
}

static bool expose_by_request(struct side *s, uint64_t *to)
{
    struct iwarp_bind bind = {.mr = s->exposed,
                              .addr = side_target(s, 0),
                              .len = SIDE_AREA,
                              .access = SIDE_RIGHTS & ~(unsigned)IWARP_ACCESS_LOCAL_WRITE,
                              .key = ++s->key};

    board_add(s->soak->board, BOARD_windows, s->takes.exposure != EXPOSE_FAST);
    if (s->takes.exposure == EXPOSE_WINDOW_1) {
        return side_ok(s, iwarp_mw_bind(s->qp, s->window[0], &bind, next_id(s, REQUEST_MEMORY), 0),
                       "bind");
    }
    bind.access |= s->takes.zero_based ? IWARP_ACCESS_ZERO_BASED : 0;
    *to = s->takes.zero_based ? 0 : *to;
    bind.to_base = *to;
    if (s->takes.exposure == EXPOSE_FAST) {
        bind.mr = s->fast;
        bind.access |= IWARP_ACCESS_LOCAL_WRITE;
        board_add(s->soak->board, BOARD_registrations, 1);
        return post_memory(s, IWARP_WR_REG_MR, &bind, 0);
    }
    bind.mw = s->window[1];
    return post_memory(s, IWARP_WR_BIND_MW, &bind, 0);
}

static bool expose(struct side *s)
{
    uint64_t to = (uintptr_t)side_target(s, 0);
    bool ok = true;

    switch (s->takes.exposure) {
    case EXPOSE_ROUND:
        ok = expose_round(s);
        to = ok ? iwarp_mr_to_base(s->of_round) : 0;
        s->takes_stag = ok ? iwarp_mr_stag(s->of_round) : 0;
        break;
    case EXPOSE_FAST:
        ok = expose_by_request(s, &to);
        s->takes_stag = iwarp_mr_stag(s->fast);
        break;
    case EXPOSE_WINDOW_1:
    case EXPOSE_WINDOW_2:
        ok = expose_by_request(s, &to);
        s->takes_stag = iwarp_mw_stag(s->window[s->takes.exposure == EXPOSE_WINDOW_2]);
        break;
    case EXPOSE_SESSION:
    case EXPOSURES:
        s->takes_stag = iwarp_mr_stag(s->exposed);
        break;
    }
    s->takes_to = to;
    return ok;
}

static bool unexpose(struct side *s)
{
    bool by_request = s->takes.exposure == EXPOSE_FAST || s->takes.exposure == EXPOSE_WINDOW_2;

    if (s->of_round) {
        if (iwarp_mr_deregister(s->of_round) != IWARP_OK) {
            side_fail(s, "deregister: %s", iwarp_last_error());
        }
        s->of_round = NULL;
    }
    if (by_request) {
        board_add(s->soak->board, BOARD_invalidates, 1);
    }
    /* After the last round the peer may have closed already, and what is posted now be flushed. */
    by_request = by_request && s->takes_number + 1 < s->script.rounds;
    return !by_request || s->invalidated || post_memory(s, IWARP_WR_LOCAL_INV, NULL, s->takes_stag);
}

/* --- before a round -------------------------------------------------------------------------- */

/* What the peer may write is poison, what it may read or change is there; margins are poison. */
static void lay_out(const struct side *s, const struct script_round *r)
{
    for (unsigned i = 0; i < r->steps; i++) {
        const struct script_step *step = &r->step[i];
        uint8_t *p = side_target(s, i);
        memset(p, POISON, step->at + step->len + SCRIPT_MARGIN);
        if (is_atomic(step->act)) {
            uint64_t before = script_atomic(step).before;
            memcpy(p + step->at, &before, sizeof before);
        } else if (is_fetch(step->act)) {
            script_fill(p + step->at, step->len, step->key);
        }
    }
}

static bool post_receives(struct side *s)
{
    for (unsigned i = 0; i < s->takes.receives && !s->script.srq[s->responder]; i++) {
        const struct iwarp_sge sge = {side_buffer(s, i), SCRIPT_SLOT, iwarp_mr_stag(s->memory)};
        const struct iwarp_recv_wr wr = {
            .wr_id = REQUEST_RECEIVE | i, .sg_list = &sge, .num_sge = 1};
        if (!side_ok(s, iwarp_post_recv(s->qp, &wr, NULL), "post a receive")) {
            return false;
        }
    }
    return true;
}

bool side_prepare(struct side *s, unsigned number)
{
    s->takes_number = number;
    s->received = 0;
    s->invalidated = false;
    if (number == s->script.rounds) {
        s->takes = (struct script_round){.steps = 0};
        return true;
    }
    script_round(&s->script, number, &s->takes);
    lay_out(s, &s->takes);
    return post_receives(s) && expose(s);
}

void side_word(const struct side *s, struct word *word)
{
    *word = (struct word){
        .seed = s->script.seed, .round = s->takes_number, .stag = s->takes_stag, .to = s->takes_to};
}

/* --- acting ---------------------------------------------------------------------------------- */

static void count(const struct side *s, enum script_act act)
{
    board_add(s->soak->board,
              is_atomic(act)                                                  ? BOARD_atomics
              : is_fetch(act)                                                 ? BOARD_reads
              : act == ACT_WRITE                                              ? BOARD_writes
              : act == ACT_IMM || act == ACT_WRITE_IMM || act == ACT_SEND_IMM ? BOARD_immediates
                                                                              : BOARD_sends,
              1);
}

static enum iwarp_wr_opcode opcode_of(enum script_act act)
{
    static const enum iwarp_wr_opcode opcodes[ACTS] = {
        [ACT_SEND] = IWARP_WR_SEND,
        [ACT_SEND_IMM] = IWARP_WR_SEND_IMM,
        [ACT_IMM] = IWARP_WR_IMM,
        [ACT_WRITE] = IWARP_WR_WRITE,
        [ACT_WRITE_IMM] = IWARP_WR_WRITE_IMM,
        [ACT_READ] = IWARP_WR_READ,
        [ACT_READ_INV] = IWARP_WR_READ_INV,
        [ACT_FETCH_ADD] = IWARP_WR_ATOMIC_FETCH_ADD,
        [ACT_CMP_SWAP] = IWARP_WR_ATOMIC_CMP_SWAP,
        [ACT_SEND_INV] = IWARP_WR_SEND_INV,
    };

    return opcodes[act];
}

static void cut(const struct side *s, const struct script_step *step, unsigned place,
                struct iwarp_sge *sge)
{
    uint8_t *p = side_local(s, place) + step->at;
    unsigned part = step->len / step->pieces;

    for (unsigned i = 0; i < step->pieces; i++) {
        sge[i] = (struct iwarp_sge){p + i * part, part, iwarp_mr_stag(s->memory)};
    }
    sge[step->pieces - 1].len = step->len - (step->pieces - 1) * part;
}

/* The sink of an RDMA Read with invalidation has a region of its own. */
static bool sink(struct side *s, struct iwarp_sge *sge)
{
    board_add(s->soak->board, BOARD_registrations, 1);
    if (!side_ok(s,
                 iwarp_mr_register(s->pd, sge->addr, sge->len, IWARP_ACCESS_LOCAL_WRITE, &s->sink),
                 "register")) {
        return false;
    }
    sge->lkey = iwarp_mr_stag(s->sink);
    return true;
}

static bool add_step(struct side *s, const struct script_step *step, unsigned place,
                     struct posting *p)
{
    uint8_t *local = side_local(s, place);
    struct iwarp_sge *sge = p->sge[place];
    const struct script_atomic a = script_atomic(step);
    bool fetches = is_fetch(step->act);

    memset(local, POISON, step->at + step->len + SCRIPT_MARGIN);
    if (!fetches) {
        script_fill(local + step->at, step->len, step->key);
        if (s->planted && s->soak->plant == PLANT_OCTET && step->len > 0) {
            local[step->at + step->len / 2] ^= 0x10;
        }
    }
    cut(s, step, place, sge);
    if (step->act == ACT_READ_INV && !sink(s, sge)) {
        return false;
    }
    /* Of both ends: what is invalidated must not be in use by a read any more. */
    unsigned flags = (fetches || step->signaled ? IWARP_WR_SIGNALED : 0) |
                     (step->solicited && script_receives(step->act) ? IWARP_WR_SOLICITED : 0) |
                     (step->inlined ? IWARP_WR_INLINE : 0) |
                     (step->act == ACT_SEND_INV ? IWARP_WR_FENCE : 0);
    p->wr[p->n++] =
        (struct iwarp_send_wr){.wr_id = next_id(s, place),
                               .opcode = opcode_of(step->act),
                               .flags = flags,
                               .sg_list = sge,
                               .num_sge = step->act == ACT_IMM ? 0 : step->pieces,
                               .invalidate_stag = s->word.stag,
                               .remote_stag = s->word.stag,
                               .remote_to = s->word.to + (uint64_t)place * SCRIPT_SLOT + step->at,
                               .imm = step->act == ACT_SEND_IMM ? (uint32_t)step->key : step->key,
                               .operand = a.operand,
                               .mask = a.mask,
                               .compare = a.compare,
                               .compare_mask = UINT64_MAX};
    count(s, step->act);
    return true;
}

static bool post_all(struct side *s, struct posting *p)
{
    for (unsigned i = 0; i < p->n; i++) {
        bool last = i + 1 == p->n || !s->acts.chained;
        p->wr[i].next = last ? NULL : &p->wr[i + 1];
    }
    for (unsigned i = 0; i < p->n; i += s->acts.chained ? p->n : 1) {
        if (!side_ok(s, iwarp_post_send(s->qp, &p->wr[i], NULL), "post")) {
            return false;
        }
    }
    return true;
}

static bool post_word(struct side *s)
{
    struct word word;
    const struct iwarp_sge sge = {&word, sizeof word, 0};
    const struct iwarp_send_wr wr = {.wr_id = s->word_id = next_id(s, REQUEST_WORD),
                                     .opcode = IWARP_WR_SEND,
                                     .flags = IWARP_WR_SIGNALED | IWARP_WR_INLINE | IWARP_WR_FENCE,
                                     .sg_list = &sge,
                                     .num_sge = 1};

    side_word(s, &word);
    return side_ok(s, iwarp_post_send(s->qp, &wr, NULL), "post the word");
}

static void expect_margins(const struct side *s, const struct script_step *step, const uint8_t *p)
{
    for (unsigned i = 0; i < step->at + SCRIPT_MARGIN; i++) {
        const uint8_t *margin = i < step->at ? p + i : p + step->len + i;
        if (*margin != POISON) {
            side_fail(s, "wrong octet: %td, outside of the %u of a %s at %u", margin - p, step->len,
                      script_act_name(step->act), step->at);
        }
    }
}

static void expect_number(const struct side *s, const struct script_step *step, const uint8_t *p,
                          uint64_t right)
{
    uint64_t found;

    memcpy(&found, p + step->at, sizeof found);
    if (found != right) {
        side_fail(s, "wrong octet: a %s has 0x%llx, not 0x%llx", script_act_name(step->act),
                  (unsigned long long)found, (unsigned long long)right);
    }
}

static void expect_fetched(struct side *s)
{
    for (unsigned i = 0; i < s->acts.steps; i++) {
        const struct script_step *step = &s->acts.step[i];
        if (is_atomic(step->act)) {
            expect_number(s, step, side_local(s, i), script_atomic(step).before);
        } else if (is_fetch(step->act)) {
            side_expect_octets(s, side_local(s, i) + step->at, step, "fetched");
        }
        expect_margins(s, step, side_local(s, i));
    }
    if (s->sink && iwarp_mr_deregister(s->sink) != IWARP_OK) {
        side_fail(s, "deregister: %s", iwarp_last_error());
    }
    s->sink = NULL;
}

/* The peer sees it as the end of the session, whatever it is. */
static void break_off(struct side *s)
{
    const struct iwarp_sge sge = {s->octets, 64, iwarp_mr_stag(s->memory)};
    const struct iwarp_send_wr wrong = {.wr_id = next_id(s, REQUEST_MEMORY),
                                        .opcode = IWARP_WR_WRITE,
                                        .sg_list = &sge,
                                        .num_sge = 1,
                                        .remote_stag = s->word.stag,
                                        .remote_to = s->word.to + SIDE_AREA - 32};

    board_say(s->lane, "breaks off in round %u", s->script.rounds - 1);
    if (s->script.end == END_WRONG) {
        (void)side_ok(s, iwarp_post_send(s->qp, &wrong, NULL), "post a wrong write");
        while (side_take(s)) {
        }
    } else if (s->script.end == END_ABORT) {
        (void)side_ok(s, iwarp_abort(s->conn), "abort");
    } else {
        (void)side_ok(s, iwarp_qp_destroy(s->qp), "destroy the queue pair");
        s->qp = NULL;
    }
    s->ended = true;
}

bool side_act(struct side *s, unsigned number)
{
    struct posting p = {.n = 0};

    script_round(&s->script, number, &s->acts);
    board_say(s->lane, "acts in round %u of %u: posts %u requests", number, s->script.rounds,
              s->acts.steps);
    for (unsigned i = 0; i < s->acts.steps; i++) {
        if (!add_step(s, &s->acts.step[i], i, &p)) {
            return false;
        }
    }
    if (!post_all(s, &p)) {
        return false;
    }
    if (script_breaks_off(&s->script, number)) {
        break_off(s);
        return false;
    }
    if (s->planted && s->soak->plant == PLANT_HANG) {
        side_hang(s);
    }
    if (!side_prepare(s, number + 1) || !post_word(s)) {
        return false;
    }
    board_say(s->lane, "acts in round %u of %u: waits for %u requests, the last a %s", number,
              s->script.rounds, s->acts.steps,
              s->acts.steps ? script_act_name(s->acts.step[s->acts.steps - 1].act) : "word");
    while (s->last < s->word_id) {
        if (!side_take(s)) {
            return false;
        }
    }
    expect_fetched(s);
    return true;
}

/* --- receiving ------------------------------------------------------------------------------- */

static void expect_targets(const struct side *s)
{
    for (unsigned i = 0; i < s->takes.steps; i++) {
        const struct script_step *step = &s->takes.step[i];
        const uint8_t *p = side_target(s, i);
        if (is_atomic(step->act)) {
            expect_number(s, step, p, script_atomic(step).after);
        } else if (step->act == ACT_WRITE || step->act == ACT_WRITE_IMM) {
            side_expect_octets(s, p + step->at, step, "written");
        }
        expect_margins(s, step, p);
    }
}

bool side_receive(struct side *s, unsigned number)
{
    while (s->received < s->takes.receives) {
        board_say(s->lane, "round %u of %u: waits for receive %u of %u", number, s->script.rounds,
                  s->received + 1, s->takes.receives);
        unsigned before = s->received;
        while (s->received == before) {
            if (!side_take(s)) {
                return false;
            }
        }
    }
    expect_targets(s);
    return unexpose(s);
}
