/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows: an STag each, bound by work requests (post.c, stream_local.c, ddp_bind.c) to part
 * of a region. Verbs draft 7.10. A window is an entry of the same pool as a region (stag.c), so
 * peers name both alike, and the two count against max_regions together.
 */
#include "base/fault.h"
#include "base/log.h"
#include "base/process.h"
#include "ddp/ddp_bind.h"
#include "ddp/ddp_region.h"
#include "verbs/device.h"
#include "verbs/mr.h"
#include "verbs/qp.h"

/*
 * A window starts unbound: its STag is reserved and refused until a bind is carried out. Types 1
 * and 2 differ in who picks the key of the next STag, and in what may invalidate it
 * (iwarp/memory.h).
 */
enum iwarp_status iwarp_mw_alloc(struct iwarp_pd *pd, enum iwarp_mw_type type, struct iwarp_mw **mw)
{
    IWARP_UNCANCELLED;
    const struct iwarp_binding nothing = {0};
    struct iwarp_mr *entry;

    if (!IWARP_GIVEN(pd) || !IWARP_GIVEN(mw)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(pd->device);
    if (type != IWARP_MW_TYPE_1 && type != IWARP_MW_TYPE_2) {
        return iwarp_fail(IWARP_MISUSE, "unknown type of window %u", (unsigned)type);
    }
    enum iwarp_status status = iwarp_stag_take(
        pd, type == IWARP_MW_TYPE_1 ? REGION_WINDOW_1 : REGION_WINDOW_2, &nothing, false, &entry);
    if (status == IWARP_OK) {
        *mw = (void *)entry; /* entries are the first members of windows */
        iwarp_log(IWARP_LOG_DEBUG, "mw", "allocate: STag 0x%08x, type %u", iwarp_mw_stag(*mw),
                  (unsigned)type);
    }
    return status;
}

/*
 * A bound window is unbound by this. It waits until no stream uses the window, which is soon: a
 * stream lends a region for one batch only.
 */
enum iwarp_status iwarp_mw_free(struct iwarp_mw *mw)
{
    IWARP_UNCANCELLED;

    if (!IWARP_GIVEN(mw)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(mw->entry.pd->device);
    uint32_t stag = iwarp_mw_stag(mw);
    (void)iwarp_stag_revoke(&mw->entry); /* no window is bound to a window */
    iwarp_stag_give(&mw->entry);
    iwarp_log(IWARP_LOG_DEBUG, "mw", "free: STag 0x%08x", stag);
    return IWARP_OK;
}

/* The STag after all posted binds; until the last of them is carried out, peers need an older one.
 */
uint32_t iwarp_mw_stag(const struct iwarp_mw *mw)
{
    return IWARP_GIVEN(mw) ? atomic_load(&mw->entry.stag) : 0;
}

/*
 * Type 1 only: the library picks the next key, so that each bind makes the STag of the one before
 * invalid. It is posted as any other request, and carried out in order.
 */
enum iwarp_status iwarp_mw_bind(struct iwarp_qp *qp, struct iwarp_mw *mw,
                                const struct iwarp_bind *bind, uint64_t wr_id, unsigned flags)
{
    if (!IWARP_GIVEN(qp) || !IWARP_GIVEN(mw) || !IWARP_GIVEN(bind)) {
        return IWARP_MISUSE;
    }
    struct iwarp_bind b = *bind;
    const struct iwarp_send_wr wr = {
        .wr_id = wr_id, .opcode = IWARP_WR_BIND_MW, .flags = flags, .bind = &b};
    IWARP_ON_LOOP(qp->pd->device);
    if (mw->entry.region.kind != REGION_WINDOW_1) {
        return iwarp_fail(IWARP_MISUSE, "iwarp_mw_bind is for windows of type 1: post a BIND_MW");
    }
    b.mw = mw;
    b.key = (uint8_t)(iwarp_mw_stag(mw) + 1);
    return iwarp_post_send(qp, &wr, NULL);
}

enum iwarp_status iwarp_mw_query(struct iwarp_mw *mw, struct iwarp_stag_info *info)
{
    IWARP_UNCANCELLED;

    if (!IWARP_GIVEN(mw) || !IWARP_GIVEN(info)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(mw->entry.pd->device);
    return iwarp_stag_query(&mw->entry, info);
}
