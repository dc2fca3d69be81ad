/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/request.h"

#include <string.h>

enum first_octets first_octets(const void *octets, size_t n)
{
    static const char key[] = "MPA ID Req Frame";
    _Static_assert(sizeof key - 1 == FIRST_OCTETS, "16 octets");
    const size_t compared = n < FIRST_OCTETS ? n : FIRST_OCTETS;

    if (memcmp(octets, key, compared) != 0) {
        return FIRST_OTHER;
    }
    return compared == FIRST_OCTETS ? FIRST_REQUEST : compared > 0 ? FIRST_PART : FIRST_NOTHING;
}

bool request_is_whole(const void *octets, size_t n)
{
    const unsigned char *at = octets;

    /* RFC 5044 7.1.1: the last two octets of the header are the length of the private data. */
    return first_octets(octets, n) == FIRST_REQUEST && n >= IWARP_MPA_FRAME_HDR_LEN &&
           n - IWARP_MPA_FRAME_HDR_LEN >= (size_t)(at[18] << 8 | at[19]);
}
