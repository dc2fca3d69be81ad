/* SPDX-License-Identifier: BSD-2-Clause */
/* See replay.h. */
#include "replay.h"

#include "mpa/crc32c.h"
#include "mpa/mpa_frame.h"
#include "rdmap/rdmap_ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void replay_init(struct replay *r, enum iwarp_mpa_role sender, const struct iwarp_mpa_wish *wish,
                 bool crc)
{
    *r = (struct replay){.crc = crc};
    iwarp_mpa_setup_init(
        &r->setup, sender == IWARP_MPA_INITIATOR ? IWARP_MPA_RESPONDER : IWARP_MPA_INITIATOR, wish);
}

void replay_free(struct replay *r)
{
    octets_free(&r->carry);
    octets_free(&r->payload);
    free(r->fpdu);
    r->fpdu = NULL;
}

/* The segment must stand every check that needs no memory behind it. */
static void check_segment(const struct replay_fpdu *f)
{
    const struct iwarp_rdmap_segment s = {f->h.control, f->h.ulp_control, f->h.tagged, f->h.last,
                                          f->h.qn,      f->payload_len,   false,       false};
    struct iwarp_fault fault = {.code = IWARP_FAULT_NONE};

    if ((f->h.control & IWARP_DDP_VERSION_MASK) != IWARP_DDP_VERSION ||
        !iwarp_rdmap_check(&s, &fault)) {
        fail_msg("an FPDU that ends at octet %zu: %s", f->end, iwarp_fault_name(fault.code));
    }
}

static void take_fpdu(struct replay *r, const uint8_t *p, uint32_t len)
{
    struct replay_fpdu f = {.end = r->taken, .ulpdu_len = iwarp_get_be16(p)};
    uint32_t header = iwarp_ddp_header_len(p[IWARP_MPA_LEN_FIELD]);

    assert_true(f.ulpdu_len >= header);
    iwarp_ddp_header_get(p + IWARP_MPA_LEN_FIELD, &f.h);
    f.opcode = f.h.ulp_control & IWARP_RDMAP_OPCODE_MASK;
    f.pad = iwarp_mpa_pad(f.ulpdu_len);
    f.crc_field = iwarp_get_be32(p + len - IWARP_MPA_CRC_LEN);
    bool good =
        iwarp_crc32c(0, p, len - IWARP_MPA_CRC_LEN) == iwarp_get_le32(p + len - IWARP_MPA_CRC_LEN);
    f.crc = !r->crc ? REPLAY_CRC_OFF : good ? REPLAY_CRC_GOOD : REPLAY_CRC_BAD;
    f.payload = r->payload.n;
    f.payload_len = f.ulpdu_len - header;
    octets_add(&r->payload, p + IWARP_MPA_LEN_FIELD + header, f.payload_len);
    check_segment(&f);
    if (f.opcode == IWARP_OP_READ_REQUEST) {
        iwarp_rdmap_read_request_get(p + IWARP_MPA_LEN_FIELD + header, &f.read);
    }
    r->fpdu = realloc(r->fpdu, (r->fpdus + 1) * sizeof *r->fpdu);
    assert_non_null(r->fpdu);
    r->fpdu[r->fpdus++] = f;
}

/* Octets that the FPDU in `carry` still needs before anything can be said or done. */
static size_t missing(const struct replay *r)
{
    size_t need = IWARP_MPA_LEN_FIELD;

    if (r->carry.n >= IWARP_MPA_LEN_FIELD) {
        need = iwarp_mpa_fpdu_len(iwarp_get_be16(r->carry.p));
    }
    return need - r->carry.n;
}

static size_t take_setup(struct replay *r, const uint8_t *p, size_t n)
{
    size_t used = 0;
    enum iwarp_mpa_step step = iwarp_mpa_setup_feed(&r->setup, p, n, &used);

    if (step == IWARP_MPA_FAULT) {
        fail_msg("start-up frame: %s", iwarp_fault_name(r->setup.fault.code));
    }
    r->setup_len += used;
    return used;
}

void replay_feed(struct replay *r, const uint8_t *p, size_t n)
{
    while (n > 0) {
        size_t k;
        if (r->setup.step == IWARP_MPA_MORE) {
            k = take_setup(r, p, n);
            r->taken += k;
        } else {
            k = missing(r) < n ? missing(r) : n;
            octets_add(&r->carry, p, k);
            r->taken += k;
            if (r->carry.n > IWARP_MPA_LEN_FIELD && missing(r) == 0) {
                take_fpdu(r, r->carry.p, (uint32_t)r->carry.n);
                r->carry.n = 0;
            }
        }
        p += k;
        n -= k;
    }
}

void replay_expect_equal(const struct replay *a, const struct replay *b)
{
    assert_int_equal(a->setup.step, b->setup.step);
    assert_int_equal(a->setup_len, b->setup_len);
    assert_int_equal(a->setup.settled.crc, b->setup.settled.crc);
    assert_int_equal(a->setup.settled.rev, b->setup.settled.rev);
    assert_int_equal(a->setup.settled.ird, b->setup.settled.ird);
    assert_int_equal(a->setup.settled.ord, b->setup.settled.ord);
    octets_expect("an FPDU that is not whole", a->carry.p, a->carry.n, b->carry.p, b->carry.n);
    octets_expect("payload", a->payload.p, a->payload.n, b->payload.p, b->payload.n);
    assert_int_equal(a->fpdus, b->fpdus);
    for (unsigned i = 0; i < a->fpdus; i++) {
        const struct replay_fpdu *x = &a->fpdu[i], *y = &b->fpdu[i];
        assert_int_equal(x->end, y->end);
        assert_int_equal(x->h.control, y->h.control);
        assert_int_equal(x->h.ulp_control, y->h.ulp_control);
        assert_int_equal(x->h.stag, y->h.stag);
        assert_true(x->h.to == y->h.to);
        assert_int_equal(x->h.qn, y->h.qn);
        assert_int_equal(x->h.msn, y->h.msn);
        assert_int_equal(x->h.mo, y->h.mo);
        assert_int_equal(x->crc, y->crc);
        assert_int_equal(x->payload, y->payload);
        assert_int_equal(x->payload_len, y->payload_len);
    }
}
