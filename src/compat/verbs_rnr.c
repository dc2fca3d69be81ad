/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How long messages wait for receives, see rnr.h. InfiniBand Architecture Specification, volume
 * 1, 9.7.5.2.8, table "RNR NAK timer field".
 */
#include "base/settings.h"
#include "compat/rnr.h"

#include <iwarp/conn.h>

#define FOREVER 7

unsigned iwarp_compat_rnr_ms(unsigned retry, unsigned timer, unsigned longest)
{
    /* In units of 10 us. */
    static const unsigned times[32] = {65536, 1,    2,    3,     4,     6,     8,     12,
                                       16,    24,   32,   48,    64,    96,    128,   192,
                                       256,   384,  512,  768,   1024,  1536,  2048,  3072,
                                       4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};

    if (retry >= FOREVER) {
        return longest;
    }
    unsigned ms = (retry * times[timer < 32 ? timer : 31] + 99) / 100;
    return ms < longest ? ms : longest;
}

unsigned iwarp_compat_rnr_timeout(unsigned retry, unsigned timer)
{
    const unsigned most = IWARP_RNR_OF_DEVICE - 1;
    unsigned chosen = iwarp_setting_number("IWARP_RNR_TIMEOUT", 0, most, IWARP_RNR_OF_DEVICE);
    unsigned longest = iwarp_setting_number("IWARP_RNR_MAX", 0, most, 60000);

    return chosen <= most ? chosen : iwarp_compat_rnr_ms(retry, timer, longest);
}
