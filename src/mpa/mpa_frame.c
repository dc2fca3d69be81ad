/* SPDX-License-Identifier: BSD-2-Clause */
/* The MULPDU formula of RFC 5044 4.5. */
#include "mpa/mpa_frame.h"

/* [MPA-3-04] [MPA-4.5-05] [MPA-4.5-06] [MPA-4.5-01] [MPA-4.5-02] */
uint32_t iwarp_mpa_mulpdu(uint32_t emss, int markers)
{
    uint32_t overhead = IWARP_MPA_LEN_FIELD + IWARP_MPA_CRC_LEN + emss % 4;

    if (markers) {
        overhead += IWARP_MPA_MARKER_LEN *
                    ((emss + IWARP_MPA_MARKER_SPACING - 1) / IWARP_MPA_MARKER_SPACING);
    }
    if (emss < overhead + IWARP_MPA_MULPDU_MIN) {
        return IWARP_MPA_MULPDU_MIN;
    }
    emss -= overhead;
    return emss > IWARP_MPA_ULPDU_MAX ? IWARP_MPA_ULPDU_MAX : emss;
}
