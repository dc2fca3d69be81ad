/* SPDX-License-Identifier: BSD-2-Clause */
/* Handlers of signals that the preload library holds back (preload/signals.h). */
#include "rsocket/rs.h"
#include "rspreload/adopt.h"

static const struct iwarp_rs_signals *signals; /* NULL: handlers run at once */

void iwarp_rs_hold_signals(const struct iwarp_rs_signals *how)
{
    signals = how;
}

bool rs_signals_are_held(void)
{
    return signals && signals->held();
}

bool rs_signal_came(void)
{
    return signals && signals->came();
}

bool rs_cancel_came(void)
{
    return signals && signals->cancelled();
}

void rs_signals_sleep_on(_Atomic unsigned *turn)
{
    if (signals) {
        signals->sleep_on(turn);
    }
}
