/* SPDX-License-Identifier: BSD-2-Clause */
/* Time that is used up by waiting and given back by octets. */
#include "standing.h"

#include "channel.h"
#include "clock.h"
#include "limits.h"

static uint64_t count_octets(const struct cp_standing *standing)
{
    return standing->qp ? cp_channel_octets(standing->qp, standing->octets) : standing->octets;
}

/* Charge for the time since the last call, and give for the octets. Under the lock. */
static void settle(struct cp_standing *standing)
{
    int64_t now = cp_clock_ms();
    uint64_t octets = count_octets(standing);

    if (!standing->working) {
        standing->left_ms -= now - standing->since_ms;
        standing->left_ms += (int64_t)((octets - standing->octets) / CP_PACE);
        if (standing->left_ms > CP_GRACE_MS) {
            standing->left_ms = CP_GRACE_MS;
        }
    }
    standing->since_ms = now;
    standing->octets = octets;
}

void cp_standing_begin(struct cp_standing *standing)
{
    *standing = (struct cp_standing){.since_ms = cp_clock_ms(), .left_ms = CP_ASK_MS};
    pthread_mutex_init(&standing->lock, NULL);
}

void cp_standing_watch(struct cp_standing *standing, struct iwarp_qp *qp)
{
    pthread_mutex_lock(&standing->lock);
    standing->qp = qp;
    standing->octets = 0;
    standing->octets = count_octets(standing);
    pthread_mutex_unlock(&standing->lock);
}

void cp_standing_asked(struct cp_standing *standing)
{
    pthread_mutex_lock(&standing->lock);
    standing->left_ms = CP_GRACE_MS;
    pthread_mutex_unlock(&standing->lock);
}

void cp_standing_work(struct cp_standing *standing, bool working)
{
    pthread_mutex_lock(&standing->lock);
    settle(standing);
    standing->working = working;
    pthread_mutex_unlock(&standing->lock);
}

int64_t cp_standing_left(struct cp_standing *standing)
{
    pthread_mutex_lock(&standing->lock);
    settle(standing);
    int64_t left = standing->working ? CP_GRACE_MS + 1 : standing->left_ms;
    pthread_mutex_unlock(&standing->lock);
    return left;
}

void cp_standing_end(struct cp_standing *standing)
{
    pthread_mutex_destroy(&standing->lock);
}
