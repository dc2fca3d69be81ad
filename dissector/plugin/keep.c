/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory for what is kept of each FPDU as long as the file. Wireshark's own allocator would lay it
 * between what TCP keeps of each segment, and TCP walks over all segments that are not
 * acknowledged, for each one that comes: in a capture without acknowledgements that walk is most
 * of the time, and the wider apart they lie, the longer it takes. So ours comes from pieces apart.
 * Single objects are never given back.
 */
#include "state.h"

#ifndef __SANITIZE_ADDRESS__
enum { PIECE = 64 * 1024, ALIGNMENT = 16 };

static uint8_t *piece;
static size_t left;
#endif

void iwarp_keep_reset(void)
{
#ifndef __SANITIZE_ADDRESS__
    piece = NULL; /* gone with the file */
    left = 0;
#endif
}

void *iwarp_keep(size_t n)
{
#ifdef __SANITIZE_ADDRESS__
    /* Each by itself, so that the sanitizer sees its end. */
    return wmem_alloc0(wmem_file_scope(), n);
#else
    const size_t size = (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *p;

    if (size > PIECE / 4) {
        return wmem_alloc0(wmem_file_scope(), n);
    }
    if (size > left) {
        piece = (uint8_t *)wmem_alloc(wmem_file_scope(), PIECE);
        left = PIECE;
    }
    p = piece;
    piece += size;
    left -= size;
    return memset(p, 0, n);
#endif
}
